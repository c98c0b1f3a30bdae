//! Building a view: sorted runs, each written once.
//!
//! Contract: the input is cut into runs of consecutive records that fill an area of memory each. A
//! thread reads a run, sorts it where it lies, adds its index and writes it from there, while its
//! other area is being filled or written; the runs are spread over the drives by weight. Where a
//! reader could not merge so many, they are merged in groups first ([`super::plan`]). All is staged
//! in private directories; the view appears with its manifest, after everything is durable, and a job that
//! is killed leaves the view as it was, or whole, or to be finished by who comes next. What is
//! in memory at the end can stay there for a first read ([`BuildOptions::keeps_runs`]).
//!
//! Bounds: memory as planned; one read and one write of the data, plus 24 bytes a block, and one more
//! of each for a merge beforehand.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::SortedView;
use super::level::{Generation, Level, Places};
use super::manifest::{self, Manifest, NAME};
use super::output::merge_groups;
use super::plan::{INPUT_PIECES_MAX, ViewPlan, ViewSize, plan_in_blocks, plan_view};
use super::runs::{Index, Shape, ViewOrder};
use super::sort_run::sort_run;
use crate::algo::crew::Crew;
use crate::algo::ends::{became_shorter, check_unchanged, open_inputs, traffic_by_drive};
use crate::algo::in_memory::Entry;
use crate::algo::sort::{Phase, SortInput};
use crate::data::record::RecordFormat;
use crate::drive::{Access, Op};
use crate::error::{Error, Kind, Result};
use crate::job::{Job, ScratchDrive};
use crate::memory::{Buf, Pool, block_ceil, block_floor};
use crate::stream::sample::random;
use crate::stream::source::InputPart;
use crate::volume::{Port, Transfer, Volume};

/// Largest transfers.
const TRANSFER_BYTES: usize = 4 << 20;
/// Marks the token of a write.
const WRITE: u64 = 1 << 63;

/// How a view is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildOptions {
    /// The order of records.
    pub order: ViewOrder,
    /// Replace a view that is there.
    pub replace: bool,
    /// Keep in memory what is there at the end, so that a first read need not read it again. The
    /// memory is the job's until the view is dropped.
    pub keeps_runs: bool,
    /// Runs of that size, instead of the largest that fit the memory.
    pub run_bytes: Option<u64>,
}

/// What building a view did.
#[derive(Debug, Clone)]
pub struct BuildSummary {
    /// Records of the view.
    pub records: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Runs that readers merge.
    pub runs: u64,
    /// Bytes of runs that are still in memory.
    pub resident_bytes: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<(String, u64, u64)>,
    /// The plan it followed.
    pub plan: ViewPlan,
}

/// Builds a view of `inputs`, in the given order, in `dir`, which must be there, and opens it. Runs
/// are spread over the drives of the job, or lie in `dir` if there are none.
///
/// # Errors
/// [`Kind::Usage`] for requests that make no sense, [`Kind::Memory`] if the plan does not fit,
/// [`Kind::NoSpace`], [`Kind::Io`], [`Kind::Corrupt`], [`Kind::Interrupted`]; nothing is left then.
pub fn build(
    job: &Job,
    inputs: &[SortInput],
    dir: &Path,
    format: &RecordFormat,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let old = manifest::tidy(job, dir)?;
    if old.is_some() && !options.replace {
        return Err(Error::usage("build view", "a view is there already")
            .path(dir.join(NAME))
            .hint("allow replacing it with --force, or add to it with `outcore view append`"));
    }
    let request = Request {
        inputs,
        dir,
        options,
        old: old.as_ref(),
        appends: false,
    };
    let built = request.run(job, format, None)?;
    if let Some(old) = &old {
        manifest::remove_runs(job, dir, &old.run_paths());
    }
    finish(job, dir, built)
}

