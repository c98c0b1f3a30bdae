//! Fault injection: a [`Device`] that fails, kills or corrupts at a chosen I/O.
//!
//! Contract: wraps any device and counts its operations, with one counter for all threads.
//! Operations are reads and writes as they complete, and every call that changes a file or a name.
//! When the count reaches the chosen number, the chosen fault happens once. A fault is an error
//! number, a flipped bit in the data read or written, or SIGKILL or SIGSTOP to this process. Writes
//! whose bit may be flipped are counted when they are submitted. A test that waits for the stop can
//! change files at that point before it sends SIGCONT. Tests walk the number from 1 to the end of a
//! small job, so each I/O of a job is tried. Faults are written as text: `eio@12`, `eio@3:write`,
//! `enospc@5:write`, `flip@7:read`, `kill@9`, `stop@2:read`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use crate::drive::{Access, Completion, Device, FileFacts, FileId, FileSystem, Op};
use crate::drive::{PrivateDir, Queue, QueueLimits, Request, Stores, Waker};
use crate::error::{Error, Result};

/// Kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with this error number.
    Errno(i32),
    /// One bit of the data read or written is flipped.
    FlipBit,
    /// The process is killed right after the operation.
    Kill,
    /// The process is stopped right after the operation, until SIGCONT comes.
    Stop,
}

/// Which operations are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// All operations.
    All,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Syncs.
    Sync,
    /// Everything else: create, set length, reserve, rename, remove.
    Control,
}

/// A fault and when it happens: at the `nth` (from 1) of the counted operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultPlan {
    /// The fault.
    pub fault: Fault,
    /// The number of the operation at which the fault happens.
    pub nth: u64,
    /// The operations that count.
    pub counted: Counted,
}

impl FromStr for FaultPlan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::usage("read fault plan", format!("'{text}'")).hint(
                "write eio@N, enospc@N, flip@N, kill@N or stop@N, with :read, :write, :sync or :control",
            )
        };
        let (what, when) = text.split_once('@').ok_or_else(wrong)?;
        let (nth, counted) = when.split_once(':').unwrap_or((when, "all"));
        let fault = match what {
            "eio" => Fault::Errno(Errno::IO.raw_os_error()),
            "enospc" => Fault::Errno(Errno::NOSPC.raw_os_error()),
            "flip" => Fault::FlipBit,
            "kill" => Fault::Kill,
            "stop" => Fault::Stop,
            _ => return Err(wrong()),
        };
        let counted = match counted {
            "all" => Counted::All,
            "read" => Counted::Read,
            "write" => Counted::Write,
            "sync" => Counted::Sync,
            "control" => Counted::Control,
            _ => return Err(wrong()),
        };
        let nth = nth.parse().map_err(|_| wrong())?;
        Ok(FaultPlan {
            fault,
            nth,
            counted,
        })
    }
}

/// A device with an injected fault.
pub struct FaultDevice {
    inner: Arc<dyn Device>,
    trigger: Arc<Trigger>,
}

struct Trigger {
    plan: FaultPlan,
    seen: AtomicU64,
}

impl Trigger {
    /// Counts one operation; returns the fault if it is due now.
    fn count(&self, kind: Counted) -> Option<Fault> {
        if self.plan.counted != Counted::All && self.plan.counted != kind {
            return None;
        }
        let number = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        (number == self.plan.nth).then_some(self.plan.fault)
    }

    /// Whether the fault is a flipped bit.
    fn flips(&self) -> bool {
        self.plan.fault == Fault::FlipBit
    }

    fn control<T>(
        &self,
        kind: Counted,
        operation: &str,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.count(kind) {
            Some(Fault::Errno(errno)) => Err(Error::errno(operation, errno)),
            Some(fault @ (Fault::Kill | Fault::Stop)) => {
                let result = run();
                signal_self(fault);
                result
            }
            _ => run(),
        }
    }
}

fn signal_self(fault: Fault) {
    let signal = match fault {
        Fault::Stop => Signal::STOP,
        _ => Signal::KILL,
    };
    let _ = kill_process(getpid(), signal);
}

impl FaultDevice {
    /// `inner` with the fault of `plan`.
    pub fn new(inner: Arc<dyn Device>, plan: FaultPlan) -> Self {
        FaultDevice {
            inner,
            trigger: Arc::new(Trigger {
                plan,
                seen: AtomicU64::new(0),
            }),
        }
    }

    /// Operations counted so far: tests stop when a run ends before its fault.
    pub fn operations(&self) -> u64 {
        self.trigger.seen.load(Ordering::SeqCst)
    }
}

