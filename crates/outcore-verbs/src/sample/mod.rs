//! `sample`: randomly chosen lines, records or rows, in the order of the input.
//!
//! Contract: the input is read once. What is taken depends on seed and place alone; the memory is
//! that of the sample, within `--memory`. The header of CSV comes first.

mod page;
#[cfg(feature = "tables")]
mod table;

use outcore::{Error, Result};
use outcore_front::text::sample::choose;
use outcore_front::text::take::Records;
use outcore_front::what::Asked;

use page::{SampleArgs, SampleSummary};

use crate::host::{Host, Weight};
use crate::lines::what_is_moved;
use crate::pass::{LinePass, PassRequest, Taken};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

/// The verb.
pub(crate) struct Sample;

/// The word for what was done.
const SAID: Said<'static> = Said::of("drew");

impl Verb for Sample {
    const NAME: &'static str = "sample";
    const INPUTS: Inputs = Inputs::Any;
    type Args = SampleArgs;
    type Report = SampleSummary;
    const PHASES: &'static [Weight] = &[("sample", 1.0)];

    fn run(host: &dyn Host, args: &SampleArgs) -> Result<SampleSummary> {
        let flags = args.rows.text_flags()?;
        let asked = Asked {
            inputs: &args.files.inputs,
            output: args.files.output.as_deref(),
            is_records: args.record.is_typed(),
            is_lines: args.lines.is_lines(),
            text: flags.kind(),
            is_table: args.tables.is_given() || host.kept_table().is_some(),
            piped: args.tables.piped(),
            ..Asked::default()
        };
        let what = what_is_moved(host, asked, args.lines)?;
        let seed = args.seed;
        if let Some(rate) = args.rate.filter(|rate| !(0.0..=1.0).contains(rate)) {
            let cause = format!("{rate} is not a probability");
            return Err(Error::usage("read arguments", cause)
                .hint("give --rate a number between 0 and 1, for example 0.01"));
        }
        let count = args.records.unwrap_or(u64::MAX);
        if what.is_table() {
            #[cfg(feature = "tables")]
            return table::sample(host, args).map(|wrote| SampleSummary { wrote, seed });
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let mut rows = args.rows.clone();
        rows.settle(what);
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
                name: "sample",
                taken: match (args.rate, args.with_replacement) {
                    (Some(rate), _) => Taken::Drawn { rate, seed },
                    (None, true) => Taken::Repeated(count),
                    (None, false) => Taken::First(count),
                },
                reads_all: true,
                is_explained: args.explain,
            },
        )?;
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
                    "a stream cannot be drawn from with replacement, since its length is not known",
                )
                .hint("write the stream to a file first, or leave --with-replacement out")),
            }
        })?;
        Ok(SampleSummary { wrote, seed })
    }

    fn say(args: &SampleArgs, report: &SampleSummary, words: &mut Words) {
        match report.wrote.unit == "row" {
            true => say(&report.wrote, &SAID, args.explain, words),
            false => words.phases(&report.wrote.phases, args.explain),
        }
    }

    fn headline(report: &SampleSummary) -> String {
        headline(&report.wrote, &SAID)
    }

    fn takes_stdout(args: &SampleArgs) -> bool {
        args.files.is_to_stdout()
    }
}
