//! Limits a sort to its first rows: filters the input, and ends the output after these rows.
//!
//! Contract: the filter never drops one of the first rows. Each reading thread keeps as many of the
//! least keys so far as rows are wanted, and drops a row whose key comes after all of these. If n
//! rows come in random order and w are wanted, only about w ln(n / w) rows are sorted. If rows come
//! in reverse order, all of them are sorted.
//!
//! Bounds: the kept keys take at most 1/[`KEYS_SHARE`] of the memory. If they need more, the filter
//! stops dropping rows, and the job becomes a full sort. I/O as for the sort of the remaining rows.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering};

use outcore::Forecast;
use outcore::sort::lines::rows::{
    LongRow, MeanRow, RowBatch, RowPart, RowSink, RowSource, Sampled, TakeRows,
};
use outcore_io::{Error, Result};

use super::rows_in::RowsIn;
use super::rows_out::RowsOut;
use crate::rows::key_of;

/// The kept keys may take 1/`KEYS_SHARE` of the memory.
pub(super) const KEYS_SHARE: u64 = 8;
/// Memory of a kept key in addition to its bytes.
const KEPT_BYTES: u64 = 64;
/// The least number of keys in the sample.
const SAMPLE_KEYS_MIN: usize = 1024;

/// The rows that may be among the first.
pub(super) struct TopIn<'a> {
    rows: &'a RowsIn<'a>,
    wanted: usize,
    /// Rows of the table.
    rows_count: u64,
    readers_count: usize,
    /// Memory of a reader for keys.
    keys_bytes: u64,
    /// The number of readers that have begun; readers beyond `readers_count` get no rows.
    begun: AtomicUsize,
}

impl<'a> TopIn<'a> {
    /// Creates the filter for `readers_count` threads and a total memory of `memory_bytes`.
    pub(super) fn new(
        rows: &'a RowsIn<'a>,
        wanted: u64,
        rows_count: u64,
        readers_count: usize,
        memory_bytes: u64,
    ) -> Self {
        TopIn {
            rows,
            wanted: usize::try_from(wanted).unwrap_or(usize::MAX),
            rows_count,
            readers_count,
            keys_bytes: memory_bytes / KEYS_SHARE / readers_count.max(1) as u64,
            begun: AtomicUsize::new(0),
        }
    }

    /// The share of rows that are sorted, if they come in random order.
    fn share(&self) -> f64 {
        let (wanted, all) = (self.wanted as f64, self.rows_count.max(1) as f64);
        let per_reader = wanted * (1.0 + (all / wanted.max(1.0)).ln().max(0.0));
        (per_reader * self.readers_count as f64 / all).min(1.0)
    }
}

impl RowSource for TopIn<'_> {
    fn data_bytes(&self) -> u64 {
        (self.rows.data_bytes() as f64 * self.share()) as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.rows.memory_bytes() + self.keys_bytes * self.readers_count as u64
    }

    fn read_forecast(&self) -> Forecast {
        self.rows.read_forecast()
    }

    fn sampled(&self) -> Sampled {
        self.rows.sampled()
    }

    fn mean_row(&self) -> Option<MeanRow> {
        self.rows.mean_row()
    }

    fn longest_row(&self) -> Option<LongRow> {
        self.rows.longest_row()
    }

    /// Samples only the least keys, because rows with other keys are dropped.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()> {
        let mut count = 0;
        self.rows.sample(&mut |rows, _| {
            count += rows.len();
            Ok(())
        })?;
        let shown = (count as f64 * self.share()) as usize;
        let mut least = Least::of(shown.max(SAMPLE_KEYS_MIN), u64::MAX);
        self.rows.sample(&mut |rows, _| {
            for row in rows.iter() {
                least.is_among(key_of(row).unwrap_or_default(), 0);
            }
            Ok(())
        })?;
        let Some(last) = least.last().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let mut some = RowBatch::default();
        self.rows.sample(&mut |rows, position| {
            some.clear();
            for row in rows.iter() {
                if key_of(row).is_some_and(|key| key <= &last[..]) {
                    some.push(row)?;
                }
            }
            match some.is_empty() {
                true => Ok(()),
                false => take(&some, position),
            }
        })
    }

    fn make(&self, take: &mut TakeRows<'_>) -> Result<()> {
        if self.begun.fetch_add(1, Ordering::Relaxed) >= self.readers_count {
            return Ok(());
        }
        let mut least = Least::of(self.wanted, self.keys_bytes);
        let mut some = RowBatch::default();
        self.rows.make(&mut |rows, position| {
            some.clear();
            for (index, row) in rows.iter().enumerate() {
                let key = key_of(row).ok_or_else(cut_short)?;
                if least.is_among(key, position + index as u64) {
                    some.push(row)?;
                }
            }
            // Rows keep their order, and the next batch begins after all of this one.
            match some.is_empty() {
                true => Ok(()),
                false => take(&some, position),
            }
        })
    }
}

