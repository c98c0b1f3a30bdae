//! Every flag of the command, defined once: parsing, help, man pages and completions come from
//! here.
//!
//! Contract: pure definitions and readers of single values, no I/O. Sizes have units (`4GiB`,
//! `4GB`). In `sort`, short flags have the meaning of GNU sort; `-h` without an input prints help.
//! The environment, the file and the defaults set the values that no flag sets (see
//! [`outcore_io::config`]).

pub(crate) mod counts;
pub(crate) mod deferred;
pub(crate) mod gnu;
pub(crate) mod help;
pub(crate) mod lab;
pub(crate) mod operands;
pub(crate) mod verb;

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};
use outcore::IoMode;
use outcore_io::units;
use outcore_terminal::common::Common;
use outcore_terminal::docs::{CompletionsArgs, ManArgs};

pub(crate) use outcore_verbs::kinds;
pub(crate) use outcore_verbs::option::{DriveArgs, ResourceArgs};

use deferred::Deferred;
use verb::VerbCommand;

const AFTER_HELP: &str = "\
First steps:
  outcore demo                                         what this machine can do, in about a minute
  outcore gen u64 -n 1e8 -o keys.bin                   100 million random numbers
  outcore sort keys.bin -o sorted.bin --type u64       sort them
  outcore verify sorted.bin --type u64 --against keys.bin

Sizes take a unit: 4GiB is 4 * 2^30 bytes, 4GB is 4 * 10^9 bytes; without a unit they are bytes.

Most verbs write to -o OUT, or without -o to standard output; knn, kmeans, vectors and graphs need -o. A \
verb replaces a file only with --force; a sort of lines always replaces it, as GNU sort does. - names standard input and \
output. Messages go to standard error.

Exit codes: 0 success, 1 a check failed, 2 usage, 3 I/O, 4 corrupt data, 5 no space, 6 memory, \
130 interrupted (SIGINT, SIGTERM or SIGHUP), 141 the reader of a pipe closed it.

Settings come from flags, then the environment (OUTCORE_MEMORY, OUTCORE_THREADS, OUTCORE_IO, \
OUTCORE_SCRATCH_LIMIT, OUTCORE_DRIVES), then the file (OUTCORE_CONFIG, or outcore/config.toml in \
~/.config), then defaults; `outcore config show` says where each comes from. NO_COLOR turns colours off.";

