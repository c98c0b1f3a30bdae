//! Writes items to files that a function of the caller chooses: `distribute`, and `partition` for
//! two files.
//!
//! Contract (PALID, SPAA 2025, section 3, bucketer): each bucket is a file that holds its items in
//! the order of the sequence. All files and the manifest that lists them appear together. Threads
//! group the results of a piece by bucket with a counting sort, and append each run when its turn
//! comes. All drives are read in parallel as far as memory holds early results.
//!
//! Bounds: one read of the sources, one write of the results; one chunk per bucket, together at
//! most a quarter of the memory.

use std::path::PathBuf;
use std::sync::Arc;

use bytemuck::Pod;

use super::ahead::Run;
use super::append::{self, Appender, At, Placing};
use super::batch::{Sequence, Yield};
use super::pass::Pass;
use super::pieces::Lanes;
use super::producer::{Producer, Typed};
use super::select::no_bin;
use super::summary::Summary;
use super::write::{chunk_bytes, demand_of, written_by};
use crate::ends::MakeHeader;
use crate::job::Job;
use crate::key::NpyHeader;
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::{Error, Result};

/// The files of the buckets.
#[derive(Debug, Clone)]
pub struct BucketFiles {
    /// One per bucket.
    pub paths: Vec<PathBuf>,
    /// The list of the files, which is also written if it has a name.
    pub manifest: Option<PathBuf>,
    /// Whether existing files are replaced.
    pub replace: bool,
    /// The header of each file, with the file's own number of rows, if they are NumPy arrays.
    pub header: Option<NpyHeader>,
}

/// Writes each item of `sequence` to the file of its `bucket`; returns the number of items in each.
///
/// # Errors
/// [`crate::Kind::Usage`] for a bucket that does not exist and for existing files; the errors of
/// [`write`](super::write()).
pub fn distribute<S>(
    job: &Job,
    sequence: &S,
    bucket: impl Fn(&S::Item) -> usize + Sync,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)>
where
    S: Sequence,
    S::Item: Pod,
{
    let bucket = |_: u64, items: &[u8], into: &mut Vec<u32>| {
        let items: &[S::Item] = bytemuck::cast_slice(items);
        into.extend(
            items
                .iter()
                .map(|item| bucket(item).min(u32::MAX as usize) as u32),
        );
        Ok(())
    };
    distribute_bytes(job, &Typed(sequence), &bucket, files)
}

/// As [`distribute`], but the function also receives the item's position, from 0. Only for
/// unfiltered sequences with one item per position, which is checked at compile time.
///
/// # Errors
/// The errors of [`distribute`].
pub fn distribute_indexed<S>(
    job: &Job,
    sequence: &S,
    bucket: impl Fn(u64, &S::Item) -> usize + Sync,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)>
where
    S: Sequence,
    S::Item: Pod,
{
    const {
        assert!(
            matches!(S::YIELD, Yield::One),
            "only sequences with an item at each position have positions"
        );
    }
    let buckets = |first: u64, items: &[u8], into: &mut Vec<u32>| {
        let items: &[S::Item] = bytemuck::cast_slice(items);
        let bucket = |(index, item)| bucket(index, item).min(u32::MAX as usize) as u32;
        into.extend((first..).zip(items).map(bucket));
        Ok(())
    };
    distribute_bytes(job, &Typed(sequence), &buckets, files)
}

/// Writes items for which `is_first` is true to the first file, the others to the second.
///
/// # Errors
/// The errors of [`distribute`].
pub fn partition<S>(
    job: &Job,
    sequence: &S,
    is_first: impl Fn(&S::Item) -> bool + Sync,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)>
where
    S: Sequence,
    S::Item: Pod,
{
    distribute(job, sequence, |item| usize::from(!is_first(item)), files)
}

/// Appends the bucket of each of the given items, which are stored one after another. The position
/// is that of the first one; it is meaningless if items are filtered.
pub(crate) type BucketsOf<'a> = dyn Fn(u64, &[u8], &mut Vec<u32>) -> Result<()> + Sync + 'a;

/// Sees the items of one piece that go to a bucket, on any thread.
pub(crate) type OfBucket<'a> = dyn Fn(usize, &[u8]) + Sync + 'a;

/// Distributes the items of `producer`.
pub(crate) fn distribute_bytes(
    job: &Job,
    producer: &dyn Producer,
    buckets_of: &BucketsOf<'_>,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)> {
    distribute_seen(job, producer, buckets_of, &|_, _| (), files)
}

