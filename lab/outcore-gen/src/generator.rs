//! Generated records: pure functions of their number, in the distributions of PALID and gensort.
//!
//! Contract: [`Generator::fill`] writes any range of records. Any division into blocks and threads,
//! on any machine, gives the same bytes. Filling allocates nothing except for one small buffer on
//! the stack. Keys follow a [`Distribution`]; the bytes outside the keys are uniform. The inputs of
//! PALID (SPAA 2025, section 5) are `uniform:MU`, `exponential:LAMBDA` and `zipf:S`.
//!
//! Values for integers and byte keys, and for floats if they differ:
//!
//! - `uniform`: all values; floats: all finite bit patterns
//! - `uniform:MU`: 0 to MU - 1; floats: reals in [0, MU)
//! - `exponential:L`: exponential with rate L (mean 1/L), rounded down, at most the largest value;
//!   floats: the same as a real
//! - `zipf:S[:N]`: ranks 1 to N, rank k with weight k^-S; floats: the same
//! - `normal`: Gaussian around the middle of the type, whose range is 8 standard deviations;
//!   floats: Gaussian with mean 0 and standard deviation 1
//! - `clusters:K`: as for floats, scaled so that a width of 32 around 0 fills the type's range;
//!   floats: Gaussian with standard deviation 1 around one of K centres per record, whose elements
//!   are uniform in [-10, 10)
//! - `rmat:S`: two vertices below 2^S per record: an edge of an R-MAT graph
//! - `kronecker:S`: as `rmat:S`, with vertices in random order
//! - `sorted`: the record's number, scaled down if the type is too small; floats: the same
//! - `reversed`: `sorted`, backwards; floats: the same
//! - `equal`: 42; floats: 42
//!
//! For integers, which have at most 32 bits, `normal` and `clusters` are rounded and cut off at the
//! ends of the type. The default N is 2^32 - 1; it never exceeds the number up to which the type
//! counts exactly (255 for `u8`, 2^24 for `f32`). R-MAT is that of Chakrabarti, Zhan and Faloutsos
//! (SDM 2004) with the probabilities of Graph500 (0.57, 0.19, 0.19, 0.05); `kronecker` permutes its
//! vertices by the seed, as Graph500 does. Elements of a vector are drawn one by one. `sorted` and
//! `reversed` repeat their value in every element and reverse it in descending fields. A byte key
//! holds a number in big-endian form in its last bytes.

use crate::distribution::Distribution;
use crate::gensort::{self, Gensort, GensortOptions};
use crate::random::{Draws, Stream, Zipf, finite_f16, finite_f32, finite_f64};
use outcore::key::{Endian, KeyField, KeyKind, Number, NumberType, RecordFormat};
use outcore::{Error, Result};

/// Values drawn at a time; they fit into the first-level cache.
const BATCH: usize = 256;

/// The value of `equal`.
const EQUAL: u64 = 42;

/// The default largest Zipf rank.
const RANK_MAX: u64 = u32::MAX as u64;

/// Largest coordinate of the centres of clusters.
const SPREAD: f64 = 10.0;

/// Number of standard deviations in the range of an integer.
const NORMAL_RANGE: f64 = 8.0;
const CLUSTERS_RANGE: f64 = 32.0;

/// The random stream for the names of vertices.
const NAMES: u64 = 4;

const READ: &str = "read distribution";

/// Options of a generator.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GenerateOptions {
    /// Distribution of the keys.
    pub distribution: Distribution,
    /// Seed; different seeds give different records.
    pub seed: u64,
    /// Total number of records; `sorted` and `reversed` depend on it.
    pub records: u64,
}

/// Writes records by number.
#[derive(Debug, Clone)]
pub struct Generator {
    format: RecordFormat,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Gensort(Gensort),
    Records {
        fields: Vec<Field>,
        values_per_record: u64,
        payload: Option<Stream>,
    },
}

