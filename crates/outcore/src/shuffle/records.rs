//! The records of a shuffle: of one length, or lines.
//!
//! Contract: [`Records`] is the whole interface for the rest of a shuffle. It defines how records
//! are found in the input, moved to buckets, referred to in an area of memory, and gathered from
//! that area. The two implementations are monomorphised; no decision is made per record.

use std::marker::PhantomData;

use bytemuck::Pod;

use super::route::RandomRoute;
use super::tree::DrawRng;
use crate::partition::mover::{FixedMover, Mover, VaryingItems, VaryingMover};
use crate::partition::scatter::{NumberItems, RecordItems};
use crate::partition::task::{ItemPlace, gather};
use crate::read::framing::ItemFraming;
use crate::read::json::is_blank;
use crate::read::regions::{FixedLength, Framing, Terminated};
use crate::read::terminators::Terminators;

/// Records as a shuffle sees them.
pub(super) trait Records: Sync {
    /// How records are found in the input.
    type Framing: Framing;
    /// The place of one in an area.
    type Ref: Pod + Send;
    /// How records are moved to their buckets.
    type Mover: Mover<Route = RandomRoute>;

    fn framing(&self) -> Self::Framing;

    /// A worker's mover.
    fn mover(&self, route: RandomRoute) -> Self::Mover;

    /// Calls `visit` with a reference to each of `count` consecutive records from `at` in `area`.
    fn refs(&self, area: &[u8], at: usize, count: usize, visit: impl FnMut(Self::Ref));

    /// Appends each of the consecutive records from `at` in `area` to its leaf: `leaves` has the
    /// leaf of each record. `ends` has the end of each leaf in `refs`, and is updated.
    fn scatter(
        &self,
        area: &[u8],
        at: usize,
        leaves: &[u16],
        ends: &mut [usize],
        refs: &mut [Self::Ref],
    ) {
        let mut leaf_of = leaves.iter();
        self.refs(area, at, leaves.len(), |entry| {
            if let Some(&leaf) = leaf_of.next() {
                let end = &mut ends[usize::from(leaf)];
                refs[*end] = entry;
                *end += 1;
            }
        });
    }

    /// Permutes the records of a leaf, which come next in the output. If that costs nothing, the
    /// first records go directly to `out` instead of `refs`; returns their number and bytes.
    fn permute(&self, mut rng: DrawRng, refs: &mut [Self::Ref], _out: &mut [u8]) -> (usize, usize) {
        rng.shuffle(refs);
        (0, 0)
    }

    /// Fills `out` with records in the order of `refs`, from `next` on, until either ends; returns
    /// the number of bytes, and where it stopped.
    fn gather(
        &self,
        area: &[u8],
        refs: &[Self::Ref],
        next: ItemPlace,
        out: &mut [u8],
    ) -> (usize, ItemPlace);
}

/// Numbers, which are moved themselves instead of references: the ordered numbers are then
/// contiguous, and no place must be looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers<K>(pub(super) PhantomData<K>);

impl<K: Pod + Send + Sync> Records for Numbers<K> {
    type Framing = FixedLength;
    type Ref = K;
    type Mover = FixedMover<NumberItems<K>, RandomRoute>;

    fn framing(&self) -> FixedLength {
        FixedLength {
            record_bytes: size_of::<K>(),
        }
    }

    fn mover(&self, route: RandomRoute) -> Self::Mover {
        FixedMover::new(NumberItems(PhantomData), route)
    }

    fn refs(&self, area: &[u8], at: usize, count: usize, visit: impl FnMut(K)) {
        let records = area[at..at + count * size_of::<K>()].chunks_exact(size_of::<K>());
        records.map(bytemuck::pod_read_unaligned).for_each(visit);
    }

    fn scatter(&self, area: &[u8], at: usize, leaves: &[u16], ends: &mut [usize], refs: &mut [K]) {
        let records = area[at..at + leaves.len() * size_of::<K>()].chunks_exact(size_of::<K>());
        for (record, &leaf) in records.zip(leaves) {
            let end = &mut ends[usize::from(leaf)];
            refs[*end] = bytemuck::pod_read_unaligned(record);
            *end += 1;
        }
    }

    fn permute(&self, mut rng: DrawRng, refs: &mut [K], out: &mut [u8]) -> (usize, usize) {
        let len = out.len() / size_of::<K>() * size_of::<K>();
        // After a header of odd length the output's numbers may be misaligned.
        let out = bytemuck::try_cast_slice_mut(&mut out[..len]).unwrap_or_default();
        let dealt = out.len().min(refs.len());
        rng.deal(refs, &mut out[..dealt]);
        (dealt, dealt * size_of::<K>())
    }

    fn gather(&self, _: &[u8], refs: &[K], next: ItemPlace, out: &mut [u8]) -> (usize, ItemPlace) {
        let from = next.index * size_of::<K>() + next.offset_bytes;
        let bytes = &bytemuck::cast_slice(refs)[from..];
        let len = bytes.len().min(out.len());
        out[..len].copy_from_slice(&bytes[..len]);
        let to = from + len;
        let next = ItemPlace {
            index: to / size_of::<K>(),
            offset_bytes: to % size_of::<K>(),
        };
        (len, next)
    }
}

/// Records of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) record_bytes: usize,
}

impl Records for Fixed {
    type Framing = FixedLength;
    type Ref = u32;
    type Mover = FixedMover<RecordItems, RandomRoute>;

    fn framing(&self) -> FixedLength {
        FixedLength {
            record_bytes: self.record_bytes,
        }
    }

    fn mover(&self, route: RandomRoute) -> Self::Mover {
        let item_bytes = self.record_bytes;
        FixedMover::new(RecordItems { item_bytes }, route)
    }

