//! Loads of several threads on several drives at the same time, with the latency of each drive.
//!
//! Contract: each thread has a queue of its own and keeps [`Shot::depth`] requests in flight on
//! each of the drives. Sequential loads of several threads divide a drive into stretches; random
//! ones use all of it. Latencies are counted per drive in histograms of three digits (Tene's
//! HdrHistogram), 0.1 us to 100 s. A rehearsal only counts the steps, so that a run can divide its
//! time among them.
//!
//! Bounds: memory is threads x drives x depth x block, at most [`WINDOW_BYTES_MAX`]; loads that
//! would need more run with a smaller depth.

use std::cell::Cell;
use std::sync::{Arc, Barrier};

use hdrhistogram::Histogram;
use outcore::{Error, Result};
use outcore_io::drive::load::{FileRange, Load, Moved, Observer, Runner, Served};
use outcore_io::drive::{Device, Op};

use super::target::Target;
use crate::load::{in_threads, latencies};
use crate::watch::Watch;

/// Bytes of the buffers of one load, over all threads.
const WINDOW_BYTES_MAX: u64 = 512 << 20;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shot {
    /// Share of reads among the requests, from 0 to 1.
    pub read_share: f64,
    /// At random places instead of in order.
    pub is_random: bool,
    /// Bytes per request.
    pub block_bytes: u64,
    /// Queue depth: requests in flight per thread and drive.
    pub depth: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of drives; the first ones are used.
    pub drives: usize,
}

impl Shot {
    /// One thread on `drives`.
    pub(crate) fn new(
        op: Op,
        is_random: bool,
        block_bytes: u64,
        depth: u32,
        drives: usize,
    ) -> Self {
        Shot {
            read_share: match op {
                Op::Read => 1.0,
                Op::Write => 0.0,
            },
            is_random,
            block_bytes,
            depth,
            threads: 1,
            drives,
        }
    }

    /// Its name in fio.
    pub(crate) fn name(&self) -> &'static str {
        match (self.is_random, self.read_share) {
            (false, share) if share >= 1.0 => "sequential read",
            (false, share) if share <= 0.0 => "sequential write",
            (false, _) => "sequential mix",
            (true, share) if share >= 1.0 => "random read",
            (true, share) if share <= 0.0 => "random write",
            (true, _) => "random mix",
        }
    }
}

/// Results of one drive in a measurement.
#[derive(Debug, Clone)]
pub(crate) struct DriveResult {
    /// Bytes moved.
    pub bytes: u64,
    /// Requests completed.
    pub requests: u64,
    /// Latency from submission to completion, in nanoseconds.
    pub latency_ns: Histogram<u64>,
}

/// Results of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// The requested measurement, with the depth that was used.
    pub shot: Shot,
    /// Totals; the seconds are those of the slowest thread.
    pub moved: Moved,
    /// Results per drive.
    pub lanes: Vec<DriveResult>,
}

impl Measured {
    /// Processor time per request.
    pub(crate) fn cpu_us_per_request(&self) -> Option<f64> {
        let cpu_seconds = self.moved.cpu_seconds?;
        (self.moved.requests > 0).then(|| cpu_seconds * 1e6 / self.moved.requests as f64)
    }

    /// Share of its threads' time for which they ran.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let room_seconds = self.moved.seconds * f64::from(self.shot.threads);
        (room_seconds > 0.0).then_some(self.moved.cpu_seconds? / room_seconds)
    }

    /// A quantile of all drives' latencies, in seconds.
    pub(crate) fn latency_s(&self, quantile: f64) -> f64 {
        let mut all = latencies();
        for lane in &self.lanes {
            let _ = all.add(&lane.latency_ns);
        }
        all.value_at_quantile(quantile) as f64 / 1e9
    }
}

/// The drives under measurement.
pub(super) struct Field<'a> {
    /// The drives.
    pub(super) targets: &'a [Target],
    device: Arc<dyn Device>,
    watch: Watch<'a>,
    /// Time per measurement; 0 in a rehearsal.
    step_s: Cell<f64>,
    steps: Cell<u32>,
}

