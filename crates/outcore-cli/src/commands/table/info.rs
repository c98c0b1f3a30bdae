//! `outcore info`: what tables hold, as their files say.
//!
//! Contract: nothing but footers is read.

use std::path::PathBuf;

use outcore::{Job, Result};
use outcore_io::units;
use outcore_table::input::{InputOptions, TableInput};
use serde_json::json;

use crate::context::Context;
use crate::measure::Summary;

/// `outcore info`: what tables hold.
pub(crate) fn info(context: &Context, inputs: &[PathBuf]) -> Result<u8> {
    let job = Job::new(outcore::JobOptions::default(), outcore::IoMode::Auto);
    let input = TableInput::open(&job, inputs, &InputOptions::default())?;
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
    let mut text = String::new();
    text += &units::counted(rows, "row");
    text += &format!(
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
        text += &format!("  {name:width$}  {data_type}{null}\n");
    }
    reporter.data(&text);
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
