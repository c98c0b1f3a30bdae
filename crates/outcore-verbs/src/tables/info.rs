//! `info`: the contents of tables, from the metadata of their files.
//!
//! Contract: reads only footers; for text, the whole file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::{Kind, Result};
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput};
use outcore_table::notation::notation;

use super::inputs::NoTable;
use super::{check_tables, reading, reads, text, unpacked};
use crate::host::{Host, Weight};
use crate::option::tables::{TableArgs, TextArgs};
use crate::option::{BadRowArgs, DriveArgs, ResourceArgs, SEED, resources_request};
use crate::report::{JobSummary, Moved, Stopwatch, report};
use crate::verb::{Inputs, Verb, Words};

const INFO_EXAMPLES: &str = "\
Examples:
  outcore info t.parquet
  outcore info logs/ --json";

/// Print the rows, columns and row groups of tables
///
/// Reads only the metadata of files, and all of CSV and JSON lines.
#[derive(Debug, Args)]
#[command(after_long_help = INFO_EXAMPLES)]
pub(crate) struct InfoArgs {
    /// Files of Parquet, Arrow, CSV or JSON lines, or directories of them, in order, as one table
    #[arg(required = true, value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Types of columns of CSV and JSON lines; the types of others are inferred from a sample
    #[arg(long, value_name = "NAME:TYPE,...")]
    pub(crate) schema: Option<String>,
    #[command(flatten)]
    pub(crate) bad_rows: BadRowArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

report! {
    /// A column of a table.
    pub(crate) struct TableColumn {
        /// Its name.
        name: String,
        /// Its type, as `--schema` reads it.
        r#type: String,
        /// Whether it may have nulls.
        nullable: bool,
    }
}

report! {
    /// The contents of tables.
    pub(crate) struct InfoReport {
        [used: JobSummary],
        /// The columns, in order.
        columns: Vec<TableColumn>,
        /// Files of the tables.
        files: u64,
        /// Row groups, or batches, in all files.
        row_groups: u64,
        /// Bytes that the rows take as they are stored.
        stored_bytes: u64,
        /// The least memory that a reader needs.
        memory_min_bytes: u64,
        /// Rows and values of CSV and JSON lines that were left out, or read as null: one sentence
        /// per file.
        notes: Vec<String>,
        /// The report as text.
        text: String,
    }
}

/// The verb.
pub(crate) struct Info;

impl Verb for Info {
    const NAME: &'static str = "info";
    const INPUTS: Inputs = Inputs::Tables;
    type Args = InfoArgs;
    type Report = InfoReport;
    const PHASES: &'static [Weight] = &[("read", 1.0)];

    fn run(host: &dyn Host, args: &InfoArgs) -> Result<InfoReport> {
        let stopwatch = Stopwatch::start();
        let inputs = &args.inputs;
        let tables = TableArgs {
            schema: args.schema.clone(),
            ..TableArgs::from(&args.bad_rows)
        };
        let flags = args.text.flags()?;
        let no_table = NoTable {
            cause: "info takes only tables (Parquet, Arrow, .csv or .jsonl), but this file is not one",
            hint: "`outcore reduce count` counts records",
            of_lines: "`outcore verify --lines` counts lines",
        };
        check_tables(host, inputs, flags.kind(), no_table)?;
        let text = text::options(&tables, &flags, inputs)?;
        let none = (ResourceArgs::default(), DriveArgs::default());
        let resources = host.load(&resources_request(&none.0, &none.1, None, SEED)?)?;
        let resources = reading(host, inputs, resources)?;
        let job = host.adopt(resources.job(Vec::new()));
        let beside = Path::new(".");
        let (copies, _spool) = unpacked(host, &job, &resources, inputs, text.kind, beside)?;
        let reads = InputOptions {
            copies,
            ..reads(&tables, &text)
        };
        let input = TableInput::open(&job, inputs, &reads).map_err(|error| match error.kind() {
            Kind::Memory => error.hint("name fewer files at a time, or set OUTCORE_MEMORY to more"),
            _ => error,
        })?;
        input.check_sampled_rows()?;
        let pieces = input.pieces();
        let columns = input.schema().fields().iter().map(|field| TableColumn {
            name: field.name().clone(),
            r#type: notation(field.data_type()),
            nullable: field.is_nullable(),
        });
        let mut notes = text.take_notes();
        notes.extend(job.control.take_notes());
        let moved = Moved {
            records: input.rows_count(),
            ..Moved::default()
        };
        let mut report = InfoReport {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            columns: columns.collect(),
            files: input.paths().count() as u64,
            row_groups: pieces.len() as u64,
            stored_bytes: pieces.iter().map(|piece| piece.stored_bytes).sum(),
            memory_min_bytes: pieces
                .iter()
                .map(|piece| piece.memory_min_bytes)
                .max()
                .unwrap_or(0),
            notes,
            text: String::new(),
        };
        report.text = page(&report);
        Ok(report)
    }

    fn say(_args: &InfoArgs, report: &InfoReport, words: &mut Words) {
        words.data.push_str(&report.text);
    }

    fn headline(report: &InfoReport) -> String {
        let rows = units::counted(report.used.records, "row");
        format!(
            "{rows} of {}",
            units::counted(report.columns.len() as u64, "column")
        )
    }
}

/// The report as a page.
fn page(report: &InfoReport) -> String {
    let mut page = format!(
        "{} in {} and {}, {} stored; a reader needs {} at least\n",
        units::counted(report.used.records, "row"),
        units::counted(report.files, "file"),
        units::counted(report.row_groups, "row group"),
        units::bytes(report.stored_bytes),
        units::bytes(report.memory_min_bytes),
    );
    let widths = report
        .columns
        .iter()
        .map(|column| column.name.chars().count());
    let width = widths.max().unwrap_or(0);
    for column in &report.columns {
        let null = if column.nullable { "" } else { ", no nulls" };
        page += &format!("  {:width$}  {}{null}\n", column.name, column.r#type);
    }
    for note in &report.notes {
        page += &format!("  {note}\n");
    }
    page
}
