//! What drives, and outcore on them, can do: measurements, replays of block traces, their reports.
//!
//! Contract: a measurement is a function from options and a [`Watch`] to a [`report::Report`]; it
//! prints nothing, leaves nothing behind and stops soon after it is asked to. The report is one
//! value with four faces: text for a terminal, JSON, CSV, and one HTML file with its charts in it.
//! Everything is done through the engine's public API.
//!
//! - [`args`]: the flags of the commands
//! - [`io`]: `bench io`: drives under load
//! - [`graph`]: `bench graph`: algorithms on graphs, on more and more drives
//! - [`primitives`]: `bench primitives`: map, filter, reduce, scan, shuffle against size
//! - [`replay`]: `replay`: traces of requests on drives
//! - [`sort`]: `bench sort`: a sort larger than memory compared with one in memory
//! - [`vectors`]: `bench vectors`: neighbours, clusters, sort and lookup of vectors, by threads and
//!   drives
//! - [`view`]: `bench view`: sorted views compared with sorts that write their result
//! - [`Watch`]: who is informed of a measurement, and may stop it
//! - [`report`]: tables, charts and findings, and how they are shown
#![forbid(unsafe_code)]

pub mod args;
mod bench_dirs;
pub mod graph;
pub mod io;
mod load;
pub mod primitives;
pub mod replay;
pub mod report;
pub mod sort;
mod striped;
pub mod vectors;
pub mod view;
mod watch;

pub use watch::Watch;
