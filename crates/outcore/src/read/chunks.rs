//! The input cut into pieces of equal length, each handed out once.
//!
//! Contract: the input is the concatenation of its files' data. Where it is cut depends on that and
//! on the length alone, so that what is defined by chunks does not depend on who reads them. Threads
//! take them from whichever drive has least to do. Only descriptions are kept; nothing is read.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::source::InputPart;
use outcore_io::port::Port;

/// A stretch of one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) part: usize,
    /// In bytes of the file's data.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The input in pieces of equal length, each handed out once.
#[derive(Debug)]
pub struct Chunks {
    parts: Vec<InputPart>,
    /// Bytes of data in front of each part.
    starts_bytes: Vec<u64>,
    total_bytes: u64,
    chunk_bytes: u64,
    state: Mutex<Round>,
}

#[derive(Debug)]
struct Round {
    /// Chunks that begin on a drive: index of the drive, numbers that are left.
    drives: Vec<(usize, VecDeque<Range<u64>>)>,
    next_drive: usize,
}

impl Chunks {
    /// Cuts `parts` into chunks of `chunk_bytes`: for records of one length a multiple of it.
    ///
    /// # Panics
    /// If that is 0.
    pub fn new(parts: Vec<InputPart>, chunk_bytes: u64) -> Self {
        assert!(chunk_bytes > 0);
        let mut drives: Vec<(usize, VecDeque<Range<u64>>)> = Vec::new();
        let mut starts_bytes = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in &parts {
            starts_bytes.push(at);
            let end = at + part.data_len_bytes;
            let numbers = at.div_ceil(chunk_bytes)..end.div_ceil(chunk_bytes);
            at = end;
            if numbers.is_empty() {
                continue;
            }
            let drive_index = part.file.drive_index;
            match drives.iter_mut().find(|(known, _)| *known == drive_index) {
                Some((_, left)) => left.push_back(numbers),
                None => drives.push((drive_index, VecDeque::from([numbers]))),
            }
        }
        let state = Mutex::new(Round {
            drives,
            next_drive: 0,
        });
        Chunks {
            parts,
            starts_bytes,
            total_bytes: at,
            chunk_bytes,
            state,
        }
    }

    /// The files.
    pub fn parts(&self) -> &[InputPart] {
        &self.parts
    }

    /// Bytes of all data.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Number of chunks.
    pub fn count(&self) -> u64 {
        self.total_bytes.div_ceil(self.chunk_bytes)
    }

    /// The next chunk for the thread of `port`, from the drive that has the least to do for it, by
    /// turns among equals.
    pub(super) fn next(&self, port: &Port) -> Option<u64> {
        let mut round = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = round.drives.len();
        let turns = (0..count).map(|step| (round.next_drive + step) % count);
        let index = turns
            .filter(|&index| !round.drives[index].1.is_empty())
            .min_by_key(|&index| port.backlog(round.drives[index].0))?;
        round.next_drive = (index + 1) % count;
        let left = &mut round.drives[index].1;
        let numbers = left.front_mut()?;
        let number = numbers.start;
        numbers.start += 1;
        if numbers.is_empty() {
            left.pop_front();
        }
        Some(number)
    }

    /// The pieces of files that a chunk is made of.
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
