//! Algorithms on data larger than memory.
//!
//! [`sort::sort`] is the samplesort of PALID (SPAA 2025): sample, one distribution, then bucket by
//! bucket. [`plan`] decides how before anything is read.

mod bucket;
mod classify;
mod distribute;
mod crew;
mod elements;
pub mod generate;
mod ends;
mod in_memory;
mod kernel;
mod leaf;
pub mod plan;
pub mod sort;
