//! The work that the journal of a dead job vouches for, and the identity of the job.
//!
//! Contract: [`Identity`] says which job a journal belongs to; [`Identity::difference`] names the
//! first difference from another identity. [`Restored`] is the content of a journal. It has the
//! blocks of the input that each thread had distributed, in order. For each bucket of a thread it
//! has the ranks of the items that are on scratch. The other items of these blocks were in memory
//! and are lost: a thread reads its blocks again and moves only the lost items ([`Rest`]). Items
//! have ranks per thread and bucket, in the order in which the thread moved them, so the filter
//! needs no keys.
//!
//! A run that resumes counts only the items for which the journal did not vouch before. Its records
//! give ranks among these items, and [`Restored`] translates the ranks.
//!
//! Bounds: one description per segment, in the memory that the plan reserves for descriptions; one
//! word per block of the input; two words per gap of ranks.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Counts, InputRun, Location, Out};
use crate::job::JobSize;
use crate::read::longest::Longest;
use crate::read::source::InputPart;
use crate::states::{GIVE_UP, STATE};
use crate::writer::{EdgeBlock, Ranges, WrittenPiece};
use outcore_io::drive::link::real_path;
use outcore_io::drive::os::plain_facts;
use outcore_io::drive::{FileFacts, PrivateDir};
use outcore_io::journal::{self, JournalEnd, KINDS_FROM, Record};
use outcore_io::memory::{BLOCK_BYTES, block_ceil};
use outcore_io::scratch::ScratchAddress;
use outcore_io::{Error, Result};

/// The operation of errors.
pub(crate) const RESUME: &str = "resume";
/// The advice of the error for a job that is not the killed one.
pub const ANOTHER_JOB: &str = "resume it with its own inputs and options, or begin anew";

/// The error if the killed job in `dir` is not this job.
pub(crate) fn another_job(dir: PathBuf, difference: &str) -> Error {
    let cause = format!("the killed job with this output is another one: {difference}");
    Error::usage(RESUME, cause).path(dir).hint(ANOTHER_JOB)
}

/// Kinds of records.
pub(crate) const IDENTITY: u32 = KINDS_FROM;
pub(super) const SETTLED: u32 = KINDS_FROM + 1;
pub(super) const RESUMED: u32 = KINDS_FROM + 2;
pub(super) const BLOCKS: u32 = KINDS_FROM + 3;
pub(super) const SEGMENTS: u32 = KINDS_FROM + 4;
pub(super) const TOTALS: u32 = KINDS_FROM + 5;
pub(super) const RANGES: u32 = KINDS_FROM + 6;
pub(super) const EDGES: u32 = KINDS_FROM + 7;
pub(super) const RUNS: u32 = KINDS_FROM + 8;
pub(super) const KEPT: u32 = KINDS_FROM + 9;
pub(crate) const FINISHED: u32 = KINDS_FROM + 10;
pub(super) const PIECES: u32 = KINDS_FROM + 11;
pub(super) const SPLIT_SEGMENTS: u32 = KINDS_FROM + 12;
pub(super) const SPLIT_RUNS: u32 = KINDS_FROM + 13;
pub(super) const SPLIT_PART: u32 = KINDS_FROM + 14;
pub(super) const PART_STATE: u32 = KINDS_FROM + 20;
pub(super) const ROW_PARTS: u32 = KINDS_FROM + 21;

/// Bytes of an edge block in a record: its file, its number, its contents.
pub(super) const EDGE_BYTES: usize = 16 + BLOCK_BYTES;

/// An input as it was when a job began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InputIdentity {
    path: Vec<u8>,
    inode: u64,
    len_bytes: u64,
    modified_ns: i64,
    changed_ns: i64,
    data_at_bytes: u64,
    data_len_bytes: u64,
}

/// The identity of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The version of outcore.
    version: String,
    inputs: Vec<InputIdentity>,
    /// Everything else that changes the bytes of the output, or where they go.
    options: Vec<IdentityOption>,
}

