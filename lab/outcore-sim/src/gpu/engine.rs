//! Simulates the run: blocks on cores, their requests on the drive, and the host's own requests.
//!
//! Model: the GPU is a [`Host`] of the drive model. Each workload has a queue pair of its own, and
//! so does the host's processor. A block reads (with a bounded number of requests in flight),
//! computes, writes, and frees its slot. A core with room takes the next block that its policy
//! assigns to it, from the workloads round-robin. With [`Path::Mediated`] a request first waits for
//! a thread of the host, and data is copied between host memory and GPU, first come first served.
//!
//! Invariants: every block of every kernel runs once and every request is completed, or the run is
//! an error that reports what is stuck. A core never holds more than it has room for. Equal setups
//! have equal digests on every machine.
//!
//! Bounds: memory for the blocks that run at a time and their requests, not for the grid; 8 bytes
//! per kernel.

use outcore_io::{Error, Result};

use super::pattern::{AccessOp, PageAccess, Sectors};
use super::report::{FlowCounts, GpuReport, flow_report};
use super::{HostIo, KernelSpec, Need, OPERATION, Path, Setup, Workload, block_of};
use crate::drive::{Done, Drive, Host, Op, QueueConfig};
use crate::quantities::{NS, Ps, SECOND};
use crate::report::FlowStats;
use crate::workload::{FlowConfig, List, Origin};

/// Timer tokens: two bits select the event, the others the slot or request.
const TOKEN_SHIFT: u32 = 26;
const TOKEN_START: u32 = 0;
const TOKEN_COMPUTED: u32 = 1;
const TOKEN_SUBMIT: u32 = 2;
const TOKEN_COPIED: u32 = 3;
/// The owner of the host's requests, which do not belong to a slot.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Read,
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
    /// Requests of the phase that were submitted.
    asked: u32,
    in_flight: u32,
    started: Ps,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Ask {
    slot: u32,
    queue: u16,
    op: Op,
    first: u64,
    sectors: u32,
    wished: Ps,
}

#[derive(Debug)]
struct Progress {
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
    /// End time of each kernel.
    ends: Vec<Ps>,
}

