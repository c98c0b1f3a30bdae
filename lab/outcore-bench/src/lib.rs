//! Measures drives, and outcore on them; replays block traces; and makes reports of the results.
//!
//! Contract: a measurement is a function from options and a [`Watch`] to an
//! [`outcore_report::Report`]. It prints nothing, leaves no files behind and stops soon after the
//! caller asks it to. The report is one value with four representations: text for a terminal, JSON,
//! CSV, and one HTML file that contains its charts. All measurements use the engine's public API.
//!
//! - [`args`]: the options of the commands
//! - [`io`]: `bench io`: drives under load
//! - [`graph`]: `bench graph`: graph algorithms on increasing numbers of drives
//! - [`primitives`]: `bench primitives`: map, filter, reduce, scan, shuffle by size
//! - [`replay`]: `replay`: traces of requests on drives
//! - [`sort`]: `bench sort`: a sort larger than memory compared with one in memory
//! - [`vectors`]: `bench vectors`: neighbours, clusters, sort and lookup of vectors, by threads and
//!   drives
//! - [`view`]: `bench view`: sorted views compared with sorts that write their result
//! - [`Watch`]: the caller that is informed of a measurement and may stop it
#![forbid(unsafe_code)]

pub mod args;
mod bench_dirs;
pub mod graph;
pub mod io;
mod load;
pub mod primitives;
pub mod replay;
pub mod sort;
mod striped;
pub mod vectors;
pub mod view;
mod watch;

pub use watch::Watch;
