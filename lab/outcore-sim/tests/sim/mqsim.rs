//! Checks the model against MQSim: every fixture, and all reference runs if they are available.
//!
//! Contract: IOPS and mean response within 3 %, uncached logged runs within 0.5 %, p99 within 3 %.
//! A test whose reference data is missing prints that it skips.
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use outcore_sim::config::{Compat, DriveConfig};
use outcore_sim::drive::Op;
use outcore_sim::mqsim::{import_drive, import_workload};
use outcore_sim::run::{Outcome, RunOptions, run};
use outcore_sim::workload::{FlowConfig, List, ListItem, Origin, Sizes};
use serde_json::Value;

fn simulate(ssd: &Path, workload: &Path) -> (Outcome, Vec<FlowConfig>) {
    let mut warnings = Vec::new();
    let config = import_drive(ssd, Compat::Mqsim, &mut warnings).unwrap();
    let mut scenarios = import_workload(workload, Compat::Mqsim, &mut warnings).unwrap();
    let flows = scenarios.remove(0);
    (run(&config, &flows, &RunOptions::default()).unwrap(), flows)
}

fn off(seen: f64, expected: f64) -> f64 {
    (seen / expected - 1.0).abs()
}

#[test]
fn the_fixtures_come_out_as_in_mqsim() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mqsim");
    let text = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let mut rows = 0;
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let name = row["name"].as_str().unwrap();
        let file = |key: &str| folder.join(row[key].as_str().unwrap());
        let (outcome, _) = simulate(&file("ssd"), &file("workload"));
        let total = &outcome.summary.total;
        assert_eq!(Some(total.requests), row["requests"].as_u64(), "{name}");
        assert_eq!(
            Some(outcome.summary.lost_requests),
            row["lost"].as_u64(),
            "{name}"
        );
        // The whole run agrees to the nanosecond, not only within the required 3 %.
        assert_eq!(Some(total.sim_end_ns), row["sim_end_ns"].as_u64(), "{name}");
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(off(total.iops, number("iops")) < 1e-6, "{name}");
        assert!(
            off(total.mean_response_ns, number("mean_response_ns")) < 1e-6,
            "{name}"
        );
        assert!(
            off(total.mean_end_to_end_ns, number("mean_end_to_end_ns")) < 1e-6,
            "{name}"
        );
        rows += 1;
    }
    assert!(rows >= 12, "{rows}");
}

#[test]
fn either_reading_of_the_variable_that_mqsim_leaves_unset_may_be_chosen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mqsim");
    let mut warnings = Vec::new();
    let config = import_drive(&folder.join("ssd_00.xml"), Compat::Mqsim, &mut warnings).unwrap();
    let mut flows = import_workload(
        &folder.join("workload_00.xml"),
        Compat::Mqsim,
        &mut warnings,
    )
    .unwrap()
    .remove(0);
    let Origin::Synthetic(spec) = &mut flows[0].origin else {
        unreachable!("the fixture is a generator")
    };
    spec.sizes = Sizes::Normal {
        mean: 64,
        deviation: 8,
    };
    spec.requests = 100;
    let sizes = |config: &DriveConfig| {
        let options = RunOptions {
            keep_log: true,
            ..RunOptions::default()
        };
        let log = run(config, &flows, &options).unwrap().log;
        log.iter().map(|done| done.sectors).collect::<Vec<u32>>()
    };
    let mean = sizes(&config);
    let drawn = sizes(&config.set("mqsim_normal", "drawn").unwrap());
    assert_eq!(mean[0], 64, "the mean");
    assert_ne!(drawn[0], 64);
    assert_eq!(mean[1..], drawn[..99], "and then the same stream");
    assert!(config.set("mqsim_normal", "zero").is_err());
}

fn reference() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/mqsim");
    if root.join("expected.jsonl").exists() {
        return Some(root);
    }
    println!("SKIP: {} is not there", root.display());
    None
}

fn expected(root: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(root.join("expected.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row))
        .collect()
}

fn compare_half(half: usize) {
    let Some(root) = reference() else { return };
    for (at, (name, row)) in expected(&root).iter().enumerate() {
        if at % 2 != half {
            continue;
        }
        let folder = root.join(name);
        let (outcome, _) = simulate(&folder.join("ssdconfig.xml"), &folder.join("workload.xml"));
        let total = &outcome.summary.total;
        let number = |key: &str| row[key][0].as_f64().unwrap();
        let iops = off(total.iops, number("Exact_IOPS"));
        let mean = off(
            total.mean_response_ns,
            number("Exact_Mean_Device_Response_ns"),
        );
        assert!(
            iops < 1e-6 && mean < 1e-6,
            "{name}: IOPS off by {iops}, mean by {mean}"
        );
    }
}

#[test]
fn every_other_reference_run_is_matched() {
    compare_half(0);
}

#[test]
fn the_other_half_of_the_reference_runs_is_matched() {
    compare_half(1);
}

/// One line of a request log: op, sector, sectors, enqueued, completed.
type Logged = (Op, u64, u32, u64, u64);

fn request_log(path: &Path) -> Vec<Logged> {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let mut log: Vec<Logged> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let op = if fields[1] == "R" {
                Op::Read
            } else {
                Op::Write
            };
            let number = |at: usize| fields[at].parse::<u64>().unwrap();
            (op, number(2), number(3) as u32, number(5), number(6))
        })
        .collect();
    log.sort_by_key(|entry| entry.3);
    log
}

#[test]
fn logged_requests_fed_in_order_give_iops_mean_and_tail() {
    let Some(root) = reference() else { return };
    for (name, row) in expected(&root) {
        if !name.starts_with("val_") {
            continue;
        }
        let folder = root.join(&name);
        let log = request_log(&folder.join("reqlog.csv.gz"));
        let mut warnings = Vec::new();
        let config =
            import_drive(&folder.join("ssdconfig.xml"), Compat::Mqsim, &mut warnings).unwrap();
        let workload = folder.join("workload.xml");
        let mut flows = import_workload(&workload, Compat::Mqsim, &mut warnings)
            .unwrap()
            .remove(0);
        let depth: u32 = name.rsplit_once("_q").unwrap().1.parse().unwrap();
        let items = log
            .iter()
            .map(|(op, lba, sectors, at, _)| ListItem {
                at: *at,
                op: *op,
                lba: *lba,
                sectors: *sectors,
            })
            .collect();
        flows[0].origin = Origin::List(List {
            items,
            depth,
            rounds: 1,
            file: None,
        });
        let outcome = run(&config, &flows, &RunOptions::default()).unwrap();
        let total = &outcome.summary.total;
        let number = |key: &str| row[key][0].as_f64().unwrap();
        let within = if name.contains("_cache") { 0.03 } else { 0.005 };
        let iops = off(total.iops, number("Exact_IOPS"));
        let mean = off(
            total.mean_response_ns,
            number("Exact_Mean_Device_Response_ns"),
        );
        assert!(
            iops < within && mean < within,
            "{name}: IOPS off by {iops}, mean by {mean}"
        );
        let mut responses: Vec<u64> = log.iter().map(|entry| entry.4 - entry.3).collect();
        responses.sort_unstable();
        let p99 = responses[(responses.len() as f64 * 0.99) as usize] as f64;
        let tail = off(total.p99_response_ns as f64, p99);
        assert!(tail < 0.03, "{name}: p99 off by {tail}");
    }
}
