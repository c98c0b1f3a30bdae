//! Checks that a table is sorted, and that it has the same rows as another.
//!
//! Contract: [`verify`] reads a table once. It finds the first row that is out of order by the key
//! columns, counts rows whose key equals that of the previous row, and computes a checksum of all
//! rows. The checksum depends neither on the order of the rows nor on the key columns. Two tables
//! with equal row counts and checksums, and with rows, have columns of the same names and types and
//! the same rows, except with a probability of 2^-64. Rows are compared by their values:
//! dictionaries and runs by their decoded values, texts and lists of all layouts by their contents,
//! floats by their bits. Columns are compared in the order of the first table.
//!
//! Bounds: one read; a reader, a batch of rows and a few keys per thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_row::Rows;
use arrow_schema::{Field, Schema, SchemaRef};
use outcore::Job;
use outcore_io::{Error, Result, threads};

use super::room::{Room, RowCosts, Sorts, arrays_times, as_key};
use super::rows_in::parts_of_lens;
use crate::equal::{value_notation, value_type};
use crate::fault;
use crate::input::{InputOptions, PieceQueue, TableInput};
use crate::rows::{KeyColumn, RowCodec, RowSums};
use crate::schema::{column_index, retyped};

const VERIFY: &str = "verify table";

/// The properties of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableCheck {
    /// The number of rows.
    pub rows: u64,
    /// The first row, from 0, that belongs before the previous row.
    pub first_unordered: Option<u64>,
    /// Rows whose key equals that of the previous row.
    pub equal_keys: u64,
    /// A checksum of all rows, independent of their order.
    pub checksum: u128,
    /// Bytes read.
    pub read_bytes: u64,
}

/// Checks that the table in `inputs` is in the order of `keys`, and compares its rows with those of
/// the table in `against`, if given. Returns the properties of both. If `keys` is empty, the order
/// is not checked.
///
/// # Errors
/// As [`TableInput::open`] and [`RowCodec::new`]. Usage: tables with different columns.
pub fn verify(
    job: &Job,
    (inputs, reads): (&[PathBuf], &InputOptions),
    keys: &[KeyColumn],
    against: Option<&[PathBuf]>,
) -> Result<(TableCheck, Option<TableCheck>)> {
    let input = TableInput::open(job, inputs, reads)?;
    let schema = plain_schema(input.schema());
    let codecs = Codecs::of(&schema, keys)?;
    let found = check(job, &input, &codecs)?;
    let Some(against) = against else {
        return Ok((found, None));
    };
    let other = TableInput::open(job, against, reads)?;
    let names = schema.fields().iter().map(|field| field.name().clone());
    let names: Vec<String> = names.collect();
    let is_missing = |field: &&Arc<Field>| !names.contains(field.name());
    if let Some(more) = other.schema().fields().iter().find(is_missing) {
        return Err(Error::usage(
            VERIFY,
            format!("only the second table has a column `{}`", more.name()),
        )
        .hint("compare the columns that both have: --columns"));
    }
    for name in &names {
        column_index(other.schema(), name, VERIFY)?;
    }
    let other = other.narrowed(&names, job)?;
    let plain = plain_schema(other.schema());
    let mut pairs = schema.fields().iter().zip(plain.fields());
    if let Some((one, other)) = pairs.find(|(one, other)| !is_alike(one, other)) {
        let cause = format!(
            "column `{}` is {} in one table and {} in the other",
            one.name(),
            value_notation(one.data_type()),
            value_notation(other.data_type())
        );
        return Err(Error::usage(VERIFY, cause)
            .hint("convert one of them with outcore map, or leave the column out with --columns"));
    }
    let codecs = Codecs::of(&plain, keys)?;
    let other = check(job, &other, &codecs)?;
    Ok((found, Some(other)))
}

/// The codec of the keys of rows, and the hashes of rows, which do not depend on the key.
struct Codecs {
    schema: SchemaRef,
    order: RowCodec,
    sums: RowSums,
}

impl Codecs {
    fn of(schema: &SchemaRef, keys: &[KeyColumn]) -> Result<Self> {
        Ok(Codecs {
            schema: Arc::clone(schema),
            order: RowCodec::new(schema, keys)?,
            sums: RowSums::new(schema)?,
        })
    }
}

