//! CSV and JSON lines in the commands that move lines, and extreme input: one line of hundreds of
//! MiB, millions of empty lines, more files than may be open.
//!
//! Contract: in every output, records of CSV stay whole and the header comes first. Memory exceeds
//! the allowed amount by at most 64 MiB, and the work is at most a multiple of the input, whatever
//! the input is.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::support::{Answer, TestDir};

/// The most resident memory of a command with `--memory 64MiB`.
const RSS_BYTES_MAX: u64 = 128 << 20;

/// Records of CSV by definition, byte by byte, each with its end.
fn records(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut record, mut is_quoted) = (Vec::new(), Vec::new(), false);
    for &byte in text {
        record.push(byte);
        is_quoted ^= byte == b'"';
        if byte == b'\n' && !is_quoted {
            found.push(std::mem::take(&mut record));
        }
    }
    assert!(record.is_empty(), "it ends with a record");
    found
}

/// A table of different records, every third of which spans lines.
fn table(count: usize) -> Vec<u8> {
    let mut text = String::from("id,\"the\nname\",city\r\n");
    for id in 0..count {
        let name = match id % 3 {
            0 => format!("\"na\nme, {id}\""),
            _ => format!("name {id}"),
        };
        write!(text, "{id},{name},city {}\r\n", id % 7).unwrap();
    }
    text.into_bytes()
}

fn sorted(mut records: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    records.sort();
    records
}

#[test]
fn a_shuffle_of_csv_moves_whole_records_behind_one_header() {
    let place = TestDir::in_memory();
    let text = table(500);
    let all = records(&text);
    let (header, body) = all.split_first().unwrap();
    place.write("in.csv", &text);
    // The same records in two files.
    let half: usize = all[..200].iter().map(Vec::len).sum();
    place.write("a.csv", &text[..half]);
    place.write("b.csv", &[header.as_slice(), &text[half..]].concat());
    let one = place
        .run(&["shuffle", "--csv", "in.csv", "--seed", "7"])
        .ok();
    let shuffled = records(&one.stdout);
    assert_eq!(&shuffled[0], header);
    assert_ne!(&shuffled[1..], body);
    assert_eq!(sorted(shuffled[1..].to_vec()), sorted(body.to_vec()));
    let again = [
        &["in.csv", "--memory", "1GiB", "--threads", "1"][..],
        &[
            "in.csv",
            "--memory",
            "64MiB",
            "--threads",
            "3",
            "-o",
            "out.csv",
        ],
        &["in.csv", "-o", "out.csv.gz"],
    ];
    for more in again {
        let answer = place.run(&[&["shuffle", "--csv", "--seed", "7", "--force"], more].concat());
        let written = match more.last() {
            Some(&"out.csv") => place.read("out.csv"),
            Some(&"out.csv.gz") => place.run(&["head", "-n", "9999", "out.csv.gz"]).ok().stdout,
            _ => answer.ok().stdout,
        };
        assert_eq!(written, one.stdout, "{more:?}");
    }
    let fed = place.run_with_input(&["shuffle", "--csv", "--seed", "7"], &text);
    assert_eq!(fed.ok().stdout, one.stdout);
    let both = place.run(&["shuffle", "--csv", "a.csv", "b.csv"]).ok();
    let shuffled = records(&both.stdout);
    assert_eq!(&shuffled[0], header);
    assert_eq!(sorted(shuffled[1..].to_vec()), sorted(body.to_vec()));
}

#[test]
fn a_sample_and_the_head_of_csv_are_whole_records_behind_the_header() {
    let place = TestDir::new();
    let text = table(300);
    let all = records(&text);
    place.write("in.csv", &text);
    let head = |count: &str| place.run(&["head", "--csv", "-n", count, "in.csv"]).ok();
    assert_eq!(head("0").stdout, all[0]);
    assert_eq!(head("4").stdout, all[..5].concat());
    assert_eq!(head("1000").stdout, text);
    let fed = place.run_with_input(&["head", "--csv", "-n", "4"], &text);
    assert_eq!(fed.ok().stdout, all[..5].concat());
    let two = place.run(&["head", "--csv", "-n", "301", "in.csv", "in.csv"]);
    assert_eq!(two.ok().stdout, [&text[..], &all[1]].concat());
    let sample = place.run(&["sample", "--csv", "-n", "20", "in.csv"]).ok();
    let taken = records(&sample.stdout);
    assert_eq!((taken.len(), &taken[0]), (21, &all[0]));
    let mut rest = all[1..].iter();
    assert!(
        taken[1..]
            .iter()
            .all(|record| rest.any(|one| one == record))
    );
    let fed = place.run_with_input(&["sample", "--csv", "-n", "20"], &text);
    assert_eq!(fed.ok().stdout, sample.stdout);
    let bare = place.run(&["head", "--csv", "--no-header", "-n", "1", "in.csv"]);
    assert_eq!(bare.ok().stdout, all[0]);
    // Records across the borders of blocks.
    let long = table(120_000);
    let fed = place.run_with_input(&["head", "--csv", "-n", "110000"], &long);
    let wanted: usize = records(&long)[..110_001].iter().map(Vec::len).sum();
    assert!(fed.ok().stdout == long[..wanted]);
}

