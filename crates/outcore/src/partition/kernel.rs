//! The innermost loops of a distribution: append each key to its bucket's buffer.
//!
//! Models: software write combining with non-temporal stores (Satish et al., "Fast sort on CPUs and
//! GPUs", SIGMOD 2010; Polychroniou and Ross, "A comprehensive study of main-memory partitioning",
//! SIGMOD 2014).
//!
//! Contract: [`Scatter`] owns one buffer per bucket and a write position in each. `scatter` copies
//! keys (or records) to the positions of their buckets until the input ends or a buffer is full.
//! The caller then takes the full buffer, puts an empty one in its place, and continues. The
//! element's size divides all capacities. Records of varying lengths are appended one by one
//! instead. One scatter takes only keys, only records, or only appends.
//!
//! If the buffers are larger than the caches, keys are first gathered in a cache line of their
//! bucket, and whole lines are written past the caches. A buffer fills slowly among hundreds of
//! others, so none of it would still be in the cache. Writing a whole line avoids reading that line
//! first. N.B. without lines, a key takes twice as long with 256 buffers; with plain stores, 1.5
//! times as long (docs/decisions/0022).
//!
//! The loop uses `unsafe` for two reasons. Indexing through slices costs three more loads and two
//! more compares per key than the one load, store and test of a pointer. This loop runs once for
//! every key of every distribution. Vector instructions that not every machine has are selected at
//! run time. Outside of memory and I/O, only `key::byte_order` and `read::terminators` in the
//! engine use `unsafe` as well.
//!
//! Invariants (checked on entry, relied on inside):
//! - Every buffer is at least `segment_bytes` long and begins at a cache line.
//! - `0 <= filled < capacity` between calls, so each position has room for one more element, unless
//!   its bucket has no buffer and takes nothing.
//! - Bucket numbers are below the number of buffers.
//! - Keys after the last whole line are in the bucket's line and not yet in its buffer.

#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};

use outcore_io::memory::{Buf, prefetch};

/// Number of items to prefetch when they are visited in an unpredictable order: about as many loads
/// as a processor keeps in flight.
pub(crate) const FETCH_AHEAD: usize = 12;
/// Bytes to prefetch per item: the processor predicts the following ones itself.
const FETCH_BYTES: usize = 128;

/// Prefetches the start of the item at `at` in `area`, so that it is in the cache when it is read.
#[inline(always)]
pub(crate) fn fetch(area: &[u8], at: usize, len_bytes: usize) {
    for line in (0..len_bytes.min(FETCH_BYTES)).step_by(LINE_BYTES) {
        if let Some(byte) = area.get(at + line) {
            prefetch(byte);
        }
    }
}

/// Prefetches all of `items`.
#[inline(always)]
pub(crate) fn fetch_all<T>(items: &[T]) {
    let line_items = (LINE_BYTES / size_of::<T>().max(1)).max(1);
    items.iter().step_by(line_items).for_each(prefetch);
}

/// Shorter items are copied with this fixed length.
const COPIED_BYTES: usize = 64;

/// Copies the item at `at` in `area` to the start of `out`; false if there is no room. The bytes of
/// `out` after the item may also change.
///
/// N.B. calling `memcpy` for each line of text takes three times as long, because it must branch on
/// the length (docs/decisions/0022).
#[inline(always)]
pub(crate) fn copy_item(area: &[u8], at: usize, len_bytes: usize, out: &mut [u8]) -> bool {
    if len_bytes <= COPIED_BYTES
        && let Some(from) = area[at..].first_chunk::<COPIED_BYTES>()
        && let Some(to) = out.first_chunk_mut::<COPIED_BYTES>()
    {
        *to = *from;
        return true;
    }
    let Some(to) = out.get_mut(..len_bytes) else {
        return false;
    };
    to.copy_from_slice(&area[at..at + len_bytes]);
    true
}

/// Reports that a buffer became full after `consumed` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Elements of the input that have been written.
    pub(crate) consumed: usize,
    /// The bucket whose buffer is full.
    pub(crate) bucket: usize,
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// For longer records, the place of the next one in each buffer is prefetched, because it is seldom
/// in the cache.
const FETCHED_BYTES_MIN: usize = 32;
/// If all buffers together are larger than this, they are written past the caches.
const CACHED_BYTES: usize = 8 << 20;

/// Keys on their way to a bucket.
#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C, align(64))]
struct Line([u8; LINE_BYTES]);

