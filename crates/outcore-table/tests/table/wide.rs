//! Tables with many columns and little memory.
//!
//! Contract: a row group has as many rows as its share of the memory holds. The library's fixed
//! memory per column must not reduce it to a few rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableEnds, copy};
use outcore_table::output::{OutputOptions, TableFormat};
use parquet::basic::Encoding;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::common::{self, read_parquet, write_parquet};

const COLUMNS: usize = 500;
const ROWS: i64 = 3_000;

#[test]
fn a_wide_table_has_row_groups_of_many_rows_in_little_memory_too() {
    let column = |number: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|row| row * number),
        ))
    };
    let columns = (0..COLUMNS).map(|number| (format!("c{number}"), column(number as i64)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("in.parquet")];
    let outputs = [dir.path().join("out.parquet")];
    write_parquet(&inputs[0], &batch, 1_000);
    let (reads, mut writes) = (
        InputOptions::default(),
        OutputOptions::new(TableFormat::Parquet),
    );
    writes.is_replacing = true;
    let ends = |writes| TableEnds {
        inputs: &inputs,
        reads: &reads,
        outputs: &outputs,
        writes,
    };
    // With room for dictionaries of all columns, and without.
    for (memory_bytes, has_dictionaries) in [(1 << 30, true), (64 << 20, false)] {
        let job = common::job(memory_bytes, 1);
        copy(&job, &ends(&writes)).unwrap();
        assert_eq!(job.budget.used_bytes(), 0);
        let file = SerializedFileReader::new(std::fs::File::open(&outputs[0]).unwrap()).unwrap();
        let groups = file.metadata().row_groups();
        assert_eq!(groups.len(), 1, "in {memory_bytes} bytes");
        let mut encodings = groups[0].column(0).encodings();
        let is_dictionary = encodings.any(|encoding| encoding == Encoding::RLE_DICTIONARY);
        assert_eq!(is_dictionary, has_dictionaries, "in {memory_bytes} bytes");
        assert_eq!(read_parquet(&outputs[0]), batch);
    }
}

#[test]
fn columns_that_fill_one_after_another_have_contexts_of_compression_for_two_of_them_only() {
    const COLUMNS: usize = 300;
    const FILLED: usize = 5;
    const STRETCH_ROWS: usize = 1_500;
    const TEXT_BYTES: usize = 16 << 10;
    let text = "a".repeat(TEXT_BYTES);
    let column = |number: usize| -> ArrayRef {
        let has_text = |row: usize| number < FILLED && row / STRETCH_ROWS == number;
        let rows = 0..FILLED * STRETCH_ROWS;
        Arc::new(StringArray::from_iter(
            rows.map(|row| has_text(row).then_some(&text)),
        ))
    };
    let columns = (0..COLUMNS).map(|number| (format!("c{number}"), column(number), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("in.parquet")];
    let outputs = [dir.path().join("out.parquet")];
    write_parquet(&inputs[0], &batch, 1_000);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    copy(&common::job(64 << 20, 1), &ends).unwrap();
    let file = SerializedFileReader::new(std::fs::File::open(&outputs[0]).unwrap()).unwrap();
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).unwrap();
        let pages = |column: usize| group.get_column_page_reader(column).unwrap().count();
        let ended = (0..COLUMNS).filter(|column| pages(*column) > 1).count();
        assert!(
            ended <= 2,
            "{ended} columns of a row group ended a page before it"
        );
    }
    assert!(file.num_row_groups() > 1);
    assert_eq!(read_parquet(&outputs[0]), batch);
}
