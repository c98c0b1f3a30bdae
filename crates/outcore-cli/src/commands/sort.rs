//! `outcore sort`: from flags to one run of [`outcore::algo::sort`].
//!
//! Contract, in this order: settings; inputs found and looked at; output chosen, with all that can
//! be refused without work; streams copied to scratch; format decided; plan made and shown; then
//! the sort. Up to the sort nothing but a copy of streams is made, and on any failure nothing is
//! left behind. `--delete-input` removes the inputs only after the output is in place.

use std::path::{Path, PathBuf};
use std::time::Instant;

use outcore::algo::plan::SortPlan;
use outcore::algo::sort::{self, SortInput, SortOptions, SortSummary};
use outcore::data::{NpyHeader, RecordFormat};
use outcore::job::{Job, ScratchDrive};
use outcore::{Error, Result, units};
use serde_json::{Value, json};

use super::Context;
use super::verify;
use crate::cli::SortArgs;
use crate::inputs::{self, Input, Source};
use crate::means::{self, Means};
use crate::measure::{DriveTraffic, Summary, bandwidth_fraction, rate_text};
use crate::output::{self, Consent, Target};
use crate::progress::{Weight, watch};
use crate::spool::Spool;
use crate::{CLOSED_PIPE, format};

/// The phases of a sort and their shares of the time.
const WEIGHTS: [Weight; 2] = [("distribute", 1.0), ("sort", 1.0)];

