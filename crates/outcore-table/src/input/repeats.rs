//! Finds columns whose values hardly repeat, from the footers of Parquet files.
//!
//! Contract: [`Repeats::see`] takes in a file's statistics about its columns of plain values.
//! [`Repeats::hardly`] says whether a dictionary of a column would take about as much space as its
//! plain values. The evidence is how well dictionaries compressed the column in the files. Two
//! kinds of row groups count: those written with a dictionary, and those that outcore wrote without
//! a dictionary although other columns have one. A row group whose values would not fill a
//! dictionary is no evidence, because its values may repeat in the next one. The answer holds if
//! rows keep their order or are shuffled; a sort may bring equal values together. Pure.
//!
//! N.B. A useless dictionary can take half of the time of writing a table, and makes the file
//! larger (docs/decisions/0021).
//!
//! Complexity: looks once at each column of a row group; about 60 bytes per column.

use std::collections::HashMap;

use parquet::basic::{Encoding, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// A row group with about this many bytes of values fills a dictionary; writers stop at 1 MiB.
const FULL_BYTES: u64 = 7 << 17;
/// A dictionary is useful if it takes less than this share of the plain values.
const USEFUL_PERCENT: u64 = 95;

/// The evidence about columns, by name.
#[derive(Debug, Default)]
pub(super) struct Repeats(HashMap<String, Seen>);

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    values_count: u64,
    /// The number of values in row groups that are evidence, and the encoded and plain sizes of
    /// these values.
    told_count: u64,
    encoded_bytes: u64,
    plain_bytes: u64,
}

impl Repeats {
    /// Takes in a file.
    pub(super) fn see(&mut self, file: &ParquetMetaData) {
        let writer = file.file_metadata().created_by().unwrap_or_default();
        let is_ours = writer.starts_with("outcore ");
        let leaves = file.file_metadata().schema_descr().columns().iter();
        let is_plain = |leaf: &&parquet::schema::types::ColumnDescPtr| {
            leaf.path().parts().len() == 1 && leaf.max_rep_level() == 0
        };
        for (place, leaf) in leaves.enumerate().filter(|(_, leaf)| is_plain(leaf)) {
            let seen = self.0.entry(leaf.name().to_owned()).or_default();
            for group in file.row_groups() {
                let is_left_out = is_ours && group.columns().iter().any(has_dictionary);
                seen.see(group.column(place), is_left_out);
            }
        }
    }

    /// Whether the values of a column hardly repeat.
    pub(super) fn hardly(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|seen| {
            let is_told = seen.told_count > 0 && seen.told_count * 2 >= seen.values_count;
            is_told && seen.encoded_bytes * 100 >= seen.plain_bytes * USEFUL_PERCENT
        })
    }
}

impl Seen {
    /// `is_left_out` means that a column without a dictionary has none because it would be useless.
    fn see(&mut self, column: &ColumnChunkMetaData, is_left_out: bool) {
        let size = |number: i64| u64::try_from(number).unwrap_or(0);
        let nulls_count = column.statistics().and_then(|told| told.null_count_opt());
        let values_count = size(column.num_values()).saturating_sub(nulls_count.unwrap_or(0));
        self.values_count += values_count;
        let value_bytes = match column.column_type() {
            Type::INT32 | Type::FLOAT => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => size(column.column_descr().type_length().into()),
            // Each value has a length of 4 bytes before it.
            Type::BYTE_ARRAY => 4,
            Type::BOOLEAN => return,
        };
        let text_bytes = match (
            column.column_type(),
            column.unencoded_byte_array_data_bytes(),
        ) {
            (Type::BYTE_ARRAY, None) => return,
            (_, text_bytes) => text_bytes.map_or(0, size),
        };
        let plain_bytes = values_count
            .saturating_mul(value_bytes)
            .saturating_add(text_bytes);
        let encoded_bytes = match has_dictionary(column) {
            true => size(column.uncompressed_size()),
            false if is_left_out => plain_bytes,
            false => return,
        };
        if plain_bytes >= FULL_BYTES {
            self.told_count += values_count;
            self.encoded_bytes = self.encoded_bytes.saturating_add(encoded_bytes);
            self.plain_bytes = self.plain_bytes.saturating_add(plain_bytes);
        }
    }
}

fn has_dictionary(column: &ColumnChunkMetaData) -> bool {
    let mut encodings = column.encodings();
    encodings.any(|encoding| {
        matches!(
            encoding,
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
        )
    })
}
