//! Namespaces and placement handles: the range of the logical space that a queue sees, and the
//! open blocks that its writes go to.
//!
//! Model:
//! - Without namespaces, every queue has a range of its own, as in MQSim. With them, the queues of
//!   one namespace see the same range.
//! - A *stream* is a set of open blocks. Without namespaces and handles, every queue has a stream
//!   of its own, as in MQSim. With namespaces alone, all queues share one. With handles, each
//!   handle has a stream (a reclaim unit handle of NVMe TP4146; one open block per plane is the
//!   reclaim unit).
//! - Collected data stays in the stream of its block. With `fdp.isolation = "initial"` it goes to
//!   one further stream for all handles.
//!
//! Contract: which of these apply is fixed when the drive is built. Memory: 4 bytes per queue, 16
//! bytes per part for its counters.

use outcore_io::units::bytes;
use outcore_io::{Error, Result};

use super::map::Range;
use super::params::{Params, SECTOR_BYTES};
use super::{Drive, QueueConfig, all_ids};
use crate::config::{DriveConfig, Isolation};
use crate::quantities::Size;

const OPERATION: &str = "build drive";

/// The range and the stream of a queue.
#[derive(Debug, Clone, Copy)]
struct Place {
    range: u16,
    stream: u16,
}

/// The ranges and streams of all queues.
#[derive(Debug, Clone)]
pub(super) struct Spaces {
    places: Vec<Place>,
    streams: u16,
    /// The stream of collected data, if all streams share it.
    collected: Option<u16>,
    /// The ranges are namespaces.
    has_namespaces: bool,
    has_handles: bool,
}

impl Spaces {
    /// # Errors
    /// Usage: a queue names a namespace or a handle that the drive lacks.
    pub(super) fn new(config: &DriveConfig, queues: &[QueueConfig]) -> Result<Self> {
        let namespaces = config.namespaces.sizes.len() as u16;
        let handles = config.fdp.handles as u16;
        let mut places = Vec::with_capacity(queues.len());
        for (at, queue) in queues.iter().enumerate() {
            for (what, number, count) in [
                ("namespace", queue.namespace, namespaces),
                ("handle", queue.handle, handles),
            ] {
                if number >= count.max(1) {
                    return Err(missing(at, what, number, count));
                }
            }
            let has_ids = queue.ids.iter().any(|ids| !ids.is_empty());
            if namespaces > 0 && has_ids {
                let cause = format!(
                    "flow {at} names parts of the flash, but namespaces are spread over all of it"
                );
                return Err(Error::usage(OPERATION, cause)
                    .hint("leave out channels, chips, dies and planes, or namespaces.sizes"));
            }
            places.push(Place {
                range: match namespaces {
                    0 => at as u16,
                    _ => queue.namespace,
                },
                stream: match (handles, namespaces) {
                    (0, 0) => at as u16,
                    _ => queue.handle,
                },
            });
        }
        let of_writes = match (handles, namespaces) {
            (0, 0) => queues.len() as u16,
            _ => handles.max(1),
        };
        let is_shared = handles > 0 && config.fdp.isolation == Isolation::Initial;
        Ok(Spaces {
            places,
            streams: of_writes + u16::from(is_shared),
            collected: is_shared.then_some(of_writes),
            has_namespaces: namespaces > 0,
            has_handles: handles > 0,
        })
    }

    /// Number of streams.
    pub(super) fn streams(&self) -> usize {
        usize::from(self.streams)
    }

    /// The range of each queue.
    pub(super) fn ranges_of_queues(&self) -> Vec<usize> {
        let ranges = self.places.iter().map(|place| usize::from(place.range));
        ranges.collect()
    }

    /// The stream of a queue's writes.
    #[inline]
    pub(super) fn stream(&self, queue: u16) -> u16 {
        self.places[usize::from(queue)].stream
    }

    /// The stream that receives what is collected from blocks of `stream`.
    pub(super) fn stream_of_collected(&self, stream: u16) -> u16 {
        self.collected.unwrap_or(stream)
    }

    /// True when queues share ranges of the whole flash.
    pub(super) fn has_namespaces(&self) -> bool {
        self.has_namespaces
    }

    /// Counters of every namespace and of every stream, if the drive has such parts.
    pub(super) fn counters(&self, ranges: usize) -> Parts {
        let of = |is_counted: bool, count: usize| match is_counted {
            true => vec![Moves::default(); count],
            false => Vec::new(),
        };
        Parts {
            namespaces: of(self.has_namespaces, ranges),
            handles: of(self.has_handles, self.streams()),
        }
    }
}

