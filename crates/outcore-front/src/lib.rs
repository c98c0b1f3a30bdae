//! From what a user names to what the engine runs.
//!
//! Contract: the command and the Python package ask for jobs in the same terms (files, types, keys,
//! drives, sizes), so the rules about them stand here once, on the engine's public API alone.
//! Everything that can be refused without work is refused here, before any work, with a cause, a
//! place and a next step. Nothing here prints, ends the process or sorts; files are made by
//! [`recording`], and by [`blocks`] and what stands on it: copies of what cannot be read twice, and
//! outputs that the engine does not write.
//!
//! Texts name options as the command spells them. [`Spelling`] says them as the caller writes
//! them, the engine's own texts included, so that both fronts say the same.
//!
//! - [`inputs`]: names, manifests and streams as files with a header, data and an identity
//! - `compress`: compressed text, by the ends of names; gzip by several threads
//! - [`content`]: what files hold, by their first bytes; what may be taken for lines or records
//! - [`what`]: what an input is: lines, CSV, JSON lines, records, a table, a view
//! - [`records`]: what the records are: from the caller, from headers, or a question
//! - [`output`]: where a result goes, what may be overwritten, whether there is room
//! - [`dataset`]: what users name of a lazy dataset: files, lines that are compressed or CSV,
//!   drives
//! - [`resources`]: memory, threads, drives, device
//! - [`job`]: a sort settled: its job and its plan; what a check found
//! - `allocator`: how much freed memory the C library keeps
//! - [`blocks`]: bytes in order into a new file
//! - [`split`]: files cut into parts of whole lines or records
//! - [`spool`]: streams and compressed files, copied to scratch
//! - [`recording`]: the I/O of a run, recorded
//! - [`cost`]: what a run used, and how much of the drives' speed
//! - [`record_cost`]: what a sort computes for a record on this machine
//! - [`view`]: what users name of a sorted view
//! - [`spelling`]: options in texts, the caller's way
//! - [`volumes`]: datasets on volumes: what `@name` means, `put`, `get`, `cp`
//! - [`streams`]: pipes in and out, and the wait for their other ends
//! - [`staging`]: files in the place of datasets, for a job that takes files
//! - `result_tables`: results of graphs as tables, with the feature `tables`
//! - `table_edges`: columns of tables as edges of graphs, with the feature `tables`
//! - [`table_vectors`]: a column of a table as a file of vectors, with the same feature
//! - [`text`]: lines and their orders: GNU sort's, a column of CSV, a field of JSON

mod allocator;
pub mod blocks;
mod compress;
pub mod content;
pub mod cost;
pub mod dataset;
pub mod inputs;
pub mod job;
pub mod output;
pub mod record_cost;
pub mod recording;
pub mod records;
pub mod resources;
#[cfg(feature = "tables")]
pub mod result_tables;
mod spelling;
pub mod split;
pub mod spool;
pub mod staging;
pub mod streams;
#[cfg(feature = "tables")]
pub mod table_edges;
pub mod table_vectors;
pub mod text;
pub mod view;
pub mod volumes;
pub mod what;

pub use spelling::Spelling;
