//! The algorithms: their options, computations and reports.
//!
//! Contract: thin over [`outcore_graph::kernels`].

use clap::Args;
use outcore::Result;
use outcore::passes::JobOption;
use outcore_graph::graph::plan::EdgeReads;
use outcore_graph::graph::state::{State, StateBytes};
use outcore_graph::kernels::{
    self, ClosenessOptions, Components, HitsOptions, JumpTarget, LouvainOptions, PageRankOptions,
};
use outcore_graph::results::Values;
use outcore_io::units;

use super::files::direction_of;
use super::kernel::{Computed, Found, Kernel, KernelReport, KernelSummary, On};
use crate::host::Weight;
use crate::option::PassResumeArgs;
use crate::report::report;
use crate::resumed::job_options;

/// Defines the report of an algorithm that has fields of its own, and its text for people.
macro_rules! kernel_report {
    (
        $(#[doc = $doc:literal])*
        struct $name:ident {
            $($(#[doc = $field_doc:literal])* $field:ident: $type:ty,)*
        }
        |$report:ident| $found:expr
    ) => {
        report! {
            $(#[doc = $doc])*
            pub(crate) struct $name {
                [kernel: KernelSummary],
                $($(#[doc = $field_doc])* $field: $type,)*
            }
        }

        impl KernelReport for $name {
            fn kernel(&self) -> &KernelSummary {
                &self.kernel
            }

            fn found(&self) -> Option<String> {
                let $report = self;
                Some($found)
            }
        }
    };
}

/// The number of edges of each vertex
///
/// In a directed graph, outgoing edges are counted; --in counts incoming ones. An edge from a
/// vertex to itself counts once in each direction.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  outcore graph degrees g.graph -o degrees.npy --top 20\n  outcore graph degrees g.graph --in -o in.npy"
)]
pub(crate) struct Degrees {
    /// Count incoming edges
    #[arg(long = "in")]
    incoming: bool,
}

impl Kernel for Degrees {
    const NAME: &'static str = "graph degrees";
    const TITLE: &'static str = "degrees";
    type Report = KernelSummary;

    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        let _state = State::planned(
            on.job,
            on.graph,
            "degrees",
            EdgeReads::Nothing,
            StateBytes::new(4, 0),
        )?;
        let degrees = on.graph.degrees(on.job, direction_of(self.incoming))?;
        Ok(Found::of(Computed::Held(Values::Numbers(degrees))))
    }
}

const CC_EXAMPLES: &str = "\
Examples:
  outcore graph cc g.graph -o components.npy
  outcore graph cc g.graph -o components.csv --names --memory 512MiB";

/// Connected components: for each vertex, the smallest vertex in its component
///
/// The directions of edges do not matter.
#[derive(Debug, Args)]
#[command(after_long_help = CC_EXAMPLES)]
pub(crate) struct ConnectedComponents {
    #[command(flatten)]
    journal: PassResumeArgs,
}

impl Kernel for ConnectedComponents {
    const NAME: &'static str = "graph cc";
    const TITLE: &'static str = "components";
    const PHASES: &'static [Weight] = &[("components", 1.0)];
    type Report = KernelSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: );
        self.journal.of(Self::NAME, options)
    }

    /// Labels that do not fit in memory go to scratch, next to the output.
    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        if self.journal.resume {
            // The other method, with bundles of vertices, has no state that could be kept between
            // two passes.
            let labels = kernels::components(on.job, on.graph).map_err(|error| {
                let more = error
                    .next_step()
                    .unwrap_or("allow more with --memory")
                    .to_owned();
                error.hint(format!("{more}, or leave --resume out"))
            });
            return Ok(Found::of(Computed::Held(Values::Vertices(labels?))));
        }
        if on.are_looked_at {
            // Labels on scratch can neither be shown by name nor ordered by size.
            let labels = kernels::components(on.job, on.graph).map_err(|error| {
                let more = error
                    .next_step()
                    .unwrap_or("allow more with --memory")
                    .to_owned();
                error.hint(format!(
                    "{more}, or write an array (.npy) without --top and --names"
                ))
            });
            return Ok(Found::of(Computed::Held(Values::Vertices(labels?))));
        }
        let found = kernels::components_of_any(on.job, on.graph, &on.scratch_dir()?)?;
        Ok(Found::of(match found {
            Components::Held(labels) => Computed::Held(Values::Vertices(labels)),
            Components::Stored(labels) => Computed::Stored(labels),
        }))
    }
}

