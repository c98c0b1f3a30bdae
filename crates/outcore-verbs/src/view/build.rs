//! `view build` and `append`.
//!
//! Contract: a view appears whole or not at all. Readers that have an older view open continue to
//! see it.

use outcore::runs::{
    BuildOptions, BuildSummary, ViewOrder, ViewType, append_with, build, plan_view,
};
use outcore::{Error, Result};
use outcore_front::inputs;
use outcore_front::output::Target;
use outcore_front::resources::{Resources, check_dir};
use outcore_front::spool::Spool;
use outcore_front::text::order::order_of_name;
use outcore_front::view;
use outcore_front::what::{Asked, What};
use outcore_io::output::NewDir;
use serde_json::json;

use super::built::Built;
use super::page::{ViewAppendArgs, ViewBuildArgs, ViewPlan, ViewSummary};
use super::sources::{self, ViewSources};
use super::written::{copy_out, refuse_terminal};
use super::{BUILD, begin, load, recorded, refuse_other_files, type_name};
use crate::datasets::refuse_object;
use crate::host::{Host, Kept, Weight, refuse_stdout, watch};
use crate::option::tables::TableArgs;
use crate::report::{Moved, Place, Stopwatch};
use crate::verb::{Inputs, Verb, Words};

/// `build`: makes a view.
pub(super) struct Build;

impl Verb for Build {
    const NAME: &'static str = "view build";
    const INPUTS: Inputs = Inputs::Any;
    // Its runs are on the given drives; on the drives of a volume they would not be in the dataset.
    const LENDS_DRIVES: bool = false;
    type Args = ViewBuildArgs;
    type Report = ViewSummary;
    const PHASES: &'static [Weight] = &BUILD;

    fn run(host: &dyn Host, args: &ViewBuildArgs) -> Result<ViewSummary> {
        refuse_stdout(&args.output, "a view is a directory")?;
        refuse_object(&args.output)?;
        let resources = load(host, &args.resources, &args.drives)?;
        let tables = args.tables.to_tables();
        let what = what_is_built(host, args, &tables)?;
        if what.is_table() {
            #[cfg(feature = "tables")]
            return super::table::build_view(host, args, resources, &tables);
            #[cfg(not(feature = "tables"))]
            return Err(crate::verb::without_tables());
        }
        build_of_records(host, args, what, resources)
    }

    fn say(args: &ViewBuildArgs, report: &ViewSummary, words: &mut Words) {
        if !args.dry_run {
            say(report, args.explain, words);
        }
    }

    fn headline(report: &ViewSummary) -> String {
        headline(report)
    }

    fn takes_stdout(args: &ViewBuildArgs) -> bool {
        args.cat
    }
}

/// `append`: adds to a view.
pub(super) struct Append;

impl Verb for Append {
    const NAME: &'static str = "view append";
    const LENDS_DRIVES: bool = false;
    type Args = ViewAppendArgs;
    type Report = ViewSummary;
    const PHASES: &'static [Weight] = &BUILD;

    fn run(host: &dyn Host, args: &ViewAppendArgs) -> Result<ViewSummary> {
        host.names().refuse_change(&args.dir)?;
        check_dir("open view", &args.dir)?;
        let resources = load(host, &args.resources, &args.drives)?;
        let known = view::open(&resources.job(Vec::new()), &args.dir)?;
        let what = match known.what() {
            ViewType::Rows(_) => {
                #[cfg(feature = "tables")]
                return super::table::append_to_view(host, args, resources, known);
                #[cfg(not(feature = "tables"))]
                return Err(crate::verb::without_tables());
            }
            ViewType::Records(_) => What::Records,
            ViewType::Lines(_) => What::Lines,
        };
        host.given().applies_to(what)?;
        drop(known);
        append_records(host, args, resources)
    }

    fn say(args: &ViewAppendArgs, report: &ViewSummary, words: &mut Words) {
        say(report, args.explain, words);
    }

    fn headline(report: &ViewSummary) -> String {
        headline(report)
    }
}

fn say(report: &ViewSummary, is_explained: bool, words: &mut Words) {
    words.lines(&report.text);
    words.phases(&report.phases, is_explained);
}

fn headline(report: &ViewSummary) -> String {
    report.text.lines().next().unwrap_or_default().to_owned()
}

