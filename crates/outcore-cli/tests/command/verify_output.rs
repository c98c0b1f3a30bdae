//! `--verify-output`: a flipped bit in the written output is an error that names the output. There
//! is no output.
//!
//! Contract: a bit of the write with the number in `OUTCORE_FAULT` is flipped, for growing numbers
//! until the end of a small job. The checksums of scratch find a flipped bit of scratch.

use crate::support::*;

/// The ends of all runs with a flipped bit.
#[derive(Debug, Default)]
struct Ends {
    scratch: u32,
    output: u32,
    right: u32,
}

/// Flips a bit in each write of a job in this directory, one write per run.
#[track_caller]
fn walk(place: &TestDir, line: &str, output: &str) -> Ends {
    walk_with(place, line, output, |whole, written| {
        assert!(whole == written, "{line}");
    })
}

/// The same; `compare` checks an output that appears against that of a run without a fault.
#[track_caller]
fn walk_with(place: &TestDir, line: &str, output: &str, compare: impl Fn(&[u8], &[u8])) -> Ends {
    let words = format!("{line} -o {output} --drive . --threads 1 --verify-output");
    let words: Vec<&str> = words.split(' ').collect();
    let before = place.names();
    place.run(&words).ok();
    let whole = place.read(output);
    std::fs::remove_file(place.path(output)).unwrap();
    let mut ends = Ends::default();
    let mut nth = 1_u64;
    while ends.right < 2 {
        let mut command = place.command(&words);
        command.env("OUTCORE_FAULT", format!("flip@{nth}:write"));
        let answer = Answer::of(command.output().unwrap());
        match answer.code {
            Some(0) => {
                ends.right += 1;
                compare(&whole, &place.read(output));
                std::fs::remove_file(place.path(output)).unwrap();
            }
            _ if answer.stderr.contains("read scratch") => {
                ends.scratch += 1;
                answer.fails(4, &["checksum"], "");
            }
            _ => {
                ends.output += 1;
                answer.fails(
                    4,
                    &["verify output", "differs", output],
                    "nothing was published",
                );
            }
        }
        assert_eq!(place.names(), before, "{line}: flip@{nth}");
        nth += 1 + nth / 9;
    }
    println!("{line}: {ends:?}");
    ends
}

fn number_place() -> TestDir {
    let place = TestDir::in_memory();
    place.write("in", &random_u64(200_000, 41));
    place
}

#[test]
fn a_flipped_bit_of_sorted_or_shuffled_records_is_found_and_named() {
    let place = number_place();
    for line in [
        "sort in --type u64 --memory 64MiB",
        "sort in --type f64 --descending --memory 64MiB",
        "sort in --record 8 --key 0:2 --stable --memory 64MiB",
        "unique in --type u64 --memory 64MiB",
        "unique in --record 8 --key 0:2 --memory 64MiB",
        "shuffle in --type u64 --memory 64MiB",
        "shuffle in --record 16 --memory 64MiB",
    ] {
        assert!(walk(&place, line, "out").output > 0, "{line}");
    }
    place.write("in", &random_u64(700_000, 42));
    let ends = walk(&place, "sort in --type u64 --memory 4MiB", "out");
    assert!(ends.scratch > 3, "{ends:?}");
}

#[test]
fn a_flipped_bit_of_lines_is_found_and_named() {
    let place = TestDir::in_memory();
    let mut numbers = Numbers(5);
    let lines = (0..60_000).map(|line| format!("{} x{line}\n", numbers.next() % 40_000));
    place.write("in", lines.collect::<String>().as_bytes());
    for line in [
        "sort in --memory 64MiB",
        "sort in -n -r --memory 64MiB",
        "sort in -u -k 1,1 --memory 64MiB",
        "sort in -R --seed 3 --memory 64MiB",
        "unique in --memory 64MiB",
        "unique in -w 3 -d --memory 64MiB",
        "shuffle in --memory 64MiB",
    ] {
        assert!(walk(&place, line, "out").output > 0, "{line}");
    }
    let lines = (0..250_000).map(|_| format!("{}\n", numbers.next() >> 20));
    place.write("in", lines.collect::<String>().as_bytes());
    let ends = walk(&place, "sort in --memory 4MiB", "out");
    assert!(ends.scratch > 3, "{ends:?}");
}