const SCC_EXAMPLES: &str = "\
Examples:
  outcore graph scc g.graph -o strong.npy
  outcore graph scc g.graph -o strong.csv --memory 512MiB";

/// Strongly connected components: for each vertex, the smallest vertex in its component
///
/// Vertices are in one component if each reaches the other along the directions of edges.
#[derive(Debug, Args)]
#[command(after_long_help = SCC_EXAMPLES)]
pub(crate) struct StrongComponents {
    #[command(flatten)]
    journal: PassResumeArgs,
}

impl Kernel for StrongComponents {
    const NAME: &'static str = "graph scc";
    const TITLE: &'static str = "strong components";
    type Report = KernelSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: );
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        let labels = kernels::strong_components(on.job, on.graph)?;
        Ok(Found::of(Computed::Held(Values::Vertices(labels))))
    }
}

const BFS_EXAMPLES: &str = "\
Examples:
  outcore graph bfs g.graph --source 17 -o levels.npy
  outcore graph bfs g.graph --source 17 --parents -o parents.npy
  outcore graph bfs g.graph --source 17 --source 42 -o levels.npy";

/// Breadth-first search: the number of edges from the nearest source to each vertex
///
/// Vertices that are not reached get -1.
#[derive(Debug, Args)]
#[command(after_long_help = BFS_EXAMPLES)]
pub(crate) struct Search {
    /// The vertex to start from; its original id if ids were relabelled. Repeat to start from
    /// several at once
    #[arg(long, value_name = "VERTEX", required = true)]
    source: Vec<String>,
    /// Instead of the distance, write the vertex before each vertex on a shortest path (the
    /// smallest, if there are several)
    #[arg(long)]
    parents: bool,
    #[command(flatten)]
    journal: PassResumeArgs,
}

impl Kernel for Search {
    const NAME: &'static str = "graph bfs";
    const TITLE: &'static str = "search";
    const HAS_SOURCES: bool = true;
    type Report = KernelSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: source, parents);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        let found = kernels::bfs_from(on.job, on.graph, &on.vertices(&self.source)?)?;
        Ok(Found::of(Computed::Held(match self.parents {
            true => Values::Parents(found.parents),
            false => Values::Optional(found.levels),
        })))
    }
}

const SSSP_EXAMPLES: &str = "\
Examples:
  outcore graph sssp roads.graph --source 17 -o lengths.npy
  outcore graph sssp roads.graph --source 17 -o lengths.csv
  outcore graph sssp roads.graph --source 17 --source 42 -o lengths.npy";

/// Shortest paths: the smallest sum of weights from the nearest source to each vertex
///
/// An edge without a weight has the length 1. Vertices that are not reached get infinity; --top
/// lists them last.
#[derive(Debug, Args)]
#[command(after_long_help = SSSP_EXAMPLES)]
pub(crate) struct ShortestPaths {
    /// The vertex to start from; its original id if ids were relabelled. Repeat to start from
    /// several at once
    #[arg(long, value_name = "VERTEX", required = true)]
    source: Vec<String>,
    #[command(flatten)]
    journal: PassResumeArgs,
}

impl Kernel for ShortestPaths {
    const NAME: &'static str = "graph sssp";
    const TITLE: &'static str = "shortest paths";
    const HAS_SOURCES: bool = true;
    type Report = KernelSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: source);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        let sources = on.vertices(&self.source)?;
        on.note_unweighted();
        let lengths = kernels::shortest_paths_from(on.job, on.graph, &sources)?;
        Ok(Found::of(Computed::Held(Values::Floats(lengths))))
    }
}

const PAGERANK_EXAMPLES: &str = "\
Examples:
  outcore graph pagerank g.graph -o ranks.npy --top 20
  outcore graph pagerank g.graph -o ranks.csv --tolerance 1e-14 --iterations 200
  outcore graph pagerank g.graph --iterations 10 --tolerance 0 --top 10
  outcore graph pagerank g.graph --source 17 --source 42 --top 10
  outcore graph pagerank roads.graph --weighted -o ranks.npy";

