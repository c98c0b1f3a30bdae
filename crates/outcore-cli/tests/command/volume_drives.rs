//! Drives join and leave a volume, and datasets move, also while the command is killed anywhere.
//!
//! Contract: as in `volume`.

use std::fs;
use std::time::Instant;

use crate::support::*;
use crate::volume::{run, volume_with};

/// A volume with two datasets of the file `in`, and a directory for another drive.
fn place_with(options: &[&str], numbers: usize) -> TestDir {
    let place = volume_with(
        TestDir::in_memory(),
        &[&["--stripe", "64KiB"], options].concat(),
    );
    place.write("in", &random_u64(numbers, 4));
    for name in ["@x", "@y"] {
        run(&place, &["volume", "put", "in", name]).ok();
    }
    place.make_dir("d3");
    place
}

fn is_right(place: &TestDir, case: &str) {
    for name in ["@x", "@y"] {
        run(place, &["volume", "get", name, "out", "--force"]).ok();
        assert!(place.read("out") == place.read("in"), "{case} {name}");
    }
}

fn status(place: &TestDir) -> serde_json::Value {
    run(place, &["volume", "status", "--json"])
        .ok()
        .event("summary")
}

fn drives_of(place: &TestDir) -> String {
    String::from_utf8(place.read("drives.toml")).unwrap()
}

#[test]
fn a_drive_joins_gets_its_share_and_leaves() {
    for options in [&["--parity", "1"][..], &["--mirror"], &[]] {
        let place = place_with(options, 400_000);
        place.make_dir("tree/sub");
        place.write("tree/sub/a", b"small");
        place.write("tree/b", &place.read("in"));
        run(&place, &["volume", "put", "tree", "@tree"]).ok();
        let is_tree_right = || {
            let got = run(&place, &["volume", "get", "@tree/sub/a", "-"]).ok();
            assert_eq!(got.stdout, b"small");
            run(&place, &["volume", "get", "@tree/b", "out", "--force"]).ok();
            assert!(place.read("out") == place.read("in"));
        };
        let told = run(&place, &["volume", "add", "d3"]).ok();
        let advice = "volume rebalance` moves 3 datasets";
        assert!(told.stderr.contains(advice), "{told:?}");
        let listed = drives_of(&place);
        assert!(listed.contains("/d3\""), "{listed}");
        let before = status(&place);
        assert_eq!(before["unequal"], 3);
        assert_eq!(before["members"], 4);
        is_right(&place, "added");
        let told = run(&place, &["volume", "rebalance", "--json"]).ok();
        let summary = told.event("summary");
        assert_eq!(summary["moved"], 3);
        assert!(
            summary["moved_bytes"].as_u64() > Some(9_600_000),
            "{summary}"
        );
        assert_eq!(status(&place)["unequal"], 0);
        is_right(&place, "moved");
        is_tree_right();
        run(&place, &["volume", "scrub"]).ok();
        let told = run(&place, &["volume", "remove", "d1"]).ok();
        assert!(told.stderr.contains("3 datasets"), "{told:?}");
        let listed = drives_of(&place);
        assert!(!listed.contains("d1"), "{listed}");
        assert_eq!(names_in(&place.path("d1")), [""; 0]);
        is_tree_right();
        is_right(&place, "removed");
        run(&place, &["volume", "scrub"]).ok();
        run(&place, &["volume", "put", "in", "@z"]).ok();
        run(&place, &["volume", "remove", "d1"]).fails(2, &["no drive `d1`"], "d0, d2, d3");
    }
}

