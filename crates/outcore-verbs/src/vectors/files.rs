//! `vector convert`, `vector info` and `vector index`: convert, describe and index files of
//! vectors.
//!
//! Contract: as in [`super`]; `info` reads only the header.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::passes::JobOption;
use outcore::{Error, Result};
use outcore_front::output::{Holds, check_is_own};
use outcore_front::what::{Asked, What};
use outcore_io::units;
use outcore_vector::convert::convert;
use outcore_vector::format::{Container, Element, VectorFile};
use outcore_vector::index::{self, ListOptions};

use super::run::{Files, RawArgs, Run, VectorInputArgs, check_input, rate_text};
use crate::columns::{self, TablePlace};
use crate::host::{Host, Weight};
use crate::option::{
    DriveArgs, PassResumeArgs, ResourceArgs, RunArgs, SEED, parse_count, resources_request,
};
use crate::report::{JobSummary, Moved, Phase, Place, Stopwatch, report};
use crate::resumed::job_options;
use crate::verb::{Inputs, Verb, Words};

const CONVERT_EXAMPLES: &str = "\
Examples:
  outcore vector convert sift_base.fvecs -o sift.fbin
  outcore vector convert embeddings.npy -o embeddings.f16bin
  outcore vector convert points.bin --type f32x32 -o points.npy
  outcore vector convert docs.parquet --column embedding -o embeddings.npy";

const INFO_EXAMPLES: &str = "\
Examples:
  outcore vector info base.1B.fbin
  outcore vector info embeddings.npy --json";

const INDEX_EXAMPLES: &str = "\
Examples:
  outcore vector index embeddings.npy -o embeddings.vindex
  outcore knn embeddings.npy queries.npy --index embeddings.vindex -k 10 -o ids.npy
  outcore vector index base.fbin -o base.vindex --nlist 1024
  outcore knn base.fbin queries.fbin --index base.vindex --nprobe 16 -k 10 -o ids.ibin";

/// Convert vectors to another format or number type
///
/// Numbers stay unchanged, or become the nearest number of the new kind; a number outside the range
/// of that kind is an error. IN may be a Parquet or Arrow table: then the lists in a column are the
/// vectors, and their numbers stay unchanged. OUT appears whole or not at all.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct VectorConvertArgs {
    #[command(flatten)]
    input: VectorInputArgs,
    /// Output; the ending of its name determines the format. Without a known ending, raw numbers
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Column of the table IN that has the vectors; by default the only one with lists of numbers
    #[arg(long, value_name = "NAME", conflicts_with_all = ["element", "type_name"])]
    column: Option<String>,
    /// Number type of OUT: f32, f16, f64, i8, u8, i32 or i64. Default: the type that its ending
    /// sets, or that of the input
    #[arg(long = "to", value_name = "KIND")]
    element: Option<String>,
    #[command(flatten)]
    run: RunArgs,
}

