//! Simulates the merge during the read of the output, event by event.
//!
//! Model:
//! - The chunks of every run are spread round-robin over channels and dies from an arbitrary start.
//! - When a chunk buffer of a run becomes free, the run's next chunk joins a queue. At most
//!   `prefetch_max` reads are in flight.
//! - A die reads one chunk at a time and keeps it until the bus of its channel has moved it. The
//!   bus serves chunks in the order in which they come.
//! - A core takes the next record when the first buffer of each of its runs has arrived, works for
//!   the record's time, and passes it to the link. It waits while the output is full.
//! - If one core does everything (the prototype), prefetches start only between two records.
//! - Each of several cores merges its own key range, so each has its part of every run.
//!
//! The order of the input decides which run the next record comes from: the same run until it ends
//! (sorted input), or any run with equal probability (random input).
//!
//! Invariants: every record is output once. Prefetches in flight never exceed the bound. Equal
//! inputs give equal times on every machine. Bounds: memory for runs times buffers; `O(log)` per
//! event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use outcore_io::{Error, Result};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use super::{MergeDrive, OPERATION};
use crate::quantities::{Ps, SECOND};

/// The order of the sort's input, which decides how the merge jumps between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Sorted: one run after the other.
    Sorted,
    /// Random: every run is equally likely to have the next record.
    Random,
}

/// The merge to simulate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MergeJob {
    /// Bytes per record. A chunk holds a whole number of records, or a record is a whole number of
    /// chunks.
    pub record_bytes: u64,
    /// Number of records in all runs.
    pub records: u64,
    /// Number of sorted runs.
    pub runs: u32,
    /// Order of the input.
    pub order: Order,
    /// The processor takes no time, as in a plain read.
    pub plain: bool,
    /// Seed of the random order.
    pub seed: u64,
}

/// The result of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MergeReport {
    /// Simulated seconds.
    pub seconds: f64,
    /// Bytes of output.
    pub bytes: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Share of the time for which the cores worked.
    pub cpu_used: f64,
    /// Share of the time for which dies were reading or waiting for their bus.
    pub dies_used: f64,
    /// Share of the time for which the link was moving data.
    pub link_used: f64,
    /// Mean number of prefetches in flight.
    pub prefetches_mean: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    ArrayDone(u32),
    BusDone(u32),
    Merged(u32),
    Sent,
}

/// One core's part of one run.
#[derive(Debug, Default)]
struct Stream {
    chunks: u64,
    /// Chunks that were requested, issued to a die, and merged.
    asked: u64,
    issued: u64,
    done: u64,
    records_left: u64,
    /// Records left in the chunk at the front.
    front_left: u64,
    /// One entry per chunk that was requested and not yet merged, in order: true when it has
    /// arrived.
    buffers: VecDeque<bool>,
    start: u64,
}

impl Stream {
    /// All chunks of the next record have arrived.
    fn head_is_here(&self, record_chunks: u64) -> bool {
        let mut first = self.buffers.iter().take(record_chunks as usize);
        self.buffers.len() as u64 >= record_chunks && first.all(|arrived| *arrived)
    }
}

#[derive(Debug, Default)]
struct Core {
    busy: bool,
    /// Number of streams that have records left and whose first buffer has not arrived.
    missing: u32,
    /// Streams with records left.
    live: Vec<u32>,
    /// The stream of the current record.
    current: u32,
    /// A merged record waits because the output is full.
    holds: bool,
}

#[derive(Debug, Default)]
struct Die {
    busy: bool,
    waiting: VecDeque<(u32, u64)>,
    current: (u32, u64),
}

struct Engine<'a> {
    drive: &'a MergeDrive,
    job: &'a MergeJob,
    chunk_records: u64,
    record_chunks: u64,
    merge_ps: Ps,
    events: BinaryHeap<Reverse<(Ps, u64, Event)>>,
    sequence: u64,
    now: Ps,
    streams: Vec<Stream>,
    cores: Vec<Core>,
    dies: Vec<Die>,
    bus_free: Vec<Ps>,
    prefetches: VecDeque<u32>,
    in_flight: u32,
    output: u32,
    link_busy: bool,
    sent: u64,
    rng: Xoshiro256PlusPlus,
    cpu_ps: u128,
    die_ps: u128,
    link_ps: u128,
    flight_ps: u128,
}

