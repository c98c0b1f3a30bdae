//! Sorts runs: several threads read areas, sort them and write them.
//!
//! Contract: every run of the level is read once, sorted and written with its index, by the thread
//! that took it. While threads sort some areas, they fill other areas from all drives and write
//! further ones to all drives. Records are sorted in place and written from there; lines are
//! ordered in small buffers as they are written. Short reads are errors that name the input. With
//! `keeps`, unused areas keep the written data.
//!
//! Memory: the areas, the sort's space, the indexes of the runs, and the buffers of lines, all as
//! planned.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::index::Indexer;
use super::level::Level;
use super::output::{RunWriter, chunk_bytes};
use super::plan::{INDEX, LINE_BUFFERS, LINES, RUNS, SPACE, ViewPlan};
use super::planned::PlannedRun;
use super::shape::Shape;
use super::sort_lines::{LineSpace, Passes, SpaceSizes};
use super::sort_run::{RunSpace, sort_run};
use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::merge::item_rule::ItemRule;
use crate::read::by_drive::ByDrive;
use crate::read::source::InputPart;
use crate::read::source::became_shorter;
use crate::sort::lines::{Counts, Gather, LineSortOptions, line_number};
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Kind, Result};

/// Largest transfers.
const TRANSFER_BYTES: usize = 4 << 20;

/// State that the sorting threads share.
struct Sorting<'a> {
    job: &'a Job,
    thread_group: ThreadGroup<'a>,
    volume: &'a Volume,
    parts: &'a [InputPart],
    cuts: &'a [PlannedRun],
    level: &'a Level,
    areas: Pool,
    /// Runs that no thread has taken.
    left: Mutex<ByDrive<usize>>,
    /// Areas that a thread fills at once.
    loads_max: usize,
    keeps: bool,
    /// Sizes for sorting lines.
    lines: Option<LineSizes>,
    /// Written runs that are still in memory, the oldest first.
    kept: Mutex<VecDeque<(u32, Buf)>>,
}

impl Sorting<'_> {
    /// The next run, from the drive with the fewest requests of the thread's `port`.
    fn take_run(&self, port: &Port) -> Option<usize> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.next(port)?.pop_front()
    }

    fn is_all_taken(&self) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.is_empty()
    }

    /// Adds the file and the line to an error whose offset is relative to the area of a run. An
    /// error of a drive already names a file.
    fn with_line(&self, cut: &PlannedRun, error: Error) -> Error {
        if error.kind() != Kind::Corrupt || error.file_path().is_some() {
            return error;
        }
        let lines = self.level.shape.what.lines();
        let (Some(at_bytes), Some(lines)) = (error.offset_bytes(), lines) else {
            return error;
        };
        let mut start_bytes = 0;
        for piece in &cut.pieces {
            let end_bytes = start_bytes + piece.len_bytes + u64::from(piece.is_unended);
            if at_bytes < end_bytes {
                let part = &self.parts[piece.part];
                let in_file_bytes = piece.at_bytes + at_bytes - start_bytes;
                let options = LineSortOptions {
                    terminator: lines.terminator,
                    inner_end: lines.other_end(),
                    ..LineSortOptions::default()
                };
                let in_data_bytes = in_file_bytes - part.data_at_bytes;
                let number = line_number(self.job, self.volume, part, options, in_data_bytes);
                return number.map_or_else(
                    |failed| failed,
                    |number| {
                        let cause = format!("line {number}: {}", error.cause());
                        Error::corrupt(error.operation(), cause)
                            .path(&part.file.path)
                            .hint("correct the line, or leave it out before the view is built")
                    },
                );
            }
            start_bytes = end_bytes;
        }
        error
    }
}

/// The sizes for sorting lines or rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSizes {
    space: SpaceSizes,
    pub(super) chunk_bytes: usize,
}

impl LineSizes {
    /// Sorts the items of `area` as they are written.
    pub(super) fn write_sorted(
        &self,
        rule: &ItemRule,
        area: &[u8],
        space: &mut LineSpace,
        mut writer: RunWriter<'_>,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut passes = Passes::new(rule, area, space, self.space);
        while let Some(refs) = passes.next()? {
            check()?;
            let mut items = Gather::new(area, rule.framing, refs, refs.len() as u64, Counts::None);
            writer.take(self.chunk_bytes, |out| Ok(items.fill(out)))?;
        }
        writer.finish()
    }

