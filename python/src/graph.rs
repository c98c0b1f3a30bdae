//! Graphs: the native half of `outcore.graph`.
//!
//! Contract: thin over [`outcore_graph`]. Each call opens the graph, runs on a thread of its own
//! with the interpreter free, and stops for Ctrl-C like any job ([`crate::run`]); facts go back as
//! JSON, values of vertices and edges as a `bytearray` that NumPy looks into.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use outcore::{Context, Error, Job, Result, ScratchDrive};
use outcore_front::inputs::{self, FilesOnly, Streams};
use outcore_front::resources::default_scratch_dir;
use outcore_front::spool;
use outcore_front::table_edges::{EdgeColumns, TableEdges};
use outcore_graph::convert::{ConvertOptions, check_memory, convert as run_convert, convert_rows};
use outcore_graph::edges::formats::EdgeFormat;
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::files::GraphFiles;
use outcore_graph::graph::names::Names;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::{
    self, ClosenessOptions, Components, HitsOptions, JumpTarget, LouvainOptions, PageRankOptions,
};
use outcore_io::output::parent_of;
use pyo3::FromPyObject;

use crate::datasets::Datasets;
use crate::request::Resources;
use crate::run::Run;

/// Edges to convert.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ConvertRequest {
    inputs: Vec<PathBuf>,
    output: PathBuf,
    numbers: Option<String>,
    format: Option<String>,
    undirected: bool,
    weights: bool,
    weight_column: Option<String>,
    weight_type: Option<String>,
    bipartite: bool,
    /// What ids are, if vertices are to be numbered anew.
    relabel: Option<String>,
    /// Whether the inputs are tables, and their columns of source and target.
    is_table: bool,
    columns: Vec<String>,
    no_header: bool,
    dedup: bool,
    drop_loops: bool,
    vertices: Option<u64>,
    force: bool,
    resources: Resources,
}

/// What to compute on a graph.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct KernelRequest {
    graph: PathBuf,
    kernel: String,
    /// k, or a seed.
    number: u64,
    /// That of PageRank, or the resolution of communities.
    alpha: f64,
    /// Below 0 for the default, where there is one.
    tolerance: f64,
    iterations: u32,
    /// Vertices that a personalized surfer jumps to, with weights; or those that a search starts
    /// from.
    targets: Vec<(u32, f64)>,
    resources: Resources,
}

fn facts(graph: &Graph) -> Result<String> {
    serde_json::to_string(graph.manifest())
        .map_err(|error| Error::usage("describe graph", error.to_string()))
}

/// Converts edges, and describes the graph.
pub(crate) fn convert(mut request: ConvertRequest, run: &Run) -> Result<String> {
    let mut datasets = Datasets::default();
    let (asked, force) = (&request.resources, request.force);
    datasets.output(asked, &mut request.output, force, run)?;
    let resources = datasets.resources(asked, true, run)?;
    let dir = std::path::absolute(&request.output).unwrap_or(request.output);
    let mut drives = resources.named_drives(0)?;
    if drives.is_empty() {
        drives.push(ScratchDrive::new(default_scratch_dir(parent_of(&dir))?));
    }
    let job = run.job(&resources, drives);
    check_memory(&job)?;
    let mut options = ConvertOptions {
        read: ReadOptions {
            called: Vec::new(),
            format: match (&request.numbers, &request.format) {
                (Some(_), Some(_)) => {
                    let cause = "dtype and format both say how the files hold edges";
                    return Err(Error::usage("read arguments", cause).hint("leave out one of both"));
                }
                (Some(numbers), None) => Some(EdgeFormat::parse_numbers(numbers)?),
                (None, format) => format.as_deref().map(EdgeFormat::parse).transpose()?,
            },
            is_weighted: request.weights,
            weight_type: request
                .weight_type
                .as_deref()
                .map(WeightType::parse)
                .transpose()?,
            weight_column: request.weight_column,
            columns: request.columns.clone(),
            has_no_header: request.no_header,
            is_bipartite: request.bipartite,
        },
        is_undirected: request.undirected,
        relabel: match &request.relabel {
            Some(ids) => Relabel::parse(ids)?,
            None => Relabel::No,
        },
        dedup: request.dedup,
        drop_loops: request.drop_loops,
        vertices: request.vertices,
        replace: request.force,
    };
    match request.is_table {
        false => {
            let sources = inputs::find(&request.inputs, Streams::Taken, &FilesOnly)?;
            let are_records = options.read.format.is_some_and(EdgeFormat::is_binary);
            // Copies live until the end.
            let (copies, called, _spool) =
                spool::edge_files((&job, &resources), parent_of(&dir), (&sources, are_records))?;
            let files: Vec<PathBuf> = copies.iter().map(|copy| copy.path.clone()).collect();
            options.read.called = called;
            run_convert(&job, &files, &dir, &options)
                .map_err(|error| inputs::explain(&copies, error))?
        }
        true => {
            let columns = EdgeColumns {
                ends: request.columns,
                is_weighted: options.read.is_weighted,
                weight: options.read.weight_column.clone(),
                weight_type: options.read.weight_type,
            };
            let edges = TableEdges::open(&job, &request.inputs, &columns)?;
            convert_rows(&job, &edges, &dir, &options)?
        }
    };
    let facts = facts(&Graph::open(&job, &dir)?)?;
    datasets.put(run).map(|()| facts)
}

