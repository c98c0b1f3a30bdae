//! The partition machine: what sorts, sorts of lines and shuffles do alike.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), sections 3 (in-memory bucketer, batched writer)
//! and 4 (samplesort): distribute everything into buckets, distribute again what is too large, then
//! work on one bucket after another in memory.
//!
//! ```text
//!  input --(pass: blocks, regions)--> batch --route, mover--> kernel: one buffer per bucket
//!                                                        | full: the buffer itself moves
//!          pass: segments, a window of reads ahead       v
//!     +-------------------------------- spill: segments in memory or on scratch
//!     | refine: a bucket that is too large               |
//!     +--> distributed again, by another route           | load: all of a bucket, verified
//!                                                        v
//!                                   task: sort or permute, emit, next ones load meanwhile
//! ```
//!
//! Contract: a [`Partition`] is what the threads of one job share, whatever its items are; it lives
//! as long as the job and is reached by shared reference. What changes does so by its own lock or
//! counter. What only one kind of job needs (order, plan, random draws) stands beside it.

pub(crate) mod bucket;
pub(crate) mod classify;
pub(crate) mod driver;
pub(crate) mod in_order;
pub(crate) mod kernel;
pub(crate) mod large;
pub(crate) mod load;
pub(crate) mod mover;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod refine;
pub(crate) mod route;
pub(crate) mod scatter;
pub(crate) mod spill;
pub(crate) mod task;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use self::spill::{Resident, Spill, Spilling};
use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::read::sample::random;
use outcore_io::memory::Pool;
use outcore_io::port::Volume;
use outcore_io::scratch::Scratch;
use outcore_io::{Error, Kind, Result};

/// The line of a job's ledger from which buffers of buckets are taken.
pub(crate) const BUCKETS: &str = "buckets in memory";
/// Segments that a thread reads at once where a bucket is distributed again, at least.
pub(crate) const SPLIT_READS_MIN: usize = 12;
/// The line from which segments are read that are sampled or distributed again.
pub(crate) const SPLIT_SEGMENTS: &str = "segments to split";

/// Scratch that is made when it is first needed: most jobs whose data fit in memory need none, and
/// no right to make it.
pub(crate) struct LazyScratch<'a> {
    made: OnceLock<Scratch>,
    making: Mutex<()>,
    make: Box<dyn Fn() -> Result<Scratch> + Sync + 'a>,
}

impl<'a> LazyScratch<'a> {
    pub(crate) fn new(make: impl Fn() -> Result<Scratch> + Sync + 'a) -> Self {
        LazyScratch {
            made: OnceLock::new(),
            making: Mutex::new(()),
            make: Box::new(make),
        }
    }

    /// The scratch, made now if it is the first time.
    pub(crate) fn get(&self) -> Result<&Scratch> {
        if let Some(scratch) = self.made.get() {
            return Ok(scratch);
        }
        let _turn = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        match self.made.get() {
            Some(scratch) => Ok(scratch),
            None => {
                let scratch = (self.make)()?;
                Ok(self.made.get_or_init(|| scratch))
            }
        }
    }

    /// The scratch, if it has been needed so far.
    pub(crate) fn made(&self) -> Option<&Scratch> {
        self.made.get()
    }

    /// The same, to be removed.
    pub(crate) fn into_made(self) -> Option<Scratch> {
        self.made.into_inner()
    }
}

/// How segments are written and read back; the plan of each kind of job says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentSizes {
    /// Length of a buffer, and of a write.
    pub(crate) segment_bytes: usize,
    /// Payload of segments that fill their buffers, for items of one length: a load reads shorter
    /// ones last, one by one. 0 if none are told apart.
    pub(crate) full_bytes: usize,
    /// Segments of one bucket side by side on scratch, at most.
    pub(crate) extent_segments: usize,
    /// Segments that a bucket is nearly sure to get from one worker.
    pub(crate) sure_segments: usize,
    /// Writes in flight a worker.
    pub(crate) writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub(crate) resident_segments: usize,
    /// Segments that a worker reads ahead where a bucket is distributed again.
    pub(crate) split_reads: usize,
    /// Buffers in all.
    pub(crate) slots: usize,
}

impl SegmentSizes {
    /// Payload of a full buffer.
    pub(crate) fn capacity_bytes(&self) -> usize {
        match self.full_bytes {
            0 => self.segment_bytes,
            bytes => bytes,
        }
    }
}

/// What all threads of a job share, whatever its items are.
pub(crate) struct Partition<'a> {
    pub(crate) job: &'a Job,
    pub(crate) volume: &'a Volume,
    pub(crate) scratch: &'a LazyScratch<'a>,
    pub(crate) sizes: SegmentSizes,
    pub(crate) segment_pool: Pool,
    /// Segments that may still stay in memory.
    pub(crate) resident_left: AtomicI64,
    /// Seeds the checksums of this run's scratch.
    pub(crate) run: u64,
    /// The threads, which stop together.
    pub(crate) thread_group: ThreadGroup<'a>,
}

impl<'a> Partition<'a> {
    /// For `threads` threads on `data_bytes` of input, with the buffers of the job's ledger.
    pub(crate) fn new(
        job: &'a Job,
        volume: &'a Volume,
        scratch: &'a LazyScratch<'a>,
        sizes: SegmentSizes,
        threads: usize,
        data_bytes: u64,
    ) -> Result<Self> {
        Ok(Partition {
            job,
            volume,
            scratch,
            sizes,
            segment_pool: Pool::new(&job.budget, BUCKETS, sizes.segment_bytes, sizes.slots)?,
            resident_left: AtomicI64::new(sizes.resident_segments as i64),
            run: random(job.options.seed, data_bytes),
            thread_group: ThreadGroup::new(job, threads as u64).near(volume),
        })
    }

    /// Fails once the job is cancelled or another thread has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.thread_group.check()
    }

    pub(crate) fn scratch(&self) -> Result<&Scratch> {
        self.scratch.get()
    }

    /// The write side of a worker with `bucket_count` buckets.
    pub(crate) fn spill(&self, spilling: Spilling, bucket_count: usize) -> Spill<'_> {
        Spill::new(self, spilling, bucket_count)
    }

    /// Lowers the number of segments that may stay in memory by this many.
    pub(crate) fn take_resident(&self, segments: usize) {
        let left = &self.resident_left;
        left.fetch_sub(segments as i64, Ordering::Relaxed);
    }

    /// What stays in memory of `bucket_count` buckets that are about equal and hold all of
    /// `data_bytes`: as many as fill what is reserved for them. What they lack in a lopsided sample
    /// is only a little more scratch.
    pub(crate) fn resident(&self, bucket_count: usize, data_bytes: u64) -> Resident {
        let resident_bytes = self.sizes.resident_segments * self.sizes.capacity_bytes();
        let resident_bytes = resident_bytes as u128;
        let buckets = resident_bytes * bucket_count as u128 / u128::from(data_bytes.max(1));
        Resident::some(buckets as usize, bucket_count)
    }

    /// Runs `work` on every thread; gives all results in the order of the threads, or the failure
    /// that came first.
    pub(crate) fn on_all_threads<T: Send>(
        &self,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.thread_group.run_for_all(work)
    }
}

/// A pool that its plan did not make large enough.
pub(crate) fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}