    pub(super) fn of(plan: &ViewPlan, shape: &Shape) -> Option<Self> {
        let lengths = plan.size.lines?;
        let run_bytes = plan.run_bytes();
        Some(LineSizes {
            space: SpaceSizes {
                lines_max: lengths.lines_max(run_bytes) as usize,
                key_bytes_max: lengths.keys_bytes_max(run_bytes) as usize,
                line_bytes_max: plan.line_bytes_max(),
            },
            chunk_bytes: chunk_bytes(shape, plan.size.line_buffer_bytes()),
        })
    }
}

/// Reads, sorts and writes all runs; returns those that are still in memory.
pub(super) fn sort_runs(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    cuts: &[PlannedRun],
    plan: &ViewPlan,
    level: &mut Level,
    keeps: bool,
) -> Result<Vec<(u32, Buf)>> {
    let group_size = cuts.len().min(plan.sort_threads) as u64;
    let blocks: u64 = cuts
        .iter()
        .map(|cut| level.shape.blocks_of(cut.units))
        .sum();
    let index_bytes = level.shape.index_bytes(blocks);
    let areas = plan.areas.min(cuts.len()).max(1);
    // Runs may stay in memory longer than everything else.
    let runs = plan.runs_ledger(areas).open(&job.budget)?;
    let lines = LineSizes::of(plan, &level.shape);
    let chunk_bytes = lines.map_or(0, |lines| lines.chunk_bytes);
    let job = &job.under(&plan.sort_ledger(index_bytes, chunk_bytes))?;
    let thread_group = ThreadGroup::new(job, group_size).near(volume);
    let space_bytes = plan.size.sort_space_bytes(plan.run_bytes());
    let threads = thread_group.threads();
    let (spaces, _space) = match plan.size.is_scalar && lines.is_none() {
        true => {
            let spaces = Pool::new(&job.budget, SPACE, space_bytes as usize, threads)?;
            (Some(spaces), None)
        }
        false => {
            let space = job.budget.reserve(SPACE, space_bytes * threads as u64)?;
            (None, Some(space))
        }
    };
    let _index = job.budget.reserve(INDEX, index_bytes)?;
    let by_drive = cuts.iter().map(|cut| cut.drive_index(parts));
    let left = ByDrive::of(by_drive.enumerate().map(|(run, drive)| (drive, run)));
    let sorting = Sorting {
        job,
        thread_group,
        volume,
        parts,
        cuts,
        level,
        areas: Pool::new(&runs, RUNS, plan.area_bytes, areas)?,
        left: Mutex::new(left),
        loads_max: {
            let drives = plan.drives.div_ceil(threads);
            (areas / threads / 2).clamp(1 + drives, 2 + drives)
        },
        keeps,
        lines,
        kept: Mutex::default(),
    };
    sorting.thread_group.run(|_| {
        let buffers = sorting.lines.map(|lines| {
            let slot_bytes = lines.chunk_bytes + BLOCK_BYTES;
            Pool::new(&job.budget, LINES, slot_bytes, LINE_BUFFERS)
        });
        let mut worker = Worker {
            sorting: &sorting,
            transfers: Transfers::new(volume)?,
            buffers: buffers.transpose()?,
            space: LineSpace::default(),
            loading: Vec::new(),
            writing: Vec::new(),
            run_space: RunSpace::new(spaces.as_ref().and_then(Pool::take)),
        };
        worker.run()
    })?;
    let kept = sorting.kept.into_inner();
    Ok(kept.unwrap_or_else(PoisonError::into_inner).into())
}

/// An area that is being filled or written.
struct Area {
    run: usize,
    /// The parts of the area, by offset.
    parts: Vec<(usize, Buf)>,
    transfers_left: usize,
    /// Offset and length of the records of each piece that is read.
    pieces: Vec<(usize, usize)>,
}

