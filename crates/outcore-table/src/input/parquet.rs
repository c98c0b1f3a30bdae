//! One Parquet file: its footer, what each row group takes of the memory, and its batches.
//!
//! Contract: [`ParquetFile::open`] reads the footer and nothing else, and refuses encrypted files by name. A
//! row group is fetched whole, its columns side by side over the drive, where that fits into the reader's memory
//! beside a batch; where it does not, its columns are read page by page, a stretch of each at a time. How many
//! rows a batch has follows from what a row of the group takes, so that a batch stays within a quarter of the
//! memory. What is needed at least is known from the footer, and named before anything is read.
//!
//! What a page and a dictionary take is in no footer: [`PAGE_BYTES`] for each column is what writers leave by
//! default. A page whose compressed length is larger than a column may hold is an error of memory when it is met.
//! Checksums of pages are checked where a file has them. Rows are counted by row groups, whatever the footer says of the file.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use outcore_io::units;
use outcore_io::{Error, Kind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::file::metadata::{FileMetaData, PageIndexPolicy, ParquetMetaData, RowGroupMetaData};

use super::source::{DriveFile, Fetched, Refused, Whole, Windows};
use super::thrift;
use super::times;
use crate::fault::{self, guarded};

const READ: &str = "read Parquet file";
/// What a file begins and ends with.
const MAGIC: &[u8] = b"PAR1";
/// What to do with a file that does not.
pub(super) const NO_FOOTER: &str =
    "it was cut short, or is still being written: copy or write it again";
/// What an open page of a column takes, with its dictionary: writers' defaults are 1 MiB each.
const PAGE_BYTES: u64 = 2 << 20;
/// What Zstandard has for each column until the row group has been read (measured, version 1.5.7): tables and some literals,
const CONTEXT_BYTES: u64 = 32 << 10;
/// and where pages are longer than this, more literals, up to an end.
const SHORT_PAGE_BYTES: u64 = 16 << 10;
const LITERALS_BYTES: u64 = 64 << 10;
/// What is held of a column's compressed bytes at once, where it is read by stretches: a page and its header.
const STRETCH_BYTES: u64 = (1 << 20) + (64 << 10);
/// A batch, at most, where memory is plenty: an array of texts has less than 2 GiB, and some rows are longer than others.
const BATCH_BYTES_MAX: u64 = 128 << 20;
/// What the library says where they are that much longer.
const OVERFLOW: &str = "index overflow decoding byte array";
/// The magic at both ends, and the length of a footer.
const FILE_BYTES_MIN: u64 = 12;
/// Rows of a batch, where they are small.
pub(super) const BATCH_ROWS: u64 = 8192;

/// A file whose footer has been read.
pub(super) struct ParquetFile {
    file: Arc<DriveFile>,
    metadata: ArrowReaderMetadata,
}

/// What a row group takes to be read.
#[derive(Debug, Clone, Copy)]
struct Need {
    /// Of all columns, compressed.
    stored_bytes: u64,
    /// Pages that are open, one a column, and what decompresses them.
    pages_bytes: u64,
    /// The most of a column that is held at once, where it is read by stretches.
    windows_bytes: u64,
    /// A row in Arrow, on average.
    row_bytes: u64,
}

impl ParquetFile {
    /// Reads the footer of `file`.
    ///
    /// # Errors
    /// Corrupt: no footer, or a damaged one. Usage: an encrypted file, a type that Arrow has not.
    pub(super) fn open(file: DriveFile) -> Result<Self> {
        let file = Arc::new(file);
        let place = |error: Error| error.path(file.path());
        let load = || {
            let tail = file.read(file.len_bytes().saturating_sub(4), 4.min(file.len_bytes()))?;
            if tail.as_ref() == b"PARE" {
                return Err(encrypted());
            }
            if file.len_bytes() < FILE_BYTES_MIN || tail.as_ref() != MAGIC {
                let cause = format!(
                    "a Parquet file that ends without a footer, after {}",
                    units::bytes(file.len_bytes())
                );
                return Err(Error::corrupt(READ, cause).hint(NO_FOOTER));
            }
            let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
            let found = ArrowReaderMetadata::load(&*file, options.clone());
            let mut found = found.map_err(|error| said(&error))?;
            for group in found.metadata().row_groups() {
                check_group(group)?;
            }
            if let Some(metadata) = counted(found.metadata()) {
                let again = ArrowReaderMetadata::try_new(Arc::new(metadata), options.clone());
                found = again.map_err(|error| said(&error))?;
            }
            let timed = times::with_times(found.schema(), found.metadata().file_metadata());
            if let Some(schema) = timed {
                let again = ArrowReaderMetadata::try_new(
                    Arc::clone(found.metadata()),
                    options.with_schema(schema),
                );
                found = again.map_err(|error| said(&error))?;
            }
            Ok(found)
        };
        let explained = |error: Error| match error.kind() {
            Kind::Corrupt if is_encrypted(&file).unwrap_or(false) => encrypted(),
            _ => error,
        };
        let metadata = guarded(READ, load).map_err(|error| place(explained(error)))?;
        Ok(ParquetFile { file, metadata })
    }

    /// The same error, or that of encrypted data or of too much text, which look like damaged ones to the library.
    pub(super) fn explained(&self, error: Error) -> Error {
        if error.cause().contains(OVERFLOW) {
            let cause = "a batch of rows has more than 2 GiB of text in one column";
            return Error::usage(READ, cause)
                .hint("write the file again with this column as large_string, or give less --memory, so that batches are smaller")
                .path(self.file.path());
        }
        if error.kind() == Kind::Corrupt && is_encrypted(&self.file).unwrap_or(false) {
            return encrypted().path(self.file.path());
        }
        error
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    pub(super) fn metadata(&self) -> &ArrowReaderMetadata {
        &self.metadata
    }

    pub(super) fn file(&self) -> &Arc<DriveFile> {
        &self.file
    }

    pub(super) fn group(&self, index: usize) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(index)
    }

    /// The columns at the root that are read.
    fn mask(&self, columns: &[usize]) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied())
    }

    /// Compressed bytes of the root columns `columns` in a row group.
    pub(super) fn stored_bytes(&self, group: usize, columns: &[usize]) -> u64 {
        self.need(group, columns).stored_bytes
    }

    fn need(&self, group: usize, columns: &[usize]) -> Need {
        let mask = self.mask(columns);
        let group = self.group(group);
        let rows_count = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        let mut need = Need {
            stored_bytes: 0,
            pages_bytes: 0,
            windows_bytes: 0,
            row_bytes: 0,
        };
        let mut values_bytes = 0u64;
        for (leaf, column) in group.columns().iter().enumerate() {
            if !mask.leaf_included(leaf) {
                continue;
            }
            let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
            let (stored, opened) = (
                size(column.compressed_size()),
                size(column.uncompressed_size()),
            );
            let text = column.unencoded_byte_array_data_bytes().map_or(0, size);
            // An offset or a value, and a bit, each; text that repeats is in the dictionary once only.
            let fixed = size(column.num_values()).saturating_mul(17);
            need.stored_bytes = need.stored_bytes.saturating_add(stored);
            let context_bytes = match column.compression() {
                Compression::ZSTD(_) => {
                    let literals_bytes = opened.saturating_sub(SHORT_PAGE_BYTES);
                    CONTEXT_BYTES + literals_bytes.min(LITERALS_BYTES)
                }
                _ => 0,
            };
            let page_bytes = opened.min(PAGE_BYTES) + context_bytes;
            need.pages_bytes = need.pages_bytes.saturating_add(page_bytes);
            need.windows_bytes = need.windows_bytes.saturating_add(stored.min(STRETCH_BYTES));
            let values = fixed.saturating_add(text.max(opened));
            values_bytes = values_bytes.saturating_add(values);
        }
        need.row_bytes = values_bytes.div_ceil(rows_count).max(1);
        need
    }

    /// The least memory that a reader of this row group needs.
    pub(super) fn memory_min_bytes(&self, group: usize, columns: &[usize]) -> u64 {
        self.need(group, columns).least_bytes()
    }

    /// What a row group takes if it is fetched whole; nothing where it takes more than `memory_bytes` then.
    pub(super) fn whole(
        &self,
        group: usize,
        columns: &[usize],
        memory_bytes: u64,
    ) -> Option<Whole> {
        let need = self.need(group, columns);
        let batch_bytes = need.batch_rows(memory_bytes).saturating_mul(need.row_bytes);
        let beside_bytes = need.pages_bytes.saturating_add(batch_bytes);
        let whole_bytes = beside_bytes.saturating_add(need.stored_bytes);
        (whole_bytes <= memory_bytes).then(|| Whole {
            ranges: self.ranges(group, columns),
            beside_bytes,
        })
    }

    /// The batches of a row group, within `memory_bytes`: of what was fetched of it, or by stretches of its columns. Columns come
    /// in the file's own order.
    ///
    /// # Errors
    /// Memory: it takes more in any case. Corrupt. I/O.
    pub(super) fn read(
        &self,
        (group, columns): (usize, &[usize]),
        memory_bytes: u64,
        fetched: Option<Fetched>,
    ) -> Result<GroupReader> {
        let place = |error: Error| error.path(self.file.path());
        let need = self.need(group, columns);
        let refused = Refused::default();
        let reader = if let Some(fetched) = fetched {
            let batch_rows = need.batch_rows(memory_bytes);
            self.reader(fetched, group, columns, batch_rows as usize)
        } else {
            let held_bytes = need.pages_bytes.saturating_add(need.windows_bytes);
            let spare_bytes = memory_bytes.checked_sub(held_bytes);
            let spare_bytes = spare_bytes.filter(|&spare_bytes| spare_bytes >= need.row_bytes);
            let spare_bytes =
                spare_bytes.ok_or_else(|| place(need.too_much(group, memory_bytes)))?;
            // Half of what is left for longer stretches, in which there is room for larger pages.
            let held_bytes = (STRETCH_BYTES, spare_bytes / 2);
            let windows = Windows::new(
                &self.file,
                self.ranges(group, columns),
                held_bytes,
                &refused,
            );
            let batch_rows = need.batch_rows((2 * spare_bytes).min(memory_bytes));
            self.reader(windows, group, columns, batch_rows as usize)
        };
        let reader = reader.map_err(|error| place(took(&refused).unwrap_or(error)))?;
        Ok(GroupReader {
            group,
            reader,
            refused,
        })
    }

    fn reader(
        &self,
        chunks: impl parquet::file::reader::ChunkReader + 'static,
        group: usize,
        columns: &[usize],
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader> {
        guarded(READ, || {
            let metadata = self.metadata.clone();
            ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
                .with_row_groups(vec![group])
                .with_projection(self.mask(columns))
                .with_batch_size(batch_rows)
                .build()
                .map_err(|error| said(&error))
        })
    }

    fn ranges(&self, group: usize, columns: &[usize]) -> Vec<Range<u64>> {
        let mask = self.mask(columns);
        let chunks = self.group(group).columns().iter().enumerate();
        let chunks = chunks.filter(|(leaf, _)| mask.leaf_included(*leaf));
        chunks
            .map(|(_, column)| {
                let (start_bytes, len_bytes) = column.byte_range();
                start_bytes..start_bytes.saturating_add(len_bytes)
            })
            .collect()
    }
}