fn missing(flow: usize, what: &str, number: u16, count: u16) -> Error {
    let (key, has) = match what {
        "namespace" => ("namespaces.sizes", "namespaces"),
        _ => ("fdp.handles", "placement handles"),
    };
    let cause = match count {
        0 => format!("flow {flow} names {what} {number}, but the drive has no {has}"),
        _ => {
            format!("flow {flow} names {what} {number}, but there are only {count}, counted from 0")
        }
    };
    Error::usage(OPERATION, cause).hint(format!("the drive's key is {key}"))
}

/// The ranges of a drive: its namespaces, or an equal part of the planes of each queue.
///
/// # Errors
/// Usage: the namespaces need more than the drive has, or one of them is empty.
pub(super) fn ranges(
    config: &DriveConfig,
    p: &Params,
    queues: &[QueueConfig],
    shares: &[u32],
) -> Result<Vec<Range>> {
    let sizes = &config.namespaces.sizes;
    if sizes.is_empty() {
        return Ok(queues
            .iter()
            .map(|queue| Range {
                sectors: sectors_of(p, &queue.ids, |plane| f64::from(shares[plane as usize])),
                ids: queue.ids.clone(),
            })
            .collect());
    }
    let ids = all_ids(config);
    let whole = sectors_of(p, &ids, |_| 1.0);
    let grains: Vec<u64> = (0..sizes.len() as u32)
        .map(|at| match config.zones.namespaces.contains(&at) {
            true => p.zone_sectors,
            false => u64::from(p.page_sectors),
        })
        .collect();
    let sectors = divide(sizes, whole, &grains)?;
    let range = |sectors| Range {
        sectors,
        ids: ids.clone(),
    };
    Ok(sectors.into_iter().map(range).collect())
}

/// Sectors that the host sees of the planes in `ids`, each of which `sharers` ranges share.
fn sectors_of(p: &Params, ids: &[Vec<u32>; 4], sharers: impl Fn(u32) -> f64) -> u64 {
    let plane_sectors = f64::from(p.blocks) * f64::from(p.pages) * f64::from(p.page_sectors);
    let mut sectors = 0u64;
    for c in &ids[0] {
        for w in &ids[1] {
            for d in &ids[2] {
                for l in &ids[3] {
                    let sharers = sharers(p.plane_at([*c, *w, *d, *l]));
                    sectors += (plane_sectors * (1.0 - p.over_provisioning) / sharers) as u64;
                }
            }
        }
    }
    sectors
}

/// Sectors of namespaces of these `sizes`, each in multiples of its grain. A size of 0 is an equal
/// part of the rest.
fn divide(sizes: &[Size], whole: u64, grains: &[u64]) -> Result<Vec<u64>> {
    let in_grains = |at: usize, sectors: u64| sectors / grains[at] * grains[at];
    let of_size = |at: usize| in_grains(at, sizes[at].0 / u64::from(SECTOR_BYTES));
    let fixed = (0..sizes.len()).map(of_size).fold(0, u64::saturating_add);
    let sharers = sizes.iter().filter(|size| size.0 == 0).count() as u64;
    let shown = |sectors: u64| bytes(sectors.saturating_mul(u64::from(SECTOR_BYTES)));
    if fixed > whole {
        return Err(Error::usage(
            OPERATION,
            format!(
                "the namespaces take {}, but the host sees {} of the drive",
                shown(fixed),
                shown(whole)
            ),
        )
        .hint("make one smaller; a size of 0B is an equal part of what the others leave"));
    }
    let rest = (whole - fixed) / sharers.max(1);
    let mut sectors = Vec::with_capacity(sizes.len());
    for (at, size) in sizes.iter().enumerate() {
        let own = match size.0 {
            0 => in_grains(at, rest),
            _ => of_size(at),
        };
        if own == 0 {
            return Err(Error::usage(
                OPERATION,
                format!("namespace {at} has no room for {}", shown(grains[at])),
            )
            .hint("namespaces.sizes: make it larger, or the others smaller"));
        }
        sectors.push(own);
    }
    Ok(sectors)
}

/// What the host wrote to a part of a drive, and what collection moved there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moves {
    /// Mapping units that the host wrote.
    pub(crate) host_units: u64,
    /// Mapping units that collection, folding and wear levelling moved.
    pub(crate) moved_units: u64,
}

