//! The `outcore` command: arguments in, exit code out.
//!
//! Contract: [`run`] reads the arguments, runs one subcommand and returns the exit code: that of
//! the error's kind ([`outcore::Kind::exit_code`]), or 141 if the reader of a pipe went away. Data
//! go to standard output, all else to standard error. [`definition`] is the one definition of all
//! flags. The binary is a thin wrapper, so that documentation can be made from the same source.
//! If the program is called by the name `sort`, it runs `outcore sort` and behaves like GNU sort:
//! errors are `sort: ...` and exit code 2. `bench`, `replay` and `sim` are commands of another
//! program, which replaces this process.
//!
//! | file | does |
//! |---|---|
//! | `cli` | the flags |
//! | `context` | the context of every subcommand |
//! | `resources` | the resources of a job from the flags |
//! | `pipe` | output streams |
//! | `floor` | the drive's own speed |
//! | `lab` | the start of `outcore-lab` |
//! | `commands` | the subcommands |
//!
//! The crate `outcore-terminal` has messages, progress, signals, help and exit codes.

mod cli;
mod commands;
mod context;
mod floor;
mod lab;
mod pipe;
mod resources;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::FromArgMatches;
use outcore::Result;
use outcore_terminal::common::Common;
use outcore_terminal::docs;
use outcore_terminal::pages::arranged;
use outcore_terminal::report::Reporter;
use outcore_terminal::session::{Session, answer, finish, first_file, print};
// The subcommands report through these modules.
use outcore_terminal::{measure, progress};

use cli::gnu::Read;
use cli::help::CONTENTS;
use cli::kinds::Given;
use cli::{Cli, Command};
use context::Context;

/// The output of `sort --version`. It is not GNU sort, and does not claim to be.
const SORT_VERSION: &str = concat!(
    "sort (outcore) ",
    env!("CARGO_PKG_VERSION"),
    "\nTakes the options of GNU sort, and gives its output under LC_ALL=C.\n"
);

/// The definition of all flags, for man pages and completions.
pub fn definition() -> clap::Command {
    arranged(Cli::whole(), CONTENTS)
}

/// Whether the arguments call a command of `outcore-lab`: `bench`, `replay` or `sim`.
pub fn calls_lab(arguments: &[OsString]) -> bool {
    !cli::gnu::is_called_sort(arguments) && cli::lab::called(arguments)
}

/// Runs the command with these arguments, the first of which is its name; returns its exit code.
pub fn run(arguments: Vec<OsString>) -> u8 {
    let is_gnu = cli::gnu::is_called_sort(&arguments);
    let common = Common::of_words(&arguments);
    let reporter = || Reporter::new("outcore", &common).called_sort(is_gnu);
    if calls_lab(&arguments) {
        return finish(&reporter(), Err(lab::start(&arguments)));
    }
    if let [_, name, mountpoint, source] = &arguments[..]
        && name == context::GUARD
    {
        return guard(&common, Path::new(mountpoint), &source.to_string_lossy());
    }
    let arguments = cli::counts::read(arguments);
    let typed = arguments.clone();
    let mut definition_of_one = cli::gnu::definition_for(&arguments);
    let arguments = match cli::gnu::read(arguments, &mut definition_of_one) {
        Ok(Read::Words(arguments)) => arguments,
        Ok(Read::Version) => return print(&reporter(), SORT_VERSION),
        Err(wrong) => return finish(&reporter(), Err(wrong)),
    };
    // Most runs need only the flags of one command; help, and errors about flags, need the whole
    // definition.
    let parsed = parse(definition_of_one, &arguments);
    match parsed.or_else(|_| parse(definition(), &arguments)) {
        Ok((mut cli, given)) => dispatch(&mut cli, given, &arguments, &typed),
        Err(said) => answer(&reporter(), &said, &definition(), &arguments),
    }
}

/// Unmounts a view when its standard input ends: `view mount` starts the program for this.
fn guard(common: &Common, mountpoint: &Path, source: &str) -> u8 {
    let session = Session {
        name: "view",
        reporter: Reporter::new("view", common),
        common,
        cleans_up: true,
        lends_drives: true,
        first_file: None,
    };
    session.run(|_| outcore_mount::guard(mountpoint, source).map(|()| 0))
}

fn parse(
    mut definition: clap::Command,
    arguments: &[OsString],
) -> std::result::Result<(Cli, Given), clap::Error> {
    let mut matches = definition.try_get_matches_from_mut(arguments)?;
    let given = Given::of(&definition, &matches);
    Ok((Cli::from_arg_matches_mut(&mut matches)?, given))
}

/// The name of a command, and whether its results go to standard output.
fn name_of(command: &Command) -> (&'static str, bool) {
    match command {
        Command::Verb(verb) => (verb.name, verb.takes_stdout),
        Command::Demo(_) => ("demo", false),
        Command::Completions(_) => ("completions", true),
        Command::Man(args) => ("man", args.dir.is_none()),
    }
}

/// Runs a command from its `arguments`, which may differ from those that the user `typed`.
fn dispatch(cli: &mut Cli, given: Given, arguments: &[OsString], typed: &[OsString]) -> u8 {
    let (name, is_stdout_taken) = name_of(&cli.command);
    let session = Session {
        name,
        reporter: Reporter::new(name, &cli.common)
            .with_stdout_taken(is_stdout_taken)
            .called_sort(cli::gnu::is_called_sort(typed)),
        common: &cli.common,
        cleans_up: true,
        lends_drives: match &cli.command {
            Command::Verb(verb) => verb.lends_drives,
            _ => true,
        },
        first_file: first_file(arguments),
    };
    let (given, command) = (Arc::new(given), &mut cli.command);
    session.run(|terminal| {
        let context = Context {
            given,
            terminal: terminal.clone(),
            program: program_of(arguments),
        };
        // In front of the condition, as grep has it, the option is rarely that of `outcore`.
        let first = cli::gnu::position_of_command(typed).and_then(|at| typed.get(at + 1));
        if name == "filter" && first.is_some_and(|word| word == "-v") {
            let note = "-v prints more; for the other rows write not (CONDITION)";
            context.reporter.note(note);
        }
        run_command(&context, command).map_err(|error| cli::operands::explain(error, typed))
    })
}

/// The program that starts this command again: the path by which it was called, if that is a path
/// (as for a script of the wheel). Otherwise it is the running program, unless that is an
/// interpreter.
fn program_of(arguments: &[OsString]) -> Option<PathBuf> {
    let called = arguments.first().map(PathBuf::from);
    let is_path = |called: &PathBuf| called.components().count() > 1 && called.is_file();
    let is_ours = |program: &PathBuf| {
        let name = program
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| !name.starts_with("python"))
    };
    let running = || std::env::current_exe().ok().filter(is_ours);
    called.filter(is_path).or_else(running)
}

/// Runs the command; returns its exit code.
fn run_command(context: &Context, command: &mut Command) -> Result<u8> {
    match command {
        Command::Verb(verb) => commands::verb::run(context, verb),
        Command::Demo(args) => commands::demo::run(context, args),
        Command::Completions(args) => Ok(docs::completions(&context.reporter, Cli::whole(), args)),
        Command::Man(args) => docs::man(&context.reporter, Cli::whole(), CONTENTS, args),
    }
}
