//! Buckets of lines that turned out too large for the memory, distributed again until none is.
//!
//! Contract: the order of buckets is kept. A bucket is split by keys sampled from it; one of equal
//! keys by what orders its lines then, their bytes or their place in the input. A frequent key, or
//! line, gets a bucket of its own, so the splitting ends. Reads and writes the bucket once a split;
//! scratch that has been read is used again, and so is the memory.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::bucket::{LineBucket, Space};
use super::context::Context;
use super::cut::{CutSize, LineCut};
use super::distribute::{By, Scatter, Scattered, join};
use super::plan::{
    LONG_KEYS, LONG_KEYS_BYTES_MIN, LinePlan, SPLIT_BUCKETS, SPLIT_SAMPLE, SPLIT_SEGMENTS,
};
use super::sample::{LineSample, Lines, Share};
use super::table::Tables;
use crate::algo::bucket::{Home, Piece, Segment, verify_segment};
use crate::algo::spill::{SpillSizes, place_bytes};
use crate::data::lines::{ByteOrder, LineTie};
use crate::drive::Op;
use crate::error::{Error, Kind, Result};
use crate::memory::{Buf, Pool};
use crate::units;

/// Segments that are looked at to split a bucket.
const SAMPLE_SEGMENTS: usize = 64;
/// Places in each from which on lines are taken.
const SAMPLE_PLACES: usize = 4;
/// Bytes of a key that are kept: keys of a bucket may begin with many that are the same.
const KEY_BYTES_MAX: usize = LONG_KEYS_BYTES_MIN as usize / SAMPLE_SEGMENTS_MIN;
/// What did not tell lines apart is made so many times (a power of two) longer.
const KEY_GROWTH_BITS: u32 = 2;
/// Segments that are looked at in any case.
const SAMPLE_SEGMENTS_MIN: usize = 4;
/// Times that a bucket may be split: more mean that one line is too long.
const SPLITS_MAX: u32 = 12;

/// Segments that are read together: one, or those of a long line.
type Item = Vec<Segment>;

/// Distributes buckets that are too large for the memory again, until none is; keeps the order.
/// Gives how many times, at most, a line was distributed here, too.
pub(super) fn split_oversized(
    context: &Context<'_>,
    tables: &Tables,
    buckets: Vec<LineBucket>,
) -> Result<(Vec<LineBucket>, u32)> {
    let mut done = Vec::with_capacity(buckets.len());
    let mut most_splits = 0;
    // With how often each was split, and how often of that in vain.
    let mut left: VecDeque<(LineBucket, u32, u32)> =
        buckets.into_iter().map(|bucket| (bucket, 0, 0)).collect();
    while let Some((bucket, splits, in_vain)) = left.pop_front() {
        most_splits = most_splits.max(splits);
        let is_over = splits == SPLITS_MAX || bucket.counts.lines < 2;
        let space = bucket.space(!context.is_whole());
        if fits(context, &space) && (is_over || is_as_planned(context.plan, &space, splits)) {
            done.push(bucket);
            continue;
        }
        if is_over {
            return Err(too_long(context, &bucket));
        }
        let (lines, is_equal) = (bucket.counts.lines, bucket.is_equal);
        let parts = split(context, tables, bucket, in_vain)?;
        for part in parts.into_iter().rev() {
            if part.lines_max() > 0 {
                let in_vain = match part.is_equal == is_equal {
                    true => in_vain + u32::from(part.counts.lines == lines),
                    false => 0,
                };
                left.push_front((part, splits + 1, in_vain));
            }
        }
    }
    Ok((done, most_splits))
}

/// Whether a bucket can be sorted in the memory that is left.
fn fits(context: &Context<'_>, space: &Space) -> bool {
    let chunks_bytes = 2 * context.plan.chunk_bytes as u64;
    let needed = space.area_bytes + space.beside_bytes() + chunks_bytes;
    let offsets_max = u64::from(u32::MAX / 2);
    needed <= context.sorting_bytes()
        && space.area_bytes <= offsets_max
        && space.key_bytes <= offsets_max
}

