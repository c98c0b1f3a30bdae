//! `view`: sorted views, which are merged while they are read.
//!
//! Contract: builds, reads and checks views through [`outcore::runs`]; what users name is read by
//! [`outcore_front::view`]. A view that is not finished leaves nothing behind. `page.rs` has what
//! is asked and reported, `build.rs` makes views and adds to them, of what `found.rs` finds;
//! `read.rs` writes what is in them, and `look.rs` describes, checks and mounts them. `table.rs`
//! has what differs for views of tables; `built.rs` and `written.rs` have the reports of both.

mod build;
mod built;
mod found;
mod look;
mod page;
mod read;
#[cfg(feature = "tables")]
mod table;
mod written;

use std::ops::Range;
use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::primitives::PassPlan;
use outcore::runs::{LineType, SortedView, ViewType};
use outcore::{Error, PhasePlan, Result};
use outcore_front::resources::Resources;
use outcore_front::text::order::OrderSpec;
use outcore_front::view::{self, range};
use outcore_io::units;
use serde_json::json;

use crate::host::{Host, Kept, Weight};
use crate::option::{DriveArgs, RecordingArgs, ResourceArgs, SEED, TraceArgs, resources_request};
use crate::verb::VerbVisitor;

use page::ViewRangeArgs;

const BUILD: [Weight; 2] = [("sort runs", 1.0), ("merge runs", 1.0)];
const MERGE: [Weight; 1] = [("merge", 1.0)];

/// Shows each verb on views to `visitor`.
pub(crate) fn visit_verbs(visitor: &mut impl VerbVisitor) {
    visitor.visit::<build::Build>();
    visitor.visit::<build::Append>();
    visitor.visit::<read::Cat>();
    visitor.visit::<look::Info>();
    visitor.visit::<look::Verify>();
    visitor.visit::<read::Materialize>();
    visitor.visit::<look::Mount>();
}

fn load(host: &dyn Host, args: &ResourceArgs, drives: &DriveArgs) -> Result<Resources> {
    host.load(&resources_request(args, drives, None, SEED)?)
}

/// A view that is open, and what its reader may use.
struct Opened {
    resources: Resources,
    view: SortedView,
}

impl Opened {
    /// The view in `dir` with what the options allow; `measures` if a plan is wanted.
    fn of(
        host: &dyn Host,
        dir: &Path,
        args: &ResourceArgs,
        trace: &TraceArgs,
        measures: bool,
    ) -> Result<Self> {
        let kept = Kept {
            force: trace.force,
            ..Kept::default()
        };
        let resources = load(host, args, &DriveArgs::default())?;
        let dir = host.copied(dir)?;
        let resources = recorded(host, resources, &trace.record_io, &dir, kept)?;
        let resources = resources.measuring(measures);
        let view = view::open(&host.adopt(resources.pass_job(Vec::new())), &dir)?;
        Ok(Opened { resources, view })
    }
}

/// The means on a device that records, if that is wanted. Nothing of the view in `dir` is replaced
/// by the trace.
fn recorded(
    host: &dyn Host,
    resources: Resources,
    flags: &RecordingArgs,
    dir: &Path,
    kept: Kept<'_>,
) -> Result<Resources> {
    if flags.path().is_none() {
        return host.with_datasets(resources);
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
    host.start(resources, flags.path(), kept)
}

/// What a view holds, in words.
fn type_name(what: &ViewType) -> String {
    match what {
        ViewType::Records(format) => format.to_string(),
        ViewType::Lines(_) => "lines".to_owned(),
        ViewType::Rows(_) => "table".to_owned(),
    }
}

/// How many records there are, in words; those of CSV may be several lines.
fn counted(what: &ViewType, count: u64) -> String {
    match what {
        ViewType::Records(_) => units::counted(count, "record"),
        ViewType::Lines(lines) if is_csv(lines) => {
            format!("{} of CSV", units::counted(count, "record"))
        }
        ViewType::Lines(_) => units::counted(count, "line"),
        ViewType::Rows(_) => units::counted(count, "row"),
    }
}

/// What a view has records of.
fn unit_of(what: &ViewType) -> &'static str {
    match what {
        ViewType::Records(_) => "record",
        ViewType::Lines(lines) if is_csv(lines) => "record",
        ViewType::Lines(_) => "line",
        ViewType::Rows(_) => "row",
    }
}

fn is_csv(lines: &LineType) -> bool {
    OrderSpec::of_name(&lines.order_name).is_ok_and(|spec| spec.csv.is_some())
}

/// Data once over the whole time.
fn rate_text(bytes: u64, seconds: f64) -> String {
    units::rate_decimal(bytes as f64 / seconds.max(1e-9))
}

/// Says what will be built.
fn begin(host: &dyn Host, job: &Job, inputs: &[PathBuf], dir: &Path) {
    let names = inputs.iter().map(|path| path.display().to_string());
    host.begin(json!({
        "inputs": names.collect::<Vec<_>>(),
        "output": dir.display().to_string(),
        "memory_bytes": job.options.memory_bytes,
        "threads": job.options.threads,
    }));
}

/// The ranks of the records that are asked for, where `find` has those of a key; nothing if all
/// are.
fn wanted_by(
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
fn show_plan(host: &dyn Host, view: &SortedView, steps: &str, phase: PhasePlan) {
    let options = &view.job().options;
    let plan = PassPlan {
        steps: steps.to_owned(),
        reads: 1,
        data_bytes: phase.read_bytes.bytes().unwrap_or(0),
        piece_bytes: 0,
        window: 0,
        threads: options.threads,
        phases: vec![phase],
        layout: view.layout(),
    };
    host.show_plan(&plan);
}

/// The error for `-u`.
fn holds_all() -> Error {
    Error::usage(
        "build view",
        "a view holds all that was sorted: -u (--unique) cannot be used with views",
    )
    .hint("write one of each with `outcore sort -u`, and build a view of that")
}
