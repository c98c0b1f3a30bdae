//! What is sorted: files, or elements that somebody makes while they are sorted.
//!
//! Contract: a [`Source`] says how much there is, before anything is planned, shows a sample, and
//! brings each of its elements to a bucket once. Where it cannot know how many elements there are,
//! the plan is for about as many; more than that only make buckets larger, which are then split.

use super::distribute::{Inlet, buckets_of, distribute_input};
use super::elements::Elements;
use super::plan::INPUT;
use super::shared::Shared;
use super::splitters::KeySplitters;
use crate::ends::Input;
use crate::job::Job;
use crate::partition::bucket::{Bucket, Out};
use crate::partition::driver::Ends;
use crate::read::sample::sample;
use outcore_io::Result;
use outcore_io::memory::Budget;

/// How much is sorted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Bytes of all elements, as far as that is known.
    pub(crate) data_bytes: u64,
    /// Bytes of all elements, at most.
    pub(crate) most_bytes: u64,
    /// Memory that bringing them takes beside what the plan has for reading.
    pub(crate) beside_bytes: u64,
    /// Bytes that are read for items that are made of others, a sample of which has been looked at.
    pub(crate) made_of_bytes: Option<u64>,
}

impl Amount {
    /// This many bytes.
    pub(crate) fn exactly(data_bytes: u64) -> Self {
        Amount {
            data_bytes,
            most_bytes: data_bytes,
            beside_bytes: 0,
            made_of_bytes: None,
        }
    }

    /// Whether it is known.
    pub(crate) fn is_exact(&self) -> bool {
        self.data_bytes == self.most_bytes
    }
}

/// What is sorted.
pub(crate) trait Source: Sync {
    /// The files that are read as they are; none where elements are made.
    fn files(&self) -> &[Input] {
        &[]
    }

    /// How much there is.
    fn amount(&self, job: &Job, ends: &Ends<'_>) -> Result<Amount>;

    /// Some elements from all over, one after another.
    fn sample<E: Elements>(&self, shared: &Shared<'_, E>, ends: &Ends<'_>) -> Result<Vec<u8>>;

    /// Brings all elements to the buckets of `splitters`.
    fn distribute<E: Elements>(
        &self,
        shared: &Shared<'_, E>,
        ends: &Ends<'_>,
        splitters: &KeySplitters<E::Key>,
    ) -> Result<Vec<Bucket>>;
}

/// Files of elements.
pub(crate) struct Files<'a>(pub(crate) &'a [Input]);

impl Source for Files<'_> {
    fn files(&self) -> &[Input] {
        self.0
    }

    fn amount(&self, _job: &Job, ends: &Ends<'_>) -> Result<Amount> {
        Ok(Amount::exactly(ends.data_bytes))
    }

    fn sample<E: Elements>(&self, shared: &Shared<'_, E>, ends: &Ends<'_>) -> Result<Vec<u8>> {
        let (job, plan) = (shared.job, shared.plan);
        sample(
            shared.volume,
            &job.budget,
            &ends.parts,
            shared.elements.element_bytes(),
            plan.sample_reads,
            plan.sample_read_bytes,
            job.options.seed,
        )
    }

    fn distribute<E: Elements>(
        &self,
        shared: &Shared<'_, E>,
        ends: &Ends<'_>,
        splitters: &KeySplitters<E::Key>,
    ) -> Result<Vec<Bucket>> {
        distribute_input(shared, &ends.parts, splitters)
    }
}

/// Calls `feed` with what makes a thread's way into the buckets, and with the memory that the plan
/// has for reading, and `beside_bytes` more; `feed` gives what all threads have brought.
pub(crate) fn distribute_made<'s, E: Elements>(
    shared: &'s Shared<'_, E>,
    splitters: &'s KeySplitters<E::Key>,
    beside_bytes: u64,
    feed: impl FnOnce(Budget, &(dyn Fn() -> Result<Inlet<'s, E>> + Sync)) -> Result<Vec<Vec<Out>>>,
) -> Result<Vec<Bucket>> {
    let budget = &shared.job.budget;
    let input_bytes = budget.left_bytes(INPUT);
    let _input = budget.reserve(INPUT, input_bytes)?;
    let outs = feed(Budget::new(input_bytes + beside_bytes), &|| {
        Inlet::new(shared, splitters)
    })?;
    Ok(buckets_of(shared, splitters, 0, outs))
}
