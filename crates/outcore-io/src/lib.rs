//! ONE machine's drives, knowing nothing of records.
//!
//! Everything that outcore reads or writes goes through here: memory under a cap, drives behind one
//! seam ([`drive::Device`]), a thread's access to all of them ([`port`]), scratch, and outputs that
//! are absent or complete. Only this crate submits requests to the system and polls for them.
//!
//! - [`error`], [`units`], [`config`], [`checksum`], [`metadata`], [`threads`], [`nodes`]: failures
//!   as values, sizes as text, settings and where they came from, block checksums, small files that
//!   describe large ones, threads that the system may reject, NUMA nodes
//! - [`memory`]: one cap for a job, the ledger of what a plan reserves, aligned buffers that are
//!   moved and never copied
//! - [`drive`]: one drive: names and queues, io_uring, threads with pread and pwrite, faults,
//!   recording of I/O, the probe
//! - [`port`]: the drives of a job, and one thread's access to all of them
//! - [`transfers`]: one thread's reads and writes in flight: submitting, waiting and completing
//! - [`scratch`], [`output`], [`consumed`]: space for what does not fit in memory, files that
//!   appear complete, inputs that are given back while they are read
//!
//! A module imports only from its own row and from those above it.

pub mod checksum;
pub mod config;
pub mod consumed;
pub mod drive;
pub mod error;
pub mod memory;
pub mod metadata;
pub mod nodes;
pub mod output;
pub mod port;
pub mod scratch;
pub mod threads;
pub mod transfers;
pub mod units;

pub use error::{Error, Kind, Result};