/// PageRank: how often a random surfer is at each vertex
///
/// As networkx computes it with `weight=None`: each edge that leaves a vertex is as likely as any
/// other. With --weighted, edges are followed in proportion to their weights. The result has the
/// same bytes for any memory and number of threads.
#[derive(Debug, Args)]
#[command(after_long_help = PAGERANK_EXAMPLES)]
pub(crate) struct PageRank {
    /// The probability that the surfer follows an edge
    #[arg(long, value_name = "P", default_value_t = 0.85)]
    alpha: f64,
    /// Stop when ranks change by less than T per vertex on average, as in networkx; 0 runs all
    /// iterations. Default: 1e-6 / the number of vertices, so that all changes sum to less than
    /// 1e-6
    #[arg(long, value_name = "T")]
    tolerance: Option<f64>,
    /// Maximum number of iterations
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Jump only to this vertex (personalized PageRank); repeat for several, which are then equally
    /// likely
    #[arg(long, value_name = "VERTEX")]
    source: Vec<String>,
    /// Follow edges in proportion to their weights, which must be 0 or more
    #[arg(long)]
    weighted: bool,
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The result of PageRank.
    struct PageRankSummary {
        /// Iterations.
        iterations: u32,
        /// The sum of the changes of all ranks in the last iteration.
        change: f64,
    }
    |report| format!(
            "{}; the changes of all ranks in the last one sum to {:.3e}",
            units::counted(report.iterations.into(), "iteration"),
            report.change,
        )
}

impl Kernel for PageRank {
    const NAME: &'static str = "graph pagerank";
    const TITLE: &'static str = "PageRank";
    const HAS_SOURCES: bool = true;
    type Report = PageRankSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: alpha, tolerance, iterations, source, weighted);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<PageRankSummary>> {
        let options = PageRankOptions {
            alpha: self.alpha,
            tolerance: self.tolerance,
            iterations_max: self.iterations,
            by_weight: self.weighted,
        };
        let vertices = on.vertices(&self.source)?;
        let found = match vertices.is_empty() {
            true => kernels::pagerank(on.job, on.graph, options)?,
            false => {
                // Without weights from a program, all weights are 1.
                let weights = on.weights().into_iter().chain(std::iter::repeat(1.0));
                let targets = vertices.into_iter().zip(weights);
                let target = |(vertex, weight)| JumpTarget { vertex, weight };
                let targets: Vec<JumpTarget> = targets.map(target).collect();
                kernels::personalized_pagerank(on.job, on.graph, options, &targets)?
            }
        };
        let (iterations, change) = (found.iterations, found.change);
        Ok(Found::new(Values::Floats(found.ranks), move |kernel| {
            PageRankSummary {
                kernel,
                iterations,
                change,
            }
        }))
    }
}

const HITS_EXAMPLES: &str = "\
Examples:
  outcore graph hits g.graph -o hubs.npy --top 20
  outcore graph hits g.graph -o authorities.npy --authorities --top 20";

/// HITS: how good each vertex is as a hub, or as an authority
///
/// Good hubs have edges to good authorities, and good authorities have edges from good hubs. Each
/// set of values sums to 1, as in networkx. Weights are ignored.
#[derive(Debug, Args)]
#[command(after_long_help = HITS_EXAMPLES)]
pub(crate) struct Hits {
    /// Write the authorities instead of the hubs
    #[arg(long)]
    authorities: bool,
    /// Stop when the changes of all hubs sum to less than this; 0 runs all iterations
    #[arg(long, value_name = "T", default_value_t = 1e-8)]
    tolerance: f64,
    /// Maximum number of iterations
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The result of HITS.
    struct HitsSummary {
        /// Iterations.
        iterations: u32,
    }
    |report| units::counted(report.iterations.into(), "iteration")
}

