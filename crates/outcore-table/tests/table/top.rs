//! The first rows by columns.
//!
//! Contract: [`top`] writes the first rows of a stable sort of the whole table, for any memory,
//! threads and order of the input. The twin is a Rust sort of rows with their places.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_ord::sort::SortOptions;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take_record_batch;
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableEnds, TableSummary, top};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};

/// Returns the first rows of `table` by `keys`, from a file with row groups of `group_rows`; checks
/// that no other file remains.
fn first(
    table: &RecordBatch,
    group_rows: usize,
    (keys, wanted): (&[KeyColumn], u64),
    (memory_bytes, threads): (u64, usize),
) -> Result<(TableSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("in.parquet")];
    let outputs = [dir.path().join("out.parquet")];
    write_parquet(&inputs[0], table, group_rows);
    let job = common::job(memory_bytes, threads);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    let done = top(&job, &ends, keys, wanted);
    assert_eq!(job.budget.used_bytes(), 0);
    let mut names: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    match done {
        Ok(summary) => {
            assert_eq!(names, [&inputs[..], &outputs[..]].concat());
            Ok((summary, read_parquet(&outputs[0])))
        }
        Err(error) => {
            assert_eq!(names, inputs, "nothing is left");
            Err(error)
        }
    }
}

fn naive(table: &RecordBatch, keys: &[KeyColumn], wanted: u64) -> RecordBatch {
    let compare = |key: &KeyColumn| -> DynComparator {
        let column = &common::as_key(table.column_by_name(&key.name).unwrap());
        let options = SortOptions {
            descending: key.is_descending,
            nulls_first: key.is_nulls_first,
        };
        make_comparator(column, column, options).unwrap()
    };
    let compare: Vec<DynComparator> = keys.iter().map(compare).collect();
    let mut places: Vec<usize> = (0..table.num_rows()).collect();
    places.sort_by(|&one, &other| {
        let orders = compare.iter().map(|compare| compare(one, other));
        orders.fold(Ordering::Equal, Ordering::then)
    });
    places.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    let places = UInt32Array::from_iter_values(places.iter().map(|&place| place as u32));
    take_record_batch(table, &places).unwrap()
}

/// Rows with a `number` that is a function of their place, and some text.
fn table(rows: usize, number: impl Fn(usize) -> Option<i64>) -> RecordBatch {
    let mut draw = Draw::new(rows as u64);
    let text: StringArray = (0..rows)
        .map(|_| Some("x".repeat(60 + draw.below(60)) + &draw.word().to_string()))
        .collect();
    let number: Int64Array = (0..rows).map(number).collect();
    let place = Int64Array::from_iter_values(0..rows as i64);
    let schema = Schema::new(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("number", DataType::Int64, true),
        Field::new("place", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(text), Arc::new(number), Arc::new(place)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn scrambled(row: usize) -> i64 {
    ((row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as i64
}

#[test]
fn the_first_rows_are_those_of_a_stable_sort_whatever_the_memory_and_threads() {
    let many_equal = table(60_000, |row| (row % 11 > 0).then(|| scrambled(row) % 50));
    let keys = [KeyColumn::new("number").descending().nulls_first()];
    for wanted in [0, 1, 10, 5_000, 30_000, 60_000, 1 << 40] {
        let expected = naive(&many_equal, &keys, wanted);
        for (memory_bytes, threads) in [(12 << 20, 1), (16 << 20, 3), (256 << 20, 2)] {
            let limits = (memory_bytes, threads);
            let (summary, out) = first(&many_equal, 5_000, (&keys, wanted), limits).unwrap();
            assert!(
                out.columns() == expected.columns(),
                "{wanted} in {limits:?}"
            );
            assert_eq!(summary.rows_in, 60_000);
            assert_eq!(summary.rows_out, expected.num_rows() as u64);
        }
    }
}

#[test]
fn few_rows_of_many_in_any_order_are_sorted_without_scratch() {
    let large = table(200_000, |row| Some(scrambled(row)));
    let keys = [KeyColumn::new("number")];
    let limits = (14 << 20, 2);
    let (summary, out) = first(&large, 10_000, (&keys, 100), limits).unwrap();
    assert!(out.columns() == naive(&large, &keys, 100).columns());
    assert_eq!(summary.scratch_bytes, 0);
}

#[test]
fn rows_in_the_opposite_order_go_through_scratch() {
    let opposite = table(200_000, |row| Some(-(row as i64)));
    let keys = [KeyColumn::new("number")];
    let limits = (14 << 20, 1);
    let (summary, out) = first(&opposite, 10_000, (&keys, 1_000), limits).unwrap();
    assert!(out.columns() == naive(&opposite, &keys, 1_000).columns());
    assert!(summary.scratch_bytes > 0, "all of them were sorted");
}

#[test]
fn keys_that_take_too_much_memory_are_no_longer_kept() {
    let long = table(100_000, |row| Some(row as i64));
    let keys = [KeyColumn::new("text")];
    let limits = (14 << 20, 2);
    let (_, out) = first(&long, 5_000, (&keys, 40_000), limits).unwrap();
    assert!(out.columns() == naive(&long, &keys, 40_000).columns());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_first_rows_of_any_schema_are_those_of_a_stable_sort(
        seed in any::<u64>(), rows in 0usize..400, wanted in 0u64..450, threads in 1usize..4,
    ) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        let batch = common::batch(&mut draw, &schema, rows);
        let keys: Vec<KeyColumn> = schema.fields().iter().map(|field| KeyColumn {
            is_descending: draw.one_in(2),
            is_nulls_first: draw.one_in(2),
            ..KeyColumn::new(field.name())
        }).collect();
        let group_rows = 1 + draw.below(200);
        match first(&batch, group_rows, (&keys, wanted), (256 << 20, threads)) {
            Ok((summary, out)) => {
                prop_assert_eq!(summary.rows_out, wanted.min(rows as u64));
                // Nested columns have an order of their own; the twin only has the order of plain
                // columns.
                let is_nested = |field: &Arc<Field>| field.data_type().is_nested()
                    || matches!(field.data_type(), DataType::Dictionary(..));
                if !schema.fields().iter().any(is_nested) {
                    let expected = naive(&batch, &keys, wanted);
                    prop_assert!(out.columns() == expected.columns());
                }
            }
            // Some types have no order.
            Err(error) => prop_assert_eq!(error.kind(), Kind::Usage, "{}", error),
        }
    }
}

#[test]
fn what_is_asked_for_in_vain_is_named_and_nothing_is_left() {
    let small = table(100, |row| Some(row as i64));
    let fail = |keys: &[KeyColumn]| first(&small, 50, (keys, 5), (64 << 20, 2)).unwrap_err();
    assert_eq!(fail(&[]).kind(), Kind::Usage);
    let error = fail(&[KeyColumn::new("numbr")]);
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("`number`"), "{error}");
}
