//! A load on a striped volume: requests of one kind from one thread, counted and timed.
//!
//! Contract: [`run`] keeps up to [`VolumeLoad::depth`] requests in flight. It submits new ones when
//! half of them are back, as Falcon's watermarks do, so that requests submitted together can be
//! merged. It ends when its time or its bytes are used up (within a window) and all requests are
//! back. Writes end with a sync, which is part of the measured time.
//!
//! Bounds: memory is depth × block, filled with incompressible bytes before the clock starts.

use crate::batch::{DriveMeter, Submitter, VolumeCompletion, VolumeRequest};
use crate::striped::StripedVolume;
use outcore_io::drive::Op;
use outcore_io::drive::load::next_random;
use outcore_io::drive::queue::{Class, Latencies};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::port::WAIT_MAX;

const OPERATION: &str = "measure volume";

/// The requests to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeLoad {
    /// Direction.
    pub op: Op,
    /// Bytes per request.
    pub block_bytes: usize,
    /// Requests in flight, before splitting.
    pub depth: usize,
    /// Whether blocks are chosen at random; otherwise sequentially, then from the start again.
    pub is_random: bool,
    /// Time limit.
    pub limit_ns: u64,
    /// Bytes to move, at most.
    pub limit_bytes: u64,
    /// Seed of the random blocks and contents.
    pub seed: u64,
}

/// How much was moved, and how fast.
#[derive(Debug, Clone, Default)]
pub struct VolumeMoved {
    /// Bytes of all requests.
    pub bytes: u64,
    /// Number of requests.
    pub requests: u64,
    /// From the first request to the last completion, the sync included.
    pub seconds: f64,
    /// CPU time of the thread, if the clock is the system's.
    pub cpu_seconds: Option<f64>,
    /// Latency of the requests.
    pub latency: Latencies,
    /// Measurements of each drive.
    pub meters: Vec<DriveMeter>,
}

impl VolumeMoved {
    /// Bytes per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds.max(1e-9)
    }

    /// Requests per second.
    pub fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }

    /// Transfers that the drives received.
    pub fn transfers(&self) -> u64 {
        self.meters.iter().map(|meter| meter.transfers).sum()
    }
}

/// Runs `load` on a submitter of its own; `check` stops it.
///
/// # Errors
/// A request that fails; a volume smaller than a request; the errors of `check`.
pub fn run(
    volume: &StripedVolume,
    load: &VolumeLoad,
    check: &dyn Fn() -> Result<()>,
) -> Result<VolumeMoved> {
    let blocks = volume.len_bytes() / load.block_bytes as u64;
    if blocks == 0 {
        return Err(Error::usage(
            OPERATION,
            "the volume is smaller than a request",
        ));
    }
    let budget = Budget::new(u64::MAX);
    let pool = Pool::new(&budget, OPERATION, load.block_bytes, load.depth)?;
    let mut random = load.seed;
    let mut idle = Vec::with_capacity(load.depth);
    while let Some(mut buf) = pool.take() {
        for word in buf.chunks_exact_mut(8) {
            word.copy_from_slice(&next_random(&mut random).to_le_bytes());
        }
        idle.push(buf.split_to(load.block_bytes));
    }
    let mut submitter = volume.submitter()?;
    submitter.keep(&pool);
    let mut runner = Runner {
        submitter,
        volume,
        load,
        blocks,
        issued: 0,
        random,
        idle,
        batch: Vec::new(),
        done: Vec::new(),
        moved: VolumeMoved::default(),
    };
    runner.run(check)?;
    Ok(runner.moved)
}

struct Runner<'a> {
    submitter: Submitter,
    volume: &'a StripedVolume,
    load: &'a VolumeLoad,
    blocks: u64,
    issued: u64,
    random: u64,
    idle: Vec<Buf>,
    batch: Vec<VolumeRequest>,
    done: Vec<VolumeCompletion>,
    moved: VolumeMoved,
}

impl Runner<'_> {
    fn run(&mut self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let device = self.volume.device();
        let (start_ns, start_cpu_ns) = (device.now_ns(), device.thread_cpu_ns());
        let requests_max = self.load.limit_bytes / self.load.block_bytes as u64;
        while device.now_ns() - start_ns < self.load.limit_ns && self.issued < requests_max {
            check()?;
            self.refill();
            self.submitter.submit(&mut self.batch);
            self.submitter.poll(Some(WAIT_MAX), &mut self.done)?;
            self.take_back()?;
        }
        self.idle
            .extend(self.batch.drain(..).map(|request| request.buf));
        self.submitter.drain(&mut self.done)?;
        self.take_back()?;
        if self.load.op == Op::Write {
            self.volume.sync()?;
        }
        self.moved.seconds = (device.now_ns() - start_ns) as f64 / 1e9;
        let cpu_ns = device.thread_cpu_ns().zip(start_cpu_ns);
        self.moved.cpu_seconds = cpu_ns.map(|(end, start)| (end - start) as f64 / 1e9);
        self.moved.meters = self.submitter.meters().cloned().collect();
        Ok(())
    }

    /// Submits new requests once half of the buffers are back.
    fn refill(&mut self) {
        if 2 * self.idle.len() < self.load.depth {
            return;
        }
        while let Some(buf) = self.idle.pop() {
            let block = match self.load.is_random {
                true => next_random(&mut self.random) % self.blocks,
                false => self.issued % self.blocks,
            };
            self.issued += 1;
            self.batch.push(VolumeRequest {
                token: 0,
                op: self.load.op,
                class: Class::Foreground,
                offset_bytes: block * self.load.block_bytes as u64,
                buf,
            });
        }
    }

    fn take_back(&mut self) -> Result<()> {
        for completion in self.done.drain(..) {
            if let Some(fault) = completion.fault {
                let error = self.volume.explain(&fault);
                return Err(match error.kind() {
                    Kind::Usage => error.hint("blocks are multiples of 512 bytes"),
                    _ => error,
                });
            }
            self.moved.bytes += completion.buf.len() as u64;
            self.moved.requests += 1;
            self.moved.latency.record(completion.latency_ns);
            self.idle.push(completion.buf);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use super::*;
    use crate::striped::StripeOptions;
    use outcore_io::drive::testing::{RamDevice, RamOptions};

    #[test]
    fn a_load_runs_for_its_time_and_counts_what_it_moved() {
        let ram = RamDevice::new(RamOptions::default());
        let dirs: Vec<PathBuf> = (0..2).map(|d| PathBuf::from(format!("/d{d}"))).collect();
        let options = StripeOptions::default();
        let volume = StripedVolume::temporary(Arc::new(ram), &dirs, 4 << 20, options).unwrap();
        let load = VolumeLoad {
            op: Op::Write,
            block_bytes: 64 << 10,
            depth: 16,
            is_random: false,
            limit_ns: 10_000_000,
            limit_bytes: u64::MAX,
            seed: 1,
        };
        let moved = run(&volume, &load, &|| Ok(())).unwrap();
        assert_eq!(moved.bytes, moved.requests << 16);
        assert!(
            moved.requests > 100 && moved.transfers() < moved.requests,
            "{moved:?}"
        );
        assert!((0.01..0.02).contains(&moved.seconds), "{moved:?}");
        let stopped = run(&volume, &load, &|| Err(Error::interrupted()));
        assert_eq!(stopped.err().unwrap().kind(), Kind::Interrupted);
        let large = VolumeLoad {
            block_bytes: 16 << 20,
            ..load
        };
        assert_eq!(
            run(&volume, &large, &|| Ok(())).err().unwrap().kind(),
            Kind::Usage
        );
    }
}
