//! The sources of a pass as pieces: which positions a thread reads next, and from where.
//!
//! Contract: the sources are opened and must be equally long. Their positions are divided into
//! *segments* wherever a source continues in another file, so that a piece is one read of each
//! source. Segments are divided into pieces of equal length. Each piece is handed out once, from a
//! *lane*. Within a lane, segments are in order; among lanes, the one whose drive has the fewest
//! requests is next. A lane is everything on one drive, or, if results must be in order, a stretch
//! of the sequence.
//!
//! If all results go one after another, a lane is a series of adjacent segments on one drive. The
//! lanes after the one whose results are being placed ([`Pieces::set_front`]) are read *ahead*, so
//! that no drive waits for another. Only the next lane of each drive is read ahead, as long as
//! there is allowance for the results. Pieces without allowance are claimed strictly in order.
//!
//! Piece length is a multiple of the *grain*, which depends only on the sizes of elements. A fold
//! by grains has the same result for any memory and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::batch::{SOURCES_MAX, Source};
use crate::ends::{input_places, open_inputs};
use crate::job::{Job, Layout, OutputPlaces};
use crate::read::source::InputPart;
use outcore_io::drive::Access;
use outcore_io::memory::BLOCK_BYTES;
use outcore_io::port::{Port, Volume};
use outcore_io::{Error, Result, units};

/// The approximate size of a grain, summed over all sources.
const GRAIN_BYTES: u64 = 64 << 10;
/// Grains are whole blocks unless that would make them larger than this.
const GRAIN_BYTES_MAX: u64 = 256 << 10;
/// The assumed size of a generated element.
const GENERATED_BYTES: u64 = 8;

/// An open source.
#[derive(Debug)]
pub(crate) struct OpenSource {
    /// The files of the source; empty for a generated one.
    pub(crate) parts: Vec<InputPart>,
    pub(crate) element_bytes: usize,
    pub(crate) align_bytes: usize,
}

/// Positions for which each source stays in one file.
#[derive(Debug, Clone)]
struct Segment {
    first: u64,
    count: u64,
    /// The file of each source.
    parts: [usize; SOURCES_MAX],
    drive_index: Option<usize>,
    stretch: usize,
}

/// Consecutive positions, read and processed together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The segment of the piece.
    pub(crate) segment: usize,
    /// The number of the piece in the segment.
    pub(crate) number: u64,
    /// The lane of the piece, and the number of the piece in that lane.
    pub(crate) lane: usize,
    pub(crate) order: u64,
    /// The stretch of the sequence to which the piece belongs.
    pub(crate) stretch: usize,
    /// Room that the piece's results may use before their turn; 0 if they have to wait for it.
    pub(crate) allowance_bytes: u64,
    /// Position of the first element.
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// Whether only some of the pieces are handed out.
    pub(crate) is_sample: bool,
}

/// The order of pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Drives work in parallel; order does not matter.
    Drives,
    /// This many stretches of the sequence in parallel, each in order.
    Stretches(usize),
    /// This many stretches one after another, each in order.
    InOrder(usize),
}

/// Limits on reading ahead of the results that are being placed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ahead {
    /// Room for results.
    pub(crate) free_bytes: u64,
    /// Largest size of a piece's results.
    pub(crate) piece_bytes: u64,
    /// Room that a lane uses besides its results.
    pub(crate) lane_bytes: u64,
}

/// The part of one source that belongs to a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceRead {
    /// The source that reads this part: its own source, or an earlier one that reads almost the
    /// same range.
    pub(crate) reader: usize,
    /// The offset of the part in the file, and its length.
    pub(crate) from_bytes: u64,
    pub(crate) payload_bytes: usize,
    /// The end of the read, if this source does the read.
    pub(crate) end_bytes: u64,
}

/// The parts of all sources that belong to a piece; `None` for generated ones.
pub(crate) type PieceReads = [Option<PieceRead>; SOURCES_MAX];

