//! The layout of a striped volume: stripes are assigned to drives in rounds, by their weight.
//!
//! Contract: a [`StripeMap`] is a bijection between the bytes of a volume and the places
//! `(drive, offset)` that it uses. It is computed and never stored. Stripes are powers of two from
//! 4 KiB to 4 MiB; 1 to 64 drives; the caller chooses the drive of the first stripe.
//!
//! A member without room takes no part in the layout: the stripes of the other members are where
//! they would be without it. So drives can join and leave, and older layouts stay as they are.
//!
//! With redundancy, stripes form [groups](StripeGroup) with a parity stripe each. Parity stripes
//! have addresses behind all data, so data are addressed as without redundancy. On a drive, parity
//! is stored between runs of data, which are long enough for long reads ([`zones`]).
//!
//! Model: Falcon (ATC 2017, section 3.1) maps a request to O(D) extents; with equal drives this is
//! its round robin. Unequal weights (speeds) become a *round* of turns. Each drive has turns in
//! proportion to its share, at most [`TURNS_PER_DRIVE_MAX`], spread evenly over the round. Unequal
//! sizes become *zones* as in Linux's md raid0: where the smallest drive is full, a new zone begins
//! over the others.
//!
//! Bounds: at most `2 D` zones of `16 D` turns; mapping a piece takes a few divisions and a table
//! look-up.

mod groups;
mod zones;

use outcore_io::error::{Error, Result};

use zones::{Zone, ZoneParity};

pub use groups::Redundancy;
pub(crate) use groups::StripeGroup;

/// Smallest stripe.
pub(crate) const STRIPE_BYTES_MIN: u64 = 4 << 10;
/// Largest stripe.
pub(crate) const STRIPE_BYTES_MAX: u64 = 4 << 20;
/// Largest number of drives of a volume.
const DRIVES_MAX: usize = 64;
/// Largest number of turns of one drive in a round.
pub(crate) const TURNS_PER_DRIVE_MAX: u32 = 16;
/// A share may deviate by this much if that saves turns.
const SHARE_ERROR_MAX: f64 = 0.02;

const MAP: &str = "lay out volume";

/// A drive, as the map sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StripeMember {
    /// Bytes available on it.
    pub capacity_bytes: u64,
    /// Its share of the stripes while it has room, relative to the others.
    pub weight: f64,
}

/// A range of a volume that is contiguous on one drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeExtent {
    /// Index of the drive.
    pub drive_index: usize,
    /// Offset on the drive.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StripeTurn {
    drive_index: u32,
    /// Turns of the same drive before this one in the round.
    rank: u32,
}

/// The layout of a volume over its drives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeMap {
    stripe_shift: u32,
    zones: Vec<Zone>,
    len_bytes: u64,
    /// Groups of all zones.
    groups: u64,
    drives: usize,
    /// The drives with room, by their number in the zones.
    used: Vec<usize>,
}

impl StripeMap {
    /// Lays out stripes of `stripe_bytes` over `members`, the first on `start_drive` (modulo the
    /// number of members).
    ///
    /// # Errors
    /// Usage: a stripe that is not a power of two from 4 KiB to 4 MiB, no drives or more than 64, a
    /// weight that is not a positive number, no room for a single stripe.
    pub fn new(members: &[StripeMember], stripe_bytes: u64, start_drive: usize) -> Result<Self> {
        Self::with_redundancy(members, stripe_bytes, start_drive, Redundancy::None)
    }

