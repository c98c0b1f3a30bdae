//! Sorts, shuffles and distinct rows of tables.
//!
//! Contract: after a sort, `arrow-ord` compares each pair of adjacent rows, and the set of rows is
//! that of the input. Stable sorts and distinct rows are compared with a naive twin, row by row.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_ord::sort::{LexicographicalComparator, SortColumn, SortOptions, lexsort_to_indices};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take_record_batch;
use outcore::{Job, Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{
    Keep, TableEnds, TableOrder, TableSummary, dedup, shuffle, sort, unique,
};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet, write_parquet_as};

/// A table with some of its columns in files of a directory, and an output path.
struct TableFiles {
    dir: tempfile::TempDir,
    inputs: Vec<PathBuf>,
    reads: InputOptions,
    writes: OutputOptions,
}

impl TableFiles {
    fn with(batches: &[RecordBatch], group_rows: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |number: usize| dir.path().join(format!("in-{number}.parquet"));
        let inputs: Vec<PathBuf> = (0..batches.len()).map(path).collect();
        for (path, batch) in inputs.iter().zip(batches) {
            write_parquet(path, batch, group_rows);
        }
        TableFiles {
            dir,
            inputs,
            reads: InputOptions::default(),
            writes: OutputOptions {
                is_replacing: true,
                ..OutputOptions::new(TableFormat::Parquet)
            },
        }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out.parquet")
    }

