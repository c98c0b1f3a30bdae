//! `graph info`, `graph verify` and `graph export`: describe a graph, check it, and export it as a
//! matrix.
//!
//! Contract: thin over [`outcore_graph`].

use std::iter;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use outcore::{Error, Result};
use outcore_graph::export;
use outcore_io::units;

use super::files::{check_new, files_of, load, open, refuse_inside};
use crate::host::{Host, begin, refuse_stdout, watch};
use crate::option::ResourceArgs;
use crate::report::{JobSummary, Moved, Place, Stopwatch, report};
use crate::verb::{Inputs, Verb, Words};

/// Describe a graph: vertices, edges, how it was converted
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  outcore graph info g.graph\n  outcore graph info g.graph --json"
)]
pub(crate) struct GraphInfoArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    #[command(flatten)]
    resources: ResourceArgs,
}

report! {
    /// A graph: `records` counts its edges.
    pub(crate) struct GraphInfoReport {
        [used: JobSummary],
        /// Vertices.
        vertices: u64,
        /// Edges from a vertex to itself.
        loops: u64,
        /// Whether edges have a direction.
        directed: bool,
        /// Whether edges have weights.
        weighted: bool,
        /// Type of stored weights: `f32`, `f64` or `i64`; none without weights.
        weight_type: Option<String>,
        /// Whether parallel edges were merged.
        dedup: bool,
        /// Whether ids were relabelled.
        relabelled: bool,
        /// Whether vertices have names.
        named: bool,
        /// Bytes of the edges as tiles.
        tile_bytes: u64,
        /// Bytes of the edges as lists.
        list_bytes: u64,
        /// The largest number of edges that leave a vertex.
        degree_max: u32,
    }
}

/// `graph info`.
pub(crate) struct GraphInfo;

impl Verb for GraphInfo {
    const NAME: &'static str = "graph info";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphInfoArgs;
    type Report = GraphInfoReport;

    fn run(host: &dyn Host, args: &GraphInfoArgs) -> Result<GraphInfoReport> {
        let stopwatch = Stopwatch::start();
        let files = files_of(host, &args.graph)?;
        let resources = host.names().add_to(load(host, &args.resources)?)?;
        let (_, graph) = open(host, &resources, files)?;
        let manifest = graph.manifest();
        let lists = iter::once(&manifest.out).chain(&manifest.sources);
        let moved = Moved {
            records: manifest.edges,
            ..Moved::default()
        };
        Ok(GraphInfoReport {
            used: stopwatch.stop(moved, &[], &resources, None),
            vertices: manifest.vertices,
            loops: manifest.loops,
            directed: manifest.directed,
            weighted: manifest.weighted,
            weight_type: manifest.weights().map(|of| of.name().to_owned()),
            dedup: manifest.dedup,
            relabelled: manifest.relabelled,
            named: manifest.text_names.is_some(),
            tile_bytes: graph.tile_bytes(),
            list_bytes: lists.map(|lists| lists.blocks * 4096).sum(),
            degree_max: manifest.out.degree_max,
        })
    }

    fn say(_args: &GraphInfoArgs, report: &GraphInfoReport, words: &mut Words) {
        words.data = format!(
            "{}\n  tiles {}, lists {}, largest degree {}\n",
            Self::headline(report),
            units::bytes(report.tile_bytes),
            units::bytes(report.list_bytes),
            units::count(report.degree_max.into()),
        );
    }

    fn headline(report: &GraphInfoReport) -> String {
        format!(
            "{}, {} ({}), {}{}{}{}",
            units::counted(report.vertices, "vertex"),
            units::counted(report.used.records, "edge"),
            units::counted(report.loops, "loop"),
            if report.directed {
                "directed"
            } else {
                "undirected"
            },
            match &report.weight_type {
                None => String::new(),
                Some(of) => format!(", with weights ({of})"),
            },
            if report.dedup {
                ", without parallel edges"
            } else {
                ""
            },
            match (report.relabelled, report.named) {
                (_, true) => ", ids are names",
                (true, false) => ", ids relabelled",
                (false, false) => "",
            },
        )
    }
}

