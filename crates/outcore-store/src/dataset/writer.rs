//! Writing a dataset: a stream of bytes onto all drives, sealed when it is complete.
//!
//! Contract: a [`DatasetWriter`] takes the bytes in order, in buffers of its own pool
//! ([`DatasetWriter::take_buf`], [`DatasetWriter::push`]), and keeps a window of them in flight.
//! Checksums are counted on the way. [`DatasetWriter::seal`] writes them, makes everything durable,
//! records the commit, and renames shares and the copies of the manifest into place: from the
//! record on the dataset exists, and the next sweep finishes what a crash left. A writer that is
//! dropped leaves nothing.
//!
//! Bounds: [`WINDOW_BYTES`] of buffers, 8 bytes a checksum block of checksums, both out of the
//! caller's budget.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::manifest::{Contents, Manifest, Share, checksum_block_checksum};
use super::pack::Attributes;
use super::{DatasetVolume, stripe_options};
use crate::batch::Batches;
use crate::striped::StripedVolume;
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::PrivateDir;
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Buf, Pool, Reservation, block_ceil};
use outcore_io::transfers::Transfers;

/// Buffers in flight together.
pub const WINDOW_BYTES: usize = 32 << 20;
/// Length of a buffer, and of a request.
pub const CHUNK_BYTES: usize = 1 << 20;

const WRITE: &str = "write dataset";
const MAKE_ROOM: &str =
    "remove a dataset with `outcore volume rm`, or free some space on the drives";
const STAGED: &str = "share";
const REPLACED: &str = "replaced";

/// What a new dataset will be.
#[derive(Debug, Clone)]
pub struct NewDataset {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub contents: Contents,
    /// Packed files; 1 for a file.
    pub files: u64,
    /// Bytes of data and index, if known: their room is reserved, so that a full drive is found
    /// first.
    pub payload_bytes: Option<u64>,
    /// Whether a dataset of that name may be there, and is replaced.
    pub replace: bool,
    /// Who but the owner may read its shares, as far as the process lets others read what it makes:
    /// the read bits of group and others.
    pub readers: u32,
    /// What the file that it holds was like, where it was one.
    pub attributes: Option<Attributes>,
    /// Chooses identity and first drive.
    pub seed: u64,
}

/// The error where there is no room for more of a dataset.
pub(super) fn full() -> Error {
    Error::new(Kind::NoSpace, WRITE, "the drives are full").hint(MAKE_ROOM)
}

/// A dataset that has its places on the drives and is not complete: gone with its private
/// directories when it is dropped.
pub(super) struct Unsealed {
    pub(super) striped: StripedVolume,
    pub(super) manifest: Manifest,
    volume: DatasetVolume,
    dirs: Vec<PrivateDir>,
    replace: bool,
    readers: u32,
}

/// A dataset that is being written.
pub struct DatasetWriter {
    // Declared first: it is dropped first, and waits for what is in flight.
    writes: Transfers<(), Batches>,
    unsealed: Unsealed,
    pool: Pool,
    written_bytes: u64,
    sums: Vec<u64>,
    budget: Budget,
    sums_reservation: Vec<Reservation>,
}

impl DatasetVolume {
    /// Begins a dataset.
    ///
    /// # Errors
    /// Usage: a name that cannot be, or is taken. A drive that is missing. No room. Memory.
    pub fn writer(&self, new: &NewDataset, budget: &Budget) -> Result<DatasetWriter> {
        DatasetWriter::of(self.begin(new)?, budget)
    }

    /// Its places on the drives, with room for what is known of its length.
    pub(super) fn begin(&self, new: &NewDataset) -> Result<Unsealed> {
        super::check_name(&new.name)?;
        self.check_complete(WRITE)?;
        if !new.replace && self.contains(&new.name) {
            return Err(
                Error::usage(WRITE, format!("there is a @{} already", new.name))
                    .hint("allow replacing it with --force, or name another"),
            );
        }
        let dirs = self.stage()?;
        let mut manifest = self.layout(new)?;
        let map = manifest.map()?;
        let full_bytes = match new.payload_bytes {
            Some(bytes) => {
                manifest.len_bytes = bytes;
                manifest.full_bytes()
            }
            None => 0,
        };
        if full_bytes > map.len_bytes() {
            let cause = format!(
                "the dataset needs {full_bytes} bytes, and {} are free",
                map.len_bytes()
            );
            return Err(Error::new(Kind::NoSpace, WRITE, cause).hint(MAKE_ROOM));
        }
        for (share, len_bytes) in manifest.shares.iter_mut().zip(map.drive_lens(full_bytes)) {
            share.len_bytes = len_bytes;
        }
        let members = self.members(&manifest.shares, |index| dirs[index].path().join(STAGED));
        let striped = StripedVolume::create(
            Arc::clone(&self.device),
            &members,
            stripe_options(&manifest),
        )?;
        Ok(Unsealed {
            striped,
            manifest,
            volume: self.clone(),
            dirs,
            replace: new.replace,
            readers: new.readers,
        })
    }

