//! Deduplicates a bucket's lines or keys before the sort, so that duplicates are never sorted.
//!
//! Contract: [`Distinct::keep_first`] keeps the first reference of each set of equal strings, with
//! their number as its word, and reports whether all remaining strings are known to differ. If a
//! bucket has few duplicates, the next buckets are left unchanged. If hashes collide too often,
//! some equal strings remain, each with its number; they are adjacent after the sort. [`Times`]
//! keeps the numbers meanwhile, because a sort overwrites the words.
//!
//! Bounds: two words per reference during deduplication, when the sort does not use that memory
//! yet. Then two words per string that occurs more than once, which is at most what the references
//! of its copies have freed. A few probes of the table per reference.
//!
//! N.B. if many lines are duplicates, this saves a large part of the processor time of `sort -u`.
//! If no line occurs twice, the time is wasted, so the next buckets are then left unchanged
//! (docs/decisions/0022).

use super::line_bytes::{hash, is_same};
use super::refs::Ref;
use crate::read::sample::random;
use outcore_io::memory::prefetch;

/// Strings between the steps of deduplication: prefetch the slot, then the reference to the likely
/// duplicate, then its bytes; finally compare both.
const AHEAD: usize = 8;
/// Hashes that are kept for these steps: a power of two.
const HASHES: usize = 32;
const _: () = assert!(3 * AHEAD < HASHES && HASHES.is_power_of_two());
/// One in this many strings must be a duplicate for the next bucket to be worth it.
const STRINGS_A_COPY: usize = 6;
/// Buckets that are skipped after one with few duplicates.
const LEFT_ALONE: u32 = 15;
/// Probes per string of a bucket that may find a different string, which limits the cost of
/// colliding hashes.
const PROBES_A_STRING: usize = 8;
/// Bytes that can be compared at the cost of a probe.
const PROBE_BYTES: usize = 64;

/// Finds equal strings, bucket after bucket.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    /// Number of further buckets to skip.
    left_alone: u32,
}

impl Distinct {
    /// Keeps the first of equal strings in `area`, with their number as its word; 1 for each if the
    /// bucket is skipped. Returns whether all remaining strings differ.
    pub(super) fn keep_first(&mut self, area: &[u8], refs: &mut Vec<Ref>) -> bool {
        if self.left_alone > 0 {
            self.left_alone -= 1;
            refs.iter_mut().for_each(|r| r.word = 1);
            return false;
        }
        let count = refs.len();
        let is_distinct = keep_first(area, refs, PROBES_A_STRING * count);
        if (count - refs.len()) * STRINGS_A_COPY < count {
            self.left_alone = LEFT_ALONE;
        }
        is_distinct
    }
}

/// Slots of an open-addressing table, one word each; 0 if empty.
#[derive(Debug)]
struct Slots(Vec<u64>);

impl Slots {
    /// Half of the slots stay empty.
    fn of(count: usize) -> Self {
        Slots(vec![0; 2 * count])
    }

