//! Rows: generated items of any length and any bytes, sorted and passed on in order, without a file
//! on either side.
//!
//! Contract: a [`RowSource`] shows a sample of its rows, then generates each of them once, on all
//! threads at the same time. A [`RowSink`] takes the sorted rows in parts, each from one thread and
//! several at the same time. So all threads do the work on rows before and after
//! [`super::sort_rows`].
//!
//! Bounds: the larger of the memory that source and sink declare, because they do not work at the
//! same time; a batch is in memory as a whole.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::forecast::Forecast;
use crate::partition::resumed::refused;
use crate::read::framing::ItemFraming;
use outcore_io::output::StagedOutput;
use outcore_io::{Error, Result};

/// Largest memory that a batch keeps when its rows are taken out.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// The longest row.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Rows one after another, each preceded by its length.
#[derive(Debug, Default)]
pub struct RowBatch {
    bytes: Vec<u8>,
    rows: usize,
}

impl RowBatch {
    /// Adds a row.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for a row longer than 1 GiB.
    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        let mut starts = Vec::new();
        self.push_zeros(&[row.len()], &mut starts)?
            .copy_from_slice(row);
        Ok(())
    }

    /// Adds rows of these lengths, filled with zeros, and returns their bytes for the caller to
    /// fill; `starts` receives the start of each row. The bytes between the rows are the lengths,
    /// which must not change.
    ///
    /// # Errors
    /// The errors of [`RowBatch::push`]; no row is added then.
    pub fn push_zeros(
        &mut self,
        lens_bytes: &[usize],
        starts: &mut Vec<usize>,
    ) -> Result<&mut [u8]> {
        if let Some(len_bytes) = lens_bytes
            .iter()
            .find(|len_bytes| **len_bytes > ROW_BYTES_MAX)
        {
            let cause =
                format!("a row has {len_bytes} bytes, and at most {ROW_BYTES_MAX} are possible");
            return Err(Error::usage("add a row", cause).hint("leave out the long column"));
        }
        const LEN_BYTES: usize = size_of::<u32>();
        let first = self.bytes.len() + LEN_BYTES;
        let all_bytes = lens_bytes.iter().sum::<usize>() + lens_bytes.len() * LEN_BYTES;
        self.bytes.resize(self.bytes.len() + all_bytes, 0);
        starts.clear();
        let mut start = first;
        for len_bytes in lens_bytes {
            self.bytes[start - LEN_BYTES..start]
                .copy_from_slice(&(*len_bytes as u32).to_le_bytes());
            starts.push(start - first);
            start += len_bytes + LEN_BYTES;
        }
        self.rows += lens_bytes.len();
        Ok(self.bytes.get_mut(first..).unwrap_or_default())
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (row, behind) =
                (!rest.is_empty()).then(|| ItemFraming::LengthPrefixed.first(rest))?;
            rest = behind;
            Some(row)
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the rows and their lengths.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the bytes that `read` writes: `len_bytes`, and then as many as complete the last
    /// row. Before that, `grow` is called with the total size of all rows.
    ///
    /// # Errors
    /// The errors of `grow` and `read`.
    pub(crate) fn read_whole(
        &mut self,
        len_bytes: usize,
        mut grow: impl FnMut(usize) -> Result<()>,
        mut read: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let framing = ItemFraming::LengthPrefixed;
        let mut begin = self.bytes.len();
        let mut wanted_bytes = len_bytes;
        while wanted_bytes > 0 {
            let at = self.bytes.len();
            grow(at + wanted_bytes)?;
            self.bytes.resize(at + wanted_bytes, 0);
            read(&mut self.bytes[at..])?;
            let mut end = 0;
            for (_, row_end) in framing.spans(&self.bytes[begin..]) {
                end = row_end;
                self.rows += 1;
            }
            begin += end;
            let rest = &self.bytes[begin..];
            let whole_bytes = match rest.first_chunk() {
                None => framing.head_bytes(),
                Some(&head) => framing.head_bytes() + u32::from_le_bytes(head) as usize,
            };
            wanted_bytes = match rest {
                [] => 0,
                rest => whole_bytes - rest.len(),
            };
        }
        Ok(())
    }

    /// Removes all rows; keeps the memory, except for that of long rows.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.rows = 0;
    }
}

/// Takes batches of rows, each with the position of its first row: the number of the row, or a
/// value that grows by at least as much from batch to batch. The position orders equal rows if that
/// matters.
pub type TakeRows<'t> = dyn FnMut(&RowBatch, u64) -> Result<()> + 't;

/// Takes batches of rows, each with the position of its first row, and whether this thread moved
/// them in the run that is continued. One batch has only rows of one kind.
pub type TakeAgain<'t> = dyn FnMut(&RowBatch, u64, bool) -> Result<()> + 't;

/// The rows that the threads of a killed run have taken.
#[derive(Debug, Clone, Copy)]
pub struct TakenRows<'a> {
    /// The positions after the stretches of rows that the thread with this number took, in order.
    pub own: &'a [u64],
    /// The positions after the stretches of rows that any thread took.
    pub all: &'a [u64],
    /// Threads that took any rows.
    pub threads_count: usize,
}

impl TakenRows<'static> {
    /// No rows, for a run that does not continue another one.
    pub const NONE: Self = TakenRows {
        own: &[],
        all: &[],
        threads_count: 0,
    };
}

