//! Verification of tables.
//!
//! Contract: order and rows of small tables are known. A changed row is detected, whatever its
//! type.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, MapFieldNames, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal64Array, Decimal128Array, Decimal256Array, DictionaryArray, Int64Array,
    LargeListArray, LargeStringArray, ListArray, RecordBatch, RunArray, UInt32Array,
};
use arrow_buffer::{NullBuffer, i256};
use arrow_ipc::writer::FileWriter;
use arrow_select::take::take_record_batch;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableCheck, verify};
use outcore_table::rows::KeyColumn;

use crate::common::{self, Draw, Kinds, write_parquet};

/// The properties of a table, and those of the table that it is compared with.
type Checks = (TableCheck, Option<TableCheck>);

fn check(
    batch: &RecordBatch,
    other: Option<&RecordBatch>,
    keys: &[&str],
) -> outcore::Result<Checks> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let inputs = [path("one.parquet")];
    write_parquet(&inputs[0], batch, 7);
    let others: Vec<PathBuf> = other.iter().map(|_| path("two.parquet")).collect();
    if let Some(other) = other {
        write_parquet(&others[0], other, 1_000);
    }
    let keys: Vec<KeyColumn> = keys
        .iter()
        .map(|key| KeyColumn::parse(key).unwrap())
        .collect();
    let job = common::job(256 << 20, 2);
    let against = other.map(|_| &others[..]);
    let found = verify(&job, (&inputs, &InputOptions::default()), &keys, against);
    assert_eq!(job.budget.used_bytes(), 0);
    found
}

fn ids(values: &[i64]) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("id", array)]).unwrap()
}

#[test]
fn the_first_row_out_of_order_is_found_within_and_between_row_groups() {
    let sorted: Vec<i64> = (0..50).map(|row| row / 3).collect();
    let (found, _) = check(&ids(&sorted), None, &["id"]).unwrap();
    assert_eq!(
        (found.rows, found.first_unordered, found.equal_keys),
        (50, None, 33)
    );
    for place in [1, 6, 7, 8, 14, 49] {
        let mut values = sorted.clone();
        values[place] = -1;
        let (found, _) = check(&ids(&values), None, &["id"]).unwrap();
        assert_eq!(found.first_unordered, Some(place as u64));
        let descending = check(&ids(&values), None, &["id:desc"]).unwrap().0;
        assert!(descending.first_unordered.is_some());
    }
    let (found, _) = check(&ids(&[3, 1, 2]), None, &[]).unwrap();
    assert_eq!(found.first_unordered, None);
    let (found, _) = check(&ids(&[]), None, &["id"]).unwrap();
    assert_eq!(
        found,
        TableCheck {
            read_bytes: found.read_bytes,
            ..TableCheck::default()
        }
    );
}

#[test]
fn rows_in_another_order_are_the_same_and_a_changed_one_is_noticed() {
    for seed in 0..12 {
        let draw = &mut Draw::new(seed);
        let schema = common::schema(draw, 6, Kinds::Parquet);
        let batch = common::batch(draw, &schema, 60);
        let mut order: Vec<u32> = (0..60).collect();
        (1..60).for_each(|place| order.swap(place, draw.below(place + 1)));
        let taken =
            |order: &[u32]| take_record_batch(&batch, &UInt32Array::from(order.to_vec())).unwrap();
        let (one, two) = check(&batch, Some(&taken(&order)), &[]).unwrap();
        let two = two.unwrap();
        assert_eq!(
            (one.rows, one.checksum),
            (two.rows, two.checksum),
            "{schema:?}"
        );
        order[0] = order[1];
        let (one, two) = check(&batch, Some(&taken(&order)), &[]).unwrap();
        let same = batch.slice(0, 1) == batch.slice(1, 1);
        let is_same = one.checksum == two.unwrap().checksum;
        let distinct =
            (0..60).all(|row| (0..row).all(|other| batch.slice(row, 1) != batch.slice(other, 1)));
        assert!(!distinct || same || !is_same, "{schema:?}");
    }
}

#[test]
fn the_checksum_does_not_depend_on_the_columns_that_order_is_looked_for_by() {
    for seed in 0..12 {
        let draw = &mut Draw::new(seed);
        let schema = common::schema(draw, 6, Kinds::Parquet);
        let batch = common::batch(draw, &schema, 60);
        let whole = check(&batch, None, &[]).unwrap().0.checksum;
        for field in schema.fields() {
            // Not every type has an order.
            if let Ok((found, _)) = check(&batch, None, &[field.name()]) {
                assert_eq!(found.checksum, whole, "{field:?}");
            }
        }
    }
}

