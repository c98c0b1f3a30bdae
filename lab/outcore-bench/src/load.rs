//! Threads that load the drives, the numbers of threads to try, and a histogram of latencies.
//!
//! Contract: [`in_threads`] returns when all threads have ended, with one result per thread. The
//! size of the histogram is fixed.

use hdrhistogram::Histogram;
use outcore::Result;
use outcore_io::threads;

/// Runs `work` in `threads` threads at the same time, passes each its number, and waits for all.
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
/// HdrHistogram, constant memory).
pub(crate) fn latencies() -> Histogram<u64> {
    match Histogram::new_with_bounds(100, 100_000_000_000, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("bounds and digits are sound: {error}"),
    }
}
