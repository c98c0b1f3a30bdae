//! All results of a radius search: in memory, or on scratch if they do not fit.
//!
//! Contract: threads collect results in [`Gathered`] chunks and pass full chunks to the
//! [`Collector`], in no order. Results have an eighth of the memory. When a chunk does not fit
//! there, all results, including later ones, go to files on the job's scratch drives, alternately.
//! In a job without scratch, results may fill the memory; if they do not fit, the search fails, and
//! the error reports their number. [`Hits::each`] returns results by query and row; from scratch
//! they come through the engine's sort. The files count as scratch and are removed with the
//! [`Hits`].
//!
//! Bounds: 40 bytes per result in memory, or 24 bytes per result on scratch and the memory of a
//! sort; 16 bytes per query.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use outcore::primitives::appended::{AppendedFile, Appender, write_files};
use outcore::{Context, Error, Input, Job, Kind, Phase, Result};
use outcore_io::drive::{Access, PrivateDir};
use outcore_io::memory::{Budget, Reservation};
use outcore_io::port::{ScratchDrive, Volume, VolumeFile};
use outcore_io::units;

/// A row within the radius of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The number of the query.
    pub query: u64,
    /// The row of the base.
    pub row: u64,
    /// The distance between the two.
    pub distance: f64,
}

/// Query, row, and the bits of the distance; sorted in this order.
type PackedHit = [u64; 3];

/// The number of results that a thread holds before it passes them on, and that are returned at a
/// time.
const CHUNK_HITS: usize = 4096;
/// Memory of a chunk in the order of arrival, and in the order of [`Hits::each`].
const CHUNK_BYTES: u64 = (CHUNK_HITS * (size_of::<PackedHit>() + size_of::<[u64; 2]>())) as u64;
/// The length of a buffer of a scratch file, and the memory of all its buffers.
const BUFFER_BYTES: usize = 64 << 10;
const BUFFERS_BYTES: u64 = 6 * BUFFER_BYTES as u64;
const SEARCH: &str = "search within a radius";

/// Results of one thread that have not been passed on yet.
pub(super) struct Gathered(Vec<PackedHit>);

impl Gathered {
    /// Its memory.
    pub(super) const BYTES: u64 = (CHUNK_HITS * size_of::<PackedHit>()) as u64;

    /// Creates an empty chunk.
    pub(super) fn new() -> Self {
        Gathered(Vec::with_capacity(CHUNK_HITS))
    }

    /// Adds a result.
    ///
    /// # Errors
    /// As [`Collector::take`].
    pub(super) fn push(&mut self, collector: &Collector<'_>, hit: Hit) -> Result<()> {
        if self.0.len() == CHUNK_HITS {
            collector.take(self)?;
        }
        self.0.push([hit.query, hit.row, hit.distance.to_bits()]);
        Ok(())
    }
}

/// Collects the results of all threads.
pub(super) struct Collector<'a> {
    job: &'a Job,
    /// Creates scratch files, if there is scratch.
    scratch: Option<Scratch<'a>>,
    /// Memory for results and for the buffers of scratch files.
    share_bytes: u64,
    state: Mutex<State>,
}

struct State {
    /// The number of results of each query so far, at the index after the query's own.
    counts: Vec<u64>,
    chunks: Vec<Vec<PackedHit>>,
    /// The reserved memory of chunks.
    held: Vec<Reservation>,
    stored: Option<Stored>,
    _limits: Reservation,
}

/// Creates scratch files.
#[derive(Clone, Copy)]
struct Scratch<'a> {
    appender: &'a Appender,
    volume: &'a Volume,
}

/// Results on scratch: one file per drive.
struct Stored {
    files: Vec<StoredFile>,
    /// The next drive to use.
    next: usize,
    len_bytes: u64,
    limit_bytes: u64,
}

struct StoredFile {
    dir: PrivateDir,
    path: PathBuf,
    file: VolumeFile,
    appended: AppendedFile,
    /// The bytes that the drive may still take.
    room_bytes: u64,
}

