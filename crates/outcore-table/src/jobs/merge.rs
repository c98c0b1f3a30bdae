//! Merges sorted tables into one.
//!
//! Contract: [`merge`] takes files that are all sorted by the same columns, and writes all their
//! rows in that order. Rows with equal keys come in the order of the files. A file that is not
//! sorted is an error that reports the file and its first row out of order; no output remains. I/O
//! is one read and one write, without scratch, for any sizes.
//!
//! One thread per file reads ahead, encodes the keys and checks their order. One thread merges. As
//! many threads as the memory allows encode the output in sections. A stretch of a file that comes
//! before the rows of all other files is passed on as a whole, so files with disjoint ranges are
//! copied.
//!
//! Bounds: half of the memory for the readers and batches of all files together, so many files need
//! more memory; the rest for sections and writers. Complexity: log2(files) comparisons of keys per
//! row.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_select::interleave::interleave_record_batch;
use outcore::sort::lines::rows::RowBatch;
use outcore::{Job, Phase};
use outcore_io::{Error, Kind, Result, threads, units};

use super::copy::PassPlan;
use super::rows_out::WriteShape;
use super::sort::{codec_of, create, open};
use super::{TableEnds, TableOrder, TableSummary};
use crate::fault;
use crate::input::{Piece, TableInput};
use crate::output::{OutputOptions, SINK_BYTES, TableOutput};
use crate::rows::{KeyColumn, RowCodec};

const MERGE: &str = "merge tables";
/// Rows that are gathered at once.
const ROWS_AT_ONCE: usize = 2048;

/// Byte strings, back to back.
#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, number: usize) -> &[u8] {
        let begin = match number {
            0 => 0,
            number => self.ends[number - 1],
        };
        &self.bytes[begin..self.ends[number]]
    }
}

/// Rows of a file with their keys.
pub(super) struct Block {
    pub(super) batch: RecordBatch,
    keys: Strings,
    /// The whole rows, if the caller needs them.
    rows: Strings,
}

impl Block {
    pub(super) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub(super) fn key(&self, row: usize) -> &[u8] {
        self.keys.get(row)
    }

    /// The bytes of a row.
    pub(super) fn row(&self, row: usize) -> &[u8] {
        self.rows.get(row)
    }
}

/// Merges the files of `ends`, each sorted by `order`.
///
/// # Errors
/// As [`super::sort`]. Corrupt: a file that is not sorted. Memory: too little for this many files.
pub fn merge(job: &Job, ends: &TableEnds<'_>, order: &TableOrder) -> Result<TableSummary> {
    let started = Instant::now();
    let input = open(job, ends)?;
    let mut keys = order.keys.clone();
    if keys.is_empty() {
        let fields = input.schema().fields().iter();
        keys.extend(fields.map(|field| KeyColumn {
            is_descending: order.is_descending,
            ..KeyColumn::new(field.name())
        }));
    }
    let codec = codec_of(&input, &keys)?;
    let runs = Runs::of(&input, (&codec, &keys), false)?;
    let writes = OutputOptions {
        sorted_by: keys.clone(),
        ..ends.writes.clone()
    };
    let free_bytes = job.budget.free_bytes();
    let reader_bytes = runs.reader_bytes(free_bytes / 2)?;
    let group_bytes = writes.group_min_bytes(input.schema()).max(64 << 10);
    let by_memory = (free_bytes / 4).saturating_sub(SINK_BYTES) / group_bytes;
    let by_memory = usize::try_from(by_memory).unwrap_or(usize::MAX);
    let writers_count = job.options.threads.min(by_memory).max(1);
    let shape = WriteShape {
        writers_count,
        output_bytes: (free_bytes / 4).max(group_bytes * writers_count as u64 + SINK_BYTES),
        batch_bytes: 0,
        taken_bytes: 0,
        longest_bytes: 0,
    };
    let what = (input.schema(), &writes);
    let rows_count = input.rows_count();
    let outcome = (input.schema(), Some(rows_count));
    let plan = PassPlan::of(job, "merge", &input, outcome, job.options.threads);
    job.control.show_plan(&plan);
    let output = create(job, ends.outputs, None, what, (shape, Some(rows_count)))?;
    let stored_bytes = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
    job.control.begin_phase("merge", stored_bytes);
    let section_bytes = free_bytes / 4 / (writers_count as u64 + 2);
    runs.merge(job, &output, (reader_bytes, section_bytes, writers_count))?;
    input.check_unchanged()?;
    job.control.begin_phase("publish", 0);
    let lens_bytes = output.publish()?;
    let (read_bytes, written_bytes) = (input.read_bytes(), lens_bytes.iter().sum());
    let seconds = started.elapsed().as_secs_f64();
    Ok(TableSummary {
        rows_in: rows_count,
        rows_out: rows_count,
        seconds,
        read_bytes,
        written_bytes,
        lens_bytes,
        passes: 1,
        phases: vec![Phase {
            name: plan.phase.name,
            seconds,
            read_bytes,
            written_bytes,
            predicted: Some(plan.phase),
        }],
        ..TableSummary::default()
    })
}

