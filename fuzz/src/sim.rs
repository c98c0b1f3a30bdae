//! Checks of the fuzz targets for the simulator's parsers. A panic also fails each of them.
//!
//! Contract: each function takes arbitrary bytes. A drive that is accepted can be written and read
//! again; a workload that is accepted gives flows; an access pattern that is accepted gives
//! requests of whole sectors; a graph that is accepted has requests that can be replayed (the check
//! replays nothing, because building a drive for each input would take too long).
//! `lab/outcore-sim/tests/sim/mutations.rs` checks the same on damaged files without a fuzzer.

use std::path::Path;

use outcore_sim::array::read_trace;
use outcore_sim::calibrate::read_targets;
use outcore_sim::config::{Compat, DriveConfig};
use outcore_sim::gpu::pattern::{parse_access, read_pages};
use outcore_sim::gpu::{GpuConfig, Workload};
use outcore_sim::mqsim::{ascii_trace_from_text, drive_from_text, workload_from_text};
use outcore_sim::workload_file::WorkloadFile;

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// A drive as TOML.
pub fn drive(data: &[u8]) {
    if let Ok(config) = DriveConfig::from_toml(&text(data))
        && let Ok(again) = config.to_toml()
    {
        assert!(DriveConfig::from_toml(&again).is_ok(), "{again}");
    }
}

/// A workload as TOML.
pub fn workload(data: &[u8]) {
    if let Ok(file) = WorkloadFile::from_toml(&text(data)) {
        assert!(file.flows().is_ok());
    }
}

/// MQSim's drive, workload and trace.
pub fn mqsim(data: &[u8]) {
    let text = text(data);
    for compat in [Compat::None, Compat::Mqsim] {
        let mut warnings = Vec::new();
        let path = Path::new("fuzz.xml");
        let _ = drive_from_text(path, &text, compat, &mut warnings);
        let _ = workload_from_text(path, &text, compat, &mut warnings);
    }
    let _ = ascii_trace_from_text(&text);
}

/// A graph of requests.
pub fn graph(data: &[u8]) {
    if let Ok(requests) = read_trace(&text(data)) {
        assert!(requests.iter().all(|request| request.bytes > 0));
    }
}

/// Measured drives.
pub fn probe(data: &[u8]) {
    if let Ok(targets) = read_targets(&text(data)) {
        assert!(!targets.is_empty());
    }
}

/// A page-access trace.
pub fn pages(data: &[u8]) {
    if let Ok(pages) = read_pages(&text(data)) {
        assert!(pages.is_sorted_by_key(|page| (page.kernel, page.block)));
        assert!(pages.iter().all(|page| page.request().count > 0));
    }
}

/// An access pattern as on the command line.
pub fn access(data: &[u8]) {
    if let Ok(access) = parse_access(&text(data)) {
        for block in [0, 1, u64::from(u32::MAX)] {
            for index in [0, access.count - 1] {
                assert!(access.request(block, index, 7).count > 0);
            }
        }
    }
}

/// A workload of a GPU.
pub fn gpu(data: &[u8]) {
    if let Ok(workload) = Workload::from_json(&text(data)) {
        for kernel in &workload.kernels {
            let _ = GpuConfig::default().block_ps(kernel);
        }
    }
}