/// An option of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdentityOption {
    /// The name of the option in words.
    pub(crate) name: String,
    pub(crate) value: String,
}

impl IdentityOption {
    /// The kind of a job, which comes first: other kinds have other options.
    pub(crate) fn kind(kind: &str) -> Self {
        Self::of("kind of job", kind)
    }

    /// An option with this name in words.
    pub(crate) fn of(name: &str, value: impl ToString) -> Self {
        IdentityOption {
            name: name.to_owned(),
            value: value.to_string(),
        }
    }

    fn difference(&self, now: &IdentityOption) -> Option<String> {
        let (name, was, is) = (&self.name, &self.value, &now.value);
        (was != is).then(|| format!("its {name} was {was}, and is {is} now"))
    }
}

/// A finished output, as it was just before it got its name, and what the job had counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finished {
    inode: u64,
    len_bytes: u64,
    modified_ns: i64,
    /// Items in the output.
    pub(crate) items: u64,
    /// Items in the inputs.
    pub(crate) items_in: u64,
}

impl Finished {
    /// A file with these `facts`, which are final.
    pub(crate) fn of(facts: &FileFacts, items: u64, items_in: u64) -> Self {
        Finished {
            inode: facts.inode,
            len_bytes: facts.len_bytes,
            modified_ns: facts.modified_ns as i64,
            items,
            items_in,
        }
    }

    /// Whether the file at `path` is the finished output.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        plain_facts(path).is_some_and(|facts| {
            let found = Finished::of(&facts, self.items, self.items_in);
            found == *self
        })
    }

    /// Whether the input `now` is the finished output, in the place of the input `was`.
    fn has_replaced(&self, was: &InputIdentity, now: &InputIdentity) -> bool {
        was.path == now.path
            && (now.inode, now.len_bytes) == (self.inode, self.len_bytes)
            && now.modified_ns == self.modified_ns
    }
}

impl Identity {
    /// The job over `parts` with `options`.
    pub(crate) fn of(parts: &[InputPart], options: Vec<IdentityOption>) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let input = |part: &InputPart| {
            let facts = &part.file.facts;
            let path: &Path = &part.file.path;
            InputIdentity {
                path: real_path(path).as_os_str().as_bytes().to_vec(),
                inode: facts.inode,
                len_bytes: facts.len_bytes,
                modified_ns: facts.modified_ns as i64,
                changed_ns: facts.changed_ns as i64,
                data_at_bytes: part.data_at_bytes,
                data_len_bytes: part.data_len_bytes,
            }
        };
        Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            inputs: parts.iter().map(input).collect(),
            options,
        }
    }

    /// The first difference of the job `now` from this one, in words. If this one has `finished`
    /// its output, that output may have replaced an input.
    pub(crate) fn difference(&self, now: &Identity, finished: Option<&Finished>) -> Option<String> {
        if self.version != now.version {
            let (was, is) = (&self.version, &now.version);
            return Some(format!("it was begun by outcore {was}, and this is {is}"));
        }
        if self.inputs.len() != now.inputs.len() {
            let (was, is) = (self.inputs.len(), now.inputs.len());
            return Some(format!(
                "it has another number of inputs: {was} then, {is} now"
            ));
        }
        for (was, is) in self.inputs.iter().zip(&now.inputs) {
            let is_replaced = finished.is_some_and(|finished| finished.has_replaced(was, is));
            if was != is && !is_replaced {
                return Some(was.difference(is));
            }
        }
        let mut pairs = self.options.iter().zip(&now.options);
        let found = pairs.find_map(|(was, is)| match was.name == is.name {
            true => was.difference(is),
            false => Some(format!("it had another {}", was.name)),
        });
        let is_other = self.options.len() != now.options.len();
        found.or_else(|| is_other.then(|| "its options were different".to_owned()))
    }

    /// The difference between the option `now` and the option of the same name here, in words.
    pub(crate) fn difference_in(&self, now: &IdentityOption) -> Option<String> {
        let was = self.options.iter().find(|option| option.name == now.name)?;
        was.difference(now)
    }
}

