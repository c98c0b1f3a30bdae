//! The state of a job in passes, which is kept so that a killed run continues after a pass.
//!
//! Contract: a job of this kind has a [`PassState`], for example a value per vertex. Its next pass
//! needs nothing else. [`States::keep`] writes it to one of two files in the job's private
//! directory, in turn, and syncs it; then the journal vouches for it, with a checksum. So the
//! previous state is whole until the new one counts. [`States::restore`] reads the last state that
//! the journal vouches for. If that state's checksum differs, it reads the previous state, which is
//! whole unless a run has begun to overwrite it. Without a whole state, it fails. A state is kept
//! if [`COST_PARTS`] times the duration of the last one has passed, so states take about 2 % of the
//! time. For the first state, that duration is an estimate.
//!
//! With the first state the directory is marked: from then on it stays if the job fails or is
//! killed.
//!
//! Bounds: the buffers of [`Pool::passing`]; twice the state on the drive of the output.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytemuck::Pod;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use outcore_io::checksum::continued_checksum;
use outcore_io::drive::private_dir::Resumable;
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::journal::{Journal, KINDS_FROM, Progress};
use outcore_io::memory::{BLOCK_BYTES, Budget, Pool, block_ceil};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::{ReadRange, Transfers};
use outcore_io::{Error, Kind, Result};

/// The kind of record that vouches for a state.
pub(crate) const STATE: u32 = KINDS_FROM + 64;
/// The time between two states, as a multiple of the duration of the last one.
const COST_PARTS: u32 = 50;
/// The speed at which the first state is expected to be written.
const ASSUMED_BYTES_PER_S: f64 = 1e9;
const AREAS_LINE: &str = "state on its way to its file";
const RESUME: &str = "resume";
/// The advice of the error for a killed job that cannot be continued.
pub const GIVE_UP: &str = "give the killed job up, and begin anew";

/// The state of a job between two passes.
pub trait PassState {
    /// The name of the state's step. A job of several steps keeps the states of its steps one after
    /// another.
    const NAME: &'static str;
    /// The type of the state's numbers besides the columns. Floats are stored by their bits.
    type Facts: Serialize + DeserializeOwned;

    /// The state's numbers besides the columns.
    fn facts(&self) -> Self::Facts;

    /// Takes the facts of a state that was kept, and gives the columns the lengths that they had.
    fn take(&mut self, facts: Self::Facts);

    /// The state's columns, always in the same order.
    fn columns(&mut self) -> Vec<Column<'_>>;

    /// The progress of the job, if it is known.
    fn progress(&self) -> Progress {
        Progress::default()
    }
}