impl Progress {
    /// End time of the last kernel so far.
    fn end(&self) -> Ps {
        self.ends.last().copied().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    held: Need,
    blocks: u32,
    /// The workload whose turn is next.
    turn: usize,
}

/// Reservations of the mediated path: host threads and copies.
#[derive(Debug, Default)]
struct Mediator {
    cpu_free: Vec<Ps>,
    to_host_free: Ps,
    to_gpu_free: Ps,
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
    let mut gpu = Gpu::new(setup);
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

fn validate(setup: &Setup) -> Result<()> {
    let fail = |cause: String| Err(Error::usage(OPERATION, cause));
    setup.gpu.validate()?;
    if setup.workloads.is_empty() || setup.workloads.len() > 63 {
        return fail(format!(
            "{} workloads; 1 to 63 are possible",
            setup.workloads.len()
        ));
    }
    for workload in &setup.workloads {
        if workload.kernels.is_empty() {
            return fail(format!("{} has no kernels", workload.name));
        }
        for kernel in &workload.kernels {
            setup.gpu.slots(kernel)?;
            if kernel.blocks() > super::BLOCKS_MAX {
                return fail(format!("{} has {} blocks", kernel.name, kernel.blocks()));
            }
        }
    }
    if let Path::Mediated {
        cpus,
        copy_bytes_per_s,
        ..
    } = setup.path
        && (cpus == 0 || copy_bytes_per_s == 0)
    {
        return fail("the mediated path needs a thread and a copy rate".to_owned());
    }
    if let Some(host) = setup.host
        && (host.depth == 0
            || host.bytes == 0
            || !host.bytes.is_multiple_of(512)
            || host.bytes > 1 << 24
            || !(0.0..=1.0).contains(&host.read_ratio))
    {
        return fail("host requests need a depth, whole sectors and a share of reads".to_owned());
    }
    Ok(())
}

fn check_footprint(workload: &Workload, have_bytes: u64) -> Result<()> {
    for kernel in &workload.kernels {
        let declared = kernel.io.iter().map(|io| io.start_bytes + io.region_bytes);
        let paged = kernel.pages.iter();
        let paged = paged.map(|page| page.offset_bytes + u64::from(page.bytes));
        let end = declared.chain(paged).max().unwrap_or(0);
        // Widening to sectors may add one sector on each side.
        if end + 1024 > have_bytes {
            return Err(Error::usage(
                OPERATION,
                format!(
                    "{} of {} reaches byte {end}; its part of the drive has {have_bytes}",
                    kernel.name, workload.name
                ),
            )
            .hint("a larger drive, fewer workloads or a smaller region"));
        }
    }
    Ok(())
}

/// The page accesses of one block.
fn pages_of(kernel: &KernelSpec, block: u64) -> &[PageAccess] {
    let first = kernel.pages.partition_point(|p| u64::from(p.block) < block);
    let rest = &kernel.pages[first..];
    &rest[..rest.partition_point(|p| u64::from(p.block) == block)]
}

/// Request `index` of a block's phase; `None` after the last.
fn request_of(
    kernel: &KernelSpec,
    block: u64,
    op: AccessOp,
    index: u32,
    seed: u64,
) -> Option<Sectors> {
    let mut left = index;
    for (at, access) in kernel.io.iter().enumerate() {
        if access.op == op {
            if left < access.count {
                return Some(access.request(block, left, seed.wrapping_add(at as u64)));
            }
            left -= access.count;
        }
    }
    let mut own = pages_of(kernel, block).iter().filter(|page| page.op == op);
    own.nth(left as usize).map(PageAccess::request)
}

impl<'a> Gpu<'a> {
    fn new(setup: &'a Setup) -> Self {
        let cores = setup.gpu.cores as usize;
        let progress = setup.workloads.iter().map(|workload| Progress {
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
            ends: Vec::with_capacity(workload.kernels.len()),
        });
        let cpus = match setup.path {
            Path::InStorage => 0,
            Path::Mediated { cpus, .. } => cpus as usize,
        };
        Gpu {
            setup,
            cores: vec![Core::default(); cores],
            slots: Vec::new(),
            free_slots: Vec::new(),
            asks: Vec::new(),
            free_asks: Vec::new(),
            progress: progress.collect(),
            mediator: Mediator {
                cpu_free: vec![0; cpus],
                ..Mediator::default()
            },
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

    /// Prepares the current kernel of a workload.
    fn begin_kernel(&mut self, workload: usize) {
        let kernel = self.kernel(workload);
        match self.setup.gpu.block_ps(kernel) {
            Ok(block_ps) => self.progress[workload].block_ps = block_ps,
            Err(error) => self.fault = Some(error),
        }
        let cores = self.setup.gpu.cores;
        let progress = &mut self.progress[workload];
        progress.turns.fill(0);
        progress.blocks_left = kernel.blocks();
        progress.need = Need::of(kernel);
        progress.stride = self.setup.scheduling.stride(kernel.blocks(), cores);
    }

    /// Gives one block to every core that has room, repeatedly, until no core has.
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
            asked: 0,
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
        self.advance(drive, at);
    }

    /// Submits the requests that the block's phase still allows; moves to the next phase when this
    /// one is over.
    fn advance(&mut self, drive: &mut Drive, at: u32) {
        let slot = self.slots[at as usize];
        let op = match slot.phase {
            Phase::Read => AccessOp::Read,
            Phase::Write => AccessOp::Write,
            Phase::Compute => return,
        };
        let kernel = self.kernel(slot.workload as usize);
        let (mut asked, mut in_flight) = (slot.asked, slot.in_flight);
        while in_flight < self.setup.gpu.requests_a_block {
            let Some(sectors) = request_of(kernel, slot.block, op, asked, self.setup.seed) else {
                break;
            };
            asked += 1;
            in_flight += 1;
            let ask = Ask {
                slot: at,
                queue: slot.workload as u16,
                op: match op {
                    AccessOp::Read => Op::Read,
                    AccessOp::Write => Op::Write,
                },
                first: sectors.first,
                sectors: sectors.count,
                wished: drive.now(),
            };
            self.send(drive, ask);
        }
        let state = &mut self.slots[at as usize];
        state.asked = asked;
        state.in_flight = in_flight;
        if in_flight > 0 {
            return;
        }
        match slot.phase {
            Phase::Read => {
                state.phase = Phase::Compute;
                state.asked = 0;
                let block_ps = self.progress[slot.workload as usize].block_ps;
                self.compute_ps += u128::from(block_ps);
                // Even a block that takes no time goes through the event queue, to avoid recursion.
                drive.set_timer(drive.now() + block_ps, TOKEN_COMPUTED << TOKEN_SHIFT | at);
            }
            Phase::Compute => {}
            Phase::Write => self.end_block(drive, at),
        }
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
        progress.kernel += 1;
        progress.ends.push(drive.now());
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
            self.fault = Some(Error::usage(OPERATION, "more than 2^26 requests in flight"));
            return;
        }
        let Path::Mediated { cpu_ps, .. } = self.setup.path else {
            self.submit(drive, at);
            return;
        };
        if ask.slot == NOBODY {
            self.submit(drive, at);
            return;
        }
        let mut ready = drive.now();
        if ask.op == Op::Write {
            ready = self.copied_at(ready, ask.sectors, true);
        }
        // The thread that is free first serves the request.
        if let Some(free) = self.mediator.cpu_free.iter_mut().min() {
            *free = ready.max(*free) + cpu_ps;
            drive.set_timer(*free, TOKEN_SUBMIT << TOKEN_SHIFT | at);
        }
    }

