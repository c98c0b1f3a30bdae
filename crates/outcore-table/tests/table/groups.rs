//! Groups of tables.
//!
//! Contract: the naive twin adds the rows one by one to a tree of groups, and keeps all values of
//! each.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::take::take;
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{Aggregate, TableEnds, TableSummary, group_by};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};

/// Groups the tables `batches` in a directory of their own.
fn grouped(
    batches: &[RecordBatch],
    group_rows: usize,
    (memory_bytes, threads): (u64, usize),
    (keys, aggregates): (&[KeyColumn], &str),
) -> Result<(TableSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let path = |number: usize| dir.path().join(format!("in-{number}.parquet"));
    let inputs: Vec<PathBuf> = (0..batches.len()).map(path).collect();
    for (path, batch) in inputs.iter().zip(batches) {
        write_parquet(path, batch, group_rows);
    }
    let outputs = [dir.path().join("out.parquet")];
    let writes = OutputOptions::new(TableFormat::Parquet);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(memory_bytes, threads);
    let done = group_by(&job, &ends, keys, &Aggregate::parse_list(aggregates)?);
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let summary = done.inspect_err(|_| assert_eq!(names, inputs.len(), "nothing is left"))?;
    assert_eq!(names, inputs.len() + 1, "the output, and no scratch");
    let out = read_parquet(&outputs[0]);
    assert_eq!(summary.rows_out, out.num_rows() as u64);
    Ok((summary, out))
}

/// Users of some countries, with nullable integers, floats, decimals and texts.
fn visits(rows: usize, users: usize, seed: u64) -> RecordBatch {
    let mut draw = Draw::new(seed);
    let countries = ["de", "fr", "us", "br", "in", ""];
    let country: StringArray = (0..rows)
        .map(|_| (!draw.one_in(20)).then(|| countries[draw.below(6)]))
        .collect();
    let user: Int32Array = (0..rows)
        .map(|_| (!draw.one_in(30)).then(|| draw.below(users) as i32 - users as i32 / 2))
        .collect();
    let bytes: Int64Array = (0..rows)
        .map(|_| (!draw.one_in(9)).then(|| draw.word() as i64 >> 24))
        .collect();
    let ms: Float64Array = (0..rows)
        .map(|_| {
            (!draw.one_in(9))
                .then(|| (draw.word() as i64) as f64 / 1e9 / (1 + draw.below(1000)) as f64)
        })
        .collect();
    let price: Decimal128Array = (0..rows)
        .map(|_| (!draw.one_in(5)).then(|| i128::from(draw.word() as i64 >> 20)))
        .collect();
    let price = price.with_precision_and_scale(30, 2).unwrap();
    let text: StringArray = (0..rows)
        .map(|_| {
            (!draw.one_in(4)).then(|| "x".repeat(draw.below(40)) + &draw.below(90).to_string())
        })
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("country", Arc::new(country)),
        ("user", Arc::new(user)),
        ("bytes", Arc::new(bytes)),
        ("ms", Arc::new(ms)),
        ("price", Arc::new(price)),
        ("text", Arc::new(text)),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap()
}

/// Returns the rows of each group of `batch`, in the order of the keys in arrow-row's form.
fn twin(batch: &RecordBatch, keys: &[KeyColumn]) -> Vec<Vec<u32>> {
    let fields = keys.iter().map(|key| {
        let column = batch.column_by_name(&key.name).unwrap();
        let options = arrow_schema::SortOptions {
            descending: key.is_descending,
            nulls_first: key.is_nulls_first,
        };
        SortField::new_with_options(column.data_type().clone(), options)
    });
    let converter = RowConverter::new(fields.collect()).unwrap();
    let columns: Vec<ArrayRef> = keys
        .iter()
        .map(|key| Arc::clone(batch.column_by_name(&key.name).unwrap()))
        .collect();
    let rows = converter.convert_columns(&columns).unwrap();
    let mut groups: BTreeMap<Vec<u8>, Vec<u32>> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        groups
            .entry(row.data().to_vec())
            .or_default()
            .push(number as u32);
    }
    groups.into_values().collect()
}

/// The rows with values that are not null, of some rows.
fn values(column: &ArrayRef, rows: &[u32]) -> Vec<u32> {
    rows.iter()
        .copied()
        .filter(|row| column.is_valid(*row as usize))
        .collect()
}

