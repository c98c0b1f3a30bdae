//! `split` by length and through commands, compared with GNU split.
//!
//! Contract: parts of a number of bytes, and of whole lines within a number of bytes, are those of
//! GNU split. A command gets the bytes that the file would have.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// The parts that GNU split makes of `in` with these words; nothing without GNU split.
fn of_gnu_split(place: &TestDir, words: &[&str]) -> Option<Vec<Vec<u8>>> {
    let dir = place.make_dir("gnu");
    if !has_gnu(&["split"]) {
        return None;
    }
    let mut split = Command::new("split");
    split
        .current_dir(place.dir())
        .args(words)
        .args(["-a", "4", "in", "gnu/x"]);
    assert!(split.status().unwrap().success());
    let names = names_in(&dir);
    let parts = names
        .iter()
        .map(|name| place.read(&format!("gnu/{name}")))
        .collect();
    std::fs::remove_dir_all(dir).unwrap();
    Some(parts)
}

/// Returns the parts in order, and removes them.
fn parts(place: &TestDir) -> Vec<Vec<u8>> {
    let names = place.names();
    let names: Vec<&String> = names.iter().filter(|name| name.starts_with("p-")).collect();
    let parts = names.iter().map(|name| place.read(name)).collect();
    for name in names {
        std::fs::remove_file(place.path(name)).unwrap();
    }
    parts
}

/// Lines of many lengths, some of them long.
fn text() -> Vec<u8> {
    let mut text = Vec::new();
    for (number, word) in random_u64(300, 5).chunks_exact(8).enumerate() {
        let word = u64_of(word);
        let len = match number % 100 {
            99 => 5_000,
            _ => (word % 60) as usize,
        };
        text.extend(vec![b'a' + (word >> 40) as u8 % 26; len]);
        text.push(b'\n');
    }
    text
}

#[test]
fn pieces_of_bytes_and_of_whole_lines_are_those_of_gnu_split() {
    let place = TestDir::new();
    place.write("in", &text());
    for (short, size) in [
        ("-b", "100"),
        ("-b", "7777"),
        ("-b", "1MiB"),
        ("-C", "1000"),
        ("-C", "61"),
        ("-C", "5001"),
        ("-C", "40"),
        ("-C", "4096"),
        ("-l", "17"),
    ] {
        let Some(wanted) = of_gnu_split(&place, &[short, size]) else {
            return;
        };
        place
            .run(&["split", "in", short, size, "-o", "p-{part}"])
            .ok();
        assert!(parts(&place) == wanted, "{short} {size}");
        // From a pipe, and from a compressed file.
        let piped = ["split", short, size, "-o", "p-{part}"];
        place.run_with_input(&piped, &place.read("in")).ok();
        assert!(parts(&place) == wanted, "{short} {size} piped");
    }
    place
        .run(&["head", "-n", "1000", "in", "-o", "in.zst"])
        .ok();
    let wanted = of_gnu_split(&place, &["-b", "900"]).unwrap();
    place
        .run(&["split", "in.zst", "-b", "900", "-o", "p-{part}"])
        .ok();
    assert!(parts(&place) == wanted);
}

#[test]
fn pieces_of_bytes_are_cut_of_any_file_and_make_it_again() {
    let place = TestDir::new();
    let bytes = random_u64(40_000, 3);
    place.write("in", &bytes[..300_001]);
    let asked = [
        "split", "in", "--bytes", "100KiB", "-o", "p-{part}", "--json",
    ];
    let report = place.run(&asked).ok();
    assert_eq!(report.event("summary")["files"], 3);
    let found = parts(&place);
    assert_eq!(
        found.iter().map(Vec::len).collect::<Vec<_>>(),
        [102_400, 102_400, 95_201]
    );
    assert!(found.concat() == bytes[..300_001]);
    // A last line without an end stays unchanged, and CSV is cut as bytes.
    place.write("t.csv", b"a,b\n1,2\n3,4");
    place
        .run(&["split", "t.csv", "-b", "6", "-o", "p-{part}"])
        .ok();
    assert_eq!(parts(&place), [&b"a,b\n1,"[..], b"2\n3,4"]);
    place
        .run(&["split", "t.csv", "-b", "0", "-o", "p-{part}"])
        .fails(2, &["0"], "");
    place
        .run(&["split", "t.csv", "-b", "4", "-o", "p-{part}"])
        .ok();
    let again = place.run(&["split", "t.csv", "-b", "4", "-o", "p-{part}"]);
    again.fails(2, &["exists"], "--force");
    place
        .run(&["split", "t.csv", "-b", "4", "-o", "p-{part}", "--force"])
        .ok();
}