#[derive(Clone, Copy)]
struct Cursor {
    next: *mut u8,
    /// The end of the buffer or, for keys, of the line: where the fast path stops.
    stop: *mut u8,
}

/// One buffer per bucket, with write positions.
pub(crate) struct Scatter {
    cursors: Vec<Cursor>,
    /// Where each buffer is full.
    ends: Vec<*mut u8>,
    /// One per bucket once keys are scattered.
    lines: Vec<Line>,
    /// `None` until the bucket gets a buffer; until then its cursor has no room.
    bufs: Vec<Option<Buf>>,
    /// Buckets without a buffer.
    missing: usize,
    capacity_bytes: usize,
    /// Divides the capacity of every buffer.
    unit_bytes: usize,
}

// SAFETY: the pointers point into the buffers that this value owns.
unsafe impl Send for Scatter {}

impl Scatter {
    /// Takes one empty buffer per bucket; each is filled up to `capacity_bytes`, a multiple of the
    /// element's size.
    ///
    /// # Panics
    /// If a buffer is shorter than that.
    pub(crate) fn new(bufs: Vec<Buf>, capacity_bytes: usize) -> Self {
        assert!(capacity_bytes > 0 && bufs.iter().all(|buf| buf.len() >= capacity_bytes));
        let mut scatter = Self::without_buffers(bufs.len(), capacity_bytes);
        for (bucket, buf) in bufs.into_iter().enumerate() {
            scatter.give(bucket, buf);
        }
        scatter
    }

    /// A scatter of `bucket_count` buckets that get their buffers one by one; until all have
    /// theirs, records can only be appended.
    pub(crate) fn without_buffers(bucket_count: usize, capacity_bytes: usize) -> Self {
        let nowhere = std::ptr::null_mut();
        let no_room = Cursor {
            next: nowhere,
            stop: nowhere,
        };
        Scatter {
            cursors: vec![no_room; bucket_count],
            ends: vec![nowhere; bucket_count],
            lines: Vec::new(),
            bufs: (0..bucket_count).map(|_| None).collect(),
            missing: bucket_count,
            capacity_bytes,
            unit_bytes: capacity_bytes,
        }
    }

    /// Gives an empty buffer to a bucket that has none.
    ///
    /// # Panics
    /// If the bucket has one, or the buffer is too short.
    pub(crate) fn give(&mut self, bucket: usize, empty: Buf) {
        self.give_short(bucket, empty, self.capacity_bytes);
    }

    /// Gives a bucket that has none an empty buffer with a capacity of `capacity_bytes`, at most
    /// that of the others.
    ///
    /// # Panics
    /// If the bucket has one, or the buffer is too short.
    pub(crate) fn give_short(&mut self, bucket: usize, mut empty: Buf, capacity_bytes: usize) {
        assert!(capacity_bytes > 0 && capacity_bytes <= self.capacity_bytes);
        assert!(self.bufs[bucket].is_none() && empty.len() >= capacity_bytes);
        let (next, end) = bounds(&mut empty, capacity_bytes);
        self.begin(bucket, next, end);
        self.bufs[bucket] = Some(empty);
        self.missing -= 1;
        self.unit_bytes = common_divisor(self.unit_bytes, capacity_bytes);
    }

    /// Takes a bucket's buffer, with the bytes filled in it; the bucket then has none.
    pub(crate) fn take(&mut self, bucket: usize) -> Option<(Buf, usize)> {
        let filled_bytes = self.filled_bytes(bucket);
        self.settle(bucket);
        let buf = self.bufs[bucket].take()?;
        let nowhere = std::ptr::null_mut();
        self.begin(bucket, nowhere, nowhere);
        self.missing += 1;
        Some((buf, filled_bytes))
    }

    /// Bytes written to a bucket's buffer so far.
    pub(crate) fn filled_bytes(&self, bucket: usize) -> usize {
        let address = self.bufs[bucket].as_ref().map_or(0, Buf::address);
        self.cursors[bucket].next as usize - address
    }

    /// Takes a bucket's buffer, if it has one, and puts `empty` in its place.
    pub(crate) fn replace(&mut self, bucket: usize, empty: Buf) -> Option<Buf> {
        let full = self.take(bucket).map(|(buf, _)| buf);
        self.give(bucket, empty);
        full
    }

    /// Discards the contents of a bucket's buffer.
    pub(crate) fn rewind(&mut self, bucket: usize) {
        if let Some(buf) = &mut self.bufs[bucket] {
            let capacity_bytes = self.ends[bucket] as usize - buf.address();
            let (next, end) = bounds(buf, capacity_bytes);
            self.begin(bucket, next, end);
        }
    }

