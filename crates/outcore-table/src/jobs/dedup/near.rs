//! Removes rows whose texts are nearly the same.
//!
//! Contract: two rows are in one set if their texts share a band ([`minhash`](super::minhash)), or
//! if both are in one set with a third row. One row of each set is kept, the first or the last.
//! Rows without text, or without a word in it, are kept. The result depends only on the rows, the
//! options and the seed.
//!
//! The bands of all texts are sorted with their row numbers, 16 bytes each. Rows with equal bands
//! are then adjacent, and their sets are merged ([`components`](super::components)). Removed rows
//! get a column `duplicate_of`: the number, from 0, of the row that was kept instead.
//!
//! Bounds: four bytes of memory per row. I/O is one read of the text, the sort of its bands, and a
//! copy.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::sort::lines::RowOption;
use outcore::sort::lines::rows::{
    RowBatch, RowPart, RowSink, RowSource, TakeAgain, TakeRows, TakenRows,
};
use outcore::{Forecast, Job};
use outcore_io::memory::Budget;
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Result};

use super::by_key::Keeping;
use super::components::Components;
use super::minhash::{MinHash, Shingles, Space};
use super::{Chosen, DEDUP, DedupSummary, refuse_removed, write, write_kept};
use crate::fault;
use crate::input::{Piece, PieceQueue, TableInput, TableReader};
use crate::jobs::copy::{Change, WriteBatch, filtered, starts_of};
use crate::jobs::journal::{self, scratch_dir};
use crate::jobs::rows_in::{ReadShape, each_piece, position_of, take_made};
use crate::jobs::sort::{open, read_shape, sort_all};
use crate::jobs::{TableEnds, TableSummary};
use crate::notation::notation;
use crate::output::{OutputOptions, StagedFile};
use crate::schema::FieldPlace;

/// The ledger's name for the memory of the sets.
const SETS: &str = "rows that belong together";
/// The column with the number of the kept row.
const KEPT_COLUMN: &str = "duplicate_of";
const BAND_BYTES: usize = 8;
const ROW_BYTES: usize = BAND_BYTES + size_of::<u32>();
/// Bytes of bands that a thread takes at a time.
const PART_BYTES: u64 = 32 << 20;
/// The number of bands in the engine's sample.
const SAMPLE_BANDS: u64 = 1 << 16;
const SHOWN_ROWS: u64 = 1 << 10;

/// Defines which texts are nearly the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Near {
    /// The text column.
    pub column: String,
    /// The least similarity: the share of the shingles of two texts that occur in both.
    pub jaccard: f64,
    /// The units into which texts are cut.
    pub shingles: Shingles,
    /// Hashes per text; more give more reliable results.
    pub hashes_count: usize,
    /// The seed of the hashes.
    pub seed: u64,
    /// Keeps the last row of a set, not the first.
    pub keeps_last: bool,
}

impl Near {
    /// Compares the texts of a column, with five words per shingle and 128 hashes.
    pub fn new(column: impl Into<String>, jaccard: f64) -> Self {
        Near {
            column: column.into(),
            jaccard,
            shingles: Shingles::Words(5),
            hashes_count: 128,
            seed: 1,
            keeps_last: false,
        }
    }

    /// The options that determine the output, for the comparison with a killed run.
    fn said(&self) -> Vec<RowOption> {
        let keep = match self.keeps_last {
            true => "last",
            false => "first",
        };
        vec![
            journal::option("text column", &self.column),
            journal::option("least similarity", self.jaccard),
            journal::option("shingles", format!("{:?}", self.shingles)),
            journal::option("number of hashes", self.hashes_count),
            journal::option("seed", self.seed),
            journal::option("choice of the kept row", keep),
        ]
    }
}

