//! `outcore replay`: replays a trace on drives, or only summarises it.
//!
//! Contract: the report is printed and written as for all measurements (see [`crate::bench`]).
//! `--summary` prints the trace's own summary and Falcon's Table 2 row, and touches no drive.

use std::time::Instant;

use outcore::Result;
use outcore_bench::args::ReplayArgs;
use outcore_terminal::files::FileNames;
use outcore_terminal::measure::Summary;
use outcore_terminal::session::Terminal;
use serde_json::json;

use crate::bench::report;

/// Runs the subcommand.
pub(crate) fn run(terminal: &Terminal, args: &ReplayArgs) -> Result<u8> {
    let mut options = args.options();
    options.trace = terminal.files.copied(&args.trace)?.into_owned();
    if !args.summary {
        return report(terminal, &args.report, |watch| {
            outcore_bench::replay::run(&options, watch)
        });
    }
    let started = Instant::now();
    let found = outcore_bench::replay::summary(&options)?;
    let name = args.trace.file_name().unwrap_or(args.trace.as_os_str());
    let row = found.table2_row(&name.to_string_lossy());
    terminal.reporter.result(&format!(
        "{found}\n\n| trace | read % | request size | GB |\n|---|---|---|---|\n{row}\n"
    ));
    let summary = Summary {
        passes: 1,
        ..Summary::since(started)
    };
    terminal
        .reporter
        .summary(&summary.with("trace", json!(found)));
    Ok(0)
}
