//! Numbers string ids as vertices 0, 1, 2, ... in the order of their bytes, with no more memory
//! than a sort needs.
//!
//! Contract: as [`super::relabel`], with a sort of rows in place of numbers. Each end of an edge
//! becomes a row. The row has the end's name, a zero byte (which no name contains), its place
//! (twice the offset of its line, plus one for the target), and the edge's weight. Rows are their
//! own keys, so all ends with one name are adjacent in the sorted rows. Each distinct name gets the
//! next number and is appended to the names. Pairs of place and number are then processed as for
//! numeric ids.
//!
//! Bounds: one read of the text; a sort of one row per end; then a sort of 16 bytes per end.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use outcore::key::NoKey;
use outcore::read::sample::sample;
use outcore::read::source::{Blocks, InputPart};
use outcore::sort::lines::rows::{RowBatch, RowPart, RowSink, RowSource, TakeRows};
use outcore::sort::lines::{RowSortOptions, sort_rows};
use outcore::{Error, Job, Kind, Result, SortKey};
use outcore_io::drive::Access;
use outcore_io::memory::{Budget, Pool};
use outcore_io::port::{Volume, WAIT_MAX};

use super::relabel::{NamesFile, Relabelled, Traffic, number_edges};
use super::{CONVERT, VERTICES_MAX};
use crate::edges::borders::Borders;
use crate::edges::named::{NAME_BYTES_MAX, NamedEdge, NamedFile};
use crate::edges::text::{Place, not_an_edge};
use crate::format::weight::WeightType;
use outcore::primitives::appended::{AppendedFile, append_to};

/// Length of a read, and the number of reads in flight per thread.
const READ_BYTES: usize = 256 << 10;
const READS: usize = 4;
/// A batch of rows is passed on once it has this many bytes.
pub(super) const BATCH_BYTES: usize = 128 << 10;
/// The longest line.
const LINE_BYTES_MAX: usize = READ_BYTES;
/// Reads of a sample, and their length.
const SAMPLE_READS: usize = 256;
const SAMPLE_BYTES: usize = 4096;
const PLACE_BYTES: usize = 8;
const WEIGHT_BYTES: usize = 8;
/// Bytes of rows that a thread takes at a time.
const PART_BYTES: u64 = 1 << 20;

/// Numbers the names in `files`.
pub(super) fn relabel_named(
    job: &Job,
    files: &[NamedFile],
    weights: Option<WeightType>,
    scratch: &Path,
) -> Result<Relabelled> {
    let rows = NamedRows::new(job, files, weights)?;
    let mut found = relabel_rows(job, &rows, weights, scratch)?;
    rows.close()?;
    found.read_bytes += rows.text_bytes;
    found.skipped = rows.skipped.load(Ordering::Relaxed);
    found.skipped += files.iter().map(|file| file.skipped).sum::<u64>();
    Ok(found)
}

/// Numbers the names of rows that [`push_ends`] has made.
pub(super) fn relabel_rows(
    job: &Job,
    rows: &dyn RowSource,
    weights: Option<WeightType>,
    scratch: &Path,
) -> Result<Relabelled> {
    job.device.sweep_private_dirs(scratch)?;
    let dir = job.device.make_private_dir(scratch)?;
    let path = |name: &str| std::path::absolute(dir.path().join(name)).unwrap_or_default();
    let (ends, names) = (path("part-0"), path("part-1"));
    let (vertices, done) = append_to(job, &names, |names| {
        append_to(job, &ends, |ends| {
            let sink = NumberingSink::new(job, weights, [names, ends]);
            let options = RowSortOptions {
                unique: false,
                scratch_dir: scratch.to_path_buf(),
            };
            let done = sort_rows(job, rows, &sink, &WholeRow, &options)?;
            Ok((sink.vertices(), done))
        })
    })?;
    if vertices >= VERTICES_MAX {
        let cause = format!("{vertices} different ids; at most {VERTICES_MAX} are possible");
        return Err(Error::usage(CONVERT, cause));
    }
    // Each end is also written as a pair of place and number.
    let end_bytes = if weights.is_some() { 24 } else { 16 };
    let traffic = Traffic {
        read_bytes: done.read_bytes,
        written_bytes: done.written_bytes + done.lines_in * end_bytes,
    };
    let names = NamesFile::Text(names);
    number_edges(job, dir, &ends, names, vertices, weights, traffic)
}

