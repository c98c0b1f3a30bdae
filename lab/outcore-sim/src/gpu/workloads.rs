//! The workloads of MQMS' evaluation as descriptions: networks and Rodinia kernels.
//!
//! The model covers:
//! - the kernels of one pass, with their published shapes;
//! - the bytes that every block reads and writes, derived from how such kernels traverse their
//!   arrays;
//! - durations by the roofline of the default GPU ([`roofline_ns`]).
//!
//! It does not cover real durations, fused or library-specific kernels, or caches: each block reads
//! its own tile of the weights, and every box its own 27 neighbours. `scripts/profile_networks.py`
//! records real kernels instead; `sim gpu --trace` reads them.
//!
//! Sources of the shapes: Devlin et al., "BERT" (base: 12 layers, 768 wide, 12 heads); Radford et
//! al., "Language Models are Unsupervised Multitask Learners" (small: 12 layers, 768 wide, 50257
//! tokens); He et al., "Deep Residual Learning" (ResNet-50, table 1); Rodinia 3.1's defaults
//! (backprop 65536 inputs and 16 hidden, hotspot 512 x 512, lavaMD 10 boxes per edge with 100
//! particles each). The kernel counts of the whole runs are the paper's.
//!
//! A description is cut to the requested number of requests ([`Network::workload`]). Whole kernels
//! are kept from the front, and the report contains their number.

mod networks;
mod rodinia;

use super::memory::Memory;
use super::pattern::{Access, AccessOp, Pattern};
use super::requests::{Held, to_drive};
use super::{GpuConfig, KernelSpec, Workload};

/// Bytes of a matrix request: 256 half-precision columns.
const PIECE_BYTES: u64 = 512;
/// Bytes of a half-precision number.
const HALF: u64 = 2;

/// A workload of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// BERT base, 128 tokens.
    Bert,
    /// GPT-2 small, one token after 512 others.
    Gpt2,
    /// ResNet-50, one image of 224 x 224.
    Resnet50,
    /// Rodinia backprop.
    Backprop,
    /// Rodinia hotspot.
    Hotspot,
    /// Rodinia lavaMD.
    Lavamd,
}

impl Network {
    /// All, networks first.
    pub const ALL: [Network; 6] = [
        Network::Bert,
        Network::Gpt2,
        Network::Resnet50,
        Network::Backprop,
        Network::Hotspot,
        Network::Lavamd,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Bert => "bert",
            Network::Gpt2 => "gpt2",
            Network::Resnet50 => "resnet50",
            Network::Backprop => "backprop",
            Network::Hotspot => "hotspot",
            Network::Lavamd => "lavamd",
        }
    }

    /// One pass (a forward pass, a token, a training step, a run).
    pub(crate) fn pass(self) -> Vec<KernelSpec> {
        match self {
            Network::Bert => networks::bert(),
            Network::Gpt2 => networks::gpt2(),
            Network::Resnet50 => networks::resnet50(),
            Network::Backprop => rodinia::backprop(),
            Network::Hotspot => rodinia::hotspot(),
            Network::Lavamd => rodinia::lavamd(),
        }
    }

    /// Kernels of the paper's run, if the paper gives them.
    pub(crate) const fn paper_kernels(self) -> Option<u64> {
        match self {
            Network::Bert => Some(1_858_800),
            Network::Gpt2 => Some(34_981_000),
            Network::Resnet50 => Some(2_812_741),
            Network::Backprop | Network::Hotspot | Network::Lavamd => None,
        }
    }

    /// The first kernels of repeated passes whose requests to the drive add up to `requests_max`;
    /// at least one kernel. A GPU with memory has run one pass before.
    pub fn workload(self, requests_max: u64, gpu: &GpuConfig, seed: u64) -> Workload {
        let mut workload = self.one_pass(gpu);
        let mut memory = Memory::new(gpu.memory_bytes);
        let mut count = |kernel: &KernelSpec| {
            let first_sector = 0;
            let memory = memory.as_mut();
            let memory = memory.map(|memory| Held {
                memory,
                first_sector,
            });
            to_drive(kernel, gpu, memory, seed)
        };
        for kernel in &workload.before {
            count(kernel);
        }
        workload.kernels = front(workload.kernels.iter().cycle(), requests_max, count);
        workload
    }

    /// One pass, after another one if the GPU has memory.
    pub(crate) fn one_pass(self, gpu: &GpuConfig) -> Workload {
        let pass = self.pass();
        Workload {
            name: self.name().to_owned(),
            before: if gpu.memory_bytes > 0 {
                pass.clone()
            } else {
                Vec::new()
            },
            kernels: pass,
        }
    }
}