impl InputIdentity {
    fn difference(&self, now: &InputIdentity) -> String {
        let name = |input: &InputIdentity| String::from_utf8_lossy(&input.path).into_owned();
        let path = name(self);
        if self.path != now.path {
            return format!("its input was {path}, and is {} now", name(now));
        }
        if self.len_bytes != now.len_bytes {
            let (was, is) = (self.len_bytes, now.len_bytes);
            return format!("{path} had {was} bytes, and has {is} now");
        }
        let cause = match self.inode == now.inode {
            true if self.modified_ns != now.modified_ns => "was written to",
            true if self.changed_ns != now.changed_ns => "was renamed, linked or written to",
            true => "is read from another offset",
            false => "is another file",
        };
        format!("{path} {cause}")
    }
}

/// Choices of a job before its first checkpoint, which a run that resumes it must repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settled {
    pub(crate) size: JobSize,
    pub(crate) seed: u64,
    /// The memory that the source and the sink of rows divide between them; 0 without rows.
    pub(crate) rows_memory_bytes: u64,
    pub(crate) division: Division,
    /// Names of the private directories on the scratch drives.
    pub(crate) scratch_names: Vec<Vec<u8>>,
    /// Logs per drive.
    pub(crate) bands: usize,
}

/// How a job divides its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Division {
    /// A sum over the sample from which the buckets follow.
    pub(crate) sample_sum: u64,
    pub(crate) bucket_count: usize,
    /// Whether the last bucket is the first in the output.
    pub(crate) is_reversed: bool,
    /// The longest item, if it was measured.
    pub(crate) longest: Option<Longest>,
}

/// The end of a distribution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) buckets: Vec<Counts>,
    /// Items that were left out.
    pub(crate) left_out: u64,
}

/// A segment that the journal vouches for, as stored in a record.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SegmentEntry {
    /// Rank of the segment's first item among the items that the run moved to the bucket.
    pub(super) from: u64,
    pub(super) offset_bytes: u64,
    pub(super) checksum: u64,
    pub(super) thread: u32,
    pub(super) bucket: u32,
    pub(super) payload_bytes: u32,
    pub(super) items: u32,
    /// Number of runs of the input in the segment; later records list these runs.
    pub(super) runs_count: u32,
    pub(super) log: u16,
    /// 1 if the segment's only item continues in the next segment of the bucket.
    pub(super) is_continued: u16,
}

impl SegmentEntry {
    /// Adds the segment to `out`, with its runs of the input, which are the first of `runs`.
    fn restore(&self, out: &mut Out, runs: &mut &[InputRun]) {
        let (own, others) = runs.split_at(runs.len().min(self.runs_count as usize));
        *runs = others;
        let location = Location::Scratch {
            address: ScratchAddress {
                log: self.log,
                len_bytes: block_ceil(self.payload_bytes.into()) as u32,
                offset_bytes: self.offset_bytes,
            },
            checksum: self.checksum,
        };
        let number = out.push(location, self.payload_bytes as usize, self.items.into());
        let segment = &mut out.segments[number];
        segment.input_runs = own.into();
        segment.is_continued = self.is_continued != 0;
    }
}

/// A part of a bucket that was distributed again, as stored in a record. The records before it list
/// its segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SplitPart {
    /// The bucket of the first distribution.
    pub(super) bucket: usize,
    pub(super) segments_count: usize,
    pub(super) counts: Counts,
    pub(super) depth: usize,
    pub(super) is_equal: bool,
    pub(super) copies_of: Option<Box<[u8]>>,
    pub(super) kind: [u64; KIND_WORDS],
    /// Whether this is the last part of the bucket.
    pub(super) is_last: bool,
}

/// Words of a record for the data of one kind of job in a bucket.
pub(crate) const KIND_WORDS: usize = 3;

