//! Graphs for outcore: edges converted within a memory budget, and kernels that keep only vertices
//! in memory.
//!
//! A graph of any number of edges is a directory ([`format`]), made by one sort
//! ([`convert`](mod@convert)). Kernels are semi-external: what they know of each vertex is in
//! memory, and edges are read from the drives while they work, all in one pass of tiles, or the
//! lists of some vertices (Falcon, Kumar and Huang, ATC 2017, measures such kernels).
//!
//! - [`format`]: the files of a graph: tiles, lists, the manifest
//! - [`edges`]: edges as users have them: pairs, text, Matrix Market, CSV, GAP's, SciPy's
//! - [`convert`](mod@convert): from edges to a graph
//! - [`graph`]: a graph that is open: scans of all edges, lists of some vertices, both at a
//!   frontier's choice
//! - [`export`]: a graph as a matrix of SciPy
//! - [`ids`]: vertices that a file names
//! - [`kernels`]: components, breadth-first search, PageRank, cores and their kin
//! - [`results`]: a value a vertex: arrays of NumPy, lines, the largest
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
