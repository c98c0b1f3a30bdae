//! The rows of a table on their way into the engine: each with its key.
//!
//! Contract: [`RowsIn`] is the engine's [`RowSource`] over a [`TableInput`]. Threads take pieces in
//! order, decode them and encode their rows with the key that [`RowKeys`] says. A row's position is
//! the number of its piece and its place in there, so that it grows in the order of the input
//! whatever the threads.
//!
//! **The sample.** Pieces may be in an order of their own, as those of a log are by time, so rows
//! from the fronts of pieces would say little about the keys. The columns of the key, and nothing
//! else, are read of up to [`SAMPLE_PIECES`] pieces, and rows are taken evenly from all over them.
//! How long rows are is told by whole rows from the fronts of a few pieces.
//!
//! Bounds: a reader and a batch of rows a thread; the sample's keys, some MiB at most.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use outcore::sort::lines::rows::{LongRow, MeanRow, RowBatch, RowSource, TakeRows};
use outcore::{Forecast, Job};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};
use twox_hash::XxHash3_128;

use super::rows_out::WriteShape;
use crate::fault;
use crate::input::{InputNeed, Piece, PieceQueue, TableInput};
use crate::rows::{RowCodec, key_of};

/// Pieces from which keys are sampled, and rows of each.
const SAMPLE_PIECES: usize = 32;
const SAMPLE_ROWS: usize = 2048;
/// Pieces from which whole rows are sampled, and rows of each.
pub(super) const LEN_PIECES: usize = 4;
const LEN_ROWS: usize = 4096;
/// Bytes of a sampled key that are kept.
const KEY_BYTES_MAX: usize = 256;
/// Rows that the engine is shown at once in a sample.
const SHOWN_ROWS: usize = 32;
/// A row's position is its place in its piece, and above this many bits the number of the piece.
const PLACE_BITS: u32 = 40;
/// What a reader gets beside the least that its pieces need, but no more than that: with the least
/// alone it decodes row by row.
const ROOM_BYTES: u64 = 2 << 20;
/// Bytes of rows that are encoded or decoded at once by a thread: within the cache, where memory
/// allows it.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_BYTES_MIN: u64 = 64 << 10;
/// Rows that are encoded at once, at most.
pub(super) const ROWS_AT_ONCE: usize = 2048;

/// Makes rows of its own, which begin with the columns of their groups.
pub(super) trait EncodeRows: std::fmt::Debug + Sync {
    /// Appends a row for each row of `batch`, the first of which is at `position`.
    ///
    /// # Errors
    /// Usage: a row that is too long.
    fn encode(&self, batch: &RecordBatch, position: u64, rows: &mut RowBatch) -> Result<()>;

    /// The columns of the groups.
    fn group_names(&self) -> Vec<String>;

    /// Appends a row that has nothing but its group for each row of `batch`, which has the columns
    /// of the groups alone, as [`EncodeRows::group_names`] names them.
    ///
    /// # Errors
    /// Usage: a row that is too long.
    fn encode_groups(&self, batch: &RecordBatch, rows: &mut RowBatch) -> Result<()>;
}