#[test]
fn status_tells_what_a_lost_drive_would_cost() {
    let place = place_with(&[], 100_000);
    let told = run(&place, &["volume", "status"]).ok();
    assert!(
        told.stderr.contains("2 datasets without redundancy"),
        "{told:?}"
    );
    let risks = |place: &TestDir| -> Vec<String> {
        let events = run(place, &["volume", "status", "--json"]).ok().events();
        let risks = events.iter().filter(|event| event["event"] == "risk");
        risks
            .map(|event| event["risk"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(risks(&place), ["single", "single"]);
    let place = place_with(&["--parity", "1"], 100_000);
    assert_eq!(risks(&place), ["none", "none"]);
    let data = place.path("d1/outcore-volume/data");
    let share = fs::read_dir(&data).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(share).unwrap();
    let told = run(&place, &["volume", "status"]).ok();
    assert!(
        told.text().contains("without its part on d1: at risk"),
        "{told:?}"
    );
    let mut found = risks(&place);
    found.sort();
    assert_eq!(found, ["incomplete", "none"]);
    fs::rename(place.path("d2"), place.path("away")).unwrap();
    let mut found = risks(&place);
    found.sort();
    assert_eq!(found, ["incomplete", "unreadable"]);
}

#[test]
fn a_dead_drive_is_removed_and_the_others_can_be_written() {
    let place = place_with(&["--parity", "1"], 100_000);
    run(&place, &["volume", "add", "d3"]).ok();
    run(&place, &["volume", "rebalance"]).ok();
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    run(&place, &["volume", "put", "in", "@z"]).fails(3, &["d1"], "volume replace");
    run(&place, &["volume", "remove", "d0"]).fails(3, &["d1"], "volume replace");
    run(&place, &["volume", "remove", "d1"]).ok();
    is_right(&place, "removed");
    run(&place, &["volume", "put", "in", "@z"]).ok();
    run(&place, &["volume", "scrub"]).ok();
    // Without redundancy, no other drive has the contents of this one.
    let place = place_with(&[], 100_000);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    run(&place, &["volume", "remove", "d1"]).fails(4, &["@x cannot be read", "d1"], "give up");
    run(&place, &["volume", "remove", "d1", "--force"]).fails(4, &["2 datasets given up"], "put");
    run(&place, &["volume", "put", "in", "@x"]).ok();
    run(&place, &["volume", "scrub"]).ok();
}

#[test]
fn room_is_checked_before_anything_moves() {
    let place = place_with(&[], 100_000);
    let text =
        drives_of(&place).replace("dir = \"d0\"", "dir = \"d0\"\ncapacity_limit = \"128KiB\"");
    let text = text.replace("dir = \"d2\"", "dir = \"d2\"\ncapacity_limit = \"128KiB\"");
    place.write("drives.toml", text.as_bytes());
    let told = run(&place, &["volume", "remove", "d1"]);
    told.fails(5, &["no room", "@x"], "add a drive");
    assert!(!status(&place)["members"].is_null());
    let told = run(&place, &["volume", "status"]).ok();
    assert!(!told.text().contains("leaving"), "{told:?}");
    is_right(&place, "refused");
}

#[test]
fn a_limit_keeps_the_rate_of_each_pass_below_it() {
    let place = place_with(&["--parity", "1"], 100_000);
    let timed = |words: &[&str]| {
        let start = Instant::now();
        run(&place, &[words, &["--limit", "4MB/s"]].concat()).ok();
        start.elapsed().as_secs_f64()
    };
    // Two datasets of 800 kB.
    assert!(timed(&["volume", "scrub"]) > 0.4);
    run(&place, &["volume", "add", "d3"]).ok();
    assert!(timed(&["volume", "rebalance"]) > 0.4);
    assert!(timed(&["volume", "remove", "d3"]) > 0.4);
    place.make_dir("new");
    assert!(timed(&["volume", "replace", "d1", "new"]) > 0.15);
    is_right(&place, "limited");
}

#[test]
fn what_is_killed_anywhere_is_whole_and_goes_on() {
    for (options, words) in [
        (&["--parity", "1"][..], &["volume", "add", "d3"][..]),
        (&[], &["volume", "rebalance"]),
        (&["--mirror"], &["volume", "remove", "d1"]),
        (&[], &["volume", "remove", "d0"]),
        (&["--parity", "1"], &["volume", "remove", "dead"]),
    ] {
        let mut kills = 0;
        let step = if words[1] == "remove" { 4 } else { 1 };
        for nth in (1..).step_by(step) {
            let case = format!("{words:?} {nth}");
            let numbers = if words[1] == "rebalance" {
                200_000
            } else {
                40_000
            };
            let place = place_with(options, numbers);
            let mut words = words.to_vec();
            if words[1] != "add" {
                run(&place, &["volume", "add", "d3"]).ok();
            }
            if words.get(2) == Some(&"dead") {
                fs::remove_dir_all(place.path("d2")).unwrap();
                words[2] = "d2";
            }
            words.extend(["--volume", "drives.toml"]);
            let mut command = place.command(&words);
            command.env("OUTCORE_FAULT", format!("kill@{nth}"));
            let answer = Answer::of(command.output().unwrap());
            is_right(&place, &case);
            if answer.code == Some(0) {
                break;
            }
            assert_eq!(answer.code, None, "{answer:?}");
            kills += 1;
            let again = place.run(&words);
            // If the drive is gone, the killed command had only to remove it from the drives file.
            let is_done = again.code == Some(2) && again.stderr.contains("has no drive");
            assert!(again.code == Some(0) || is_done, "{case}: {again:?}");
            is_right(&place, &case);
            run(&place, &["volume", "scrub"]).ok();
            run(&place, &["volume", "put", "in", "@z"]).ok();
        }
        assert!(kills > 3, "{words:?}: {kills}");
    }
}
