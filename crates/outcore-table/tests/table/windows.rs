//! Window columns, which depend on a row's place in its group.
//!
//! Contract: the naive twin sorts row numbers by groups and orders, with comparators of single
//! values, and treats each row's group as a slice.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;
use outcore::{Kind, Result};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{TableEnds, TableSummary, Window, WindowColumn, window};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, Kinds, read_parquet, write_parquet};

fn wanted(by: &[&str], order: &[&str], added: &str) -> Window {
    let keys = |names: &[&str]| {
        let keys = names.iter().map(|name| KeyColumn::parse(name).unwrap());
        keys.collect::<Vec<_>>()
    };
    Window {
        by: keys(by),
        order: keys(order),
        columns: WindowColumn::parse_list(added).unwrap(),
        first: None,
    }
}

/// Computes columns of `batch` in a directory of its own.
fn windowed(
    batch: &RecordBatch,
    group_rows: usize,
    (memory_bytes, threads): (u64, usize),
    wanted: &Window,
) -> Result<(TableSummary, RecordBatch)> {
    let dir = tempfile::tempdir().unwrap();
    let inputs: [PathBuf; 1] = [dir.path().join("in.parquet")];
    write_parquet(&inputs[0], batch, group_rows);
    let outputs = [dir.path().join("out.parquet")];
    let writes = OutputOptions::new(TableFormat::Parquet);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(memory_bytes, threads);
    let done = window(&job, &ends, wanted);
    assert_eq!(job.budget.used_bytes(), 0);
    let names = std::fs::read_dir(dir.path()).unwrap().count();
    let summary = done.inspect_err(|_| assert_eq!(names, 1, "nothing is left"))?;
    assert_eq!(names, 2, "the output, and no scratch");
    let out = read_parquet(&outputs[0]);
    assert_eq!(summary.rows_out, out.num_rows() as u64);
    assert_eq!(summary.rows_in, batch.num_rows() as u64);
    Ok((summary, out))
}

/// Compares rows of a column of integers, floats or strings.
fn compared(column: &ArrayRef, key: &KeyColumn, one: usize, other: usize) -> Ordering {
    let nulls = |is_null: bool| is_null != key.is_nulls_first;
    let by_nulls = nulls(column.is_null(one)).cmp(&nulls(column.is_null(other)));
    if column.is_null(one) || column.is_null(other) {
        return by_nulls;
    }
    let found = match column.data_type() {
        DataType::Int32 => {
            let column = column.as_primitive::<arrow_array::types::Int32Type>();
            column.value(one).cmp(&column.value(other))
        }
        DataType::Float64 => {
            let column = column.as_primitive::<Float64Type>();
            let plain = |row: usize| match column.value(row) {
                value if value.is_nan() => f64::NAN,
                value => value + 0.0,
            };
            plain(one).total_cmp(&plain(other))
        }
        _ => {
            let column = column.as_string::<i32>();
            column.value(one).cmp(column.value(other))
        }
    };
    match key.is_descending {
        true => found.reverse(),
        false => found,
    }
}

/// Returns the rows in order, each with the indexes of its group's first row and of the row after
/// its last.
fn twin(batch: &RecordBatch, wanted: &Window) -> Vec<(usize, usize, usize)> {
    let by = |keys: &[KeyColumn], one: usize, other: usize| {
        let each = keys.iter().map(|key| {
            let column = batch.column_by_name(&key.name).unwrap();
            compared(column, key, one, other)
        });
        each.fold(Ordering::Equal, Ordering::then)
    };
    let mut rows: Vec<usize> = (0..batch.num_rows()).collect();
    rows.sort_by(|&one, &other| by(&wanted.by, one, other).then(by(&wanted.order, one, other)));
    let mut out = Vec::new();
    let mut from = 0;
    for place in 0..rows.len() {
        if by(&wanted.by, rows[from], rows[place]).is_ne() {
            from = place;
        }
        let same = |other: &&usize| by(&wanted.by, rows[from], **other).is_eq();
        let to = match out.last() {
            Some(&(_, before, to)) if before == from => to,
            _ => from + rows[from..].iter().take_while(same).count(),
        };
        out.push((rows[place], from, to));
    }
    out
}

