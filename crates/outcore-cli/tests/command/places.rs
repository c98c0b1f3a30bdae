//! Places and names that are out of the ordinary: links, names that are not text, few descriptors,
//! an odd umask, directories in which other jobs run.
//!
//! Contract: every kind of output follows one rule, and nothing is left behind.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

/// A user that does not run the tests.
const OTHER_USER: u32 = 1_234_567;

/// Inputs of all kinds.
fn place() -> TestDir {
    let place = TestDir::new();
    place.write("in", &random_u64(1000, 1));
    place.write("lines", b"b\na\nb\n");
    place.write("t.csv", b"a,b\n1,x\n2,y\n3,x\n");
    let table = ["convert", "t.csv", "-o", "t.parquet"];
    place.run(&table).ok();
    place.write("edges.txt", b"0 1\n1 2\n2 0\n");
    place
        .run(&["graph", "convert", "edges.txt", "-o", "g"])
        .ok();
    place
        .run(&["view", "build", "in", "--type", "u64", "-o", "v"])
        .ok();
    place
}

/// A command for each way in which one file is written.
const ONE_FILE: [&str; 14] = [
    "sort in --type u64 -o OUT",
    "sort lines -o OUT",
    "shuffle in --type u64 -o OUT",
    "unique lines -o OUT",
    "map x*2 in --type u64 -o OUT",
    "sample in --type u64 -n 5 -o OUT",
    "head in --type u64 -n 5 -o OUT",
    "view materialize v -o OUT",
    "graph pagerank g -o OUT.csv",
    "graph pagerank g -o OUT.npy",
    "convert t.csv -o OUT.parquet",
    "group-by t.parquet --by b -o OUT.csv",
    "dedup t.parquet --by b -o OUT.parquet",
    "sort in --type u64 -o new --record-io OUT.json",
];

/// The words of a command, and the name of its output `out`.
fn words_of<'w>(line: &'w str, out: &'w str) -> (Vec<String>, String) {
    let words: Vec<String> = line
        .split(' ')
        .map(|word| word.replace("OUT", out))
        .collect();
    let output = words
        .iter()
        .find(|word| word.contains(out))
        .unwrap()
        .clone();
    (words, output)
}

