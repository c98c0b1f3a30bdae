//! The drives of one machine. This crate knows nothing about records.
//!
//! All I/O of outcore goes through this crate. It has memory under a limit, drives behind one
//! interface ([`drive::Device`]), a thread's access to all drives ([`port`]), scratch, and outputs
//! that are absent or complete. Only this crate submits requests to the system and polls for them.
//!
//! - [`error`], [`units`], [`config`], [`checksum`], [`metadata`], [`threads`], [`nodes`]: failures
//!   as values, sizes as text, settings and their sources, block checksums, small files that
//!   describe large ones, thread creation that may fail, NUMA nodes
//! - [`memory`]: one limit per job, the ledger of what a plan reserves, aligned buffers that are
//!   moved and never copied
//! - [`drive`]: one drive: names and queues, io_uring, threads with pread and pwrite, faults,
//!   recording of I/O, the probe
//! - [`port`]: the drives of a job, and one thread's access to all of them
//! - [`transfers`]: one thread's reads and writes in flight: submitting, waiting and completing
//! - [`scratch`], [`output`], [`consumed`]: space for data that do not fit in memory, files that
//!   appear complete, inputs whose blocks are freed while they are read
//! - [`journal`]: records of a job that can be resumed
//!
//! A module imports only from its own row and the rows above it.

pub mod checksum;
pub mod config;
pub mod consumed;
pub mod drive;
pub mod error;
pub mod journal;
pub mod memory;
pub mod metadata;
pub mod nodes;
pub mod output;
pub mod port;
pub mod scratch;
pub mod stop;
pub mod threads;
pub mod transfers;
pub mod units;

pub use error::{Error, Kind, Result};