    /// The first slot for a hash, by its upper half.
    #[inline(always)]
    fn first(&self, hash: u64) -> usize {
        (((hash >> 32) * self.0.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, slot: usize) -> usize {
        match slot + 1 < self.0.len() {
            true => slot + 1,
            false => 0,
        }
    }
}

/// Like [`Distinct::keep_first`], for a bucket with `probes_left` probes that may find a different
/// string. After these probes, a string is compared only with the first one that its search finds.
/// If they differ, the string takes over that slot, and equal strings may remain.
fn keep_first(area: &[u8], refs: &mut Vec<Ref>, mut probes_left: usize) -> bool {
    // Upper half of a slot: lower half of the hash. Lower half: index among the references, plus
    // one.
    let mut slots = Slots::of(refs.len());
    let mut hashes = [0u64; HASHES];
    let (count, mut kept) = (refs.len(), 0);
    for step in 0..count + 3 * AHEAD {
        if let Some(r) = refs.get(step) {
            let hash = hash(area, r.at as usize, r.len_bytes as usize);
            hashes[step % HASHES] = hash;
            prefetch(&slots.0[slots.first(hash)]);
        }
        let likely = |place: usize| {
            if place >= count {
                return None;
            }
            let hash = hashes[place % HASHES];
            let slot = slots.0[slots.first(hash)];
            let is_likely = slot >> 32 == hash & u64::from(u32::MAX);
            kept_by(slot).filter(|_| is_likely)
        };
        if let Some(other) = likely(step.wrapping_sub(AHEAD)).and_then(|other| refs.get(other)) {
            prefetch(other);
        }
        if let Some(other) = likely(step.wrapping_sub(2 * AHEAD)).and_then(|other| refs.get(other))
        {
            other.fetch(area);
        }
        let place = step.wrapping_sub(3 * AHEAD);
        let Some(&r) = refs.get(place) else {
            continue;
        };
        let tag = hashes[place % HASHES] << 32;
        let mut at = slots.first(hashes[place % HASHES]);
        let equal = loop {
            let slot = slots.0[at];
            let Some(other) = kept_by(slot) else {
                break None;
            };
            let mut cost = 1;
            if slot >> 32 == tag >> 32 {
                if is_equal(area, &refs[other], &r) {
                    break Some(other);
                }
                cost += r.len_bytes as usize / PROBE_BYTES;
            }
            if probes_left == 0 {
                break None;
            }
            probes_left = probes_left.saturating_sub(cost);
            at = slots.next(at);
        };
        match equal {
            Some(other) => refs[other].word += 1,
            None => {
                refs[kept] = Ref { word: 1, ..r };
                kept += 1;
                slots.0[at] = tag | kept as u64;
            }
        }
    }
    refs.truncate(kept);
    probes_left > 0
}

/// The index, among the kept references, of a slot's reference.
#[inline(always)]
fn kept_by(slot: u64) -> Option<usize> {
    (slot as u32 as usize).checked_sub(1)
}

#[inline(always)]
fn is_equal(area: &[u8], a: &Ref, b: &Ref) -> bool {
    let (a_at, b_at) = (a.at as usize, b.at as usize);
    a.len_bytes == b.len_bytes && is_same(area, a_at, area, b_at, a.len_bytes as usize)
}

/// The number of occurrences of strings, by their offsets in their area.
#[derive(Debug)]
pub(super) struct Times(Slots);

impl Times {
    /// Keeps the words of the references, where they are above 1.
    ///
    /// # Panics
    /// If a word has more than 32 bits; a bucket has fewer strings than that.
    pub(super) fn of(refs: &[Ref]) -> Self {
        let repeated = || refs.iter().filter(|r| r.word > 1);
        let mut slots = Slots::of(repeated().count());
        for r in repeated() {
            assert!(r.word <= u64::from(u32::MAX), "a bucket has fewer strings");
            let mut at = slots.first(random(0, u64::from(r.at)));
            while slots.0[at] != 0 {
                at = slots.next(at);
            }
            // Upper half: offset of the string. Lower half: number of occurrences.
            slots.0[at] = u64::from(r.at) << 32 | r.word;
        }
        Times(slots)
    }

    /// The number of occurrences of the string at this offset.
    #[inline(always)]
    pub(super) fn at(&self, place: u32) -> u64 {
        let Times(slots) = self;
        if slots.0.is_empty() {
            return 1;
        }
        let mut at = slots.first(random(0, u64::from(place)));
        loop {
            let slot = slots.0[at];
            if slot == 0 {
                return 1;
            }
            if slot >> 32 == u64::from(place) {
                return slot & u64::from(u32::MAX);
            }
            at = slots.next(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::refs::{AnyTie, sort_refs};
    use super::*;

    fn area_of(lines: &[Vec<u8>]) -> (Vec<u8>, Vec<Ref>) {
        let (mut area, mut refs) = (Vec::new(), Vec::new());
        for line in lines {
            let from = area.len();
            area.extend_from_slice(line);
            refs.push(Ref::to(from, area.len()));
            area.push(b'\n');
        }
        (area, refs)
    }

    fn any_lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let line = prop_oneof![
            prop::collection::vec(prop_oneof![Just(0u8), Just(b'a')], 0..4),
            // Few different lines of each length, so that there are duplicates. The lengths are
            // around the length that is compared at once, and beyond it.
            (61usize..67, 0u8..3).prop_map(|(len, last)| [vec![b'a'; len], vec![last]].concat()),
            (150usize..153, 0u8..3)
                .prop_map(|(len, first)| [vec![first], vec![b'a'; len]].concat()),
            prop::collection::vec(any::<u8>(), 0..200),
        ];
        prop::collection::vec(line, 0..400)
    }

    proptest! {
        #[test]
        fn the_first_of_equal_lines_is_left_with_their_number(lines in any_lines()) {
            let (area, mut refs) = area_of(&lines);
            let all = refs.clone();
            prop_assert!(Distinct::default().keep_first(&area, &mut refs) || lines.is_empty());
            let mut expected: BTreeMap<&[u8], (u32, u64)> = BTreeMap::new();
            for r in &all {
                expected.entry(r.bytes(&area)).or_insert((r.at, 0)).1 += 1;
            }
            prop_assert!(refs.is_sorted_by_key(|r| r.at));
            let times = Times::of(&refs);
            for r in &refs {
                prop_assert_eq!(times.at(r.at), r.word);
            }
            sort_refs(&area, &mut refs, 0, &AnyTie);
            let got: Vec<_> = refs.iter().map(|r| (r.bytes(&area), (r.at, times.at(r.at)))).collect();
            prop_assert_eq!(got, expected.into_iter().collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn where_hashes_collide_too_often_no_line_is_lost(lines in any_lines(), probes in 0..20usize) {
            let (area, mut refs) = area_of(&lines);
            let is_distinct = keep_first(&area, &mut refs, probes);
            let mut got: BTreeMap<&[u8], u64> = BTreeMap::new();
            for r in &refs {
                *got.entry(r.bytes(&area)).or_default() += r.word;
            }
            prop_assert!(!is_distinct || got.len() == refs.len());
            prop_assert!(refs.is_sorted_by_key(|r| r.at));
            let mut expected: BTreeMap<&[u8], u64> = BTreeMap::new();
            for line in &lines {
                *expected.entry(line).or_default() += 1;
            }
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn buckets_after_one_of_different_lines_are_left_alone_for_a_while() {
        let different: Vec<Vec<u8>> = (0..100u8).map(|byte| vec![byte]).collect();
        let (area, all) = area_of(&different);
        let mut distinct = Distinct::default();
        assert!(distinct.keep_first(&area, &mut all.clone()));
        let (area, all) = area_of(&vec![b"same".to_vec(); 100]);
        for _ in 0..LEFT_ALONE {
            let mut refs = all.clone();
            assert!(!distinct.keep_first(&area, &mut refs));
            assert_eq!(refs.len(), 100);
            assert!(refs.iter().all(|r| r.word == 1));
        }
        for _ in 0..3 {
            let mut refs = all.clone();
            assert!(distinct.keep_first(&area, &mut refs));
            assert_eq!((refs.len(), refs[0].word), (1, 100));
        }
    }
}
