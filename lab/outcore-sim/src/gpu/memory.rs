//! The GPU's memory: decides which requests need not go to the drive.
//!
//! Model: page frames, replaced least recently used first. Data that is read stays there, sector by
//! sector. A write leaves as an eviction, so that only the drive has the data afterwards. Weights
//! therefore stay in memory, and data that kernels pass to each other come from the drive once per
//! kernel. A sector counts as present as soon as it is requested; the block that requested it first
//! waits for it.
//!
//! Contract: constant time per frame of a request.
//! Bounds: 40 bytes per frame that was ever used.

use super::pattern::{AccessOp, Sectors};
use crate::drive::Cmt;

/// Sectors of a frame of 4 KiB.
const FRAME_SECTORS: u64 = 8;

/// Frames and their present sectors.
#[derive(Debug)]
pub(super) struct Memory {
    frames: Cmt,
}

/// The part of a request in one frame.
#[derive(Debug, Clone, Copy)]
struct Part {
    frame: u32,
    /// One bit per sector.
    sectors: u64,
}

fn parts(request: Sectors) -> impl Iterator<Item = Part> {
    let end = request.first + u64::from(request.count);
    (request.first / FRAME_SECTORS..end.div_ceil(FRAME_SECTORS)).map(move |frame| {
        let start = frame * FRAME_SECTORS;
        let from = request.first.max(start) - start;
        let to = end.min(start + FRAME_SECTORS) - start;
        Part {
            frame: frame as u32,
            sectors: (1 << to) - (1 << from),
        }
    })
}

impl Memory {
    /// An empty memory; `None` if it has no room for a frame.
    pub(super) fn new(bytes: u64) -> Option<Self> {
        let frames = u32::try_from(bytes / (FRAME_SECTORS * 512)).unwrap_or(u32::MAX);
        (frames > 0).then(|| Memory {
            frames: Cmt::new(frames),
        })
    }

    /// Whether the memory serves the request, so that it does not go to the drive.
    pub(super) fn serves(&mut self, op: AccessOp, request: Sectors) -> bool {
        match op {
            AccessOp::Read => self.read(request),
            AccessOp::Write => {
                self.write(request);
                false
            }
        }
    }

    /// Whether all sectors of a read are present. After the call, all of them are.
    fn read(&mut self, request: Sectors) -> bool {
        let mut is_hit = true;
        for part in parts(request) {
            let at = match self.frames.find(part.frame) {
                Some(at) => {
                    self.frames.touch(at);
                    at
                }
                None => {
                    if self.frames.full() {
                        self.frames.evict();
                    }
                    self.frames.reserve(part.frame)
                }
            };
            let present = &mut self.frames.entries[at].bitmap;
            is_hit &= *present & part.sectors == part.sectors;
            *present |= part.sectors;
        }
        is_hit
    }

    /// The sectors of a write have left.
    fn write(&mut self, request: Sectors) {
        for part in parts(request) {
            if let Some(at) = self.frames.find(part.frame) {
                self.frames.entries[at].bitmap &= !part.sectors;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(first: u64, count: u32) -> Sectors {
        Sectors { first, count }
    }

    #[test]
    fn what_was_read_is_present_until_it_is_written() {
        let mut memory = Memory::new(1 << 20).unwrap();
        assert!(!memory.read(at(6, 4)));
        assert!(memory.read(at(6, 4)) && memory.read(at(9, 1)));
        assert!(!memory.read(at(10, 1)), "the next sector of its frame");
        memory.write(at(8, 1));
        assert!(memory.read(at(7, 1)) && !memory.read(at(8, 1)));
    }

    #[test]
    fn the_frame_that_was_used_longest_ago_makes_room() {
        let mut memory = Memory::new(2 * 4096).unwrap();
        for first in [0, 8, 0, 16] {
            memory.read(at(first, 1));
        }
        assert!(memory.read(at(0, 1)) && !memory.read(at(8, 1)));
    }

    #[test]
    fn data_in_turns_that_is_larger_than_the_memory_is_never_present() {
        let mut memory = Memory::new(3 * 4096).unwrap();
        let hits = (0..40).filter(|n| memory.read(at(n % 4 * 8, 8))).count();
        assert_eq!(hits, 0);
        let hits = (0..40).filter(|n| memory.read(at(n % 3 * 8, 8))).count();
        assert!(hits >= 37, "{hits}");
        assert!(Memory::new(4095).is_none());
    }
}