#[test]
fn each_part_of_csv_is_a_table_of_its_own() {
    let place = TestDir::new();
    let text = table(100);
    let all = records(&text);
    place.write("in.csv", &text);
    let part = |name: &str| records(&place.read(name));
    let by_records = [
        "split",
        "--csv",
        "in.csv",
        "--by-lines",
        "40",
        "-o",
        "r-{part}.csv",
    ];
    place.run(&by_records).ok();
    for (number, wanted) in [&all[1..41], &all[41..81], &all[81..]]
        .into_iter()
        .enumerate()
    {
        let got = part(&format!("r-{number:02}.csv"));
        assert_eq!((&got[0], &got[1..]), (&all[0], wanted));
    }
    place
        .run(&["split", "--csv", "in.csv", "-n", "7", "-o", "n-{part}.csv"])
        .ok();
    let mut body = Vec::new();
    for number in 0..7 {
        let got = part(&format!("n-{number:02}.csv"));
        assert_eq!(got[0], all[0]);
        assert!((12..18).contains(&got.len()), "{}", got.len());
        body.extend_from_slice(&got[1..]);
    }
    assert_eq!(body, all[1..]);
    // With more parts than records, each part still has its header.
    place.write("short.csv", b"a,b\n1,2\n");
    place
        .run(&[
            "split",
            "--csv",
            "short.csv",
            "-n",
            "3",
            "-o",
            "s-{part}.csv",
        ])
        .ok();
    let parts = ["s-00.csv", "s-01.csv", "s-02.csv"].map(|name| place.read(name));
    assert_eq!(parts.concat(), b"a,b\n1,2\na,b\na,b\n");
}

#[test]
fn unique_csv_keeps_one_of_each_record_or_the_first_of_each_column() {
    let place = TestDir::new();
    place.write("in.csv", b"k,v\n2,\"x\ny\"\n1,b\n2,\"x\ny\"\n1,a\n");
    let unique = |more: &[&str]| place.run(&[&["unique", "--csv", "in.csv"], more].concat());
    assert_eq!(unique(&[]).ok().stdout, b"k,v\n1,a\n1,b\n2,\"x\ny\"\n");
    assert_eq!(unique(&["-r"]).ok().stdout, b"k,v\n2,\"x\ny\"\n1,b\n1,a\n");
    assert_eq!(
        unique(&["--by", "k"]).ok().stdout,
        b"k,v\n1,b\n2,\"x\ny\"\n"
    );
    assert_eq!(
        unique(&["--by", "k:nr"]).ok().stdout,
        b"k,v\n2,\"x\ny\"\n1,b\n"
    );
    let counted = unique(&["--count", "--by", "k"]).ok();
    assert_eq!(counted.stdout, b"count,k,v\n2,1,b\n2,2,\"x\ny\"\n");
    unique(&["--by", "x"]).fails(2, &["no column `x`"], "k, v");
    unique(&["-k1,1"]).fails(2, &["-k", "--csv"], "--by");
    place.write(
        "in.jsonl",
        b"{\"a\":1,\"b\":2}\n{\"a\":1}\n{\"a\":1,\"b\":2}\n",
    );
    let unique = |more: &[&str]| place.run(&[&["unique", "--jsonl", "in.jsonl"], more].concat());
    assert_eq!(unique(&[]).ok().stdout, b"{\"a\":1,\"b\":2}\n{\"a\":1}\n");
    assert_eq!(unique(&["--by", ".a"]).ok().stdout, b"{\"a\":1,\"b\":2}\n");
    unique(&["--by", ".b"]).fails(4, &["line 2"], "--on-error skip");
    let skipped = unique(&["--by", ".b", "--on-error", "skip"]).ok();
    assert_eq!(skipped.stdout, b"{\"a\":1,\"b\":2}\n");
}