impl Area {
    /// Joins all parts.
    fn join(&mut self) -> Result<Buf> {
        self.parts.sort_unstable_by_key(|(offset, _)| *offset);
        let mut parts = self.parts.drain(..).map(|(_, buf)| buf);
        let mut whole = parts.next().ok_or_else(no_area)?;
        parts.for_each(|part| whole.join(part));
        Ok(whole)
    }
}

/// A part of an area that is read or written.
struct Part {
    run: usize,
    offset_bytes: usize,
    is_write: bool,
}

struct Worker<'a> {
    sorting: &'a Sorting<'a>,
    transfers: Transfers<Part>,
    loading: Vec<Area>,
    writing: Vec<Area>,
    run_space: RunSpace,
    /// Buffers and space for lines.
    buffers: Option<Pool>,
    space: LineSpace,
}

impl Worker<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.sorting.thread_group.check()?;
            while self.start_load() {}
            self.transfers.start()?;
            self.settle()?;
            if let Some(area) = self.take_loaded() {
                self.sort_and_write(area)?;
            } else if !self.transfers.is_empty() {
                self.transfers.wait()?;
                self.settle()?;
            } else if self.sorting.is_all_taken() {
                return Ok(());
            } else {
                // The other threads have all areas; one of them will be free soon.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }

    /// A full area; not always the oldest, because drives are not equally fast.
    fn take_loaded(&mut self) -> Option<Area> {
        let is_full = |area: &Area| area.transfers_left == 0;
        let at = self.loading.iter().position(is_full)?;
        Some(self.loading.remove(at))
    }

    /// If there is a free area and a run left, begins to fill the area from the drive with the
    /// fewest requests, and returns true.
    fn start_load(&mut self) -> bool {
        if self.loading.len() >= self.sorting.loads_max || self.sorting.is_all_taken() {
            return false;
        }
        let Some(slot) = self.take_area() else {
            return false;
        };
        let Some(run) = self.sorting.take_run(self.transfers.port()) else {
            return false;
        };
        let cut = &self.sorting.cuts[run];
        let mut area = Area {
            run,
            parts: Vec::new(),
            transfers_left: 0,
            pieces: Vec::new(),
        };
        let mut rest = slot;
        let mut offset = 0;
        for piece in &cut.pieces {
            let file = &self.sorting.parts[piece.part].file;
            let mut from_bytes = block_floor(piece.at_bytes);
            let to_bytes = block_ceil(piece.at_bytes + piece.len_bytes);
            area.pieces.push((
                offset + (piece.at_bytes - from_bytes) as usize,
                piece.len_bytes as usize,
            ));
            while from_bytes < to_bytes {
                let len = ((to_bytes - from_bytes) as usize).min(TRANSFER_BYTES);
                let buf = rest.split_to(len);
                let part = Part {
                    run,
                    offset_bytes: offset,
                    is_write: false,
                };
                self.transfers.read(file, from_bytes, buf, part);
                area.transfers_left += 1;
                offset += len;
                from_bytes += len as u64;
            }
            if piece.is_unended {
                // The area needs room for the line's terminator.
                area.parts.push((offset, rest.split_to(BLOCK_BYTES)));
                offset += BLOCK_BYTES;
            }
        }
        area.parts.push((offset, rest));
        self.loading.push(area);
        true
    }

    /// A free area, or the one that was kept longest.
    fn take_area(&self) -> Option<Buf> {
        if let Some(area) = self.sorting.areas.take() {
            return Some(area);
        }
        let kept = &self.sorting.kept;
        let oldest = kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()?;
        drop(oldest);
        self.sorting.areas.take()
    }

    fn sort_and_write(&mut self, mut area: Area) -> Result<()> {
        let shape = &self.sorting.level.shape;
        let mut whole = area.join()?;
        // Pieces of several files are not contiguous.
        let mut len = 0;
        let pieces = &self.sorting.cuts[area.run].pieces;
        for (&(offset, piece_len), piece) in area.pieces.iter().zip(pieces) {
            whole.copy_within(offset..offset + piece_len, len);
            len += piece_len;
            if let (true, Some(lines)) = (piece.is_unended, shape.what.lines()) {
                whole[len] = lines.terminator;
                len += 1;
            }
        }
        if let Some(rule) = shape.items() {
            return self.sort_and_write_lines(area.run, &whole[..len], rule);
        }
        sort_run(shape, &mut whole[..len], &mut self.run_space)?;
        let run = &self.sorting.level.runs[area.run];
        let mut index = run.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut indexer = Indexer::new(shape, run.number);
        indexer.add(&whole[..len]);
        *index = indexer.finish();
        let index_at = block_ceil(len as u64) as usize;
        let end = shape.stored_bytes(run.units) as usize;
        whole[len..index_at].fill(0);
        index.write_to(&mut whole[index_at..end]);
        drop(index);
        let mut offset = 0;
        while offset < end {
            let buf = whole.split_to((end - offset).min(TRANSFER_BYTES));
            let len = buf.len();
            let part = Part {
                run: area.run,
                offset_bytes: offset,
                is_write: true,
            };
            let at_bytes = run.base_bytes + offset as u64;
            self.transfers.write(&run.file, at_bytes, buf, part);
            area.transfers_left += 1;
            offset += len;
        }
        area.parts.push((offset, whole));
        self.writing.push(area);
        self.sorting.job.control.advance(len as u64);
        self.sorting.job.control.watch(self.sorting.volume);
        Ok(())
    }

    /// Sorts the lines of an area as they are written.
    fn sort_and_write_lines(&mut self, run: usize, text: &[u8], rule: &ItemRule) -> Result<()> {
        let (sorting, level) = (self.sorting, self.sorting.level);
        let (Some(sizes), Some(buffers)) = (sorting.lines, &self.buffers) else {
            return Err(no_area());
        };
        // Loads continue through the other port.
        let mut writes = Transfers::new(sorting.volume)?;
        let cut = &sorting.cuts[run];
        let writer = RunWriter::new(
            sorting.job,
            &level.volume,
            &level.shape,
            &level.runs[run],
            buffers,
            &mut writes,
        );
        let check = || sorting.thread_group.check();
        let sorted = sizes.write_sorted(rule, text, &mut self.space, writer, check);
        sorted.map_err(|error| sorting.with_line(cut, error))?;
        sorting.job.control.advance(text.len() as u64);
        Ok(())
    }

    /// Collects completed reads and writes.
    fn settle(&mut self) -> Result<()> {
        while let Some(done) = self.transfers.take()? {
            match done.what.is_write {
                true => self.take_written(&done.what, done.buf)?,
                false => self.take_read(&done.what, done.buf, done.len_bytes)?,
            }
        }
        Ok(())
    }

    fn take_read(&mut self, part: &Part, buf: Buf, len_bytes: usize) -> Result<()> {
        let (run, offset_bytes) = (part.run, part.offset_bytes);
        let Some(area) = self.loading.iter_mut().find(|area| area.run == run) else {
            return Ok(());
        };
        // A short read means the end of the file: all bytes of the piece must have arrived.
        let end = offset_bytes + len_bytes;
        let pieces = area.pieces.iter().zip(&self.sorting.cuts[run].pieces);
        for (&(from, len), piece) in pieces {
            let is_here = from < offset_bytes + buf.len() && from + len > offset_bytes;
            if is_here && end < (from + len).min(offset_bytes + buf.len()) {
                let ended_at = piece.at_bytes + (end.max(from) - from) as u64;
                return Err(became_shorter(&self.sorting.parts[piece.part], ended_at));
            }
        }
        area.transfers_left -= 1;
        area.parts.push((offset_bytes, buf));
        Ok(())
    }

    fn take_written(&mut self, part: &Part, buf: Buf) -> Result<()> {
        let (run, offset_bytes) = (part.run, part.offset_bytes);
        let Some(at) = self.writing.iter().position(|area| area.run == run) else {
            return Ok(());
        };
        let area = &mut self.writing[at];
        area.transfers_left -= 1;
        area.parts.push((offset_bytes, buf));
        if area.transfers_left == 0 {
            let mut area = self.writing.swap_remove(at);
            if self.sorting.keeps {
                let number = self.sorting.level.runs[run].number;
                let whole = area.join()?;
                let mut kept = self
                    .sorting
                    .kept
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                kept.push_back((number, whole));
            }
        }
        Ok(())
    }
}

fn no_area() -> Error {
    Error::new(Kind::Memory, "take an area", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}
