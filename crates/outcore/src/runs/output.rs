//! Writes merged records of a view: to a longer run, a sorted file, shards, or a pipe.
//!
//! Contract: [`SortedView::write_file`] writes the sorted file as a sort would have written it,
//! absent or complete. As many threads as have memory for a reader write in parallel, every byte at
//! its final place. [`SortedView::write_to`] does the same with a range of records. Merges before
//! the last one write the files of the next level, one thread per run. [`super::copy`] writes to
//! pipes.
//!
//! Memory: one reader per thread, and a few buffers of 1 MiB.

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use super::copy::write_error;
use super::fetch::PIECES;
use super::index::Indexer;
use super::level::{Level, LevelRun};
use super::plan::INDEX;
use super::shape::Shape;
use super::{SortedView, ViewReader};
use crate::ends::{
    DriveTraffic, EDGES, EDGES_BYTES, Output, Phase, Phases, edge_pool, stage_output,
    traffic_by_drive,
};
use crate::forecast::PhasePlan;
use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::writer::Writer;
use outcore_io::memory::{BLOCK_BYTES, Buf, Ledger, Pool, block_ceil, block_floor};
use outcore_io::output::Room;
use outcore_io::port::Volume;
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Result};

/// The name of the phase.
const MERGE: &str = "merge";
/// The name under which buffers for merged records are reserved.
const MERGED: &str = "merged records";
/// Number of buffers of a writer, and their size, which is larger if records are longer.
const BUFFERS: usize = 4;
const BUFFER_BYTES: usize = 1 << 20;
const BUFFER_BYTES_MIN: usize = 64 << 10;

/// The result of writing a view.
#[derive(Debug, Clone)]
pub struct WriteSummary {
    /// Records written.
    pub records: u64,
    /// The bytes of these records.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// (name, bytes read, bytes written) of each drive.
    pub drives: Vec<DriveTraffic>,
    /// The phases of the job, with their predictions.
    pub phases: Vec<Phase>,
}

impl SortedView {
    /// Writes the sorted file to `output`, including the bytes before its first record.
    ///
    /// # Errors
    /// The errors of [`crate::sort::sort`]; [`Kind::Usage`] if several files or a header of another
    /// kind leave no place for the bytes before the first record.
    pub fn write_file(&self, output: &Output, replace: bool) -> Result<WriteSummary> {
        let (all, front) = (0..self.len(), self.front());
        if front.is_empty() {
            return self.write_to(all, output, replace);
        }
        match output {
            Output::Pipe(pipe) => {
                let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.write_all(front).map_err(|error| write_error(&error))?;
                drop(pipe);
                self.write_to(all, output, replace)
            }
            Output::File { path, header: None } => {
                let header = front.to_vec();
                let output = Output::File {
                    path: path.clone(),
                    header: Some(Arc::new(move |_| header.clone())),
                };
                self.write_to(all, &output, replace)
            }
            _ => Err(Error::usage(
                "create output",
                "there is no place for the header of the view",
            )
            .hint("write one plain file")),
        }
    }

    /// The prediction for [`SortedView::write_to`] of `range`; for lines, looks up where a part
    /// begins.
    ///
    /// # Errors
    /// The errors of the lookup.
    pub fn plan_write(&self, range: Range<u64>) -> Result<PhasePlan> {
        let units = self.units_of(range.start..range.end.min(self.len()).max(range.start))?;
        Ok(self.plan_units(units.end - units.start))
    }

    fn plan_units(&self, units: u64) -> PhasePlan {
        let data_bytes = units * self.unit_bytes() as u64;
        self.plan_phase(MERGE, units, data_bytes.into())
    }

    /// Writes only the records of `range` to `output`.
    ///
    /// # Errors
    /// The errors of [`crate::sort::sort`].
    pub fn write_to(
        &self,
        range: Range<u64>,
        output: &Output,
        replace: bool,
    ) -> Result<WriteSummary> {
        let mut phases = Phases::start_on(&self.set.volume);
        let (read_before, written_before) = self.traffic_bytes();
        let unit_bytes = self.unit_bytes();
        let records = range.end.min(self.len()).saturating_sub(range.start);
        let range = self.units_of(range.start..range.start + records)?;
        let data_bytes = (range.end - range.start) * unit_bytes as u64;
        let units = range.end - range.start;
        self.job.control.begin_phase(MERGE, data_bytes);
        let volume = &self.set.volume;
        let staged = stage_output(
            volume,
            output,
            replace,
            Room::Exactly,
            data_bytes,
            unit_bytes,
        )?;
        match (staged, output) {
            (None, Output::Pipe(pipe)) => {
                let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                self.copy_units(range, &mut **pipe)?;
                phases.end(MERGE, volume).written_bytes += data_bytes;
            }
            (None, _) => {}
            (Some(staged), _) => {
                let (job, threads) = self.merging(range.end - range.start)?;
                let writer = Writer::new(&staged, edge_pool(&job)?);
                self.write_parts(&job, threads, range, &writer)?;
                let mut port = volume.port()?;
                if let Output::File {
                    header: Some(make), ..
                } = output
                {
                    let mut header = make(records);
                    header.resize(staged.shards()[0].plan.header.len(), b' ');
                    writer.write_header(&mut port, &header);
                }
                writer.finish(&mut port, data_bytes)?;
                phases.end(MERGE, volume);
                self.job.control.begin_phase("publish", 0);
                staged.publish(volume, data_bytes)?;
                phases.end("publish", volume);
            }
        }
        let (read_bytes, written_bytes) = self.traffic_bytes();
        Ok(WriteSummary {
            records,
            bytes: data_bytes,
            seconds: phases.started.elapsed().as_secs_f64(),
            read_bytes: read_bytes - read_before,
            written_bytes: written_bytes - written_before,
            drives: traffic_by_drive(volume),
            phases: phases.beside(&[self.plan_units(units)]),
        })
    }

