//! The flags of `outcore graph`.
//!
//! Contract: as in [`super`]: pure definitions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use outcore_front::inputs::is_stdout;
use outcore_graph::edges::Relabel;
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::format::weight::WeightType;

use super::{DriveArgs, PlanArgs, RecordingArgs, ResourceArgs, parse_count};

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

const CC_EXAMPLES: &str = "\
Examples:
  outcore graph cc g.graph -o components.npy
  outcore graph cc g.graph -o components.csv --names --memory 512MiB";

const BFS_EXAMPLES: &str = "\
Examples:
  outcore graph bfs g.graph --source 17 -o levels.npy
  outcore graph bfs g.graph --source 17 --parents -o parents.npy
  outcore graph bfs g.graph --source 17 --source 42 -o levels.npy";

const PAGERANK_EXAMPLES: &str = "\
Examples:
  outcore graph pagerank g.graph -o ranks.npy --top 20
  outcore graph pagerank g.graph -o ranks.csv --tolerance 1e-14 --iterations 200
  outcore graph pagerank g.graph --iterations 10 --tolerance 0 --top 10
  outcore graph pagerank g.graph --source 17 --source 42 --top 10
  outcore graph pagerank roads.graph --weighted -o ranks.npy";

const SCC_EXAMPLES: &str = "\
Examples:
  outcore graph scc g.graph -o strong.npy
  outcore graph scc g.graph -o strong.csv --memory 512MiB";

const SSSP_EXAMPLES: &str = "\
Examples:
  outcore graph sssp roads.graph --source 17 -o lengths.npy
  outcore graph sssp roads.graph --source 17 -o lengths.csv
  outcore graph sssp roads.graph --source 17 --source 42 -o lengths.npy";

const WALK_EXAMPLES: &str = "\
Examples:
  outcore graph walk g.graph -o walks.npy --length 40
  outcore graph walk g.graph -o walks.npy --length 10 --repeat 5 --seed 7
  outcore graph walk g.graph -o walks.npy --source 17 --source 42 --repeat 100";

const LP_EXAMPLES: &str = "\
Examples:
  outcore graph lp g.graph -o communities.npy
  outcore graph lp g.graph -o communities.csv --rounds 10";

const HITS_EXAMPLES: &str = "\
Examples:
  outcore graph hits g.graph -o hubs.npy --top 20
  outcore graph hits g.graph -o authorities.npy --authorities --top 20";

const CLOSENESS_EXAMPLES: &str = "\
Examples:
  outcore graph closeness g.graph -o closeness.npy --top 20
  outcore graph closeness g.graph -o closeness.csv --sources 1024 --seed 7";

const LOUVAIN_EXAMPLES: &str = "\
Examples:
  outcore graph louvain g.graph -o communities.npy
  outcore graph louvain g.graph -o communities.csv --resolution 0.5 --seed 7";

const SAMPLE_EXAMPLES: &str = "\
Examples:
  outcore graph sample g.graph train.npy --fanout 15,10 -o edges.npy
  outcore graph sample g.graph --source 17 --source 42 --fanout 10,10 -o edges.csv --in
  outcore graph sample g.graph seeds.txt --fanout all -o edges.npy --seed 7
  cut -f 1 labels.tsv | outcore graph sample g.graph - -o edges.npy";

const TRIANGLES_EXAMPLES: &str = "\
Examples:
  outcore graph triangles g.graph -o triangles.npy --top 20
  outcore graph triangles g.graph --json";

const KCORE_EXAMPLES: &str = "\
Examples:
  outcore graph kcore g.graph -o cores.npy --top 20
  outcore graph kcore g.graph -k 16 -o members.npy";

