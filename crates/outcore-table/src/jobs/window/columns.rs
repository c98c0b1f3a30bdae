//! Computes the window columns, batch by batch.
//!
//! Contract: [`Columns::compute`] gets the rows of a part in order, the rows before and after them
//! that `lag` and `lead` need, and each row's place in its group. Sums and extremes continue from
//! batch to batch. Floats are added one by one in the order of the rows.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float64Type, Int64Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp, Int64Array, PrimitiveArray, RecordBatch, UInt32Array,
};
use arrow_buffer::i256;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use arrow_select::take::take;
use outcore_io::{Error, Result};

use super::extreme::Extreme;
use super::plan::Plan;
use super::rank::RowRank;
use super::{WINDOW, WindowFunction};
use crate::fault;
use crate::notation::notation;

/// The rows for which columns are computed.
pub(super) struct Ready<'r> {
    /// The places of all rows, including those that are only referred to.
    pub(super) places: &'r [RowRank],
    /// The number of additional rows at the start of the batch: 1 for the first row of the first
    /// group, otherwise 0.
    pub(super) front: usize,
    /// The rows to compute.
    pub(super) rows: Range<usize>,
}

/// See the module.
pub(super) struct Columns<'p> {
    plan: &'p Plan,
    /// The running state of each column.
    running: Vec<Running>,
}

/// The state of a column that continues from row to row.
#[derive(Default)]
struct Running {
    sum: Sum,
    extreme: Extreme,
}

/// A running sum, in its column's type.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    whole: Option<i128>,
    wide: Option<i256>,
    real: Option<f64>,
}

impl<'p> Columns<'p> {
    pub(super) fn new(plan: &'p Plan) -> Self {
        Columns {
            plan,
            running: plan.columns.iter().map(|_| Running::default()).collect(),
        }
    }

    /// Bytes of the longest value that is kept for later rows.
    pub(super) fn held_bytes_max(&self) -> usize {
        let held = self
            .running
            .iter()
            .map(|column| column.extreme.held_bytes());
        held.max().unwrap_or(0)
    }

    /// Computes the columns of the requested rows.
    ///
    /// # Errors
    /// Usage: a sum that overflows its type.
    pub(super) fn compute(
        &mut self,
        batch: &RecordBatch,
        ready: &Ready<'_>,
    ) -> Result<Vec<ArrayRef>> {
        let plan = self.plan;
        let columns = plan.columns.iter().zip(&plan.places).zip(&mut self.running);
        let columns = columns.map(|((column, place), running)| {
            let places = &ready.places[ready.rows.clone()];
            let whole = |of: fn(&RowRank) -> i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(places.iter().map(of)))
            };
            let of = place.as_ref();
            let of = of.map(|place| place.values(batch.column(place.root)));
            match (&column.function, of.transpose()?.as_ref()) {
                (WindowFunction::Lag(_, rows), Some(of)) => ready.taken(of, |row, place| {
                    (place.number as usize > *rows).then(|| row - rows)
                }),
                (WindowFunction::Lead(_, rows), Some(of)) => ready.taken(of, |row, place| {
                    let found = ready.places.get(row + rows)?;
                    (found.number == place.number + *rows as i64).then_some(row + rows)
                }),
                (WindowFunction::First(_), Some(of)) => {
                    let arrow = |error| fault::arrow(WINDOW, &error);
                    let rows = ready.rows.clone();
                    let firsts = rows.map(|row| {
                        let first = ready.places[row].first_row(row);
                        first.map_or(0, |first| (first + ready.front) as u32)
                    });
                    take(of, &UInt32Array::from_iter_values(firsts), None).map_err(arrow)
                }
                (WindowFunction::CumulativeSum(_), Some(of)) => {
                    let of = ready.own(of);
                    let field = plan.schema.field_with_name(&column.name);
                    let field = field.map_err(|error| fault::arrow(WINDOW, &error))?;
                    let added = running.sum.added(&of, field.data_type(), places);
                    added.ok_or_else(|| overflow(&column.name, field.data_type()))?
                }
                (WindowFunction::CumulativeMin(_), Some(of)) => {
                    running
                        .extreme
                        .go_on(&ready.own(of), places, Ordering::Less)
                }
                (WindowFunction::CumulativeMax(_), Some(of)) => {
                    running
                        .extreme
                        .go_on(&ready.own(of), places, Ordering::Greater)
                }
                (WindowFunction::Rank, _) => Ok(whole(|place| place.rank)),
                (WindowFunction::DenseRank, _) => Ok(whole(|place| place.dense_rank)),
                _ => Ok(whole(|place| place.number)),
            }
        });
        columns.collect()
    }
}

