//! What every subcommand gets from its caller.
//!
//! Contract: made once from the flags, and passed down; nothing here is global.

use std::path::PathBuf;

use outcore::Result;
use outcore::job::Job;
use outcore_front::output::Target;
use outcore_front::resources::{Resources, is_in_memory};

use crate::cli::RecordingArgs;
use crate::datasets::Files;
use crate::recorder::Kept;
use crate::report::Reporter;
use crate::signals::Interrupt;

/// What every subcommand gets.
#[derive(Clone)]
pub(crate) struct Context {
    /// Drives file of the volume, if one is named.
    pub(crate) volume: Option<PathBuf>,
    /// What names of files mean.
    pub(crate) files: Files,
    /// How it talks.
    pub(crate) reporter: Reporter,
    /// Whether the user asked to stop.
    pub(crate) interrupt: Interrupt,
}

impl Context {
    /// What the run works with, once it has said all that it reads and writes: datasets are among the files
    /// of the device, and its I/O is recorded if that is wanted.
    ///
    /// # Errors
    /// The volume cannot be opened; a trace that must not be written; more inputs than the memory has room for.
    pub(crate) fn start(
        &self,
        resources: Resources,
        record_io: &RecordingArgs,
        kept: Kept<'_>,
    ) -> Result<Resources> {
        resources.expect(kept.sources);
        let resources = resources.holding_inputs(kept.sources.len())?;
        let resources = self.files.add_to(resources)?;
        let trace = record_io
            .path()
            .map(|name| self.files.output(name, kept.force));
        let trace = trace.transpose()?;
        self.reporter
            .recorder()
            .start(resources, trace.as_deref(), kept)
    }

    /// Says where scratch goes if that is neither a drive that was named nor beside the output.
    pub(crate) fn note_scratch(&self, resources: &Resources, target: &Target, job: &Job) {
        if let ([], [drive]) = (resources.specs(), job.options.drives.as_slice()) {
            let beside = target.dir();
            let cause = match is_in_memory(&beside) {
                true => "is in memory",
                false => "is not writable",
            };
            self.reporter.note(&format!(
                "scratch goes to {}, since {} {cause}; name another place with --drive",
                drive.dir.display(),
                beside.display()
            ));
        }
    }
}
