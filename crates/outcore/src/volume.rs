//! The drives of a job and what is kept on them, under the names that callers of this crate know.
//!
//! Contract: nothing is defined here; everything comes from `outcore-io` (the drives of a job, scratch,
//! outputs) and `outcore-store` (striped volumes, datasets).

pub use outcore_io::port::*;
pub use outcore_io::{consumed, output, scratch, transfers};
pub use outcore_store::{batch, dataset, load, mapping, striped};
