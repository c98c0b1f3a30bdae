//! Makes a trace fit the volume that it is replayed on: times, offsets, block size, request size.
//!
//! Contract: an iterator adapter in constant memory. Every change is counted, so a report can state
//! how far the replayed requests are from the recorded ones. The steps, in this order:
//! - Times are rebased to the first request and divided by `speedup`.
//! - Empty reads and writes are dropped.
//! - Offsets are wrapped or scaled into the volume, keeping their position inside a block.
//! - Requests that are not aligned to blocks are widened (a write then needs a read-modify-write),
//!   and trims are shrunk.
//! - Requests longer than the largest allowed one are split.
//!
//! Requests keep their order; the pieces of one request follow each other. A request that is longer
//! than [`AdaptOptions::longest_bytes`], or that ends beyond 64 bits after widening, is an error
//! that names it.

use std::collections::BTreeMap;
use std::fmt;

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::request::{Op, Request};

/// Number of devices that get a region of their own, in order of appearance; later ones share the
/// regions round-robin.
const REGIONS_MAX: usize = 65_536;

/// How offsets of the trace become offsets of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// Unchanged.
    #[default]
    Keep,
    /// Modulo the volume's size: locality is preserved, distant parts overlap.
    Wrap {
        /// Size of the volume.
        volume_bytes: u64,
    },
    /// In proportion: order and relative distance are preserved, neighbours move together.
    Scale {
        /// Size of the volume.
        volume_bytes: u64,
        /// Span of the trace's offsets (`Summary::span_bytes`).
        span_bytes: u64,
    },
}

/// How to adapt a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdaptOptions {
    /// 2.0 replays twice as fast as recorded.
    pub speedup: f64,
    /// How offsets are mapped.
    pub fit: Fit,
    /// With `fit`: the volume is divided into this many equal regions, which the trace's devices
    /// take round-robin in order of appearance. With 1, all devices overlap.
    pub regions: u32,
    /// Requests start and end on multiples of this power of two; 1 changes nothing.
    pub block_bytes: u64,
    /// Longest read or write (`max_sectors_kb`), a multiple of `block_bytes`; `None` splits
    /// nothing.
    pub request_bytes_max: Option<u64>,
    /// A longer read or write in the trace is an error (before it is split), because no volume
    /// could hold it. `None` accepts any length.
    pub longest_bytes: Option<u64>,
}

impl Default for AdaptOptions {
    /// Real time, unchanged offsets, blocks of 4 KiB, no splitting.
    fn default() -> Self {
        AdaptOptions {
            speedup: 1.0,
            fit: Fit::Keep,
            regions: 1,
            block_bytes: 4096,
            request_bytes_max: None,
            longest_bytes: None,
        }
    }
}

/// Counts of all changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changes {
    /// Requests taken from the trace.
    pub taken: u64,
    /// Requests returned.
    pub given: u64,
    /// Requests earlier than the first, whose time became 0.
    pub early: u64,
    /// Empty reads and writes, and trims of less than a block, that were dropped.
    pub dropped: u64,
    /// Requests whose offset changed to fit the volume.
    pub mapped: u64,
    /// Mapped requests that were moved back because they would have crossed the end.
    pub moved: u64,
    /// Requests longer than the whole volume, cut to it.
    pub cut: u64,
    /// Reads widened to whole blocks.
    pub widened_reads: u64,
    /// Writes widened to whole blocks; on a real drive each needs a read-modify-write.
    pub widened_writes: u64,
    /// Bytes added by widening.
    pub widened_bytes: u64,
    /// Requests that were split.
    pub split: u64,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests became {}: {} reads and {} writes widened by {} bytes, {} split, \
             {} mapped into the volume ({} moved back from its end, {} cut), {} dropped as empty, \
             {} earlier than the first",
            self.taken,
            self.given,
            self.widened_reads,
            self.widened_writes,
            self.widened_bytes,
            self.split,
            self.mapped,
            self.moved,
            self.cut,
            self.dropped,
            self.early
        )
    }
}

