//! The in-memory bucketer alone: numbers into buffers, one per bucket; full buffers go to the
//! caller.
//!
//! Model: PALID (Li, Khan, Dhulipala, SPAA 2025), section 3. This is the inner half of every
//! distribution here (the same splitter tree and scatter loop), without the job around it. It is
//! for applications that place their buckets themselves, and for measuring the CPU cost of a
//! distribution per thread.
//!
//! Contract: [`Bucketer::distribute`] copies each key once, to the end of its bucket's buffer; keys
//! of a bucket keep their order. A full buffer is exchanged for an empty one. Each thread needs its
//! own bucketer.
//!
//! Bounds: one buffer per bucket and one spare, from the caller's pool.

use crate::partition::classify::Classifier;
use crate::partition::kernel::Scatter;
use outcore_io::memory::{Buf, Pool};
use outcore_io::{Error, Result};

/// Keys that are classified together, then moved: their bucket numbers stay in the first-level
/// cache.
const BATCH: usize = 1024;
/// Largest number of buckets: more would thrash the second-level TLB.
pub(crate) const BUCKETS_MAX: usize = 16_384;
const OPERATION: &str = "distribute";

/// Buckets of 64-bit numbers, split by rank in a sample.
pub struct Bucketer {
    classifier: Classifier<u64>,
    scatter: Scatter,
    spare: Option<Buf>,
    ids: Vec<u16>,
}

impl Bucketer {
    /// At most `buckets` buckets with about equal shares of `sample`, in key order. The buffers
    /// have the length of `pool`'s buffers, which must be a multiple of 8.
    ///
    /// # Errors
    /// Usage: no buckets, or more than [`BUCKETS_MAX`]. Memory: the pool has fewer buffers than the
    /// number of buckets plus one.
    pub fn new(mut sample: Vec<u64>, buckets: usize, pool: &Pool) -> Result<Self> {
        if !(1..=BUCKETS_MAX).contains(&buckets) {
            return Err(Error::usage(OPERATION, format!("{buckets} buckets"))
                .hint(format!("take 1 to {BUCKETS_MAX}")));
        }
        sample.sort_unstable();
        // Values that fill whole buckets get no bucket of their own, because here every bucket has
        // a buffer to fill.
        let mut splitters: Vec<u64> = (1..buckets)
            .filter_map(|rank| sample.get(rank * sample.len() / buckets).copied())
            .collect();
        splitters.dedup();
        let heavy = vec![false; splitters.len()];
        let classifier = Classifier::from_splitters(splitters, &heavy);
        let take = || {
            let short = || Error::new(crate::Kind::Memory, OPERATION, "too few buffers");
            pool.take().ok_or_else(short)
        };
        let bufs = (0..classifier.bucket_count()).map(|_| take());
        let bufs = bufs.collect::<Result<Vec<Buf>>>()?;
        let capacity_bytes = bufs.iter().map(|buf| buf.len()).min().unwrap_or(0) / 8 * 8;
        Ok(Bucketer {
            classifier,
            scatter: Scatter::new(bufs, capacity_bytes),
            spare: Some(take()?),
            ids: vec![0; BATCH],
        })
    }

    /// Number of buckets; fewer than requested if the sample has too few values.
    pub fn buckets(&self) -> usize {
        self.classifier.bucket_count()
    }

    /// Size of a full buffer in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.scatter.capacity_bytes()
    }

    /// Copies each of `keys` to its bucket. `full` receives a bucket's number and its full buffer,
    /// and returns an empty one of the same length. O(log buckets) per key.
    ///
    /// # Errors
    /// The errors of `full`; some keys of this call may have been moved.
    pub fn distribute(
        &mut self,
        keys: &[u64],
        full: &mut dyn FnMut(usize, Buf) -> Result<Buf>,
    ) -> Result<()> {
        for batch in keys.chunks(BATCH) {
            let ids = &mut self.ids[..batch.len()];
            self.classifier.classify(batch, ids);
            let mut done = 0;
            while let Some(met) = self.scatter.scatter_keys(&batch[done..], &ids[done..]) {
                done += met.consumed;
                let Some(spare) = self.spare.take() else {
                    return Err(Error::usage(OPERATION, "an earlier call has failed"));
                };
                let Some(buf) = self.scatter.replace(met.bucket, spare) else {
                    continue;
                };
                self.spare = Some(full(met.bucket, buf)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore_io::memory::Budget;
    use proptest::prelude::*;

    fn words(bytes: &[u8]) -> Vec<u64> {
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let pool = Pool::new(&Budget::new(1 << 20), "test", 4096, 4).unwrap();
        let kind = |buckets| {
            Bucketer::new((0..100).collect(), buckets, &pool)
                .err()
                .unwrap()
                .kind()
        };
        assert_eq!(kind(0), crate::Kind::Usage);
        assert_eq!(kind(BUCKETS_MAX + 1), crate::Kind::Usage);
        assert_eq!(kind(4), crate::Kind::Memory);
    }

    proptest! {
        /// The concatenated buckets hold all keys, each bucket in input order, and every key of a
        /// bucket is at most any key of the next.
        #[test]
        fn every_key_is_in_one_bucket_and_buckets_are_in_order(
            keys in prop_oneof![
                proptest::collection::vec(any::<u64>(), 1..5000),
                proptest::collection::vec(0u64..6, 1..5000),
            ],
            buckets in 1usize..40,
        ) {
            let pool = Pool::new(&Budget::new(1 << 20), "test", 4096, 44).unwrap();
            let sample = keys.iter().step_by(3).copied().collect();
            let mut bucketer = Bucketer::new(sample, buckets, &pool).unwrap();
            prop_assert!(bucketer.buckets() <= buckets);
            let mut found = vec![Vec::new(); bucketer.buckets()];
            bucketer.distribute(&keys, &mut |bucket, buf| {
                found[bucket].extend(words(&buf));
                Ok(buf)
            }).unwrap();
            let rest = bucketer.scatter.into_parts();
            let rest = rest.filter_map(|(buf, bytes)| Some((buf?, bytes)));
            for (found, (buf, bytes)) in found.iter_mut().zip(rest) {
                found.extend(words(&buf[..bytes]));
            }
            let edges: Vec<(u64, u64)> = found.iter().filter(|bucket| !bucket.is_empty())
                .map(|bucket| (*bucket.iter().min().unwrap(), *bucket.iter().max().unwrap()))
                .collect();
            prop_assert!(edges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for bucket in &found {
                let mut rest = keys.iter();
                prop_assert!(bucket.iter().all(|key| rest.any(|other| other == key)), "in order");
            }
            let mut all: Vec<u64> = found.concat();
            all.sort_unstable();
            let mut wanted = keys.clone();
            wanted.sort_unstable();
            prop_assert_eq!(all, wanted);
        }
    }
}
