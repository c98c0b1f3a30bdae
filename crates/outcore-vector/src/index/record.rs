//! A vector's record in an index: one byte per number, and a bound on the error.
//!
//! Contract: a record holds codes `c` and three numbers: `scale` s, `residual` and `square`. For
//! the vector x in the file,
//!
//! ```text
//! | x - s c |  <=  residual            square  =  |x|^2, rounded to the nearest f32
//! ```
//!
//! where every `s c` is an exact f32: s has 16 significant bits and c seven. If a vector's numbers
//! are so large or small that f32 is too imprecise, its residual is infinite and it has no codes;
//! searches then have to measure the vector. Only a zero vector has scale, residual and square 0.
//!
//! Layout, little-endian: a signed byte for each dimension, then `scale`, `residual` and `square`
//! as f32, then the record's 32-bit checksum, which also covers its position and the base.
//! [`TAIL_BYTES`] is the length of everything after the codes.

use outcore_io::checksum::{BlockLocation, block_checksum};

use crate::exact::{dot, round_up};
use crate::format::Element;
use crate::scan::{is_out_of_range, strange_in};

/// Bytes of a record after its codes.
pub(crate) const TAIL_BYTES: usize = 16;
/// The largest code.
const CODE_MAX: f64 = 127.0;
/// Vectors whose largest number is outside of 2^-40 to 2^50 are not coded. Inside this range,
/// squares of norms stay far from the limits of f32.
const LARGEST: std::ops::RangeInclusive<f64> = 9.094_947_017_729_282e-13..=1_125_899_906_842_624.0;
/// The norm of a residual is increased by this part, 2^-30, which is far more than the error of its
/// sum.
const SLACK: f64 = 1.0 / 1_073_741_824.0;

/// The parts of a record other than its codes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Facts {
    /// The factor of the codes.
    pub(crate) scale: f32,
    /// A bound on the distance between the vector and its codes times the scale.
    pub(crate) residual: f32,
    /// The square of the vector's norm, rounded to the nearest f32.
    pub(crate) square: f32,
}

impl Facts {
    /// Whether the vector is zero.
    pub(crate) fn is_zero(&self) -> bool {
        self.square == 0.0 && self.residual == 0.0
    }
}

/// The least number with 16 significant bits that is not below `value`, which is a normal f32.
fn short_scale(value: f64) -> f32 {
    const LOW: u32 = 0xff;
    let near = round_up(value).to_bits();
    f32::from_bits((near + LOW) & !LOW)
}

/// Writes the record of the vector in `bytes`, without its checksum, and decodes its numbers into
/// `wide`. If distances cannot be computed from a number, returns its column and does not encode
/// the vector.
pub(crate) fn encode(
    element: Element,
    bytes: &[u8],
    wide: &mut [f64],
    out: &mut [u8],
) -> Option<usize> {
    let (codes, tail) = out.split_at_mut(wide.len());
    let coding = Coding {
        element,
        bytes,
        vector: wide,
        codes,
    };
    let Some(facts) = pulp::Arch::new().dispatch(coding) else {
        return strange_in(wide);
    };
    let numbers = [facts.scale, facts.residual, facts.square];
    for (number, place) in numbers.iter().zip(tail.chunks_exact_mut(size_of::<f32>())) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    None
}

/// Writes the record of a vector of finite f64, without its checksum.
#[cfg(test)]
pub(crate) fn encode_numbers(vector: &[f64], record: &mut [u8]) {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut wide = vec![0.0; vector.len()];
    assert_eq!(encode(Element::F64, &bytes, &mut wide, record), None);
}

/// The encoding of a vector, in loops that are compiled for the processor.
struct Coding<'a> {
    element: Element,
    bytes: &'a [u8],
    vector: &'a mut [f64],
    codes: &'a mut [u8],
}