    /// Starts a buffer whose capacity ends at `end`.
    fn begin(&mut self, bucket: usize, next: *mut u8, end: *mut u8) {
        let to_end = end as usize - next as usize;
        let step = match self.lines.is_empty() {
            true => to_end,
            false => to_end.min(LINE_BYTES),
        };
        let stop = next.wrapping_add(step);
        self.cursors[bucket] = Cursor { next, stop };
        self.ends[bucket] = end;
    }

    /// Writes the contents of a bucket's line to its buffer, with a fence that makes writes past
    /// the caches visible.
    fn settle(&mut self, bucket: usize) {
        let filled = self.filled_bytes(bucket);
        let (Some(line), Some(buf)) = (self.lines.get(bucket), &mut self.bufs[bucket]) else {
            return;
        };
        let from = filled / LINE_BYTES * LINE_BYTES;
        buf[from..filled].copy_from_slice(&line.0[..filled - from]);
        fence();
    }

    /// Capacity of a buffer in bytes.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Appends the record of `len_bytes` at `at` in `area` to a bucket's buffer; false if there is
    /// no room. Such a buffer is never passed to the methods for elements of one size.
    ///
    /// # Panics
    /// If there is no such bucket, or no such record.
    #[inline]
    pub(crate) fn append(
        &mut self,
        bucket: usize,
        area: &[u8],
        at: usize,
        len_bytes: usize,
    ) -> bool {
        debug_assert!(self.lines.is_empty());
        let cursor = &mut self.cursors[bucket];
        if cursor.next.is_null() {
            return false;
        }
        let room_bytes = cursor.stop as usize - cursor.next as usize;
        // SAFETY: without lines, `next..stop` is room in the bucket's own buffer, to which no one
        // else has access.
        let room = unsafe { std::slice::from_raw_parts_mut(cursor.next, room_bytes) };
        let is_copied = copy_item(area, at, len_bytes, room);
        if is_copied {
            // Prefetches the place of the next record, assuming the same length.
            fetch(room, len_bytes + COPIED_BYTES - 1, len_bytes);
            cursor.next = cursor.next.wrapping_add(len_bytes);
        }
        is_copied
    }

    /// All buffers with the bytes filled in each.
    pub(crate) fn into_parts(mut self) -> impl Iterator<Item = (Option<Buf>, usize)> {
        (0..self.lines.len()).for_each(|bucket| self.settle(bucket));
        self.cursors
            .into_iter()
            .zip(self.bufs)
            .map(|(cursor, buf)| {
                let address = buf.as_ref().map_or(0, Buf::address);
                (buf, cursor.next as usize - address)
            })
    }

    /// Writes `keys[i]` to bucket `buckets[i]` for all i, or until a buffer is full.
    pub(crate) fn scatter_keys<K: Pod>(&mut self, keys: &[K], buckets: &[u16]) -> Option<Full> {
        self.scatter_numbers::<K>(bytemuck::cast_slice(keys), buckets)
    }

    /// Like `scatter_keys`, for the keys in `bytes`, stored one after another, aligned or not.
    pub(crate) fn scatter_numbers<K: Pod>(
        &mut self,
        bytes: &[u8],
        buckets: &[u16],
    ) -> Option<Full> {
        const { assert!(LINE_BYTES.is_multiple_of(size_of::<K>())) };
        assert_eq!(bytes.len(), buckets.len() * size_of::<K>());
        assert_eq!(self.unit_bytes % size_of::<K>(), 0);
        self.check(buckets);
        if self.lines.is_empty() && self.bufs.len() * self.capacity_bytes > CACHED_BYTES {
            self.make_lines();
        }
        match self.lines.is_empty() {
            true => self.scatter_each(bytes, size_of::<K>(), buckets),
            false => self.scatter_lines::<K>(bytes, buckets),
        }
    }

