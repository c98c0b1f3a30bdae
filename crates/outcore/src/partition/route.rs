//! Routes from items to buckets: the part in which the distributions of all jobs differ.
//!
//! Contract: a [`Route`] belongs to one thread of one distribution. It receives one [`Batch`] of
//! consecutive input items at a time and writes a bucket number for each item, without a branch on
//! the data if possible. Routes by splitters on words are in `sort::splitters`, those by splitters
//! on strings in `sort::lines::splitters`, those by random draws in `shuffle::route`;
//! [`PositionRoute`] is by position in the input.

use super::bucket::Segment;
use super::kernel;
use super::scatter::{RunStart, ScatterWorker};
use outcore_io::Result;

/// A reference to a string in an area.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ref {
    /// Bytes at the current sort depth, zeros past the string's end.
    pub(crate) word: u64,
    /// Offset of the string in its area.
    pub(crate) at: u32,
    /// The length of the string in bytes.
    pub(crate) len_bytes: u32,
}

impl Ref {
    /// A reference to `from..to` of an area.
    #[inline(always)]
    pub(crate) fn to(from: usize, to: usize) -> Self {
        let (at, len) = (from as u32, (to - from) as u32);
        Ref {
            word: 0,
            at,
            len_bytes: len,
        }
    }

    /// Prefetches the string's start in `area`.
    #[inline(always)]
    pub(crate) fn fetch(&self, area: &[u8]) {
        kernel::fetch(area, self.at as usize, self.len_bytes as usize);
    }

    /// The string.
    #[inline(always)]
    pub(crate) fn bytes<'a>(&self, area: &'a [u8]) -> &'a [u8] {
        &area[self.at as usize..self.at as usize + self.len_bytes as usize]
    }
}

/// Items that are routed together.
pub(crate) struct Batch<'b> {
    /// The memory of the items, or of their keys if these were made.
    pub(crate) area: &'b [u8],
    /// The key of each; empty for items of one length, which are stored one after another.
    pub(crate) keys: &'b [Ref],
    /// The order of the items' run among the other runs of the input.
    pub(crate) position: u64,
}

/// A map from items to bucket numbers.
pub(crate) trait Route {
    /// Number of buckets.
    fn bucket_count(&self) -> usize;

    /// Writes the bucket of item i of the batch to `buckets[i]`.
    fn route(&mut self, batch: &Batch<'_>, buckets: &mut [u16]) -> Result<()>;

    /// Announces that the next items are a run of consecutive input items, read from a bucket.
    fn begin_run(&mut self, worker: &mut ScatterWorker<'_>, run: RunStart) {
        worker.begin_run(run);
    }
}

/// By position in the input, for items that are all equal: bucket i begins at the i-th of the
/// positions.
#[derive(Debug, Clone)]
pub(crate) struct PositionRoute {
    starts: Vec<u64>,
}

impl PositionRoute {
    /// About `count` buckets with equal numbers of runs.
    pub(crate) fn choose(segments: &[Segment], count: usize) -> Self {
        let input_runs = segments
            .iter()
            .flat_map(|segment| segment.input_runs.iter());
        let mut positions: Vec<u64> = input_runs.map(|run| run.position).collect();
        positions.sort_unstable();
        let starts = (0..count).filter_map(|cut| positions.get(cut * positions.len() / count));
        let mut starts: Vec<u64> = starts.copied().collect();
        starts.dedup();
        PositionRoute { starts }
    }
}

impl Route for PositionRoute {
    fn bucket_count(&self) -> usize {
        self.starts.len().max(1)
    }

    fn route(&mut self, batch: &Batch<'_>, buckets: &mut [u16]) -> Result<()> {
        let behind = self
            .starts
            .partition_point(|&start| start <= batch.position);
        buckets.fill(behind.saturating_sub(1) as u16);
        Ok(())
    }
}