fn cut_short() -> Error {
    Error::corrupt("order rows", "a row is cut short").hint("a bug: please report it")
}

/// The least keys so far, with the positions of their rows.
struct Least {
    /// A heap with the largest key on top; `None` after the keys took too much memory, when every
    /// row may be among the first.
    kept: Option<BinaryHeap<(Vec<u8>, u64)>>,
    wanted: usize,
    held_bytes: u64,
    bytes_max: u64,
}

impl Least {
    fn of(wanted: usize, bytes_max: u64) -> Self {
        Least {
            kept: Some(BinaryHeap::new()),
            wanted,
            held_bytes: 0,
            bytes_max,
        }
    }

    /// The largest of them.
    fn last(&self) -> Option<&[u8]> {
        let kept = self.kept.as_ref()?;
        kept.peek().map(|(key, _)| &key[..])
    }

    /// Whether the next row may be among the first.
    fn is_among(&mut self, key: &[u8], position: u64) -> bool {
        let Some(kept) = &mut self.kept else {
            return true;
        };
        let added_bytes = key.len() as u64 + KEPT_BYTES;
        if kept.len() < self.wanted {
            kept.push((key.to_vec(), position));
        } else {
            let Some(mut last) = kept.peek_mut() else {
                // No rows are wanted.
                return false;
            };
            if (key, position) >= (&last.0[..], last.1) {
                return false;
            }
            self.held_bytes -= last.0.len() as u64 + KEPT_BYTES;
            *last = (key.to_vec(), position);
        }
        self.held_bytes += added_bytes;
        if self.held_bytes > self.bytes_max {
            self.kept = None;
        }
        true
    }
}

/// Takes the first rows, and drops the others.
pub(super) struct TopOut<'a> {
    pub(super) rows: &'a RowsOut<'a>,
    pub(super) wanted: u64,
}

struct TopPart<'a> {
    part: Box<dyn RowPart + 'a>,
    left: u64,
}

impl RowSink for TopOut<'_> {
    fn memory_bytes(&self) -> u64 {
        self.rows.memory_bytes()
    }

    fn written_forecast(&self) -> Forecast {
        self.rows.written_forecast()
    }

    fn part_bytes(&self) -> u64 {
        self.rows.part_bytes()
    }

    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>> {
        let before = rows_before.unwrap_or(0);
        Ok(Box::new(TopPart {
            // Rows after the wanted ones are not written in any part.
            part: self.rows.begin(number, Some(before.min(self.wanted)))?,
            left: self.wanted.saturating_sub(before),
        }))
    }

    fn give_up(&self) {
        self.rows.give_up();
    }
}

impl RowPart for TopPart<'_> {
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let left = &mut self.left;
        let some = rows.take(usize::try_from(*left).unwrap_or(usize::MAX));
        self.part.take(&mut some.inspect(|_| *left -= 1))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.part.finish()
    }
}
