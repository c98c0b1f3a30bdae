//! Files of lines as the engine can take them: without the lines in front of their records.
//!
//! Contract: [`take_headers`] passes over the header lines of each file and gives those of the
//! first file that is not empty, each with its end. Later files have none, or the same; another
//! header is an error that names both files. Reads no more of a file than its header and a block.
//! Memory: that of a [`RecordReader`], and the header, of at most 16 MiB.

use outcore::Result;
use outcore::job::Job;

use super::header::HeaderRule;
use super::reader::{Frame, RecordReader};
use crate::content::Recognition;
use crate::inputs::Source;

/// Passes over the header lines of files whose lines end with `end`; gives them.
///
/// # Errors
/// What reading fails with; usage for another header than that of the first file.
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
