//! The events of `--json`: one object per line, with the keys that programs rely on.
//!
//! Contract: every command ends with a summary that has the same keys.

use std::io::{BufRead, BufReader, Write};

use serde_json::Value;

use crate::support::*;

const SUMMARY_KEYS: [&str; 8] = [
    "records",
    "seconds",
    "read_bytes",
    "written_bytes",
    "cpu_seconds",
    "peak_rss_bytes",
    "passes",
    "bandwidth_fraction",
];

#[track_caller]
fn is_event(event: &Value, command: &str) {
    assert_eq!(event["v"], 1, "{event}");
    assert_eq!(event["command"], command, "{event}");
    assert!(event["event"].is_string(), "{event}");
}

#[test]
fn every_command_ends_with_a_summary() {
    let place = TestDir::new();
    place.write("in", &random_u64(1000, 101));
    place.write("lines", b"b\na\n");
    let commands: [&[&str]; 16] = [
        &["sort", "lines", "-o", "sorted"],
        &["unique", "lines", "--count", "-o", "counted"],
        &["shuffle", "lines", "-o", "shuffled"],
        &["split", "lines", "-n", "2", "-o", "part-{part}"],
        &["head", "lines", "-o", "some"],
        &["sample", "-n", "1", "lines", "-o", "one"],
        &["sort", "in", "-o", "out", "--type", "u64"],
        &["sort", "in", "--type", "u64", "--dry-run"],
        &["sort", "out", "--type", "u64", "--check"],
        &["gen", "u32", "-n", "77", "-o", "made"],
        &["verify", "out", "--type", "u64", "--against", "in"],
        &["scratch", "list"],
        &["scratch", "clean"],
        &["config", "show"],
        &["man", "."],
        &["demo", "--size", "1MiB", "--memory", "32MiB"],
    ];
    for command in commands {
        let answer = place.run(&[command, &["--json"]].concat()).ok();
        assert!(answer.stderr.is_empty(), "{answer:?}");
        let events = answer.events();
        events.iter().for_each(|event| is_event(event, command[0]));
        let summary = events.last().unwrap();
        assert_eq!(summary["event"], "summary", "{command:?}");
        for key in SUMMARY_KEYS {
            assert!(
                summary.get(key).is_some(),
                "{command:?}: no {key} in {summary}"
            );
        }
        assert!(summary["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
        assert!(summary["cpu_seconds"].as_f64().unwrap() > 0.0);
    }
    let answer = place.run(&["completions", "zsh", "--json"]).ok();
    let summary = &parse_events(&answer.stderr)[0];
    assert_eq!(summary["event"], "summary");
}

/// Every key of an event, including those inside others.
fn keys_of(event: &Value, keys: &mut Vec<String>) {
    match event {
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.push(key.clone());
                keys_of(value, keys);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys_of(value, keys)),
        _ => {}
    }
}

#[test]
fn every_key_of_every_event_is_in_the_documentation() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let place = TestDir::new();
    place.write("in", &random_u64(300_000, 105));
    place.write("lines", b"b\na\n");
    let commands: [&[&str]; 15] = [
        &["sort", "lines", "-o", "sorted"],
        &["unique", "lines", "--count", "-o", "counted"],
        &["shuffle", "lines", "-o", "shuffled"],
        &["split", "lines", "-n", "2", "-o", "part-{part}"],
        &["head", "lines", "-o", "some"],
        &["sample", "-n", "1", "lines", "-o", "one"],
        &[
            "sort",
            "in",
            "-o",
            "out",
            "--type",
            "u64",
            "--record-io",
            "t",
        ],
        &["sort", "in", "--type", "u64", "--dry-run"],
        &["sort", "missing", "-o", "x", "--type", "u64"],
        &["gen", "u32", "-n", "77", "-o", "made"],
        &["verify", "out", "--type", "u64", "--against", "in"],
        &["scratch", "list"],
        &["config", "show"],
        &["man", "."],
        &["demo", "--size", "1MiB", "--memory", "32MiB"],
    ];
    for command in commands {
        let answer = place.run(&[command, &["--json"]].concat());
        let mut keys = Vec::new();
        let events = answer.events();
        assert!(!events.is_empty());
        events.iter().for_each(|event| keys_of(event, &mut keys));
        for key in keys {
            assert!(page.contains(&format!("`{key}`")), "{key} of {command:?}");
        }
    }
}

