//! Channels and command units: commands, array time, data out, suspension.
//!
//! Model: ONFI NV-DDR2 as in MQSim. A channel carries one transfer at a time. A command with its
//! addresses (and, for a program, its data) occupies the channel; then the unit works on its own.
//! Data that was read waits at the unit and is transferred before new commands: table pages first,
//! then user data, then collected data, each in order of arrival. A unit accepts the next command
//! when all its data has been transferred.
//!
//! Outside `compat`, reads may suspend a program or an erase. The suspended command keeps its
//! remaining time and resumes when the unit has nothing left to transfer.
//!
//! Invariant: a channel is busy exactly while one COMMAND_IN or DATA_OUT event of one of its units
//! is pending. A unit's array works exactly while its ARRAY_DONE event is pending.

use super::params::Params;
use super::types::{Kind, List, NONE, Source, Tr};
use super::{Drive, event_kind};
use crate::quantities::Ps;

/// State of a command unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    Command,
    Reading,
    Programming,
    Erasing,
    WaitingForBus,
    DataOut,
}

#[derive(Debug, Clone)]
struct Unit {
    status: Status,
    /// Operations of the command, or reads whose data has not been transferred yet.
    active: List,
    /// The read whose data is on the bus.
    transfer: u32,
    waiting_reads: u32,
    finish: Ps,
    /// Time that the command takes in the array.
    array: Ps,
    array_busy: bool,
    /// Start of the array time that the counters do not include yet.
    uncounted_since: Ps,
    suspended: List,
    suspended_kind: Status,
    left: Ps,
    /// A resumed operation cannot be interrupted before this time.
    untouchable_until: Ps,
}

/// State of all channels and units.
#[derive(Debug, Clone)]
pub(super) struct Phy {
    units: Vec<Unit>,
    busy: Vec<bool>,
    /// For each channel, one bit per idle unit; covers the first 64 units.
    idle_units: Vec<u64>,
    /// Reads that wait for the bus (table, user, collection), by channel.
    waiting: Vec<[List; 3]>,
}

impl Phy {
    pub(super) fn new(p: &Params) -> Self {
        let unit = Unit {
            status: Status::Idle,
            active: List::EMPTY,
            transfer: NONE,
            waiting_reads: 0,
            finish: 0,
            array: 0,
            array_busy: false,
            uncounted_since: 0,
            suspended: List::EMPTY,
            suspended_kind: Status::Idle,
            left: 0,
            untouchable_until: 0,
        };
        Phy {
            units: vec![unit; (p.channels * p.units_per_channel) as usize],
            busy: vec![false; p.channels as usize],
            idle_units: vec![u64::MAX; p.channels as usize],
            waiting: vec![[List::EMPTY; 3]; p.channels as usize],
        }
    }

    #[inline]
    pub(super) fn channel_idle(&self, channel: u32) -> bool {
        !self.busy[channel as usize]
    }

    #[inline]
    pub(super) fn idle(&self, unit: u32) -> bool {
        self.units[unit as usize].status == Status::Idle
    }

    /// One bit per idle unit of a channel, for the first 64 units.
    #[inline]
    pub(super) fn idle_units(&self, channel: u32) -> u64 {
        self.idle_units[channel as usize]
    }

    /// Changes whether a unit is idle.
    #[inline]
    fn mark_idle(&mut self, p: &Params, unit: u32, is_idle: bool) {
        let channel = p.channel_of_unit(unit);
        let at = unit - channel * p.units_per_channel;
        let bit = 1u64.checked_shl(at).unwrap_or(0);
        let units = &mut self.idle_units[channel as usize];
        *units = if is_idle { *units | bit } else { *units & !bit };
    }

    #[inline]
    pub(super) fn status(&self, unit: u32) -> Status {
        self.units[unit as usize].status
    }

    /// True when the running command may be interrupted now.
    pub(super) fn may_suspend(&self, unit: u32, now: Ps, if_left: Ps) -> bool {
        let state = &self.units[unit as usize];
        state.array_busy
            && state.suspended.is_empty()
            && now >= state.untouchable_until
            && state.finish.saturating_sub(now) >= if_left.max(1)
    }
}

