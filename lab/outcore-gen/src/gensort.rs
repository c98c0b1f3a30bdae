//! The records of sortbenchmark.org's gensort 1.5, byte for byte.
//!
//! Contract: record `n` is a pure function of `n` and the options. All randomness comes from one
//! linear congruential generator modulo 2^128, `r' = r * A + C` from 0. It can be entered at any
//! position in 128 steps, because a power of an affine map is affine (Knuth, volume 2, 3.2.1). No
//! allocation while filling. Source of the constants and layouts: gensort's published behaviour;
//! the checksums in the tests are gensort's own.

/// Multiplier and increment of the generator. The increment is its first value, which makes the
/// first key read `JimGrayRIP`.
const A: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const C: u128 = 0x4a69_6d47_7261_7952_4950_2020_2020_2001;

/// Size of a record and of its key.
pub(crate) const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;

/// Parts of a binary record: each has the top 80 bits of the next value, under its own mask.
const PARTS: usize = 10;
const MASKS: [u128; PARTS] = [
    0,
    0xF0E8_E4E2_E1D8_D4D2_D1CC,
    0xCAC9_C6C5_C3B8_B4B2_B1AC,
    0xAAA9_A6A5_A39C_9A99_9695,
    0x938E_8D8B_8778_7472_716C,
    0x6A69_6665_635C_5A59_5655,
    0x534E_4D4B_473C_3A39_3635,
    0x332E_2D2B_271E_1D1B_170F,
    0xC8C4_C2C1_9894_9291_8CE0,
    0x170F_332E_2D2B_271E_1D1B,
];

/// Selects one of gensort's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GensortOptions {
    /// Printable records that end in CR LF (`-a`).
    pub ascii: bool,
    /// Keys that share prefixes (`-s`).
    pub skewed: bool,
    /// Number of the first record (`-b`); record numbers wrap at 2^128.
    pub first: u128,
}

/// The generator of one kind of output.
#[derive(Debug, Clone)]
pub(crate) struct Gensort {
    options: GensortOptions,
    /// Keys of the records 0 to 128; skewed keys copy their beginnings.
    shared_keys: Vec<[u8; KEY_BYTES]>,
}

impl Gensort {
    /// A generator with these options.
    pub(crate) fn new(options: GensortOptions) -> Self {
        let shared_count = if options.skewed { 129 } else { 0 };
        let shared_keys = (0..shared_count)
            .map(|record| {
                let value = value_of(record);
                if options.ascii {
                    ascii_key(value)
                } else {
                    top_bytes(value)
                }
            })
            .collect();
        Gensort {
            options,
            shared_keys,
        }
    }

    /// Writes the records that start with `first_record`, counted from `options.first`. Panics if
    /// `out` does not hold whole records.
    pub(crate) fn fill(&self, first_record: u64, out: &mut [u8]) {
        assert!(out.len().is_multiple_of(RECORD_BYTES), "whole records");
        let mut record = self.options.first.wrapping_add(u128::from(first_record));
        if self.options.ascii {
            let mut value = value_of(record);
            for bytes in out.chunks_exact_mut(RECORD_BYTES) {
                self.write_ascii(record, value, bytes);
                value = step(value);
                record = record.wrapping_add(1);
            }
            return;
        }
        // Record n contains parts of the values n to n + 9, so these are kept while n advances.
        let mut values = [0; PARTS];
        values[0] = value_of(record);
        for part in 1..PARTS {
            values[part] = step(values[part - 1]);
        }
        for bytes in out.chunks_exact_mut(RECORD_BYTES) {
            for ((value, mask), part) in values.iter().zip(MASKS).zip(bytes.as_chunks_mut().0) {
                *part = top_bytes(value ^ (mask << 48));
            }
            if self.options.skewed {
                self.skew_binary(record, values[0], bytes);
            }
            values.copy_within(1.., 0);
            values[PARTS - 1] = step(values[PARTS - 1]);
            record = record.wrapping_add(1);
        }
    }

    /// The key, the record number in hexadecimal, and a filler of digits repeated four times.
    fn write_ascii(&self, record: u128, value: u128, bytes: &mut [u8]) {
        let (low, filler) = (value as u64, 48);
        bytes[..KEY_BYTES].copy_from_slice(&ascii_key(value));
        if self.options.skewed {
            let shared_bytes = match (low >> 32) & 7 {
                7 => 0,
                shared => shared as usize,
            };
            let shared = &self.shared_keys[bit_length(record)][..shared_bytes];
            bytes[..shared_bytes].copy_from_slice(shared);
        }
        bytes[10..12].fill(b' ');
        for (digit, byte) in bytes[12..44].iter_mut().enumerate() {
            *byte = hex_digit((record >> (124 - 4 * digit)) as u64);
        }
        bytes[44..46].fill(b' ');
        for (digit, four) in bytes[46..98].chunks_exact_mut(4).enumerate() {
            four.fill(hex_digit(low >> (filler - 4 * digit)));
        }
        bytes[98..].copy_from_slice(b"\r\n");
    }

