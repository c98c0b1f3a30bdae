//! `outcore sort`: from flags to one run of [`outcore::sort`].
//!
//! Contract, in this order: settings; inputs found and looked at; output chosen, with all that can
//! be refused without work; streams copied to scratch; format decided; plan made and shown; then
//! the sort. Up to the sort nothing but a copy of streams is made, and on any failure nothing is
//! left behind. `--delete-input` removes the inputs only after the output is in place.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::Input;
use outcore::job::Job;
use outcore::key::{CheckOptions, NpyHeader};
use outcore::read::text_kind::TextKind;
use outcore::sort::plan::SortPlan;
use outcore::sort::{self, SortOptions, SortSummary};
use outcore::{Error, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::{self, ResolvedInput, Source, Streams};
use outcore_front::job::settle_sort;
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::records::{self, Decided, TypeRequest};
use outcore_front::resources::Resources;
use outcore_front::spool::{self, Spool};
use outcore_front::staging::sealed_error;
use outcore_front::what::{Asked, What};
use outcore_io::units;
use outcore_verbs::report::Plan;
use outcore_verbs::verb::Words;
use outcore_verbs::verify::{OrderCheck, check_order};
use serde_json::{Value, json};

use super::consumed::{self, Consumed};
use super::{sort_lines, table};
use crate::cli::SortArgs;
use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, rate_text};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::{pipe, resources};
use outcore_verbs::host::Weight;
use outcore_verbs::host::{Host, Kept};
use outcore_verbs::scratch::note_scratch;

/// The phases of a sort and their shares of the time.
const WEIGHTS: [Weight; 2] = [("distribute", 1.0), ("sort", 1.0)];

/// Everything that is settled before the sort starts.
struct Prepared {
    resources: Resources,
    inputs: Vec<ResolvedInput>,
    target: Target,
    decided: Decided,
    header: Option<NpyHeader>,
    options: SortOptions,
    job: Job,
    plan: SortPlan,
    /// Copies of streams; gone when dropped.
    spool: Option<Spool>,
}

/// Whether the input is in the order that the sort would give it; sorts nothing.
fn check(context: &Context, args: &SortArgs, resources: Resources) -> Result<u8> {
    let asked = OrderCheck {
        inputs: &args.inputs,
        record: &args.record,
        options: CheckOptions {
            descending: args.descending,
            ties: !args.stable && !args.unique,
            unique: args.unique,
            unordered: false,
        },
        trace: args.record_io.path(),
        force: args.force,
    };
    let verdict = check_order(context, &asked, resources)?;
    let mut words = Words::default();
    if verdict.disorder.is_none() {
        let records = units::counted(verdict.report.used.records, "record");
        words.lines(&format!("{records} in order"));
    }
    words.detail(&verdict.report.used.read_text());
    words.phases(&verdict.report.phases, false);
    context.reporter.report(json!(verdict.report), &words);
    verdict.disorder.map_or(Ok(0), Err)
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &mut SortArgs) -> Result<u8> {
    let is_gnu = context.reporter.is_gnu();
    let resources = load_resources(args, is_gnu)?.measuring(args.explain || args.dry_run);
    let what = what_is_sorted(context, args)?;
    if what.is_table() {
        return table::sort(context, args, resources);
    }
    if what.is_text() {
        let found = match what {
            What::Lines => found(context, args)?,
            _ => Some(None),
        };
        if let Some(found) = found {
            args.text.settle(what);
            note_csv(context, args);
            return sort_lines::run(context, args, resources, found);
        }
        context.given.applies_to(What::Array)?;
    }
    run_records(context, args, resources)
}

