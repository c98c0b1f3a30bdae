//! References to records, sorted by a leading word.
//!
//! Contract: [`sort_entries`] sorts references by their words and keeps the order of equal ones;
//! the caller breaks ties with [`each_tie`]. Bounds: [`entries_bytes`].

use super::radix::{self, Item, space_bytes, space_len};

/// A reference to a record: its leading word and its place.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    /// The current word of the order string.
    pub(crate) word: u64,
    /// Offset of the record in its area, in bytes.
    pub(crate) at_bytes: u32,
}

impl Item for Entry {
    type Word = u64;

    #[inline(always)]
    fn word(&self) -> u64 {
        self.word
    }
}

/// Bytes of `count` entries and of the space in which they are sorted.
pub(crate) const fn entries_bytes(count: u64) -> u64 {
    let bytes = count * size_of::<Entry>() as u64;
    bytes + space_bytes(bytes, size_of::<Entry>())
}

/// Sorts by the leading word; equal words keep their order. The space is kept for the next call.
pub(crate) fn sort_entries(entries: &mut [Entry], space: &mut Vec<Entry>) {
    let len = space_len(entries.len());
    if space.len() < len {
        space.reserve_exact(len - space.len());
        space.resize(len, Entry::default());
    }
    radix::sort(entries, space);
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

    /// Random words, or consecutive short ascending and descending runs.
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
        fn entries_are_sorted_and_ties_are_found(words in any_words()) {
            let mut expected: Vec<(u64, u32)> = words.iter().copied().zip(0..).collect();
            let mut entries: Vec<Entry> = expected
                .iter()
                .map(|&(word, at_bytes)| Entry { word, at_bytes })
                .collect();
            expected.sort();
            // The space is longer than necessary the second time.
            let mut space = Vec::new();
            sort_entries(&mut entries.clone(), &mut space);
            entries.truncate(words.len() / 2 + 1);
            let kept = entries.len() as u32;
            sort_entries(&mut entries, &mut space);
            expected.retain(|(_, at_bytes)| *at_bytes < kept);
            let got: Vec<(u64, u32)> = entries.iter().map(|e| (e.word, e.at_bytes)).collect();
            prop_assert_eq!(got, expected);
            let mut tied = 0;
            each_tie(&mut entries, |tie| {
                assert!(tie.len() > 1 && tie.iter().all(|entry| entry.word == tie[0].word));
                tied += tie.len();
            });
            let alone = entries.chunk_by(|a, b| a.word == b.word).filter(|run| run.len() == 1);
            prop_assert_eq!(tied + alone.count(), entries.len());
        }
    }
}
