//! Flushes and trims of a trace: blocking calls, made by a separate thread.
//!
//! Contract: [`FlushWorker::send`] returns at once. Commands are executed in order. A flush makes
//! all completed writes of all drives durable, like a flush of a block device. A trim frees the
//! blocks of its range. Neither waits for reads and writes under way. A drive without trim is not
//! an error: rejected trims are counted. The thread ends with its owner.
//!
//! Bounds: [`UNDER_WAY_MAX`] commands at a time; the owner asks [`FlushWorker::has_room`] first.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use outcore::{Error, Kind, Result};
use outcore_io::threads::spawn;
use outcore_store::striped::StripedVolume;
use rustix::io::Errno;

/// Maximum number of commands under way.
pub(super) const UNDER_WAY_MAX: usize = 64;
const OPERATION: &str = "replay trace";

/// A command that moves no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushOrTrim {
    /// Makes earlier writes durable.
    Flush,
    /// Frees a range of the volume.
    Trim {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
}

/// A completed command.
#[derive(Debug)]
pub(super) struct Returned {
    /// Its sender's tag.
    pub(super) tag: u64,
    /// The command.
    pub(super) command: FlushOrTrim,
    /// Its release time, given by its sender.
    pub(super) released_ns: u64,
    /// Completion time, on the device's clock.
    pub(super) at_ns: u64,
    /// Whether the drives accepted it.
    pub(super) is_taken: bool,
}

type Sent = (FlushOrTrim, u64, u64);

/// The thread and the commands under way.
pub(super) struct FlushWorker {
    /// `None` makes the thread end.
    to: Option<SyncSender<Sent>>,
    from: Receiver<Result<Returned>>,
    thread: Option<JoinHandle<()>>,
    under_way: usize,
}

impl FlushWorker {
    /// Creates no thread before the first command.
    pub(super) fn new() -> Self {
        FlushWorker {
            to: None,
            from: sync_channel(0).1,
            thread: None,
            under_way: 0,
        }
    }

    /// Number of commands that are not done.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether another command may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < UNDER_WAY_MAX
    }

    /// Sends a command.
    ///
    /// # Errors
    /// The thread cannot be created, or has ended.
    pub(super) fn send(
        &mut self,
        volume: &StripedVolume,
        command: FlushOrTrim,
        tag: u64,
        released_ns: u64,
    ) -> Result<()> {
        if self.to.is_none() {
            self.start(volume)?;
        }
        let sent = self
            .to
            .as_ref()
            .map(|to| to.send((command, tag, released_ns)));
        if !matches!(sent, Some(Ok(()))) {
            return Err(gone());
        }
        self.under_way += 1;
        Ok(())
    }

    fn start(&mut self, volume: &StripedVolume) -> Result<()> {
        let (to, flush_worker) = sync_channel::<Sent>(UNDER_WAY_MAX);
        let (back, from) = sync_channel(UNDER_WAY_MAX);
        let volume = volume.clone();
        let work = move || {
            for sent in flush_worker {
                if back.send(run(&volume, sent)).is_err() {
                    return;
                }
            }
        };
        let thread = spawn("flush-trim", work)?;
        (self.to, self.from, self.thread) = (Some(to), from, Some(thread));
        Ok(())
    }

    /// Moves completed commands to `returned`, waiting up to `wait` for the first one.
    ///
    /// # Errors
    /// Errors of the drives.
    pub(super) fn collect(&mut self, wait: Duration, returned: &mut Vec<Returned>) -> Result<()> {
        let mut wait = wait;
        while self.under_way > 0 {
            let next = match wait.is_zero() {
                true => self.from.try_recv().ok(),
                false => self.from.recv_timeout(wait).ok(),
            };
            let Some(next) = next else {
                let is_gone = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
                return if is_gone { Err(gone()) } else { Ok(()) };
            };
            self.under_way -= 1;
            returned.push(next?);
            wait = Duration::ZERO;
        }
        Ok(())
    }
}

impl Drop for FlushWorker {
    fn drop(&mut self) {
        // The results are no longer read, so the thread ends after its current command.
        self.to = None;
        self.from = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // The thread has no result, and a panic has already been reported.
            let _ = thread.join();
        }
    }
}

fn run(volume: &StripedVolume, (command, tag, released_ns): Sent) -> Result<Returned> {
    let done = match command {
        FlushOrTrim::Flush => volume.sync(),
        FlushOrTrim::Trim {
            offset_bytes,
            len_bytes,
        } => volume.punch(offset_bytes, len_bytes),
    };
    let is_unknown = |error: &Error| {
        matches!(command, FlushOrTrim::Trim { .. })
            && error.raw_errno() == Some(Errno::OPNOTSUPP.raw_os_error())
    };
    let is_taken = match done {
        Ok(()) => true,
        Err(error) if is_unknown(&error) => false,
        Err(error) => return Err(error),
    };
    Ok(Returned {
        tag,
        command,
        released_ns,
        at_ns: volume.device().now_ns(),
        is_taken,
    })
}

fn gone() -> Error {
    Error::new(
        Kind::Io,
        OPERATION,
        "the thread that flushes and trims is gone",
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use outcore_io::drive::testing::{RamDevice, RamOptions};
    use outcore_store::striped::{Member, StripeOptions};

    use super::*;

    #[test]
    fn a_trim_empties_its_range_on_every_drive_and_a_flush_comes_back() {
        let ram = RamDevice::new(RamOptions::default());
        let names = ["/d0/a", "/d1/b"];
        names
            .iter()
            .for_each(|name| ram.put(name, vec![7; 64 << 10]));
        let members = names.map(|name| Member::new(PathBuf::from(name)));
        let options = StripeOptions {
            stripe_bytes: 4096,
            ..StripeOptions::default()
        };
        let volume = StripedVolume::open(Arc::new(ram.clone()), &members, options).unwrap();
        let mut flush_worker = FlushWorker::new();
        let trim = FlushOrTrim::Trim {
            offset_bytes: 4096,
            len_bytes: 5 * 4096,
        };
        flush_worker.send(&volume, trim, 1, 0).unwrap();
        flush_worker
            .send(&volume, FlushOrTrim::Flush, 2, 0)
            .unwrap();
        let mut returned = Vec::new();
        while flush_worker.under_way() > 0 {
            flush_worker
                .collect(Duration::from_millis(5), &mut returned)
                .unwrap();
        }
        let tags: Vec<u64> = returned.iter().map(|one| one.tag).collect();
        assert_eq!(tags, [1, 2]);
        // Stripes 1 to 5: rows 1 and 2 of the first drive, rows 0 to 2 of the second.
        let emptied = |name: &str| -> Vec<usize> {
            let bytes = ram.get(name).unwrap();
            let rows = bytes.chunks(4096).enumerate();
            rows.filter(|(_, row)| row.iter().all(|byte| *byte == 0))
                .map(|(at, _)| at)
                .collect()
        };
        assert_eq!(emptied(names[0]), [1, 2]);
        assert_eq!(emptied(names[1]), [0, 1, 2]);
    }

    #[test]
    fn who_leaves_early_waits_for_one_errand_at_most() {
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d0/a", vec![7; 64 << 10]);
        let members = [Member::new(PathBuf::from("/d0/a"))];
        let options = StripeOptions::default();
        let volume = StripedVolume::open(Arc::new(ram), &members, options).unwrap();
        let mut flush_worker = FlushWorker::new();
        for tag in 0..UNDER_WAY_MAX as u64 {
            flush_worker
                .send(&volume, FlushOrTrim::Flush, tag, 0)
                .unwrap();
        }
        assert!(!flush_worker.has_room());
    }
}
