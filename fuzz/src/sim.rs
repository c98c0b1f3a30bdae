//! What the fuzz targets of the simulator's parsers check, beyond that nothing panics.
//!
//! Contract: each function takes arbitrary bytes. A drive that is accepted can be written and read
//! again; a workload that is accepted gives flows; a graph that is accepted has requests that can
//! be replayed (it is not: building a drive for each input would take too long).

use std::path::Path;

use outcore_sim::array::read_trace;
use outcore_sim::calibrate::read_targets;
use outcore_sim::config::{Compat, DriveConfig};
use outcore_sim::mqsim::{drive_from_text, workload_from_text};
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

/// MQSim's drive and workload.
pub fn mqsim(data: &[u8]) {
    let text = text(data);
    for compat in [Compat::None, Compat::Mqsim] {
        let mut warnings = Vec::new();
        let path = Path::new("fuzz.xml");
        let _ = drive_from_text(path, &text, compat, &mut warnings);
        let _ = workload_from_text(path, &text, compat, &mut warnings);
    }
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
