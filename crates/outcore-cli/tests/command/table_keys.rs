//! Tables whose rows are joined or grouped by keys.
//!
//! Contract: as [`crate::tables`].

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::json;

use crate::support::TestDir;
use crate::tables::{batch, read, rows_of, write};

#[test]
fn two_tables_are_joined_by_the_columns_that_are_named() {
    let place = TestDir::new();
    let all = batch(400);
    write(&place.path("t.parquet"), &all);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values([3, 5, 5, 1_000_000]));
    let seen: ArrayRef = Arc::new(Int64Array::from_iter_values([1, 2, 3, 4]));
    let few = RecordBatch::try_from_iter([("n", numbers), ("seen", seen)]).unwrap();
    write(&place.path("few.parquet"), &few);
    let rows = |how: &str| {
        let common = "join t.parquet few.parquet -o j.parquet --on number=n --force --json";
        let arguments: Vec<&str> = common.split(' ').chain(["--how", how]).collect();
        let summary = place.run(&arguments).ok().event("summary");
        assert_eq!(summary["records_in"], json!(404));
        summary["records"].as_u64().unwrap() as usize
    };
    let matches = |number: i64| rows_of(&all).iter().filter(|row| row.1 == number).count();
    let (threes, fives) = (matches(3), matches(5));
    let far = matches(1_000_000);
    let partners = threes + fives + far;
    assert!(partners > 0);
    assert_eq!(rows("semi"), partners);
    assert_eq!(rows("anti"), 400 - partners);
    let inner = threes + 2 * fives + far;
    assert_eq!(rows("inner"), inner);
    assert_eq!(rows("left"), inner + 400 - partners);
    let alone = [(threes, 1), (fives, 2), (far, 1)];
    let alone: usize = alone
        .iter()
        .map(|(found, rows)| if *found == 0 { *rows } else { 0 })
        .sum();
    assert_eq!(rows("right"), inner + alone);
    assert_eq!(rows("full"), inner + alone + 400 - partners);
    std::fs::remove_file(place.path("j.parquet")).unwrap();
    let refused = [
        (&["--on", "numbr=n"][..], "numbr", "`number`"),
        (&["--on", "name=n"], "`name`", "convert"),
        (&[], "no join column", "--on"),
        (&["--on", "number=n", "--how", "outer"], "`outer`", "full"),
        (&["--on", "number=n", "--tolerance", "3"], "--asof", ""),
        (&["--on", "number=n", "--parts", "2"], "", ""),
    ];
    for (arguments, cause, hint) in refused {
        let is_parts = arguments.contains(&"--parts");
        let out = if is_parts { "x" } else { "x.parquet" };
        let common = ["join", "t.parquet", "few.parquet", "-o", out];
        place
            .run(&[&common, arguments].concat())
            .fails(2, &[cause], hint);
    }
    assert_eq!(place.names(), ["few.parquet", "t.parquet"]);
}

#[test]
fn groups_of_a_table_come_in_order_with_what_is_computed_of_each() {
    let place = TestDir::new();
    let all = batch(4_000);
    write(&place.path("t.parquet"), &all);
    let arguments =
        "group-by t.parquet -o g.parquet --by name --agg count --agg number=sum(number) --json";
    let answer = place.run(&arguments.split(' ').collect::<Vec<_>>()).ok();
    assert_eq!(answer.event("summary")["records_in"], json!(4_000));
    let mut expected: Vec<(Option<String>, i64)> = Vec::new();
    for (name, number) in rows_of(&all) {
        match expected.iter_mut().find(|group| group.0 == name) {
            Some(group) => group.1 += number,
            None => expected.push((name, number)),
        }
    }
    expected.sort_by_key(|(name, _)| (name.is_none(), name.clone()));
    assert!(read(&place.path("g.parquet")) == expected);
    let refused = [
        (&["--by", "nmae"][..], "nmae", "`name`"),
        (
            &["--by", "name", "--agg", "sum(name)"],
            "sum(name)",
            "count",
        ),
        (
            &["--by", "name", "--agg", "total(number)"],
            "`total`",
            "sum(C)",
        ),
        (&["--by", "name", "--parts", "2"], "", ""),
    ];
    for (arguments, cause, hint) in refused {
        let common = ["group-by", "t.parquet", "-o", "x"];
        let suffix = if arguments.contains(&"--parts") {
            "x"
        } else {
            "x.parquet"
        };
        let common = [common[0], common[1], common[2], suffix];
        place
            .run(&[&common, arguments].concat())
            .fails(2, &[cause], hint);
    }
    assert_eq!(place.names(), ["g.parquet", "t.parquet"]);
}

