//! Views of tables from the command line: built, read by number and by key, added to, written out,
//! killed.
//!
//! Contract: as [`crate::tables`]. The rows of a view are compared with those of `outcore sort`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampMicrosecondArray};
use serde_json::json;

use crate::support::*;
use crate::tables::{batch, read, write};

const BUILD: &str = "view build t.parquet -o t.view --by name:desc --by number";

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

/// A place with a table, the sorted table, and rows to add.
fn place() -> TestDir {
    let place = TestDir::in_memory();
    write(&place.path("t.parquet"), &batch(5_000));
    write(&place.path("more.parquet"), &batch(900));
    let sort = "sort t.parquet -o sorted.parquet --by name:desc --by number";
    place.run(&words(sort)).ok();
    place
}

#[test]
fn text_that_is_added_has_the_types_of_the_view() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"id;code;at\n2;x7;2024-01-01T00:00:00\n");
    let build = "view build t.csv -o t.view --infer -t ; --by id";
    place.run(&words(build)).ok();
    place.write("more.csv", b"id;code;at\n1;007;2024-01-02\n");
    place.run(&words("view append t.view more.csv -t ;")).ok();
    let rows = place.run(&words("view cat t.view")).ok().text();
    assert_eq!(
        rows,
        "id,code,at\n1,007,2024-01-02T00:00:00\n2,x7,2024-01-01T00:00:00\n"
    );
    place.write("wrong.csv", b"id;code;at\nx;1;2024-01-02\n");
    place
        .run(&words("view append t.view wrong.csv -t ;"))
        .fails(4, &["line 2", "`id`"], "");
    place.write("lines.txt", b"b\na\n");
    place
        .run(&words("view build --lines lines.txt -o l.view"))
        .ok();
    place
        .run(&words("view append l.view lines.txt -t ;"))
        .fails(2, &["--field-separator"], "leave --field-separator out");
}

#[test]
fn a_view_of_a_table_is_read_as_its_sort_by_number_and_by_key_and_added_to() {
    let place = place();
    let built = place.run(&[&words(BUILD)[..], &["--json"]].concat()).ok();
    assert_eq!(built.event("summary")["records"], json!(5_000));
    let sorted = read(&place.path("sorted.parquet"));
    place
        .run(&words("view materialize t.view -o all.parquet"))
        .ok();
    assert!(read(&place.path("all.parquet")) == sorted);
    let info = place.run(&words("view info t.view")).ok().text();
    assert!(
        info.contains("5,000 rows in order name:desc, number"),
        "{info}"
    );
    place.run(&words("view verify t.view")).ok();

    let line = |row: &(Option<String>, i64)| {
        format!("{},{}\n", row.0.as_deref().unwrap_or_default(), row.1)
    };
    let text = |rows: &[(Option<String>, i64)]| {
        "name,number\n".to_owned() + &rows.iter().map(line).collect::<String>()
    };
    let of = |name: Option<&str>| -> Vec<(Option<String>, i64)> {
        let is_its = |row: &&(Option<String>, i64)| row.0.as_deref() == name;
        sorted.iter().filter(is_its).cloned().collect()
    };
    let number = of(Some("b"))[10].1;
    let key = format!("b,{number}");
    for (arguments, rows) in [
        (&["--range", "1000..1010"][..], &sorted[1000..1010]),
        (&["--range", "-3.."], &sorted[4997..]),
        (&["--key", "b"], &of(Some("b"))),
        (&["--key", ""], &of(None)),
        (&["--key", &key], &of(Some("b"))[10..11]),
        (&["--key", "zz"], &[]),
        (&["--from-key", "b", "--to-key", "a"], &of(Some("b"))),
    ] {
        let cat = place.run(&[&["view", "cat", "t.view"][..], arguments].concat());
        assert!(cat.ok().text() == text(rows), "{arguments:?}");
        let out = [
            "view",
            "materialize",
            "t.view",
            "-o",
            "o.parquet",
            "--force",
        ];
        place.run(&[&out[..], arguments].concat()).ok();
        assert!(read(&place.path("o.parquet")) == rows, "{arguments:?}");
    }

    place.run(&words("view append t.view more.parquet")).ok();
    let sort = "sort t.parquet more.parquet -o sorted.parquet --by name:desc --by number --force";
    place.run(&words(sort)).ok();
    place
        .run(&words("view materialize t.view -o all.parquet --force"))
        .ok();
    assert!(read(&place.path("all.parquet")) == read(&place.path("sorted.parquet")));
    place
        .run(&words("view materialize t.view -o all.csv --range ..2"))
        .ok();
    assert!(place.read("all.csv").starts_with(b"name,number\n"));
    // Text is a table if an option asks for that.
    place.write("t.csv", b"a,b\n2,x\n1,y\n");
    place
        .run(&words("view build t.csv -o c.view --infer --by a"))
        .ok();
    let cat = place.run(&words("view cat c.view")).ok();
    assert_eq!(cat.text(), "a,b\n1,y\n2,x\n");
}

