//! The report of `sort` and `unique` of lines.
//!
//! Contract: it has the fields and the words of all verbs that write.

use outcore::Result;
use outcore_verbs::lines::{LineDone, LineJob};
use outcore_verbs::verb::Words;
use outcore_verbs::wording::{Said, say};
use serde_json::json;

use crate::context::Context;

/// Reports that the lines of `done` were `what`.
///
/// # Errors
/// The trace cannot be written.
pub(super) fn report(context: &Context, lines: &LineJob, what: &str, done: LineDone) -> Result<u8> {
    let report = lines.report(context, "line", done)?;
    let mut words = Words::default();
    say(&report, &Said::of(what), false, &mut words);
    context.reporter.report(json!(report), &words);
    Ok(0)
}

/// Prints the plan of a job that was only to be planned.
///
/// # Errors
/// As [`report`].
pub(super) fn report_planned(context: &Context, lines: &LineJob, plan: &str) -> Result<u8> {
    context.reporter.data(&format!("{plan}\n"));
    report(context, lines, "planned", LineDone::default())
}