impl FileSystem for FaultDevice {
    fn open(&self, path: &Path, access: Access) -> Result<FileId> {
        match access {
            Access::Create => self
                .trigger
                .control(Counted::Control, "create file", || {
                    self.inner.open(path, access)
                })
                .map_err(|e| {
                    if e.file_path().is_some() {
                        e
                    } else {
                        e.path(path)
                    }
                }),
            _ => self.inner.open(path, access),
        }
    }

    fn close(&self, file: FileId) {
        self.inner.close(file);
    }

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        self.inner.facts(file)
    }

    fn set_len(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.trigger
            .control(Counted::Control, "set file length", || {
                self.inner.set_len(file, len_bytes)
            })
    }

    fn allocate(&self, file: FileId, len_bytes: u64) -> Result<()> {
        self.trigger.control(Counted::Control, "reserve space", || {
            self.inner.allocate(file, len_bytes)
        })
    }

    fn punch(&self, file: FileId, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.trigger.control(Counted::Control, "free blocks", || {
            self.inner.punch(file, offset_bytes, len_bytes)
        })
    }

    fn sync(&self, file: FileId) -> Result<()> {
        self.trigger
            .control(Counted::Sync, "sync file", || self.inner.sync(file))
    }

    fn rename(&self, from: &Path, to: &Path, replace: bool) -> Result<()> {
        self.trigger
            .control(Counted::Control, "publish output", || {
                self.inner.rename(from, to, replace)
            })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.trigger
            .control(Counted::Control, "remove file", || self.inner.remove(path))
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.inner.free_bytes(dir)
    }

    fn file_system(&self, dir: &Path) -> Result<u64> {
        self.inner.file_system(dir)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        self.trigger
            .control(Counted::Control, "make scratch directory", || {
                self.inner.make_private_dir(parent)
            })
    }

    fn claim_private_dir(&self, parent: &Path, set: &OsStr) -> Result<PrivateDir> {
        self.trigger
            .control(Counted::Control, "make scratch directory", || {
                self.inner.claim_private_dir(parent, set)
            })
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

impl Device for FaultDevice {
    fn limits(&self, file: FileId) -> QueueLimits {
        self.inner.limits(file)
    }

    fn explain(&self, file: FileId, offset_bytes: u64) -> Option<Error> {
        self.inner.explain(file, offset_bytes)
    }

    fn queue(&self, depth_max: usize) -> Result<Box<dyn Queue>> {
        let inner = self.inner.queue(depth_max)?;
        Ok(Box::new(FaultQueue {
            inner,
            trigger: Arc::clone(&self.trigger),
        }))
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
}

/// Flips the first bit of a transfer.
fn flip(request: &mut Request) {
    let mut slices = request.buf.slices_mut();
    if let Some(byte) = slices.next().and_then(|slice| slice.first_mut()) {
        *byte ^= 1;
    }
}

struct FaultQueue {
    inner: Box<dyn Queue>,
    trigger: Arc<Trigger>,
}

impl Queue for FaultQueue {
    fn submit(&mut self, mut request: Request) {
        if request.op == Op::Write
            && self.trigger.flips()
            && self.trigger.count(Counted::Write).is_some()
        {
            flip(&mut request);
        }
        self.inner.submit(request);
    }

    fn complete(&mut self, wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        let before = done.len();
        self.inner.complete(wait, done)?;
        for completion in &mut done[before..] {
            let kind = match completion.request.op {
                Op::Read => Counted::Read,
                Op::Write => Counted::Write,
            };
            if kind == Counted::Write && self.trigger.flips() {
                continue;
            }
            match self.trigger.count(kind) {
                Some(Fault::Errno(errno)) => completion.result = Err(errno),
                Some(Fault::FlipBit) => flip(&mut completion.request),
                Some(fault @ (Fault::Kill | Fault::Stop)) => signal_self(fault),
                _ => {}
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn waker(&mut self) -> Option<Waker> {
        self.inner.waker()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_plan_is_read_from_text_and_nonsense_is_refused() {
        let plan: FaultPlan = "eio@3:write".parse().unwrap();
        assert_eq!(
            plan,
            FaultPlan {
                fault: Fault::Errno(5),
                nth: 3,
                counted: Counted::Write
            }
        );
        assert_eq!("kill@9".parse::<FaultPlan>().unwrap().counted, Counted::All);
        for wrong in ["", "eio", "eio@x", "eio@3:tape", "boom@1"] {
            assert!(wrong.parse::<FaultPlan>().is_err(), "{wrong}");
        }
    }
}
