//! Decides whether the drives kept up with a trace that is played at its times.
//!
//! Contract: the backlog is the number of requests that are due and not complete. It is sampled
//! while requests arrive. The drives did not keep up in one of three cases: the backlog keeps
//! growing; requests had to be held back because too many waited; or, if requests arrived for too
//! short a time to decide, the drives needed longer than that time for the rest. A single late
//! request proves nothing, because the machine may have been busy. Bounds: [`PARTS_MAX`] numbers.

/// Maximum number of parts of the time that are kept.
const PARTS_MAX: usize = 240;
/// Fewer parts do not show growth.
const PARTS_MIN: usize = 6;
const PART_NS: u64 = 10_000_000;
/// Work after the last request was due that does not count as a backlog.
const TAIL_NS: u64 = 100_000_000;

/// The backlog over the time.
#[derive(Debug, Clone)]
pub(super) struct Backlog {
    part_ns: u64,
    /// The minimum in each part, which is the backlog that persists. A burst that is worked off
    /// does not count.
    least: Vec<Option<u64>>,
    most: u64,
    /// Requests that were held back although they were due.
    held: u64,
    last_due_ns: u64,
}

/// Figures of a backlog that the drives did not work off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Behind {
    /// Mean number of requests that waited throughout a part of the time, over the first third.
    pub(super) first: f64,
    /// That mean over the last third.
    pub(super) last: f64,
    /// Largest number at any time.
    pub(super) most: u64,
    /// Seconds from the last request's time to the end.
    pub(super) tail_s: f64,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Backlog {
            part_ns: PART_NS,
            least: Vec::new(),
            most: 0,
            held: 0,
            last_due_ns: 0,
        }
    }

    /// Records that `count` requests are due and not complete.
    pub(super) fn sample(&mut self, at_ns: u64, count: u64) {
        while at_ns / self.part_ns >= PARTS_MAX as u64 {
            let pairs = self.least.chunks(2);
            self.least = pairs
                .map(|pair| pair.iter().flatten().min().copied())
                .collect();
            self.part_ns *= 2;
        }
        let part = (at_ns / self.part_ns) as usize;
        if self.least.len() <= part {
            self.least.resize(part + 1, None);
        }
        let least = &mut self.least[part];
        *least = Some(least.map_or(count, |least| least.min(count)));
        self.most = self.most.max(count);
    }

    /// Records the release of a request that was due at `due_ns`; `is_held` means that it had to
    /// wait for others.
    pub(super) fn released(&mut self, due_ns: u64, is_held: bool) {
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.held += u64::from(is_held);
    }

    /// The figures, if the drives did not keep up. The drives take `at_once` requests at a time.
    pub(super) fn behind(&self, end_ns: u64, at_once: u64) -> Option<Behind> {
        let came = (self.last_due_ns / self.part_ns) as usize + 1;
        let seen: Vec<u64> = self.least.iter().take(came).flatten().copied().collect();
        let third = (seen.len() / 3).max(1).min(seen.len());
        let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len().max(1) as f64;
        let (first, last) = (mean(&seen[..third]), mean(&seen[seen.len() - third..]));
        let tail_ns = end_ns.saturating_sub(self.last_due_ns);
        let is_growing = match seen.len() >= PARTS_MIN {
            true => last > at_once as f64 && last >= 1.5 * first,
            false => tail_ns > TAIL_NS && tail_ns > self.last_due_ns && self.most > at_once,
        };
        (is_growing || self.held > 0).then_some(Behind {
            first,
            last,
            most: self.most,
            tail_s: tail_ns as f64 / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds in which `arrive` requests per second arrive and `serve` are served.
    fn played(arrive: u64, serve: u64) -> (Backlog, u64) {
        let mut backlog = Backlog::new();
        let mut left = 0_u64;
        for ms in 0..10_000 {
            let part = |rate: u64| (ms + 1) * rate / 1000 - ms * rate / 1000;
            left += part(arrive);
            backlog.sample(ms * 1_000_000, left);
            backlog.released(ms * 1_000_000, false);
            left -= part(serve).min(left);
            backlog.sample(ms * 1_000_000 + 500_000, left);
        }
        (backlog, 10_000_000_000 + left * 1_000_000_000 / serve)
    }

    #[test]
    fn drives_that_are_faster_than_the_trace_follow_it() {
        for (arrive, serve) in [(500, 600), (500, 100_000), (50_000, 60_000)] {
            let (backlog, end_ns) = played(arrive, serve);
            assert_eq!(backlog.behind(end_ns, 32), None, "{arrive} {serve}");
        }
    }

    #[test]
    fn drives_that_are_slower_do_not_and_the_figures_say_by_how_much() {
        let (backlog, end_ns) = played(1000, 800);
        let behind = backlog.behind(end_ns, 32).unwrap();
        assert!((300.0..400.0).contains(&behind.first), "{behind:?}");
        assert!((1600.0..1800.0).contains(&behind.last), "{behind:?}");
        assert!((1990..2010).contains(&behind.most), "{behind:?}");
        assert!((2.4..2.6).contains(&behind.tail_s), "{behind:?}");
    }

    #[test]
    fn a_burst_that_is_worked_off_and_a_late_wake_are_no_backlog() {
        let mut backlog = Backlog::new();
        for ms in 0..2000_u64 {
            // Every 200 ms five hundred requests arrive at once, done 20 ms later.
            let left = if ms % 200 < 20 { 500 } else { 0 };
            backlog.sample(ms * 1_000_000, left);
            backlog.released(ms * 1_000_000, false);
        }
        assert_eq!(backlog.behind(2_000_000_000, 32), None);
    }

    #[test]
    fn what_came_all_at_once_and_was_held_back_is_behind() {
        let mut backlog = Backlog::new();
        backlog.sample(0, 10_000);
        backlog.released(1_000_000, false);
        backlog.sample(5_000_000_000, 5_000);
        assert!(backlog.behind(10_000_000_000, 32).is_some());
        let mut backlog = Backlog::new();
        backlog.sample(0, 1);
        backlog.released(0, true);
        assert!(backlog.behind(1_000_000, 32).is_some());
    }
}
