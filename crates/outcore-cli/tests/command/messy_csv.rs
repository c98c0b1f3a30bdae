//! CSV and JSON lines as people have them, through every command that takes them.
//!
//! Contract: lines that end with CR alone are records, blank lines are not, and counts are a
//! column. On request, bad rows are left out or read as null, and counted.

use crate::support::*;

/// A spreadsheet as an old system saves it: a line break in quotes, and no newline anywhere.
const CARRIAGE_RETURNS: &[u8] = b"id,word\r2,\"b\rb\"\r1,a\r2,\"b\rb\"\r3,c";

#[test]
fn csv_whose_lines_end_with_a_carriage_return_is_read_by_every_command() {
    let place = TestDir::new();
    place.write("in.csv", CARRIAGE_RETURNS);
    let run = |arguments: &[&str]| place.run(arguments).ok().stdout;
    assert_eq!(
        run(&["sort", "--csv", "in.csv", "--by", "id:n"]),
        b"id,word\n1,a\n2,\"b\rb\"\n2,\"b\rb\"\n3,c\n"
    );
    assert_eq!(
        run(&["unique", "--csv", "in.csv"]),
        b"id,word\n1,a\n2,\"b\rb\"\n3,c\n"
    );
    assert_eq!(
        run(&["head", "--csv", "-n", "2", "in.csv"]),
        b"id,word\n2,\"b\rb\"\n1,a\n"
    );
    let lines = |bytes: Vec<u8>| -> Vec<Vec<u8>> {
        let mut lines: Vec<Vec<u8>> = bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        lines.sort();
        lines
    };
    let all = lines(b"id,word\n2,\"b\rb\"\n1,a\n2,\"b\rb\"\n3,c\n".to_vec());
    assert_eq!(lines(run(&["shuffle", "--csv", "in.csv"])), all);
    assert_eq!(lines(run(&["sample", "--csv", "-n", "9", "in.csv"])), all);
    run(&[
        "split",
        "--csv",
        "-n",
        "2",
        "in.csv",
        "-o",
        "part-{part}.csv",
    ]);
    let parts = place
        .names()
        .into_iter()
        .filter(|name| name.starts_with("part-"));
    let records = parts.map(|name| {
        let text = place.read(&name);
        assert!(text.starts_with(b"id,word\n"), "{name}");
        text.iter().filter(|byte| **byte == b'\n').count() - 1
    });
    assert_eq!(records.sum::<usize>(), 4);
    run(&["convert", "in.csv", "-o", "out.jsonl"]);
    assert_eq!(
        place.read("out.jsonl"),
        b"{\"id\":2,\"word\":\"b\\rb\"}\n{\"id\":1,\"word\":\"a\"}\n{\"id\":2,\"word\":\"b\\rb\"}\n{\"id\":3,\"word\":\"c\"}\n"
    );
}

#[test]
fn a_view_takes_further_csv_whose_lines_end_with_a_carriage_return() {
    let place = TestDir::new();
    place.write("in.csv", b"id,word\n2,b\n");
    place.write("more.csv", b"id,word\r3,c\r1,a");
    place.write("spans.csv", b"id,word\r3,\"c\nd\"\r");
    let append = |name: &str| place.run(&["view", "append", "v", name]);
    let build = ["view", "build", "in.csv", "-o", "v", "--csv", "--by", "id"];
    place.run(&build).ok();
    append("more.csv").ok();
    let cat = || place.run(&["view", "cat", "v"]).ok().stdout;
    assert_eq!(cat(), b"id,word\n1,a\n2,b\n3,c\n");
    append("spans.csv").fails(2, &["spans.csv", "a record spans lines"], "build a view");
    // Files with newlines can also be added to a view of files with CR, and files with CR to a view
    // of records that span lines.
    for (first, then) in [("more.csv", "in.csv"), ("spans.csv", "more.csv")] {
        let build = [
            "view", "build", first, "-o", "v", "--csv", "--by", "id", "--force",
        ];
        place.run(&build).ok();
        append(then).ok();
        assert!(cat().starts_with(b"id,word\n1,a\n"), "{first}");
    }
}

