//! The small programs that compute one word of a record's order string.
//!
//! Contract: an order string is a list of [`Atom`]s. [`compile`] splits it into 8-byte words and
//! selects the fastest [`Word`] for each. This is one unaligned load if the word consists of raw
//! bytes, of one number or of two. Shifted pieces are used only if nothing simpler fits. A program
//! reads only inside the record (its offsets are checked when it is compiled, and again by the
//! slice when it runs) and allocates nothing.

use super::normal::{Map, nan_image, order_f16, order_f32, order_f64};
use super::normal::{restore_f16, restore_f32, restore_f64};
use super::record::Endian;

/// A run of the order string with one meaning.
#[derive(Debug, Clone, Copy)]
pub(super) enum Atom {
    Bytes {
        offset_bytes: usize,
        len_bytes: usize,
        is_flipped: bool,
    },
    Number {
        offset_bytes: usize,
        bytes: usize,
        lane: NumberBits,
    },
}

impl Atom {
    /// Whether the bytes of this run are only moved and their bits flipped, independently of their
    /// values.
    pub(super) fn is_fixed(&self) -> bool {
        match self {
            Atom::Bytes { .. } => true,
            Atom::Number { lane, .. } => !lane.is_float,
        }
    }

    /// Bytes of the string.
    pub(super) fn len_bytes(&self) -> usize {
        match *self {
            Atom::Bytes { len_bytes, .. } => len_bytes,
            Atom::Number { bytes, .. } => bytes,
        }
    }
}

/// How the bits of a number become ordered bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberBits {
    is_big: bool,
    is_float: bool,
    /// The sign bit of signed integers, all bits if descending; in the number's low bits.
    flip: u64,
    /// The largest ordered bits of a float: those of all NaNs, if NaNs are one key.
    most: u64,
}

impl NumberBits {
    /// The lane of numbers of `bytes` (1 to 8), largest first if `is_flipped`.
    pub(super) fn new(bytes: usize, endian: Endian, map: Map, is_flipped: bool) -> Self {
        let ones = u64::MAX >> (64 - 8 * bytes);
        let sign = if map == Map::Signed {
            ones ^ (ones >> 1)
        } else {
            0
        };
        let flip = sign ^ if is_flipped { ones } else { 0 };
        NumberBits {
            is_big: endian == Endian::Big,
            is_float: map == Map::Float,
            flip,
            most: u64::MAX,
        }
    }

    /// These bits, with all NaNs of floats of `bytes` as one key.
    pub(super) fn with_one_nan(self, bytes: usize) -> Self {
        NumberBits {
            most: nan_image(bytes),
            ..self
        }
    }

    #[inline(always)]
    fn eight(self, bytes: [u8; 8]) -> u64 {
        let bits = if self.is_big {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        };
        (if self.is_float {
            order_f64(bits).min(self.most)
        } else {
            bits
        }) ^ self.flip
    }

    /// The inverse for a number of `bytes`: its bytes as a big-endian integer.
    #[inline(always)]
    pub(super) fn restore(self, ordered: u64, bytes: usize) -> u64 {
        let ordered = ordered ^ self.flip;
        let bits = match (self.is_float, bytes) {
            (false, _) => ordered,
            (true, 8) => restore_f64(ordered),
            (true, 4) => restore_f32(ordered as u32).into(),
            (true, _) => restore_f16(ordered as u16).into(),
        };
        match self.is_big {
            true => bits,
            false => bits.swap_bytes() >> (64 - 8 * bytes),
        }
    }

    #[inline(always)]
    fn four(self, bytes: [u8; 4]) -> u64 {
        let bits = if self.is_big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        };
        (if self.is_float {
            u64::from(order_f32(bits)).min(self.most)
        } else {
            u64::from(bits)
        }) ^ self.flip
    }

    #[inline(always)]
    fn two(self, bytes: [u8; 2]) -> u64 {
        let bits = if self.is_big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        };
        (if self.is_float {
            u64::from(order_f16(bits)).min(self.most)
        } else {
            u64::from(bits)
        }) ^ self.flip
    }
}

