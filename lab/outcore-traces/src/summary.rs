//! Summarises a trace in one pass: Falcon's Table 2, and the values that a replay needs.
//!
//! Contract: constant memory. Counts, sizes, bytes and times are exact. The footprint (distinct 4
//! KiB blocks that were read or written) is a HyperLogLog estimate of 2^14 registers (Flajolet et
//! al., 2007: standard error 0.8 %), with linear counting for small sets. The number of devices is
//! exact up to 65,536. Read share, sizes and bytes count reads and writes; trims and flushes are
//! counted separately. Source of the columns: Kumar and Huang, "Falcon", ATC 2017, Table 2.

use std::collections::HashSet;
use std::fmt;

use outcore_io::units;
use serde::{Deserialize, Serialize};

use crate::formats::DEVICES_MAX;
use crate::reader::TraceReader;
use crate::request::{Op, Request};
use crate::skips::Skips;
use crate::stages::ResponseTimes;

/// Unit of the footprint.
pub(crate) const FOOTPRINT_BLOCK_BYTES: u64 = 4096;

/// Maximum number of blocks of one request that count for the footprint (256 MiB): a corrupt length
/// must not stall the pass.
const BLOCKS_PER_REQUEST_MAX: u64 = 65_536;

/// The result of a pass over a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Share of reads among reads and writes, in percent.
    pub read_percent: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes trimmed.
    pub trim_bytes: u64,
    /// Smallest read or write that is not empty; 0 if there is none.
    pub size_min_bytes: u64,
    /// Largest read or write.
    pub size_max_bytes: u64,
    /// Empty reads and writes.
    pub empty: u64,
    /// Reads and writes that do not start and end on a 4 KiB boundary.
    pub unaligned: u64,
    /// Earliest time, in the trace's clock.
    pub time_min_ns: u64,
    /// Latest time.
    pub time_max_ns: u64,
    /// Requests earlier than the one before them.
    pub out_of_order: u64,
    /// Number of devices; more than 65,536 count as 65,536.
    pub devices: u64,
    /// Largest end of a read, write or trim on any device.
    pub span_bytes: u64,
    /// Distinct 4 KiB blocks read or written, estimated, times 4 KiB.
    pub footprint_bytes: u64,
    /// Lines that could not be read.
    pub skipped: Skips,
    /// Valid lines that are no requests.
    pub ignored: u64,
    /// The format's name.
    pub format: String,
    /// Notes on how it was read.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Response times, if the trace contains them.
    #[serde(default)]
    pub response: Option<ResponseTimes>,
}

impl Summary {
    /// Reads `trace` to its end.
    ///
    /// # Errors
    /// The first error of the trace.
    pub fn of(trace: &mut TraceReader) -> outcore_io::Result<Summary> {
        Self::of_first(trace, u64::MAX)
    }

    /// Summarises the first `requests_max` requests.
    ///
    /// # Errors
    /// As [`Summary::of`].
    pub fn of_first(trace: &mut TraceReader, requests_max: u64) -> outcore_io::Result<Summary> {
        let mut builder = Builder::new();
        let requests_max = usize::try_from(requests_max).unwrap_or(usize::MAX);
        for request in trace.by_ref().take(requests_max) {
            builder.add(&request?);
        }
        let mut summary = builder.finish();
        summary.add_reader(trace);
        Ok(summary)
    }

    /// Adds the values that the reader of the trace knows.
    pub fn add_reader(&mut self, trace: &TraceReader) {
        self.skipped = trace.skips().clone();
        self.ignored = trace.ignored();
        self.format = trace.format().name().into();
        self.notes = trace.note().map(str::to_owned).into_iter().collect();
        self.response = trace.response();
    }

    /// Bytes read and written.
    pub fn data_bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }

    /// Time from the earliest to the latest request.
    pub fn duration_ns(&self) -> u64 {
        self.time_max_ns - self.time_min_ns
    }

    /// The columns of Falcon's Table 2 for the trace `name`, as one line of a Markdown table:
    /// `| name | read % | request size | GB |`.
    pub fn table2_row(&self, name: &str) -> String {
        format!(
            "| {name} | {:.2} | {} - {} | {:.2} |",
            self.read_percent,
            short_size(self.size_min_bytes),
            short_size(self.size_max_bytes),
            gb(self.data_bytes())
        )
    }
}

