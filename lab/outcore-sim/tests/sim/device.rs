//! The engine on simulated drives: sorted bytes and virtual time, equal in every run.
//!
//! Contract: one thread and drives in memory, so that two runs agree to the nanosecond.
use std::path::PathBuf;
use std::sync::Arc;

use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::record::RecordFormat;
use outcore::sort::{SortOptions, sort};
use outcore::{Input, Output};
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::drive::{Device, FileSystem};
use outcore_sim::array::{ArrayConfig, ReplayReport};
use outcore_sim::device::SimDevice;
use outcore_sim::presets::preset;
use outcore_sim::quantities::Rate;

const RECORDS: u64 = 6 << 20;

/// Sorts 48 MiB with 24 MiB of memory and scratch on `drives` drives. Returns virtual seconds and
/// the report.
fn sort_on(drives: u32, link_bytes_per_s: u64) -> (f64, ReplayReport) {
    let ram = RamDevice::new(RamOptions {
        short_one_in: 0,
        ..RamOptions::default()
    });
    let mut bytes = Vec::new();
    let mut keys = Vec::new();
    let mut key = 1u64;
    for _ in 0..RECORDS {
        key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        keys.push(key);
        bytes.extend_from_slice(&key.to_le_bytes());
    }
    ram.put("/d0/in", bytes);
    let mut drive = preset("p41").unwrap().sized(4 << 30).unwrap();
    drive.host.pcie_lanes = 1;
    drive.host.pcie_lane_rate = Rate(link_bytes_per_s);
    let config = ArrayConfig::new(drive, drives);
    let device = Arc::new(SimDevice::new(Arc::new(ram.clone()), &config).unwrap());
    let scratch = (0..drives).map(|number| ScratchDrive {
        name: format!("d{number}"),
        dir: PathBuf::from(format!("/d{number}")),
        weight: 1.0,
        limit_bytes: u64::MAX,
    });
    let options = JobOptions {
        memory_bytes: 24 << 20,
        threads: 1,
        drives: scratch.collect(),
        seed: 3,
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::clone(&device) as _);
    let output = Output::File {
        path: PathBuf::from("/d0/out"),
        header: None,
    };
    let format = RecordFormat::parse_type("u64").unwrap();
    let inputs = [Input::raw(PathBuf::from("/d0/in"))];
    let summary = sort(&job, &inputs, output, &format, SortOptions::default()).unwrap();
    assert!(summary.scratch_bytes > 0);
    keys.sort_unstable();
    let expected: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    assert!(ram.get("/d0/out").unwrap() == expected, "not sorted");
    let seconds = device.now_ns() as f64 / 1e9;
    (seconds, device.report().unwrap())
}

#[test]
fn the_engine_sorts_on_simulated_drives_in_virtual_time() {
    let (seconds, report) = sort_on(1, 100_000_000);
    let data = (RECORDS * 8) as f64;
    // All data moves over a link of 100 MB/s in each direction; reads and writes may overlap.
    let least = 1.5 * data / 100e6;
    assert!(seconds > least && seconds < 4.5 * data / 100e6, "{seconds}");
    assert!(report.read_bytes as f64 > data && report.write_bytes as f64 > data);
    assert!(report.bottleneck.contains("link"), "{}", report.bottleneck);
    let (again, second) = sort_on(1, 100_000_000);
    assert_eq!(seconds.to_bits(), again.to_bits());
    assert_eq!(report.digest, second.digest);
    let (fast, _) = sort_on(1, 1_000_000_000);
    assert!(fast < seconds / 3.0, "{fast}");
}

#[test]
fn scratch_on_four_drives_is_faster_than_on_one() {
    let (one, _) = sort_on(1, 100_000_000);
    let (four, report) = sort_on(4, 100_000_000);
    assert!(four < one, "{four} {one}");
    assert!(report.drives.iter().all(|drive| drive.bytes > 0));
}

#[test]
fn more_file_systems_than_drives_are_refused() {
    let ram = RamDevice::new(RamOptions::default());
    let drive = preset("p41").unwrap().sized(4 << 30).unwrap();
    let device = SimDevice::new(Arc::new(ram), &ArrayConfig::new(drive, 1)).unwrap();
    let dirs = ["/d0", "/d1"].map(PathBuf::from);
    assert!(device.file_system(&dirs[0]).is_ok());
    let error = device.file_system(&dirs[1]).unwrap_err().to_string();
    assert!(error.contains("more than the 1 simulated"), "{error}");
}
