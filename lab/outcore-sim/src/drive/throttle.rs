//! A token bucket in front of a drive: the block layer's throttle, for comparison with loop drives.
//!
//! Model: Linux `blk-throttle` (block/blk-throttle.c, `tg_within_bps_limit`, `throtl_trim_slice`),
//! separately for reads and writes. Time is cut into slices. A request may use the bytes that the
//! rate allows until the end of its slice, so a whole slice's bytes may pass at once; other
//! requests wait until they fit. Requests of one direction keep their order. Each request is
//! charged in pieces of at most `request` bytes, as the block layer splits it, and passes when its
//! last piece may.
//!
//! Invariant: over any time, the bytes that pass exceed rate x time by at most two slices' worth.
//! No allocation. Times are not rounded to the kernel's ticks.

use super::TIME_MAX;
use crate::config::ThrottleConfig;
use crate::quantities::{Ps, SECOND};

/// One direction's bucket.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// Bytes per second; 0 means no limit.
    rate: u64,
    slice: Ps,
    request_bytes: u64,
    slice_start: Ps,
    slice_end: Ps,
    /// Bytes that passed since `slice_start`.
    used_bytes: u64,
    /// Time at which the last request passed.
    last: Ps,
    /// Bytes that passed since the counters began.
    passed_bytes: u64,
}

/// Buckets for reads and writes.
#[derive(Debug, Clone)]
pub(super) struct Throttle {
    pub(super) read: Bucket,
    pub(super) write: Bucket,
}

impl Throttle {
    pub(super) fn new(config: &ThrottleConfig) -> Self {
        let bucket = |rate: u64| Bucket {
            rate,
            slice: config.slice.0.max(1),
            request_bytes: config.request.0.max(512),
            slice_start: 0,
            slice_end: 0,
            used_bytes: 0,
            last: 0,
            passed_bytes: 0,
        };
        Throttle {
            read: bucket(config.read.0),
            write: bucket(config.write.0),
        }
    }

    /// Bytes that passed in `span_ps` as a share of what may pass, for the direction with the
    /// larger share; `None` without a limit.
    pub(super) fn share(&self, span_ps: Ps) -> Option<f64> {
        let limited = [&self.read, &self.write].into_iter().filter(|b| b.rate > 0);
        limited
            .map(|bucket| bucket.share(span_ps))
            .max_by(f64::total_cmp)
    }

    pub(super) fn restart_counters(&mut self) {
        self.read.passed_bytes = 0;
        self.write.passed_bytes = 0;
    }
}

impl Bucket {
    /// The time at which a request of `bytes` that arrives now may pass.
    #[inline]
    pub(super) fn admit(&mut self, now: Ps, bytes: u64) -> Ps {
        if self.rate == 0 {
            return now;
        }
        self.admit_limited(now, bytes)
    }

    fn admit_limited(&mut self, now: Ps, bytes: u64) -> Ps {
        self.passed_bytes += bytes;
        let mut at = now.max(self.last);
        let mut rest = bytes;
        // A time after the end of all runs need not be exact, only late.
        while rest > 0 && at <= TIME_MAX {
            let piece = rest.min(self.request_bytes);
            at = self.dispatch(at, piece);
            rest -= piece;
        }
        self.last = at;
        at
    }

    /// The share of the bytes that may pass in `span_ps`, in which the bytes of the last slice may
    /// pass at its beginning.
    fn share(&self, span_ps: Ps) -> f64 {
        let whole_ps = span_ps
            .max(1)
            .div_ceil(self.slice)
            .saturating_mul(self.slice);
        let most_bytes = self.bytes_in(whole_ps).max(1);
        (self.passed_bytes as f64 / most_bytes as f64).min(1.0)
    }

    fn bytes_in(&self, ps: Ps) -> u64 {
        (u128::from(self.rate) * u128::from(ps) / u128::from(SECOND)) as u64
    }

    fn time_of(&self, bytes: u64) -> Ps {
        (u128::from(bytes) * u128::from(SECOND)).div_ceil(u128::from(self.rate)) as Ps
    }

    fn dispatch(&mut self, now: Ps, bytes: u64) -> Ps {
        let mut now = now;
        // The first round covers the missing bytes, the second one the remainder of rounding, so
        // the loop ends.
        loop {
            if now > self.slice_end || self.slice_end == 0 {
                self.slice_start = now;
                self.slice_end = now + self.slice;
                self.used_bytes = 0;
            } else {
                self.slice_end = self.slice_end.max(now + self.slice);
            }
            let elapsed = now - self.slice_start;
            let until = elapsed.max(1).div_ceil(self.slice) * self.slice;
            let allowed = self.bytes_in(until);
            if self.used_bytes + bytes <= allowed {
                break;
            }
            let lacking = self.used_bytes + bytes - allowed;
            now += (self.time_of(lacking) + (until - elapsed)).max(1);
            self.slice_end = self.slice_end.max(now);
        }
        self.used_bytes += bytes;
        self.trim(now);
        now
    }

    /// Discards whole slices that are over, so that their unused bytes are lost.
    fn trim(&mut self, now: Ps) {
        self.slice_end = now + self.slice;
        let elapsed = (now - self.slice_start) / self.slice * self.slice;
        if elapsed < 2 * self.slice {
            return;
        }
        let over = elapsed - self.slice;
        self.used_bytes = self.used_bytes.saturating_sub(self.bytes_in(over));
        self.slice_start += over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantities::{MS, Rate, Size, Time};
    use proptest::prelude::*;

    fn bucket(rate: u64) -> Bucket {
        Throttle::new(&ThrottleConfig {
            read: Rate(rate),
            write: Rate(0),
            slice: Time(100 * MS),
            request: Size(1 << 20),
        })
        .read
    }

    #[test]
    fn a_slice_goes_at_once_and_the_rest_at_the_rate() {
        let mut bucket = bucket(50_000_000);
        for _ in 0..4 {
            assert_eq!(bucket.admit(0, 1_000_000), 0);
        }
        // 500 MB at 50 MB/s, in requests of 4 MB, as fast as the throttle passes them.
        let mut at = 0;
        for _ in 0..124 {
            at = bucket.admit(at, 4_000_000);
        }
        let seconds = at as f64 / SECOND as f64;
        assert!((seconds - 10.0).abs() < 0.2, "{seconds}");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut bucket = bucket(0);
        assert_eq!(bucket.admit(7, u64::MAX), 7);
    }

    proptest! {
        #[test]
        fn never_more_than_two_slices_ahead_of_the_rate_and_never_idle_for_long(
            gaps in prop::collection::vec((0u64..300, 1u64..8_000_000), 1..60), rate in 1u64..400)
        {
            let rate = rate * 1_000_000;
            let mut bucket = bucket(rate);
            let (mut now, mut last) = (0, 0);
            let mut seen: Vec<(Ps, u64)> = Vec::new();
            for (gap_ms, bytes) in gaps {
                now += gap_ms * MS;
                let at = bucket.admit(now, bytes);
                prop_assert!(at >= now && at >= last);
                seen.push((at, bytes));
                last = at;
            }
            // For every pair of them.
            for first in 0..seen.len() {
                let mut sum = 0;
                for next in &seen[first + 1..] {
                    sum += next.1;
                    let span = next.0 - seen[first].0;
                    let fair = (u128::from(rate) * u128::from(span) / u128::from(SECOND)) as u64;
                    prop_assert!(sum <= fair + rate / 5 + 8_000_001, "{sum} {fair}");
                }
            }
        }
    }
}