/// Sorts `inputs` into further runs of the view in `dir`; its format and order stay. Equal records
/// of a stable view come behind those that were there. Open views go on showing what they showed.
///
/// # Errors
/// As [`build`]; the view is as it was then.
pub fn append(
    job: &Job,
    inputs: &[SortInput],
    dir: &Path,
    options: BuildOptions,
) -> Result<(SortedView, BuildSummary)> {
    let old = match manifest::tidy(job, dir)? {
        Some(old) => old,
        // Says what is missing.
        None => {
            let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
            Manifest::read(job, &volume, dir)?
        }
    };
    let shape = old.shape(&dir.join(NAME))?;
    let request = Request {
        inputs,
        dir,
        options: BuildOptions {
            order: shape.view_order,
            replace: true,
            ..options
        },
        old: Some(&old),
        appends: true,
    };
    let format = shape.format.clone();
    let built = request.run(job, &format, Some(shape))?;
    finish(job, dir, built)
}

/// Opens what was built; what is still in memory goes with it.
fn finish(job: &Job, dir: &Path, built: Built) -> Result<(SortedView, BuildSummary)> {
    let mut view = SortedView::open(job, dir)?;
    // Runs stay in memory as long as a reader has room beside them; the oldest go first.
    let (mut kept, mut summary) = (VecDeque::from(built.kept), built.summary);
    while !kept.is_empty() && view.reader_bytes(1) < view.needed_bytes() {
        kept.pop_front();
    }
    if let Some(set) = Arc::get_mut(&mut view.set) {
        let record_bytes = set.shape.record_bytes as u64;
        for (number, buf) in kept {
            if let Some(run) = set.runs.iter_mut().find(|run| run.number == number) {
                summary.resident_bytes += run.records * record_bytes;
                run.resident = Some(Arc::new(buf));
            }
        }
    }
    summary.runs = view.set.runs.len() as u64;
    summary.seconds = built.started.elapsed().as_secs_f64();
    Ok((view, summary))
}

/// What is to be built.
struct Request<'a> {
    inputs: &'a [SortInput],
    dir: &'a Path,
    options: BuildOptions,
    /// The view that is there.
    old: Option<&'a Manifest>,
    /// Whether its runs stay.
    appends: bool,
}

/// A view that is in place.
struct Built {
    kept: Vec<(u32, Buf)>,
    started: Instant,
    summary: BuildSummary,
}

