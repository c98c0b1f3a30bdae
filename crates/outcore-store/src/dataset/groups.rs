//! Reads groups of stripes: the data of each and their parity, piece by piece.
//!
//! Contract: a [`Column`] is the same range within each stripe of a group and within its parity. A
//! [`GroupReader`] keeps some columns in flight and returns them in order. A failed read is a fault
//! of its [`Piece`], not an error, because the other pieces may replace it. Bytes beyond the
//! dataset count as zeros and are never read. Nothing is verified here. A [`GroupReader`] has slots
//! of its own. So it never waits for a slot of another transfer that its own thread has yet to
//! collect.
//!
//! Bounds: a pool of buffers of [`GroupReader::piece_bytes`] each, from the caller's budget.

use std::collections::VecDeque;
use std::ops::Range;

use super::CHECKSUM_BLOCK_BYTES_MAX;
use super::parity::add_to;
use crate::batch::Batches;
use crate::striped::StripedVolume;
use outcore_io::error::Result;
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::port::TransferFault;
use outcore_io::transfers::Transfers;

/// Longest piece.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// The same range within each stripe of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) group: u64,
    /// Its first byte within a stripe.
    pub(super) from_bytes: u64,
    pub(super) len_bytes: u64,
}

/// A column's part of one stripe.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) address_bytes: u64,
    pub(super) drive_index: usize,
    pub(super) is_parity: bool,
    /// Its length within the dataset.
    pub(super) len_bytes: u64,
    is_asked: bool,
    /// Its bytes, if they were requested; undefined after a fault.
    pub(super) buf: Option<Buf>,
    pub(super) fault: Option<TransferFault>,
}

/// Columns in flight, and the memory for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) columns: usize,
    pub(super) memory_bytes: usize,
}

impl Room {
    /// For passes over whole datasets.
    pub(super) const PASS: Room = Room {
        columns: 4,
        memory_bytes: 32 << 20,
    };
    /// For single columns. Each thread of a job may have one.
    pub(super) const RESCUE: Room = Room {
        columns: 1,
        memory_bytes: 4 << 20,
    };
}

/// Reads columns. See the head of this file.
pub(super) struct GroupReader {
    // Declared first, so dropped first: it waits for the transfers in flight.
    reads: Transfers<(), Batches>,
    striped: StripedVolume,
    /// End of the data, their index and their checksums.
    full_bytes: u64,
    pool: Pool,
    piece_bytes: u64,
    asked: VecDeque<(Column, Vec<Piece>)>,
}

impl GroupReader {
    /// A reader of the first `full_bytes` of `striped`, with room for `columns` columns in about
    /// `memory_bytes`.
    pub(super) fn new(
        striped: &StripedVolume,
        full_bytes: u64,
        Room {
            columns,
            memory_bytes,
        }: Room,
        budget: &Budget,
    ) -> Result<Self> {
        let drives = striped.drives().len();
        let mut piece_bytes = striped.map().stripe_bytes().min(PIECE_BYTES_MAX);
        while piece_bytes > CHECKSUM_BLOCK_BYTES_MAX
            && piece_bytes as usize * drives * columns > memory_bytes
        {
            piece_bytes /= 2;
        }
        Ok(GroupReader {
            reads: Transfers::on(Batches::of(striped.submitter_apart()?)),
            striped: striped.clone(),
            full_bytes,
            pool: Pool::new(budget, "stripes", piece_bytes as usize, drives * columns)?,
            piece_bytes,
            asked: VecDeque::new(),
        })
    }

    /// Longest column.
    pub(super) fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// Whether there is memory for another column.
    pub(super) fn has_room(&self) -> bool {
        self.pool.free_slots() >= self.striped.drives().len()
    }

    /// The columns of a group, in order.
    fn columns(&self, group: u64) -> impl Iterator<Item = Column> + use<> {
        let stripe_bytes = self.striped.map().stripe_bytes();
        let start_bytes = self.striped.map().group(group).stripes.start * stripe_bytes;
        let end_bytes = stripe_bytes.min(self.full_bytes.saturating_sub(start_bytes));
        let len_bytes = self.piece_bytes;
        (0..end_bytes)
            .step_by(len_bytes as usize)
            .map(move |from_bytes| Column {
                group,
                from_bytes,
                len_bytes,
            })
    }