impl Drive {
    /// Sends a command to a unit whose channel is idle.
    pub(super) fn send_command(&mut self, unit: u32, chosen: List, suspend: bool) {
        let channel = self.p.channel_of_unit(unit);
        assert!(
            self.phy.channel_idle(channel),
            "a command met a busy channel"
        );
        let mut time = 0;
        if suspend {
            time += self.suspend(unit);
        }
        assert!(self.phy.idle(unit), "a command met a busy unit");
        let count = chosen.count;
        let kind = self.trs[chosen.head].kind;
        let (command, multi) = match kind {
            Kind::Read => (
                self.p.read_command_ps(count),
                &mut self.stats.multiplane_read_commands,
            ),
            Kind::Program => (
                self.p.program_command_ps(count),
                &mut self.stats.multiplane_program_commands,
            ),
            Kind::Erase => (
                self.p.erase_command_ps(count),
                &mut self.stats.erase_commands,
            ),
        };
        match kind {
            Kind::Read if count == 1 => self.stats.read_commands += 1,
            Kind::Program if count == 1 => self.stats.program_commands += 1,
            _ => *multi += 1,
        }
        time += command;
        if kind == Kind::Program {
            let mut at = chosen.head;
            while at != NONE {
                let bytes = self.trs[at].bytes;
                time += self.p.bus_ps(bytes);
                self.stats.bus_bytes += u64::from(bytes);
                at = self.trs[at].next;
            }
        }
        let array = self.array_time(chosen.head);
        if self.trs[chosen.head].source == Source::Gc {
            self.stats.collection_array_ps += array;
        }
        let mut at = chosen.head;
        while at != NONE {
            let Tr {
                source,
                queued,
                next,
                ..
            } = self.trs[at];
            if source == Source::User {
                self.stats.wait_die_ps += self.now - queued;
                self.stats.flash_operations += 1;
                self.stats.user_bus_ps += time;
                self.stats.user_array_ps += array;
                // From here on the field holds the start of service.
                self.trs[at].queued = self.now;
            }
            at = next;
        }
        self.stats.bus_ps += time;
        let state = &mut self.phy.units[unit as usize];
        state.active = chosen;
        state.array = array;
        state.status = Status::Command;
        self.phy.mark_idle(&self.p, unit, false);
        self.phy.busy[channel as usize] = true;
        self.schedule(self.now + time, event_kind::COMMAND_IN, unit);
    }

    /// [`Drive::send_command`] for one read of a user on an idle unit, the most frequent command.
    pub(super) fn send_read(&mut self, unit: u32, chosen: List) {
        let channel = self.p.channel_of_unit(unit) as usize;
        assert!(!self.phy.busy[channel], "a command met a busy channel");
        let state = &mut self.phy.units[unit as usize];
        assert!(state.status == Status::Idle, "a command met a busy unit");
        let entry = &mut self.trs[chosen.head];
        let time = self.p.read_command_ps(1);
        let array = self.p.read_ps(entry.row);
        if entry.source == Source::User {
            self.stats.wait_die_ps += self.now - entry.queued;
            self.stats.flash_operations += 1;
            self.stats.user_bus_ps += time;
            self.stats.user_array_ps += array;
            entry.queued = self.now;
        }
        self.stats.read_commands += 1;
        self.stats.bus_ps += time;
        state.active = chosen;
        state.array = array;
        state.status = Status::Command;
        self.phy.mark_idle(&self.p, unit, false);
        self.phy.busy[channel] = true;
        self.schedule(self.now + time, event_kind::COMMAND_IN, unit);
    }

    /// Time that the array takes for an operation.
    #[inline]
    fn array_time(&self, tr: u32) -> Ps {
        let Tr { kind, row, .. } = self.trs[tr];
        match kind {
            Kind::Read => self.p.read_ps(row),
            Kind::Program => self.p.program_ps(row),
            Kind::Erase => self.p.erase,
        }
    }