/// Sort, shuffle, deduplicate and scan files larger than memory, on all your SSDs at once
#[derive(Debug, Parser)]
#[command(name = "outcore", version, after_long_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The whole definition, including the commands of the other program.
    pub(crate) fn whole() -> clap::Command {
        deferred::whole(Cli::command).subcommands(lab::stubs())
    }

    /// The definition with the single command `name`; none if there is no such command. It parses a
    /// line of that command as the whole definition does, but builds the common flags for one
    /// command instead of fifty.
    pub(crate) fn with_only(name: &OsStr) -> Option<clap::Command> {
        let root = || clap::Command::new("outcore");
        let commands = Command::augment_subcommands(root());
        let command = commands.find_subcommand(name)?.clone();
        Some(Common::augment_args(root()).subcommand(command))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Verb(VerbCommand),
    Demo(Deferred<DemoArgs>),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Generate, sort and verify data larger than memory, and report the speed
///
/// Also measures the drive's own speed, for comparison. Removes every file that it makes.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Size of the data
    #[arg(long = "size", value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_bytes)]
    pub(crate) data_bytes: u64,
    /// Memory to use
    #[arg(long = "memory", value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub(crate) memory_bytes: u64,
    /// Number of compute threads
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// I/O mode: auto, direct (O_DIRECT) or buffered
    #[arg(long, value_name = "MODE")]
    pub(crate) io: Option<IoMode>,
    /// Directory for the data; needs three times their size for a while
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_front::what::What;
    use outcore_verbs::synonym;

    #[test]
    fn the_definition_is_sound() {
        Cli::whole().debug_assert();
    }

    #[test]
    fn no_two_commands_say_the_same_of_themselves() {
        for group in Cli::whole().get_subcommands() {
            let below = group.get_subcommands().filter_map(clap::Command::get_about);
            let mut about: Vec<String> = below.map(ToString::to_string).collect();
            let count = about.len();
            about.sort_unstable();
            about.dedup();
            assert_eq!(about.len(), count, "{}: {about:?}", group.get_name());
        }
    }

    #[test]
    fn every_rule_names_options_that_there_are_and_is_reached() {
        assert_eq!(kinds::unreached(&Cli::whole()), [""; 0]);
    }

    /// The commands that take arguments, each as its words.
    fn callable(above: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let below = above.get_subcommands().flat_map(|command| {
            let words = [words, &[command.get_name().to_owned()]].concat();
            match command.has_subcommands() {
                true => callable(command, &words),
                false => vec![(words, command.clone())],
            }
        });
        below.collect()
    }

    /// Options that a text names outside of backquotes, and lines of the command inside of them.
    fn named(text: &str) -> (Vec<&str>, Vec<&str>) {
        let mut parts = text.split('`').enumerate();
        let (mut options, mut lines) = (Vec::new(), Vec::new());
        for (at, part) in &mut parts {
            match at % 2 {
                0 => options.extend(part.split([' ', ',', ':', ';']).filter(|word| {
                    word.starts_with("--") || (word.starts_with('-') && word.len() == 2)
                })),
                _ => lines.push(part),
            }
        }
        (options, lines)
    }

    #[test]
    fn a_hint_for_a_word_of_another_tool_names_only_what_there_is() {
        let root = Cli::whole();
        let commands = callable(&root, &[]);
        let has = |command: &clap::Command, flag: &str| {
            let mut args = command.get_arguments();
            args.any(|arg| {
                let long = arg.get_long().map(|long| format!("--{long}"));
                let short = arg.get_short().map(|short| format!("-{short}"));
                long.as_deref() == Some(flag) || short.as_deref() == Some(flag)
            })
        };
        let line_is_right = |line: &str| {
            let words = || line.split(' ').map(std::ffi::OsString::from);
            if !line.starts_with("outcore ") || line == "outcore --version" {
                return true;
            }
            let called = outcore_verbs::usage::called(&root, &words().collect::<Vec<_>>());
            let options = line.split(' ').filter(|word| word.starts_with("--"));
            called.get_name() != "outcore" && options.into_iter().all(|flag| has(called, flag))
        };
        let (mut count, mut wrong) = (0, Vec::new());
        for (words, command) in &commands {
            // Arguments of the other program are not known here.
            if lab::called(
                &[&["outcore".to_owned()], &words[..]]
                    .concat()
                    .into_iter()
                    .map(Into::into)
                    .collect::<Vec<_>>(),
            ) {
                continue;
            }
            for word in synonym::words_of_options().filter(|word| !has(command, word)) {
                let Some(hint) = synonym::of_option(word, command) else {
                    continue;
                };
                count += 1;
                let (options, lines) = named(hint);
                let are_known = options.into_iter().all(|option| has(command, option));
                if !are_known || !lines.into_iter().all(line_is_right) {
                    wrong.push(format!("{words:?} {word}: {hint}"));
                }
            }
        }
        assert!(count > 500, "{count}");
        for known in synonym::words_of_commands() {
            let above = match known.group {
                "" => &root,
                group => root.find_subcommand(group).unwrap(),
            };
            if above.find_subcommand(known.word).is_some() {
                wrong.push(format!("{known:?}"));
            }
            if !named(known.hint).1.into_iter().all(line_is_right) {
                wrong.push(format!("{known:?}"));
            }
        }
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn short_flags_of_sort_mean_nothing_that_gnu_sort_gives_another_meaning() {
        let command = Cli::whole();
        let sort = command.find_subcommand("sort").unwrap();
        let shorts: Vec<char> = sort
            .get_arguments()
            .filter_map(clap::Arg::get_short)
            .collect();
        for short in shorts {
            assert!("bcCdfghikmMnorRsStTuVz".contains(short), "-{short}");
        }
    }

    #[test]
    fn an_option_for_another_kind_is_rejected_by_its_name_and_defaults_are_not() {
        let given = |words: &[&str]| {
            let mut root = Cli::whole();
            let matches = root.try_get_matches_from_mut(words).unwrap();
            kinds::Given::of(&root, &matches)
        };
        let shuffle = given(&["outcore", "shuffle", "x", "--key", "a"]);
        let error = shuffle.applies_to(What::Table).unwrap_err();
        assert_eq!(
            error.cause(),
            "--key cannot be used with tables; it is for records"
        );
        assert!(shuffle.applies_to(What::Array).is_ok());
        let sort = given(&["outcore", "sort", "-k2", "x"]);
        assert!(sort.applies_to(What::Lines).is_ok());
        assert!(
            sort.applies_to(What::Csv)
                .unwrap_err()
                .cause()
                .starts_with("-k ")
        );
        let split = given(&["outcore", "split", "-n", "2", "-o", "p-{part}"]);
        assert!(What::ALL.iter().all(|what| split.applies_to(*what).is_ok()));
        let both = [What::Table, What::CsvTable];
        let convert = given(&["outcore", "convert", "a", "b", "-o", "c", "-t", ";"]);
        assert!(convert.applies_to_one_of(&both).is_ok());
        assert!(convert.applies_to(What::JsonTable).is_err());
    }
}
