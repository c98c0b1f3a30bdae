//! Predictions and results of passes: the figures that all front ends show.
//!
//! Contract: a plan predicts the work of the drives, phase by phase, at the rates of the job. It
//! has the number of bytes if that is known, and a bound if it depends on the data. It does not
//! include the computing time of functions. A summary holds the engine's counts and each phase with
//! its prediction, or the sums of these over several passes.

use std::fmt;

use super::pieces::OpenSources;
use crate::ends::{DriveTraffic, Phase, Phases, add_traffic, beside, traffic_by_drive};
use crate::forecast::{Amounts, Forecast, PhasePlan, predicted_text};
use crate::job::{Job, Layout};
use crate::shuffle::ShuffleSummary;
use crate::sort::SortSummary;
use crate::sort::lines::LineSummary;
use outcore_io::port::Volume;
use outcore_io::units;

/// Approximate length of a write.
const WRITE_BYTES: f64 = (1 << 20) as f64;

/// The plan of a chain.
#[derive(Debug, Clone, PartialEq)]
pub struct PassPlan {
    /// The steps between source and consumer, and the consumer.
    pub steps: String,
    /// How often the sources are read.
    pub reads: u32,
    /// Bytes that the sources hold.
    pub data_bytes: u64,
    /// Bytes of a piece's largest source; 0 if nothing is read in pieces.
    pub piece_bytes: u64,
    /// Pieces in flight per thread.
    pub window: usize,
    /// Threads.
    pub threads: usize,
    /// The predictions, phase by phase.
    pub phases: Vec<PhasePlan>,
    /// The places of the data, and the speeds of the drives there.
    pub layout: Layout,
}

impl PassPlan {
    /// The plan of one read of files, or none: a phase that reads and writes these amounts on the
    /// drives of `layout`.
    pub fn of_files(
        job: &Job,
        layout: Layout,
        steps: &str,
        phase: &'static str,
        data_bytes: u64,
        read_bytes: Forecast,
        written_bytes: Forecast,
    ) -> Self {
        let moved_bytes = read_bytes.and(written_bytes).bytes().unwrap_or(0);
        let requests = moved_bytes as f64 / WRITE_BYTES;
        let amounts = Amounts::of_files(read_bytes, written_bytes, requests);
        PassPlan {
            steps: steps.to_string(),
            reads: 1,
            data_bytes,
            piece_bytes: 0,
            window: 0,
            threads: job.options.threads,
            phases: vec![PhasePlan::new(phase, amounts, &layout)],
            layout,
        }
    }

    /// The sum of all phases.
    pub fn predicted(&self) -> PhasePlan {
        PhasePlan::total(&self.phases)
    }

    /// Adds the predictions to finished phases, for jobs that do not know this plan.
    pub fn beside(&self, phases: &mut [Phase]) {
        beside(phases, &self.phases);
    }
}

impl fmt::Display for PassPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.steps)?;
        let data = units::bytes(self.data_bytes);
        let reads = match (self.predicted().read_bytes.bytes(), self.reads) {
            (Some(part), _) if part < self.data_bytes => format!("parts of {data}"),
            (_, 1) => format!("{data} once"),
            (_, 2) => format!("{data} twice"),
            (_, times) => format!("{data} at most {times} times"),
        };
        write!(f, "  reads {reads}, writes nothing in between")?;
        if self.piece_bytes > 0 {
            let (piece, threads) = (units::bytes(self.piece_bytes), self.threads);
            let window = self.window;
            write!(
                f,
                "; pieces of {piece}, {window} in flight on each of {}",
                units::counted(threads as u64, "thread")
            )?;
        }
        writeln!(f)?;
        let predicted = predicted_text(&self.phases, None, &self.layout, None);
        write!(f, "  {predicted}")
    }
}

