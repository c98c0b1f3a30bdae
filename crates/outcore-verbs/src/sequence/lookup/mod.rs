//! `lookup`: where keys belong in sorted files, in sorted lines and in views.
//!
//! Contract: the output has ranks in the order of the keys, as u64, or with `--values` the items
//! that are found. A directory is a view, text is lines ([`view`]), anything else is records
//! ([`records`]).

mod keys;
mod records;
mod view;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use outcore::dataset::Summary as Done;
use outcore::job::Job;
use outcore::primitives::Side;
use outcore::primitives::gather::InMemory;
use outcore::primitives::write::produce;
use outcore::{Output, Result};
use outcore_front::output;
use outcore_front::what::{Asked, What};
use outcore_io::units;

use super::args::PassArgs;
use super::write::{WRITE, say};
use crate::host::{Host, Weight};
use crate::report::{WriteSummary, report};
use crate::verb::{Verb, Words};

const LOOKUP: &str = "lookup";

const LOOKUP_EXAMPLES: &str = "\
Examples:
  outcore lookup sorted.bin --keys wanted.bin -o ranks.npy --type u64
  outcore gather sorted.bin --at ranks.npy -o found.bin --type u64
  outcore lookup sorted.npy --keys wanted.npy -o behind.npy --side right
  outcore lookup sorted.npy --keys wanted.npy -o ranks.npy --index sorted.index
  outcore lookup users.bin --keys wanted.bin --values -o found.bin --record 64 --key 0:8:u64
  outcore lookup --lines words.txt --keys queries.txt -o ranks.npy
  outcore lookup by-time.view --keys events.bin -o ranks.npy

If keys are evenly spread, each takes two or three reads of 4 KiB, with many reads in flight. A rank can equal the number of records; then it is not a position. The keys have the same type as the file; with --key, a key is a whole record. Ranks are u64, so they \
can go to `outcore gather --at`. A directory is a view: outcore reads the blocks of \
its runs that have the keys, with many reads in flight.";

/// Find where keys belong in sorted files, as numpy.searchsorted does
///
/// The rank of a key is the number of smaller records; with --side right, the number of records
/// that are not greater. Keys may be in any order; ranks are in the order of the keys.
#[derive(Debug, Args)]
#[command(
    after_long_help = LOOKUP_EXAMPLES,
    mut_arg("zip", |arg| arg.hide(true)),
    mut_arg("integers", |arg| arg.hide(true)),
    mut_arg("conditions", |arg| arg.hide(true))
)]
pub(crate) struct LookupArgs {
    /// File of keys of the same type: whole records, of which only the keys are compared, or whole
    /// lines. CSV may have its header
    #[arg(id = "wanted", long = "keys", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys: PathBuf,
    /// For keys that exist: the rank of the first record with the key, or the rank after the last
    #[arg(long, value_name = "SIDE", value_enum, default_value = "left")]
    pub(crate) side: SideArg,
    /// Use this index of the sorted files, so that a key takes one read of 4 KiB. If the index does
    /// not exist, it is made with one read of the files. It is valid only as long as the files do
    /// not change. If it exceeds a quarter of the memory, a key takes a few reads
    #[arg(id = "lookup_index", long = "index", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) index: Option<PathBuf>,
    /// The input and the keys are lines. The input must be in the order of its bytes (`LC_ALL=C
    /// sort`); outcore reads the input once to check this
    #[arg(long)]
    pub(crate) lines: bool,
    /// As --lines, for lines that end with NUL
    #[arg(short, long)]
    pub(crate) zero_terminated: bool,
    /// Instead of ranks, write the records or lines with these keys: for each key all of its
    /// records, and nothing for a missing key
    #[arg(long, conflicts_with = "side")]
    pub(crate) values: bool,
    #[command(flatten)]
    pub(crate) files: PassArgs,
}

/// Which rank of an existing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SideArg {
    /// The rank of the first record with the key
    Left,
    /// The rank after the last record with the key
    Right,
}

report! {
    /// The result of a lookup.
    pub(crate) struct LookupSummary {
        [wrote: WriteSummary],
        /// Keys that were looked up.
        keys: u64,
    }
}

/// The verb.
pub(crate) struct Lookup;

impl Verb for Lookup {
    const NAME: &'static str = LOOKUP;
    type Args = LookupArgs;
    type Report = LookupSummary;
    const PHASES: &'static [Weight] = WRITE;

    fn run(host: &dyn Host, args: &LookupArgs) -> Result<LookupSummary> {
        args.files.input.check_as_they_are(
            LOOKUP,
            "lookup reads records at their positions in the files",
            "filter into a file first",
        )?;
        let mut read: Vec<&Path> = vec![&args.keys];
        read.extend(args.index.as_deref());
        let written = &args.files.output.output;
        let written = output::NamedOutput {
            name: written,
            path: written,
        };
        output::refuse_inputs(&read, &[written])?;
        let what = what_is_searched(host, args)?;
        host.given().applies_to(what)?;
        match what {
            What::View | What::Lines => view::in_view(host, args, what == What::View),
            _ => records::in_records(host, args),
        }
    }

    fn say(args: &LookupArgs, report: &LookupSummary, words: &mut Words) {
        say(
            &Lookup::headline(report),
            &report.wrote,
            &args.files.input,
            words,
        );
    }

    fn headline(report: &LookupSummary) -> String {
        let wrote = &report.wrote;
        let used = &wrote.used;
        format!(
            "{LOOKUP}: {} among {}, {} in {}: {}",
            units::counted(report.keys, "key"),
            units::counted(wrote.records_in.unwrap_or(0), &wrote.unit),
            units::bytes(used.read_bytes),
            units::seconds(used.seconds),
            units::rate_decimal(used.read_bytes as f64 / used.seconds.max(1e-9)),
        )
    }

    fn takes_stdout(args: &LookupArgs) -> bool {
        args.files
            .input
            .is_written_to_stdout(&args.files.output.output)
    }
}

/// The kind of the data that are searched.
fn what_is_searched(host: &dyn Host, args: &LookupArgs) -> Result<What> {
    if matches!(&args.files.input.inputs[..], [dir] if dir.is_dir()) {
        return Ok(What::View);
    }
    let record = &args.files.input.record;
    let what = host.what(Asked {
        inputs: &args.files.input.inputs,
        is_records: record.is_typed() || !record.keys.is_empty(),
        is_lines: args.lines || args.zero_terminated,
        ..Asked::default()
    })?;
    // Here all text is lines, whatever the name of its file is.
    Ok(if what.is_text() { What::Lines } else { what })
}

fn side_of(args: &LookupArgs) -> Side {
    match args.side {
        SideArg::Left => Side::Left,
        SideArg::Right => Side::Right,
    }
}

/// Writes items that are in memory; `done` is the work that found them.
fn write_found(
    job: &Job,
    found: &InMemory<'_>,
    output: &Output,
    force: bool,
    done: Done,
) -> Result<Done> {
    let written = produce(job, found, output, force)?;
    Ok(and_written(done, written))
}

/// The sum of the work `done` and the writes that followed.
fn and_written(done: Done, written: Done) -> Done {
    Done {
        records_in: done.records_in,
        ..done.and(Done {
            passes: 0,
            ..written
        })
    }
}
