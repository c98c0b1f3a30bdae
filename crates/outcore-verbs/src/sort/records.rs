//! `sort` of records: from options to one run of [`outcore::sort`].
//!
//! Contract: the steps are, in this order: find and examine the inputs; choose the output and make
//! all checks that need no work; copy streams to scratch; decide on the format; make and show the
//! plan; sort. Before the sort, only the copies of streams are written. `--delete-input` removes
//! the inputs only after the output is in place.

use std::path::Path;

use outcore::Input;
use outcore::job::{ItemHash, Job};
use outcore::key::{CheckOptions, NpyHeader};
use outcore::sort::plan::SortPlan;
use outcore::sort::{self, SortOptions, SortSummary as Sorted};
use outcore::{Error, Result};
use outcore_front::inputs::{self, ResolvedInput};
use outcore_front::job::settle_sort;
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::records::{self, Decided};
use outcore_front::resources::Resources;
use outcore_front::spool::Spool;
use outcore_front::staging::sealed_error;
use outcore_front::text::output::PlainFor;
use outcore_io::drive::objects::is_object;
use outcore_io::units;
use outcore_store::dataset::Named;
use serde_json::{Value, json};

use super::consumed::{self, Consumed};
use super::page::{SortArgs, SortSummary};
use crate::host::{Host, Kept, Weight, is_closed, watch};
use crate::option::plain_for;
use crate::records::open_all;
use crate::report::{Moved, Phase, Place, Plan, Stopwatch, WriteSummary};
use crate::resumed::{Resuming, may_exist, refuse_copies};
use crate::scratch::note_scratch;
use crate::verb::Words;
use crate::verify::{OrderCheck, check_order};

/// The phases of a sort and their shares of the time.
pub(super) const WEIGHTS: [Weight; 2] = [("distribute", 1.0), ("sort", 1.0)];

/// Everything that is decided before the sort starts.
struct Prepared {
    resources: Resources,
    inputs: Vec<ResolvedInput>,
    target: Target,
    decided: Decided,
    header: Option<NpyHeader>,
    options: SortOptions,
    job: Job,
    plan: SortPlan,
    /// Copies of streams, which are removed on drop.
    spool: Option<Spool>,
}

/// Whether the input is in the order that the sort would give it; sorts nothing.
fn check(host: &dyn Host, args: &SortArgs, resources: Resources) -> Result<SortSummary> {
    let asked = OrderCheck {
        inputs: &args.inputs,
        record: &args.record,
        options: CheckOptions {
            descending: args.descending,
            ties: !args.stable && !args.unique,
            unique: args.unique,
            ..CheckOptions::default()
        },
        trace: args.job.record_io.path(),
        force: args.force,
    };
    let verdict = check_order(host, &asked, resources)?;
    if let Some(disorder) = verdict.disorder {
        return Err(disorder);
    }
    let checked = verdict.report;
    Ok(SortSummary {
        is_sorted: Some(true),
        checksum: None,
        wrote: WriteSummary {
            records_in: Some(checked.used.records),
            data_bytes: checked.used.read_bytes,
            phases: checked.phases,
            ..WriteSummary::of_nothing(checked.used, "record")
        },
    })
}

/// Sorts records, or makes the plan of the sort.
pub(crate) fn sort(host: &dyn Host, args: &SortArgs, resources: Resources) -> Result<SortSummary> {
    let stopwatch = Stopwatch::start();
    check_for_records(args)?;
    if args.is_check() {
        return check(host, args, resources);
    }
    let prepared = prepare(host, args, resources)?;
    let plan = &prepared.plan;
    if args.dry_run {
        host.print_plan(plan, json!(Plan::of(plan, plan)));
        let moved = Moved {
            records: plan.size.data_bytes / prepared.decided.format.record_bytes() as u64,
            passes: plan.distributions + 1,
            ..Moved::default()
        };
        let used = stopwatch.stop(moved, &[], &prepared.resources, host.end_trace()?);
        return Ok(SortSummary::of(WriteSummary {
            data_bytes: plan.size.data_bytes,
            plan: Some(Plan::of(plan, plan)),
            ..WriteSummary::of_nothing(used, "record")
        }));
    }
    begin(host, args, &prepared);
    if args.explain {
        host.show_plan(plan);
    }
    let consumed = args
        .delete_input
        .then(|| Consumed::before(&prepared.inputs));
    let done = match (run(host, &prepared), &consumed) {
        (Ok(done), _) => done,
        (Err(error), Some(consumed)) if is_closed(&error) => {
            // A reader that stops early is not an error, but the report still shows the cost.
            host.note(&consumed.state());
            return Err(error);
        }
        (Err(error), Some(consumed)) => return Err(consumed.explain(error)),
        (Err(error), None) => {
            let resuming = Resuming {
                is_asked: args.journal.resume,
                target: &prepared.target,
            };
            return Err(resuming.explain(host, error));
        }
    };
    if let Some(consumed) = &consumed {
        consumed::remove(consumed, &prepared.inputs, &prepared.target)?;
    }
    report(host, stopwatch, &prepared, &done)
}

