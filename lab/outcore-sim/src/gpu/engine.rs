//! Simulates the run: blocks on cores, their requests on the drive, and the host's own requests.
//!
//! Model: the GPU is a [`Host`] of the drive model. Each workload has a queue pair of its own, and
//! so does the host's processor. A block reads, computes, writes, and frees its slot. A core with
//! room takes the next block that its policy assigns to it. The workloads take turns, round-robin.
//! - With [`Reads::Answers`] a block keeps a bounded number of reads in flight and computes when
//!   all are answered. With [`Reads::Time`] it issues them evenly over its computation, whether or
//!   not earlier ones are answered, and writes when both have ended.
//! - With [`Writes::Wait`] its slot is free when its last write is acknowledged, with
//!   [`Writes::Evict`] when its last write is sent.
//! - Reads that the GPU's memory serves ([`super::memory`]) take no time.
//! - With [`Path::Mediated`] a request first waits for a thread of the host, and data is copied
//!   between host memory and GPU, first come first served.
//!
//! Invariants: every block of every kernel runs once and every request is completed, or the run is
//! an error that reports what is stuck. A core never holds more than it has room for. Equal setups
//! have equal digests on every machine.
//!
//! Bounds: memory for the blocks that run at a time, for requests under way and for the GPU's
//! memory, not for the grid; 32 bytes per kernel.

use outcore_io::{Error, Result};

use super::check::{check_footprint, validate};
use super::mediator::{Direction, Mediator};
use super::memory::Memory;
use super::pattern::{AccessOp, Sectors};
use super::report::{FlowCounts, GpuReport, KernelRun, flow_report};
use super::requests::{Cursor, Held, Requests, to_drive};
use super::{HostIo, KernelSpec, Need, OPERATION, Reads, Setup, Writes, block_of};
use crate::drive::{Done, Drive, Host, Op, QueueConfig};
use crate::quantities::{NS, Ps};
use crate::report::FlowStats;
use crate::workload::{FlowConfig, List, Origin};

/// Timer tokens: three bits select the event, the others the slot or request.
const TOKEN_SHIFT: u32 = 25;
const TOKEN_START: u32 = 0;
const TOKEN_COMPUTED: u32 = 1;
const TOKEN_SUBMIT: u32 = 2;
const TOKEN_COPIED: u32 = 3;
const TOKEN_READ: u32 = 4;
/// The owner of the host's requests, which do not belong to a slot.
const NOBODY: u32 = u32::MAX;
/// The owner of writes whose block has ended.
const EVICTED: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Read,
    /// With [`Reads::Time`]: the computation has ended, and reads are still under way.
    Computed,
    Compute,
    Write,
}

/// A block on a core.
#[derive(Debug, Clone, Copy)]
struct Slot {
    workload: u32,
    core: u32,
    block: u64,
    phase: Phase,
    /// The next request of the phase.
    cursor: Cursor,
    in_flight: u32,
    started: Ps,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Ask {
    slot: u32,
    kernel: u32,
    queue: u16,
    op: Op,
    first: u64,
    sectors: u32,
    wished: Ps,
}

#[derive(Debug)]
struct Progress {
    /// Where its data begins on the drive.
    first_sector: u64,
    kernel: usize,
    /// Next turn of each core.
    turns: Vec<u64>,
    blocks_left: u64,
    blocks_done: u64,
    block_ps: Ps,
    need: Need,
    stride: u64,
    stats: FlowStats,
    wait_ps: u128,
    write_bytes: u64,
    hits: u64,
    /// The kernels so far, with the present one.
    runs: Vec<KernelRun>,
}

impl Progress {
    /// A block or a request of `kernel` ended at `now`.
    fn reached(&mut self, kernel: usize, now: Ps) {
        let end = &mut self.runs[kernel].end;
        *end = now.max(*end);
    }

