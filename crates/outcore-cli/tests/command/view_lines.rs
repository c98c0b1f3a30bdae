//! `outcore view` on lines: in a pipe, a file and a mount, a view gives the bytes that
//! `outcore sort` writes with the same flags.

use crate::support::*;
use crate::view::check_mounted;

/// Lines of a word, a number and an end; some words are frequent, some lines long.
fn table(rows: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for (row, random) in random_u64(rows, 9).chunks_exact(8).enumerate() {
        let random = u64::from_le_bytes(random.try_into().unwrap());
        let pad = if random.is_multiple_of(97) { 3000 } else { 0 };
        let (word, number) = (random % 211, random / 211 % 1000);
        text.extend_from_slice(format!("w{word}\t{number}\t{row:0pad$}\n").as_bytes());
    }
    text
}

/// Builds `v` of `in.txt` with flags of an order, in several runs; returns the bytes that sort
/// writes with these flags.
fn build(place: &TestDir, flags: &[&str]) -> Vec<u8> {
    let sorted = place.run(&[&["sort", "in.txt"], flags].concat()).ok();
    let words = ["view", "build", "in.txt", "-o", "v", "--lines", "--force"];
    let sizes = ["--memory", "64MiB", "--run-size", "100KB"];
    place.run(&[&words[..], &sizes, flags].concat()).ok();
    sorted.stdout
}

#[test]
fn a_view_with_the_flags_of_sort_gives_what_sort_writes() {
    let place = TestDir::new();
    place.write("in.txt", &table(20_000));
    for flags in [
        &[][..],
        &["-r"],
        &["-t", "\\t", "-k2,2n"],
        &["-t", "\\t", "-k2,2nr", "-k1,1", "-s"],
        &["-V", "-s"],
        &["-f", "-r"],
        &["-z"],
    ] {
        let sorted = build(&place, flags);
        assert!(
            place.run(&["view", "cat", "v"]).ok().stdout == sorted,
            "{flags:?}"
        );
        place
            .run(&["view", "materialize", "v", "-o", "out.txt", "--force"])
            .ok();
        assert!(place.read("out.txt") == sorted, "{flags:?}");
        place.run(&["view", "verify", "v"]).ok();
    }
}

#[test]
fn a_view_of_json_lines_is_ordered_by_their_fields() {
    let place = TestDir::new();
    let numbers = random_u64(5000, 4);
    let line = |(row, random): (usize, &[u8])| {
        let random = u64::from_le_bytes(random.try_into().unwrap());
        let (user, price) = (random % 50, random / 50 % 1000);
        format!("{{\"user\": {{\"id\": {user}}}, \"price\": {price}.5, \"row\": {row}}}\n")
    };
    let text: String = numbers.chunks_exact(8).enumerate().map(line).collect();
    place.write("in.jsonl", text.as_bytes());
    let order = ["--jsonl", "--by", ".user.id", "--by", ".price:r"];
    let sorted = place
        .run(&[&["sort", "in.jsonl"][..], &order].concat())
        .ok();
    let build = ["view", "build", "in.jsonl", "-o", "v", "--run-size", "50KB"];
    place.run(&[&build[..], &order].concat()).ok();
    assert!(place.run(&["view", "cat", "v"]).ok().stdout == sorted.stdout);
    let info = place.run(&["view", "info", "v"]).ok().stdout;
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("--by .user.id --by .price:r"), "{info}");

    place.write(
        "in.jsonl",
        b"{\"user\": {\"id\": 1}, \"price\": 1}\n{\"user\": 2}\n",
    );
    let build = [&build[..], &["--force"], &order].concat();
    let what = ["in.jsonl", "line 2", "no field .user.id"];
    place.run(&build).fails(4, &what, "correct the line");
    assert!(place.run(&["view", "cat", "v"]).ok().stdout == sorted.stdout);
}

