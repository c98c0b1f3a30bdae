//! Rows: items of any length and any bytes that somebody makes, sorted and handed on in order, with
//! no file on either side.
//!
//! Contract: a [`RowSource`] shows a sample of its rows, then brings each of them once, on all
//! threads at the same time. A [`RowSink`] takes the sorted rows in parts, each from one thread and
//! several at the same time. So the work on rows before and after [`super::sort_rows`] is done by
//! all threads.
//!
//! Bounds: the larger of what source and sink say that they need, since they do not work at the
//! same time; a batch is in memory as a whole.

use crate::ends::Forecast;
use crate::read::framing::ItemFraming;
use outcore_io::{Error, Result};

/// Memory of a batch that stays when its rows are taken out, at most.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// The longest row.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Rows one after another, each with its length in front.
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

    /// Adds rows of these lengths, all zeros, and gives their bytes to be filled in; `starts`
    /// becomes where each of them begins there. What lies between them are the lengths, which stay
    /// as they are.
    ///
    /// # Errors
    /// As [`RowBatch::push`]; none of the rows is added then.
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

    /// Whether there are none.
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

    /// Appends what `read` puts into the bytes that it is given: `len_bytes` of them, and then as
    /// many as make the last row a whole one. `grow` is told before how many bytes all rows are
    /// going to be.
    ///
    /// # Errors
    /// What `grow` and `read` fail with.
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

    /// Takes all rows out; the memory stays, except for that of long rows.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.rows = 0;
    }
}

/// Takes batches of rows, each with the position of its first row, which orders them where the
/// order of equal rows counts: the number of the row, or what grows by as much at least from batch
/// to batch.
pub type TakeRows<'t> = dyn FnMut(&RowBatch, u64) -> Result<()> + 't;

/// How long rows are, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRow {
    /// A row with its length of four bytes.
    pub row_bytes: f64,
    /// Its key.
    pub key_bytes: f64,
}

/// How long the longest row is, at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LongRow {
    /// The row with its length of four bytes.
    pub row_bytes: u64,
    /// Its key.
    pub key_bytes: u64,
}

/// Makes rows.
pub trait RowSource: Sync {
    /// Bytes of all rows and their lengths of four bytes, as well as they are known. More than that
    /// is sorted, too, but less evenly.
    fn data_bytes(&self) -> u64;

    /// Memory that all threads together need to make rows, their batches included.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Bytes that [`RowSource::make`] is going to read of files that the engine does not see.
    fn read_forecast(&self) -> Forecast {
        Forecast::NOTHING
    }

    /// How long rows and keys are, where the rows of the sample are shorter than those that are
    /// made: a sample then need not hold long rows.
    fn mean_row(&self) -> Option<MeanRow> {
        None
    }

    /// How long the longest row is, where rows are long: the plan makes room for one a thread in
    /// each phase. Without it a row is refused where no room is left for it.
    fn longest_row(&self) -> Option<LongRow> {
        None
    }

    /// Gives some rows from all over to `take`.
    ///
    /// # Errors
    /// What keeps it from making them, and what `take` fails with.
    fn sample(&self, take: &mut TakeRows<'_>) -> Result<()>;

    /// Gives rows to `take` until there are no more. All threads call it, and each row goes to one
    /// of them.
    ///
    /// # Errors
    /// As [`RowSource::sample`].
    fn make(&self, take: &mut TakeRows<'_>) -> Result<()>;

    /// Fails if what the rows were made of has changed meanwhile; called after all of them were
    /// made, where what is made of them is not published by whoever made them.
    ///
    /// # Errors
    /// Usage: it has changed.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// Takes rows in order, in parts: each part has many rows, one after another, and is taken by one
/// thread, while other threads take the next parts.
pub trait RowSink: Sync {
    /// Memory that all threads together need to work on rows.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// Bytes that it is going to write to files that the engine does not see.
    fn written_forecast(&self) -> Forecast {
        Forecast::NOTHING
    }

    /// Bytes of the rows of a part, about: a part ends with the bucket that has the last of them.
    fn part_bytes(&self) -> u64;

    /// Whether all rows of a key go to one part. Then a key with very many rows makes a long part,
    /// which one thread takes. Not for orders that descend.
    fn keeps_keys_together(&self) -> bool {
        false
    }

    /// Begins part `number`; each number from 0 on comes once. Before its rows come `rows_before`,
    /// if that is known: with [`unique`](super::RowSortOptions::unique) it is not.
    ///
    /// # Errors
    /// What keeps it from taking rows.
    fn begin(&self, number: usize, rows_before: Option<u64>) -> Result<Box<dyn RowPart + '_>>;

    /// The sort has failed on one thread, perhaps before that thread began the part that others
    /// wait for. Parts that wait for earlier ones must fail from now on. May be called several
    /// times.
    fn give_up(&self) {}
}

/// A part of the rows that a [`RowSink`] takes. Dropped before its end, it stays incomplete, and
/// the job fails.
pub trait RowPart {
    /// Takes the next rows, in order.
    ///
    /// # Errors
    /// What keeps it from taking them.
    fn take(&mut self, rows: &mut dyn Iterator<Item = &[u8]>) -> Result<()>;

    /// Has had all of its rows. May wait for the parts before it, which other threads take.
    ///
    /// # Errors
    /// As [`RowPart::take`].
    fn finish(self: Box<Self>) -> Result<()>;
}
