//! The plan of a view: runs, areas, blocks, preceding merges, predicted traffic. Pure.
//!
//! Contract: [`plan_view`] turns sizes into a [`ViewPlan`] before anything is read; `--explain`
//! prints it. Every run fits in an *area*. One round of areas has one area per thread that sorts,
//! and two per drive: one that is filled and one that is written. With a second round, no thread
//! and no drive waits for another. The plan omits the second round if its smaller areas would make
//! too many runs for an easy merge. It adds a third round if that does not make runs of numbers
//! shorter.
//!
//! Up to 64 runs of numbers are shorter than memory would allow, because a reader merges that many
//! easily. Memory also holds the sort's own space, the index and, if runs stay in memory for a
//! first read, a reader. If there are more runs than a reader with most of the memory can merge, or
//! a process can have open, they are merged in groups first.
//!
//! | in ActiveSort | here |
//! |---|---|
//! | N records | `data_bytes / record_bytes`; for lines, the plan counts bytes |
//! | M memory | `memory_bytes` |
//! | N / M runs | `runs` |

use std::fmt;

use super::SPARE_SLOTS;
use super::shape::{BLOCKS_WANTED, block_units};
use super::size::ViewSize;
use crate::forecast::{Amounts, Forecast, PhasePlan, predicted_text};
use crate::job::JobSize;
use crate::partition::plan::plan_within;
use crate::sort::lines::lines_text;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool, block_ceil};
use outcore_io::{Error, Kind, Result, units};

/// Largest number of runs of a view: each is an open file.
const RUNS_MAX: u64 = 512;
/// Largest number of pieces of input files in one run.
pub(super) const INPUT_PIECES_MAX: usize = 64;
/// Longest run: records in it have 32-bit offsets.
const AREA_BYTES_MAX: u64 = 1 << 30;
/// Shorter areas are not worth a run.
const AREA_BYTES_MIN: u64 = 64 << 10;
/// Number of mean-length lines in a block of lines.
const BLOCK_LINES: u64 = 16;
/// Buffers into which a thread puts sorted lines, and their size.
pub(super) const LINE_BUFFERS: usize = 4;
/// Names of reservations.
pub(super) const RUNS: &str = "runs";
pub(super) const SPACE: &str = "sort space";
pub(super) const INDEX: &str = "the view's index";
pub(super) const LINES: &str = "sorted lines";

/// The plan for building a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewPlan {
    /// The parameters of the plan.
    pub size: ViewSize,
    /// Records per block; bytes for lines.
    pub block_records: u64,
    /// Threads that sort runs: the job's, or as many as memory can supply.
    pub sort_threads: usize,
    /// Records per run after the first sort; bytes for lines.
    pub run_records: u64,
    /// Number of runs after the first sort, if the input is one file.
    pub runs: u64,
    /// Bytes of an area; a run fills one.
    pub area_bytes: usize,
    /// Number of areas.
    pub areas: usize,
    /// Number of drives that are read and written at once.
    pub drives: usize,
    /// The number of runs that each preceding merge combines into one; empty if there is none.
    pub merges: Vec<u64>,
    /// Predicted bytes read to make the view.
    pub predicted_read_bytes: u64,
    /// Predicted bytes written to make the view.
    pub predicted_written_bytes: u64,
    /// Predicted time at the rates of the drives.
    pub predicted_seconds: f64,
    /// The predictions of each phase.
    pub phases: Vec<PhasePlan>,
}

/// The plan for a view.
///
/// # Errors
/// [`Kind::Memory`](crate::Kind::Memory) with a sufficient size, if there is too little memory for
/// records of that size.
pub fn plan_view(size: ViewSize) -> Result<ViewPlan> {
    plan_with(size, block_units_for)
}

