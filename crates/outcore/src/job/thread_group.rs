//! The threads of one phase: started together, stopped together, one failure.
//!
//! Contract: [`ThreadGroup::run`] calls the work once per thread and waits for all. The result is
//! the first failure: an error, a panic, or a thread that the system refuses. A failure replaces an
//! interruption, even an earlier one. It makes [`ThreadGroup::check`] fail in the other threads, so
//! that they stop at their next check. Cancelling the job does the same. With one thread the work
//! runs on the caller's thread, which keeps runs on an in-memory device repeatable.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Job;
use outcore_io::nodes;
use outcore_io::port::Volume;
use outcore_io::threads::spawn_scoped;
use outcore_io::{Error, Kind, Result};

/// Threads that work on one task.
pub(crate) struct ThreadGroup<'a> {
    job: &'a Job,
    threads: usize,
    /// The NUMA node of each thread that is bound to one.
    nodes: Vec<Option<usize>>,
    is_stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl<'a> ThreadGroup<'a> {
    /// As many threads as the job allows, at most `useful`, at least one.
    pub(crate) fn new(job: &'a Job, useful: u64) -> Self {
        let useful = usize::try_from(useful).unwrap_or(usize::MAX);
        ThreadGroup {
            job,
            threads: job.options.threads.min(useful).max(1),
            nodes: Vec::new(),
            is_stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// The same threads, near the known drives of `volume`, if the machine has several NUMA nodes.
    pub(crate) fn near(self, volume: &Volume) -> Self {
        ThreadGroup {
            // With one thread, the work runs on the caller's thread, which must stay free to run on
            // any node.
            nodes: match self.threads > 1 && nodes::has_several() {
                true => nodes::deal(&volume.nodes(), self.threads),
                false => Vec::new(),
            },
            ..self
        }
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Fails once the job is cancelled or another thread has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.job.control.check()?;
        if self.is_stopped.load(Ordering::Relaxed) {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Runs `work` on every thread, with its number; fails with the first failure.
    pub(crate) fn run(&self, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        self.run_one(&work)
    }

    /// As [`ThreadGroup::run`]; not generic, so that it is compiled only once.
    fn run_one(&self, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        let guarded = |index: usize| {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(index)));
            if let Err(error) = outcome.unwrap_or_else(|panic| Err(self.panicked(panic))) {
                self.stop(error);
            }
        };
        if self.threads == 1 {
            guarded(0);
        } else {
            std::thread::scope(|scope| {
                let guarded = &guarded;
                for index in 0..self.threads {
                    let name = format!("outcore-{} of {}", index + 1, self.threads);
                    let node = self.nodes.get(index).copied().flatten();
                    let work = move || {
                        node.inspect(|node| nodes::run_on(*node));
                        guarded(index);
                    };
                    if let Err(error) = spawn_scoped(scope, &name, work) {
                        // The running threads stop at their next check.
                        return self.stop(error);
                    }
                }
            });
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }

    /// Runs `work` on every thread; returns all results in order of thread number, or the first
    /// failure.
    pub(crate) fn run_for_all<T: Send>(
        &self,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let results: Vec<Mutex<Option<T>>> = (0..self.threads).map(|_| Mutex::new(None)).collect();
        self.run(|index| {
            let result = work(index)?;
            let mut place = results[index]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *place = Some(result);
            Ok(())
        })?;
        let results = results.into_iter();
        let results = results
            .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(results.collect())
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) -> Error {
        Error::panicked(self.job.control.step(), panic)
    }

    fn stop(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that was only stopped may report before the thread that failed.
        match &*failure {
            Some(first)
                if first.kind() != Kind::Interrupted || error.kind() == Kind::Interrupted => {}
            _ => *failure = Some(error),
        }
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it gave no reason")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::job::JobOptions;
    use outcore_io::drive::testing::{RamDevice, RamOptions};

    pub(crate) fn job(threads: usize) -> Job {
        let options = JobOptions {
            threads,
            ..JobOptions::default()
        };
        Job::on(options, Arc::new(RamDevice::new(RamOptions::default())))
    }

    #[test]
    fn the_first_failure_stops_all_and_is_the_one_reported() {
        let job = job(3);
        let thread_group = ThreadGroup::new(&job, u64::MAX);
        let result = thread_group.run(|index| {
            if index == 1 {
                return Err(Error::usage("test", "the cause"));
            }
            loop {
                thread_group.check()?;
                std::thread::yield_now();
            }
        });
        assert_eq!(result.unwrap_err().cause(), "the cause");
    }

    #[test]
    fn a_panic_becomes_an_error_and_stops_the_others() {
        let job = job(2);
        let thread_group = ThreadGroup::new(&job, u64::MAX);
        let result = thread_group.run(|index| {
            assert!(index != 1, "thread one is broken");
            loop {
                thread_group.check()?;
                std::thread::yield_now();
            }
        });
        let text = result.unwrap_err().to_string();
        assert!(text.contains("thread one is broken"), "{text}");
    }

    #[test]
    fn no_more_threads_than_there_is_work_and_cancelling_stops_them() {
        let job = job(8);
        assert_eq!(ThreadGroup::new(&job, 3).threads(), 3);
        assert_eq!(ThreadGroup::new(&job, 0).threads(), 1);
        job.control.cancel();
        let thread_group = ThreadGroup::new(&job, 2);
        let error = thread_group.run(|_| thread_group.check()).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    }
}
