//! Sorted views: a sorted file whose last merge happens while it is read.
//!
//! Model: ActiveSort (Lee et al., "Accelerating External Sorting via On-the-fly Data Merge in
//! Active SSDs"): after the runs are formed, data that are read once take two reads and one write.
//! A sort that writes its result takes three reads and two writes. Here the host merges;
//! [`MergeDevice`] is the interface for a drive that could merge.
//!
//! Contract: a view is a directory with a manifest and sorted runs, spread over drives. [`build`]
//! makes it and [`SortedView::open`] opens it. Reads through a [`ViewReader`], in any order, return
//! exactly the bytes of the file that [`crate::sort::sort`] would have written. Every block is
//! verified against its checksum before it is merged. A missing, truncated or damaged run is an
//! error with run, drive and offset, never wrong data.
//!
//! Records have one length, or are lines, or are generated rows of any bytes ([`ViewType`]). Places
//! in runs count units: records, or bytes of lines and rows. A view of lines or rows is read by
//! bytes, and its items are found by number.
//!
//! Bounds: memory of the job. The index takes 24 bytes per block of 16 KiB to 1 MiB, 88 for lines;
//! a reader takes at least two blocks per run. A seek reads one block of each run, and occasionally
//! a second block.

mod build;
mod copy;
mod device;
mod fetch;
mod index;
mod level;
mod lookup;
mod manifest;
mod output;
mod plan;
mod planned;
mod reader;
mod rows;
mod run_set;
mod select;
mod shape;
mod size;
mod sort_lines;
mod sort_run;
mod sorting;
mod types;
mod values;
mod verify;
mod view_dir;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use build::{BuildSummary, append, append_rows, append_with, build, build_rows};
pub use device::{HostMerge, MergeDevice, MergeStream, RunLocation, RunsAbout};
pub use output::WriteSummary;
pub use plan::{ViewPlan, has_plan_of_rows, plan_view};
pub use size::{LineLengths, ViewSize, size_of_lines};
pub use types::{BuildOptions, LineOrders, LineType, RowType, ViewOrder, ViewType};
pub use verify::ViewReport;

use fetch::{Fetcher, LONG_BLOCKS, PIECES, slot_bytes};
use manifest::{Manifest, open_runs};
use reader::MergeReader;
use run_set::RunSet;
use select::{Measure, Selector};
use types::own_orders;

use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::{Control, InputPlace, Job, Layout, OutputPlaces};
use crate::key::record::RecordFormat;
use crate::sort::lines::rows::RowBatch;
use outcore_io::memory::{Pool, Reservation};
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Slots of a reader beyond two per run, for the pieces that are needed first.
const SPARE_SLOTS: usize = 12;
/// The bytes before a place inside a line are merged and discarded in parts of this size.
const SKIP_BYTES: usize = 64 << 10;
/// Longer pieces of runs read no faster.
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Shorter pieces cost drives more than they gain.
const PIECE_BYTES_MIN: usize = 128 << 10;
/// Limit on the pieces of a reader, unless they must be longer: half of them are being merged, and
/// should still be in the cache then (docs/decisions/0022).
const PIECES_BYTES_MAX: usize = 64 << 20;

/// A sorted file that is merged while it is read. Clones share everything.
#[derive(Clone)]
pub struct SortedView {
    set: Arc<RunSet>,
    job: Job,
    dir: PathBuf,
    index: Arc<Reservation>,
}

/// Facts about a view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewInfo {
    /// The directory of the view.
    pub dir: PathBuf,
    /// Number of records.
    pub records: u64,
    /// The type of the records.
    pub what: ViewType,
    /// The order of the records.
    pub order: ViewOrder,
    /// Bytes that are read for a single record.
    pub block_bytes: usize,
    /// Memory for the index.
    pub index_bytes: u64,
    /// The runs: path, name of the drive, records.
    pub runs: Vec<(PathBuf, String, u64)>,
}

impl SortedView {
    /// Opens the view in `dir`, with the resources of `job`. Reads its manifest and the indexes of
    /// its runs, 24 bytes per block.
    ///
    /// # Errors
    /// [`Kind::Io`] if a run or the manifest is missing, [`Kind::Corrupt`] if one is damaged,
    /// [`Kind::Memory`] if the index does not fit, [`Kind::Usage`] for lines in an order that is
    /// not the engine's own.
    pub fn open(job: &Job, dir: &Path) -> Result<Self> {
        Self::open_with(job, dir, &own_orders)
    }

