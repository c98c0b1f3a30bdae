//! Hashes of all passages of a given length in texts, and a filter of those that may repeat.
//!
//! Contract: [`Passages::each`] returns every passage of a text. A passage counted in bytes begins
//! and ends at a character border, and is the shortest one of at least the given length. A passage
//! counted in tokens has the given number of them. Tokens are separated by white space (Unicode's),
//! which has no effect on the hash; places count tokens then.
//!
//! Equal passages have equal hashes. Different passages of b bytes have equal hashes with a
//! probability of (b / 2^61)^2, over the choice of the two bases. Among 2^32 passages of 50 bytes,
//! the probability that any two collide is 2^-48. [`Repeats`] reports a passage as unique only if
//! that is certain.
//!
//! The hash is Karp and Rabin's ("Efficient randomized pattern-matching algorithms", IBM Journal of
//! Research and Development 1987): a polynomial modulo the prime 2^61 - 1, at two random points.
//!
//! Bounds: four multiplications per byte of text, or per token, for any length of the passages; two
//! bits per slot of [`Repeats`]; 16 bytes per token of a passage. [`Looked`] is the state of a job
//! that has added all passages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::states::{Column, PassState};
use serde::{Deserialize, Serialize};
use twox_hash::{XxHash3_64, XxHash3_128};

const PRIME: u64 = (1 << 61) - 1;
/// The most bytes of a character. A passage is at most `CHAR_BYTES_MAX - 1` bytes longer than the
/// given length. While the window slides, it may also be that much shorter.
const CHAR_BYTES_MAX: usize = 4;
/// Slots of a word.
const SLOTS: u64 = 32;

/// The value of a passage at both points.
pub(super) type Hash = [u64; 2];

/// The unit of the length of passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PassageUnit {
    /// Bytes; characters stay whole.
    #[default]
    Bytes,
    /// Tokens, separated by white space.
    Tokens,
}

/// See the module.
pub(super) struct Passages {
    unit: PassageUnit,
    units_count: usize,
    bases: [u64; 2],
    /// Powers of each base. The first exponent is `units_count - CHAR_BYTES_MAX`; for tokens,
    /// `units_count - 1`.
    powers: [[u64; 2 * CHAR_BYTES_MAX]; 2],
}

impl Passages {
    /// The least length; shorter passages repeat by chance.
    pub(super) fn len_min(unit: PassageUnit) -> usize {
        match unit {
            PassageUnit::Bytes => 8,
            PassageUnit::Tokens => 2,
        }
    }

    /// Passages of `units_count` tokens or, if the unit is bytes, of at least `units_count` bytes.
    pub(super) fn new(unit: PassageUnit, units_count: usize) -> Self {
        let less = match unit {
            PassageUnit::Bytes => CHAR_BYTES_MAX,
            PassageUnit::Tokens => 1,
        };
        let base =
            |seed: u64| XxHash3_64::oneshot_with_seed(seed, b"base of passages") % (PRIME - 1) + 1;
        let bases = [base(1), base(2)];
        let powers = bases.map(|base| {
            let mut power = 1;
            for _ in less..units_count {
                power = product(power, base);
            }
            [(); 2 * CHAR_BYTES_MAX].map(|()| {
                let this = power;
                power = product(power, base);
                this
            })
        });
        Passages {
            unit,
            units_count,
            bases,
            powers,
        }
    }

    /// Passes each passage of `text` to `found`: its start, length and hash. Returns the length of
    /// the text.
    pub(super) fn each(&self, text: &str, found: impl FnMut(usize, usize, Hash)) -> usize {
        match self.unit {
            PassageUnit::Bytes => {
                self.each_of_bytes(text, found);
                text.len()
            }
            PassageUnit::Tokens => self.each_of_tokens(text, found),
        }
    }

