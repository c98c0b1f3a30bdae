//! `gen`: records and tables for experiments.
//!
//! Contract: the bytes depend only on type, count, distribution, seed and format. The output
//! follows the rules of `sort` (see [`outcore_front::output`]): it appears whole or not at all, and
//! overwrites nothing without permission.

#[cfg(feature = "tables")]
mod table;

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use outcore::primitives::plan_files;
use outcore::{Error, Forecast, Result};
use outcore_front::inputs::is_stdout;
use outcore_front::output::{self, Consent, Holds};
use outcore_front::records::{self, Decided};
#[cfg(feature = "tables")]
use outcore_front::resources::Resources;
use outcore_gen::{
    Distribution, GenerateOptions, GenerateRequest, Generator, GensortRequest, generate, generator,
};
use outcore_io::units;
use serde_json::json;

use crate::host::{Host, Kept, Weight, watch};
#[cfg(feature = "tables")]
use crate::option::tables::PipeFormat;
use crate::option::{
    DriveArgs, RecordType, RecordingArgs, ResourceArgs, SEED, STDOUT, TypeArgs, parse_count,
    resources_request,
};
use crate::report::{JobSummary, Moved, Phase, Place, Stopwatch, report};
use crate::verb::{Verb, Words};

const GEN_EXAMPLES: &str = "\
Examples:
  outcore gen u64 -n 1e9 -o keys.bin --dist zipf:1.2
  outcore gen sales -n 1e6 -o sales.parquet                    # or .csv, .jsonl, .arrow
  outcore gen logs -n 1e6 -o access.log                        # or a table, as sales
  outcore gen u32x2 -n 16777216 -o edges.u32 --dist rmat:20    # for `outcore graph convert`

Tables: sales (what a shop sold), logs (requests to a web server) and documents (pages of text, a fifth
of which repeat others, nearly or exactly). A name that ends in .log or .txt gets lines of text: logs in
the combined log format of web servers, documents without their other columns.";

/// Generate records and tables for tests, measurements and examples
///
/// The output depends only on type, count, distribution, seed and format.
#[derive(Debug, Args)]
#[command(after_long_help = GEN_EXAMPLES)]
pub(crate) struct GenArgs {
    /// Record type, as in `sort --type`; gensort makes the records of sortbenchmark.org's gensort
    /// 1.5, byte for byte; SIZE/KEY[,KEY...] makes records with keys as in `sort --key`; sales,
    /// logs and documents are tables
    #[arg(value_name = "TYPE", value_parser = parse_generated)]
    pub format: Generated,
    /// Number of records or rows
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = parse_count)]
    pub records: u64,
    /// Output: a file (.npy gets a header; a table is Parquet, Arrow, CSV or JSON lines by its
    /// name), or one shard per drive if the name contains {drive}. Default: standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = STDOUT, hide_default_value = true)]
    pub output: PathBuf,
    /// Distribution of the keys: uniform (the whole range; for floats all finite values, so
    /// distances between vectors are infinite), uniform:MU (0 to MU), exponential:LAMBDA,
    /// zipf:S[:RANKS], normal, clusters:K (vectors around K centres), rmat:SCALE (edges of a graph
    /// of 2^SCALE vertices, for pairs such as u32x2), kronecker:SCALE (the same with vertices in
    /// random order, as in Graph500), sorted, reversed, equal. normal and clusters are for floats
    /// and integers of up to 32 bits. Default: uniform
    #[arg(long = "dist", value_name = "DIST")]
    pub distribution: Option<Distribution>,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Make printable records
    #[arg(short, long, help_heading = "gensort")]
    pub ascii: bool,
    /// Make keys that share prefixes
    #[arg(short, long, help_heading = "gensort")]
    pub skewed: bool,
    /// Number of the first record
    #[arg(short = 'b', long, value_name = "FIRST", help_heading = "gensort")]
    pub first: Option<u128>,
    /// Format of a table on standard output. Default: text for logs and documents, CSV for sales
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Tables")]
    pub to: Option<GenFormat>,
    /// Compression of a table, as in `convert --codec`
    #[arg(long, value_name = "CODEC", help_heading = "Tables")]
    pub codec: Option<String>,
    /// Write N Parquet files of equal numbers of rows to the directory OUT
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Tables")]
    pub parts: Option<u64>,
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

