//! The run of a verb on sequences: its plan, its beginning, its report.
//!
//! Contract: the counts of a report are those of the engine's summary, and its time starts when the
//! input is opened. A report is empty if the user asked only for the plan.

use outcore::Result;
use outcore::dataset::Summary as Done;
use outcore::primitives::PassPlan;
use outcore::primitives::producer::Producer;
use outcore::primitives::write::Fate;
use outcore_front::output::Target;
use serde_json::{Value, json};

use super::args::InputArgs;
use super::input::Prepared;
use crate::host::Host;
use crate::report::{JobSummary, Moved, Phase, Place, Rates, WriteSummary};
use crate::verb::Words;

/// The items that these verbs count.
pub(super) const UNIT: &str = "record";

/// Shows a plan if the user asked for it; returns true if the user asked for nothing else.
///
/// # Errors
/// Those of `plan`.
pub(super) fn is_only_planned(
    host: &dyn Host,
    input: &InputArgs,
    plan: impl FnOnce() -> Result<PassPlan>,
) -> Result<bool> {
    if !input.is_planned() {
        return Ok(false);
    }
    let plan = plan()?;
    match input.dry_run {
        true => host.print_plan(&plan, plan_json(&plan)),
        false => host.show_plan(&plan),
    }
    Ok(input.dry_run)
}

/// A plan for programs.
pub(super) fn plan_json(plan: &PassPlan) -> Value {
    let phases = plan.phases.iter().map(|phase| {
        json!({
            "name": phase.name,
            "predicted_seconds": phase.seconds,
            "predicted_read_bytes": phase.read_bytes.bytes(),
            "predicted_written_bytes": phase.written_bytes.bytes(),
            "predicted_is_bound": phase.is_bound(),
            "predicted_bound": phase.bound.as_ref().map(ToString::to_string),
        })
    });
    json!({
        "steps": plan.steps,
        "passes": plan.reads,
        "data_bytes": plan.data_bytes,
        "piece_bytes": plan.piece_bytes,
        "window": plan.window,
        "threads": plan.threads,
        "phases": phases.collect::<Vec<_>>(),
        "rates": Rates::of(&plan.layout.rates(), None),
    })
}

/// Reports how much was read, to users who asked for more; the answer is on standard output.
pub(super) fn say_read(used: &JobSummary, words: &mut Words) {
    words.lines(&used.bandwidth_text().unwrap_or_default());
    words.detail(&used.read_text());
}

impl Prepared {
    /// Reports the job before it begins.
    pub(super) fn begin(&self, host: &dyn Host, target: Option<&Target>) -> Result<()> {
        let table = self.table()?;
        let names = self.inputs.iter();
        let names: Vec<String> = names
            .map(|input| input.source.name.display().to_string())
            .collect();
        let job = &self.job;
        host.begin(json!({
            "inputs": names,
            "output": target.map(|target| target.name().display().to_string()),
            "type": table.format().to_string(),
            "record_bytes": table.item_bytes(),
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
            "io": self.resources.config.io.value.name(),
        }));
        Ok(())
    }

    /// Begins a pass that writes no file, after it has shown the plan if the user asked for it. In
    /// the plan, `consumer` is the name of the consumer, and `fates` are the destinations of the
    /// items of the passes. Returns false if the user asked only for the plan.
    pub(super) fn begin_fold(
        &self,
        host: &dyn Host,
        input: &InputArgs,
        consumer: &str,
        fates: &[Fate],
    ) -> Result<bool> {
        let plan = || self.execution.plan(consumer, fates, 1);
        if is_only_planned(host, input, plan)? {
            return Ok(false);
        }
        self.begin(host, None)?;
        Ok(true)
    }

    /// The cost of the job.
    pub(super) fn used(&self, host: &dyn Host, done: &Done) -> Result<JobSummary> {
        let traffic = done.drives.clone();
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: done.passes,
        };
        let trace = host.end_trace()?;
        Ok(self.stopwatch.stop(moved, &traffic, &self.resources, trace))
    }

    /// The report of the writes to `target`.
    pub(super) fn wrote(
        &self,
        host: &dyn Host,
        target: Option<&Target>,
        done: &Done,
    ) -> Result<WriteSummary> {
        let inputs = self.inputs.iter();
        Ok(WriteSummary {
            used: self.used(host, done)?,
            unit: UNIT.to_owned(),
            output: target.map(|target| Place(host.name_of(target.name()))),
            records_in: Some(done.records_in),
            data_bytes: inputs.map(|input| input.data_bytes).sum(),
            output_bytes: None,
            files: target.map_or(0, |target| target.files().len() as u64),
            scratch_bytes: Some(self.spool.as_ref().map_or(0, |spool| spool.bytes)),
            skipped: 0,
            phases: Phase::of_engine(&done.phases),
            plan: None,
            notes: Vec::new(),
        })
    }
}
