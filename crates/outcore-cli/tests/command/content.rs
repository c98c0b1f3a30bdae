//! The content of inputs and the names of outputs: outcore recognises the content, and rejects
//! names that do not match.
//!
//! Contract: every command on lines gets binary data, known formats and compressed text, in files
//! and on standard input. A rejected command leaves nothing behind.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{TestDir, random_u64, sorted_u64};

/// The words of every command on lines, before the input.
const VERBS: [&[&str]; 9] = [
    &["sort", "-o", "out"],
    &["sort", "-m", "-o", "out"],
    &["sort", "-c"],
    &["shuffle", "-o", "out"],
    &["unique", "-o", "out"],
    &["head", "-o", "out"],
    &["sample", "-n", "3", "-o", "out"],
    &["split", "-n", "2", "-o", "out-{part}"],
    &["view", "build", "-o", "out", "-k1,1"],
];

/// Files of formats that are known and not read.
fn known() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let mut archive = b"PK\x03\x04".to_vec();
    archive.resize(26, 0);
    archive.extend(b"\x09\0\0\0arr_0.npy and its bytes");
    let text = |bytes: &[u8]| [bytes, b"and more\n"].concat();
    vec![
        ("v.parquet", "Parquet", text(b"PAR1\x15\x04\x15\0")),
        ("v.arrow", "Arrow", text(b"ARROW1\0\0")),
        (
            "v.arrows",
            "Arrow stream",
            text(b"\xff\xff\xff\xff\x78\0\0\0"),
        ),
        ("v.npz", ".npz", archive),
        ("v.txt", "UTF-16", text(b"\xff\xfea\0\n\0")),
        ("v.lz4", "lz4", text(b"\x04\x22\x4d\x18")),
        ("v", "HDF5", text(b"\x89HDF\r\n\x1a\n")),
    ]
}

#[test]
fn binary_data_is_no_text_unless_its_user_insists() {
    let place = TestDir::new();
    place.write("v.bin", &random_u64(1000, 1));
    for verb in VERBS {
        let refused = place.run(&[verb, &["v.bin"]].concat());
        refused.fails(2, &["NUL bytes", "v.bin"], "--type u32 (2,000 records)");
    }
    assert_eq!(place.names(), ["v.bin"]);
    place.write("w.bin", b"what was there");
    let refused = place.run(&["sort", "v.bin", "-o", "w.bin"]);
    refused.fails(2, &["NUL bytes"], "--lines");
    assert_eq!(place.read("w.bin"), b"what was there");
    for verb in VERBS.iter().filter(|verb| !verb.contains(&"-c")) {
        let here = TestDir::new();
        here.write("v.bin", b"b\0\na\n");
        for flag in ["--lines", "-z"] {
            here.run(&[verb, &["v.bin", flag][..]].concat()).ok();
            if let Ok(names) = std::fs::read_dir(here.dir()) {
                for entry in names.flatten().filter(|entry| entry.file_name() != "v.bin") {
                    let path = entry.path();
                    let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
                }
            }
        }
    }
    place.write("nul.txt", b"b\0x\na\0y\n");
    let sorted = place.run(&["sort", "-t", "\\0", "-k2,2", "nul.txt"]).ok();
    assert_eq!(sorted.stdout, b"b\0x\na\0y\n");
    // outcore does not check a stream for NULs: its producer knows its content.
    let sorted = place.run_with_input(&["sort"], b"b\0\na\0\n").ok();
    assert_eq!(sorted.stdout, b"a\0\nb\0\n");
    let sorted = place
        .run(&["sort", "v.bin", "-o", "-", "--type", "u64"])
        .ok();
    assert!(sorted.stdout == sorted_u64(&random_u64(1000, 1)));
}

