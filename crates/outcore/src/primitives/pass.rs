//! One pass over the sources: sizes from the available memory, and each thread's reads.
//!
//! Contract (PALID, SPAA 2025, section 3, file streamer): a [`Reader`] is one thread's window of
//! pieces in flight. A piece is ready when all its sources have arrived. It is handed out whole,
//! with every source aligned for its elements. A fault of the user's functions fails the job with
//! their own message ([`shield`]).
//!
//! Bounds: memory per thread is `window` slots for each source and the areas that the consumer
//! requested, at most seven eighths of the job's memory in all. I/O is one read of the sources;
//! adjacent pieces share border blocks.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::batch::{Batch, SOURCES_MAX, Source};
use super::pieces::{Lanes, OpenSources, Piece, Pieces, grain_of};
use super::summary::{Summary, plan_phase};
use crate::ends::{Phases, check_unchanged};
use crate::forecast::{Forecast, PhasePlan};
use crate::job::Job;
use crate::job::thread_group::{ThreadGroup, panic_text};
use crate::read::source::became_shorter;
use outcore_io::memory::{BLOCK_BYTES, Budget, Buf, Ledger, Pool, block_ceil, block_floor};
use outcore_io::port::Volume;
use outcore_io::transfers::{Arrival, Transfers};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Length of a piece on drives: larger reads gain nothing.
const PIECE_BYTES: u64 = 1 << 20;
/// Preferred alignment of writes: drives are slower with writes that begin at multiples of only 4
/// KiB.
const WRITE_ALIGN_BYTES: u64 = 64 << 10;
/// Length of a piece in memory: the copied bytes are still in the cache when they are processed.
const RAM_PIECE_BYTES: u64 = 256 << 10;
/// Pieces in flight per thread: for one drive, and for each further one. Larger windows and larger
/// pieces gain nothing.
const WINDOW: usize = 6;
const WINDOW_A_DRIVE: usize = 3;
/// The smallest window that a thread can work with.
const WINDOW_MIN: usize = 2;

/// Names of a pass's reservations: its reads, areas for its results, and its consumer's own memory.
const INPUT: &str = "pieces to read";
pub(crate) const RESULTS: &str = "areas for results";
pub(crate) const BESIDE: &str = "data kept next to the pieces";

/// Whole blocks that contain this many bytes at any offset.
fn with_borders(bytes: u64) -> u64 {
    block_ceil(bytes) + 2 * BLOCK_BYTES as u64
}

/// Calls the user's functions: a panic in them is the user's failure, not the engine's.
pub(crate) fn shield<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// The error for a panic of the user's functions: the error that the panic carries, if any.
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let panic = match panic.downcast::<Error>() {
        Ok(error) => return *error,
        Err(panic) => panic,
    };
    let cause = format!("it panicked: {}", panic_text(panic.as_ref()));
    Error::usage("run the given function", cause)
        .hint("correct the function; nothing was left behind")
}

/// What a consumer needs besides the sources.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Demand {
    /// Result bytes per position: the maximum, or the usual number if there is no limit.
    pub(crate) out_bytes: usize,
    /// Areas for a piece's results, per thread.
    pub(crate) areas: usize,
    /// Bytes needed in any case, independent of the threads.
    pub(crate) fixed_bytes: u64,
    /// Bytes needed per thread.
    pub(crate) thread_bytes: u64,
}

/// Sizes of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Positions in a piece.
    pub(crate) items: u64,
    /// Pieces in flight per thread.
    pub(crate) window: usize,
    /// Areas for results per thread, and the size of each: a piece's results and two blocks.
    pub(crate) areas: usize,
    pub(crate) area_bytes: usize,
    pub(crate) threads: usize,
    /// The rest of the memory.
    pub(crate) spare_bytes: u64,
}

/// A multiple of `grain` items of the given size that ends at a multiple of [`WRITE_ALIGN_BYTES`],
/// unless that exceeds `bytes_max`.
fn aligned_unit(grain: u64, item_bytes: u64, bytes_max: u64) -> u64 {
    let even_bits = (grain * item_bytes).trailing_zeros();
    let aligned = grain * (WRITE_ALIGN_BYTES >> even_bits.min(WRITE_ALIGN_BYTES.ilog2()));
    match aligned * item_bytes <= bytes_max {
        true => aligned,
        false => grain,
    }
}

