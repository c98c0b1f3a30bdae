//! Tables in directories.
//!
//! Contract: the directories, read back as one table, have the rows of the input; rows of one
//! directory keep their order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, UInt64Array,
};
use outcore::{Kind, Result};
use outcore_table::input::{InputOptions, TableInput};
use outcore_table::jobs::{TableEnds, partition};
use outcore_table::output::{OutputOptions, TableFormat};

use crate::common::{self, Draw, write_parquet};

const VALUES: [&str; 6] = ["de", "a/b", "100%", "", "Straße", ".."];

fn visits(rows: usize) -> RecordBatch {
    let draw = &mut Draw::new(5);
    let place: StringArray = (0..rows)
        .map(|_| (!draw.one_in(9)).then(|| VALUES[draw.below(VALUES.len())]))
        .collect();
    let day: Date32Array = (0..rows).map(|_| Some(draw.below(3) as i32)).collect();
    let id = Int64Array::from_iter_values(0..rows as i64);
    let weight = Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0));
    let columns: [(&str, ArrayRef); 4] = [
        ("place", Arc::new(place)),
        ("id", Arc::new(id)),
        ("day", Arc::new(day)),
        ("weight", Arc::new(weight)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// Splits `batch` into `dir`, and returns its files.
fn split(
    dir: &tempfile::TempDir,
    batch: &RecordBatch,
    (memory_bytes, threads): (u64, usize),
    keys: &[&str],
) -> Result<Vec<PathBuf>> {
    let inputs = [dir.path().join("in.parquet")];
    write_parquet(&inputs[0], batch, 500);
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &[],
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    let job = common::job(memory_bytes, threads);
    let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let done = partition(&job, &ends, &keys, &out, "part-0.parquet");
    assert_eq!(job.budget.used_bytes(), 0);
    let names = || std::fs::read_dir(&out).unwrap().count();
    let (summary, paths) = done.inspect_err(|_| assert_eq!(names(), 0, "nothing is left"))?;
    assert_eq!(summary.rows_out, batch.num_rows() as u64);
    Ok(paths)
}

#[test]
fn directories_hold_the_rows_of_their_values_in_order() {
    let batch = visits(4_000);
    for (memory_bytes, threads) in [(24 << 20, 1), (256 << 20, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let paths = split(&dir, &batch, (memory_bytes, threads), &["place", "day"]).unwrap();
        // Each value, and null, on each of three days.
        assert_eq!(paths.len(), (VALUES.len() + 1) * 3);
        assert!(paths.iter().all(|path| path.is_file()));
        let job = common::job(64 << 20, 1);
        let read = [dir.path().join("out")];
        let input = TableInput::open(&job, &read, &InputOptions::default()).unwrap();
        let names: Vec<String> = input
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        assert_eq!(names, ["id", "weight", "place", "day"]);
        let mut found: BTreeMap<(Option<String>, String), Vec<i64>> = BTreeMap::new();
        let mut reader = input.reader(32 << 20).unwrap();
        for &piece in input.pieces() {
            for part in reader.open(piece).unwrap() {
                let part = part.unwrap();
                let (place, day) = (part.column(2).as_string::<i32>(), part.column(3));
                let day = day.as_primitive::<Date32Type>();
                for row in 0..part.num_rows() {
                    let place = place.is_valid(row).then(|| place.value(row).to_owned());
                    let day = format!("1970-01-0{}", day.value(row) + 1);
                    let key = (place, day);
                    let id = part.column(0).as_primitive::<Int64Type>().value(row);
                    found.entry(key).or_default().push(id);
                }
            }
        }
        let mut expected: BTreeMap<(Option<String>, String), Vec<i64>> = BTreeMap::new();
        let place = batch.column(0).as_string::<i32>();
        let day = batch.column(2).as_primitive::<Date32Type>();
        for row in 0..batch.num_rows() {
            let place = place.is_valid(row).then(|| place.value(row).to_owned());
            let key = (place, format!("1970-01-0{}", day.value(row) + 1));
            expected.entry(key).or_default().push(row as i64);
        }
        assert!(found == expected);
    }
}

#[test]
fn columns_that_name_directories_are_read_back_with_their_types() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![0, 1, 2]))),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(-1), Some(19_782), None])),
        ),
        (
            "yes",
            Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        ),
        ("big", Arc::new(UInt64Array::from(vec![0, 5, u64::MAX]))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(0),
                Some(1_500_001),
                None,
            ])),
        ),
        (
            "word",
            Arc::new(StringArray::from(vec![Some("007"), Some(""), None])),
        ),
    ];
    let batch = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(batch).unwrap();
    for key in ["day", "yes", "big", "at", "word"] {
        let dir = tempfile::tempdir().unwrap();
        split(&dir, &batch, (64 << 20, 1), &[key]).unwrap();
        let reads = InputOptions {
            columns: Some(vec!["id".to_owned(), key.to_owned()]),
            ..InputOptions::default()
        };
        let found = super::files::all(&reads, &[dir.path().join("out")], 8 << 20).unwrap();
        assert_eq!(found[key].data_type(), batch[key].data_type(), "{key}");
        let order = arrow_ord::sort::sort_to_indices(&found["id"], None, None).unwrap();
        let in_order = arrow_select::take::take(&found[key], &order, None).unwrap();
        assert!(
            in_order.as_ref() == batch[key].as_ref(),
            "{key}: {in_order:?}"
        );
    }
}

