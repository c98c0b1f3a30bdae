//! `histogram`: counts of numbers in bins of equal width.
//!
//! Contract: a number on a border counts for the bin above it, except for the last border.

use clap::Args;
use outcore::dataset::Summary as Done;
use outcore::primitives::tables::Histogram as Bins;
use outcore::primitives::write::Fate;
use outcore::{Error, Result};
use outcore_io::units;

use super::args::{InputArgs, MapStep};
use super::input::open;
use super::run::say_read;
use super::write::for_tables;
use crate::bars::{Bar, chart, short};
use crate::host::{Host, Weight, watch};
use crate::report::{JobSummary, Phase, report};
use crate::verb::{Verb, Words};

/// Count numbers in bins of equal width
///
/// Prints the borders of each bin and its count, one bin per line; a terminal shows them as bars.
/// Without --range the input is read twice.
#[derive(Debug, Args)]
pub(crate) struct HistogramArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) step: MapStep,
    /// Number of bins
    #[arg(long, value_name = "N", help_heading = "Steps", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) bins: u32,
    /// Count only numbers from LOW to HIGH
    #[arg(long, value_name = "LOW:HIGH", help_heading = "Steps", value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) range: Option<(f64, f64)>,
}

fn parse_range(text: &str) -> Result<(f64, f64)> {
    let numbers = text.split_once(':');
    let numbers = numbers.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    numbers.ok_or_else(|| {
        Error::usage("read range", format!("`{text}` is not a range")).hint("write 0:100")
    })
}

report! {
    /// The number of values in each bin.
    pub(crate) struct HistogramSummary {
        [used: JobSummary],
        /// Records that were read; none if they were not counted.
        records_in: Option<u64>,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
        /// The borders of all bins: the least and the greatest number that are counted.
        range: Vec<f64>,
        /// How many numbers each bin has.
        counts: Vec<u64>,
    }
}

/// `histogram`.
pub(crate) struct Histogram;

impl Verb for Histogram {
    const NAME: &'static str = "histogram";
    type Args = HistogramArgs;
    type Report = HistogramSummary;
    const PHASES: &'static [Weight] = &[("histogram", 1.0)];

    fn run(host: &dyn Host, args: &HistogramArgs) -> Result<HistogramSummary> {
        let prepared = open(host, &args.input, args.step.map.as_ref());
        let mut prepared = prepared.map_err(|error| for_tables(Histogram::NAME, error))?;
        let fates = match args.range {
            Some(_) => &[Fate::Folded("histogram")][..],
            // The range is found first.
            None => &[Fate::Folded("reduce"), Fate::Folded("histogram")],
        };
        let (bins, range) = (args.bins as usize, args.range);
        let (found, done) = match prepared.begin_fold(host, &args.input, "histogram", fates)? {
            false => (None, Done::default()),
            true => watch(host, &prepared.job.control, Histogram::PHASES, || {
                let (found, done) = prepared.execution.histogram(bins, range)?;
                Ok((Some(found), done))
            })?,
        };
        let range = found.iter().flat_map(|bins| [bins.range.0, bins.range.1]);
        Ok(HistogramSummary {
            used: prepared.used(host, &done)?,
            records_in: Some(done.records_in),
            phases: Phase::of_engine(&done.phases),
            range: range.collect(),
            counts: found.map_or_else(Vec::new, |bins| bins.counts),
        })
    }

    fn say(args: &HistogramArgs, report: &HistogramSummary, words: &mut Words) {
        if args.input.dry_run {
            return;
        }
        if let [low, high] = report.range[..] {
            let bins = Bins {
                range: (low, high),
                counts: report.counts.clone(),
            };
            words.data = match words.terminal_columns {
                Some(columns) => chart(&bars_of(&bins), columns),
                None => lines_of(&bins),
            };
        }
        say_read(&report.used, words);
        words.phases(&report.phases, args.input.explain);
    }

    fn headline(report: &HistogramSummary) -> String {
        let counted: u64 = report.counts.iter().sum();
        format!(
            "{} in {}",
            units::counted(counted, "number"),
            units::counted(report.counts.len() as u64, "bin")
        )
    }
}

/// The borders and the count of each bin, one bin per line.
fn lines_of(bins: &Bins) -> String {
    let line = |(bin, count): (usize, &u64)| {
        let (from, to) = (bins.border(bin), bins.border(bin + 1));
        format!("{from}\t{to}\t{count}\n")
    };
    bins.counts.iter().enumerate().map(line).collect()
}

/// The bins as bars, for people.
fn bars_of(bins: &Bins) -> Vec<Bar> {
    let border = |bin| short(bins.border(bin));
    let borders: Vec<String> = (0..=bins.counts.len()).map(border).collect();
    let wide = borders.iter().map(String::len).max().unwrap_or(0);
    let bar = |(bin, count): (usize, &u64)| Bar {
        label: format!("{:>wide$} .. {:>wide$}", borders[bin], borders[bin + 1]),
        count: *count,
    };
    bins.counts.iter().enumerate().map(bar).collect()
}
