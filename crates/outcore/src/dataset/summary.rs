//! What the passes of a dataset did: the figures that all fronts show.
//!
//! Contract: each is what the engine counted, not what a plan foretold; of several passes, what they did
//! together.

use crate::ends::Phase;
use crate::primitives::PassSummary;
use crate::shuffle::ShuffleSummary;
use crate::sort::SortSummary;
use crate::sort::lines::LineSummary;

/// What the passes of a dataset did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Positions or items that the first pass read, where it was counted.
    pub records_in: u64,
    /// Items of the result.
    pub records: u64,
    /// Passes over the data.
    pub passes: u32,
    /// Seconds of all passes.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives, and to a pipe.
    pub written_bytes: u64,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
    /// Lines without a key that were left out.
    pub skipped: u64,
    /// The phases of all passes, in order.
    pub phases: Vec<Phase>,
}

impl Summary {
    /// This and what a later pass did: the result of that one, and what both moved.
    #[must_use]
    pub fn and(mut self, later: Summary) -> Self {
        for (name, read_bytes, written_bytes) in later.drives {
            match self.drives.iter_mut().find(|drive| drive.0 == name) {
                Some((_, read, written)) => {
                    *read += read_bytes;
                    *written += written_bytes;
                }
                None => self.drives.push((name, read_bytes, written_bytes)),
            }
        }
        self.phases.extend(later.phases);
        Summary {
            records_in: match self.passes {
                0 => later.records_in,
                _ => self.records_in,
            },
            records: later.records,
            passes: self.passes + later.passes,
            seconds: self.seconds + later.seconds,
            read_bytes: self.read_bytes + later.read_bytes,
            written_bytes: self.written_bytes + later.written_bytes,
            drives: self.drives,
            skipped: self.skipped + later.skipped,
            phases: self.phases,
        }
    }
}

impl From<PassSummary> for Summary {
    fn from(done: PassSummary) -> Self {
        let phase = Phase {
            name: "pass",
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            predicted: None,
        };
        Summary {
            records_in: done.records_in,
            records: done.records,
            passes: done.passes,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: 0,
            phases: vec![phase],
        }
    }
}

impl From<SortSummary> for Summary {
    fn from(done: SortSummary) -> Self {
        Summary {
            records_in: done.records,
            records: done.records,
            passes: done.passes,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: 0,
            phases: done.phases,
        }
    }
}

impl From<ShuffleSummary> for Summary {
    fn from(done: ShuffleSummary) -> Self {
        Summary {
            records_in: done.records,
            records: done.records,
            passes: 1 + done.plan.distributions,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: 0,
            phases: done.phases,
        }
    }
}

impl From<LineSummary> for Summary {
    fn from(done: LineSummary) -> Self {
        Summary {
            records_in: done.lines_in,
            records: done.lines_out,
            passes: done.passes,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: done.skipped,
            phases: done.phases,
        }
    }
}
