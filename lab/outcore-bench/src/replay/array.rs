//! Submits the requests of a trace to the engine's striped volume.
//!
//! Contract: a request is submitted with a tag and returned with it when all of it is complete. The
//! volume cuts requests at stripe borders, serves each drive independently and keeps the order of
//! overlapping requests. A write that was widened to whole blocks reads them first
//! ([`Array::submit`]'s `reads_first`), and no overlapping request runs in between. Flushes and
//! trims take another path ([`super::flush_worker`]), in parallel with the rest. Latency counts
//! from the time that the submitter gives.
//!
//! Bounds: as many buffers as requests may be in flight, each as long as the longest request. A
//! request that waits for a buffer uses only its own memory.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use outcore::Result;
use outcore_io::drive::Op;
use outcore_io::drive::queue::Class;
use outcore_io::memory::{Budget, Pool};
use outcore_store::batch::{DriveMeter, Submitter, VolumeCompletion, VolumeRequest};
use outcore_store::striped::StripedVolume;
use outcore_traces::Request as Traced;

use super::flush_worker::{FlushOrTrim, FlushWorker, Returned};
use crate::load::latencies;

/// Requests in flight per drive.
pub(super) const DEPTH: usize = 32;
const OPERATION: &str = "replay trace";
/// Interval at which a wait that includes a flush checks whether the flush is done.
const ERRAND_LOOK: Duration = Duration::from_micros(200);

/// A request that waits for a buffer.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    tag: u64,
    released_ns: u64,
    op: Op,
    reads_first: bool,
    offset_bytes: u64,
    len_bytes: u64,
}

impl Waiting {
    fn overlaps(&self, other: &Waiting) -> bool {
        self.offset_bytes < other.offset_bytes + other.len_bytes
            && other.offset_bytes < self.offset_bytes + self.len_bytes
    }
}

/// A complete request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    /// Its submitter's tag.
    pub(super) tag: u64,
    /// Completion time, on the device's clock.
    pub(super) at_ns: u64,
}

/// The volume, and the requests under way on it.
pub(super) struct Array {
    volume: StripedVolume,
    submitter: Submitter,
    pool: Pool,
    /// Bytes at the volume's beginning that are never written.
    base_bytes: u64,
    waiting: VecDeque<Waiting>,
    /// Requests that the volume has not taken yet.
    batch: Vec<VolumeRequest>,
    finished: Vec<VolumeCompletion>,
    /// Requests under way, by token.
    slots: Vec<Option<Waiting>>,
    free: Vec<usize>,
    /// Tokens of widened writes that are still reading.
    widening: Vec<usize>,
    /// Flushes and trims that wait for room: command, tag, release time.
    errands_waiting: VecDeque<(FlushOrTrim, u64, u64)>,
    flush_worker: FlushWorker,
    returned: Vec<Returned>,
    /// Latency of reads, from release to return.
    pub(super) read_ns: Histogram<u64>,
    /// Latency of writes.
    pub(super) write_ns: Histogram<u64>,
    /// Latency of flushes.
    pub(super) flush_ns: Histogram<u64>,
    /// Latency of trims that the drives accepted.
    pub(super) trim_ns: Histogram<u64>,
    /// Longest latency of each kind, exact: reads, writes, flushes, trims.
    pub(super) longest_ns: [u64; 4],
    /// Trims that the drives rejected.
    pub(super) refused_trims: u64,
    /// Bytes read and written for the trace.
    pub(super) bytes: u64,
    /// Reads that were needed only for widened writes.
    pub(super) extra_reads: u64,
}

impl Array {
    /// An array on `volume`, after its first `base_bytes`, for requests of at most
    /// `request_bytes_max`.
    pub(super) fn new(
        volume: StripedVolume,
        base_bytes: u64,
        request_bytes_max: u64,
    ) -> Result<Self> {
        let count = volume.drives().len() * DEPTH;
        let budget = Budget::new(count as u64 * request_bytes_max);
        let pool = Pool::new(&budget, OPERATION, request_bytes_max as usize, count)?;
        let mut submitter = volume.submitter()?;
        submitter.keep(&pool);
        Ok(Array {
            submitter,
            volume,
            pool,
            base_bytes,
            waiting: VecDeque::new(),
            batch: Vec::new(),
            finished: Vec::new(),
            slots: vec![None; count],
            free: (0..count).rev().collect(),
            widening: Vec::new(),
            errands_waiting: VecDeque::new(),
            flush_worker: FlushWorker::new(),
            returned: Vec::new(),
            read_ns: latencies(),
            write_ns: latencies(),
            flush_ns: latencies(),
            trim_ns: latencies(),
            longest_ns: [0; 4],
            refused_trims: 0,
            bytes: 0,
            extra_reads: 0,
        })
    }

