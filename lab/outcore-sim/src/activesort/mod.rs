//! ActiveSort's drive: an SSD that merges sorted runs while the host reads the result.
//!
//! Model: Lee et al., "Accelerating External Sorting via On-the-fly Data Merge in Active SSDs"
//! (prototype on an OpenSSD board: 87.5 MHz ARM7TDMI, 64 MB of DRAM, four flash modules on four
//! channels, SATA 2). The host forms sorted runs and writes them; the last merge happens inside the
//! drive, so that a sort and one read of its result move two reads and one write of the data
//! instead of three and two. [`merge`] has the merging drive event by event, [`sort`] whole sorts:
//! volumes, times, memory, several drives.
//!
//! What is modelled: dies that read a chunk, buses that they share, a bounded number of prefetches
//! in flight, buffers for every run, an embedded core that takes time for every record, the link.
//! What is not: garbage collection, the mapping, and the host's own sorting, which the paper hides
//! behind I/O.
//!
//! Units: integer picoseconds inside; MB are 10^6 bytes. The prototype's values are fitted to its
//! Table 1, as each field of [`MergeDrive::prototype`] says.

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
    /// Cycles a second.
    pub clock_hz: f64,
    /// Cores, each merging a key range of its own.
    pub cores: u32,
    /// Cycles that a record costs, whatever its size.
    pub cycles_a_record: f64,
    /// Cycles that a byte of a record costs; 0 where a DMA engine moves it.
    pub cycles_a_byte: f64,
    /// Cycles of one comparison; a record takes the binary logarithm of the runs of them.
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

    /// Time to bring one record into a sorted run of `run_records` records on one core: one
    /// comparison a level, and the record moved in and out.
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
    /// For reports.
    pub name: String,
    /// Buses to the flash.
    pub channels: u32,
    /// Units of a bus that read or program at the same time.
    pub dies: u32,
    /// Bytes of the unit in which runs are prefetched: a flash page.
    pub chunk_bytes: u64,
    /// Time of a chunk in the flash array, reading.
    pub read_ps: Ps,
    /// Time of a chunk in the flash array, programming.
    pub program_ps: Ps,
    /// Time of a chunk on the bus.
    pub bus_ps: Ps,
    /// Bytes a second to the host.
    pub link_bytes_per_s: u64,
    /// What a throttle in front of the drive lets the host read and write, bytes a second; 0 where
    /// there is none. The drive's own reads and writes do not pass it.
    pub throttle_bytes_per_s: [u64; 2],
    /// Prefetches in flight.
    pub prefetch_max: u32,
    /// The core that merges also starts the prefetches, so it does so between two records.
    pub one_core_does_both: bool,
    /// Chunk buffers of a run, the one being merged included.
    pub buffers_a_run: u32,
    /// Bytes of DRAM for all buffers.
    pub dram_bytes: u64,
    /// Merged records that wait for the link at most.
    pub output_records_max: u32,
    /// The processor.
    pub cpu: Embedded,
}

impl MergeDrive {
    /// The prototype of the paper.
    ///
    /// From the paper: four channels, 64 MB, the clock, SATA 2. Fitted to Table 1, with a line for
    /// each value: read time (137.07 MB/s), program time (61.04 MB/s), cycles a record
    /// (116.38 MB/s on sorted data: 35.2 us), prefetches in flight (85.81 MB/s on random data).
    /// Guessed, without influence on the tables: how 119.5 us divide between array and bus, and
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
    /// inside. Planes count as units of their own: multi-plane reads keep them all busy.
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

    /// Bytes a second that the host can read at most.
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

    /// Bytes a second that the host can write.
    pub(crate) fn host_write_bytes_per_s(&self) -> f64 {
        match self.throttle_bytes_per_s[1] {
            0 => self.write_bytes_per_s(),
            throttle => self.write_bytes_per_s().min(throttle as f64),
        }
    }

    /// Bytes a second that the flash takes, all dies busy, the buses shared, over the link.
    pub(crate) fn write_bytes_per_s(&self) -> f64 {
        let chunk = self.chunk_bytes as f64 * SECOND as f64;
        let dies = f64::from(self.channels * self.dies);
        let programs = dies * chunk / (self.program_ps + self.bus_ps).max(1) as f64;
        let buses = f64::from(self.channels) * chunk / self.bus_ps.max(1) as f64;
        programs.min(buses).min(self.link_bytes_per_s as f64)
    }

    /// Bytes a second that the flash gives to the drive itself.
    pub(crate) fn internal_read_bytes_per_s(&self) -> f64 {
        let chunk = self.chunk_bytes as f64 * SECOND as f64;
        let dies = f64::from(self.channels * self.dies);
        let reads = dies * chunk / (self.read_ps + self.bus_ps).max(1) as f64;
        reads.min(f64::from(self.channels) * chunk / self.bus_ps.max(1) as f64)
    }
}
