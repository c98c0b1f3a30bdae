//! The rows of a table, each with its key, as input of the engine.
//!
//! Contract: [`RowsIn`] is the engine's [`RowSource`] over a [`TableInput`]. Threads take pieces in
//! order, decode them, and encode their rows with the key that [`RowKeys`] defines. A row's
//! position is made of the number of its piece and its place there, so positions ascend in the
//! order of the input for any number of threads.
//!
//! **The sample.** Pieces may be ordered, as by time in a log, so the first rows of pieces would
//! not represent the keys. The sample reads only the key columns, of up to [`SAMPLE_PIECES`]
//! pieces, and takes rows evenly from them. The length of rows is estimated from whole rows at the
//! start of a few pieces.
//!
//! Bounds: a reader and a batch of rows per thread; the sample's keys, at most a few MiB.

use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use outcore::sort::lines::rows::{
    LongRow, MeanRow, RowBatch, RowSource, Sampled, TakeAgain, TakeRows, TakenRows,
};
use outcore::{Forecast, Job};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};
use twox_hash::XxHash3_128;

use super::rows_out::WriteShape;
use crate::fault;
use crate::input::{InputNeed, Piece, PieceQueue, TableInput, TableReader};
use crate::rows::{RowCodec, key_of};

/// Pieces from which keys are sampled, and rows of each.
const SAMPLE_PIECES: usize = 32;
const SAMPLE_ROWS: usize = 2048;
/// Pieces from which whole rows are sampled, and rows of each.
pub(super) const LEN_PIECES: usize = 4;
const LEN_ROWS: usize = 4096;
/// The most bytes of a sampled key that are kept.
const KEY_BYTES_MAX: usize = 256;
/// Rows that the sample passes to the engine at once.
const SHOWN_ROWS: usize = 32;
/// This many low bits of a row's position are the row's place in its piece; the higher bits are the
/// number of the piece.
const PLACE_BITS: u32 = 40;
/// The most memory that a reader gets beyond its least need; with only the least need, it decodes
/// row by row.
const ROOM_BYTES: u64 = 2 << 20;
/// Bytes of rows that a thread encodes or decodes at once, if the memory allows it; they fit into
/// the cache.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_BYTES_MIN: u64 = 64 << 10;
/// The most rows that are encoded at once.
pub(super) const ROWS_AT_ONCE: usize = 2048;

/// Encodes rows in a form of its own, which begins with the columns of their groups.
pub(super) trait EncodeRows: std::fmt::Debug + Sync {
    /// Appends a row for each row of `batch`, whose first row is at `position`.
    ///
    /// # Errors
    /// Usage: a row that is too long.
    fn encode(&self, batch: &RecordBatch, position: u64, rows: &mut RowBatch) -> Result<()>;

    /// The columns of the groups.
    fn group_names(&self) -> Vec<String>;

    /// Appends a row with only its group for each row of `batch`. The batch has only the columns of
    /// the groups, as [`EncodeRows::group_names`] lists them.
    ///
    /// # Errors
    /// Usage: a row that is too long.
    fn encode_groups(&self, batch: &RecordBatch, rows: &mut RowBatch) -> Result<()>;
}