/// The columns in the types in which they are compared.
pub(super) fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = value_type(field.data_type());
        Field::new(field.name(), data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether equal values of the two columns have equal hashes: their types differ at most in layout.
fn is_alike(one: &Field, other: &Field) -> bool {
    value_notation(one.data_type()) == value_notation(other.data_type())
}

/// The properties of the rows of one piece, or of several consecutive ones.
#[derive(Default)]
struct Stretch {
    rows: u64,
    /// Rows whose keys were checked.
    keys: u64,
    /// Its first and its last key.
    ends: Option<(Vec<u8>, Vec<u8>)>,
    /// Relative to its first row.
    first_unordered: Option<u64>,
    equal_keys: u64,
    checksum: u128,
}

/// Stretches by the number of their first piece, each with the number after its last piece.
/// Adjacent stretches are merged, so there are about as many as threads.
#[derive(Default)]
struct Stretches(BTreeMap<usize, (usize, Stretch)>);

impl Stretches {
    /// Adds the piece with this number.
    fn add(&mut self, number: usize, piece: Stretch) {
        let (mut first, mut end, mut whole) = (number, number + 1, piece);
        let before = self.0.range(..number).next_back();
        let before = before.filter(|(_, (end, _))| *end == number);
        if let Some((_, (_, mut before))) = before
            .map(|(first, _)| *first)
            .and_then(|first| self.0.remove_entry(&first))
            .inspect(|(known, _)| first = *known)
        {
            before.append(whole);
            whole = before;
        }
        if let Some((behind_end, behind)) = self.0.remove(&end) {
            whole.append(behind);
            end = behind_end;
        }
        self.0.insert(first, (end, whole));
    }

    /// Merges all of them.
    fn joined(self) -> Stretch {
        let mut whole = Stretch::default();
        for (_, stretch) in self.0.into_values() {
            whole.append(stretch);
        }
        whole
    }
}

/// The memory for all copies of the longest row: as bytes, as a key, and as the first and last key
/// of the piece and of the stretches of all threads.
fn costs(input: &TableInput, codecs: &Codecs) -> RowCosts {
    let long_bytes = input.need().long_bytes;
    if long_bytes == 0 {
        return RowCosts::default();
    }
    let key_bytes = as_key(input.long_bytes_of(&codecs.order.key_names()));
    let arrays_bytes = (arrays_times(input.schema()) - 1).saturating_mul(long_bytes);
    let keys_bytes = key_bytes.saturating_mul(5);
    RowCosts {
        made_bytes: long_bytes
            .saturating_add(keys_bytes)
            .saturating_add(arrays_bytes),
        ..RowCosts::default()
    }
}

fn check(job: &Job, input: &TableInput, codecs: &Codecs) -> Result<TableCheck> {
    let room = |input: &TableInput| Room {
        job,
        need: input.need(),
        written: None,
        costs: costs(input, codecs),
        data_bytes: 0,
        sorts: Sorts::Nothing,
    };
    let done = check_in(job, input, codecs, &room(input));
    done.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))
}

fn check_in(job: &Job, input: &TableInput, codecs: &Codecs, room: &Room<'_>) -> Result<TableCheck> {
    let (shape, _) = room.shapes();
    let made_bytes = shape.made_bytes * shape.readers_count as u64;
    let _made = job.budget.reserve("rows being verified", made_bytes)?;
    let stored_bytes = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
    job.control.begin_phase("verify", stored_bytes);
    let queue = PieceQueue::new(shape.readers_count);
    let stretches = Mutex::new(Stretches::default());
    let work = |_thread: usize| -> Result<()> {
        let mut reader = input.reader(shape.reader_bytes)?;
        let mut hashes = Vec::new();
        while let Some((number, piece)) = reader.take(&queue) {
            let mut seen = Stretch::default();
            for batch in reader.open(piece)? {
                job.control.check()?;
                let batch = plain(&batch?, &codecs.schema)?;
                codecs.sums.hash(&batch, &mut hashes)?;
                seen.add_hashes(&hashes);
                if codecs.order.key_names().is_empty() {
                    continue;
                }
                let lens_bytes = codecs.order.measure(&batch)?;
                for part in parts_of_lens(&batch, &lens_bytes, shape.batch_bytes) {
                    job.control.check()?;
                    if let Some(keys) = codecs.order.keys_of(&part)? {
                        seen.add_keys(&keys);
                    }
                }
            }
            job.control.advance(piece.stored_bytes);
            let mut stretches = stretches.lock().unwrap_or_else(PoisonError::into_inner);
            stretches.add(number, seen);
        }
        Ok(())
    };
    let done = threads::together("outcore-table-verify", shape.readers_count, work)?;
    done.into_iter().collect::<Result<Vec<()>>>()?;
    input.check_unchanged()?;
    let stretches = stretches.into_inner();
    let whole = stretches.unwrap_or_else(PoisonError::into_inner).joined();
    Ok(TableCheck {
        rows: input.rows_count(),
        first_unordered: whole.first_unordered,
        equal_keys: whole.equal_keys,
        checksum: whole.checksum,
        read_bytes: input.read_bytes(),
    })
}

/// Converts the rows to columns of plain types.
pub(super) fn plain(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| retyped(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| fault::arrow(VERIFY, &error))
}

impl Stretch {
    /// Adds rows by their hashes.
    fn add_hashes(&mut self, hashes: &[u64]) {
        let sum: u128 = hashes.iter().map(|hash| u128::from(*hash)).sum();
        self.checksum = self.checksum.wrapping_add(sum);
        self.rows += hashes.len() as u64;
    }

    /// Checks the keys of rows, in their order.
    fn add_keys(&mut self, keys: &Rows) {
        for key in keys.iter() {
            let key = key.data();
            let row = self.keys;
            self.keys += 1;
            let Some((_, last)) = &mut self.ends else {
                self.ends = Some((key.to_vec(), key.to_vec()));
                continue;
            };
            self.equal_keys += u64::from(&last[..] == key);
            if &last[..] > key {
                self.first_unordered.get_or_insert(row);
            }
            last.clear();
            last.extend_from_slice(key);
        }
    }

    /// Appends the adjacent rows after it.
    fn append(&mut self, behind: Stretch) {
        self.checksum = self.checksum.wrapping_add(behind.checksum);
        self.equal_keys += behind.equal_keys;
        if let (Some((_, last)), Some((first, _))) = (&self.ends, &behind.ends) {
            self.equal_keys += u64::from(last == first);
            if last > first {
                self.first_unordered.get_or_insert(self.rows);
            }
        }
        if let Some(row) = behind.first_unordered {
            self.first_unordered.get_or_insert(self.rows + row);
        }
        self.ends = match (self.ends.take(), behind.ends) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (one, other) => one.or(other),
        };
        self.rows += behind.rows;
        self.keys += behind.keys;
    }
}
