//! The transaction scheduling unit decides which waiting operation goes to which die next.
//!
//! Model: MQSim's out-of-order and priority schedulers.
//! - Every command unit (a die; with `compat` a chip) has queues for user reads and programs by
//!   priority class, for the reads, programs and erases of collection, and for the mapping table.
//! - When a channel is idle, its units are served round-robin: table reads first, then reads,
//!   programs and erases.
//! - Operations of one die on different planes with the same page number form one multi-plane
//!   command.
//! - While collection is urgent, its operations go before those of users.
//! - Outside `compat`, reads may suspend programs and erases.
//!
//! Invariant: an operation is in exactly one queue until its command is sent. A batch (`open_batch`
//! .. `close_batch`) makes operations that arrive together visible at the same time.

use super::Drive;
use super::QueueConfig;
use super::params::{Params, SLC_ROW};
use super::phy::Status;
use super::types::{Kind, List, NONE, Source, Tr};

const CLASSES: usize = 4;
const URGENT: usize = 0;
const HIGH: usize = 1;
/// Weights of the classes: urgent always, high 4, medium 2, low 1.
const WEIGHTS: [i32; CLASSES] = [i32::MAX, 4, 2, 1];

#[derive(Debug, Clone, Copy)]
struct Turn {
    class: usize,
    weight: i32,
}

/// The queues of one command unit.
#[derive(Debug, Clone)]
struct Unit {
    reads: [List; CLASSES],
    programs: [List; CLASSES],
    gc_reads: List,
    gc_programs: List,
    gc_erases: List,
    table_reads: List,
    table_programs: List,
    read_turn: Turn,
    program_turn: Turn,
    /// Number of operations in all queues.
    pending: u32,
}

/// Identifies one queue of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Read(usize),
    Program(usize),
    GcRead,
    GcProgram,
    GcErase,
    TableRead,
    TableProgram,
}

impl Unit {
    fn list(&mut self, which: Which) -> &mut List {
        match which {
            Which::Read(class) => &mut self.reads[class],
            Which::Program(class) => &mut self.programs[class],
            Which::GcRead => &mut self.gc_reads,
            Which::GcProgram => &mut self.gc_programs,
            Which::GcErase => &mut self.gc_erases,
            Which::TableRead => &mut self.table_reads,
            Which::TableProgram => &mut self.table_programs,
        }
    }
}

/// State of the scheduler.
#[derive(Debug, Clone)]
pub(super) struct Tsu {
    units: Vec<Unit>,
    turn: Vec<u32>,
    /// For each channel, one bit per unit that has queued operations; covers the first 64 units.
    waiting: Vec<u64>,
    batch: Vec<u32>,
    depth: u32,
    /// The only class of user operations; `None` when there are several.
    single: Option<usize>,
}

impl Tsu {
    pub(super) fn new(p: &Params, queues: &[QueueConfig]) -> Self {
        let start = Turn {
            class: URGENT,
            weight: WEIGHTS[HIGH],
        };
        let unit = Unit {
            reads: [List::EMPTY; CLASSES],
            programs: [List::EMPTY; CLASSES],
            gc_reads: List::EMPTY,
            gc_programs: List::EMPTY,
            gc_erases: List::EMPTY,
            table_reads: List::EMPTY,
            table_programs: List::EMPTY,
            read_turn: start,
            program_turn: start,
            pending: 0,
        };
        // Merge reads and evictions have class "high" or "urgent", independent of the queue's
        // class.
        let all_high = queues.iter().all(|queue| queue.class <= 1);
        let single = (!p.by_priority || all_high).then_some(HIGH);
        Tsu {
            units: vec![unit; (p.channels * p.units_per_channel) as usize],
            turn: vec![0; p.channels as usize],
            waiting: vec![0; p.channels as usize],
            batch: Vec::with_capacity(256),
            depth: 0,
            single,
        }
    }
}