    /// Bytes of a buffer for merged records.
    fn merged_bytes(&self) -> usize {
        BUFFER_BYTES.max(self.unit_bytes()) + BLOCK_BYTES
    }

    /// The job with the memory for merging this many units into files, and its number of threads.
    fn merging(&self, units: u64) -> Result<(Job, usize)> {
        let buffers_bytes = Pool::total_bytes(self.merged_bytes(), BUFFERS);
        let wanted = self.readers_beside(self.job.options.threads, buffers_bytes);
        let threads = ThreadGroup::new(&self.job, (wanted as u64).min(units)).threads();
        let ledger = Ledger::new("merge of a view")
            .always(EDGES, EDGES_BYTES)
            .always(MERGED, threads as u64 * buffers_bytes)
            .during("merge", PIECES, 0)
            .filled("merge", PIECES, self.job.budget.free_bytes());
        Ok((self.job.under(&ledger)?, threads))
    }

    /// Every thread merges a part of a range of units and writes it at its place.
    fn write_parts(
        &self,
        job: &Job,
        threads: usize,
        range: Range<u64>,
        writer: &Writer,
    ) -> Result<()> {
        let unit_bytes = self.unit_bytes();
        let units = range.end - range.start;
        let buffer_bytes = self.merged_bytes();
        let thread_group = ThreadGroup::new(job, threads as u64).near(&self.set.volume);
        let mut pools = Vec::with_capacity(threads);
        for _ in 0..threads {
            pools.push(Pool::new(&job.budget, MERGED, buffer_bytes, BUFFERS)?);
        }
        let memory_bytes = job.budget.left_bytes(PIECES) / 16 * 15 / threads as u64;
        thread_group.run(|thread| {
            let border = |part: usize| {
                let part = u128::from(units) * part as u128 / threads as u128;
                range.start + part as u64
            };
            let mut reader = self.reader_of(job, memory_bytes)?;
            let mut writes = Transfers::<()>::new(&self.set.volume)?;
            let (from, to) = (border(thread), border(thread + 1));
            reader.seek_units(from..to)?;
            let mut at = from;
            while at < to {
                thread_group.check()?;
                let mut buf = writes.buffer(&pools[thread], || thread_group.check())?;
                let at_bytes = (at - range.start) * unit_bytes as u64;
                let phase = writer.phase(at_bytes);
                let room = (buf.len() - phase).min(to_usize(writer.room(at_bytes)));
                let room = room / unit_bytes * unit_bytes;
                let len = reader.read(&mut buf[phase..phase + room])?;
                writer.write(writes.port(), buf, phase, len, at_bytes)?;
                at += (len / unit_bytes) as u64;
                self.job.control.advance(len as u64);
                self.job.control.watch(&self.set.volume);
                writes.start()?;
            }
            writes.finish(|| thread_group.check())
        })
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Merges every `group` runs of `level` into a run of `next`.
pub(super) fn merge_groups(job: &Job, level: &Level, next: &Level, group: usize) -> Result<()> {
    let groups = next.runs.len();
    let shape = &level.shape;
    let blocks: u64 = next.runs.iter().map(|run| shape.blocks_of(run.units)).sum();
    // The indexes of the runs that are read, and of those that are written.
    let index_bytes = 2 * shape.index_bytes(blocks + level.runs.len() as u64);
    let threads = ThreadGroup::new(job, groups as u64).threads();
    let buffers = BUFFERS * threads;
    let memory_bytes = job.budget.free_bytes();
    // The buffers take at most a quarter of the memory.
    let share_bytes = memory_bytes / (4 * buffers as u64);
    let buffer_bytes = share_bytes.clamp(BUFFER_BYTES_MIN as u64, BUFFER_BYTES as u64) as usize;
    let chunk_bytes = chunk_bytes(shape, buffer_bytes);
    let slot_bytes = chunk_bytes + BLOCK_BYTES;
    let ledger = Ledger::new("merge of runs")
        .always(INDEX, index_bytes)
        .always(MERGED, Pool::total_bytes(slot_bytes, buffers))
        .during("merge", PIECES, 0)
        .filled("merge", PIECES, memory_bytes);
    let job = &job.under(&ledger)?;
    let thread_group = ThreadGroup::new(job, groups as u64);
    let _index = job.budget.reserve(INDEX, index_bytes)?;
    let pool = Pool::new(&job.budget, MERGED, slot_bytes, buffers)?;
    let reader_bytes = job.budget.left_bytes(PIECES) / 16 * 15 / threads as u64;
    let taken = AtomicUsize::new(0);
    thread_group.run(|_| {
        let mut writes = Transfers::new(&next.volume)?;
        loop {
            let number = taken.fetch_add(1, Ordering::Relaxed);
            if number >= groups {
                return Ok(());
            }
            let from = number * group;
            let to = (from + group).min(level.runs.len());
            let set = Arc::new(level.to_set(from..to));
            let mut reader = ViewReader::new(job, set, reader_bytes)?;
            let run = &next.runs[number];
            reader.seek_units(0..run.units)?;
            let mut merged =
                RunWriter::new(job, &next.volume, &next.shape, run, &pool, &mut writes);
            merged.take(chunk_bytes, |out| {
                let len = reader.read(out)?;
                job.control.advance(len as u64);
                Ok(len)
            })?;
            merged.finish()?;
        }
    })
}

/// The whole blocks in this many bytes, at least one.
pub(super) fn chunk_bytes(shape: &Shape, bytes: usize) -> usize {
    (bytes / shape.block_bytes()).max(1) * shape.block_bytes()
}

/// Writes the records of one run as they arrive, and then its index.
pub(super) struct RunWriter<'a> {
    job: &'a Job,
    volume: &'a Volume,
    shape: &'a Shape,
    run: &'a LevelRun,
    pool: &'a Pool,
    writes: &'a mut Transfers<()>,
    indexer: Indexer<'a>,
    /// Offset in the run of the next write: a multiple of 4 KiB.
    at_bytes: u64,
    /// Blocks need not end at 4 KiB boundaries: the rest is written before the next ones.
    over: Vec<u8>,
}

impl<'a> RunWriter<'a> {
    /// For a run of a level, with buffers of `pool`; nothing else may use `writes`.
    pub(super) fn new(
        job: &'a Job,
        volume: &'a Volume,
        shape: &'a Shape,
        run: &'a LevelRun,
        pool: &'a Pool,
        writes: &'a mut Transfers<()>,
    ) -> Self {
        RunWriter {
            job,
            volume,
            shape,
            run,
            pool,
            writes,
            indexer: Indexer::new(shape, run.number),
            at_bytes: 0,
            over: Vec::new(),
        }
    }

