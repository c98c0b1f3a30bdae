//! Where the bytes of files and devices lie on the drives of an array.
//!
//! Model: a granule (a stripe unit, or 1 MiB where drives are kept) of a file gets a place on its
//! drive when it is first touched: reads take places in the part of the drive that was filled,
//! writes in the part that was free, each in order, as a file system that lays files out in one
//! piece. A discarded granule gives its place back. Where a drive is full, places are used anew from
//! its start and counted: such a replay moves the right bytes, but on a drive that is too small.
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
    next_read: u64,
    next_write: u64,
    freed: Vec<u64>,
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
    reused: u64,
}

impl Layout {
    pub(crate) fn new(
        placement: Placement,
        drives: u32,
        capacity_bytes: u64,
        fill: f64,
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
            reused: 0,
        })
    }

    /// Cuts `request` into parts.
    pub(crate) fn place(&mut self, request: &ArrayRequest, parts: &mut Vec<Part>) {
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
                Op::Read | Op::Write => self.place_of(key, drive, request.op),
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
    }

    fn place_of(&mut self, key: (u32, u64), drive: u32, op: Op) -> u64 {
        if let Some(place) = self.map.get(&key) {
            return *place;
        }
        let places = &mut self.places[drive as usize];
        let place = if op == Op::Read {
            let end = if self.filled == 0 {
                self.granules
            } else {
                self.filled
            };
            self.reused += u64::from(places.next_read >= end);
            places.next_read += 1;
            (places.next_read - 1) % end
        } else if places.next_write < self.granules {
            places.next_write += 1;
            places.next_write - 1
        } else if let Some(place) = places.freed.pop() {
            place
        } else {
            self.reused += 1;
            places.next_write += 1;
            places.next_write % self.granules
        };
        self.map.insert(key, place);
        place
    }

    /// What there is to say about drives that are too small.
    pub(crate) fn warning(&self) -> Option<String> {
        let touched = self.map.len() as u64;
        (self.reused > 0).then(|| {
            format!(
                "the trace touches more than the simulated drives hold: {} of {touched} pieces of {} bytes lie over others; use larger drives (--drive-size)",
                self.reused, self.granule_bytes
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
            drive: 0,
            file,
            op,
            offset_bytes,
            bytes,
        }
    }

    #[test]
    fn reads_lie_where_data_were_and_writes_where_room_was() {
        let mut layout = Layout::new(Placement::Recorded, 1, 8 << 20, 0.5).unwrap();
        let mut parts = Vec::new();
        layout.place(&request(Op::Read, 1, 0, 2 << 20), &mut parts);
        layout.place(&request(Op::Write, 2, 0, 1 << 20), &mut parts);
        layout.place(&request(Op::Read, 2, 4096, 4096), &mut parts);
        let sectors: Vec<(u64, u32)> = parts.iter().map(|p| (p.sector, p.sectors)).collect();
        assert_eq!(sectors, [(0, 4096), (8192, 2048), (8200, 8)]);
        assert!(layout.warning().is_none());
        layout.place(&request(Op::Write, 3, 0, 100 << 20), &mut parts);
        assert!(layout.warning().unwrap().contains("--drive-size"));
    }

    #[test]
    fn a_discarded_place_is_used_again() {
        let mut layout = Layout::new(Placement::Recorded, 1, 2 << 20, 0.0).unwrap();
        let mut count = |op: Op, file: u32| {
            let mut parts = Vec::new();
            layout.place(&request(op, file, 0, 1 << 20), &mut parts);
            parts.len()
        };
        for file in 0..20 {
            assert_eq!(count(Op::Write, file), 1);
            assert_eq!(count(Op::Trim, file), 1);
        }
        assert_eq!(count(Op::Trim, 77), 0, "what was never written");
        assert!(layout.warning().is_none());
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
            let mut layout = Layout::new(placement, drives, capacity, 0.5).unwrap();
            for (file, offset, bytes, reads) in requests {
                let op = if reads { Op::Read } else { Op::Write };
                let mut parts = Vec::new();
                layout.place(&request(op, file, offset, bytes), &mut parts);
                let sum: u64 = parts.iter().map(|part| u64::from(part.sectors)).sum();
                prop_assert_eq!(sum, (offset + bytes).div_ceil(512) - offset / 512);
                for part in &parts {
                    prop_assert!(part.drive < drives);
                    prop_assert!((part.sector + u64::from(part.sectors)) * 512 <= capacity);
                }
                let again = { let mut again = Vec::new(); layout.place(&request(op, file, offset, bytes), &mut again); again };
                prop_assert_eq!(parts, again);
            }
        }
    }
}
