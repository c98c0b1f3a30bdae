//! Writes sorted rows to a table.
//!
//! Contract: [`RowsOut`] is the engine's [`RowSink`] over a [`TableOutput`]. A part of the rows is
//! a section of the output; the thread that sorts the part's buckets also decodes and encodes it. A
//! part has about the bytes of one row group. The number of parts is a multiple of the number of
//! threads, so that all threads end at about the same time.
//!
//! Bounds: the output holds the row groups that are being encoded; each thread also holds a decoded
//! batch.

use outcore::Forecast;
use outcore::sort::lines::rows::{PartsInOutput, RowBatch, RowPart, RowSink};
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Kind, Result, units};

use crate::fault;
use crate::output::{Section, TableOutput};
use crate::rows::RowCodec;

/// The most rows that are decoded at once.
pub(super) const ROWS_AT_ONCE: usize = 4096;
/// One row may take 1/`ROW_SHARE` of a writer's memory.
pub(super) const ROW_SHARE: u64 = 4;
/// About how much the rows of a row group shrink when they are encoded.
const SHRINK: u64 = 2;

/// Threads and memory for writing.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteShape {
    /// Threads that write.
    pub(super) writers_count: usize,
    /// The memory of the output.
    pub(super) output_bytes: u64,
    /// Approximate bytes of rows that are decoded at once.
    pub(super) batch_bytes: u64,
    /// Memory of a thread for the longest row, in addition to such a batch and its row group.
    pub(super) taken_bytes: u64,
    /// The encoded length of the longest row, if values are long; 0 otherwise.
    pub(super) longest_bytes: u64,
}

impl WriteShape {
    /// The most bytes of a row.
    pub(super) fn row_bytes_max(&self) -> u64 {
        let share_bytes = self.output_bytes / self.writers_count as u64;
        let least_bytes = self.batch_bytes.max(self.longest_bytes);
        least_bytes.max(share_bytes / ROW_SHARE)
    }

    /// Fails for a row that is too long.
    ///
    /// # Errors
    /// Memory.
    pub(super) fn check_row(&self, row: &[u8]) -> Result<()> {
        let row_bytes_max = self.row_bytes_max();
        let row_bytes = row.len() as u64;
        match row_bytes > row_bytes_max {
            true => Err(self.too_long(row_bytes)),
            false => Ok(()),
        }
    }

    /// The error for a row that is longer than expected.
    fn too_long(&self, row_bytes: u64) -> Error {
        let cause = format!(
            "a row takes {}; with this memory, a row may take at most {}",
            units::bytes(row_bytes),
            units::bytes(self.row_bytes_max())
        );
        // An output has at least a quarter of the memory.
        let enough = |writers_count: usize| {
            let share_bytes = row_bytes.min(1 << 50) * ROW_SHARE * writers_count as u64;
            units::bytes_exact((4 * share_bytes).next_multiple_of(64 << 20))
        };
        let alone = match self.writers_count {
            1 => String::new(),
            _ => format!(", or --threads 1 with {}", enough(1)),
        };
        let hint = format!(
            "use --memory {} or more{alone}; or leave the long column out",
            enough(self.writers_count)
        );
        Error::new(Kind::Memory, "write table", cause).hint(hint)
    }
}

/// See the module.
pub(super) struct RowsOut<'a> {
    output: &'a TableOutput,
    codec: &'a RowCodec,
    /// The indexes of the columns to write, if not all.
    columns: Option<&'a [usize]>,
    shape: WriteShape,
    part_bytes: u64,
    written: Forecast,
    /// Whether batches are the same for any division of the rows among calls.
    is_resumable: bool,
}

/// Bytes of the rows of a part, if all rows have about `data_bytes`, with an average of
/// `row_bytes`.
pub(super) fn part_bytes(
    output: &TableOutput,
    shape: WriteShape,
    (data_bytes, row_bytes): (u64, f64),
) -> u64 {
    let group_bytes = output.group_bytes().saturating_mul(SHRINK);
    let by_rows = (output.group_rows_max() as f64 * row_bytes) as u64;
    let wanted_bytes = group_bytes.min(by_rows).max(1);
    let parts = data_bytes.div_ceil(wanted_bytes).max(1);
    let parts = parts.next_multiple_of(shape.writers_count as u64);
    data_bytes.div_ceil(parts).max(1)
}

impl<'a> RowsOut<'a> {
    /// Creates a sink for about `data_bytes` of rows, with an average of `row_bytes`, that become a
    /// file of about this length.
    pub(super) fn new(
        output: &'a TableOutput,
        (codec, columns): (&'a RowCodec, Option<&'a [usize]>),
        shape: WriteShape,
        (amount, written): ((u64, f64), Forecast),
    ) -> Self {
        RowsOut {
            output,
            codec,
            columns,
            shape,
            part_bytes: part_bytes(output, shape, amount),
            written,
            is_resumable: false,
        }
    }