/// An iterator over the adapted requests of `inner`.
pub struct Adapted<I> {
    inner: I,
    options: AdaptOptions,
    changes: Changes,
    first_ns: Option<u64>,
    regions: BTreeMap<u32, u64>,
    /// The remaining part of a request that is being split.
    rest: Option<Request>,
}

impl<I: Iterator<Item = Result<Request>>> Adapted<I> {
    /// Adapts `inner`.
    ///
    /// # Errors
    /// The options are invalid: a speed-up that is not positive, a block that is not a power of
    /// two, a largest request that is not a multiple of the block, or a volume smaller than one
    /// block per region.
    pub fn new(inner: I, options: AdaptOptions) -> Result<Self> {
        options.check()?;
        Ok(Adapted {
            inner,
            options,
            changes: Changes::default(),
            first_ns: None,
            regions: BTreeMap::new(),
            rest: None,
        })
    }

    /// The changes so far.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The adapted iterator.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    fn retime(&mut self, request: &mut Request) {
        let first_ns = *self.first_ns.get_or_insert(request.time_ns);
        if request.time_ns < first_ns {
            self.changes.early += 1;
        }
        let since_ns = request.time_ns.saturating_sub(first_ns);
        request.time_ns = if self.options.speedup == 1.0 {
            since_ns
        } else {
            (since_ns as f64 / self.options.speedup) as u64
        };
    }

    /// Maps the request into the volume.
    fn fit(&mut self, request: &mut Request) {
        let (volume_bytes, span_bytes) = match self.options.fit {
            Fit::Keep => return,
            Fit::Wrap { volume_bytes } => (volume_bytes, None),
            Fit::Scale {
                volume_bytes,
                span_bytes,
            } => (volume_bytes, Some(span_bytes)),
        };
        let block = self.options.block_bytes;
        let region = self.options.region_bytes(volume_bytes);
        let before = request.offset_bytes;
        let offset = match span_bytes {
            None => before % region,
            Some(span) => {
                let blocks = u128::from(region / block);
                let span_blocks = u128::from(span.div_ceil(block).max(1));
                let scaled = u128::from(before / block) * blocks / span_blocks;
                // If the recorded span is too small, the result would leave the region; this keeps
                // it inside.
                scaled.min(blocks - 1) as u64 * block + before % block
            }
        };
        if request.len_bytes > region {
            request.len_bytes = region;
            self.changes.cut += 1;
        }
        let beyond = offset
            .saturating_add(request.len_bytes)
            .saturating_sub(region);
        self.changes.moved += u64::from(beyond > 0);
        let inside = offset.saturating_sub(beyond.next_multiple_of(block));
        request.offset_bytes = inside + region * self.region_of(request.device);
        self.changes.mapped += u64::from(request.offset_bytes != before);
    }

    fn region_of(&mut self, device: u32) -> u64 {
        let regions = u64::from(self.options.regions);
        if regions == 1 {
            return 0;
        }
        if let Some(region) = self.regions.get(&device) {
            return *region;
        }
        if self.regions.len() >= REGIONS_MAX {
            return u64::from(device) % regions;
        }
        let region = self.regions.len() as u64 % regions;
        self.regions.insert(device, region);
        region
    }

    /// The error for the last request, which cannot be returned.
    fn refused(&self, request: &Request, cause: &str) -> Error {
        Error::usage(
            "adapt trace",
            format!(
                "request {} ({} of {} at {} of device {}) {cause}",
                self.changes.taken,
                request.op,
                outcore_io::units::bytes(request.len_bytes),
                outcore_io::units::bytes(request.offset_bytes),
                request.device,
            ),
        )
    }

    /// Rejects requests that no volume could hold.
    fn check(&self, request: &Request) -> Result<()> {
        match self.options.longest_bytes {
            Some(longest) if request.op.moves_data() && request.len_bytes > longest => {
                let longest = outcore_io::units::bytes(longest);
                Err(self.refused(
                    request,
                    &format!("is longer than the {longest} that can be replayed"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Aligns the request to whole blocks. Returns `false` if nothing of it is left.
    fn align(&mut self, request: &mut Request) -> Result<bool> {
        let block = self.options.block_bytes;
        if request.is_aligned(block) {
            return Ok(true);
        }
        let (start, end) = (request.offset_bytes, request.end_bytes());
        let floor = |bytes: u64| bytes - bytes % block;
        if request.op == Op::Trim {
            // At the very end of the 64-bit space there is no next block, so nothing is left.
            let start = start.checked_next_multiple_of(block).unwrap_or(u64::MAX);
            request.offset_bytes = start;
            request.len_bytes = floor(end).saturating_sub(start);
            return Ok(request.len_bytes > 0);
        }
        let Some(end) = end.checked_next_multiple_of(block) else {
            return Err(self.refused(request, "ends beyond 2^64 bytes, where no drive reaches"));
        };
        request.offset_bytes = floor(start);
        let len = end - floor(start);
        self.changes.widened_bytes = self
            .changes
            .widened_bytes
            .saturating_add(len.saturating_sub(request.len_bytes));
        request.len_bytes = len;
        match request.op {
            Op::Read => self.changes.widened_reads += 1,
            _ => self.changes.widened_writes += 1,
        }
        Ok(len > 0)
    }

    /// The next piece of `request`; keeps the rest.
    fn piece(&mut self, mut request: Request) -> Request {
        let max = self.options.request_bytes_max.unwrap_or(u64::MAX);
        if request.op.moves_data() && request.len_bytes > max {
            let mut rest = request;
            rest.offset_bytes += max;
            rest.len_bytes -= max;
            self.rest = Some(rest);
            request.len_bytes = max;
        }
        self.changes.given += 1;
        request
    }
}

impl AdaptOptions {
    fn check(&self) -> Result<()> {
        let bad = |cause: String| Err(Error::usage("adapt trace", cause));
        if !(self.speedup.is_finite() && self.speedup > 0.0) {
            return bad(format!("a speed-up of {} is not positive", self.speedup));
        }
        if !self.block_bytes.is_power_of_two() || self.block_bytes > 1 << 30 {
            return bad(format!(
                "a block of {} bytes is not a power of two",
                self.block_bytes
            ));
        }
        if let Some(max) = self.request_bytes_max
            && (max == 0 || !max.is_multiple_of(self.block_bytes))
        {
            return bad(format!(
                "requests of at most {max} bytes are not a multiple of the block of {}",
                self.block_bytes
            ));
        }
        if self.regions == 0 {
            return bad("a volume cannot have 0 regions".into());
        }
        let (Fit::Wrap { volume_bytes } | Fit::Scale { volume_bytes, .. }) = self.fit else {
            return Ok(());
        };
        if self.region_bytes(volume_bytes) == 0 {
            return bad(format!(
                "a volume of {volume_bytes} bytes has no block of {} bytes for each of {} regions",
                self.block_bytes, self.regions
            ));
        }
        Ok(())
    }

    /// Bytes of a region: whole blocks.
    fn region_bytes(&self, volume_bytes: u64) -> u64 {
        let region = volume_bytes / u64::from(self.regions);
        region - region % self.block_bytes
    }
}

impl<I: Iterator<Item = Result<Request>>> Iterator for Adapted<I> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(rest) = self.rest.take() {
            return Some(Ok(self.piece(rest)));
        }
        loop {
            let mut request = match self.inner.next()? {
                Ok(request) => request,
                Err(error) => return Some(Err(error)),
            };
            self.changes.taken += 1;
            self.retime(&mut request);
            if request.op == Op::Flush {
                (request.offset_bytes, request.len_bytes) = (0, 0);
            } else {
                if request.len_bytes == 0 {
                    self.changes.dropped += 1;
                    continue;
                }
                if let Err(error) = self.check(&request) {
                    return Some(Err(error));
                }
                self.fit(&mut request);
                match self.align(&mut request) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.changes.dropped += 1;
                        continue;
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            let max = self.options.request_bytes_max.unwrap_or(u64::MAX);
            self.changes.split += u64::from(request.op.moves_data() && request.len_bytes > max);
            return Some(Ok(self.piece(request)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Trim, Op::Flush];

    fn request(op: Op, time_ns: u64, offset_bytes: u64, len_bytes: u64) -> Request {
        Request {
            time_ns,
            device: 0,
            op,
            offset_bytes,
            len_bytes,
        }
    }

    fn adapt(requests: &[Request], options: AdaptOptions) -> (Vec<Request>, Changes) {
        let inner = requests.iter().map(|request| Ok(*request));
        let mut adapted = Adapted::new(inner, options).unwrap();
        let out = adapted.by_ref().map(Result::unwrap).collect();
        (out, *adapted.changes())
    }

    #[test]
    fn small_requests_are_widened_to_blocks_and_counted() {
        let (out, changes) = adapt(
            &[
                request(Op::Read, 0, 512, 512),
                request(Op::Write, 0, 4000, 200),
                request(Op::Write, 0, 8192, 4096),
                request(Op::Trim, 0, 100, 12_000),
                request(Op::Trim, 0, 100, 4000),
                request(Op::Read, 0, 7, 0),
                request(Op::Flush, 0, 77, 5),
            ],
            AdaptOptions::default(),
        );
        assert_eq!(
            out,
            [
                request(Op::Read, 0, 0, 4096),
                request(Op::Write, 0, 0, 8192),
                request(Op::Write, 0, 8192, 4096),
                request(Op::Trim, 0, 4096, 4096),
                request(Op::Flush, 0, 0, 0),
            ]
        );
        assert_eq!((changes.widened_reads, changes.widened_writes), (1, 1));
        assert_eq!((changes.widened_bytes, changes.dropped), (3584 + 7992, 2));
        assert_eq!((changes.taken, changes.given), (7, 5));
    }

    #[test]
    fn time_starts_at_the_first_request_and_is_divided_by_the_speed() {
        let requests = [1_000, 4_000, 500].map(|time_ns| request(Op::Read, time_ns, 0, 4096));
        let options = AdaptOptions {
            speedup: 2.0,
            ..AdaptOptions::default()
        };
        let (out, changes) = adapt(&requests, options);
        let times: Vec<u64> = out.iter().map(|request| request.time_ns).collect();
        assert_eq!(times, [0, 1_500, 0]);
        assert_eq!(changes.early, 1);
    }

    #[test]
    fn what_nothing_could_take_is_refused_by_its_number() {
        let refused = |last: Request, options: AdaptOptions| {
            let requests = [request(Op::Read, 0, 0, 4096), last];
            let inner = requests.into_iter().map(Ok);
            let mut adapted = Adapted::new(inner, options).unwrap();
            assert!(adapted.next().unwrap().is_ok());
            adapted.next().unwrap().unwrap_err().to_string()
        };
        let split = AdaptOptions {
            request_bytes_max: Some(1 << 20),
            longest_bytes: Some(1 << 30),
            ..AdaptOptions::default()
        };
        let text = refused(request(Op::Write, 0, 0, (1 << 63) - 1), split);
        assert!(text.contains("request 2 (write of"), "{text}");
        assert!(text.contains("longer than the 1.00 GiB"), "{text}");
        let far = request(Op::Read, 0, u64::MAX - 100, 100);
        let text = refused(far, AdaptOptions::default());
        assert!(text.contains("request 2 (read of 100 B"), "{text}");
        assert!(text.contains("beyond 2^64 bytes"), "{text}");
        // A discard of less than a block is dropped, as in all modes.
        let (out, changes) = adapt(
            &[request(Op::Trim, 0, u64::MAX - 100, 100)],
            AdaptOptions::default(),
        );
        assert_eq!((out.len(), changes.dropped), (0, 1));
        // A volume accepts every request: longer ones are cut to it and counted.
        let fit = Fit::Wrap {
            volume_bytes: 1 << 20,
        };
        let options = AdaptOptions {
            fit,
            ..AdaptOptions::default()
        };
        let (out, changes) = adapt(&[far, request(Op::Write, 0, 0, 1 << 63)], options);
        assert_eq!((out.len(), changes.cut), (2, 1));
    }

    #[test]
    fn devices_take_regions_in_order_of_appearance() {
        let mut requests = [request(Op::Read, 0, 4096, 4096); 4];
        for (request, device) in requests.iter_mut().zip([70, 9, 70, 5]) {
            request.device = device;
        }
        let options = AdaptOptions {
            fit: Fit::Wrap {
                volume_bytes: 1 << 20,
            },
            regions: 2,
            ..AdaptOptions::default()
        };
        let (out, _) = adapt(&requests, options);
        let offsets: Vec<u64> = out.iter().map(|request| request.offset_bytes).collect();
        let half = 1 << 19;
        assert_eq!(offsets, [4096, 4096 + half, 4096, 4096]);
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let ok = AdaptOptions::default();
        for options in [
            AdaptOptions { speedup: 0.0, ..ok },
            AdaptOptions {
                speedup: f64::NAN,
                ..ok
            },
            AdaptOptions {
                block_bytes: 0,
                ..ok
            },
            AdaptOptions {
                block_bytes: 1000,
                ..ok
            },
            AdaptOptions {
                request_bytes_max: Some(1000),
                ..ok
            },
            AdaptOptions {
                request_bytes_max: Some(0),
                ..ok
            },
            AdaptOptions { regions: 0, ..ok },
            AdaptOptions {
                fit: Fit::Wrap { volume_bytes: 4095 },
                ..ok
            },
            AdaptOptions {
                fit: Fit::Wrap { volume_bytes: 8192 },
                regions: 3,
                ..ok
            },
        ] {
            assert!(
                Adapted::new(std::iter::empty(), options).is_err(),
                "{options:?}"
            );
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let op = prop::sample::select(OPS.to_vec());
        let len = prop_oneof![0_u64..100_000, any::<u64>()];
        (any::<u64>(), 0_u32..4, op, any::<u64>(), len).prop_map(
            |(time_ns, device, op, offset_bytes, len)| {
                let is_flush = op == Op::Flush;
                let offset_bytes = if is_flush { 0 } else { offset_bytes };
                let len_bytes = if is_flush {
                    0
                } else {
                    len.min(u64::MAX - offset_bytes)
                };
                Request {
                    time_ns,
                    device,
                    op,
                    offset_bytes,
                    len_bytes,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_comes_out_is_on_the_grid_inside_the_volume_and_not_too_long(
            requests in prop::collection::vec(any_request(), 0..40),
            block_shift in 0_u32..14, volume_blocks in 4_u64..5_000, regions in 1_u32..4,
            span in any::<u64>(), is_scaled in any::<bool>(),
        ) {
            let block_bytes = 1 << block_shift;
            let volume_bytes = volume_blocks * block_bytes + block_bytes / 2;
            let fit = if is_scaled {
                Fit::Scale { volume_bytes, span_bytes: span }
            } else {
                Fit::Wrap { volume_bytes }
            };
            // At least a 64th of the volume, to keep the number of pieces small.
            let max = (volume_blocks / 64).max(1) * block_bytes;
            let options = AdaptOptions {
                fit, regions, block_bytes, request_bytes_max: Some(max), speedup: 3.0,
                longest_bytes: None,
            };
            let (out, changes) = adapt(&requests, options);
            prop_assert_eq!(changes.given, out.len() as u64);
            for request in &out {
                prop_assert!(request.is_aligned(block_bytes), "{:?}", request);
                prop_assert!(request.end_bytes() <= volume_bytes, "{:?}", request);
                prop_assert!(request.len_bytes <= max || !request.op.moves_data());
                prop_assert!(request.len_bytes > 0 || request.op == Op::Flush);
            }
        }

        #[test]
        fn without_a_volume_every_byte_asked_for_is_covered_once(
            offset in 0_u64..1 << 40, len in 1_u64..1 << 20, shift in 0_u32..13, max in 1_u64..9)
        {
            let block_bytes = 1 << shift;
            let options = AdaptOptions {
                block_bytes, request_bytes_max: Some((max * block_bytes).max(1 << 12)),
                ..AdaptOptions::default()
            };
            let (out, _) = adapt(&[request(Op::Write, 9, offset, len)], options);
            prop_assert!(out[0].offset_bytes <= offset);
            prop_assert!(offset - out[0].offset_bytes < block_bytes);
            let end = out.last().map_or(0, Request::end_bytes);
            prop_assert!(end >= offset + len && end - (offset + len) < block_bytes);
            for pair in out.windows(2) {
                prop_assert_eq!(pair[0].end_bytes(), pair[1].offset_bytes);
            }
        }
    }
}
