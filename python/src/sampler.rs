//! Draws neighbours from an open graph: the native half of `outcore.graph.NeighborLoader`.
//!
//! Contract: as [`crate::view`]: any number of Python threads may draw at once. Each call releases
//! the interpreter, and its results are bytes that NumPy reads without a copy.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::Job;
use outcore::Result;
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::Sampler;
use outcore_io::memory::Reservation;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::fork::Here;
use crate::{errors, graph, request, run};

/// A graph whose neighbours are drawn.
#[pyclass(frozen, module = "outcore._outcore")]
pub(crate) struct GraphSampler {
    opened: Here<Arc<Opened>>,
}

struct Opened {
    job: Job,
    graph: Graph,
    degrees: Vec<u32>,
    direction: Direction,
    _held: Reservation,
}

impl Opened {
    fn of(job: Job, graph: Graph, is_in: bool) -> Result<Self> {
        let direction = match is_in {
            true => Direction::In,
            false => Direction::Out,
        };
        let bytes = graph.vertices() as u64 * size_of::<u32>() as u64;
        let held = job.budget.reserve("degrees", bytes)?;
        Ok(Opened {
            degrees: graph.degrees(&job, direction)?,
            job,
            graph,
            direction,
            _held: held,
        })
    }

    /// The sampler of a call, which can be stopped.
    fn sampler<'o>(&'o self, job: &'o Job) -> Result<Sampler<'o>> {
        Sampler::new(job, &self.graph, &self.degrees, self.direction)
    }
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers
        .iter()
        .map(|bytes| u32::from_ne_bytes(*bytes))
        .collect()
}

fn bytes<'py>(py: Python<'py>, numbers: &[u32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_ne_bytes())
        .collect();
    PyBytes::new(py, &bytes)
}

/// Vertices, sources and targets as bytes, and the edges of each hop.
type SampleReply<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Vec<u64>,
);

#[pymethods]
impl GraphSampler {
    /// Opens the graph in `dir`, for neighbours against the direction of edges or along it.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        dir: PathBuf,
        is_in: bool,
        resources: request::Resources,
    ) -> PyResult<Self> {
        let opened = run::watch(py, None, move |run| {
            let (job, graph) = graph::open(&dir, &resources, run)?;
            Opened::of(job, graph, is_in)
        })?;
        Ok(GraphSampler {
            opened: Here::new(Arc::new(opened)),
        })
    }

    /// Neighbours around vertices, with a limit per hop.
    fn neighbours<'py>(
        &self,
        py: Python<'py>,
        vertices: PyBackedBytes,
        fanouts: Vec<Option<u32>>,
        seed: u64,
    ) -> PyResult<SampleReply<'py>> {
        let opened = self.here(py)?;
        let sample = run::watch(py, None, move |run| {
            let job = run.watched(opened.job.clone());
            let mut sampler = opened.sampler(&job)?;
            sampler.neighbours(&numbers(&vertices), &fanouts, seed)
        })?;
        Ok((
            bytes(py, &sample.vertices),
            bytes(py, &sample.sources),
            bytes(py, &sample.targets),
            sample.hop_edges,
        ))
    }
}

impl GraphSampler {
    /// The graph, unless this is a forked child.
    fn here(&self, py: Python<'_>) -> PyResult<Arc<Opened>> {
        let opened = self
            .opened
            .get("the graph", "open the graph again in the child");
        opened
            .map(Arc::clone)
            .map_err(|error| errors::raise(py, &error))
    }
}
