//! Table files read back as written, by outcore and by arrow-rs alone.
//!
//! Contract: the naive twin is arrow-rs, which reads a plain file from start to end. Tables and
//! damage are random; a failure prints its seed. The largest table has about 20 MB.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{self, Draw, Kinds, copy};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, Time32MillisecondType, TimestampMillisecondType, TimestampSecondType,
};
use arrow_array::{
    ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, Time32SecondArray,
    TimestampSecondArray,
};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat_batches;
use outcore::{IoMode, Job, JobOptions};
use outcore_io::{Kind, Result};
use outcore_table::input::{
    Comparison, InputOptions, Literal, Predicate, TableInput, TextOptions, parse_types,
};
use outcore_table::output::{Codec, OutputOptions, TableFormat, TableOutput, WriterShape};
use outcore_table::rows::KeyColumn;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

const ROOM_BYTES: u64 = 256 << 20;

fn job(memory_bytes: u64, threads: usize) -> Job {
    let options = JobOptions {
        memory_bytes,
        threads,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

pub fn all(options: &InputOptions, paths: &[PathBuf], memory_bytes: u64) -> Result<RecordBatch> {
    let input = TableInput::open(&job(ROOM_BYTES, 1), paths, options)?;
    let mut reader = input.reader(memory_bytes)?;
    let mut batches = Vec::new();
    for &piece in input.pieces() {
        for batch in reader.open(piece)? {
            batches.push(batch?);
        }
    }
    Ok(concat_batches(input.schema(), &batches).unwrap())
}

fn read(path: &Path) -> RecordBatch {
    all(
        &InputOptions::default(),
        &[path.to_path_buf()],
        ROOM_BYTES / 2,
    )
    .unwrap()
}

fn write(path: &Path, batches: &[RecordBatch], schema: &SchemaRef, options: &OutputOptions) {
    let shape = WriterShape {
        writers_count: 1,
        memory_bytes: ROOM_BYTES / 2,
        rows_count: None,
    };
    let job = job(ROOM_BYTES, 1);
    let paths = [path.to_path_buf()];
    let output = TableOutput::create(&job, &paths, schema, options, shape).unwrap();
    let mut row = 0;
    for (number, batch) in batches.iter().enumerate() {
        let mut section = output.section(number as u64, row);
        section.write(batch).unwrap();
        section.finish().unwrap();
        row += batch.num_rows() as u64;
    }
    let lens = output.publish().unwrap();
    assert_eq!(lens, [std::fs::metadata(path).unwrap().len()]);
    assert_eq!(job.budget.used_bytes(), 0);
}

/// The naive twin: arrow-rs alone, on a plain file.
fn by_library(path: &Path, format: TableFormat) -> RecordBatch {
    let file = File::open(path).unwrap();
    let (schema, batches): (SchemaRef, Vec<RecordBatch>) = match format {
        TableFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let schema = Arc::clone(builder.schema());
            (
                schema,
                builder
                    .build()
                    .unwrap()
                    .map(std::result::Result::unwrap)
                    .collect(),
            )
        }
        TableFormat::ArrowFile => {
            let reader = FileReader::try_new(file, None).unwrap();
            (
                reader.schema(),
                reader.map(std::result::Result::unwrap).collect(),
            )
        }
        TableFormat::ArrowStream => {
            let reader = StreamReader::try_new(file, None).unwrap();
            (
                reader.schema(),
                reader.map(std::result::Result::unwrap).collect(),
            )
        }
        TableFormat::Csv
        | TableFormat::Tsv
        | TableFormat::JsonLines
        | TableFormat::Lines
        | TableFormat::Vectors => {
            unreachable!("text has tests of its own")
        }
    };
    concat_batches(&schema, &batches).unwrap()
}

fn columns_alike(one: &RecordBatch, other: &RecordBatch) -> std::result::Result<(), String> {
    if one.num_rows() != other.num_rows() {
        return Err(format!("{} and {} rows", one.num_rows(), other.num_rows()));
    }
    for (index, (one_column, other_column)) in one.columns().iter().zip(other.columns()).enumerate()
    {
        if one_column != other_column {
            return Err(format!("column {index}: {one_column:?} {other_column:?}"));
        }
    }
    Ok(())
}

fn codecs(format: TableFormat) -> Vec<Codec> {
    let mut codecs = vec![Codec::None, Codec::Lz4, Codec::Zstd(3)];
    if format == TableFormat::Parquet {
        codecs.extend([Codec::Snappy, Codec::Gzip(6), Codec::Brotli(4)]);
    }
    codecs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tables_of_any_schema_are_read_back_as_they_were_written(seed in any::<u64>()) {
        let mut draw = Draw::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let formats = [TableFormat::Parquet, TableFormat::ArrowFile, TableFormat::ArrowStream];
        for format in formats {
            let schema = common::schema(&mut draw, 5, Kinds::Parquet);
            let count = draw.below(4);
            let batches: Vec<RecordBatch> = (0..count)
                .map(|_| { let rows = 1 + draw.below(200); common::batch(&mut draw, &schema, rows) })
                .collect();
            let codecs = codecs(format);
            let options = OutputOptions {
                codec: codecs[draw.below(codecs.len())],
                group_rows_max: 1 + draw.below(150),
                is_dictionary: draw.one_in(2),
                ..OutputOptions::new(format)
            };
            let path = dir.path().join(format!("{format:?}"));
            write(&path, &batches, &schema, &options);
            let expected = concat_batches(&schema, &batches).unwrap();
            let library = by_library(&path, format);
            let found = read(&path);
            if format != TableFormat::ArrowFile {
                prop_assert_eq!(found.schema_ref().fields(), schema.fields());
                let alike = columns_alike(&found, &expected);
                prop_assert!(alike.is_ok(), "{:?} {:?}", format, alike);
            }
            let alike = columns_alike(&found, &library);
            prop_assert!(alike.is_ok(), "{:?} {:?}", format, alike);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_or_other_rows_and_never_a_panic(seed in any::<u64>()) {
        let mut draw = Draw::new(seed);
        let dir = tempfile::tempdir().unwrap();
        let formats = [TableFormat::Parquet, TableFormat::ArrowFile, TableFormat::ArrowStream];
        let format = formats[draw.below(3)];
        let schema = common::schema(&mut draw, 4, Kinds::Parquet);
        let batch = common::batch(&mut draw, &schema, 40);
        let codecs = codecs(format);
        let options = OutputOptions { codec: codecs[draw.below(codecs.len())], ..OutputOptions::new(format) };
        let path = dir.path().join("t");
        write(&path, &[batch], &schema, &options);
        let whole = std::fs::read(&path).unwrap();
        for _ in 0..12 {
            let mut bytes = whole.clone();
            if draw.one_in(3) {
                bytes.truncate(draw.below(bytes.len()));
            } else {
                // In a small file, most damage is in the footer, and some in the pages.
                for _ in 0..=draw.below(3) {
                    let at = if draw.one_in(2) { draw.below(bytes.len()) } else { bytes.len() - 1 - draw.below(bytes.len().min(400)) };
                    bytes[at] ^= 1 << draw.below(8);
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Err(error) = all(&InputOptions::default(), std::slice::from_ref(&path), ROOM_BYTES / 2) {
                prop_assert!(error.file_path().is_some(), "{}", error);
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}

pub fn numbers(from: i64, count: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + count));
    let words = (from..from + count).map(|id| format!("word {}", id % 1000));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap()
}

pub fn by_arrow(path: &Path, batches: &[RecordBatch], group_rows: usize) {
    let settings = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(group_rows))
        .build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(settings)).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
}

pub fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch["id"].as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn a_copy_has_the_rows_in_order_and_the_same_bytes_for_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.parquet");
    by_arrow(&input, &[numbers(0, 100_000)], 7_000);
    let mut options = OutputOptions::new(TableFormat::Parquet);
    options.group_bytes_max = 1 << 20;
    let mut files = Vec::new();
    for threads in [1, 4] {
        let out = dir.path().join(format!("{threads}.parquet"));
        let job = job(64 << 20, threads);
        let summary = copy(
            &job,
            std::slice::from_ref(&input),
            &InputOptions::default(),
            std::slice::from_ref(&out),
            &options,
        )
        .unwrap();
        assert_eq!(summary.rows_out, 100_000);
        assert!(job.budget.peak_bytes() <= 64 << 20 && job.budget.used_bytes() == 0);
        assert_eq!(by_library(&out, TableFormat::Parquet), read(&input));
        files.push(std::fs::read(&out).unwrap());
    }
    assert!(files[0] == files[1]);
}

#[test]
fn several_files_get_equal_numbers_of_rows_and_appear_together() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.parquet");
    by_arrow(&input, &[numbers(0, 10_001)], 3_000);
    for format in [TableFormat::Parquet, TableFormat::ArrowStream] {
        let outputs: Vec<PathBuf> = (0..4)
            .map(|i| dir.path().join(format!("{format:?}-{i}")))
            .collect();
        let options = OutputOptions::new(format);
        let job = job(64 << 20, 3);
        copy(
            &job,
            std::slice::from_ref(&input),
            &InputOptions::default(),
            &outputs,
            &options,
        )
        .unwrap();
        let parts: Vec<RecordBatch> = outputs
            .iter()
            .map(|path| by_library(path, format))
            .collect();
        let counts: Vec<usize> = parts.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(counts, [2501, 2501, 2501, 2498]);
        let joined = all(&InputOptions::default(), &outputs, ROOM_BYTES / 2).unwrap();
        assert_eq!(joined, read(&input));
        let again = copy(
            &job,
            std::slice::from_ref(&input),
            &InputOptions::default(),
            &outputs,
            &options,
        );
        assert!(again.unwrap_err().to_string().contains("the file exists"));
    }
}

#[test]
fn a_projection_reads_and_writes_those_columns_alone_in_the_order_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in.parquet"), dir.path().join("out.arrow"));
    by_arrow(&input, &[numbers(0, 5_000)], 1_000);
    let reads = InputOptions {
        columns: Some(vec!["word".into()]),
        ..InputOptions::default()
    };
    let options = OutputOptions::new(TableFormat::ArrowFile);
    copy(
        &job(64 << 20, 2),
        std::slice::from_ref(&input),
        &reads,
        std::slice::from_ref(&out),
        &options,
    )
    .unwrap();
    let found = by_library(&out, TableFormat::ArrowFile);
    assert_eq!(found, read(&input).project(&[1]).unwrap());
    let turned = InputOptions {
        columns: Some(vec!["word".into(), "id".into()]),
        ..InputOptions::default()
    };
    let found = all(&turned, std::slice::from_ref(&input), 8 << 20).unwrap();
    assert_eq!(found, read(&input).project(&[1, 0]).unwrap());
    let wrong = InputOptions {
        columns: Some(vec!["wrod".into()]),
        ..InputOptions::default()
    };
    let error = all(&wrong, &[input], 8 << 20).unwrap_err().to_string();
    assert!(error.contains("did you mean `word`?"), "{error}");
}

#[test]
fn row_groups_that_cannot_match_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.parquet");
    by_arrow(&input, &[numbers(0, 10_000)], 1_000);
    let asked = |comparison: Comparison| {
        let predicates = vec![Predicate {
            column: "id".into(),
            comparison,
        }];
        let options = InputOptions {
            predicates,
            ..InputOptions::default()
        };
        let input =
            TableInput::open(&job(ROOM_BYTES, 1), std::slice::from_ref(&input), &options).unwrap();
        input
            .pieces()
            .iter()
            .map(|piece| piece.part)
            .collect::<Vec<_>>()
    };
    let number = Literal::Integer;
    assert_eq!(asked(Comparison::Less(number(1_000))), [0]);
    assert_eq!(asked(Comparison::LessOrEqual(number(1_000))), [0, 1]);
    assert_eq!(asked(Comparison::Equal(number(5_500))), [5]);
    assert_eq!(asked(Comparison::Greater(number(8_999))), [9]);
    assert_eq!(asked(Comparison::GreaterOrEqual(number(10_000))), [0; 0]);
    assert_eq!(asked(Comparison::IsNull), [0; 0]);
    assert_eq!(asked(Comparison::IsNotNull).len(), 10);
    assert_eq!(
        asked(Comparison::Equal(Literal::Text("x".into()))).len(),
        10
    );
}