impl Generator {
    /// A generator of records of `format`.
    ///
    /// Errors (usage): a parameter that is invalid or does not fit the type.
    pub fn new(format: &RecordFormat, options: GenerateOptions) -> Result<Self> {
        let mut fields = Vec::new();
        let mut values_per_record = 0;
        for key in format.keys() {
            let field = Field::new(key, values_per_record, options)?;
            values_per_record += field.count;
            fields.push(field);
        }
        let is_filled = fields.len() == 1
            && format.keys()[0].len_bytes == format.record_bytes()
            && matches!(format.keys()[0].kind, KeyKind::Numbers(_));
        let payload = (!is_filled).then(|| Stream::new(options.seed, 1));
        let kind = Kind::Records {
            fields,
            values_per_record,
            payload,
        };
        Ok(Generator {
            format: format.clone(),
            kind,
        })
    }

    /// The generator of sortbenchmark.org's records.
    pub(crate) fn gensort(options: GensortOptions) -> Self {
        let kind = Kind::Gensort(Gensort::new(options));
        Generator {
            format: RecordFormat::gensort(),
            kind,
        }
    }

    /// Format of the records.
    pub fn format(&self) -> &RecordFormat {
        &self.format
    }

    /// Writes the records that start with `first_record`. Panics if `out` does not hold whole
    /// records.
    pub fn fill(&self, first_record: u64, out: &mut [u8]) {
        let record_bytes = self.format.record_bytes();
        assert!(out.len().is_multiple_of(record_bytes), "whole records");
        let (fields, values_per_record, payload) = match &self.kind {
            Kind::Gensort(gensort) => {
                debug_assert_eq!(record_bytes, gensort::RECORD_BYTES);
                return gensort.fill(first_record, out);
            }
            Kind::Records {
                fields,
                values_per_record,
                payload,
            } => (fields, *values_per_record, payload),
        };
        if payload.is_none()
            && let [field] = fields.as_slice()
        {
            // The records consist only of values, one after another.
            return field.fill(
                first_record.wrapping_mul(values_per_record),
                values_per_record,
                out,
            );
        }
        let words_per_record = record_bytes.div_ceil(8) as u64;
        for (record, bytes) in (first_record..).zip(out.chunks_exact_mut(record_bytes)) {
            if let Some(payload) = payload {
                let words = record.wrapping_mul(words_per_record)..;
                for (word, bytes) in words.zip(bytes.chunks_mut(8)) {
                    bytes.copy_from_slice(&payload.word(word).to_le_bytes()[..bytes.len()]);
                }
            }
            let first_value = record.wrapping_mul(values_per_record);
            for field in fields {
                let place = &mut bytes[field.offset_bytes..field.offset_bytes + field.len_bytes];
                let first_value = first_value.wrapping_add(field.before);
                field.fill(first_value, values_per_record, place);
            }
        }
    }
}

/// Options that only gensort's records have.
#[derive(Debug, Clone, Copy, Default)]
pub struct GensortRequest {
    /// Printable records.
    pub ascii: bool,
    /// Keys that share prefixes.
    pub skewed: bool,
    /// Number of the first record.
    pub first: Option<u128>,
}

/// The generator for records of `format`.
///
/// # Errors
/// Usage for a distribution that the format does not support, and for gensort's options with other
/// distributions.
pub fn generator(
    format: &RecordFormat,
    options: GenerateOptions,
    gensort: GensortRequest,
) -> Result<Generator> {
    if format.is_gensort() && options.distribution == Distribution::Whole {
        return Ok(Generator::gensort(GensortOptions {
            ascii: gensort.ascii,
            skewed: gensort.skewed,
            first: gensort.first.unwrap_or(0),
        }));
    }
    if gensort.ascii || gensort.skewed || gensort.first.is_some() {
        let cause = "--ascii, --skewed and --first are for the records of gensort";
        return Err(Error::usage("generate", cause)
            .hint("use them with `outcore gen gensort` and without --dist"));
    }
    Generator::new(format, options)
}

/// One key field and its values.
#[derive(Debug, Clone)]
struct Field {
    offset_bytes: usize,
    len_bytes: usize,
    kind: KeyKind,
    /// Values per record: the numbers of the field, or one for a field of bytes.
    count: u64,
    /// Number of values of the record before this field.
    before: u64,
    values: Values,
    stream: Stream,
}