impl Moves {
    /// Units written to flash per unit of the host, without slots that stay empty; 1 when nothing
    /// was written.
    pub(crate) fn write_amplification(&self) -> f64 {
        match self.host_units {
            0 => 1.0,
            host_units => 1.0 + self.moved_units as f64 / host_units as f64,
        }
    }
}

/// Counters of the parts of a drive; empty where it has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    /// By namespace.
    pub(crate) namespaces: Vec<Moves>,
    /// By placement handle. With shared collected data, one more for it.
    pub(crate) handles: Vec<Moves>,
}

impl Parts {
    /// The same parts without counts.
    pub(super) fn restarted(&self) -> Self {
        Parts {
            namespaces: vec![Moves::default(); self.namespaces.len()],
            handles: vec![Moves::default(); self.handles.len()],
        }
    }
}

impl Drive {
    /// Number of placement handles, or of streams if there are none.
    pub(crate) fn handles(&self) -> usize {
        usize::from(self.spaces.collected.unwrap_or(self.spaces.streams))
    }

    /// Counts a unit that a queue writes to flash.
    #[inline]
    pub(super) fn count_host_unit(&mut self, queue: u16) {
        let Place { range, stream } = self.spaces.places[usize::from(queue)];
        let parts = &mut self.stats.parts;
        if let Some(moves) = parts.namespaces.get_mut(usize::from(range)) {
            moves.host_units += 1;
        }
        if let Some(moves) = parts.handles.get_mut(usize::from(stream)) {
            moves.host_units += 1;
        }
    }

    /// Counts a unit that collection moves from a block of `stream`.
    #[inline]
    pub(super) fn count_moved_unit(&mut self, stream: u16, unit: u32) {
        let parts = &mut self.stats.parts;
        if !parts.namespaces.is_empty() {
            parts.namespaces[self.map.range_of(unit)].moved_units += 1;
        }
        if let Some(moves) = parts.handles.get_mut(usize::from(stream)) {
            moves.moved_units += 1;
        }
    }

    /// The share of a queue's range that preconditioning fills: that of the first queue with this
    /// range, at least as large as that of the others. `None` if the range is filled already.
    pub(super) fn share_to_fill(&self, queue: u16, occupancies: &[f64]) -> Option<f64> {
        let places = &self.spaces.places;
        let range = places[usize::from(queue)].range;
        let sharers = places.iter().zip(occupancies);
        let sharers = sharers
            .enumerate()
            .filter(|(_, (place, _))| place.range == range);
        let mut sharers = sharers.map(|(at, (_, occupancy))| (at, *occupancy));
        let (first, occupancy) = sharers.next()?;
        (first == usize::from(queue))
            .then(|| sharers.fold(occupancy, |most, (_, other)| most.max(other)))
    }

    /// How many times the blocks of a plane are more than the part that filling `queue` may use.
    pub(super) fn parts_of_plane(&self, plane: u32, queue: u16) -> f64 {
        if !self.spaces.has_namespaces {
            return f64::from(self.blocks.shares[plane as usize]);
        }
        let domains = self.map.domains.iter().enumerate();
        let others = domains.filter(|(at, _)| !self.zones.has(*at));
        let all: f64 = others.map(|(_, domain)| f64::from(domain.units)).sum();
        all / f64::from(self.map.units(queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_of_no_size_share_what_the_others_leave() {
        let sizes = |kib: &[u64]| kib.iter().map(|kib| Size(kib << 10)).collect::<Vec<_>>();
        // 1000 sectors, in multiples of a page or of a zone.
        assert_eq!(divide(&sizes(&[0]), 1000, &[16]).unwrap(), [992]);
        assert_eq!(
            divide(&sizes(&[100, 0, 0]), 1000, &[16, 16, 100]).unwrap(),
            [192, 400, 400]
        );
        assert_eq!(divide(&sizes(&[100]), 1000, &[16]).unwrap(), [192]);
        let error = divide(&sizes(&[300, 300]), 1000, &[16; 2])
            .unwrap_err()
            .to_string();
        assert!(error.contains("but the host sees"), "{error}");
        let error = divide(&sizes(&[496, 0]), 1000, &[16; 2])
            .unwrap_err()
            .to_string();
        assert!(error.contains("namespace 1 has no room"), "{error}");
    }
}
