//! `verify`, and `sort --check`: order, count, checksum, and a comparison with other files.
//!
//! Contract: reads only. The verdict on records, and its words, are those of sortbenchmark.org's
//! valsort 1.5. With `against` it also reads those files and compares count and checksum, which do
//! not depend on the order. Tables are checked in the order of columns, or in none.

mod lines;
mod page;
mod records;
#[cfg(feature = "tables")]
mod table;

use outcore::Result;
use outcore_front::what::{Asked, What};
use outcore_io::units;

use crate::host::{Host, Weight};
use crate::verb::{Inputs, Verb, Words};

pub(crate) use page::{VerifyArgs, VerifyReport};
pub(crate) use records::{OrderCheck, check_order};

/// The verb.
pub(crate) struct Verify;

impl Verb for Verify {
    const NAME: &'static str = "verify";
    const INPUTS: Inputs = Inputs::Any;
    type Args = VerifyArgs;
    type Report = VerifyReport;
    const PHASES: &'static [Weight] = &records::PHASES;

    fn run(host: &dyn Host, args: &VerifyArgs) -> Result<VerifyReport> {
        let asked = Asked {
            inputs: &args.files,
            is_records: args.record.is_typed(),
            is_lines: args.lines.is_lines(),
            // Text is a table unless an option makes it lines.
            is_table: !args.lines.is_lines(),
            ..Asked::default()
        };
        let what = host.what(asked)?;
        if args.lines.is_lines() {
            host.check_options(What::Lines, asked)?;
            return lines::verify(host, args);
        }
        if what.is_table() {
            host.check_options(what, asked)?;
            #[cfg(feature = "tables")]
            return table::verify(host, args);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        host.given().applies_to(args.record.kind_of(what))?;
        records::verify(host, args)
    }

    fn say(args: &VerifyArgs, report: &VerifyReport, words: &mut Words) {
        words.lines(&report.text);
        words.lines(report.against_text.as_deref().unwrap_or_default());
        words.detail(&report.used.read_text());
        words.phases(&report.phases, args.explain);
    }

    fn headline(report: &VerifyReport) -> String {
        let order = match (report.ordered, report.unordered) {
            (Some(false), Some(unordered)) => format!(", {} out of order", units::count(unordered)),
            (Some(false), None) => ", not in order".to_owned(),
            (Some(true), _) => ", in order".to_owned(),
            (None, _) => String::new(),
        };
        let same = match report.same_records {
            Some(true) => ", the same records",
            Some(false) => ", other records",
            None => "",
        };
        let records = units::counted(report.used.records, "record");
        format!("{records}{order}{same}, checksum {}", report.checksum)
    }

    fn is_right(report: &VerifyReport) -> bool {
        report.ok
    }
}