/// The prediction for a phase that takes pieces of `items` positions.
pub(crate) fn plan_phase(
    name: &'static str,
    sources: &OpenSources,
    items: u64,
    read: Forecast,
    written: Forecast,
    layout: &Layout,
) -> PhasePlan {
    let piece_bytes = items * sources.position_bytes().max(1) as u64;
    let read_share = read.bytes().unwrap_or(0) as f64 / piece_bytes as f64;
    let sources = sources
        .open
        .iter()
        .filter(|source| source.element_bytes > 0);
    let reads = read_share * sources.count() as f64;
    let writes = written.bytes().unwrap_or(0) as f64 / WRITE_BYTES;
    PhasePlan::new(
        name,
        Amounts::of_files(read, written, reads + writes),
        layout,
    )
}

/// The result of a pass, or of several consecutive passes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Positions or items that the first pass read, if they were counted.
    pub records_in: u64,
    /// Items of the result.
    pub records: u64,
    /// Passes over the data.
    pub passes: u32,
    /// Seconds of all passes.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives, and to a pipe.
    pub written_bytes: u64,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// Lines that were skipped because they have no key.
    pub skipped: u64,
    /// The phases of all passes, in order.
    pub phases: Vec<Phase>,
}

impl Summary {
    /// The summary of one pass over the drives of `volume`: its `phases` with the predictions in
    /// `planned`, the items in and out, and the bytes to a pipe.
    pub(crate) fn of_pass(
        volume: &Volume,
        phases: Phases,
        planned: &[PhasePlan],
        records_in: u64,
        records: u64,
        piped_bytes: u64,
    ) -> Self {
        let (read_bytes, written_bytes) = volume.traffic_bytes();
        let seconds = phases.started.elapsed().as_secs_f64();
        let mut phases = phases.beside(planned);
        if let Some(first) = phases.first_mut() {
            first.written_bytes += piped_bytes;
        }
        Summary {
            records_in,
            records,
            passes: 1,
            seconds,
            read_bytes,
            written_bytes: written_bytes + piped_bytes,
            drives: traffic_by_drive(volume),
            skipped: 0,
            phases,
        }
    }

    /// This summary, with the predictions in `planned` added to its phases.
    pub(crate) fn beside(mut self, planned: &[PhasePlan]) -> Self {
        beside(&mut self.phases, planned);
        self
    }

    /// Adds the writing of the result, which does not count as a pass over the data.
    pub(crate) fn and_unread(self, written: Summary) -> Self {
        self.and(Summary {
            passes: 0,
            ..written
        })
    }

    /// Adds a later pass: the result is that of the later one, and the bytes are the sums.
    #[must_use]
    pub fn and(mut self, later: Summary) -> Self {
        add_traffic(&mut self.drives, &later.drives);
        self.phases.extend(later.phases);
        Summary {
            records_in: match self.passes {
                0 => later.records_in,
                _ => self.records_in,
            },
            records: later.records,
            passes: self.passes + later.passes,
            seconds: self.seconds + later.seconds,
            read_bytes: self.read_bytes + later.read_bytes,
            written_bytes: self.written_bytes + later.written_bytes,
            drives: self.drives,
            skipped: self.skipped + later.skipped,
            phases: self.phases,
        }
    }
}

impl From<SortSummary> for Summary {
    fn from(done: SortSummary) -> Self {
        Summary {
            records_in: done.records,
            records: done.records,
            passes: done.passes,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: 0,
            phases: done.phases,
        }
    }
}

impl From<ShuffleSummary> for Summary {
    fn from(done: ShuffleSummary) -> Self {
        Summary {
            records_in: done.records,
            records: done.records,
            passes: 1 + done.plan.distributions,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: 0,
            phases: done.phases,
        }
    }
}

impl From<LineSummary> for Summary {
    fn from(done: LineSummary) -> Self {
        Summary {
            records_in: done.lines_in,
            records: done.lines_out,
            passes: done.passes,
            seconds: done.seconds,
            read_bytes: done.read_bytes,
            written_bytes: done.written_bytes,
            drives: done.drives,
            skipped: done.skipped,
            phases: done.phases,
        }
    }
}