#[test]
fn files_of_csv_with_other_headers_are_both_named() {
    let place = TestDir::new();
    place.write("one.csv", b"a,b\n1,2\n");
    place.write("two.csv", b"a,c\n1,2\n");
    let commands: [&[&str]; 6] = [
        &["shuffle"],
        &["unique"],
        &["sort", "--by", "a"],
        &["sample", "-n", "5"],
        &["head"],
        &["split", "-n", "2", "-o", "p-{part}"],
    ];
    for command in commands {
        let answer = place.run(&[command, &["--csv", "one.csv", "two.csv"]].concat());
        answer.fails(2, &["header", "one.csv", "two.csv"], "same columns");
    }
    assert_eq!(place.names(), ["one.csv", "two.csv"]);
}

#[test]
fn separators_marks_and_ends_of_csv_are_kept() {
    let place = TestDir::new();
    place.write("in.csv", b"\xef\xbb\xbfa;b\r\n1;\"x;\ny\"\r\n2;z");
    let head = place.run(&["head", "--csv", "-t;", "in.csv"]).ok();
    assert_eq!(head.stdout, b"\xef\xbb\xbfa;b\r\n1;\"x;\ny\"\r\n2;z\r\n");
    let two = place
        .run(&["head", "--csv", "-t;", "in.csv", "in.csv"])
        .ok();
    let body = b"1;\"x;\ny\"\r\n2;z\r\n";
    assert_eq!(
        two.stdout,
        [&b"\xef\xbb\xbfa;b\r\n"[..], body, body].concat()
    );
    place.write("in.tsv", b"a\tb\n\"1\n,\"\tx");
    let tabs = place.run(&["sample", "--csv", "-n", "9", "in.tsv"]).ok();
    assert_eq!(tabs.stdout, b"a\tb\n\"1\n,\"\tx\n");
    place.write("header.csv", b"a,b");
    let only = place.run(&["head", "--csv", "header.csv"]).ok();
    assert_eq!(only.stdout, b"a,b\n");
    place.write("torn.csv", b"a,b\n1,2\n3,\"4\n");
    for verb in ["shuffle", "unique", "head"] {
        let torn = place.run(&[verb, "--csv", "torn.csv"]);
        torn.fails(4, &["quote", "torn.csv"], "close");
    }
}

#[test]
fn csv_that_is_sorted_as_lines_is_noted_and_flags_that_contradict_are_refused() {
    let place = TestDir::new();
    place.write("in.csv", b"b\na\n");
    let read = place.run(&["sort", "in.csv"]).ok();
    assert_eq!(read.stdout, b"a\nb\n");
    assert!(read.stderr.contains("in.csv") && read.stderr.contains("--by"));
    let read = place.run(&["unique", "in.csv"]).ok();
    assert_eq!(
        (read.stdout, read.stderr),
        (b"b\na\n".to_vec(), String::new())
    );
    assert_eq!(place.run(&["head", "in.csv"]).ok().stderr, "");
    assert_eq!(place.run(&["unique", "--jsonl", "in.csv"]).ok().stderr, "");
    for verb in ["shuffle", "head", "unique"] {
        place
            .run(&[verb, "--csv", "-z", "in.csv"])
            .fails(2, &[], "");
        place
            .run(&[verb, "--csv", "--type", "u8", "in.csv"])
            .fails(2, &[], "");
    }
}