    /// The kernels, each with the time at which it and all before it had ended.
    fn kernel_runs(&self) -> Vec<KernelRun> {
        let mut end = 0;
        let after = |run: &KernelRun| {
            end = run.end.max(end);
            KernelRun { end, ..*run }
        };
        self.runs.iter().map(after).collect()
    }

    /// End time of the last kernel and the last request so far.
    fn end(&self) -> Ps {
        self.runs.iter().map(|run| run.end).max().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    held: Need,
    blocks: u32,
    /// The workload whose turn is next.
    turn: usize,
}

struct Gpu<'a> {
    setup: &'a Setup,
    cores: Vec<Core>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    asks: Vec<Ask>,
    free_asks: Vec<u32>,
    progress: Vec<Progress>,
    mediator: Mediator,
    memory: Option<Memory>,
    host: Option<(HostIo, FlowStats, crate::rng::Rng)>,
    running: u64,
    done: bool,
    block_ps: u128,
    compute_ps: u128,
    fault: Option<Error>,
}

/// Simulates the workloads of `setup` to their end.
///
/// # Errors
/// A block does not fit on a core, the data does not fit on the drive, a number is out of range, or
/// the run is stuck.
pub fn run(setup: &Setup) -> Result<GpuReport> {
    validate(setup)?;
    setup.drive.check_is_whole("simulate GPU")?;
    let queue = QueueConfig {
        caching: setup.caching,
        occupancy: 1.0,
        ..QueueConfig::default()
    };
    let queues = vec![queue; setup.workloads.len() + usize::from(setup.host.is_some())];
    let mut drive = Drive::new(&setup.drive, &queues)?;
    if setup.drive.precondition {
        let flows: Vec<_> = queues.iter().cloned().map(filled).collect();
        drive.precondition(&flows)?;
    }
    for (at, workload) in setup.workloads.iter().enumerate() {
        check_footprint(workload, drive.queue_bytes(at as u16))?;
    }
    let mut gpu = Gpu::new(setup, &drive);
    gpu.fill_memory();
    drive.set_timer(drive.now() + NS, TOKEN_START << TOKEN_SHIFT);
    while drive.step(&mut gpu)? {
        if let Some(error) = gpu.fault.take() {
            return Err(error);
        }
    }
    drive.check_idle()?;
    gpu.check_done()?;
    Ok(gpu.report(&drive))
}

fn filled(queue: QueueConfig) -> FlowConfig {
    FlowConfig {
        name: "fill".to_owned(),
        queue,
        origin: Origin::List(List {
            items: Vec::new(),
            depth: 1,
            rounds: 1,
            file: None,
        }),
    }
}

impl<'a> Gpu<'a> {
    fn new(setup: &'a Setup, drive: &Drive) -> Self {
        let cores = setup.gpu.cores as usize;
        let workloads = setup.workloads.iter().enumerate();
        let progress = workloads.map(|(at, workload)| Progress {
            first_sector: drive.queue_sectors(at as u16).0,
            kernel: 0,
            turns: vec![0; cores],
            blocks_left: 0,
            blocks_done: 0,
            block_ps: 0,
            need: Need::default(),
            stride: 1,
            stats: FlowStats::new(&workload.name),
            wait_ps: 0,
            write_bytes: 0,
            hits: 0,
            runs: Vec::with_capacity(workload.kernels.len()),
        });
        Gpu {
            setup,
            cores: vec![Core::default(); cores],
            slots: Vec::new(),
            free_slots: Vec::new(),
            asks: Vec::new(),
            free_asks: Vec::new(),
            progress: progress.collect(),
            mediator: Mediator::new(setup.path),
            memory: Memory::new(setup.gpu.memory_bytes),
            host: setup.host.map(|host| {
                let seed = (setup.seed % 100_000) as i32;
                (host, FlowStats::new("host"), crate::rng::Rng::new(seed))
            }),
            running: setup.workloads.len() as u64,
            done: false,
            block_ps: 0,
            compute_ps: 0,
            fault: None,
        }
    }

    fn kernel(&self, workload: usize) -> &'a KernelSpec {
        &self.setup.workloads[workload].kernels[self.progress[workload].kernel]
    }

