//! Elements by position: `gather`, by random reads on all threads.
//!
//! Contract: the result has the elements at the wanted positions, in the requested order; or each
//! element is visited as it arrives ([`gather_each`]). [`crate::read::gather`] does the reads. If
//! the positions do not fit in memory, they are gathered chunk by chunk.
//!
//! Bounds: I/O is at most one block per position; memory is the result, about 80 bytes per position
//! of a chunk, and the reads in flight.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::batch::{Batch, Sequence, Source, Yield};
use super::pass::{Demand, Pass};
use super::pieces::Lanes;
use super::producer::{Maker, Produced, Producer};
use super::reduce::fold_open_pass;
use super::summary::Summary;
use crate::ends::{Input, input_places};
use crate::ends::{Phases, check_unchanged, open_inputs};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::thread_group::ThreadGroup;
use crate::job::{Job, OutputPlaces};
use crate::read::gather::{GatherPlan, Gatherer};
use outcore_io::drive::Access;
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result, units};

/// The elements of `element_bytes` at `positions` of `inputs`, one after another in the requested
/// order.
///
/// # Errors
/// [`Kind::Usage`] for a position beyond the end, [`Kind::Memory`] if the result does not fit, the
/// errors of reading.
pub fn gather(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    positions: &[u64],
) -> Result<(Vec<u8>, Summary)> {
    let result_bytes = positions.len() * element_bytes;
    let _result = job
        .budget
        .reserve("gathered elements", result_bytes as u64)?;
    let mut result = vec![0; result_bytes];
    let found = |(places, bytes): &mut (Vec<usize>, Vec<u8>), place: usize, element: &[u8]| {
        places.push(place);
        bytes.extend_from_slice(element);
        Ok(())
    };
    let put = |(places, bytes): (Vec<usize>, Vec<u8>)| {
        for (place, element) in places.into_iter().zip(bytes.chunks_exact(element_bytes)) {
            let at = place * element_bytes;
            result[at..at + element_bytes].copy_from_slice(element);
        }
    };
    let held_bytes = element_bytes + size_of::<usize>();
    let wanted = Wanted {
        inputs,
        element_bytes,
        positions,
        held_bytes,
    };
    let summary = wanted.gather(job, Default::default, found, put)?;
    Ok((result, summary))
}

/// Passes the elements of `element_bytes` at `positions` of `inputs` to `visit` as they arrive,
/// each with its index in `positions`: in any order, and on any thread. `state` makes a state per
/// thread for `visit`; all states are returned.
///
/// # Errors
/// The errors of [`gather`] and of `visit`.
pub fn gather_each<S: Send>(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    positions: &[u64],
    state: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, usize, &[u8]) -> Result<()> + Sync,
) -> Result<(Vec<S>, Summary)> {
    let mut states = Vec::new();
    let wanted = Wanted {
        inputs,
        element_bytes,
        positions,
        held_bytes: 0,
    };
    let summary = wanted.gather(job, state, visit, |state| states.push(state))?;
    Ok((states, summary))
}

/// The elements to gather.
struct Wanted<'a> {
    inputs: &'a [Input],
    element_bytes: usize,
    positions: &'a [u64],
    /// Bytes that a thread's state keeps per element.
    held_bytes: usize,
}

impl Wanted<'_> {
    /// Gathers in chunks that fit in memory; after each, `take` receives the threads' states.
    fn gather<S: Send>(
        &self,
        job: &Job,
        state: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, usize, &[u8]) -> Result<()> + Sync,
        mut take: impl FnMut(S),
    ) -> Result<Summary> {
        let (element_bytes, positions) = (self.element_bytes, self.positions);
        let mut phases = Phases::start();
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let parts = open_inputs(&volume, self.inputs, element_bytes, Access::Read)?;
        let all_bytes = positions.len() * element_bytes;
        job.control.begin_phase("gather", all_bytes as u64);
        let left_bytes = job.budget.free_bytes();
        let each_bytes = GatherPlan::memory_bytes(1) + self.held_bytes as u64;
        let chunk = (left_bytes / 4 * 3 / each_bytes) as usize;
        if chunk == 0 && !positions.is_empty() {
            let cause = format!(
                "{} left for {}",
                units::counted(left_bytes, "byte"),
                units::counted(positions.len() as u64, "position")
            );
            return Err(Error::new(Kind::Memory, "plan gather", cause)
                .hint("allow more with --memory, or gather in several runs"));
        }
        let (mut reads, mut planned_bytes) = (0, 0);
        for (number, positions) in positions.chunks(chunk.max(1)).enumerate() {
            let plan_bytes = each_bytes * positions.len() as u64;
            let _plan = job.budget.reserve("positions to gather", plan_bytes)?;
            let plan = GatherPlan::new(&parts, element_bytes, positions.iter().copied())?;
            reads += plan.reads();
            planned_bytes += plan.read_bytes();
            let first = number * chunk;
            let visit =
                |state: &mut S, place: usize, element: &[u8]| visit(state, first + place, element);
            let states = gather_chunk(job, &volume, &plan, &state, visit)?;
            job.control
                .advance((positions.len() * element_bytes) as u64);
            states.into_iter().for_each(&mut take);
        }
        check_unchanged(&volume, &parts, false)?;
        phases.end("gather", &volume);
        let read_bytes = planned_bytes.into();
        let amounts = Amounts::of_files(read_bytes, Forecast::NOTHING, reads as f64);
        let layout = job.layout(&input_places(&parts), &OutputPlaces::Unknown);
        let plan = PhasePlan::new("gather", amounts, &layout);
        let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
        Ok(Summary::of_pass(
            &volume,
            phases,
            &[plan],
            data_bytes / element_bytes as u64,
            positions.len() as u64,
            0,
        ))
    }
}

