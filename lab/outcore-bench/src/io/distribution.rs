//! Distribution by number of buckets, in memory only and between the drives.
//!
//! Contract: every processor has the engine's own bucketer ([`outcore::primitives::bucketer`]) and
//! distributes 64-bit keys into a number of buckets.
//! - In memory, the keys are a block that is read repeatedly, and full buffers are emptied on the
//!   spot. This measures the processor.
//! - With I/O, a block is read and distributed, and every full buffer is written, as in the first
//!   pass of a sort. The front half of each drive's stretch is read in order and the back half is
//!   written in order, alternating between the drives. This requires permission to write on all
//!   drives.
//!
//! Source: PALID (SPAA 2025), section 3 and its figure of distribution against the number of
//! buckets.
//!
//! Bounds: bucket buffers of [`BUFFERS_BYTES`] for all threads together, with at least 4 KiB per
//! buffer. Per drive, [`LARGE_DEPTH`] reads of [`LARGE_BYTES`] and twice as many writes of a buffer
//! are under way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use outcore::primitives::bucketer::Bucketer;
use outcore::{Error, Result};
use outcore_chart::{Axis, Chart, Scale, Series};
use outcore_io::drive::load::{FileRange, next_random};
use outcore_io::drive::{Completion, Device, Op, Queue, Request};
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::units::Unit;

use super::IoOptions;
use super::field::Field;
use super::sweeps::{LARGE_BYTES, LARGE_DEPTH};
use super::target::{Target, Whose};
use crate::load::in_threads;
use crate::watch::Watch;
use outcore_report::{Cell, Section, Table};

/// Bytes of the bucket buffers of all threads.
const BUFFERS_BYTES: usize = 128 << 20;
const BUFFER_BYTES_MAX: usize = 128 << 10;
const BUFFER_BYTES_MIN: usize = 4096;
/// Keys sampled per bucket.
const SAMPLES: usize = 16;
const WAIT: Duration = Duration::from_millis(50);
const OPERATION: &str = "measure distribution";

/// The report's section.
pub(super) fn by_buckets(
    options: &IoOptions,
    field: &Field<'_>,
    device: &Arc<dyn Device>,
) -> Result<Section> {
    let mut section = Section::new(
        "distribution",
        "Distribution",
        "All processors distribute 64-bit keys into buckets, by number of buckets: in memory, and with \
         the keys read from the drives and the buckets written to them, as the first pass of a \
         sort does. A rate counts each byte once. After PALID's figure.",
    );
    let may_write = options.is_write_ok && field.targets.iter().all(|target| target.is_writable);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut table = Table::new(
        "distribution",
        "Rate by number of buckets",
        &[
            ("buckets", Unit::Count),
            ("buffer", Unit::Bytes),
            ("in memory", Unit::BytesPerS),
            ("with I/O", Unit::BytesPerS),
            ("with I/O over in memory", Unit::Times),
        ],
    );
    let mut series = vec![
        Series::new("in memory", Vec::new()),
        Series::new("with I/O", Vec::new()),
    ];
    let every = if options.is_full { 1 } else { 2 };
    for power in (4..=12).step_by(every) {
        let buckets = 1_usize << power;
        let buffer_bytes =
            (BUFFERS_BYTES / threads / buckets).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX) / 4096
                * 4096;
        let mut rates = [None, None];
        for (at, has_io) in [false, true].into_iter().enumerate() {
            if (has_io && !may_write) || !field.step() {
                continue;
            }
            let how = if has_io { "with I/O" } else { "in memory" };
            field
                .watch()
                .say(&format!("distribution into {buckets} buckets, {how}"));
            let pass = Pass {
                watch: field.watch(),
                targets: field.targets,
                step_s: field.step_s(),
                device,
                places: field.places(field.targets.len()),
                buckets,
                buffer_bytes,
                threads,
                reads: AtomicU64::new(0),
                writes: AtomicU64::new(0),
            };
            let rate = pass.run(has_io)?;
            rates[at] = rate;
            series[at]
                .points
                .extend(rate.map(|rate| (buckets as f64, rate)));
        }
        let share = rates[1].zip(rates[0]).map(|(io, memory)| io / memory);
        table.row([
            Cell::from(buckets as f64),
            (buffer_bytes as f64).into(),
            rates[0].into(),
            rates[1].into(),
            share.into(),
        ]);
    }
    if !may_write {
        section.notes.push(
            "With I/O the buckets are written: --write-ok allows it, in directories and on empty devices."
                .to_owned(),
        );
    }
    series.retain(|line| !line.points.is_empty());
    section.charts.push(Chart {
        id: "distribution".to_owned(),
        title: format!("Keys distributed by {threads} threads"),
        x: Axis::new("buckets", Unit::Count).on(Scale::Log2),
        y: Axis::new("distributed", Unit::BytesPerS),
        series,
        ..Chart::default()
    });
    section.tables.push(table);
    Ok(section)
}