#[test]
fn a_sort_tells_what_it_will_do_and_what_it_did() {
    let place = TestDir::new();
    place.write("in", &random_u64(1_000_000, 103));
    let sort = [
        "sort", "in", "-o", "out", "--type", "u64", "--memory", "10MiB", "--json",
    ];
    let answer = place.run(&sort).ok();
    let begin = answer.event("begin");
    assert_eq!(begin["type"], "u64");
    assert_eq!(begin["records"], 1_000_000);
    assert_eq!(begin["data_bytes"], 8_000_000);
    assert_eq!(begin["memory_bytes"], 10 << 20);
    assert_eq!(begin["inputs"][0], "in");
    let summary = answer.event("summary");
    assert_eq!(summary["records"], 1_000_000);
    assert_eq!(summary["passes"], begin["plan"]["passes"]);
    assert!(summary["read_bytes"].as_u64().unwrap() >= 8_000_000);
    assert!(summary["written_bytes"].as_u64().unwrap() >= 8_000_000);
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    let names: Vec<&str> = summary["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"distribute") && names.contains(&"publish"),
        "{names:?}"
    );
    let sum = |key: &str| {
        let phases = summary["phases"].as_array().unwrap().iter();
        phases
            .map(|phase| phase[key].as_u64().unwrap_or(0))
            .sum::<u64>()
    };
    assert_eq!(sum("read_bytes"), summary["read_bytes"].as_u64().unwrap());
    assert_eq!(
        sum("written_bytes"),
        summary["written_bytes"].as_u64().unwrap()
    );
    let plan = &summary["plan"];
    assert_eq!(plan["predicted_read_bytes"], sum("predicted_read_bytes"));
    assert_eq!(
        plan["predicted_written_bytes"],
        sum("predicted_written_bytes")
    );
    assert!(plan["rates"]["origin"].is_string() && plan["rates"]["read_bytes_per_s"].is_number());
    assert!(!summary["drives"].as_array().unwrap().is_empty());
}

#[test]
fn memory_stays_within_64_mib_of_what_was_allowed() {
    let place = TestDir::new();
    place.write("in", &random_u64(6_000_000, 107));
    let sort = [
        "sort", "in", "-o", "out", "--type", "u64", "--memory", "64MiB", "--json",
    ];
    let rss_bytes = place.run(&sort).ok().event("summary")["peak_rss_bytes"]
        .as_u64()
        .unwrap();
    assert!(rss_bytes <= 128 << 20, "{rss_bytes}");
}

#[test]
fn an_error_is_an_event_too() {
    let place = TestDir::new();
    let answer = place.run(&["sort", "missing", "-o", "out", "--type", "u64", "--json"]);
    assert_eq!(answer.code, Some(3));
    let error = answer.event("error");
    is_event(&error, "sort");
    assert_eq!(error["kind"], "io");
    assert_eq!(error["exit_code"], 3);
    assert_eq!(error["path"], "missing");
    assert_eq!(error["errno"], 2);
    assert!(error["hint"].is_string() && error["message"].is_string());
    let answer = place.run(&["sort", "--frobnicate", "--json"]);
    assert_eq!(answer.code, Some(2));
    assert_eq!(answer.event("error")["kind"], "usage");
}

#[test]
fn a_long_job_tells_its_progress() {
    let place = TestDir::new();
    // A wait for input counts as work, and lasts as long as the test needs.
    let mut child = place.spawn(&["sort", "-", "-o", "out", "--type", "u64", "--json"]);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&random_u64(1000, 109)).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut events = lines.map(|line| parse_events(&line.unwrap()).remove(0));
    let progress = events.find(|event| event["event"] == "progress").unwrap();
    is_event(&progress, "sort");
    assert_eq!(progress["phase"], "read input");
    for key in [
        "done_bytes",
        "total_bytes",
        "read_bytes",
        "written_bytes",
        "seconds",
        "eta_seconds",
        "slowest_drive",
    ] {
        assert!(progress.get(key).is_some(), "{progress}");
    }
    drop(stdin);
    assert_eq!(events.last().unwrap()["event"], "summary");
    assert_eq!(wait_for(&mut child).code(), Some(0));
}
