//! Decides where the bytes of files and devices are stored on the drives of an array.
//!
//! Model: an extent of a file is a stripe unit, or 1 MiB where files stay on their drives. If
//! only some files are striped, their unit is 1 MiB as well. An extent gets a place on its drive
//! when it is first touched.
//! - Reads use places in the filled part of the drive, writes in the free part. Both are used in
//!   order, as by a file system that stores each file in one piece.
//! - A discarded extent returns its place.
//! - When the free part is used up, writes overwrite the filled part from its end.
//! - When a drive has no place left, the request is rejected. If the layout wraps, places are
//!   reused from the start and counted.
//! - A read or write that is larger than all drives together, or that ends beyond 64 bits, is
//!   rejected in any case.
//!
//! Invariants: parts of a request are in the order of its bytes and cover them; adjacent parts on
//! the same drive are merged. Bounds: 48 bytes per extent that was touched.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use outcore_io::{Error, Result};

use super::{ArrayRequest, OPERATION, Placement};
use crate::drive::Op;

const SECTOR_BYTES: u64 = 512;
const EXTENT_BYTES: u64 = 1 << 20;

/// The part of a request that one drive handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) drive: u32,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

/// Places on one drive.
#[derive(Debug, Clone, Default)]
struct Places {
    /// The next place of the filled part, and of the free part.
    next_read: u64,
    next_write: u64,
    /// Places at the end of the filled part that writes have used.
    overwritten: u64,
    freed: Vec<u64>,
    /// Number of places that were reused.
    again: u64,
}

/// Why a request has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// A drive is full.
    Full {
        /// The full drive.
        drive: u32,
        /// Bytes that could be placed: for reads in the filled part, for writes on the drive.
        room_bytes: u64,
    },
    /// The request is larger than all drives together. Holds the size of the drives in bytes.
    Larger(u64),
    /// The request ends beyond the last byte that 64 bits can address.
    Beyond,
}

/// The end of a request in whole sectors; `None` beyond 64 bits.
pub(crate) fn end_bytes(offset_bytes: u64, bytes: u64) -> Option<u64> {
    offset_bytes
        .checked_add(bytes)?
        .checked_next_multiple_of(SECTOR_BYTES)
}

/// The files that are striped over all drives.
#[derive(Debug)]
enum Striped {
    Nothing,
    Everything,
    Files(HashSet<u32>),
}

/// An extent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Extent {
    file: u32,
    number: u64,
}

/// The layout of all files; see the module.
#[derive(Debug)]
pub(crate) struct Layout {
    drives: u32,
    striped: Striped,
    extent_bytes: u64,
    /// Extents per drive, and how many of them hold data from the start.
    extents: u64,
    filled: u64,
    places: Vec<Places>,
    /// The extent on its drive, by the extent of a file.
    map: HashMap<Extent, u64>,
    /// Whether places are reused when none is left.
    wraps: bool,
}

