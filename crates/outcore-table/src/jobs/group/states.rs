//! The states of one aggregate for many groups.
//!
//! Contract: [`States::update`] adds the rows of a batch, each to its group. [`States::append`]
//! writes the state of a group as bytes. [`States::merge`] adds such bytes to a group, in the order
//! of their rows. [`States::finish`] builds the column of results. Integers and decimals are added
//! in 128 bits (or 256) and checked at the end, so a sum overflows only if the result does. Floats
//! are added in the order in which rows and states come; the caller determines that order.
//!
//! - count: a varint
//! - sum, mean of integers and decimals: the sum as a zigzag varint (32 bytes for 256 bits), the
//!   number of values as a varint
//! - sum, mean of floats: the sum in 8 bytes, the number of values as a varint
//! - min, max, first, last: the length as a varint, and the value in arrow-row's form; zero bytes
//!   mean no value yet
//! - arg_min, arg_max: as for min, but before the value comes the compared value, in the same form
//!   and with a 4-byte length
//! - quantile: the number of values, a varint

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Decimal256Array, Float64Array, Int64Array, UInt64Array,
};
use arrow_buffer::i256;
use arrow_row::{RowConverter, Rows};
use arrow_schema::DataType;
use outcore_io::{Error, Result};

use super::GROUP;
use super::aggregate::{Aggregate, AggregateKind};
use super::between::{self, Part};
use super::numbers::{each_real, each_whole, retyped_as};
use crate::fault;
use crate::notation::notation;

/// A column of a batch that aggregates use.
pub(super) struct Values {
    pub(super) array: ArrayRef,
    /// Its values as bytes in their order, if an aggregate needs them.
    pub(super) rows: Option<Rows>,
}

/// The operands of an aggregate in a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Operands<'v> {
    /// `None` to count rows.
    pub(super) of: Option<&'v Values>,
    /// The operand that chooses the row.
    pub(super) by: Option<&'v Values>,
}

/// See the module.
pub(super) enum States {
    /// The number of rows in which the column, if there is one, is not null.
    Count(Vec<i64>),
    Whole(Vec<i128>, Vec<i64>),
    Wide(Vec<i256>, Vec<i64>),
    Real(Vec<f64>, Vec<i64>),
    Picked(Vec<Vec<u8>>),
    /// Counted by the caller, who sees the values in order.
    Distinct(Vec<i64>),
    /// The number of values, and the two values around the result, set by the caller, who sees the
    /// values in order.
    Quantile {
        part: Part,
        counts: Vec<i64>,
        low: Vec<Vec<u8>>,
        high: Vec<Vec<u8>>,
    },
}

impl States {
    /// Empty states for an aggregate of a column of this type.
    pub(super) fn of(aggregate: &Aggregate, data_type: Option<&DataType>) -> Self {
        match (aggregate.kind, data_type) {
            (AggregateKind::Count, _) | (_, None) => States::Count(Vec::new()),
            (AggregateKind::CountDistinct, _) => States::Distinct(Vec::new()),
            (AggregateKind::Quantile(part), _) => States::Quantile {
                part: Part::between(part),
                counts: Vec::new(),
                low: Vec::new(),
                high: Vec::new(),
            },
            (AggregateKind::QuantileDisc(part), _) => States::Quantile {
                part: Part::one_of(part),
                counts: Vec::new(),
                low: Vec::new(),
                high: Vec::new(),
            },
            (AggregateKind::Sum | AggregateKind::Mean, Some(of)) => match of {
                DataType::Decimal256(..) => States::Wide(Vec::new(), Vec::new()),
                // The mean exists even if 128 bits do not hold the sum.
                DataType::Decimal128(..) if aggregate.kind == AggregateKind::Mean => {
                    States::Wide(Vec::new(), Vec::new())
                }
                of if of.is_floating() => States::Real(Vec::new(), Vec::new()),
                _ => States::Whole(Vec::new(), Vec::new()),
            },
            _ => States::Picked(Vec::new()),
        }
    }

