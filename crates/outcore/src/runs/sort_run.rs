//! Sorts one run in place in memory.
//!
//! Contract: [`sort_run`] sorts the records of an area into the order of the view, in place. Scalar
//! numbers are sorted as native integers. Records are sorted by reference and then moved along the
//! cycles of the permutation, so that no second copy of the data is needed. Equal records are
//! ordered as the view requires. Memory: the radix sort's space for numbers; entries and their
//! space for records. The caller plans both, and reuses them from run to run.

use crate::key::scalar::ScalarClass;
use crate::partition::no_buffer;
use crate::sort::elements::{Elements, Records, Scalars, as_keys_mut};
use crate::sort::in_memory::{Entry, each_tie, sort_entries};
use crate::sort::radix::{self, Item};
use outcore_io::memory::Buf;
use outcore_io::{Error, Result};

use super::shape::{Rule, Shape};

/// Records whose keys are made at once.
const BATCH: usize = 512;

/// The memory of a sort of runs, in addition to the runs.
#[derive(Debug)]
pub(super) struct RunSpace {
    /// For numbers.
    numbers: Option<Buf>,
    /// For records.
    entries: Vec<Entry>,
    entry_space: Vec<Entry>,
}

impl RunSpace {
    /// Space for sorting, with `numbers` as the space for numbers; records need none.
    pub(super) fn new(numbers: Option<Buf>) -> Self {
        RunSpace {
            numbers,
            entries: Vec::new(),
            entry_space: Vec::new(),
        }
    }
}

/// Sorts `area`, a whole number of records, at most 4 GiB.
pub(super) fn sort_run(shape: &Shape, area: &mut [u8], space: &mut RunSpace) -> Result<()> {
    let Rule::Records { order, scalar } = &shape.rule else {
        return Err(Error::usage("sort run", "lines are not sorted in place")
            .hint("a bug: please report it"));
    };
    match scalar.map(|scalar| (scalar, scalar.class())) {
        Some((scalar, ScalarClass::U32)) => sort_numbers(&Scalars::<u32>::new(scalar), area, space),
        Some((scalar, ScalarClass::U64)) => sort_numbers(&Scalars::<u64>::new(scalar), area, space),
        Some((scalar, ScalarClass::U128)) => {
            sort_numbers(&Scalars::<u128>::new(scalar), area, space)
        }
        None => {
            let elements = Records::new(order.clone());
            sort_records(&elements, area, space, shape.view_order.stable)
        }
    }
}

fn sort_numbers<E>(elements: &E, area: &mut [u8], space: &mut RunSpace) -> Result<()>
where
    E: Elements,
    E::Key: Item,
{
    elements.encode(area)?;
    let numbers = space.numbers.as_mut().ok_or_else(no_buffer)?;
    radix::sort(as_keys_mut::<E::Key>(area)?, as_keys_mut(numbers)?);
    elements.decode(area)
}

fn sort_records(
    elements: &Records,
    area: &mut [u8],
    space: &mut RunSpace,
    is_stable: bool,
) -> Result<()> {
    let entries = &mut space.entries;
    let record_bytes = elements.element_bytes();
    entries.clear();
    entries.reserve_exact(area.len() / record_bytes);
    let mut words = Vec::new();
    for (batch, payload) in area.chunks(BATCH * record_bytes).enumerate() {
        let from = batch * BATCH * record_bytes;
        let keys = elements.keys(payload, 0, &mut words)?;
        entries.extend(keys.iter().enumerate().map(|(record, &word)| Entry {
            word,
            at_bytes: (from + record * record_bytes) as u32,
        }));
    }
    sort_entries(entries, &mut space.entry_space);
    if elements.depth_end() > 1 {
        let record = |entry: &Entry| {
            let at = entry.at_bytes as usize;
            &area[at..at + record_bytes]
        };
        each_tie(entries, |tie| {
            let compare = |a: &Entry, b: &Entry| elements.compare_from(record(a), record(b), 1);
            match is_stable {
                true => tie.sort_by(compare),
                false => tie.sort_unstable_by(compare),
            }
        });
    }
    permute(area, entries, record_bytes);
    Ok(())
}

/// Moves every record to the place of the entry that refers to it.
fn permute(area: &mut [u8], entries: &mut [Entry], record_bytes: usize) {
    let mut held = vec![0; record_bytes];
    for first in 0..entries.len() {
        let first_at = first * record_bytes;
        if entries[first].at_bytes as usize == first_at {
            continue;
        }
        held.copy_from_slice(&area[first_at..first_at + record_bytes]);
        let mut hole = first;
        loop {
            let hole_at = hole * record_bytes;
            let from = entries[hole].at_bytes as usize;
            entries[hole].at_bytes = hole_at as u32;
            if from == first_at {
                area[hole_at..hole_at + record_bytes].copy_from_slice(&held);
                break;
            }
            area.copy_within(from..from + record_bytes, hole_at);
            hole = from / record_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::record::RecordFormat;
    use crate::runs::ViewOrder;
    use crate::sort::radix::space_bytes;
    use outcore_io::memory::{Budget, Pool};

    proptest! {
        #[test]
        fn a_run_is_sorted_as_the_order_says(
            text in prop_oneof![
                Just("u64"), Just("i32"), Just("f64be"), Just("u128"), Just("u16"), Just("gensort"),
                Just("12/4:2,0:1:desc"), Just("40/8:20"),
            ],
            bytes in proptest::collection::vec(0u8..4, 0..6000), descending: bool, stable: bool,
        ) {
            let format = RecordFormat::parse_type(text).unwrap();
            let order = ViewOrder { descending, stable };
            let shape = Shape::new(&(&format).into(), order, 4, 1);
            let record_bytes = format.record_bytes();
            let len = bytes.len() / record_bytes * record_bytes;
            let mut expected: Vec<&[u8]> = bytes[..len].chunks(record_bytes).collect();
            expected.sort_by(|a, b| shape.compare(a, b));
            let mut area = vec![0u128; len.div_ceil(16)];
            let area = &mut bytemuck::cast_slice_mut(&mut area)[..len];
            area.copy_from_slice(&bytes[..len]);
            let space_bytes = space_bytes(len as u64, record_bytes).max(1);
            let budget = Budget::new(1 << 20);
            let pool = Pool::new(&budget, "test", space_bytes as usize, 1).unwrap();
            let numbers = pool.take();
            sort_run(&shape, area, &mut RunSpace::new(numbers)).unwrap();
            prop_assert_eq!(&area[..], &expected.concat()[..]);
        }
    }
}
