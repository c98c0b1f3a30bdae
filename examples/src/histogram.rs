//! A histogram of equal bins: one read for the range, one for the counts.
//!
//! Contract: two reads; nothing is written.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::primitives::{histogram, max, min, read};

/// The least and the greatest of the numbers (`f64`) in `from`, and the count of numbers in each of
/// `bins` equal parts between them.
///
/// # Errors
/// The errors of the passes.
pub fn histogram_of(job: &Job, from: &Path, bins: usize) -> Result<(f64, f64, Vec<u64>)> {
    let numbers = read::<f64>(&[Input::raw(from)]);
    let (Some(low), Some(high)) = (min(job, &numbers)?, max(job, &numbers)?) else {
        return Ok((0.0, 0.0, vec![0; bins]));
    };
    let scale = bins as f64 / (high - low).max(f64::MIN_POSITIVE);
    let bin = |x: &f64| Some((((x - low) * scale) as usize).min(bins - 1));
    let (counts, _) = histogram(job, &numbers, bins, bin)?;
    Ok((low, high, counts))
}
