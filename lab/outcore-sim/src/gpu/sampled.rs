//! Simulates a sample of a workload's kernels, and estimates the whole workload from it.
//!
//! Model: [`crate::allegro`]: launches with equal name, grid, block and duration represent each
//! other. The drawn launches run in the order of the workload. The time of each, from the end of
//! the previous one to its own end, counts as often as the number of launches that it represents.
//!
//! The estimate ignores two effects: a kernel runs after a different one than in the whole
//! workload, and on a drive on which less was written, so that collection takes a different share.
//! docs/sim/policies.md compares [`Estimate`] with whole runs. Valid for one workload at a time.

use std::sync::Arc;

use outcore_io::Result;
use outcore_traces::gpu::Kernel;
use serde::Serialize;

use super::workloads::requests_of;
use super::{GpuReport, Workload};
use crate::allegro::{AllegroOptions, Profile};
use crate::quantities::SECOND;

/// The launches that were drawn.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The drawn launches, in order.
    pub workload: Workload,
    /// Number of launches that each represents.
    pub weights: Vec<f64>,
    /// Launches of the whole workload.
    pub kernels: u64,
    /// Requests of the whole workload.
    pub requests: u64,
}

/// Estimate of the whole workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    /// Launches of the whole workload.
    pub kernels: u64,
    /// Launches that were simulated.
    pub simulated: u64,
    /// Requests of the whole workload.
    pub requests: u64,
    /// End time of the last block, in seconds.
    pub end_seconds: f64,
    /// Requests per second.
    pub iops: f64,
}

/// Draws launches of `workload`.
///
/// # Errors
/// An option is out of range, or no launch takes any time.
pub fn sample(workload: &Workload, options: &AllegroOptions, seed: u64) -> Result<Sample> {
    let mut profile = Profile::new();
    for kernel in &workload.kernels {
        profile.push(&Kernel {
            name: Arc::from(kernel.name.as_str()),
            grid: kernel.grid,
            block: kernel.block,
            start_ns: None,
            // A kernel without computation takes the time of its I/O, which is not known yet.
            duration_ns: Some(kernel.duration_ns.max(1)),
            stream: 0,
            registers: kernel.registers,
            shared_bytes: kernel.shared_bytes,
        })?;
    }
    let draws = profile.plan(options)?.draw(seed);
    let drawn = draws.iter().map(|draw| draw.launch as usize);
    Ok(Sample {
        workload: Workload {
            name: workload.name.clone(),
            kernels: drawn.map(|at| workload.kernels[at].clone()).collect(),
        },
        weights: draws.iter().map(|draw| draw.weight).collect(),
        kernels: workload.kernels.len() as u64,
        requests: workload.kernels.iter().map(requests_of).sum(),
    })
}

impl Sample {
    /// The estimate of the whole workload from a run of the sample, alone on its GPU.
    pub(crate) fn estimate(&self, report: &GpuReport) -> Estimate {
        let mut before = 0;
        let mut end_ps = 0.0;
        let ends = report.kernel_ends.first().map_or(&[][..], Vec::as_slice);
        for (weight, end) in self.weights.iter().zip(ends) {
            end_ps += weight * (end - before) as f64;
            before = *end;
        }
        let end_seconds = end_ps / SECOND as f64;
        Estimate {
            kernels: self.kernels,
            simulated: self.weights.len() as u64,
            requests: self.requests,
            end_seconds,
            iops: if end_seconds > 0.0 {
                self.requests as f64 / end_seconds
            } else {
                0.0
            },
        }
    }
}
