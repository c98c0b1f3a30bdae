//! Moves datasets so that every drive has its share by weight.
//!
//! Contract: a dataset moves if writing it anew puts fewer bytes on the wrong drives. It is
//! rewritten as a whole under its name and published by one commit, which removes the old files. So
//! the dataset is whole before and after the move. After a kill, the same call continues with the
//! datasets that have not moved. A dataset that another job replaces or removes in the meantime is
//! left to that job. Room for all moves, one after the other, is checked first.
//!
//! Bounds: those of a copy; one layout at a time for the plan.

use super::manifest::{Manifest, Share};
use super::membership::Standing;
use super::transfer::rewrite;
use super::{DatasetVolume, PassResources, Watch};
use crate::mapping::{StripeMap, StripeMember};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::Budget;

const REBALANCE: &str = "rebalance volume";
/// A dataset moves only if that puts more than 1/`GAIN_MIN` of it in a better place.
const GAIN_MIN: u64 = 50;

/// Datasets that were moved, or are to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moves {
    /// Their number.
    pub datasets: u64,
    /// Their bytes of data.
    pub bytes: u64,
}

impl Moves {
    pub(super) fn add(&mut self, bytes: u64) {
        self.datasets += 1;
        self.bytes += bytes;
    }
}

impl DatasetVolume {
    /// The datasets that [`DatasetVolume::rebalance`] would move, the shortest first.
    ///
    /// # Errors
    /// A manifest, or a drive, cannot be read.
    pub fn moves(&self) -> Result<Vec<Manifest>> {
        let mut free = self.free_room()?;
        let mut moves = self.list()?;
        moves.sort_by_key(Manifest::payload_bytes);
        moves.retain(|manifest| {
            if !self.is_unequal(manifest) {
                return false;
            }
            // A dataset without room is also a move; the rebalance reports the lack of room.
            let Some(lens) = self.lens_in(manifest, &free) else {
                return true;
            };
            let is_moved = self.is_better(manifest, &lens);
            if is_moved {
                take_room(&mut free, manifest, &lens);
            }
            is_moved
        });
        Ok(moves)
    }

    /// Moves datasets until every drive has its share.
    ///
    /// # Errors
    /// A drive is missing; no room for a move, before anything is moved; damage; I/O; a stop.
    pub fn rebalance(&self, budget: &Budget, watch: Watch<'_>) -> Result<Moves> {
        self.check_complete(REBALANCE)?;
        self.sweep()?;
        let planned = self.moves()?;
        self.check_room(REBALANCE, &planned)?;
        let mut moved = Moves::default();
        for manifest in planned {
            if let Some(bytes) = self.move_dataset(&manifest, PassResources { budget, watch })? {
                moved.add(bytes);
            }
        }
        Ok(moved)
    }

    /// Writes a dataset anew in the layout that new datasets get; returns its bytes of data. `None`
    /// if another job has replaced or removed it.
    pub(super) fn move_dataset(
        &self,
        manifest: &Manifest,
        resources: PassResources<'_>,
    ) -> Result<Option<u64>> {
        (resources.watch.check)()?;
        let error = match rewrite(self, manifest, resources) {
            Ok(moved) => return Ok(Some(moved.payload_bytes())),
            Err(error) => error,
        };
        match self.manifest(&manifest.name) {
            Ok(now) if now.id != manifest.id => Ok(None),
            Err(_) if !self.contains(&manifest.name) => Ok(None),
            _ => Err(error),
        }
    }

    /// Fails if one of these moves, done in this order, has no room while the old files of the
    /// dataset exist.
    pub(super) fn check_room(&self, operation: &str, moves: &[Manifest]) -> Result<()> {
        let mut free = self.free_room()?;
        for manifest in moves {
            let Some(lens) = self.lens_in(manifest, &free) else {
                let bytes: u64 = free.iter().sum();
                let cause = format!(
                    "no room for the new copy of @{} next to the old one: it needs {} bytes, and the \
                     drives that take new data have {bytes}",
                    manifest.name,
                    manifest.full_bytes(),
                );
                return Err(Error::new(Kind::NoSpace, operation, cause)
                    .hint("remove a dataset with `outcore volume rm`, or add a drive first"));
            };
            take_room(&mut free, manifest, &lens);
        }
        Ok(())
    }