impl TakenRows<'_> {
    /// Whether this thread makes rows. A thread with rows of its own always makes rows. Other
    /// threads do so as long as fewer than `threads_max` threads make rows; `begun` counts these
    /// others.
    pub fn is_making(&self, threads_max: usize, begun: &AtomicUsize) -> bool {
        !self.own.is_empty()
            || self.threads_count + begun.fetch_add(1, Ordering::Relaxed) < threads_max
    }
}

/// Mean lengths of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRow {
    /// A row, including its four-byte length.
    pub row_bytes: f64,
    /// The key of a row.
    pub key_bytes: f64,
}

/// Upper bounds on the length of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LongRow {
    /// The row, including its four-byte length.
    pub row_bytes: u64,
    /// The key of the row.
    pub key_bytes: u64,
}

/// The cost of a sample that was taken before a sort.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sampled {
    /// Bytes read, which the engine did not see.
    pub bytes: u64,
    /// Time.
    pub seconds: f64,
}

/// Generates rows.
pub trait RowSource: Sync {
    /// Bytes of all rows including their four-byte lengths, as exactly as they are known. More rows
    /// are also sorted, but less evenly.
    fn data_bytes(&self) -> u64;

    /// Memory that all threads together need to generate rows, including their batches.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Bytes that [`RowSource::make`] will read from files that the engine does not see.
    fn read_forecast(&self) -> Forecast {
        Forecast::NOTHING
    }

    /// The cost of the source's sample, which was taken before the sort.
    fn sampled(&self) -> Sampled {
        Sampled::default()
    }

    /// Mean lengths of rows and keys, if the rows of the sample are shorter than the generated
    /// ones: a sample then need not hold long rows.
    fn mean_row(&self) -> Option<MeanRow> {
        None
    }

    /// Length of the longest row, if rows are long: the plan makes room for one per thread in each
    /// phase. Without it, a row for which there is no room is an error.
    fn longest_row(&self) -> Option<LongRow> {
        None
    }

    /// Passes some rows from all over the data to `take`.
    ///
    /// # Errors
    /// The errors of generating them and of `take`.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()>;

    /// Passes rows to `take` until there are no more. All threads call it, and each row goes to one
    /// of them.
    ///
    /// # Errors
    /// The errors of [`RowSource::sample`].
    fn make(&self, take: &mut TakeRows<'_>) -> Result<()>;

    /// Like [`RowSource::make`], in a run that continues a killed one. Repeats the rows that this
    /// thread had [taken](TakenRows), in the same order, and goes on with the rows that no thread
    /// has taken.
    ///
    /// # Errors
    /// The errors of [`RowSource::make`]. Usage: its rows cannot be repeated.
    fn make_again(&self, _taken: TakenRows<'_>, _take: &mut TakeAgain<'_>) -> Result<()> {
        Err(refused("these rows cannot be made again"))
    }

    /// Fails if the rows' origin has changed in the meantime. Called after all rows were generated,
    /// if their generator does not publish the result itself.
    ///
    /// # Errors
    /// Usage: the origin has changed.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Whole parts of rows in an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartsInOutput {
    /// The number of these parts.
    pub parts: usize,
    /// What the sink of a run that continues must know.
    pub state: Vec<u8>,
}

/// Takes rows in order, in parts. One thread takes each part, which has many consecutive rows,
/// while other threads take the next parts.
pub trait RowSink: Sync {
    /// Memory that all threads together need to process rows.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Bytes that the sink will write to files that the engine does not see.
    fn written_forecast(&self) -> Forecast {
        Forecast::NOTHING
    }

    /// Approximate bytes of rows per part: a part ends with the bucket that contains the last of
    /// them.
    fn part_bytes(&self) -> u64;

    /// The unfinished output, if the job keeps a journal.
    fn staged(&self) -> Option<&StagedOutput> {
        None
    }

    /// Whether all rows of a key go to one part. A key with very many rows then makes a long part
    /// for one thread. Not for descending orders.
    fn keeps_keys_together(&self) -> bool {
        false
    }

    /// Begins part `number`; each number occurs once, and the first is 0. `rows_before` rows
    /// precede it, if that is known; with [`unique`](super::RowSortOptions::unique) it is not.
    ///
    /// # Errors
    /// The error that keeps it from taking rows.
    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>>;

    /// For a job with a journal: the whole parts that the output holds durably, and what a run that
    /// continues must know about the parts since the last call. `None` if a run cannot continue
    /// after a part.
    ///
    /// # Errors
    /// The device's error.
    fn parts_in_output(&self) -> Result<Option<PartsInOutput>> {
        Ok(None)
    }

    /// Called if the sort has failed on one thread, possibly before that thread began a part that
    /// others wait for. From then on, parts that wait for earlier ones must fail. May be called
    /// several times.
    fn give_up(&self) {}
}

/// A part of the rows of a [`RowSink`]. If it is dropped before its end, it stays incomplete, and
/// the job fails.
pub trait RowPart {
    /// Takes the next rows, in order. In a job with a journal, the result must not depend on how
    /// the rows are divided among the calls.
    ///
    /// # Errors
    /// The error that keeps it from taking them.
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()>;

    /// This part for another thread, as jobs with a journal need; `None` if it must stay on its
    /// thread.
    fn movable<'p>(self: Box<Self>) -> Option<Box<dyn RowPart + Send + 'p>>
    where
        Self: 'p,
    {
        None
    }

    /// Called after the last row of the part. May wait for the parts before it, which other threads
    /// take.
    ///
    /// # Errors
    /// The errors of [`RowPart::take`].
    fn finish(self: Box<Self>) -> Result<()>;
}
