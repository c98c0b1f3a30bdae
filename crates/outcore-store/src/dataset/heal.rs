//! Scrubs a dataset that has redundancy: reads all of it, and rewrites the bytes that one drive has
//! lost.
//!
//! Contract: checksums verify data, the manifest verifies checksums, and data verify parity. If the
//! bytes of one drive of a group are wrong, they are computed from the others, verified and written
//! in place. If the bytes of two drives of a group are wrong, nothing is changed. A share whose
//! file is gone is rebuilt. Everything that was wrong is returned.
//!
//! Bounds: those of [`super::rebuild`].

use std::ops::Range;
use std::path::Path;

use super::damage::Damage;
use super::groups::{ColumnQueue, GroupReader, Piece, Room};
use super::manifest::Manifest;
use super::parity::add_to;
use super::rebuild::{Patch, Rebuild, is_written};
use super::rescue::{Rescue, SumRange};
use super::{DatasetVolume, PassResources, open_shares};
use crate::striped::StripedVolume;
use outcore_io::drive::folder;
use outcore_io::error::Result;
use outcore_io::memory::{Buf, Pool};

const SHARE: &str = "share";

/// A dataset that is being healed.
struct Heal<'a> {
    manifest: &'a Manifest,
    striped: StripedVolume,
    sums: SumRange<'a>,
    patch: Patch<'a>,
    /// Buffers of repaired ranges.
    pool: Pool,
    damages: Vec<Damage>,
}

impl DatasetVolume {
    /// Reads all of a dataset with redundancy and repairs it; adds all damage to `damages`.
    ///
    /// # Errors A checksum cannot be read; no room; memory; I/O; a stop.
    pub(super) fn heal(
        &self,
        manifest: &Manifest,
        resources: PassResources<'_>,
        damages: &mut Vec<Damage>,
    ) -> Result<()> {
        if !self.has_rebuilt_shares(manifest, resources, damages)? {
            return Ok(());
        }
        let striped = open_shares(self, manifest)?;
        let (sums, _reservation) = Rescue::new(manifest, &striped, resources.budget)?.sums()?;
        let mut reads = GroupReader::new(
            &striped,
            manifest.full_bytes(),
            Room::PASS,
            resources.budget,
        )?;
        let slot_bytes = manifest.checksum_block_bytes() as usize;
        let mut heal = Heal {
            manifest,
            sums: SumRange::all(&sums),
            patch: Patch::new(self, manifest),
            pool: Pool::new(resources.budget, "repairs", slot_bytes, 64)?,
            damages: Vec::new(),
            striped,
        };
        let groups = heal.striped.map().groups_in(manifest.full_bytes());
        let mut columns = ColumnQueue::new(0..groups);
        // Repairs have memory of their own, so writes never hold the memory of the reads.
        while let Some((_, mut pieces)) =
            columns.read_next(&mut reads, |_| true, |_| true, || Ok(()))?
        {
            heal.column(&mut pieces)?;
            let data = pieces.iter().filter(|piece| !piece.is_parity);
            resources
                .watch
                .pass(data.map(|piece| piece.len_bytes).sum())?;
        }
        heal.patch.finish()?;
        damages.append(&mut heal.damages);
        Ok(())
    }

    /// Writes a share anew if its file is gone; false if more than one file is gone.
    fn has_rebuilt_shares(
        &self,
        manifest: &Manifest,
        resources: PassResources<'_>,
        damages: &mut Vec<Damage>,
    ) -> Result<bool> {
        let is_lost = |index: &usize| {
            let path = self.share_path(&manifest.id, *index);
            manifest.shares[*index].is_used() && (self.absent[*index].is_some() || !path.exists())
        };
        let lost: Vec<usize> = (0..manifest.shares.len()).filter(is_lost).collect();
        let index = match lost[..] {
            [] => return Ok(true),
            [index] if self.absent[index].is_none() => index,
            _ => {
                damages.extend(
                    lost.into_iter()
                        .map(|index| self.lost_share(manifest, index)),
                );
                return Ok(false);
            }
        };
        let drive = &self.drives[index].name;
        let dir = self.device.make_private_dir(&self.folder(index));
        let dir = dir.map_err(|error| error.drive(drive))?;
        let staged = dir.path().join(SHARE);
        let rebuild = Rebuild {
            volume: self,
            manifest,
            index,
            path: &staged,
            groups_done: 0,
            is_lenient: false,
        };
        rebuild.run(resources, &mut |_| Ok(()))?;
        self.protect_share(manifest, &staged)?;
        let _lock = self.lock_names()?;
        let now = self.manifest(&manifest.name);
        if now.is_err() || now.is_ok_and(|now| now.id != manifest.id) {
            // It was removed or replaced in the meantime.
            return Ok(false);
        }
        let path = self.share_path(&manifest.id, index);
        self.device.rename(&staged, &path, false)?;
        damages.push(Damage {
            is_repaired: true,
            ..self.lost_share(manifest, index)
        });
        Ok(true)
    }