    /// The number of column values that it holds per group.
    pub(super) fn values_held(&self) -> u64 {
        match self {
            States::Picked(_) => 1,
            States::Quantile { .. } => 2,
            _ => 0,
        }
    }

    /// Grows to this many groups; new ones have seen no value.
    pub(super) fn grow(&mut self, groups: usize) {
        match self {
            States::Count(counts) | States::Distinct(counts) => counts.resize(groups, 0),
            States::Whole(sums, counts) => {
                sums.resize(groups, 0);
                counts.resize(groups, 0);
            }
            States::Wide(sums, counts) => {
                sums.resize(groups, i256::ZERO);
                counts.resize(groups, 0);
            }
            States::Real(sums, counts) => {
                // -0.0 is the neutral element: 0.0 would turn a sum of -0.0 into 0.0.
                sums.resize(groups, -0.0);
                counts.resize(groups, 0);
            }
            States::Picked(values) => values.resize(groups, Vec::new()),
            States::Quantile {
                counts, low, high, ..
            } => {
                counts.resize(groups, 0);
                low.resize(groups, Vec::new());
                high.resize(groups, Vec::new());
            }
        }
    }

    /// Removes all groups, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.grow(0);
    }

    /// Adds each row of `values` to its group. Returns by how much the states have grown.
    ///
    /// # Errors
    /// Usage: a sum that overflows 128 bits.
    pub(super) fn update(
        &mut self,
        aggregate: &Aggregate,
        groups: &[u32],
        operands: Operands<'_>,
    ) -> Result<usize> {
        let Some(values) = operands.of else {
            if let States::Count(counts) = self {
                groups.iter().for_each(|&group| counts[group as usize] += 1);
            }
            return Ok(0);
        };
        let array = &values.array;
        let nulls = array.logical_nulls();
        let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let rows = groups.iter().map(|&group| group as usize).enumerate();
        let mut present = rows.clone().filter(|(row, _)| valid(*row));
        let too_large = || overflow(aggregate, "the type of sums");
        match self {
            States::Count(counts) | States::Quantile { counts, .. } => {
                present.for_each(|(_, group)| counts[group] += 1);
            }
            States::Distinct(_) => {}
            States::Whole(sums, counts) => each_whole(array, |read| {
                present.try_for_each(|(row, group)| {
                    let sum = sums[group].checked_add(read(row));
                    sums[group] = sum.ok_or_else(too_large)?;
                    counts[group] += 1;
                    Ok(())
                })
            })?,
            States::Wide(sums, counts) => {
                let mut add = |group: usize, value: i256| {
                    let sum = sums[group].checked_add(value);
                    sums[group] = sum.ok_or_else(too_large)?;
                    counts[group] += 1;
                    Ok::<_, Error>(())
                };
                if let Some(array) = array.as_primitive_opt::<Decimal128Type>() {
                    present.try_for_each(|(row, group)| {
                        add(group, i256::from_i128(array.value(row)))
                    })?;
                } else {
                    let array = array.as_primitive::<Decimal256Type>();
                    present.try_for_each(|(row, group)| add(group, array.value(row)))?;
                }
            }
            States::Real(sums, counts) => each_real(array, |read| {
                present.for_each(|(row, group)| {
                    sums[group] += read(row);
                    counts[group] += 1;
                });
            }),
            States::Picked(states) => {
                let Some(bytes) = &values.rows else {
                    return Ok(0);
                };
                let mut grown = 0;
                let mut take = |group: usize, row: usize| {
                    let (state, found) = (&mut states[group], bytes.row(row));
                    if is_picked(aggregate.kind, state, found.data()) {
                        grown += found.data().len().saturating_sub(state.len());
                        state.clear();
                        state.extend_from_slice(found.data());
                    }
                };
                match (aggregate.kind, operands.by) {
                    (AggregateKind::First | AggregateKind::Last, _) => {
                        rows.for_each(|(row, group)| take(group, row));
                    }
                    (kind, Some(by)) => return Ok(chosen(kind, states, values, by, present)),
                    _ => present.for_each(|(row, group)| take(group, row)),
                }
                return Ok(grown);
            }
        }
        Ok(0)
    }

    /// Writes the state of a group.
    pub(super) fn append(&self, group: usize, out: &mut Vec<u8>) {
        match self {
            States::Count(counts) | States::Quantile { counts, .. } => {
                put_varint(counts[group] as u128, out);
            }
            States::Distinct(_) => {}
            States::Whole(sums, counts) => {
                let sum = sums[group];
                put_varint(((sum << 1) ^ (sum >> 127)) as u128, out);
                put_varint(counts[group] as u128, out);
            }
            States::Wide(sums, counts) => {
                out.extend_from_slice(&sums[group].to_le_bytes());
                put_varint(counts[group] as u128, out);
            }
            States::Real(sums, counts) => {
                out.extend_from_slice(&sums[group].to_bits().to_le_bytes());
                put_varint(counts[group] as u128, out);
            }
            States::Picked(values) => {
                put_varint(values[group].len() as u128, out);
                out.extend_from_slice(&values[group]);
            }
        }
    }

    /// Merges into a group the bytes that [`States::append`] wrote, and removes them from the front
    /// of `state`.
    ///
    /// # Errors
    /// Corrupt: bytes of another origin. Usage: a sum that overflows 128 bits.
    pub(super) fn merge(
        &mut self,
        aggregate: &Aggregate,
        group: usize,
        state: &mut &[u8],
    ) -> Result<()> {
        let too_large = || overflow(aggregate, "the type of sums");
        match self {
            States::Count(counts) | States::Quantile { counts, .. } => {
                counts[group] += take_count(state)?;
            }
            States::Distinct(_) => {}
            States::Whole(sums, counts) => {
                let word = take_varint(state)?;
                let sum = (word >> 1) as i128 ^ -((word & 1) as i128);
                sums[group] = sums[group].checked_add(sum).ok_or_else(too_large)?;
                counts[group] += take_count(state)?;
            }
            States::Wide(sums, counts) => {
                let sum = i256::from_le_bytes(take_array(state)?);
                sums[group] = sums[group].checked_add(sum).ok_or_else(too_large)?;
                counts[group] += take_count(state)?;
            }
            States::Real(sums, counts) => {
                let sum = f64::from_bits(u64::from_le_bytes(take_array(state)?));
                sums[group] += sum;
                counts[group] += take_count(state)?;
            }
            States::Picked(values) => {
                let len_bytes = take_count(state)? as usize;
                let found = state.split_at_checked(len_bytes).ok_or_else(cut_short)?;
                *state = found.1;
                if !found.0.is_empty() && is_picked(aggregate.kind, &values[group], found.0) {
                    values[group].clear();
                    values[group].extend_from_slice(found.0);
                }
            }
        }
        Ok(())
    }

    /// Builds the column of results, of type `result`. `converter` decodes values of the column, of
    /// type `of`.
    ///
    /// # Errors
    /// Usage: a sum that overflows its type. Corrupt: bytes that are not a value.
    pub(super) fn finish(
        &self,
        aggregate: &Aggregate,
        (of, result): (Option<&DataType>, &DataType),
        converter: Option<&RowConverter>,
    ) -> Result<ArrayRef> {
        let scale = match of {
            Some(
                DataType::Decimal32(_, scale)
                | DataType::Decimal64(_, scale)
                | DataType::Decimal128(_, scale)
                | DataType::Decimal256(_, scale),
            ) => 10_f64.powi(i32::from(*scale)),
            _ => 1.0,
        };
        let is_mean = aggregate.kind == AggregateKind::Mean;
        Ok(match self {
            States::Count(counts) | States::Distinct(counts) => {
                Arc::new(Int64Array::from(counts.clone()))
            }
            States::Whole(sums, counts) if is_mean => {
                let of = sums.iter().zip(counts);
                let mean =
                    of.map(|(&sum, &count)| (count > 0).then(|| sum as f64 / scale / count as f64));
                Arc::new(mean.collect::<Float64Array>())
            }
            States::Wide(sums, counts) if is_mean => {
                let of = sums.iter().zip(counts);
                let mean = of.map(|(&sum, &count)| {
                    (count > 0).then(|| wide_to_real(sum) / scale / count as f64)
                });
                Arc::new(mean.collect::<Float64Array>())
            }
            States::Real(sums, counts) => {
                let of = sums.iter().zip(counts);
                let divided = |sum: f64, count: i64| if is_mean { sum / count as f64 } else { sum };
                let all = of.map(|(&sum, &count)| (count > 0).then(|| divided(sum, count)));
                Arc::new(all.collect::<Float64Array>())
            }
            States::Whole(sums, counts) => whole_sums(aggregate, result, sums, counts)?,
            States::Wide(sums, counts) => {
                const DIGITS: u32 = 76;
                let end = i256::from_i128(10).wrapping_pow(DIGITS);
                let of = sums.iter().zip(counts);
                let all = of.map(|(&sum, &count)| {
                    let is_held = sum < end && sum > end.wrapping_neg();
                    let held = is_held.then_some((count > 0).then_some(sum));
                    held.ok_or_else(|| overflow(aggregate, &notation(result)))
                });
                let all: Decimal256Array = all.collect::<Result<_>>()?;
                retyped_as(Arc::new(all), result)?
            }
            States::Picked(values) if aggregate.by.is_some() => {
                let values = values.iter().map(|state| &state[front_bytes(state)..]);
                picked(values, result, converter)?
            }
            States::Picked(values) => picked(values.iter().map(Vec::as_slice), result, converter)?,
            States::Quantile {
                part,
                counts,
                low,
                high,
            } => {
                let of = of.ok_or_else(cut_short)?;
                let low = picked(low.iter().map(Vec::as_slice), of, converter)?;
                if part.is_one_of {
                    return Ok(low);
                }
                let high = picked(high.iter().map(Vec::as_slice), of, converter)?;
                let shares = counts
                    .iter()
                    .map(|&count| (count > 0).then(|| part.place(count).1));
                between::quantiles(&low, &high, shares, result)?
            }
        })
    }
}

