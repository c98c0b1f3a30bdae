//! A GPU inside the storage: kernels whose blocks do their own I/O on the drive.
//!
//! Model: MQMS (Gundawar, Chung, Kim, "Towards Performance-Aware Allocation for Accelerated Machine
//! Learning on GPU-SSD Systems").
//! - A kernel is a grid of blocks. A core holds as many blocks at a time as its threads, registers,
//!   shared memory and block slots allow ([`GpuConfig::slots`]).
//! - A block reads according to its access pattern, computes, writes, and frees its slot when the
//!   last write is acknowledged ([`engine`]).
//! - A block computes for the kernel's duration divided by the number of waves in which the grid
//!   fits the GPU, so that a kernel without I/O takes its duration.
//! - Kernels of one workload run one after the other; several workloads share the cores.
//!
//! Blocks go to cores round-robin (block `i` to core `i mod cores`) or in large chunks (`stride`
//! neighbours to one core, the next ones to the next core). Large chunks apply to kernels with
//! fewer than `stride * cores` blocks, or to all kernels if the user chooses them.
//!
//! - The GPU's memory keeps what was read ([`memory`]); writes leave it.
//!
//! The model does not cover the caches of the GPU, contention between blocks on a core, or changing
//! clocks.
//!
//! | module | what it has |
//! |---|---|
//! | [`pattern`], [`requests`] | the bytes that a block touches, and its requests for them |
//! | [`memory`] | the data that need not be read from the drive |
//! | [`check`] | rejects what cannot be simulated |
//! | [`engine`], [`mediator`] | the run: GPU, drive, I/O of the host, I/O through the CPU |
//! | [`sampled`] | a sample of the kernels instead of all of them |
//! | [`workloads`] | networks and Rodinia kernels |

mod check;
#[cfg(feature = "cli")]
pub mod command;
pub(crate) mod engine;
mod mediator;
mod memory;
pub mod pattern;
mod report;
mod requests;
pub mod sampled;
pub mod workloads;

use outcore_io::{Error, Result};
use outcore_traces::gpu::Kernel;
use serde::{Deserialize, Serialize};

pub use engine::run;
pub use pattern::{Access, AccessOp, PageAccess, Pattern};
pub use report::{FlowReport, GpuReport, KernelRun};

use crate::config::DriveConfig;
use crate::quantities::{NS, Ps, US};

const OPERATION: &str = "simulate GPU";

/// Maximum number of blocks of one kernel.
const BLOCKS_MAX: u64 = 1 << 32;

/// The GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuConfig {
    /// Name in reports.
    pub name: String,
    /// Cores (streaming multiprocessors).
    pub cores: u32,
    /// Threads per core.
    pub threads_a_core: u32,
    /// Blocks per core.
    pub blocks_a_core: u32,
    /// Registers per core.
    pub registers_a_core: u32,
    /// Shared memory per core.
    pub shared_bytes_a_core: u64,
    /// Requests that a block keeps in flight where it waits for answers.
    pub requests_a_block: u32,
    /// Memory, in frames of 4 KiB; 0 sends every read to the drive.
    pub memory_bytes: u64,
    /// Largest request of a block, in whole sectors: larger accesses are cut. 0 leaves them whole.
    pub request_bytes: u64,
    /// What a block's reads wait for.
    pub reads: Reads,
    /// Whether a block waits for its writes.
    pub writes: Writes,
}

/// What a block's reads wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Reads {
    /// For answers: a block keeps [`GpuConfig::requests_a_block`] reads in flight, and computes
    /// after the last answer.
    #[default]
    Answers,
    /// For their time: they are spread evenly over the computation. The block writes when its reads
    /// and its computation have ended.
    Time,
}

/// Whether a block waits for its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Writes {
    /// A block ends when its last write is acknowledged.
    #[default]
    Wait,
    /// Writes leave as evictions, all at once, and the block ends.
    Evict,
}

impl Default for GpuConfig {
    /// NVIDIA's published limits of the T4 (compute capability 7.5), a 70 W card: a plausible GPU
    /// inside a storage box. The requests per block are our choice.
    fn default() -> Self {
        GpuConfig {
            name: "t4".to_owned(),
            cores: 40,
            threads_a_core: 1024,
            blocks_a_core: 16,
            registers_a_core: 65_536,
            shared_bytes_a_core: 65_536,
            requests_a_block: 8,
            memory_bytes: 16 << 30,
            request_bytes: 0,
            reads: Reads::Answers,
            writes: Writes::Wait,
        }
    }
}

