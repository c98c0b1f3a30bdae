//! `top`: the largest numbers, or the smallest.
//!
//! Contract: numbers are found in memory. If the memory is too small and the host prints the
//! numbers, a sort finds them one after another.

use std::io::{BufWriter, Write};

use clap::Args;
use outcore::dataset::Summary as Done;
use outcore::primitives::Scalar;
use outcore::primitives::tables::{top_by_sort, top_table_for};
use outcore::primitives::write::Fate;
use outcore::{Error, Kind, Result};

use super::args::{InputArgs, MapStep};
use super::input::{Prepared, open};
use super::number::Number;
use super::run::say_read;
use crate::host::{Host, Weight, watch};
use crate::option::parse_count;
use crate::report::{JobSummary, Phase, report};
use crate::verb::{Verb, Words};

/// The largest number of bytes that a number in a report takes: as a value, in the event, and as
/// text.
const REPORTED_BYTES: u64 = 160;

/// Print the largest numbers, largest first
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// How many numbers to print
    #[arg(short = 'n', long, value_name = "K", default_value_t = 10, value_parser = parse_count)]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Print the smallest numbers, smallest first
    #[arg(long, help_heading = "Steps")]
    pub(crate) smallest: bool,
}

report! {
    /// The largest numbers.
    pub(crate) struct TopSummary {
        [used: JobSummary],
        /// Records that were read; none if they were not counted.
        records_in: Option<u64>,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The numbers, in their order; none if they were printed.
        results: Option<Vec<Number>>,
    }
}

/// `top`.
pub(crate) struct Top;

impl Verb for Top {
    const NAME: &'static str = "top";
    type Args = TopArgs;
    type Report = TopSummary;
    const PHASES: &'static [Weight] = &[("top", 1.0)];

    fn run(host: &dyn Host, args: &TopArgs) -> Result<TopSummary> {
        let prepared = open(host, &args.input, args.step.map.as_ref())?;
        let fates = &[Fate::Folded("top")];
        let (best, done) = match prepared.begin_fold(host, &args.input, "top", fates)? {
            false => (Vec::new(), Done::default()),
            true => find(host, args, &prepared)?,
        };
        let results = best.into_iter().map(Number).collect();
        Ok(TopSummary {
            used: prepared.used(host, &done)?,
            records_in: Some(done.records_in),
            phases: Phase::of_engine(&done.phases),
            results: (!host.prints()).then_some(results),
        })
    }

    fn say(args: &TopArgs, report: &TopSummary, words: &mut Words) {
        if args.input.dry_run {
            return;
        }
        say_read(&report.used, words);
        words.phases(&report.phases, args.input.explain);
    }

    fn headline(report: &TopSummary) -> String {
        let results = report.results.iter().flatten();
        let results = results.map(|number| number.0.to_string());
        results.collect::<Vec<_>>().join(", ")
    }
}

/// Finds the numbers, and prints them if the host prints.
fn find(host: &dyn Host, args: &TopArgs, prepared: &Prepared) -> Result<(Vec<Scalar>, Done)> {
    let k = usize::try_from(args.count).unwrap_or(usize::MAX);
    let (job, table) = (&prepared.job, prepared.table()?);
    if !host.prints() {
        return watch(host, &job.control, Top::PHASES, || {
            top_table_for(job, table, k, args.smallest, REPORTED_BYTES)
        });
    }
    let mut out = BufWriter::new(host.open_pipe(None, &job.control)?);
    let failed = |error: std::io::Error| Error::io("write output", &error).path("standard output");
    let mut print = |value: Scalar| {
        writeln!(out, "{value}").map_err(failed)?;
        job.control.check()
    };
    // Numbers that are printed one by one need no memory.
    let (best, done) = watch(host, &job.control, Top::PHASES, || {
        match top_table_for(job, table, k, args.smallest, 0) {
            Err(error) if error.kind() == Kind::Memory => {
                let done = top_by_sort(job, table, args.count, args.smallest, &mut print)?;
                Ok((Vec::new(), done))
            }
            found => found,
        }
    })?;
    best.into_iter().try_for_each(&mut print)?;
    out.flush().map_err(failed)?;
    Ok((Vec::new(), done))
}