/// Defines the key of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowKeys<'k> {
    /// The columns of the codec's order.
    Columns,
    /// A random number from the seed and the row's position.
    Random { seed: u64 },
    /// A random number from the seed and the columns of this other codec's order: the same for all
    /// rows of a group.
    RandomGroups { seed: u64, group: &'k RowCodec },
    /// The columns of the codec's order, followed only by the row's position. Rows are grouped by
    /// the part of the key that this other codec encodes.
    Places { group: &'k RowCodec },
    /// The columns of groups, followed by bytes that order the rows of a group.
    Made { by: &'k dyn EncodeRows },
}

impl RowKeys<'_> {
    /// Appends the rows of `batch`, whose first row is at `position`.
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

/// Returns a number of 128 bits, big-endian.
fn draw(seed: u64, position: u64) -> [u8; 16] {
    XxHash3_128::oneshot_with_seed(seed, &position.to_le_bytes()).to_be_bytes()
}

/// Returns the random numbers of the groups of the rows of `batch`.
fn drawn_groups(seed: u64, group: &RowCodec, batch: &RecordBatch) -> Result<Vec<[u8; 16]>> {
    let keys = group.keys_of(batch)?;
    let draw = |key: &[u8]| XxHash3_128::oneshot_with_seed(seed, key).to_be_bytes();
    let drawn = keys.map(|keys| keys.iter().map(|key| draw(key.data())).collect());
    Ok(drawn.unwrap_or_default())
}

/// Threads and memory for reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadShape {
    /// Threads that read.
    pub(super) readers_count: usize,
    /// Memory of each reader, for a piece.
    pub(super) reader_bytes: u64,
    /// Approximate bytes of rows that are encoded at once.
    pub(super) batch_bytes: u64,
    /// Memory of a thread while it makes the longest row, in addition to such a batch.
    pub(super) made_bytes: u64,
    /// The longest row, if values are long.
    pub(super) longest: Option<LongRow>,
}

/// The memory with which a reader does not decode row by row, if its pieces need at least
/// `piece_bytes`.
pub(super) fn with_room(piece_bytes: u64) -> u64 {
    piece_bytes
        .max(1)
        .saturating_add(piece_bytes.min(ROOM_BYTES))
}

/// Divides memory among this many readers: they get a quarter of it, or their least need and some
/// more.
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
    /// Limits the length of rows, if the writer does.
    limit: Option<WriteShape>,
    sample: Sample,
    rows_count: u64,
    queue: PieceQueue,
    /// The number of readers that have begun.
    begun: AtomicUsize,
}

/// Encodes the rows of a batch.
pub(super) type Encode<'e> = dyn Fn(&RecordBatch, &mut RowBatch) -> Result<()> + 'e;

/// A sample that is taken before the job.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// When it was begun.
    begun: Option<Instant>,
    pub(super) keys: Vec<Vec<u8>>,
    /// Statistics of rows that were sampled whole.
    seen: SeenRows,
}

/// The number of rows, and their total length.
#[derive(Debug, Default, Clone, Copy)]
struct SeenRows {
    count: f64,
    /// The length includes the prefixes.
    bytes: f64,
    key_bytes: f64,
}

impl<'a> RowsIn<'a> {
    /// Opens the rows of `input` as `codec` encodes them, and takes the sample.
    ///
    /// # Errors
    /// As [`TableInput::reader`]; errors of reading.
    pub(super) fn open(
        input: &'a TableInput,
        codec: &'a RowCodec,
        keys: RowKeys<'a>,
        shape: ReadShape,
    ) -> Result<Self> {
        let mut sample = Sample::begin();
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

    /// Rejects rows that exceed `limit` before they are sorted.
    pub(super) fn limited(self, limit: WriteShape) -> Self {
        RowsIn {
            limit: Some(limit),
            ..self
        }
    }

    /// The average bytes of a row.
    pub(super) fn row_bytes(&self) -> f64 {
        self.sample.row_bytes()
    }

    /// Fails for a row that is too long for the writer; the first row is at `position`.
    fn check_lens(&self, rows: &RowBatch, position: u64) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        if rows.bytes() as u64 <= limit.row_bytes_max() {
            return Ok(());
        }
        for (number, row) in rows.iter().enumerate() {
            let (piece, place) = piece_and_place(position + number as u64);
            let placed = |error| self.input.at_row(self.input.pieces()[piece], place, error);
            limit.check_row(row).map_err(placed)?;
        }
        Ok(())
    }
}

/// Chooses at most `count` of `pieces`, evenly spread.
pub(super) fn spread(pieces: &[Piece], count: usize) -> impl Iterator<Item = Piece> {
    let chosen = count.min(pieces.len());
    (0..chosen).map(move |index| pieces[(2 * index + 1) * pieces.len() / (2 * chosen)])
}

