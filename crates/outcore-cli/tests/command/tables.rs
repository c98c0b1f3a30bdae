//! Tables: sort, shuffle, unique, convert and info on Parquet and Arrow.
//!
//! Contract: the Parquet library writes and reads the files. A rejected command leaves nothing
//! behind.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::json;

use crate::support::TestDir;

/// Rows (name, number) with few names; the name is null in every seventh row.
pub(crate) fn batch(rows: i64) -> RecordBatch {
    let names = ["b", "c", "a"];
    let name: StringArray = (0..rows)
        .map(|row| (row % 7 != 0).then(|| names[row as usize % 3]))
        .collect();
    let number = Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % rows));
    let schema = Schema::new(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("number", DataType::Int64, false),
    ]);
    let columns: Vec<ArrayRef> = vec![Arc::new(name), Arc::new(number)];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

pub(crate) fn write(path: &Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// The rows of a file.
pub(crate) fn read(path: &Path) -> Vec<(Option<String>, i64)> {
    let file = std::fs::File::open(path).unwrap();
    let batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let mut rows = Vec::new();
    for batch in batches.build().unwrap() {
        let batch = batch.unwrap();
        let name = batch.column_by_name("name").unwrap();
        let name = name.as_any().downcast_ref::<StringArray>().unwrap();
        let number = batch.column_by_name("number").unwrap();
        let number = number.as_any().downcast_ref::<Int64Array>().unwrap();
        rows.extend((0..batch.num_rows()).map(|row| {
            let name = name.is_valid(row).then(|| name.value(row).to_owned());
            (name, number.value(row))
        }));
    }
    rows
}

pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<(Option<String>, i64)> {
    let place = TestDir::new();
    write(&place.path("t.parquet"), batch);
    read(&place.path("t.parquet"))
}

#[test]
fn a_table_is_sorted_by_columns() {
    let place = TestDir::new();
    let table = batch(5_000);
    write(&place.path("t.parquet"), &table);
    place
        .run(&[
            "sort",
            "t.parquet",
            "-o",
            "s.parquet",
            "--by",
            "name:desc",
            "--by",
            "number",
        ])
        .ok();
    let mut expected = rows_of(&table);
    expected.sort_by(|a, b| match (&a.0, &b.0) {
        (None, None) => a.1.cmp(&b.1),
        (None, _) => std::cmp::Ordering::Greater,
        (_, None) => std::cmp::Ordering::Less,
        (x, y) => y.cmp(x).then(a.1.cmp(&b.1)),
    });
    assert!(read(&place.path("s.parquet")) == expected);
    // Without keys, rows are sorted by all columns; with `--replace`, the sort is in place.
    place
        .run(&["sort", "-r", "t.parquet", "-o", "t.parquet"])
        .fails(2, &["t.parquet"], "--replace");
    place
        .run(&["sort", "-r", "t.parquet", "-o", "t.parquet", "--replace"])
        .ok();
    expected.sort_by(|a, b| (a.0.is_none(), &b.0, b.1).cmp(&(b.0.is_none(), &a.0, a.1)));
    assert!(read(&place.path("t.parquet")) == expected);
}

#[test]
fn distinct_rows_shuffles_and_copies_of_directories_are_written() {
    let place = TestDir::new();
    let dir = place.make_dir("logs");
    write(&dir.join("1.parquet"), &batch(3_000));
    write(&dir.join("2.parquet"), &batch(3_000));
    place
        .run(&["unique", "logs", "-o", "u.parquet", "--by", "name"])
        .ok();
    let names: Vec<Option<String>> = read(&place.path("u.parquet"))
        .into_iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(
        names,
        [Some("a".into()), Some("b".into()), Some("c".into()), None]
    );
    let answer = place
        .run(&["unique", "logs", "-o", "all.parquet", "--json"])
        .ok();
    let summary = answer.event("summary");
    assert_eq!(summary["records"], json!(3_000));
    assert_eq!(summary["records_in"], json!(6_000));

    let shuffled = |seed: &str, out: &str| {
        place
            .run(&[
                "shuffle",
                "logs",
                "-o",
                out,
                "--seed",
                seed,
                "--threads",
                seed,
            ])
            .ok();
        read(&place.path(out))
    };
    let first = shuffled("1", "1.parquet");
    assert!(first != shuffled("2", "2.parquet"));
    let sorted = |mut rows: Vec<(Option<String>, i64)>| {
        rows.sort();
        rows
    };
    let all = sorted([rows_of(&batch(3_000)), rows_of(&batch(3_000))].concat());
    assert!(sorted(first) == all);

    place.run(&["convert", "logs", "-o", "t.arrow"]).ok();
    place
        .run(&[
            "convert",
            "t.arrow",
            "-o",
            "parts",
            "--parts",
            "4",
            "--codec",
            "snappy",
            "--columns",
            "number,name",
        ])
        .ok();
    let parts: Vec<_> = (0..4)
        .map(|part| place.path(&format!("parts/part-{part:05}.parquet")))
        .collect();
    let rows: Vec<_> = parts.iter().flat_map(|path| read(path)).collect();
    assert!(rows == [rows_of(&batch(3_000)), rows_of(&batch(3_000))].concat());
    assert!(parts.iter().all(|path| read(path).len() == 1_500));
    let file = std::fs::File::open(&parts[0]).unwrap();
    let found = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(found.schema().field(0).name(), "number");
    let column = found.metadata().row_group(0).column(0);
    assert_eq!(column.compression(), Compression::SNAPPY);
}

#[test]
fn what_a_table_holds_is_told() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(1_234));
    let told = place.run(&["info", "t.parquet"]).ok().text();
    assert!(
        told.contains("1,234 rows in 1 file and 1 row group"),
        "{told}"
    );
    assert!(told.contains("number  i64, no nulls"), "{told}");
    let answer = place.run(&["info", "t.parquet", "--json"]).ok();
    let columns = &answer.event("summary")["columns"];
    assert_eq!(
        columns[0],
        json!({"name": "name", "type": "text", "nullable": true})
    );
}

