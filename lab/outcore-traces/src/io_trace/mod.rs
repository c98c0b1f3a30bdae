//! outcore's own I/O trace: the requests of a job to its drives, their times, and their
//! dependencies.
//!
//! Contract: the format of `docs/formats/io-trace.md`, version 1: a header with JSON metadata, then
//! records of 64 bytes, little-endian, in the order in which requests completed. Each request
//! contains the number of completions that its thread had taken before it, and how long the thread
//! had computed since. A replay can therefore be a closed loop (`replay_plan`) on other drives. The
//! engine writes the same bytes without this crate; the byte fixture in the tests is the contract
//! between the two.

mod order;
mod reader;
mod writer;

pub use order::SubmissionOrder;
pub use reader::Reader;
pub(crate) use reader::{Flaw, Frames};
pub use writer::{Submission, ThreadClock, Writer};

use serde::{Deserialize, Serialize};

use crate::request::{Op, Request};
use crate::skips::Reason;

/// First bytes of a trace. The unusual bytes among them detect transfers that treat the file as
/// text.
pub const MAGIC: [u8; 8] = *b"\x89OCIO\r\n\x1a";
/// The version that this crate writes and reads.
pub const VERSION: u16 = 1;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// Bytes before the JSON text.
pub(crate) const PREAMBLE_BYTES: usize = 16;
/// Longest JSON text that is accepted.
pub(crate) const JSON_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(PREAMBLE_BYTES.is_multiple_of(16) && RECORD_BYTES == 64);

/// The header's description of one drive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DriveInfo {
    /// The drive's name in the volume.
    pub name: String,
    /// Its size, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Its logical block, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u32>,
}

/// The JSON metadata. Unknown keys are skipped, so later writers may add some.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Header {
    /// Always `outcore-io-trace`.
    pub format: String,
    /// Program and version that wrote it.
    #[serde(default)]
    pub program: String,
    /// The command line, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The time 0 of the trace, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    /// The drives; a record's `drive` is an index into this list.
    #[serde(default)]
    pub drives: Vec<DriveInfo>,
    /// Information about the job itself (plan, memory, threads).
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub job: serde_json::Value,
}

/// The header's `format`.
pub(crate) const FORMAT_NAME: &str = "outcore-io-trace";
/// The format's name for people.
pub(crate) const FORMAT_TITLE: &str = "outcore I/O trace";

impl Header {
    /// A header for `program` and `drives`.
    pub fn new(program: impl Into<String>, drives: Vec<DriveInfo>) -> Self {
        Header {
            format: FORMAT_NAME.into(),
            program: program.into(),
            drives,
            ..Header::default()
        }
    }
}

/// The operation of a recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoOp {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make the file durable (`fsync`, `fdatasync`); offset and length are 0.
    Sync,
    /// Discard a range.
    Trim,
}

/// One request with its dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The thread that submitted it, numbered from 0.
    pub thread: u16,
    /// Index into the header's drives, or 255 for a request that belongs to none.
    pub drive: u8,
    /// The file, numbered over the whole trace; a file is on one drive.
    pub file: u32,
    /// The operation.
    pub op: IoOp,
    /// Whether it failed.
    pub is_failed: bool,
    /// First byte in the file.
    pub offset_bytes: u64,
    /// Requested bytes.
    pub len_bytes: u32,
    /// Time at which it was submitted to the kernel, in nanoseconds since the trace's start.
    pub submit_ns: u64,
    /// Time at which it was complete.
    pub complete_ns: u64,
    /// Completions that its thread had taken before submitting it.
    pub reaped: u64,
    /// Other requests of the thread whose completions it had not taken when it submitted this one.
    pub outstanding: u32,
    /// Time for which the thread was busy between the last completion that it took (or the phase's
    /// start) and this submission.
    pub think_ns: u64,
    /// Time for which the thread was busy between its previous submission (or the phase's start)
    /// and this one.
    pub busy_ns: u64,
}

impl Record {
    /// The request's number among its thread's submissions, from 0.
    pub const fn sequence(&self) -> u64 {
        self.reaped + self.outstanding as u64
    }

    /// The request in the form of a block trace: the file is the device, the submission time is its
    /// time. The range of a sync has no meaning and becomes 0.
    pub const fn request(&self) -> Request {
        let (op, offset_bytes, len_bytes) = match self.op {
            IoOp::Read => (Op::Read, self.offset_bytes, self.len_bytes),
            IoOp::Write => (Op::Write, self.offset_bytes, self.len_bytes),
            IoOp::Trim => (Op::Trim, self.offset_bytes, self.len_bytes),
            IoOp::Sync => (Op::Flush, 0, 0),
        };
        Request {
            time_ns: self.submit_ns,
            device: self.file,
            op,
            offset_bytes,
            len_bytes: len_bytes as u64,
        }
    }
}

/// One entry of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A request.
    Request(Record),
    /// A barrier: every request before it completed before any request after it was submitted.
    Phase {
        /// The job's number of the new phase.
        phase: u32,
        /// Start time of the phase; the busy times of every thread restart here.
        time_ns: u64,
        /// Requests recorded before it.
        requests: u64,
    },
    /// A thread has ended. This entry follows the last of its requests.
    ThreadEnd {
        /// The thread.
        thread: u16,
        /// Time at which it ended.
        time_ns: u64,
        /// Completions that it had taken: those of all its requests.
        reaped: u64,
        /// Busy time since the last completion that it took or the phase's start.
        think_ns: u64,
        /// Busy time since its last submission or the phase's start.
        busy_ns: u64,
    },
    /// The trace is complete.
    End {
        /// Time at which the job ended.
        time_ns: u64,
        /// Requests recorded.
        requests: u64,
    },
}

