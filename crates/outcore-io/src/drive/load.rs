//! A load on drives: requests of one kind, a fixed number in flight on each file range, counted and
//! timed.
//!
//! Contract: a [`Runner`] keeps [`Load::depth`] requests in flight on each of its [`FileRange`]s
//! until its time or its bytes are used up. Then it waits for the last request. It runs on the
//! calling thread, with one [`Queue`]. It replaces each completed request with one to the same
//! range, so a slow drive does not slow the others. Writes end with a sync, which is part of the
//! measured time. An [`Observer`] sees every request with its latency; all requests of one
//! completion batch get the same time.
//!
//! Model: fio's jobs with `iodepth`. The probe and the benchmarks use these loads.
//!
//! Bounds: memory is ranges × depth × block, filled with incompressible bytes before the clock
//! starts. No allocation per request.

use std::sync::Arc;
use std::time::Duration;

use super::{BLOCK_BYTES, Completion, Device, FileId, Op, Queue, Request};
use crate::error::{Error, Kind, Result};
use crate::memory::{Budget, Buf, Pool};

const WAIT: Duration = Duration::from_millis(50);
const OPERATION: &str = "measure drive";

/// A range of a file that is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The index of the drive that holds the file.
    pub drive_index: usize,
    /// Where the range begins.
    pub start_bytes: u64,
    /// The length of the range.
    pub span_bytes: u64,
}

/// The requests to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Share of reads among the requests, from 0 to 1; the rest are writes.
    pub read_share: f64,
    /// Bytes per request; ranges are divided into blocks of that size.
    pub block_bytes: usize,
    /// Requests in flight per range.
    pub depth: u32,
    /// Whether blocks are chosen at random; otherwise sequentially, then from the start again.
    pub is_random: bool,
    /// Time limit.
    pub limit_ns: u64,
    /// Bytes to move per range, at most.
    pub limit_bytes: u64,
    /// Seed of the random blocks and contents.
    pub seed: u64,
}

impl Load {
    /// Sequential requests of one direction for `limit_ns`.
    pub const fn sequential(op: Op, block_bytes: usize, depth: u32, limit_ns: u64) -> Self {
        Load {
            read_share: match op {
                Op::Read => 1.0,
                Op::Write => 0.0,
            },
            block_bytes,
            depth,
            is_random: false,
            limit_ns,
            limit_bytes: u64::MAX,
            seed: 1,
        }
    }

    /// Random requests of one direction for `limit_ns`.
    pub const fn random(op: Op, block_bytes: usize, depth: u32, limit_ns: u64) -> Self {
        Load {
            is_random: true,
            ..Load::sequential(op, block_bytes, depth, limit_ns)
        }
    }
}

/// How much was moved, and how fast.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moved {
    /// Bytes of all requests.
    pub bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// From the first request to the last completion, syncs included.
    pub seconds: f64,
    /// CPU time of the thread, if the clock is the system's.
    pub cpu_seconds: Option<f64>,
}

impl Moved {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Requests per second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }
}

/// A completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Index of the request's range.
    pub place: usize,
    /// Direction.
    pub op: Op,
    /// The offset in the file.
    pub offset_bytes: u64,
    /// Bytes moved.
    pub bytes: usize,
    /// From submission to completion.
    pub latency_ns: u64,
}

/// The observer of a load.
pub trait Observer {
    /// Asked on every iteration whether to continue.
    ///
    /// # Errors
    /// [`Kind::Interrupted`] ends the load.
    fn check(&mut self) -> Result<()>;

    /// Called for every completed request.
    fn served(&mut self, _served: &Served) {}

    /// The error for a failed request. The runner knows the range; the observer knows the file's
    /// name.
    fn explain(&self, op: Op, place: usize, offset_bytes: u64, errno: i32) -> Error;
}

/// A request in flight: its range, offset and submission time.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    place: usize,
    submitted_ns: u64,
}

/// A load with its queue and buffers, ready to run.
pub struct Runner {
    device: Arc<dyn Device>,
    queue: Box<dyn Queue>,
    places: Vec<FileRange>,
    load: Load,
    /// The slots, by token.
    slots: Vec<Slot>,
    /// Buffers that are not in flight, with their tokens.
    idle: Vec<(u64, Buf)>,
    /// Blocks handed out so far, per range.
    issued: Vec<u64>,
    random: u64,
}

