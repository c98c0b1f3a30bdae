//! Names of files on a command line, datasets among them.
//!
//! Contract: [`Files`] says what a name means (see [`outcore_verbs::datasets`]). A copy of a
//! dataset shows how far it is, and stops when a signal comes.

use std::path::Path;
use std::sync::Arc;

use outcore::Result;
use outcore::job::Control;
use outcore_front::staging::Work;
use outcore_io::drive::Device;
use outcore_store::dataset::Watch;
use outcore_verbs::datasets::{self, DatasetHost};

use crate::report::Reporter;
use crate::signals::Interrupt;
use crate::{progress, resources};

/// What names of files mean.
pub type Files = datasets::Files<Copying>;

/// How datasets are copied: with progress, until a signal comes.
#[derive(Clone)]
pub struct Copying {
    /// How the command talks.
    pub reporter: Reporter,
    /// Whether the user asked to stop.
    pub interrupt: Interrupt,
}

impl DatasetHost for Copying {
    fn device(&self) -> Result<Arc<dyn Device>> {
        Ok(resources::without_flags()?.device())
    }

    fn call(&self, path: &Path, name: &Path) {
        self.reporter.call(path, name);
    }

    fn copy(&self, bytes: u64, work: &Work<'_>) -> Result<()> {
        let (reporter, interrupt) = (&self.reporter, &self.interrupt);
        let control = Control::default();
        control.begin_phase("copy", bytes);
        // The events of a command begin with its own.
        let is_stopped = || interrupt.check();
        let is_cancelled = || control.check();
        let check: &dyn Fn() -> Result<()> = match reporter.is_json() {
            true => &is_stopped,
            false => &is_cancelled,
        };
        let told = Watch {
            check,
            advance: &|bytes| control.advance(bytes),
        };
        match reporter.is_json() {
            true => work(told),
            false => progress::watch(reporter, interrupt, &control, &[("copy", 1.0)], || {
                work(told)
            }),
        }
    }
}