impl Request<'_> {
    fn run(&self, job: &Job, format: &RecordFormat, shape: Option<Shape>) -> Result<Built> {
        let started = Instant::now();
        let drives = match job.options.drives.is_empty() {
            true => vec![ScratchDrive::new(self.dir)],
            false => job.options.drives.clone(),
        };
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &drives)?);
        let parts = open_inputs(&volume, self.inputs, format.record_bytes(), Access::Read)?;
        let data_bytes = parts.iter().map(|part| part.data_len_bytes).sum();
        let size = ViewSize {
            data_bytes,
            record_bytes: format.record_bytes(),
            is_bare: format.bare().is_some(),
            memory_bytes: job.options.memory_bytes,
            threads: job.options.threads,
            keeps_runs: self.options.keeps_runs,
            run_bytes: self.options.run_bytes,
        };
        let mut plan = match &shape {
            Some(shape) => plan_in_blocks(size, shape.block_records)?,
            None => plan_view(size)?,
        };
        let shape = match shape {
            Some(shape) => shape,
            None => Shape::new(
                format,
                self.options.order,
                plan.block_records,
                random(now_seed() ^ job.options.seed, data_bytes),
            ),
        };
        let cuts = cut_runs(&parts, plan.run_records, shape.record_bytes as u64);
        plan.set_runs(cuts.len() as u64)?;
        let places = Places {
            volume: &volume,
            drives: &drives,
            dir: self.dir,
        };
        let mut phases = Vec::new();
        let mut phase = started;
        let mut end_phase = |name: &'static str| {
            let seconds = phase.elapsed().as_secs_f64();
            phases.push(Phase { name, seconds });
            phase = Instant::now();
        };
        let is_last = plan.merges.is_empty();
        let counts: Vec<u64> = cuts.iter().map(|cut| cut.records).collect();
        let first_number = self.first_number();
        let generation = |is_last: bool| match is_last {
            true => Generation::Last {
                replace: self.options.replace,
            },
            false => Generation::Passing,
        };
        let staged = (first_number, generation(is_last));
        let mut level = Level::stage(&places, &shape, &counts, staged)?;
        job.control.begin_phase("sort runs", data_bytes);
        let keeps = self.options.keeps_runs && is_last;
        let kept = sort_runs(job, &volume, &parts, &cuts, &plan, (&mut level, keeps))?;
        check_unchanged(&volume, &parts, false)?;
        end_phase("sort runs");
        for (pass, &group) in plan.merges.iter().enumerate() {
            let is_last = pass + 1 == plan.merges.len();
            let counts: Vec<u64> = level
                .runs
                .chunks(group as usize)
                .map(|runs| runs.iter().map(|run| run.records).sum())
                .collect();
            let staged = (first_number, generation(is_last));
            let next = Level::stage(&places, &shape, &counts, staged)?;
            job.control.begin_phase("merge runs", data_bytes);
            level = merge_level(job, level, next, group as usize)?;
            end_phase("merge runs");
        }
        job.control.begin_phase("publish", 0);
        let runs = level.runs.len() as u64;
        self.publish(job, level)?;
        end_phase("publish");
        let (read_bytes, written_bytes) = volume.traffic_bytes();
        let summary = BuildSummary {
            records: data_bytes / shape.record_bytes as u64,
            seconds: 0.0,
            read_bytes,
            written_bytes,
            runs,
            resident_bytes: 0,
            phases,
            drives: traffic_by_drive(&volume),
            plan,
        };
        Ok(Built {
            kept,
            started,
            summary,
        })
    }

    /// Number of the first run.
    fn first_number(&self) -> u32 {
        let known = self.old.filter(|_| self.appends);
        let numbers = known.map(|old| old.runs.iter().map(|run| run.number + 1));
        numbers.and_then(Iterator::max).unwrap_or(0)
    }

    /// Gives runs and manifest their names, if the view is still what it was.
    fn publish(&self, job: &Job, level: Level) -> Result<()> {
        let now = Manifest::look(job, self.dir)?;
        let is_same = match (&now, self.old) {
            (Some(now), Some(old)) => now.names_runs_of(old),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            return Err(
                Error::usage("build view", "somebody else changed the view meanwhile")
                    .path(self.dir.join(NAME))
                    .hint("run the command again"),
            );
        }
        let old_paths = || self.old.map(Manifest::run_paths).unwrap_or_default();
        match (self.appends, self.old) {
            (true, Some(old)) => level.publish(self.dir, &old.runs, Vec::new()),
            _ => level.publish(self.dir, &[], old_paths()),
        }
    }
}

/// Another number for each view ever made.
fn now_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}

/// Merges groups of runs of a level into those of the next.
fn merge_level(job: &Job, level: Level, next: Level, group: usize) -> Result<Level> {
    merge_groups(job, &level, &next, group)?;
    level.close();
    Ok(next)
}

/// A run to be: where its records come from.
struct CutRun {
    records: u64,
    /// (part of the input, offset in the part's file, length).
    pieces: Vec<(usize, u64, u64)>,
}

/// Cuts the input into runs of consecutive records.
fn cut_runs(parts: &[InputPart], run_records: u64, record_bytes: u64) -> Vec<CutRun> {
    let mut cuts: Vec<CutRun> = Vec::new();
    let empty = || CutRun {
        records: 0,
        pieces: Vec::new(),
    };
    let mut current = empty();
    for (index, part) in parts.iter().enumerate() {
        let mut at_bytes = 0;
        while at_bytes < part.data_len_bytes {
            let room = (run_records - current.records) * record_bytes;
            let len_bytes = room.min(part.data_len_bytes - at_bytes);
            current
                .pieces
                .push((index, part.data_at_bytes + at_bytes, len_bytes));
            current.records += len_bytes / record_bytes;
            at_bytes += len_bytes;
            if current.records == run_records || current.pieces.len() == INPUT_PIECES_MAX {
                cuts.push(std::mem::replace(&mut current, empty()));
            }
        }
    }
    if current.records > 0 || cuts.is_empty() {
        cuts.push(current);
    }
    cuts
}

