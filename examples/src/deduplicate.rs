//! One record of each kind: deduplication of training data by the hash of a document, say.
//!
//! Contract: by hash while the distinct records fit in memory, by sort beyond.

use std::path::Path;

use outcore::Result;
use outcore::algo::sequence::{read, unique};
use outcore::algo::sort::SortInput;
use outcore::data::RecordFormat;
use outcore::job::Job;

/// Writes each record (16 bytes) of `from` once to `to`, in the order of their bytes; gives their
/// number.
///
/// # Errors
/// What the passes fail with.
pub fn deduplicate(job: &Job, from: &Path, to: &Path) -> Result<u64> {
    let records = read::<[u8; 16]>(&[SortInput::raw(from)]);
    let format = RecordFormat::parse_type("bytes16")?;
    let found = unique(job, &records, &format, (&crate::to_file(to), false))?;
    Ok(found.pass.records)
}
