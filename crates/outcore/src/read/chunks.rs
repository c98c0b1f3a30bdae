//! The input in chunks of equal length, each handed out once.
//!
//! Contract: the input is the concatenation of its files' data. The chunk boundaries depend only on
//! the data and on the chunk length, so results per chunk do not depend on which thread reads the
//! chunk. Threads take chunks from the drive with the fewest requests. Only descriptions are kept;
//! nothing is read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::by_drive::ByDrive;
use super::source::InputPart;
use outcore_io::port::Port;

/// A range of one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) part: usize,
    /// In bytes of the file's data.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The input in chunks of equal length, each handed out once.
#[derive(Debug)]
pub(crate) struct Chunks {
    parts: Vec<InputPart>,
    /// Bytes of data before each part.
    starts_bytes: Vec<u64>,
    total_bytes: u64,
    chunk_bytes: u64,
    /// Numbers of the chunks that begin on each drive.
    left: Mutex<ByDrive<Range<u64>>>,
    /// Numbers of chunks that are not handed out, ascending.
    taken: Vec<u64>,
    /// Whether a reader has found a record that exceeds the limit.
    has_long_record: AtomicBool,
}

impl Chunks {
    /// Divides `parts` into chunks of `chunk_bytes`: for records of one length, a multiple of that
    /// length.
    ///
    /// # Panics
    /// If `chunk_bytes` is 0.
    pub(crate) fn new(parts: Vec<InputPart>, chunk_bytes: u64) -> Self {
        assert!(chunk_bytes > 0);
        let mut starts_bytes = Vec::with_capacity(parts.len());
        let mut numbers = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in &parts {
            starts_bytes.push(at);
            let end = at + part.data_len_bytes;
            let begun_here = at.div_ceil(chunk_bytes)..end.div_ceil(chunk_bytes);
            at = end;
            if !begun_here.is_empty() {
                numbers.push((part.file.drive_index, begun_here));
            }
        }
        Chunks {
            parts,
            starts_bytes,
            total_bytes: at,
            chunk_bytes,
            left: Mutex::new(ByDrive::of(numbers)),
            taken: Vec::new(),
            has_long_record: AtomicBool::new(false),
        }
    }

    /// Removes the chunks of these numbers, which threads of an earlier run have begun.
    pub(crate) fn without(self, mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        Chunks {
            taken: numbers,
            ..self
        }
    }

    /// The files.
    pub(crate) fn parts(&self) -> &[InputPart] {
        &self.parts
    }

    /// Notes that a record exceeds its reader's limit.
    pub(super) fn note_long_record(&self) {
        self.has_long_record.store(true, Ordering::Relaxed);
    }

    /// Whether a record exceeds its reader's limit.
    pub(crate) fn has_long_record(&self) -> bool {
        self.has_long_record.load(Ordering::Relaxed)
    }

    /// Bytes of all data.
    #[cfg(test)]
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Number of chunks.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.total_bytes.div_ceil(self.chunk_bytes)
    }

    /// The next chunk for the thread of `port`, from the drive with the fewest requests of that
    /// port, in rotation among equals.
    pub(super) fn next(&self, port: &Port) -> Option<u64> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let chunks = left.next(port)?;
            let numbers = chunks.front_mut()?;
            let number = numbers.start;
            numbers.start += 1;
            if numbers.is_empty() {
                chunks.pop_front();
            }
            if self.taken.binary_search(&number).is_err() {
                return Some(number);
            }
        }
    }

    /// The file ranges of a chunk.
    pub(super) fn stretches(&self, number: u64) -> VecDeque<Stretch> {
        let from = number * self.chunk_bytes;
        let to = (from + self.chunk_bytes).min(self.total_bytes);
        let first = self.starts_bytes.partition_point(|&start| start <= from);
        let mut stretches = VecDeque::new();
        for part in first.saturating_sub(1)..self.parts.len() {
            let start = self.starts_bytes[part];
            let end = start + self.parts[part].data_len_bytes;
            if start >= to {
                break;
            }
            let (from, to) = (from.max(start), to.min(end));
            if from < to {
                stretches.push_back(Stretch {
                    part,
                    from: from - start,
                    to: to - start,
                });
            }
        }
        stretches
    }
}
