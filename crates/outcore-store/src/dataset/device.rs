//! Datasets as files of a device: read and written in place, on all drives at once.
//!
//! Contract: a [`DatasetDevice`] is the device below it plus a few files, under paths that the
//! caller chooses.
//! - A file for a sealed dataset ([`DatasetDevice::with_input`]) can be opened for reading. Every
//!   checksum block that a read touches is verified. If a block is damaged, the read fails with an
//!   error that names the drive, the file there and the offset in it.
//! - A file that is to become a dataset ([`DatasetDevice::with_output`]) is made inside a private
//!   directory next to that path, as by a [`StagedOutput`](outcore_io::output::StagedOutput). The
//!   rename to the path seals it. It is absent or complete, as with a
//!   [`DatasetWriter`](super::writer::DatasetWriter). Any thread may write its bytes in any order,
//!   each byte once; they are checksummed as they arrive.
//!
//! All other files are those of the device below.
//!
//! The engine sees the datasets of a volume as two drives, one for reading and one for writing.
//!
//! Bounds: checksums take 8 bytes per checksum block from the given budget. In addition, each queue
//! uses at most 4 MiB for checksum blocks that are read in part. Checksum blocks that are written
//! in part stay in memory until they are complete.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::io::Errno;

use super::DatasetVolume;
use super::open::{FIRST_FILE, Growing, Open, Sealed, State, Table};
use super::parity::lock;
use super::queue::DatasetQueue;
use super::writer::NewDataset;
use crate::mapping::{Redundancy, StripeMap, StripeMember};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::{
    Access, Device, FileFacts, FileId, FileSystem, PrivateDir, Queue, QueueLimits, Stores,
};
use outcore_io::error::{Error, Result};
use outcore_io::memory::Budget;
use outcore_io::output::{STAGED_PREFIX, parent_of};

const OPEN: &str = "open dataset";
const WRITE: &str = "write dataset";

/// A device with datasets among its files.
pub struct DatasetDevice {
    below: Arc<dyn Device>,
    volume: DatasetVolume,
    budget: Budget,
    inputs: Vec<(PathBuf, String)>,
    outputs: Vec<(PathBuf, NewDataset)>,
    table: Arc<Table>,
}

impl DatasetDevice {
    /// `below`, with datasets of `volume`, which is on the same device. The memory for checksums
    /// comes from `budget`.
    pub fn new(below: Arc<dyn Device>, volume: DatasetVolume, budget: Budget) -> Self {
        DatasetDevice {
            below,
            volume,
            budget,
            inputs: Vec::new(),
            outputs: Vec::new(),
            table: Arc::default(),
        }
    }

    /// Makes the dataset `name` readable as the file `path`. For a packed directory, the file
    /// contains the packed files one after another.
    #[must_use]
    pub fn with_input(mut self, path: impl Into<PathBuf>, name: &str) -> Self {
        self.inputs.push((path.into(), name.to_string()));
        self
    }

    /// The file published as `path` becomes the dataset `new`; no other output goes to its
    /// directory.
    #[must_use]
    pub fn with_output(mut self, path: impl Into<PathBuf>, new: NewDataset) -> Self {
        self.outputs.push((path.into(), new));
        self
    }

    fn input_at(&self, path: &Path) -> Option<&str> {
        let found = self.inputs.iter().find(|(known, _)| known == path);
        found.map(|(_, name)| name.as_str())
    }

    /// The output whose directory is `path`, or contains it.
    fn output_below(&self, path: &Path) -> Option<&(PathBuf, NewDataset)> {
        let mut outputs = self.outputs.iter();
        outputs.find(|(output, _)| path.starts_with(parent_of(output)))
    }

    /// The output that the file at `path` will become. Such a file is in a private directory next
    /// to the output. If a directory becomes the dataset, its files are staged inside that
    /// directory and are ordinary files.
    fn output_at(&self, path: &Path) -> Option<&(PathBuf, NewDataset)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_staged = name.is_some_and(|name| name.starts_with(STAGED_PREFIX));
        let beside = parent_of(parent_of(path));
        let mut outputs = self.outputs.iter();
        outputs.find(|(output, _)| is_staged && parent_of(output) == beside)
    }

    fn open_input(&self, path: &Path, name: &str) -> Result<FileId> {
        let mut manifest = self.volume.manifest(name)?;
        let (striped, sums, reservation) = loop {
            let error = match self.volume.open_with_sums(&manifest, &self.budget) {
                Ok(opened) => break opened,
                Err(error) => error,
            };
            // The dataset may have moved in the meantime, so that its old files are gone.
            match self.volume.manifest(name) {
                Ok(now) if now.id != manifest.id => manifest = now,
                _ => return Err(error),
            }
        };
        Ok(self.table.add(Open {
            path: path.to_path_buf(),
            state: State::Sealed(Box::new(Sealed {
                manifest,
                striped,
                sums,
                budget: self.budget.clone(),
                _reservation: reservation,
            })),
            troubles: Mutex::default(),
        }))
    }

    fn growing<T>(
        &self,
        file: FileId,
        below: impl FnOnce() -> Result<T>,
        here: impl FnOnce(&Growing) -> Result<T>,
    ) -> Result<T> {
        match self.table.get(file).as_deref() {
            None => below(),
            Some(Open {
                state: State::Growing(growing),
                ..
            }) => here(growing),
            Some(Open { path, .. }) => {
                let error = Error::usage("change dataset", "the dataset is sealed").path(path);
                Err(error.hint("write another dataset; `outcore volume rm` removes the old one"))
            }
        }
    }

    /// The number of the virtual drive that holds all datasets, for reading or for writing.
    fn file_system_of(&self, is_written: bool) -> u64 {
        // No device number of the system is that large.
        bytes_checksum(self.volume.id.as_bytes()) | 1 << 63 | u64::from(is_written)
    }
}

