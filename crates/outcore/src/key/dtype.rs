//! NumPy's dtypes: element codes and lists of fields, as records and back.
//!
//! Contract: pure functions from a parsed literal to an [`Element`], from that to a
//! [`RecordFormat`], and from a format to the text of a dtype. The input is untrusted: sizes are
//! checked for overflow, and unknown codes are errors.

use super::literal::Literal;
use super::record::{Endian, KEY_BYTES_MAX, KeyField, KeyKind, Number, NumberType, RecordFormat};
use outcore_io::{Error, Result};

const READ: &str = "read .npy header";

const WRITE: &str = "write .npy header";

/// A named field of a structured dtype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyField {
    /// The name of the field; fields of inner structs are `outer.inner`.
    pub name: String,
    /// Offset in the record.
    pub offset_bytes: usize,
    /// Length in the record.
    pub len_bytes: usize,
    /// The content of the field; `None` if it cannot be ordered (void).
    pub kind: Option<KeyKind>,
}

pub(super) fn corrupt(cause: impl Into<String>) -> Error {
    Error::corrupt(READ, cause)
}

pub(super) fn refused(cause: impl Into<String>, hint: &str) -> Error {
    Error::usage(READ, cause).hint(hint)
}

/// The sizes in a tuple.
pub(super) fn shape(literal: &Literal) -> Result<Vec<u64>> {
    let Literal::Tuple(items) = literal else {
        return Err(corrupt("`shape` is not a tuple"));
    };
    let size = |item: &Literal| match item {
        Literal::Integer(size) => Ok(*size),
        _ => Err(corrupt("`shape` holds something that is not a size")),
    };
    items.iter().map(size).collect()
}

/// One element of an array.
#[derive(Debug, Clone)]
pub(super) struct Element {
    bytes: usize,
    /// Content of a plain element; `None` for void and for numbers without an order.
    kind: Option<KeyKind>,
    /// Whether the element is a number that has no order here.
    is_unordered: bool,
    /// The fields of a structured dtype.
    pub(super) fields: Vec<NpyField>,
}

impl Element {
    /// Parses a dtype: a code, or a list of fields.
    pub(super) fn read(descr: &Literal) -> Result<Self> {
        match descr {
            Literal::Text(code) => {
                let (bytes, kind) = read_code(code)?;
                Ok(Element {
                    bytes,
                    kind,
                    is_unordered: kind.is_none() && !code.contains('V'),
                    fields: Vec::new(),
                })
            }
            Literal::List(items) => {
                let mut element = Element {
                    bytes: 0,
                    kind: None,
                    is_unordered: false,
                    fields: Vec::new(),
                };
                for item in items {
                    element.push_field(item)?;
                }
                Ok(element)
            }
            _ => Err(corrupt("`descr` is neither a dtype nor a list of fields")),
        }
    }

    /// Appends a field `(name, dtype)` or `(name, dtype, shape)`; a nameless void is padding.
    fn push_field(&mut self, item: &Literal) -> Result<()> {
        let (name, dtype, count) = match item {
            Literal::Tuple(parts) => match parts.as_slice() {
                [name, dtype] => (name, dtype, 1),
                [name, dtype, Literal::Integer(count)] => (name, dtype, *count),
                [name, dtype, sizes] => {
                    let count = shape(sizes)?.into_iter().try_fold(1, u64::checked_mul);
                    (name, dtype, count.ok_or_else(too_large)?)
                }
                _ => {
                    return Err(corrupt(
                        "a field of the dtype is not (name, dtype[, shape])",
                    ));
                }
            },
            _ => {
                return Err(corrupt(
                    "a field of the dtype is not (name, dtype[, shape])",
                ));
            }
        };
        let name = match name {
            Literal::Text(name) => name,
            // A pair is (title, name).
            Literal::Tuple(pair) => match pair.as_slice() {
                [_, Literal::Text(name)] => name,
                _ => return Err(corrupt("a field of the dtype has no name")),
            },
            _ => return Err(corrupt("a field of the dtype has no name")),
        };
        let inner = Element::read(dtype)?;
        let len_bytes = usize::try_from(count)
            .ok()
            .and_then(|count| inner.bytes.checked_mul(count));
        let len_bytes = len_bytes.ok_or_else(too_large)?;
        let (offset_bytes, kind) = (self.bytes, inner.kind);
        self.bytes = self.bytes.checked_add(len_bytes).ok_or_else(too_large)?;
        let is_padding = name.is_empty() && kind.is_none();
        if !inner.fields.is_empty() {
            if count != 1 {
                return Err(refused(
                    format!("field `{name}` is an array of structs"),
                    "flatten the inner struct, or give --record and --key for the raw data",
                ));
            }
            self.fields
                .extend(inner.fields.into_iter().map(|field| NpyField {
                    name: format!("{name}.{}", field.name),
                    offset_bytes: offset_bytes + field.offset_bytes,
                    ..field
                }));
        } else if !is_padding && len_bytes > 0 {
            self.fields.push(NpyField {
                name: name.clone(),
                offset_bytes,
                len_bytes,
                kind,
            });
        }
        Ok(())
    }