/// Units per block for data of that size.
fn block_units_for(size: &ViewSize) -> u64 {
    // The index of all data takes at most an eighth of the memory.
    let blocks_max = (size.memory_bytes / 8 / size.entry_bytes()).max(1);
    let least_bytes = (size.data_bytes / blocks_max).next_power_of_two();
    // Slots for blocks of long lines must not take all of the memory.
    let share_bytes = size.memory_bytes / 1024;
    let lines_bytes = size.lines.map_or(0, |lines| BLOCK_LINES * lines.line_bytes);
    let lines_bytes = lines_bytes.min(share_bytes);
    let wanted_bytes = least_bytes.max(lines_bytes).saturating_mul(BLOCKS_WANTED);
    block_units(size.record_bytes, size.data_bytes.max(wanted_bytes))
}

/// The plan for runs of generated rows: each thread fills an area, sorts it and writes it from
/// there. Uses blocks of `block_units`, if given.
pub(super) fn plan_rows(size: ViewSize, block_units: Option<u64>) -> Result<ViewPlan> {
    let lines = size.lines.map_or(1, |lines| lines.line_bytes);
    let items = rows_text(size.job.data_bytes, lines);
    plan_within(size.job.clone(), "plan view", &items, |job| {
        let threads = job.threads.max(1);
        let size = ViewSize {
            job: JobSize { threads, ..job },
            ..size
        };
        let block_units = block_units.unwrap_or_else(|| block_units_for(&size));
        (1..=threads).rev().find_map(|threads| {
            let busy = Busy {
                threads,
                drives: 0,
                rounds: 1,
            };
            plan_for(&size, block_units, busy)
        })
    })
}

/// Whether there is a plan for runs of rows.
pub fn has_plan_of_rows(size: ViewSize) -> bool {
    let block_units = block_units_for(&size);
    let alone = Busy {
        threads: 1,
        drives: 0,
        rounds: 1,
    };
    plan_for(&size, block_units, alone).is_some()
}

/// Text about the size, for errors.
fn rows_text(data_bytes: u64, row_bytes: u64) -> String {
    let rows = data_bytes / row_bytes.max(1);
    format!("in about {}", units::counted(rows, "row"))
}

/// The plan for further runs of a view whose blocks have this many records.
pub(super) fn plan_in_blocks(size: ViewSize, block_records: u64) -> Result<ViewPlan> {
    plan_with(size, |_| block_records)
}

/// The plan with block sizes that depend on the memory.
fn plan_with(size: ViewSize, block_records: impl Fn(&ViewSize) -> u64) -> Result<ViewPlan> {
    let items = match size.lines {
        Some(lines) => lines_text(size.job.data_bytes, lines.line_bytes),
        None => format!(
            "in records of {}",
            units::counted(size.record_bytes as u64, "byte")
        ),
    };
    plan_within(size.job.clone(), "plan view", &items, |job| {
        // All threads of the job merge runs; with little memory, a few threads sort them.
        let threads = size.threads.max(1);
        let size = ViewSize {
            job: JobSize { threads, ..job },
            ..size
        };
        let block_records = block_records(&size);
        let mut fewer = (1..=threads).rev();
        fewer.find_map(|threads| {
            let plan = plan_for(&size, block_records, Busy::least(threads))?;
            // Tries to keep all drives busy, then half of them, and so on.
            let halves = std::iter::successors(Some(size.drive_count), |&drives| {
                (drives > 1).then_some(drives / 2)
            });
            // Data that fit in the areas go through each area once.
            let most = if plan.runs > plan.areas as u64 { 2 } else { 1 };
            let mut better = halves.flat_map(|drives| {
                (1..=most).rev().map(move |rounds| Busy {
                    threads,
                    drives,
                    rounds,
                })
            });
            let busier = better.find_map(|busy| {
                let busier = plan_for(&size, block_records, busy)?;
                if !busier.is_as_easily_read_as(&plan) {
                    return None;
                }
                if busy.rounds < 2 || !size.has_easy_runs() {
                    return Some(busier);
                }
                let third = plan_for(&size, block_records, Busy { rounds: 3, ..busy });
                let third = third.filter(|third| third.runs <= busier.runs);
                third.or(Some(busier))
            });
            busier.or(Some(plan))
        })
    })
}

