//! The memory of a sort outside its budget stays within the promised 64 MiB.
//!
//! A counting allocator sees the whole heap. Buffers are mapped, so only the budget counts them.
//! Only one part of the budget is on the heap: the space for sorting in memory.

#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outcore::IoMode;
use outcore::job::{Job, JobOptions};
use outcore::key::RecordFormat;
use outcore::sort::{SortOptions, sort};
use outcore::{Input, Output};
use outcore_io::drive::os::OsDevice;

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator; only counters are added.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// As for [`System`].
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// As for [`System`].
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

/// Random bytes.
fn fill(seed: u64, block: &mut [u8]) {
    let mut state = seed;
    for word in block.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..word.len()]);
    }
}

/// Peak heap use while generated data are sorted, and the plan's own figure for sorting in memory,
/// which is the part of the budget that is on the heap.
fn heap_peak(dir: &Path, text: &str, bytes: u64, job: JobOptions, is_stable: bool) -> (u64, u64) {
    let format = RecordFormat::parse_type(text).unwrap();
    let records = bytes / format.record_bytes() as u64;
    let path = dir.join("in");
    let mut file = File::create(&path).unwrap();
    let mut block = vec![0; 10_000 * format.record_bytes()];
    for first in (0..records).step_by(10_000) {
        let count = (records - first).min(10_000) as usize;
        let block = &mut block[..count * format.record_bytes()];
        fill(first, block);
        file.write_all(block).unwrap();
    }
    drop((file, block));
    let job = Job::on(job, Arc::new(OsDevice::new(IoMode::Auto)));
    let output = Output::File {
        path: dir.join("out"),
        header: None,
    };
    let options = SortOptions {
        stable: is_stable,
        ..SortOptions::default()
    };
    let before = USED_BYTES.load(Ordering::Relaxed);
    PEAK_BYTES.store(before, Ordering::Relaxed);
    let summary = sort(&job, &[Input::raw(&path)], output, &format, options).unwrap();
    let peak = PEAK_BYTES.load(Ordering::Relaxed) - before;
    std::fs::remove_file(dir.join("out")).unwrap();
    let plan = summary.plan.unwrap();
    let sorting = plan.size.sort_space_bytes(plan.bucket_bytes_max) * plan.size.threads as u64;
    println!(
        "{text}: {} KiB of heap, {} KiB of it to sort in, {} levels",
        peak >> 10,
        sorting >> 10,
        plan.distributions
    );
    (peak as u64, sorting)
}

#[test]
fn the_heap_stays_within_what_is_promised() {
    let dir = tempfile::tempdir().unwrap();
    for (text, is_stable) in [("u64", false), ("12/0:4", true), ("8/0:1", true)] {
        let job = JobOptions {
            memory_bytes: 8 << 20,
            threads: 2,
            ..JobOptions::default()
        };
        let (peak, sorting) = heap_peak(dir.path(), text, 48 << 20, job, is_stable);
        // Tables, samples, descriptions of segments and of runs of the input.
        assert!(peak < sorting + (4 << 20), "{text}: {peak} bytes of heap");
    }
}
