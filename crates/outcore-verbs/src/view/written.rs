//! The records of a view on standard output, and the report of the output.
//!
//! Contract: records do not go to a terminal.

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

use outcore::runs::{SortedView, ViewType, WriteSummary as EngineSummary};
use outcore::{Output, Result};
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::resources::Resources;
use outcore_io::units;

use super::{MERGE, counted, rate_text, unit_of};
use crate::host::{Host, watch};
use crate::report::{Moved, Phase, Place, Stopwatch, WriteSummary};

/// Fails if records would go to a terminal.
pub(super) fn refuse_terminal(what: &ViewType) -> Result<()> {
    let holds = match what {
        ViewType::Records(_) => Holds::Records,
        ViewType::Lines(_) | ViewType::Rows(_) => Holds::Lines,
    };
    output::check_terminal(&Target::Pipe(None), holds, Consent::default())
}

/// Writes the sorted file, or the records of a range, to standard output.
pub(super) fn copy_out<'a>(
    host: &dyn Host,
    view: &'a SortedView,
    wanted: Option<Range<u64>>,
) -> Result<Written<'a>> {
    refuse_terminal(view.what())?;
    let control = &view.job().control;
    let output = Output::Pipe(Mutex::new(host.open_pipe(None, control)?));
    let done = watch(host, control, &MERGE, || match wanted {
        None => view.write_file(&output, false),
        Some(range) => view.write_to(range, &output, false),
    })?;
    Ok(Written { view, done })
}

/// The records of a view that were written.
pub(super) struct Written<'a> {
    pub(super) view: &'a SortedView,
    pub(super) done: EngineSummary,
}

impl Written<'_> {
    /// The result in words.
    pub(super) fn text(&self) -> String {
        let done = &self.done;
        format!(
            "merged {}, {}, in {}: {}; read {}, wrote {}",
            counted(self.view.what(), done.records),
            units::bytes(done.bytes),
            units::seconds(done.seconds),
            rate_text(done.bytes, done.seconds),
            units::bytes(done.read_bytes),
            units::bytes(done.written_bytes),
        )
    }

    /// The report of a job of `resources` that wrote `output`.
    pub(super) fn report(
        &self,
        host: &dyn Host,
        stopwatch: Stopwatch,
        resources: &Resources,
        output: &Path,
    ) -> Result<WriteSummary> {
        let done = &self.done;
        let traffic = done.drives.clone();
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: 1,
        };
        let used = stopwatch.stop(moved, &traffic, resources, host.end_trace()?);
        Ok(WriteSummary {
            output: Some(Place(output.to_path_buf())),
            records_in: Some(self.view.len()),
            data_bytes: done.bytes,
            output_bytes: Some(done.bytes),
            files: 1,
            phases: Phase::of_engine(&done.phases),
            ..WriteSummary::of_nothing(used, unit_of(self.view.what()))
        })
    }
}
