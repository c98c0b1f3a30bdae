//! Seeded input data that any language can generate: the data of the conformance kit.
//!
//! Contract: [`fill`] is a pure function of format, pattern, payload, seed and number of records.
//! The few lines below define it completely, so that `conformance.py` makes the same bytes.
//!
//! `mix` is the finaliser of splitmix64 (Steele, Lea, Flood 2014) and `random(seed, stream, n) =
//! mix(mix(seed + stream * G) + n * G)` with G = 0x9E3779B97F4A7C15, all modulo 2^64. A record is
//! filled with payload, then each key element (a number, or a whole field of bytes) is overwritten.
//! Element number e of record i, with E elements per record, draws `a = random(seed, 2, i * E + e)`
//! and `b = random(seed, 3, i * E + e)`, and becomes `w` big-endian bytes, reversed for
//! little-endian numbers:
//!
//! | pattern | bytes |
//! |---|---|
//! | `uniform` | the bytes of stream 4, counter `i * E + e` |
//! | `few:K` | the bytes of stream 5, counter `(a mod K) * E + e` |
//! | `zipf` | as `few`, of number `b mod 2^(a mod 21)` |
//! | `periodic:P` | as `few`, of number `i mod P` |
//! | `exponential` | as `uniform`, the first `a mod (w + 1)` bytes zero |
//! | `prefix` | `5A`, except for the last one or two (`1 + a mod 2`, at most w) as `uniform` |
//! | `narrow` | as `uniform` if `a mod 1000 = 0`, otherwise the number `100 + b mod 4096` |
//! | `special` | two bytes of SPECIAL (`a mod 12`), then FILL (`b mod 4`) |
//! | `sorted`, `reversed` | the number `i`, or `n - 1 - i` |
//!
//! The bytes of a stream and counter c are `random(seed, 100 * stream + k, c)` for k = 0, 1, ...,
//! each as 8 little-endian bytes. Payload `random` is stream 1, counter i; `coarse` repeats the
//! byte `random(seed, 1, i) mod 4`, so that whole records are often equal.

use outcore::key::{Endian, KeyKind, RecordFormat};

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// First two bytes of boundary values of some type: extremes, infinities, NaNs.
const SPECIAL: [[u8; 2]; 12] = [
    [0x00, 0x00],
    [0xFF, 0xFF],
    [0x80, 0x00],
    [0x7F, 0xFF],
    [0x7F, 0x80],
    [0xFF, 0x80],
    [0x7F, 0xC0],
    [0xFF, 0xC0],
    [0x7F, 0xF0],
    [0xFF, 0xF0],
    [0x7F, 0xF8],
    [0xFF, 0xF8],
];

/// splitmix64's finaliser.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Word `n` of a stream of random words.
pub fn random(seed: u64, stream: u64, n: u64) -> u64 {
    let start = mix(seed.wrapping_add(stream.wrapping_mul(GOLDEN)));
    mix(start.wrapping_add(n.wrapping_mul(GOLDEN)))
}

fn random_bytes(seed: u64, stream: u64, counter: u64, out: &mut [u8]) {
    for (k, chunk) in out.chunks_mut(8).enumerate() {
        let word = random(seed, 100 * stream + k as u64, counter).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Patterns of key elements; see the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Values {
    Uniform,
    Few(u64),
    Zipf,
    Periodic(u64),
    Exponential,
    Prefix,
    Narrow,
    Special,
    Sorted,
    Reversed,
}

impl Values {
    /// The name in the table of cases.
    pub fn text(self) -> String {
        match self {
            Values::Uniform => "uniform".into(),
            Values::Few(k) => format!("few:{k}"),
            Values::Zipf => "zipf".into(),
            Values::Periodic(p) => format!("periodic:{p}"),
            Values::Exponential => "exponential".into(),
            Values::Prefix => "prefix".into(),
            Values::Narrow => "narrow".into(),
            Values::Special => "special".into(),
            Values::Sorted => "sorted".into(),
            Values::Reversed => "reversed".into(),
        }
    }
}

/// Patterns of the bytes outside of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Random bytes: records differ.
    Random,
    /// One of four bytes, repeated: many records are equal.
    Coarse,
}

impl Payload {
    /// The name in the table of cases.
    pub fn text(self) -> &'static str {
        match self {
            Payload::Random => "random",
            Payload::Coarse => "coarse",
        }
    }
}

