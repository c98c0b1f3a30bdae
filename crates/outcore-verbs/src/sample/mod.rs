//! `sample`: randomly chosen lines, records or rows, in the order of the input.
//!
//! Contract: the input is read once. The sample depends only on the seed and the position of each
//! item. It is in memory, within `--memory`. The header of CSV comes first.

mod page;
#[cfg(feature = "tables")]
mod table;

use outcore::{Error, Result};
use outcore_front::text::sample::choose;
use outcore_front::text::take::Records;

use page::{SampleArgs, SampleSummary};

use crate::host::{Host, Weight};
use crate::pass::Taken;
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Sample;

/// The verb in the report.
const SAID: Said<'static> = Said::of("drew");

impl Verb for Sample {
    const NAME: &'static str = "sample";
    const INPUTS: Inputs = Inputs::Any;
    type Args = SampleArgs;
    type Report = SampleSummary;
    const PHASES: &'static [Weight] = &[("sample", 1.0)];

    fn run(host: &dyn Host, args: &SampleArgs) -> Result<SampleSummary> {
        let what = args.take.what(host, &args.files, false)?;
        let seed = args.seed;
        if let Some(rate) = args.rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            let cause = format!("{rate} is not a probability");
            return Err(Error::usage("read arguments", cause)
                .hint("give --rate a number between 0 and 1, for example 0.01"));
        }
        if args.records.or(args.rate.map(|_| 0)).is_none() {
            return Err(
                Error::usage("read arguments", "the size of the sample is not given")
                    .hint("give a number with --count, or a share with --rate"),
            );
        }
        let count = args.records.unwrap_or(u64::MAX);
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::sample(host, args).map(|wrote| SampleSummary { wrote, seed });
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let taken = match (args.rate, args.with_replacement) {
            (Some(rate), _) => Taken::Drawn { rate, seed },
            (None, true) => Taken::Repeated(count),
            (None, false) => Taken::Chosen(count),
        };
        let pass = args.take.pass(host, &args.files, what, Self::NAME, taken)?;
        let (end, limit_bytes) = (pass.end(), pass.memory_bytes());
        let wrote = pass.run(host, |reader, writer, all| {
            if args.rate.is_none() && !args.with_replacement {
                let kept = choose(reader, count, seed, limit_bytes)?;
                for record in &kept {
                    writer.put(record)?;
                    writer.put(end.as_slice())?;
                }
                return Ok(kept.len() as u64);
            }
            let mut records = Records {
                reader,
                writer,
                end,
                limit_bytes,
            };
            match (args.rate, all) {
                (Some(rate), _) => records.copy_rate(rate, seed),
                (None, Some(all)) => records.copy_with_replacement(count, all, seed),
                (None, None) => Err(Error::usage(
                    "sample",
                    "to draw with replacement, outcore must know the length of the input, but this is a stream",
                )
                .hint("write the stream to a file first, or leave --with-replacement out")),
            }
        })?;
        Ok(SampleSummary { wrote, seed })
    }

    fn say(args: &SampleArgs, report: &SampleSummary, words: &mut Words) {
        match report.wrote.unit == "row" {
            true => say(&report.wrote, &SAID, args.take.explain, words),
            false => words.phases(&report.wrote.phases, args.take.explain),
        }
    }

    fn headline(report: &SampleSummary) -> String {
        headline(&report.wrote, &SAID)
    }

    fn takes_stdout(args: &SampleArgs) -> bool {
        args.files.is_to_stdout()
    }
}
