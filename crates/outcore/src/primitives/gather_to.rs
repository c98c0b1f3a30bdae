//! `gather_to`: elements at positions that are stored in files. Neither elements nor positions need
//! fit in memory.
//!
//! Contract: the output has the elements at the positions, in the order of the positions. If
//! positions and elements fit in memory, they are gathered at once. Otherwise the positions are
//! sorted together with their places. The elements are read in ascending order, and then sorted
//! back by place. (Sort, gather, sort: this is the permutation of external memory, Aggarwal and
//! Vitter, CACM 31(9), 1988.) Large elements are copied from their places one by one. The output
//! bytes do not depend on the method.
//!
//! Bounds for the second method: a sort of 16 bytes per position, a sort of the elements with 8
//! bytes more each, and one read of each block that holds a wanted element. Memory is that of a
//! sort.

use std::sync::Arc;

use super::batch::{BatchStep, Source, Yield};
use super::gather::{InMemory, collect, gather};
use super::group::again;
use super::producer::{Emit, Maker, Produced, Producer};
use super::sorted::sort_made;
use super::summary::Summary;
use super::table::{Numbers, Table};
use super::write::produce;
use crate::ends::{
    EDGES, EDGES_BYTES, Input, Output, Phases, check_unchanged, make_dir, open_inputs,
};
use crate::job::{Control, Job};
use crate::key::expr::{Schema, with_type};
use crate::key::record::{Endian, Number, NumberType, RecordFormat};
use crate::partition::driver::{Ends, Unnamed};
use crate::partition::large::{LARGE_BYTES, copy_records, with_copies};
use crate::read::gather::{GatherPlan, Gatherer};
use crate::read::source::InputPart;
use crate::sort::SortOptions;
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Budget, Ledger, block_ceil};
use outcore_io::output::Room;
use outcore_io::port::Volume;
use outcore_io::{Error, Result};

/// Bytes of a position, and of a place.
const POSITION_BYTES: usize = size_of::<u64>();
/// A place, and the position that is wanted there.
const PAIR: &str = "16/8:8:u64,0:8:u64";
const PAIR_BYTES: usize = 2 * POSITION_BYTES;
/// Elements that are gathered at once on their way to a sort.
const AT_ONCE: usize = 4096;
/// Memory for the reads of one thread, if elements are short.
const READS_BYTES: u64 = 1 << 20;

/// Writes the elements of `element_bytes` at `positions` of `inputs`, one after another in the
/// requested order, to `output`.
///
/// # Errors
/// [`crate::Kind::Usage`] for positions that are not integers, negative, or beyond the end;
/// [`crate::Kind::Memory`] if not even the sorts fit; the errors of reading and writing.
pub fn gather_to(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    positions: &Table,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let positions = &checked(positions)?;
    if element_bytes > LARGE_BYTES {
        return copy_large(job, inputs, element_bytes, positions, output, replace);
    }
    if fits(job, count_of(job, positions)?, element_bytes) {
        let positions = collect(&again(job), &Numbers::<u64>::of(positions))?;
        let list_bytes = (positions.len() * POSITION_BYTES) as u64;
        let _positions = job.budget.reserve("positions to gather", list_bytes)?;
        let (bytes, done) = gather(job, inputs, element_bytes, &positions)?;
        let result_bytes = bytes.len() as u64;
        let _result = job.budget.reserve("gathered elements", result_bytes)?;
        let result = InMemory {
            bytes: &bytes,
            item_bytes: element_bytes,
        };
        return Ok(done.and_unread(produce(job, &result, output, replace)?));
    }
    sort_gather_sort(job, inputs, element_bytes, positions, output, replace)
}

/// Like [`gather_to`], for large elements, each of which is copied from its place. The positions
/// fit in memory, because there are few elements of such a length.
fn copy_large(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    positions: &Table,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let positions = collect(&again(job), &Numbers::<u64>::of(positions))?;
    let list_bytes = (positions.len() * POSITION_BYTES) as u64;
    let _positions = job.budget.reserve("positions to gather", list_bytes)?;
    let mut phases = Phases::start();
    let ends = Ends::open(job, inputs, output, element_bytes, Access::Read)?;
    // Detects positions beyond the end.
    let count = positions.len();
    let plan_bytes = GatherPlan::memory_bytes(count);
    let checked = job.budget.reserve("positions to gather", plan_bytes)?;
    GatherPlan::new(&ends.parts, element_bytes, positions.iter().copied())?;
    drop(checked);
    let result_bytes = (count * element_bytes) as u64;
    let staged = ends.stage(replace, Room::Exactly, result_bytes)?;
    let ledger = with_copies(Ledger::new("gather")).always(EDGES, EDGES_BYTES);
    let job = &job.under(&ledger)?;
    phases.end("prepare", &ends.volume);
    job.control.begin_phase("gather", result_bytes);
    let written = ends.write(job, staged.as_ref(), |sink| {
        copy_records(job, &ends, element_bytes, &positions, sink)
    })?;
    phases.end("gather", &ends.volume);
    let served = ends.close(job, phases, Unnamed::of(staged, written), None, false, &[])?;
    Ok(Summary {
        records_in: ends.data_bytes / element_bytes as u64,
        records: written.items,
        passes: 1,
        seconds: served.seconds,
        read_bytes: served.read_bytes,
        written_bytes: served.written_bytes,
        drives: served.drives,
        skipped: 0,
        phases: served.phases,
    })
}