    /// Fills the memory with the data that the launches before the run have read.
    fn fill_memory(&mut self) {
        for (workload, progress) in self.setup.workloads.iter().zip(&self.progress) {
            for kernel in &workload.before {
                let memory = self.memory.as_mut();
                let first_sector = progress.first_sector;
                let memory = memory.map(|memory| Held {
                    memory,
                    first_sector,
                });
                to_drive(kernel, &self.setup.gpu, memory, self.setup.seed);
            }
        }
    }

    /// Prepares the current kernel of a workload.
    fn begin_kernel(&mut self, workload: usize) {
        let kernel = self.kernel(workload);
        match self.setup.gpu.block_ps(kernel) {
            Ok(block_ps) => self.progress[workload].block_ps = block_ps,
            Err(error) => self.fault = Some(error),
        }
        let cores = self.setup.gpu.cores;
        let progress = &mut self.progress[workload];
        progress.runs.push(KernelRun::default());
        progress.turns.fill(0);
        progress.blocks_left = kernel.blocks();
        progress.need = Need::of(kernel);
        progress.stride = self.setup.scheduling.stride(kernel.blocks(), cores);
    }

    /// Gives one block to every core that has room, repeatedly, until no core has room.
    fn fill_all(&mut self, drive: &mut Drive) {
        loop {
            let mut started = false;
            for core in 0..self.cores.len() {
                started |= self.start_one(drive, core);
            }
            if !started {
                return;
            }
        }
    }

    /// Starts a block of the workload whose turn it is on `core`. Returns false when none fits.
    fn start_one(&mut self, drive: &mut Drive, core: usize) -> bool {
        let count = self.progress.len();
        for offset in 0..count {
            let workload = (self.cores[core].turn + offset) % count;
            let progress = &self.progress[workload];
            if progress.blocks_left == 0 {
                continue;
            }
            let turn = progress.turns[core];
            let block = block_of(core as u32, self.setup.gpu.cores, turn, progress.stride);
            if block >= self.kernel(workload).blocks() || !self.fits(core, progress.need) {
                continue;
            }
            let need = progress.need;
            self.progress[workload].turns[core] += 1;
            let state = &mut self.cores[core];
            state.turn = (workload + 1) % count;
            state.blocks += 1;
            state.held.threads += need.threads;
            state.held.registers += need.registers;
            state.held.shared_bytes += need.shared_bytes;
            self.start_block(drive, workload, core, block);
            return true;
        }
        false
    }

    fn fits(&self, core: usize, need: Need) -> bool {
        let (gpu, state) = (&self.setup.gpu, &self.cores[core]);
        state.blocks < gpu.blocks_a_core
            && state.held.threads + need.threads <= u64::from(gpu.threads_a_core)
            && state.held.registers + need.registers <= u64::from(gpu.registers_a_core)
            && state.held.shared_bytes + need.shared_bytes <= gpu.shared_bytes_a_core
    }

    fn start_block(&mut self, drive: &mut Drive, workload: usize, core: usize, block: u64) {
        let slot = Slot {
            workload: workload as u32,
            core: core as u32,
            block,
            phase: Phase::Read,
            cursor: Cursor::default(),
            in_flight: 0,
            started: drive.now(),
        };
        let at = match self.free_slots.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        match self.setup.gpu.reads {
            Reads::Answers => self.advance(drive, at),
            Reads::Time => {
                self.compute(drive, at);
                self.read_in_time(drive, at);
            }
        }
    }

