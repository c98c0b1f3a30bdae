//! One thread's reads and writes in flight, each tagged with its purpose: submit, wait, and take
//! back.
//!
//! Contract: [`Transfers`] is the only way to submit requests and wait for them. A completed
//! request returns as an [`Arrival`] with the tag of its owner, in order of completion or of
//! submission. A failed request becomes an error with drive, file and offset when its turn comes.
//! [`Transfers::read_each`] and [`Transfers::read_in_order`] process a whole list of ranges, with
//! as many reads in flight as the pool has buffers.
//!
//! A write can go *behind* if its caller only needs the buffer back ([`Transfers::write_behind`],
//! [`WRITE_BEHIND`]). Its buffer returns to the pool as soon as the data are on the drive, and
//! [`Transfers::buffer`] waits for the next free one. A short read is not an error here. The caller
//! compares [`Arrival::len_bytes`] with the length that it wants, because only the caller can say
//! which input became shorter.
//!
//! A [`ReadAhead`] is only the bookkeeping, for a thread that shares its port and completes by
//! token.
//!
//! Bounds: a few words per transfer in flight. The queues of a `Transfers` take back everything in
//! flight before buffers and files are dropped.

use std::collections::BTreeMap;

use crate::drive::Op;
use crate::error::{Error, Kind, Result};
use crate::memory::{Buf, Pool};
use crate::port::{Port, Transfer, TransferFault, Volume, VolumeFile};

/// Token of writes that are only checked for failure.
pub const WRITE_BEHIND: u64 = u64::MAX;
/// Marks the tokens of requests made here; others that share the port use other tokens.
pub const ASKED_TOKENS: u64 = 1 << 60;
/// Reads of at least this length are started one by one while others are processed: compared with
/// them a system call is cheap. Shorter ones are started together.
const START_EACH_BYTES: usize = 64 << 10;

/// Requests that have been made and not completed, by token, each with its number in order of
/// submission.
#[derive(Debug)]
struct Asked<T> {
    slots: Vec<Option<(u64, T)>>,
    free: Vec<usize>,
    next_number: u64,
}

impl<T> Asked<T> {
    fn new() -> Self {
        Asked {
            slots: Vec::new(),
            free: Vec::new(),
            next_number: 0,
        }
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// The token of a new request.
    fn ask(&mut self, what: T) -> u64 {
        let number = self.take_number();
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some((number, what));
        ASKED_TOKENS | index as u64
    }

    fn take_back(&mut self, token: u64) -> Option<(u64, T)> {
        if token == WRITE_BEHIND || token & ASKED_TOKENS == 0 {
            return None;
        }
        let index = (token & !ASKED_TOKENS) as usize;
        let asked = self.slots.get_mut(index).and_then(Option::take)?;
        self.free.push(index);
        Some(asked)
    }
}

/// One thread's queues to one or many drives.
pub trait Queues {
    /// The type of a file with offsets.
    type File;

    /// Submits a transfer of the whole of `buf`.
    fn submit(&mut self, file: &Self::File, op: Op, at_bytes: u64, buf: Buf, token: u64);

    /// Starts submitted transfers and moves finished ones to `finished`. With `wait`, blocks for a
    /// moment for the first.
    ///
    /// # Errors
    /// The queue itself failed.
    fn poll(&mut self, wait: bool, finished: &mut Vec<Transfer>) -> Result<()>;

    /// Transfers submitted and not yet returned.
    fn in_flight(&self) -> usize;

    /// The error for a failed transfer, with its place.
    fn explain(&self, fault: &TransferFault) -> Error;
}

impl Queues for Port {
    type File = VolumeFile;

    fn submit(&mut self, file: &VolumeFile, op: Op, at_bytes: u64, buf: Buf, token: u64) {
        Port::submit(self, file, op, at_bytes, buf, token);
    }

    fn poll(&mut self, wait: bool, finished: &mut Vec<Transfer>) -> Result<()> {
        Port::poll(self, wait, finished)
    }

