//! Reads tables from CSV and JSON lines, and writes tables in these formats.
//!
//! Contract: text is written by the JSON library, or by a naive writer that quotes at random. The
//! values from which the text was made are the expected result; outcore's own text is read by the
//! same readers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Date32Type, Decimal128Type, TimestampMicrosecondType};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use outcore::{Kind, Result};
use outcore_table::input::{InputOptions, TextKind, TextOptions, parse_types};
use outcore_table::jobs::{TableEnds, TableOrder, TableSummary, copy, sort};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use proptest::prelude::*;

use crate::common::{self, Draw, read_parquet, write_parquet};

fn reads(schema: &str) -> InputOptions {
    InputOptions {
        text: Some(TextOptions {
            schema: match schema {
                "" => Vec::new(),
                schema => parse_types(schema).unwrap(),
            },
            ..TextOptions::default()
        }),
        ..InputOptions::default()
    }
}

/// Copies files to the output, in the format of its extension.
fn converted(
    (inputs, reads): (&[PathBuf], &InputOptions),
    output: &Path,
    (memory_bytes, threads): (u64, usize),
) -> Result<TableSummary> {
    let format = TableFormat::of_name(output).unwrap();
    let mut writes = OutputOptions::new(format).named(output, None).unwrap();
    writes.is_replacing = true;
    let outputs = [output.to_path_buf()];
    let ends = TableEnds {
        inputs,
        reads,
        outputs: &outputs,
        writes: &writes,
    };
    let job = common::job(memory_bytes, threads);
    let done = copy(&job, &ends);
    assert_eq!(job.budget.used_bytes(), 0);
    done
}

/// A column of a type, with the texts of its values in CSV and JSON.
fn column(
    draw: &mut Draw,
    rows: usize,
    kind: usize,
) -> (&'static str, ArrayRef, Vec<Option<String>>) {
    let is_null = |draw: &mut Draw| draw.one_in(6);
    let words: Vec<Option<u64>> = (0..rows)
        .map(|_| (!is_null(draw)).then(|| draw.word()))
        .collect();
    let texts = |text: &dyn Fn(u64) -> String| -> Vec<Option<String>> {
        words.iter().map(|word| word.map(text)).collect()
    };
    let each =
        |value: &dyn Fn(u64) -> i64| words.iter().map(|word| word.map(value)).collect::<Vec<_>>();
    match kind {
        0 => {
            let value = |word: u64| word as i64 >> (word % 64);
            let array = Int64Array::from(each(&value));
            (
                "i64",
                Arc::new(array),
                texts(&|word| value(word).to_string()),
            )
        }
        1 => {
            let value = |word: u64| (word >> 3) as u8;
            let array: UInt8Array = words.iter().map(|word| word.map(value)).collect();
            (
                "u8",
                Arc::new(array),
                texts(&|word| value(word).to_string()),
            )
        }
        2 => {
            let value = |word: u64| match f64::from_bits(word) {
                value if value.is_finite() => value,
                _ => 0.5,
            };
            let array: Float64Array = words.iter().map(|word| word.map(value)).collect();
            (
                "f64",
                Arc::new(array),
                texts(&|word| format!("{:?}", value(word))),
            )
        }
        3 => {
            let array: BooleanArray = words
                .iter()
                .map(|word| word.map(|word| word % 2 == 0))
                .collect();
            (
                "bool",
                Arc::new(array),
                texts(&|word| (word % 2 == 0).to_string()),
            )
        }
        4 => {
            let pieces = [
                "a", ",", "\"", "\n", "\r\n", " ", "ß", "007", "\\", "null", "{", "\t",
            ];
            let text = |word: u64| {
                let mut draw = Draw::new(word);
                (0..draw.below(6))
                    .map(|_| pieces[draw.below(pieces.len())])
                    .collect::<String>()
            };
            let array: StringArray = words.iter().map(|word| word.map(text)).collect();
            ("text", Arc::new(array), texts(&text))
        }
        5 => {
            let day = |word: u64| (word % 28) as i32;
            let array = words.iter().map(|word| word.map(|word| 19_783 + day(word)));
            let array: PrimitiveArray<Date32Type> = array.collect();
            (
                "date",
                Arc::new(array),
                texts(&|word| format!("2024-03-{:02}", day(word) + 1)),
            )
        }
        6 => {
            let value = |word: u64| (word % 1_000_000) as i64;
            let array = words
                .iter()
                .map(|word| word.map(|word| 1_709_294_645_000_000 + value(word)));
            let array: PrimitiveArray<TimestampMicrosecondType> = array.collect();
            let text = |word: u64| format!("2024-03-01T12:04:05.{:06}", value(word));
            ("timestamp", Arc::new(array), texts(&text))
        }
        _ => {
            let value = |word: u64| (word % 2_000_000) as i128 - 1_000_000;
            let array: PrimitiveArray<Decimal128Type> =
                words.iter().map(|word| word.map(value)).collect();
            let array = array.with_precision_and_scale(12, 2).unwrap();
            let text = |word: u64| {
                let value = value(word);
                let sign = if value < 0 { "-" } else { "" };
                format!("{sign}{}.{:02}", value.abs() / 100, value.abs() % 100)
            };
            ("decimal(12,2)", Arc::new(array), texts(&text))
        }
    }
}

