//! Exchanges tables with other libraries, batch by batch.
//!
//! Contract: [`spool`] writes the batches of any reader to an Arrow file that the jobs can read.
//! [`TableBatches`] returns the batches of a table on disk one by one, and owns all that it needs.
//! Each gives the whole table or an error.
//!
//! Bounds: one batch of the reader, whose size the reader chooses, and the writer's buffers; for a
//! table, its largest decoded piece.

use std::collections::VecDeque;
use std::path::PathBuf;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use outcore::Job;
use outcore_io::{Error, Result};

use crate::fault;
use crate::input::{InputOptions, Piece, TableInput};
use crate::output::{OutputOptions, TableFormat, TableOutput, WriterShape};

const TAKE: &str = "take table";
/// Shorter pieces are read together.
const TOGETHER_BYTES: u64 = 1 << 20;

/// Writes all batches of `reader` to the Arrow file `path`, and returns the number of rows.
///
/// # Errors
/// An error of `reader`, as a usage error; I/O. On failure, no file remains.
pub fn spool(job: &Job, reader: &mut dyn RecordBatchReader, path: PathBuf) -> Result<u64> {
    let shape = WriterShape {
        writers_count: 1,
        memory_bytes: job.budget.free_bytes() / 2,
        rows_count: None,
    };
    let options = OutputOptions::new(TableFormat::ArrowFile);
    let output = TableOutput::create(job, &[path], &reader.schema(), &options, shape)?;
    job.control.begin_phase("take table", 0);
    let mut section = output.section(0, 0);
    let mut rows_count = 0;
    for batch in reader {
        job.control.check()?;
        let batch = batch.map_err(|error| {
            let told = error.to_string();
            let line = told
                .lines()
                .next()
                .unwrap_or("the library gives no reason")
                .to_owned();
            Error::usage(
                TAKE,
                format!("the library that holds the table failed: {line}"),
            )
            .hint("read the table without outcore to see what is wrong")
        })?;
        rows_count += batch.num_rows() as u64;
        section.write(&batch)?;
    }
    section.finish()?;
    output.publish()?;
    Ok(rows_count)
}

/// The batches of a table. See the module.
pub struct TableBatches {
    input: TableInput,
    memory_bytes: u64,
    next: usize,
    ready: VecDeque<RecordBatch>,
}

impl TableBatches {
    /// Opens the table in `paths`.
    ///
    /// # Errors
    /// As [`TableInput::open`].
    pub fn open(job: &Job, paths: &[PathBuf], reads: &InputOptions) -> Result<Self> {
        let input = TableInput::open(job, paths, reads)?;
        Ok(TableBatches {
            memory_bytes: job.budget.free_bytes(),
            input,
            next: 0,
            ready: VecDeque::new(),
        })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        while self.ready.is_empty() {
            let left = self.input.pieces().get(self.next..).unwrap_or(&[]);
            if left.is_empty() {
                return Ok(None);
            }
            let mut stored_bytes = 0;
            let is_near = |piece: &&Piece| {
                stored_bytes += piece.stored_bytes;
                stored_bytes <= TOGETHER_BYTES
            };
            let pieces = &left[..left.iter().take_while(is_near).count().max(1)];
            let mut reader = self.input.reader(self.memory_bytes)?;
            reader.expect(pieces.iter().copied());
            for &piece in pieces {
                for batch in reader.open(piece)? {
                    self.ready.push_back(batch?);
                }
            }
            self.next += pieces.len();
        }
        Ok(self.ready.pop_front())
    }
}

impl Iterator for TableBatches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = fault::guarded("read tables", || self.advance());
        if next.is_err() {
            self.next = usize::MAX;
        }
        next.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for TableBatches {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.input.schema())
    }
}
