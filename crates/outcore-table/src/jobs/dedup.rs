//! Tables without duplicates, in the order of the input.
//!
//! Contract: of the rows of each key one is kept, the first, the last, or the one that comes first in the order of further
//! columns; those that are kept stay where they were. Nulls are equal to each other. [`unique`](super::unique()) gives
//! the same rows in the order of their keys.
//!
//! Two passes. The first reads the columns of the keys and no others, sorts them with the rows' positions, and marks in a bit
//! for each row whether it is kept. The second copies the rows that are marked. So keys are all that goes through scratch,
//! and a duplicate costs its key.
//!
//! Bounds: a bit a row in memory; I/O one read of the key columns, their sort, and a copy.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use arrow_array::{BooleanArray, RecordBatch};
use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::rows::{RowPart, RowSink, RowSource};
use outcore::sort::lines::{RowSortOptions, sort_rows};
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::{Change, Copied, copy_changed, filtered};
use super::rows_in::{RowKeys, RowsIn, piece_and_place};
use super::sort::{KeyInFront, read_shape, scratch_dir};
use super::{TableEnds, TableSummary};
use crate::input::{Piece, TableInput};
use crate::output::OutputOptions;
use crate::rows::{KeyColumn, RowCodec, place_of};

const DEDUP: &str = "remove duplicates";
/// What the marks reserve, by name in a ledger.
const MARKS: &str = "rows that are kept";
/// Bytes of rows that one thread marks before it takes others.
const PART_BYTES: u64 = 32 << 20;

/// Which row of each key is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Keep {
    /// The first in the input.
    #[default]
    First,
    /// The last in the input.
    Last,
    /// The first in the order of these columns, and of several the first in the input.
    Best(Vec<KeyColumn>),
}

/// What was kept, and what was not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DedupSummary {
    /// The whole job.
    pub table: TableSummary,
    /// Rows that were left out.
    pub removed: u64,
    /// Length of the file with those; nothing if there is none.
    pub removed_bytes: u64,
}