    /// A manifest with a layout for a new dataset: each drive with the room that it has now.
    fn layout(&self, new: &NewDataset) -> Result<Manifest> {
        let mut shares = Vec::with_capacity(self.drives.len());
        for drive in &self.drives {
            let free_bytes = self.device.free_bytes(&drive.dir);
            let free_bytes = free_bytes.map_err(|error| error.drive(&drive.name))?;
            shares.push(Share {
                drive: drive.name.clone(),
                weight: drive.weight,
                // Names, lists of blocks and the like need room too.
                capacity_bytes: (free_bytes - free_bytes / 64).min(drive.limit_bytes),
                len_bytes: 0,
            });
        }
        let identity = bytes_checksum(format!("{}/{}/{}", self.id, new.name, new.seed).as_bytes());
        Ok(Manifest {
            generation: 0,
            name: new.name.clone(),
            id: format!("{identity:016x}"),
            contents: new.contents,
            len_bytes: 0,
            files: new.files,
            index_bytes: 0,
            stripe_bytes: self.stripe_bytes,
            start_drive: (identity >> 32) as usize % self.drives.len(),
            sums_checksum: 0,
            shares,
            attributes: new.attributes,
        })
    }
}

impl DatasetWriter {
    /// A writer of all of it.
    fn of(unsealed: Unsealed, budget: &Budget) -> Result<Self> {
        Ok(DatasetWriter {
            writes: Transfers::on(Batches::of(unsealed.striped.submitter()?)),
            unsealed,
            pool: Pool::new(budget, WRITE, CHUNK_BYTES, WINDOW_BYTES / CHUNK_BYTES)?,
            written_bytes: 0,
            sums: Vec::new(),
            budget: budget.clone(),
            sums_reservation: Vec::new(),
        })
    }

    /// Bytes pushed so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// A buffer of [`CHUNK_BYTES`] to fill; waits for one.
    ///
    /// # Errors
    /// A write that failed meanwhile.
    pub(crate) fn take_buf(&mut self) -> Result<Buf> {
        self.writes.buffer(&self.pool, || Ok(()))
    }

    /// The pool of its buffers, for another thread to fill them.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Starts what was pushed and takes back what is written.
    ///
    /// # Errors
    /// A write that failed, with drive, file and offset.
    pub fn start(&mut self) -> Result<()> {
        self.writes.start()
    }

    /// The same, waiting for a moment until something is written.
    ///
    /// # Errors
    /// As [`DatasetWriter::start`].
    pub fn wait(&mut self) -> Result<()> {
        self.writes.wait()
    }

    /// The next `len_bytes`, in a buffer of this writer; only the last may be less than full.
    ///
    /// # Errors
    /// A write that failed meanwhile; no room; memory for the checksums.
    ///
    /// # Panics
    /// When something was pushed after a buffer that was not full.
    pub fn push(&mut self, mut buf: Buf, len_bytes: usize) -> Result<()> {
        assert!(
            self.written_bytes.is_multiple_of(CHUNK_BYTES as u64),
            "only the last buffer is not full"
        );
        let padded_bytes = block_ceil(len_bytes as u64) as usize;
        buf[len_bytes..padded_bytes].fill(0);
        let checksum_block_bytes = self.unsealed.manifest.checksum_block_bytes() as usize;
        if self.sums.capacity() < self.sums.len() + CHUNK_BYTES / checksum_block_bytes {
            let more = self.sums.capacity().max(1 << 13);
            let reservation = self.budget.reserve("checksums", more as u64 * 8)?;
            self.sums_reservation.push(reservation);
            self.sums.reserve_exact(more);
        }
        let mut at_bytes = self.written_bytes;
        for checksum_block in buf[..padded_bytes].chunks(checksum_block_bytes) {
            self.sums.push(checksum_block_checksum(
                self.unsealed.manifest.run(),
                at_bytes,
                checksum_block,
            ));
            at_bytes += checksum_block.len() as u64;
        }
        let offset_bytes = self.written_bytes;
        self.written_bytes += len_bytes as u64;
        self.write(buf.split_to(padded_bytes), offset_bytes)
    }

    fn write(&mut self, buf: Buf, offset_bytes: u64) -> Result<()> {
        if offset_bytes + buf.len() as u64 > self.unsealed.striped.len_bytes() {
            return Err(full());
        }
        self.writes.write_behind(&(), offset_bytes, buf)
    }