/// Read all of a graph and check every checksum
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:\n  outcore graph verify g.graph")]
pub(crate) struct GraphVerifyArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    #[command(flatten)]
    resources: ResourceArgs,
}

report! {
    /// An undamaged graph: `records` counts its edges.
    pub(crate) struct GraphVerifyReport {
        [used: JobSummary],
    }
}

/// `graph verify`.
pub(crate) struct GraphVerify;

impl Verb for GraphVerify {
    const NAME: &'static str = "graph verify";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphVerifyArgs;
    type Report = GraphVerifyReport;

    fn run(host: &dyn Host, args: &GraphVerifyArgs) -> Result<GraphVerifyReport> {
        let stopwatch = Stopwatch::start();
        let files = files_of(host, &args.graph)?;
        let resources = host.names().add_to(load(host, &args.resources)?)?;
        let (job, graph) = open(host, &resources, files)?;
        watch(host, &job.control, &[], || graph.verify(&job))?;
        let moved = Moved {
            records: graph.manifest().edges,
            ..Moved::default()
        };
        Ok(GraphVerifyReport {
            used: stopwatch.stop(moved, &[], &resources, None),
        })
    }

    fn say(_args: &GraphVerifyArgs, report: &GraphVerifyReport, words: &mut Words) {
        words.data = format!("{}\n", Self::headline(report));
    }

    fn headline(report: &GraphVerifyReport) -> String {
        format!(
            "the graph is whole: {} in {}",
            units::counted(report.used.records, "edge"),
            units::seconds(report.used.seconds)
        )
    }
}

/// Write a graph as a sparse matrix of SciPy (.npz)
///
/// `scipy.sparse.load_npz` reads it: a row for each vertex, an entry for each edge. Undirected
/// edges are in both directions. If numeric ids were relabelled, the array `ids` in the same file
/// has the original id of each row. The file is not compressed.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  outcore graph export g.graph -o g.npz\n  outcore graph export g.graph -o g.npz --force"
)]
pub(crate) struct GraphExportArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    /// The matrix file to write
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    #[command(flatten)]
    resources: ResourceArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    force: bool,
}

report! {
    /// The matrix of a graph: `records` counts its entries.
    pub(crate) struct GraphExportSummary {
        [used: JobSummary],
        /// The matrix.
        output: Place,
    }
}

/// `graph export`.
pub(crate) struct GraphExport;

impl Verb for GraphExport {
    const NAME: &'static str = "graph export";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphExportArgs;
    type Report = GraphExportSummary;

    fn run(host: &dyn Host, args: &GraphExportArgs) -> Result<GraphExportSummary> {
        let stopwatch = Stopwatch::start();
        refuse_stdout(
            &args.output,
            "an archive (.npz) cannot be written to a stream",
        )?;
        if args.output.extension().is_some_and(|end| end != "npz") {
            let cause = "a matrix is written as an archive of arrays (.npz), but the name has \
                         another ending";
            return Err(Error::usage("create output", cause)
                .path(&args.output)
                .hint("let the name end in .npz"));
        }
        let resources = load(host, &args.resources)?;
        let output = host.names().output(&args.output, args.force)?;
        refuse_inside(&output, &args.graph)?;
        check_new(&output, args.force)?;
        let files = files_of(host, &args.graph)?;
        let resources = host.names().add_to(resources)?;
        begin(
            host,
            &resources,
            "graph",
            &[&args.graph],
            Some(&args.output),
        );
        let (job, graph) = open(host, &resources, files)?;
        let (records, written_bytes) = watch(host, &job.control, &[], || {
            export::export_npz(&job, &graph, &output, args.force)
        })?;
        let moved = Moved {
            records,
            written_bytes,
            ..Moved::default()
        };
        Ok(GraphExportSummary {
            used: stopwatch.stop(moved, &[], &resources, None),
            output: Place(args.output.clone()),
        })
    }

    fn say(_args: &GraphExportArgs, report: &GraphExportSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
    }

    fn headline(report: &GraphExportSummary) -> String {
        format!(
            "{} of a matrix, {}, in {}",
            units::counted(report.used.records, "entry"),
            units::bytes(report.used.written_bytes),
            units::seconds(report.used.seconds),
        )
    }
}
