//! `tail`, and `head` of all but the last: compared with the GNU tools on lines, and with slices on
//! records and tables.
//!
//! Contract: without GNU head and tail the comparisons are skipped visibly.

use crate::support::*;

fn words_of(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn the_ends_of_lines_are_those_of_gnu_head_and_tail() {
    if !has_gnu(&["head", "tail"]) {
        return;
    }
    let place = TestDir::in_memory();
    let mut numbers = Numbers(5);
    let mut text = Vec::new();
    // The file is longer than one read from its end.
    for line in 0..3000 {
        text.extend_from_slice(format!("line {line}").as_bytes());
        if numbers.next().is_multiple_of(3) {
            text.resize(text.len() + (numbers.next() % 4000) as usize, b'x');
        }
        text.push(b'\n');
    }
    place.write("a", &text);
    place.write("b", b"\nlast but one\nlast\n");
    let both = [text, place.read("b")].concat();
    for words in [
        "head -n -5",
        "head -n -1",
        "head -n -0",
        "head -n -2999",
        "head -n -9000",
        "tail -n 5",
        "tail -n 0",
        "tail -n 1",
        "tail -n 900",
        "tail -n 9000",
        "tail -n +1",
        "tail -n +0",
        "tail -n +2998",
        "tail -n +9000",
        "tail -z -n 1",
        "head -z -n -1",
    ] {
        let wanted = by_gnu(&place, &format!("cat a b | {words}"));
        let of_files = place
            .run(&words_of(&format!("{words} --lines a b")))
            .ok()
            .stdout;
        let of_stream = place
            .run_with_input(&words_of(&format!("{words} --lines")), &both)
            .ok()
            .stdout;
        if words.contains("-z") {
            // A last line without its end gets one.
            assert_eq!(
                of_stream.strip_suffix(b"\0").unwrap_or(&of_stream),
                wanted,
                "{words}"
            );
            continue;
        }
        assert!(of_files == wanted, "{words} of files");
        assert!(of_stream == wanted, "{words} of a stream");
    }
}

#[test]
fn the_ends_of_csv_records_and_tables_are_whole_and_under_their_header() {
    let place = TestDir::in_memory();
    place.write("t.csv", b"a,b\n1,\"x\ny\"\n2,z\n3,\"v\nw\"\n");
    let run = |line: &str| place.run(&words_of(line)).ok().stdout;
    assert_eq!(run("tail -n 1 t.csv"), b"a,b\n3,\"v\nw\"\n");
    assert_eq!(run("tail -n +2 t.csv"), b"a,b\n2,z\n3,\"v\nw\"\n");
    assert_eq!(run("head -n -1 t.csv"), b"a,b\n1,\"x\ny\"\n2,z\n");
    run("tail -n 2 t.csv -o t.csv.gz");
    assert_eq!(run("tail -n 1 t.csv.gz"), b"a,b\n3,\"v\nw\"\n");
    let numbers: Vec<u8> = (0..100_u64).flat_map(u64::to_le_bytes).collect();
    place.write("n", &numbers);
    assert_eq!(run("tail -n 3 n --type u64"), numbers[97 * 8..]);
    assert_eq!(run("tail -n 3 n n --type u64"), numbers[97 * 8..]);
    assert_eq!(
        run("tail -n 150 n n --type u64"),
        [&numbers[50 * 8..], &numbers].concat()
    );
    assert_eq!(run("tail -n +99 n --type u64"), numbers[98 * 8..]);
    assert_eq!(run("head -n -98 n --type u64"), numbers[..2 * 8]);
    run("map x n --type u64 -o n.npy");
    run("tail -n 3 n.npy -o last.npy");
    assert_eq!(run("map x last.npy -o -"), numbers[97 * 8..]);
    run("convert t.csv -o t.parquet");
    assert_eq!(run("tail -n 1 t.parquet"), b"a,b\n3,\"v\nw\"\n");
    assert_eq!(run("head -n -2 t.parquet"), b"a,b\n1,\"x\ny\"\n");
    assert_eq!(run("tail -n -1 t.csv"), run("tail -n 1 t.csv"));
    run("tail -n +2 t.parquet -o rest.csv");
    assert_eq!(place.read("rest.csv"), b"a,b\n2,z\n3,\"v\nw\"\n");
}

#[test]
fn records_of_another_type_or_cut_short_are_an_error_before_anything_is_printed() {
    let place = TestDir::in_memory();
    let numbers: Vec<u8> = (0..10_u64).flat_map(u64::to_le_bytes).collect();
    place.write("n", &[&numbers[..], b"abc"].concat());
    place.write("whole", &numbers);
    place
        .run(&words_of("map u32(x) whole --type u64 -o n.npy"))
        .ok();
    for verb in [
        "head -n 2",
        "head -n -2",
        "tail -n 2",
        "tail -n +2",
        "sample -n 2",
        "sample --rate 0.5",
        "shuffle",
        "shuffle -n 2",
        "sort",
        "unique",
    ] {
        let run = |rest: &str| place.run(&words_of(&format!("{verb} {rest}")));
        let cause = "is not a multiple of the 8-byte record (u64): 3 bytes left over (n)";
        let cut = run("n --type u64").fails(2, &[cause], "the file is complete");
        assert_eq!(cut.stdout, b"", "{verb}");
        let other = run("n.npy --type u64");
        other.fails(2, &["its header says u32, not u64 (n.npy)"], "leave --type");
    }
}

#[test]
fn rows_with_lists_are_printed_as_json_lines() {
    let place = TestDir::in_memory();
    place.write(
        "t.jsonl",
        b"{\"id\":1,\"of\":[1,2]}\n{\"id\":2,\"of\":[]}\n",
    );
    let run = |line: &str| place.run(&words_of(line)).ok().stdout;
    run("convert t.jsonl -o t.parquet");
    let last = b"{\"id\":2,\"of\":[]}\n";
    assert_eq!(run("tail -n 1 t.parquet"), last);
    assert_eq!(run("head -n 1 t.parquet --by id:desc"), last);
    assert_eq!(run("sort t.parquet --by id"), place.read("t.jsonl"));
    assert_eq!(run("head -n 1 t.parquet --columns id"), b"id\n1\n");
    run("view build t.parquet --by id -o v");
    assert_eq!(run("view cat v"), place.read("t.jsonl"));
    let csv = place.run(&words_of("head t.parquet --to csv"));
    csv.fails(2, &["`of` is list"], "JSON lines");
}

#[test]
fn the_end_of_a_stream_that_memory_does_not_hold_is_an_error_with_the_way_out() {
    let place = TestDir::in_memory();
    let text = format!("{}\n", "x".repeat(1 << 20)).repeat(40);
    let words = ["tail", "-n", "39", "--memory", "16MiB"];
    place
        .run_with_input(&words, text.as_bytes())
        .fails(6, &["stream"], "to a file");
    place.write("in", text.as_bytes());
    let whole = place
        .run(&["tail", "-n", "39", "in", "--memory", "16MiB"])
        .ok();
    assert!(whole.stdout == text.as_bytes()[(1 << 20) + 1..]);
}

#[test]
fn a_share_or_a_number_is_drawn_with_and_without_replacement() {
    let place = TestDir::in_memory();
    let numbers: Vec<u8> = (0..5_000_u64).flat_map(u64::to_le_bytes).collect();
    place.write("n", &numbers);
    let text: String = (0..5_000).map(|line| format!("{line}\n")).collect();
    place.write("t.txt", text.as_bytes());
    place.write("t.csv", format!("a\n{text}").as_bytes());
    place.run(&["convert", "t.csv", "-o", "t.parquet"]).ok();
    let lines = |line: &str| -> Vec<u64> {
        let text = place.run(&words_of(line)).ok().text();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let records = |line: &str| -> Vec<u64> {
        let bytes = place.run(&words_of(line)).ok().stdout;
        bytes.chunks_exact(8).map(u64_of).collect()
    };
    let of_table = |line: &str| {
        place
            .run(&words_of(&format!("{line} -o out.csv --force")))
            .ok();
        let text = String::from_utf8(place.read("out.csv")).unwrap();
        text.lines()
            .filter_map(|line| line.parse().ok())
            .collect::<Vec<u64>>()
    };
    for share in [
        lines("sample --rate 0.1 t.txt"),
        lines("sample --rate 0.1 t.csv"),
        records("sample --rate 0.1 n --type u64"),
        of_table("sample --rate 0.1 t.parquet"),
    ] {
        // Ten standard deviations.
        assert!((290..710).contains(&share.len()), "{}", share.len());
        assert!(share.windows(2).all(|pair| pair[0] < pair[1]));
    }
    assert_eq!(lines("sample --rate 1 t.txt").len(), 5_000);
    assert_eq!(lines("sample --rate 0 t.txt").len(), 0);
    // The header of an array has the number of rows that were drawn.
    for rate in ["0.1", "1", "0"] {
        let drawn = [
            "sample", "--rate", rate, "n", "--type", "u64", "-o", "r.npy", "--force",
        ];
        place.run(&drawn).ok();
        let drawn = place.run(&["map", "x", "r.npy", "-o", "r.bin", "--force"]);
        drawn.ok();
        let wanted = place
            .run(&["sample", "--rate", rate, "n", "--type", "u64"])
            .ok()
            .stdout;
        assert!(place.read("r.bin") == wanted, "{rate}");
    }
    for drawn in [
        lines("sample -n 20000 --with-replacement t.txt"),
        lines("sample -n 20000 --with-replacement t.csv"),
        records("sample -n 20000 --with-replacement n --type u64"),
        of_table("sample -n 20000 --with-replacement t.parquet"),
    ] {
        assert!(drawn.is_sorted());
        let mut different = drawn.clone();
        different.dedup();
        // 5000 (1 - exp(-4)) are expected.
        assert!(
            (4_800..5_000).contains(&different.len()),
            "{}",
            different.len()
        );
        assert_eq!(drawn.len(), 20_000);
    }
    for shuffled in [
        lines("shuffle -n 100 t.txt"),
        lines("shuffle -n 100 t.csv"),
        records("shuffle -n 100 n --type u64"),
        of_table("shuffle -n 100 t.parquet"),
    ] {
        let different: std::collections::HashSet<u64> = shuffled.iter().copied().collect();
        assert_eq!((shuffled.len(), different.len()), (100, 100));
        assert!(!shuffled.is_sorted());
    }
    let words = ["sample", "-n", "5", "--with-replacement"];
    place
        .run_with_input(&words, b"a\n")
        .fails(2, &["stream"], "to a file");
    place
        .run(&["sample", "--rate", "2", "t.txt"])
        .fails(2, &["2"], "between 0 and 1");
}
