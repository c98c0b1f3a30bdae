//! The sources of a pass as pieces: which positions a thread reads next, and from where.
//!
//! Contract: the sources are opened and must be equally long. Their positions are cut into
//! *segments* wherever one of them goes on in another file, so that a piece is one read of each
//! source, and segments into pieces of equal length. Pieces are handed out, each once, from
//! *lanes*: the segments of one lane in order, and among lanes from the one whose drive has least
//! to do. A lane is all that lies on one drive, or, where results must come in order, a stretch of
//! the sequence.
//!
//! Piece length is a multiple of the *grain*, which depends on the sizes of elements alone: what
//! is folded grain by grain comes out the same whatever memory and threads are.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::batch::{LEAVES_MAX, Leaf};
use crate::algo::ends::open_inputs;
use crate::drive::Access;
use crate::error::{Error, Result};
use crate::memory::BLOCK_BYTES;
use crate::stream::source::InputPart;
use crate::volume::{Port, Volume};

/// About so many bytes of all sources make a grain.
const GRAIN_BYTES: u64 = 64 << 10;
/// Grains are whole blocks unless that would make them larger than this.
const GRAIN_BYTES_MAX: u64 = 256 << 10;
/// A generated element counts as so many bytes.
const GENERATED_BYTES: u64 = 8;

/// A source that is open.
#[derive(Debug)]
pub(crate) struct OpenLeaf {
    /// Its files; none for a generated one.
    pub(crate) parts: Vec<InputPart>,
    pub(crate) element_bytes: usize,
    pub(crate) align_bytes: usize,
}

/// Positions at which each source stays in one file.
#[derive(Debug, Clone)]
struct Segment {
    first: u64,
    count: u64,
    /// The file of each source.
    parts: [usize; LEAVES_MAX],
    drive_index: Option<usize>,
}

/// Neighbouring positions, read and worked on together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The segment it is of.
    pub(crate) segment: usize,
    /// Its number in the segment.
    pub(crate) number: u64,
    /// Its lane, and its number there.
    pub(crate) lane: usize,
    pub(crate) order: u64,
    /// Position of the first element.
    pub(crate) first: u64,
    pub(crate) count: usize,
}

/// How pieces follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Drives work side by side; order does not matter.
    Drives,
    /// So many stretches of the sequence side by side, each in order.
    Stretches(usize),
}

/// Open sources.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) leaves: Vec<OpenLeaf>,
    segments: Vec<Segment>,
    /// Number of positions.
    pub(crate) count: u64,
    lanes: Vec<Vec<usize>>,
}

impl Sources {
    /// Opens `leaves`.
    pub(crate) fn open(volume: &Volume, leaves: &[Leaf], lanes: Lanes) -> Result<Self> {
        if leaves.len() > LEAVES_MAX {
            let cause = format!("{} sequences are zipped", leaves.len());
            return Err(Error::usage("open sequence", cause)
                .hint(format!("zip at most {LEAVES_MAX}, or write some to a file")));
        }
        let mut open = Vec::with_capacity(leaves.len());
        let mut counts = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let parts = match leaf.element_bytes {
                0 => Vec::new(),
                bytes => open_inputs(volume, &leaf.inputs, bytes, Access::Read)?,
            };
            counts.push(match leaf.element_bytes {
                0 => leaf.count,
                bytes => parts.iter().map(|part| part.data_len_bytes).sum::<u64>() / bytes as u64,
            });
            open.push(OpenLeaf {
                parts,
                element_bytes: leaf.element_bytes,
                align_bytes: leaf.align_bytes,
            });
        }
        let count = counts.first().copied().unwrap_or(0);
        if let Some(other) = counts.iter().find(|other| **other != count) {
            let cause = format!("one has {count} elements and another {other}");
            return Err(Error::usage("zip sequences", cause).hint("zip sequences of one length"));
        }
        let segments = cut(&open, count, lanes);
        let lanes = match lanes {
            Lanes::Drives => by_drive(&segments),
            Lanes::Stretches(lanes) => by_stretch(&segments, count, lanes),
        };
        Ok(Sources {
            leaves: open,
            segments,
            count,
            lanes,
        })
    }

    /// Bytes of all sources.
    pub(crate) fn data_bytes(&self) -> u64 {
        let parts = self.leaves.iter().flat_map(|leaf| &leaf.parts);
        parts.map(|part| part.data_len_bytes).sum()
    }

    /// Bytes of one position in all sources.
    pub(crate) fn position_bytes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.element_bytes).sum()
    }

    /// Whether all files lie in memory (tmpfs), so that a read is a copy and never waits.
    pub(crate) fn is_in_memory(&self) -> bool {
        let mut parts = self.leaves.iter().flat_map(|leaf| &leaf.parts);
        parts.all(|part| part.file.facts.is_in_memory)
    }

    /// Number of segments.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The lane of a segment.
    pub(crate) fn lane_of(&self, segment: usize) -> usize {
        let lane = self.lanes.iter().position(|list| list.contains(&segment));
        lane.unwrap_or(0)
    }

    /// Positions that are folded together before anything else.
    pub(crate) fn grain(&self) -> u64 {
        let position_bytes = self.position_bytes() as u64;
        let block_bytes = BLOCK_BYTES as u64;
        let bytes = match position_bytes {
            0 => GENERATED_BYTES,
            bytes => bytes,
        };
        let unit = block_bytes / (1 << bytes.trailing_zeros().min(block_bytes.ilog2()));
        let unit = if unit * bytes <= GRAIN_BYTES_MAX {
            unit
        } else {
            1
        };
        unit * (GRAIN_BYTES / (unit * bytes)).max(1)
    }

    /// The file of source `leaf` that holds `piece`.
    pub(crate) fn part_of(&self, piece: &Piece, leaf: usize) -> &InputPart {
        &self.leaves[leaf].parts[self.segments[piece.segment].parts[leaf]]
    }
}

