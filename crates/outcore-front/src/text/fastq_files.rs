//! FASTQ in a form that the engine can sort: each record is one item that ends with a NUL.
//!
//! Contract: [`framed`] reads an input (also a stream) once, decompressed, as a [`RecordReader`] of
//! [`Frame::Fastq`] does, and copies it to scratch. A single reader finds the beginnings of
//! records, because a line of quality may look like the beginning of a record. [`dress`] turns the
//! items into FASTQ again. A damaged record is an error with file, number and offset.
//!
//! Bounds: those of a [`RecordReader`]; scratch of the input's length.

use outcore::Result;
use outcore::job::Job;

use super::output::Dress;
use super::reader::{Frame, RecordReader};
use crate::content::Recognition;
use crate::inputs::Source;
use crate::spool::Spool;

/// The byte that ends a record in a copy.
pub const RECORD_END: u8 = 0;

/// A copy of an input whose records end with [`RECORD_END`].
///
/// # Errors
/// A failed read or write; a damaged record.
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

/// The form of records in the output, given items that end with [`RECORD_END`].
pub fn dress() -> Dress {
    Dress {
        is_framed: true,
        ..Dress::default()
    }
}