fn check_visits(all: &RecordBatch, out: &RecordBatch, keys: &[KeyColumn]) {
    let groups = twin(all, keys);
    assert_eq!(out.num_rows(), groups.len());
    let column = |name: &str| Arc::clone(all.column_by_name(name).unwrap());
    let found = |name: &str| Arc::clone(out.column_by_name(name).unwrap());
    for key in keys {
        let firsts = UInt32Array::from_iter_values(groups.iter().map(|rows| rows[0]));
        let expected = take(&column(&key.name), &firsts, None).unwrap();
        assert!(found(&key.name) == expected, "keys, in order");
    }
    let (bytes, ms, price, text) = (
        column("bytes"),
        column("ms"),
        column("price"),
        column("text"),
    );
    let (bytes_of, ms_of) = (
        bytes.as_primitive::<Int64Type>(),
        ms.as_primitive::<Float64Type>(),
    );
    let (price_of, text_of) = (
        price.as_primitive::<Decimal128Type>(),
        text.as_string::<i32>(),
    );
    for (group, rows) in groups.iter().enumerate() {
        let whole = |name: &str| {
            let column = found(name);
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(group).then(|| column.value(group))
        };
        let real = |name: &str| {
            let column = found(name);
            let column = column.as_primitive::<Float64Type>();
            column.is_valid(group).then(|| column.value(group))
        };
        let word = |name: &str| {
            let column = found(name);
            let column = column.as_string::<i32>();
            column
                .is_valid(group)
                .then(|| column.value(group).to_owned())
        };
        let here: Vec<i64> = values(&bytes, rows)
            .into_iter()
            .map(|row| bytes_of.value(row as usize))
            .collect();
        let sum: i64 = here.iter().sum();
        assert_eq!(whole("count"), Some(rows.len() as i64));
        assert_eq!(whole("count(bytes)"), Some(here.len() as i64));
        assert_eq!(whole("sum(bytes)"), (!here.is_empty()).then_some(sum));
        assert_eq!(whole("min(bytes)"), here.iter().min().copied());
        assert_eq!(whole("max(bytes)"), here.iter().max().copied());
        let mean = (!here.is_empty()).then(|| sum as f64 / here.len() as f64);
        assert_eq!(real("mean(bytes)"), mean);
        let floats: Vec<f64> = values(&ms, rows)
            .into_iter()
            .map(|row| ms_of.value(row as usize))
            .collect();
        let (sum, size) = (
            floats.iter().sum::<f64>(),
            floats.iter().map(|ms| ms.abs()).sum::<f64>(),
        );
        match real("sum(ms)") {
            None => assert!(floats.is_empty()),
            Some(found) => assert!((found - sum).abs() <= size * 1e-12, "{found} {sum}"),
        }
        let prices = values(&price, rows);
        let expected: i128 = prices.iter().map(|row| price_of.value(*row as usize)).sum();
        let sums = found("sum(price)");
        assert_eq!(sums.data_type(), &DataType::Decimal128(38, 2));
        let sums = sums.as_primitive::<Decimal128Type>();
        assert_eq!(
            sums.is_valid(group).then(|| sums.value(group)),
            (!prices.is_empty()).then_some(expected)
        );
        let texts: Vec<&str> = values(&text, rows)
            .into_iter()
            .map(|row| text_of.value(row as usize))
            .collect();
        assert_eq!(word("min(text)").as_deref(), texts.iter().min().copied());
        assert_eq!(word("max(text)").as_deref(), texts.iter().max().copied());
        let end = |row: u32| {
            text_of
                .is_valid(row as usize)
                .then(|| text_of.value(row as usize))
        };
        assert_eq!(word("first(text)").as_deref(), end(rows[0]));
        assert_eq!(word("last(text)").as_deref(), end(rows[rows.len() - 1]));
        let distinct: std::collections::HashSet<&str> = texts.iter().copied().collect();
        if out.column_by_name("count_distinct(text)").is_some() {
            assert_eq!(whole("count_distinct(text)"), Some(distinct.len() as i64));
            let mut sorted = here.clone();
            sorted.sort_unstable();
            let quantile = |tenths: usize| {
                let place = tenths * sorted.len().checked_sub(1)?;
                let low = sorted[place / 10] as f64;
                let high = sorted[place.div_ceil(10)] as f64;
                Some(low + (high - low) * ((place % 10) as f64 / 10.0))
            };
            assert_eq!(real("median(bytes)"), quantile(5));
            assert_eq!(real("quantile(bytes,0.9)"), quantile(9));
        }
    }
}