    /// Like `scatter_numbers`, but through lines, for checked arguments.
    fn scatter_lines<K: Pod>(&mut self, bytes: &[u8], buckets: &[u16]) -> Option<Full> {
        let source = bytes.as_ptr().cast::<K>();
        let lines = self.lines.as_mut_ptr();
        let cursors = self.cursors.as_mut_ptr();
        for (index, &bucket) in buckets.iter().enumerate() {
            let bucket = usize::from(bucket);
            // SAFETY: `check` showed that `bucket` is a valid index of cursors and lines, and
            // `index` is a valid index of `bytes`. `next` points at room for one key in the buffer
            // (an invariant between calls; below, a full buffer ends the call). Buffers begin at a
            // line, and keys follow without gaps; the size of a key divides that of a line. So the
            // key's place in the line, at the same distance from the line's start, is inside it.
            unsafe {
                let cursor = cursors.add(bucket);
                let next = (*cursor).next;
                let line = lines.add(bucket).cast::<u8>();
                let place = line.add(next as usize % LINE_BYTES).cast::<K>();
                place.write_unaligned(source.add(index).read_unaligned());
                let next = next.add(size_of::<K>());
                (*cursor).next = next;
                if next == (*cursor).stop && self.end_line(bucket) {
                    return Some(Full {
                        consumed: index + 1,
                        bucket,
                    });
                }
            }
        }
        None
    }

    /// Makes a line for each bucket, before anything is written.
    fn make_lines(&mut self) {
        self.lines = vec![Line([0; LINE_BYTES]); self.bufs.len()];
        for bucket in 0..self.bufs.len() {
            assert_eq!(
                self.filled_bytes(bucket),
                0,
                "keys are not mixed with records"
            );
            self.begin(bucket, self.cursors[bucket].next, self.ends[bucket]);
        }
    }

    /// Writes a bucket's line, which is full or ends the buffer; true if the buffer is full.
    #[inline(always)]
    fn end_line(&mut self, bucket: usize) -> bool {
        let end = self.ends[bucket];
        let cursor = &mut self.cursors[bucket];
        let next = cursor.next;
        if (next as usize).is_multiple_of(LINE_BYTES) {
            // SAFETY: a whole line is before `next` in the bucket's buffer, and begins at a line
            // boundary.
            unsafe { write_line(next.sub(LINE_BYTES), &self.lines[bucket]) };
        }
        if next == end {
            return true;
        }
        let left = end as usize - next as usize;
        cursor.stop = next.wrapping_add(left.min(LINE_BYTES));
        false
    }

    /// Like `scatter_keys`, for records of `record_bytes` each, stored one after another in
    /// `records`.
    pub(crate) fn scatter_records(
        &mut self,
        records: &[u8],
        record_bytes: usize,
        buckets: &[u16],
    ) -> Option<Full> {
        assert!(self.lines.is_empty(), "records are not mixed with keys");
        assert_eq!(records.len(), buckets.len() * record_bytes);
        assert_eq!(self.unit_bytes % record_bytes, 0);
        self.check(buckets);
        self.scatter_each(records, record_bytes, buckets)
    }

    /// Like `scatter_records`, but directly to the buffers, for checked arguments. If the length is
    /// known at compile time, a record is one or two registers.
    #[inline(always)]
    fn scatter_each(
        &mut self,
        records: &[u8],
        record_bytes: usize,
        buckets: &[u16],
    ) -> Option<Full> {
        let source = records.as_ptr();
        let cursors = self.cursors.as_mut_ptr();
        for (index, &bucket) in buckets.iter().enumerate() {
            // SAFETY: as for keys, but in the buffer itself. `record_bytes` divides the capacities,
            // so there is room for one whole record, and for another one as long as the buffer is
            // not full. Source and buffer are different memory.
            unsafe {
                let cursor = cursors.add(usize::from(bucket));
                let next = (*cursor).next;
                std::ptr::copy_nonoverlapping(source.add(index * record_bytes), next, record_bytes);
                let next = next.add(record_bytes);
                (*cursor).next = next;
                if next == (*cursor).stop {
                    return Some(Full {
                        consumed: index + 1,
                        bucket: usize::from(bucket),
                    });
                }
                if record_bytes > FETCHED_BYTES_MIN {
                    let place = std::slice::from_raw_parts(next, record_bytes);
                    fetch(place, (record_bytes - 1) % LINE_BYTES, record_bytes);
                }
            }
        }
        None
    }

    /// Memory safety here depends on bucket numbers. One vectorised pass checks that all of them
    /// are valid and that each bucket has a buffer.
    fn check(&self, buckets: &[u16]) {
        assert_eq!(self.missing, 0, "every bucket has a buffer");
        let largest = buckets
            .iter()
            .fold(0, |largest, &bucket| largest.max(bucket));
        assert!(
            usize::from(largest) < self.cursors.len(),
            "bucket numbers are in range"
        );
    }
}