/// Returns the pieces of each file that has any.
fn files_of(input: &TableInput) -> Vec<Vec<Piece>> {
    let mut files: Vec<Vec<Piece>> = Vec::new();
    for piece in input.pieces() {
        match files.last_mut() {
            Some(last) if last.first().is_some_and(|first| first.file == piece.file) => {
                last.push(*piece);
            }
            _ => files.push(vec![*piece]),
        }
    }
    files
}

/// Sorted files, and the key by which they are merged.
pub(super) struct Runs<'a> {
    input: &'a TableInput,
    files: Vec<Vec<Piece>>,
    codec: &'a RowCodec,
    /// Whether whole rows are needed in addition to keys.
    is_whole: bool,
    keys: &'a [KeyColumn],
}

/// A part of the output.
struct Part {
    number: u64,
    first_row: u64,
    batches: Vec<RecordBatch>,
}

impl<'a> Runs<'a> {
    /// The files of `input`. The key of each row is encoded, and with `is_whole` also the whole
    /// row.
    pub(super) fn of(
        input: &'a TableInput,
        (codec, keys): (&'a RowCodec, &'a [KeyColumn]),
        is_whole: bool,
    ) -> Result<Self> {
        Ok(Runs {
            input,
            files: files_of(input),
            codec,
            is_whole,
            keys,
        })
    }

    /// The pieces of each file.
    pub(super) fn files(&self) -> &[Vec<Piece>] {
        &self.files
    }

    /// Returns the memory of each reader, if `memory_bytes` is for all readers and their batches.
    pub(super) fn reader_bytes(&self, memory_bytes: u64) -> Result<u64> {
        let count = self.files.len().max(1) as u64;
        let least_bytes = self.input.memory_min_bytes();
        let reader_bytes = memory_bytes / count / 3;
        if reader_bytes >= least_bytes {
            return Ok(reader_bytes);
        }
        let cause = format!(
            "reading {} at once needs {}, but only {} is available",
            units::counted(count, "file"),
            units::bytes(least_bytes.saturating_mul(count).saturating_mul(3)),
            units::bytes(memory_bytes)
        );
        let all_bytes = least_bytes.saturating_mul(count).saturating_mul(3);
        // Readers have a part of the memory, so the hint scales with it.
        let whole_bytes = self.input.job().options.memory_bytes.max(memory_bytes);
        let parts = whole_bytes.div_ceil(memory_bytes.max(1));
        let by_readers = all_bytes.saturating_mul(parts).min(1 << 60);
        let enough_bytes = by_readers
            .next_multiple_of(64 << 20)
            .max(self.input.need().enough_bytes());
        Err(Error::new(Kind::Memory, MERGE, cause).hint(format!(
            "allow --memory {}, merge fewer files at a time, or sort them all with `outcore sort`",
            units::bytes_exact(enough_bytes)
        )))
    }