/// Data of one kind of job that the journal can keep with a part of a bucket.
pub(crate) trait KeptKind: Sized {
    /// The data as words of a record.
    fn to_words(&self) -> [u64; KIND_WORDS];
    /// The data from the words of a record.
    fn of_words(words: [u64; KIND_WORDS]) -> Self;
}

impl KeptKind for () {
    fn to_words(&self) -> [u64; KIND_WORDS] {
        [0; KIND_WORDS]
    }

    fn of_words(_: [u64; KIND_WORDS]) -> Self {}
}

/// The parts of a bucket that a journal has, in order.
type SplitParts = Vec<(SplitPart, Vouched)>;

/// One thread of the dead job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequence {
    /// The blocks that the thread distributed, in the order in which it did so. An entry is the
    /// position of a block, the chunk of a region, or the position after a stretch of rows.
    pub(crate) blocks: Vec<u64>,
    /// For each bucket, the ranks of the items that are on scratch.
    covered: HashMap<u32, Ranges>,
}

/// Parts of rows that a sink has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartsWritten {
    pub(crate) parts: usize,
    /// The number of sorted rows in these parts, and the number of their bytes.
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// A record of parts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PartsRecord {
    /// The number of parts in the record that this record continues.
    pub(super) follows: usize,
    pub(super) written: PartsWritten,
}

/// The parts that were written at a checkpoint, and the sink's description of the parts since the
/// previous one.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartsKept {
    pub(crate) written: PartsWritten,
    pub(crate) state: Vec<u8>,
}

/// The content of a journal.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) identity: Identity,
    pub(crate) settled: Settled,
    pub(crate) end: JournalEnd,
    pub(crate) sequences: Vec<Sequence>,
    vouched: Mutex<Vouched>,
    /// The parts of buckets that were distributed again.
    splits: Mutex<HashMap<usize, SplitParts>>,
    /// The items of each bucket, if the distribution had ended.
    totals: Option<Totals>,
    /// The output, if it was finished.
    pub(super) finished: Option<Finished>,
    /// Bytes of the output that are in its unfinished file.
    pub(super) ranges: Ranges,
    /// Edge blocks of the output that are not in that file.
    pub(super) edges: Vec<EdgeBlock>,
    /// The pieces that were written to that file, and the length of its header.
    pieces: Vec<WrittenPiece>,
    header_bytes: u64,
    /// Parts of rows that are in the output, per checkpoint.
    pub(crate) parts: Vec<PartsKept>,
}

/// The segments that a journal vouches for.
#[derive(Debug, Default)]
struct Vouched {
    segments: Vec<SegmentEntry>,
    /// The runs of the input in these segments, one after another.
    runs: Vec<InputRun>,
}

/// The lost items of a thread's blocks: which items of the repeated pass are moved.
pub(crate) struct Rest<'a> {
    covered: Vec<Option<&'a [Range<u64>]>>,
    ranks: Vec<u64>,
    /// Buckets that need no item.
    is_done: &'a [bool],
}

impl Rest<'_> {
    /// Whether the next item of a bucket is lost and needed.
    #[inline]
    pub(crate) fn takes(&mut self, bucket: u16) -> bool {
        let bucket = usize::from(bucket);
        if self.is_done[bucket] {
            return false;
        }
        let rank = self.ranks[bucket];
        self.ranks[bucket] += 1;
        let Some(covered) = &mut self.covered[bucket] else {
            return true;
        };
        while let [first, rest @ ..] = *covered
            && first.end <= rank
        {
            *covered = rest;
        }
        covered.first().is_none_or(|first| rank < first.start)
    }
}

