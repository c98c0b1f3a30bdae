//! How often each word occurs: the "hello world" of map and reduce.
//!
//! Words are 16 bytes, padded with zeros. Those that fit in memory are counted in a table, more
//! are sorted: `count_by` decides.

use std::path::Path;

use outcore::Result;
use outcore::algo::sequence::{Sequence, count_by, read};
use outcore::algo::sort::SortInput;
use outcore::data::RecordFormat;
use outcore::job::Job;

/// Writes each word of `from`, in lower case, and its count (`u64`) to `to`; gives the number of
/// words that differ.
///
/// # Errors
/// What the passes fail with.
pub fn word_count(job: &Job, from: &Path, to: &Path) -> Result<u64> {
    let words =
        read::<[u8; 16]>(&[SortInput::raw(from)]).map(|word| word.map(|c| c.to_ascii_lowercase()));
    let format = RecordFormat::parse_type("bytes16")?;
    let found = count_by(job, &words, &format, (&crate::to_file(to), false))?;
    Ok(found.pass.records)
}