#[test]
fn rows_whose_texts_are_nearly_the_same_are_removed() {
    let place = TestDir::new();
    let words = |family: u64, changed: u64| {
        let word = |number: u64| match number == changed {
            true => "Changed".to_owned(),
            false => format!("word{}", (family * 977 + number * 7919) % 10_007),
        };
        (0..200).map(word).collect::<Vec<_>>().join(" ")
    };
    // Forty families of three texts each.
    let texts = (0..120).map(|row| words(row % 40, row));
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..120));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let table = RecordBatch::try_from_iter([("number", number), ("text", text)]).unwrap();
    write(&place.path("t.parquet"), &table);
    let run = |arguments: &[&str]| {
        let common = ["dedup", "t.parquet", "-o", "d.parquet", "--force", "--json"];
        place.run(&[&common[..], arguments].concat())
    };
    let summary = run(&["--near", "text", "--removed", "r.parquet"])
        .ok()
        .event("summary");
    assert_eq!(
        (&summary["records"], &summary["removed"]),
        (&json!(40), &json!(80))
    );
    assert!(place.path("r.parquet").is_file());
    let summary = run(&["--near", "text", "--jaccard", "1", "--shingles", "chars:9"]).ok();
    // Hashes find similar texts only with some probability.
    assert!(summary.event("summary")["records"].as_u64().unwrap() > 100);
    for (arguments, cause, hint) in [
        (&["--near", "txet"][..], "txet", "`text`"),
        (&["--near", "number"], "i64", "texts"),
        (&["--near", "text", "--jaccard", "80"], "80", "0.8"),
        (&["--near", "text", "--shingles", "5"], "`5`", "words:5"),
        (
            &["--near", "text", "--keep", "number:desc"],
            "best",
            "--keep first",
        ),
        (&["--near", "text", "--by", "number"], "--by", ""),
        (&["--jaccard", "0.5"], "--near", ""),
    ] {
        run(arguments).fails(2, &[cause], hint);
    }
}

#[test]
fn passages_that_occur_before_are_cut_and_told() {
    let place = TestDir::new();
    let passage = "to be, or not to be, that is the question: whether 'tis nobler";
    let texts = [
        format!("{passage} one"),
        format!("two {passage}"),
        String::new(),
    ];
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let table = RecordBatch::try_from_iter([("text", text), ("number", number)]).unwrap();
    write(&place.path("t.parquet"), &table);
    let run = |arguments: &[&str]| {
        let common = ["dedup", "t.parquet", "-o", "d.parquet", "--force", "--json"];
        place.run(&[&common[..], arguments].concat())
    };
    let summary = run(&[
        "--substring",
        "50",
        "--of",
        "text",
        "--removed",
        "r.parquet",
    ])
    .ok()
    .event("summary");
    assert_eq!(summary["records"], json!(3));
    assert_eq!(summary["cuts"], json!(1));
    assert_eq!(summary["cut_bytes"], json!(passage.len()));
    assert!(place.path("r.parquet").is_file());
    let tokens = ["--substring", "3", "--tokens", "--of", "text"];
    let summary = run(&tokens).ok().event("summary");
    let words = passage.split_whitespace().count();
    assert_eq!(summary["cut_tokens"], json!(words));
    for (arguments, cause, hint) in [
        (&["--tokens"][..], "--substring", ""),
        (
            &["--substring", "1", "--tokens", "--of", "text"],
            "1 token ",
            "2 to",
        ),
        (&["--substring", "50"], "--of", ""),
        (&["--of", "text"], "--substring", ""),
        (&["--substring", "5", "--of", "text"], "5 bytes", "8 bytes"),
        (&["--substring", "50", "--of", "txet"], "txet", "`text`"),
        (&["--substring", "50", "--of", "number"], "i64", "texts"),
        (
            &["--substring", "50", "--of", "text", "--keep", "last"],
            "--keep",
            "",
        ),
        (
            &["--substring", "50", "--of", "text", "--by", "text"],
            "--by",
            "",
        ),
    ] {
        run(arguments).fails(2, &[cause], hint);
    }
}

#[test]
fn a_table_is_split_into_directories_by_its_columns() {
    let place = TestDir::new();
    let all = batch(700);
    write(&place.path("t.parquet"), &all);
    let common = ["split", "t.parquet", "--by", "name", "-o", "by-name"];
    let summary = place
        .run(&[&common[..], &["--json"]].concat())
        .ok()
        .event("summary");
    assert_eq!(
        (&summary["partitions"], &summary["records"]),
        (&json!(4), &json!(700))
    );
    let files = ["a", "b", "c", "__HIVE_DEFAULT_PARTITION__"];
    for name in files {
        let file = format!("by-name/name={name}/part-0.parquet");
        assert!(place.path(&file).is_file(), "{file}");
    }
    place.run(&["info", "by-name"]).ok();
    place
        .run(&[
            "sort",
            "by-name",
            "-o",
            "s.parquet",
            "--by",
            "number",
            "--columns",
            "name,number",
        ])
        .ok();
    let mut expected = rows_of(&all);
    expected.sort_by_key(|row| row.1);
    assert!(read(&place.path("s.parquet")) == expected);
    place
        .run(&common)
        .fails(2, &["a set of files", "by-name"], "--force");
    for (by, out, cause, hint) in [
        ("nmae", "x", "nmae", "`name`"),
        ("name", "x-{part}", "{part}", "directory"),
        ("name", "x.parquet", "directory", "by-country"),
    ] {
        place
            .run(&["split", "t.parquet", "--by", by, "-o", out])
            .fails(2, &[cause], hint);
    }
    place.write("lines", b"a\n");
    place
        .run(&["split", "lines", "--by", "name", "-o", "x"])
        .fails(2, &["tables"], "");
    assert_eq!(
        place.names(),
        ["by-name", "lines", "s.parquet", "t.parquet"]
    );
}

