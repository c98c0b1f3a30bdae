//! The predicted memory and I/O of a kernel, shown before it starts, and its actual I/O.
//!
//! Contract: a plan depends only on the graph and the job, and is passed to the plan callback
//! ([`outcore::job::Control::on_plan`]). The number of passes depends on the edges for most
//! kernels, so a plan shows the bytes of one pass and their time on the drive. [`Graph::phases`]
//! returns the I/O so far: passes over the tiles, each with its plan, and reads of lists, which
//! cannot be predicted.
//!
//! N.B. Plans do not count computing. Above about 2 GB/s, the processor limits a pass.

use std::fmt;
use std::sync::PoisonError;

use outcore::job::{Layout, OutputPlaces};
use outcore::primitives::Summary;
use outcore::{Amounts, Forecast, Job, Phase, PhasePlan};
use outcore_io::units;

use super::Graph;

/// The phase of passes over all edges.
pub(super) const TILES: &str = "tiles";
/// The phase of reads of lists.
pub(super) const LISTS: &str = "lists";
/// The length of the engine's reads in a pass.
const REQUEST_BYTES: u64 = 4 << 20;

/// How a kernel reads edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeReads {
    /// It reads no edges, only degrees.
    Nothing,
    /// A fixed number of passes over the tiles.
    Passes(u32),
    /// A pass over the tiles that writes edges to scratch; they are then processed in this many
    /// bundles of vertices.
    Bundles(u64),
    /// Passes before the iterations, and in each iteration.
    EachIteration {
        /// Passes before the first iteration.
        before: u32,
        /// Passes per iteration.
        each: u32,
        /// The most iterations.
        most: u32,
    },
    /// A pass over the tiles in each round with many vertices; the lists of the vertices in other
    /// rounds.
    Frontiers,
    /// The lists of the vertices that take part in a round.
    Lists,
    /// Blocks with the lists of sampled vertices.
    Drawn,
    /// All lists, once for each memory-sized part of them.
    HeldParts,
    /// Reads that the kernel decides on.
    AsAsked,
}

impl fmt::Display for EdgeReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passes = |count: &u32| units::counted((*count).into(), "pass");
        match self {
            EdgeReads::Nothing => f.write_str("no edges are read"),
            EdgeReads::Passes(count) => f.write_str(&passes(count)),
            EdgeReads::Bundles(count) => {
                let bundles = units::counted(*count, "bundle");
                write!(f, "1 pass; then edges and labels on scratch, for {bundles} of vertices, one after another")
            }
            EdgeReads::EachIteration { before, each, most } => {
                if *before > 0 {
                    write!(f, "{}; then ", passes(before))?;
                }
                let most = units::counted((*most).into(), "iteration");
                write!(f, "{} per iteration, {most} at most", passes(each))
            }
            EdgeReads::Frontiers => f.write_str(
                "a pass in each round of many vertices; in other rounds, only the lists of their vertices",
            ),
            EdgeReads::Lists => f.write_str("in each round, the lists of the vertices that change"),
            EdgeReads::Drawn => f.write_str("the blocks of lists that neighbours are drawn from"),
            EdgeReads::HeldParts => f.write_str("all lists, once for each part that fills the memory"),
            EdgeReads::AsAsked => f.write_str("as many passes as the algorithm asks for"),
        }
    }
}

/// The plan of a kernel; see the module.
pub(crate) struct KernelPlan<'g> {
    /// The algorithm's name.
    pub(crate) kernel: &'g str,
    /// Memory for its state of vertices.
    pub(crate) state_bytes: u64,
    /// Memory for reading edges.
    pub(crate) beside_bytes: u64,
    /// How it reads edges.
    pub(crate) reads: EdgeReads,
    graph: &'g Graph,
    job: &'g Job,
}

impl<'g> KernelPlan<'g> {
    /// Plans `kernel` with this much memory for vertices, and this much for reading edges.
    pub(crate) fn new(
        job: &'g Job,
        graph: &'g Graph,
        kernel: &'g str,
        state_bytes: u64,
        beside_bytes: u64,
        reads: EdgeReads,
    ) -> Self {
        KernelPlan {
            kernel,
            state_bytes,
            beside_bytes,
            reads,
            graph,
            job,
        }
    }

