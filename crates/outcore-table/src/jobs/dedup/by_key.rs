//! Removes rows with equal keys: sorts keys with their rows' positions, and marks one row per key.
//!
//! Contract: [`mark`] reads only the key columns, and flips the mark of one row of each key.
//!
//! Bounds: I/O is one read of the key columns, and their sort.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::RowJournal;
use outcore::sort::lines::rows::{LongRow, RowPart, RowSink, RowSource};
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Result};
use twox_hash::XxHash3_128;

use super::marks::Marks;
use super::{DEDUP, Keep};
use crate::input::TableInput;
use crate::jobs::TableSummary;
use crate::jobs::room::{Room, RowCosts, Sorts, as_key};
use crate::jobs::rows_in::{RowKeys, RowsIn};
use crate::jobs::sort::{KeyInFront, sort_all};
use crate::rows::{KeyColumn, RowCodec, place_of};

/// Bytes of rows that a thread marks at a time.
const PART_BYTES: u64 = 32 << 20;
/// Longer keys are kept as hashes.
const KEPT_KEY_BYTES: usize = 4 << 10;

/// The places where the sort of the keys keeps its progress.
pub(super) struct Keeping<'k> {
    /// Scratch, if the job names no drives.
    pub(super) scratch_dir: &'k Path,
    /// The output of a job with a journal, which is written after the sort.
    pub(super) staged: Option<&'k StagedOutput>,
    /// The journal.
    pub(super) journal: Option<&'k mut RowJournal>,
}

/// Marks the rows that are kept.
pub(super) fn mark(
    job: &Job,
    input: &TableInput,
    (keys, order): (&[KeyColumn], &[KeyColumn]),
    keep: &Keep,
    marks: &Marks,
    kept: Keeping<'_>,
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
    let room = |narrow: &TableInput| Room {
        job,
        need: narrow.need(),
        written: None,
        costs: costs(narrow, &codec, &group),
        data_bytes: narrow.stored_bytes(),
        sorts: Sorts::Whole,
    };
    let (shape, _) = room(&narrow).shapes();
    let marked = |kept: Keeping<'_>| {
        job.control.begin_phase("sample", 0);
        let source = RowsIn::open(&narrow, &codec, RowKeys::Places { group: &group }, shape)?;
        let sample_bytes = narrow.read_bytes();
        let sink = MarkSink {
            marks,
            keeps_last: *keep == Keep::Last,
            edges: Mutex::new(Vec::new()),
            part_bytes: (source.data_bytes() / shape.readers_count as u64).clamp(1, PART_BYTES),
            taken_bytes: costs(&narrow, &codec, &group).taken_bytes * shape.readers_count as u64,
            staged: kept.staged,
        };
        let done = sort_all(
            job,
            shape.readers_count,
            (&source, &sink),
            &KeyInFront { tie: Tie::Position },
            kept.scratch_dir.to_path_buf(),
            kept.journal,
        )?;
        sink.join_edges()?;
        let read_bytes = (sample_bytes, narrow.read_bytes());
        Ok(TableSummary::of_sort(done, read_bytes, Vec::new()))
    };
    marked(kept).map_err(|error| Room::named(error, || Ok(room(&narrow.looked_through()?))))
}

/// The memory for all copies of the longest key: as order and group columns, as a row, and as the
/// first and last key of a part.
fn costs(narrow: &TableInput, codec: &RowCodec, group: &RowCodec) -> RowCosts {
    let key_of = |codec: &RowCodec| as_key(narrow.long_bytes_of(&codec.key_names()));
    let (key_bytes, group_bytes) = (key_of(codec), key_of(group));
    match key_bytes {
        0 => RowCosts::default(),
        key_bytes => RowCosts {
            made_bytes: key_bytes.saturating_mul(2).saturating_add(group_bytes),
            taken_bytes: group_bytes,
            longest: Some(LongRow {
                row_bytes: key_bytes + 64,
                key_bytes,
            }),
            ..RowCosts::default()
        },
    }
}

/// Takes keys in order, and marks one row of each.
struct MarkSink<'m> {
    marks: &'m Marks,
    keeps_last: bool,
    part_bytes: u64,
    /// The memory for long keys on all threads.
    taken_bytes: u64,
    staged: Option<&'m StagedOutput>,
    /// The first and last keys of parts.
    edges: Mutex<Vec<Edge>>,
}

/// A key that is kept for comparison. Every part keeps two keys, so a long key is stored as 256
/// bits of hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeptKey {
    Whole(Vec<u8>),
    Long { len_bytes: usize, hashes: [u128; 2] },
}

impl KeptKey {
    fn of(key: &[u8]) -> Self {
        match key.len() <= KEPT_KEY_BYTES {
            true => KeptKey::Whole(key.to_vec()),
            false => KeptKey::Long {
                len_bytes: key.len(),
                hashes: [0, 1].map(|seed| XxHash3_128::oneshot_with_seed(seed, key)),
            },
        }
    }
}

/// The keys at the two ends of a part.
struct Edge {
    number: usize,
    first_key: KeptKey,
    /// The marked row of the first key.
    first_marked: u64,
    last_key: KeptKey,
}

struct MarkPart<'m> {
    sink: &'m MarkSink<'m>,
    number: usize,
    first: Option<(KeptKey, u64)>,
    /// The last key so far, and its last row.
    last: Option<(Vec<u8>, u64)>,
}

impl RowSink for MarkSink<'_> {
    fn memory_bytes(&self) -> u64 {
        self.taken_bytes
    }

    fn part_bytes(&self) -> u64 {
        self.part_bytes
    }

    fn staged(&self) -> Option<&StagedOutput> {
        self.staged
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
                        self.first = Some((KeptKey::of(key), position));
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

    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        Some(self)
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
            last_key: KeptKey::of(&last_key),
        });
        Ok(())
    }
}

impl MarkSink<'_> {
    /// Corrects the marks for keys whose rows are in several parts. Each part marked a row, but
    /// only the first mark is right. Without further order columns there is nothing to do, because
    /// rows of equal keys stay together.
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
