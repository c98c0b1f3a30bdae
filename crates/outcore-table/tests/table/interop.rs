//! pyarrow reads outcore's files, and outcore reads pyarrow's.
//!
//! Contract: values are compared, but not the names of list elements. If `PYTHON` has no pyarrow,
//! the tests are skipped with a message.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::common::{self, Draw, Kinds, copy};
use arrow_array::{ArrayRef, RecordBatch, StructArray, TimestampMillisecondArray};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use arrow_select::concat::concat_batches;
use outcore::{IoMode, Job, JobOptions};
use outcore_table::input::{InputOptions, TableInput};
use outcore_table::output::{Codec, OutputOptions, TableFormat, TableOutput, WriterShape};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// Runs a script with arguments; `None` if there is no pyarrow.
fn pyarrow(script: &str, arguments: &[&Path]) -> Option<String> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_string());
    let probe = Command::new(&python)
        .args(["-c", "import pyarrow.parquet"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("SKIP: {python} has no pyarrow (set PYTHON to one that has)");
        return None;
    }
    let output = Command::new(&python)
        .arg("-c")
        .arg(script)
        .args(arguments)
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn job() -> Job {
    let options = JobOptions {
        memory_bytes: 256 << 20,
        threads: 2,
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

fn read(path: &Path) -> RecordBatch {
    let input = TableInput::open(&job(), &[path.to_path_buf()], &InputOptions::default()).unwrap();
    let mut reader = input.reader(128 << 20).unwrap();
    let mut batches = Vec::new();
    for &piece in input.pieces() {
        batches.extend(reader.open(piece).unwrap().map(Result::unwrap));
    }
    concat_batches(input.schema(), &batches).unwrap()
}

/// Returns only the values, because programs differ in the names of list elements and in their use
/// of dictionaries.
fn values(column: &ArrayRef) -> Vec<Vec<u8>> {
    let field = SortField::new(column.data_type().clone());
    let converter = RowConverter::new(vec![field]).unwrap();
    let rows = converter
        .convert_columns(std::slice::from_ref(column))
        .unwrap();
    rows.iter().map(|row| row.data().to_vec()).collect()
}

/// Reads outcore's files with each format's reader, and writes them again as Arrow streams.
const THROUGH: &str = "
import os, sys, pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc as ipc, pyarrow.feather as feather
root = sys.argv[1]
for name in sorted(os.listdir(root)):
    path = os.path.join(root, name)
    if path.endswith('.parquet'):
        table = pq.read_table(path)
    elif path.endswith('.arrow'):
        table = feather.read_table(path)
    else:
        table = ipc.open_stream(path).read_all()
    table.validate(full=True)
    with ipc.new_stream(path + '.through', table.schema) as writer:
        writer.write_table(table)
";

#[test]
fn pyarrow_reads_what_outcore_writes() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = Vec::new();
    for seed in 0..40 {
        let mut draw = Draw::new(seed);
        let schema = common::schema(&mut draw, 6, Kinds::Parquet);
        let batch = common::batch(&mut draw, &schema, 100);
        for (name, format, codec) in [
            ("t.parquet", TableFormat::Parquet, Codec::Zstd(3)),
            ("l.parquet", TableFormat::Parquet, Codec::Lz4),
            ("t.arrow", TableFormat::ArrowFile, Codec::Lz4),
            ("t.arrows", TableFormat::ArrowStream, Codec::Zstd(1)),
        ] {
            // pyarrow cannot read Parquet with nulls among fixed-size lists: "Expected all lists to
            // be of size".
            if format == TableFormat::Parquet && format!("{schema:?}").contains("FixedSizeList") {
                continue;
            }
            let path = dir.path().join(format!("{seed}-{name}"));
            let options = OutputOptions {
                codec,
                ..OutputOptions::new(format)
            };
            let shape = WriterShape {
                writers_count: 1,
                memory_bytes: 64 << 20,
                rows_count: None,
            };
            let output = TableOutput::create(
                &job(),
                std::slice::from_ref(&path),
                &schema,
                &options,
                shape,
            );
            let output = output.unwrap();
            let mut section = output.section(0, 0);
            section.write(&batch).unwrap();
            section.finish().unwrap();
            output.publish().unwrap();
            written.push(path);
        }
    }
    if pyarrow(THROUGH, &[dir.path()]).is_none() {
        return;
    }
    for path in written {
        let through = format!("{}.through", path.display());
        let (found, expected) = (read(Path::new(&through)), read(&path));
        assert_eq!(found.num_rows(), expected.num_rows());
        for (index, column) in expected.columns().iter().enumerate() {
            let alike = values(found.column(index)) == values(column);
            assert!(
                alike,
                "{} {}",
                path.display(),
                expected.schema_ref().field(index)
            );
        }
    }
}

/// Writes a table of many types in all formats, and an Arrow stream for comparison.
const WRITE: &str = "
import sys, datetime, decimal, pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc as ipc, pyarrow.feather as feather
root = sys.argv[1]
n = 5000
table = pa.table({
    'id': pa.array(range(n), pa.int64()),
    'text': pa.array([None if i % 7 == 0 else f'text {i % 100}' for i in range(n)]),
    'when': pa.array([i * 1_000_000 for i in range(n)], pa.timestamp('us', 'UTC')),
    'day': pa.array([datetime.date(2024, 1, 1 + i % 28) for i in range(n)]),
    'price': pa.array([decimal.Decimal(i) / 100 for i in range(n)], pa.decimal128(12, 2)),
    'tags': pa.array([[f't{j}' for j in range(i % 4)] if i % 5 else None for i in range(n)]),
    'at': pa.array([{'x': i, 'y': [i * 0.5]} if i % 3 else None for i in range(n)]),
    'map': pa.array([[('a', i), ('b', None)] for i in range(n)], pa.map_(pa.string(), pa.int32())),
    'kind': pa.array([f'k{i % 3}' for i in range(n)]).dictionary_encode(),
    'half': pa.array([i % 2 == 0 for i in range(n)]),
}, metadata={'made by': 'a test'})
for codec in ['none', 'snappy', 'gzip', 'brotli', 'zstd', 'lz4']:
    pq.write_table(table, f'{root}/{codec}.parquet', compression=codec, row_group_size=1500)
pq.write_table(table, f'{root}/v2.parquet', data_page_version='2.0', write_page_checksum=True)
pq.write_table(table, f'{root}/delta.parquet', use_dictionary=False, column_encoding={'id': 'DELTA_BINARY_PACKED', 'text': 'DELTA_BYTE_ARRAY'})
for codec in ['uncompressed', 'lz4', 'zstd']:
    feather.write_feather(table, f'{root}/{codec}.feather', compression=codec, chunksize=2000)
with ipc.new_stream(f'{root}/expected.arrows', table.schema) as writer:
    writer.write_table(table, max_chunksize=700)
try:
    import pyarrow.parquet.encryption as pe
    print('encryption')
except ImportError:
    pass
";

#[test]
fn outcore_reads_what_pyarrow_writes() {
    let dir = tempfile::tempdir().unwrap();
    if pyarrow(WRITE, &[dir.path()]).is_none() {
        return;
    }
    let expected = read(&dir.path().join("expected.arrows"));
    assert_eq!(expected.num_rows(), 5000);
    let mut names: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert_eq!(names.len(), 12);
    for path in names {
        let found = read(&path);
        for (index, column) in expected.columns().iter().enumerate() {
            let name = expected.schema_ref().field(index).name();
            let alike = values(found.column(index)) == values(column);
            assert!(alike, "{} {name}", path.display());
        }
        assert_eq!(found.schema().metadata()["made by"], "a test");
        let out = dir.path().join("copied.parquet");
        let options = OutputOptions {
            is_replacing: true,
            ..OutputOptions::new(TableFormat::Parquet)
        };
        copy(
            &job(),
            &[path],
            &InputOptions::default(),
            std::slice::from_ref(&out),
            &options,
        )
        .unwrap();
        assert_eq!(read(&out).columns(), found.columns());
        std::fs::remove_file(out).unwrap();
    }
}

/// Writes a file with a plain footer and encrypted columns, and a completely encrypted one.
const ENCRYPT: &str = "
import sys, pyarrow as pa, pyarrow.parquet as pq, pyarrow.parquet.encryption as pe
class Kms(pe.KmsClient):
    def __init__(self, config):
        super().__init__()
    def wrap_key(self, key, name):
        import base64
        return base64.b64encode(key)
    def unwrap_key(self, wrapped, name):
        import base64
        return base64.b64decode(wrapped)
table = pa.table({'a': list(range(100)), 'b': ['x'] * 100})
for plain in [False, True]:
    config = pe.EncryptionConfiguration(footer_key='f', column_keys={'c': ['a']}, plaintext_footer=plain)
    factory = pe.CryptoFactory(lambda config: Kms(config))
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(f'{sys.argv[1]}/{plain}.parquet', table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
";

#[test]
fn encrypted_files_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    if pyarrow(ENCRYPT, &[dir.path()]).is_none() {
        return;
    }
    for name in ["False.parquet", "True.parquet"] {
        let path = dir.path().join(name);
        let reading = || {
            let input = TableInput::open(
                &job(),
                std::slice::from_ref(&path),
                &InputOptions::default(),
            )?;
            let mut reader = input.reader(64 << 20)?;
            let pieces = input.pieces().to_vec();
            for piece in pieces {
                for batch in reader.open(piece)? {
                    batch?;
                }
            }
            Ok::<(), outcore_io::Error>(())
        };
        let error = reading().unwrap_err().to_string();
        assert!(
            error.contains("encrypted") && error.contains(name),
            "{error}"
        );
    }
}

/// In pyarrow's form: milliseconds in the file, next to a schema with the original type.
#[test]
fn the_zone_of_times_that_were_seconds_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let of = |unit: TimeUnit, zone: &str| DataType::Timestamp(unit, Some(zone.into()));
    let schema_of = |unit: TimeUnit| {
        let inner = Fields::from(vec![Field::new("at", of(unit, "Europe/Berlin"), true)]);
        Arc::new(Schema::new(vec![
            Field::new("at", of(unit, "+05:30"), true),
            Field::new("s", DataType::Struct(inner), true),
        ]))
    };
    let stored = schema_of(TimeUnit::Millisecond);
    let times = |zone: &str| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(vec![Some(5_000), None]).with_timezone(zone))
    };
    let DataType::Struct(inner) = stored.field(1).data_type() else {
        unreachable!()
    };
    let nested = StructArray::new(inner.clone(), vec![times("Europe/Berlin")], None);
    let columns: Vec<ArrayRef> = vec![times("+05:30"), Arc::new(nested)];
    let batch = RecordBatch::try_new(Arc::clone(&stored), columns).unwrap();
    let written = encode_arrow_schema(&schema_of(TimeUnit::Second));
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![KeyValue::new(
            ARROW_SCHEMA_META_KEY.to_owned(),
            written,
        )]))
        .build();
    let options = ArrowWriterOptions::new()
        .with_skip_arrow_metadata(true)
        .with_properties(properties);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, Arc::clone(&stored), options).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(read(&path) == batch, "{:?}", read(&path).schema());
}
