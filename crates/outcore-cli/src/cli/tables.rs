//! The flags of tables.
//!
//! Contract: as [`super`].

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{DriveArgs, RecordArgs, ResourceArgs, ScratchArgs, parse_count};

const CONVERT_EXAMPLES: &str = "\
Examples:
  outcore convert t.arrow -o t.parquet
  outcore convert logs/ -o logs.parquet --columns time,country,url
  outcore convert t.parquet -o small.parquet --codec zstd:9
  outcore convert t.parquet -o parts/ --parts 8";

const INFO_EXAMPLES: &str = "\
Examples:
  outcore info t.parquet
  outcore info logs/ --json";

/// How tables are read and written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tables (Parquet and Arrow)")]
pub(crate) struct TableArgs {
    /// Keep these columns, in this order; the others are not read
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Let files of one table lack columns, which are null there
    #[arg(long)]
    pub(crate) union: bool,
    /// Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
    /// Default: zstd:1 for Parquet, lz4 for Arrow
    #[arg(long, value_name = "CODEC")]
    pub(crate) codec: Option<String>,
    /// Rows of a row group, at most
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) group_rows: Option<u64>,
    /// Columns that get a bloom filter, in Parquet
    #[arg(long = "bloom", value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) bloom_filters: Vec<String>,
    /// Write N Parquet files of equal numbers of rows to the directory OUT
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) parts: Option<u64>,
}

impl TableArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        !self.columns.is_empty()
            || !self.bloom_filters.is_empty()
            || self.union
            || self.codec.is_some()
            || self.group_rows.is_some()
            || self.parts.is_some()
    }
}

/// Whether plans are shown.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanArgs {
    /// Print the plan, then run
    #[arg(long)]
    pub(crate) explain: bool,
}

/// Where tables come from and go to, of commands for nothing but tables.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TableFileArgs {
    /// Parquet or Arrow files, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output: .parquet, .arrow or .feather (Arrow file), or .arrows (Arrow stream)
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    #[command(flatten)]
    pub(crate) scratch: ScratchArgs,
    /// Replace existing outputs
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Copy tables between Parquet and Arrow, with other columns, another codec or in parts
///
/// Rows keep their order, columns their types, and the schema its metadata. OUT appears whole or
/// not at all.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// Parquet or Arrow files, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), or a directory
    /// with --parts
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) tables: TableArgs,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordArgs,
}

/// Print the rows, columns and row groups of tables
///
/// Reads only what the files say of themselves.
#[derive(Debug, Args)]
#[command(after_long_help = INFO_EXAMPLES)]
pub(crate) struct InfoArgs {
    /// Parquet or Arrow files, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
}
