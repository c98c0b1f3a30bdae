//! What the hot path asks of the machine and safe Rust cannot say: bring this entry near.
//!
//! Contract: hints only. They change nothing that a program can observe but the time it takes, on
//! targets without them they do nothing, and a wrong one costs a little time. Kept in one file
//! because it is the simulator's only unsafe code.
//!
//! A mapping table is larger than the processor's caches, and reads go anywhere in it: loading the
//! entry when the request was split took a third of the time of random reads on a large drive. The
//! address is known some events earlier, when the request is submitted.

#![allow(unsafe_code)]

/// Begins to load `table[at]`, if there is such an entry.
#[inline]
pub(crate) fn prefetch<T>(table: &[T], at: usize) {
    let Some(entry) = table.get(at) else {
        return;
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees and never faults; the address is
        // that of a live entry anyway. SSE, which has it, is a part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = entry;
}