impl Layout {
    pub(crate) fn new(
        placement: Placement,
        drives: u32,
        capacity_bytes: u64,
        fill: f64,
        wraps: bool,
    ) -> Result<Self> {
        let (striped, extent_bytes) = match placement {
            Placement::Recorded => (Striped::Nothing, EXTENT_BYTES),
            Placement::Whole => (Striped::Files(HashSet::new()), EXTENT_BYTES),
            Placement::Striped { stripe_bytes } => (Striped::Everything, stripe_bytes),
        };
        if extent_bytes < SECTOR_BYTES || !extent_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::usage(
                OPERATION,
                format!("a stripe of {extent_bytes} bytes; it must be a multiple of 512"),
            ));
        }
        let extents = capacity_bytes / extent_bytes;
        if extents == 0 {
            return Err(Error::usage(
                OPERATION,
                format!("a stripe of {extent_bytes} bytes is larger than a drive"),
            ));
        }
        let filled = (extents as f64 * fill) as u64;
        let places = Places {
            next_write: filled,
            ..Places::default()
        };
        Ok(Layout {
            drives,
            striped,
            extent_bytes,
            extents,
            filled,
            places: vec![places; drives as usize],
            map: HashMap::new(),
            wraps,
        })
    }

    /// Stripes only these files, if the other files stay whole.
    pub(crate) fn stripe_files(&mut self, files: HashSet<u32>) {
        if let Striped::Files(striped) = &mut self.striped {
            *striped = files;
        }
    }

    /// True when reads have a separate part of each drive.
    pub(crate) fn is_partly_filled(&self) -> bool {
        self.filled > 0 && self.filled < self.extents
    }

    /// Bytes that each of `devices` can touch in any pattern before a drive runs out of places.
    pub(crate) fn room_bytes(&self, devices: u64) -> u64 {
        let extents = if self.filled == 0 {
            self.extents
        } else {
            self.filled
        };
        let spread = match self.striped {
            Striped::Everything => u64::from(self.drives),
            Striped::Nothing | Striped::Files(_) => 1,
        };
        extents / devices.max(1) * spread * self.extent_bytes
    }

    /// Bytes of all drives together.
    pub(crate) fn whole_bytes(&self) -> u64 {
        (self.extents * self.extent_bytes).saturating_mul(u64::from(self.drives))
    }

    /// Cuts `request` into parts.
    ///
    /// # Errors
    /// A drive has no place for the request and the layout does not wrap; the request is larger
    /// than all drives; or it ends beyond 64 bits.
    pub(crate) fn place(
        &mut self,
        request: &ArrayRequest,
        parts: &mut Vec<Part>,
    ) -> std::result::Result<(), Unplaced> {
        let end = end_bytes(request.offset_bytes, request.bytes).ok_or(Unplaced::Beyond)?;
        let span = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES..end;
        if span.is_empty() {
            return Ok(());
        }
        let extents = span.start / self.extent_bytes..=(span.end - 1) / self.extent_bytes;
        if span.end - span.start <= self.whole_bytes() {
            for extent in extents {
                self.place_part(request, extent, &span, parts)?;
            }
            return Ok(());
        }
        if request.op != Op::Trim {
            return Err(Unplaced::Larger(self.whole_bytes()));
        }
        // For the discard of a whole device: extents that were never touched have no place to
        // return.
        let known = self.map.keys().filter(|known| known.file == request.file);
        let mut known: Vec<u64> = known.map(|known| known.number).collect();
        known.retain(|extent| extents.contains(extent));
        known.sort_unstable();
        for extent in known {
            self.place_part(request, extent, &span, parts)?;
        }
        Ok(())
    }

    /// The part of `request` (which covers `span`) within one extent.
    fn place_part(
        &mut self,
        request: &ArrayRequest,
        extent: u64,
        span: &Range<u64>,
        parts: &mut Vec<Part>,
    ) -> std::result::Result<(), Unplaced> {
        let extent_bytes = self.extent_bytes;
        let inside = span.start.saturating_sub(extent * extent_bytes);
        let take = (extent_bytes - inside).min(span.end - (extent * extent_bytes + inside));
        let is_striped = match &self.striped {
            Striped::Everything => true,
            Striped::Nothing => false,
            Striped::Files(files) => files.contains(&request.file),
        };
        let drive = if is_striped {
            (extent + u64::from(request.file)) % u64::from(self.drives)
        } else {
            u64::from(request.drive) % u64::from(self.drives)
        } as u32;
        let key = Extent {
            file: request.file,
            number: extent,
        };
        let place = match request.op {
            Op::Read | Op::Write => self.place_of(key, drive, request.op)?,
            Op::Trim => match self.map.get(&key).copied() {
                None => return Ok(()),
                Some(place) => {
                    if take == extent_bytes {
                        self.map.remove(&key);
                        self.places[drive as usize].freed.push(place);
                    }
                    place
                }
            },
        };
        let sector = (place * extent_bytes + inside) / SECTOR_BYTES;
        let sectors = take / SECTOR_BYTES;
        if let Some(last) = parts.last_mut()
            && last.drive == drive
            && last.sector + u64::from(last.sectors) == sector
            && u64::from(last.sectors) + sectors <= u64::from(u32::MAX)
        {
            last.sectors += sectors as u32;
            return Ok(());
        }
        parts.push(Part {
            drive,
            sector,
            sectors: sectors as u32,
        });
        Ok(())
    }

    fn place_of(&mut self, key: Extent, drive: u32, op: Op) -> std::result::Result<u64, Unplaced> {
        if let Some(place) = self.map.get(&key) {
            return Ok(*place);
        }
        let places = &mut self.places[drive as usize];
        let unread = self.filled - places.overwritten - places.next_read;
        // Without a filled part, reads use the places that writes would use.
        let reads_filled = op == Op::Read && self.filled > 0;
        let place = if reads_filled && unread > 0 {
            places.next_read += 1;
            places.next_read - 1
        } else if !reads_filled && places.next_write < self.extents {
            places.next_write += 1;
            places.next_write - 1
        } else if let (false, Some(place)) = (reads_filled, places.freed.pop()) {
            place
        } else if !reads_filled && unread > 0 {
            places.overwritten += 1;
            self.filled - places.overwritten
        } else {
            let room = if reads_filled {
                self.filled
            } else {
                self.extents
            };
            if !self.wraps {
                return Err(Unplaced::Full {
                    drive,
                    room_bytes: room * self.extent_bytes,
                });
            }
            places.again += 1;
            (places.again - 1) % room
        };
        self.map.insert(key, place);
        Ok(place)
    }

    /// The warning about drives that are too small.
    pub(crate) fn warning(&self) -> Option<String> {
        let again: u64 = self.places.iter().map(|places| places.again).sum();
        (again > 0).then(|| {
            format!(
                "the trace touches more than the simulated drives hold: {again} of {} pieces of {} \
                 were wrapped and overlap others; --drive-size makes the drives larger",
                self.map.len(),
                outcore_io::units::bytes(self.extent_bytes)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(op: Op, file: u32, offset_bytes: u64, bytes: u64) -> ArrayRequest {
        ArrayRequest {
            number: 1,
            drive: 0,
            file,
            op,
            offset_bytes,
            bytes,
        }
    }

    #[test]
    fn reads_lie_where_data_were_and_writes_where_room_was() {
        let mut layout = Layout::new(Placement::Recorded, 1, 8 << 20, 0.5, true).unwrap();
        let mut parts = Vec::new();
        layout
            .place(&request(Op::Read, 1, 0, 2 << 20), &mut parts)
            .unwrap();
        layout
            .place(&request(Op::Write, 2, 0, 1 << 20), &mut parts)
            .unwrap();
        layout
            .place(&request(Op::Read, 2, 4096, 4096), &mut parts)
            .unwrap();
        let sectors: Vec<(u64, u32)> = parts.iter().map(|p| (p.sector, p.sectors)).collect();
        assert_eq!(sectors, [(0, 4096), (8192, 2048), (8200, 8)]);
        assert!(layout.warning().is_none());
        for at in 0..25 {
            let more = request(Op::Write, 3, at << 22, 4 << 20);
            layout.place(&more, &mut parts).unwrap();
        }
        assert!(layout.warning().unwrap().contains("--drive-size"));
    }

    #[test]
    fn a_discarded_place_is_used_again() {
        let mut layout = Layout::new(Placement::Recorded, 1, 2 << 20, 0.0, false).unwrap();
        let mut count = |op: Op, file: u32| {
            let mut parts = Vec::new();
            layout
                .place(&request(op, file, 0, 1 << 20), &mut parts)
                .unwrap();
            parts.len()
        };
        for file in 0..20 {
            assert_eq!(count(Op::Write, file), 1);
            assert_eq!(count(Op::Trim, file), 1);
        }
        assert_eq!(count(Op::Trim, 77), 0, "what was never written");
        assert!(layout.warning().is_none());
    }

    #[test]
    fn what_no_drive_can_hold_is_refused_at_once_and_a_discard_of_everything_is_none() {
        for wraps in [false, true] {
            let mut layout = Layout::new(Placement::Recorded, 1, 8 << 20, 0.5, wraps).unwrap();
            let mut parts = Vec::new();
            for bytes in [9 << 20, (1 << 63) - 1] {
                for op in [Op::Read, Op::Write] {
                    let larger = layout.place(&request(op, 1, 0, bytes), &mut parts);
                    assert_eq!(larger, Err(Unplaced::Larger(8 << 20)));
                }
            }
            for (offset, bytes) in [(u64::MAX, 1), (u64::MAX - 4095, 4096), (u64::MAX - 100, 50)] {
                let beyond = layout.place(&request(Op::Read, 1, offset, bytes), &mut parts);
                assert_eq!(beyond, Err(Unplaced::Beyond), "{offset}");
            }
            assert!(parts.is_empty());
            // Far from the start but within 64 bits, which works because files get places when they
            // are touched.
            let far = request(Op::Write, 1, u64::MAX / 512 * 512 - 4096, 4096);
            layout.place(&far, &mut parts).unwrap();
            let near = request(Op::Write, 1, 0, 1 << 20);
            layout.place(&near, &mut parts).unwrap();
            parts.clear();
            let whole = request(Op::Trim, 1, 0, 1 << 62);
            layout.place(&whole, &mut parts).unwrap();
            assert_eq!(parts.len(), 1, "only what was touched below: {parts:?}");
        }
    }

    #[test]
    fn writes_fill_the_whole_drive_and_no_more() {
        let mut layout = Layout::new(Placement::Recorded, 1, 8 << 20, 0.5, false).unwrap();
        let mut seen = Vec::new();
        for extent in 0..8u64 {
            let mut parts = Vec::new();
            // Writes use the free half, then the filled one from its end; the first extent was
            // read.
            let op = if extent == 0 { Op::Read } else { Op::Write };
            let one = request(op, 1, extent << 20, 1 << 20);
            layout.place(&one, &mut parts).unwrap();
            seen.push(parts[0].sector / 2048);
        }
        assert_eq!(seen, [0, 4, 5, 6, 7, 3, 2, 1]);
        for (op, room_bytes) in [(Op::Write, 8 << 20), (Op::Read, 4 << 20)] {
            let full = Unplaced::Full {
                drive: 0,
                room_bytes,
            };
            let more = request(op, 2, 0, 512);
            assert_eq!(layout.place(&more, &mut Vec::new()), Err(full));
        }
        let known = request(Op::Read, 1, 5 << 20, 512);
        assert_eq!(layout.place(&known, &mut Vec::new()), Ok(()));
    }

    #[test]
    fn the_room_of_devices_holds_whatever_they_touch_of_it() {
        for (placement, drives, devices) in [
            (Placement::Recorded, 1, 3),
            (
                Placement::Striped {
                    stripe_bytes: 64 << 10,
                },
                3,
                5,
            ),
        ] {
            let mut layout = Layout::new(placement, drives, 16 << 20, 0.5, false).unwrap();
            let room = layout.room_bytes(devices);
            assert!(room > 0);
            for file in 0..devices as u32 {
                for op in [Op::Read, Op::Write] {
                    let whole = request(op, file, 0, room);
                    layout.place(&whole, &mut Vec::new()).unwrap();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn parts_cover_a_request_and_stay_on_their_drives(
            requests in prop::collection::vec((0u32..5, 0u64..1 << 24, 1u64..1 << 22, any::<bool>()), 1..40),
            drives in 1u32..9, stripe_shift in 12u32..22,
        ) {
            let capacity = 64 << 20;
            let stripe_bytes = 1 << stripe_shift;
            let placement = Placement::Striped { stripe_bytes };
            let mut layout = Layout::new(placement, drives, capacity, 0.5, true).unwrap();
            for (file, offset, bytes, reads) in requests {
                let op = if reads { Op::Read } else { Op::Write };
                let mut parts = Vec::new();
                layout.place(&request(op, file, offset, bytes), &mut parts).unwrap();
                let sum: u64 = parts.iter().map(|part| u64::from(part.sectors)).sum();
                prop_assert_eq!(sum, (offset + bytes).div_ceil(512) - offset / 512);
                for part in &parts {
                    prop_assert!(part.drive < drives);
                    prop_assert!((part.sector + u64::from(part.sectors)) * 512 <= capacity);
                }
                let again = { let mut again = Vec::new(); layout.place(&request(op, file, offset, bytes), &mut again).unwrap(); again };
                prop_assert_eq!(parts, again);
            }
        }
    }
}
