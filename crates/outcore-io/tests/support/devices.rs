//! A device for tests that passes each finished transfer, with its file's name, to a hook.
//!
//! Contract: passes everything on to the inner device. The hook sees completions in the order in
//! which queues return them and may change result and buffer. Hooks implement full drives, rotten
//! scratch, cancelled jobs, and inputs truncated at the n-th transfer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore_io::Result;
use outcore_io::drive::{
    Access, Completion, Device, FileFacts, FileId, FileSystem, Op, PrivateDir, Queue, Request,
    Stores,
};

/// Sees, and may change, a finished transfer of the file of that name.
pub type Hook = dyn Fn(&Path, &mut Completion) + Send + Sync;

type Names = Arc<Mutex<HashMap<FileId, PathBuf>>>;

/// Sees a transfer of the file of that name at its start.
pub type StartHook = dyn Fn(&Path, &Request) + Send + Sync;

/// Receives the new name of a file that was renamed.
pub type RenameHook = dyn Fn(&Path) + Send + Sync;

/// A device with a hook on its transfers.
pub struct HookDevice {
    inner: Arc<dyn Device>,
    names: Names,
    start_hook: Arc<StartHook>,
    hook: Arc<Hook>,
    rename_hook: Arc<RenameHook>,
    holds_writes: bool,
}

impl HookDevice {
    /// `inner`, with `hook` called for each of its transfers.
    pub fn new(
        inner: Arc<dyn Device>,
        hook: impl Fn(&Path, &mut Completion) + Send + Sync + 'static,
    ) -> Self {
        Self::with_starts(inner, |_, _| (), hook)
    }

    /// Like [`HookDevice::new`], with `start_hook` called for each transfer that starts.
    pub fn with_starts(
        inner: Arc<dyn Device>,
        start_hook: impl Fn(&Path, &Request) + Send + Sync + 'static,
        hook: impl Fn(&Path, &mut Completion) + Send + Sync + 'static,
    ) -> Self {
        HookDevice {
            inner,
            names: Names::default(),
            start_hook: Arc::new(start_hook),
            hook: Arc::new(hook),
            rename_hook: Arc::new(|_| ()),
            holds_writes: false,
        }
    }

    /// Lets writes take long: a queue returns one only to a caller that waits and that nothing else
    /// can wake.
    pub fn holding_writes(self) -> Self {
        HookDevice {
            holds_writes: true,
            ..self
        }
    }

    /// Adds `hook`, called with the new name after each rename.
    pub fn after_renames(self, hook: impl Fn(&Path) + Send + Sync + 'static) -> Self {
        HookDevice {
            rename_hook: Arc::new(hook),
            ..self
        }
    }
}

impl FileSystem for HookDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        let file = self.inner.open(path, access)?;
        self.names.lock().unwrap().insert(file, path.to_path_buf());
        Ok(file)
    }

    fn close(&self, file: FileId) {
        self.inner.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.inner.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.inner.set_len(file, len_bytes)
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.inner.allocate(file, len_bytes)
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.inner.punch(file, offset_bytes, len_bytes)
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.inner.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.inner.rename(from, to, replace)?;
        (self.rename_hook)(to);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        self.inner.file_system(dir)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.inner.make_private_dir(parent)
    }

    fn reopen_private_dir(&self, path: &Path) -> Result<Option<PrivateDir>> {
        self.inner.reopen_private_dir(path)
    }

    fn sweep_private_dirs(&self, parent: &Path) -> Result<Vec<PathBuf>> {
        self.inner.sweep_private_dirs(parent)
    }

    fn stores(&self) -> Option<&dyn Stores> {
        self.inner.stores()
    }
}

impl Device for HookDevice {
    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(HookQueue {
            inner: self.inner.queue(depth_max)?,
            names: Arc::clone(&self.names),
            start_hook: Arc::clone(&self.start_hook),
            hook: Arc::clone(&self.hook),
            holds_writes: self.holds_writes,
            held: Vec::new(),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}

struct HookQueue {
    inner: Box<dyn Queue>,
    names: Names,
    start_hook: Arc<StartHook>,
    hook: Arc<Hook>,
    holds_writes: bool,
    held: Vec<Completion>,
}

impl HookQueue {
    fn name_of(&self, file: FileId) -> PathBuf {
        let name = self.names.lock().unwrap().get(&file).cloned();
        name.unwrap_or_default()
    }
}

impl Queue for HookQueue {
    fn submit(&mut self, request: Request) {
        (self.start_hook)(&self.name_of(request.file), &request);
        self.inner.submit(request);
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let before = done.len();
        self.inner.complete(wait, done)?;
        for completion in &mut done[before..] {
            let name = self.name_of(completion.request.file);
            (self.hook)(&name, completion);
        }
        if self.holds_writes {
            let is_held = |completion: &mut Completion| completion.request.op == Op::Write;
            self.held.extend(done.extract_if(before.., is_held));
            if wait.is_some() && done.len() == before && !self.held.is_empty() {
                done.push(self.held.remove(0));
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }
}

/// Whether a file is scratch (by its name inside a private directory).
pub fn is_scratch(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"scratch-"))
}
