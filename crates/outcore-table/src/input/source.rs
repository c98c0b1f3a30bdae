//! Reads byte ranges of a file through the drives of the job.
//!
//! Contract: a [`DriveFile`] reads any range through [`Transfers`], directly into the memory that
//! is returned. It reads the blocks that the drive requires; a long range has many requests in
//! flight. [`Fetched`] holds ranges that were read before decoding. [`Windows`] reads a stretch of
//! each range on demand, for a row group that is too large to hold. The Parquet library reads from
//! both. A range outside the file is a corrupt-data error with file and offset.
//!
//! Bounds: the bytes read, plus up to one block at either end; [`Windows`] holds one stretch per
//! column.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::buf::Reader;
use bytes::{Buf as _, Bytes};
use outcore_io::drive::Access;
use outcore_io::memory::{Budget, Buf, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume, VolumeFile};
use outcore_io::transfers::{Arrival, ReadRange, Transfers, no_buffer};
use outcore_io::{Error, Result};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::fault;

/// The length of one request of a long range.
const REQUEST_BYTES: usize = 2 << 20;
/// The least stretch of a column that is read in stretches.
const WINDOW_BYTES: u64 = 256 << 10;
/// Longer than any page header. A read of a header has this many bytes, or ends with the column.
const HEADER_BYTES: u64 = 32 << 10;
const READ: &str = "read table";
/// The ledger's name for read-ahead memory of a file that is scanned.
const STREAM: &str = "text being looked through";
const STREAM_BYTES: usize = 1 << 20;
const STREAM_COUNT: usize = 4;
/// Memory of a stream.
pub(super) const STREAMED_BYTES: u64 = (STREAM_BYTES * STREAM_COUNT) as u64;

/// A file of the input, open on its drive until dropped.
pub(super) struct DriveFile {
    volume: Arc<Volume>,
    file: VolumeFile,
}

