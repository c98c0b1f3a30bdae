//! The options and the report of `sort`.
//!
//! Contract: each option and each field is defined here alone, with its name, type, default and
//! help. Short options have the meaning of GNU sort; `-h` without anything to sort prints help.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::primitives::PartTotals;

use crate::option::lines::{CheckHow, FormatArgs, GnuArgs, HeaderArgs, LineArgs, OrderArgs};
use crate::option::tables::TableArgs;
use crate::option::{ChecksumArgs, JobArgs, ResumeArgs, TypeArgs, VerifyOutputArgs, checksum_text};
use crate::report::{WriteSummary, report};

const SORT_EXAMPLES: &str = "\
Examples:
  outcore sort keys.bin -o sorted.bin --type u64 --memory 2GiB
  outcore sort log.bin -o by-time.bin --record 64 --key 8:8:u64 --stable
  outcore sort points.npy -o sorted.npy --descending
  outcore sort big.bin -o 'sorted-{drive}.bin' --type gensort --drive /mnt/a --drive /mnt/b
  outcore sort big.bin -o out.bin --type u64 --record-io out.iotrace
  producer | outcore sort - --type f64 | consumer

Tables:
  outcore sort t.parquet --by url --by time:desc -o by-url.parquet

Lines, with the options of GNU sort:
  outcore sort -t, -k2,2n big.csv -o by-second-column.csv --memory 2GiB
  outcore sort -u names.txt > distinct.txt
  outcore sort --csv --by country --by price:nr sales.csv -o by-price.csv
  outcore sort --jsonl --by .user.id events.jsonl.zst -o by-user.jsonl.zst
  zcat logs.gz | outcore sort -k4,4 -s | less
  outcore sort --comment '#' -k1,1V -k2,2n calls.vcf -o sorted.vcf
  outcore sort reads.fastq.gz -o by-length.fastq.gz --by length:desc

If the program is called `sort` (ln -s \"$(command -v outcore)\" ~/bin/sort), it behaves as GNU sort does: \
errors exit with 2, inputs are lines, and file names say nothing about contents (x.gz is not decompressed).";

/// Sort lines, records or tables, larger than memory if need be
///
/// Parquet and Arrow files, and CSV and JSON lines with --by, are tables, whose rows are sorted.
/// Inputs with a type (--type, --record, .npy or a manifest) are sorted as records: by key, then by
/// all of their bytes. All other text is sorted as lines, with the options of GNU sort in the C
/// locale and byte-identical output. Compressed text (gzip, zstd, bzip2 or xz, detected by content)
/// is decompressed, and OUT is compressed if its name ends in .gz, .zst, .bz2 or .xz. outcore
/// rejects other binary data unless you pass its type, or --lines. OUT appears whole or not at all.
/// Inputs never change, unless you pass --replace, --delete-input or, for lines, -o with the name
/// of an input.
#[derive(Debug, Default, Args)]
#[command(
    after_long_help = SORT_EXAMPLES,
    mut_arg("resume", |option| option.conflicts_with_all(["delete_input", "check", "check_silently"])),
    mut_arg("verify_output", |option| option.conflicts_with_all(["check", "check_silently"])),
    mut_arg("checksum", |option| option.conflicts_with_all(["check", "check_silently", "merge"])),
)]
pub(crate) struct SortArgs {
    /// Files to sort, in order: lines, tables, records, .npy, or a manifest (.outcore.json) of
    /// shards; - is standard input, which is the default for lines. To read records from
    /// standard input, pass - and a type
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output: a file, - for standard output, or one shard per drive if the name contains
    /// {drive}, as in 'sorted-{drive}.bin'. Default: standard output. Lines replace an
    /// existing file, even an input; CSV and JSON lines only with --force
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Reverse the key order (largest first)
    #[arg(
        short = 'r',
        long,
        alias = "reverse",
        help_heading = "Order",
        overrides_with = "descending"
    )]
    pub(crate) descending: bool,
    /// Keep the input order of equal keys
    #[arg(short, long, help_heading = "Order", overrides_with = "stable")]
    pub(crate) stable: bool,
    /// Keep one line, record or row for each key: the first in output order
    #[arg(short, long, help_heading = "Order", overrides_with = "unique")]
    pub(crate) unique: bool,
    /// Only check whether the input is sorted. If it is not, report the first item out of order and
    /// exit with 1
    #[arg(short, long, help_heading = "Order", value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "diagnose-first", conflicts_with_all = ["output", "replace", "delete_input", "explain", "dry_run"])]
    pub(crate) check: Option<CheckHow>,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) gnu: GnuArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    /// Let the output replace an input: OUT is one of the inputs; with a single input it may be
    /// left out
    #[arg(long, help_heading = "Files")]
    pub(crate) replace: bool,
    /// Free the blocks of the inputs as they are read, and remove the inputs at the end. Saves
    /// space, but if the job fails, the data that it has read are lost. A marker file
    /// (.NAME.outcore-consumed) then records this, and outcore rejects the input while the marker
    /// exists
    #[arg(long, help_heading = "Files")]
    pub(crate) delete_input: bool,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
    #[command(flatten)]
    pub(crate) check_output: VerifyOutputArgs,
    #[command(flatten)]
    pub(crate) sums: ChecksumArgs,
    /// Print the plan (passes, buffers, predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
    /// Seed for sampling, drive choice and -R. Without a seed, -R has a different order in each
    /// run. Only the output of -R depends on the seed
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pub(crate) seed: Option<u64>,
}

impl SortArgs {
    /// Whether only the order is to be checked.
    pub(crate) fn is_check(&self) -> bool {
        self.check.is_some() || self.gnu.check_silently
    }
}

report! {
    /// The result of a sort, or of a check of the order.
    pub(crate) struct SortSummary {
        [wrote: WriteSummary],
        /// Whether the input is in order; none if it was sorted.
        is_sorted: Option<bool>,
        /// The sum of the hashes of all items of the output, in hexadecimal: for records as
        /// `verify` computes it, for lines as `verify --lines`; none if it was not asked for.
        checksum: Option<String>,
    }
}

impl SortSummary {
    /// The summary of a sort.
    pub(crate) fn of(wrote: WriteSummary) -> Self {
        SortSummary {
            wrote,
            is_sorted: None,
            checksum: None,
        }
    }

    /// The same with the totals of the output, if they were asked for.
    pub(crate) fn with_totals(self, totals: Option<PartTotals>) -> Self {
        SortSummary {
            checksum: totals.map(checksum_text),
            ..self
        }
    }
}