/// Runs `search` with a collector, and returns its results in order.
///
/// # Errors
/// Errors of `search`. Memory: `limits` or results do not fit.
pub(super) fn collect<T>(
    job: &Job,
    queries: u64,
    search: impl FnOnce(&Collector<'_>) -> Result<T>,
) -> Result<(T, Hits)> {
    let limits_bytes = queries.saturating_mul(2 * size_of::<u64>() as u64);
    let limits = job.budget.reserve("limits", limits_bytes)?;
    if job.options.drives.is_empty() {
        let collector = Collector::new(job, None, queries, limits)?;
        let found = search(&collector)?;
        return Ok((found, collector.finish()?.0));
    }
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    let (found, (hits, stored)) = write_files(job, &volume, |appender| {
        let scratch = Some(Scratch {
            appender: &appender,
            volume: &volume,
        });
        let collector = Collector::new(job, scratch, queries, limits)?;
        let found = search(&collector)?;
        Ok((found, collector.finish()?))
    })?;
    for (file, len_bytes) in stored {
        volume.device().set_len(file.id, len_bytes)?;
        volume.close(&file);
    }
    Ok((found, hits))
}

impl<'a> Collector<'a> {
    fn new(
        job: &'a Job,
        scratch: Option<Scratch<'a>>,
        queries: u64,
        limits: Reservation,
    ) -> Result<Self> {
        // Results that do not fit can go to scratch, so the rest of the memory serves more queries
        // per pass.
        let share_bytes = job.budget.free_bytes() / 8;
        Ok(Collector {
            job,
            scratch,
            share_bytes: share_bytes.max(buffers_bytes(job) + CHUNK_BYTES),
            state: Mutex::new(State {
                counts: vec![0; queries as usize + 1],
                chunks: Vec::new(),
                held: Vec::new(),
                stored: None,
                _limits: limits,
            }),
        })
    }

    /// Takes the results of a thread.
    ///
    /// # Errors
    /// Memory: they do not fit, and there is no scratch. Errors of writing.
    pub(super) fn take(&self, gathered: &mut Gathered) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            counts,
            chunks,
            held,
            stored,
            ..
        } = &mut *state;
        for [query, ..] in &gathered.0 {
            counts[*query as usize + 1] += 1;
        }
        let mut rest = &gathered.0[..];
        if stored.is_none() {
            if let Some(last) = chunks.last_mut() {
                let (now, behind) = rest.split_at(rest.len().min(CHUNK_HITS - last.len()));
                last.extend_from_slice(now);
                rest = behind;
            }
            if !rest.is_empty() {
                match self.reserve_chunk(held.len()) {
                    Ok(reserved) => {
                        held.push(reserved);
                        let mut chunk = Vec::with_capacity(CHUNK_HITS);
                        chunk.extend_from_slice(rest);
                        chunks.push(chunk);
                        rest = &[];
                    }
                    Err(error) => {
                        let stored = stored.insert(self.store(error, counts)?);
                        for chunk in chunks.drain(..) {
                            stored.append(&chunk)?;
                        }
                        held.clear();
                    }
                }
            }
        }
        if let Some(stored) = stored {
            stored.append(rest)?;
        }
        gathered.0.clear();
        Ok(())
    }

    /// Memory that must stay free for results.
    pub(super) fn wanted_bytes(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let held_bytes = match state.stored {
            Some(_) => buffers_bytes(self.job),
            None => state.held.len() as u64 * CHUNK_BYTES,
        };
        self.share_bytes.saturating_sub(held_bytes)
    }

    /// Reserves one chunk in addition to `count`. With scratch, chunks are limited to their share
    /// of the memory, so that memory planned for others stays free.
    fn reserve_chunk(&self, count: usize) -> Result<Reservation> {
        let all_bytes = (count as u64 + 1) * CHUNK_BYTES;
        if self.scratch.is_some() && all_bytes + buffers_bytes(self.job) > self.share_bytes {
            let cause = "the results have used up their share of the memory";
            return Err(Error::new(Kind::Memory, SEARCH, cause));
        }
        self.job.budget.reserve("results", CHUNK_BYTES)
    }

    /// Creates the scratch files after `error`, the lack of memory; returns an error if there is no
    /// scratch.
    fn store(&self, error: Error, counts: &[u64]) -> Result<Stored> {
        let Some(Scratch { appender, volume }) = self.scratch else {
            return Err(too_many(error, counts.iter().sum()));
        };
        let drives = self.job.options.drives.iter();
        let files = drives.map(|drive| StoredFile::create(self.job, drive, appender, volume));
        Ok(Stored {
            files: files.collect::<Result<_>>()?,
            next: 0,
            len_bytes: 0,
            limit_bytes: self.job.options.scratch_limit_bytes,
        })
    }

    /// Returns all results, and the scratch files with the lengths that they will have once they
    /// are written.
    fn finish(self) -> Result<(Hits, Vec<(VolumeFile, u64)>)> {
        let state = self.state.into_inner();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let mut limits = state.counts;
        let mut before = 0;
        for limit in &mut limits {
            before += *limit;
            *limit = before;
        }
        let hits = |place| Hits {
            limits,
            place,
            _limits: state._limits,
        };
        let Some(stored) = state.stored else {
            let (chunks, held) = (state.chunks, state.held);
            return Ok((hits(Place::Memory(chunks, held)), Vec::new()));
        };
        let mut files = Vec::with_capacity(stored.files.len());
        let mut places = Vec::with_capacity(stored.files.len());
        for StoredFile {
            dir,
            path,
            file,
            appended,
            ..
        } in stored.files
        {
            files.push((file, appended.finish()?.len_bytes));
            places.push((path, dir));
        }
        let place = Place::Scratch(places, stored.len_bytes);
        Ok((hits(place), files))
    }
}

