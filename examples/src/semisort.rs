//! Semisort: rows of one key are adjacent, and keys are in no order (Gu, Shun, Sun, Blelloch, "A
//! Top-Down Parallel Semisort", SPAA 2015), by scatter and gather.
//!
//! A sample finds the heavy keys. Each heavy key gets a bucket of its own, which needs no further
//! work. A hash spreads the other keys over buckets that fit in memory, where each is put in order.
//! The sample takes one read. The distribution takes one read and one write. The light buckets and
//! the result take one more read and one more write.

use std::collections::HashMap;
use std::path::Path;

use outcore::Result;
use outcore::dataset::{Context, Summary};

/// One row in this many is sampled.
const RATE: u64 = 256;
/// Keys that are sampled at least this often are heavy; the second number limits how many there
/// are.
const HEAVY_SAMPLES: usize = 16;
const HEAVY_MAX: usize = 256;

/// Writes the rows (key, value) of `from` to `to`, those of one key side by side.
///
/// # Errors
/// The errors of the passes.
pub fn semisort(ctx: &Context, from: &Path, to: &Path) -> Result<Summary> {
    let sample = ctx
        .read::<[u64; 2]>(from)?
        .enumerate()
        .filter(|(position, _)| mix(*position).is_multiple_of(RATE))
        .map(|(_, [key, _])| key)
        .sort()
        .collect()?;
    let runs = sample.chunk_by(|a, b| a == b);
    let often = runs.filter(|run| run.len() >= HEAVY_SAMPLES);
    let heavy: HashMap<u64, usize> = often.map(|run| run[0]).zip(0..HEAVY_MAX).collect();

    // A bucket takes about a sixteenth of the memory, because several threads hold one at the same
    // time.
    let job = ctx.job();
    let data_bytes = (sample.len() as u64 + 1) * RATE * 16;
    let light = (data_bytes * 16 / job.options.memory_bytes).clamp(1, 1024) as usize;
    let bucket_of = |[key, _]: &[u64; 2]| match heavy.get(key) {
        Some(bucket) => *bucket,
        None => heavy.len() + mix(*key) as usize % light,
    };
    let buckets = ctx
        .read::<[u64; 2]>(from)?
        .distribute(heavy.len() + light, bucket_of)?;
    let is_light = |bucket| bucket >= heavy.len();
    let sorted = buckets.update(is_light, |_, rows| {
        rows.sort_unstable();
        Ok(())
    })?;
    sorted.write(to)
}

/// A hash of a number (splitmix64).
fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
