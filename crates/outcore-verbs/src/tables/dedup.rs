//! `dedup`: removes duplicate rows of tables, and keeps the order of the rest.
//!
//! Contract: lines are rejected: `dedup` needs the position of each row to keep the order, and
//! positions of lines are not cheap to find; `unique` writes lines in the order of their keys. If
//! option A requires option B, the definition of A repeats the conflicts of B: clap does not
//! enforce the requirement if B conflicts with a given option.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::key::column::column_name;
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;
use outcore_io::units;
use outcore_table::jobs::{self, Keep, Near, PassageUnit, Shingles, Substring};
use outcore_table::rows::KeyColumn;

use super::inputs::NoTable;
use super::outputs::further_output;
use super::request::Settled;
use super::{READ, Request, WriteSummary, keys_of, run};
use crate::host::{Host, Weight};
use crate::option::ResumeArgs;
use crate::option::tables::TableFileArgs;
use crate::report::{Place, report};
use crate::verb::{Inputs, Verb, Words};
use crate::wording::{Said, headline, say};

const DEDUP_EXAMPLES: &str = "\
Examples:
  outcore dedup docs.parquet -o clean.parquet --by url
  outcore dedup crawl/ -o clean.parquet --by url --keep fetched:desc
  outcore dedup docs.parquet -o clean.parquet --by text --removed duplicates.parquet
  outcore dedup t.parquet -o t2.parquet --keep last --memory 512MiB
  outcore dedup docs.parquet -o clean.parquet --near text --jaccard 0.8 --removed near.parquet
  outcore dedup docs.parquet -o clean.parquet --substring 50 --of text --removed passages.parquet
  outcore dedup docs.parquet -o clean.parquet --substring 50 --tokens --of text

Without --by, rows are duplicates if all their columns are equal. Nulls equal each other. For \
distinct rows in the order of their keys, use `outcore unique`, which also works on lines, CSV \
and JSON lines.

--near finds rows whose texts are nearly the same: MinHash signatures are cut into bands, and rows \
that have a band in common belong together. The chance that two texts share a band rises steeply where their \
Jaccard similarity (the number of shingles that both have, divided by the number that either has) reaches --jaccard. Shingles are 5 words, in \
lower case and without punctuation. The result depends only on the rows, the options and --seed. \
With --near, removed rows get a column duplicate_of: the number of the row that was kept, from 0. Without --near, removed rows are unchanged and in input order; the row that was kept instead is the row of OUT with the same values in the columns of --by.

--substring removes passages of texts instead of rows. A passage is removed if it has already occurred, in an earlier row or earlier in the same row, and has at least this many bytes, or with --tokens this many tokens (separated by white space). Tokens must match exactly; the white space between them makes no difference, and the white space after the last token of a passage is removed with it. The first occurrence stays. Every row stays, even if its text \
becomes empty. --removed has one row per passage: row, start and length (in bytes), first_row (the row where its beginning occurred first) and text.";

/// The hint for a word of pandas in the place of a column.
const KEEPS: &str = "write first, last, or COLUMN:desc for the row that comes first in this order; \
                     one row of each key stays";

/// Remove duplicate rows from tables, and keep the others in input order
///
/// One row of each key is kept: the first in the input, the last, or the best by another column.
/// OUT has the kept rows in the order of the input. Only the key columns go through scratch.
#[derive(Debug, Args)]
#[command(
    after_long_help = DEDUP_EXAMPLES,
    mut_arg("resume", |option| option.conflicts_with("removed")),
)]
pub(crate) struct DedupArgs {
    #[command(flatten)]
    pub(crate) files: TableFileArgs,
    /// Columns that make two rows duplicates, separated by commas. Default: all columns
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Vec<String>,
    /// Which row of each key to keep: first, last, or COLUMN for the row with the smallest value in
    /// this column (COLUMN:desc for the largest)
    #[arg(long, value_name = "WHICH", default_value = "first")]
    pub(crate) keep: String,
    /// Remove rows whose texts in this column are nearly the same
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with = "by",
        help_heading = "Near duplicates"
    )]
    pub(crate) near: Option<String>,
    /// Minimum similarity of near duplicates, above 0 and up to 1
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.8,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) jaccard: f64,
    /// Shingles for the comparison of texts: words:N, or chars:N for languages without spaces
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "words:5",
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) shingles: String,
    /// Number of hashes in a signature: more hashes find near duplicates more reliably, and take
    /// longer
    #[arg(
        long,
        value_name = "N",
        default_value_t = 128,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) hashes: usize,
    /// Random seed of the hashes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "near",
        conflicts_with_all = ["by", "substring"],
        help_heading = "Near duplicates"
    )]
    pub(crate) seed: u64,
    /// Remove passages of at least this many bytes (with --tokens, tokens) that have already
    /// occurred; 50 is usual
    #[arg(
        long,
        value_name = "LENGTH",
        conflicts_with_all = ["by", "near", "keep"],
        requires = "of",
        help_heading = "Passages"
    )]
    pub(crate) substring: Option<usize>,
    /// Measure passages in tokens, which are separated by white space, instead of bytes
    #[arg(
        long,
        requires = "substring",
        conflicts_with_all = ["by", "near"],
        help_heading = "Passages"
    )]
    pub(crate) tokens: bool,
    /// The column of the texts
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "substring",
        conflicts_with_all = ["by", "near", "keep"],
        help_heading = "Passages"
    )]
    pub(crate) of: Option<String>,
    /// Write the removed rows or passages to this table
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) removed: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) journal: ResumeArgs,
}