    fn requests(&self, at: u32, op: AccessOp) -> Requests<'a> {
        let slot = &self.slots[at as usize];
        Requests {
            kernel: self.kernel(slot.workload as usize),
            block: slot.block,
            op,
            seed: self.setup.seed,
            sectors_max: self.setup.gpu.sectors_max(),
        }
    }

    /// The next request of the block's phase, in sectors of the drive, that goes to the drive;
    /// `None` after the last.
    fn next_request(&mut self, at: u32, op: AccessOp) -> Option<Sectors> {
        let requests = self.requests(at, op);
        let slot = &mut self.slots[at as usize];
        let progress = &mut self.progress[slot.workload as usize];
        loop {
            let request = requests.next(&mut slot.cursor)?;
            let first = progress.first_sector + request.first;
            let memory = self.memory.as_mut();
            if !memory.is_some_and(|memory| memory.serves(op, Sectors { first, ..request })) {
                return Some(Sectors { first, ..request });
            }
            progress.hits += 1;
        }
    }

    /// Sends a request of the block; `owner` gets the answer.
    fn ask(&mut self, drive: &mut Drive, at: u32, owner: u32, op: Op, request: Sectors) {
        let workload = self.slots[at as usize].workload;
        let ask = Ask {
            slot: owner,
            kernel: self.progress[workload as usize].kernel as u32,
            queue: workload as u16,
            op,
            first: request.first,
            sectors: request.count,
            wished: drive.now(),
        };
        self.send(drive, ask);
    }

    /// Sends the requests that the block's phase still allows; moves to the next phase when this
    /// one is over.
    fn advance(&mut self, drive: &mut Drive, at: u32) {
        match self.slots[at as usize].phase {
            Phase::Read => {
                self.keep_in_flight(drive, at, AccessOp::Read);
                if self.slots[at as usize].in_flight == 0 {
                    self.compute(drive, at);
                    self.slots[at as usize].phase = Phase::Compute;
                }
            }
            Phase::Computed | Phase::Compute => {}
            Phase::Write if self.setup.gpu.writes == Writes::Evict => {
                while let Some(request) = self.next_request(at, AccessOp::Write) {
                    self.ask(drive, at, EVICTED, Op::Write, request);
                }
                self.end_block(drive, at);
            }
            Phase::Write => {
                self.keep_in_flight(drive, at, AccessOp::Write);
                if self.slots[at as usize].in_flight == 0 {
                    self.end_block(drive, at);
                }
            }
        }
    }

    fn keep_in_flight(&mut self, drive: &mut Drive, at: u32, op: AccessOp) {
        while self.slots[at as usize].in_flight < self.setup.gpu.requests_a_block {
            let Some(request) = self.next_request(at, op) else {
                return;
            };
            self.slots[at as usize].in_flight += 1;
            let op = match op {
                AccessOp::Read => Op::Read,
                AccessOp::Write => Op::Write,
            };
            self.ask(drive, at, at, op, request);
        }
    }

    fn compute(&mut self, drive: &mut Drive, at: u32) {
        let workload = self.slots[at as usize].workload as usize;
        let block_ps = self.progress[workload].block_ps;
        self.compute_ps += u128::from(block_ps);
        // Even a block that takes no time goes through the event queue, to avoid recursion.
        drive.set_timer(drive.now() + block_ps, TOKEN_COMPUTED << TOKEN_SHIFT | at);
    }

    /// Sends the reads whose time has come, and returns at the time of the next one. Read `i` of
    /// `n` is sent after `i / n` of the computation.
    fn read_in_time(&mut self, drive: &mut Drive, at: u32) {
        let slot = self.slots[at as usize];
        let accesses = u128::from(self.requests(at, AccessOp::Read).accesses());
        let block_ps = u128::from(self.progress[slot.workload as usize].block_ps);
        loop {
            let passed = u128::from(self.slots[at as usize].cursor.accesses);
            if passed == accesses {
                return;
            }
            let due = slot.started + (block_ps * passed / accesses) as Ps;
            if due > drive.now() {
                drive.set_timer(due, TOKEN_READ << TOKEN_SHIFT | at);
                return;
            }
            if let Some(request) = self.next_request(at, AccessOp::Read) {
                self.slots[at as usize].in_flight += 1;
                self.ask(drive, at, at, Op::Read, request);
            }
        }
    }

    /// The computation of a block has ended.
    fn computed(&mut self, drive: &mut Drive, at: u32) {
        let slot = &mut self.slots[at as usize];
        if slot.in_flight > 0 {
            slot.phase = Phase::Computed;
            return;
        }
        slot.phase = Phase::Write;
        slot.cursor = Cursor::default();
        self.advance(drive, at);
    }

    fn end_block(&mut self, drive: &mut Drive, at: u32) {
        let slot = self.slots[at as usize];
        let (workload, core) = (slot.workload as usize, slot.core as usize);
        self.free_slots.push(at);
        self.block_ps += u128::from(drive.now() - slot.started);
        let need = self.progress[workload].need;
        let state = &mut self.cores[core];
        state.blocks -= 1;
        state.held.threads -= need.threads;
        state.held.registers -= need.registers;
        state.held.shared_bytes -= need.shared_bytes;
        let progress = &mut self.progress[workload];
        progress.blocks_left -= 1;
        progress.blocks_done += 1;
        if progress.blocks_left > 0 {
            while self.start_one(drive, core) {}
            return;
        }
        progress.reached(progress.kernel, drive.now());
        progress.kernel += 1;
        if progress.kernel < self.setup.workloads[workload].kernels.len() {
            self.begin_kernel(workload);
        } else {
            self.running -= 1;
            self.done = self.running == 0;
        }
        self.fill_all(drive);
    }

    fn send(&mut self, drive: &mut Drive, ask: Ask) {
        let at = match self.free_asks.pop() {
            Some(at) => {
                self.asks[at as usize] = ask;
                at
            }
            None => {
                self.asks.push(ask);
                self.asks.len() as u32 - 1
            }
        };
        if at >> TOKEN_SHIFT != 0 {
            self.fault = Some(Error::usage(OPERATION, "more than 2^25 requests in flight"));
            return;
        }
        if !self.mediator.is_used() || ask.slot == NOBODY {
            self.submit(drive, at);
            return;
        }
        let mut ready = drive.now();
        if ask.op == Op::Write {
            ready = self
                .mediator
                .copied_at(ready, ask.sectors, Direction::ToHost);
        }
        let handled = self.mediator.handled_at(ready);
        drive.set_timer(handled, TOKEN_SUBMIT << TOKEN_SHIFT | at);
    }

    fn submit(&mut self, drive: &mut Drive, at: u32) {
        let ask = self.asks[at as usize];
        let now = drive.now();
        drive.submit(
            ask.queue,
            ask.op,
            ask.first,
            ask.sectors,
            now,
            u64::from(at),
        );
    }

    /// The data of a request has arrived at its owner.
    fn answered(&mut self, drive: &mut Drive, at: u32) {
        let ask = self.asks[at as usize];
        self.free_asks.push(at);
        if ask.slot == NOBODY {
            if !self.done {
                self.ask_for_host(drive);
            }
            return;
        }
        let progress = &mut self.progress[usize::from(ask.queue)];
        progress.wait_ps += u128::from(drive.now() - ask.wished);
        progress.reached(ask.kernel as usize, drive.now());
        if ask.slot == EVICTED {
            return;
        }
        let slot = &mut self.slots[ask.slot as usize];
        slot.in_flight -= 1;
        match (self.setup.gpu.reads, slot.phase) {
            (Reads::Time, Phase::Read) => {}
            (Reads::Time, Phase::Computed) => self.computed(drive, ask.slot),
            _ => self.advance(drive, ask.slot),
        }
    }

    fn ask_for_host(&mut self, drive: &mut Drive) {
        let queue = self.progress.len() as u16;
        let sectors_have = drive.queue_bytes(queue) / 512;
        let Some((host, _, rng)) = self.host.as_mut() else {
            return;
        };
        let sectors = host.bytes / 512;
        let places = (sectors_have / sectors).max(2) - 1;
        let ask = Ask {
            slot: NOBODY,
            kernel: 0,
            queue,
            op: if rng.unit() < host.read_ratio {
                Op::Read
            } else {
                Op::Write
            },
            first: drive.queue_sectors(queue).0 + rng.between(0, places - 1) * sectors,
            sectors: sectors as u32,
            wished: drive.now(),
        };
        self.send(drive, ask);
    }

    fn check_done(&self) -> Result<()> {
        let stuck = self.progress.iter().position(|p| p.blocks_left > 0);
        let Some(stuck) = stuck.or((!self.done).then_some(0)) else {
            return Ok(());
        };
        Err(Error::usage(
            OPERATION,
            format!(
                "{} blocks of {} never ran; this is a defect of the model",
                self.progress[stuck].blocks_left, self.setup.workloads[stuck].name
            ),
        ))
    }

    fn report(&self, drive: &Drive) -> GpuReport {
        let end = self.progress.iter().map(Progress::end).max().unwrap_or(0);
        let mut total = FlowStats::new("total");
        let mut counts = FlowCounts::default();
        let mut workloads = Vec::new();
        for progress in &self.progress {
            total.absorb(&progress.stats);
            let done = FlowCounts {
                wait_ps: progress.wait_ps,
                write_bytes: progress.write_bytes,
                kernels: progress.kernel as u64,
                blocks: progress.blocks_done,
                hits: progress.hits,
            };
            counts.wait_ps += done.wait_ps;
            counts.write_bytes += done.write_bytes;
            counts.kernels += done.kernels;
            counts.blocks += done.blocks;
            counts.hits += done.hits;
            workloads.push(flow_report(&progress.stats, done, progress.end()));
        }
        let host = self.host.as_ref();
        let stats = drive.stats();
        GpuReport {
            total: flow_report(&total, counts, end),
            workloads,
            host: host.map(|(_, stats, _)| flow_report(stats, FlowCounts::default(), end)),
            blocks_mean: self.block_ps as f64 / end.max(1) as f64,
            compute_share: self.compute_ps as f64 / self.block_ps.max(1) as f64,
            write_amplification: stats.write_amplification(),
            merge_reads: stats.merge_reads,
            digest: format!("{:016x}", total.digest),
            kernel_runs: self.progress.iter().map(Progress::kernel_runs).collect(),
        }
    }
}