impl GpuConfig {
    /// The named GPUs.
    const NAMES: [&'static str; 4] = ["t4", "v100", "a100", "h100"];

    /// The limits that NVIDIA publishes for a GPU (CUDA C++ Programming Guide, technical
    /// specifications by compute capability 7.5, 7.0, 8.0, 9.0; cores and the smallest memory from
    /// the data sheets).
    ///
    /// # Errors
    /// A name that is not in [`GpuConfig::NAMES`].
    pub fn named(name: &str) -> Result<Self> {
        let (cores, shared_kib, memory_gib) = match name {
            "t4" => return Ok(GpuConfig::default()),
            "v100" => (80, 96, 16),
            "a100" => (108, 164, 40),
            "h100" => (132, 228, 80),
            _ => {
                let names = GpuConfig::NAMES.join(", ");
                let cause = format!("`{name}` is not one of {names}");
                return Err(Error::usage("find GPU", cause));
            }
        };
        Ok(GpuConfig {
            name: name.to_owned(),
            cores,
            threads_a_core: 2048,
            blocks_a_core: 32,
            shared_bytes_a_core: shared_kib << 10,
            memory_bytes: memory_gib << 30,
            ..GpuConfig::default()
        })
    }

    /// Sectors of the largest request.
    pub(crate) fn sectors_max(&self) -> u32 {
        match self.request_bytes / 512 {
            0 => u32::MAX,
            sectors => u32::try_from(sectors).unwrap_or(u32::MAX),
        }
    }

    fn validate(&self) -> Result<()> {
        if !self.request_bytes.is_multiple_of(512) {
            let cause = format!(
                "requests of {} B are not whole sectors of 512 B",
                self.request_bytes
            );
            return Err(Error::usage(OPERATION, cause));
        }
        if self.cores == 0
            || self.cores > 65_536
            || self.threads_a_core == 0
            || self.blocks_a_core == 0
            || self.requests_a_block == 0
        {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "{}: cores, threads, block slots and requests must be at least one, cores at most 65536",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    /// Blocks of `kernel` that a core holds at a time. It is the minimum of the limits by threads,
    /// registers (which the hardware allocates in units of 256 per warp and register), shared
    /// memory and slots.
    ///
    /// # Errors
    /// Not even one block fits.
    pub(crate) fn slots(&self, kernel: &KernelSpec) -> Result<u32> {
        let need = Need::of(kernel);
        let by = |have: u64, need: u64| have.checked_div(need).unwrap_or(u64::MAX);
        let slots = u64::from(self.blocks_a_core)
            .min(by(u64::from(self.threads_a_core), need.threads))
            .min(by(u64::from(self.registers_a_core), need.registers))
            .min(by(self.shared_bytes_a_core, need.shared_bytes));
        if slots == 0 {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "a block of {} needs {} threads, {} registers and {} bytes of shared memory; a core of {} has {}, {} and {}",
                    kernel.name,
                    need.threads,
                    need.registers,
                    need.shared_bytes,
                    self.name,
                    self.threads_a_core,
                    self.registers_a_core,
                    self.shared_bytes_a_core
                ),
            )
            .hint("name the GPU that the kernels were recorded on, as in --gpu a100"));
        }
        Ok(slots as u32)
    }

    /// Compute time of one block of `kernel`.
    pub fn block_ps(&self, kernel: &KernelSpec) -> Result<Ps> {
        let at_once = u64::from(self.cores) * u64::from(self.slots(kernel)?);
        let waves = kernel.blocks().div_ceil(at_once).max(1);
        Ok(kernel.duration_ns.saturating_mul(NS) / waves)
    }
}

/// Resources of a core that a block occupies.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Need {
    pub(crate) threads: u64,
    pub(crate) registers: u64,
    pub(crate) shared_bytes: u64,
}

impl Need {
    pub(crate) fn of(kernel: &KernelSpec) -> Self {
        let threads: u64 = kernel
            .block
            .iter()
            .map(|n| u64::from((*n).max(1)))
            .product();
        let warps = threads.div_ceil(32);
        let a_warp = (u64::from(kernel.registers) * 32).next_multiple_of(256);
        Need {
            threads: warps * 32,
            registers: warps * a_warp,
            shared_bytes: kernel.shared_bytes,
        }
    }
}