#[test]
fn counts_of_csv_are_a_column_and_what_would_be_none_is_rejected() {
    let place = TestDir::new();
    place.write("in.csv", b"\xef\xbb\xbfa;b\n\"x;y\";1\n\"x;y\";1\nz;2\n");
    let counted = place
        .run(&["unique", "--csv", "-t;", "--count", "in.csv"])
        .ok();
    assert_eq!(
        counted.stdout,
        b"\xef\xbb\xbfcount;a;b\n2;\"x;y\";1\n1;z;2\n"
    );
    let counted = place
        .run(&["unique", "--csv", "--no-header", "--count", "in.csv"])
        .ok();
    assert_eq!(counted.stdout, b"\xef\xbb\xbf2;\"x;y\";1\n1;a;b\n1;z;2\n");
    place.write("named.csv", b"count,b\n1,2\n");
    place
        .run(&["unique", "--csv", "--count", "named.csv"])
        .fails(2, &["already has a column `count`"], "rename");
    place.write("in.jsonl", b"{\"a\":1}\n{\"a\":1}\n");
    place
        .run(&["unique", "--jsonl", "--count", "in.jsonl"])
        .fails(2, &["--count"], "group-by");
    let counted = place
        .run(&["unique", "--count", "--lines", "in.jsonl"])
        .ok();
    assert_eq!(counted.stdout, b"      2 {\"a\":1}\n");
}

#[test]
fn blank_lines_are_no_records_of_csv_and_json_lines() {
    let place = TestDir::new();
    place.write("in.csv", b"a,b\n2,x\n \n1,y\n\n");
    for by in ["a:n", "b:r"] {
        let sorted = place.run(&["sort", "--csv", "in.csv", "--by", by]).ok();
        assert_eq!(sorted.stdout, b"a,b\n1,y\n2,x\n", "{by}");
    }
    place.write(
        "in.jsonl",
        b"{\"a\":2,\"b\":NaN}\n\n{\"a\":1,\"b\":\"\\ud800\"}\n\n",
    );
    let sorted = place
        .run(&["sort", "--jsonl", "in.jsonl", "--by", ".a"])
        .ok();
    assert_eq!(
        sorted.stdout,
        b"{\"a\":1,\"b\":\"\\ud800\"}\n{\"a\":2,\"b\":NaN}\n"
    );
    place
        .run(&["sort", "--jsonl", "in.jsonl", "--by", ".b"])
        .fails(4, &["line 1", "NaN"], "--on-error skip");
}

#[test]
fn blank_lines_are_no_records_where_csv_is_moved() {
    let place = TestDir::new();
    place.write("in.csv", b"a,b\n\n2,x\n \t\n\n1,\"y\n\n\"\n\n\n");
    place.write("crlf.csv", b"a,b\r\n2,x\r\n\r\n1,y\r\n  ");
    place.write("bare.csv", b"\n2,x\n\n1,y\n");
    place.write("column.csv", b"a\n\n2\n");
    let lines = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let check = |name: &str, more: &[&str], wanted: &[u8]| {
        let wanted = lines(wanted);
        for words in [
            &["shuffle"][..],
            &["head", "-n", "9"],
            &["sample", "-n", "9"],
            &["unique"],
            &["split", "-n", "1", "-o", "part-{part}"],
        ] {
            let found = place
                .run(&[words, &["--csv", name], more].concat())
                .ok()
                .stdout;
            let found = match words[0] {
                "split" => place.read("part-00"),
                _ => found,
            };
            assert_eq!(lines(&found), wanted, "{words:?} {name}");
            drop(std::fs::remove_file(place.path("part-00")));
        }
    };
    check("in.csv", &[], b"a,b\n2,x\n1,\"y\n\n\"\n");
    check("crlf.csv", &[], b"a,b\r\n2,x\r\n1,y\r\n");
    check("bare.csv", &["--no-header"], b"2,x\n1,y\n");
    // In CSV with a single column, a blank line is a null, as in tables.
    check("column.csv", &[], b"a\n\n2\n");
    let head = place.run(&["head", "--csv", "-n", "1", "in.csv"]).ok();
    assert_eq!(head.stdout, b"a,b\n2,x\n");
}