    /// Like [`StripeMap::new`], but with parity stripes, if `redundancy` is not none.
    ///
    /// # Errors
    /// The errors of [`StripeMap::new`]; usage for redundancy on a single drive.
    pub(crate) fn with_redundancy(
        members: &[StripeMember],
        stripe_bytes: u64,
        start_drive: usize,
        redundancy: Redundancy,
    ) -> Result<Self> {
        let is_size = stripe_bytes.is_power_of_two()
            && (STRIPE_BYTES_MIN..=STRIPE_BYTES_MAX).contains(&stripe_bytes);
        if !is_size {
            return Err(
                Error::usage(MAP, format!("stripes of {stripe_bytes} bytes"))
                    .hint("stripes are powers of two from 4KiB to 4MiB"),
            );
        }
        if !(1..=DRIVES_MAX).contains(&members.len()) {
            return Err(
                Error::usage(MAP, format!("{} drives", members.len())).hint("name 1 to 64 drives")
            );
        }
        let is_weight = |weight: f64| weight.is_finite() && weight > 0.0;
        if !members.iter().all(|member| is_weight(member.weight)) {
            return Err(Error::usage(
                MAP,
                "a drive's weight is not a positive number",
            ));
        }
        if members.len() < 2 && !redundancy.is_none() {
            let cause = format!("{} needs two drives or more", redundancy.name());
            return Err(Error::usage(MAP, cause).hint("name more drives"));
        }
        let has_room = |index: &usize| members[*index].capacity_bytes > 0;
        let used: Vec<usize> = (0..members.len()).filter(has_room).collect();
        let start_drive = start_drive % members.len();
        let start_drive = used.iter().position(|index| *index >= start_drive);
        let start_drive = start_drive.unwrap_or(0);
        let active: Vec<StripeMember> = used.iter().map(|index| members[*index]).collect();
        let mut map = StripeMap {
            stripe_shift: stripe_bytes.trailing_zeros(),
            zones: Vec::new(),
            len_bytes: 0,
            groups: 0,
            drives: members.len(),
            used,
        };
        match redundancy {
            Redundancy::None => map.add_zones(&active, start_drive),
            _ => map.add_zones_with_parity(&active, start_drive, redundancy),
        }
        if map.len_bytes == 0 {
            return Err(Error::new(
                outcore_io::Kind::NoSpace,
                MAP,
                "no drive has room for a stripe",
            ));
        }
        Ok(map)
    }

    fn add_zones(&mut self, members: &[StripeMember], start_drive: usize) {
        let rows = |member: &StripeMember| member.capacity_bytes >> self.stripe_shift;
        let mut left: Vec<u64> = members.iter().map(rows).collect();
        let mut used = vec![0; members.len()];
        let mut first_stripe = 0;
        while left.iter().any(|rows| *rows > 0) {
            let active = |index: usize| left[index] > 0;
            let weights: Vec<f64> = (0..members.len())
                .map(|index| {
                    if active(index) {
                        members[index].weight
                    } else {
                        0.0
                    }
                })
                .collect();
            let mut counts = counts_of(&weights);
            let rounds_of =
                |index: usize, counts: &[u32]| left[index].checked_div(u64::from(counts[index]));
            let rounds = (0..members.len())
                .filter_map(|index| rounds_of(index, &counts))
                .min()
                .unwrap_or(0);
            if rounds == 0 {
                // If a drive has less than a round left, the zone is one round with the remaining
                // stripes.
                for (count, left) in counts.iter_mut().zip(&left) {
                    *count = u64::from(*count).min(*left) as u32;
                }
            }
            let rounds = rounds.max(1);
            let turns = turns_of(&counts, start_drive);
            let stripes = rounds * turns.len() as u64;
            let rows_before = used.clone();
            for (index, count) in counts.iter().enumerate() {
                left[index] -= rounds * u64::from(*count);
                used[index] += rounds * u64::from(*count);
            }
            self.zones.push(Zone {
                first_stripe,
                stripes,
                turns,
                rounds_per_block: 1,
                rows_per_block: counts.iter().map(|count| u64::from(*count)).collect(),
                counts,
                rows_before,
                parity: None,
            });
            first_stripe += stripes;
        }
        self.len_bytes = first_stripe << self.stripe_shift;
    }

    /// Bytes of the volume, without parity.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// End of all addresses: data, then the parity stripes of all groups.
    pub(crate) fn end_bytes(&self) -> u64 {
        self.len_bytes + (self.groups << self.stripe_shift)
    }

    /// Number of groups that hold the first `len_bytes`; 0 without redundancy.
    pub(crate) fn groups_in(&self, len_bytes: u64) -> u64 {
        match len_bytes.min(self.len_bytes) {
            0 => 0,
            _ if self.groups == 0 => 0,
            bytes => self.group_of((bytes - 1) >> self.stripe_shift) + 1,
        }
    }

    /// The number of the group that a stripe of data belongs to.
    ///
    /// # Panics
    /// Without redundancy.
    pub(crate) fn group_of(&self, stripe: u64) -> u64 {
        let zone = self.zone_of(stripe);
        let Some(parity) = &zone.parity else {
            unreachable!("only layouts with redundancy have groups");
        };
        let inside = stripe - zone.first_stripe;
        let (pattern, turn) = (
            inside / parity.pattern.turns(),
            inside % parity.pattern.turns(),
        );
        parity.first_group + pattern * parity.pattern.groups() + parity.pattern.group_of(turn)
    }