    /// Writes the bytes that `read` puts into buffers of `chunk_bytes`, 4 KiB less than those of
    /// the pool, until `read` returns none.
    pub(super) fn take(
        &mut self,
        chunk_bytes: usize,
        mut read: impl FnMut(&mut [u8]) -> Result<usize>,
    ) -> Result<()> {
        loop {
            self.job.control.check()?;
            let mut buf = self.buffer()?;
            let carried = self.over.len();
            buf[..carried].copy_from_slice(&self.over);
            let len = read(&mut buf[carried..carried + chunk_bytes])?;
            if len == 0 {
                return Ok(());
            }
            self.indexer.add(&buf[carried..carried + len]);
            let filled = carried + len;
            let whole = block_floor(filled as u64) as usize;
            self.over.clear();
            self.over.extend_from_slice(&buf[whole..filled]);
            self.submit(buf, whole)?;
        }
    }

    /// Writes the rest and the index, which is stored in the run of the level.
    pub(super) fn finish(mut self) -> Result<()> {
        let mut buf = self.buffer()?;
        let filled = self.over.len();
        let whole = block_ceil(filled as u64) as usize;
        buf[..filled].copy_from_slice(&self.over);
        buf[filled..whole].fill(0);
        self.submit(buf, whole)?;
        let shape = self.shape;
        let empty = Indexer::new(shape, self.run.number);
        let index = std::mem::replace(&mut self.indexer, empty).finish();
        let entries_len = shape.index_bytes(index.blocks() as u64);
        let mut entries = vec![0; block_ceil(entries_len) as usize];
        index.write_to(&mut entries);
        let slot_len = self.pool.slot_bytes();
        for part in entries.chunks(slot_len) {
            let mut buf = self.buffer()?;
            buf[..part.len()].copy_from_slice(part);
            self.submit(buf, part.len())?;
        }
        self.writes.finish(|| self.job.control.check())?;
        *self
            .run
            .index
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = index;
        self.job.control.watch(self.volume);
        Ok(())
    }

    fn submit(&mut self, mut buf: Buf, len_bytes: usize) -> Result<()> {
        if len_bytes == 0 {
            return Ok(());
        }
        let at_bytes = self.run.base_bytes + self.at_bytes;
        self.at_bytes += len_bytes as u64;
        let part = buf.split_to(len_bytes);
        self.writes.write_behind(&self.run.file, at_bytes, part)
    }

    fn buffer(&mut self) -> Result<Buf> {
        self.writes.buffer(self.pool, || self.job.control.check())
    }
}
