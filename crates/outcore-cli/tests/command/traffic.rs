//! Bytes that a recorded trace accounts for.
//!
//! Contract: traces are read with the reader of `outcore-traces`, and are whole.

use std::collections::BTreeMap;
use std::path::Path;

use outcore_traces::io_trace::{Entry, IoOp, Reader};

/// Bytes read and written by the name of the drive.
pub(crate) fn traffic(trace: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut reader = Reader::open(trace).unwrap();
    let names: Vec<String> = reader
        .header()
        .drives
        .iter()
        .map(|drive| drive.name.clone())
        .collect();
    assert!(reader.header().program.starts_with("outcore "));
    let mut traffic: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for entry in &mut reader {
        let Entry::Request(record) = entry.unwrap() else {
            continue;
        };
        assert!(!record.is_failed);
        let bytes = u64::from(record.len_bytes);
        let Some(name) = names.get(usize::from(record.drive)) else {
            assert_eq!(bytes, 0, "{record:?} is on no drive");
            continue;
        };
        let drive = traffic.entry(name.clone()).or_default();
        match record.op {
            IoOp::Read => drive.0 += bytes,
            IoOp::Write => drive.1 += bytes,
            IoOp::Sync | IoOp::Trim => {}
        }
    }
    assert!(reader.is_complete());
    traffic
}
