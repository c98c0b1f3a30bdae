//! Arguments of the verbs on sequences: the input, a first step, the output.
//!
//! Contract: each option is defined here alone, with its name, type, default and help. Options for
//! inputs, types and resources have the names that `sort` uses; `--where` and `--map` refine the
//! input of any of these verbs in the same pass.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::{Error, Result};
use outcore_front::inputs::is_stdout;

use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{JobArgs, STDOUT, TypeArgs, parse_count};

/// The help of inputs for a verb that also takes tables.
pub(crate) const TABLES_TOO: &str = "Files to read, in order, as one input: raw records, .npy, a manifest (.outcore.json) of \
    shards, or tables: files of Parquet, Arrow, CSV (.csv) or JSON lines (.jsonl), and directories of them; - is standard input";

/// The input, and the conditions that refine it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// Files to read, in order, as one input: raw records, .npy, or a manifest (.outcore.json) of
    /// shards; - is standard input
    #[arg(value_name = "IN", value_hint = ValueHint::FilePath, required_unless_present = "integers")]
    pub inputs: Vec<PathBuf>,
    /// Zip IN with another file of the same number of records. Its numbers are y, and those of a
    /// third file are z; fields of records are x.key0, y.key0
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub zip: Vec<PathBuf>,
    /// Use the integers 0..N-1 as input, x, instead of files
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with_all = ["inputs", "zip", "format"])]
    pub integers: Option<u64>,
    /// Keep only records for which EXPR is true; repeat to AND conditions
    #[arg(
        long = "where",
        value_name = "EXPR",
        help_heading = "Steps",
        allow_hyphen_values = true
    )]
    pub conditions: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub record: TypeArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub job: JobArgs,
    /// Print the plan, then run
    #[arg(long, help_heading = "Plan")]
    pub explain: bool,
    /// Print the plan and stop
    #[arg(long, help_heading = "Plan", conflicts_with = "trace")]
    pub dry_run: bool,
    /// Replace existing files
    #[arg(long, help_heading = "Files")]
    pub force: bool,
}

impl InputArgs {
    /// Whether a result with the name `output` goes to standard output.
    pub(crate) fn is_written_to_stdout(&self, output: &Path) -> bool {
        is_stdout(output) && !self.dry_run
    }

    /// Fails for options that change the input, for a verb that needs it unchanged.
    ///
    /// # Errors
    /// Usage, in `operation`, with `cause`, and with `hint` as the next step.
    pub(crate) fn check_as_they_are(
        &self,
        operation: &'static str,
        cause: &str,
        hint: &str,
    ) -> Result<()> {
        match self.conditions.is_empty() && self.zip.is_empty() && self.integers.is_none() {
            true => Ok(()),
            false => {
                let cause = format!("{cause}: --where, --zip and --integers are not allowed");
                Err(Error::usage(operation, cause).hint(hint))
            }
        }
    }

    /// Whether the plan is shown.
    pub(crate) fn is_planned(&self) -> bool {
        self.explain || self.dry_run
    }
}

/// A step in front of a command that prints or scans.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Steps")]
pub(crate) struct MapStep {
    /// Apply EXPR to each record first
    #[arg(long, value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) map: Option<String>,
}

/// The place of the result.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Output: a file (.npy gets a header), or one shard per drive if the name contains {drive}.
    /// Default: standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true, help_heading = "Files")]
    pub(crate) output: PathBuf,
}

/// The input and the place of the result of a verb that writes records.
#[derive(Debug, Clone, Args)]
pub(crate) struct PassArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Gives access to the [`PassArgs`] in the options of verbs.
macro_rules! has_files {
    ($($args:ty),*) => {
        $(impl AsRef<crate::sequence::args::PassArgs> for $args {
            fn as_ref(&self) -> &crate::sequence::args::PassArgs {
                &self.files
            }
        })*
    };
}

pub(super) use has_files;

/// How a verb that also takes tables reads and writes them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RowsArgs {
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

/// An expression may begin with a minus. A word that looks like a flag is an unknown flag.
pub(crate) fn parse_expression(text: &str) -> Result<String> {
    let is_flag = text.strip_prefix("--").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_lowercase()) && !rest.contains(['(', ' '])
    });
    match is_flag {
        false => Ok(text.to_string()),
        true => Err(
            Error::usage("read arguments", format!("unexpected argument '{text}'")).hint(
                "the expression is the first operand, without an option before it; see --help",
            ),
        ),
    }
}