#[test]
fn a_row_group_above_the_memory_is_read_by_pages() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.parquet");
    let mut draw = Draw::new(7);
    let words: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..400_000).map(|_| {
            format!("{:x}{:x}{:x}", draw.word(), draw.word(), draw.word())
        })));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400_000));
    let batch = RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap();
    by_arrow(&input, std::slice::from_ref(&batch), 1 << 20);
    let stored_bytes = std::fs::metadata(&input).unwrap().len();
    let memory_bytes = 9 << 20;
    assert!(stored_bytes > memory_bytes);
    let found = all(
        &InputOptions::default(),
        std::slice::from_ref(&input),
        memory_bytes,
    )
    .unwrap();
    assert_eq!(found, batch);
    let error = all(&InputOptions::default(), &[input], 1 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    assert!(error.to_string().contains("in.parquet"), "{error}");
    let hint = error.next_step().unwrap_or_default();
    assert!(hint.starts_with("allow --memory 64MiB or more"), "{hint}");
}

#[test]
fn directories_of_the_form_key_value_are_columns_and_are_pruned() {
    let dir = tempfile::tempdir().unwrap();
    for (year, from) in [(2023, 0), (2024, 10)] {
        let part = dir.path().join(format!("year={year}/city=K%C3%B6ln"));
        std::fs::create_dir_all(&part).unwrap();
        by_arrow(&part.join("part-0.parquet"), &[numbers(from, 10)], 10);
    }
    std::fs::write(dir.path().join("_SUCCESS"), "").unwrap();
    let paths = [dir.path().to_path_buf()];
    let found = all(&InputOptions::default(), &paths, 8 << 20).unwrap();
    let years = found["year"].as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(years, [[2023; 10], [2024; 10]].concat());
    assert_eq!(found["city"].as_string::<i32>().value(0), "Köln");
    let comparison = Comparison::Greater(Literal::Integer(2023));
    let predicates = vec![Predicate {
        column: "year".into(),
        comparison,
    }];
    let options = InputOptions {
        predicates,
        ..InputOptions::default()
    };
    assert_eq!(
        ids(&all(&options, &paths, 8 << 20).unwrap()),
        (10..20).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_no_table_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let named = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        all(&InputOptions::default(), &[path], 8 << 20)
            .unwrap_err()
            .to_string()
    };
    assert!(named("a.csv", b"a,b\n1,2\n").contains("neither those of Parquet nor of Arrow"));
    assert!(named("empty", b"").contains("empty"));
    for (name, bytes) in [
        ("p1", &b"PAR1"[..]),
        ("p2", b"PAR1PAR1"),
        ("p3", b"PAR1 more than a footer's length"),
        ("a1", b"ARROW1"),
        ("a2", b"ARROW1\0\0ARRO"),
        ("a3", b"ARROW1\0\0 more than a footer's length"),
    ] {
        let error = named(name, bytes);
        assert!(error.contains("ends without a footer"), "{error}");
        assert!(error.contains(name), "{error}");
    }
    assert!(named("f1", b"FEA1....FEA1").contains("Feather V1"));
    assert!(named("e.parquet", b"PARE....1234PARE").contains("encrypted"));
    assert!(named("stop.arrow", b"ARROW1\0\0").contains("stop.arrow"));
    let error = all(
        &InputOptions::default(),
        &["hdfs://bucket/t.parquet".into()],
        1,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`hdfs://` is not the scheme of a store"),
        "{error}"
    );
    let error = all(
        &InputOptions::default(),
        &[dir.path().join("none.parquet")],
        1,
    )
    .unwrap_err();
    assert!(error.to_string().contains("none.parquet"), "{error}");
    let nothing = dir.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let error = all(&InputOptions::default(), &[nothing], 1)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no tables in this directory"), "{error}");
}

