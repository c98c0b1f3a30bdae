//! What a kernel will keep in memory and read, said before it starts, and what it has read, beside
//! it.
//!
//! Contract: a plan is made from the graph and the job alone and goes to whoever asked for plans
//! ([`outcore::job::Control::on_plan`]). How many passes a kernel takes depends on the edges for
//! most of them, so a plan says what one pass reads and how long the drive takes for it.
//! [`Graph::phases`] says what was read so far: passes over the tiles, each beside what was planned
//! of it, and reads of lists, of which nobody knows before.
//!
//! N.B. computing is not counted: at more than about 2 GB/s, a pass is bound by the processor.

use std::fmt;
use std::sync::PoisonError;

use outcore::primitives::Summary;
use outcore::{Forecast, Job, Phase, PhasePlan};
use outcore_io::units;

use super::Graph;

/// The phase of passes over all edges.
pub(super) const TILES: &str = "tiles";
/// The phase of reads of lists.
pub(super) const LISTS: &str = "lists";
/// What the engine reads at a time in a pass.
const REQUEST_BYTES: u64 = 4 << 20;

/// What a kernel reads of the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeReads {
    /// Nothing: degrees are beside them.
    Nothing,
    /// A number of passes over the tiles.
    Passes(u32),
    /// A pass over the tiles, after which edges are on scratch, taken out of the graph in this many
    /// bundles of vertices.
    Bundles(u64),
    /// Passes before iterations, and in each of these.
    EachIteration {
        /// Passes before the first.
        before: u32,
        /// Passes in each.
        each: u32,
        /// Iterations at most.
        most: u32,
    },
    /// A pass over the tiles a round where many vertices take part, and the lists of these where
    /// they are few.
    Frontiers,
    /// The lists of the vertices that take part in a round.
    Lists,
    /// Blocks with the lists of vertices that are drawn.
    Drawn,
    /// All lists, once for each part of them that fills the memory.
    HeldParts,
    /// Whatever the kernel asks for.
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
                write!(f, "1 pass; then edges and labels on scratch, {bundles} of vertices in turn")
            }
            EdgeReads::EachIteration { before, each, most } => {
                if *before > 0 {
                    write!(f, "{}; then ", passes(before))?;
                }
                let most = units::counted((*most).into(), "iteration");
                write!(f, "{} an iteration, {most} at most", passes(each))
            }
            EdgeReads::Frontiers => f.write_str(
                "a pass for each round of many vertices, only the lists of the vertices in other rounds",
            ),
            EdgeReads::Lists => f.write_str("the lists of the vertices that change, each round"),
            EdgeReads::Drawn => f.write_str("the blocks of lists that neighbours are drawn from"),
            EdgeReads::HeldParts => f.write_str("all lists, once for each part that fills the memory"),
            EdgeReads::AsAsked => f.write_str("as many passes as the algorithm asks for"),
        }
    }
}

/// What a kernel will do; see the module.
pub(crate) struct KernelPlan<'g> {
    /// The algorithm's name.
    pub(crate) kernel: &'g str,
    /// Memory that it keeps.
    pub(crate) state_bytes: u64,
    /// Memory that it reads edges with.
    pub(crate) beside_bytes: u64,
    /// What it reads.
    pub(crate) reads: EdgeReads,
    graph: &'g Graph,
    job: &'g Job,
}

impl<'g> KernelPlan<'g> {
    /// The plan of `kernel`, with this much memory for vertices and beside them.
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

    /// Shows it to whoever asked for plans.
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
                match pass.seconds {
                    Some(seconds) => {
                        let rates = &self.job.options.rates;
                        write!(f, " in {} at {rates}", units::seconds(seconds))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl Graph {
    /// What a pass over the tiles will take. The time is not known for graphs that lie on all
    /// drives of a volume.
    pub(super) fn plan_pass(&self, job: &Job) -> PhasePlan {
        let bytes = self.tile_bytes();
        let requests = bytes.div_ceil(REQUEST_BYTES) as f64;
        let rates = &job.options.rates;
        let seconds = rates.seconds((bytes as f64, 0.0), requests, 1);
        PhasePlan {
            name: TILES,
            read_bytes: Forecast::About(bytes),
            written_bytes: Forecast::NOTHING,
            seconds: (!self.files.is_packed()).then_some(seconds),
        }
    }

    /// What kernels have read of the edges so far: passes over the tiles, with what was planned of
    /// them, and lists.
    pub fn phases(&self) -> Vec<Phase> {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        phases.clone()
    }

    /// Adds what was read to the phase that `planned` is of.
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
        if let (Some(all), Some(pass)) = (&mut phase.predicted, planned) {
            let bytes = all.read_bytes.bytes().zip(pass.read_bytes.bytes());
            all.read_bytes = match bytes {
                Some((all, pass)) => Forecast::About(all + pass),
                None => Forecast::Unknown,
            };
            all.seconds = all.seconds.zip(pass.seconds).map(|(all, pass)| all + pass);
        }
    }
}
