//! `find`: the first record for which an expression is true.
//!
//! Contract: reading stops at that record. Without such a record the command exits with 1.

use clap::Args;
use outcore::dataset::Summary as Done;
use outcore::primitives::write::Fate;
use outcore::{Error, Result};
use outcore_io::units;

use super::args::{InputArgs, parse_expression};
use super::input::open;
use super::run::say_read;
use super::write::for_tables;
use crate::host::{Host, Weight, watch};
use crate::report::{JobSummary, Phase, report};
use crate::verb::{Verb, Words};

/// Print the position of the first record for which an expression is true
///
/// Stops reading there. Exits with 1 if there is no such record.
#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// The condition
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) condition: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

report! {
    /// The place of the first record that matches.
    pub(crate) struct FindSummary {
        [used: JobSummary],
        /// Records that were read; none if they were not counted.
        records_in: Option<u64>,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// Position of the record, counted from 0; none if the expression is true for no record.
        position: Option<u64>,
        /// Whether a record was found; none if only the plan was requested.
        is_found: Option<bool>,
    }
}

/// `find`.
pub(crate) struct Find;

impl Verb for Find {
    const NAME: &'static str = "find";
    type Args = FindArgs;
    type Report = FindSummary;
    const PHASES: &'static [Weight] = &[("find", 1.0)];

    fn run(host: &dyn Host, args: &FindArgs) -> Result<FindSummary> {
        if !args.input.conditions.is_empty() {
            let cause = "find reports the position of a record in the input, and --where would \
                         change it";
            let error = Error::usage("read arguments", cause);
            return Err(error
                .hint("leave --where out, and write both conditions as one: find '(A) && (B)'"));
        }
        let prepared = open(host, &args.input, None);
        let mut prepared = prepared.map_err(|error| for_tables(Find::NAME, error))?;
        let goes_on = prepared.begin_fold(host, &args.input, "find", &[Fate::Sought("find")])?;
        let (position, done) = match goes_on {
            false => (None, Done::default()),
            true => watch(host, &prepared.job.control, Find::PHASES, || {
                prepared.execution.find(&args.condition)
            })?,
        };
        Ok(FindSummary {
            used: prepared.used(host, &done)?,
            records_in: Some(done.records_in),
            phases: Phase::of_engine(&done.phases),
            position,
            is_found: goes_on.then_some(position.is_some()),
        })
    }

    fn say(args: &FindArgs, report: &FindSummary, words: &mut Words) {
        if args.input.dry_run {
            return;
        }
        if let Some(position) = report.position {
            words.data = format!("{position}\n");
        }
        say_read(&report.used, words);
        words.phases(&report.phases, args.input.explain);
    }

    fn headline(report: &FindSummary) -> String {
        match report.position {
            Some(position) => format!("at position {}", units::count(position)),
            None => "no such record".to_owned(),
        }
    }

    fn is_right(report: &FindSummary) -> bool {
        report.is_found != Some(false)
    }
}
