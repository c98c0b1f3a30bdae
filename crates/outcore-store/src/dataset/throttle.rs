//! Limits the rate of a pass over datasets.
//!
//! Contract: a [`Throttle`] lets no more bytes pass than its rate allows, measured from its first
//! bytes to any later moment. It gives no credit for pauses. A wait ends early if the caller is to
//! stop.
//!
//! Bounds: one moment of time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use outcore_io::error::Result;

/// Longest sleep between two looks at whether the caller is to stop.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// A limit on a rate.
#[derive(Debug)]
pub struct Throttle {
    bytes_per_s: u64,
    /// The time from which the rate allows more bytes.
    paid: Cell<Option<Instant>>,
}

impl Throttle {
    /// At most `bytes_per_s` bytes per second; at least one.
    pub fn new(bytes_per_s: u64) -> Self {
        Throttle {
            bytes_per_s: bytes_per_s.max(1),
            paid: Cell::new(None),
        }
    }

    /// Waits as long as the rate requires after `len_bytes` more.
    ///
    /// # Errors
    /// Those of `check`.
    pub(super) fn wait(&self, len_bytes: u64, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let now = Instant::now();
        let cost = Duration::from_secs_f64(len_bytes as f64 / self.bytes_per_s as f64);
        let paid = self.paid.get().map_or(now, |paid| paid.max(now)) + cost;
        self.paid.set(Some(paid));
        loop {
            check()?;
            let left = paid.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use outcore_io::error::{Error, Kind};

    use super::*;

    #[test]
    fn no_more_than_the_rate_passes_and_pauses_earn_nothing() {
        let throttle = Throttle::new(1_000_000);
        let start = Instant::now();
        for _ in 0..4 {
            throttle.wait(25_000, &|| Ok(())).unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(60));
        let start = Instant::now();
        throttle.wait(50_000, &|| Ok(())).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let looks = Cell::new(0);
        let check = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                3 => Err(Error::new(Kind::Io, "test", "stop")),
                _ => Ok(()),
            }
        };
        assert!(Throttle::new(1).wait(1 << 20, &check).is_err());
    }
}