/// A random table, the list of its types, and the texts of its columns.
fn table(draw: &mut Draw, rows: usize) -> (RecordBatch, String, Vec<Vec<Option<String>>>) {
    let count = 1 + draw.below(5);
    let (mut fields, mut arrays, mut kinds, mut texts) = (vec![], vec![], vec![], vec![]);
    for place in 0..count {
        let kind = draw.below(8);
        let (data_type, array, text) = column(draw, rows, kind);
        let name = format!("c {place}\"");
        kinds.push(format!("{name}:{data_type}"));
        fields.push(Field::new(name, array.data_type().clone(), true));
        arrays.push(array);
        texts.push(text);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    (batch, kinds.join(","), texts)
}

/// A CSV field, quoted if it needs quotes, and sometimes if it does not.
fn field(draw: &mut Draw, text: Option<&str>, separator: char) -> String {
    let Some(text) = text else {
        return String::new();
    };
    let needs = text.is_empty() || text.contains([separator, '"', '\n', '\r']);
    match needs || draw.one_in(5) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn csv_of(
    draw: &mut Draw,
    batch: &RecordBatch,
    texts: &[Vec<Option<String>>],
    separator: char,
) -> String {
    let end = if draw.one_in(2) { "\r\n" } else { "\n" };
    let mut csv = String::new();
    let schema = batch.schema();
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|one| field(draw, Some(one.name()), separator))
        .collect();
    let _ = write!(csv, "{}{end}", names.join(&separator.to_string()));
    for row in 0..batch.num_rows() {
        let fields: Vec<String> = texts
            .iter()
            .map(|texts| field(draw, texts[row].as_deref(), separator))
            .collect();
        csv += &fields.join(&separator.to_string());
        let is_last = row + 1 == batch.num_rows();
        // The last line may lack its line end, unless the line would then be empty.
        if !is_last || draw.one_in(2) || csv.ends_with('\n') {
            csv += end;
        }
        if texts.len() > 1 && draw.one_in(20) && !is_last {
            csv += end;
        }
    }
    csv
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("OUTCORE_TABLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(96)
    ))]
    #[test]
    fn csv_becomes_the_table_that_it_was_made_of_and_comes_back(seed in any::<u64>(), rows in 1_usize..60) {
        let mut draw = Draw::new(seed);
        let (batch, types, texts) = table(&mut draw, rows);
        let dir = tempfile::tempdir().unwrap();
        let separator = [',', ';', '\t'][draw.below(3)];
        let csv = csv_of(&mut draw, &batch, &texts, separator);
        let inputs = [dir.path().join("in.csv")];
        std::fs::write(&inputs[0], &csv).unwrap();
        let mut reads = reads(&types);
        reads.text.as_mut().unwrap().separator = Some(separator as u8);
        let parquet = dir.path().join("t.parquet");
        let limits = (64 << 20, 1 + draw.below(3));
        let done = converted((&inputs, &reads), &parquet, limits).unwrap();
        prop_assert_eq!(done.rows_in, rows as u64, "{}", csv);
        prop_assert_eq!(&read_parquet(&parquet), &batch, "{}", csv);
        for name in ["out.csv", "out.csv.gz", "out.jsonl", "out.jsonl.zst"] {
            let out = dir.path().join(name);
            converted((std::slice::from_ref(&parquet), &reads), &out, limits).unwrap();
            let bytes = unpacked(&out);
            let plain = dir.path().join(name.trim_end_matches(".gz").trim_end_matches(".zst"));
            std::fs::write(&plain, &bytes).unwrap();
            let back = dir.path().join("back.parquet");
            let mut own = reads.clone();
            own.text.as_mut().unwrap().separator = None;
            converted((&[plain], &own), &back, limits).unwrap();
            prop_assert_eq!(&read_parquet(&back), &batch, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn json_lines_keep_their_values_whatever_they_hold(seed in any::<u64>(), rows in 1_usize..40) {
        let mut draw = Draw::new(seed);
        let shape = shape(&mut draw, 3);
        let values: Vec<serde_json::Value> = (0..rows).map(|_| value(&mut draw, &shape, false)).collect();
        let mut text = String::new();
        for value in &values {
            let _ = write!(text, "{value}\n{}", ["", "\n", " \r\n"][draw.below(3)]);
        }
        let dir = tempfile::tempdir().unwrap();
        let inputs = [dir.path().join("in.ndjson")];
        std::fs::write(&inputs[0], &text).unwrap();
        let out = dir.path().join("out.jsonl");
        converted((&inputs, &reads("")), &out, (64 << 20, 2)).unwrap();
        let told = std::fs::read_to_string(&out).unwrap();
        let told: Vec<serde_json::Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let plain = |value: &serde_json::Value| without_nulls(value.clone());
        prop_assert_eq!(
            told.iter().map(plain).collect::<Vec<_>>(),
            values.iter().map(plain).collect::<Vec<_>>(),
            "{}", text
        );
    }
}

fn unpacked(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).unwrap();
    let mut bytes = Vec::new();
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => {
            flate2::read::MultiGzDecoder::new(file)
                .read_to_end(&mut bytes)
                .unwrap();
        }
        Some("zst") => bytes = zstd::decode_all(file).unwrap(),
        _ => bytes = std::fs::read(path).unwrap(),
    }
    bytes
}