#[test]
fn formats_that_are_known_are_refused_by_name_in_files_and_streams() {
    for (name, format, bytes) in known() {
        let place = TestDir::in_memory();
        place.write(name, &bytes);
        // All of these commands read tables, but only from files.
        let is_table =
            name.starts_with("v.") && (name.contains("parquet") || name.contains("arrow"));
        for verb in VERBS {
            if !is_table {
                let refused = place.run(&[verb, &[name]].concat());
                refused.fails(2, &[format, name], "--lines");
            }
            let refused = place.run_with_input(&[verb, &["-"]].concat(), &bytes);
            let hint = match format {
                "Parquet" => "from a pipe: name the file",
                _ if is_table => "- --from arrow",
                _ => "--lines",
            };
            refused.fails(2, &[format, "standard input"], hint);
        }
        for verb in [&["reduce", "sum"][..], &["count-by", "x"], &["verify"]] {
            if !(is_table && verb[0] != "reduce") {
                let refused = place.run(&[verb, &[name]].concat());
                refused.fails(2, &[format, name], "");
            }
            let refused = place.run_with_input(&[verb, &["-"]].concat(), &bytes);
            refused.fails(2, &[], "");
        }
        assert_eq!(place.names(), [name]);
        let taken = place.run(&["sort", "--lines", name]).ok();
        assert!(taken.stdout.len() >= bytes.len());
    }
    let place = TestDir::new();
    place.write("v.parquet", b"PAR1\x15\x04\x15\0");
    for (verb, hint) in [
        (&["sort", "-o", "out"][..], "convert"),
        (&["head"], "convert"),
        (&["reduce", "sum"], "group-by"),
    ] {
        let refused = place.run(&[verb, &["v.parquet", "--type", "u64"]].concat());
        refused.fails(2, &["Parquet", "v.parquet"], hint);
    }
    // If the name does not confirm the magic number, the given type counts.
    place.write("v.bin", b"PAR1\x15\x04\x15\0");
    place
        .run(&["sort", "v.bin", "-o", "out", "--type", "u64"])
        .ok();
}

#[test]
fn called_sort_bytes_of_any_kind_are_lines_as_gnu_sort_has_it() {
    let place = TestDir::in_memory();
    place.write("in", b"b\na\n");
    place.run(&["sort", "in", "-o", "v.gz"]).ok();
    let others = [
        ("v.bin", "", random_u64(1000, 1)),
        ("v.gz", "", place.read("v.gz")),
    ];
    for (name, _, bytes) in known().into_iter().chain(others) {
        place.write(name, &bytes);
        let whole = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let mut lines: Vec<&[u8]> = whole.split(|byte| *byte == b'\n').collect();
        lines.sort_unstable();
        let sorted = place.command(&[name]).arg0("sort").output().unwrap();
        assert!(sorted.status.success(), "{name}: {sorted:?}");
        assert!(
            sorted.stdout == [&lines.join(&b'\n')[..], b"\n"].concat(),
            "{name}"
        );
    }
}

#[test]
fn what_is_compressed_is_told_by_content_under_any_name_and_on_streams() {
    let place = TestDir::new();
    let text = b"b\nd\na\nc\n";
    place.write("in", text);
    for end in ["gz", "zst", "bz2", "xz"] {
        place
            .run(&["sort", "-m", "in", "-o", &format!("x.{end}")])
            .ok();
        let packed = place.read(&format!("x.{end}"));
        for name in [&format!("plain-{end}")[..], "misnamed.gz"] {
            place.write(name, &packed);
            assert_eq!(place.run(&["sort", name]).ok().stdout, b"a\nb\nc\nd\n");
            assert_eq!(place.run(&["head", "-n", "2", name]).ok().stdout, b"b\nd\n");
            let lines = place.run(&["unique", "--lines", name]).ok();
            assert_eq!(lines.stdout, b"a\nb\nc\nd\n");
        }
        for (verb, wanted) in [
            (&["sort", "-"][..], &b"a\nb\nc\nd\n"[..]),
            (&["sort", "-r"], b"d\nc\nb\na\n"),
            (&["unique"], b"a\nb\nc\nd\n"),
            (&["head", "-n", "3"], b"b\nd\na\n"),
            (&["sample", "-n", "9"], text),
        ] {
            let answer = place.run_with_input(verb, &packed).ok();
            assert_eq!(answer.stdout, wanted, "{end} {verb:?}");
        }
        place
            .run_with_input(
                &["split", "-n", "2", "-o", "part-{part}", "--force"],
                &packed,
            )
            .ok();
        assert_eq!(
            [place.read("part-00"), place.read("part-01")].concat(),
            text
        );
        let torn = &packed[..packed.len() - 1];
        for verb in [&["sort", "-o", "out"][..], &["head", "-o", "out"]] {
            let answer = place.run_with_input(verb, torn);
            answer.fails(4, &["ends in the middle", "standard input"], "copy");
        }
        // Compressed records are rejected. A file that was compressed twice is decompressed once.
        place.write("packed", &packed);
        let refused = place.run(&["reduce", "sum", "packed"]);
        refused.fails(2, &["compressed", "packed"], "decompress");
        let twice = place.run(&["sort", "--lines", &format!("x.{end}"), "-o", "once"]);
        twice.ok();
    }
    // The decompressed content is also checked.
    place.run(&["gen", "u64", "-n", "100", "-o", "n.npy"]).ok();
    place.write("n.bin", &random_u64(100, 1));
    for (name, cause) in [("n.npy", "NumPy"), ("n.bin", "NUL bytes")] {
        let packed = ["sort", "--lines", "-m", name, "-o", "inner.zst", "--force"];
        place.run(&packed).ok();
        for verb in [&["sort", "-o", "none"][..], &["head", "-o", "none"]] {
            let refused = place.run(&[verb, &["inner.zst"]].concat());
            refused.fails(2, &[cause, "inner.zst"], "--lines");
        }
    }
    assert!(!place.path("none").exists());
}