/// Memory with which a pass that needs `needed_bytes` can run. It includes the memory that others
/// hold, and the data of the caller besides the pieces, which may grow with the memory.
fn enough_bytes(needed_bytes: u64, demand: Demand, budget: &Budget) -> u64 {
    const LEAST_BYTES: u64 = 4 << 20;
    let free_bytes = budget.free_bytes().max(1);
    // Memory besides the pass is counted in eighths of the free memory; the pass gets seven
    // eighths.
    let beside_eighths = (demand.fixed_bytes * 8).div_ceil(free_bytes).min(4);
    let growing_bytes = needed_bytes.saturating_sub(demand.fixed_bytes) * 8 / (7 - beside_eighths);
    let enough_bytes = growing_bytes.max(needed_bytes.div_ceil(7) * 8) + budget.used_bytes();
    enough_bytes.next_multiple_of(1 << 20).max(LEAST_BYTES)
}

impl Geometry {
    /// Large pieces with many in flight, if memory allows; then smaller pieces, then fewer.
    pub(crate) fn new(job: &Job, sources: &OpenSources, demand: Demand) -> Result<Self> {
        let is_generated = sources.position_bytes() == 0 && demand.out_bytes > 0;
        let grain = match is_generated {
            true => grain_of(demand.out_bytes as u64),
            false => sources.grain(),
        };
        let source_bytes: Vec<u64> = sources
            .open
            .iter()
            .map(|source| source.element_bytes as u64)
            .filter(|bytes| *bytes > 0)
            .collect();
        let position_bytes = source_bytes
            .iter()
            .sum::<u64>()
            .max(demand.out_bytes as u64);
        let wanted_bytes = match sources.is_in_memory() && !is_generated {
            true => RAM_PIECE_BYTES,
            false => PIECE_BYTES,
        };
        let files = sources.open.iter().flat_map(|source| &source.parts);
        let mut drives: Vec<usize> = files.map(|part| part.file.drive_index).collect();
        drives.sort_unstable();
        drives.dedup();
        let further = drives.len().saturating_sub(1) * WINDOW_A_DRIVE;
        let threads = job.options.threads.max(1);
        let unit = match is_generated {
            true => aligned_unit(grain, position_bytes, 2 * wanted_bytes),
            false => grain,
        };
        let mut sizes = Geometry {
            items: (wanted_bytes / (unit * position_bytes.max(1))).max(1) * unit,
            window: WINDOW + further,
            areas: match demand.areas {
                0 => 0,
                // Nothing is read: only results are in flight.
                areas if is_generated => 2 * areas,
                areas => areas + further / 2,
            },
            area_bytes: 0,
            threads,
            spare_bytes: 0,
        };
        let areas_min = if is_generated { 1 } else { demand.areas };
        let needed = |sizes: &Geometry| sizes.ledger(sources, demand).bytes();
        let free_bytes = job.budget.free_bytes();
        let limit_bytes = free_bytes / 8 * 7;
        while needed(&sizes) > limit_bytes {
            if sizes.items > grain && sizes.items * position_bytes > PIECE_BYTES / 4 {
                sizes.items = (sizes.items / 2).next_multiple_of(grain);
            } else if sizes.window > WINDOW_MIN {
                sizes.window -= 1;
            } else if sizes.areas > areas_min {
                sizes.areas -= 1;
            } else if sizes.items > grain {
                sizes.items = (sizes.items / 2).next_multiple_of(grain);
            } else {
                let needed_bytes = needed(&sizes).div_ceil(7) * 8;
                let cause = format!(
                    "{} need at least {}, but only {} are free",
                    units::counted(threads as u64, "thread"),
                    units::bytes(needed_bytes),
                    units::bytes(free_bytes)
                );
                let enough = units::bytes_exact(enough_bytes(needed(&sizes), demand, &job.budget));
                return Err(Error::new(Kind::Memory, "plan pass", cause)
                    .hint(format!("allow --memory {enough}, or use fewer --threads")));
            }
        }
        sizes.spare_bytes = limit_bytes - needed(&sizes);
        sizes.area_bytes = with_borders(sizes.items * demand.out_bytes as u64) as usize;
        Ok(sizes)
    }