#[test]
fn times_with_named_zones_are_printed_and_looked_for_in_utc() {
    let place = TestDir::new();
    let time = TimestampMicrosecondArray::from(vec![Some(1_500_000), None, Some(0)]);
    let time: ArrayRef = Arc::new(time.with_timezone("Europe/Berlin"));
    write(
        &place.path("t.parquet"),
        &RecordBatch::try_from_iter([("time", time)]).unwrap(),
    );
    let rows = "1970-01-01T00:00:00Z\n1970-01-01T00:00:01.500Z\n\n";
    place
        .run(&words("view build t.parquet -o t.view --by time"))
        .ok();
    let cat = place.run(&words("view cat t.view")).ok();
    assert_eq!(cat.text(), format!("time\n{rows}"));
    let found = place
        .run(&words("view cat t.view --key 1970-01-01T00:00:01.5Z"))
        .ok();
    assert_eq!(found.text(), "time\n1970-01-01T00:00:01.500Z\n");
    let head = place.run(&words("head -n 1 t.parquet")).ok();
    assert_eq!(head.text(), "time\n1970-01-01T00:00:01.500Z\n");
    // The error for a missing file does not call it something else.
    place
        .run(&words("sort none.parquet -o s.parquet --by time"))
        .fails(3, &["none.parquet"], "path");
    let shuffle = "shuffle t.parquet -o s.parquet";
    place
        .run(&words(&format!("{shuffle} --key time")))
        .fails(2, &["--key"], "--by");
    place
        .run(&words(&format!("{shuffle} --by tim")))
        .fails(2, &["`tim`"], "`time`");
    place.run(&words(&format!("{shuffle} --by time"))).ok();
}

#[test]
fn what_a_view_of_a_table_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let place = place();
    place.run(&words(BUILD)).ok();
    place.write("t.csv", b"a,b\n2,x\n1,y\n");
    let names = place.names();
    let build = "view build t.parquet -o x.view";
    for (command, causes, hint) in [
        (format!("{build} --by nam"), &["`nam`"][..], "`name`"),
        (
            format!("{build} --by name -s"),
            &["keep the input order"],
            "--stable",
        ),
        (
            format!("{build} -k 2"),
            &["-k cannot be used with tables"],
            "--by",
        ),
        (format!("{build} --by name --cat"), &["--cat"], ""),
        (
            format!("{build} --by name --dry-run"),
            &["--dry-run"],
            "--explain",
        ),
        (BUILD.to_owned(), &["already exists"], "--force"),
        ("view append t.view t.csv".to_owned(), &["name"], ""),
        (
            "view append t.view t.csv -t ;".to_owned(),
            &["no file has a column `name`"],
            "a,b",
        ),
        (
            "view append t.view none.parquet".to_owned(),
            &["none.parquet"],
            "",
        ),
        (
            "view cat t.view --key b,x".to_owned(),
            &["`x`", "`number`"],
            "CSV",
        ),
        (
            "view cat t.view --key b,1,2".to_owned(),
            &["3 values"],
            "name, number",
        ),
        (
            "view mount t.view .".to_owned(),
            &["not a file"],
            "materialize",
        ),
        (
            "view materialize t.view -o x.bin".to_owned(),
            &["format"],
            ".parquet",
        ),
        (
            "view materialize t.view -o t.parquet".to_owned(),
            &["t.parquet"],
            "--force",
        ),
        (
            "lookup t.view --keys t.csv -o x.npy".to_owned(),
            &["table"],
            "view cat",
        ),
        (format!("{build} --by name --codec zstd"), &["--codec"], ""),
    ] {
        let answer = place.run(&words(&command));
        assert!(
            [Some(2), Some(3)].contains(&answer.code),
            "{command}: {answer:?}"
        );
        let code = answer.code.unwrap_or(0);
        answer.fails(code, causes, hint);
        assert_eq!(place.names(), names, "{command}");
    }
}

#[test]
fn a_view_of_a_table_that_is_killed_is_absent_or_whole_and_one_that_is_added_to_is_old_or_new() {
    for is_append in [false, true] {
        let mut killed = 0;
        let next = |nth: &u64| Some(nth + 1 + nth / 4);
        for nth in std::iter::successors(Some(1_u64), next) {
            let place = place();
            let command = match is_append {
                false => BUILD,
                true => {
                    place.run(&words(BUILD)).ok();
                    "view append t.view more.parquet"
                }
            };
            let mut process = place.command(&[&words(command)[..], &["--threads", "1"]].concat());
            process.env("OUTCORE_FAULT", format!("kill@{nth}"));
            let answer = Answer::of(process.output().unwrap());
            let is_done = answer.code == Some(0);
            assert!(is_done || answer.code.is_none(), "{command} {answer:?}");
            killed += u32::from(!is_done);
            // The next command finds a view or none, and can make one.
            let records = |place: &TestDir| {
                let verify = place.run(&words("view verify t.view --json"));
                verify.ok().event("summary")["records"].as_u64().unwrap()
            };
            match (is_append, place.path("t.view/view.json").exists()) {
                (true, _) => assert!([5_000, 5_900].contains(&records(&place)), "{nth}"),
                (false, true) => assert_eq!(records(&place), 5_000, "{nth}"),
                (false, false) => {
                    // If the job was killed while it published, this run may finish it, and then
                    // fail because the view exists.
                    if place.run(&words(BUILD)).code != Some(0) {
                        assert_eq!(records(&place), 5_000, "{nth}");
                    }
                }
            }
            place.run(&["scratch", "clean", "."]);
            place.run(&words("view verify t.view")).ok();
            if is_done {
                break;
            }
        }
        assert!(killed > 5, "{killed}");
    }
}

#[test]
fn the_summary_of_a_materialized_table_has_its_size_and_the_rows_of_the_view() {
    let place = TestDir::new();
    place
        .run(&["gen", "sales", "-n", "50", "-o", "t.parquet"])
        .ok();
    place
        .run(&["view", "build", "t.parquet", "-o", "v", "--by", "id"])
        .ok();
    let words = "view materialize v -o o.csv --range 5..10 -v";
    let answer = place.run(&words.split(' ').collect::<Vec<_>>());
    let bytes = place.read("o.csv").len();
    let wanted = format!("merged 5 of 50 rows, {bytes} B, in ");
    assert!(answer.stderr.contains(&wanted), "{answer:?}");
}
