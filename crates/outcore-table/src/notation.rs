//! The notation for column types: `time:timestamp,bytes:i64,price:decimal(12,2),tags:list<text>`.
//!
//! Contract: [`parse`] reads a list of names and types. [`notation`] writes a type in a form that
//! [`parse`] reads, or for other types in the same manner. Type names are those of expressions
//! (`i8` to `u64`, `f32`, `f64`, `bool`, `text`, `date`, `timestamp`) and those of Arrow (`int64`,
//! `double`, `string`). A name may contain colons; the last one separates the type. In backquotes,
//! a name may contain anything, or be empty. Pure.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
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
/// Names that other tools give to types, with our names. They are rejected, because their meaning
/// differs between tools.
const FOREIGN: [(&str, &str); 14] = [
    ("str", "text"),
    ("varchar", "text"),
    ("char", "text"),
    ("object", "text"),
    ("int", "i32 or i64"),
    ("integer", "i32 or i64"),
    ("smallint", "i16"),
    ("bigint", "i64"),
    ("real", "f32"),
    ("number", "i64, f64 or decimal(12,2)"),
    ("numeric", "decimal(12,2), with your digits and places"),
    ("decimal", "decimal(12,2), with your digits and places"),
    ("datetime", "timestamp"),
    ("datetime64", "timestamp"),
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
    let lower = text.to_ascii_lowercase();
    if let Some((_, data_type)) = NAMES.iter().find(|(name, _)| *name == lower) {
        return Ok(data_type.clone());
    }
    if let Some((_, ours)) = FOREIGN.iter().find(|(name, _)| *name == lower) {
        return Err(unknown().hint(format!("write {ours}")));
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

fn unit_name(unit: TimeUnit) -> &'static str {
    let named = UNITS.iter().find(|(_, known)| *known == unit);
    named.map_or("us", |(name, _)| name)
}

/// Writes a type as [`parse`] reads it. A type that [`parse`] does not read, such as
/// `dictionary<text>`, is written in the same manner. Types that differ only in their layout in
/// memory have one name.
pub fn notation(data_type: &DataType) -> String {
    if let Some((name, _)) = NAMES.iter().find(|(_, known)| known == data_type) {
        return (*name).to_owned();
    }
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::FixedSizeBinary(len_bytes) => format!("binary[{len_bytes}]"),
        DataType::Null => "null".to_owned(),
        DataType::Float16 => "f16".to_owned(),
        DataType::Date64 => "date[ms]".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time[{}]", unit_name(*unit)),
        DataType::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        DataType::Interval(IntervalUnit::YearMonth) => "interval[month]".to_owned(),
        DataType::Interval(IntervalUnit::DayTime) => "interval[day]".to_owned(),
        DataType::Interval(IntervalUnit::MonthDayNano) => "interval".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp".to_owned(),
        DataType::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        DataType::Timestamp(unit, Some(zone)) => format!("timestamp[{},{zone}]", unit_name(*unit)),
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => format!("decimal({digits},{scale})"),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => format!("list<{}>", notation(item.data_type())),
        DataType::FixedSizeList(item, len) => {
            format!("list<{}>[{len}]", notation(item.data_type()))
        }
        DataType::Struct(fields) => format!("struct<{}>", fields_text(fields)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => format!("map<{}>", fields_text(fields)),
            other => format!("map<{}>", notation(other)),
        },
        DataType::Dictionary(_, values) => format!("dictionary<{}>", notation(values)),
        DataType::RunEndEncoded(_, values) => format!("runs<{}>", notation(values.data_type())),
        other => other.to_string(),
    }
}

fn fields_text(fields: &Fields) -> String {
    let fields = fields.iter();
    let fields = fields.map(|field| format!("{}:{}", field.name(), notation(field.data_type())));
    fields.collect::<Vec<_>>().join(",")
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
    fn types_that_differ_in_layout_have_one_name() {
        let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
        let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8));
        for (data_type, name) in [
            (DataType::LargeUtf8, "text"),
            (DataType::Utf8View, "text"),
            (DataType::BinaryView, "binary"),
            (DataType::Date64, "date[ms]"),
            (DataType::Time32(TimeUnit::Second), "time[s]"),
            (DataType::Duration(TimeUnit::Microsecond), "duration[us]"),
            (DataType::Decimal256(40, 2), "decimal(40,2)"),
            (DataType::LargeList(item(DataType::Utf8View)), "list<text>"),
            (
                DataType::FixedSizeList(item(DataType::Float32), 3),
                "list<f32>[3]",
            ),
            (coded, "dictionary<text>"),
        ] {
            assert_eq!(notation(&data_type), name);
        }
    }

    #[test]
    fn names_of_arrow_are_read_and_those_of_other_tools_lead_to_ours() {
        assert_eq!(type_of("Utf8").unwrap(), DataType::Utf8);
        assert_eq!(type_of("Int64").unwrap(), DataType::Int64);
        for (name, ours) in FOREIGN {
            let error = type_of(name).unwrap_err();
            assert_eq!(
                error.next_step(),
                Some(format!("write {ours}").as_str()),
                "{name}"
            );
        }
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
