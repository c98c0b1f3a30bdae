//! Compute on data far larger than memory, at the speed of all SSDs of one machine.
//!
//! A sort reads its input, distributes it into buckets by sampled splitters, sorts bucket by bucket
//! and writes the result at its final place; memory stays under a cap and the output is absent or
//! complete. The algorithms are those of PALID (Li, Khan, Dhulipala, "Scaling Parallel Algorithms to
//! Massive Datasets using Multi-SSD Machines", SPAA 2025); the way drives are served is Falcon's
//! (Kumar, Huang, ATC 2017).
//!
//! ```
//! use outcore::algo::sort::{SortInput, SortOptions, SortOutput, sort};
//! use outcore::config::IoMode;
//! use outcore::data::record::RecordFormat;
//! use outcore::job::{Job, JobOptions};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let input = dir.path().join("numbers.bin");
//! # let output = dir.path().join("sorted.bin");
//! std::fs::write(&input, [3u64, 1, 2].map(u64::to_le_bytes).concat())
//!     .map_err(|e| outcore::Error::io("write input", &e))?;
//!
//! let job = Job::new(JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() }, IoMode::Auto);
//! let summary = sort(
//!     &job,
//!     &[SortInput::raw(&input)],
//!     SortOutput::File { path: output.clone(), header: None },
//!     &RecordFormat::parse_type("u64")?,
//!     SortOptions::default(),
//! )?;
//! assert_eq!(summary.records, 3);
//! assert_eq!(std::fs::read(&output).ok(), Some([1u64, 2, 3].map(u64::to_le_bytes).concat()));
//! # Ok(())
//! # }
//! ```
//!
//! | layer | holds |
//! |---|---|
//! | [`error`], [`units`], [`config`], [`checksum`], [`threads`] | failures as values, sizes as text, settings, block checksums, threads that may be refused |
//! | [`memory`] | one cap for a job; aligned buffers that are moved, never copied |
//! | [`drive`] | one drive: the seam [`drive::Device`] and its backends |
//! | [`volume`] | many drives: lanes, scratch, outputs that are absent or complete |
//! | [`data`] | records and their order, generators, checkers, NumPy headers |
//! | [`stream`] | blocks in, bytes out at their place, samples |
//! | [`job`] | what a run may use, how it is watched and stopped |
//! | [`algo`] | plan, sort, sorted views, verify, generate |
//!
//! A layer imports only from itself and from those above it in this table. `ARCHITECTURE.md` follows
//! a block through all of them.

pub mod algo;
pub mod data;
pub mod dataset;
pub mod job;
pub mod stream;
pub mod volume;

pub use outcore_io::{Error, Kind, Result};
pub use outcore_io::{checksum, config, drive, error, memory, metadata, threads, units};