#[test]
fn a_window_beyond_the_memory_is_refused_by_name() {
    let place = TestDir::new();
    place.write("in", b"b\na\n");
    let made = Command::new("xz")
        .args(["-9", "in"])
        .current_dir(place.dir())
        .status();
    if !made.is_ok_and(|made| made.success()) {
        println!("SKIP: there is no xz to compress with");
        return;
    }
    let sorted = place.run(&["sort", "in.xz", "--memory", "128MiB"]).ok();
    assert_eq!(sorted.stdout, b"a\nb\n");
    let refused = place.run(&["sort", "in.xz", "--memory", "32MiB"]);
    refused.fails(6, &["xz", "in.xz"], "--memory");
}

#[test]
fn names_of_outputs_promise_what_they_hold() {
    let place = TestDir::new();
    place.write("in", b"b\na\n");
    place.write("n", &random_u64(10, 1));
    for verb in [
        &["sort", "n", "--type", "u64"][..],
        &["shuffle", "n", "--type", "u64"],
        &["unique", "n", "--type", "u64"],
        &["head", "n", "--type", "u64"],
        &["sample", "-n", "2", "n", "--type", "u64"],
        &["map", "x + 1", "n", "--type", "u64"],
        &["filter", "x > 1", "n", "--type", "u64"],
        &["count-by", "x", "n", "--type", "u64"],
        &["gen", "u64", "-n", "10"],
    ] {
        for end in ["parquet", "npz", "csv", "arrow", "jsonl"] {
            let out = format!("out.{end}");
            let refused = place.run(&[verb, &["-o", &out]].concat());
            refused.fails(2, &["binary records", &out], ".npy");
        }
    }
    for verb in [
        &["split", "-n", "2", "n", "--type", "u64"][..],
        &["partition", "x % 2", "n", "--type", "u64"],
    ] {
        let refused = place.run(&[verb, &["-o", "out-{part}.csv"]].concat());
        refused.fails(2, &["binary records"], ".npy");
    }
    for end in ["parquet", "npz", "arrow", "lz4"] {
        let out = format!("out.{end}");
        for verb in [&["sort"][..], &["shuffle"], &["unique"], &["head"]] {
            let refused = place.run(&[verb, &["in", "-o", &out]].concat());
            refused.fails(2, &["lines", &out], "another name");
        }
    }
    let refused = place.run(&["split", "-n", "2", "in", "-o", "out-{part}.npy"]);
    refused.fails(2, &["lines", "NumPy"], "--type");
    for (verb, meant) in [
        (
            &["sort", "n", "--type", "u64", "-o", "out-{drives}.bin"][..],
            "{drive}",
        ),
        (&["gen", "u64", "-n", "1", "-o", "{disk}.bin"], "{drive}"),
        (
            &["split", "-n", "2", "in", "-o", "{part}-{drives}"],
            "{part}",
        ),
    ] {
        place.run(verb).fails(2, &["is not a placeholder"], meant);
    }
    assert_eq!(place.names(), ["in", "n"]);
    place.run(&["sort", "in", "-o", "out.csv"]).ok();
}

/// The output of a command on a terminal of 80 columns; `None` without script(1).
fn on_terminal(place: &TestDir, arguments: &str) -> Option<String> {
    let shown = |arguments: &str| {
        let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_outcore"));
        let run = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(place.dir())
            .env("OUTCORE_CONFIG", "")
            .stdin(std::process::Stdio::null())
            .output();
        run.ok()
            .map(|run| String::from_utf8_lossy(&run.stdout).into_owned())
    };
    if shown("--version").is_none_or(|said| !said.contains("outcore")) {
        println!("SKIP: there is no script(1) to make a terminal");
        return None;
    }
    shown(arguments)
}