/// As [`distribute_bytes`]; `see` gets all items, bucket by bucket.
pub(crate) fn distribute_seen(
    job: &Job,
    producer: &dyn Producer,
    buckets_of: &BucketsOf<'_>,
    see: &OfBucket<'_>,
    files: &BucketFiles,
) -> Result<(Vec<u64>, Summary)> {
    let item_bytes = producer.item_bytes();
    let outs = files.paths.len();
    let demand = demand_of(producer, outs, job, true);
    let pass = Pass::open(job, &producer.sources(), Lanes::InOrder(1), demand)?;
    let make_header = files
        .header
        .clone()
        .map(|header| -> MakeHeader { Arc::new(move |rows| header.encode(rows)) });
    let header = make_header.as_ref().map_or(Vec::new(), |make| make(0));
    let plans = files.paths.iter().map(|path| ShardPlan {
        path: path.clone(),
        header: header.clone(),
        start_bytes: 0,
        len_bytes: 0,
    });
    let names = files.paths.iter().chain(&files.manifest);
    if let Some(path) = names
        .into_iter()
        .find(|path| !files.replace && path.exists())
    {
        return Err(Error::usage("create output", "it exists already")
            .path(path)
            .hint("allow overwriting with --force"));
    }
    let staged = StagedOutput::stage(
        &pass.volume,
        plans.collect(),
        files.manifest.clone(),
        files.replace,
        Room::AtMost,
    )?;
    pass.begin_phase("distribute", written_by(producer, pass.count()));
    let appender = Appender::to_files(&pass, &staged, chunk_bytes(job, outs))?;
    let appender = match producer.yields() {
        Yield::Any => appender,
        _ => appender.holding(&pass, item_bytes)?,
    };
    let arrange = |area: &mut [u8], len: usize, at: At| {
        let mut buckets = Vec::with_capacity(len / item_bytes);
        buckets_of(at.first, &area[..len], &mut buckets)?;
        let half = area.len() / 32 * 16;
        let (items, sorted) = area.split_at_mut(half);
        let runs = scatter(&items[..len], item_bytes, &buckets, outs, sorted, half)?;
        for run in &runs {
            see(run.out, &area[run.start..run.start + run.len_bytes]);
        }
        Ok(runs)
    };
    let placing = Placing {
        arrange: &arrange,
        in_sequence: None,
        fill_bytes: pass.sizes.items as usize * item_bytes,
    };
    append::run(&pass, producer, &appender, &placing)?;
    let lens = appender.finish(&pass.volume, make_header.as_ref(), item_bytes)?;
    pass.check_sources()?;
    pass.publish(|volume| staged.publish_each(volume, &lens))?;
    let counts: Vec<u64> = lens.iter().map(|len| len / item_bytes as u64).collect();
    let records = counts.iter().sum();
    Ok((counts, pass.summary(records, 0)))
}

/// Copies items to `sorted`, bucket by bucket, each in order; returns the runs.
fn scatter(
    items: &[u8],
    item_bytes: usize,
    buckets: &[u32],
    outs: usize,
    sorted: &mut [u8],
    sorted_at: usize,
) -> Result<Vec<Run>> {
    let mut ends = vec![0_usize; outs];
    for bucket in buckets {
        let bucket = *bucket as usize;
        *ends.get_mut(bucket).ok_or_else(|| no_bin(bucket, outs))? += item_bytes;
    }
    let mut start = 0;
    let mut runs = Vec::new();
    for (out, end) in ends.iter_mut().enumerate() {
        let len = std::mem::replace(end, start);
        if len > 0 {
            runs.push(Run {
                out,
                start: sorted_at + start,
                len_bytes: len,
            });
        }
        start += len;
    }
    // A length known to the compiler makes a copy one move.
    match item_bytes {
        4 => place(items.as_chunks::<4>().0, buckets, &mut ends, sorted),
        8 => place(items.as_chunks::<8>().0, buckets, &mut ends, sorted),
        16 => place(items.as_chunks::<16>().0, buckets, &mut ends, sorted),
        _ => {
            for (item, bucket) in items.chunks_exact(item_bytes).zip(buckets) {
                let at = &mut ends[*bucket as usize];
                sorted[*at..*at + item_bytes].copy_from_slice(item);
                *at += item_bytes;
            }
        }
    }
    Ok(runs)
}

/// Copies each item to the end of its bucket.
fn place<const N: usize>(
    items: &[[u8; N]],
    buckets: &[u32],
    ends: &mut [usize],
    sorted: &mut [u8],
) {
    for (item, bucket) in items.iter().zip(buckets) {
        let at = &mut ends[*bucket as usize];
        sorted[*at..*at + N].copy_from_slice(item);
        *at += N;
    }
}
