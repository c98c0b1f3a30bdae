//! Traces of block devices and GPUs: streaming readers for the existing formats, one record type
//! for each kind, adapters that make a trace fit a volume, writers, summaries, and the pure part of
//! a replay.
//!
//! Contract: files of any length are read in constant memory. Entries that cannot be read are
//! counted with their place and reason. Nothing here does I/O on drives, so that `outcore replay`
//! and the simulator see exactly the same requests.
//!
//! `docs/formats/traces.md` describes the formats.
//!
//! - (root): [`TraceReader`] reads the block traces of [`Format::ALL`] as [`Request`]s
//! - [`summary`]: Falcon's Table 2 and the footprint, in one pass
//! - [`adapt`]: speed, wrapping or scaling into a volume, widening to blocks, splitting, sorting
//! - [`replay_plan`]: when each request is released: open, closed or dependent loop
//! - [`mod@write`]: fio iolog version 3, MQSim ASCII
//! - [`io_trace`]: outcore's own trace with dependencies (`docs/formats/io-trace.md`)
//! - [`gpu`]: kernels from PyTorch profiles, nsys reports and MacSim's lists
//!
//! ```
//! use outcore_traces::adapt::{AdaptOptions, Adapted, Fit};
//! use outcore_traces::{ReadOptions, TraceReader};
//!
//! let spc = "0,303568,3584,w,0.0\n0,damaged\n0,55590,512,r,0.026\n";
//! let trace = TraceReader::from_stream(spc.as_bytes(), "example", &ReadOptions::default())?;
//! let fit = Fit::Wrap { volume_bytes: 64 << 20 };
//! let mut adapted = Adapted::new(trace, AdaptOptions { fit, ..AdaptOptions::default() })?;
//! let sizes: Vec<u64> =
//!     adapted.by_ref().map(|request| Ok(request?.len_bytes)).collect::<Result<_, _>>()?;
//! assert_eq!(sizes, [4096, 4096]);
//! assert_eq!(adapted.changes().widened_reads, 1);
//! assert_eq!(adapted.inner().skips().total(), 1);
//! # Ok::<(), outcore_io::Error>(())
//! ```
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
mod stages;
pub mod summary;
pub mod write;

pub use formats::{FORMAT_HELP, Format, detect, parse_time_unit};
pub use reader::{ReadOptions, TraceReader};
pub use request::{Op, Request};
pub use skips::{OnError, Reason, SkippedLine, Skips};
pub use stages::ResponseTimes;
pub use summary::Summary;
