//! The common parts of commands with `--resume` and `--verify-output`.
//!
//! Contract: a command looks for a killed run with the same output before it opens anything, and
//! prints a message if it does not continue that run. If the command continues the run, the engine
//! prints that. If a run fails for a reason that may pass, the command prints that the run can be
//! continued. Inputs must be files that can be read again, and the output one file that the engine
//! writes.

use std::path::{Path, PathBuf};

use outcore::{ANOTHER_JOB, Error, GIVE_UP, Kind, Result};
use outcore_front::content::Recognition;
use outcore_front::inputs::{self, Source};
use outcore_front::output::Target;
use outcore_front::text::output::PlainFor;
use outcore_io::drive::link::real_path;
use outcore_io::drive::objects::is_object;
use outcore_io::drive::private_dir::is_in_private_dir;
use outcore_io::output::parent_of;
use outcore_io::units;
use outcore_store::dataset::Named;

use crate::host::Host;

/// A request to keep a journal, and the output that it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resuming<'a> {
    /// Whether a killed run is to be continued.
    pub is_asked: bool,
    /// The output.
    pub target: &'a Target,
}

impl Resuming<'_> {
    /// Whether a killed run is continued.
    pub(crate) fn is_continued(self) -> bool {
        self.is_asked && self.is_kept()
    }

    /// Whether a killed run with this output can be continued.
    fn is_kept(self) -> bool {
        match self.target.files() {
            [output] => outcore::is_kept(output),
            _ => false,
        }
    }

    /// Whether a killed run is continued. Prints that this run continues the killed one, or that
    /// the killed one can be continued.
    pub(crate) fn begin(self, host: &dyn Host) -> bool {
        let [output] = self.target.files() else {
            return false;
        };
        if self.is_asked && outcore::was_published(output).unwrap_or_default() {
            // The engine says that nothing is left to do.
            return true;
        }
        let Some(mark) = outcore::resumable(output) else {
            return false;
        };
        if !self.is_asked {
            let ago = mark.age().map(|age| units::seconds(age.as_secs_f64()));
            let ago = ago.map_or(String::new(), |ago| {
                format!(" (its last checkpoint was {ago} ago)")
            });
            host.note(&format!(
                "a killed run with this output is kept{ago}; continue it with: {}",
                mark.command
            ));
        }
        self.is_asked
    }

    /// Adds a hint to the error if the killed run is another job, or if its remains are damaged:
    /// the command that gives up the killed run.
    fn name_way_out(self, error: Error) -> Error {
        let [output] = self.target.files() else {
            return error;
        };
        let command = format!(
            "outcore scratch clean --resumable {}",
            parent_of(output).display()
        );
        let is_private = error.file_path().is_some_and(is_in_private_dir);
        match error.next_step() {
            Some(step @ (ANOTHER_JOB | GIVE_UP)) => {
                let hint = format!("{step}: {command}");
                error.hint(hint)
            }
            step if is_private && error.kind() == Kind::Corrupt => {
                let step = step.map_or(String::new(), |step| format!("{step}; "));
                let hint = format!("{step}{GIVE_UP}: {command}");
                error.hint(hint)
            }
            _ => error,
        }
    }

    /// Tells the user if a run that failed can be continued.
    pub(crate) fn explain(self, host: &dyn Host, error: Error) -> Error {
        const NEXT: &str = "the work so far is kept; the same command with --resume continues it";
        match error.kind() {
            _ if !self.is_asked => error,
            // Resuming would end in the same way.
            Kind::CheckFailed | Kind::Usage | Kind::Corrupt => self.name_way_out(error),
            _ if !self.is_kept() => error,
            Kind::Interrupted => error.hint(NEXT),
            Kind::Io | Kind::NoSpace | Kind::Memory => {
                host.note(NEXT);
                error
            }
        }
    }
}