impl Ready<'_> {
    /// The values of the requested rows.
    fn own(&self, of: &ArrayRef) -> ArrayRef {
        of.slice(self.front + self.rows.start, self.rows.len())
    }

    /// For each row, takes the value of the row that `from` returns, or null.
    fn taken(
        &self,
        of: &ArrayRef,
        from: impl Fn(usize, &RowRank) -> Option<usize>,
    ) -> Result<ArrayRef> {
        let rows = self.rows.clone();
        let places = rows.map(|row| {
            let found = from(row, &self.places[row]);
            found.map(|found| (found + self.front) as u32)
        });
        let places: UInt32Array = places.collect();
        take(of, &places, None).map_err(|error| fault::arrow(WINDOW, &error))
    }
}

impl Sum {
    /// Returns, for each row, the running sum as type `data_type`; `None` if that overflows.
    fn added(
        &mut self,
        of: &ArrayRef,
        data_type: &DataType,
        places: &[RowRank],
    ) -> Option<Result<ArrayRef>> {
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        // Durations are added as integers.
        let stored = match data_type {
            DataType::Duration(_) => &DataType::Int64,
            other => other,
        };
        let cast = |array: &ArrayRef, to: &DataType| {
            cast_with_options(array, to, &options).map_err(|error| fault::arrow(WINDOW, &error))
        };
        let array = match cast(of, stored) {
            Ok(array) => array,
            Err(error) => return Some(Err(error)),
        };
        let sums: ArrayRef = match stored {
            DataType::Int64 => {
                let sum = (&mut self.whole, 0);
                running::<Int64Type, i128>(&array, places, sum, wider, |sum| sum.try_into().ok())?
            }
            DataType::UInt64 => {
                let sum = (&mut self.whole, 0);
                running::<UInt64Type, i128>(&array, places, sum, wider, |sum| sum.try_into().ok())?
            }
            DataType::Decimal128(precision, scale) => {
                let limit = 10_i128.pow(u32::from(*precision));
                let sum = (&mut self.whole, 0);
                let show = |sum: i128| (sum.abs() < limit).then_some(sum);
                let sums =
                    running::<Decimal128Type, i128>(&array, places, sum, i128::checked_add, show)?;
                let sums = sums.as_primitive::<Decimal128Type>().clone();
                Arc::new(sums.with_precision_and_scale(*precision, *scale).ok()?)
            }
            DataType::Decimal256(precision, scale) => {
                let limit = i256::from_i128(10).pow_wrapping(u32::from(*precision));
                let sum = (&mut self.wide, i256::ZERO);
                let show = |sum: i256| (sum < limit && sum > limit.wrapping_neg()).then_some(sum);
                let sums =
                    running::<Decimal256Type, i256>(&array, places, sum, i256::checked_add, show)?;
                let sums = sums.as_primitive::<Decimal256Type>().clone();
                Arc::new(sums.with_precision_and_scale(*precision, *scale).ok()?)
            }
            _ => {
                // -0.0 is the neutral element: 0.0 would turn a sum of -0.0 into 0.0.
                let sum = (&mut self.real, -0.0);
                let add = |sum: f64, value| Some(sum + value);
                running::<Float64Type, f64>(&array, places, sum, add, Some)?
            }
        };
        Some(cast(&sums, data_type))
    }
}

/// Adds, and checks for overflow.
fn wider<V: Into<i128>>(sum: i128, value: V) -> Option<i128> {
    sum.checked_add(value.into())
}

/// Returns, for each row, the running sum, which restarts from `nothing` with each group; `show`
/// converts it to a value. `None` if a sum is too large.
fn running<T: ArrowPrimitiveType, S: Copy>(
    array: &ArrayRef,
    places: &[RowRank],
    (sum, nothing): (&mut Option<S>, S),
    add: impl Fn(S, T::Native) -> Option<S>,
    show: impl Fn(S) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let array = array.as_primitive::<T>();
    let mut sums = Vec::with_capacity(places.len());
    for (row, place) in places.iter().enumerate() {
        if place.number == 1 {
            *sum = None;
        }
        if array.is_valid(row) {
            *sum = Some(add(sum.unwrap_or(nothing), array.value(row))?);
        }
        sums.push(match *sum {
            None => None,
            Some(sum) => Some(show(sum)?),
        });
    }
    let sums: PrimitiveArray<T> = sums.into_iter().collect();
    Some(Arc::new(sums))
}

fn overflow(name: &str, data_type: &DataType) -> Error {
    let cause = format!("`{name}` becomes too large for {}", notation(data_type));
    Error::usage(WINDOW, cause).hint("compute it from a column of floats: c = f64(c)")
}
