//! The commands of the program `outcore-lab`: `bench`, `replay` and `sim`.
//!
//! Contract: the definition has them, so that help, man pages and completions list them. The other
//! program parses their arguments (see [`crate::lab`]): [`called`] finds the commands before any
//! other parsing. A test of that program compares these tables with its own definition. All
//! functions are pure.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};

use super::gnu::position_of_command;

/// A command with its name in the definition.
struct Stub {
    name: &'static str,
    about: &'static str,
    /// The commands below it.
    below: &'static [&'static str],
    example: &'static str,
}

const STUBS: [Stub; 3] = [
    Stub {
        name: "bench",
        about: "Benchmark drives, and outcore on them: tables, charts and an HTML report",
        below: &[
            "io",
            "sort",
            "view",
            "primitives",
            "graph",
            "vectors",
            "diff",
        ],
        example: "outcore bench io /mnt/nvme0 /mnt/nvme1 -o report.html",
    },
    Stub {
        name: "replay",
        about: "Replay a block trace on drives, or summarise it",
        below: &[],
        example: "outcore replay trace.csv.gz --summary",
    },
    Stub {
        name: "sim",
        about: "Simulate SSDs, arrays of SSDs, and a GPU inside the storage",
        below: &[
            "run",
            "presets",
            "replay",
            "sweep",
            "calibrate",
            "plan",
            "allegro",
            "activesort",
            "gpu",
            "policies",
        ],
        example: "outcore sim run --preset pm9a3",
    },
];

/// The commands for the definition.
pub(crate) fn stubs() -> impl Iterator<Item = Command> {
    STUBS.iter().map(|stub| {
        let all = format!("outcore-lab {} --help", stub.name);
        let closing = format!(
            "Examples:\n  {}\n\nThe program outcore-lab does the work; `{all}` has all options.",
            stub.example
        );
        let command = Command::new(stub.name)
            .about(stub.about)
            .after_long_help(closing)
            .disable_help_flag(true);
        let command = match stub.below {
            [] => command,
            below => command.arg(
                Arg::new("command")
                    .value_name("COMMAND")
                    .help("What to do")
                    .value_parser(PossibleValuesParser::new(below)),
            ),
        };
        command.arg(
            Arg::new("words")
                .value_name("ARGS")
                .help("Arguments for outcore-lab")
                .num_args(..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_hint(ValueHint::AnyPath),
        )
    })
}

/// Whether the words call one of the commands, or ask for its help.
pub(crate) fn called(words: &[OsString]) -> bool {
    let is_one = |word: &OsString| STUBS.iter().any(|stub| word == stub.name);
    // The flags of all commands take time to build.
    if !words.iter().any(is_one) {
        return false;
    }
    let Some(at) = position_of_command(words) else {
        return false;
    };
    let at = at + usize::from(words[at] == "help");
    words.get(at).is_some_and(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_lab_is_found_where_the_command_stands() {
        let is_called = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            called(&words)
        };
        for line in [
            "outcore sim",
            "outcore --json sim run",
            "outcore -q --color never bench io /mnt",
            "outcore --volume drives.toml replay @trace --summary",
            "outcore help sim run",
        ] {
            assert!(is_called(line), "{line}");
        }
        for line in [
            "outcore",
            "outcore sort sim",
            "outcore help sort sim",
            "outcore --volume sim ls",
            "outcore help",
        ] {
            assert!(!is_called(line), "{line}");
        }
    }
}