/// A child that reads `front`, followed by one long line, on its standard input.
fn fed_one_long_line(
    place: &TestDir,
    arguments: &[&str],
    front: &'static [u8],
    line_bytes: usize,
) -> Answer {
    let mut child = place.spawn(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        let block = vec![b'x'; 1 << 20];
        let _ = stdin.write_all(front);
        for _ in 0..line_bytes >> 20 {
            // A command that needs only the beginning does not read all of it.
            if stdin.write_all(&block).is_err() {
                return;
            }
        }
        let _ = stdin.write_all(b"\n");
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Answer::of(output)
}

#[test]
fn a_line_longer_than_the_memory_is_copied_in_pieces_or_named() {
    const LINE_BYTES: usize = 200 << 20;
    let place = TestDir::new();
    let within = |answer: &Answer| {
        let rss_bytes = answer.event("summary")["peak_rss_bytes"].as_u64().unwrap();
        assert!(rss_bytes <= RSS_BYTES_MAX, "{rss_bytes}");
    };
    let head = ["head", "-n", "1", "-o", "long", "--json"];
    let copied = fed_one_long_line(&place, &head, b"", LINE_BYTES).ok();
    within(&copied);
    let facts = std::fs::metadata(place.path("long")).unwrap();
    assert_eq!(facts.len(), LINE_BYTES as u64 + 1);
    let memory = ["--memory", "64MiB", "--json"];
    let split = [&["split", "-n", "2", "long", "-o", "p-{part}"], &memory[..]].concat();
    within(&place.run(&split).ok());
    let length = |name: &str| std::fs::metadata(place.path(name)).unwrap().len();
    assert_eq!((length("p-00"), length("p-01")), (LINE_BYTES as u64 + 1, 0));
    let sample = ["sample", "-n", "1", "--memory", "64MiB"];
    let taken = fed_one_long_line(&place, &sample, b"", LINE_BYTES);
    taken.fails(6, &["exceeds", "64MiB"], "--memory");
    // Lines outside the sample may have any length: with this seed, the sample is the first of two
    // lines.
    let passed = (1..64).find_map(|seed| {
        let seed = format!("{seed}");
        let sample = ["sample", "-n", "1", "--seed", &seed];
        let taken = place.run_with_input(&sample, b"first\nlong\n").ok();
        (taken.stdout == b"first\n").then_some(seed)
    });
    let sample = [
        "sample",
        "-n",
        "1",
        "-o",
        "short",
        "--seed",
        &passed.unwrap(),
        "--memory",
        "64MiB",
        "--json",
    ];
    within(&fed_one_long_line(&place, &sample, b"first\n", LINE_BYTES).ok());
    assert_eq!(place.read("short"), b"first\n");
}

#[test]
fn empty_lines_in_millions_are_sorted_in_few_passes_within_the_memory() {
    const LINES: usize = 8_000_000;
    let place = TestDir::new();
    place.write("in", &vec![b'\n'; LINES]);
    place
        .run(&["split", "in", "--by-lines", "8000000", "-o", "{part}.gz"])
        .ok();
    // The most bytes that may be read and written, a multiple of the input.
    for (how, most) in [(&[][..], 4), (&["-k1,1"], 6), (&["-s", "-n"], 12)] {
        let sort = ["sort", "00.gz", "-o", "out", "--memory", "64MiB", "--json"];
        let summary = place.run(&[&sort[..], how].concat()).ok().event("summary");
        let number = |name: &str| summary[name].as_u64().unwrap();
        assert_eq!(number("records"), LINES as u64);
        assert!(number("peak_rss_bytes") <= RSS_BYTES_MAX, "{summary}");
        let moved_bytes = number("read_bytes") + number("written_bytes");
        assert!(moved_bytes <= most * LINES as u64, "{how:?}: {summary}");
        assert_eq!(place.read("out"), place.read("in"));
    }
}

/// The command with a limit on its open files.
fn with_few_files(place: &TestDir, limit: u32, arguments: &[&str]) -> Answer {
    let limited = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_outcore")])
        .args(arguments)
        .current_dir(place.dir())
        .env("OUTCORE_CONFIG", "")
        .stdin(Stdio::null())
        .output();
    Answer::of(output.unwrap())
}

#[test]
fn there_may_be_more_inputs_than_files_may_be_open() {
    let place = TestDir::in_memory();
    let names: Vec<String> = (0..200).map(|number| format!("in-{number:03}")).collect();
    let mut all = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let text = format!("{number:03}\n{:03}\n", number + 500);
        place.write(name, text.as_bytes());
        all.extend(text.lines().map(|line| format!("{line}\n")));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = |more: &[&str]| with_few_files(&place, 64, &[more, &names[..]].concat()).ok();
    let in_order = |bytes: &[u8]| {
        let mut lines: Vec<String> = String::from_utf8(bytes.to_vec())
            .unwrap()
            .split_inclusive('\n')
            .map(str::to_string)
            .collect();
        lines.sort();
        lines
    };
    all.sort();
    for how in [
        &["sort"][..],
        &["sort", "-m"],
        &["unique"],
        &["sort", "--stable", "-k1,1"],
    ] {
        assert_eq!(run(how).stdout, all.concat().into_bytes(), "{how:?}");
    }
    for io in ["direct", "buffered"] {
        let output = run(&["sort", "-m", "--io", io]);
        assert_eq!(output.stdout, all.concat().into_bytes(), "{io}");
    }
    for how in [
        &["shuffle"][..],
        &["head", "-n", "1000"],
        &["sample", "-n", "1000"],
    ] {
        assert_eq!(in_order(&run(how).stdout), all, "{how:?}");
    }
    run(&["split", "-n", "3", "-o", "p-{part}"]);
    run(&["view", "build", "--lines", "-o", "v"]);
    let read = with_few_files(&place, 64, &["view", "cat", "v"]).ok();
    assert_eq!(read.stdout, all.concat().into_bytes());
    run(&["sort", "--type", "u64", "-o", "numbers"]);
    assert_eq!(place.read("numbers").len(), 200 * 8);
}

/// Long files. outcore first examines only their ends, and reads them again if that was not enough.
#[test]
fn long_csv_is_sorted_alike_whatever_its_middle_holds() {
    let place = TestDir::in_memory();
    let row = |id: usize, text: &str| format!("{},{text},{id:060}\n", id * 7_919 % 100_003);
    let table = |odd: &str| {
        let mut text = String::from("k,t,n\n");
        for id in 0..60_000 {
            text += &row(id, if id == 40_000 { odd } else { "plain" });
        }
        text
    };
    let sort = ["sort", "--csv", "--by", "k:n", "in.csv", "--force"];
    let to_file = |text: &str| {
        place.write("in.csv", text.as_bytes());
        place.run(&[&sort[..], &["-o", "out.csv"]].concat())
    };
    let plain = table("plain");
    assert!(plain.len() > 4 << 20, "long enough not to be read first");
    let texts = [
        plain.clone(),
        table("\"a, b\""),
        table("5\" disk"),
        table("\"two\nlines\""),
        table("\"\n\""),
        table("\"a\"\"b\n\"\"\""),
        format!("\u{feff}{plain}"),
        plain.replace('\n', "\r\n"),
        plain.trim_end().to_string(),
        plain.replace('\n', "\r\n").trim_end().to_string(),
        plain.replacen("k,t,n", "k,\"t\nu\",n", 1),
    ];
    for text in texts {
        to_file(&text).ok();
        let by_file = place.read("out.csv");
        // The records of all files are examined before anything goes to a pipe.
        let by_pipe = place.run(&sort).ok();
        assert!(by_file == by_pipe.stdout, "{}", &text[..20]);
        // An unterminated last record gets the end of the records before it.
        let end_bytes = match (text.ends_with('\n'), text.contains('\r')) {
            (true, _) => 0,
            (false, is_crlf) => 1 + usize::from(is_crlf),
        };
        assert_eq!(by_file.len(), text.len() + end_bytes);
    }
    to_file(&plain).ok();
    let ids: Vec<usize> = String::from_utf8(place.read("out.csv"))
        .unwrap()
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(ids.len() == 60_000 && ids.is_sorted());
    // Errors are the same as after a scan of all records: they name the line as a reader counts it.
    let open = to_file(&table("\"open"));
    let cause = "the record at line 40002 has a quote that is not closed";
    open.fails(4, &[cause], "close the quote");
    // An error that shows at the beginning or the end of a file is reported at once.
    let by_nothing = ["sort", "--csv", "--by", "u", "in.csv", "-o", "last.csv"];
    place
        .run(&by_nothing)
        .fails(2, &["there is no column `u`"], "k");
    place.write("other.csv", plain.replacen("k,t,n", "k,t,m", 1).as_bytes());
    let with_other = [
        "sort",
        "--csv",
        "--by",
        "k",
        "in.csv",
        "other.csv",
        "-o",
        "last.csv",
    ];
    place.run(&with_other).fails(
        2,
        &["other.csv", "its header differs from the header of in.csv"],
        "--no-header",
    );
    let short = table("\"a\nb\"").replacen(&row(50_000, "plain"), "x\n", 1);
    place.write("in.csv", short.as_bytes());
    let by_last = ["sort", "--csv", "--by", "n", "in.csv", "-o", "last.csv"];
    let cause = "line 50003 has no key";
    place.run(&by_last).fails(4, &[cause], "correct the line");
    assert!(!place.names().contains(&"last.csv".to_string()));
}
