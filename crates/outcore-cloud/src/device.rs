//! Objects as files of a device, in addition to the files of the device below.
//!
//! Contract: [`ObjectDevice::open`](FileSystem::open) opens an object by its name. The object keeps
//! the facts of that moment: length, ETag and time of the last write. Every read is of that
//! version; if the store has another one, the read fails with [`Error::changed_input`]. The inode
//! of an object is made of its name and ETag, so that a
//! [`SteadyDevice`](outcore_io::drive::steady::SteadyDevice) notices at the next open that the name
//! has another version. The drive of an object is its bucket, container or server. Objects cannot
//! be written in place. All other files are those of the device below.
//!
//! Bounds: some hundred bytes per open object; the queues' bounds ([`crate::queue`]).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore_io::drive::objects::{Unfinished, UploadWatch, is_object};
use outcore_io::drive::{
    Access, Device, FileFacts, FileId, FileSystem, PrivateDir, Queue, QueueLimits, Stores,
};
use outcore_io::stop::Stop;
use outcore_io::{Error, Result};

use crate::address::{Address, Scheme};
use crate::cloud::Cloud;
use crate::get;
use crate::open::{Open, Table, number_of};
use crate::queue::ObjectQueue;
use crate::upload;

const OPEN: &str = "open object";

/// See the module.
pub struct ObjectDevice {
    below: Arc<dyn Device>,
    cloud: Cloud,
    table: Arc<Table>,
}

impl ObjectDevice {
    /// `below`, with objects. Connects to nothing before the first use of an object. `stop` ends
    /// waits for a store.
    pub fn new(below: Arc<dyn Device>, stop: Stop) -> Self {
        ObjectDevice {
            below,
            cloud: Cloud::new(stop),
            table: Arc::default(),
        }
    }

    fn refuse_change(&self, file: FileId) -> Result<()> {
        match self.table.get(file) {
            Some(open) => Err(sealed(&open.object.address.path())),
            None => Ok(()),
        }
    }
}

fn sealed(path: &Path) -> Error {
    Error::usage("change object", "objects are not changed in place")
        .path(path)
        .hint("write another object with -o")
}

impl FileSystem for ObjectDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        if !is_object(path) {
            return self.below.open(path, access);
        }
        if access != Access::Read {
            return Err(sealed(path));
        }
        let object = self.cloud.find(path)?;
        Ok(self.table.add(Open::new(object)))
    }

    fn close(&self, file: FileId) {
        match self.table.get(file) {
            Some(_) => self.table.remove(file),
            None => self.below.close(file),
        }
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        match self.table.get(file) {
            Some(open) => Ok(open.facts),
            None => self.below.facts(file),
        }
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.refuse_change(file)?;
        self.below.set_len(file, len_bytes)
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.refuse_change(file)?;
        self.below.allocate(file, len_bytes)
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.refuse_change(file)?;
        self.below.punch(file, offset_bytes, len_bytes)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.refuse_change(file)?;
        self.below.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        match is_object(to) {
            true => Err(sealed(to)),
            false => self.below.rename(from, to, replace),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match is_object(path) {
            true => Err(sealed(path)),
            false => self.below.remove(path),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.below.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        match is_object(dir) {
            true => Ok(number_of(&Address::parse(OPEN, dir)?.place)),
            false => self.below.file_system(dir),
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
        Some(self)
    }
}

impl Device for ObjectDevice {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        let below = self.below.queue(depth_max)?;
        Ok(Box::new(ObjectQueue::new(
            below,
            Arc::clone(&self.table),
            &self.cloud,
        )))
    }

    fn read_head(&self, path: &Path, into: &mut [u8]) -> Result<usize> {
        if !is_object(path) {
            return self.below.read_head(path, into);
        }
        let object = self.cloud.find(path)?;
        let len_bytes = (into.len() as u64).min(object.facts.size);
        if len_bytes == 0 {
            return Ok(0);
        }
        let read = get::read(&object, 0..len_bytes, self.cloud.gets());
        let bytes = self.cloud.wait(read)??;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn limits(&self, file: FileId) -> QueueLimits {
        match self.table.get(file) {
            Some(_) => QueueLimits::default(),
            None => self.below.limits(file),
        }
    }

    fn explain(&self, file: FileId, offset_bytes: u64) -> Option<Error> {
        match self.table.get(file) {
            Some(open) => open.trouble(offset_bytes),
            None => self.below.explain(file, offset_bytes),
        }
    }

    fn now_ns(&self) -> u64 {
        self.below.now_ns()
    }

    fn thread_cpu_ns(&self) -> Option<u64> {
        self.below.thread_cpu_ns()
    }
}

impl Stores for ObjectDevice {
    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>> {
        self.cloud.matching(pattern)
    }

    fn check_new(&self, object: &Path, replace: bool) -> Result<()> {
        let address = writable("create output", object)?;
        let location = address.location("create output")?;
        match !replace && self.cloud.exists(&address, &location)? {
            true => Err(Error::usage("create output", "the object exists already")
                .path(object)
                .hint("allow overwriting with --force, or name another object")),
            // Reaching the place now is cheaper than failing after the work.
            false if replace => self.cloud.exists(&address, &location).map(|_| ()),
            false => Ok(()),
        }
    }

    fn upload(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
        memory_bytes: u64,
        watch: UploadWatch<'_>,
    ) -> Result<()> {
        self.check_new(to, replace)?;
        let address = writable("write object", to)?;
        upload::upload(
            &self.cloud,
            &self.below,
            from,
            &address,
            memory_bytes,
            watch,
        )
    }

    fn unfinished(&self, place: &Path) -> Result<Vec<Unfinished>> {
        upload::unfinished(&self.cloud, &writable("look for uploads", place)?)
    }

    fn abort(&self, unfinished: &Unfinished) -> Result<()> {
        let address = writable("abort upload", &unfinished.object)?;
        upload::abort(&self.cloud, &address)
    }
}

/// The address of a place that takes objects.
fn writable(operation: &str, path: &Path) -> Result<Address> {
    let address = Address::parse(operation, path)?;
    match address.scheme {
        Scheme::Web => Err(
            Error::usage(operation, "outcore only reads from web servers")
                .path(path)
                .hint("write to s3://, gs:// or az://, or to a drive"),
        ),
        _ => Ok(address),
    }
}