/// Whether a value replaces the current value, or is the first value.
fn is_picked(kind: AggregateKind, held: &[u8], found: &[u8]) -> bool {
    held.is_empty()
        || match kind {
            AggregateKind::Min => found < held,
            AggregateKind::Max => found > held,
            AggregateKind::First => false,
            AggregateKind::ArgMin => compared(found) < compared(held),
            AggregateKind::ArgMax => compared(found) > compared(held),
            _ => true,
        }
}

/// Bytes before the value in a state with two values: a length, and the compared value.
fn front_bytes(state: &[u8]) -> usize {
    let len_bytes = state.first_chunk().copied().map(u32::from_le_bytes);
    let front_bytes = len_bytes.map_or(0, |len_bytes| size_of::<u32>() + len_bytes as usize);
    front_bytes.min(state.len())
}

/// The compared value in a state with two values.
fn compared(state: &[u8]) -> &[u8] {
    state
        .get(size_of::<u32>()..front_bytes(state))
        .unwrap_or_default()
}

/// Takes the rows whose `by` precedes the `by` of the states. Returns by how much the states have
/// grown.
fn chosen(
    kind: AggregateKind,
    states: &mut [Vec<u8>],
    values: &Values,
    by: &Values,
    present: impl Iterator<Item = (usize, usize)>,
) -> usize {
    let (Some(of_rows), Some(by_rows)) = (&values.rows, &by.rows) else {
        return 0;
    };
    let nulls = by.array.logical_nulls();
    let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let (mut grown, mut found) = (0, Vec::new());
    for (row, group) in present.filter(|(row, _)| valid(*row)) {
        let (of, by) = (of_rows.row(row), by_rows.row(row));
        let state = &mut states[group];
        found.clear();
        found.extend_from_slice(&(by.data().len() as u32).to_le_bytes());
        found.extend_from_slice(by.data());
        if is_picked(kind, state, &found) {
            found.extend_from_slice(of.data());
            grown += found.len().saturating_sub(state.len());
            std::mem::swap(state, &mut found);
        }
    }
    grown
}