/// A source of values, checked against the type.
#[derive(Debug, Clone)]
enum Values {
    Whole,
    Below {
        bound: u64,
    },
    Real {
        bound: f64,
    },
    Exponential {
        mean: f64,
        largest: u64,
    },
    Zipf(Box<Zipf>),
    Normal {
        fit: Option<Fit>,
    },
    Clusters {
        centres: u64,
        /// The streams that choose the centre of a record, and the place of the centres.
        streams: [Stream; 2],
        fit: Option<Fit>,
    },
    Rmat {
        scale: u32,
        names: Option<Names>,
    },
    Rank {
        records: u64,
        largest: u64,
        is_reversed: bool,
    },
    Equal,
}

impl Field {
    fn new(key: &KeyField, before: u64, options: GenerateOptions) -> Result<Self> {
        let count = match key.kind {
            KeyKind::Bytes => 1,
            KeyKind::Numbers(number) => (key.len_bytes / number.bytes()) as u64,
        };
        Ok(Field {
            offset_bytes: key.offset_bytes,
            len_bytes: key.len_bytes,
            kind: key.kind,
            count,
            before,
            values: Values::new(key, options)?,
            stream: Stream::new(options.seed, 0),
        })
    }

    /// Writes the values that start with number `first`; a record has `values_per_record` of them.
    fn fill(&self, first: u64, values_per_record: u64, out: &mut [u8]) {
        let number = match self.kind {
            KeyKind::Bytes => return self.fill_bytes(first, values_per_record, out),
            KeyKind::Numbers(number) => number,
        };
        let mut batch = [0_u64; BATCH];
        let batches = out.chunks_mut(BATCH * number.bytes());
        for (first, out) in (first..).step_by(BATCH).zip(batches) {
            let bits = &mut batch[..out.len() / number.bytes()];
            match number.kind {
                NumberType::F64 => {
                    self.draw(first, values_per_record, bits, finite_f64, |real| {
                        real.to_bits()
                    });
                }
                NumberType::F16 => self.draw(first, values_per_record, bits, finite_f16, |real| {
                    u64::from(half::f16::from_f64(real).to_bits())
                }),
                NumberType::F32 => self.draw(first, values_per_record, bits, finite_f32, |real| {
                    u64::from((real as f32).to_bits())
                }),
                _ => {
                    let unused_bits = 64 - 8 * number.bytes().min(8);
                    let cut = |word| word >> unused_bits;
                    self.draw(first, values_per_record, bits, cut, |real| real as u64);
                }
            }
            self.write(number, first, bits, out);
        }
    }