/// Threads and drives that areas keep busy.
#[derive(Clone, Copy)]
struct Busy {
    /// Threads, with one area each.
    threads: usize,
    /// Drives, with one area that is filled and one that is written each.
    drives: usize,
    /// The number of rounds of areas. With one round, a drive is idle while the thread that wrote
    /// its area sorts the next one. A third round is used if runs of numbers keep their length with
    /// it.
    rounds: u64,
}

impl Busy {
    fn least(threads: usize) -> Self {
        Busy {
            threads,
            drives: 1,
            rounds: 1,
        }
    }

    fn areas(&self) -> u64 {
        self.rounds * (self.threads as u64 + 2 * self.drives as u64)
    }
}

/// The plan for areas that keep threads and drives busy.
fn plan_for(size: &ViewSize, block_records: u64, busy: Busy) -> Option<ViewPlan> {
    let record_bytes = size.record_bytes as u64;
    let threads = busy.threads as u64;
    let eighth_bytes = size.memory_bytes / 8;
    let block_bytes = block_records * record_bytes;
    let slot_bytes = size.slot_bytes(block_records);
    let index_bytes = (size.data_bytes / block_bytes + 1) * size.entry_bytes();
    let kept_bytes = match size.keeps_runs {
        true => eighth_bytes.max((2 * 16 + SPARE_SLOTS as u64) * slot_bytes),
        false => 0,
    };
    let buffers_bytes = match size.lines {
        Some(_) => {
            threads * (LINE_BUFFERS * size.line_buffer_bytes()) as u64
                + threads * LINE_BUFFERS as u64 * (2 * block_bytes + 2 * BLOCK_BYTES as u64)
        }
        None => 0,
    };
    let areas = busy.areas();
    // The space for even the shortest run.
    let least_space_bytes = size.sort_space_bytes(0);
    let fixed_bytes = size.memory_bytes / 32
        + index_bytes
        + kept_bytes
        + buffers_bytes
        + threads * least_space_bytes;
    let usable_bytes = size.memory_bytes.saturating_sub(fixed_bytes);
    // Areas, their index and sort space for the bytes of a run: all grow nearly in proportion.
    let index_of = |run_bytes: u64| size.entry_bytes() * (run_bytes / block_bytes + 1);
    let beside_bytes = AREA_SLACK_BYTES + size.entry_bytes() + BLOCK_BYTES as u64;
    let mib_bytes = areas * ((1 << 20) + index_of(1 << 20)) + threads * size.mib_space_bytes();
    let rest_bytes = u128::from(usable_bytes.saturating_sub(areas * beside_bytes));
    let room_bytes = (rest_bytes * (1 << 20) / u128::from(mib_bytes)) as u64;
    let longest_bytes = AREA_BYTES_MAX - beside_bytes;
    let longest_bytes = longest_bytes - index_of(longest_bytes);
    let room_bytes = room_bytes.min(longest_bytes);
    let least_bytes = record_bytes.max(AREA_BYTES_MIN.min(size.data_bytes));
    if room_bytes < least_bytes.max(size.longest_bytes() + 1) {
        return None;
    }
    let mut run_records = room_bytes / record_bytes;
    // Data that fit in several areas are spread evenly, so that all threads have work; a reader
    // still has few runs to merge. Rows fill areas as they arrive, so shorter runs would only mean
    // more runs.
    let is_made = busy.drives == 0;
    let records = size.data_bytes / record_bytes;
    if records <= run_records * areas && !is_made {
        let runs = records.div_ceil(run_records).max(threads + 2);
        run_records = records.div_ceil(runs).max(1).min(run_records);
    } else if size.has_easy_runs() {
        run_records = size.easy_run_records(slot_bytes, run_records);
    }
    if let Some(run_bytes) = size.run_bytes {
        let least = size.lines.map_or(1, |lines| lines.line_bytes);
        run_records = run_records.min((run_bytes / record_bytes).max(least));
    }
    let runs = match is_made {
        true => records.div_ceil(run_records).max(threads.min(records)),
        false => records.div_ceil(run_records),
    };
    let merges = merges(size, slot_bytes, runs)?;
    // Lines and rows may be longer than those of the sample.
    let longest_bytes = match size.lines.is_some() || is_made {
        true => room_bytes,
        false => run_records * record_bytes,
    };
    let area_bytes = block_ceil(longest_bytes + AREA_SLACK_BYTES + index_of(longest_bytes));
    let mut plan = ViewPlan {
        size: size.clone(),
        block_records,
        sort_threads: busy.threads,
        run_records,
        runs,
        area_bytes: area_bytes as usize,
        areas: areas as usize,
        drives: busy.drives,
        merges,
        predicted_read_bytes: 0,
        predicted_written_bytes: 0,
        predicted_seconds: 0.0,
        phases: Vec::new(),
    };
    plan.predict(index_bytes);
    // Each run shorter than a block has one index entry.
    (plan.ledger().bytes() <= size.memory_bytes).then_some(plan)
}

