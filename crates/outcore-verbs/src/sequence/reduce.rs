//! `reduce`: combines all records to one value.
//!
//! Contract: sums of integers are exact. The result does not depend on memory or threads.

use clap::Args;
use outcore::Result;
use outcore::dataset::Summary as Done;
use outcore::primitives::Reduction;
use outcore::primitives::write::Fate;

use super::args::{InputArgs, MapStep};
use super::input::open;
use super::number::Number;
use super::run::say_read;
use super::write::for_tables;
use crate::host::{Host, Weight, watch};
use crate::report::{JobSummary, Phase, report};
use crate::verb::{Verb, Words};

const REDUCE_EXAMPLES: &str = "\
Examples:
  outcore reduce sum,min,max,mean keys.bin --type u64
  outcore reduce count keys.bin --type u64 --where 'x % 2 == 0'
  outcore reduce 'a ^ b' keys.bin --type u64
  outcore reduce sum keys.bin --type u64 --map 'x * x'
  producer | outcore reduce mean - --type f64";

/// Reduce all records to one value: sum, count, min, max, mean or an expression
///
/// Sums of integers are exact, whatever their size. Sums of floats depend only on the input, never
/// on threads or memory. With --map, the values of EXPR for the records are reduced.
#[derive(Debug, Args)]
#[command(after_long_help = REDUCE_EXAMPLES)]
pub(crate) struct ReduceArgs {
    /// What to compute: sum, count, min, max or mean, several separated by commas, or an
    /// associative expression of a and b
    #[arg(value_name = "HOW")]
    pub(crate) how: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
}

report! {
    /// A reduction, and its value.
    pub struct ReducedValue {
        /// The function: `sum`, `count`, `min`, `max`, `mean` or the expression.
        how: String,
        /// The value; none for an empty input.
        value: Number,
    }
}

report! {
    /// The result of a reduction.
    pub(crate) struct ReduceSummary {
        [used: JobSummary],
        /// Records that were read; none if they were not counted.
        records_in: Option<u64>,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The value of each reduction.
        results: Vec<ReducedValue>,
    }
}

/// `reduce`.
pub(crate) struct Reduce;

impl Verb for Reduce {
    const NAME: &'static str = "reduce";
    type Args = ReduceArgs;
    type Report = ReduceSummary;
    const PHASES: &'static [Weight] = &[("reduce", 1.0)];

    fn run(host: &dyn Host, args: &ReduceArgs) -> Result<ReduceSummary> {
        let prepared = open(host, &args.input, args.step.map.as_ref());
        let mut prepared = prepared.map_err(|error| for_tables(Reduce::NAME, error))?;
        let consumer = format!("reduce {}", args.how);
        let fates = &[Fate::Folded("reduce")];
        let reductions = reductions_of(&args.how);
        let (scalars, done) = match prepared.begin_fold(host, &args.input, &consumer, fates)? {
            false => (Vec::new(), Done::default()),
            true => watch(host, &prepared.job.control, Reduce::PHASES, || {
                prepared.execution.reduce(&reductions)
            })?,
        };
        let results = reductions.iter().zip(scalars);
        Ok(ReduceSummary {
            used: prepared.used(host, &done)?,
            records_in: Some(done.records_in),
            phases: Phase::of_engine(&done.phases),
            results: results
                .map(|(how, scalar)| ReducedValue {
                    how: how.to_string(),
                    value: Number(scalar),
                })
                .collect(),
        })
    }

    fn say(args: &ReduceArgs, report: &ReduceSummary, words: &mut Words) {
        if args.input.dry_run {
            return;
        }
        for result in &report.results {
            let line = match report.results.len() {
                1 => format!("{}\n", result.value.0),
                _ => format!("{}\t{}\n", result.how, result.value.0),
            };
            words.data.push_str(&line);
        }
        say_read(&report.used, words);
        words.phases(&report.phases, args.input.explain);
    }

    fn headline(report: &ReduceSummary) -> String {
        let results = report.results.iter();
        let results = results.map(|result| format!("{} {}", result.how, result.value.0));
        results.collect::<Vec<_>>().join(", ")
    }
}

/// The requested reductions: one expression, or names that are separated by commas.
fn reductions_of(how: &str) -> Vec<Reduction> {
    let parts: Vec<Reduction> = how.split(',').map(Reduction::parse).collect();
    let is_expression = |part: &Reduction| matches!(part, Reduction::Expression(_));
    match parts.iter().any(is_expression) {
        true => vec![Reduction::parse(how)],
        false => parts,
    }
}