impl Restored {
    /// Reads a journal; `None` if it vouches for nothing.
    ///
    /// # Errors
    /// The system's error; a journal that is not one of a distribution.
    pub(crate) fn read(dir: &PrivateDir) -> Result<Option<Self>> {
        let mut reading = Reading::default();
        let end = journal::read(dir, |record| reading.take(&record))?;
        if reading.reads_in_passes {
            let difference = "it read its data in passes, and this one divides them";
            return Err(another_job(dir.path().to_path_buf(), difference));
        }
        let Some((end, (identity, settled))) = end.zip(reading.identity.zip(reading.settled))
        else {
            return Ok(None);
        };
        Ok(Some(Restored {
            identity,
            settled,
            end,
            sequences: reading.sequences,
            vouched: Mutex::new(reading.vouched),
            splits: Mutex::new(reading.splits),
            totals: reading.totals,
            finished: reading.finished,
            ranges: reading.ranges,
            edges: reading.edges,
            pieces: reading.pieces,
            header_bytes: reading.header_bytes,
            parts: reading.parts,
        }))
    }

    /// The blocks that any thread had begun.
    pub(crate) fn begun(&self) -> Vec<u64> {
        let sequences = self.sequences.iter();
        sequences.flat_map(|s| &s.blocks).copied().collect()
    }

    /// The number of threads that had begun any block.
    pub(crate) fn threads_begun(&self) -> usize {
        let sequences = self.sequences.iter();
        sequences.filter(|s| !s.blocks.is_empty()).count()
    }

    /// The parts of rows that are in the output.
    pub(crate) fn parts_written(&self) -> PartsWritten {
        self.parts
            .last()
            .map_or_else(PartsWritten::default, |kept| kept.written)
    }

    /// Whether the output of each bucket has been written. A bucket without bytes counts as not
    /// written, because a table may hold all of its lines.
    fn are_written(&self) -> Vec<bool> {
        let mut written = vec![false; self.settled.division.bucket_count];
        let Some(Totals { buckets, .. }) = &self.totals else {
            return written;
        };
        let mut at_bytes = 0;
        let mut look = |(written, counts): (&mut bool, &Counts)| {
            let range = at_bytes..at_bytes + counts.bytes;
            at_bytes = range.end;
            let is_in_parts = range.end <= self.parts_written().bytes;
            *written = !range.is_empty() && (is_in_parts || self.ranges.covers(&range));
        };
        let pairs = written.iter_mut().zip(buckets);
        match self.settled.division.is_reversed {
            true => pairs.rev().for_each(&mut look),
            false => pairs.for_each(&mut look),
        }
        written
    }

    /// The rest of the job. `is_counted` tells for each bucket whether its items are only counted;
    /// `is_read_again` tells whether the input is read in any case.
    pub(crate) fn left(&self, is_counted: impl Fn(usize) -> bool, is_read_again: bool) -> Left {
        let written = self.are_written();
        let vouched = |bucket: usize| -> u64 {
            let sequences = self.sequences.iter();
            let covered = sequences.filter_map(|sequence| sequence.covered.get(&(bucket as u32)));
            covered.map(Ranges::total).sum()
        };
        let splits = self.lock_splits();
        let is_done = |bucket: usize| match &self.totals {
            Some(totals) => {
                let items = totals.buckets[bucket].items;
                let is_kept = written[bucket] || splits.contains_key(&bucket);
                is_kept || is_counted(bucket) || vouched(bucket) == items
            }
            None => false,
        };
        let needs_none: Vec<bool> = (0..written.len()).map(is_done).collect();
        Left {
            totals: self.totals.clone(),
            written,
            needs_input: is_read_again || needs_none.contains(&false),
            needs_none,
        }
    }

    fn lock_splits(&self) -> MutexGuard<'_, HashMap<usize, SplitParts>> {
        self.splits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parts of a bucket that was distributed again, unless it is in the output. Their memory
    /// moves: a second call returns none.
    pub(crate) fn split_of<K: KeptKind>(
        &self,
        bucket: usize,
        left: &Left,
    ) -> Option<Vec<Bucket<K>>> {
        let parts = self.lock_splits().remove(&bucket)?;
        if left.written[bucket] {
            return None;
        }
        let part = |(part, vouched): (SplitPart, Vouched)| {
            let mut out = Out::default();
            let mut runs = &vouched.runs[..];
            for entry in &vouched.segments {
                entry.restore(&mut out, &mut runs);
            }
            Bucket {
                segments: out.segments,
                counts: part.counts,
                depth: part.depth,
                is_equal: part.is_equal,
                copies_of: part.copies_of,
                kind: K::of_words(part.kind),
            }
        };
        Some(parts.into_iter().map(part).collect())
    }

