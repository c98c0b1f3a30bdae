//! Joins of two tables.
//!
//! Contract: the naive twin finds pairs of rows with a hash map, and sorts them in the documented
//! order. Values of all types are compared. Tables have a few hundred rows, or a few thousand if a
//! key must exceed the memory.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array,
    Int64Array, LargeStringArray, RecordBatch, StringArray, Time32MillisecondArray,
    Time32SecondArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampSecondArray,
    UInt32Array, UInt64Array,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Schema, SortOptions};
use arrow_select::take::take;
use outcore::{Kind, Result};
use outcore_table::input::{InputOptions, TextOptions, parse_types};
use outcore_table::jobs::{AsOf, ColumnPair, Join, JoinKind, TableEnds, TableSummary, join};
use outcore_table::output::{OutputOptions, TableFormat};
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};

#[path = "../../../outcore/tests/conformance/joins.rs"]
mod list;

/// Joins two tables, in row groups of `group_rows`, in a directory of their own.
fn joined(
    [left, right]: [&RecordBatch; 2],
    group_rows: usize,
    (memory_bytes, threads): (u64, usize),
    wanted: &Join,
) -> Result<(TableSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (lefts, rights) = ([path("left.parquet")], [path("right.parquet")]);
    write_parquet(&lefts[0], left, group_rows);
    write_parquet(&rights[0], right, group_rows);
    let outputs: [PathBuf; 1] = [path("out.parquet")];
    let ends = TableEnds {
        inputs: &lefts,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    let job = common::job(memory_bytes, threads);
    let done = join(&job, &ends, (&rights, ends.reads), wanted);
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let summary = done.inspect_err(|_| assert_eq!(names, 2, "nothing is left"))?;
    assert_eq!(names, 3, "the output, and no scratch");
    let out = read_parquet(&outputs[0]);
    assert_eq!(summary.rows_out, out.num_rows() as u64);
    assert_eq!(summary.rows_in, (left.num_rows() + right.num_rows()) as u64);
    Ok((summary, out))
}

fn on(names: &[&str]) -> Vec<ColumnPair> {
    names
        .iter()
        .map(|name| ColumnPair::parse(name).unwrap())
        .collect()
}

fn of_kind(names: &[&str], kind: JoinKind) -> Join {
    Join {
        on: on(names),
        kind,
        ..Join::default()
    }
}

fn decimals(values: &[i128], precision: u8, scale: i8) -> ArrayRef {
    let array = Decimal128Array::from_iter_values(values.iter().copied());
    Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter();
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// The key of each row in comparable bytes, and whether it has a null.
fn keys(batch: &RecordBatch, names: &[String]) -> Vec<(Vec<u8>, bool)> {
    let columns = names
        .iter()
        .map(|name| Arc::clone(batch.column_by_name(name).unwrap()));
    let columns: Vec<ArrayRef> = columns.collect();
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let fields = columns
        .iter()
        .map(|column| SortField::new_with_options(column.data_type().clone(), options));
    let converter = RowConverter::new(fields.collect()).unwrap();
    let rows = converter.convert_columns(&columns).unwrap();
    let is_null = |row: usize| {
        let mut nulls = columns.iter().filter_map(|column| column.logical_nulls());
        nulls.any(|nulls| nulls.is_null(row))
    };
    let keys = rows.iter().enumerate();
    keys.map(|(row, key)| (key.data().to_vec(), is_null(row)))
        .collect()
}

type Pair = (Option<u32>, Option<u32>);
/// The sort key of pairs: key, side, left row, right row.
type Place = (Vec<u8>, u8, u32, u32);

/// Returns the pairs of rows, in order.
fn twin([left, right]: [&RecordBatch; 2], wanted: &Join) -> Vec<Pair> {
    let names =
        |of: fn(&ColumnPair) -> &String| wanted.on.iter().map(of).cloned().collect::<Vec<_>>();
    let left_keys = keys(left, &names(|pair| &pair.left));
    let right_keys = keys(right, &names(|pair| &pair.right));
    let kind = wanted.kind;
    // Sorted by key, then the left row, then the right row. Right rows without a partner come last
    // in a key, or first if the key has a null.
    let mut pairs: Vec<(Place, Pair)> = Vec::new();
    let mut has_partner = vec![false; right_keys.len()];
    let mut rows_of: HashMap<&[u8], Vec<u32>> = HashMap::new();
    for (row, (key, is_null)) in right_keys.iter().enumerate() {
        if !is_null {
            rows_of.entry(key).or_default().push(row as u32);
        }
    }
    for (row, (key, is_null)) in left_keys.iter().enumerate() {
        let row = row as u32;
        let partners = rows_of.get(&key[..]).filter(|_| !is_null);
        let partners = partners.map(Vec::as_slice).unwrap_or_default();
        partners
            .iter()
            .for_each(|&partner| has_partner[partner as usize] = true);
        let place = |partner: u32| (key.clone(), 1, row, partner);
        match (kind, partners.is_empty()) {
            (JoinKind::Semi, false) | (JoinKind::Anti | JoinKind::Left | JoinKind::Full, true) => {
                pairs.push((place(0), (Some(row), None)));
            }
            (JoinKind::Semi | JoinKind::Anti, _) => {}
            _ => pairs.extend(
                partners
                    .iter()
                    .map(|&partner| (place(partner), (Some(row), Some(partner)))),
            ),
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for (row, (key, is_null)) in right_keys.iter().enumerate() {
            if !has_partner[row] {
                let row = row as u32;
                let side = if *is_null { 0 } else { 2 };
                pairs.push(((key.clone(), side, 0, row), (None, Some(row))));
            }
        }
    }
    pairs.sort();
    if wanted.is_unordered && !matches!(kind, JoinKind::Right | JoinKind::Full) {
        // With a lookup, pairs come in the order of the left table.
        pairs.sort_by_key(|((_, _, left, right), _)| (*left, *right));
    }
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Compares each column of the output with the twin's rows.
fn check([left, right]: [&RecordBatch; 2], wanted: &Join, out: &RecordBatch) {
    let pairs = twin([left, right], wanted);
    assert_eq!(out.num_rows(), pairs.len(), "{:?}", wanted.kind);
    let lefts: UInt32Array = pairs.iter().map(|(row, _)| *row).collect();
    let rights: UInt32Array = pairs.iter().map(|(_, row)| *row).collect();
    let mut place = 0;
    for (field, column) in left.schema().fields().iter().zip(left.columns()) {
        let mut expected = take(column, &lefts, None).unwrap();
        let pair = wanted.on.iter().find(|pair| pair.left == *field.name());
        if let Some(pair) = pair {
            let other = right.column_by_name(&pair.right).unwrap();
            let other = take(other, &rights, None).unwrap();
            let is_left = lefts.iter().map(|row| Some(row.is_some())).collect();
            expected = arrow_select::zip::zip(&is_left, &expected, &other).unwrap();
        }
        assert_eq!(out.schema().field(place).name(), field.name());
        assert_eq!(
            out.column(place),
            &expected,
            "{} {:?}",
            field.name(),
            wanted.kind
        );
        place += 1;
    }
    if !matches!(wanted.kind, JoinKind::Semi | JoinKind::Anti) {
        for (field, column) in right.schema().fields().iter().zip(right.columns()) {
            if wanted.on.iter().any(|pair| pair.right == *field.name()) {
                continue;
            }
            let expected = take(column, &rights, None).unwrap();
            assert_eq!(
                out.column(place),
                &expected,
                "{} {:?}",
                field.name(),
                wanted.kind
            );
            place += 1;
        }
    }
    assert_eq!(out.num_columns(), place);
}

/// A table with a key of few values, some of them null, and columns of any types.
fn any_table(draw: &mut Draw, rows: usize, domain: usize, prefix: &str) -> RecordBatch {
    let schema = common::schema(draw, 3, Kinds::Parquet);
    let payload = common::batch(draw, &schema, rows);
    let number: Int32Array = (0..rows)
        .map(|_| (!draw.one_in(8)).then(|| draw.below(domain) as i32))
        .collect();
    let text: StringArray = (0..rows)
        .map(|_| (!draw.one_in(12)).then(|| "k".repeat(draw.below(3))))
        .collect();
    let mut fields = vec![
        Field::new("number", DataType::Int32, true),
        Field::new("text", DataType::Utf8, true),
    ];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(number), Arc::new(text)];
    for (field, column) in schema.fields().iter().zip(payload.columns()) {
        fields.push(Field::clone(field).with_name(format!("{prefix}{}", field.name())));
        columns.push(Arc::clone(column));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn the_list_of_joins_gives_what_it_says() {
    for case in list::cases() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (lefts, rights) = ([path("left.csv")], [path("right.csv")]);
        std::fs::write(&lefts[0], case.text("left")).unwrap();
        std::fs::write(&rights[0], case.text("right")).unwrap();
        let schema = match case.text("schema") {
            "" => Vec::new(),
            schema => parse_types(schema).unwrap(),
        };
        let reads = InputOptions {
            text: Some(TextOptions {
                schema,
                ..TextOptions::default()
            }),
            ..InputOptions::default()
        };
        let outputs = [path("out.csv")];
        let ends = TableEnds {
            inputs: &lefts,
            reads: &reads,
            outputs: &outputs,
            writes: &OutputOptions::new(TableFormat::Csv),
        };
        let how = JoinKind::ALL
            .iter()
            .find(|(name, _)| *name == case.text("how"));
        let wanted = of_kind(&case.on(), how.unwrap().1);
        join(&common::job(64 << 20, 2), &ends, (&rights, &reads), &wanted).unwrap();
        let found = std::fs::read_to_string(&outputs[0]).unwrap();
        assert_eq!(found, case.text("expected"), "{}", case.text("name"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Tables of any types, of any sizes, in any number of row groups, on any threads.
    #[test]
    fn every_kind_pairs_the_rows_that_a_nested_loop_pairs(
        seed in any::<u64>(),
        rows in (0_usize..70, 0_usize..70),
        domain in 1_usize..40,
        group_rows in 1_usize..50,
        threads in 1_usize..4,
        both in any::<bool>(),
        kind in 0_usize..6,
        is_unordered in any::<bool>(),
    ) {
        let draw = &mut Draw::new(seed);
        let left = any_table(draw, rows.0, domain, "l");
        let right = any_table(draw, rows.1, domain, "r");
        let names: &[&str] = if both { &["number", "text"] } else { &["number"] };
        let mut wanted = of_kind(names, JoinKind::ALL[kind].1);
        wanted.suffix = "_of_right".to_owned();
        wanted.is_unordered = is_unordered;
        // A row with decoded dictionaries takes about ten MiB, and may take a fiftieth of the
        // memory.
        let (_, out) = joined([&left, &right], group_rows, (1 << 30, threads), &wanted).unwrap();
        check([&left, &right], &wanted, &out);
    }
}

#[test]
fn a_key_with_more_rows_than_are_held_goes_to_scratch_and_is_the_same_for_any_memory() {
    let text = |row: usize| format!("{row:0>900}");
    let many: Int64Array = (0..6_000)
        .map(|row| Some(if row < 5_500 { 7 } else { row }))
        .collect();
    let texts: StringArray = (0..6_000).map(|row| Some(text(row))).collect();
    let right = table(vec![("id", Arc::new(many)), ("text", Arc::new(texts))]);
    let ids: Int64Array = [7, 3, 7, 5_600, 7].into_iter().map(Some).collect();
    let left = table(vec![
        ("id", Arc::new(ids)),
        ("n", Arc::new(Int32Array::from_iter_values(0..5))),
    ]);
    for kind in [JoinKind::Inner, JoinKind::Full] {
        let wanted = of_kind(&["id"], kind);
        let mut outs = Vec::new();
        for (memory_bytes, threads) in [(24 << 20, 1), (48 << 20, 2), (512 << 20, 2)] {
            let (summary, out) =
                joined([&left, &right], 500, (memory_bytes, threads), &wanted).unwrap();
            let is_small = memory_bytes < 32 << 20;
            assert!(!is_small || summary.scratch_bytes > 4 << 20, "{summary:?}");
            outs.push(out);
        }
        check([&left, &right], &wanted, &outs[0]);
        assert!(outs.iter().all(|out| *out == outs[0]));
    }
    // If no column of the right table is needed, none of its rows is held.
    for kind in [JoinKind::Semi, JoinKind::Anti] {
        let wanted = of_kind(&["id"], kind);
        let (_, out) = joined([&left, &right], 500, (24 << 20, 1), &wanted).unwrap();
        check([&left, &right], &wanted, &out);
    }
}

#[test]
fn rows_are_looked_up_if_the_right_table_fits_and_sorted_if_not() {
    let draw = &mut Draw::new(9);
    let ids = |draw: &mut Draw, rows: usize| -> ArrayRef {
        let ids = (0..rows).map(|_| (!draw.one_in(50)).then(|| draw.below(30_000) as i64));
        Arc::new(ids.collect::<Int64Array>())
    };
    let texts = |rows: usize| -> ArrayRef {
        let texts = (0..rows).map(|row| Some(format!("{row:0>300}")));
        Arc::new(texts.collect::<StringArray>())
    };
    let left = table(vec![("id", ids(draw, 20_000)), ("l", texts(20_000))]);
    let right = table(vec![("id", ids(draw, 40_000)), ("r", texts(40_000))]);
    for kind in [
        JoinKind::Inner,
        JoinKind::Left,
        JoinKind::Semi,
        JoinKind::Anti,
    ] {
        let sorted = of_kind(&["id"], kind);
        let unordered = Join {
            is_unordered: true,
            ..sorted.clone()
        };
        for (shape, fits) in [
            ((24 << 20, 1), false),
            ((512 << 20, 1), true),
            ((512 << 20, 3), true),
        ] {
            let (summary, out) = joined([&left, &right], 3_000, shape, &unordered).unwrap();
            let is_keyed = matches!(kind, JoinKind::Semi | JoinKind::Anti);
            if fits {
                assert_eq!((summary.scratch_bytes, summary.passes), (0, 1), "{kind:?}");
            }
            match fits || is_keyed {
                true => check([&left, &right], &unordered, &out),
                false => check([&left, &right], &sorted, &out),
            }
        }
    }
    // All pairs of a key with very many rows and a long left row.
    let one = |rows: usize| -> ArrayRef { Arc::new(Int32Array::from_value(1, rows)) };
    let long: StringArray = [Some("x".repeat(100_000)), None].into_iter().collect();
    let left = table(vec![("id", one(2)), ("l", Arc::new(long))]);
    let right = table(vec![("id", one(900))]);
    let mut wanted = of_kind(&["id"], JoinKind::Inner);
    for is_unordered in [true, false] {
        wanted.is_unordered = is_unordered;
        let (_, out) = joined([&left, &right], 100, (128 << 20, 2), &wanted).unwrap();
        check([&left, &right], &wanted, &out);
    }
}

#[test]
fn keys_of_other_types_are_compared_by_value() {
    let cases: Vec<(ArrayRef, ArrayRef, u64)> = vec![
        (
            Arc::new(Int32Array::from_iter_values([1, 2, 3])),
            Arc::new(Int64Array::from_iter_values([3, 1 << 40, 1])),
            2,
        ),
        (
            Arc::new(UInt64Array::from_iter_values([u64::MAX, 5])),
            Arc::new(Int64Array::from_iter_values([-1, 5])),
            1,
        ),
        (
            Arc::new(StringArray::from(vec!["a", "b"])),
            Arc::new(LargeStringArray::from(vec!["b", "c"])),
            1,
        ),
        (
            Arc::new(DictionaryArray::<arrow_array::types::Int32Type>::from_iter(
                ["a", "b", "b"],
            )),
            Arc::new(StringArray::from(vec!["b"])),
            2,
        ),
        (
            Arc::new(Float64Array::from_iter_values([0.0, f64::NAN, -0.0])),
            Arc::new(Float64Array::from_iter_values([-0.0, -f64::NAN])),
            3,
        ),
        (
            Arc::new(Int32Array::from_iter_values([1])),
            Arc::new(Float64Array::from_iter_values([1.0, 1.5])),
            1,
        ),
        (
            Arc::new(Int64Array::from_iter_values([1, 1 << 60])),
            Arc::new(Float64Array::from_iter_values([
                1.0,
                1.5,
                (1u64 << 60) as f64,
            ])),
            2,
        ),
        (
            decimals(&[150, 200], 5, 2),
            decimals(&[1_500, 2_001], 9, 3),
            1,
        ),
        (
            decimals(&[150, 200], 5, 2),
            Arc::new(Int64Array::from_iter_values([2, 3])),
            1,
        ),
        (
            Arc::new(Date32Array::from_iter_values([1, 2])),
            Arc::new(TimestampMillisecondArray::from_iter_values([86_400_000, 2])),
            1,
        ),
        (
            Arc::new(TimestampSecondArray::from_iter_values([1]).with_timezone("+02:00")),
            Arc::new(TimestampMillisecondArray::from_iter_values([1_000]).with_timezone("UTC")),
            1,
        ),
        (
            Arc::new(TimestampSecondArray::from_iter_values([1, 2])),
            Arc::new(TimestampMillisecondArray::from_iter_values([2_000, 2_001])),
            1,
        ),
        (
            Arc::new(Time32SecondArray::from_iter_values([1, 2])),
            Arc::new(Time32MillisecondArray::from_iter_values([2_000, 2_001])),
            1,
        ),
        (
            Arc::new(Time32SecondArray::from_iter_values([1, 86_399])),
            Arc::new(Time64NanosecondArray::from_iter_values([
                86_399_000_000_000,
                1,
            ])),
            1,
        ),
    ];
    for (left, right, expected) in cases {
        let types = format!("{} {}", left.data_type(), right.data_type());
        let (left, right) = (table(vec![("a", left)]), table(vec![("b", right)]));
        let wanted = of_kind(&["a=b"], JoinKind::Inner);
        let (done, _) = joined([&left, &right], 100, (64 << 20, 2), &wanted).unwrap();
        assert_eq!(done.rows_out, expected, "{types}");
        // A full join has every row of both tables, for every type.
        let wanted = of_kind(&["a=b"], JoinKind::Full);
        let (done, out) = joined([&left, &right], 100, (64 << 20, 2), &wanted).unwrap();
        assert!(done.rows_out >= left.num_rows().max(right.num_rows()) as u64);
        assert_eq!(out.column(0).logical_null_count(), 0, "{types}");
    }
    for (left, right) in [
        (DataType::Int64, DataType::Utf8),
        (DataType::Decimal128(5, 2), DataType::Float64),
        (DataType::Boolean, DataType::Int8),
    ] {
        let empty = |name: &str, data_type: &DataType| {
            table(vec![(name, arrow_array::new_empty_array(data_type))])
        };
        let (left, right) = (empty("a", &left), empty("b", &right));
        let wanted = of_kind(&["a=b"], JoinKind::Inner);
        let error = joined([&left, &right], 100, (64 << 20, 2), &wanted).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let told = error.to_string();
        assert!(told.contains("`a`") && told.contains("`b`"), "{told}");
    }
}

#[test]
fn a_key_that_the_other_type_does_not_hold_is_named_and_not_rounded() {
    let left = Int64Array::from_iter_values([1, (1 << 53) + 1]);
    let right = Float64Array::from_iter_values([1.0, (1u64 << 53) as f64]);
    let (left, right) = (
        table(vec![("a", Arc::new(left))]),
        table(vec![("b", Arc::new(right))]),
    );
    let wanted = of_kind(&["a=b"], JoinKind::Inner);
    let error = joined([&left, &right], 100, (64 << 20, 2), &wanted).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("9007199254740993"), "{error}");
}

#[test]
fn names_in_backquotes_may_be_empty_or_hold_what_stands_between_names() {
    for (text, left, right) in [
        ("`a=b`", "a=b", "a=b"),
        ("`a=b`=`c:d`", "a=b", "c:d"),
        ("a=``", "a", ""),
        ("``", "", ""),
        ("a`b", "a`b", "a`b"),
    ] {
        let pair = ColumnPair::parse(text).unwrap();
        assert_eq!((&pair.left[..], &pair.right[..]), (left, right), "{text}");
    }
}

#[test]
fn an_as_of_join_finds_the_last_row_that_is_not_later() {
    let draw = &mut Draw::new(11);
    let mut side = |rows: usize| {
        let stock: StringArray = (0..rows)
            .map(|_| (!draw.one_in(15)).then(|| ["a", "b", "c"][draw.below(3)]))
            .collect();
        let time: Int64Array = (0..rows)
            .map(|_| (!draw.one_in(15)).then(|| draw.below(500) as i64))
            .collect();
        let value = Float64Array::from_iter_values((0..rows).map(|row| row as f64));
        table(vec![
            ("stock", Arc::new(stock)),
            ("time", Arc::new(time)),
            ("value", Arc::new(value)),
        ])
    };
    let (left, right) = (side(700), side(300));
    let text = |batch: &RecordBatch, row: usize| {
        let column = batch.column(0).as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let time = |batch: &RecordBatch, row: usize| {
        let column = batch.column(1).as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    for (tolerance, kind) in [
        (None, JoinKind::Left),
        (Some(20), JoinKind::Left),
        (Some(20), JoinKind::Inner),
    ] {
        let wanted = Join {
            on: on(&["stock"]),
            kind,
            asof: Some(AsOf {
                columns: ColumnPair::parse("time").unwrap(),
                tolerance: tolerance.map(|most: i64| most.to_string()),
            }),
            ..Join::default()
        };
        let (_, out) = joined([&left, &right], 64, (64 << 20, 2), &wanted).unwrap();
        let mut expected = 0;
        let found = out
            .column_by_name("value")
            .unwrap()
            .as_primitive::<Float64Type>();
        let other = out
            .column_by_name("value_right")
            .unwrap()
            .as_primitive::<Float64Type>();
        let mut seen = std::collections::HashMap::new();
        for row in 0..out.num_rows() {
            seen.insert(
                found.value(row) as usize,
                other.is_valid(row).then(|| other.value(row)),
            );
        }
        assert_eq!(seen.len(), out.num_rows(), "each left row once");
        for row in 0..left.num_rows() {
            let key = text(&left, row).zip(time(&left, row));
            let mut best: Option<(i64, usize)> = None;
            for partner in 0..right.num_rows() {
                let (Some((stock, at)), Some((other, then))) =
                    (&key, text(&right, partner).zip(time(&right, partner)))
                else {
                    continue;
                };
                let is_later = best.is_none_or(|(known, _)| then >= known);
                if *stock == other && then <= *at && is_later {
                    best = Some((then, partner));
                }
            }
            let best = best.filter(|(then, _)| {
                tolerance.is_none_or(|most| key.as_ref().is_some_and(|(_, at)| at - then <= most))
            });
            match (seen.get(&row), best) {
                (Some(partner), best) => {
                    assert_eq!(*partner, best.map(|(_, row)| row as f64), "row {row}");
                    expected += 1;
                }
                (None, None) if kind == JoinKind::Inner => {}
                (None, best) => panic!("row {row} is missing: {best:?}"),
            }
        }
        assert_eq!(expected, out.num_rows());
    }
    // Without a key, all rows are one group.
    let wanted = Join {
        asof: Some(AsOf {
            columns: ColumnPair::parse("time").unwrap(),
            tolerance: None,
        }),
        kind: JoinKind::Left,
        ..Join::default()
    };
    let (done, out) = joined([&left, &right], 64, (64 << 20, 2), &wanted).unwrap();
    assert_eq!(done.rows_out, left.num_rows() as u64);
    let times = out
        .column_by_name("time")
        .unwrap()
        .as_primitive::<Int64Type>();
    let times: Vec<i64> = times.iter().flatten().collect();
    assert!(times.is_sorted(), "in the order of time");
}

#[test]
fn names_columns_and_mistakes() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2]));
    let left = table(vec![("id", Arc::clone(&ids)), ("name", Arc::clone(&ids))]);
    let right = table(vec![
        ("key", Arc::clone(&ids)),
        ("name", Arc::clone(&ids)),
        ("more", Arc::clone(&ids)),
    ]);
    let run = |wanted: &Join| joined([&left, &right], 100, (64 << 20, 1), wanted);
    let names = |out: &RecordBatch| {
        let schema = out.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.collect::<Vec<_>>()
    };
    let plain = of_kind(&["id=key"], JoinKind::Inner);
    let (_, out) = run(&plain).unwrap();
    assert_eq!(names(&out), ["id", "name", "name_right", "more"]);
    let chosen = Join {
        columns: Some(vec!["more".to_owned(), "id".to_owned()]),
        ..plain.clone()
    };
    let (_, out) = run(&chosen).unwrap();
    assert_eq!(names(&out), ["more", "id"]);
    assert_eq!(out.num_rows(), 2);

    let asof = |text: &str, tolerance: Option<&str>| AsOf {
        columns: ColumnPair::parse(text).unwrap(),
        tolerance: tolerance.map(str::to_owned),
    };
    let mistakes: Vec<(Join, &str)> = vec![
        (Join::default(), "--on"),
        (of_kind(&["id=kee"], JoinKind::Inner), "did you mean `key`?"),
        (of_kind(&["ids=key"], JoinKind::Inner), "did you mean `id`?"),
        (
            Join {
                suffix: String::new(),
                ..plain.clone()
            },
            "`name`",
        ),
        (
            Join {
                columns: Some(vec!["id".to_owned(), "id".to_owned()]),
                ..plain.clone()
            },
            "twice",
        ),
        (
            Join {
                asof: Some(asof("id=key", None)),
                kind: JoinKind::Full,
                ..Join::default()
            },
            "inner or left",
        ),
        (
            Join {
                asof: Some(asof("id=key", Some("5min"))),
                ..Join::default()
            },
            "5min",
        ),
    ];
    for (wanted, expected) in mistakes {
        let error = run(&wanted).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(ColumnPair::parse("=b").is_err() && ColumnPair::parse("").is_err());
    assert!(JoinKind::parse("outer").is_err());
}
