//! ActiveSort's drive: an SSD that merges sorted runs while the host reads the result.
//!
//! Model: Lee et al., "Accelerating External Sorting via On-the-fly Data Merge in Active SSDs"
//! (prototype on an OpenSSD board: 87.5 MHz ARM7TDMI, 64 MB of DRAM, four flash modules on four
//! channels, SATA 2). The host forms sorted runs and writes them. The last merge happens inside the
//! drive. A sort and one read of its result then move two reads and one write of the data instead
//! of three and two. [`merge`] simulates the merging drive event by event; [`sort`] simulates whole
//! sorts: volumes, times, memory, several drives.
//!
//! The model covers dies that read a chunk, the buses that they share, a bounded number of
//! prefetches in flight, buffers for every run, an embedded core that takes time for every record,
//! and the link. It does not cover garbage collection, the mapping, or the host's own sorting,
//! which the paper hides behind I/O.
//!
//! Units: integer picoseconds inside; MB are 10^6 bytes. The prototype's values are fitted to the
//! paper's Table 1; [`MergeDrive::prototype`] documents each.

#[cfg(feature = "cli")]
pub mod command;
pub mod merge;
pub mod sort;

use outcore_io::{Error, Result};
use serde::Serialize;

use crate::config::DriveConfig;
use crate::drive::params::Params;
use crate::quantities::{NS, Ps, SECOND};

const OPERATION: &str = "simulate merging drive";

/// The processor inside the drive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Embedded {
    /// Cycles per second.
    pub clock_hz: f64,
    /// Number of cores. Each merges its own key range.
    pub cores: u32,
    /// Cycles per record, independent of its size.
    pub cycles_a_record: f64,
    /// Cycles per byte of a record; 0 if a DMA engine moves it.
    pub cycles_a_byte: f64,
    /// Cycles per comparison. A record takes log2(runs) comparisons.
    pub cycles_a_comparison: f64,
}

impl Embedded {
    /// Time to merge one record of `record_bytes` out of `runs` runs on one core.
    pub(crate) fn merge_ps(&self, record_bytes: u64, runs: u32) -> Ps {
        let comparisons = f64::from(runs.max(1)).log2().ceil();
        let cycles = self.cycles_a_record
            + self.cycles_a_byte * record_bytes as f64
            + self.cycles_a_comparison * comparisons;
        (cycles / self.clock_hz * SECOND as f64).round() as Ps
    }

    /// Time to put one record into a sorted run of `run_records` records on one core: one
    /// comparison per level, and the record moved in and out.
    pub(crate) fn form_ps(&self, record_bytes: u64, run_records: u64) -> Ps {
        let levels = (run_records.max(2) as f64).log2();
        let cycles = self.cycles_a_record
            + 2.0 * self.cycles_a_byte * record_bytes as f64
            + self.cycles_a_comparison.max(1.0) * levels;
        (cycles / self.clock_hz * SECOND as f64).round() as Ps
    }
}

/// A drive that merges.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergeDrive {
    /// Name in reports.
    pub name: String,
    /// Number of flash buses.
    pub channels: u32,
    /// Units per bus that read or program at the same time.
    pub dies: u32,
    /// Bytes of the unit in which runs are prefetched: a flash page.
    pub chunk_bytes: u64,
    /// Time to read a chunk in the flash array.
    pub read_ps: Ps,
    /// Time to program a chunk in the flash array.
    pub program_ps: Ps,
    /// Time of a chunk on the bus.
    pub bus_ps: Ps,
    /// Bytes per second to the host.
    pub link_bytes_per_s: u64,
    /// Read and write limits of a throttle in front of the drive, in bytes per second; 0 means
    /// none. The drive's own reads and writes do not pass it.
    pub throttle_bytes_per_s: [u64; 2],
    /// Maximum number of prefetches in flight.
    pub prefetch_max: u32,
    /// The core that merges also starts the prefetches, between two records.
    pub one_core_does_both: bool,
    /// Chunk buffers per run, including the one being merged.
    pub buffers_a_run: u32,
    /// Bytes of DRAM for all buffers.
    pub dram_bytes: u64,
    /// Maximum number of merged records that wait for the link.
    pub output_records_max: u32,
    /// The processor.
    pub cpu: Embedded,
}

impl MergeDrive {
    /// The prototype of the paper.
    ///
    /// From the paper: four channels, 64 MB, the clock, SATA 2. Fitted to Table 1, one value per
    /// row:
    /// - read time (137.07 MB/s);
    /// - program time (61.04 MB/s);
    /// - cycles per record (116.38 MB/s on sorted data: 35.2 us);
    /// - prefetches in flight (85.81 MB/s on random data).
    ///
    /// Guessed, without influence on the tables: how the 119.5 us divide between array and bus, and
    /// how the cycles divide between a record and its bytes.
    pub fn prototype() -> Self {
        MergeDrive {
            name: "activesort-openssd".to_owned(),
            channels: 4,
            dies: 1,
            chunk_bytes: 4096,
            read_ps: 79_530 * NS,
            program_ps: 228_420 * NS,
            bus_ps: 40_000 * NS,
            link_bytes_per_s: 270_000_000,
            throttle_bytes_per_s: [0, 0],
            prefetch_max: 4,
            one_core_does_both: true,
            buffers_a_run: 5,
            dram_bytes: 64_000_000,
            output_records_max: 16,
            cpu: Embedded {
                clock_hz: 87.5e6,
                cores: 1,
                cycles_a_record: 208.0,
                cycles_a_byte: 0.7012,
                cycles_a_comparison: 0.0,
            },
        }
    }