/// The graph that is called `name`, a directory or a dataset on all drives of a volume, and a job
/// to read it.
pub(crate) fn open(name: &Path, resources: &Resources, run: &Run) -> Result<(Job, Graph)> {
    let mut datasets = Datasets::default();
    let files = match datasets.packed(resources, name, run)? {
        None => GraphFiles::in_dir(name),
        Some(packed) => {
            let manifest = packed.read(GraphFiles::MANIFEST)?;
            GraphFiles::packed(&packed.path, manifest, packed.stretches())
        }
    };
    let job = run.job(&datasets.resources(resources, false, run)?, Vec::new());
    let graph = Graph::open_files(&job, files)?;
    Ok((job, graph))
}

/// Describes a graph.
pub(crate) fn info(graph: &Path, resources: &Resources, run: &Run) -> Result<String> {
    let (_job, graph) = open(graph, resources, run)?;
    facts(&graph)
}

fn bytes_of<T: Copy, const N: usize>(values: Vec<T>, to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(to).collect()
}

/// The values of vertices: numbers of four bytes, of eight for names and triangles, floats of eight
/// bytes for ranks and lengths, hubs and behind them authorities.
pub(crate) fn kernel(request: KernelRequest, run: &Run) -> Result<Vec<u8>> {
    let (job, graph) = open(&request.graph, &request.resources, run)?;
    let number = u32::try_from(request.number).unwrap_or(u32::MAX);
    let sources: Vec<u32> = request.targets.iter().map(|(vertex, _)| *vertex).collect();
    let values = match request.kernel.as_str() {
        "components" => {
            let scratch = default_scratch_dir(parent_of(&request.graph))?;
            match kernels::components_of_any(&job, &graph, &scratch)? {
                Components::Held(labels) => labels,
                Components::Stored(labels) => Context::of_job(&job)
                    .read_inputs::<u32>(&[labels.input()])
                    .collect()?,
            }
        }
        "levels" => kernels::bfs_from(&job, &graph, &sources)?.levels,
        "parents" => kernels::bfs_from(&job, &graph, &sources)?.parents,
        "core_number" => kernels::core_numbers(&job, &graph)?,
        "label_propagation" => kernels::label_propagation(&job, &graph, request.iterations)?.labels,
        "louvain" => {
            let options = LouvainOptions {
                resolution: request.alpha,
                threshold: request.tolerance,
                seed: request.number,
            };
            let scratch = default_scratch_dir(parent_of(&request.graph))?;
            kernels::louvain(&job, &graph, &scratch, options)?.labels
        }
        "hits" => {
            let options = HitsOptions {
                tolerance: request.tolerance,
                iterations_max: request.iterations,
            };
            let found = kernels::hits(&job, &graph, options)?;
            let both = [found.hubs, found.authorities].concat();
            return Ok(bytes_of(both, f64::to_le_bytes));
        }
        "closeness" => {
            let options = ClosenessOptions {
                sources_count: request.iterations,
                seed: request.number,
            };
            let found = kernels::closeness(&job, &graph, options)?;
            return Ok(bytes_of(found, f64::to_le_bytes));
        }
        "strong" => kernels::strong_components(&job, &graph)?,
        "triangles" => {
            let counts = kernels::triangles(&job, &graph)?;
            return Ok(bytes_of(counts, u64::to_le_bytes));
        }
        "lengths" => {
            let lengths = kernels::shortest_paths_from(&job, &graph, &sources)?;
            return Ok(bytes_of(lengths, f64::to_le_bytes));
        }
        "k_core" => kernels::k_core(&job, &graph, number)?,
        "out_degrees" => degrees(&job, &graph, Direction::Out)?,
        "in_degrees" => degrees(&job, &graph, Direction::In)?,
        "names" => {
            let names = graph.names(&job)?;
            let numbers = names.as_ref().and_then(Names::numbers);
            return Ok(bytes_of(
                numbers.unwrap_or_default().to_vec(),
                u64::to_le_bytes,
            ));
        }
        "edges" => return edges(&job, &graph),
        _ => {
            let options = PageRankOptions {
                alpha: request.alpha,
                tolerance: (request.tolerance >= 0.0).then_some(request.tolerance),
                iterations_max: request.iterations,
                by_weight: request.kernel == "weighted_pagerank",
            };
            let found = match request.targets.as_slice() {
                [] => kernels::pagerank(&job, &graph, options)?,
                targets => {
                    let target = |&(vertex, weight): &(u32, f64)| JumpTarget { vertex, weight };
                    let targets: Vec<JumpTarget> = targets.iter().map(target).collect();
                    kernels::personalized_pagerank(&job, &graph, options, &targets)?
                }
            };
            return Ok(bytes_of(found.ranks, f64::to_le_bytes));
        }
    };
    Ok(bytes_of(values, u32::to_le_bytes))
}

