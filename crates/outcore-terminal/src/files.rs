//! Names of files on a command line, including datasets.
//!
//! Contract: [`Files`] defines the meaning of a name (see [`outcore_verbs::datasets`]). A copy of a
//! dataset shows its progress, and stops when a signal arrives.

use std::path::Path;

use outcore::job::Control;
use outcore::{Kind, Result};
use outcore_front::resources::Resources;
use outcore_front::staging::Work;
use outcore_store::dataset::Watch;
pub use outcore_verbs::datasets::FileNames;
use outcore_verbs::datasets::{self, DatasetHost};

use crate::report::Reporter;
use crate::signals::Interrupt;
use crate::{progress, resources};

/// The meaning of file names.
pub type Files = datasets::Files<Copying>;

/// Copies datasets with progress, until a signal arrives.
#[derive(Clone)]
pub struct Copying {
    /// The output of the command.
    pub reporter: Reporter,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
}

impl DatasetHost for Copying {
    fn resources(&self) -> Result<Resources> {
        resources::until(&self.interrupt, &resources::request_without_flags()?)
    }

    fn call(&self, path: &Path, name: &Path) {
        self.reporter.call(path, name);
    }

    fn note(&self, text: &str) {
        self.reporter.note(text);
    }

    fn copy(&self, bytes: u64, work: &Work<'_>) -> Result<()> {
        let (reporter, interrupt) = (&self.reporter, &self.interrupt);
        let control = Control::default();
        control.begin_phase("copy", bytes);
        // The first event of a command must be its own.
        let is_stopped = || interrupt.check();
        let is_cancelled = || control.check();
        let check: &dyn Fn() -> Result<()> = match reporter.is_json() {
            true => &is_stopped,
            false => &is_cancelled,
        };
        let told = Watch {
            check,
            advance: &|bytes| control.advance(bytes),
            throttle: None,
        };
        match reporter.is_json() {
            // As `progress::watch` does: the wish to stop counts, and not its consequences.
            true => work(told).map_err(|error| match error.kind() {
                Kind::Interrupted => error,
                _ => interrupt.check().err().unwrap_or(error),
            }),
            false => progress::watch(reporter, interrupt, &control, &[("copy", 1.0)], || {
                work(told)
            }),
        }
    }
}