/// Checks that two columns, written as Arrow files, are the same table.
#[track_caller]
fn check_same(one: ArrayRef, other: ArrayRef) {
    let dir = tempfile::tempdir().unwrap();
    let paths = [one, other].map(|array| {
        let batch = RecordBatch::try_from_iter_with_nullable([("v", array, true)]).unwrap();
        let name = format!("{}.arrow", batch.column(0).data_type());
        let path = dir
            .path()
            .join(name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        path
    });
    let job = common::job(256 << 20, 2);
    let reads = InputOptions::default();
    let against = Some(&paths[1..]);
    let (one, other) = verify(&job, (&paths[..1], &reads), &[], against).unwrap();
    assert_eq!(one.checksum, other.unwrap().checksum, "{paths:?}");
    assert!(one.checksum > 0);
}

#[test]
fn columns_are_compared_by_value_whatever_their_layout() {
    let values = ["a", "a", "b"];
    let texts: ArrayRef = Arc::new(LargeStringArray::from(values.to_vec()));
    let runs: RunArray<Int32Type> = values.into_iter().collect();
    check_same(Arc::clone(&texts), Arc::new(runs));
    let lists = || vec![Some(vec![Some(1), None]), None, Some(vec![])];
    let small = ListArray::from_iter_primitive::<Int32Type, _, _>(lists());
    let large = LargeListArray::from_iter_primitive::<Int32Type, _, _>(lists());
    check_same(Arc::new(small), Arc::new(large));
    let narrow = Decimal64Array::from(vec![Some(150), None, Some(-3)]);
    let wide = Decimal128Array::from(vec![Some(150), None, Some(-3)]);
    check_same(
        Arc::new(narrow.with_precision_and_scale(10, 2).unwrap()),
        Arc::new(wide.with_precision_and_scale(10, 2).unwrap()),
    );
    // A null may hide a value that no narrower decimal holds.
    let large = Decimal256Array::from(vec![Some(i256::MAX), Some(i256::ONE)]);
    let hidden = NullBuffer::from(vec![false, true]);
    let large = Decimal256Array::new(large.values().clone(), Some(hidden));
    let large: ArrayRef = Arc::new(large.with_precision_and_scale(10, 2).unwrap());
    check_same(Arc::clone(&large), large);
}

/// A column of one map per row, whose entries have these names.
fn maps(key: &str, value: &str) -> ArrayRef {
    let names = MapFieldNames {
        entry: "entries".to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let mut maps = MapBuilder::new(Some(names), StringBuilder::new(), Int64Builder::new());
    for (word, number) in [("a", 1), ("b", 2), ("c", 3)] {
        maps.keys().append_value(word);
        maps.values().append_value(number);
        maps.append(true).unwrap();
    }
    Arc::new(maps.finish())
}

#[test]
fn the_names_of_entries_of_maps_do_not_count() {
    check_same(maps("key", "value"), maps("keys", "values"));
}

#[test]
fn the_order_of_columns_does_not_count() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let others: ArrayRef = Arc::new(Int64Array::from(vec![4, 5, 6]));
    let columns = [("a", &numbers), ("b", &others)];
    let batch = |columns: [(&'static str, &ArrayRef); 2]| {
        RecordBatch::try_from_iter(columns.map(|(name, array)| (name, Arc::clone(array)))).unwrap()
    };
    let [first, second] = columns;
    let sum = |batch: &RecordBatch| check(batch, None, &[]).unwrap().0.checksum;
    assert_eq!(sum(&batch([first, second])), sum(&batch([second, first])));
    let exchanged = [("a", &others), ("b", &numbers)];
    assert_ne!(sum(&batch(columns)), sum(&batch(exchanged)));
}

#[test]
fn texts_are_compared_by_value_and_other_columns_are_told() {
    let plain: ArrayRef = Arc::new(LargeStringArray::from(vec!["a", "b", "a"]));
    let coded: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter(["a", "a", "b"]));
    let one = RecordBatch::try_from_iter([("t", plain)]).unwrap();
    let two = RecordBatch::try_from_iter([("t", coded)]).unwrap();
    let (one_check, two_check) = check(&one, Some(&two), &["t"]).unwrap();
    assert_eq!(one_check.checksum, two_check.as_ref().unwrap().checksum);
    assert_eq!(
        (
            one_check.first_unordered,
            two_check.unwrap().first_unordered
        ),
        (Some(2), None)
    );
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let three = RecordBatch::try_from_iter([("t", Arc::clone(&number))]).unwrap();
    let error = check(&one, Some(&three), &[]).unwrap_err().to_string();
    assert!(error.contains("`t`") && error.contains("i64"), "{error}");
    let four = RecordBatch::try_from_iter([("t", one.column(0).clone()), ("u", number)]).unwrap();
    let error = check(&one, Some(&four), &[]).unwrap_err().to_string();
    assert!(error.contains("`u`"), "{error}");
    let error = check(&four, Some(&one), &[]).unwrap_err().to_string();
    assert!(error.contains("`u`"), "{error}");
}
