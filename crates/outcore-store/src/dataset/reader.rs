//! Reads a sealed dataset and verifies every checksum block.
//!
//! Contract: a [`DatasetReader`] keeps a window of reads in flight on all drives. It returns the
//! bytes of a range in order ([`DatasetReader::next_chunk`]) or as they arrive
//! ([`DatasetReader::next_arrival`]). A caller that accepts any order never waits for a slow drive
//! while others have data. A damaged checksum block ends the read with an error that names the
//! drive, the file there and the offset in it. With redundancy, the block is computed from other
//! drives instead ([`super::rescue`]). [`DatasetVolume::scrub`] continues after damage, and lists
//! all damaged and unreadable blocks. The reader loads only the checksums of the range. If the
//! range has all checksum blocks of the dataset, the reader verifies the checksums against the
//! manifest. Otherwise, a damaged checksum is reported as damage of its checksum block.
//!
//! Bounds: [`WINDOW_BYTES`] of buffers and 8 bytes per checksum block of the range, from the
//! caller's budget.

use std::ops::Range;

use super::damage::{Damage, place_of};
use super::manifest::{Manifest, checksum_block_checksum};
use super::rescue::{Rescue, SumRange};
use super::writer::{CHUNK_BYTES, WINDOW_BYTES};
use super::{DatasetVolume, Watch, open_shares};
use crate::batch::Batches;
use crate::striped::StripedVolume;
use outcore_io::checksum::bytes_checksum;
use outcore_io::error::{Error, Result};
use outcore_io::memory::{BLOCK_BYTES, Budget, Buf, Pool, Reservation, block_ceil};
use outcore_io::port::TransferFault;
use outcore_io::transfers::{Arrival, ReadRange, Transfers};
use outcore_io::units;

const READ: &str = "read dataset";

/// A reader of a range of a dataset.
pub struct DatasetReader {
    // Declared first, so dropped first: it waits for the transfers in flight. Each read carries its
    // offset.
    reads: Transfers<u64, Batches>,
    striped: StripedVolume,
    manifest: Manifest,
    pool: Pool,
    /// The checksums of the checksum blocks of the range, and the number of the first.
    sums: Vec<u64>,
    first_checksum_block: u64,
    /// Whether they have been verified against the manifest.
    are_sums_verified: bool,
    sums_reservation: Reservation,
    budget: Budget,
    /// Computes the bytes that a drive has lost; made when first needed.
    rescue: Option<Rescue>,
    /// First byte of the range.
    from_bytes: u64,
    /// Next chunk to read, next byte to return, end of the range.
    ask_bytes: u64,
    give_bytes: u64,
    end_bytes: u64,
    /// End of the last block of the payload.
    padded_bytes: u64,
    damages: Vec<Damage>,
    /// Whether unreadable data are recorded as damage instead of ending the read.
    is_lenient: bool,
}

impl DatasetVolume {
    /// A reader of all data of a dataset.
    ///
    /// # Errors
    /// No such dataset; a share that is missing or truncated; damaged checksums.
    pub fn reader(&self, manifest: &Manifest, budget: &Budget) -> Result<DatasetReader> {
        self.range_reader(manifest, 0, manifest.len_bytes, budget)
    }

    /// A reader of the `len_bytes` bytes of data and index that start at `from_bytes`.
    ///
    /// # Errors
    /// The errors of [`DatasetVolume::reader`]; usage for a range that the dataset does not have.
    pub fn range_reader(
        &self,
        manifest: &Manifest,
        from_bytes: u64,
        len_bytes: u64,
        budget: &Budget,
    ) -> Result<DatasetReader> {
        let end_bytes = from_bytes.checked_add(len_bytes);
        let Some(end_bytes) = end_bytes.filter(|end| *end <= manifest.payload_bytes()) else {
            return Err(Error::usage(
                READ,
                format!(
                    "the dataset has only {}",
                    units::counted(manifest.payload_bytes(), "byte")
                ),
            ));
        };
        let checksum_block_bytes = manifest.checksum_block_bytes();
        let checksum_blocks =
            from_bytes / checksum_block_bytes..end_bytes.div_ceil(checksum_block_bytes);
        self.reader_with_sums(manifest, from_bytes..end_bytes, checksum_blocks, budget)
    }