/// One kernel launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// The function's name.
    pub name: String,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Run time of the kernel when its data is present.
    pub duration_ns: u64,
    /// Registers per thread.
    #[serde(default)]
    pub registers: u32,
    /// Shared memory per block.
    #[serde(default)]
    pub shared_bytes: u64,
    /// Accesses of every block.
    #[serde(default)]
    pub io: Vec<Access>,
    /// Accesses of single blocks from a page-access trace, by block.
    #[serde(default)]
    pub pages: Vec<PageAccess>,
}

impl KernelSpec {
    /// Number of blocks in the grid.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|n| u64::from((*n).max(1))).product()
    }

    /// A launch of a recorded trace with a declared access pattern.
    ///
    /// # Errors
    /// The trace has no durations.
    pub fn recorded(kernel: &Kernel, io: Vec<Access>) -> Result<Self> {
        let Some(duration_ns) = kernel.duration_ns else {
            return Err(
                Error::usage(OPERATION, format!("{} has no duration", kernel.name))
                    .hint("profile the run with the PyTorch profiler or nsys"),
            );
        };
        Ok(KernelSpec {
            name: kernel.name.to_string(),
            grid: kernel.grid,
            block: kernel.block,
            duration_ns,
            registers: kernel.registers,
            shared_bytes: kernel.shared_bytes,
            io,
            pages: Vec::new(),
        })
    }
}

/// Kernels that run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name in reports.
    pub name: String,
    /// The launches, in order.
    pub kernels: Vec<KernelSpec>,
    /// Launches before the run: they take no time, and the GPU's memory begins with the data that
    /// they read.
    #[serde(default)]
    pub before: Vec<KernelSpec>,
}

impl Workload {
    /// Reads a workload from JSON: `name` and `kernels`, each with name, grid, block, duration_ns,
    /// registers, shared_bytes, io and pages.
    ///
    /// # Errors
    /// Invalid JSON, or an unknown or missing key, with line and column; a kernel that no GPU could
    /// run.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |cause: String| Error::usage("read workload", cause);
        let workload: Workload =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let all = workload.kernels.iter().chain(&workload.before);
        for (at, kernel) in all.enumerate() {
            let product = |sides: [u32; 3]| {
                sides
                    .iter()
                    .try_fold(1u64, |all, side| all.checked_mul(u64::from((*side).max(1))))
                    .filter(|all| *all <= BLOCKS_MAX)
            };
            if product(kernel.grid).is_none() || product(kernel.block).is_none() {
                return Err(wrong(format!(
                    "kernel {at} (`{}`): a grid of {:?} blocks of {:?} threads; at most 2^32 of each are possible",
                    kernel.name, kernel.grid, kernel.block
                )));
            }
            for io in &kernel.io {
                io.check()
                    .map_err(|cause| wrong(format!("kernel {at} (`{}`): {cause}", kernel.name)))?;
            }
            if let Some(page) = kernel.pages.iter().find(|page| !page.is_sound()) {
                return Err(wrong(format!(
                    "kernel {at} (`{}`): an access of {} bytes at {}",
                    kernel.name, page.bytes, page.offset_bytes
                )));
            }
        }
        Ok(workload)
    }
}

/// How blocks are assigned to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    /// Block `i` to core `i mod cores`.
    RoundRobin,
    /// `stride` neighbouring blocks go to one core.
    LargeChunk {
        /// Blocks of a chunk.
        stride: u32,
    },
    /// Large chunks for kernels of fewer than `stride * cores` blocks, else round-robin.
    Auto {
        /// Blocks of a chunk.
        stride: u32,
    },
}

impl Scheduling {
    /// Chunk length for a kernel of `blocks` blocks on `cores` cores; 1 is round-robin.
    pub(crate) fn stride(self, blocks: u64, cores: u32) -> u64 {
        match self {
            Scheduling::RoundRobin => 1,
            Scheduling::LargeChunk { stride } => u64::from(stride.max(1)),
            Scheduling::Auto { stride } => {
                let stride = u64::from(stride.max(1));
                if blocks < stride * u64::from(cores) {
                    stride
                } else {
                    1
                }
            }
        }
    }
}

/// The `turn`th block that `core` of `cores` gets, in chunks of `stride`.
pub(crate) fn block_of(core: u32, cores: u32, turn: u64, stride: u64) -> u64 {
    (turn / stride * u64::from(cores) + u64::from(core)) * stride + turn % stride
}

