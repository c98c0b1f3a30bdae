//! Where records begin and end in a stream of bytes.
//!
//! Contract: a [`Framing`] is asked about stretches of bytes in the order of the file and remembers
//! what it has to from one to the next; it looks at each byte once, and does no I/O. Records are cut
//! with their ends: a terminator is part of its record.

use memchr::{memchr, memrchr};

/// Where records begin and end.
pub trait Framing: Clone + Send + Sync {
    /// Whether a record may begin at any byte, so that its begin has to be looked for; otherwise
    /// chunks are cut at records.
    const IS_SCANNED: bool;

    /// How many bytes at the front of `bytes` finish a record of which `begun` is the front; none if
    /// it goes on behind them. Remembers what it saw if it does.
    fn first_end(&mut self, begun: &[u8], bytes: &[u8]) -> Option<usize>;

    /// How many bytes at the front of `bytes`, which begin with a record, are whole records.
    /// Remembers what it saw behind them.
    fn whole_end(&mut self, bytes: &[u8]) -> usize;

    /// Where the first record begins that begins behind one that ends at or after `bytes[0]`.
    fn next_begin(&self, bytes: &[u8]) -> Option<usize>;

    /// Ends a record that its file did not.
    ///
    /// # Errors
    /// It cannot be: the words say why.
    fn finish(&self, begun: &mut Vec<u8>) -> std::result::Result<(), &'static str>;
}

/// Records of one length.
#[derive(Debug, Clone, Copy)]
pub struct FixedLength {
    /// The length.
    pub record_bytes: usize,
}

impl Framing for FixedLength {
    const IS_SCANNED: bool = false;

    fn first_end(&mut self, begun: &[u8], bytes: &[u8]) -> Option<usize> {
        let missing_bytes = self.record_bytes - begun.len();
        (missing_bytes <= bytes.len()).then_some(missing_bytes)
    }

    fn whole_end(&mut self, bytes: &[u8]) -> usize {
        bytes.len() / self.record_bytes * self.record_bytes
    }

    fn next_begin(&self, _: &[u8]) -> Option<usize> {
        Some(0)
    }

    fn finish(&self, _: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        Err("the last record is not whole")
    }
}

/// Records that end with a byte: lines.
#[derive(Debug, Clone, Copy)]
pub struct Terminated {
    /// The byte; it is part of the record.
    pub terminator: u8,
}

impl Framing for Terminated {
    const IS_SCANNED: bool = true;

    fn first_end(&mut self, _: &[u8], bytes: &[u8]) -> Option<usize> {
        memchr(self.terminator, bytes).map(|at| at + 1)
    }

    fn whole_end(&mut self, bytes: &[u8]) -> usize {
        memrchr(self.terminator, bytes).map_or(0, |at| at + 1)
    }

    fn next_begin(&self, bytes: &[u8]) -> Option<usize> {
        memchr(self.terminator, bytes).map(|at| at + 1)
    }

    fn finish(&self, begun: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        begun.push(self.terminator);
        Ok(())
    }
}
