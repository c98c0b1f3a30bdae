//! Graph algorithms, one per file.
//!
//! Contract: a kernel's state of each vertex is in memory, and is reserved before the kernel starts
//! ([`State`]). Only [`crate::graph`] reads edges. Results are arrays with one entry per vertex,
//! with the same bytes for any threads and memory. A kernel in passes keeps its state after a pass
//! if the job keeps states ([`outcore::states::PassState`]). That state, the graph and the options
//! are all that a continued run needs.
//!
//! The reads of edges and the bytes of state per vertex of each kernel:
//!
//! - [`components`](fn@components): one pass; 4 bytes
//! - [`components_by_bundles`]: one pass, and edges on scratch; 8 bytes for the vertices of one
//!   bundle
//! - [`bfs`](fn@bfs): about one pass per level with many vertices, otherwise the lists of the
//!   frontier; 12 bytes
//! - [`pagerank`](fn@pagerank), [`personalized_pagerank`]: one pass per iteration; 20 bytes. By
//!   weight: two passes more at the start; 24 bytes
//! - [`core_numbers`]: one pass per round with many vertices, otherwise the lists of the removed
//!   vertices; 16 bytes
//! - [`shortest_paths`]: one pass per round with many vertices, otherwise the lists of the
//!   frontier; 16 bytes
//! - [`strong_components`]: one pass per round with many vertices, otherwise the lists of the
//!   frontier; 24 bytes
//! - [`Sampler`]: the blocks of the sampled neighbours; 4 bytes
//! - [`label_propagation`]: in each round, the lists of the visited vertices; 12 bytes
//! - [`closeness`](fn@closeness): as `bfs`, for each 64 sources; 40 bytes
//! - [`hits`](fn@hits): two passes per iteration; 24 bytes
//! - [`louvain`](fn@louvain): in each round, the lists of the visited vertices; communities are in
//!   memory or on scratch; 48 bytes
//! - [`triangles`](fn@triangles): the lists, once for each memory-sized part of them; 16 bytes, and
//!   4 per thread
//!
//! [`State`]: crate::graph::state::State

mod bfs;
mod closeness;
mod components;
mod contraction;
mod cores;
mod hits;
mod louvain;
mod pagerank;
mod paths;
mod propagation;
mod sampling;
mod strong;
mod triangles;

pub use bfs::{Search, bfs, bfs_from};
pub use closeness::{ClosenessOptions, closeness};
pub use components::{Components, components, components_of_any};
pub use contraction::{LabelFile, components_by_bundles};
pub use cores::{core_numbers, k_core};
pub use hits::{Hits, HitsOptions, hits};
pub use louvain::{LouvainOptions, Partition, louvain};
pub use pagerank::{JumpTarget, PageRankOptions, Ranks, pagerank, personalized_pagerank};
pub use paths::{shortest_paths, shortest_paths_from};
pub use propagation::{Communities, label_propagation};
pub use sampling::{Sample, Sampler};
pub use strong::strong_components;
pub use triangles::triangles;
