//! `view`: sorted views, which are merged while they are read.
//!
//! Contract: builds, reads and checks views through [`outcore::runs`]; [`outcore_front::view`]
//! reads the ranges and keys that users give. An unfinished view leaves nothing behind. `page.rs`
//! has the options and the reports. `build.rs` makes views and adds to them, from the inputs of
//! `sources.rs`. `read.rs` writes their contents, and `look.rs` describes, checks and mounts them.
//! `table.rs` has the differences for views of tables; `built.rs` and `written.rs` have the reports
//! of both.

mod build;
mod built;
mod look;
mod page;
mod read;
mod sources;
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
use outcore_io::drive::paths;
use outcore_io::metadata;
use outcore_io::units;
use serde_json::json;

use crate::host::{Host, Kept, Weight};
use crate::option::{DriveArgs, RecordingArgs, ResourceArgs, SEED, TraceArgs, resources_request};
use crate::verb::VerbVisitor;

use page::ViewRangeArgs;

const BUILD: [Weight; 2] = [("sort runs", 1.0), ("merge runs", 1.0)];
const MERGE: [Weight; 1] = [("merge", 1.0)];

/// Fails for a directory with files that do not belong to a view. Runs that a killed build has left
/// count as files of a view.
fn refuse_other_files(dir: &Path) -> Result<()> {
    let is_view = metadata::is_own_directory(dir) || dir.join("view.json").exists();
    metadata::refuse_others("view", dir, |name| is_view || name.starts_with("run-"))
}

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

/// An open view, and the resources of its reader.
struct Opened {
    resources: Resources,
    view: SortedView,
}

impl Opened {
    /// The view in `dir` with the resources of the options; `measures` if a plan is wanted.
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
        let dir = host.names().copied(dir)?;
        let resources = recorded(host, resources, &trace.record_io, &dir, kept)?;
        let resources = resources.measuring(measures);
        let view = view::open(&host.adopt(resources.pass_job(Vec::new())), &dir)?;
        Ok(Opened { resources, view })
    }
}

/// The resources on a device that records, if that is wanted. The trace replaces nothing of the
/// view in `dir`.
fn recorded(
    host: &dyn Host,
    resources: Resources,
    flags: &RecordingArgs,
    dir: &Path,
    kept: Kept<'_>,
) -> Result<Resources> {
    if flags.path().is_none() {
        return host.names().add_to(resources);
    }
    let view = view::open(&resources.job(Vec::new()), dir)?;
    let runs = view.info().runs.into_iter().map(|(path, ..)| path);
    let mut files: Vec<PathBuf> = runs.collect();
    let listed = paths::entries(dir).map_err(|error| Error::io("open view", &error).path(dir));
    files.extend(listed?.flatten().map(|entry| entry.path()));
    let kept = Kept {
        files: &files,
        ..kept
    };
    host.start(resources, flags.path(), kept)
}

/// The kind of a view's contents, in words.
fn type_name(what: &ViewType) -> String {
    match what {
        ViewType::Records(format) => format.to_string(),
        ViewType::Lines(_) => "lines".to_owned(),
        ViewType::Rows(_) => "table".to_owned(),
    }
}

/// The number of records, in words; a record of CSV may be several lines.
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

/// The word for one item of a view.
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

/// The rate: the data, counted once, over the whole time.
fn rate_text(bytes: u64, seconds: f64) -> String {
    units::rate_decimal(bytes as f64 / seconds.max(1e-9))
}

/// Reports the view before it is built.
fn begin(host: &dyn Host, job: &Job, inputs: &[PathBuf], dir: &Path) {
    let names = inputs.iter().map(|path| path.display().to_string());
    host.begin(json!({
        "inputs": names.collect::<Vec<_>>(),
        "output": dir.display().to_string(),
        "memory_bytes": job.options.memory_bytes,
        "threads": job.options.threads,
    }));
}

/// The ranks of the requested records; nothing if all are requested. `find` finds the ranks of the
/// records with a key.
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

/// Shows the plan of a read of a view.
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
        "a view holds all sorted items: -u (--unique) cannot be used with views",
    )
    .hint("write one item per key with `outcore sort -u`, and build a view of the result")
}