#[test]
fn a_line_without_a_key_is_counted_in_the_singular() {
    let place = TestDir::new();
    place.write("in.csv", b"a,b\n2,x\n1\n");
    for command in ["sort", "unique"] {
        let skip = ["--csv", "in.csv", "--by", "b", "--on-error", "skip"];
        let told = place.run(&[&[command][..], &skip].concat()).ok().stderr;
        assert!(told.contains("left out 1 line without a key"), "{told}");
    }
}

#[test]
fn bad_rows_and_null_texts_are_handled_by_every_command_on_tables() {
    let place = TestDir::new();
    place.write("in.csv", b"k,v\n1,10\n2,x\n1,NA\n3\n");
    let types = ["--schema", "k:i64,v:i64", "--null", "NA", "--force"];
    for (command, more) in [
        ("convert", &[][..]),
        ("sort", &["--by", "k"]),
        ("unique", &["--by", "k"]),
        ("shuffle", &[]),
        ("head", &["-n", "9"]),
        ("sample", &["-n", "9"]),
        ("dedup", &["--by", "k"]),
        (
            "window",
            &["--by", "k", "--order", "v", "--add", "n=row_number"],
        ),
        ("group-by", &["--by", "k"]),
    ] {
        for (on_error, said) in [
            ("skip", "left out 2 bad rows"),
            ("null", "read 2 bad values as null"),
        ] {
            let job = [
                command,
                "in.csv",
                "-o",
                "out.parquet",
                "--on-error",
                on_error,
            ];
            let answer = place.run(&[&job[..], &types, more].concat()).ok();
            assert!(answer.stderr.contains(said), "{command}: {answer:?}");
        }
        let job = [command, "in.csv", "-o", "out.parquet"];
        place
            .run(&[&job[..], &types, more].concat())
            .fails(4, &["line "], "");
    }
    let info = place.run(&[
        "info",
        "in.csv",
        "--schema=k:i64,v:i64",
        "--null=pandas",
        "--on-error=skip",
    ]);
    assert!(info.ok().text().contains("2 rows"));
    place.write("in.jsonl", b"{\"k\":1}\n{\"k\n{\"k\":2}\n");
    let info = |more: &[&str]| place.run(&[&["info", "in.jsonl"], more].concat());
    info(&[]).fails(4, &["not one JSON object"], "");
    let told = info(&["--on-error=skip"]).ok().text();
    assert!(
        told.contains("2 rows") && told.contains("left out 1 bad row"),
        "{told}"
    );
    let verify = |more: &[&str]| place.run(&[&["verify", "in.jsonl", "--by", "k"], more].concat());
    verify(&[]).fails(4, &["line 2"], "");
    let told = verify(&["--on-error=skip"]).ok().stderr;
    assert!(
        told.contains("2 rows in order") && told.contains("left out 1 bad row"),
        "{told}"
    );
    place.write("nulls.csv", b"k,v\n1,1\nNA,2\n");
    place
        .run(&["verify", "nulls.csv", "--by", "k"])
        .fails_quietly(0);
    let nulls = ["verify", "nulls.csv", "--by", "k", "--null=NA", "--json"];
    assert_eq!(place.run(&nulls).ok().event("summary")["ordered"], true);
    place.write("first.csv", b"k,v\n3,1\n");
    place
        .run(&[
            "view",
            "build",
            "first.csv",
            "-o",
            "v",
            "--infer",
            "--by",
            "k",
        ])
        .ok();
    let append = ["view", "append", "v", "in.csv"];
    place.run(&append).fails(4, &["line "], "");
    let skip = ["--on-error=skip", "--null=NA"];
    let told = place.run(&[&append[..], &skip].concat()).ok().stderr;
    assert!(told.contains("left out 2 bad rows"), "{told}");
    assert_eq!(
        place.run(&["view", "cat", "v"]).ok().stdout,
        b"k,v\n1,10\n1,\n3,1\n"
    );
    place
        .run(&["sort", "in.csv", "--lines", "--on-error", "skip"])
        .fails(2, &["--on-error"], "--by");
}