#[test]
fn a_table_is_verified_by_its_order_and_by_the_rows_of_another() {
    let place = TestDir::new();
    write(&place.path("t.parquet"), &batch(2_000));
    place
        .run(&[
            "sort",
            "t.parquet",
            "-o",
            "s.parquet",
            "--by",
            "name",
            "--by",
            "number:desc",
        ])
        .ok();
    let verify =
        |arguments: &[&str]| place.run(&[&["verify", "s.parquet", "--json"], arguments].concat());
    let summary = verify(&[
        "--by",
        "name",
        "--by",
        "number:desc",
        "--against",
        "t.parquet",
    ])
    .ok();
    let summary = summary.event("summary");
    assert_eq!(summary["records"], json!(2_000));
    assert_eq!(
        (&summary["ordered"], &summary["same_records"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(summary["checksum"], summary["against_checksum"]);
    let wrong = verify(&["--by", "number"]);
    assert_eq!(wrong.code, Some(1));
    assert_eq!(wrong.event("summary")["first_unordered"], json!(1));
    place
        .run(&["head", "t.parquet", "-n", "1999", "-o", "less.parquet"])
        .ok();
    let other = verify(&["--against", "less.parquet"]);
    assert_eq!(
        (other.code, &other.event("summary")["same_records"]),
        (Some(1), &json!(false))
    );
    assert_eq!(verify(&["--by", "name", "--unique"]).code, Some(1));
    assert_eq!(verify(&["--by", "name"]).code, Some(0));
    let text = place
        .run(&["verify", "s.parquet", "--by", "name"])
        .ok()
        .stderr;
    assert!(text.contains("2,000 rows in order"), "{text}");
    for (arguments, cause, hint) in [
        (&["--by", "nmae"][..], "nmae", "`name`"),
        (&["--unique"], "--unique", "--by"),
        (&["--against", "t.parquet", "--ties"], "--ties", ""),
    ] {
        place
            .run(&[&["verify", "s.parquet"], arguments].concat())
            .fails(2, &[cause], hint);
    }
    place.write("lines", b"12345678");
    place
        .run(&["verify", "lines", "--by", "name"])
        .fails(2, &["--by"], "--type");
    place
        .run(&["verify", "s.parquet", "--against", "lines"])
        .fails(2, &["lines"], "tables");
}

#[test]
fn columns_whose_names_are_empty_or_hold_colons_and_commas_are_named_in_backquotes() {
    let place = TestDir::new();
    place.write("t.csv", b",a:desc,\"x,y\"\n2,b,1\n1,c,1\n3,a,2\n");
    let run = |arguments: &[&str]| {
        place.run(arguments).ok();
        String::from_utf8(place.read("o.csv")).unwrap()
    };
    let out = ["-o", "o.csv", "--force"];
    let of = |arguments: &[&str]| run(&[arguments, &out[..]].concat());
    place.run(&["convert", "t.csv", "-o", "t.parquet"]).ok();
    let by = |by: &str| of(&["sort", "t.parquet", "--columns", "``,`a:desc`", "--by", by]);
    assert_eq!(by("``"), "\"\",a:desc\n1,c\n2,b\n3,a\n");
    assert_eq!(by("`a:desc`:desc"), "\"\",a:desc\n1,c\n2,b\n3,a\n");
    assert_eq!(by("`a:desc`"), "\"\",a:desc\n3,a\n2,b\n1,c\n");
    let groups = [
        "group-by",
        "t.parquet",
        "--by",
        "`x,y`",
        "--agg",
        "n=count,most=max(``)",
    ];
    assert_eq!(of(&groups), "\"x,y\",n,most\n1,2,2\n2,1,3\n");
    let join = [
        "join",
        "t.parquet",
        "t.parquet",
        "--on",
        "``=`x,y`",
        "--columns",
        "``,`a:desc_right`",
    ];
    assert_eq!(of(&join), "\"\",a:desc_right\n1,b\n1,c\n2,a\n");
    let map = ["map", "`b:c` = `` * 2", "t.parquet", "--columns", "`b:c`"];
    assert_eq!(of(&map), "b:c\n4\n2\n6\n");
    place
        .run(&["split", "t.parquet", "--by", "`x,y`", "-o", "parts"])
        .ok();
    assert!(place.path("parts/x,y=2/part-0.parquet").is_file());
    // Keys of CSV lines name columns in the same notation.
    let lines = of(&["sort", "--csv", "t.csv", "--by", "`a:desc`"]);
    assert_eq!(lines, ",a:desc,\"x,y\"\n3,a,2\n2,b,1\n1,c,1\n");
}