/// A shape of JSON: a leaf, a list with a shape, or fields with shapes.
enum Shape {
    Integer,
    Float,
    Truth,
    Text,
    List(Box<Shape>),
    Object(Vec<Shape>),
}

fn shape(draw: &mut Draw, depth: usize) -> Shape {
    if depth == 3 || (depth > 0 && draw.one_in(4)) {
        return Shape::Object(
            (0..1 + draw.below(4))
                .map(|_| shape(draw, depth - 1))
                .collect(),
        );
    }
    match draw.below(if depth > 0 { 5 } else { 4 }) {
        0 => Shape::Integer,
        1 => Shape::Float,
        2 => Shape::Truth,
        3 => Shape::Text,
        _ => Shape::List(Box::new(shape(draw, depth - 1))),
    }
}

fn value(draw: &mut Draw, shape: &Shape, may_be_null: bool) -> serde_json::Value {
    use serde_json::{Value, json};
    if may_be_null && draw.one_in(5) {
        return Value::Null;
    }
    match shape {
        Shape::Integer => json!(draw.word() as i64 >> draw.below(60)),
        Shape::Float => json!(draw.below(1000) as f64 / 8.0 + 0.0625),
        Shape::Truth => json!(draw.one_in(2)),
        Shape::Text => json!(["", "a\nb", "\"", "ß\u{1F600}", "1", "true"][draw.below(6)]),
        Shape::List(inner) => (0..draw.below(4))
            .map(|_| value(draw, inner, true))
            .collect(),
        Shape::Object(fields) => {
            let fields = fields.iter().enumerate();
            let fields = fields.filter_map(|(place, inner)| {
                let is_there = !draw.one_in(6);
                is_there.then(|| (format!("f{place}"), value(draw, inner, true)))
            });
            Value::Object(fields.collect())
        }
    }
}

