//! The partition machine: the common part of sorts, sorts of lines and shuffles.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), sections 3 (in-memory bucketer, batched writer)
//! and 4 (samplesort): distribute everything into buckets, distribute buckets that are too large
//! again, then process one bucket after another in memory.
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
//! Contract: a [`Partition`] is what the threads of one job share, for items of any kind. It lives
//! as long as the job and is accessed by shared reference; mutable parts have their own lock or
//! counter. Data of one kind of job (order, plan, random draws) are kept separately.

pub(crate) mod bucket;
pub(crate) mod checkpoint;
pub(crate) mod classify;
pub(crate) mod copies;
pub(crate) mod driver;
pub(crate) mod in_order;
pub(crate) mod kernel;
pub(crate) mod large;
pub(crate) mod load;
mod meeting;
pub(crate) mod mover;
mod pace;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod refine;
pub(crate) mod restored;
pub(crate) mod resume;
pub(crate) mod resumed;
pub(crate) mod route;
pub(crate) mod scatter;
pub(crate) mod spill;
pub(crate) mod task;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use self::checkpoint::Checkpoints;
use self::restored::{Continued, Rest};
use self::spill::{Resident, Spill, Spilling};
use crate::job::Job;
use crate::job::thread_group::ThreadGroup;
use crate::read::sample::random;
use outcore_io::memory::Pool;
use outcore_io::port::Volume;
use outcore_io::scratch::Scratch;
use outcore_io::{Error, Kind, Result};

/// The line of a job's ledger for buffers of buckets.
pub(crate) const BUCKETS: &str = "buckets in memory";
/// Smallest number of segments that a thread reads at once when a bucket is distributed again.
pub(crate) const SPLIT_READS_MIN: usize = 12;
/// The line for reading segments that are sampled or distributed again.
pub(crate) const SPLIT_SEGMENTS: &str = "segments to split";

/// Scratch that is made when it is first needed: most jobs whose data fit in memory need neither
/// scratch nor permission to make it.
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

    /// The scratch, if there is any.
    pub(crate) fn of(scratch: Scratch) -> Self {
        LazyScratch {
            made: OnceLock::from(scratch),
            making: Mutex::new(()),
            make: Box::new(|| Err(no_buffer())),
        }
    }

    /// The scratch, made by the first call.
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

    /// The scratch, if it has been made.
    pub(crate) fn made(&self) -> Option<&Scratch> {
        self.made.get()
    }

    /// The scratch, if it has been made, for the caller to remove.
    pub(crate) fn into_made(self) -> Option<Scratch> {
        self.made.into_inner()
    }
}

/// How segments are written and read back, from the plan of the job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentSizes {
    /// Length of a buffer, and of a write.
    pub(crate) segment_bytes: usize,
    /// Payload of segments that fill their buffers, for items of one length: a load reads shorter
    /// ones last, one by one. 0 if segments are not distinguished.
    pub(crate) full_bytes: usize,
    /// Largest number of segments of one bucket that are adjacent on scratch.
    pub(crate) extent_segments: usize,
    /// Number of segments that a bucket almost certainly gets from one worker.
    pub(crate) sure_segments: usize,
    /// Writes in flight per worker.
    pub(crate) writes_in_flight: usize,
    /// Segments that may stay in memory.
    pub(crate) resident_segments: usize,
    /// Segments that a worker reads ahead when a bucket is distributed again.
    pub(crate) split_reads: usize,
    /// Total number of buffers.
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

/// State that all threads of a job share, for items of any kind.
pub(crate) struct Partition<'a> {
    pub(crate) job: &'a Job,
    pub(crate) volume: &'a Volume,
    pub(crate) scratch: &'a LazyScratch<'a>,
    pub(crate) sizes: SegmentSizes,
    pub(crate) segment_pool: Pool,
    /// Segments that may still stay in memory.
    pub(crate) resident_left: AtomicI64,
    /// Seed of the checksums of this run's scratch.
    pub(crate) run: u64,
    /// The journal of a job that can be resumed. It also vouches for segments that have already
    /// been read.
    pub(crate) checkpoints: Option<Checkpoints<'a>>,
    /// The threads, which stop together.
    pub(crate) thread_group: ThreadGroup<'a>,
}

impl<'a> Partition<'a> {
    /// A partition for `threads` threads on `data_bytes` of input, with the buffers of the job's
    /// ledger.
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
            checkpoints: None,
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

    /// The content of the journal of an earlier run, and the rest of the job.
    pub(crate) fn continued(&self) -> Option<&Continued> {
        self.checkpoints.as_ref()?.continued.as_ref()
    }

    /// The blocks that a thread of an earlier run has distributed, in order, and the filter for
    /// their items.
    pub(crate) fn repeated(&self, thread: usize) -> (&[u64], Option<Rest<'_>>) {
        match self.continued() {
            Some(Continued { restored, left }) => {
                let blocks = &restored.sequences[thread].blocks;
                (blocks, Some(restored.rest(thread, left)))
            }
            None => (&[], None),
        }
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

    /// Which of `bucket_count` about equal buckets stay in memory: as many as fill the reservation.
    /// Together the buckets hold `data_bytes`. If the sample was lopsided, a little more goes to
    /// scratch.
    pub(crate) fn resident(&self, bucket_count: usize, data_bytes: u64) -> Resident {
        let resident_bytes = self.sizes.resident_segments * self.sizes.capacity_bytes();
        let resident_bytes = resident_bytes as u128;
        let buckets = resident_bytes * bucket_count as u128 / u128::from(data_bytes.max(1));
        Resident::some(buckets as usize, bucket_count)
    }

    /// Runs `work` on every thread; returns all results in the order of the threads, or the first
    /// failure.
    pub(crate) fn on_all_threads<T: Send>(
        &self,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.thread_group.run_for_all(work)
    }
}

/// The error for a pool that the plan made too small.
pub(crate) fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}
