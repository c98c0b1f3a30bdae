//! Irregular text: lines that end with CR, blank lines, null texts, bad rows, numbers that JSON
//! lacks.
//!
//! Contract: text that pandas, DuckDB or pyarrow accept is read with the same values. Skipped rows
//! are counted, and the kept rows do not depend on the selected columns.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use outcore_table::input::{InputOptions, OnBadRow, TextOptions, null_texts, parse_types};
use outcore_table::jobs::{TableEnds, copy};
use outcore_table::output::{OutputOptions, TableFormat};

use crate::common::{self, read_parquet};

/// Reads a file of this name and text; returns the table and the messages about bad rows.
fn table(
    name: &str,
    text: &[u8],
    options: TextOptions,
) -> outcore::Result<(RecordBatch, Vec<String>)> {
    columns_of(name, text, None, options)
}

fn columns_of(
    name: &str,
    text: &[u8],
    columns: Option<Vec<String>>,
    options: TextOptions,
) -> outcore::Result<(RecordBatch, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join(name)];
    std::fs::write(&inputs[0], text).unwrap();
    let outputs = [dir.path().join("out.parquet")];
    let reads = InputOptions {
        text: Some(options),
        columns,
        ..InputOptions::default()
    };
    let format = TableFormat::of_name(Path::new("out.parquet")).unwrap();
    let writes = OutputOptions::new(format);
    let ends = TableEnds {
        inputs: &inputs,
        reads: &reads,
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(64 << 20, 2);
    let done = copy(&job, &ends)?;
    assert_eq!(job.budget.used_bytes(), 0);
    let table = read_parquet(&outputs[0]);
    assert_eq!(done.rows_out, table.num_rows() as u64);
    assert_eq!(done.rows_in, done.rows_out);
    Ok((table, reads.text.unwrap().bad_rows.take()))
}

fn on_bad(on_bad: OnBadRow) -> TextOptions {
    TextOptions {
        on_bad,
        ..TextOptions::default()
    }
}

fn integers(table: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    table
        .column(column)
        .as_primitive::<Int64Type>()
        .iter()
        .collect()
}

fn texts(table: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    table.column(column).as_string::<i32>().iter().collect()
}

#[test]
fn lines_that_end_with_a_carriage_return_alone_are_rows() {
    let text = b"\xef\xbb\xbfa,b\r1,\"x\r\ny\"\r\r2,z";
    let (rows, _) = table("t.csv", text, TextOptions::default()).unwrap();
    assert_eq!(integers(&rows, 0), [Some(1), Some(2)]);
    assert_eq!(texts(&rows, 1), [Some("x\r\ny"), Some("z")]);
    let error = table("t.csv", b"a,b\r1,2\r3\r", TextOptions::default()).unwrap_err();
    assert!(error.cause().starts_with("line 3: 1 field"), "{error}");
}

#[test]
fn whole_numbers_keep_all_digits_whatever_stands_around_them() {
    let text = b"id,u,f\n1,1,0.5\n9007199254740993 ,18446744073709551615,0.1234567890123456789\n";
    let (rows, _) = table("t.csv", text, TextOptions::default()).unwrap();
    assert_eq!(integers(&rows, 0), [Some(1), Some(9_007_199_254_740_993)]);
    let types: Vec<String> = rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.data_type().to_string())
        .collect();
    assert_eq!(types, ["Int64", "UInt64", "Utf8"]);
    assert_eq!(texts(&rows, 2)[1], Some("0.1234567890123456789"));
    // If floats are requested, each is the nearest one.
    let options = TextOptions {
        schema: parse_types("f:f64").unwrap(),
        ..TextOptions::default()
    };
    let (rows, _) = table("t.csv", text, options).unwrap();
    let floats = rows.column(2).as_primitive::<Float64Type>();
    assert_eq!(floats.value(1), 0.123_456_789_012_345_68);
}

#[test]
fn null_texts_are_null_in_columns_of_every_type() {
    let text = b"n,t,d\n1,NA,2024-01-01\nNA,\"NA\",NULL\n3,\"\",NA\n";
    let nulls = |list: &[&str]| TextOptions {
        nulls: null_texts(
            &list
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>(),
        ),
        ..TextOptions::default()
    };
    for list in [&["NA", "NULL"][..], &["pandas"]] {
        let (rows, _) = table("t.csv", text, nulls(list)).unwrap();
        assert_eq!(integers(&rows, 0), [Some(1), None, Some(3)]);
        assert_eq!(texts(&rows, 1), [None, None, Some("")]);
        assert_eq!(rows.column(2).null_count(), 2);
        assert_eq!(rows.column(2).data_type().to_string(), "Date32");
    }
    let error = table("t.jsonl", b"{\"a\":1}\n", nulls(&["NA"])).unwrap_err();
    assert!(error.cause().contains("for CSV"), "{error}");
}

