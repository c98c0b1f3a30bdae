//! Expressions and selections.
//!
//! Contract: the twin of an expression is a closure over one row; the twin of a selection goes row
//! by row. Tables have nulls, NaN, both zeros and the extremes of integers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array, UInt64Array,
};
use arrow_schema::{DataType, Schema};
use outcore::{Kind, Result};
use outcore_table::expr::{Assignment, Expr};
use outcore_table::input::InputOptions;
use outcore_table::jobs::{Selection, TableEnds, TableSummary, copy, select};
use outcore_table::output::{OutputOptions, TableFormat};

use crate::common::{self, Draw, read_parquet, write_parquet};

const WORDS: [&str; 6] = ["de", "fr", "", "Straße", "a_b%", "it's"];

#[derive(Debug, Clone)]
struct Row {
    n: Option<i64>,
    small: Option<u8>,
    f: Option<f64>,
    s: Option<String>,
    x: i64,
}

fn rows(count: usize, seed: u64) -> Vec<Row> {
    let mut draw = Draw::new(seed);
    let floats = [0.0, -0.0, f64::NAN, 1.5, -2.25, f64::INFINITY, 1e300];
    (0..count)
        .map(|row| Row {
            n: (!draw.one_in(6)).then(|| draw.below(40) as i64 - 20),
            small: (!draw.one_in(6)).then(|| draw.below(256) as u8),
            f: (!draw.one_in(6)).then(|| floats[draw.below(floats.len())]),
            s: (!draw.one_in(6)).then(|| WORDS[draw.below(WORDS.len())].to_owned()),
            x: row as i64,
        })
        .collect()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let n: Int64Array = rows.iter().map(|row| row.n).collect();
    let small: UInt8Array = rows.iter().map(|row| row.small).collect();
    let f: Float64Array = rows.iter().map(|row| row.f).collect();
    let s: StringArray = rows.iter().map(|row| row.s.clone()).collect();
    let x = Int64Array::from_iter_values(rows.iter().map(|row| row.x));
    let d: DictionaryArray<arrow_array::types::Int32Type> =
        rows.iter().map(|row| row.s.as_deref()).collect();
    let columns: [(&str, ArrayRef); 6] = [
        ("n", Arc::new(n)),
        ("small", Arc::new(small)),
        ("f", Arc::new(f)),
        ("s", Arc::new(s)),
        ("x", Arc::new(x)),
        ("d", Arc::new(d)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    (b != 0).then(|| (a as f64 / b as f64).floor() as i64)
}

/// NaN is larger than all numbers and equal to itself; zeros are equal.
fn order(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

type Truth = fn(&Row) -> Option<bool>;

const CONDITIONS: &[(&str, Truth)] = &[
    ("n > 3", |row| row.n.map(|n| n > 3)),
    ("3 < n", |row| row.n.map(|n| n > 3)),
    ("n > 2.5", |row| row.n.map(|n| n > 2)),
    ("n <= -1_0", |row| row.n.map(|n| n <= -10)),
    ("x == x", |_| Some(true)),
    ("`x` % 2 = 0 and n != 1", |row| {
        let even = row.x % 2 == 0;
        match row.n {
            Some(n) => Some(even && n != 1),
            None => (!even).then_some(false),
        }
    }),
    ("n > 3 or s == 'de'", |row| {
        match (row.n.map(|n| n > 3), row.s.as_ref().map(|s| s == "de")) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(a), Some(b)) => Some(a || b),
            _ => None,
        }
    }),
    ("not (n > 3)", |row| row.n.map(|n| n <= 3)),
    ("not n > 3", |row| row.n.map(|n| n <= 3)),
    ("n is null", |row| Some(row.n.is_none())),
    ("n IS NOT NULL", |row| Some(row.n.is_some())),
    ("is_null(n + small)", |row| {
        Some(row.n.is_none() || row.small.is_none())
    }),
    ("n == nullif(n, n)", |_| None),
    ("small < 300", |row| row.small.map(|_| true)),
    ("small == 255 or small == -1", |row| {
        row.small.map(|small| small == 255)
    }),
    ("small > n", |row| Some(i64::from(row.small?) > row.n?)),
    ("s in ('de', 'it''s')", |row| {
        row.s.as_ref().map(|s| s == "de" || s == "it's")
    }),
    ("s not in (\"de\")", |row| row.s.as_ref().map(|s| s != "de")),
    ("isin(n, 1, 2, -3)", |row| {
        row.n.map(|n| [1, 2, -3].contains(&n))
    }),
    ("d == 'fr'", |row| row.s.as_ref().map(|s| s == "fr")),
    ("d < s", |row| row.s.as_ref().map(|_| false)),
    ("f == 0", |row| row.f.map(|f| f == 0.0)),
    ("f >= 1.5", |row| row.f.map(|f| order(f, 1.5).is_ge())),
    ("f == f", |row| row.f.map(|_| true)),
    ("isnan(f)", |row| row.f.map(f64::is_nan)),
    ("starts_with(s, 'Str') or ends_with(s, 'b%')", |row| {
        row.s.as_ref().map(|s| s == "Straße" || s == "a_b%")
    }),
    ("contains(s, '')", |row| row.s.as_ref().map(|_| true)),
    ("like(s, 'a\\_b%')", |row| {
        row.s.as_ref().map(|s| s == "a_b%")
    }),
    ("length(s) == 6", |row| {
        row.s.as_ref().map(|s| s == "Straße")
    }),
    ("upper(s) = 'DE'", |row| row.s.as_ref().map(|s| s == "de")),
    ("s + '!' == 'de!'", |row| row.s.as_ref().map(|s| s == "de")),
    ("where(n > 0, true, s is null)", |row| {
        Some(row.n.is_some_and(|n| n > 0) || row.s.is_none())
    }),
    ("try_i64(s) is null", |_| Some(true)),
    ("true", |_| Some(true)),
];

type Number = fn(&Row) -> Option<i64>;

const NUMBERS: &[(&str, Number)] = &[
    ("n * 2 + 1", |row| row.n.map(|n| n * 2 + 1)),
    ("-n", |row| row.n.map(|n| -n)),
    ("2 - -n", |row| row.n.map(|n| 2 + n)),
    ("n // 7", |row| row.n.and_then(|n| floor_div(n, 7))),
    ("n % -7", |row| {
        row.n.map(|n| n - floor_div(n, -7).unwrap() * -7)
    }),
    ("100 // n", |row| row.n.and_then(|n| floor_div(100, n))),
    ("n % (n - n)", |_| None),
    ("small + small", |row| {
        row.small.map(|small| 2 * i64::from(small))
    }),
    ("small - 256", |row| {
        row.small.map(|small| i64::from(small) - 256)
    }),
    ("coalesce(n, i64(small), -1)", |row| {
        Some(row.n.or(row.small.map(i64::from)).unwrap_or(-1))
    }),
    ("abs(n)", |row| row.n.map(i64::abs)),
    ("length(s)", |row| {
        row.s.as_ref().map(|s| s.chars().count() as i64)
    }),
    ("i64(round(n / 4))", |row| {
        row.n.map(|n| (n as f64 / 4.0).round_ties_even() as i64)
    }),
    ("i64(text(n))", |row| row.n),
    ("where(n > 0, n, null)", |row| row.n.filter(|n| *n > 0)),
    ("7", |_| Some(7)),
];

#[test]
fn expressions_mean_what_a_naive_reader_of_rows_makes_of_them() {
    for seed in 0..5 {
        let rows = rows(700, seed);
        let batch = batch(&rows);
        for (text, truth) in CONDITIONS {
            let expr = Expr::parse(text).unwrap();
            let kind = expr.check(&batch.schema()).unwrap();
            let found = expr.evaluate(&batch).unwrap();
            assert_eq!(*found.data_type(), kind, "{text}");
            let expected: BooleanArray = rows.iter().map(truth).collect();
            assert_eq!(found.as_boolean(), &expected, "{text}, seed {seed}");
            let holds = expr.holds(&batch).unwrap();
            let expected: Vec<bool> = rows.iter().map(|row| truth(row) == Some(true)).collect();
            let holds: Vec<bool> = (0..rows.len()).map(|row| holds.value(row)).collect();
            assert_eq!(holds, expected, "{text}, seed {seed}");
        }
        for (text, number) in NUMBERS {
            let found = Expr::parse(text).unwrap().evaluate(&batch).unwrap();
            let expected: Int64Array = rows.iter().map(number).collect();
            assert_eq!(
                found.as_primitive::<Int64Type>(),
                &expected,
                "{text}, seed {seed}"
            );
        }
    }
    // Floats: floor division and remainders as in Python.
    let batch = batch(&[rows(1, 1)[0].clone()]);
    for (text, expected) in [
        ("7.5 // 2", 3.0),
        ("-7.5 // 2", -4.0),
        ("-7.5 % 2", 0.5),
        ("7 / 2", 3.5),
        ("2 * (1 + 2) / 4", 1.5),
        ("sqrt(16)", 4.0),
    ] {
        let found = Expr::parse(text).unwrap().evaluate(&batch).unwrap();
        assert_eq!(
            found.as_primitive::<Float64Type>().value(0),
            expected,
            "{text}"
        );
    }
}

#[test]
fn dates_times_and_decimals_are_compared_with_texts_and_numbers() {
    let date = Date32Array::from(vec![Some(19_723), Some(19_724), None]);
    let time = TimestampMicrosecondArray::from(vec![
        Some(1_704_067_200_000_000),
        Some(1_704_070_800_000_000),
        None,
    ])
    .with_timezone("Europe/Berlin");
    let price = Decimal128Array::from(vec![Some(150), Some(151), None])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let large = UInt64Array::from(vec![Some(u64::MAX), Some(5), None]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("date", Arc::new(date) as ArrayRef, true),
        ("time", Arc::new(time), true),
        ("price", Arc::new(price), true),
        ("large", Arc::new(large), true),
    ])
    .unwrap();
    for (text, expected) in [
        ("date == '2024-01-01'", [true, false]),
        ("date + 1 == '2024-01-02'", [true, false]),
        ("time >= '2024-01-01 01:00:00'", [false, true]),
        ("time == '2024-01-01T02:00:00+01:00'", [false, true]),
        ("date < time", [false, false]),
        ("date(time) == date", [true, false]),
        ("hour(time) == 1", [false, true]),
        ("year(date) == 2024 and weekday(date) == 0", [true, false]),
        ("price > 1.50", [false, true]),
        ("price == 1.505", [false, false]),
        ("price >= 1.5", [true, true]),
        ("price * 2 == 3", [true, false]),
        ("price + 0.01 == 1.51", [true, false]),
        ("large > 9223372036854775807", [true, false]),
        ("large == 18446744073709551615", [true, false]),
        ("large - 5 == 0", [false, true]),
        ("large > -1", [true, true]),
    ] {
        let found = Expr::parse(text).unwrap().evaluate(&batch);
        let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
        let expected = BooleanArray::from(vec![Some(expected[0]), Some(expected[1]), None]);
        assert_eq!(found.as_boolean(), &expected, "{text}");
    }
}

