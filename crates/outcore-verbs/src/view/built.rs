//! The report of a view that was built, or added to.
//!
//! Contract: all functions are pure, except that the report ends the trace of the job.

use outcore::DriveTraffic;
use outcore::Result;
use outcore::runs::{BuildSummary, SortedView};
use outcore_front::resources::Resources;
use outcore_io::units;

use super::page::{ViewPlan, ViewSummary};
use super::written::Written;
use super::{counted, rate_text, type_name};
use crate::host::Host;
use crate::report::{Moved, Phase, Place, Stopwatch};

/// A view that was built, or added to.
pub(super) struct Built<'a> {
    pub(super) view: &'a SortedView,
    pub(super) built: &'a BuildSummary,
    /// Notes on rows and values that were left out.
    pub(super) notes: Vec<String>,
}

impl Built<'_> {
    /// The result in words.
    pub(super) fn text(&self, seconds: f64) -> String {
        let (view, built) = (self.view, self.built);
        format!(
            "sorted {}, {}, into {} in {}: {}\n  read {}, wrote {}; the view has {} in {}",
            counted(view.what(), built.records),
            units::bytes(built.bytes),
            units::counted(built.plan.runs, "run"),
            units::seconds(seconds),
            rate_text(built.bytes, seconds),
            units::bytes(built.read_bytes),
            units::bytes(built.written_bytes),
            counted(view.what(), view.len()),
            units::counted(built.runs, "run"),
        )
    }

    /// The report of a job of `resources`.
    pub(super) fn report(
        self,
        host: &dyn Host,
        stopwatch: Stopwatch,
        resources: &Resources,
    ) -> Result<ViewSummary> {
        self.report_with(host, stopwatch, resources, None)
    }

    /// As `report`, for a view that has also been `written` out.
    pub(super) fn report_with(
        self,
        host: &dyn Host,
        stopwatch: Stopwatch,
        resources: &Resources,
        written: Option<&Written<'_>>,
    ) -> Result<ViewSummary> {
        let built = self.built;
        let text = self.text(stopwatch.seconds());
        let written = written.map(|written| &written.done);
        let further = written.map_or(&[][..], |written| &written.drives);
        let traffic: Vec<DriveTraffic> = built.drives.iter().chain(further).cloned().collect();
        let further = written.map_or(&[][..], |written| &written.phases);
        let moved = Moved {
            records: built.records,
            read_bytes: built.read_bytes + written.map_or(0, |written| written.read_bytes),
            written_bytes: built.written_bytes + written.map_or(0, |written| written.written_bytes),
            passes: 1 + built.plan.merges.len() as u32 + u32::from(written.is_some()),
        };
        Ok(ViewSummary {
            used: stopwatch.stop(moved, &traffic, resources, host.end_trace()?),
            output: Place(self.view.info().dir),
            r#type: type_name(self.view.what()),
            data_bytes: built.bytes,
            runs: built.runs,
            resident_bytes: built.resident_bytes,
            phases: Phase::of_engine(built.phases.iter().chain(further)),
            plan: Some(ViewPlan::of(&built.plan)),
            notes: self.notes,
            text,
        })
    }
}