/// Convert edges to graphs larger than memory, and compute on them
///
/// A graph is a directory. Algorithms keep a few bytes for each vertex in memory and read the edges
/// from the drives.
#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    Convert(GraphConvertArgs),
    /// Describe a graph: vertices, edges, how it was converted
    #[command(
        after_long_help = "Examples:\n  outcore graph info g.graph\n  outcore graph info g.graph --json"
    )]
    Info {
        /// The graph's directory
        #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
        graph: PathBuf,
    },
    /// Write a graph as a sparse matrix of SciPy (.npz)
    ///
    /// `scipy.sparse.load_npz` reads it: a row for each vertex, an entry for each edge. Undirected
    /// edges are in both directions. Where ids that are numbers were relabelled, the array `ids` of
    /// the same file has the original id of each row. It is not compressed.
    #[command(
        after_long_help = "Examples:\n  outcore graph export g.graph -o g.npz\n  outcore graph export g.graph -o g.npz --force"
    )]
    Export(GraphExportArgs),
    /// Read all of a graph and check every checksum
    #[command(after_long_help = "Examples:\n  outcore graph verify g.graph")]
    Verify(GraphVerifyArgs),
    /// The number of edges of each vertex
    ///
    /// In a directed graph, outgoing edges are counted; --in counts incoming ones. An edge from a
    /// vertex to itself counts once in each direction.
    #[command(
        after_long_help = "Examples:\n  outcore graph degrees g.graph -o degrees.npy --top 20\n  outcore graph degrees g.graph --in -o in.npy"
    )]
    Degrees {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Count the edges that come to each vertex
        #[arg(long = "in")]
        is_in: bool,
    },
    /// Connected components: the smallest vertex of the component of each vertex
    ///
    /// The directions of edges do not matter.
    #[command(after_long_help = CC_EXAMPLES)]
    Cc {
        #[command(flatten)]
        kernel: KernelArgs,
    },
    /// Breadth-first search: the number of edges from the nearest source to each vertex
    ///
    /// -1 stands for vertices that are not reached.
    #[command(after_long_help = BFS_EXAMPLES)]
    Bfs {
        #[command(flatten)]
        kernel: KernelArgs,
        /// The vertex to start from; its original id if ids were relabelled. Repeat to start from
        /// several at once
        #[arg(long, value_name = "VERTEX", required = true)]
        source: Vec<String>,
        /// Write the vertex before each on a shortest path, the smallest of several, in place of
        /// the distance
        #[arg(long)]
        parents: bool,
    },
    /// PageRank: how often a random surfer is at each vertex
    ///
    /// As networkx computes it with `weight=None`: each edge that leaves a vertex is as likely as
    /// any other. With --weighted, edges are followed in proportion to their weights. The same
    /// bytes for any memory and number of threads.
    #[command(after_long_help = PAGERANK_EXAMPLES)]
    Pagerank {
        #[command(flatten)]
        kernel: KernelArgs,
        /// The probability that the surfer follows an edge
        #[arg(long, value_name = "P", default_value_t = 0.85)]
        alpha: f64,
        /// Stop when ranks change by less than T per vertex on average, as in networkx; 0 runs all
        /// iterations. Default: 1e-6 / the number of vertices, so that all changes sum to less than
        /// 1e-6
        #[arg(long, value_name = "T")]
        tolerance: Option<f64>,
        /// Iterations, at most
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        iterations: u32,
        /// Jump to this vertex only, or to these alike (personalized PageRank); repeat for several
        #[arg(long, value_name = "VERTEX")]
        source: Vec<String>,
        /// Follow edges in proportion to their weights, which must be 0 or more
        #[arg(long)]
        weighted: bool,
    },
    /// Strongly connected components: the smallest vertex of the component of each vertex
    ///
    /// Vertices are in one component if each reaches the other along the directions of edges.
    #[command(after_long_help = SCC_EXAMPLES)]
    Scc {
        #[command(flatten)]
        kernel: KernelArgs,
    },
    /// Shortest paths: the least sum of weights from the nearest source to each vertex
    ///
    /// Edges without weights count 1. Infinity stands for vertices that are not reached,
    /// which --top lists behind all others.
    #[command(after_long_help = SSSP_EXAMPLES)]
    Sssp {
        #[command(flatten)]
        kernel: KernelArgs,
        /// The vertex to start from; its original id if ids were relabelled. Repeat to start from
        /// several at once
        #[arg(long, value_name = "VERTEX", required = true)]
        source: Vec<String>,
    },
    /// Edges around some vertices, drawn hop by hop: a row of source and target for each
    ///
    /// Of each vertex, at most as many edges are drawn as the fanout of the hop says, each once.
    /// Samples depend on the graph, the vertices and the seed alone.
    #[command(after_long_help = SAMPLE_EXAMPLES)]
    Sample(GraphSampleArgs),
    /// Random walks: a row of vertices from each start
    ///
    /// Each edge that leaves a vertex is as likely as any other; after a dead end, rows are filled
    /// with -1. Walks depend on the graph and the seed alone.
    #[command(after_long_help = WALK_EXAMPLES)]
    Walk(GraphWalkArgs),
    /// Label propagation: the smallest vertex of the community of each vertex
    ///
    /// Each vertex takes the label that most of its neighbours have, in rounds, until none wants
    /// another. The directions of edges do not matter.
    #[command(after_long_help = LP_EXAMPLES)]
    Lp {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Rounds, at most; labels may still change after the last
        #[arg(long, value_name = "N", default_value_t = 100)]
        rounds: u32,
    },
    /// Louvain's method: the smallest vertex of the community of each vertex
    ///
    /// Communities have more weight inside of them than expected by chance: their modularity is
    /// printed. The graph must be undirected.
    #[command(after_long_help = LOUVAIN_EXAMPLES)]
    Louvain {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Above 1 for smaller communities, below 1 for larger ones
        #[arg(long, value_name = "R", default_value_t = 1.0)]
        resolution: f64,
        /// Stop when modularity grows by this or less
        #[arg(long, value_name = "T", default_value_t = 1e-7)]
        threshold: f64,
        /// Chooses the orders in which vertices move
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// HITS: how good each vertex is as a hub, or as an authority
    ///
    /// Hubs have edges to good authorities, authorities have edges from good hubs. Each sum to 1,
    /// as networkx has them; weights are not looked at.
    #[command(after_long_help = HITS_EXAMPLES)]
    Hits {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Write the authorities in place of the hubs
        #[arg(long)]
        authorities: bool,
        /// Stop when the changes of all hubs sum to less than this; 0 runs all iterations
        #[arg(long, value_name = "T", default_value_t = 1e-8)]
        tolerance: f64,
        /// Iterations, at most
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        iterations: u32,
    },
    /// Closeness: how near each vertex is to the vertices that reach it
    ///
    /// The share of the other vertices that reach it, divided by their mean distance in edges, as
    /// networkx has it. It is estimated from some sources, and exact if all vertices are sources.
    #[command(after_long_help = CLOSENESS_EXAMPLES)]
    Closeness {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Sources to search from, chosen at random: the work grows with them
        #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
        sources: u32,
        /// Chooses the sources
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Triangles: how many each vertex is in
    ///
    /// The graph must be undirected. Parallel edges count once, and edges from a vertex to itself
    /// not at all. The summary has the number of all triangles.
    #[command(after_long_help = TRIANGLES_EXAMPLES)]
    Triangles {
        #[command(flatten)]
        kernel: KernelArgs,
    },
    /// Core numbers: the largest k for which each vertex is in the k-core
    ///
    /// The k-core is the largest part of the graph in which each vertex has at least k neighbours.
    /// The directions of edges do not matter.
    #[command(after_long_help = KCORE_EXAMPLES)]
    Kcore {
        #[command(flatten)]
        kernel: KernelArgs,
        /// Write 1 for the vertices of the K-core and 0 for others, which is faster
        #[arg(short, value_name = "K")]
        k: Option<u32>,
    },
}

impl GraphCommand {
    /// Whether standard output takes the result.
    pub(crate) fn takes_stdout(&self) -> bool {
        match self {
            GraphCommand::Convert(_)
            | GraphCommand::Info { .. }
            | GraphCommand::Export(_)
            | GraphCommand::Verify(_) => false,
            GraphCommand::Sample(args) => is_stdout(&args.output),
            GraphCommand::Walk(args) => is_stdout(&args.output),
            GraphCommand::Degrees { kernel, .. }
            | GraphCommand::Cc { kernel }
            | GraphCommand::Bfs { kernel, .. }
            | GraphCommand::Pagerank { kernel, .. }
            | GraphCommand::Scc { kernel }
            | GraphCommand::Sssp { kernel, .. }
            | GraphCommand::Lp { kernel, .. }
            | GraphCommand::Louvain { kernel, .. }
            | GraphCommand::Hits { kernel, .. }
            | GraphCommand::Closeness { kernel, .. }
            | GraphCommand::Triangles { kernel }
            | GraphCommand::Kcore { kernel, .. } => kernel.output.as_deref().is_some_and(is_stdout),
        }
    }
}

/// Convert edges to a graph
///
/// Edges are sorted once, within the memory that is allowed, and the graph depends on them alone.
/// Names of files tell their formats: .txt, .tsv, .el, .wel and .edges have an edge a line, ids
/// apart by blanks or tabs; .csv has columns; .mtx is Matrix Market; .sg and .wsg are GAP's
/// serialized graphs; .npz is a sparse matrix of SciPy. Compressed text (.txt.gz, .csv.zst) is
/// unpacked to scratch, and `-` is standard input, whose format --from or --type names. Tables are
/// Parquet or Arrow files. Vertices are the numbers from 0 on, unless ids are relabelled: then they
/// are any numbers, or names.
#[derive(Debug, Args)]
#[command(after_long_help = CONVERT_EXAMPLES)]
pub(crate) struct GraphConvertArgs {
    /// Files of edges, all of one format
    #[arg(required = true, value_name = "EDGES", value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// The graph: a directory, which is made
    #[arg(short, long, value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) output: PathBuf,
    /// The files hold pairs of numbers of this type, u32 or u64, little endian
    #[arg(long = "type", value_name = "TYPE", value_parser = EdgeFormat::parse_numbers, help_heading = "Edges", conflicts_with = "format")]
    pub(crate) numbers: Option<EdgeFormat>,
    /// Format of the files, if their names do not tell: text, csv, mtx, sg, wsg, npz or graph500
    /// (packed edges of 12 bytes)
    #[arg(long = "from", value_name = "FORMAT", value_parser = EdgeFormat::parse, help_heading = "Edges")]
    pub(crate) format: Option<EdgeFormat>,
    /// Edges have no direction
    #[arg(long, help_heading = "Edges")]
    pub(crate) undirected: bool,
    /// Columns of CSV and tables (Parquet, Arrow) that have source and target: whole numbers, or
    /// strings with --relabel. Default: the first two. A name in backquotes may hold commas, or be
    /// empty
    #[arg(long, value_name = "SOURCE,TARGET", help_heading = "Edges")]
    pub(crate) columns: Vec<String>,
    /// Edges have weights: after the two ids (after pairs of u32 as a float of 4 bytes, after pairs
    /// of u64 as one of 8), or in the column COLUMN of CSV or tables
    #[arg(long, value_name = "COLUMN", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Edges")]
    pub(crate) weights: Option<String>,
    /// How weights are stored: f32, f64 or i64. Default: as the files have them, text as f64. A
    /// weight that does not fit is an error, but f32 rounds
    #[arg(long, value_name = "TYPE", value_parser = WeightType::parse, requires = "weights", help_heading = "Edges")]
    pub(crate) weight_type: Option<WeightType>,
    /// Rows and columns of a matrix (.mtx, .npz) are different vertices, rows first. Without it,
    /// a matrix must be square
    #[arg(long, help_heading = "Edges")]
    pub(crate) bipartite: bool,
    /// Ids are not 0, 1, 2, ...: number the vertices in their order, and keep the ids. They are
    /// `numbers` below 2^64 or, in text and CSV, `text` of up to 4 KiB; `auto` looks at the first
    /// lines
    #[arg(long, value_name = "auto|numbers|text", num_args = 0..=1, require_equals = true, default_missing_value = "auto", value_parser = Relabel::parse, help_heading = "Edges")]
    pub(crate) relabel: Option<Relabel>,
    /// The first line of CSV is an edge, not the names of columns; for CSV only
    #[arg(long, help_heading = "Edges")]
    pub(crate) no_header: bool,
    /// Merge parallel edges; of several weights the least is kept
    #[arg(long, help_heading = "Edges")]
    pub(crate) dedup: bool,
    /// Leave out edges from a vertex to itself
    #[arg(long, help_heading = "Edges")]
    pub(crate) drop_loops: bool,
    /// Number of vertices. Default: one more than the largest id
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Edges", conflicts_with = "relabel")]
    pub(crate) vertices: Option<u64>,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    #[command(flatten)]
    pub(crate) drives: DriveArgs,
    /// Replace an existing graph; a directory with other files is never replaced
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

impl GraphConvertArgs {
    /// The format of the files, if it is given.
    pub(crate) fn format(&self) -> Option<EdgeFormat> {
        self.format.or(self.numbers)
    }
}

/// What is verified, with what.
#[derive(Debug, Args)]
pub(crate) struct GraphVerifyArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) graph: PathBuf,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
}