#[test]
fn streams_with_dictionaries_that_are_replaced_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.arrows");
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![Field::new("d", kind, true)]));
    let batch = |words: &[Option<&str>]| {
        let column: arrow_array::DictionaryArray<arrow_array::types::Int32Type> =
            words.iter().copied().collect();
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap()
    };
    let batches = [
        batch(&[Some("a"), Some("b"), None]),
        batch(&[Some("c"), Some("a")]),
        batch(&[Some("d")]),
    ];
    let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &schema).unwrap();
    batches
        .iter()
        .for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    // Reads pieces in several orders.
    let job = job(ROOM_BYTES, 1);
    let input = TableInput::open(&job, &[path], &InputOptions::default()).unwrap();
    let mut reader = input.reader(8 << 20).unwrap();
    for index in [2, 0, 1] {
        let mut found = reader.open(input.pieces()[index]).unwrap();
        assert_eq!(found.next().unwrap().unwrap(), batches[index]);
        assert!(found.next().is_none());
    }
    let out = dir.path().join("t.arrow");
    let paths = input.paths().map(Path::to_path_buf).collect::<Vec<_>>();
    let options = OutputOptions::new(TableFormat::ArrowFile);
    copy(
        &job,
        &paths,
        &InputOptions::default(),
        std::slice::from_ref(&out),
        &options,
    )
    .unwrap();
    let found = by_library(&out, TableFormat::ArrowFile);
    // The file has one dictionary, which grows from batch to batch.
    assert_eq!(found.schema(), schema);
    let words = arrow_cast::cast(found.column(0), &DataType::Utf8).unwrap();
    let words: Vec<_> = words.as_string::<i32>().iter().collect();
    assert_eq!(
        words,
        [Some("a"), Some("b"), None, Some("c"), Some("a"), Some("d")]
    );
}