    fn merge(
        &self,
        job: &Job,
        output: &TableOutput,
        (reader_bytes, section_bytes, writers_count): (u64, u64, usize),
    ) -> Result<()> {
        std::thread::scope(|scope| {
            let mut receivers = Vec::new();
            for pieces in &self.files {
                let (sender, receiver) = sync_channel(1);
                let feed = move || {
                    if let Err(error) = self.feed(job, pieces, reader_bytes, &sender) {
                        // If nothing receives any more, the receiver has failed with an error of
                        // its own.
                        let _ = sender.send(Err(error));
                    }
                };
                threads::spawn_scoped(scope, "outcore-table-merge-read", feed)?;
                receivers.push(receiver);
            }
            let (to_writers, parts) = sync_channel::<Part>(1);
            let parts = Arc::new(Mutex::new(parts));
            let mut writers = Vec::new();
            for _ in 0..writers_count {
                let parts = Arc::clone(&parts);
                let write = move || write_parts(output, &parts);
                writers.push(threads::spawn_scoped(
                    scope,
                    "outcore-table-merge-write",
                    write,
                )?);
            }
            // If all writers fail, the channel closes.
            drop(parts);
            let mut merger = Merger::new(receivers, (to_writers, section_bytes));
            let merged = merger.run(job);
            // Readers and writers end when their channels close.
            drop(merger);
            let panicked = |_| Err(Error::new(Kind::Io, MERGE, "a thread panicked"));
            let written = writers.into_iter();
            let written = written.map(|writer| writer.join().unwrap_or_else(panicked));
            let failure = written.filter_map(Result::err).reduce(|one, other| {
                // An interruption is the consequence of another failure.
                match one.kind() {
                    Kind::Interrupted => other,
                    _ => one,
                }
            });
            match (merged, failure) {
                (Err(error), Some(cause)) if error.kind() == Kind::Interrupted => Err(cause),
                (Err(error), _) => Err(error),
                (Ok(()), Some(cause)) => Err(cause),
                (Ok(()), None) => Ok(()),
            }
        })
    }

    /// Reads a file, and sends its rows with their keys, which must ascend.
    pub(super) fn feed(
        &self,
        job: &Job,
        pieces: &[Piece],
        reader_bytes: u64,
        sender: &SyncSender<Result<Block>>,
    ) -> Result<()> {
        let mut reader = self.input.reader(reader_bytes)?;
        let mut rows = RowBatch::default();
        let mut last: Option<Vec<u8>> = None;
        let mut before_count = 0u64;
        reader.expect(pieces.iter().copied());
        for &piece in pieces {
            for batch in reader.open(piece)? {
                let batch = batch?;
                if batch.num_rows() == 0 {
                    continue;
                }
                let keys = self.codec.keys_of(&batch)?;
                let mut block = Block {
                    batch,
                    keys: Strings::default(),
                    rows: Strings::default(),
                };
                for row in 0..block.len() {
                    let key = keys.as_ref().map_or(&[][..], |keys| keys.row(row).data());
                    block.keys.push(key);
                }
                if self.is_whole {
                    rows.clear();
                    self.codec.encode(&block.batch, &mut rows)?;
                    rows.iter().for_each(|row| block.rows.push(row));
                    rows.clear();
                }
                drop(keys);
                for row in 0..block.len() {
                    let is_wrong = match row {
                        0 => last.as_ref().is_some_and(|last| &last[..] > block.key(0)),
                        row => block.key(row - 1) > block.key(row),
                    };
                    if is_wrong {
                        return Err(self.out_of_order(piece, before_count + row as u64 + 1));
                    }
                }
                before_count += block.len() as u64;
                let kept = last.get_or_insert_default();
                kept.clear();
                kept.extend_from_slice(block.key(block.len() - 1));
                if sender.send(Ok(block)).is_err() {
                    return Ok(());
                }
            }
            job.control.advance(piece.stored_bytes);
        }
        Ok(())
    }

