//! Splits transfers of datasets into transfers of the drives, and assembles the results.
//!
//! Contract: a [`DatasetQueue`] passes requests for other files on unchanged. It splits a request
//! for a dataset at stripe boundaries; adjacent pieces on a drive form one transfer. The request
//! completes when all of its parts have completed. Each checksum block is verified as it arrives.
//! If a request needs only a part of a checksum block, the whole block is read separately, and the
//! part is copied. Checksums and parity of writes are recorded before the writes start.
//!
//! With redundancy, checksum blocks that are lost or damaged are computed from other drives
//! ([`Rescue`]); the thread waits for that.
//!
//! Bounds: [`SIDES`] separate checksum blocks; a request waits if none is free.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::CHECKSUM_BLOCK_BYTES_MAX;
use super::manifest::Manifest;
use super::open::{Open, State, Table};
use super::parity::ParityStripe;
use super::rescue::Rescue;
use crate::slab::Slab;
use crate::stripe::ABSENT;
use crate::striped::StripedVolume;
use outcore_io::drive::{Completion, FileId, IoBuf, Op, Queue, Request};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{Budget, Loan, Pool, Segment, block_ceil};
use outcore_io::port::TransferFault;

/// Checksum blocks that may be read separately at once.
const SIDES: usize = 64;
/// Largest number of segments per transfer of the queue below.
const SEGMENTS_MAX: usize = 1024;

/// How long a dropped queue waits for a part at a time.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// A request for a dataset in flight.
struct Parent {
    loan: Loan,
    open: Arc<Open>,
    /// The request without its buffer.
    token: u64,
    op: Op,
    file: FileId,
    drive_index: usize,
    offset_bytes: u64,
    /// Bytes that it moves if nothing fails.
    len_bytes: usize,
    parts_left: u32,
    errno: Option<i32>,
}

/// A transfer of the queue below.
enum Flight {
    /// A request for another file, with its token.
    Other(u64),
    /// The parity of a group that a request has completed.
    Parity(u32),
    /// A part of a request, with the offset in the dataset of each of its segments.
    Part { parent: u32, places: Vec<u64> },
    /// A checksum block. Its bytes that start at `from` are copied to `wanted`.
    Side {
        parent: u32,
        place: u64,
        from: usize,
        wanted: Segment,
    },
}

/// Adjacent pieces on a drive.
struct Part {
    drive_index: usize,
    offset_bytes: u64,
    end_bytes: u64,
    segments: Vec<Segment>,
    /// Offset in the dataset of each segment.
    places: Vec<u64>,
}

/// A checksum block that a request needs only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChecksumBlock {
    place: u64,
    len_bytes: usize,
}

/// How a request overlaps the checksum blocks: a partial one at the start, a partial one at the
/// end, and whole ones between them.
#[derive(Debug, PartialEq, Eq)]
struct Coverage {
    first: Option<ChecksumBlock>,
    body_from: u64,
    body_to: u64,
    last: Option<ChecksumBlock>,
    /// End of the last block that has data.
    end_bytes: u64,
}

impl Coverage {
    /// Coverage of `len_bytes` of data that start at `from_bytes`, a block boundary.
    fn of(manifest: &Manifest, from_bytes: u64, len_bytes: usize) -> Self {
        let end_bytes = block_ceil(from_bytes + len_bytes as u64);
        let checksum_block_at = |place: u64| {
            let number = place / manifest.checksum_block_bytes();
            ChecksumBlock {
                place: number * manifest.checksum_block_bytes(),
                len_bytes: manifest.checksum_block_len(number),
            }
        };
        let mut cut = Coverage::nowhere(from_bytes, end_bytes);
        let first = checksum_block_at(from_bytes);
        if first.place < from_bytes || first.end() > end_bytes {
            cut.body_from = end_bytes.min(first.end());
            cut.first = Some(first);
        }
        let last = checksum_block_at(end_bytes - 1);
        if cut.body_from < end_bytes && last.end() > end_bytes {
            cut.body_to = last.place;
            cut.last = Some(last);
        }
        cut
    }

    /// The whole range moves directly from or to the request's buffer.
    fn nowhere(from_bytes: u64, end_bytes: u64) -> Self {
        Coverage {
            first: None,
            body_from: from_bytes,
            body_to: end_bytes,
            last: None,
            end_bytes,
        }
    }

    fn sides(&self) -> usize {
        usize::from(self.first.is_some()) + usize::from(self.last.is_some())
    }
}

