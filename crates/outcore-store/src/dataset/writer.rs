//! Writes a dataset: a stream of bytes onto all drives, sealed when it is complete.
//!
//! Contract: a [`DatasetWriter`] takes the bytes in order, in buffers of its own pool
//! ([`DatasetWriter::take_buf`], [`DatasetWriter::push`]). It keeps a window of buffers in flight,
//! and computes checksums on the way. [`DatasetWriter::seal`] writes the checksums, makes
//! everything durable, records the commit, and renames shares and copies of the manifest into
//! place. Once the record exists, the dataset exists, and the next sweep finishes the renames after
//! a crash. A writer that is dropped leaves nothing.
//!
//! With redundancy, the writer also adds up the parity of each group of stripes
//! ([`super::parity`]) and writes it with the data.
//!
//! Bounds: [`WINDOW_BYTES`] of buffers, 8 bytes per checksum block, and twice a window for parity,
//! all from the caller's budget.

use std::sync::Arc;

use super::damage::Damage;
use super::groups::{Column, ColumnQueue, GroupReader, Piece, Room, solve};
use super::manifest::{Contents, Manifest, checksum_block_checksum};
use super::pack::Attributes;
use super::parity::{ParityStripe, ParityWriter};
use super::rebuild::is_written;
use super::rescue::SumRange;
use super::stage::Stage;
use super::{DatasetVolume, stripe_options};
use crate::batch::Batches;
use crate::striped::StripedVolume;
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::folder;
use outcore_io::drive::{PrivateDir, Rename};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Buf, Pool, Reservation, block_ceil};
use outcore_io::transfers::Transfers;

/// Total size of the buffers in flight.
pub const WINDOW_BYTES: usize = 32 << 20;
/// Length of a buffer, and of a request.
pub const CHUNK_BYTES: usize = 1 << 20;

const WRITE: &str = "write dataset";
const MAKE_ROOM: &str =
    "remove a dataset with `outcore volume rm`, or free some space on the drives";
const STAGED: &str = "share";
const REPLACED: &str = "replaced";

/// The properties of a new dataset.
#[derive(Debug, Clone)]
pub struct NewDataset {
    /// Its name.
    pub name: String,
    /// Kind of its contents.
    pub contents: Contents,
    /// Packed files; 1 for a file.
    pub files: u64,
    /// Bytes of data and index, if known. Their room is reserved, so that a full drive is detected
    /// before the work.
    pub payload_bytes: Option<u64>,
    /// Whether an existing dataset of that name is replaced.
    pub replace: bool,
    /// The users other than the owner who may read its shares, within the process's umask: the read
    /// bits of group and others.
    pub readers: u32,
    /// Attributes of the file that it holds, if it is one.
    pub attributes: Option<Attributes>,
    /// Determines its identity and first drive.
    pub seed: u64,
}

/// The error for a dataset that has no more room.
pub(super) fn full() -> Error {
    Error::new(Kind::NoSpace, WRITE, "the drives are full").hint(MAKE_ROOM)
}

/// A dataset that has its layout on the drives and is not complete. Dropping it removes it with its
/// private directories.
pub(super) struct Unsealed {
    pub(super) striped: StripedVolume,
    pub(super) manifest: Manifest,
    /// With redundancy: the parity of the bytes written so far.
    pub(super) parity: Option<Arc<ParityWriter>>,
    volume: DatasetVolume,
    stage: Stage,
    /// The files of the only dataset that it may replace, if it is limited to one.
    only_over: Option<String>,
    replace: bool,
    readers: u32,
}

/// A dataset that is being written.
pub struct DatasetWriter {
    // Declared first, so dropped first: it waits for the transfers in flight.
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
    /// Usage: an invalid name, or one that is taken. A missing drive. No room. Memory.
    pub fn writer(&self, new: &NewDataset, budget: &Budget) -> Result<DatasetWriter> {
        DatasetWriter::of(self.begin(new, budget)?, budget)
    }

    /// Its layout on the drives, with room for the known length.
    pub(super) fn begin(&self, new: &NewDataset, budget: &Budget) -> Result<Unsealed> {
        super::check_name(&new.name)?;
        self.check_complete(WRITE)?;
        if !new.replace && self.contains(&new.name) {
            return Err(Error::usage(WRITE, format!("@{} already exists", new.name))
                .hint("allow replacing it with --force, or name another dataset"));
        }
        let stage = self.stage()?;
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
                "the dataset needs {full_bytes} bytes, but only {} are free",
                map.len_bytes()
            );
            return Err(Error::new(Kind::NoSpace, WRITE, cause).hint(MAKE_ROOM));
        }
        for (share, len_bytes) in manifest.shares.iter_mut().zip(map.drive_lens(full_bytes)) {
            share.len_bytes = len_bytes;
        }
        let members = self.members(&manifest.shares, |index| stage.path(index, STAGED));
        let striped = StripedVolume::create(
            Arc::clone(&self.device),
            &members,
            stripe_options(&manifest),
        )?;
        let parity = ParityWriter::of(&striped, budget)?;
        Ok(Unsealed {
            striped,
            manifest,
            parity: parity.map(Arc::new),
            volume: self.clone(),
            stage,
            only_over: None,
            replace: new.replace,
            readers: new.readers,
        })
    }

    /// A manifest with a layout for a new dataset, from the current free room of each drive.
    fn layout(&self, new: &NewDataset) -> Result<Manifest> {
        let shares = self.shares_in(&self.free_room()?);
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
            redundancy: self.redundancy,
            sums_checksum: 0,
            shares,
            attributes: new.attributes,
        })
    }
}

