//! Appends results of unknown length to the outputs in the order of the sequence.
//!
//! Contract: an [`Appender`] has outputs (files or a pipe) and, for each lane of the pass, a
//! sequencer: the number of the piece whose results come next. The thread that holds that piece
//! copies its results to the ends of the outputs and lets the next piece follow. The thread that
//! fills a chunk writes it directly. So outputs hold their items in the order of the sequence,
//! writes are large, and no length need be known in advance. If several lanes go to the same
//! outputs one after another, all lanes except for the first hold their results in memory
//! ([`super::ahead`]). The thread that places the last piece of a lane also places the results that
//! the next lane holds.
//!
//! No deadlock: early results wait in areas of their thread, and a thread uses its last free area
//! only for a piece that can be placed at once. The first unplaced piece can always be placed. A
//! piece that overflows its area is put back; when all pieces before it have been placed, it is
//! computed again, directly into the outputs.
//!
//! N.B. this takes one copy more than writing at offsets from a scan over the counts. That scan was
//! rejected because a filter that keeps 1 % would write pieces of 10 KiB, each with two border
//! blocks.
//!
//! Memory: one chunk per output and some in flight.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ahead::{Hold, LaneResults, Run};
use super::batch::Yield;
use super::pass::{BESIDE, Loaded, Pass, RESULTS, Reader, shield};
use super::pieces::Piece;
use super::producer::{Emit, Maker, Produced, Producer};
use crate::ends::MakeHeader;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil};
use outcore_io::output::StagedOutput;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Result};

/// How long a thread waits for others before it checks again.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Chunks that a thread may be filling or have in flight.
const CHUNKS_A_THREAD: usize = 4;

/// A pipe that receives results.
pub(crate) type Pipe = Mutex<Box<dyn Write + Send>>;

/// The current end of an output.
#[derive(Debug, Default)]
struct End {
    chunk: Option<Buf>,
    filled_bytes: usize,
    /// Offset of the chunk in the file.
    at_bytes: u64,
    /// Bytes of items appended.
    data_bytes: u64,
    /// The first blocks, which contain the header; written again when the header is known.
    head: Vec<u8>,
}

struct Out<'a> {
    target: Target<'a>,
    end: Mutex<End>,
}

enum Target<'a> {
    File {
        file: VolumeFile,
        header_bytes: usize,
    },
    Pipe(&'a Pipe),
}

