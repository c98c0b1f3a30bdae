//! Verbs as subcommands.
//!
//! Contract: every verb of [`outcore_verbs`] is a subcommand, of the root or of its group, and its
//! arguments are the flags. All functions are pure except for [`VerbCommand::run`], which runs the
//! verb on a host.

use std::fmt;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use outcore::{Error, Result};
use outcore_verbs::host::Host;
use outcore_verbs::verb::{Verb, VerbVisitor, Words, group_of};
use outcore_verbs::{GROUPS, visit_verbs};
use serde_json::Value;

use super::deferred::defer;

/// The answer of a verb.
pub(crate) struct Answer {
    /// Its report.
    pub(crate) report: Value,
    /// The report in words, for people.
    pub(crate) words: Words,
    /// Whether the result of a check is positive.
    pub(crate) is_right: bool,
    /// The error that the command ends with.
    pub(crate) fault: Option<Error>,
}

/// Runs a verb with its arguments.
type Run = Box<dyn Fn(&dyn Host) -> Result<Answer>>;

/// A verb that the user called.
pub(crate) struct VerbCommand {
    /// Its name, or that of its group.
    pub(crate) name: &'static str,
    /// Whether scratch goes to the volume's drives.
    pub(crate) lends_drives: bool,
    /// Whether its result goes to standard output.
    pub(crate) takes_stdout: bool,
    run: Run,
}

impl fmt::Debug for VerbCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbCommand")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl VerbCommand {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the verb.
    pub(crate) fn run(&self, host: &dyn Host) -> Result<Answer> {
        (self.run)(host)
    }
}

fn run<V: Verb>(host: &dyn Host, args: &V::Args) -> Result<Answer> {
    let report = V::run(host, args)?;
    let mut words = Words {
        terminal_columns: host.terminal_columns(),
        ..Words::default()
    };
    V::say(args, &report, &mut words);
    Ok(Answer {
        words,
        is_right: V::is_right(&report),
        fault: V::fault(&report),
        // A report has named values, as a JSON object does.
        report: serde_json::to_value(&report).unwrap_or_default(),
    })
}

/// Adds the verbs of the root to a command, or those of a group.
struct Add {
    group: Option<String>,
    /// `None` only during a call.
    command: Option<Command>,
}

impl Add {
    fn to(command: Command, group: Option<String>) -> Command {
        let mut add = Add {
            group,
            command: Some(command),
        };
        visit_verbs(&mut add);
        add.command.unwrap_or_default()
    }
}

impl VerbVisitor for Add {
    fn visit<V: Verb>(&mut self) {
        let (group, name) = split::<V>();
        if group == self.group.as_deref() {
            let verb = Command::new(name).aliases(V::ALIASES);
            let verb = defer(verb, with_args::<V>);
            self.command = self.command.take().map(|above| above.subcommand(verb));
        }
    }
}

/// The arguments of a verb. The value of an option may be a negative number: the parser of the
/// value rejects it with a better error than that of an unknown option.
fn with_args<V: Verb>(command: Command) -> Command {
    V::Args::augment_args(command).mut_args(|arg| {
        let takes_value = arg.get_action().takes_values() && !arg.is_positional();
        let is_optional = arg
            .get_num_args()
            .is_some_and(|count| count.min_values() == 0);
        match takes_value && !is_optional {
            true => arg.allow_negative_numbers(true),
            false => arg,
        }
    })
}

/// The group of a verb, if it is below one, and its name there.
fn split<V: Verb>() -> (Option<&'static str>, &'static str) {
    match group_of(V::NAME) {
        Some((group, name)) => (Some(group), name),
        None => (None, V::NAME),
    }
}

/// A group with its verbs.
fn with_verbs(group: Command) -> Command {
    let name = group.get_name().to_owned();
    let group = group.subcommand_required(true).arg_required_else_help(true);
    Add::to(group, Some(name))
}

/// Finds the verb with a name, and reads its arguments.
struct Read<'m> {
    matches: &'m ArgMatches,
    found: Option<std::result::Result<VerbCommand, clap::Error>>,
}

impl<'m> VerbVisitor for Read<'m> {
    fn visit<V: Verb>(&mut self) {
        let (group, name) = split::<V>();
        let above = match (group, self.matches.subcommand()) {
            (Some(group), Some((name, below))) if name == group => below,
            (None, Some(_)) => self.matches,
            _ => return,
        };
        let Some((_, matches)) = above.subcommand().filter(|(called, _)| *called == name) else {
            return;
        };
        let args = V::Args::from_arg_matches(matches);
        self.found = Some(args.map(|args| VerbCommand {
            name: group.unwrap_or(name),
            lends_drives: V::LENDS_DRIVES,
            takes_stdout: V::takes_stdout(&args),
            run: Box::new(move |host| run::<V>(host, &args)),
        }));
    }
}

/// Whether a verb has this name.
struct Has<'n> {
    name: &'n str,
    is_found: bool,
}

impl VerbVisitor for Has<'_> {
    fn visit<V: Verb>(&mut self) {
        let (group, name) = split::<V>();
        self.is_found |= match group {
            Some(group) => self.name == group,
            None => self.name == name || V::ALIASES.contains(&self.name),
        };
    }
}

impl FromArgMatches for VerbCommand {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut read = Read {
            matches,
            found: None,
        };
        visit_verbs(&mut read);
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        read.found.unwrap_or_else(|| Err(missing()))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for VerbCommand {
    fn augment_subcommands(command: Command) -> Command {
        let groups = GROUPS.iter().map(|group| {
            let command = Command::new(group.name)
                .about(group.about)
                .long_about(format!("{}\n\n{}", group.about, group.long_about));
            defer(command, with_verbs)
        });
        Add::to(command, None).subcommands(groups)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        let mut has = Has {
            name,
            is_found: false,
        };
        visit_verbs(&mut has);
        has.is_found
    }
}