impl Runner {
    /// Creates the queue and the buffers. Call it on the thread that will run the load.
    ///
    /// # Errors
    /// No queue, no memory, or a range shorter than a block.
    pub fn new(device: &Arc<dyn Device>, places: &[FileRange], load: Load) -> Result<Self> {
        let block_bytes = load.block_bytes as u64;
        if places.is_empty() || places.iter().any(|place| place.span_bytes < block_bytes) {
            let cause = format!("a block of {block_bytes} bytes does not fit where it must go");
            return Err(Error::usage(OPERATION, cause).hint("use a larger file"));
        }
        let count = places.len() * load.depth.max(1) as usize;
        let slot_bytes = load.block_bytes.next_multiple_of(BLOCK_BYTES);
        let budget = Budget::new((count * slot_bytes) as u64);
        let pool = Pool::new(&budget, OPERATION, slot_bytes, count)?;
        let mut random = load.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut idle = Vec::with_capacity(count);
        while let Some(mut buf) = pool.take() {
            // Incompressible bytes, for drives that compress.
            for word in buf.chunks_exact_mut(8) {
                word.copy_from_slice(&next_random(&mut random).to_le_bytes());
            }
            idle.push((idle.len() as u64, buf.split_to(load.block_bytes)));
        }
        let slots = (0..count).map(|at| Slot {
            place: at % places.len(),
            submitted_ns: 0,
        });
        let mut queue = device.queue(count)?;
        queue.keep(&pool);
        Ok(Runner {
            device: Arc::clone(device),
            queue,
            slots: slots.collect(),
            idle,
            issued: vec![0; places.len()],
            places: places.to_vec(),
            load,
            random,
        })
    }