#[test]
fn a_link_in_the_name_of_an_output_is_followed_alike_by_every_command() {
    let place = place();
    for line in ONE_FILE {
        let (mut words, name) = words_of(line, "link");
        words.push("--force".into());
        let link = place.path(&name);
        // The link leads to no file.
        symlink("inside/real", &link).unwrap();
        let _ = fs::remove_dir_all(place.path("inside"));
        let _ = fs::remove_file(place.path("new"));
        place.run(&words).fails(
            2,
            &["link to a file that does not exist", &name],
            "another name",
        );
        // The output is a file in another directory.
        place.make_dir("inside");
        place.write("inside/real", b"before");
        place.run(&words).ok();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{line}");
        assert_ne!(place.read("inside/real"), b"before", "{line}");
        assert_eq!(names_in(&place.path("inside")), ["real"], "{line}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn a_link_that_another_user_has_planted_is_followed_by_no_command() {
    let place = place();
    let shared = place.make_dir("shared");
    let _ = fs::set_permissions(&shared, Permissions::from_mode(0o1777));
    place.write("victim", b"of great worth");
    for line in ONE_FILE {
        let (mut words, name) = words_of(line, "shared/link");
        words.push("--force".into());
        let _ = fs::remove_file(place.path("new"));
        let link = place.path(&name);
        symlink("../victim", &link).unwrap();
        if lchown(&link, Some(OTHER_USER), None).is_err() {
            println!("SKIP: giving files away needs root");
            return;
        }
        place
            .run(&words)
            .fails(2, &["link of another user", &name], "another name");
        assert_eq!(place.read("victim"), b"of great worth", "{line}");
        assert_eq!(names_in(&shared).len(), 1, "{line}");
        fs::remove_file(link).unwrap();
    }
}

#[test]
fn no_directory_is_made_or_filled_behind_a_link_that_another_user_has_planted() {
    let place = place();
    let shared = place.make_dir("shared");
    let _ = fs::set_permissions(&shared, Permissions::from_mode(0o1777));
    place.make_dir("victim");
    symlink("../victim", place.path("shared/link")).unwrap();
    if lchown(place.path("shared/link"), Some(OTHER_USER), None).is_err() {
        println!("SKIP: giving files away needs root");
        return;
    }
    for line in [
        "convert t.csv -o shared/link --parts 2",
        "split t.parquet --by b -o shared/link",
        "graph convert edges.txt -o shared/link",
        "view build in --type u64 -o shared/link",
        "sort in --type u64 -o shared/link/out",
        "sort in --type u64 -o out --memory 6MiB --drive shared/link",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = place.run(&words);
        assert!(
            answer.code != Some(0) || line.contains("--drive"),
            "{line}: {answer:?}"
        );
        assert!(names_in(&place.path("victim")).is_empty(), "{line}");
    }
}

#[test]
fn no_part_of_a_set_is_written_through_a_link() {
    let place = place();
    place.write("victim", b"of great worth");
    place.make_dir("parts");
    place.make_dir("d0");
    symlink("../victim", place.path("parts/part-00000.parquet")).unwrap();
    symlink("../victim", place.path("d0/x-d0.bin")).unwrap();
    symlink("victim", place.path("part-00")).unwrap();
    for line in [
        "convert t.csv -o parts --parts 2 --force",
        "sort in --type u64 -o x-{drive}.bin --drive d0 --force",
        "split lines -n 2 -o part-{part} --force",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        place
            .run(&words)
            .fails(2, &["a link has the name of a part"], "remove it");
        assert_eq!(place.read("victim"), b"of great worth");
    }
}

/// A directory in `place` whose name is not text.
fn odd_dir(place: &TestDir) -> PathBuf {
    let dir = place.path("").join(OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&dir).unwrap();
    dir
}

#[test]
fn sets_are_written_and_read_below_directories_whose_names_are_not_text() {
    let place = place();
    let odd = odd_dir(&place);
    place.make_dir("d0");
    let run = |before: &str, output: &Path, after: &str| {
        let words = before.split(' ').map(OsStr::new);
        let words = words.chain([output.as_os_str()]);
        let after = after.split(' ').filter(|word| !word.is_empty());
        let words: Vec<&OsStr> = words.chain(after.map(OsStr::new)).collect();
        place.run(&words).ok()
    };
    run("convert t.csv -o", &odd.join("parts"), "--parts 2");
    run("split t.parquet --by b -o", &odd.join("hives"), "");
    run(
        "split t.parquet -o",
        &odd.join("part-{part}.parquet"),
        "-n 2",
    );
    run(
        "sort in --type u64 -o",
        &odd.join("x-{drive}.bin"),
        "--drive d0",
    );
    run("view build in --type u64 -o spread --drive", &odd, "");
    for set in ["parts", "hives"] {
        let read = run("convert -o - --to csv", &odd.join(set), "");
        assert_eq!(read.text().lines().count(), 4, "{set}: {read:?}");
    }
    run(
        "sort -o sorted --type u64",
        &odd.join("x.bin.outcore.json"),
        "",
    );
    assert_eq!(place.read("sorted").len(), 8000);
    place.run(&["view", "verify", "spread"]).ok();
    let text = names_in(&odd).join(" ");
    assert!(
        text.contains("x-d0.bin") && text.contains("part-1.parquet"),
        "{text}"
    );
}

#[test]
fn few_descriptors_leave_no_scratch_and_no_output() {
    let place = TestDir::new();
    place.write("in", &random_u64(1_500_000, 3));
    place
        .run(&["gen", "sales", "-n", "3000", "-o", "t.parquet"])
        .ok();
    place
        .run(&["gen", "logs", "-n", "3000", "-o", "l.txt"])
        .ok();
    let before = place.names();
    for words in [
        "sort in -o out --type u64 --memory 6MiB",
        "shuffle l.txt -o out",
        "convert t.parquet -o out --parts 3 --memory 64MiB",
        "sort t.parquet --by id -o out --parts 3 --memory 64MiB",
        "split t.parquet --by country -o out --memory 64MiB",
        "split l.txt --parts 3 -o out-{part}",
    ] {
        let mut failed = 0;
        for descriptors in 6..28 {
            let mut command = Command::new("sh");
            let limited = format!("ulimit -n {descriptors}; exec \"$@\"");
            command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_outcore")]);
            command
                .args(words.split(' '))
                .current_dir(place.dir())
                .env("OUTCORE_CONFIG", "");
            let answer = Answer::of(command.output().unwrap());
            match answer.code {
                Some(0) => remove_all_but(&place, &before),
                // The program cannot be loaded with so few descriptors.
                Some(127) => {}
                _ => {
                    failed += 1;
                    answer.fails(3, &["Too many open files"], "");
                }
            }
            assert_eq!(place.names(), before, "{words}: {descriptors} descriptors");
        }
        assert!(failed > 0, "{words}");
    }
}

fn remove_all_but(place: &TestDir, kept: &[String]) {
    for name in place.names() {
        let path = place.path(&name);
        match (kept.contains(&name), path.is_dir()) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(path).unwrap(),
            (false, false) => fs::remove_file(path).unwrap(),
        }
    }
}

#[test]
fn a_umask_that_shuts_the_user_out_is_named() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: only root can be another user");
        return;
    }
    let place = TestDir::new();
    fs::set_permissions(place.dir(), Permissions::from_mode(0o777)).unwrap();
    place.write("in", &random_u64(1000, 3));
    let mut command = Command::new("sh");
    let masked = "umask 0777; exec \"$@\"";
    command.args(["-c", masked, "sh", env!("CARGO_BIN_EXE_outcore")]);
    command
        .args(["sort", "in", "-o", "out", "--type", "u64"])
        .current_dir(place.dir())
        .env("OUTCORE_CONFIG", "")
        .uid(OTHER_USER)
        .gid(OTHER_USER);
    match command.output() {
        Ok(output) if !matches!(output.status.code(), Some(126 | 127)) => {
            Answer::of(output).fails(3, &["Permission denied"], "umask 022");
            assert_eq!(place.names(), ["in"]);
        }
        refused => println!("SKIP: another user may not run the command here: {refused:?}"),
    }
}

#[test]
fn scratch_is_listed_and_cleaned_beside_running_jobs() {
    let place = TestDir::new();
    place.write("lines", b"b\na\n");
    std::thread::scope(|scope| {
        let jobs = scope.spawn(|| {
            for number in 0..30 {
                let view = format!("v{}", number % 3);
                place.run(&["sort", "lines", "-o", "out", "--force"]).ok();
                place
                    .run(&["view", "build", "lines", "--lines", "-o", &view])
                    .ok();
                fs::remove_dir_all(place.path(&view)).unwrap();
            }
        });
        while !jobs.is_finished() {
            place.run(&["scratch", "clean"]).ok();
            place.run(&["scratch", "list"]).ok();
        }
        jobs.join().unwrap();
    });
}