/// Removes the fields that are null.
fn without_nulls(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(name, value)| (name, without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn text_of_many_pieces_is_sorted_as_the_same_table_is() {
    let mut draw = Draw::new(7);
    let rows = 60_000;
    let mut csv = String::from("id,text,x\n");
    let (mut ids, mut texts, mut xs) = (vec![], vec![], vec![]);
    for row in 0..rows {
        let id = (draw.word() >> 40) as i64;
        let text = format!("row {row}\nof \"{rows}\", {}", "z".repeat(draw.below(60)));
        let x = (!draw.one_in(9)).then(|| draw.below(1000) as f64 / 4.0);
        let _ = write!(csv, "{id},\"{}\",", text.replace('"', "\"\""));
        let _ = writeln!(csv, "{}", x.map_or(String::new(), |x| x.to_string()));
        ids.push(id);
        texts.push(text);
        xs.push(x);
    }
    assert!(csv.len() > 3 << 20, "several pieces");
    let dir = tempfile::tempdir().unwrap();
    let [text, parquet] = ["t.csv", "t.parquet"].map(|name| dir.path().join(name));
    std::fs::write(&text, &csv).unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from(ids))),
        ("text", Arc::new(StringArray::from(texts))),
        ("x", Arc::new(Float64Array::from(xs))),
    ];
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap();
    write_parquet(&parquet, &batch, 20_000);
    let order = TableOrder {
        keys: vec![KeyColumn::new("x").descending(), KeyColumn::new("id")],
        is_stable: true,
        ..TableOrder::default()
    };
    let sorted = |input: &PathBuf, threads| {
        let outputs = [dir.path().join("s.parquet")];
        let mut writes = OutputOptions::new(TableFormat::Parquet);
        writes.is_replacing = true;
        let ends = TableEnds {
            inputs: std::slice::from_ref(input),
            reads: &reads(""),
            outputs: &outputs,
            writes: &writes,
        };
        sort(&common::job(40 << 20, threads), &ends, &order).unwrap();
        read_parquet(&outputs[0])
    };
    let wanted = sorted(&parquet, 2);
    assert_eq!(sorted(&text, 2), wanted);
    assert_eq!(sorted(&text, 1), wanted);
}

/// Returns the error of a conversion, and checks that no file remains.
fn failure(name: &str, text: &[u8], reads: &InputOptions) -> outcore::Error {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join(name)];
    std::fs::write(&inputs[0], text).unwrap();
    let error = converted(
        (&inputs, reads),
        &dir.path().join("out.parquet"),
        (64 << 20, 2),
    )
    .unwrap_err();
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "nothing is left"
    );
    assert_eq!(error.file_path(), Some(&*inputs[0]), "{error}");
    error
}

