//! What commands on views have in common, whatever the view holds: what is recorded, asked for and
//! told.
//!
//! Contract: pure but for the reporter and the recorder.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::job::Job;
use outcore::primitives::PassPlan;
use outcore::runs::{BuildSummary, LineType, SortedView, ViewPlan, ViewType};
use outcore::{Error, PhasePlan, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::resources::Resources;
use outcore_front::text::order::OrderSpec;
use outcore_front::view::{self, range};
use outcore_io::units;
use outcore_verbs::report::Rates;
use serde_json::{Value, json};

use crate::cli::RecordingArgs;
use crate::cli::view::ViewRangeArgs;
use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, rate_text};
use outcore_verbs::host::Kept;
use outcore_verbs::host::Weight;

pub(crate) const BUILD: [Weight; 2] = [("sort runs", 1.0), ("merge runs", 1.0)];
pub(crate) const MERGE: [Weight; 1] = [("merge", 1.0)];

/// The means on a device that records, if that is wanted. Nothing of the view in `dir` is replaced
/// by the trace.
pub(crate) fn recorded(
    context: &Context,
    resources: Resources,
    (flags, dir): (&RecordingArgs, &Path),
    kept: Kept<'_>,
) -> Result<Resources> {
    if flags.path().is_none() {
        return context.files.add_to(resources);
    }
    let view = view::open(&resources.job(Vec::new()), dir)?;
    let runs = view.info().runs.into_iter().map(|(path, ..)| path);
    let mut files: Vec<PathBuf> = runs.collect();
    let listed = std::fs::read_dir(dir).map_err(|error| Error::io("open view", &error).path(dir));
    files.extend(listed?.flatten().map(|entry| entry.path()));
    let kept = Kept {
        files: &files,
        ..kept
    };
    context.start(resources, flags, kept)
}

/// How many records there are, in words; those of CSV may be several lines.
pub(super) fn counted(what: &ViewType, count: u64) -> String {
    match what {
        ViewType::Records(_) => units::counted(count, "record"),
        ViewType::Lines(lines) if is_csv(lines) => {
            format!("{} of CSV", units::counted(count, "record"))
        }
        ViewType::Lines(_) => units::counted(count, "line"),
        ViewType::Rows(_) => units::counted(count, "row"),
    }
}

pub(super) fn is_csv(lines: &LineType) -> bool {
    OrderSpec::of_name(&lines.order_name).is_ok_and(|spec| spec.csv.is_some())
}

pub(crate) fn begin(context: &Context, job: &Job, inputs: &[PathBuf], dir: &Path) {
    let names = inputs.iter().map(|path| path.display().to_string());
    context.reporter.event(
        "begin",
        json!({
            "inputs": names.collect::<Vec<_>>(),
            "output": dir.display().to_string(),
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
        }),
    );
}

pub(super) fn plan_json(plan: &ViewPlan) -> Value {
    json!({
        "runs": plan.runs,
        "run_bytes": plan.run_bytes(),
        "block_bytes": plan.block_records * plan.size.record_bytes as u64,
        "areas": plan.areas,
        "area_bytes": plan.area_bytes,
        "merges": plan.merges,
        "predicted_read_bytes": plan.predicted_read_bytes,
        "predicted_written_bytes": plan.predicted_written_bytes,
        "predicted_seconds": plan.predicted_seconds,
        "rates": Rates::of(&plan.size.rates, Some(plan.size.costs.origin)),
    })
}

pub(crate) fn summarise_built(
    context: &Context,
    resources: &Resources,
    started: Instant,
    view: &SortedView,
    built: &BuildSummary,
) {
    let seconds = started.elapsed().as_secs_f64();
    let traffic: Vec<DriveTraffic> = built.drives.iter().map(DriveTraffic::of).collect();
    let summary = Summary {
        records: built.records,
        seconds,
        read_bytes: built.read_bytes,
        written_bytes: built.written_bytes,
        passes: 1 + built.plan.merges.len() as u32,
        bandwidth_fraction: bandwidth_fraction(&traffic, seconds, &resources.config.drives.value),
        ..Summary::default()
    }
    .with("output", json!(view.info().dir.display().to_string()))
    .with("runs", json!(built.runs))
    .with("resident_bytes", json!(built.resident_bytes))
    .with("phases", phases_json(&built.phases))
    .with("drives", drives_json(&traffic))
    .with("plan", plan_json(&built.plan));
    context.reporter.summary(&summary);
}

pub(crate) fn tell_built(
    context: &Context,
    (started, is_explained): (Instant, bool),
    view: &SortedView,
    built: &BuildSummary,
) {
    let seconds = started.elapsed().as_secs_f64();
    let data_bytes = built.bytes;
    context.reporter.human(&format!(
        "sorted {}, {}, into {} in {}: {}",
        counted(view.what(), built.records),
        units::bytes(data_bytes),
        units::counted(built.plan.runs, "run"),
        units::seconds(seconds),
        rate_text(data_bytes, seconds),
    ));
    context.reporter.human(&format!(
        "  read {}, wrote {}; the view has {} in {}",
        units::bytes(built.read_bytes),
        units::bytes(built.written_bytes),
        counted(view.what(), view.len()),
        units::counted(built.runs, "run"),
    ));
    context.reporter.phases(&built.phases, is_explained);
}

/// The same where `find` has the ranks of the records of a key.
pub(crate) fn wanted_by(
    args: &ViewRangeArgs,
    records: u64,
    find: impl Fn(&str) -> Result<Range<u64>>,
) -> Result<Option<Range<u64>>> {
    if let Some(text) = &args.range {
        return range(text, records).map(Some);
    }
    if let Some(text) = &args.key {
        return find(text).map(Some);
    }
    if args.from_key.is_none() && args.to_key.is_none() {
        return Ok(None);
    }
    let rank = |text: &Option<String>, default: u64| match text {
        None => Ok(default),
        Some(text) => Ok(find(text)?.start),
    };
    let from = rank(&args.from_key, 0)?;
    Ok(Some(from..rank(&args.to_key, records)?.max(from)))
}

/// Shows what a read of a view will take.
pub(crate) fn show_plan(context: &Context, view: &SortedView, steps: &str, phase: PhasePlan) {
    let options = &view.job().options;
    let plan = PassPlan {
        steps: steps.to_string(),
        reads: 1,
        data_bytes: phase.read_bytes.bytes().unwrap_or(0),
        piece_bytes: 0,
        window: 0,
        threads: options.threads,
        phases: vec![phase],
        rates: options.rates,
    };
    context.reporter.plan(&plan);
}

/// The error for `-u`.
pub(crate) fn holds_all() -> Error {
    Error::usage(
        "build view",
        "a view holds all that was sorted: -u (--unique) cannot be used with views",
    )
    .hint("write one of each with `outcore sort -u`, and build a view of that")
}
