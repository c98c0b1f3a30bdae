//! `outcore view`: sorted views from the command line.
//!
//! Contract: builds, reads, checks and serves views through [`outcore::runs`]; what users name is
//! read by [`outcore_front::view`]. A view that is not finished leaves nothing behind. `cat` ends
//! quietly when its reader goes away; `mount` ends with 0 when it is interrupted, after it has
//! unmounted.

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use outcore::Output;
use outcore::runs::{
    BuildOptions, BuildSummary, SortedView, ViewOrder, ViewType, WriteSummary, append_with, build,
    plan_view,
};
use outcore::{Error, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::{self, Streams};
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::resources::{Resources, check_dir};
use outcore_front::spool::Spool;
use outcore_front::text::order::{OrderSpec, order_of_name};
use outcore_front::text::output::{self as text_output, Dress, Pending};
use outcore_front::view::{self, key_of};
use outcore_front::what::{Asked, What};
use outcore_io::output::NewDir;
use outcore_io::units;
use outcore_mount::{ServeOptions, serve};
use serde_json::{Value, json};

use crate::cli::view::{
    ViewAppendArgs, ViewBuildArgs, ViewCatArgs, ViewCommand, ViewMaterializeArgs, ViewMountArgs,
    ViewRangeArgs, ViewVerifyArgs,
};
use crate::cli::{DriveArgs, ResourceArgs, TraceArgs};
use crate::commands::table;
use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, rate_text};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};
use outcore_verbs::host::{Host, Kept};
use outcore_verbs::option::tables::TableArgs;

mod found;

use super::view_report::{
    BUILD, MERGE, begin, counted, is_csv, plan_json, recorded, show_plan, summarise_built,
    tell_built, wanted_by,
};
use found::Found;

/// Whether a command's data go to standard output.
pub(crate) fn takes_stdout(command: &ViewCommand) -> bool {
    match command {
        ViewCommand::Cat(_) => true,
        ViewCommand::Build(args) => args.cat,
        _ => false,
    }
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, command: &mut ViewCommand) -> Result<u8> {
    match command {
        ViewCommand::Build(args) => run_build(context, args),
        ViewCommand::Append(args) => run_append(context, args),
        ViewCommand::Cat(args) => run_cat(context, args),
        ViewCommand::Info { dir } => run_info(context, dir),
        ViewCommand::Verify(args) => run_verify(context, args),
        ViewCommand::Materialize(args) => run_materialize(context, args),
        ViewCommand::Mount(args) => run_mount(context, args),
        ViewCommand::Guard { mountpoint, source } => {
            outcore_mount::guard(mountpoint, source).map(|()| 0)
        }
    }
}

fn load(args: &ResourceArgs, drives: &DriveArgs) -> Result<Resources> {
    resources::load(args, drives, None, resources::SEED)
}

/// The view in `dir` with what the flags allow.
fn open(
    context: &Context,
    args: &ResourceArgs,
    trace: &TraceArgs,
    (dir, measures): (&Path, bool),
) -> Result<(Resources, SortedView)> {
    let kept = Kept {
        force: trace.force,
        ..Kept::default()
    };
    let resources = load(args, &DriveArgs::default())?;
    let dir = context.files.copied(dir)?;
    let resources = recorded(context, resources, (&trace.record_io, &dir), kept)?;
    let resources = resources.measuring(measures);
    let view = view::open(&resources.job_at(Vec::new(), &dir), &dir)?;
    Ok((resources, view))
}

fn type_name(what: &ViewType) -> String {
    match what {
        ViewType::Records(format) => format.to_string(),
        ViewType::Lines(_) => "lines".to_string(),
        ViewType::Rows(_) => "table".to_string(),
    }
}

