//! Sorting what is in memory: libraries' radix sorts behind two functions.
//!
//! Contract: [`SortKeys`] sorts native integers; [`sort_entries`] sorts references to records by
//! a leading word and leaves ties to the caller. Both may use as much memory again as they sort.
//!
//! N.B. measured on buckets of 0.5 to 4 MiB of u64 whose leading bits agree, one thread, ns a key:
//! voracious_radix_sort 5.4 to 5.6, rdst 8.4, std 10.8. Its diverting radix sort looks at as many
//! leading bits as tell the keys apart and finishes with an insertion sort, which is just what a
//! bucket of a distribution wants.

use voracious_radix_sort::{RadixSort, Radixable};

/// Below this many, the standard library's sort is faster than setting up a radix sort.
const SMALL: usize = 512;

/// Integers that can be sorted here.
pub(crate) trait SortKeys: Sized {
    /// Sorts ascending.
    fn sort_keys(keys: &mut [Self]);
}

macro_rules! sort_keys {
    ($($unsigned:ty),*) => {$(
        impl SortKeys for $unsigned {
            fn sort_keys(keys: &mut [Self]) {
                if keys.len() < SMALL {
                    keys.sort_unstable();
                    return;
                }
                // A bucket's keys lie close together but may straddle a power of two; counted
                // from the least they have leading zeros, which the radix sort skips.
                let least = keys.iter().fold(<$unsigned>::MAX, |least, &key| least.min(key));
                keys.iter_mut().for_each(|key| *key -= least);
                keys.voracious_sort();
                keys.iter_mut().for_each(|key| *key += least);
            }
        }
    )*};
}
sort_keys!(u32, u64, u128);

/// A reference to a record: its leading word and where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// The word of the order string that is sorted by.
    pub(crate) word: u64,
    /// Offset of the record in its area, in bytes.
    pub(crate) at_bytes: u32,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.word.partial_cmp(&other.word)
    }
}

impl Radixable<u64> for Entry {
    type Key = u64;

    #[inline]
    fn key(&self) -> u64 {
        self.word
    }
}

/// Sorts by the leading word; equal words keep their order if `stable`.
pub(crate) fn sort_entries(entries: &mut [Entry], stable: bool) {
    match (entries.len() < SMALL, stable) {
        // N.B. voracious_stable_sort of voracious_radix_sort 1.2 is not stable: where it finds runs
        // in the input, it merges them in an order of its own.
        (_, true) => entries.sort_by_key(|entry| entry.word),
        (true, false) => entries.sort_unstable_by_key(|entry| entry.word),
        (false, false) => entries.voracious_sort(),
    }
}

/// Calls `visit` with each maximal run of at least two entries of equal word.
pub(crate) fn each_tie(entries: &mut [Entry], mut visit: impl FnMut(&mut [Entry])) {
    let mut from = 0;
    while from < entries.len() {
        let word = entries[from].word;
        let mut to = from + 1;
        while to < entries.len() && entries[to].word == word {
            to += 1;
        }
        if to - from > 1 {
            visit(&mut entries[from..to]);
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Random words, or ascending and descending runs of few, one after another.
    fn any_words() -> impl Strategy<Value = Vec<u64>> {
        let run = (0u64..50, 1u64..6, any::<bool>(), 1usize..2000);
        let runs = prop::collection::vec(run, 0..6).prop_map(|runs| {
            let words = runs.into_iter().flat_map(|(first, repeats, is_up, count)| {
                (0..count as u64).map(move |i| {
                    let step = i / repeats / 100;
                    if is_up {
                        first + step
                    } else {
                        1000 + first - step.min(900)
                    }
                })
            });
            words.collect()
        });
        prop_oneof![
            prop::collection::vec(prop_oneof![0u64..50, any::<u64>()], 0..3000),
            runs,
        ]
    }

    proptest! {
        #[test]
        fn entries_are_sorted_and_stable_where_asked(words in any_words()) {
            let entries: Vec<Entry> = words
                .iter()
                .enumerate()
                .map(|(i, &word)| Entry { word, at_bytes: i as u32 })
                .collect();
            let mut sorted = entries.clone();
            sort_entries(&mut sorted, true);
            let mut expected: Vec<(u64, u32)> =
                entries.iter().map(|e| (e.word, e.at_bytes)).collect();
            expected.sort();
            let got: Vec<(u64, u32)> = sorted.iter().map(|e| (e.word, e.at_bytes)).collect();
            prop_assert_eq!(&got, &expected);
            let mut unstable = entries;
            sort_entries(&mut unstable, false);
            each_tie(&mut unstable, |tie| tie.sort_unstable_by_key(|e| e.at_bytes));
            let got: Vec<(u64, u32)> = unstable.iter().map(|e| (e.word, e.at_bytes)).collect();
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn keys_are_sorted(mut keys in prop::collection::vec(any::<u128>(), 0..2000)) {
            let mut expected = keys.clone();
            expected.sort();
            u128::sort_keys(&mut keys);
            prop_assert_eq!(keys, expected);
        }
    }
}