#[test]
fn bad_rows_are_left_out_or_filled_with_nulls_and_counted_whatever_is_read_of_them() {
    let text = b"a,b,c\n1,2,x\n3\n4,five,y\n6,7,z,8\n9,10,\xff\n \n11,12,w\n";
    let types = || parse_types("a:i64,b:i64,c:text").unwrap();
    let options = |on_bad| TextOptions {
        schema: types(),
        on_bad,
        ..TextOptions::default()
    };
    for columns in [None, Some(vec!["a".to_owned()])] {
        let (rows, said) =
            columns_of("t.csv", text, columns.clone(), options(OnBadRow::Skip)).unwrap();
        assert_eq!(integers(&rows, 0), [Some(1), Some(11)]);
        assert_eq!(said.len(), 1);
        assert!(
            said[0].starts_with("left out 4 bad rows; the first: line 3: 1 field"),
            "{said:?}"
        );
        let (rows, said) = columns_of("t.csv", text, columns, options(OnBadRow::Null)).unwrap();
        assert_eq!(integers(&rows, 0), [1, 3, 4, 9, 11].map(Some));
        assert!(
            said[0].starts_with("left out 1 bad row and read 4 bad values as null"),
            "{said:?}"
        );
    }
    let (rows, _) = table("t.csv", text, options(OnBadRow::Null)).unwrap();
    assert_eq!(
        integers(&rows, 1),
        [Some(2), None, None, Some(10), Some(12)]
    );
    assert_eq!(
        texts(&rows, 2),
        [Some("x"), None, Some("y"), None, Some("w")]
    );
    let (_, said) = table("t.csv", b"a\n1\n", options(OnBadRow::Skip))
        .map_or((None, Vec::new()), |(rows, said)| (Some(rows), said));
    assert!(said.is_empty());
}

#[test]
fn bad_lines_of_json_are_left_out_or_filled_alike() {
    let text = b"{\"a\":1,\"b\":{\"c\":2}}\nnonsense\n\n{\"a\":\"x\",\"b\":null}\n{\"a\":4,\"b\":[1]}\n{\"a\":5,\"z\":[1,{}]}\n{\"a\":6,\"a\":7}\n{\"a\":8}\n";
    let options = |on_bad| TextOptions {
        schema: parse_types("a:i64,b:struct<c:i64>,z:i64").unwrap(),
        on_bad,
        ..TextOptions::default()
    };
    for columns in [None, Some(vec!["a".to_owned()])] {
        let (rows, said) =
            columns_of("t.jsonl", text, columns.clone(), options(OnBadRow::Skip)).unwrap();
        assert_eq!(integers(&rows, 0), [Some(1), Some(8)]);
        assert!(
            said[0].starts_with("left out 5 bad rows; the first: line 2"),
            "{said:?}"
        );
        let (rows, said) = columns_of("t.jsonl", text, columns, options(OnBadRow::Null)).unwrap();
        assert_eq!(
            integers(&rows, 0),
            [Some(1), None, Some(4), Some(5), Some(8)]
        );
        assert!(
            said[0].starts_with("left out 2 bad rows and read 3 bad values as null"),
            "{said:?}"
        );
    }
}

#[test]
fn json_lines_may_hold_nan_marks_blank_lines_and_halves_of_characters_that_nobody_reads() {
    let text = b"\xef\xbb\xbf{\"x\":1.5,\"s\":\"\\ud800\"}\n\n{\"x\":NaN,\"s\":{\"y\":-Infinity}}\n{\"x\":-Infinity,\"s\":1}\n";
    let schema = || TextOptions {
        schema: parse_types("x:f64,s:text").unwrap(),
        ..TextOptions::default()
    };
    let (rows, _) = columns_of("t.jsonl", text, Some(vec!["x".to_owned()]), schema()).unwrap();
    let floats: Vec<f64> = rows
        .column(0)
        .as_primitive::<Float64Type>()
        .values()
        .to_vec();
    assert!(floats[0] == 1.5 && floats[1].is_nan() && floats[2] == f64::NEG_INFINITY);
    let error = table("t.jsonl", text, schema()).unwrap_err();
    assert!(error.cause().starts_with("line 1: not JSON"), "{error}");
    assert!(error.next_step().unwrap().contains("--on-error null"));
    // A sample with only NaN is inferred as floats.
    let (rows, _) = table(
        "t.jsonl",
        b"{\"x\":NaN}\n{\"x\":Infinity}\n",
        TextOptions::default(),
    )
    .unwrap();
    assert_eq!(rows.column(0).data_type().to_string(), "Float64");
}

#[test]
fn a_table_without_rows_that_was_written_as_json_lines_is_read_again() {
    let options = TextOptions {
        schema: parse_types("a:i64").unwrap(),
        ..TextOptions::default()
    };
    for text in [&b""[..], b"\n\n"] {
        let (rows, _) = table("t.jsonl", text, options.clone()).unwrap();
        assert_eq!((rows.num_rows(), rows.num_columns()), (0, 1));
    }
    assert!(table("t.csv", b"", on_bad(OnBadRow::Fail)).is_err());
}
