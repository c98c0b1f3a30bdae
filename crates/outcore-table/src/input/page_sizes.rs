//! How large the pages of Parquet columns are, which footers do not say.
//!
//! Contract: [`PageSizes::of`] reads the headers of a column chunk's pages, each with a small read
//! of its own: of the first few, and of all others where one of these is larger than writers'
//! defaults make them. A chunk that is no larger than a page usually is needs no look. What cannot
//! be walked counts as usual; reading it says what is wrong.
//!
//! Bounds: one header in memory.

use std::ops::Range;

use bytes::Bytes;
use outcore_io::Result;
use parquet::file::metadata::ColumnChunkMetaData;

use super::need::long_bytes;
use super::thrift::{PageHeader, page_header};

/// What an open page takes: writers' defaults are 1 MiB, and as much for a dictionary.
pub(super) const PAGE_BYTES: u64 = 2 << 20;
/// Pages of usual size that are looked at before the rest is taken to be alike.
const LOOKED_AT: usize = 3;
/// What is read for a header at first; statistics in it may be longer.
const HEADER_BYTES: u64 = 4 << 10;
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// The largest pages of one column in one row group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageSizes {
    /// The dictionary, decompressed; 0 where there is none, or it is small.
    pub(super) dictionary_bytes: u64,
    /// A page of values, decompressed.
    pub(super) opened_bytes: u64,
    /// Any page, as it is stored.
    pub(super) stored_bytes: u64,
    /// A value at most, where values are long; 0 where they are not.
    pub(super) long_bytes: u64,
    /// There is one page of values alone.
    pub(super) is_single: bool,
}

impl PageSizes {
    /// What a chunk has if its pages are as usual.
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

    /// What its headers say, which `read` reads from the file; of all pages if `is_exact`.
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

    /// What an open page and its dictionary take.
    pub(super) fn held_bytes(&self) -> u64 {
        self.dictionary_bytes.saturating_add(self.opened_bytes)
    }

    /// The longest value that there may be, where it may be longer than a usual page.
    pub(super) fn value_bytes_max(&self) -> u64 {
        let largest = self.dictionary_bytes.max(self.opened_bytes);
        match largest > PAGE_BYTES {
            true => largest,
            false => 0,
        }
    }
}

/// The header at the front of a range; nothing where there is none.
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