    /// Interrupts the running command of a unit. Returns the bus time that this takes.
    fn suspend(&mut self, unit: u32) -> Ps {
        let data = event_kind::ARRAY_DONE << event_kind::SHIFT | unit;
        assert!(
            self.events.cancel(data),
            "a suspended command was not running"
        );
        let state = &mut self.phy.units[unit as usize];
        state.left = state.finish - self.now;
        state.suspended = std::mem::replace(&mut state.active, List::EMPTY);
        state.suspended_kind = state.status;
        state.status = Status::Idle;
        state.array_busy = false;
        self.stats.suspensions += 1;
        self.stats.array_ps += self.now - state.uncounted_since;
        if state.suspended_kind == Status::Programming {
            self.p.suspend_program
        } else {
            self.p.suspend_erase
        }
    }

    /// Adds the array time up to now to the counters.
    pub(super) fn count_array_time(&mut self) {
        for state in self.phy.units.iter_mut().filter(|state| state.array_busy) {
            self.stats.array_ps += self.now - state.uncounted_since;
            state.uncounted_since = self.now;
        }
    }

    /// Resumes the suspended command of a unit that has become idle, if there is one.
    fn resume(&mut self, unit: u32) {
        let grace = self.p.suspend_program;
        let state = &mut self.phy.units[unit as usize];
        if state.suspended.is_empty() {
            self.phy.mark_idle(&self.p, unit, true);
            return;
        }
        state.active = std::mem::replace(&mut state.suspended, List::EMPTY);
        state.status = state.suspended_kind;
        state.finish = self.now + state.left;
        state.array_busy = true;
        state.uncounted_since = self.now;
        state.untouchable_until = self.now + grace;
        let finish = state.finish;
        self.schedule(finish, event_kind::ARRAY_DONE, unit);
    }

    /// Command and addresses (and data) have arrived: the array starts.
    pub(super) fn command_in_done(&mut self, unit: u32) {
        let channel = self.p.channel_of_unit(unit);
        let state = &self.phy.units[unit as usize];
        let head = state.active.head;
        let time = state.array;
        let status = match self.trs[head].kind {
            Kind::Read => Status::Reading,
            Kind::Program => Status::Programming,
            Kind::Erase => Status::Erasing,
        };
        let state = &mut self.phy.units[unit as usize];
        state.status = status;
        state.finish = self.now + time;
        state.array_busy = true;
        state.uncounted_since = self.now;
        let event = match status {
            Status::Reading => event_kind::ARRAY_READ,
            _ => event_kind::ARRAY_DONE,
        };
        self.schedule(self.now + time, event, unit);
        self.phy.busy[channel as usize] = false;
        self.channel_free(channel);
    }

    /// A channel has become idle: it transfers data out first, then commands.
    fn channel_free(&mut self, channel: u32) {
        for class in 0..3 {
            let waiting = &mut self.phy.waiting[channel as usize][class];
            // The link fields belong to the unit's list; the queue keeps its own.
            if let Some(tr) = pop_bus(waiting, &mut self.trs) {
                let unit = self.p.unit_of_plane(self.trs[tr].plane);
                self.transfer_out(tr, unit, channel);
                return;
            }
        }
        self.serve_channel(channel);
    }

    fn transfer_out(&mut self, tr: u32, unit: u32, channel: u32) {
        let Tr { bytes, source, .. } = self.trs[tr];
        let time = self.p.bus_ps(bytes);
        self.stats.bus_ps += time;
        if source == Source::User {
            self.stats.user_bus_ps += time;
        }
        self.stats.bus_bytes += u64::from(bytes);
        let state = &mut self.phy.units[unit as usize];
        state.transfer = tr;
        state.status = Status::DataOut;
        self.phy.busy[channel as usize] = true;
        self.schedule(self.now + time, event_kind::DATA_OUT, unit);
    }

    /// The array of a unit has finished a read.
    pub(super) fn array_read(&mut self, unit: u32) {
        let channel = self.array_stops(unit);
        self.reads_ready(unit, channel);
        if self.phy.channel_idle(channel) {
            self.serve_channel(channel);
        }
    }

    /// The array of a unit has finished a program or an erase.
    pub(super) fn array_done(&mut self, unit: u32) {
        let channel = self.array_stops(unit);
        let head = self.phy.units[unit as usize].active.head;
        if self.trs[head].kind == Kind::Erase {
            self.erases_done(unit);
        } else {
            self.programs_done(unit);
        }
        if self.phy.channel_idle(channel) {
            self.serve_channel(channel);
        }
    }