/// String bytes fetched by one 8-byte load that may start before them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    offset_bytes: usize,
    skip_bits: u32,
    mask: u64,
    flip: u64,
}

impl Window {
    /// The bytes at the top of the word, zeros below.
    #[inline(always)]
    fn top(self, record: &[u8]) -> u64 {
        ((big(record, self.offset_bytes) << self.skip_bits) & self.mask) ^ self.flip
    }
}

/// The program of one word.
#[derive(Debug, Clone)]
pub(super) enum Word {
    /// Eight raw bytes.
    Bytes { offset_bytes: usize, flip: u64 },
    /// Fewer raw bytes, then zeros: the end of the string.
    Window(Window),
    /// One 8-byte number.
    Eight {
        offset_bytes: usize,
        lane: NumberBits,
    },
    /// Two neighbouring 4-byte numbers.
    Pair {
        offset_bytes: usize,
        lane: NumberBits,
    },
    /// One 4-byte number, then zeros.
    Four {
        offset_bytes: usize,
        lane: NumberBits,
    },
    /// One 4-byte number, then raw bytes (an index or a small key followed by a payload).
    FourThen {
        offset_bytes: usize,
        lane: NumberBits,
        rest: Window,
    },
    /// Any other combination.
    Pieces(Box<[WordPart]>),
}

/// Part of a word: loaded, then shifted to its place; bits of adjacent parts are shifted out.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordPart {
    load: Load,
    left_bits: u32,
    right_bits: u32,
}

// The memory bound in the contract of `order` relies on these sizes.
const _: () = assert!(size_of::<Word>() <= 64 && size_of::<WordPart>() <= 48);

#[derive(Debug, Clone, Copy)]
enum Load {
    Window(Window),
    /// Raw bytes of records that are shorter than a window.
    Bytes {
        offset_bytes: usize,
        len_bytes: usize,
        flip: u64,
    },
    One {
        offset_bytes: usize,
        flip: u64,
    },
    Two {
        offset_bytes: usize,
        lane: NumberBits,
    },
    Four {
        offset_bytes: usize,
        lane: NumberBits,
    },
    Eight {
        offset_bytes: usize,
        lane: NumberBits,
    },
}

impl WordPart {
    #[inline]
    fn value(&self, record: &[u8]) -> u64 {
        let value = match self.load {
            Load::Window(window) => window.top(record),
            Load::Bytes {
                offset_bytes,
                len_bytes,
                flip,
            } => {
                let bytes = &record[offset_bytes..offset_bytes + len_bytes];
                bytes
                    .iter()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte))
                    ^ flip
            }
            Load::One { offset_bytes, flip } => u64::from(record[offset_bytes]) ^ flip,
            Load::Two { offset_bytes, lane } => lane.two(load(record, offset_bytes)),
            Load::Four { offset_bytes, lane } => lane.four(load(record, offset_bytes)),
            Load::Eight { offset_bytes, lane } => lane.eight(load(record, offset_bytes)),
        };
        value << self.left_bits >> self.right_bits
    }
}

/// `N` bytes at `offset_bytes`; panics beyond the record.
#[inline(always)]
fn load<const N: usize>(record: &[u8], offset_bytes: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[offset_bytes..offset_bytes + N]);
    bytes
}

#[inline(always)]
fn big(record: &[u8], offset_bytes: usize) -> u64 {
    u64::from_be_bytes(load(record, offset_bytes))
}

impl Word {
    #[inline(always)]
    pub(super) fn value(&self, record: &[u8]) -> u64 {
        match self {
            Word::Bytes { offset_bytes, flip } => big(record, *offset_bytes) ^ flip,
            Word::Window(window) => window.top(record),
            Word::Eight { offset_bytes, lane } => lane.eight(load(record, *offset_bytes)),
            Word::Pair { offset_bytes, lane } => pair(record, *offset_bytes, *lane),
            Word::Four { offset_bytes, lane } => lane.four(load(record, *offset_bytes)) << 32,
            Word::FourThen {
                offset_bytes,
                lane,
                rest,
            } => four_then(record, *offset_bytes, *lane, *rest),
            Word::Pieces(pieces) => assemble(record, pieces),
        }
    }

