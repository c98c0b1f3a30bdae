//! `bench`, `replay` and `sim`, which the program `outcore-lab` has.
//!
//! Contract: the command starts a script of the test in place of `outcore-lab`. The tests of
//! `outcore-lab` start the program itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::PROGRAM;
use crate::support::*;

/// The commands that `outcore-lab` has.
pub(crate) const COMMANDS: [&str; 3] = ["bench", "replay", "sim"];

/// Prints its place and its arguments, and ends with an exit code of its own.
const SCRIPT: &str = "#!/bin/sh\necho \"$0\"\nfor word; do echo \"<$word>\"; done\n\
                      echo \"$OUTCORE_MEMORY\"\n/bin/cat\necho heard >&2\nexit 77\n";

/// A new folder with only `outcore` in it.
fn folder() -> tempfile::TempDir {
    // The folder is on the file system of the command, so a link is enough.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = folder.path().join("outcore");
    if fs::hard_link(PROGRAM, &copy).is_err() {
        fs::copy(PROGRAM, &copy).unwrap();
    }
    folder
}

fn script(folder: &Path) -> PathBuf {
    let path = folder.join("outcore-lab");
    fs::write(&path, SCRIPT).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

/// `outcore` of a folder, with these folders as `PATH`.
fn run(place: &TestDir, folder: &Path, path: &Path, words: &[&str], input: &[u8]) -> Answer {
    place.write("input", input);
    let mut command: Command = place.command_of(folder.join("outcore"), words);
    command
        .env("PATH", path)
        .env("OUTCORE_MEMORY", "64MiB")
        .stdin(fs::File::open(place.path("input")).unwrap());
    // A script that was just written may still be open in a child of another test.
    loop {
        let answer = Answer::of(command.output().unwrap());
        if !answer.stderr.contains("Text file busy") {
            return answer;
        }
    }
}

#[test]
fn words_streams_environment_and_exit_code_are_those_of_the_lab() {
    let place = TestDir::new();
    let nowhere = place.make_dir("nowhere");
    let (with_lab, alone, on_path) = (folder(), folder(), folder());
    let beside = script(with_lab.path());
    let found = script(on_path.path());
    for (from, path, script) in [
        // Next to the command first.
        (with_lab.path(), on_path.path(), &beside),
        (with_lab.path(), &nowhere, &beside),
        (alone.path(), on_path.path(), &found),
    ] {
        for words in [
            &["sim", "run", "--json", "", "two words", "--help"][..],
            &["--json", "-q", "--color", "never", "bench", "io"],
            &["help", "replay"],
        ] {
            let answer = run(&place, from, path, words, b"input\n");
            assert_eq!(answer.code, Some(77), "{answer:?}");
            assert_eq!(answer.stderr, "heard\n");
            let words = words.iter().map(|word| format!("<{word}>\n"));
            let words = words.collect::<Vec<_>>().concat();
            let script = script.display();
            assert_eq!(answer.text(), format!("{script}\n{words}64MiB\ninput\n"));
        }
    }
}

#[test]
fn where_there_is_no_lab_the_error_says_what_it_is_and_how_to_get_it() {
    let place = TestDir::new();
    let (alone, nowhere) = (folder(), place.make_dir("nowhere"));
    for words in [
        &["sim", "presets"][..],
        &["-q", "bench", "io", "."],
        &["help", "sim"],
        &["replay", "--help"],
    ] {
        run(&place, alone.path(), &nowhere, words, b"").fails(
            2,
            &["outcore-lab", "bench, replay and sim", "not installed"],
            "make install",
        );
    }
    let words = ["--json", "sim", "run"];
    let answer = run(&place, alone.path(), &nowhere, &words, b"");
    assert_eq!(answer.event("error")["exit_code"], 2);
    // Everything else works, and help names the commands.
    let help = run(&place, alone.path(), &nowhere, &["--help"], b"").ok();
    for name in COMMANDS {
        assert!(help.text().contains(&format!("  {name} ")), "{help:?}");
    }
}

#[test]
fn completions_know_the_commands_of_the_lab_and_what_is_below_them() {
    let place = TestDir::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).ok().text();
        // Clap's scripts for fish do not list the possible values of operands.
        let below = [&["primitives", "activesort"][..], &[]][usize::from(shell == "fish")];
        for name in COMMANDS.iter().chain(below) {
            assert!(script.contains(name), "{name} in {shell}");
        }
    }
}