/// The batches of a row group.
pub(super) struct GroupReader {
    /// Its number, from 0.
    group: usize,
    reader: ParquetRecordBatchReader,
    refused: Refused,
}

impl GroupReader {
    /// The next batch.
    ///
    /// # Errors
    /// Corrupt; what the drive refused.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.reader.next().transpose();
        next.map_err(|error| took(&self.refused).unwrap_or_else(|| self.undecoded(&error)))
    }

    /// What the library says, and of which row group.
    fn undecoded(&self, error: &ArrowError) -> Error {
        let told = fault::arrow(READ, error);
        let cause = format!("row group {}: {}", self.group, told.cause());
        let placed = Error::new(told.kind(), READ, cause);
        match told.next_step() {
            Some(hint) => placed.hint(hint),
            None => placed,
        }
    }
}

fn took(refused: &Refused) -> Option<Error> {
    refused
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
}

impl Need {
    /// Rows of a batch in a reader with this much memory: as many as take a quarter of it.
    fn batch_rows(&self, memory_bytes: u64) -> u64 {
        let batch_bytes = (memory_bytes / 4).min(BATCH_BYTES_MAX);
        (batch_bytes / self.row_bytes).clamp(1, BATCH_ROWS)
    }

    fn least_bytes(&self) -> u64 {
        let held = self.pages_bytes.saturating_add(self.row_bytes);
        held.saturating_add(self.windows_bytes)
    }