    /// Runs the load to its end.
    ///
    /// # Errors
    /// The observer's error; the first request that failed, once none is in flight.
    pub fn run(mut self, observer: &mut dyn Observer) -> Result<Moved> {
        let device = Arc::clone(&self.device);
        let cpu_ns = device.thread_cpu_ns();
        let start_ns = device.now_ns();
        let mut moved = Moved::default();
        let mut done: Vec<Completion> = Vec::with_capacity(self.slots.len());
        let mut now_ns = start_ns;
        let mut failed = None;
        loop {
            if failed.is_none() {
                failed = observer.check().err();
            }
            let is_over = failed.is_some() || now_ns - start_ns >= self.load.limit_ns;
            if !is_over {
                self.refill(now_ns);
            }
            if self.queue.in_flight() == 0 {
                break;
            }
            self.queue.complete(Some(WAIT), &mut done)?;
            now_ns = device.now_ns();
            for completion in done.drain(..) {
                if let Err(error) = self.take(completion, now_ns, &mut moved, observer) {
                    failed.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if self.load.read_share < 1.0 {
            for place in &self.places {
                device.sync(place.file)?;
            }
        }
        moved.seconds = (device.now_ns() - start_ns) as f64 / 1e9;
        let ran_ns = cpu_ns.zip(device.thread_cpu_ns());
        moved.cpu_seconds = ran_ns.map(|(from, to)| to.saturating_sub(from) as f64 / 1e9);
        Ok(moved)
    }

    /// Submits every idle buffer whose range has something left to do.
    fn refill(&mut self, now_ns: u64) {
        let block_bytes = self.load.block_bytes as u64;
        let blocks_max = self.load.limit_bytes / block_bytes;
        // A buffer whose range is done is dropped.
        while let Some((token, buf)) = self.idle.pop() {
            let index = self.slots[token as usize].place;
            if self.issued[index] >= blocks_max {
                continue;
            }
            let place = self.places[index];
            let blocks = place.span_bytes / block_bytes;
            let block = match self.load.is_random {
                true => next_random(&mut self.random) % blocks,
                false => self.issued[index] % blocks,
            };
            self.issued[index] += 1;
            let op = self.next_op();
            self.slots[token as usize].submitted_ns = now_ns;
            self.queue.submit(Request {
                token,
                op,
                file: place.file,
                drive_index: place.drive_index,
                offset_bytes: place.start_bytes + block * block_bytes,
                buf: buf.into(),
            });
        }
    }

    fn next_op(&mut self) -> Op {
        let share = self.load.read_share;
        let is_read = share >= 1.0
            || (share > 0.0
                && (next_random(&mut self.random) >> 11) as f64 / 2_f64.powi(53) < share);
        if is_read { Op::Read } else { Op::Write }
    }

    fn take(
        &mut self,
        completion: Completion,
        now_ns: u64,
        moved: &mut Moved,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let request = completion.request;
        let slot = self.slots[request.token as usize];
        let bytes = completion.result.map_err(|errno| {
            observer.explain(request.op, slot.place, request.offset_bytes, errno)
        })?;
        if bytes < request.buf.len() {
            let cause = format!("{bytes} of {} bytes came", request.buf.len());
            return Err(Error::new(Kind::Io, OPERATION, cause)
                .offset(request.offset_bytes)
                .hint("the file became shorter while it was measured"));
        }
        moved.bytes += bytes as u64;
        moved.requests += 1;
        observer.served(&Served {
            place: slot.place,
            op: request.op,
            offset_bytes: request.offset_bytes,
            bytes,
            latency_ns: now_ns - slot.submitted_ns,
        });
        self.idle.push((request.token, request.buf.into_whole()));
        Ok(())
    }
}

/// splitmix64: offsets and bytes that no drive can predict.
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::drive::testing::{RamDevice, RamOptions};
    use crate::drive::{Access, FileSystem};

    /// Counts requests by range and direction.
    #[derive(Default)]
    struct Count {
        reads: [u64; 2],
        writes: [u64; 2],
        latency_ns_max: u64,
        blocks: Vec<u64>,
    }

    impl Observer for Count {
        fn check(&mut self) -> Result<()> {
            Ok(())
        }

        fn served(&mut self, served: &Served) {
            let count = match served.op {
                Op::Read => &mut self.reads,
                Op::Write => &mut self.writes,
            };
            count[served.place] += 1;
            self.latency_ns_max = self.latency_ns_max.max(served.latency_ns);
            self.blocks.push(served.offset_bytes);
        }

        fn explain(&self, _: Op, _: usize, _: u64, errno: i32) -> Error {
            Error::errno("test", errno)
        }
    }

    fn two_places() -> (Arc<dyn Device>, Vec<FileRange>) {
        let ram = RamDevice::new(RamOptions::default());
        let names = ["/d0/a", "/d1/b"];
        for name in names {
            ram.put(name, vec![7; 1 << 20]);
        }
        let places = names
            .iter()
            .enumerate()
            .map(|(drive_index, name)| FileRange {
                file: ram.open(Path::new(name), Access::Update).unwrap(),
                drive_index,
                start_bytes: 64 << 10,
                span_bytes: 256 << 10,
            });
        let places = places.collect();
        (Arc::new(ram), places)
    }

    #[test]
    fn each_place_gets_exactly_its_bytes_inside_its_stretch() {
        let (device, places) = two_places();
        let load = Load {
            limit_bytes: 512 << 10,
            ..Load::sequential(Op::Write, 32 << 10, 3, u64::MAX)
        };
        let mut count = Count::default();
        let moved = Runner::new(&device, &places, load).unwrap().run(&mut count);
        let moved = moved.unwrap();
        assert_eq!((moved.bytes, moved.requests), (1 << 20, 32));
        assert_eq!((count.writes, count.reads), ([16, 16], [0, 0]));
        assert!(count.latency_ns_max > 0 && moved.seconds > 0.0);
        count.blocks.sort_unstable();
        count.blocks.dedup();
        let wanted: Vec<u64> = (2..10).map(|block| block * (32 << 10)).collect();
        assert_eq!(count.blocks, wanted);
    }

    #[test]
    fn a_mix_has_about_its_share_of_reads_and_ends_with_its_time() {
        let (device, places) = two_places();
        let load = Load {
            read_share: 0.75,
            ..Load::random(Op::Read, 4096, 8, 50_000_000)
        };
        let mut count = Count::default();
        let moved = Runner::new(&device, &places, load).unwrap().run(&mut count);
        let moved = moved.unwrap();
        let reads: u64 = count.reads.iter().sum();
        let share = reads as f64 / moved.requests as f64;
        assert!((0.72..0.78).contains(&share), "{share}");
        assert!((0.05..0.06).contains(&moved.seconds), "{moved:?}");
        let ratio = (count.reads[0] + count.writes[0]) as f64 / moved.requests as f64;
        assert!((0.45..0.55).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_block_that_does_not_fit_is_refused() {
        let (device, places) = two_places();
        let load = Load::random(Op::Read, 1 << 20, 1, 1);
        let error = Runner::new(&device, &places, load).err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
    }
}