/// Whether [`gather_to`] gathers `count` elements of `element_bytes` at once.
pub fn fits(job: &Job, count: u64, element_bytes: usize) -> bool {
    // The plan of a chunk of positions uses a quarter of the memory, and its reads use another
    // quarter.
    let each_bytes = (POSITION_BYTES + element_bytes) as u64;
    count.saturating_mul(each_bytes) <= job.budget.free_bytes() / 2
}

/// The number of positions.
fn count_of(job: &Job, positions: &Table) -> Result<u64> {
    let bytes = super::sorted::most_bytes_of(job, positions)?;
    Ok(bytes / POSITION_BYTES as u64)
}

/// The same positions as `u64`, if they are non-negative integers.
fn checked(positions: &Table) -> Result<Table> {
    let (numbers, kind) = positions.numbers()?;
    if kind.is_float() || kind == NumberType::U128 {
        let cause = format!("positions cannot have the type {}", kind.name());
        return Err(Error::usage("gather", cause)
            .hint("give integers: u64, i64, u32, i32, u16, i16, u8 or i8"));
    }
    let format = RecordFormat::numbers(Number::new(NumberType::U64, Endian::NATIVE), 1)?;
    let schema = Schema::of_format(&format);
    numbers.own(Arc::new(Positions { kind }), &format, schema, Yield::One)
}

/// Converts numbers to positions.
struct Positions {
    kind: NumberType,
}

impl BatchStep for Positions {
    fn run(&self, first: u64, items: &[u8]) -> Result<Vec<u8>> {
        let mut positions = Vec::with_capacity(items.len() / self.kind.bytes() * POSITION_BYTES);
        let mut negative = None;
        with_type!(self.kind, T => {
            for (place, item) in (first..).zip(items.chunks_exact(size_of::<T>())) {
                let number = bytemuck::pod_read_unaligned::<T>(item) as i128;
                let position = u64::try_from(number).unwrap_or_else(|_| {
                    negative = negative.or(Some((place, number)));
                    0
                });
                positions.extend_from_slice(&position.to_ne_bytes());
            }
        });
        match negative {
            None => Ok(positions),
            Some((place, number)) => {
                let cause = format!("position {number}, which is entry {place}, is negative");
                Err(Error::usage("gather", cause).hint("positions count from 0"))
            }
        }
    }
}

fn sort_gather_sort(
    job: &Job,
    inputs: &[Input],
    element_bytes: usize,
    positions: &Table,
    output: &Output,
    replace: bool,
) -> Result<Summary> {
    let dir = make_dir(job, output)?;
    let path = |name: &str| dir.path().join(name);
    let file = |name: &str| Output::File {
        path: path(name),
        header: None,
    };
    let options = SortOptions::default();
    let pair = RecordFormat::parse_type(PAIR)?;
    let pairs = positions.enumerate(&pair, Schema::of_format(&pair))?;
    let sorted = sort_made(&again(job), &pairs, &file("items"), &pair, options)?;
    let mut phases = Phases::start();
    let volume = Volume::new(Arc::clone(&job.device), &[])?;
    let parts = open_inputs(&volume, inputs, element_bytes, Access::Read)?;
    let found = Found {
        pairs: Input::raw(path("items")),
        element_bytes,
        parts: &parts,
        volume: &volume,
        control: &job.control,
    };
    let placed = found.item_bytes();
    let format = RecordFormat::parse_record(placed, &[format!("0:{POSITION_BYTES}:u64")])?;
    let back = sort_made(&again(job), &found, &file("sorted"), &format, options)?;
    check_unchanged(&volume, &parts, false)?;
    phases.end("gather", &volume);
    job.device.remove(&path("items"))?;
    let data_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let gathered = Summary::of_pass(
        &volume,
        phases,
        &[],
        data_bytes / element_bytes as u64,
        back.records,
        0,
    );
    let placed = Placed {
        input: Input::raw(path("sorted")),
        element_bytes,
    };
    let written = produce(&again(job), &placed, output, replace)?;
    let read = Summary {
        seconds: 0.0,
        ..gathered
    };
    let records_in = read.records_in;
    let done = Summary::from(sorted).and(read).and(back.into());
    Ok(Summary {
        records_in,
        ..done.and(written)
    })
}

