//! Whole sorts on merging drives: volumes, times, memory, several drives.
//!
//! Model: the paper's tables and section 5. A conventional sort reads the input, writes runs, reads
//! them and writes the output; then the user reads the output: 3 reads and 2 writes of the data.
//! With on-the-fly merging the output is never written: 2 reads and 1 write. If the data fits into
//! memory, both methods read, write and read once. Times are volumes divided by the rates from
//! [`merge`]. Reads and writes share the flash, so their times add up.
//!
//! With offloaded run formation the drive sorts runs in its own DRAM. The data crosses the link
//! once, when the result is read, and the embedded processor spends the time of sorting. With
//! several drives, each merges its part while the host merges their outputs. The rate is the
//! smallest of three: all drives together, the shared ceiling and the host's merge.
//!
//! Bounds: pure arithmetic except for the merges, which simulate at most [`RECORDS_MAX`] records.

use outcore_io::{Error, Result};
use serde::Serialize;

use super::merge::{MergeJob, MergeReport, Order, merge};
use super::{Embedded, MergeDrive, OPERATION};
use crate::quantities::SECOND;

/// Number of records after which a merge's rate is steady. Longer merges are not simulated to the
/// end.
pub(crate) const RECORDS_MAX: u64 = 500_000;

/// Share of the host's memory that holds records; the sorter itself uses the rest. Guessed.
const MEMORY_SHARE: f64 = 0.95;

/// The paper's Table 1 in MB/s: write, read, merging read of sorted data and of random data.
pub const TABLE_1_MB_PER_S: [f64; 4] = [61.04, 137.07, 116.38, 85.81];

/// The paper's Table 2 in MB with 1 GB of memory: reads and writes of ActiveSort, then of NSORT.
pub const TABLE_2_MB: [f64; 4] = [4100.0, 2048.0, 6157.0, 4106.0];

/// A method of sorting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Two passes on the host, as in NSORT; then the result is read.
    Conventional,
    /// The drive merges during the read of the result.
    ActiveSort,
    /// The drive also forms the runs.
    Offloaded,
}

/// The sort to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SortJob {
    /// Bytes of the data.
    pub data_bytes: u64,
    /// Bytes per record.
    pub record_bytes: u64,
    /// Bytes of the host's memory.
    pub memory_bytes: u64,
    /// Order of the input.
    pub order: Order,
}

/// Drives, their shared ceiling and the host's merge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Array {
    /// Number of equal drives.
    pub drives: u32,
    /// Bytes per second that all can move together; 0 means no limit.
    pub shared_bytes_per_s: u64,
    /// Nanoseconds that the host needs to merge a record from several drives; 0 if the drives hold
    /// disjoint key ranges.
    pub host_merge_ns: f64,
}

impl Default for Array {
    fn default() -> Self {
        Array {
            drives: 1,
            shared_bytes_per_s: 0,
            host_merge_ns: 0.0,
        }
    }
}

/// One sort and the reading of its result.
#[derive(Debug, Clone, Serialize)]
pub struct SortReport {
    /// The method of the sort.
    pub method: Method,
    /// Number of sorted runs; 1 if everything fits into memory.
    pub runs: u32,
    /// Bytes that the flash read.
    pub read_bytes: u64,
    /// Bytes that the flash wrote.
    pub write_bytes: u64,
    /// Bytes over the link in both directions.
    pub link_bytes: u64,
    /// Seconds until the sort returns.
    pub sort_seconds: f64,
    /// Seconds to read the result.
    pub output_seconds: f64,
    /// Sum of both.
    pub seconds: f64,
    /// The merging read, if there is one.
    pub merge: Option<MergeReport>,
}

/// The paper's Table 1 as simulated, in MB/s, in the order of [`TABLE_1_MB_PER_S`].
pub fn table_1(drive: &MergeDrive) -> Result<[f64; 4]> {
    let merging = |order| -> Result<f64> {
        Ok(merge(drive, &merge_job(drive, 4096, RECORDS_MAX, 128, order))?.bytes_per_s / 1e6)
    };
    Ok([
        drive.write_bytes_per_s() / 1e6,
        read_bytes_per_s(drive)? / 1e6,
        merging(Order::Sorted)?,
        merging(Order::Random)?,
    ])
}

/// The paper's Table 2 as planned, in MB, in the order of [`TABLE_2_MB`]: 2 GB of data, 1 GB of
/// memory.
pub fn table_2(drive: &MergeDrive) -> Result<[f64; 4]> {
    let job = paper_job(1 << 30, Order::Random);
    let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let active = sort(drive, &Array::default(), &job, Method::ActiveSort)?;
    let plain = sort(drive, &Array::default(), &job, Method::Conventional)?;
    Ok([
        mb(active.read_bytes),
        mb(active.write_bytes),
        mb(plain.read_bytes),
        mb(plain.write_bytes),
    ])
}

/// The paper's data with `memory_bytes` of host memory: 2 GB of 4 KiB records.
pub fn paper_job(memory_bytes: u64, order: Order) -> SortJob {
    SortJob {
        data_bytes: 2 << 30,
        record_bytes: 4096,
        memory_bytes,
        order,
    }
}

fn merge_job(
    drive: &MergeDrive,
    record_bytes: u64,
    records: u64,
    runs: u32,
    order: Order,
) -> MergeJob {
    let records_min = u64::from(runs) * u64::from(drive.cpu.cores);
    MergeJob {
        record_bytes,
        records: records.min(RECORDS_MAX).max(records_min),
        runs,
        order,
        plain: false,
        seed: 1,
    }
}

