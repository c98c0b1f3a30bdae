//! Records: number types, key fields and the format of a record, with their text forms.
//!
//! Contract: a [`RecordFormat`] is a fixed record size and the key fields inside it; without key
//! fields the records have no order ([`RecordFormat::check_order`]). Every constructor checks the
//! format, so later layers never see a key beyond the record. Fields are compared in the given
//! order; a field of several numbers compares them one after another (the 32-float vectors of the
//! LLNL poster are `f32x32`). [`RecordFormat::parse_type`] reads the text printed by `Display` back
//! to an equal format.
//!
//! | text | record |
//! |---|---|
//! | `u64`, `f32be`, `i16le` | one number, which is the key; little-endian by default |
//! | `f32x32` | that many numbers, ordered lexicographically |
//! | `bytes16` | 16 bytes (any number), ordered as unsigned bytes |
//! | `gensort` | 100 bytes with a key of 10 bytes at 0 (sortbenchmark.org) |
//! | `100/0:10,16:8:u64be:desc` | record size `/` key fields `OFFSET:LEN[:TYPE][:desc]` |
//! | `600000/` | bytes without an order |

use std::fmt;

use outcore_io::units;
use outcore_io::{Error, Result};

/// The largest record, in bytes, however large the memory; lines have the same limit. Offsets in
/// memory have 32 bits. Plans compute how much memory a job needs for records of its length.
const RECORD_BYTES_MAX: usize = 1 << 30;

/// The largest sum of the key fields' lengths, in bytes (fields may overlap), which bounds the
/// programs of an order.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 18;

pub(super) const READ_TYPE: &str = "read record type";
pub(super) const READ_KEY: &str = "read key";

/// The numbers that a key can consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NumberType {
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
}

impl NumberType {
    /// Every number type, in the order shown to users.
    pub const ALL: [NumberType; 12] = [
        NumberType::U8,
        NumberType::U16,
        NumberType::U32,
        NumberType::U64,
        NumberType::U128,
        NumberType::I8,
        NumberType::I16,
        NumberType::I32,
        NumberType::I64,
        NumberType::F16,
        NumberType::F32,
        NumberType::F64,
    ];

    /// Size of one number.
    pub const fn bytes(self) -> usize {
        match self {
            NumberType::U8 | NumberType::I8 => 1,
            NumberType::U16 | NumberType::I16 | NumberType::F16 => 2,
            NumberType::U32 | NumberType::I32 | NumberType::F32 => 4,
            NumberType::U64 | NumberType::I64 | NumberType::F64 => 8,
            NumberType::U128 => 16,
        }
    }

    /// The name in text forms: `u64`, `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            NumberType::U8 => "u8",
            NumberType::U16 => "u16",
            NumberType::U32 => "u32",
            NumberType::U64 => "u64",
            NumberType::U128 => "u128",
            NumberType::I8 => "i8",
            NumberType::I16 => "i16",
            NumberType::I32 => "i32",
            NumberType::I64 => "i64",
            NumberType::F16 => "f16",
            NumberType::F32 => "f32",
            NumberType::F64 => "f64",
        }
    }

    /// True for `f16`, `f32` and `f64`.
    pub const fn is_float(self) -> bool {
        matches!(self, NumberType::F16 | NumberType::F32 | NumberType::F64)
    }

    /// True for the signed integers.
    pub const fn is_signed_integer(self) -> bool {
        matches!(
            self,
            NumberType::I8 | NumberType::I16 | NumberType::I32 | NumberType::I64
        )
    }
}

/// Byte order of a number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Endian {
    /// Least significant byte first; the default.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    /// Byte order of this machine.
    pub(crate) const NATIVE: Endian = if cfg!(target_endian = "big") {
        Endian::Big
    } else {
        Endian::Little
    };
}

/// A number type in a byte order. One-byte numbers are always stored as little-endian, so equal
/// meanings are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Number {
    /// Which number.
    pub kind: NumberType,
    /// The byte order of the number in the file.
    pub endian: Endian,
}

