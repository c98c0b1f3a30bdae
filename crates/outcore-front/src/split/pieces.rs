//! Splits into parts by their length in bytes.
//!
//! Contract: [`by_bytes`] cuts the bytes of all inputs after each `SIZE` bytes, at any place.
//! [`by_line_bytes`] fills each part with as many whole records as fit into `SIZE` bytes, including
//! the header of CSV. A longer line is cut as in GNU split: after each `SIZE` bytes, and its rest
//! begins the next part. A longer record of CSV or JSON, which cannot be cut, gets a part of its
//! own.
//!
//! Bounds: a record of up to [`HELD_BYTES`] is held until it is known to fit; a longer record
//! begins a part.

use outcore::Result;

use super::Parts;
use crate::text::reader::{Frame, RecordReader};

/// Maximum number of bytes that are held of a record.
const HELD_BYTES: usize = 16 << 20;

/// Parts of a number of bytes; see the module. Returns the number of bytes.
pub(super) fn by_bytes(
    reader: &mut RecordReader<'_>,
    size_bytes: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let (mut all_bytes, mut room_bytes) = (0, 0);
    while let Some(mut bytes) = reader.next_bytes()? {
        all_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if room_bytes == 0 {
                parts.begin(0)?;
                room_bytes = size_bytes;
            }
            let (now, later) = split_at_most(bytes, room_bytes);
            parts.put(now)?;
            room_bytes -= now.len() as u64;
            bytes = later;
        }
    }
    Ok(all_bytes)
}

/// Parts of whole records; see the module. Returns the number of records.
pub(super) fn by_line_bytes(
    reader: &mut RecordReader<'_>,
    size_bytes: u64,
    front_bytes: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let end = reader.frame().end();
    let mut filler = Filler {
        size_bytes,
        front_bytes,
        is_cut: matches!(reader.frame(), Frame::Terminator(_)),
        filled_bytes: None,
        held: Vec::new(),
        is_flowing: false,
        parts,
    };
    let mut records = 0;
    while let Some(piece) = reader.next_piece()? {
        filler.add(piece.bytes)?;
        if piece.is_last {
            filler.add(end.as_slice())?;
            filler.end_record()?;
            records += 1;
        }
    }
    Ok(records)
}

fn split_at_most(bytes: &[u8], most_bytes: u64) -> (&[u8], &[u8]) {
    bytes.split_at((bytes.len() as u64).min(most_bytes) as usize)
}

/// Fills parts with records.
struct Filler<'p, 'a> {
    size_bytes: u64,
    /// Length of the beginning of each part.
    front_bytes: u64,
    /// Whether a record longer than a part is cut.
    is_cut: bool,
    /// Bytes of the current part; `None` before the first.
    filled_bytes: Option<u64>,
    /// The beginning of a record that may not fit.
    held: Vec<u8>,
    /// The record is written as it arrives.
    is_flowing: bool,
    parts: &'p mut Parts<'a>,
}

impl Filler<'_, '_> {
    /// The next bytes of a record.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_flowing {
            return self.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        let held_bytes = self.held.len() as u64;
        let fits = |filled_bytes: u64| filled_bytes + held_bytes <= self.size_bytes;
        let is_long = self.held.len() > HELD_BYTES || !fits(self.front_bytes);
        match is_long {
            true => {
                if self.filled_bytes != Some(self.front_bytes) {
                    self.begin()?;
                }
                self.is_flowing = true;
                self.write_held()
            }
            false if !self.filled_bytes.is_some_and(fits) => self.begin(),
            false => Ok(()),
        }
    }

    fn end_record(&mut self) -> Result<()> {
        self.is_flowing = false;
        self.write_held()
    }

    fn write_held(&mut self) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        let written = self.write(&held);
        held.clear();
        self.held = held;
        written
    }

    fn begin(&mut self) -> Result<()> {
        self.filled_bytes = Some(self.front_bytes);
        self.parts.begin(0)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let filled_bytes = self.filled_bytes.unwrap_or(self.size_bytes);
            let room_bytes = match self.is_cut {
                true => self.size_bytes.saturating_sub(filled_bytes),
                false => u64::MAX,
            };
            if room_bytes == 0 {
                self.begin()?;
                continue;
            }
            let (now, later) = split_at_most(bytes, room_bytes);
            self.parts.put(now)?;
            self.filled_bytes = Some(filled_bytes.saturating_add(now.len() as u64));
            bytes = later;
        }
        Ok(())
    }
}