    /// If `is_resumable`, the written batches depend only on the rows of a part, as a job with a
    /// journal needs.
    pub(super) fn resumable(self, is_resumable: bool) -> Self {
        RowsOut {
            is_resumable,
            ..self
        }
    }
}

impl RowSink for RowsOut<'_> {
    fn memory_bytes(&self) -> u64 {
        // The engine holds the rows. This memory is for a batch of arrays, and its encoded form.
        let batches = 2 + u64::from(self.is_resumable);
        let taken_bytes = batches * self.shape.batch_bytes + self.shape.taken_bytes;
        self.shape.output_bytes + taken_bytes * self.shape.writers_count as u64
    }

    fn written_forecast(&self) -> Forecast {
        self.written
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        let section = self.output.section(number as u64, rows_before.unwrap_or(0));
        Ok(Box::new(TablePart {
            out: self,
            section,
            kept: RowBatch::default(),
        }))
    }

    fn staged(&self) -> Option<&StagedOutput> {
        self.output.staged()
    }

    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        self.output.sections_in_file()
    }

    fn give_up(&self) {
        self.output.give_up();
    }
}

/// A part, which is a section of the output.
struct TablePart<'a> {
    out: &'a RowsOut<'a>,
    section: Section<'a>,
    /// The rows of a batch that is not full.
    kept: RowBatch,
}

impl TablePart<'_> {
    fn write(&mut self, rows: &[&[u8]]) -> Result<()> {
        let batch = self.out.codec.decode(rows)?;
        match self.out.columns {
            None => self.section.write(&batch),
            Some(columns) => {
                let chosen = batch.project(columns);
                let chosen = chosen.map_err(|error| fault::arrow("choose columns", &error))?;
                self.section.write(&chosen)
            }
        }
    }
}

impl RowPart for TablePart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let kept = std::mem::take(&mut self.kept);
        let mut batch: Vec<&[u8]> = Vec::with_capacity(ROWS_AT_ONCE);
        let mut bytes = 0;
        for row in kept.iter().chain(rows.map(shortened)) {
            self.out.shape.check_row(row)?;
            let row_bytes = row.len() as u64;
            let is_full =
                batch.len() == ROWS_AT_ONCE || bytes + row_bytes > self.out.shape.batch_bytes;
            if is_full && !batch.is_empty() {
                self.write(&batch)?;
                batch.clear();
                bytes = 0;
            }
            batch.push(row);
            bytes += row_bytes;
        }
        // A longer row is a batch of its own, whatever follows.
        let is_kept = self.out.is_resumable && bytes <= self.out.shape.batch_bytes;
        match batch.is_empty() {
            true => Ok(()),
            false if is_kept => batch.iter().try_for_each(|row| self.kept.push(row)),
            false => self.write(&batch),
        }
    }

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            self.write(&kept.iter().collect::<Vec<_>>())?;
        }
        self.section.finish()
    }
}

/// Returns the row with a shorter lifetime.
fn shortened<'s, 'l: 's>(row: &'l [u8]) -> &'s [u8] {
    row
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use arrow_schema::{DataType, Field, Schema};
    use outcore::{IoMode, Job, JobOptions};

    use super::*;
    use crate::output::{OutputOptions, TableFormat, WriterShape};
    use crate::rows::KeyColumn;

    #[test]
    fn a_part_does_not_wait_for_one_that_never_began() {
        let dir = tempfile::tempdir().unwrap();
        let options = JobOptions {
            memory_bytes: 64 << 20,
            ..JobOptions::default()
        };
        let job = Job::new(options, IoMode::Auto);
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let writers = WriterShape {
            writers_count: 2,
            memory_bytes: 32 << 20,
            rows_count: None,
        };
        let writes = OutputOptions::new(TableFormat::Parquet);
        let path = dir.path().join("out.parquet");
        let output = TableOutput::create(&job, &[path], &schema, &writes, writers).unwrap();
        let codec = RowCodec::new(&schema, &[KeyColumn::new("a")]).unwrap();
        let shape = WriteShape {
            writers_count: 2,
            output_bytes: 32 << 20,
            batch_bytes: 1 << 20,
            taken_bytes: 0,
            longest_bytes: 0,
        };
        let amount = ((1000, 10.0), Forecast::Unknown);
        let sink = RowsOut::new(&output, (&codec, None), shape, amount);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| sink.begin(1, Some(10)).and_then(|part| part.finish()));
            // Either order is fine: the thread may be waiting already or not.
            std::thread::sleep(Duration::from_millis(10));
            sink.give_up();
            let until = Instant::now() + Duration::from_secs(60);
            while !second.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if !second.is_finished() {
                // Otherwise the scope would never end.
                job.control.cancel();
                panic!("it waits for ever");
            }
            let error = second.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), Kind::Interrupted);
        });
    }
}