    /// The error for a row, counted from 1, that belongs before the previous one.
    fn out_of_order(&self, piece: Piece, row: u64) -> Error {
        let names: Vec<&str> = self.keys.iter().map(|key| key.name.as_str()).collect();
        let cause = format!(
            "row {} comes before row {} in the order of {}",
            units::count(row),
            units::count(row - 1),
            names.join(", ")
        );
        let path: Option<PathBuf> = self
            .input
            .paths()
            .nth(piece.file)
            .map(std::path::Path::to_path_buf);
        let error = Error::corrupt(MERGE, cause)
            .hint("sort this file first with `outcore sort`, by the same columns");
        match path {
            Some(path) => error.path(path),
            None => error,
        }
    }
}

/// Writes parts until the channel closes.
fn write_parts(output: &TableOutput, parts: &Mutex<Receiver<Part>>) -> Result<()> {
    loop {
        let next = parts.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(part) = next else {
            return Ok(());
        };
        let mut section = output.section(part.number, part.first_row);
        for batch in &part.batches {
            section.write(batch)?;
        }
        section.finish()?;
    }
}

/// The read position in one of the files.
struct Head {
    receiver: Receiver<Result<Block>>,
    block: Block,
    row: usize,
    /// The index of its batch in `slots`.
    slot: usize,
}

impl Head {
    fn key(&self) -> &[u8] {
        self.block.key(self.row)
    }
}

struct Merger {
    waiting: Vec<Receiver<Result<Block>>>,
    /// By file; `None` for those that have ended.
    heads: Vec<Option<Head>>,
    /// The numbers of the heads as a binary heap, the least first.
    heap: Vec<usize>,
    /// Batches that contain picked rows, and the picked rows.
    slots: Vec<RecordBatch>,
    picks: Vec<(usize, usize)>,
    part: Part,
    part_bytes: u64,
    rows_count: u64,
    to_writers: SyncSender<Part>,
    section_bytes: u64,
}

impl Merger {
    fn new(
        waiting: Vec<Receiver<Result<Block>>>,
        (to_writers, section_bytes): (SyncSender<Part>, u64),
    ) -> Self {
        Merger {
            waiting,
            heads: Vec::new(),
            heap: Vec::new(),
            slots: Vec::new(),
            picks: Vec::new(),
            part: Part {
                number: 0,
                first_row: 0,
                batches: Vec::new(),
            },
            part_bytes: 0,
            rows_count: 0,
            to_writers,
            section_bytes,
        }
    }