#[test]
fn duplicates_are_removed_where_they_stand_and_written_if_asked_for() {
    let place = TestDir::new();
    let table = batch(3_000);
    write(&place.path("t.parquet"), &table);
    let all = rows_of(&table);
    let kept_of = |arguments: &[&str]| {
        let common = [
            "dedup",
            "t.parquet",
            "-o",
            "d.parquet",
            "--by",
            "name",
            "--force",
        ];
        let answer = place
            .run(&[&common[..], arguments, &["--json"]].concat())
            .ok();
        let summary = answer.event("summary");
        assert_eq!(summary["removed"], json!(2_996), "{arguments:?}");
        read(&place.path("d.parquet"))
    };
    // For each name the first row, the last row, and the row with the largest number, in the order
    // of the input.
    let naive = |better: &dyn Fn(usize, usize) -> bool| {
        let mut best: Vec<usize> = Vec::new();
        for row in 0..all.len() {
            match best.iter_mut().find(|kept| all[**kept].0 == all[row].0) {
                Some(kept) if better(row, *kept) => *kept = row,
                Some(_) => {}
                None => best.push(row),
            }
        }
        best.sort_unstable();
        best.into_iter()
            .map(|row| all[row].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept_of(&[]), naive(&|_, _| false));
    assert_eq!(kept_of(&["--keep", "last"]), naive(&|_, _| true));
    let largest = naive(&|row, kept| all[row].1 > all[kept].1);
    assert_eq!(kept_of(&["--keep", "number:desc"]), largest);
    kept_of(&["--removed", "r.parquet"]);
    let mut both = [
        read(&place.path("d.parquet")),
        read(&place.path("r.parquet")),
    ]
    .concat();
    let mut expected = all.clone();
    both.sort();
    expected.sort();
    assert!(both == expected);
    place.run(&["dedup", "t.parquet", "-o", "all.arrow"]).ok();
    place.write("lines.txt", b"{\"a\":1}\n");
    let refused = [
        (
            &["t.parquet", "-o", "x.parquet", "--keep", "nmae"][..],
            "nmae",
            "`name`",
        ),
        (
            &["t.parquet", "-o", "x.parquet", "--removed", "x.parquet"],
            "two outputs",
            "another",
        ),
        (
            &["t.parquet", "-o", "x.parquet", "--removed", "t.parquet"],
            "input",
            "",
        ),
        (
            &["t.parquet", "-o", "x.parquet", "--removed", "r.parquet"],
            "exists",
            "--force",
        ),
        (
            &["lines.txt", "-o", "x.parquet", "--by", "a"],
            "only tables",
            "unique",
        ),
        (
            &["hdfs://bucket/t.parquet", "-o", "x.parquet"],
            "hdfs://",
            "local",
        ),
    ];
    for (arguments, cause, hint) in refused {
        let answer = place.run(&[&["dedup"], arguments].concat());
        answer.fails(2, &[cause], hint);
    }
    let left = [
        "all.arrow",
        "d.parquet",
        "lines.txt",
        "r.parquet",
        "t.parquet",
    ];
    assert_eq!(place.names(), left);
}

#[test]
fn rows_are_filtered_and_columns_computed_by_expressions() {
    let place = TestDir::new();
    let table = batch(3_000);
    write(&place.path("t.parquet"), &table);
    let all = rows_of(&table);
    let filtered = |arguments: &[&str]| {
        place
            .run(&[arguments, &["t.parquet", "-o", "f.parquet", "--force"]].concat())
            .ok();
        read(&place.path("f.parquet"))
    };
    type Keep<'k> = &'k dyn Fn(&(Option<String>, i64)) -> bool;
    let expected = |keep: Keep<'_>| {
        all.iter()
            .filter(|row| keep(row))
            .cloned()
            .collect::<Vec<_>>()
    };
    let is_a = |row: &(Option<String>, i64)| row.0.as_deref() == Some("a");
    assert!(filtered(&["filter", "name == 'a'"]) == expected(&|row| is_a(row)));
    assert!(
        filtered(&[
            "filter",
            "name in ('a', 'b') and number < 100",
            "--where",
            "number % 2 = 0"
        ]) == expected(&|row| row.1 < 100
            && row.1 % 2 == 0
            && matches!(row.0.as_deref(), Some("a" | "b")))
    );
    assert!(filtered(&["filter", "name is null"]) == expected(&|row| row.0.is_none()));
    let mapped = filtered(&["map", "number = -number, name = upper(name)"]);
    let negative =
        |row: &(Option<String>, i64)| (row.0.as_ref().map(|name| name.to_uppercase()), -row.1);
    assert!(mapped == all.iter().map(negative).collect::<Vec<_>>());
    let refused = [
        (&["filter", "nmae == 'a'"][..], "no column `nmae`", "`name`"),
        (&["filter", "number ="], "a value is missing", ""),
        (&["filter", "number + 1"], "truth value", ""),
        (&["map", "number * 2"], "needs a name", "total = price * n"),
        (&["filter", "name > 'a'", "--type", "u64"], "", ""),
        (&["filter", "name > 'a'", "--zip", "t.parquet"], "--zip", ""),
        (&["filter", "name > 'a'", "--parts", "2"], "", ""),
    ];
    for (arguments, cause, hint) in refused {
        let answer = place.run(&[arguments, &["t.parquet", "-o", "x.parquet"]].concat());
        answer.fails(2, &[cause], hint);
    }
    assert_eq!(place.names(), ["f.parquet", "t.parquet"]);
}

