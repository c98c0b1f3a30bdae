//! Requests, flash operations and the intrusive lists that hold them.
//!
//! Contract: everything that exists for only a part of a run is an entry of a [`Pool`], identified
//! by its index. Lists are linked through the entries themselves. Once the pools have grown to the
//! largest number of operations in flight, a run allocates nothing.

use std::ops::{Index, IndexMut};

use crate::quantities::Ps;
use crate::workload::{Op, Status};

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// The kinds of data that an open block receives. A plane writes to one block of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frontier {
    Data = 0,
    Table = 1,
    Collected = 2,
    /// Data of the host, one bit per cell.
    Slc = 3,
}

impl Frontier {
    /// Number of kinds.
    pub(crate) const COUNT: usize = 4;
}

/// One request of the host, from submission to completion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Req {
    /// Time at which the host issued it.
    pub(crate) arrival: Ps,
    /// Time at which it entered the submission queue.
    pub(crate) enqueued: Ps,
    /// First sector in the host's numbering.
    pub(crate) lba: u64,
    /// The caller's tag, returned at completion.
    pub(crate) tag: u64,
    /// Number of sectors.
    pub(crate) sectors: u32,
    /// Sectors that the data cache still has to move.
    pub(crate) cache_sectors: u32,
    /// Number of unfinished flash operations.
    pub(crate) open: u32,
    /// First flash operation that has not been passed on.
    pub(crate) first: u32,
    /// Queue pair.
    pub(crate) queue: u16,
    /// Read, write or trim.
    pub(crate) op: Op,
    /// How it ends.
    pub(crate) status: Status,
    /// One of its flash operations was dropped, as in MQSim (compat only).
    pub(crate) lost: bool,
}

impl Req {
    pub(crate) const BLANK: Req = Req {
        arrival: 0,
        enqueued: 0,
        lba: 0,
        tag: 0,
        sectors: 0,
        cache_sectors: 0,
        open: 0,
        first: NONE,
        queue: 0,
        op: Op::Read,
        status: Status::Success,
        lost: false,
    };
}

/// Kind of a flash operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Program,
    Erase,
}

/// Origin of a flash operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    User,
    Cache,
    Mapping,
    Gc,
}

/// One flash operation on one page (or block).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tr {
    /// Sectors of the mapping unit that are read or written.
    pub(crate) bitmap: u64,
    /// Time at which its data was created.
    pub(crate) stamp: Ps,
    /// Time at which it was queued at its die.
    pub(crate) queued: Ps,
    /// Mapping unit within the drive; for [`Source::Mapping`], the table page within the queue.
    pub(crate) lpa: u32,
    /// Physical page; for an erase, any page of the block.
    pub(crate) page: u32,
    /// Plane of the page and the page's number within its block (with a mark for a block with one
    /// bit per cell), known once it is queued.
    pub(crate) plane: u32,
    pub(crate) row: u32,
    /// Bytes to transfer over the flash bus.
    pub(crate) bytes: u32,
    /// The request that it belongs to.
    pub(crate) req: u32,
    /// For a program: the read that it waits for. For a read: the program that waits for it.
    pub(crate) related: u32,
    /// For a program of a collection: its erase. For an erase: the number of programs that it waits
    /// for.
    pub(crate) erase: u32,
    /// Links within the queue that holds it.
    pub(crate) next: u32,
    pub(crate) prev: u32,
    /// Next operation of the same request, or of the same list.
    pub(crate) sibling: u32,
    /// First mapping unit packed into this program (units smaller than a page).
    pub(crate) units: u32,
    pub(crate) queue: u16,
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// Priority class 0 (urgent) to 3 (low).
    pub(crate) class: u8,
    /// `page` is valid.
    pub(crate) placed: bool,
}

impl Tr {
    pub(crate) const BLANK: Tr = Tr::new(Kind::Read, Source::User, 0, 0);