/// Users of some countries, with numbers that repeat.
fn visits(rows: usize, users: usize, seed: u64) -> RecordBatch {
    let mut draw = Draw::new(seed);
    let user: Int32Array = (0..rows)
        .map(|_| (!draw.one_in(30)).then(|| draw.below(users) as i32))
        .collect();
    let time: Float64Array = (0..rows)
        .map(|_| {
            let some = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, -7.0, 1e300];
            match draw.one_in(4) {
                true => Some(some[draw.below(some.len())]),
                false => (!draw.one_in(20)).then(|| draw.below(500) as f64),
            }
        })
        .collect();
    let country: StringArray = (0..rows)
        .map(|_| (!draw.one_in(20)).then(|| "xy".repeat(draw.below(7))))
        .collect();
    let bytes: Int64Array = (0..rows)
        .map(|_| (!draw.one_in(3)).then(|| draw.word() as i64 >> 30))
        .collect();
    let page: StringArray = (0..rows)
        .map(|_| (!draw.one_in(5)).then(|| format!("/{}", draw.below(100_000))))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("user", Arc::new(user)),
        ("time", Arc::new(time)),
        ("country", Arc::new(country)),
        ("bytes", Arc::new(bytes)),
        ("page", Arc::new(page)),
    ];
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

const ALL: &str = "n=row_number,r=rank(),d=dense_rank,lag(page),b=lag(bytes,3),lead(page),l=lead(bytes,5),f=first(page),\
                   s=cum_sum(bytes),t=cum_sum(time),low=cum_min(time),high=cum_max(page)";

/// Checks each column of [`ALL`].
fn check(batch: &RecordBatch, out: &RecordBatch, wanted: &Window) {
    let rows = twin(batch, wanted);
    assert_eq!(out.num_rows(), rows.len());
    let taken = |name: &str, from: &dyn Fn(usize) -> Option<usize>| {
        let places: UInt32Array = (0..rows.len())
            .map(|place| from(place).map(|found| rows[found].0 as u32))
            .collect();
        take(batch.column_by_name(name).unwrap(), &places, None).unwrap()
    };
    let found = |name: &str| Arc::clone(out.column_by_name(name).unwrap());
    for field in batch.schema().fields() {
        let name = field.name();
        let expected = taken(name, &Some);
        assert_eq!(found(name).to_data(), expected.to_data(), "{name}");
    }
    let before = |place: usize, by: usize| place.checked_sub(by).filter(|&at| at >= rows[place].1);
    let behind = |place: usize, by: usize| Some(place + by).filter(|&at| at < rows[place].2);
    assert!(found("lag(page)") == taken("page", &|place| before(place, 1)));
    assert!(found("b") == taken("bytes", &|place| before(place, 3)));
    assert!(found("lead(page)") == taken("page", &|place| behind(place, 1)));
    assert!(found("l") == taken("bytes", &|place| behind(place, 5)));
    assert!(found("f") == taken("page", &|place| Some(rows[place].1)));
    for (name, of, wanted) in [
        ("low", "time", Ordering::Less),
        ("high", "page", Ordering::Greater),
    ] {
        let column = batch.column_by_name(of).unwrap();
        let (found, key) = (found(name), KeyColumn::new(of));
        let mut best: Option<usize> = None;
        for (place, &(row, from, _)) in rows.iter().enumerate() {
            best = best.filter(|_| place != from);
            let is_better = |best: usize| compared(column, &key, row, best) == wanted;
            if column.is_valid(row) && best.is_none_or(is_better) {
                best = Some(row);
            }
            let both = [found.slice(place, 1), column.slice(best.unwrap_or(0), 1)];
            assert_eq!(found.is_valid(place), best.is_some(), "{name} {place}");
            if best.is_some() {
                let both = arrow_select::concat::concat(&[&both[0], &both[1]]).unwrap();
                assert!(compared(&both, &key, 0, 1).is_eq(), "{name} {place}");
            }
        }
    }
    let whole = |name: &str| found(name).as_primitive::<Int64Type>().clone();
    let (numbers, ranks, dense, sums) = (whole("n"), whole("r"), whole("d"), whole("s"));
    let bytes = batch.column_by_name("bytes").unwrap();
    let bytes = bytes.as_primitive::<Int64Type>();
    let times = batch.column_by_name("time").unwrap();
    let times = times.as_primitive::<Float64Type>();
    let reals = found("t");
    let reals = reals.as_primitive::<Float64Type>();
    let is_peer = |one: usize, other: usize| {
        wanted.order.iter().all(|key| {
            let column = batch.column_by_name(&key.name).unwrap();
            compared(column, key, one, other).is_eq()
        })
    };
    let (mut rank, mut ranked) = (0, 0);
    let (mut sum, mut real): (Option<i64>, Option<f64>) = (None, None);
    for (place, &(row, from, _)) in rows.iter().enumerate() {
        let number = (place - from + 1) as i64;
        if number == 1 {
            (rank, ranked, sum, real) = (1, 1, None, None);
        } else if !is_peer(rows[place - 1].0, row) {
            (rank, ranked) = (number, ranked + 1);
        }
        if bytes.is_valid(row) {
            sum = Some(sum.unwrap_or(0) + bytes.value(row));
        }
        if times.is_valid(row) {
            real = Some(real.map_or(times.value(row), |real| real + times.value(row)));
        }
        let seen = (numbers.value(place), ranks.value(place), dense.value(place));
        assert_eq!(seen, (number, rank, ranked), "row {place}");
        assert_eq!(sums.is_valid(place).then(|| sums.value(place)), sum);
        let shown = reals.is_valid(place).then(|| reals.value(place));
        assert_eq!(shown.is_none(), real.is_none());
        if let (Some(shown), Some(real)) = (shown, real) {
            let is_same = shown.to_bits() == real.to_bits() || (shown.is_nan() && real.is_nan());
            assert!(is_same, "row {place}: {shown} {real}");
        }
    }
}

