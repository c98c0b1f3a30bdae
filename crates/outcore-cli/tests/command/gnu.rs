//! The command under the name of GNU `sort`: it has the command line, output and exit codes of GNU
//! `sort`, and errors of the same meaning.
//!
//! Contract: a table of cases (`fixtures/gnu_sort.tsv`) has the expected results, so that the tests
//! need no GNU sort. If GNU sort is installed, it must also agree with the table.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::*;

const CASES: &str = include_str!("fixtures/gnu_sort.tsv");

/// A line of the table.
struct Case {
    words: Vec<String>,
    input: Vec<u8>,
    code: i32,
    output: String,
    told: String,
}

impl Case {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [words, input, code, output, told] = fields[..] else {
            panic!("{line}");
        };
        let text = |word: &str| String::from_utf8(unescaped(word)).unwrap();
        let words = words.split(' ').filter(|_| !words.is_empty());
        Case {
            words: words
                .map(|word| {
                    if word == "''" {
                        String::new()
                    } else {
                        text(word)
                    }
                })
                .collect(),
            input: field(input),
            code: code.parse().unwrap(),
            output: output.to_string(),
            told: text(if told == "-" { "" } else { told }),
        }
    }

    fn is_output(&self, got: &[u8]) -> bool {
        match self.output.strip_prefix('=') {
            Some(len) => got.len().to_string() == len && got.first() == Some(&b'a'),
            None => got == field(&self.output),
        }
    }

    fn is_debug(&self) -> bool {
        self.code == 0 && self.words.iter().any(|word| word == "--debug")
    }
}

fn field(text: &str) -> Vec<u8> {
    unescaped(if text == "-" { "" } else { text })
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let hex = |rest: &mut std::str::Bytes<'_>| {
            let digits: Vec<u8> = rest.take(2).collect();
            u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
        };
        bytes.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b's') => b' ',
            Some(b'x') => hex(&mut rest),
            other => other.unwrap(),
        });
    }
    bytes
}

/// Makes the files that the cases read, and removes those that earlier cases wrote.
fn lay_out(place: &TestDir) {
    let long = |letters: &[&str]| -> Vec<u8> {
        let lines = letters
            .iter()
            .map(|letter| format!("{}\n", letter.repeat(32_000)));
        lines.collect::<String>().into_bytes()
    };
    for name in place.names() {
        std::fs::remove_file(place.path(&name)).unwrap();
    }
    for (name, bytes) in [
        ("f", b"b\na\nc\n".to_vec()),
        ("foo", b"foo\n".to_vec()),
        ("e1", Vec::new()),
        ("e2", Vec::new()),
        ("e3", Vec::new()),
        ("s1", b"a 1\nc 1\n".to_vec()),
        ("s2", b"a 2\nb 2\nc 1\n".to_vec()),
        ("list", b"foo\0f\0".to_vec()),
        ("long1", long(&["a", "c"])),
        ("long2", long(&["b"])),
    ] {
        place.write(name, &bytes);
    }
}

