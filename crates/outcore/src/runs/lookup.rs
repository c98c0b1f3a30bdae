//! The ranks of many keys in a view, or in a file of sorted lines.
//!
//! Contract: the rank of a key is the number of records whose keys come before it in the order of
//! the view, or, from the right, do not come after it. Ranks are returned in the order of the keys.
//!
//! A file of sorted lines is searched as a view of one run, whose index is made by one read of the
//! file ([`SortedView::of_sorted_lines`]). That read also checks that the lines ascend.
//!
//! Bounds: per key, at most one block of each run is read (two if keys are longer than the prefixes
//! of the index). Keys that are searched at the same time share the read of a block. As many reads
//! are in flight as there are slots. Memory: the slots, and 40 bytes per key. Keys that are
//! searched at the same time take another 240 bytes per key, and 112 bytes per key and run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::SortedView;
use super::fetch::{Fetcher, PIECES, slot_bytes};
use super::index::{Index, Indexer};
use super::run_set::{Run, RunSet};
use super::select::{Cut, Selector};
use super::shape::{Shape, block_units};
use super::types::{LineType, ViewOrder, ViewType};
use crate::ends::{Phase, Phases};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::read::source::{Blocks, InputPart};
use outcore_io::drive::Access;
use outcore_io::memory::Pool;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::{Error, Kind, Result, units};

const LOOKUP: &str = "look up keys";
/// The name of the phase.
const PHASE: &str = "look up";
/// Memory of a key in addition to its searches: its bytes, its prefix, its rank.
const KEY_BYTES: u64 = 240;
/// Memory per key for the whole lookup: the key's place, its rank twice, and the place of its bytes
/// for a thread.
const RANK_BYTES: u64 = 40;
/// Memory of the search of a key in a run.
const SEARCH_BYTES: u64 = 112;
/// Largest number of blocks in flight per thread.
const WINDOW_MAX: u64 = 64;
/// Smallest number of keys per thread.
const KEYS_MIN: usize = 64;
/// Bytes of a read of sorted lines, and reads in flight.
const READ_BYTES_MIN: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;
const READS: usize = 8;
const WINDOW_BYTES_MAX: u64 = 64 << 20;

impl SortedView {
    /// The ranks of `keys`: whole records of which only the keys count, or lines without
    /// terminators. With `counts_equal`, records with equal keys also count.
    ///
    /// # Errors
    /// [`Kind::Usage`] for an invalid key, [`Kind::Memory`] if not even some keys fit; the errors
    /// of reading.
    pub fn lookup(&self, keys: &[&[u8]], counts_equal: bool) -> Result<(Vec<u64>, Phase)> {
        let rank =
            |cuts: &[Cut], ranks: &mut [u64]| ranks[0] = cuts.iter().map(|cut| cut.rank).sum();
        self.search(keys, counts_equal, 1, rank)
    }

