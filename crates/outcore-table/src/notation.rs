//! The notation for column types: `time:timestamp,bytes:i64,price:decimal(12,2),tags:list<text>`.
//!
//! Contract: [`parse`] reads a list of names and types. [`notation`] writes a type in a form that
//! [`parse`] reads. Type names are those of expressions (`i8` to `u64`, `f32`, `f64`, `bool`,
//! `text`, `date`, `timestamp`) and those of Arrow (`int64`, `double`, `string`). A name may
//! contain colons; the last one separates the type. In backquotes, a name may contain anything, or
//! be empty. Pure.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use outcore::key::column::quoted;
use outcore_io::{Error, Result};

const SCHEMA: &str = "read schema";
const HINT: &str = "write NAME:TYPE,...; types are bool, i8 to i64, u8 to u64, f32, f64, text, date, time, timestamp, \
                    timestamp[ms], timestamp[us,UTC], decimal(12,2), list<TYPE> and struct<NAME:TYPE,...>";

/// The names of plain types. [`notation`] writes the first name of each type.
const NAMES: [(&str, DataType); 30] = [
    ("bool", DataType::Boolean),
    ("boolean", DataType::Boolean),
    ("i8", DataType::Int8),
    ("int8", DataType::Int8),
    ("i16", DataType::Int16),
    ("int16", DataType::Int16),
    ("i32", DataType::Int32),
    ("int32", DataType::Int32),
    ("i64", DataType::Int64),
    ("int64", DataType::Int64),
    ("u8", DataType::UInt8),
    ("uint8", DataType::UInt8),
    ("u16", DataType::UInt16),
    ("uint16", DataType::UInt16),
    ("u32", DataType::UInt32),
    ("uint32", DataType::UInt32),
    ("u64", DataType::UInt64),
    ("uint64", DataType::UInt64),
    ("f32", DataType::Float32),
    ("float32", DataType::Float32),
    ("float", DataType::Float32),
    ("f64", DataType::Float64),
    ("float64", DataType::Float64),
    ("double", DataType::Float64),
    ("text", DataType::Utf8),
    ("string", DataType::Utf8),
    ("utf8", DataType::Utf8),
    ("date", DataType::Date32),
    ("date32", DataType::Date32),
    ("time", DataType::Time64(TimeUnit::Microsecond)),
];
const UNITS: [(&str, TimeUnit); 4] = [
    ("s", TimeUnit::Second),
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

fn wrong(cause: String) -> Error {
    Error::usage(SCHEMA, cause).hint(HINT)
}

/// Reads the columns of a list `NAME:TYPE,...`.
///
/// # Errors
/// Usage: an unknown type, a type without a name, a repeated name.
pub fn parse(text: &str) -> Result<Vec<(String, DataType)>> {
    let mut columns: Vec<(String, DataType)> = Vec::new();
    for part in split(text)? {
        let (name, data_type) = column(part)?;
        if columns.iter().any(|(known, _)| *known == name) {
            return Err(wrong(format!("`{name}` comes twice")));
        }
        columns.push((name, data_type));
    }
    Ok(columns)
}

/// Splits at the commas outside of brackets.
fn split(text: &str) -> Result<Vec<&str>> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    let mut is_quoted = false;
    for (at, letter) in text.char_indices() {
        is_quoted ^= letter == '`';
        match letter {
            _ if is_quoted => {}
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return Err(wrong(format!("a bracket too many in `{text}`")));
        }
    }
    if depth > 0 {
        return Err(wrong(format!("a bracket is not closed in `{text}`")));
    }
    parts.push(&text[from..]);
    Ok(parts)
}

/// Reads `NAME:TYPE`.
fn column(text: &str) -> Result<(String, DataType)> {
    if let Some((name, rest)) = quoted(text.trim())
        && let Some(data_type) = rest.strip_prefix(':')
    {
        return Ok((name, type_of(data_type.trim())?));
    }
    let mut depth = 0_i32;
    let mut letters = text.char_indices().rev();
    let colon = letters.find(|(_, letter)| {
        match letter {
            '>' | ')' | ']' => depth += 1,
            '<' | '(' | '[' => depth -= 1,
            _ => {}
        }
        *letter == ':' && depth == 0
    });
    let (at, _) = colon.ok_or_else(|| wrong(format!("`{text}` has no type")))?;
    let name = text[..at].trim();
    if name.is_empty() {
        return Err(wrong(format!("`{text}` has no name")));
    }
    Ok((name.to_owned(), type_of(text[at + 1..].trim())?))
}

