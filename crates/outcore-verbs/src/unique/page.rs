//! The options of `unique`.
//!
//! Contract: each option is defined here alone, with its name, type, default and help.

use clap::Args;
use outcore::sort::lines::Occurrences;
use outcore_front::text::part::LinePart;

use crate::option::lines::{FormatArgs, HeaderArgs, LineArgs, OrderArgs};
use crate::option::tables::TableArgs;
use crate::option::{FileArgs, JobArgs, ResumeArgs, TypeArgs, VerifyOutputArgs};

const UNIQUE_EXAMPLES: &str = "\
Examples:
  outcore unique urls.txt -o distinct.txt
  outcore unique --count words.txt | sort -rn | head
  outcore unique -k1,1 access.log
  outcore unique --repeated -f 2 access.log
  outcore unique --keep-order urls.txt -o first-of-each.txt
  outcore unique --csv --by email users.csv
  outcore unique reads.fastq --by sequence -o distinct.fastq
  outcore unique keys.bin --type u64 -o distinct.bin
  outcore unique --count ids.npy -o counts.npy";

/// Keep one of each line, record or row, in order, or count them
///
/// The output is that of `sort -u`; with --count, that of `sort | uniq -c`, or for records each
/// record followed by an 8-byte count. With keys (-k, or --by for CSV, JSON lines and FASTQ), one
/// line or record is kept per key; for lines and FASTQ, it is the first in the input.
///
/// outcore compares all lines of the input, as `sort | uniq` does, and not only neighbours. The
/// options of GNU uniq (-c -d -D -u -i -f -s -w -z) have the same meaning. With -f, -s or -w, the
/// compared part of a line is its key, and lines are in the order of their keys.
#[derive(Debug, Args)]
#[command(
    after_long_help = UNIQUE_EXAMPLES,
    mut_arg("parts", |option| option.hide(true)),
    // Letters of GNU uniq that have another meaning in GNU sort.
    mut_arg("dictionary_order", |option| option.short(None)),
    mut_arg("ignore_nonprinting", |option| option.short(None)),
    mut_arg("ignore_case", |option| option.short('i')),
    mut_arg("resume", |option| option.conflicts_with_all(["count", "keep_order"])),
    mut_arg("verify_output", |option| option.conflicts_with_all(["count", "keep_order"])),
)]
pub(crate) struct UniqueArgs {
    #[command(flatten)]
    pub(crate) files: FileArgs,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
    #[command(flatten)]
    pub(crate) check_output: VerifyOutputArgs,
    #[command(flatten)]
    pub(crate) record: TypeArgs,
    /// Put the number of equal lines before each line, or the number of equal records after
    /// each record
    #[arg(short, long, help_heading = "Order")]
    pub(crate) count: bool,
    #[command(flatten)]
    pub(crate) occurrence: OccurrenceArgs,
    /// Keep the first of equal lines, in input order, as `awk '!seen[$0]++'` does. A table keeps
    /// the first row of each key, in input order
    #[arg(long, help_heading = "Order", conflicts_with_all = ["count", "descending"])]
    pub(crate) keep_order: bool,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// Reverse the key order (largest first)
    #[arg(short = 'r', long, alias = "reverse", help_heading = "Order")]
    pub(crate) descending: bool,
    #[command(flatten)]
    pub(crate) order: OrderArgs,
    #[command(flatten)]
    pub(crate) lines: LineArgs,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    #[command(flatten)]
    pub(crate) text: FormatArgs,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Print the plan (passes and buffers; by hashing or by sorting), then run
    #[arg(long, help_heading = "Plan")]
    pub(crate) explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub(crate) dry_run: bool,
}

/// Which lines or records are kept, by how often they occur.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Order")]
pub(crate) struct OccurrenceArgs {
    /// Keep only lines, records or keys that occur more than once, one of each
    #[arg(short = 'd', long, overrides_with = "repeated")]
    pub(crate) repeated: bool,
    /// Keep only lines, records or keys that occur once
    #[arg(
        short = 'u',
        long,
        overrides_with = "unique",
        conflicts_with = "repeated"
    )]
    pub(crate) unique: bool,
    /// Keep all lines whose key occurs more than once, and not only one of each
    #[arg(short = 'D', long, overrides_with = "all_repeated", conflicts_with_all = ["repeated", "unique", "count"])]
    pub(crate) all_repeated: bool,
}

impl OccurrenceArgs {
    /// The lines that the options choose.
    pub(crate) fn occurrences(&self) -> Occurrences {
        match (self.repeated || self.all_repeated, self.unique) {
            (true, _) => Occurrences::Repeated,
            (false, true) => Occurrences::Once,
            (false, false) => Occurrences::Any,
        }
    }
}

/// The part of a line that is compared.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Order of lines")]
pub(crate) struct PartArgs {
    /// Do not compare the first N fields. A field is a run of spaces and tabs, and the text up to
    /// the next space or tab
    #[arg(short = 'f', long, value_name = "N")]
    skip_fields: Option<u64>,
    /// Do not compare the first N bytes, counted after the skipped fields
    #[arg(short = 's', long, value_name = "N")]
    skip_chars: Option<u64>,
    /// Compare at most N bytes of a line
    #[arg(short = 'w', long, value_name = "N")]
    check_chars: Option<u64>,
}

impl PartArgs {
    /// The part of a line that is compared, if it is not the whole line.
    pub(crate) fn part(&self) -> Option<LinePart> {
        let given = [self.skip_fields, self.skip_chars, self.check_chars];
        given.iter().any(Option::is_some).then(|| LinePart {
            fields_skipped: self.skip_fields.unwrap_or(0),
            bytes_skipped: self.skip_chars.unwrap_or(0),
            bytes_max: self.check_chars,
        })
    }
}