/// Everything that is settled before the sort starts.
struct Prepared {
    inputs: Vec<Input>,
    target: Target,
    format: RecordFormat,
    header: Option<NpyHeader>,
    options: SortOptions,
    job: Job,
    plan: SortPlan,
    /// Copies of streams; gone when dropped.
    spool: Option<Spool>,
}

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &SortArgs) -> Result<u8> {
    let started = Instant::now();
    let means = Means::load(&args.means, &args.drives, args.scratch_limit_bytes)?;
    let means = means.with_seed(args.seed);
    if args.check {
        return verify::check_only(context, args, &means);
    }
    let prepared = prepare(context, args, &means)?;
    if args.dry_run {
        return Ok(show_plan(context, &prepared, true));
    }
    begin(context, args, &means, &prepared);
    if args.explain {
        show_plan(context, &prepared, false);
    }
    let result = run_sort(context, &prepared);
    let summary = match result {
        Ok(summary) => summary,
        Err(error) if is_closed_pipe(&prepared.target, &error) => return Ok(CLOSED_PIPE),
        Err(error) if args.delete_input => return Err(with_loss(error)),
        Err(error) => return Err(error),
    };
    if args.delete_input {
        remove_inputs(&prepared)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    report(context, args, &means, &prepared, (&summary, seconds));
    Ok(0)
}

fn prepare(context: &Context, args: &SortArgs, means: &Means) -> Result<Prepared> {
    let sources = inputs::find(&args.inputs)?;
    check_deletion(args, &sources)?;
    let drives = &means.config.drives.value.drives;
    let consent = Consent {
        force: args.force,
        replace: args.replace,
    };
    let target = match (&args.output, args.dry_run && !args.replace) {
        // A plan needs no output.
        (None, true) => Target::Pipe(None),
        (name, _) => output::choose(name.as_deref(), &sources, drives, consent)?,
    };
    let named = means.named_drives(0)?;
    if args.dry_run
        && let Some(stream) = sources.iter().find(|source| source.is_stream())
    {
        return Err(
            Error::usage("plan sort", "the size of a stream is not known")
                .path(&stream.name)
                .hint("name a file"),
        );
    }
    let (inputs, spool) = open_all(context, args, means, sources, &target, &named)?;
    let format = format::decide(&args.record, &inputs)?;
    let header = output::header_for(&target, &inputs, &format)?;
    let options = SortOptions {
        descending: args.descending,
        stable: args.stable,
        unique: args.unique,
        replace: args.force || args.replace,
        delete_input: args.delete_input,
    };
    let data_bytes = inputs.iter().map(|input| input.data_bytes).sum();
    if !args.unique {
        // How much --unique leaves is not known before.
        output::check_room(&target, data_bytes)?;
    }
    let drive_count = count_drives(&named, &target, &inputs);
    let mut job = means.job(named);
    let plan = sort::plan(&job, data_bytes, &format, options, drive_count)?;
    job.options.drives = scratch_drives(context, means, &target, &plan)?;
    let spooled_bytes = spool.as_ref().map_or(0, |spool| spool.bytes);
    job.options.scratch_limit_bytes -= spooled_bytes.min(job.options.scratch_limit_bytes);
    Ok(Prepared {
        inputs,
        target,
        format,
        header,
        options,
        job,
        plan,
        spool,
    })
}

/// Opens the inputs: files first, so that a wrong one is told before a stream is waited for; then
/// copies of the streams.
fn open_all(
    context: &Context,
    args: &SortArgs,
    means: &Means,
    sources: Vec<Source>,
    target: &Target,
    named: &[ScratchDrive],
) -> Result<(Vec<Input>, Option<Spool>)> {
    let look = |source: &Source| match source.is_stream() {
        true => Ok(None),
        false => inputs::look(source.clone()).map(Some),
    };
    let looked: Result<Vec<Option<Input>>> = sources.iter().map(look).collect();
    let looked = looked?;
    let files: Vec<Input> = looked.iter().flatten().cloned().collect();
    if files.len() == sources.len() {
        return Ok((files, None));
    }
    let from_flags = format::from_flags(&args.record)?;
    let is_known = from_flags.is_some() || files.iter().any(|file| file.npy.is_some());
    if is_known && !files.is_empty() {
        format::decide(&args.record, &files)?;
    }
    let job = means.job(Vec::new());
    let mut spool = Spool::make(
        &job,
        &spool_dir(named, target)?,
        means.scratch_limit_bytes(),
    )?;
    let (interrupt, control) = (&context.interrupt, &job.control);
    let mut inputs = Vec::with_capacity(sources.len());
    for (source, input) in sources.iter().zip(looked) {
        let input = match input {
            Some(input) => input,
            None => {
                let check = |first: &[u8]| match is_known || NpyHeader::is_npy(first) {
                    true => Ok(()),
                    false => Err(format::unknown_of_stream(&source.name)),
                };
                let copied = watch(&context.reporter, interrupt, control, &[], || {
                    spool.copy(&job, source, check)
                })?;
                inputs::look(copied)?
            }
        };
        inputs.push(input);
    }
    Ok((inputs, Some(spool)))
}

/// The drive with the most room, or the place for scratch where none is named.
fn spool_dir(named: &[ScratchDrive], target: &Target) -> Result<PathBuf> {
    let mut roomiest: Option<(u64, &Path)> = None;
    for drive in named {
        let free_bytes = means::free_bytes(&drive.dir)?;
        if roomiest.is_none_or(|(most_bytes, _)| free_bytes > most_bytes) {
            roomiest = Some((free_bytes, &drive.dir));
        }
    }
    match roomiest {
        Some((_, dir)) => Ok(dir.to_path_buf()),
        None => means::default_scratch_dir(&target.dir()),
    }
}

/// Drives for scratch: those named, or the default where it is not the engine's own.
fn scratch_drives(
    context: &Context,
    means: &Means,
    target: &Target,
    plan: &SortPlan,
) -> Result<Vec<ScratchDrive>> {
    let named = means.named_drives(plan.scratch_bytes)?;
    if !named.is_empty() || plan.levels == 0 {
        return Ok(named);
    }
    let beside = target.dir();
    let dir = means::default_scratch_dir(&beside)?;
    if dir == beside {
        return Ok(Vec::new());
    }
    context.reporter.note(&format!(
        "scratch goes to {}, since {} is in memory; name another place with --drive",
        dir.display(),
        beside.display()
    ));
    Ok(vec![ScratchDrive {
        name: dir.display().to_string(),
        dir,
        weight: 1.0,
    }])
}

/// As the engine counts: each named drive, then each further file system.
fn count_drives(named: &[ScratchDrive], target: &Target, inputs: &[Input]) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file_system = |path: &Path| std::fs::metadata(path).ok().map(|facts| facts.dev());
    let beside = target.dir();
    let scratch: Vec<&Path> = match named {
        [] => vec![&beside],
        drives => drives.iter().map(|drive| drive.dir.as_path()).collect(),
    };
    let mut seen: Vec<u64> = scratch.iter().filter_map(|dir| file_system(dir)).collect();
    let mut count = scratch.len();
    let files = inputs.iter().map(|input| input.source.path.as_path());
    let outputs = target.files().iter().map(|path| output::parent_of(path));
    for found in files.chain(outputs).filter_map(file_system) {
        if !seen.contains(&found) {
            seen.push(found);
            count += 1;
        }
    }
    count
}