    fn refs(&self, _: &[u8], at: usize, count: usize, mut visit: impl FnMut(u32)) {
        for number in 0..count {
            visit((at + number * self.record_bytes) as u32);
        }
    }

    fn gather(
        &self,
        area: &[u8],
        refs: &[u32],
        next: ItemPlace,
        out: &mut [u8],
    ) -> (usize, ItemPlace) {
        match self.record_bytes {
            16 => gather_fixed::<16>(area, refs, next, out),
            _ => {
                let range = |entry: u32| (entry as usize, self.record_bytes);
                gather(area, refs, range, next, out)
            }
        }
    }
}

/// Lines, ended by a byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    pub(super) terminator: u8,
    /// Whether blank lines are skipped.
    pub(super) drops_blanks: bool,
}

impl VaryingItems for Lines {
    const HAS_KEYS: bool = false;

    fn framing(&self) -> ItemFraming {
        ItemFraming::Terminated(self.terminator)
    }

    fn is_left_out(&self, line: &[u8]) -> bool {
        self.drops_blanks && is_blank(line)
    }
}

impl Records for Lines {
    type Framing = Terminated;
    type Ref = [u32; 2];
    type Mover = VaryingMover<Lines, RandomRoute>;

    fn framing(&self) -> Terminated {
        Terminated {
            terminator: self.terminator,
        }
    }

    fn mover(&self, route: RandomRoute) -> Self::Mover {
        VaryingMover::new(*self, route)
    }

    fn refs(&self, area: &[u8], at: usize, count: usize, mut visit: impl FnMut([u32; 2])) {
        let mut from = at;
        for end in Terminators::of(self.terminator, &area[at..]).take(count) {
            let to = at + end + 1;
            visit([from as u32, (to - from) as u32]);
            from = to;
        }
    }

    fn gather(
        &self,
        area: &[u8],
        refs: &[[u32; 2]],
        next: ItemPlace,
        out: &mut [u8],
    ) -> (usize, ItemPlace) {
        let range = |[at, len]: [u32; 2]| (at as usize, len as usize);
        gather(area, refs, range, next, out)
    }
}

/// [`gather`] for a length that is known at compile time, with whole records in the middle.
fn gather_fixed<const LEN: usize>(
    area: &[u8],
    refs: &[u32],
    next: ItemPlace,
    out: &mut [u8],
) -> (usize, ItemPlace) {
    let range = |entry: u32| (entry as usize, LEN);
    let front = match next.offset_bytes {
        0 => 0,
        offset => (LEN - offset).min(out.len()),
    };
    let (front, next) = gather(area, refs, range, next, &mut out[..front]);
    if next.offset_bytes > 0 {
        return (front, next);
    }
    let index = next.index;
    let (records, _) = out[front..].as_chunks_mut::<LEN>();
    let count = records.len().min(refs.len() - index);
    for (record, &entry) in records.iter_mut().zip(&refs[index..]) {
        let at = entry as usize;
        record.copy_from_slice(&area[at..at + LEN]);
    }
    let middle = front + count * LEN;
    let next = ItemPlace {
        index: index + count,
        offset_bytes: 0,
    };
    let (rest, next) = gather(area, refs, range, next, &mut out[middle..]);
    (middle + rest, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gathers in pieces of each length, and checks whether the result is `whole`.
    fn check<R: Records>(records: &R, area: &[u8], refs: &[R::Ref], whole: &[u8]) {
        for step in 1..80 {
            let mut out = vec![0; whole.len()];
            let mut next = ItemPlace::default();
            for chunk in out.chunks_mut(step) {
                // Places become known during the gather, some at a time.
                let known = refs.len().min(next.index + 2);
                let (some, after) = records.gather(area, &refs[..known], next, chunk);
                let (rest, after) = records.gather(area, refs, after, &mut chunk[some..]);
                assert_eq!(some + rest, chunk.len());
                next = after;
            }
            assert_eq!(out, whole);
            assert_eq!((next.index, next.offset_bytes), (refs.len(), 0));
        }
    }

    #[test]
    fn gathering_in_pieces_of_any_length_is_gathering_at_once() {
        let area: Vec<u8> = (0..=255).collect();
        for record_bytes in [5, 8, 16] {
            let count = area.len() / record_bytes;
            let starts: Vec<usize> = (0..count).map(|i| (i * 7 % count) * record_bytes).collect();
            let record = |at: &usize| area[*at..*at + record_bytes].to_vec();
            let whole: Vec<u8> = starts.iter().flat_map(record).collect();
            let refs: Vec<u32> = starts.iter().map(|&at| at as u32).collect();
            check(&Fixed { record_bytes }, &area, &refs, &whole);
            if record_bytes == 8 {
                let numbers: Vec<u64> = bytemuck::pod_collect_to_vec(&whole);
                check(&Numbers::<u64>(PhantomData), &area, &numbers, &whole);
            }
        }
    }

    #[test]
    fn numbers_are_found_wherever_they_lie() {
        let area: Vec<u8> = (0..32).collect();
        let mut refs = Vec::new();
        let numbers = Numbers::<u32>(PhantomData);
        numbers.refs(&area, 3, 2, |entry| refs.push(entry.to_ne_bytes()));
        assert_eq!(refs, [[3, 4, 5, 6], [7, 8, 9, 10]]);
    }

    #[test]
    fn lines_are_found_with_their_ends() {
        let lines = Lines {
            terminator: b'\n',
            drops_blanks: false,
        };
        let mut refs = Vec::new();
        lines.refs(b"xx\na\n\nbcd\nrest\n", 3, 3, |entry| refs.push(entry));
        assert_eq!(refs, [[3, 2], [5, 1], [6, 4]]);
    }
}
