//! Groups of stripes with one parity stripe each, for volumes that survive the loss of a drive.
//!
//! Contract: a group is a run of consecutive stripes on different drives, and its parity stripe is
//! on one more drive. So a lost drive takes at most one stripe of each group. A [`GroupPattern`]
//! cuts a few rounds of turns into groups; a zone repeats it. The parity stripes of a zone rotate
//! over its drives: each goes to the drive that has the fewest of them.
//!
//! In a mirror, a group has only one stripe, so its parity is a copy.
//!
//! Bounds: one entry per turn of the pattern, at most `16 D` turns in `D - 1` rounds.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::StripeTurn;

/// How the data of a lost drive can be computed from the other drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Redundancy {
    /// Not at all.
    #[default]
    None,
    /// One parity stripe for the stripes of all other drives.
    Parity,
    /// A copy of each stripe on another drive.
    Mirror,
}

impl Redundancy {
    /// Whether there is no redundancy.
    pub fn is_none(&self) -> bool {
        *self == Redundancy::None
    }

    /// Its name in labels, reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Redundancy::None => "none",
            Redundancy::Parity => "parity",
            Redundancy::Mirror => "mirror",
        }
    }

    /// Largest number of stripes of a group over this many drives.
    fn group_stripes_max(self, drives: usize) -> usize {
        match self {
            Redundancy::Mirror => 1,
            Redundancy::None | Redundancy::Parity => drives - 1,
        }
    }
}

/// Consecutive stripes on different drives, and their parity stripe on another one, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripeGroup {
    /// The stripes of data.
    pub(crate) stripes: Range<u64>,
    /// The parity stripe, which is numbered after all stripes of data.
    pub(crate) parity_stripe: u64,
}

/// How some rounds of turns are cut into groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupPattern {
    /// First turn of each group, and the number of turns.
    starts: Vec<u32>,
    /// The group of each turn.
    group_of_turn: Vec<u32>,
    /// The drive of each group's parity stripe, and its rank among the parity stripes of that
    /// drive.
    pub(super) parity: Vec<StripeTurn>,
    /// Parity stripes of each drive.
    pub(super) counts: Vec<u32>,
}

impl GroupPattern {
    /// Cuts `rounds` rounds of `turns`, which use two drives or more.
    pub(super) fn new(turns: &[StripeTurn], rounds: usize, redundancy: Redundancy) -> Self {
        let drives = turns.iter().map(|turn| turn.drive_index + 1).max();
        let mut is_active = vec![false; drives.unwrap_or(0) as usize];
        for turn in turns {
            is_active[turn.drive_index as usize] = true;
        }
        let active = is_active.iter().filter(|is_active| **is_active).count();
        let stripes_max = redundancy.group_stripes_max(active);
        let mut pattern = GroupPattern {
            starts: Vec::new(),
            group_of_turn: Vec::new(),
            parity: Vec::new(),
            counts: vec![0; is_active.len()],
        };
        let mut is_used = vec![false; is_active.len()];
        let mut stripes = 0;
        for number in 0..turns.len() * rounds {
            let drive_index = turns[number % turns.len()].drive_index as usize;
            if number == 0 || stripes == stripes_max || is_used[drive_index] {
                if number > 0 {
                    pattern.close(&is_active, &is_used, (number - 1) / turns.len());
                }
                pattern.starts.push(number as u32);
                is_used.fill(false);
                stripes = 0;
            }
            is_used[drive_index] = true;
            stripes += 1;
            pattern.group_of_turn.push(pattern.starts.len() as u32 - 1);
        }
        pattern.close(&is_active, &is_used, rounds - 1);
        pattern.starts.push((turns.len() * rounds) as u32);
        pattern
    }

    /// Places the parity stripe of the last group, whose data are on the drives that `is_used`
    /// marks.
    fn close(&mut self, is_active: &[bool], is_used: &[bool], round: usize) {
        let drives = is_active.len();
        let active = is_active.iter().filter(|is_active| **is_active).count();
        let last = is_used.iter().rposition(|is_used| *is_used).unwrap_or(0);
        // Copies of one drive are spread over all others.
        let first = last + 1 + round % (active - 1);
        let free = (0..drives)
            .map(|step| (first + step) % drives)
            .filter(|drive| is_active[*drive] && !is_used[*drive]);
        let Some(drive) = free.min_by_key(|drive| self.counts[*drive]) else {
            unreachable!("a group leaves a drive free");
        };
        self.parity.push(StripeTurn {
            drive_index: drive as u32,
            rank: self.counts[drive],
        });
        self.counts[drive] += 1;
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> u64 {
        self.parity.len() as u64
    }

    /// Number of turns.
    pub(super) fn turns(&self) -> u64 {
        self.group_of_turn.len() as u64
    }

    /// The group of a turn.
    pub(super) fn group_of(&self, turn: u64) -> u64 {
        u64::from(self.group_of_turn[turn as usize])
    }

    /// The turns of a group.
    pub(super) fn turns_of(&self, group: u64) -> Range<u64> {
        let group = group as usize;
        u64::from(self.starts[group])..u64::from(self.starts[group + 1])
    }
}
