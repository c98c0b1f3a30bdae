//! The first phase: every record goes to a bucket by random draws, and buckets that are too large
//! are distributed again.
//!
//! Contract: a worker reads chunks of the input in order and routes their records by the tree
//! ([`super::tree`]) through several levels at once. Segments record where chunks continue in them,
//! so that the order inside a bucket is the order of the input, whichever worker wrote what. One
//! worker reads a bucket that is larger than an area back and distributes it further; all workers
//! do this for different buckets.
//!
//! Bounds: the plan's buffers. The input, and each bucket that is distributed again, are read once
//! and written at most once.

use super::Shared;
use super::plan::{INPUT, LONG_READ};
use super::records::Records;
use super::route::RandomRoute;
use super::tree::{Node, fan_out};
use crate::partition::bucket::{Bucket, Out, join_outs};
use crate::partition::copies::record_distributed;
use crate::partition::mover::{Mover, Run};
use crate::partition::pass::read_all;
use crate::partition::refine::{BucketSource, Refined, refine_side_by_side, scatter_segments};
use crate::partition::scatter::{ScatterWorker, Scattering};
use crate::partition::spill::{Resident, Spilling};
use crate::read::regions::{Chunks, RegionReader};
use outcore_io::Result;
use outcore_io::memory::Pool;

/// The records of a node.
pub(super) type NodeBucket = Bucket<Node>;

impl<R> Shared<'_, R> {
    /// The task of one thread of the first distribution, or of a later one.
    fn scattering(&self, is_split: bool, levels: u32) -> Scattering {
        let plan = self.plan;
        let resident = match plan.distributions {
            _ if is_split => Resident::NONE,
            0 => Resident::ALL,
            _ => self.resident(plan.bucket_count, plan.size.data_bytes),
        };
        Scattering {
            spilling: Spilling { resident, is_split },
            bucket_count: fan_out(levels),
            item_bytes: plan.size.record_bytes,
            is_ordered: true,
            is_staggered: plan.distributions > 0 && !is_split && self.continued().is_none(),
        }
    }

    /// Whether a bucket must be distributed further before it can be permuted.
    fn is_oversized(&self, bucket: &NodeBucket) -> bool {
        let stored = bucket.stored_bytes();
        let refs_bytes =
            bucket.counts.items * super::plan::place_bytes(self.plan.size.record_bytes);
        let is_large = stored > self.plan.long_area_bytes() || refs_bytes > self.plan.refs_bytes;
        is_large && !bucket.is_written()
    }
}

/// Distributes the whole input; returns the buckets of the first level of distribution, in order.
pub(super) fn distribute_input<R: Records>(
    shared: &Shared<'_, R>,
    chunks: &Chunks,
) -> Result<Vec<NodeBucket>> {
    let plan = shared.plan;
    let sizes = plan.region_sizes();
    let slots = sizes.slots() * plan.size.threads;
    let budget = &shared.job.budget;
    let pool = Pool::new(budget, INPUT, sizes.slot_bytes(), slots)?;
    if let Some(checkpoints) = &shared.checkpoints {
        checkpoints.begin(shared.thread_group.threads());
    }
    let outs = shared.on_all_threads(|thread| {
        let mut worker = ScatterWorker::new(shared, shared.scattering(false, plan.levels))?;
        let route = RandomRoute::new(shared.tree, Node::ROOT, plan.levels);
        let mut mover = shared.records.mover(route);
        let framing = shared.records.framing();
        let (repeated, mut rest) = shared.repeated(thread);
        let reader = RegionReader::new(chunks, framing, sizes, pool.clone());
        read_all(
            &mut worker,
            &mut reader.after(repeated),
            |worker, region| {
                let mut rest = rest.as_mut().filter(|_| region.is_repeated);
                mover.route().open_chunk(worker, region.chunk);
                for bytes in region.slices() {
                    if let Some(tally) = shared.tally {
                        tally.take(bytes);
                    }
                    let run = Run {
                        bytes,
                        position: 0,
                        place: None,
                    };
                    mover.take_of(worker, run, rest.as_deref_mut())?;
                }
                if region.ends_chunk {
                    mover.route().end_chunk(worker);
                }
                let chunk = (!region.is_repeated).then_some(region.chunk);
                worker.checkpoint(thread, chunk, region.advance_bytes)
            },
        )?;
        if let Some(checkpoints) = &shared.checkpoints {
            checkpoints.leave();
        }
        worker.finish(plan.distributions <= 1)
    })?;
    join_restored(shared, outs)
}

/// The buckets of this run and of an earlier one, which are recorded if there is a journal.
pub(super) fn join_restored<R>(
    shared: &Shared<'_, R>,
    mut outs: Vec<Vec<Out>>,
) -> Result<Vec<NodeBucket>> {
    let levels = shared.plan.levels;
    let Some(checkpoints) = &shared.checkpoints else {
        return Ok(buckets_of(Node::ROOT, levels, outs));
    };
    record_distributed(shared, outs.iter_mut().map(|outs| &mut outs[..]).collect())?;
    outs.extend(checkpoints.vouched());
    let mut buckets = buckets_of(Node::ROOT, levels, outs);
    checkpoints.settle_totals(&mut buckets, &mut 0)?;
    Ok(buckets)
}

/// Buckets of `levels` levels below `root`, from the parts of all workers.
fn buckets_of(root: Node, levels: u32, outs: Vec<Vec<Out>>) -> Vec<NodeBucket> {
    let buckets = (0..fan_out(levels)).map(|index| NodeBucket {
        kind: root.below(levels, index),
        ..NodeBucket::default()
    });
    join_outs(buckets.collect(), outs)
}

/// Distributes buckets that do not fit in an area further, until all do, or the tree ends.
pub(super) fn split_oversized<R: Records>(
    shared: &Shared<'_, R>,
    buckets: Vec<NodeBucket>,
) -> Result<Vec<NodeBucket>> {
    if !buckets.iter().any(|bucket| shared.is_oversized(bucket)) {
        return Ok(buckets);
    }
    refine_side_by_side(shared, buckets, |bucket| {
        let is_over = bucket.kind.level == shared.tree.levels;
        match is_over || !shared.is_oversized(&bucket) {
            true => Ok(Refined::Fits(bucket)),
            false => split(shared, bucket).map(Refined::Parts),
        }
    })
}

/// Distributes one bucket by further levels: as many as it takes until its parts fit in an area, if
/// the buffers allow it.
fn split<R: Records>(shared: &Shared<'_, R>, bucket: NodeBucket) -> Result<Vec<NodeBucket>> {
    let plan = shared.plan;
    let left = shared.tree.levels - bucket.kind.level;
    let area_bytes = plan.bucket_bytes_max as u64;
    let mut levels = 1;
    while levels < left.min(plan.split_levels_max())
        && bucket.counts.bytes + bucket.counts.bytes / 4 > area_bytes * fan_out(levels) as u64
    {
        levels += 1;
    }
    let mut worker = ScatterWorker::new(shared, shared.scattering(true, levels))?;
    let route = RandomRoute::new(shared.tree, bucket.kind, levels);
    let mut mover = shared.records.mover(route);
    let pool = BucketSource::pool(shared, 1)?;
    let _long = shared
        .job
        .budget
        .reserve(LONG_READ, plan.long_read_bytes())?;
    // In this order each chunk's input runs are consecutive, and walks continue where they were
    // left.
    let source = BucketSource::as_made(bucket.segments);
    scatter_segments(&mut worker, &mut mover, &source, pool)?;
    let outs = worker.finish(false)?;
    Ok(buckets_of(bucket.kind, levels, vec![outs]))
}
