//! Collects the stretches that are cut, and keeps them for a run that continues.
//!
//! Contract: a [`CutSink`] takes the places of repeated passages in order, on several threads, and
//! merges those that touch. [`KeptCuts`] is the state of a job after that.
//!
//! Bounds: [`super::cuts::CUT_BYTES`] per cut, at most four times, and at most the given number of
//! cuts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use outcore::Job;
use outcore::sort::lines::rows::{RowPart, RowSink};
use outcore::states::{Column, PassState};
use outcore_io::{Error, Kind, Result};

use super::DEDUP;
use super::cuts::{Cut, Mark, united};

/// Takes places in order, and merges those that touch.
pub(super) struct CutSink {
    /// The least length of passages; places store only the excess.
    units_count: usize,
    part_bytes: u64,
    cuts_max: u64,
    cuts: AtomicU64,
    parts: Mutex<Vec<(usize, Vec<Cut>)>>,
}

struct CutPart<'s> {
    sink: &'s CutSink,
    number: usize,
    cuts: Vec<Cut>,
}

impl CutSink {
    /// A sink of the cuts of passages of at least `units_count`, at most `cuts_max` of them.
    pub(super) fn new(units_count: usize, part_bytes: u64, cuts_max: u64) -> Self {
        CutSink {
            units_count,
            part_bytes,
            cuts_max,
            cuts: AtomicU64::new(0),
            parts: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn all(self) -> Vec<Cut> {
        let mut parts = self
            .parts
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        parts.sort_by_key(|(number, _)| *number);
        let mut all = Vec::new();
        for cut in parts.into_iter().flat_map(|(_, cuts)| cuts) {
            united(&mut all, cut);
        }
        all
    }
}

impl RowSink for CutSink {
    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn begin(&self, number: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(CutPart {
            sink: self,
            number,
            cuts: Vec::new(),
        }))
    }
}

impl RowPart for CutPart<'_> {
    fn take(&mut self, marks: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let before = self.cuts.len();
        for mark in marks {
            let mark = Mark::read(mark).ok_or_else(cut_short)?;
            united(&mut self.cuts, mark.cut(self.sink.units_count));
        }
        let more = self.cuts.len().saturating_sub(before) as u64;
        let cuts = self.sink.cuts.fetch_add(more, Ordering::Relaxed) + more;
        check_count(cuts, self.sink.cuts_max)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let parts = self.sink.parts.lock();
        let mut parts = parts.unwrap_or_else(PoisonError::into_inner);
        parts.push((self.number, self.cuts));
        Ok(())
    }
}

/// Fails for more cuts than fit in their share of the memory.
pub(super) fn check_count(cuts: u64, cuts_max: u64) -> Result<()> {
    if cuts <= cuts_max {
        return Ok(());
    }
    let cause = format!("more than {cuts_max} stretches must be cut");
    Err(Error::new(Kind::Memory, DEDUP, cause).hint("look for longer passages"))
}

pub(super) fn cut_short() -> Error {
    Error::corrupt(DEDUP, "a passage is cut short").hint("a bug, or scratch was changed: run again")
}

/// Numbers of a cut.
const CUT_NUMBERS: usize = 4;

/// The state after the sorts: the cuts, each as its numbers.
#[derive(Default)]
pub(super) struct KeptCuts {
    numbers: Vec<u32>,
}

impl KeptCuts {
    /// The state of a job with these cuts; empty if the job keeps none.
    pub(super) fn of(job: &Job, cuts: &[Cut]) -> Self {
        let cuts = cuts.iter().filter(|_| job.states.is_some());
        let numbers = cuts.flat_map(|cut| [cut.row, cut.start, cut.end, cut.first_row]);
        KeptCuts {
            numbers: numbers.collect(),
        }
    }

    pub(super) fn cuts(&self) -> Result<Vec<Cut>> {
        let (cuts, rest) = self.numbers.as_chunks::<CUT_NUMBERS>();
        if !rest.is_empty() {
            return Err(cut_short());
        }
        let cuts = cuts.iter().map(|&[row, start, end, first_row]| Cut {
            row,
            start,
            end,
            first_row,
        });
        Ok(cuts.collect())
    }
}

impl PassState for KeptCuts {
    const NAME: &'static str = "cuts";
    /// The number of numbers.
    type Facts = usize;

    fn facts(&self) -> usize {
        self.numbers.len()
    }

    fn take(&mut self, count: usize) {
        self.numbers = vec![0; count];
    }

    fn columns(&mut self) -> Vec<Column<'_>> {
        vec![Column::of(&mut self.numbers)]
    }
}