/// What decides about a row's place.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowKeys<'k> {
    /// The columns of the codec's order.
    Columns,
    /// A random number that the seed and the row's position give.
    Random { seed: u64 },
    /// A random number that the seed and the columns of this other codec's order give: the same for
    /// all rows of a group.
    RandomGroups { seed: u64, group: &'k RowCodec },
    /// The columns of the codec's order, and after them nothing but the row's position, and of the
    /// key the front that this other codec makes.
    Places { group: &'k RowCodec },
    /// The columns of groups, and after them what decides between the rows of one.
    Made { by: &'k dyn EncodeRows },
}

impl RowKeys<'_> {
    /// Appends the rows of `batch`, the first of which is at `position`.
    fn encode(
        self,
        codec: &RowCodec,
        batch: &RecordBatch,
        position: u64,
        rows: &mut RowBatch,
    ) -> Result<()> {
        match self {
            RowKeys::Columns => codec.encode(batch, rows),
            RowKeys::Random { seed } => {
                let draw = |row: usize| draw(seed, position + row as u64);
                let keys: Vec<_> = (0..batch.num_rows()).map(draw).collect();
                codec.encode_by(batch, rows, |row| &keys[row][..])
            }
            RowKeys::RandomGroups { seed, group } => {
                let keys = drawn_groups(seed, group, batch)?;
                codec.encode_by(batch, rows, |row| &keys[row][..])
            }
            RowKeys::Places { group } => codec.encode_places(batch, group, position, rows),
            RowKeys::Made { by } => by.encode(batch, position, rows),
        }
    }
}

/// A number of 128 bits, of which the larger bytes come first.
fn draw(seed: u64, position: u64) -> [u8; 16] {
    XxHash3_128::oneshot_with_seed(seed, &position.to_le_bytes()).to_be_bytes()
}

/// The numbers of the groups that the rows of `batch` belong to.
fn drawn_groups(seed: u64, group: &RowCodec, batch: &RecordBatch) -> Result<Vec<[u8; 16]>> {
    let keys = group.keys_of(batch)?;
    let draw = |key: &[u8]| XxHash3_128::oneshot_with_seed(seed, key).to_be_bytes();
    let drawn = keys.map(|keys| keys.iter().map(|key| draw(key.data())).collect());
    Ok(drawn.unwrap_or_default())
}

/// What reading takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadShape {
    /// Threads that read.
    pub(super) readers_count: usize,
    /// The memory of each of them, for a piece.
    pub(super) reader_bytes: u64,
    /// Bytes of rows that are encoded at once, about.
    pub(super) batch_bytes: u64,
    /// What a thread holds of the longest row while it makes it, beside such a batch.
    pub(super) made_bytes: u64,
    /// That row, where values are long.
    pub(super) longest: Option<LongRow>,
}

/// The memory of a reader that does not decode row by row, where its pieces need `piece_bytes` at
/// least.
pub(super) fn with_room(piece_bytes: u64) -> u64 {
    piece_bytes
        .max(1)
        .saturating_add(piece_bytes.min(ROOM_BYTES))
}

/// How it is read by this many threads: they get a quarter of the memory, or their least need and
/// some more.
pub(super) fn read_shape_of(memory_bytes: u64, need: InputNeed, threads: usize) -> ReadShape {
    let (quarter_bytes, half_bytes) = (memory_bytes / 4, memory_bytes / 2);
    let share_bytes = quarter_bytes / threads as u64;
    let needed_bytes = with_room(need.piece_bytes);
    ReadShape {
        readers_count: threads,
        reader_bytes: share_bytes.max(needed_bytes).min(half_bytes),
        batch_bytes: (share_bytes / 16).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX),
        made_bytes: 0,
        longest: None,
    }
}

/// See the module.
pub(super) struct RowsIn<'a> {
    input: &'a TableInput,
    codec: &'a RowCodec,
    keys: RowKeys<'a>,
    shape: ReadShape,
    /// What writes the rows, where it has a limit for their length.
    limit: Option<WriteShape>,
    sample: Sample,
    rows_count: u64,
    queue: PieceQueue,
    /// Readers that have begun.
    begun: AtomicUsize,
}

/// Makes rows of a batch.
pub(super) type Encode<'e> = dyn Fn(&RecordBatch, &mut RowBatch) -> Result<()> + 'e;

/// What was seen before the job.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) keys: Vec<Vec<u8>>,
    /// Rows that were seen whole.
    seen: SeenRows,
}

/// Rows, and how long they are together.
#[derive(Debug, Default, Clone, Copy)]
struct SeenRows {
    count: f64,
    /// With their lengths.
    bytes: f64,
    key_bytes: f64,
}