    fn in_flight(&self) -> usize {
        Port::in_flight(self)
    }

    fn explain(&self, fault: &TransferFault) -> Error {
        Port::explain(self, fault)
    }
}

/// A transfer that has ended without an error.
#[derive(Debug)]
pub struct Arrival<T> {
    /// The purpose of the transfer.
    pub what: T,
    /// The memory.
    pub buf: Buf,
    /// Bytes moved; less than the buffer only at the end of a file that is read.
    pub len_bytes: usize,
}

/// A range to read.
#[derive(Debug)]
pub struct ReadRange<'f, T, F = VolumeFile> {
    /// The file.
    pub file: &'f F,
    /// The offset of the range in the file; a multiple of 4 KiB.
    pub at_bytes: u64,
    /// The length of the range in bytes, in whole 4 KiB blocks, at most that of a buffer.
    pub len_bytes: usize,
    /// The purpose of the read.
    pub what: T,
}

/// How the next completed transfer is taken: in order of submission, or any.
type Take<S, T> = fn(&mut S) -> Result<Option<Arrival<T>>>;

/// One thread's transfers, each with its purpose.
pub struct Transfers<T, Q = Port> {
    queues: Q,
    asked: Asked<T>,
    /// Completed transfers that were not taken yet, by number.
    came: BTreeMap<u64, (T, Transfer)>,
    next_given: u64,
    finished: Vec<Transfer>,
}

impl<T> Transfers<T> {
    /// Transfers with a port of their own to the drives of `volume`.
    ///
    /// # Errors
    /// The device has no further queue.
    pub fn new(volume: &Volume) -> Result<Self> {
        Ok(Self::on(volume.port()?))
    }

    /// The port, for callers that write behind through it ([`WRITE_BEHIND`]).
    pub fn port(&mut self) -> &mut Port {
        &mut self.queues
    }
}

impl<T, Q: Queues> Transfers<T, Q> {
    /// Transfers on a thread's own queues.
    pub fn on(queues: Q) -> Self {
        Transfers {
            queues,
            asked: Asked::new(),
            came: BTreeMap::new(),
            next_given: 0,
            finished: Vec::new(),
        }
    }

    /// Transfers that have not returned, including those written behind.
    pub fn in_flight(&self) -> usize {
        self.queues.in_flight()
    }

    /// Number of requests not taken yet, without those written behind.
    pub fn len(&self) -> usize {
        self.asked.len() + self.came.len()
    }

    /// Whether all requests have been taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests a read of the whole of `buf`.
    pub fn read(&mut self, file: &Q::File, at_bytes: u64, buf: Buf, what: T) {
        let token = self.asked.ask(what);
        self.queues.submit(file, Op::Read, at_bytes, buf, token);
    }

    /// Requests a write of the whole of `buf`, which is returned as an [`Arrival`].
    pub fn write(&mut self, file: &Q::File, at_bytes: u64, buf: Buf, what: T) {
        let token = self.asked.ask(what);
        self.queues.submit(file, Op::Write, at_bytes, buf, token);
    }

    /// Starts a write of the whole of `buf`, which returns to its pool when it is written.
    ///
    /// # Errors
    /// A write-behind that has failed since the last check.
    pub fn write_behind(&mut self, file: &Q::File, at_bytes: u64, buf: Buf) -> Result<()> {
        self.queues
            .submit(file, Op::Write, at_bytes, buf, WRITE_BEHIND);
        self.start()
    }

    /// Starts the requests and collects completions, without waiting.
    ///
    /// # Errors
    /// A write-behind that failed; the queue itself failed.
    pub fn start(&mut self) -> Result<()> {
        self.turn(false)
    }

    /// Like [`Transfers::start`], but first waits a short time for an arrival, unless one is ready.
    ///
    /// # Errors
    /// The errors of [`Transfers::start`].
    pub fn wait(&mut self) -> Result<()> {
        self.turn(self.came.is_empty())
    }

