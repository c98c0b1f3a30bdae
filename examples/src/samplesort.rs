//! Samplesort, spelled out with the primitives (PALID, SPAA 2025, section 4).
//!
//! The algorithm samples, chooses splitters, distributes, sorts each bucket in memory, and writes
//! the buckets one after the other. `outcore::sort` does the same. It also fuses passes, keeps
//! buckets in memory, and splits buckets that are too large.

use std::path::Path;

use outcore::Input;
use outcore::job::Job;
use outcore::primitives::gather::InMemory;
use outcore::primitives::write::produce;
use outcore::primitives::{BucketFiles, Summary, collect, count, distribute, gather, read, write};
use outcore::read::sample::random;
use outcore::{Error, Result};

/// Sampled numbers for each splitter.
const OVERSAMPLING: u64 = 32;

/// Sorts the numbers (`u64`) of `from` into `to`.
///
/// # Errors
/// The errors of the passes.
pub fn samplesort(job: &Job, from: &Path, to: &Path) -> Result<Summary> {
    let input = [Input::raw(from)];
    let numbers = read::<u64>(&input);
    let n = count(job, &numbers)?;
    let buckets = (n * 8 / (job.options.memory_bytes / 16)).clamp(2, 256) as usize;

    let places: Vec<u64> = (0..buckets as u64 * OVERSAMPLING)
        .map(|i| random(1, i) % n.max(1))
        .take(n as usize)
        .collect();
    let (bytes, _) = gather(job, &input, 8, &places)?;
    let mut sample: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
    sample.sort_unstable();
    let splitters: Vec<u64> = (1..buckets)
        .filter_map(|i| sample.get(i * sample.len() / buckets).copied())
        .collect();

    let parent = to.parent().unwrap_or(Path::new("."));
    let dir = job.device.make_private_dir(parent)?;
    let path = |kind: &str, bucket: usize| dir.path().join(format!("{kind}-{bucket}"));
    let files = BucketFiles {
        paths: (0..buckets).map(|bucket| path("part", bucket)).collect(),
        manifest: Some(dir.path().join("part.outcore.json")),
        replace: false,
        header: None,
    };
    let bucket_of = |x: &u64| splitters.partition_point(|splitter| splitter <= x);
    distribute(job, &numbers, bucket_of, &files)?;

    for bucket in 0..buckets {
        let mut keys = collect(job, &read::<u64>(&[Input::raw(path("part", bucket))]))?;
        keys.sort_unstable();
        let sorted = InMemory {
            bytes: bytemuck::cast_slice(&keys),
            item_bytes: 8,
        };
        produce(
            job,
            &sorted,
            &crate::to_file(&path("sorted", bucket)),
            false,
        )?;
    }
    let sorted: Vec<Input> = (0..buckets)
        .map(|bucket| Input::raw(path("sorted", bucket)))
        .collect();
    let done = write(job, &read::<u64>(&sorted), &crate::to_file(to), false)?;
    match done.records == n {
        true => Ok(done),
        false => Err(Error::corrupt("sort", "another number of records")),
    }
}