/// Numbers of a state.
pub enum Column<'s> {
    /// Numbers that one thread changes.
    Plain(&'s mut [u8]),
    /// Numbers of four bytes that several threads change.
    Atomic32(&'s [AtomicU32]),
    /// Numbers of eight bytes that several threads change.
    Atomic64(&'s [AtomicU64]),
}

impl<'s> Column<'s> {
    /// A column of plain numbers.
    pub fn of<T: Pod>(numbers: &'s mut [T]) -> Self {
        Column::Plain(bytemuck::cast_slice_mut(numbers))
    }

    fn len_bytes(&self) -> usize {
        match self {
            Column::Plain(bytes) => bytes.len(),
            Column::Atomic32(numbers) => size_of_val(*numbers),
            Column::Atomic64(numbers) => size_of_val(*numbers),
        }
    }

    /// Copies the bytes that begin at `at_bytes`, a multiple of eight.
    fn copy_to(&self, at_bytes: usize, into: &mut [u8]) {
        match self {
            Column::Plain(bytes) => into.copy_from_slice(&bytes[at_bytes..][..into.len()]),
            Column::Atomic32(numbers) => {
                let numbers = &numbers[at_bytes / size_of::<u32>()..];
                for (to, number) in into.chunks_exact_mut(size_of::<u32>()).zip(numbers) {
                    to.copy_from_slice(&number.load(Ordering::Relaxed).to_ne_bytes());
                }
            }
            Column::Atomic64(numbers) => {
                let numbers = &numbers[at_bytes / size_of::<u64>()..];
                for (to, number) in into.chunks_exact_mut(size_of::<u64>()).zip(numbers) {
                    to.copy_from_slice(&number.load(Ordering::Relaxed).to_ne_bytes());
                }
            }
        }
    }

    /// The inverse of [`Column::copy_to`].
    fn copy_from(&mut self, at_bytes: usize, from: &[u8]) {
        match self {
            Column::Plain(bytes) => bytes[at_bytes..][..from.len()].copy_from_slice(from),
            Column::Atomic32(numbers) => {
                let numbers = &numbers[at_bytes / size_of::<u32>()..];
                for (from, number) in from.as_chunks().0.iter().zip(numbers) {
                    number.store(u32::from_ne_bytes(*from), Ordering::Relaxed);
                }
            }
            Column::Atomic64(numbers) => {
                let numbers = &numbers[at_bytes / size_of::<u64>()..];
                for (from, number) in from.as_chunks().0.iter().zip(numbers) {
                    number.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
                }
            }
        }
    }
}

/// A state that the journal vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    /// [`PassState::NAME`].
    name: String,
    /// Which of the two files holds the state.
    file: usize,
    /// The facts, as text.
    facts: String,
    columns: Vec<ColumnRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ColumnRecord {
    len_bytes: u64,
    checksum: u64,
}

/// The places of a column's pieces, each at most an area long, from `start_bytes` of the file on.
fn pieces(start_bytes: u64, len_bytes: usize, area_bytes: usize) -> impl Iterator<Item = Piece> {
    (0..len_bytes)
        .step_by(area_bytes)
        .map(move |at_bytes| Piece {
            at_bytes,
            len_bytes: area_bytes.min(len_bytes - at_bytes),
            in_file_bytes: start_bytes + at_bytes as u64,
        })
}

struct Piece {
    /// The place of the piece in the column.
    at_bytes: usize,
    len_bytes: usize,
    in_file_bytes: u64,
}

/// The private directory of a job in passes, its journal, and the files for its state.
pub struct States {
    volume: Volume,
    mark: Resumable,
    pool: Pool,
    kept: Mutex<Kept>,
}

struct Kept {
    /// Both are `None` once the job has ended.
    dir: Option<PrivateDir>,
    journal: Option<Journal>,
    files: [Option<StateFile>; 2],
    /// The last state that the journal vouches for.
    last: Option<StateRecord>,
    /// The state before that of a dead run, in the other file.
    previous: Option<StateRecord>,
    /// When the last state was kept, and how long that took.
    ended: Instant,
    took: Option<Duration>,
    is_marked: bool,
    /// The remark that this run continues another one, until a caller takes the remark.
    remark: Option<String>,
    /// Bytes of states that were read and written.
    moved: Moved,
}

/// The last states that a journal vouches for.
#[derive(Default)]
pub(crate) struct LastStates {
    pub(crate) last: Option<StateRecord>,
    /// The state before the last one, in the other file.
    pub(crate) previous: Option<StateRecord>,
}

impl LastStates {
    /// Adds the next record of the journal.
    pub(crate) fn add(&mut self, record: StateRecord) {
        // A state in the same file as the last one replaces the last one.
        let is_other = |last: &StateRecord| last.file != record.file;
        if let Some(last) = self.last.take_if(|last| is_other(last)) {
            self.previous = Some(last);
        }
        self.last = Some(record);
    }
}

/// Which state of a dead run was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestoredState {
    Last,
    /// The state before the last one: the last one is damaged.
    Previous,
}

struct StateFile {
    file: VolumeFile,
    reserved_bytes: u64,
}

/// Bytes of states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// The private directory of a job in passes, and its journal.
pub(crate) struct Keeping {
    pub(crate) volume: Volume,
    pub(crate) mark: Resumable,
    pub(crate) dir: PrivateDir,
    pub(crate) journal: Journal,
    /// The state of the dead run, and the one before.
    pub(crate) last: Option<StateRecord>,
    pub(crate) previous: Option<StateRecord>,
    /// The remark on a run that continues the dead one.
    pub(crate) remark: Option<String>,
}

/// The directory and the journal of a job that has ended.
pub(crate) struct Ended {
    pub(crate) dir: PrivateDir,
    pub(crate) journal: Journal,
    /// Whether the directory stays when it is dropped.
    pub(crate) is_marked: bool,
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").finish_non_exhaustive()
    }
}

