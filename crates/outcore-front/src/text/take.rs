//! The first or the last records of an input.
//!
//! Contract: of files [`Counted`] says before they are read where the last records begin, so that
//! any number of them is taken without holding them. Of streams [`Records`] holds as many as are
//! asked for, within the memory that is allowed. Records that are not held may be of any length.

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

/// What holding a record costs besides its bytes.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// Which records of files are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All of them.
    All,
    /// So many at the end, and perhaps some before them.
    Last(u64),
}

/// Where to begin to read, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Bytes of data that are passed over.
    pub skipped_bytes: u64,
    /// Records after them, the first of which may have begun before.
    pub records: u64,
    /// Bytes that were read to find that out.
    pub read_bytes: u64,
}

impl Counted {
    /// Counts records of `sources` after those of `header`; nothing where one of them is a stream.
    ///
    /// # Errors
    /// What reading them fails with.
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

/// Records on their way from a reader to a writer.
#[derive(Debug)]
pub struct Records<'a, 'r> {
    /// Where they come from.
    pub reader: &'a mut RecordReader<'r>,
    /// Where they go.
    pub writer: &'a mut LineWriter,
    /// What ends a record.
    pub end: Option<u8>,
    /// Memory for those that are held.
    pub limit_bytes: u64,
}

impl Records<'_, '_> {
    /// Passes over `count` records.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn skip(&mut self, count: u64) -> Result<()> {
        let mut left = count;
        while left > 0
            && let Some(piece) = self.reader.next_piece()?
        {
            left -= u64::from(piece.is_last);
        }
        Ok(())
    }

    /// Writes the next `count` records; gives how many there were.
    ///
    /// # Errors
    /// What reading or writing fails with.
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

    /// Writes all records but the last `count`, which are held until others follow.
    ///
    /// # Errors
    /// What reading or writing fails with; [`Kind::Memory`] where they are too long to be held.
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
    /// What reading or writing fails with.
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

    /// Writes `count` records, each drawn from `all` that there are, in the order of the input.
    ///
    /// # Errors
    /// What reading or writing fails with; [`Kind::Memory`] where their places are too many.
    pub fn copy_with_replacement(&mut self, count: u64, all: u64, seed: u64) -> Result<u64> {
        let places_bytes = count.saturating_mul(size_of::<u64>() as u64);
        if places_bytes > self.limit_bytes {
            let places = units::bytes(places_bytes);
            let cause = format!("the places of the records that are drawn take {places}");
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
                "the last records of a stream are held, and take more than {}",
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
