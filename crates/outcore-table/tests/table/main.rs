//! All table tests in one program, compared with the libraries and naive twins.
//!
//! Contract: the expected results come from the Arrow and Parquet libraries, which read and write
//! files without outcore, or from a naive twin of the job.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::too_many_lines,
    unreachable_pub
)]

mod common;

mod diffs;
mod expressions;
mod faults;
mod field_keys;
mod files;
mod fuzzed;
mod groups;
mod in_flight;
mod interop;
mod jobs;
mod joins;
mod kept;
mod logical;
mod merges;
mod messy_text;
mod near;
mod objects;
mod partitions;
mod parts;
mod repeats;
mod rows;
mod select;
mod substring;
mod text;
mod top;
mod unions;
mod verify;
mod views;
mod wide;
mod windows;

#[path = "../../../outcore/tests/support/depth.rs"]
#[allow(dead_code, unreachable_pub)] // other tests use more of it
mod depth;
#[path = "../../../outcore-io/tests/support/devices.rs"]
#[allow(dead_code, unreachable_pub)]
mod devices;
