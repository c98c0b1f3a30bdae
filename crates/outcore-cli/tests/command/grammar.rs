//! The grammar that all verbs share: keys, outputs and counts.
//!
//! Contract: the same words mean the same to every verb and every kind of input.

use crate::support::TestDir;

const CSV: &str = "id,name,price\n3,c,1.5\n1,a,\n20,b,0.5\n3,d,10\n";
const JSON: &str = "{\"id\":3,\"price\":1.5}\n{\"id\":1,\"price\":null}\n{\"id\":20,\"price\":0.5}\n{\"id\":3,\"price\":10}\n";

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("a.csv", CSV.as_bytes());
    place.write("a.tsv", CSV.replace(',', "\t").as_bytes());
    place.write("a.jsonl", JSON.as_bytes());
    place
}

/// The first fields of the lines of CSV that a command prints, without the header.
fn ids(place: &TestDir, line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let text = place.run(&words).ok().text();
    let first = |line: &str| line.split(',').next().unwrap_or("").to_owned();
    text.lines().skip(1).map(first).collect()
}

#[test]
fn keys_are_written_alike_for_csv_json_lines_and_tables() {
    let place = place();
    place.run(&["convert", "a.csv", "-o", "a.parquet"]).ok();
    let same = [
        ("id", "1 3 3 20"),
        ("id:desc,price:desc", "20 3 3 1"),
        ("id:desc,price:asc", "20 3 3 1"),
        ("price:nulls-first", "1 20 3 3"),
        ("price:desc:nulls-first", "1 3 3 20"),
        ("price:nulls-first:desc", "1 3 3 20"),
        ("price:desc:nulls-last", "3 3 20 1"),
    ];
    for (keys, wanted) in same {
        for name in ["a.csv", "a.jsonl", "a.parquet"] {
            let line = format!("sort {name} --by {keys} --to csv");
            assert_eq!(ids(&place, &line).join(" "), wanted, "{line}");
        }
        let [first, ..] = keys.split(',').collect::<Vec<_>>()[..] else {
            panic!("no key");
        };
        let twice = keys.split_once(',').map(|(_, second)| second);
        let repeated = format!(
            "sort a.csv --by {first} --to csv --by {}",
            twice.unwrap_or(first)
        );
        if twice.is_some() {
            assert_eq!(ids(&place, &repeated).join(" "), wanted, "{repeated}");
        }
    }
    // A type is one more word after a colon, for text that becomes a table and for text that does
    // not.
    let of_text = [
        ("id:text", "1 20 3 3"),
        ("id:u32", "1 3 3 20"),
        ("id:desc:u32,price:f64", "20 3 3 1"),
        ("price:f64:desc:nulls-last", "3 3 20 1"),
        ("price:nulls-last:decimal(12,2)", "20 3 3 1"),
    ];
    for (keys, wanted) in of_text {
        for how in ["", " --csv"] {
            let line = format!("sort a.csv --by {keys}{how}");
            assert_eq!(ids(&place, &line).join(" "), wanted, "{line}");
        }
    }
    let wrong = |line: &str, cause: &str, hint: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        place.run(&words).fails(2, &[cause], hint);
    };
    wrong(
        "sort a.parquet --by id:u8",
        "`id` is of type i64, not u8",
        "leave the type out",
    );
    wrong(
        "sort a.csv --by id:u8 --schema id:u16",
        "two types, u16 and u8",
        "keep one of the two types",
    );
    for verb in ["sort", "unique", "dedup", "verify"] {
        let line = format!("{verb} a.jsonl --by nope:i64");
        wrong(
            &line,
            "no line has a field `nope`",
            "the fields are id, price",
        );
    }
    wrong(
        "sort a.csv --by id:up",
        "no column",
        "neither a type nor an order",
    );
    wrong(
        "sort a.csv --csv --by id:up",
        "`up` is not an order of `id`",
        "letters of sort",
    );
}

#[test]
fn names_in_backquotes_hold_commas_and_colons_in_every_list_of_columns() {
    let place = TestDir::new();
    place.write("q.csv", b"\"a,b\",c:d\n2,1\n1,2\n1,1\n");
    for how in ["", "--csv"] {
        let mut words = vec!["sort", "q.csv", "--by", "`a,b`:desc,`c:d`"];
        words.extend((!how.is_empty()).then_some(how));
        let sorted = place.run(&words).ok().text();
        let rows: Vec<&str> = sorted.lines().skip(1).collect();
        assert_eq!(rows, ["2,1", "1,1", "1,2"], "{how}");
    }
    let groups = [
        "group-by",
        "q.csv",
        "--by",
        "`a,b`,`c:d`",
        "--agg",
        "n=count",
    ];
    assert_eq!(place.run(&groups).ok().text().lines().count(), 4);
    let joined = ["join", "q.csv", "q.csv", "--on", "`a,b`,`c:d`"];
    assert_eq!(place.run(&joined).ok().text().lines().count(), 4);
}