const PLAIN: &str = "count,count(bytes),sum(bytes),min(bytes),max(bytes),mean(bytes),sum(ms),sum(price),min(text),\
                     max(text),first(text),last(text)";

#[test]
fn groups_are_those_of_a_naive_twin_and_the_same_for_any_memory_and_threads() {
    let ordered = format!("{PLAIN},count_distinct(text),median(bytes),quantile(bytes,0.9)");
    let user = KeyColumn::new("user").descending().nulls_first();
    let cases: [(usize, Vec<KeyColumn>, &str); 4] = [
        (300, vec![KeyColumn::new("country")], &ordered),
        (300, vec![user.clone(), KeyColumn::new("country")], &ordered),
        (1_000_000, vec![user.clone()], PLAIN),
        (1_000_000, vec![KeyColumn::new("country"), user], &ordered),
    ];
    for (users, keys, aggregates) in cases {
        let batches = [visits(70_000, users, 1), visits(30_000, users, 2)];
        let all = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
        let mut seen: Option<RecordBatch> = None;
        for (memory_bytes, threads) in [(20 << 20, 1), (40 << 20, 3), (512 << 20, 2)] {
            let shape = (memory_bytes, threads);
            let (summary, out) = grouped(&batches, 20_000, shape, (&keys, aggregates)).unwrap();
            assert_eq!(summary.rows_in, 100_000);
            match &seen {
                None => {
                    let is_large = users > 1000;
                    assert!(
                        !is_large || summary.scratch_bytes > 0,
                        "it went through scratch"
                    );
                    check_visits(&all, &out, &keys);
                    seen = Some(out);
                }
                Some(seen) => assert!(out == *seen, "{shape:?}: to the bit"),
            }
        }
    }
}

#[test]
fn a_group_that_is_nearly_all_rows_is_put_together_in_little_memory() {
    let rows = 200_000;
    let mut draw = Draw::new(5);
    let key = Int64Array::from_iter_values(
        (0..rows).map(|row| if draw.one_in(100) { row as i64 } else { -1 }),
    );
    let value = Int64Array::from_iter_values((0..rows).map(|_| draw.word() as i64));
    let expected: Vec<i64> = (0..rows)
        .filter(|row| key.value(*row) == -1)
        .map(|row| value.value(row))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![("k", Arc::new(key)), ("v", Arc::new(value))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let keys = [KeyColumn::new("k")];
    for (memory_bytes, threads) in [(14 << 20, 1), (24 << 20, 2)] {
        let shape = (memory_bytes, threads);
        let aggregates = "count_distinct(v),median(v),count";
        let (summary, out) = grouped(
            std::slice::from_ref(&batch),
            50_000,
            shape,
            (&keys, aggregates),
        )
        .unwrap();
        assert!(summary.scratch_bytes > 0);
        let mut sorted = expected.clone();
        sorted.sort_unstable();
        let middle = (sorted.len() - 1) / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle] as f64,
            _ => sorted[middle] as f64 + (sorted[middle + 1] as f64 - sorted[middle] as f64) * 0.5,
        };
        sorted.dedup();
        assert_eq!(
            out.column(1).as_primitive::<Int64Type>().value(0),
            sorted.len() as i64
        );
        assert_eq!(out.column(2).as_primitive::<Float64Type>().value(0), median);
        assert_eq!(
            out.column(3).as_primitive::<Int64Type>().value(0),
            expected.len() as i64
        );
    }
}

