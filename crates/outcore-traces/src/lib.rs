//! Traces of block devices and GPUs: streaming readers for the formats that exist, one record type
//! each, adapters that make a trace fit a volume, writers, summaries, and the pure part of a replay.
#![forbid(unsafe_code)]

pub mod adapt;
mod formats;
pub mod gpu;
pub mod io_trace;
mod lines;
mod reader;
pub mod replay_plan;
mod request;
mod skips;
mod source;
pub mod summary;
pub mod write;

pub use formats::{DEVICES_MAX, Format, detect};
pub use reader::{ReadOptions, TraceReader};
pub use request::{Op, Request};
pub use skips::{OnError, PLACES_MAX, Place, Reason, Skips};
pub use summary::Summary;
