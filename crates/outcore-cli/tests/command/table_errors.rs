//! What commands refuse to do with tables, and tables that cannot be read.
//!
//! Contract: as in [`crate::tables`]: what is wrong is named, and nothing is left behind.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UnionArray};
use arrow_schema::{DataType, Field};

use crate::support::TestDir;
use crate::tables::{batch, read, rows_of, write};

#[test]
fn a_type_that_parquet_has_not_is_an_error_with_the_file_and_no_panic() {
    let place = TestDir::new();
    let fields = [(0, Arc::new(Field::new("n", DataType::Int64, true)))];
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let types = vec![0_i8, 0].into();
    let union = UnionArray::try_new(fields.into_iter().collect(), types, None, vec![numbers]);
    let union: ArrayRef = Arc::new(union.unwrap());
    let batch = RecordBatch::try_from_iter([("u", union)]).unwrap();
    let file = std::fs::File::create(place.path("u.arrow")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    for verb in ["convert", "shuffle"] {
        let answer = place.run(&[verb, "u.arrow", "-o", "u.parquet"]);
        assert!(!answer.stderr.contains("panicked"), "{answer:?}");
        answer.fails(2, &["`u`", "Union"], "Arrow file");
    }
    assert_eq!(place.names(), ["u.arrow"]);
}

#[test]
fn what_tables_cannot_have_is_named_and_nothing_is_left() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(100));
    place.write("lines", b"b\na\n");
    let sort = ["sort", "t.parquet"];
    let refused = [
        (&["-o", "s.parquet", "--by", "nmae"][..], "nmae", "`name`"),
        (&["-o", "s.parquet", "-k1,1"], "table", "--by"),
        (&["-o", "s.parquet", "--check"], "", ""),
        (&["-o", "s.txt"], "does not say which format", ".parquet"),
        (&[], "standard output", "-o"),
        (&["-o", "t.parquet"], "input", "--replace"),
        (&["-o", "s.parquet", "--codec", "zip"], "codec", "zstd"),
        (&["-o", "s.arrow", "--codec", "snappy"], "codec", "lz4"),
        (&["-o", "s.parquet", "--columns", "x"], "x", ""),
        (&["-o", "s.parquet", "lines"], "lines", "Parquet"),
    ];
    for (arguments, cause, hint) in refused {
        let answer = place.run(&[&sort[..], arguments].concat());
        answer.fails(2, &[cause], hint);
    }
    place
        .run(&["sort", "lines", "--codec", "zstd"])
        .fails(2, &["for tables"], "--codec");
    let bytes = place.read("t.parquet");
    place.write("cut.parquet", &bytes[..bytes.len() - 20]);
    place
        .run(&["info", "cut.parquet"])
        .fails(4, &["cut.parquet"], "");
    place
        .run(&["convert", "cut.parquet", "-o", "s.parquet"])
        .fails(4, &["cut.parquet"], "");
    assert_eq!(place.names(), ["cut.parquet", "lines", "t.parquet"]);
}

#[test]
fn a_file_of_a_directory_that_is_read_is_never_written_over() {
    let place = TestDir::new();
    let dir = place.make_dir("logs");
    write(&dir.join("1.parquet"), &batch(30));
    place
        .run(&["sort", "logs", "-o", "logs/1.parquet", "--force"])
        .fails(2, &["input"], "--replace");
    assert_eq!(read(&dir.join("1.parquet")), rows_of(&batch(30)));
}

#[test]
fn tables_that_cannot_be_read_or_sorted_are_named_and_nothing_is_left() {
    let place = TestDir::new();
    let dir = place.make_dir("logs");
    write(&dir.join("1.parquet"), &batch(2_000));
    // A file of other columns: named, and with --union null where they are missing.
    let more: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let other = batch(50);
    let columns = [
        ("name", Arc::clone(other.column(0))),
        ("number", Arc::clone(other.column(1))),
        ("more", more),
    ];
    write(
        &dir.join("2.parquet"),
        &RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap(),
    );
    place
        .run(&["sort", "logs", "-o", "s.parquet", "--by", "number"])
        .fails(2, &["`more`", "2.parquet"], "");
    place
        .run(&[
            "sort",
            "logs",
            "-o",
            "s.parquet",
            "--by",
            "number",
            "--union",
        ])
        .ok();
    assert_eq!(read(&place.path("s.parquet")).len(), 2_050);
    std::fs::remove_file(place.path("s.parquet")).unwrap();
    // Types that differ: both are named.
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let columns = [("name", Arc::clone(&texts)), ("number", texts)];
    write(
        &dir.join("2.parquet"),
        &RecordBatch::try_from_iter(columns).unwrap(),
    );
    place
        .run(&["dedup", "logs", "-o", "s.parquet", "--union"])
        .fails(2, &["`number`", "Utf8", "Int64", "2.parquet"], "");
    std::fs::remove_file(dir.join("2.parquet")).unwrap();
    // A file that ends too early, one that is overwritten in the middle, and one that is empty.
    let bytes = std::fs::read(dir.join("1.parquet")).unwrap();
    let mut torn = bytes.clone();
    let end = torn.len() / 2;
    torn[16..end].fill(0xFF);
    for (name, bytes) in [
        ("cut", &bytes[..bytes.len() / 2]),
        ("torn", &torn),
        ("empty", &[]),
    ] {
        let name = format!("{name}.parquet");
        place.write(&name, bytes);
        for job in [
            &["sort", "--by", "number"][..],
            &["shuffle"],
            &["unique"],
            &["dedup"],
            &["convert"],
            &["filter", "number > 0"],
            &["map", "a = number"],
            &["join", "logs", "--on", "number"],
            &["sample", "-n", "20"],
        ] {
            let answer = place.run(&[job, &[name.as_str(), "-o", "s.parquet"]].concat());
            assert!(matches!(answer.code, Some(2 | 4)), "{job:?} {answer:?}");
            assert!(answer.stderr.contains(&name), "{job:?} {answer:?}");
        }
        std::fs::remove_file(place.path(&name)).unwrap();
    }
    // A row group that is above what the memory has room for.
    let wide: ArrayRef = Arc::new(StringArray::from_iter_values((0..60).map(|row| {
        let mut text = String::new();
        for word in 0..200_000_u64 {
            text += &(word.wrapping_mul(row + 0x9E37_79B9_7F4A_7C15)).to_string();
        }
        text
    })));
    write(
        &place.path("wide.parquet"),
        &RecordBatch::try_from_iter([("wide", wide)]).unwrap(),
    );
    let few = [
        "sort",
        "wide.parquet",
        "-o",
        "s.parquet",
        "--by",
        "wide",
        "--memory",
        "8MiB",
    ];
    place.run(&few).fails(6, &["wide.parquet"], "--memory");
    std::fs::remove_file(place.path("wide.parquet")).unwrap();
    assert_eq!(place.names(), ["logs"]);
}
