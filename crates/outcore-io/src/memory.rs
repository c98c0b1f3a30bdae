//! Memory under one limit: [`Budget`], [`Reservation`], [`Pool`] and the buffers that I/O moves,
//! [`Buf`].
//!
//! Contract: every large allocation of a job is first a [`Reservation`] of its [`Budget`], so the
//! sum never exceeds the limit that the user set. A planned job runs under the [`Ledger`] of its
//! plan. I/O buffers come from [`Pool`]s of equal slots in one mapped region. Slots are aligned for
//! direct I/O: to at least 4 KiB, and to the slot's size if that is a power of two, up to 2 MiB. A
//! [`Buf`] is the unique owner of its bytes. It moves to a device, returns with the completion, and
//! is never copied. It can be split for requests that fill parts of it, and joined again; its slot
//! becomes free with its last part.
//!
//! Invariants: two live `Buf`s never overlap; at most one user holds a slot; a region outlives all
//! of its buffers. All bytes are initialised (anonymous maps are zero).

#![allow(unsafe_code)]

pub mod ledger;
pub mod loan;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::checksum::STEP_BYTES;
use crate::error::{Error, Kind, Result};
use crate::units;

use ledger::{Answer, Opened, defect};

pub use ledger::Ledger;
pub use loan::{Loan, Segment};

/// Alignment of offsets, lengths and addresses that every device accepts.
pub const BLOCK_BYTES: usize = 4096;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// The slots of [`Pool::passing`], and their longest length.
const PASSING_SLOTS: usize = 4;
const PASSING_BYTES_MAX: u64 = 1 << 20;

/// Rounds `bytes` up to the next multiple of [`BLOCK_BYTES`].
pub const fn block_ceil(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES as u64) * BLOCK_BYTES as u64
}

/// Rounds `bytes` down to a multiple of [`BLOCK_BYTES`].
pub const fn block_floor(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// Prefetches the first cache line of `item` for a later read.
#[inline(always)]
pub fn prefetch<T>(item: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the address is that of an item, and a prefetch reads no memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = item;
}

/// The next step for a job with too little memory; `enough_bytes` are enough.
pub fn allow_hint(enough_bytes: u64) -> String {
    format!("allow --memory {}", units::bytes_exact(enough_bytes))
}

/// The limit on the memory of one job. Cheap to clone; clones share the limit.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    peak_bytes: AtomicU64,
    /// The reservations that the plan allows, if there is a plan.
    ledger: Option<Opened>,
}

impl Budget {
    /// An unused budget of `limit_bytes`.
    pub fn new(limit_bytes: u64) -> Self {
        Self::with(limit_bytes, None)
    }

    /// Like [`Budget::new`], but with `held_bytes` in use for its whole lifetime: memory that the
    /// job holds before it plans.
    pub fn holding(limit_bytes: u64, held_bytes: u64) -> Self {
        let budget = Self::new(limit_bytes);
        let held_bytes = held_bytes.min(limit_bytes);
        budget.0.used_bytes.store(held_bytes, Ordering::Relaxed);
        budget.0.peak_bytes.store(held_bytes, Ordering::Relaxed);
        budget
    }

    /// The budget of a run under `ledger`, whose sum is `reservation`.
    fn of_ledger(ledger: Ledger, reservation: Reservation) -> Self {
        Self::with(reservation.bytes, Some(Opened::new(ledger, reservation)))
    }

    fn with(limit_bytes: u64, ledger: Option<Opened>) -> Self {
        Budget(Arc::new(BudgetState {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            ledger,
        }))
    }

    /// The limit.
    pub fn limit_bytes(&self) -> u64 {
        self.0.limit_bytes
    }