    /// Like [`SortedView::open`], for views of lines with any of `orders`.
    ///
    /// # Errors
    /// The errors of [`SortedView::open`] and of `orders`.
    pub fn open_with(job: &Job, dir: &Path, orders: LineOrders<'_>) -> Result<Self> {
        let volume = Volume::new(Arc::clone(&job.device), &job.options.drives)?;
        let manifest = match Manifest::read(job, &volume, dir) {
            // A sweep finishes a build that was killed while it published.
            Err(error) if Manifest::is_missing(&error) => {
                // If the sweep has no write access, it fails, and the view simply does not exist.
                let _ = job.device.sweep_private_dirs(dir);
                Manifest::read(job, &volume, dir)?
            }
            read => read?,
        };
        let (set, index) = open_runs(job, volume, dir, &manifest, orders)?;
        Ok(SortedView {
            set: Arc::new(set),
            job: job.clone(),
            dir: dir.to_path_buf(),
            index: Arc::new(index),
        })
    }

    /// The same view, observed and stopped through `control`.
    #[must_use]
    pub fn watched(mut self, control: Arc<Control>) -> Self {
        self.job.control = control;
        self
    }

    /// Number of records.
    pub fn len(&self) -> u64 {
        self.set.records()
    }

    /// Whether the view has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads return a multiple of this: the size of a record, or 1 for lines.
    pub fn unit_bytes(&self) -> usize {
        self.set.shape.unit_bytes
    }

    /// Size of the sorted file.
    pub fn len_bytes(&self) -> u64 {
        self.front().len() as u64 + self.set.units() * self.unit_bytes() as u64
    }

    /// The bytes before the first record in the sorted file: the header of CSV. Ranks do not count
    /// these bytes.
    pub fn front(&self) -> &[u8] {
        self.set.shape.front()
    }

    /// The type of the view's contents.
    pub fn what(&self) -> &ViewType {
        &self.set.shape.what
    }

    /// The format of the records, unless they are lines or rows.
    pub fn format(&self) -> Option<&RecordFormat> {
        self.what().records()
    }

    /// The job whose memory and threads the view uses.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Bytes read from and written to all drives through this view so far.
    pub fn traffic_bytes(&self) -> (u64, u64) {
        self.set.volume.traffic_bytes()
    }

    /// The prediction for reading `units` units of all runs while the given amount is written.
    fn plan_phase(&self, name: &'static str, units: u64, written: Forecast) -> PhasePlan {
        let set = &self.set;
        // A part begins and ends inside blocks, which are read whole: about one more per run.
        let edge_units = set.runs.len() as u64 * set.shape.block_units;
        let read_units = match units {
            0 => 0,
            units => set.units().min(units + edge_units),
        };
        let read_bytes = read_units * self.unit_bytes() as u64;
        let is_resident = set.runs.iter().any(|run| run.resident.is_some());
        let read = match is_resident {
            // Runs that are still in memory are not read.
            true => Forecast::AtMost(read_bytes),
            false => Forecast::About(read_bytes),
        };
        let reads = read_bytes as f64 / PIECE_BYTES_MAX as f64;
        PhasePlan::new(
            name,
            Amounts::of_files(read, written, reads),
            &self.layout(),
        )
    }

    /// The layout of a job that reads its runs.
    pub fn layout(&self) -> Layout {
        let places = self.set.runs.iter().map(|run| InputPlace {
            file_system: run.file.facts.file_system,
            dir: self.dir.clone(),
            bytes: run.units * self.unit_bytes() as u64,
        });
        let places: Vec<InputPlace> = places.collect();
        self.job.layout(&places, &OutputPlaces::Unknown)
    }