impl Kernel for Hits {
    const NAME: &'static str = "graph hits";
    const TITLE: &'static str = "HITS";
    type Report = HitsSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: authorities, tolerance, iterations);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<HitsSummary>> {
        let options = HitsOptions {
            tolerance: self.tolerance,
            iterations_max: self.iterations,
        };
        let found = kernels::hits(on.job, on.graph, options)?;
        let both = [found.hubs, found.authorities].map(Values::Floats);
        let [values, others] = match self.authorities {
            true => {
                let [hubs, authorities] = both;
                [authorities, hubs]
            }
            false => both,
        };
        let iterations = found.iterations;
        Ok(Found {
            others: Some(others),
            ..Found::new(values, move |kernel| HitsSummary { kernel, iterations })
        })
    }
}

const CLOSENESS_EXAMPLES: &str = "\
Examples:
  outcore graph closeness g.graph -o closeness.npy --top 20
  outcore graph closeness g.graph -o closeness.csv --sources 1024 --seed 7";

/// Closeness: how near each vertex is to the vertices that reach it
///
/// The fraction of the other vertices that reach it, divided by their mean distance in edges, as in
/// networkx. It is estimated from some sources, and exact if all vertices are sources.
#[derive(Debug, Args)]
#[command(after_long_help = CLOSENESS_EXAMPLES)]
pub(crate) struct Closeness {
    /// Number of random sources to search from; the work grows with this number
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    sources: u32,
    /// Random seed of the sources
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The sources of a closeness computation.
    struct ClosenessSummary {
        /// Sources.
        sources: u64,
    }
    |report| format!("from {}", units::counted(report.sources, "source"))
}

impl Kernel for Closeness {
    const NAME: &'static str = "graph closeness";
    const TITLE: &'static str = "closeness";
    type Report = ClosenessSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: sources, seed);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<ClosenessSummary>> {
        let options = ClosenessOptions {
            sources_count: self.sources,
            seed: self.seed,
        };
        let sources = u64::from(self.sources).min(on.graph.vertices() as u64);
        let closeness = kernels::closeness(on.job, on.graph, options)?;
        Ok(Found::new(Values::Floats(closeness), move |kernel| {
            ClosenessSummary { kernel, sources }
        }))
    }
}

const LP_EXAMPLES: &str = "\
Examples:
  outcore graph lp g.graph -o communities.npy
  outcore graph lp g.graph -o communities.csv --rounds 10";

/// Label propagation: for each vertex, the smallest vertex in its community
///
/// In rounds, each vertex takes the label that most of its neighbours have, until no label changes.
/// The directions of edges do not matter.
#[derive(Debug, Args)]
#[command(after_long_help = LP_EXAMPLES)]
pub(crate) struct LabelPropagation {
    /// Maximum number of rounds; labels may still change after the last one
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: u32,
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The result of label propagation.
    struct LabelPropagationSummary {
        /// Communities.
        communities: u64,
        /// Rounds that were made.
        rounds: u32,
        /// Whether another round would change nothing.
        stable: bool,
    }
    |report| format!(
            "{} in {}{}",
            units::counted(report.communities, "community"),
            units::counted(report.rounds.into(), "round"),
            match report.stable {
                true => "",
                false => ", after which labels still change: allow more with --rounds",
            }
        )
}

impl Kernel for LabelPropagation {
    const NAME: &'static str = "graph lp";
    const TITLE: &'static str = "label propagation";
    const HAS_TOTAL: bool = true;
    type Report = LabelPropagationSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: rounds);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<LabelPropagationSummary>> {
        let found = kernels::label_propagation(on.job, on.graph, self.rounds)?;
        let (communities, rounds, stable) = (found.count, found.rounds, found.is_stable);
        Ok(Found::new(Values::Vertices(found.labels), move |kernel| {
            LabelPropagationSummary {
                kernel,
                communities,
                rounds,
                stable,
            }
        }))
    }
}

const LOUVAIN_EXAMPLES: &str = "\
Examples:
  outcore graph louvain g.graph -o communities.npy
  outcore graph louvain g.graph -o communities.csv --resolution 0.5 --seed 7";

