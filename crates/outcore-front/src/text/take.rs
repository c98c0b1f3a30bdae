//! Takes the first or the last records of an input.
//!
//! Contract: for files, [`Counted`] finds the beginning of the last records before they are read,
//! so that any number of them can be taken without holding them. For streams, [`Records`] holds the
//! requested number, within the allowed memory. Records that are not held may have any length.

use std::collections::VecDeque;

use outcore::job::Job;
use outcore::read::sample::{draw_places, is_drawn};
use outcore::{Error, Kind, Result};
use outcore_io::units;

use super::header::HeaderRule;
use super::output::LineWriter;
use super::reader::{BLOCK_BYTES, Frame, RecordReader, data_bytes};
use crate::content::Recognition;
use crate::inputs::Source;

/// Memory for holding a record in addition to its bytes.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// The records of files to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All of them.
    All,
    /// At least this many records at the end.
    Last(u64),
}

/// The place at which to start reading, and the number of records from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Bytes of data to skip.
    pub skipped_bytes: u64,
    /// Number of records after these bytes. The first of these records may have begun earlier.
    pub records: u64,
    /// Bytes that were read to find this out.
    pub read_bytes: u64,
}

impl Counted {
    /// Counts records of `sources` after those of `header`; `None` if one of them is a stream.
    ///
    /// # Errors
    /// A failed read.
    pub fn of(
        self,
        job: &Job,
        sources: &[Source],
        frame: Frame,
        recognition: Recognition,
        header: &HeaderRule,
    ) -> Result<Option<Rest>> {
        if sources.iter().any(Source::is_stream) {
            return Ok(None);
        }
        let plain_bytes = data_bytes(sources, frame, recognition)?;
        let count = |skipped_bytes| {
            let mut reader = RecordReader::new(job, sources.to_vec(), frame, recognition)
                .with_header(header.clone());
            reader.skip_bytes(skipped_bytes);
            let mut records = 0;
            while let Some(piece) = reader.next_piece()? {
                records += u64::from(piece.is_last);
            }
            Ok(Rest {
                skipped_bytes,
                records,
                read_bytes: reader.read_bytes,
            })
        };
        match (frame, self, plain_bytes) {
            (Frame::Bytes(record_bytes), _, Some(all_bytes)) => {
                let all = all_bytes / record_bytes as u64;
                let records = match self {
                    Counted::All => all,
                    Counted::Last(wanted) => wanted.min(all),
                };
                Ok(Some(Rest {
                    skipped_bytes: (all - records) * record_bytes as u64,
                    records,
                    read_bytes: 0,
                }))
            }
            (Frame::Terminator(_) | Frame::Json(_), Counted::Last(wanted), Some(all_bytes))
                if header.is_empty() =>
            {
                let (mut window_bytes, mut read_bytes) = (BLOCK_BYTES as u64, 0);
                loop {
                    let mut rest = count(all_bytes.saturating_sub(window_bytes))?;
                    read_bytes += rest.read_bytes;
                    rest.read_bytes = read_bytes;
                    if rest.skipped_bytes == 0 || rest.records > wanted {
                        return Ok(Some(rest));
                    }
                    window_bytes = window_bytes.saturating_mul(4);
                }
            }
            _ => count(0).map(Some),
        }
    }
}

/// Moves records from a reader to a writer.
#[derive(Debug)]
pub struct Records<'a, 'r> {
    /// The reader.
    pub reader: &'a mut RecordReader<'r>,
    /// The writer.
    pub writer: &'a mut LineWriter,
    /// The byte that ends a record.
    pub end: Option<u8>,
    /// Memory for records that are held.
    pub limit_bytes: u64,
}