/// The ends of all outputs.
pub(crate) struct Appender<'a> {
    outs: Vec<Out<'a>>,
    lanes: Vec<Mutex<LaneResults>>,
    /// Number of placed or held pieces of each lane.
    sequencers: Vec<AtomicU64>,
    /// The last lane that places results directly.
    front: AtomicUsize,
    is_in_order: bool,
    hold: Option<Hold>,
    chunks: Option<Pool>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl<'a> Appender<'a> {
    /// Bytes of the chunks of all outputs.
    pub(crate) fn memory_bytes(outs: usize, threads: usize, chunk_bytes: usize) -> u64 {
        ((outs + threads * CHUNKS_A_THREAD) * chunk_bytes) as u64
    }

    /// An appender to the files of `staged`.
    pub(crate) fn to_files(
        pass: &Pass<'_>,
        staged: &StagedOutput,
        chunk_bytes: usize,
    ) -> Result<Self> {
        let outs: Vec<Out<'_>> = staged
            .shards()
            .iter()
            .map(|shard| {
                let header_bytes = shard.plan.header.len();
                Out {
                    target: Target::File {
                        file: shard.file.clone(),
                        header_bytes,
                    },
                    end: Mutex::new(End::default()),
                }
            })
            .collect();
        let slots = outs.len() + pass.sizes.threads * CHUNKS_A_THREAD;
        let chunks = Pool::new(&pass.budget, BESIDE, chunk_bytes, slots)?;
        Ok(Self::new(pass, outs, Some(chunks)))
    }

    /// An appender to a pipe.
    pub(crate) fn to_pipe(pass: &Pass<'_>, pipe: &'a Pipe) -> Self {
        let out = Out {
            target: Target::Pipe(pipe),
            end: Mutex::new(End::default()),
        };
        Self::new(pass, vec![out], None)
    }

    fn new(pass: &Pass<'_>, outs: Vec<Out<'a>>, chunks: Option<Pool>) -> Self {
        let is_in_order = pass.pieces.is_in_order();
        let lanes = 0..pass.pieces.lanes();
        let lane = |index| LaneResults {
            is_in_front: index == 0 || !is_in_order,
            pieces: pass.pieces.len_of(index),
            placed: 0,
            held: Vec::new(),
        };
        Appender {
            outs,
            sequencers: lanes.clone().map(|_| AtomicU64::new(0)).collect(),
            front: AtomicUsize::new(if is_in_order { 0 } else { lanes.end }),
            lanes: lanes.map(|index| Mutex::new(lane(index))).collect(),
            is_in_order,
            hold: None,
            chunks,
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Holds early results (items of `item_bytes`) as far as `pass` has memory left, but only if
    /// the results of a piece fit in an area.
    pub(crate) fn holding(mut self, pass: &Pass<'_>, item_bytes: usize) -> Result<Self> {
        self.hold = Hold::new(pass, item_bytes)?;
        Ok(self)
    }

    /// Whether the results of `piece` could be placed or held now.
    fn is_turn_of(&self, piece: &Piece) -> bool {
        let is_allowed =
            piece.allowance_bytes > 0 || piece.lane <= self.front.load(Ordering::Acquire);
        is_allowed && self.sequencers[piece.lane].load(Ordering::Acquire) == piece.order
    }

    fn lane(&self, index: usize) -> MutexGuard<'_, LaneResults> {
        let lane = self.lanes[index].lock();
        lane.unwrap_or_else(PoisonError::into_inner)
    }

    /// Places or holds the results of `piece`, which is next: the `runs` of `area`.
    fn place(
        &self,
        reader: &mut Reader<'_>,
        placing: &Placing<'_>,
        piece: &Piece,
        area: &mut [u8],
        runs: &[Run],
    ) -> Result<()> {
        let mut lane = self.lane(piece.lane);
        if let (false, Some(hold)) = (lane.is_in_front, &self.hold) {
            let mut held_bytes = 0;
            for run in runs {
                let items = &area[run.start..run.start + run.len_bytes];
                hold.keep(&mut lane, run.out, items)?;
                held_bytes += run.len_bytes as u64;
            }
            drop(lane);
            reader
                .pieces()
                .give_back(piece.allowance_bytes - held_bytes);
        } else {
            drop(lane);
            self.append_runs(reader, placing, area, runs)?;
            reader.pieces().give_back(piece.allowance_bytes);
        }
        self.pass_on(reader, placing, piece.lane)
    }

    fn append_runs(
        &self,
        reader: &mut Reader<'_>,
        placing: &Placing<'_>,
        area: &mut [u8],
        runs: &[Run],
    ) -> Result<()> {
        for run in runs {
            let results = &mut area[run.start..run.start + run.len_bytes];
            placing.finish(results, run.out)?;
            self.append(reader, run.out, results)?;
        }
        Ok(())
    }

    /// Lets the next piece of `lane` be placed; after the last piece, lets the next lane follow.
    fn pass_on(&self, reader: &mut Reader<'_>, placing: &Placing<'_>, lane: usize) -> Result<()> {
        let mut state = self.lane(lane);
        state.placed += 1;
        let is_last = state.is_in_front && state.placed == state.pieces;
        drop(state);
        self.sequencers[lane].fetch_add(1, Ordering::AcqRel);
        if is_last && self.is_in_order {
            self.bring_to_front(reader, placing, lane + 1)?;
        }
        drop(self.lock.lock());
        self.changed.notify_all();
        Ok(())
    }

    /// Places the results that `lane` holds. If the lane is complete, continues with the next lane.
    fn bring_to_front(
        &self,
        reader: &mut Reader<'_>,
        placing: &Placing<'_>,
        lane: usize,
    ) -> Result<()> {
        for lane in lane..self.lanes.len() {
            let is_complete = loop {
                let mut state = self.lane(lane);
                if state.held.is_empty() {
                    state.is_in_front = true;
                    break state.placed == state.pieces;
                }
                let held = std::mem::take(&mut state.held);
                drop(state);
                for mut held in held {
                    let len_bytes = held.len_bytes() as u64;
                    self.append_runs(reader, placing, &mut held.buf, &held.runs)?;
                    drop(held);
                    reader.pieces().give_back(len_bytes);
                }
            };
            self.front.store(lane, Ordering::Release);
            reader.pieces().set_front(lane);
            if !is_complete {
                return Ok(());
            }
        }
        Ok(())
    }

    fn wait(&self) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_timeout(guard, LOOK_EVERY));
    }

    /// Appends `bytes` to output `index`; only for the next piece.
    pub(crate) fn append(&self, reader: &mut Reader<'_>, index: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let out = &self.outs[index];
        let mut end = out.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.data_bytes += bytes.len() as u64;
        match &out.target {
            Target::Pipe(pipe) => {
                let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.write_all(bytes)
                    .map_err(|e| Error::io("write output", &e))
            }
            Target::File { file, header_bytes } => {
                if end.chunk.is_none() && end.at_bytes == 0 && *header_bytes > 0 {
                    let zeros = vec![0; *header_bytes];
                    self.fill(reader, file, *header_bytes, &mut end, &zeros)?;
                }
                self.fill(reader, file, *header_bytes, &mut end, bytes)
            }
        }
    }

    fn fill(
        &self,
        reader: &mut Reader<'_>,
        file: &VolumeFile,
        header_bytes: usize,
        end: &mut End,
        bytes: &[u8],
    ) -> Result<()> {
        let mut left = bytes;
        let head_bytes = block_ceil(header_bytes as u64);
        while !left.is_empty() {
            let mut chunk = match (end.chunk.take(), &self.chunks) {
                (Some(chunk), _) => chunk,
                (None, Some(pool)) => reader.area(pool)?,
                (None, None) => return Ok(()),
            };
            let from = end.filled_bytes;
            let (front, behind) = left.split_at(left.len().min(chunk.len() - from));
            chunk[from..from + front.len()].copy_from_slice(front);
            left = behind;
            let place = end.at_bytes + from as u64;
            if place < head_bytes {
                let wanted = ((head_bytes - place) as usize).min(front.len());
                end.head.extend_from_slice(&front[..wanted]);
            }
            end.filled_bytes += front.len();
            if end.filled_bytes < chunk.len() {
                end.chunk = Some(chunk);
                continue;
            }
            let at_bytes = end.at_bytes;
            end.at_bytes += chunk.len() as u64;
            end.filled_bytes = 0;
            reader.transfers.write_behind(file, at_bytes, chunk)?;
        }
        Ok(())
    }

    /// Writes the rest of all outputs, and their headers; returns the bytes of items in each.
    pub(crate) fn finish(
        self,
        volume: &Volume,
        header: Option<&MakeHeader>,
        item_bytes: usize,
    ) -> Result<Vec<u64>> {
        let mut writes = Transfers::<()>::new(volume)?;
        let mut lens = Vec::with_capacity(self.outs.len());
        let budget_pool = self.chunks;
        for out in self.outs {
            let mut end = out.end.into_inner().unwrap_or_else(PoisonError::into_inner);
            lens.push(end.data_bytes);
            let (file, header_bytes) = match &out.target {
                Target::File { file, header_bytes } => (file, *header_bytes),
                Target::Pipe(pipe) => {
                    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                    pipe.flush().map_err(|e| Error::io("write output", &e))?;
                    continue;
                }
            };
            if let Some(mut chunk) = end.chunk.take() {
                let len_bytes = block_ceil(end.filled_bytes as u64) as usize;
                chunk[end.filled_bytes..len_bytes].fill(0);
                let whole = chunk.split_to(len_bytes);
                drop(chunk);
                writes.write_behind(file, end.at_bytes, whole)?;
                writes.finish(|| Ok(()))?;
            }
            let (Some(make), true) = (header, header_bytes > 0) else {
                continue;
            };
            let mut head = make(end.data_bytes / item_bytes as u64);
            head.resize(header_bytes, b' ');
            end.head.resize(block_ceil(header_bytes as u64) as usize, 0);
            end.head[..header_bytes].copy_from_slice(&head);
            for (number, block) in end.head.chunks(BLOCK_BYTES).enumerate() {
                let taken = budget_pool.as_ref().and_then(Pool::take);
                let Some(mut slot) = taken else {
                    return Err(Error::usage("write header", "no buffer is free"));
                };
                let mut buf = slot.split_to(BLOCK_BYTES);
                buf.copy_from_slice(block);
                let at_bytes = (number * BLOCK_BYTES) as u64;
                writes.write_behind(file, at_bytes, buf)?;
                drop(slot);
                writes.finish(|| Ok(()))?;
            }
        }
        Ok(lens)
    }
}