/// Returns the type of that name.
///
/// # Errors
/// Usage: an unknown name.
pub(crate) fn type_of(text: &str) -> Result<DataType> {
    let unknown = || wrong(format!("there is no type `{text}`"));
    let inside = |front: &str, back: &str| {
        let inner = text.strip_prefix(front)?.strip_suffix(back)?;
        Some(inner.trim())
    };
    if let Some((_, data_type)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(data_type.clone());
    }
    if text == "timestamp" {
        return Ok(DataType::Timestamp(TimeUnit::Microsecond, None));
    }
    if let Some(inner) = inside("timestamp[", "]") {
        let (unit, zone) = match inner.split_once(',') {
            Some((unit, zone)) => (unit.trim(), Some(zone.trim().trim_start_matches("tz="))),
            None => (inner, None),
        };
        let (_, unit) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(unknown)?;
        return Ok(DataType::Timestamp(*unit, zone.map(Arc::from)));
    }
    if let Some(inner) = inside("decimal(", ")") {
        let (digits, scale) = inner.split_once(',').unwrap_or((inner, "0"));
        let digits: u8 = digits.trim().parse().map_err(|_| unknown())?;
        let scale: i8 = scale.trim().parse().map_err(|_| unknown())?;
        let is_held = (1..=38).contains(&digits) && (0..=digits as i8).contains(&scale);
        return match is_held {
            true => Ok(DataType::Decimal128(digits, scale)),
            false => Err(unknown()),
        };
    }
    if let Some(inner) = inside("list<", ">") {
        return Ok(DataType::List(Arc::new(Field::new_list_field(
            type_of(inner)?,
            true,
        ))));
    }
    if let Some(inner) = inside("struct<", ">") {
        let fields = parse(inner)?.into_iter();
        let fields = fields.map(|(name, data_type)| Field::new(name, data_type, true));
        return Ok(DataType::Struct(fields.collect::<Fields>()));
    }
    Err(unknown())
}

/// Writes a type as [`parse`] reads it, or as Arrow writes it if the notation has no name for it.
pub(super) fn notation(data_type: &DataType) -> String {
    if let Some((name, _)) = NAMES.iter().find(|(_, known)| known == data_type) {
        return (*name).to_owned();
    }
    match data_type {
        DataType::Timestamp(unit, zone) => {
            let unit = UNITS
                .iter()
                .find(|(_, known)| known == unit)
                .map_or("", |(name, _)| name);
            match zone {
                None if unit == "us" => "timestamp".to_owned(),
                None => format!("timestamp[{unit}]"),
                Some(zone) => format!("timestamp[{unit},{zone}]"),
            }
        }
        DataType::Decimal128(digits, scale) => format!("decimal({digits},{scale})"),
        DataType::List(item) => format!("list<{}>", notation(item.data_type())),
        DataType::Struct(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|field| format!("{}:{}", field.name(), notation(field.data_type())));
            format!("struct<{}>", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_written() {
        let text = "a:i64,b c:decimal(12,2),at:12:timestamp[us,+02:00],t:timestamp[ns],l:list<struct<x:f64,y:list<text>>>";
        let columns = parse(text).unwrap();
        let written = columns
            .iter()
            .map(|(name, data_type)| format!("{name}:{}", notation(data_type)));
        assert_eq!(written.collect::<Vec<_>>().join(","), text);
        assert_eq!(columns[2].0, "at:12");
        assert_eq!(parse("x:double,y:int8").unwrap()[0].1, DataType::Float64);
    }

    #[test]
    fn what_is_no_type_is_refused_by_name() {
        for text in [
            "",
            "a",
            ":i64",
            "a:i65",
            "a:list<i64",
            "a:i64>",
            "a:decimal(40,2)",
            "a:decimal(2,3)",
            "a:timestamp[h]",
            "a:i64,a:f64",
            "a:",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.next_step().unwrap().contains("NAME:TYPE"), "{text}");
        }
    }
}