#[test]
fn first_rows_are_printed_and_parts_are_written_together() {
    let place = TestDir::new();
    let table = batch(1_000);
    write(&place.path("t.parquet"), &table);
    let all = rows_of(&table);
    let printed = place
        .run(&["head", "-n", "3", "t.parquet", "--columns", "number,name"])
        .ok();
    assert_eq!(printed.text(), "number,name\n0,\n919,c\n838,a\n");
    // With --json the rows are data as before, and events go to standard error.
    let line = [
        "head",
        "-n",
        "3",
        "t.parquet",
        "--columns",
        "number,name",
        "--json",
    ];
    let answer = place.run(&line).ok();
    assert_eq!(answer.text(), printed.text());
    assert!(answer.stderr.contains("\"records\":3"), "{answer:?}");
    place
        .run(&["head", "-n", "300", "t.parquet", "-o", "h.parquet"])
        .ok();
    assert!(read(&place.path("h.parquet")) == all[..300]);
    let by = ["head", "-n", "70", "t.parquet", "--by", "number:desc"];
    place.run(&[&by[..], &["-o", "top.parquet"]].concat()).ok();
    place
        .run(&[
            "sort",
            "t.parquet",
            "--by",
            "number:desc",
            "--stable",
            "-o",
            "o.parquet",
        ])
        .ok();
    assert!(read(&place.path("top.parquet")) == read(&place.path("o.parquet"))[..70]);
    let printed = place.run(&by).ok().text();
    assert_eq!(printed.lines().count(), 71);
    std::fs::write(place.path("lines.txt"), "b\na\n").unwrap();
    place.run(&["head", "lines.txt", "--by", "number"]).fails(
        2,
        &["--by cannot be used with lines", "tables"],
        "outcore sort",
    );
    place
        .run(&["sample", "-n", "50", "t.parquet", "-o", "s.parquet"])
        .ok();
    assert_eq!(read(&place.path("s.parquet")).len(), 50);
    place
        .run(&[
            "split",
            "t.parquet",
            "--rows",
            "300",
            "-o",
            "p-{part}.parquet",
        ])
        .ok();
    let parts: Vec<_> = (0..4)
        .map(|part| read(&place.path(&format!("p-{part}.parquet"))))
        .collect();
    let lens: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert_eq!(lens, [300, 300, 300, 100]);
    assert!(parts.concat() == all);
    let split = [
        "split",
        "t.parquet",
        "--train",
        "0.9",
        "--seed",
        "3",
        "-o",
        "{part}.parquet",
    ];
    place.run(&split).ok();
    let (train, test) = (
        read(&place.path("train.parquet")),
        read(&place.path("test.parquet")),
    );
    assert_eq!((train.len(), test.len()), (900, 100));
    let mut both = [train, test].concat();
    let mut expected = all.clone();
    both.sort();
    expected.sort();
    assert!(both == expected);
    let before = place.names();
    place.run(&split).fails(2, &["exists"], "--force");
    place
        .run(&["split", "t.parquet", "-n", "2", "-o", "x.parquet"])
        .fails(2, &["{part}"], "part-{part}.parquet");
    place.write("lines", b"a\nb\n");
    place
        .run(&["split", "lines", "--train", "0.5", "-o", "{part}.txt"])
        .fails(2, &["for tables"], "--train");
    std::fs::remove_file(place.path("lines")).unwrap();
    assert_eq!(place.names(), before);
}