/// Copies a table and keeps one row of each set with nearly the same text. Removed rows go to the
/// file `removed`, if given, with the number of the row that was kept.
///
/// # Errors
/// As [`dedup`](super::dedup()). Usage: a column that is not text, an invalid similarity or number
/// of hashes, more than 2^32 rows.
pub fn dedup_near(
    job: &Job,
    ends: &TableEnds<'_>,
    near: &Near,
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<DedupSummary> {
    let started = Instant::now();
    refuse_removed(job, removed.is_some())?;
    let mut journal = journal::begin(job, ends, "near duplicates of a table", near.said())?;
    let job = &journal::job(job, journal.as_ref());
    let input = open(job, ends)?;
    let hash = MinHash::new(near.shingles, near.jaccard, near.hashes_count, near.seed)?;
    check_text(input.schema(), &near.column)?;
    let rows_count = u32::try_from(input.rows_count()).map_err(|_| {
        Error::usage(DEDUP, "the table has more than 2^32 rows")
            .hint("remove near duplicates from parts of the table first")
    })?;
    let staged = match journal::claim(job, [&input], ends.outputs, ends.writes, journal.as_mut())? {
        ControlFlow::Break(table) => return Ok(DedupSummary::finished(table)),
        ControlFlow::Continue(staged) => staged,
    };
    let sets_bytes = Components::memory_bytes(u64::from(rows_count));
    let _sets = job.budget.reserve(SETS, sets_bytes)?;
    let sets = Components::new(rows_count, near.keeps_last);
    let texts = input.narrowed(std::slice::from_ref(&near.column), input.job())?;
    // The copy has the same memory, even if a killed run had done a part of the sort.
    let copying = Job {
        budget: Budget::new(job.budget.free_bytes()),
        ..job.clone()
    };
    let kept = Keeping {
        scratch_dir: &scratch_dir(ends.outputs),
        staged: staged.as_ref().map(StagedFile::staged),
        journal: journal.as_mut(),
    };
    let sorted = unite(job, &texts, &hash, &sets, kept)?;
    let rows = Rows::of(&sets, input.pieces());
    let fields = input.schema().fields().iter().cloned();
    let kept_field = Arc::new(Field::new(KEPT_COLUMN, DataType::UInt64, false));
    let fields: Vec<_> = fields.chain([kept_field]).collect();
    let others_schema = Arc::new(Schema::new_with_metadata(
        fields,
        input.schema().metadata().clone(),
    ));
    if removed.is_some() {
        let hint = "rename that column, or leave out the file of removed rows";
        crate::schema::check_names(&others_schema).map_err(|error| error.hint(hint))?;
    }
    let chosen = Chosen {
        kept: &Alone(&rows),
        others: &Others {
            rows: &rows,
            schema: &others_schema,
        },
        others_schema: &others_schema,
    };
    let sorted = super::Sorted {
        input: &input,
        sorted,
    };
    let done = match removed {
        None => write_kept(&copying, ends, sorted, &chosen, staged, journal)?,
        Some(_) => write(job, ends, sorted, &chosen, removed)?,
    };
    Ok(done.since(started))
}

pub(super) fn check_text(schema: &SchemaRef, name: &str) -> Result<()> {
    let field = FieldPlace::of(schema, name, DEDUP)?.field(schema, name);
    let plain = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    match plain {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ok(()),
        other => Err(Error::usage(
            DEDUP,
            format!(
                "column `{name}` is {}, but near duplicates are found in text",
                notation(other)
            ),
        )
        .hint("name a column of texts")),
    }
}

/// Merges the sets of rows whose texts share a band.
fn unite(
    job: &Job,
    texts: &TableInput,
    hash: &MinHash,
    sets: &Components,
    kept: Keeping<'_>,
) -> Result<TableSummary> {
    let shape = read_shape(job, texts.need(), usize::MAX);
    job.control.begin_phase("sample", 0);
    let source = BandsIn {
        texts,
        hash,
        shape,
        starts: starts_of(texts.pieces()),
        queue: PieceQueue::new(shape.readers_count),
        begun: AtomicUsize::new(0),
    };
    let sink = UniteSink {
        sets,
        part_bytes: (source.data_bytes() / shape.readers_count as u64).clamp(1, PART_BYTES),
        staged: kept.staged,
    };
    let dir = kept.scratch_dir.to_path_buf();
    let ends: (&dyn RowSource, &dyn RowSink) = (&source, &sink);
    let done = sort_all(job, shape.readers_count, ends, &BandKey, dir, kept.journal)?;
    Ok(TableSummary::of_sort(
        done,
        (0, texts.read_bytes()),
        Vec::new(),
    ))
}

/// Bands with their row numbers, as input of the engine.
struct BandsIn<'a> {
    texts: &'a TableInput,
    hash: &'a MinHash,
    shape: ReadShape,
    starts: Vec<u64>,
    /// The pieces that no thread has taken yet.
    queue: PieceQueue,
    begun: AtomicUsize,
}