    /// The group with this number.
    ///
    /// # Panics
    /// Without redundancy.
    pub(crate) fn group(&self, number: u64) -> StripeGroup {
        let (zone, parity) = self.zone_of_group(number);
        let inside = number - parity.first_group;
        let (pattern, group) = (
            inside / parity.pattern.groups(),
            inside % parity.pattern.groups(),
        );
        let turns = parity.pattern.turns_of(group);
        let first = zone.first_stripe + pattern * parity.pattern.turns();
        StripeGroup {
            stripes: first + turns.start..first + turns.end,
            parity_stripe: (self.len_bytes >> self.stripe_shift) + number,
        }
    }

    fn zone_of(&self, stripe: u64) -> &Zone {
        let index = match &self.zones[..] {
            [_] => 0,
            zones => zones.partition_point(|zone| zone.first_stripe <= stripe) - 1,
        };
        &self.zones[index]
    }

    fn zone_of_group(&self, number: u64) -> (&Zone, &ZoneParity) {
        let mut zones = self.zones.iter().rev();
        let found = zones.find_map(|zone| {
            let parity = zone.parity.as_ref()?;
            (parity.first_group <= number).then_some((zone, parity))
        });
        let Some(found) = found else {
            unreachable!("only layouts with redundancy have groups");
        };
        found
    }

    /// Bytes of a stripe.
    pub fn stripe_bytes(&self) -> u64 {
        1 << self.stripe_shift
    }

    /// Number of drives.
    pub fn drives(&self) -> usize {
        self.drives
    }

    /// Bytes of each drive that hold the first `len_bytes` of the volume.
    pub(crate) fn drive_lens(&self, len_bytes: u64) -> Vec<u64> {
        let mut lens = vec![0u64; self.used.len()];
        let stripes = len_bytes.min(self.len_bytes).div_ceil(self.stripe_bytes());
        for zone in &self.zones {
            let here = stripes.saturating_sub(zone.first_stripe).min(zone.stripes);
            let block_stripes = zone.rounds_per_block * zone.turns.len() as u64;
            let blocks = here / block_stripes;
            for (index, len) in lens.iter_mut().enumerate() {
                if blocks > 0 {
                    *len = zone.rows_before[index] + blocks * zone.rows_per_block[index];
                }
            }
            let mut reach = |(drive_index, row): (usize, u64)| {
                lens[drive_index] = lens[drive_index].max(row + 1);
            };
            // The last round of the last block reaches farthest on each drive.
            let first = blocks * block_stripes;
            let rest = here - first;
            for inside in first + rest.saturating_sub(zone.turns.len() as u64)..here {
                reach(zone.row_of(inside));
            }
            let Some(parity) = zone.parity.as_ref().filter(|_| rest > 0) else {
                continue;
            };
            let groups = parity.pattern.groups();
            let first = blocks * parity.patterns_per_block * groups;
            let end = self.group_of(zone.first_stripe + here - 1) + 1 - parity.first_group;
            for inside in end.saturating_sub(groups).max(first)..end {
                reach(zone.parity_row_of(parity, inside));
            }
        }
        let mut all = vec![0; self.drives];
        for (index, rows) in self.used.iter().zip(lens) {
            all[*index] = rows << self.stripe_shift;
        }
        all
    }

    /// Splits the `len_bytes` bytes of the volume that start at `offset_bytes` at stripe
    /// boundaries, and further into pieces of at most `piece_bytes_max`. Passes the pieces on in
    /// order.
    ///
    /// # Panics
    /// If the range extends beyond the volume.
    pub fn split(
        &self,
        offset_bytes: u64,
        len_bytes: usize,
        piece_bytes_max: usize,
        mut each: impl FnMut(StripeExtent),
    ) {
        assert!(
            offset_bytes + len_bytes as u64 <= self.end_bytes(),
            "a range inside the volume"
        );
        let stripe_bytes = self.stripe_bytes();
        let mut stripe = offset_bytes >> self.stripe_shift;
        let mut within_bytes = offset_bytes & (stripe_bytes - 1);
        let mut left_bytes = len_bytes as u64;
        while left_bytes > 0 {
            let (drive_index, row) = self.locate(stripe);
            let base_bytes = row << self.stripe_shift;
            let end_bytes = stripe_bytes.min(within_bytes + left_bytes);
            while within_bytes < end_bytes {
                let piece_bytes = (end_bytes - within_bytes).min(piece_bytes_max as u64);
                each(StripeExtent {
                    drive_index,
                    offset_bytes: base_bytes + within_bytes,
                    len_bytes: piece_bytes as usize,
                });
                within_bytes += piece_bytes;
                left_bytes -= piece_bytes;
            }
            within_bytes = 0;
            stripe += 1;
        }
    }

