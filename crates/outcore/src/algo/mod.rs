//! Algorithms on data larger than memory.
//!
//! [`sort::sort`] is the samplesort of PALID (SPAA 2025): sample, one distribution, then bucket by
//! bucket. [`plan`] decides how before anything is read. [`lines::sort_lines`] does the same with
//! lines. [`shuffle::shuffle`] is Sanders' (1998), on the same buckets.

pub mod bucketer;
mod cut;
mod distribute;
mod elements;
mod ends;
pub mod generate;
mod in_memory;
pub mod lines;
mod merge;
mod partition;
pub mod plan;
pub mod sequence;
mod shared;
pub mod shuffle;
pub mod sort;
mod sort_task;
mod split;
pub mod verify;
pub mod view;
