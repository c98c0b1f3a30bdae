//! The tests of vectors, as one program.
//!
//! Contract: a module for files, one for searches and one for clusters; what they share is in `common`.

#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod common;
mod files;
mod kmeans;
mod knn;