/// What vertices were called: those that are named, or all.
pub(crate) fn names(
    dir: &Path,
    vertices: Option<Vec<u32>>,
    resources: &Resources,
    run: &Run,
) -> Result<Vec<String>> {
    let (job, graph) = open(dir, resources, run)?;
    let vertices = vertices.unwrap_or_else(|| (0..graph.vertices() as u32).collect());
    let Some(names) = graph.names(&job)? else {
        return Ok(vertices.iter().map(u32::to_string).collect());
    };
    let held = names.held(&job, vertices.clone())?;
    let name = |vertex: &u32| held.get(*vertex).to_owned();
    Ok(vertices.iter().map(name).collect())
}

/// The vertices that are called so, each or none.
pub(crate) fn vertices(
    dir: &Path,
    wanted: &[String],
    resources: &Resources,
    run: &Run,
) -> Result<Vec<Option<u32>>> {
    let (job, graph) = open(dir, resources, run)?;
    match graph.names(&job)? {
        Some(names) => names.vertices(&job, wanted),
        None => Ok(vec![None; wanted.len()]),
    }
}

fn degrees(job: &Job, graph: &Graph, direction: Direction) -> Result<Vec<u32>> {
    let bytes = graph.vertices() as u64 * 4;
    let _degrees = job.budget.reserve("degrees", bytes)?;
    graph.degrees(job, direction)
}

/// All edges, each as source and target of four bytes and its weight as the graph stores it, in no
/// order.
fn edges(job: &Job, graph: &Graph) -> Result<Vec<u8>> {
    let width = match graph.manifest().weights() {
        None => 0,
        Some(WeightType::F32) => 4,
        Some(WeightType::F64 | WeightType::I64) => 8,
    };
    let bytes = graph.manifest().edges * (8 + width as u64);
    let _edges = job.budget.reserve("edges in memory", bytes)?;
    let all = Mutex::new(Vec::new());
    graph.scan(job, |segment| {
        let mut part = Vec::with_capacity((8 + width) * segment.len());
        for (target, source, weight) in segment.stored_edges() {
            part.extend_from_slice(&(source as u32).to_le_bytes());
            part.extend_from_slice(&(target as u32).to_le_bytes());
            part.extend_from_slice(&weight.to_le_bytes()[..width]);
        }
        all.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(part);
        Ok(())
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}