impl Number {
    /// A number; ignores the byte order of one-byte numbers.
    pub const fn new(kind: NumberType, endian: Endian) -> Self {
        let endian = if kind.bytes() == 1 {
            Endian::Little
        } else {
            endian
        };
        Number { kind, endian }
    }

    /// Size of one number.
    pub const fn bytes(self) -> usize {
        self.kind.bytes()
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.endian == Endian::Big { "be" } else { "" };
        write!(f, "{}{suffix}", self.kind.name())
    }
}

/// The content of a key field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Unsigned bytes, compared from the first.
    Bytes,
    /// One or more numbers, compared from the first.
    Numbers(Number),
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyKind::Bytes => f.write_str("bytes"),
            KeyKind::Numbers(number) => number.fmt(f),
        }
    }
}

/// One key field of a record. `len_bytes` is a multiple of the number's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyField {
    /// First byte of the field in the record.
    pub offset_bytes: usize,
    /// Length of the field.
    pub len_bytes: usize,
    /// The content of the field.
    pub kind: KeyKind,
    /// Largest first.
    pub descending: bool,
}

impl KeyField {
    /// Whether the field contains floats, whose NaNs are one key.
    pub fn is_of_floats(&self) -> bool {
        matches!(self.kind, KeyKind::Numbers(number) if number.kind.is_float())
    }
}

impl fmt::Display for KeyField {
    /// `OFFSET:LEN`, then `:TYPE` unless it is bytes, then `:desc` if descending.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.offset_bytes, self.len_bytes)?;
        if let KeyKind::Numbers(number) = self.kind {
            write!(f, ":{number}")?;
        }
        if self.descending {
            f.write_str(":desc")?;
        }
        Ok(())
    }
}

/// The size of a record and its key fields, checked. Cheap to clone; compared by meaning.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordFormat {
    record_bytes: usize,
    keys: Vec<KeyField>,
}

impl RecordFormat {
    /// A record of `record_bytes` with these key fields, in order of weight.
    ///
    /// Errors (usage): size zero or over [`RECORD_BYTES_MAX`]; no keys; keys together over
    /// [`KEY_BYTES_MAX`]; a key of length zero, beyond the record, or not a multiple of its number.
    pub fn new(record_bytes: usize, keys: Vec<KeyField>) -> Result<Self> {
        check_record_bytes(record_bytes)?;
        if keys.is_empty() {
            return Err(Error::usage(READ_KEY, "no key is given")
                .hint("give the position of the key: OFFSET:LEN[:TYPE][:desc], for example 0:10"));
        }
        for key in &keys {
            check_key(record_bytes, key)?;
        }
        let key_bytes: usize = keys.iter().map(|key| key.len_bytes).sum();
        if key_bytes > KEY_BYTES_MAX {
            return Err(Error::usage(
                READ_KEY,
                format!(
                    "the keys take {key_bytes} bytes in total; at most {KEY_BYTES_MAX} are possible"
                ),
            ));
        }
        Ok(RecordFormat { record_bytes, keys })
    }

    /// A record of bytes without an order, for jobs that need none.
    ///
    /// # Errors
    /// The errors of [`RecordFormat::new`].
    pub fn without_order(record_bytes: usize) -> Result<Self> {
        check_record_bytes(record_bytes)?;
        let keys = Vec::new();
        Ok(RecordFormat { record_bytes, keys })
    }

    /// Fails if records have no order.
    ///
    /// # Errors
    /// Usage: there is no key.
    pub fn check_order(&self) -> Result<()> {
        if !self.keys.is_empty() {
            return Ok(());
        }
        let record_bytes = self.record_bytes;
        let cause = format!("records of {record_bytes} bytes of this type have no order");
        let hint = format!(
            "give the position of the key: --record {record_bytes} --key OFFSET:LEN[:TYPE]; \
             shuffle, sample, head, split, gather and reverse need none"
        );
        Err(Error::usage(READ_KEY, cause).hint(hint))
    }