fn push_band(rows: &mut RowBatch, band: u64, row: u32) -> Result<()> {
    let mut bytes = [0; ROW_BYTES];
    bytes[..BAND_BYTES].copy_from_slice(&band.to_be_bytes());
    bytes[BAND_BYTES..].copy_from_slice(&row.to_be_bytes());
    rows.push(&bytes)
}

impl RowSource for BandsIn<'_> {
    fn data_bytes(&self) -> u64 {
        let row_bytes = (ROW_BYTES + size_of::<u32>()) as u64;
        self.texts.rows_count() * self.hash.shape().0 as u64 * row_bytes
    }

    fn memory_bytes(&self) -> u64 {
        // Arrays as read, texts converted to one type, and a batch of bands.
        let batches_bytes = 3 * self.shape.batch_bytes;
        (self.shape.reader_bytes + batches_bytes) * self.shape.readers_count as u64
    }

    fn read_forecast(&self) -> Forecast {
        self.texts.stored_bytes().into()
    }

    /// Bands are uniformly distributed.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut rows = RowBatch::default();
        for from in (0..SAMPLE_BANDS).step_by(SHOWN_ROWS as usize) {
            rows.clear();
            for number in from..from + SHOWN_ROWS {
                push_band(&mut rows, number.wrapping_mul(u64::MAX / SAMPLE_BANDS), 0)?;
            }
            take(&rows, 0)?;
        }
        Ok(())
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut take = |rows: &RowBatch, position: u64, _: bool| take(rows, position);
        self.make_again(TakenRows::NONE, &mut take)
    }

    fn make_again(&self, taken: TakenRows<'_>, take: &mut TakeAgain<'_>) -> Result<()> {
        if !taken.is_making(self.shape.readers_count, &self.begun) {
            return Ok(());
        }
        let mut reader = self.texts.reader(self.shape.reader_bytes)?;
        let mut space = Space::default();
        each_piece(
            self.texts,
            &self.queue,
            taken,
            &mut reader,
            |reader, number, end| self.make_piece(reader, &mut space, number, end, take),
        )
    }
}

impl BandsIn<'_> {
    /// Passes on the bands of a piece; positions count the bands. Bands before the position `end`
    /// are marked: the killed run passed them on already.
    fn make_piece(
        &self,
        reader: &mut TableReader<'_>,
        space: &mut Space,
        number: usize,
        end: u64,
        take: &mut TakeAgain<'_>,
    ) -> Result<()> {
        let mut rows = RowBatch::default();
        let mut row = self.starts.get(number).copied().unwrap_or(0) as u32;
        let mut at = position_of(number)?;
        for batch in reader.open(self.texts.pieces()[number])? {
            let batch = batch?;
            let texts = cast(batch.column(0), &DataType::LargeUtf8);
            let texts = texts.map_err(|error| fault::arrow(DEDUP, &error))?;
            for text in texts.as_string::<i64>() {
                let mut pushed = Ok(());
                if let Some(text) = text {
                    self.hash.bands(text, space, |band| {
                        if pushed.is_ok() {
                            pushed = push_band(&mut rows, band, row);
                        }
                    });
                }
                pushed?;
                row += 1;
                if rows.bytes() as u64 >= self.shape.batch_bytes {
                    take_made(&rows, at, end, take)?;
                    at += rows.len() as u64;
                    rows.clear();
                }
            }
        }
        take_made(&rows, at, end, take)
    }
}

/// Orders rows by band.
struct BandKey;

impl SortKey for BandKey {
    fn append_key(&self, row: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let band = row.get(..BAND_BYTES);
        key.extend_from_slice(band.ok_or_else(|| NoKey("it is cut short".to_owned()))?);
        Ok(())
    }

    fn tie(&self) -> Tie {
        Tie::Bytes
    }
}