impl States {
    /// States in the directory of `keeping`, with buffers from `budget`.
    ///
    /// # Errors
    /// Memory.
    pub(crate) fn new(keeping: Keeping, budget: &Budget) -> Result<Self> {
        let Keeping {
            volume,
            mark,
            dir,
            journal,
            last,
            previous,
            remark,
        } = keeping;
        Ok(States {
            volume,
            mark,
            pool: Pool::passing(budget, AREAS_LINE)?,
            kept: Mutex::new(Kept {
                is_marked: last.is_some(),
                dir: Some(dir),
                journal: Some(journal),
                files: [None, None],
                last,
                previous,
                ended: Instant::now(),
                took: None,
                remark,
                moved: Moved::default(),
            }),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The volume of the directory.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The directory and the journal, once.
    pub(crate) fn end(&self) -> Option<Ended> {
        let mut kept = self.kept();
        for file in &mut kept.files {
            if let Some(file) = file.take() {
                self.volume.close(&file.file);
            }
        }
        let (dir, journal) = (kept.dir.take(), kept.journal.take());
        let (dir, journal) = dir.zip(journal)?;
        Some(Ended {
            dir,
            journal,
            is_marked: kept.is_marked,
        })
    }

    /// The mark of the directory.
    pub(crate) fn mark(&self) -> &Resumable {
        &self.mark
    }

    /// The remark on the run that this one continues, once.
    pub(crate) fn take_remark(&self) -> Option<String> {
        self.kept().remark.take()
    }

    /// Bytes of states that were read and written so far.
    pub fn moved(&self) -> Moved {
        self.kept().moved
    }

    /// Restores `state` from the last state that the journal vouches for, or from the one before if
    /// that is damaged. Returns which of them it was, if any has this name.
    ///
    /// # Errors
    /// Corrupt: the state is damaged, or is that of another job. The device's error; the errors of
    /// `check`.
    pub(crate) fn restore<S: PassState>(
        &self,
        check: impl Fn() -> Result<()>,
        state: &mut S,
    ) -> Result<Option<RestoredState>> {
        let mut kept = self.kept();
        let last = kept.last.clone();
        let Some(last) = last.filter(|last| last.name == S::NAME) else {
            return Ok(None);
        };
        let damage = match self.restore_from(&mut kept, &last, &check, state) {
            Ok(()) => return Ok(Some(RestoredState::Last)),
            Err(error) if error.kind() == Kind::Corrupt => error,
            Err(error) => return Err(error),
        };
        let previous = kept.previous.take();
        let Some(previous) = previous.filter(|previous| previous.name == S::NAME) else {
            return Err(damage);
        };
        // The next state goes to the file of the damaged one.
        kept.last = Some(previous.clone());
        match self.restore_from(&mut kept, &previous, &check, state) {
            Err(error) if error.kind() == Kind::Corrupt => Err(damage),
            restored => restored.map(|()| Some(RestoredState::Previous)),
        }
    }

    /// Like `restore`, but from the state with this `record`.
    fn restore_from<S: PassState>(
        &self,
        kept: &mut Kept,
        record: &StateRecord,
        check: &impl Fn() -> Result<()>,
        state: &mut S,
    ) -> Result<()> {
        let facts = serde_json::from_str(&record.facts);
        state.take(facts.map_err(|error| damaged(&error.to_string()))?);
        let file = self.file(kept, record.file)?.file.clone();
        let mut columns = state.columns();
        let lens = columns.iter().map(|column| column.len_bytes() as u64);
        if !lens.eq(record.columns.iter().map(|column| column.len_bytes)) {
            return Err(damaged("it has columns of other lengths"));
        }
        let mut start_bytes = 0;
        for (column, record) in columns.iter_mut().zip(&record.columns) {
            let checksum = self.read(check, &file, start_bytes, column)?;
            if checksum != record.checksum {
                return Err(damaged("it differs from what was written").path(&file.path));
            }
            start_bytes += block_ceil(record.len_bytes);
        }
        kept.moved.read_bytes += start_bytes;
        kept.ended = Instant::now();
        Ok(())
    }

    /// Reads a column; returns its checksum.
    fn read(
        &self,
        check: &impl Fn() -> Result<()>,
        file: &VolumeFile,
        start_bytes: u64,
        column: &mut Column<'_>,
    ) -> Result<u64> {
        let mut left = pieces(start_bytes, column.len_bytes(), self.pool.slot_bytes());
        let mut checksum = 0;
        let mut transfers = Transfers::new(&self.volume)?;
        transfers.read_in_order(
            &self.pool,
            check,
            |_| {
                let piece = left.next()?;
                Some(ReadRange {
                    file,
                    at_bytes: piece.in_file_bytes,
                    len_bytes: piece.len_bytes.next_multiple_of(BLOCK_BYTES),
                    what: piece,
                })
            },
            |arrival| {
                let piece = arrival.what;
                if arrival.len_bytes < piece.len_bytes {
                    return Err(damaged("its file is too short").path(&file.path));
                }
                let bytes = &arrival.buf[..piece.len_bytes];
                checksum = continued_checksum(checksum, bytes);
                column.copy_from(piece.at_bytes, bytes);
                Ok(())
            },
        )?;
        Ok(checksum)
    }

    /// Keeps `state` if that is due.
    ///
    /// # Errors
    /// No space; the device's error; the errors of `check`.
    pub(crate) fn keep<S: PassState>(
        &self,
        check: impl Fn() -> Result<()>,
        state: &mut S,
    ) -> Result<()> {
        let mut kept = self.kept();
        let lens = state.columns();
        let lens = lens
            .iter()
            .map(|column| block_ceil(column.len_bytes() as u64));
        let state_bytes: u64 = lens.sum();
        let began = Instant::now();
        let expected = Duration::from_secs_f64(state_bytes as f64 / ASSUMED_BYTES_PER_S);
        // On a device without the system's clock a job keeps the same states each time.
        let is_timed = self.volume.device().thread_cpu_ns().is_some();
        if is_timed && began < kept.ended + COST_PARTS * kept.took.unwrap_or(expected) {
            return Ok(());
        }
        let number = kept.last.as_ref().map_or(0, |last| 1 - last.file);
        let file = self.file(&mut kept, number)?;
        if file.reserved_bytes < state_bytes {
            // Detects a drive that is too full now, not after hours.
            self.volume.device().allocate(file.file.id, state_bytes)?;
            file.reserved_bytes = state_bytes;
        }
        let file = file.file.clone();
        let columns = self.write(&check, &file, state)?;
        self.volume.device().sync(file.id)?;
        let facts = serde_json::to_string(&state.facts());
        let record = StateRecord {
            name: S::NAME.to_owned(),
            file: number,
            facts: facts.map_err(|error| Error::usage("keep state", error.to_string()))?,
            columns,
        };
        self.commit(&mut kept, &record, state.progress())?;
        kept.last = Some(record);
        kept.moved.written_bytes += state_bytes;
        kept.ended = Instant::now();
        kept.took = Some(began.elapsed());
        Ok(())
    }

    /// Writes the columns; returns their records.
    fn write<S: PassState>(
        &self,
        check: &impl Fn() -> Result<()>,
        file: &VolumeFile,
        state: &mut S,
    ) -> Result<Vec<ColumnRecord>> {
        let mut transfers: Transfers<()> = Transfers::new(&self.volume)?;
        let (mut start_bytes, mut records) = (0, Vec::new());
        for column in state.columns() {
            let (len_bytes, mut checksum) = (column.len_bytes(), 0);
            for piece in pieces(start_bytes, len_bytes, self.pool.slot_bytes()) {
                let mut area = transfers.buffer(&self.pool, check)?;
                let whole_bytes = piece.len_bytes.next_multiple_of(BLOCK_BYTES);
                column.copy_to(piece.at_bytes, &mut area[..piece.len_bytes]);
                area[piece.len_bytes..whole_bytes].fill(0);
                checksum = continued_checksum(checksum, &area[..piece.len_bytes]);
                let area = area.split_to(whole_bytes);
                transfers.write_behind(file, piece.in_file_bytes, area)?;
            }
            start_bytes += block_ceil(len_bytes as u64);
            records.push(ColumnRecord {
                len_bytes: len_bytes as u64,
                checksum,
            });
        }
        transfers.finish(check)?;
        Ok(records)
    }

    /// Marks the directory if it is not marked yet, and commits the record of a state that is
    /// synced.
    fn commit(&self, kept: &mut Kept, record: &StateRecord, progress: Progress) -> Result<()> {
        let Kept {
            dir: Some(dir),
            journal: Some(journal),
            is_marked,
            ..
        } = kept
        else {
            return Ok(());
        };
        if !*is_marked {
            dir.keep_to_resume(&self.mark)?;
            *is_marked = true;
        }
        journal.append_value(&self.volume, STATE, record)?;
        journal.commit(&self.volume, progress)
    }

    /// One of the two files, open.
    fn file<'k>(&self, kept: &'k mut Kept, number: usize) -> Result<&'k mut StateFile> {
        let known = kept.last.iter().chain(&kept.previous);
        let is_vouched = known.into_iter().any(|state| state.file == number);
        let Kept { dir, files, .. } = kept;
        let slot = &mut files[number];
        if let Some(file) = slot {
            return Ok(file);
        }
        let Some(dir) = dir else {
            return Err(Error::usage(RESUME, "the job has ended"));
        };
        let path = path_in(dir, number);
        let access = match is_vouched && path.exists() {
            true => Access::Update,
            false => {
                if path.exists() {
                    // A killed run has begun to write the file.
                    self.volume.device().remove(&path)?;
                }
                Access::Create
            }
        };
        let file = self.volume.open(&path, access)?;
        let reserved_bytes = file.facts.len_bytes;
        Ok(slot.insert(StateFile {
            file,
            reserved_bytes,
        }))
    }
}

/// The path of one of the two files in the private directory.
fn path_in(dir: &PrivateDir, number: usize) -> PathBuf {
    dir.path().join(format!("state-{number}"))
}

impl StateRecord {
    /// Whether the file of the state is in `dir`.
    pub(crate) fn is_in(&self, dir: &PrivateDir) -> bool {
        path_in(dir, self.file).exists()
    }
}

fn damaged(cause: &str) -> Error {
    Error::corrupt(
        RESUME,
        format!("the state of the killed job is damaged: {cause}"),
    )
    .hint(GIVE_UP)
}
