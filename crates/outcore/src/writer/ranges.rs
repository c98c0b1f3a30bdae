//! Sets of numbers as ascending ranges.
//!
//! Contract: a [`Ranges`] holds as few ranges as possible: no two of them touch. All operations
//! work on the set of numbers in the ranges. Adding takes time in proportion to the number of
//! ranges.

use std::ops::Range;

/// Ascending ranges without gaps between neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = self.0.partition_point(|known| known.start <= range.end);
        let mut joined = range;
        if let [first, ..] = &self.0[from..to] {
            joined.start = joined.start.min(first.start);
        }
        if let [.., last] = &self.0[from..to] {
            joined.end = joined.end.max(last.end);
        }
        self.0.splice(from..to, [joined]);
    }

    /// Whether all of a range is in this set.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let at = self.0.partition_point(|known| known.end < range.end);
        range.is_empty()
            || self
                .0
                .get(at)
                .is_some_and(|known| known.start <= range.start)
    }

    /// Sum of the lengths.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// The length of the part of this set inside a range.
    pub(crate) fn inside(&self, within: &Range<u64>) -> u64 {
        let part = |range: &Range<u64>| {
            let (start, end) = (range.start.max(within.start), range.end.min(within.end));
            end.saturating_sub(start)
        };
        self.0.iter().map(part).sum()
    }

    /// The numbers that are in both sets.
    pub(crate) fn common(&self, other: &Ranges) -> Ranges {
        let (mut found, mut others) = (Vec::new(), other.0.iter().peekable());
        for range in &self.0 {
            while let Some(next) = others.peek() {
                let (start, end) = (range.start.max(next.start), range.end.min(next.end));
                if start < end {
                    found.push(start..end);
                }
                if next.end > range.end {
                    break;
                }
                others.next();
            }
        }
        Ranges(found)
    }

    /// The numbers outside of this set whose ranks among all outside numbers are in `places`.
    pub(crate) fn outside(&self, places: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let (mut at, mut place) = (0, 0);
        let end = u64::MAX..u64::MAX;
        for known in self.0.iter().chain([&end]) {
            let gap = known.start - at;
            let (from, to) = (places.start.max(place), places.end.min(place + gap));
            if from < to {
                found.push(at + (from - place)..at + (to - place));
            }
            place = place.saturating_add(gap);
            at = known.end;
        }
        found
    }

    /// The ranges.
    pub(crate) fn list(&self) -> &[Range<u64>] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_sets_of_numbers(
            list in proptest::collection::vec((0u64..60, 0u64..9), 0..20),
            others in proptest::collection::vec((0u64..60, 0u64..9), 0..20),
        ) {
            let mut ranges = Ranges::default();
            let mut set = std::collections::BTreeSet::new();
            for (start, len) in list {
                ranges.add(start..start + len);
                set.extend(start..start + len);
            }
            prop_assert_eq!(ranges.total(), set.len() as u64);
            prop_assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            for start in 0..70 {
                for end in start..70 {
                    let within = set.range(start..end).count() as u64;
                    prop_assert_eq!(ranges.inside(&(start..end)), within);
                    prop_assert_eq!(ranges.covers(&(start..end)), within == end - start);
                }
            }
            let mut other = Ranges::default();
            let mut both = std::collections::BTreeSet::new();
            for (start, len) in others {
                other.add(start..start + len);
                both.extend((start..start + len).filter(|number| set.contains(number)));
            }
            let common = ranges.common(&other);
            prop_assert!(common.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(common.0.iter().cloned().flatten().eq(both));
            let outside: Vec<u64> = (0..200).filter(|number| !set.contains(number)).collect();
            for from in 0..20 {
                let found = ranges.outside(from..from + 7);
                let found: Vec<u64> = found.into_iter().flatten().collect();
                prop_assert_eq!(&found[..], &outside[from as usize..from as usize + 7]);
            }
        }
    }
}