#[test]
fn what_is_wrong_is_told_with_line_column_value_and_the_flag_that_helps() {
    let long = format!("a,b\n{}", "1,2\n".repeat(600_000));
    let cases: [(&str, String, &str, &str, &str); 15] = [
        (
            "t.csv",
            "a,b\n\"1\n\",2\nx,3\n".into(),
            "a:i64",
            "line 4: column `a` is i64, and `x` is not",
            "a:text",
        ),
        (
            "t.csv",
            "a,b\n1,2\n1.5,3\n".into(),
            "a:i64",
            "line 3: column `a` is i64, and `1.5` is not",
            "a:f64",
        ),
        (
            "t.csv",
            format!("{long}7,x y\n"),
            "",
            "line 600,002: column `b` is i64, and `x y` is not",
            "b:text",
        ),
        (
            "t.csv",
            "a,b\n1,2,3\n".into(),
            "",
            "line 2: 3 fields, where the file has 2 columns",
            "-t",
        ),
        (
            "t.csv",
            "a,b\n1\n".into(),
            "",
            "line 2: 1 field, where",
            "-t",
        ),
        (
            "t.csv",
            "a,b\n1,2\n3,\"4\n".into(),
            "",
            "line 3: a quote is not closed",
            "close the quote",
        ),
        (
            "t.csv",
            "a,a\n1,2\n".into(),
            "",
            "two columns are called `a`",
            "rename",
        ),
        (
            "t.csv",
            "\n\n".into(),
            "",
            "the file has no records",
            "first line",
        ),
        (
            "t.csv",
            "a\n1\n".into(),
            "b:i64",
            "no file has a column `b`",
            "the columns are a",
        ),
        (
            "t.csv",
            "a,b\n2024-01-01,1\n2024-01-01T00:00:00.5,2".into(),
            "a:date",
            "line 3: column `a` is date",
            "a:timestamp",
        ),
        (
            "t.jsonl",
            "{\"a\":1}\n{\"a\":1.5}\n".into(),
            "a:i64",
            "line 2: column `a` is i64, and `1.5` is not",
            "a:f64",
        ),
        (
            "t.jsonl",
            "{\"a\":1}\n\n{\"a\":\n".into(),
            "",
            "line 3: the line is not one JSON object",
            "jq",
        ),
        (
            "t.jsonl",
            "{\"a\":1} {\"a\":2}\n".into(),
            "",
            "line 1: the line is not one JSON object",
            "jq",
        ),
        (
            "t.jsonl",
            "{\"a\":1}\n{a}\n".into(),
            "",
            "line 2: not JSON",
            "correct",
        ),
        (
            "t.jsonl",
            "{\"a\":{\"b\":[1]}}\n{\"a\":{\"b\":[2,\"x\"]}}\n".into(),
            "a:struct<b:list<i64>>",
            "line 2: column `a.b.item` is i64, and `x` is not",
            "`a`",
        ),
    ];
    for (name, text, schema, cause, hint) in cases {
        let dir_free = matches!(name, "t.csv") && (schema == "b:i64" || text.starts_with("a,a"));
        let error = match dir_free {
            false => failure(name, text.as_bytes(), &reads(schema)),
            true => {
                let dir = tempfile::tempdir().unwrap();
                let inputs = [dir.path().join(name)];
                std::fs::write(&inputs[0], &text).unwrap();
                let to = dir.path().join("out.parquet");
                converted((&inputs, &reads(schema)), &to, (64 << 20, 2)).unwrap_err()
            }
        };
        assert!(
            error.cause().contains(cause),
            "{error}, where {cause} is expected"
        );
        let next = error.next_step().unwrap_or_default();
        assert!(next.contains(hint), "{next}, where {hint} is expected");
    }
    let error = failure("t.csv", b"a,b\nx,\xff\n", &reads(""));
    assert!(
        error.cause().contains("line 2: a byte that is not UTF-8"),
        "{error}"
    );
    let mut late = "{\"a\":1}\n".repeat(600_000).into_bytes();
    late.extend_from_slice(b"{\"a\":2,\"late\":3}\n");
    let error = failure("t.jsonl", &late, &reads(""));
    assert!(
        error
            .cause()
            .contains("line 600,001: no row of the sample has the field `late`"),
        "{error}"
    );
    assert!(error.next_step().unwrap().contains("late:text"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("t.dat");
    std::fs::write(&odd, "a\n1\n").unwrap();
    let to = dir.path().join("out.parquet");
    let error =
        converted((std::slice::from_ref(&odd), &reads("")), &to, (64 << 20, 1)).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let mut known = reads("");
    known.text.as_mut().unwrap().kind = Some(TextKind::Csv);
    assert_eq!(
        converted((&[odd], &known), &to, (64 << 20, 1))
            .unwrap()
            .rows_in,
        1
    );
}

#[test]
fn files_of_one_table_have_types_in_common_and_say_what_told_them() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = ["1.csv", "2.csv", "3.csv"].map(|name| dir.path().join(name));
    std::fs::write(&inputs[0], "\u{feff}id,when,x\n1,2024-01-01,\n").unwrap();
    std::fs::write(&inputs[1], "when,id,x\n2024-01-01 10:00:00,2.5,\n").unwrap();
    std::fs::write(&inputs[2], "id,when,x\n").unwrap();
    let out = dir.path().join("out.parquet");
    let own = reads("");
    converted((&inputs, &own), &out, (64 << 20, 3)).unwrap();
    let table = read_parquet(&out);
    let types: Vec<DataType> = table
        .schema()
        .fields()
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(types, [DataType::Float64, stamp, DataType::Utf8]);
    assert_eq!(table.num_rows(), 2);
    let notes = own.text.unwrap().notes.take();
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].contains("types of 3 columns from 2 rows"),
        "{notes:?}"
    );
    let lists = dir.path().join("lists.csv");
    let nested = dir.path().join("nested.jsonl");
    std::fs::write(&nested, "{\"a\":[1]}\n").unwrap();
    let error = converted((&[nested], &reads("")), &lists, (64 << 20, 1)).unwrap_err();
    assert!(error.cause().contains("column `a` is"), "{error}");
    assert!(!lists.exists());
}