    fn too_much(&self, group: usize, memory_bytes: u64) -> Error {
        let cause = format!(
            "row group {group} needs at least {} to be read, and there is {}",
            units::bytes(self.least_bytes()),
            units::bytes(memory_bytes)
        );
        Error::new(Kind::Memory, READ, cause)
            .hint("allow more with --memory, use fewer threads, or read fewer columns")
    }
}

/// The same metadata with as many rows as the row groups have, where the footer says another number, as old writers did: the
/// library reads no more rows at once than the footer says.
fn counted(metadata: &ParquetMetaData) -> Option<ParquetMetaData> {
    let groups = metadata.row_groups();
    let rows = groups.iter().map(RowGroupMetaData::num_rows);
    let rows_count = rows.fold(0_i64, i64::saturating_add);
    let file = metadata.file_metadata();
    if file.num_rows() == rows_count {
        return None;
    }
    let file = FileMetaData::new(
        file.version(),
        rows_count,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    Some(ParquetMetaData::new(file, groups.to_vec()))
}

/// Places and sizes that no file can have would be panics further on.
fn check_group(group: &RowGroupMetaData) -> Result<()> {
    let is_wrong = |sizes: &[i64]| sizes.iter().any(|&size| size < 0);
    for column in group.columns() {
        let start = column.dictionary_page_offset().unwrap_or(0);
        let sizes = [
            start,
            column.data_page_offset(),
            column.compressed_size(),
            column.uncompressed_size(),
            column.num_values(),
            group.num_rows(),
        ];
        if is_wrong(&sizes) {
            return Err(Error::corrupt(READ, "the footer gives a negative size")
                .hint("the file is damaged: copy or write it again"));
        }
    }
    Ok(())
}

/// Whether the footer says so.
fn is_encrypted(file: &DriveFile) -> Result<bool> {
    let tail_at = file.len_bytes().saturating_sub(8);
    let tail = file.read(tail_at, 8.min(file.len_bytes()))?;
    let Some(([l0, l1, l2, l3], magic)) = tail.split_first_chunk::<4>() else {
        return Ok(false);
    };
    let footer_bytes = u64::from(u32::from_le_bytes([*l0, *l1, *l2, *l3]));
    let footer_at = tail_at
        .checked_sub(footer_bytes)
        .filter(|_| magic == b"PAR1");
    match footer_at {
        Some(at_bytes) => Ok(thrift::is_encrypted(&file.read(at_bytes, footer_bytes)?)),
        None => Ok(false),
    }
}

fn encrypted() -> Error {
    Error::usage(READ, "the file is encrypted, which is not supported")
        .hint("decrypt it first, for example with pyarrow")
}

fn said(error: &parquet::errors::ParquetError) -> Error {
    fault::parquet(READ, error)
}
