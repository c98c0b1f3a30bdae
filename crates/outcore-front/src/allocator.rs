//! The allocator, and the freed memory that it keeps.
//!
//! Contract: by default, GNU's C library keeps freed blocks of up to 32 MiB for later allocations.
//! With long values, the memory of the process then grows beyond the memory of its jobs. If the
//! job's memory is small, [`keep_within`] makes the library return long blocks to the system at
//! once; otherwise nothing changes.
//!
//! The allocator of musl has one lock for all threads, and jobs on tables take 50 % longer with it.
//! Programs with musl use mimalloc, which returns freed pages to the system at once.
#![allow(unsafe_code)]

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Blocks of at least this fraction of the memory are returned to the system.
const PART: u64 = 64;
const LEAST_BYTES: u64 = 1 << 20;
/// The library's own upper limit.
const MOST_BYTES: u64 = 32 << 20;

/// Sets the limit for jobs with this much memory.
pub(crate) fn keep_within(memory_bytes: u64) {
    let block_bytes = (memory_bytes / PART).clamp(LEAST_BYTES, MOST_BYTES);
    if block_bytes < MOST_BYTES || cfg!(target_env = "musl") {
        give_back(block_bytes as i32);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back(block_bytes: i32) {
    // Constants of malloc.h.
    const M_TRIM_THRESHOLD: i32 = -1;
    const M_MMAP_THRESHOLD: i32 = -3;
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    // SAFETY: the function is part of this C library, may be called at any time, and accepts any
    // numbers; invalid ones change nothing.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, block_bytes);
        mallopt(M_TRIM_THRESHOLD, block_bytes);
    }
}

#[cfg(target_env = "musl")]
fn give_back(_block_bytes: i32) {
    // `mi_option_purge_delay` of mimalloc.h.
    const OPTION: i32 = 15;
    unsafe extern "C" {
        fn mi_option_set(option: i32, value: std::ffi::c_long);
    }
    // SAFETY: the function is part of mimalloc, may be called at any time, and accepts any numbers.
    unsafe { mi_option_set(OPTION, 0) }
}

#[cfg(not(all(target_os = "linux", any(target_env = "gnu", target_env = "musl"))))]
fn give_back(_block_bytes: i32) {}