#[test]
fn zeros_and_nans_of_half_floats_are_one_as_those_of_others_are() {
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
    for kind in [DataType::Float16, DataType::Float32, DataType::Float64] {
        let column = arrow_cast::cast(&doubles, &kind).unwrap();
        let batch = RecordBatch::try_from_iter([("f", column)]).unwrap();
        for (text, expected) in [
            ("f == 0.0", [true, true, false, false]),
            ("f != 0.0", [false, false, true, true]),
            ("f > 1.5", [false, false, true, true]),
        ] {
            let found = Expr::parse(text).unwrap().evaluate(&batch).unwrap();
            let expected = BooleanArray::from(expected.to_vec());
            assert_eq!(found.as_boolean(), &expected, "{kind}: {text}");
        }
    }
}

#[test]
fn whole_numbers_and_floats_are_compared_without_rounding() {
    const EXACT_MAX: i64 = 1 << 53;
    let whole = [EXACT_MAX + 1, EXACT_MAX, -EXACT_MAX - 1, i64::MAX, 3, 0];
    let real = [
        EXACT_MAX as f64,
        EXACT_MAX as f64,
        -EXACT_MAX as f64,
        i64::MAX as f64,
        2.5,
        f64::NAN,
    ];
    let large = UInt64Array::from_iter_values([u64::MAX, 1, 1, 1, 1, 1]);
    let single = arrow_array::Float32Array::from(vec![16_777_216.0; 6]);
    let columns: [(&str, ArrayRef); 4] = [
        ("n", Arc::new(Int64Array::from_iter_values(whole))),
        ("f", Arc::new(Float64Array::from_iter_values(real))),
        ("large", Arc::new(large)),
        ("single", Arc::new(single)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (text, expected) in [
        ("n == f", [false, true, false, false, false, false]),
        ("n > f", [true, false, false, false, true, false]),
        ("f < n", [true, false, false, false, true, false]),
        ("n <= f", [false, true, true, true, false, true]),
        ("n in (f, 3.0)", [false, true, false, false, true, false]),
        ("f == 9007199254740993", [false; 6]),
        (
            "f < 9007199254740993",
            [true, true, true, false, true, false],
        ),
        (
            "n == 9007199254740992.0",
            [false, true, false, false, false, false],
        ),
        ("large == 18446744073709551616.0", [false; 6]),
        (
            "f < 18446744073709551616",
            [true, true, true, true, true, false],
        ),
        ("single == 16777217", [false; 6]),
        ("single == 16777216", [true; 6]),
        ("n < 0.5", [false, false, true, false, false, true]),
    ] {
        let found = Expr::parse(text).unwrap().evaluate(&batch).unwrap();
        assert_eq!(
            found.as_boolean(),
            &BooleanArray::from(expected.to_vec()),
            "{text}"
        );
        // Statistics exclude no row group.
        let place = TableFiles::with(std::slice::from_ref(&batch), 1);
        let wanted = selection(&[text], "");
        let (_, out) = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap();
        let count = expected.iter().filter(|is_true| **is_true).count();
        assert_eq!(out.num_rows(), count, "{text}");
    }
}

#[test]
fn what_means_nothing_is_named_before_a_row_is_read() {
    let schema = batch(&rows(3, 1)).schema();
    for (text, cause) in [
        ("n >", "a value is missing at the end"),
        ("n 3", "operator is missing at `3`, character 3"),
        ("(n > 3", "`)` is missing"),
        ("n in 3", "`(` is missing"),
        ("s == 'de", "closing quote"),
        ("1 < n < 3", "do not chain"),
        ("3x > 1", "not a number"),
        ("nn > 3", "no column `nn`"),
        ("n > 'a'", "cannot be compared"),
        ("s + 1", "`+` does not work on text and i64"),
        ("uper(s)", "no function `uper`"),
        ("contains(s)", "takes 2 values"),
        ("contains(n, 'a')", "needs text"),
        ("date('2024-13-01') is null", "2024-13-01"),
    ] {
        let error = Expr::parse(text)
            .and_then(|expr| expr.check(&schema))
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{text}");
        assert!(error.to_string().contains(cause), "{text}: {error}");
    }
    for (text, step) in [
        ("\"s\" = 'de'", "without quotes, or in backquotes"),
        ("'s' in ('de', 'fr')", "without quotes, or in backquotes"),
        ("n > '3'", "without quotes: 3"),
        ("'2.5' < n", "without quotes: 2.5"),
        ("n in (1, '3')", "without quotes: 3"),
        ("-s = 'a'", "it works on numbers"),
        ("s = de", "in quotes: 'de'"),
        ("n == null", "x is null"),
        ("s = 'a' or 'b'", "in ('a', 'b')"),
        ("n > NaN", "isnan(x)"),
        ("s = 'a' + n", "concat(a, b)"),
        ("coalesce(s, n) is null", "text(name)"),
        ("timestamp('2024-01-01') > 1735689600", "epoch(t)"),
        ("1.5 ^ 2 > 2", "a power is x ** 2"),
        ("timestamp('2024-01-01') - 1 is null", "interval '1 hour'"),
    ] {
        let error = Expr::parse(text)
            .and_then(|expr| expr.check(&schema))
            .unwrap_err();
        let given = error.next_step().unwrap_or_default();
        assert!(given.contains(step), "{text}: {error}");
    }
    let deep = "(".repeat(5_000);
    assert!(
        Expr::parse(&deep)
            .unwrap_err()
            .to_string()
            .contains("nested")
    );
    let long = vec!["n > 3"; 2_000].join(" and ");
    assert!(
        Expr::parse(&long)
            .unwrap_err()
            .to_string()
            .contains("parts")
    );
    let truth = Expr::parse("n + 1")
        .unwrap()
        .holds(&batch(&rows(3, 1)))
        .unwrap_err();
    assert!(truth.to_string().contains("truth value"), "{truth}");
    assert!(
        Assignment::parse_all("n * 2")
            .unwrap_err()
            .to_string()
            .contains("needs a name")
    );
    assert!(
        Assignment::parse_all("n == 2")
            .unwrap_err()
            .to_string()
            .contains("needs a name")
    );
    let overflow = Expr::parse("x + 9223372036854775807").unwrap();
    let error = overflow.evaluate(&batch(&rows(3, 1))).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("verflow"), "{error}");
}

pub struct TableFiles {
    dir: tempfile::TempDir,
    inputs: Vec<std::path::PathBuf>,
}

impl TableFiles {
    pub fn with(batches: &[RecordBatch], group_rows: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |number: usize| dir.path().join(format!("in-{number}.parquet"));
        let inputs: Vec<_> = (0..batches.len()).map(path).collect();
        for (path, batch) in inputs.iter().zip(batches) {
            write_parquet(path, batch, group_rows);
        }
        TableFiles { dir, inputs }
    }

    pub fn run(
        &self,
        columns: Option<&[&str]>,
        work: impl Fn(&outcore::Job, &TableEnds<'_>) -> Result<TableSummary>,
    ) -> Result<(TableSummary, RecordBatch)> {
        let job = common::job(64 << 20, 2);
        let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let reads = InputOptions {
            columns,
            ..InputOptions::default()
        };
        let outputs = [self.dir.path().join("out.parquet")];
        let writes = OutputOptions {
            is_replacing: true,
            ..OutputOptions::new(TableFormat::Parquet)
        };
        let ends = TableEnds {
            inputs: &self.inputs,
            reads: &reads,
            outputs: &outputs,
            writes: &writes,
        };
        let done = work(&job, &ends)?;
        assert_eq!(job.budget.used_bytes(), 0);
        let out = read_parquet(&outputs[0]);
        assert_eq!(out.num_rows() as u64, done.rows_out);
        Ok((done, out))
    }
}

pub fn selection(conditions: &[&str], computed: &str) -> Selection {
    let conditions = conditions.iter().map(|text| Expr::parse(text).unwrap());
    Selection {
        conditions: conditions.collect(),
        computed: match computed {
            "" => Vec::new(),
            text => Assignment::parse_all(text).unwrap(),
        },
    }
}

#[test]
fn rows_are_chosen_and_columns_computed_in_the_order_of_the_input() {
    let all = rows(9_000, 3);
    let place = TableFiles::with(&[batch(&all[..5_000]), batch(&all[5_000..])], 700);
    for (text, truth) in CONDITIONS {
        let wanted = selection(&[text, "x >= 100"], "");
        let (done, out) = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap();
        let kept: Vec<Row> = all
            .iter()
            .filter(|row| truth(row) == Some(true) && row.x >= 100)
            .cloned()
            .collect();
        assert_eq!(done.rows_out, kept.len() as u64, "{text}");
        assert!(
            out == arrow_select::concat::concat_batches(&out.schema(), &[batch(&kept)]).unwrap(),
            "{text}"
        );
    }
    let wanted = selection(&["n > 0"], "double = n * 2, x = -x");
    let (_, out) = place
        .run(Some(&["x", "double", "s"]), |job, ends| {
            select(job, ends, &wanted)
        })
        .unwrap();
    let names: Vec<_> = out
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    assert_eq!(names, ["x", "double", "s"]);
    let kept: Vec<&Row> = all
        .iter()
        .filter(|row| row.n.is_some_and(|n| n > 0))
        .collect();
    let x = out.column(0).as_primitive::<Int64Type>();
    let double = out.column(1).as_primitive::<Int64Type>();
    for (place, row) in kept.iter().enumerate() {
        assert_eq!(
            (x.value(place), double.value(place)),
            (-row.x, 2 * row.n.unwrap())
        );
    }
    assert_eq!(kept.len(), out.num_rows());
}

#[test]
fn computed_columns_are_written_whatever_columns_are_chosen() {
    let all = rows(50, 3);
    let place = TableFiles::with(&[batch(&all)], 20);
    let wanted = selection(&[], "double = x * 2, x = -x");
    for (columns, expected) in [
        (&["s"][..], &["s", "double", "x"][..]),
        (&["x", "s"], &["x", "s", "double"]),
        (&["double", "x"], &["double", "x"]),
    ] {
        let (_, out) = place
            .run(Some(columns), |job, ends| select(job, ends, &wanted))
            .unwrap();
        let schema = out.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(out["double"].as_primitive::<Int64Type>().value(7), 14);
    }
}

#[test]
fn computed_columns_see_those_before_them_and_the_position_of_their_row() {
    let all = rows(900, 3);
    let place = TableFiles::with(&[batch(&all[..500]), batch(&all[500..])], 70);
    let wanted = selection(
        &["index >= 100"],
        "p = index, q = p * 2, s as word, x = -x, r = x + q, n as d",
    );
    let (_, out) = place
        .run(None, |job, ends| select(job, ends, &wanted))
        .unwrap();
    let schema = out.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    // `s` and `n` are renamed in place; `n` takes the place of the old `d`.
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["d", "small", "f", "word", "x", "p", "q", "r"]);
    assert_eq!(out.num_rows(), 800);
    let number = |name: &str, row: usize| {
        let column = arrow_cast::cast(&out[name], &DataType::Int64).unwrap();
        column.as_primitive::<Int64Type>().value(row)
    };
    for row in [0, 1, 399, 400, 799] {
        let position = row as i64 + 100;
        assert_eq!(number("p", row), position);
        assert_eq!(number("q", row), 2 * position);
        // The input's own column, not the computed one.
        assert_eq!(
            (number("x", row), number("r", row)),
            (-position, 3 * position)
        );
        let n = arrow_array::cast::AsArray::as_primitive::<Int64Type>(&out["d"]);
        assert_eq!(n.is_valid(row).then(|| n.value(row)), all[row + 100].n);
    }
}

#[test]
fn an_error_in_a_row_whose_result_is_not_used_does_not_count() {
    let batch = batch(&rows(300, 7));
    for (text, sum) in [
        ("where(x < 10, i8(x), 0)", 45),
        (
            "case when x > 299 then i8(x) when x < 3 then x else 1 end",
            300,
        ),
        ("where(x < 100 and i8(x) < 5, 1, 0)", 5),
        ("where(x >= 100 or i8(x) < 5, 1, 0)", 205),
        ("case when s like 'no%' then i64(s) else 2 end", 600),
    ] {
        let found = Expr::parse(text).unwrap().evaluate(&batch).unwrap();
        let found = arrow_cast::cast(&found, &DataType::Int64).unwrap();
        let found = found.as_primitive::<Int64Type>();
        assert_eq!(found.iter().flatten().sum::<i64>(), sum, "{text}");
    }
    let error = Expr::parse("where(x < 200, i8(x), 0)").unwrap();
    assert!(error.evaluate(&batch).is_err());
}

#[test]
fn a_row_at_fault_is_named_by_its_number_in_its_file() {
    let mut all = rows(1_000, 3);
    all.iter_mut().for_each(|row| row.n = Some(1));
    all[700].n = Some(i64::MAX);
    let others = batch(&rows(10, 4));
    let place = TableFiles::with(&[others, batch(&all)], 300);
    for (conditions, computed) in [
        (&[][..], "m = n + 1"),
        (&["x >= 300"], "m = n * 2"),
        (&["n + 1 > 0"], ""),
        (&["x > 500 and n + 1 > 0"], ""),
        (&[], "m = i8(n)"),
    ] {
        let wanted = selection(conditions, computed);
        let error = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap_err();
        assert!(error.cause().starts_with("row 700: "), "{error}");
        assert!(
            error.file_path().unwrap().ends_with("in-1.parquet"),
            "{error}"
        );
        assert!(error.next_step().is_some(), "{error}");
    }
}

#[test]
fn row_groups_that_cannot_match_are_not_read() {
    let all = rows(40_000, 4);
    let place = TableFiles::with(&[batch(&all)], 1_000);
    let (whole, _) = place.run(None, copy).unwrap();
    for text in [
        "x >= 20000 and x < 20500",
        "20_000 <= x and x <= 20499",
        "x in (20001, 20499)",
        "isin(x, 20001) and n is not null",
        "x == 20001",
    ] {
        let wanted = selection(&[text], "");
        let (done, out) = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap();
        assert!(
            done.read_bytes * 10 < whole.read_bytes,
            "{text}: {} of {}",
            done.read_bytes,
            whole.read_bytes
        );
        let expr = Expr::parse(text).unwrap();
        let count = expr.holds(&batch(&all)).unwrap().true_count();
        assert_eq!(out.num_rows(), count, "{text}");
    }
    // Conditions that statistics cannot decide exclude nothing.
    for text in [
        "x + 0 == 20001",
        "x == 20001 or n == 5",
        "f > 1e299",
        "not x == 3",
    ] {
        let wanted = selection(&[text], "");
        let (_, out) = place
            .run(None, |job, ends| select(job, ends, &wanted))
            .unwrap();
        let count = Expr::parse(text)
            .unwrap()
            .holds(&batch(&all))
            .unwrap()
            .true_count();
        assert_eq!(out.num_rows(), count, "{text}");
    }
}

#[test]
fn a_selection_that_means_nothing_leaves_nothing() {
    let place = TableFiles::with(&[batch(&rows(100, 5))], 50);
    for (conditions, computed, columns) in [
        (&["nn > 3"][..], "", None),
        (&["n + 1"], "", None),
        (&[], "a = b", None),
        (&["n > 3"], "a = n", Some(&["b"][..])),
        (&["x + 9223372036854775807 > 0"], "", None),
        (&[], "a = i64(s)", None),
    ] {
        let wanted = selection(conditions, computed);
        let error = place
            .run(columns, |job, ends| select(job, ends, &wanted))
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert_eq!(
            std::fs::read_dir(place.dir.path()).unwrap().count(),
            1,
            "{error}"
        );
    }
    let schema: &Schema = &batch(&rows(1, 1)).schema();
    assert_eq!(*schema.field(0).data_type(), DataType::Int64);
}
