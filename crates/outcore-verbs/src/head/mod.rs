//! `head`: the first lines, records or rows.
//!
//! Contract: no more is read than is needed. Records are copied in pieces, so that they may be
//! longer than memory. The header of CSV comes first.

mod page;
#[cfg(feature = "tables")]
pub(crate) mod table;

use outcore::Result;
use outcore_front::what::Asked;

use page::HeadArgs;

use crate::host::{Host, Weight};
use crate::lines::what_is_moved;
use crate::pass::{LinePass, PassRequest, Taken};
use crate::report::WriteSummary;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Head;

/// The word for what was done.
const SAID: Said<'static> = Said::of("took");

impl Verb for Head {
    const NAME: &'static str = "head";
    const INPUTS: Inputs = Inputs::Any;
    type Args = HeadArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("head", 1.0)];

    fn run(host: &dyn Host, args: &HeadArgs) -> Result<WriteSummary> {
        let flags = args.rows.text_flags()?;
        let asked = Asked {
            inputs: &args.files.inputs,
            output: args.files.output.as_deref(),
            is_records: args.record.is_typed(),
            is_lines: args.lines.is_lines(),
            text: flags.kind(),
            is_table: args.tables.is_given() || !args.by.is_empty() || host.kept_table().is_some(),
            piped: args.tables.piped(),
            ..Asked::default()
        };
        let what = what_is_moved(host, asked, args.lines)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::head(host, args);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let mut rows = args.rows.clone();
        rows.settle(what);
        let taken = match args.records.is_rest {
            true => Taken::AllBut(args.records.count),
            false => Taken::First(args.records.count),
        };
        let pass = LinePass::prepare(
            host,
            PassRequest {
                files: &args.files,
                record: &args.record,
                lines: args.lines,
                rows: rows.to_rows()?,
                header: args.header.rule(),
                memory_bytes: args.memory_bytes,
                record_io: &args.record_io,
                name: "head",
                taken,
                reads_all: args.records.is_rest,
                is_explained: args.explain,
            },
        )?;
        pass.take(host)
    }

    fn say(args: &HeadArgs, report: &WriteSummary, words: &mut Words) {
        match report.unit == "row" && report.output.is_some() {
            true => say(report, &SAID, args.explain, words),
            false => words.phases(&report.phases, args.explain),
        }
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &SAID)
    }

    fn takes_stdout(args: &HeadArgs) -> bool {
        args.files.is_to_stdout()
    }
}
