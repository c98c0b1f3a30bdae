//! Types, names and row counts of files from other writers are kept.
//!
//! Contract: the libraries write the files, without outcore, and the test inserts the damage.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Date64Array, DictionaryArray, Float32Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, UnionArray,
};
use arrow_buffer::ScalarBuffer;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields};
use outcore::{Job, Kind, Result};
use outcore_table::expr::Assignment;
use outcore_table::input::{InputOptions, RowSpan};
use outcore_table::jobs::{
    self, Aggregate, Selection, TableEnds, TableOrder, Window, WindowColumn,
};
use outcore_table::output::{OutputOptions, TableFormat};
use outcore_table::rows::KeyColumn;
use parquet::basic::LogicalType;
use parquet::data_type::{Int96, Int96Type};
use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::files::{all, by_arrow, ids, numbers};
use crate::common::{self, copy, read_parquet};

/// Rewrites the footer of a file.
fn change_footer(path: &Path, change: impl Fn(ParquetMetaData) -> ParquetMetaData) {
    let found = ParquetMetaDataReader::new();
    let found = found.parse_and_finish(&File::open(path).unwrap()).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    let tail_at = bytes.len() - 8;
    let footer_bytes = u32::from_le_bytes(bytes[tail_at..tail_at + 4].try_into().unwrap());
    bytes.truncate(tail_at - footer_bytes as usize);
    let changed = change(found);
    ParquetMetaDataWriter::new(&mut bytes, &changed)
        .finish()
        .unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn rows_are_counted_by_row_groups_whatever_the_footer_says_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("t.parquet")];
    for said in [0, 3, 100] {
        by_arrow(&paths[0], &[numbers(0, 20)], 7);
        change_footer(&paths[0], |found| {
            let file = found.file_metadata();
            let file = FileMetaData::new(
                file.version(),
                said,
                None,
                file.key_value_metadata().cloned(),
                file.schema_descr_ptr(),
                None,
            );
            ParquetMetaData::new(file, found.row_groups().to_vec())
        });
        let found = all(&InputOptions::default(), &paths, 8 << 20).unwrap();
        assert_eq!(ids(&found), (0..20).collect::<Vec<_>>(), "{said}");
    }
}

#[test]
fn a_row_group_with_other_rows_than_the_footer_says_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("t.parquet")];
    for more in [-10, -1, 1] {
        by_arrow(&paths[0], &[numbers(0, 20)], 10);
        change_footer(&paths[0], |found| {
            let mut groups = found.row_groups().to_vec();
            let group = groups.pop().unwrap();
            let rows_count = group.num_rows() + more;
            groups.push(
                group
                    .into_builder()
                    .set_num_rows(rows_count)
                    .build()
                    .unwrap(),
            );
            ParquetMetaData::new(found.file_metadata().clone(), groups)
        });
        let error = all(&InputOptions::default(), &paths, 8 << 20).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("t.parquet"), "{error}");
    }
}