    /// Bytes that are reserved now.
    pub fn used_bytes(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are not reserved now.
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.used_bytes())
    }

    /// The largest number of bytes reserved at once.
    pub fn peak_bytes(&self) -> u64 {
        self.0.peak_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that may still be reserved under this name: the rest of its line under a ledger,
    /// otherwise the free bytes.
    pub fn left_bytes(&self, name: &str) -> u64 {
        match &self.0.ledger {
            Some(ledger) => ledger.left_bytes(name).min(self.free_bytes()),
            None => self.free_bytes(),
        }
    }

    /// Reserves `bytes`, or fails with [`Kind::Memory`] and the figures. Under a ledger, the bytes
    /// come from the line called `purpose`, and a failure is a defect of the plan.
    pub fn reserve(&self, purpose: &str, bytes: u64) -> Result<Reservation> {
        if let Some(reservation) = self.try_reserve(purpose, bytes)? {
            return Ok(reservation);
        }
        if self.0.ledger.is_some() {
            let left_bytes = self.left_bytes(purpose);
            let cause = format!("its line, or that of another phase, leaves {left_bytes}");
            return Err(checked(defect(purpose, bytes, &cause)));
        }
        let cause = format!(
            "{} are needed, but only {} of {} are free",
            units::bytes(bytes),
            units::bytes(self.free_bytes()),
            units::bytes(self.limit_bytes())
        );
        let operation = format!("reserve memory for {purpose}");
        Err(Error::new(Kind::Memory, operation, cause).hint("allow more with --memory"))
    }

    /// Like [`Budget::reserve`], for a caller that can wait until others release memory: `None` if
    /// there is no room now.
    pub(crate) fn try_reserve(&self, purpose: &str, bytes: u64) -> Result<Option<Reservation>> {
        let state = &self.0;
        let line = match state
            .ledger
            .as_ref()
            .map(|ledger| ledger.draw(purpose, bytes))
        {
            None => None,
            Some(Answer::Drawn(line)) => Some(line),
            Some(Answer::Later) => return Ok(None),
            Some(Answer::Defect(error)) => return Err(checked(error)),
        };
        let taken = state
            .used_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |used| {
                used.checked_add(bytes)
                    .filter(|&sum| sum <= state.limit_bytes)
            });
        let Ok(before) = taken else {
            if let (Some(ledger), Some(line)) = (&state.ledger, line) {
                ledger.give_back(line, bytes);
            }
            return Ok(None);
        };
        state.peak_bytes.fetch_max(before + bytes, Ordering::AcqRel);
        Ok(Some(Reservation {
            budget: self.clone(),
            bytes,
            line,
        }))
    }
}

/// A defect of a plan; panics in builds with debug assertions.
fn checked(error: Error) -> Error {
    debug_assert!(false, "{error}");
    error
}

/// A part of a [`Budget`], returned when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
    /// Number of the ledger's line from which the reservation came.
    line: Option<usize>,
}

impl Reservation {
    /// The size of the reservation.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let state = &self.budget.0;
        state.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if let (Some(ledger), Some(line)) = (&state.ledger, self.line) {
            ledger.give_back(line, self.bytes);
        }
    }
}

/// One anonymous mapping, aligned to `align_bytes`.
struct Region {
    base: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: a region is plain memory without thread affinity; access goes through `Buf`s, which
// are disjoint.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; `Region` itself hands out no references.
unsafe impl Sync for Region {}

impl Region {
    fn map(bytes: usize, align_bytes: usize, has_huge_pages: bool) -> Result<Self> {
        let align_bytes = align_bytes.max(BLOCK_BYTES);
        let padded_bytes = bytes + align_bytes;
        let failed = |errno: rustix::io::Errno| {
            Error::new(
                Kind::Memory,
                "map buffers",
                format!("{bytes} bytes: {errno}"),
            )
            .hint("give the job less memory, or free some on this machine")
        };
        // SAFETY: an anonymous private mapping at an address that the kernel chooses touches no
        // existing memory.
        let raw = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                padded_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(failed)?
        .cast::<u8>();
        let head_bytes = raw.align_offset(align_bytes);
        let tail_bytes = padded_bytes - head_bytes - bytes;
        // SAFETY: `raw..raw + padded_bytes` is the new mapping; head and tail are inside it and
        // page-aligned (all sizes are multiples of a page), and nothing refers to them.
        let base = unsafe {
            if head_bytes > 0 {
                let _ = munmap(raw.cast(), head_bytes);
            }
            let base = raw.add(head_bytes);
            if tail_bytes > 0 {
                let _ = munmap(base.add(bytes).cast(), tail_bytes);
            }
            if has_huge_pages && bytes >= HUGE_PAGE_BYTES {
                // Huge pages cause fewer TLB misses for the hundreds of write streams of a
                // distribution. On kernels without them nothing is lost.
                let _ = madvise(base.cast(), bytes, Advice::LinuxHugepage);
            }
            base
        };
        let base = NonNull::new(base)
            .ok_or_else(|| Error::new(Kind::Memory, "map buffers", "null mapping"))?;
        Ok(Region {
            base,
            mapped_bytes: bytes,
        })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole mapping belongs to this region, and no `Buf` is alive (each holds the
        // pool alive).
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Equal slots in one region, for buffers that I/O moves. Clones share the slots.
#[derive(Clone)]
pub struct Pool(Arc<PoolState>);

struct PoolState {
    slot_bytes: usize,
    slot_count: usize,
    free: Mutex<Vec<u32>>,
    region: Region,
    _reservation: Reservation,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pool({} x {} bytes)",
            self.0.slot_count, self.0.slot_bytes
        )
    }
}

impl Pool {
    /// `slot_count` slots of `slot_bytes` each (rounded up to 4 KiB), reserved from `budget`.
    pub fn new(
        budget: &Budget,
        purpose: &str,
        slot_bytes: usize,
        slot_count: usize,
    ) -> Result<Self> {
        let total_bytes = Self::total_bytes(slot_bytes, slot_count);
        let reservation = budget.reserve(purpose, total_bytes)?;
        Self::on(reservation, slot_bytes, slot_count)
    }

