//! Merges ordered partial states of groups, and writes the results to a table.
//!
//! Contract: [`GroupSink`] takes the rows that [`super::source`] makes; each group's rows come in
//! one part. It merges the group's states in the order of the input, visits its ordered values, and
//! writes one row per group. A part is a section of the output ([`to`](super::to)).
//!
//! Bounds: the output's row groups, the states of a few thousand groups per thread, and the longest
//! values that the aggregates of these groups keep.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use outcore::Forecast;
use outcore::sort::lines::rows::{PartsInOutput, RowPart, RowSink};
use outcore_io::Result;
use outcore_io::output::StagedOutput;

use super::GROUP;
use super::plan::Plan;
use super::states::{States, cut_short};
use super::table::KeyTable;
use super::to::{GroupsPart, GroupsTo};
use crate::equal::plain_type;
use crate::fault;
use crate::jobs::rows_out::WriteShape;
use crate::output::Section;
use crate::rows::key_of;

/// The most groups that are written at once.
const GROUPS_AT_ONCE: usize = 4096;

/// See the module.
pub(super) struct GroupSink<'a> {
    pub(super) to: &'a dyn GroupsTo,
    pub(super) plan: &'a Plan,
    pub(super) shape: WriteShape,
    pub(super) part_bytes: u64,
}

impl<'a> GroupSink<'a> {
    fn part<'s>(&'s self, section: Box<dyn GroupsPart + 's>) -> GroupPart<'s> {
        GroupPart {
            sink: self,
            section,
            groups: KeyTable::default(),
            states: self.plan.states(),
            ordered: self
                .plan
                .values
                .iter()
                .map(|_| Ordered::default())
                .collect(),
            held_bytes: 0,
        }
    }

    /// Writes the group of all rows for an input without rows.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn write_empty(&self, section: Section<'a>) -> Result<()> {
        let mut part = self.part(Box::new(section));
        part.groups.push(&self.plan.key_of_all()?);
        part.states.iter_mut().for_each(|states| states.grow(1));
        Box::new(part).finish()
    }
}

impl RowSink for GroupSink<'_> {
    fn memory_bytes(&self) -> u64 {
        // States, and the arrays made from them.
        let taken_bytes = 4 * self.shape.batch_bytes + self.shape.taken_bytes;
        self.shape.output_bytes + taken_bytes * self.shape.writers_count as u64
    }

    fn written_forecast(&self) -> Forecast {
        Forecast::Unknown
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn keeps_keys_together(&self) -> bool {
        true
    }

    fn begin(&self, number: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(self.part(self.to.part(number))))
    }

    fn staged(&self) -> Option<&StagedOutput> {
        self.to.staged()
    }

    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        self.to.parts_in_output()
    }

    fn give_up(&self) {
        self.to.give_up();
    }
}

/// The state of the current group's ordered values of one column.
#[derive(Default)]
struct Ordered {
    seen: i64,
    last: Vec<u8>,
}

struct GroupPart<'a> {
    sink: &'a GroupSink<'a>,
    section: Box<dyn GroupsPart + 'a>,
    /// The keys of groups; the last group is still open.
    groups: KeyTable,
    states: Vec<States>,
    ordered: Vec<Ordered>,
    /// Bytes of all rows that were merged.
    held_bytes: usize,
}