/// Open sources.
#[derive(Debug)]
pub(crate) struct OpenSources {
    pub(crate) open: Vec<OpenSource>,
    segments: Vec<Segment>,
    /// Number of positions.
    pub(crate) count: u64,
    lanes: Vec<Vec<usize>>,
    /// Number of drives that hold the sources.
    drives: usize,
    is_in_order: bool,
}

impl OpenSources {
    /// The layout of a job that reads the sources.
    pub(crate) fn layout(&self, job: &Job) -> Layout {
        let parts = self.open.iter().flat_map(|source| &source.parts);
        let parts: Vec<InputPart> = parts.cloned().collect();
        job.layout(&input_places(&parts), &OutputPlaces::Unknown)
    }

    /// Opens `sources`.
    pub(crate) fn open(volume: &Volume, sources: &[Source], lanes: Lanes) -> Result<Self> {
        if sources.len() > SOURCES_MAX {
            let cause = format!("{} sequences are zipped", sources.len());
            return Err(Error::usage("open sequence", cause).hint(format!(
                "zip at most {SOURCES_MAX}, or write some to a file"
            )));
        }
        let mut open = Vec::with_capacity(sources.len());
        let mut counts = Vec::with_capacity(sources.len());
        for source in sources {
            let parts = match source.element_bytes {
                0 => Vec::new(),
                bytes => open_inputs(volume, &source.inputs, bytes, Access::Read)?,
            };
            counts.push(match source.element_bytes {
                0 => source.count,
                bytes => parts.iter().map(|part| part.data_len_bytes).sum::<u64>() / bytes as u64,
            });
            open.push(OpenSource {
                parts,
                element_bytes: source.element_bytes,
                align_bytes: source.align_bytes,
            });
        }
        let count = counts.first().copied().unwrap_or(0);
        if let Some(other) = counts.iter().find(|other| **other != count) {
            let cause = format!(
                "one sequence has {} and another {other}",
                units::counted(count, "element")
            );
            return Err(
                Error::usage("zip sequences", cause).hint("zip sequences of the same length")
            );
        }
        let segments = cut(&open, count, lanes);
        Ok(OpenSources {
            open,
            lanes: match lanes {
                Lanes::Drives => by_drive(&segments),
                Lanes::Stretches(lanes) => by_stretch(&segments, lanes),
                Lanes::InOrder(_) => by_run(&segments),
            },
            drives: by_drive(&segments).len(),
            segments,
            count,
            is_in_order: matches!(lanes, Lanes::InOrder(_)),
        })
    }

    /// Bytes of all sources.
    pub(crate) fn data_bytes(&self) -> u64 {
        let parts = self.open.iter().flat_map(|source| &source.parts);
        parts.map(|part| part.data_len_bytes).sum()
    }

    /// Bytes that are read from all sources; a range of a file that several sources share counts
    /// once.
    pub(crate) fn read_bytes(&self) -> u64 {
        let segments = self.segments.iter().enumerate();
        let segments = segments.filter(|(_, segment)| segment.count > 0);
        let reads = segments.flat_map(|(index, segment)| {
            let reads = self.reads_at(index, segment.first, segment.count);
            let own = reads.into_iter().enumerate();
            own.filter_map(|(source, read)| read.filter(|read| read.reader == source))
        });
        reads.map(|read| read.end_bytes - read.from_bytes).sum()
    }

    /// The part of each source that belongs to `piece`.
    pub(crate) fn reads_of(&self, piece: &Piece) -> PieceReads {
        self.reads_at(piece.segment, piece.first, piece.count as u64)
    }