    fn turn(&mut self, wait: bool) -> Result<()> {
        self.queues.poll(wait, &mut self.finished)?;
        let mut fault = None;
        for transfer in self.finished.drain(..) {
            match self.asked.take_back(transfer.token) {
                Some((number, what)) => {
                    self.came.insert(number, (what, transfer));
                }
                None => fault = fault.or(transfer.fault),
            }
        }
        fault.map_or(Ok(()), |fault| Err(self.queues.explain(&fault)))
    }

    /// A completed transfer, the earliest requested one first.
    ///
    /// # Errors
    /// The transfer failed.
    pub fn take(&mut self) -> Result<Option<Arrival<T>>> {
        match self.came.pop_first() {
            Some((_, (what, transfer))) => self.arrival(what, transfer).map(Some),
            None => Ok(None),
        }
    }

    /// The next transfer in order of submission, if it has completed.
    ///
    /// # Errors
    /// The transfer failed.
    pub fn take_in_order(&mut self) -> Result<Option<Arrival<T>>> {
        let Some((what, transfer)) = self.came.remove(&self.next_given) else {
            return Ok(None);
        };
        self.next_given += 1;
        self.arrival(what, transfer).map(Some)
    }

    /// Waits for the next transfer in order of submission and returns it, or its fault: for callers
    /// that continue after a drive fails.
    ///
    /// # Errors
    /// The errors of [`Transfers::start`] and of `check`.
    pub fn next_or_fault(
        &mut self,
        check: impl Fn() -> Result<()>,
    ) -> Result<Option<(T, Transfer)>> {
        while self.asked.len() > 0 && !self.came.contains_key(&self.next_given) {
            check()?;
            self.turn(true)?;
        }
        let came = self.came.remove(&self.next_given);
        self.next_given += u64::from(came.is_some());
        Ok(came)
    }

    /// Like [`Transfers::next_or_fault`], but in order of completion.
    ///
    /// # Errors
    /// The errors of [`Transfers::next_or_fault`].
    pub fn any_or_fault(
        &mut self,
        check: impl Fn() -> Result<()>,
    ) -> Result<Option<(T, Transfer)>> {
        while self.asked.len() > 0 && self.came.is_empty() {
            check()?;
            self.turn(true)?;
        }
        Ok(self.came.pop_first().map(|(_, came)| came))
    }

    fn arrival(&self, what: T, transfer: Transfer) -> Result<Arrival<T>> {
        match transfer.fault {
            Some(fault) => Err(self.queues.explain(&fault)),
            None => Ok(Arrival {
                what,
                buf: transfer.buf,
                len_bytes: transfer.len_bytes,
            }),
        }
    }

    /// Waits for the next arrival and calls `check` meanwhile; `None` if there are no requests.
    ///
    /// # Errors
    /// The transfer failed; the errors of `check`.
    pub fn next(&mut self, check: impl Fn() -> Result<()>) -> Result<Option<Arrival<T>>> {
        self.next_of(check, Self::take)
    }

    /// Like [`Transfers::next`], but in order of submission.
    ///
    /// # Errors
    /// The errors of [`Transfers::next`].
    pub fn next_in_order(&mut self, check: impl Fn() -> Result<()>) -> Result<Option<Arrival<T>>> {
        self.next_of(check, Self::take_in_order)
    }

    fn next_of(
        &mut self,
        check: impl Fn() -> Result<()>,
        take: Take<Self, T>,
    ) -> Result<Option<Arrival<T>>> {
        loop {
            if let Some(arrival) = take(self)? {
                return Ok(Some(arrival));
            }
            if self.asked.len() == 0 {
                return Ok(None);
            }
            check()?;
            self.turn(true)?;
        }
    }

    /// A free buffer of `pool`; waits until a write-behind returns one.
    ///
    /// # Errors
    /// The errors of [`Transfers::start`] and of `check`.
    pub fn buffer(&mut self, pool: &Pool, check: impl Fn() -> Result<()>) -> Result<Buf> {
        loop {
            if let Some(buf) = pool.take() {
                return Ok(buf);
            }
            check()?;
            self.turn(true)?;
        }
    }