/// The kind of data that a view is built of; rejects options that are not for it.
fn what_is_built(context: &Context, args: &ViewBuildArgs, tables: &TableArgs) -> Result<What> {
    let flags = args.text.text_flags(args.order.separator()?);
    let asked = Asked {
        inputs: &args.inputs,
        is_records: args.record.is_typed() || !args.record.keys.is_empty(),
        is_lines: args.lines.is_lines(),
        text: flags.kind(),
        is_table: tables.is_given(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
        ..Asked::default()
    };
    let is_told_by_name = flags.kind().is_none() && args.text.by.is_empty();
    let what = match context.what(asked)? {
        What::Csv | What::JsonLines if is_told_by_name => What::Lines,
        What::Fastq => {
            let cause = "a view is of lines, records or a table, and this is FASTQ";
            return Err(Error::usage("read arguments", cause)
                .hint("sort it with `outcore sort`; with --lines its lines are taken"));
        }
        what @ What::Records => args.record.kind_of(what),
        what => what,
    };
    context.check_options(what, asked)?;
    Ok(what)
}

fn run_build(context: &Context, args: &mut ViewBuildArgs) -> Result<u8> {
    let started = Instant::now();
    let resources = load(&args.resources, &args.drives)?;
    let tables = args.tables.to_tables();
    let what = what_is_built(context, args, &tables)?;
    if what.is_table() {
        return table::view_build(context, args, (resources, &tables));
    }
    args.text.settle(what);
    let args = &*args;
    let sources = inputs::find(&args.inputs, Streams::Taken, &context.files)?;
    if args.dry_run {
        inputs::refuse_streams(&sources, "plan view")?;
    }
    let place = context.files.output(&args.output, args.force)?;
    let output = Target::File(place.to_path_buf());
    let kept = Kept {
        sources: &sources,
        target: Some(&output),
        force: args.force,
        ..Kept::default()
    };
    let resources = context
        .start(resources, &args.record_io, kept)?
        .measuring(args.explain || args.dry_run);
    let found = Found::of(context, (args, what, &output), &resources, sources)?;
    if args.cat {
        refuse_terminal(&found.what)?;
    }
    let job = resources.planned_job(resources.named_drives(found.data_bytes)?, &output.dir());
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
        context.reporter.data(&format!("{plan}\n"));
        context.reporter.event("plan", plan_json(plan));
        context.reporter.summary(&Summary {
            records: match plan.size.lines {
                Some(lines) => found.data_bytes / lines.line_bytes,
                None => found.data_bytes / plan.size.record_bytes as u64,
            },
            passes: 1 + plan.merges.len() as u32,
            ..Summary::default()
        });
        return Ok(0);
    }
    begin(context, &job, &args.inputs, &args.output);
    if let Some(plan) = &plan {
        context.reporter.human(&plan.to_string());
    }
    let new_dir = NewDir::make(job.device.as_ref(), "make view", &place)?;
    let dir = std::path::absolute(&place).unwrap_or_else(|_| place.to_path_buf());
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (view, mut built) = watch(reporter, interrupt, &job.control, &BUILD, || {
        let built = build(&job, &found.files, &dir, found.what.clone(), options);
        built.map_err(|error| inputs::explain(&found.named, error))
    })?;
    new_dir.keep();
    count_copies(&mut built, found.spool);
    tell_built(context, (started, args.explain), &view, &built);
    if !args.cat {
        summarise_built(context, &resources, started, &view, &built);
        return Ok(0);
    }
    let built = Some((&built, started));
    copy_out(context, &resources, &view, None, (built, false))
}