    /// Like `reads_of`, for `count` positions that start at `first`. Sources that are one file,
    /// shifted by at most a block (the consecutive items of windows), are read together: the extra
    /// block fits in the margins of a slot.
    fn reads_at(&self, segment: usize, first: u64, count: u64) -> PieceReads {
        let mut reads: PieceReads = [None; SOURCES_MAX];
        let part_of =
            |source: usize| &self.open[source].parts[self.segments[segment].parts[source]];
        for (index, source) in self.open.iter().enumerate() {
            let element_bytes = source.element_bytes as u64;
            if element_bytes == 0 {
                continue;
            }
            let part = part_of(index);
            let from_bytes = part.data_at_bytes + (first - part.first_position) * element_bytes;
            let end_bytes = from_bytes + count * element_bytes;
            let is_near = |reader: &usize| {
                let shift = |read: PieceRead| from_bytes.checked_sub(read.from_bytes);
                let is_own = |read: &PieceRead| read.reader == *reader;
                let shift_bytes = reads[*reader].filter(is_own).and_then(shift);
                shift_bytes.is_some_and(|bytes| bytes <= BLOCK_BYTES as u64)
                    && self.open[*reader].element_bytes == source.element_bytes
                    && part_of(*reader).file.path == part.file.path
            };
            let reader = (0..index).find(is_near).unwrap_or(index);
            reads[index] = Some(PieceRead {
                reader,
                from_bytes,
                payload_bytes: (count * element_bytes) as usize,
                end_bytes,
            });
            if let Some(read) = &mut reads[reader] {
                read.end_bytes = read.end_bytes.max(end_bytes);
            }
        }
        reads
    }

    /// Bytes of one position in all sources.
    pub(crate) fn position_bytes(&self) -> usize {
        self.open.iter().map(|source| source.element_bytes).sum()
    }

    /// Whether all files are in memory (tmpfs), so that a read is a copy and never waits.
    pub(crate) fn is_in_memory(&self) -> bool {
        let mut parts = self.open.iter().flat_map(|source| &source.parts);
        parts.all(|part| part.file.facts.is_in_memory)
    }

    /// Number of segments.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The stretch of a segment.
    pub(crate) fn stretch_of(&self, segment: usize) -> usize {
        self.segments[segment].stretch
    }

    /// Bytes on the drive that holds most of the data.
    pub(crate) fn fullest_drive_bytes(&self) -> u64 {
        let mut drives: BTreeMap<usize, u64> = BTreeMap::new();
        for part in self.open.iter().flat_map(|source| &source.parts) {
            *drives.entry(part.file.drive_index).or_default() += part.data_len_bytes;
        }
        drives.into_values().max().unwrap_or(0)
    }

    /// Number of positions that are folded together first.
    pub(crate) fn grain(&self) -> u64 {
        match self.position_bytes() as u64 {
            0 => grain_of(GENERATED_BYTES),
            bytes => grain_of(bytes),
        }
    }

    /// The file of the source with this index that holds `piece`.
    pub(crate) fn part_of(&self, piece: &Piece, source: usize) -> &InputPart {
        &self.open[source].parts[self.segments[piece.segment].parts[source]]
    }
}

/// Number of positions of `bytes` each that take about [`GRAIN_BYTES`], in whole blocks unless
/// those are too long.
pub(crate) fn grain_of(bytes: u64) -> u64 {
    let block_bytes = BLOCK_BYTES as u64;
    let unit = block_bytes / (1 << bytes.trailing_zeros().min(block_bytes.ilog2()));
    let unit = if unit * bytes <= GRAIN_BYTES_MAX {
        unit
    } else {
        1
    };
    unit * (GRAIN_BYTES / (unit * bytes)).max(1)
}

fn cut(sources: &[OpenSource], count: u64, lanes: Lanes) -> Vec<Segment> {
    let mut borders: BTreeSet<u64> = [0, count].into();
    for source in sources {
        borders.extend(source.parts.iter().map(|part| part.first_position));
    }
    let stretches = match lanes {
        Lanes::Drives => 1,
        Lanes::Stretches(stretches) | Lanes::InOrder(stretches) => stretches.max(1),
    };
    let starts = (0..stretches).map(|stretch| stretch_start(count, stretch, stretches));
    let starts: Vec<u64> = starts.collect();
    borders.extend(&starts);
    let borders: Vec<u64> = borders.into_iter().collect();
    let segment = |pair: &[u64]| {
        let mut parts = [0; SOURCES_MAX];
        let mut drive_index = None;
        for (place, source) in parts.iter_mut().zip(sources) {
            // If several parts begin here, only the last one has elements.
            let after = source
                .parts
                .partition_point(|part| part.first_position <= pair[0]);
            *place = after.saturating_sub(1);
            if drive_index.is_none() {
                drive_index = source.parts.get(*place).map(|part| part.file.drive_index);
            }
        }
        Segment {
            first: pair[0],
            count: pair[1] - pair[0],
            parts,
            drive_index,
            stretch: starts.partition_point(|start| *start <= pair[0]) - 1,
        }
    };
    borders.windows(2).map(segment).collect()
}