/// How many runs each preceding pass merges into one, so that one reader with most of the memory
/// can finally merge them all; `None` if that is impossible.
fn merges(size: &ViewSize, slot_bytes: u64, runs: u64) -> Option<Vec<u64>> {
    let reader_bytes = size.memory_bytes / 8 * 5;
    let readable = |bytes: u64| (bytes / slot_bytes).saturating_sub(SPARE_SLOTS as u64) / 2;
    let runs_max = readable(reader_bytes).min(RUNS_MAX);
    let fan_in_max = readable(reader_bytes / size.threads.max(1) as u64).min(RUNS_MAX);
    let mut left = runs;
    let mut merges = Vec::new();
    while left > runs_max {
        if fan_in_max < 2 {
            return None;
        }
        let group = left.div_ceil(runs_max.max(1)).clamp(2, fan_in_max);
        merges.push(group);
        left = left.div_ceil(group);
    }
    Some(merges)
}

/// Additional room in an area: for pieces that begin at 4 KiB boundaries.
const AREA_SLACK_BYTES: u64 = (INPUT_PIECES_MAX as u64 * 3 + 4) * BLOCK_BYTES as u64;

impl ViewPlan {
    /// Whether more runs than those of `other` cost a reader neither a preceding merge nor more
    /// than a quarter of the memory.
    fn is_as_easily_read_as(&self, other: &ViewPlan) -> bool {
        let slots = 2 * self.view_runs() + SPARE_SLOTS as u64;
        let reader_bytes = slots * self.size.slot_bytes(self.block_records);
        let is_little = reader_bytes <= self.size.memory_bytes / 4;
        self.merges.len() == other.merges.len() && (is_little || self.runs <= other.runs)
    }

    /// Whether the runs can be those of the view, even if there are more than planned by a quarter
    /// plus one per thread.
    pub(super) fn may_be_last(&self) -> bool {
        let slot_bytes = self.size.slot_bytes(self.block_records);
        let runs = self.runs + self.runs / 4 + self.sort_threads as u64;
        merges(&self.size, slot_bytes, runs).is_some_and(|merges| merges.is_empty())
    }

    /// The error for more runs than a reader can merge.
    pub(super) fn too_many_runs(&self) -> Error {
        let cause = format!(
            "{}, which is more than was planned for and can be read in {}",
            units::counted(self.runs, "run"),
            units::bytes(self.size.memory_bytes)
        );
        Error::new(Kind::Memory, "sort rows", cause).hint("allow more with --memory")
    }

