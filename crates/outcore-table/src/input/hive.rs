//! Columns from directory names: `year=2024/country=de/part-0.parquet`.
//!
//! Contract: each directory named `key=value` below the root becomes a column. Values are
//! percent-decoded (`%20`), and Hive's name for a missing value is null. The column's type is
//! inferred from the values of all files, as for CSV: 64-bit integers, booleans, dates, times,
//! timestamps, or else text. Numbers with a point stay text. If a file has a column of the same
//! name, the file's column wins.

use std::path::{Component, Path};
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::take::take;
use outcore_io::{Error, Result};

use super::READ;
use super::text::{ANY, kinds_of, type_of, values_of};
use crate::fault;
use crate::notation::notation;

/// The directory name that Hive and its successors use for rows without a value.
pub(crate) const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the names and values in a path, outermost first.
pub(super) fn pairs_of(path: &Path) -> Vec<(String, Option<String>)> {
    let dirs = path.parent().unwrap_or(Path::new("")).components();
    let names = dirs.filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let pairs = names.filter_map(|name| name.split_once('='));
    pairs
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| {
            let value = (value != MISSING).then(|| decoded(value));
            (decoded(key), value)
        })
        .collect()
}

/// Decodes `%xx`; returns the text unchanged if the result is not UTF-8.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        // Without the check, `+1` would be a number.
        let hex = behind
            .get(..2)
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            .and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The field of a column with these values, one per file.
pub(super) fn field_of<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> FieldRef {
    let mut is_nullable = false;
    let mut is_unsigned = true;
    let mut kinds = ANY;
    for value in values {
        match value {
            None => is_nullable = true,
            Some(value) => {
                kinds &= kinds_of(value);
                is_unsigned &= is_written_as::<u64>(value);
            }
        }
    }
    let data_type = match type_of(kinds) {
        _ if kinds == ANY => DataType::Int64,
        DataType::Utf8 if is_unsigned => DataType::UInt64,
        // Text such as `1.10` may be a version, and a float would lose its last zero.
        DataType::Float64 => DataType::Utf8,
        data_type => data_type,
    };
    Arc::new(Field::new(name, data_type, is_nullable))
}

/// Whether a number prints as exactly this text; `007` does not.
fn is_written_as<N: FromStr + ToString>(text: &str) -> bool {
    text.parse()
        .is_ok_and(|number: N| number.to_string() == text)
}

/// Builds the column of `field` for this many rows of one file.
///
/// # Errors
/// Corrupt: a value that does not have the field's type.
pub(super) fn column(field: &Field, value: Option<&str>, rows_count: usize) -> Result<ArrayRef> {
    let Some(value) = value else {
        return Ok(new_null_array(field.data_type(), rows_count));
    };
    let mut values = values_of(field.data_type())?;
    if !values.append(value) {
        let (name, data_type) = (field.name(), field.data_type());
        let kind = notation(data_type);
        let cause = format!("directory `{name}={value}` is not of type {kind}");
        return Err(Error::corrupt(READ, cause).hint("rename the directory"));
    }
    let places = UInt64Array::from(vec![0; rows_count]);
    let column = take(values.finish().as_ref(), &places, None);
    column.map_err(|error| fault::arrow(READ, &error))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn directories_are_columns_and_their_values_are_decoded() {
        let path = Path::new(
            "root/year=2024/city=S%C3%A3o%20Paulo/x=__HIVE_DEFAULT_PARTITION__/y=%+1%4/p=1.parquet",
        );
        let values = pairs_of(path);
        let expected = [
            ("year", Some("2024")),
            ("city", Some("São Paulo")),
            ("x", None),
            ("y", Some("%+1%4")),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned)));
        assert_eq!(values, expected);
    }

    #[test]
    fn a_column_is_of_a_type_only_if_all_values_are() {
        let instants =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        for (values, expected) in [
            (&[Some("1"), Some("-20"), None][..], DataType::Int64),
            (&[None], DataType::Int64),
            (&[Some("1"), Some("007")], DataType::Utf8),
            (&[Some("1"), Some("18446744073709551615")], DataType::UInt64),
            (&[Some("-1"), Some("18446744073709551615")], DataType::Utf8),
            (&[Some("de")], DataType::Utf8),
            (&[Some("true"), Some("false"), None], DataType::Boolean),
            (&[Some("true"), Some("1")], DataType::Utf8),
            (&[Some("2024-02-29"), None], DataType::Date32),
            (&[Some("2024-02-29"), Some("2023-02-29")], DataType::Utf8),
            (&[Some("2024-2-9")], DataType::Utf8),
            (&[Some("2024-02-29T23:59:59")], instants(None)),
            (
                &[Some("2024-02-29 23:59:59.5"), Some("2024-02-29")],
                instants(None),
            ),
            (&[Some("2024-02-29T23:59:59Z")], instants(Some("UTC"))),
            (&[Some("1.5")], DataType::Utf8),
            (&[Some("")], DataType::Utf8),
        ] {
            let field = field_of("k", values.iter().copied());
            assert_eq!(*field.data_type(), expected, "{values:?}");
            for value in values {
                let column = column(&field, *value, 3).unwrap();
                assert_eq!((column.len(), column.data_type()), (3, &expected));
                let is_null = |row| column.is_null(row);
                assert!((0..3).all(|row| is_null(row) == value.is_none()));
            }
        }
    }
}