fn cut(leaves: &[OpenLeaf], count: u64, lanes: Lanes) -> Vec<Segment> {
    let mut borders: BTreeSet<u64> = [0, count].into();
    for leaf in leaves {
        borders.extend(leaf.parts.iter().map(|part| part.first_position));
    }
    if let Lanes::Stretches(lanes) = lanes {
        borders.extend((0..lanes).map(|lane| lane_start(count, lane, lanes)));
    }
    let borders: Vec<u64> = borders.into_iter().collect();
    let segment = |pair: &[u64]| {
        let mut parts = [0; LEAVES_MAX];
        let mut drive_index = None;
        for (place, leaf) in parts.iter_mut().zip(leaves) {
            // Of parts that begin here, only the last has elements.
            let after = leaf
                .parts
                .partition_point(|part| part.first_position <= pair[0]);
            *place = after.saturating_sub(1);
            if drive_index.is_none() {
                drive_index = leaf.parts.get(*place).map(|part| part.file.drive_index);
            }
        }
        Segment {
            first: pair[0],
            count: pair[1] - pair[0],
            parts,
            drive_index,
        }
    };
    borders.windows(2).map(segment).collect()
}

/// First position of stretch `lane` of `lanes`.
pub(crate) fn lane_start(count: u64, lane: usize, lanes: usize) -> u64 {
    (u128::from(count) * lane as u128 / lanes.max(1) as u128) as u64
}

fn by_drive(segments: &[Segment]) -> Vec<Vec<usize>> {
    let mut drives: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        match drives
            .iter_mut()
            .find(|(drive, _)| *drive == segment.drive_index)
        {
            Some((_, list)) => list.push(index),
            None => drives.push((segment.drive_index, vec![index])),
        }
    }
    drives.into_iter().map(|(_, list)| list).collect()
}

fn by_stretch(segments: &[Segment], count: u64, lanes: usize) -> Vec<Vec<usize>> {
    let mut list = vec![Vec::new(); lanes];
    for (index, segment) in segments.iter().enumerate() {
        let after = (0..lanes).take_while(|lane| lane_start(count, *lane, lanes) <= segment.first);
        list[after.count().saturating_sub(1)].push(index);
    }
    list
}

/// Where a lane stands.
#[derive(Debug, Default)]
struct Lane {
    /// Next of its segments, and next piece of that one.
    next: usize,
    number: u64,
    order: u64,
}

#[derive(Debug)]
struct Claims {
    lanes: Vec<Lane>,
    next_lane: usize,
}

/// The pieces of a pass, each handed out once.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) sources: Sources,
    /// Positions in a piece.
    pub(crate) items: u64,
    claims: Mutex<Claims>,
}

impl Pieces {
    /// Pieces of `items` positions.
    pub(crate) fn new(sources: Sources, items: u64) -> Self {
        let lanes = sources.lanes.iter().map(|_| Lane::default()).collect();
        Pieces {
            sources,
            items,
            claims: Mutex::new(Claims {
                lanes,
                next_lane: 0,
            }),
        }
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> u64 {
        let counts = self.sources.segments.iter().map(|segment| segment.count);
        counts.map(|count| count.div_ceil(self.items)).sum()
    }

    /// The next piece, of the lane whose drive has the least to do for `port`.
    pub(crate) fn next(&self, port: &Port) -> Option<Piece> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = claims.lanes.len();
        let start = claims.next_lane;
        let turns = (0..lanes).map(|step| (start + step) % lanes);
        let (lane_index, _) = turns
            .filter_map(|lane| {
                let list = &self.sources.lanes[lane];
                let segment = *list.get(claims.lanes[lane].next)?;
                let drive = self.sources.segments[segment].drive_index;
                Some((lane, drive.map_or(0, |drive| port.backlog(drive))))
            })
            .min_by_key(|&(_, backlog)| backlog)?;
        claims.next_lane = (lane_index + 1) % lanes;
        let lane = &mut claims.lanes[lane_index];
        let segment_index = self.sources.lanes[lane_index][lane.next];
        let segment = &self.sources.segments[segment_index];
        let start = lane.number * self.items;
        let piece = Piece {
            segment: segment_index,
            number: lane.number,
            lane: lane_index,
            order: lane.order,
            first: segment.first + start,
            count: self.items.min(segment.count - start) as usize,
        };
        lane.order += 1;
        lane.number += 1;
        if lane.number * self.items >= segment.count {
            lane.next += 1;
            lane.number = 0;
        }
        Some(piece)
    }
}