    pub(crate) const fn new(kind: Kind, source: Source, queue: u16, class: u8) -> Self {
        Tr {
            bitmap: 0,
            stamp: 0,
            queued: 0,
            lpa: NONE,
            page: NONE,
            plane: NONE,
            row: NONE,
            bytes: 0,
            req: NONE,
            related: NONE,
            erase: NONE,
            next: NONE,
            prev: NONE,
            sibling: NONE,
            units: NONE,
            queue,
            kind,
            source,
            class,
            placed: false,
        }
    }
}

/// Entries with stable indices and a free list.
#[derive(Debug, Clone)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
    blank: T,
}

impl<T: Copy> Pool<T> {
    /// An empty pool; `blank` fills the entries that are not in use.
    pub(crate) fn new(blank: T) -> Self {
        Pool {
            items: Vec::new(),
            free: Vec::new(),
            blank,
        }
    }

    // N.B. The place is chosen before the item is made, so that the compiler writes its fields
    // there directly instead of copying them from the stack.
    #[inline]
    pub(crate) fn put(&mut self, item: T) -> u32 {
        let at = match self.free.pop() {
            Some(at) => at,
            None => self.grow(),
        };
        self.items[at as usize] = item;
        at
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.items.push(self.blank);
        (self.items.len() - 1) as u32
    }

    #[inline]
    pub(crate) fn drop_at(&mut self, at: u32) {
        self.free.push(at);
    }

    /// Number of entries in use.
    pub(crate) fn live(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: u32) -> &T {
        &self.items[at as usize]
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.items[at as usize]
    }
}

/// A first-in-first-out list of flash operations, linked through [`Tr::next`] and [`Tr::prev`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) count: u32,
}

impl List {
    pub(crate) const EMPTY: List = List {
        head: NONE,
        tail: NONE,
        count: 0,
    };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(crate) fn push(&mut self, trs: &mut Pool<Tr>, at: u32) {
        trs[at].next = NONE;
        trs[at].prev = self.tail;
        if self.tail == NONE {
            self.head = at;
        } else {
            trs[self.tail].next = at;
        }
        self.tail = at;
        self.count += 1;
    }

    #[inline]
    pub(crate) fn remove(&mut self, trs: &mut Pool<Tr>, at: u32) {
        let Tr { next, prev, .. } = trs[at];
        if prev == NONE {
            self.head = next;
        } else {
            trs[prev].next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            trs[next].prev = prev;
        }
        self.count -= 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, trs: &mut Pool<Tr>) -> Option<u32> {
        let at = self.head;
        if at == NONE {
            return None;
        }
        self.remove(trs, at);
        Some(at)
    }
}

/// A hasher for integer keys: one multiplication and a rotation. Nothing iterates over these
/// tables, so their internal order cannot affect a result.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IntHasher(u64);

impl std::hash::Hasher for IntHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    #[inline]
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// Builds [`IntHasher`].
pub(crate) type IntHash = std::hash::BuildHasherDefault<IntHasher>;
/// A map with integer keys.
pub(crate) type IntMap<V> = std::collections::HashMap<u32, V, IntHash>;
/// A set of integers.
pub(crate) type IntSet = std::collections::HashSet<u32, IntHash>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_when_entries_leave_from_the_middle() {
        let mut trs = Pool::new(Tr::BLANK);
        let mut list = List::EMPTY;
        let ids: Vec<u32> = (0..5)
            .map(|_| trs.put(Tr::new(Kind::Read, Source::User, 0, 1)))
            .collect();
        for id in &ids {
            list.push(&mut trs, *id);
        }
        list.remove(&mut trs, ids[2]);
        list.remove(&mut trs, ids[0]);
        list.remove(&mut trs, ids[4]);
        assert_eq!(list.pop(&mut trs), Some(ids[1]));
        assert_eq!(list.pop(&mut trs), Some(ids[3]));
        assert_eq!(list.pop(&mut trs), None);
        assert_eq!(list.count, 0);
    }

    #[test]
    fn a_pool_uses_its_entries_again() {
        let mut pool = Pool::new(0);
        let a = pool.put(1);
        let b = pool.put(2);
        pool.drop_at(a);
        assert_eq!(pool.put(3), a);
        assert_eq!((pool[a], pool[b], pool.live()), (3, 2, 2));
    }
}