    /// The drive of a stripe of data or parity, and the stripe's number there.
    pub(crate) fn locate(&self, stripe: u64) -> (usize, u64) {
        let data_stripes = self.len_bytes >> self.stripe_shift;
        let (index, row) = match stripe.checked_sub(data_stripes) {
            Some(group) => {
                let (zone, parity) = self.zone_of_group(group);
                zone.parity_row_of(parity, group - parity.first_group)
            }
            None => {
                let zone = self.zone_of(stripe);
                zone.row_of(stripe - zone.first_stripe)
            }
        };
        (self.used[index], row)
    }
}

/// Turns of each drive per round: the fewest that keep every share within 2 %, otherwise the
/// closest ones.
fn counts_of(weights: &[f64]) -> Vec<u32> {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let mut best = (f64::INFINITY, Vec::new());
    for scale in 1..=TURNS_PER_DRIVE_MAX {
        let count = |weight: f64| match weight > 0.0 {
            true => ((weight / largest * f64::from(scale)).round() as u32).max(1),
            false => 0,
        };
        let counts: Vec<u32> = weights.iter().map(|weight| count(*weight)).collect();
        let off = |(count, weight): (&u32, &f64)| {
            (f64::from(*count) / f64::from(scale) - weight / largest).abs()
        };
        let error = counts.iter().zip(weights).map(off).fold(0.0, f64::max);
        if error < best.0 {
            best = (error, counts);
        }
        if best.0 <= SHARE_ERROR_MAX {
            break;
        }
    }
    best.1
}

