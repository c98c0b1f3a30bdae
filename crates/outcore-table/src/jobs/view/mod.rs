//! Sorted views of tables: rows in the order of columns, in sorted runs that are merged as they are
//! read.
//!
//! Contract: a [`TableView`] is a [`SortedView`] whose rows have the form of [`RowCodec`]. Its
//! manifest has the schema and the columns of the order, so the view is self-contained. [`build`]
//! and [`append`] read a table once and write its rows once. A range of rows, by number or by key
//! ([`TableView::find`]), is read as record batches ([`batches`]) or written as a table
//! ([`write`]). Rows with equal keys come in the order of their bytes, so the result depends only
//! on the rows.
//!
//! Bounds: building takes a quarter of the memory for readers of the table, and the rest for the
//! runs. Reading takes two blocks of each run per thread, and the index. I/O of building: one read
//! of the table, one of the key columns for the sample, and one write of the rows, not compressed.
//! Reading a range reads only its blocks.

mod batches;
mod key;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use outcore::Job;
use outcore::key::sort_key::{SharedKey, Tie};
use outcore::runs::{BuildOptions, BuildSummary, RowType, SortedView, append_rows, build_rows};
use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use super::room::{Room, RowCosts, Sorts};
use super::rows_in::{RowKeys, RowsIn};
use super::sort::{KeyInFront, TableOrder, codec_of, open_alone};
use crate::fault;
use crate::input::{InputOptions, TableInput};
use crate::notation::notation;
use crate::rows::{KeyColumn, RowCodec};

pub use batches::{ViewBatches, ViewStream};

const OPEN: &str = "open view";
/// The name, in manifests, of the order by the key at the start of rows.
pub const ROW_ORDER: &str =
    "rows of a table, by the key in front, where zeros are equal and so are NaNs";

/// The order with that name.
pub fn row_order() -> SharedKey {
    Arc::new(KeyInFront { tie: Tie::Bytes })
}

/// An open view of a table. Clones share all its state.
#[derive(Clone)]
pub struct TableView {
    view: SortedView,
    keys: Arc<[KeyColumn]>,
    codec: Arc<RowCodec>,
}

/// The first line of the description of rows. The schema follows, as an Arrow stream without
/// batches.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    by: Vec<DescribedKey>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribedKey {
    column: String,
    descending: bool,
    nulls_first: bool,
}

impl TableView {
    /// Opens the table in the open view `view`.
    ///
    /// # Errors
    /// Usage: the view does not hold rows of a table. Corrupt: its description of the rows.
    pub fn of(view: SortedView) -> Result<Self> {
        let rows = rows_of(&view)?;
        let (schema, keys) = read_description(&rows.description)
            .ok_or_else(|| Error::corrupt(OPEN, "its description of the table cannot be read"))
            .map_err(|error| error.path(view.info().dir).hint("build the view again"))?;
        let codec = RowCodec::new(&schema, &keys)?;
        Ok(TableView {
            view,
            keys: keys.into(),
            codec: Arc::new(codec),
        })
    }

    /// The underlying view: its runs, their verification and its memory.
    pub fn sorted(&self) -> &SortedView {
        &self.view
    }

    /// The type of its rows.
    fn rows(&self) -> Result<&RowType> {
        rows_of(&self.view)
    }

    /// The table's schema.
    pub fn schema(&self) -> &SchemaRef {
        self.codec.schema()
    }

    /// The columns of the order.
    pub fn keys(&self) -> &[KeyColumn] {
        &self.keys
    }
}

fn rows_of(view: &SortedView) -> Result<&RowType> {
    let rows = view.what().rows();
    rows.ok_or_else(|| Error::usage(OPEN, "it holds no table").hint("a bug: please report it"))
}

/// Builds a view of a table, in the order of columns, in the existing directory `dir`.
///
/// # Errors
/// As [`TableInput::open`], [`RowCodec::new`] and [`build_rows`]. Usage: a stable order. On
/// failure, no file remains.
pub fn build(
    job: &Job,
    (inputs, reads): (&[PathBuf], &InputOptions),
    order: &TableOrder,
    dir: &Path,
    options: BuildOptions,
) -> Result<(TableView, BuildSummary)> {
    if order.is_stable {
        let cause = "a view of a table does not keep the input order of equal keys";
        return Err(Error::usage("build view", cause)
            .hint("leave --stable out, or order by one more column"));
    }
    let input = open_alone(job, inputs, reads)?;
    let keys = order.columns_of(input.schema());
    let codec = codec_of(&input, &keys)?;
    let rows = RowType {
        description: description_of(input.schema(), &keys)?.into(),
        order_name: ROW_ORDER.to_owned(),
        order: row_order(),
    };
    let room = |input: &TableInput| room_of(job, input, &codec);
    let built = source_of(job, &input, &codec)
        .and_then(|source| build_rows(job, &source, dir, rows, options));
    let (view, built) =
        built.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))?;
    Ok((TableView::of(view)?, with_reads(built, &input)))
}