impl Records<'_, '_> {
    /// Skips `count` records.
    ///
    /// # Errors
    /// A failed read.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0
            && let Some(piece) = self.reader.next_piece()?
        {
            left -= u64::from(piece.is_last);
        }
        Ok(())
    }

    /// Writes the next `count` records. Returns how many there were.
    ///
    /// # Errors
    /// A failed read or write.
    pub fn copy(&mut self, count: u64) -> Result<u64> {
        let mut records = 0;
        while records < count
            && let Some(piece) = self.reader.next_piece()?
        {
            self.writer.put(piece.bytes)?;
            if piece.is_last {
                self.writer.put(self.end.as_slice())?;
                records += 1;
            }
        }
        Ok(records)
    }

    /// Writes all records except for the last `count`, which are held until others follow.
    ///
    /// # Errors
    /// A failed read or write; [`Kind::Memory`] if they are too long to be held.
    pub fn copy_all_but(&mut self, count: u64) -> Result<u64> {
        let mut held = Held::default();
        let mut records = 0;
        while let Some(record) = self.reader.next_record()? {
            held.push(record, self.limit_bytes)?;
            if held.records.len() as u64 > count {
                let first = held.pop();
                self.put(&first)?;
                records += 1;
            }
        }
        Ok(records)
    }

    /// Writes the last `count` records.
    ///
    /// # Errors
    /// As [`Records::copy_all_but`].
    pub fn copy_last(&mut self, count: u64) -> Result<u64> {
        let mut held = Held::default();
        while let Some(record) = self.reader.next_record()? {
            held.push(record, self.limit_bytes)?;
            if held.records.len() as u64 > count {
                held.pop();
            }
        }
        let records = held.records.len() as u64;
        for record in &held.records {
            self.put(record)?;
        }
        Ok(records)
    }

    /// Writes each record with this probability.
    ///
    /// # Errors
    /// A failed read or write.
    pub fn copy_rate(&mut self, rate: f64, seed: u64) -> Result<u64> {
        let (mut place, mut records) = (0, 0);
        while let Some(piece) = self.reader.next_piece()? {
            let is_taken = is_drawn(seed, place, rate);
            if is_taken {
                self.writer.put(piece.bytes)?;
            }
            if piece.is_last {
                place += 1;
                if is_taken {
                    self.writer.put(self.end.as_slice())?;
                    records += 1;
                }
            }
        }
        Ok(records)
    }

    /// Writes `count` records, each drawn from all `all` records, in the order of the input.
    ///
    /// # Errors
    /// A failed read or write; [`Kind::Memory`] for too many positions.
    pub fn copy_with_replacement(&mut self, count: u64, all: u64, seed: u64) -> Result<u64> {
        let places_bytes = count.saturating_mul(size_of::<u64>() as u64);
        if places_bytes > self.limit_bytes {
            let places = units::bytes(places_bytes);
            let cause = format!("the positions of the drawn records take {places}");
            return Err(Error::new(Kind::Memory, "sample", cause)
                .hint("raise --memory, or draw fewer records"));
        }
        let count = if all == 0 { 0 } else { count };
        let places = draw_places(all, count, seed);
        let (mut next, mut at) = (0, 0);
        while next < places.len() {
            if places[next] > at {
                self.skip(places[next] - at)?;
                at = places[next];
            }
            let Some(record) = self.reader.next_record()? else {
                break;
            };
            at += 1;
            while places.get(next).is_some_and(|place| *place < at) {
                self.put(&record)?;
                next += 1;
            }
        }
        Ok(next as u64)
    }

    fn put(&mut self, record: &[u8]) -> Result<()> {
        self.writer.put(record)?;
        self.writer.put(self.end.as_slice())
    }
}

/// The last records that were read.
#[derive(Debug, Default)]
struct Held {
    records: VecDeque<Vec<u8>>,
    bytes: u64,
}

impl Held {
    fn push(&mut self, record: Vec<u8>, limit_bytes: u64) -> Result<()> {
        self.bytes += record.len() as u64 + RECORD_OVERHEAD_BYTES;
        if self.bytes > limit_bytes {
            let cause = format!(
                "the last records of a stream are kept in memory, and take more than {}",
                units::bytes(limit_bytes)
            );
            return Err(Error::new(Kind::Memory, "take records", cause)
                .hint("write the stream to a file, which needs no memory, or raise --memory"));
        }
        self.records.push_back(record);
        Ok(())
    }

    fn pop(&mut self) -> Vec<u8> {
        let record = self.records.pop_front().unwrap_or_default();
        self.bytes -= record.len() as u64 + RECORD_OVERHEAD_BYTES;
        record
    }
}
