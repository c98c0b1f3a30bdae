//! Writes lost parts of a dataset anew: whole shares, and single ranges of a share.
//!
//! Contract: [`Rebuild`] computes everything that one drive holds, data and parity, from the other
//! drives, and writes it to a file of its own. Every checksum block is verified before it is
//! written. A [`Checkpoint`] receives from time to time how many groups are durable, so that
//! another run can continue there. [`Patch`] writes ranges into shares that are in place.
//!
//! Bounds: a window of buffers, and the checksums of the dataset twice while they are
//! read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage::Damage;
use super::groups::{ColumnQueue, GroupReader, Piece, Room, solve};
use super::manifest::Manifest;
use super::rescue::{Rescue, SumRange};
use super::{DatasetVolume, PassResources, open_shares_without, stripe_options};
use crate::batch::Batches;
use crate::striped::{Member, StripedVolume};
use outcore_io::drive::folder;
use outcore_io::error::{Error, Result};
use outcore_io::memory::{Buf, Pool};
use outcore_io::transfers::Transfers;

/// A share has this many checkpoints, unless they would be closer than `CHECKPOINT_BYTES_MIN` or
/// farther apart than `CHECKPOINT_BYTES_MAX`.
const CHECKPOINTS: u64 = 16;
const CHECKPOINT_BYTES_MIN: u64 = 4 << 20;
const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;

/// The share of one drive, to be written anew.
pub(super) struct Rebuild<'a> {
    pub(super) volume: &'a DatasetVolume,
    pub(super) manifest: &'a Manifest,
    pub(super) index: usize,
    /// Its file.
    pub(super) path: &'a Path,
    /// Groups that are durable in that file; without a file, 0.
    pub(super) groups_done: u64,
    /// Whether bytes that two drives have lost are left out; otherwise they are an error.
    pub(super) is_lenient: bool,
}

/// The result of rebuilding a share.
#[derive(Debug, Default)]
pub(super) struct Rebuilt {
    /// Bytes that this run computed.
    pub(super) bytes: u64,
    /// The damage that remains in the share.
    pub(super) damages: Vec<Damage>,
}

/// Receives the number of groups that are durable.
pub(super) type Checkpoint<'a> = &'a mut dyn FnMut(u64) -> Result<()>;

impl Rebuild<'_> {
    /// Writes the share and makes it durable.
    ///
    /// # Errors
    /// Another drive has lost bytes of the same groups; no room; I/O; a stop.
    pub(super) fn run(
        &self,
        PassResources { budget, watch }: PassResources<'_>,
        checkpoint: Checkpoint<'_>,
    ) -> Result<Rebuilt> {
        let source = open_shares_without(self.volume, self.manifest, Some(self.index))?;
        let (sums, _reservation) = Rescue::new(self.manifest, &source, budget)?.sums()?;
        let sums = SumRange::all(&sums);
        let target = self.target()?;
        let mut writes: Transfers<(), Batches> = Transfers::on(Batches::of(target.submitter()?));
        let mut reads = GroupReader::new(&source, self.manifest.full_bytes(), Room::PASS, budget)?;
        let map = source.map();
        let mut columns =
            ColumnQueue::new(self.groups_done..map.groups_in(self.manifest.full_bytes()));
        let share_bytes = self.manifest.shares[self.index].len_bytes;
        let checkpoint_bytes =
            (share_bytes / CHECKPOINTS).clamp(CHECKPOINT_BYTES_MIN, CHECKPOINT_BYTES_MAX);
        let mut rebuilt = Rebuilt::default();
        let mut noted_bytes = 0;
        while let Some((column, mut pieces)) = columns.read_next(
            &mut reads,
            |number| self.is_part_of(&source, number),
            |piece| piece.drive_index != self.index,
            || writes.wait(),
        )? {
            (watch.check)()?;
            let Some(own) = pieces
                .iter()
                .position(|piece| piece.drive_index == self.index)
            else {
                continue;
            };
            let at_bytes = pieces[own].address_bytes;
            let len_bytes = pieces[own].len_bytes;
            match self.solved(&mut pieces, own, sums) {
                Some(buf) => writes.write_behind(&(), at_bytes, buf)?,
                None => {
                    let damage = Damage::at(self.manifest, &source, at_bytes, len_bytes as usize);
                    if !self.is_lenient {
                        return Err(self.lost(&damage));
                    }
                    rebuilt.damages.push(damage);
                }
            }
            watch.pass(len_bytes)?;
            rebuilt.bytes += len_bytes;
            if rebuilt.bytes - noted_bytes >= checkpoint_bytes {
                noted_bytes = rebuilt.bytes;
                writes.finish(watch.check)?;
                target.sync()?;
                checkpoint(column.group)?;
            }
        }
        writes.finish(watch.check)?;
        target.sync()?;
        Ok(rebuilt)
    }

    /// The file of the share; the other drives are absent.
    fn target(&self) -> Result<StripedVolume> {
        let path_of = |_| self.path.to_path_buf();
        let mut members = self.volume.members(&self.manifest.shares, path_of);
        for (index, member) in members.iter_mut().enumerate() {
            member.is_absent = index != self.index;
        }
        let device = Arc::clone(&self.volume.device);
        let options = stripe_options(self.manifest);
        match self.groups_done {
            0 => StripedVolume::create(device, &members, options),
            _ => StripedVolume::open(device, &members, options),
        }
    }

    /// Whether the drive has a stripe of a group.
    fn is_part_of(&self, source: &StripedVolume, number: u64) -> bool {
        let map = source.map();
        let group = map.group(number);
        let mut stripes = group.stripes.chain([group.parity_stripe]);
        stripes.any(|stripe| map.locate(stripe).0 == self.index)
    }

    /// The piece at `own`; `None` if it cannot be computed.
    fn solved(&self, pieces: &mut [Piece], own: usize, sums: SumRange<'_>) -> Option<Buf> {
        if pieces.iter().any(|piece| piece.fault.is_some()) {
            return None;
        }
        let is_data_right = |piece: &Piece, bytes: &[u8]| {
            piece.is_parity || is_written(self.manifest, piece.address_bytes, bytes, sums)
        };
        if pieces[own].is_parity {
            // Parity has no checksum: it is right only if all data are.
            let mut data = pieces
                .iter()
                .filter_map(|piece| Some((piece, piece.buf.as_ref()?)));
            if !data.all(|(piece, bytes)| is_data_right(piece, bytes)) {
                return None;
            }
        }
        let buf = solve(pieces, own)?;
        is_data_right(&pieces[own], &buf).then_some(buf)
    }

    fn lost(&self, damage: &Damage) -> Error {
        let cause = format!(
            "@{}: its part on drive {} cannot be rebuilt, because another drive has also lost a part of it",
            self.manifest.name, damage.drive
        );
        Error::corrupt("rebuild share", cause)
            .drive(&damage.drive)
            .path(&damage.path)
            .offset(damage.offset_bytes)
            .hint(
                "mount the old drive again, if it can still be read; `outcore volume replace` can also \
                 give up what is lost",
            )
    }
}

