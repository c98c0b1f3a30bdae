//! A position in the text of an expression.
//!
//! Contract: moves only forwards unless its owner sets it back. Errors give the position as a count
//! of characters from 1, and show only the surroundings of the position in a long text.

use outcore_io::Error;

/// Number of characters that an error shows on either side of the position.
const AROUND_MAX: usize = 40;

/// An operator between two operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operator<T> {
    pub(super) text: &'static str,
    pub(super) meaning: T,
    /// An operator binds its operands before one of less strength does.
    pub(super) strength: u8,
}

/// A text, and how far it has been read.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    hint: &'static str,
}

impl<'a> Cursor<'a> {
    /// The beginning of `text`; errors contain `hint`.
    pub(super) fn new(text: &'a str, hint: &'static str) -> Self {
        Cursor { text, at: 0, hint }
    }

    /// Number of bytes read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes back to the position `at`, a result of [`Cursor::at`].
    pub(super) fn set_back(&mut self, at: usize) {
        self.at = at;
    }

    /// The text that was read.
    pub(super) fn before(&self) -> &'a str {
        &self.text[..self.at]
    }

    /// The unread text.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Whether all was read.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// Reads `len_bytes`, up to a character boundary.
    pub(super) fn advance(&mut self, len_bytes: usize) {
        self.at += len_bytes;
    }

    /// Reads spaces.
    pub(super) fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Reads spaces, and `token` if it comes next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let is_there = self.rest().starts_with(token);
        if is_there {
            self.at += token.len();
        }
        is_there
    }

    /// Reads spaces, and the whole word `word`, in any case, if it comes next.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let is_there = self.has_word(word);
        if is_there {
            self.at += word.len();
        }
        is_there
    }

    /// Reads spaces and returns the longest of `operators` that comes
    /// next, without reading it. An operator that is a word must be a whole word.
    pub(super) fn operator<T: Copy>(&mut self, operators: &[Operator<T>]) -> Option<Operator<T>> {
        self.skip_space();
        let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
        let fits = |operator: &&Operator<T>| match is_word(operator.text) {
            true => self.has_word(operator.text),
            false => self.rest().starts_with(operator.text),
        };
        let found = operators.iter().filter(fits);
        found.max_by_key(|operator| operator.text.len()).copied()
    }

    /// Whether the whole word `word`, in any case, comes next.
    pub(super) fn has_word(&self, word: &str) -> bool {
        let front = self.rest().get(..word.len());
        let is_word = front.is_some_and(|front| front.eq_ignore_ascii_case(word));
        is_word && !self.rest()[word.len()..].starts_with(is_in_name)
    }

    /// A usage error with `cause` at this position.
    pub(super) fn wrong(&self, cause: &str) -> Error {
        let place = self.text[..self.at].chars().count() + 1;
        let shown = self.shown();
        let found = match self.rest().chars().next() {
            Some(found) => format!("at `{found}`, character {place} of `{shown}`"),
            None => format!("at the end of `{shown}`"),
        };
        Error::usage("read expression", format!("{cause} {found}")).hint(self.hint)
    }

    /// The text; of a long text, the surroundings of the position.
    pub(super) fn shown(&self) -> String {
        let (before, after) = self.text.split_at(self.at);
        let from = before.char_indices().rev().nth(AROUND_MAX);
        let to = after.char_indices().nth(AROUND_MAX);
        let from = from.map_or(0, |(at, c)| at + c.len_utf8());
        let to = self.at + to.map_or(after.len(), |(at, _)| at);
        let dots = |is_cut| if is_cut { "..." } else { "" };
        let (head, tail) = (dots(from > 0), dots(to < self.text.len()));
        format!("{head}{}{tail}", &self.text[from..to])
    }
}

/// Whether names and words may contain a character.
pub(super) fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