/// Copies a table without the rows whose `keys` are those of a row that is kept, or by all columns if there are none;
/// what is left out goes to the file `removed`, if there is one.
///
/// # Errors
/// As [`sort`](super::sort()) and [`copy`](super::copy()).
pub fn dedup(
    job: &Job,
    ends: &TableEnds<'_>,
    (keys, keep): (&[KeyColumn], &Keep),
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<DedupSummary> {
    let started = Instant::now();
    let own = Job {
        budget: Budget::new(job.budget.free_bytes() / 2),
        ..job.clone()
    };
    let input = TableInput::open(&own, ends.inputs, ends.reads)?;
    let marks = Marks::of(input.pieces());
    let marks_bytes = marks
        .pieces
        .iter()
        .map(|piece| piece.len() * size_of::<u64>());
    let _marks = job
        .budget
        .reserve(MARKS, marks_bytes.sum::<usize>() as u64)?;
    let keys: Vec<KeyColumn> = match keys.is_empty() {
        true => input
            .schema()
            .fields()
            .iter()
            .map(|field| KeyColumn::new(field.name()))
            .collect(),
        false => keys.to_vec(),
    };
    let order = match keep {
        Keep::Best(columns) => [&keys[..], columns].concat(),
        Keep::First | Keep::Last => keys.clone(),
    };
    let sorted = mark(
        job,
        &input,
        (&keys, &order),
        keep,
        &marks,
        &scratch_dir(ends.outputs),
    )?;
    let keys_bytes = input.read_bytes();
    let counts = marks.counts();
    let copy = |outputs: &[PathBuf], writes: &OutputOptions, is_kept: bool, held_bytes: u64| {
        let kept = Kept {
            marks: &marks,
            counts: &counts,
            pieces: input.pieces(),
            is_kept,
        };
        let opened = Job {
            budget: Budget::new(job.budget.free_bytes().saturating_sub(held_bytes)),
            ..job.clone()
        };
        let to = (outputs, input.schema(), writes);
        copy_changed(&opened, &input.under(&opened)?, to, &kept)
    };
    // Both are written before either appears.
    let left_out = match removed {
        None => None,
        Some((path, writes)) => Some(copy(std::slice::from_ref(path), writes, false, 0)?),
    };
    let held_bytes = left_out.as_ref().map_or(0, |_| Copied::HELD_BYTES);
    let kept = copy(ends.outputs, ends.writes, true, held_bytes)?;
    let left_out = left_out.map(Copied::publish).transpose()?;
    let left_out = left_out.unwrap_or_default();
    let kept = kept.publish()?;
    Ok(DedupSummary {
        removed: kept.rows_in - kept.rows_out,
        removed_bytes: left_out.lens_bytes.iter().sum(),
        table: TableSummary {
            seconds: started.elapsed().as_secs_f64(),
            // The input counts all that was read of it.
            read_bytes: sorted.read_bytes + kept.read_bytes - keys_bytes,
            written_bytes: sorted.written_bytes + left_out.written_bytes + kept.written_bytes,
            scratch_bytes: sorted.scratch_bytes,
            passes: sorted.passes + kept.passes,
            phases: sorted.phases,
            ..kept
        },
    })
}

/// Marks the rows that are kept.
fn mark(
    job: &Job,
    input: &TableInput,
    (keys, order): (&[KeyColumn], &[KeyColumn]),
    keep: &Keep,
    marks: &Marks,
    scratch_dir: &std::path::Path,
) -> Result<TableSummary> {
    let mut columns: Vec<String> = Vec::new();
    for key in order {
        if !columns.contains(&key.name) {
            columns.push(key.name.clone());
        }
    }
    let narrow = input.narrowed(&columns, input.job())?;
    let (codec, group) = (
        RowCodec::new(narrow.schema(), order)?,
        RowCodec::new(narrow.schema(), keys)?,
    );
    let shape = read_shape(job, narrow.memory_min_bytes(), usize::MAX);
    job.control.begin_phase("sample", 0);
    let source = RowsIn::open(&narrow, &codec, RowKeys::Places { group: &group }, shape)?;
    let sample_bytes = narrow.read_bytes();
    let sink = MarkSink {
        marks,
        keeps_last: *keep == Keep::Last,
        edges: Mutex::new(Vec::new()),
        part_bytes: (source.data_bytes() / shape.readers_count as u64).clamp(1, PART_BYTES),
    };
    let options = RowSortOptions {
        scratch_dir: scratch_dir.to_path_buf(),
        ..RowSortOptions::default()
    };
    let mut job = job.clone();
    job.options.threads = shape.readers_count;
    let done = sort_rows(
        &job,
        &source,
        &sink,
        &KeyInFront { tie: Tie::Position },
        &options,
    )?;
    sink.join_edges()?;
    let read_bytes = (sample_bytes, narrow.read_bytes());
    Ok(TableSummary::of_sort(done, read_bytes, Vec::new()))
}

/// A bit for each row of each piece: whether it is kept.
struct Marks {
    pieces: Vec<Vec<AtomicU64>>,
}

impl Marks {
    fn of(pieces: &[Piece]) -> Self {
        let words = |piece: &Piece| (0..piece.rows_count.div_ceil(64)).map(|_| AtomicU64::new(0));
        Marks {
            pieces: pieces.iter().map(|piece| words(piece).collect()).collect(),
        }
    }

    fn word(&self, piece: usize, place: u64) -> Result<&AtomicU64> {
        let words = self.pieces.get(piece);
        let word = words.and_then(|words| words.get((place / 64) as usize));
        word.ok_or_else(|| {
            Error::corrupt(DEDUP, "a row group has more rows than its file says")
                .hint("the file is damaged: copy or write it again")
        })
    }

    /// Turns the mark of the row at a position.
    fn turn(&self, position: u64) -> Result<()> {
        let (piece, place) = piece_and_place(position);
        let word = self.word(piece, place)?;
        word.fetch_xor(1 << (place % 64), Ordering::Relaxed);
        Ok(())
    }

    fn is_set(&self, piece: usize, place: u64) -> Result<bool> {
        let word = self.word(piece, place)?.load(Ordering::Relaxed);
        Ok(word >> (place % 64) & 1 == 1)
    }

    /// Of each piece: rows that are kept.
    fn counts(&self) -> Vec<u64> {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        self.pieces
            .iter()
            .map(|piece| piece.iter().map(ones).sum())
            .collect()
    }
}

/// Takes keys in order and marks one row of each.
struct MarkSink<'m> {
    marks: &'m Marks,
    keeps_last: bool,
    part_bytes: u64,
    /// Where parts begin and end.
    edges: Mutex<Vec<Edge>>,
}