impl<'a> RowsIn<'a> {
    /// The rows of `input` as `codec` makes them; reads the sample.
    ///
    /// # Errors
    /// As [`TableInput::reader`] and what it reads.
    pub(super) fn open(
        input: &'a TableInput,
        codec: &'a RowCodec,
        keys: RowKeys<'a>,
        shape: ReadShape,
    ) -> Result<Self> {
        let mut sample = Sample::default();
        sample.see_lens(input, shape.reader_bytes, &|batch, rows| {
            keys.encode(codec, batch, 0, rows)
        })?;
        match keys {
            RowKeys::Columns | RowKeys::Places { .. } => {
                sample.see_keys_of(input, codec, shape.reader_bytes)?
            }
            RowKeys::Random { seed } => sample.draw_keys(seed),
            RowKeys::RandomGroups { seed, group } => {
                let (columns, narrow) = group.keys_alone()?;
                sample.see_keys(input, &columns, shape.reader_bytes, &|batch, rows| {
                    for key in drawn_groups(seed, &narrow, batch)? {
                        rows.push(&[&(key.len() as u32).to_le_bytes()[..], &key].concat())?;
                    }
                    Ok(())
                })?
            }
            RowKeys::Made { by } => match &by.group_names()[..] {
                [] => sample.keys = vec![Vec::new()],
                names => sample.see_keys(input, names, shape.reader_bytes, &|batch, rows| {
                    by.encode_groups(batch, rows)
                })?,
            },
        }
        Ok(RowsIn {
            input,
            codec,
            keys,
            shape,
            limit: None,
            rows_count: input.rows_count(),
            sample,
            queue: PieceQueue::new(shape.readers_count),
            begun: AtomicUsize::new(0),
        })
    }

    /// The same, where rows that `limit` has no room for are refused before they are sorted.
    pub(super) fn limited(self, limit: WriteShape) -> Self {
        RowsIn {
            limit: Some(limit),
            ..self
        }
    }

    /// Bytes of a row, on average.
    pub(super) fn row_bytes(&self) -> f64 {
        self.sample.row_bytes()
    }

    /// Fails for a row that what writes it has no room for; the first is at a position.
    fn check_lens(&self, rows: &RowBatch, position: u64) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        if rows.bytes() as u64 <= limit.row_bytes_max() {
            return Ok(());
        }
        for (number, row) in rows.iter().enumerate() {
            let (piece, place) = piece_and_place(position + number as u64);
            let placed = |error| {
                self.input
                    .at_row((self.input.pieces()[piece], place), error)
            };
            limit.check_row(row).map_err(placed)?;
        }
        Ok(())
    }
}

/// Every so many of `pieces`, so that there are `count` at most.
pub(super) fn spread(pieces: &[Piece], count: usize) -> impl Iterator<Item = Piece> {
    let chosen = count.min(pieces.len());
    (0..chosen).map(move |index| pieces[(2 * index + 1) * pieces.len() / (2 * chosen)])
}

/// `input`'s job with memory of its own, for one reader.
fn alone(job: &Job, reader_bytes: u64) -> Job {
    Job {
        budget: Budget::new(reader_bytes),
        ..job.clone()
    }
}

impl Sample {
    /// Looks at whole rows, as `encode` makes them.
    pub(super) fn see_lens(
        &mut self,
        input: &TableInput,
        reader_bytes: u64,
        encode: &Encode<'_>,
    ) -> Result<()> {
        let mut reader = input.reader(reader_bytes)?;
        let mut rows = RowBatch::default();
        reader.expect(spread(input.pieces(), LEN_PIECES));
        for piece in spread(input.pieces(), LEN_PIECES) {
            let mut left = LEN_ROWS;
            for batch in reader.open(piece)? {
                if left == 0 {
                    break;
                }
                let batch = batch?;
                let batch = batch.slice(0, batch.num_rows().min(left));
                rows.clear();
                encode(&batch, &mut rows)?;
                self.see_rows(&rows);
                left -= batch.num_rows();
            }
        }
        Ok(())
    }

    /// Looks at whole rows.
    pub(super) fn see_rows(&mut self, rows: &RowBatch) {
        let key_bytes = |row: &[u8]| key_of(row).map_or(0, <[u8]>::len);
        self.seen.count += rows.len() as f64;
        self.seen.bytes += rows.bytes() as f64;
        self.seen.key_bytes += rows.iter().map(key_bytes).sum::<usize>() as f64;
    }