impl Drive {
    /// Starts collecting operations that belong together.
    pub(super) fn open_batch(&mut self) {
        self.tsu.depth += 1;
        if self.tsu.depth == 1 {
            self.tsu.batch.clear();
        }
    }

    /// Adds a placed operation to the batch.
    #[inline]
    pub(super) fn submit_tr(&mut self, tr: u32) {
        self.tsu.batch.push(tr);
    }

    /// True when an operation that is submitted alone can be queued at once.
    #[inline]
    pub(super) fn batch_of_one(&self) -> bool {
        self.tsu.depth == 0 && self.tsu.single.is_some()
    }

    /// Queues a single operation when all operations have one class.
    #[inline]
    pub(super) fn queue_and_serve(&mut self, tr: u32) {
        let unit = self.queue_tr(tr);
        self.serve_channel(self.p.channel_of_unit(unit));
    }

    /// Operations waiting or running at a unit.
    pub(super) fn unit_load(&self, unit: u32) -> u32 {
        self.tsu.units[unit as usize].pending + u32::from(!self.phy.idle(unit))
    }

    /// Programs waiting or running at a unit.
    pub(super) fn programs_ahead(&self, unit: u32) -> u32 {
        let state = &self.tsu.units[unit as usize];
        let own = [state.gc_programs.count, state.table_programs.count];
        let users = state.programs.iter().map(|list| list.count);
        let running = self.phy.status(unit) == Status::Programming;
        users.chain(own).sum::<u32>() + u32::from(running)
    }

    /// Ends a batch. The end of the outermost batch queues everything and serves the idle channels.
    pub(super) fn close_batch(&mut self) {
        assert!(self.tsu.depth > 0, "a batch was closed twice");
        self.tsu.depth -= 1;
        if self.tsu.depth > 0 || self.tsu.batch.is_empty() {
            return;
        }
        if let ([tr], Some(_)) = (&self.tsu.batch[..], self.tsu.single) {
            let tr = *tr;
            self.tsu.batch.clear();
            self.queue_and_serve(tr);
            return;
        }
        let mut touched = [0u64; 16];
        for at in 0..self.tsu.batch.len() {
            let tr = self.tsu.batch[at];
            let unit = self.queue_tr(tr);
            let channel = self.p.channel_of_unit(unit) as usize;
            touched[channel / 64] |= 1 << (channel % 64);
        }
        self.tsu.batch.clear();
        if self.tsu.single.is_none() {
            // Asking for the next class advances the class's turn, so MQSim's order requires a
            // visit to every channel.
            for channel in 0..self.p.channels {
                self.serve_channel(channel);
            }
            return;
        }
        for (word, mut bits) in touched.into_iter().enumerate() {
            while bits != 0 {
                let channel = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                self.serve_channel(channel);
            }
        }
    }

    fn queue_tr(&mut self, tr: u32) -> u32 {
        let entry = &mut self.trs[tr];
        entry.queued = self.now;
        entry.plane = self.p.plane_of_page(entry.page);
        entry.row = self.p.page_in_block(entry.page);
        if self.p.slc_blocks > 0 {
            let block = self.p.block_of_page(entry.page);
            entry.row |= SLC_ROW * u32::from(self.blocks.list[block as usize].is_slc);
        }
        let Tr {
            kind,
            source,
            class,
            plane,
            ..
        } = *entry;
        let class = if self.p.by_priority {
            usize::from(class)
        } else {
            HIGH
        };
        let which = match (kind, source) {
            (Kind::Read, Source::User | Source::Cache) => Which::Read(class),
            (Kind::Program, Source::User | Source::Cache) => Which::Program(class),
            (Kind::Read, Source::Gc) => Which::GcRead,
            (Kind::Program, Source::Gc) => Which::GcProgram,
            (Kind::Read, Source::Mapping) => Which::TableRead,
            (Kind::Program, Source::Mapping) => Which::TableProgram,
            (Kind::Erase, _) => Which::GcErase,
        };
        let unit = self.p.unit_of_plane(plane);
        let state = &mut self.tsu.units[unit as usize];
        state.pending += 1;
        state.list(which).push(&mut self.trs, tr);
        let channel = self.p.channel_of_unit(unit);
        let at = unit - channel * self.p.units_per_channel;
        self.tsu.waiting[channel as usize] |= 1u64.checked_shl(at).unwrap_or(0);
        unit
    }

