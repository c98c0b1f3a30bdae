//! The results of building a view.
//!
//! Contract: pure data. [`Built::and`] adds the step of a build to those before it.

use std::time::Instant;

use super::plan::ViewPlan;
use crate::ends::{DriveTraffic, Phase};
use outcore_io::memory::Buf;

/// The result of building a view.
#[derive(Debug, Clone)]
pub struct BuildSummary {
    /// Records sorted.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Number of runs that readers merge.
    pub runs: u64,
    /// Bytes of runs that are still in memory.
    pub resident_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The plan it followed.
    pub plan: ViewPlan,
}

/// A published view.
pub(super) struct Built {
    /// Runs that are still in memory.
    pub(super) kept: Vec<(u32, Buf)>,
    pub(super) started: Instant,
    pub(super) summary: BuildSummary,
}

impl Built {
    /// The result of a job that had nothing left to do, with its plan.
    pub(super) fn nothing(started: Instant, plan: ViewPlan) -> Self {
        Built {
            kept: Vec::new(),
            started,
            summary: BuildSummary {
                records: 0,
                bytes: 0,
                seconds: 0.0,
                read_bytes: 0,
                written_bytes: 0,
                runs: 0,
                resident_bytes: 0,
                phases: Vec::new(),
                drives: Vec::new(),
                plan: ViewPlan { runs: 0, ..plan },
            },
        }
    }

    /// This step and a later one together.
    pub(super) fn and(mut self, later: Built) -> Built {
        let (sum, more) = (&mut self.summary, later.summary);
        sum.records += more.records;
        sum.bytes += more.bytes;
        sum.read_bytes += more.read_bytes;
        sum.written_bytes += more.written_bytes;
        sum.runs += more.runs;
        sum.plan.runs += more.plan.runs;
        for phase in more.phases {
            match sum.phases.iter_mut().find(|sum| sum.name == phase.name) {
                Some(sum) => {
                    sum.seconds += phase.seconds;
                    sum.read_bytes += phase.read_bytes;
                    sum.written_bytes += phase.written_bytes;
                }
                None => sum.phases.push(phase),
            }
        }
        for drive in more.drives {
            match sum.drives.iter_mut().find(|sum| sum.name == drive.name) {
                Some(sum) => {
                    sum.read_bytes += drive.read_bytes;
                    sum.written_bytes += drive.written_bytes;
                }
                None => sum.drives.push(drive),
            }
        }
        self
    }
}
