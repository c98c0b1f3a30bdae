//! When the next checkpoint of a job is due.
//!
//! Contract: a checkpoint is due after a part of the data ([`PARTS`]). If the last one was not
//! [`SHORT`], [`COST_PARTS`] times its duration must also have passed, so that checkpoints take
//! about 2 % of the time. The duration includes the time for which threads wait for the last one.
//! After a quarter of the data, [`FAR_COST_PARTS`] times the duration are enough, so that a short
//! job on a slow drive repeats little. The first checkpoint of a phase waits for data only.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outcore_io::journal::Progress;

/// Checkpoints per phase at most, and the bytes between two of them.
const PARTS: u64 = 32;
const BETWEEN_BYTES_MIN: u64 = 256 << 10;
const BETWEEN_BYTES_MAX: u64 = 4 << 30;
/// The time between two checkpoints, as a multiple of the duration of the last one, unless that was
/// short.
const COST_PARTS: u32 = 50;
/// The same multiple after one part in [`FAR_PARTS`] of the data.
const FAR_COST_PARTS: u32 = 10;
const FAR_PARTS: u64 = 4;
const SHORT: Duration = Duration::from_millis(5);

/// The pace of checkpoints.
pub(super) struct Pace {
    total_bytes: u64,
    between_bytes: u64,
    far_bytes: u64,
    done_bytes: AtomicU64,
    since_bytes: AtomicU64,
    is_due: AtomicBool,
    is_timed: bool,
    /// The end of the last checkpoint, and how long it took.
    last: Mutex<(Instant, Duration)>,
}

impl Pace {
    /// For a job of `data_bytes`. Without the system's clock (`is_timed`), durations do not count,
    /// and the job makes the same checkpoints each time.
    pub(super) fn new(data_bytes: u64, is_timed: bool) -> Self {
        Pace {
            is_timed,
            total_bytes: 2 * data_bytes,
            between_bytes: (data_bytes / PARTS).clamp(BETWEEN_BYTES_MIN, BETWEEN_BYTES_MAX),
            far_bytes: data_bytes / FAR_PARTS,
            done_bytes: AtomicU64::new(0),
            since_bytes: AtomicU64::new(0),
            is_due: AtomicBool::new(false),
            last: Mutex::new((Instant::now(), Duration::ZERO)),
        }
    }

    /// Begins a phase, whose checkpoints may take longer or shorter than earlier ones.
    pub(super) fn begin(&self) {
        *self.last() = (Instant::now(), Duration::ZERO);
    }

    /// Counts progress.
    pub(super) fn advance(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count(bytes);
    }

    /// Counts bytes that were counted as progress before.
    pub(super) fn count(&self, bytes: u64) {
        let since_bytes = self.since_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if since_bytes >= self.between_bytes {
            let (ended, took) = *self.last();
            let cost_parts = match since_bytes >= self.far_bytes {
                true => FAR_COST_PARTS,
                false => COST_PARTS,
            };
            if !self.is_timed || took <= SHORT || ended.elapsed() >= took * cost_parts {
                self.is_due.store(true, Ordering::Release);
            }
        }
    }

    /// Whether a checkpoint is due.
    pub(super) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// The bytes that the job reads in its phases.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The progress of the job.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            done_bytes: self
                .done_bytes
                .load(Ordering::Relaxed)
                .min(self.total_bytes),
            total_bytes: self.total_bytes,
        }
    }

    /// Notes that a checkpoint, which `began` then, has just been made.
    pub(super) fn made(&self, began: Instant) {
        *self.last() = (Instant::now(), began.elapsed());
        self.since_bytes.store(0, Ordering::Relaxed);
        self.is_due.store(false, Ordering::Release);
    }

    fn last(&self) -> MutexGuard<'_, (Instant, Duration)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA_BYTES: u64 = 1 << 30;
    const PART_BYTES: u64 = DATA_BYTES / PARTS;

    /// A pace whose last checkpoint took this long.
    fn after(took: Duration, is_timed: bool) -> Pace {
        let pace = Pace::new(DATA_BYTES, is_timed);
        pace.made(Instant::now().checked_sub(took).unwrap());
        pace
    }

    #[test]
    fn a_checkpoint_waits_for_a_part_of_the_data() {
        let pace = after(Duration::ZERO, true);
        pace.advance(PART_BYTES - 1);
        assert!(!pace.is_due());
        pace.advance(1);
        assert!(pace.is_due());
        pace.made(Instant::now());
        assert!(!pace.is_due());
        let Progress { done_bytes, .. } = pace.progress();
        assert_eq!(done_bytes, PART_BYTES);
    }

    #[test]
    fn a_long_checkpoint_delays_the_next_one() {
        let hour = Duration::from_secs(3600);
        let pace = after(hour, true);
        pace.advance(DATA_BYTES);
        assert!(!pace.is_due());
        // A phase does not know yet how long its checkpoints take.
        pace.begin();
        pace.advance(1);
        assert!(pace.is_due());
        let untimed = after(hour, false);
        untimed.advance(PART_BYTES);
        assert!(untimed.is_due());
    }
}
