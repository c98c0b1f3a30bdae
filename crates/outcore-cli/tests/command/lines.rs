//! Lines: `outcore sort` in the place of GNU `sort`, byte for byte; the other commands on lines.
//!
//! Contract: the tests of `outcore-front`, which defines the orders, compare them with GNU `sort`
//! in depth. Here, some dozens of command lines are compared. Without GNU sort, the tests skip them
//! visibly.

use std::process::{Command, Stdio};

use crate::support::*;

/// The output of GNU sort with these arguments in this directory; `None` if it fails.
fn of_gnu_sort(place: &TestDir, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    place.write("gnu-in", input);
    let output = Command::new("sort")
        .args(arguments)
        .env("LC_ALL", "C")
        .current_dir(place.dir())
        .stdin(std::fs::File::open(place.path("gnu-in")).unwrap())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    output.status.success().then_some(output.stdout)
}

const PEOPLE: &[u8] = b"bob,23,1.5K,mar\namy,9,2M,jan\ncat,100,900,Dec\nbob,9,1G,feb\nAmy,-3,0,x\n\n,,,\neve,23,1.5K,mar";

#[test]
fn the_command_lines_of_gnu_sort_give_its_output() {
    if !has_gnu(&["sort"]) {
        return;
    }
    let place = TestDir::in_memory();
    place.write("a", PEOPLE);
    place.write("b", b"10 x\n9 y\n\n9 a\r\n100");
    place.write("names", b"a\0b\0");
    let cases: &[&[&str]] = &[
        &[],
        &["-"],
        &["a"],
        &["a", "b"],
        &["a", "-", "b"],
        &["-t,", "-k2,2n", "a"],
        &["-t", ",", "-k", "2,2n", "-k1,1r", "a"],
        &["--field-separator=,", "--key=2,2n", "a"],
        &["a", "-t,", "-k2n", "-s"],
        &["-t,", "-k3,3h", "a"],
        &["-t,", "-k4,4M", "-r", "a"],
        &["-t,", "-nk2,2", "-u", "a"],
        &["-fu", "-t,", "-k1,1", "a"],
        &["-rn", "b"],
        &["-rnu", "b"],
        &["-n", "-n", "-r", "b"],
        &["--reverse", "--numeric-sort", "--stable", "b"],
        &["--sort=version", "a"],
        &["--sort=human-numeric", "a"],
        &["-V", "b"],
        &["-g", "b"],
        &["-b", "-d", "-f", "-i", "a"],
        &["-z", "names"],
        &["-z", "-r", "names"],
        &["--files0-from=names"],
        &["+1", "-2", "-t,", "a"],
        &["-t,", "+1n", "a"],
        &["-S", "1M", "-T", ".", "--parallel=2", "--batch-size=4", "a"],
        &["-c", "b"],
        &["-C", "b"],
        &["-t\\0", "-k1,1", "names"],
        &["--", "a"],
        &["-k0", "a"],
        &["-nM", "a"],
        &["-t", "ab", "a"],
        &["missing"],
    ];
    for arguments in cases {
        let wanted = of_gnu_sort(&place, arguments, PEOPLE);
        let ours = [&["sort"], *arguments].concat();
        let answer = place.run_with_input(&ours, PEOPLE);
        match wanted {
            Some(wanted) => {
                let answer = answer.ok();
                assert!(
                    answer.stdout == wanted,
                    "{arguments:?}: {:?}",
                    String::from_utf8_lossy(&answer.stdout)
                );
                assert_eq!(answer.stderr, "", "{arguments:?}");
            }
            None => assert_ne!(answer.code, Some(0), "{arguments:?}"),
        }
    }
}

#[test]
fn an_input_can_be_sorted_onto_itself_and_nothing_is_left_behind() {
    let place = TestDir::new();
    place.write("in", b"b\na\nc");
    place.run(&["sort", "in", "-o", "in"]).ok();
    assert_eq!(place.read("in"), b"a\nb\nc\n");
    place.write("out", b"old");
    place.run(&["sort", "-r", "-o", "out", "in"]).ok();
    assert_eq!(place.read("out"), b"c\nb\na\n");
    assert_eq!(place.names(), ["in", "out"]);
}