report! {
    /// Vectors that were converted.
    pub(crate) struct VectorConvertSummary {
        [used: JobSummary],
        /// The file.
        output: Place,
        /// Kind of number and dimension of the output.
        r#type: String,
        /// Kind of number and dimension of the input.
        type_in: String,
        /// The column of the table that had the vectors; none if the input was not a table.
        column: Option<String>,
        /// Bytes of the vectors that were read, without headers.
        data_bytes: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `vector convert`.
pub(crate) struct VectorConvert;

impl Verb for VectorConvert {
    const NAME: &'static str = "vector convert";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = VectorConvertArgs;
    type Report = VectorConvertSummary;
    const PHASES: &'static [Weight] = &[("write", 1.0)];

    fn run(host: &dyn Host, args: &VectorConvertArgs) -> Result<VectorConvertSummary> {
        let input = args.input.input.as_path();
        Holds::Vectors.check_name(&args.output)?;
        let asked = Asked {
            inputs: std::slice::from_ref(&args.input.input),
            ..Asked::default()
        };
        if host.what(asked)? == What::Table {
            return convert_column(host, args);
        }
        if let Some(column) = &args.column {
            let cause = format!("the input is not a table, and has no column `{column}`");
            return Err(Error::usage("read arguments", cause)
                .path(input)
                .hint("name a Parquet or Arrow file, or leave --column out"));
        }
        let element = args.element.as_deref().map(|name| {
            Element::named(name).ok_or_else(|| {
                Error::usage(
                    "read arguments",
                    format!("`{name}` is not a kind of number"),
                )
                .hint("--to takes f32, f16, f64, i8, u8, i32 or i64")
            })
        });
        let element = element.transpose()?;
        let run = Run::begin(
            host,
            &args.run,
            None,
            &Files::of([Some(input)], [Some(args.output.as_path())]),
        )?;
        let from = VectorFile::open(&run.job, input, args.input.raw.name())?;
        let path = run.place_of(&args.output);
        let (to, done) = run.watch(|job| convert(job, &from, path, run.force, element))?;
        let moved = Moved {
            records: to.rows,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: 1,
        };
        Ok(VectorConvertSummary {
            used: run.used(moved)?,
            output: Place(args.output.clone()),
            r#type: to.type_name(),
            type_in: from.type_name(),
            column: None,
            data_bytes: from.data_bytes(),
            phases: Phase::of_engine(&done.phases),
        })
    }

    fn say(args: &VectorConvertArgs, report: &VectorConvertSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &VectorConvertSummary) -> String {
        let vectors = units::counted(report.used.records, "vector");
        let what = match &report.column {
            Some(column) => format!("{} in column `{column}`", report.r#type),
            None => format!("{} to {}", report.type_in, report.r#type),
        };
        format!(
            "converted {vectors} of {what} in {}: {}",
            units::seconds(report.used.seconds),
            rate_text(report.data_bytes, report.used.seconds),
        )
    }
}

/// Writes the vectors in a column of a table.
fn convert_column(host: &dyn Host, args: &VectorConvertArgs) -> Result<VectorConvertSummary> {
    let input = args.input.input.as_path();
    if args.element.is_some() || args.input.raw.type_name.is_some() {
        let cause = "the numbers of a table's column have a type, and stay unchanged";
        return Err(Error::usage("read arguments", cause)
            .path(input)
            .hint("leave --to and --type out; convert the output afterwards"));
    }
    let files = Files::of([Some(input)], [Some(args.output.as_path())]);
    let run = Run::begin(host, &args.run, None, &files)?;
    let output = TablePlace {
        path: run.place_of(&args.output),
        replace: run.force,
    };
    let column = args.column.as_deref();
    let done = run.watch(|job| columns::write_vectors(job, input, column, output))?;
    let moved = Moved {
        records: done.rows_count,
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes,
        passes: 1,
    };
    Ok(VectorConvertSummary {
        used: run.used(moved)?,
        output: Place(args.output.clone()),
        type_in: done.type_name.clone(),
        r#type: done.type_name,
        column: Some(done.column),
        data_bytes: done.written_bytes,
        phases: Phase::of_engine(&done.phases),
    })
}

/// Print the format, type and number of vectors of a file
///
/// Reads only the header, and checks it against the length of the file.
#[derive(Debug, Args)]
#[command(after_long_help = INFO_EXAMPLES)]
pub(crate) struct VectorInfoArgs {
    #[command(flatten)]
    input: VectorInputArgs,
}

report! {
    /// A file of vectors.
    pub(crate) struct VectorInfoReport {
        [used: JobSummary],
        /// Kind of number and dimension.
        r#type: String,
        /// Numbers of a vector.
        dimension: usize,
        /// `npy`, `vecs`, `bin`, `raw` or `lists`.
        format: String,
        /// Bytes before the first vector.
        header_bytes: u64,
        /// Bytes of a vector.
        row_bytes: usize,
        /// Bytes of all numbers.
        data_bytes: u64,
    }
}

/// `vector info`.
pub(crate) struct VectorInfo;

impl Verb for VectorInfo {
    const NAME: &'static str = "vector info";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = VectorInfoArgs;
    type Report = VectorInfoReport;

    fn run(host: &dyn Host, args: &VectorInfoArgs) -> Result<VectorInfoReport> {
        let stopwatch = Stopwatch::start();
        let input = args.input.input.as_path();
        check_input(host, input)?;
        let (memory, drives) = (ResourceArgs::default(), DriveArgs::default());
        let request = resources_request(&memory, &drives, None, SEED)?;
        let resources = host.names().add_to(host.load(&request)?)?;
        let job = host.adopt(resources.pass_job(Vec::new()));
        let file = VectorFile::open(&job, input, args.input.raw.name())?;
        let format = match file.container {
            Container::Npy => "npy",
            Container::Vecs => "vecs",
            Container::Bin => "bin",
            Container::Raw => "raw",
            Container::Lists => "lists",
        };
        let moved = Moved {
            records: file.rows,
            ..Moved::default()
        };
        Ok(VectorInfoReport {
            used: stopwatch.stop(moved, &[], &resources, None),
            r#type: file.type_name(),
            dimension: file.dimension,
            format: format.to_owned(),
            header_bytes: file.header_bytes,
            row_bytes: file.row_bytes(),
            data_bytes: file.rows * (file.dimension * file.element.bytes()) as u64,
        })
    }

    fn say(_args: &VectorInfoArgs, report: &VectorInfoReport, words: &mut Words) {
        words.data = format!("{}\n", Self::headline(report));
    }

    fn headline(report: &VectorInfoReport) -> String {
        format!(
            "{} of {} ({}), {} of numbers after a header of {} bytes",
            units::counted(report.used.records, "vector"),
            report.r#type,
            report.format,
            units::bytes(report.data_bytes),
            report.header_bytes,
        )
    }
}

/// Make an index of a file of vectors, so that knn reads a quarter as much
///
/// The index has one byte per number, and for each vector a bound on the error of these bytes. `knn
/// --index` reads it instead of BASE, leaves out the vectors that cannot be near, and reads the few
/// others from BASE. The result is the same. An index helps if you search the same base several
/// times. It is valid only for the current state of BASE: after a change, make it again. OUT
/// appears whole or not at all.
///
/// With --nlist the index has the vectors themselves, grouped by the nearest of N centroids (IVF),
/// and takes as much space as BASE. `knn --index --nprobe P` reads only the P nearest lists of each
/// query. The result is exact within these lists; neighbours in other lists may be missing, and
/// `knn` reports how many are.
#[derive(Debug, Args)]
#[command(
    after_long_help = INDEX_EXAMPLES,
    mut_arg("resume", |option| option.requires("nlist")),
)]
pub(crate) struct VectorIndexArgs {
    /// File of vectors: f32, f16 or f64; with --nlist also i8 or u8
    #[arg(value_name = "BASE", value_hint = ValueHint::FilePath)]
    base: PathBuf,
    /// The index
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Group the vectors into N lists by k-means; about the square root of their number, or a few
    /// times that
    #[arg(long, value_name = "N", value_parser = parse_count)]
    nlist: Option<u64>,
    /// Group by direction, for searches with --metric cos
    #[arg(long, requires = "nlist")]
    spherical: bool,
    /// Random seed of the first centroids
    #[arg(long, value_name = "N", default_value_t = 1, requires = "nlist")]
    seed: u64,
    #[command(flatten)]
    raw: RawArgs,
    #[command(flatten)]
    journal: PassResumeArgs,
    #[command(flatten)]
    drives: DriveArgs,
    #[command(flatten)]
    run: RunArgs,
}

impl VectorIndexArgs {
    /// Its options, if its state is kept.
    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(
            self: nlist, spherical, seed, raw as "type of raw numbers";
            without base, output, drives, run
        );
        self.journal.of(VectorIndex::NAME, options)
    }
}

report! {
    /// An index of vectors.
    pub(crate) struct VectorIndexSummary {
        [used: JobSummary],
        /// The index.
        output: Place,
        /// Kind of number and dimension of the vectors.
        r#type: String,
        /// Lists; none for an index without lists.
        nlist: Option<u64>,
        /// Bytes of the index.
        index_bytes: u64,
        /// Bytes of the vectors.
        data_bytes: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `vector index`.
pub(crate) struct VectorIndex;

impl Verb for VectorIndex {
    const NAME: &'static str = "vector index";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = VectorIndexArgs;
    type Report = VectorIndexSummary;
    const PHASES: &'static [Weight] = &[("write", 1.0)];

    fn run(host: &dyn Host, args: &VectorIndexArgs) -> Result<VectorIndexSummary> {
        check_is_own("an index of vectors", "base.vindex", &args.output)?;
        let files: Files<'_> = Files {
            is_resumed: args.journal.resume,
            ..Files::of([Some(args.base.as_path())], [Some(&*args.output)])
        };
        let mut run = Run::begin(host, &args.run, Some(&args.drives), &files)?;
        run.keep_passes(&args.output, &files.read, args.kept_options())?;
        let base = run.open(&args.base, args.raw.name())?;
        let path: &Path = run.place_of(&args.output);
        let built = run.watch(|job| match args.nlist {
            None => index::build(job, &base, path, run.force),
            Some(lists) => {
                let options = ListOptions {
                    lists: usize::try_from(lists).unwrap_or(usize::MAX),
                    is_spherical: args.spherical,
                    seed: args.seed,
                };
                index::build_lists(job, &base, path, run.force, &options)
            }
        })?;
        let done = &built.summary;
        let moved = Moved {
            records: base.rows,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: done.passes,
        };
        Ok(VectorIndexSummary {
            used: run.used(moved)?,
            output: Place(args.output.clone()),
            r#type: base.type_name(),
            nlist: args.nlist,
            index_bytes: built.index_bytes,
            data_bytes: base.data_bytes(),
            phases: Phase::of_engine(&done.phases),
        })
    }

    fn say(args: &VectorIndexArgs, report: &VectorIndexSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &VectorIndexSummary) -> String {
        format!(
            "indexed {} of {}{} in {} and {}: {}",
            units::counted(report.used.records, "vector"),
            report.r#type,
            report.nlist.map_or(String::new(), |lists| {
                format!(" by {}", units::counted(lists, "list"))
            }),
            units::bytes(report.index_bytes),
            units::seconds(report.used.seconds),
            rate_text(report.data_bytes, report.used.seconds),
        )
    }
}