/// Louvain's method: for each vertex, the smallest vertex in its community
///
/// Communities have more weight inside than expected by chance. The command prints their
/// modularity. The graph must be undirected.
#[derive(Debug, Args)]
#[command(after_long_help = LOUVAIN_EXAMPLES)]
pub(crate) struct Louvain {
    /// Above 1 for smaller communities, below 1 for larger ones
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    resolution: f64,
    /// Stop when modularity grows by this or less
    #[arg(long, value_name = "T", default_value_t = 1e-7)]
    threshold: f64,
    /// Random seed of the orders in which vertices move
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The result of Louvain's method.
    struct LouvainSummary {
        /// Communities.
        communities: u64,
        /// Their modularity.
        modularity: f64,
        /// The number of times that communities were contracted to vertices.
        levels: u32,
    }
    |report| format!(
            "{} of modularity {:.6} in {}",
            units::counted(report.communities, "community"),
            report.modularity,
            units::counted(report.levels.into(), "level"),
        )
}

impl Kernel for Louvain {
    const NAME: &'static str = "graph louvain";
    const TITLE: &'static str = "communities";
    const HAS_TOTAL: bool = true;
    type Report = LouvainSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: resolution, threshold, seed);
        self.journal.of(Self::NAME, options)
    }

    /// Needs scratch, next to the output, if the edges between communities do not fit in memory.
    fn compute(&self, on: &On<'_>) -> Result<Found<LouvainSummary>> {
        let options = LouvainOptions {
            resolution: self.resolution,
            threshold: self.threshold,
            seed: self.seed,
        };
        let found = kernels::louvain(on.job, on.graph, &on.scratch_dir()?, options)?;
        let (communities, modularity, levels) = (found.count, found.modularity, found.levels);
        Ok(Found::new(Values::Vertices(found.labels), move |kernel| {
            LouvainSummary {
                kernel,
                communities,
                modularity,
                levels,
            }
        }))
    }
}

const TRIANGLES_EXAMPLES: &str = "\
Examples:
  outcore graph triangles g.graph -o triangles.npy --top 20
  outcore graph triangles g.graph --json";

/// Triangles: the number of triangles that contain each vertex
///
/// The graph must be undirected. Parallel edges count once, and edges from a vertex to itself not
/// at all. The summary has the number of all triangles.
#[derive(Debug, Args)]
#[command(after_long_help = TRIANGLES_EXAMPLES)]
pub(crate) struct Triangles {
    #[command(flatten)]
    journal: PassResumeArgs,
}

kernel_report! {
    /// The triangles of a graph.
    struct TrianglesSummary {
        /// All triangles.
        triangles: u64,
    }
    |report| units::counted(report.triangles, "triangle")
}

impl Kernel for Triangles {
    const NAME: &'static str = "graph triangles";
    const TITLE: &'static str = "triangles";
    const HAS_TOTAL: bool = true;
    type Report = TrianglesSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: );
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<TrianglesSummary>> {
        let counts = kernels::triangles(on.job, on.graph)?;
        // Each triangle is counted at its three corners.
        let triangles = counts.iter().sum::<u64>() / 3;
        Ok(Found::new(Values::Counts(counts), move |kernel| {
            TrianglesSummary { kernel, triangles }
        }))
    }
}

const KCORE_EXAMPLES: &str = "\
Examples:
  outcore graph kcore g.graph -o cores.npy --top 20
  outcore graph kcore g.graph -k 16 -o members.npy";

/// Core numbers: for each vertex, the largest k whose k-core contains it
///
/// The k-core is the largest part of the graph in which each vertex has at least k neighbours. The
/// directions of edges do not matter.
#[derive(Debug, Args)]
#[command(after_long_help = KCORE_EXAMPLES)]
pub(crate) struct Cores {
    /// Write 1 for the vertices of the K-core and 0 for others, which is faster
    #[arg(short, value_name = "K")]
    k: Option<u32>,
    #[command(flatten)]
    journal: PassResumeArgs,
}

impl Kernel for Cores {
    const NAME: &'static str = "graph kcore";
    const TITLE: &'static str = "cores";
    type Report = KernelSummary;

    fn kept_options(&self) -> Option<Vec<JobOption>> {
        let options = job_options!(self: k);
        self.journal.of(Self::NAME, options)
    }

    fn compute(&self, on: &On<'_>) -> Result<Found<KernelSummary>> {
        Ok(Found::of(Computed::Held(Values::Numbers(match self.k {
            Some(k) => kernels::k_core(on.job, on.graph, k)?,
            None => kernels::core_numbers(on.job, on.graph)?,
        }))))
    }
}