    /// Facts about the view.
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
            what: shape.what.clone(),
            order: shape.view_order,
            block_bytes: shape.block_bytes(),
            index_bytes: self.index.bytes(),
            runs: runs.collect(),
        }
    }

    /// Memory for each of `readers` readers, so that all fit in the job's remaining memory.
    pub fn reader_bytes(&self, readers: usize) -> u64 {
        let budget = &self.job.budget;
        budget.free_bytes() / 16 * 15 / readers.max(1) as u64
    }

    /// A reader for the calling thread, with at most `memory_bytes` of buffers (see
    /// [`SortedView::reader_bytes`]).
    ///
    /// # Errors
    /// [`Kind::Memory`] if two blocks of each run do not fit.
    pub fn reader(&self, memory_bytes: u64) -> Result<ViewReader> {
        self.reader_of(&self.job, memory_bytes)
    }

    /// Like `reader`, but with the memory of `job`.
    fn reader_of(&self, job: &Job, memory_bytes: u64) -> Result<ViewReader> {
        let mut reader = ViewReader::new(job, Arc::clone(&self.set), memory_bytes)?;
        reader.ends_as_in_file = true;
        Ok(reader)
    }

    /// Like [`SortedView::reader`], for callers that must separate lines: lines end as in runs,
    /// even if the sorted file ends them with a byte that they may contain.
    ///
    /// # Errors
    /// The errors of [`SortedView::reader`].
    pub fn reader_of_runs(&self, memory_bytes: u64) -> Result<ViewReader> {
        ViewReader::new(&self.job, Arc::clone(&self.set), memory_bytes)
    }

    /// Smallest memory of a reader: two blocks of each run.
    pub fn needed_bytes(&self) -> u64 {
        needed_bytes(&self.set)
    }

    /// How many of `readers` parallel readers fit in memory: at least one.
    pub fn readers_that_fit(&self, readers: usize) -> usize {
        self.readers_beside(readers, 0)
    }

    /// How many of `readers` parallel readers fit in memory if each takes this much additional
    /// memory.
    fn readers_beside(&self, readers: usize, each_bytes: u64) -> usize {
        let needed_bytes = needed_bytes(&self.set) + each_bytes;
        let fit = self.reader_bytes(1) / needed_bytes.max(1);
        usize::try_from(fit)
            .unwrap_or(readers)
            .clamp(1, readers.max(1))
    }

    /// The places of a range of records, in units. For lines, two places are looked up, unless the
    /// range is everything.
    fn units_of(&self, range: Range<u64>) -> Result<Range<u64>> {
        if self.set.shape.items().is_none() {
            return Ok(range);
        }
        if range == (0..self.len()) {
            return Ok(0..self.set.units());
        }
        let mut reader = self.reader(self.reader_bytes(1))?;
        reader.seek(range)?;
        Ok(reader.next.unwrap_or(0)..reader.end)
    }

    /// Consecutive ranges of equal length that `parts` threads or processes can read in parallel.
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
    /// The next unit of the sorted file from the merge, if it has been started.
    next: Option<u64>,
    /// End of the current range, in units.
    end: u64,
    /// Units read since the last seek.
    since_seek: u64,
    /// A partly requested record, and its rank.
    part: Vec<u8>,
    part_rank: Option<u64>,
    /// Whether lines end as in the sorted file, not as in runs.
    ends_as_in_file: bool,
}

/// Smallest memory of a reader.
fn needed_bytes(set: &RunSet) -> u64 {
    (slot_bytes(set, 1) * (2 * set.runs.len() + SPARE_SLOTS)) as u64
}

