//! Permutes a bucket of a shuffle in memory, and writes it at its final place.
//!
//! Contract: references into the area name the records of a bucket, in the order of the input. The
//! remaining levels of the tree draw a leaf for each name, and each leaf is permuted. Records are
//! gathered in that order into buffers that are aligned like the output; numbers are moved there
//! directly, as far as a leaf fits ([`crate::partition::task`]). For a pipe, buckets are written in
//! order.
//!
//! Bounds: the plan's areas, output buffers and names.

use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use super::Shared;
use super::distribute::NodeBucket;
use super::plan::{PERMUTING, REFS};
use super::records::Records;
use super::route::chunk_and_number;
use super::tree::{Node, Walk, fan_out};
use crate::partition::kernel::count_each;
use crate::partition::load::LoadedRun;
use crate::partition::no_buffer;
use crate::partition::task::{
    BucketTask, BucketWork, ItemPlace, Loaded, Sink, TaskMemory, TaskWorker, Tasks, run_tasks,
};
use outcore_io::memory::{Buf, Pool, block_ceil};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// How long a thread sleeps while it waits for memory that others will release.
const REST: Duration = Duration::from_micros(200);

/// One worker's processing of the buckets of a shuffle.
struct Permuting<'a, R: Records> {
    shared: &'a Shared<'a, R>,
    names: &'a Pool,
    /// Whether buckets wait for nothing except for memory.
    may_wait: bool,
}

/// The records of a bucket.
#[derive(Debug)]
struct Names {
    /// The places of the records, leaf by leaf; then the leaf of each record, in the order of the
    /// input.
    buf: Buf,
    count: usize,
    /// The end of the references of each leaf.
    ends: Vec<usize>,
    /// How many leaves, from the first, are permuted.
    permuted: usize,
}

impl Names {
    /// Bytes of `count` names.
    fn bytes<P>(count: usize) -> usize {
        count * (size_of::<P>() + size_of::<u16>())
    }

    /// The places, and the leaves.
    fn parts<P: Pod>(&mut self) -> (&mut [P], &mut [u16]) {
        let used = &mut self.buf[..Self::bytes::<P>(self.count)];
        let (refs, leaves) = used.split_at_mut(self.count * size_of::<P>());
        (
            bytemuck::cast_slice_mut(refs),
            bytemuck::cast_slice_mut(leaves),
        )
    }

    /// The range of a leaf's references.
    fn range(&self, leaf: usize) -> Range<usize> {
        let from = match leaf {
            0 => 0,
            _ => self.ends[leaf - 1],
        };
        from..self.ends[leaf]
    }
}

/// Permutes and writes all buckets on all threads.
pub(super) fn permute<R: Records>(
    shared: &Shared<'_, R>,
    tasks: Vec<BucketTask<Node>>,
    sink: Sink<'_>,
) -> Result<()> {
    let plan = shared.plan;
    let budget = &shared.job.budget;
    let stored = tasks.iter().map(|task| task.bucket.stored_bytes());
    if let Some(bytes) = stored.clone().find(|&bytes| bytes > plan.long_area_bytes()) {
        return Err(too_long(shared, bytes));
    }
    // The longest line is processed alone.
    let is_alone: Vec<bool> = stored.map(|bytes| bytes > plan.area_bytes()).collect();
    let threads = plan.size.threads;
    let names = Pool::new(budget, REFS, plan.refs_bytes as usize, threads)?;
    let memory = TaskMemory {
        area_bytes: plan.area_bytes(),
        areas: plan.areas,
        chunk_bytes: plan.chunk_bytes,
        chunks: plan.chunks,
        loads_max: plan.areas - 1,
    };
    let may_wait = matches!(sink, Sink::Files(_));
    let alone = TaskMemory {
        area_bytes: plan.long_area_bytes(),
        areas: 1,
        loads_max: 1,
        ..memory
    };
    let tasks = Tasks::new(tasks, sink, false);
    let mut from = 0;
    while from < is_alone.len() {
        let (to, memory, threads) = match is_alone[from] {
            true => (from + 1, alone, 1),
            false => {
                let rest = is_alone[from..].iter();
                let many = rest.take_while(|is_alone| !**is_alone).count();
                (from + many, memory, threads)
            }
        };
        tasks.take_to(to);
        run_tasks(shared, &tasks, PERMUTING, memory, threads, || Permuting {
            shared,
            names: &names,
            may_wait,
        })?;
        from = to;
    }
    Ok(())
}