    /// Draws values and returns them as bits of the number. `whole` converts a random word to bits,
    /// and `real` converts a float. An integer draw goes through `real` only for floats, where it
    /// is exact below 2^53.
    #[inline(always)]
    fn draw(
        &self,
        first: u64,
        values_per_record: u64,
        bits: &mut [u64],
        whole: impl Fn(u64) -> u64,
        real: impl Fn(f64) -> u64,
    ) {
        let is_float = matches!(self.kind, KeyKind::Numbers(number) if number.kind.is_float());
        let integer = |value: u64| if is_float { real(value as f64) } else { value };
        let stream = self.stream;
        match &self.values {
            Values::Whole => each(bits, first, |index| whole(stream.word(index))),
            Values::Below { bound } => {
                each(bits, first, |index| {
                    integer(stream.draws(index).below(*bound))
                });
            }
            Values::Real { bound } => {
                each(bits, first, |index| {
                    real(stream.draws(index).real() * bound)
                });
            }
            Values::Exponential { mean, largest } if is_float => {
                // The largest value is below the range of a word only for half-precision floats.
                let most = match *largest {
                    u64::MAX => f64::INFINITY,
                    largest => largest as f64,
                };
                each(bits, first, |index| {
                    real(exponential(&mut stream.draws(index), *mean).min(most))
                });
            }
            Values::Exponential { mean, largest } => each(bits, first, |index| {
                (exponential(&mut stream.draws(index), *mean) as u64).min(*largest)
            }),
            Values::Zipf(zipf) => {
                each(bits, first, |index| {
                    integer(zipf.rank(&mut stream.draws(index)))
                });
            }
            Values::Normal { fit } => each(bits, first, |index| {
                let value = normal(&mut stream.draws(index));
                fit.map_or_else(|| real(value), |fit| fit.bits(value))
            }),
            Values::Clusters {
                centres,
                streams,
                fit,
            } => each(bits, first, |index| {
                let (record, element) = (index / values_per_record, index % values_per_record);
                let centre = streams[0].draws(record).below(*centres);
                let place = centre.wrapping_mul(values_per_record).wrapping_add(element);
                let middle = streams[1].draws(place).real() * 2.0 * SPREAD - SPREAD;
                let value = middle + normal(&mut stream.draws(index));
                fit.map_or_else(|| real(value), |fit| fit.bits(value))
            }),
            Values::Rmat { scale, names } => each(bits, first, |index| {
                let edge = rmat(&mut stream.draws(index / values_per_record), *scale);
                let vertex = edge[(index % values_per_record) as usize & 1];
                names.map_or(vertex, |names| names.of(vertex, *scale))
            }),
            Values::Rank {
                records,
                largest,
                is_reversed,
            } => each(bits, first, |index| {
                let record = (index / values_per_record).min(records.saturating_sub(1));
                let rank = match is_reversed {
                    true => records.saturating_sub(1) - record,
                    false => record,
                };
                integer(scale(rank, *records, *largest))
            }),
            Values::Equal => each(bits, first, |_| integer(EQUAL)),
        }
    }

    /// Stores the bits in the number's byte order.
    fn write(&self, number: Number, first: u64, bits: &[u64], out: &mut [u8]) {
        let is_big = number.endian == Endian::Big;
        match (number.bytes(), is_big) {
            (1, _) => store(bits, out, |bits| [bits as u8]),
            (2, false) => store(bits, out, |bits| (bits as u16).to_le_bytes()),
            (2, true) => store(bits, out, |bits| (bits as u16).to_be_bytes()),
            (4, false) => store(bits, out, |bits| (bits as u32).to_le_bytes()),
            (4, true) => store(bits, out, |bits| (bits as u32).to_be_bytes()),
            (8, false) => store(bits, out, u64::to_le_bytes),
            (8, true) => store(bits, out, u64::to_be_bytes),
            _ => {
                let is_whole = matches!(self.values, Values::Whole);
                for ((index, low), out) in (first..).zip(bits).zip(out.chunks_exact_mut(16)) {
                    let high = if is_whole {
                        self.stream.draws(index).word()
                    } else {
                        0
                    };
                    let value = u128::from(high) << 64 | u128::from(*low);
                    let bytes = if is_big {
                        value.to_be_bytes()
                    } else {
                        value.to_le_bytes()
                    };
                    out.copy_from_slice(&bytes);
                }
            }
        }
    }

    /// For a key of bytes, the payload is already uniform; other values are written big-endian.
    fn fill_bytes(&self, first: u64, values_per_record: u64, out: &mut [u8]) {
        if matches!(self.values, Values::Whole) {
            return;
        }
        let mut bits = [0];
        self.draw(
            first,
            values_per_record,
            &mut bits,
            |word| word,
            |real| real as u64,
        );
        let bytes = bits[0].to_be_bytes();
        let value_bytes = out.len().min(8);
        let (zeros, value) = out.split_at_mut(out.len() - value_bytes);
        zeros.fill(0);
        value.copy_from_slice(&bytes[8 - value_bytes..]);
    }
}