    /// A few slots for bytes that pass through memory once, where a checksum is computed in steps.
    /// Each slot is a 64th of the free memory, in whole steps.
    ///
    /// # Errors
    /// The errors of [`Pool::new`].
    pub fn passing(budget: &Budget, purpose: &str) -> Result<Self> {
        let share_bytes = (budget.free_bytes() / 64).min(PASSING_BYTES_MAX) as usize;
        let slot_bytes = (share_bytes - share_bytes % STEP_BYTES).max(STEP_BYTES);
        Self::new(budget, purpose, slot_bytes, PASSING_SLOTS)
    }

    /// Like [`Pool::new`], for a caller that can wait until others release memory: `None` if there
    /// is no room now.
    pub fn try_new(
        budget: &Budget,
        purpose: &str,
        slot_bytes: usize,
        slot_count: usize,
    ) -> Result<Option<Self>> {
        let total_bytes = Self::total_bytes(slot_bytes, slot_count);
        let reservation = budget.try_reserve(purpose, total_bytes)?;
        let pool = reservation.map(|reservation| Self::on(reservation, slot_bytes, slot_count));
        pool.transpose()
    }

    /// Bytes that a pool reserves from a budget.
    pub const fn total_bytes(slot_bytes: usize, slot_count: usize) -> u64 {
        block_ceil(slot_bytes as u64) * slot_count as u64
    }

    fn on(reservation: Reservation, slot_bytes: usize, slot_count: usize) -> Result<Self> {
        assert!(slot_bytes > 0 && slot_count > 0 && slot_count <= u32::MAX as usize);
        let slot_bytes = slot_bytes.next_multiple_of(BLOCK_BYTES);
        let total_bytes = slot_bytes * slot_count;
        let align_bytes = if slot_bytes.is_power_of_two() {
            slot_bytes.min(HUGE_PAGE_BYTES)
        } else {
            BLOCK_BYTES
        };
        let align_bytes = if total_bytes >= HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            align_bytes
        };
        let ledger = reservation.budget.0.ledger.as_ref();
        let has_huge_pages = !ledger.is_some_and(Opened::has_small_pages);
        let region = Region::map(total_bytes, align_bytes, has_huge_pages)?;
        // Lowest slots first, so that a job that needs few slots touches few pages.
        let free = (0..slot_count as u32).rev().collect();
        Ok(Pool(Arc::new(PoolState {
            slot_bytes,
            slot_count,
            free: Mutex::new(free),
            region,
            _reservation: reservation,
        })))
    }

    /// Size of a slot in bytes.
    pub fn slot_bytes(&self) -> usize {
        self.0.slot_bytes
    }

    /// Addresses of all slots, for code that identifies memory by address.
    pub(crate) fn addresses(&self) -> std::ops::Range<usize> {
        let first = self.0.region.base.as_ptr() as usize;
        first..first + self.0.region.mapped_bytes
    }

