//! Distribution: one pass over the input, or over a bucket of an earlier pass, that moves every
//! element to its bucket.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer) and 4 (samplesort).
//!
//! Contract: each worker thread reads through its own port, routes its elements and copies each
//! once ([`crate::partition::pass`]). The input is encoded as it is read. Elements of an equality
//! bucket of scalars are only counted.
//!
//! Bounds: memory is the segment pool, the read pool and one description per segment. A worker
//! never waits for another's buffer (each has its own share, and resident segments are taken within
//! a reservation). I/O reads the source once and writes each element at most once. In ordered jobs
//! a worker takes blocks in order, and segments list the runs of the input in them.

use super::elements::Elements;
use super::plan::INPUT;
use super::shared::Shared;
use super::splitters::{KeyRoute, KeySplitters};
use crate::ends::check_unchanged;
use crate::partition::bucket::{Bucket, Out, Segment, join_outs};
use crate::partition::copies::record_distributed;
use crate::partition::mover::{FixedMover, Mover, Run};
use crate::partition::pass::{BlockReader, TakeShare, read_all};
use crate::partition::refine::{BucketSource, scatter_segments};
use crate::partition::restored::Rest;
use crate::partition::route::Route;
use crate::partition::scatter::{RunStart, ScatterWorker, Scattering};
use crate::partition::spill::{Resident, Spilling};
use crate::read::source::{Block, Blocks, InputPart};
use outcore_io::Result;
use outcore_io::memory::{Buf, Pool, block_ceil, block_floor};

impl<E: Elements> Shared<'_, E> {
    /// The task of one thread of a distribution.
    fn scattering(&self, resident: Resident, is_split: bool, buckets: usize) -> Scattering {
        Scattering {
            spilling: Spilling { resident, is_split },
            bucket_count: buckets,
            item_bytes: Some(self.elements.element_bytes()),
            is_ordered: self.plan.size.is_ordered,
            is_staggered: self.plan.distributions > 0 && self.continued().is_none(),
        }
    }

    /// If order matters, long stretches leave fewer runs to remember.
    fn take_share(&self) -> TakeShare {
        match self.plan.is_sequential {
            true => TakeShare::long(self.plan.size.threads),
            false => TakeShare::ONE,
        }
    }
}

/// Distributes the blocks of the input by `splitters`.
pub(crate) fn distribute_input<E: Elements>(
    shared: &Shared<'_, E>,
    parts: &[InputPart],
    splitters: &KeySplitters<E::Key>,
) -> Result<Vec<Bucket>> {
    let (plan, elements) = (shared.plan, shared.elements);
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    shared.job.control.begin_phase("distribute", data_bytes);
    let element_bytes = elements.element_bytes();
    let mut blocks = Blocks::new(parts.to_vec(), element_bytes, plan.read_block_bytes);
    if let Some(continued) = shared.continued() {
        blocks = blocks.without(continued.restored.begun());
    }
    let slots = plan.reads_in_flight * plan.size.threads;
    let pool = Pool::new(&shared.job.budget, INPUT, blocks.read_bytes_max(), slots)?;
    if let Some(checkpoints) = &shared.checkpoints {
        checkpoints.begin(shared.thread_group.threads());
    }
    let outs = shared.on_all_threads(|thread| {
        let mut inlet = Inlet::new(shared, splitters)?;
        if let (positions, Some(mut rest)) = shared.repeated(thread) {
            let (window, pool) = (plan.reads_in_flight, pool.clone());
            let mut reader = BlockReader::of_given(&blocks, positions, window, pool);
            let mover = &mut inlet.mover;
            read_all(&mut inlet.worker, &mut reader, |worker, (block, buf)| {
                let start = align_payload(elements, block, buf);
                let payload = &mut buf[start..start + block.payload_bytes];
                let rest = Some(&mut rest);
                take_run(elements, worker, mover, payload, block.position, rest)?;
                worker.checkpoint(thread, None, block.payload_bytes as u64)
            })?;
        }
        let mut reader = BlockReader::new(
            &blocks,
            shared.take_share(),
            plan.size.is_ordered,
            plan.reads_in_flight,
            pool.clone(),
        );
        let mover = &mut inlet.mover;
        read_all(&mut inlet.worker, &mut reader, |worker, (block, buf)| {
            let start = align_payload(elements, block, buf);
            let payload = &mut buf[start..start + block.payload_bytes];
            if let Some(tally) = shared.read {
                tally.take(payload);
            }
            take_run(elements, worker, mover, payload, block.position, None)?;
            free_input(shared, &blocks, block)?;
            worker.checkpoint(thread, Some(block.position), block.payload_bytes as u64)
        })?;
        if let Some(checkpoints) = &shared.checkpoints {
            checkpoints.leave();
        }
        inlet.finish()
    })?;
    check_unchanged(shared.volume, parts, shared.consumed.is_some())?;
    join_restored(shared, splitters, outs)
}

