//! Options of verbs on tables.
//!
//! Contract: as [`super`]: each option is defined here once, with its name, type, default and help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use outcore::read::text_kind::TextKind;
use outcore::sort::lines::OnNoKey;
use outcore::{Error, Result};

use super::lines::{TextFlags, separator_of};
use super::{BadRowArgs, JobArgs, OnError, PlanArgs, STDOUT, parse_count};

/// The format of a table in a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PipeFormat {
    /// An Arrow IPC stream
    Arrow,
    /// CSV
    Csv,
    /// CSV with tabs between fields
    Tsv,
    /// JSON lines
    Jsonl,
}

/// How tables are read and written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tables (Parquet and Arrow)")]
pub struct TableArgs {
    /// Keep these columns, in this order; the others are not read. st.a is the field a of objects
    /// st. A name in backquotes may contain commas, or be empty
    #[arg(long, value_name = "NAME,...")]
    pub columns: Vec<String>,
    /// Accept files with different columns: missing ones become null, and columns of different
    /// types get a common type: the wider integer, a float, a decimal with all digits, the finer
    /// timestamp
    #[arg(long)]
    pub union: bool,
    /// Compression of OUT: zstd, snappy, lz4, gzip, brotli or none, with a level as in zstd:9.
    /// Default: zstd:1 for Parquet, lz4 for Arrow
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<String>,
    /// Maximum number of rows in a row group
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub group_rows: Option<u64>,
    /// Columns that get a bloom filter, in Parquet
    #[arg(long = "bloom", value_name = "NAME,...")]
    pub bloom_filters: Vec<String>,
    /// Read CSV or JSON lines as a table with these types: bool, i8 to u64, f32, f64, text, date,
    /// time, timestamp[us,UTC], decimal(12,2), list<TYPE>, struct<NAME:TYPE>. Types of other
    /// columns are inferred from a sample
    #[arg(long, value_name = "NAME:TYPE,...")]
    pub schema: Option<String>,
    /// Read CSV or JSON lines as a table, with column types inferred from a sample. This is the
    /// default if OUT is Parquet or Arrow, and for commands that take only tables
    #[arg(long)]
    pub infer: bool,
    /// Texts of CSV fields that are null, in addition to empty fields, as in NA,NULL. `pandas` is
    /// the list of pandas.read_csv
    #[arg(
        long,
        value_name = "TEXT,...",
        value_delimiter = ',',
        help_heading = "CSV and JSON lines"
    )]
    pub null: Vec<String>,
    /// What to do with rows of CSV and JSON lines that do not have the columns, or values of their
    /// types (and, where lines are sorted by a field, with lines that lack it)
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        help_heading = "CSV and JSON lines"
    )]
    pub on_error: Option<OnError>,
    /// Write N Parquet files of equal numbers of rows to the directory OUT
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub parts: Option<u64>,
    /// Format of the table on standard input (use - as IN). The input is first copied to scratch
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub from: Option<PipeFormat>,
    /// Write a table in this format to standard output. Default: the format of the first input; for
    /// Parquet and Arrow files CSV, or JSON lines if a column has lists or objects
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: Option<PipeFormat>,
}

impl TableArgs {
    /// The format of the table on standard input, if `--from` is given.
    pub fn piped(&self) -> Option<Option<TextKind>> {
        self.from.map(PipeFormat::text)
    }

    /// The byte between the fields of standard input, if `--from` gives it.
    #[cfg(feature = "tables")]
    pub(crate) fn piped_separator(&self) -> Option<u8> {
        (self.from == Some(PipeFormat::Tsv)).then_some(b'\t')
    }

    /// Whether an option is given that turns text into a table.
    pub(crate) fn is_given(&self) -> bool {
        !self.columns.is_empty()
            || self.from.is_some()
            || self.to.is_some()
            || !self.bloom_filters.is_empty()
            || self.union
            || self.codec.is_some()
            || self.group_rows.is_some()
            || self.schema.is_some()
            || self.infer
            || !self.null.is_empty()
            || self.on_error == Some(OnError::Null)
            || self.parts.is_some()
    }

