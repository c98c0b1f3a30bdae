//! The datasets that a device has open: their layout, their checksums, and the bytes written so
//! far.
//!
//! Contract: a [`Table`] gives each dataset a number above those of ordinary files. A sealed
//! dataset knows the checksum of each checksum block. A growing dataset records checksums as blocks
//! are written. It gets its layout once its length, or an upper bound, is known.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::DatasetVolume;
use super::manifest::{Manifest, checksum_block_checksum};
use super::parity::{ParityStripe, ParityWriter, lock};
use super::rescue::SumRange;
use super::writer::{NewDataset, Unsealed, full};
use crate::striped::StripedVolume;
use outcore_io::drive::{FileId, IoBuf};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Reservation};

/// Files of the device below have smaller numbers.
pub(super) const FIRST_FILE: u32 = 1 << 31;
const WRITE: &str = "write dataset";
/// Memory for the checksum of a checksum block that may not be written yet.
const CHECKSUM_BYTES: u64 = 16;
/// Smallest number of checksum blocks for which memory is reserved at once.
const ROOM_STEP: u64 = 1 << 13;

/// The datasets that are open, by number.
#[derive(Default)]
pub(super) struct Table(Mutex<Vec<Option<Arc<Open>>>>);

/// An open dataset.
pub(super) struct Open {
    /// The path that it was opened by.
    pub(super) path: PathBuf,
    pub(super) state: State,
    /// Details of failed transfers, by offset.
    pub(super) troubles: Mutex<HashMap<u64, Error>>,
}

pub(super) enum State {
    /// To be read.
    Sealed(Box<Sealed>),
    /// To be written.
    Growing(Box<Growing>),
}

/// The layout and checksums of a sealed dataset.
pub(super) struct Sealed {
    pub(super) manifest: Manifest,
    pub(super) striped: StripedVolume,
    pub(super) sums: Vec<u64>,
    pub(super) budget: Budget,
    pub(super) _reservation: Reservation,
}

/// A dataset that is being written. It gets its layout once its length or an upper bound is known,
/// or with its first bytes.
pub(super) struct Growing {
    pub(super) new: NewDataset,
    pub(super) volume: DatasetVolume,
    /// Source of the memory for checksums.
    pub(super) budget: Budget,
    pub(super) begun: OnceLock<Begun>,
    /// `None` before it has begun, and after it is sealed.
    pub(super) unsealed: Mutex<Option<Unsealed>>,
    pub(super) len_bytes: AtomicU64,
}

/// The layout of a growing dataset, and the state of its checksum blocks.
pub(super) struct Begun {
    pub(super) striped: StripedVolume,
    pub(super) manifest: Manifest,
    pub(super) parity: Option<Arc<ParityWriter>>,
    ledger: Mutex<Ledger>,
    budget: Budget,
}

#[derive(Default)]
struct Ledger {
    sums: Vec<Option<u64>>,
    /// Checksum blocks for which there is memory.
    room: u64,
    reservations: Vec<Reservation>,
    /// Checksum blocks that have been written in part: the block's memory, and the number of bytes
    /// written.
    parts: HashMap<u64, (Box<[u8]>, usize)>,
}

impl Table {
    /// The dataset of a file number; `None` for an ordinary file.
    pub(super) fn get(&self, file: FileId) -> Option<Arc<Open>> {
        let index = file.0.checked_sub(FIRST_FILE)?;
        lock(&self.0).get(index as usize)?.clone()
    }

    pub(super) fn add(&self, open: Open) -> FileId {
        let mut table = lock(&self.0);
        table.push(Some(Arc::new(open)));
        FileId(FIRST_FILE + table.len() as u32 - 1)
    }

    pub(super) fn remove(&self, file: FileId) {
        let index = file.0.saturating_sub(FIRST_FILE) as usize;
        let open = lock(&self.0).get_mut(index).and_then(Option::take);
        // Outside of the lock: this closes its files, and removes them if it is not sealed.
        drop(open);
    }

