//! A row group of Parquet that is being encoded, column by column.
//!
//! Contract: [`Group::write`] encodes rows and looks at what the columns hold then. Compression has
//! a context for each column that has ended a page ([`super::pages`]); where there is no memory for
//! those of all columns, [`Group::is_out_of_contexts`] says when the group must end.
//!
//! Bounds: what the columns hold is the caller's to limit, and a few bytes a column.

use arrow_array::RecordBatch;
use arrow_schema::Fields;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, compute_leaves};
use parquet::errors::Result;

use super::pages::{EARLY_COLUMNS_MAX, Pages};

/// See the module.
pub(super) struct Group {
    columns: Vec<ArrowColumnWriter>,
    /// What each of them held after the last batch, and whether it has compressed a page.
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
            // Only a page that became shorter takes away of what a column holds.
            *has_compressed |= now_bytes < *before_bytes;
            *before_bytes = now_bytes;
            self.held_bytes += now_bytes as u64;
        }
        Ok(())
    }

    /// Whether another column that ends a page would need a context that there is no memory for.
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