/// The turns of a round, with each drive's turns spread evenly. Ties go to the next drive after
/// `start_drive`.
fn turns_of(counts: &[u32], start_drive: usize) -> Vec<StripeTurn> {
    let drives = counts.len();
    let total: i64 = counts.iter().map(|count| i64::from(*count)).sum();
    let mut lead = vec![0i64; drives];
    let mut ranks = vec![0; drives];
    let mut turns = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let mut chosen = None;
        for drive in (0..drives).map(|step| (start_drive + step) % drives) {
            lead[drive] += i64::from(counts[drive]);
            let is_better = chosen.is_none_or(|best: usize| lead[drive] > lead[best]);
            if counts[drive] > 0 && is_better {
                chosen = Some(drive);
            }
        }
        if let Some(drive) = chosen {
            lead[drive] -= total;
            turns.push(StripeTurn {
                drive_index: drive as u32,
                rank: ranks[drive],
            });
            ranks[drive] += 1;
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    fn equal(drives: usize, capacity_bytes: u64) -> Vec<StripeMember> {
        vec![
            StripeMember {
                capacity_bytes,
                weight: 1.0,
            };
            drives
        ]
    }

    fn pieces(map: &StripeMap, offset_bytes: u64, len_bytes: usize) -> Vec<StripeExtent> {
        let mut all = Vec::new();
        map.split(offset_bytes, len_bytes, usize::MAX, |piece| all.push(piece));
        all
    }

    #[test]
    fn equal_drives_take_turns_from_the_start_drive_on() {
        let map = StripeMap::new(&equal(4, 1 << 20), 4096, 6).unwrap();
        assert_eq!(map.len_bytes(), 4 << 20);
        let seen = pieces(&map, 1024, 5 * 4096);
        let places: Vec<(usize, u64, usize)> = seen
            .iter()
            .map(|piece| (piece.drive_index, piece.offset_bytes, piece.len_bytes))
            .collect();
        let wanted = [
            (2, 1024, 3072),
            (3, 0, 4096),
            (0, 0, 4096),
            (1, 0, 4096),
            (2, 4096, 4096),
            (3, 4096, 1024),
        ];
        assert_eq!(places, wanted);
    }

    #[test]
    fn a_faster_drive_gets_its_share_spread_over_the_round() {
        let mut members = equal(3, 1 << 30);
        members[1].weight = 2.0;
        let map = StripeMap::new(&members, 65536, 0).unwrap();
        let drives: Vec<usize> = pieces(&map, 0, 8 * 65536)
            .iter()
            .map(|piece| piece.drive_index)
            .collect();
        assert_eq!(drives, [1, 0, 2, 1, 1, 0, 2, 1]);
    }

    #[test]
    fn parity_of_equal_drives_takes_an_equal_share_of_each_and_rotates() {
        let stripe_bytes = 1 << 20;
        let members = equal(4, 64 << 20);
        let made = StripeMap::with_redundancy(&members, stripe_bytes, 0, Redundancy::Parity);
        let map = made.unwrap();
        assert_eq!(map.len_bytes(), (3 * 64) << 20);
        let parity = |number| map.locate(map.group(number).parity_stripe).0;
        assert_eq!((0..5).map(parity).collect::<Vec<_>>(), [3, 2, 1, 0, 3]);
        let made = StripeMap::with_redundancy(&members, stripe_bytes, 0, Redundancy::Mirror);
        assert_eq!(made.unwrap().len_bytes(), (2 * 64) << 20);
        let made = StripeMap::with_redundancy(&members[..1], stripe_bytes, 0, Redundancy::Parity);
        assert_eq!(made.unwrap_err().kind(), outcore_io::Kind::Usage);
    }

    #[test]
    fn layouts_that_cannot_be_are_refused() {
        let refused = |members: &[StripeMember], stripe| {
            StripeMap::new(members, stripe, 0).unwrap_err().kind()
        };
        assert_eq!(refused(&equal(2, 1 << 20), 5000), outcore_io::Kind::Usage);
        assert_eq!(
            refused(&equal(2, 1 << 20), 8 << 20),
            outcore_io::Kind::Usage
        );
        assert_eq!(refused(&equal(65, 1 << 20), 4096), outcore_io::Kind::Usage);
        assert_eq!(refused(&[], 4096), outcore_io::Kind::Usage);
        assert_eq!(refused(&equal(2, 4095), 4096), outcore_io::Kind::NoSpace);
        let mut members = equal(2, 1 << 20);
        members[0].weight = f64::NAN;
        assert_eq!(refused(&members, 4096), outcore_io::Kind::Usage);
    }

    fn any_members() -> impl Strategy<Value = Vec<StripeMember>> {
        let member = (0u64..100 << 12, prop_oneof![Just(1.0), 0.05f64..8.0]);
        let member = member.prop_map(|(capacity_bytes, weight)| StripeMember {
            capacity_bytes: capacity_bytes + 4096,
            weight,
        });
        proptest::collection::vec(member, 1..=DRIVES_MAX)
    }

    proptest! {
        #[test]
        fn a_member_without_room_changes_nothing_for_the_others(
            members in any_members().prop_filter("room for another", |all| all.len() < DRIVES_MAX),
            at in 0usize..DRIVES_MAX, start in 0usize..DRIVES_MAX, is_mirror: bool, is_plain: bool,
        ) {
            let redundancy = match (is_plain || members.len() < 2, is_mirror) {
                (true, _) => Redundancy::None,
                (false, true) => Redundancy::Mirror,
                (false, false) => Redundancy::Parity,
            };
            let (at, start) = (at % (members.len() + 1), start % members.len());
            let mut more = members.clone();
            more.insert(at, StripeMember { capacity_bytes: 0, weight: 1.0 });
            let moved = |drive: usize| drive + usize::from(drive >= at);
            let few = StripeMap::with_redundancy(&members, 4096, start, redundancy);
            let many = StripeMap::with_redundancy(&more, 4096, moved(start), redundancy);
            prop_assert_eq!(few.is_ok(), many.is_ok());
            let (Ok(few), Ok(many)) = (few, many) else { return Ok(()) };
            prop_assert_eq!(few.end_bytes(), many.end_bytes());
            for stripe in 0..few.end_bytes() >> 12 {
                let (drive, row) = few.locate(stripe);
                prop_assert_eq!((moved(drive), row), many.locate(stripe));
            }
            let lens = many.drive_lens(few.len_bytes() / 2);
            prop_assert_eq!(lens[at], 0);
        }
    }

    proptest! {
        /// Every stripe has a place of its own, within its drive, without gaps; no room for a whole
        /// stripe is left over.
        #[test]
        fn every_byte_has_its_own_place_and_no_room_is_wasted(
            members in any_members(), shift in 12u32..=22, start: usize,
        ) {
            let stripe_bytes = 1u64 << shift;
            let members: Vec<StripeMember> = members
                .iter()
                .map(|member| StripeMember {
                    capacity_bytes: member.capacity_bytes << (shift - 12),
                    ..*member
                })
                .collect();
            let map = StripeMap::new(&members, stripe_bytes, start).unwrap();
            let rows: Vec<u64> =
                members.iter().map(|member| member.capacity_bytes / stripe_bytes).collect();
            prop_assert_eq!(map.len_bytes(), rows.iter().sum::<u64>() * stripe_bytes);
            let mut seen = HashSet::new();
            for stripe in 0..map.len_bytes() / stripe_bytes {
                let (drive, row) = map.locate(stripe);
                prop_assert!(row < rows[drive]);
                prop_assert!(seen.insert((drive, row)));
            }
        }

        /// With parity, every stripe also has a place of its own, and each group survives the loss
        /// of any drive. The length on each drive is what its stripes need.
        #[test]
        fn no_drive_has_two_stripes_of_a_group(
            members in any_members(), shift in 12u32..=14, start: usize, is_mirror: bool,
            part in 0.0f64..1.0,
        ) {
            let redundancy = match is_mirror {
                true => Redundancy::Mirror,
                false => Redundancy::Parity,
            };
            let made = StripeMap::with_redundancy(&members, 1 << shift, start, redundancy);
            prop_assume!(made.is_ok());
            let map = made.unwrap();
            let mut seen = HashSet::new();
            for stripe in 0..map.end_bytes() >> shift {
                let (drive, row) = map.locate(stripe);
                prop_assert!(row < members[drive].capacity_bytes >> shift);
                prop_assert!(seen.insert((drive, row)));
            }
            let len_bytes = (map.len_bytes() as f64 * part) as u64;
            let groups = map.groups_in(len_bytes);
            let mut lens = vec![0; members.len()];
            let mut next = 0;
            for number in 0..map.groups_in(map.len_bytes()) {
                let group = map.group(number);
                prop_assert_eq!(group.stripes.start, next);
                next = group.stripes.end;
                let mut drives = HashSet::new();
                for stripe in group.stripes.clone().chain([group.parity_stripe]) {
                    let (drive, row) = map.locate(stripe);
                    prop_assert!(drives.insert(drive));
                    let is_reached = match stripe == group.parity_stripe {
                        true => number < groups,
                        false => stripe < len_bytes.div_ceil(1 << shift),
                    };
                    if is_reached {
                        lens[drive] = lens[drive].max((row + 1) << shift);
                    }
                }
                for stripe in group.stripes {
                    prop_assert_eq!(map.group_of(stripe), number);
                }
            }
            prop_assert_eq!(next << shift, map.len_bytes());
            prop_assert_eq!(map.drive_lens(len_bytes), lens);
        }

        /// A range is split into adjacent pieces that agree with a byte-wise look-up.
        #[test]
        fn pieces_cover_a_range_once_and_in_order(
            members in any_members(), shift in 12u32..=15, start: usize, from: u64, len: u64,
            cap in 1usize..10,
        ) {
            let map = StripeMap::new(&members, 1 << shift, start);
            prop_assume!(map.is_ok());
            let map = map.unwrap();
            let sectors = map.len_bytes() / 512;
            let from = from % sectors;
            let len = len % (sectors - from).min(400) * 512;
            let piece_max = cap * 4096;
            let mut at = from * 512;
            let mut last: Option<StripeExtent> = None;
            map.split(from * 512, len as usize, piece_max, |piece| {
                let (drive, row) = map.locate(at >> shift);
                assert_eq!(piece.drive_index, drive);
                assert_eq!(piece.offset_bytes, (row << shift) + at % (1 << shift));
                assert!(piece.len_bytes > 0 && piece.len_bytes <= piece_max);
                assert!(at % (1 << shift) + piece.len_bytes as u64 <= 1 << shift);
                at += piece.len_bytes as u64;
                last = Some(piece);
            });
            prop_assert_eq!(at, from * 512 + len);
            prop_assert_eq!(last.is_none(), len == 0);
        }

        /// Room used up to any length, counted stripe by stripe.
        #[test]
        fn the_length_on_each_drive_is_what_its_stripes_need(
            members in any_members(), start: usize, part in 0.0f64..1.0,
        ) {
            let map = StripeMap::new(&members, 4096, start).unwrap();
            let len_bytes = (map.len_bytes() as f64 * part) as u64;
            let mut lens = vec![0; members.len()];
            for stripe in 0..len_bytes.div_ceil(4096) {
                let (drive, row) = map.locate(stripe);
                lens[drive] = lens[drive].max((row + 1) * 4096);
            }
            prop_assert_eq!(map.drive_lens(len_bytes), lens);
        }
    }
}
