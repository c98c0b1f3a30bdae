//! Training data without repeated documents.
//!
//! Contract: documents are lines of JSON. For each value of a field, the first document in the
//! input is kept, whatever its other fields are. The result is in the order of that field.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore_front::text::json::JsonFields;

/// Writes to `to` the first document of `from` for each value of `field` (`.text`); returns the
/// number of documents.
///
/// # Errors
/// A line that is not JSON or has no such field, by number; the errors of the sort.
pub fn deduplicate(job: &Job, from: &Path, field: &str, to: &Path) -> Result<u64> {
    let by_field = JsonFields::new(&[field.to_string()], false, true)?;
    let options = LineSortOptions {
        unique: true,
        ..LineSortOptions::default()
    };
    let found = sort_lines(
        job,
        &[Input::raw(from)],
        crate::to_file(to),
        &by_field,
        options,
    )?;
    Ok(found.lines_out)
}