/// Where all buckets are to be split, they are split as far as planned, so that all threads can sort
/// side by side; what does not get smaller is left as it is.
fn is_as_planned(plan: &LinePlan, space: &Space, splits: u32) -> bool {
    plan.levels < 2 || splits > plan.levels || plan.leaf_space().holds(space)
}

/// Parts that a bucket is split into: no smaller than they need be.
fn parts_of(plan: &LinePlan, bucket: &LineBucket) -> usize {
    let parts_max = SPLIT_BUCKETS / 2;
    match plan.levels {
        0 | 1 => parts_max,
        _ => {
            let wanted = bucket.counts.bytes.saturating_mul(2) / plan.leaf_bytes_max as u64;
            (wanted as usize).clamp(2, parts_max)
        }
    }
}

fn too_long(context: &Context<'_>, bucket: &LineBucket) -> Error {
    let space = bucket.space(!context.is_whole());
    let cause = format!(
        "{} lines that cannot be told apart further need {} of memory, {} are left",
        bucket.counts.lines,
        units::bytes(space.area_bytes + space.beside_bytes()),
        units::bytes(context.sorting_bytes())
    );
    Error::new(Kind::Memory, "sort lines", cause).hint("allow more --memory")
}

fn split(
    context: &Context<'_>,
    tables: &Tables,
    mut bucket: LineBucket,
    in_vain: u32,
) -> Result<Vec<LineBucket>> {
    let is_equal = bucket.is_equal && !context.is_whole();
    let tie = context.order.tie();
    let mut items = take_items(&mut bucket);
    let mut parts = if is_equal && tie == LineTie::Position {
        // One after another in the order of the input, for as long as they fit.
        items.sort_by_key(|item| position_of(item));
        split_by_position(context, items)?
    } else {
        let by = if is_equal { By::Line } else { context.by() };
        let sample = sample_items(context, &items, by, in_vain)?;
        let size = CutSize {
            ranges: parts_of(context.plan, &bucket),
            buckets_max: SPLIT_BUCKETS,
            heavy_share: if by == By::Line { 0.25 } else { 0.75 },
        };
        let cut = LineCut::choose(&sample.keys, size);
        let mut parts = distribute_items(context, (&cut, by), items, None)?;
        tables.reassign(&cut, &bucket.from_tables, &mut parts);
        parts
    };
    if is_equal {
        parts.iter_mut().for_each(|part| part.is_equal = true);
        // The whole list is turned around at the end where the order descends.
        let is_turned = tie == LineTie::BytesDescending;
        if is_turned != context.order.is_descending() {
            parts.reverse();
        }
    }
    Ok(parts)
}

/// The segments of a bucket, those of a long line together.
fn take_items(bucket: &mut LineBucket) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::with_capacity(bucket.segments.len());
    let mut chains = std::mem::take(&mut bucket.chains);
    chains.sort_unstable_by_key(|chain| chain.first);
    let mut chains = chains.into_iter().peekable();
    let mut ends_at = 0;
    for (number, segment) in bucket.segments.drain(..).enumerate() {
        if let Some(chain) = chains.next_if(|chain| chain.first == number) {
            ends_at = number + chain.count;
            items.push(vec![segment]);
        } else if number < ends_at {
            if let Some(item) = items.last_mut() {
                item.push(segment);
            }
        } else {
            items.push(vec![segment]);
        }
    }
    items
}

fn position_of(item: &[Segment]) -> u64 {
    let first = item.first().and_then(|segment| segment.pieces.first());
    first.map_or(0, |piece: &Piece| piece.position)
}