#[test]
fn a_batch_above_the_memory_is_named_before_it_is_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.arrow");
    let batch = numbers(0, 100_000);
    let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&path), batch);
    let error = all(&InputOptions::default(), &[path], 1 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
}

#[test]
fn a_parquet_file_says_how_it_is_sorted_and_keeps_what_it_was_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let batch = numbers(0, 1_000);
    let metadata = HashMap::from([("pandas".to_string(), "{}".to_string())]);
    let schema = Arc::new(batch.schema().as_ref().clone().with_metadata(metadata));
    let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).unwrap();
    let options = OutputOptions {
        sorted_by: vec![
            KeyColumn::new("word").descending(),
            KeyColumn::new("id").nulls_first(),
        ],
        bloom_filters: vec!["word".into()],
        ..OutputOptions::new(TableFormat::Parquet)
    };
    write(&path, &[batch], &schema, &options);
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
    let found = builder.metadata();
    let group = found.row_group(0);
    let sorted = group.sorting_columns().unwrap();
    let shown: Vec<_> = sorted
        .iter()
        .map(|c| (c.column_idx, c.descending, c.nulls_first))
        .collect();
    assert_eq!(shown, [(1, true, false), (0, false, true)]);
    assert!(group.column(1).bloom_filter_offset().is_some());
    assert!(group.column(0).offset_index_offset().is_some());
    let kept = found.file_metadata().key_value_metadata().unwrap();
    assert!(kept.iter().any(|pair| pair.key == "pandas"));
    assert_eq!(read(&path).schema().metadata()["pandas"], "{}");
}

