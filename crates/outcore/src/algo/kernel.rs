//! The two innermost loops of a distribution: write each key to the end of its bucket's buffer.
//!
//! Contract: [`Scatter`] owns one buffer a bucket and a write position in each. `scatter` copies
//! keys (or records) to the positions of their buckets until the input is done or a buffer is
//! full; the caller takes the full buffer, puts an empty one in its place, and goes on. The element's
//! size divides all capacities. Records of any length are appended one by one instead.
//!
//! The one file of the engine outside memory and I/O with `unsafe`: indexing through slices costs
//! three loads and two compares a key more than the one load, store and test of a pointer, and
//! this loop runs once for every key of every distribution.
//!
//! Invariants (checked at the border, relied on inside): every buffer is at least
//! `segment_bytes` long; `0 <= filled < capacity` between calls, so that each position has room
//! for one more; bucket numbers are below the number of buffers.

#![allow(unsafe_code)]

use bytemuck::Pod;

use crate::memory::Buf;

/// A full buffer was met after `consumed` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Elements of the input that have been written.
    pub(crate) consumed: usize,
    /// The bucket whose buffer is full.
    pub(crate) bucket: usize,
}

#[derive(Clone, Copy)]
struct Cursor {
    next: *mut u8,
    end: *mut u8,
}

/// One buffer a bucket, with write positions.
pub(crate) struct Scatter {
    cursors: Vec<Cursor>,
    bufs: Vec<Buf>,
    capacity_bytes: usize,
    /// Divides the capacity of every buffer.
    granule_bytes: usize,
}

// SAFETY: the pointers go into the buffers owned beside them.
unsafe impl Send for Scatter {}

impl Scatter {
    /// Takes one empty buffer a bucket; each is filled up to `capacity_bytes`, a multiple of the
    /// element's size.
    ///
    /// # Panics
    /// When a buffer is shorter than that.
    pub(crate) fn new(bufs: Vec<Buf>, capacity_bytes: usize) -> Self {
        assert!(capacity_bytes > 0 && bufs.iter().all(|buf| buf.len() >= capacity_bytes));
        let mut scatter = Scatter {
            cursors: Vec::with_capacity(bufs.len()),
            bufs,
            capacity_bytes,
            granule_bytes: capacity_bytes,
        };
        for buf in &mut scatter.bufs {
            scatter.cursors.push(cursor(buf, capacity_bytes));
        }
        scatter
    }

    /// Bytes written to a bucket's buffer so far.
    pub(crate) fn filled_bytes(&self, bucket: usize) -> usize {
        self.cursors[bucket].next as usize - self.bufs[bucket].address()
    }

    /// Takes a bucket's buffer and puts `empty` in its place.
    pub(crate) fn replace(&mut self, bucket: usize, mut empty: Buf) -> Buf {
        assert!(empty.len() >= self.capacity_bytes);
        self.cursors[bucket] = cursor(&mut empty, self.capacity_bytes);
        std::mem::replace(&mut self.bufs[bucket], empty)
    }

    /// Calls an empty buffer of a bucket full at `capacity_bytes`, less than those after it.
    ///
    /// # Panics
    /// When something has been written to it, or it is shorter than that.
    pub(crate) fn shorten(&mut self, bucket: usize, capacity_bytes: usize) {
        assert!(self.filled_bytes(bucket) == 0);
        assert!(capacity_bytes > 0 && capacity_bytes <= self.capacity_bytes);
        self.cursors[bucket] = cursor(&mut self.bufs[bucket], capacity_bytes);
        self.granule_bytes = common_divisor(self.granule_bytes, capacity_bytes);
    }

    /// Forgets what was written to a bucket's buffer.
    pub(crate) fn rewind(&mut self, bucket: usize) {
        self.cursors[bucket] = cursor(&mut self.bufs[bucket], self.capacity_bytes);
    }

    /// Bytes of a buffer that are filled at most.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Appends `record`, of any length, to a bucket's buffer; false if it has no room for that. A
    /// buffer that is filled so is never passed to the methods for elements of one size.
    ///
    /// # Panics
    /// When there is no such bucket.
    #[inline]
    pub(crate) fn append(&mut self, bucket: usize, record: &[u8]) -> bool {
        let cursor = &mut self.cursors[bucket];
        if record.len() > cursor.end as usize - cursor.next as usize {
            return false;
        }
        // SAFETY: `next..end` is room in the bucket's own buffer, and there is enough of it; the
        // record lies elsewhere, since the buffer is owned and not lent.
        unsafe {
            std::ptr::copy_nonoverlapping(record.as_ptr(), cursor.next, record.len());
            cursor.next = cursor.next.add(record.len());
        }
        true
    }