    /// Calls `visit(index, word)` for every record of `records`; the caller selects the program.
    #[inline]
    pub(super) fn each(&self, records: &[u8], record_bytes: usize, visit: impl FnMut(usize, u64)) {
        match self {
            &Word::Bytes {
                offset_bytes,
                flip: 0,
            } => {
                each(
                    records,
                    record_bytes,
                    |record| big(record, offset_bytes),
                    visit,
                );
            }
            &Word::Bytes { offset_bytes, flip } => {
                each(
                    records,
                    record_bytes,
                    |record| big(record, offset_bytes) ^ flip,
                    visit,
                );
            }
            &Word::Window(window) => {
                each(records, record_bytes, |record| window.top(record), visit);
            }
            &Word::Eight { offset_bytes, lane } if lane.is_float => {
                each(
                    records,
                    record_bytes,
                    |record| lane.eight(load(record, offset_bytes)),
                    visit,
                );
            }
            &Word::Eight { offset_bytes, lane } => {
                let lane = NumberBits {
                    is_float: false,
                    ..lane
                };
                each(
                    records,
                    record_bytes,
                    |record| lane.eight(load(record, offset_bytes)),
                    visit,
                );
            }
            &Word::Pair { offset_bytes, lane } => {
                each(
                    records,
                    record_bytes,
                    |record| pair(record, offset_bytes, lane),
                    visit,
                );
            }
            &Word::Four { offset_bytes, lane } => {
                each(
                    records,
                    record_bytes,
                    |record| lane.four(load(record, offset_bytes)) << 32,
                    visit,
                );
            }
            &Word::FourThen {
                offset_bytes,
                lane,
                rest,
            } => {
                each(
                    records,
                    record_bytes,
                    |record| four_then(record, offset_bytes, lane, rest),
                    visit,
                );
            }
            Word::Pieces(pieces) => {
                each(
                    records,
                    record_bytes,
                    |record| assemble(record, pieces),
                    visit,
                );
            }
        }
    }
}

/// The hot loop, compiled once per program and visitor.
#[inline(always)]
fn each(
    records: &[u8],
    record_bytes: usize,
    value: impl Fn(&[u8]) -> u64,
    mut visit: impl FnMut(usize, u64),
) {
    for (index, record) in records.chunks_exact(record_bytes).enumerate() {
        visit(index, value(record));
    }
}

#[inline(always)]
fn pair(record: &[u8], offset_bytes: usize, lane: NumberBits) -> u64 {
    lane.four(load(record, offset_bytes)) << 32 | lane.four(load(record, offset_bytes + 4))
}

#[inline(always)]
fn four_then(record: &[u8], offset_bytes: usize, lane: NumberBits, rest: Window) -> u64 {
    lane.four(load(record, offset_bytes)) << 32 | rest.top(record) >> 32
}

#[inline]
fn assemble(record: &[u8], pieces: &[WordPart]) -> u64 {
    pieces
        .iter()
        .fold(0, |word, piece| word | piece.value(record))
}

/// Splits the atoms into words and selects each word's program.
pub(super) fn compile(atoms: &[Atom], record_bytes: usize, string_bytes: usize) -> Vec<Word> {
    let mut words = Vec::with_capacity(string_bytes.div_ceil(8));
    let mut parts: Vec<(WordPart, Atom)> = Vec::new();
    let mut start = 0;
    for atom in atoms {
        let end = start + atom.len_bytes();
        while words.len() * 8 < end {
            let word_start = words.len() * 8;
            let (from, to) = (start.max(word_start), end.min(word_start + 8));
            let part = match *atom {
                Atom::Number { .. } => *atom,
                Atom::Bytes {
                    offset_bytes,
                    is_flipped,
                    ..
                } => Atom::Bytes {
                    offset_bytes: offset_bytes + from - start,
                    len_bytes: to - from,
                    is_flipped,
                },
            };
            // A number may have begun in the previous word: its place is then negative.
            let place = match part {
                Atom::Number { .. } => start as isize - word_start as isize,
                Atom::Bytes { .. } => (from - word_start) as isize,
            };
            parts.push((piece(part, place, record_bytes), part));
            if to < word_start + 8 && end < string_bytes {
                break;
            }
            words.push(program(&parts));
            parts.clear();
        }
        start = end;
    }
    words
}