/// What is exported, to where.
#[derive(Debug, Args)]
pub(crate) struct GraphExportArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) graph: PathBuf,
    /// The matrix, a file that is made
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
}

/// What every algorithm reads and writes.
#[derive(Debug, Args)]
pub(crate) struct KernelArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) graph: PathBuf,
    /// Output, a value for each vertex in order: an array (.npy), a table (.parquet, .arrow) with
    /// the columns vertex, name (the original ids, if they were relabelled) and value, lines
    /// `vertex,value` with a header (.csv, by the original ids), or raw numbers; `-` for standard
    /// output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write lines `name,value` whatever the output is called, with the original ids of vertices
    #[arg(long, requires = "output")]
    pub(crate) names: bool,
    /// Print the N vertices with the largest values, by their original ids
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) top: Option<u64>,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) record_io: RecordingArgs,
}

/// Where walks begin and end.
#[derive(Debug, Args)]
pub(crate) struct GraphWalkArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) graph: PathBuf,
    /// Output, a row of vertices for each walk: an array (.npy), lines (.csv), or raw
    /// numbers; `-` for standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Steps of a walk
    #[arg(long = "length", value_name = "N", default_value_t = 10)]
    pub(crate) steps_count: u32,
    /// Start from this vertex; repeat for several. Default: from every vertex
    #[arg(long, value_name = "VERTEX")]
    pub(crate) source: Vec<String>,
    /// Walks from each start
    #[arg(long = "repeat", value_name = "N", default_value_t = 1)]
    pub(crate) repeats_count: u32,
    /// Follow edges against their direction
    #[arg(long = "in")]
    pub(crate) is_in: bool,
    /// Chooses the walks
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}

