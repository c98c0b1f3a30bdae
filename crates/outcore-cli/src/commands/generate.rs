//! `outcore gen`: records to try things on, from flags to [`outcore::algo::generate`].
//!
//! Contract: the bytes depend on type, count, distribution and seed alone. The output follows the
//! rules of `sort` (see [`crate::output`]): whole or not at all, nothing overwritten unasked.

use outcore::algo::generate::{GenerateRequest, GenerateSummary, generate};
use outcore::data::{Distribution, GenerateOptions, Generator, GensortOptions, NpyHeader};
use outcore::job::Job;
use outcore::{Error, Result, units};
use serde_json::json;

use super::Context;
use crate::CLOSED_PIPE;
use crate::cli::GenArgs;
use crate::means::Means;
use crate::measure::{DriveTraffic, Summary, bandwidth_fraction, rate_text};
use crate::output::{self, Consent, Target};
use crate::progress::watch;

/// Runs the subcommand.
pub(crate) fn run(context: &Context, args: &GenArgs) -> Result<u8> {
    let means = Means::load(&args.means, &args.drives, None)?;
    let generator = make_generator(args)?;
    let drives = &means.config.drives.value.drives;
    let consent = Consent {
        force: args.force,
        replace: false,
    };
    let target = output::choose(Some(&args.output), &[], drives, consent)?;
    let record_bytes = args.format.record_bytes() as u64;
    output::check_room(&target, args.records.saturating_mul(record_bytes))?;
    let job = means.job(Vec::new());
    context.reporter.event(
        "begin",
        json!({
            "output": target.name(),
            "type": args.format.to_string(),
            "record_bytes": args.format.record_bytes(),
            "records": args.records,
            "distribution": args.distribution.to_string(),
            "seed": args.seed,
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
        }),
    );
    let broken = rustix::io::Errno::PIPE.raw_os_error();
    let done = match make(context, args, &job, generator, &target) {
        Ok(done) => done,
        Err(error) if matches!(target, Target::Pipe(_)) && error.raw_errno() == Some(broken) => {
            return Ok(CLOSED_PIPE);
        }
        Err(error) => return Err(error),
    };
    report(context, &means, &target, &done);
    Ok(0)
}

/// The generator that the flags ask for.
fn make_generator(args: &GenArgs) -> Result<Generator> {
    let has_gensort_flags = args.ascii || args.skewed || args.first.is_some();
    if args.format.is_gensort() && args.distribution == Distribution::Whole {
        return Ok(Generator::gensort(GensortOptions {
            ascii: args.ascii,
            skewed: args.skewed,
            first: args.first.unwrap_or(0),
        }));
    }
    if has_gensort_flags {
        let cause = "--ascii, --skewed and --first are for the records of gensort";
        return Err(Error::usage("generate", cause)
            .hint("use them with `outcore gen gensort` and without --dist"));
    }
    Generator::new(
        &args.format,
        GenerateOptions {
            distribution: args.distribution,
            seed: args.seed,
            records: args.records,
        },
    )
}

fn make(
    context: &Context,
    args: &GenArgs,
    job: &Job,
    generator: Generator,
    target: &Target,
) -> Result<GenerateSummary> {
    let header: Option<NpyHeader> = output::header_for(target, &[], &args.format)?;
    let request = GenerateRequest {
        generator,
        records: args.records,
        output: target.to_sort(header, &job.control)?,
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

fn report(context: &Context, means: &Means, target: &Target, done: &GenerateSummary) {
    let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
    let set = &means.config.drives.value;
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
        .with("output", json!(target.name()))
        .with("drives", DriveTraffic::list_json(&traffic));
    context.reporter.summary(&summary);
    context.reporter.human(&format!(
        "generated {} records, {}, in {}: {}",
        units::count(done.records),
        units::bytes(done.written_bytes),
        units::seconds(done.seconds),
        rate_text(done.written_bytes, done.seconds),
    ));
    if let Some(text) = summary.bandwidth_text() {
        context.reporter.human(&format!("  {text}"));
    }
}