    /// `count` operations have left the queues of a unit.
    #[inline]
    fn left_queue(&mut self, unit: u32, count: u32) {
        let state = &mut self.tsu.units[unit as usize];
        state.pending -= count;
        if state.pending == 0 {
            let channel = self.p.channel_of_unit(unit);
            let at = unit - channel * self.p.units_per_channel;
            self.tsu.waiting[channel as usize] &= !1u64.checked_shl(at).unwrap_or(0);
        }
    }

    /// Offers an idle channel to its units, round-robin, until one uses it.
    pub(super) fn serve_channel(&mut self, channel: u32) {
        if !self.phy.channel_idle(channel) {
            return;
        }
        let count = self.p.units_per_channel;
        let first = channel * count;
        if self.tsu.single.is_some() && count <= u64::BITS {
            // Skipping units without operations is safe: if all units decline, the turn returns to
            // its start.
            let turn = self.tsu.turn[channel as usize];
            let mut waiting = self.tsu.waiting[channel as usize];
            if !self.p.can_suspend_program && !self.p.can_suspend_erase {
                waiting &= self.phy.idle_units(channel);
            }
            let before = (1u64 << turn) - 1;
            for mut bits in [waiting & !before, waiting & before] {
                while bits != 0 {
                    let at = bits.trailing_zeros();
                    bits &= bits - 1;
                    self.serve_unit(first + at);
                    if !self.phy.channel_idle(channel) {
                        let next = if at + 1 == count { 0 } else { at + 1 };
                        self.tsu.turn[channel as usize] = next;
                        return;
                    }
                }
            }
            return;
        }
        for _ in 0..count {
            let turn = self.tsu.turn[channel as usize];
            self.serve_unit(first + turn);
            self.tsu.turn[channel as usize] = if turn + 1 == count { 0 } else { turn + 1 };
            if !self.phy.channel_idle(channel) {
                break;
            }
        }
    }

    /// Starts the unit's next operation. Its channel is idle.
    pub(super) fn serve_unit(&mut self, unit: u32) {
        let state = &self.tsu.units[unit as usize];
        if self.tsu.single.is_some() {
            if state.pending == 0 {
                return;
            }
            if !self.phy.idle(unit) {
                if !self.may_interrupt(unit) {
                    return;
                }
            } else if state.pending == state.reads[HIGH].count {
                // The common case: user reads, and nothing that could go before them.
                self.issue_reads(unit);
                return;
            }
        }
        if self.serve_reads(unit) || self.serve_programs(unit) {
            return;
        }
        self.serve_erases(unit);
    }

    fn may_interrupt(&self, unit: u32) -> bool {
        match self.phy.status(unit) {
            Status::Programming => self.p.can_suspend_program,
            Status::Erasing => self.p.can_suspend_erase,
            _ => false,
        }
    }

    /// Chooses the class of user operations to serve next by weighted round-robin.
    fn next_class(&mut self, unit: u32, reads: bool) -> Option<usize> {
        let single = self.tsu.single;
        let state = &mut self.tsu.units[unit as usize];
        let lists = if reads { &state.reads } else { &state.programs };
        if !lists[URGENT].is_empty() {
            return Some(URGENT);
        }
        if let Some(class) = single {
            return (!lists[class].is_empty()).then_some(class);
        }
        let turn = if reads {
            &mut state.read_turn
        } else {
            &mut state.program_turn
        };
        // MQSim stops before the lower classes have had their last turn, so it can overlook the
        // only operations. Outside compat every class is visited twice.
        let rounds = if self.p.compat {
            WEIGHTS[HIGH]
        } else {
            2 * WEIGHTS[HIGH]
        };
        let mut tries = 0;
        while tries < rounds {
            turn.class = (turn.class + 1) % CLASSES;
            if turn.class == URGENT {
                turn.class = HIGH;
            }
            if turn.class == HIGH {
                tries += 1;
                turn.weight -= 1;
                if turn.weight <= 0 {
                    turn.weight = WEIGHTS[HIGH];
                }
            }
            if WEIGHTS[turn.class] >= turn.weight && !lists[turn.class].is_empty() {
                return Some(turn.class);
            }
        }
        None
    }

