//! Reads a table on one thread: decodes pieces to batches, and reads the bytes of the next pieces
//! ahead.
//!
//! Contract: a [`TableReader`] opens any piece. If the bytes of a piece fit into its memory,
//! together with what decoding needs, it fetches them whole. At the same time, it fetches the
//! pieces that it expects next ([`TableReader::expect`], [`TableReader::take`]), as far as there is
//! room and up to [`AHEAD_BYTES`]. So the drive has many requests in flight even if pieces are
//! short. Threads that share a table take its pieces in order from a [`PieceQueue`], several short
//! ones at a time.
//!
//! Bounds: the reservation, which includes the bytes that are read ahead. If a piece turns out to
//! need that memory, those bytes are dropped and read again later.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use outcore_io::memory::Reservation;
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Kind, Result, units};

use super::parquet::{BATCH_ROWS, GroupReader};
use super::source::{Fetched, FileRanges, Whole, fetch_each};
use super::text::TextReader;
use super::{Format, Piece, READ, TableFile, TableInput, by_name};
use crate::fault;

/// Short pieces are fetched together up to this size, so that requests have the usual length and
/// keep a drive busy.
const AHEAD_BYTES: u64 = 8 << 20;
/// The most pieces that are fetched together.
const AHEAD_PIECES: usize = 64;

/// The pieces of a table that no reader has taken yet.
#[derive(Debug)]
pub(crate) struct PieceQueue {
    next: AtomicUsize,
    readers_count: usize,
    /// Pieces that no thread takes.
    left_out: OnceLock<HashSet<usize>>,
}

impl PieceQueue {
    /// Creates a queue of all pieces for this many threads.
    pub(crate) fn new(readers_count: usize) -> Self {
        PieceQueue {
            next: AtomicUsize::new(0),
            readers_count: readers_count.max(1),
            left_out: OnceLock::new(),
        }
    }

    /// Leaves these pieces out; the first call counts.
    pub(crate) fn leave_out(&self, pieces: impl Iterator<Item = usize>) {
        self.left_out.get_or_init(|| pieces.collect());
    }

    fn is_left_out(&self, piece: usize) -> bool {
        self.left_out.get().is_some_and(|out| out.contains(&piece))
    }

    /// Takes the next pieces: a small part of those that are left, so that all threads end at about
    /// the same time.
    fn take(&self, pieces: &[Piece]) -> Range<usize> {
        let end_of = |from: usize| {
            let left = pieces.len().saturating_sub(from);
            let most = left.div_ceil(4 * self.readers_count).min(AHEAD_PIECES);
            let mut bytes = 0;
            let is_near = |piece: &&Piece| {
                bytes += piece.stored_bytes;
                bytes <= AHEAD_BYTES
            };
            let near = pieces.iter().skip(from).take(most).take_while(is_near);
            from + near.count().max(usize::from(left > 0))
        };
        let mut from = self.next.load(Ordering::Relaxed);
        loop {
            let end = end_of(from);
            let relaxed = Ordering::Relaxed;
            match self.next.compare_exchange(from, end, relaxed, relaxed) {
                Ok(_) => return from..end,
                Err(now) => from = now,
            }
        }
    }
}

/// Reads a [`TableInput`] on one thread.
pub struct TableReader<'a> {
    input: &'a TableInput,
    /// `None` without files.
    transfers: Option<Transfers<usize>>,
    reservation: Reservation,
    /// Numbers of the pieces that were taken from a queue but not returned yet.
    taken: Range<usize>,
    /// The pieces that will be opened next.
    expected: VecDeque<Piece>,
    /// Pieces whose bytes are in memory, in the order in which they are opened.
    ahead: VecDeque<(Piece, Fetched)>,
}

impl<'a> TableReader<'a> {
    pub(super) fn new(
        input: &'a TableInput,
        transfers: Option<Transfers<usize>>,
        reservation: Reservation,
    ) -> Self {
        TableReader {
            input,
            transfers,
            reservation,
            taken: 0..0,
            expected: VecDeque::new(),
            ahead: VecDeque::new(),
        }
    }

