//! `outcore config show`: every setting, its value and its source.
//!
//! Contract: prints the settings of a job without flags, in the order of [`outcore_io::config`].

use std::time::Instant;

use outcore::Result;
use serde_json::json;

use crate::cli::ConfigCommand;
use crate::context::Context;
use crate::measure::Summary;
use crate::resources;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &ConfigCommand) -> Result<u8> {
    let ConfigCommand::Show = command;
    let started = Instant::now();
    let resources = resources::without_flags()?;
    let rows = resources.config.rows();
    let widest = |pick: &dyn Fn(usize) -> usize| (0..rows.len()).map(pick).max().unwrap_or(0);
    let (keys, values) = (
        widest(&|row| rows[row].key.len()),
        widest(&|row| rows[row].value.len()),
    );
    for row in &rows {
        context.reporter.event(
            "setting",
            json!({"key": row.key, "value": row.value, "source": row.source}),
        );
        context.reporter.data(&format!(
            "{:keys$}  {:values$}  {}\n",
            row.key, row.value, row.source
        ));
    }
    let file = resources.config.file.as_ref();
    let file = file.map(|path| path.display().to_string());
    let summary = Summary::since(started).with("file", json!(file));
    context.reporter.summary(&summary);
    Ok(0)
}
