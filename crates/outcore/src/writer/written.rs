//! Checksums of the writes to an unfinished output, for the run that continues it.
//!
//! Contract: a [`WrittenPiece`] is a write that has ended, with the checksum of its bytes.
//! [`whole_pieces`] reads the pieces back and returns the bytes of those that are unchanged. A file
//! that was cut, replaced or overwritten in the meantime, or blocks that a file system has lost,
//! are therefore never taken for output.
//!
//! Bounds: three words per write; the buffers of a pool.

use bytemuck::{Pod, Zeroable};

use super::Ranges;
use outcore_io::Result;
use outcore_io::checksum::continued_checksum;
use outcore_io::memory::Pool;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::{ReadRange, Transfers};

/// Bytes that were written to a file at once, in whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct WrittenPiece {
    /// The offset of these bytes in the file.
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u64,
    checksum: u64,
}

impl WrittenPiece {
    /// These `bytes`, which are written at an offset of the file.
    pub(super) fn of(at_bytes: u64, bytes: &[u8]) -> Self {
        WrittenPiece {
            at_bytes,
            len_bytes: bytes.len() as u64,
            checksum: continued_checksum(0, bytes),
        }
    }
}

/// A part of a piece that fits into a buffer.
struct Part<'p> {
    piece: &'p WrittenPiece,
    /// The place of the part in the piece.
    from_bytes: u64,
    len_bytes: u64,
}

/// The parts of a piece, each at most `part_bytes` long.
fn parts_of(piece: &WrittenPiece, part_bytes: usize) -> impl Iterator<Item = Part<'_>> {
    let starts = (0..piece.len_bytes).step_by(part_bytes);
    starts.map(move |from_bytes| Part {
        piece,
        from_bytes,
        len_bytes: (part_bytes as u64).min(piece.len_bytes - from_bytes),
    })
}

/// The bytes of `file` in those of `pieces` that are unchanged since they were written. The pool is
/// one for bytes that pass through memory ([`Pool::passing`]).
///
/// # Errors
/// A read that failed; the errors of `check`.
pub(crate) fn whole_pieces(
    volume: &Volume,
    file: &VolumeFile,
    pieces: &[WrittenPiece],
    pool: &Pool,
    check: impl Fn() -> Result<()>,
) -> Result<Ranges> {
    let part_bytes = pool.slot_bytes();
    let mut parts = pieces.iter().flat_map(|piece| parts_of(piece, part_bytes));
    let (mut checksum, mut read_bytes, mut whole) = (0, 0, Ranges::default());
    Transfers::new(volume)?.read_in_order(
        pool,
        check,
        |_| {
            let part = parts.next()?;
            Some(ReadRange {
                file,
                at_bytes: part.piece.at_bytes + part.from_bytes,
                len_bytes: part.len_bytes as usize,
                what: part,
            })
        },
        |arrival| {
            let Part {
                piece, from_bytes, ..
            } = arrival.what;
            if from_bytes == 0 {
                (checksum, read_bytes) = (0, 0);
            }
            checksum = continued_checksum(checksum, &arrival.buf[..arrival.len_bytes]);
            read_bytes += arrival.len_bytes as u64;
            // A file that was cut gives fewer bytes.
            if (read_bytes, checksum) == (piece.len_bytes, piece.checksum) {
                whole.add(piece.at_bytes..piece.at_bytes + piece.len_bytes);
            }
            Ok(())
        },
    )?;
    Ok(whole)
}
