//! Buckets between distribution and sort: segments in memory or on scratch, with their checksums.
//!
//! Contract: a [`Bucket`] holds all elements of one range of keys as [`Segment`]s in no order. A
//! segment on scratch is verified whenever it is read, against a checksum that is seeded by where
//! it was written. For ordered jobs each segment lists its [`Piece`]s: runs of elements that were
//! neighbours in the input, with a position that puts the pieces of a bucket in input order; no
//! element carries its position.

use crate::checksum::{BlockPlace, block_checksum};
use crate::error::{Error, Result};
use crate::memory::{Buf, block_ceil};
use crate::volume::scratch::{Place, Scratch};

/// Elements of a segment that came from one run of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Orders the pieces of a bucket like their elements in the input.
    pub(crate) position: u64,
    /// Number of elements.
    pub(crate) count: u32,
    /// Their bytes.
    pub(crate) bytes: u32,
}

/// Where a segment's bytes are.
#[derive(Debug)]
pub(crate) enum Home {
    /// In memory, from the start of the buffer.
    Memory(Buf),
    /// On scratch, from the start of the place; the checksum is over the payload.
    Scratch { place: Place, checksum: u64 },
}

/// A piece of a bucket: what was in one buffer, or one line that is longer than that.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) home: Home,
    /// Bytes of elements.
    pub(crate) payload_bytes: u32,
    /// Whether it stays in memory on credit, which is given back once it has been read.
    pub(crate) is_on_credit: bool,
    /// Runs of the input, in the order of the payload; empty unless the job is ordered.
    pub(crate) pieces: Box<[Piece]>,
}

impl Segment {
    /// Bytes that it takes on scratch and in a read.
    pub(crate) fn stored_bytes(&self) -> usize {
        block_ceil(u64::from(self.payload_bytes)) as usize
    }
}

/// All elements of one range of keys.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) segments: Vec<Segment>,
    /// Number of elements, in segments or only counted.
    pub(crate) count: u64,
    /// Keys of the order string that all elements share.
    pub(crate) depth: usize,
    /// The bytes of the one element that all are copies of, for those that are only counted.
    pub(crate) copies_of: Option<Box<[u8]>>,
}

/// One bucket as one worker fills it.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) segments: Vec<Segment>,
    pub(crate) count: u64,
    /// Where the next segments of the open extent go, and how many of them.
    pub(crate) extent: Option<(Place, usize)>,
    /// Elements of the current run that are in earlier segments.
    pub(crate) run_count: u64,
    /// Runs in the buffer that is being filled.
    pieces: Vec<Piece>,
    /// Bytes of the buffer that the pieces cover.
    covered_bytes: usize,
}

impl Out {
    /// Notes what the run that began at `run_position` has added to a buffer in which are
    /// `filled_bytes` by now.
    pub(crate) fn note(&mut self, filled_bytes: usize, run_position: u64, element_bytes: usize) {
        let count = (filled_bytes - self.covered_bytes) / element_bytes;
        let position = run_position + self.run_count;
        self.note_piece(filled_bytes, position, count as u32);
        self.run_count += count as u64;
    }

    /// Notes that the last `count` elements of a buffer in which are `filled_bytes` by now are a piece
    /// at `position`.
    pub(crate) fn note_piece(&mut self, filled_bytes: usize, position: u64, count: u32) {
        if count > 0 {
            self.pieces.push(Piece {
                position,
                count,
                bytes: (filled_bytes - self.covered_bytes) as u32,
            });
            self.covered_bytes = filled_bytes;
        }
    }

    /// Of so many bytes in the buffer that is being filled, those behind the last piece.
    pub(crate) fn uncovered_bytes(&self, filled_bytes: usize) -> usize {
        filled_bytes - self.covered_bytes
    }

    /// Elements in the pieces of the buffer that is being filled.
    pub(crate) fn noted_count(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.count)).sum()
    }

    /// Makes a segment of a buffer that is full, or will not become so; gives its number.
    pub(crate) fn push(&mut self, home: Home, payload_bytes: usize, count: u64) -> usize {
        self.count += count;
        self.covered_bytes = 0;
        self.segments.push(Segment {
            home,
            payload_bytes: payload_bytes as u32,
            is_on_credit: false,
            pieces: std::mem::take(&mut self.pieces).into_boxed_slice(),
        });
        self.segments.len() - 1
    }
}

/// Checksum of a segment's payload at a place of scratch run `run`.
pub(crate) fn segment_checksum(run: u64, place: Place, payload: &[u8]) -> u64 {
    let place = BlockPlace {
        drive: u32::from(place.log),
        address_bytes: place.offset_bytes,
        run,
    };
    block_checksum(place, payload)
}

/// Fails, naming drive, file and offset, unless `payload` is what was written at `place`.
pub(crate) fn verify_segment(
    scratch: &Scratch,
    run: u64,
    place: Place,
    checksum: u64,
    payload: &[u8],
) -> Result<()> {
    if segment_checksum(run, place, payload) == checksum {
        return Ok(());
    }
    let file = scratch.file(place);
    Err(Error::corrupt(
        "read scratch",
        "the checksum of a block does not match what was written",
    )
    .drive(scratch.drive_name(place))
    .path(&file.path)
    .offset(place.offset_bytes)
    .hint("the input is intact; check this drive and sort again without it"))
}