/// One part of a word; its first byte belongs at byte `place` of the word.
fn piece(part: Atom, place: isize, record_bytes: usize) -> WordPart {
    let end = place + part.len_bytes() as isize;
    let load = match part {
        Atom::Bytes {
            offset_bytes,
            len_bytes,
            is_flipped,
        } => {
            let mask = u64::MAX << (64 - 8 * len_bytes);
            let flip = if is_flipped { mask } else { 0 };
            if record_bytes >= 8 {
                let from = offset_bytes.min(record_bytes - 8);
                let skip_bits = 8 * (offset_bytes - from) as u32;
                let load = Load::Window(Window {
                    offset_bytes: from,
                    skip_bits,
                    mask,
                    flip,
                });
                return WordPart {
                    load,
                    left_bits: 0,
                    right_bits: 8 * place as u32,
                };
            }
            Load::Bytes {
                offset_bytes,
                len_bytes,
                flip: flip >> (64 - 8 * len_bytes),
            }
        }
        Atom::Number {
            offset_bytes,
            bytes: 1,
            lane,
        } => Load::One {
            offset_bytes,
            flip: lane.flip,
        },
        Atom::Number {
            offset_bytes,
            bytes: 2,
            lane,
        } => Load::Two { offset_bytes, lane },
        Atom::Number {
            offset_bytes,
            bytes: 4,
            lane,
        } => Load::Four { offset_bytes, lane },
        Atom::Number {
            offset_bytes, lane, ..
        } => Load::Eight { offset_bytes, lane },
    };
    let left_bits = 8 * (8 - end).max(0) as u32;
    let right_bits = 8 * (end - 8).max(0) as u32;
    WordPart {
        load,
        left_bits,
        right_bits,
    }
}

/// The fastest program for the parts of one word.
fn program(parts: &[(WordPart, Atom)]) -> Word {
    match parts {
        [
            (
                _,
                Atom::Bytes {
                    offset_bytes,
                    len_bytes: 8,
                    is_flipped,
                },
            ),
        ] => Word::Bytes {
            offset_bytes: *offset_bytes,
            flip: if *is_flipped { u64::MAX } else { 0 },
        },
        [
            (
                WordPart {
                    load: Load::Window(window),
                    right_bits: 0,
                    ..
                },
                _,
            ),
        ] => Word::Window(*window),
        [
            (
                WordPart {
                    left_bits: 0,
                    right_bits: 0,
                    ..
                },
                Atom::Number {
                    offset_bytes,
                    bytes: 8,
                    lane,
                },
            ),
        ] => Word::Eight {
            offset_bytes: *offset_bytes,
            lane: *lane,
        },
        [
            (
                WordPart { left_bits: 32, .. },
                Atom::Number {
                    offset_bytes,
                    bytes: 4,
                    lane,
                },
            ),
        ] => Word::Four {
            offset_bytes: *offset_bytes,
            lane: *lane,
        },
        [
            (
                WordPart { left_bits: 32, .. },
                Atom::Number {
                    offset_bytes,
                    bytes: 4,
                    lane,
                },
            ),
            (
                _,
                Atom::Number {
                    offset_bytes: second,
                    bytes: 4,
                    lane: second_lane,
                },
            ),
        ] if offset_bytes + 4 == *second && lane == second_lane => Word::Pair {
            offset_bytes: *offset_bytes,
            lane: *lane,
        },
        [
            (
                WordPart { left_bits: 32, .. },
                Atom::Number {
                    offset_bytes,
                    bytes: 4,
                    lane,
                },
            ),
            (
                WordPart {
                    load: Load::Window(rest),
                    right_bits: 32,
                    ..
                },
                _,
            ),
        ] => Word::FourThen {
            offset_bytes: *offset_bytes,
            lane: *lane,
            rest: *rest,
        },
        _ => Word::Pieces(parts.iter().map(|(piece, _)| *piece).collect()),
    }
}