/// Appends the rows of both ends of an edge, whose place is below 2^62.
pub(super) fn push_ends(
    rows: &mut RowBatch,
    edge: &NamedEdge<'_>,
    place: u64,
    weights: Option<WeightType>,
) -> Result<()> {
    let mut row = Vec::with_capacity(128);
    for (name, end) in [(&edge.source, 0), (&edge.target, 1)] {
        row.clear();
        row.extend_from_slice(name);
        row.push(0);
        row.extend_from_slice(&(2 * place + end).to_be_bytes());
        if weights.is_some() {
            row.extend_from_slice(&edge.weight.to_be_bytes());
        }
        rows.push(&row)?;
    }
    Ok(())
}

/// Orders rows by all of their bytes.
struct WholeRow;

impl SortKey for WholeRow {
    fn append_key(&self, row: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        key.extend_from_slice(row);
        Ok(())
    }

    fn is_item(&self) -> bool {
        true
    }
}

/// The ends of edges in text, as input of the sort.
struct NamedRows<'a> {
    job: &'a Job,
    files: &'a [NamedFile],
    weights: Option<WeightType>,
    volume: Arc<Volume>,
    blocks: Blocks,
    borders: Vec<Borders>,
    text_bytes: u64,
    /// Bytes of text that are still unread.
    left_bytes: AtomicU64,
    /// Comments so far.
    skipped: AtomicU64,
    /// Rows of the sample, and the estimated bytes of all rows.
    sample: RowBatch,
    rows_bytes: u64,
}

impl<'a> NamedRows<'a> {
    fn new(job: &'a Job, files: &'a [NamedFile], weights: Option<WeightType>) -> Result<Self> {
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        let mut parts = Vec::new();
        let mut text_bytes = 0;
        for named in files {
            let file = volume.open(&named.path, Access::Read)?;
            let len_bytes = file.facts.len_bytes.saturating_sub(named.header_bytes);
            parts.push(InputPart {
                file,
                data_at_bytes: named.header_bytes,
                data_len_bytes: len_bytes,
                first_position: text_bytes,
            });
            text_bytes += len_bytes;
        }
        let mut rows = NamedRows {
            job,
            files,
            weights,
            volume,
            blocks: Blocks::new(parts, 1, READ_BYTES),
            borders: files.iter().map(|_| Borders::default()).collect(),
            text_bytes,
            left_bytes: AtomicU64::new(text_bytes),
            skipped: AtomicU64::new(0),
            sample: RowBatch::default(),
            rows_bytes: 0,
        };
        rows.take_sample()?;
        Ok(rows)
    }

    /// Samples lines evenly from the text. Lines that the border of a sample cuts are also used.
    fn take_sample(&mut self) -> Result<()> {
        if self.text_bytes == 0 {
            return Ok(());
        }
        let (job, parts) = (self.job, self.blocks.parts());
        let sizes = (SAMPLE_READS, SAMPLE_BYTES);
        let text = sample(&self.volume, &job.budget, parts, 1, sizes.0, sizes.1, 1)?;
        // All files of a conversion have one format.
        let syntax = self.files.first().map(|file| file.syntax);
        let line_end = syntax.map_or(b'\n', |syntax| syntax.line_end());
        for line in text.split(|byte| *byte == line_end) {
            let syntax = syntax.map(|syntax| syntax.with_weights(self.weights));
            let edge = syntax.and_then(|syntax| syntax.named(line).ok().flatten());
            if let Some(edge) = edge {
                push_ends(&mut self.sample, &edge, 0, self.weights)?;
            }
        }
        let factor = self.sample.bytes() as f64 / text.len().max(1) as f64;
        self.rows_bytes = (self.text_bytes as f64 * factor) as u64 + 1;
        Ok(())
    }