/// The data to generate.
#[derive(Debug, Clone)]
pub(crate) enum Generated {
    /// Records of a type.
    Records(RecordType),
    /// A table for experiments.
    #[cfg(feature = "tables")]
    Table(outcore_gen::SampleKind),
}

/// Formats of a generated table on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GenFormat {
    /// An Arrow IPC stream
    Arrow,
    /// CSV
    Csv,
    /// CSV with tabs between fields
    Tsv,
    /// JSON lines
    Jsonl,
    /// Lines of text
    Text,
}

impl GenFormat {
    /// The format of tables that corresponds to this one; `None` for text.
    #[cfg(feature = "tables")]
    fn of_table(self) -> Option<PipeFormat> {
        Some(match self {
            GenFormat::Arrow => PipeFormat::Arrow,
            GenFormat::Csv => PipeFormat::Csv,
            GenFormat::Tsv => PipeFormat::Tsv,
            GenFormat::Jsonl => PipeFormat::Jsonl,
            GenFormat::Text => return None,
        })
    }
}

report! {
    /// The generated data.
    pub(crate) struct GenSummary {
        [used: JobSummary],
        /// What `records` counts: `record`, `row` or `line`.
        unit: String,
        /// The file, or the manifest of the shards.
        output: Place,
        /// Bytes of the records, or of the files of a table.
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
        let format = match &args.format {
            Generated::Records(format) => format,
            #[cfg(feature = "tables")]
            Generated::Table(kind) => return of_table(host, args, *kind, resources),
        };
        check_no_table_options(args)?;
        let item = item_of(format)?;
        let generator = make_generator(args, &item)?;
        let consent = Consent {
            force: args.force,
            replace: false,
        };
        let name = host.names().output(&args.output, args.force)?;
        let (specs, streams) = (resources.specs(), host.streams());
        let name = Some(&*name);
        let target = output::choose(name, &[], specs, consent, streams, Holds::Records)?;
        let resources = host.names().add_to(resources)?;
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
        let job = host.adopt(resources.pass_job(Vec::new()));
        let data_bytes = args.records.saturating_mul(record_bytes as u64);
        if args.explain {
            let steps = format!("generate {}", item.format);
            let plan = plan_files(&job, &[], 1, &steps, "generate", |_| {
                (Forecast::NOTHING, data_bytes.into())
            })?;
            host.show_plan(&plan);
        }
        host.begin(json!({
            "output": target.name().display().to_string(),
            "type": item.format.to_string(),
            "record_bytes": record_bytes,
            "records": args.records,
            "distribution": args.distribution.unwrap_or_default().to_string(),
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
        let traffic = done.drives.clone();
        Ok(GenSummary {
            unit: "record".to_owned(),
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
            units::counted(report.used.records, &report.unit),
            units::bytes(report.data_bytes),
            units::seconds(seconds),
            units::rate_decimal(report.data_bytes as f64 / seconds.max(1e-9)),
        )
    }
}

/// Writes a table, and returns the report of the verb.
#[cfg(feature = "tables")]
fn of_table(
    host: &dyn Host,
    args: &GenArgs,
    kind: outcore_gen::SampleKind,
    resources: Resources,
) -> Result<GenSummary> {
    let wrote = table::generate(host, args, kind, resources)?;
    Ok(GenSummary {
        used: wrote.used,
        unit: match table::writes_lines(args, kind) {
            true => "line".to_owned(),
            false => "row".to_owned(),
        },
        output: wrote.output.unwrap_or_else(|| Place(args.output.clone())),
        data_bytes: wrote.output_bytes.unwrap_or_default(),
        phases: wrote.phases,
    })
}

/// Fails for options of tables if records are generated.
fn check_no_table_options(args: &GenArgs) -> Result<()> {
    let given = [
        (args.to.is_some(), "--to"),
        (args.codec.is_some(), "--codec"),
        (args.parts.is_some(), "--parts"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, option)) => {
            let cause = format!("{option} is for tables, but these are records");
            Err(Error::usage("generate", cause).hint(format!(
                "leave {option} out, or generate sales, logs or documents"
            )))
        }
        None => Ok(()),
    }
}

/// The type of the records.
fn item_of(format: &RecordType) -> Result<Decided> {
    let record = TypeArgs {
        format: Some(format.clone()),
        ..TypeArgs::default()
    };
    let item = records::named(&record.to_request())?;
    item.ok_or_else(|| Error::usage("generate", "no type is given").hint("give one: u64"))
}

/// The requested generator.
fn make_generator(args: &GenArgs, item: &Decided) -> Result<Generator> {
    let options = GenerateOptions {
        distribution: args.distribution.unwrap_or_default(),
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

/// The distribution `text` if it can be read, and otherwise a usual one of that name.
fn form_of_distribution<'a>(text: &'a str, name: &'a str) -> &'a str {
    match name {
        _ if text.parse::<Distribution>().is_ok() => text,
        "zipf" => "zipf:1.1",
        "exponential" => "exponential:1",
        "clusters" => "clusters:8",
        other => other,
    }
}

/// Reads the type of the output. A graph is requested by name, and is a distribution.
fn parse_generated(text: &str) -> Result<Generated> {
    #[cfg(feature = "tables")]
    if let Ok(kind) = text.parse() {
        return Ok(Generated::Table(kind));
    }
    match text.split(':').next() {
        Some(graph @ ("rmat" | "kronecker")) => {
            let cause = format!("{graph} is a distribution of edges, not a type");
            Err(Error::usage("read record type", cause).hint(format!(
                "for edges of a graph of 2^20 vertices: outcore gen u32x2 -n 16777216 --dist {graph}:20 -o FILE"
            )))
        }
        Some(
            format @ ("csv" | "tsv" | "jsonl" | "json" | "parquet" | "arrow" | "text" | "txt"
            | "log"),
        ) => {
            let cause = format!("{format} is a format; the name of the output selects it");
            let hint = match format {
                "text" | "txt" | "log" => {
                    "outcore gen logs -n 1e6 -o access.log writes lines of text".to_owned()
                }
                "json" => "outcore gen sales -n 1e6 -o sales.jsonl writes JSON lines".to_owned(),
                _ => format!(
                    "name what to generate: outcore gen sales -n 1e6 -o sales.{format}; or logs, or documents"
                ),
            };
            Err(Error::usage("read record type", cause).hint(hint))
        }
        _ => text
            .parse()
            .map(Generated::Records)
            .map_err(|error: Error| {
                let hint = error.next_step().unwrap_or_default().to_owned();
                let tables = ["sales", "logs", "documents"];
                let near = tables
                    .iter()
                    .find(|name| strsim::osa_distance(text, name) == 1);
                error.hint(match (text.split(':').next(), near) {
                    (_, Some(name)) => format!("did you mean {name}?"),
                    (
                        Some(
                            name @ ("normal" | "uniform" | "zipf" | "exponential" | "clusters"),
                        ),
                        _,
                    ) => {
                        let form = form_of_distribution(text, name);
                        format!(
                            "{name} is a distribution of numbers: outcore gen f64 -n 1e6 --dist {form} -o FILE"
                        )
                    }
                    (Some("edges" | "graph"), _) => {
                        "outcore gen u32x2 --dist rmat:20 makes edges of a graph of 2^20 vertices"
                            .to_owned()
                    }
                    (Some("random"), _) => "outcore gen u64 makes random numbers".to_owned(),
                    _ => format!("{hint}; tables are sales, logs and documents"),
                })
            }),
    }
}