    /// Bytes that requests may use.
    pub(super) fn len_bytes(&self) -> u64 {
        self.volume.len_bytes() - self.base_bytes
    }

    /// Number of drives.
    pub(super) fn drives(&self) -> usize {
        self.volume.drives().len()
    }

    /// The volume's meter of each drive.
    pub(super) fn meters(&self) -> impl ExactSizeIterator<Item = &DriveMeter> {
        self.submitter.meters()
    }

    /// Number of requests that wait for a buffer, and of flushes and trims that wait for their
    /// turn.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.errands_waiting.len()
    }

    /// Whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting() == 0
            && self.batch.is_empty()
            && self.submitter.in_flight() == 0
            && self.flush_worker.under_way() == 0
    }

    /// Accepts a request. If it moves data, it must not exceed the longest length; `reads_first`
    /// marks a widened write.
    pub(super) fn submit(
        &mut self,
        request: &Traced,
        reads_first: bool,
        tag: u64,
        released_ns: u64,
    ) {
        let offset_bytes = self.base_bytes + request.offset_bytes;
        let len_bytes = request.len_bytes;
        let op = match request.op {
            outcore_traces::Op::Read => Op::Read,
            outcore_traces::Op::Write => Op::Write,
            outcore_traces::Op::Flush => {
                self.errands_waiting
                    .push_back((FlushOrTrim::Flush, tag, released_ns));
                return;
            }
            outcore_traces::Op::Trim => {
                let command = FlushOrTrim::Trim {
                    offset_bytes,
                    len_bytes,
                };
                self.errands_waiting.push_back((command, tag, released_ns));
                return;
            }
        };
        self.waiting.push_back(Waiting {
            tag,
            released_ns,
            op,
            reads_first: reads_first && op == Op::Write,
            offset_bytes,
            len_bytes,
        });
    }

    /// Submits the requests that have buffers, waits up to `wait` for the first completion, and
    /// adds the complete requests.
    pub(super) fn poll(&mut self, wait: Duration, complete: &mut Vec<Done>) -> Result<()> {
        self.feed()?;
        let is_flushing = self.flush_worker.under_way() > 0;
        if self.submitter.in_flight() == 0 && self.batch.is_empty() {
            match is_flushing {
                true => self.run_errands(wait, complete)?,
                false => std::thread::sleep(wait),
            }
            return Ok(());
        }
        let wait = if is_flushing {
            wait.min(ERRAND_LOOK)
        } else {
            wait
        };
        let mut finished = std::mem::take(&mut self.finished);
        self.submitter.poll(Some(wait), &mut finished)?;
        let now_ns = self.volume.device().now_ns();
        for completion in finished.drain(..) {
            self.settle(completion, now_ns, complete)?;
        }
        self.finished = finished;
        self.run_errands(Duration::ZERO, complete)?;
        self.feed()
    }

    /// Collects the flushes and trims that are done.
    fn run_errands(&mut self, wait: Duration, complete: &mut Vec<Done>) -> Result<()> {
        self.flush_worker.collect(wait, &mut self.returned)?;
        for returned in self.returned.drain(..) {
            let (histogram, at) = match returned.command {
                FlushOrTrim::Flush => (&mut self.flush_ns, 2),
                FlushOrTrim::Trim { .. } => (&mut self.trim_ns, 3),
            };
            let took_ns = returned.at_ns.saturating_sub(returned.released_ns);
            match returned.is_taken {
                true => {
                    histogram.saturating_record(took_ns);
                    self.longest_ns[at] = self.longest_ns[at].max(took_ns);
                }
                false => self.refused_trims += 1,
            }
            complete.push(Done {
                tag: returned.tag,
                at_ns: returned.at_ns,
            });
        }
        Ok(())
    }

    fn feed(&mut self) -> Result<()> {
        while self.flush_worker.has_room()
            && let Some((command, tag, released_ns)) = self.errands_waiting.pop_front()
        {
            self.flush_worker
                .send(&self.volume, command, tag, released_ns)?;
        }
        while let Some(request) = self.waiting.front().copied() {
            let mut widening = self.widening.iter().filter_map(|token| self.slots[*token]);
            if widening.any(|other| other.overlaps(&request)) {
                break;
            }
            let Some(mut slot) = self.pool.take() else {
                break;
            };
            let Some(token) = self.free.pop() else {
                break;
            };
            self.waiting.pop_front();
            self.slots[token] = Some(request);
            if request.reads_first {
                self.widening.push(token);
            }
            self.batch.push(VolumeRequest {
                token: token as u64,
                op: if request.reads_first {
                    Op::Read
                } else {
                    request.op
                },
                class: Class::Foreground,
                offset_bytes: request.offset_bytes,
                buf: slot.split_to(request.len_bytes as usize),
            });
        }
        if !self.batch.is_empty() {
            self.submitter.submit(&mut self.batch);
        }
        Ok(())
    }

    fn settle(
        &mut self,
        completion: VolumeCompletion,
        now_ns: u64,
        complete: &mut Vec<Done>,
    ) -> Result<()> {
        if let Some(fault) = &completion.fault {
            return Err(self.volume.explain(fault));
        }
        let token = completion.token as usize;
        let Some(request) = self.slots[token] else {
            return Ok(());
        };
        if completion.op == Op::Read && request.op == Op::Write {
            self.extra_reads += 1;
            self.batch.push(VolumeRequest {
                token: completion.token,
                op: Op::Write,
                class: Class::Foreground,
                offset_bytes: completion.offset_bytes,
                buf: completion.buf,
            });
            return Ok(());
        }
        self.widening.retain(|other| *other != token);
        self.slots[token] = None;
        self.free.push(token);
        self.bytes += request.len_bytes;
        let (histogram, at) = match request.op {
            Op::Read => (&mut self.read_ns, 0),
            Op::Write => (&mut self.write_ns, 1),
        };
        let took_ns = now_ns.saturating_sub(request.released_ns);
        histogram.saturating_record(took_ns);
        self.longest_ns[at] = self.longest_ns[at].max(took_ns);
        complete.push(Done {
            tag: request.tag,
            at_ns: now_ns,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use outcore_io::drive::testing::{RamDevice, RamOptions};
    use outcore_store::striped::{Member, StripeOptions};

    use super::*;

    fn array(stripe_bytes: u64) -> (RamDevice, Array) {
        let ram = RamDevice::new(RamOptions::default());
        let names = ["/d0/a", "/d1/b"];
        for (at, name) in names.iter().enumerate() {
            ram.put(name, vec![at as u8 + 1; 1 << 20]);
        }
        let members = names.map(|name| Member::new(PathBuf::from(name)));
        let options = StripeOptions {
            stripe_bytes,
            ..StripeOptions::default()
        };
        let volume = StripedVolume::open(Arc::new(ram.clone()), &members, options).unwrap();
        let array = Array::new(volume, 0, 64 << 10).unwrap();
        assert_eq!(array.len_bytes(), 2 << 20);
        (ram, array)
    }

    fn request(op: outcore_traces::Op, offset_bytes: u64, len_bytes: u64) -> Traced {
        Traced {
            time_ns: 0,
            device: 0,
            op,
            offset_bytes,
            len_bytes,
        }
    }

    fn drain(array: &mut Array) -> Vec<u64> {
        let mut complete = Vec::new();
        while !array.is_idle() {
            array.poll(Duration::from_millis(1), &mut complete).unwrap();
        }
        complete.iter().map(|done| done.tag).collect()
    }

    #[test]
    fn every_request_comes_back_once_whatever_it_is_cut_into() {
        let (_, mut array) = array(16 << 10);
        for tag in 0..300 {
            let offset_bytes = tag * 12_288 % (1 << 20);
            array.submit(
                &request(outcore_traces::Op::Read, offset_bytes, 40_960),
                false,
                tag,
                0,
            );
        }
        let mut tags = drain(&mut array);
        tags.sort_unstable();
        assert_eq!(tags, (0..300).collect::<Vec<u64>>());
        assert_eq!((array.bytes, array.read_ns.len()), (300 * 40_960, 300));
        assert!(array.meters().all(|meter| meter.read_bytes > 4_000_000));
    }

    #[test]
    fn a_widened_write_reads_first_and_leaves_its_neighbours_as_they_were() {
        let (ram, mut array) = array(64 << 10);
        for tag in 0..10 {
            array.submit(
                &request(outcore_traces::Op::Write, 8192, 4096),
                true,
                tag,
                0,
            );
            array.submit(
                &request(outcore_traces::Op::Read, 8192, 8192),
                false,
                100 + tag,
                0,
            );
        }
        let mut tags = drain(&mut array);
        tags.retain(|tag| *tag < 100);
        assert_eq!(tags, (0..10).collect::<Vec<u64>>());
        assert_eq!((array.extra_reads, array.write_ns.len()), (10, 10));
        assert_eq!(
            ram.get("/d0/a").unwrap(),
            vec![1; 1 << 20],
            "what was there was written back"
        );
    }
}
