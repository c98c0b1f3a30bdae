//! Steps of a table that enlarge a record: several numbers, or a position before it.
//!
//! Contract: [`expand`] passes on the results of all programs for each row, row by row, in batches
//! no longer than the incoming ones. [`Numbered`] puts positions before items.

use super::batch::{BatchStep, SOURCES_MAX};
use crate::key::expr::{BATCH_ROWS, Program, Rows, Space};
use outcore_io::Result;

/// Calls `sink` with the results of all programs for each row.
pub(super) fn expand(
    programs: &[Program],
    spaces: &mut [Space],
    made: &mut Vec<u8>,
    rows: &Rows<'_>,
    sink: &mut dyn FnMut(&Rows<'_>) -> Result<()>,
) -> Result<()> {
    let times = programs.len();
    let widest = programs.iter().map(Program::rows_max).min();
    let rows_max = widest.unwrap_or(1).min(BATCH_ROWS / times).max(1);
    for from in (0..rows.count).step_by(rows_max) {
        let count = rows_max.min(rows.count - from);
        let mut inputs: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
        for (part, input) in inputs.iter_mut().zip(rows.inputs) {
            let record_bytes = input.len() / rows.count;
            *part = &input[from * record_bytes..(from + count) * record_bytes];
        }
        let part = Rows {
            first: rows.first + from as u64,
            count,
            inputs: &inputs[..rows.inputs.len()],
        };
        made.clear();
        for (number, (program, space)) in programs.iter().zip(&mut *spaces).enumerate() {
            let item_bytes = program.kind().bytes();
            made.resize(count * times * item_bytes, 0);
            let column = program.run(space, &part)?.bytes;
            let places = made
                .chunks_exact_mut(item_bytes)
                .skip(number)
                .step_by(times);
            for (place, item) in places.zip(column.chunks_exact(item_bytes)) {
                place.copy_from_slice(item);
            }
        }
        sink(&Rows {
            first: part.first,
            count: count * times,
            inputs: &[made],
        })?;
    }
    Ok(())
}

/// Puts positions before items.
pub(super) struct Numbered {
    pub(super) item_bytes: usize,
}

impl BatchStep for Numbered {
    fn run(&self, first: u64, items: &[u8]) -> Result<Vec<u8>> {
        let count = items.len() / self.item_bytes;
        let mut made = Vec::with_capacity(items.len() + count * size_of::<u64>());
        for (position, item) in (first..).zip(items.chunks_exact(self.item_bytes)) {
            made.extend_from_slice(&position.to_le_bytes());
            made.extend_from_slice(item);
        }
        Ok(made)
    }
}