/// Memory for the buffers of all scratch files.
fn buffers_bytes(job: &Job) -> u64 {
    BUFFERS_BYTES * job.options.drives.len() as u64
}

impl Stored {
    /// Appends results to the next file that has room, starting with the one whose turn it is.
    ///
    /// # Errors
    /// No space: scratch has reached its limit. Errors of writing.
    fn append(&mut self, hits: &[PackedHit]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(hits);
        let all_bytes = self.len_bytes + bytes.len() as u64;
        let count = self.files.len();
        let mut turns = (self.next..self.next + count).map(|turn| turn % count);
        let with_room = turns.find(|at| self.files[*at].room_bytes >= bytes.len() as u64);
        let Some(at) = with_room.filter(|_| all_bytes <= self.limit_bytes) else {
            let cause = format!(
                "{} are within the radius so far, and scratch has reached its limit",
                units::counted(all_bytes / size_of::<PackedHit>() as u64, "result")
            );
            return Err(Error::new(Kind::NoSpace, SEARCH, cause)
                .hint("choose a bound that fewer rows meet, or raise --scratch-limit"));
        };
        self.next = (at + 1) % count;
        self.len_bytes = all_bytes;
        let file = &mut self.files[at];
        file.room_bytes -= bytes.len() as u64;
        file.appended.append(bytes)
    }
}

impl StoredFile {
    fn create(
        job: &Job,
        drive: &ScratchDrive,
        appender: &Appender,
        volume: &Volume,
    ) -> Result<Self> {
        job.device.sweep_private_dirs(&drive.dir)?;
        let dir = job.device.make_private_dir(&drive.dir)?;
        let path = std::path::absolute(dir.path().join("part-0")).unwrap_or_default();
        let file = volume.open(&path, Access::Create)?;
        let appended = appender.file(job, &file, BUFFER_BYTES, false)?;
        Ok(StoredFile {
            dir,
            path,
            file,
            appended,
            room_bytes: drive.limit_bytes,
        })
    }
}

