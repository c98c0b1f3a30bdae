//! Writes traces that other programs replay: fio's iolog version 3 and MQSim's ASCII trace.
//!
//! Contract: one line per request, in the given order; pass a `BufWriter`. Information that a
//! format cannot represent is counted: fio's log has whole microseconds; MQSim's has neither trims
//! nor flushes and counts sectors of 512 bytes.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::formats::SECTOR_BYTES;
use crate::request::{Op, Request};

/// Writes fio's iolog, version 3 (`fio --read_iolog=FILE`).
pub struct FioWriter<W: Write, N: Fn(u32) -> String> {
    out: W,
    name_of: N,
    open: BTreeSet<u32>,
    last_us: u64,
}

impl<W: Write, N: Fn(u32) -> String> FioWriter<W, N> {
    /// Writes the first line. `name_of` returns the file name of a device.
    ///
    /// # Errors
    /// The stream fails.
    pub fn new(mut out: W, name_of: N) -> io::Result<Self> {
        out.write_all(b"fio version 3 iolog\n")?;
        Ok(FioWriter {
            out,
            name_of,
            open: BTreeSet::new(),
            last_us: 0,
        })
    }

    /// Adds a request; a file is added and opened when it first appears.
    ///
    /// # Errors
    /// The stream fails.
    pub fn request(&mut self, request: &Request) -> io::Result<()> {
        let time_us = request.time_ns / 1_000;
        let name = self.name(request.device);
        if self.open.insert(request.device) {
            writeln!(self.out, "{time_us} {name} add\n{time_us} {name} open")?;
        }
        self.last_us = self.last_us.max(time_us);
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Trim => "trim",
            Op::Flush => "sync",
        };
        let (offset, len) = (request.offset_bytes, request.len_bytes);
        writeln!(self.out, "{time_us} {name} {action} {offset} {len}")
    }

    /// Closes the files, flushes and returns the stream.
    ///
    /// # Errors
    /// The stream fails.
    pub fn finish(mut self) -> io::Result<W> {
        for device in std::mem::take(&mut self.open) {
            let name = self.name(device);
            writeln!(self.out, "{} {name} close", self.last_us)?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// A name without white space, which the format cannot quote.
    fn name(&self, device: u32) -> String {
        let name = (self.name_of)(device);
        if name.is_empty() {
            format!("device{device}")
        } else {
            name.replace(char::is_whitespace, "_")
        }
    }
}

/// Writes MQSim's ASCII trace.
pub struct MqsimWriter<W: Write> {
    out: W,
    dropped: u64,
    widened: u64,
}

impl<W: Write> MqsimWriter<W> {
    /// Writes nothing yet; the format has no header.
    pub fn new(out: W) -> Self {
        MqsimWriter {
            out,
            dropped: 0,
            widened: 0,
        }
    }

    /// Adds a read or write, widened to whole sectors. Trims, flushes and empty requests are
    /// counted and omitted.
    ///
    /// # Errors
    /// The stream fails.
    pub fn request(&mut self, request: &Request) -> io::Result<()> {
        let kind = match request.op {
            Op::Read if request.len_bytes > 0 => 1,
            Op::Write if request.len_bytes > 0 => 0,
            _ => {
                self.dropped += 1;
                return Ok(());
            }
        };
        self.widened += u64::from(!request.is_aligned(SECTOR_BYTES));
        let lsn = request.offset_bytes / SECTOR_BYTES;
        let sectors = request.end_bytes().div_ceil(SECTOR_BYTES) - lsn;
        writeln!(
            self.out,
            "{} {} {lsn} {sectors} {kind}",
            request.time_ns, request.device
        )
    }

    /// Requests that the format cannot hold.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Requests widened to whole sectors.
    pub fn widened(&self) -> u64 {
        self.widened
    }

    /// Flushes and returns the stream.
    ///
    /// # Errors
    /// The stream fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
