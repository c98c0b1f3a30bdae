//! The tests of vectors, as one program.
//!
//! Contract: a module for files and one for searches; what they share is in `common`.

#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod common;
mod files;
mod knn;