/// All results of a search.
#[derive(Debug)]
pub struct Hits {
    limits: Vec<u64>,
    place: Place,
    _limits: Reservation,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<Vec<PackedHit>>, Vec<Reservation>),
    /// Files, each with its directory, and their total bytes.
    Scratch(Vec<(PathBuf, PrivateDir)>, u64),
}

/// Takes results in order, some at a time.
pub type TakeHits<'t> = dyn FnMut(&[Hit]) -> Result<()> + 't;

impl Hits {
    /// The start of each query's results among all, followed by the end of the last.
    pub fn limits(&self) -> &[u64] {
        &self.limits
    }

    /// The number of results.
    pub fn count(&self) -> u64 {
        self.limits.last().copied().unwrap_or(0)
    }

    /// Passes all results to `take`, by query and row. Returns the phases of their sort, if they
    /// were on scratch.
    ///
    /// # Errors
    /// Errors of `take` and of the sort.
    pub fn each(self, job: &Job, take: &mut TakeHits<'_>) -> Result<Vec<Phase>> {
        let mut shown = Vec::with_capacity(CHUNK_HITS);
        let mut show = |hits: &mut dyn Iterator<Item = PackedHit>| {
            shown.clear();
            shown.extend(hits.map(|[query, row, bits]| Hit {
                query,
                row,
                distance: f64::from_bits(bits),
            }));
            take(&shown)
        };
        let (chunks, _held) = match self.place {
            Place::Memory(chunks, held) => (chunks, held),
            Place::Scratch(files, len_bytes) => {
                let mut job = job.clone();
                let limit_bytes = &mut job.options.scratch_limit_bytes;
                *limit_bytes = limit_bytes.saturating_sub(len_bytes);
                let inputs: Vec<Input> = files.iter().map(|(path, _)| Input::raw(path)).collect();
                let stored = Context::of_job(&job).read_inputs::<PackedHit>(&inputs);
                let done = stored.sort().for_each_in_order(|hits| {
                    let mut chunks = hits.chunks(CHUNK_HITS);
                    chunks.try_for_each(|chunk| show(&mut chunk.iter().copied()))
                })?;
                return Ok(done.phases);
            }
        };
        let mut next = self.limits.clone();
        let mut sorted = vec![[0_u64; 2]; next.last().map_or(0, |count| *count as usize)];
        for [query, row, bits] in chunks.into_iter().flatten() {
            sorted[next[query as usize] as usize] = [row, bits];
            next[query as usize] += 1;
        }
        for ends in self.limits.windows(2) {
            sorted[ends[0] as usize..ends[1] as usize].sort_unstable_by_key(|[row, _]| *row);
        }
        let (mut query, limits) = (0, &self.limits);
        for (first, chunk) in (0..).step_by(CHUNK_HITS).zip(sorted.chunks(CHUNK_HITS)) {
            show(&mut (first..).zip(chunk).map(|(number, [row, bits])| {
                while limits[query + 1] <= number {
                    query += 1;
                }
                [query as u64, *row, *bits]
            }))?;
        }
        Ok(Vec::new())
    }
}

/// Adds the number of results so far to the error about the result that did not fit.
fn too_many(error: Error, results: u64) -> Error {
    if error.kind() != Kind::Memory {
        return error;
    }
    let cause = format!(
        "more than {} are within the radius",
        units::counted(results, "result")
    );
    Error::new(Kind::Memory, SEARCH, cause)
        .hint("choose a bound that fewer of them meet, or allow more with --memory")
}

/// Reserves memory for this many results in arrays.
pub(super) fn reserve_arrays(
    budget: &Budget,
    results: u64,
    each_bytes: u64,
) -> Result<Reservation> {
    let reserved = budget.reserve("results", results.saturating_mul(each_bytes));
    reserved.map_err(|error| too_many(error, results))
}
