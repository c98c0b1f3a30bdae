//! Columns with hardly repeating values are written without a dictionary, and the others with one.
//!
//! Contract: the library reports a column's encoding from the footer. The largest table has 120,000
//! rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use outcore_table::expr::Assignment;
use outcore_table::input::InputOptions;
use outcore_table::jobs::{
    Aggregate, ColumnPair, Join, Selection, TableEnds, TableOrder, group_by, join, select, shuffle,
    sort,
};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Encoding;

use crate::common::{self, copy, read_parquet, write_parquet};

const ROWS: i64 = 120_000;

/// Numbers and texts that occur once, and numbers with a thousand values.
fn table() -> RecordBatch {
    let text = |row: i64| format!("page {} of many", row * 7 % ROWS);
    let columns: [(&str, ArrayRef); 3] = [
        (
            "id",
            Arc::new(Int64Array::from_iter_values(
                (0..ROWS).map(|row| row * 11 % ROWS),
            )),
        ),
        (
            "text",
            Arc::new(StringArray::from_iter_values((0..ROWS).map(text))),
        ),
        (
            "kind",
            Arc::new(Int64Array::from_iter_values(
                (0..ROWS).map(|row| row % 1000),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Returns the columns with a dictionary.
fn with_dictionary(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap();
    let found = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let columns = found.metadata().row_group(0).columns().iter();
    let has_one = columns.filter(|column| {
        column
            .encodings()
            .any(|one| one == Encoding::RLE_DICTIONARY)
    });
    has_one
        .map(|column| column.column_path().string())
        .collect()
}

#[test]
fn a_dictionary_is_left_out_where_the_input_says_that_values_hardly_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let table = table();
    write_parquet(&path("in.parquet"), &table, 1 << 20);
    assert_eq!(with_dictionary(&path("in.parquet")), ["id", "text", "kind"]);
    let (reads, writes) = (
        InputOptions::default(),
        OutputOptions::new(TableFormat::Parquet),
    );
    let job = || common::job(256 << 20, 2);
    let copied = |from: &str, to: &str| {
        copy(&job(), &[path(from)], &reads, &[path(to)], &writes).unwrap();
        with_dictionary(&path(to))
    };
    assert_eq!(copied("in.parquet", "once.parquet"), ["kind"]);
    // A dictionary that was left out stays left out.
    assert_eq!(copied("once.parquet", "twice.parquet"), ["kind"]);
    assert!(read_parquet(&path("twice.parquet")) == table);
    let by_ends = |output: &str, work: &dyn Fn(&TableEnds<'_>)| {
        let outputs = [path(output)];
        work(&TableEnds {
            inputs: &[path("in.parquet")],
            reads: &reads,
            outputs: &outputs,
            writes: &writes,
        });
        with_dictionary(&outputs[0])
    };
    let found = by_ends("shuffled.parquet", &|ends| {
        shuffle(&job(), ends, (1, 0), &[]).unwrap();
    });
    assert_eq!(found, ["kind"]);
    // A sort may bring equal values together, and so may groups.
    let found = by_ends("sorted.parquet", &|ends| {
        let order = TableOrder {
            keys: vec![KeyColumn::new("kind")],
            ..TableOrder::default()
        };
        sort(&job(), ends, &order).unwrap();
    });
    assert_eq!(found, ["id", "text", "kind"]);
    let found = by_ends("grouped.parquet", &|ends| {
        shuffle(&job(), ends, (1, 0), &[KeyColumn::new("kind")]).unwrap();
    });
    assert_eq!(found, ["id", "text", "kind"]);
    // A group key occurs once; sums may repeat.
    let found = by_ends("groups.parquet", &|ends| {
        let sum = Aggregate::parse_list("s=sum(kind)").unwrap();
        group_by(&job(), ends, &[KeyColumn::new("id")], &sum).unwrap();
    });
    assert_eq!(found, ["s"]);
    // A computed column counts as another column, even if it has the same name.
    let found = by_ends("computed.parquet", &|ends| {
        let selection = Selection {
            computed: Assignment::parse_all("id = id % 10").unwrap(),
            ..Selection::default()
        };
        select(&job(), ends, &selection).unwrap();
    });
    assert_eq!(found, ["id", "kind"]);
    // If a join repeats rows, their values repeat.
    for (copies, wanted) in [
        (1, &["kind", "name"][..]),
        (2, &["id", "text", "kind", "name"]),
    ] {
        let rows = 0..1000 * copies;
        let columns: [(&str, ArrayRef); 2] = [
            (
                "kind",
                Arc::new(Int64Array::from_iter_values(
                    rows.clone().map(|row| row % 1000),
                )),
            ),
            (
                "name",
                Arc::new(StringArray::from_iter_values(
                    rows.map(|row| row.to_string()),
                )),
            ),
        ];
        write_parquet(
            &path("right.parquet"),
            &RecordBatch::try_from_iter(columns).unwrap(),
            1 << 20,
        );
        let wanted_join = Join {
            on: vec![ColumnPair::parse("kind").unwrap()],
            is_unordered: true,
            ..Join::default()
        };
        let found = by_ends(&format!("joined-{copies}.parquet"), &|ends| {
            join(
                &job(),
                ends,
                (&[path("right.parquet")], &reads),
                &wanted_join,
            )
            .unwrap();
        });
        assert_eq!(found, wanted);
    }
}

#[test]
fn row_groups_that_would_not_fill_a_dictionary_say_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [small, out] = ["small.parquet", "out.parquet"].map(|name| dir.path().join(name));
    write_parquet(&small, &table(), 50_000);
    let (reads, writes) = (
        InputOptions::default(),
        OutputOptions::new(TableFormat::Parquet),
    );
    let outputs: [PathBuf; 1] = [out];
    copy(
        &common::job(256 << 20, 2),
        &[small],
        &reads,
        &outputs,
        &writes,
    )
    .unwrap();
    // Texts of 50,000 rows would fill a dictionary.
    assert_eq!(with_dictionary(&outputs[0]), ["id", "kind"]);
}
