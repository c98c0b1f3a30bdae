//! Zones of a layout: stripes over the same drives, in rounds.
//!
//! Contract: a [`Zone`] finds the row of a stripe, or of a group's parity stripe, on its drive.
//! With parity, a zone consists of blocks. In each block, a drive first has the parity stripes of
//! some repetitions of the [`GroupPattern`], then its data of the same rounds. Without parity, a
//! block is one round.
//!
//! Bounds: at most four zones per drive.

use super::groups::{GroupPattern, Redundancy};
use super::{StripeMap, StripeMember, StripeTurn, counts_of, turns_of};

/// Shortest run of data on a drive between its parity stripes.
pub(super) const RUN_BYTES_MIN: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) first_stripe: u64,
    pub(super) stripes: u64,
    pub(super) turns: Vec<StripeTurn>,
    /// Turns of each drive per round.
    pub(super) counts: Vec<u32>,
    /// Stripes of each drive before this zone, data and parity.
    pub(super) rows_before: Vec<u64>,
    /// Rounds whose stripes are adjacent on each drive.
    pub(super) rounds_per_block: u64,
    /// Stripes of each drive in these rounds, data and parity.
    pub(super) rows_per_block: Vec<u64>,
    pub(super) parity: Option<ZoneParity>,
}

/// The parity of a zone. In each block of rounds, a drive's parity stripes precede its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ZoneParity {
    pub(super) first_group: u64,
    pub(super) pattern: GroupPattern,
    pub(super) patterns_per_block: u64,
}

impl Zone {
    /// A zone whose blocks each repeat the pattern of `rounds` rounds.
    fn with_parity(
        counts: Vec<u32>,
        turns: Vec<StripeTurn>,
        pattern: GroupPattern,
        patterns_per_block: u64,
    ) -> Self {
        let rounds = pattern.turns() / turns.len() as u64;
        let parity_count = |index: usize| pattern.counts.get(index).copied().unwrap_or(0);
        let rows = counts.iter().enumerate().map(|(index, count)| {
            let rows = rounds * u64::from(*count) + u64::from(parity_count(index));
            rows * patterns_per_block
        });
        Zone {
            first_stripe: 0,
            stripes: 0,
            rows_before: vec![0; counts.len()],
            rounds_per_block: rounds * patterns_per_block,
            rows_per_block: rows.collect(),
            turns,
            counts,
            parity: Some(ZoneParity {
                first_group: 0,
                pattern,
                patterns_per_block,
            }),
        }
    }

    /// How many rows at the start of each block hold parity on a drive.
    fn parity_rows(&self, drive_index: usize) -> u64 {
        self.rows_per_block[drive_index]
            - self.rounds_per_block * u64::from(self.counts[drive_index])
    }

    /// The number that the stripe at `inside` of the zone has on its drive.
    pub(super) fn row_of(&self, inside: u64) -> (usize, u64) {
        let turns = self.turns.len() as u64;
        let (round, turn) = (inside / turns, &self.turns[(inside % turns) as usize]);
        let drive_index = turn.drive_index as usize;
        let (block, round) = (round / self.rounds_per_block, round % self.rounds_per_block);
        let row = self.rows_before[drive_index]
            + block * self.rows_per_block[drive_index]
            + self.parity_rows(drive_index)
            + round * u64::from(self.counts[drive_index])
            + u64::from(turn.rank);
        (drive_index, row)
    }

    /// Like `row_of`, for the parity stripe of the group at `inside` of the zone's groups.
    pub(super) fn parity_row_of(&self, parity: &ZoneParity, inside: u64) -> (usize, u64) {
        let groups = parity.pattern.groups();
        let (pattern, turn) = (
            inside / groups,
            &parity.pattern.parity[(inside % groups) as usize],
        );
        let drive_index = turn.drive_index as usize;
        let (block, pattern) = (
            pattern / parity.patterns_per_block,
            pattern % parity.patterns_per_block,
        );
        let row = self.rows_before[drive_index]
            + block * self.rows_per_block[drive_index]
            + pattern * u64::from(parity.pattern.counts[drive_index])
            + u64::from(turn.rank);
        (drive_index, row)
    }
}

impl StripeMap {
    /// Zones of whole blocks over the drives that have room. A drive with less room is left out of
    /// the later zones, and the last drive cannot be used alone.
    pub(super) fn add_zones_with_parity(
        &mut self,
        members: &[StripeMember],
        start_drive: usize,
        redundancy: Redundancy,
    ) {
        let rows = |member: &StripeMember| member.capacity_bytes >> self.stripe_shift;
        let mut left: Vec<u64> = members.iter().map(rows).collect();
        let mut used = vec![0; members.len()];
        let mut stripes = 0;
        loop {
            let is_active = |index: &usize| left[*index] > 0;
            let active: Vec<usize> = (0..members.len()).filter(is_active).collect();
            if active.len() < 2 {
                break;
            }
            let mut weights = vec![0.0; members.len()];
            for index in &active {
                weights[*index] = members[*index].weight;
            }
            let counts = counts_of(&weights);
            let turns = turns_of(&counts, start_drive);
            let rounds = active.len() - 1;
            let run_bytes = (rounds as u64) << self.stripe_shift;
            let shapes = [
                (rounds, RUN_BYTES_MIN.div_ceil(run_bytes)),
                (rounds, 1),
                (1, 1),
            ];
            let fitting = shapes.into_iter().find_map(|(rounds, patterns_per_block)| {
                let pattern = GroupPattern::new(&turns, rounds, redundancy);
                let zone =
                    Zone::with_parity(counts.clone(), turns.clone(), pattern, patterns_per_block);
                let fits = active
                    .iter()
                    .map(|index| left[*index] / zone.rows_per_block[*index]);
                fits.min()
                    .filter(|blocks| *blocks > 0)
                    .map(|blocks| (zone, blocks))
            });
            let Some((mut zone, blocks)) = fitting else {
                if let Some(least) = active.into_iter().min_by_key(|index| left[*index]) {
                    left[least] = 0;
                }
                continue;
            };
            zone.first_stripe = stripes;
            zone.stripes = blocks * zone.rounds_per_block * zone.turns.len() as u64;
            zone.rows_before.clone_from(&used);
            for index in active {
                left[index] -= blocks * zone.rows_per_block[index];
                used[index] += blocks * zone.rows_per_block[index];
            }
            stripes += zone.stripes;
            if let Some(parity) = &mut zone.parity {
                parity.first_group = self.groups;
                self.groups += blocks * parity.patterns_per_block * parity.pattern.groups();
            }
            self.zones.push(zone);
        }
        self.len_bytes = stripes << self.stripe_shift;
    }
}