fn gb(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

/// A size in the paper's format: `512B`, `256.5KB` (1 KB is 1024 bytes there).
fn short_size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let kib = bytes as f64 / 1024.0;
    if bytes.is_multiple_of(1024) {
        format!("{kib:.0}KB")
    } else {
        format!("{kib:.1}KB")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration_ns() as f64 / 1e9;
        let bytes = self.data_bytes();
        writeln!(f, "format         {}", self.format)?;
        writeln!(
            f,
            "requests       {} ({} reads, {} writes, {} trims, {} flushes) on {} device{}",
            self.requests,
            self.reads,
            self.writes,
            self.trims,
            self.flushes,
            self.devices,
            if self.devices == 1 { "" } else { "s" }
        )?;
        writeln!(f, "read           {:.2} %", self.read_percent)?;
        writeln!(
            f,
            "request size   {} - {}",
            short_size(self.size_min_bytes),
            short_size(self.size_max_bytes)
        )?;
        writeln!(
            f,
            "data           {}, {:.2} GB",
            units::bytes(bytes),
            gb(bytes)
        )?;
        write!(f, "duration       {seconds:.3} s")?;
        if seconds > 0.0 {
            write!(
                f,
                ", {:.1} requests/s, {:.3} MB/s",
                self.requests as f64 / seconds,
                bytes as f64 / 1e6 / seconds
            )?;
        }
        writeln!(f)?;
        if let Some(response) = &self.response {
            writeln!(f, "response       {response}")?;
        }
        writeln!(
            f,
            "footprint      about {} in blocks of 4 KiB (estimate, +-0.8 %), span {}",
            units::bytes(self.footprint_bytes),
            units::bytes(self.span_bytes)
        )?;
        writeln!(
            f,
            "pitfalls       {} unaligned to 4 KiB, {} empty, {} out of order",
            self.unaligned, self.empty, self.out_of_order
        )?;
        write!(
            f,
            "lines          {} without a request, {}",
            self.ignored, self.skipped
        )?;
        for note in &self.notes {
            write!(f, "\nnote           {note}")?;
        }
        Ok(())
    }
}

/// Collects a [`Summary`] request by request.
#[derive(Debug, Clone)]
pub struct Builder {
    summary: Summary,
    devices: HashSet<u32>,
    last_device: Option<u32>,
    last_time_ns: u64,
    footprint: Distinct,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A summary of nothing.
    pub fn new() -> Self {
        Builder {
            summary: Summary {
                requests: 0,
                reads: 0,
                writes: 0,
                trims: 0,
                flushes: 0,
                read_percent: 0.0,
                read_bytes: 0,
                write_bytes: 0,
                trim_bytes: 0,
                size_min_bytes: u64::MAX,
                size_max_bytes: 0,
                empty: 0,
                unaligned: 0,
                time_min_ns: u64::MAX,
                time_max_ns: 0,
                out_of_order: 0,
                devices: 0,
                span_bytes: 0,
                footprint_bytes: 0,
                skipped: Skips::default(),
                ignored: 0,
                format: String::new(),
                notes: Vec::new(),
                response: None,
            },
            devices: HashSet::new(),
            last_device: None,
            last_time_ns: 0,
            footprint: Distinct::new(),
        }
    }

    /// Adds one request.
    pub fn add(&mut self, request: &Request) {
        let summary = &mut self.summary;
        summary.requests += 1;
        summary.time_min_ns = summary.time_min_ns.min(request.time_ns);
        summary.time_max_ns = summary.time_max_ns.max(request.time_ns);
        summary.out_of_order += u64::from(request.time_ns < self.last_time_ns);
        self.last_time_ns = request.time_ns;
        if self.last_device != Some(request.device) && self.devices.len() < DEVICES_MAX {
            self.devices.insert(request.device);
            self.last_device = Some(request.device);
        }
        let len = request.len_bytes;
        match request.op {
            Op::Read => {
                summary.reads += 1;
                summary.read_bytes = summary.read_bytes.saturating_add(len);
            }
            Op::Write => {
                summary.writes += 1;
                summary.write_bytes = summary.write_bytes.saturating_add(len);
            }
            Op::Trim => {
                summary.trims += 1;
                summary.trim_bytes = summary.trim_bytes.saturating_add(len);
            }
            Op::Flush => summary.flushes += 1,
        }
        if request.op != Op::Flush {
            summary.span_bytes = summary.span_bytes.max(request.end_bytes());
        }
        if request.op.moves_data() {
            self.add_data(request);
        }
    }

    fn add_data(&mut self, request: &Request) {
        let summary = &mut self.summary;
        if request.len_bytes == 0 {
            summary.empty += 1;
            return;
        }
        summary.unaligned += u64::from(!request.is_aligned(FOOTPRINT_BLOCK_BYTES));
        summary.size_min_bytes = summary.size_min_bytes.min(request.len_bytes);
        summary.size_max_bytes = summary.size_max_bytes.max(request.len_bytes);
        let first = request.offset_bytes / FOOTPRINT_BLOCK_BYTES;
        let last = (request.end_bytes() - 1) / FOOTPRINT_BLOCK_BYTES;
        let seed = mix(u64::from(request.device).wrapping_add(0x9e37_79b9_7f4a_7c15));
        for block in first..=last.min(first + (BLOCKS_PER_REQUEST_MAX - 1)) {
            self.footprint.add(mix(block ^ seed));
        }
    }

