//! Splits a table into directories, one per value of its key columns.
//!
//! Contract: rows with equal key columns go to one file, `DIR/country=de/day=7/part-0.parquet`, in
//! the order of the input. The key columns are not in the files, except for objects with fields
//! that are keys. Readers take the key columns from the directory names ([`hive`](crate::input)): a
//! null is `__HIVE_DEFAULT_PARTITION__`, a time with a zone is in UTC, and bytes that names cannot
//! hold are written as `%xx`. All files appear together, or none does.
//!
//! There are two passes. The first reads only the key columns, and counts the rows of each key. The
//! second sorts rows by the key into files whose lengths are those counts. So only one file is
//! written at a time, and memory does not grow with the number of files.
//!
//! Bounds: as [`sort`](fn@super::sort), and a read of the key columns; [`PARTITIONS_MAX`]
//! directories.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use arrow_array::{Array, RecordBatch, cast::AsArray, types::Int64Type};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore_io::{Error, Result};

use super::group::few_groups;
use super::journal::scratch_dir;
use super::rows_in::RowKeys;
use super::sort::{Rows, open};
use super::{TableEnds, TableSummary};
use crate::equal::plain_type;
use crate::fault;
use crate::input::MISSING_PARTITION;
use crate::notation::notation;
use crate::output::{FileRows, OutputOptions, shown};
use crate::rows::{KeyColumn, RowCodec};
use crate::schema::FieldPlace;

const PARTITION: &str = "partition a table";
/// The longest file name on Linux file systems.
const NAME_BYTES_MAX: usize = 255;
/// The most directories: their files stay open until all appear together.
const PARTITIONS_MAX: usize = 10_000;

/// Splits a table by the values of columns into directories below `dir`, which is created if it is
/// missing. Each directory gets a file named `file`. Returns the paths as well. The outputs of
/// `ends` are ignored.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: a key of floats, bytes or nested values; no other column; too
/// many values.
pub fn partition(
    job: &Job,
    ends: &TableEnds<'_>,
    keys: &[String],
    dir: &Path,
    file: &str,
) -> Result<(TableSummary, Vec<PathBuf>)> {
    let input = open(job, ends)?;
    let schema = input.schema();
    let mut places = Vec::with_capacity(keys.len());
    for name in keys {
        let place = FieldPlace::of(schema, name, PARTITION)?;
        let data_type = plain_type(place.field(schema, name).data_type());
        let is_binary = matches!(
            data_type,
            DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
        );
        let is_nameless = data_type.is_floating() || data_type.is_nested() || is_binary;
        if is_nameless || data_type == DataType::Null {
            let cause = format!(
                "column `{name}` is {}, whose values cannot be names of directories",
                notation(&data_type)
            );
            return Err(
                Error::usage(PARTITION, cause).hint("split by columns of texts, integers or dates")
            );
        }
        places.extend(place.column());
    }
    let kept: Vec<usize> = (0..schema.fields().len())
        .filter(|place| !places.contains(place))
        .collect();
    if kept.is_empty() {
        return Err(
            Error::usage(PARTITION, "no column would be left for the files")
                .hint("leave a column out of the key"),
        );
    }
    let keys: Vec<KeyColumn> = keys.iter().map(KeyColumn::new).collect();
    let beside = scratch_dir(&[dir.join(file)]);
    let groups = few_groups(job, &input, (&keys, PARTITIONS_MAX), &beside)?;
    let mut paths = Vec::new();
    let mut ends_at = Vec::new();
    let mut rows = 0;
    for batch in &groups {
        let counts = batch.column(keys.len()).as_primitive::<Int64Type>();
        for (group, &count) in counts.values().iter().enumerate() {
            rows += count as u64;
            ends_at.push(rows);
            paths.push(dir.join(directory_of(batch, group, &keys)?).join(file));
        }
    }
    if paths.is_empty() {
        return Err(
            Error::usage(PARTITION, "the table has no rows, so there is no directory")
                .hint("copy it with outcore convert"),
        );
    }
    let mut known = HashSet::new();
    if let Some(twice) = paths.iter().find(|path| !known.insert(*path)) {
        let cause = "a null and a text would share a directory";
        return Err(Error::usage(PARTITION, cause)
            .path(twice)
            .hint("change the text: the same text marks nulls in names of directories"));
    }
    let writes = OutputOptions {
        files: FileRows::Ends(ends_at),
        directory: Some(dir.to_path_buf()),
        ..ends.writes.clone()
    };
    let codec = RowCodec::new(schema, &keys)?;
    let sorted = Rows {
        input: &input,
        codec: &codec,
        keys: RowKeys::Columns,
        tie: Tie::Position,
        is_unique: false,
        first: None,
        columns: Some(&kept),
    };
    let done = sorted.run(job, &paths, &writes, None)?;
    Ok((done, paths))
}

/// Returns the directory of a group, relative to `dir`.
fn directory_of(groups: &RecordBatch, group: usize, keys: &[KeyColumn]) -> Result<PathBuf> {
    let mut path = PathBuf::new();
    let schema = groups.schema();
    let fields = schema.fields().iter().zip(groups.columns());
    for (key, (field, column)) in keys.iter().zip(fields) {
        let value = match column.is_null(group) {
            true => MISSING_PARTITION.to_owned(),
            false => {
                let options = FormatOptions::default();
                let column = &shown(field, column)?;
                let formatter = ArrayFormatter::try_new(column, &options);
                let text = formatter.and_then(|formatter| formatter.value(group).try_to_string());
                encoded(&text.map_err(|error| fault::arrow(PARTITION, &error))?)
            }
        };
        let name = format!("{}={value}", encoded(&key.name));
        if name.len() > NAME_BYTES_MAX {
            let cause = format!(
                "a value of column `{}` is too long for the name of a directory: {} bytes; at most \
                 {NAME_BYTES_MAX} are possible",
                key.name,
                name.len()
            );
            return Err(Error::usage(PARTITION, cause)
                .hint("split by another column, or by one that outcore map computes from it"));
        }
        path.push(name);
    }
    Ok(path)
}

/// Writes `%xx` for each byte that a name should not hold.
fn encoded(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for unit in text.chars() {
        match unit.is_alphanumeric() || "-_.+ ,:@".contains(unit) {
            true => name.push(unit),
            false => {
                let mut bytes = [0; 4];
                for byte in unit.encode_utf8(&mut bytes).bytes() {
                    name.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    name
}