#[test]
fn fields_of_npy_files_are_keys_by_their_names() {
    let place = TestDir::new();
    let mut npy = crate::npy::header("[('id', '<u4'), ('v', '<u4')]", "(3,)");
    let rows: [[u32; 2]; 3] = [[3, 1], [1, 2], [3, 0]];
    npy.extend(
        rows.iter()
            .flatten()
            .flat_map(|number| number.to_le_bytes()),
    );
    place.write("a.npy", &npy);
    let rows_of = |name: &str| {
        let bytes = place.read(name);
        let numbers = bytes[bytes.len() - 24..].chunks_exact(4);
        let numbers = numbers.map(|four| u32::from_le_bytes(four.try_into().unwrap()));
        numbers.collect::<Vec<u32>>()
    };
    place
        .run(&["sort", "a.npy", "-o", "s.npy", "--by", "id:desc,v"])
        .ok();
    assert_eq!(rows_of("s.npy"), [3, 0, 3, 1, 1, 2]);
    place
        .run(&["verify", "s.npy", "--by", "id:desc,v:asc"])
        .ok();
    let unordered = place.run(&["verify", "a.npy", "--by", "id"]);
    assert_eq!(unordered.code, Some(1), "{unordered:?}");
    place
        .run(&["merge", "s.npy", "--by", "id:desc,v", "-o", "m.npy"])
        .ok();
    assert_eq!(rows_of("m.npy"), rows_of("s.npy"));
    place
        .run(&["view", "build", "a.npy", "--by", "v", "-o", "v.view"])
        .ok();
    let seen = place.run(&["view", "cat", "v.view"]).ok().stdout;
    assert_eq!(seen[4..8], 0_u32.to_le_bytes());
    let both = ["sort", "a.npy", "-o", "b.npy", "--by", "id", "--key", "v"];
    place
        .run(&both)
        .fails(2, &["both with --key and with --by"], "--key for bytes");
    let nulls = ["sort", "a.npy", "-o", "b.npy", "--by", "id:nulls-first"];
    place
        .run(&nulls)
        .fails(2, &["`nulls-first` is not an order"], "no nulls");
}

#[test]
fn without_an_output_verbs_write_to_standard_output_in_the_format_of_their_input() {
    let place = place();
    let text = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        place.run(&words).ok().text()
    };
    assert_eq!(
        text("filter id>1 a.csv").lines().next(),
        Some("id,name,price")
    );
    assert_eq!(
        text("filter id>1 a.tsv").lines().next(),
        Some("id\tname\tprice")
    );
    let json = text("filter id>1 a.jsonl");
    assert!(json.starts_with("{\"id\":3"), "{json}");
    assert_eq!(text("convert a.csv").lines().count(), 5);
    assert_eq!(
        text("group-by a.csv --by id --agg n=count"),
        "id,n\n1,1\n3,2\n20,1\n"
    );
    let joined = text("join a.jsonl a.csv --on id");
    assert!(joined.starts_with('{'), "{joined}");
    let first = text("head a.csv --by price:desc -n 1");
    assert_eq!(first, "id,name,price\n3,d,10.0\n");
    place.write("b.csv", b"id,name,price\n3,c,1.5\n");
    place
        .run(&["dedup", "a.csv", "--by", "id", "-o", "d.csv"])
        .ok();
    let differences = place.run(&["diff", "d.csv", "b.csv", "--by", "id", "--to", "jsonl"]);
    assert_eq!(differences.code, Some(1));
    assert_eq!(differences.text().lines().count(), 2, "{differences:?}");
    assert_eq!(text("dedup a.csv --by id").lines().count(), 4);
    assert!(text("window a.csv --by id --order price --add n=row_number()").starts_with("id,"));
    text("convert a.csv -o a.parquet");
    assert_eq!(text("filter id>1 a.parquet"), text("filter id>1 a.csv"));
    place.write("n", &[1_u64, 2].map(u64::to_le_bytes).concat());
    let doubled = place.run(&["map", "x*2", "n", "--type", "u64"]).ok().stdout;
    assert_eq!(doubled, [2_u64, 4].map(u64::to_le_bytes).concat());
    let made = place.run(&["gen", "u8", "-n", "5"]).ok().stdout;
    assert_eq!(made.len(), 5);
    // Events do not go to standard output if it carries the data.
    let events = place.run(&["filter", "id>1", "a.csv", "--json"]).ok();
    assert!(
        events.stderr.contains("\"event\":\"summary\""),
        "{events:?}"
    );
}

