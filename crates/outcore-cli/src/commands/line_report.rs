//! The summary of commands on lines.
//!
//! Contract: it is told to people on a terminal, or where they ask for more: in a pipeline these
//! commands are as silent as those whose place they take.

use outcore::Phase;
use outcore::sort::lines::LineSummary;
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_io::units;
use outcore_verbs::lines::LineJob;
use serde_json::{Value, json};

use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, plan_json, rate_text};

/// What a command did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// In the past tense.
    pub(crate) what: &'static str,
    /// Lines of the result, or records.
    pub(crate) lines: u64,
    /// What one of them is called.
    pub(crate) unit: &'static str,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) scratch_bytes: u64,
    pub(crate) passes: u32,
    /// (name, bytes read, bytes written) of each drive.
    pub(crate) drives: Vec<(String, u64, u64)>,
    /// What each phase did, beside its plan; none for what has none.
    pub(crate) phases: Vec<Phase>,
    /// What only this command reports.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl Done {
    /// As the engine's sort of lines tells it.
    pub(crate) fn of_sort(what: &'static str, summary: LineSummary) -> Self {
        let plan = summary.plan.as_ref().map(|plan| plan_json(plan));
        Done {
            what,
            lines: summary.lines_out,
            unit: "line",
            read_bytes: summary.read_bytes,
            written_bytes: summary.written_bytes,
            scratch_bytes: summary.scratch_bytes,
            passes: summary.passes,
            drives: summary.drives,
            more: vec![
                ("lines_in", json!(summary.lines_in)),
                ("skipped", json!(summary.skipped)),
                ("plan", json!(plan)),
            ],
            phases: summary.phases,
        }
    }

    /// Prints the plan of a job that was only to be planned.
    pub(crate) fn finish_planned(job: LineJob, context: &Context, plan: &str, unit: &'static str) {
        context.reporter.data(&format!("{plan}\n"));
        let done = Done {
            what: "planned",
            unit,
            ..Done::default()
        };
        done.finish(context, job);
    }

    /// Tells what was done.
    pub(crate) fn finish(self, context: &Context, job: LineJob) {
        let done = self;
        let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
        let (seconds, copies) = (job.seconds(), job.copies());
        let summary = Summary {
            records: done.lines,
            seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes + copies.written,
            passes: done.passes,
            bandwidth_fraction: bandwidth_fraction(
                &traffic,
                seconds,
                &job.resources.config.drives.value,
            ),
            ..Summary::default()
        };
        let mut summary = summary
            .with("output", json!(job.target.name().display().to_string()))
            .with("scratch_bytes", json!(done.scratch_bytes + copies.held))
            .with("drives", drives_json(&traffic));
        if !done.phases.is_empty() {
            summary = summary.with("phases", phases_json(&done.phases));
        }
        for (key, value) in done.more {
            summary = summary.with(key, value);
        }
        context.reporter.summary(&summary);
        if context.reporter.tells() {
            context.reporter.human(&format!(
                "{} {}, {}, in {}: {}",
                done.what,
                units::counted(done.lines, done.unit),
                units::bytes(job.data_bytes),
                units::seconds(seconds),
                rate_text(job.data_bytes, seconds),
            ));
            if let Some(text) = summary.bandwidth_text() {
                context.reporter.human(&format!("  {text}"));
            }
        }
        context.reporter.phases(&done.phases, false);
    }
}
