//! Large records, copied from their places in the input to the output.
//!
//! Contract: [`copy_records`] writes the records at the given positions, in that order. A record is
//! read and written in pieces, so memory does not grow with its length. Jobs that move records use
//! it for records longer than [`LARGE_BYTES`]: a drive reads such a record equally fast at any
//! place, so a distribution gains nothing.
//!
//! Bounds: a window of reads and a few chunks; each record is read and written once.

use std::ops::Range;

use super::driver::{Ends, Written};
use super::in_order::InOrder;
use super::task::Sink;
use crate::job::Job;
use crate::read::source::became_shorter;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool, block_ceil, block_floor};
use outcore_io::port::Port;
use outcore_io::transfers::{Arrival, ReadRange, Transfers};

/// Records longer than this are large.
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// Length of a read, and reads in flight.
const READ_BYTES: u64 = 1 << 20;
const WINDOW: usize = 8;
/// Chunks of the output.
const CHUNK_BYTES: usize = (1 << 20) + BLOCK_BYTES;
const CHUNKS: usize = 4;
/// Reservations by name.
const READS: &str = "pieces of records";
const OUTPUT: &str = "output chunks";

/// Adds the reservations of [`copy_records`] to a ledger.
pub(crate) fn with_copies(ledger: Ledger) -> Ledger {
    ledger
        .always(READS, Pool::total_bytes(READ_BYTES as usize, WINDOW))
        .always(OUTPUT, Pool::total_bytes(CHUNK_BYTES, CHUNKS))
}

/// The part of a record in a read.
struct Piece {
    part: usize,
    from_bytes: u64,
    inside: Range<usize>,
}

/// Copies the records of `record_bytes` at `positions` of the inputs to `sink`. All positions are
/// valid.
///
/// # Errors
/// The errors of reading and writing.
pub(crate) fn copy_records(
    job: &Job,
    ends: &Ends<'_>,
    record_bytes: usize,
    positions: &[u64],
    sink: Sink<'_>,
) -> Result<Written> {
    let record_bytes = record_bytes as u64;
    let parts = &ends.parts;
    let mut left = positions.iter();
    // The rest of the current record: its file, and its byte range there.
    let mut current: Option<(usize, Range<u64>)> = None;
    let next = |_: &Port| {
        let (part, bytes) = match current.take() {
            Some(current) => current,
            None => {
                let position = *left.next()?;
                let after = parts.partition_point(|part| part.first_position <= position);
                let holds = |part: &usize| parts[*part].data_len_bytes > 0;
                let part = (0..after).rev().find(holds)?;
                let offset_bytes = (position - parts[part].first_position) * record_bytes;
                let at_bytes = parts[part].data_at_bytes + offset_bytes;
                (part, at_bytes..at_bytes + record_bytes)
            }
        };
        let from_bytes = block_floor(bytes.start);
        let to_bytes = block_ceil(bytes.end).min(from_bytes + READ_BYTES);
        let inside_to = to_bytes.min(bytes.end);
        if inside_to < bytes.end {
            current = Some((part, inside_to..bytes.end));
        }
        Some(ReadRange {
            file: &parts[part].file,
            at_bytes: from_bytes,
            len_bytes: (to_bytes - from_bytes) as usize,
            what: Piece {
                part,
                from_bytes,
                inside: (bytes.start - from_bytes) as usize..(inside_to - from_bytes) as usize,
            },
        })
    };
    let pool = Pool::new(&job.budget, READS, READ_BYTES as usize, WINDOW)?;
    let chunks = Pool::new(&job.budget, OUTPUT, CHUNK_BYTES, CHUNKS)?;
    let mut out = InOrder::new(sink, chunks);
    let mut writes = Transfers::<()>::new(&ends.volume)?;
    let take = |read: Arrival<Piece>| {
        let Piece {
            part,
            from_bytes,
            inside,
        } = read.what;
        if inside.end > read.len_bytes {
            let got_to = from_bytes + read.len_bytes as u64;
            return Err(became_shorter(&parts[part], got_to));
        }
        job.control.advance(inside.len() as u64);
        job.control.watch(&ends.volume);
        out.take(job, &mut writes, &read.buf[inside])
    };
    let check = || job.control.check();
    Transfers::new(&ends.volume)?.read_in_order(&pool, check, next, take)?;
    out.flush(&mut writes)?;
    writes.finish(check)?;
    Ok(Written {
        items: positions.len() as u64,
        bytes: out.written_bytes(),
    })
}