/// Returns the job with a separate budget for one reader.
fn alone(job: &Job, reader_bytes: u64) -> Job {
    Job {
        budget: Budget::new(reader_bytes),
        ..job.clone()
    }
}

impl Sample {
    /// Samples whole rows, as `encode` makes them.
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

    /// Adds whole rows to the statistics.
    pub(super) fn see_rows(&mut self, rows: &RowBatch) {
        let key_bytes = |row: &[u8]| key_of(row).map_or(0, <[u8]>::len);
        self.seen.count += rows.len() as f64;
        self.seen.bytes += rows.bytes() as f64;
        self.seen.key_bytes += rows.iter().map(key_bytes).sum::<usize>() as f64;
    }

    /// Samples the key columns; `encode` converts them to rows.
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

    /// Samples the key columns of `codec`.
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

    /// Begins a sample.
    pub(super) fn begin() -> Self {
        Sample {
            begun: Some(Instant::now()),
            ..Sample::default()
        }
    }

    /// The cost of this sample, if it is complete now and `read_bytes` were read for it.
    pub(super) fn cost(&self, read_bytes: u64) -> Sampled {
        Sampled {
            bytes: read_bytes,
            seconds: self
                .begun
                .map_or(0.0, |begun| begun.elapsed().as_secs_f64()),
        }
    }

    /// The average bytes of a row.
    pub(super) fn row_bytes(&self) -> f64 {
        self.mean().map_or(0.0, |mean| mean.row_bytes)
    }

    /// The average length of the rows that were sampled whole.
    pub(super) fn mean(&self) -> Option<MeanRow> {
        let seen = self.seen;
        (seen.count > 0.0).then(|| MeanRow {
            row_bytes: seen.bytes / seen.count,
            key_bytes: seen.key_bytes / seen.count,
        })
    }

    /// Keeps this share of the keys, evenly spread.
    pub(super) fn thin_out(&mut self, share: f64) {
        let mut due = 0.0;
        self.keys.retain(|_| {
            due += share;
            let is_kept = due >= 1.0;
            due -= f64::from(u8::from(is_kept));
            is_kept
        });
    }

    /// Passes the sampled keys to the engine; [`Sample::mean`] gives the length of their rows.
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

    /// Random keys need no sample; they are drawn here.
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
        // The reader holds a batch of arrays, and its rows need the same memory once more. With
        // `Made` keys, further arrays are computed.
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

    fn sampled(&self) -> Sampled {
        self.sample.cost(self.input.read_bytes())
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
        let mut take = |rows: &RowBatch, position: u64, _: bool| take(rows, position);
        self.make_again(TakenRows::NONE, &mut take)
    }

    fn make_again(&self, taken: TakenRows<'_>, take: &mut TakeAgain<'_>) -> Result<()> {
        if !taken.is_making(self.shape.readers_count, &self.begun) {
            return Ok(());
        }
        let mut reader = self.input.reader(self.shape.reader_bytes)?;
        each_piece(
            self.input,
            &self.queue,
            taken,
            &mut reader,
            |reader, number, end| self.make_piece(reader, number, end, take),
        )
    }
}

impl RowsIn<'_> {
    /// Passes on the rows of a piece. Rows before the position `end` are marked: the killed run
    /// passed them on already.
    fn make_piece(
        &self,
        reader: &mut TableReader<'_>,
        number: usize,
        end: u64,
        take: &mut TakeAgain<'_>,
    ) -> Result<()> {
        let at_once = self.shape.batch_bytes as f64 / self.sample.row_bytes().max(1.0);
        let at_once = (at_once as usize).clamp(1, ROWS_AT_ONCE);
        let mut rows = RowBatch::default();
        let mut position = position_of(number)?;
        for batch in reader.open(self.input.pieces()[number])? {
            let batch = batch?;
            let repeated = end.saturating_sub(position).min(batch.num_rows() as u64) as usize;
            let halves = [
                (batch.slice(0, repeated), true),
                (batch.slice(repeated, batch.num_rows() - repeated), false),
            ];
            for (half, is_repeated) in halves {
                for part in parts_of(&half, at_once) {
                    rows.clear();
                    self.keys.encode(self.codec, &part, position, &mut rows)?;
                    self.check_lens(&rows, position)?;
                    take(&rows, position, is_repeated)?;
                    position += part.num_rows() as u64;
                }
            }
        }
        Ok(())
    }
}