    /// The summary of the added requests. The fields that only a reader knows are empty.
    pub fn finish(self) -> Summary {
        let mut summary = self.summary;
        let data = summary.reads + summary.writes;
        if data > 0 {
            summary.read_percent = 100.0 * summary.reads as f64 / data as f64;
        }
        if summary.size_min_bytes == u64::MAX {
            summary.size_min_bytes = 0;
        }
        if summary.requests == 0 {
            summary.time_min_ns = 0;
        }
        summary.devices = self.devices.len() as u64;
        summary.footprint_bytes =
            (self.footprint.estimate() as u64).saturating_mul(FOOTPRINT_BLOCK_BYTES);
        summary
    }
}

/// The finaliser of SplitMix64 (Steele et al., 2014): every input bit reaches every output bit.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

const REGISTER_BITS: u32 = 14;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// HyperLogLog over 64-bit hashes.
#[derive(Debug, Clone)]
struct Distinct {
    registers: Vec<u8>,
}

impl Distinct {
    fn new() -> Self {
        Distinct {
            registers: vec![0; REGISTERS],
        }
    }

    #[inline]
    fn add(&mut self, hash: u64) {
        let index = (hash >> (64 - REGISTER_BITS)) as usize;
        // The guard bit bounds the rank at 64 - REGISTER_BITS + 1.
        let rest = (hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1));
        let rank = rest.leading_zeros() as u8 + 1;
        let register = &mut self.registers[index];
        *register = rank.max(*register);
    }

    fn estimate(&self) -> f64 {
        let m = REGISTERS as f64;
        let sum: f64 = self
            .registers
            .iter()
            .map(|rank| (-f64::from(*rank)).exp2())
            .sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        let zeros = self.registers.iter().filter(|rank| **rank == 0).count();
        // Linear counting is the better estimate while many registers are empty.
        let estimate = if raw <= 2.5 * m && zeros > 0 {
            m * (m / zeros as f64).ln()
        } else {
            raw
        };
        estimate.round()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op, time_ns: u64, offset_bytes: u64, len_bytes: u64) -> Request {
        Request {
            time_ns,
            device: 0,
            op,
            offset_bytes,
            len_bytes,
        }
    }

    #[test]
    fn the_columns_of_table_2_are_exact() {
        let mut builder = Builder::new();
        builder.add(&request(Op::Read, 10, 0, 512));
        builder.add(&request(Op::Write, 5, 4096, 262_656));
        builder.add(&request(Op::Write, 30, 8192, 0));
        builder.add(&request(Op::Write, 30, 8192, 4096));
        builder.add(&request(Op::Trim, 30, 0, 1 << 40));
        builder.add(&request(Op::Flush, 40, 0, 0));
        let summary = builder.finish();
        assert_eq!((summary.requests, summary.reads, summary.writes), (6, 1, 3));
        assert_eq!((summary.trims, summary.flushes, summary.empty), (1, 1, 1));
        assert_eq!(summary.data_bytes(), 512 + 262_656 + 4096);
        assert_eq!((summary.unaligned, summary.out_of_order), (2, 1));
        assert_eq!((summary.duration_ns(), summary.span_bytes), (35, 1 << 40));
        assert_eq!(
            summary.table2_row("t"),
            "| t | 25.00 | 512B - 256.5KB | 0.00 |"
        );
        // Blocks 0 and 1..=65 (262,656 bytes from 4096 reach into block 65).
        assert_eq!(summary.footprint_bytes / 4096, 66);
    }

    #[test]
    fn an_empty_trace_has_an_empty_summary() {
        let summary = Builder::new().finish();
        assert_eq!(
            (
                summary.size_min_bytes,
                summary.duration_ns(),
                summary.footprint_bytes
            ),
            (0, 0, 0)
        );
        assert!(summary.to_string().contains("no line skipped"));
    }

    #[test]
    fn the_footprint_is_within_three_standard_errors() {
        for blocks in [1_000_u64, 20_000, 45_000, 300_000] {
            let mut builder = Builder::new();
            for block in 0..blocks {
                builder.add(&request(Op::Write, 0, block * 4096 * 7, 4096));
                builder.add(&request(Op::Read, 0, block * 4096 * 7, 512));
            }
            let estimate = builder.finish().footprint_bytes as f64 / 4096.0;
            let error = (estimate / blocks as f64 - 1.0).abs();
            assert!(error < 0.025, "{blocks} blocks: {estimate}, off by {error}");
        }
    }

    #[test]
    fn a_monstrous_length_does_not_stall_the_pass() {
        let mut builder = Builder::new();
        for _ in 0..10 {
            builder.add(&request(Op::Read, 0, 0, u64::MAX));
        }
        let summary = builder.finish();
        assert_eq!(summary.read_bytes, u64::MAX);
        assert_eq!(summary.span_bytes, u64::MAX);
    }
}
