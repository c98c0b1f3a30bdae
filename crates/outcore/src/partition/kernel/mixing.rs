//! Pseudorandom bits from numbers: the last steps of splitmix64, for one word and for many, and
//! draws from them.
//!
//! Contract: the same results for any vector width; compiled for the widest vectors of the machine.

/// The last steps of splitmix64: every bit of the result depends on every bit of `z`.
#[inline(always)]
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

vectorised! {
    /// [`mix`] of each word.
    fn mix_all(words: &mut [u64]) -> () {
        for word in words {
            *word = mix(*word);
        }
    }
}

vectorised! {
    /// Appends to each of `nodes` the highest `bits` bits of the [`mix`] of its word.
    fn mix_onto(nodes: &mut [u16], words: &[u64], bits: u32) -> () {
        for (node, word) in nodes.iter_mut().zip(words) {
            *node = (*node << bits) + (mix(*word) >> (u64::BITS - bits)) as u16;
        }
    }
}

vectorised! {
    /// Sets each of `nodes` to the highest `bits` bits of the [`mix`] of its word; consecutive
    /// words differ by `step`.
    fn mix_row(nodes: &mut [u16], first: u64, step: u64, bits: u32) -> () {
        let mut word = first;
        for node in nodes {
            *node = (mix(word) >> (u64::BITS - bits)) as u16;
            word = word.wrapping_add(step);
        }
    }
}

vectorised! {
    /// Converts each half of each of `draws`, the upper one first, to a number below its bound. The
    /// bound starts at `bound` and decreases by one per half. In `chosen`, the first of two numbers
    /// is the lower half. False if one of them may have to be drawn again (D. Lemire, ACM TOMACS
    /// 29, 2019).
    fn choose_below(draws: &[u64], bound: u32, chosen: &mut [u64]) -> bool {
        const LOW: u64 = u32::MAX as u64;
        let mut borrows = 0;
        let mut bound = u64::from(bound);
        for (draw, chosen) in draws.iter().zip(chosen) {
            let first = (draw >> 32) * bound;
            let second = (draw & LOW) * (bound - 1);
            *chosen = (first >> 32) | (second & !LOW);
            // A lower half that is below its bound makes the difference negative.
            borrows |= (first & LOW).wrapping_sub(bound) | (second & LOW).wrapping_sub(bound - 1);
            bound -= 2;
        }
        borrows >> 63 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_vectors_mix_is_what_one_word_after_another_is_mixed_to() {
        let words: Vec<u64> = (0..100).map(|i| mix(i) << (i % 7)).collect();
        for count in 0..words.len() {
            let mut mixed = words[..count].to_vec();
            mix_all(&mut mixed);
            let one_by_one: Vec<u64> = words[..count].iter().map(|&word| mix(word)).collect();
            assert_eq!(mixed, one_by_one);
            let mut nodes: Vec<u16> = (0..count as u16).collect();
            mix_onto(&mut nodes, &words, 4);
            for (index, node) in nodes.into_iter().enumerate() {
                assert_eq!(
                    u64::from(node),
                    ((index as u64) << 4) + (one_by_one[index] >> 60)
                );
            }
        }
    }
}
