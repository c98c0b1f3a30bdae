//! Whether a table is in order, and has the rows of another.
//!
//! Contract: [`verify`] reads a table once. It finds the first row that comes before the one in
//! front of it in the order of columns, counts rows whose keys are equal to those in front of them,
//! and adds up a checksum of all rows that does not depend on their order, nor on the columns that
//! order is looked for by: two tables with the same number of rows and the same checksum have the
//! same rows, but for chance (2^-128 each). Rows are compared by their values: dictionaries by what
//! their keys stand for, texts of any kind by their bytes, floats by their bits. Columns are
//! compared in the order of the first table.
//!
//! Bounds: one read; a reader and a batch of rows a thread, and two keys a row group.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_row::Rows;
use arrow_schema::{Field, Schema, SchemaRef};
use outcore::Job;
use outcore::sort::lines::rows::RowBatch;
use outcore_io::{Error, Result, threads};
use twox_hash::XxHash3_128;

use super::rows_in::{ROWS_AT_ONCE, parts_of};
use super::sort::read_shape;
use crate::equal::plain_type;
use crate::fault;
use crate::input::{InputOptions, PieceQueue, TableInput};
use crate::rows::{KeyColumn, RowCodec};
use crate::schema::{column_index, retyped};

const VERIFY: &str = "verify table";

/// What a table is like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableCheck {
    /// Its rows.
    pub rows: u64,
    /// The first row, from 0, that comes before the row in front of it.
    pub first_unordered: Option<u64>,
    /// Rows whose key is equal to that of the row in front of them.
    pub equal_keys: u64,
    /// Of all rows, whatever their order.
    pub checksum: u128,
    /// Bytes that were read.
    pub read_bytes: u64,
}

/// Looks at the table in `inputs`, in the order of `keys`, and compares its rows with those of the
/// table in `against`, if there is one: what both are like. No order is looked for where `keys` are
/// none.
///
/// # Errors
/// As [`TableInput::open`] and [`RowCodec::new`]; usage: tables of other columns.
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
            one.data_type(),
            other.data_type()
        );
        return Err(Error::usage(VERIFY, cause)
            .hint("convert one of them with outcore map, or leave the column out with --columns"));
    }
    let codecs = Codecs::of(&plain, keys)?;
    let other = check(job, &other, &codecs)?;
    Ok((found, Some(other)))
}

/// What makes keys of rows, and bytes that are the same for any key.
struct Codecs {
    order: RowCodec,
    rows: RowCodec,
}

impl Codecs {
    fn of(schema: &SchemaRef, keys: &[KeyColumn]) -> Result<Self> {
        Ok(Codecs {
            order: RowCodec::new(schema, keys)?,
            rows: RowCodec::new(schema, &[])?,
        })
    }
}

/// Columns as they are compared.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let data_type = plain_type(field.data_type());
        Field::new(field.name(), data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether equal values of two columns have the same bytes in a row.
fn is_alike(one: &Field, other: &Field) -> bool {
    let is_text = |field: &Field| field.data_type().is_string();
    one.data_type() == other.data_type() || is_text(one) && is_text(other)
}

/// What one piece is like.
#[derive(Default)]
struct Piece {
    /// Its first key and its last.
    ends: Option<(Vec<u8>, Vec<u8>)>,
    /// Within the piece.
    first_unordered: Option<u64>,
    equal_keys: u64,
    checksum: u128,
}

fn check(job: &Job, input: &TableInput, codecs: &Codecs) -> Result<TableCheck> {
    let shape = read_shape(job, input.need(), usize::MAX);
    let stored_bytes = input.pieces().iter().map(|piece| piece.stored_bytes).sum();
    job.control.begin_phase("verify", stored_bytes);
    let queue = PieceQueue::new(shape.readers_count);
    let work = |_thread: usize| -> Result<Vec<(usize, Piece)>> {
        let mut reader = input.reader(shape.reader_bytes)?;
        let (mut found, mut rows) = (Vec::new(), RowBatch::default());
        while let Some((number, piece)) = reader.take(&queue) {
            let mut seen = Piece::default();
            let mut row = 0;
            for batch in reader.open(piece)? {
                let batch = plain(&batch?, codecs.rows.schema())?;
                for part in parts_of(&batch, ROWS_AT_ONCE) {
                    job.control.check()?;
                    rows.clear();
                    codecs.rows.encode(&part, &mut rows)?;
                    seen.add(&rows, codecs.order.keys_of(&part)?.as_ref(), row);
                    row += part.num_rows() as u64;
                }
            }
            job.control.advance(piece.stored_bytes);
            found.push((number, seen));
        }
        Ok(found)
    };
    let parts = threads::together("outcore-table-verify", shape.readers_count, work)?;
    let mut parts: Vec<(usize, Piece)> = parts
        .into_iter()
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    parts.sort_by_key(|(number, _)| *number);
    input.check_unchanged()?;
    let mut whole = TableCheck {
        rows: input.rows_count(),
        read_bytes: input.read_bytes(),
        ..TableCheck::default()
    };
    let (mut first_row, mut last): (u64, Option<Vec<u8>>) = (0, None);
    for (number, piece) in parts {
        whole.checksum = whole.checksum.wrapping_add(piece.checksum);
        whole.equal_keys += piece.equal_keys;
        if let Some((first_key, last_key)) = piece.ends {
            if let Some(last) = &last {
                whole.equal_keys += u64::from(*last == first_key);
                if *last > first_key {
                    whole.first_unordered.get_or_insert(first_row);
                }
            }
            last = Some(last_key);
        }
        if let Some(row) = piece.first_unordered {
            whole.first_unordered.get_or_insert(first_row + row);
        }
        first_row += input.pieces()[number].rows_count;
    }
    Ok(whole)
}

/// The same rows as columns of plain types.
fn plain(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| retyped(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| fault::arrow(VERIFY, &error))
}

impl Piece {
    /// Adds rows with their keys, if there are any; the first of them is row `first` of the piece.
    fn add(&mut self, rows: &RowBatch, keys: Option<&Rows>, first: u64) {
        for (place, bytes) in rows.iter().enumerate() {
            self.checksum = self.checksum.wrapping_add(XxHash3_128::oneshot(bytes));
            let key = keys.map_or(&[][..], |keys| keys.row(place).data());
            let row = first + place as u64;
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
}
