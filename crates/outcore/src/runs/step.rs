//! Steps of a build that can be continued: a few runs of the rest of the input.
//!
//! Contract: [`take_step`] chooses the runs of a step. It is long enough that its beginning and its
//! end, in which not all areas are in use, take a small part of its time. No I/O.

use serde::{Deserialize, Serialize};

use super::plan::ViewPlan;
use super::planned::PlannedRun;
use crate::ends::Input;
use outcore_io::{Error, Result};

/// Steps in which the rest of the input is sorted, about, if a step then has enough runs.
const STEPS: usize = 16;
/// The least number of runs of a step, as a multiple of the areas in memory.
const STEP_AREAS: usize = 4;

/// A place in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The number of the file; that of files at the end.
    pub(super) file: usize,
    /// The byte in the file.
    pub(super) at_bytes: u64,
}

/// The view at the end of a step, whose runs are not published yet.
#[derive(Debug, Clone)]
pub(super) struct StepEnd {
    pub(super) view: String,
    pub(super) runs_count: u64,
    /// The records of these runs.
    pub(super) records: u64,
    /// The place of the next run in the files of this step; `None` at the end.
    pub(super) next: Option<Place>,
}

/// Receives the end of a step before its runs are published.
pub(super) type EndStep<'a> = &'a dyn Fn(StepEnd) -> Result<()>;

/// Leaves the runs of one step in `cuts`; returns the place of the run after them.
///
/// # Errors
/// Usage: so many runs need a merge before they are read.
pub(super) fn take_step(cuts: &mut Vec<PlannedRun>, plan: &ViewPlan) -> Result<Option<Place>> {
    if !plan.merges.is_empty() {
        let cause = "a view whose runs are merged before it is read cannot be resumed";
        return Err(Error::usage("resume", cause)
            .hint("allow more memory or longer runs, or build it without a journal"));
    }
    let runs_max = (STEP_AREAS * plan.areas).max(cuts.len().div_ceil(STEPS));
    let next = cuts.get(runs_max).and_then(|cut| cut.pieces.first());
    let next = next.map(|piece| Place {
        file: piece.part,
        at_bytes: piece.at_bytes,
    });
    cuts.truncate(runs_max);
    Ok(next)
}

impl Place {
    /// The beginning of `inputs`.
    pub(super) fn first(inputs: &[Input]) -> Self {
        Place {
            file: 0,
            at_bytes: inputs.first().map_or(0, |input| input.header_bytes),
        }
    }

    /// The data of `inputs` from here on.
    pub(super) fn rest_of(self, inputs: &[Input]) -> Vec<Input> {
        let mut rest = inputs.get(self.file..).unwrap_or_default().to_vec();
        if let Some(input) = rest.first_mut() {
            let done_bytes = self.at_bytes.saturating_sub(input.header_bytes);
            input.header_bytes += done_bytes;
            input.data_bytes = input
                .data_bytes
                .map(|bytes| bytes.saturating_sub(done_bytes));
        }
        rest
    }
}