/// Random words, in decimal.
fn random_words() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |word| {
        Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
    })
}

/// Writes a table with row groups of `group_rows` rows.
fn write_groups(path: &Path, table: &RecordBatch, group_rows: usize) {
    let groups = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_dictionary_enabled(false)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(groups)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
}

/// Runs a job with a limit on its memory; its peak exceeds the limit by at most 64 MiB.
#[track_caller]
fn check_peak(place: &TestDir, job: &str, memory_mib: u64) {
    let words: Vec<&str> = job.split(' ').collect();
    let memory = format!("{memory_mib}MiB");
    let words = [&words[..], &["--json", "--memory", &memory]].concat();
    let summary = place.run(&words).ok().event("summary");
    let peak_bytes = summary["peak_rss_bytes"].as_u64().unwrap();
    assert!(
        peak_bytes <= (memory_mib + 64) << 20,
        "{job} in {memory}: {peak_bytes}"
    );
}

#[test]
fn memory_stays_within_64_mib_of_what_is_allowed() {
    let place = TestDir::new();
    // 120 MB of texts that do not compress much.
    let rows = 400_000;
    let mut words = random_words().map(|word| word.to_string());
    let text = |_| -> String { words.by_ref().take(15).collect() };
    let text = StringArray::from_iter_values((0..rows).map(text));
    let key = Int64Array::from_iter_values((0..rows).map(|row| row * 7919 % 300_007));
    let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(text)), ("key", Arc::new(key))];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    write_groups(&place.path("t.parquet"), &table, 50_000);
    drop(table);
    for memory_mib in [64, 256] {
        for job in [
            "sort t.parquet -o o.parquet --force --by text",
            "shuffle t.parquet -o o.parquet --force",
            "dedup t.parquet -o o.parquet --force --by key",
            "filter key%2==0 t.parquet -o o.parquet --force",
            "join t.parquet t.parquet -o o.parquet --force --on key --columns text,key",
            "view build t.parquet -o t.view --force --by text",
            "view verify t.view",
            "view materialize t.view -o o.parquet --force",
        ] {
            check_peak(&place, job, memory_mib);
        }
    }
}

