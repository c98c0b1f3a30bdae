//! The tests of vectors, as one program.
//!
//! Contract: a module for files, one for searches, one for searches through an index, one for
//! radii, one for clusters and one for batches of rows; what they share is in `common`.

#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod batches;
mod common;
mod faults;
mod files;
mod fuzzed;
mod in_flight;
mod index;
mod kmeans;
mod knn;
mod lists;
mod range;

#[path = "../../../outcore/tests/support/depth.rs"]
#[allow(dead_code, unreachable_pub)] // other tests use more of it
mod depth;
#[path = "../../../outcore-io/tests/support/devices.rs"]
#[allow(dead_code, unreachable_pub)]
mod devices;
