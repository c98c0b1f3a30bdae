//! Distribution: one pass over the input, or over a bucket of an earlier pass, that moves every element
//! into its bucket.
//!
//! Model: PALID (SPAA 2025), section 3 (in-memory bucketer, batched writer) and 4 (samplesort).
//!
//! Contract: each worker thread reads through its own port, routes its elements and copies each once
//! ([`crate::partition::pass`]). The input is encoded as it is read. Elements of an equality bucket of
//! bare numbers are only counted.
//!
//! Bounds: memory is the segment pool, the read pool and one description a segment; a worker never
//! waits for another's buffer (each has its own share, resident segments are taken by credit). I/O
//! reads the source once and writes each element at most once. In ordered jobs a worker takes
//! blocks in the order in which it was given them, and segments list the runs of the input in them.

use super::elements::Elements;
use super::plan::INPUT;
use super::shared::Shared;
use super::splitters::{KeyCut, KeyRoute};
use crate::error::Result;
use crate::memory::{Buf, Pool, block_ceil, block_floor};
use crate::partition::bucket::{Bucket, Out, Segment, join_outs};
use crate::partition::mover::{FixedMover, Mover, Run};
use crate::partition::pass::{BlockReader, BucketSource, TakeShare, read_all, scatter_segments};
use crate::partition::route::Route;
use crate::partition::scatter::{RunStart, ScatterWorker, Scattering};
use crate::partition::spill::Spilling;
use crate::read::source::{Block, Blocks};

impl<E: Elements> Shared<'_, E> {
    /// What one thread of a distribution is for.
    fn scattering(&self, resident_below: usize, is_split: bool, buckets: usize) -> Scattering {
        Scattering {
            spilling: Spilling {
                resident_below,
                is_split,
            },
            bucket_count: buckets,
            item_bytes: Some(self.elements.element_bytes()),
            is_ordered: self.plan.size.is_ordered,
            is_staggered: self.plan.levels > 0,
        }
    }

    /// Where order counts, long stretches leave fewer runs to remember.
    fn take_share(&self) -> TakeShare {
        match self.plan.is_sequential {
            true => TakeShare::long(self.plan.size.threads),
            false => TakeShare::ONE,
        }
    }
}

/// Distributes the input by `cut`. Buckets below `resident_below` stay in memory as far as there are
/// reservations; part-filled buffers stay in memory if `keep_partials`.
pub(crate) fn distribute_blocks<E: Elements>(
    shared: &Shared<'_, E>,
    blocks: &Blocks,
    cut: &KeyCut<E::Key>,
    resident_below: usize,
    keep_partials: bool,
) -> Result<Vec<Bucket>> {
    let (plan, elements) = (shared.plan, shared.elements);
    let slots = plan.reads_in_flight * plan.size.threads;
    let pool = Pool::new(&shared.job.budget, INPUT, blocks.read_bytes_max(), slots)?;
    let scattering = shared.scattering(resident_below, false, cut.bucket_count());
    let outs = shared.on_all_threads(|_| {
        let mut worker = ScatterWorker::new(shared, scattering)?;
        count_equal(shared, cut, &mut worker);
        let order = (shared.take_share(), plan.size.is_ordered);
        let mut reader = BlockReader::new(blocks, order, plan.reads_in_flight, pool.clone());
        let mut mover = FixedMover::new(elements.items(), KeyRoute::new(elements, cut, 0));
        read_all(&mut worker, &mut reader, |worker, (block, buf)| {
            let start = align_payload(elements, block, buf);
            let payload = &mut buf[start..start + block.payload_bytes];
            elements.encode(payload)?;
            let count = (payload.len() / elements.element_bytes()) as u64;
            worker.begin_run(RunStart {
                position: block.position,
                begin: block.position,
                end: block.position + count,
            });
            let run = Run {
                bytes: payload,
                position: block.position,
                place: None,
            };
            mover.take(worker, run)?;
            free_input(shared, blocks, block)
        })?;
        worker.finish(keep_partials)
    })?;
    Ok(buckets_of(shared, cut, 0, outs))
}

/// Distributes the segments of a bucket by `cut`, which was made for elements that share `depth` keys.
pub(crate) fn distribute_by_key<E: Elements>(
    shared: &Shared<'_, E>,
    segments: Vec<Segment>,
    cut: &KeyCut<E::Key>,
    depth: usize,
) -> Result<Vec<Bucket>> {
    let route = || KeyRoute::new(shared.elements, cut, depth);
    let outs = distribute_segments(shared, segments, route, |worker| {
        count_equal(shared, cut, worker);
    })?;
    Ok(buckets_of(shared, cut, depth, outs))
}

/// Distributes the segments of a bucket on all threads; gives what each has of every bucket.
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
        let scattering = shared.scattering(usize::MAX, true, route.bucket_count());
        let mut worker = ScatterWorker::new(shared, scattering)?;
        prepare(&mut worker);
        let mut mover = FixedMover::new(shared.elements.items(), route);
        scatter_segments(&mut worker, &mut mover, &source, pool.clone())?;
        worker.finish(false)
    })
}

/// Bare numbers that are all equal are only counted.
fn count_equal<E: Elements>(
    shared: &Shared<'_, E>,
    cut: &KeyCut<E::Key>,
    worker: &mut ScatterWorker<'_>,
) {
    if shared.elements.is_bare() {
        let equal = (0..cut.bucket_count()).filter(|&bucket| cut.is_equal(bucket));
        equal.for_each(|bucket| worker.only_count(bucket));
    }
}

/// The buckets of a cut from what each worker has put there.
fn buckets_of<E: Elements>(
    shared: &Shared<'_, E>,
    cut: &KeyCut<E::Key>,
    depth: usize,
    outs: Vec<Vec<Out>>,
) -> Vec<Bucket> {
    let is_bare = shared.elements.is_bare();
    let buckets = (0..cut.bucket_count()).map(|index| {
        let equal_key = cut.equal_key(index).filter(|_| is_bare);
        Bucket {
            depth: cut.depth_of(index, depth),
            copies_of: equal_key.map(|key| bytemuck::bytes_of(&key).into()),
            ..Bucket::default()
        }
    });
    join_outs(buckets.collect(), outs)
}

/// Moves bare numbers that a header of odd length put astray to where they can be looked at as such; gives
/// where the payload starts.
fn align_payload<E: Elements>(elements: &E, block: &Block, buf: &mut Buf) -> usize {
    if !elements.is_bare() {
        return block.skip_bytes;
    }
    let start = block.skip_bytes / elements.element_bytes() * elements.element_bytes();
    if start != block.skip_bytes {
        let payload = block.skip_bytes..block.skip_bytes + block.payload_bytes;
        buf.copy_within(payload, start);
    }
    start
}

/// Frees the whole blocks of the file under a block that has been distributed.
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
