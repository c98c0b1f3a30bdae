//! Offset-value codes: where a key first differs from the last key that a merge output, and the
//! bytes there, in one word.
//!
//! Source: Conner, "Offset-value coding" (IBM Technical Disclosure Bulletin 20(7), 1977); Do and
//! Graefe, "Robust and efficient sorting with offset-value coding" (ACM TODS 48(1), 2023).
//!
//! Contract: keys are byte strings, all at or after one *base*. Among two [`code`]s for that base,
//! the smaller one belongs to the key that comes first. Keys of equal codes agree in the first
//! [`agreed_bytes`], and are compared from there on. A key that loses a comparison by its code has
//! the same code relative to the winner. A [`LoserTree`] whose losers have codes relative to the
//! winner above them therefore compares every common byte of keys only once, not once per level.
//!
//! N.B. reading lines with 40 common bytes from a view takes half of the time; lines with few
//! common bytes pay 10 ns per line for their codes (docs/decisions/0022).
//!
//! [`LoserTree`]: crate::sort::loser_tree::LoserTree

use std::cmp::Ordering;

use super::refs::word_of;
use crate::key::sort_key::compare;
use crate::sort::loser_tree::{ENDED, Node};

/// The code of a key that is equal to its base.
const EQUAL: u64 = 0;
/// Bytes of a key in a code, below their position.
const UNIT_BYTES: usize = 6;
const UNIT_BITS: u32 = 48;
const UNIT_MASK: u64 = (1 << UNIT_BITS) - 1;
/// Number of units that a code can distinguish: for keys that agree further, it contains no bytes.
const UNITS_MAX: u64 = 0xFFFE;

/// Which keys come first, and whether codes are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coding {
    pub(crate) is_descending: bool,
    /// If false, all codes are as if no key had been output, for runs that are not sorted.
    pub(crate) is_kept: bool,
}

impl Coding {
    /// The code of a key relative to `base`, the last key that was output, if any. `None` if the
    /// key comes before it.
    #[inline(always)]
    pub(crate) fn code(self, key: &[u8], base: Option<&[u8]>) -> Option<u64> {
        match base.filter(|_| self.is_kept) {
            Some(base) => self.code_beyond(key, base, 0),
            None => Some(self.unit(key, 0)),
        }
    }

    /// The code of `key` relative to `base`, which agree in the first `from_bytes`.
    #[inline(always)]
    fn code_beyond(self, key: &[u8], base: &[u8], from_bytes: usize) -> Option<u64> {
        let at = first_difference(key, base, from_bytes);
        let (byte, base_byte) = (key.get(at), base.get(at));
        if byte == base_byte {
            return Some(EQUAL);
        }
        let is_behind = (byte > base_byte) != self.is_descending;
        is_behind.then(|| self.unit(key, at / UNIT_BYTES))
    }

    #[inline(always)]
    fn unit(self, key: &[u8], unit: usize) -> u64 {
        let units = (unit as u64).min(UNITS_MAX);
        let value = match units < UNITS_MAX {
            true => word_of(key, unit * UNIT_BYTES) >> (64 - UNIT_BITS),
            false => 0,
        };
        let value = match self.is_descending {
            true => value ^ UNIT_MASK,
            false => value,
        };
        // One is added, so that no code is as small as the code of a key that is equal to its base.
        ((1 + UNITS_MAX - units) << UNIT_BITS) | value
    }

    /// Whether `a` comes before `b`, whose codes have one base: by codes, then by `keys`, then by
    /// `tie` and the number of the run. The loser gets a code relative to the winner.
    #[inline(always)]
    pub(crate) fn beats<'k>(
        self,
        a: &mut Node<u64>,
        b: &mut Node<u64>,
        keys: impl FnOnce(usize, usize) -> (&'k [u8], &'k [u8]),
        tie: impl FnOnce(usize, usize) -> Ordering,
    ) -> bool {
        match a.key != b.key {
            true => a.key < b.key,
            false => self.beats_beyond(a, b, keys, tie),
        }
    }

    /// Like `beats`, for equal codes; ended runs come last.
    #[inline(never)]
    fn beats_beyond<'k>(
        self,
        a: &mut Node<u64>,
        b: &mut Node<u64>,
        keys: impl FnOnce(usize, usize) -> (&'k [u8], &'k [u8]),
        tie: impl FnOnce(usize, usize) -> Ordering,
    ) -> bool {
        if (a.run | b.run) & ENDED != 0 {
            return (a.run & ENDED, a.run) < (b.run & ENDED, b.run);
        }
        let (first, second) = keys(a.run_index(), b.run_index());
        let from_bytes = match self.is_kept {
            true => agreed_bytes(a.key).min(first.len()).min(second.len()),
            false => 0,
        };
        let by_key = match (self.is_kept && a.key == EQUAL, self.is_descending) {
            (true, _) => Ordering::Equal,
            (false, false) => compare(&first[from_bytes..], &second[from_bytes..]),
            (false, true) => compare(&second[from_bytes..], &first[from_bytes..]),
        };
        let order = by_key
            .then_with(|| tie(a.run_index(), b.run_index()))
            .then(a.run.cmp(&b.run));
        let is_before = order.is_lt();
        if self.is_kept {
            let (loser, key, base) = match is_before {
                true => (b, second, first),
                false => (a, first, second),
            };
            loser.key = self.code_beyond(key, base, from_bytes).unwrap_or(EQUAL);
        }
        is_before
    }
}