/// Runs a program by the name of `sort`.
fn run(place: &TestDir, program: &Path, case: &Case) -> Answer {
    place.write("stdin", &case.input);
    let mut command = Command::new(program);
    command
        .arg0("sort")
        .args(&case.words)
        .current_dir(place.dir())
        .env("LC_ALL", "C")
        .env("OUTCORE_CONFIG", "")
        .env_remove("POSIXLY_CORRECT")
        .env_remove("_POSIX2_VERSION")
        .stdin(std::fs::File::open(place.path("stdin")).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    Answer {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn cases() -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    lines.map(Case::parse).collect()
}

/// The output of a sort for each case in which it differs from the table.
fn differences(program: &Path, is_ours: bool) -> Vec<String> {
    let place = TestDir::in_memory();
    let mut differences = Vec::new();
    for case in cases() {
        lay_out(&place);
        let answer = run(&place, program, &case);
        // Versions of GNU sort differ in this word.
        let told = answer.stderr.replace("sort: note numbers", "sort: numbers");
        let is_told = match case.is_debug() {
            true => told == case.told,
            false => !is_ours || told.contains(&case.told),
        };
        if answer.code != Some(case.code) || !case.is_output(&answer.stdout) || !is_told {
            differences.push(format!("{:?}: {answer:?}", case.words));
        }
    }
    differences
}

#[test]
fn called_sort_it_is_gnu_sort_to_the_byte_and_the_exit_code() {
    assert!(cases().len() > 190, "{}", cases().len());
    let found = differences(Path::new(env!("CARGO_BIN_EXE_outcore")), true);
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_table_is_what_gnu_sort_does() {
    let said = Command::new("sort").arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    if !said
        .unwrap_or_default()
        .starts_with("sort (GNU coreutils) 9.")
    {
        println!("SKIP: there is no GNU sort of coreutils 9 to compare with");
        return;
    }
    let found = differences(Path::new("sort"), false);
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_random_order_is_another_in_each_run_unless_it_is_chosen() {
    let place = TestDir::new();
    let text: String = (0..200).map(|line| format!("{}\n", line % 100)).collect();
    place.write("in", text.as_bytes());
    let sorted = |more: &[&str]| {
        place
            .run(&[&["sort", "-R", "in"], more].concat())
            .ok()
            .stdout
    };
    let first = sorted(&[]);
    let lines: Vec<&[u8]> = first.split(|byte| *byte == b'\n').collect();
    assert!(lines.chunks(2).take(100).all(|pair| pair[0] == pair[1]));
    assert_ne!(first, sorted(&[]));
    assert_eq!(sorted(&["--seed", "4"]), sorted(&["--seed", "4"]));
    let source = ["--random-source", "in"];
    assert_eq!(sorted(&source), sorted(&source));
}

#[test]
fn its_version_is_told_and_does_not_pass_for_gnu_sorts() {
    let place = TestDir::new();
    let version = place.run(&["sort", "--version"]).ok().text();
    assert!(version.starts_with("sort (outcore) "), "{version}");
    let long = place.run(&["sort", "--no-such"]);
    assert_eq!(long.code, Some(2), "{long:?}");
}

#[test]
fn a_locale_with_an_order_of_its_own_is_told_to_those_who_ask_for_more() {
    let place = TestDir::new();
    place.write("in", b"b\nA\na\n");
    let run = |locale: &str, more: &[&str]| {
        let words = [&["sort", "in"], more].concat();
        Answer::of(
            place
                .command(&words)
                .env("LC_ALL", locale)
                .output()
                .unwrap(),
        )
        .ok()
    };
    let told = run("en_US.UTF-8", &["-v"]);
    assert_eq!(told.stdout, b"A\na\nb\n");
    assert_eq!(told.stderr.matches("by their bytes").count(), 1, "{told:?}");
    for (locale, more) in [
        ("en_US.UTF-8", &[][..]),
        ("C.UTF-8", &["-v"]),
        ("C", &["-v"]),
    ] {
        let told = run(locale, more);
        assert!(!told.stderr.contains("by their bytes"), "{told:?}");
    }
}

#[test]
fn called_sort_it_takes_everything_for_lines() {
    let place = TestDir::new();
    place.write("in", b"b\0\na\0\n");
    place.write("x.npy", b"\x93NUMPY\n\0\n");
    let run = |name: &str, files: &[&str]| {
        let mut command = place.command(&[&["sort"], files].concat());
        if name == "sort" {
            command = place.command(files);
            command.arg0("sort");
        }
        Answer::of(command.output().unwrap())
    };
    assert_eq!(run("sort", &["in"]).ok().stdout, b"a\0\nb\0\n");
    assert_eq!(run("sort", &["x.npy"]).ok().stdout, b"\0\n\x93NUMPY\n");
    assert_eq!(run("outcore", &["in"]).code, Some(2));
}

#[test]
fn called_sort_the_name_of_a_file_says_nothing() {
    let place = TestDir::in_memory();
    place.write("in", b"b\na\n");
    let run = |words: &[&str]| {
        let output = place.command(words).arg0("sort").output().unwrap();
        Answer::of(output)
    };
    for name in [
        "x.gz",
        "x.zst",
        "x.bz2",
        "x.xz",
        "x.npy",
        "x.parquet",
        "x.lz4",
        "x-{drive}.bin",
        "x-{part}",
        "x.outcore.json",
    ] {
        assert_eq!(run(&["-o", name, "in"]).code, Some(0), "{name}");
        assert_eq!(place.read(name), b"a\nb\n", "{name}");
        // The output may also be an input, and may replace it.
        assert_eq!(run(&["-r", name]).ok().stdout, b"b\na\n", "{name}");
        run(&["-r", name, "-o", name]).ok();
        assert_eq!(place.read(name), b"b\na\n", "{name}");
    }
    // Features that GNU sort lacks behave as in all other commands.
    place.write("t.csv", b"k\nb\na\n");
    run(&["--csv", "--by", "k", "t.csv", "-o", "t.gz"]).ok();
    assert_eq!(place.run(&["sort", "-m", "t.gz"]).ok().stdout, b"k\na\nb\n");
    let refused = run(&["--csv", "--by", "k", "t.csv", "-o", "t.parquet"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(!place.path("t.parquet").exists());
}
