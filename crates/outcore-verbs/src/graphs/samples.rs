//! `graph sample` and `graph walk`: edges and walks that are drawn at random.
//!
//! Contract: the results depend only on the graph, the vertices and the seed. If ids were
//! relabelled, rows have the original ids; arrays have the numbers of vertices.

use std::iter;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use outcore::{Kind, Result};
use outcore_front::inputs::{self, is_stdout};
use outcore_front::spool::Spool;
use outcore_graph::graph::names::Names;
use outcore_graph::{ids, kernels, results};
use outcore_io::output::parent_of;
use outcore_io::units;

use super::files::{Naming, Opened, direction_of, vertex_of, vertices_given, vertices_of};
use crate::columns::{self, TablePlace};
use crate::host::{Array, Host, watch};
use crate::option::RunArgs;
use crate::report::{JobSummary, Phase, Place, report};
use crate::verb::{Inputs, Verb, Words};

const SAMPLE_EXAMPLES: &str = "\
Examples:
  outcore graph sample g.graph train.npy --fanout 15,10 -o edges.npy
  outcore graph sample g.graph --source 17 --source 42 --fanout 10,10 -o edges.csv --in
  outcore graph sample g.graph seeds.txt --fanout all -o edges.npy --seed 7
  cut -f 1 labels.tsv | outcore graph sample g.graph - -o edges.npy";

const WALK_EXAMPLES: &str = "\
Examples:
  outcore graph walk g.graph -o walks.npy --length 40
  outcore graph walk g.graph -o walks.npy --length 10 --repeat 5 --seed 7
  outcore graph walk g.graph -o walks.npy --source 17 --source 42 --repeat 100";

/// Neighbours of a vertex to draw.
#[derive(Debug, Clone, Copy)]
struct Fanout(Option<u32>);

fn parse_fanout(text: &str) -> std::result::Result<Fanout, String> {
    match text {
        "all" | "-1" => Ok(Fanout(None)),
        _ => match text.parse() {
            Ok(count) => Ok(Fanout(Some(count))),
            Err(_) => Err("a fanout is a whole number, or `all`".to_owned()),
        },
    }
}

/// Draw edges around some vertices, hop by hop: one row of source and target per edge
///
/// A hop draws no more edges per vertex than its --fanout, and no edge twice. Samples depend only
/// on the graph, the vertices and the seed.
#[derive(Debug, Args)]
#[command(after_long_help = SAMPLE_EXAMPLES)]
pub(crate) struct GraphSampleArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    /// The vertices to draw around: a file with one id per line, or an array (.npy); `-` for
    /// standard input
    #[arg(value_name = "SEEDS", value_hint = ValueHint::FilePath, required_unless_present = "source")]
    seeds: Option<PathBuf>,
    /// Also draw around this vertex; repeat for several
    #[arg(long, value_name = "VERTEX")]
    source: Vec<String>,
    /// Maximum number of edges to draw per vertex, one number per hop; `all` for all edges
    #[arg(long = "fanout", value_name = "N,...", value_parser = parse_fanout, value_delimiter = ',', default_value = "10,10", allow_hyphen_values = true)]
    fanouts: Vec<Fanout>,
    /// Output, one row of source and target per edge: an array (.npy), lines (.csv), or raw
    /// numbers; `-` for standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Draw incoming edges instead of outgoing ones
    #[arg(long = "in")]
    incoming: bool,
    /// Random seed of the edges
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    run: RunArgs,
}