/// The origin of results in the sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    /// The stretch.
    pub(crate) stretch: usize,
    /// The position of the first result, if every position yields one.
    pub(crate) first: u64,
}

/// Groups the results at the start of an area by output; returns the runs.
pub(crate) type Arrange<'a> = dyn Fn(&mut [u8], usize, At) -> Result<Vec<Run>> + Sync + 'a;

/// Changes results for an output just before they are appended, one piece after another.
pub(crate) type InSequence<'a> = dyn Fn(&mut [u8], usize) -> Result<()> + Sync + 'a;

/// Processing of results between producer and outputs.
pub(crate) struct Placing<'a> {
    /// Processes results in parallel, on any thread.
    pub(crate) arrange: &'a Arrange<'a>,
    /// Processes results in order.
    pub(crate) in_sequence: Option<&'a InSequence<'a>>,
    /// Bytes of an area that results may fill; the rest is for `arrange`.
    pub(crate) fill_bytes: usize,
}

impl Placing<'_> {
    fn finish(&self, results: &mut [u8], out: usize) -> Result<()> {
        match self.in_sequence {
            Some(in_sequence) => shield(|| in_sequence(results, out)),
            None => Ok(()),
        }
    }
}

/// Results that wait until those before them are placed.
struct Pending {
    piece: Piece,
    area: Buf,
    runs: Vec<Run>,
}