impl pulp::NullaryFnOnce for Coding<'_> {
    type Output = Option<Facts>;

    #[inline(always)]
    fn call(self) -> Option<Facts> {
        self.element.decode_f64(self.bytes, self.vector);
        let (largest, is_finite) = largest_of(self.vector);
        (is_finite && !is_out_of_range(largest)).then(|| code(self.vector, largest, self.codes))
    }
}

/// Numbers per loop step.
const LANES: usize = 8;

/// Adding this to a number below 2^51 rounds it to the nearest integer, ties to even, and leaves
/// that integer in the lowest bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

#[inline(always)]
fn code(vector: &[f64], largest: f64, codes: &mut [u8]) -> Facts {
    let square = dot(vector, vector) as f32;
    if !LARGEST.contains(&largest) {
        codes.fill(0);
        let residual = match largest == 0.0 {
            true => 0.0,
            false => f32::INFINITY,
        };
        return Facts {
            scale: 0.0,
            residual,
            square,
        };
    }
    let scale = short_scale(largest / CODE_MAX);
    let (wide, inverse) = (f64::from(scale), 1.0 / f64::from(scale));
    let mut lanes = [0.0_f64; LANES];
    let (numbers, numbers_rest) = vector.as_chunks::<LANES>();
    let (places, places_rest) = codes.as_chunks_mut::<LANES>();
    // N.B. Indexed loops, and rounding by an addition: iterator chains and saturating casts prevent
    // vectorization.
    let coded = |number: f64| {
        let shifted = number * inverse + ROUNDING;
        let off = number - (shifted - ROUNDING) * wide;
        (shifted.to_bits() as u8, off * off)
    };
    for at in 0..numbers.len() {
        for lane in 0..LANES {
            let (code, square) = coded(numbers[at][lane]);
            lanes[lane] += square;
            places[at][lane] = code;
        }
    }
    for lane in 0..numbers_rest.len() {
        let (code, square) = coded(numbers_rest[lane]);
        lanes[lane] += square;
        places_rest[lane] = code;
    }
    let residual = lanes.iter().sum::<f64>().sqrt();
    Facts {
        scale,
        residual: round_up(residual * (1.0 + SLACK)),
        square,
    }
}

/// The largest absolute value, and whether all numbers are finite.
#[inline(always)]
fn largest_of(vector: &[f64]) -> (f64, bool) {
    let (mut lanes, mut zeros) = ([0.0_f64; LANES], [0.0_f64; LANES]);
    let (numbers, rest) = vector.as_chunks::<LANES>();
    for eight in numbers {
        for lane in 0..LANES {
            let size = eight[lane].abs();
            lanes[lane] = if size > lanes[lane] {
                size
            } else {
                lanes[lane]
            };
            // Adds NaN for a NaN or an infinity, otherwise zero.
            zeros[lane] += eight[lane] * 0.0;
        }
    }
    for lane in 0..rest.len() {
        let size = rest[lane].abs();
        lanes[lane] = if size > lanes[lane] {
            size
        } else {
            lanes[lane]
        };
        zeros[lane] += rest[lane] * 0.0;
    }
    let is_finite = zeros.iter().all(|zero| *zero == 0.0);
    (lanes.iter().copied().fold(0.0, f64::max), is_finite)
}

/// The checksum of a record at `position` in an index of the base with this `fingerprint`.
fn checksum(record: &[u8], fingerprint: u64, position: u64) -> u32 {
    let place = BlockLocation {
        drive: 0,
        address_bytes: position,
        run: fingerprint,
    };
    block_checksum(place, &record[..record.len() - size_of::<u32>()]) as u32
}

