//! Turns arguments of the command and of Python (files, types, keys, drives, sizes) into jobs of
//! the engine.
//!
//! Contract: the command and the Python package request jobs in the same terms. The rules for these
//! terms are implemented here once, using only the engine's public API. Requests that can be
//! rejected without work are rejected here, before any work, with a cause, a place and a next step.
//! Nothing here prints, ends the process or sorts. Files are made only by [`recording`], and by
//! [`blocks`] and the modules that use it: copies of inputs that cannot be read twice, and outputs
//! that the engine does not write.
//!
//! Texts use the command's names of options. [`Spelling`] translates them, including those in the
//! engine's own texts, into the caller's notation, so that both front ends report the same.
//!
//! - [`inputs`]: names, manifests and streams as files with a header, data and an identity
//! - `compress`: compressed text, by the extensions of names; gzip by several threads
//! - [`content`]: detects what files hold by their first bytes; decides what may be read as lines
//!   or records
//! - [`what`]: the kind of an input: lines, CSV, JSON lines, records, a table, a view
//! - [`records`]: the type of records: from the caller or from headers, or an error that lists
//!   possible types
//! - [`output`]: the place of a result, permission to overwrite, and the room for it
//! - [`dataset`]: the inputs of a lazy dataset: files, lines that are compressed or CSV, drives
//! - [`resources`]: memory, threads, drives, device
//! - [`job`]: the job and the plan of a sort; the results of a check
//! - `allocator`: limits the freed memory that the C library keeps
//! - [`blocks`]: reads and writes the bytes of a file in order
//! - [`split`]: splits files into parts of whole lines or records
//! - [`spool`]: copies streams and compressed files to scratch
//! - [`recording`]: records the I/O of a run
//! - [`cost`]: resources that a run used, and its share of the drives' bandwidth
//! - [`record_cost`]: computation per record of a sort on this machine
//! - [`view`]: directories, ranges and keys of a sorted view
//! - [`spelling`]: options in texts, in the caller's notation
//! - [`volumes`]: datasets on volumes: the meaning of `@name`, `put`, `get`, `cp`
//! - [`streams`]: pipes for input and output, and waiting for their other ends
//! - [`objects`], [`object_outputs`]: objects of stores as inputs and as places of results
//! - [`staging`]: files that replace datasets, for a job that works on files
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
pub mod object_outputs;
pub mod objects;
pub mod output;
pub mod record_cost;
pub mod recording;
pub mod records;
pub mod resources;
#[cfg(feature = "tables")]
pub mod result_tables;
mod speeds;
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