impl DatasetWriter {
    /// A writer of the whole dataset.
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

    /// Lets it replace only the dataset with the files `id`, not one that came after it.
    pub(super) fn replace_only(&mut self, id: &str) {
        self.unsealed.only_over = Some(id.to_string());
    }

    /// A buffer of [`CHUNK_BYTES`] to fill; waits for one.
    ///
    /// # Errors
    /// A write that failed in the meantime.
    pub(crate) fn take_buf(&mut self) -> Result<Buf> {
        self.writes.buffer(&self.pool, || Ok(()))
    }

    /// The pool of its buffers, so that another thread can fill them.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Starts pushed writes and collects completed ones.
    ///
    /// # Errors
    /// A write that failed, with drive, file and offset.
    pub fn start(&mut self) -> Result<()> {
        self.writes.start()
    }

    /// Like [`DatasetWriter::start`], but first waits a short time for a write to complete.
    ///
    /// # Errors
    /// The errors of [`DatasetWriter::start`].
    pub fn wait(&mut self) -> Result<()> {
        self.writes.wait()
    }

    /// Appends the next `len_bytes`, in a buffer of this writer; only the last buffer may be less
    /// than full.
    ///
    /// # Errors
    /// A write that failed in the meantime; no room; no memory for the checksums.
    ///
    /// # Panics
    /// If the previous buffer was not full.
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
        if let Some(parity) = &self.unsealed.parity {
            let mut at_bytes = offset_bytes;
            let mut rest = &buf[..];
            while !rest.is_empty() {
                while !parity.has_room(at_bytes) {
                    self.writes.wait()?;
                }
                let added = parity.add(at_bytes, rest)?;
                if let Some(ParityStripe { address_bytes, buf }) = added.parity {
                    self.writes.write_behind(&(), address_bytes, buf)?;
                }
                at_bytes += added.len_bytes as u64;
                rest = &rest[added.len_bytes..];
            }
        }
        self.writes.write_behind(&(), offset_bytes, buf)
    }

    /// Writes the parity of the groups that were not complete before, from the data on the drives.
    fn write_missing_parity(&mut self) -> Result<()> {
        let Some(parity) = &self.unsealed.parity else {
            return Ok(());
        };
        let striped = &self.unsealed.striped;
        let full_bytes = self.unsealed.manifest.full_bytes();
        let mut groups = GroupReader::new(striped, full_bytes, Room::PASS, &self.budget)?;
        let mut columns = ColumnQueue::new(0..striped.map().groups_in(full_bytes));
        while let Some((column, mut pieces)) = columns.read_next(
            &mut groups,
            |number| !parity.is_done(number),
            |piece| !piece.is_parity,
            || self.writes.wait(),
        )? {
            if let Some(fault) = pieces.iter().find_map(|piece| piece.fault) {
                return Err(striped.explain(&fault));
            }
            // Parity has no checksum: it is right only if the data read back are.
            if let Some(wrong) = self.first_wrong(&pieces) {
                pieces = self.read_again(column, wrong)?;
            }
            let Some(last) = pieces.iter().rposition(|piece| piece.is_parity) else {
                unreachable!("a column has a piece of parity");
            };
            if let Some(parity) = solve(&mut pieces, last) {
                let address_bytes = pieces[last].address_bytes;
                self.writes.write_behind(&(), address_bytes, parity)?;
            }
        }
        Ok(())
    }

    /// The address of the first piece of data that differs from the written bytes.
    fn first_wrong(&self, pieces: &[Piece]) -> Option<u64> {
        let (manifest, sums) = (&self.unsealed.manifest, SumRange::all(&self.sums));
        let is_wrong = |piece: &&Piece| {
            let bytes = piece.buf.as_deref().filter(|_| !piece.is_parity);
            bytes.is_some_and(|bytes| !is_written(manifest, piece.address_bytes, bytes, sums))
        };
        pieces
            .iter()
            .find(is_wrong)
            .map(|piece| piece.address_bytes)
    }

    /// Reads a column again, because its bytes at `wrong_at_bytes` differ from the written ones.
    fn read_again(&self, column: Column, wrong_at_bytes: u64) -> Result<Vec<Piece>> {
        let unsealed = &self.unsealed;
        let full_bytes = unsealed.manifest.full_bytes();
        let mut groups =
            GroupReader::new(&unsealed.striped, full_bytes, Room::RESCUE, &self.budget)?;
        groups.ask(column, |piece| !piece.is_parity)?;
        let pieces = groups.next()?.map(|(_, pieces)| pieces).unwrap_or_default();
        if let Some(fault) = pieces.iter().find_map(|piece| piece.fault) {
            return Err(unsealed.striped.explain(&fault));
        }
        let Some(_) = self.first_wrong(&pieces) else {
            return Ok(pieces);
        };
        let damage = Damage::at(&unsealed.manifest, &unsealed.striped, wrong_at_bytes, 1);
        let cause = "twice, the drive returned other bytes than were written";
        Err(Error::corrupt(WRITE, cause)
            .drive(&damage.drive)
            .path(&damage.path)
            .offset(damage.offset_bytes)
            .hint("check the drive; `outcore volume replace` rebuilds it elsewhere"))
    }

    /// Completes the dataset; the last `index_bytes` of the pushed bytes are its index.
    ///
    /// # Errors
    /// A write or sync that failed; a dataset of that name that has appeared. Nothing remains then.
    pub fn seal(mut self, index_bytes: u64, files: u64) -> Result<Manifest> {
        self.unsealed.manifest.files = files;
        self.unsealed.manifest.index_bytes = index_bytes;
        self.unsealed.manifest.len_bytes = self.written_bytes - index_bytes;
        let sums: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        self.unsealed.manifest.sums_checksum = bytes_checksum(&sums);
        if let Some(parity) = &self.unsealed.parity {
            parity.reopen_from(block_ceil(self.written_bytes));
        }
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
            if share.is_used() {
                self.unsealed.volume.device.set_len(drive.file, len_bytes)?;
            }
        }
        // Ranges that are not written yet read as zeros.
        self.write_missing_parity()?;
        self.writes.finish(|| Ok(()))?;
        self.unsealed.striped.sync()?;
        // Nothing is in flight any more.
        self.unsealed.publish()
    }
}

