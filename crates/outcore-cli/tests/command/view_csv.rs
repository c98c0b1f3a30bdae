//! `outcore view` on CSV: through any command, a view gives the bytes that `outcore sort --csv`
//! writes, header first. Ranks count records.

use crate::support::*;
use crate::view::check_mounted;

const BY: [&str; 5] = ["--csv", "--by", "price:nr", "--by", "name"];

/// Records of CSV after a header; with `spans_lines`, some span lines.
fn sales(rows: usize, seed: u64, spans_lines: bool) -> Vec<u8> {
    let mut text = b"row,name,price\r\n".to_vec();
    for (row, random) in random_u64(rows, seed).chunks_exact(8).enumerate() {
        let random = u64::from_le_bytes(random.try_into().unwrap());
        let name = match random % 5 {
            0 => format!("plain {}", random % 97),
            1 => format!("\"with, comma {}\"", random % 89),
            2 => format!("\"with \"\"quotes\"\" {}\"", random % 83),
            3 if spans_lines => format!("\"two\r\nlines\n\nand an empty one {}\"", random % 79),
            _ => format!("\"{}\"", "long ".repeat(random as usize % 700)),
        };
        text.extend_from_slice(format!("{row},{name},{}\r\n", (random >> 20) % 300).as_bytes());
    }
    text
}

/// Builds `v` of files in several runs.
fn build(place: &TestDir, files: &[&str], flags: &[&str]) -> Answer {
    let words = ["-o", "v", "--force", "--memory", "64MiB"];
    let sizes = ["--run-size", "60KB"];
    place.run(&[&["view", "build"], files, &words, &sizes, flags].concat())
}

fn sorted(place: &TestDir, files: &[&str], flags: &[&str]) -> Vec<u8> {
    place.run(&[&["sort"], files, flags].concat()).ok().stdout
}

fn cat(place: &TestDir, more: &[&str]) -> Vec<u8> {
    place
        .run(&[&["view", "cat", "v"], more].concat())
        .ok()
        .stdout
}

#[test]
fn a_view_of_csv_gives_what_sort_writes_header_first() {
    let place = TestDir::new();
    place.write("plain.csv", &sales(3000, 1, false));
    place.write("lines.csv", &sales(2000, 2, true));
    let unended = sales(500, 3, true);
    place.write("unended.csv", &unended[..unended.len() - 2]);
    place.write(
        "bom.csv",
        &[b"\xef\xbb\xbf", &sales(400, 4, false)[..]].concat(),
    );
    place.write("only.csv", b"row,name,price");
    place.write("empty.csv", b"");
    let semicolons = "a;b\n1;\"x;y\"\n3;z\n2;\"\"\n".as_bytes();
    place.write("other.csv", semicolons);
    let by_number = ["--csv", "--by", "3:n", "-s"];
    let headless = ["--csv", "--no-header", "--by", "2", "-r"];
    for (files, flags) in [
        (&["plain.csv"][..], &BY[..]),
        (&["lines.csv"], &BY),
        (&["unended.csv", "plain.csv", "lines.csv"], &BY),
        (&["bom.csv", "empty.csv", "only.csv", "plain.csv"], &BY),
        (&["only.csv"], &BY),
        (&["lines.csv", "plain.csv"], &by_number),
        (&["lines.csv"], &headless),
        (&["bom.csv"], &headless),
        (&["other.csv"], &["--csv", "-t;", "--by", "b"]),
    ] {
        let expected = sorted(&place, files, flags);
        build(&place, files, flags).ok();
        assert!(cat(&place, &[]) == expected, "{files:?} {flags:?}");
        for out in ["out.csv", "out.csv.zst"] {
            let write = ["view", "materialize", "v", "-o", out, "--force"];
            place.run(&write).ok();
        }
        assert!(place.read("out.csv") == expected, "{files:?} {flags:?}");
        let unpacked = place.run(&["sort", "-m", "out.csv.zst"]).ok();
        assert!(unpacked.stdout == expected, "{files:?} {flags:?}");
        place.run(&["view", "verify", "v"]).ok();
    }
    let words = ["view", "build", "lines.csv", "-o", "w", "--cat"];
    let built = place.run(&[&words[..], &BY].concat()).ok();
    assert!(built.stdout == sorted(&place, &["lines.csv"], &BY));
}

