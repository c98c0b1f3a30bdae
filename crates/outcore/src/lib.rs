//! outcore: compute on data far larger than memory, at the speed of all your SSDs.

pub mod checksum;
pub mod config;
pub mod data;
pub mod error;
pub mod units;

pub use error::{Error, Kind, Result};
