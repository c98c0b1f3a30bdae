//! How much freed memory the C library keeps.
//!
//! Contract: by itself, the C library of GNU keeps what was freed of blocks of up to 32 MiB for
//! blocks to come, so that the memory of the process grows beyond what its jobs hold where values
//! are long. [`keep_within`] has it give long blocks back to the system at once, where the job's
//! memory is small; with much memory nothing changes. Other C libraries are left as they are.
#![allow(unsafe_code)]

/// Blocks of this part of the memory, and longer ones, are given back.
const PART: u64 = 64;
const LEAST_BYTES: u64 = 1 << 20;
/// Where the library ends by itself.
const MOST_BYTES: u64 = 32 << 20;

/// For jobs of this much memory.
pub(crate) fn keep_within(memory_bytes: u64) {
    let block_bytes = (memory_bytes / PART).clamp(LEAST_BYTES, MOST_BYTES);
    if block_bytes < MOST_BYTES {
        give_back(block_bytes as i32);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back(block_bytes: i32) {
    // Numbers of malloc.h.
    const M_TRIM_THRESHOLD: i32 = -1;
    const M_MMAP_THRESHOLD: i32 = -3;
    unsafe extern "C" {
        fn mallopt(parameter: i32, value: i32) -> i32;
    }
    // SAFETY: the function is part of this C library, may be called at any time, and takes any
    // numbers; what it does not take leaves things as they are.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, block_bytes);
        mallopt(M_TRIM_THRESHOLD, block_bytes);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back(_block_bytes: i32) {}