/// Fails for options that do not apply to records.
fn check_for_records(args: &SortArgs) -> Result<()> {
    if args.inputs.is_empty() {
        return Err(
            Error::usage("read arguments", "no input given: <IN> is missing")
                .hint("name a file, or - for standard input; see --help"),
        );
    }
    Ok(())
}

/// Fails for an output that gets its name only after the inputs are deleted.
fn check_stays(output: Option<&Path>) -> Result<()> {
    let later = output.filter(|name| is_object(name) || Named::is_mark(name));
    later.map_or(Ok(()), |name| {
        let cause = "--delete-input needs an output that is a file";
        Err(Error::usage("read arguments", cause)
            .path(name)
            .hint("write a file first, then copy it there; or leave --delete-input out"))
    })
}

fn prepare(host: &dyn Host, args: &SortArgs, resources: Resources) -> Result<Prepared> {
    let sources = inputs::find(&args.inputs, host.streams(), host.names())?;
    if args.delete_input {
        consumed::check(&sources)?;
        check_stays(args.output.as_deref())?;
    }
    let sealed = sources.iter().find(|source| source.is_sealed());
    if let Some(source) = sealed.filter(|_| args.delete_input) {
        let cause =
            "--delete-input cannot be used with a dataset, which is sealed, or with an object";
        let hint =
            "leave --delete-input out, and write another dataset (-o @OTHER) or another object";
        return Err(Error::usage("read arguments", cause)
            .path(&source.name)
            .hint(hint));
    }
    if let Some(source) = sealed.filter(|_| args.replace) {
        return Err(sealed_error(&source.name));
    }
    let consent = Consent {
        force: args.force || may_exist(args.journal.resume, args.output.as_deref())?,
        replace: args.replace,
    };
    let target = match (&args.output, args.dry_run && !args.replace) {
        // A plan needs no output.
        (None, true) => Target::Pipe(None),
        (name, _) => {
            let name = name.as_deref();
            let name = name.map(|name| host.names().output(name, consent.force));
            let name = name.transpose()?;
            let (name, specs) = (name.as_deref(), resources.specs());
            let streams = host.streams();
            output::choose(name, &sources, specs, consent, streams, Holds::Records)?
        }
    };
    if let Some(plain_for) = plain_for(args.journal, args.check_output) {
        refuse_copies(&sources, None, plain_for)?;
    }
    if args.check_output.verify_output && matches!(target, Target::Pipe(_)) && !args.dry_run {
        return Err(PlainFor::VerifyOutput.not_one_file());
    }
    // Wrong drives are reported before the command waits for a stream.
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
    let resources = host.start(resources, args.job.record_io.path(), kept)?;
    let request = args.record.ordered_by(&args.text.by)?.to_request();
    let (inputs, spool) = open_all(host, &request, &resources, sources, &target)?;
    let decided = records::decide(&request, &inputs)?;
    let header = output::header_for(&target, &inputs, &decided)?;
    if let Some(lost) = output::loses_header(&target, &inputs, header.as_ref()) {
        host.note(&lost);
    }
    let options = SortOptions {
        descending: args.descending,
        stable: args.stable,
        unique: args.unique,
        replace: args.force || args.replace,
        delete_input: args.delete_input,
    };
    let resuming = Resuming {
        is_asked: args.journal.resume,
        target: &target,
    };
    let is_resumed = resuming.begin(host);
    let format = &decided.format;
    let (mut job, plan) = settle_sort(
        &resources,
        &inputs,
        Some(&target),
        format,
        options,
        is_resumed,
    )?;
    job = host.adopt(job);
    if args.journal.resume {
        job.options.resume = Some(resources.resume_options(host.call(), String::new()));
    }
    job.options.verify_output = args.check_output.verify_output;
    job.options.sums_items = args.sums.checksum.then_some(ItemHash::Usual);
    note_scratch(host, &resources, &target, &job);
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

fn run(host: &dyn Host, prepared: &Prepared) -> Result<Sorted> {
    let job = &prepared.job;
    let open = |path: Option<&Path>| host.open_pipe(path, &job.control);
    let output = prepared.target.to_sort(prepared.header.clone(), open)?;
    let files: Vec<Input> = prepared.inputs.iter().map(ResolvedInput::to_sort).collect();
    let format = &prepared.decided.format;
    watch(host, &job.control, &WEIGHTS, || {
        sort::sort(job, &files, output, format, prepared.options)
    })
}

fn begin(host: &dyn Host, args: &SortArgs, prepared: &Prepared) {
    let (plan, resources) = (&prepared.plan, &prepared.resources);
    let format = &prepared.decided.format;
    let records = plan.size.data_bytes / format.record_bytes() as u64;
    let names = prepared.inputs.iter();
    let names: Vec<String> = names
        .map(|input| input.source.name.display().to_string())
        .collect();
    let drives = &prepared.job.options.drives;
    let drives: Vec<Value> = drives
        .iter()
        .map(|drive| json!({"name": drive.name, "dir": drive.dir.display().to_string()}))
        .collect();
    host.begin(json!({
        "inputs": names,
        "output": prepared.target.name().display().to_string(),
        "type": format.to_string(),
        "record_bytes": format.record_bytes(),
        "records": records,
        "data_bytes": plan.size.data_bytes,
        "memory_bytes": plan.size.memory_bytes,
        "threads": plan.size.threads,
        "io": resources.config.io.value.name(),
        "drives": drives,
        "plan": Plan::of(plan, plan),
    }));
    host.detail(&format!(
        "{}: {} of type {format}",
        names.join(", "),
        units::counted(records, "record"),
    ));
    for row in resources.config.rows() {
        host.detail(&format!("{} = {} ({})", row.key, row.value, row.source));
    }
    if args.delete_input {
        host.note(
            "--delete-input: if the sort fails, the part of the inputs that it has read is lost",
        );
    }
}

fn report(
    host: &dyn Host,
    stopwatch: Stopwatch,
    prepared: &Prepared,
    done: &Sorted,
) -> Result<SortSummary> {
    let spool = prepared.spool.as_ref();
    let traffic = done.drives.clone();
    let moved = Moved {
        records: done.records,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes + spool.map_or(0, |spool| spool.written_bytes),
        passes: done.passes,
    };
    // A resumed run follows the plan of the killed one.
    let plan = done.plan.as_ref().unwrap_or(&prepared.plan);
    let size = &plan.size;
    let used = stopwatch.stop(moved, &traffic, &prepared.resources, host.end_trace()?);
    Ok(SortSummary::of(WriteSummary {
        output: Some(Place(host.name_of(prepared.target.name()))),
        records_in: Some(size.data_bytes / prepared.decided.format.record_bytes() as u64),
        data_bytes: size.data_bytes,
        files: prepared.target.files().len() as u64,
        scratch_bytes: Some(done.scratch_bytes + spool.map_or(0, |spool| spool.bytes)),
        phases: Phase::of_engine(&done.phases),
        plan: Some(Plan::of(plan, plan)),
        ..WriteSummary::of_nothing(used, "record")
    })
    .with_totals(done.totals))
}

/// Traffic and phases in words.
pub(super) fn notes(args: &SortArgs, wrote: &WriteSummary) -> Vec<String> {
    let passes = match wrote.used.passes {
        1 => "in one pass".to_owned(),
        passes => {
            let scratch = units::bytes(wrote.scratch_bytes.unwrap_or(0));
            format!("in {passes} passes with {scratch} of scratch")
        }
    };
    let mut notes = vec![format!(
        "read {}, wrote {} {passes}",
        units::bytes(wrote.used.read_bytes),
        units::bytes(wrote.used.written_bytes),
    )];
    if !args.explain {
        let phases = wrote.phases.iter();
        let phases =
            phases.map(|phase| format!("{} {}", phase.name, units::seconds(phase.seconds)));
        notes.push(phases.collect::<Vec<_>>().join(", "));
    }
    notes
}

/// The traffic of each drive, in words.
pub(super) fn details(wrote: &WriteSummary, words: &mut Words) {
    for drive in &wrote.used.drives {
        words.detail(&format!(
            "  drive {}: read {}, wrote {}",
            drive.name,
            units::bytes(drive.read_bytes),
            units::bytes(drive.written_bytes)
        ));
    }
}
