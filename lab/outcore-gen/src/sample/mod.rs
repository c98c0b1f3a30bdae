//! Example tables: sales, logs of a web server, documents with near-duplicates.
//!
//! Contract: the rows of a [`Sample`] are a pure function of the seed, the total number of rows and
//! the row's own number, so any division into batches gives the same table. [`Sample::batch`]
//! returns columns. [`Sample::lines`] returns the same rows as lines of text, for the kinds that
//! are usually stored as text. Names, words and addresses are invented, and addresses are from the
//! ranges that RFC 5737 reserves for documentation.
//!
//! Bounds: tables of words and ranks, about 2 MB, and the current batch.

mod documents;
mod logs;
mod sales;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use outcore::{Error, Result};

use self::documents::Documents;
use self::logs::Logs;
use self::sales::Sales;

/// The earliest time in the tables: 2024-01-01, in microseconds since 1970.
const FROM_US: i64 = 1_704_067_200_000_000;
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// The sales of a shop: one row per line of an order.
    Sales,
    /// The log of a web server: one row per request.
    Logs,
    /// Pages of text, a fifth of which repeat others, nearly or exactly.
    Documents,
}

impl SampleKind {
    /// All of them.
    pub const ALL: [SampleKind; 3] = [SampleKind::Sales, SampleKind::Logs, SampleKind::Documents];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            SampleKind::Sales => "sales",
            SampleKind::Logs => "logs",
            SampleKind::Documents => "documents",
        }
    }

    /// Whether the rows are also available as lines of text: requests in the combined log format,
    /// and the plain text of documents.
    pub const fn has_lines(self) -> bool {
        matches!(self, SampleKind::Logs | SampleKind::Documents)
    }
}

impl fmt::Display for SampleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SampleKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = SampleKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            Error::usage("generate", format!("there is no table `{text}`"))
                .hint("choose sales, logs or documents")
        })
    }
}

/// A table with a given number of rows. See the module.
#[derive(Debug)]
pub struct Sample {
    rows: Rows,
    schema: SchemaRef,
}

#[derive(Debug)]
enum Rows {
    Sales(Sales),
    Logs(Logs),
    Documents(Documents),
}

impl Sample {
    /// The table with `rows_count` rows for a seed.
    ///
    /// # Errors
    /// None that is expected.
    pub fn new(kind: SampleKind, seed: u64, rows_count: u64) -> Result<Self> {
        let (rows, fields) = match kind {
            SampleKind::Sales => {
                let sales = Sales::new(seed, rows_count)?;
                (Rows::Sales(sales), sales::fields())
            }
            SampleKind::Logs => (Rows::Logs(Logs::new(seed)?), logs::fields()),
            SampleKind::Documents => {
                let documents = Documents::new(seed)?;
                (Rows::Documents(documents), documents::fields())
            }
        };
        Ok(Sample {
            rows,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Approximate bytes per row in memory.
    pub fn row_bytes(&self) -> u64 {
        match self.rows {
            Rows::Sales(_) => 120,
            Rows::Logs(_) => 250,
            Rows::Documents(_) => 1200,
        }
    }

    /// The rows with these numbers.
    ///
    /// # Errors
    /// None that is expected.
    pub fn batch(&self, numbers: Range<u64>) -> Result<RecordBatch> {
        let rows_count = (numbers.end - numbers.start) as usize;
        let columns = match &self.rows {
            Rows::Sales(sales) => sales.columns(numbers),
            Rows::Logs(logs) => logs.columns(numbers),
            Rows::Documents(documents) => documents.columns(numbers),
        };
        batch_of(&self.schema, columns, rows_count)
    }

    /// The schema of [`Sample::lines`]: one column of text.
    pub fn lines_schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8, false)]))
    }

    /// The same rows as lines of text, without line ends; `None` for a kind without lines.
    ///
    /// # Errors
    /// None that is expected.
    pub fn lines(&self, numbers: Range<u64>) -> Result<Option<RecordBatch>> {
        let rows_count = (numbers.end - numbers.start) as usize;
        let lines: StringArray = match &self.rows {
            Rows::Sales(_) => return Ok(None),
            Rows::Logs(logs) => logs.lines(numbers),
            Rows::Documents(documents) => documents.texts(numbers),
        };
        batch_of(&Sample::lines_schema(), vec![Arc::new(lines)], rows_count).map(Some)
    }
}

fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows_count: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    batch.map_err(|error| Error::usage("generate", error.to_string()))
}

/// A field of times.
fn time_field(name: &str) -> Field {
    Field::new(
        name,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        false,
    )
}
