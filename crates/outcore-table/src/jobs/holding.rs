//! Finds the row numbers for which a condition is true, for callers that do not use Arrow.
//!
//! Contract: opening a [`RowsWhere`] reads no rows and gives their number. The rows that satisfy
//! the condition are known only after all rows have been read. Rows are numbered from 0 over all
//! files, in the order of the files' names.
//!
//! Bounds: a quarter of the memory, or more if the pieces need it; one read of the columns in the
//! condition.

use std::path::PathBuf;

use outcore::{Error, Job, Result};
use outcore_io::threads;

use super::sort::read_shape;
use crate::expr::Expr;
use crate::input::{InputOptions, PieceQueue, TableInput};

/// See the module.
pub struct RowsWhere {
    input: TableInput,
    condition: Expr,
}

impl RowsWhere {
    /// Opens the table in `paths` to find the rows for which `condition` is true.
    ///
    /// # Errors
    /// As [`TableInput::open`] and [`Expr::check`]. Usage: a condition without a column, or without
    /// truth values.
    pub fn open(job: &Job, paths: &[PathBuf], condition: &str) -> Result<Self> {
        let condition = Expr::parse(condition)?;
        let table = TableInput::open(job, paths, &InputOptions::default())?;
        condition.check(table.schema())?;
        let names: Vec<String> = condition
            .columns()
            .into_iter()
            .map(str::to_string)
            .collect();
        if names.is_empty() {
            let error = Error::usage("choose rows", "the condition names no column");
            return Err(
                error.hint("write a condition over the table's columns, such as year > 2000")
            );
        }
        let input = table.narrowed(&names, job)?;
        condition.holds(&arrow_array::RecordBatch::new_empty(input.schema().clone()))?;
        Ok(RowsWhere { input, condition })
    }

    /// The number of all rows, whether the condition is true or not.
    pub fn rows_count(&self) -> u64 {
        self.input.rows_count()
    }

    /// Passes the number of each row for which the condition is true to `take`, in no order, on all
    /// threads.
    ///
    /// # Errors
    /// Errors of reading and of [`Expr::holds`].
    pub fn each(&self, job: &Job, take: impl Fn(u64) + Sync) -> Result<()> {
        let shape = read_shape(job, self.input.need(), usize::MAX);
        let pieces = self.input.pieces();
        let mut firsts = vec![0];
        for piece in pieces {
            firsts.push(firsts.last().copied().unwrap_or(0) + piece.rows_count);
        }
        let stored_bytes = pieces.iter().map(|piece| piece.stored_bytes).sum();
        job.control.begin_phase("choose rows", stored_bytes);
        let queue = PieceQueue::new(shape.readers_count);
        let work = |_thread: usize| -> Result<()> {
            let mut reader = self.input.reader(shape.reader_bytes)?;
            while let Some((number, piece)) = reader.take(&queue) {
                let mut first = firsts[number];
                for batch in reader.open(piece)? {
                    job.control.check()?;
                    let batch = batch?;
                    let holds = self.condition.holds(&batch).map_err(|error| {
                        let first = first - firsts[number];
                        let holds = |row| self.condition.holds(&row).map(drop);
                        self.input.row_at_fault(piece, first, &batch, error, holds)
                    })?;
                    if first + batch.num_rows() as u64 > firsts[number + 1] {
                        let cause = "it has more rows than when it was opened";
                        return Err(Error::corrupt("choose rows", cause)
                            .hint("run it again once no program writes to the table"));
                    }
                    for row in holds.values().set_indices() {
                        take(first + row as u64);
                    }
                    first += batch.num_rows() as u64;
                }
                job.control.advance(piece.stored_bytes);
            }
            Ok(())
        };
        let done = threads::together("outcore-table-rows", shape.readers_count, work)?;
        done.into_iter().collect::<Result<Vec<()>>>()?;
        self.input.check_unchanged()
    }
}
