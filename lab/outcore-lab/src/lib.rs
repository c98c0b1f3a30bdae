//! The `outcore-lab` command: arguments in, exit code out.
//!
//! Contract: [`run`] reads the arguments, measures, replays or simulates, and returns the exit
//! code, as `outcore` does. The command `outcore` starts this one for `outcore bench`,
//! `outcore replay` and `outcore sim`. Data goes to standard output, everything else to standard
//! error. [`definition`] is the single definition of all options.
//!
//! | file | does |
//! |---|---|
//! | `cli` | the options |
//! | `help` | groups and examples of the pages |
//! | `bench`, `replay`, `sim` | the subcommands |

mod bench;
mod cli;
mod help;
mod replay;
mod sim;

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches};
use outcore::Result;
use outcore_terminal::common::Common;
use outcore_terminal::docs;
use outcore_terminal::pages::arranged;
use outcore_terminal::report::Reporter;
use outcore_terminal::session::{Session, Terminal, answer, first_file};

use cli::{Cli, Command};
use help::CONTENTS;

/// The command that starts `outcore-lab`. Help and messages then name that command.
const STARTER: &str = "outcore";

/// The definition of all options, for help.
pub fn definition() -> clap::Command {
    arranged(Cli::command(), CONTENTS)
}

/// Runs the command with these arguments, the first of which is its name. Returns its exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let root = match is_started(&arguments) {
        // Help shows lines as they are typed.
        true => arranged(Cli::command().name(STARTER), CONTENTS),
        false => definition(),
    };
    let parsed = root.try_get_matches_from(&arguments);
    match parsed.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches)) {
        Ok(cli) => dispatch(cli, &arguments),
        Err(said) => {
            let reporter = Reporter::new(STARTER, &Common::of_words(&arguments));
            answer(&reporter, &said, &definition(), &arguments)
        }
    }
}

/// Whether `outcore` started this program. The first argument is then the name `outcore`.
fn is_started(arguments: &[OsString]) -> bool {
    let name = arguments
        .first()
        .and_then(|name| Path::new(name).file_name());
    name.is_some_and(|name| name == STARTER)
}

/// The name of a command, and whether its results go to standard output.
fn name_of(command: &Command) -> (&'static str, bool) {
    match command {
        Command::Bench(_) => ("bench", false),
        Command::Replay(_) => ("replay", false),
        Command::Sim(_) => ("sim", false),
        Command::Completions(_) => ("completions", true),
        Command::Man(args) => ("man", args.dir.is_none()),
    }
}

fn dispatch(cli: Cli, arguments: &[OsString]) -> u8 {
    let (name, is_stdout_taken) = name_of(&cli.command);
    let session = Session {
        name,
        reporter: Reporter::new(name, &cli.common).with_stdout_taken(is_stdout_taken),
        common: &cli.common,
        // A simulation has nothing to clean up, and rarely checks for signals.
        cleans_up: !matches!(cli.command, Command::Sim(_)),
        lends_drives: true,
        first_file: first_file(arguments),
    };
    session.run(|terminal| run_command(terminal, cli.command))
}

/// Runs the command and returns its exit code.
fn run_command(terminal: &Terminal, command: Command) -> Result<u8> {
    match command {
        Command::Bench(command) => bench::run(terminal, &command),
        Command::Replay(args) => replay::run(terminal, &args),
        Command::Sim(command) => sim::run(terminal, *command),
        Command::Completions(args) => {
            Ok(docs::completions(&terminal.reporter, Cli::command(), &args))
        }
        Command::Man(args) => docs::man(&terminal.reporter, Cli::command(), CONTENTS, &args),
    }
}
