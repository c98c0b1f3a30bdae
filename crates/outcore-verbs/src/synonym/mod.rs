//! Words that users try first, with their equivalents here.
//!
//! Contract: a hint follows from the meaning of a word, not from its letters: `commands` has the
//! commands of other tools, `options` their options. A command gets a hint only if it has the
//! options that the hint names. Spelling decides only if a word is almost a name that the command
//! has, and never for an option that overwrites or removes something. All functions are pure.

mod commands;
mod further;
mod meaning;
mod options;

use clap::{Arg, Command};

pub(crate) use commands::of_command;
pub use commands::{Known, words as words_of_commands};
pub(crate) use options::of_operand;
pub use options::{of_option, words as words_of_options};

/// Options that must be typed as they are.
const DANGEROUS: [&str; 4] = ["delete-input", "force", "replace", "write-ok"];

/// Whether `command` has the option `flag`, which begins with its dashes.
fn has(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => flag.chars().nth(1) == arg.get_short() && arg.get_short().is_some(),
    };
    command.get_arguments().any(is_it)
}

/// The option of `command` that is almost `word`, or that it abbreviates.
pub(crate) fn near_option(word: &str, command: &Command) -> Option<String> {
    let typed = word.strip_prefix("--")?;
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let own = command.get_version().map(|_| "version");
    let longs: Vec<&str> = visible.filter_map(Arg::get_long).chain(own).collect();
    near(typed, &longs).map(|found| format!("--{found}"))
}

/// The command below `command` that is almost `word`.
pub(crate) fn near_command(word: &str, command: &Command) -> Option<String> {
    let visible = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let names: Vec<&str> = visible.map(Command::get_name).collect();
    let word = &*word.to_ascii_lowercase();
    if let Some(same) = names.iter().find(|name| **name == word) {
        return Some((*same).to_owned());
    }
    near(word, &names).map(str::to_owned)
}

fn near<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let wrong_letters_max = match typed.len() {
        0..=2 => return None,
        3..=7 => 1,
        _ => 2,
    };
    let is_near = |name: &&&str| {
        let wrong_letters = strsim::osa_distance(typed, name);
        let limit = match DANGEROUS.contains(*name) {
            true => 1,
            false => wrong_letters_max,
        };
        wrong_letters <= limit && typed.as_bytes().first() == name.as_bytes().first()
    };
    let nearest = names.iter().filter(is_near);
    if let Some(found) = nearest.min_by_key(|name| strsim::osa_distance(typed, name)) {
        return Some(found);
    }
    // A word that is a whole part of a longer name means something else: `--keep` is not
    // `--keep-order`.
    let continues = |name: &&&str| {
        let rest = name.strip_prefix(typed);
        rest.is_some_and(|rest| !rest.starts_with('-')) && !DANGEROUS.contains(*name)
    };
    let mut abbreviated = names.iter().filter(continues);
    match (abbreviated.next(), abbreviated.next()) {
        (Some(found), None) => Some(found),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_taken_for_another_only_if_few_letters_are_wrong() {
        let names = [
            "by",
            "force",
            "keep-order",
            "max-iterations",
            "memory",
            "no-header",
            "on-error",
            "quiet",
            "replace",
            "scratch-limit",
            "seed",
            "smallest",
            "threads",
            "undirected",
        ];
        for (typed, meant) in [
            ("treads", Some("threads")),
            ("memroy", Some("memory")),
            ("no-headers", Some("no-header")),
            ("max-iter", Some("max-iterations")),
            ("forced", Some("force")),
            ("sead", Some("seed")),
            ("keep", None),
            ("on", None),
            ("frac", None),
            ("repeat", None),
            ("largest", None),
            ("directed", None),
            ("select", None),
            ("queries", None),
            ("scratch", None),
            ("bytes", None),
        ] {
            assert_eq!(near(typed, &names), meant, "{typed}");
        }
    }
}