impl ViewReader {
    /// A reader of `set` with at most `memory_bytes` of buffers.
    fn new(job: &Job, set: Arc<RunSet>, memory_bytes: u64) -> Result<Self> {
        let (shape, runs) = (&set.shape, set.runs.len());
        let slots = 2 * runs + SPARE_SLOTS;
        let needed_bytes = needed_bytes(&set);
        if memory_bytes < needed_bytes {
            let cause = format!(
                "reading {} takes {}, but only {} are free",
                units::counted(runs as u64, "run"),
                units::bytes(needed_bytes),
                units::bytes(memory_bytes)
            );
            return Err(Error::new(Kind::Memory, "open reader", cause)
                .hint("allow more with --memory, or use fewer --threads"));
        }
        // If no reads wait for a drive, it matters most that pieces stay in the cache.
        let is_in_memory = |run: &run_set::Run| run.file.facts.is_in_memory;
        let piece_bytes_max = match set.runs.iter().all(is_in_memory) {
            true => PIECE_BYTES_MAX / 8,
            false => (PIECES_BYTES_MAX / slots).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
        };
        // Separate memory for long lines.
        let longest_bytes = set.longest_block_bytes();
        let own_bytes = match longest_bytes > LONG_BLOCKS * shape.block_bytes() {
            true => (memory_bytes / 2).min((longest_bytes * runs) as u64 + (1 << 20)),
            false => 0,
        };
        let slots_bytes = (memory_bytes - own_bytes).max(needed_bytes);
        let piece_bytes = (slots_bytes / slots as u64) as usize;
        let blocks = (piece_bytes.min(piece_bytes_max) / shape.block_bytes()).max(1);
        let fits = |blocks: &usize| slot_bytes(&set, *blocks) <= piece_bytes;
        let blocks = (1..=blocks).rev().find(fits).unwrap_or(1);
        let slot_bytes = slot_bytes(&set, blocks);
        let pool = Pool::new(&job.budget, PIECES, slot_bytes, slots)?;
        Ok(ViewReader {
            merge: MergeReader::new(&set),
            fetcher: Fetcher::new(job, Arc::clone(&set), pool)?,
            set,
            next: None,
            end: 0,
            since_seek: 0,
            part: Vec::new(),
            part_rank: None,
            ends_as_in_file: false,
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

    /// Number of blocks read so far.
    pub fn blocks_read(&self) -> u64 {
        self.fetcher.blocks_fetched
    }

    /// Moves to a range of ranks, whose records [`ViewReader::read`] returns. For a short range, it
    /// reads single blocks. For a long range, it reads ahead as far as there is room, but never
    /// past the end of the range.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a range beyond the end; the errors of reading.
    pub fn seek(&mut self, range: Range<u64>) -> Result<()> {
        let records = self.len();
        if range.start > range.end || range.end > records {
            let cause = format!(
                "records {}..{} of a view that has {records}",
                range.start, range.end
            );
            return Err(Error::usage("seek in view", cause).hint("give a range inside the view"));
        }
        match self.set.shape.items().is_some() {
            true => self.seek_by(Measure::Records, range),
            false => self.seek_by(Measure::Units, range),
        }
    }

    /// Like `seek`, for a range of units, which may begin and end inside lines.
    fn seek_units(&mut self, range: Range<u64>) -> Result<()> {
        self.seek_by(Measure::Units, range)
    }

    fn seek_by(&mut self, measure: Measure, range: Range<u64>) -> Result<()> {
        let (runs, shape) = (&self.set.runs, &self.set.shape);
        let total = match measure {
            Measure::Units => self.set.units(),
            Measure::Records => self.set.records(),
        };
        let share = (range.end - range.start) as f64 / total.max(1) as f64;
        let wanted = share * self.set.units() as f64;
        let is_long = wanted >= (2 * shape.block_units * runs.len() as u64) as f64;
        let is_end_wanted = is_long || measure == Measure::Records;
        self.next = None;
        // Releases the buffers of the current merge: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let to = match is_end_wanted {
            true => selector.cut_at(measure, range.end)?.through,
            false => runs.iter().map(|run| run.units).collect(),
        };
        let from = selector.cut_at(measure, range.start)?.before;
        let given = selector.into_pieces();
        let (begin, end) = match measure {
            Measure::Units => (range.start, range.end),
            Measure::Records => (from.iter().sum(), to.iter().sum()),
        };
        self.start(&from, &to, given, is_long)?;
        self.skip_to(from.iter().sum(), begin)?;
        self.end = end;
        Ok(())
    }

    /// Discards the part before `begin` of the line at which the merge is positioned.
    fn skip_to(&mut self, at: u64, begin: u64) -> Result<()> {
        let unit_bytes = self.set.shape.unit_bytes;
        let mut left = (begin - at) as usize * unit_bytes;
        let mut skipped = vec![0; left.min(SKIP_BYTES)];
        while left > 0 {
            let len = left.min(skipped.len());
            self.merge.read(&mut self.fetcher, &mut skipped[..len])?;
            left -= len;
        }
        self.next = Some(begin);
        Ok(())
    }

    fn start(
        &mut self,
        from: &[u64],
        to: &[u64],
        mut given: Vec<fetch::RunBlocks>,
        is_long: bool,
    ) -> Result<()> {
        // Blocks after the first one would be in the wrong order.
        let set = Arc::clone(&self.set);
        given.retain(|piece| piece.stretch.first_block == set.block_of(from[piece.stretch.run]));
        self.since_seek = 0;
        self.merge
            .start(&mut self.fetcher, from, to, given, is_long)
    }

    /// Reads as many whole records of the range as fit in `out`; returns the number of bytes. For
    /// lines, reads as many bytes as fit, and continues inside a line at the next call.
    ///
    /// # Errors
    /// The errors of reading; seek again after an error.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let Some(next) = self.next else {
            return Err(Error::usage("read view", "no place to read from")
                .hint("seek before reading, and after an error"));
        };
        let unit_bytes = self.set.shape.unit_bytes;
        let units = ((out.len() / unit_bytes) as u64).min(self.end - next);
        let len_bytes = units as usize * unit_bytes;
        self.next = None;
        self.merge.read(&mut self.fetcher, &mut out[..len_bytes])?;
        if let (true, Some(lines)) = (self.ends_as_in_file, self.set.shape.what.lines()) {
            lines.end_as_in_file(&mut out[..len_bytes]);
        }
        self.next = Some(next + units);
        self.since_seek += units;
        Ok(len_bytes)
    }