    fn each_of_tokens(&self, text: &str, mut found: impl FnMut(usize, usize, Hash)) -> usize {
        let mut last: VecDeque<Hash> = VecDeque::new();
        let (mut hash, mut count) = ([0; 2], 0);
        for token in text.split_whitespace() {
            if last.len() == self.units_count
                && let Some(first) = last.pop_front()
            {
                for (hash, (value, powers)) in hash.iter_mut().zip(first.iter().zip(&self.powers)) {
                    *hash = sum(*hash, PRIME - product(*value, powers[0]));
                }
            }
            let value = token_value(token);
            for (hash, (value, base)) in hash.iter_mut().zip(value.iter().zip(self.bases)) {
                *hash = sum(product(*hash, base), *value);
            }
            last.push_back(value);
            count += 1;
            if last.len() == self.units_count {
                found(count - self.units_count, self.units_count, hash);
            }
        }
        count
    }

    fn each_of_bytes(&self, text: &str, mut found: impl FnMut(usize, usize, Hash)) {
        let bytes = text.as_bytes();
        let (mut hash, mut end) = ([0; 2], 0);
        for start in 0..bytes.len() {
            if text.is_char_boundary(start) {
                let least = start + self.units_count;
                if least > bytes.len() {
                    return;
                }
                while end < least || !text.is_char_boundary(end) {
                    let value = u64::from(bytes[end]) + 1;
                    for (hash, base) in hash.iter_mut().zip(self.bases) {
                        *hash = sum(product(*hash, base), value);
                    }
                    end += 1;
                }
                found(start, end - start, hash);
            }
            // Removes the first byte.
            let value = u64::from(bytes[start]) + 1;
            let power = end - start - 1 + CHAR_BYTES_MAX - self.units_count;
            for (hash, powers) in hash.iter_mut().zip(&self.powers) {
                *hash = sum(*hash, PRIME - product(value, powers[power]));
            }
        }
    }
}

/// Converts a token to a number for each base.
fn token_value(token: &str) -> Hash {
    let hash = XxHash3_128::oneshot(token.as_bytes());
    [hash as u64, (hash >> 64) as u64].map(|part| sum(part & PRIME, 0))
}

fn product(one: u64, other: u64) -> u64 {
    let wide = u128::from(one) * u128::from(other);
    sum(wide as u64 & PRIME, (wide >> 61) as u64)
}

fn sum(one: u64, other: u64) -> u64 {
    let whole = one + other;
    if whole >= PRIME { whole - PRIME } else { whole }
}

/// Slots of hashes: whether none, one or several passages have hit them.
pub(super) struct Repeats {
    words: Vec<AtomicU64>,
    shift: u32,
}

impl Repeats {
    /// Creates slots of at most about `bytes` of memory.
    pub(super) fn new(bytes: u64) -> Self {
        let words = (bytes / size_of::<u64>() as u64).max(2);
        let words_log2 = words.ilog2();
        Repeats {
            words: (0..1u64 << words_log2).map(|_| AtomicU64::new(0)).collect(),
            shift: u64::BITS - words_log2 - SLOTS.ilog2(),
        }
    }

    /// The memory of the slots.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.words.len() * size_of::<u64>()) as u64
    }

    /// The word of a hash's slot, and the first of its two bits.
    fn place(&self, hash: Hash) -> (&AtomicU64, u64) {
        // Fibonacci hashing (Knuth, volume 3, section 6.4), because the value of a short passage is
        // small.
        let slot = hash[0].wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift;
        let word = &self.words[(slot / SLOTS) as usize];
        (word, 1 << (2 * (slot % SLOTS)))
    }

    /// Adds a passage, and returns whether its slot was hit before.
    pub(super) fn add(&self, hash: Hash) -> bool {
        let (word, once) = self.place(hash);
        let before = word.fetch_or(once, Ordering::Relaxed);
        let is_again = before & once != 0;
        if is_again && before & once << 1 == 0 {
            word.fetch_or(once << 1, Ordering::Relaxed);
        }
        is_again
    }

    /// Whether several passages may equal this one, after all have been added.
    pub(super) fn may_repeat(&self, hash: Hash) -> bool {
        let (word, once) = self.place(hash);
        word.load(Ordering::Relaxed) & once << 1 != 0
    }
}

/// The state after the first read: the passages that may repeat.
pub(super) struct Looked {
    pub(super) repeats: Repeats,
    /// Bytes or tokens of all texts.
    pub(super) text_units: u64,
    /// Passages whose slot was already hit.
    pub(super) again: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct LookedFacts {
    filter_bytes: u64,
    text_units: u64,
    again: u64,
}

impl PassState for Looked {
    const NAME: &'static str = "passages that may repeat";
    type Facts = LookedFacts;

