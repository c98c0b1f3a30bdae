//! Moves items to their buckets: finds, routes and copies them, a batch at a time.
//!
//! Contract: a [`Mover`] belongs to one thread. [`FixedMover`] moves items of one length, and
//! [`VaryingMover`] those of varying lengths, whose keys may have to be made first. Both are
//! compiled for their items and their route; decisions that are the same for all items are made
//! outside of the loop.
//!
//! Bounds: one bucket number and one reference per item of a batch, which stay in the first-level
//! cache, and the batch's keys.

use super::restored::Rest;
use super::route::{Batch, Ref, Route};
use super::scatter::{FixedItems, ScatterWorker};
use crate::read::framing::ItemFraming;
use outcore_io::Result;

/// Items of one length that are routed, then moved.
const FIXED_BATCH: usize = 1024;
/// Items of varying lengths that are routed, then moved.
const VARYING_BATCH: usize = 512;
/// Largest key memory that stays from one batch to the next.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Consecutive items of the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'r> {
    /// Whole items, one after another.
    pub(crate) bytes: &'r [u8],
    /// The place of the items in the order of the input.
    pub(crate) position: u64,
    /// Number of the file, and the offset of the first item in its data, if known.
    pub(crate) place: Option<(usize, u64)>,
}

/// Moves the items of runs to their buckets.
pub(crate) trait Mover {
    /// Determines the buckets.
    type Route: Route;

    /// The route, which the owner informs of the next items.
    fn route(&mut self) -> &mut Self::Route;
    /// Moves the items of a run.
    fn take(&mut self, worker: &mut ScatterWorker<'_>, run: Run<'_>) -> Result<()>;
    /// Moves only the items of a run that `rest` takes.
    fn take_rest(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: Run<'_>,
        rest: &mut Rest<'_>,
    ) -> Result<()>;

    /// Moves all items of a run, or only those that `rest` takes.
    fn take_of(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: Run<'_>,
        rest: Option<&mut Rest<'_>>,
    ) -> Result<()> {
        match rest {
            Some(rest) => self.take_rest(worker, run, rest),
            None => self.take(worker, run),
        }
    }
}

/// Moves items of one length.
pub(crate) struct FixedMover<F, R> {
    items: F,
    route: R,
    buckets: Box<[u16]>,
    /// Items of a batch that are moved, if not all are.
    kept: Vec<u8>,
}

impl<F: FixedItems, R: Route> FixedMover<F, R> {
    pub(crate) fn new(items: F, route: R) -> Self {
        FixedMover {
            items,
            route,
            buckets: [0; FIXED_BATCH].into(),
            kept: Vec::new(),
        }
    }
}

impl<F: FixedItems, R: Route> Mover for FixedMover<F, R> {
    type Route = R;

    fn route(&mut self) -> &mut R {
        &mut self.route
    }

    fn take(&mut self, worker: &mut ScatterWorker<'_>, run: Run<'_>) -> Result<()> {
        let item_bytes = self.items.item_bytes();
        for area in run.bytes.chunks(FIXED_BATCH * item_bytes) {
            let buckets = &mut self.buckets[..area.len() / item_bytes];
            let batch = Batch {
                area,
                keys: &[],
                position: run.position,
            };
            self.route.route(&batch, buckets)?;
            worker.scatter(&self.items, area, buckets)?;
        }
        Ok(())
    }

    fn take_rest(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: Run<'_>,
        rest: &mut Rest<'_>,
    ) -> Result<()> {
        let item_bytes = self.items.item_bytes();
        for area in run.bytes.chunks(FIXED_BATCH * item_bytes) {
            let buckets = &mut self.buckets[..area.len() / item_bytes];
            let batch = Batch {
                area,
                keys: &[],
                position: run.position,
            };
            self.route.route(&batch, buckets)?;
            self.kept.clear();
            let mut count = 0;
            for (index, item) in area.chunks_exact(item_bytes).enumerate() {
                let bucket = buckets[index];
                if rest.takes(bucket) {
                    self.kept.extend_from_slice(item);
                    buckets[count] = bucket;
                    count += 1;
                } else if worker.is_ordered() {
                    // Items before and after this point are in different runs of the input.
                    worker.scatter(&self.items, &self.kept, &buckets[..count])?;
                    self.kept.clear();
                    count = 0;
                    worker.skip(usize::from(bucket));
                }
            }
            worker.scatter(&self.items, &self.kept, &buckets[..count])?;
        }
        Ok(())
    }
}

/// Keys that were made from the items of a batch.
#[derive(Debug, Default)]
pub(crate) struct MadeKeys {
    pub(crate) area: Vec<u8>,
    pub(crate) refs: Vec<Ref>,
}

impl MadeKeys {
    /// Removes all keys; keeps the memory, except for that of long ones.
    pub(crate) fn clear(&mut self) {
        self.area.clear();
        self.area.shrink_to(KEPT_BYTES_MAX);
        self.refs.clear();
    }
}