/// Simulates the merge.
///
/// # Errors
/// The drive or the job is out of range: there are no runs, records and chunks do not fit each
/// other, or the buffers exceed the drive's DRAM.
pub fn merge(drive: &MergeDrive, job: &MergeJob) -> Result<MergeReport> {
    drive.validate()?;
    validate(drive, job)?;
    let mut engine = Engine::new(drive, job);
    engine.start();
    while let Some(Reverse((at, _, event))) = engine.events.pop() {
        assert!(at >= engine.now, "time ran backwards");
        engine.flight_ps += u128::from(engine.in_flight) * u128::from(at - engine.now);
        engine.now = at;
        engine.handle(event);
    }
    assert_eq!(engine.sent, job.records, "records are missing");
    Ok(engine.report())
}

fn validate(drive: &MergeDrive, job: &MergeJob) -> Result<()> {
    let fail = |cause: String| Err(Error::usage(OPERATION, cause));
    if job.records == 0 || job.record_bytes == 0 || job.runs == 0 {
        return fail("there is nothing to merge".to_owned());
    }
    if u64::from(job.runs) * u64::from(drive.cpu.cores) > job.records || job.runs > 1 << 20 {
        return fail(format!("{} runs of {} records", job.runs, job.records));
    }
    let (chunk, record) = (drive.chunk_bytes, job.record_bytes);
    if chunk % record != 0 && record % chunk != 0 && record > chunk {
        return fail(format!(
            "records of {record} bytes are not a whole number of chunks of {chunk}"
        ));
    }
    let buffers_bytes = u64::from(job.runs)
        * u64::from(drive.cpu.cores)
        * u64::from(drive.buffers_a_run)
        * chunk.max(record);
    if buffers_bytes > drive.dram_bytes {
        return Err(Error::usage(
            OPERATION,
            format!(
                "{} runs need {buffers_bytes} bytes of buffers, the drive has {}",
                job.runs, drive.dram_bytes
            ),
        )
        .hint("use fewer runs (more host memory), fewer cores or fewer buffers per run"));
    }
    Ok(())
}

impl<'a> Engine<'a> {
    fn new(drive: &'a MergeDrive, job: &'a MergeJob) -> Self {
        let cores = drive.cpu.cores as usize;
        let dies = (drive.channels * drive.dies) as usize;
        let chunk_records = (drive.chunk_bytes / job.record_bytes).max(1);
        let record_chunks = job.record_bytes.div_ceil(drive.chunk_bytes).max(1);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(job.seed);
        let parts = cores as u64 * u64::from(job.runs);
        let streams: Vec<_> = (0..parts)
            .map(|part| {
                let records = job.records / parts + u64::from(part < job.records % parts);
                Stream {
                    chunks: records.div_ceil(chunk_records) * record_chunks,
                    records_left: records,
                    front_left: chunk_records.min(records),
                    start: rng.random_range(0..dies as u64),
                    ..Stream::default()
                }
            })
            .collect();
        Engine {
            drive,
            job,
            chunk_records,
            record_chunks,
            merge_ps: if job.plain {
                0
            } else {
                drive.cpu.merge_ps(job.record_bytes, job.runs)
            },
            events: BinaryHeap::new(),
            sequence: 0,
            now: 0,
            streams,
            cores: (0..cores).map(|_| Core::default()).collect(),
            dies: (0..dies).map(|_| Die::default()).collect(),
            bus_free: vec![0; drive.channels as usize],
            prefetches: VecDeque::new(),
            in_flight: 0,
            output: 0,
            link_busy: false,
            sent: 0,
            rng,
            cpu_ps: 0,
            die_ps: 0,
            link_ps: 0,
            flight_ps: 0,
        }
    }