    fn run(&mut self, job: &Job) -> Result<()> {
        for (file, receiver) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            let head = match receiver.recv() {
                Ok(block) => Some(self.head(receiver, block?)),
                Err(_) => None,
            };
            if head.is_some() {
                self.heap.push(file);
            }
            self.heads.push(head);
        }
        for place in (0..self.heap.len() / 2).rev() {
            self.sift(place);
        }
        while let Some(&first) = self.heap.first() {
            job.control.check()?;
            self.take(first)?;
        }
        self.put_together()?;
        self.hand_over()
    }

    fn head(&mut self, receiver: Receiver<Result<Block>>, block: Block) -> Head {
        self.slots.push(block.batch.clone());
        Head {
            receiver,
            block,
            row: 0,
            slot: self.slots.len() - 1,
        }
    }

    /// Whether the head of one file comes before the head of the other.
    fn is_before(&self, one: usize, other: usize) -> bool {
        let key = |file: usize| self.heads[file].as_ref().map(Head::key);
        (key(one), one) < (key(other), other)
    }

    fn sift(&mut self, mut place: usize) {
        loop {
            let below = 2 * place + 1;
            if below >= self.heap.len() {
                return;
            }
            let other = below + 1;
            let is_other =
                other < self.heap.len() && self.is_before(self.heap[other], self.heap[below]);
            let least = if is_other { other } else { below };
            if !self.is_before(self.heap[least], self.heap[place]) {
                return;
            }
            self.heap.swap(place, least);
            place = least;
        }
    }

    /// Takes rows from the batch of the first file while it stays the first.
    fn take(&mut self, first: usize) -> Result<()> {
        let below = [1, 2].into_iter().filter_map(|place| self.heap.get(place));
        let next = below
            .copied()
            .reduce(|one, other| match self.is_before(other, one) {
                true => other,
                false => one,
            });
        let rival = next.and_then(|next| self.heads[next].as_ref().map(|head| (head.key(), next)));
        let Some(head) = self.heads[first].as_ref() else {
            return Ok(());
        };
        let (from, slot, end) = (head.row, head.slot, head.block.len());
        let is_mine = |row: usize| match rival {
            None => true,
            Some(rival) => (head.block.key(row), first) < rival,
        };
        let until = match is_mine(end - 1) {
            true => end,
            false => (from + 1..end).find(|&row| !is_mine(row)).unwrap_or(end),
        };
        if until == end && until - from >= ROWS_AT_ONCE / 2 {
            let slice = head.block.batch.slice(from, until - from);
            self.put_together()?;
            self.put(slice)?;
        } else {
            self.picks.extend((from..until).map(|row| (slot, row)));
        }
        if until < end {
            if let Some(head) = self.heads[first].as_mut() {
                head.row = until;
            }
        } else {
            self.advance(first)?;
        }
        self.sift(0);
        match self.picks.len() >= ROWS_AT_ONCE || self.slots.len() > 2 * self.heads.len() {
            true => self.put_together(),
            false => Ok(()),
        }
    }

    /// Moves to the next batch of a file, or to its end.
    fn advance(&mut self, file: usize) -> Result<()> {
        let Some(head) = self.heads[file].take() else {
            return Ok(());
        };
        match head.receiver.recv() {
            Ok(block) => self.heads[file] = Some(self.head(head.receiver, block?)),
            Err(_) => {
                self.heap.swap_remove(0);
            }
        }
        Ok(())
    }

    /// Gathers the picked rows into a batch.
    fn put_together(&mut self) -> Result<()> {
        let batches: Vec<&RecordBatch> = self.slots.iter().collect();
        for picks in self.picks.chunks(ROWS_AT_ONCE) {
            let made = interleave_record_batch(&batches, picks);
            let made = made.map_err(|error| fault::arrow(MERGE, &error))?;
            self.part.batches.push(made);
        }
        let made = std::mem::take(&mut self.picks).len();
        self.slots.clear();
        for head in self.heads.iter_mut().flatten() {
            head.slot = self.slots.len();
            self.slots.push(head.block.batch.clone());
        }
        let count = made.div_ceil(ROWS_AT_ONCE);
        let put = self.part.batches.split_off(self.part.batches.len() - count);
        put.into_iter().try_for_each(|batch| self.put(batch))
    }

    /// Appends a batch to the current part.
    fn put(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows_count += batch.num_rows() as u64;
        let columns = batch.columns().iter();
        let sizes = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        self.part_bytes += sizes.sum::<usize>() as u64;
        self.part.batches.push(batch);
        match self.part_bytes >= self.section_bytes {
            true => self.hand_over(),
            false => Ok(()),
        }
    }

    fn hand_over(&mut self) -> Result<()> {
        let next = Part {
            number: self.part.number + 1,
            first_row: self.rows_count,
            batches: Vec::new(),
        };
        self.part_bytes = 0;
        let part = std::mem::replace(&mut self.part, next);
        if part.batches.is_empty() {
            return Ok(());
        }
        let failed = |_| Error::new(Kind::Interrupted, MERGE, "the output has failed");
        self.to_writers.send(part).map_err(failed)
    }
}
