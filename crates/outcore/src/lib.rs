//! outcore: compute on data far larger than memory, at the speed of all your SSDs.

pub mod algo;
pub mod checksum;
pub mod config;
pub mod data;
pub mod drive;
pub mod error;
pub mod job;
pub mod memory;
pub mod stream;
pub mod units;
pub mod volume;

pub use error::{Error, Kind, Result};