/// What the threads that sort runs share.
struct Sorting<'a> {
    job: &'a Job,
    crew: Crew<'a>,
    volume: &'a Volume,
    parts: &'a [InputPart],
    cuts: &'a [CutRun],
    level: &'a Level,
    areas: Pool,
    next: AtomicUsize,
    keeps: bool,
    /// Written runs that are still in memory, the oldest first.
    kept: Mutex<VecDeque<(u32, Buf)>>,
}

/// Reads, sorts and writes all runs; gives those that are still in memory.
fn sort_runs(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    cuts: &[CutRun],
    plan: &ViewPlan,
    (level, keeps): (&mut Level, bool),
) -> Result<Vec<(u32, Buf)>> {
    let crew = Crew::new(job, cuts.len().min(plan.sort_threads) as u64);
    let threads = crew.threads() as u64;
    let space_bytes = plan.size.sort_space_bytes(plan.run_bytes()) * threads;
    let _space = job.budget.reserve("sort space", space_bytes)?;
    let blocks: u64 = cuts
        .iter()
        .map(|cut| level.shape.blocks_of(cut.records))
        .sum();
    let index_bytes = Index::memory_bytes(blocks);
    let _index = job.budget.reserve("the view's index", index_bytes)?;
    let areas = plan.areas.min(cuts.len());
    let sorting = Sorting {
        job,
        crew,
        volume,
        parts,
        cuts,
        level,
        areas: Pool::new(&job.budget, "runs", plan.area_bytes, areas.max(1))?,
        next: AtomicUsize::new(0),
        keeps,
        kept: Mutex::default(),
    };
    sorting.crew.run(|_| {
        let mut worker = Worker {
            sorting: &sorting,
            port: volume.port()?,
            loading: VecDeque::new(),
            writing: Vec::new(),
            finished: Vec::new(),
            entries: Vec::new(),
        };
        worker.run()
    })?;
    let kept = sorting.kept.into_inner();
    Ok(kept.unwrap_or_else(PoisonError::into_inner).into())
}

/// An area that is being filled or written.
struct Area {
    run: usize,
    /// Parts of it, by their offset.
    parts: Vec<(usize, Buf)>,
    transfers_left: usize,
    /// Offset and length of the records of each piece that is read.
    pieces: Vec<(usize, usize)>,
}

impl Area {
    /// All parts as one again.
    fn join(&mut self) -> Result<Buf> {
        self.parts.sort_unstable_by_key(|(offset, _)| *offset);
        let mut parts = self.parts.drain(..).map(|(_, buf)| buf);
        let mut whole = parts.next().ok_or_else(no_area)?;
        parts.for_each(|part| whole.join(part));
        Ok(whole)
    }
}

struct Worker<'a> {
    sorting: &'a Sorting<'a>,
    port: Port,
    loading: VecDeque<Area>,
    writing: Vec<Area>,
    finished: Vec<Transfer>,
    entries: Vec<Entry>,
}