    /// Like [`DatasetVolume::range_reader`], with the given checksums of `checksum_blocks`.
    fn reader_with_sums(
        &self,
        manifest: &Manifest,
        range: Range<u64>,
        checksum_blocks: Range<u64>,
        budget: &Budget,
    ) -> Result<DatasetReader> {
        let (from_bytes, end_bytes) = (range.start, range.end);
        self.check_unlabelled(manifest)?;
        self.check_reachable(manifest, &checksum_blocks)?;
        let striped = open_shares(self, manifest).map_err(|error| {
            error.hint("`outcore volume status` shows whether the drive is mounted and whole")
        })?;
        let slots = ((end_bytes - from_bytes).div_ceil(CHUNK_BYTES as u64) + 1)
            .min((WINDOW_BYTES / CHUNK_BYTES) as u64);
        let mut reader = DatasetReader {
            reads: Transfers::on(Batches::of(striped.submitter()?)),
            striped,
            pool: Pool::new(budget, READ, CHUNK_BYTES, slots as usize)?,
            sums: Vec::new(),
            first_checksum_block: checksum_blocks.start,
            are_sums_verified: false,
            budget: budget.clone(),
            rescue: None,
            sums_reservation: budget.reserve(
                "checksums",
                (checksum_blocks.end - checksum_blocks.start) * 8,
            )?,
            from_bytes,
            ask_bytes: 0,
            give_bytes: 0,
            end_bytes: 0,
            padded_bytes: 0,
            damages: Vec::new(),
            is_lenient: false,
            manifest: manifest.clone(),
        };
        if let Err(error) = reader.read_sums(checksum_blocks) {
            reader.rescue_sums(error)?;
        }
        let checksum_block_bytes = manifest.checksum_block_bytes();
        reader.ask_bytes = from_bytes / checksum_block_bytes * checksum_block_bytes;
        reader.give_bytes = from_bytes;
        reader.end_bytes = end_bytes;
        reader.padded_bytes = block_ceil(manifest.payload_bytes());
        Ok(reader)
    }

    /// A dataset's shares, open for reading, and the checksums of its checksum blocks with their
    /// memory.
    ///
    /// # Errors
    /// The errors of [`DatasetVolume::reader`].
    pub(super) fn open_with_sums(
        &self,
        manifest: &Manifest,
        budget: &Budget,
    ) -> Result<(StripedVolume, Vec<u64>, Reservation)> {
        let reader =
            self.reader_with_sums(manifest, 0..0, 0..manifest.checksum_blocks(), budget)?;
        Ok((reader.striped, reader.sums, reader.sums_reservation))
    }
}

impl DatasetReader {
    /// The dataset's manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The next bytes in order, at most one chunk; `None` at the end.
    ///
    /// # Errors
    /// A read that failed, or a damaged checksum block, with drive, file and offset.
    pub fn next_chunk(&mut self) -> Result<Option<Buf>> {
        let part = self.next_part()?;
        match self.damages.first() {
            Some(damage) => Err(damage.to_error()),
            None => Ok(part),
        }
    }

    /// Whether the range begins at a checksum block, as a whole dataset does. Only then may the
    /// caller use [`DatasetReader::next_arrival`].
    pub(crate) fn begins_at_checksum_block(&self) -> bool {
        self.from_bytes
            .is_multiple_of(self.manifest.checksum_block_bytes())
    }

    /// The next chunk to arrive, with its offset in the range: whole blocks, the last of which may
    /// extend beyond the range's end. `None` after the last chunk. Use either this method or
    /// [`DatasetReader::next_chunk`] on a reader, not both.
    ///
    /// # Errors
    /// The errors of [`DatasetReader::next_chunk`].
    ///
    /// # Panics
    /// If the range does not begin at a checksum block.
    pub fn next_arrival(&mut self) -> Result<Option<(u64, Buf)>> {
        assert!(
            self.begins_at_checksum_block(),
            "chunks have places in the range"
        );
        if !self.ask_for_more()? {
            return Ok(None);
        }
        let Some((what, read)) = self.reads.any_or_fault(|| Ok(()))? else {
            return Ok(None);
        };
        let mut buf = read.buf;
        self.verify(what, &mut buf, read.fault)?;
        if let Some(damage) = self.damages.first() {
            return Err(damage.to_error());
        }
        let wanted_bytes = block_ceil(self.end_bytes - what).min(buf.len() as u64);
        Ok(Some((
            what - self.from_bytes,
            buf.split_to(wanted_bytes as usize),
        )))
    }

