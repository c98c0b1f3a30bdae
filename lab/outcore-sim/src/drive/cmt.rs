//! The mapping-table cache (CMT) records which table entries are in DRAM, in LRU order.
//!
//! Contract: an entry is reserved while its table page is being read (`waiting`) and valid
//! afterwards. [`Cmt::evict`] removes the oldest entry; [`Cmt::evict_idle`] skips entries that
//! operations wait for.
//!
//! Bounds: 40 bytes per entry; every step takes constant time.

use super::types::{IntMap, NONE, Pool};

#[derive(Debug, Clone, Copy)]
pub(crate) struct CmtEntry {
    pub(crate) bitmap: u64,
    pub(super) unit: u32,
    newer: u32,
    older: u32,
    pub(super) dirty: bool,
    pub(super) waiting: bool,
}

/// Maximum number of entries that a search for an evictable one looks at.
const IDLE_LOOKS_MAX: u32 = 64;

const NO_ENTRY: CmtEntry = CmtEntry {
    bitmap: 0,
    unit: NONE,
    newer: NONE,
    older: NONE,
    dirty: false,
    waiting: false,
};

/// The cache of mapping entries of one queue.
#[derive(Debug, Clone)]
pub(crate) struct Cmt {
    at: IntMap<u32>,
    pub(crate) entries: Pool<CmtEntry>,
    newest: u32,
    oldest: u32,
    capacity_count: u32,
}

impl Cmt {
    pub(crate) fn new(capacity_count: u32) -> Self {
        Cmt {
            at: IntMap::default(),
            entries: Pool::new(NO_ENTRY),
            newest: NONE,
            oldest: NONE,
            capacity_count,
        }
    }

    #[inline]
    pub(crate) fn find(&self, unit: u32) -> Option<u32> {
        self.at.get(&unit).copied()
    }

    #[inline]
    pub(super) fn valid(&self, unit: u32) -> Option<u32> {
        self.find(unit).filter(|at| !self.entries[*at].waiting)
    }

    pub(crate) fn full(&self) -> bool {
        self.at.len() >= self.capacity_count as usize
    }

    fn unlink(&mut self, at: u32) {
        let CmtEntry { newer, older, .. } = self.entries[at];
        if newer == NONE {
            self.newest = older;
        } else {
            self.entries[newer].older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.entries[older].newer = newer;
        }
    }

    fn link_newest(&mut self, at: u32) {
        self.entries[at].newer = NONE;
        self.entries[at].older = self.newest;
        if self.newest == NONE {
            self.oldest = at;
        } else {
            self.entries[self.newest].newer = at;
        }
        self.newest = at;
    }

    pub(crate) fn touch(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    pub(crate) fn reserve(&mut self, unit: u32) -> u32 {
        let at = self.entries.put(CmtEntry {
            bitmap: 0,
            unit,
            newer: NONE,
            older: NONE,
            dirty: false,
            waiting: true,
        });
        self.link_newest(at);
        self.at.insert(unit, at);
        at
    }

    pub(crate) fn evict(&mut self) -> Option<CmtEntry> {
        self.evict_at(self.oldest)
    }

    /// Evicts the oldest entry that no operation waits for, if a short search finds one.
    pub(super) fn evict_idle(&mut self) -> Option<CmtEntry> {
        let mut at = self.oldest;
        for _ in 0..IDLE_LOOKS_MAX {
            if at == NONE || !self.entries[at].waiting {
                break;
            }
            at = self.entries[at].newer;
        }
        if at != NONE && self.entries[at].waiting {
            return None;
        }
        self.evict_at(at)
    }

    fn evict_at(&mut self, at: u32) -> Option<CmtEntry> {
        if at == NONE {
            return None;
        }
        let entry = self.entries[at];
        self.unlink(at);
        self.entries.drop_at(at);
        self.at.remove(&entry.unit);
        Some(entry)
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity_count
    }
}