#[test]
fn a_count_is_n_for_every_verb() {
    let place = place();
    place.write("n", &[3_u64, 1, 2].map(u64::to_le_bytes).concat());
    let text = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        place.run(&words).ok().text()
    };
    assert_eq!(text("top -n 2 n --type u64"), "3\n2\n");
    assert_eq!(text("top n --type u64"), "3\n2\n1\n");
    let windows = place
        .run(&["windows", "-n", "2", "n", "--type", "u64"])
        .ok();
    assert_eq!(windows.stdout.len(), 32);
    let counted = "windows -n 2 n --type u64 -o w.bin --json";
    let counted = place.run(&counted.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(counted.event("summary")["records_in"], 3);
    place
        .run(&["sample", "a.csv"])
        .fails(2, &["size of the sample"], "--rate");
    assert_eq!(text("head -n 1 a.csv --lines"), "id,name,price\n");
    assert_eq!(text("sample -n 5 a.csv --lines").lines().count(), 5);
    assert_eq!(text("gen u8 -n 3").len(), 3);
}

#[test]
fn a_key_that_contradicts_itself_or_has_no_column_is_rejected_before_anything_is_read() {
    let place = place();
    place.run(&["convert", "a.csv", "-o", "a.parquet"]).ok();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    for (file, name) in [
        ("a.csv", "id"),
        ("a.csv --csv", "id"),
        ("a.parquet", "id"),
        ("a.jsonl", ".id"),
    ] {
        for (orders, cause) in [
            ("asc:desc", "asc or desc twice"),
            ("desc:desc", "asc or desc twice"),
            ("nulls-first:nulls-last", "nulls-first or nulls-last twice"),
            ("", ""),
        ] {
            let line = format!("sort {file} --by {name}:{orders}");
            assert_eq!(
                run(&line).fails(2, &[cause, name], "").stdout,
                b"",
                "{line}"
            );
        }
    }
    run("sort --csv a.csv --by id:r:asc").fails(2, &["asc or desc twice"], "");
    let fields = crate::npy::header("[('id', '<u4')]", "(2,)");
    place.write("f.npy", &[fields, vec![1, 0, 0, 0, 0, 0, 0, 0]].concat());
    for (key, cause) in [
        ("id:", "nothing follows a colon"),
        ("id::desc", "nothing follows a colon"),
        ("id:r:asc", "asc or desc twice"),
    ] {
        run(&format!("sort f.npy --by {key} -o o.npy")).fails(2, &[cause], "");
    }
    run("sort f.npy --by id:desc -o o.npy").ok();
    run("sort a.jsonl --by .id:i64").fails(
        2,
        &["`i64` is not an order of `.id`"],
        "have their types",
    );
    for verb in ["sort", "unique"] {
        let line = format!("{verb} a.csv --by 8");
        run(&line).fails(2, &["there is no column `8`"], "id, name, price");
    }
    for line in [
        "join a.parquet a.parquet --on id:desc",
        "split a.parquet --by id:desc -o d",
        "comm -12 a.parquet a.parquet --by id:desc",
    ] {
        run(line).fails(2, &["no column `id:desc`"], "write `id` alone");
    }
    for line in [
        "group-by a.parquet --by id,id",
        "split a.parquet --by id,id -o d",
    ] {
        run(line).fails(2, &["the column `id` twice"], "once");
    }
    place.write("q.jsonl", b"{\"a:b\":2}\n{\"a:b\":1}\n");
    for key in [".\"a:b\"", "`a:b`", "`a:b`:asc"] {
        let sorted = place.run(&["sort", "--jsonl", "q.jsonl", "--by", key]).ok();
        assert_eq!(sorted.text(), "{\"a:b\":1}\n{\"a:b\":2}\n", "{key}");
    }
}

#[test]
fn a_job_that_fails_before_its_first_row_prints_no_header() {
    let place = place();
    place.write("bad.csv", b"a,b\n1,x\nno,y\n");
    place.write(
        "bad.jsonl",
        b"{\"a\":1,\"b\":{\"c\":1}}\n{\"a\":\"no\",\"b\":{\"c\":\"x\"}}\n",
    );
    place.write("short.csv", b"a,b\n1,x\n2\n");
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    for line in [
        "sort bad.csv --by a:i64",
        "filter a>1 bad.csv --schema a:i64",
        "head bad.csv --schema a:i64",
        "sort short.csv --by 2",
        "unique short.csv --csv --by b",
    ] {
        let failed = run(line).fails(4, &["line 3"], "");
        assert_eq!(failed.stdout, b"", "{line}");
    }
    place.write("none.csv", b"a,b\n");
    for line in [
        "sort none.csv --by 1",
        "head none.csv",
        "filter a>1 none.csv --schema a:i64",
        "shuffle none.csv",
    ] {
        assert_eq!(run(line).ok().stdout, b"a,b\n", "{line}");
    }
    let filled = run("convert bad.jsonl --schema a:i64 --on-error null").ok();
    assert!(
        filled.stderr.contains("column `a` is i64, and `no` is not"),
        "{filled:?}"
    );
    let inner = run("convert bad.jsonl --schema b:struct<c:i64> --on-error null").ok();
    assert!(inner.stderr.contains("column `b.c` is i64"), "{inner:?}");
}