    /// The end time of a copy of `sectors` that may start at `from`.
    fn copied_at(&mut self, from: Ps, sectors: u32, to_host: bool) -> Ps {
        let Path::Mediated {
            copy_ps,
            copy_bytes_per_s,
            ..
        } = self.setup.path
        else {
            return from;
        };
        let bytes = u128::from(sectors) * 512;
        let moving = (bytes * u128::from(SECOND) / u128::from(copy_bytes_per_s)) as Ps;
        let free = if to_host {
            &mut self.mediator.to_host_free
        } else {
            &mut self.mediator.to_gpu_free
        };
        *free = from.max(*free) + moving;
        *free + copy_ps
    }

    fn submit(&mut self, drive: &mut Drive, at: u32) {
        let ask = self.asks[at as usize];
        let (first, _) = drive.queue_sectors(ask.queue);
        let now = drive.now();
        drive.submit(
            ask.queue,
            ask.op,
            first + ask.first,
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
        self.slots[ask.slot as usize].in_flight -= 1;
        self.advance(drive, ask.slot);
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
            queue,
            op: if rng.unit() < host.read_ratio {
                Op::Read
            } else {
                Op::Write
            },
            first: rng.between(0, places - 1) * sectors,
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
            };
            counts.wait_ps += done.wait_ps;
            counts.write_bytes += done.write_bytes;
            counts.kernels += done.kernels;
            counts.blocks += done.blocks;
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
            kernel_ends: self.progress.iter().map(|p| p.ends.clone()).collect(),
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
        if done.op == Op::Write {
            progress.write_bytes += u64::from(done.sectors) * 512;
        }
        if matches!(self.setup.path, Path::Mediated { .. }) && done.op == Op::Read {
            let end = self.copied_at(drive.now(), done.sectors, false);
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
            TOKEN_COMPUTED => {
                self.slots[at as usize].phase = Phase::Write;
                self.advance(drive, at);
            }
            TOKEN_SUBMIT => self.submit(drive, at),
            _ => self.answered(drive, at),
        }
    }
}