#[test]
fn a_flipped_bit_of_rows_of_text_or_of_their_header_is_found_and_named() {
    let place = TestDir::in_memory();
    let mut numbers = Numbers(6);
    let rows: Vec<(u64, u64)> = (0..30_000)
        .map(|row| (numbers.next() % 20_000, row))
        .collect();
    let csv = rows.iter().map(|(key, row)| format!("{key},x{row}\n"));
    place.write(
        "in.csv",
        format!("k,v\n{}", csv.collect::<String>()).as_bytes(),
    );
    let json = rows
        .iter()
        .map(|(key, row)| format!("{{\"k\":{key},\"v\":{row}}}\n\n"));
    place.write("in.jsonl", json.collect::<String>().as_bytes());
    for (line, output) in [
        ("sort in.csv --csv --by k --memory 64MiB", "out.csv"),
        ("unique in.csv --csv --by k --memory 64MiB", "out.csv"),
        ("shuffle in.csv --csv --memory 64MiB", "out.csv"),
        ("sort in.jsonl --jsonl --by k --memory 64MiB", "out.jsonl"),
        ("unique in.jsonl --jsonl --memory 64MiB", "out.jsonl"),
        ("shuffle in.jsonl --jsonl --memory 64MiB", "out.jsonl"),
    ] {
        assert!(walk(&place, line, output).output > 0, "{line}");
    }
}

/// Checks that a table that appeared has the rows of the input. Padding and statistics may differ.
#[track_caller]
fn is_same_table(place: &TestDir, line: &str, output: &str) {
    let source = line.split(' ').nth(1).unwrap();
    let words = ["verify", output, "--against", source];
    let answer = place.run(&words);
    assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
}

#[test]
fn a_flipped_bit_of_a_table_is_found_and_named() {
    let place = TestDir::in_memory();
    let mut numbers = Numbers(8);
    let rows = (0..60_000).map(|row| {
        let drawn = numbers.next();
        let text = ["", "x", "some text", "y, z"][(drawn % 4) as usize];
        format!(
            "{},{row},\"{text}\",{}\n",
            drawn % 5000,
            (drawn % 977) as f64 / 7.0
        )
    });
    let csv = format!("k,row,text,real\n{}", rows.collect::<String>());
    place.write("in.csv", csv.as_bytes());
    let convert = [
        "convert",
        "in.csv",
        "-o",
        "in.parquet",
        "--group-rows",
        "9000",
    ];
    place.run(&convert).ok();
    place.run(&["convert", "in.csv", "-o", "in.arrow"]).ok();
    let mut found = Ends::default();
    for (line, output) in [
        (
            "sort in.parquet --by k --by text:desc --memory 64MiB",
            "out.parquet",
        ),
        (
            "sort in.csv --by real --stable --memory 64MiB",
            "out.parquet",
        ),
        (
            "sort in.parquet --by text:nulls-first --memory 64MiB",
            "out.arrow",
        ),
        ("sort in.parquet -r --memory 64MiB", "out.parquet"),
        ("shuffle in.arrow --memory 64MiB", "out.parquet"),
        ("unique in.parquet --by row --memory 64MiB", "out.parquet"),
        ("shuffle in.parquet --by k --memory 64MiB", "out.arrow"),
    ] {
        let ends = walk_with(&place, line, output, |_, _| {
            is_same_table(&place, line, output)
        });
        found.output += ends.output;
        found.scratch += ends.scratch;
    }
    assert!(found.output > 3 && found.scratch > 3, "{found:?}");
}

