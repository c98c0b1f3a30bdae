//! Compares two tables.
//!
//! Contract: the naive twin holds both tables in maps from keys to sorted rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{DiffSummary, TableEnds, diff};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, read_parquet, write_parquet};

type Row = (Option<i64>, Option<String>, Option<i64>);

fn table(rows: &[Row]) -> RecordBatch {
    let id: Int64Array = rows.iter().map(|row| row.0).collect();
    let name: StringArray = rows.iter().map(|row| row.1.clone()).collect();
    let price: Int64Array = rows.iter().map(|row| row.2).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(id)),
        ("name", Arc::new(name)),
        ("price", Arc::new(price)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn compared(
    left: &RecordBatch,
    right: &RecordBatch,
    by: &[&str],
    threads: usize,
) -> Result<(DiffSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let [one, other, out] =
        ["one.parquet", "other.parquet", "out.parquet"].map(|name| dir.path().join(name));
    write_parquet(&one, left, 100);
    write_parquet(&other, right, 70);
    let keys: Vec<KeyColumn> = by.iter().map(|name| KeyColumn::new(*name)).collect();
    let reads = InputOptions::default();
    let writes = OutputOptions::new(TableFormat::Parquet);
    let (inputs, right, outputs) = ([one], [other], [out]);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(64 << 20, threads);
    let done = diff(&job, &ends, (&right, &reads), &keys);
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let done = done.inspect_err(|_| assert_eq!(names, 2, "nothing is left"))?;
    assert_eq!(names, 3, "the output, and no scratch");
    // Without an output, the counts are the same.
    let silent = TableEnds {
        outputs: &[],
        ..ends
    };
    let counts = diff(&job, &silent, (&right, &reads), &keys).unwrap();
    assert_eq!(
        (
            counts.left_rows,
            counts.right_rows,
            counts.changed_rows,
            counts.equal_rows
        ),
        (
            done.left_rows,
            done.right_rows,
            done.changed_rows,
            done.equal_rows
        )
    );
    Ok((done, read_parquet(&outputs[0])))
}

/// A row of differences: kind, columns, key, both names, both prices.
type Told = (
    String,
    Option<String>,
    Option<i64>,
    [Option<String>; 2],
    [Option<i64>; 2],
);

fn told(batch: &RecordBatch) -> Vec<Told> {
    let text = |column: usize, row: usize| {
        let column = batch.column(column).as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let number = |column: usize, row: usize| {
        let column = batch.column(column).as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    (0..batch.num_rows())
        .map(|row| {
            let kind = text(0, row).unwrap();
            (
                kind,
                text(1, row),
                number(2, row),
                [text(3, row), text(4, row)],
                [number(5, row), number(6, row)],
            )
        })
        .collect()
}

fn rows(draw: &mut Draw, count: usize, keys: usize) -> Vec<Row> {
    (0..count)
        .map(|_| {
            let id = (!draw.one_in(9)).then(|| draw.below(keys) as i64);
            let name = (!draw.one_in(5)).then(|| ["x", "y", ""][draw.below(3)].to_owned());
            (id, name, (!draw.one_in(4)).then(|| draw.below(2) as i64))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_row_is_told_once_as_equal_changed_or_of_one_table(seed in any::<u64>(), count in 0_usize..300) {
        let mut draw = Draw::new(seed);
        let keys = 1 + draw.below(2 * count + 1);
        let mut left = rows(&mut draw, count, keys);
        let mut right = left.clone();
        for row in &mut right {
            if draw.one_in(4) {
                row.2 = Some(7);
            }
        }
        for _ in 0..draw.below(20).min(left.len()) {
            right.swap_remove(draw.below(right.len().max(1)).min(right.len() - 1));
            left.swap(0, draw.below(count));
        }
        let extra = draw.below(10);
        right.extend(rows(&mut draw, extra, keys));
        let (done, out) = compared(&table(&left), &table(&right), &["id"], 1 + draw.below(2)).unwrap();
        let mut wanted: BTreeMap<(bool, Option<i64>), [usize; 2]> = BTreeMap::new();
        for (side, rows) in [&left, &right].into_iter().enumerate() {
            for row in rows {
                wanted.entry((row.0.is_none(), row.0)).or_default()[side] += 1;
            }
        }
        let alone = |side: usize| -> u64 {
            wanted.values().map(|counts| counts[side].saturating_sub(counts[1 - side]) as u64).sum()
        };
        prop_assert_eq!(done.left_rows, alone(0));
        prop_assert_eq!(done.right_rows, alone(1));
        let pairs: u64 = wanted.values().map(|counts| counts[0].min(counts[1]) as u64).sum();
        prop_assert_eq!(done.changed_rows + done.equal_rows, pairs);
        prop_assert_eq!(done.table.rows_out, done.differences());
        let told = told(&out);
        prop_assert_eq!(told.len() as u64, done.differences());
        // The differences turn the left table into the right one.
        let mut turned: Vec<Row> = left.clone();
        for (kind, columns, id, names, prices) in told {
            let [old, new] = [0, 1].map(|side| (id, names[side].clone(), prices[side]));
            if kind != "right" {
                let place = turned.iter().position(|row| *row == old);
                turned.swap_remove(place.unwrap());
            }
            if kind != "left" {
                turned.push(new.clone());
            }
            let differ = [(old.1 != new.1, "name"), (old.2 != new.2, "price")];
            let differ: Vec<&str> = differ.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
            let is_changed = kind == "changed";
            prop_assert_eq!(columns, is_changed.then(|| differ.join(",")));
        }
        turned.sort();
        right.sort();
        prop_assert_eq!(turned, right);
    }
}

#[test]
fn tables_of_other_columns_are_not_compared_and_whole_rows_are_without_a_key() {
    let one = table(&[
        (Some(1), None, Some(2)),
        (Some(1), None, Some(2)),
        (None, None, None),
    ]);
    let other = one.project(&[0, 1]).unwrap();
    let error = compared(&one, &other, &["id"], 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.cause().contains("price"), "{error}");
    let less = one.slice(1, 2);
    let (done, out) = compared(&one, &less, &[], 2).unwrap();
    assert_eq!(
        (
            done.left_rows,
            done.right_rows,
            done.changed_rows,
            done.equal_rows
        ),
        (1, 0, 0, 2)
    );
    assert_eq!(out.num_columns(), 5);
}

#[test]
fn csv_of_differences_has_lists_as_texts_of_json() {
    let with_tags = |prices: [i64; 3]| {
        let mut tags =
            arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
        tags.append_value([Some("a"), None]);
        tags.append_null();
        tags.append_value([Some("b\"")]);
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
            ("price", Arc::new(Int64Array::from(prices.to_vec()))),
            ("tags", Arc::new(tags.finish())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let [one, other, out] = ["1.parquet", "2.parquet", "out.csv"].map(|name| dir.path().join(name));
    write_parquet(&one, &with_tags([5, 5, 5]), 100);
    write_parquet(&other, &with_tags([6, 5, 7]), 100);
    let reads = InputOptions::default();
    let ends = TableEnds {
        inputs: &[one],
        reads: &reads,
        outputs: std::slice::from_ref(&out),
        writes: &OutputOptions::new(TableFormat::Csv),
    };
    let job = common::job(64 << 20, 2);
    let done = diff(&job, &ends, (&[other], &reads), &[KeyColumn::new("id")]).unwrap();
    assert_eq!(done.changed_rows, 2);
    let written = std::fs::read_to_string(out).unwrap();
    let expected = r#"diff,diff_columns,id,price_left,price_right,tags_left,tags_right
changed,price,1,5,6,"[""a"",null]","[""a"",null]"
changed,price,3,5,7,"[""b\""""]","[""b\""""]"
"#;
    assert_eq!(written, expected);
}