impl<'a> Field<'a> {
    /// The drives on `device`, in rehearsal.
    pub(super) fn new(device: &Arc<dyn Device>, targets: &'a [Target], watch: Watch<'a>) -> Self {
        Field {
            targets,
            device: Arc::clone(device),
            watch,
            step_s: Cell::new(0.0),
            steps: Cell::new(0),
        }
    }

    /// Measurements so far.
    pub(super) fn steps(&self) -> u32 {
        self.steps.get()
    }

    /// Whether steps are only counted.
    pub(super) fn is_rehearsal(&self) -> bool {
        self.step_s.get() == 0.0
    }

    /// Sets how long each further measurement takes.
    pub(super) fn begin(&self, step_s: f64) {
        self.step_s.set(step_s);
        self.steps.set(0);
    }

    /// The watcher.
    pub(super) fn watch(&self) -> Watch<'a> {
        self.watch
    }

    /// Time per measurement.
    pub(super) fn step_s(&self) -> f64 {
        self.step_s.get()
    }

    /// Counts a step that runs elsewhere. Returns whether it must be run.
    pub(super) fn step(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        !self.is_rehearsal()
    }

    /// The ranges of the first `drives` drives that are read and written.
    pub(super) fn places(&self, drives: usize) -> Vec<FileRange> {
        self.targets[..drives]
            .iter()
            .map(|target| target.place)
            .collect()
    }

    /// Measures. Returns `None` in a rehearsal, or if the drives do not accept such blocks or the
    /// file is too short.
    ///
    /// # Errors
    /// Errors of the drives, interrupted.
    pub(super) fn measure(&self, shot: Shot) -> Result<Option<Measured>> {
        if !self.step() {
            return Ok(None);
        }
        let places = self.places(shot.drives);
        self.measure_on(&self.device, &places, shot)
    }

    /// Measures other ranges, on another device.
    ///
    /// # Errors
    /// As [`Field::measure`].
    pub(super) fn measure_on(
        &self,
        device: &Arc<dyn Device>,
        places: &[FileRange],
        mut shot: Shot,
    ) -> Result<Option<Measured>> {
        self.watch.check()?;
        if places
            .iter()
            .any(|place| place.span_bytes < shot.block_bytes)
        {
            return Ok(None);
        }
        let limit_ns = (self.step_s.get() * 1e9) as u64;
        let window_bytes = shot.block_bytes * u64::from(shot.threads) * places.len() as u64;
        let depth_max = (WINDOW_BYTES_MAX / window_bytes.max(1)).clamp(1, 1 << 16) as u32;
        shot.depth = shot.depth.min(depth_max);
        let load = Load {
            read_share: shot.read_share,
            block_bytes: shot.block_bytes as usize,
            depth: shot.depth,
            is_random: shot.is_random,
            limit_ns,
            limit_bytes: u64::MAX,
            seed: 1,
        };
        let done = self.run(device, places, load, shot.threads)?;
        Ok(done.map(|(moved, lanes)| Measured { shot, moved, lanes }))
    }

    /// Fills every file of our own, so that there is data to read, for at most `limit_s`. Returns
    /// the filled bytes per drive.
    ///
    /// # Errors
    /// Errors of the drives, interrupted.
    pub(super) fn lay_out(&self, limit_s: f64, block_bytes: u64) -> Result<Vec<u64>> {
        let own: Vec<usize> = (0..self.targets.len())
            .filter(|at| self.targets[*at].whose == super::target::Whose::Own)
            .collect();
        let mut spans: Vec<u64> = self.targets.iter().map(|t| t.place.span_bytes).collect();
        if own.is_empty() {
            return Ok(spans);
        }
        let places: Vec<FileRange> = own.iter().map(|at| self.targets[*at].place).collect();
        let mut load = Load::sequential(Op::Write, block_bytes as usize, 8, (limit_s * 1e9) as u64);
        load.limit_bytes = places
            .iter()
            .map(|place| place.span_bytes)
            .max()
            .unwrap_or(0);
        if let Some((_, lanes)) = self.run(&self.device, &places, load, 1)? {
            for (at, lane) in own.iter().zip(lanes) {
                spans[*at] = spans[*at].min(lane.bytes);
            }
        }
        Ok(spans)
    }

    fn run(
        &self,
        device: &Arc<dyn Device>,
        places: &[FileRange],
        load: Load,
        threads: u32,
    ) -> Result<Option<(Moved, Vec<DriveResult>)>> {
        let gate = Barrier::new(threads as usize);
        let (watch, targets) = (self.watch, self.targets);
        let one = |number: usize| -> Result<(Moved, Vec<DriveResult>)> {
            let number = number as u32;
            let places: Vec<FileRange> = places
                .iter()
                .map(|place| share(place, &load, number, threads))
                .collect();
            let load = Load {
                seed: load.seed + u64::from(number),
                ..load
            };
            let ready = Runner::new(device, &places, load);
            // Every thread arrives here before any may fail; otherwise the others would wait
            // forever.
            gate.wait();
            let mut seen = Seen::new(watch, targets, places.len());
            let moved = ready?.run(&mut seen)?;
            Ok((moved, seen.lanes))
        };
        let results = in_threads(threads as usize, one);
        let mut all = Moved::default();
        let mut lanes: Vec<DriveResult> = Vec::new();
        for result in results {
            let (moved, of_thread) = match result {
                Ok(done) => done,
                // The drive does not accept this block size or alignment.
                Err(error)
                    if error.raw_errno() == Some(rustix::io::Errno::INVAL.raw_os_error()) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            all.bytes += moved.bytes;
            all.requests += moved.requests;
            all.seconds = all.seconds.max(moved.seconds);
            let cpu_seconds = moved
                .cpu_seconds
                .map(|s| s + all.cpu_seconds.unwrap_or(0.0));
            all.cpu_seconds = cpu_seconds.or(all.cpu_seconds);
            if lanes.is_empty() {
                lanes = of_thread;
                continue;
            }
            for (lane, more) in lanes.iter_mut().zip(of_thread) {
                lane.bytes += more.bytes;
                lane.requests += more.requests;
                let _ = lane.latency_ns.add(more.latency_ns);
            }
        }
        Ok(Some((all, lanes)))
    }
}

