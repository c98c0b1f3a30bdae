//! JSON lines in a form that the engine can sort: without a byte order mark.
//!
//! Contract: a byte order mark belongs to its file, not to the first line, and is skipped. Blank
//! lines are no values, and every job drops them: the engine when it sorts or shuffles, a
//! [`RecordReader`] of [`Frame::Json`] when it reads. A view keeps the bytes of its files, so
//! [`without_blanks`] reads each file once and copies it to scratch if it has blank lines.
//!
//! Bounds: the first bytes of each file; for [`without_blanks`] those of a [`RecordReader`].

use outcore::Result;
use outcore::job::Job;
use outcore::read::json::is_blank;

use super::csv::BYTE_ORDER_MARK;
use super::reader::{Frame, RecordReader};
use crate::content::Recognition;
use crate::inputs::{ResolvedInput, Source, bytes_of};
use crate::spool::{LateSpool, Spool};

/// Skips the byte order mark of each file.
///
/// # Errors
/// A file that cannot be read.
pub fn skip_marks(files: &mut [Source]) -> Result<()> {
    for file in files {
        if file.head(BYTE_ORDER_MARK.len())? == BYTE_ORDER_MARK {
            file.start_bytes += BYTE_ORDER_MARK.len() as u64;
        }
    }
    Ok(())
}

/// As [`skip_marks`], for inputs that have been examined.
///
/// # Errors
/// As [`skip_marks`].
pub(crate) fn skip_input_marks(inputs: &mut [ResolvedInput]) -> Result<()> {
    for input in inputs {
        skip_marks(std::slice::from_mut(&mut input.source))?;
        input.header_bytes = input.source.start_bytes;
        input.data_bytes = bytes_of(std::slice::from_ref(&input.source))?;
    }
    Ok(())
}

/// Skips byte order marks, and replaces each file that has blank lines with a copy without them.
///
/// # Errors
/// A failed read or write.
pub(super) fn without_blanks(
    job: &Job,
    files: &mut [Source],
    terminator: u8,
    spool: &mut LateSpool<'_, impl Fn() -> Result<Spool>>,
) -> Result<()> {
    skip_marks(files)?;
    job.control.begin_phase("look at lines", bytes_of(files)?);
    for file in files {
        if !has_blanks(job, file, terminator)? {
            continue;
        }
        let original = file.clone();
        *file = spool.get()?.fill(job, &original, |writer| {
            let mut lines = reader(job, &original, Frame::Json(terminator));
            while let Some(piece) = lines.next_piece()? {
                writer.put(piece.bytes)?;
                if piece.is_last {
                    writer.put(&[terminator])?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Whether a file has a blank line.
fn has_blanks(job: &Job, file: &Source, terminator: u8) -> Result<bool> {
    let mut lines = reader(job, file, Frame::Terminator(terminator));
    let mut is_blank_so_far = true;
    while let Some(piece) = lines.next_piece()? {
        is_blank_so_far &= is_blank(piece.bytes);
        if piece.is_last {
            if is_blank_so_far {
                return Ok(true);
            }
            is_blank_so_far = true;
        }
    }
    Ok(false)
}

fn reader<'a>(job: &'a Job, file: &Source, frame: Frame) -> RecordReader<'a> {
    RecordReader::new(job, vec![file.clone()], frame, Recognition::ANYTHING)
}