/// One key element: its place, and whether its bytes are reversed.
struct Element {
    offset: usize,
    width: usize,
    is_reversed: bool,
}

fn elements(format: &RecordFormat) -> Vec<Element> {
    let mut all = Vec::new();
    for key in format.keys() {
        let (width, is_reversed) = match key.kind {
            KeyKind::Bytes => (key.len_bytes, false),
            KeyKind::Numbers(number) => (number.bytes(), number.endian == Endian::Little),
        };
        for offset in (key.offset_bytes..key.offset_bytes + key.len_bytes).step_by(width) {
            all.push(Element {
                offset,
                width,
                is_reversed,
            });
        }
    }
    all
}

/// `records` records of `format`.
pub fn fill(
    format: &RecordFormat,
    values: Values,
    payload: Payload,
    seed: u64,
    records: usize,
) -> Vec<u8> {
    let record_bytes = format.record_bytes();
    let elements = elements(format);
    let mut out = vec![0u8; record_bytes * records];
    for (i, record) in out.chunks_exact_mut(record_bytes).enumerate() {
        match payload {
            Payload::Random => random_bytes(seed, 1, i as u64, record),
            Payload::Coarse => record.fill((random(seed, 1, i as u64) % 4) as u8),
        }
        for (e, element) in elements.iter().enumerate() {
            let place = &mut record[element.offset..element.offset + element.width];
            let at = Place {
                seed,
                record: i as u64,
                records: records as u64,
                element: e as u64,
                elements: elements.len() as u64,
            };
            at.draw(values, place);
            if element.is_reversed {
                place.reverse();
            }
        }
    }
    out
}

/// The element that is drawn.
struct Place {
    seed: u64,
    record: u64,
    records: u64,
    element: u64,
    elements: u64,
}

impl Place {
    fn draw(&self, values: Values, out: &mut [u8]) {
        let counter = self.record * self.elements + self.element;
        let a = random(self.seed, 2, counter);
        let b = random(self.seed, 3, counter);
        let width = out.len();
        let of_number = |number: u64, out: &mut [u8]| {
            random_bytes(
                self.seed,
                5,
                number.wrapping_mul(self.elements) + self.element,
                out,
            );
        };
        match values {
            Values::Uniform => random_bytes(self.seed, 4, counter, out),
            Values::Few(k) => of_number(a % k, out),
            Values::Zipf => of_number(b % (1 << (a % 21)), out),
            Values::Periodic(p) => of_number(self.record % p, out),
            Values::Exponential => {
                random_bytes(self.seed, 4, counter, out);
                out[..(a % (width as u64 + 1)) as usize].fill(0);
            }
            Values::Prefix => {
                random_bytes(self.seed, 4, counter, out);
                let free = (1 + a % 2).min(width as u64) as usize;
                out[..width - free].fill(0x5A);
            }
            Values::Narrow if a.is_multiple_of(1000) => random_bytes(self.seed, 4, counter, out),
            Values::Narrow => write_number(100 + b % 4096, out),
            Values::Special => {
                let fill: &[u8] = match b % 4 {
                    0 => &[0x00],
                    1 => &[0xFF],
                    2 => &[0x00, 0x01],
                    _ => &[0x80, 0x00],
                };
                for (index, byte) in out.iter_mut().enumerate() {
                    *byte = fill[index % fill.len()];
                }
                let first = SPECIAL[(a % 12) as usize];
                let len = width.min(2);
                out[..len].copy_from_slice(&first[..len]);
            }
            Values::Sorted => write_number(self.record, out),
            Values::Reversed => write_number(self.records - 1 - self.record, out),
        }
    }
}

/// The low bytes of a number, most significant first.
fn write_number(number: u64, out: &mut [u8]) {
    out.fill(0);
    for (byte, value) in out.iter_mut().rev().zip(number.to_le_bytes()) {
        *byte = value;
    }
}
