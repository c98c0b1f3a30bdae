//! Views of tables: their rows, by number and by key, are those of the library's sort.
//!
//! Contract: rows with equal keys may come in any order that depends only on the rows, so whole
//! rows are the key in tests of the order. Ranges of a key are counted with the library's
//! comparison.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Field, Schema, SortOptions};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use outcore::runs::{BuildOptions, SortedView};
use outcore::{Error, Job, Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::view::{ROW_ORDER, TableView, append, build, row_order};
use outcore_table::jobs::{TableEnds, TableOrder, sort};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};

fn options() -> BuildOptions {
    BuildOptions {
        run_bytes: Some(3_000),
        ..BuildOptions::default()
    }
}

fn order_by(keys: &[KeyColumn]) -> TableOrder {
    TableOrder {
        keys: keys.to_vec(),
        ..TableOrder::default()
    }
}

fn open(job: &Job, dir: &Path) -> Result<TableView> {
    let orders = |name: &str| match name {
        ROW_ORDER => Ok(row_order()),
        _ => Err(Error::usage("open view", "another order")),
    };
    TableView::of(SortedView::open_with(job, dir, &orders)?)
}

/// Returns the rows of a range.
fn rows_of(view: &TableView, range: std::ops::Range<u64>) -> RecordBatch {
    let memory_bytes = view.sorted().reader_bytes(1);
    let mut batches = view.batches(range, memory_bytes).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = batches.next_batch().unwrap() {
        all.push(batch);
    }
    concat_batches(view.schema(), &all).unwrap()
}

/// The keys of all rows in the library's comparable form.
pub(crate) fn keys_of(batch: &RecordBatch, keys: &[KeyColumn]) -> Rows {
    let columns: Vec<ArrayRef> = keys
        .iter()
        .map(|key| common::as_key(batch.column_by_name(&key.name).unwrap()))
        .collect();
    let fields = keys.iter().zip(&columns).map(|(key, column)| {
        let options = SortOptions {
            descending: key.is_descending,
            nulls_first: key.is_nulls_first,
        };
        SortField::new_with_options(column.data_type().clone(), options)
    });
    let converter = RowConverter::new(fields.collect()).unwrap();
    converter.convert_columns(&columns).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("OUTCORE_TABLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
    ))]
    #[test]
    fn a_view_of_any_table_is_its_sort_and_finds_each_key(seed in any::<u64>(), rows in 0_usize..400) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        let table = common::in_groups(&mut draw, &schema, rows);
        let more = common::in_groups(&mut draw, &schema, draw_rows(seed));
        // Few values first, so that many rows are equal in them.
        let mut keys = vec![KeyColumn::new("k")];
        let is_plain = |field: &&Arc<Field>| !field.data_type().is_nested();
        keys.extend(schema.fields().iter().filter(is_plain).map(|field| KeyColumn::new(field.name())));
        for key in &mut keys {
            key.is_descending = draw.one_in(2);
            key.is_nulls_first = draw.one_in(2);
        }

        let place = tempfile::tempdir().unwrap();
        let name = |name: &str| place.path().join(name);
        write_parquet(&name("t.parquet"), &table, 1 + draw.below(200));
        write_parquet(&name("more.parquet"), &more, 1 + draw.below(200));
        let (dir, reads) = (name("view"), InputOptions::default());
        std::fs::create_dir(&dir).unwrap();
        let job = common::job(256 << 20, 1 + draw.below(3));
        let inputs = [name("t.parquet"), name("more.parquet")];
        let (view, built) =
            build(&job, (&inputs[..1], &reads), &order_by(&keys), &dir, options()).unwrap();
        prop_assert_eq!(built.records as usize, rows);
        let (_, added) = append(&job, (&inputs[1..], &reads), &view, &dir, options()).unwrap();
        prop_assert_eq!(added.records as usize, more.num_rows());
        drop(view);
        let view = open(&job, &dir).unwrap();
        view.sorted().verify().unwrap();

        // The rows that a sort of both files writes, byte for byte.
        let sorted_path = [name("sorted.parquet")];
        let ends = TableEnds {
            inputs: &inputs,
            reads: &reads,
            outputs: &sorted_path,
            writes: &OutputOptions::new(TableFormat::Parquet),
        };
        let own = common::job(256 << 20, 2);
        sort(&own, &ends, &order_by(&keys)).unwrap();
        let written = [name("view.parquet")];
        let done = view.write(0..view.sorted().len(), &written, &OutputOptions::new(TableFormat::Parquet));
        prop_assert_eq!(done.unwrap().rows_out, view.sorted().len());
        let expected = read_parquet(&sorted_path[0]);
        prop_assert_eq!(&read_parquet(&written[0]), &expected);
        let len = expected.num_rows();
        for _ in 0..4 {
            let (a, b) = (draw.below(len + 1), draw.below(len + 1));
            let (from, to) = (a.min(b), a.max(b));
            let found = rows_of(&view, from as u64..to as u64);
            prop_assert_eq!(found, read_as(&view, &expected).slice(from, to - from));
        }

        let all = read_as(&view, &expected);
        for _ in 0..6 {
            let count = 1 + draw.below(keys.len());
            // A row of the table, or one that may be missing.
            let from = if draw.one_in(3) { common::in_groups(&mut draw, &schema, 1) } else { all.clone() };
            if from.num_rows() == 0 {
                continue;
            }
            let row = draw.below(from.num_rows());
            let places = keys[..count].iter().map(|key| from.schema().index_of(&key.name).unwrap());
            let key = from.slice(row, 1).project(&places.collect::<Vec<_>>()).unwrap();
            let found = view.find(&key).unwrap();
            let (ours, theirs) = (keys_of(&all, &keys[..count]), keys_of(&from, &keys[..count]));
            let wanted = theirs.row(row);
            let before = ours.iter().filter(|row| *row < wanted).count() as u64;
            let equal = ours.iter().filter(|row| *row == wanted).count() as u64;
            prop_assert_eq!(found, before..before + equal);
        }
    }
}

