//! The named reservations of a job: a plan lists them, the run draws on them.
//!
//! Contract: a [`Ledger`] is a list of named lines of bytes, each for the whole job or for one of
//! its phases, which run one after another. Its sum is the shared lines plus the largest phase.
//! [`Ledger::open`] reserves this sum from a [`Budget`] at once, or fails before any input is read,
//! and returns a budget for the run. That budget knows the lines: a reservation draws from the line
//! of its name and returns to it. Drawing from an unknown line, or more than a line has, is a
//! defect of the plan. Such a defect is a panic in builds with debug assertions, and otherwise an
//! error that names the line.
//!
//! Invariants: the run never holds more than the sum, and so never more than the budget. Opening
//! the ledger determines whether a job fits; the job cannot run out of memory later.

use std::fmt;

use super::{Budget, Reservation};
use crate::error::{Error, Kind, Result};
use crate::units;

/// The reservations of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    job: &'static str,
    lines: Vec<Line>,
    /// Whether the job's memory uses only small pages.
    has_small_pages: bool,
}

/// One kind of reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The phase of the job in which the line is held; `None` for all phases.
    pub phase: Option<&'static str>,
    /// The name under which the memory is reserved.
    pub name: &'static str,
    /// The largest number of bytes that are drawn from the line at once.
    pub bytes: u64,
}

impl Ledger {
    /// A ledger without lines for `job`, as in "sort of lines".
    pub fn new(job: &'static str) -> Self {
        Ledger {
            job,
            lines: Vec::with_capacity(12),
            has_small_pages: false,
        }
    }

    /// Uses small pages, for jobs that touch little of their reservation: clearing a huge page
    /// takes longer than such a job's work.
    #[must_use]
    pub fn in_small_pages(mut self) -> Self {
        self.has_small_pages = true;
        self
    }

    /// Adds a line that may be drawn in all phases.
    #[must_use]
    pub fn always(mut self, name: &'static str, bytes: u64) -> Self {
        self.lines.push(Line {
            phase: None,
            name,
            bytes,
        });
        self
    }

    /// Adds a line that is drawn in one phase only.
    #[must_use]
    pub fn during(mut self, phase: &'static str, name: &'static str, bytes: u64) -> Self {
        self.lines.push(Line {
            phase: Some(phase),
            name,
            bytes,
        });
        self
    }

    /// Enlarges the line `name` of a phase until the sum is `memory_bytes`; it stays unchanged if
    /// there is no room.
    #[must_use]
    pub fn filled(mut self, phase: &'static str, name: &str, memory_bytes: u64) -> Self {
        let spare_bytes = memory_bytes.saturating_sub(self.phase_bytes(Some(phase)));
        let mut lines = self.lines.iter_mut();
        if let Some(line) = lines.find(|line| line.phase == Some(phase) && line.name == name) {
            line.bytes += spare_bytes;
        }
        self
    }

    /// The lines of the ledger, in the order of addition.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Largest number of bytes that the job holds.
    pub fn bytes(&self) -> u64 {
        // Planners call this thousands of times. Lines of one phase are mostly adjacent.
        let mut before = None;
        let phases = self.lines.iter().map(|line| line.phase);
        let changes = phases.filter(|phase| before.replace(*phase) != Some(*phase));
        let sums = changes.map(|phase| self.phase_bytes(phase));
        sums.max().unwrap_or(0)
    }

    /// Sum of the lines for all phases and those of `phase`.
    fn phase_bytes(&self, phase: Option<&'static str>) -> u64 {
        let lines = self.lines.iter();
        let held = lines.filter(|line| line.phase.is_none() || line.phase == phase);
        held.fold(0, |sum, line| sum.saturating_add(line.bytes))
    }

    /// Reserves the whole sum from `budget`, and returns a budget with exactly these lines.
    ///
    /// # Errors
    /// [`Kind::Memory`] if less is left; nothing is reserved then.
    pub fn open(&self, budget: &Budget) -> Result<Budget> {
        let reservation = budget.reserve(self.job, self.bytes())?;
        Ok(Budget::of_ledger(self.clone(), reservation))
    }
}

/// A table of the lines, as shown by `--explain`.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  memory reserved: {}", units::bytes(self.bytes()))?;
        for line in self.lines.iter().filter(|line| line.bytes > 0) {
            let phase = line.phase.unwrap_or("always");
            let bytes = units::bytes(line.bytes);
            write!(f, "\n    {phase:<10}  {bytes:>10}  {}", line.name)?;
        }
        Ok(())
    }
}

/// A ledger whose sum is reserved from a budget, with the amounts drawn so far.
#[derive(Debug)]
pub(super) struct Opened {
    ledger: Ledger,
    drawn: std::sync::Mutex<Vec<u64>>,
    _reservation: Reservation,
}

/// The answer to a request.
pub(super) enum Answer {
    /// Drawn from the line with this number.
    Drawn(usize),
    /// The line has too little left now.
    Later,
    /// There is no such line, or the line is never that large.
    Defect(Error),
}