#[test]
fn times_in_seconds_become_milliseconds_in_parquet_and_stay_in_arrow() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = TimestampSecondArray::from(vec![Some(5), None, Some(-7)]).with_timezone("UTC");
    let times = Time32SecondArray::from(vec![Some(1), Some(2), None]);
    let list = ListArray::from_iter_primitive::<TimestampSecondType, _, _>(vec![
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("at", Arc::new(seconds), true),
        ("time", Arc::new(times), true),
        ("list", Arc::new(list), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let path = |name: &str| dir.path().join(name);
    by_arrow(&path("in.arrow"), std::slice::from_ref(&batch), 10);
    let written = |name: &str, format| {
        let (reads, writes) = (InputOptions::default(), OutputOptions::new(format));
        copy(
            &job(ROOM_BYTES, 1),
            &[path("in.arrow")],
            &reads,
            &[path(name)],
            &writes,
        )
        .unwrap();
        by_library(&path(name), format)
    };
    let parquet = written("out.parquet", TableFormat::Parquet);
    let at = parquet.column(0).as_primitive::<TimestampMillisecondType>();
    assert_eq!(
        at.iter().collect::<Vec<_>>(),
        [Some(5_000), None, Some(-7_000)]
    );
    let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    assert_eq!(parquet.schema().field(0).data_type(), &zone);
    let times = parquet.column(1).as_primitive::<Time32MillisecondType>();
    assert_eq!(
        times.iter().collect::<Vec<_>>(),
        [Some(1_000), Some(2_000), None]
    );
    let values = parquet.column(2).as_list::<i32>().value(0);
    let values = values.as_primitive::<TimestampMillisecondType>();
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(1_000), None]);
    assert!(written("out.arrow", TableFormat::ArrowFile) == batch);
}

