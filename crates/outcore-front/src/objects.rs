//! Objects of stores as inputs.
//!
//! Contract: an [`ObjectSource`] is an object that was found: it knows the length and reads the
//! head. It also reads all bytes in order if the engine cannot read the object itself (compressed
//! text). Otherwise the engine opens the object by its name on the job's device.
//!
//! Bounds: [`READ_BYTES`] times [`READS_COUNT`] per reader.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Error, Result};
use outcore_io::drive::objects::no_stores;
use outcore_io::drive::paths::FileKey;
use outcore_io::drive::steady::Identity;
use outcore_io::drive::{Access, Device, FileFacts, Stores};
use outcore_io::memory::{Budget, Pool, block_ceil};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::transfers::{Arrival, Transfers, no_buffer};

/// Length of a read in order.
const READ_BYTES: usize = 4 << 20;
/// Reads in flight.
const READS_COUNT: usize = 4;

/// The stores of a device.
///
/// # Errors
/// Usage: it has none; `operation` and `path` are in the error.
pub fn stores_of<'a>(
    device: &'a Arc<dyn Device>,
    operation: &str,
    path: &Path,
) -> Result<&'a dyn Stores> {
    device.stores().ok_or_else(|| no_stores(operation, path))
}

/// An object that was found.
#[derive(Clone)]
pub struct ObjectSource {
    device: Arc<dyn Device>,
    path: PathBuf,
    facts: FileFacts,
}

impl fmt::Debug for ObjectSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl ObjectSource {
    /// Finds the object called `path`.
    ///
    /// # Errors
    /// Usage: `device` has no stores. I/O: there is no such object, or access is denied.
    pub(crate) fn find(device: &Arc<dyn Device>, path: &Path) -> Result<Self> {
        stores_of(device, "open input", path)?;
        let file = device.open(path, Access::Read)?;
        let facts = device.facts(file);
        device.close(file);
        Ok(ObjectSource {
            device: Arc::clone(device),
            path: path.to_path_buf(),
            facts: facts?,
        })
    }

    /// Identity of its store and of the object in it.
    pub(crate) fn key(&self) -> FileKey {
        FileKey {
            file_system: self.facts.file_system,
            inode: self.facts.inode,
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::of_facts(&self.facts)
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.facts.len_bytes
    }

    /// Up to `len_bytes` of its first bytes.
    pub(crate) fn head(&self, len_bytes: usize) -> Result<Vec<u8>> {
        let there = usize::try_from(self.facts.len_bytes).unwrap_or(usize::MAX);
        let mut head = vec![0; len_bytes.min(there)];
        let got = self.device.read_head(&self.path, &mut head)?;
        head.truncate(got);
        Ok(head)
    }

    /// A reader of the whole object.
    pub(crate) fn open(&self) -> Result<ObjectReader> {
        let volume = Volume::new(Arc::clone(&self.device), &[])?;
        let file = volume.open(&self.path, Access::Read)?;
        let opened = Identity::of_facts(&file.facts);
        self.identity().check(&opened, &self.path)?;
        let budget = Budget::new((READ_BYTES * READS_COUNT) as u64);
        Ok(ObjectReader {
            pool: Pool::new(&budget, "reads of an object", READ_BYTES, READS_COUNT)?,
            transfers: Transfers::new(&volume)?,
            volume,
            file,
            asked_bytes: 0,
            part: None,
            at: 0,
        })
    }
}

/// Reads an object from its beginning.
pub(crate) struct ObjectReader {
    transfers: Transfers<()>,
    volume: Volume,
    file: VolumeFile,
    pool: Pool,
    asked_bytes: u64,
    part: Option<Arrival<()>>,
    at: usize,
}

impl ObjectReader {
    /// The next stretch; nothing at the end.
    fn next_part(&mut self) -> Result<Option<Arrival<()>>> {
        let len_bytes = self.file.facts.len_bytes;
        while self.asked_bytes < len_bytes {
            let Some(mut slot) = self.pool.take() else {
                break;
            };
            let left_bytes = block_ceil(len_bytes - self.asked_bytes).min(READ_BYTES as u64);
            let buf = slot.split_to(left_bytes as usize);
            self.transfers.read(&self.file, self.asked_bytes, buf, ());
            self.asked_bytes += left_bytes;
        }
        if self.transfers.is_empty() {
            return match self.asked_bytes < len_bytes {
                true => Err(no_buffer()),
                false => Ok(None),
            };
        }
        self.transfers.next_in_order(|| Ok(()))
    }
}

impl io::Read for ObjectReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let part = self.part.as_ref();
            let left = part.map_or(&[][..], |part| &part.buf[self.at..part.len_bytes]);
            if !left.is_empty() || bytes.is_empty() {
                let got = left.len().min(bytes.len());
                bytes[..got].copy_from_slice(&left[..got]);
                self.at += got;
                return Ok(got);
            }
            (self.part, self.at) = (None, 0);
            self.part = self.next_part().map_err(io::Error::other)?;
            if self.part.is_none() {
                return Ok(0);
            }
        }
    }
}

impl Drop for ObjectReader {
    fn drop(&mut self) {
        // The read that failed has already returned its error.
        let _ = self.transfers.forget();
        self.volume.close(&self.file);
    }
}

/// The error for a result that consists of several files.
pub fn no_directory(name: &Path) -> Error {
    Error::usage(
        "create output",
        "a store takes single objects, and this result is several files",
    )
    .path(name)
    .hint("write it to a drive, and copy the files with the vendor's tool")
}