/// One measurement, and the state that its threads share.
struct Pass<'a> {
    watch: Watch<'a>,
    targets: &'a [Target],
    step_s: f64,
    device: &'a Arc<dyn Device>,
    places: Vec<FileRange>,
    buckets: usize,
    buffer_bytes: usize,
    threads: usize,
    /// Next block to read, and next buffer to write.
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Pass<'_> {
    /// Bytes per second that all threads distributed; `None` if a drive is too small.
    fn run(&self, has_io: bool) -> Result<Option<f64>> {
        let half_bytes = self.places.iter().map(|place| place.span_bytes / 2).min();
        if has_io && half_bytes.unwrap_or(0) < LARGE_BYTES {
            return Ok(None);
        }
        let gate = Barrier::new(self.threads);
        let results = in_threads(self.threads, |number| match has_io {
            true => self.between_drives(number as u64, &gate),
            false => self.in_memory(number as u64, &gate),
        });
        let (mut bytes, mut seconds) = (0, 0_f64);
        for result in results {
            let (of_thread_bytes, of_thread_s) = result?;
            bytes += of_thread_bytes;
            seconds = seconds.max(of_thread_s);
        }
        if has_io {
            let syncing = Instant::now();
            for place in &self.places {
                self.device.sync(place.file)?;
            }
            seconds += syncing.elapsed().as_secs_f64();
        }
        Ok(Some(bytes as f64 / seconds.max(1e-9)))
    }

    fn is_over(&self, started: Instant) -> Result<bool> {
        self.watch.check()?;
        Ok(started.elapsed().as_secs_f64() >= self.step_s)
    }

    fn bucketer(&self, number: u64, pool: &Pool) -> Result<Bucketer> {
        let mut random = number;
        let sample = (0..self.buckets * SAMPLES).map(|_| next_random(&mut random));
        Bucketer::new(sample.collect(), self.buckets, pool)
    }

    /// Buffers for the buckets and `more`, with memory that the system has already provided.
    fn pool(&self, more: usize) -> Result<Pool> {
        let count = self.buckets + 1 + more;
        let budget = Budget::new((count * self.buffer_bytes) as u64);
        let pool = Pool::new(&budget, OPERATION, self.buffer_bytes, count)?;
        let mut touched: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();
        touched.iter_mut().for_each(|buf| buf.fill(0));
        Ok(pool)
    }

    fn in_memory(&self, number: u64, gate: &Barrier) -> Result<(u64, f64)> {
        let ready = self.pool(0).and_then(|pool| self.bucketer(number, &pool));
        let mut random = number + 1;
        let keys: Vec<u64> = (0..LARGE_BYTES / 8)
            .map(|_| next_random(&mut random))
            .collect();
        // Every thread arrives here before any may fail; otherwise the others would wait forever.
        gate.wait();
        let mut bucketer = ready?;
        let started = Instant::now();
        let mut bytes = 0;
        while !self.is_over(started)? {
            bucketer.distribute(&keys, &mut |_, buf| Ok(buf))?;
            bytes += LARGE_BYTES;
        }
        Ok((bytes, started.elapsed().as_secs_f64()))
    }

    fn between_drives(&self, number: u64, gate: &Barrier) -> Result<(u64, f64)> {
        let drives = self.places.len();
        let reads = (LARGE_DEPTH as usize * drives).div_ceil(self.threads);
        let writes = 2 * reads;
        let ready = self.pool(writes).and_then(|pool| {
            let bucketer = self.bucketer(number, &pool)?;
            Ok((pool, bucketer))
        });
        gate.wait();
        let (pool, mut bucketer) = ready?;
        let budget = Budget::new(reads as u64 * LARGE_BYTES);
        let read_pool = Pool::new(&budget, OPERATION, LARGE_BYTES as usize, reads)?;
        let mut lane = ThreadQueue {
            pass: self,
            queue: self.device.queue(reads + writes)?,
            done: Vec::new(),
            arrived: VecDeque::new(),
            reads_in_flight: 0,
        };
        let mut bytes = 0;
        let started = Instant::now();
        loop {
            let is_over = self.is_over(started)?;
            while !is_over && let Some(buf) = read_pool.take() {
                lane.read(buf);
            }
            let Some((mut block, is_foreign, seed)) = lane.next_block()? else {
                break;
            };
            let keys: &mut [u64] = bytemuck::cast_slice_mut(&mut block[..]);
            if is_foreign {
                // Data found on a device need not be keys that fill all buckets.
                let mut random = seed;
                keys.iter_mut()
                    .for_each(|key| *key ^= next_random(&mut random));
            }
            bucketer.distribute(keys, &mut |_, full| {
                lane.write(full);
                loop {
                    if let Some(empty) = pool.take() {
                        return Ok(empty);
                    }
                    lane.poll()?;
                }
            })?;
            bytes += LARGE_BYTES;
        }
        while lane.queue.in_flight() > 0 {
            lane.poll()?;
        }
        Ok((bytes, started.elapsed().as_secs_f64()))
    }
}

