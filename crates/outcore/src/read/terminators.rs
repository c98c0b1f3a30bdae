//! Finds a terminator in bytes: compares 64 bytes at once and keeps the hits as bits.
//!
//! Contract: [`Terminators`] returns the offsets of one byte value, ascending. Each byte is
//! compared once.
//!
//! N.B. `memchr_iter` starts a new search after each hit and takes 4.5 times as long. Eight-byte
//! words in place of vectors take 2 to 4 times as long (docs/decisions/0022).

#![allow(unsafe_code)]

/// Bytes that are compared at once: one bit of the mask each.
const BLOCK_BYTES: usize = 64;

/// The offsets of a byte value in a slice.
#[derive(Debug, Clone)]
pub(crate) struct Terminators<'a> {
    terminator: u8,
    /// Bytes that have not been compared.
    rest: &'a [u8],
    /// The end of the block that was compared last.
    block_end: usize,
    /// The hits in that block that have not been returned, the first one in the lowest bit.
    hits: u64,
}

impl<'a> Terminators<'a> {
    /// The offsets in `bytes`.
    #[inline(always)]
    pub(crate) fn of(terminator: u8, bytes: &'a [u8]) -> Self {
        Terminators {
            terminator,
            rest: bytes,
            block_end: 0,
            hits: 0,
        }
    }
}

impl Iterator for Terminators<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.hits == 0 {
            self.hits = match self.rest.split_first_chunk() {
                Some((block, rest)) => {
                    self.rest = rest;
                    hits_in(block, self.terminator)
                }
                None if self.rest.is_empty() => return None,
                None => hits_in_few(std::mem::take(&mut self.rest), self.terminator),
            };
            self.block_end += BLOCK_BYTES;
        }
        let at = self.block_end - BLOCK_BYTES + self.hits.trailing_zeros() as usize;
        self.hits &= self.hits - 1;
        Some(at)
    }
}

/// Which bytes of a block are `byte`, the first one in the lowest bit.
#[inline(always)]
fn hits_in(block: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has these instructions.
    unsafe {
        use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
        let wanted = _mm_set1_epi8(byte.cast_signed());
        let hits = |part: __m128i| {
            let is_hit = _mm_cmpeq_epi8(part, wanted);
            u64::from(_mm_movemask_epi8(is_hit).cast_unsigned())
        };
        let [first, second, third, fourth]: [__m128i; 4] = bytemuck::cast(*block);
        hits(first) | (hits(second) << 16) | (hits(third) << 32) | (hits(fourth) << 48)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        hits_in_words(block, byte)
    }
}

/// Like `hits_in`, but with eight-byte words, for any machine.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn hits_in_words(block: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    const LOW: u64 = u64::MAX / 0xFF;
    const REST: u64 = LOW * 0x7F;
    let (parts, _) = block.as_chunks();
    parts.iter().rev().fold(0, |hits, &part| {
        let differs = u64::from_le_bytes(part) ^ (LOW * u64::from(byte));
        // The upper bit of each zero byte; they are all gathered in the highest byte.
        let is_hit = !(((differs & REST) + REST) | differs | REST);
        (hits << 8) | ((is_hit >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56)
    })
}

/// Like `hits_in`, for fewer bytes.
#[cold]
fn hits_in_few(bytes: &[u8], byte: u8) -> u64 {
    let mut block = [!byte; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    hits_in(&block, byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_places_are_those_of_a_look_at_each_byte(
            bytes in prop::collection::vec(prop_oneof![3 => Just(b'\n'), 20 => any::<u8>()], 0..400),
            terminator in prop_oneof![Just(b'\n'), any::<u8>()],
        ) {
            let places: Vec<usize> = Terminators::of(terminator, &bytes).collect();
            let expected = (0..bytes.len()).filter(|&at| bytes[at] == terminator);
            prop_assert_eq!(places, expected.collect::<Vec<_>>());
            for block in bytes.as_chunks().0 {
                prop_assert_eq!(hits_in(block, terminator), hits_in_words(block, terminator));
            }
        }
    }
}