/// The same of records, from what was settled of an input.
pub(crate) fn run_records(context: &Context, args: &SortArgs, resources: Resources) -> Result<u8> {
    let started = Instant::now();
    check_for_records(args)?;
    if args.is_check() {
        return check(context, args, resources);
    }
    let prepared = prepare(context, args, resources)?;
    if args.dry_run {
        return Ok(show_plan(context, &prepared, true));
    }
    begin(context, args, &prepared);
    if args.explain {
        show_plan(context, &prepared, false);
    }
    let consumed = args
        .delete_input
        .then(|| Consumed::before(&prepared.inputs));
    let summary = match (run_sort(context, &prepared), &consumed) {
        (Ok(summary), _) => summary,
        (Err(error), consumed) if pipe::is_closed(&prepared.target, &error) => {
            // A reader that has seen enough is not an error, but what it has cost is told.
            if let Some(consumed) = consumed {
                context.reporter.note(&consumed.state());
            }
            return Ok(CLOSED_PIPE);
        }
        (Err(error), Some(consumed)) => return Err(consumed.explain(error)),
        (Err(error), None) => return Err(error),
    };
    if let Some(consumed) = &consumed {
        consumed::remove(consumed, &prepared.inputs, &prepared.target)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    report(context, args, &prepared, (&summary, seconds));
    Ok(0)
}

/// The settings; GNU sort's names for some of them mean the same.
fn load_resources(args: &SortArgs, is_gnu: bool) -> Result<Resources> {
    let mut flags = args.resources.clone();
    flags.memory_bytes = flags.memory_bytes.or(args.gnu.buffer_bytes);
    flags.threads = flags.threads.or(args.gnu.parallel);
    let mut drives = args.drives.clone();
    // GNU sort asks for them when it needs them, and most sorts need none.
    let dirs = args.gnu.temporary_dirs.iter();
    let dirs = dirs.filter(|dir| !is_gnu || dir.is_dir());
    drives.drives.extend(dirs.cloned());
    let resources = resources::load(
        &flags,
        &drives,
        args.scratch.limit_bytes,
        args.seed.unwrap_or(resources::SEED),
    )?;
    Ok(resources.for_data(bytes_of_files(&args.inputs)))
}

/// Bytes of the inputs, if all of them are files.
fn bytes_of_files(inputs: &[PathBuf]) -> Option<u64> {
    let bytes = inputs.iter().map(|input| {
        let metadata = std::fs::metadata(input).ok()?;
        metadata.is_file().then_some(metadata.len())
    });
    let bytes: Option<u64> = bytes.sum();
    bytes.filter(|_| !inputs.is_empty())
}

/// The kind of the input; rejects options that are not for it.
fn what_is_sorted(context: &Context, args: &SortArgs) -> Result<What> {
    let has_record_key = args.record.keys.iter().any(|key| key.contains(':'));
    let is_typed = args.record.is_typed();
    let flags = args.text.text_flags(args.order.separator()?);
    let asked = Asked {
        inputs: &args.inputs,
        output: args.output.as_deref(),
        is_records: is_typed || has_record_key,
        is_lines: args.lines.is_lines,
        text: flags.kind(),
        is_table: args.tables.is_given(),
        piped: args.tables.piped(),
        by: &args.text.by,
        is_text_order: args.order.is_of_lines(),
    };
    let what = match context.reporter.is_gnu() && !is_typed {
        // To GNU sort everything is lines, whatever it is called.
        true => flags.kind().map_or(What::Lines, What::rows),
        false => context.what(asked)?,
    };
    let is_told_by_name = flags.kind().is_none() && args.text.by.is_empty();
    let what = match what {
        // Without a column it is what GNU sort sorts.
        What::Csv | What::JsonLines if is_told_by_name => What::Lines,
        what => what,
    };
    context.check_options(what, asked)?;
    Ok(what)
}

/// Says that the header of CSV is a line like any other to those who sort lines and say nothing of
/// their order.
fn note_csv(context: &Context, args: &SortArgs) {
    let is_csv = |name: &&PathBuf| TextKind::of_name(name) == Some(TextKind::Csv);
    let is_said = args.lines.is_lines || args.order.is_given() || args.text.is_given();
    if context.reporter.is_gnu() || is_said || args.is_check() {
        return;
    }
    if let Some(name) = args.inputs.iter().find(is_csv) {
        context.reporter.note(&format!(
            "{} is sorted as lines, its first line like any other; --by COLUMN sorts its rows",
            name.display()
        ));
    }
}

/// The inputs, where they had to be looked at; nothing if one of them is an array of NumPy after
/// all.
fn found(context: &Context, args: &SortArgs) -> Result<Option<Option<Vec<Source>>>> {
    let is_said = args.lines.is_lines || args.order.is_given() || args.gnu.is_given();
    if context.reporter.is_gnu() || is_said || args.lines.zero_terminated || args.inputs.is_empty()
    {
        return Ok(Some(None));
    }
    let mut sources = inputs::find(&args.inputs, Streams::Taken, &context.files)?;
    for source in sources.iter_mut().filter(|source| !source.is_stream()) {
        let input = inputs::look(source.clone())?;
        if input.npy.is_some() {
            return Ok(None);
        }
        *source = input.source;
    }
    Ok(Some(Some(sources)))
}

/// Fails for what records do not have.
fn check_for_records(args: &SortArgs) -> Result<()> {
    if args.inputs.is_empty() {
        return Err(
            Error::usage("read arguments", "no input given: <IN> is missing")
                .hint("name a file, or - for standard input; see --help"),
        );
    }
    Ok(())
}

fn prepare(context: &Context, args: &SortArgs, resources: Resources) -> Result<Prepared> {
    let sources = inputs::find(&args.inputs, Streams::Taken, &context.files)?;
    if args.delete_input {
        consumed::check(&sources)?;
    }
    let sealed = sources.iter().find(|source| source.sealed.is_some());
    if let Some(source) = sealed.filter(|_| args.delete_input) {
        let cause = "--delete-input cannot be used with a dataset, which is sealed";
        let hint = "leave --delete-input out, and write another dataset: -o @OTHER";
        return Err(Error::usage("read arguments", cause)
            .path(&source.name)
            .hint(hint));
    }
    if let Some(source) = sealed.filter(|_| args.replace) {
        return Err(sealed_error(&source.name));
    }
    let consent = Consent {
        force: args.force,
        replace: args.replace,
    };
    let target = match (&args.output, args.dry_run && !args.replace) {
        // A plan needs no output.
        (None, true) => Target::Pipe(None),
        (name, _) => {
            let name = name.as_deref();
            let name = name.map(|name| context.files.output(name, consent.force));
            let name = name.transpose()?;
            let how = (Streams::Taken, Holds::Records);
            output::choose(name.as_deref(), &sources, resources.specs(), consent, how)?
        }
    };
    // Wrong drives are told before a stream is waited for.
    resources.named_drives(0)?;
    if args.dry_run {
        inputs::refuse_streams(&sources, "plan sort")?;
    }
    let kept = Kept {
        sources: &sources,
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    let request = args.record.to_request();
    let (inputs, spool) = open_all(context, &request, &resources, sources, &target)?;
    let decided = records::decide(&request, &inputs)?;
    let header = output::header_for(&target, &inputs, &decided)?;
    if let Some(lost) = output::loses_header(&target, &inputs, header.as_ref()) {
        context.reporter.note(&lost);
    }
    let options = SortOptions {
        descending: args.descending,
        stable: args.stable,
        unique: args.unique,
        replace: args.force || args.replace,
        delete_input: args.delete_input,
    };
    let (mut job, plan) =
        settle_sort(&resources, &inputs, Some(&target), &decided.format, options)?;
    note_scratch(context, &resources, &target, &job);
    let spooled_bytes = spool.as_ref().map_or(0, |spool| spool.bytes);
    job.options.scratch_limit_bytes -= spooled_bytes.min(job.options.scratch_limit_bytes);
    Ok(Prepared {
        resources,
        inputs,
        target,
        decided,
        header,
        options,
        job,
        plan,
        spool,
    })
}

/// Opens the inputs: files first, so that a wrong one is told before a stream is waited for; then
/// copies of the streams.
pub(crate) fn open_all(
    context: &Context,
    request: &TypeRequest,
    resources: &Resources,
    sources: Vec<Source>,
    target: &Target,
) -> Result<(Vec<ResolvedInput>, Option<Spool>)> {
    let look = |source: &Source| match source.is_stream() {
        true => Ok(None),
        false => inputs::look(source.clone()).map(Some),
    };
    let looked: Result<Vec<Option<ResolvedInput>>> = sources.iter().map(look).collect();
    let looked = looked?;
    let files: Vec<ResolvedInput> = looked.iter().flatten().cloned().collect();
    if files.len() == sources.len() {
        return Ok((files, None));
    }
    let from_flags = records::named(request)?;
    let is_known = from_flags.is_some() || files.iter().any(|file| file.npy.is_some());
    if is_known && !files.is_empty() {
        records::decide(request, &files)?;
    }
    let job = resources.job(Vec::new());
    let limit_bytes = resources.scratch_limit_bytes();
    let mut spool = Spool::make(&job, &spool::dir_for(resources, target)?, limit_bytes)?;
    let (interrupt, control) = (&context.interrupt, &job.control);
    let mut inputs = Vec::with_capacity(sources.len());
    for (source, input) in sources.iter().zip(looked) {
        let input = match input {
            Some(input) => input,
            None => {
                let copied = watch(&context.reporter, interrupt, control, &[], || {
                    spool.copy_records(&job, source, is_known)
                })?;
                inputs::look(copied)?
            }
        };
        inputs.push(input);
    }
    Ok((inputs, Some(spool)))
}

fn run_sort(context: &Context, prepared: &Prepared) -> Result<SortSummary> {
    let job = &prepared.job;
    let open = |path: Option<&Path>| pipe::open(path, &job.control);
    let output = prepared.target.to_sort(prepared.header.clone(), open)?;
    let files: Vec<Input> = prepared.inputs.iter().map(ResolvedInput::to_sort).collect();
    let format = &prepared.decided.format;
    watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &WEIGHTS,
        || sort::sort(job, &files, output, format, prepared.options),
    )
}

fn begin(context: &Context, args: &SortArgs, prepared: &Prepared) {
    let (reporter, plan) = (&context.reporter, &prepared.plan);
    let (resources, format) = (&prepared.resources, &prepared.decided.format);
    let names: Vec<String> = prepared
        .inputs
        .iter()
        .map(|input| input.source.name.display().to_string())
        .collect();
    let drives = &prepared.job.options.drives;
    let drives: Vec<Value> = drives
        .iter()
        .map(|drive| json!({"name": drive.name, "dir": drive.dir.display().to_string()}))
        .collect();
    reporter.event(
        "begin",
        json!({
            "inputs": names,
            "output": prepared.target.name().display().to_string(),
            "type": format.to_string(),
            "record_bytes": format.record_bytes(),
            "records": plan.size.data_bytes / format.record_bytes() as u64,
            "data_bytes": plan.size.data_bytes,
            "memory_bytes": plan.size.memory_bytes,
            "threads": plan.size.threads,
            "io": resources.config.io.value.name(),
            "drives": drives,
            "plan": Plan::of(plan, plan),
        }),
    );
    reporter.detail(&format!(
        "{}: {} of type {}",
        names.join(", "),
        units::counted(
            plan.size.data_bytes / format.record_bytes() as u64,
            "record"
        ),
        format
    ));
    for row in resources.config.rows() {
        reporter.detail(&format!("{} = {} ({})", row.key, row.value, row.source));
    }
    if args.delete_input {
        reporter.note("--delete-input: if this fails, what it has consumed of the inputs is lost");
    }
}

/// Prints the plan: on standard output if it is all that was asked for.
fn show_plan(context: &Context, prepared: &Prepared, is_all: bool) -> u8 {
    let (reporter, plan) = (&context.reporter, &prepared.plan);
    if is_all {
        reporter.data(&format!("{plan}\n"));
        reporter.event("plan", json!(Plan::of(plan, plan)));
        let records = plan.size.data_bytes / prepared.decided.format.record_bytes() as u64;
        reporter.summary(&Summary {
            records,
            passes: plan.distributions + 1,
            ..Summary::default()
        });
    } else {
        reporter.human(&plan.to_string());
    }
    0
}

fn report(
    context: &Context,
    args: &SortArgs,
    prepared: &Prepared,
    (done, seconds): (&SortSummary, f64),
) {
    let spool = prepared.spool.as_ref();
    let spooled_bytes = spool.map_or(0, |spool| spool.bytes);
    let copied_bytes = spool.map_or(0, |spool| spool.written_bytes);
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let fraction = bandwidth_fraction(&traffic, seconds, &prepared.resources.config.drives.value);
    let summary = Summary {
        records: done.records,
        seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes + copied_bytes,
        passes: done.passes,
        bandwidth_fraction: fraction,
        ..Summary::default()
    };
    let summary = summary
        .with(
            "output",
            json!(prepared.target.name().display().to_string()),
        )
        .with("scratch_bytes", json!(done.scratch_bytes + spooled_bytes))
        .with("phases", phases_json(&done.phases))
        .with("drives", drives_json(&traffic))
        .with("plan", json!(Plan::of(&prepared.plan, &prepared.plan)));
    context.reporter.summary(&summary);
    tell(context, args, prepared, done, &summary);
}

/// The summary for people: what, how fast, how, and how it compares with the plan.
fn tell(
    context: &Context,
    args: &SortArgs,
    prepared: &Prepared,
    done: &SortSummary,
    summary: &Summary,
) {
    let reporter = &context.reporter;
    let data_bytes = prepared.plan.size.data_bytes;
    reporter.human(&format!(
        "sorted {}, {}, in {}: {}",
        units::counted(done.records, "record"),
        units::bytes(data_bytes),
        units::seconds(summary.seconds),
        rate_text(data_bytes, summary.seconds),
    ));
    let passes = match done.passes {
        1 => "in one pass".to_string(),
        passes => format!(
            "in {passes} passes with {} of scratch",
            units::bytes(done.scratch_bytes)
        ),
    };
    reporter.human(&format!(
        "  read {}, wrote {} {passes}",
        units::bytes(summary.read_bytes),
        units::bytes(summary.written_bytes),
    ));
    if let Some(text) = summary.bandwidth_text() {
        reporter.human(&format!("  {text}"));
    }
    reporter.phases(&done.phases, args.explain);
    if !args.explain && !reporter.is_verbose() {
        let phases = done.phases.iter();
        let phases =
            phases.map(|phase| format!("{} {}", phase.name, units::seconds(phase.seconds)));
        let phases: Vec<String> = phases.collect();
        reporter.human(&format!("  {}", phases.join(", ")));
    }
    for (name, read_bytes, written_bytes) in &done.drives {
        reporter.detail(&format!(
            "  drive {name}: read {}, wrote {}",
            units::bytes(*read_bytes),
            units::bytes(*written_bytes)
        ));
    }
}
