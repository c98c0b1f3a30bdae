//! The caller's side of a measurement: it receives progress, and may stop the work.
//!
//! Contract: a measurement reports each step and asks at least every [`LOOK_EVERY`] whether to
//! stop. A job that runs within [`Watch::over`] is cancelled when the caller asks for it, and then
//! fails with [`outcore::Kind::Interrupted`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outcore::job::Job;
use outcore::{Error, Result};
use outcore_io::threads::spawn_scoped;

/// Interval at which a watched job checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The watcher of a measurement.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Receives a text about the current measurement.
    pub say: &'a (dyn Fn(&str) + Sync),
    /// Asked regularly whether to stop.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'_> {
    /// A watcher that ignores progress and never stops.
    pub fn none() -> Self {
        Watch {
            say: &|_| (),
            is_cancelled: &|| false,
        }
    }

    /// Reports the current measurement.
    pub(crate) fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// Fails with [`outcore::Kind::Interrupted`] once the caller has asked to stop.
    ///
    /// # Errors
    /// [`outcore::Kind::Interrupted`].
    pub fn check(&self) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Runs a job, and cancels it when the caller asks for it.
    pub(crate) fn over<T>(&self, job: &Job, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        let is_over = AtomicBool::new(false);
        let is_cancelled = self.is_cancelled;
        let done = std::thread::scope(|scope| {
            let looker = spawn_scoped(scope, "outcore-watch", || {
                while !is_over.load(Ordering::Acquire) {
                    if is_cancelled() {
                        job.control.cancel();
                        return;
                    }
                    std::thread::park_timeout(LOOK_EVERY);
                }
            });
            let done = work();
            is_over.store(true, Ordering::Release);
            // If the thread could not be created, the work ran unwatched.
            if let Ok(looker) = looker {
                looker.thread().unpark();
            }
            done
        });
        match done {
            Err(_) if job.control.is_cancelled() => Err(Error::interrupted()),
            other => other,
        }
    }
}
