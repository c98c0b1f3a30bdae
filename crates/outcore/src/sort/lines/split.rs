//! Distributes again the buckets of lines that turned out too large for the memory, until all fit.
//!
//! Contract: the order of buckets is kept. A bucket is split by keys sampled from it; a bucket of
//! equal keys is split by the tie-break: the lines' bytes or their position in the input. A
//! frequent key, or line, gets a bucket of its own, so the splitting ends. Each split reads and
//! writes the bucket once. The scratch space and the memory of segments are reused after they are
//! read.

use super::bucket::{LineBucket, Space};
use super::context::Context;
use super::distribute::{distribute_by_position, distribute_by_splitters};
use super::plan::{LONG_KEYS, LONG_KEYS_BYTES_MIN, LONG_READ, LinePlan, SPLIT_BUCKETS};
use super::rows::RowSink;
use super::sample::{LineSample, Lines, Share};
use super::splitters::{LineSplitters, SplitterSize};
use super::table::Tables;
use crate::key::sort_key::{ByteOrder, Tie};
use crate::partition::bucket::Segment;
use crate::partition::refine::{LongItem, Refined, look_at_segments, refine_kept};
use crate::partition::route::PositionRoute;
use crate::read::framing::ItemFraming;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Segments per part that are read to split a bucket. They are read again when the bucket is
/// distributed, so they are few.
const SAMPLE_SEGMENTS_A_PART: usize = 4;
/// Largest number of segments that are read.
const SAMPLE_SEGMENTS: usize = 64;
/// Places in each segment at which lines are taken. With 32 lines per part, a part that gets twice
/// its share is more than five standard deviations off. If each segment holds a stretch of sorted
/// input, a part still differs from its share by at most a quarter.
const SAMPLE_PLACES: usize = 8;
/// Bytes kept per key: the keys of a bucket may begin with many common bytes.
const KEY_BYTES_MAX: usize = LONG_KEYS_BYTES_MIN as usize / SAMPLE_SEGMENTS_MIN;
/// Growth factor of a prefix that did not distinguish lines (a power of two).
const KEY_GROWTH_BITS: u32 = 2;
/// Smallest number of segments to read.
const SAMPLE_SEGMENTS_MIN: usize = 4;
/// Smallest number of segments to read if keys are long and their shorter prefixes were equal.
const SAMPLE_SEGMENTS_LONG: usize = 2;
/// Number of times that a bucket may be split: more mean that one line is too long.
const SPLITS_MAX: u32 = 12;

/// Distributes again the buckets that are too large for the memory, until all fit; keeps the order.
/// Also returns how often, at most, a line was distributed here.
pub(super) fn split_oversized(
    context: &Context<'_>,
    tables: &mut Tables,
    buckets: Vec<LineBucket>,
) -> Result<(Vec<LineBucket>, u32)> {
    refine_kept(context, buckets, |bucket, tried| {
        let is_over = tried.splits == SPLITS_MAX || bucket.counts.items < 2;
        let space = bucket.space(!context.is_whole());
        if bucket.is_written() {
            return Ok(Refined::Fits(bucket));
        }
        let is_small = is_over
            || is_as_planned(context.plan, &space, tried.splits)
                && goes_with_others(context, &space);
        if is_small && fits(context, &space) {
            return Ok(Refined::Fits(bucket));
        }
        if is_over {
            return Err(too_long(context, &space, bucket.counts.items));
        }
        let mut parts = split(context, tables, bucket, tried.in_vain)?;
        parts.retain(|part| part.lines_max() > 0);
        Ok(Refined::Parts(parts))
    })
}

/// Memory for a bucket that is sorted alone.
fn needed_bytes(context: &Context<'_>, space: &Space) -> u64 {
    let chunks_bytes = 2 * context.plan.chunk_bytes as u64;
    space.area_bytes + space.beside_bytes() + chunks_bytes
}