/// Elements preceded by their places, in the order of their positions.
struct Found<'a> {
    /// Places and positions, by position.
    pairs: Input,
    element_bytes: usize,
    parts: &'a [InputPart],
    volume: &'a Volume,
    control: &'a Control,
}

impl Found<'_> {
    /// Memory for the reads of one thread.
    fn reads_bytes(&self) -> u64 {
        let slot_bytes = block_ceil(self.element_bytes as u64) + 2 * BLOCK_BYTES as u64;
        READS_BYTES.max(4 * slot_bytes)
    }

    /// Puts the places of `pairs`, each with the element at its position, into `to`.
    fn fetch(&self, pairs: &[[u8; PAIR_BYTES]], to: &mut [u8]) -> Result<()> {
        let halves = |pair: &[u8; PAIR_BYTES]| -> (u64, u64) {
            let half = |at: usize| bytemuck::pod_read_unaligned(&pair[at..at + POSITION_BYTES]);
            (half(0), half(POSITION_BYTES))
        };
        let positions = pairs.iter().map(|pair| halves(pair).1);
        let plan = GatherPlan::new(self.parts, self.element_bytes, positions).map_err(|error| {
            // The error reports the position's place among all requested positions, not among these
            // pairs.
            let last = pairs
                .iter()
                .map(halves)
                .max_by_key(|(_, position)| *position);
            let (place, position) = last.unwrap_or_default();
            let cause = format!(
                "position {position}, entry {place} of the positions, is past the last record"
            );
            match error.next_step() {
                Some(hint) => Error::usage("gather", cause).hint(hint),
                None => Error::usage("gather", cause),
            }
        })?;
        let reads_bytes = self.reads_bytes();
        let budget = Budget::new(reads_bytes + BLOCK_BYTES as u64);
        let mut gatherer = Gatherer::new(&plan, self.volume, &budget, reads_bytes)?;
        let item_bytes = self.item_bytes();
        gatherer.run(
            || self.control.check(),
            |index, element| {
                let item = &mut to[index * item_bytes..(index + 1) * item_bytes];
                let (place, _) = halves(&pairs[index]);
                item[..POSITION_BYTES].copy_from_slice(&place.to_le_bytes());
                item[POSITION_BYTES..].copy_from_slice(element);
                Ok(())
            },
        )
    }

    fn make(&self, mut pairs: &[[u8; PAIR_BYTES]], out: &mut Emit<'_>) -> Result<Produced> {
        let item_bytes = self.item_bytes();
        while !pairs.is_empty() {
            let wanted = pairs.len().min(AT_ONCE);
            out.reserve(wanted * item_bytes)?;
            let room = out.free().len() / item_bytes;
            if room == 0 {
                return Ok(Produced::Overflow);
            }
            let (some, rest) = pairs.split_at(wanted.min(room));
            self.fetch(some, out.free())?;
            out.filled(some.len() * item_bytes);
            pairs = rest;
        }
        Ok(Produced::All)
    }
}

impl Producer for Found<'_> {
    fn sources(&self) -> Vec<Source> {
        vec![Source {
            inputs: vec![self.pairs.clone()],
            element_bytes: PAIR_BYTES,
            align_bytes: 1,
            count: 0,
        }]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        POSITION_BYTES + self.element_bytes
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| self.make(batch.bytes(0).as_chunks().0, out))
    }

    fn space_bytes(&self) -> usize {
        (GatherPlan::memory_bytes(AT_ONCE) + self.reads_bytes()) as usize + BLOCK_BYTES
    }

    fn steps(&self) -> String {
        "gather".to_string()
    }
}

/// Elements of a file, each preceded by its place.
struct Placed {
    input: Input,
    element_bytes: usize,
}

impl Producer for Placed {
    fn sources(&self) -> Vec<Source> {
        vec![Source {
            inputs: vec![self.input.clone()],
            element_bytes: POSITION_BYTES + self.element_bytes,
            align_bytes: 1,
            count: 0,
        }]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.element_bytes
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| {
            let items = batch
                .bytes(0)
                .chunks_exact(POSITION_BYTES + self.element_bytes);
            for item in items {
                if !out.reserve(self.element_bytes)? {
                    return Ok(Produced::Overflow);
                }
                out.free()[..self.element_bytes].copy_from_slice(&item[POSITION_BYTES..]);
                out.filled(self.element_bytes);
            }
            Ok(Produced::All)
        })
    }

    fn steps(&self) -> String {
        "take places away".to_string()
    }
}
