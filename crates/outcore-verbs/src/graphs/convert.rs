//! `graph convert`: converts edges to a graph.
//!
//! Contract: thin over [`outcore_graph::convert`]. Streams are copied and compressed files unpacked
//! to scratch first.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::job::OutputPlaces;
use outcore::key::column::{column_name, column_names};
use outcore::{Result, ScratchDrive};
use outcore_front::inputs::{self, Streams, is_stdout};
use outcore_front::output::check_is_own;
use outcore_front::resources::{Resources, default_scratch_dir};
use outcore_front::spool;
use outcore_front::what::{Asked, What};
use outcore_graph::convert::{ConvertOptions, check_memory, convert};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::format::weight::WeightType;
use outcore_io::output::parent_of;
use outcore_io::units;

use super::files::refuse_inside;
use crate::columns;
use crate::datasets::refuse_object;
use crate::host::{Host, Kept, Weight, begin, refuse_stdout, watch};
use crate::option::{
    DriveArgs, PlanArgs, RecordingArgs, ResourceArgs, SEED, parse_count, resources_request,
};
use crate::report::{JobSummary, Moved, Phase, Place, Stopwatch, report};
use crate::verb::{Inputs, Verb, Words};

const CONVERT_EXAMPLES: &str = "\
Examples:
  outcore graph convert soc-LiveJournal1.txt -o lj.graph --dedup
  outcore graph convert edges.bin -o g.graph --type u32 --undirected --memory 2GiB
  outcore graph convert links.csv -o links.graph --relabel --weights=bytes
  outcore graph convert friends.txt -o friends.graph --relabel --undirected
  outcore graph convert edges.parquet -o e.graph --columns src,dst --weights=km
  outcore graph convert links.csv -o links.graph --columns from,to --weights=bytes --weight-type i64
  outcore graph convert road.mtx -o road.graph --drop-loops
  outcore graph convert ratings.mtx -o ratings.graph --bipartite
  outcore graph convert kron.sg -o kron.graph";

/// Convert edges to a graph
///
/// Edges are sorted once, within the allowed memory, and the graph depends only on them. File names
/// determine the formats: .txt, .tsv, .el, .wel and .edges have one edge per line, with ids
/// separated by spaces or tabs; .csv has columns; .mtx is Matrix Market; .sg and .wsg are GAP's
/// serialized graphs; .npz is a sparse matrix of SciPy; .npy has a row of two whole numbers per
/// edge. Compressed text (.txt.gz, .csv.zst) is decompressed to scratch. `-` is standard input;
/// pass its format with --from or --type. Tables are Parquet or Arrow files. Vertices are numbers,
/// counted from 0. With --relabel, ids may be any numbers, or names.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct GraphConvertArgs {
    /// Files of edges, all in the same format
    #[arg(required = true, value_name = "EDGES", value_hint = ValueHint::FilePath)]
    inputs: Vec<PathBuf>,
    /// The graph: a new directory
    #[arg(short, long, value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    output: PathBuf,
    /// The files hold pairs of numbers of this type, u32 or u64, little endian
    #[arg(long = "type", value_name = "TYPE", value_parser = EdgeFormat::parse_numbers, help_heading = "Edges", conflicts_with = "edge_format")]
    numbers: Option<EdgeFormat>,
    /// Format of the files, if their names do not identify it: text, csv, mtx, sg, wsg, npz or
    /// graph500 (packed edges of 12 bytes)
    #[arg(long = "from", value_name = "FORMAT", value_parser = EdgeFormat::parse, help_heading = "Edges")]
    edge_format: Option<EdgeFormat>,
    /// Edges have no direction
    #[arg(long, help_heading = "Edges")]
    undirected: bool,
    /// Columns of source and target in CSV and tables (Parquet, Arrow): whole numbers, or strings
    /// with --relabel. Default: the first two. A name in backquotes may contain commas, or be empty
    #[arg(long, value_name = "SOURCE,TARGET", help_heading = "Edges")]
    columns: Vec<String>,
    /// Edges have weights: after the two ids (a 4-byte float after ids of type u32, an 8-byte float
    /// after u64), or in the column COLUMN of CSV or tables
    #[arg(long, value_name = "COLUMN", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Edges")]
    weights: Option<String>,
    /// Type of stored weights: f32, f64 or i64. Default: the type in the files, and f64 for text. A
    /// weight that does not fit is an error, except that f32 rounds
    #[arg(long, value_name = "TYPE", value_parser = WeightType::parse, requires = "weights", help_heading = "Edges")]
    weight_type: Option<WeightType>,
    /// Rows and columns of a matrix (.mtx, .npz) are different vertices; rows get the first
    /// numbers. Without it, a matrix must be square
    #[arg(long, help_heading = "Edges")]
    bipartite: bool,
    /// Ids are not 0, 1, 2, ...: number the vertices in the order of the ids, and keep the ids. Ids
    /// are `numbers` below 2^64 or, in text and CSV, `text` of up to 4 KiB; `auto` looks at the
    /// first lines
    #[arg(long, value_name = "auto|numbers|text", num_args = 0..=1, require_equals = true, default_missing_value = "auto", value_parser = Relabel::parse, help_heading = "Edges")]
    relabel: Option<Relabel>,
    /// The first line of CSV is an edge, not the names of columns; for CSV only
    #[arg(long, help_heading = "Edges")]
    no_header: bool,
    /// Merge parallel edges, and keep the smallest of their weights
    #[arg(long, help_heading = "Edges")]
    dedup: bool,
    /// Leave out edges from a vertex to itself
    #[arg(long, help_heading = "Edges")]
    drop_loops: bool,
    /// Number of vertices. Default: one more than the largest id
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Edges", conflicts_with = "relabel")]
    vertices: Option<u64>,
    #[command(flatten)]
    resources: ResourceArgs,
    #[command(flatten)]
    drives: DriveArgs,
    /// Replace an existing graph; a directory with other files is never replaced
    #[arg(long, help_heading = "Files")]
    force: bool,
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    record_io: RecordingArgs,
}