/// Writes a batch to an Arrow file, an Arrow stream and a Parquet file with the libraries; returns
/// their paths.
pub fn files_of(dir: &Path, batch: &RecordBatch) -> [PathBuf; 3] {
    let paths = ["t.arrow", "t.arrows", "t.parquet"].map(|name| dir.join(name));
    let mut writer =
        FileWriter::try_new(File::create(&paths[0]).unwrap(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    let stream = File::create(&paths[1]).unwrap();
    let mut writer = StreamWriter::try_new(stream, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    common::write_parquet(&paths[2], batch, 100);
    paths
}

#[test]
fn two_columns_of_one_name_are_refused_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let column = |value| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
    let fields = [0, 1].map(|_| Field::new("a", DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let batch = RecordBatch::try_new(schema, vec![column(1), column(2)]).unwrap();
    for path in files_of(dir.path(), &batch) {
        for is_union in [false, true] {
            let reads = InputOptions {
                is_union,
                ..InputOptions::default()
            };
            let error = all(&reads, std::slice::from_ref(&path), 8 << 20).unwrap_err();
            let told = error.to_string();
            assert!(told.contains("two columns are called `a`"), "{told}");
            assert!(told.contains(path.to_str().unwrap()), "{told}");
        }
    }
}

fn copied(input: &Path, output: &Path, format: TableFormat) -> Result<()> {
    let writes = OutputOptions {
        is_replacing: true,
        ..OutputOptions::new(format)
    };
    let job = common::job(64 << 20, 1);
    let (inputs, outputs) = ([input.to_path_buf()], [output.to_path_buf()]);
    copy(&job, &inputs, &InputOptions::default(), &outputs, &writes).map(drop)
}

#[test]
fn dates_in_milliseconds_become_dates_and_one_with_a_time_of_day_is_refused() {
    const DAY: i64 = 86_400_000;
    let dir = tempfile::tempdir().unwrap();
    let dates = |values: Vec<Option<i64>>| -> RecordBatch {
        let list = ListArray::from_iter_primitive::<arrow_array::types::Date64Type, _, _>(
            values.iter().map(|value| Some(vec![*value])),
        );
        let columns: [(&str, ArrayRef); 2] = [
            ("d", Arc::new(Date64Array::from(values))),
            ("l", Arc::new(list)),
        ];
        let columns = columns.map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let [arrow, ..] = files_of(
        dir.path(),
        &dates(vec![Some(-DAY), None, Some(19_782 * DAY)]),
    );
    let output = dir.path().join("out.parquet");
    copied(&arrow, &output, TableFormat::Parquet).unwrap();
    let found = read_parquet(&output);
    let days: Vec<_> = found["d"].as_primitive::<Date32Type>().iter().collect();
    assert_eq!(days, [Some(-1), None, Some(19_782)]);
    assert_eq!(
        *found["l"].as_list::<i32>().values().data_type(),
        DataType::Date32
    );
    let file = SerializedFileReader::new(File::open(&output).unwrap()).unwrap();
    let columns = file.metadata().file_metadata().schema_descr().columns();
    assert_eq!(columns[0].logical_type_ref(), Some(&LogicalType::Date));
    let text = dir.path().join("out.jsonl");
    copied(&arrow, &text, TableFormat::JsonLines).unwrap();
    let text = std::fs::read_to_string(text).unwrap();
    assert!(
        text.starts_with("{\"d\":\"1969-12-31\",\"l\":[\"1969-12-31\"]}\n"),
        "{text}"
    );
    let [arrow, ..] = files_of(dir.path(), &dates(vec![Some(DAY + 1)]));
    for format in [TableFormat::Parquet, TableFormat::JsonLines] {
        let error = copied(&arrow, &output, format).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains("time of day"), "{error}");
    }
}

#[test]
fn int96_holds_every_year() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let schema = "message m { optional int96 at; optional group g { optional int96 at; } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default())
            .unwrap();
    // Julian day numbers: 1 January of the year 1, of 1970, and the last day of 9999.
    let days = [1_721_426_u32, 2_440_588, 5_373_484];
    let values = days.map(|day| {
        let mut value = Int96::new();
        value.set_data(1_500, 0, day);
        value
    });
    let mut group = writer.next_row_group().unwrap();
    for level in [1, 2] {
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<Int96Type>();
        typed.write_batch(&values, Some(&[level; 3]), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let found = all(&InputOptions::default(), &[path], 8 << 20).unwrap();
    let expected = days.map(|day| (i64::from(day) - 2_440_588) * 86_400_000_000 + 1);
    let inner = found["g"].as_struct().column(0);
    for column in [&found["at"], inner] {
        let times = column.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.values()[..], expected);
    }
}

/// Marks numbers as big-endian in the schema of a flatbuffer whose table is at `at`.
fn say_big_endian(metadata: &mut [u8], at: usize) {
    let word = i32::from_le_bytes(metadata[at..at + 4].try_into().unwrap());
    let vtable = usize::try_from(at as i32 - word).unwrap();
    // The first entry is the byte order; it is found as the first number 1.
    let one = (at + 4..metadata.len() - 1).step_by(2);
    let mut one = one.filter(|&place| metadata[place..place + 2] == [1, 0]);
    let offset = u16::try_from(one.next().unwrap() - at).unwrap();
    metadata[vtable + 4..vtable + 6].copy_from_slice(&offset.to_le_bytes());
}

/// Marks numbers as big-endian in the first message of a stream.
fn as_big_endian(stream: &mut [u8]) {
    let len = u32::from_le_bytes(stream[4..8].try_into().unwrap()) as usize;
    let metadata = &mut stream[8..8 + len];
    let message = arrow_ipc::root_as_message(metadata).unwrap();
    let at = message.header_as_schema().unwrap()._tab.loc();
    say_big_endian(metadata, at);
}

/// Marks numbers as big-endian in the footer of a file.
fn as_big_endian_file(file: &mut [u8]) {
    let end = file.len() - b"ARROW1".len() - 4;
    let len = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    let footer = &mut file[end - len..end];
    let at = arrow_ipc::root_as_footer(footer).unwrap();
    let at = at.schema().unwrap()._tab.loc();
    say_big_endian(footer, at);
}

#[test]
fn big_endian_arrow_streams_and_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    // The precision of these floats is stored as the number 1.
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![1.0, 2.0]));
    let batch = RecordBatch::try_from_iter([("f", floats)]).unwrap();
    let [_, stream, _] = files_of(dir.path(), &batch);
    let mut bytes = std::fs::read(&stream).unwrap();
    as_big_endian(&mut bytes);
    std::fs::write(&stream, bytes).unwrap();
    let file = dir.path().join("big.arrow");
    let mut writer = FileWriter::try_new(File::create(&file).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    // The first message begins with a marker.
    let front = bytes.windows(4).position(|bytes| bytes == [0xff; 4]);
    as_big_endian(&mut bytes[front.unwrap()..]);
    as_big_endian_file(&mut bytes);
    std::fs::write(&file, bytes).unwrap();
    for path in [stream, file] {
        let name = path.display().to_string();
        let error = all(&InputOptions::default(), &[path], 8 << 20).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{name}: {error}");
        assert!(error.to_string().contains("big-endian"), "{error}");
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn a_type_that_parquet_has_not_is_named_with_its_column_and_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let fields = [
        (0, Arc::new(Field::new("n", DataType::Int64, true))),
        (1, Arc::new(Field::new("s", DataType::Utf8, true))),
    ];
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["a", "b"])),
    ];
    let types = ScalarBuffer::from(vec![0_i8, 1]);
    let union = UnionArray::try_new(
        fields.into_iter().collect::<UnionFields>(),
        types,
        None,
        children,
    );
    let either: ArrayRef = Arc::new(union.unwrap());
    let inside = Fields::from(vec![Field::new("u", either.data_type().clone(), false)]);
    let nested: ArrayRef = Arc::new(StructArray::new(inside, vec![Arc::clone(&either)], None));
    for (name, array) in [("u", either), ("st", nested)] {
        let batch = RecordBatch::try_from_iter([(name, array)]).unwrap();
        let input = dir.path().join("t.arrow");
        let mut writer =
            FileWriter::try_new(File::create(&input).unwrap(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let error =
            copied(&input, &dir.path().join("o.parquet"), TableFormat::Parquet).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        let told = error.to_string();
        assert!(
            told.contains(&format!("`{name}`")) && told.contains("Union"),
            "{told}"
        );
        copied(&input, &dir.path().join("o.arrow"), TableFormat::ArrowFile).unwrap();
    }
}

/// Runs every job that writes rows of its input, by name.
pub fn each_job(ends: &TableEnds<'_>, job: &Job, name: &str) -> Result<()> {
    let order = TableOrder {
        keys: vec![KeyColumn::new("id")],
        ..TableOrder::default()
    };
    let right = (ends.inputs, ends.reads);
    let join = |kind| jobs::Join {
        on: vec![jobs::ColumnPair::parse("id").unwrap()],
        kind,
        ..jobs::Join::default()
    };
    match name {
        "copy" => jobs::copy(job, ends),
        "sort" => jobs::sort(job, ends, &order),
        "unique" => jobs::unique(job, ends, &order),
        "merge" => jobs::merge(job, ends, &order),
        "shuffle" => jobs::shuffle(job, ends, (1, 0), &[]),
        "top" => jobs::top(job, ends, &order.keys, 3),
        "head" => jobs::span(job, ends, RowSpan::First(3)),
        "sample" => jobs::sample(job, ends, 3, 1),
        "dedup" => {
            jobs::dedup(job, ends, (&order.keys, &jobs::Keep::First), None).map(|done| done.table)
        }
        "select" => {
            let selection = Selection {
                conditions: Vec::new(),
                computed: Assignment::parse_all("v = v, twice = 2 * id").unwrap(),
            };
            jobs::select(job, ends, &selection)
        }
        "window" => {
            let wanted = Window {
                by: order.keys,
                order: Vec::new(),
                columns: WindowColumn::parse_list("row_number()").unwrap(),
                first: None,
            };
            jobs::window(job, ends, &wanted)
        }
        "lag" => {
            let wanted = Window {
                by: order.keys,
                order: Vec::new(),
                columns: WindowColumn::parse_list("w=first(v)").unwrap(),
                first: None,
            };
            jobs::window(job, ends, &wanted)
        }
        "group" => jobs::group_by(
            job,
            ends,
            &order.keys,
            &[Aggregate::parse("v=first(v)").unwrap()],
        ),
        "left" => jobs::join(job, ends, right, &join(jobs::JoinKind::Left)),
        "full" => jobs::join(job, ends, right, &join(jobs::JoinKind::Full)),
        _ => jobs::diff(job, ends, right, &order.keys).map(|done| done.table),
    }
    .map(drop)
}

pub const JOBS: [&str; 15] = [
    "copy", "sort", "unique", "merge", "shuffle", "top", "head", "sample", "dedup", "select",
    "window", "lag", "group", "left", "full",
];

#[test]
fn dictionaries_survive_every_job_in_every_format_of_arrow() {
    let dir = tempfile::tempdir().unwrap();
    let words = (0..1_000).map(|row| (row % 7 != 0).then(|| ["b", "a", "c"][row % 3]));
    let values: DictionaryArray<Int32Type> = words.clone().collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(0..1_000))),
        ("v", Arc::new(values)),
    ];
    let columns = columns.map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let wanted = batch["v"].data_type().clone();
    let words: Vec<Option<&str>> = words.collect();
    for input in files_of(dir.path(), &batch) {
        for (output, format) in [
            ("out.arrow", TableFormat::ArrowFile),
            ("out.arrows", TableFormat::ArrowStream),
            ("out.parquet", TableFormat::Parquet),
        ] {
            for name in JOBS {
                let outputs = [dir.path().join(output)];
                let _ = std::fs::remove_file(&outputs[0]);
                let writes = OutputOptions {
                    // Several batches, which meet the values in different orders.
                    group_rows_max: 100,
                    ..OutputOptions::new(format)
                };
                let ends = TableEnds {
                    inputs: std::slice::from_ref(&input),
                    reads: &InputOptions::default(),
                    outputs: &outputs,
                    writes: &writes,
                };
                each_job(&ends, &common::job(64 << 20, 1), name).unwrap();
                let found = all(&InputOptions::default(), &outputs, 8 << 20).unwrap();
                assert_eq!(*found["v"].data_type(), wanted, "{name} {output}");
                let texts = arrow_cast::cast(&found["v"], &DataType::Utf8).unwrap();
                let rows = found["id"].as_primitive::<Int64Type>().values();
                for (text, &row) in texts.as_string::<i32>().iter().zip(rows) {
                    assert_eq!(text, words[row as usize], "{name} {output}");
                }
            }
        }
    }
}