    /// Replaces the key's first bits.
    fn skew_binary(&self, record: u128, value: u128, bytes: &mut [u8]) {
        let shared_bits = match (value as u64 >> 32) & 0x3F {
            49.. => 0,
            bits => bits as usize,
        };
        let shared = &self.shared_keys[bit_length(record)];
        let whole_bytes = shared_bits / 8;
        bytes[..whole_bytes].copy_from_slice(&shared[..whole_bytes]);
        let mask = !(0xFF_u8 >> (shared_bits % 8));
        bytes[whole_bytes] = shared[whole_bytes] & mask | bytes[whole_bytes] & !mask;
    }
}

#[inline(always)]
const fn step(value: u128) -> u128 {
    value.wrapping_mul(A).wrapping_add(C)
}

/// The generator's value after `record + 1` steps from 0.
fn value_of(record: u128) -> u128 {
    // The map of 2^i steps is value * a + c; squaring it applies it twice.
    let (mut a, mut c) = (A, C);
    let (mut value, mut steps) = (0_u128, record);
    while steps != 0 {
        if steps & 1 == 1 {
            value = value.wrapping_mul(a).wrapping_add(c);
        }
        c = c.wrapping_mul(a).wrapping_add(c);
        a = a.wrapping_mul(a);
        steps >>= 1;
    }
    step(value)
}

#[inline(always)]
fn top_bytes(value: u128) -> [u8; KEY_BYTES] {
    let mut top = [0; KEY_BYTES];
    top.copy_from_slice(&value.to_be_bytes()[..KEY_BYTES]);
    top
}

/// Eight printable characters from the high word and two from the low one.
fn ascii_key(value: u128) -> [u8; KEY_BYTES] {
    let (mut high, mut low) = ((value >> 64) as u64, value as u64);
    let mut key = [0; KEY_BYTES];
    for byte in &mut key[..8] {
        *byte = b' ' + (high % 95) as u8;
        high /= 95;
    }
    for byte in &mut key[8..] {
        *byte = b' ' + (low % 95) as u8;
        low /= 95;
    }
    key
}

fn bit_length(record: u128) -> usize {
    (128 - record.leading_zeros()) as usize
}

#[inline(always)]
fn hex_digit(nibble: u64) -> u8 {
    b"0123456789ABCDEF"[(nibble & 15) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(options: GensortOptions, count: usize) -> Vec<u8> {
        let mut out = vec![0; count * RECORD_BYTES];
        Gensort::new(options).fill(0, &mut out);
        out
    }

    fn checksum(options: GensortOptions, count: usize) -> String {
        let records = records(options, count);
        let sum: u128 = records
            .chunks(RECORD_BYTES)
            .map(|record| u128::from(crc32fast::hash(record)))
            .sum();
        format!("{sum:x}")
    }

    const BINARY: GensortOptions = GensortOptions {
        ascii: false,
        skewed: false,
        first: 0,
    };
    const ASCII: GensortOptions = GensortOptions {
        ascii: true,
        ..BINARY
    };
    const SKEWED: GensortOptions = GensortOptions {
        skewed: true,
        ..BINARY
    };

    #[test]
    fn checksums_are_those_that_gensort_is_known_for() {
        for (options, count, wanted) in [
            (BINARY, 1, "9ea593a0"),
            (BINARY, 10, "55fea8a1a"),
            (BINARY, 1000, "1ea6370b955"),
            (BINARY, 1_000_000, "7a0e0d4868cd4"),
            (
                GensortOptions {
                    first: 1_000_000,
                    ..BINARY
                },
                1000,
                "1f912af9809",
            ),
            (ASCII, 1000, "1f5dfb3631a"),
            (ASCII, 1_000_000, "7a19cff467438"),
            (SKEWED, 1000, "1e96301166b"),
            (SKEWED, 1_000_000, "79f9a7e6de673"),
        ] {
            assert_eq!(checksum(options, count), wanted, "{options:?} {count}");
        }
    }

    #[test]
    fn the_first_key_names_jim_gray_and_ascii_records_are_lines() {
        assert_eq!(&records(BINARY, 1)[..10], b"JimGrayRIP");
        for record in records(ASCII, 20).chunks(RECORD_BYTES) {
            assert!(record.ends_with(b"\r\n"));
            assert!(record[..98].iter().all(|byte| (b' '..=b'~').contains(byte)));
        }
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_records(
            ascii: bool, skewed: bool, first: u128, start: u32, count in 1usize..60, cut: usize,
        ) {
            let generator = Gensort::new(GensortOptions { ascii, skewed, first });
            let mut whole = vec![0; count * RECORD_BYTES];
            generator.fill(u64::from(start), &mut whole);
            let cut = cut % (count + 1);
            let mut parts = vec![0; count * RECORD_BYTES];
            let (before, after) = parts.split_at_mut(cut * RECORD_BYTES);
            generator.fill(u64::from(start) + cut as u64, after);
            generator.fill(u64::from(start), before);
            prop_assert_eq!(parts, whole);
        }
    }
}