impl<R: Records> BucketWork<Node> for Permuting<'_, R> {
    fn finish(
        &mut self,
        worker: &mut TaskWorker<'_, Node>,
        mut loaded: Loaded<Node>,
        mut area: Buf,
    ) -> Result<()> {
        loaded.load.append_resident(&mut area);
        let bucket = &loaded.task.bucket;
        let (runs, _) = loaded.load.runs();
        let mut names = self.name(bucket, &runs, &area)?;
        let spot = worker.place(&loaded, |_| bucket.counts.bytes)?;
        // The next byte to write.
        let mut next = ItemPlace::default();
        worker.emit(spot, |out| {
            next = self.fill(bucket, &area, &mut names, next, out);
        })
    }
}

impl<R: Records> Permuting<'_, R> {
    /// Memory for more records than planned, which a leaf of very short lines has. If buckets wait
    /// for nothing else, waits until other threads release theirs.
    fn more_names(&self, names_bytes: usize) -> Result<Pool> {
        let budget = &self.shared.job.budget;
        let spare_bytes = self.shared.plan.spare_refs_bytes();
        while block_ceil(names_bytes as u64) <= spare_bytes {
            if let Some(pool) = Pool::try_new(budget, REFS, names_bytes, 1)? {
                return Ok(pool);
            }
            if !self.may_wait {
                break;
            }
            self.shared.check()?;
            std::thread::sleep(REST);
        }
        let cause = format!(
            "the lines of one bucket are so short that references to them need {}, but only {} are \
             left",
            units::bytes(names_bytes as u64),
            units::bytes(spare_bytes)
        );
        Err(Error::new(Kind::Memory, "permute lines", cause).hint("allow more --memory"))
    }

    /// References to all records of a bucket, leaf by leaf, those of a leaf in the order of the
    /// input.
    fn name(&self, bucket: &NodeBucket, runs: &[LoadedRun], area: &[u8]) -> Result<Names> {
        let (tree, records) = (self.shared.tree, self.shared.records);
        let count = bucket.counts.items as usize;
        let names_bytes = Names::bytes::<R::Ref>(count);
        let buf = match names_bytes <= self.names.slot_bytes() {
            true => self.names.take(),
            false => self.more_names(names_bytes)?.take(),
        };
        let levels = tree.levels - bucket.kind.level;
        let mut ends = vec![0; fan_out(levels)];
        let mut names = Names {
            buf: buf.ok_or_else(no_buffer)?,
            count,
            ends: Vec::new(),
            permuted: 0,
        };
        let (refs, leaves) = names.parts();
        if levels == 0 {
            let mut slots = refs.iter_mut();
            for run in runs {
                records.refs(area, run.at, run.count as usize, |entry| {
                    if let Some(slot) = slots.next() {
                        *slot = entry;
                        ends[0] += 1;
                    }
                });
            }
        } else {
            // Finds the leaf of each record, and the number of records per leaf. Draws do not read
            // the records.
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
                records.scatter(area, run.at, leaves, &mut ends, refs);
                rest = after;
            }
        }
        assert_eq!(ends.last(), Some(&count));
        names.ends = ends;
        Ok(names)
    }

    /// Fills `out` with the records of a bucket from `next` on; returns where it stopped. Leaves
    /// are permuted only here, so that they are in the cache when they are used.
    fn fill(
        &self,
        bucket: &NodeBucket,
        area: &[u8],
        names: &mut Names,
        mut next: ItemPlace,
        out: &mut [u8],
    ) -> ItemPlace {
        let (tree, records) = (self.shared.tree, self.shared.records);
        let levels = tree.levels - bucket.kind.level;
        let mut filled = 0;
        while filled < out.len() {
            let leaf = names.permuted;
            let permuted_to = leaf.checked_sub(1).map_or(0, |last| names.ends[last]);
            if next.index < permuted_to {
                let refs = &names.parts().0[..permuted_to];
                let (len, after) = records.gather(area, refs, next, &mut out[filled..]);
                filled += len;
                next = after;
                continue;
            }
            let range = names.range(leaf);
            let rng = tree.rng(bucket.kind.below(levels, leaf));
            let refs = &mut names.parts().0[range];
            let (dealt, len) = records.permute(rng, refs, &mut out[filled..]);
            names.permuted += 1;
            filled += len;
            next.index += dealt;
        }
        next
    }
}

fn too_long<R>(shared: &Shared<'_, R>, bucket_bytes: usize) -> Error {
    let area_bytes = shared.plan.long_area_bytes();
    let cause = format!(
        "a few long lines take {} together, but there is room for only {}",
        units::bytes(bucket_bytes as u64),
        units::bytes(area_bytes as u64)
    );
    // Room for a bucket grows with the memory, and the next bucket may be longer.
    let times = 2 * (bucket_bytes / area_bytes.max(1) + 1) as u64;
    let enough_bytes = shared.job.options.memory_bytes.saturating_mul(times);
    let enough = units::bytes_exact(enough_bytes.min(1 << 60).next_multiple_of(64 << 20));
    Error::new(Kind::Memory, "load a bucket", cause).hint(format!("allow --memory {enough}"))
}