/// Names and values that need special care in counts, directory names and time formats.
#[test]
fn columns_of_any_name_and_times_with_zones_are_split_by_and_read_back() {
    let at = |zone: &str| -> ArrayRef {
        let times = [0i64, 90_061_000, 90_061_000].map(Some).to_vec();
        Arc::new(TimestampMillisecondArray::from(times).with_timezone(zone))
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![0, 1, 2]))),
        ("count", Arc::new(StringArray::from(vec!["a", "b", "b"]))),
        ("_day", Arc::new(Int64Array::from(vec![7, 8, 8]))),
        ("at", at("Europe/Berlin")),
        ("utc", at("UTC")),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for key in ["count", "_day", "at", "utc"] {
        let dir = tempfile::tempdir().unwrap();
        let paths = split(&dir, &batch, (64 << 20, 1), &[key]).unwrap();
        assert_eq!(paths.len(), 2, "{key}");
        let job = common::job(64 << 20, 1);
        let read = [dir.path().join("out")];
        let input = TableInput::open(&job, &read, &InputOptions::default()).unwrap();
        assert_eq!(input.rows_count(), 3, "{key}");
        if key == "utc" || key == "at" {
            let names: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            assert!(names[1].contains("=1970-01-02T01:01:01Z"), "{names:?}");
        }
    }
}

#[test]
fn what_names_no_directories_is_refused_and_leaves_nothing() {
    let batch = visits(20_000);
    for (keys, cause) in [
        (&["weight"][..], "f64"),
        (&["plaec"], "`place`"),
        (&["id"], "more than 10,000"),
        (&["id", "place", "day", "weight"], "f64"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = split(&dir, &batch, (64 << 20, 2), keys).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(cause), "{error}");
    }
    let long: ArrayRef = Arc::new(StringArray::from(vec!["a".to_owned(), "/".repeat(90)]));
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let long = RecordBatch::try_from_iter([("long", long), ("id", id)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let error = split(&dir, &long, (64 << 20, 2), &["long"]).unwrap_err();
    assert!(
        error.to_string().contains("too long for the name"),
        "{error}"
    );
    let dir = tempfile::tempdir().unwrap();
    let narrow = batch.project(&[0]).unwrap();
    let error = split(&dir, &narrow, (64 << 20, 2), &["place"]).unwrap_err();
    assert!(error.to_string().contains("no column"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let error = split(&dir, &batch.slice(0, 0), (64 << 20, 2), &["place"]).unwrap_err();
    assert!(error.to_string().contains("no rows"), "{error}");
}
