//! Sorted views: a sorted file whose last merge happens while it is read.
//!
//! Model: ActiveSort (Lee et al., "Accelerating External Sorting via On-the-fly Data Merge in Active
//! SSDs"): after the runs are formed, data that are read once move two reads and one write, where a
//! sort that writes its result moves three and two. Here the host merges; [`MergeDevice`] is where a
//! drive that computes could stand in.
//!
//! Contract: a view is a directory with a manifest and sorted runs, spread over drives, that
//! [`build`] makes and [`SortedView::open`] opens again. Whatever is read through a [`ViewReader`],
//! in any order, equals the file that [`crate::algo::sort::sort`] would have written, byte for byte.
//! Every block is checked against its checksum before it is merged: a run that is gone, too short or
//! rotten is an error that names run, drive and offset, never wrong data.
//!
//! Bounds: memory of the job; the index takes 24 bytes a block of 16 KiB to 1 MiB, a reader at least
//! two blocks a run. A seek reads one block of each run, and now and then a second one.

mod build;
mod copy;
mod device;
mod fetch;
mod level;
mod manifest;
mod output;
mod plan;
mod reader;
mod runs;
mod select;
mod sort_run;
mod verify;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use build::{BuildOptions, BuildSummary, append, build};
pub use device::{HostMerge, MergeDevice, MergeStream, RunPlace, RunsAbout};
pub use output::WriteSummary;
pub use plan::{ViewPlan, ViewSize, plan_view};
pub use runs::ViewOrder;
pub use verify::ViewReport;

use fetch::{Fetcher, slack_bytes};
use manifest::{Manifest, open_runs};
use reader::MergeReader;
use runs::RunSet;
use select::Selector;

use crate::data::record::RecordFormat;
use crate::error::{Error, Kind, Result};
use crate::job::{Control, Job};
use crate::memory::{Credit, Pool};
use crate::volume::Volume;

/// Slots of a reader beyond two a run, for what will be needed first.
const SPARE_SLOTS: usize = 12;
/// Pieces of runs that are longer than this read no faster.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// A sorted file that is merged while it is read. Clones share all of it.
#[derive(Clone)]
pub struct SortedView {
    set: Arc<RunSet>,
    job: Job,
    dir: PathBuf,
    index: Arc<Credit>,
}

/// What a view is.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewInfo {
    /// Its directory.
    pub dir: PathBuf,
    /// Records.
    pub records: u64,
    /// What they are.
    pub format: RecordFormat,
    /// How they are ordered.
    pub order: ViewOrder,
    /// Bytes that are read for one record, if no more are wanted.
    pub block_bytes: usize,
    /// Memory for the index.
    pub index_bytes: u64,
    /// The runs: path, name of the drive, records.
    pub runs: Vec<(PathBuf, String, u64)>,
}

impl SortedView {
    /// Opens the view in `dir`, with the means of `job`. Reads its manifest and the indexes of its
    /// runs, 24 bytes a block.
    ///
    /// # Errors
    /// [`Kind::Io`] if a run or the manifest is missing, [`Kind::Corrupt`] if one is not what was
    /// written, [`Kind::Memory`] if the index does not fit.
    pub fn open(job: &Job, dir: &Path) -> Result<Self> {
        let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
        let manifest = match Manifest::read(job, &volume, dir) {
            // A build that was killed while it published is finished by who sweeps.
            Err(error) if Manifest::is_missing(&error) => {
                // Where it may not write, there is no view all the same.
                let _ = job.device.sweep_private_dirs(dir);
                Manifest::read(job, &volume, dir)?
            }
            read => read?,
        };
        let (set, index) = open_runs(job, volume, dir, &manifest)?;
        Ok(SortedView {
            set: Arc::new(set),
            job: job.clone(),
            dir: dir.to_path_buf(),
            index: Arc::new(index),
        })
    }