    pub(super) fn at(&self, path: &Path) -> Option<Arc<Open>> {
        let table = lock(&self.0);
        table
            .iter()
            .flatten()
            .find(|open| open.path == path)
            .cloned()
    }
}

impl Open {
    /// Records why the transfer at `offset_bytes` failed.
    pub(super) fn trouble(&self, offset_bytes: u64, error: Error) {
        lock(&self.troubles).entry(offset_bytes).or_insert(error);
    }
}

impl Sealed {
    /// The checksums of all its checksum blocks.
    pub(super) fn sums(&self) -> SumRange<'_> {
        SumRange {
            first_block: 0,
            sums: &self.sums,
        }
    }

    /// Checks the checksum blocks that start at `offset_bytes`; returns the first damaged one.
    pub(super) fn check(&self, offset_bytes: u64, bytes: &[u8]) -> std::result::Result<(), Error> {
        let checksum_block_bytes = self.manifest.checksum_block_bytes();
        let mut at_bytes = offset_bytes;
        for checksum_block in bytes.chunks(checksum_block_bytes as usize) {
            if !self.sums().is_of(&self.manifest, at_bytes, checksum_block) {
                let damage = super::damage::Damage::at(
                    &self.manifest,
                    &self.striped,
                    at_bytes,
                    checksum_block.len(),
                );
                return Err(damage.to_error());
            }
            at_bytes += checksum_block.len() as u64;
        }
        Ok(())
    }
}

impl Growing {
    /// Gives it a layout for at most `bound_bytes`, with that room reserved if `has_room`.
    pub(super) fn begin(&self, bound_bytes: u64, has_room: bool) -> Result<()> {
        let mut begins = lock(&self.unsealed);
        if self.begun.get().is_some() {
            return Ok(());
        }
        let new = NewDataset {
            payload_bytes: has_room.then_some(bound_bytes),
            ..self.new.clone()
        };
        let unsealed = self.volume.begin(&new, &self.budget)?;
        let checksum_blocks = bound_bytes.div_ceil(unsealed.manifest.checksum_block_bytes());
        let begun = Begun {
            striped: unsealed.striped.clone(),
            manifest: unsealed.manifest.clone(),
            parity: unsealed.parity.clone(),
            ledger: Mutex::default(),
            budget: self.budget.clone(),
        };
        lock(&begun.ledger).make_room(checksum_blocks, &self.budget)?;
        *begins = Some(unsealed);
        // No other thread has set it, because it is set under the lock.
        let _ = self.begun.set(begun);
        Ok(())
    }

    /// Its layout, if it has one.
    pub(super) fn begun(&self) -> Option<&Begun> {
        self.begun.get()
    }

    /// Its layout, for bytes that end at `end_bytes`, with memory for their checksums.
    ///
    /// # Errors
    /// The drives are full; no memory for the checksums; the errors of [`DatasetVolume::begin`].
    pub(super) fn places_to(&self, end_bytes: u64) -> Result<&Begun> {
        if self.begun.get().is_none() {
            self.begin(end_bytes, false)?;
        }
        match self.begun.get() {
            Some(begun) if end_bytes <= begun.striped.len_bytes() => {
                let checksum_blocks = end_bytes.div_ceil(begun.manifest.checksum_block_bytes());
                lock(&begun.ledger).make_room(checksum_blocks, &begun.budget)?;
                Ok(begun)
            }
            _ => Err(full()),
        }
    }

    pub(super) fn seal(&self) -> Result<Manifest> {
        let len_bytes = self.len_bytes.load(Ordering::Relaxed);
        self.begin(len_bytes, true)?;
        let (Some(begun), Some(unsealed)) = (self.begun.get(), lock(&self.unsealed).take()) else {
            return Err(Error::usage(WRITE, "the dataset is sealed already"));
        };
        let sums = begun.sums_of(len_bytes)?;
        unsealed.seal(len_bytes, sums, &self.budget)
    }
}

