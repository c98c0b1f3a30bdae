//! All vector tests in one program.
//!
//! Contract: one module each for files, searches, searches through an index, radii, clusters and
//! batches of rows; `common` has shared helpers.

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