    /// Room for a new dataset on each drive; none on drives that take no new data.
    pub(super) fn free_room(&self) -> Result<Vec<u64>> {
        let free = self.drives.iter().enumerate().map(|(index, drive)| {
            if !self.takes_data(index) {
                return Ok(0);
            }
            let free_bytes = self.device.free_bytes(&drive.dir);
            let free_bytes = free_bytes.map_err(|error| error.drive(&drive.name))?;
            // Names, block lists and other metadata also need room.
            Ok((free_bytes - free_bytes / 64).min(drive.limit_bytes))
        });
        free.collect()
    }

    /// The shares of a dataset that is written into this room.
    pub(super) fn shares_in(&self, free: &[u64]) -> Vec<Share> {
        let drives = self.drives.iter().zip(free);
        drives
            .map(|(drive, free_bytes)| Share {
                drive: drive.name.clone(),
                weight: drive.weight,
                capacity_bytes: *free_bytes,
                len_bytes: 0,
            })
            .collect()
    }

    /// The lengths that a dataset has on each drive if it is written anew into this room; `None` if
    /// there is too little room.
    fn lens_in(&self, manifest: &Manifest, free: &[u64]) -> Option<Vec<u64>> {
        let shares = self.shares_in(free);
        let members = shares.iter().map(|share| StripeMember {
            capacity_bytes: share.capacity_bytes,
            weight: share.weight,
        });
        let map = StripeMap::with_redundancy(
            &members.collect::<Vec<_>>(),
            self.stripe_bytes,
            manifest.start_drive,
            self.redundancy,
        );
        let map = map
            .ok()
            .filter(|map| manifest.full_bytes() <= map.len_bytes())?;
        Some(map.drive_lens(manifest.full_bytes()))
    }

    /// Bytes of each drive if all these datasets had today's layout and there were room for it.
    pub(super) fn wanted_lens(&self, manifests: &[Manifest]) -> Vec<u64> {
        let mut wanted = vec![0; self.drives.len()];
        for lens in manifests
            .iter()
            .filter_map(|manifest| self.best_lens(manifest))
        {
            wanted
                .iter_mut()
                .zip(lens)
                .for_each(|(sum, len_bytes)| *sum += len_bytes);
        }
        wanted
    }

    /// The lengths of a dataset in today's layout, if there were room for it.
    fn best_lens(&self, manifest: &Manifest) -> Option<Vec<u64>> {
        let room = |standing: &Standing| match standing {
            Standing::Full => u64::MAX >> 8,
            Standing::Leaving | Standing::Lost => 0,
        };
        let room: Vec<u64> = self.standings.iter().map(room).collect();
        self.lens_in(manifest, &room)
    }

    /// Whether a dataset has clearly more on some drives than in today's layout.
    fn is_unequal(&self, manifest: &Manifest) -> bool {
        let lens = self.best_lens(manifest);
        lens.is_some_and(|lens| self.is_better(manifest, &lens))
    }

    /// Whether these lengths are clearly nearer to today's layout than the dataset's own lengths.
    fn is_better(&self, manifest: &Manifest, lens_bytes: &[u64]) -> bool {
        let shares = manifest.shares.iter().enumerate();
        let mut used = shares.filter(|(_, share)| share.is_used());
        if used.any(|(index, _)| self.standings[index] != Standing::Full) {
            return true;
        }
        let Some(best) = self.best_lens(manifest) else {
            return false;
        };
        let now: Vec<u64> = manifest
            .shares
            .iter()
            .map(|share| share.len_bytes)
            .collect();
        let gain_min_bytes = (now.iter().sum::<u64>() / GAIN_MIN).max(self.stripe_bytes);
        misplaced_bytes(&now, &best) > misplaced_bytes(lens_bytes, &best) + gain_min_bytes
    }
}

/// Bytes that exceed the drives' lengths in `best`.
fn misplaced_bytes(lens_bytes: &[u64], best: &[u64]) -> u64 {
    let lens = lens_bytes.iter().zip(best);
    lens.map(|(len_bytes, best_bytes)| len_bytes.saturating_sub(*best_bytes))
        .sum()
}

/// Subtracts from `free` the room of a dataset that is written with these lengths, and adds the
/// room of its old files.
fn take_room(free: &mut [u64], manifest: &Manifest, lens_bytes: &[u64]) {
    for ((free, len_bytes), share) in free.iter_mut().zip(lens_bytes).zip(&manifest.shares) {
        // A drive that takes no new data stays out of all layouts.
        if *free > 0 {
            *free = free
                .saturating_sub(*len_bytes)
                .saturating_add(share.len_bytes);
        }
    }
}
