//! The source of a sort: files, or elements that are generated while they are sorted.
//!
//! Contract: a [`Source`] states its size before anything is planned, shows a sample, and moves
//! each of its elements to a bucket once. If it does not know the number of elements, the plan uses
//! an estimate; more elements only make buckets larger, which are then split.

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

/// The size of the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Bytes of all elements, as far as they are known.
    pub(crate) data_bytes: u64,
    /// Upper bound on the bytes of all elements.
    pub(crate) most_bytes: u64,
    /// Memory for producing the elements, in addition to the plan's memory for reading.
    pub(crate) beside_bytes: u64,
    /// Bytes that are read for generated items, if a sample of them already exists.
    pub(crate) made_of_bytes: Option<u64>,
}

impl Amount {
    /// Exactly this many bytes.
    pub(crate) fn exactly(data_bytes: u64) -> Self {
        Amount {
            data_bytes,
            most_bytes: data_bytes,
            beside_bytes: 0,
            made_of_bytes: None,
        }
    }

    /// Whether the size is exact.
    pub(crate) fn is_exact(&self) -> bool {
        self.data_bytes == self.most_bytes
    }
}

/// A source of elements to sort.
pub(crate) trait Source: Sync {
    /// The files to read unchanged; empty if elements are generated.
    fn files(&self) -> &[Input] {
        &[]
    }

    /// The size of the data from this source.
    fn amount(&self, job: &Job, ends: &Ends<'_>) -> Result<Amount>;

    /// Some elements from all over the data, one after another.
    fn sample<E: Elements>(&self, shared: &Shared<'_, E>, ends: &Ends<'_>) -> Result<Vec<u8>>;

    /// Moves all elements to the buckets of `splitters`.
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

/// Calls `feed` with a function that makes a thread's inlet to the buckets, and with the plan's
/// memory for reading plus `beside_bytes`. `feed` returns the results of all threads.
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
