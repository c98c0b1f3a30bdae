//! Compute on data far larger than memory, at the speed of all SSDs of one machine.
//!
//! A [`Context`] is the starting point: it says how much memory, which threads and which drives to
//! use. It reads files as lazy datasets. Steps fuse into as few passes over the drives as possible.
//! Memory stays under the limit, and an output is absent or complete. The algorithms are those of
//! PALID (Li, Khan, Dhulipala, "Scaling Parallel Algorithms to Massive Datasets using Multi-SSD
//! Machines", SPAA 2025). The drives are served as in Falcon (Kumar, Huang, ATC 2017).
//!
//! # Numbers
//! Steps are closures, compiled together. If `sort` is the last step, it writes directly to the
//! output.
//!
//! ```
//! use outcore::Context;
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let here = |name: &str| dir.path().join(name);
//! # std::fs::write(here("keys-0.bin"), [3u64, 8, 2, 7].map(u64::to_le_bytes).concat())
//! #     .map_err(|e| outcore::Error::io("write input", &e))?;
//! let ctx = Context::builder().memory("64MiB").build()?;
//! ctx.read::<u64>(here("keys-*.bin"))?
//!     .filter(|x| x % 2 == 0)
//!     .sort()
//!     .write(here("even.bin"))?;
//! assert_eq!(ctx.read::<u64>(here("even.bin"))?.collect()?, [2, 8]);
//! # Ok(())
//! # }
//! ```
//!
//! # Lines
//! Orders are those of GNU sort's keys: by field, numeric, descending.
//!
//! ```
//! use outcore::{Context, field};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let here = |name: &str| dir.path().join(name);
//! # let failed = |error: std::io::Error| outcore::Error::io("read or write", &error);
//! # std::fs::write(here("log"), "b 10\na 9\nc 10\n").map_err(failed)?;
//! let ctx = Context::builder().memory("64MiB").build()?;
//! ctx.lines(here("log"))?
//!     .sort_by(field(2).numeric().descending().then(field(1)))
//!     .write(here("sorted"))?;
//! # let sorted = std::fs::read_to_string(here("sorted")).map_err(failed)?;
//! assert_eq!(sorted, "b 10\nc 10\na 9\n");
//! # Ok(())
//! # }
//! ```
//!
//! # Reductions
//! Any associative operator reduces a dataset. If results are numbered, reduce by index.
//!
//! ```
//! use outcore::Context;
//!
//! # fn main() -> outcore::Result<()> {
//! let ctx = Context::builder().memory("64MiB").build()?;
//! let squares = ctx.tabulate(1_000_000, |i| i).map(|x| x * x);
//! assert_eq!(squares.reduce(0, u64::wrapping_add)?, 333_332_833_333_500_000);
//! let digits = ctx.tabulate(1_000_000, |i| i).map(|x| (x % 10) as usize);
//! assert_eq!(digits.histogram_by_index(10)?, [100_000; 10]);
//! # Ok(())
//! # }
//! ```
//!
//! # Scatter and gather
//! Items go to buckets on the drives; then a function is called on each bucket, in memory.
//!
//! ```
//! use outcore::Context;
//!
//! # fn main() -> outcore::Result<()> {
//! let ctx = Context::builder().memory("64MiB").build()?;
//! let buckets = ctx.tabulate(1000, |i| i).distribute(4, |x| (x % 4) as usize)?;
//! let largest = buckets.dataset().max()?;
//! assert_eq!(largest, Some(999));
//! # Ok(())
//! # }
//! ```
//!
//! # Records, file to file
//! The functions below the datasets take a [`Job`] and give full control: any record, any keys,
//! shards, headers, and the figures of each phase.
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions, RecordFormat, Input, SortOptions, Output, sort};
//!
//! # fn main() -> outcore::Result<()> {
//! # let dir = tempfile::tempdir().map_err(|e| outcore::Error::io("make a directory", &e))?;
//! # let (input, output) = (dir.path().join("in.bin"), dir.path().join("out.bin"));
//! std::fs::write(&input, [3u64, 1, 2].map(u64::to_le_bytes).concat())
//!     .map_err(|e| outcore::Error::io("write input", &e))?;
//! let limits = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(limits, IoMode::Auto);
//! let summary = sort(
//!     &job,
//!     &[Input::raw(&input)],
//!     Output::File { path: output.clone(), header: None },
//!     &RecordFormat::parse_type("u64")?,
//!     SortOptions::default(),
//! )?;
//! assert_eq!(summary.records, 3);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//! | module | contents |
//! |---|---|
//! | [`dataset`] | lazy datasets; most names at the root belong to them |
//! | [`sort`] | the samplesort, of records and of lines |
//! | [`shuffle`] | random permutations that a seed determines |
//! | [`primitives`] | map, filter, scan, reduce, gather and similar operations on sequences |
//! | [`runs`] | sorted views: runs that are merged while they are read |
//! | [`key`] | records, lines and their order, checkers, NumPy headers |
//! | [`read`] | input as blocks and whole records, samples |
//! | [`job`] | the resources of a run, and how it is observed and stopped |
//! | [`states`], [`passes`] | jobs in passes that continue after a kill |
//!
//! Two crates are below these modules: `outcore-io`, the drives of one machine, and
//! `outcore-store`, volumes and stored datasets. `ARCHITECTURE.md` follows a block through all of
//! them.

pub mod dataset;
mod ends;
mod forecast;
pub mod job;
pub mod key;
mod layout;
mod merge;
mod partition;
pub mod passes;
pub mod primitives;
pub mod read;
mod read_back;
pub mod runs;
pub mod shuffle;
pub mod sort;
pub mod states;
pub mod verify;
mod writer;

pub use dataset::{
    Buckets, Context, ContextBuilder, Dataset, Field, Lines, Sortable, Step, Summary, TypedDataset,
    field,
};
pub use ends::{DriveTraffic, Input, MakeHeader, Output, Phase};
pub use forecast::{Amounts, Forecast, PhasePlan, predicted_text};
pub use job::{
    Control, DriveRates, ItemHash, Job, JobOptions, Progress, ResumeOptions, ScratchDrive,
};
pub use key::{ByteOrder, NpyHeader, RecordFormat, SortKey, Tie};
pub use layout::Bound;
pub use outcore_io::config::IoMode;
pub use outcore_io::drive::Device;
pub use outcore_io::{Error, Kind, Result};
pub use partition::restored::ANOTHER_JOB;
pub use partition::resume::{is_kept, resumable, was_published};
pub use primitives::{Inclusion, Sequence};
pub use runs::{BuildOptions, SortedView, build as build_view};
pub use shuffle::{ShuffleOptions, ShuffleSummary, Unit, shuffle};
pub use sort::lines::{
    LineSortOptions, LineSummary, OnNoKey, check_lines, merge_lines, sort_lines,
};
pub use sort::{SortOptions, SortSummary, sort};
pub use states::GIVE_UP;
pub use verify::verify;