fn run_append(context: &Context, args: &ViewAppendArgs) -> Result<u8> {
    let started = Instant::now();
    context.files.refuse_change(&args.dir)?;
    check_dir("open view", &args.dir)?;
    let resources = load(&args.resources, &args.drives)?;
    let known = view::open(&resources.job(Vec::new()), &args.dir)?;
    if known.what().rows().is_some() {
        return table::view_append(context, args, (resources, known));
    }
    context.given.applies_to(match known.what() {
        ViewType::Records(_) => What::Records,
        ViewType::Lines(_) | ViewType::Rows(_) => What::Lines,
    })?;
    drop(known);
    let sources = inputs::find(&args.inputs, Streams::Taken, &context.files)?;
    let kept = Kept {
        sources: &sources,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = recorded(context, resources, (&args.trace.record_io, &args.dir), kept)?
        .measuring(args.explain);
    let what = view::open(&resources.job(Vec::new()), &args.dir)?
        .what()
        .clone();
    let found = Found::further(context, args, &resources, sources, &what)?;
    let job = resources.planned_job(resources.named_drives(found.data_bytes)?, &args.dir);
    let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
    begin(context, &job, &args.inputs, &args.dir);
    if args.explain {
        context.reporter.show_plans(&job.control);
    }
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let (view, mut built) = watch(reporter, interrupt, &job.control, &BUILD, || {
        let options = BuildOptions::default();
        let built = append_with(&job, &found.files, &dir, options, &order_of_name);
        built.map_err(|error| inputs::explain(&found.named, error))
    })?;
    count_copies(&mut built, found.spool);
    tell_built(context, (started, args.explain), &view, &built);
    summarise_built(context, &resources, started, &view, &built);
    Ok(0)
}

/// Streams that were copied to scratch are written once more; they go now.
fn count_copies(built: &mut BuildSummary, spool: Option<Spool>) {
    built.written_bytes += spool.map_or(0, |spool| spool.written_bytes);
}

fn run_cat(context: &Context, args: &ViewCatArgs) -> Result<u8> {
    let place = (&*args.dir, args.explain);
    let (resources, view) = open(context, &args.resources, &args.trace, place)?;
    if view.what().rows().is_some() {
        return table::view_cat(context, args, view);
    }
    let wanted = wanted(&view, &args.range)?;
    if args.explain {
        let all = 0..view.len();
        let phase = view.plan_write(wanted.clone().unwrap_or(all))?;
        show_plan(context, &view, "read view -> cat", phase);
    }
    copy_out(context, &resources, &view, wanted, (None, args.explain))
}

/// The ranks of the records that are asked for; nothing if all are.
fn wanted(view: &SortedView, args: &ViewRangeArgs) -> Result<Option<Range<u64>>> {
    let find = |text: &str| {
        let record = key_of(text, view.what())?;
        let rank = |counts_equal| {
            let (ranks, _) = view.lookup(&[&record], counts_equal)?;
            Ok(ranks.first().copied().unwrap_or(0))
        };
        Ok(rank(false)?..rank(true)?)
    };
    wanted_by(args, view.len(), find)
}

/// Fails if records would go to a terminal.
fn refuse_terminal(what: &ViewType) -> Result<()> {
    let holds = match what {
        ViewType::Records(_) => Holds::Records,
        ViewType::Lines(_) | ViewType::Rows(_) => Holds::Lines,
    };
    output::check_terminal(&Target::Pipe(None), holds, Consent::default())
}

/// Writes the sorted file, or the records of a range, to standard output; what building the view
/// took before counts too.
fn copy_out(
    context: &Context,
    resources: &Resources,
    view: &SortedView,
    wanted: Option<std::ops::Range<u64>>,
    (built, is_explained): (Option<(&BuildSummary, Instant)>, bool),
) -> Result<u8> {
    refuse_terminal(view.what())?;
    let control = &view.job().control;
    let sink = pipe::open(None, control)?;
    let output = Output::Pipe(std::sync::Mutex::new(sink));
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let written = watch(reporter, interrupt, control, &MERGE, || match wanted {
        None => view.write_file(&output, false),
        Some(range) => view.write_to(range, &output, false),
    });
    match written {
        Ok(written) => {
            tell_written(context, resources, view, &written, (built, is_explained));
            Ok(0)
        }
        Err(error) if pipe::is_closed(&Target::Pipe(None), &error) => Ok(CLOSED_PIPE),
        Err(error) => Err(error),
    }
}

fn tell_written(
    context: &Context,
    resources: &Resources,
    view: &SortedView,
    written: &WriteSummary,
    (built, is_explained): (Option<(&BuildSummary, Instant)>, bool),
) {
    let before = built.map_or(&[][..], |(built, _)| &built.drives);
    let traffic: Vec<DriveTraffic> = before
        .iter()
        .chain(&written.drives)
        .map(DriveTraffic::of)
        .collect();
    let (read_before, written_before) =
        built.map_or((0, 0), |(built, _)| (built.read_bytes, built.written_bytes));
    let seconds = built.map_or(written.seconds, |(_, started)| {
        started.elapsed().as_secs_f64()
    });
    let summary = Summary {
        records: written.records,
        seconds,
        read_bytes: read_before + written.read_bytes,
        written_bytes: written_before + written.written_bytes,
        passes: 1 + built.map_or(0, |(built, _)| 1 + built.plan.merges.len() as u32),
        bandwidth_fraction: bandwidth_fraction(&traffic, seconds, &resources.config.drives.value),
        ..Summary::default()
    }
    .with("drives", drives_json(&traffic));
    let before = built.map_or(&[][..], |(built, _)| &built.phases);
    let phases = [before, &written.phases].concat();
    let summary = summary.with("phases", phases_json(&phases));
    context.reporter.summary(&summary);
    let data_bytes = written.bytes;
    context.reporter.human(&format!(
        "merged {}, {}, in {}: {}; read {}, wrote {}",
        counted(view.what(), written.records),
        units::bytes(data_bytes),
        units::seconds(written.seconds),
        rate_text(data_bytes, written.seconds),
        units::bytes(written.read_bytes),
        units::bytes(written.written_bytes),
    ));
    context.reporter.phases(&phases, is_explained);
}

fn run_info(context: &Context, dir: &Path) -> Result<u8> {
    let started = Instant::now();
    let (_, view) = open(
        context,
        &ResourceArgs::default(),
        &TraceArgs::default(),
        (dir, false),
    )?;
    let info = view.info();
    let order = match (info.order.descending, info.order.stable) {
        (false, false) => "ascending",
        (true, false) => "descending",
        (false, true) => "ascending, stable",
        (true, true) => "descending, stable",
    };
    let order_name = match &info.what {
        ViewType::Lines(lines) => Some(OrderSpec::of_name(&lines.order_name)?.to_string()),
        ViewType::Rows(_) => Some(table::view_order(&view)?),
        ViewType::Records(_) => None,
    };
    let what = match &order_name {
        Some(name) => format!("in order {name}"),
        None => format!("of type {}", type_name(&info.what)),
    };
    // The columns of a table say themselves which of them descend.
    let order = match info.what {
        ViewType::Rows(_) => String::new(),
        ViewType::Records(_) | ViewType::Lines(_) => format!(", {order}"),
    };
    let mut text = format!(
        "{}: {} {what}, {}{order}\n{}, blocks of {}, index of {}; opened in {:.1} ms\n",
        dir.display(),
        counted(&info.what, info.records),
        units::bytes(view.len_bytes()),
        units::counted(info.runs.len() as u64, "run"),
        units::bytes(info.block_bytes as u64),
        units::bytes(info.index_bytes),
        started.elapsed().as_secs_f64() * 1e3,
    );
    let mut runs = Vec::with_capacity(info.runs.len());
    for (path, drive, records) in &info.runs {
        text.push_str(&format!(
            "  {} in {} on drive {drive}\n",
            counted(&info.what, *records),
            path.display()
        ));
        runs.push(json!({"path": path.display().to_string(), "drive": drive, "records": records}));
    }
    context.reporter.data(&text);
    let summary = Summary {
        records: info.records,
        ..Summary::since(started)
    };
    let summary = summary
        .with("type", json!(type_name(&info.what)))
        .with("order", json!(order_name))
        .with("bytes", json!(view.len_bytes()))
        .with("descending", json!(info.order.descending))
        .with("stable", json!(info.order.stable))
        .with("block_bytes", json!(info.block_bytes))
        .with("index_bytes", json!(info.index_bytes))
        .with("runs", Value::Array(runs));
    context.reporter.summary(&summary);
    Ok(0)
}

fn run_verify(context: &Context, args: &ViewVerifyArgs) -> Result<u8> {
    let place = (&*args.dir, args.explain);
    let (_, view) = open(context, &args.resources, &args.trace, place)?;
    if args.explain {
        show_plan(context, &view, "read view -> verify", view.plan_verify());
    }
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let control = &view.job().control;
    let report = watch(reporter, interrupt, control, &[("verify", 1.0)], || {
        view.verify()
    })?;
    reporter.summary(
        &Summary {
            records: report.records,
            seconds: report.seconds,
            read_bytes: report.read_bytes,
            passes: 1,
            ..Summary::default()
        }
        .with("blocks", json!(report.blocks))
        .with("phases", phases_json(std::slice::from_ref(&report.phase))),
    );
    reporter.human(&format!(
        "{} in {}, as they were written and in order: {}",
        counted(view.what(), report.records),
        units::counted(report.blocks, "block"),
        rate_text(report.read_bytes, report.seconds),
    ));
    reporter.phases(&[report.phase], args.explain);
    Ok(0)
}

fn run_materialize(context: &Context, args: &ViewMaterializeArgs) -> Result<u8> {
    if args.output.as_os_str() == "-" {
        let hint =
            "to write it to standard output, use `outcore view cat`; a file of that name is ./-";
        return Err(Error::usage("create output", "the result goes into a file").hint(hint));
    }
    let resources = load(&args.resources, &args.drives)?;
    let consent = Consent {
        force: args.force,
        replace: false,
    };
    let name = context.files.output(&args.output, args.force)?;
    let dir = context.files.copied(&args.dir)?;
    let known = view::open(&resources.job(Vec::new()), &dir)?;
    if known.what().rows().is_some() {
        drop(known);
        return table::view_materialize(context, args, (resources, &dir));
    }
    let holds = match known.format() {
        Some(_) => Holds::Records,
        None => Holds::Lines,
    };
    let how = (Streams::Refused, holds);
    let target = output::choose(Some(&name), &[], resources.specs(), consent, how)?;
    let kept = Kept {
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = recorded(context, resources, (&args.record_io, &dir), kept)?;
    let resources = resources.measuring(args.explain);
    let job = resources.job_at(resources.named_drives(0)?, &dir);
    let view = view::open(&job, &dir)?;
    let wanted = wanted(&view, &args.range)?;
    if args.explain {
        let all = 0..view.len();
        let phase = view.plan_write(wanted.clone().unwrap_or(all))?;
        show_plan(context, &view, "read view -> materialize", phase);
    }
    let open = |path: Option<&Path>| context.open_pipe(path, &job.control);
    let (output, pending) = match view.format() {
        Some(format) => {
            output::check_room(resources.device().as_ref(), &target, view.len_bytes())?;
            let header = output::header_for(&target, &[], &format.clone().into())?;
            (target.to_sort(header, open)?, Pending::default())
        }
        None => text_output::open(&job, &target, args.force, &Dress::default(), open)?,
    };
    let (reporter, interrupt) = (&context.reporter, &context.interrupt);
    let written = watch(reporter, interrupt, &job.control, &MERGE, || {
        pending.finish(match wanted {
            None => view.write_file(&output, args.force),
            Some(range) => view.write_to(range, &output, args.force),
        })
    })?;
    tell_written(context, &resources, &view, &written, (None, args.explain));
    Ok(0)
}

fn run_mount(context: &Context, args: &ViewMountArgs) -> Result<u8> {
    let is_plain =
        |name: &String| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    if let Some(name) = args.name.as_ref().filter(|name| !is_plain(name)) {
        return Err(
            Error::usage("mount view", format!("`{name}` is not a name for a file"))
                .hint("give a plain name with --name"),
        );
    }
    let started = Instant::now();
    let (resources, view) = open(context, &args.resources, &args.trace, (&args.dir, false))?;
    let name = match (&args.name, view.what()) {
        (Some(name), ViewType::Records(_) | ViewType::Lines(_)) => name.clone(),
        (None, ViewType::Records(_)) => "sorted.bin".to_string(),
        (None, ViewType::Lines(lines)) if is_csv(lines) => "sorted.csv".to_string(),
        (None, ViewType::Lines(_)) => "sorted.txt".to_string(),
        (_, ViewType::Rows(_)) => {
            return Err(
                Error::usage("mount view", "a view of a table is not a file")
                    .path(&args.dir)
                    .hint("write it with `outcore view materialize`"),
            );
        }
    };
    let program = std::env::current_exe().ok();
    let reporter = context.reporter.clone();
    let options = ServeOptions {
        file_name: name.clone(),
        is_direct: args.direct,
        threads: resources.config.threads.value,
        guardian: program.map(|program| {
            let mut command = Command::new(program);
            command.args(["view", "guard"]);
            command
        }),
        tell: Box::new(move |error| reporter.error(error)),
    };
    let place = args.mountpoint.join(&name);
    let len_bytes = view.len_bytes();
    let ready = || {
        context.reporter.event(
            "mounted",
            json!({"path": place.display().to_string(), "bytes": len_bytes}),
        );
        context.reporter.human(&format!(
            "{} has {}; Ctrl-C or umount ends it",
            place.display(),
            units::bytes(len_bytes)
        ));
    };
    let interrupt = context.interrupt.clone();
    let is_over = || interrupt.is_set();
    let records = view.len();
    serve(Arc::new(view), &args.mountpoint, options, ready, is_over)?;
    context.reporter.summary(&Summary {
        records,
        ..Summary::since(started)
    });
    Ok(0)
}
