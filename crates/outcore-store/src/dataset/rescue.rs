//! Computes bytes that a drive has lost from the other drives of their group.
//!
//! Contract: [`Rescue::mend`] takes a range of bytes, and replaces each checksum block in it that
//! differs from its checksum. The reason does not matter: the drive is missing, a read failed, the
//! file is cut or a bit is flipped. Every block that it computes is verified, so it returns right
//! bytes or an error. The error names the drives if two of a group have lost bytes of the same
//! place. [`Rescue::sums`] reads all checksums of the dataset in the same way.
//!
//! A rescue waits for each column. It computes the bytes of one drive; reads from the other drives
//! continue meanwhile.
//!
//! Bounds: one column of buffers; the checksums of the dataset while they are read.

use std::ops::Range;

use rustix::io::Errno;

use super::damage::Damage;
use super::groups::{Column, GroupReader, Piece, Room, solve};
use super::manifest::{Manifest, checksum_block_checksum};
use crate::striped::StripedVolume;
use outcore_io::checksum::bytes_checksum;
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Buf, Reservation, block_ceil};

const RECOVER: &str = "read dataset";
/// See the head of this file.
pub(super) struct Rescue {
    groups: GroupReader,
    striped: StripedVolume,
    manifest: Manifest,
    budget: Budget,
}

/// The checksums of consecutive checksum blocks.
#[derive(Clone, Copy)]
pub(super) struct SumRange<'a> {
    pub(super) first_block: u64,
    pub(super) sums: &'a [u64],
}

impl<'a> SumRange<'a> {
    /// All checksums of a dataset.
    pub(super) fn all(sums: &'a [u64]) -> Self {
        SumRange {
            first_block: 0,
            sums,
        }
    }

    /// Whether `bytes` are what was written at `at_bytes`.
    pub(super) fn is_of(&self, manifest: &Manifest, at_bytes: u64, bytes: &[u8]) -> bool {
        let number = at_bytes / manifest.checksum_block_bytes();
        let index = number.checked_sub(self.first_block);
        let wanted = index.and_then(|index| self.sums.get(index as usize));
        wanted == Some(&checksum_block_checksum(manifest.run(), at_bytes, bytes))
    }
}

impl Rescue {
    /// A rescue for the dataset of `manifest` on `striped`, in which a lost drive is absent.
    pub(super) fn new(
        manifest: &Manifest,
        striped: &StripedVolume,
        budget: &Budget,
    ) -> Result<Self> {
        Ok(Rescue {
            groups: GroupReader::new(striped, manifest.full_bytes(), Room::RESCUE, budget)?,
            striped: striped.clone(),
            manifest: manifest.clone(),
            budget: budget.clone(),
        })
    }

    /// Replaces the checksum blocks in `bytes` that differ from `sums`; `bytes` begin at
    /// `at_bytes`.
    ///
    /// # Errors
    /// A block cannot be computed, because a second drive of its group has lost bytes.
    pub(super) fn mend(
        &mut self,
        at_bytes: u64,
        bytes: &mut [u8],
        sums: SumRange<'_>,
    ) -> Result<()> {
        let block_bytes = self.manifest.checksum_block_bytes();
        for range in self.bad_ranges(at_bytes, bytes, sums) {
            let inside = (range.start - at_bytes) as usize..(range.end - at_bytes) as usize;
            let wrong = &mut bytes[inside];
            self.recover(range.start, wrong)?;
            let mut block_at = range.start;
            for block in wrong.chunks(block_bytes as usize) {
                if !sums.is_of(&self.manifest, block_at, block) {
                    return Err(self.damaged_twice(block_at, block.len()));
                }
                block_at += block.len() as u64;
            }
        }
        Ok(())
    }

    /// The ranges of adjacent checksum blocks that differ from `sums`, each within a stripe.
    fn bad_ranges(&self, at_bytes: u64, bytes: &[u8], sums: SumRange<'_>) -> Vec<Range<u64>> {
        let (block_bytes, stripe_bytes) = (
            self.manifest.checksum_block_bytes(),
            self.manifest.stripe_bytes,
        );
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut block_at = at_bytes;
        for block in bytes.chunks(block_bytes as usize) {
            let block_end = block_at + block.len() as u64;
            if !sums.is_of(&self.manifest, block_at, block) {
                match ranges.last_mut() {
                    Some(last)
                        if last.end == block_at && !block_at.is_multiple_of(stripe_bytes) =>
                    {
                        last.end = block_end;
                    }
                    _ => ranges.push(block_at..block_end),
                }
            }
            block_at = block_end;
        }
        ranges
    }

    /// Fills `out` with the bytes at `at_bytes`, all in one stripe, as far as the other drives have
    /// them.
    fn recover(&mut self, at_bytes: u64, out: &mut [u8]) -> Result<()> {
        let stripe_bytes = self.manifest.stripe_bytes;
        let mut from_bytes = at_bytes;
        for part in out.chunks_mut(self.groups.piece_bytes() as usize) {
            let column = Column {
                group: self.striped.map().group_of(from_bytes / stripe_bytes),
                from_bytes: from_bytes % stripe_bytes,
                len_bytes: part.len() as u64,
            };
            let is_unknown = |piece: &Piece| piece.address_bytes == from_bytes;
            let mut pieces = self.read(column, |piece| !is_unknown(piece))?;
            let unknown = pieces.iter().position(is_unknown);
            let unknown = unknown.unwrap_or(usize::MAX);
            if let Some(second) = pieces.iter().position(|piece| piece.fault.is_some()) {
                return Err(self.lost_twice(&pieces, [unknown, second]));
            }
            match solve(&mut pieces, unknown) {
                Some(found) if found.len() == part.len() => part.copy_from_slice(&found),
                _ => return Err(self.damaged_twice(from_bytes, part.len())),
            }
            from_bytes += part.len() as u64;
        }
        Ok(())
    }

