//! The second phase: buckets are loaded, permuted in memory and written at their final place.
//!
//! Contract: each worker keeps the next buckets loading while it permutes one and earlier ones are
//! being written. The records of a bucket are named by their places in the area, in the order of the
//! input; what is left of the tree throws the names into leaves, each leaf is permuted, and records
//! are gathered in that order into buffers laid out like the output; numbers are dealt there right
//! away, as far as a leaf fits. Every segment's checksum is verified first. Into a pipe buckets go in
//! turn.
//!
//! Bounds: the plan's areas, output buffers and names; each segment is read once, each output byte
//! written once.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytemuck::Pod;

use super::Shared;
use super::plan::{PERMUTING, PLACES};
use super::records::Records;
use super::throw::{NodeBucket, chunk_and_number};
use super::tree::{Walk, fan_out};
use crate::algo::partition::kernel::count_each;
use crate::algo::partition::load::Load;
use crate::algo::place::{Turns, write_pipe};
use crate::error::{Error, Kind, Result};
use crate::memory::{Buf, Pool, block_ceil};
use crate::stream::writer::{WRITE_TOKEN, Writer};
use crate::units;
use crate::volume::{Port, Transfer};

/// How long a thread rests that waits for memory which others will give back.
const REST: Duration = Duration::from_micros(200);

/// Where the output goes.
pub(super) enum Sink<'a> {
    /// To its final place in files.
    Files(&'a Writer),
    /// To a pipe, in order.
    Pipe(&'a Mutex<Box<dyn Write + Send>>),
}

/// A bucket and where it goes.
pub(super) struct Leaf {
    pub(super) bucket: NodeBucket,
    pub(super) start_bytes: u64,
}

/// What the workers share.
struct Leaves<'a> {
    leaves: Vec<Mutex<Option<Leaf>>>,
    next: AtomicUsize,
    sink: Sink<'a>,
    turns: Turns,
}

/// A bucket on its way into memory; its segments are with the load.
struct Loading {
    leaf: Leaf,
    load: Load,
}

struct Worker<'a, R: Records> {
    shared: &'a Shared<'a, R>,
    leaves: &'a Leaves<'a>,
    port: Port,
    areas: Pool,
    chunks: Pool,
    loads: VecDeque<Loading>,
    finished: Vec<Transfer>,
    names: Pool,
}

/// The records of a bucket.
#[derive(Debug)]
struct Names {
    /// Where they lie, leaf by leaf; behind that, to which leaf each goes, in the order of the input.
    buf: Buf,
    count: usize,
    /// Where the places of each leaf end.
    ends: Vec<usize>,
    /// How many leaves, from the first, are permuted.
    permuted: usize,
}

impl Names {
    /// Bytes of `count` names.
    fn bytes<P>(count: usize) -> usize {
        count * (size_of::<P>() + size_of::<u16>())
    }

    /// Places, and leaves.
    fn parts<P: Pod>(&mut self) -> (&mut [P], &mut [u16]) {
        let used = &mut self.buf[..Self::bytes::<P>(self.count)];
        let (places, leaves) = used.split_at_mut(self.count * size_of::<P>());
        (
            bytemuck::cast_slice_mut(places),
            bytemuck::cast_slice_mut(leaves),
        )
    }

    /// Where the places of a leaf lie.
    fn range(&self, leaf: usize) -> Range<usize> {
        let from = match leaf {
            0 => 0,
            _ => self.ends[leaf - 1],
        };
        from..self.ends[leaf]
    }
}

/// A piece of a chunk in an area, with what orders it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    position: u64,
    at: usize,
    count: u32,
}

/// Permutes and writes all buckets on all threads.
pub(super) fn permute<R: Records>(
    shared: &Shared<'_, R>,
    leaves: Vec<Leaf>,
    sink: Sink<'_>,
) -> Result<()> {
    let plan = shared.plan;
    let budget = &shared.job.budget;
    let threads = plan.size.threads;
    let names_bytes = plan.places_bytes as usize;
    let mut pools = Vec::new();
    for _ in 0..threads {
        let areas = Pool::new(budget, PERMUTING, plan.area_bytes(), plan.areas)?;
        let chunks = Pool::new(budget, PERMUTING, plan.chunk_bytes, plan.chunks)?;
        let names = Pool::new(budget, PLACES, names_bytes, 1)?;
        pools.push((areas, chunks, names));
    }
    let leaves = Leaves {
        leaves: leaves.into_iter().map(|l| Mutex::new(Some(l))).collect(),
        next: AtomicUsize::new(0),
        sink,
        turns: Turns::default(),
    };
    shared.on_all_threads(|thread| {
        let (areas, chunks, names) = pools[thread].clone();
        let mut worker = Worker {
            shared,
            leaves: &leaves,
            port: shared.volume.port()?,
            areas,
            chunks,
            loads: VecDeque::new(),
            finished: Vec::new(),
            names,
        };
        worker.run()
    })?;
    Ok(())
}