    /// Waits until nothing is in flight; completed requests can still be taken.
    ///
    /// # Errors
    /// The errors of [`Transfers::start`] and of `check`.
    pub fn finish(&mut self, check: impl Fn() -> Result<()>) -> Result<()> {
        while self.queues.in_flight() > 0 {
            check()?;
            self.turn(true)?;
        }
        Ok(())
    }

    /// Waits until nothing is in flight, and discards all requests.
    ///
    /// # Errors
    /// The queue itself failed.
    pub fn forget(&mut self) -> Result<()> {
        while self.queues.in_flight() > 0 {
            self.finished.clear();
            self.queues.poll(true, &mut self.finished)?;
        }
        self.finished.clear();
        self.asked = Asked::new();
        self.came.clear();
        self.next_given = 0;
        Ok(())
    }

    /// Reads all the ranges that `next` returns, each into a buffer of `pool`, and passes each to
    /// `take` as it arrives. `next` receives the queues, which know the drive with the fewest
    /// requests.
    ///
    /// # Errors
    /// A read that failed; the errors of `check` and `take`.
    pub fn read_each<'f>(
        &mut self,
        pool: &Pool,
        check: impl Fn() -> Result<()>,
        next: impl FnMut(&Q) -> Option<ReadRange<'f, T, Q::File>>,
        take: impl FnMut(Arrival<T>) -> Result<()>,
    ) -> Result<()>
    where
        Q::File: 'f,
    {
        self.read_all(pool, Self::take, check, next, take)
    }

    /// Like [`Transfers::read_each`], but in the order in which `next` returns them.
    ///
    /// # Errors
    /// The errors of [`Transfers::read_each`].
    pub fn read_in_order<'f>(
        &mut self,
        pool: &Pool,
        check: impl Fn() -> Result<()>,
        next: impl FnMut(&Q) -> Option<ReadRange<'f, T, Q::File>>,
        take: impl FnMut(Arrival<T>) -> Result<()>,
    ) -> Result<()>
    where
        Q::File: 'f,
    {
        self.read_all(pool, Self::take_in_order, check, next, take)
    }

    fn read_all<'f>(
        &mut self,
        pool: &Pool,
        taken: Take<Self, T>,
        check: impl Fn() -> Result<()>,
        mut next: impl FnMut(&Q) -> Option<ReadRange<'f, T, Q::File>>,
        mut take: impl FnMut(Arrival<T>) -> Result<()>,
    ) -> Result<()>
    where
        Q::File: 'f,
    {
        let mut is_over = false;
        loop {
            check()?;
            let mut is_any = false;
            while !is_over && let Some(mut slot) = pool.take() {
                let Some(range) = next(&self.queues) else {
                    is_over = true;
                    break;
                };
                let buf = slot.split_to(range.len_bytes);
                self.read(range.file, range.at_bytes, buf, range.what);
                is_any = true;
            }
            if is_any && pool.slot_bytes() >= START_EACH_BYTES {
                // The drives work while the next range is prepared.
                self.start()?;
            }
            match taken(self)? {
                Some(arrival) => take(arrival)?,
                None if self.is_empty() && is_over => return Ok(()),
                None if self.is_empty() => return Err(no_buffer()),
                None => self.turn(true)?,
            }
        }
    }
}

/// Waits a short time for write-behinds through `port`, if nothing else is in flight.
///
/// # Errors
/// A write that failed; the queue itself failed.
pub fn wait_behind(port: &mut Port) -> Result<()> {
    let mut written = Vec::new();
    port.poll(true, &mut written)?;
    let fault = written.iter().find_map(|transfer| transfer.fault);
    fault.map_or(Ok(()), |fault| Err(port.explain(&fault)))
}

/// The error for a pool without a free buffer although no transfer can be holding one.
pub fn no_buffer() -> Error {
    Error::new(Kind::Memory, "take a buffer", "the pool is empty").hint(
        "this is a bug in outcore: please report it; more --memory or fewer --threads may avoid it",
    )
}