impl ChecksumBlock {
    fn end(&self) -> u64 {
        self.place + self.len_bytes as u64
    }
}

/// A queue that handles datasets.
pub(super) struct DatasetQueue {
    // Declared first, so dropped first: if the queue is broken, the drop waits for the transfers
    // whose memory `parents` holds.
    below: Box<dyn Queue>,
    depth_below: usize,
    table: Arc<Table>,
    flights: Slab<Flight>,
    parents: Slab<Parent>,
    /// Transfers that found no slot below.
    waiting: VecDeque<Request>,
    /// Requests that found no separate checksum block free.
    held: VecDeque<(Request, Arc<Open>)>,
    sides: Pool,
    /// Transfers to drives that are absent.
    lost: Vec<Completion>,
    /// Computes the bytes of lost drives; one per dataset.
    rescues: HashMap<u64, Rescue>,
    /// Requests for other files in flight.
    others: usize,
    ready: Vec<Completion>,
    // Kept for their capacity.
    landed: Vec<Completion>,
    parts: Vec<Part>,
}

impl DatasetQueue {
    pub(super) fn new(
        below: Box<dyn Queue>,
        depth_below: usize,
        table: Arc<Table>,
    ) -> Result<Self> {
        let budget = Budget::new(u64::MAX);
        Ok(DatasetQueue {
            below,
            depth_below,
            table,
            flights: Slab::new(),
            parents: Slab::new(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            sides: Pool::new(
                &budget,
                "checksum blocks",
                CHECKSUM_BLOCK_BYTES_MAX as usize,
                SIDES,
            )?,
            lost: Vec::new(),
            rescues: HashMap::new(),
            others: 0,
            ready: Vec::new(),
            landed: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// Passes a transfer to the queue below, or keeps it until a slot is free.
    fn pass_on(&mut self, flight: Flight, request: Request) {
        let token = u64::from(self.flights.insert(flight));
        if request.file == ABSENT {
            return self.lost.push(Completion {
                request: Request { token, ..request },
                result: Err(Errno::NODEV.raw_os_error()),
            });
        }
        self.waiting.push_back(Request { token, ..request });
        self.start();
    }

    fn start(&mut self) {
        while self.below.in_flight() < self.depth_below
            && let Some(request) = self.waiting.pop_front()
        {
            self.below.submit(request);
        }
    }

    fn refuse(&mut self, request: Request, errno: Errno) {
        self.ready.push(Completion {
            request,
            result: Err(errno.raw_os_error()),
        });
    }

    /// Starts a request for a dataset; returns it if no separate checksum block is free.
    fn take(&mut self, request: Request, open: &Arc<Open>) -> Option<Request> {
        let from_bytes = request.offset_bytes;
        match (&open.state, request.op) {
            (State::Sealed(sealed), Op::Read) => {
                let left_bytes = sealed.manifest.len_bytes.saturating_sub(from_bytes);
                let len_bytes = left_bytes.min(request.buf.len() as u64) as usize;
                if len_bytes == 0 {
                    self.ready.push(Completion {
                        request,
                        result: Ok(0),
                    });
                    return None;
                }
                let cut = Coverage::of(&sealed.manifest, from_bytes, len_bytes);
                if self.sides.free_slots() < cut.sides() {
                    return Some(request);
                }
                self.split(request, open, &sealed.striped, &cut, Vec::new());
            }
            (State::Growing(growing), Op::Write) => {
                let len_bytes = request.buf.len();
                let end_bytes = from_bytes + len_bytes as u64;
                match growing.places_to(end_bytes) {
                    Ok(begun) => {
                        let mut at_bytes = from_bytes;
                        for bytes in request.buf.slices() {
                            begun.note(at_bytes, bytes);
                            at_bytes += bytes.len() as u64;
                        }
                        let cut = Coverage::nowhere(from_bytes, end_bytes);
                        match begun.add_parity(from_bytes, &request.buf) {
                            Ok(parity) => self.split(request, open, &begun.striped, &cut, parity),
                            Err(error) => {
                                open.trouble(from_bytes, error);
                                self.refuse(request, Errno::NOMEM);
                            }
                        }
                    }
                    Err(error) => {
                        open.trouble(from_bytes, error);
                        self.refuse(request, Errno::NOSPC);
                    }
                }
            }
            _ => self.refuse(request, Errno::BADF),
        }
        None
    }

    /// Starts the parts of a request, with the parity of the groups that it completes.
    fn split(
        &mut self,
        request: Request,
        open: &Arc<Open>,
        striped: &StripedVolume,
        cut: &Coverage,
        parity: Vec<ParityStripe>,
    ) {
        let len_bytes = moved_bytes(open, &request);
        let IoBuf::Whole(buf) = request.buf else {
            unreachable!("datasets are read and written through ports, in whole buffers");
        };
        let (op, from_bytes, full_bytes) = (request.op, request.offset_bytes, buf.len());
        let parent = self.parents.insert(Parent {
            loan: Loan::new(buf),
            open: Arc::clone(open),
            token: request.token,
            op,
            file: request.file,
            drive_index: request.drive_index,
            offset_bytes: from_bytes,
            len_bytes,
            parts_left: 1,
            errno: None,
        });
        // Carves the buffer from front to back.
        if let Some(checksum_block) = cut.first {
            let wanted_bytes = (cut.body_from - from_bytes) as usize;
            self.start_side(parent, striped, checksum_block, from_bytes, wanted_bytes);
        }
        self.start_body(parent, op, striped, cut);
        if let Some(checksum_block) = cut.last {
            let wanted_bytes = (cut.end_bytes - cut.body_to) as usize;
            self.start_side(parent, striped, checksum_block, cut.body_to, wanted_bytes);
        }
        for stripe in parity {
            self.start_parity(parent, striped, stripe);
        }
        let rest_bytes = full_bytes - (cut.end_bytes - from_bytes) as usize;
        let rest = (rest_bytes > 0).then(|| self.parent(parent).loan.carve(rest_bytes));
        self.give_back(parent, rest, None);
    }

    fn parent(&mut self, index: u32) -> &mut Parent {
        let Some(parent) = self.parents.get_mut(index) else {
            unreachable!("a request is in the table until its last part is back");
        };
        parent
    }

    /// Reads a whole checksum block for a request that needs the `wanted_bytes` bytes that start at
    /// `from_bytes`.
    fn start_side(
        &mut self,
        parent: u32,
        striped: &StripedVolume,
        checksum_block: ChecksumBlock,
        from_bytes: u64,
        wanted_bytes: usize,
    ) {
        let mut place = None;
        let map = striped.map();
        map.split(
            checksum_block.place,
            checksum_block.len_bytes,
            usize::MAX,
            |piece| {
                place = Some(piece);
            },
        );
        let (Some(piece), Some(mut side)) = (place, self.sides.take()) else {
            unreachable!("a checksum block lies in one stripe, and its room was counted");
        };
        let entry = self.parent(parent);
        entry.parts_left += 1;
        let flight = Flight::Side {
            parent,
            place: checksum_block.place,
            from: (from_bytes - checksum_block.place) as usize,
            wanted: entry.loan.carve(wanted_bytes),
        };
        let request = Request {
            token: 0,
            op: Op::Read,
            file: striped.drives()[piece.drive_index].file,
            drive_index: piece.drive_index,
            offset_bytes: piece.offset_bytes,
            buf: IoBuf::Whole(side.split_to(checksum_block.len_bytes)),
        };
        self.pass_on(flight, request);
    }

    /// Writes the parity stripe of a group that the request has completed.
    fn start_parity(&mut self, parent: u32, striped: &StripedVolume, stripe: ParityStripe) {
        let ParityStripe { address_bytes, buf } = stripe;
        let mut place = None;
        let map = striped.map();
        map.split(address_bytes, buf.len(), usize::MAX, |piece| {
            place = Some(piece);
        });
        let Some(piece) = place else {
            unreachable!("a parity stripe has a place");
        };
        let entry = self.parent(parent);
        entry.parts_left += 1;
        let request = Request {
            token: 0,
            op: Op::Write,
            file: striped.drives()[piece.drive_index].file,
            drive_index: piece.drive_index,
            offset_bytes: piece.offset_bytes,
            buf: IoBuf::Whole(buf),
        };
        self.pass_on(Flight::Parity(parent), request);
    }

    /// Starts the part that moves directly from or to the request's buffer.
    fn start_body(&mut self, parent: u32, op: Op, striped: &StripedVolume, cut: &Coverage) {
        let mut parts = std::mem::take(&mut self.parts);
        let entry = self.parent(parent);
        let mut place = cut.body_from;
        let len_bytes = (cut.body_to - cut.body_from) as usize;
        let map = striped.map();
        map.split(cut.body_from, len_bytes, usize::MAX, |piece| {
            let segment = entry.loan.carve(piece.len_bytes);
            let mut behind = parts.iter_mut().filter(|part| {
                part.drive_index == piece.drive_index
                    && part.end_bytes == piece.offset_bytes
                    && part.segments.len() < SEGMENTS_MAX
            });
            match behind.next() {
                Some(part) => {
                    part.end_bytes += piece.len_bytes as u64;
                    part.segments.push(segment);
                    part.places.push(place);
                }
                None => parts.push(Part {
                    drive_index: piece.drive_index,
                    offset_bytes: piece.offset_bytes,
                    end_bytes: piece.offset_bytes + piece.len_bytes as u64,
                    segments: vec![segment],
                    places: vec![place],
                }),
            }
            place += piece.len_bytes as u64;
        });
        entry.parts_left += parts.len() as u32;
        for part in parts.drain(..) {
            let flight = Flight::Part {
                parent,
                places: part.places,
            };
            let request = Request {
                token: 0,
                op,
                file: striped.drives()[part.drive_index].file,
                drive_index: part.drive_index,
                offset_bytes: part.offset_bytes,
                buf: IoBuf::Pieces(part.segments),
            };
            self.pass_on(flight, request);
        }
        self.parts = parts;
    }

    /// Processes a completion of the queue below.
    fn land(&mut self, completion: Completion) {
        let Completion { request, result } = completion;
        let Some(flight) = self.flights.remove(request.token as u32) else {
            unreachable!("a transfer is in the table until it is over");
        };
        match flight {
            Flight::Other(token) => {
                self.others -= 1;
                self.ready.push(Completion {
                    request: Request { token, ..request },
                    result,
                });
            }
            Flight::Parity(parent) => {
                let open = Arc::clone(&self.parent(parent).open);
                let error = failure(&open, &request, result);
                self.give_back(parent, None, error);
            }
            Flight::Part { parent, places } => {
                let open = Arc::clone(&self.parent(parent).open);
                let mut request = request;
                let mut error = failure(&open, &request, result).or_else(|| {
                    let mut pieces = places.iter().zip(request.buf.slices());
                    pieces.find_map(|(place, bytes)| damage(&open, *place, bytes))
                });
                if error.is_some() && is_mendable(&open) {
                    let mut pieces = places.iter().zip(request.buf.slices_mut());
                    error = pieces.find_map(|(place, bytes)| self.mend(&open, *place, bytes));
                }
                let IoBuf::Pieces(segments) = request.buf else {
                    unreachable!("parts are in pieces");
                };
                let loan = &mut self.parent(parent).loan;
                for segment in segments {
                    loan.give_back(segment);
                }
                self.give_back(parent, None, error);
            }
            Flight::Side {
                parent,
                place,
                from,
                mut wanted,
            } => {
                let open = Arc::clone(&self.parent(parent).open);
                let error = failure(&open, &request, result);
                let mut checksum_block = request.buf.into_whole();
                let mut error = error.or_else(|| damage(&open, place, &checksum_block));
                if error.is_some() && is_mendable(&open) {
                    error = self.mend(&open, place, &mut checksum_block);
                }
                let len_bytes = wanted.len();
                wanted.copy_from_slice(&checksum_block[from..from + len_bytes]);
                self.give_back(parent, Some(wanted), error);
            }
        }
    }

    /// Computes bytes of a sealed dataset that a drive has lost.
    fn mend(&mut self, open: &Open, place: u64, bytes: &mut [u8]) -> Option<Failed> {
        let State::Sealed(sealed) = &open.state else {
            return None;
        };
        let mended = match self.rescues.entry(sealed.manifest.run()) {
            Entry::Occupied(rescue) => Ok(rescue.into_mut()),
            Entry::Vacant(place) => Rescue::new(&sealed.manifest, &sealed.striped, &sealed.budget)
                .map(|rescue| place.insert(rescue)),
        };
        let mended = mended.and_then(|rescue| rescue.mend(place, bytes, sealed.sums()));
        let error = mended.err()?;
        let errno = error.raw_errno().unwrap_or(Errno::BADMSG.raw_os_error());
        Some(Failed { errno, error })
    }

    /// Counts a part of a request as done; completes the request after the last one.
    fn give_back(&mut self, index: u32, segment: Option<Segment>, error: Option<Failed>) {
        let parent = self.parent(index);
        if let Some(segment) = segment {
            parent.loan.give_back(segment);
        }
        if let Some(Failed { errno, error }) = error {
            parent.open.trouble(parent.offset_bytes, error);
            parent.errno.get_or_insert(errno);
        }
        parent.parts_left -= 1;
        if parent.parts_left > 0 {
            return;
        }
        if let Some(parent) = self.parents.remove(index) {
            self.ready.push(Completion {
                request: Request {
                    token: parent.token,
                    op: parent.op,
                    file: parent.file,
                    drive_index: parent.drive_index,
                    offset_bytes: parent.offset_bytes,
                    buf: IoBuf::Whole(parent.loan.end()),
                },
                result: parent.errno.map_or(Ok(parent.len_bytes), Err),
            });
        }
    }
}

/// The failure of a part of a request.
struct Failed {
    errno: i32,
    error: Error,
}

/// Why a transfer below failed, if it did. A share that ends before its expected length has been
/// truncated.
fn failure(
    open: &Open,
    request: &Request,
    result: std::result::Result<usize, i32>,
) -> Option<Failed> {
    let errno = match result {
        Ok(bytes) if bytes >= request.buf.len() => return None,
        Ok(_) if request.op == Op::Write => Errno::NOSPC.raw_os_error(),
        Ok(_) => Errno::IO.raw_os_error(),
        Err(errno) => errno,
    };
    let striped = match &open.state {
        State::Sealed(sealed) => Some(&sealed.striped),
        State::Growing(growing) => growing.begun().map(|begun| &begun.striped),
    };
    let fault = TransferFault {
        op: request.op,
        file: request.file,
        drive_index: request.drive_index,
        offset_bytes: request.offset_bytes,
        errno,
    };
    striped.map(|striped| Failed {
        errno,
        error: striped.explain(&fault),
    })
}

/// Bytes that a request moves: those of a read end with the data.
fn moved_bytes(open: &Open, request: &Request) -> usize {
    let len_bytes = request.buf.len();
    match &open.state {
        State::Sealed(sealed) => {
            let left_bytes = sealed
                .manifest
                .len_bytes
                .saturating_sub(request.offset_bytes);
            left_bytes.min(len_bytes as u64) as usize
        }
        State::Growing(_) => len_bytes,
    }
}

/// Whether other drives can replace bytes that a read has not found.
fn is_mendable(open: &Open) -> bool {
    match &open.state {
        State::Sealed(sealed) => !sealed.manifest.redundancy.is_none(),
        State::Growing(_) => false,
    }
}

/// Whether the bytes read of a sealed dataset are damaged.
fn damage(open: &Open, place: u64, bytes: &[u8]) -> Option<Failed> {
    let State::Sealed(sealed) = &open.state else {
        return None;
    };
    let error = sealed.check(place, bytes).err()?;
    Some(Failed {
        errno: Errno::BADMSG.raw_os_error(),
        error,
    })
}

impl Drop for DatasetQueue {
    /// Waits for the parts in flight: a buffer returns to its pool only when it is whole again.
    fn drop(&mut self) {
        let mut landed = Vec::new();
        loop {
            self.start();
            landed.append(&mut self.lost);
            if self.below.in_flight() == 0 && landed.is_empty() {
                return;
            }
            // If the queue below is broken, it keeps the memory that the drives may still write
            // into.
            let wait = landed.is_empty().then_some(LAST_WAIT);
            if self.below.complete(wait, &mut landed).is_err() {
                return;
            }
            for completion in landed.drain(..) {
                self.land(completion);
            }
        }
    }
}

impl Queue for DatasetQueue {
    fn submit(&mut self, request: Request) {
        let Some(open) = self.table.get(request.file) else {
            self.others += 1;
            return self.pass_on(Flight::Other(request.token), request);
        };
        if let Some(request) = self.take(request, &open) {
            self.held.push_back((request, open));
        }
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        loop {
            done.append(&mut self.ready);
            let wait = wait.filter(|_| done.is_empty() && self.lost.is_empty());
            let mut landed = std::mem::take(&mut self.landed);
            landed.append(&mut self.lost);
            let polled = self.below.complete(wait, &mut landed);
            let is_idle = landed.is_empty();
            for completion in landed.drain(..) {
                self.land(completion);
            }
            self.landed = landed;
            polled?;
            while let Some((request, open)) = self.held.pop_front() {
                if let Some(request) = self.take(request, &open) {
                    self.held.push_front((request, open));
                    break;
                }
            }
            self.start();
            done.append(&mut self.ready);
            // Parts have arrived, but no request is complete yet.
            if wait.is_none() || is_idle || !done.is_empty() {
                return Ok(());
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.others + self.parents.len() + self.held.len() + self.ready.len()
    }
}