/// Takes bands in order, and merges the sets of the rows with equal bands.
struct UniteSink<'s> {
    sets: &'s Components,
    part_bytes: u64,
    staged: Option<&'s StagedOutput>,
}

struct UnitePart<'s> {
    sets: &'s Components,
    last: Option<(u64, u32)>,
}

impl RowSink for UniteSink<'_> {
    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn keeps_keys_together(&self) -> bool {
        true
    }

    fn staged(&self) -> Option<&StagedOutput> {
        self.staged
    }

    fn begin(&self, _: usize, _: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(UnitePart {
            sets: self.sets,
            last: None,
        }))
    }
}

impl RowPart for UnitePart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        for row in rows {
            let (band, row) = row.split_first_chunk().ok_or_else(cut_short)?;
            let (band, row) = (
                u64::from_be_bytes(*band),
                u32::from_be_bytes(row.try_into().map_err(|_| cut_short())?),
            );
            if let Some((_, last)) = self.last.filter(|(known, _)| *known == band) {
                self.sets.unite(last, row);
            }
            self.last = Some((band, row));
        }
        Ok(())
    }

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn cut_short() -> Error {
    Error::corrupt(DEDUP, "a band is cut short").hint("a bug, or scratch was changed: run again")
}

/// Rows and their representatives.
struct Rows<'r> {
    sets: &'r Components,
    starts: Vec<u64>,
    pieces: &'r [Piece],
    /// The number of kept rows in each piece.
    kept_counts: Vec<u64>,
}

impl<'r> Rows<'r> {
    fn of(sets: &'r Components, pieces: &'r [Piece]) -> Self {
        let starts = starts_of(pieces);
        let kept = starts.iter().zip(pieces).map(|(&start, piece)| {
            let rows = start as u32..(start + piece.rows_count) as u32;
            rows.filter(|&row| sets.representative(row) == row).count() as u64
        });
        Rows {
            kept_counts: kept.collect(),
            sets,
            starts,
            pieces,
        }
    }

    /// Returns the kept rows of a batch, or the removed ones, with the representative of each.
    fn chosen(
        &self,
        piece: usize,
        first: u64,
        batch: &RecordBatch,
        is_kept: bool,
    ) -> Result<(RecordBatch, Vec<u64>)> {
        let ends = self.starts.get(piece).zip(self.pieces.get(piece));
        let ends = ends.filter(|(_, piece)| first + batch.num_rows() as u64 <= piece.rows_count);
        let (&start, _) = ends.ok_or_else(|| {
            Error::corrupt(DEDUP, "a row group has more rows than its file says")
                .hint("the file is damaged: copy or write it again")
        })?;
        let rows = (start + first) as u32..(start + first) as u32 + batch.num_rows() as u32;
        let stands: Vec<u32> = rows
            .clone()
            .map(|row| self.sets.representative(row))
            .collect();
        let taken = rows
            .zip(&stands)
            .map(|(row, stand)| (row == *stand) == is_kept);
        let taken: Vec<bool> = taken.collect();
        let stands = stands.iter().zip(&taken).filter(|(_, is_taken)| **is_taken);
        let stands = stands.map(|(stand, _)| u64::from(*stand)).collect();
        Ok((filtered(batch, &BooleanArray::from(taken))?, stands))
    }
}

/// The kept rows.
struct Alone<'r>(&'r Rows<'r>);

impl Change for Alone<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        self.0.kept_counts.get(piece).copied()
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        write(&self.0.chosen(piece, first, &batch, true)?.0)
    }
}

/// The removed rows, each with the row that was kept instead.
struct Others<'r> {
    rows: &'r Rows<'r>,
    schema: &'r SchemaRef,
}

impl Change for Others<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        let all = self.rows.pieces.get(piece)?.rows_count;
        Some(all - self.rows.kept_counts.get(piece)?)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let (batch, stands) = self.rows.chosen(piece, first, &batch, false)?;
        let mut columns = batch.columns().to_vec();
        let stands: ArrayRef = Arc::new(UInt64Array::from(stands));
        columns.push(stands);
        let batch = RecordBatch::try_new(Arc::clone(self.schema), columns);
        write(&batch.map_err(|error| fault::arrow(DEDUP, &error))?)
    }
}