    /// The pieces of the unfinished output that its ranges need, in the order of the file.
    pub(super) fn needed_pieces(&self) -> Vec<WrittenPiece> {
        let is_needed = |piece: &&WrittenPiece| {
            let in_file = piece.at_bytes..piece.at_bytes + piece.len_bytes;
            self.ranges.inside(&self.in_output(&in_file)) > 0
        };
        let mut pieces: Vec<WrittenPiece> = self.pieces.iter().filter(is_needed).copied().collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    }

    /// Keeps the bytes of the output that are in an edge block or in `whole`, which has ranges of
    /// its unfinished file. Returns the number of the other bytes, which are written again.
    pub(super) fn keep_whole(&mut self, whole: &Ranges) -> u64 {
        let block_bytes = BLOCK_BYTES as u64;
        let edges = self.edges.iter().map(|edge| edge.number * block_bytes);
        let edges = edges.map(|at_bytes| at_bytes..at_bytes + block_bytes);
        let mut known = Ranges::default();
        for range in whole.list().iter().cloned().chain(edges) {
            known.add(self.in_output(&range));
        }
        let before_bytes = self.ranges.total();
        self.ranges = self.ranges.common(&known);
        before_bytes - self.ranges.total()
    }

    /// The part of the output that a range of its file holds.
    fn in_output(&self, in_file: &Range<u64>) -> Range<u64> {
        let place = |at_bytes: u64| at_bytes.saturating_sub(self.header_bytes);
        place(in_file.start)..place(in_file.end)
    }

    /// The end of each log, after the last segment that is still needed.
    pub(crate) fn log_ends(&self) -> Vec<u64> {
        let written = self.are_written();
        let mut ends = vec![0; self.settled.scratch_names.len() * self.settled.bands];
        let vouched = self.vouched.lock().unwrap_or_else(PoisonError::into_inner);
        let splits = self.lock_splits();
        let whole = vouched.segments.iter();
        let whole = whole.filter(|entry| !splits.contains_key(&(entry.bucket as usize)));
        let parts = splits.values().flatten();
        for entry in whole.chain(parts.flat_map(|(_, vouched)| &vouched.segments)) {
            let end_bytes = entry.offset_bytes + block_ceil(entry.payload_bytes.into());
            match ends.get_mut(entry.log as usize) {
                Some(end) if !written[entry.bucket as usize] => *end = end_bytes.max(*end),
                _ => {}
            }
        }
        ends
    }

    /// The segments on scratch that are still needed, per bucket. Their memory moves: a second call
    /// returns none.
    pub(crate) fn outs(&self, left: &Left) -> Vec<Out> {
        let mut outs: Vec<Out> = left.written.iter().map(|_| Out::default()).collect();
        let mut vouched = self.vouched.lock().unwrap_or_else(PoisonError::into_inner);
        let Vouched { segments, runs } = std::mem::take(&mut *vouched);
        let mut runs = &runs[..];
        let splits = self.lock_splits();
        let mut none = Out::default();
        for entry in &segments {
            let bucket = entry.bucket as usize;
            match left.written[bucket] || splits.contains_key(&bucket) {
                true => entry.restore(&mut none, &mut runs),
                false => entry.restore(&mut outs[bucket], &mut runs),
            }
            none.segments.clear();
        }
        outs
    }

    /// The filter for the blocks that a thread distributed.
    pub(crate) fn rest<'a>(&'a self, thread: usize, left: &'a Left) -> Rest<'a> {
        let covered = |bucket| self.sequences[thread].covered.get(&bucket);
        let buckets = 0..left.needs_none.len() as u32;
        Rest {
            covered: buckets
                .map(|bucket| covered(bucket).map(Ranges::list))
                .collect(),
            ranks: vec![0; left.needs_none.len()],
            is_done: &left.needs_none,
        }
    }
}