impl Opened {
    pub(super) fn new(ledger: Ledger, reservation: Reservation) -> Self {
        Opened {
            drawn: std::sync::Mutex::new(vec![0; ledger.lines.len()]),
            ledger,
            _reservation: reservation,
        }
    }

    /// See [`Ledger::in_small_pages`].
    pub(super) fn has_small_pages(&self) -> bool {
        self.ledger.has_small_pages
    }

    fn drawn(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        let drawn = self.drawn.lock();
        drawn.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Draws `bytes` from the line `name`.
    pub(super) fn draw(&self, name: &str, bytes: u64) -> Answer {
        let mut lines = self.ledger.lines.iter();
        let Some(number) = lines.position(|line| line.name == name) else {
            let cause = format!("the ledger of the {} has no such line", self.ledger.job);
            return Answer::Defect(defect(name, bytes, &cause));
        };
        let mut drawn = self.drawn();
        let line_bytes = self.ledger.lines[number].bytes;
        if bytes > line_bytes {
            let job = self.ledger.job;
            let cause = format!("the ledger of the {job} has a line of {line_bytes} bytes for it");
            return Answer::Defect(defect(name, bytes, &cause));
        }
        if drawn[number] + bytes > line_bytes {
            return Answer::Later;
        }
        drawn[number] += bytes;
        Answer::Drawn(number)
    }

    pub(super) fn give_back(&self, number: usize, bytes: u64) {
        self.drawn()[number] -= bytes;
    }

    /// The rest of the line `name`; 0 if there is no such line.
    pub(super) fn left_bytes(&self, name: &str) -> u64 {
        let drawn = self.drawn();
        let mut lines = self.ledger.lines.iter().zip(drawn.iter());
        let line = lines.find(|(line, _)| line.name == name);
        line.map_or(0, |(line, drawn)| line.bytes - drawn)
    }
}

/// The error for a request that the plan did not foresee.
pub(super) fn defect(name: &str, bytes: u64, cause: &str) -> Error {
    let cause = format!("{bytes} bytes are needed, but {cause}");
    Error::new(Kind::Memory, format!("reserve memory for {name}"), cause)
        .hint("a defect of the plan: please report it; more --memory may avoid it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new("test")
            .always("tables", 100)
            .during("read", "blocks", 300)
            .during("write", "chunks", 200)
            .during("write", "edges", 50)
    }

    #[test]
    fn the_sum_is_what_all_phases_share_and_the_most_that_one_needs() {
        assert_eq!(ledger().bytes(), 400);
        assert_eq!(Ledger::new("test").bytes(), 0);
        let filled = ledger().filled("write", "chunks", 1000);
        assert_eq!((filled.bytes(), filled.lines()[2].bytes), (1000, 850));
        assert_eq!(ledger().filled("write", "chunks", 300), ledger());
    }

    #[test]
    fn all_of_it_is_taken_at_once_or_nothing() {
        let budget = Budget::new(1000);
        let _other = budget.reserve("other", 601).unwrap();
        let refused = ledger().open(&budget).unwrap_err();
        assert_eq!(refused.kind(), Kind::Memory);
        assert_eq!(budget.used_bytes(), 601);
    }

    #[test]
    fn lines_are_drawn_by_name_and_given_back() {
        let budget = Budget::new(1000);
        let run = ledger().open(&budget).unwrap();
        assert_eq!((budget.used_bytes(), run.limit_bytes()), (400, 400));
        let blocks = run.reserve("blocks", 300).unwrap();
        assert!(run.try_reserve("blocks", 1).unwrap().is_none());
        assert_eq!(
            (run.left_bytes("blocks"), run.left_bytes("tables")),
            (0, 100)
        );
        drop(blocks);
        assert_eq!((run.left_bytes("blocks"), run.used_bytes()), (300, 0));
        assert_eq!(run.peak_bytes(), 300);
        drop(run);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_buffer_that_outlives_its_job_keeps_the_sum_taken() {
        let budget = Budget::new(1000);
        let run = ledger().open(&budget).unwrap();
        let held = run.reserve("tables", 1).unwrap();
        drop(run);
        assert_eq!(budget.used_bytes(), 400);
        drop(held);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "no such line")]
    fn what_no_line_names_is_a_defect() {
        let run = ledger().open(&Budget::new(1000)).unwrap();
        let _ = run.reserve("surprise", 1);
    }

    #[test]
    #[should_panic(expected = "a line of 100 bytes")]
    fn more_than_a_line_has_is_a_defect() {
        let run = ledger().open(&Budget::new(1000)).unwrap();
        let _ = run.reserve("tables", 101);
    }

    #[test]
    #[should_panic(expected = "of another phase")]
    fn lines_of_two_phases_at_once_are_a_defect() {
        let run = ledger().open(&Budget::new(1000)).unwrap();
        let _blocks = run.reserve("blocks", 300).unwrap();
        let _ = run.reserve("chunks", 200);
    }
}