#[test]
fn tables_of_many_columns_are_read_and_compressed_within_the_memory() {
    let place = TestDir::new();
    let mut words = random_words().map(|word| word as i64);
    for (columns_count, memory_mib) in [(500, 128), (1500, 256)] {
        let columns = (0..columns_count).map(|number| {
            let numbers = Int64Array::from_iter_values(words.by_ref().take(4000));
            (format!("c{number}"), Arc::new(numbers) as ArrayRef)
        });
        let table = RecordBatch::try_from_iter(columns.collect::<Vec<_>>()).unwrap();
        write_groups(&place.path("t.parquet"), &table, 2000);
        drop(table);
        for job in ["convert", "shuffle"] {
            let job = format!("{job} t.parquet -o o.parquet --force");
            check_peak(&place, &job, memory_mib);
        }
    }
}

#[test]
fn jobs_on_tables_show_their_plans_beside_what_they_did() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(5_000));
    let sorted = ["distribute", "sort"];
    for (arguments, phases) in [
        (&["sort", "--by", "number"][..], &sorted[..]),
        (&["shuffle"], &sorted),
        (&["unique", "--by", "name"], &sorted),
        (&["group-by", "--by", "name"], &sorted),
        (
            &["window", "--by", "name", "--add", "n=row_number"],
            &sorted,
        ),
        (&["dedup", "--by", "name"], &["distribute", "sort", "copy"]),
        (&["convert"], &["copy"]),
        (&["filter", "number < 7"], &["copy"]),
        (&["sample", "-n", "9"], &["copy"]),
        (&["head", "-n", "9", "--by", "name"], &sorted),
        (&["merge", "--by", "name"], &["merge"]),
        (
            &["diff", "t.parquet", "--by", "name"],
            &["distribute", "sort", "compare"],
        ),
    ] {
        let files = ["t.parquet", "-o", "o.parquet", "--force", "--explain"];
        let at = if arguments[0] == "filter" { 2 } else { 1 };
        let files = [&arguments[..at], &files[..], &arguments[at..]];
        if arguments[0] == "merge" {
            let sort = ["sort", "--by", "name", "t.parquet", "--replace"];
            place.run(&sort).ok();
        }
        let said = place.run(&files.concat()).ok().stderr;
        assert!(said.contains("predicted: reads "), "{arguments:?}: {said}");
        for phase in phases {
            let row = said
                .lines()
                .find(|line| line.starts_with(&format!("  {phase} ")));
            let is_planned = row.is_some_and(|row| row.contains(" B") || row.contains("KiB"));
            assert!(is_planned, "{arguments:?} {phase}: {said}");
            assert!(said.contains("planned"), "{arguments:?}: {said}");
        }
    }
    // With another codec, fewer rows may take more bytes, so no prediction is called a bound.
    for arguments in [
        &["filter", "number < 7", "t.parquet"][..],
        &["unique", "t.parquet", "--by", "name"],
    ] {
        let output = ["-o", "o.parquet", "--force", "--codec", "none", "--explain"];
        let said = place.run(&[arguments, &output].concat()).ok().stderr;
        let predicted = said.lines().find(|line| line.contains("predicted: "));
        let is_honest = predicted
            .is_some_and(|line| line.contains("not known in advance") && !line.contains("at most"));
        assert!(is_honest, "{arguments:?}: {said}");
    }
    place
        .run(&["sort", "t.parquet", "-o", "p.parquet", "--dry-run"])
        .fails(2, &["--dry-run"], "--explain");
}

