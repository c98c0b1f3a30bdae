//! `outcore bench` and `outcore replay`: reports in every format, and nothing left on the drives.
//!
//! Contract: the measurements are tested in their own crate. These tests check that the command
//! reaches them, that its files are written and parse, and that a signal leaves directories as they
//! were.

use rustix::process::{Pid, Signal, kill_process};

use crate::outcore;
use crate::support::*;

#[test]
fn a_report_is_shown_and_written_in_every_form_and_nothing_else_stays() {
    let place = TestDir::new();
    place.make_dir("drive");
    let bench = [
        "bench", "io", "drive", "--time", "300ms", "--size", "8MiB", "-o", "r.html", "-o",
        "r.json", "-o", "r.csv", "--charts", ".",
    ];
    let answer = place.run(&bench).ok();
    let text = answer.text();
    assert!(
        text.contains("== Block sizes ==") && text.contains("Recommended"),
        "{text}"
    );
    assert!(names_in(&place.path("drive")).is_empty());
    let html = String::from_utf8(place.read("r.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg"));
    let json: serde_json::Value = serde_json::from_slice(&place.read("r.json")).unwrap();
    assert_eq!(json["command"], "bench io");
    assert!(
        place.names().contains(&"blocks.svg".to_owned()),
        "{:?}",
        place.names()
    );
    place.run(&bench).fails(2, &["exists", "r.html"], "--force");
    let forced = [&bench[..], &["--force", "--json"]].concat();
    let summary = place.run(&forced).ok().event("summary");
    assert_eq!(summary["report"]["v"], 1);
    assert!(summary["files"].as_array().unwrap().len() > 3);
}

#[test]
fn a_signal_stops_a_measurement_and_leaves_nothing() {
    let place = TestDir::new();
    place.make_dir("drive");
    let mut child = place.spawn(&["bench", "io", "drive", "--time", "1h", "--size", "64MiB"]);
    wait_until("the file", || !names_in(&place.path("drive")).is_empty());
    std::thread::sleep(std::time::Duration::from_millis(100));
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(130));
    assert!(names_in(&place.path("drive")).is_empty());
}

#[test]
fn a_trace_is_summed_up_and_replayed() {
    let place = TestDir::new();
    place.make_dir("drive");
    let spc = "0,303568,3584,w,0.0\n0,damaged\n0,55590,512,r,0.026\n0,8,8192,R,0.05\n";
    place.write("trace", spc.as_bytes());
    let answer = place.run(&["replay", "trace", "--summary"]).ok();
    let row = "| trace | 66.67 | 512B - 8KB | 0.00 |";
    assert!(answer.text().contains(row), "{answer:?}");
    assert!(answer.text().contains("damaged"), "{answer:?}");
    let replay = [
        "replay", "trace", "--on", "drive", "--size", "8MiB", "--json",
    ];
    let report = &place.run(&replay).ok().event("summary")["report"];
    assert_eq!(report["command"], "replay");
    assert!(names_in(&place.path("drive")).is_empty());
    place
        .run(&["replay", "trace", "--on", "trace"])
        .fails(2, &["trace"], "");
    place.run(&["replay", "trace"]).fails(2, &["--on"], "");
}

#[test]
fn what_a_sort_recorded_is_replayed_on_a_directory() {
    let place = TestDir::new();
    place.make_dir("drive");
    let Some(outcore) = outcore() else { return };
    place.write("in", &random_u64(500_000, 71));
    outcore
        .run(
            &place,
            &[
                "sort",
                "in",
                "-o",
                "out",
                "--type",
                "u64",
                "--memory",
                "8MiB",
                "--record-io",
                "t.iotrace",
            ],
        )
        .ok();
    let replay = [
        "replay",
        "t.iotrace",
        "--on",
        "drive",
        "--size",
        "16MiB",
        "--json",
    ];
    let report = &place.run(&replay).ok().event("summary")["report"];
    let trace = &report["sections"].as_array().unwrap().last().unwrap()["tables"][0];
    assert!(trace["rows"][0][5].as_f64().unwrap() > 10.0, "{trace}");
}

#[test]
fn a_file_in_place_of_a_directory_is_rejected_by_its_name() {
    let place = TestDir::new();
    place.write("in", b"1");
    place
        .run(&["bench", "sort", "in"])
        .fails(2, &["a file was given", "(in)"], "name a directory");
}

#[test]
fn a_file_that_is_too_small_to_measure_with_is_named_as_such() {
    let place = TestDir::new();
    for size in ["0", "1MiB"] {
        let answer = place.run(&["bench", "io", ".", "--size", size]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(
            answer.stderr.contains("use --size 4MiB or more"),
            "{answer:?}"
        );
    }
}
