//! The functions on graphs that only Python needs: names of vertices, and edges as an array.
//!
//! Contract: thin over [`outcore_graph`]. Each call opens the graph, runs on a thread of its own
//! with the interpreter released, and stops for Ctrl-C like any job ([`crate::run`]). Verbs do
//! everything else ([`crate::verb`]).

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use outcore::{Job, Result};
use outcore_graph::format::weight::WeightType;
use outcore_graph::graph::Graph;
use outcore_graph::graph::files::GraphFiles;
use outcore_graph::graph::names::Names;

use crate::datasets::Datasets;
use crate::request::Resources;
use crate::run::Run;

/// The graph `name`, a directory or a dataset on all drives of a volume, and a job that reads it.
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

/// The original ids of all vertices, if these are numbers of eight bytes.
pub(crate) fn ids(dir: &Path, resources: &Resources, run: &Run) -> Result<Vec<u8>> {
    let (job, graph) = open(dir, resources, run)?;
    let names = graph.names(&job)?;
    let numbers = names.as_ref().and_then(Names::numbers).unwrap_or_default();
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    Ok(bytes.collect())
}

/// The original names of vertices: the given ones, or all.
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

/// The vertices with these names; none for an unknown name.
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

/// All edges, each as source and target of four bytes and its weight as the graph stores it, in no
/// order.
pub(crate) fn edges(dir: &Path, resources: &Resources, run: &Run) -> Result<Vec<u8>> {
    let (job, graph) = open(dir, resources, run)?;
    let width = match graph.manifest().weights() {
        None => 0,
        Some(WeightType::F32) => 4,
        Some(WeightType::F64 | WeightType::I64) => 8,
    };
    let bytes = graph.manifest().edges * (8 + width as u64);
    let _edges = job.budget.reserve("edges in memory", bytes)?;
    let all = Mutex::new(Vec::new());
    graph.scan(&job, |segment| {
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