fn whole_sums(
    aggregate: &Aggregate,
    result: &DataType,
    sums: &[i128],
    counts: &[i64],
) -> Result<ArrayRef> {
    let of = || sums.iter().zip(counts);
    let too_large = || overflow(aggregate, &notation(result));
    Ok(match result {
        DataType::UInt64 => {
            let all = of().map(|(&sum, &count)| {
                let sum = u64::try_from(sum).map_err(|_| too_large())?;
                Ok((count > 0).then_some(sum))
            });
            Arc::new(all.collect::<Result<UInt64Array>>()?)
        }
        DataType::Decimal128(..) => {
            const DIGITS: u32 = 38;
            let end = 10_i128.pow(DIGITS);
            let all = of().map(|(&sum, &count)| {
                let is_held = sum < end && sum > -end;
                let held = is_held.then_some((count > 0).then_some(sum));
                held.ok_or_else(too_large)
            });
            retyped_as(Arc::new(all.collect::<Result<Decimal128Array>>()?), result)?
        }
        _ => {
            let all = of().map(|(&sum, &count)| {
                let sum = i64::try_from(sum).map_err(|_| too_large())?;
                Ok((count > 0).then_some(sum))
            });
            retyped_as(Arc::new(all.collect::<Result<Int64Array>>()?), result)?
        }
    })
}

