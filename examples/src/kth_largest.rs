//! The k-th largest number, without sorting: four histograms of 16 bits each.
//!
//! The bits of the k-th largest number become known from the top. Each pass selects the numbers
//! that share the known bits, counts them by their next 16 bits, and keeps the bucket of the k-th
//! largest. The filter is fused into the count.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::primitives::{Sequence, histogram, read};

/// The `k`-th largest (`u64`) of `from`, counted from 1; nothing if there are fewer.
///
/// # Errors
/// The errors of the passes.
pub fn kth_largest(job: &Job, from: &Path, k: u64) -> Result<Option<u64>> {
    let numbers = [Input::raw(from)];
    let (mut known, mut left) = (0_u64, k);
    for shift in [48, 32, 16, 0] {
        let is_candidate = |x: &u64| shift == 48 || x >> (shift + 16) == known;
        let candidates = read::<u64>(&numbers).filter(is_candidate);
        let (counts, _) = histogram(job, &candidates, 1 << 16, |x| {
            Some((x >> shift) as usize & 0xFFFF)
        })?;
        let mut bits = None;
        for (bucket, count) in counts.iter().enumerate().rev() {
            if left <= *count && left > 0 {
                bits = Some(bucket as u64);
                break;
            }
            left -= count;
        }
        let Some(bits) = bits else { return Ok(None) };
        known = known << 16 | bits;
    }
    Ok(Some(known))
}