    /// The record of a row of `count` elements.
    pub(super) fn format(self, count: u64) -> Result<RecordFormat> {
        let is_struct = !self.fields.is_empty();
        if is_struct && count > 1 {
            return Err(refused(
                format!("a row is {count} structs"),
                "reshape the array to one dimension: a struct is a record",
            ));
        }
        let record_bytes = usize::try_from(count)
            .ok()
            .and_then(|count| self.bytes.checked_mul(count));
        let record_bytes = record_bytes.ok_or_else(too_large)?;
        let key = |offset_bytes, len_bytes, kind| KeyField {
            offset_bytes,
            len_bytes,
            kind,
            descending: false,
        };
        let keys: Vec<KeyField> = if is_struct {
            let ordered = self.fields.iter().filter_map(|field| {
                field
                    .kind
                    .map(|kind| key(field.offset_bytes, field.len_bytes, kind))
            });
            ordered.collect()
        } else {
            // Rows that are too long for a key can still be moved.
            if self.is_unordered || record_bytes > KEY_BYTES_MAX {
                return RecordFormat::without_order(record_bytes);
            }
            // A plain void array is opaque bytes, ordered as such.
            vec![key(0, record_bytes, self.kind.unwrap_or(KeyKind::Bytes))]
        };
        RecordFormat::new(record_bytes, keys)
    }
}

fn too_large() -> Error {
    corrupt("its dtype is larger than memory")
}

/// Parses a dtype code such as `<u8`: its size in bytes and its content.
fn read_code(code: &str) -> Result<(usize, Option<KeyKind>)> {
    let (order, rest) = match code.as_bytes().first() {
        Some(order @ (b'<' | b'>' | b'|' | b'=')) => (*order, &code[1..]),
        _ => (b'=', code),
    };
    let endian = match order {
        b'>' => Endian::Big,
        b'<' => Endian::Little,
        _ => Endian::NATIVE,
    };
    let unknown = || corrupt(format!("unknown dtype `{code}`"));
    let mut chars = rest.chars();
    let letter = chars.next().ok_or_else(unknown)?;
    let rest = chars.as_str();
    // Dates carry their unit after the size: M8[ns].
    let digits = rest.split_once('[').map_or(rest, |(digits, _)| digits);
    let size: usize = match (letter, digits) {
        ('O', "") => 8,
        ('?', "") => 1,
        _ => digits.parse().map_err(|_| unknown())?,
    };
    let number = |kind| Ok((size, Some(KeyKind::Numbers(Number::new(kind, endian)))));
    match (letter, size) {
        ('b' | '?' | 'u', 1) => number(NumberType::U8),
        ('u', 2) => number(NumberType::U16),
        ('u', 4) => number(NumberType::U32),
        ('u', 8) => number(NumberType::U64),
        ('i', 1) => number(NumberType::I8),
        ('i', 2) => number(NumberType::I16),
        ('i', 4) => number(NumberType::I32),
        ('i' | 'm' | 'M', 8) => number(NumberType::I64),
        ('f', 2) => number(NumberType::F16),
        ('f', 4) => number(NumberType::F32),
        ('f', 8) => number(NumberType::F64),
        ('S' | 'a', _) => Ok((size, Some(KeyKind::Bytes))),
        ('U', _) => {
            let bytes = size.checked_mul(4).ok_or_else(too_large)?;
            Ok((
                bytes,
                Some(KeyKind::Numbers(Number::new(NumberType::U32, endian))),
            ))
        }
        ('V', _) => Ok((size, None)),
        ('O', _) => Err(refused(
            "the array holds Python objects (dtype `O`), not their values",
            "save numbers or fixed-size strings instead",
        )),
        // NumPy's order: by real parts, then by imaginary parts.
        ('c', 8) => Ok((
            size,
            Some(KeyKind::Numbers(Number::new(NumberType::F32, endian))),
        )),
        ('c', 16) => Ok((
            size,
            Some(KeyKind::Numbers(Number::new(NumberType::F64, endian))),
        )),
        // Longer floats differ between machines, so only their size is known.
        ('f', 12 | 16) | ('c', 24 | 32) => Ok((size, None)),
        ('f' | 'c', _) => Err(refused(
            format!("floats of {size} bytes (dtype `{code}`) are not known"),
            "save them as float32 or float64",
        )),
        _ => Err(unknown()),
    }
}

/// NumPy's names for numbers, in addition to its codes.
const NAMES: [(&str, NumberType); 14] = [
    ("uint8", NumberType::U8),
    ("uint16", NumberType::U16),
    ("uint32", NumberType::U32),
    ("uint64", NumberType::U64),
    ("int8", NumberType::I8),
    ("int16", NumberType::I16),
    ("int32", NumberType::I32),
    ("int64", NumberType::I64),
    ("float16", NumberType::F16),
    ("half", NumberType::F16),
    ("float32", NumberType::F32),
    ("float64", NumberType::F64),
    ("single", NumberType::F32),
    ("double", NumberType::F64),
];

