//! Tables for outcore: reads and writes Arrow and Parquet within a memory budget, and converts rows
//! to items that the engine can sort.
//!
//! The crate has everything that a job on tables needs around the engine. Sorting, spilling and
//! partitioning are the engine's.
//!
//! - `equal`: which values of a key are equal even if their bytes differ
//! - `schema`: finds columns by name, and reports how two tables differ
//! - `common`: a common type for two types, and a common schema for several tables
//! - [`rows`]: converts a record batch to byte items with comparable keys, and back
//! - [`expr`]: expressions over columns, for new columns and for filters
//! - [`input`]: Parquet and Arrow files as one table, read in parallel pieces with projection and
//!   pruning
//! - [`output`]: encodes row groups in parallel, appends them in order, and publishes whole files
//! - [`jobs`]: jobs that read tables, run the engine and write tables: copy, select, sort, shuffle,
//!   unique, dedup
//! - [`stream`]: passes tables to and from other libraries, batch by batch
//! - `notation`: column types as users write them
//! - `fault`: errors and panics of the libraries as errors of outcore
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::cast::AsArray;
//! use arrow_array::types::Int64Type;
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
//! use outcore::{IoMode, Job, JobOptions};
//! use outcore_table::input::{InputOptions, TableInput};
//! use outcore_table::jobs::{TableEnds, TableOrder, sort};
//! use outcore_table::output::{OutputOptions, TableFormat};
//! use outcore_table::rows::KeyColumn;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (table, sorted) = (dir.path().join("t.parquet"), dir.path().join("s.parquet"));
//! let country: ArrayRef = Arc::new(StringArray::from(vec!["us", "de", "de"]));
//! let time: ArrayRef = Arc::new(Int64Array::from(vec![5, 7, 9]));
//! let batch = RecordBatch::try_from_iter([("country", country), ("time", time)])?;
//! let file = std::fs::File::create(&table)?;
//! let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None)?;
//! writer.write(&batch)?;
//! writer.close()?;
//!
//! // By country, the latest first, in 64 MiB however large the table is.
//! let options = JobOptions { memory_bytes: 64 << 20, ..JobOptions::default() };
//! let job = Job::new(options, IoMode::Auto);
//! let ends = TableEnds {
//!     inputs: &[table],
//!     reads: &InputOptions::default(),
//!     outputs: &[sorted.clone()],
//!     writes: &OutputOptions::new(TableFormat::Parquet),
//! };
//! let keys = vec![KeyColumn::new("country"), KeyColumn::new("time").descending()];
//! let done = sort(&job, &ends, &TableOrder { keys, ..TableOrder::default() })?;
//! assert_eq!(done.rows_out, 3);
//!
//! let input = TableInput::open(&job, &[sorted], &InputOptions::default())?;
//! let mut reader = input.reader(16 << 20)?;
//! let mut times = Vec::new();
//! for &piece in input.pieces() {
//!     for batch in reader.open(piece)? {
//!         times.extend(batch?.column(1).as_primitive::<Int64Type>().values().to_vec());
//!     }
//! }
//! assert_eq!(times, [9, 7, 5]);
//! # Ok(())
//! # }
//! ```

mod common;
mod equal;
pub mod expr;
mod fault;
pub mod input;
pub mod jobs;
pub mod notation;
pub mod output;
pub mod rows;
mod schema;
pub mod stream;
