//! `head`: the first lines, records or rows.
//!
//! Contract: outcore reads no more than it needs. Records are copied in pieces, so that they may be
//! longer than memory. The header of CSV comes first.

mod page;
#[cfg(feature = "tables")]
mod table;

use outcore::Result;

use page::HeadArgs;

use crate::host::{Host, Weight};
use crate::pass::Taken;
use crate::report::WriteSummary;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Head;

/// The verb in the report.
const SAID: Said<'static> = Said::of("took");

impl Verb for Head {
    const NAME: &'static str = "head";
    const INPUTS: Inputs = Inputs::Any;
    type Args = HeadArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("head", 1.0)];

    fn run(host: &dyn Host, args: &HeadArgs) -> Result<WriteSummary> {
        let what = args.take.what(host, &args.files, !args.by.is_empty())?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::head(host, args);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let taken = match args.records.is_rest {
            true => Taken::AllBut(args.records.count),
            false => Taken::First(args.records.count),
        };
        let pass = args.take.pass(host, &args.files, what, Self::NAME, taken)?;
        pass.take(host)
    }

    fn say(args: &HeadArgs, report: &WriteSummary, words: &mut Words) {
        match report.unit == "row" {
            true => say(report, &SAID, args.take.explain, words),
            false => words.phases(&report.phases, args.take.explain),
        }
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &SAID)
    }

    fn takes_stdout(args: &HeadArgs) -> bool {
        args.files.is_to_stdout()
    }
}