impl FileSystem for DatasetDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        if let Some(name) = self.input_at(path) {
            return match access {
                Access::Read => self.open_input(path, name),
                _ => Err(Error::usage(OPEN, format!("@{name} is sealed"))
                    .hint("write another dataset; `outcore volume rm` removes the old one")),
            };
        }
        match self.output_at(path) {
            Some((_, new)) if access == Access::Create => Ok(self.table.add(Open {
                path: path.to_path_buf(),
                state: State::Growing(Box::new(Growing {
                    new: new.clone(),
                    volume: self.volume.clone(),
                    budget: self.budget.clone(),
                    begun: OnceLock::new(),
                    unsealed: Mutex::new(None),
                    len_bytes: AtomicU64::new(0),
                })),
                troubles: Mutex::default(),
            })),
            _ => self.below.open(path, access),
        }
    }

    fn close(&self, file: FileId) {
        match file.0 < FIRST_FILE {
            true => self.below.close(file),
            false => self.table.remove(file),
        }
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        let Some(open) = self.table.get(file) else {
            return self.below.facts(file);
        };
        let (len_bytes, is_written) = match &open.state {
            State::Sealed(sealed) => (sealed.manifest.len_bytes, false),
            State::Growing(growing) => (growing.len_bytes.load(Ordering::Relaxed), true),
        };
        Ok(FileFacts {
            len_bytes,
            file_system: self.file_system_of(is_written),
            inode: u64::from(file.0),
            modified_ns: 0,
            changed_ns: 0,
            is_direct: true,
            is_in_memory: false,
        })
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        let below = || self.below.set_len(file, len_bytes);
        self.growing(file, below, |growing| {
            growing.begin(len_bytes, false)?;
            growing.len_bytes.store(len_bytes, Ordering::Relaxed);
            Ok(())
        })
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        let below = || self.below.allocate(file, len_bytes);
        self.growing(file, below, |growing| {
            growing.begin(len_bytes, true)?;
            growing.len_bytes.store(len_bytes, Ordering::Relaxed);
            Ok(())
        })
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let below = || self.below.punch(file, offset_bytes, len_bytes);
        self.growing(file, below, |_| {
            Err(Error::errno(WRITE, Errno::OPNOTSUPP.raw_os_error()))
        })
    }

    fn sync(&self, file: FileId) -> Result<()> {
        // Sealing syncs.
        self.growing(file, || self.below.sync(file), |_| Ok(()))
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        match self.table.at(from).as_deref() {
            Some(Open {
                state: State::Growing(growing),
                ..
            }) => {
                let sealed = growing.seal();
                sealed.map(|_| ())
            }
            _ => self.below.rename(from, to, replace),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match self.table.at(path) {
            // An unsealed dataset is removed when it is closed.
            Some(_) => Ok(()),
            None => self.below.remove(path),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        if self.output_below(dir).is_none() {
            return self.below.free_bytes(dir);
        }
        let drives = self.volume.drives().iter();
        let members = drives.map(|drive| {
            Ok(StripeMember {
                capacity_bytes: self.below.free_bytes(&drive.dir)?.min(drive.limit_bytes),
                weight: drive.weight,
            })
        });
        let members = members.collect::<Result<Vec<StripeMember>>>()?;
        match self.volume.redundancy() {
            Redundancy::None => Ok(members.iter().map(|member| member.capacity_bytes).sum()),
            redundancy => {
                let stripe_bytes = self.volume.stripe_bytes();
                let map = StripeMap::with_redundancy(&members, stripe_bytes, 0, redundancy);
                Ok(map.map_or(0, |map| map.len_bytes()))
            }
        }
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        match self.input_at(dir) {
            Some(_) => Ok(self.file_system_of(false)),
            None => self.below.file_system(dir),
        }
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.below.make_private_dir(parent)
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        self.below.claim_private_dir(parent, set)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.below.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.below.sweep_private_dirs(parent)
    }

    fn stores(&self) -> Option<&dyn Stores> {
        self.below.stores()
    }
}

impl Device for DatasetDevice {
    fn limits(&self, file: FileId) -> QueueLimits {
        match self.table.get(file) {
            None => self.below.limits(file),
            Some(_) => QueueLimits::default(),
        }
    }

    fn explain(&self, file: FileId, offset_bytes: u64) -> Option<Error> {
        match self.table.get(file) {
            Some(open) => lock(&open.troubles).get(&offset_bytes).cloned(),
            None => self.below.explain(file, offset_bytes),
        }
    }

    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        let drives = self.volume.drives().len();
        // One request is spread over several drives.
        let depth_below = depth_max + outcore_io::port::LANE_DEPTH * drives;
        Ok(Box::new(DatasetQueue::new(
            self.below.queue(depth_below)?,
            depth_below,
            Arc::clone(&self.table),
        )?))
    }

    fn now_ns(&self) -> u64 {
        self.below.now_ns()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        self.below.thread_cpu_ns()
    }
}