    fn facts(&self) -> LookedFacts {
        LookedFacts {
            filter_bytes: self.repeats.memory_bytes(),
            text_units: self.text_units,
            again: self.again,
        }
    }

    fn take(&mut self, facts: LookedFacts) {
        *self = Looked {
            repeats: Repeats::new(facts.filter_bytes),
            text_units: facts.text_units,
            again: facts.again,
        };
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::Atomic64(&self.repeats.words)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(len_bytes: usize, text: &str) -> Vec<(usize, usize, Hash)> {
        let mut all = Vec::new();
        let passages = Passages::new(PassageUnit::Bytes, len_bytes);
        passages.each(text, |start, bytes, hash| all.push((start, bytes, hash)));
        all
    }

    #[test]
    fn passages_begin_and_end_at_characters_and_have_a_hash_of_their_own() {
        for text in [
            "",
            "abcdefg",
            "abcdefghijklmnop",
            "äöüäöüäöüabcäöüäöüabcdefgh",
            "日本語日本語日本語\u{10ffff}abc",
        ] {
            for len_bytes in [8, 9, 10, 11] {
                let found = of(len_bytes, text);
                let expected: Vec<(usize, usize)> = (0..text.len())
                    .filter(|&start| text.is_char_boundary(start))
                    .filter_map(|start| {
                        let mut ends = start + len_bytes..=text.len();
                        let end = ends.find(|&end| text.is_char_boundary(end))?;
                        Some((start, end - start))
                    })
                    .collect();
                let places: Vec<_> = found
                    .iter()
                    .map(|&(start, bytes, _)| (start, bytes))
                    .collect();
                assert_eq!(places, expected, "{text}, {len_bytes}");
                for &(start, bytes, hash) in &found {
                    let alone = of(len_bytes, &text[start..start + bytes]);
                    assert_eq!(alone[0].2, hash);
                    for &(other, other_bytes, other_hash) in &found {
                        let is_same =
                            text[start..start + bytes] == text[other..other + other_bytes];
                        assert_eq!(is_same, hash == other_hash);
                    }
                }
            }
        }
    }

    #[test]
    fn passages_of_tokens_are_equal_where_their_tokens_are() {
        let of = |len: usize, text: &str| {
            let mut all = Vec::new();
            let passages = Passages::new(PassageUnit::Tokens, len);
            let count = passages.each(text, |start, len, hash| all.push((start, len, hash)));
            assert_eq!(count, text.split_whitespace().count());
            all
        };
        let text = " a b\n\nc a\u{3000}b c  \u{e9}t\u{e9} a b c a b";
        let tokens: Vec<&str> = text.split_whitespace().collect();
        for len in 2..6 {
            let found = of(len, text);
            assert_eq!(found.len(), tokens.len() + 1 - len);
            for (place, &(start, tokens_count, hash)) in found.iter().enumerate() {
                assert_eq!((start, tokens_count), (place, len));
                let alone = of(len, &tokens[start..start + len].join(" "));
                assert_eq!(alone[0].2, hash);
                for &(other, _, other_hash) in &found {
                    let is_same = tokens[start..start + len] == tokens[other..other + len];
                    assert_eq!(is_same, hash == other_hash);
                }
            }
        }
        assert!(of(3, "a b").is_empty() && of(2, "").is_empty());
    }

    #[test]
    fn what_comes_twice_is_never_missed() {
        for bytes in [16, 1 << 16] {
            let repeats = Repeats::new(bytes);
            assert!(repeats.memory_bytes() <= bytes);
            let hash = |number: u64| [number * 7919 % PRIME, 0];
            for number in (0..5_000).chain(0..500) {
                repeats.add(hash(number));
            }
            assert!((0..500).all(|number| repeats.may_repeat(hash(number))));
            let wrong = (500..5_000)
                .filter(|&number| repeats.may_repeat(hash(number)))
                .count();
            assert!(bytes == 16 || wrong < 400, "{wrong}");
        }
    }
}
