//! The `outcore` command: arguments in, exit code out.
//!
//! Contract: [`run`] reads the arguments, runs one subcommand and gives the exit code: that of the
//! error's kind ([`outcore::Kind::exit_code`]), or 141 if the reader of a pipe went away. Data go
//! to standard output, all else to standard error. [`definition`] is the one definition of all
//! flags. A panic is an error that names the step and the file. The binary is a shell around it, so
//! that documentation can be made from the same source. Called by the name `sort` it is `outcore
//! sort`, and answers as GNU sort does: errors are `sort: ...` and exit code 2.
//!
//! | file | does |
//! |---|---|
//! | `cli` | the flags |
//! | `resources` | flags as what a job may use |
//! | `recorder` | what is recorded of a run |
//! | `pipe` | streams in and out |
//! | `report`, `progress`, `measure` | what is said, while and after |
//! | `stdout` | where results are printed, and that none is lost |
//! | `signals` | SIGINT, SIGTERM and SIGHUP |
//! | `floor` | the drive's own speed |
//! | `commands` | the subcommands |

mod cli;
mod commands;
mod context;
mod floor;
mod measure;
mod pipe;
mod progress;
mod recorder;
mod report;
mod resources;
mod signals;
mod stdout;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{CommandFactory, FromArgMatches};
use outcore::{Error, Result};
use outcore_front::resources::unknown_variables;
use outcore_io::config::Environment;

use outcore_verbs::usage;

use cli::gnu::Read;
use cli::kinds::Given;
use cli::{Cli, ColorWhen, Command, Common};
use context::{Context, Copying, Files};
use report::Reporter;
use signals::Interrupt;

/// What `sort --version` says. It is not a GNU sort, and does not say so to whoever looks for one.
const SORT_VERSION: &str = concat!(
    "sort (outcore) ",
    env!("CARGO_PKG_VERSION"),
    "\nTakes the options of GNU sort, and gives its output under LC_ALL=C.\n"
);

/// The definition of all flags, for man pages and completions.
pub fn definition() -> clap::Command {
    cli::help::arranged(cli::deferred::whole(Cli::command))
}

/// Runs the command with these arguments, the first of which is its name; gives its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_gnu = cli::gnu::is_called_sort(&arguments);
    let common = common_of(&arguments);
    let reporter = || Reporter::new("outcore", &common).called_sort(is_gnu);
    let mut definition_of_one = cli::gnu::definition_for(&arguments);
    let arguments = match cli::gnu::read(arguments, &mut definition_of_one) {
        Ok(Read::Words(arguments)) => arguments,
        Ok(Read::Version) => return print(&reporter(), SORT_VERSION),
        Err(wrong) => return finish(&reporter(), Err(wrong)),
    };
    // Most runs need the flags of one command; help, and errors about flags, the whole definition.
    let parsed = parse(definition_of_one, &arguments);
    match parsed.or_else(|_| parse(definition(), &arguments)) {
        Ok((mut cli, given)) => dispatch(&mut cli, given, is_gnu, first_file(&arguments)),
        Err(error) => match usage::read(&error) {
            usage::Parsed::Text(text) => print(&reporter(), &text),
            usage::Parsed::Wrong(wrong) => finish(&reporter(), Err(wrong)),
            usage::Parsed::Nothing(wrong, help) => {
                let reporter = reporter();
                reporter.human(help.trim_end());
                finish(&reporter, Err(wrong))
            }
        },
    }
}

fn parse(
    mut definition: clap::Command,
    arguments: &[OsString],
) -> std::result::Result<(Cli, Given), clap::Error> {
    let mut matches = definition.try_get_matches_from_mut(arguments)?;
    let given = Given::of(&definition, &matches);
    Ok((Cli::from_arg_matches_mut(&mut matches)?, given))
}

/// Prints a text that is all that was asked for.
fn print(reporter: &Reporter, text: &str) -> u8 {
    reporter.stdout().write(text.as_bytes());
    finish(reporter, Ok(0))
}

/// The flags that matter for an error about arguments that could not be read.
fn common_of(arguments: &[OsString]) -> Common {
    let mut flags = arguments.iter().take_while(|argument| *argument != "--");
    Common {
        json: flags.any(|argument| argument == "--json"),
        quiet: false,
        verbose: false,
        volume: None,
        color: ColorWhen::Auto,
    }
}

/// As many files open at once as the system lets this user have: data often come in thousands.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where it is refused, fewer will do for most.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

