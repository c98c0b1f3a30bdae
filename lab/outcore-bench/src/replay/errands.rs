//! Flushes and trims of a trace: calls that block, made by a thread of their own.
//!
//! Contract: [`Errands::send`] returns at once, and what was sent is done in turn, whole: a flush makes
//! all drives' writes that have come back durable, as a flush of a block device does; a trim gives the
//! blocks of its range back. Neither waits for reads and writes under way. A drive that knows no trim
//! is no fault: what it refused is counted. The thread ends with its owner.
//!
//! Bounds: [`ERRANDS_MAX`] errands at a time; the owner asks [`Errands::has_room`] first.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use outcore::error::{Error, Kind, Result};
use outcore::threads::spawn;
use outcore::volume::striped::StripedVolume;
use rustix::io::Errno;

/// Errands under way at most.
pub(super) const ERRANDS_MAX: usize = 64;
const OPERATION: &str = "replay trace";

/// What moves no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// Make durable what was written.
    Flush,
    /// Give back a range of the volume.
    Trim {
        /// First byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
    },
}

/// An errand that is done.
#[derive(Debug)]
pub(super) struct Returned {
    /// What its sender wrote on it.
    pub(super) tag: u64,
    /// What was asked.
    pub(super) errand: Errand,
    /// When it was due, as its sender said.
    pub(super) released_ns: u64,
    /// When it was done, on the device's clock.
    pub(super) at_ns: u64,
    /// Whether the drives took it.
    pub(super) is_taken: bool,
}

type Sent = (Errand, u64, u64);

/// The thread and what is under way with it.
pub(super) struct Errands {
    /// Gone when the thread is to end.
    to: Option<SyncSender<Sent>>,
    from: Receiver<Result<Returned>>,
    thread: Option<JoinHandle<()>>,
    under_way: usize,
}

impl Errands {
    /// On `volume`; no thread is made before the first errand.
    pub(super) fn new() -> Self {
        Errands {
            to: None,
            from: sync_channel(0).1,
            thread: None,
            under_way: 0,
        }
    }

    /// Errands that are not done.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether another may be sent.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < ERRANDS_MAX
    }

    /// Sends one.
    ///
    /// # Errors
    /// No thread can be made, or it is gone.
    pub(super) fn send(
        &mut self,
        volume: &StripedVolume,
        errand: Errand,
        tag: u64,
        released_ns: u64,
    ) -> Result<()> {
        if self.to.is_none() {
            self.start(volume)?;
        }
        let sent = self
            .to
            .as_ref()
            .map(|to| to.send((errand, tag, released_ns)));
        if !matches!(sent, Some(Ok(()))) {
            return Err(gone());
        }
        self.under_way += 1;
        Ok(())
    }

    fn start(&mut self, volume: &StripedVolume) -> Result<()> {
        let (to, errands) = sync_channel::<Sent>(ERRANDS_MAX);
        let (back, from) = sync_channel(ERRANDS_MAX);
        let volume = volume.clone();
        let work = move || {
            for sent in errands {
                if back.send(run(&volume, sent)).is_err() {
                    return;
                }
            }
        };
        let thread = spawn("flush-trim", work)?;
        (self.to, self.from, self.thread) = (Some(to), from, Some(thread));
        Ok(())
    }

    /// Moves what is done to `returned`, waiting up to `wait` for the first.
    ///
    /// # Errors
    /// The drives' own.
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

impl Drop for Errands {
    fn drop(&mut self) {
        // Nobody reads the answers any more: the thread ends behind the errand that it is at.
        self.to = None;
        self.from = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            // It has no result, and a panic has been reported on its way.
            let _ = thread.join();
        }
    }
}

fn run(volume: &StripedVolume, (errand, tag, released_ns): Sent) -> Result<Returned> {
    let done = match errand {
        Errand::Flush => volume.sync(),
        Errand::Trim {
            offset_bytes,
            len_bytes,
        } => volume.punch(offset_bytes, len_bytes),
    };
    let is_unknown = |error: &Error| {
        matches!(errand, Errand::Trim { .. })
            && error.raw_errno() == Some(Errno::OPNOTSUPP.raw_os_error())
    };
    let is_taken = match done {
        Ok(()) => true,
        Err(error) if is_unknown(&error) => false,
        Err(error) => return Err(error),
    };
    Ok(Returned {
        tag,
        errand,
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

    use outcore::drive::testing::{RamDevice, RamOptions};
    use outcore::volume::striped::{Member, StripeOptions};

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
        let mut errands = Errands::new();
        let trim = Errand::Trim {
            offset_bytes: 4096,
            len_bytes: 5 * 4096,
        };
        errands.send(&volume, trim, 1, 0).unwrap();
        errands.send(&volume, Errand::Flush, 2, 0).unwrap();
        let mut returned = Vec::new();
        while errands.under_way() > 0 {
            errands
                .collect(Duration::from_millis(5), &mut returned)
                .unwrap();
        }
        let tags: Vec<u64> = returned.iter().map(|one| one.tag).collect();
        assert_eq!(tags, [1, 2]);
        // Stripes 1 to 5: of the first drive rows 1 and 2, of the second 0 to 2.
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
        let mut errands = Errands::new();
        for tag in 0..ERRANDS_MAX as u64 {
            errands.send(&volume, Errand::Flush, tag, 0).unwrap();
        }
        assert!(!errands.has_room());
    }
}