    /// The longest line.
    pub(super) fn line_bytes_max(&self) -> u64 {
        let room_bytes = (self.area_bytes as u64).saturating_sub(AREA_SLACK_BYTES);
        self.size.line_bytes_max().min(room_bytes)
    }

    /// The reservation for the runs while they are sorted, and as long as they are kept.
    pub(super) fn runs_ledger(&self, areas: usize) -> Ledger {
        Ledger::new("runs in memory").always(RUNS, Pool::total_bytes(self.area_bytes, areas))
    }

    /// The other reservations of sorting runs: `index_bytes` of index, and buffers of `chunk_bytes`
    /// for lines.
    pub(super) fn sort_ledger(&self, index_bytes: u64, chunk_bytes: usize) -> Ledger {
        let threads = self.sort_threads;
        let space_bytes = threads as u64 * self.size.sort_space_bytes(self.run_bytes());
        let lines_bytes = match self.size.lines {
            Some(_) => Pool::total_bytes(chunk_bytes + BLOCK_BYTES, LINE_BUFFERS * threads),
            None => 0,
        };
        Ledger::new("sort of runs")
            .always(SPACE, space_bytes)
            .always(INDEX, index_bytes)
            .always(LINES, lines_bytes)
    }

    /// Approximate reservations for sorting the view's runs: the exact length of the index depends
    /// on how input files are divided into runs.
    pub fn ledger(&self) -> Ledger {
        let block_bytes = self.block_records * self.size.record_bytes as u64;
        let blocks = self.runs * self.run_records.div_ceil(self.block_records);
        let chunk_bytes = self.size.line_buffer_bytes().max(block_bytes as usize);
        self.sort_ledger(blocks * self.size.entry_bytes(), chunk_bytes)
            .always(RUNS, Pool::total_bytes(self.area_bytes, self.areas))
    }

    /// Bytes per run after the first sort.
    pub fn run_bytes(&self) -> u64 {
        self.run_records * self.size.record_bytes as u64
    }

    /// Plans for the actual runs of the input's files.
    ///
    /// # Errors
    /// [`Kind::Memory`] if this many cannot be merged.
    pub(super) fn set_runs(&mut self, runs: u64) -> Result<()> {
        let slot_bytes = self.size.slot_bytes(self.block_records);
        self.runs = runs;
        self.merges = merges(&self.size, slot_bytes, runs).ok_or_else(|| {
            let cause = format!(
                "{} in blocks of {} cannot be merged in {}",
                units::counted(runs, "run"),
                units::bytes(slot_bytes),
                units::bytes(self.size.memory_bytes)
            );
            Error::new(Kind::Memory, "plan view", cause)
                .hint("allow more with --memory, or use fewer --threads")
        })?;
        self.predict(self.index_bytes());
        Ok(())
    }

    /// Bytes of the index of all data.
    fn index_bytes(&self) -> u64 {
        let block_bytes = self.block_records * self.size.record_bytes as u64;
        self.size.data_bytes / block_bytes * self.size.entry_bytes()
    }