#[test]
fn each_part_of_csv_by_length_is_a_table_that_fits() {
    let place = TestDir::new();
    let mut text = "id,note\n".to_string();
    for row in 0..500 {
        let line = if row % 9 == 0 {
            "\"two\nlines\""
        } else {
            "one"
        };
        text.push_str(&format!("{row},{line}\n"));
    }
    let long = format!("500,{}\n", "x".repeat(2_000));
    text.push_str(&long);
    text.push_str("501,last\n");
    place.write("t.csv", text.as_bytes());
    place
        .run(&["split", "t.csv", "-C", "1000", "-o", "p-{part}.csv"])
        .ok();
    let found = parts(&place);
    let mut all = b"id,note\n".to_vec();
    for part in &found {
        let rows = part.strip_prefix(b"id,note\n").unwrap();
        assert!(
            part.len() <= 1000 || rows == long.as_bytes(),
            "{}",
            part.len()
        );
        all.extend_from_slice(rows);
    }
    assert!(all == text.as_bytes());
    assert!(found.len() > 5);
    place.run(&["convert", "t.csv", "-o", "in.parquet"]).ok();
    let tables = place.run(&["split", "in.parquet", "-C", "9", "-o", "p-{part}.parquet"]);
    tables.fails(2, &["--line-bytes", "lines"], "--by-lines");
}

#[test]
fn a_command_gets_each_part_with_its_name_and_the_header() {
    let place = TestDir::new();
    let rows: String = (0..100).map(|row| format!("{row},x\n")).collect();
    place.write("t.csv", format!("id,name\n{rows}").as_bytes());
    for (cut, count, digits) in [
        (["-n", "4"], 4, 2),
        (["-l", "30"], 4, 5),
        (["-C", "200"], 3, 5),
    ] {
        let filter = [
            "split",
            "t.csv",
            "--filter",
            "gzip -c > $FILE.gz",
            "-o",
            "p-{part}.csv",
        ];
        let done = place.run(&[&filter[..], &cut, &["--json"]].concat()).ok();
        let summary = done.event("summary");
        assert_eq!(summary["parts"].as_array().unwrap().len(), count, "{cut:?}");
        let mut all = String::new();
        for part in 0..count {
            let name = format!("p-{part:0digits$}.csv");
            assert_eq!(summary["parts"][part], name);
            let text = in_shell(&place, &format!("gzip -dc {name}.gz")).ok().text();
            all.push_str(text.strip_prefix("id,name\n").unwrap());
        }
        assert_eq!(all, rows, "{cut:?}");
        parts(&place);
    }
    // A command may end before its part does.
    let few = ["split", "t.csv", "-n", "2", "-o", "p-{part}"];
    let few = [&few[..], &["--filter", "head -n 1 > $FILE"]].concat();
    place.run(&few).ok();
    assert_eq!(parts(&place), [b"id,name\n", b"id,name\n"]);
}

#[test]
fn a_command_that_fails_stops_the_split_and_one_without_all_of_its_part_is_killed() {
    let place = TestDir::new();
    place.write("in", &text());
    let failing = ["split", "in", "-n", "3", "-o", "p-{part}", "--filter"];
    let failing = |command| place.run(&[&failing[..], &[command]].concat());
    failing("cat > /dev/null; test $FILE != p-01; exit $?").fails(
        3,
        &["p-01", "exit status: 1"],
        "correct the command",
    );
    failing("kill -9 $$").fails(3, &["p-00", "signal: 9"], "correct the command");
    failing("nosuchcommand").fails(3, &["exit status: 127"], "correct the command");
    // The input breaks off in the middle of a part, and the command of that part never sees its
    // end.
    let packed = place
        .run(&["head", "-n", "9000", "in", "-o", "whole.gz"])
        .ok();
    drop(packed);
    let whole = place.read("whole.gz");
    place.write("torn.gz", &whole[..whole.len() - 100]);
    let torn = ["split", "torn.gz", "-l", "1000000", "-o", "p-{part}"];
    let torn = [
        &torn[..],
        &["--filter", "cat > $FILE.tmp && mv $FILE.tmp $FILE"],
    ]
    .concat();
    assert_eq!(place.run(&torn).code, Some(4));
    assert!(!place.path("p-00000").exists());
}

#[test]
fn a_signal_ends_a_split_and_the_command_that_has_its_part() {
    let place = TestDir::new();
    place.write("in", &text());
    let command = "echo $$ > shell; sleep 1000; cat > $FILE";
    let split = [
        "split", "in", "-n", "2", "-o", "p-{part}", "--filter", command,
    ];
    let mut child = place.spawn(&split);
    wait_until("the command", || {
        std::fs::read(place.path("shell")).is_ok_and(|pid| pid.ends_with(b"\n"))
    });
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(130));
    let shell = String::from_utf8(place.read("shell")).unwrap();
    assert!(!std::path::Path::new("/proc").join(shell.trim()).exists());
    assert_eq!(place.names(), ["in", "shell"]);
}
