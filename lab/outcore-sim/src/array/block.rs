//! Block traces of every format of `outcore_traces`, replayed on an array.
//!
//! Model: open loop, at the recorded times divided by `speedup` regardless of what the drives do;
//! or closed loop, with a fixed number of requests in flight.
//! - [`super::layout`] lays out every device of the trace over the array as the trace touches it,
//!   so offsets need no folding into a volume.
//! - A trace that touches more than the drives hold is rejected, wrapped or scaled ([`Fit`]).
//! - Requests are widened to sectors. For a request smaller than a mapping unit, the drive model
//!   reads, modifies and writes the unit.
//! - Flushes take no time.
//!
//! Invariants: every readable request is submitted and finished; a warning counts the lines that
//! cannot be read. Bounds: constant memory for the trace itself.

use std::path::Path;

use outcore_io::{Error, Result};
use outcore_traces::adapt::{AdaptOptions, Adapted};
pub use outcore_traces::parse_time_unit;
use outcore_traces::{Format, Op as TraceOp, ReadOptions, Request, Summary, TraceReader};

use super::{Array, ArrayConfig, ArrayRequest, Between, Finished, OPERATION, ReplayReport};
use crate::drive::Op;
use crate::fit::Fit;
use crate::quantities::{NS, Ps};
use crate::workload::{List, ListItem};

/// Maximum number of bytes of one request; longer requests are split.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// A request of a list that is longer than any drive is rejected before it is split.
const LIST_REQUEST_BYTES_MAX: u64 = 1 << 40;

/// When requests are released.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loop {
    /// At the recorded times, accelerated by this factor.
    Open {
        /// 1 is real time.
        speedup: f64,
    },
    /// With a fixed number of requests in flight.
    Closed {
        /// Number of requests in flight, at least 1.
        depth: u32,
    },
}

/// How a block trace is read and played.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockOptions {
    /// The format, if the content does not identify it.
    pub format: Option<Format>,
    /// Nanoseconds per unit of time, if it differs from the format's own.
    pub time_unit_ns: Option<u64>,
    /// Open or closed loop.
    pub pace: Loop,
    /// Stop after this many requests; 0 takes all.
    pub requests_max: u64,
}

impl Default for BlockOptions {
    fn default() -> Self {
        BlockOptions {
            format: None,
            time_unit_ns: None,
            pace: Loop::Open { speedup: 1.0 },
            requests_max: 0,
        }
    }
}

fn reader(path: &Path, options: &BlockOptions) -> Result<TraceReader> {
    let format = ReadOptions {
        format: options.format,
        time_unit_ns: options.time_unit_ns,
        ..ReadOptions::default()
    };
    TraceReader::open(path, &format)
}

/// The trace as it is played. A read or write of more than `longest_bytes` is an error that names
/// the request.
fn open(path: &Path, options: &BlockOptions, longest_bytes: u64) -> Result<Adapted<TraceReader>> {
    let speedup = match options.pace {
        Loop::Open { speedup } => speedup,
        Loop::Closed { depth: 0 } => {
            return Err(Error::usage(
                OPERATION,
                "a closed loop needs a depth of 1 or more",
            ));
        }
        Loop::Closed { .. } => 1.0,
    };
    Adapted::new(
        reader(path, options)?,
        AdaptOptions {
            speedup,
            block_bytes: 512,
            request_bytes_max: Some(REQUEST_BYTES_MAX),
            longest_bytes: Some(longest_bytes),
            ..AdaptOptions::default()
        },
    )
}

fn skipped(trace: &Adapted<TraceReader>, path: &Path) -> Vec<String> {
    let skips = trace.inner().skips();
    let mut warnings = Vec::new();
    if skips.total() > 0 {
        warnings.push(format!(
            "{}: {} lines could not be read and were left out",
            path.display(),
            skips.total()
        ));
    }
    if let Some(note) = trace.inner().note() {
        warnings.push(format!("{}: {note}", path.display()));
    }
    let dropped = trace.changes().dropped;
    if dropped > 0 {
        warnings.push(format!(
            "{}: {dropped} requests of no bytes were left out",
            path.display()
        ));
    }
    warnings
}

/// A trace without any request is the wrong file, or the wrong events were recorded.
fn nothing_in(path: &Path) -> Error {
    Error::usage(OPERATION, "there is no request in the trace").path(path)
}

