//! The running minimum or maximum of a group.
//!
//! Contract: [`Extreme::go_on`] takes the rows of a part in order, in any number of batches, and
//! restarts with each group. Nulls are ignored. In floats, all zeros are one value and all NaNs are
//! one, which is larger than all numbers.
//!
//! Bounds: the bytes of a batch's values, and two copies of one value between batches.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow_row::{RowConverter, SortField};
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use outcore_io::Result;

use super::WINDOW;
use super::rank::RowRank;
use crate::equal::with_one_zero;
use crate::fault;

/// See the module.
#[derive(Default)]
pub(super) struct Extreme {
    held: Option<Held>,
}

/// The extreme of the rows before a batch.
struct Held {
    /// In arrow-row's form.
    bytes: Vec<u8>,
    /// As an array of one row.
    value: ArrayRef,
}

/// The place of a row's extreme.
#[derive(Clone, Copy)]
enum Place {
    Nowhere,
    /// Before the batch.
    Held,
    /// In this row of the batch.
    Row(usize),
}

impl Extreme {
    /// Bytes of the kept value.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes.len())
    }

    /// Returns the extreme up to each row; `wanted` is how it compares with the other values.
    ///
    /// # Errors
    /// None beyond those of the column's type.
    pub(super) fn go_on(
        &mut self,
        of: &ArrayRef,
        ranks: &[RowRank],
        wanted: Ordering,
    ) -> Result<ArrayRef> {
        let arrow = |error| fault::arrow(WINDOW, &error);
        let of = with_one_zero(of);
        let converter = RowConverter::new(vec![SortField::new(of.data_type().clone())]);
        let rows = converter
            .and_then(|converter| converter.convert_columns(&[Arc::clone(&of)]))
            .map_err(arrow)?;
        let nulls = of.logical_nulls();
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let held = self.held.take();
        let held_bytes = held.as_ref().map_or(&[][..], |held| &held.bytes);
        let mut place = match held {
            Some(_) => Place::Held,
            None => Place::Nowhere,
        };
        let mut places = Vec::with_capacity(ranks.len());
        for (row, rank) in ranks.iter().enumerate() {
            if rank.number == 1 {
                place = Place::Nowhere;
            }
            let is_better = is_valid(row)
                && match place {
                    Place::Nowhere => true,
                    Place::Held => rows.row(row).data().cmp(held_bytes) == wanted,
                    Place::Row(best) => rows.row(row).cmp(&rows.row(best)) == wanted,
                };
            if is_better {
                place = Place::Row(row);
            }
            places.push(match place {
                Place::Nowhere => (0, 0),
                Place::Held => (1, 0),
                Place::Row(row) => (2, row),
            });
        }
        let none = new_null_array(of.data_type(), 1);
        let before = held.as_ref().map_or(&none, |held| &held.value);
        let values: [&dyn Array; 3] = [&none, before, &of];
        let made = interleave(&values, &places).map_err(arrow)?;
        self.held = match place {
            Place::Nowhere => None,
            Place::Held => held,
            Place::Row(row) => Some(Held {
                bytes: rows.row(row).data().to_vec(),
                value: take(&of, &UInt32Array::from(vec![row as u32]), None).map_err(arrow)?,
            }),
        };
        Ok(made)
    }
}