    /// Counts the time for which the array worked. Returns the unit's channel.
    #[inline]
    fn array_stops(&mut self, unit: u32) -> u32 {
        let state = &mut self.phy.units[unit as usize];
        state.array_busy = false;
        self.stats.array_ps += self.now - state.uncounted_since;
        self.p.channel_of_unit(unit)
    }

    fn reads_ready(&mut self, unit: u32, channel: u32) {
        let state = &mut self.phy.units[unit as usize];
        state.status = Status::WaitingForBus;
        let class = match self.trs[state.active.head].source {
            Source::Mapping => 0,
            Source::User | Source::Cache => 1,
            Source::Gc => 2,
        };
        self.stats.page_reads += u64::from(state.active.count);
        let mut at = state.active.head;
        while at != NONE {
            let next = self.trs[at].next;
            self.phy.units[unit as usize].waiting_reads += 1;
            if self.phy.channel_idle(channel) {
                self.transfer_out(at, unit, channel);
            } else {
                push_bus(
                    &mut self.phy.waiting[channel as usize][class],
                    &mut self.trs,
                    at,
                );
            }
            at = next;
        }
    }

    fn programs_done(&mut self, unit: u32) {
        let mut at = self.phy.units[unit as usize].active.head;
        while at != NONE {
            let next = self.trs[at].next;
            self.stats.page_programs += 1;
            self.program_has_ended(self.trs[at].page);
            self.served(at);
            at = next;
        }
        self.command_over(unit);
    }

    fn erases_done(&mut self, unit: u32) {
        let mut at = self.phy.units[unit as usize].active.head;
        while at != NONE {
            let next = self.trs[at].next;
            self.stats.block_erases += 1;
            self.served(at);
            at = next;
        }
        self.command_over(unit);
    }

    fn command_over(&mut self, unit: u32) {
        let state = &mut self.phy.units[unit as usize];
        state.active = List::EMPTY;
        state.status = Status::Idle;
        self.resume(unit);
    }

    /// The data of one read has left the unit.
    pub(super) fn data_out_done(&mut self, unit: u32) {
        let channel = self.p.channel_of_unit(unit);
        let tr = self.phy.units[unit as usize].transfer;
        self.phy.units[unit as usize]
            .active
            .remove(&mut self.trs, tr);
        if self.trs[tr].source == Source::User {
            self.stats.service_ps += self.now - self.trs[tr].queued;
        }
        self.served(tr);
        let state = &mut self.phy.units[unit as usize];
        state.transfer = NONE;
        state.waiting_reads -= 1;
        if state.waiting_reads == 0 {
            state.status = Status::Idle;
            self.resume(unit);
        } else {
            state.status = Status::WaitingForBus;
        }
        self.phy.busy[channel as usize] = false;
        if !self.p.compat {
            // A short command between two transfers keeps the dies busy during the transfers.
            self.serve_channel(channel);
            if !self.phy.channel_idle(channel) {
                return;
            }
        }
        self.channel_free(channel);
    }

    /// An operation is finished: informs its owner, then frees it.
    fn served(&mut self, tr: u32) {
        let Tr {
            source,
            kind,
            queued,
            ..
        } = self.trs[tr];
        if source == Source::User && kind == Kind::Program {
            self.stats.service_ps += self.now - queued;
        }
        match source {
            Source::Mapping => self.table_served(tr),
            Source::User | Source::Cache => self.cache_served(tr),
            Source::Gc => {}
        }
        self.collection_served(tr);
        self.trs.drop_at(tr);
    }
}

/// Appends to a bus queue. It is linked through [`Tr::sibling`], which a placed read no longer
/// needs.
fn push_bus(list: &mut List, trs: &mut super::types::Pool<Tr>, at: u32) {
    trs[at].sibling = NONE;
    if list.tail == NONE {
        list.head = at;
    } else {
        trs[list.tail].sibling = at;
    }
    list.tail = at;
    list.count += 1;
}

fn pop_bus(list: &mut List, trs: &mut super::types::Pool<Tr>) -> Option<u32> {
    let at = list.head;
    if at == NONE {
        return None;
    }
    list.head = trs[at].sibling;
    if list.head == NONE {
        list.tail = NONE;
    }
    list.count -= 1;
    Some(at)
}