    /// True when collection goes before users on this unit.
    fn collection_urgent(&self, unit: u32) -> bool {
        if !self.p.preemptible {
            return true;
        }
        let first = unit * self.p.planes_per_unit;
        (first..first + self.p.planes_per_unit)
            .any(|plane| self.blocks.pool(&self.p, plane) < self.p.gc_hard_threshold)
    }

    fn choose_reads(&mut self, unit: u32) -> Option<(Which, Option<Which>)> {
        let urgent = self.collection_urgent(unit);
        let state = &self.tsu.units[unit as usize];
        let has_gc_reads = !state.gc_reads.is_empty();
        let has_gc_rest = !state.gc_programs.is_empty() || !state.gc_erases.is_empty();
        if !state.table_reads.is_empty() {
            let second = if urgent && has_gc_reads {
                Some(Which::GcRead)
            } else {
                self.next_class(unit, true).map(Which::Read)
            };
            return Some((Which::TableRead, second));
        }
        if urgent {
            if has_gc_reads {
                return Some((Which::GcRead, self.next_class(unit, true).map(Which::Read)));
            }
            if has_gc_rest && self.blocking_collection(unit) {
                return None;
            }
            return Some((Which::Read(self.next_class(unit, true)?), None));
        }
        if let Some(class) = self.next_class(unit, true) {
            return Some((Which::Read(class), has_gc_reads.then_some(Which::GcRead)));
        }
        if self.next_class(unit, false).is_some() {
            return None;
        }
        has_gc_reads.then_some((Which::GcRead, None))
    }

    /// Whether waiting programs or erases of collection hold back user reads. In MQSim they do so
    /// even when none of them can start yet. Here only operations that can start block reads.
    fn blocking_collection(&self, unit: u32) -> bool {
        if self.p.compat {
            return true;
        }
        let state = &self.tsu.units[unit as usize];
        [state.gc_programs.head, state.gc_erases.head]
            .into_iter()
            .any(|head| head != NONE && self.ready(head))
    }

    fn serve_reads(&mut self, unit: u32) -> bool {
        let Some((first, second)) = self.choose_reads(unit) else {
            return false;
        };
        let suspend = match self.phy.status(unit) {
            Status::Idle => false,
            Status::Programming
                if self.p.can_suspend_program
                    && self
                        .phy
                        .may_suspend(unit, self.now, self.p.suspend_program_if_left) =>
            {
                true
            }
            Status::Erasing
                if self.p.can_suspend_erase
                    && self
                        .phy
                        .may_suspend(unit, self.now, self.p.suspend_erase_if_left) =>
            {
                true
            }
            _ => return false,
        };
        self.issue(unit, first, second, suspend);
        true
    }