    /// A record of `count` numbers, all of them the key.
    pub fn numbers(number: Number, count: usize) -> Result<Self> {
        let len_bytes = number.bytes().saturating_mul(count);
        let kind = KeyKind::Numbers(number);
        Self::new(
            len_bytes,
            vec![KeyField {
                offset_bytes: 0,
                len_bytes,
                kind,
                descending: false,
            }],
        )
    }

    /// The record of sortbenchmark.org: 100 bytes, a key of 10 bytes at offset 0.
    pub fn gensort() -> Self {
        let kind = KeyKind::Bytes;
        let key = KeyField {
            offset_bytes: 0,
            len_bytes: 10,
            kind,
            descending: false,
        };
        RecordFormat {
            record_bytes: 100,
            keys: vec![key],
        }
    }

    /// Size of a record.
    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// The key fields, in order of weight; empty if records have no order.
    pub fn keys(&self) -> &[KeyField] {
        &self.keys
    }

    /// The number, if a record is exactly one number of at least four bytes and that number is the
    /// only key. Such records are sorted as native integers (see [`super::ScalarOrder`]); its key
    /// field says whether the key is descending.
    pub fn scalar(&self) -> Option<Number> {
        let [
            KeyField {
                offset_bytes: 0,
                len_bytes,
                kind: KeyKind::Numbers(number),
                ..
            },
        ] = self.keys.as_slice()
        else {
            return None;
        };
        let is_one = *len_bytes == number.bytes() && self.record_bytes == number.bytes();
        (is_one && number.bytes() >= 4).then_some(*number)
    }

    /// Whether a key contains floats; records with equal keys may then differ in the bits of NaNs.
    pub fn has_floats(&self) -> bool {
        self.keys.iter().any(KeyField::is_of_floats)
    }

    /// The same order, with the bytes outside of all keys as additional, least significant keys.
    ///
    /// # Errors
    /// The errors of [`RecordFormat::new`].
    pub(crate) fn with_rest_as_keys(&self) -> Result<Self> {
        let mut keys = self.keys.clone();
        let is_key = |at: usize| {
            let has =
                |key: &KeyField| (key.offset_bytes..key.offset_bytes + key.len_bytes).contains(&at);
            self.keys.iter().any(has)
        };
        let mut rest = 0;
        for at in 0..=self.record_bytes {
            if at < self.record_bytes && !is_key(at) {
                continue;
            }
            if rest < at {
                keys.push(KeyField {
                    offset_bytes: rest,
                    len_bytes: at - rest,
                    kind: KeyKind::Bytes,
                    descending: false,
                });
            }
            rest = at + 1;
        }
        Self::new(self.record_bytes, keys)
    }

    /// Whether the keys cover every byte, so that records with equal keys are equal except for
    /// the bits of NaNs.
    pub fn is_all_key(&self) -> bool {
        let has =
            |key: &KeyField, at| (key.offset_bytes..key.offset_bytes + key.len_bytes).contains(&at);
        (0..self.record_bytes).all(|at| self.keys.iter().any(|key| has(key, at)))
    }

    /// True for 100-byte records with the plain 10-byte key of sortbenchmark.org.
    pub fn is_gensort(&self) -> bool {
        *self == Self::gensort()
    }

    /// Number of whole records in `file_bytes`.
    ///
    /// Errors (usage) if the size is not a multiple of the record; the caller adds the path.
    pub fn records_in(&self, file_bytes: u64) -> Result<u64> {
        let record_bytes = self.record_bytes as u64;
        let rest = file_bytes % record_bytes;
        if rest == 0 {
            return Ok(file_bytes / record_bytes);
        }
        Err(Error::usage(
            "count records",
            format!(
                "its size, {}, is not a multiple of the {record_bytes}-byte record ({self}): {} left over",
                units::counted(file_bytes, "byte"),
                units::counted(rest, "byte")
            ),
        )
        .hint("check the type, or whether the file is complete"))
    }
}

