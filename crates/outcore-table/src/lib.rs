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
//! | [`jobs`] | copy, sort, shuffle, unique: from one to the other, through the engine |
//!
//! ```
//! use outcore::{IoMode, Job, JobOptions};
//! use outcore_table::input::InputOptions;
//! use outcore_table::jobs::{TableEnds, TableOrder, sort};
//! use outcore_table::output::{OutputOptions, TableFormat};
//! use outcore_table::rows::KeyColumn;
//!
//! # fn main() -> outcore::Result<()> {
//! let job = Job::new(JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() }, IoMode::Auto);
//! let ends = TableEnds {
//!     inputs: &["missing.parquet".into()],
//!     reads: &InputOptions::default(),
//!     outputs: &["sorted.parquet".into()],
//!     writes: &OutputOptions::new(TableFormat::Parquet),
//! };
//! let order = TableOrder { keys: vec![KeyColumn::new("country")], ..TableOrder::default() };
//! let error = sort(&job, &ends, &order);
//! assert!(error.is_err());
//! # Ok(())
//! # }
//! ```

mod fault;
pub mod input;
pub mod jobs;
pub mod output;
pub mod rows;
mod schema;