/// The buckets of this run and of an earlier one, which are recorded if there is a journal.
pub(crate) fn join_restored<E: Elements>(
    shared: &Shared<'_, E>,
    splitters: &KeySplitters<E::Key>,
    mut outs: Vec<Vec<Out>>,
) -> Result<Vec<Bucket>> {
    record_distributed(shared, outs.iter_mut().map(|outs| &mut outs[..]).collect())?;
    if let Some(checkpoints) = &shared.checkpoints {
        outs.extend(checkpoints.vouched());
    }
    let mut buckets = buckets_of(shared, splitters, 0, outs);
    if let Some(checkpoints) = &shared.checkpoints {
        checkpoints.settle_totals(&mut buckets, &mut 0)?;
    }
    Ok(buckets)
}

/// One thread's entry to the buckets of the first distribution.
pub(crate) struct Inlet<'a, E: Elements> {
    elements: &'a E,
    worker: ScatterWorker<'a>,
    mover: FixedMover<E::Items, KeyRoute<'a, E>>,
    /// Whether partly filled buffers stay in memory.
    keep_partials: bool,
}

impl<'a, E: Elements> Inlet<'a, E> {
    /// An entry to the buckets of `splitters`. As many buckets stay in memory as there are
    /// reservations for.
    pub(crate) fn new(
        shared: &'a Shared<'_, E>,
        splitters: &'a KeySplitters<E::Key>,
    ) -> Result<Self> {
        let (plan, elements) = (shared.plan, shared.elements);
        let data_bytes = plan.size.data_bytes;
        let resident_bytes = (plan.resident_segments * plan.segment_payload_bytes) as u64;
        let resident = match resident_bytes >= data_bytes {
            true => Resident::ALL,
            false => shared.resident(splitters.bucket_count(), data_bytes),
        };
        let scattering = shared.scattering(resident, false, splitters.bucket_count());
        let mut worker = ScatterWorker::new(shared, scattering)?;
        count_equal(shared, splitters, &mut worker);
        Ok(Inlet {
            elements,
            worker,
            mover: FixedMover::new(elements.items(), KeyRoute::new(elements, splitters, 0)),
            keep_partials: plan.distributions <= 1,
        })
    }

    /// Takes unencoded input elements, at an address that is aligned for them.
    pub(crate) fn take(&mut self, payload: &mut [u8], position: u64) -> Result<()> {
        take_run(
            self.elements,
            &mut self.worker,
            &mut self.mover,
            payload,
            position,
            None,
        )?;
        self.worker.poll(false)
    }

    /// The contents of each bucket.
    pub(crate) fn finish(self) -> Result<Vec<Out>> {
        self.worker.finish(self.keep_partials)
    }
}

/// Encodes consecutive input elements, the first of which has number `position`, and moves them, or
/// those that `rest` takes, to their buckets.
fn take_run<E: Elements>(
    elements: &E,
    worker: &mut ScatterWorker<'_>,
    mover: &mut impl Mover,
    payload: &mut [u8],
    position: u64,
    rest: Option<&mut Rest<'_>>,
) -> Result<()> {
    elements.encode(payload)?;
    let count = (payload.len() / elements.element_bytes()) as u64;
    worker.begin_run(RunStart {
        position,
        begin: position,
        end: position + count,
    });
    let run = Run {
        bytes: payload,
        position,
        place: None,
    };
    mover.take_of(worker, run, rest)
}

