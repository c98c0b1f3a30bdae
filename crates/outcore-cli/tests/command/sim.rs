//! The simulator behind `outcore sim`.
//!
//! Contract: what it computes is tested in its own crate; here, that the command reaches it and that
//! a run recorded by `sort` can be replayed on drives that nobody owns.

use crate::support::*;

#[test]
fn a_recorded_sort_is_replayed_on_other_drives() {
    let place = Place::new();
    place.write("in", &random_u64(1_000_000, 71));
    place
        .run(&[
            "sort",
            "in",
            "-o",
            "out",
            "--type",
            "u64",
            "--memory",
            "8MiB",
            "--record-io",
            "run.iotrace",
        ])
        .ok();
    let replay = |drives| {
        let replay = [
            "sim",
            "replay",
            "run.iotrace",
            "--preset",
            "p41",
            "--json",
            "--drives",
        ];
        let answer = place.run(&[&replay[..], &[drives]].concat()).ok();
        serde_json::from_str::<serde_json::Value>(&answer.text()).unwrap()
    };
    let (one, four) = (replay("1"), replay("4"));
    let moved = |summary: &serde_json::Value| summary["write_bytes"].as_u64().unwrap();
    assert!(moved(&one) > 8_000_000, "output and scratch");
    assert_eq!(moved(&one), moved(&four));
    assert_eq!(four["drives"].as_array().unwrap().len(), 4);
    let seconds = |summary: &serde_json::Value| summary["seconds"].as_f64().unwrap();
    assert!(seconds(&four) <= seconds(&one));
}

#[test]
fn a_drive_that_is_unknown_is_refused_with_a_way_on() {
    let place = Place::new();
    place
        .run(&["sim", "run", "--preset", "pm9a4"])
        .fails(2, &["pm9a4"], "pm9a3");
    place
        .run(&["sim", "replay", "missing", "--preset", "p41"])
        .fails(3, &["missing"], "");
}
