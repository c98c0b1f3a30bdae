//! One request of a block trace, in the same form for every format.
//!
//! Contract: a `Request` is a recorded request to a block device. Units are bytes and nanoseconds,
//! independent of the file's units. `time_ns` counts from the format's own origin (see `Format`).
//! Across formats only differences have a meaning, so replays rebase it. `offset_bytes + len_bytes`
//! never exceeds `u64::MAX`: parsers reject such lines.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Read `len_bytes` at `offset_bytes`.
    Read,
    /// Write `len_bytes` at `offset_bytes`.
    Write,
    /// Discard the range.
    Trim,
    /// Make earlier writes durable; offset and length have no meaning and are 0.
    Flush,
}

impl Op {
    /// Whether the operation moves data (`Read` and `Write`).
    pub const fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }

    /// Lower-case name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "flush",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request of a block trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Time of issue, in nanoseconds of the trace's own clock.
    pub time_ns: u64,
    /// The device, volume or file of the trace. Formats that name devices number them in order of
    /// appearance (`TraceReader::device_name` returns the name).
    pub device: u32,
    /// The operation.
    pub op: Op,
    /// First byte on that device.
    pub offset_bytes: u64,
    /// Requested bytes; zero is legal in some traces.
    pub len_bytes: u64,
}

impl Request {
    /// First byte after the request.
    pub const fn end_bytes(&self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// Whether offset and length are both multiples of `block_bytes` (which must not be 0).
    pub const fn is_aligned(&self, block_bytes: u64) -> bool {
        self.offset_bytes.is_multiple_of(block_bytes) && self.len_bytes.is_multiple_of(block_bytes)
    }
}