/// A loaded piece, and whether its results are known to overflow an area.
type Ready = (Loaded, bool);

/// Loaded pieces, in order, for any free thread.
struct Shared<'a, 'b> {
    pass: &'a Pass<'b>,
    producer: &'a dyn Producer,
    appender: &'a Appender<'a>,
    placing: &'a Placing<'a>,
    ready: Mutex<BTreeMap<(u64, usize), Ready>>,
}

/// Runs `producer` over all pieces and appends its results in order.
pub(crate) fn run(
    pass: &Pass<'_>,
    producer: &dyn Producer,
    appender: &Appender<'_>,
    placing: &Placing<'_>,
) -> Result<()> {
    let shared = Shared {
        pass,
        producer,
        appender,
        placing,
        ready: Mutex::default(),
    };
    pass.thread_group.run(|_| {
        let sizes = &pass.sizes;
        let areas = Pool::new(&pass.budget, RESULTS, sizes.area_bytes, sizes.areas)?;
        let mut worker = Worker {
            shared: &shared,
            reader: pass.reader()?,
            make: producer.maker(),
            areas,
            pending: Vec::new(),
        };
        worker.run()
    })
}

struct Worker<'a, 'b> {
    shared: &'a Shared<'a, 'b>,
    reader: Reader<'a>,
    make: Maker<'a>,
    areas: Pool,
    pending: Vec<Pending>,
}