    /// For each of `keys`, the `width` numbers that `tell` computes from the key's cuts in all
    /// runs.
    pub(super) fn search(
        &self,
        keys: &[&[u8]],
        counts_equal: bool,
        width: usize,
        tell: impl Fn(&[Cut], &mut [u64]) + Sync,
    ) -> Result<(Vec<u64>, Phase)> {
        let mut phases = Phases::start_on(&self.set.volume);
        let shape = &self.set.shape;
        keys.iter().try_for_each(|key| shape.check_key(key))?;
        let told_bytes = RANK_BYTES + (width as u64 - 1) * 2 * size_of::<u64>() as u64;
        let _held = self
            .job
            .budget
            .reserve("keys and their ranks", keys.len() as u64 * told_bytes)?;
        let mut places: Vec<u32> = (0..keys.len() as u32).collect();
        places.sort_unstable_by(|a, b| shape.compare_keys(keys[*a as usize], keys[*b as usize]));
        let runs = self.set.runs.len();
        let each_bytes = KEY_BYTES + runs as u64 * SEARCH_BYTES;
        let group = ThreadGroup::new(&self.job, (keys.len() / KEYS_MIN) as u64);
        let share_bytes = self.reader_bytes(group.threads());
        let slot_bytes = slot_bytes(&self.set, 1);
        let slots = (share_bytes / 2 / slot_bytes as u64).clamp(1, WINDOW_MAX) as usize;
        let left_bytes = share_bytes.saturating_sub((slots * slot_bytes) as u64);
        // Half of the rest is for blocks that exceed a slot.
        let at_once = (left_bytes / 2 / each_bytes) as usize;
        if at_once == 0 {
            let cause = format!("{share_bytes} bytes are left for each thread");
            return Err(Error::new(Kind::Memory, LOOKUP, cause)
                .hint("allow more with --memory, or use fewer --threads"));
        }
        // Adjacent keys share blocks, so each thread takes stretches of consecutive keys.
        let stretch = keys.len().div_ceil(group.threads() * 4).clamp(1, at_once);
        self.job.control.begin_phase(PHASE, keys.len() as u64);
        let stretches = Mutex::new(places.chunks(stretch));
        let found = group.run_for_all(|_| {
            let held_bytes = stretch as u64 * each_bytes;
            let _held = self.job.budget.reserve(LOOKUP, held_bytes)?;
            let pool = Pool::new(&self.job.budget, PIECES, slot_bytes, slots)?;
            let mut fetcher = Fetcher::new(&self.job, Arc::clone(&self.set), pool)?;
            let mut found = Vec::new();
            loop {
                group.check()?;
                let next = stretches
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .next();
                let Some(places) = next else {
                    return Ok(found);
                };
                let here: Vec<&[u8]> = places.iter().map(|at| keys[*at as usize]).collect();
                let mut selector = Selector::new(&self.set, &mut fetcher)?;
                let cuts = selector.cuts_at_keys(&here, counts_equal)?;
                let mut told = vec![0; places.len() * width];
                for (key, told) in told.chunks_exact_mut(width).enumerate() {
                    tell(&cuts[key * runs..(key + 1) * runs], told);
                }
                found.push((places, told));
                self.job.control.advance(places.len() as u64);
            }
        })?;
        let mut all = vec![0; keys.len() * width];
        for (places, told) in found.into_iter().flatten() {
            for (place, told) in places.iter().zip(told.chunks_exact(width)) {
                all[*place as usize * width..][..width].copy_from_slice(told);
            }
        }
        let phase = phases.end(PHASE, &self.set.volume).clone();
        let blocks = (keys.len() as u64 * runs as u64).min(
            self.set
                .runs
                .iter()
                .map(|run| shape.blocks_of(run.units))
                .sum(),
        );
        let bytes = blocks * slot_bytes as u64;
        let read_bytes = Forecast::AtMost(bytes);
        let amounts = Amounts::of_files(read_bytes, Forecast::NOTHING, blocks as f64);
        let plan = PhasePlan::new(PHASE, amounts, &self.layout());
        Ok((
            all,
            Phase {
                predicted: Some(plan),
                ..phase
            },
        ))
    }

    /// The ascending lines of the file `path` as a view of one run; nothing is written. Reads the
    /// file once.
    ///
    /// # Errors
    /// [`Kind::Usage`] for lines that do not ascend, [`Kind::Memory`] if the index does not fit (88
    /// bytes per block of at least 16 KiB) or a line is longer than an eighth of the memory; the
    /// errors of reading.
    pub fn of_sorted_lines(job: &Job, path: &Path, lines: &LineType) -> Result<Self> {
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let file = volume.open(path, Access::Read)?;
        let len_bytes = file.facts.len_bytes;
        let what = ViewType::from(lines.clone());
        let units = block_units(1, len_bytes);
        let shape = Shape::new(&what, ViewOrder::default(), units, 0);
        let blocks = shape.blocks_of(len_bytes);
        let held = job
            .budget
            .reserve("the index of the lines", shape.index_bytes(blocks))?;
        let mut set = RunSet {
            volume: Arc::new(volume),
            shape,
            runs: Vec::new(),
        };
        let index = index_lines(job, &set, &file, len_bytes, lines.terminator)?;
        set.runs.push(Run {
            number: 0,
            base_bytes: 0,
            units: len_bytes,
            records: index.lines,
            longest_block_bytes: index.longest_bytes(len_bytes) as usize,
            index: Arc::new(index),
            resident: None,
            file,
        });
        Ok(SortedView {
            set: Arc::new(set),
            job: job.clone(),
            dir: path.to_path_buf(),
            index: Arc::new(held),
        })
    }
}