/// What a part says about the keys at its two ends.
struct Edge {
    number: usize,
    first_key: Vec<u8>,
    /// The row of the first key that was marked.
    first_marked: u64,
    last_key: Vec<u8>,
}

struct MarkPart<'m> {
    sink: &'m MarkSink<'m>,
    number: usize,
    first: Option<(Vec<u8>, u64)>,
    /// The key that was last seen, and the last of its rows.
    last: Option<(Vec<u8>, u64)>,
}

impl RowSink for MarkSink<'_> {
    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn begin(&self, number: usize, _rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        Ok(Box::new(MarkPart {
            sink: self,
            number,
            first: None,
            last: None,
        }))
    }
}

impl RowPart for MarkPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        let keeps_last = self.sink.keeps_last;
        for row in rows {
            let (key, position) =
                place_of(row).ok_or_else(|| Error::corrupt(DEDUP, "a row is cut short"))?;
            match &mut self.last {
                Some((last, at)) if last == key => *at = position,
                last => {
                    if let Some((_, at)) = last.as_ref().filter(|_| keeps_last) {
                        self.sink.marks.turn(*at)?;
                    }
                    if !keeps_last {
                        self.sink.marks.turn(position)?;
                    }
                    if self.first.is_none() {
                        self.first = Some((key.to_vec(), position));
                    }
                    match last {
                        Some((last, at)) => {
                            last.clear();
                            last.extend_from_slice(key);
                            *at = position;
                        }
                        None => *last = Some((key.to_vec(), position)),
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let (Some((first_key, first_marked)), Some((last_key, at))) = (self.first, self.last)
        else {
            return Ok(());
        };
        if self.sink.keeps_last {
            self.sink.marks.turn(at)?;
        }
        let mut edges = self
            .sink
            .edges
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        edges.push(Edge {
            number: self.number,
            first_key,
            first_marked,
            last_key,
        });
        Ok(())
    }
}

impl MarkSink<'_> {
    /// A key whose rows are in several parts was marked in each of them: the first is right. Without further columns in the
    /// order there is none, since rows of equal keys stay together.
    fn join_edges(self) -> Result<()> {
        let mut edges = self
            .edges
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        edges.sort_by_key(|edge| edge.number);
        for pair in edges.windows(2) {
            if pair[0].last_key == pair[1].first_key {
                self.marks.turn(pair[1].first_marked)?;
            }
        }
        Ok(())
    }
}

/// The rows that are marked, or the others.
struct Kept<'k> {
    marks: &'k Marks,
    counts: &'k [u64],
    pieces: &'k [Piece],
    is_kept: bool,
}

impl Change for Kept<'_> {
    fn count(&self, piece: usize) -> Option<u64> {
        let count = *self.counts.get(piece)?;
        Some(match self.is_kept {
            true => count,
            false => self.pieces.get(piece)?.rows_count - count,
        })
    }

    fn apply(&self, piece: usize, first: u64, batch: RecordBatch) -> Result<RecordBatch> {
        let places = first..first + batch.num_rows() as u64;
        let taken = places.map(|place| Ok(Some(self.marks.is_set(piece, place)? == self.is_kept)));
        let taken: BooleanArray = taken.collect::<Result<_>>()?;
        filtered(&batch, &taken)
    }
}