impl Host for Gpu<'_> {
    fn completed(&mut self, drive: &mut Drive, done: Done) {
        let at = done.tag as u32;
        let queue = usize::from(done.queue);
        if queue == self.progress.len() {
            if let Some((_, stats, _)) = self.host.as_mut() {
                stats.record(&done);
            }
            self.answered(drive, at);
            return;
        }
        let progress = &mut self.progress[queue];
        progress.stats.record(&done);
        let run = &mut progress.runs[self.asks[at as usize].kernel as usize];
        run.requests += 1;
        run.response_ps += u128::from(done.completed - done.enqueued);
        if done.op == Op::Write {
            progress.write_bytes += u64::from(done.sectors) * 512;
        }
        if self.mediator.is_used() && done.op == Op::Read {
            let now = drive.now();
            let end = self.mediator.copied_at(now, done.sectors, Direction::ToGpu);
            drive.set_timer(end, TOKEN_COPIED << TOKEN_SHIFT | at);
        } else {
            self.answered(drive, at);
        }
    }

    fn timer(&mut self, drive: &mut Drive, token: u32) {
        let at = token & ((1 << TOKEN_SHIFT) - 1);
        match token >> TOKEN_SHIFT {
            TOKEN_START => {
                for workload in 0..self.progress.len() {
                    self.begin_kernel(workload);
                }
                self.fill_all(drive);
                let depth = self.setup.host.map_or(0, |host| host.depth);
                for _ in 0..depth {
                    self.ask_for_host(drive);
                }
            }
            TOKEN_COMPUTED => self.computed(drive, at),
            TOKEN_READ => self.read_in_time(drive, at),
            TOKEN_SUBMIT => self.submit(drive, at),
            _ => self.answered(drive, at),
        }
    }
}
