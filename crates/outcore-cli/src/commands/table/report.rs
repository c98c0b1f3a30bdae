//! What a command on tables did, as it is told.
//!
//! Contract: for people a line or a few, for programs the summary of other commands.

use std::time::Instant;

use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::resources::Resources;
use outcore_io::units;
use outcore_table::jobs::TableSummary;
use serde_json::{Value, json};

use super::request::Request;
use crate::context::Context;
use crate::measure::{Summary, phases_json, rate_text};

/// What a job did.
pub(super) struct Done {
    /// The word for it, as in "sorted 7 rows".
    what: &'static str,
    table: TableSummary,
    /// How many of what, where that is not rows out of rows.
    amount: Option<String>,
    /// What this job says besides: in the summary,
    more: Vec<(&'static str, Value)>,
    /// and in lines of their own.
    notes: Vec<String>,
}

impl Done {
    pub(super) fn new(what: &'static str, table: TableSummary) -> Self {
        Done {
            what,
            table,
            amount: None,
            more: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The same, said of something else than rows.
    pub(super) fn of(mut self, amount: String) -> Self {
        self.amount = Some(amount);
        self
    }

    /// The same with a further value in the summary.
    pub(super) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.more.push((name, value));
        self
    }

    /// The same with a further line for people.
    pub(super) fn note(mut self, line: String) -> Self {
        self.notes.push(line);
        self
    }

    pub(super) fn report(
        self,
        context: &Context,
        (request, resources): (&Request<'_>, &Resources),
        started: Instant,
    ) {
        let seconds = started.elapsed().as_secs_f64();
        let traffic: [DriveTraffic; 0] = [];
        let fraction = bandwidth_fraction(&traffic, seconds, &resources.config.drives.value);
        let out_bytes = self.table.lens_bytes.iter().sum::<u64>();
        let summary = Summary {
            records: self.table.rows_out,
            seconds,
            read_bytes: self.table.read_bytes,
            written_bytes: self.table.written_bytes,
            passes: self.table.passes,
            bandwidth_fraction: fraction,
            ..Summary::default()
        };
        let summary = summary
            .with(
                "output",
                json!(request.output.map(|name| name.display().to_string())),
            )
            .with("rows_in", json!(self.table.rows_in))
            .with("output_bytes", json!(out_bytes))
            .with("files", json!(self.table.lens_bytes.len()))
            .with("scratch_bytes", json!(self.table.scratch_bytes))
            .with("phases", phases_json(&self.table.phases));
        let summary = self
            .more
            .into_iter()
            .fold(summary, |summary, (name, value)| summary.with(name, value));
        let reporter = &context.reporter;
        reporter.summary(&summary);
        let rows = match self.table.rows_in == self.table.rows_out {
            true => units::counted(self.table.rows_out, "row"),
            false => format!(
                "{} of {}",
                units::count(self.table.rows_out),
                units::counted(self.table.rows_in, "row")
            ),
        };
        reporter.human(&format!(
            "{} {}, {} out, in {}: {}",
            self.what,
            self.amount.unwrap_or(rows),
            units::bytes(out_bytes),
            units::seconds(seconds),
            rate_text(self.table.read_bytes, seconds),
        ));
        for line in &self.notes {
            reporter.human(&format!("  {line}"));
        }
        if self.table.scratch_bytes > 0 {
            reporter.human(&format!(
                "  read {}, wrote {} with {} of scratch",
                units::bytes(self.table.read_bytes),
                units::bytes(self.table.written_bytes),
                units::bytes(self.table.scratch_bytes)
            ));
        }
        reporter.phases(&self.table.phases, request.is_explained);
    }
}
