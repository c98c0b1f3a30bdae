//! What every subcommand gets from its caller.
//!
//! Contract: made once from the flags, and passed down; nothing here is global.

use std::path::PathBuf;

use outcore::job::Job;
use outcore_formats::means::Means;
use outcore_formats::output::Target;

use crate::report::Reporter;
use crate::signals::Interrupt;

/// What every subcommand gets.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Drives file of the volume, if one is named.
    pub(crate) volume: Option<PathBuf>,
    /// How it talks.
    pub(crate) reporter: Reporter,
    /// Whether the user asked to stop.
    pub(crate) interrupt: Interrupt,
}

impl Context {
    /// Says where scratch goes if that is neither a drive that was named nor beside the output.
    pub(crate) fn note_scratch(&self, means: &Means, target: &Target, job: &Job) {
        if let ([], [drive]) = (means.specs(), job.options.drives.as_slice()) {
            self.reporter.note(&format!(
                "scratch goes to {}, since {} is in memory; name another place with --drive",
                drive.dir.display(),
                target.dir().display()
            ));
        }
    }
}