/// Reads through a port that others also use, each with its purpose.
#[derive(Debug)]
pub struct ReadAhead<T> {
    window: usize,
    asked: Asked<T>,
    /// Completed reads, by number.
    ready: BTreeMap<u64, (T, Option<Buf>)>,
    next_given: u64,
}

impl<T> ReadAhead<T> {
    /// Bookkeeping for at most `window` reads at once, with no read yet.
    pub fn new(window: usize) -> Self {
        ReadAhead {
            window,
            asked: Asked::new(),
            ready: BTreeMap::new(),
            next_given: 0,
        }
    }

    /// Whether another read may be requested.
    pub fn has_room(&self) -> bool {
        self.asked.len() + self.ready.len() < self.window
    }

    /// Whether no read is in flight; completed ones may be waiting.
    pub fn is_idle(&self) -> bool {
        self.asked.len() == 0
    }

    /// Starts a read of the whole of `buf`.
    pub fn ask(&mut self, port: &mut Port, file: &VolumeFile, at_bytes: u64, buf: Buf, what: T) {
        let token = self.asked.ask(what);
        port.submit(file, Op::Read, at_bytes, buf, token);
    }

    /// Adds an item that needs no read at its place in the order.
    pub fn put(&mut self, what: T) {
        let number = self.asked.take_number();
        self.ready.insert(number, (what, None));
    }

    /// Takes back a successful read whose token contains [`ASKED_TOKENS`], after `verify` has
    /// checked it.
    ///
    /// # Errors
    /// The errors of `verify`.
    pub fn settle(
        &mut self,
        transfer: Transfer,
        verify: impl FnOnce(&T, &Transfer) -> Result<()>,
    ) -> Result<()> {
        let Some((number, what)) = self.asked.take_back(transfer.token) else {
            return Ok(());
        };
        verify(&what, &transfer)?;
        self.ready.insert(number, (what, Some(transfer.buf)));
        Ok(())
    }

    /// The next completed item: in order of request, or any.
    pub fn next(&mut self, is_ordered: bool) -> Option<(T, Option<Buf>)> {
        let first = self.ready.first_entry()?;
        if is_ordered && *first.key() != self.next_given {
            return None;
        }
        self.next_given += 1;
        Some(first.remove())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};
    use crate::drive::{Access, Device};
    use crate::memory::{BLOCK_BYTES, Budget};
    use crate::port::{LANE_DEPTH, ScratchDrive};

    const BLOCKS: usize = 40;

    /// A file of blocks, each filled with its number, and a pool of some buffers.
    fn numbered(fault: &str) -> (Volume, VolumeFile, Pool) {
        let ram = RamDevice::new(RamOptions {
            short_one_in: 0,
            ..RamOptions::default()
        });
        let bytes = (0..BLOCKS).flat_map(|number| vec![number as u8; BLOCK_BYTES]);
        ram.put("/d0/in", bytes.collect());
        let plan: FaultPlan = fault.parse().unwrap();
        let device: Arc<dyn Device> = Arc::new(FaultDevice::new(Arc::new(ram), plan));
        let volume = Volume::new(device, &[]).unwrap();
        let file = volume.open("/d0/in".as_ref(), Access::Update).unwrap();
        let pool = Pool::new(&Budget::new(1 << 20), "test", BLOCK_BYTES, 7).unwrap();
        (volume, file, pool)
    }