    fn run(
        &self,
        work: impl FnOnce(&TableEnds<'_>) -> Result<TableSummary>,
    ) -> Result<(TableSummary, RecordBatch)> {
        let outputs = [self.out()];
        let ends = TableEnds {
            inputs: &self.inputs,
            reads: &self.reads,
            outputs: &outputs,
            writes: &self.writes,
        };
        let summary = work(&ends)?;
        let out = read_parquet(&outputs[0]);
        assert_eq!(summary.rows_out, out.num_rows() as u64);
        let names: HashSet<_> = names_in(self.dir.path());
        assert_eq!(names.len(), self.inputs.len() + 1, "{names:?}");
        Ok((summary, out))
    }
}

fn names_in(dir: &Path) -> HashSet<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// A log with frequent countries, rare users, nulls, and texts of some length.
fn log(rows: usize, seed: u64) -> RecordBatch {
    let mut draw = Draw::new(seed);
    let countries = ["de", "fr", "us", "br", "in", ""];
    let country: StringArray = (0..rows)
        .map(|_| (!draw.one_in(20)).then(|| countries[draw.below(6)]))
        .collect();
    let user: Int64Array = (0..rows)
        .map(|_| (!draw.one_in(30)).then(|| draw.below(500) as i64 - 250))
        .collect();
    let text: StringArray = (0..rows)
        .map(|_| Some("x".repeat(draw.below(90)) + &draw.word().to_string()))
        .collect();
    let number = Int64Array::from_iter_values(0..rows as i64);
    let schema = Schema::new(vec![
        Field::new("country", DataType::Utf8, true),
        Field::new("user", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("number", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(country),
        Arc::new(user),
        Arc::new(text),
        Arc::new(number),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn concat(batches: &[RecordBatch]) -> RecordBatch {
    arrow_select::concat::concat_batches(&batches[0].schema(), batches).unwrap()
}

fn columns(batch: &RecordBatch, keys: &[KeyColumn]) -> Vec<SortColumn> {
    let column = |key: &KeyColumn| SortColumn {
        values: common::as_key(batch.column_by_name(&key.name).unwrap()),
        options: Some(SortOptions {
            descending: key.is_descending,
            nulls_first: key.is_nulls_first,
        }),
    };
    keys.iter().map(column).collect()
}

/// Returns all rows as sorted bytes, which are equal for the same rows in any order.
fn rows_of(batch: &RecordBatch) -> Vec<Vec<u8>> {
    let fields = batch.schema();
    let fields = fields.fields().iter();
    let fields = fields.map(|field| SortField::new(field.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = converter.convert_columns(batch.columns()).unwrap();
    let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| row.data().to_vec()).collect();
    rows.sort_unstable();
    rows
}

fn is_in_order(batch: &RecordBatch, keys: &[KeyColumn]) -> bool {
    let comparator = LexicographicalComparator::try_new(&columns(batch, keys)).unwrap();
    (1..batch.num_rows()).all(|row| comparator.compare(row - 1, row).is_le())
}

fn by_country_and_user() -> Vec<KeyColumn> {
    vec![
        KeyColumn::new("country"),
        KeyColumn::new("user").descending().nulls_first(),
    ]
}

#[test]
fn a_table_larger_than_the_memory_comes_in_order() {
    let batches = [log(90_000, 1), log(30_000, 2)];
    let place = TableFiles::with(&batches, 10_000);
    let order = TableOrder {
        keys: by_country_and_user(),
        ..TableOrder::default()
    };
    let mut seen: Option<RecordBatch> = None;
    for (memory_bytes, threads) in [(16 << 20, 1), (20 << 20, 3), (256 << 20, 2)] {
        let job = common::job(memory_bytes, threads);
        let (summary, out) = place.run(|ends| sort(&job, ends, &order)).unwrap();
        assert_eq!(job.budget.used_bytes(), 0);
        assert_eq!(summary.rows_in, 120_000);
        assert!(summary.read_bytes > 0 && summary.written_bytes > 0);
        assert!(is_in_order(&out, &order.keys));
        match &seen {
            None => {
                assert!(summary.scratch_bytes > 0, "it went through scratch");
                assert!(rows_of(&out) == rows_of(&concat(&batches)), "the same rows");
                seen = Some(out);
            }
            Some(seen) => assert!(out == *seen, "the same on any threads and memory"),
        }
    }
}

#[test]
fn a_stable_sort_keeps_the_order_of_equal_keys() {
    let batches = [log(30_000, 3), log(10_000, 4)];
    let place = TableFiles::with(&batches, 3_000);
    let keys = vec![KeyColumn::new("country").descending()];
    let order = TableOrder {
        keys: keys.clone(),
        is_stable: true,
        ..TableOrder::default()
    };
    let job = common::job(16 << 20, 3);
    let (_, out) = place.run(|ends| sort(&job, ends, &order)).unwrap();
    let all = concat(&batches);
    // arrow does not specify whether its sort is stable, so the row's place is a key.
    let mut by = columns(&all, &keys);
    by.push(SortColumn {
        values: Arc::new(UInt32Array::from_iter_values(0..all.num_rows() as u32)),
        options: None,
    });
    let places = lexsort_to_indices(&by, None).unwrap();
    assert!(out.columns() == take_record_batch(&all, &places).unwrap().columns());
}

#[test]
fn the_first_row_of_each_key_is_kept() {
    let batches = [log(40_000, 5), log(20_000, 6)];
    let place = TableFiles::with(&batches, 7_000);
    let keys = by_country_and_user();
    let order = TableOrder {
        keys: keys.clone(),
        ..TableOrder::default()
    };
    let job = common::job(16 << 20, 2);
    let (summary, out) = place.run(|ends| unique(&job, ends, &order)).unwrap();
    let all = concat(&batches);
    let key = |batch: &RecordBatch, row: usize| {
        let country = batch
            .column(0)
            .as_any()
            .downcast_ref::<StringArray>()
            .unwrap();
        let user = batch
            .column(1)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap();
        let country = country.is_valid(row).then(|| country.value(row).to_owned());
        (country, user.is_valid(row).then(|| user.value(row)))
    };
    let mut seen = HashSet::new();
    let firsts = (0..all.num_rows()).filter(|&row| seen.insert(key(&all, row)));
    let firsts = UInt32Array::from_iter_values(firsts.map(|row| row as u32));
    let firsts = take_record_batch(&all, &firsts).unwrap();
    assert_eq!(summary.rows_in, 60_000);
    assert!(is_in_order(&out, &keys));
    assert!(rows_of(&out) == rows_of(&firsts), "the first of each key");
}

#[test]
fn a_shuffle_has_the_same_rows_in_an_order_of_its_seed() {
    let batches = [log(50_000, 7), log(20_000, 8)];
    let place = TableFiles::with(&batches, 6_000);
    let run = |memory_bytes, threads, seed| {
        let job = common::job(memory_bytes, threads);
        place.run(|ends| shuffle(&job, ends, seed, &[])).unwrap().1
    };
    let first = run(16 << 20, 1, (1, 0));
    assert!(rows_of(&first) == rows_of(&concat(&batches)));
    assert!(first == run(128 << 20, 3, (1, 0)));
    let other = run(16 << 20, 2, (1, 1));
    assert!(first != other && other != run(16 << 20, 2, (2, 0)));
    // Places are spread: about half of the first rows came from the first half.
    let number = first
        .column(3)
        .as_any()
        .downcast_ref::<Int64Array>()
        .unwrap();
    let early = (0..1000).filter(|&row| number.value(row) < 25_000).count();
    assert!((500..780).contains(&early), "{early}");
}

#[test]
fn a_shuffle_by_columns_keeps_groups_together_and_their_rows_in_order() {
    let batches = [log(20_000, 7), log(10_000, 8)];
    let place = TableFiles::with(&batches, 3_000);
    let all = concat(&batches);
    for columns in [&["user"][..], &["country"], &["country", "user"]] {
        let groups: Vec<KeyColumn> = columns.iter().map(|name| KeyColumn::new(*name)).collect();
        let run = |memory_bytes, threads, seed| {
            let job = common::job(memory_bytes, threads);
            place
                .run(|ends| shuffle(&job, ends, seed, &groups))
                .unwrap()
                .1
        };
        let out = run(16 << 20, 3, (1, 0));
        assert!(out == run(128 << 20, 1, (1, 0)), "{columns:?}");
        let key = |batch: &RecordBatch| -> Vec<String> {
            let places = columns
                .iter()
                .map(|name| batch.schema().index_of(name).unwrap());
            let chosen = batch.project(&places.collect::<Vec<_>>()).unwrap();
            (0..chosen.num_rows())
                .map(|row| format!("{:?}", chosen.slice(row, 1).columns()))
                .collect()
        };
        let (of_all, of_out) = (key(&all), key(&out));
        let mut order: Vec<&String> = of_out.iter().collect();
        order.dedup();
        let groups_count = of_all.iter().collect::<HashSet<_>>().len();
        assert_eq!(
            order.len(),
            groups_count,
            "{columns:?}: each group is in one place"
        );
        // The rows of each group in the order of the input.
        let mut places: std::collections::HashMap<&String, Vec<u32>> = Default::default();
        for (row, key) in of_all.iter().enumerate() {
            places.entry(key).or_default().push(row as u32);
        }
        let rows = order.iter().flat_map(|key| places[*key].iter().copied());
        let expected = take_record_batch(&all, &UInt32Array::from_iter_values(rows)).unwrap();
        assert!(out == expected, "{columns:?}");
        let is_other = order.len() < 4 || out != run(16 << 20, 2, (1, 1));
        assert!(is_other, "{columns:?}");
    }
    for ordered in ["user:desc", "country:nulls-first"] {
        let groups = [KeyColumn::parse(ordered).unwrap()];
        let job = common::job(16 << 20, 1);
        let done = place.run(|ends| shuffle(&job, ends, (1, 0), &groups));
        assert_eq!(done.unwrap_err().kind(), Kind::Usage);
    }
}

fn any_key(draw: &mut Draw, name: &str) -> KeyColumn {
    KeyColumn {
        is_descending: draw.one_in(2),
        is_nulls_first: draw.one_in(2),
        ..KeyColumn::new(name)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tables_of_any_schema_come_in_order(seed in any::<u64>(), rows in 0usize..400) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 5, Kinds::Parquet);
        let batch = common::batch(&mut draw, &schema, rows);
        let place = TableFiles::with(std::slice::from_ref(&batch), 1 + draw.below(200));
        let names: Vec<String> = schema.fields().iter().map(|f| f.name().clone()).collect();
        let keys: Vec<KeyColumn> = names.iter().map(|name| any_key(&mut draw, name)).collect();
        let order = TableOrder { keys, is_stable: draw.one_in(2), is_descending: false };
        let job = common::job(256 << 20, 2);
        match place.run(|ends| sort(&job, ends, &order)) {
            Ok((summary, out)) => {
                prop_assert_eq!(summary.rows_in, rows as u64);
                prop_assert!(rows_of(&out) == rows_of(&batch));
            }
            // Some types have no order.
            Err(error) => prop_assert_eq!(error.kind(), Kind::Usage, "{}", error),
        }
    }
}

#[test]
fn what_is_asked_for_in_vain_is_named_and_nothing_is_left() {
    let place = TableFiles::with(&[log(1_000, 9)], 500);
    let by = |name: &str| TableOrder {
        keys: vec![KeyColumn::new(name)],
        ..TableOrder::default()
    };
    let fail = |job: &Job, order: &TableOrder| {
        let error = place.run(|ends| sort(job, ends, order)).unwrap_err();
        assert_eq!(names_in(place.dir.path()).len(), 1, "nothing is left");
        error
    };
    let job = common::job(64 << 20, 2);
    let error = fail(&job, &by("contry"));
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("country"), "{error}");
    let small = common::job(3 << 20, 2);
    assert_eq!(fail(&small, &by("country")).kind(), Kind::Memory);
}

#[test]
fn keys_are_read_as_people_write_them() {
    let key = |text: &str| KeyColumn::parse(text).unwrap();
    assert_eq!(key("a"), KeyColumn::new("a"));
    assert_eq!(key("a:b:desc"), KeyColumn::new("a:b").descending());
    assert_eq!(
        key("a:nulls-first:r"),
        KeyColumn::new("a").descending().nulls_first()
    );
    let wrong = [
        ":desc",
        "a:",
        "a:desc:",
        "a:asc:desc",
        "a:asc:asc",
        "a:nulls-first:nulls-last",
        "a:i64:u8",
    ];
    for text in wrong {
        assert_eq!(
            KeyColumn::parse(text).unwrap_err().kind(),
            Kind::Usage,
            "{text}"
        );
    }
}

/// Returns rows of `all` in their order: for each (country, user), the first one by `better`, at
/// its own place.
fn naive_dedup(
    all: &RecordBatch,
    better: impl Fn(usize, usize) -> bool,
) -> (RecordBatch, RecordBatch) {
    let country = all
        .column(0)
        .as_any()
        .downcast_ref::<StringArray>()
        .unwrap();
    let user = all.column(1).as_any().downcast_ref::<Int64Array>().unwrap();
    let mut best = std::collections::HashMap::new();
    for row in 0..all.num_rows() {
        let country = country.is_valid(row).then(|| country.value(row));
        let user = user.is_valid(row).then(|| user.value(row));
        let kept = best.entry((country, user)).or_insert(row);
        if better(row, *kept) {
            *kept = row;
        }
    }
    let kept: HashSet<usize> = best.into_values().collect();
    let take = |is_kept: bool| {
        let rows = (0..all.num_rows()).filter(|row| kept.contains(row) == is_kept);
        let rows = UInt32Array::from_iter_values(rows.map(|row| row as u32));
        take_record_batch(all, &rows).unwrap()
    };
    (take(true), take(false))
}

#[test]
fn duplicates_go_and_what_is_kept_stays_where_it_was() {
    let batches = [log(40_000, 11), log(25_000, 12)];
    let place = TableFiles::with(&batches, 6_000);
    let all = concat(&batches);
    let keys = [KeyColumn::new("country"), KeyColumn::new("user")];
    let number = all.column(3).as_any().downcast_ref::<Int64Array>().unwrap();
    let best = Keep::Best(vec![KeyColumn::new("number").descending()]);
    type Better<'b> = Box<dyn Fn(usize, usize) -> bool + 'b>;
    let cases: [(Keep, Better<'_>); 3] = [
        (Keep::First, Box::new(|_, _| false)),
        (Keep::Last, Box::new(|_, _| true)),
        (
            best,
            Box::new(|row, kept| number.value(row) > number.value(kept)),
        ),
    ];
    for (keep, better) in cases {
        let (kept, left_out) = naive_dedup(&all, better);
        for (memory_bytes, threads) in [(16 << 20, 1), (64 << 20, 3)] {
            let job = common::job(memory_bytes, threads);
            let removed = place.dir.path().join("removed.parquet");
            let outputs = [place.out()];
            let ends = TableEnds {
                inputs: &place.inputs,
                reads: &place.reads,
                outputs: &outputs,
                writes: &place.writes,
            };
            let done = dedup(&job, &ends, (&keys, &keep), Some((&removed, &place.writes))).unwrap();
            assert_eq!(job.budget.used_bytes(), 0);
            assert_eq!(done.removed, left_out.num_rows() as u64, "{keep:?}");
            assert!(
                read_parquet(&place.out()).columns() == kept.columns(),
                "{keep:?}"
            );
            assert!(
                read_parquet(&removed).columns() == left_out.columns(),
                "{keep:?}"
            );
        }
    }
}

#[test]
fn a_score_that_is_spread_over_all_parts_still_keeps_one_row_a_key() {
    // Two keys, each with so many scores that its rows are in many buckets.
    let rows = 120_000;
    let batch = log(rows, 13);
    let key = Int64Array::from_iter_values((0..rows as i64).map(|row| row % 2));
    let schema = Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("text", DataType::Utf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(key), Arc::clone(batch.column(2))];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let place = TableFiles::with(std::slice::from_ref(&batch), 20_000);
    let keep = Keep::Best(vec![KeyColumn::new("text")]);
    let job = common::job(16 << 20, 2);
    let outputs = [place.out()];
    let ends = TableEnds {
        inputs: &place.inputs,
        reads: &place.reads,
        outputs: &outputs,
        writes: &place.writes,
    };
    let done = dedup(&job, &ends, (&[KeyColumn::new("key")], &keep), None).unwrap();
    assert_eq!(done.table.rows_out, 2);
    let text = batch
        .column(1)
        .as_any()
        .downcast_ref::<StringArray>()
        .unwrap();
    let smallest = |key: usize| {
        (0..rows)
            .filter(|row| row % 2 == key)
            .map(|row| text.value(row))
            .min()
    };
    let out = read_parquet(&place.out());
    let found = out
        .column(1)
        .as_any()
        .downcast_ref::<StringArray>()
        .unwrap();
    let mut found: Vec<_> = (0..2).map(|row| Some(found.value(row))).collect();
    let mut expected = vec![smallest(0), smallest(1)];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_row_that_is_too_long_is_named_with_the_memory_that_is_enough() {
    let texts = ["b".to_owned(), "a".repeat(30 << 20), "c".to_owned()];
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("text", column)]).unwrap();
    let files = TableFiles::with(std::slice::from_ref(&batch), 10);
    let codec = Compression::ZSTD(ZstdLevel::default());
    let settings = WriterProperties::builder().set_compression(codec).build();
    write_parquet_as(&files.inputs[0], &batch, settings);
    let order = TableOrder {
        keys: vec![KeyColumn::new("text")],
        ..TableOrder::default()
    };
    let sorted = |memory_bytes| files.run(|ends| sort(&common::job(memory_bytes, 1), ends, &order));
    let error = sorted(64 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    for part in ["a row group needs", "in-0.parquet"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let enough_mib = |error: &outcore_io::Error| -> u64 {
        let hint = error.next_step().unwrap_or_default();
        let amount = hint.split("--memory ").nth(1).unwrap_or_default();
        let digits: String = amount.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or_else(|_| panic!("{hint}"))
    };
    let enough_bytes = enough_mib(&error) << 20;
    assert_eq!(sorted(enough_bytes).unwrap().1.num_rows(), 3);
    let unique =
        |memory_bytes| files.run(|ends| unique(&common::job(memory_bytes, 1), ends, &order));
    let error = unique(64 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    let enough_bytes = enough_mib(&error) << 20;
    assert_eq!(unique(enough_bytes).unwrap().1.num_rows(), 3);
}