/// Names of types that consist of two numbers.
const COMPLEX_NAMES: [(&str, NumberType); 2] = [
    ("complex64", NumberType::F32),
    ("complex128", NumberType::F64),
];

/// The type of `text` in NumPy: a name, or a code with a byte order (`<u8`). A code without byte
/// order counts only if outcore has no other meaning for it: `f4` counts, but `u8` and `i8` do not,
/// because they have eight bytes in NumPy and one in outcore.
fn named(text: &str) -> Option<(usize, KeyKind)> {
    if let Some((_, kind)) = NAMES.iter().find(|(name, _)| *name == text) {
        let number = Number::new(*kind, Endian::NATIVE);
        return Some((number.bytes(), KeyKind::Numbers(number)));
    }
    if let Some((_, kind)) = COMPLEX_NAMES.iter().find(|(name, _)| *name == text) {
        let part = Number::new(*kind, Endian::NATIVE);
        return Some((2 * part.bytes(), KeyKind::Numbers(part)));
    }
    let has_order = text.starts_with(['<', '>', '=', '|']);
    let codes = [
        "u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4", "f8", "c8", "c16",
    ];
    let is_unlike = codes.contains(&text);
    if !has_order && !is_unlike {
        return None;
    }
    let (len_bytes, kind) = read_code(text).ok()?;
    kind.filter(|_| len_bytes > 0).map(|kind| (len_bytes, kind))
}

/// The number that `text` means in NumPy; see [`RecordFormat::parse_type`].
pub(super) fn number_named(text: &str) -> Option<Number> {
    match named(text)? {
        (len_bytes, KeyKind::Numbers(number)) if number.bytes() == len_bytes => Some(number),
        _ => None,
    }
}

/// The record of one value of the dtype that `text` means in NumPy.
pub(super) fn format_named(text: &str) -> Option<Result<RecordFormat>> {
    let (len_bytes, kind) = named(text)?;
    let key = KeyField {
        offset_bytes: 0,
        len_bytes,
        kind,
        descending: false,
    };
    Some(RecordFormat::new(len_bytes, vec![key]))
}

/// The dtype text and columns of a format.
pub(super) fn describe(format: &RecordFormat) -> Result<(String, Vec<u64>)> {
    let has_u128 = format
        .keys()
        .iter()
        .any(|key| matches!(key.kind, KeyKind::Numbers(number) if number.kind == NumberType::U128));
    if has_u128 {
        return Err(
            Error::usage(WRITE, "NumPy has no 128-bit integers").hint("write a raw file instead")
        );
    }
    let record_bytes = format.record_bytes();
    if format.keys().is_empty() {
        return Ok((format!("'|V{record_bytes}'"), Vec::new()));
    }
    if let [
        key @ KeyField {
            offset_bytes: 0,
            kind: KeyKind::Numbers(number),
            ..
        },
    ] = format.keys()
        && key.len_bytes == record_bytes
    {
        let count = record_bytes / number.bytes();
        return Ok((
            format!("'{}'", write_code(*number)),
            Vec::from_iter((count > 1).then_some(count as u64)),
        ));
    }
    let mut fields = Vec::new();
    let mut end_bytes = 0;
    for (index, key) in format.keys().iter().enumerate() {
        if key.offset_bytes < end_bytes {
            return Err(Error::usage(
                WRITE,
                format!("keys of `{format}` overlap or are out of order"),
            )
            .hint("write a raw file instead"));
        }
        push_void(&mut fields, end_bytes, key.offset_bytes);
        fields.push(match key.kind {
            KeyKind::Numbers(number) => {
                let count = key.len_bytes / number.bytes();
                let shape = if count > 1 {
                    format!(", ({count},)")
                } else {
                    String::new()
                };
                format!("('key{index}', '{}'{shape})", write_code(number))
            }
            KeyKind::Bytes => format!("('key{index}', '|S{}')", key.len_bytes),
        });
        end_bytes = key.offset_bytes + key.len_bytes;
    }
    push_void(&mut fields, end_bytes, record_bytes);
    Ok((format!("[{}]", fields.join(", ")), Vec::new()))
}

fn push_void(fields: &mut Vec<String>, start_bytes: usize, end_bytes: usize) {
    if start_bytes < end_bytes {
        let bytes = end_bytes - start_bytes;
        fields.push(format!("('rest{start_bytes}', '|V{bytes}')"));
    }
}

fn write_code(number: Number) -> String {
    let letter = match number.kind {
        kind if kind.is_float() => 'f',
        kind if kind.is_signed_integer() => 'i',
        _ => 'u',
    };
    let order = match number.endian {
        _ if number.bytes() == 1 => '|',
        Endian::Little => '<',
        Endian::Big => '>',
    };
    format!("{order}{letter}{}", number.bytes())
}