fn run_sort(context: &Context, prepared: &Prepared) -> Result<SortSummary> {
    let job = &prepared.job;
    let output = prepared
        .target
        .to_sort(prepared.header.clone(), &job.control)?;
    let files: Vec<SortInput> = prepared.inputs.iter().map(Input::to_sort).collect();
    watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &WEIGHTS,
        || sort::sort(job, &files, output, &prepared.format, prepared.options),
    )
}

/// Whether it failed because the reader of its output went away.
fn is_closed_pipe(target: &Target, error: &Error) -> bool {
    let broken = rustix::io::Errno::PIPE.raw_os_error();
    matches!(target, Target::Pipe(_)) && error.raw_errno() == Some(broken)
}

fn check_deletion(args: &SortArgs, sources: &[Source]) -> Result<()> {
    if !args.delete_input {
        return Ok(());
    }
    let refuse = |cause: &str, source: &Source| {
        Err(Error::usage("delete input", cause)
            .path(&source.name)
            .hint("leave --delete-input out"))
    };
    for (index, source) in sources.iter().enumerate() {
        if source.is_stream() || source.start_bytes > 0 {
            return refuse("it is no file that could be removed", source);
        }
        if sources[..index].iter().any(|other| other.key == source.key) {
            return refuse(
                "it is named twice, so it cannot go after the first reading",
                source,
            );
        }
    }
    Ok(())
}

/// Says that a failure came while inputs were being consumed.
fn with_loss(error: Error) -> Error {
    let hint = match error.next_step() {
        Some(hint) => format!("{hint}; "),
        None => String::new(),
    };
    error.hint(format!(
        "{hint}--delete-input was given: what had been consumed of the inputs is gone"
    ))
}

/// Removes the inputs and their manifests, but not what the output replaced.
fn remove_inputs(prepared: &Prepared) -> Result<()> {
    let written = prepared.target.files();
    let manifest = match &prepared.target {
        Target::Shards { manifest, .. } => Some(manifest),
        _ => None,
    };
    let mut gone: Vec<&Path> = Vec::new();
    for input in &prepared.inputs {
        let paths = [Some(&input.source.path), input.source.manifest.as_ref()];
        for path in paths.into_iter().flatten() {
            let is_output = written.contains(path) || manifest == Some(path);
            if !is_output && !gone.contains(&path.as_path()) {
                std::fs::remove_file(path)
                    .map_err(|error| Error::io("remove input", &error).path(path))?;
                gone.push(path);
            }
        }
    }
    Ok(())
}

