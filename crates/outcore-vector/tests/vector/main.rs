//! The tests of vectors, as one program.
//!
//! Contract: a module for files, one for searches, one for searches through an index, one for radii, one for clusters and one for batches of rows; what they share is in `common`.

#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod batches;
mod common;
mod faults;
mod files;
mod fuzzed;
mod index;
mod kmeans;
mod knn;
mod lists;
mod range;