/// A job that continues a dead one.
#[derive(Debug)]
pub(crate) struct Continued {
    pub(crate) restored: Restored,
    pub(crate) left: Left,
}

/// The rest of a job that is resumed.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    /// The items of each bucket, if they are known.
    pub(crate) totals: Option<Totals>,
    /// Buckets that are in the output.
    pub(crate) written: Vec<bool>,
    /// Buckets that need nothing from the input.
    needs_none: Vec<bool>,
    /// Whether the input is read again.
    pub(crate) needs_input: bool,
}

/// A journal that is being read.
#[derive(Default)]
struct Reading {
    identity: Option<Identity>,
    settled: Option<Settled>,
    sequences: Vec<Sequence>,
    /// The ranks for which the journal vouched when the run that wrote the current records began.
    before: Vec<HashMap<u32, Ranges>>,
    vouched: Vouched,
    /// The parts of complete buckets, the parts of a bucket that is not complete yet, and the
    /// segments of the next part.
    splits: HashMap<usize, SplitParts>,
    split: SplitParts,
    split_vouched: Vouched,
    totals: Option<Totals>,
    finished: Option<Finished>,
    ranges: Ranges,
    edges: Vec<EdgeBlock>,
    pieces: Vec<WrittenPiece>,
    header_bytes: u64,
    parts: Vec<PartsKept>,
    part_state: Vec<u8>,
    /// Whether the journal is that of a job in passes.
    reads_in_passes: bool,
}

/// The words in a payload.
fn words(payload: &[u8]) -> impl Iterator<Item = u64> {
    payload.chunks_exact(8).map(bytemuck::pod_read_unaligned)
}

fn foreign() -> Error {
    Error::corrupt("read journal", "a record does not fit the others").hint(GIVE_UP)
}

impl Reading {
    fn take(&mut self, record: &Record) -> Result<()> {
        let payload = &record.payload[..];
        match record.kind {
            IDENTITY => self.identity = Some(record.value()?),
            SETTLED => {
                let settled: Settled = record.value()?;
                self.sequences = vec![Sequence::default(); settled.size.threads];
                self.before = vec![HashMap::new(); settled.size.threads];
                self.settled = Some(settled);
            }
            RESUMED => {
                let covered = self
                    .sequences
                    .iter()
                    .map(|sequence| sequence.covered.clone());
                self.before = covered.collect();
                // The parts of a bucket that a run was recording are recorded again.
                self.split.clear();
                self.split_vouched = Vouched::default();
            }
            BLOCKS => {
                let mut words = words(payload);
                let thread = words.next().ok_or_else(foreign)? as usize;
                let sequence = self.sequences.get_mut(thread).ok_or_else(foreign)?;
                sequence.blocks.extend(words);
            }
            SEGMENTS => {
                for entry in payload.chunks_exact(size_of::<SegmentEntry>()) {
                    self.add(bytemuck::pod_read_unaligned(entry))?;
                }
            }
            RUNS => {
                let runs = payload.chunks_exact(size_of::<InputRun>());
                self.vouched
                    .runs
                    .extend(runs.map(bytemuck::pod_read_unaligned::<InputRun>));
            }
            SPLIT_SEGMENTS => {
                let entries = payload.chunks_exact(size_of::<SegmentEntry>());
                let entries = entries.map(bytemuck::pod_read_unaligned::<SegmentEntry>);
                self.split_vouched.segments.extend(entries);
            }
            SPLIT_RUNS => {
                let runs = payload.chunks_exact(size_of::<InputRun>());
                let runs = runs.map(bytemuck::pod_read_unaligned::<InputRun>);
                self.split_vouched.runs.extend(runs);
            }
            SPLIT_PART => self.add_part(record.value()?)?,
            TOTALS => {
                let totals: Totals = record.value()?;
                let settled = self.settled.as_ref().ok_or_else(foreign)?;
                if totals.buckets.len() != settled.division.bucket_count {
                    return Err(foreign());
                }
                self.totals = Some(totals);
            }
            FINISHED => self.finished = Some(record.value()?),
            KEPT => {
                self.ranges = Ranges::default();
                self.edges.clear();
            }
            RANGES => {
                let words: Vec<u64> = words(payload).collect();
                words
                    .chunks_exact(2)
                    .for_each(|pair| self.ranges.add(pair[0]..pair[1]));
                // The edge blocks of a checkpoint replace those of the previous checkpoint.
                self.edges.clear();
            }
            PIECES => {
                let (header, pieces) = payload.split_at_checked(8).ok_or_else(foreign)?;
                self.header_bytes = bytemuck::pod_read_unaligned(header);
                let pieces = pieces.chunks_exact(size_of::<WrittenPiece>());
                self.pieces
                    .extend(pieces.map(bytemuck::pod_read_unaligned::<WrittenPiece>));
            }
            EDGES => {
                for edge in payload.chunks_exact(EDGE_BYTES) {
                    let mut head = words(&edge[..16]);
                    let (file, number) = (head.next(), head.next());
                    let (file, number) = file.zip(number).ok_or_else(foreign)?;
                    let bytes: [u8; BLOCK_BYTES] = edge[16..].try_into().map_err(|_| foreign())?;
                    self.edges.push(EdgeBlock {
                        file: file as usize,
                        number,
                        bytes: Box::new(bytes),
                    });
                }
            }
            PART_STATE => self.part_state.extend_from_slice(payload),
            ROW_PARTS => {
                let PartsRecord { follows, written } = record.value()?;
                // A run may have lost parts that were recorded after these.
                self.parts.retain(|kept| kept.written.parts <= follows);
                let state = std::mem::take(&mut self.part_state);
                self.parts.push(PartsKept { written, state });
            }
            STATE => self.reads_in_passes = true,
            _ => return Err(foreign()),
        }
        Ok(())
    }