/// Cuts lines of equal keys by their place in the input.
fn split_by_position(context: &Context<'_>, items: Vec<Item>) -> Result<Vec<LineBucket>> {
    let pieces = items
        .iter()
        .flatten()
        .flat_map(|segment| segment.pieces.iter());
    let mut positions: Vec<u64> = pieces.map(|piece| piece.position).collect();
    positions.sort_unstable();
    let count = SPLIT_BUCKETS;
    let mut starts: Vec<u64> = (1..count)
        .filter_map(|cut| positions.get(cut * positions.len() / count).copied())
        .collect();
    starts.dedup();
    let cut = LineCut::of_ranges(starts.len() + 1);
    distribute_items(context, (&cut, By::Line), items, Some(&starts))
}

/// Lines from some of the segments. The more often lines could not be told apart, the more of their
/// keys is kept, and the fewer are looked at.
fn sample_items(context: &Context<'_>, items: &[Item], by: By, in_vain: u32) -> Result<LineSample> {
    let more_bits = (KEY_GROWTH_BITS * in_vain).min(usize::BITS / 4);
    let room_bytes = context.job.budget.left_bytes(LONG_KEYS) as usize / 2;
    let longest = room_bytes / SAMPLE_SEGMENTS_MIN;
    let key_bytes_max = (KEY_BYTES_MAX << more_bits).min(longest.max(KEY_BYTES_MAX));
    let (segments, places) = match in_vain {
        0 => (SAMPLE_SEGMENTS, SAMPLE_PLACES),
        _ => (SAMPLE_SEGMENTS.min(room_bytes / key_bytes_max), 1),
    };
    let chosen = items.len().min(segments.max(SAMPLE_SEGMENTS_MIN));
    let keys_bytes = match in_vain {
        0 => 0,
        _ => chosen * key_bytes_max,
    };
    let budget = &context.job.budget;
    let _keys = budget.reserve(LONG_KEYS, keys_bytes as u64)?;
    let pool = Pool::new(budget, SPLIT_SAMPLE, context.plan.segment_bytes, 1)?;
    let mut reader = ItemReader::new(context, pool)?;
    let mut sample = LineSample::default();
    let lines = Lines {
        order: if by == By::Line {
            &ByteOrder
        } else {
            context.order
        },
        terminator: context.options.terminator,
    };
    let share = Share::of(chosen * places, key_bytes_max);
    for index in 0..chosen {
        reader.with_item(&items[index * items.len() / chosen], |payload| {
            for place in 0..places {
                let at = place * payload.len() / places;
                sample.take(lines, &payload[at..], at == 0, share);
            }
            Ok(())
        })?;
    }
    sample.sort();
    Ok(sample)
}

/// Distributes the lines of `items` by a cut, or, if they are given, by the first places of the
/// buckets behind the first.
fn distribute_items(
    context: &Context<'_>,
    cut: (&LineCut, By),
    items: Vec<Item>,
    starts: Option<&[u64]>,
) -> Result<Vec<LineBucket>> {
    let left: Mutex<VecDeque<Item>> = Mutex::new(items.into());
    let threads = context.crew.threads();
    let pool = Pool::new(
        &context.job.budget,
        SPLIT_SEGMENTS,
        context.plan.segment_bytes,
        threads,
    )?;
    let sizes = SpillSizes {
        resident_below: usize::MAX,
        is_split: true,
        ..context.spill_sizes()
    };
    let workers: Vec<Scattered> = context.on_all_threads(|_| {
        let mut scatter = Scatter::new(context, cut, sizes)?;
        let mut reader = ItemReader::new(context, pool.clone())?;
        let take = || {
            left.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front()
        };
        while let Some(item) = take() {
            context.crew.check()?;
            reader.distribute(&mut scatter, item, starts)?;
            scatter.poll(false)?;
        }
        scatter.finish(false)
    })?;
    Ok(join(context, cut, workers))
}

/// Reads segments one by one.
struct ItemReader<'a> {
    context: &'a Context<'a>,
    port: crate::volume::Port,
    pool: Pool,
    /// A long line.
    joined: Vec<u8>,
}