#[test]
fn days_and_times_are_told_alike_in_csv_and_json_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows = [
        [
            "2024-02-29",
            "2024-02-29T10:00:00",
            "2024-02-29T10:00:00+02:00",
            "23:59:59.5",
            "2024",
        ],
        [
            "1969-12-31",
            "1969-12-31",
            "1970-01-01T00:00:00Z",
            "00:00:00",
            "x",
        ],
    ];
    let names = ["day", "at", "zoned", "time", "word"];
    let mut csv = names.join(",") + "\n";
    let mut json = String::new();
    for row in rows {
        csv += &(row.join(",") + "\n");
        let fields = names.iter().zip(row);
        let fields = fields.map(|(name, text)| format!("\"{name}\":\"{text}\""));
        writeln!(json, "{{{}}}", fields.collect::<Vec<_>>().join(",")).unwrap();
    }
    std::fs::write(path("t.csv"), csv).unwrap();
    std::fs::write(path("t.jsonl"), json).unwrap();
    let read = |name: &str, schema: &str| {
        let out = path(&format!("{name}.parquet"));
        converted((&[path(name)], &reads(schema)), &out, (64 << 20, 2)).unwrap();
        read_parquet(&out)
    };
    let told = read("t.jsonl", "");
    assert_eq!(told, read("t.csv", ""));
    let schema = told.schema();
    let types: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let wanted = [
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        utc,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Utf8,
    ];
    assert_eq!(types, wanted.iter().collect::<Vec<_>>());
    // Texts stay texts if the schema says so.
    let told = read("t.jsonl", "day:text,zoned:text");
    assert_eq!(told, read("t.csv", "day:text,zoned:text"));
    let zoned: Vec<_> = cast::AsArray::as_string::<i32>(&told["zoned"])
        .iter()
        .collect();
    assert_eq!(zoned, [Some(rows[0][2]), Some(rows[1][2])]);
}

#[test]
fn columns_are_inferred_where_the_first_row_is_longer_than_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(3 << 20);
    let texts = [
        (
            "t.jsonl",
            format!("{{\"k\": 7, \"v\": \"{long}\"}}\n{{\"k\": 8}}\n"),
        ),
        ("t.csv", format!("k,v\n7,{long}\n8,\n")),
    ];
    for (name, text) in texts {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let out = dir.path().join("out.parquet");
        converted((&[path], &reads("")), &out, (64 << 20, 1)).unwrap();
        let table = read_parquet(&out);
        assert_eq!(
            table.schema().field(0).data_type(),
            &DataType::Int64,
            "{name}"
        );
        assert_eq!(table.num_rows(), 2);
    }
}