/// Neighbours of a vertex to draw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fanout(pub(crate) Option<u32>);

fn parse_fanout(text: &str) -> Result<Fanout, String> {
    match text {
        "all" | "-1" => Ok(Fanout(None)),
        _ => match text.parse() {
            Ok(count) => Ok(Fanout(Some(count))),
            Err(_) => Err("a fanout is a whole number, or `all`".to_owned()),
        },
    }
}

/// What is sampled.
#[derive(Debug, Args)]
pub(crate) struct GraphSampleArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    pub(crate) graph: PathBuf,
    /// The vertices to draw around: a file with an id a line, or an array (.npy); `-` for standard
    /// input
    #[arg(value_name = "SEEDS", value_hint = ValueHint::FilePath, required_unless_present = "source")]
    pub(crate) seeds: Option<PathBuf>,
    /// Draw around this vertex, too; repeat for several
    #[arg(long, value_name = "VERTEX")]
    pub(crate) source: Vec<String>,
    /// Edges to draw of each vertex, a number a hop; `all` for all of them
    #[arg(long = "fanout", value_name = "N,...", value_parser = parse_fanout, value_delimiter = ',', default_value = "10,10", allow_hyphen_values = true)]
    pub(crate) fanouts: Vec<Fanout>,
    /// Output, a row of source and target for each edge: an array (.npy), lines (.csv), or raw
    /// numbers; `-` for standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Draw incoming edges instead of outgoing ones
    #[arg(long = "in")]
    pub(crate) is_in: bool,
    /// Chooses the edges
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) resources: ResourceArgs,
    /// Replace an existing output
    #[arg(long, help_heading = "Files")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
}