    /// Number of free slots now.
    pub fn free_slots(&self) -> usize {
        self.0
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Takes a slot, or `None` if all are taken. The slot still holds the bytes of its last user.
    pub fn take(&self) -> Option<Buf> {
        let index = self
            .0
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()?;
        // SAFETY: `index < slot_count`, so the slot is inside the region.
        let start = unsafe { self.0.region.base.add(index as usize * self.0.slot_bytes) };
        let slot = Arc::new(Slot {
            pool: Arc::clone(&self.0),
            index,
        });
        Some(Buf {
            start,
            len_bytes: self.0.slot_bytes,
            slot,
        })
    }
}

/// A slot in use; returns to its pool when its last `Buf` is dropped.
struct Slot {
    pool: Arc<PoolState>,
    index: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(self.index);
    }
}

/// A buffer, or a part of one, that only its holder may access.
pub struct Buf {
    start: NonNull<u8>,
    len_bytes: usize,
    slot: Arc<Slot>,
}

// SAFETY: a `Buf` is the only handle to its bytes, and the memory has no thread affinity.
unsafe impl Send for Buf {}
// SAFETY: a shared `Buf` gives shared slices only.
unsafe impl Sync for Buf {}

impl Buf {
    /// Splits off the first `at_bytes` as a separate buffer; `self` keeps the rest.
    ///
    /// # Panics
    /// If `at_bytes` is beyond the end.
    pub fn split_to(&mut self, at_bytes: usize) -> Buf {
        assert!(at_bytes <= self.len_bytes, "split inside the buffer");
        let front = Buf {
            start: self.start,
            len_bytes: at_bytes,
            slot: Arc::clone(&self.slot),
        };
        // SAFETY: `at_bytes <= len_bytes`, so the new start is inside the slot or one past it.
        self.start = unsafe { self.start.add(at_bytes) };
        self.len_bytes -= at_bytes;
        front
    }

    /// Appends `next`, which must begin where `self` ends.
    ///
    /// # Panics
    /// If the two are not adjacent in one slot.
    pub fn join(&mut self, next: Buf) {
        assert!(Arc::ptr_eq(&self.slot, &next.slot), "parts of one slot");
        // SAFETY: the end of a `Buf` is inside its slot or one past it.
        let end = unsafe { self.start.add(self.len_bytes) };
        assert!(end == next.start, "parts are neighbours");
        self.len_bytes += next.len_bytes;
    }

    /// Address of the first byte, for alignment checks.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Pointer for a device; valid while the `Buf` lives.
    pub(crate) fn as_io_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is inside a live, initialised slot and only this `Buf` reaches it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len_bytes) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_never_gives_more_than_its_limit_and_takes_all_back() {
        let budget = Budget::new(100);
        let a = budget.reserve("a", 60).unwrap();
        let refused = budget.reserve("b", 41).unwrap_err();
        assert_eq!(refused.kind(), Kind::Memory);
        let b = budget.reserve("b", 40).unwrap();
        assert_eq!(budget.used_bytes(), 100);
        drop((a, b));
        assert_eq!(budget.used_bytes(), 0);
        assert_eq!(budget.peak_bytes(), 100);
    }

    #[test]
    fn slots_are_aligned_disjoint_and_come_back() {
        let budget = Budget::new(64 << 20);
        for slot_bytes in [4096, 12 << 10, 128 << 10, 4 << 20] {
            let pool = Pool::new(&budget, "test", slot_bytes, 3).unwrap();
            let mut bufs: Vec<Buf> = (0..3).map(|_| pool.take().unwrap()).collect();
            assert!(pool.take().is_none());
            for (i, buf) in bufs.iter_mut().enumerate() {
                assert_eq!(buf.address() % BLOCK_BYTES, 0);
                if slot_bytes.is_power_of_two() {
                    assert_eq!(buf.address() % slot_bytes.min(2 << 20), 0);
                }
                buf.fill(i as u8);
            }
            for (i, buf) in bufs.iter().enumerate() {
                assert!(buf.iter().all(|&b| b == i as u8));
            }
            drop(bufs);
            assert_eq!(pool.free_slots(), 3);
        }
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn parts_hold_the_slot_until_the_last_is_gone_and_join_again() {
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "test", 8192, 1).unwrap();
        let mut rest = pool.take().unwrap();
        let mut front = rest.split_to(4096);
        front.fill(1);
        rest.fill(2);
        front.join(rest);
        assert_eq!(front.len(), 8192);
        assert_eq!((front[0], front[8191]), (1, 2));
        let part = front.split_to(100);
        drop(front);
        assert_eq!(pool.free_slots(), 0);
        drop(part);
        assert_eq!(pool.free_slots(), 1);
    }
}
