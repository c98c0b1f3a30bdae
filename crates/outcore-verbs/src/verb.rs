//! The trait of a verb.
//!
//! Contract: a verb is written once, and the faces run it. The command makes flags of its
//! arguments, and an event and lines of its report; Python makes keywords and a dataclass.

use std::ffi::OsString;
use std::iter;

use clap::{Args, Command, FromArgMatches};
use outcore::{Error, Result};
use serde::Serialize;

use crate::host::{Host, Weight};
use crate::kinds::Given;
use crate::report::{Described, Phase};
use crate::usage::{self, Parsed};

const READ: &str = "read arguments";

/// The files that a verb reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// Files of any kind, or none.
    Files,
    /// Files of any kind, or none, or a table that a program holds in its memory.
    Any,
    /// Only tables, which a program may also hold in its memory.
    Tables,
    /// Graphs or vectors. Programs have functions of their own for these, and get results without
    /// an output as arrays.
    Arrays,
}

/// A command with verbs below it, whose names begin with its name.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// The subject of its verbs.
    pub about: &'static str,
    /// The description of its verbs in full.
    pub long_about: &'static str,
}

/// See the module.
pub trait Verb: 'static {
    /// Its name in every face. That of a verb below a group has two words: `volume put`.
    const NAME: &'static str;
    /// Further names, which help does not show.
    const ALIASES: &'static [&'static str] = &[];
    /// The files that it reads.
    const INPUTS: Inputs = Inputs::Files;
    /// Whether scratch goes to the drives of the volume if no others are given.
    const LENDS_DRIVES: bool = true;
    /// Its options, with names, types, help and defaults.
    type Args: Args + Send + 'static;
    /// Its report.
    type Report: Described + Serialize + Send + 'static;

    /// The phases of its job, in order, and their shares of the time.
    const PHASES: &'static [Weight] = &[];

    /// Runs the verb. It makes all checks that it can before it writes anything.
    ///
    /// # Errors
    /// As the verb documents.
    fn run(host: &dyn Host, args: &Self::Args) -> Result<Self::Report>;

    /// Prints the report for people: in a line, unless the verb prints more.
    fn say(_args: &Self::Args, report: &Self::Report, words: &mut Words) {
        words.lines(&Self::headline(report));
    }

    /// The report in a line.
    fn headline(report: &Self::Report) -> String;

    /// Whether the command's standard output gets the result, for these arguments.
    fn takes_stdout(_args: &Self::Args) -> bool {
        false
    }

    /// Whether the result of a check is positive; always true for a verb that checks nothing.
    fn is_right(_report: &Self::Report) -> bool {
        true
    }

    /// The error that a command ends with after it has printed the report, if the result is an
    /// error.
    fn fault(_report: &Self::Report) -> Option<Error> {
        None
    }
}

/// The group of the verb `name`, and its name there; nothing for a verb of the root.
pub fn group_of(name: &str) -> Option<(&str, &str)> {
    name.split_once(' ')
}

/// An action on each verb.
pub trait VerbVisitor {
    /// Performs the action with `V`.
    fn visit<V: Verb>(&mut self);
}

/// A report in words, for people.
#[derive(Debug, Default)]
pub struct Words {
    /// The width of the terminal on standard output; nothing if that is a file or a pipe.
    pub terminal_columns: Option<usize>,
    /// Lines that the user asked for, and that go to standard output.
    pub data: String,
    /// Lines that are always printed.
    pub lines: Vec<String>,
    /// Whether these lines are only for a terminal, or for users who asked for more: in a pipeline
    /// the verb is silent.
    pub are_for_watchers: bool,
    /// Lines for users who asked for more.
    pub details: Vec<String>,
    /// The phases, which a table shows.
    pub phases: Vec<Phase>,
    /// Whether they are always printed.
    pub are_phases_asked_for: bool,
}

impl Words {
    /// The lines of a text.
    pub fn lines(&mut self, text: &str) {
        self.lines.extend(text.lines().map(str::to_owned));
    }

    /// A line for users who asked for more.
    pub fn detail(&mut self, line: &str) {
        self.details.push(line.to_owned());
    }

    /// The phases, which are always shown if the user asked for a plan.
    pub fn phases(&mut self, phases: &[Phase], is_explained: bool) {
        self.phases = phases.to_vec();
        self.are_phases_asked_for = is_explained;
    }
}

/// The error for a table in a build that does not read tables.
#[cfg(not(feature = "tables"))]
pub(crate) fn without_tables() -> Error {
    let cause = "this build of outcore reads no Parquet and no Arrow";
    Error::usage("read table", cause)
        .hint("build outcore with the feature `tables`, which is on by default")
}

/// The definition of a verb, as the only command of a root.
pub fn definition<V: Verb>() -> Command {
    let verb = V::Args::augment_args(Command::new(V::NAME));
    Command::new("outcore")
        .no_binary_name(true)
        .subcommand(verb)
}

/// As [`definition`], for a program, which receives results and passes vertices as arrays.
fn definition_with_arrays<V: Verb>() -> Command {
    definition::<V>().mut_subcommand(V::NAME, |verb| {
        verb.mut_args(|arg| match arg.get_id().as_str() {
            "output" | "source" => arg.required(false),
            _ => arg,
        })
    })
}

/// Whether the definition of `V` always names an output.
pub fn requires_output<V: Verb>() -> bool {
    let verb = V::Args::augment_args(Command::new(V::NAME));
    let mut options = verb.get_arguments();
    options.any(|option| {
        let is_named = option.is_required_set() || !option.get_default_values().is_empty();
        option.get_id() == "output" && is_named
    })
}

/// Parses a verb's arguments, in which options are flags; also returns which options were given.
///
/// # Errors
/// Usage: an unknown option, an invalid value.
pub fn read<V: Verb>(words: impl IntoIterator<Item = OsString>) -> Result<(V::Args, Given)> {
    read_as::<V>(definition::<V>(), words)
}

/// As [`read`], for a program that has arrays.
///
/// # Errors
/// As [`read`].
pub fn read_with_arrays<V: Verb>(
    words: impl IntoIterator<Item = OsString>,
) -> Result<(V::Args, Given)> {
    read_as::<V>(definition_with_arrays::<V>(), words)
}

fn read_as<V: Verb>(
    mut root: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<(V::Args, Given)> {
    let words = iter::once(OsString::from(V::NAME)).chain(words);
    let parsed = root.try_get_matches_from_mut(words);
    let command = root.find_subcommand(V::NAME).unwrap_or(&root);
    let read = |error: clap::Error| match usage::read(&error, command) {
        Parsed::Wrong(error) | Parsed::Nothing(error, _) => error,
        Parsed::Text(text) => Error::usage(READ, text),
    };
    let matches = parsed.map_err(read)?;
    let given = Given::of(&root, &matches);
    let verb = matches.subcommand_matches(V::NAME);
    let verb = verb.ok_or_else(|| Error::usage(READ, "no verb is named"))?;
    Ok((V::Args::from_arg_matches(verb).map_err(read)?, given))
}
