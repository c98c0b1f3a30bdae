//! The page sizes of Parquet columns, which footers do not state.
//!
//! Contract: [`PageSizes::of`] reads page headers of a column chunk, each with a small read. It
//! reads the first few headers. If one of these pages is larger than the default of writers, it
//! reads all other headers. A chunk that is no larger than a usual page is not inspected. A chunk
//! whose headers cannot be read counts as usual; reading its values reports the fault.
//!
//! Bounds: one header in memory.

use std::ops::Range;

use bytes::Bytes;
use outcore_io::Result;
use parquet::file::metadata::ColumnChunkMetaData;

use super::need::long_bytes;
use super::thrift::{PageHeader, page_header};

/// Memory of an open page and its dictionary; writers limit each to 1 MiB by default.
pub(super) const PAGE_BYTES: u64 = 2 << 20;
/// If this many pages have the usual size, the others are assumed to have it too.
const LOOKED_AT: usize = 3;
/// The first read of a header. Statistics can make a header longer.
const HEADER_BYTES: u64 = 4 << 10;
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// The largest pages of one column in one row group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageSizes {
    /// The decompressed dictionary; 0 if there is none, or if it is small.
    pub(super) dictionary_bytes: u64,
    /// A decompressed page of values.
    pub(super) opened_bytes: u64,
    /// The largest stored page of any kind.
    pub(super) stored_bytes: u64,
    /// A bound on the longest value, if values are long; 0 otherwise.
    pub(super) long_bytes: u64,
    /// Whether the chunk has a single page of values.
    pub(super) is_single: bool,
}

impl PageSizes {
    /// The sizes of a chunk with usual pages.
    pub(super) fn usual(column: &ColumnChunkMetaData) -> Self {
        let size = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
        let (stored, opened) = (
            size(column.compressed_size()),
            size(column.uncompressed_size()),
        );
        PageSizes {
            opened_bytes: opened.min(PAGE_BYTES),
            stored_bytes: stored.min(PAGE_BYTES),
            ..PageSizes::default()
        }
    }

    /// Reads the sizes from headers, which `read` reads from the file; from all headers if
    /// `is_exact`.
    pub(super) fn of(
        column: &ColumnChunkMetaData,
        is_exact: bool,
        read: impl Fn(Range<u64>) -> Result<Bytes>,
    ) -> Result<Self> {
        let usual = PageSizes::usual(column);
        let opened = u64::try_from(column.uncompressed_size()).unwrap_or(0);
        if opened <= PAGE_BYTES {
            return Ok(usual);
        }
        let (start, len_bytes) = column.byte_range();
        let end = start.saturating_add(len_bytes);
        let mut sizes = PageSizes::default();
        let (mut at_bytes, mut pages) = (start, 0);
        while at_bytes < end {
            let Some(header) = header_at(at_bytes..end, &read)? else {
                return Ok(usual);
            };
            sizes.see(&header);
            if !header.is_dictionary {
                pages += 1;
                let is_usual = sizes.dictionary_bytes.max(sizes.opened_bytes) <= PAGE_BYTES
                    && sizes.long_bytes == 0;
                if is_usual && pages == LOOKED_AT && !is_exact {
                    sizes.opened_bytes = PAGE_BYTES;
                    sizes.stored_bytes = usual.stored_bytes;
                    return Ok(sizes);
                }
            }
            at_bytes = at_bytes
                .saturating_add(header.header_bytes)
                .saturating_add(header.stored_bytes);
        }
        sizes.is_single = pages <= 1;
        Ok(sizes)
    }

    fn see(&mut self, header: &PageHeader) {
        self.stored_bytes = self.stored_bytes.max(header.stored_bytes);
        match header.is_dictionary {
            true => self.dictionary_bytes = self.dictionary_bytes.max(header.opened_bytes),
            false => self.opened_bytes = self.opened_bytes.max(header.opened_bytes),
        }
        let long_bytes = long_bytes(header.opened_bytes, header.values_count);
        self.long_bytes = self.long_bytes.max(long_bytes);
    }

    /// Memory of an open page and its dictionary.
    pub(super) fn held_bytes(&self) -> u64 {
        self.dictionary_bytes.saturating_add(self.opened_bytes)
    }

    /// A bound on the longest value, if it may be longer than a usual page.
    pub(super) fn value_bytes_max(&self) -> u64 {
        let largest = self.dictionary_bytes.max(self.opened_bytes);
        match largest > PAGE_BYTES {
            true => largest,
            false => 0,
        }
    }
}

/// Parses the header at the start of a range; `None` if there is none.
fn header_at(
    range: Range<u64>,
    read: impl Fn(Range<u64>) -> Result<Bytes>,
) -> Result<Option<PageHeader>> {
    for len_bytes in [HEADER_BYTES, HEADER_BYTES_MAX] {
        let end = range.end.min(range.start.saturating_add(len_bytes));
        let found = page_header(&read(range.start..end)?);
        if found.is_some() || end == range.end {
            return Ok(found);
        }
    }
    Ok(None)
}