/// The path of a block's requests to the drive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// The GPU owns queue pairs of the drive.
    InStorage,
    /// The host's processor handles every request, and data goes through host memory.
    Mediated {
        /// Host threads that serve requests.
        cpus: u32,
        /// Time of one such thread per request: interrupt, driver, completion.
        cpu_ps: Ps,
        /// Fixed time of a copy between host and GPU.
        copy_ps: Ps,
        /// Bytes per second between host memory and GPU, in one direction.
        copy_bytes_per_s: u64,
    },
}

impl Path {
    /// Two threads of the host, 4 us of software per request, copies over PCIe 4.0 x16 that take 8
    /// us to start. Guessed, in the order of magnitude of published figures for GPU I/O through the
    /// CPU.
    pub fn mediated() -> Self {
        Path::Mediated {
            cpus: 2,
            cpu_ps: 4 * US,
            copy_ps: 8 * US,
            copy_bytes_per_s: 25_000_000_000,
        }
    }
}

/// Random requests of the host's processor during the GPU's run, until the GPU is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostIo {
    /// Requests in flight.
    pub depth: u32,
    /// Bytes per request, a multiple of 512.
    pub bytes: u64,
    /// Share of reads.
    pub read_ratio: f64,
}

/// Everything that a run needs.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The GPU.
    pub gpu: GpuConfig,
    /// The drive. With `precondition`, its data is placed according to the allocation.
    pub drive: DriveConfig,
    /// The workloads to run.
    pub workloads: Vec<Workload>,
    /// How blocks are assigned to cores.
    pub scheduling: Scheduling,
    /// The path from the GPU to the drive.
    pub path: Path,
    /// Data cache of the drive.
    pub caching: crate::drive::Caching,
    /// Additional requests of the host.
    pub host: Option<HostIo>,
    /// Seed of random patterns.
    pub seed: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn kernel(blocks: u32, threads: u32, duration_ns: u64) -> KernelSpec {
        KernelSpec {
            name: "k".to_owned(),
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            duration_ns,
            registers: 0,
            shared_bytes: 0,
            io: Vec::new(),
            pages: Vec::new(),
        }
    }

    #[test]
    fn occupancy_is_the_least_of_the_limits() {
        let gpu = GpuConfig::default();
        let mut k = kernel(1, 256, 1000);
        assert_eq!(gpu.slots(&k).unwrap(), 4);
        k.registers = 128;
        assert_eq!(gpu.slots(&k).unwrap(), 2);
        k.shared_bytes = 40_000;
        assert_eq!(gpu.slots(&k).unwrap(), 1);
        k.shared_bytes = 70_000;
        let error = gpu.slots(&k).unwrap_err().to_string();
        assert!(error.contains("70000"), "{error}");
        assert_eq!(gpu.slots(&kernel(1, 1, 1)).unwrap(), 16);
    }

    #[test]
    fn a_block_computes_for_the_duration_over_the_waves() {
        let gpu = GpuConfig::default();
        // 4 blocks per core, 160 at a time.
        assert_eq!(gpu.block_ps(&kernel(160, 256, 1000)).unwrap(), 1000 * NS);
        assert_eq!(gpu.block_ps(&kernel(161, 256, 1000)).unwrap(), 500 * NS);
        assert_eq!(gpu.block_ps(&kernel(1600, 256, 1000)).unwrap(), 100 * NS);
    }

    #[test]
    fn every_block_goes_to_one_core_under_both_policies() {
        for stride in [1u64, 3, 8] {
            let mut seen = std::collections::BTreeSet::new();
            for core in 0..5 {
                let mut turn = 0;
                while block_of(core, 5, turn, stride) < 1000 {
                    assert!(seen.insert(block_of(core, 5, turn, stride)));
                    turn += 1;
                }
            }
            assert_eq!(seen.len(), 1000);
        }
        assert_eq!(block_of(2, 5, 1, 1), 7);
        assert_eq!(block_of(2, 5, 1, 8), 17);
    }

    #[test]
    fn large_chunks_apply_where_a_kernel_has_few_blocks() {
        let auto = Scheduling::Auto { stride: 8 };
        assert_eq!(auto.stride(319, 40), 8);
        assert_eq!(auto.stride(320, 40), 1);
        assert_eq!(Scheduling::RoundRobin.stride(1, 40), 1);
        assert_eq!(Scheduling::LargeChunk { stride: 4 }.stride(1 << 20, 40), 4);
    }
}