    /// The smallest memory that one thread needs.
    pub(crate) fn least_bytes(sources: &OpenSources, demand: Demand) -> u64 {
        let is_generated = sources.position_bytes() == 0 && demand.out_bytes > 0;
        let smallest = Geometry {
            items: match is_generated {
                true => grain_of(demand.out_bytes as u64),
                false => sources.grain(),
            },
            window: WINDOW_MIN,
            areas: demand.areas,
            area_bytes: 0,
            threads: 1,
            spare_bytes: 0,
        };
        smallest.ledger(sources, demand).bytes().div_ceil(7) * 8
    }

    /// The reservations of a pass, for all threads together.
    fn ledger(&self, sources: &OpenSources, demand: Demand) -> Ledger {
        let sources = sources.open.iter();
        let sources = sources.filter(|source| source.element_bytes > 0);
        let slots = sources.map(|source| with_borders(self.items * source.element_bytes as u64));
        let area_bytes = with_borders(self.items * demand.out_bytes as u64);
        let threads = self.threads as u64;
        Ledger::new("pass")
            .always(INPUT, threads * self.window as u64 * slots.sum::<u64>())
            .always(RESULTS, threads * self.areas as u64 * area_bytes)
            .always(BESIDE, threads * demand.thread_bytes + demand.fixed_bytes)
    }
}

/// A sample of evenly spread pieces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// The approximate number of pieces.
    pub(crate) pieces: u64,
    /// The number of positions in each piece.
    pub(crate) positions: u64,
}

/// The source and the slot of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotRead {
    slot: usize,
    source: usize,
}

/// A prepared pass: sources open, sizes chosen.
pub(crate) struct Pass<'a> {
    pub(crate) job: &'a Job,
    pub(crate) volume: Arc<Volume>,
    pub(crate) pieces: Pieces,
    pub(crate) sizes: Geometry,
    pub(crate) thread_group: ThreadGroup<'a>,
    /// The memory of the pass, as named in its ledger.
    pub(crate) budget: Budget,
    /// Progress per position if nothing is read: the bytes of its result.
    generated_bytes: u64,
    phases: Mutex<PassPhases>,
}

/// The phases of a pass so far, with their predictions.
struct PassPhases {
    ended: Phases,
    planned: Vec<PhasePlan>,
    /// The current phase.
    current: Option<&'static str>,
}

impl<'a> Pass<'a> {
    /// Opens `sources` and chooses sizes. Outputs are opened before threads have their ports.
    pub(crate) fn open(
        job: &'a Job,
        sources: &[Source],
        lanes: Lanes,
        demand: Demand,
    ) -> Result<Self> {
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        Self::open_on(volume, job, sources, lanes, demand)
    }

    /// Like `open`, but on a volume that also counts the traffic of others.
    pub(crate) fn open_on(
        volume: Arc<Volume>,
        job: &'a Job,
        sources: &[Source],
        lanes: Lanes,
        demand: Demand,
    ) -> Result<Self> {
        Self::open_part(volume, job, sources, lanes, demand, None)
    }

    /// A pass over a sample.
    pub(crate) fn open_sample(
        volume: Arc<Volume>,
        job: &'a Job,
        sources: &[Source],
        demand: Demand,
        sample: Sample,
    ) -> Result<Self> {
        Self::open_part(volume, job, sources, Lanes::Drives, demand, Some(sample))
    }

    fn open_part(
        volume: Arc<Volume>,
        job: &'a Job,
        sources: &[Source],
        lanes: Lanes,
        demand: Demand,
        sample: Option<Sample>,
    ) -> Result<Self> {
        let ended = Phases::start();
        let sources = OpenSources::open(&volume, sources, lanes)?;
        let mut sizes = Geometry::new(job, &sources, demand)?;
        let budget = sizes.ledger(&sources, demand).open(&job.budget)?;
        let pieces = match sample {
            None => Pieces::new(sources, sizes.items),
            Some(sample) => {
                sizes.items = sizes.items.min(sample.positions);
                Pieces::new(sources, sizes.items).sampled(sample.pieces)
            }
        };
        let thread_group = ThreadGroup::new(job, pieces.len()).near(&volume);
        Ok(Pass {
            job,
            volume,
            pieces,
            sizes,
            thread_group,
            budget,
            generated_bytes: demand.out_bytes as u64,
            phases: Mutex::new(PassPhases {
                ended,
                planned: Vec::new(),
                current: None,
            }),
        })
    }