    /// Announces the pieces that will be opened next, in this order.
    pub(crate) fn expect(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        self.expected = pieces.into_iter().collect();
    }

    /// Takes the next piece of the table from `queue`, with its number.
    pub(crate) fn take(&mut self, queue: &PieceQueue) -> Option<(usize, Piece)> {
        let pieces = self.input.pieces();
        loop {
            if self.taken.is_empty() {
                self.taken = queue.take(pieces);
                let numbers = self.taken.clone();
                let numbers = numbers.filter(|&number| !queue.is_left_out(number));
                self.expect(numbers.map(|number| pieces[number]));
            }
            let number = self.taken.next()?;
            if !queue.is_left_out(number) {
                return Some((number, pieces[number]));
            }
        }
    }

    /// Returns the batches of a piece.
    ///
    /// # Errors
    /// Corrupt, I/O, memory; interrupted.
    pub fn open(&mut self, piece: Piece) -> Result<Batches<'_>> {
        self.expected.pop_front_if(|next| *next == piece);
        if self.ahead.front().is_none_or(|(next, _)| *next != piece) {
            self.ahead.clear();
            self.fetch(piece, true)?;
        }
        let mut found = self.found(piece);
        let is_crowded = |error: &Error| error.kind() == Kind::Memory;
        if !self.ahead.is_empty() && found.as_ref().is_err_and(is_crowded) {
            self.ahead.clear();
            self.fetch(piece, false)?;
            found = self.found(piece);
        }
        Ok(Batches {
            schema: &self.input.schema,
            file: &self.input.files[piece.file],
            found: found?,
            piece,
            rows_count: 0,
        })
    }

    /// Fetches a piece, if it is read whole, and also the expected pieces if `reads_ahead`.
    fn fetch(&mut self, piece: Piece, reads_ahead: bool) -> Result<()> {
        let memory_bytes = self.reservation.bytes();
        let input = self.input;
        let ahead_count = if reads_ahead { AHEAD_PIECES } else { 0 };
        let expected = self.expected.iter().take(ahead_count);
        let mut chosen: Vec<(Piece, Whole)> = Vec::new();
        let (mut stored_bytes, mut beside_bytes) = (0u64, 0);
        for &next in [&piece].into_iter().chain(expected) {
            let Some(whole) = input.files[next.file].whole(next.part, memory_bytes) else {
                break;
            };
            stored_bytes = stored_bytes.saturating_add(next.stored_bytes);
            beside_bytes = whole.beside_bytes.max(beside_bytes);
            let is_room = stored_bytes <= AHEAD_BYTES
                && stored_bytes.saturating_add(beside_bytes) <= memory_bytes;
            if !chosen.is_empty() && !is_room {
                break;
            }
            chosen.push((next, whole));
        }
        let transfers = self.transfers.as_mut().ok_or_else(no_file)?;
        let files = chosen
            .iter()
            .map(|(next, _)| input.files[next.file].drive_file());
        let wanted: Vec<_> = files
            .zip(&chosen)
            .map(|(file, (_, whole))| FileRanges {
                file,
                ranges: &whole.ranges,
            })
            .collect();
        let fetched = fetch_each(transfers, &wanted, || input.job.control.check());
        let fetched = match fetched {
            Ok(fetched) => fetched,
            // Damage of another piece is reported when that piece is opened.
            Err(error) if error.kind() == Kind::Corrupt && chosen.len() > 1 => {
                return self.fetch(piece, false);
            }
            Err(error) => {
                let mut files = chosen.iter().map(|(next, _)| &input.files[next.file]);
                let file = files.find(|file| error.file_path() == Some(file.drive_file().path()));
                let file = file.unwrap_or(&input.files[piece.file]);
                return Err(by_name(error, &file.path));
            }
        };
        self.ahead = chosen.iter().map(|(next, _)| *next).zip(fetched).collect();
        Ok(())
    }

    /// Opens a piece. If it is read whole, its bytes are the first of those in memory.
    fn found(&mut self, piece: Piece) -> Result<Found> {
        let is_it = |ahead: &mut (Piece, Fetched)| ahead.0 == piece;
        let fetched = self.ahead.pop_front_if(is_it).map(|(_, fetched)| fetched);
        let held = self.ahead.iter().map(|(next, _)| next.stored_bytes);
        let memory_bytes = self.reservation.bytes().saturating_sub(held.sum());
        let file = &self.input.files[piece.file];
        let check = || self.input.job.control.check();
        let transfers = self.transfers.as_mut().ok_or_else(no_file)?;
        let (part, columns) = (piece.part, &file.read[..]);
        Ok(match &*file.format {
            Format::Parquet(parquet) => {
                let reader = parquet.read(part, columns, memory_bytes, fetched);
                let reader = reader.map_err(|error| by_name(error, &file.path))?;
                Found::Parquet(Box::new(reader))
            }
            Format::Ipc(ipc) => {
                let fetched = fetched.ok_or_else(no_file)?;
                let batch = ipc.read(part, columns, memory_bytes, &fetched, transfers, check);
                let batch = batch.map_err(|error| by_name(error, &file.path))?;
                Found::Ipc { batch, next_row: 0 }
            }
            Format::Text(text) => {
                let fetched = fetched.ok_or_else(no_file)?;
                let reader = text.read(part, columns, memory_bytes, &fetched);
                let reader = reader.map_err(|error| error.path(&file.path))?;
                Found::Text(Box::new(reader))
            }
        })
    }
}

