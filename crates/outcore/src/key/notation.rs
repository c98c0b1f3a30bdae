//! The notation of records, keys and number types.
//!
//! Contract: text printed by [`super::record`] is parsed here to an equal value; NumPy's names are
//! also known. For any other text, the error lists the known names and the nearest one.

use std::str::FromStr;

use super::dtype;
use super::record::{
    Endian, KeyField, KeyKind, Number, NumberType, READ_KEY, READ_TYPE, RecordFormat, key_syntax,
};
use outcore_io::units::nearest;
use outcore_io::{Error, Result};

impl Number {
    /// Parses `u64`, `u64le`, `f32be`, or NumPy's `<u8`, `uint64`; `None` if it is not a number
    /// type.
    fn from_name(text: &str) -> Option<Self> {
        let (name, endian) = match (text.strip_suffix("le"), text.strip_suffix("be")) {
            (Some(name), _) => (name, Endian::Little),
            (_, Some(name)) => (name, Endian::Big),
            _ => (text, Endian::Little),
        };
        let mut kinds = NumberType::ALL.into_iter();
        match kinds.find(|kind| kind.name() == name) {
            Some(kind) => Some(Number::new(kind, endian)),
            None => dtype::number_named(text),
        }
    }
}

impl FromStr for KeyField {
    type Err = Error;

    /// Parses `OFFSET:LEN[:TYPE][:desc]`; TYPE is `bytes` (default) or a number type.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split(':');
        let (Some(offset), Some(len)) = (parts.next(), parts.next()) else {
            return Err(key_syntax(text, "the length is missing"));
        };
        let offset_bytes = key_number(text, "offset", offset)?;
        let len_bytes = key_number(text, "length", len)?;
        let mut kind = None;
        let mut direction = None;
        for part in parts {
            if direction.is_some() {
                return Err(key_syntax(
                    text,
                    &format!("nothing may follow the direction: `{part}`"),
                ));
            }
            match part {
                "desc" => direction = Some(true),
                "asc" => direction = Some(false),
                _ if kind.is_some() => {
                    return Err(key_syntax(
                        text,
                        &format!("`{part}` is not a direction (asc, desc)"),
                    ));
                }
                "bytes" => kind = Some(KeyKind::Bytes),
                _ => {
                    let number =
                        Number::from_name(part).ok_or_else(|| unknown_key_type(text, part))?;
                    kind = Some(KeyKind::Numbers(number));
                }
            }
        }
        let kind = kind.unwrap_or(KeyKind::Bytes);
        Ok(KeyField {
            offset_bytes,
            len_bytes,
            kind,
            descending: direction.unwrap_or(false),
        })
    }
}

fn key_number(text: &str, what: &str, digits: &str) -> Result<usize> {
    let is_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<usize>() {
        Ok(value) if is_digits => Ok(value),
        _ => Err(key_syntax(
            text,
            &format!("its {what} `{digits}` is not a number of bytes"),
        )),
    }
}

fn unknown_key_type(text: &str, name: &str) -> Error {
    let mut known: Vec<&str> = NumberType::ALL.iter().map(|kind| kind.name()).collect();
    known.extend(["bytes", "desc", "asc"]);
    let meant = nearest(name, &known).map(|word| format!("did you mean `{word}`? "));
    Error::usage(READ_KEY, format!("key `{text}`: unknown type `{name}`")).hint(format!(
        "{}known types: bytes, {} (le or be may follow)",
        meant.unwrap_or_default(),
        number_names()
    ))
}

fn number_names() -> String {
    NumberType::ALL.map(NumberType::name).join(", ")
}

impl RecordFormat {
    /// Parses a type: `u64`, `u64le`, `f32be`, `f32x32`, `f64bex3`, `bytes16`, `gensort`, a NumPy
    /// dtype (`<u8`, `uint64`, `|S16`), or `SIZE/KEY[,KEY...]` with keys as in
    /// [`RecordFormat::parse_record`].
    pub fn parse_type(text: &str) -> Result<Self> {
        if text == "gensort" {
            return Ok(Self::gensort());
        }
        if let Some((size, keys)) = text.split_once('/') {
            let size_bytes = size.parse::<usize>().map_err(|_| {
                Error::usage(
                    READ_TYPE,
                    format!("`{size}` in `{text}` is not a record size in bytes"),
                )
                .hint("write SIZE/OFFSET:LEN[:TYPE][:desc], for example 100/0:10")
            })?;
            let keys: Vec<&str> = keys.split(',').filter(|key| !key.is_empty()).collect();
            return match keys.is_empty() {
                true => Self::without_order(size_bytes),
                false => Self::parse_record(size_bytes, &keys),
            };
        }
        if let Some(number) = Number::from_name(text) {
            return Self::numbers(number, 1);
        }
        if let Some(len) = text
            .strip_prefix("bytes")
            .and_then(|digits| digits.parse().ok())
        {
            let kind = KeyKind::Bytes;
            let key = KeyField {
                offset_bytes: 0,
                len_bytes: len,
                kind,
                descending: false,
            };
            return Self::new(len, vec![key]);
        }
        if let Some((name, count)) = text.rsplit_once('x')
            && let (Some(number), Ok(count)) = (Number::from_name(name), count.parse())
        {
            return Self::numbers(number, count);
        }
        dtype::format_named(text).unwrap_or_else(|| Err(unknown_type(text)))
    }

    /// A record of `record_bytes` with keys `OFFSET:LEN[:TYPE][:desc]`, in order of weight. TYPE is
    /// `bytes` (default) or a number type with optional `le` or `be`.
    pub fn parse_record<S: AsRef<str>>(record_bytes: usize, keys: &[S]) -> Result<Self> {
        let keys: Result<Vec<KeyField>> = keys.iter().map(|key| key.as_ref().parse()).collect();
        Self::new(record_bytes, keys?)
    }
}

fn unknown_type(text: &str) -> Error {
    let mut known: Vec<&str> = NumberType::ALL.iter().map(|kind| kind.name()).collect();
    known.extend(["gensort", "bytes16", "f32x32"]);
    let meant = nearest(text, &known).map(|word| format!("did you mean `{word}`? "));
    Error::usage(READ_TYPE, format!("unknown type `{text}`")).hint(format!(
        "{}known types: {} (le or be may follow; xN makes vectors, as in f32x32), bytesN, gensort, \
         NumPy's `<u8` and `uint64`; or give a record size and its keys",
        meant.unwrap_or_default(),
        number_names()
    ))
}

impl FromStr for RecordFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse_type(text)
    }
}
