//! Reports of verbs that write, in words.
//!
//! Contract: the result for a table is always reported. The result for lines and records is
//! reported on a terminal, or if the user asks for more messages. In a pipeline, these verbs are as
//! silent as the tools that they replace. All functions are pure.

use outcore_io::units;

use crate::report::WriteSummary;
use crate::verb::Words;

/// The description of a job for people.
#[derive(Debug, Clone, Default)]
pub struct Said<'a> {
    /// The word for it, as in "sorted 7 rows".
    pub what: &'a str,
    /// The amount in words, if it is not a number of rows.
    pub amount: Option<String>,
    /// Further lines.
    pub notes: Vec<String>,
}

impl<'a> Said<'a> {
    /// Says that records, lines or rows were `what`.
    pub const fn of(what: &'a str) -> Self {
        Said {
            what,
            amount: None,
            notes: Vec::new(),
        }
    }

    /// Says that an `amount` of something else was `what`.
    pub(crate) fn amount(what: &'a str, amount: String) -> Self {
        Said {
            amount: Some(amount),
            ..Said::of(what)
        }
    }
}

/// Whether a report is about a table.
fn is_of_rows(report: &WriteSummary) -> bool {
    report.unit == "row"
}

/// A report in a line.
pub fn headline(report: &WriteSummary, said: &Said<'_>) -> String {
    let (records, seconds) = (report.used.records, report.used.seconds);
    let rate = |bytes: u64| units::rate_decimal(bytes as f64 / seconds.max(1e-9));
    if !is_of_rows(report) {
        return format!(
            "{} {}, {}, in {}: {}",
            said.what,
            units::counted(records, &report.unit),
            units::bytes(report.data_bytes),
            units::seconds(seconds),
            rate(report.data_bytes),
        );
    }
    let records_in = report.records_in.unwrap_or(records);
    let rows = match records_in == records {
        true => units::counted(records, "row"),
        false => format!(
            "{} of {}",
            units::count(records),
            units::counted(records_in, "row")
        ),
    };
    format!(
        "{} {}, {} out, in {}: {}",
        said.what,
        said.amount.as_ref().unwrap_or(&rows),
        units::bytes(report.output_bytes.unwrap_or(0)),
        units::seconds(seconds),
        rate(report.used.read_bytes),
    )
}

/// Prints a report for people.
pub fn say(report: &WriteSummary, said: &Said<'_>, is_explained: bool, words: &mut Words) {
    words.lines(&headline(report, said));
    let is_of_rows = is_of_rows(report);
    words.are_for_watchers = !is_of_rows;
    said.notes
        .iter()
        .for_each(|line| words.lines(&format!("  {line}")));
    let scratch_bytes = report.scratch_bytes.unwrap_or(0);
    if is_of_rows && scratch_bytes > 0 {
        words.lines(&format!(
            "  read {}, wrote {} with {} of scratch",
            units::bytes(report.used.read_bytes),
            units::bytes(report.used.written_bytes),
            units::bytes(scratch_bytes)
        ));
    }
    words.lines(&report.used.bandwidth_text().unwrap_or_default());
    words.phases(&report.phases, is_explained);
}

/// Prints the checksum, if it was asked for; then the verb is not silent in a pipeline either.
pub(crate) fn say_checksum(checksum: Option<&str>, words: &mut Words) {
    if let Some(checksum) = checksum {
        words.are_for_watchers = false;
        words.lines(&format!("checksum {checksum}"));
    }
}