#[test]
fn keys_that_are_dictionaries_are_dictionaries_in_groups() {
    let dir = tempfile::tempdir().unwrap();
    let words: DictionaryArray<Int32Type> = ["b", "a", "b"].into_iter().collect();
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(words)),
        ("n", Arc::new(Int64Array::from(vec![1, 2, 3]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let [arrow, ..] = files_of(dir.path(), &batch);
    let outputs = [dir.path().join("out.arrow")];
    let ends = TableEnds {
        inputs: &[arrow],
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::ArrowFile),
    };
    let job = common::job(64 << 20, 1);
    let wanted = Aggregate::parse_list("n=sum(n),m=max(k)").unwrap();
    jobs::group_by(&job, &ends, &[KeyColumn::new("k")], &wanted).unwrap();
    let found = all(&InputOptions::default(), &outputs, 8 << 20).unwrap();
    for name in ["k", "m"] {
        assert_eq!(found[name].data_type(), batch["k"].data_type());
        let texts = arrow_cast::cast(&found[name], &DataType::Utf8).unwrap();
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("a"), Some("b")]);
    }
    assert_eq!(found["n"].as_primitive::<Int64Type>().values()[..], [2, 4]);
}

#[test]
fn a_column_that_is_computed_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let input = [dir.path().join("t.parquet")];
    by_arrow(&input[0], &[numbers(0, 3)], 10);
    let outputs = [dir.path().join("out.parquet")];
    let ends = TableEnds {
        inputs: &input,
        reads: &InputOptions::default(),
        outputs: &outputs,
        writes: &OutputOptions::new(TableFormat::Parquet),
    };
    let selection = Selection {
        conditions: Vec::new(),
        computed: Assignment::parse_all("a = id * 2, a = id").unwrap(),
    };
    let error = jobs::select(&common::job(64 << 20, 1), &ends, &selection).unwrap_err();
    assert!(
        error.to_string().contains("`a` is computed twice"),
        "{error}"
    );
    // A renamed column, and two that change places.
    let selection = Selection {
        conditions: Vec::new(),
        computed: Assignment::parse_all("id = word, word = id").unwrap(),
    };
    jobs::select(&common::job(64 << 20, 1), &ends, &selection).unwrap();
    let found = read_parquet(&outputs[0]);
    assert_eq!(
        found["word"].as_primitive::<Int64Type>().values()[..],
        [0, 1, 2]
    );
    assert_eq!(found["id"].as_string::<i32>().value(2), "word 2");
}