/// One thread's queue to the drives.
struct ThreadQueue<'a> {
    pass: &'a Pass<'a>,
    queue: Box<dyn Queue>,
    done: Vec<Completion>,
    /// Blocks that were read: the bytes, and their drive and offset.
    arrived: VecDeque<(Buf, usize, u64)>,
    reads_in_flight: usize,
}

impl ThreadQueue<'_> {
    /// The drive and offset of piece `number` of `piece_bytes`: alternating between the drives, in
    /// one half of each stretch.
    fn place_of(&self, number: u64, piece_bytes: u64, is_back: bool) -> (usize, u64) {
        let places = &self.pass.places;
        let drive = (number % places.len() as u64) as usize;
        let place = &places[drive];
        let half_bytes = place.span_bytes / 2 / LARGE_BYTES * LARGE_BYTES;
        let row = number / places.len() as u64 % (half_bytes / piece_bytes).max(1);
        let start_bytes = place.start_bytes + if is_back { half_bytes } else { 0 };
        (drive, start_bytes + row * piece_bytes)
    }

    fn send(&mut self, op: Op, drive: usize, offset_bytes: u64, buf: Buf) {
        let place = &self.pass.places[drive];
        self.queue.submit(Request {
            token: drive as u64,
            op,
            file: place.file,
            drive_index: place.drive_index,
            offset_bytes,
            buf: buf.into(),
        });
    }

    fn read(&mut self, buf: Buf) {
        let number = self.pass.reads.fetch_add(1, Ordering::Relaxed);
        let (drive, offset_bytes) = self.place_of(number, LARGE_BYTES, false);
        self.reads_in_flight += 1;
        self.send(Op::Read, drive, offset_bytes, buf);
    }

    fn write(&mut self, buf: Buf) {
        let number = self.pass.writes.fetch_add(1, Ordering::Relaxed);
        let (drive, offset_bytes) = self.place_of(number, buf.len() as u64, true);
        self.send(Op::Write, drive, offset_bytes, buf);
    }

    /// The next block that was read, whether its device held data before the measurement, and a
    /// number for the block; `None` if no read is under way.
    fn next_block(&mut self) -> Result<Option<(Buf, bool, u64)>> {
        loop {
            if let Some((buf, drive, offset_bytes)) = self.arrived.pop_front() {
                let is_foreign = self.pass.targets[drive].whose != Whose::Own;
                return Ok(Some((buf, is_foreign, offset_bytes)));
            }
            if self.reads_in_flight == 0 {
                return Ok(None);
            }
            self.poll()?;
        }
    }

    fn poll(&mut self) -> Result<()> {
        self.pass.watch.check()?;
        self.queue.complete(Some(WAIT), &mut self.done)?;
        for Completion { request, result } in self.done.drain(..) {
            let drive = request.token as usize;
            let wanted = request.buf.len();
            if result != Ok(wanted) {
                let errno = result.err().unwrap_or(rustix::io::Errno::IO.raw_os_error());
                let target = &self.pass.targets[drive];
                return Err(Error::errno(OPERATION, errno)
                    .drive(&target.name)
                    .path(&target.path)
                    .offset(request.offset_bytes));
            }
            if request.op == Op::Read {
                self.reads_in_flight -= 1;
                self.arrived
                    .push_back((request.buf.into_whole(), drive, request.offset_bytes));
            }
        }
        Ok(())
    }
}
