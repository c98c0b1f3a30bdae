//! Zones of times in seconds.
//!
//! Contract: Parquet has no seconds, so writers store milliseconds, and say in the Arrow schema beside them that these were
//! seconds of a zone. The library takes a zone only from a field of the same unit, and gives UTC otherwise.
//! [`with_zones`] puts the zones of that schema in their places, inside of nested columns, too. Anything that cannot be read
//! there makes no difference. Pure.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::FileMetaData;

/// `schema`, which is that of the file, with the zones that its writer named; nothing if there are none to add.
pub(super) fn with_zones(schema: &SchemaRef, file: &FileMetaData) -> Option<SchemaRef> {
    let pairs = file.key_value_metadata()?;
    let stored = pairs.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY);
    let written = try_schema_from_ipc_buffer(&from_base64(stored?.value.as_ref()?)?).ok()?;
    let fields = zoned_fields(schema.fields(), written.fields());
    let is_other = &fields != schema.fields();
    is_other.then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
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

/// The bytes of RFC 4648's base64; nothing if it is something else.
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
