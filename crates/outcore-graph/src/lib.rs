//! Graphs for outcore: converts edges within a memory budget, and runs kernels that keep only
//! vertices in memory.
//!
//! A graph with any number of edges is a directory ([`format`]), made by one sort
//! ([`convert`](mod@convert)). Kernels are semi-external: their state of each vertex is in memory,
//! and edges are read from the drives while they run. They read all edges in one pass over tiles,
//! or the lists of some vertices (Falcon, Kumar and Huang, ATC 2017, measures such kernels).
//!
//! - [`format`]: the files of a graph: tiles, lists, the manifest
//! - [`edges`]: input formats of edges: pairs, text, Matrix Market, CSV, GAP's, SciPy's
//! - [`convert`](mod@convert): converts edges to a graph
//! - [`graph`]: an open graph: scans of all edges, lists of some vertices, and frontiers that
//!   choose between them
//! - [`export`]: exports a graph as a SciPy matrix
//! - [`ids`]: reads a file's list of vertices
//! - [`kernels`]: components, breadth-first search, PageRank, cores and related algorithms
//! - [`results`]: writes one value per vertex: NumPy arrays, lines, the largest values
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions};
//! use outcore_graph::convert::{ConvertOptions, convert};
//! use outcore_graph::graph::Graph;
//! use outcore_graph::kernels::components;
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let here = |name: &str| dir.path().join(name);
//! std::fs::write(here("edges.txt"), "# two pairs\n0 1\n2 3\n")
//!     .map_err(|e| outcore::Error::io("write edges", &e))?;
//! let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(limits, IoMode::Auto);
//! convert(&job, &[here("edges.txt")], &here("pairs.graph"), &ConvertOptions::default())?;
//! let graph = Graph::open(&job, &here("pairs.graph"))?;
//! assert_eq!(components(&job, &graph)?, [0, 0, 2, 2]);
//! # Ok(())
//! # }
//! ```

pub mod convert;
pub mod edges;
pub mod export;
pub mod format;
pub mod graph;
pub mod ids;
pub mod kernels;
pub mod results;