    /// Passes it to the plan callback.
    pub(crate) fn show(&self) {
        self.job.control.show_plan(self);
    }
}

impl fmt::Display for KernelPlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifest = self.graph.manifest();
        writeln!(
            f,
            "{} of a graph of {} and {} on {}",
            self.kernel,
            units::counted(manifest.vertices, "vertex"),
            units::counted(manifest.edges, "edge"),
            units::counted(self.job.options.threads as u64, "thread"),
        )?;
        writeln!(
            f,
            "  memory: {} for vertices, {} to read edges",
            units::bytes(self.state_bytes),
            units::bytes(self.beside_bytes),
        )?;
        write!(f, "  reads: {}", self.reads)?;
        let list_bytes = self.graph.list_bytes();
        match self.reads {
            EdgeReads::Nothing => Ok(()),
            EdgeReads::Lists | EdgeReads::Drawn | EdgeReads::HeldParts => {
                write!(f, "; all lists are {}", units::bytes(list_bytes))
            }
            _ => {
                let pass = self.graph.plan_pass(self.job);
                write!(
                    f,
                    "; a pass reads {}",
                    units::bytes(self.graph.tile_bytes())
                )?;
                let Some(seconds) = pass.seconds else {
                    return Ok(());
                };
                let layout = self.graph.layout(self.job);
                write!(f, " in {} at {layout}", units::seconds(seconds))?;
                self.write_bounds(f, seconds)
            }
        }
    }
}

impl KernelPlan<'_> {
    /// The time of one iteration and of all iterations, for kernels that limit their number.
    fn write_bounds(&self, f: &mut fmt::Formatter<'_>, pass_seconds: f64) -> fmt::Result {
        match self.reads {
            EdgeReads::Passes(count) if count > 1 => {
                let all_seconds = f64::from(count) * pass_seconds;
                write!(f, "; all passes take {}", units::seconds(all_seconds))
            }
            EdgeReads::EachIteration { before, each, most } => {
                let iteration_seconds = f64::from(each) * pass_seconds;
                let all_seconds =
                    f64::from(before) * pass_seconds + f64::from(most) * iteration_seconds;
                write!(
                    f,
                    "; {} per iteration, at most {} in all",
                    units::seconds(iteration_seconds),
                    units::seconds(all_seconds)
                )
            }
            _ => Ok(()),
        }
    }
}

impl Graph {
    /// The layout of a job that reads its edges.
    fn layout(&self, job: &Job) -> Layout {
        let place = job.input_place(self.files.place(), self.tile_bytes());
        job.layout(&[place], &OutputPlaces::Unknown)
    }

    /// The predicted cost of a pass over the tiles. The time is unknown for graphs on all drives of
    /// a volume.
    pub(super) fn plan_pass(&self, job: &Job) -> PhasePlan {
        let bytes = self.tile_bytes();
        let requests = bytes.div_ceil(REQUEST_BYTES) as f64;
        let amounts = Amounts::of_files(bytes.into(), Forecast::NOTHING, requests);
        let pass = PhasePlan::new(TILES, amounts, &self.layout(job));
        match self.files.is_packed() {
            true => pass.of_unknown_time(),
            false => pass,
        }
    }

    /// The reads of edges by kernels so far: passes over the tiles, each with its plan, and reads
    /// of lists.
    pub fn phases(&self) -> Vec<Phase> {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.clone()
    }

    /// Adds bytes read to the phase of `planned`.
    pub(super) fn note_read(&self, name: &'static str, planned: Option<PhasePlan>, done: &Summary) {
        let mut phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(phase) = phases.iter_mut().find(|phase| phase.name == name) else {
            phases.push(Phase {
                name,
                seconds: done.seconds,
                read_bytes: done.read_bytes,
                written_bytes: 0,
                predicted: planned,
            });
            return;
        };
        phase.seconds += done.seconds;
        phase.read_bytes += done.read_bytes;
        if let Some((all, pass)) = phase.predicted.take().zip(planned) {
            phase.predicted = Some(all.and(&pass));
        }
    }
}