/// Whether `bytes`, in whole checksum blocks, are those that were written at `at_bytes`: data and
/// index by their checksums, and the checksums themselves by `sums`.
pub(super) fn is_written(
    manifest: &Manifest,
    at_bytes: u64,
    bytes: &[u8],
    sums: SumRange<'_>,
) -> bool {
    let block_bytes = manifest.checksum_block_bytes();
    let mut block_at = at_bytes;
    for block in bytes.chunks(block_bytes as usize) {
        let is_right = match block_at.checked_sub(manifest.sums_at_bytes()) {
            Some(from_bytes) => {
                let first = (from_bytes / 8) as usize;
                let (words, _) = block.as_chunks::<8>();
                let wanted = sums.sums.iter().skip(first);
                words
                    .iter()
                    .zip(wanted)
                    .all(|(word, sum)| u64::from_le_bytes(*word) == *sum)
            }
            None => {
                let len = manifest.checksum_block_len(block_at / block_bytes);
                let block = &block[..len.min(block.len())];
                sums.is_of(manifest, block_at, block)
            }
        };
        if !is_right {
            return false;
        }
        block_at += block.len() as u64;
    }
    true
}

/// Writes into the shares of a dataset that are in place.
pub(super) struct Patch<'a> {
    volume: &'a DatasetVolume,
    manifest: &'a Manifest,
    files: HashMap<usize, PatchedFile>,
}

struct PatchedFile {
    // Declared first, so dropped first: it waits for the transfers in flight.
    writes: Transfers<(), Batches>,
    striped: StripedVolume,
    path: PathBuf,
    mode: u32,
}

impl<'a> Patch<'a> {
    pub(super) fn new(volume: &'a DatasetVolume, manifest: &'a Manifest) -> Self {
        Patch {
            volume,
            manifest,
            files: HashMap::new(),
        }
    }

    /// Writes `buf` at an address on the drive `index`.
    ///
    /// # Errors
    /// The share cannot be written.
    pub(super) fn write(&mut self, index: usize, at_bytes: u64, buf: Buf) -> Result<()> {
        if !self.files.contains_key(&index) {
            let opened = self.open(index)?;
            self.files.insert(index, opened);
        }
        match self.files.get_mut(&index) {
            Some(file) => file.writes.write_behind(&(), at_bytes, buf),
            None => Ok(()),
        }
    }

    /// A free buffer of `pool`, whose buffers go to [`Patch::write`].
    ///
    /// # Errors
    /// A write that failed.
    pub(super) fn buffer(&mut self, pool: &Pool) -> Result<Buf> {
        loop {
            if let Some(buf) = pool.take() {
                return Ok(buf);
            }
            for file in self.files.values_mut() {
                file.writes.wait()?;
            }
        }
    }

    fn open(&self, index: usize) -> Result<PatchedFile> {
        let path = self.volume.share_path(&self.manifest.id, index);
        let mode = folder::mode(&path).unwrap_or(0o400);
        // A sealed share is read-only.
        folder::set_mode(&path, mode | 0o200)?;
        let members: Vec<Member> = self
            .volume
            .members(&self.manifest.shares, |_| path.clone())
            .into_iter()
            .enumerate()
            .map(|(at, member)| Member {
                is_absent: at != index,
                // The file may have been truncated.
                file_bytes: Some(0),
                ..member
            })
            .collect();
        let device = Arc::clone(&self.volume.device);
        let striped = StripedVolume::open(device, &members, stripe_options(self.manifest))?;
        let len_bytes = self.manifest.shares[index].len_bytes;
        let file = striped.drives()[index].file;
        if self.volume.device.facts(file)?.len_bytes < len_bytes {
            self.volume.device.set_len(file, len_bytes)?;
        }
        Ok(PatchedFile {
            writes: Transfers::on(Batches::of(striped.submitter()?)),
            striped,
            path,
            mode,
        })
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// A write or a sync that failed.
    pub(super) fn finish(self) -> Result<()> {
        for mut file in self.files.into_values() {
            file.writes.finish(|| Ok(()))?;
            file.striped.sync()?;
            // Not an error: this user may lack the right to change the mode.
            let _ = folder::set_mode(&file.path, file.mode);
        }
        Ok(())
    }
}