    /// The same view, watched and stopped through `control`.
    #[must_use]
    pub fn watched(mut self, control: Arc<Control>) -> Self {
        self.job.control = control;
        self
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.set.records()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of a record.
    pub fn record_bytes(&self) -> usize {
        self.set.shape.record_bytes
    }

    /// Size of the sorted file.
    pub fn len_bytes(&self) -> u64 {
        self.len() * self.record_bytes() as u64
    }

    /// What the records are.
    pub fn format(&self) -> &RecordFormat {
        &self.set.shape.format
    }

    /// The job whose means it uses.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Bytes read from and written to all drives through this view so far.
    pub fn traffic_bytes(&self) -> (u64, u64) {
        self.set.volume.traffic_bytes()
    }

    /// What it is.
    pub fn info(&self) -> ViewInfo {
        let shape = &self.set.shape;
        let drives = self.set.volume.drives();
        let runs = self.set.runs.iter().map(|run| {
            let drive = drives.get(run.file.drive_index);
            let drive = drive.map_or_else(String::new, |drive| drive.name.clone());
            (run.file.path.to_path_buf(), drive, run.records)
        });
        ViewInfo {
            dir: self.dir.clone(),
            records: self.len(),
            format: shape.format.clone(),
            order: shape.view_order,
            block_bytes: shape.block_bytes(),
            index_bytes: self.index.bytes(),
            runs: runs.collect(),
        }
    }

    /// Memory for each of `readers` readers, so that all fit what the job has left.
    pub fn reader_bytes(&self, readers: usize) -> u64 {
        let budget = &self.job.budget;
        let left_bytes = budget.limit_bytes().saturating_sub(budget.used_bytes());
        left_bytes / 16 * 15 / readers.max(1) as u64
    }

    /// A reader for the calling thread, with at most `memory_bytes` of buffers (see
    /// [`SortedView::reader_bytes`]).
    ///
    /// # Errors
    /// [`Kind::Memory`] if two blocks of each run do not fit.
    pub fn reader(&self, memory_bytes: u64) -> Result<ViewReader> {
        ViewReader::new(&self.job, Arc::clone(&self.set), memory_bytes)
    }

    /// The least memory of a reader.
    fn needed_bytes(&self) -> u64 {
        needed_bytes(&self.set)
    }

    /// Of `readers` readers side by side, those that fit the memory: at least one.
    pub fn readers_that_fit(&self, readers: usize) -> usize {
        self.readers_beside(readers, 0)
    }

    /// The same, where each takes so much besides.
    fn readers_beside(&self, readers: usize, each_bytes: u64) -> usize {
        let needed_bytes = needed_bytes(&self.set) + each_bytes;
        let fit = self.reader_bytes(1) / needed_bytes.max(1);
        usize::try_from(fit)
            .unwrap_or(readers)
            .clamp(1, readers.max(1))
    }

    /// Ranges of equal length, one after another, that `parts` threads or processes can read side by
    /// side.
    pub fn split(&self, parts: u64) -> Vec<Range<u64>> {
        let records = u128::from(self.len());
        let border = |part: u64| (records * u128::from(part) / u128::from(parts.max(1))) as u64;
        (0..parts.max(1))
            .map(|part| border(part)..border(part + 1))
            .collect()
    }
}

/// One thread's reader of a view.
pub struct ViewReader {
    set: Arc<RunSet>,
    fetcher: Fetcher,
    merge: MergeReader,
    /// Rank of the record that the merge gives next, if it has been started.
    next: Option<u64>,
    /// End of the range that was sought.
    end: u64,
    /// Records read since the last seek.
    since_seek: u64,
    /// A record of which a part was asked for, and its rank.
    part: Vec<u8>,
    part_rank: Option<u64>,
}

/// The least memory of a reader.
fn needed_bytes(set: &RunSet) -> u64 {
    let slot_bytes = set.shape.block_bytes() + slack_bytes(set.shape.is_aligned());
    (slot_bytes * (2 * set.runs.len() + SPARE_SLOTS)) as u64
}

impl ViewReader {
    /// A reader of `set` with at most `memory_bytes` of buffers.
    fn new(job: &Job, set: Arc<RunSet>, memory_bytes: u64) -> Result<Self> {
        let (shape, runs) = (&set.shape, set.runs.len());
        let slots = 2 * runs + SPARE_SLOTS;
        let slack_bytes = slack_bytes(shape.is_aligned());
        let needed_bytes = needed_bytes(&set);
        if memory_bytes < needed_bytes {
            let cause = format!(
                "a reader of {runs} runs needs {needed_bytes} bytes and {memory_bytes} are there"
            );
            return Err(Error::new(Kind::Memory, "open reader", cause)
                .hint("allow more with --memory, or use fewer --threads"));
        }
        // Where nothing waits for a drive, what counts is that pieces stay in the cache.
        let is_in_memory = |run: &runs::Run| run.file.facts.is_in_memory;
        let piece_bytes_max = match set.runs.iter().all(is_in_memory) {
            true => PIECE_BYTES_MAX / 8,
            false => PIECE_BYTES_MAX,
        };
        let piece_bytes = (memory_bytes / slots as u64) as usize;
        let payload_bytes = (piece_bytes - slack_bytes).min(piece_bytes_max);
        let blocks = (payload_bytes / shape.block_bytes()).max(1);
        let slot_bytes = blocks * shape.block_bytes() + slack_bytes;
        let pool = Pool::new(&job.budget, "pieces of runs", slot_bytes, slots)?;
        let control = Arc::clone(&job.control);
        Ok(ViewReader {
            merge: MergeReader::new(&set),
            fetcher: Fetcher::new(Arc::clone(&set), control, pool)?,
            set,
            next: None,
            end: 0,
            since_seek: 0,
            part: Vec::new(),
            part_rank: None,
        })
    }

    /// Number of records of the view.
    pub fn len(&self) -> u64 {
        self.set.records()
    }

    /// Whether the view has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks read so far.
    pub fn blocks_read(&self) -> u64 {
        self.fetcher.blocks_fetched
    }