#[test]
fn columns_are_those_of_a_naive_twin_and_the_same_for_any_memory_and_threads() {
    let cases: [(usize, Window); 5] = [
        (40, wanted(&["user"], &["time"], ALL)),
        (
            1_000_000,
            wanted(&["user"], &["time:desc:nulls-first"], ALL),
        ),
        (9, wanted(&["country:desc", "user"], &["page", "time"], ALL)),
        (9, wanted(&["time"], &["country", "page:desc"], ALL)),
        (9, wanted(&["country"], &[], ALL)),
    ];
    for (users, wanted) in cases {
        let batch = visits(30_000, users, 1);
        let mut seen: Option<RecordBatch> = None;
        for (memory_bytes, threads) in [(20 << 20, 1), (40 << 20, 3), (512 << 20, 2)] {
            let shape = (memory_bytes, threads);
            let (_, out) = windowed(&batch, 8_000, shape, &wanted).unwrap();
            match &seen {
                None => {
                    check(&batch, &out, &wanted);
                    seen = Some(out);
                }
                Some(seen) => {
                    for (one, other) in seen.columns().iter().zip(out.columns()) {
                        assert_eq!(one.to_data(), other.to_data(), "{shape:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn one_group_that_does_not_fit_goes_through_scratch() {
    let batch = visits(200_000, 1000, 3);
    for order in [&["time"][..], &[]] {
        let wanted = wanted(&[], order, ALL);
        let (summary, out) = windowed(&batch, 50_000, (16 << 20, 1), &wanted).unwrap();
        assert!(summary.scratch_bytes > 0);
        check(&batch, &out, &wanted);
    }
}

#[test]
fn the_first_rows_of_each_group_are_kept_and_computed_of_all() {
    let batch = visits(20_000, 300, 4);
    let all = wanted(&["user"], &["time:desc"], ALL);
    let few = Window {
        first: Some(3),
        ..all.clone()
    };
    let shape = (64 << 20, 2);
    let (_, out) = windowed(&batch, 5_000, shape, &all).unwrap();
    let (_, kept) = windowed(&batch, 5_000, shape, &few).unwrap();
    let numbers = out.column_by_name("n").unwrap();
    let numbers = numbers.as_primitive::<Int64Type>();
    let places = (0..out.num_rows() as u32).filter(|&row| numbers.value(row as usize) <= 3);
    let places = UInt32Array::from_iter_values(places);
    for (one, other) in out.columns().iter().zip(kept.columns()) {
        assert_eq!(take(one, &places, None).unwrap().to_data(), other.to_data());
    }
    let none = Window {
        first: Some(1),
        columns: Vec::new(),
        ..all
    };
    let (_, kept) = windowed(&batch, 5_000, shape, &none).unwrap();
    assert_eq!(kept.schema().fields().len(), 5);
    assert_eq!(kept.num_rows(), 301, "null is a group");
}

#[test]
fn what_is_looked_at_is_held_if_it_fits() {
    let batch = visits(50_000, 3, 5);
    let far = wanted(&["user"], &["time"], "a=lag(user,9000),b=lead(user,12000)");
    let (_, out) = windowed(&batch, 20_000, (256 << 20, 2), &far).unwrap();
    let rows = twin(&batch, &far);
    let (a, b) = (
        out.column_by_name("a").unwrap(),
        out.column_by_name("b").unwrap(),
    );
    for (place, &(_, from, to)) in rows.iter().enumerate() {
        let user = |place: usize| batch.column(0).slice(rows[place].0, 1);
        match place >= from + 9000 {
            true => assert!(a.slice(place, 1) == user(place - 9000), "{place}"),
            false => assert!(a.is_null(place), "{place}"),
        }
        match place + 12_000 < to {
            true => assert!(b.slice(place, 1) == user(place + 12_000), "{place}"),
            false => assert!(b.is_null(place), "{place}"),
        }
    }
    let too_far = wanted(&[], &["time"], "lag(user,190000)");
    let batch = visits(200_000, 3, 5);
    let error = windowed(&batch, 20_000, (16 << 20, 1), &too_far).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    assert!(error.to_string().contains("lag"), "{error}");
}

#[test]
fn what_is_asked_for_in_vain_is_named() {
    let batch = visits(100, 10, 6);
    let fail = |wanted: Window| {
        let error = windowed(&batch, 50, (64 << 20, 1), &wanted).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        error.to_string()
    };
    assert!(fail(wanted(&["usr"], &[], "rank")).contains("`user`"));
    assert!(fail(wanted(&["user"], &["tme"], "rank")).contains("`time`"));
    assert!(fail(wanted(&["user"], &[], "lag(byte)")).contains("`bytes`"));
    assert!(fail(wanted(&["user"], &[], "cum_sum(page)")).contains("`page` is of type"));
    assert!(fail(wanted(&["user"], &[], "cum_min(tme)")).contains("`time`"));
    assert!(fail(wanted(&["user"], &[], "user=rank")).contains("`user`"));
    let nothing = Window {
        columns: Vec::new(),
        ..wanted(&["user"], &[], "rank")
    };
    assert!(fail(nothing).contains("no column"));
    let large = Int64Array::from(vec![i64::MAX, 1]);
    let batch = RecordBatch::try_from_iter([("x", Arc::new(large) as ArrayRef)]).unwrap();
    let error = windowed(&batch, 50, (64 << 20, 1), &wanted(&[], &[], "s=cum_sum(x)")).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("`s`"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_of_any_schema_have_neighbours_and_numbers(seed in any::<u64>(), rows in 0usize..300) {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        let batch = common::in_groups(&mut draw, &schema, rows);
        let mut added = vec!["n=row_number".to_owned()];
        for (number, field) in schema.fields().iter().enumerate() {
            added.push(format!("lag{number}=lag({},2)", field.name()));
            added.push(format!("lead{number}=lead({})", field.name()));
            added.push(format!("first{number}=first({})", field.name()));
        }
        let wanted = wanted(&["k"], &[], &added.join(","));
        let (_, out) = windowed(&batch, 70, (256 << 20, 2), &wanted).unwrap();
        let order = twin(&batch, &wanted);
        let as_rows = |column: &ArrayRef| {
            let field = SortField::new_with_options(column.data_type().clone(), SortOptions::default());
            let converter = RowConverter::new(vec![field]).unwrap();
            converter.convert_columns(&[Arc::clone(column)]).unwrap()
        };
        for (number, field) in schema.fields().iter().enumerate() {
            let read = Arc::clone(out.column_by_name(field.name()).unwrap());
            if !RowConverter::supports_fields(&[SortField::new(read.data_type().clone())]) {
                continue;
            }
            let plain = as_rows(&read);
            let column = |what: &str| Arc::clone(out.column_by_name(&format!("{what}{number}")).unwrap());
            let (lag, lead, first) = (column("lag"), column("lead"), column("first"));
            prop_assert_eq!(lag.data_type(), read.data_type());
            let (lag_rows, lead_rows, first_rows) = (as_rows(&lag), as_rows(&lead), as_rows(&first));
            for (place, &(_, from, to)) in order.iter().enumerate() {
                match place >= from + 2 {
                    true => prop_assert!(lag_rows.row(place) == plain.row(place - 2)),
                    false => prop_assert!(lag.is_null(place)),
                }
                match place + 1 < to {
                    true => prop_assert!(lead_rows.row(place) == plain.row(place + 1)),
                    false => prop_assert!(lead.is_null(place)),
                }
                prop_assert!(first_rows.row(place) == plain.row(from));
            }
        }
    }
}
