//! Meetings of the threads of a phase.
//!
//! Contract: all threads that have not left wait for each other, and one of them works before any
//! goes on. If that work fails, no other thread does it again: the others fail once the group has
//! stopped. If another thread of the group fails, those that wait fail too.

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
    /// Whether the work of a meeting has failed.
    has_failed: bool,
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
            if met.joined >= met.members && !met.has_failed {
                met.began = None;
                met.has_failed = true;
                work(began)?;
                met.has_failed = false;
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::job::thread_group::tests::job;
    use outcore_io::Error;

    #[test]
    fn work_that_failed_is_not_done_again_by_a_thread_that_waited() {
        for _ in 0..20 {
            let job = job(4);
            let group = ThreadGroup::new(&job, 4);
            let (meeting, works) = (Meeting::default(), AtomicUsize::new(0));
            meeting.begin(4);
            let done = group.run(|_| {
                meeting.join(&group, |_| {
                    works.fetch_add(1, Ordering::Relaxed);
                    Err(Error::usage("sync", "it failed once"))
                })
            });
            assert!(done.unwrap_err().to_string().contains("it failed once"));
            assert_eq!(works.into_inner(), 1);
        }
    }

    #[test]
    fn one_thread_works_before_any_goes_on_in_each_round() {
        let job = job(3);
        let group = ThreadGroup::new(&job, 3);
        let (meeting, works) = (Meeting::default(), AtomicUsize::new(0));
        meeting.begin(3);
        group
            .run(|_| {
                for round in 1..=50 {
                    meeting.join(&group, |_| {
                        works.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                    assert!(works.load(Ordering::Relaxed) >= round);
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(works.into_inner(), 50);
    }
}
