//! Tables for outcore: Arrow and Parquet in and out within a memory budget, and rows that the engine can sort.
//!
//! Everything that a job on tables needs around the engine, and nothing that the engine does: no sort, no spill,
//! no partition of its own.
//!
//! | module | holds |
//! |---|---|
//! | `schema` | columns by name, what differs between tables, the schema of several |
//! | [`rows`] | a record batch as items of bytes with comparable keys, and back |
//! | [`input`] | Parquet and Arrow files as one table in pieces, read in parallel, pruned, projected |
//! | [`output`] | row groups encoded in parallel, appended in order, published whole |
//! | [`copy`](mod@copy) | the path from one to the other |
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions};
//! use outcore_table::copy::copy;
//! use outcore_table::input::InputOptions;
//! use outcore_table::output::{OutputOptions, TableFormat};
//!
//! # fn main() -> outcore::Result<()> {
//! let job = Job::new(JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() }, IoMode::Auto);
//! let options = OutputOptions::new(TableFormat::Parquet);
//! let missing = ["missing.parquet".into()];
//! let error = copy(&job, &missing, &InputOptions::default(), &["out.parquet".into()], &options);
//! assert!(error.is_err());
//! # Ok(())
//! # }
//! ```

pub mod copy;
mod fault;
pub mod input;
pub mod output;
pub mod rows;
mod schema;