/// Smallest number of bytes in which keys of the same code agree, if they are that long.
fn agreed_bytes(code: u64) -> usize {
    let units = (1 + UNITS_MAX).saturating_sub(code >> UNIT_BITS);
    units as usize * UNIT_BYTES
}

/// The first byte at or after `from` in which two strings differ, or the end of the shorter one.
#[inline(always)]
fn first_difference(a: &[u8], b: &[u8], from: usize) -> usize {
    let len = a.len().min(b.len());
    let mut at = from.min(len);
    while let (Some(&word), Some(&other)) = (a[at..].first_chunk(), b[at..].first_chunk()) {
        let differs = u64::from_le_bytes(word) ^ u64::from_le_bytes(other);
        if differs != 0 {
            return at + (differs.trailing_zeros() / 8) as usize;
        }
        at += size_of::<u64>();
    }
    at + a[at..len]
        .iter()
        .zip(&b[at..len])
        .take_while(|(byte, other)| byte == other)
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sort::loser_tree::LoserTree;

    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(255u8), Just(b'a'), any::<u8>()];
        (
            prop_oneof![Just(0usize), Just(5), Just(6), Just(7), Just(40)],
            prop::collection::vec(byte, 0..9),
        )
            .prop_map(|(len, rest)| [vec![b'a'; len], rest].concat())
    }

    /// The runs merged; `is_kept` as in [`Coding`].
    fn merged(runs: &[Vec<Vec<u8>>], coding: Coding) -> Vec<(usize, Vec<u8>)> {
        let mut next = vec![0; runs.len()];
        let key = |run: usize, next: &[usize]| runs[run][next[run]].as_slice();
        let head =
            |run: usize, next: &[usize], base: Option<&[u8]>| match next[run] < runs[run].len() {
                true => Node {
                    key: coding.code(key(run, next), base).unwrap(),
                    run: run as u32,
                },
                false => Node {
                    key: u64::MAX,
                    run: run as u32 | ENDED,
                },
            };
        let heads: Vec<_> = (0..runs.len()).map(|run| head(run, &next, None)).collect();
        let beats = |next: &[usize], a: &mut Node<u64>, b: &mut Node<u64>| {
            coding.beats(
                a,
                b,
                |a, b| (key(a, next), key(b, next)),
                |_, _| Ordering::Equal,
            )
        };
        let mut tree = LoserTree::new(&heads, u64::MAX, |a, b| beats(&next, a, b));
        let mut out = Vec::new();
        while !tree.winner().has_ended() {
            let run = tree.winner().run_index();
            let last = key(run, &next).to_vec();
            next[run] += 1;
            let head = head(run, &next, Some(&last));
            tree.replace(head, |a, b| beats(&next, a, b));
            out.push((run, last));
        }
        out
    }

    proptest! {
        #[test]
        fn runs_are_merged_as_their_keys_compare_and_equal_ones_by_their_runs(
            mut runs in prop::collection::vec(prop::collection::vec(any_key(), 0..30), 1..9),
            is_descending in any::<bool>(),
            is_kept in any::<bool>(),
        ) {
            let mut expected = Vec::new();
            for (number, run) in runs.iter_mut().enumerate() {
                run.sort();
                if is_descending {
                    run.reverse();
                }
                expected.extend(run.iter().map(|key| (number, key.clone())));
            }
            expected.sort_by(|a, b| match is_descending {
                true => b.1.cmp(&a.1).then(a.0.cmp(&b.0)),
                false => a.1.cmp(&b.1).then(a.0.cmp(&b.0)),
            });
            let coding = Coding { is_descending, is_kept };
            prop_assert_eq!(merged(&runs, coding), expected);
        }

        #[test]
        fn a_key_that_comes_before_its_base_has_no_code(
            key in any_key(),
            base in any_key(),
            is_descending in any::<bool>(),
        ) {
            let coding = Coding { is_descending, is_kept: true };
            let is_before = match is_descending {
                true => key > base,
                false => key < base,
            };
            prop_assert_eq!(coding.code(&key, Some(&base)).is_none(), is_before);
            prop_assert!(coding.code(&key, None).is_some());
        }
    }

    #[test]
    fn keys_that_agree_further_than_a_code_tells_are_compared_to_their_ends() {
        let far = (UNITS_MAX as usize + 5) * UNIT_BYTES;
        let key = |len: usize, last: u8| [vec![b'x'; len], vec![last]].concat();
        let runs = vec![
            vec![key(far, 1), key(far, 3), key(far + 10, b'z')],
            vec![key(far, 2), key(far, 2), key(far + 10, b'y')],
        ];
        for is_kept in [false, true] {
            let coding = Coding {
                is_descending: false,
                is_kept,
            };
            let from: Vec<usize> = merged(&runs, coding).iter().map(|(run, _)| *run).collect();
            assert_eq!(from, [0, 1, 1, 0, 1, 0]);
        }
    }
}