fn begin(context: &Context, args: &SortArgs, means: &Means, prepared: &Prepared) {
    let (reporter, plan) = (&context.reporter, &prepared.plan);
    let names: Vec<&str> = prepared
        .inputs
        .iter()
        .map(|input| input.source.name.as_str())
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
            "output": prepared.target.name(),
            "type": prepared.format.to_string(),
            "record_bytes": prepared.format.record_bytes(),
            "records": plan.size.data_bytes / prepared.format.record_bytes() as u64,
            "data_bytes": plan.size.data_bytes,
            "memory_bytes": plan.size.memory_bytes,
            "threads": plan.size.threads,
            "io": means.config.io.value.name(),
            "drives": drives,
            "plan": plan_json(plan),
        }),
    );
    reporter.detail(&format!(
        "{}: {} records of type {}",
        names.join(", "),
        units::count(plan.size.data_bytes / prepared.format.record_bytes() as u64),
        prepared.format
    ));
    for row in means.config.rows() {
        reporter.detail(&format!("{} = {} ({})", row.key, row.value, row.source));
    }
    if args.delete_input {
        reporter.note("--delete-input: if this fails, what it has consumed of the inputs is lost");
    }
}

fn plan_json(plan: &SortPlan) -> Value {
    json!({
        "passes": plan.levels + 1,
        "bucket_count": plan.bucket_count,
        "segment_bytes": plan.segment_bytes,
        "read_block_bytes": plan.read_block_bytes,
        "leaf_bytes_max": plan.leaf_bytes_max,
        "resident_bytes": plan.resident_segments * plan.segment_bytes,
        "scratch_bytes": plan.scratch_bytes,
        "predicted_read_bytes": plan.predicted_read_bytes,
        "predicted_written_bytes": plan.predicted_written_bytes,
        "predicted_seconds": plan.predicted_seconds,
        "drive_count": plan.size.drive_count,
    })
}

/// Prints the plan: on standard output if it is all that was asked for.
fn show_plan(context: &Context, prepared: &Prepared, is_all: bool) -> u8 {
    let (reporter, plan) = (&context.reporter, &prepared.plan);
    if is_all {
        reporter.data(&format!("{plan}\n"));
        reporter.event("plan", plan_json(plan));
        let records = plan.size.data_bytes / prepared.format.record_bytes() as u64;
        reporter.summary(&Summary {
            records,
            passes: plan.levels + 1,
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
    means: &Means,
    prepared: &Prepared,
    (done, seconds): (&SortSummary, f64),
) {
    let spooled_bytes = prepared.spool.as_ref().map_or(0, |spool| spool.bytes);
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let phases: Vec<Value> = done
        .phases
        .iter()
        .map(|phase| json!({"name": phase.name, "seconds": phase.seconds}))
        .collect();
    let fraction = bandwidth_fraction(&traffic, seconds, &means.config.drives.value);
    let summary = Summary {
        records: done.records,
        seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes + spooled_bytes,
        passes: done.passes,
        bandwidth_fraction: fraction,
        ..Summary::default()
    };
    let summary = summary
        .with("output", json!(prepared.target.name()))
        .with("scratch_bytes", json!(done.scratch_bytes + spooled_bytes))
        .with("phases", json!(phases))
        .with("drives", DriveTraffic::list_json(&traffic))
        .with("plan", plan_json(&prepared.plan));
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
        "sorted {} records, {}, in {}: {}",
        units::count(done.records),
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
    let phases: Vec<String> = done
        .phases
        .iter()
        .map(|phase| format!("{} {}", phase.name, units::seconds(phase.seconds)))
        .collect();
    reporter.human(&format!("  {}", phases.join(", ")));
    if let Some(text) = summary.bandwidth_text() {
        reporter.human(&format!("  {text}"));
    }
    if args.explain || reporter.is_verbose() {
        reporter.human(&format!(
            "  planned: read {}, wrote {}, {:.1} s",
            units::bytes(prepared.plan.predicted_read_bytes),
            units::bytes(prepared.plan.predicted_written_bytes),
            prepared.plan.predicted_seconds,
        ));
    }
    for (name, read_bytes, written_bytes) in &done.drives {
        reporter.detail(&format!(
            "  drive {name}: read {}, wrote {}",
            units::bytes(*read_bytes),
            units::bytes(*written_bytes)
        ));
    }
}