    /// All buffers with the bytes filled in each.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = (Buf, usize)> {
        self.cursors
            .into_iter()
            .zip(self.bufs)
            .map(|(cursor, buf)| {
                let filled = cursor.next as usize - buf.address();
                (buf, filled)
            })
    }

    /// Writes `keys[i]` to bucket `buckets[i]` for all i, or until a buffer is full.
    pub(crate) fn scatter_keys<K: Pod>(&mut self, keys: &[K], buckets: &[u16]) -> Option<Full> {
        assert_eq!(keys.len(), buckets.len());
        assert_eq!(self.granule_bytes % size_of::<K>(), 0);
        self.check(buckets);
        let cursors = self.cursors.as_mut_ptr();
        for (index, (key, &bucket)) in keys.iter().zip(buckets).enumerate() {
            // SAFETY: `check` showed that `bucket` is a valid index; `next` points at room for
            // one key in the buffer (an invariant between calls, and below a full buffer ends
            // the call). Buffers start at a block border and elements are their size apart, so
            // the write is aligned for every Pod whose size is its alignment; unaligned writes
            // cost the same here.
            unsafe {
                let cursor = cursors.add(usize::from(bucket));
                let next = (*cursor).next;
                next.cast::<K>().write_unaligned(*key);
                let next = next.add(size_of::<K>());
                (*cursor).next = next;
                if next == (*cursor).end {
                    return Some(Full {
                        consumed: index + 1,
                        bucket: usize::from(bucket),
                    });
                }
            }
        }
        None
    }

    /// The same for records of `record_bytes` each, one after another in `records`.
    pub(crate) fn scatter_records(
        &mut self,
        records: &[u8],
        record_bytes: usize,
        buckets: &[u16],
    ) -> Option<Full> {
        assert_eq!(records.len(), buckets.len() * record_bytes);
        assert_eq!(self.granule_bytes % record_bytes, 0);
        self.check(buckets);
        let source = records.as_ptr();
        let cursors = self.cursors.as_mut_ptr();
        for (index, &bucket) in buckets.iter().enumerate() {
            // SAFETY: as in `scatter_keys`; `record_bytes` divides the capacities, so there is room
            // for one whole record, and source and buffer are different memory.
            unsafe {
                let cursor = cursors.add(usize::from(bucket));
                let next = (*cursor).next;
                std::ptr::copy_nonoverlapping(source.add(index * record_bytes), next, record_bytes);
                let next = next.add(record_bytes);
                (*cursor).next = next;
                if next == (*cursor).end {
                    return Some(Full {
                        consumed: index + 1,
                        bucket: usize::from(bucket),
                    });
                }
            }
        }
        None
    }

    /// Bucket numbers are a matter of memory safety here: one vectorised pass checks them all.
    fn check(&self, buckets: &[u16]) {
        let largest = buckets
            .iter()
            .fold(0, |largest, &bucket| largest.max(bucket));
        assert!(
            usize::from(largest) < self.cursors.len(),
            "bucket numbers are in range"
        );
    }
}

/// The greatest.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn cursor(buf: &mut Buf, capacity_bytes: usize) -> Cursor {
    let range = buf[..capacity_bytes].as_mut_ptr_range();
    Cursor {
        next: range.start,
        end: range.end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Budget, Pool};

    #[test]
    fn every_key_lands_in_its_bucket_in_order_and_full_buffers_are_reported() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 4096, 8).unwrap();
        let bufs = (0..3).map(|_| pool.take().unwrap()).collect();
        let mut scatter = Scatter::new(bufs, 4096);
        scatter.shorten(1, 512);
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
            let buf = scatter.replace(full.bucket, pool.take().unwrap());
            out[full.bucket].extend_from_slice(bytemuck::cast_slice(&buf[..filled_bytes]));
        }
        for (bucket, (buf, filled)) in scatter.into_parts().enumerate() {
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
    #[should_panic(expected = "bucket numbers are in range")]
    fn a_bucket_number_out_of_range_is_caught() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 4096, 1).unwrap();
        let mut scatter = Scatter::new(vec![pool.take().unwrap()], 4096);
        scatter.scatter_keys(&[1u64], &[1]);
    }
}