/// The greatest common divisor.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The first byte of a buffer, and the end of its usable part.
fn bounds(buf: &mut Buf, capacity_bytes: usize) -> (*mut u8, *mut u8) {
    assert!(
        buf.address().is_multiple_of(LINE_BYTES),
        "a buffer begins at a line"
    );
    let range = buf[..capacity_bytes].as_mut_ptr_range();
    (range.start, range.end)
}

/// Writes a line past the caches, if the machine supports it. Miri does not support it, and copies
/// the line.
///
/// # Safety
/// `to` begins a line of a buffer that no one else accesses.
#[inline(always)]
unsafe fn write_line(to: *mut u8, line: &Line) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        let from = line.0.as_ptr().cast::<__m128i>();
        for quarter in 0..LINE_BYTES / size_of::<__m128i>() {
            // SAFETY: both lines are aligned and of this length; every x86-64 has these
            // instructions.
            unsafe {
                let part = _mm_load_si128(from.add(quarter));
                _mm_stream_si128(to.cast::<__m128i>().add(quarter), part);
            }
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller guarantees a line there, and it is not the one owned here.
    unsafe {
        std::ptr::copy_nonoverlapping(line.0.as_ptr(), to, LINE_BYTES);
    }
}

/// Like `write_line`, for a line of bytes. [`fence`] must be called before anything else is written
/// or read there.
///
/// # Panics
/// Unless `to` is a whole line.
#[inline(always)]
fn store_line(to: &mut [u8], line: &Line) {
    assert!(to.len() == LINE_BYTES && to.as_ptr().cast::<Line>().is_aligned());
    // SAFETY: `to` begins at a line boundary and has a line's length, and the borrow is exclusive.
    unsafe { write_line(to.as_mut_ptr(), line) };
}