    /// Number of positions.
    pub(crate) fn count(&self) -> u64 {
        self.pieces.sources.count
    }

    /// Begins a phase that takes each piece once and writes the given amount.
    pub(crate) fn begin_phase(&self, name: &'static str, written: Forecast) {
        let read_bytes = self.pieces.sources.read_bytes();
        self.begin_reading(name, read_bytes.into(), written);
    }

    /// Begins a phase that reads and writes the given amounts.
    pub(crate) fn begin_reading(&self, name: &'static str, read: Forecast, written: Forecast) {
        // Progress counts positions, whatever share of their bytes is read again.
        let sources = &self.pieces.sources;
        let bytes = match (read.bytes(), sources.data_bytes()) {
            (Some(0), 0) => self.count() * self.generated_bytes,
            (Some(bytes), data_bytes) if bytes == sources.read_bytes() => data_bytes,
            (bytes, _) => bytes.unwrap_or(0),
        };
        self.job.control.begin_phase(name, bytes);
        let (sources, items) = (&self.pieces.sources, self.sizes.items);
        let layout = sources.layout(self.job);
        let plan = plan_phase(name, sources, items, read, written, &layout);
        let mut phases = self.phases();
        phases.planned.push(plan);
        phases.current = Some(name);
    }

    fn phases(&self) -> MutexGuard<'_, PassPhases> {
        self.phases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the phase and publishes its results.
    pub(crate) fn publish(&self, publish: impl FnOnce(&Volume) -> Result<()>) -> Result<()> {
        let mut phases = self.phases();
        if let Some(name) = phases.current.take() {
            phases.ended.end(name, &self.volume);
        }
        self.job.control.begin_phase("publish", 0);
        publish(&self.volume)?;
        phases.ended.end("publish", &self.volume);
        Ok(())
    }

    /// A thread's reader.
    pub(crate) fn reader(&self) -> Result<Reader<'_>> {
        Reader::new(self)
    }

    /// Ends the pass: fails if a source changed in the meantime.
    pub(crate) fn check_sources(&self) -> Result<()> {
        let sources = &self.pieces.sources.open;
        sources
            .iter()
            .try_for_each(|source| check_unchanged(&self.volume, &source.parts, false))
    }

    /// The summary: the number of results, and how many of their bytes went to a pipe.
    pub(crate) fn summary(&self, records: u64, piped_bytes: u64) -> Summary {
        let mut phases = self.phases();
        if let Some(name) = phases.current.take() {
            phases.ended.end(name, &self.volume);
        }
        let ended = phases.ended.clone();
        Summary::of_pass(
            &self.volume,
            ended,
            &phases.planned,
            self.count(),
            records,
            piped_bytes,
        )
    }

    /// Reads all pieces, in any order, and calls `visit` with each on any thread; `state` makes a
    /// state per thread, and `end` takes it back.
    pub(crate) fn each_piece<S>(
        &self,
        state: impl Fn() -> Result<S> + Sync,
        visit: impl Fn(&mut S, &mut Reader<'_>, &Loaded) -> Result<()> + Sync,
        end: impl Fn(S, &mut Reader<'_>) -> Result<()> + Sync,
    ) -> Result<()> {
        self.thread_group.run(|_| {
            let mut state = state()?;
            let mut reader = self.reader()?;
            reader.each(&mut |reader, loaded| visit(&mut state, reader, loaded))?;
            end(state, &mut reader)?;
            reader.drain()
        })
    }
}

/// A loaded piece.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) piece: Piece,
    /// The bytes read from each source.
    bufs: [Option<Buf>; SOURCES_MAX],
    /// The elements of each source: the source that read them, their offset, and their length.
    places: [Option<(usize, usize, usize)>; SOURCES_MAX],
}

