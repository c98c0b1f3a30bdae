//! Hints of the hot path that safe Rust cannot express: prefetch an entry, use large pages for a
//! table.
//!
//! Contract: hints only. They change nothing that a program can observe except for the time (and,
//! for large pages, how much of a table is resident). A hint that the machine lacks does nothing; a
//! wrong hint costs little. They are in a file of their own because it holds the simulator's only
//! unsafe code.
//!
//! A mapping table is larger than the processor's caches, and reads go anywhere in it. The address
//! of an entry is known at submission, some events before the entry is needed.
//!
//! N.B. Without the hints, loads of entries and faults on pages of 4 KiB take a large part of the
//! time of random reads on a large drive (docs/decisions/0022).

#![allow(unsafe_code)]

/// Prefetches `table[at]`, if there is such an entry.
#[inline]
pub(crate) fn prefetch<T>(table: &[T], at: usize) {
    let Some(entry) = table.get(at) else {
        return;
    };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that the program sees and never faults, and the
        // address is that of a live entry. The instruction belongs to SSE, which is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = entry;
}

/// Size of the kernel's large pages.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Allows the kernel to back `table` with large pages when it is touched.
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
    // A kernel without large pages returns an error, which is harmless.
    let _ = unsafe { rustix::mm::madvise(at, inside.len(), rustix::mm::Advice::LinuxHugepage) };
}