report! {
    /// The result of a deduplication.
    pub(crate) struct DedupSummary {
        [table: WriteSummary],
        /// Rows that were left out; none if passages were removed.
        removed: Option<u64>,
        /// Passages that were removed; none if rows were left out.
        cuts: Option<u64>,
        /// Bytes that were removed; none if rows were left out, or if tokens were counted.
        cut_bytes: Option<u64>,
        /// Tokens that were cut.
        cut_tokens: Option<u64>,
        /// The table of removed rows; none if no file was named.
        removed_output: Option<Place>,
        /// Length of this table in bytes.
        removed_bytes: Option<u64>,
    }
}

/// The verb.
pub(crate) struct Dedup;

impl Verb for Dedup {
    const NAME: &'static str = "dedup";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = DedupArgs;
    type Report = DedupSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0), ("copy", 1.0)];

    fn run(host: &dyn Host, args: &DedupArgs) -> Result<DedupSummary> {
        let files = &args.files;
        let no_table = NoTable {
            cause: "dedup takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore unique` keeps one of each record",
            of_lines: "`outcore unique` keeps one of each line",
        };
        let settled = Settled::of(host, files, no_table)?;
        let keys = keys_of(&args.by, false)?;
        let is_foreign = matches!(args.keep.as_str(), "any" | "none" | "false");
        let explain =
            |error: Error| match is_foreign && error.cause().starts_with("there is no column") {
                true => error.hint(KEEPS),
                false => error,
            };
        let keep = match args.keep.as_str() {
            "first" => Keep::First,
            "last" => Keep::Last,
            column => Keep::Best(vec![KeyColumn::parse(column)?]),
        };
        let best = match &keep {
            Keep::Best(columns) => &columns[..],
            Keep::First | Keep::Last => &[],
        };
        let texts = args.near.iter().chain(&args.of);
        let texts = texts.map(|name| column_name(name));
        let text = settled.text.needing_keys(&keys)?.needing_keys(best)?;
        let text = text.needing(texts);
        let near = near_of(args, &keep)?;
        let request = Request {
            keeps_journal: args.journal.resume,
            ..Request::of(files, &text)
        };
        let removed = match &args.removed {
            None => None,
            Some(name) => Some(further_output(host, &request, name)?),
        };
        let removed = removed.as_ref().map(|(path, writes)| (path, writes));
        let of_removed = |bytes: u64| args.removed.as_ref().map(|_| bytes);
        let removed_output = args.removed.clone().map(Place);
        if let Some(wanted) = substring_of(args) {
            let ran = run(host, &request, settled.resources, |job, ends| {
                jobs::dedup_substring(job, ends, &wanted, removed)
            })?;
            let units = Some(ran.done.cut_units);
            return Ok(DedupSummary {
                table: ran.report,
                removed: None,
                cuts: Some(ran.done.cuts),
                cut_bytes: units.filter(|_| wanted.unit == PassageUnit::Bytes),
                cut_tokens: units.filter(|_| wanted.unit == PassageUnit::Tokens),
                removed_output,
                removed_bytes: of_removed(ran.done.removed_bytes),
            });
        }
        let ran = run(host, &request, settled.resources, |job, ends| match &near {
            Some(near) => jobs::dedup_near(job, ends, near, removed),
            None => jobs::dedup(job, ends, (&keys, &keep), removed),
        });
        let ran = ran.map_err(explain)?;
        Ok(DedupSummary {
            table: ran.report,
            removed: Some(ran.done.removed),
            cuts: None,
            cut_bytes: None,
            cut_tokens: None,
            removed_output,
            removed_bytes: of_removed(ran.done.removed_bytes),
        })
    }

    fn say(args: &DedupArgs, report: &DedupSummary, words: &mut Words) {
        let said = said(report);
        say(&report.table, &said, args.files.plan.explain, words);
    }

    fn headline(report: &DedupSummary) -> String {
        headline(&report.table, &said(report))
    }

    fn takes_stdout(args: &DedupArgs) -> bool {
        is_stdout(&args.files.output)
    }
}

/// The report in words.
fn said(report: &DedupSummary) -> Said<'static> {
    let cuts = report.cuts.map(|cuts| {
        let amount = match report.cut_tokens {
            Some(tokens) => units::counted(tokens, "token"),
            None => units::bytes(report.cut_bytes.unwrap_or(0)),
        };
        format!("cut {amount} from {}", units::counted(cuts, "place"))
    });
    let written = report.removed_output.as_ref().map(|place| {
        let what = report
            .removed
            .map(|rows| units::counted(rows, "removed row"));
        let what = what.unwrap_or_else(|| "them".to_owned());
        format!("wrote {what} to {}", place.0.display())
    });
    Said {
        notes: cuts.into_iter().chain(written).collect(),
        ..Said::of("kept")
    }
}

/// The request of `--substring` and the options that belong to it.
fn substring_of(args: &DedupArgs) -> Option<Substring> {
    let (count, column) = args.substring.zip(args.of.as_ref())?;
    Some(Substring {
        column: column_name(column),
        units_count: count,
        unit: match args.tokens {
            true => PassageUnit::Tokens,
            false => PassageUnit::Bytes,
        },
    })
}

/// The request of `--near` and the options that belong to it.
fn near_of(args: &DedupArgs, keep: &Keep) -> Result<Option<Near>> {
    let Some(column) = &args.near else {
        return Ok(None);
    };
    if let Keep::Best(_) = keep {
        let cause =
            "of near duplicates, the first or the last row is kept, not the best by a column";
        return Err(Error::usage(READ, cause)
            .hint("give --keep first or --keep last; sort the table by that column first"));
    }
    Ok(Some(Near {
        shingles: Shingles::parse(&args.shingles)?,
        hashes_count: args.hashes,
        seed: args.seed,
        keeps_last: *keep == Keep::Last,
        ..Near::new(column_name(column), args.jaccard)
    }))
}
