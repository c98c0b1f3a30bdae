//! Where the bytes of files and devices lie on the drives of an array.
//!
//! Model: a granule (a stripe unit, or 1 MiB where drives are kept) of a file gets a place on its
//! drive when it is first touched: reads take places in the part of the drive that was filled,
//! writes in the part that was free, each in order, as a file system that lays files out in one
//! piece. A discarded granule gives its place back. Writes that find the free part used up
//! overwrite the filled one from its end. Where a drive has no place left the request is refused,
//! or, if the layout wraps, places are used anew from the start and counted.
//!
//! Invariants: parts of a request are in the order of its bytes and cover them; neighbours on the
//! same drive are one part. Bounds: 48 bytes a granule that was touched.

use std::collections::HashMap;

use outcore::error::{Error, Result};

use super::{ArrayRequest, OPERATION, Placement};
use crate::drive::Op;

const SECTOR_BYTES: u64 = 512;
const GRANULE_BYTES: u64 = 1 << 20;

/// A part of a request: what one drive does for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) drive: u32,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
}

/// Places on one drive.
#[derive(Debug, Clone, Default)]
struct Places {
    /// The next place of the filled part, from its start, and of the free part.
    next_read: u64,
    next_write: u64,
    /// Places at the end of the filled part that writes have taken.
    overwritten: u64,
    freed: Vec<u64>,
    /// Places that were used anew.
    again: u64,
}

/// A drive has no place for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) drive: u32,
    /// Bytes that could be placed: of the filled part for reads, of the drive for writes.
    pub(crate) room_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Layout {
    drives: u32,
    is_striped: bool,
    granule_bytes: u64,
    /// Granules of a drive, and those of them that hold data from the start.
    granules: u64,
    filled: u64,
    places: Vec<Places>,
    /// (file, granule) to the granule on its drive.
    map: HashMap<(u32, u64), u64>,
    /// Places are used anew where there is none left.
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
        let (is_striped, granule_bytes) = match placement {
            Placement::Recorded => (false, GRANULE_BYTES),
            Placement::Striped { stripe_bytes } => (true, stripe_bytes),
        };
        if granule_bytes < SECTOR_BYTES || !granule_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Error::usage(
                OPERATION,
                format!("a stripe of {granule_bytes} bytes; it must be a multiple of 512"),
            ));
        }
        let granules = capacity_bytes / granule_bytes;
        if granules == 0 {
            return Err(Error::usage(
                OPERATION,
                format!("a stripe of {granule_bytes} bytes is larger than a drive"),
            ));
        }
        let filled = (granules as f64 * fill) as u64;
        let places = Places {
            next_write: filled,
            ..Places::default()
        };
        Ok(Layout {
            drives,
            is_striped,
            granule_bytes,
            granules,
            filled,
            places: vec![places; drives as usize],
            map: HashMap::new(),
            wraps,
        })
    }

    /// Reads have a part of each drive for themselves.
    pub(crate) fn is_partly_filled(&self) -> bool {
        self.filled > 0 && self.filled < self.granules
    }

    /// Bytes that each of `devices` can touch in any way without a drive running out of places.
    pub(crate) fn room_bytes(&self, devices: u64) -> u64 {
        let granules = if self.filled == 0 {
            self.granules
        } else {
            self.filled
        };
        let spread = if self.is_striped {
            u64::from(self.drives)
        } else {
            1
        };
        granules / devices.max(1) * spread * self.granule_bytes
    }

    /// Cuts `request` into parts.
    ///
    /// # Errors
    /// A drive has no place for it, and the layout does not wrap.
    pub(crate) fn place(
        &mut self,
        request: &ArrayRequest,
        parts: &mut Vec<Part>,
    ) -> std::result::Result<(), Full> {
        let granule_bytes = self.granule_bytes;
        let mut offset = request.offset_bytes / SECTOR_BYTES * SECTOR_BYTES;
        let end = (request.offset_bytes.saturating_add(request.bytes)).div_ceil(SECTOR_BYTES)
            * SECTOR_BYTES;
        while offset < end {
            let (granule, inside) = (offset / granule_bytes, offset % granule_bytes);
            let take = (granule_bytes - inside).min(end - offset);
            let drive = if self.is_striped {
                (granule + u64::from(request.file)) % u64::from(self.drives)
            } else {
                u64::from(request.drive) % u64::from(self.drives)
            } as u32;
            let key = (request.file, granule);
            offset += take;
            let place = match request.op {
                Op::Read | Op::Write => self.place_of(key, drive, request.op)?,
                Op::Trim => match self.map.get(&key).copied() {
                    None => continue,
                    Some(place) => {
                        if take == granule_bytes {
                            self.map.remove(&key);
                            self.places[drive as usize].freed.push(place);
                        }
                        place
                    }
                },
            };
            let sector = (place * granule_bytes + inside) / SECTOR_BYTES;
            let sectors = take / SECTOR_BYTES;
            if let Some(last) = parts.last_mut()
                && last.drive == drive
                && last.sector + u64::from(last.sectors) == sector
                && u64::from(last.sectors) + sectors <= u64::from(u32::MAX)
            {
                last.sectors += sectors as u32;
                continue;
            }
            parts.push(Part {
                drive,
                sector,
                sectors: sectors as u32,
            });
        }
        Ok(())
    }

    fn place_of(&mut self, key: (u32, u64), drive: u32, op: Op) -> std::result::Result<u64, Full> {
        if let Some(place) = self.map.get(&key) {
            return Ok(*place);
        }
        let places = &mut self.places[drive as usize];
        let unread = self.filled - places.overwritten - places.next_read;
        // Where nothing is filled, what is read lies where it would be written.
        let reads_filled = op == Op::Read && self.filled > 0;
        let place = if reads_filled && unread > 0 {
            places.next_read += 1;
            places.next_read - 1
        } else if !reads_filled && places.next_write < self.granules {
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
                self.granules
            };
            if !self.wraps {
                return Err(Full {
                    drive,
                    room_bytes: room * self.granule_bytes,
                });
            }
            places.again += 1;
            (places.again - 1) % room
        };
        self.map.insert(key, place);
        Ok(place)
    }

    /// What there is to say about drives that are too small.
    pub(crate) fn warning(&self) -> Option<String> {
        let again: u64 = self.places.iter().map(|places| places.again).sum();
        (again > 0).then(|| {
            format!(
                "the trace touches more than the simulated drives hold: {again} of {} pieces of {} were wrapped and lie over others; --drive-size makes the drives larger",
                self.map.len(),
                outcore::units::bytes(self.granule_bytes)
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
        layout
            .place(&request(Op::Write, 3, 0, 100 << 20), &mut parts)
            .unwrap();
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
    fn writes_fill_the_whole_drive_and_no_more() {
        let mut layout = Layout::new(Placement::Recorded, 1, 8 << 20, 0.5, false).unwrap();
        let mut seen = Vec::new();
        for granule in 0..8u64 {
            let mut parts = Vec::new();
            // The free half, then the filled one from its end; the first was read.
            let op = if granule == 0 { Op::Read } else { Op::Write };
            let one = request(op, 1, granule << 20, 1 << 20);
            layout.place(&one, &mut parts).unwrap();
            seen.push(parts[0].sector / 2048);
        }
        assert_eq!(seen, [0, 4, 5, 6, 7, 3, 2, 1]);
        for (op, room_bytes) in [(Op::Write, 8 << 20), (Op::Read, 4 << 20)] {
            let full = Full {
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