impl GroupPart<'_> {
    fn add(&mut self, row: &[u8]) -> Result<()> {
        let key = key_of(row).ok_or_else(cut_short)?;
        let payload = &row[size_of::<u32>() + key.len()..];
        let count = self.groups.len();
        if count == 0 || self.groups.key(count - 1) != key {
            let is_full = self.held_bytes as u64 >= self.sink.shape.batch_bytes;
            if is_full || count == GROUPS_AT_ONCE {
                self.write()?;
            }
            self.groups.push(key);
            let count = self.groups.len();
            self.states.iter_mut().for_each(|states| states.grow(count));
            for ordered in &mut self.ordered {
                ordered.seen = 0;
                ordered.last.clear();
            }
        }
        self.held_bytes += row.len();
        let (tag, mut state) = payload.split_first_chunk().ok_or_else(cut_short)?;
        match u32::from_be_bytes(*tag) {
            0 => {
                state = state.get(size_of::<u64>()..).ok_or_else(cut_short)?;
                let group = self.groups.len() - 1;
                let aggregates = self.sink.plan.aggregates.iter();
                for (states, aggregate) in self.states.iter_mut().zip(aggregates) {
                    states.merge(aggregate, group, &mut state)?;
                }
                match state.is_empty() {
                    true => Ok(()),
                    false => Err(cut_short()),
                }
            }
            place => self.see(place as usize - 1, state),
        }
    }

    /// Visits a value with its number of occurrences.
    fn see(&mut self, place: usize, value: &[u8]) -> Result<()> {
        let (value, times) = value.split_last_chunk().ok_or_else(cut_short)?;
        let times = i64::try_from(u64::from_be_bytes(*times)).map_err(|_| cut_short())?;
        let group = self.groups.len() - 1;
        let ordered = self.ordered.get_mut(place).ok_or_else(cut_short)?;
        let is_new = ordered.seen == 0 || ordered.last != value;
        let seen = ordered.seen..ordered.seen + times;
        let plan = self.sink.plan;
        for (states, places) in self.states.iter_mut().zip(&plan.operands) {
            if places.of != Some(place) {
                continue;
            }
            match states {
                States::Distinct(counts) => counts[group] += i64::from(is_new),
                States::Quantile {
                    part,
                    counts,
                    low,
                    high,
                } => {
                    let (wanted, _) = part.place(counts[group]);
                    if seen.contains(&wanted) {
                        low[group] = value.to_vec();
                    }
                    if seen.contains(&(wanted + 1)) {
                        high[group] = value.to_vec();
                    }
                }
                _ => {}
            }
        }
        ordered.seen = seen.end;
        if is_new {
            ordered.last.clear();
            ordered.last.extend_from_slice(value);
        }
        Ok(())
    }

    /// Writes the results of all groups.
    fn write(&mut self) -> Result<()> {
        let plan = self.sink.plan;
        let batch = fault::guarded(GROUP, || {
            let parser = plan.key_converter.parser();
            let keys = (0..self.groups.len()).map(|group| parser.parse(self.groups.key(group)));
            let columns = plan.key_converter.convert_rows(keys);
            let mut columns = columns.map_err(|error| fault::arrow(GROUP, &error))?;
            // The key of all rows is not a column.
            columns.truncate(plan.keys.len());
            let aggregates = self
                .states
                .iter()
                .zip(plan.aggregates.iter().zip(&plan.operands));
            let fields = plan.schema.fields().iter().skip(columns.len());
            for ((states, (aggregate, places)), field) in aggregates.zip(fields) {
                let of = places.of.map(|of| &plan.values[of]);
                let plain = plain_type(field.data_type());
                let types = (of.map(|of| &of.data_type), &plain);
                let converter = of.and_then(|of| of.converter.as_ref());
                columns.push(states.finish(aggregate, types, converter)?);
            }
            let named = columns.iter().zip(plan.schema.fields());
            let columns = named.map(|(column, field)| as_read(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new(plan.schema.clone(), columns);
            batch.map_err(|error| fault::arrow(GROUP, &error))
        })?;
        self.section.write(&batch)?;
        self.groups.clear();
        self.states.iter_mut().for_each(States::clear);
        self.held_bytes = 0;
        Ok(())
    }
}

/// Encodes plain values as the dictionaries they were read from.
fn as_read(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(ArrayRef::clone(column));
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, data_type, &options).map_err(|error| fault::arrow(GROUP, &error))
}

impl RowPart for GroupPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        for row in rows {
            self.add(row)?;
        }
        Ok(())
    }

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.groups.len() > 0 {
            self.write()?;
        }
        self.section.finish()
    }
}