impl Begun {
    /// Records the checksums of the bytes written at `offset_bytes`.
    pub(super) fn note(&self, offset_bytes: u64, bytes: &[u8]) {
        let checksum_block_bytes = self.manifest.checksum_block_bytes();
        let run = self.manifest.run();
        let mut at_bytes = offset_bytes;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (number, inside) = (
                at_bytes / checksum_block_bytes,
                (at_bytes % checksum_block_bytes) as usize,
            );
            let (part, later) =
                rest.split_at(rest.len().min(checksum_block_bytes as usize - inside));
            if part.len() == checksum_block_bytes as usize {
                let sum = checksum_block_checksum(run, at_bytes, part);
                lock(&self.ledger).set(number, sum);
            } else {
                let whole =
                    lock(&self.ledger).add(number, inside, part, checksum_block_bytes as usize);
                if let Some(whole) = whole {
                    let sum = checksum_block_checksum(run, number * checksum_block_bytes, &whole);
                    lock(&self.ledger).set(number, sum);
                }
            }
            at_bytes += part.len() as u64;
            rest = later;
        }
    }

    /// Adds written bytes to the parity; returns that of the groups that are now complete.
    ///
    /// # Errors
    /// No memory for the sets of groups.
    pub(super) fn add_parity(&self, offset_bytes: u64, buf: &IoBuf) -> Result<Vec<ParityStripe>> {
        let mut complete = Vec::new();
        let Some(parity) = &self.parity else {
            return Ok(complete);
        };
        let mut at_bytes = offset_bytes;
        for mut bytes in buf.slices() {
            while !bytes.is_empty() {
                let added = parity.add(at_bytes, bytes)?;
                complete.extend(added.parity);
                at_bytes += added.len_bytes as u64;
                bytes = &bytes[added.len_bytes..];
            }
        }
        Ok(complete)
    }

    /// The checksums of the first `len_bytes`.
    fn sums_of(&self, len_bytes: u64) -> Result<Vec<u64>> {
        let manifest = Manifest {
            len_bytes,
            ..self.manifest.clone()
        };
        let Ledger { sums, parts, .. } = &*lock(&self.ledger);
        (0..manifest.checksum_blocks())
            .map(|number| {
                let known = sums.get(number as usize).copied().flatten();
                let offset_bytes = number * manifest.checksum_block_bytes();
                // The last one ends with the data.
                let part = || {
                    let (bytes, filled) = parts.get(&number)?;
                    let bytes = bytes.get(..manifest.checksum_block_len(number))?;
                    let is_all = *filled >= bytes.len();
                    is_all.then(|| checksum_block_checksum(manifest.run(), offset_bytes, bytes))
                };
                known.or_else(part).ok_or_else(|| {
                    Error::new(Kind::Io, WRITE, "a part of it was never written")
                        .offset(offset_bytes)
                })
            })
            .collect()
    }
}

impl Ledger {
    /// Reserves memory for this many checksum blocks.
    fn make_room(&mut self, checksum_blocks: u64, budget: &Budget) -> Result<()> {
        if checksum_blocks > self.room {
            let more = (checksum_blocks - self.room).max(ROOM_STEP);
            let reservation = budget.reserve("checksums", more * CHECKSUM_BYTES)?;
            self.reservations.push(reservation);
            self.room += more;
        }
        Ok(())
    }

    fn set(&mut self, number: u64, sum: u64) {
        let index = number as usize;
        if self.sums.len() <= index {
            self.sums.resize(index + 1, None);
        }
        self.sums[index] = Some(sum);
    }

    /// Adds a part of a checksum block; returns the checksum block if it is now complete.
    pub(super) fn add(
        &mut self,
        number: u64,
        at: usize,
        part: &[u8],
        checksum_block_bytes: usize,
    ) -> Option<Box<[u8]>> {
        let entry = self.parts.entry(number);
        let (bytes, filled) =
            entry.or_insert_with(|| (vec![0; checksum_block_bytes].into_boxed_slice(), 0));
        bytes[at..at + part.len()].copy_from_slice(part);
        *filled += part.len();
        match *filled >= checksum_block_bytes {
            true => self.parts.remove(&number).map(|(bytes, _)| bytes),
            false => None,
        }
    }
}