/// Returns for each group the row that `by` puts first; among equal rows, the first one. Rows with
/// a null value are ignored.
fn extreme_rows(
    batch: &RecordBatch,
    groups: &[Vec<u32>],
    (of, by): (&str, &str),
    is_max: bool,
) -> Vec<Option<u32>> {
    let of = batch.column_by_name(of).unwrap();
    let by = batch
        .column_by_name(by)
        .unwrap()
        .as_primitive::<Int64Type>();
    let best = |rows: &Vec<u32>| {
        let mut best: Option<u32> = None;
        for &row in rows {
            let place = row as usize;
            if of.is_null(place) || by.is_null(place) {
                continue;
            }
            let is_better = best.is_none_or(|best| match is_max {
                true => by.value(place) > by.value(best as usize),
                false => by.value(place) < by.value(best as usize),
            });
            if is_better {
                best = Some(row);
            }
        }
        best
    };
    groups.iter().map(best).collect()
}

#[test]
fn arg_min_and_arg_max_give_the_value_of_the_first_row_that_has_the_extreme() {
    let whole = visits(30_000, 5000, 11);
    let batches = [whole.slice(0, 17_000), whole.slice(17_000, 13_000)];
    for (name, users) in [("country", 6), ("user", 5000)] {
        let keys = [KeyColumn::new(name)];
        let rows = twin(&whole, &keys);
        assert!(rows.len() > users / 2);
        let asked =
            "arg_min(text,small) as low,high=arg_max(text, bytes // 1000000000),max_by(ms,small)";
        let small: ArrayRef = Arc::new(
            whole
                .column_by_name("bytes")
                .unwrap()
                .as_primitive::<Int64Type>()
                .unary::<_, Int64Type>(|value| value % 7),
        );
        let coarse: ArrayRef = Arc::new(
            whole
                .column_by_name("bytes")
                .unwrap()
                .as_primitive::<Int64Type>()
                .unary::<_, Int64Type>(|value| value.div_euclid(1_000_000_000)),
        );
        let with = |batch: &RecordBatch, more: &[(&str, ArrayRef)]| {
            let named = batch.schema_ref().fields().iter().zip(batch.columns());
            let named =
                named.map(|(field, column)| (field.name().clone(), Arc::clone(column), true));
            let more = more
                .iter()
                .map(|(name, column)| ((*name).to_owned(), Arc::clone(column), true));
            RecordBatch::try_from_iter_with_nullable(named.chain(more)).unwrap()
        };
        let wide = with(&whole, &[("small", small.clone()), ("coarse", coarse)]);
        let inputs = [
            with(&batches[0], &[("small", small.slice(0, 17_000))]),
            with(&batches[1], &[("small", small.slice(17_000, 13_000))]),
        ];
        for shape in [(64 << 20, 1), (256 << 20, 3)] {
            let (_, out) = grouped(&inputs, 1000, shape, (&keys, asked)).unwrap();
            let wanted = [
                ("low", "text", "small", false),
                ("high", "text", "coarse", true),
                ("max_by(ms,small)", "ms", "small", true),
            ];
            for (result, of, by, is_max) in wanted {
                let rows = extreme_rows(&wide, &rows, (of, by), is_max);
                let rows = UInt32Array::from(rows);
                let expected = take(whole.column_by_name(of).unwrap(), &rows, None).unwrap();
                assert_eq!(
                    out.column_by_name(result).unwrap(),
                    &expected,
                    "{name} {result}"
                );
            }
        }
    }
}

