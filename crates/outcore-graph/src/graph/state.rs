//! A kernel's state of each vertex: memory that is reserved before anything is read.
//!
//! Contract: [`State::reserve`] reserves what a kernel needs in the job's memory, or fails with an
//! error that says how much it needs. Numbers that several threads change are atomic; [`numbers`]
//! creates them, and [`values`] converts them to plain numbers.

use std::sync::atomic::{AtomicU32, AtomicU64};

use outcore::{Error, Job, Kind, Result};
use outcore_io::memory::Reservation;
use outcore_io::units;

use super::Graph;
use super::plan::{EdgeReads, KernelPlan};

/// The least memory per thread that the engine needs to read tiles and lists.
const READING_BYTES: u64 = 1 << 20;

/// The memory that a kernel needs.
#[derive(Debug, Clone, Copy)]
pub struct StateBytes {
    /// Per vertex.
    pub vertex_bytes: usize,
    /// For everything else.
    pub beside_bytes: u64,
}

impl StateBytes {
    /// This much per vertex, and this much for everything else.
    pub fn new(vertex_bytes: usize, beside_bytes: u64) -> Self {
        StateBytes {
            vertex_bytes,
            beside_bytes,
        }
    }
}

/// The reserved memory of a kernel, freed when dropped.
#[derive(Debug)]
pub struct State {
    _held: Reservation,
}

impl State {
    /// Reserves the vertices' part of `bytes` for `kernel`, which will reserve the rest itself.
    ///
    /// # Errors
    /// [`Kind::Memory`], with the memory that is enough.
    pub fn reserve(job: &Job, graph: &Graph, kernel: &str, bytes: StateBytes) -> Result<Self> {
        State::planned(job, graph, kernel, EdgeReads::AsAsked, bytes)
    }

    /// Like [`State::reserve`], for a kernel with known reads; its plan is passed to the plan
    /// callback.
    ///
    /// # Errors
    /// As [`State::reserve`].
    pub fn planned(
        job: &Job,
        graph: &Graph,
        kernel: &str,
        reads: EdgeReads,
        StateBytes {
            vertex_bytes,
            beside_bytes,
        }: StateBytes,
    ) -> Result<Self> {
        let vertices = graph.vertices() as u64;
        let state_bytes = vertices * vertex_bytes as u64;
        let threads = job.options.threads.max(1) as u64;
        let needed_bytes = state_bytes + beside_bytes + threads * READING_BYTES;
        let free_bytes = job.budget.free_bytes();
        if needed_bytes > free_bytes {
            let held_bytes = job.budget.used_bytes();
            let cause = format!(
                "{} vertices need {} ({vertex_bytes} bytes each, and {} to read edges), but only \
                 {} are left",
                units::count(vertices),
                units::bytes(needed_bytes),
                units::bytes(needed_bytes - state_bytes),
                units::bytes(free_bytes)
            );
            let enough = units::bytes((needed_bytes + held_bytes).next_multiple_of(1 << 20));
            return Err(Error::new(Kind::Memory, kernel, cause)
                .hint(format!("allow at least {enough} with --memory")));
        }
        let held = job.budget.reserve("state of vertices", state_bytes)?;
        KernelPlan::new(
            job,
            graph,
            kernel,
            state_bytes,
            needed_bytes - state_bytes,
            reads,
        )
        .show();
        Ok(State { _held: held })
    }
}

/// Creates one atomic number per vertex.
pub fn numbers(vertices: usize, number: impl Fn(u32) -> u32) -> Vec<AtomicU32> {
    (0..vertices)
        .map(|vertex| AtomicU32::new(number(vertex as u32)))
        .collect()
}

/// Converts the numbers after the last change.
pub fn values(numbers: Vec<AtomicU32>) -> Vec<u32> {
    numbers.into_iter().map(AtomicU32::into_inner).collect()
}

/// Creates one sum per vertex, starting at 0.
pub(crate) fn sums(vertices: usize) -> Vec<AtomicU64> {
    (0..vertices).map(|_| AtomicU64::new(0)).collect()
}
