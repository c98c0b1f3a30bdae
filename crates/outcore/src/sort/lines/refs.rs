//! Sorts references to byte strings: eight bytes at a time, cached in the reference.
//!
//! Model: multikey string sorting with caching (Bentley and Sedgewick 1997; Ng and Kakehi, "Cache
//! efficient radix sort for string sorting", 2007; Kärkkäinen and Rantala, "Engineering radix sort
//! for strings", 2008). A reference carries the next eight bytes of its string as a big-endian
//! word, so a radix sort of the references never reads the strings. Groups of equal words continue
//! with the next eight bytes; small groups are sorted by insertion.
//!
//! Contract: [`sort_refs`] sorts references by their strings as unsigned bytes, a prefix first, and
//! equal strings by the [`Tie`]. There is no recursion: adversarial strings cost time, not stack.
//!
//! Bounds: a copy of the references for the radix sort, one group description per open level. Each
//! level reads every string that is still tied with another once.

use std::cmp::Ordering;

use crate::partition::kernel::{FETCH_AHEAD, fetch};
use crate::sort::radix::{self, Item, space_len};

pub(crate) use crate::partition::route::Ref;

/// Bytes of references per string: one, and its copy in the radix sort, or, before the sort, the
/// slots of the deduplication.
pub(crate) const REF_BYTES: u64 = 2 * size_of::<Ref>() as u64;
const _: () = assert!(size_of::<Ref>() >= 2 * size_of::<u64>());

impl Ref {
    /// The part of the string after `depth` bytes.
    #[inline(always)]
    fn suffix<'a>(&self, area: &'a [u8], depth: usize) -> &'a [u8] {
        let bytes = self.bytes(area);
        &bytes[depth.min(bytes.len())..]
    }
}

impl Item for Ref {
    type Word = u64;

    #[inline(always)]
    fn word(&self) -> u64 {
        self.word
    }
}

/// Tie-break of equal strings.
pub(crate) trait Tie {
    /// Whether all orders are acceptable, so that [`Tie::compare`] is not called.
    const IS_ANY: bool;
    /// Order of two references to equal strings.
    fn compare(&self, a: &Ref, b: &Ref) -> Ordering;
}

/// Equal strings in any order.
pub(crate) struct AnyTie;

impl Tie for AnyTie {
    const IS_ANY: bool = true;

    fn compare(&self, _: &Ref, _: &Ref) -> Ordering {
        Ordering::Equal
    }
}

impl<F: Fn(&Ref, &Ref) -> Ordering> Tie for F {
    const IS_ANY: bool = false;

    fn compare(&self, a: &Ref, b: &Ref) -> Ordering {
        self(a, b)
    }
}

/// The eight bytes of `bytes` from `depth` on as a big-endian word, padded with zeros.
#[inline(always)]
pub(crate) fn word_of(bytes: &[u8], depth: usize) -> u64 {
    let rest = &bytes[depth.min(bytes.len())..];
    match rest.first_chunk() {
        Some(&first) => u64::from_be_bytes(first),
        None => short_word(rest),
    }
}

/// Like `word_of`, for fewer than eight bytes.
#[inline(always)]
fn short_word(rest: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(padded)
}

/// Like `word_of`, for a string in an area; the bytes around it may be read and are masked.
#[inline(always)]
pub(super) fn word_in(area: &[u8], r: &Ref, depth: usize) -> u64 {
    let left = (r.len_bytes as usize).saturating_sub(depth);
    if left == 0 {
        return 0;
    }
    let from = r.at as usize + depth;
    match area[from..].first_chunk() {
        Some(&first) => {
            let word = u64::from_be_bytes(first);
            word & (u64::MAX << (64 - 8 * left.min(8)))
        }
        None => short_word(&area[from..from + left.min(8)]),
    }
}

/// Groups of at most this size are sorted by insertion. N.B. prefetching their strings in advance
/// is no faster.
const INSERTION: usize = 12;
/// For fewer, the standard library's sort is faster than a radix sort.
const RADIX: usize = 128;

/// Sorts `refs` by their strings in `area`, which all agree in their first `depth` bytes.
pub(crate) fn sort_refs<T: Tie>(area: &[u8], refs: &mut [Ref], depth: usize, tie: &T) {
    let mut open = vec![(0, refs.len(), depth)];
    let mut space = Vec::new();
    while let Some((from, to, depth)) = open.pop() {
        let group = &mut refs[from..to];
        if group.len() <= INSERTION {
            insert(area, group, depth, tie);
            continue;
        }
        let depth = depth + load_words(area, group, depth);
        if group.len() < RADIX {
            group.sort_unstable_by_key(|r| r.word);
        } else {
            // The first group that needs space is the largest.
            if space.is_empty() {
                space.resize(space_len(group.len()), group[0]);
            }
            radix::sort(group, &mut space);
        }
        let mut start = 0;
        while start < group.len() {
            let word = group[start].word;
            let mut end = start + 1;
            while end < group.len() && group[end].word == word {
                end += 1;
            }
            if end - start > 1 {
                let ended = settle_ended(&mut group[start..end], depth + 8, tie);
                if end - start - ended > 1 {
                    open.push((from + start + ended, from + end, depth + 8));
                }
            }
            start = end;
        }
    }
}

/// Loads the words at `depth`, or further on if all strings agree there; returns how much further.
fn load_words(area: &[u8], group: &mut [Ref], depth: usize) -> usize {
    let mut further = 0;
    loop {
        let Some(&first) = group.first() else {
            return further;
        };
        let at = depth + further;
        let expected = word_in(area, &first, at);
        let mut differs = 0;
        let mut shortest = u32::MAX;
        for place in 0..group.len() {
            if let Some(ahead) = group.get(place + FETCH_AHEAD) {
                fetch(area, ahead.at as usize + at, size_of::<u64>());
            }
            let r = &mut group[place];
            r.word = word_in(area, r, at);
            differs |= r.word ^ expected;
            shortest = shortest.min(r.len_bytes);
        }
        if differs != 0 || (shortest as usize) <= at + 8 {
            return further;
        }
        further += 8 + agreeing(area, group, at + 8, shortest as usize);
    }
}