    /// Reads all of the range; returns the damaged and unreadable ranges.
    pub(super) fn read_leniently(&mut self, watch: Watch<'_>) -> Result<Vec<Damage>> {
        self.is_lenient = true;
        while let Some(part) = self.next_part()? {
            watch.pass(part.len() as u64)?;
        }
        Ok(std::mem::take(&mut self.damages))
    }

    /// As [`DatasetReader::next_chunk`], but records damage instead of failing.
    fn next_part(&mut self) -> Result<Option<Buf>> {
        if self.give_bytes >= self.end_bytes {
            return Ok(None);
        }
        self.ask_for_more()?;
        let Some((at_bytes, read)) = self.reads.next_or_fault(|| Ok(()))? else {
            return Ok(None);
        };
        let mut buf = read.buf;
        self.verify(at_bytes, &mut buf, read.fault)?;
        let end_bytes = self.end_bytes.min(at_bytes + buf.len() as u64);
        drop(buf.split_to((self.give_bytes - at_bytes) as usize));
        let part = buf.split_to((end_bytes - self.give_bytes) as usize);
        self.give_bytes = end_bytes;
        Ok(Some(part))
    }

    /// Starts reads of as many chunks as there are buffers, waiting for the first buffer; false at
    /// the end.
    fn ask_for_more(&mut self) -> Result<bool> {
        loop {
            self.ask();
            self.reads.start()?;
            if !self.reads.is_empty() {
                return Ok(true);
            }
            if self.ask_bytes >= self.last_bytes() {
                return Ok(false);
            }
            // The caller still works on the buffers.
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    /// Where the last chunk ends.
    fn last_bytes(&self) -> u64 {
        self.end_bytes
            .next_multiple_of(self.manifest.checksum_block_bytes())
            .min(self.padded_bytes)
    }

    fn ask(&mut self) {
        let last_bytes = self.last_bytes();
        while self.ask_bytes < last_bytes
            && let Some(mut buf) = self.pool.take()
        {
            let len_bytes = (last_bytes - self.ask_bytes).min(CHUNK_BYTES as u64);
            let buf = buf.split_to(len_bytes as usize);
            self.reads.read(&(), self.ask_bytes, buf, self.ask_bytes);
            self.ask_bytes += len_bytes;
        }
    }

    /// Computes the damaged parts of a chunk from other drives. Without redundancy, records the
    /// damaged parts, and the parts on a drive that failed.
    fn verify(
        &mut self,
        at_bytes: u64,
        bytes: &mut [u8],
        fault: Option<TransferFault>,
    ) -> Result<()> {
        if !self.manifest.redundancy.is_none() {
            return self.mend(at_bytes, bytes);
        }
        if let Some(fault) = fault.filter(|_| !self.is_lenient) {
            return Err(self.striped.explain(&fault));
        }
        let failed_drive = fault.map(|fault| fault.drive_index);
        let checksum_block_bytes = self.manifest.checksum_block_bytes();
        let mut offset_bytes = at_bytes;
        for checksum_block in bytes.chunks(checksum_block_bytes as usize) {
            let number = offset_bytes / checksum_block_bytes - self.first_checksum_block;
            let wanted = self.sums.get(number as usize);
            let found = checksum_block_checksum(self.manifest.run(), offset_bytes, checksum_block);
            let (drive, _) = place_of(&self.striped, offset_bytes, checksum_block.len());
            if wanted != Some(&found) || failed_drive == Some(drive) {
                self.damages
                    .push(self.damage(offset_bytes, checksum_block.len()));
            }
            offset_bytes += checksum_block.len() as u64;
        }
        Ok(())
    }

    fn mend(&mut self, at_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        if self.is_right(at_bytes, bytes) {
            return Ok(());
        }
        if !self.are_sums_verified {
            // The checksums may be wrong, not the data.
            self.load_verified_sums()?;
        }
        let sums = SumRange {
            first_block: self.first_checksum_block,
            sums: &self.sums,
        };
        let rescue = match self.rescue.take() {
            Some(rescue) => rescue,
            None => Rescue::new(&self.manifest, &self.striped, &self.budget)?,
        };
        self.rescue.insert(rescue).mend(at_bytes, bytes, sums)
    }

    /// Whether all checksum blocks of a chunk have the bytes that were written.
    fn is_right(&self, at_bytes: u64, bytes: &[u8]) -> bool {
        let sums = SumRange {
            first_block: self.first_checksum_block,
            sums: &self.sums,
        };
        let block_bytes = self.manifest.checksum_block_bytes();
        let mut blocks = bytes.chunks(block_bytes as usize).enumerate();
        blocks.all(|(index, block)| {
            let block_at = at_bytes + index as u64 * block_bytes;
            sums.is_of(&self.manifest, block_at, block)
        })
    }

    /// Loads the checksums from all drives after a read of them failed with `error`.
    fn rescue_sums(&mut self, error: Error) -> Result<()> {
        if self.manifest.redundancy.is_none() {
            return Err(error);
        }
        self.reads.forget()?;
        self.load_verified_sums()
    }

    fn load_verified_sums(&mut self) -> Result<()> {
        let mut rescue = Rescue::new(&self.manifest, &self.striped, &self.budget)?;
        (self.sums, self.sums_reservation) = rescue.sums()?;
        self.first_checksum_block = 0;
        self.are_sums_verified = true;
        self.rescue = Some(rescue);
        Ok(())
    }

    fn damage(&self, offset_bytes: u64, len_bytes: usize) -> Damage {
        Damage::at(&self.manifest, &self.striped, offset_bytes, len_bytes)
    }

    /// Reads the checksums of `checksum_blocks`. If these are all blocks of the dataset, verifies
    /// the checksums against the manifest.
    fn read_sums(&mut self, checksum_blocks: Range<u64>) -> Result<()> {
        let wanted_bytes = (checksum_blocks.end - checksum_blocks.start) as usize * 8;
        let sums_at_bytes = self.manifest.sums_at_bytes();
        let front_bytes = checksum_blocks.start * 8 % BLOCK_BYTES as u64;
        let start_bytes = sums_at_bytes + checksum_blocks.start * 8 - front_bytes;
        let end_bytes = match wanted_bytes {
            0 => start_bytes,
            _ => sums_at_bytes + block_ceil(checksum_blocks.end * 8),
        };
        let mut sums: Vec<u8> = Vec::with_capacity((end_bytes - start_bytes) as usize);
        let mut at_bytes = start_bytes;
        let next = |_: &Batches| {
            let from_bytes = at_bytes;
            let len_bytes = (end_bytes - from_bytes).min(CHUNK_BYTES as u64);
            at_bytes += len_bytes;
            (len_bytes > 0).then_some(ReadRange {
                file: &(),
                at_bytes: from_bytes,
                len_bytes: len_bytes as usize,
                what: from_bytes,
            })
        };
        let take = |read: Arrival<u64>| {
            sums.extend_from_slice(&read.buf);
            Ok(())
        };
        self.reads
            .read_in_order(&self.pool, || Ok(()), next, take)?;
        sums.drain(..(front_bytes as usize).min(sums.len()));
        sums.truncate(wanted_bytes);
        let is_all = wanted_bytes as u64 == self.manifest.checksum_blocks() * 8;
        if is_all && bytes_checksum(&sums) != self.manifest.sums_checksum {
            let mut damage = self.damage(start_bytes, (end_bytes - start_bytes).max(1) as usize);
            damage.dataset.push_str("'s checksums");
            return Err(damage.to_error());
        }
        self.are_sums_verified = is_all;
        let words = sums.chunks_exact(8);
        self.sums = words
            .map(|word| {
                u64::from_le_bytes([
                    word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7],
                ])
            })
            .collect();
        Ok(())
    }
}
