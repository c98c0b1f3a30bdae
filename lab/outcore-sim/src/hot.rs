//! What the hot path asks of the machine and safe Rust cannot say: bring this entry near, give this
//! table large pages.
//!
//! Contract: hints only. They change nothing that a program can observe but the time it takes (and,
//! for large pages, how much of a table is resident), where there are none they do nothing, and a
//! wrong one costs a little. Kept in one file because it is the simulator's only unsafe code.
//!
//! A mapping table is larger than the processor's caches, and reads go anywhere in it. The address
//! of an entry is known some events before the entry is needed, when the request is submitted.
//!
//! N.B. without the hints, loading entries took a third of the time of random reads on a large
//! drive, and faults on pages of 4 KiB another fifth (docs/decisions/0022).

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

/// The kernel's large pages.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Lets the kernel give `table` large pages when it is touched.
pub(crate) fn use_large_pages<T>(table: &[T]) {
    let first = table.as_ptr().addr();
    let end = first + std::mem::size_of_val(table);
    let inside =
        first.next_multiple_of(LARGE_PAGE_BYTES)..end / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if inside.is_empty() {
        return;
    }
    let at = table.as_ptr().cast_mut().cast::<std::ffi::c_void>();
    let at = at.wrapping_byte_add(inside.start - first);
    // SAFETY: the range is a part of the table's own memory, and this advice changes no byte of it.
    // A kernel that has no large pages says so, which is as good.
    let _ = unsafe { rustix::mm::madvise(at, inside.len(), rustix::mm::Advice::LinuxHugepage) };
}