impl<R: Records> Worker<'_, R> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.shared.check()?;
            self.start_loads()?;
            match self.loads.front() {
                Some(loading) if loading.load.is_complete() => {
                    if let Some(loading) = self.loads.pop_front() {
                        // Another one takes its turn, and the drives work while this thread permutes.
                        self.start_loads()?;
                        self.poll(false)?;
                        let bytes = loading.leaf.bucket.counts.bytes;
                        self.finish_leaf(loading)?;
                        self.shared.job.control.advance(bytes);
                        self.shared.job.control.watch(self.shared.volume);
                    }
                    self.poll(false)?;
                }
                None if self.port.in_flight() == 0 => return Ok(()),
                _ => self.poll(true)?,
            }
        }
    }

    /// Loads ahead as far as there are areas.
    fn start_loads(&mut self) -> Result<()> {
        while self.areas.free_slots() > 0 && self.loads.len() < self.shared.plan.areas - 1 {
            let index = self.leaves.next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = self.leaves.leaves.get(index) else {
                break;
            };
            let leaf = cell.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(mut leaf) = leaf else { continue };
            let area = self.areas.take().ok_or_else(no_area)?;
            let segments = std::mem::take(&mut leaf.bucket.segments);
            let stored: usize = segments.iter().map(|segment| segment.stored_bytes()).sum();
            if stored > area.len() {
                return Err(too_long(stored, area.len()));
            }
            let load = Load::start(self.shared, &mut self.port, index, segments, area, 0)?;
            self.loads.push_back(Loading { leaf, load });
        }
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.port.poll(wait, &mut finished)?;
        for transfer in finished.drain(..) {
            if let Some(fault) = transfer.fault {
                return Err(self.shared.volume.explain(&fault));
            }
            if transfer.token == WRITE_TOKEN {
                continue;
            }
            let index = Load::index_of(transfer.token);
            let mut loads = self.loads.iter_mut().map(|loading| &mut loading.load);
            if let Some(load) = loads.find(|load| load.index == index) {
                load.take_back(transfer.token, transfer.buf);
            }
        }
        self.finished = finished;
        Ok(())
    }

    fn finish_leaf(&mut self, mut loading: Loading) -> Result<()> {
        let mut area = loading.load.join(self.shared)?;
        loading.load.append_resident(&mut area);
        let runs = runs_in_order(&loading.load);
        let mut names = self.name(&loading.leaf.bucket, &runs, &area)?;
        self.emit(&loading, &area, &mut names)
    }

    /// Memory for more records than were planned for, which a leaf of very short lines has; where
    /// buckets wait for nothing else, it waits until other threads have given theirs back.
    fn more_names(&self, names_bytes: usize) -> Result<Pool> {
        let budget = &self.shared.job.budget;
        let spare_bytes = self.shared.plan.spare_places_bytes();
        let may_wait = matches!(self.leaves.sink, Sink::Files(_));
        while block_ceil(names_bytes as u64) <= spare_bytes {
            if let Some(pool) = Pool::try_new(budget, PLACES, names_bytes, 1)? {
                return Ok(pool);
            }
            if !may_wait {
                break;
            }
            self.shared.check()?;
            std::thread::sleep(REST);
        }
        let cause = format!(
            "the lines of one bucket are so short that their places need {}, {} are left",
            units::bytes(names_bytes as u64),
            units::bytes(spare_bytes)
        );
        Err(Error::new(Kind::Memory, "permute lines", cause).hint("allow more --memory"))
    }

    /// The places of all records of a bucket, leaf by leaf, those of a leaf in the order of the input.
    fn name(&self, bucket: &NodeBucket, runs: &[Run], area: &[u8]) -> Result<Names> {
        let (tree, records) = (self.shared.tree, self.shared.records);
        let count = bucket.counts.items as usize;
        let names_bytes = Names::bytes::<R::Place>(count);
        let buf = match names_bytes <= self.names.slot_bytes() {
            true => self.names.take(),
            false => self.more_names(names_bytes)?.take(),
        };
        let levels = tree.levels - bucket.kind.level;
        let mut ends = vec![0; fan_out(levels)];
        let mut names = Names {
            buf: buf.ok_or_else(no_area)?,
            count,
            ends: Vec::new(),
            permuted: 0,
        };
        let (places, leaves) = names.parts();
        if levels == 0 {
            let mut slots = places.iter_mut();
            for run in runs {
                records.places(area, run.at, run.count as usize, |place| {
                    if let Some(slot) = slots.next() {
                        *slot = place;
                        ends[0] += 1;
                    }
                });
            }
        } else {
            // Which leaf each goes to, and how many to each: throws need no records.
            let mut walk = Walk::new(tree, bucket.kind, levels, 0);
            let mut rest = &mut *leaves;
            for run in runs {
                let (chunk, number) = chunk_and_number(run.position);
                let (leaves, after) = rest.split_at_mut(run.count as usize);
                walk.seek(chunk, number);
                walk.fill(leaves);
                rest = after;
            }
            count_each(leaves, &mut ends);
            let mut sum = 0;
            for end in &mut ends {
                sum += std::mem::replace(end, sum);
            }
            let mut rest = &*leaves;
            for run in runs {
                let (leaves, after) = rest.split_at(run.count as usize);
                records.scatter(area, run.at, leaves, &mut ends, places);
                rest = after;
            }
        }
        assert_eq!(ends.last(), Some(&count));
        names.ends = ends;
        Ok(names)
    }

    /// Fills `out` with the records of a bucket from byte `next.1` of record `next.0` on; gives where
    /// it ended. Leaves are permuted as late as that, for then they are in the cache when they are used.
    fn fill(
        &self,
        bucket: &NodeBucket,
        area: &[u8],
        names: &mut Names,
        mut next: (usize, usize),
        out: &mut [u8],
    ) -> (usize, usize) {
        let (tree, records) = (self.shared.tree, self.shared.records);
        let levels = tree.levels - bucket.kind.level;
        let mut filled = 0;
        while filled < out.len() {
            let leaf = names.permuted;
            let permuted_to = leaf.checked_sub(1).map_or(0, |last| names.ends[last]);
            if next.0 < permuted_to {
                let places = &names.parts().0[..permuted_to];
                let (len, after) = records.gather(area, places, next, &mut out[filled..]);
                filled += len;
                next = after;
                continue;
            }
            let range = names.range(leaf);
            let dice = tree.dice(bucket.kind.below(levels, leaf));
            let places = &mut names.parts().0[range];
            let (dealt, len) = records.permute(dice, places, &mut out[filled..]);
            names.permuted += 1;
            filled += len;
            next.0 += dealt;
        }
        next
    }

    /// Gathers records in chunks laid out like the output and hands them to the sink.
    fn emit(&mut self, loading: &Loading, area: &Buf, names: &mut Names) -> Result<()> {
        let leaf = &loading.leaf;
        let mut at_bytes = leaf.start_bytes;
        let mut left = leaf.bucket.counts.bytes as usize;
        // The next byte to be written: a record and an offset inside it.
        let mut next: (usize, usize) = (0, 0);
        let turns = &self.leaves.turns;
        let turn = match &self.leaves.sink {
            Sink::Pipe(_) => Some(turns.wait_for(loading.load.index, &self.shared.crew)?),
            Sink::Files(_) => None,
        };
        while left > 0 {
            let mut chunk = self.take_chunk()?;
            let (phase, room) = match &self.leaves.sink {
                Sink::Files(writer) => (writer.phase(at_bytes), writer.room(at_bytes)),
                Sink::Pipe(_) => (0, u64::MAX),
            };
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let len = left.min(chunk.len() - phase).min(room);
            let out = &mut chunk[phase..phase + len];
            next = self.fill(&leaf.bucket, area, names, next, out);
            match &self.leaves.sink {
                Sink::Files(writer) => {
                    writer.write(&mut self.port, chunk, phase, len, at_bytes)?;
                    self.poll(false)?;
                }
                Sink::Pipe(pipe) => write_pipe(pipe, &chunk[..len])?,
            }
            at_bytes += len as u64;
            left -= len;
        }
        if let Some(turn) = turn {
            turns.pass_on(turn);
        }
        Ok(())
    }

    fn take_chunk(&mut self) -> Result<Buf> {
        loop {
            if let Some(chunk) = self.chunks.take() {
                return Ok(chunk);
            }
            self.shared.check()?;
            if self.port.in_flight() == 0 {
                return Err(no_area());
            }
            self.poll(true)?;
        }
    }
}

/// The pieces of chunks in a loaded bucket, in the order of the input.
fn runs_in_order(load: &Load) -> Vec<Run> {
    let mut runs = Vec::new();
    for &(number, offset) in &load.offsets {
        let mut at = offset;
        for piece in &load.segments[number].pieces {
            runs.push(Run {
                position: piece.position,
                at,
                count: piece.count,
            });
            at += piece.bytes as usize;
        }
    }
    runs.sort_unstable();
    runs
}

fn too_long(bucket_bytes: usize, area_bytes: usize) -> Error {
    let cause = format!("a few long lines take {bucket_bytes} bytes together, {area_bytes} fit");
    Error::new(Kind::Memory, "load a bucket", cause).hint("allow more --memory")
}

fn no_area() -> Error {
    Error::new(Kind::Memory, "take an area", "the pool is empty").hint("a bug: please report it")
}