#[test]
fn arrays_and_shards_are_verified_with_their_headers() {
    let place = number_place();
    let header = "{'descr': '<u8', 'fortran_order': False, 'shape': (200000,), }";
    let header = format!("{header:<117}\n");
    let magic = b"\x93NUMPY\x01\x00\x76\x00";
    let npy = [magic, header.as_bytes(), &place.read("in")].concat();
    place.write("in.npy", &npy);
    assert!(walk(&place, "sort in.npy --memory 64MiB", "out.npy").output > 1);
    assert!(walk(&place, "shuffle in.npy --memory 64MiB", "out.npy").output > 1);
    place.make_dir("a");
    place.make_dir("b");
    let line = "sort in --type u64 -o {drive}/out --drive a --drive b --verify-output --threads 1";
    let words: Vec<&str> = line.split(' ').collect();
    place.run(&words).ok();
    let parts = [place.read("a/out"), place.read("b/out")];
    assert!(parts.concat() == sorted_u64(&place.read("in")));
    for name in ["a/out", "b/out", "out.outcore.json"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    let mut found = 0;
    for nth in 1..=4 {
        let mut command = place.command(&[&words[..], &["--force"]].concat());
        command.env("OUTCORE_FAULT", format!("flip@{nth}:write"));
        let answer = Answer::of(command.output().unwrap());
        found += u32::from(answer.code == Some(4));
    }
    assert!(found > 1, "{found}");
}

#[test]
fn what_cannot_be_verified_rejects_the_option() {
    let place = number_place();
    place.write("lines", b"b\na\n");
    place.write("span.csv", b"a,b\n\"x\ny\",2\n1,2\n");
    place.write("t.csv", b"a,b\n2,x\n1,y\n");
    for (line, cause) in [
        (
            "sort lines --verify-output",
            "only an output that is a file",
        ),
        (
            "sort lines -o - --verify-output",
            "only an output that is a file",
        ),
        (
            "sort in --type u64 -o - --verify-output",
            "only an output that is a file",
        ),
        (
            "shuffle in --type u64 --verify-output",
            "only an output that is a file",
        ),
        (
            "unique lines --verify-output",
            "only an output that is a file",
        ),
        (
            "sort - -o out --type u64 --verify-output",
            "a stream is copied",
        ),
        (
            "sort lines -o out.gz --verify-output",
            "a compressed output",
        ),
        (
            "sort lines -m -o out --verify-output",
            "the output of a merge",
        ),
        (
            "sort span.csv --csv --by a -o out.csv --verify-output",
            "span lines",
        ),
        (
            "sort t.csv -o out.csv --by a --verify-output",
            "only Parquet and Arrow",
        ),
        (
            "sort t.csv -o parts --parts 2 --by a --verify-output",
            "only an output that is a file",
        ),
        (
            "sort t.csv --by a --verify-output",
            "only an output that is a file",
        ),
        (
            "sort lines -o out --resume --verify-output",
            "cannot be used with",
        ),
        (
            "unique lines -c -o out --verify-output",
            "cannot be used with",
        ),
        (
            "shuffle lines -n 1 -o out --verify-output",
            "cannot be used with",
        ),
        (
            "shuffle in --record 1600000 -o out --verify-output",
            "1600000 bytes",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = place.run(&words);
        assert_eq!(answer.code, Some(2), "{line}: {answer:?}");
        assert!(answer.stderr.contains(cause), "{line}: {answer:?}");
    }
    assert_eq!(place.names(), ["in", "lines", "span.csv", "t.csv"]);
}

#[test]
fn one_long_line_among_short_ones_is_verified() {
    let place = TestDir::in_memory();
    let long = "z".repeat(3 << 20);
    let mut lines: Vec<String> = (0..20_000).map(|line| format!("{line}\n")).collect();
    lines.push(format!("{long}\n"));
    place.write("in", lines.concat().as_bytes());
    let words = "sort in -o out --memory 32MiB --verify-output --threads 2";
    place.run(&words.split(' ').collect::<Vec<_>>()).ok();
    lines.sort_unstable();
    assert!(place.read("out") == lines.concat().as_bytes());
}

#[test]
fn a_directory_above_the_output_adds_no_column_to_what_is_read_back() {
    let place = TestDir::in_memory();
    place.write("in.csv", b"k,v\n2,b\n1,a\n");
    place.run(&["convert", "in.csv", "-o", "in.parquet"]).ok();
    place.make_dir("year=2024");
    let words = ["sort", "in.parquet", "--by", "k", "--verify-output", "-o"];
    place
        .run(&[&words[..], &["year=2024/out.parquet"]].concat())
        .ok();
    place.run(&[&words[..], &["out.parquet"]].concat()).ok();
    assert_eq!(
        place.read("year=2024/out.parquet"),
        place.read("out.parquet")
    );
}