/// The name of a command, and whether its results go to standard output.
fn name_of(command: &Command) -> (&'static str, bool) {
    match command {
        Command::Verb(verb) => (verb.name, verb.takes_stdout),
        Command::Vector(_) => ("vector", false),
        Command::Knn(_) => ("knn", false),
        Command::Kmeans(_) => ("kmeans", false),
        Command::View(command) => ("view", commands::view::takes_stdout(command)),
        Command::Graph(command) => ("graph", command.takes_stdout()),
        Command::Demo(_) => ("demo", false),
        Command::Scratch(_) => ("scratch", false),
        Command::Config(_) => ("config", false),
        Command::Drives(_) => ("drives", false),
        Command::Volume(command) => ("volume", command.takes_stdout()),
        Command::Bench(_) => ("bench", false),
        Command::Replay(_) => ("replay", false),
        Command::Sim(_) => ("sim", false),
        Command::Completions { .. } => ("completions", true),
        Command::Man { dir, .. } => ("man", dir.is_none()),
    }
}

/// The first file that is named, for an error that knows of none.
fn first_file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut names = arguments.iter().skip(2).map(PathBuf::from);
    names.find(|name| name.is_file())
}

fn dispatch(cli: &mut Cli, given: Given, is_gnu: bool, first_file: Option<PathBuf>) -> u8 {
    signals::survive_file_limit();
    let interrupt = match cli.command {
        // It has nothing to clean up, and nobody who would look at a flag.
        Command::Sim(_) => Interrupt::default(),
        _ => Interrupt::install(),
    };
    allow_open_files();
    let (name, is_stdout_taken) = name_of(&cli.command);
    let reporter = Reporter::new(name, &cli.common)
        .with_stdout_taken(is_stdout_taken)
        .called_sort(is_gnu);
    for unknown in unknown_variables(&Environment::of_process()) {
        reporter.note(&unknown);
    }
    // A view lays its runs on the drives that it is given: they would not be in the dataset.
    let lends_drives = !matches!(cli.command, Command::View(_));
    let volume = cli.common.volume.clone();
    let copying = Copying {
        reporter: reporter.clone(),
        interrupt: interrupt.clone(),
    };
    let context = Context {
        files: Files::new(volume.clone(), lends_drives, copying),
        given: Arc::new(given),
        reporter,
        volume,
        interrupt,
    };
    let command = &mut cli.command;
    let work = || run_command(&context, command);
    let result = catch_unwind(AssertUnwindSafe(work));
    let result = result.unwrap_or_else(|panic| Err(Error::panicked(name, panic)));
    let result = result.map_err(|error| match &first_file {
        Some(path) if error.is_panic() && error.file_path().is_none() => error.path(path),
        _ => error,
    });
    let reporter = &context.reporter;
    let result = result.and_then(|code| {
        let recorded = reporter.recorder().close()?;
        recorded.iter().for_each(|text| reporter.human(text));
        match code {
            0 => context.files.finish().map(|()| code),
            code => Ok(code),
        }
    });
    finish(reporter, result)
}

/// Runs the command; gives its exit code.
fn run_command(context: &Context, command: &mut Command) -> Result<u8> {
    match command {
        Command::Verb(verb) => commands::verb::run(context, verb),
        Command::Vector(command) => commands::vectors::vector(context, command),
        Command::Knn(args) => commands::vectors::knn(context, args),
        Command::Kmeans(args) => commands::vectors::kmeans(context, args),
        Command::View(command) => commands::view::run(context, command),
        Command::Graph(command) => commands::graph::run(context, command),
        Command::Demo(args) => commands::demo::run(context, args),
        Command::Scratch(command) => commands::scratch::run(context, command),
        Command::Config(command) => commands::config::run(context, command),
        Command::Drives(command) => commands::drives::run(context, command),
        Command::Volume(command) => commands::volume::run(context, command),
        Command::Bench(command) => commands::bench::run(context, command),
        Command::Replay(args) => commands::replay::run(context, args),
        Command::Sim(command) => commands::sim::run(context, command),
        Command::Completions { shell } => commands::docs::completions(context, *shell),
        Command::Man { dir, force } => commands::docs::man(context, dir.as_deref(), *force),
    }
}

/// The exit code, after saying what went wrong if something did; results that could not be printed
/// did.
fn finish(reporter: &Reporter, result: Result<u8>) -> u8 {
    match result.and_then(|code| reporter.stdout().check().map(|()| code)) {
        Ok(code) => code,
        Err(error) => {
            reporter.error(&error);
            reporter.exit_code(&error)
        }
    }
}
