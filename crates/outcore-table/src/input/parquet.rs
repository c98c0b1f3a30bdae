//! One Parquet file: its footer, the memory need of each row group, and its batches.
//!
//! Contract: [`ParquetFile::open`] reads only the footer, and rejects encrypted files with a
//! specific error. If a row group and a batch fit into the reader's memory, the group is fetched
//! whole, with all columns in parallel. Otherwise each column is read in stretches, page by page.
//! The number of rows per batch is chosen from the average row size of the group, so that a batch
//! stays within a quarter of the memory. If rows repeat the values of a dictionary, the dictionary
//! is read for this estimate. The least memory need is reported before anything is read.
//!
//! Footers do not state the size of a page or a dictionary. Page headers do, and some of them are
//! read first ([`page_sizes`]). A page that turns out to be larger gives a memory error when it is
//! read; the error says how much memory all pages of the file need. Page checksums are verified if
//! the file has them. Row counts come from the row groups, not from the file's total in the footer.
//!
//! [`page_sizes`]: super::page_sizes

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::column::page::{Page, PageReader as _};
use parquet::file::metadata::{FileMetaData, PageIndexPolicy, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::need::InputNeed;
use super::page_sizes::{PAGE_BYTES, PageSizes};
use super::source::{DriveFile, Fetched, Refused, Whole, Windows};
use super::thrift;
use super::times;
use crate::fault::{self, guarded};

const READ: &str = "read Parquet file";
/// The magic at both ends of a file.
const MAGIC: &[u8] = b"PAR1";
/// The hint for a file without the magic.
pub(super) const NO_FOOTER: &str =
    "it was cut short, or is still being written: copy or write it again";
/// Memory for a column in the library's schema and in Arrow's.
const FIELD_BYTES: u64 = 1 << 10;
/// Zstandard's memory per column until the row group has been read, as measured for version 1.5.7:
/// tables and some literals.
const CONTEXT_BYTES: u64 = 32 << 10;
/// Pages longer than this need more memory for literals, up to a limit.
const SHORT_PAGE_BYTES: u64 = 16 << 10;
const LITERALS_BYTES: u64 = 64 << 10;
/// The compressed bytes that are held per column when it is read in stretches: a page and its
/// header.
const STRETCH_BYTES: u64 = (1 << 20) + (64 << 10);
/// The largest batch, even with ample memory. An array of texts holds less than 2 GiB, and some
/// rows are longer than others.
const BATCH_BYTES_MAX: u64 = 128 << 20;
/// The library's message for an array of texts that is too long.
const OVERFLOW: &str = "index overflow decoding byte array";
/// The magic at both ends, and the length of a footer.
const FILE_BYTES_MIN: u64 = 12;
/// Rows of a batch, if they are small.
pub(super) const BATCH_ROWS: u64 = 8192;

/// A file whose footer has been read.
pub(super) struct ParquetFile {
    file: Arc<DriveFile>,
    metadata: ArrowReaderMetadata,
    /// Columns of row groups with unusual pages, by row group and leaf.
    unusual: HashMap<(usize, usize), PageSizes>,
}

/// The memory need of a row group.
#[derive(Debug, Clone, Copy)]
struct Need {
    /// Compressed bytes of all columns.
    stored_bytes: u64,
    /// Open pages, one per column, with their decompressors.
    pages_bytes: u64,
    /// The stretch of each column, if it is read in stretches, and the memory that a long page
    /// needs briefly.
    windows_bytes: u64,
    /// Memory of a long page that is decompressed while the previous one is still held.
    moment_bytes: u64,
    /// The average size of a row in Arrow.
    row_bytes: u64,
    /// A bound on the longest value, if it may be longer than a usual page.
    value_bytes: u64,
    /// A bound on a row with long values; 0 if there are none.
    long_bytes: u64,
}

impl ParquetFile {
    /// Reads the footer of `file`.
    ///
    /// # Errors
    /// Corrupt: no footer, or a damaged one. Usage: an encrypted file, a type that Arrow lacks.
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
                    "the Parquet file ends without a footer, after {}",
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
        let mut opened = ParquetFile {
            file,
            metadata,
            unusual: HashMap::new(),
        };
        opened.unusual = opened.unusual_pages(false)?;
        Ok(opened)
    }

    /// Returns the same file with the page sizes from all headers.
    pub(super) fn looked_through(&self) -> Result<Self> {
        Ok(ParquetFile {
            file: Arc::clone(&self.file),
            metadata: self.metadata.clone(),
            unusual: self.unusual_pages(true)?,
        })
    }

    /// Reads page sizes from headers. It starts with the largest row group of each column, and
    /// continues with the others if pages there are unusual.
    fn unusual_pages(&self, is_exact: bool) -> Result<HashMap<(usize, usize), PageSizes>> {
        let mut unusual = HashMap::new();
        let groups = self.metadata.metadata().row_groups();
        let leaves_count = groups.first().map_or(0, |group| group.columns().len());
        let opened_bytes = |group: usize, leaf: usize| {
            let column = groups[group].columns().get(leaf);
            column.map_or(0, |column| column.uncompressed_size())
        };
        let mut transfers = None;
        for leaf in 0..leaves_count {
            let Some(largest) = (0..groups.len()).max_by_key(|&group| opened_bytes(group, leaf))
            else {
                continue;
            };
            let others = (0..groups.len()).filter(|&group| group != largest);
            for group in [largest].into_iter().chain(others) {
                if opened_bytes(group, leaf) <= PAGE_BYTES as i64 {
                    continue;
                }
                let transfers = match &mut transfers {
                    Some(transfers) => transfers,
                    none => none.insert(RefCell::new(self.file.queue()?)),
                };
                let column = groups[group].column(leaf);
                let sizes = PageSizes::of(column, is_exact, |range| {
                    let end = range.end.min(self.file.len_bytes());
                    let range = range.start.min(end)..end;
                    let transfers = &mut *transfers.borrow_mut();
                    self.file.read_with(transfers, &range, || Ok(()))
                })?;
                let is_usual = sizes.held_bytes() <= PAGE_BYTES && sizes.long_bytes == 0;
                if !is_usual || is_exact {
                    unusual.insert((group, leaf), sizes);
                } else if group == largest {
                    break;
                }
            }
        }
        Ok(unusual)
    }

    /// An error for a page that was not inspected before, with the memory that all pages of the
    /// file need.
    fn unexpectedly_long(&self, error: Error) -> Error {
        let Ok(known) = self.looked_through() else {
            return error;
        };
        let columns: Vec<usize> = (0..self.schema().fields().len()).collect();
        let groups = 0..self.metadata.metadata().num_row_groups();
        let needs = groups.map(|group| known.need(group, &columns));
        let all = needs.fold(InputNeed::default(), |all, need| InputNeed {
            piece_bytes: all.piece_bytes.max(need.least_bytes()),
            long_bytes: all.long_bytes.max(need.long_bytes),
        });
        error.hint(all.hint())
    }

    /// The pages of a column in a row group.
    fn pages(&self, group: usize, leaf: usize) -> PageSizes {
        let known = self.unusual.get(&(group, leaf)).copied();
        known.unwrap_or_else(|| PageSizes::usual(self.group(group).column(leaf)))
    }

    /// Replaces the error if encrypted data or too much text caused it; the library reports both as
    /// damage.
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
        if error.kind() == Kind::Memory {
            return self.unexpectedly_long(error);
        }
        error
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Memory for the footer and the schema.
    pub(super) fn held_bytes(&self) -> u64 {
        let footer_bytes = self.metadata.metadata().memory_size() as u64;
        let fields = self.metadata.parquet_schema().num_columns() as u64;
        footer_bytes + FIELD_BYTES * fields
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

    /// Selects root columns.
    fn mask(&self, columns: &[usize]) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), columns.iter().copied())
    }

    /// Compressed bytes of the root columns `columns` in a row group.
    pub(super) fn stored_bytes(&self, group: usize, columns: &[usize]) -> u64 {
        self.need(group, columns).stored_bytes
    }

    fn need(&self, number: usize, columns: &[usize]) -> Need {
        let mask = self.mask(columns);
        let group = self.group(number);
        let rows_count = u64::try_from(group.num_rows()).unwrap_or(0).max(1);
        let mut need = Need {
            stored_bytes: 0,
            pages_bytes: 0,
            windows_bytes: 0,
            moment_bytes: 0,
            row_bytes: 0,
            value_bytes: 0,
            long_bytes: 0,
        };
        let (mut values_bytes, mut stored_page_bytes) = (0u64, 0u64);
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
            // Each value has an offset or a number, and a bit. Repeated text counts once, in the
            // dictionary.
            let fixed = size(column.num_values()).saturating_mul(17);
            need.stored_bytes = need.stored_bytes.saturating_add(stored);
            let context_bytes = match column.compression() {
                Compression::ZSTD(_) => {
                    let literals_bytes = opened.saturating_sub(SHORT_PAGE_BYTES);
                    CONTEXT_BYTES + literals_bytes.min(LITERALS_BYTES)
                }
                _ => 0,
            };
            let pages = self.pages(number, leaf);
            let page_bytes = pages.held_bytes().saturating_add(context_bytes);
            need.pages_bytes = need.pages_bytes.saturating_add(page_bytes);
            need.windows_bytes = need.windows_bytes.saturating_add(stored.min(STRETCH_BYTES));
            // While a long page is decompressed, its stored form and the previous page are also
            // held.
            if pages.stored_bytes.max(pages.opened_bytes) > PAGE_BYTES {
                let next_bytes = if pages.is_single {
                    0
                } else {
                    pages.opened_bytes
                };
                need.moment_bytes = need.moment_bytes.max(next_bytes);
                stored_page_bytes = stored_page_bytes.max(pages.stored_bytes);
            }
            if column.column_descr().physical_type() == PhysicalType::BYTE_ARRAY {
                need.value_bytes = need.value_bytes.max(pages.value_bytes_max());
                need.long_bytes = need.long_bytes.saturating_add(pages.long_bytes);
            }
            let values = fixed.saturating_add(text.max(opened));
            values_bytes = values_bytes.saturating_add(values);
        }
        need.windows_bytes = need
            .windows_bytes
            .saturating_add(stored_page_bytes)
            .saturating_add(need.moment_bytes);
        need.row_bytes = values_bytes.div_ceil(rows_count).max(1);
        need
    }

    /// A bound on a row of this row group with long values; 0 if there are none.
    pub(super) fn long_bytes(&self, group: usize, columns: &[usize]) -> u64 {
        self.need(group, columns).long_bytes
    }

    /// The least memory that a reader of this row group needs.
    pub(super) fn memory_min_bytes(&self, group: usize, columns: &[usize]) -> u64 {
        self.need(group, columns).least_bytes()
    }

    /// The ranges and memory of a row group that is fetched whole; `None` if that needs more than
    /// `memory_bytes`.
    pub(super) fn whole(
        &self,
        group: usize,
        columns: &[usize],
        memory_bytes: u64,
    ) -> Option<Whole> {
        let need = self.need(group, columns);
        let batch_bytes = need.batch_rows(memory_bytes).saturating_mul(need.row_bytes);
        let batch_bytes = batch_bytes.max(need.value_bytes);
        let held_bytes = need.pages_bytes.saturating_add(need.moment_bytes);
        let beside_bytes = held_bytes.saturating_add(batch_bytes);
        let whole_bytes = beside_bytes.saturating_add(need.stored_bytes);
        (whole_bytes <= memory_bytes).then(|| Whole {
            ranges: self.ranges(group, columns),
            beside_bytes,
        })
    }

    /// Reads the batches of a row group within `memory_bytes`, from its fetched bytes or in
    /// stretches of its columns. Columns come in the file's own order.
    ///
    /// # Errors
    /// Memory: it needs more in either case. Corrupt. I/O.
    pub(super) fn read(
        &self,
        group: usize,
        columns: &[usize],
        memory_bytes: u64,
        fetched: Option<Fetched>,
    ) -> Result<GroupReader> {
        let place = |error: Error| error.path(self.file.path());
        let need = self.need(group, columns);
        let refused = Refused::default();
        let reader = if let Some(fetched) = fetched {
            let batch_rows = need.batch_rows(memory_bytes);
            self.reader(fetched, group, columns, batch_rows, memory_bytes / 4)
        } else {
            let held_bytes = need.pages_bytes.saturating_add(need.windows_bytes);
            let spare_bytes = memory_bytes.checked_sub(held_bytes);
            let batch_bytes = need.row_bytes.max(need.value_bytes);
            let spare_bytes = spare_bytes.filter(|&spare_bytes| spare_bytes >= batch_bytes);
            let spare_bytes =
                spare_bytes.ok_or_else(|| place(need.too_much(group, memory_bytes)))?;
            // Half of the rest makes stretches longer, so that larger pages fit. Known large pages
            // are already counted.
            let shared_bytes = need.windows_bytes.max(spare_bytes / 2);
            let windows = Windows::new(
                &self.file,
                self.ranges(group, columns),
                STRETCH_BYTES,
                shared_bytes,
                &refused,
            );
            let room_bytes = (2 * spare_bytes).min(memory_bytes);
            let batch_rows = need.batch_rows(room_bytes);
            self.reader(windows, group, columns, batch_rows, room_bytes / 4)
        };
        let reader = reader.map_err(|error| place(took(&refused).unwrap_or(error)))?;
        Ok(GroupReader {
            group,
            reader,
            refused,
        })
    }

    /// Creates a reader of batches of `batch_rows` rows, or of fewer if values of dictionaries
    /// would make them longer than `batch_bytes`.
    fn reader(
        &self,
        chunks: impl ChunkReader + 'static,
        group: usize,
        columns: &[usize],
        batch_rows: u64,
        batch_bytes: u64,
    ) -> Result<ParquetRecordBatchReader> {
        guarded(READ, || {
            let metadata = self.metadata.clone();
            let chunks = SharedChunks(Arc::new(chunks));
            let batch_bytes = batch_bytes.min(BATCH_BYTES_MAX);
            let longest_bytes =
                self.dictionary_values(&chunks, group, columns, batch_bytes / batch_rows)?;
            let batch_rows = match longest_bytes {
                0 => batch_rows,
                longest_bytes => (batch_bytes / longest_bytes).clamp(1, batch_rows),
            };
            ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata)
                .with_row_groups(vec![group])
                .with_projection(self.mask(columns))
                .with_batch_size(batch_rows as usize)
                .build()
                .map_err(|error| said(&error))
        })
    }

    /// The sum over columns of the longest value in dictionaries of more than `dictionary_bytes`.
    /// Rows can repeat these values.
    fn dictionary_values<R: ChunkReader + 'static>(
        &self,
        chunks: &SharedChunks<R>,
        number: usize,
        columns: &[usize],
        dictionary_bytes: u64,
    ) -> Result<u64> {
        let mask = self.mask(columns);
        let group = self.group(number);
        let mut longest_bytes = 0u64;
        for (leaf, column) in group.columns().iter().enumerate() {
            let is_text = column.column_descr().physical_type() == PhysicalType::BYTE_ARRAY;
            let opened = u64::try_from(column.uncompressed_size()).unwrap_or(0);
            let has_dictionary = column.encodings().any(|encoding| {
                matches!(
                    encoding,
                    Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
                )
            });
            if !mask.leaf_included(leaf)
                || !is_text
                || !has_dictionary
                || opened <= dictionary_bytes
            {
                continue;
            }
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let pages = SerializedPageReader::new(Arc::new(chunks.clone()), column, rows, None);
            let page = pages.and_then(|mut pages| pages.get_next_page());
            let page = page.map_err(|error| said(&error))?;
            if let Some(Page::DictionaryPage { buf, .. }) = page
                && buf.len() as u64 > dictionary_bytes
            {
                longest_bytes = longest_bytes.saturating_add(longest_value(&buf));
            }
        }
        Ok(longest_bytes)
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

/// A source of chunks that several page readers share.
struct SharedChunks<R>(Arc<R>);

impl<R> Clone for SharedChunks<R> {
    fn clone(&self) -> Self {
        SharedChunks(Arc::clone(&self.0))
    }
}

impl<R: Length> Length for SharedChunks<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for SharedChunks<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// Returns the longest of length-prefixed values.
fn longest_value(mut values: &[u8]) -> u64 {
    let mut longest_bytes = 0;
    while let Some((len, rest)) = values.split_first_chunk::<4>() {
        let len_bytes = u32::from_le_bytes(*len);
        longest_bytes = longest_bytes.max(u64::from(len_bytes));
        values = rest.get(len_bytes as usize..).unwrap_or(&[]);
    }
    longest_bytes
}

/// The batches of a row group.
pub(super) struct GroupReader {
    /// The row group's number, from 0.
    group: usize,
    reader: ParquetRecordBatchReader,
    refused: Refused,
}

impl GroupReader {
    /// Returns the next batch.
    ///
    /// # Errors
    /// Corrupt. I/O.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.reader.next().transpose();
        next.map_err(|error| took(&self.refused).unwrap_or_else(|| self.undecoded(&error)))
    }

    /// Adds the row group to the library's error.
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
    /// Rows of a batch for a reader with this much memory: as many as fit into a quarter of it.
    fn batch_rows(&self, memory_bytes: u64) -> u64 {
        let batch_bytes = (memory_bytes / 4).min(BATCH_BYTES_MAX);
        (batch_bytes / self.row_bytes).clamp(1, BATCH_ROWS)
    }

    fn input_need(&self) -> InputNeed {
        InputNeed {
            piece_bytes: self.least_bytes(),
            long_bytes: self.long_bytes,
        }
    }

    fn least_bytes(&self) -> u64 {
        let batch_bytes = self.row_bytes.max(self.value_bytes);
        let held = self.pages_bytes.saturating_add(batch_bytes);
        held.saturating_add(self.windows_bytes)
    }

    fn too_much(&self, group: usize, memory_bytes: u64) -> Error {
        let cause = format!(
            "row group {group} needs at least {} to be read, but there is only {}",
            units::bytes(self.least_bytes()),
            units::bytes(memory_bytes)
        );
        Error::new(Kind::Memory, READ, cause).hint(self.input_need().hint())
    }
}

/// Corrects the total number of rows if it differs from the sum over row groups, as in files of
/// some old writers. The library reads no more rows at once than the total. Returns `None` if they
/// agree.
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

/// Rejects positions and sizes that no file can have; they would cause panics later.
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
        // Groups without rows are not read, so no reader would notice their values.
        if group.num_rows() == 0 && column.num_values() > 0 {
            let count = units::counted(column.num_values().unsigned_abs(), "value");
            let cause = format!(
                "the footer says that a row group has no rows, but that a column of it has {count}: {}",
                column.column_path()
            );
            return Err(
                Error::corrupt(READ, cause).hint("the file is damaged: copy or write it again")
            );
        }
    }
    Ok(())
}

/// Whether the footer marks the file as encrypted.
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