/// Distributes the segments of a bucket by `splitters`, which are for elements that share `depth`
/// keys.
pub(crate) fn distribute_by_key<E: Elements>(
    shared: &Shared<'_, E>,
    segments: Vec<Segment>,
    splitters: &KeySplitters<E::Key>,
    depth: usize,
) -> Result<Vec<Bucket>> {
    let route = || KeyRoute::new(shared.elements, splitters, depth);
    let outs = distribute_segments(shared, segments, route, |worker| {
        count_equal(shared, splitters, worker);
    })?;
    Ok(buckets_of(shared, splitters, depth, outs))
}

/// Distributes the segments of a bucket on all threads; returns each thread's part of every bucket.
pub(crate) fn distribute_segments<E: Elements, R: Route>(
    shared: &Shared<'_, E>,
    segments: Vec<Segment>,
    route: impl Fn() -> R + Sync,
    prepare: impl Fn(&mut ScatterWorker<'_>) + Sync,
) -> Result<Vec<Vec<Out>>> {
    let source = BucketSource::in_order(segments, shared.take_share());
    let pool = BucketSource::pool(shared, shared.plan.size.threads)?;
    shared.on_all_threads(|_| {
        let route = route();
        let scattering = shared.scattering(Resident::ALL, true, route.bucket_count());
        let mut worker = ScatterWorker::new(shared, scattering)?;
        prepare(&mut worker);
        let mut mover = FixedMover::new(shared.elements.items(), route);
        scatter_segments(&mut worker, &mut mover, &source, pool.clone())?;
        worker.finish(false)
    })
}

/// If all scalars of a bucket are equal, they are only counted.
fn count_equal<E: Elements>(
    shared: &Shared<'_, E>,
    splitters: &KeySplitters<E::Key>,
    worker: &mut ScatterWorker<'_>,
) {
    if shared.elements.is_scalar() {
        let equal = (0..splitters.bucket_count()).filter(|&bucket| splitters.is_equal(bucket));
        equal.for_each(|bucket| worker.only_count(bucket));
    }
}

/// The buckets of splitters, from the parts of all workers.
pub(crate) fn buckets_of<E: Elements>(
    shared: &Shared<'_, E>,
    splitters: &KeySplitters<E::Key>,
    depth: usize,
    outs: Vec<Vec<Out>>,
) -> Vec<Bucket> {
    let is_scalar = shared.elements.is_scalar();
    let buckets = (0..splitters.bucket_count()).map(|index| {
        let equal_key = splitters.equal_key(index).filter(|_| is_scalar);
        Bucket {
            depth: splitters.depth_of(index, depth),
            copies_of: equal_key.map(|key| bytemuck::bytes_of(&key).into()),
            ..Bucket::default()
        }
    });
    let mut buckets = join_outs(buckets.collect(), outs);
    for bucket in &mut buckets {
        if let Some(element) = &bucket.copies_of {
            bucket.counts.bytes = bucket.counts.items * element.len() as u64;
        }
    }
    buckets
}

/// Moves scalars that are misaligned because of a header of odd length; returns where the payload
/// starts.
fn align_payload<E: Elements>(elements: &E, block: &Block, buf: &mut Buf) -> usize {
    if !elements.is_scalar() {
        return block.skip_bytes;
    }
    let start = block.skip_bytes / elements.element_bytes() * elements.element_bytes();
    if start != block.skip_bytes {
        let payload = block.skip_bytes..block.skip_bytes + block.payload_bytes;
        buf.copy_within(payload, start);
    }
    start
}

/// Frees the whole blocks of the file under a distributed block.
fn free_input<E>(shared: &Shared<'_, E>, blocks: &Blocks, block: &Block) -> Result<()> {
    let start = block.read_at_bytes + block.skip_bytes as u64;
    let (from, to) = (
        block_ceil(start),
        block_floor(start + block.payload_bytes as u64),
    );
    if from >= to {
        return Ok(());
    }
    shared.free_input(&blocks.parts()[block.part].file, from..to)
}
