//! Checkpoints of a job that can be resumed: how its threads make them, and what they record.
//!
//! Contract: when a checkpoint is due ([`super::pace`]), each thread ends its writes in flight and
//! joins the meeting. The last one to join syncs the files, records the progress of all, and
//! commits the journal; only then do the threads go on. During a distribution, the records list the
//! blocks that each thread has distributed, and its segments on scratch. At the end of the
//! distribution, they list the copies of the segments in memory ([`super::copies`]). Later records
//! list the ranges of the output, the checksums of the writes that have ended, and the edge blocks
//! that are not full. If a sink takes rows, they list the parts that it has written. The last
//! record names the finished file ([`LastRecord::finish`]), just before that file gets its name.
//!
//! With the first commit the directories of the job are marked: from then on they stay if the job
//! fails or is killed. Segments stay on scratch until the output that contains them is recorded.
//!
//! Bounds: the journal's buffer; two words per bucket and thread; per task since the last
//! checkpoint, two words and the addresses of its segments; three words per write since then.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::bucket::{Bucket, InputRun, Location, Out, ScratchCopy, Segment};
use super::meeting::Meeting;
use super::pace::Pace;
use super::restored::{
    BLOCKS, Continued, EDGE_BYTES, EDGES, FINISHED, Finished, IDENTITY, Identity, KEPT, KeptKind,
    PART_STATE, PIECES, PartsRecord, PartsWritten, RANGES, RESUMED, ROW_PARTS, RUNS, SEGMENTS,
    SETTLED, SPLIT_PART, SPLIT_RUNS, SPLIT_SEGMENTS, SegmentEntry, Settled, SplitPart, TOTALS,
    Totals,
};
use crate::job::thread_group::ThreadGroup;
use crate::writer::{Ranges, Writer, WrittenPiece};
use outcore_io::Result;
use outcore_io::drive::private_dir::Resumable;
use outcore_io::journal::{Journal, Progress};
use outcore_io::memory::Budget;
use outcore_io::output::StagedOutput;
use outcore_io::port::Volume;
use outcore_io::scratch::{Scratch, ScratchAddress};

/// Segments that a distribution leaves in memory are copied to scratch if their bytes are at most
/// one part in this many of the job's I/O.
const COPIES_PARTS: u64 = 50;
/// Longest payload of a record of a checkpoint.
const RECORD_BYTES: usize = 48 << 10;

/// The journal of a job and the meetings of its threads.
pub(crate) struct Checkpoints<'a> {
    volume: &'a Volume,
    scratch: &'a Scratch,
    staged: &'a StagedOutput,
    journal: Mutex<Journal>,
    mark: Resumable,
    is_marked: AtomicBool,
    meeting: Meeting,
    pace: Pace,
    moved: Vec<Mutex<Moved>>,
    written: Mutex<Written>,
    /// The number of parts in the last record of parts of rows.
    last_parts: Mutex<usize>,
    /// Whether a run that continues this one reads all of the input in any case.
    is_read_again: bool,
    /// Bytes of segments that were copied to scratch.
    copied_bytes: AtomicU64,
    /// The content of the journal of an earlier run, and the rest of the job.
    pub(crate) continued: Option<Continued>,
}

/// The progress of one thread in a distribution.
#[derive(Default)]
struct Moved {
    /// Blocks that are not recorded yet.
    blocks: Vec<u64>,
    /// For each bucket, how many of its segments were examined, and the number of items in them.
    seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    segments: usize,
    items: u64,
}

/// Descriptions of segments for the journal.
struct Entries {
    /// The kinds of records for the segments, and for their runs of the input.
    kinds: [u32; 2],
    segments: Vec<SegmentEntry>,
    runs: Vec<InputRun>,
}

impl Default for Entries {
    fn default() -> Self {
        Entries {
            kinds: [SEGMENTS, RUNS],
            segments: Vec::new(),
            runs: Vec::new(),
        }
    }
}

impl Entries {
    /// Adds a segment of a thread's bucket, which is on scratch at `copy`. Its first item has the
    /// rank `from`.
    fn add(
        &mut self,
        thread: usize,
        bucket: usize,
        from: u64,
        segment: &Segment,
        copy: ScratchCopy,
    ) {
        let ScratchCopy { address, checksum } = copy;
        self.segments.push(SegmentEntry {
            from,
            offset_bytes: address.offset_bytes,
            checksum,
            thread: thread as u32,
            bucket: bucket as u32,
            payload_bytes: segment.payload_bytes,
            items: segment.items,
            runs_count: segment.input_runs.len() as u32,
            log: address.log,
            is_continued: segment.is_continued.into(),
        });
        self.runs.extend_from_slice(&segment.input_runs);
    }
}

