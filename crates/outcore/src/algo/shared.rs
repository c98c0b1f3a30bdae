//! What the threads of a sort share: plan, pools, credits, scratch, and the crew that they are.
//!
//! Contract: all of it lives as long as the sort and is reached by shared reference; what changes
//! does so by its own lock or counter.

use std::ops::Range;
use std::sync::atomic::AtomicI64;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::crew::Crew;
use super::load::LoadFrom;
use super::plan::SortPlan;
use super::spill::{SpillSizes, SpillTo};
use crate::drive::PrivateDir;
use crate::error::Result;
use crate::job::Job;
use crate::memory::Pool;
use crate::volume::consumed::Consumed;
use crate::volume::output::Output;
use crate::volume::scratch::Scratch;
use crate::volume::{Volume, VolumeFile};

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

/// What all threads of a sort share.
pub(crate) struct Shared<'a, E> {
    pub(crate) job: &'a Job,
    pub(crate) volume: &'a Volume,
    pub(crate) scratch: &'a LazyScratch<'a>,
    pub(crate) elements: &'a E,
    pub(crate) plan: &'a SortPlan,
    pub(crate) segment_pool: Pool,
    /// Segments that may still stay in memory.
    pub(crate) resident_credit: AtomicI64,
    /// Seeds the checksums of this run's scratch.
    pub(crate) run: u64,
    /// The threads, which stop together.
    pub(crate) crew: Crew<'a>,
    /// The inputs whose blocks are given back to the file system once they are distributed, and the
    /// output, which has what was read of them in the end.
    pub(crate) consumed: Option<(Consumed, Option<&'a Output>)>,
}

impl<E> Shared<'_, E> {
    /// Fails once the job is cancelled or another thread has failed.
    pub(crate) fn check(&self) -> Result<()> {
        self.crew.check()
    }

    /// Gives the blocks of an input back, for good: it is marked before the first ones go.
    pub(crate) fn free_input(&self, file: &VolumeFile, blocks: Range<u64>) -> Result<()> {
        let Some((consumed, output)) = &self.consumed else {
            return Ok(());
        };
        let device = self.volume.device();
        let dirs = output.iter().flat_map(|output| output.dirs());
        let dirs: Vec<&PrivateDir> = dirs.chain(self.scratch()?.dirs()).collect();
        consumed.begin(device.as_ref(), &file.path, &dirs)?;
        device.punch(file.id, blocks.start, blocks.end - blocks.start)
    }

    pub(crate) fn scratch(&self) -> Result<&Scratch> {
        self.scratch.get()
    }

    /// How a first distribution writes, keeping nothing in memory.
    pub(crate) fn spill_sizes(&self) -> SpillSizes {
        SpillSizes {
            segment_bytes: self.plan.segment_bytes,
            extent_segments: self.plan.extent_segments,
            expected_segments: self.plan.expected_segments(),
            writes_in_flight: self.plan.writes_in_flight,
            resident_below: 0,
            is_split: false,
        }
    }

    /// Where buckets are loaded from.
    pub(crate) fn load_from(&self) -> LoadFrom<'_> {
        LoadFrom {
            volume: self.volume,
            scratch: self.scratch,
            run: self.run,
            full_bytes: self.plan.segment_payload_bytes,
        }
    }

    /// Where a worker's segments go.
    pub(crate) fn spill_to(&self, sizes: SpillSizes) -> SpillTo<'_> {
        SpillTo {
            volume: self.volume,
            scratch: self.scratch,
            pool: &self.segment_pool,
            resident_credit: &self.resident_credit,
            run: self.run,
            sizes,
        }
    }

    /// Runs `work` on every thread; gives all results, or the failure that came first.
    pub(crate) fn on_all_threads<T: Send>(
        &self,
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.crew.run_for_all(work)
    }
}