pub(super) fn key_syntax(text: &str, why: &str) -> Error {
    Error::usage(READ_KEY, format!("key `{text}`: {why}"))
        .hint("a key is OFFSET:LEN[:TYPE][:desc] in bytes, for example 0:10 or 16:8:u64be:desc")
}

fn check_record_bytes(record_bytes: usize) -> Result<()> {
    if record_bytes == 0 {
        return Err(Error::usage(READ_TYPE, "a record of 0 bytes")
            .hint("give the size of one record in bytes, for example 100"));
    }
    if record_bytes > RECORD_BYTES_MAX {
        let cause =
            format!("a record of {record_bytes} bytes; at most {RECORD_BYTES_MAX} are possible");
        return Err(Error::usage(READ_TYPE, cause).hint("split the records, or name their parts"));
    }
    Ok(())
}

fn check_key(record_bytes: usize, key: &KeyField) -> Result<()> {
    if key.len_bytes == 0 {
        return Err(key_syntax(&key.to_string(), "its length is 0"));
    }
    let end = key.offset_bytes.saturating_add(key.len_bytes);
    if end > record_bytes {
        return Err(Error::usage(
            READ_KEY,
            format!(
                "key `{key}` ends at byte {end}, beyond the record of {}",
                units::counted(record_bytes as u64, "byte")
            ),
        )
        .hint("offsets count from 0; check the record size and the key"));
    }
    if let KeyKind::Numbers(number) = key.kind
        && !key.len_bytes.is_multiple_of(number.bytes())
    {
        let why = format!(
            "its length {} is not a multiple of the {} bytes of a {number}",
            key.len_bytes,
            number.bytes()
        );
        return Err(key_syntax(&key.to_string(), &why));
    }
    Ok(())
}