#[test]
fn disorder_is_told_in_the_words_of_sort() {
    let place = TestDir::new();
    place.write("in", b"a\nc\nb\n");
    place.write("same", b"a\na\n");
    let answer = place.run(&["sort", "-c", "in"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("in:3: disorder: b"), "{answer:?}");
    let quiet = place.run(&["sort", "--check=quiet", "in"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(1), ""));
    assert_eq!(place.run(&["sort", "-C", "in"]).code, Some(1));
    assert_eq!(place.run(&["sort", "-m", "-c", "in"]).stderr, answer.stderr);
    place.run(&["sort", "-c", "same"]).ok();
    assert_eq!(place.run(&["sort", "-cu", "same"]).code, Some(1));
    let piped = place.run_with_input(&["sort", "-c"], b"b\na\n");
    assert!(piped.stderr.contains("-:2: disorder: a"), "{piped:?}");
}

#[test]
fn sorted_files_are_merged_and_equal_keys_stay_in_the_order_of_the_files() {
    let place = TestDir::new();
    place.write("a", b"1 a\n3 a\n");
    place.write("b", b"1 b\n2 b\n3 b");
    let merged = place.run(&["sort", "-m", "-s", "-k1,1n", "a", "b"]).ok();
    assert_eq!(merged.stdout, b"1 a\n1 b\n2 b\n3 a\n3 b\n");
    let merged = place.run(&["sort", "-m", "-u", "-k1,1n", "b", "a"]).ok();
    assert_eq!(merged.stdout, b"1 b\n2 b\n3 b\n");
}

#[test]
fn compressed_files_go_in_and_out_and_torn_ones_are_named() {
    let place = TestDir::new();
    for (name, tool) in [
        ("x.gz", "gzip"),
        ("x.zst", "zstd"),
        ("x.bz2", "bzip2"),
        ("x.xz", "xz"),
    ] {
        place.write("in", b"b\na\nc\n");
        place.run(&["sort", "-r", "in", "-o", name]).ok();
        let packed = place.read(name);
        assert_ne!(packed, b"c\nb\na\n");
        let unpacked = place.run(&["sort", name]).ok();
        assert_eq!(unpacked.stdout, b"a\nb\nc\n");
        let by_tool = Command::new(tool)
            .args(["-dc", name])
            .current_dir(place.dir())
            .output();
        match by_tool {
            Ok(by_tool) if by_tool.status.success() => assert_eq!(by_tool.stdout, b"c\nb\na\n"),
            _ => println!("SKIP: there is no {tool} to read what was written"),
        }
        place.write(&format!("torn-{name}"), &packed[..packed.len() - 3]);
        let answer = place.run(&["sort", &format!("torn-{name}"), "-o", "none"]);
        answer.fails(4, &["ends in the middle", &format!("torn-{name}")], "copy");
    }
    assert_eq!(place.names().len(), 1 + 2 * 4);
}

#[test]
fn unique_is_sort_u_and_counts_are_those_of_uniq() {
    let place = TestDir::new();
    place.write("in", b"b\na\nb\n\nb\na");
    let unique = place.run(&["unique", "in"]).ok();
    assert_eq!(unique.stdout, b"\na\nb\n");
    let counted = place.run(&["unique", "--count", "in"]).ok();
    assert_eq!(counted.stdout, b"      1 \n      2 a\n      3 b\n");
    let keyed = place
        .run_with_input(&["unique", "-t,", "-k1,1"], b"x,2\nx,1\na,9\n")
        .ok();
    assert_eq!(keyed.stdout, b"a,9\nx,2\n");
    let numbers = random_u64(100, 3);
    place.write("numbers", &[&numbers[..], &numbers[..]].concat());
    place
        .run(&["unique", "numbers", "--type", "u64", "-o", "out"])
        .ok();
    assert_eq!(place.read("out"), sorted_u64(&numbers));
    let both = ["unique", "numbers", "--type", "u64", "-k1,1", "-o", "no"];
    place.run(&both).fails(2, &["type", "lines"], "--type");
}

#[test]
fn parts_are_whole_lines_and_together_the_input() {
    let place = TestDir::new();
    let text: String = (0..1000)
        .map(|line| format!("{}\n", "x".repeat(line % 37)))
        .collect();
    place.write("in", text.as_bytes());
    place
        .run(&["split", "in", "-n", "7", "-o", "part-{part}.txt"])
        .ok();
    let parts: Vec<Vec<u8>> = (0..7)
        .map(|part| place.read(&format!("part-{part:02}.txt")))
        .collect();
    assert!(parts.concat() == text.as_bytes());
    for part in &parts {
        assert!(part.ends_with(b"\n"));
        assert!(part.len().abs_diff(text.len() / 7) < 100, "{}", part.len());
    }
    place
        .run(&["split", "in", "--by-lines", "400", "-o", "by-{part}"])
        .ok();
    let lines = |name: &str| {
        place
            .read(name)
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    };
    assert_eq!(
        [lines("by-00"), lines("by-01"), lines("by-02")],
        [400, 400, 200]
    );
    let again = ["split", "in", "-n", "7", "-o", "part-{part}.txt"];
    place
        .run(&again)
        .fails(2, &["exists", "part-00.txt"], "--force");
    place
        .run(&["split", "in", "-n", "2", "-o", "same"])
        .fails(2, &["same"], "{part}");
    // More parts than lines: some are empty.
    place.write("few", b"a\nb");
    place
        .run(&["split", "few", "-n", "3", "-o", "few-{part}"])
        .ok();
    assert_eq!(
        [
            place.read("few-00"),
            place.read("few-01"),
            place.read("few-02")
        ]
        .concat(),
        b"a\nb\n"
    );
    assert_eq!(place.names().len(), 7 + 3 + 2 + 3);
}

#[test]
fn head_and_sample_take_some_in_the_order_of_the_input() {
    let place = TestDir::new();
    let text: String = (0..5000).map(|line| format!("{line}\n")).collect();
    place.write("in", text.as_bytes());
    let head = place.run(&["head", "-n", "3", "in", "in"]).ok();
    assert_eq!(head.stdout, b"0\n1\n2\n");
    let all = place.run_with_input(&["head", "-n", "9"], b"a\nb").ok();
    assert_eq!(all.stdout, b"a\nb\n");
    let sample = ["sample", "-n", "100", "in", "--seed", "5"];
    let first = place.run(&sample).ok().stdout;
    let numbers: Vec<u32> = String::from_utf8(first.clone())
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(numbers.len(), 100);
    assert!(numbers.is_sorted());
    let mean = numbers.iter().sum::<u32>() / 100;
    // The bound is eight standard deviations of the mean of this many numbers.
    assert!(mean.abs_diff(2500) < 1155, "{mean}");
    assert_eq!(place.run(&sample).ok().stdout, first);
    assert_ne!(place.run(&["sample", "-n", "100", "in"]).ok().stdout, first);
    let few = place.run_with_input(&["sample", "-n", "9"], b"a\nb").ok();
    assert_eq!(few.stdout, b"a\nb\n");
    let values = random_u64(100, 3);
    place.write("numbers", &values);
    let head = place
        .run(&["head", "-n", "2", "--type", "u64", "numbers"])
        .ok();
    assert_eq!(head.stdout, values[..16]);
    place.write("odd", &values[..15]);
    place.run(&["head", "--type", "u64", "odd"]).fails(
        2,
        &["7 bytes left over", "(odd)"],
        "complete",
    );
}

#[test]
fn a_shuffle_is_a_permutation_that_its_seed_repeats() {
    let place = TestDir::new();
    let text: String = (0..5000).map(|line| format!("line {line}\n")).collect();
    place.write("in", text.trim_end().as_bytes());
    let shuffled = |flags: &[&str]| {
        let answer = place.run(&[&["shuffle", "in"], flags].concat()).ok();
        String::from_utf8(answer.stdout).unwrap()
    };
    let first = shuffled(&[]);
    let mut lines: Vec<&str> = first.lines().collect();
    assert_ne!(lines, text.lines().collect::<Vec<_>>());
    lines.sort_unstable();
    let mut wanted: Vec<&str> = text.lines().collect();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    assert_eq!(shuffled(&["--threads", "1", "--memory", "64MiB"]), first);
    assert_ne!(shuffled(&["--seed", "2"]), first);
    assert_ne!(shuffled(&["--epoch", "1"]), first);
    let values = random_u64(1000, 3);
    place.write("numbers", &values);
    place
        .run(&["shuffle", "numbers", "--type", "u64", "-o", "out"])
        .ok();
    assert_ne!(place.read("out"), values);
    assert_eq!(sorted_u64(&place.read("out")), sorted_u64(&values));
}

#[test]
fn a_shuffle_takes_the_place_of_its_input_only_where_that_is_asked_for() {
    let place = TestDir::new();
    let values = random_u64(1000, 5);
    let lines: String = (0..500).map(|line| format!("{line}\n")).collect();
    place.write("numbers", &values);
    place.write("lines", lines.as_bytes());
    place.write("other", b"old");
    for (name, more) in [("numbers", &["--record", "8"][..]), ("lines", &[])] {
        let before = place.read(name);
        let shuffle = |flags: &[&str]| place.run(&[&["shuffle", name], more, flags].concat());
        for force in [&[][..], &["--force"]] {
            let rejected = shuffle(&[&["-o", name], force].concat());
            rejected.fails(2, &["one of the inputs", name], "another name");
        }
        // `--replace` permits replacing an input, but no other file.
        shuffle(&["-o", "other", "--replace"]).fails(2, &["exists", "other"], "--force");
        assert_eq!(place.read(name), before);
        shuffle(&["-o", name, "--replace"]).ok();
        assert_ne!(place.read(name), before);
        assert_eq!(place.read(name).len(), before.len());
    }
    assert_eq!(sorted_u64(&place.read("numbers")), sorted_u64(&values));
    assert_eq!(place.read("other"), b"old");
}

#[test]
fn parts_take_the_place_of_all_old_ones_or_of_none_and_never_of_an_input() {
    let place = TestDir::new();
    place.write("in", b"1\n2\n3\n");
    place.write("part-00", b"old");
    std::fs::create_dir(place.path("part-01")).unwrap();
    let split = ["split", "in", "--force", "-o", "part-{part}"];
    for how in [["-n", "3"], ["--by-lines", "1"]] {
        let refused = place.run(&[&split[..], &how].concat());
        refused.fails(2, &["directory", "part-01"], "another name");
        assert_eq!(place.names(), ["in", "part-00", "part-01"]);
        assert_eq!(place.read("part-00"), b"old");
    }
    place.write("own-01", b"1\n2\n3\n");
    std::fs::hard_link(place.path("own-01"), place.path("own-02")).unwrap();
    let own = place.run(&["split", "own-01", "--force", "-n", "3", "-o", "own-{part}"]);
    own.fails(2, &["input", "own-01"], "another name");
    assert_eq!(place.read("own-02"), b"1\n2\n3\n");
}

/// A run succeeds, or its plan rejects it before anything is read and names enough memory.
fn runs_or_names_the_memory(place: &TestDir, arguments: &[&str], memory: &str) -> bool {
    let run = |memory: &str| place.run(&[arguments, &["--memory", memory]].concat());
    let answer = run(memory);
    if answer.code == Some(0) {
        return true;
    }
    let said = &answer.stderr;
    assert_eq!(answer.code, Some(6), "{arguments:?} {memory}: {said}");
    let is_plan = said.contains("error: plan ") || said.contains("reserve memory for output");
    assert!(is_plan, "{arguments:?} {memory}: {said}");
    if let Some(enough) = said.split("at least --memory ").nth(1) {
        let enough = enough.split_whitespace().next().unwrap();
        run(enough).ok();
    }
    false
}

#[test]
fn csv_in_little_memory_is_sorted_or_refused_by_its_plan() {
    let place = TestDir::new();
    let mut csv = b"a,b\n".to_vec();
    for i in 0..180_000_u64 {
        let a = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        csv.extend_from_slice(format!("{a},{}\n", i % 977).as_bytes());
    }
    place.write("in.csv", &csv);
    let body = csv.split_inclusive(|&byte| byte == b'\n').skip(1);
    let mut lines: Vec<&[u8]> = body.collect();
    let column = |line: &[u8]| line.split(|&byte| byte == b',').next().unwrap().to_vec();
    lines.sort_by(|a, b| column(a).cmp(&column(b)).then_with(|| a.cmp(b)));
    let expected = [b"a,b\n", &lines.concat()[..]].concat();
    let mut sorted = 0;
    for threads in ["1", "2", "4"] {
        for memory in ["8MiB", "10MiB", "12MiB", "14MiB", "16MiB"] {
            let arguments = [
                "sort",
                "--csv",
                "--by",
                "a",
                "in.csv",
                "-o",
                "out.csv",
                "--force",
                "--threads",
                threads,
            ];
            if runs_or_names_the_memory(&place, &arguments, memory) {
                sorted += 1;
                assert!(place.read("out.csv") == expected, "{threads} {memory}");
            }
        }
    }
    assert!(sorted >= 9, "{sorted}");
}

#[test]
fn csv_is_sorted_by_columns_with_its_header_first() {
    let place = TestDir::new();
    place.write(
        "in.csv",
        b"name,\"the price\"\r\n\"b\",10\r\n\"a\nb, c\",9\r\nc,100",
    );
    let sorted = place
        .run(&["sort", "--csv", "--by", "the price:n", "in.csv"])
        .ok();
    assert_eq!(
        sorted.stdout,
        b"name,\"the price\"\r\n\"a\nb, c\",9\r\n\"b\",10\r\nc,100\r\n"
    );
    let sorted = place
        .run(&[
            "sort", "--csv", "--by", "2", "-r", "in.csv", "-o", "out.csv",
        ])
        .ok();
    assert_eq!(sorted.stdout, b"");
    assert_eq!(
        place.read("out.csv"),
        b"name,\"the price\"\r\n\"a\nb, c\",9\r\nc,100\r\n\"b\",10\r\n"
    );
    place.write("plain.csv", b"k;v\n2;b\n1;a\n");
    let sorted = place
        .run(&[
            "sort",
            "--csv",
            "-t;",
            "--by",
            "k",
            "plain.csv",
            "plain.csv",
            "-o",
            "both.csv",
        ])
        .ok();
    assert_eq!(sorted.stderr, "");
    assert_eq!(place.read("both.csv"), b"k;v\n1;a\n1;a\n2;b\n2;b\n");
    let bare = place
        .run(&[
            "sort",
            "--csv",
            "--no-header",
            "-t;",
            "--by",
            "1:r",
            "plain.csv",
        ])
        .ok();
    assert_eq!(bare.stdout, b"k;v\n2;b\n1;a\n");
    place.write("torn.csv", b"k,v\n1,a\n2,\"b\n3,c\n");
    let torn = place.run(&["sort", "--csv", "--by", "k", "torn.csv", "-o", "no"]);
    torn.fails(4, &["line 3", "quote", "torn.csv"], "close");
    let none = place.run(&["sort", "--csv", "--by", "x", "in.csv", "-o", "no"]);
    none.fails(2, &["no column `x`"], "the price");
    place.write("short.csv", b"k,v\n1\n0,a\n");
    let short = place.run(&["sort", "--csv", "--by", "v", "short.csv", "-o", "no"]);
    assert_eq!(short.code, Some(4), "{short:?}");
    assert!(short.stderr.contains("short.csv"), "{short:?}");
    let skipped = place
        .run(&[
            "sort",
            "--csv",
            "--by",
            "v",
            "--on-error",
            "skip",
            "short.csv",
        ])
        .ok();
    assert_eq!(skipped.stdout, b"k,v\n0,a\n");
    assert!(skipped.stderr.contains("1 line "), "{skipped:?}");
}

#[test]
fn quotes_inside_fields_of_csv_are_bytes_and_headers_need_no_newline() {
    let place = TestDir::new();
    place.write("in.csv", b"id,size\n2,5\" disk\n1,6\" disk\n");
    place.write("empty.csv", b"");
    place.write("header.csv", b"id,size");
    let inputs = ["empty.csv", "in.csv", "header.csv"];
    let sorted = place.run(&[&["sort", "--csv", "--by", "id"], &inputs[..]].concat());
    assert_eq!(sorted.ok().stdout, b"id,size\n1,6\" disk\n2,5\" disk\n");
    place.write("inner.csv", b"id,size\n3,\"a\nb\"\n");
    let inputs = ["header.csv", "inner.csv", "in.csv"];
    let sorted = place.run(&[&["sort", "--csv", "--by", "id"], &inputs[..]].concat());
    let wanted = b"id,size\n1,6\" disk\n2,5\" disk\n3,\"a\nb\"\n";
    assert_eq!(sorted.ok().stdout, wanted);
    let both = place.run(&["sort", "--csv", "--by", "id", "-z", "in.csv"]);
    both.fails(2, &["-z"], "leave --zero-terminated");
}

#[test]
fn a_byte_order_mark_belongs_to_no_column_and_stays_in_front() {
    let place = TestDir::new();
    place.write("marked.csv", b"\xef\xbb\xbf\"id\",v\n2,b\n1,a\n");
    place.write("plain.csv", b"\"id\",v\n0,c\n");
    let sort = |more: &[&str]| place.run(&[&["sort", "--csv", "--by"], more].concat());
    let sorted = sort(&["id", "marked.csv", "plain.csv"]).ok();
    assert_eq!(sorted.stdout, b"\xef\xbb\xbf\"id\",v\n0,c\n1,a\n2,b\n");
    let sorted = sort(&["id", "plain.csv", "marked.csv"]).ok();
    assert_eq!(sorted.stdout, b"\"id\",v\n0,c\n1,a\n2,b\n");
    place.write("bare.csv", b"\xef\xbb\xbf2,\"b\nb\"\n1,a\n");
    let sorted = sort(&["1", "--no-header", "bare.csv"]).ok();
    assert_eq!(sorted.stdout, b"\xef\xbb\xbf1,a\n2,\"b\nb\"\n");
    place.write("empty.csv", b"\xef\xbb\xbf");
    place.write("inner.csv", b"id,v\n1,\"a\nb\"\n");
    let sorted = sort(&["id", "empty.csv", "plain.csv"]).ok();
    assert_eq!(sorted.stdout, b"\"id\",v\n0,c\n");
    let sorted = sort(&["id", "empty.csv", "inner.csv"]).ok();
    assert_eq!(sorted.stdout, b"id,v\n1,\"a\nb\"\n");
}

#[test]
fn errors_name_the_line_of_the_file_behind_headers_and_records_of_several_lines() {
    let place = TestDir::new();
    place.write("short.csv", b"id,n\n2,\"a\nb\"\n1,c\nshort\n");
    place.write("disorder.csv", b"id,n\n2,a\n1,b\n");
    place.write("inner.csv", b"id,n\n2,\"a\n\nb\"\n1,b\n");
    for how in [&["--by", "n"][..], &["--by", "n", "-m"]] {
        let failed = place.run(&[&["sort", "--csv", "short.csv"], how].concat());
        failed.fails(4, &["line 5", "short.csv"], "correct the line");
    }
    for (file, line) in [("disorder.csv", 3), ("inner.csv", 5)] {
        let checked = place.run(&["sort", "--csv", "--by", "id", "-c", file]);
        assert_eq!(checked.code, Some(1), "{checked:?}");
        let told = format!("{file}:{line}: disorder: 1,b");
        assert!(checked.stderr.contains(&told), "{checked:?}");
    }
}

#[test]
fn json_lines_are_sorted_by_a_field_and_those_without_it_named_or_counted() {
    let place = TestDir::new();
    let lines: [&[u8]; 4] = [
        b"{\"u\":{\"id\":10}}\n",
        b"{\"u\":{\"id\":9}}\n",
        b"{\"u\":{\"id\":\"9\"}}\n",
        b"{\"u\":{\"id\":null}}\n",
    ];
    place.write("in.jsonl", &lines.concat());
    let sorted = place
        .run(&["sort", "--jsonl", "--by", ".u.id", "in.jsonl"])
        .ok();
    assert_eq!(
        sorted.stdout,
        [lines[3], lines[1], lines[0], lines[2]].concat()
    );
    let sorted = place
        .run(&["sort", "--jsonl", "--by", ".u.id", "-r", "in.jsonl"])
        .ok();
    assert_eq!(
        sorted.stdout,
        [lines[2], lines[0], lines[1], lines[3]].concat()
    );
    place.write(
        "odd.jsonl",
        &[lines[0], b"{}\n", b"nonsense\n", lines[1]].concat(),
    );
    let failed = place.run(&["sort", "--jsonl", "--by", ".u.id", "odd.jsonl", "-o", "no"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(
        failed.stderr.contains("line 2") && failed.stderr.contains("odd.jsonl"),
        "{failed:?}"
    );
    let skipped = place
        .run(&[
            "sort",
            "--jsonl",
            "--by",
            ".u.id",
            "--on-error=skip",
            "odd.jsonl",
        ])
        .ok();
    assert_eq!(skipped.stdout, [lines[1], lines[0]].concat());
    assert!(skipped.stderr.contains("2 lines"), "{skipped:?}");
}

#[test]
fn more_files_than_may_be_open_at_first_are_sorted_and_merged() {
    let place = TestDir::new();
    let names: Vec<String> = (0..200).map(|number| format!("in-{number:03}")).collect();
    for name in &names {
        place.write(name, format!("{name}\n").as_bytes());
    }
    place.write("names", names.join("\0").as_bytes());
    for how in ["", "-m"] {
        let limited = format!("ulimit -Sn 100; exec \"$0\" sort {how} --files0-from=- < names");
        let sorted = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_outcore")])
            .current_dir(place.dir())
            .env("OUTCORE_CONFIG", "")
            .output()
            .unwrap();
        assert!(sorted.status.success(), "{sorted:?}");
        assert_eq!(
            sorted.stdout,
            format!("{}\n", names.join("\n")).into_bytes()
        );
    }
}

#[test]
fn names_of_inputs_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let place = TestDir::new();
    let name = std::ffi::OsStr::from_bytes(b"a\xff");
    std::fs::write(place.dir().join(name), b"b\na\n").unwrap();
    let sorted = place.run_with_input(&["sort", "--files0-from=-"], b"a\xff\0");
    assert_eq!(sorted.ok().stdout, b"a\nb\n");
}

#[test]
fn a_dry_run_of_a_shuffle_or_of_unique_prints_the_plan_and_makes_nothing() {
    let place = TestDir::new();
    place.write("in", b"12345678ABCDEFGH");
    let before = place.names();
    for line in [
        "shuffle in -o out",
        "shuffle in --type u64",
        "unique in -o out",
        "unique in --type u64 -o out",
        "unique in --record 8 --key 0:4 -o out",
    ] {
        let words = line.split(' ').chain(["--dry-run"]);
        let planned = place.run(&words.collect::<Vec<_>>()).ok();
        assert!(
            planned.text().contains("predicted: "),
            "{line}: {planned:?}"
        );
        assert_eq!(place.names(), before, "{line}");
    }
    for command in ["shuffle", "unique"] {
        let refused = place.run_with_input(&[command, "--dry-run"], b"a\n");
        refused.fails(2, &["plan"], "");
    }
}

#[test]
fn names_of_parts_are_bytes() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let place = TestDir::new();
    place.write("in", b"one\ntwo\n");
    let name = |name: &[u8]| OsString::from_vec(name.to_vec());
    let run = |line: &str| {
        let words = line.split(' ').map(OsString::from);
        let arguments: Vec<OsString> = words.chain([name(b"\xff-{part}")]).collect();
        place.run(&arguments)
    };
    run("split in -n 2 -o").ok();
    let read = |part: &[u8]| std::fs::read(place.dir().join(name(part))).unwrap();
    assert_eq!(read(b"\xff-00"), b"one\n");
    assert_eq!(read(b"\xff-01"), b"two\n");
    let refused = run("partition x%2 in --type u8 -o");
    refused.fails(2, &["create output", "not UTF-8"], "another name");
}

#[test]
fn a_pipe_is_sorted_where_nothing_may_be_written() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let place = TestDir::new();
    let locked = place.path("locked");
    std::fs::create_dir(&locked).unwrap();
    place.write("in", b"b\na\n");
    for path in [place.dir(), locked.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mut by_pipe = Command::new("sh");
    by_pipe
        .args([
            "-c",
            "cat ../in | \"$0\" sort",
            env!("CARGO_BIN_EXE_outcore"),
        ])
        .current_dir(&locked)
        .env("OUTCORE_CONFIG", "");
    if rustix::process::geteuid().is_root() {
        // Nothing is locked for the superuser.
        by_pipe.uid(65_534).gid(65_534);
    }
    let sorted = by_pipe.output();
    std::fs::set_permissions(place.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let sorted = match sorted {
        Ok(sorted) if sorted.status.code() != Some(126) => sorted,
        refused => {
            println!("SKIP: another user may not run the command here: {refused:?}");
            return;
        }
    };
    assert_eq!(sorted.stdout, b"a\nb\n", "{sorted:?}");
}