/// The index of a file of lines.
fn index_lines(
    job: &Job,
    set: &RunSet,
    file: &VolumeFile,
    len_bytes: u64,
    terminator: u8,
) -> Result<Index> {
    job.control.begin_phase("index lines", len_bytes);
    // Early results are kept, so this many bytes may be read before the next ones are requested.
    let free_bytes = job.budget.free_bytes();
    let read_bytes = 1
        << (free_bytes / 32)
            .clamp(READ_BYTES_MIN, READ_BYTES_MAX)
            .ilog2();
    let window_bytes = (free_bytes / 8)
        .min(WINDOW_BYTES_MAX)
        .next_multiple_of(read_bytes);
    let line_bytes = (free_bytes / 8).max(READ_BYTES_MIN);
    // Two lines for the comparison are also in memory.
    let kept_bytes = window_bytes + 2 * line_bytes;
    let _kept = job.budget.reserve("lines", kept_bytes)?;
    let pool = Pool::new(&job.budget, "lines", read_bytes as usize, READS)?;
    let mut indexer = Indexer::new(&set.shape, 0);
    let mut order = LineOrder {
        shape: &set.shape,
        terminator,
        len_max_bytes: line_bytes as usize,
        count: 0,
        last: Vec::new(),
        begun: Vec::new(),
    };
    let mut at_bytes = 0;
    let mut add = |bytes: &[u8]| {
        indexer.add(bytes);
        order.add(bytes)?;
        job.control.advance(bytes.len() as u64);
        Ok(bytes.len() as u64)
    };
    let located = |error: Error| error.path(&file.path);
    while at_bytes < len_bytes {
        let part = InputPart {
            file: file.clone(),
            data_at_bytes: at_bytes,
            data_len_bytes: window_bytes.min(len_bytes - at_bytes),
            first_position: at_bytes,
        };
        let blocks = Blocks::new(vec![part], 1, read_bytes as usize);
        let mut early: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let check = || job.control.check();
        blocks.read_each(&set.volume, &pool, check, |block, bytes| {
            if block.position != at_bytes {
                early.insert(block.position, bytes.to_vec());
                return Ok(());
            }
            at_bytes += add(bytes).map_err(located)?;
            while let Some(bytes) = early.remove(&at_bytes) {
                at_bytes += add(&bytes).map_err(located)?;
            }
            Ok(())
        })?;
    }
    set.volume.check_unchanged(file, false)?;
    let mut index = indexer.finish();
    // An unterminated last line is also a line.
    index.lines += u64::from(order.finish().map_err(located)?);
    Ok(index)
}

/// Appends bytes to a line, whose memory is at most that of the longest line, or of these bytes.
fn append_within(line: &mut Vec<u8>, bytes: &[u8], len_max_bytes: usize) {
    let len_bytes = line.len() + bytes.len();
    if len_bytes > line.capacity() {
        let wanted_bytes = (2 * line.capacity()).min(len_max_bytes).max(len_bytes);
        line.reserve_exact(wanted_bytes - line.len());
    }
    line.extend_from_slice(bytes);
}

/// Checks that lines ascend. The lines arrive in pieces that begin and end anywhere.
struct LineOrder<'s> {
    shape: &'s Shape,
    terminator: u8,
    /// Largest length of a line that spans several calls.
    len_max_bytes: usize,
    /// Number of finished lines.
    count: u64,
    /// The last finished line.
    last: Vec<u8>,
    /// The beginning of the next line.
    begun: Vec<u8>,
}

impl LineOrder<'_> {
    /// Takes the next bytes.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        let mut last = None;
        while let Some(end) = memchr::memchr(self.terminator, rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if self.begun.is_empty() {
                self.check(last.unwrap_or(&self.last), line)?;
                last = Some(line);
            } else {
                self.begin(line)?;
                self.check(&self.last, &self.begun)?;
                std::mem::swap(&mut self.last, &mut self.begun);
                self.begun.clear();
            }
            self.count += 1;
        }
        if let Some(line) = last {
            self.last.clear();
            append_within(&mut self.last, line, self.len_max_bytes);
        }
        self.begin(rest)
    }

    /// Keeps bytes of an unfinished line.
    fn begin(&mut self, bytes: &[u8]) -> Result<()> {
        if self.begun.len() + bytes.len() > self.len_max_bytes {
            let cause = format!(
                "line {} has more than {}",
                self.count + 1,
                units::bytes(self.len_max_bytes as u64)
            );
            return Err(Error::new(Kind::Memory, LOOKUP, cause)
                .hint("allow more with --memory, or leave out the long line"));
        }
        append_within(&mut self.begun, bytes, self.len_max_bytes);
        Ok(())
    }

    /// Whether a line may follow the last one.
    fn check(&self, last: &[u8], line: &[u8]) -> Result<()> {
        if self.count == 0 || self.shape.compare_keys(last, line).is_le() {
            return Ok(());
        }
        let cause = format!(
            "the lines are not in ascending order: line {} belongs before the one above it",
            self.count + 1
        );
        Err(Error::usage(LOOKUP, cause)
            .hint("sort the file first, in the order of bytes: `outcore sort` or `LC_ALL=C sort`"))
    }

    /// Whether there is an unterminated last line.
    fn finish(self) -> Result<bool> {
        let is_there = !self.begun.is_empty();
        if is_there {
            self.check(&self.last, &self.begun)?;
        }
        Ok(is_there)
    }
}
