//! An option of another tool, and the hints that it leads to.
//!
//! Contract: a hint says for which commands it is, and which option they must have.

/// The meaning of some options of other tools in outcore.
pub(super) struct Meaning {
    pub(super) words: &'static [&'static str],
    pub(super) hints: &'static [Hint],
}

/// An equivalent.
pub(super) struct Hint {
    /// The commands that it is for; empty for all.
    pub(super) of: &'static [&'static str],
    /// The option that the command must have; empty for none.
    pub(super) needs: &'static str,
    pub(super) text: &'static str,
}

/// A hint for commands that have an option.
pub(super) const fn with(needs: &'static str, text: &'static str) -> Hint {
    Hint {
        of: &[],
        needs,
        text,
    }
}

/// A hint for some commands.
pub(super) const fn of(of: &'static [&'static str], text: &'static str) -> Hint {
    Hint {
        of,
        needs: "",
        text,
    }
}

/// A hint for all commands.
pub(super) const fn always(text: &'static str) -> Hint {
    of(&[], text)
}

pub(super) const BY: Hint = with(
    "--by",
    "--by COLUMN is the key; repeat it for further columns",
);
pub(super) const ON: Hint = with(
    "--on",
    "--on COLUMN joins on a column, --on LEFT=RIGHT on two of different names",
);
