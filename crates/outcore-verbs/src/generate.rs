//! `gen`: records to try things on.
//!
//! Contract: the bytes depend on type, count, distribution and seed alone. The output follows the
//! rules of `sort` (see [`outcore_front::output`]): whole or not at all, nothing overwritten
//! unasked.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::primitives::plan_files;
use outcore::{Error, Forecast, Result};
use outcore_front::cost::DriveTraffic;
use outcore_front::inputs::is_stdout;
use outcore_front::output::{self, Consent, Holds};
use outcore_front::records::{self, Decided};
use outcore_gen::{
    Distribution, GenerateOptions, GenerateRequest, Generator, GensortRequest, generate, generator,
};
use outcore_io::units;
use serde_json::json;

use crate::host::{Host, Kept, Weight, watch};
use crate::option::{
    DriveArgs, RecordType, RecordingArgs, ResourceArgs, SEED, STDOUT, TypeArgs, parse_count,
    resources_request,
};
use crate::report::{JobSummary, Moved, Phase, Place, Stopwatch, report};
use crate::verb::{Verb, Words};

const GEN_EXAMPLES: &str = "\
Examples:
  outcore gen u64 -n 1e9 -o keys.bin --dist zipf:1.2
  outcore gen gensort -n 1000000 -o records.bin
  outcore gen 64/8:8:u64 -n 1000 -o log.bin --seed 7
  outcore gen u32x2 -n 16777216 -o edges.u32 --dist rmat:20    # for `outcore graph convert`
  outcore gen f32x128 -n 1e6 -o base.npy --dist clusters:1000      # for `outcore knn`";

/// Generate records for tests and measurements
///
/// The records depend only on type, count, distribution and seed.
#[derive(Debug, Args)]
#[command(after_long_help = GEN_EXAMPLES)]
pub(crate) struct GenArgs {
    /// Record type, as in `sort --type`; gensort makes the records of sortbenchmark.org's gensort
    /// 1.5, byte for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort --key`
    #[arg(value_name = "TYPE", value_parser = parse_generated)]
    pub format: RecordType,
    /// Number of records
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = parse_count)]
    pub records: u64,
    /// Output: a file (.npy gets a header), or one shard per drive if the name contains {drive}.
    /// Default: standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true)]
    pub output: PathBuf,
    /// Distribution of the keys: uniform (the whole range: of floats all finite ones, so distances
    /// between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA, zipf:S[:RANKS],
    /// normal and clusters:K (vectors around K centres; both of floats and of integers up to 32
    /// bits), rmat:SCALE (edges of a graph of 2^SCALE vertices, for u32x2 and the like),
    /// kronecker:SCALE (the same with vertices in no order, as Graph500 has it), sorted, reversed,
    /// equal
    #[arg(long = "dist", value_name = "DIST", default_value = "uniform")]
    pub distribution: Distribution,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Printable records
    #[arg(short, long, help_heading = "gensort")]
    pub ascii: bool,
    /// Keys that share prefixes
    #[arg(short, long, help_heading = "gensort")]
    pub skewed: bool,
    /// Number of the first record
    #[arg(short = 'b', long, value_name = "FIRST", help_heading = "gensort")]
    pub first: Option<u128>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub resources: ResourceArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub drives: DriveArgs,
    /// Replace an existing file
    #[arg(long, help_heading = "Files")]
    pub force: bool,
    /// Print the plan (predicted traffic and time), then run
    #[arg(long, help_heading = "Plan")]
    pub explain: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "the group of options says what it is")]
    pub record_io: RecordingArgs,
}