#[test]
fn binary_records_do_not_go_to_a_terminal() {
    let place = TestDir::new();
    place.write("n", &random_u64(10, 1));
    for arguments in [
        "sort n --type u64 -o -",
        "head n --type u64",
        "shuffle n --type u64",
        "unique n --type u64",
        "map x n --type u64 -o -",
        "gen u64 -n 3 -o -",
    ] {
        let Some(said) = on_terminal(&place, arguments) else {
            return;
        };
        assert!(said.contains("terminal"), "{arguments}: {said}");
    }
}

#[test]
fn a_terminal_shows_few_counts_as_bars_and_many_as_lines() {
    let place = TestDir::new();
    let count = |modulus: u64| {
        on_terminal(
            &place,
            &format!("count-by 'x % {modulus}' --integers 1001 -q"),
        )
    };
    let Some(few) = count(4) else {
        return;
    };
    let lines: Vec<&str> = few.lines().collect();
    assert_eq!(lines.len(), 4, "{few}");
    assert!(lines[0].starts_with("0  251  ████"), "{few}");
    assert!(lines[3].starts_with("3  250  ████"), "{few}");
    let many = count(500).unwrap_or_default();
    assert_eq!(many.lines().count(), 500);
    assert!(
        many.starts_with("0\t3\r\n") && !many.contains('█'),
        "{many}"
    );
    // In a pipe, the lines are unchanged.
    let piped = place.run(&["count-by", "x % 4", "--integers", "1001"]).ok();
    assert_eq!(piped.text(), "0\t251\n1\t250\n2\t250\n3\t250\n");
}

/// The header of an array of `<u8`, as text, and the data after it.
fn shape(bytes: &[u8]) -> (String, Vec<u8>) {
    let len_bytes = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = String::from_utf8_lossy(&bytes[10..len_bytes]);
    let (_, rest) = text.split_once("'shape': ").unwrap();
    let (shape, _) = rest.split_once(", }").unwrap();
    (shape.to_string(), bytes[len_bytes..].to_vec())
}

#[test]
fn parts_of_records_are_even_and_arrays_have_their_own_shapes() {
    let place = TestDir::new();
    place
        .run(&["gen", "u64", "-n", "10", "--dist", "sorted", "-o", "v.npy"])
        .ok();
    let (_, data) = shape(&place.read("v.npy"));
    for (count, wanted) in [(2, &[5, 5][..]), (3, &[3, 3, 4]), (4, &[2, 3, 2, 3])] {
        let pattern = format!("{count}-{{part}}.npy");
        let count = count.to_string();
        place
            .run(&["split", "v.npy", "-n", &count, "-o", &pattern])
            .ok();
        let mut all = Vec::new();
        for (part, rows) in wanted.iter().enumerate() {
            let name = format!("{count}-{part:02}.npy");
            let (shape, part) = shape(&place.read(&name));
            assert_eq!(
                (shape, part.len()),
                (format!("({rows},)"), rows * 8),
                "{name}"
            );
            all.extend(part);
            place.run(&["reduce", "count", &name]).ok();
        }
        assert!(all == data);
    }
    // A stream, raw records, and a number of records per part also work.
    let array = place.read("v.npy");
    place
        .run_with_input(
            &["split", "-", "--type", "u64", "-n", "2", "-o", "s-{part}"],
            &array,
        )
        .ok();
    assert_eq!(
        [place.read("s-00").len(), place.read("s-01").len()],
        [40, 40]
    );
    place
        .run(&["split", "v.npy", "--by-lines", "4", "-o", "by-{part}.npy"])
        .ok();
    let shapes = ["by-00.npy", "by-01.npy", "by-02.npy"].map(|name| shape(&place.read(name)).0);
    assert_eq!(shapes, ["(4,)", "(4,)", "(2,)"]);
    let head = place
        .run_with_input(&["head", "-n", "3", "--type", "u64"], &array)
        .ok();
    assert!(head.stdout == data[..24]);

    place
        .run(&[
            "partition",
            "x % 3",
            "v.npy",
            "--parts",
            "3",
            "-o",
            "p-{part}.npy",
        ])
        .ok();
    let shapes = ["p-0.npy", "p-1.npy", "p-2.npy"].map(|name| place.read(name));
    let rows: u64 = shapes
        .iter()
        .map(|part| {
            let (shape, data) = shape(part);
            assert_eq!(shape, format!("({},)", data.len() / 8));
            data.len() as u64 / 8
        })
        .sum();
    assert_eq!(rows, 10);
    let sum = |input: &str| place.run(&["reduce", "sum", input]).ok().text();
    assert_eq!(sum("p.npy.outcore.json"), sum("v.npy"));
    // A part without records is an empty array.
    place
        .run(&["partition", "x < 0", "v.npy", "-o", "q-{part}.npy"])
        .ok();
    assert_eq!(
        shape(&place.read("q-1.npy")),
        ("(0,)".to_string(), Vec::new())
    );
    place
        .run(&[
            "partition",
            "x % 3",
            "v.npy",
            "--parts",
            "12",
            "-o",
            "r-{part}.npy",
        ])
        .ok();
    assert!(place.path("r-00.npy").exists() && place.path("r-11.npy").exists());
}