#[test]
fn aggregates_of_expressions_are_those_of_a_column_of_their_values() {
    let batch = visits(5000, 40, 12);
    let keys = [KeyColumn::new("country")];
    let asked = "twice=sum(bytes * 2 + 1),sum(case when ms > 0 then 1 else 0 end) as over,\
        count_distinct(lower(replace(text, '), (', ''))),count(*),q=quantile(abs(ms), 0.5)";
    let (_, out) = grouped(
        std::slice::from_ref(&batch),
        700,
        (64 << 20, 2),
        (&keys, asked),
    )
    .unwrap();
    let groups = twin(&batch, &keys);
    assert_eq!(out.num_rows(), groups.len());
    let bytes = batch
        .column_by_name("bytes")
        .unwrap()
        .as_primitive::<Int64Type>();
    let ms = batch
        .column_by_name("ms")
        .unwrap()
        .as_primitive::<Float64Type>();
    let text = batch.column_by_name("text").unwrap().as_string::<i32>();
    for (place, rows) in groups.iter().enumerate() {
        let rows = || rows.iter().map(|&row| row as usize);
        let number = |column: usize| out.column(column).as_primitive::<Int64Type>().value(place);
        let present = rows().filter(|&row| bytes.is_valid(row));
        assert_eq!(
            number(1),
            present.map(|row| bytes.value(row) * 2 + 1).sum::<i64>()
        );
        let over = rows().filter(|&row| ms.is_valid(row) && ms.value(row) > 0.0);
        assert_eq!(number(2), over.count() as i64);
        let texts = rows()
            .filter(|&row| text.is_valid(row))
            .map(|row| text.value(row));
        assert_eq!(
            number(3),
            texts.collect::<std::collections::BTreeSet<_>>().len() as i64
        );
        assert_eq!(number(4), rows().count() as i64);
        let mut reals: Vec<f64> = rows()
            .filter(|&row| ms.is_valid(row))
            .map(|row| ms.value(row).abs())
            .collect();
        reals.sort_by(f64::total_cmp);
        let (low, high) = (reals[(reals.len() - 1) / 2], reals[reals.len() / 2]);
        let median = out.column(5).as_primitive::<Float64Type>().value(place);
        assert!((median - f64::midpoint(low, high)).abs() <= 1e-9 * median.abs());
    }
    // A column whose name could be an expression is the column.
    let odd: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1, 1]));
    let batch =
        RecordBatch::try_from_iter([("a", Arc::clone(&one)), ("b", one), ("a-b", odd)]).unwrap();
    let (_, out) = grouped(&[batch], 5, (64 << 20, 1), (&[], "sum(a-b),sum(a - b)")).unwrap();
    let sums: Vec<i64> = (0..2)
        .map(|at| out.column(at).as_primitive::<Int64Type>().value(0))
        .collect();
    assert_eq!(sums, [11, 0]);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![5, 6]));
    let batch = RecordBatch::try_from_iter([("s", text), ("n", number)]).unwrap();
    let asked = "arg_max(concat(s, ','), n),sum((n)),sum(((`n`)))";
    let (_, out) = grouped(&[batch], 5, (64 << 20, 1), (&[], asked)).unwrap();
    assert_eq!(out.column(0).as_string::<i32>().value(0), "y,");
    let sums: Vec<i64> = (1..3)
        .map(|at| out.column(at).as_primitive::<Int64Type>().value(0))
        .collect();
    assert_eq!(sums, [11, 11]);
}

#[test]
fn a_value_that_an_expression_cannot_have_is_named_by_its_row() {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, i64::MAX, 4]));
    let error = one_group(values, "sum(x * 2)").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("row 2"), "{error}");
}

#[test]
fn without_a_key_all_rows_are_one_group_even_if_there_are_none() {
    let whole = visits(20_000, 50, 13);
    let asked =
        "count,sum(bytes),min(text),median(user),count_distinct(country),arg_max(text,bytes)";
    for rows in [0, 1, 20_000] {
        let batch = whole.slice(0, rows);
        let mut outputs = Vec::new();
        for shape in [(64 << 20, 1), (256 << 20, 3)] {
            let (summary, out) =
                grouped(std::slice::from_ref(&batch), 1000, shape, (&[], asked)).unwrap();
            assert_eq!(
                (summary.rows_in, out.num_rows(), out.num_columns()),
                (rows as u64, 1, 6)
            );
            assert_eq!(
                out.column(0).as_primitive::<Int64Type>().value(0),
                rows as i64
            );
            let bytes = batch
                .column_by_name("bytes")
                .unwrap()
                .as_primitive::<Int64Type>();
            let sum = (bytes.null_count() < rows).then(|| bytes.iter().flatten().sum::<i64>());
            let found = out.column(1).as_primitive::<Int64Type>();
            assert_eq!(found.iter().next().unwrap(), sum);
            let text = batch.column_by_name("text").unwrap().as_string::<i32>();
            let found = out.column(2).as_string::<i32>();
            assert_eq!(found.iter().next().unwrap(), text.iter().flatten().min());
            assert_eq!(out.column(3).is_null(0), rows == 0);
            outputs.push(out);
        }
        assert_eq!(outputs[0], outputs[1]);
    }
    let (_, out) = grouped(&[whole], 1000, (64 << 20, 2), (&[], "count")).unwrap();
    assert_eq!(out.column(0).as_primitive::<Int64Type>().value(0), 20_000);
}

