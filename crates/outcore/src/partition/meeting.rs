//! Meetings of the threads of a phase.
//!
//! Contract: all threads that have not left wait for each other, and one of them works before any
//! goes on. If another thread of the group fails, those that wait fail too.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::job::thread_group::ThreadGroup;
use outcore_io::Result;

/// How long a thread waits before it checks whether another one has failed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A point at which all threads of a phase wait for each other.
#[derive(Default)]
pub(super) struct Meeting {
    state: Mutex<Met>,
    changed: Condvar,
}

#[derive(Default)]
struct Met {
    members: usize,
    joined: usize,
    round: u64,
    /// When the first one joined.
    began: Option<Instant>,
}

impl Meeting {
    /// Begins a phase of this many threads.
    pub(super) fn begin(&self, members: usize) {
        let mut met = self.state();
        (met.members, met.joined) = (members, 0);
    }

    /// Takes a thread out of the phase; later meetings do not wait for the thread.
    pub(super) fn leave(&self) {
        self.state().members -= 1;
        self.changed.notify_all();
    }

    /// Waits until all members have joined; one of them does `work` before any goes on. The work
    /// gets the time at which the first member joined.
    pub(super) fn join(
        &self,
        group: &ThreadGroup<'_>,
        work: impl FnOnce(Instant) -> Result<()>,
    ) -> Result<()> {
        let mut met = self.state();
        let round = met.round;
        met.joined += 1;
        let began = *met.began.get_or_insert_with(Instant::now);
        while met.round == round {
            if met.joined >= met.members {
                met.began = None;
                work(began)?;
                met.joined = 0;
                met.round += 1;
                self.changed.notify_all();
                return Ok(());
            }
            group.check()?;
            let waited = self.changed.wait_timeout(met, LOOK_EVERY);
            met = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, Met> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