    /// Adds the rows of whole lines, the first of which begins `at_bytes` into the data of a file.
    fn take_lines(
        &self,
        part: usize,
        at_bytes: u64,
        lines: &[u8],
        rows: &mut RowBatch,
        take: &mut TakeRows<'_>,
    ) -> Result<()> {
        let Some(file) = self.files.get(part) else {
            return Ok(());
        };
        let first_bytes = self.blocks.parts()[part].first_position;
        let mut from = 0;
        let line_end = file.syntax.line_end();
        let ends = memchr::memchr_iter(line_end, lines).chain(Some(lines.len()));
        for end in ends {
            let line = lines.get(from..end).unwrap_or_default();
            let line_bytes = at_bytes + from as u64;
            from = end + 1;
            match file.syntax.with_weights(self.weights).named(line) {
                Ok(None) => {
                    let is_comment = !line.trim_ascii().is_empty();
                    self.skipped
                        .fetch_add(u64::from(is_comment), Ordering::Relaxed);
                    continue;
                }
                Ok(Some(edge)) => {
                    push_ends(rows, &edge, first_bytes + line_bytes, self.weights)?;
                }
                Err(fault) => {
                    let place = Place {
                        path: &file.path,
                        at_bytes: file.header_bytes + line_bytes,
                        line_end,
                    };
                    return Err(not_an_edge(&fault, place));
                }
            }
            if rows.bytes() >= BATCH_BYTES {
                take(rows, 0)?;
                rows.clear();
            }
        }
        Ok(())
    }

    /// Ends reading; fails if a file has changed meanwhile.
    fn close(&self) -> Result<()> {
        for part in self.blocks.parts() {
            self.volume.check_unchanged(&part.file, false)?;
            self.volume.close(&part.file);
        }
        Ok(())
    }

    /// Memory of a thread.
    fn thread_bytes() -> u64 {
        let reads = READS * (READ_BYTES + 2 * 4096);
        // While a batch grows, its old and its new buffer are both in memory.
        (reads + 3 * BATCH_BYTES + 4 * NAME_BYTES_MAX) as u64
    }
}

impl RowSource for NamedRows<'_> {
    fn data_bytes(&self) -> u64 {
        self.rows_bytes
    }

    fn memory_bytes(&self) -> u64 {
        // In addition, each piece needs memory for the ends of two lines.
        let pieces = self.text_bytes / READ_BYTES as u64;
        self.job.options.threads.max(1) as u64 * Self::thread_bytes() + pieces * 256
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        // The sample uses the same share of each batch.
        let mut batch = RowBatch::default();
        for row in self.sample.iter() {
            batch.push(row)?;
            if batch.len() == 16 {
                take(&batch, 0)?;
                batch.clear();
            }
        }
        take(&batch, 0)
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        // The memory that the engine has set aside for this thread.
        let own = Budget::new(Self::thread_bytes());
        let pool = Pool::new(&own, "text of edges", READ_BYTES + 2 * 4096, READS)?;
        let mut rows = RowBatch::default();
        let check = || self.job.control.check();
        self.blocks
            .read_each(&self.volume, &pool, check, |block, text| {
                let part = block.part;
                let at_bytes = block.position - self.blocks.parts()[part].first_position;
                let file = &self.files[part];
                let line_end = file.syntax.line_end();
                if text.len() >= LINE_BYTES_MAX && memchr::memchr(line_end, text).is_none() {
                    let cause = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                    return Err(Error::corrupt(CONVERT, cause)
                        .path(&file.path)
                        .offset(file.header_bytes + at_bytes)
                        .hint("check --from, or that the file is text"));
                }
                let (lines_bytes, lines) = self.borders[part].whole(at_bytes, text, line_end);
                self.take_lines(part, lines_bytes, lines, &mut rows, take)?;
                let bytes = text.len() as u64;
                let is_last = self.left_bytes.fetch_sub(bytes, Ordering::AcqRel) == bytes;
                if !is_last {
                    return Ok(());
                }
                for (part, borders) in self.borders.iter().enumerate() {
                    borders.each_cut(|at_bytes, line| {
                        self.take_lines(part, at_bytes, line, &mut rows, take)
                    })?;
                }
                Ok(())
            })?;
        match rows.is_empty() {
            true => Ok(()),
            false => take(&rows, 0),
        }
    }
}