/// Passes on rows of a piece. The first of them is row `at` among the rows made from the piece.
/// Rows before the position `end` are marked: the killed run passed them on already.
pub(super) fn take_made(
    rows: &RowBatch,
    at: u64,
    end: u64,
    take: &mut TakeAgain<'_>,
) -> Result<()> {
    let repeated = end.saturating_sub(at);
    if repeated == 0 || repeated >= rows.len() as u64 {
        return match rows.is_empty() {
            true => Ok(()),
            false => take(rows, at, repeated > 0),
        };
    }
    let mut halves = [RowBatch::default(), RowBatch::default()];
    for (number, row) in rows.iter().enumerate() {
        halves[usize::from(number as u64 >= repeated)].push(row)?;
    }
    take(&halves[0], at, true)?;
    take(&halves[1], end, false)
}

/// Makes the rows of all pieces that this thread takes: first the pieces that it had taken before
/// the job was killed, and then pieces from the queue. `make` gets the number of a piece, and the
/// position at which the rows of the killed run end.
pub(super) fn each_piece<'a>(
    input: &TableInput,
    queue: &PieceQueue,
    taken: TakenRows<'_>,
    reader: &mut TableReader<'a>,
    mut make: impl FnMut(&mut TableReader<'a>, usize, u64) -> Result<()>,
) -> Result<()> {
    let own = ends_of(taken.own);
    queue.leave_out(pieces_of(taken.all));
    reader.expect(own.iter().map(|(number, _)| input.pieces()[*number]));
    for (number, end) in own {
        make(reader, number, end)?;
    }
    while let Some((number, _)) = reader.take(queue) {
        make(reader, number, 0)?;
    }
    Ok(())
}

/// The pieces of stretches that end at these positions.
pub(super) fn pieces_of(taken: &[u64]) -> impl Iterator<Item = usize> {
    taken.iter().map(|end| piece_and_place(end - 1).0)
}

/// The pieces of stretches that end at these positions, in order, and the end of the last stretch
/// in each.
pub(super) fn ends_of(taken: &[u64]) -> Vec<(usize, u64)> {
    let mut ends: Vec<(usize, u64)> = Vec::new();
    for end in taken {
        let (piece, _) = piece_and_place(end - 1);
        match ends.last_mut() {
            Some(last) if last.0 == piece => last.1 = *end,
            _ => ends.push((piece, *end)),
        }
    }
    ends
}

/// Splits a batch into parts of at most this many rows.
pub(super) fn parts_of(
    batch: &RecordBatch,
    rows_at_once: usize,
) -> impl Iterator<Item = RecordBatch> {
    let count = batch.num_rows();
    let starts = (0..count).step_by(rows_at_once);
    starts.map(move |from| batch.slice(from, rows_at_once.min(count - from)))
}

/// Splits a batch of rows with these lengths into parts of about `bytes_at_once`, with at least one
/// row and at most [`ROWS_AT_ONCE`].
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

/// Returns the number of a row's piece, and its place in the piece.
pub(super) fn piece_and_place(position: u64) -> (usize, u64) {
    let piece = usize::try_from(position >> PLACE_BITS).unwrap_or(usize::MAX);
    (piece, position & ((1 << PLACE_BITS) - 1))
}

/// Returns the position of the first row of a piece.
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
        let mut sample = Sample::begin();
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
