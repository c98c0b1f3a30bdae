//! Standard output that is full, for the tests of every command that prints.
//!
//! Contract: a command that is not in the caller's list fails the test.

use std::fs::{File, OpenOptions};

use crate::support::{Answer, TestDir};

/// How the test runs a command.
pub(crate) enum How {
    /// Runs the command with each of these groups of words after its name; each run prints.
    With(&'static [&'static str]),
    /// Prints only the help of the command, for this reason.
    Help(&'static str),
}

fn full() -> Option<File> {
    let full = OpenOptions::new().write(true).open("/dev/full").ok();
    if full.is_none() {
        println!("SKIP: no /dev/full here");
    }
    full
}

/// The names of the commands that do something, as they are typed.
pub(crate) fn commands_of(root: &clap::Command) -> Vec<String> {
    let mut found = Vec::new();
    leaves(root, "", &mut found);
    found
}

fn leaves(command: &clap::Command, name: &str, found: &mut Vec<String>) {
    let below = command.get_subcommands();
    let mut below = below
        .filter(|below| below.get_name() != "help" && !below.is_hide_set())
        .peekable();
    if below.peek().is_none() {
        found.push(name.trim().to_string());
    }
    for below in below {
        leaves(below, &format!("{name} {}", below.get_name()), found);
    }
}

/// Runs every command of the list with a full device in place of standard output.
pub(crate) fn check(known: &[String], commands: &[(&str, How)], place: &TestDir) {
    let Some(full) = full() else { return };
    let listed: Vec<&str> = commands.iter().map(|(name, _)| *name).collect();
    for name in known {
        assert!(
            listed.contains(&name.as_str()),
            "`{name}` is not in the list of this test"
        );
    }
    assert_eq!(known.len(), listed.len(), "{known:?}");
    let mut wrong = Vec::new();
    let mut run = |words: &[&str]| {
        let mut command = place.command(words);
        let answer = Answer::of(command.stdout(full.try_clone().unwrap()).output().unwrap());
        if answer.code != Some(5) || !answer.stderr.contains("No space left on device") {
            wrong.push(format!("{words:?}: {answer:?}"));
        }
    };
    run(&["--help"]);
    run(&["--version"]);
    for (name, how) in commands {
        let name: Vec<&str> = name.split(' ').collect();
        let lines = match how {
            How::With(lines) => lines,
            How::Help(why) => {
                assert!(!why.is_empty());
                &&["--help"][..]
            }
        };
        for line in *lines {
            run(&[&name[..], &line.split_whitespace().collect::<Vec<_>>()].concat());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