fn request(number: u64, request: &Request) -> ArrayRequest {
    ArrayRequest {
        number,
        drive: request.device,
        file: request.device,
        op: match request.op {
            TraceOp::Read => Op::Read,
            TraceOp::Write => Op::Write,
            TraceOp::Trim | TraceOp::Flush => Op::Trim,
        },
        offset_bytes: request.offset_bytes,
        bytes: request.len_bytes,
    }
}

/// Replays the block trace at `path` on an array.
///
/// # Errors
/// The trace cannot be read, its format is not recognised, a request does not fit, or the array
/// cannot be built.
pub fn replay_block(
    config: &ArrayConfig,
    path: &Path,
    options: &BlockOptions,
) -> Result<ReplayReport> {
    let mut array = Array::new(config)?;
    let mut trace = open(path, options, array.whole_bytes())?;
    if config.fit == Fit::Scale {
        let mut whole = reader(path, options)?;
        let summary = Summary::of(&mut whole)?;
        array.scale(summary.span_bytes, summary.devices);
    }
    let limit = if options.requests_max == 0 {
        u64::MAX
    } else {
        options.requests_max
    };
    let depth = match options.pace {
        Loop::Open { .. } => u64::MAX,
        Loop::Closed { depth } => u64::from(depth),
    };
    let (mut taken, mut finished_count) = (0u64, 0u64);
    let mut late = 0u64;
    let mut last_due = 0;
    let mut finished: Vec<Finished> = Vec::new();
    let mut waiting: Option<Request> = None;
    loop {
        if waiting.is_none() && taken < limit {
            waiting = trace.next().transpose()?;
        }
        let next = array.next_at();
        let due = waiting.as_ref().and_then(|request| match options.pace {
            Loop::Open { .. } => Some(request.time_ns.saturating_mul(NS)),
            Loop::Closed { .. } => (taken - finished_count < depth).then(|| array.now()),
        });
        if let Some(due) = due
            && next.is_none_or(|next| due <= next)
            && let Some(item) = waiting.take()
        {
            // For traces that are not sorted: no request starts before the one in front of it.
            late += u64::from(due < array.now());
            last_due = due.max(array.now());
            array.submit(last_due, &request(trace.changes().taken, &item), taken)?;
            taken += 1;
            continue;
        }
        if next.is_none() || (due.is_none() && array.is_idle()) {
            break;
        }
        array.run_until(due.unwrap_or(Ps::MAX), &mut finished)?;
        finished_count += finished.drain(..).len() as u64;
    }
    assert_eq!(taken, finished_count, "a request of the trace was lost");
    let mut warnings = skipped(&trace, path);
    if late > 0 && matches!(options.pace, Loop::Open { .. }) {
        warnings.push(format!(
            "{late} requests are out of order and went out later than recorded"
        ));
    }
    if taken == 0 {
        return Err(nothing_in(path));
    }
    let end = array.now();
    let between = match options.pace {
        Loop::Open { .. } => Between::Pace(last_due),
        Loop::Closed { .. } => Between::Depth,
    };
    array.report(end, between, warnings)
}

/// Reads a block trace as the list of one flow: addresses of all devices on one drive.
/// [`crate::run::RunOptions::fit`] decides what happens to requests beyond the flow's range. 32
/// bytes per request.
///
/// # Errors
/// As [`replay_block`].
pub fn load_list(path: &Path, options: &BlockOptions) -> Result<(List, Vec<String>)> {
    let mut trace = open(path, options, LIST_REQUEST_BYTES_MAX)?;
    let mut items: Vec<ListItem> = Vec::new();
    let mut last: Ps = 0;
    while options.requests_max == 0 || (items.len() as u64) < options.requests_max {
        let Some(request) = trace.next().transpose()? else {
            break;
        };
        let op = match request.op {
            TraceOp::Read => Op::Read,
            TraceOp::Write => Op::Write,
            TraceOp::Trim => Op::Trim,
            TraceOp::Flush => continue,
        };
        last = last.max(request.time_ns.saturating_mul(NS));
        items.push(ListItem {
            at: last,
            op,
            lba: request.offset_bytes / 512,
            sectors: (request.len_bytes / 512) as u32,
        });
    }
    let warnings = skipped(&trace, path);
    if items.is_empty() {
        return Err(nothing_in(path));
    }
    let depth = match options.pace {
        Loop::Open { .. } => 0,
        Loop::Closed { depth } => depth,
    };
    let list = List {
        items,
        depth,
        rounds: 1,
        file: None,
    };
    Ok((list, warnings))
}