fn one_group(column: ArrayRef, aggregates: &str) -> Result<RecordBatch> {
    let key = Int32Array::from_value(7, column.len());
    let columns: Vec<(&str, ArrayRef)> = vec![("k", Arc::new(key)), ("x", column)];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let keys = [KeyColumn::new("k")];
    grouped(&[batch.unwrap()], 3, (64 << 20, 2), (&keys, aggregates)).map(|(_, out)| out)
}

#[test]
fn a_sum_that_its_type_does_not_hold_is_named_and_one_that_comes_back_is_right() {
    let sum = |values: Vec<i64>| one_group(Arc::new(Int64Array::from(values)), "sum(x)");
    let out = sum(vec![i64::MAX, i64::MAX, i64::MIN, i64::MIN, 5, 2]).unwrap();
    assert_eq!(out.column(1).as_primitive::<Int64Type>().value(0), 5);
    let error = sum(vec![i64::MAX, 1]).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(
        error.to_string().contains("sum(x)") && error.to_string().contains("i64"),
        "{error}"
    );
    let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, 0]));
    let out = one_group(unsigned, "sum(x)").unwrap();
    assert_eq!(
        out.column(1).as_primitive::<UInt64Type>().value(0),
        u64::MAX
    );
    let largest = 10_i128.pow(38) - 1;
    let decimal = |values: Vec<i128>| {
        let array = Decimal128Array::from(values)
            .with_precision_and_scale(38, 0)
            .unwrap();
        one_group(Arc::new(array), "sum(x)")
    };
    assert!(decimal(vec![largest, 0]).is_ok());
    assert_eq!(decimal(vec![largest, 1]).unwrap_err().kind(), Kind::Usage);
}

#[test]
fn quantiles_have_the_digits_of_their_columns() {
    let asked = "median(x),quantile(x,0.75),quantile_disc(x,0.5),quantile_disc(x,0.75)";
    let of = |column: ArrayRef| one_group(column, asked).unwrap();
    let whole = of(Arc::new(Int64Array::from(vec![
        i64::MAX,
        i64::MAX - 2,
        3,
        i64::MAX - 1,
    ])));
    assert_eq!(*whole.column(1).data_type(), DataType::Float64);
    assert_eq!(
        whole.column(3).as_primitive::<Int64Type>().value(0),
        i64::MAX - 2
    );
    assert_eq!(
        whole.column(4).as_primitive::<Int64Type>().value(0),
        i64::MAX - 1
    );

    let large = 10_i128.pow(30);
    let prices = Decimal128Array::from(vec![large + 4, large + 1, large + 2, large + 8]);
    let kind = DataType::Decimal128(38, 2);
    let prices = of(Arc::new(prices.with_data_type(kind.clone())));
    // The interpolated values are 3 and 5, or 0.03 and 0.05.
    for (column, expected) in [(1, 3), (2, 5), (3, 2), (4, 4)] {
        assert_eq!(*prices.column(column).data_type(), kind);
        let found = prices.column(column).as_primitive::<Decimal128Type>();
        assert_eq!(found.value(0), large + expected, "{column}");
    }
    for (pair, expected) in [([1, 2], 1), ([-2, -1], -1)] {
        let pair = Decimal128Array::from(pair.to_vec()).with_data_type(kind.clone());
        let found = of(Arc::new(pair));
        let found = found.column(1).as_primitive::<Decimal128Type>();
        assert_eq!(found.value(0), expected, "cut off as DuckDB does");
    }

    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    for (pair, expected) in [([0, 1], 1), ([2, 3], 3), ([-1, 0], 0), ([-2, -1], -1)] {
        let column = arrow_array::TimestampMicrosecondArray::from(pair.to_vec());
        let found = of(Arc::new(column));
        assert_eq!(*found.column(1).data_type(), micros);
        let found = found.column(1).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(found.value(0), expected, "rounded as DuckDB does");
    }
    let dates = of(Arc::new(arrow_array::Date32Array::from(vec![
        Some(-1),
        Some(2),
        None,
    ])));
    let middle = dates.column(1).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(middle.value(0), 43_200_000_000, "half a day");
    assert_eq!(*dates.column(3).data_type(), DataType::Date32);

    let words = one_group(
        Arc::new(StringArray::from(vec!["d", "b", "a", "c"])),
        "quantile_disc(x,0.5),quantile_disc(x,0),quantile_disc(x,1)",
    );
    let words = words.unwrap();
    let word = |column: usize| words.column(column).as_string::<i32>().value(0);
    assert_eq!([word(1), word(2), word(3)], ["b", "a", "d"]);
    // A part of 0.1 over ten steps is exactly one step.
    let steps = Decimal128Array::from_iter_values((0..22).map(|step| -1000 + 10 * step));
    let steps = Arc::new(steps.with_data_type(kind.clone()));
    let found = one_group(steps, "quantile(x,0.1)").unwrap();
    let found = found.column(1).as_primitive::<Decimal128Type>();
    assert_eq!(found.value(0), -1000 + 21);
    // DuckDB 2.0: select quantile_disc(x, [...]) from range(10).
    for (part, expected) in [
        (0.1, 0),
        (0.25, 2),
        (0.3, 2),
        (0.5, 4),
        (0.75, 7),
        (0.9, 8),
        (0.99, 9),
    ] {
        let column = Arc::new(Int64Array::from_iter_values(0..10));
        let found = one_group(column, &format!("quantile_disc(x,{part})")).unwrap();
        assert_eq!(
            found.column(1).as_primitive::<Int64Type>().value(0),
            expected,
            "{part}"
        );
    }
    let none = of(Arc::new(Decimal128Array::from(vec![None::<i128>])));
    assert!((1..5).all(|column| none.column(column).is_null(0)));
}