impl Worker<'_, '_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.shared.pass.thread_group.check()?;
            let queued = self.ready().len();
            if queued < self.shared.pass.sizes.threads * self.shared.pass.sizes.window {
                self.reader.fill()?;
            }
            self.reader.start()?;
            while let Some(loaded) = self.reader.take_ready() {
                let key = (loaded.piece.order, loaded.piece.lane);
                self.ready().insert(key, (loaded, false));
            }
            let has_placed = self.place_pending()?;
            let next = self.take();
            let is_idle = next.is_none() && !has_placed;
            if let Some((loaded, is_large)) = next {
                self.work(loaded, is_large)?;
            }
            if !is_idle {
                continue;
            }
            if self.reader.transfers.in_flight() > 0 {
                // All threads may be waiting for a piece that is still being read.
                self.reader.wait()?;
            } else if self.pending.is_empty() && self.ready().is_empty() && self.reader.is_done() {
                return self.reader.drain();
            } else {
                self.shared.appender.wait();
            }
        }
    }

    fn ready(&self) -> std::sync::MutexGuard<'_, BTreeMap<(u64, usize), Ready>> {
        let ready = &self.shared.ready;
        ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first piece for which this thread has room.
    fn take(&self) -> Option<Ready> {
        let is_last_area = match self.areas.free_slots() {
            0 => return None,
            free => free == 1,
        };
        let mut ready = self.ready();
        let may = |loaded: &Loaded, is_large: bool| {
            let needs_turn = is_last_area || is_large;
            !needs_turn || self.shared.appender.is_turn_of(&loaded.piece)
        };
        let found = ready
            .iter()
            .find(|(_, (loaded, is_large))| may(loaded, *is_large));
        let key = *found?.0;
        ready.remove(&key)
    }

    fn work(&mut self, loaded: Loaded, is_large: bool) -> Result<()> {
        let Some(mut area) = self.areas.take() else {
            return Ok(());
        };
        let (shared, reader, make) = (self.shared, &mut self.reader, &mut self.make);
        let (appender, placing) = (shared.appender, shared.placing);
        let (batch, piece) = (loaded.batch(), loaded.piece);
        let mut at = At {
            stretch: piece.stretch,
            first: piece.first,
        };
        if is_large {
            let (front, behind) = area.split_at_mut(placing.fill_bytes);
            let item_bytes = shared.producer.item_bytes();
            let mut flush = |items: &mut [u8]| {
                behind[..items.len()].copy_from_slice(items);
                let runs = (placing.arrange)(behind, items.len(), at)?;
                at.first += (items.len() / item_bytes) as u64;
                appender.append_runs(reader, placing, behind, &runs)
            };
            let mut emit = Emit::streaming(front, &mut flush);
            shield(|| make(batch, &mut emit))?;
            emit.finish()?;
            appender.pass_on(reader, placing, piece.lane)?;
            self.reader.done(&loaded);
            return Ok(());
        }
        let mut emit = Emit::bounded(&mut area[..placing.fill_bytes]);
        let produced = shield(|| make(batch, &mut emit))?;
        let len = emit.len();
        if produced == Produced::Overflow {
            let key = (piece.order, piece.lane);
            self.ready().insert(key, (loaded, true));
            return Ok(());
        }
        let runs = shield(|| (placing.arrange)(&mut area, len, at))?;
        self.reader.done(&loaded);
        self.pending.push(Pending { piece, area, runs });
        Ok(())
    }

    /// Appends the results that come next; true if there were any.
    fn place_pending(&mut self) -> Result<bool> {
        let mut has_placed = false;
        loop {
            let appender = self.shared.appender;
            let is_next = |pending: &Pending| appender.is_turn_of(&pending.piece);
            let Some(index) = self.pending.iter().position(is_next) else {
                return Ok(has_placed);
            };
            let Pending {
                piece,
                mut area,
                runs,
            } = self.pending.swap_remove(index);
            let placing = self.shared.placing;
            appender.place(&mut self.reader, placing, &piece, &mut area, &runs)?;
            has_placed = true;
        }
    }
}

/// Size of an area in multiples of a piece. A streaming piece needs room after its results, to
/// which it copies the bytes that it flushes.
pub(crate) fn areas_for(yields: Yield, is_arranged: bool) -> usize {
    1 + usize::from(yields == Yield::Any) + usize::from(is_arranged)
}