impl<'a> ItemReader<'a> {
    fn new(context: &'a Context<'a>, pool: Pool) -> Result<Self> {
        Ok(ItemReader {
            context,
            port: context.volume.port()?,
            pool,
            joined: Vec::new(),
        })
    }

    /// Distributes the lines of an item, which is gone then.
    fn distribute(
        &mut self,
        scatter: &mut Scatter<'_>,
        item: Item,
        starts: Option<&[u64]>,
    ) -> Result<()> {
        let pieces = item.first().map(|segment| segment.pieces.clone());
        let pieces = pieces.unwrap_or_default();
        self.with_item(&item, |payload| {
            distribute_pieces(scatter, payload, &pieces, starts)
        })?;
        item.into_iter().try_for_each(|segment| self.free(segment))
    }

    /// Gives back what a segment has of scratch or memory.
    fn free(&self, segment: Segment) -> Result<()> {
        if let Home::Scratch { place, .. } = segment.home {
            let scratch = self.context.scratch.get()?;
            scratch.forget(place);
            scratch.free(
                place,
                place_bytes(&segment, self.context.plan.segment_bytes),
            );
        } else if segment.is_on_credit {
            drop(segment);
            self.context.resident_credit.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Shows the lines of an item; a long one put together.
    fn with_item(
        &mut self,
        item: &[Segment],
        mut show: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if let [segment] = item {
            return self.with_segment(segment, show);
        }
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        for segment in item {
            self.with_segment(segment, |payload| {
                joined.extend_from_slice(payload);
                Ok(())
            })?;
        }
        let shown = show(&joined);
        self.joined = joined;
        shown
    }

    /// Shows the payload of a segment, read and verified if it lies on scratch.
    fn with_segment(
        &mut self,
        segment: &Segment,
        mut show: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let payload_bytes = segment.payload_bytes as usize;
        let (place, checksum) = match &segment.home {
            Home::Memory(buf) => return show(&buf[..payload_bytes]),
            Home::Scratch { place, checksum } => (*place, *checksum),
        };
        let scratch = self.context.scratch.get()?;
        let mut slot = self.pool.take().ok_or_else(no_buffer)?;
        let buf: Buf = slot.split_to(segment.stored_bytes());
        let file = scratch.file(place);
        self.port.submit(file, Op::Read, place.offset_bytes, buf, 0);
        let mut finished = Vec::new();
        while finished.is_empty() {
            self.context.crew.check()?;
            self.port.poll(true, &mut finished)?;
        }
        let transfer = finished.pop().ok_or_else(no_buffer)?;
        if let Some(fault) = transfer.fault {
            return Err(self.context.volume.explain(&fault));
        }
        let payload = &transfer.buf[..payload_bytes];
        verify_segment(scratch, self.context.run, place, checksum, payload)?;
        show(payload)
    }
}

/// Distributes whole lines, which come from these runs of the input if the order counts.
fn distribute_pieces(
    scatter: &mut Scatter<'_>,
    payload: &[u8],
    pieces: &[Piece],
    starts: Option<&[u64]>,
) -> Result<()> {
    if pieces.is_empty() {
        return scatter.scatter(payload, 0, None);
    }
    let mut from = 0;
    for piece in pieces {
        // Of a long line the piece has only the first segment.
        let to = match pieces.len() {
            1 => payload.len(),
            _ => from + piece.bytes as usize,
        };
        let run = &payload[from..to];
        match starts {
            Some(starts) => {
                let bucket = starts.partition_point(|&start| start <= piece.position);
                scatter.append_run(bucket, run, piece.position)?;
            }
            None => {
                scatter.scatter(run, piece.position, None)?;
                scatter.end_run();
            }
        }
        from = to;
    }
    Ok(())
}

fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint("a bug: please report it")
}