/// Adds a table to the view in `dir`, which is open as `view`. The table must have the columns of
/// the view; further columns are ignored. Text columns are parsed in the types of the view.
///
/// # Errors
/// As [`build`]. Usage: a missing column, a column of another type, or a view that was rebuilt
/// since it was opened. On failure, the view is unchanged.
pub fn append(
    job: &Job,
    (inputs, reads): (&[PathBuf], &InputOptions),
    view: &TableView,
    dir: &Path,
    options: BuildOptions,
) -> Result<(TableView, BuildSummary)> {
    let first = inputs.first().map_or(dir, PathBuf::as_path);
    let fields = view.schema().fields().iter();
    let reads = InputOptions {
        columns: Some(fields.map(|field| field.name().clone()).collect()),
        text: reads
            .text
            .clone()
            .map(|text| text.with_types(view.schema())),
        ..reads.clone()
    };
    let input = open_alone(job, inputs, &reads)?;
    check_types(view.schema(), input.schema(), first)?;
    let rows = view.rows()?;
    let room = |input: &TableInput| room_of(job, input, &view.codec);
    let built = source_of(job, &input, &view.codec)
        .and_then(|source| append_rows(job, &source, dir, rows, options));
    let (view, built) =
        built.map_err(|error| Room::named(error, || Ok(room(&input.looked_through()?))))?;
    Ok((TableView::of(view)?, with_reads(built, &input)))
}

/// Fails for a column with values that rows of the view cannot hold, such as nulls in a column
/// without nulls.
fn check_types(ours: &Schema, theirs: &Schema, path: &Path) -> Result<()> {
    for field in ours.fields() {
        let Some((_, other)) = theirs.column_with_name(field.name()) else {
            continue;
        };
        let may_be_null = other.is_nullable() && !field.is_nullable();
        if may_be_null || !field.data_type().equals_datatype(other.data_type()) {
            let cause = match may_be_null {
                true => format!("column `{}` may be null, but not in the view", field.name()),
                false => format!(
                    "column `{}` is {}, but in the view it is {}",
                    field.name(),
                    notation(other.data_type()),
                    notation(field.data_type())
                ),
            };
            let hint = match may_be_null {
                true => "build a new view of the old and the new files: its column may be null",
                false => "give the column the view's type first, for example with `outcore map`",
            };
            return Err(Error::usage("add to view", cause).path(path).hint(hint));
        }
    }
    Ok(())
}

/// The rows of `input` with the keys of `codec`.
fn source_of<'a>(job: &Job, input: &'a TableInput, codec: &'a RowCodec) -> Result<RowsIn<'a>> {
    let (shape, _) = room_of(job, input, codec).shapes();
    job.control.begin_phase("sample", 0);
    RowsIn::open(input, codec, RowKeys::Columns, shape)
}

/// The room that runs of these rows need.
fn room_of<'a>(job: &'a Job, input: &TableInput, codec: &RowCodec) -> Room<'a> {
    let need = input.need();
    Room {
        job,
        need,
        written: None,
        costs: match need.long_bytes {
            0 => RowCosts::default(),
            long_bytes => RowCosts::of_columns(input, codec, long_bytes),
        },
        data_bytes: input.stored_bytes(),
        sorts: Sorts::Runs,
    }
}

/// Adds the bytes that were read from the table.
fn with_reads(mut built: BuildSummary, input: &TableInput) -> BuildSummary {
    built.read_bytes += input.read_bytes();
    if let Some(first) = built.phases.first_mut() {
        first.read_bytes += input.read_bytes();
    }
    built
}

fn description_of(schema: &SchemaRef, keys: &[KeyColumn]) -> Result<Vec<u8>> {
    let by = keys.iter().map(|key| DescribedKey {
        column: key.name.clone(),
        descending: key.is_descending,
        nulls_first: key.is_nulls_first,
    });
    let first = Description { by: by.collect() };
    let mut bytes = serde_json::to_vec(&first)
        .map_err(|error| Error::usage("build view", error.to_string()))?;
    bytes.push(b'\n');
    let failed = |error| fault::arrow("build view", &error);
    let mut writer = StreamWriter::try_new(&mut bytes, schema).map_err(failed)?;
    writer.finish().map_err(failed)?;
    drop(writer);
    Ok(bytes)
}

/// Parses the schema and the columns of the order from bytes that [`description_of`] wrote.
fn read_description(bytes: &[u8]) -> Option<(SchemaRef, Vec<KeyColumn>)> {
    let end = memchr::memchr(b'\n', bytes)?;
    let first: Description = serde_json::from_slice(&bytes[..end]).ok()?;
    let keys = first.by.into_iter().map(|key| KeyColumn {
        name: key.column,
        is_descending: key.descending,
        is_nulls_first: key.nulls_first,
        data_type: None,
    });
    let schema = fault::guarded(OPEN, || {
        let reader = StreamReader::try_new(&bytes[end + 1..], None);
        let reader = reader.map_err(|error| fault::arrow(OPEN, &error))?;
        Ok(reader.schema())
    });
    Some((schema.ok()?, keys.collect()))
}