    /// Appends the next rows of the range to `rows`: `bytes_max` bytes, and the rest of the last
    /// row; nothing at the end. Before they grow, `grow` is called with the new size of `rows`, to
    /// reserve memory: a row may be long.
    ///
    /// # Errors
    /// The errors of [`ViewReader::read`] and of `grow`; [`Kind::Usage`] if the view does not
    /// contain rows.
    pub fn read_rows(
        &mut self,
        rows: &mut RowBatch,
        bytes_max: usize,
        grow: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        if self.set.shape.what.rows().is_none() {
            return Err(
                Error::usage("read view", "it does not hold rows").hint("a bug: please report it")
            );
        }
        let left_bytes = usize::try_from(self.left_bytes()).unwrap_or(usize::MAX);
        rows.read_whole(bytes_max.min(left_bytes), grow, |out| {
            match self.read(out)? == out.len() {
                true => Ok(()),
                false => Err(self
                    .set
                    .fault(0, 0, "a row continues past the end of the view")),
            }
        })
    }

    /// Remaining bytes of the range.
    pub fn left_bytes(&self) -> u64 {
        let units = self.next.map_or(0, |next| self.end - next);
        units * self.set.shape.unit_bytes as u64
    }

    /// The rank of the first record whose key is not before that of `record`: a whole record of
    /// which only the key fields count, or a line without its terminator.
    ///
    /// # Errors
    /// [`Kind::Usage`] for an invalid key; the errors of reading.
    pub fn seek_key(&mut self, record: &[u8]) -> Result<u64> {
        self.set.shape.check_key(record)?;
        self.next = None;
        // Releases the buffers of the current merge: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let cut = selector.cut_at_key(record)?;
        selector.records_before(&cut)
    }

    /// Reads the bytes of the sorted file that start at `offset_bytes`; returns their number, less
    /// than the length of `out` only at the end. Sequential reads are cheap; any other read is a
    /// seek.
    ///
    /// # Errors
    /// The errors of reading.
    pub fn read_at(&mut self, offset_bytes: u64, out: &mut [u8]) -> Result<usize> {
        let front = self.set.shape.front();
        let from = usize::try_from(offset_bytes).map_or(front.len(), |at| at.min(front.len()));
        let len = (front.len() - from).min(out.len());
        out[..len].copy_from_slice(&front[from..from + len]);
        match len == out.len() {
            true => Ok(len),
            false => Ok(len + self.read_data_at(offset_bytes - from as u64, &mut out[len..])?),
        }
    }

    /// Like `read_at`, but with offsets that do not count the bytes before the first record.
    fn read_data_at(&mut self, offset_bytes: u64, out: &mut [u8]) -> Result<usize> {
        let record_bytes = self.set.shape.unit_bytes;
        let total_bytes = self.set.units() * record_bytes as u64;
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

    /// Moves to `unit`: at no cost if it is next, otherwise by a seek. A caller that has read
    /// sequentially for a while is assumed to want everything.
    fn go_to(&mut self, unit: u64) -> Result<()> {
        let units = self.set.units();
        if self.next == Some(unit) && self.end == units {
            let shape = &self.set.shape;
            if self.since_seek >= shape.block_units * self.set.runs.len() as u64 {
                self.merge.read_on();
            }
            return Ok(());
        }
        let runs = &self.set.runs;
        self.next = None;
        // Releases the buffers of the current merge: the selection may need all.
        self.merge = MergeReader::new(&self.set);
        let mut selector = Selector::new(&self.set, &mut self.fetcher)?;
        let from = selector.cut_at(Measure::Units, unit)?.before;
        let to: Vec<u64> = runs.iter().map(|run| run.units).collect();
        let given = selector.into_pieces();
        self.start(&from, &to, given, false)?;
        self.skip_to(from.iter().sum(), unit)?;
        self.end = units;
        Ok(())
    }
}