    /// Goes to a range of ranks: [`ViewReader::read`] gives its records. Of a short range single
    /// blocks are read; of a long one as much ahead as there is room for, and nothing behind its end.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a range beyond the end; what reading fails with.
    pub fn seek(&mut self, range: Range<u64>) -> Result<()> {
        let records = self.len();
        if range.start > range.end || range.end > records {
            let cause = format!(
                "records {}..{} of a view that has {records}",
                range.start, range.end
            );
            return Err(Error::usage("seek in view", cause).hint("give a range inside the view"));
        }
        let (runs, shape) = (&self.set.runs, &self.set.shape);
        let wanted = range.end - range.start;
        let is_long = wanted >= 2 * shape.block_records * runs.len() as u64;
        self.next = None;
        // Gives back the buffers of what was being merged: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let to = match is_long {
            true => selector.cut_at_rank(range.end)?,
            false => runs.iter().map(|run| run.records).collect(),
        };
        let from = selector.cut_at_rank(range.start)?;
        let given = selector.into_pieces();
        self.start((&from, &to), given, is_long)?;
        self.next = Some(range.start);
        self.end = range.end;
        Ok(())
    }

    fn start(
        &mut self,
        (from, to): (&[u64], &[u64]),
        mut given: Vec<fetch::Piece>,
        is_long: bool,
    ) -> Result<()> {
        // Blocks behind the first would be out of turn.
        let block_records = self.set.shape.block_records;
        given.retain(|piece| {
            let run = piece.stretch.run;
            piece.stretch.first_block == from[run] / block_records
        });
        self.since_seek = 0;
        self.merge
            .start(&mut self.fetcher, (from, to), given, is_long)
    }

    /// The rank of the next record.
    pub fn rank(&self) -> Option<u64> {
        self.next
    }

    /// Reads as many whole records as fit `out` and are left of the range; gives the bytes.
    ///
    /// # Errors
    /// What reading fails with; seek again after that.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(next) = self.next else {
            return Err(Error::usage("read view", "no place to read from")
                .hint("seek before reading, and after an error"));
        };
        let record_bytes = self.set.shape.record_bytes;
        let records = ((out.len() / record_bytes) as u64).min(self.end - next);
        let len_bytes = records as usize * record_bytes;
        self.next = None;
        self.merge.read(&mut self.fetcher, &mut out[..len_bytes])?;
        self.next = Some(next + records);
        self.since_seek += records;
        Ok(len_bytes)
    }

    /// The rank of the first record whose key is not before that of `record`, which is a whole
    /// record of which only the key fields count.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn seek_key(&mut self, record: &[u8]) -> Result<u64> {
        let record_bytes = self.set.shape.record_bytes;
        if record.len() != record_bytes {
            let cause = format!("{} bytes for a record of {record_bytes}", record.len());
            return Err(Error::usage("seek key", cause));
        }
        self.next = None;
        // Gives back the buffers of what was being merged: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let cut = selector.cut_at_key(record)?;
        Ok(cut.iter().sum())
    }

    /// Reads the bytes of the sorted file from `offset_bytes` on; gives how many there were, fewer
    /// than `out` holds only at the end. Reading on is cheap, anything else a seek.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn read_at(&mut self, offset_bytes: u64, out: &mut [u8]) -> Result<usize> {
        let record_bytes = self.set.shape.record_bytes;
        let total_bytes = self.len() * record_bytes as u64;
        let left_bytes = total_bytes.saturating_sub(offset_bytes);
        let wanted = (out.len() as u64).min(left_bytes) as usize;
        let mut done = 0;
        while done < wanted {
            let at_bytes = offset_bytes + done as u64;
            let rank = at_bytes / record_bytes as u64;
            let skip = (at_bytes % record_bytes as u64) as usize;
            let whole = (wanted - done) / record_bytes * record_bytes;
            if skip == 0 && whole > 0 && self.part_rank != Some(rank) {
                self.go_to(rank)?;
                done += self.read(&mut out[done..done + whole])?;
                continue;
            }
            if self.part_rank != Some(rank) {
                self.part_rank = None;
                self.go_to(rank)?;
                let mut part = std::mem::take(&mut self.part);
                part.resize(record_bytes, 0);
                let read = self.read(&mut part);
                self.part = part;
                read?;
                self.part_rank = Some(rank);
            }
            let len = (record_bytes - skip).min(wanted - done);
            out[done..done + len].copy_from_slice(&self.part[skip..skip + len]);
            done += len;
        }
        Ok(done)
    }

    /// Makes `rank` the next record: at once if it is, by a seek if not. Who reads on for a while is
    /// taken to want all.
    fn go_to(&mut self, rank: u64) -> Result<()> {
        let records = self.len();
        if self.next == Some(rank) && self.end == records {
            let shape = &self.set.shape;
            if self.since_seek >= shape.block_records * self.set.runs.len() as u64 {
                self.merge.read_on();
            }
            return Ok(());
        }
        let runs = &self.set.runs;
        self.next = None;
        // Gives back the buffers of what was being merged: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let from = selector.cut_at_rank(rank)?;
        let to: Vec<u64> = runs.iter().map(|run| run.records).collect();
        let given = selector.into_pieces();
        self.start((&from, &to), given, false)?;
        self.next = Some(rank);
        self.end = records;
        Ok(())
    }
}