    fn serve_programs(&mut self, unit: u32) -> bool {
        let state = &self.tsu.units[unit as usize];
        let gc_programs = !state.gc_programs.is_empty();
        let gc_erases = !state.gc_erases.is_empty();
        let table_programs = !state.table_programs.is_empty() && !self.p.compat;
        let choice = if self.collection_urgent(unit) {
            if gc_programs {
                Some((
                    Which::GcProgram,
                    self.next_class(unit, false).map(Which::Program),
                ))
            } else if gc_erases && self.blocking_collection(unit) {
                None
            } else {
                self.next_class(unit, false)
                    .map(|class| (Which::Program(class), None))
            }
        } else if let Some(class) = self.next_class(unit, false) {
            Some((
                Which::Program(class),
                gc_programs.then_some(Which::GcProgram),
            ))
        } else {
            gc_programs.then_some((Which::GcProgram, None))
        };
        // MQSim queues programs of table pages but never serves them.
        let choice = choice.or_else(|| table_programs.then_some((Which::TableProgram, None)));
        let Some((first, second)) = choice else {
            return false;
        };
        let suspend = match self.phy.status(unit) {
            Status::Idle => false,
            Status::Erasing
                if self.p.can_suspend_erase
                    && self
                        .phy
                        .may_suspend(unit, self.now, self.p.suspend_erase_if_left) =>
            {
                true
            }
            _ => return false,
        };
        let sent = self.issue(unit, first, second, suspend);
        // MQSim stops here even when nothing was ready; otherwise programs of table pages are
        // tried.
        if !sent && table_programs && !suspend {
            return self.issue(unit, Which::TableProgram, None, false);
        }
        sent || self.p.compat
    }

    fn serve_erases(&mut self, unit: u32) {
        if self.phy.idle(unit) && !self.tsu.units[unit as usize].gc_erases.is_empty() {
            self.issue(unit, Which::GcErase, None, false);
        }
    }

    /// Sends a command of user reads to an idle unit that has nothing else queued.
    fn issue_reads(&mut self, unit: u32) {
        let list = &mut self.tsu.units[unit as usize].reads[HIGH];
        if list.count > 1 {
            self.issue(unit, Which::Read(HIGH), None, false);
            return;
        }
        let chosen = std::mem::replace(list, List::EMPTY);
        self.left_queue(unit, 1);
        self.send_read(unit, chosen);
    }

    /// True when the operation waits for nothing.
    fn ready(&self, tr: u32) -> bool {
        let Tr {
            kind,
            related,
            erase,
            page,
            ..
        } = self.trs[tr];
        match kind {
            Kind::Read => true,
            Kind::Program => related == NONE,
            Kind::Erase => {
                let block = &self.blocks.list[self.p.block_of_page(page) as usize];
                erase == 0 && (self.p.compat || block.reads == 0 && block.programs <= 0)
            }
        }
    }

    /// Sends one command. It consists of ready operations of the first queue's first die, filled up
    /// from the second queue. Returns false when nothing was ready.
    fn issue(&mut self, unit: u32, first: Which, second: Option<Which>, suspend: bool) -> bool {
        let head = self.tsu.units[unit as usize].list(first).head;
        let Tr { plane, row, .. } = self.trs[head];
        let (die, _) = self.p.die_of_plane(plane);
        let first_plane = die * self.p.planes;
        let all = if self.p.planes >= 64 {
            u64::MAX
        } else {
            (1 << self.p.planes) - 1
        };
        let mut planes = 0u64;
        let mut chosen = List::EMPTY;
        for which in [Some(first), second].into_iter().flatten() {
            if planes == all {
                break;
            }
            let mut at = self.tsu.units[unit as usize].list(which).head;
            while at != NONE && planes != all {
                let entry = &self.trs[at];
                let next = entry.next;
                let at_die = entry.plane.wrapping_sub(first_plane);
                let is_row = entry.row == row
                    || (planes == 0 || !self.p.same_page) && (entry.row ^ row) & SLC_ROW == 0;
                if is_row && at_die < self.p.planes && planes >> at_die & 1 == 0 && self.ready(at) {
                    planes |= 1 << at_die;
                    let state = &mut self.tsu.units[unit as usize];
                    state.list(which).remove(&mut self.trs, at);
                    chosen.push(&mut self.trs, at);
                }
                at = next;
            }
        }
        if chosen.is_empty() {
            return false;
        }
        self.left_queue(unit, chosen.count);
        self.send_command(unit, chosen, suspend);
        true
    }
}