/// Whether a bucket fits if its memory is shared with others of its key. Another bucket may have
/// fewer lines and more bytes, or vice versa, so each may use at most half of the memory.
fn goes_with_others(context: &Context<'_>, space: &Space) -> bool {
    if !context.rows.is_some_and(RowSink::keeps_keys_together) {
        return true;
    }
    let chunks_bytes = 2 * context.plan.chunk_bytes as u64;
    let half_bytes = context.sorting_bytes().saturating_sub(chunks_bytes) / 2;
    space.area_bytes <= half_bytes && space.beside_bytes() <= half_bytes
}

/// Fails if buckets that go together need more memory than there is.
pub(super) fn check_room(context: &Context<'_>, space: &Space) -> Result<()> {
    match needed_bytes(context, space) > context.sorting_bytes() {
        true => Err(too_long(context, space, space.lines)),
        false => Ok(()),
    }
}

/// Whether a bucket can be sorted in the remaining memory.
fn fits(context: &Context<'_>, space: &Space) -> bool {
    let offsets_max = u64::from(u32::MAX / 2);
    needed_bytes(context, space) <= context.sorting_bytes()
        && space.area_bytes <= offsets_max
        && space.key_bytes <= offsets_max
}

/// Whether a bucket is small enough. If all buckets are to be split, they are split as far as
/// planned, so that all threads can sort in parallel; a bucket that does not get smaller stays as
/// it is.
fn is_as_planned(plan: &LinePlan, space: &Space, splits: u32) -> bool {
    plan.distributions < 2 || splits > plan.distributions || plan.long_bucket_space().holds(space)
}

/// Number of parts into which a bucket is split: no more than necessary.
fn parts_of(plan: &LinePlan, bucket: &LineBucket) -> usize {
    let parts_max = SPLIT_BUCKETS / 2;
    match plan.distributions {
        0 | 1 => parts_max,
        _ => {
            let wanted = bucket.counts.bytes.saturating_mul(2) / plan.bucket_bytes_max as u64;
            (wanted as usize).clamp(2, parts_max)
        }
    }
}

fn too_long(context: &Context<'_>, space: &Space, count: u64) -> Error {
    let needed_bytes = needed_bytes(context, space);
    let left_bytes = context.sorting_bytes().max(1);
    let item = context.plan.size.item();
    let items = units::counted(count, item);
    let what = match count {
        1 => format!("{items} needs"),
        _ => format!("{items}, of which one is very long, need"),
    };
    let cause = format!(
        "{what} {} of memory to be sorted, and there is {}",
        units::bytes(needed_bytes),
        units::bytes(left_bytes)
    );
    // The memory for sorting grows roughly with the total memory.
    let sort_bytes = context.plan.size.memory_bytes;
    let memory_bytes = context.job.options.memory_bytes.max(sort_bytes) as f64;
    let enough_bytes = memory_bytes * (needed_bytes as f64 / left_bytes as f64).max(1.0);
    let enough = units::bytes_exact(
        (enough_bytes as u64)
            .min(1 << 60)
            .next_multiple_of(64 << 20),
    );
    Error::new(Kind::Memory, format!("sort {item}s"), cause)
        .hint(format!("allow --memory {enough} or more"))
}