const OP_READ: u8 = 1;
const OP_WRITE: u8 = 2;
const OP_SYNC: u8 = 3;
const OP_TRIM: u8 = 4;
const OP_PHASE: u8 = 13;
const OP_THREAD_END: u8 = 14;
const OP_END: u8 = 15;
const OP_MASK: u8 = 0x0f;
const FLAG_FAILED: u8 = 0x10;

impl Entry {
    /// The entry's 64 bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut fields = Fields::default();
        match *self {
            Entry::Request(record) => {
                let op = match record.op {
                    IoOp::Read => OP_READ,
                    IoOp::Write => OP_WRITE,
                    IoOp::Sync => OP_SYNC,
                    IoOp::Trim => OP_TRIM,
                };
                fields = Fields {
                    reaped: record.reaped,
                    offset_bytes: record.offset_bytes,
                    submit_ns: record.submit_ns,
                    complete_ns: record.complete_ns,
                    think_ns: record.think_ns,
                    busy_ns: record.busy_ns,
                    outstanding: record.outstanding,
                    len_bytes: record.len_bytes,
                    file: record.file,
                    thread: record.thread,
                    drive: record.drive,
                    op: op | if record.is_failed { FLAG_FAILED } else { 0 },
                };
            }
            Entry::Phase {
                phase,
                time_ns,
                requests,
            } => {
                (fields.op, fields.file, fields.submit_ns, fields.reaped) =
                    (OP_PHASE, phase, time_ns, requests);
            }
            Entry::ThreadEnd {
                thread,
                time_ns,
                reaped,
                think_ns,
                busy_ns,
            } => {
                (fields.op, fields.thread, fields.submit_ns) = (OP_THREAD_END, thread, time_ns);
                (fields.reaped, fields.think_ns, fields.busy_ns) = (reaped, think_ns, busy_ns);
            }
            Entry::End { time_ns, requests } => {
                (fields.op, fields.submit_ns, fields.reaped) = (OP_END, time_ns, requests);
            }
        }
        fields.encode()
    }

    /// The entry in 64 bytes; unused fields of marks are ignored.
    pub(crate) fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Entry, Reason> {
        let fields = Fields::decode(bytes);
        let time_ns = fields.submit_ns;
        let op = match fields.op & OP_MASK {
            OP_READ => IoOp::Read,
            OP_WRITE => IoOp::Write,
            OP_SYNC => IoOp::Sync,
            OP_TRIM => IoOp::Trim,
            OP_PHASE => {
                return Ok(Entry::Phase {
                    phase: fields.file,
                    time_ns,
                    requests: fields.reaped,
                });
            }
            OP_THREAD_END => {
                return Ok(Entry::ThreadEnd {
                    thread: fields.thread,
                    time_ns,
                    reaped: fields.reaped,
                    think_ns: fields.think_ns,
                    busy_ns: fields.busy_ns,
                });
            }
            OP_END => {
                return Ok(Entry::End {
                    time_ns,
                    requests: fields.reaped,
                });
            }
            _ => return Err(Reason::Operation),
        };
        if fields.complete_ns < fields.submit_ns {
            return Err(Reason::Time);
        }
        let end = fields.offset_bytes.checked_add(u64::from(fields.len_bytes));
        let sequence = fields.reaped.checked_add(u64::from(fields.outstanding));
        if end.is_none() || sequence.is_none() {
            return Err(Reason::Range);
        }
        Ok(Entry::Request(Record {
            thread: fields.thread,
            drive: fields.drive,
            file: fields.file,
            op,
            is_failed: fields.op & FLAG_FAILED != 0,
            offset_bytes: fields.offset_bytes,
            len_bytes: fields.len_bytes,
            submit_ns: fields.submit_ns,
            complete_ns: fields.complete_ns,
            reaped: fields.reaped,
            outstanding: fields.outstanding,
            think_ns: fields.think_ns,
            busy_ns: fields.busy_ns,
        }))
    }
}

/// The fields in the order of the file.
#[derive(Debug, Default)]
struct Fields {
    reaped: u64,
    offset_bytes: u64,
    submit_ns: u64,
    complete_ns: u64,
    think_ns: u64,
    busy_ns: u64,
    outstanding: u32,
    len_bytes: u32,
    file: u32,
    thread: u16,
    drive: u8,
    op: u8,
}

impl Fields {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0_u8; RECORD_BYTES];
        let longs = [
            self.reaped,
            self.offset_bytes,
            self.submit_ns,
            self.complete_ns,
            self.think_ns,
            self.busy_ns,
        ];
        for (slot, value) in out[..48].chunks_exact_mut(8).zip(longs) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
        let words = [self.outstanding, self.len_bytes, self.file];
        for (slot, value) in out[48..60].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
        out[60..62].copy_from_slice(&self.thread.to_le_bytes());
        out[62] = self.drive;
        out[63] = self.op;
        out
    }

    fn decode(bytes: &[u8; RECORD_BYTES]) -> Self {
        let long = |index: usize| {
            let mut value = [0_u8; 8];
            value.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(value)
        };
        let word = |index: usize| {
            let mut value = [0_u8; 4];
            value.copy_from_slice(&bytes[48 + index * 4..52 + index * 4]);
            u32::from_le_bytes(value)
        };
        Fields {
            reaped: long(0),
            offset_bytes: long(1),
            submit_ns: long(2),
            complete_ns: long(3),
            think_ns: long(4),
            busy_ns: long(5),
            outstanding: word(0),
            len_bytes: word(1),
            file: word(2),
            thread: u16::from_le_bytes([bytes[60], bytes[61]]),
            drive: bytes[62],
            op: bytes[63],
        }
    }
}