#[test]
fn ranges_of_csv_have_records_alone_and_keys_are_records_that_have_them() {
    let place = TestDir::new();
    place.write("in.csv", &sales(2000, 2, true));
    build(&place, &["in.csv"], &BY).ok();
    let all = cat(&place, &[]);
    let header = b"row,name,price\r\n";
    assert!(cat(&place, &["--range", ".."]) == all[header.len()..]);
    let joined: Vec<u8> = ["..700", "700..701", "701.."]
        .into_iter()
        .flat_map(|range| cat(&place, &["--range", range]))
        .collect();
    assert!(joined == all[header.len()..]);
    let priced = cat(&place, &["--from-key", "0,,170", "--to-key", "0,,169"]);
    let rows = String::from_utf8(priced).unwrap();
    let all_text = String::from_utf8(all.clone()).unwrap();
    let (before, _) = all_text.split_once(&rows).unwrap();
    let count = |text: &str| text.matches(",170\r\n").count();
    assert!(
        count(&rows) > 1 && count(&rows) == count(&all_text),
        "{rows}"
    );
    assert!(
        before.ends_with(",171\r\n") && rows.ends_with(",170\r\n"),
        "{rows}"
    );
    let info = place.run(&["view", "info", "v"]).ok().stdout;
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("2,000 records of CSV"), "{info}");
    assert!(info.contains("--by price:nr --by name"), "{info}");
    let info = place.run(&["view", "info", "v", "--json"]).ok();
    assert_eq!(info.event("summary")["records"], 2000);
    assert_eq!(info.event("summary")["bytes"], all.len());
}

#[test]
fn csv_is_added_under_the_same_header_only() {
    let place = TestDir::new();
    place.write("plain.csv", &sales(700, 1, false));
    place.write("lines.csv", &sales(600, 2, true));
    place.write("more.csv", &sales(500, 3, false));
    place.write("other.csv", b"row,name,cost\n1,a,2\n");
    let append = |file: &str| place.run(&["view", "append", "v", file]);
    build(&place, &["lines.csv"], &BY).ok();
    append("more.csv").ok();
    place.run(&["sort", "plain.csv", "-o", "plain.csv.gz"]).ok();
    place.write("again.csv", &place.read("plain.csv"));
    append("again.csv").ok();
    let files = ["lines.csv", "more.csv", "again.csv"];
    assert!(cat(&place, &[]) == sorted(&place, &files, &BY));
    append("other.csv").fails(2, &["other.csv", "header", "the view"], "same columns");
    assert!(cat(&place, &[]) == sorted(&place, &files, &BY));

    // In a run, all records end with a newline, or all end with a NUL.
    build(&place, &["plain.csv"], &BY).ok();
    append("lines.csv").fails(2, &["lines.csv", "spans lines"], "all files again");
    append("more.csv").ok();
    assert!(cat(&place, &[]) == sorted(&place, &["plain.csv", "more.csv"], &BY));
}

#[test]
fn what_is_wrong_with_csv_is_named_and_leaves_nothing() {
    let place = TestDir::new();
    place.write("in.csv", b"a,b\n1,2\n3\n");
    place.write("open.csv", b"a,b\n1,\"2\n3,4\n");
    let wide = format!("a,{}\n1,2\n", "x".repeat(1 << 20));
    place.write("wide.csv", wide.as_bytes());
    let words = ["view", "build", "-o", "v"];
    for (more, code, what, hint) in [
        (
            &["in.csv", "--csv", "--by", "b"][..],
            4,
            &["in.csv", "line 3", "column 2"][..],
            "",
        ),
        (
            &["in.csv", "--csv", "--by", "c"],
            2,
            &["no column `c`"],
            "a, b",
        ),
        (
            &["open.csv", "--csv", "--by", "a"],
            4,
            &["open.csv", "quote"],
            "close the quote",
        ),
        (
            &["wide.csv", "--csv", "--by", "a"],
            2,
            &["before the lines"],
            "header",
        ),
        (
            &["in.csv", "--csv", "--by", "a", "-k2"],
            2,
            &["-k", "--csv"],
            "--by",
        ),
        (
            &["in.csv", "--by", "a"],
            4,
            &["1 field", "2 columns"],
            "--on-error",
        ),
    ] {
        place
            .run(&[&words[..], more].concat())
            .fails(code, what, hint);
        assert!(!place.path("v").exists(), "{more:?}");
    }
}

#[test]
fn the_mounted_csv_is_the_sorted_one_from_any_place() {
    let place = TestDir::new();
    place.write("in.csv", &sales(3000, 2, true));
    build(&place, &["in.csv"], &BY).ok();
    let sorted = sorted(&place, &["in.csv"], &BY);
    check_mounted(&place, "sorted.csv", &sorted);
}