impl Values {
    fn new(key: &KeyField, options: GenerateOptions) -> Result<Self> {
        let (largest, exact) = limits(key);
        let is_float = matches!(key.kind, KeyKind::Numbers(number) if number.kind.is_float());
        let refuse = |why: String| {
            let distribution = options.distribution;
            let cause = format!("`{distribution}` does not suit key `{key}`: {why}");
            Err(Error::usage(READ, cause).hint("see `outcore gen --help` for the distributions"))
        };
        match options.distribution {
            Distribution::Whole => Ok(Values::Whole),
            Distribution::Uniform { mu } => {
                if !(mu.is_finite() && mu > 0.0) {
                    return refuse("MU must be above 0".to_string());
                }
                if is_float {
                    return Ok(Values::Real { bound: mu });
                }
                if mu.fract() != 0.0 || mu - 1.0 > largest as f64 {
                    return refuse(format!("MU must be a whole number up to {largest} + 1"));
                }
                // 2^64 itself becomes the largest bound that fits into a word.
                Ok(Values::Below { bound: mu as u64 })
            }
            Distribution::Exponential { lambda } => {
                if !(lambda.is_finite() && lambda > 0.0) {
                    return refuse("LAMBDA must be above 0".to_string());
                }
                Ok(Values::Exponential {
                    mean: 1.0 / lambda,
                    largest,
                })
            }
            Distribution::Zipf { exponent, rank_max } => {
                let ranks = rank_max.unwrap_or(RANK_MAX.min(exact));
                if ranks > exact {
                    return refuse(format!("it counts exactly up to {exact}, not to {ranks}"));
                }
                Ok(Values::Zipf(Box::new(Zipf::new(exponent, ranks)?)))
            }
            Distribution::Normal | Distribution::Clusters { .. } => {
                let fit = match key.kind {
                    KeyKind::Numbers(_) if is_float => None,
                    KeyKind::Numbers(number) if number.bytes() <= 4 => Some(number),
                    _ => {
                        return refuse(
                            "this distribution is for f32, f64 and integers of at most 32 bits, and vectors of them"
                                .to_string(),
                        );
                    }
                };
                match options.distribution {
                    Distribution::Clusters { centres: 0 } => {
                        refuse("K must be above 0".to_string())
                    }
                    Distribution::Clusters { centres } => Ok(Values::Clusters {
                        centres,
                        streams: [Stream::new(options.seed, 2), Stream::new(options.seed, 3)],
                        fit: fit.map(|number| Fit::of(number, CLUSTERS_RANGE)),
                    }),
                    _ => Ok(Values::Normal {
                        fit: fit.map(|number| Fit::of(number, NORMAL_RANGE)),
                    }),
                }
            }
            Distribution::Rmat { scale } | Distribution::Kronecker { scale } => {
                let is_pair = match key.kind {
                    KeyKind::Numbers(number) => key.len_bytes == 2 * number.bytes(),
                    KeyKind::Bytes => false,
                };
                if !is_pair || is_float || scale == 0 || scale > 63 || largest >> scale == 0 {
                    return refuse(
                        "an edge is two whole numbers that hold SCALE bits, as in u32x2"
                            .to_string(),
                    );
                }
                let is_named = matches!(options.distribution, Distribution::Kronecker { .. });
                let names = is_named.then(|| Names::new(options.seed));
                Ok(Values::Rmat { scale, names })
            }
            Distribution::Sorted | Distribution::Reversed => {
                let is_reversed = options.distribution == Distribution::Reversed;
                let (records, is_reversed) = (options.records, is_reversed != key.descending);
                Ok(Values::Rank {
                    records,
                    largest,
                    is_reversed,
                })
            }
            Distribution::Equal => Ok(Values::Equal),
        }
    }
}

/// Converts reals to integers of a type.
#[derive(Debug, Clone, Copy)]
struct Fit {
    middle: f64,
    unit: f64,
    least: f64,
    most: f64,
}

impl Fit {
    /// Reals around 0, where `range` corresponds to the whole range of the type.
    fn of(number: Number, range: f64) -> Self {
        let count = (1_u64 << (8 * number.bytes())) as f64;
        let least = match number.kind.is_signed_integer() {
            true => -count / 2.0,
            false => 0.0,
        };
        Fit {
            middle: least + count / 2.0,
            unit: count / range,
            least,
            most: least + count - 1.0,
        }
    }

    #[inline(always)]
    fn bits(self, real: f64) -> u64 {
        let whole = libm::round(self.middle + real * self.unit);
        whole.clamp(self.least, self.most) as i64 as u64
    }
}