    fn blocks<'f>(file: &'f VolumeFile) -> impl FnMut(&Port) -> Option<ReadRange<'f, usize>> {
        let mut numbers = 0..BLOCKS;
        move |_| {
            numbers.next().map(|number| ReadRange {
                file,
                at_bytes: (number * BLOCK_BYTES) as u64,
                len_bytes: BLOCK_BYTES,
                what: number,
            })
        }
    }

    #[test]
    fn each_range_is_read_once_and_in_order_where_that_is_asked_for() {
        for is_ordered in [false, true] {
            let (volume, file, pool) = numbered("eio@1000");
            let mut reads = Transfers::new(&volume).unwrap();
            let mut seen = Vec::new();
            let take = |read: Arrival<usize>| {
                assert_eq!(read.len_bytes, BLOCK_BYTES);
                assert!(read.buf.iter().all(|byte| *byte == read.what as u8));
                seen.push(read.what);
                Ok(())
            };
            match is_ordered {
                false => reads.read_each(&pool, || Ok(()), blocks(&file), take),
                true => reads.read_in_order(&pool, || Ok(()), blocks(&file), take),
            }
            .unwrap();
            if !is_ordered {
                seen.sort_unstable();
            }
            assert!(seen.iter().copied().eq(0..BLOCKS));
            assert_eq!(
                (reads.len(), reads.in_flight(), pool.free_slots()),
                (0, 0, 7)
            );
        }
    }

    #[test]
    fn a_read_that_fails_is_an_error_in_its_turn_that_names_its_place() {
        let (volume, file, pool) = numbered("eio@3:read");
        let mut reads = Transfers::new(&volume).unwrap();
        let mut seen = Vec::new();
        let error = reads
            .read_in_order(
                &pool,
                || Ok(()),
                blocks(&file),
                |read| {
                    seen.push(read.what);
                    Ok(())
                },
            )
            .unwrap_err();
        assert!(seen.iter().copied().eq(0..seen.len()), "{seen:?}");
        let offset_bytes = error.offset_bytes().unwrap();
        assert_eq!(offset_bytes, (seen.len() * BLOCK_BYTES) as u64, "{error}");
        assert!(error.to_string().contains("/d0/in"), "{error}");
    }

    #[test]
    fn what_is_written_behind_gives_its_buffer_back_and_its_failure() {
        for fault in ["eio@1000", "eio@9:write"] {
            let (volume, file, pool) = numbered(fault);
            let mut writes = Transfers::<()>::new(&volume).unwrap();
            let mut write = || -> Result<()> {
                for number in 0..BLOCKS {
                    let buf = writes.buffer(&pool, || Ok(()))?;
                    writes.write_behind(&file, (number * BLOCK_BYTES) as u64, buf)?;
                }
                writes.finish(|| Ok(()))
            };
            let outcome = write();
            assert_eq!(outcome.is_ok(), fault == "eio@1000");
            drop(writes);
            assert_eq!(pool.free_slots(), 7);
        }
    }

    #[test]
    fn a_drive_that_is_opened_later_takes_transfers_too() {
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d1/in", vec![7; BLOCK_BYTES]);
        let volume = Volume::new(Arc::new(ram), &[ScratchDrive::new("/d0")]).unwrap();
        let mut reads = Transfers::new(&volume).unwrap();
        let file = volume.open("/d1/in".as_ref(), Access::Read).unwrap();
        assert_eq!(file.drive_index, 1);
        let pool = Pool::new(&Budget::new(1 << 20), "test", BLOCK_BYTES, 2 * LANE_DEPTH).unwrap();
        // More reads than the port has slots.
        for number in 0..2 * LANE_DEPTH {
            reads.read(&file, 0, pool.take().unwrap(), number);
        }
        while let Some(read) = reads.next(|| Ok(())).unwrap() {
            assert_eq!((read.buf[0], read.len_bytes), (7, BLOCK_BYTES));
        }
        assert!(reads.is_empty() && pool.free_slots() == 2 * LANE_DEPTH);
    }

    #[test]
    fn a_check_that_fails_ends_the_wait() {
        let (volume, file, pool) = numbered("eio@1000");
        let mut reads = Transfers::new(&volume).unwrap();
        let stop = || Err(Error::interrupted());
        let outcome = reads.read_each(&pool, stop, blocks(&file), |_| Ok(()));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Interrupted);
        reads.read(&file, 0, pool.take().unwrap(), 0);
        assert!(reads.next(stop).is_err());
        reads.forget().unwrap();
        assert!(reads.is_empty() && pool.free_slots() == 7);
    }
}
