//! Files of FASTQ as the engine can take them: each record one item that ends with a NUL.
//!
//! Contract: [`framed`] reads an input once, decompressed, as a [`RecordReader`] of
//! [`Frame::Fastq`] does, and copies it to scratch; streams too. One reader finds where records
//! begin, because a line of quality may look like the begin of a record. [`dress`] makes FASTQ of
//! the items again. A damaged record is an error with file, number and offset.
//!
//! Bounds: those of a [`RecordReader`]; scratch of the length of the input.

use outcore::Result;
use outcore::job::Job;

use super::output::Dress;
use super::reader::{Frame, RecordReader};
use crate::content::Recognition;
use crate::inputs::Source;
use crate::spool::Spool;

/// What ends a record in a copy.
pub const RECORD_END: u8 = 0;

/// A copy of an input whose records end with [`RECORD_END`].
///
/// # Errors
/// What reading and writing fail with; a damaged record.
pub fn framed(
    job: &Job,
    source: &Source,
    recognition: Recognition,
    spool: &mut Spool,
) -> Result<Source> {
    spool.fill(job, source, |writer| {
        let sources = vec![source.clone()];
        let mut records = RecordReader::new(job, sources, Frame::Fastq, recognition);
        while let Some(piece) = records.next_piece()? {
            writer.put(piece.bytes)?;
            if piece.is_last {
                writer.put(&[RECORD_END])?;
            }
        }
        Ok(())
    })
}

/// How records look in the output, which are items that end with [`RECORD_END`].
pub fn dress() -> Dress {
    Dress {
        is_framed: true,
        ..Dress::default()
    }
}