/// The largest whole number that a key can hold (within a word), and the largest number up to which
/// it holds all whole numbers.
fn limits(key: &KeyField) -> (u64, u64) {
    let ones = |bits: usize| u64::MAX >> (64 - bits.min(64));
    match key.kind {
        KeyKind::Bytes => (
            ones(8 * key.len_bytes.min(8)),
            ones(8 * key.len_bytes.min(8)),
        ),
        KeyKind::Numbers(number) => match number.kind {
            // 65,504 is the largest half-precision number.
            NumberType::F16 => (65_504, 1 << 11),
            NumberType::F32 => (u64::MAX, 1 << 24),
            NumberType::F64 => (u64::MAX, 1 << 53),
            kind if kind.is_signed_integer() => {
                let largest = ones(8 * number.bytes() - 1);
                (largest, largest)
            }
            _ => (ones(8 * number.bytes()), ones(8 * number.bytes())),
        },
    }
}

/// `rank` of `count`, scaled to 0 to `largest` if needed; preserves the order.
fn scale(rank: u64, count: u64, largest: u64) -> u64 {
    if count == 0 || count - 1 <= largest {
        return rank;
    }
    (u128::from(rank) * (u128::from(largest) + 1) / u128::from(count)) as u64
}

/// An edge of an R-MAT graph: at each bit, one of the four quarters is chosen.
#[inline(always)]
fn rmat(draws: &mut Draws, scale: u32) -> [u64; 2] {
    // Bounds of the quarters, in 65536ths: 0.57, then 0.19 and 0.19 more.
    const BOUNDS: [u64; 3] = [37_356, 49_807, 62_259];
    let (mut edge, mut word) = ([0; 2], 0);
    for level in 0..scale {
        if level % 4 == 0 {
            word = draws.word();
        }
        let part = word & 0xFFFF;
        word >>= 16;
        let quarter = BOUNDS
            .iter()
            .map(|bound| u64::from(part >= *bound))
            .sum::<u64>();
        edge = [edge[0] << 1 | quarter >> 1, edge[1] << 1 | quarter & 1];
    }
    edge
}

/// A permutation of the vertices of a graph.
#[derive(Debug, Clone, Copy)]
struct Names([u64; 2]);

impl Names {
    fn new(seed: u64) -> Self {
        let stream = Stream::new(seed, NAMES);
        Names([stream.word(0) | 1, stream.word(1) | 1])
    }

    /// Multiplication by an odd number and adding higher bits to lower ones are both invertible.
    #[inline(always)]
    fn of(self, vertex: u64, scale: u32) -> u64 {
        let below = u64::MAX >> (u64::BITS - scale);
        self.0.iter().fold(vertex, |name, factor| {
            let name = name.wrapping_mul(*factor).wrapping_add(*factor >> 1) & below;
            name ^ name >> scale.div_ceil(2)
        })
    }
}

/// The negative logarithm of a number in (0, 1], times the mean.
#[inline(always)]
fn exponential(draws: &mut Draws, mean: f64) -> f64 {
    -libm::log(1.0 - draws.real()) * mean
}

/// A Gaussian number (Box and Muller, 1958).
#[inline(always)]
fn normal(draws: &mut Draws) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - draws.real()));
    radius * libm::cos(std::f64::consts::TAU * draws.real())
}

/// The hot loop over values, compiled once per distribution and shape.
#[inline(always)]
fn each(bits: &mut [u64], first: u64, value: impl Fn(u64) -> u64) {
    for (offset, bits) in (0_u64..).zip(bits) {
        *bits = value(first.wrapping_add(offset));
    }
}

/// The hot loop over stores, compiled once per width and byte order.
#[inline(always)]
fn store<const N: usize>(bits: &[u64], out: &mut [u8], bytes: impl Fn(u64) -> [u8; N]) {
    for (bits, out) in bits.iter().zip(out.as_chunks_mut::<N>().0) {
        *out = bytes(*bits);
    }
}

#[cfg(test)]
mod tests;