fn draw_rows(seed: u64) -> usize {
    (seed % 90) as usize
}

/// Converts the rows to the view's schema, because files lose the names of dictionaries.
fn read_as(view: &TableView, batch: &RecordBatch) -> RecordBatch {
    let places: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let taken = take_record_batch(batch, &UInt32Array::from(places)).unwrap();
    RecordBatch::try_new(Arc::clone(view.schema()), taken.columns().to_vec()).unwrap()
}

fn two_columns(rows: i64, nullable: bool) -> RecordBatch {
    let names = StringArray::from_iter(
        (0..rows).map(|row| (row % 5 != 0).then(|| format!("n{}", row % 7))),
    );
    let numbers = Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % 1009));
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("number", DataType::Int64, nullable),
    ]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(names), Arc::new(numbers)]).unwrap()
}

#[test]
fn keys_are_given_as_text_and_what_does_not_fit_the_view_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let name = |name: &str| place.path().join(name);
    let (inputs, dir) = ([name("t.parquet")], name("view"));
    write_parquet(&inputs[0], &two_columns(2_000, false), 500);
    std::fs::create_dir(&dir).unwrap();
    let job = common::job(64 << 20, 2);
    let reads = InputOptions::default();
    let keys = [
        KeyColumn::new("name"),
        KeyColumn::new("number").descending(),
    ];
    let (view, _) = build(&job, (&inputs, &reads), &order_by(&keys), &dir, options()).unwrap();
    let found = |text: &str| {
        let range = view.key_of(text).and_then(|key| view.find(&key)).unwrap();
        rows_of(&view, range)
    };
    let count = |wanted: &dyn Fn(i64) -> bool| (0..2_000).filter(|row| wanted(*row)).count();
    assert_eq!(
        found("n3").num_rows(),
        count(&|row| row % 5 != 0 && row % 7 == 3)
    );
    assert_eq!(found("").num_rows(), count(&|row| row % 5 == 0));
    assert_eq!(found("\"\"").num_rows(), 0);
    let both = |row: i64| row % 5 != 0 && row % 7 == 3 && row * 7919 % 1009 == 17 * 7919 % 1009;
    assert_eq!(
        found(&format!("n3,{}", 17 * 7919 % 1009)).num_rows(),
        count(&both)
    );
    for (text, cause) in [("n3,seven", "`seven`"), ("a,1,2", "3 values")] {
        let error = view.key_of(text).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.cause().contains(cause), "{error}");
    }

    let numbers: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["n"]));
    let other = RecordBatch::try_from_iter([("name", names), ("number", numbers)]).unwrap();
    let whole = two_columns(10, false);
    for (batch, cause) in [
        (two_columns(10, true), "may be null"),
        (other, "`number` is text"),
        (whole.project(&[0]).unwrap(), "`number`"),
    ] {
        let path: PathBuf = name("other.parquet");
        write_parquet(&path, &batch, 10);
        let error = append(&job, (&[path], &reads), &view, &dir, options());
        let error = error.map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.cause().contains(cause), "{cause}: {error}");
    }
    drop(view);
    assert_eq!(open(&job, &dir).unwrap().sorted().len(), 2_000);
    let stable = TableOrder {
        is_stable: true,
        ..order_by(&keys)
    };
    let refused = build(&job, (&inputs, &reads), &stable, &dir, options());
    assert_eq!(refused.map(drop).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn a_row_longer_than_a_batch_is_reserved_or_refused_and_a_stream_gives_its_memory_back() {
    let place = tempfile::tempdir().unwrap();
    let name = |name: &str| place.path().join(name);
    let (inputs, dir) = ([name("t.parquet")], name("view"));
    let texts = (0..3_000).map(|row| match row == 1_500 {
        true => "x".repeat(5 << 20),
        false => format!("{row:05}"),
    });
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
    write_parquet(&inputs[0], &batch, 500);
    std::fs::create_dir(&dir).unwrap();
    let reads = InputOptions::default();
    let order = order_by(&[KeyColumn::new("text")]);
    let large = common::job(256 << 20, 2);
    let made = build(&large, (&inputs, &reads), &order, &dir, options());
    drop(made.unwrap());
    for (memory_bytes, readers, fits) in [(16 << 20, 1, false), (128 << 20, 4, true)] {
        let job = common::job(memory_bytes, 2);
        let view = open(&job, &dir).unwrap();
        let held_bytes = job.budget.used_bytes();
        let share_bytes = view.sorted().reader_bytes(readers);
        let all = 0..view.sorted().len();
        let mut batches = view.batches(all.clone(), share_bytes).unwrap();
        let mut rows_count = 0;
        let ended = loop {
            match batches.next_batch() {
                Ok(Some(batch)) => rows_count += batch.num_rows(),
                Ok(None) => break None,
                Err(error) => break Some(error.kind()),
            }
        };
        drop(batches);
        assert_eq!(ended, (!fits).then_some(Kind::Memory));
        assert_eq!(rows_count == 3_000, fits);
        let streamed: std::result::Result<Vec<RecordBatch>, _> =
            view.stream(all, share_bytes).unwrap().collect();
        assert_eq!(streamed.is_ok(), fits);
        if let Ok(streamed) = streamed {
            let streamed = concat_batches(view.schema(), &streamed).unwrap();
            assert!(streamed == rows_of(&view, 0..3_000));
        }
        assert_eq!(job.budget.used_bytes(), held_bytes);
        assert!(job.budget.peak_bytes() <= memory_bytes);
    }
}