    fn at(&mut self, at: Ps, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn start(&mut self) {
        let runs = self.job.runs;
        for core in 0..self.cores.len() as u32 {
            self.cores[core as usize].live = (core * runs..(core + 1) * runs).collect();
            self.cores[core as usize].missing = runs;
        }
        let depth = u64::from(self.drive.buffers_a_run) * self.record_chunks;
        for _ in 0..depth {
            for stream in 0..self.streams.len() as u32 {
                self.ask(stream);
            }
        }
        self.prefetch();
    }

    /// Queues the next chunk of a stream, if it has one.
    fn ask(&mut self, stream: u32) {
        let state = &mut self.streams[stream as usize];
        if state.asked < state.chunks {
            state.asked += 1;
            state.buffers.push_back(false);
            self.prefetches.push_back(stream);
        }
    }

    fn prefetch(&mut self) {
        if self.drive.one_core_does_both && self.cores.iter().any(|core| core.busy) {
            return;
        }
        while self.in_flight < self.drive.prefetch_max {
            let Some(stream) = self.prefetches.pop_front() else {
                return;
            };
            self.in_flight += 1;
            let state = &mut self.streams[stream as usize];
            let chunk = state.issued;
            state.issued += 1;
            let place = state.start + chunk;
            let channel = place % u64::from(self.drive.channels);
            let way = place / u64::from(self.drive.channels) % u64::from(self.drive.dies);
            let die = (channel * u64::from(self.drive.dies) + way) as u32;
            self.dies[die as usize].waiting.push_back((stream, chunk));
            self.start_die(die);
        }
    }

    fn start_die(&mut self, die: u32) {
        let state = &mut self.dies[die as usize];
        if state.busy {
            return;
        }
        if let Some(next) = state.waiting.pop_front() {
            state.busy = true;
            state.current = next;
            self.die_ps += u128::from(self.drive.read_ps);
            self.at(self.now + self.drive.read_ps, Event::ArrayDone(die));
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::ArrayDone(die) => {
                let bus = &mut self.bus_free[(die / self.drive.dies) as usize];
                let end = self.now.max(*bus) + self.drive.bus_ps;
                *bus = end;
                self.die_ps += u128::from(end - self.now);
                self.at(end, Event::BusDone(die));
            }
            Event::BusDone(die) => {
                let (stream, chunk) = self.dies[die as usize].current;
                self.dies[die as usize].busy = false;
                self.in_flight -= 1;
                self.arrived(stream, chunk);
                self.start_die(die);
                self.prefetch();
            }
            Event::Merged(core) => {
                let state = &mut self.cores[core as usize];
                state.busy = false;
                state.holds = true;
                let stream = state.current;
                if self.streams[stream as usize].front_left == 0 {
                    self.next_chunk(core, stream);
                }
                self.prefetch();
                self.hand_over(core);
            }
            Event::Sent => {
                self.link_busy = false;
                self.output -= 1;
                self.sent += 1;
                for core in 0..self.cores.len() as u32 {
                    self.hand_over(core);
                }
                self.send();
            }
        }
    }

    fn arrived(&mut self, stream: u32, chunk: u64) {
        let record_chunks = self.record_chunks;
        let state = &mut self.streams[stream as usize];
        let had = state.head_is_here(record_chunks);
        let at = (chunk - state.done) as usize;
        state.buffers[at] = true;
        if !had && state.head_is_here(record_chunks) {
            let core = stream / self.job.runs;
            self.cores[core as usize].missing -= 1;
            self.work(core);
        }
    }

    /// Gives the core its next record if the first buffer of every run has arrived.
    fn work(&mut self, core: u32) {
        let state = &self.cores[core as usize];
        if state.busy || state.holds || state.missing > 0 || state.live.is_empty() {
            return;
        }
        let pick = match self.job.order {
            Order::Sorted => 0,
            Order::Random => self.rng.random_range(0..state.live.len() as u64) as usize,
        };
        let stream = state.live[pick];
        let state = &mut self.cores[core as usize];
        state.busy = true;
        state.current = stream;
        let source = &mut self.streams[stream as usize];
        source.records_left -= 1;
        source.front_left -= 1;
        if source.records_left == 0 {
            match self.job.order {
                Order::Sorted => drop(state.live.remove(pick)),
                Order::Random => drop(state.live.swap_remove(pick)),
            }
        }
        self.cpu_ps += u128::from(self.merge_ps);
        self.at(self.now + self.merge_ps, Event::Merged(core));
    }

    /// The first buffer of a stream has been merged and is free for the next prefetch.
    fn next_chunk(&mut self, core: u32, stream: u32) {
        let (chunk_records, record_chunks) = (self.chunk_records, self.record_chunks);
        let state = &mut self.streams[stream as usize];
        for _ in 0..record_chunks {
            state.buffers.pop_front();
            state.done += 1;
        }
        state.front_left = chunk_records.min(state.records_left);
        if state.records_left > 0 && !state.head_is_here(record_chunks) {
            self.cores[core as usize].missing += 1;
        }
        for _ in 0..record_chunks {
            self.ask(stream);
        }
    }

    /// Moves the core's record to the output if there is room, and starts the next record.
    fn hand_over(&mut self, core: u32) {
        let state = &mut self.cores[core as usize];
        if state.holds && self.output < self.drive.output_records_max {
            state.holds = false;
            self.output += 1;
            self.send();
            self.work(core);
        }
    }

    fn send(&mut self) {
        if !self.link_busy && self.output > 0 {
            self.link_busy = true;
            let ps = self.drive.link_ps(self.job.record_bytes);
            self.link_ps += u128::from(ps);
            self.at(self.now + ps, Event::Sent);
        }
    }

    fn report(&self) -> MergeReport {
        let seconds = self.now as f64 / SECOND as f64;
        let bytes = self.job.records * self.job.record_bytes;
        let share = |ps: u128, of: usize| ps as f64 / self.now.max(1) as f64 / of as f64;
        MergeReport {
            seconds,
            bytes,
            bytes_per_s: bytes as f64 / seconds.max(f64::MIN_POSITIVE),
            cpu_used: share(self.cpu_ps, self.cores.len()),
            dies_used: share(self.die_ps, self.dies.len()),
            link_used: share(self.link_ps, 1),
            prefetches_mean: share(self.flight_ps, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(order: Order) -> MergeJob {
        MergeJob {
            record_bytes: 4096,
            records: 40_000,
            runs: 16,
            order,
            plain: false,
            seed: 1,
        }
    }

    #[test]
    fn a_slow_core_bounds_the_rate_at_its_time_a_record() {
        let mut drive = MergeDrive::prototype();
        drive.cpu.clock_hz /= 10.0;
        let report = merge(&drive, &job(Order::Random)).unwrap();
        let bound = 4096.0 / (drive.cpu.merge_ps(4096, 16) as f64 / SECOND as f64);
        assert!(
            (report.bytes_per_s / bound - 1.0).abs() < 0.01,
            "{report:?}"
        );
        assert!(report.cpu_used > 0.98);
    }

    #[test]
    fn a_slow_link_bounds_the_rate() {
        let mut drive = MergeDrive::prototype();
        drive.link_bytes_per_s = 20_000_000;
        let report = merge(&drive, &job(Order::Random)).unwrap();
        assert!((report.bytes_per_s / 20e6 - 1.0).abs() < 0.01, "{report:?}");
    }

    #[test]
    fn one_prefetch_at_a_time_takes_a_read_for_every_record() {
        let mut drive = MergeDrive::prototype();
        drive.one_core_does_both = false;
        drive.prefetch_max = 1;
        let report = merge(&drive, &job(Order::Random)).unwrap();
        let bound = 4096.0 / ((drive.read_ps + drive.bus_ps) as f64 / SECOND as f64);
        assert!(
            (report.bytes_per_s / bound - 1.0).abs() < 0.02,
            "{report:?}"
        );
        assert!(report.prefetches_mean <= 1.0);
    }

    #[test]
    fn four_of_four_banks_in_flight_give_the_known_throughput_of_interleaved_memory() {
        // Deterministic service, 4 requests to 4 banks at random: 2.62 banks are busy on average
        // (Bhandarkar, "Analysis of memory interference in multiprocessors", 1975).
        let mut drive = MergeDrive::prototype();
        drive.one_core_does_both = false;
        drive.cpu.clock_hz *= 100.0;
        drive.read_ps += drive.bus_ps;
        drive.bus_ps = 0;
        let job = MergeJob {
            runs: 256,
            records: 200_000,
            ..job(Order::Random)
        };
        let busy = merge(&drive, &job).unwrap().dies_used * 4.0;
        assert!((busy - 2.62).abs() < 0.08, "{busy}");
    }

    #[test]
    fn buffers_beyond_the_drives_memory_are_refused() {
        let mut drive = MergeDrive::prototype();
        drive.dram_bytes = 100_000;
        let error = merge(&drive, &job(Order::Random)).unwrap_err();
        assert!(error.next_step().unwrap().contains("fewer runs"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_record_leaves_whatever_the_drive(
            channels in 1u32..5,
            dies in 1u32..4,
            prefetch_max in 1u32..9,
            buffers_a_run in 1u32..5,
            cores in 1u32..4,
            runs in 1u32..9,
            records in 40u64..900,
            record_bytes in prop::sample::select(vec![100u64, 512, 4096, 8192]),
            output_records_max in 1u32..4,
            sorted: bool,
        ) {
            let mut drive = MergeDrive::prototype();
            drive.channels = channels;
            drive.dies = dies;
            drive.prefetch_max = prefetch_max;
            drive.buffers_a_run = buffers_a_run;
            drive.cpu.cores = cores;
            drive.output_records_max = output_records_max;
            let order = if sorted { Order::Sorted } else { Order::Random };
            let job = MergeJob { record_bytes, records, runs, order, plain: false, seed: 3 };
            // `merge` asserts that every record has left.
            let report = merge(&drive, &job).unwrap();
            prop_assert_eq!(report, merge(&drive, &job).unwrap());
            prop_assert!(report.cpu_used <= 1.0 && report.dies_used <= 1.0);
            prop_assert!(report.prefetches_mean <= f64::from(prefetch_max));
        }
    }
}
