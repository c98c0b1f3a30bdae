//! `outcore info`: what tables hold, as their files say.
//!
//! Contract: nothing but footers is read, of text all.

use outcore::{Job, Result};
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput};
use outcore_verbs::tables::{check_tables, unpacked};
use serde_json::json;

use super::text;
use crate::cli::tables::{InfoArgs, TableArgs};
use crate::context::Context;
use crate::measure::Summary;
use crate::resources;

/// `outcore info`: what tables hold.
pub(crate) fn info(context: &Context, args: &InfoArgs) -> Result<u8> {
    let job = Job::new(outcore::JobOptions::default(), outcore::IoMode::Auto);
    let inputs = &args.inputs;
    let tables = TableArgs {
        schema: args.schema.clone(),
        ..TableArgs::from(&args.bad_rows)
    };
    let flags = args.text.flags()?;
    let no_table = (
        "info takes only tables (Parquet, Arrow, .csv or .jsonl), and this file is not one",
        "say with --csv or --jsonl what text is; `outcore verify` counts records",
    );
    check_tables(context, inputs, flags.kind(), no_table)?;
    let text = text::options(&tables, &flags, inputs)?;
    let resources = resources::without_flags()?;
    let here = std::path::Path::new(".");
    let of_inputs = (&inputs[..], text.kind);
    let (copies, _spool) = unpacked(context, (&job, &resources), of_inputs, here)?;
    let reads = InputOptions {
        copies,
        ..super::reads(&tables, &text)
    };
    let input = TableInput::open(&job, inputs, &reads)?;
    input.check_sampled_rows()?;
    let rows = input.rows_count();
    let pieces = input.pieces();
    let stored_bytes: u64 = pieces.iter().map(|piece| piece.stored_bytes).sum();
    let memory_bytes = pieces
        .iter()
        .map(|piece| piece.memory_min_bytes)
        .max()
        .unwrap_or(0);
    let columns: Vec<(String, String, bool)> = input
        .schema()
        .fields()
        .iter()
        .map(|field| {
            (
                field.name().clone(),
                field.data_type().to_string(),
                field.is_nullable(),
            )
        })
        .collect();
    let reporter = &context.reporter;
    let notes = text.take_notes();
    let mut told = String::new();
    told += &units::counted(rows, "row");
    told += &format!(
        " in {} and {}, {} stored; a reader needs {} at least\n",
        units::counted(input.paths().count() as u64, "file"),
        units::counted(pieces.len() as u64, "row group"),
        units::bytes(stored_bytes),
        units::bytes(memory_bytes),
    );
    let width = columns
        .iter()
        .map(|(name, ..)| name.chars().count())
        .max()
        .unwrap_or(0);
    for (name, data_type, is_nullable) in &columns {
        let null = if *is_nullable { "" } else { ", no nulls" };
        told += &format!("  {name:width$}  {data_type}{null}\n");
    }
    for note in notes.into_iter().chain(job.control.take_notes()) {
        told += &format!("  {note}\n");
    }
    reporter.data(&told);
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, data_type, is_nullable)| {
            json!({"name": name, "type": data_type, "nullable": is_nullable})
        })
        .collect();
    let summary = Summary {
        records: rows,
        ..Summary::default()
    };
    let summary = summary
        .with("columns", json!(columns))
        .with("files", json!(input.paths().count()))
        .with("row_groups", json!(pieces.len()))
        .with("stored_bytes", json!(stored_bytes))
        .with("memory_min_bytes", json!(memory_bytes));
    reporter.summary(&summary);
    Ok(0)
}