/// First position of stretch `index` of `stretches`.
fn stretch_start(count: u64, index: usize, stretches: usize) -> u64 {
    (u128::from(count) * index as u128 / stretches as u128) as u64
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

fn by_stretch(segments: &[Segment], stretches: usize) -> Vec<Vec<usize>> {
    let mut list = vec![Vec::new(); stretches];
    for (index, segment) in segments.iter().enumerate() {
        list[segment.stretch].push(index);
    }
    list
}

fn by_run(segments: &[Segment]) -> Vec<Vec<usize>> {
    let indices: Vec<usize> = (0..segments.len()).collect();
    let runs = indices.chunk_by(|a, b| segments[*a].drive_index == segments[*b].drive_index);
    runs.map(<[usize]>::to_vec).collect()
}

/// The progress of a lane.
#[derive(Debug, Default)]
struct LaneClaims {
    /// The next segment of the lane, and the next piece of that segment.
    next: usize,
    number: u64,
    order: u64,
    /// Whether the lane has taken allowance.
    is_ahead: bool,
}

#[derive(Debug)]
struct Claims {
    lanes: Vec<LaneClaims>,
    next_lane: usize,
    /// The first lane with pieces left, and the one whose results are being placed.
    first_open: usize,
    front: usize,
    ahead: Ahead,
}

/// The pieces of a pass, each handed out once.
#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) sources: OpenSources,
    /// Positions in a piece.
    pub(crate) items: u64,
    /// The pass hands out one of this many pieces of a segment.
    stride: u64,
    is_sample: bool,
    claims: Mutex<Claims>,
}

impl Pieces {
    /// Pieces of `items` positions.
    pub(crate) fn new(sources: OpenSources, items: u64) -> Self {
        let lanes = sources
            .lanes
            .iter()
            .map(|_| LaneClaims::default())
            .collect();
        Pieces {
            sources,
            items,
            stride: 1,
            is_sample: false,
            claims: Mutex::new(Claims {
                lanes,
                next_lane: 0,
                first_open: 0,
                front: 0,
                ahead: Ahead::default(),
            }),
        }
    }

    /// Keeps about `count` of the pieces, evenly spread, at least one of each segment.
    pub(crate) fn sampled(self, count: u64) -> Self {
        Pieces {
            stride: (self.len() / count.max(1)).max(1),
            is_sample: true,
            ..self
        }
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> u64 {
        (0..self.sources.lanes.len())
            .map(|lane| self.len_of(lane))
            .sum()
    }

    /// Number of pieces of a lane.
    pub(crate) fn len_of(&self, lane: usize) -> u64 {
        let segments = self.sources.lanes[lane].iter();
        let counts = segments.map(|segment| self.sources.segments[*segment].count);
        let pieces = counts.map(|count| count.div_ceil(self.items).div_ceil(self.stride));
        pieces.sum()
    }

    /// Number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.sources.lanes.len()
    }

    /// Whether the results of all lanes go one after another.
    pub(crate) fn is_in_order(&self) -> bool {
        self.sources.is_in_order
    }

    /// Leaves out the last lane.
    pub(crate) fn leave_out_last(&self) {
        if let (Some(lane), Some(list)) =
            (self.claims().lanes.last_mut(), self.sources.lanes.last())
        {
            lane.next = list.len();
        }
    }

