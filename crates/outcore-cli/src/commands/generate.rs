//! `outcore gen`: records to try things on, from flags to [`outcore_gen`].
//!
//! Contract: the bytes depend on type, count, distribution and seed alone. The output follows the
//! rules of `sort` (see [`outcore_front::output`]): whole or not at all, nothing overwritten
//! unasked.

use outcore::Summary as Done;
use outcore::job::Job;
use outcore::primitives::plan_files;
use outcore::{Forecast, Result};
use outcore_front::cost::{DriveTraffic, bandwidth_fraction};
use outcore_front::inputs::Streams;
use outcore_front::output::{self, Consent, Holds, Target};
use outcore_front::resources::Resources;
use outcore_gen::{
    GenerateOptions, GenerateRequest, Generator, GensortRequest, generate, generator,
};
use outcore_io::units;
use serde_json::json;

use crate::cli::GenArgs;
use crate::context::Context;
use crate::measure::{Summary, drives_json, phases_json, rate_text};
use crate::pipe::CLOSED_PIPE;
use crate::progress::watch;
use crate::recorder::Kept;
use crate::{pipe, resources};

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &GenArgs) -> Result<u8> {
    let resources = resources::load(&args.resources, &args.drives, None, resources::SEED)?;
    let generator = make_generator(args)?;
    let consent = Consent {
        force: args.force,
        replace: false,
    };
    let name = context.files.output(&args.output, args.force)?;
    let how = (Streams::Taken, Holds::Records);
    let target = output::choose(Some(&name), &[], resources.specs(), consent, how)?;
    let resources = context.files.add_to(resources)?;
    output::check_room_for(
        resources.device().as_ref(),
        &target,
        args.records,
        args.format.record_bytes(),
    )?;
    let kept = Kept {
        target: Some(&target),
        force: args.force,
        ..Kept::default()
    };
    let resources = context.start(resources, &args.record_io, kept)?;
    let resources = resources.measuring(args.explain);
    let job = resources.job_at(Vec::new(), &target.dir());
    if args.explain {
        let bytes = args.records * args.format.record_bytes() as u64;
        let what = (format!("generate {}", args.format), "generate");
        let plan = plan_files(&job, (&[], 1), (&what.0, what.1), |_| {
            (Forecast::NOTHING, bytes.into())
        })?;
        context.reporter.plan(&plan);
    }
    context.reporter.event(
        "begin",
        json!({
            "output": target.name().display().to_string(),
            "type": args.format.to_string(),
            "record_bytes": args.format.record_bytes(),
            "records": args.records,
            "distribution": args.distribution.to_string(),
            "seed": args.seed,
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
        }),
    );
    let done = match make(context, args, &job, generator, &target) {
        Ok(done) => done,
        Err(error) if pipe::is_closed(&target, &error) => return Ok(CLOSED_PIPE),
        Err(error) => return Err(error),
    };
    let data_bytes = done.records * args.format.record_bytes() as u64;
    report(
        context,
        &resources,
        (&target, args.explain),
        (&done, data_bytes),
    );
    Ok(0)
}

/// The generator that the flags ask for.
fn make_generator(args: &GenArgs) -> Result<Generator> {
    let options = GenerateOptions {
        distribution: args.distribution,
        seed: args.seed,
        records: args.records,
    };
    let gensort = GensortRequest {
        ascii: args.ascii,
        skewed: args.skewed,
        first: args.first,
    };
    generator(&args.format, options, gensort)
}

fn make(
    context: &Context,
    args: &GenArgs,
    job: &Job,
    generator: Generator,
    target: &Target,
) -> Result<Done> {
    let header = output::header_for(target, &[], &args.format.clone().into())?;
    let request = GenerateRequest {
        generator,
        records: args.records,
        output: target.to_sort(header, |path| pipe::open(path, &job.control))?,
        replace: args.force,
    };
    watch(
        &context.reporter,
        &context.interrupt,
        &job.control,
        &[("generate", 1.0)],
        || generate(job, &request),
    )
}

fn report(
    context: &Context,
    resources: &Resources,
    (target, is_explained): (&Target, bool),
    (done, data_bytes): (&Done, u64),
) {
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let set = &resources.config.drives.value;
    let summary = Summary {
        records: done.records,
        seconds: done.seconds,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        passes: 1,
        bandwidth_fraction: bandwidth_fraction(&traffic, done.seconds, set),
        ..Summary::default()
    };
    let summary = summary
        .with("output", json!(target.name().display().to_string()))
        .with("drives", drives_json(&traffic))
        .with("phases", phases_json(&done.phases));
    context.reporter.summary(&summary);
    context.reporter.human(&format!(
        "generated {}, {}, in {}: {}",
        units::counted(done.records, "record"),
        units::bytes(data_bytes),
        units::seconds(done.seconds),
        rate_text(data_bytes, done.seconds),
    ));
    if let Some(text) = summary.bandwidth_text() {
        context.reporter.human(&format!("  {text}"));
    }
    context.reporter.phases(&done.phases, is_explained);
}