    /// Predicts traffic and time: each pass reads and writes all data, and writes an index.
    fn predict(&mut self, index_bytes: u64) {
        let size = self.size.clone();
        let (read_bytes, written_bytes) =
            (size.data_bytes, block_ceil(size.data_bytes) + index_bytes);
        let (item_bytes, costs) = match (size.lines, size.is_scalar) {
            (Some(lines), _) => (lines.line_bytes, size.costs.lines),
            (None, true) => (size.record_bytes as u64, size.costs.numbers),
            (None, false) => (size.record_bytes as u64, size.costs.records),
        };
        let items = read_bytes as f64 / item_bytes as f64;
        let core_seconds = costs.finish.seconds(items, read_bytes as f64);
        let made_of_bytes = size.lines.and_then(|lines| lines.made_of_bytes);
        let requests = 2.0 * written_bytes as f64 / self.area_bytes.max(1) as f64;
        let is_last = self.merges.is_empty();
        // Runs between two passes are scratch; those of the view are its output.
        let written = |is_last: bool| match is_last {
            true => (Forecast::NOTHING, written_bytes.into()),
            false => (written_bytes.into(), Forecast::NOTHING),
        };
        let (scratch_written, output) = written(is_last);
        let sort = Amounts {
            input: made_of_bytes.unwrap_or(read_bytes).into(),
            scratch_written,
            output,
            requests,
            computing_seconds: core_seconds / self.sort_threads as f64,
            ..Amounts::NOTHING
        };
        let merges = self.merges.len();
        let merge = |index: usize| {
            let (scratch_written, output) = written(index + 1 == merges);
            let amounts = Amounts {
                scratch_read: read_bytes.into(),
                scratch_written,
                output,
                requests,
                ..Amounts::NOTHING
            };
            PhasePlan::new("merge runs", amounts, &size.layout)
        };
        self.phases = vec![PhasePlan::new("sort runs", sort, &size.layout)];
        self.phases.extend((0..merges).map(merge));
        let bytes = |of: fn(&PhasePlan) -> Forecast| {
            self.phases
                .iter()
                .filter_map(|phase| of(phase).bytes())
                .sum()
        };
        self.predicted_read_bytes = bytes(|phase| phase.read_bytes);
        self.predicted_written_bytes = bytes(|phase| phase.written_bytes);
        self.predicted_seconds = self.phases.iter().filter_map(|phase| phase.seconds).sum();
    }

    /// Number of runs of the finished view.
    pub fn view_runs(&self) -> u64 {
        let merged = |runs: u64, group: &u64| runs.div_ceil(*group);
        self.merges.iter().fold(self.runs, merged)
    }
}

impl fmt::Display for ViewPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = &self.size;
        let what = match size.lines {
            Some(lines) => {
                let noun = if lines.made_of_bytes.is_some() {
                    "rows"
                } else {
                    "lines"
                };
                format!(
                    "{noun} of about {}",
                    units::counted(lines.line_bytes, "byte")
                )
            }
            None => format!("{}-byte records", size.record_bytes),
        };
        writeln!(
            f,
            "plan: {} of {what} in {} of memory, {}",
            units::bytes(size.data_bytes),
            units::bytes(size.memory_bytes),
            units::counted(size.threads as u64, "thread")
        )?;
        writeln!(
            f,
            "  sort {} of up to {}, in {} of {}, on {}",
            units::counted(self.runs, "run"),
            units::bytes(self.run_bytes()),
            units::counted(self.areas as u64, "area"),
            units::bytes(self.area_bytes as u64),
            units::counted(self.sort_threads as u64, "thread")
        )?;
        if self.merges.is_empty() {
            writeln!(f, "  no merge beforehand: a reader can merge them all")?;
        }
        for group in &self.merges {
            writeln!(f, "  merge {group} runs at a time into one, beforehand")?;
        }
        writeln!(
            f,
            "  blocks of {}, an index of {}",
            units::bytes(self.block_records * size.record_bytes as u64),
            units::bytes(self.index_bytes())
        )?;
        writeln!(
            f,
            "  {}; each full read of the view reads {} more",
            predicted_text(&self.phases, None, &size.layout, Some(size.costs.origin)),
            units::bytes(size.data_bytes)
        )?;
        write!(f, "{}", self.ledger())
    }
}

#[cfg(test)]
mod tests {
    use super::super::size::LineLengths;
    use super::*;
    use crate::job::{ComputeCosts, DriveRates, Layout};

    fn size(data_bytes: u64, memory_bytes: u64) -> ViewSize {
        ViewSize {
            job: JobSize {
                data_bytes,
                memory_bytes,
                held_bytes: 0,
                threads: 2,
                drive_count: 1,
                layout: Layout::even(DriveRates::ASSUMED, 1).into(),
                costs: ComputeCosts::ASSUMED,
            },
            record_bytes: 8,
            is_scalar: true,
            lines: None,
            keeps_runs: false,
            run_bytes: None,
        }
    }