    fn add_part(&mut self, part: SplitPart) -> Result<()> {
        let vouched = std::mem::take(&mut self.split_vouched);
        let settled = self.settled.as_ref().ok_or_else(foreign)?;
        let is_own = |entry: &SegmentEntry| entry.bucket as usize == part.bucket;
        let is_whole = vouched.segments.len() == part.segments_count
            && vouched.segments.iter().all(is_own)
            && part.bucket < settled.division.bucket_count;
        if !is_whole {
            return Err(foreign());
        }
        let (bucket, is_last) = (part.bucket, part.is_last);
        self.split.push((part, vouched));
        if is_last {
            self.splits.insert(bucket, std::mem::take(&mut self.split));
        }
        Ok(())
    }

    fn add(&mut self, entry: SegmentEntry) -> Result<()> {
        let settled = self.settled.as_ref().ok_or_else(foreign)?;
        let thread = entry.thread as usize;
        let is_known = (entry.bucket as usize) < settled.division.bucket_count;
        let sequence = self
            .sequences
            .get_mut(thread)
            .filter(|_| is_known)
            .ok_or_else(foreign)?;
        let places = entry.from..entry.from + u64::from(entry.items);
        let none = Ranges::default();
        let before = self.before[thread].get(&entry.bucket).unwrap_or(&none);
        let covered = sequence.covered.entry(entry.bucket).or_default();
        before
            .outside(places)
            .into_iter()
            .for_each(|range| covered.add(range));
        self.vouched.segments.push(entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_unless_their_ranks_are_covered() {
        let mut ranges = Ranges::default();
        ranges.add(1..3);
        ranges.add(4..5);
        let done = [false, true, false];
        let mut rest = Rest {
            covered: vec![Some(ranges.list()), None, None],
            ranks: vec![0; 3],
            is_done: &done,
        };
        let taken: Vec<bool> = (0..7).map(|_| rest.takes(0)).collect();
        assert_eq!(taken, [true, false, false, true, false, true, true]);
        assert!(!rest.takes(1) && rest.takes(2));
    }
}