    /// The wanted pieces of a column.
    fn read(&mut self, column: Column, is_wanted: impl Fn(&Piece) -> bool) -> Result<Vec<Piece>> {
        self.groups.ask(column, is_wanted)?;
        let read = self.groups.next()?;
        Ok(read.map(|(_, pieces)| pieces).unwrap_or_default())
    }

    /// All checksums of the dataset, verified against the manifest, and their memory.
    ///
    /// # Errors
    /// Two drives have lost some of them; no memory.
    pub(super) fn sums(&mut self) -> Result<(Vec<u64>, Reservation)> {
        let manifest = self.manifest.clone();
        let wanted_bytes = manifest.checksum_blocks() * 8;
        let reservation = self.budget.reserve("checksums", wanted_bytes * 2)?;
        let (start_bytes, end_bytes) = (
            manifest.sums_at_bytes(),
            manifest.sums_at_bytes() + block_ceil(wanted_bytes),
        );
        let ranges = self.ranges(start_bytes..end_bytes);
        let mut bytes = Vec::with_capacity((end_bytes - start_bytes) as usize);
        let mut is_recovered = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let (found, is_lost) = self.read_range(range)?;
            is_recovered.push(is_lost);
            bytes.extend_from_slice(&found);
        }
        let is_right = |bytes: &[u8]| {
            bytes_checksum(&bytes[..wanted_bytes as usize]) == manifest.sums_checksum
        };
        // If a drive's part is damaged without a read error, trying each drive finds it.
        for drive in 0..self.striped.drives().len() {
            if is_right(&bytes) {
                break;
            }
            let mut tried = bytes.clone();
            for (range, is_recovered) in ranges.iter().zip(&is_recovered) {
                if self.drive_of(range.start) == drive && !is_recovered {
                    let inside =
                        (range.start - start_bytes) as usize..(range.end - start_bytes) as usize;
                    self.recover(range.start, &mut tried[inside])?;
                }
            }
            if is_right(&tried) {
                bytes = tried;
            }
        }
        if !is_right(&bytes) {
            return Err(self.damaged_twice(start_bytes, bytes.len()));
        }
        bytes.truncate(wanted_bytes as usize);
        let (words, _) = bytes.as_chunks::<8>();
        let sums = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        Ok((sums, reservation))
    }

    /// Splits a range into parts, each within one stripe and not longer than a piece.
    fn ranges(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let piece_bytes = self.groups.piece_bytes();
        let mut ranges = Vec::new();
        let mut from_bytes = range.start;
        while from_bytes < range.end {
            let end_bytes = (from_bytes / piece_bytes + 1) * piece_bytes;
            ranges.push(from_bytes..end_bytes.min(range.end));
            from_bytes = end_bytes;
        }
        ranges
    }

    /// The bytes of a range, and whether they had to be computed.
    fn read_range(&mut self, range: &Range<u64>) -> Result<(Vec<u8>, bool)> {
        let stripe_bytes = self.manifest.stripe_bytes;
        let column = Column {
            group: self.striped.map().group_of(range.start / stripe_bytes),
            from_bytes: range.start % stripe_bytes,
            len_bytes: range.end - range.start,
        };
        let pieces = self.read(column, |piece| piece.address_bytes == range.start)?;
        let mut read = pieces.into_iter().filter(|piece| piece.fault.is_none());
        let found: Option<Buf> = read.find_map(|piece| piece.buf);
        if let Some(found) = found {
            return Ok((found.to_vec(), false));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.recover(range.start, &mut bytes)?;
        Ok((bytes, true))
    }

    fn drive_of(&self, at_bytes: u64) -> usize {
        let map = self.striped.map();
        map.locate(at_bytes / self.manifest.stripe_bytes).0
    }

    /// The error for two drives of a group that have both lost their part of a column.
    fn lost_twice(&self, pieces: &[Piece], lost: [usize; 2]) -> Error {
        let names: Vec<&str> = lost
            .iter()
            .filter_map(|index| pieces.get(*index))
            .map(|piece| self.manifest.shares[piece.drive_index].drive.as_str())
            .collect();
        let cause = format!(
            "@{}: drives {} have both lost a part of it, but its {} makes up for only one",
            self.manifest.name,
            names.join(" and "),
            self.manifest.redundancy.name()
        );
        let fault = pieces.get(lost[1]).and_then(|piece| piece.fault);
        let is_absent = fault.is_some_and(|fault| fault.errno == Errno::NODEV.raw_os_error());
        let kind = match is_absent {
            true => Kind::Io,
            false => Kind::Corrupt,
        };
        let error = Error::new(kind, RECOVER, cause)
            .hint("mount the drive that is missing, or put the dataset again");
        match fault.zip(names.last()) {
            Some((fault, name)) => error
                .drive(*name)
                .path(&self.striped.drives()[fault.drive_index].path)
                .offset(fault.offset_bytes),
            None => error,
        }
    }

    /// The error for a damaged range whose computed bytes are also damaged.
    fn damaged_twice(&self, at_bytes: u64, len_bytes: usize) -> Error {
        let damage = Damage::at(&self.manifest, &self.striped, at_bytes, len_bytes);
        let cause = format!(
            "@{} is damaged, and so is another drive's part of the same stripes: its {} makes up \
             for only one",
            self.manifest.name,
            self.manifest.redundancy.name()
        );
        Error::corrupt(RECOVER, cause)
            .drive(&damage.drive)
            .path(&damage.path)
            .offset(damage.offset_bytes)
            .hint("put the dataset again")
    }
}