/// Whether a job with a journal may begin although `output` exists, because a killed run has put
/// `output` in place. If the job is that of the killed run, the engine ends it; it rejects any
/// other job.
///
/// # Errors
/// Another run holds the journal; the system's error.
pub(crate) fn may_exist(is_asked: bool, output: Option<&Path>) -> Result<bool> {
    match output.filter(|_| is_asked) {
        Some(output) => outcore::was_published(output),
        None => Ok(false),
    }
}

/// Before a job in passes begins anew: tells the user if a killed run with the same `output` is
/// kept.
pub(crate) fn tell_kept(host: &dyn Host, output: Option<&Path>) {
    if let Some(output) = output {
        let target = Target::File(output.to_path_buf());
        let resuming = Resuming {
            is_asked: false,
            target: &target,
        };
        resuming.begin(host);
    }
}

/// Fails for the output of a job in passes that is not a plain file.
///
/// # Errors
/// Usage.
pub(crate) fn check_plain(output: &Path) -> Result<()> {
    match Named::is_mark(output) || is_object(output) {
        false => Ok(()),
        true => {
            let cause = "only a job that writes a plain file can be resumed";
            Err(refused(cause, "write a file first, or leave --resume out").path(output))
        }
    }
}

/// The value of an option, for the comparison with a killed job. A path counts as the file to
/// which it leads; every other value counts as it is written.
pub(crate) struct OptionValue<'v, T> {
    pub value: &'v T,
}

impl OptionValue<'_, PathBuf> {
    pub(crate) fn said(&self) -> String {
        match self.value.exists() {
            true => format!("{:?}", real_path(self.value)),
            false => format!("{:?}", self.value),
        }
    }
}

/// All other values.
pub(crate) trait SaidByDebug {
    fn said(&self) -> String;
}

impl<T: std::fmt::Debug> SaidByDebug for OptionValue<'_, T> {
    fn said(&self) -> String {
        format!("{:?}", self.value)
    }
}

/// The options of a verb, for the comparison with a killed job: one named field of the verb's
/// arguments per option. A field that is not listed does not compile.
macro_rules! job_options {
    ($args:ident: $($field:ident $(as $name:literal)?),* $(; without $($other:ident),*)?) => {{
        let Self { $($field,)* journal: _, $($($other: _,)*)? } = $args;
        vec![$(outcore::passes::JobOption {
            name: job_options!(@name $field $(, $name)?),
            value: {
                #[allow(unused_imports)]
                use $crate::resumed::SaidByDebug as _;
                $crate::resumed::OptionValue { value: $field }.said()
            },
        }),*]
    }};
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident, $name:literal) => { $name };
}
pub(crate) use job_options;

/// The error for a job that keeps no journal.
pub(crate) fn refused(cause: &str, hint: &str) -> Error {
    Error::usage("resume", cause).hint(hint)
}

/// Rejects inputs that the job would have to copy. A killed run loses its copies, and a check of
/// the output could only compare with a copy.
///
/// # Errors
/// Usage: a stream, or a compressed file that is read as lines. The errors of the inputs.
pub(crate) fn refuse_copies(
    sources: &[Source],
    lines: Option<Recognition>,
    plain_for: PlainFor,
) -> Result<()> {
    const HINT: &str = "make a file of it first";
    let refuse = |cause, source: &Source| Err(plain_for.refuse(cause, HINT).path(&source.name));
    for source in sources {
        if source.is_stream() {
            let cause = match plain_for {
                PlainFor::Resume => "a stream cannot be read again by the run that continues",
                PlainFor::VerifyOutput => {
                    "a stream is copied to scratch, so only a copy can be checked"
                }
            };
            return refuse(cause, source);
        }
        let Some(recognition) = lines else { continue };
        let input = inputs::look_at_lines(source.clone(), recognition)?;
        if recognition.packed(&source.name, input.content).is_some() {
            let cause = match plain_for {
                PlainFor::Resume => {
                    "a compressed input is unpacked to scratch, which a killed run loses"
                }
                PlainFor::VerifyOutput => {
                    "a compressed input is unpacked to scratch, so only a copy can be checked"
                }
            };
            return refuse(cause, source);
        }
    }
    Ok(())
}