    /// The treatment of lines without the field `by`, in the engine's form.
    ///
    /// # Errors
    /// Usage if lines have no fields, and for null, which does not exist for lines.
    pub(crate) fn on_no_key(&self, by: &[String]) -> Result<OnNoKey> {
        let wrong = |cause: &str, hint: &str| Err(Error::usage("read arguments", cause).hint(hint));
        match self.on_error {
            Some(OnError::Skip | OnError::Null) if by.is_empty() => wrong(
                "--on-error is for lines that lack a field, and no --by names one",
                "name the field with --by, or leave --on-error out",
            ),
            Some(OnError::Null) => wrong(
                "--on-error null is for tables, but these are lines",
                "add --infer to read the lines as a table, or use --on-error skip",
            ),
            Some(OnError::Skip) => Ok(OnNoKey::Skip),
            Some(OnError::Fail) | None => Ok(OnNoKey::Fail),
        }
    }
}

/// How tables are read, where none is written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Tables (Parquet and Arrow)")]
pub(crate) struct ReadTableArgs {
    /// Keep these columns, in this order; the others are not read. st.a is the field a of objects
    /// st. A name in backquotes may contain commas, or be empty
    #[arg(long, value_name = "NAME,...")]
    columns: Vec<String>,
    /// Accept files with different columns: missing ones become null, and columns of different
    /// types get a common type: the wider integer, a float, a decimal with all digits, the finer
    /// timestamp
    #[arg(long)]
    union: bool,
    /// Read CSV or JSON lines as a table with these types (see `outcore convert`); types of other
    /// columns are inferred from a sample
    #[arg(long, value_name = "NAME:TYPE,...")]
    schema: Option<String>,
    /// Read CSV or JSON lines as a table, with column types inferred from a sample
    #[arg(long)]
    infer: bool,
    #[command(flatten)]
    bad_rows: BadRowArgs,
}

impl From<&BadRowArgs> for TableArgs {
    fn from(bad_rows: &BadRowArgs) -> Self {
        TableArgs {
            null: bad_rows.null.clone(),
            on_error: bad_rows.on_error,
            ..TableArgs::default()
        }
    }
}

impl PipeFormat {
    /// The kind of text; none for Arrow.
    pub fn text(self) -> Option<TextKind> {
        match self {
            PipeFormat::Arrow => None,
            PipeFormat::Csv | PipeFormat::Tsv => Some(TextKind::Csv),
            PipeFormat::Jsonl => Some(TextKind::JsonLines),
        }
    }
}

impl ReadTableArgs {
    /// These options as those of a verb that also writes tables.
    pub(crate) fn to_tables(&self) -> TableArgs {
        TableArgs {
            columns: self.columns.clone(),
            union: self.union,
            schema: self.schema.clone(),
            infer: self.infer,
            ..TableArgs::from(&self.bad_rows)
        }
    }
}

/// CSV and JSON lines as tables, for verbs that accept only tables.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "CSV and JSON lines")]
pub struct TextArgs {
    /// Input is CSV, whatever its name: quoted fields may contain separators and newlines, and the
    /// first line of each file names the columns
    #[arg(long, conflicts_with = "jsonl")]
    pub csv: bool,
    /// Input is JSON lines, whatever its name: one JSON object per line
    #[arg(long)]
    pub jsonl: bool,
    /// CSV inputs have no header line; their columns are called 1, 2, and so on
    #[arg(long)]
    pub no_header: bool,
    /// Separator of the fields of CSV inputs. Default: inferred from a sample of the records
    #[arg(
        short = 't',
        long = "field-separator",
        value_name = "SEP",
        allow_hyphen_values = true
    )]
    separator: Option<OsString>,
}

impl TextArgs {
    /// The flags in the form for tables.
    ///
    /// # Errors
    /// Usage for invalid separators.
    pub(crate) fn flags(&self) -> Result<TextFlags> {
        Ok(TextFlags {
            fastq: false,
            csv: self.csv,
            jsonl: self.jsonl,
            no_header: self.no_header,
            separator: self.separator.as_ref().map(separator_of).transpose()?,
        })
    }
}

/// The inputs and the output of commands that take only tables.
#[derive(Debug, Clone, Default, Args)]
pub struct TableFileArgs {
    /// Files of Parquet, Arrow, CSV or JSON lines, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub inputs: Vec<PathBuf>,
    /// Output: .parquet, .arrow or .feather (Arrow file), .arrows (Arrow stream), .csv, .tsv or
    /// .jsonl, these also with .gz or .zst. Default: standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true)]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub tables: TableArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub text: TextArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub job: JobArgs,
    /// Replace existing outputs
    #[arg(long, help_heading = "Files")]
    pub force: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub plan: PlanArgs,
}
