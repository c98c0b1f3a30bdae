//! `view cat` and `materialize`: the contents of a view, in order.
//!
//! Contract: a range is merged only while it is read. Records do not go to a terminal.

use std::ops::Range;
use std::path::Path;

use outcore::runs::{SortedView, ViewType};
use outcore::{Error, Result};
use outcore_front::inputs::{Streams, is_stdout};
use outcore_front::output::{self, Consent, Holds};
use outcore_front::resources::Resources;
use outcore_front::text::output::{self as text_output, Dress, Pending};
use outcore_front::view::{self, key_of};
use outcore_io::units;

use super::page::{ViewCatArgs, ViewMaterializeArgs, ViewRangeArgs};
use super::written::{Written, copy_out};
use super::{MERGE, Opened, load, rate_text, recorded, show_plan, wanted_by};
use crate::host::{Host, Kept, Weight, watch};
use crate::report::{Stopwatch, WriteSummary};
use crate::verb::{Verb, Words};

/// `cat`: writes a view to standard output.
pub(super) struct Cat;

impl Verb for Cat {
    const NAME: &'static str = "view cat";
    const LENDS_DRIVES: bool = false;
    type Args = ViewCatArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &MERGE;

    fn run(host: &dyn Host, args: &ViewCatArgs) -> Result<WriteSummary> {
        let stopwatch = Stopwatch::start();
        let opened = Opened::of(host, &args.dir, &args.resources, &args.trace, args.explain)?;
        let Opened { resources, view } = opened;
        if view.what().rows().is_some() {
            #[cfg(feature = "tables")]
            return super::table::cat(host, args, &resources, view);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        let wanted = wanted(&view, &args.range)?;
        if args.explain {
            let phase = view.plan_write(wanted.clone().unwrap_or(0..view.len()))?;
            show_plan(host, &view, "read view -> cat", phase);
        }
        let written = copy_out(host, &view, wanted)?;
        written.report(host, stopwatch, &resources, Path::new("-"))
    }

    fn say(args: &ViewCatArgs, report: &WriteSummary, words: &mut Words) {
        say(report, args.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report)
    }

    fn takes_stdout(_args: &ViewCatArgs) -> bool {
        true
    }
}

/// `materialize`: writes a view as a file.
pub(super) struct Materialize;

impl Verb for Materialize {
    const NAME: &'static str = "view materialize";
    const LENDS_DRIVES: bool = false;
    type Args = ViewMaterializeArgs;
    type Report = WriteSummary;
    const PHASES: &'static [Weight] = &MERGE;

    fn run(host: &dyn Host, args: &ViewMaterializeArgs) -> Result<WriteSummary> {
        if is_stdout(&args.output) {
            let hint = "to write it to standard output, use `outcore view cat`; a file of that name is ./-";
            return Err(Error::usage("create output", "the result goes into a file").hint(hint));
        }
        let resources = load(host, &args.resources, &args.drives)?;
        let name = host.names().output(&args.output, args.force)?;
        let dir = host.names().copied(&args.dir)?;
        let known = view::open(&resources.job(Vec::new()), &dir)?;
        let holds = match known.what() {
            ViewType::Rows(_) => {
                drop(known);
                #[cfg(feature = "tables")]
                return super::table::materialize(host, args, resources, &dir);
                #[cfg(not(feature = "tables"))]
                return Err(crate::verb::without_tables());
            }
            ViewType::Records(_) => Holds::Records,
            ViewType::Lines(_) => Holds::Lines,
        };
        materialize(host, args, resources, &dir, &name, holds)
    }

    fn say(args: &ViewMaterializeArgs, report: &WriteSummary, words: &mut Words) {
        say(report, args.explain, words);
    }

    fn headline(report: &WriteSummary) -> String {
        headline(report)
    }
}

/// A view of lines or records as the file `name`.
fn materialize(
    host: &dyn Host,
    args: &ViewMaterializeArgs,
    resources: Resources,
    dir: &Path,
    name: &Path,
    holds: Holds,
) -> Result<WriteSummary> {
    let stopwatch = Stopwatch::start();
    let consent = Consent {
        force: args.force,
        replace: false,
    };
    let (specs, streams) = (resources.specs(), Streams::Refused);
    let target = output::choose(Some(name), &[], specs, consent, streams, holds)?;
    let kept = Kept {
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = recorded(host, resources, &args.record_io, dir, kept)?;
    let resources = resources.measuring(args.explain);
    let job = host.adopt(resources.pass_job(resources.named_drives(0)?));
    let view = view::open(&job, dir)?;
    let wanted = wanted(&view, &args.range)?;
    if args.explain {
        let phase = view.plan_write(wanted.clone().unwrap_or(0..view.len()))?;
        show_plan(host, &view, "read view -> materialize", phase);
    }
    let open = |path: Option<&Path>| host.open_pipe(path, &job.control);
    let (output, pending) = match view.format() {
        Some(format) => {
            output::check_room(resources.device().as_ref(), &target, view.len_bytes())?;
            let header = output::header_for(&target, &[], &format.clone().into())?;
            (target.to_sort(header, open)?, Pending::default())
        }
        None => text_output::open(&job, &target, args.force, &Dress::default(), open)?,
    };
    let done = watch(host, &job.control, &MERGE, || {
        pending.finish(match wanted {
            None => view.write_file(&output, args.force),
            Some(range) => view.write_to(range, &output, args.force),
        })
    })?;
    let written = Written { view: &view, done };
    written.report(host, stopwatch, &resources, &args.output)
}

/// The ranks of the requested records; nothing if all are requested.
fn wanted(view: &SortedView, args: &ViewRangeArgs) -> Result<Option<Range<u64>>> {
    wanted_by(args, view.len(), |text| {
        let record = key_of(text, view.what())?;
        let rank = |counts_equal| {
            let (ranks, _) = view.lookup(&[&record], counts_equal)?;
            Ok(ranks.first().copied().unwrap_or(0))
        };
        Ok(rank(false)?..rank(true)?)
    })
}

/// The report of the output, in a line.
fn headline(report: &WriteSummary) -> String {
    let used = &report.used;
    // For a table, the size of its file.
    let bytes = report.output_bytes.unwrap_or(report.data_bytes);
    let rows = match report.records_in {
        Some(all) if all != used.records => {
            format!(
                "{} of {}",
                units::count(used.records),
                units::counted(all, &report.unit)
            )
        }
        _ => units::counted(used.records, &report.unit),
    };
    format!(
        "merged {rows}, {}, in {}: {}; read {}, wrote {}",
        units::bytes(bytes),
        units::seconds(used.seconds),
        rate_text(bytes, used.seconds),
        units::bytes(used.read_bytes),
        units::bytes(used.written_bytes),
    )
}

fn say(report: &WriteSummary, is_explained: bool, words: &mut Words) {
    words.lines(&headline(report));
    words.phases(&report.phases, is_explained);
}