/// Makes writes past the caches visible to every thread that synchronises with this one afterwards.
fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 has this instruction; it only waits.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// A loop that is compiled for several vector widths; the machine's own is selected at run time.
macro_rules! vectorised {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $t:ty),*) -> $result:ty $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name($($argument: $t),*) -> $result {
            #[inline(always)]
            fn plain($($argument: $t),*) -> $result $body
            #[cfg(target_arch = "x86_64")]
            {
                /// # Safety
                /// The machine must have AVX-512 with these extensions.
                #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
                fn avx512($($argument: $t),*) -> $result {
                    plain($($argument),*)
                }
                /// # Safety
                /// The machine must have AVX2.
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $t),*) -> $result {
                    plain($($argument),*)
                }
                let has_avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl");
                if has_avx512 {
                    // SAFETY: the machine has the features that the function is compiled for.
                    return unsafe { avx512($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}

pub(crate) mod bounds;
pub(crate) mod mixing;
pub(crate) mod parts;

/// Adds the occurrences of each number in `numbers` to `counts`; all numbers are below its length.
pub(crate) fn count_each(numbers: &[u16], counts: &mut [usize]) {
    // Four tables of counters in rotation, so that few additions wait for the previous one:
    // consecutive numbers are often equal.
    let (quads, rest) = numbers.as_chunks::<4>();
    let mut tables = vec![0u32; 4 * counts.len()];
    let (first, others) = tables.split_at_mut(counts.len());
    let (second, others) = others.split_at_mut(counts.len());
    let (third, fourth) = others.split_at_mut(counts.len());
    for &[a, b, c, d] in quads {
        first[usize::from(a)] += 1;
        second[usize::from(b)] += 1;
        third[usize::from(c)] += 1;
        fourth[usize::from(d)] += 1;
    }
    for &number in rest {
        first[usize::from(number)] += 1;
    }
    for table in tables.chunks_exact(counts.len()) {
        for (count, more) in counts.iter_mut().zip(table) {
            *count += *more as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::memory::{Budget, Pool};

    #[test]
    fn every_key_lands_in_its_bucket_in_order_and_full_buffers_are_reported() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 4096, 8).unwrap();
        let mut scatter = Scatter::without_buffers(3, 4096);
        for (bucket, capacity_bytes) in [4096, 512, 4096].into_iter().enumerate() {
            scatter.give_short(bucket, pool.take().unwrap(), capacity_bytes);
        }
        let mut first_of_1 = 512;
        let keys: Vec<u64> = (0..4000).collect();
        let buckets: Vec<u16> = keys.iter().map(|k| (k % 3) as u16).collect();
        let mut out: Vec<Vec<u64>> = vec![Vec::new(); 3];
        let mut at = 0;
        while let Some(full) = scatter.scatter_keys(&keys[at..], &buckets[at..]) {
            at += full.consumed;
            let filled_bytes = match full.bucket {
                1 => std::mem::replace(&mut first_of_1, 4096),
                _ => 4096,
            };
            assert_eq!(scatter.filled_bytes(full.bucket), filled_bytes);
            let buf = scatter.replace(full.bucket, pool.take().unwrap()).unwrap();
            out[full.bucket].extend_from_slice(bytemuck::cast_slice(&buf[..filled_bytes]));
        }
        for (bucket, (buf, filled)) in scatter.into_parts().enumerate() {
            let buf = buf.unwrap();
            out[bucket].extend_from_slice(bytemuck::cast_slice(&buf[..filled]));
        }
        for (bucket, out) in out.iter().enumerate() {
            let expected: Vec<u64> = keys
                .iter()
                .copied()
                .filter(|k| k % 3 == bucket as u64)
                .collect();
            assert_eq!(*out, expected);
        }
    }

    #[test]
    fn keys_of_every_size_land_in_buffers_that_end_inside_a_line() {
        fn check<K: Pod>(bytes: &[u8], is_lined: bool) {
            let size = size_of::<K>();
            let budget = Budget::new(1 << 20);
            let pool = Pool::new(&budget, "test", 4096, 8).unwrap();
            // Neither size is a whole number of lines.
            let mut scatter = Scatter::without_buffers(2, 4096 - 5 * 16);
            scatter.give_short(0, pool.take().unwrap().split_to(32), 16);
            scatter.give(1, pool.take().unwrap());
            if is_lined {
                scatter.make_lines();
            }
            let count = (bytes.len() - 1) / size;
            // Not aligned.
            let keys = &bytes[1..1 + count * size];
            let buckets: Vec<u16> = (0..count).map(|index| (index % 3 == 1) as u16).collect();
            let mut out = [Vec::new(), Vec::new()];
            let mut at = 0;
            while let Some(full) = scatter.scatter_numbers::<K>(&keys[at * size..], &buckets[at..])
            {
                at += full.consumed;
                let filled = scatter.filled_bytes(full.bucket);
                let buf = scatter.replace(full.bucket, pool.take().unwrap()).unwrap();
                out[full.bucket].extend_from_slice(&buf[..filled]);
            }
            for (out, (buf, filled)) in out.iter_mut().zip(scatter.into_parts()) {
                let buf = buf.unwrap();
                out.extend_from_slice(&buf[..filled]);
            }
            for (bucket, out) in out.iter().enumerate() {
                let expected = keys.chunks(size).zip(&buckets);
                let expected = expected.filter(|(_, b)| usize::from(**b) == bucket);
                let expected: Vec<u8> = expected.flat_map(|(key, _)| key.to_vec()).collect();
                assert_eq!(*out, expected, "{size} {bucket}");
            }
        }
        let bytes: Vec<u8> = (0..50_001u32)
            .map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8)
            .collect();
        for is_lined in [false, true] {
            check::<u8>(&bytes, is_lined);
            check::<u16>(&bytes, is_lined);
            check::<u32>(&bytes, is_lined);
            check::<u64>(&bytes, is_lined);
            check::<u128>(&bytes, is_lined);
        }
    }

    #[test]
    fn records_of_any_length_are_appended_until_one_has_no_room() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 4096, 2).unwrap();
        let mut scatter = Scatter::without_buffers(2, 4096);
        assert!(!scatter.append(0, &[1, 2], 0, 1));
        (0..2).for_each(|bucket| scatter.give(bucket, pool.take().unwrap()));
        let area: Vec<u8> = (0..9000u32).map(|at| (at % 251) as u8).collect();
        let mut expected = [Vec::new(), Vec::new()];
        let mut at = 0;
        for len in (0..).map(|number| number * 7 % 190) {
            let bucket = len % 2;
            let is_room = expected[bucket].len() + len <= 4096;
            assert_eq!(scatter.append(bucket, &area, at, len), is_room);
            if !is_room {
                break;
            }
            expected[bucket].extend_from_slice(&area[at..at + len]);
            at += len;
        }
        for (expected, (buf, filled)) in expected.iter().zip(scatter.into_parts()) {
            assert_eq!(*expected, buf.unwrap()[..filled]);
        }
    }

    #[test]
    #[should_panic(expected = "bucket numbers are in range")]
    fn a_bucket_number_out_of_range_is_caught() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 4096, 1).unwrap();
        let mut scatter = Scatter::new(vec![pool.take().unwrap()], 4096);
        scatter.scatter_keys(&[1u64], &[1]);
    }
}