/// An item of varying length, with its position and bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'i> {
    /// The whole item, with its framing.
    pub(crate) bytes: &'i [u8],
    /// The place of the item in the order of the input.
    pub(crate) position: u64,
    /// The bucket of the item.
    pub(crate) bucket: usize,
}

/// Processing of items of varying lengths, besides moving them.
pub(crate) trait VaryingItems {
    /// Whether keys have to be made; items are their own keys otherwise.
    const HAS_KEYS: bool;

    /// How the items are stored one after another.
    fn framing(&self) -> ItemFraming;

    /// Whether an item with this content is skipped.
    fn is_left_out(&self, _content: &[u8]) -> bool {
        false
    }

    /// Makes the keys of the items of a batch in `run`; removes items without a key from `items`.
    fn make_keys(
        &mut self,
        _run: &Run<'_>,
        _items: &mut Vec<Ref>,
        _keys: &mut MadeKeys,
    ) -> Result<()> {
        Ok(())
    }

    /// Whether an item is only counted in its bucket and not moved.
    fn is_counted(&mut self, _item: Item<'_>) -> bool {
        false
    }
}

/// Moves items of varying lengths.
pub(crate) struct VaryingMover<V, R> {
    pub(crate) items: V,
    route: R,
    found: Vec<Ref>,
    keys: MadeKeys,
    buckets: Vec<u16>,
}

impl<V: VaryingItems, R: Route> VaryingMover<V, R> {
    pub(crate) fn new(items: V, route: R) -> Self {
        VaryingMover {
            items,
            route,
            found: Vec::with_capacity(VARYING_BATCH),
            keys: MadeKeys::default(),
            buckets: Vec::with_capacity(VARYING_BATCH),
        }
    }

    /// Moves the items of a run for whose buckets `takes` returns true.
    fn take_some(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: &Run<'_>,
        mut takes: impl FnMut(u16) -> bool,
    ) -> Result<()> {
        let framing = self.items.framing();
        let (mut from, mut number) = (0, 0);
        while from < run.bytes.len() {
            let (items, found) = (&self.items, &mut self.found);
            found.clear();
            from = framing.find(run.bytes, from, VARYING_BATCH, |begin, end| {
                if !items.is_left_out(&run.bytes[begin..end]) {
                    found.push(Ref::to(begin, end));
                }
            });
            self.take_found(worker, run, number, &mut takes)?;
            number += VARYING_BATCH as u64;
        }
        Ok(())
    }

    /// Moves the items that were found in `run`; the first of them is number `number`.
    #[inline]
    fn take_found(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: &Run<'_>,
        number: u64,
        takes: &mut impl FnMut(u16) -> bool,
    ) -> Result<()> {
        let framing = self.items.framing();
        let keys = match V::HAS_KEYS {
            true => {
                self.items.make_keys(run, &mut self.found, &mut self.keys)?;
                (&self.keys.area[..], &self.keys.refs[..])
            }
            false => (run.bytes, &self.found[..]),
        };
        let batch = Batch {
            area: keys.0,
            keys: keys.1,
            position: run.position,
        };
        self.buckets.resize(batch.keys.len(), 0);
        self.route.route(&batch, &mut self.buckets)?;
        for (index, (found, &bucket)) in self.found.iter().zip(&self.buckets).enumerate() {
            let from = found.at as usize - framing.head_bytes();
            let item_bytes = found.len_bytes as usize + framing.around_bytes();
            let item = Item {
                bytes: &run.bytes[from..from + item_bytes],
                position: run.position + number + index as u64,
                bucket: usize::from(bucket),
            };
            if V::HAS_KEYS {
                let key_bytes = u64::from(batch.keys[index].len_bytes);
                worker.counts(item.bucket).key_bytes += key_bytes;
            }
            if self.items.is_counted(item) {
                let counts = worker.counts(item.bucket);
                counts.items += 1;
                counts.bytes += item.bytes.len() as u64;
            } else if !takes(bucket) {
                worker.skip(item.bucket);
            } else {
                worker.append(item.bucket, run.bytes, from, item_bytes)?;
            }
        }
        Ok(())
    }
}

impl<V: VaryingItems, R: Route> Mover for VaryingMover<V, R> {
    type Route = R;

    fn route(&mut self) -> &mut R {
        &mut self.route
    }

    fn take(&mut self, worker: &mut ScatterWorker<'_>, run: Run<'_>) -> Result<()> {
        self.take_some(worker, &run, |_| true)
    }

    fn take_rest(
        &mut self,
        worker: &mut ScatterWorker<'_>,
        run: Run<'_>,
        rest: &mut Rest<'_>,
    ) -> Result<()> {
        self.take_some(worker, &run, |bucket| rest.takes(bucket))
    }
}
