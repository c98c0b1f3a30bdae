//! The file formats of a graph, for reading and writing.
//!
//! Contract: a graph is a directory of these files. They depend only on its edges, not on how it
//! was converted. All numbers are little-endian; a vertex is a number below 2^32 - 1.
//!
//! - `graph.json`: sizes and options ([`manifest`]); it appears last, so a directory that has it is
//!   complete
//! - `tiles`: each edge once, in squares of 2^16 x 2^16 vertices ([`tile`])
//! - `out`, `out.index`, `out.degrees`: each vertex's list of targets, or of neighbours ([`list`])
//! - `in`, `in.index`, `in.degrees`: each vertex's list of sources, if edges are directed
//! - `names`: the original id of each vertex, in order, if ids were relabelled: eight-byte numbers,
//!   or, with `names.index`, blocks of strings ([`names`])
//!
//! Tiles and blocks of lists have a checksum, seeded by the graph's id, the file and the place in
//! it ([`outcore_io::checksum`]). The other files are checked against the manifest.

pub mod list;
pub mod manifest;
pub(crate) mod names;
pub(crate) mod row;
pub mod tile;
pub mod weight;

use outcore_io::checksum::{BlockLocation, block_checksum};

/// Bytes of the checksum at the start of a chunk or block.
pub(crate) const SUM_BYTES: usize = size_of::<u64>();

/// The number that means no vertex.
pub const NO_VERTEX: u32 = u32::MAX;

/// One of a graph's large files, as a seed of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// `tiles`.
    Tiles = 0,
    /// `out`.
    Out = 1,
    /// `in`.
    In = 2,
}

/// The checksum of a chunk or block of graph `id`, over all bytes except for those of the checksum.
pub(crate) fn checksum(id: u64, part: Part, number: u64, bytes: &[u8]) -> u64 {
    file_checksum(id, part as u32, number, bytes)
}

/// The checksum of a chunk or block of the file that has this number in checksums.
fn file_checksum(id: u64, file: u32, number: u64, bytes: &[u8]) -> u64 {
    let place = BlockLocation {
        drive: file,
        address_bytes: number,
        run: id,
    };
    block_checksum(place, &bytes[SUM_BYTES..])
}

/// The four-byte number at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The two-byte number at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Whether the checksum at the start of a chunk or block matches the rest.
pub(crate) fn is_intact(id: u64, part: Part, number: u64, bytes: &[u8]) -> bool {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&bytes[..SUM_BYTES]);
    checksum(id, part, number, bytes) == u64::from_le_bytes(sum)
}
