//! `outcore bench`: runs the measurements of [`outcore_bench`], prints the report and writes it to
//! files.
//!
//! Contract: the report goes to standard output as text, or with `--json` into the `summary` event.
//! Files that could not be written are rejected before anything is measured. Ctrl-C stops a
//! measurement within a step, and nothing of it stays on the drives.

use std::path::PathBuf;
use std::time::Instant;

use outcore::Result;
use outcore_bench::Watch;
use outcore_bench::args::BenchCommand;
use outcore_front::cost::ProcessTraffic;
use outcore_report::{Report, ReportArgs, Saver, diff};
use outcore_terminal::files::FileNames;
use outcore_terminal::measure::Summary;
use outcore_terminal::session::Terminal;
use outcore_terminal::steps::Steps;
use serde_json::json;

/// Runs the subcommand.
pub(crate) fn run(terminal: &Terminal, command: &BenchCommand) -> Result<u8> {
    match command {
        BenchCommand::Io(args) => report(terminal, &args.report, |watch| {
            outcore_bench::io::run(&args.options(), watch)
        }),
        BenchCommand::Sort(args) => report(terminal, &args.report, |watch| {
            outcore_bench::sort::run(&args.options(), watch)
        }),
        BenchCommand::View(args) => report(terminal, &args.report, |watch| {
            outcore_bench::view::run(&args.options(), watch)
        }),
        BenchCommand::Primitives(args) => report(terminal, &args.report, |watch| {
            outcore_bench::primitives::run(&args.options(), watch)
        }),
        BenchCommand::Graph(args) => report(terminal, &args.report, |watch| {
            outcore_bench::graph::run(&args.options(), watch)
        }),
        BenchCommand::Vectors(args) => report(terminal, &args.report, |watch| {
            outcore_bench::vectors::run(&args.options(), watch)
        }),
        BenchCommand::Diff(args) => report(terminal, &args.report, |_| {
            diff::diff(&diff::read(&args.before)?, &diff::read(&args.after)?)
        }),
    }
}

/// Measures, passing progress to the terminal; then prints and writes the report.
pub(crate) fn report(
    terminal: &Terminal,
    args: &ReportArgs,
    measure: impl FnOnce(Watch<'_>) -> Result<Report>,
) -> Result<u8> {
    let started = Instant::now();
    let reporter = &terminal.reporter;
    let outputs = args.outputs.iter();
    let outputs = outputs.map(|name| Ok(terminal.files.output(name, args.force)?.into_owned()));
    let outputs: Vec<PathBuf> = outputs.collect::<Result<_>>()?;
    let saver = Saver::new(&outputs, args.charts_dir.as_deref(), args.force)?;
    let is_cancelled = || terminal.interrupt.is_set();
    reporter.event("begin", json!({}));
    let steps = Steps::new(reporter);
    let found = measure(Watch {
        say: &|step| steps.show(step),
        is_cancelled: &is_cancelled,
    });
    drop(steps);
    let found = found?;
    reporter.result(&found.to_text());
    let written = saver.write(&found)?;
    for path in &written {
        reporter.human(&format!("written: {}", path.display()));
    }
    let traffic = ProcessTraffic::so_far();
    let summary = Summary {
        read_bytes: traffic.read_bytes,
        written_bytes: traffic.written_bytes,
        passes: 1,
        ..Summary::since(started)
    };
    let files: Vec<String> = written
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let summary = summary
        .with("report", found.to_json())
        .with("files", json!(files));
    reporter.summary(&summary);
    Ok(0)
}