    fn lost_share(&self, manifest: &Manifest, index: usize) -> Damage {
        let path = self.share_path(&manifest.id, index);
        let (drive, len_bytes) = (&self.drives[index].name, manifest.shares[index].len_bytes);
        Damage::of_file(&manifest.name, drive, &path, len_bytes)
    }

    /// Gives a rewritten share the permissions of the other shares.
    pub(super) fn protect_share(&self, manifest: &Manifest, path: &Path) -> Result<()> {
        let paths = self
            .present()
            .map(|index| self.share_path(&manifest.id, index));
        match paths.filter_map(|path| folder::mode(&path)).next() {
            Some(mode) => folder::set_mode(path, mode),
            None => Ok(()),
        }
    }
}

impl Heal<'_> {
    /// Checks a column, checksum block by checksum block.
    fn column(&mut self, pieces: &mut [Piece]) -> Result<()> {
        let block_bytes = self.manifest.checksum_block_bytes();
        let len_bytes = pieces
            .iter()
            .map(|piece| piece.len_bytes)
            .max()
            .unwrap_or(0);
        let mut from_bytes = 0;
        while from_bytes < len_bytes {
            let end_bytes = (from_bytes + block_bytes).min(len_bytes);
            self.block(pieces, from_bytes..end_bytes)?;
            from_bytes = end_bytes;
        }
        Ok(())
    }

    /// Checks the same range of all pieces.
    fn block(&mut self, pieces: &[Piece], range: Range<u64>) -> Result<()> {
        let parity = pieces.iter().position(|piece| piece.is_parity);
        let parity = parity.unwrap_or(pieces.len());
        let is_wrong = |index: &usize| {
            let piece = &pieces[*index];
            let bytes = bytes_of(piece, &range);
            piece.fault.is_some()
                || !is_written(
                    self.manifest,
                    piece.address_bytes + range.start,
                    bytes,
                    self.sums,
                )
        };
        let data = (0..pieces.len()).filter(|index| *index != parity);
        let data = data.filter(|index| !bytes_of(&pieces[*index], &range).is_empty());
        let wrong: Vec<usize> = data.filter(is_wrong).collect();
        match wrong[..] {
            [] => {
                let sum = self.sum_without(pieces, parity, &range)?;
                let found = bytes_of(&pieces[parity], &range);
                if pieces[parity].fault.is_some() || sum[..] != *found {
                    self.replace(&pieces[parity], &range, sum)?;
                }
            }
            [one] if pieces[parity].fault.is_none() => {
                let sum = self.sum_without(pieces, one, &range)?;
                let at_bytes = pieces[one].address_bytes + range.start;
                match is_written(self.manifest, at_bytes, &sum, self.sums) {
                    true => self.replace(&pieces[one], &range, sum)?,
                    false => self.note(&pieces[one], &range, false),
                }
            }
            _ => {
                for index in wrong {
                    self.note(&pieces[index], &range, false);
                }
            }
        }
        Ok(())
    }

    /// The sum of all pieces except for `unknown`, in the length of that piece.
    fn sum_without(&mut self, pieces: &[Piece], unknown: usize, range: &Range<u64>) -> Result<Buf> {
        let mut buf = self.patch.buffer(&self.pool)?;
        let mut sum = buf.split_to(bytes_of(&pieces[unknown], range).len());
        sum.fill(0);
        for (index, piece) in pieces.iter().enumerate() {
            if index != unknown {
                add_to(&mut sum, bytes_of(piece, range));
            }
        }
        Ok(sum)
    }

    fn replace(&mut self, piece: &Piece, range: &Range<u64>, bytes: Buf) -> Result<()> {
        let at_bytes = piece.address_bytes + range.start;
        self.patch.write(piece.drive_index, at_bytes, bytes)?;
        self.note(piece, range, true);
        Ok(())
    }

    /// Records damage; joins it with the range before it if they are adjacent.
    fn note(&mut self, piece: &Piece, range: &Range<u64>, is_repaired: bool) {
        let len_bytes = bytes_of(piece, range).len();
        let at_bytes = piece.address_bytes + range.start;
        let found = Damage {
            is_repaired,
            ..Damage::at(self.manifest, &self.striped, at_bytes, len_bytes)
        };
        let mut before = self.damages.iter_mut();
        let joined = before.find(|last| {
            let is_same = last.drive == found.drive && last.is_repaired == is_repaired;
            is_same && last.offset_bytes + last.len_bytes == found.offset_bytes
        });
        match joined {
            Some(last) => last.len_bytes += found.len_bytes,
            None => self.damages.push(found),
        }
    }
}

/// The bytes of a piece in a range; fewer at the end of the dataset.
fn bytes_of<'p>(piece: &'p Piece, range: &Range<u64>) -> &'p [u8] {
    let bytes = piece.buf.as_deref().unwrap_or_default();
    let end = (range.end as usize).min(bytes.len());
    &bytes[(range.start as usize).min(end)..end]
}
