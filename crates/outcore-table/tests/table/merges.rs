//! Merges of sorted tables, and counts of values.
//!
//! Contract: a merge has the result of a stable sort of all rows with the library's comparison;
//! counts are those of a map.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::Field;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableEnds, TableOrder, TableSummary, count_by, merge};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};
use crate::views::keys_of;

/// Returns the rows in the order of the first columns; ties keep their order.
fn sorted(batch: &RecordBatch, keys: &[KeyColumn]) -> RecordBatch {
    let rows = keys_of(batch, keys);
    let mut places: Vec<u32> = (0..batch.num_rows() as u32).collect();
    places.sort_by(|&one, &other| rows.row(one as usize).cmp(&rows.row(other as usize)));
    take_record_batch(batch, &UInt32Array::from(places)).unwrap()
}

fn merged(
    batches: &[RecordBatch],
    keys: &[KeyColumn],
    (memory_bytes, threads): (u64, usize),
    group_rows: usize,
) -> Result<(TableSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let name = |number: usize| dir.path().join(format!("{number:02}.parquet"));
    let inputs: Vec<PathBuf> = (0..batches.len()).map(name).collect();
    for (path, batch) in inputs.iter().zip(batches) {
        write_parquet(path, batch, group_rows);
    }
    let outputs = [dir.path().join("out.parquet")];
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    let order = TableOrder {
        keys: keys.to_vec(),
        ..TableOrder::default()
    };
    let job = common::job(memory_bytes, threads);
    let done = merge(&job, &ends, &order);
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let done = done.inspect_err(|_| assert_eq!(names, inputs.len(), "nothing is left"))?;
    let out = read_parquet(&outputs[0]);
    Ok((done, out))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("OUTCORE_TABLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
    ))]
    #[test]
    fn a_merge_is_what_a_stable_sort_of_all_rows_gives(seed in any::<u64>(), files in 1_usize..6, rows in 0_usize..300) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        // The library distinguishes zeros and NaNs that are equal in a sort.
        let is_plain = |field: &&Arc<Field>| !field.data_type().is_nested() && !field.data_type().is_floating();
        let mut keys: Vec<KeyColumn> = schema.fields().iter().filter(is_plain).take(2).map(|field| {
            let key = KeyColumn::new(field.name());
            if draw.one_in(2) { key.descending() } else { key }
        }).collect();
        if draw.one_in(2) {
            keys.truncate(1);
        }
        if keys.is_empty() || draw.one_in(2) {
            // Few values, so that many rows are equal.
            keys.insert(0, KeyColumn::new("k"));
        }
        let each: Vec<RecordBatch> = (0..files)
            .map(|_| {
                let rows = draw.below(rows + 1);
                sorted(&common::in_groups(&mut draw, &schema, rows), &keys)
            })
            .collect();
        let all = concat_batches(&each[0].schema(), &each).unwrap();
        let wanted = sorted(&all, &keys);
        let limits = (256 << 20, 1 + draw.below(3));
        let group_rows = 1 + draw.below(200);
        let (done, out) = merged(&each, &keys, limits, group_rows).unwrap();
        prop_assert_eq!(done.rows_out as usize, wanted.num_rows());
        prop_assert_eq!(done.scratch_bytes, 0);
        prop_assert_eq!(out.num_columns(), wanted.num_columns());
        for (place, column) in wanted.columns().iter().enumerate() {
            // Dictionaries without a value are not restored.
            let is_same = out.column(place) == column || column.is_empty();
            prop_assert!(is_same, "column {} of {:?}", place, column.data_type());
        }
    }
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

#[test]
fn files_that_overlap_or_follow_each_other_are_merged_in_little_memory() {
    let keys = [KeyColumn::new("n")];
    let far = [
        numbers(0..50_000),
        numbers(100_000..150_000),
        numbers(50_000..100_000),
    ];
    let near = [
        numbers((0..90_000).step_by(3)),
        numbers((1..90_000).step_by(3)),
        numbers((2..90_000).step_by(3)),
    ];
    for (files, count) in [(&far, 150_000), (&near, 90_000)] {
        let (done, out) = merged(files, &keys, (24 << 20, 2), 7_000).unwrap();
        assert_eq!(done.rows_in, count as u64);
        let values = out.column(0).as_primitive::<Int64Type>().values();
        assert!(values.iter().copied().eq(0..count));
    }
}

#[test]
fn a_file_that_is_not_in_order_is_named_with_its_row_and_too_many_files_with_what_they_need() {
    let keys = [KeyColumn::new("n")];
    let wrong = numbers((0..5_000).chain([4_998]).chain(6_000..7_000));
    let error = merged(&[numbers(0..9_000), wrong], &keys, (64 << 20, 2), 1_000).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(
        error.file_path().unwrap().ends_with("01.parquet"),
        "{error}"
    );
    assert!(
        error
            .cause()
            .contains("row 5,001 comes before row 5,000 in the order of n"),
        "{error}"
    );
    let many: Vec<RecordBatch> = (0..40).map(|_| numbers(0..200_000)).collect();
    let error = merged(&many, &keys, (16 << 20, 2), 200_000).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    assert!(error.cause().contains("reading 40 files"), "{error}");
}

#[test]
fn values_are_counted_in_their_order_or_by_their_counts() {
    let mut draw = Draw::new(3);
    let names: Vec<Option<String>> = (0..20_000)
        .map(|_| {
            (!draw.one_in(50)).then(|| {
                let most = 1 + draw.below(400);
                format!("v{}", draw.below(most))
            })
        })
        .collect();
    let column: ArrayRef = Arc::new(StringArray::from(names.clone()));
    let batch = RecordBatch::try_from_iter_with_nullable([("name", column, true)]).unwrap();
    let mut wanted: BTreeMap<(bool, Option<String>), i64> = BTreeMap::new();
    for name in names {
        *wanted.entry((name.is_none(), name)).or_default() += 1;
    }
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("t.parquet")];
    write_parquet(&inputs[0], &batch, 3_000);
    for is_by_count in [false, true] {
        let outputs = [dir.path().join(format!("{is_by_count}.parquet"))];
        let ends = TableEnds {
            inputs: &inputs,
            reads: &InputOptions::default(),
            outputs: &outputs,
            writes: &OutputOptions::new(TableFormat::Parquet),
        };
        let job = common::job(64 << 20, 2);
        let done = count_by(&job, &ends, &[KeyColumn::new("name")], is_by_count).unwrap();
        assert_eq!((done.rows_in, done.rows_out), (20_000, wanted.len() as u64));
        let mut rows: Vec<(Option<String>, i64)> = wanted
            .iter()
            .map(|((_, name), count)| (name.clone(), *count))
            .collect();
        if is_by_count {
            rows.sort_by_key(|(_, count)| -count);
        }
        let out = read_parquet(&outputs[0]);
        let names = out.column(0).as_string::<i32>().iter();
        let counts = out.column(1).as_primitive::<Int64Type>().values().iter();
        let got: Vec<(Option<String>, i64)> = names
            .map(|name| name.map(str::to_owned))
            .zip(counts.copied())
            .collect();
        assert_eq!(got, rows);
        assert_eq!(job.budget.used_bytes(), 0);
    }
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        3,
        "no scratch is left"
    );
}