/// Output that is not recorded yet, and the segments from which it was made.
#[derive(Default)]
struct Written {
    ranges: Vec<Range<u64>>,
    read: Vec<ScratchAddress>,
    /// Whether these ranges replace those of an earlier run.
    replaces: bool,
}

/// The ends and the settings of a job with checkpoints.
pub(crate) struct Setting<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) scratch: &'a Scratch,
    pub(crate) staged: &'a StagedOutput,
    pub(crate) budget: Budget,
    pub(crate) mark: Resumable,
    pub(crate) identity: Identity,
    pub(crate) settled: Settled,
    /// Whether a run that continues this one reads all of the input in any case.
    pub(crate) is_read_again: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Checkpoints<'a> {
    /// The checkpoints of a job that begins, or, with `continued`, of one that continues a dead
    /// job.
    ///
    /// # Errors
    /// The journal cannot be made.
    pub(crate) fn new(setting: Setting<'a>, continued: Option<Continued>) -> Result<Self> {
        let Setting {
            volume,
            scratch,
            staged,
            budget,
            mark,
            identity,
            settled,
            is_read_again,
        } = setting;
        let Some(dir) = staged.dirs().next() else {
            unreachable!("an output in a file has a private directory");
        };
        let end = continued.as_ref().map(|continued| continued.restored.end);
        let mut journal = match end {
            Some(end) => Journal::reopen(volume, dir, &budget, end)?,
            None => Journal::create(volume, dir, &budget)?,
        };
        match end {
            Some(_) => journal.append(volume, RESUMED, &[])?,
            None => {
                journal.append_value(volume, IDENTITY, &identity)?;
                journal.append_value(volume, SETTLED, &settled)?;
            }
        }
        scratch.vouch();
        let data_bytes = settled.size.data_bytes;
        let moved = || Mutex::new(Moved::default());
        let parts = continued
            .as_ref()
            .map(|continued| continued.restored.parts_written().parts);
        Ok(Checkpoints {
            volume,
            scratch,
            staged,
            journal: Mutex::new(journal),
            mark,
            is_marked: AtomicBool::new(continued.is_some()),
            meeting: Meeting::default(),
            pace: Pace::new(data_bytes, volume.device().thread_cpu_ns().is_some()),
            moved: (0..settled.size.threads).map(|_| moved()).collect(),
            written: Mutex::default(),
            last_parts: Mutex::new(parts.unwrap_or(0)),
            is_read_again,
            copied_bytes: AtomicU64::new(0),
            continued,
        })
    }

    /// The journal of a job whose output is written.
    pub(crate) fn end(self) -> LastRecord {
        let journal = self.journal.into_inner();
        LastRecord {
            journal: journal.unwrap_or_else(PoisonError::into_inner),
            total_bytes: self.pace.total_bytes(),
        }
    }

    /// Begins a phase of `threads` threads.
    pub(crate) fn begin(&self, threads: usize) {
        self.meeting.begin(threads);
        self.pace.begin();
    }

    /// Takes a thread out of a phase; later meetings do not wait for the thread.
    pub(crate) fn leave(&self) {
        self.meeting.leave();
    }

    /// Counts progress.
    pub(crate) fn advance(&self, bytes: u64) {
        self.pace.advance(bytes);
    }

    /// Whether the threads must meet for a checkpoint.
    pub(crate) fn is_due(&self) -> bool {
        self.pace.is_due()
    }

    /// Notes that a thread has distributed all of a block.
    pub(crate) fn note_block(&self, thread: usize, position: u64) {
        lock(&self.moved[thread]).blocks.push(position);
    }

    /// Notes that a thread has distributed the rows from `position` to `end`, which may directly
    /// follow the rows noted before.
    pub(crate) fn note_rows(&self, thread: usize, position: u64, end: u64) {
        let blocks = &mut lock(&self.moved[thread]).blocks;
        match blocks.last_mut() {
            Some(last) if *last == position => *last = end,
            _ => blocks.push(end),
        }
    }

    /// Records what a thread has distributed: its blocks, and the segments in `outs`. No write of
    /// these segments may be in flight. The record counts after the next commit.
    pub(crate) fn record_moved(&self, thread: usize, outs: &[Out]) -> Result<()> {
        let mut moved = lock(&self.moved[thread]);
        let mut journal = lock(&self.journal);
        for blocks in std::mem::take(&mut moved.blocks).chunks(RECORD_BYTES / 8 - 1) {
            let words: Vec<u64> = [thread as u64].iter().chain(blocks).copied().collect();
            journal.append(self.volume, BLOCKS, bytemuck::cast_slice(&words))?;
        }
        moved.seen.resize(outs.len(), Seen::default());
        let mut entries = Entries::default();
        for (bucket, (out, seen)) in outs.iter().zip(&mut moved.seen).enumerate() {
            for segment in &out.segments[seen.segments..] {
                if let Location::Scratch { address, checksum } = segment.location {
                    let copy = ScratchCopy { address, checksum };
                    entries.add(thread, bucket, seen.items, segment, copy);
                }
                seen.items += u64::from(segment.items);
                self.record_segments(&mut journal, &mut entries, RECORD_BYTES)?;
            }
            seen.segments = out.segments.len();
        }
        self.record_segments(&mut journal, &mut entries, 0)
    }

    /// The parts of a bucket that an earlier run has distributed again.
    pub(crate) fn split_of<K: KeptKind>(&self, bucket: usize) -> Option<Vec<Bucket<K>>> {
        let Continued { restored, left } = self.continued.as_ref()?;
        let parts = restored.split_of(bucket, left)?;
        self.scratch.hold_logs();
        let segments = parts.iter().flat_map(|part: &Bucket<K>| &part.segments);
        addresses_of(segments).for_each(|address| self.scratch.expect_read(address));
        Some(parts)
    }

    /// Records the `parts` of a bucket, none of whose segments is only in memory. Makes a
    /// checkpoint if one is due.
    pub(crate) fn record_split<K: KeptKind>(
        &self,
        bucket: usize,
        parts: &[Bucket<K>],
    ) -> Result<()> {
        // A journal that lists some of the segments needs all of them, but the job forgets them one
        // by one. So logs must stay.
        self.scratch.hold_logs();
        let mut journal = lock(&self.journal);
        for (number, part) in parts.iter().enumerate() {
            let mut entries = Entries {
                kinds: [SPLIT_SEGMENTS, SPLIT_RUNS],
                ..Entries::default()
            };
            for segment in &part.segments {
                let copy = match &segment.location {
                    Location::Scratch { address, checksum } => ScratchCopy {
                        address: *address,
                        checksum: *checksum,
                    },
                    Location::Memory {
                        copy: Some(copy), ..
                    } => **copy,
                    Location::Memory { copy: None, .. } => continue,
                };
                entries.add(0, bucket, 0, segment, copy);
                self.record_segments(&mut journal, &mut entries, RECORD_BYTES)?;
            }
            self.record_segments(&mut journal, &mut entries, 0)?;
            let record = SplitPart {
                bucket,
                segments_count: part.segments.len(),
                counts: part.counts,
                depth: part.depth,
                is_equal: part.is_equal,
                copies_of: part.copies_of.clone(),
                kind: part.kind.to_words(),
                is_last: number + 1 == parts.len(),
            };
            journal.append_value(self.volume, SPLIT_PART, &record)?;
        }
        drop(journal);
        self.pace
            .count(parts.iter().map(|part| part.counts.bytes).sum());
        match self.is_due() {
            true => self.commit(Instant::now()),
            false => Ok(()),
        }
    }

    /// Commits what was recorded of buckets that were distributed again.
    pub(crate) fn end_splits(&self) -> Result<()> {
        self.commit(Instant::now())
    }

    /// Records the copies of a thread's segments in memory. The record counts after the next
    /// commit.
    pub(crate) fn record_copies(&self, thread: usize, outs: &[Out]) -> Result<()> {
        let mut journal = lock(&self.journal);
        let mut entries = Entries::default();
        for (bucket, out) in outs.iter().enumerate() {
            let mut items = 0;
            for segment in &out.segments {
                if let Location::Memory {
                    copy: Some(copy), ..
                } = &segment.location
                {
                    entries.add(thread, bucket, items, segment, **copy);
                }
                items += u64::from(segment.items);
                self.record_segments(&mut journal, &mut entries, RECORD_BYTES)?;
            }
        }
        self.record_segments(&mut journal, &mut entries, 0)
    }

    /// Whether segments in memory, of this many bytes, are copied to scratch. With all earlier
    /// copies, they must be a small part of the job's I/O. With such copies, a run that continues
    /// this one need not read the input again.
    pub(crate) fn copies(&self, in_memory_bytes: u64) -> bool {
        // The data are read, stored, read back and written: twice per phase.
        let io_bytes = 2 * self.pace.total_bytes();
        let copied_bytes = self.copied_bytes.load(Ordering::Relaxed) + in_memory_bytes;
        let is_little = !self.is_read_again && copied_bytes * COPIES_PARTS <= io_bytes;
        if is_little {
            self.copied_bytes.store(copied_bytes, Ordering::Relaxed);
        }
        is_little
    }

    /// Whether the parts of a bucket can be recorded: a run that continues needs nothing else for
    /// them.
    pub(crate) fn keeps_splits(&self) -> bool {
        !self.is_read_again
    }

    /// Records these descriptions if they have more than `bytes_max`.
    fn record_segments(
        &self,
        journal: &mut Journal,
        entries: &mut Entries,
        bytes_max: usize,
    ) -> Result<()> {
        let Entries {
            kinds,
            segments,
            runs,
        } = entries;
        if size_of_val(&segments[..]) + size_of_val(&runs[..]) <= bytes_max {
            return Ok(());
        }
        for entries in segments.chunks(RECORD_BYTES / size_of::<SegmentEntry>()) {
            journal.append(self.volume, kinds[0], bytemuck::cast_slice(entries))?;
        }
        for runs in runs.chunks(RECORD_BYTES / size_of::<InputRun>()) {
            journal.append(self.volume, kinds[1], bytemuck::cast_slice(runs))?;
        }
        segments.clear();
        runs.clear();
        Ok(())
    }

    /// Joins the meeting of a distribution: commits what all threads have recorded.
    pub(crate) fn meet_distributing(&self, group: &ThreadGroup<'_>) -> Result<()> {
        self.meeting.join(group, |began| self.commit(began))
    }

    /// The segments of an earlier run, per bucket. Their memory moves: a second call returns none.
    pub(crate) fn vouched(&self) -> Option<Vec<Out>> {
        let Continued { restored, left } = self.continued.as_ref()?;
        let vouched = restored.outs(left);
        let segments = vouched.iter().flat_map(|out| &out.segments);
        addresses_of(segments).for_each(|address| self.scratch.expect_read(address));
        Some(vouched)
    }

    /// Records the number of items in each bucket, and commits. The numbers of an earlier run
    /// replace those of this one, which has not moved all items.
    pub(crate) fn settle_totals<K>(
        &self,
        buckets: &mut [Bucket<K>],
        left_out: &mut u64,
    ) -> Result<()> {
        let known = self.continued.as_ref();
        let known = known.and_then(|continued| continued.left.totals.as_ref());
        let Some(known) = known else {
            let totals = Totals {
                buckets: buckets.iter().map(|bucket| bucket.counts).collect(),
                left_out: *left_out,
            };
            lock(&self.journal).append_value(self.volume, TOTALS, &totals)?;
            return self.commit(Instant::now());
        };
        for (bucket, counts) in buckets.iter_mut().zip(&known.buckets) {
            bucket.counts = *counts;
        }
        *left_out = known.left_out;
        self.commit(Instant::now())
    }

    /// The bytes of the output that an earlier run has written.
    pub(crate) fn in_output(&self) -> Option<&Ranges> {
        let continued = self.continued.as_ref()?;
        Some(&continued.restored.ranges)
    }

    /// Keeps `kept` of the bytes that an earlier run has written, and gives `writer` the blocks at
    /// their borders. All other bytes are written again.
    ///
    /// # Errors
    /// A block cannot be read.
    pub(crate) fn keep_output(&self, writer: &Writer, kept: &Ranges) -> Result<()> {
        let Some(Continued { restored, .. }) = &self.continued else {
            return Ok(());
        };
        let mut edges = restored.edges.clone();
        writer.read_borders(self.volume, kept, &mut edges)?;
        for edge in edges {
            writer.restore_edge(edge, kept);
        }
        let mut written = lock(&self.written);
        written.ranges = kept.list().to_vec();
        written.replaces = true;
        Ok(())
    }

    /// Notes that a range of the output, made of `segments`, has been passed to the drives.
    pub(crate) fn note_written(&self, range: Range<u64>, segments: Vec<ScratchAddress>) {
        self.pace.advance(range.end - range.start);
        let mut written = lock(&self.written);
        written.ranges.push(range);
        written.read.extend(segments);
    }

    /// Joins the meeting of the phase that writes the output; this thread has no write in flight.
    pub(crate) fn meet_writing(&self, group: &ThreadGroup<'_>, writer: &Writer) -> Result<()> {
        self.meeting.join(group, |began| {
            let written = std::mem::take(&mut *lock(&self.written));
            self.staged.sync(self.volume)?;
            self.record_written(&written, writer)?;
            self.commit(began)?;
            written
                .read
                .iter()
                .for_each(|address| self.scratch.forget(*address));
            Ok(())
        })
    }

    /// Durably records which parts of rows are in the output, and `state`, the sink's description
    /// of them. The checkpoint `began` before their sync.
    pub(crate) fn keep_parts(
        &self,
        began: Instant,
        written: PartsWritten,
        state: &[u8],
    ) -> Result<()> {
        let mut journal = lock(&self.journal);
        for state in state.chunks(RECORD_BYTES) {
            journal.append(self.volume, PART_STATE, state)?;
        }
        let mut last = lock(&self.last_parts);
        let record = PartsRecord {
            follows: *last,
            written,
        };
        journal.append_value(self.volume, ROW_PARTS, &record)?;
        *last = written.parts;
        drop((journal, last));
        self.commit(began)
    }

    /// The parts of rows that an earlier run has written.
    pub(crate) fn parts_written(&self) -> PartsWritten {
        let continued = self.continued.as_ref();
        continued.map_or_else(PartsWritten::default, |continued| {
            continued.restored.parts_written()
        })
    }

    fn record_written(&self, written: &Written, writer: &Writer) -> Result<()> {
        let mut journal = lock(&self.journal);
        let (header_bytes, pieces) = writer.take_written();
        for pieces in pieces.chunks(RECORD_BYTES / size_of::<WrittenPiece>() - 1) {
            let mut record = header_bytes.to_le_bytes().to_vec();
            record.extend_from_slice(bytemuck::cast_slice(pieces));
            journal.append(self.volume, PIECES, &record)?;
        }
        if written.replaces {
            journal.append(self.volume, KEPT, &[])?;
        }
        // This record is appended even without a range, because the edge blocks follow it.
        journal.append(self.volume, RANGES, &[])?;
        for ranges in written.ranges.chunks(RECORD_BYTES / 16) {
            let words: Vec<u64> = ranges
                .iter()
                .flat_map(|range| [range.start, range.end])
                .collect();
            journal.append(self.volume, RANGES, bytemuck::cast_slice(&words))?;
        }
        let mut record = Vec::with_capacity(RECORD_BYTES);
        writer.each_edge(|file, block, bytes| {
            record.extend_from_slice(&(file as u64).to_le_bytes());
            record.extend_from_slice(&block.to_le_bytes());
            record.extend_from_slice(bytes);
            if record.len() + EDGE_BYTES > RECORD_BYTES {
                journal.append(self.volume, EDGES, &record)?;
                record.clear();
            }
            Ok(())
        })?;
        journal.append(self.volume, EDGES, &record)
    }

    /// Marks the directories if they are not marked yet, syncs scratch, and commits the journal.
    /// The checkpoint `began` before that.
    fn commit(&self, began: Instant) -> Result<()> {
        if !self.is_marked.load(Ordering::Acquire) {
            let dirs = self.scratch.dirs().chain(self.staged.dirs());
            for dir in dirs {
                dir.keep_to_resume(&self.mark)?;
            }
            self.is_marked.store(true, Ordering::Release);
        }
        // Once scratch is sealed, nothing is written to it for which the journal vouches.
        if !self.scratch.is_sealed() {
            self.scratch.sync()?;
        }
        lock(&self.journal).commit(self.volume, self.pace.progress())?;
        self.pace.made(began);
        Ok(())
    }
}

/// The journal of a job whose output is written and has no name yet.
pub(crate) struct LastRecord {
    journal: Journal,
    total_bytes: u64,
}

impl LastRecord {
    /// Records, durably, which file is the output, and closes the journal.
    ///
    /// # Errors
    /// The device's error.
    pub(crate) fn finish(mut self, volume: &Volume, finished: &Finished) -> Result<()> {
        self.journal.append_value(volume, FINISHED, finished)?;
        let progress = Progress {
            done_bytes: self.total_bytes,
            total_bytes: self.total_bytes,
        };
        self.journal.commit(volume, progress)?;
        self.journal.close(volume);
        Ok(())
    }
}

/// The addresses of segments on scratch, and of the copies of segments in memory.
pub(crate) fn addresses_of<'s>(
    segments: impl IntoIterator<Item = &'s Segment>,
) -> impl Iterator<Item = ScratchAddress> {
    let address = |segment: &Segment| match &segment.location {
        Location::Scratch { address, .. } => Some(*address),
        Location::Memory { copy, .. } => copy.as_ref().map(|copy| copy.address),
    };
    segments.into_iter().filter_map(address)
}