impl Worker<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.sorting.crew.check()?;
            if self.start_load()? {
                self.poll(false)?;
            }
            match self.loading.front() {
                Some(area) if area.transfers_left == 0 => {
                    if let Some(area) = self.loading.pop_front() {
                        self.sort_and_write(area)?;
                    }
                    self.poll(false)?;
                }
                None if self.port.in_flight() == 0 && self.is_done() => return Ok(()),
                None if self.port.in_flight() == 0 => {
                    // The other threads have all areas; one of them will be free soon.
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                _ => self.poll(true)?,
            }
        }
    }

    fn is_done(&self) -> bool {
        self.sorting.next.load(Ordering::Relaxed) >= self.sorting.cuts.len()
    }

    /// Fills one area ahead, if there is a free one and a run left; true if it was started.
    fn start_load(&mut self) -> Result<bool> {
        if self.loading.len() > 1 || self.is_done() {
            return Ok(false);
        }
        let Some(slot) = self.take_area() else {
            return Ok(false);
        };
        let run = self.sorting.next.fetch_add(1, Ordering::Relaxed);
        let Some(cut) = self.sorting.cuts.get(run) else {
            return Ok(false);
        };
        let mut area = Area {
            run,
            parts: Vec::new(),
            transfers_left: 0,
            pieces: Vec::new(),
        };
        let mut rest = slot;
        let mut offset = 0;
        for &(part, at_bytes, len_bytes) in &cut.pieces {
            let file = &self.sorting.parts[part].file;
            let mut from_bytes = block_floor(at_bytes);
            let to_bytes = block_ceil(at_bytes + len_bytes);
            area.pieces.push((
                offset + (at_bytes - from_bytes) as usize,
                len_bytes as usize,
            ));
            while from_bytes < to_bytes {
                let len = ((to_bytes - from_bytes) as usize).min(TRANSFER_BYTES);
                let buf = rest.split_to(len);
                let token = (run as u64) << 32 | offset as u64;
                self.port.submit(file, Op::Read, from_bytes, buf, token);
                area.transfers_left += 1;
                offset += len;
                from_bytes += len as u64;
            }
        }
        area.parts.push((offset, rest));
        self.loading.push_back(area);
        Ok(true)
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
        // Pieces of several files lie apart.
        let mut len = 0;
        for &(offset, piece_len) in &area.pieces {
            whole.copy_within(offset..offset + piece_len, len);
            len += piece_len;
        }
        sort_run(shape, &mut whole[..len], &mut self.entries)?;
        let run = &self.sorting.level.runs[area.run];
        let mut index = run.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.add(shape, run.number, &whole[..len]);
        let index_at = block_ceil(len as u64) as usize;
        let end = shape.stored_bytes(run.records) as usize;
        whole[len..index_at].fill(0);
        index.write_to(&mut whole[index_at..end]);
        drop(index);
        let mut offset = 0;
        while offset < end {
            let part = whole.split_to((end - offset).min(TRANSFER_BYTES));
            let part_len = part.len();
            let token = WRITE | (area.run as u64) << 32 | offset as u64;
            let at_bytes = run.base_bytes + offset as u64;
            self.port
                .submit(&run.file, Op::Write, at_bytes, part, token);
            area.transfers_left += 1;
            offset += part_len;
        }
        area.parts.push((offset, whole));
        self.writing.push(area);
        self.sorting.job.control.advance(len as u64);
        self.sorting.job.control.watch(self.sorting.volume);
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.port.poll(wait, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.sorting.volume.explain(&fault));
            }
            let is_write = transfer.token & WRITE != 0;
            let run = ((transfer.token & !WRITE) >> 32) as usize;
            let offset = (transfer.token & u64::from(u32::MAX)) as usize;
            match is_write {
                true => self.take_written(run, offset, transfer.buf)?,
                false => self.take_read(run, offset, transfer)?,
            }
        }
        self.finished = finished;
        Ok(())
    }

    fn take_read(&mut self, run: usize, offset_bytes: usize, transfer: Transfer) -> Result<()> {
        let Some(area) = self.loading.iter_mut().find(|area| area.run == run) else {
            return Ok(());
        };
        // Short reads end a file: all bytes of the piece must have come.
        let end = offset_bytes + transfer.len_bytes;
        let pieces = area.pieces.iter().zip(&self.sorting.cuts[run].pieces);
        for (&(from, len), &(part, at_bytes, _)) in pieces {
            let is_here = from < offset_bytes + transfer.buf.len() && from + len > offset_bytes;
            if is_here && end < (from + len).min(offset_bytes + transfer.buf.len()) {
                let ended_at = at_bytes + (end.max(from) - from) as u64;
                return Err(became_shorter(&self.sorting.parts[part], ended_at));
            }
        }
        area.transfers_left -= 1;
        area.parts.push((offset_bytes, transfer.buf));
        Ok(())
    }

    fn take_written(&mut self, run: usize, offset_bytes: usize, buf: Buf) -> Result<()> {
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
    Error::new(Kind::Memory, "take an area", "the pool is empty").hint("a bug: please report it")
}