/// Stores the checksum in a record.
pub(crate) fn seal(record: &mut [u8], fingerprint: u64, position: u64) {
    let sum = checksum(record, fingerprint, position);
    let at = record.len() - size_of::<u32>();
    record[at..].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a record's checksum matches, as written at `position`.
pub(crate) fn is_intact(record: &[u8], fingerprint: u64, position: u64) -> bool {
    let sum = checksum(record, fingerprint, position);
    record[record.len() - size_of::<u32>()..] == sum.to_le_bytes()
}

/// Decodes a record; `out` gets its codes times the scale, one per dimension.
#[inline(always)]
pub(crate) fn decode(record: &[u8], out: &mut [f32]) -> Facts {
    let (codes, tail) = record.split_at(out.len());
    let number = |at: usize| {
        let bytes = &tail[at * size_of::<f32>()..][..size_of::<f32>()];
        f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let facts = Facts {
        scale: number(0),
        residual: number(1),
        square: number(2),
    };
    let scale = facts.scale;
    for at in 0..codes.len().min(out.len()) {
        out[at] = f32::from(codes[at].cast_signed()) * scale;
    }
    facts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coded(vector: &[f64]) -> (Facts, Vec<f32>) {
        let mut record = vec![0; vector.len() + TAIL_BYTES];
        encode_numbers(vector, &mut record);
        seal(&mut record, 7, 11);
        assert!(is_intact(&record, 7, 11));
        assert!(!is_intact(&record, 7, 12) && !is_intact(&record, 8, 11));
        let mut near = vec![0.0; vector.len()];
        (decode(&record, &mut near), near)
    }

    proptest! {
        #[test]
        fn a_vector_lies_within_its_residual(
            numbers in prop::collection::vec(-1.0_f64..1.0, 1..70),
            exponent in -45..55_i32,
            spike in 0..3_usize,
        ) {
            let mut vector: Vec<f64> = numbers.iter().map(|number| number * 2.0_f64.powi(exponent)).collect();
            vector[0] *= [1.0, 100.0, 0.0][spike];
            let (facts, near) = coded(&vector);
            let off: Vec<f64> = vector.iter().zip(&near).map(|(a, b)| a - f64::from(*b)).collect();
            prop_assert!(dot(&off, &off).sqrt() <= f64::from(facts.residual));
            prop_assert_eq!(facts.square, dot(&vector, &vector) as f32);
            if facts.residual.is_finite() {
                // Rounding moves no number by more than half a step.
                let step = f64::from(facts.scale);
                prop_assert!(off.iter().all(|off| off.abs() <= 0.500_001 * step));
                prop_assert!(step <= largest_of(&vector).0 / CODE_MAX * 1.001);
            }
        }
    }

    #[test]
    fn a_number_without_distances_is_reported_by_its_column() {
        let infinite = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for strange in infinite.into_iter().chain([1e300, -1e100]) {
            for column in 0..19 {
                let mut vector = [1.5; 19];
                vector[column] = strange;
                let bytes: Vec<u8> = vector.iter().flat_map(|n| n.to_le_bytes()).collect();
                let (mut wide, mut record) = (vec![0.0; 19], vec![0; 19 + TAIL_BYTES]);
                let found = encode(Element::F64, &bytes, &mut wide, &mut record);
                assert_eq!(found, Some(column));
            }
        }
    }

    #[test]
    fn codes_times_the_scale_are_not_rounded() {
        let mut scale = 1e-10_f64;
        while scale < 1e10 {
            let short = short_scale(scale);
            assert!(f64::from(short) >= scale);
            for code in -127..=127_i8 {
                let exact = f64::from(short) * f64::from(code);
                assert_eq!(f64::from(short * f32::from(code)), exact);
            }
            scale *= 1.37;
        }
    }

    #[test]
    fn zero_huge_and_tiny_vectors_are_told_apart() {
        assert!(coded(&[0.0, -0.0]).0.is_zero());
        for number in [9e99, 1e16, 1e-13, 1e-99] {
            let (facts, near) = coded(&[0.0, number]);
            assert_eq!((facts.residual, near), (f32::INFINITY, vec![0.0, 0.0]));
            assert!(!facts.is_zero());
        }
    }
}