report! {
    /// Edges that were drawn.
    pub(crate) struct GraphSampleSummary {
        [used: JobSummary],
        /// The file with the edges.
        output: Place,
        /// Vertices at the ends of these edges.
        vertices: u64,
        /// Edges of each hop.
        hop_edges: Vec<u64>,
        /// The seed of the draws.
        seed: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `graph sample`.
pub(crate) struct GraphSample;

impl Verb for GraphSample {
    const NAME: &'static str = "graph sample";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphSampleArgs;
    type Report = GraphSampleSummary;

    fn run(host: &dyn Host, args: &GraphSampleArgs) -> Result<GraphSampleSummary> {
        let inputs = [Some(args.graph.as_path()), args.seeds.as_deref()];
        let inputs: Vec<&Path> = inputs.into_iter().flatten().collect();
        let rows = Rows::begin(host, &inputs, Some(&args.output), &args.run)?;
        let (job, graph) = (&rows.opened.job, &rows.opened.graph);
        let degrees_bytes = 4 * graph.vertices() as u64;
        let _held = job.budget.reserve("degrees", degrees_bytes)?;
        let mut seeds = match &args.seeds {
            Some(name) => rows.seeds(name, &args.output)?,
            None => Vec::new(),
        };
        let names = rows.names.as_ref();
        seeds.extend(vertices_of(job, graph, names, &args.source)?);
        let direction = direction_of(args.incoming);
        let degrees = graph.degrees(job, direction)?;
        let fanouts: Vec<Option<u32>> = args.fanouts.iter().map(|fanout| fanout.0).collect();
        let sample = watch(host, &job.control, &[], || {
            let mut sampler = kernels::Sampler::new(job, graph, &degrees, direction)?;
            let sample = sampler.neighbours(&seeds, &fanouts, args.seed)?;
            drop(sampler);
            let rows_bytes = 8 * sample.sources.len() as u64;
            let _rows = job.budget.reserve("sampled edges", rows_bytes)?;
            let ends = sample.sources.iter().zip(&sample.targets);
            let drawn = ends.flat_map(|(neighbour, vertex)| {
                let [neighbour, vertex] =
                    [neighbour, vertex].map(|place| sample.vertices[*place as usize]);
                match args.incoming {
                    true => [neighbour, vertex],
                    false => [vertex, neighbour],
                }
            });
            let columns = ["source", "target"].map(str::to_owned);
            rows.write(drawn.collect(), &columns)?;
            Ok(sample)
        })?;
        Ok(GraphSampleSummary {
            used: rows.opened.used(sample.sources.len() as u64)?,
            output: Place(args.output.clone()),
            vertices: sample.vertices.len() as u64,
            hop_edges: sample.hop_edges,
            seed: args.seed,
            phases: rows.opened.phases(),
        })
    }

    fn say(args: &GraphSampleArgs, report: &GraphSampleSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &GraphSampleSummary) -> String {
        format!(
            "{} between {} in {}",
            units::counted(report.used.records, "edge"),
            units::counted(report.vertices, "vertex"),
            units::seconds(report.used.seconds),
        )
    }

    fn takes_stdout(args: &GraphSampleArgs) -> bool {
        is_stdout(&args.output)
    }
}

/// Random walks: a row of vertices from each start
///
/// Each outgoing edge of a vertex is equally likely. After a dead end, rows are filled with -1.
/// Walks depend only on the graph and the seed.
#[derive(Debug, Args)]
#[command(after_long_help = WALK_EXAMPLES)]
pub(crate) struct GraphWalkArgs {
    /// The graph's directory
    #[arg(value_name = "GRAPH", value_hint = ValueHint::DirPath)]
    graph: PathBuf,
    /// Output, one row of vertices per walk: an array (.npy), lines (.csv), or raw numbers; `-` for
    /// standard output
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath, required = true)]
    output: Option<PathBuf>,
    /// Number of steps in a walk
    #[arg(long = "length", value_name = "N", default_value_t = 10)]
    steps_count: u32,
    /// Start from this vertex; repeat for several. Default: from every vertex
    #[arg(long, value_name = "VERTEX")]
    source: Vec<String>,
    /// Number of walks from each start
    #[arg(long = "repeat", value_name = "N", default_value_t = 1)]
    repeats_count: u32,
    /// Follow edges against their direction
    #[arg(long = "in")]
    incoming: bool,
    /// Random seed of the walks
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    run: RunArgs,
}

report! {
    /// Walks that were drawn.
    pub(crate) struct GraphWalkSummary {
        [used: JobSummary],
        /// The file with the walks; none if no file was named.
        output: Option<Place>,
        /// Number of steps in a walk.
        length: u32,
        /// The seed of the draws.
        seed: u64,
        /// The parts of the job, in order.
        phases: Vec<Phase>,
    }
}

/// `graph walk`.
pub(crate) struct GraphWalk;

impl Verb for GraphWalk {
    const NAME: &'static str = "graph walk";
    const INPUTS: Inputs = Inputs::Arrays;
    type Args = GraphWalkArgs;
    type Report = GraphWalkSummary;

