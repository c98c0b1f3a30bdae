//! Encodes a row group of Parquet, column by column.
//!
//! Contract: [`Group::write`] encodes rows, and tracks what the columns hold. Compression has a
//! context for each column that has ended a page ([`super::pages`]). If memory does not hold the
//! contexts of all columns, [`Group::is_out_of_contexts`] says when the group must end.
//!
//! Bounds: the caller limits what the columns hold; in addition, a few bytes per column.

use arrow_array::RecordBatch;
use arrow_schema::Fields;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, compute_leaves};
use parquet::errors::Result;

use super::pages::{EARLY_COLUMNS_MAX, Pages};

/// See the module.
pub(super) struct Group {
    columns: Vec<ArrowColumnWriter>,
    /// For each column: what it held after the last batch, and whether it has compressed a page.
    seen: Vec<(usize, bool)>,
    pages: Pages,
    /// Bytes that all columns hold.
    pub(super) held_bytes: u64,
    pub(super) rows_count: usize,
    /// The number of its file.
    pub(super) file: usize,
}

impl Group {
    pub(super) fn new(columns: Vec<ArrowColumnWriter>, pages: Pages, file: usize) -> Self {
        Group {
            seen: vec![(0, false); columns.len()],
            columns,
            pages,
            held_bytes: 0,
            rows_count: 0,
            file,
        }
    }

    /// Appends the rows of `batch`, which has the columns `fields`.
    pub(super) fn write(&mut self, fields: &Fields, batch: &RecordBatch) -> Result<()> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in fields.iter().zip(batch.columns()) {
            let leaves = compute_leaves(field, array)?;
            for (leaf, column) in leaves.iter().zip(&mut columns) {
                column.write(leaf)?;
            }
        }
        self.rows_count += batch.num_rows();
        self.held_bytes = 0;
        for (column, (before_bytes, has_compressed)) in self.columns.iter().zip(&mut self.seen) {
            let now_bytes = column.memory_size();
            // A column holds less than before only if compression made a page shorter.
            *has_compressed |= now_bytes < *before_bytes;
            *before_bytes = now_bytes;
            self.held_bytes += now_bytes as u64;
        }
        Ok(())
    }

    /// Whether the memory is too small for the context of one more column that ends a page.
    pub(super) fn is_out_of_contexts(&self) -> bool {
        let compressed = self
            .seen
            .iter()
            .filter(|(_, has_compressed)| *has_compressed);
        self.pages.are_whole && compressed.count() >= EARLY_COLUMNS_MAX
    }

    /// Ends the columns.
    pub(super) fn close(self) -> Result<Vec<ArrowColumnChunk>> {
        self.columns
            .into_iter()
            .map(ArrowColumnWriter::close)
            .collect()
    }
}
