//! outcore: compute on data far larger than memory, at the speed of all your SSDs.

pub mod error;

pub use error::{Error, Kind, Result};
