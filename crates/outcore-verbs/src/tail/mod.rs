//! `tail`: the last lines, records or rows, or all after a given number.
//!
//! Contract: if records can be found from the end of a file, only its end is read; CSV and
//! compressed files are read twice. For a stream, the last records are held in memory. The header
//! of CSV comes first.

mod page;
#[cfg(feature = "tables")]
mod table;

use outcore::Result;

use page::TailArgs;

use crate::host::{Host, Weight};
use crate::pass::Taken;
use crate::report::WriteSummary;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Tail;

/// The verb in the report.
const SAID: Said<'static> = Said::of("took");

impl Verb for Tail {
    const NAME: &'static str = "tail";
    const INPUTS: Inputs = Inputs::Any;
    type Args = TailArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &[("tail", 1.0)];

    fn run(host: &dyn Host, args: &TailArgs) -> Result<WriteSummary> {
        let what = args.take.what(host, &args.files, false)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::tail(host, args);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let taken = match args.records.is_rest {
            true => Taken::AfterFirst(args.records.count),
            false => Taken::Last(args.records.count),
        };
        let pass = args.take.pass(host, &args.files, what, Self::NAME, taken)?;
        pass.take(host)
    }

    fn say(args: &TailArgs, report: &WriteSummary, words: &mut Words) {
        match report.unit == "row" {
            true => say(report, &SAID, args.take.explain, words),
            false => words.phases(&report.phases, args.take.explain),
        }
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report, &SAID)
    }

    fn takes_stdout(args: &TailArgs) -> bool {
        args.files.is_to_stdout()
    }
}