    fn run(host: &dyn Host, args: &GraphWalkArgs) -> Result<GraphWalkSummary> {
        let rows = Rows::begin(host, &[&args.graph], args.output.as_deref(), &args.run)?;
        let (job, graph) = (&rows.opened.job, &rows.opened.graph);
        let starts = match (vertices_given(host, graph)?, args.source.is_empty()) {
            (Some(given), _) => given,
            (None, true) => (0..graph.vertices() as u32).collect(),
            (None, false) => vertices_of(job, graph, rows.names.as_ref(), &args.source)?,
        };
        let starts: Vec<u32> = starts
            .iter()
            .flat_map(|start| iter::repeat_n(*start, args.repeats_count as usize))
            .collect();
        let direction = direction_of(args.incoming);
        let width = args.steps_count as usize + 1;
        let held_bytes = 4 * (graph.vertices() + starts.len() * (width + 1)) as u64;
        let _held = job.budget.reserve("walks", held_bytes)?;
        let degrees = graph.degrees(job, direction)?;
        watch(host, &job.control, &[], || {
            let mut sampler = kernels::Sampler::new(job, graph, &degrees, direction)?;
            let walks = sampler.walks(&starts, args.steps_count as usize, args.seed)?;
            drop(sampler);
            let columns: Vec<String> = (0..width).map(|step| format!("step{step}")).collect();
            rows.write(walks, &columns)
        })?;
        Ok(GraphWalkSummary {
            used: rows.opened.used(starts.len() as u64)?,
            output: args.output.clone().map(Place),
            length: args.steps_count,
            seed: args.seed,
            phases: rows.opened.phases(),
        })
    }

    fn say(args: &GraphWalkArgs, report: &GraphWalkSummary, words: &mut Words) {
        words.lines(&Self::headline(report));
        words.phases(&report.phases, args.run.plan.explain);
    }

    fn headline(report: &GraphWalkSummary) -> String {
        format!(
            "{} of {} in {}",
            units::counted(report.used.records, "walk"),
            units::counted(u64::from(report.length), "step"),
            units::seconds(report.used.seconds),
        )
    }

    fn takes_stdout(args: &GraphWalkArgs) -> bool {
        args.output.as_deref().is_some_and(is_stdout)
    }
}

/// A graph from which rows of vertices are drawn, and their destination.
struct Rows<'a> {
    opened: Opened<'a>,
    names: Option<Names>,
}

impl<'a> Rows<'a> {
    /// As [`Opened::begin`].
    fn begin(
        host: &'a dyn Host,
        inputs: &[&Path],
        output: Option<&Path>,
        args: &RunArgs,
    ) -> Result<Self> {
        let opened = Opened::begin(host, inputs, output, Naming::default(), args)?;
        // Arrays have numbers of vertices.
        let names = match output {
            Some(_) => opened.graph.names(&opened.job)?,
            None => None,
        };
        Ok(Rows { opened, names })
    }

    /// The vertices in a file or a stream; a stream is first copied to scratch next to the output.
    fn seeds(&self, name: &Path, output: &Path) -> Result<Vec<u32>> {
        let (host, job) = (self.opened.host, &self.opened.job);
        let names = [name.to_path_buf()];
        let source = match inputs::find(&names, host.streams(), host.names())?.pop() {
            Some(source) if source.is_stream() => source,
            _ => return self.seeds_of(name),
        };
        let mut spool = Spool::beside(job, &self.opened.resources, parent_of(output))?;
        let copy = watch(host, &job.control, &[], || {
            spool.copy_records(job, &source, true)
        })?;
        self.seeds_of(&copy.path)
            .map_err(|error| inputs::explain([&copy], error))
    }

    /// The vertices that are listed in a file.
    fn seeds_of(&self, path: &Path) -> Result<Vec<u32>> {
        let (job, graph) = (&self.opened.job, &self.opened.graph);
        let names = self.names.as_ref();
        let found = match names.map(Names::numbers) {
            Some(None) => {
                let (wanted, _held) = ids::read_names(job, path)?;
                vertices_of(job, graph, names, &wanted)
            }
            numbers => {
                let (wanted, _held) = ids::read_ids(job, path)?;
                let numbers = numbers.flatten();
                let vertices = wanted.iter();
                let vertices = vertices.map(|number| vertex_of(*number, graph, numbers));
                vertices.collect()
            }
        };
        found.map_err(|error| match error.kind() {
            Kind::Usage => error.path(path),
            _ => error,
        })
    }

    /// Writes rows of vertices to a table or another file, or gives them to the program.
    fn write(&self, rows: Vec<u32>, columns: &[String]) -> Result<()> {
        let Opened { host, job, how, .. } = &self.opened;
        let names = self.names.as_ref();
        let Some(output) = &self.opened.output else {
            if let Some(arrays) = host.arrays() {
                arrays.take("values", Array::U32(rows));
            }
            return Ok(());
        };
        match output.table() {
            Some(path) => {
                let replace = how.replace;
                let to = TablePlace { path, replace };
                columns::write_rows(job, to, &rows, columns, names).map(drop)
            }
            None => {
                let to = output.open(*host, job)?;
                results::write_rows(job, to, how.replace, &rows, columns, names).map(drop)
            }
        }
    }
}