/// Number of bytes after `depth` in which all strings of a group agree, rounded down to whole
/// words.
fn agreeing(area: &[u8], group: &[Ref], depth: usize, shortest: usize) -> usize {
    let Some(first) = group.first() else { return 0 };
    let mut common = &first.bytes(area)[depth..shortest];
    for r in &group[1..] {
        let other = &r.suffix(area, depth)[..common.len()];
        if other != common {
            let same = common.iter().zip(other).take_while(|(a, b)| a == b);
            common = &common[..same.count()];
            if common.len() < 8 {
                return 0;
            }
        }
    }
    common.len() / 8 * 8
}

/// Among strings that agree in all bytes before `depth`, moves those that end there to the front,
/// in order; returns their number.
fn settle_ended<T: Tie>(group: &mut [Ref], depth: usize, tie: &T) -> usize {
    let depth = depth as u32;
    let mut ended = 0;
    for index in 0..group.len() {
        if group[index].len_bytes <= depth {
            group.swap(ended, index);
            ended += 1;
        }
    }
    let settled = &mut group[..ended];
    let is_done = T::IS_ANY
        && settled
            .windows(2)
            .all(|pair| pair[0].len_bytes == pair[1].len_bytes);
    if !is_done {
        // Words are padded with zeros: if two are equal, the shorter string is a prefix.
        settled.sort_unstable_by(|a, b| {
            a.len_bytes
                .cmp(&b.len_bytes)
                .then_with(|| tie.compare(a, b))
        });
    }
    ended
}

fn insert<T: Tie>(area: &[u8], group: &mut [Ref], depth: usize, tie: &T) {
    for r in group.iter_mut() {
        r.word = word_in(area, r, depth);
    }
    for index in 1..group.len() {
        let new = group[index];
        let mut place = index;
        while place > 0 && is_before(area, &new, &group[place - 1], depth, tie) {
            group[place] = group[place - 1];
            place -= 1;
        }
        group[place] = new;
    }
}

#[inline(always)]
fn is_before<T: Tie>(area: &[u8], a: &Ref, b: &Ref, depth: usize, tie: &T) -> bool {
    if a.word != b.word {
        return a.word < b.word;
    }
    let order = a.suffix(area, depth).cmp(b.suffix(area, depth));
    order.then_with(|| tie.compare(a, b)) == Ordering::Less
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn area_of(strings: &[Vec<u8>]) -> (Vec<u8>, Vec<Ref>) {
        let mut area = Vec::new();
        let refs = strings.iter().map(|string| {
            let at = area.len() as u32;
            area.extend_from_slice(string);
            let len = string.len() as u32;
            Ref {
                word: 0,
                at,
                len_bytes: len,
            }
        });
        let refs = refs.collect();
        (area, refs)
    }

    /// Strings of few different bytes, including zeros, after prefixes of many lengths.
    fn any_strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let tail = prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), any::<u8>()], 0..20);
        let string = (0usize..6, tail).prop_map(|(prefix, tail)| {
            let mut string = vec![b'p'; [0, 1, 7, 8, 9, 1024][prefix]];
            string.extend(tail);
            string
        });
        let few = prop::collection::vec(prop_oneof![Just(0u8), Just(1u8)], 0..40);
        prop_oneof![
            prop::collection::vec(string, 0..300),
            prop::collection::vec(few, 0..3000),
        ]
    }

    proptest! {
        #[test]
        fn references_are_sorted_like_their_strings(strings in any_strings()) {
            let (area, mut refs) = area_of(&strings);
            sort_refs(&area, &mut refs, 0, &AnyTie);
            let mut expected = strings;
            expected.sort();
            let got: Vec<&[u8]> = refs.iter().map(|r| r.bytes(&area)).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn equal_strings_are_ordered_as_the_tie_says(strings in any_strings()) {
            let (area, refs) = area_of(&strings);
            for is_turned in [false, true] {
                let mut sorted = refs.clone();
                let tie = |a: &Ref, b: &Ref| match is_turned {
                    false => a.at.cmp(&b.at),
                    true => b.at.cmp(&a.at),
                };
                sort_refs(&area, &mut sorted, 0, &tie);
                let mut expected: Vec<(&[u8], u32)> =
                    refs.iter().map(|r| (r.bytes(&area), r.at)).collect();
                expected.sort_by(|a, b| a.0.cmp(b.0).then_with(|| match is_turned {
                    false => a.1.cmp(&b.1),
                    true => b.1.cmp(&a.1),
                }));
                let place = |r: &Ref| (r.bytes(&area), r.at);
                // Empty strings have the same place as the string after them.
                let got: Vec<(&[u8], u32)> = sorted.iter().map(place).collect();
                prop_assert_eq!(got, expected);
            }
        }
    }

    #[test]
    fn each_string_a_prefix_of_the_next_needs_no_stack() {
        let long = vec![7u8; 20_000];
        let area = long.clone();
        let mut refs: Vec<Ref> = (0..20_000u32)
            .rev()
            .map(|len| Ref {
                word: 0,
                at: 0,
                len_bytes: len,
            })
            .collect();
        sort_refs(&area, &mut refs, 0, &AnyTie);
        assert!(
            refs.windows(2)
                .all(|pair| pair[0].len_bytes < pair[1].len_bytes)
        );
    }
}