    /// Starts to read the pieces of a column for which `is_wanted` holds.
    ///
    /// # Errors
    /// The queue itself failed.
    pub(super) fn ask(&mut self, column: Column, is_wanted: impl Fn(&Piece) -> bool) -> Result<()> {
        let map = self.striped.map();
        let stripe_bytes = map.stripe_bytes();
        let group = map.group(column.group);
        let data_bytes = |stripe: u64| {
            let from_bytes = stripe * stripe_bytes + column.from_bytes;
            self.full_bytes
                .saturating_sub(from_bytes)
                .min(column.len_bytes)
        };
        let mut pieces = Vec::new();
        for stripe in group.stripes.clone().chain([group.parity_stripe]) {
            let is_parity = stripe == group.parity_stripe;
            let len_bytes = match is_parity {
                true => data_bytes(group.stripes.start),
                false => data_bytes(stripe),
            };
            if len_bytes > 0 {
                pieces.push(Piece {
                    address_bytes: stripe * stripe_bytes + column.from_bytes,
                    drive_index: map.locate(stripe).0,
                    is_parity,
                    len_bytes,
                    is_asked: false,
                    buf: None,
                    fault: None,
                });
            }
        }
        for piece in pieces.iter_mut().filter(|piece| is_wanted(piece)) {
            let mut buf = self.reads.buffer(&self.pool, || Ok(()))?;
            let buf = buf.split_to(piece.len_bytes as usize);
            self.reads.read(&(), piece.address_bytes, buf, ());
            piece.is_asked = true;
        }
        self.asked.push_back((column, pieces));
        self.reads.start()
    }

    /// The next column, in the order of the requests.
    ///
    /// # Errors
    /// The queue itself failed.
    pub(super) fn next(&mut self) -> Result<Option<(Column, Vec<Piece>)>> {
        let Some((column, mut pieces)) = self.asked.pop_front() else {
            return Ok(None);
        };
        for piece in pieces.iter_mut().filter(|piece| piece.is_asked) {
            let Some((_, transfer)) = self.reads.next_or_fault(|| Ok(()))? else {
                unreachable!("a piece that was asked for arrives");
            };
            piece.fault = transfer.fault;
            piece.buf = Some(transfer.buf);
        }
        Ok(Some((column, pieces)))
    }
}

/// The columns of many groups, in order.
pub(super) struct ColumnQueue {
    groups: Range<u64>,
    ready: VecDeque<Column>,
}

impl ColumnQueue {
    pub(super) fn new(groups: Range<u64>) -> Self {
        ColumnQueue {
            groups,
            ready: VecDeque::new(),
        }
    }

    /// Reads the next column of the groups for which `is_wanted` holds, with the pieces for which
    /// `is_piece_wanted` holds; `None` after the last one. While writes hold all of the memory of
    /// `reads`, calls `wait`, which waits for one of them.
    ///
    /// # Errors
    /// The queue itself failed; the errors of `wait`.
    pub(super) fn read_next(
        &mut self,
        reads: &mut GroupReader,
        is_wanted: impl Fn(u64) -> bool,
        is_piece_wanted: impl Fn(&Piece) -> bool,
        mut wait: impl FnMut() -> Result<()>,
    ) -> Result<Option<(Column, Vec<Piece>)>> {
        loop {
            while self.has_more(reads, &is_wanted)
                && reads.has_room()
                && let Some(column) = self.ready.pop_front()
            {
                reads.ask(column, &is_piece_wanted)?;
            }
            if let Some(read) = reads.next()? {
                return Ok(Some(read));
            }
            if self.ready.is_empty() {
                return Ok(None);
            }
            wait()?;
        }
    }

    fn has_more(&mut self, reads: &GroupReader, is_wanted: impl Fn(u64) -> bool) -> bool {
        while self.ready.is_empty() {
            let Some(number) = self.groups.by_ref().find(|number| is_wanted(*number)) else {
                return false;
            };
            self.ready.extend(reads.columns(number));
        }
        true
    }
}

/// Computes the unknown piece of a column from all of its other pieces: a piece of data from the
/// parity and the other data, or the parity from the data. Uses the memory of one of the pieces.
pub(super) fn solve(pieces: &mut [Piece], unknown: usize) -> Option<Buf> {
    let is_known = |index: &usize| *index != unknown && pieces[*index].buf.is_some();
    let known: Vec<usize> = (0..pieces.len()).filter(is_known).collect();
    let longest = *known.iter().max_by_key(|index| pieces[**index].len_bytes)?;
    let mut sum = pieces[longest].buf.take()?;
    for index in known.into_iter().filter(|index| *index != longest) {
        add_to(&mut sum, pieces[index].buf.as_deref()?);
    }
    Some(sum.split_to((pieces[unknown].len_bytes as usize).min(sum.len())))
}