/// The first of `kernels` whose requests, as `count` returns them, add up to at most
/// `requests_max`; at least one kernel, if there are any.
pub(super) fn front<'a>(
    kernels: impl Iterator<Item = &'a KernelSpec>,
    requests_max: u64,
    mut count: impl FnMut(&KernelSpec) -> u64,
) -> Vec<KernelSpec> {
    let (mut taken, mut requests) = (Vec::new(), 0u64);
    for kernel in kernels {
        requests = requests.saturating_add(count(kernel));
        if !taken.is_empty() && requests > requests_max {
            break;
        }
        taken.push(kernel.clone());
    }
    taken
}

/// Number of accesses of one launch.
pub fn requests_of(kernel: &KernelSpec) -> u64 {
    let a_block: u64 = kernel.io.iter().map(|io| u64::from(io.count)).sum();
    let patterns = kernel.blocks().saturating_mul(a_block);
    patterns.saturating_add(kernel.pages.len() as u64)
}

/// Duration by the roofline of the T4: 8.1 TFLOP/s in single precision (half of it is reached), 320
/// GB/s, and at least 2 us per launch.
pub(crate) fn roofline_ns(flops: u64, bytes: u64) -> u64 {
    let compute = flops as f64 / 4.05e12;
    let memory = bytes as f64 / 320e9;
    2_000 + (compute.max(memory) * 1e9) as u64
}

/// The place of an array on the drive.
#[derive(Debug, Clone, Copy)]
struct Array {
    start_bytes: u64,
    len_bytes: u64,
}

/// Places arrays one after the other, each at a 16 KiB boundary.
#[derive(Debug, Default)]
struct Layout {
    next_bytes: u64,
}

impl Array {
    /// The part of the array after `bytes`.
    const fn after(self, bytes: u64) -> Array {
        Array {
            start_bytes: self.start_bytes + bytes,
            len_bytes: self.len_bytes - bytes,
        }
    }
}

impl Layout {
    fn array(&mut self, len_bytes: u64) -> Array {
        let start_bytes = self.next_bytes;
        self.next_bytes = (start_bytes + len_bytes).next_multiple_of(16 << 10);
        Array {
            start_bytes,
            len_bytes,
        }
    }
}

fn kernel(name: &str, blocks: u64, threads: u32, duration_ns: u64, io: Vec<Access>) -> KernelSpec {
    KernelSpec {
        name: name.to_owned(),
        grid: [blocks.max(1) as u32, 1, 1],
        block: [threads, 1, 1],
        duration_ns,
        registers: 64,
        shared_bytes: 8 << 10,
        io,
        pages: Vec::new(),
    }
}

fn access(op: AccessOp, pattern: Pattern, bytes: u64, count: u64, array: Array) -> Access {
    Access {
        op,
        pattern,
        bytes: bytes as u32,
        count: count as u32,
        start_bytes: array.start_bytes,
        region_bytes: array.len_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GPU without memory.
    fn bare() -> GpuConfig {
        GpuConfig {
            memory_bytes: 0,
            ..GpuConfig::default()
        }
    }

    #[test]
    fn the_front_of_a_run_is_whole_kernels_and_never_nothing() {
        let pass = Network::Resnet50.pass();
        let sum = |kernels: &[KernelSpec]| kernels.iter().map(requests_of).sum::<u64>();
        let limit = sum(&pass[..5]);
        for (limit, expected) in [(limit, 5), (limit - 1, 4), (1, 1), (u64::MAX, pass.len())] {
            assert_eq!(
                front(pass.iter(), limit, requests_of).len(),
                expected,
                "{limit}"
            );
        }
        assert!(front([].iter(), 9, requests_of).is_empty());
    }

    #[test]
    fn every_pass_fits_the_gpu_and_has_requests() {
        for network in Network::ALL {
            let pass = network.pass();
            assert!(
                pass.iter().map(requests_of).sum::<u64>() > 10_000,
                "{network:?}"
            );
            for kernel in &pass {
                assert!(GpuConfig::default().slots(kernel).unwrap() > 0);
                assert!(kernel.io.iter().all(|io| io.bytes > 0 && io.count > 0));
            }
        }
        assert_eq!(Network::Hotspot.pass().len(), 30);
        assert_eq!(Network::Resnet50.pass().len(), 2 * 53 + 1);
    }

    #[test]
    fn a_cut_keeps_whole_kernels_and_repeats_short_passes() {
        let cut = Network::Bert.workload(20_000, &bare(), 1);
        let requests: u64 = cut.kernels.iter().map(requests_of).sum();
        assert!(requests <= 20_000 && cut.kernels.len() > 1);
        assert!(
            Network::Backprop
                .workload(100_000, &bare(), 1)
                .kernels
                .len()
                > 2
        );
        assert_eq!(Network::Lavamd.workload(1, &bare(), 1).kernels.len(), 1);
    }
}