fn no_file() -> Error {
    Error::usage(READ, "no file").hint("a bug: please report it")
}

enum Found {
    Parquet(Box<GroupReader>),
    Text(Box<TextReader>),
    Ipc { batch: RecordBatch, next_row: usize },
}

/// The record batches of a piece, with the table's schema. They end after an error.
pub struct Batches<'a> {
    schema: &'a SchemaRef,
    file: &'a TableFile,
    found: Found,
    piece: Piece,
    /// Rows so far.
    rows_count: u64,
}

impl Batches<'_> {
    /// Counts the rows of the next batch. It fails if a piece ends with another number of rows than
    /// its file states.
    fn counted(&mut self, batch: Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        let said = self.piece.rows_count;
        self.rows_count += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        let is_wrong = match &batch {
            Some(_) => self.rows_count > said,
            None => self.rows_count != said,
        };
        if is_wrong && !matches!(&*self.file.format, Format::Text(_)) {
            let more = if batch.is_some() { " or more" } else { "" };
            let what = match &*self.file.format {
                Format::Ipc(_) => "batch",
                _ => "row group",
            };
            let cause = format!(
                "{what} {} has {}{more}, but the file says {said}",
                self.piece.part,
                units::counted(self.rows_count, "row")
            );
            return Err(Error::corrupt(READ, cause)
                .hint("the file is damaged or was cut short: copy or write it again"));
        }
        Ok(batch)
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = &mut self.found;
        let next = fault::guarded(READ, || found.next());
        let next = next.and_then(|batch| self.counted(batch));
        let batch = next.and_then(|batch| {
            batch
                .map(|batch| self.file.shaped(self.schema, &batch))
                .transpose()
        });
        if batch.is_err() {
            self.found = Found::nothing();
            self.rows_count = self.piece.rows_count;
        }
        let explained = |error: Error| match &*self.file.format {
            Format::Parquet(file) => file.explained(error),
            Format::Ipc(_) => error,
            Format::Text(file) => file.located(error),
        };
        batch
            .map_err(|error| explained(error).path(&self.file.path))
            .transpose()
    }
}

impl Found {
    /// No batches.
    fn nothing() -> Self {
        Found::Ipc {
            batch: RecordBatch::new_empty(Arc::new(Schema::empty())),
            next_row: 0,
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Found::Parquet(reader) => reader.next(),
            Found::Text(reader) => reader.next(),
            Found::Ipc { batch, next_row } => {
                let left = batch.num_rows() - *next_row;
                let rows_count = left.min(BATCH_ROWS as usize);
                let from = *next_row;
                *next_row += rows_count;
                Ok((rows_count > 0).then(|| batch.slice(from, rows_count)))
            }
        }
    }
}