#[test]
fn an_output_that_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (
        dir.path().join("in.parquet"),
        dir.path().join("out.parquet"),
    );
    by_arrow(&input, &[numbers(0, 50_000)], 5_000);
    let mut bytes = std::fs::read(&input).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xa5);
    std::fs::write(&input, bytes).unwrap();
    for threads in [1, 3] {
        let job = job(64 << 20, threads);
        let paths = (std::slice::from_ref(&input), std::slice::from_ref(&out));
        let options = OutputOptions::new(TableFormat::Parquet);
        let error = copy(&job, paths.0, &InputOptions::default(), paths.1, &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert_eq!(error.file_path(), Some(input.as_path()));
        let left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["in.parquet"]);
        assert_eq!(job.budget.used_bytes(), 0);
    }
}

#[test]
fn a_column_that_no_header_has_is_told_before_the_text_is_looked_through() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("t.csv")];
    // A full scan finds the unclosed quote.
    let text = "a,b\n".to_owned() + &"1,2\n".repeat(1 << 20) + "\"";
    std::fs::write(&paths[0], text).unwrap();
    let reads = |column: &str, needed: &str, schema: &str| {
        let text = TextOptions {
            schema: match schema {
                "" => Vec::new(),
                schema => parse_types(schema).unwrap(),
            },
            ..TextOptions::default()
        };
        InputOptions {
            columns: Some(vec![column.to_owned()]),
            text: Some(text.needing([needed.to_owned()])),
            ..InputOptions::default()
        }
    };
    for (column, needed, schema) in [
        ("x", "a", ""),
        ("a", "x", ""),
        ("a", "a", "x:i64"),
        ("a", "a.x", "a:text"),
    ] {
        let error = all(&reads(column, needed, schema), &paths, 8 << 20).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.cause().contains('x'), "{error}");
    }
    let error = all(&reads("a", "b", "a:text"), &paths, 8 << 20).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
}
