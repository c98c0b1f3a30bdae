//! Columns that directories name: `year=2024/country=de/part-0.parquet`.
//!
//! Contract: every directory of a path below the named root that reads `key=value` is a column. Values are
//! decoded (`%20`), and Hive's name for a missing one is null. A column is of 64-bit integers if the values of
//! all files are, and text otherwise. A column of the same name inside a file wins.

use std::path::{Component, Path};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use arrow_schema::{DataType, Field, FieldRef};

/// What Hive and its successors call the directory of rows without a value.
pub(crate) const MISSING: &str = "__HIVE_DEFAULT_PARTITION__";

/// The names and values of a path, outermost first.
pub(super) fn values_of(path: &Path) -> Vec<(String, Option<String>)> {
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

/// Text with its `%xx` turned into bytes; as it is where that gives no UTF-8.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind
            .get(..2)
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

/// The field of a column with these values, one a file.
pub(super) fn field_of<'a>(name: &str, values: impl Iterator<Item = Option<&'a str>>) -> FieldRef {
    let mut is_nullable = false;
    let mut is_integer = true;
    for value in values {
        match value {
            None => is_nullable = true,
            // As it would be written: `007` stays text.
            Some(value) => {
                is_integer &= value
                    .parse()
                    .is_ok_and(|number: i64| number.to_string() == value)
            }
        }
    }
    let data_type = if is_integer {
        DataType::Int64
    } else {
        DataType::Utf8
    };
    Arc::new(Field::new(name, data_type, is_nullable))
}

/// The column of `field` for this many rows of one file.
pub(super) fn column(field: &Field, value: Option<&str>, rows_count: usize) -> ArrayRef {
    if field.data_type() == &DataType::Int64 {
        let value = value.and_then(|value| value.parse::<i64>().ok());
        return Arc::new(Int64Array::from(vec![value; rows_count]));
    }
    Arc::new(StringArray::from(vec![value; rows_count]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_columns_and_their_values_are_decoded() {
        let path = Path::new(
            "root/year=2024/city=S%C3%A3o%20Paulo/x=__HIVE_DEFAULT_PARTITION__/p=1.parquet",
        );
        let values = values_of(path);
        let expected = [
            ("year", Some("2024")),
            ("city", Some("São Paulo")),
            ("x", None),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned)));
        assert_eq!(values, expected);
    }

    #[test]
    fn a_column_is_of_integers_only_if_all_values_are() {
        let kind =
            |values: &[Option<&str>]| field_of("k", values.iter().copied()).data_type().clone();
        assert_eq!(kind(&[Some("1"), Some("-20"), None]), DataType::Int64);
        assert_eq!(kind(&[Some("1"), Some("007")]), DataType::Utf8);
        assert_eq!(kind(&[Some("de")]), DataType::Utf8);
    }
}