/// The elements of `element_bytes` at `ranges` of positions of `inputs`, range after range in the
/// requested order. Ranges may overlap; a block that several of them need is read once per chunk of
/// ranges in memory.
///
/// # Errors
/// The errors of [`gather`]; [`Kind::Usage`] for a range that ends before it starts.
pub fn gather_ranges(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    ranges: &[Range<u64>],
) -> Result<(Vec<u8>, Summary)> {
    if let Some(range) = ranges.iter().find(|range| range.end < range.start) {
        let cause = format!(
            "the range {} to {} ends before it starts",
            range.start, range.end
        );
        return Err(Error::usage("gather", cause).hint("give the start and the end of each range"));
    }
    let count: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    // The plan of a gather consists of positions, so the ranges become positions.
    let list_bytes = count.saturating_mul(size_of::<u64>() as u64);
    let _positions = job.budget.reserve("positions of ranges", list_bytes)?;
    let positions: Vec<u64> = ranges.iter().cloned().flatten().collect();
    gather(job, inputs, element_bytes, &positions)
}

/// Gathers the elements of `plan`; returns the threads' states.
fn gather_chunk<S: Send>(
    job: &Job,
    volume: &Volume,
    plan: &GatherPlan<'_>,
    state: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, usize, &[u8]) -> Result<()> + Sync,
) -> Result<Vec<S>> {
    let thread_group = ThreadGroup::new(job, plan.reads().div_ceil(64) as u64);
    let left_bytes = job.budget.free_bytes();
    let share_bytes = left_bytes / thread_group.threads() as u64;
    let states = Mutex::new(Vec::new());
    thread_group.run(|_| {
        let mut gatherer = Gatherer::new(plan, volume, &job.budget, share_bytes)?;
        let mut state = state();
        let check = || {
            job.control.watch(volume);
            thread_group.check()
        };
        gatherer.run(check, |place, element| visit(&mut state, place, element))?;
        let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
        states.push(state);
        Ok(())
    })?;
    Ok(states.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// All items of `sequence`, in order, in memory.
///
/// # Errors
/// [`Kind::Memory`] if they do not fit in addition to the reads; the errors of the pass.
pub fn collect<S>(job: &Job, sequence: &S) -> Result<Vec<S::Item>>
where
    S: Sequence,
    S::Item: Clone + Sync,
{
    let reservations = Mutex::new(Vec::new());
    let mut sources = Vec::new();
    sequence.sources(&mut sources);
    let grain = |_: &mut (), batch: Batch<'_>| {
        let items: Vec<S::Item> = sequence.iter(batch).collect();
        let bytes = items.len() * size_of::<S::Item>();
        let reservation = job.budget.reserve("collected items", bytes as u64)?;
        reservations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(reservation);
        Ok(vec![items])
    };
    let combine = |mut a: Vec<Vec<S::Item>>, b: Vec<Vec<S::Item>>| {
        a.extend(b);
        a
    };
    // The number of items is unknown, so the reads get only half of the memory.
    let for_items = job
        .budget
        .reserve("room for items", job.budget.free_bytes() / 2)?;
    let pass = Pass::open(job, &sources, Lanes::Drives, Demand::default())?;
    drop(for_items);
    let (found, _) = fold_open_pass(pass, || (), grain, &combine)?;
    let grains = found.unwrap_or_default();
    let mut items = Vec::with_capacity(grains.iter().map(Vec::len).sum());
    // Each grain is freed as soon as it is copied.
    grains.into_iter().for_each(|grain| items.extend(grain));
    Ok(items)
}

/// Items in memory that are to be written.
pub struct InMemory<'a> {
    /// The items, one after another.
    pub bytes: &'a [u8],
    /// Bytes of one.
    pub item_bytes: usize,
}

impl Producer for InMemory<'_> {
    fn sources(&self) -> Vec<Source> {
        let count = self.bytes.len() / self.item_bytes;
        vec![Source::generated(count as u64)]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| {
            let from = batch.first as usize * self.item_bytes;
            let items = &self.bytes[from..from + batch.count * self.item_bytes];
            if !out.reserve(items.len())? {
                return Ok(Produced::Overflow);
            }
            out.free()[..items.len()].copy_from_slice(items);
            out.filled(items.len());
            Ok(Produced::All)
        })
    }

    fn steps(&self) -> String {
        "memory".to_string()
    }
}

/// The unchanged items of a file.
pub(crate) struct FileItems {
    pub(crate) input: Input,
    /// Bytes of one.
    pub(crate) item_bytes: usize,
}

impl Producer for FileItems {
    fn sources(&self) -> Vec<Source> {
        vec![Source {
            inputs: vec![self.input.clone()],
            element_bytes: self.item_bytes,
            align_bytes: 1,
            count: 0,
        }]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.item_bytes
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| {
            let items = batch.bytes(0);
            if !out.reserve(items.len())? {
                return Ok(Produced::Overflow);
            }
            out.free()[..items.len()].copy_from_slice(items);
            out.filled(items.len());
            Ok(Produced::All)
        })
    }

    fn steps(&self) -> String {
        "read".to_string()
    }
}