impl Loaded {
    /// The elements of the piece.
    pub(crate) fn batch(&self) -> Batch<'_> {
        let mut slices: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
        for (slice, place) in slices.iter_mut().zip(self.places) {
            if let Some((source, skip, len)) = place
                && let Some(buf) = &self.bufs[source]
            {
                *slice = &buf[skip..skip + len];
            }
        }
        let mut batch = Batch::new(self.piece.first, self.piece.count, &slices);
        batch.is_sample = self.piece.is_sample;
        batch
    }
}

/// A piece of which some sources are still being read.
struct Loading {
    loaded: Loaded,
    missing: usize,
}

/// One thread's reads.
pub(crate) struct Reader<'a> {
    pass: &'a Pass<'a>,
    /// Reads by slot and source; their results are written after them.
    pub(crate) transfers: Transfers<SlotRead>,
    pools: Vec<Option<Pool>>,
    loading: Vec<Option<Loading>>,
    ready: VecDeque<Loaded>,
    is_over: bool,
}

impl<'a> Reader<'a> {
    fn new(pass: &'a Pass<'a>) -> Result<Self> {
        let pool = |bytes: usize| {
            let slot_bytes = with_borders(pass.sizes.items * bytes as u64) as usize;
            Pool::new(&pass.budget, INPUT, slot_bytes, pass.sizes.window).map(Some)
        };
        let pools = pass.pieces.sources.open.iter();
        let pools = pools.map(|source| match source.element_bytes {
            0 => Ok(None),
            bytes => pool(bytes),
        });
        Ok(Reader {
            pools: pools.collect::<Result<Vec<_>>>()?,
            transfers: Transfers::new(&pass.volume)?,
            loading: (0..pass.sizes.window).map(|_| None).collect(),
            ready: VecDeque::new(),
            is_over: false,
            pass,
        })
    }