#[test]
fn ranges_and_keys_are_those_of_the_sorted_text() {
    let place = TestDir::new();
    place.write("in.txt", &table(20_000));
    let sorted = build(&place, &[]);
    let lines: Vec<&[u8]> = sorted.split_inclusive(|byte| *byte == b'\n').collect();
    let cat = |more: &[&str]| {
        place
            .run(&[&["view", "cat", "v"], more].concat())
            .ok()
            .stdout
    };
    assert!(cat(&["--range", "1000..1500"]) == lines[1000..1500].concat());
    assert!(cat(&["--range", "-3.."]) == lines[lines.len() - 3..].concat());
    let between = |line: &&&[u8]| line[..] >= b"w15"[..] && line[..] < b"w2"[..];
    let expected: Vec<&[u8]> = lines.iter().filter(between).copied().collect();
    assert!(cat(&["--from-key", "w15", "--to-key", "w2"]) == expected.concat());
    let info = place.run(&["view", "info", "v", "--json"]).ok();
    let summary = info.event("summary");
    assert_eq!(summary["records"], lines.len());
    assert_eq!(
        (&summary["type"], &summary["bytes"]),
        (&"lines".into(), &sorted.len().into())
    );

    let keyed = build(&place, &["-t", "\\t", "-k2,2n", "-s"]);
    let number = |line: &[u8]| -> u32 {
        let text = line.split(|byte| *byte == b'\t').nth(1).unwrap();
        std::str::from_utf8(text).unwrap().parse().unwrap()
    };
    let lines = keyed.split_inclusive(|byte| *byte == b'\n');
    let expected: Vec<&[u8]> = lines
        .filter(|line| (300..310).contains(&number(line)))
        .collect();
    assert!(cat(&["--from-key", "x\t300", "--to-key", "x\t310"]) == expected.concat());
    let info = place.run(&["view", "info", "v"]).ok();
    assert!(
        String::from_utf8(info.stdout)
            .unwrap()
            .contains("-s -k 2,2n")
    );
}

#[test]
fn streams_and_compressed_lines_become_views_and_further_lines_are_added() {
    let place = TestDir::new();
    let (first, more) = (table(3000), table(700));
    place
        .run_with_input(&["view", "build", "-", "-o", "v", "--lines"], &first)
        .ok();
    place.write("more.txt", &more);
    place.run(&["sort", "more.txt", "-o", "more.gz"]).ok();
    place.run(&["view", "append", "v", "more.gz"]).ok();
    place.write("both.txt", &[first, more].concat());
    let sorted = place.run(&["sort", "both.txt"]).ok().stdout;
    assert!(place.run(&["view", "cat", "v"]).ok().stdout == sorted);
}

#[test]
fn what_lines_cannot_have_is_refused_and_leaves_nothing() {
    let place = TestDir::new();
    place.write("in.txt", b"b\na");
    let build = ["view", "build", "in.txt", "-o", "v"];
    let refused = |more: &[&str], cause: &str, hint: &str| {
        place
            .run(&[&build[..], more].concat())
            .fails(2, &[cause], hint);
        assert!(!place.path("v").exists());
    };
    refused(&["--lines", "-u"], "-u", "sort -u");
    refused(&["-k", "0"], "zero", "");
    refused(&["--lines", "--type", "u64"], "--type", "");
    place
        .run(&[&build[..], &["--lines", "--dry-run"]].concat())
        .ok();
    assert!(!place.path("v").exists());
    place.run(&[&build[..], &["--lines"]].concat()).ok();
    assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, b"a\nb\n");
    let shards = ["view", "materialize", "v", "-o", "{drive}.txt"];
    place.run(&shards).fails(2, &[], "");
}

#[test]
fn the_mounted_text_has_the_size_and_the_bytes_of_the_sorted_one() {
    let place = TestDir::new();
    place.write("in.txt", &table(30_000));
    let sorted = build(&place, &[]);
    check_mounted(&place, "sorted.txt", &sorted);
}
