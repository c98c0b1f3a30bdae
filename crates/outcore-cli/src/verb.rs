//! Verbs as subcommands.
//!
//! Contract: every verb of [`outcore_verbs`] is a subcommand, whose flags are its arguments. Its
//! report is the summary event and lines on standard error; the exit code is 1 where a check found
//! what should not be, and that of a closed pipe where the reader of one went away.

use std::fmt;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use outcore::Result;
use outcore_verbs::verb::{Verb, VerbVisitor, Words};
use outcore_verbs::visit_verbs;

use crate::cli::deferred::defer;
use crate::context::Context;
use crate::pipe::{self, CLOSED_PIPE};

/// Runs a verb with its arguments; gives the exit code.
type Run = Box<dyn Fn(&Context) -> Result<u8>>;

/// A verb that was asked for.
pub(crate) struct VerbCommand {
    /// Its name.
    pub(crate) name: &'static str,
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
    /// Runs it; gives the exit code.
    pub(crate) fn run(&self, context: &Context) -> Result<u8> {
        (self.run)(context)
    }
}

fn run<V: Verb>(context: &Context, args: &V::Args) -> Result<u8> {
    let report = match V::run(context, args) {
        Ok(report) => report,
        Err(error) if pipe::is_closed_by(&error) => return Ok(CLOSED_PIPE),
        Err(error) => return Err(error),
    };
    let mut words = Words::default();
    V::say(args, &report, &mut words);
    context.reporter.report(&report, &words);
    Ok(u8::from(!V::is_right(&report)))
}

/// Adds each verb to a command.
struct Add(Option<Command>);

impl VerbVisitor for Add {
    fn visit<V: Verb>(&mut self) {
        let verb = defer(Command::new(V::NAME), V::Args::augment_args);
        self.0 = self.0.take().map(|root| root.subcommand(verb));
    }
}

/// Looks for the verb of a name, and reads its arguments.
struct Read<'m> {
    matches: &'m ArgMatches,
    found: Option<std::result::Result<VerbCommand, clap::Error>>,
}

impl VerbVisitor for Read<'_> {
    fn visit<V: Verb>(&mut self) {
        let Some((_, matches)) = self
            .matches
            .subcommand()
            .filter(|(name, _)| *name == V::NAME)
        else {
            return;
        };
        let args = V::Args::from_arg_matches(matches);
        self.found = Some(args.map(|args| VerbCommand {
            name: V::NAME,
            takes_stdout: V::takes_stdout(&args),
            run: Box::new(move |context| run::<V>(context, &args)),
        }));
    }
}

/// Whether a name is that of a verb.
struct Has<'n> {
    name: &'n str,
    is_found: bool,
}

impl VerbVisitor for Has<'_> {
    fn visit<V: Verb>(&mut self) {
        self.is_found |= self.name == V::NAME;
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
        let mut add = Add(Some(command));
        visit_verbs(&mut add);
        add.0.unwrap_or_default()
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