    /// Completes the dataset: of what was pushed, the last `index_bytes` are its index.
    ///
    /// # Errors
    /// A write or sync that failed; a dataset of that name that has appeared. Nothing is left then.
    pub fn seal(mut self, index_bytes: u64, files: u64) -> Result<Manifest> {
        self.unsealed.manifest.files = files;
        self.unsealed.manifest.index_bytes = index_bytes;
        self.unsealed.manifest.len_bytes = self.written_bytes - index_bytes;
        let sums: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        self.unsealed.manifest.sums_checksum = bytes_checksum(&sums);
        let mut at_bytes = self.unsealed.manifest.sums_at_bytes();
        for part in sums.chunks(CHUNK_BYTES) {
            let mut buf = self.take_buf()?;
            let padded_bytes = block_ceil(part.len() as u64) as usize;
            buf[..part.len()].copy_from_slice(part);
            buf[part.len()..padded_bytes].fill(0);
            self.write(buf.split_to(padded_bytes), at_bytes)?;
            at_bytes += padded_bytes as u64;
        }
        self.writes.finish(|| Ok(()))?;
        let lens = self
            .unsealed
            .manifest
            .map()?
            .drive_lens(self.unsealed.manifest.full_bytes());
        for ((share, drive), len_bytes) in self
            .unsealed
            .manifest
            .shares
            .iter_mut()
            .zip(self.unsealed.striped.drives())
            .zip(lens)
        {
            share.len_bytes = len_bytes;
            self.unsealed.volume.device.set_len(drive.file, len_bytes)?;
        }
        self.unsealed.striped.sync()?;
        // Nothing is in flight any more.
        self.unsealed.publish()
    }
}

impl Unsealed {
    /// Seals `len_bytes` of data that lie in their places already, with the checksums of their
    /// checksum blocks.
    ///
    /// # Errors
    /// As [`DatasetWriter::seal`].
    pub(super) fn seal(self, len_bytes: u64, sums: Vec<u64>, budget: &Budget) -> Result<Manifest> {
        let mut writer = DatasetWriter::of(self, budget)?;
        writer.written_bytes = len_bytes;
        writer.sums = sums;
        writer.seal(0, 1)
    }

    fn publish(mut self) -> Result<Manifest> {
        let volume = self.volume.clone();
        let name = self.manifest.name.clone();
        // Two that replace the same dataset each remove the one before, and no other.
        let _lock = volume.lock_names()?;
        if !self.replace && volume.contains(&name) {
            return Err(
                Error::usage(WRITE, format!("a @{name} has appeared meanwhile"))
                    .hint("allow replacing it with --force, or name another"),
            );
        }
        let replaced = volume.id_of(&name);
        self.manifest.generation = volume.generation_of(&name) + 1;
        let mut renames: Vec<(PathBuf, PathBuf)> = (0..self.dirs.len())
            .map(|index| {
                let staged = self.dirs[index].path().join(STAGED);
                (staged, volume.share_path(&self.manifest.id, index))
            })
            .collect();
        // After the shares: a reader that finds a copy finds the data too.
        renames.extend(volume.stage_copies(&self.manifest, &self.dirs)?);
        let replaced = replaced.filter(|id| *id != self.manifest.id);
        // After a kill from here on, the sweep removes what is replaced together with what is
        // unfinished.
        let removals = replaced.iter().flat_map(|id| {
            self.dirs.iter().enumerate().map(|(index, dir)| {
                let gone = dir.path().join(REPLACED);
                (volume.share_path(id, index), gone)
            })
        });
        let all: Vec<_> = renames.iter().cloned().chain(removals).collect();
        PrivateDir::commit(&self.dirs, &all, true)?;
        // From here on the dataset exists: whoever finds the record finishes the renames.
        let failures: Vec<Error> = renames
            .iter()
            .filter_map(|(from, to)| volume.device.rename(from, to, true).err())
            .collect();
        if let Some(error) = failures.into_iter().next() {
            self.dirs.into_iter().for_each(PrivateDir::leave);
            return Err(error
                .hint("the dataset is whole: the next command on this volume puts it in place"));
        }
        for (_, sealed) in &renames {
            // Read-only permissions are a reminder for people and programs: the owner of the drive
            // can still change it.
            if let Ok(facts) = fs::metadata(sealed) {
                let mode = facts.permissions().mode() & (0o400 | self.readers);
                let _ = fs::set_permissions(sealed, fs::Permissions::from_mode(mode));
            }
        }
        let removed = replaced.map(|id| volume.remove_shares(&id));
        if let Some(Err(error)) = removed {
            self.dirs.into_iter().for_each(PrivateDir::leave);
            return Err(error
                .hint("the dataset is whole: the next put on this volume removes the one before"));
        }
        Ok(self.manifest)
    }
}