fn split(
    context: &Context<'_>,
    tables: &mut Tables,
    mut bucket: LineBucket,
    in_vain: u32,
) -> Result<Vec<LineBucket>> {
    let long_bytes = context.plan.long_read_bytes();
    let _long = context.job.budget.reserve(LONG_READ, long_bytes)?;
    let is_equal = bucket.is_equal && !context.is_whole();
    let tie = context.order.tie();
    let segments = std::mem::take(&mut bucket.segments);
    let mut parts = if is_equal && tie == Tie::Position {
        let route = PositionRoute::choose(&segments, SPLIT_BUCKETS);
        distribute_by_position(context, segments, &route)?
    } else {
        let has_keys = !is_equal && !context.is_whole();
        let ranges = parts_of(context.plan, &bucket);
        let sample = sample_segments(context, &segments, has_keys, ranges, in_vain)?;
        let size = SplitterSize {
            ranges,
            buckets_max: SPLIT_BUCKETS,
            heavy_share: if has_keys { 0.75 } else { 0.25 },
        };
        let splitters = LineSplitters::choose(&sample.keys, size);
        // The key of a long line may have enlarged the sample.
        drop(sample);
        let mut parts = distribute_by_splitters(context, segments, &splitters, has_keys)?;
        tables.reassign(&splitters, &bucket.kind.from, &mut parts);
        parts
    };
    if is_equal {
        // For a descending order, the whole list is reversed at the end.
        let is_turned = tie == Tie::BytesDescending;
        if is_turned != context.order.is_descending() {
            parts.reverse();
        }
        // A first part without lines is dropped; the next one then seems to continue the part
        // before, which is harmless.
        for (index, part) in parts.iter_mut().enumerate() {
            part.is_equal = true;
            part.kind.is_continuation = index > 0 || bucket.kind.is_continuation;
            part.kind.is_repeated = bucket.kind.is_repeated || bucket.counts.items > 1;
        }
    }
    Ok(parts)
}

/// Lines from some of the segments, as many as `parts` parts need. Each time that lines could not
/// be distinguished, more bytes of their keys are kept, and fewer lines are sampled.
fn sample_segments(
    context: &Context<'_>,
    segments: &[Segment],
    has_keys: bool,
    parts: usize,
    in_vain: u32,
) -> Result<LineSample> {
    let more_bits = (KEY_GROWTH_BITS * in_vain).min(usize::BITS / 4);
    // There is room for two keys of long rows.
    let has_long = context.plan.size.longest.is_some() && context.rows.is_some();
    let is_long = has_long && in_vain > 1;
    let left_bytes = context.job.budget.left_bytes(LONG_KEYS) as usize;
    let (room_bytes, segments_min) = match is_long {
        true => (left_bytes, SAMPLE_SEGMENTS_LONG),
        false => (left_bytes / 2, SAMPLE_SEGMENTS_MIN),
    };
    let longest = (room_bytes / segments_min).max(KEY_BYTES_MAX);
    let key_bytes_max = match is_long {
        true => longest,
        false => (KEY_BYTES_MAX << more_bits).min(longest),
    };
    let (wanted, places) = match in_vain {
        0 => (
            (SAMPLE_SEGMENTS_A_PART * parts).min(SAMPLE_SEGMENTS),
            SAMPLE_PLACES,
        ),
        _ => (SAMPLE_SEGMENTS.min(room_bytes / key_bytes_max), 1),
    };
    let begins = |number: usize| number == 0 || !segments[number - 1].is_continued;
    let firsts: Vec<usize> = (0..segments.len()).filter(|&n| begins(n)).collect();
    let chosen = firsts.len().min(wanted.max(segments_min));
    let keys_bytes = match in_vain {
        0 => 0,
        _ => chosen * key_bytes_max,
    };
    let _keys = context.job.budget.reserve(LONG_KEYS, keys_bytes as u64)?;
    let mut sample = LineSample::default();
    let lines = Lines {
        order: match has_keys {
            true => context.order,
            false => &ByteOrder,
        },
        framing: context.framing,
    };
    let share = Share::of(chosen * places, key_bytes_max);
    // A long line is read with all of its segments.
    let looked_at = (0..chosen).flat_map(|index| {
        let first = firsts[index * firsts.len() / chosen];
        let rest = &segments[first..];
        let goes_on = rest.iter().take_while(|segment| segment.is_continued);
        &rest[..=goes_on.count()]
    });
    let mut long_line = LongItem::default();
    look_at_segments(context, looked_at, usize::MAX, |segment, payload| {
        let Some((payload, _)) = long_line.join_bytes(segment, payload) else {
            return;
        };
        let places = match context.framing {
            ItemFraming::Terminated(_) => places,
            // The starts of items can only be found from the beginning.
            ItemFraming::LengthPrefixed => 1,
        };
        for place in 0..places {
            let at = place * payload.len() / places;
            sample.take(lines, &payload[at..], at == 0, share);
        }
    })?;
    sample.sort();
    Ok(sample)
}