    #[test]
    fn areas_and_space_fit_the_memory_for_any_size() {
        for shift in 20..44 {
            for memory_shift in 26..34 {
                for (record_bytes, is_scalar) in
                    [(4, true), (16, true), (100, false), (4096, false)]
                {
                    for keeps_runs in [false, true] {
                        let size = ViewSize {
                            record_bytes,
                            is_scalar,
                            keeps_runs,
                            ..size((1 << shift) / 400 * 400 * 4096, 1 << memory_shift)
                        };
                        let Ok(plan) = plan_view(size.clone()) else {
                            // 64 MiB are too little for a tebibyte if runs stay in memory.
                            assert!((shift, memory_shift) >= (28, 26), "{size:?}");
                            assert!(shift > 28 || memory_shift == 26, "{size:?}");
                            continue;
                        };
                        let areas = plan.areas as u64 * plan.area_bytes as u64;
                        let space = 2 * size.sort_space_bytes(plan.run_bytes());
                        assert!(areas + space <= size.memory_bytes, "{plan:?}");
                        assert!(plan.run_records > 0 && plan.view_runs() <= 512, "{plan:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_too_little_for_all_threads_is_sorted_by_fewer() {
        let tiny_records = ViewSize {
            record_bytes: 1,
            is_scalar: false,
            keeps_runs: true,
            ..size(4 << 20, 16 << 20)
        };
        let on_eight = |memory_bytes| {
            let job = JobSize {
                memory_bytes,
                threads: 8,
                ..tiny_records.job.clone()
            };
            plan_view(ViewSize {
                job,
                ..tiny_records.clone()
            })
            .unwrap()
        };
        let plan = on_eight(16 << 20);
        assert!((1..8).contains(&plan.sort_threads), "{plan:?}");
        let areas_bytes = plan.areas as u64 * plan.area_bytes as u64;
        let space_bytes = tiny_records.sort_space_bytes(plan.run_bytes());
        let used_bytes = areas_bytes + plan.sort_threads as u64 * space_bytes;
        assert!(used_bytes <= tiny_records.memory_bytes, "{plan:?}");
        assert_eq!(on_eight(1 << 30).sort_threads, 8);
    }

    #[test]
    fn areas_are_no_larger_than_runs_of_few_records() {
        for (record_bytes, is_scalar) in [(1, false), (8, true)] {
            let few = ViewSize {
                record_bytes,
                is_scalar,
                ..size(96, 4 << 20)
            };
            let plan = plan_view(few.clone()).unwrap();
            let area_bytes = plan.area_bytes as u64;
            assert!(area_bytes < AREA_SLACK_BYTES + (16 << 10), "{plan:?}");
            let in_more_memory = ViewSize {
                job: JobSize {
                    memory_bytes: 8 << 30,
                    ..few.job.clone()
                },
                ..few.clone()
            };
            assert_eq!(
                plan_view(in_more_memory).unwrap().area_bytes as u64,
                area_bytes
            );
        }
    }

    #[test]
    fn lines_their_references_and_keys_fit_the_memory() {
        for memory_shift in 26..34 {
            for (line_bytes, key_bytes) in [(2, None), (100, None), (30, Some(40)), (5000, Some(3))]
            {
                let lines = LineLengths {
                    line_bytes,
                    key_bytes,
                    made_of_bytes: None,
                    longest_bytes: None,
                };
                let size = ViewSize {
                    record_bytes: 1,
                    is_scalar: false,
                    lines: Some(lines),
                    ..size(20 << 30, 1 << memory_shift)
                };
                let plan = plan_view(size.clone()).unwrap();
                let areas = plan.areas as u64 * plan.area_bytes as u64;
                let space = plan.sort_threads as u64 * size.sort_space_bytes(plan.run_bytes());
                assert!(areas + space <= size.memory_bytes, "{plan:?}");
                assert!(
                    plan.block_records >= (16 * line_bytes).min(size.memory_bytes / 1024),
                    "{plan:?}"
                );
                assert!(plan.line_bytes_max() >= AREA_BYTES_MIN, "{plan:?}");
                assert!(plan.to_string().contains("lines of about"), "{plan}");
            }
        }
    }

    #[test]
    fn runs_of_very_long_rows_are_planned_in_a_few_times_their_length() {
        for row_mib in [1, 20, 80, 200_u64] {
            let row_bytes = row_mib << 20;
            let lines = LineLengths {
                line_bytes: row_bytes,
                key_bytes: Some(row_bytes / 2),
                made_of_bytes: Some(0),
                longest_bytes: Some(row_bytes),
            };
            let rows = ViewSize {
                record_bytes: 1,
                is_scalar: false,
                lines: Some(lines),
                ..size(6 * row_bytes, 4 * row_bytes + (64 << 20))
            };
            assert!(has_plan_of_rows(rows), "{row_mib} MiB");
        }
    }

    #[test]
    fn further_runs_fit_their_areas_in_the_blocks_of_a_small_view() {
        for record_bytes in [4, 100, 4096] {
            let mut large = size(1 << 40, 8 << 30);
            (large.record_bytes, large.job.threads) = (record_bytes, 1);
            let blocks_of_small = block_units(record_bytes, 1 << 20);
            assert!(plan_view(large.clone()).unwrap().block_records > blocks_of_small);
            let plan = plan_in_blocks(large.clone(), blocks_of_small).unwrap();
            let blocks = plan.run_records.div_ceil(plan.block_records);
            let index_bytes = block_ceil(blocks * large.entry_bytes());
            let stored_bytes = block_ceil(plan.run_bytes()) + index_bytes;
            assert!(stored_bytes <= plan.area_bytes as u64, "{plan:?}");
        }
    }

    #[test]
    fn runs_are_shorter_than_the_memory_allows_while_a_reader_merges_them_easily() {
        let large = plan_view(size(2 << 30, 512 << 20)).unwrap();
        assert_eq!((large.runs, large.run_bytes()), (64, 32 << 20), "{large:?}");
        assert_eq!(large.areas, 12, "{large}");
        // Data that fit in the areas fill each once, and larger data have more runs anyway.
        let (few, many) = (size(256 << 20, 512 << 20), size(8 << 30, 512 << 20));
        assert_eq!(plan_view(few.clone()).unwrap().runs, 4);
        assert!(plan_view(many).unwrap().run_bytes() > 40 << 20);
        // A requested size, runs that stay in memory, and records keep the longest runs.
        let asked = |bytes| ViewSize {
            run_bytes: Some(bytes),
            ..large.size.clone()
        };
        assert_eq!(plan_view(asked(16 << 20)).unwrap().areas, 8);
        let kept = ViewSize {
            keeps_runs: true,
            ..large.size.clone()
        };
        let records = ViewSize {
            record_bytes: 128,
            is_scalar: false,
            ..large.size.clone()
        };
        for size in [asked(1 << 30), kept, records] {
            let plan = plan_view(size.clone()).unwrap();
            assert!(plan.run_bytes() > large.run_bytes(), "{plan:?}");
            assert!(plan.areas <= 8, "{plan:?}");
        }
    }

    #[test]
    fn more_runs_than_a_reader_can_merge_are_merged_beforehand() {
        let few = plan_view(size(4 << 30, 1 << 30)).unwrap();
        assert!(few.merges.is_empty());
        let many = plan_view(size(100 << 30, 64 << 20)).unwrap();
        assert!(!many.merges.is_empty() && many.view_runs() <= 512);
        assert!(many.to_string().contains("beforehand"), "{many}");
    }
}
