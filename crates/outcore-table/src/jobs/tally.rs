//! The number and the checksum of the rows of a table, in any order.
//!
//! Contract: rows are compared by their values: [`plain`] gives columns the types of
//! [`plain_schema`], which leave out dictionaries and runs. A [`Tally`] sums the hashes of rows, on
//! any number of threads.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use outcore_io::Result;

use crate::equal::value_type;
use crate::fault;
use crate::rows::RowSums;
use crate::schema::retyped;

/// The operation of errors.
const COMPARE: &str = "compare rows";

/// The rows that were seen.
pub(super) struct Tally {
    pub(super) schema: SchemaRef,
    sums: RowSums,
    seen: Mutex<Seen>,
}

/// A number of rows, and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) rows: u64,
    pub(super) checksum: u128,
}

impl Tally {
    /// A tally of rows of this schema.
    ///
    /// # Errors
    /// As [`RowSums::new`].
    pub(super) fn of(schema: &SchemaRef) -> Result<Self> {
        let schema = plain_schema(schema);
        Ok(Tally {
            sums: RowSums::new(&schema)?,
            schema,
            seen: Mutex::default(),
        })
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows of the input; `hashes` is the caller's space.
    pub(super) fn add(&self, batch: &RecordBatch, hashes: &mut Vec<u64>) -> Result<()> {
        self.sums.hash(&plain(batch, &self.schema)?, hashes)?;
        let sum: u128 = hashes.iter().map(|hash| u128::from(*hash)).sum();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.rows += hashes.len() as u64;
        seen.checksum = seen.checksum.wrapping_add(sum);
        Ok(())
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

/// Converts the rows to columns of plain types.
pub(super) fn plain(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| retyped(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| fault::arrow(COMPARE, &error))
}