#[test]
fn csv_and_json_lines_are_tables_where_types_are_asked_for_or_needed() {
    let place = TestDir::new();
    let csv = "number,name\n10,b\n9,\n10,\"a\n,\"\n";
    std::fs::write(place.path("t.csv"), csv).unwrap();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>()).ok();
    let rows = |name: &str| read(&place.path(name));
    let wanted = vec![
        (None, 9),
        (Some("b".to_owned()), 10),
        (Some("a\n,".to_owned()), 10),
    ];
    let done = run("sort t.csv -o s.parquet --by number --stable");
    assert_eq!(rows("s.parquet"), wanted);
    assert!(
        done.stderr.contains("types of 2 columns from 3 rows"),
        "{}",
        done.stderr
    );
    // Rows keep their bytes if no option asks for types.
    run("sort --csv t.csv -o bytes.csv --by number");
    let bytes = std::fs::read_to_string(place.path("bytes.csv")).unwrap();
    assert!(bytes.starts_with("number,name\n10,"), "{bytes}");
    run("sort --csv t.csv -o typed.csv --by number --infer --stable");
    let typed = std::fs::read_to_string(place.path("typed.csv")).unwrap();
    assert_eq!(typed, "number,name\n9,\n10,b\n10,\"a\n,\"\n");
    run("convert typed.csv -o t.jsonl.zst");
    run("convert t.jsonl.zst -o back.parquet");
    assert_eq!(rows("back.parquet"), wanted);
    run("shuffle t.jsonl.zst -o a.parquet --seed 3");
    run("shuffle typed.csv -o b.parquet --seed 3");
    assert_eq!(rows("a.parquet"), rows("b.parquet"));
    std::fs::write(place.path("odd.txt"), csv.replace(',', ";")).unwrap();
    run("filter number==10 typed.csv -o f.parquet");
    assert_eq!(rows("f.parquet"), wanted[1..]);
    run("join t.csv typed.csv -o j.csv --on number --how semi");
    run("split t.jsonl.zst --infer -n 3 -o part-{part}.csv");
    run("unique --csv -t ; odd.txt -o u.parquet --by number");
    assert_eq!(rows("u.parquet").len(), 2);
    let info = run("info t.csv --schema number:text");
    assert!(info.text().contains("number  text"), "{}", info.text());
    std::fs::write(place.path("bad.csv"), "number,name\n1,x\nzwei,y\n").unwrap();
    let line = [
        "convert",
        "bad.csv",
        "-o",
        "c.parquet",
        "--schema",
        "number:i64",
    ];
    let told = ["line 3", "`number`", "`zwei`", "bad.csv"];
    place.run(&line).fails(4, &told, "--schema 'number:text'");
    assert!(!place.path("c.parquet").exists());
}