impl GraphConvertArgs {
    /// The format of the files, if it is given.
    fn format(&self) -> Option<EdgeFormat> {
        self.edge_format.or(self.numbers)
    }

    /// The options of the conversion.
    fn options(&self) -> ConvertOptions {
        let weight_column = self.weights.as_ref().filter(|column| !column.is_empty());
        ConvertOptions {
            read: ReadOptions {
                called: Vec::new(),
                format: self.format(),
                is_weighted: self.weights.is_some(),
                weight_type: self.weight_type,
                weight_column: weight_column.map(|column| column_name(column)),
                columns: column_names(&self.columns),
                has_no_header: self.no_header,
                is_bipartite: self.bipartite,
            },
            is_undirected: self.undirected,
            relabel: self.relabel.unwrap_or_default(),
            dedup: self.dedup,
            drop_loops: self.drop_loops,
            vertices: self.vertices,
            replace: self.force,
        }
    }
}

report! {
    /// The converted graph.
    pub(crate) struct GraphConvertSummary {
        [used: JobSummary],
        /// The graph.
        output: Place,
        /// Edges that were read.
        edges_in: u64,
        /// Lines that were skipped as comments.
        comments: u64,
        /// Vertices of the graph.
        vertices: u64,
        /// Edges from a vertex to itself.
        loops: u64,
        /// Whether edges have a direction.
        directed: bool,
        /// Whether edges have weights.
        weighted: bool,
        /// Type of stored weights: `f32`, `f64` or `i64`; none without weights.
        weight_type: Option<String>,
        /// Whether vertices have names.
        named: bool,
        /// Bytes of the graph.
        graph_bytes: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// The verb.
pub(crate) struct GraphConvert;

impl Verb for GraphConvert {
    const NAME: &'static str = "graph convert";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphConvertArgs;
    type Report = GraphConvertSummary;
    const PHASES: &'static [Weight] = &[("distribute", 1.0), ("sort", 1.0)];

    fn run(host: &dyn Host, args: &GraphConvertArgs) -> Result<GraphConvertSummary> {
        let stopwatch = Stopwatch::start();
        let resources = host.load(&resources_request(
            &args.resources,
            &args.drives,
            None,
            SEED,
        )?)?;
        refuse_object(&args.output)?;
        let is_table = is_table(host, args)?;
        // Directories of tables have no blocks of their own.
        let sources = match is_table {
            true => Vec::new(),
            false => inputs::find(&args.inputs, Streams::Taken, host.names())?,
        };
        refuse_stdout(&args.output, "a graph is a directory")?;
        check_is_own("a graph", "e.graph", &args.output)?;
        let output = host.names().output(&args.output, args.force)?;
        let dir = std::path::absolute(&output).unwrap_or_else(|_| output.to_path_buf());
        for input in &args.inputs {
            refuse_inside(input, &dir).map_err(|error| {
                error.hint("name another output: the files of a graph are replaced as a whole")
            })?;
        }
        let inputs: Vec<&Path> = args.inputs.iter().map(PathBuf::as_path).collect();
        columns::check_not_read_again(&inputs, &[&dir])?;
        let kept = Kept {
            sources: &sources,
            force: args.force,
            ..Kept::default()
        };
        let resources = resources.measuring(args.plan.explain);
        let resources = host.start(resources, args.record_io.path(), kept)?;
        let job = resources.planned_job(drives_of(&resources, &dir)?);
        let mut job = host.adopt(job);
        job.options.outputs = OutputPlaces::Files(vec![dir.clone()]);
        check_memory(&job)?;
        if args.plan.explain {
            host.show_plans(&job.control);
        }
        let mut options = args.options();
        begin(host, &resources, "graph", &inputs, Some(&args.output));
        let done = watch(host, &job.control, &[], || {
            if is_table {
                return columns::convert_edges(&job, &args.inputs, &dir, &options);
            }
            let are_records = args.format().is_some_and(EdgeFormat::is_binary);
            // Copies live until the end.
            let (copies, called, _spool) =
                spool::edge_files(&job, &resources, parent_of(&dir), &sources, are_records)?;
            let files: Vec<PathBuf> = copies.iter().map(|copy| copy.path.clone()).collect();
            options.read.called = called;
            convert(&job, &files, &dir, &options).map_err(|error| inputs::explain(&copies, error))
        })?;
        let manifest = &done.manifest;
        let moved = Moved {
            records: manifest.edges,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            passes: 0,
        };
        Ok(GraphConvertSummary {
            used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
            output: Place(args.output.clone()),
            edges_in: done.edges_in,
            comments: done.comments,
            vertices: manifest.vertices,
            loops: manifest.loops,
            directed: manifest.directed,
            weighted: manifest.weighted,
            weight_type: manifest.weights().map(|of| of.name().to_owned()),
            named: manifest.text_names.is_some(),
            graph_bytes: done.graph_bytes,
            phases: Phase::of_engine(&done.phases),
        })
    }

    fn say(args: &GraphConvertArgs, report: &GraphConvertSummary, words: &mut Words) {
        if report.comments > 0 {
            let comments = units::counted(report.comments, "comment");
            words.lines(&format!(
                "skipped {comments}: lines that begin with #, % or //"
            ));
        }
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.plan.explain);
    }

    fn headline(report: &GraphConvertSummary) -> String {
        let (read_bytes, seconds) = (report.used.read_bytes, report.used.seconds);
        format!(
            "converted {} to a graph of {}{} and {}, {}, in {}: {}",
            units::counted(report.edges_in, "edge"),
            units::counted(report.vertices, "vertex"),
            if report.named { " with names" } else { "" },
            units::counted(report.used.records, "edge"),
            units::bytes(report.graph_bytes),
            units::seconds(seconds),
            units::rate_decimal(read_bytes as f64 / seconds.max(1e-9)),
        )
    }
}

/// Whether the edges are columns of tables.
fn is_table(host: &dyn Host, args: &GraphConvertArgs) -> Result<bool> {
    if args.format().is_some() || args.inputs.iter().any(|input| is_stdout(input)) {
        return Ok(false);
    }
    let asked = Asked {
        inputs: &args.inputs,
        ..Asked::default()
    };
    Ok(host.what(asked)? == What::Table)
}

/// Drives for scratch: the given ones, or one that is not in memory.
fn drives_of(resources: &Resources, dir: &Path) -> Result<Vec<ScratchDrive>> {
    let named = resources.named_drives(0)?;
    match named.is_empty() {
        false => Ok(named),
        true => Ok(vec![ScratchDrive::new(default_scratch_dir(parent_of(
            dir,
        ))?)]),
    }
}
