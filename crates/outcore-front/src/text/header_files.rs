//! Files of lines in a form that the engine can sort: without the lines before their records.
//!
//! Contract: [`take_headers`] skips the header lines of each file and returns those of the first
//! nonempty file, including line ends. Later files have no header lines or the same ones; a
//! different header is an error that names both files. It reads only the header of each file and a
//! block. Memory: that of a [`RecordReader`], and the header, of at most 16 MiB.

use outcore::Result;
use outcore::job::Job;

use super::header::HeaderRule;
use super::reader::{Frame, RecordReader};
use crate::content::Recognition;
use crate::inputs::Source;

/// Skips the header lines of files whose lines end with `end`, and returns them.
///
/// # Errors
/// A failed read; usage for a header that differs from the first file's.
pub fn take_headers(
    job: &Job,
    files: &mut [Source],
    end: u8,
    rule: &HeaderRule,
) -> Result<Vec<u8>> {
    if rule.is_empty() {
        return Ok(Vec::new());
    }
    let frame = Frame::Terminator(end);
    let sources = files.to_vec();
    let mut reader =
        RecordReader::new(job, sources, frame, Recognition::ANYTHING).with_header(rule.clone());
    for file in files {
        file.start_bytes = reader.next_begin()?;
    }
    Ok(reader.header()?.to_vec())
}