    /// Reads the columns of the key, of which `encode` makes rows.
    pub(super) fn see_keys(
        &mut self,
        input: &TableInput,
        columns: &[String],
        reader_bytes: u64,
        encode: &Encode<'_>,
    ) -> Result<()> {
        let narrow = input.narrowed(columns, &alone(input.job(), reader_bytes))?;
        let mut reader = narrow.reader(reader_bytes)?;
        let mut rows = RowBatch::default();
        reader.expect(spread(narrow.pieces(), SAMPLE_PIECES));
        for piece in spread(narrow.pieces(), SAMPLE_PIECES) {
            let step = (piece.rows_count as usize / SAMPLE_ROWS).max(1);
            let mut skipped = step / 2;
            for batch in reader.open(piece)? {
                let batch = batch?;
                let places = (skipped..batch.num_rows()).step_by(step);
                let places = UInt32Array::from_iter_values(places.map(|place| place as u32));
                let seen = skipped + places.len() * step;
                skipped = seen.saturating_sub(batch.num_rows());
                let some = take_record_batch(&batch, &places)
                    .map_err(|error| fault::arrow("sample keys", &error))?;
                rows.clear();
                encode(&some, &mut rows)?;
                let keys = rows.iter().filter_map(key_of);
                let kept = |key: &[u8]| key[..key.len().min(KEY_BYTES_MAX)].to_vec();
                self.keys.extend(keys.map(kept));
            }
        }
        Ok(())
    }

    /// Reads the columns of the key of `codec`.
    pub(super) fn see_keys_of(
        &mut self,
        input: &TableInput,
        codec: &RowCodec,
        reader_bytes: u64,
    ) -> Result<()> {
        let (columns, narrow) = codec.keys_alone()?;
        self.see_keys(input, &columns, reader_bytes, &|batch, rows| {
            narrow.encode(batch, rows)
        })
    }

    /// Bytes of a row, on average.
    pub(super) fn row_bytes(&self) -> f64 {
        self.mean().map_or(0.0, |mean| mean.row_bytes)
    }

    /// How long the rows are that were seen whole.
    pub(super) fn mean(&self) -> Option<MeanRow> {
        let seen = self.seen;
        (seen.count > 0.0).then(|| MeanRow {
            row_bytes: seen.bytes / seen.count,
            key_bytes: seen.key_bytes / seen.count,
        })
    }

    /// Keeps this share of the keys, from all over.
    pub(super) fn thin_out(&mut self, share: f64) {
        let mut due = 0.0;
        self.keys.retain(|_| {
            due += share;
            let is_kept = due >= 1.0;
            due -= f64::from(u8::from(is_kept));
            is_kept
        });
    }

    /// Shows the keys to the engine; [`Sample::mean`] says how long their rows are.
    pub(super) fn show(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut rows = RowBatch::default();
        let mut row = Vec::new();
        for keys in self.keys.chunks(SHOWN_ROWS) {
            rows.clear();
            for key in keys {
                row.clear();
                row.extend_from_slice(&(key.len() as u32).to_le_bytes());
                row.extend_from_slice(key);
                rows.push(&row)?;
            }
            take(&rows, 0)?;
        }
        Ok(())
    }

    /// Random numbers are all over, too.
    fn draw_keys(&mut self, seed: u64) {
        let keys = 0..(SAMPLE_PIECES * SAMPLE_ROWS) as u64;
        self.keys = keys.map(|key| draw(!seed, key).to_vec()).collect();
    }
}

