//! `partition`: writes each record to one of several files.
//!
//! Contract: files keep the order of the input and appear together.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::dataset::Summary as Done;
use outcore::primitives::BucketFiles;
use outcore::primitives::write::Fate;
use outcore::{Error, Result};
use outcore_front::output::{self, Holds, Target};
use outcore_front::split::{PLACEHOLDER as PART, check_parts_name};
use outcore_io::output::MANIFEST_SUFFIX;
use outcore_io::units;

use super::args::{InputArgs, parse_expression};
use super::input::{self, resources_of};
use super::run::{is_only_planned, say_read};
use super::write::refuse_tables;
use crate::host::{Host, Weight, watch};
use crate::report::{WriteSummary, report};
use crate::verb::{Verb, Words};

const PARTITION_EXAMPLES: &str = "\
Examples:
  outcore partition 'x >= 100' keys.bin -o 'part-{part}.bin' --type u64
  outcore partition 'hash(x) % 8' keys.bin -o 'part-{part}.bin' --parts 8 --type u64
  outcore partition 'index % 10 == 0' log.bin -o '{part}.bin' --record 64 --key 0:8:u64

Expressions are those of `outcore map --help`; with --where there is no index.";

/// Write each record to one of several files
///
/// The expression computes the number of the file, from 0; a condition is 1 if it is true. Files
/// keep the input order and appear together. {part} in the name becomes the number, zero-padded to
/// the same width; files that end in .npy get a header.
#[derive(Debug, Args)]
#[command(after_long_help = PARTITION_EXAMPLES)]
pub(crate) struct PartitionArgs {
    /// The number of the file
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = parse_expression)]
    pub(crate) expression: String,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Number of files
    #[arg(long, value_name = "N", help_heading = "Steps", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) parts: u32,
    /// File name pattern: {part} in it becomes the number of the file
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, help_heading = "Files")]
    pub(crate) output: PathBuf,
}

report! {
    /// The result of a partition.
    pub(crate) struct PartitionSummary {
        [wrote: WriteSummary],
        /// The records of each file.
        counts: Vec<u64>,
    }
}

/// `partition`.
pub(crate) struct Partition;

impl Verb for Partition {
    const NAME: &'static str = "partition";
    type Args = PartitionArgs;
    type Report = PartitionSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0)];

    fn run(host: &dyn Host, args: &PartitionArgs) -> Result<PartitionSummary> {
        let input = &args.input;
        let resources = resources_of(host, input)?;
        if !input.zip.is_empty() {
            let cause = "partition does not take --zip";
            return Err(Error::usage("read arguments", cause)
                .hint("write the pairs with `outcore zip` first"));
        }
        refuse_tables(Partition::NAME, input, &input::sources(host, input)?)?;
        let pattern = pattern_of(args)?;
        let manifest = PathBuf::from(manifest_name(pattern));
        let mut files = BucketFiles {
            paths: paths_of(args, pattern),
            manifest: Some(manifest.clone()),
            replace: input.force,
            header: None,
        };
        let target = Target::Shards {
            paths: files.paths.clone(),
            manifest,
        };
        let sources = input::sources(host, input)?;
        output::check_new(&target, &sources, input.force, Holds::Records)?;
        let mut prepared = input::prepare(host, input, resources, Some(&target))?;
        let decided = prepared.execution.item()?;
        files.header = output::header_for(&Target::File(pattern.into()), &[], &decided)?;
        let fates = &[Fate::Distributed("distribute")];
        let is_all = is_only_planned(host, input, || {
            prepared.execution.plan(Partition::NAME, fates, 1)
        })?;
        let (counts, done) = match is_all {
            true => (Vec::new(), Done::default()),
            false => {
                prepared.begin(host, Some(&target))?;
                let (job, execution) = (&prepared.job, &mut prepared.execution);
                watch(host, &job.control, Partition::PHASES, || {
                    execution.distribute(&args.expression, &files)
                })?
            }
        };
        Ok(PartitionSummary {
            wrote: prepared.wrote(host, Some(&target), &done)?,
            counts,
        })
    }

    fn say(args: &PartitionArgs, report: &PartitionSummary, words: &mut Words) {
        if args.input.dry_run {
            return;
        }
        let pattern = args.output.to_str().unwrap_or_default();
        for (path, count) in paths_of(args, pattern).iter().zip(&report.counts) {
            let line = format!("{count}\t{}\n", path.display());
            words.data.push_str(&line);
        }
        say_read(&report.wrote.used, words);
        words.phases(&report.wrote.phases, args.input.explain);
    }

    fn headline(report: &PartitionSummary) -> String {
        format!(
            "{} in {}",
            units::counted(report.wrote.used.records, "record"),
            units::counted(report.counts.len() as u64, "file")
        )
    }
}

/// The pattern of the names of the files.
fn pattern_of(args: &PartitionArgs) -> Result<&str> {
    let refuse = |cause: &str, hint: &str| {
        let error = Error::usage("create output", cause).path(&args.output);
        Err(error.hint(hint))
    };
    let Some(pattern) = args.output.to_str() else {
        let cause = "its name is not UTF-8, so the manifest of the parts cannot have it";
        return refuse(cause, "give another name");
    };
    if !pattern.contains(PART) {
        return refuse(
            "its name has no {part} in it",
            "write for example 'part-{part}.bin'",
        );
    }
    check_parts_name(&args.output)?;
    Ok(pattern)
}

/// The names of the files.
fn paths_of(args: &PartitionArgs, pattern: &str) -> Vec<PathBuf> {
    // Every number has as many digits as the last one, so that names sort in the order of the
    // parts.
    let digits = (args.parts - 1).to_string().len();
    let path = |part: u32| PathBuf::from(pattern.replace(PART, &format!("{part:0digits$}")));
    (0..args.parts).map(path).collect()
}

/// The pattern's name without the placeholder and the separator next to it.
fn manifest_name(pattern: &str) -> String {
    let mut name = pattern.to_string();
    for tie in ["-", "_", ".", ""] {
        name = name.replace(&format!("{tie}{PART}"), "");
    }
    format!("{name}{MANIFEST_SUFFIX}")
}