#[test]
fn zeros_are_one_group_and_so_are_all_nans() {
    let key = Float64Array::from(vec![
        Some(0.0),
        Some(-0.0),
        Some(f64::NAN),
        Some(-f64::NAN),
        None,
        None,
    ]);
    let batch = RecordBatch::try_from_iter([("k", Arc::new(key) as ArrayRef)]).unwrap();
    let keys = [KeyColumn::new("k")];
    let (_, out) = grouped(&[batch], 2, (64 << 20, 1), (&keys, "count")).unwrap();
    assert_eq!(
        out.column(1).as_primitive::<Int64Type>().values(),
        &[2, 2, 2]
    );
    assert!(
        out.column(0)
            .as_primitive::<Float64Type>()
            .value(1)
            .is_nan()
    );
}

#[test]
fn first_and_last_give_floats_to_the_bit() {
    let values = [-0.0, 1.0, -f64::NAN];
    let floats: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
    let out = one_group(floats, "first(x),last(x),min(x),count_distinct(x)").unwrap();
    let bits = |column: usize| {
        out.column(column)
            .as_primitive::<Float64Type>()
            .value(0)
            .to_bits()
    };
    assert_eq!(
        [bits(1), bits(2)],
        [values[0].to_bits(), values[2].to_bits()]
    );
    assert_eq!(f64::from_bits(bits(3)), 0.0);
    assert_eq!(out.column(4).as_primitive::<Int64Type>().value(0), 3);
}

