//! JSON lines as people have them, through every command that takes them as lines.
//!
//! Contract: a byte order mark belongs to its file, and blank lines are not rows, however the
//! command reads its input. No output has a byte order mark or a blank line.

use crate::support::*;

/// A byte order mark, an empty line, a line of blanks, and a last line of blanks without an end.
const MESSY: &[u8] = b"\xef\xbb\xbf{\"id\":3}\n{\"id\":1}\r\n\n{\"id\":2}\n \t\r\n{\"id\":1}\r\n  ";
/// Its rows.
const ROWS: [&[u8]; 4] = [
    b"{\"id\":3}\n",
    b"{\"id\":1}\r\n",
    b"{\"id\":2}\n",
    b"{\"id\":1}\r\n",
];

/// Rows in the order of their bytes.
fn sorted(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_byte_order_mark_and_blank_lines_are_in_no_output_of_json_lines() {
    let place = TestDir::new();
    place.write("in.jsonl", MESSY);
    let pack = [
        "head",
        "--lines",
        "-n",
        "99",
        "in.jsonl",
        "-o",
        "packed.jsonl.gz",
    ];
    place.run(&pack).ok();
    let by_id = [ROWS[1], ROWS[3], ROWS[2], ROWS[0]].concat();
    let all = sorted(&ROWS.concat());
    for name in ["in.jsonl", "packed.jsonl.gz", "-"] {
        let run = |arguments: &[&str]| {
            let arguments = [arguments, &[name, "--jsonl"]].concat();
            let done = match name {
                "-" => place.run_with_input(&arguments, MESSY),
                _ => place.run(&arguments),
            };
            done.ok()
        };
        let done = run(&["sort", "-s", "--by", ".id", "--on-error", "skip"]);
        assert_eq!(done.stdout, by_id, "{name}");
        assert!(!done.stderr.contains("left out"), "{}", done.stderr);
        assert_eq!(run(&["sort", "-s", "--by", ".id"]).stdout, by_id, "{name}");
        let distinct = [ROWS[1], ROWS[2], ROWS[0]].concat();
        assert_eq!(run(&["unique", "--by", ".id"]).stdout, distinct, "{name}");
        assert_eq!(run(&["unique"]).stdout, distinct, "{name}");
        assert_eq!(sorted(&run(&["shuffle"]).stdout), all, "{name}");
        assert_eq!(
            run(&["head", "-n", "3"]).stdout,
            ROWS[..3].concat(),
            "{name}"
        );
        assert_eq!(run(&["sample", "-n", "9"]).stdout, ROWS.concat(), "{name}");
        let parts = format!("{}-{{part}}.jsonl", name.len());
        run(&["split", "--by-lines", "3", "-o", &parts]);
        let part = |number: &str| place.read(&parts.replace("{part}", number));
        assert_eq!(part("00"), ROWS[..3].concat(), "{name}");
        assert_eq!(part("01"), ROWS[3], "{name}");
    }
    let check = ["sort", "-c", "--jsonl", "--by", ".id:desc"];
    place.write("ordered.jsonl", b"\xef\xbb\xbf{\"id\":2}\n\n{\"id\":1}\n\n");
    place.run(&[&check[..], &["ordered.jsonl"]].concat()).ok();
    let merge = ["sort", "-m", "--jsonl", "--by", ".id:desc"];
    let merged = place.run(&[&merge[..], &["ordered.jsonl", "ordered.jsonl"]].concat());
    let twice = b"{\"id\":2}\n{\"id\":2}\n{\"id\":1}\n{\"id\":1}\n";
    assert_eq!(merged.ok().stdout, twice);
}

#[test]
fn views_of_json_lines_and_csv_hold_no_blank_lines() {
    let place = TestDir::new();
    place.write("in.jsonl", MESSY);
    place.write("more.jsonl", b"\xef\xbb\xbf{\"id\":0}\n\n");
    place.write("in.csv", b"\xef\xbb\xbfid,t\n3,c\n\n1,a\n  \n");
    place.write("more.csv", b"\xef\xbb\xbfid,t\n\n2,b\n");
    let build = |name: &str, view: &str, kind: &str| {
        let by = if kind == "--csv" { "id" } else { ".id" };
        let build = ["view", "build", name, "-o", view, kind, "--by", by, "-s"];
        place.run(&build).ok();
    };
    let cat = |view: &str| place.run(&["view", "cat", view]).ok().stdout;
    build("in.jsonl", "json", "--jsonl");
    assert_eq!(cat("json"), [ROWS[1], ROWS[3], ROWS[2], ROWS[0]].concat());
    place.run(&["view", "append", "json", "more.jsonl"]).ok();
    assert!(cat("json").starts_with(b"{\"id\":0}\n{\"id\":1}\r\n"));
    build("in.csv", "csv", "--csv");
    assert_eq!(cat("csv"), b"\xef\xbb\xbfid,t\n1,a\n3,c\n");
    place.run(&["view", "append", "csv", "more.csv"]).ok();
    assert_eq!(cat("csv"), b"\xef\xbb\xbfid,t\n1,a\n2,b\n3,c\n");
}

#[test]
fn lines_that_are_not_read_as_json_keep_every_byte() {
    let place = TestDir::new();
    place.write("in.jsonl", MESSY);
    let kept = place.run(&["head", "-n", "99", "--lines", "in.jsonl"]).ok();
    assert_eq!(kept.stdout, [MESSY, b"\n"].concat());
    let shuffled = place.run(&["shuffle", "--lines", "in.jsonl"]).ok().stdout;
    assert_eq!(sorted(&shuffled), sorted(&[MESSY, b"\n"].concat()));
}

#[test]
fn split_reads_tables_as_the_other_commands_of_tables_do() {
    let place = TestDir::new();
    place.write("in.csv", b"id,n\n1,NA\nx,2\n3,4\n");
    let split = [
        "split",
        "in.csv",
        "-n",
        "2",
        "-o",
        "p-{part}.csv",
        "--force",
    ];
    let part = |number: &str| place.read(&format!("p-{number}.csv"));
    let types = ["--schema", "id:i64,n:i64", "--null", "NA"];
    let skip = [&split[..], &types, &["--on-error", "skip"]].concat();
    let done = place.run(&skip).ok();
    assert!(
        done.stderr.contains("left out 1 bad row"),
        "{}",
        done.stderr
    );
    assert_eq!(
        (part("0"), part("1")),
        (b"id,n\n1,\n".to_vec(), b"id,n\n3,4\n".to_vec())
    );
    let null = [&split[..], &types, &["--on-error", "null"]].concat();
    place.run(&null).ok();
    assert_eq!(
        (part("0"), part("1")),
        (b"id,n\n1,\n,2\n".to_vec(), b"id,n\n3,4\n".to_vec())
    );
    place.write("other.csv", b"id\n5\n");
    let union = [
        "split",
        "in.csv",
        "other.csv",
        "--union",
        "--by",
        "id",
        "-o",
        "by-id",
    ];
    place.run(&union).ok();
    assert!(place.path("by-id/id=5").is_dir());
    let lines = [
        "split", "--lines", "in.csv", "-n", "2", "-o", "l-{part}", "--union",
    ];
    place
        .run(&lines)
        .fails(2, &["--union"], "leave --union or --lines out");
}