impl fmt::Display for RecordFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_gensort() {
            return f.write_str("gensort");
        }
        if let [
            KeyField {
                offset_bytes: 0,
                len_bytes,
                kind,
                descending: false,
            },
        ] = self.keys.as_slice()
            && *len_bytes == self.record_bytes
        {
            return match kind {
                KeyKind::Bytes => write!(f, "bytes{len_bytes}"),
                KeyKind::Numbers(number) if number.bytes() == *len_bytes => number.fmt(f),
                KeyKind::Numbers(number) => write!(f, "{number}x{}", len_bytes / number.bytes()),
            };
        }
        write!(f, "{}/", self.record_bytes)?;
        for (index, key) in self.keys.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{key}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any number type in any byte order.
    pub(crate) fn any_number() -> impl Strategy<Value = Number> {
        (0..NumberType::ALL.len(), any::<bool>()).prop_map(|(kind, is_big)| {
            let endian = if is_big { Endian::Big } else { Endian::Little };
            Number::new(NumberType::ALL[kind], endian)
        })
    }

    /// Any record of 1 to 64 bytes with one to four key fields, which may overlap.
    pub(crate) fn any_format() -> impl Strategy<Value = RecordFormat> {
        let field = (any::<(u16, u16, bool, bool)>(), any_number());
        (1usize..=64, proptest::collection::vec(field, 1..=4)).prop_map(|(record_bytes, fields)| {
            let keys = fields
                .into_iter()
                .map(|((offset, len, is_bytes, descending), number)| {
                    let fits = number.bytes() <= record_bytes && !is_bytes;
                    let unit = if fits { number.bytes() } else { 1 };
                    let len_bytes = (1 + usize::from(len) % (record_bytes / unit)) * unit;
                    let offset_bytes = usize::from(offset) % (record_bytes - len_bytes + 1);
                    let kind = if fits {
                        KeyKind::Numbers(number)
                    } else {
                        KeyKind::Bytes
                    };
                    KeyField {
                        offset_bytes,
                        len_bytes,
                        kind,
                        descending,
                    }
                });
            RecordFormat::new(record_bytes, keys.collect()).unwrap()
        })
    }

    fn message(result: Result<RecordFormat>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn types_mean_what_they_say() {
        let format = RecordFormat::parse_type("f32x32").unwrap();
        assert_eq!(format.record_bytes(), 128);
        assert_eq!(format.scalar(), None);
        let format = RecordFormat::parse_type("u64be").unwrap();
        assert_eq!(
            format.scalar(),
            Some(Number::new(NumberType::U64, Endian::Big))
        );
        assert_eq!(
            RecordFormat::parse_type("u64le").unwrap().to_string(),
            "u64"
        );
        assert_eq!(RecordFormat::parse_type("u16").unwrap().scalar(), None);
        assert_eq!(
            RecordFormat::parse_type("f64bex3").unwrap().record_bytes(),
            24
        );
        let format = RecordFormat::parse_record(100, &["0:10"]).unwrap();
        assert!(format.is_gensort());
        assert_eq!(format.to_string(), "gensort");
        let format = RecordFormat::parse_record(8, &["0:8:u64:desc"]).unwrap();
        assert!(format.scalar().is_some() && format.keys()[0].descending);
    }

    #[test]
    fn a_wrong_type_is_named_with_the_known_ones_and_the_nearest() {
        let text = message(RecordFormat::parse_type("u46"));
        assert!(text.contains("unknown type `u46`"), "{text}");
        assert!(text.contains("did you mean `u64`?"), "{text}");
        assert!(text.contains("u128") && text.contains("gensort"), "{text}");
        let text = message(RecordFormat::parse_record(16, &["0:8:flaot"]));
        assert!(text.contains("unknown type `flaot`"), "{text}");
    }

    #[test]
    fn a_key_beyond_the_record_names_both() {
        let text = message(RecordFormat::parse_record(16, &["0:8", "12:8:u64"]));
        assert!(text.contains("`12:8:u64` ends at byte 20"), "{text}");
        assert!(text.contains("record of 16 bytes"), "{text}");
        let text = message(RecordFormat::parse_record(
            16,
            &[format!("{}:8", usize::MAX)],
        ));
        assert!(text.contains("beyond the record"), "{text}");
    }

    #[test]
    fn zero_sizes_missing_keys_and_broken_syntax_are_refused() {
        assert!(message(RecordFormat::parse_record(0, &["0:1"])).contains("0 bytes"));
        assert!(message(RecordFormat::parse_record(4, &["0:0"])).contains("length is 0"));
        assert!(message(RecordFormat::parse_record::<&str>(4, &[])).contains("no key"));
        assert!(message(RecordFormat::parse_type("u64x0")).contains("0 bytes"));
        let unordered = RecordFormat::parse_type("100/").unwrap();
        assert_eq!(unordered.to_string(), "100/");
        assert!(
            unordered
                .check_order()
                .unwrap_err()
                .to_string()
                .contains("no order")
        );
        assert!(message(RecordFormat::parse_type("2000000000/0:8")).contains("at most 1073741824"));
        assert!(message(RecordFormat::parse_record(16, &["0:9:u64"])).contains("not a multiple"));
        for key in [
            "",
            "5",
            ":",
            "a:1",
            "1:-2",
            "+1:2",
            "0:1:desc:u8",
            "0:1:u8:u8",
            "0:1:u8:x",
        ] {
            assert!(
                message(RecordFormat::parse_record(16, &[key])).contains("OFFSET:LEN"),
                "{key}"
            );
        }
    }

    #[test]
    fn a_file_that_ends_inside_a_record_says_how_many_bytes_are_left() {
        let format = RecordFormat::gensort();
        assert_eq!(format.records_in(0).unwrap(), 0);
        assert_eq!(format.records_in(300).unwrap(), 3);
        let text = format.records_in(1007).unwrap_err().to_string();
        assert!(text.contains("7 bytes left over"), "{text}");
    }

    proptest! {
        #[test]
        fn printed_formats_are_read_back_equal(format in any_format()) {
            prop_assert_eq!(RecordFormat::parse_type(&format.to_string()).unwrap(), format);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z0-9:,/x]{0,24}") {
            if let Ok(format) = RecordFormat::parse_type(&text) {
                prop_assert_eq!(RecordFormat::parse_type(&format.to_string()).unwrap(), format);
            }
        }
    }
}
