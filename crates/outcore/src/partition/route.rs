//! From items to buckets: what the distributions of all jobs differ in.
//!
//! Contract: a [`Route`] belongs to one thread of one distribution. It is asked about a [`Batch`]
//! at a time, neighbours in the input, and writes a bucket number for each item, without a branch
//! on the data where it can be. Routes by splitters on words are in `sort::splitters`, by splitters
//! on strings in `sort::lines::splitters`, by random draws in `shuffle::route`; [`PositionRoute`]
//! is by place in the input.

use super::bucket::Segment;
use super::kernel;
use super::scatter::{RunStart, ScatterWorker};
use outcore_io::Result;

/// A reference to a string in an area.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ref {
    /// Bytes at the depth that is sorted by, zeros past the string's end.
    pub(crate) word: u64,
    /// Where the string begins in its area.
    pub(crate) at: u32,
    /// Its length in bytes.
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

    /// Asks for the string's front in `area` before it is read.
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
    /// What the items lie in, or their keys where these had to be made.
    pub(crate) area: &'b [u8],
    /// The key of each; none for items of one length, which lie one after another.
    pub(crate) keys: &'b [Ref],
    /// Orders the run of the input that they come from among the others.
    pub(crate) position: u64,
}

/// From items to bucket numbers.
pub(crate) trait Route {
    /// Number of buckets.
    fn bucket_count(&self) -> usize;

    /// Writes the bucket of item i of the batch to `buckets[i]`.
    fn route(&mut self, batch: &Batch<'_>, buckets: &mut [u16]) -> Result<()>;

    /// What comes next is a run of neighbours of the input, read from a bucket.
    fn begin_run(&mut self, worker: &mut ScatterWorker<'_>, run: RunStart) {
        worker.begin_run(run);
    }
}

/// By the place in the input, for items that are all equal: bucket i begins at the i-th of the
/// positions.
#[derive(Debug, Clone)]
pub(crate) struct PositionRoute {
    starts: Vec<u64>,
}

impl PositionRoute {
    /// About `count` buckets of as many runs each.
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