#[test]
fn names_of_many_parts_sort_as_the_parts_do() {
    let place = TestDir::in_memory();
    let text: String = (0..250).map(|line| format!("{line:03}\n")).collect();
    place.write("in", text.as_bytes());
    place
        .run(&["split", "in", "--by-lines", "2", "-o", "part-{part}"])
        .ok();
    let names = place.names();
    let parts = names.iter().filter(|name| name.starts_with("part-"));
    let parts: Vec<Vec<u8>> = parts.map(|name| place.read(name)).collect();
    assert_eq!(parts.len(), 125);
    assert!(parts.concat() == text.as_bytes());
}

#[test]
fn a_last_record_of_csv_is_ended_as_the_others_are() {
    let place = TestDir::new();
    for (text, flags, wanted) in [
        ("k,v\r\nb,1\r\na,2", &[][..], "k,v\r\na,2\r\nb,1\r\n"),
        ("k,v\r\nb,1\r\na,2\r", &[], "k,v\r\na,2\r\nb,1\r\n"),
        ("k,v\nb,1\na,2", &[], "k,v\na,2\nb,1\n"),
        ("b,1\r\na,2", &["--no-header"], "a,2\r\nb,1\r\n"),
        (
            "k,v\r\nb,\"x\r\ny\"\r\na,2",
            &[],
            "k,v\r\na,2\r\nb,\"x\r\ny\"\r\n",
        ),
        ("k,v\r\nb,1\r\na,2", &["-m"], "k,v\r\nb,1\r\na,2\r\n"),
    ] {
        place.write("in.csv", text.as_bytes());
        let by = if flags.contains(&"-m") { "k:r" } else { "1" };
        let sort = ["sort", "--csv", "--by", by, "in.csv"];
        let sorted = place.run(&[&sort, flags].concat()).ok();
        assert_eq!(sorted.text(), wanted, "{text:?}");
        let sorted = place.run_with_input(&[&sort[..4], flags].concat(), text.as_bytes());
        assert_eq!(sorted.ok().text(), wanted, "{text:?}");
    }
    // A file with only a header, and one that shows how lines end.
    place.write("head.csv", b"k,v");
    place.write("tail.csv", b"k,v\r\nb,1\r\na,2");
    let sorted = place
        .run(&["sort", "--csv", "--by", "k", "head.csv", "tail.csv"])
        .ok();
    assert_eq!(sorted.text(), "k,v\r\na,2\r\nb,1\r\n");
    place
        .run(&["view", "build", "--csv", "--by", "k", "tail.csv", "-o", "v"])
        .ok();
    assert_eq!(
        place.run(&["view", "cat", "v"]).ok().text(),
        "k,v\r\na,2\r\nb,1\r\n"
    );
}

#[test]
fn a_view_of_text_is_one_of_lines_whether_or_not_that_is_said() {
    let place = TestDir::in_memory();
    place.write("t", b"b\na\n");
    place.run(&["sort", "t", "-o", "t.gz"]).ok();
    for lines in [&[][..], &["--lines"]] {
        for name in ["t", "t.gz"] {
            let build = ["view", "build", name, "-o", "v", "--force"];
            place.run(&[&build[..], lines].concat()).ok();
            assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, b"a\nb\n");
        }
        let build = ["view", "build", "-", "-o", "v", "--force"];
        let words = [&build[..], lines].concat();
        place.run_with_input(&words, b"d\nc\n").ok();
        assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, b"c\nd\n");
    }
}
