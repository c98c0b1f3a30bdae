//! Simulates a sample of a workload's kernels, and estimates the whole workload from it.
//!
//! Model: [`crate::allegro`]: launches with equal name, grid, block and duration represent each
//! other. The drawn launches run in the order of the workload. The time of each, from the end of
//! the previous one to its own end, is multiplied by the number of launches that it represents.
//!
//! The estimate ignores two effects:
//! - A drawn kernel runs after another kernel than in the whole workload, unless the kernels that
//!   lead to it also run.
//! - Less is written to the drive, so that collection takes a different share of the time.
//!
//! docs/sim/policies.md compares [`Estimate`] with whole runs. Valid for one workload at a time.

use std::sync::Arc;

use outcore_io::Result;
use outcore_traces::gpu::Kernel;
use serde::Serialize;

use super::{GpuReport, Workload};
use crate::allegro::{AllegroOptions, Profile};
use crate::quantities::{NS, SECOND};

/// The launches that were drawn.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The drawn launches, in order, each after the launches that must run before it.
    pub workload: Workload,
    /// Number of launches that each represents; 0 for launches that run only because they precede
    /// a drawn one.
    pub weights: Vec<f64>,
    /// Launches of the whole workload.
    pub kernels: u64,
}

/// Estimate of the whole workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    /// Launches of the whole workload.
    pub kernels: u64,
    /// Launches that were simulated.
    pub simulated: u64,
    /// End time of the last block and request, in seconds.
    pub end_seconds: f64,
    /// Requests per second.
    pub iops: f64,
    /// Mean device response.
    pub response_us: f64,
}

/// The most launches that are profiled. In a longer run, these launches also represent the later
/// ones, and their weights are larger.
const PROFILED_MAX: u64 = 1 << 18;

/// Draws from `launches` launches, which repeat the kernels of `workload`. The `lead` launches
/// before each drawn one also run. They have weight 0. They run only because they leave requests
/// and data behind, as in the whole run.
///
/// # Errors
/// An option is out of range, or no launch takes any time.
pub fn sample(
    workload: &Workload,
    launches: u64,
    options: &AllegroOptions,
    lead: usize,
    seed: u64,
) -> Result<Sample> {
    let pass = &workload.kernels;
    let profiled = launches.min(PROFILED_MAX.max(pass.len() as u64));
    let mut profile = Profile::new();
    let names: Vec<Arc<str>> = pass.iter().map(|k| Arc::from(k.name.as_str())).collect();
    for (kernel, name) in pass.iter().zip(&names).cycle().take(profiled as usize) {
        profile.push(&Kernel {
            name: Arc::clone(name),
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
    let repeats = launches as f64 / profiled.max(1) as f64;
    let (mut kernels, mut weights) = (Vec::new(), Vec::new());
    for draw in &draws {
        let launch = draw.launch as usize;
        for at in launch.saturating_sub(lead)..=launch {
            kernels.push(pass[at % pass.len()].clone());
            weights.push(if at == launch {
                draw.weight * repeats
            } else {
                0.0
            });
        }
    }
    Ok(Sample {
        workload: Workload {
            name: workload.name.clone(),
            kernels,
            before: workload.before.clone(),
        },
        weights,
        kernels: launches,
    })
}

impl Sample {
    /// The estimate of the whole workload from a run of the sample, alone on its GPU.
    pub(crate) fn estimate(&self, report: &GpuReport) -> Estimate {
        let (mut before, mut end_ps, mut requests, mut response_ps) = (0, 0.0, 0.0, 0.0);
        let runs = report.kernel_runs.first().map_or(&[][..], Vec::as_slice);
        for (weight, run) in self.weights.iter().zip(runs) {
            end_ps += weight * (run.end - before) as f64;
            requests += weight * run.requests as f64;
            response_ps += weight * run.response_ps as f64;
            before = run.end;
        }
        let over = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let end_seconds = end_ps / SECOND as f64;
        Estimate {
            kernels: self.kernels,
            simulated: self.weights.len() as u64,
            end_seconds,
            iops: over(requests, end_seconds),
            response_us: over(response_ps, requests) / (1000 * NS) as f64,
        }
    }
}