    /// Permits reading ahead.
    pub(crate) fn read_ahead(&self, ahead: Ahead) {
        self.claims().ahead = ahead;
    }

    /// Returns allowance.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            self.claims().ahead.free_bytes += bytes;
        }
    }

    /// Sets the lane whose results are being placed; those of all lanes before it are placed.
    pub(crate) fn set_front(&self, lane: usize) {
        let mut claims = self.claims();
        claims.front = lane;
        if std::mem::take(&mut claims.lanes[lane].is_ahead) {
            claims.ahead.free_bytes += claims.ahead.lane_bytes;
        }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece, from the lane whose drive has the fewest requests of `port`.
    pub(crate) fn next(&self, port: &Port) -> Option<Piece> {
        let mut claims = self.claims();
        while claims.first_open < self.lanes()
            && self.drive_of(&claims, claims.first_open).is_none()
        {
            claims.first_open += 1;
        }
        let (lane, allowance_bytes) = match self.sources.is_in_order {
            true => self.choose_in_order(&claims, port),
            false => self.choose_any(&claims, port),
        }?;
        Some(self.claim(&mut claims, lane, allowance_bytes))
    }

    /// The drive from which `lane` continues; `None` at its end.
    fn drive_of(&self, claims: &Claims, lane: usize) -> Option<Option<usize>> {
        let segment = self.sources.lanes[lane].get(claims.lanes[lane].next)?;
        Some(self.sources.segments[*segment].drive_index)
    }

    fn choose_any(&self, claims: &Claims, port: &Port) -> Option<(usize, u64)> {
        let lanes = self.lanes();
        let turns = (0..lanes).map(|step| (claims.next_lane + step) % lanes);
        let open = turns.filter_map(|lane| {
            let drive = self.drive_of(claims, lane)?;
            Some((lane, drive.map_or(0, |drive| port.backlog(drive))))
        });
        let least = open.min_by_key(|&(_, backlog)| backlog);
        least.map(|(lane, _)| (lane, 0))
    }

    /// Only the next lane of each drive counts: later ones would use up its allowance.
    fn choose_in_order(&self, claims: &Claims, port: &Port) -> Option<(usize, u64)> {
        let Ahead {
            free_bytes,
            piece_bytes,
            lane_bytes,
        } = claims.ahead;
        let mut seen = Vec::new();
        let mut best: Option<(usize, usize, u64)> = None;
        for lane in claims.first_open..self.lanes() {
            let Some(drive) = self.drive_of(claims, lane) else {
                continue;
            };
            if seen.contains(&drive) {
                continue;
            }
            seen.push(drive);
            let more_bytes = if claims.lanes[lane].is_ahead {
                0
            } else {
                lane_bytes
            };
            let has_allowance = piece_bytes > 0 && free_bytes >= piece_bytes + more_bytes;
            let allowance_bytes = match lane {
                lane if lane == claims.front => 0,
                _ if has_allowance => piece_bytes,
                lane if lane == claims.first_open => 0,
                _ => break,
            };
            let backlog = drive.map_or(0, |drive| port.backlog(drive));
            if best.is_none_or(|(_, least, _)| backlog < least) {
                best = Some((lane, backlog, allowance_bytes));
            }
            if seen.len() == self.sources.drives {
                break;
            }
        }
        best.map(|(lane, _, allowance_bytes)| (lane, allowance_bytes))
    }

    fn claim(&self, claims: &mut Claims, lane_index: usize, allowance_bytes: u64) -> Piece {
        claims.next_lane = (lane_index + 1) % self.lanes();
        let Claims { lanes, ahead, .. } = claims;
        let lane = &mut lanes[lane_index];
        ahead.free_bytes -= allowance_bytes;
        if allowance_bytes > 0 && !std::mem::replace(&mut lane.is_ahead, true) {
            ahead.free_bytes -= ahead.lane_bytes;
        }
        let segment_index = self.sources.lanes[lane_index][lane.next];
        let segment = &self.sources.segments[segment_index];
        let start = lane.number * self.items;
        let piece = Piece {
            segment: segment_index,
            number: lane.number,
            lane: lane_index,
            order: lane.order,
            stretch: segment.stretch,
            allowance_bytes,
            first: segment.first + start,
            count: self.items.min(segment.count - start) as usize,
            is_sample: self.is_sample,
        };
        lane.order += 1;
        lane.number += self.stride;
        if lane.number * self.items >= segment.count {
            lane.next += 1;
            lane.number = 0;
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ends::Input;
    use outcore_io::drive::Op;
    use outcore_io::drive::testing::{RamDevice, RamOptions};
    use outcore_io::memory::{Budget, Pool};

    #[test]
    fn of_each_drive_the_next_lane_is_read_ahead_as_far_as_the_allowance_goes() {
        let device = RamDevice::new(RamOptions::default());
        let paths = ["/d0/a", "/d1/b", "/d2/c", "/d0/d"];
        for path in paths {
            device.put(path, vec![0; 2 * BLOCK_BYTES]);
        }
        let volume = Volume::new(Arc::new(device), &[]).unwrap();
        let source = Source {
            inputs: paths.map(Input::raw).to_vec(),
            element_bytes: 1,
            align_bytes: 1,
            count: 0,
        };
        let sources = OpenSources::open(&volume, &[source], Lanes::InOrder(1)).unwrap();
        let pieces = Pieces::new(sources, BLOCK_BYTES as u64);
        assert_eq!((pieces.lanes(), pieces.len(), pieces.len_of(3)), (4, 8, 2));
        pieces.read_ahead(Ahead {
            free_bytes: 3 * 4096 + 2 * 100,
            piece_bytes: 4096,
            lane_bytes: 100,
        });
        let budget = Budget::new(1 << 20);
        let pool = Pool::new(&budget, "reads", BLOCK_BYTES, 3).unwrap();
        let mut port = volume.port().unwrap();
        let mut claimed = Vec::new();
        while let Some(piece) = pieces.next(&port) {
            // The first three reads are always in flight, so each drive has equally many requests.
            if let Some(buf) = pool.take() {
                let file = &pieces.sources.part_of(&piece, 0).file;
                port.submit(file, Op::Read, 0, buf, 0);
            }
            claimed.push((piece.lane, piece.order, piece.allowance_bytes));
        }
        let expected = [
            (0, 0, 0),
            (1, 0, 4096),
            (2, 0, 4096),
            (0, 1, 0),
            (1, 1, 4096),
            // Without allowance, pieces are claimed strictly in order.
            (2, 1, 0),
            (3, 0, 0),
            (3, 1, 0),
        ];
        assert_eq!(claimed, expected);
        pieces.give_back(3 * 4096);
        pieces.set_front(1);
        pieces.set_front(2);
        assert_eq!(pieces.claims().ahead.free_bytes, 3 * 4096 + 2 * 100);
    }

    #[test]
    fn a_sample_has_about_as_many_pieces_as_wanted_and_some_of_each_file() {
        let device = RamDevice::new(RamOptions::default());
        device.put("/d0/small", vec![0; 100]);
        device.put("/d0/large", vec![0; 1_000_000]);
        let volume = Volume::new(Arc::new(device), &[]).unwrap();
        let source = Source {
            inputs: ["/d0/small", "/d0/large"].map(Input::raw).to_vec(),
            element_bytes: 1,
            align_bytes: 1,
            count: 0,
        };
        let sources = OpenSources::open(&volume, &[source], Lanes::Drives).unwrap();
        let pieces = Pieces::new(sources, 1000).sampled(100);
        let port = volume.port().unwrap();
        let all: Vec<Piece> = std::iter::from_fn(|| pieces.next(&port)).collect();
        assert_eq!(all.len() as u64, pieces.len());
        assert!((100..=102).contains(&all.len()), "{}", all.len());
        assert_eq!((all[0].first, all[0].count), (0, 100));
        assert!(all.last().is_some_and(|piece| piece.first > 980_000));
    }
}