#[test]
fn what_is_asked_for_in_vain_is_named() {
    let batch = visits(100, 10, 3);
    let fail = |keys: &[KeyColumn], aggregates: &str| {
        let batches = std::slice::from_ref(&batch);
        let error = grouped(batches, 50, (64 << 20, 1), (keys, aggregates)).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        error.to_string()
    };
    let by = [KeyColumn::new("country")];
    assert!(fail(&[KeyColumn::new("contry")], "count").contains("country"));
    assert!(fail(&by, "sum(byte)").contains("bytes"));
    assert!(fail(&by, "sum(text)").contains("`text` is of type"));
    assert!(fail(&by, "median(text)").contains("`text` is of type"));
    assert!(fail(&by, "count,count").contains("`count`"));
    assert!(fail(&by, "sum(bytes +)").contains("bytes +"));
    assert!(fail(&by, "sum(bytes + text)").contains("text"));
    assert!(fail(&by, "arg_min(user,byte)").contains("bytes"));
    assert!(fail(&by, "sum(byte * 2)").contains("bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn groups_of_any_schema_have_first_last_least_greatest_and_numbers(seed in any::<u64>(), rows in 0usize..300) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        let batch = common::in_groups(&mut draw, &schema, rows);
        let keys = [KeyColumn::new("k")];
        let list: Vec<String> = schema.fields().iter().map(|field| {
            let name = field.name();
            format!("min({name}),max({name}),first({name}),last({name}),count_distinct({name}),count({name})")
        }).collect();
        let shape = (256 << 20, 1 + draw.below(3));
        match grouped(std::slice::from_ref(&batch), 1 + draw.below(200), shape, (&keys, &list.join(","))) {
            Err(error) => prop_assert_eq!(error.kind(), Kind::Usage, "{}", error),
            Ok((_, out)) => {
                let groups = twin(&batch, &keys);
                prop_assert_eq!(out.num_rows(), groups.len());
                for (place, field) in schema.fields().iter().enumerate() {
                    check_column(batch.column(place), &groups, (&out, field.name()))?;
                    if field.data_type().is_floating() {
                        continue;
                    }
                    let keys = [KeyColumn::new(field.name())];
                    let (_, out) = grouped(std::slice::from_ref(&batch), 1 + draw.below(200), shape, (&keys, "count")).unwrap();
                    let counts: Vec<i64> = twin(&batch, &keys).iter().map(|rows| rows.len() as i64).collect();
                    prop_assert_eq!(out.column(1).as_primitive::<Int64Type>().values(), &counts[..]);
                }
            }
        }
    }
}

/// Compares values by their bytes, in order; in floats, all zeros are one value, and all NaNs are
/// one.
fn check_column(
    column: &ArrayRef,
    groups: &[Vec<u32>],
    (out, name): (&RecordBatch, &str),
) -> std::result::Result<(), TestCaseError> {
    let bytes = |array: &ArrayRef| {
        let array: ArrayRef = match array.data_type() {
            DataType::Float64 => Arc::new(
                array
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { x + 0.0 }),
            ),
            DataType::Float32 => Arc::new(
                array
                    .as_primitive::<arrow_array::types::Float32Type>()
                    .unary::<_, arrow_array::types::Float32Type>(|x| {
                    if x.is_nan() { f32::NAN } else { x + 0.0 }
                }),
            ),
            DataType::Float16 => return None,
            _ => Arc::clone(array),
        };
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())]).unwrap();
        Some(converter.convert_columns(&[array]).unwrap())
    };
    let Some(rows) = bytes(column) else {
        return Ok(());
    };
    let found = |what: &str| {
        let array = out.column_by_name(&format!("{what}({name})")).unwrap();
        (bytes(array).unwrap(), Arc::clone(array))
    };
    let nulls = column.logical_nulls();
    let is_valid = |row: u32| {
        nulls
            .as_ref()
            .is_none_or(|nulls| nulls.is_valid(row as usize))
    };
    let (min, max, first, last) = (found("min"), found("max"), found("first"), found("last"));
    let count = |what: &str, group: usize| {
        let column = out.column_by_name(&format!("{what}({name})")).unwrap();
        column.as_primitive::<Int64Type>().value(group)
    };
    for (group, members) in groups.iter().enumerate() {
        let mut valid: Vec<&[u8]> = members
            .iter()
            .filter(|row| is_valid(**row))
            .map(|row| rows.row(*row as usize).data())
            .collect();
        valid.sort_unstable();
        prop_assert_eq!(count("count", group), valid.len() as i64);
        match (valid.first(), valid.last()) {
            (Some(least), Some(greatest)) => {
                prop_assert!(
                    min.0.row(group).data() == *least,
                    "min of {}",
                    column.data_type()
                );
                prop_assert!(
                    max.0.row(group).data() == *greatest,
                    "max of {}",
                    column.data_type()
                );
            }
            _ => prop_assert!(min.1.is_null(group) && max.1.is_null(group)),
        }
        let end = |row: u32| rows.row(row as usize).data();
        prop_assert!(
            first.0.row(group).data() == end(members[0]),
            "first of {}",
            column.data_type()
        );
        prop_assert!(
            last.0.row(group).data() == end(members[members.len() - 1]),
            "last of {}",
            column.data_type()
        );
        valid.dedup();
        prop_assert_eq!(count("count_distinct", group), valid.len() as i64);
    }
    Ok(())
}