/// The part of a place that one of several threads works on.
fn share(place: &FileRange, load: &Load, number: u32, threads: u32) -> FileRange {
    if load.is_random || threads == 1 {
        return *place;
    }
    let block_bytes = load.block_bytes as u64;
    let part_bytes = place.span_bytes / u64::from(threads) / block_bytes * block_bytes;
    if part_bytes == 0 {
        return *place;
    }
    FileRange {
        start_bytes: place.start_bytes + u64::from(number) * part_bytes,
        span_bytes: part_bytes,
        ..*place
    }
}

/// Counts the completions of one thread.
struct Seen<'a> {
    watch: Watch<'a>,
    targets: &'a [Target],
    lanes: Vec<DriveResult>,
}

impl<'a> Seen<'a> {
    fn new(watch: Watch<'a>, targets: &'a [Target], places: usize) -> Self {
        let lane = DriveResult {
            bytes: 0,
            requests: 0,
            latency_ns: latencies(),
        };
        Seen {
            watch,
            targets,
            lanes: vec![lane; places],
        }
    }
}

impl Observer for Seen<'_> {
    fn check(&mut self) -> Result<()> {
        self.watch.check()
    }

    fn served(&mut self, served: &Served) {
        let lane = &mut self.lanes[served.place];
        lane.bytes += served.bytes as u64;
        lane.requests += 1;
        lane.latency_ns.saturating_record(served.latency_ns);
    }

    fn explain(&self, op: Op, place: usize, offset_bytes: u64, errno: i32) -> Error {
        let operation = match op {
            Op::Read => "read while measuring",
            Op::Write => "write while measuring",
        };
        let error = Error::errno(operation, errno).offset(offset_bytes);
        match self.targets.get(place) {
            Some(target) => error.drive(&target.name).path(&target.path),
            None => error,
        }
    }
}
