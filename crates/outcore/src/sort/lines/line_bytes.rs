//! Hashes and comparisons of lines, 64 bytes at a time, independent of a line's length.
//!
//! Model: folded multiplication (Wang Yi, wyhash, 2019). A line of text is seldom longer than a
//! block of 64 bytes. The whole block is loaded, bytes after the line are masked, and no branch
//! depends on the length.
//!
//! Contract: [`hash`] depends only on the bytes of the line, not on those around it. Hashes are
//! never written to a file: another version may compute different ones.
//!
//! N.B. xxh3, which branches on the length, is as fast if it is fully inlined, and takes several
//! times as long otherwise. Loads that depend on the length (as in rapidhash) are slower
//! (docs/decisions/0022).

/// Bytes that are processed together.
const BLOCK_BYTES: usize = 64;
const WORDS: usize = BLOCK_BYTES / 8;

/// A block, and its words.
type Block = [u8; BLOCK_BYTES];
type Words = [u64; WORDS];

/// A block of ones and a block of zeros; the mask of each length is a slice of both.
const MASKS: [u8; 2 * BLOCK_BYTES] = {
    let mut masks = [0; 2 * BLOCK_BYTES];
    let mut at = 0;
    while at < BLOCK_BYTES {
        masks[at] = 0xFF;
        at += 1;
    }
    masks
};

/// Odd numbers without a pattern: the digits of pi.
const KEYS: [u64; 9] = [
    0x243F_6A88_85A3_08D3,
    0x1319_8A2E_0370_7345,
    0xA409_3822_299F_31D1,
    0x082E_FA98_EC4E_6C89,
    0x4528_21E6_38D0_1377,
    0xBE54_66CF_34E9_0C6D,
    0xC0AC_29B7_C97C_50DD,
    0x3F84_D5B5_B547_0917,
    0x9216_D5D9_8979_FB1B,
];

/// A hash of the `len_bytes` bytes of `area` that start at `at`.
///
/// # Panics
/// If the area is shorter.
#[inline(always)]
pub(super) fn hash(area: &[u8], at: usize, len_bytes: usize) -> u64 {
    let (mut at, mut left, mut hash) = (at, len_bytes, len_bytes as u64);
    while left > BLOCK_BYTES {
        hash = mix(hash, words_at(area, at, BLOCK_BYTES));
        at += BLOCK_BYTES;
        left -= BLOCK_BYTES;
    }
    mix(hash, words_at(area, at, left))
}

/// Whether `len_bytes` bytes of two areas, each after an offset, are equal.
///
/// # Panics
/// If one of the areas is shorter.
#[inline(always)]
pub(super) fn is_same(
    area: &[u8],
    at: usize,
    other: &[u8],
    other_at: usize,
    len_bytes: usize,
) -> bool {
    if len_bytes <= BLOCK_BYTES
        && let Some(block) = area[at..].first_chunk()
        && let Some(other) = other[other_at..].first_chunk()
    {
        let (words, others, masks) = (words(block), words(other), mask(len_bytes));
        let differs = |index: usize| (words[index] ^ others[index]) & masks[index];
        return (0..WORDS).fold(0, |all, index| all | differs(index)) == 0;
    }
    area[at..at + len_bytes] == other[other_at..other_at + len_bytes]
}

/// The words of at most a block of bytes, padded with zeros.
#[inline(always)]
fn words_at(area: &[u8], at: usize, len_bytes: usize) -> Words {
    match area[at..].first_chunk() {
        Some(block) => {
            let (mut words, masks) = (words(block), mask(len_bytes));
            (0..WORDS).for_each(|index| words[index] &= masks[index]);
            words
        }
        None => padded(&area[at..at + len_bytes]),
    }
}

/// Like `words_at`, for bytes at the end of an area.
#[cold]
fn padded(bytes: &[u8]) -> Words {
    let mut block = [0; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    words(&block)
}

#[inline(always)]
fn words(block: &Block) -> Words {
    bytemuck::cast(*block)
}

/// Ones for the first `len_bytes` bytes of a block.
#[inline(always)]
fn mask(len_bytes: usize) -> Words {
    MASKS[BLOCK_BYTES - len_bytes..]
        .first_chunk()
        .map_or([0; WORDS], words)
}

/// The hash of the bytes so far followed by a block.
#[inline(always)]
fn mix(hash: u64, words: Words) -> u64 {
    let pair = |index: usize| {
        fold(
            words[index] ^ KEYS[index],
            words[index + 1] ^ KEYS[index + 1],
        )
    };
    let folded = pair(0) ^ pair(2) ^ pair(4) ^ pair(6);
    fold(folded ^ hash, KEYS[8])
}

/// Combines the halves of the product of two words.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_has_one_hash_wherever_it_lies_and_is_the_same_as_itself_alone(
            line in prop::collection::vec(any::<u8>(), 0..300),
            before in prop::collection::vec(any::<u8>(), 0..70),
            behind in prop::collection::vec(any::<u8>(), 0..70),
            changed in any::<prop::sample::Index>(),
        ) {
            let len_bytes = line.len();
            let area = [&before[..], &line, &behind].concat();
            let at = before.len();
            prop_assert_eq!(hash(&area, at, len_bytes), hash(&line, 0, len_bytes));
            prop_assert!(is_same(&area, at, &line, 0, len_bytes));
            if len_bytes > 0 {
                let mut other = line.clone();
                other[changed.index(len_bytes)] ^= 1;
                prop_assert!(!is_same(&area, at, &other, 0, len_bytes));
                prop_assert_ne!(hash(&area, at, len_bytes), hash(&other, 0, len_bytes));
            }
        }
    }

    #[test]
    fn both_halves_of_hashes_of_similar_lines_differ() {
        let lines = (0..1 << 16).map(|number: u32| format!("{number:b}"));
        let zeros = (0..256).map(|len| "\0".repeat(len));
        let hashes: HashSet<u64> = lines
            .chain(zeros)
            .map(|line| hash(line.as_bytes(), 0, line.len()))
            .collect();
        assert_eq!(hashes.len(), (1 << 16) + 256);
        for half in [0, 32] {
            let halves: HashSet<u32> = hashes.iter().map(|hash| (hash >> half) as u32).collect();
            // Among this many random 32-bit numbers, the expected number of equal pairs is one
            // half.
            assert!(hashes.len() - halves.len() < 10);
        }
    }
}
