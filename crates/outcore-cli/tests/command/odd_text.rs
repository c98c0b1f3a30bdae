//! Input that is not text, and outputs that cannot be written: binary garbage as lines, false gzip
//! files, full outputs, outputs without a reader.
//!
//! Contract: bytes are kept, whatever they are. If a file cannot be read or written, the error
//! names it, and no part of the output exists.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use crate::support::*;

/// Lines of any bytes except for the line end. The last line has no end.
fn garbage(terminator: u8, seed: u64) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut text = Numbers(seed).bytes(300_000);
    text.extend_from_slice(b"\xff\xfe\xc3\x28\xed\xa0\x80\r");
    let lines = text.split(|byte| *byte == terminator);
    let lines = lines.map(<[u8]>::to_vec).collect();
    (text, lines)
}

fn ended(lines: &[Vec<u8>], terminator: u8) -> Vec<u8> {
    let ended = lines.iter().map(|line| [&line[..], &[terminator]].concat());
    ended.collect::<Vec<_>>().concat()
}

#[test]
fn bytes_of_any_kind_are_lines_to_every_command() {
    for (terminator, flags) in [(b'\n', &["--lines"][..]), (0, &["-z"][..])] {
        let place = TestDir::new();
        let (text, lines) = garbage(terminator, 5 + u64::from(terminator));
        place.write("in", &text);
        let run = |arguments: &[&str]| place.run(&[arguments, flags].concat()).ok().stdout;
        let mut sorted = lines.clone();
        sorted.sort();
        assert!(run(&["sort", "in"]) == ended(&sorted, terminator));
        let mut counts: BTreeMap<&[u8], u64> = BTreeMap::new();
        for line in &lines {
            *counts.entry(line).or_default() += 1;
        }
        let counted: Vec<Vec<u8>> = counts
            .iter()
            .map(|(line, count)| [format!("{count:7} ").as_bytes(), line].concat())
            .collect();
        assert!(run(&["unique", "--count", "in"]) == ended(&counted, terminator));
        let shuffled = run(&["shuffle", "in"]);
        assert!(shuffled != ended(&lines, terminator));
        let mut back: Vec<Vec<u8>> = shuffled
            .split(|byte| *byte == terminator)
            .map(<[u8]>::to_vec)
            .collect();
        assert_eq!(back.pop(), Some(Vec::new()), "the last one is ended");
        back.sort();
        assert!(back == sorted);
        assert!(run(&["head", "-n", "300", "in"]) == ended(&lines[..300], terminator));
        assert!(run(&["sample", "-n", "1e9", "in"]) == ended(&lines, terminator));
        run(&["split", "-n", "5", "-o", "part-{part}", "in"]);
        let parts = (0..5).map(|part| place.read(&format!("part-{part:02}")));
        assert!(parts.collect::<Vec<_>>().concat() == ended(&lines, terminator));
    }
}

#[test]
fn what_only_calls_itself_gzip_is_named_and_leaves_nothing() {
    let place = TestDir::new();
    place.write("in", b"b\na\n");
    place.run(&["sort", "in", "-o", "whole.gz"]).ok();
    let whole = place.read("whole.gz");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x55;
    for (name, bytes, cause) in [
        (
            "plain.gz",
            b"a\nb\nplain text and no gzip\n".to_vec(),
            "broken",
        ),
        ("empty.gz", Vec::new(), "ends in the middle"),
        (
            "torn.gz",
            whole[..whole.len() - 1].to_vec(),
            "ends in the middle",
        ),
        ("flipped.gz", flipped, "gzip"),
        (
            "behind.gz",
            [&whole[..], b"further text, and no gzip"].concat(),
            "gzip",
        ),
    ] {
        place.write(name, &bytes);
        for arguments in [
            &["sort", "-o", "out"][..],
            &["sort", "-o", "out", "--jsonl", "--by", ".a"],
            &["sort", "-o", "out", "--csv", "--by", "1"],
            &["shuffle", "-o", "out"],
            &["unique", "-o", "out"],
            &["unique", "--count", "-o", "out"],
            &["head", "-n", "100", "-o", "out"],
            &["sample", "-n", "1", "-o", "out"],
            &["split", "-n", "2", "-o", "out-{part}"],
        ] {
            let answer = place.run(&[arguments, &[name]].concat());
            answer.fails(4, &[cause, name], "copy the file again");
        }
    }
    let names = [
        "behind.gz",
        "empty.gz",
        "flipped.gz",
        "in",
        "plain.gz",
        "torn.gz",
        "whole.gz",
    ];
    assert_eq!(place.names(), names);
}

#[test]
fn a_full_output_is_an_error_and_a_closed_one_is_none() {
    let place = TestDir::new();
    let text: String = (0..200_000)
        .map(|line| format!("{}\n", line % 977))
        .collect();
    place.write("in", text.as_bytes());
    for arguments in [
        &["sort", "in"][..],
        &["sort", "-m", "in"],
        &["shuffle", "in"],
        &["unique", "in"],
        &["head", "-n", "150000", "in"],
        &["sample", "-n", "100000", "in"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place
            .command(arguments)
            .stdout(Stdio::from(full))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        Answer::of(output).fails(5, &["No space left"], "");
        let mut child = place
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 4]).unwrap();
        drop(stdout);
        let answer = Answer::of(child.wait_with_output().unwrap());
        assert!(
            matches!(answer.code, Some(0 | 141)),
            "{arguments:?}: {answer:?}"
        );
        assert_eq!(answer.stderr, "", "{arguments:?}");
    }
    assert_eq!(place.names(), ["in"]);
}

#[test]
fn tables_written_as_tsv_have_tabs_and_are_read_back_alike() {
    let place = TestDir::new();
    let odd = "a\tb,é\n\"x\ty\",\"q\"\"q\"\n\"\",\n\"l\n2\",\"1;2\"\n";
    place.write("odd.csv", odd.replace("a\tb", "\"a\tb\"").as_bytes());
    place.write("one.csv", b"\"a;b,c\"\n\"1;2,3\"\n\"4;5,6\"\n\n");
    for name in ["odd", "one"] {
        let [csv, plain, back] =
            ["csv", "plain.csv", "back.csv"].map(|end| format!("{name}.{end}"));
        place.run(&["convert", &csv, "-o", &plain]).ok();
        for end in ["tsv", "tsv.gz", "tsv.zst"] {
            let tsv = format!("{name}.{end}");
            place.run(&["convert", &csv, "-o", &tsv]).ok();
            place.run(&["convert", &tsv, "-o", &back, "--force"]).ok();
            assert_eq!(place.read(&back), place.read(&plain), "{tsv}");
        }
    }
    let one = place.read("one.back.csv");
    assert_eq!(one, b"\"a;b,c\"\n\"1;2,3\"\n\"4;5,6\"\n\n");
    let tsv = place.read("odd.tsv");
    assert!(
        tsv.starts_with("\"a\tb\"\té\n\"x\ty\"\t".as_bytes()),
        "{tsv:?}"
    );
}
