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
        (&["-o", "s.txt"], "does not give the format", ".parquet"),
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
fn habits_from_sql_and_other_tools_are_told_what_is_written_here() {
    let place = TestDir::new();
    place.write(
        "t.csv",
        b"c,p,at\nES,3,2024-05-01T10:00:00\nFR,4,2023-01-01T00:00:00\n",
    );
    place.run(&["convert", "t.csv", "-o", "t.parquet"]).ok();
    place.write("empty.parquet", b"");
    let group = |aggregate| vec!["group-by", "t.parquet", "--agg", aggregate];
    let filter = |condition| vec!["filter", condition, "t.parquet"];
    let map = |expression| vec!["map", expression, "t.parquet"];
    let refused = [
        (
            group("sum(p) total"),
            "follows `sum(p)`; write total=sum(p)",
            "NAME=sum(C)",
        ),
        (group("sum(p) as"), "no name after `as`", "NAME=sum(C)"),
        (
            group("count(distinct c)"),
            "different values",
            "count_distinct(c)",
        ),
        (
            map("q = c || c"),
            "expected a truth value",
            "concat(a, b) joins texts",
        ),
        (
            map("q = cast(p as int)"),
            "`cast` is not a function",
            "i64(price)",
        ),
        (map("q = p::int"), "an operator is missing", "i64(price)"),
        (
            filter("c =~ 'E.*'"),
            "`=~` is not an operator",
            "regexp_matches(name",
        ),
        (
            filter("c ~ 'E.*'"),
            "an operator is missing",
            "regexp_matches(name",
        ),
        (
            filter("at > 2024-01-01"),
            "`2024-01-01` is a subtraction here, which gives 2022",
            "put dates in quotes: '2024-01-01'",
        ),
        (
            filter("at between 2024-01-01 and 2024-12-31"),
            "`2024-01-01` is a subtraction",
            "in quotes",
        ),
        (
            filter("at > '2024-13-01'"),
            "`2024-13-01` is not a time",
            "'2024-12-01T10:30:00'",
        ),
    ];
    for (arguments, cause, hint) in refused {
        let answer = place.run(&[&arguments[..], &["-o", "x.parquet"]].concat());
        answer.fails(2, &[cause], hint);
    }
    place.run(&["reduce", "sum(p)", "t.parquet"]).fails(
        2,
        &["not records"],
        "outcore group-by FILE --agg 'sum(COLUMN)'",
    );
    place
        .run(&["sort", "empty.parquet", "--by", "a", "-o", "x.parquet"])
        .fails(4, &["neither Parquet nor Arrow"], "write it again");
    for words in [
        &["sort", "--csv", "--by", "p", "-o", "x.parquet"][..],
        &["sort", "--by", "p", "-o", "x.parquet"],
    ] {
        let answer = place.run_with_input(words, b"p\n1\n");
        answer.fails(
            2,
            &["standard input needs a format"],
            "Parquet cannot be read from a pipe",
        );
    }
    assert_eq!(place.names(), ["empty.parquet", "t.csv", "t.parquet"]);
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
        .fails(2, &["`number`", "text", "i64", "2.parquet"], "");
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

#[test]
fn errors_of_a_split_into_directories_name_the_directory_and_keep_their_own_hints() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(100));
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_001));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_001));
    let many = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
    write(&place.path("many.parquet"), &many);
    let split = |input: &str, out: &str, more: &[&str]| {
        place.run(&[&["split", input, "--by", "k", "-o", out], more].concat())
    };
    split("many.parquet", "many", &[]).fails(2, &["more than 10,000 groups"], "fewer values");
    let little = split("many.parquet", "many", &["--memory", "1MiB"]);
    let little = little.fails(6, &["1.00 MiB"], "--memory");
    assert!(!little.stderr.contains("fewer values"), "{little:?}");
    place
        .run(&["convert", "t.parquet", "-o", "d", "--parts", "2"])
        .ok();
    for words in [
        &[
            "split",
            "d/part-00000.parquet",
            "--by",
            "name",
            "-o",
            "d",
            "--force",
        ][..],
        &["convert", "d", "-o", "d", "--parts", "3", "--force"],
    ] {
        let taken = place
            .run(words)
            .fails(2, &["one of its files is an input (d)"], "directory");
        assert!(!taken.stderr.contains("part-"), "{taken:?}");
    }
}

#[test]
fn counts_in_errors_agree_with_their_nouns() {
    let place = TestDir::new();
    place.write("one.csv", b"a\n1\n2,3\n");
    let answer = place.run(&["convert", "one.csv", "-o", "x.parquet"]);
    answer.fails(4, &["2 fields, where the file has 1 column"], "-t");
    place.write("two.csv", b"a,b\n1,2\n3\n");
    let answer = place.run(&["convert", "two.csv", "-o", "x.parquet"]);
    answer.fails(4, &["1 field, where the file has 2 columns"], "-t");
    write(&place.path("t.parquet"), &batch(3));
    let pattern = "y = regexp_extract(name, '(a)', 2)";
    let answer = place.run(&["map", pattern, "t.parquet", "-o", "x.parquet"]);
    answer.fails(2, &["the pattern has only 1 group"], "counted from 1");
}

#[test]
fn a_table_without_columns_says_so_instead_of_listing_none() {
    let place = TestDir::new();
    let none = RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty()));
    let file = std::fs::File::create(place.path("none.arrow")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &none.schema()).unwrap();
    writer.finish().unwrap();
    let answer = place.run(&["sort", "none.arrow", "--by", "k", "-o", "x.arrow"]);
    answer.fails(2, &["there is no column `k`"], "the table has no columns");
}

#[test]
fn a_view_a_graph_and_a_volume_are_named_where_a_table_is_expected() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(100));
    place.write("e.txt", b"0 1\n1 2\n");
    for dir in ["all", "d"] {
        std::fs::create_dir(place.path(dir)).unwrap();
    }
    place.write("all/t.jsonl", b"{\"number\":1}\n{\"number\":2}\n");
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("view build t.parquet -o v --by number").ok();
    run("view build t.parquet -o all/v --by number").ok();
    run("graph convert e.txt -o g").ok();
    place.write("d/volume.json", b"{\n  \"outcore\": \"volume label\",");
    let kinds = [
        ("v", "sorted view", "outcore view cat"),
        ("g", "graph", "outcore graph info"),
        ("d", "volume", "outcore volume get"),
    ];
    for (name, cause, hint) in kinds {
        for line in [
            "convert IN -o o.parquet",
            "head IN",
            "info IN",
            "sort IN -o o",
        ] {
            run(&line.replace("IN", name)).fails(2, &[cause, name], hint);
        }
        let group = format!("group-by {name} --by number -o o.parquet");
        run(&group).fails(2, &[cause, name], hint);
    }
    // A view among tables is none of them, whatever the file that describes it is called.
    run("convert all -o all.csv").ok();
    assert_eq!(place.read("all.csv"), b"number\n1\n2\n");
}