impl Unsealed {
    /// Seals `len_bytes` of data that are already in place, with the checksums of their checksum
    /// blocks.
    ///
    /// # Errors
    /// The errors of [`DatasetWriter::seal`].
    pub(super) fn seal(self, len_bytes: u64, sums: Vec<u64>, budget: &Budget) -> Result<Manifest> {
        let mut writer = DatasetWriter::of(self, budget)?;
        writer.written_bytes = len_bytes;
        writer.sums = sums;
        writer.seal(0, 1)
    }

    fn publish(mut self) -> Result<Manifest> {
        let volume = self.volume.clone();
        let name = self.manifest.name.clone();
        // If two writers replace the same dataset, each removes only its own predecessor.
        let _lock = volume.lock_names()?;
        if !self.replace && volume.contains(&name) {
            return Err(
                Error::usage(WRITE, format!("@{name} has been created in the meantime"))
                    .hint("allow replacing it with --force, or name another dataset"),
            );
        }
        let replaced = volume.id_of(&name);
        if self.only_over.is_some() && self.only_over != replaced {
            let cause = format!("@{name} has been replaced or removed in the meantime");
            return Err(Error::usage(WRITE, cause));
        }
        self.manifest.generation = volume.generation_of(&name) + 1;
        let is_used = |index: &usize| self.manifest.shares[*index].is_used();
        let used = (0..self.manifest.shares.len()).filter(is_used);
        let mut renames: Vec<Rename> = used
            .map(|index| Rename {
                from: self.stage.path(index, STAGED),
                to: volume.share_path(&self.manifest.id, index),
            })
            .collect();
        // The copies come after the shares, so that a reader that finds a copy also finds the data.
        renames.extend(volume.stage_copies(&self.manifest, &self.stage)?);
        let replaced = replaced.filter(|id| *id != self.manifest.id);
        // After a kill from here on, the sweep removes the replaced files together with unfinished
        // files.
        let removals = replaced.iter().flat_map(|id| {
            self.stage.iter().filter_map(|(index, dir)| {
                let gone = dir.path().join(REPLACED);
                let path = volume.share_path(id, index);
                path.exists().then_some(Rename {
                    from: path,
                    to: gone,
                })
            })
        });
        let all: Vec<_> = renames.iter().cloned().chain(removals).collect();
        PrivateDir::commit(self.stage.dirs(), &all, true)?;
        // From here on the dataset exists: a sweep that finds the record finishes the renames.
        let failures: Vec<Error> = renames
            .iter()
            .filter_map(|Rename { from, to }| volume.device.rename(from, to, true).err())
            .collect();
        if let Some(error) = failures.into_iter().next() {
            self.stage.leave();
            return Err(
                error.hint("the dataset is whole: the next command on this volume publishes it")
            );
        }
        for Rename { to: sealed, .. } in &renames {
            // Read-only permissions are a reminder for people and programs; the owner of the drive
            // can still change the file.
            if let Some(mode) = folder::mode(sealed) {
                let _ = folder::set_mode(sealed, mode & (0o400 | self.readers));
            }
        }
        let removed = replaced.map(|id| volume.remove_shares(&id));
        if let Some(Err(error)) = removed {
            self.stage.leave();
            return Err(error.hint(
                "the dataset is whole: the next put on this volume removes the previous one",
            ));
        }
        Ok(self.manifest)
    }
}