/// The kind of data of a new view; rejects options that do not apply to it.
fn what_is_built(host: &dyn Host, args: &ViewBuildArgs, tables: &TableArgs) -> Result<What> {
    let flags = args.text.text_flags(args.order.separator()?);
    let mut keys = args.record.keys.iter();
    let has_record_key = !args.text.is_given() && keys.any(|key| key.contains(':'));
    let asked = Asked {
        inputs: &args.inputs,
        is_records: args.record.is_typed() || has_record_key,
        is_lines: args.lines.is_lines(),
        text: flags.kind(),
        is_table: tables.is_given(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
        ..Asked::default()
    };
    let is_told_by_name = flags.kind().is_none() && args.text.by.is_empty();
    let what = match host.what(asked)? {
        What::Csv | What::JsonLines if is_told_by_name => What::Lines,
        What::Fastq => {
            let cause = "a view has lines, records or a table, but this is FASTQ";
            return Err(Error::usage("read arguments", cause)
                .hint("sort it with `outcore sort`, or pass --lines to treat it as lines"));
        }
        what @ What::Records => args.record.kind_of(what),
        what => what,
    };
    host.check_options(what, asked)?;
    Ok(what)
}

/// A view of lines or records.
fn build_of_records(
    host: &dyn Host,
    args: &ViewBuildArgs,
    what: What,
    resources: Resources,
) -> Result<ViewSummary> {
    let stopwatch = Stopwatch::start();
    let mut text = args.text.clone();
    text.settle(what);
    let sources = inputs::find(&args.inputs, host.streams(), host.names())?;
    if args.dry_run {
        inputs::refuse_streams(&sources, "plan view")?;
    }
    let place = host.names().output(&args.output, args.force)?;
    refuse_other_files(&place)?;
    let output = Target::File(place.to_path_buf());
    let kept = Kept {
        sources: &sources,
        target: Some(&output),
        force: args.force,
        ..Kept::default()
    };
    let resources = host.start(resources, args.record_io.path(), kept)?;
    let resources = resources.measuring(args.explain || args.dry_run);
    let asked = sources::Asked {
        what,
        text: &text,
        beside: &output,
    };
    let found = ViewSources::of(host, args, &asked, &resources, sources)?;
    if args.cat {
        refuse_terminal(&found.what)?;
    }
    let drives = resources.named_drives(found.data_bytes)?;
    let job = host.adopt(resources.planned_job(drives));
    let options = BuildOptions {
        order: ViewOrder {
            descending: args.descending,
            stable: args.stable,
        },
        replace: args.force,
        keeps_runs: args.cat,
        run_bytes: args.run_bytes,
    };
    let plan = match args.dry_run || args.explain {
        true => Some(plan_view(found.size(&job, options)?)?),
        false => None,
    };
    if let (Some(plan), true) = (&plan, args.dry_run) {
        let records = match plan.size.lines {
            Some(lines) => found.data_bytes / lines.line_bytes,
            None => found.data_bytes / plan.size.record_bytes as u64,
        };
        let told = ViewPlan::of(plan);
        host.print_plan(plan, json!(told));
        let moved = Moved {
            records,
            passes: 1 + plan.merges.len() as u32,
            ..Moved::default()
        };
        return Ok(ViewSummary {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            output: Place(args.output.clone()),
            r#type: type_name(&found.what),
            data_bytes: found.data_bytes,
            runs: plan.runs,
            resident_bytes: 0,
            phases: Vec::new(),
            text: told.text.clone(),
            plan: Some(told),
            notes: Vec::new(),
        });
    }
    begin(host, &job, &args.inputs, &args.output);
    if let Some(plan) = &plan {
        host.say(&plan.to_string());
    }
    let new_dir = NewDir::make(job.device.as_ref(), "make view", &place)?;
    let dir = std::path::absolute(&place).unwrap_or_else(|_| place.to_path_buf());
    let (view, mut built) = watch(host, &job.control, &BUILD, || {
        let built = build(&job, &found.files, &dir, found.what.clone(), options);
        built.map_err(|error| inputs::explain(&found.named, error))
    })?;
    new_dir.keep();
    count_copies(&mut built, found.spool);
    let done = Built {
        view: &view,
        built: &built,
        notes: Vec::new(),
    };
    if !args.cat {
        return done.report(host, stopwatch, &resources);
    }
    let mut text = done.text(stopwatch.seconds());
    let written = copy_out(host, &view, None)?;
    text += "\n";
    text += &written.text();
    Ok(ViewSummary {
        text,
        ..done.report_with(host, stopwatch, &resources, Some(&written))?
    })
}

/// Adds lines or records to a view.
fn append_records(
    host: &dyn Host,
    args: &ViewAppendArgs,
    resources: Resources,
) -> Result<ViewSummary> {
    let stopwatch = Stopwatch::start();
    let sources = inputs::find(&args.inputs, host.streams(), host.names())?;
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let record_io = &args.trace.record_io;
    let resources = recorded(host, resources, record_io, &args.dir, kept)?.measuring(args.explain);
    let what = view::open(&resources.job(Vec::new()), &args.dir)?
        .what()
        .clone();
    let found = ViewSources::further(host, args, &resources, sources, &what)?;
    let drives = resources.named_drives(found.data_bytes)?;
    let job = host.adopt(resources.planned_job(drives));
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    begin(host, &job, &args.inputs, &args.dir);
    if args.explain {
        host.show_plans(&job.control);
    }
    let (view, mut built) = watch(host, &job.control, &BUILD, || {
        let options = BuildOptions::default();
        let built = append_with(&job, &found.files, &dir, options, &order_of_name);
        built.map_err(|error| inputs::explain(&found.named, error))
    })?;
    count_copies(&mut built, found.spool);
    let done = Built {
        view: &view,
        built: &built,
        notes: Vec::new(),
    };
    done.report(host, stopwatch, &resources)
}

/// Streams that were copied to scratch count as additional writes. The copies are removed now.
fn count_copies(built: &mut BuildSummary, spool: Option<Spool>) {
    built.written_bytes += spool.map_or(0, |spool| spool.written_bytes);
}
