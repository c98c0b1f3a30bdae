//! One run of a command: arguments in, exit code out.
//!
//! Contract: [`answer`] prints clap's message for arguments that call no command. [`Session::run`]
//! does the work of a command and returns its exit code: that of the error's kind
//! ([`outcore::Kind::exit_code`]), or the one that the work returned. A panic is an error that
//! names the command and the file. Results that could not be printed are an error. Datasets that
//! the work wrote are sealed only if it succeeded.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use outcore::{Error, Result};
use outcore_front::resources::unknown_variables;
use outcore_io::config::Environment;
use outcore_verbs::usage;

use crate::common::Common;
use crate::files::{Copying, Files};
use crate::report::Reporter;
use crate::signals::{Interrupt, survive_file_limit};

/// The delay after which a signal ends work that never checks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The context of every command.
#[derive(Clone)]
pub struct Terminal {
    /// Drives file of the volume, if there is one.
    pub volume: Option<PathBuf>,
    /// The meaning of file names.
    pub files: Files,
    /// The output of the command.
    pub reporter: Reporter,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
}

/// A command that is about to run.
pub struct Session<'a> {
    /// Its name, which its events have.
    pub name: &'static str,
    /// The output of the command.
    pub reporter: Reporter,
    /// The flags of every command.
    pub common: &'a Common,
    /// Whether a signal asks the work to stop and clean up; otherwise the process reports the
    /// interruption, and ends.
    pub cleans_up: bool,
    /// Whether scratch goes to the volume's drives if the user gives no others.
    pub lends_drives: bool,
    /// The file for errors that have no file of their own.
    pub first_file: Option<PathBuf>,
}

/// The exit code of a check that failed. Greater ones are those of errors and of closed pipes.
const CHECK_FAILED: u8 = 1;

impl Session<'_> {
    /// Does the work; returns the exit code.
    pub fn run(self, work: impl FnOnce(&Terminal) -> Result<u8>) -> u8 {
        survive_file_limit();
        let interrupt = Interrupt::install();
        allow_open_files();
        let reporter = self.reporter;
        if !self.cleans_up {
            end_when_interrupted(&reporter, &interrupt);
        }
        for unknown in unknown_variables(&Environment::of_process()) {
            reporter.note(&unknown);
        }
        let volume = self.common.volume.clone();
        let copying = Copying {
            reporter: reporter.clone(),
            interrupt: interrupt.clone(),
        };
        let terminal = Terminal {
            files: Files::new(volume.clone(), self.lends_drives, copying),
            volume,
            reporter,
            interrupt,
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&terminal)));
        let result = result.unwrap_or_else(|panic| Err(Error::panicked(self.name, panic)));
        let result = result.map_err(|error| match &self.first_file {
            Some(path) if error.is_panic() && error.file_path().is_none() => error.path(path),
            _ => error,
        });
        let reporter = &terminal.reporter;
        let result = result.and_then(|code| {
            let recorded = reporter.recorder().close();
            // A check that failed may also have results.
            if code <= CHECK_FAILED {
                terminal.files.finish()?;
            }
            recorded?.iter().for_each(|text| reporter.human(text));
            Ok(code)
        });
        finish(reporter, result)
    }
}

/// The first word after the command that is the name of a file.
pub fn first_file(words: &[OsString]) -> Option<PathBuf> {
    let mut names = words.iter().skip(2).map(PathBuf::from);
    names.find(|name| name.is_file())
}

/// Prints clap's message about the words of a call of `root`: help, the version or an error;
/// returns the exit code.
pub fn answer(
    reporter: &Reporter,
    said: &clap::Error,
    root: &clap::Command,
    words: &[OsString],
) -> u8 {
    match usage::read(said, usage::called(root, words)) {
        usage::Parsed::Text(text) => print(reporter, &text),
        usage::Parsed::Wrong(wrong) => finish(reporter, Err(wrong)),
        usage::Parsed::Nothing(wrong, help) => {
            reporter.human(help.trim_end());
            finish(reporter, Err(wrong))
        }
    }
}

/// Prints a text that is the whole result; returns the exit code.
pub fn print(reporter: &Reporter, text: &str) -> u8 {
    reporter.stdout().write(text.as_bytes());
    finish(reporter, Ok(0))
}

/// Reports the error, if there is one, and returns the exit code. A result that could not be
/// printed is an error.
pub fn finish(reporter: &Reporter, result: Result<u8>) -> u8 {
    match result.and_then(|code| reporter.stdout().check().map(|()| code)) {
        Ok(code) => code,
        Err(error) => {
            reporter.error(&error);
            reporter.exit_code(&error)
        }
    }
}

/// Ends the process soon after a signal, for work that has nothing to clean up and never checks for
/// signals.
fn end_when_interrupted(reporter: &Reporter, interrupt: &Interrupt) {
    let (reporter, interrupt) = (reporter.clone(), interrupt.clone());
    let look = move || {
        while interrupt.check().is_ok() {
            std::thread::sleep(LOOK_EVERY);
        }
        let code = finish(&reporter, Err(Error::interrupted()));
        std::process::exit(i32::from(code));
    };
    // Without a thread, a second signal ends the process.
    drop(outcore_io::threads::spawn("outcore-signals", look));
}

/// Raises the limit of open files as far as the system allows: data often have thousands of files.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If the system refuses, fewer are enough for most jobs.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}