    /// The pieces from which the reader takes.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pass.pieces
    }

    /// Stops claiming pieces; reads in flight are still finished.
    pub(crate) fn stop(&mut self) {
        self.is_over = true;
    }

    /// Whether no read is in flight and no piece is left.
    pub(crate) fn is_done(&self) -> bool {
        self.is_over && self.ready.is_empty() && self.loading.iter().all(Option::is_none)
    }

    /// Waits for the next loaded piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Loaded>> {
        loop {
            self.pass.thread_group.check()?;
            self.fill()?;
            if let Some(loaded) = self.ready.pop_front() {
                return Ok(Some(loaded));
            }
            if self.is_done() {
                return Ok(None);
            }
            self.wait()?;
        }
    }

    /// Calls `visit` with all remaining pieces.
    fn each(&mut self, visit: &mut dyn FnMut(&mut Self, &Loaded) -> Result<()>) -> Result<()> {
        while let Some(loaded) = self.next()? {
            visit(self, &loaded)?;
            self.done(&loaded);
        }
        Ok(())
    }

    /// A loaded piece, if there is one.
    pub(crate) fn take_ready(&mut self) -> Option<Loaded> {
        self.ready.pop_front()
    }

    /// Counts a piece as done.
    pub(crate) fn done(&self, loaded: &Loaded) {
        let position_bytes = match self.pass.pieces.sources.position_bytes() {
            0 => self.pass.generated_bytes,
            bytes => bytes as u64,
        };
        let bytes = loaded.piece.count as u64 * position_bytes;
        self.pass.job.control.advance(bytes);
        self.pass.job.control.watch(&self.pass.volume);
    }

    /// Starts reads for all free slots.
    pub(crate) fn fill(&mut self) -> Result<()> {
        let mut is_any = false;
        while !self.is_over && self.start_one()? {
            is_any = true;
        }
        if is_any {
            self.start()?;
        }
        Ok(())
    }

    /// Starts the reads of one piece; false if there is no slot or no piece.
    fn start_one(&mut self) -> Result<bool> {
        let Some(slot) = self.loading.iter().position(Option::is_none) else {
            return Ok(false);
        };
        // A generated piece needs no slot: a free thread makes it when it is next.
        let is_generated = self.pools.iter().all(Option::is_none);
        if is_generated && !self.ready.is_empty() {
            return Ok(false);
        }
        let mut bufs = [const { None }; SOURCES_MAX];
        for (buf, pool) in bufs.iter_mut().zip(&self.pools) {
            if let Some(pool) = pool {
                *buf = pool.take();
                if buf.is_none() {
                    return Ok(false);
                }
            }
        }
        let Some(piece) = self.pass.pieces.next(self.transfers.port()) else {
            self.is_over = true;
            return Ok(false);
        };
        let sources = &self.pass.pieces.sources;
        let mut loading = Loading {
            loaded: Loaded {
                piece,
                bufs: [const { None }; SOURCES_MAX],
                places: [None; SOURCES_MAX],
            },
            missing: 0,
        };
        let reads = sources.reads_of(&piece);
        for (source, (buf, read)) in bufs.into_iter().zip(reads).enumerate() {
            let read = read.filter(|read| read.reader == source);
            let Some((mut buf, read)) = buf.zip(read) else {
                continue;
            };
            let at_bytes = block_floor(read.from_bytes);
            let front = buf.split_to((block_ceil(read.end_bytes) - at_bytes) as usize);
            let file = &sources.part_of(&piece, source).file;
            let read = SlotRead { slot, source };
            self.transfers.read(file, at_bytes, front, read);
            loading.missing += 1;
        }
        if loading.missing == 0 {
            self.ready.push_back(loading.loaded);
        } else {
            self.loading[slot] = Some(loading);
        }
        Ok(true)
    }

    /// Starts submitted requests and collects completed ones, reads and writes.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.transfers.start()?;
        self.settle()
    }

    /// Like `start`, but waits a short time if no piece is ready.
    pub(crate) fn wait(&mut self) -> Result<()> {
        if !self.ready.is_empty() {
            return self.start();
        }
        self.transfers.wait()?;
        self.settle()
    }

    fn settle(&mut self) -> Result<()> {
        while let Some(arrival) = self.transfers.take()? {
            self.arrived(arrival)?;
        }
        Ok(())
    }

    fn arrived(&mut self, arrival: Arrival<SlotRead>) -> Result<()> {
        let SlotRead { slot, source } = arrival.what;
        let Some(loading) = &mut self.loading[slot] else {
            return Ok(());
        };
        let piece = &loading.loaded.piece;
        let sources = &self.pass.pieces.sources;
        let reads = sources.reads_of(piece);
        let Some(read) = reads[source] else {
            return Ok(());
        };
        let at_bytes = block_floor(read.from_bytes);
        let mut skip_bytes = (read.from_bytes - at_bytes) as usize;
        let span_bytes = (read.end_bytes - read.from_bytes) as usize;
        if arrival.len_bytes < skip_bytes + span_bytes {
            let end_bytes = at_bytes + arrival.len_bytes as u64;
            return Err(became_shorter(sources.part_of(piece, source), end_bytes));
        }
        let mut buf = arrival.buf;
        let align_bytes = sources.open[source].align_bytes;
        if !skip_bytes.is_multiple_of(align_bytes) {
            buf.copy_within(skip_bytes..skip_bytes + span_bytes, 0);
            skip_bytes = 0;
        }
        loading.loaded.bufs[source] = Some(buf);
        for (place, shared) in loading.loaded.places.iter_mut().zip(reads) {
            if let Some(shared) = shared.filter(|shared| shared.reader == source) {
                let from = skip_bytes + (shared.from_bytes - read.from_bytes) as usize;
                *place = Some((source, from, shared.payload_bytes));
            }
        }
        loading.missing -= 1;
        if loading.missing == 0
            && let Some(loading) = self.loading[slot].take()
        {
            self.ready.push_back(loading.loaded);
        }
        Ok(())
    }

    /// A free area of `pool`; waits until a write of this thread returns one.
    pub(crate) fn area(&mut self, pool: &Pool) -> Result<Buf> {
        self.transfers
            .buffer(pool, || self.pass.thread_group.check())
    }

    /// Waits until nothing is in flight.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.transfers.finish(|| self.pass.thread_group.check())?;
        self.settle()
    }
}