#[test]
fn keys_in_backquotes_may_be_empty_or_hold_colons() {
    let key = |name: &str| KeyColumn::new(name);
    for (text, expected) in [
        ("a:desc", key("a").descending()),
        ("`a:desc`", key("a:desc")),
        (
            "`a:desc`:desc:nulls-first",
            key("a:desc").descending().nulls_first(),
        ),
        ("``", key("")),
        ("``:desc", key("").descending()),
        ("`a``b`", key("a`b")),
        ("a:b", key("a:b")),
    ] {
        assert_eq!(KeyColumn::parse(text).unwrap(), expected, "{text}");
    }
    for wrong in ["", ":desc", "`a`b", "`a`:up"] {
        let error = KeyColumn::parse(wrong).unwrap_err();
        assert!(error.next_step().is_some(), "{error}");
    }
    assert!(KeyColumn::parse_in("`a:b`", true).unwrap().is_descending);
    assert!(
        !KeyColumn::parse_in("`a:b`:asc", true)
            .unwrap()
            .is_descending
    );
    let sum = Aggregate::parse_list("sum(`a,b`),`x=y`=max(``),n=quantile(`a(b`,0.5)").unwrap();
    let columns: Vec<_> = sum.iter().flat_map(Aggregate::columns).collect();
    assert_eq!(columns, ["a,b", "", "a(b"]);
    assert_eq!(sum[1].name, "x=y");
}

/// The values that pyarrow reads are in `expected.json` next to the files.
#[test]
fn files_of_other_writers_have_as_many_rows_as_pyarrow_reads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/parquet");
    let Ok(text) = std::fs::read_to_string(root.join("expected.json")) else {
        println!("SKIP: there is no {}", root.display());
        return;
    };
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut seen = 0;
    for (name, facts) in expected.as_object().unwrap() {
        let Some(rows) = facts["rows"].as_u64() else {
            continue;
        };
        let found = all(&InputOptions::default(), &[root.join(name)], 64 << 20);
        match name.contains("corrupt-checksum") || name.contains("malformed") {
            // pyarrow verifies checksums only on request, and accepts a page header that ends too
            // early.
            true => assert_eq!(found.unwrap_err().kind(), Kind::Corrupt, "{name}"),
            false => match found {
                Ok(found) => assert_eq!(found.num_rows() as u64, rows, "{name}"),
                Err(error) => panic!("{name}: {error}"),
            },
        }
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
}
