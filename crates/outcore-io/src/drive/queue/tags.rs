//! Counts the slots of a drive's queue: a transfer takes one when it starts and returns it when it
//! is over.
//!
//! Contract: at most [`TagPool::limit`] slots are taken at once by all submitters. A pool belongs
//! to one drive, or to the drives of a controller that serves a limited number of requests at once.
//! Submitters of several threads share it. Taking never blocks; [`TagPool::wait`] sleeps, for
//! submitters that have nothing else to wait for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A number of slots.
#[derive(Debug)]
pub struct TagPool {
    limit: usize,
    taken: AtomicUsize,
    sleepers: AtomicUsize,
    door: Mutex<()>,
    freed: Condvar,
}

impl TagPool {
    /// `limit` free slots; at least one.
    pub fn new(limit: usize) -> Self {
        TagPool {
            limit: limit.max(1),
            taken: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            door: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Total number of slots.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Slots that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// Whether a slot is free at this moment.
    pub(crate) fn has_free(&self) -> bool {
        self.taken() < self.limit
    }

    /// Takes a slot, if one is free.
    pub fn take(&self) -> bool {
        self.taken
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |taken| {
                (taken < self.limit).then_some(taken + 1)
            })
            .is_ok()
    }

    /// Returns a slot.
    pub fn put(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.freed.notify_all();
        }
    }

    /// Sleeps until a slot is free, or the time is over.
    pub fn wait(&self, limit: Duration) {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let woken = self
            .freed
            .wait_timeout_while(door, limit, |()| !self.has_free());
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        drop(woken);
    }
}
