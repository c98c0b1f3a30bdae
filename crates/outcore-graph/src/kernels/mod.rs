//! Algorithms on graphs, a file each.
//!
//! Contract: what a kernel knows of each vertex is in memory, checked before it starts ([`State`]);
//! edges are read by [`crate::graph`] alone. Results are arrays with an entry a vertex, the same
//! bytes for any threads and memory.
//!
//! | kernel | passes over the edges | bytes a vertex |
//! |---|---|---|
//! | [`components`](fn@components) | one | 4 |
//! | [`components_by_bundles`] | one, and what is left of them on scratch | 8 of some vertices at a time |
//! | [`bfs`](fn@bfs) | about one a level with many vertices; else the lists of the frontier | 12 |
//! | [`pagerank`](fn@pagerank), [`personalized_pagerank`] | one an iteration, and two before by weight | 20, or 24 by weight |
//! | [`core_numbers`] | one a round with many vertices; else the lists of what goes | 16 |
//! | [`shortest_paths`] | one a round with many vertices; else the lists of the frontier | 16 |
//! | [`strong_components`] | the same | 24 |
//! | [`Sampler`] | the blocks of the neighbours that are drawn | 4 |
//! | [`label_propagation`] | the lists of the vertices that look again, each round | 12 |
//! | [`hits`](fn@hits) | two an iteration | 24 |
//! | [`louvain`](fn@louvain) | the lists of the vertices that look again, each round; communities in memory or on scratch | 48 |
//! | [`triangles`](fn@triangles) | the lists, once for each time that they fill the memory | 16, and 4 a thread |
//!
//! [`State`]: crate::graph::state::State

mod bfs;
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
pub use components::{Components, components, components_of_any};
pub use contraction::{LabelFile, components_by_bundles};
pub use cores::{core_numbers, k_core};
pub use hits::{Hits, HitsOptions, hits};
pub use louvain::{LouvainOptions, Partition, louvain};
pub use pagerank::{PageRankOptions, Ranks, pagerank, personalized_pagerank};
pub use paths::{shortest_paths, shortest_paths_from};
pub use propagation::{Communities, label_propagation};
pub use sampling::{Sample, Sampler};
pub use strong::strong_components;
pub use triangles::triangles;
