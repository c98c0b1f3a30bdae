//! Units and zones of times that Parquet does not store.
//!
//! Contract: Parquet has no unit of seconds, so writers store milliseconds. They record the
//! original type, seconds with a zone, in an Arrow schema. The library takes a zone only from a
//! field of the same unit, and uses UTC otherwise. [`with_times`] restores the zones of that
//! schema, also inside nested columns. Unreadable parts of that schema are ignored. If no such
//! schema gives a unit, INT96 is read as microseconds, as in DuckDB and Spark: microseconds hold
//! every year that INT96 is used for, whereas nanoseconds end in 2262. Pure.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::basic::Type;
use parquet::file::metadata::FileMetaData;

/// Returns the file's `schema` with the units and zones of its writer; `None` if nothing changes.
pub(super) fn with_times(schema: &SchemaRef, file: &FileMetaData) -> Option<SchemaRef> {
    let pairs = file.key_value_metadata().into_iter().flatten();
    let mut stored = pairs.filter(|pair| pair.key == ARROW_SCHEMA_META_KEY);
    let stored = stored.find_map(|pair| from_base64(pair.value.as_ref()?));
    let written = stored.and_then(|bytes| try_schema_from_ipc_buffer(&bytes).ok());
    let fields = match written {
        Some(written) => zoned_fields(schema.fields(), written.fields()),
        None => {
            let leaves = file.schema_descr().columns().iter();
            let mut is_int96 = leaves.map(|leaf| leaf.physical_type() == Type::INT96);
            in_microseconds(schema.fields(), &mut is_int96)
        }
    };
    let is_other = &fields != schema.fields();
    is_other.then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Changes the type to microseconds for the leaves that are INT96, in the order of the file.
fn in_microseconds(fields: &Fields, is_int96: &mut dyn Iterator<Item = bool>) -> Fields {
    let fields = fields.iter();
    fields
        .map(|field| field_in_microseconds(field, is_int96))
        .collect()
}

fn field_in_microseconds(field: &FieldRef, is_int96: &mut dyn Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(in_microseconds(fields, is_int96)),
        DataType::List(item) => DataType::List(field_in_microseconds(item, is_int96)),
        DataType::LargeList(item) => DataType::LargeList(field_in_microseconds(item, is_int96)),
        DataType::FixedSizeList(item, count) => {
            DataType::FixedSizeList(field_in_microseconds(item, is_int96), *count)
        }
        DataType::Map(entries, is_sorted) => {
            DataType::Map(field_in_microseconds(entries, is_int96), *is_sorted)
        }
        leaf => match (is_int96.next(), leaf) {
            (Some(true), DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => leaf.clone(),
        },
    };
    match data_type == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

fn zoned_fields(found: &Fields, written: &Fields) -> Fields {
    let pairs = found
        .iter()
        .zip(written.iter().map(Some).chain(std::iter::repeat(None)));
    pairs
        .map(|(found, written)| match written {
            Some(written) if written.name() == found.name() => zoned_field(found, written),
            _ => Arc::clone(found),
        })
        .collect()
}

fn zoned_field(found: &FieldRef, written: &Field) -> FieldRef {
    let data_type = zoned(found.data_type(), written.data_type());
    Arc::new(Field::clone(found).with_data_type(data_type))
}

fn zoned(found: &DataType, written: &DataType) -> DataType {
    let inner = |found: &FieldRef, written: &FieldRef| zoned_field(found, written);
    match (found, written) {
        (DataType::Timestamp(unit, Some(_)), DataType::Timestamp(TimeUnit::Second, Some(zone))) => {
            DataType::Timestamp(*unit, Some(Arc::clone(zone)))
        }
        (DataType::Struct(found), DataType::Struct(written)) => {
            DataType::Struct(zoned_fields(found, written))
        }
        (DataType::List(found), DataType::List(written)) => DataType::List(inner(found, written)),
        (DataType::LargeList(found), DataType::LargeList(written)) => {
            DataType::LargeList(inner(found, written))
        }
        (DataType::FixedSizeList(found, count), DataType::FixedSizeList(written, _)) => {
            DataType::FixedSizeList(inner(found, written), *count)
        }
        (DataType::Map(found, is_sorted), DataType::Map(written, _)) => {
            DataType::Map(inner(found, written), *is_sorted)
        }
        (found, _) => found.clone(),
    }
}

/// Decodes base64 (RFC 4648); `None` if the text is not base64.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut bits_count) = (0u32, 0);
    for unit in text.trim_end_matches('=').bytes() {
        let six = match unit {
            b'A'..=b'Z' => unit - b'A',
            b'a'..=b'z' => unit - b'a' + 26,
            b'0'..=b'9' => unit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        bits_count += 6;
        if bits_count >= 8 {
            bits_count -= 8;
            bytes.push((bits >> bits_count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_back() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmE=", "fooba"),
        ] {
            assert_eq!(
                from_base64(text).as_deref(),
                Some(bytes.as_bytes()),
                "{text}"
            );
        }
        assert_eq!(from_base64("/+8="), Some(vec![0xFF, 0xEF]));
        assert_eq!(from_base64("Z m"), None);
    }

    #[test]
    fn zones_of_seconds_are_taken_from_what_was_written() {
        let seconds = |zone: &str| DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
        let stored = |zone: &str| DataType::Timestamp(TimeUnit::Millisecond, Some(zone.into()));
        assert_eq!(zoned(&stored("UTC"), &seconds("+05:30")), stored("+05:30"));
        let list = |of: DataType| DataType::new_list(of, true);
        assert_eq!(
            zoned(&list(stored("UTC")), &list(seconds("Asia/Tokyo"))),
            list(stored("Asia/Tokyo"))
        );
        assert_eq!(zoned(&stored("UTC"), &DataType::Int64), stored("UTC"));
    }
}