    /// The channels, the link and the throttle (its rates, not its slices) of `config` with `cpu`
    /// inside. Planes count as separate units, because multi-plane reads keep all of them busy.
    pub fn modern(config: &DriveConfig, cpu: Embedded) -> Result<Self> {
        config.validate()?;
        let params = Params::new(config, 1);
        let page_bytes = u64::from(params.page_bytes);
        let payload: u64 = 1 << 20;
        let link =
            u128::from(payload) * u128::from(SECOND) / u128::from(params.link_ps(payload).max(1));
        let units = params.units_per_channel * params.planes_per_unit;
        Ok(MergeDrive {
            name: config.name.clone(),
            channels: params.channels,
            dies: units,
            chunk_bytes: page_bytes,
            read_ps: params.read_mean_ps(),
            program_ps: params.program_mean_ps(),
            bus_ps: params.bus_ps(params.page_bytes),
            link_bytes_per_s: link as u64,
            throttle_bytes_per_s: [config.throttle.read.0, config.throttle.write.0],
            prefetch_max: params.channels * units,
            one_core_does_both: false,
            buffers_a_run: 8,
            dram_bytes: 4 << 30,
            output_records_max: 4096,
            cpu,
        })
    }

    fn validate(&self) -> Result<()> {
        let fail = |cause: String| Err(Error::usage(OPERATION, format!("{}: {cause}", self.name)));
        let cpu = &self.cpu;
        let cycles = [
            cpu.cycles_a_record,
            cpu.cycles_a_byte,
            cpu.cycles_a_comparison,
        ];
        if self.channels == 0 || self.dies == 0 || self.channels.saturating_mul(self.dies) > 65_536
        {
            return fail(format!(
                "{} channels of {} dies; 1 to 65536 dies are possible",
                self.channels, self.dies
            ));
        }
        if self.chunk_bytes == 0 || self.link_bytes_per_s == 0 {
            return fail("chunks and link must not be empty".to_owned());
        }
        if self.prefetch_max == 0 || self.buffers_a_run == 0 || self.output_records_max == 0 {
            return fail("prefetches, buffers and output must be at least one".to_owned());
        }
        if !(cpu.clock_hz > 0.0 && cpu.clock_hz.is_finite()) || cpu.cores == 0 {
            return fail("the processor needs a clock and a core".to_owned());
        }
        if cycles.iter().any(|c| !c.is_finite() || *c < 0.0) {
            return fail("cycles must be 0 or more".to_owned());
        }
        Ok(())
    }

    /// Maximum rate at which the host can read, in bytes per second.
    fn host_read_max(&self) -> u64 {
        match self.throttle_bytes_per_s[0] {
            0 => self.link_bytes_per_s,
            throttle => self.link_bytes_per_s.min(throttle),
        }
    }

    /// Time in which the host receives `bytes`.
    fn link_ps(&self, bytes: u64) -> Ps {
        (u128::from(bytes) * u128::from(SECOND) / u128::from(self.host_read_max())) as Ps
    }

    /// Bytes per second that the host can write.
    pub(crate) fn host_write_bytes_per_s(&self) -> f64 {
        match self.throttle_bytes_per_s[1] {
            0 => self.write_bytes_per_s(),
            throttle => self.write_bytes_per_s().min(throttle as f64),
        }
    }

    /// Bytes per second that the flash can write over the link, with all dies busy and shared
    /// buses.
    pub(crate) fn write_bytes_per_s(&self) -> f64 {
        let chunk = self.chunk_bytes as f64 * SECOND as f64;
        let dies = f64::from(self.channels * self.dies);
        let programs = dies * chunk / (self.program_ps + self.bus_ps).max(1) as f64;
        let buses = f64::from(self.channels) * chunk / self.bus_ps.max(1) as f64;
        programs.min(buses).min(self.link_bytes_per_s as f64)
    }

    /// Bytes per second that the flash delivers inside the drive.
    pub(crate) fn internal_read_bytes_per_s(&self) -> f64 {
        let chunk = self.chunk_bytes as f64 * SECOND as f64;
        let dies = f64::from(self.channels * self.dies);
        let reads = dies * chunk / (self.read_ps + self.bus_ps).max(1) as f64;
        reads.min(f64::from(self.channels) * chunk / self.bus_ps.max(1) as f64)
    }
}