/// Takes sorted rows, one part after another. It numbers the names, and appends each name once and
/// a pair per end.
struct NumberingSink<'a> {
    job: &'a Job,
    weights: Option<WeightType>,
    state: Mutex<Numbering<'a>>,
    changed: Condvar,
}

struct Numbering<'a> {
    /// The part whose turn it is.
    next: usize,
    is_failed: bool,
    last: Vec<u8>,
    vertices: u64,
    names: &'a mut AppendedFile,
    ends: &'a mut AppendedFile,
}

impl<'a> NumberingSink<'a> {
    fn new(
        job: &'a Job,
        weights: Option<WeightType>,
        [names, ends]: [&'a mut AppendedFile; 2],
    ) -> Self {
        NumberingSink {
            job,
            weights,
            state: Mutex::new(Numbering {
                next: 0,
                is_failed: false,
                last: Vec::new(),
                vertices: 0,
                names,
                ends,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbering<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn vertices(&self) -> u64 {
        self.lock().vertices
    }

    /// Waits for the turn of a part.
    fn turn(&self, number: usize) -> Result<MutexGuard<'_, Numbering<'a>>> {
        let mut state = self.lock();
        while state.next != number && !state.is_failed {
            self.job.control.check()?;
            let waited = self.changed.wait_timeout(state, WAIT_MAX);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.is_failed {
            false => Ok(state),
            true => Err(Error::new(
                Kind::Interrupted,
                CONVERT,
                "another part of the ids has failed",
            )),
        }
    }
}

impl Numbering<'_> {
    fn take(&mut self, row: &[u8], weights: Option<WeightType>) -> Result<()> {
        let cut_short = || Error::corrupt(CONVERT, "a row of an id is cut short");
        let behind_bytes = PLACE_BYTES + if weights.is_some() { WEIGHT_BYTES } else { 0 };
        let name_bytes = row.len().checked_sub(behind_bytes + 1);
        let (name, behind) = row.split_at(name_bytes.ok_or_else(cut_short)?);
        let (place, weight) = behind[1..].split_at(PLACE_BYTES);
        let place = u64::from_be_bytes(place.try_into().map_err(|_| cut_short())?);
        let weight = weight.try_into().map_or(0, u64::from_be_bytes);
        if self.vertices == 0 || self.last != name {
            self.last.clear();
            self.last.extend_from_slice(name);
            self.vertices += 1;
            self.names.append(&(name.len() as u16).to_le_bytes())?;
            self.names.append(name)?;
        }
        let number = (self.vertices - 1) & u64::from(u32::MAX);
        match weights {
            None => self.ends.append(bytemuck::bytes_of(&[place, number])),
            Some(_) => self
                .ends
                .append(bytemuck::bytes_of(&[place, number, weight])),
        }
    }
}

/// A part of the rows.
struct NumberingPart<'s, 'a> {
    sink: &'s NumberingSink<'a>,
    number: usize,
    is_finished: bool,
}

impl RowSink for NumberingSink<'_> {
    fn part_bytes(&self) -> u64 {
        PART_BYTES
    }

    fn begin(&self, number: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(NumberingPart {
            sink: self,
            number,
            is_finished: false,
        }))
    }

    fn give_up(&self) {
        self.lock().is_failed = true;
        self.changed.notify_all();
    }
}

impl RowPart for NumberingPart<'_, '_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let mut state = self.sink.turn(self.number)?;
        for row in rows {
            state.take(row, self.sink.weights)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let mut state = self.sink.turn(self.number)?;
        state.next += 1;
        self.is_finished = true;
        drop(state);
        self.sink.changed.notify_all();
        Ok(())
    }
}

/// A part that is abandoned ends the numbering, because later parts would wait for ever.
impl Drop for NumberingPart<'_, '_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.sink.give_up();
        }
    }
}