impl RowSource for RowsIn<'_> {
    fn data_bytes(&self) -> u64 {
        (self.rows_count as f64 * self.sample.row_bytes()) as u64
    }

    fn memory_bytes(&self) -> u64 {
        // A batch of Arrow arrays is the reader's, and as large again are its rows; those that
        // are made are made of others.
        let batches = match self.keys {
            RowKeys::Made { .. } => 3,
            _ => 2,
        };
        let made_bytes = batches * self.shape.batch_bytes + self.shape.made_bytes;
        (self.shape.reader_bytes + made_bytes) * self.shape.readers_count as u64
    }

    fn longest_row(&self) -> Option<LongRow> {
        self.shape.longest
    }

    fn read_forecast(&self) -> Forecast {
        self.input.stored_bytes().into()
    }

    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        self.sample.show(take)
    }

    fn mean_row(&self) -> Option<MeanRow> {
        self.sample.mean()
    }

    fn check(&self) -> Result<()> {
        self.input.check_unchanged()
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        if self.begun.fetch_add(1, Ordering::Relaxed) >= self.shape.readers_count {
            return Ok(());
        }
        let mut reader = self.input.reader(self.shape.reader_bytes)?;
        let mut rows = RowBatch::default();
        let at_once = self.shape.batch_bytes as f64 / self.sample.row_bytes().max(1.0);
        let at_once = (at_once as usize).clamp(1, ROWS_AT_ONCE);
        while let Some((number, piece)) = reader.take(&self.queue) {
            let mut position = position_of(number)?;
            for batch in reader.open(piece)? {
                for part in parts_of(&batch?, at_once) {
                    rows.clear();
                    self.keys.encode(self.codec, &part, position, &mut rows)?;
                    self.check_lens(&rows, position)?;
                    take(&rows, position)?;
                    position += part.num_rows() as u64;
                }
            }
        }
        Ok(())
    }
}

/// A batch in parts of this many rows at most.
pub(super) fn parts_of(
    batch: &RecordBatch,
    rows_at_once: usize,
) -> impl Iterator<Item = RecordBatch> {
    let count = batch.num_rows();
    let starts = (0..count).step_by(rows_at_once);
    starts.map(move |from| batch.slice(from, rows_at_once.min(count - from)))
}

/// A batch in parts of rows that have `bytes_at_once` together, or one row, and [`ROWS_AT_ONCE`] at
/// most, where they have these lengths.
pub(super) fn parts_of_lens(
    batch: &RecordBatch,
    lens_bytes: &[usize],
    bytes_at_once: u64,
) -> impl Iterator<Item = RecordBatch> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = lens_bytes.get(from..).filter(|rest| !rest.is_empty())?;
        let mut bytes = 0;
        let fits = |len_bytes: &&usize| {
            bytes += **len_bytes as u64;
            bytes <= bytes_at_once
        };
        let count = rest.iter().take(ROWS_AT_ONCE).take_while(fits).count();
        let part = batch.slice(from, count.max(1));
        from += count.max(1);
        Some(part)
    })
}

/// The number of a row's piece, and its place in there.
pub(super) fn piece_and_place(position: u64) -> (usize, u64) {
    let piece = usize::try_from(position >> PLACE_BITS).unwrap_or(usize::MAX);
    (piece, position & ((1 << PLACE_BITS) - 1))
}

/// The position of the first row of a piece.
pub(super) fn position_of(piece: usize) -> Result<u64> {
    let piece = u64::try_from(piece).ok();
    let is_held = |piece: &u64| piece.leading_zeros() >= PLACE_BITS;
    let position = piece.filter(is_held).map(|piece| piece << PLACE_BITS);
    position.ok_or_else(|| {
        Error::usage("read tables", "there are more than 2^24 row groups")
            .hint("read fewer files at a time")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_long_rows_shows_their_keys_alone_and_says_how_long_they_are() {
        let mut sample = Sample::default();
        sample.draw_keys(7);
        let mut rows = RowBatch::default();
        let key = [&16_u32.to_le_bytes()[..], &[1; 16]].concat();
        rows.push(&[&key[..], &vec![0; 3 << 20]].concat()).unwrap();
        sample.see_rows(&rows);
        let (mut count, mut bytes) = (0, 0);
        let mut take = |rows: &RowBatch, _| {
            count += rows.len();
            bytes += rows.bytes();
            Ok(())
        };
        sample.show(&mut take).unwrap();
        assert_eq!((count, bytes), (sample.keys.len(), 24 * sample.keys.len()));
        let mean = sample.mean().unwrap();
        assert_eq!(
            (mean.row_bytes, mean.key_bytes),
            (rows.bytes() as f64, 16.0)
        );
    }
}