/// A buffer as shared bytes.
struct Shared(Buf);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl DriveFile {
    /// Opens the file at `path`.
    pub(super) fn open(volume: &Arc<Volume>, path: &Path) -> Result<Self> {
        let file = volume
            .open(path, Access::Read)
            .map_err(|error| error.path(path))?;
        Ok(DriveFile {
            volume: Arc::clone(volume),
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The open file.
    pub(super) fn file(&self) -> &VolumeFile {
        &self.file
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.file.facts.len_bytes
    }

    /// Fails if the file has changed since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.volume.check_unchanged(&self.file, false)
    }

    /// Creates a queue for the reads of one thread.
    pub(super) fn queue(&self) -> Result<Transfers<usize>> {
        Transfers::new(&self.volume)
    }

    /// Reads one range with a queue of its own.
    pub(super) fn read(&self, at_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        let range = at_bytes..at_bytes.saturating_add(len_bytes);
        self.read_with(&mut self.queue()?, &range, || Ok(()))
    }

    /// Reads one range, with several requests in flight if it is long.
    ///
    /// # Errors
    /// Corrupt: the range is outside the file. I/O. Errors of `check`.
    pub(super) fn read_with(
        &self,
        transfers: &mut Transfers<usize>,
        range: &Range<u64>,
        check: impl Fn() -> Result<()>,
    ) -> Result<Bytes> {
        let wanted = FileRange {
            file: self,
            range: range.clone(),
        };
        let read = read_all(transfers, &[wanted], check)?;
        Ok(read.into_iter().next().unwrap_or_default())
    }

    /// Reads a range in order, a stretch at a time, with some read-ahead; `take` returns whether to
    /// go on. Buffers are reserved in `budget`.
    ///
    /// # Errors
    /// As [`DriveFile::read_with`], and errors of `take`; memory.
    pub(super) fn stream(
        &self,
        budget: &Budget,
        range: &Range<u64>,
        check: impl Fn() -> Result<()>,
        mut take: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let end_bytes = range.end.min(self.len_bytes());
        let pool = Pool::new(budget, STREAM, STREAM_BYTES, STREAM_COUNT)?;
        let mut transfers: Transfers<u64> = Transfers::new(&self.volume)?;
        let mut at_bytes = block_floor(range.start);
        let is_over = Cell::new(false);
        let next = |_: &Port| {
            let left_bytes = end_bytes.saturating_sub(at_bytes);
            if left_bytes == 0 || is_over.get() {
                return None;
            }
            let len_bytes = left_bytes.min(STREAM_BYTES as u64);
            let what = at_bytes;
            at_bytes += len_bytes;
            Some(ReadRange {
                file: &self.file,
                at_bytes: what,
                len_bytes: block_ceil(len_bytes) as usize,
                what,
            })
        };
        let taken = |arrival: Arrival<u64>| {
            if is_over.get() {
                return Ok(());
            }
            let stretch_end = (arrival.what + STREAM_BYTES as u64).min(end_bytes);
            let wanted = (stretch_end - arrival.what) as usize;
            if arrival.len_bytes < wanted {
                return Err(self.missing(range));
            }
            let skip = range.start.saturating_sub(arrival.what) as usize;
            is_over.set(!take(&arrival.buf[skip.min(wanted)..wanted])?);
            Ok(())
        };
        let done = transfers.read_in_order(&pool, check, next, taken);
        if done.is_err() {
            transfers.forget()?;
        }
        done
    }

    fn missing(&self, range: &Range<u64>) -> Error {
        let cause = format!(
            "bytes {} to {} are needed, but the file ends at {}",
            range.start,
            range.end,
            self.len_bytes()
        );
        Error::corrupt(READ, cause)
            .path(self.path())
            .hint("the file is damaged or was cut short: copy or write it again")
    }
}

/// A range of a file.
#[derive(Clone)]
struct FileRange<'a> {
    file: &'a DriveFile,
    range: Range<u64>,
}

/// A request of a range.
struct Part {
    /// The index of its range.
    range: usize,
    from_bytes: u64,
    /// Its bytes, once they have arrived.
    buf: Option<Buf>,
}

/// Reads several ranges of files of one volume, with all their requests in flight together.
///
/// # Errors
/// Corrupt: a range is outside its file. I/O. Errors of `check`.
fn read_all(
    transfers: &mut Transfers<usize>,
    ranges: &[FileRange<'_>],
    check: impl Fn() -> Result<()>,
) -> Result<Vec<Bytes>> {
    for FileRange { file, range } in ranges {
        if range.start > range.end || range.end > file.len_bytes() {
            return Err(file.missing(range));
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    for (number, FileRange { file, range }) in ranges.iter().enumerate() {
        if range.is_empty() {
            continue;
        }
        let mut at_bytes = block_floor(range.start);
        let whole_bytes = block_ceil(range.end - at_bytes) as usize;
        // The reader of the table has already reserved this memory.
        let pool = Pool::new(&Budget::new(whole_bytes as u64), READ, whole_bytes, 1)?;
        let mut rest = pool.take().ok_or_else(no_buffer)?;
        while !rest.is_empty() {
            let part = rest.split_to(rest.len().min(REQUEST_BYTES));
            let len_bytes = part.len() as u64;
            transfers.read(&file.file, at_bytes, part, parts.len());
            parts.push(Part {
                range: number,
                from_bytes: at_bytes,
                buf: None,
            });
            at_bytes += len_bytes;
        }
    }
    wait_for(transfers, ranges, &mut parts, check)?;
    let mut parts = parts.into_iter().peekable();
    let whole = |(number, FileRange { range, .. }): (usize, &FileRange<'_>)| {
        let Some(first) = parts.next_if(|part| part.range == number) else {
            return Ok(Bytes::new());
        };
        let mut whole = first.buf.ok_or_else(no_buffer)?;
        while let Some(part) = parts.next_if(|part| part.range == number) {
            whole.join(part.buf.ok_or_else(no_buffer)?);
        }
        let (start, end) = (range.start - first.from_bytes, range.end - first.from_bytes);
        Ok(Bytes::from_owner(Shared(whole)).slice(start as usize..end as usize))
    };
    ranges.iter().enumerate().map(whole).collect()
}

/// Puts arriving buffers into `parts`, until nothing is in flight.
fn wait_for(
    transfers: &mut Transfers<usize>,
    ranges: &[FileRange<'_>],
    parts: &mut [Part],
    check: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    loop {
        match transfers.next(&check) {
            Ok(None) => return failure.map_or(Ok(()), Err),
            Ok(Some(arrival)) => {
                let part = &mut parts[arrival.what];
                let FileRange { file, range } = &ranges[part.range];
                let wanted_end = range.end.min(part.from_bytes + arrival.buf.len() as u64);
                if part.from_bytes + (arrival.len_bytes as u64) < wanted_end {
                    failure = failure.or_else(|| Some(file.missing(range)));
                }
                part.buf = Some(arrival.buf);
            }
            // Nothing may be in flight when the next range is requested.
            Err(error) => {
                transfers.forget()?;
                return Err(error);
            }
        }
    }
}

impl Drop for DriveFile {
    fn drop(&mut self) {
        self.volume.close(&self.file);
    }
}

/// Reads any range on demand, for footers.
impl Length for DriveFile {
    fn len(&self) -> u64 {
        self.len_bytes()
    }
}

impl ChunkReader for DriveFile {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let len_bytes = WINDOW_BYTES.min(self.len_bytes().saturating_sub(start));
        Ok(self.read(start, len_bytes).map_err(wrapped)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.read(start, length as u64).map_err(wrapped)
    }
}

fn wrapped(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

fn outside(start: u64) -> ParquetError {
    ParquetError::General(format!(
        "a page at byte {start} belongs to no column that is read"
    ))
}

/// The ranges and memory of a piece that is fetched whole.
pub(super) struct Whole {
    /// The ranges of its bytes.
    pub(super) ranges: Vec<Range<u64>>,
    /// Memory that decoding needs in addition.
    pub(super) beside_bytes: u64,
}

/// Ranges that have been read, in order.
pub(super) struct Fetched {
    file_bytes: u64,
    ranges: Vec<(u64, Bytes)>,
}

/// Ranges of a file.
#[derive(Clone, Copy)]
pub(super) struct FileRanges<'a> {
    pub(super) file: &'a DriveFile,
    pub(super) ranges: &'a [Range<u64>],
}

/// Reads ranges of several files, with all requests in flight together. Adjacent ranges of one file
/// are read as one. Returns one result per file.
///
/// # Errors
/// As [`DriveFile::read_with`].
pub(super) fn fetch_each(
    transfers: &mut Transfers<usize>,
    wanted: &[FileRanges<'_>],
    check: impl Fn() -> Result<()>,
) -> Result<Vec<Fetched>> {
    let mut all: Vec<FileRange<'_>> = Vec::new();
    let mut counts = Vec::with_capacity(wanted.len());
    for &FileRanges { file, ranges } in wanted {
        let merged = merged(ranges);
        counts.push(merged.len());
        all.extend(merged.into_iter().map(|range| FileRange { file, range }));
    }
    let mut read = all
        .iter()
        .map(|one| one.range.start)
        .zip(read_all(transfers, &all, check)?);
    let each = wanted.iter().zip(counts);
    let each = each.map(|(one, count)| Fetched {
        file_bytes: one.file.len_bytes(),
        ranges: read.by_ref().take(count).collect(),
    });
    Ok(each.collect())
}

/// Sorts the ranges, and joins adjacent ones.
fn merged(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut ranges = ranges.to_vec();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if block_ceil(last.end) >= block_floor(range.start) => {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

impl Fetched {
    /// Returns the bytes of a requested range.
    ///
    /// # Errors
    /// Corrupt: the range was not requested.
    pub(super) fn bytes(&self, range: &Range<u64>) -> Result<Bytes> {
        let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let bytes = match length {
            0 => Ok(Bytes::new()),
            length => self.get_bytes(range.start, length),
        };
        bytes.map_err(|error| fault::parquet(READ, &error))
    }

    /// Returns the bytes that were read, starting at `start`.
    fn from(&self, start: u64) -> parquet::errors::Result<Bytes> {
        let behind = self.ranges.partition_point(|(at, _)| *at <= start);
        let (at, bytes) = behind
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .ok_or_else(|| outside(start))?;
        let skip = (start - at) as usize;
        if skip > bytes.len() {
            return Err(outside(start));
        }
        Ok(bytes.slice(skip..))
    }
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.file_bytes
    }
}

impl ChunkReader for Fetched {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.from(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF(format!(
                "a page has {length} bytes, but its column has only {} left",
                bytes.len()
            )));
        }
        Ok(bytes.slice(..length))
    }
}

/// Columns of a row group that are read in stretches.
pub(super) struct Windows {
    file: Arc<DriveFile>,
    /// Ranges of the columns, by start.
    columns: Vec<Range<u64>>,
    /// Memory that each column may hold.
    own_bytes: u64,
    /// Memory beyond that, which all columns share.
    shared_bytes: u64,
    held: Mutex<HashMap<usize, (u64, Bytes)>>,
    refused: Refused,
}

/// The cause of a failed read. It is kept here because the library keeps only the message.
pub(super) type Refused = Arc<Mutex<Option<Error>>>;

impl Windows {
    pub(super) fn new(
        file: &Arc<DriveFile>,
        mut columns: Vec<Range<u64>>,
        own_bytes: u64,
        shared_bytes: u64,
        refused: &Refused,
    ) -> Self {
        columns.sort_by_key(|range| range.start);
        Windows {
            file: Arc::clone(file),
            columns,
            own_bytes,
            shared_bytes,
            held: Mutex::default(),
            refused: Arc::clone(refused),
        }
    }

    fn refuse(&self, error: Error) -> ParquetError {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        wrapped(error)
    }

    /// Returns the bytes that start at `start`: at least `least_bytes`, or up to the column's end.
    fn stretch(&self, start: u64, least_bytes: u64) -> parquet::errors::Result<Bytes> {
        let index = self
            .columns
            .iter()
            .position(|column| column.contains(&start));
        let index = index.ok_or_else(|| outside(start))?;
        let left_bytes = self.columns[index].end - start;
        let least_bytes = least_bytes.min(left_bytes);
        let longest_bytes = self.own_bytes.saturating_add(self.shared_bytes);
        if least_bytes > longest_bytes {
            let needed = outcore_io::units::bytes(least_bytes);
            let allowed = outcore_io::units::bytes(longest_bytes);
            let cause = format!("a page takes {needed}, but a column may take only {allowed}");
            let error = Error::new(outcore_io::Kind::Memory, READ, cause).path(self.file.path());
            return Err(self.refuse(error.offset(start).hint("allow more with --memory")));
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, bytes)) = held.get(&index) {
            let skip = start
                .checked_sub(*at)
                .filter(|&skip| skip + least_bytes <= bytes.len() as u64);
            if let Some(skip) = skip {
                return Ok(bytes.slice(skip as usize..));
            }
        }
        // The old stretch is dropped before the new one is read.
        held.remove(&index);
        // A long page takes the memory that other columns hold beyond their own share; their
        // stretches are read again later.
        let beyond = |len_bytes: u64| len_bytes.saturating_sub(self.own_bytes);
        let others_bytes: u64 = held
            .values()
            .map(|(_, bytes)| beyond(bytes.len() as u64))
            .sum();
        if beyond(least_bytes) > self.shared_bytes.saturating_sub(others_bytes) {
            held.retain(|_, (_, bytes)| beyond(bytes.len() as u64) == 0);
        }
        let len_bytes = least_bytes.max(WINDOW_BYTES).min(left_bytes);
        let bytes = self
            .file
            .read(start, len_bytes)
            .map_err(|error| self.refuse(error))?;
        // A long page is requested only once, so it is not kept.
        if len_bytes > least_bytes || least_bytes <= HEADER_BYTES {
            held.insert(index, (start, bytes.clone()));
        }
        Ok(bytes)
    }
}

impl Length for Windows {
    fn len(&self) -> u64 {
        self.file.len_bytes()
    }
}

impl ChunkReader for Windows {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(self.stretch(start, HEADER_BYTES)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.stretch(start, length as u64)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF(format!(
                "a page has {length} bytes, but its column has only {} left",
                bytes.len()
            )));
        }
        Ok(bytes.slice(..length))
    }
}
