//! The caller's side of a measurement: what it is shown, and how it stops the work.
//!
//! Contract: a measurement reports each step and asks at most [`LOOK_EVERY`] apart whether to stop.
//! A job that runs within [`Watch::over`] is cancelled when the caller asks, and then fails with
//! [`outcore::Kind::Interrupted`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outcore::job::Job;
use outcore::{Error, Result};
use outcore_io::threads::spawn_scoped;

/// How often a watched job looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Who watches a measurement.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Told what is being measured now.
    pub say: &'a (dyn Fn(&str) + Sync),
    /// Asked now and then whether to stop.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Watch<'_> {
    /// Nobody.
    pub fn none() -> Self {
        Watch {
            say: &|_| (),
            is_cancelled: &|| false,
        }
    }

    /// Tells what is being measured now.
    pub(crate) fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// Fails with [`outcore::Kind::Interrupted`] once asked to stop.
    ///
    /// # Errors
    /// That one.
    pub fn check(&self) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Runs a job and cancels it when asked to.
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
            // Without it the work went on unwatched.
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