/// Bytes per second of a plain sequential read by the host.
pub(crate) fn read_bytes_per_s(drive: &MergeDrive) -> Result<f64> {
    let mut plain = drive.clone();
    let dies = drive.channels * drive.dies;
    plain.prefetch_max = dies.saturating_mul(2);
    plain.buffers_a_run = dies.saturating_mul(4);
    plain.cpu.cores = 1;
    plain.dram_bytes = u64::MAX;
    let job = MergeJob {
        plain: true,
        ..merge_job(&plain, drive.chunk_bytes, RECORDS_MAX / 4, 1, Order::Sorted)
    };
    Ok(merge(&plain, &job)?.bytes_per_s)
}

/// Simulates a sort of `job` over `array` equal drives, and one read of the result.
///
/// # Errors
/// There is nothing to sort or no drive, or there are too many runs for the drive's buffers.
pub fn sort(
    drive: &MergeDrive,
    array: &Array,
    job: &SortJob,
    method: Method,
) -> Result<SortReport> {
    drive.validate()?;
    if array.drives == 0 || job.data_bytes == 0 || job.record_bytes == 0 || job.memory_bytes == 0 {
        return Err(Error::usage(
            OPERATION,
            "data, records, memory and drives must be at least one",
        ));
    }
    let drives = f64::from(array.drives);
    let ceiling = |bytes_per_s: f64| match array.shared_bytes_per_s {
        0 => bytes_per_s,
        shared => bytes_per_s.min(shared as f64),
    };
    let read_rate = ceiling(drives * read_bytes_per_s(drive)?);
    let write_rate = ceiling(drives * drive.host_write_bytes_per_s());
    let (data, data_f) = (job.data_bytes, job.data_bytes as f64);
    let run_bytes = match method {
        Method::Offloaded => drive.dram_bytes as f64 / 2.0 * drives,
        _ => job.memory_bytes as f64 * MEMORY_SHARE,
    };
    let runs = (data_f / run_bytes)
        .ceil()
        .max(1.0)
        .min(f64::from(1u32 << 20)) as u32;
    let (read_seconds, write_seconds) = (data_f / read_rate, data_f / write_rate);
    if runs == 1 && method != Method::Offloaded {
        return Ok(SortReport {
            method,
            runs,
            read_bytes: 2 * data,
            write_bytes: data,
            link_bytes: 3 * data,
            sort_seconds: read_seconds + write_seconds,
            output_seconds: read_seconds,
            seconds: 2.0 * read_seconds + write_seconds,
            merge: None,
        });
    }
    let (reads, writes, link, sort_seconds, output) = match method {
        Method::Conventional => {
            let sorting = 2.0 * (read_seconds + write_seconds);
            (3, 2, 5, sorting, None)
        }
        Method::ActiveSort => {
            let output = merged(drive, array, job, runs)?;
            (2, 1, 3, read_seconds + write_seconds, Some(output))
        }
        Method::Offloaded => {
            let seconds = formation_seconds(drive, array, job, run_bytes);
            (2, 1, 1, seconds, Some(merged(drive, array, job, runs)?))
        }
    };
    let (output_seconds, merge) = match output {
        None => (read_seconds, None),
        Some((rate, report)) => (data_f / ceiling(rate), Some(report)),
    };
    Ok(SortReport {
        method,
        runs,
        read_bytes: reads * data,
        write_bytes: writes * data,
        link_bytes: link * data,
        sort_seconds,
        output_seconds,
        seconds: sort_seconds + output_seconds,
        merge,
    })
}

/// The rate at which the host receives the merged result, before shared ceilings.
fn merged(
    drive: &MergeDrive,
    array: &Array,
    job: &SortJob,
    runs: u32,
) -> Result<(f64, MergeReport)> {
    // Every drive has its part of every run, so each drive merges all runs.
    let records = job.data_bytes / job.record_bytes / u64::from(array.drives);
    let records = records.max(1);
    let report = merge(
        drive,
        &merge_job(drive, job.record_bytes, records, runs, job.order),
    )?;
    let rate = report.bytes_per_s * f64::from(array.drives);
    let host = if array.drives > 1 && array.host_merge_ns > 0.0 {
        job.record_bytes as f64 * 1e9 / array.host_merge_ns
    } else {
        f64::INFINITY
    };
    Ok((rate.min(host), report))
}

/// Time of run formation inside the drives: flash reads and writes, or sorting, whichever is
/// longer.
fn formation_seconds(drive: &MergeDrive, array: &Array, job: &SortJob, run_bytes: f64) -> f64 {
    let share = job.data_bytes as f64 / f64::from(array.drives);
    let flash = share / drive.internal_read_bytes_per_s() + share / drive.write_bytes_per_s();
    let run_records = (run_bytes / job.record_bytes as f64).max(2.0) as u64;
    let record_ps = drive.cpu.form_ps(job.record_bytes, run_records) as f64;
    let records = share / job.record_bytes as f64;
    let sorting = records * record_ps / SECOND as f64 / f64::from(drive.cpu.cores);
    flash.max(sorting)
}

/// The prototype's code on four cores of 1 GHz, as in current drives. A core still moves every
/// byte.
pub fn modern_cores() -> Embedded {
    Embedded {
        clock_hz: 1e9,
        cores: 4,
        ..MergeDrive::prototype().cpu
    }
}

/// The same cores with a DMA engine that moves the records: cores process only keys and pointers.
pub fn modern_dma() -> Embedded {
    Embedded {
        cycles_a_byte: 0.0,
        ..modern_cores()
    }
}