report! {
    /// What was generated.
    pub(crate) struct GenSummary {
        [used: JobSummary],
        /// The file, or the manifest of the shards.
        output: Place,
        /// Bytes of the records.
        data_bytes: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// The verb.
pub(crate) struct Gen;

impl Verb for Gen {
    const NAME: &'static str = "gen";
    type Args = GenArgs;
    type Report = GenSummary;
    const PHASES: &'static [Weight] = &[("generate", 1.0)];

    fn run(host: &dyn Host, args: &GenArgs) -> Result<GenSummary> {
        let stopwatch = Stopwatch::start();
        let request = resources_request(&args.resources, &args.drives, None, SEED)?;
        let resources = host.load(&request)?;
        let item = item_of(args)?;
        let generator = make_generator(args, &item)?;
        let consent = Consent {
            force: args.force,
            replace: false,
        };
        let name = host.output(&args.output, args.force)?;
        let how = (host.streams(), Holds::Records);
        let target = output::choose(Some(&name), &[], resources.specs(), consent, how)?;
        let resources = host.with_datasets(resources)?;
        let record_bytes = item.format.record_bytes();
        let device = resources.device();
        output::check_room_for(device.as_ref(), &target, args.records, record_bytes)?;
        let kept = Kept {
            target: Some(&target),
            force: args.force,
            ..Kept::default()
        };
        let resources = host.start(resources, args.record_io.path(), kept)?;
        let resources = resources.measuring(args.explain);
        let job = host.adopt(resources.job_at(Vec::new(), &target.dir()));
        let data_bytes = args.records.saturating_mul(record_bytes as u64);
        if args.explain {
            let steps = format!("generate {}", item.format);
            let plan = plan_files(&job, (&[], 1), (&steps, "generate"), |_| {
                (Forecast::NOTHING, data_bytes.into())
            })?;
            host.show_plan(&plan);
        }
        host.begin(json!({
            "output": target.name().display().to_string(),
            "type": item.format.to_string(),
            "record_bytes": record_bytes,
            "records": args.records,
            "distribution": args.distribution.to_string(),
            "seed": args.seed,
            "memory_bytes": job.options.memory_bytes,
            "threads": job.options.threads,
        }));
        let header = output::header_for(&target, &[], &item)?;
        let request = GenerateRequest {
            generator,
            records: args.records,
            output: target.to_sort(header, |path| host.open_pipe(path, &job.control))?,
            replace: args.force,
        };
        let done = watch(host, &job.control, Gen::PHASES, || generate(&job, &request))?;
        let moved = Moved {
            records: done.records,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: 1,
        };
        let traffic: Vec<DriveTraffic> = done.drives.iter().map(DriveTraffic::of).collect();
        Ok(GenSummary {
            used: stopwatch.stop(moved, &traffic, &resources, host.end_trace()?),
            output: Place(host.name_of(target.name())),
            data_bytes: done.records * record_bytes as u64,
            phases: Phase::of_engine(&done.phases),
        })
    }

    fn say(args: &GenArgs, report: &GenSummary, words: &mut Words) {
        words.lines(&Gen::headline(report));
        words.lines(&report.used.bandwidth_text().unwrap_or_default());
        words.phases(&report.phases, args.explain);
    }

    fn takes_stdout(args: &GenArgs) -> bool {
        is_stdout(&args.output)
    }

    fn headline(report: &GenSummary) -> String {
        let seconds = report.used.seconds;
        format!(
            "generated {}, {}, in {}: {}",
            units::counted(report.used.records, "record"),
            units::bytes(report.data_bytes),
            units::seconds(seconds),
            units::rate_decimal(report.data_bytes as f64 / seconds.max(1e-9)),
        )
    }
}

/// The type of the records.
fn item_of(args: &GenArgs) -> Result<Decided> {
    let record = TypeArgs {
        format: Some(args.format.clone()),
        ..TypeArgs::default()
    };
    let item = records::named(&record.to_request())?;
    item.ok_or_else(|| Error::usage("generate", "no type is named").hint("give one: u64"))
}

/// The generator that is asked for.
fn make_generator(args: &GenArgs, item: &Decided) -> Result<Generator> {
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
    generator(&item.format, options, gensort)
}

/// The type of records that are made; graphs are asked for by name, and are a distribution.
fn parse_generated(text: &str) -> Result<RecordType> {
    match text.split(':').next() {
        Some(graph @ ("rmat" | "kronecker")) => {
            let cause = format!("{graph} is a distribution of edges, and no type");
            Err(Error::usage("read record type", cause).hint(format!(
                "for edges of a graph of 2^20 vertices: outcore gen u32x2 -n 16777216 --dist {graph}:20 -o FILE"
            )))
        }
        _ => text.parse(),
    }
}