/// Decodes values; null for empty bytes.
fn picked<'v>(
    values: impl Iterator<Item = &'v [u8]>,
    result: &DataType,
    converter: Option<&RowConverter>,
) -> Result<ArrayRef> {
    let converter = converter.ok_or_else(cut_short)?;
    let parser = converter.parser();
    let none = arrow_array::new_null_array(result, 1);
    let none = converter.convert_columns(&[none]);
    let none = none.map_err(|error| fault::arrow(GROUP, &error))?;
    let none = none.row(0);
    let rows = values.map(|bytes| match bytes.is_empty() {
        true => parser.parse(none.data()),
        false => parser.parse(bytes),
    });
    let columns = converter.convert_rows(rows);
    let mut columns = columns.map_err(|error| fault::arrow(GROUP, &error))?;
    columns.pop().ok_or_else(cut_short)
}

/// Converts to the nearest float.
fn wide_to_real(value: i256) -> f64 {
    value.to_i128().map_or_else(
        || {
            let (low, high) = value.to_parts();
            high as f64 * 2_f64.powi(128) + low as f64
        },
        |value| value as f64,
    )
}

fn overflow(aggregate: &Aggregate, result: &str) -> Error {
    let cause = format!("`{}` of a group does not fit in {result}", aggregate.name);
    Error::usage(GROUP, cause).hint("take the mean, or make the column a float first")
}

pub(super) fn cut_short() -> Error {
    Error::corrupt(GROUP, "a state is cut short").hint("a bug, or scratch was changed: run again")
}

/// Appends a varint: seven bits per byte, the lowest first; the high bit of the last byte is clear.
pub(super) fn put_varint(mut number: u128, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Result<u128> {
    let mut number = 0;
    for shift in (0..u128::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(cut_short)?;
        *bytes = rest;
        number |= u128::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(cut_short())
}

fn take_count(bytes: &mut &[u8]) -> Result<i64> {
    i64::try_from(take_varint(bytes)?).map_err(|_| cut_short())
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk().ok_or_else(cut_short)?;
    *bytes = rest;
    Ok(*array)
}
