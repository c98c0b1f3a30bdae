//! What drives, and outcore on them, can do: measurements, replays of block traces, their reports.
//!
//! Contract: a measurement is a function from options and a [`Watch`] to a [`report::Report`]; it
//! prints nothing, leaves nothing behind and stops soon after it is asked to. The report is one
//! value with four faces: text for a terminal, JSON, CSV, and one HTML file with its charts in it.
//! Everything is done through the engine's public API.
//!
//! | module | what it has |
//! |---|---|
//! | [`args`] | the flags of the commands |
//! | [`io`] | `bench io`: drives under load |
//! | [`graph`] | `bench graph`: algorithms on graphs, on more and more drives |
//! | [`primitives`] | `bench primitives`: map, filter, reduce, scan, shuffle against size |
//! | [`replay`] | `replay`: traces of requests on drives |
//! | [`sort`] | `bench sort`: a sort larger than memory beside one in memory |
//! | [`vectors`] | `bench vectors`: neighbours, clusters, sort and lookup of vectors, by threads and drives |
//! | [`view`] | `bench view`: sorted views beside sorts that write their result |
//! | [`report`] | tables, charts and findings, and how they are shown |
#![forbid(unsafe_code)]

pub mod args;
mod bench_dirs;
pub mod graph;
pub mod io;
pub mod primitives;
pub mod replay;
pub mod report;
pub mod sort;
mod striped;
pub mod vectors;
pub mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use outcore::job::Job;
use outcore::{Error, Result};
use outcore_io::threads::{self, spawn_scoped};

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
    fn over<T>(&self, job: &Job, work: impl FnOnce() -> Result<T>) -> Result<T> {
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

/// Runs `work` in `threads` threads at once, each with its number, and waits for all.
pub(crate) fn in_threads<T: Send>(
    threads: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    threads::together("outcore-bench", threads, work).unwrap_or_else(|error| vec![Err(error)])
}

/// 1, 2, 4, ... up to `count`, and `count`.
pub(crate) fn powers_up_to(count: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power);
    let mut powers: Vec<usize> = powers.take_while(|power| *power <= count).collect();
    if powers.last() != Some(&count) {
        powers.push(count);
    }
    powers
}

/// An empty histogram of latencies in nanoseconds: three digits, 0.1 us to 100 s (G. Tene's
/// HdrHistogram: constant memory, whatever is counted).
pub(crate) fn latencies() -> Histogram<u64> {
    match Histogram::new_with_bounds(100, 100_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("bounds and digits are sound: {error}"),
    }
}
