//! Files that are written from front to back while something else is computed.
//!
//! Contract: an [`AppendedFile`] takes bytes in order from the thread whose turn it is. A separate
//! thread ([`write_files`]) writes full buffers to the drives, several at a time. A failed write is
//! an error of the next append, and of [`write_files`]. Appended bytes are also hashed, for files
//! that are small enough to be checked as a whole.
//!
//! Bounds: [`BUFFERS`] buffers per file.

use std::hash::Hasher;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::job::Job;
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Buf, Pool, block_ceil};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::threads::spawn_scoped;
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Result};
use twox_hash::XxHash3_64;

/// Buffers of a file, including the one that is being filled.
const BUFFERS: usize = 4;
/// Length of a buffer of a file that is written alone.
const BUFFER_BYTES: usize = 256 << 10;
/// How long a thread waits for a buffer before it checks for an error.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const APPENDED: &str = "files that are written";

/// A full buffer to be written.
struct Write {
    file: VolumeFile,
    at_bytes: u64,
    buf: Buf,
}

/// State shared by the writer and the appenders.
#[derive(Default)]
struct State {
    failure: Mutex<Option<Error>>,
    changed: Condvar,
}

impl State {
    fn failure(&self) -> MutexGuard<'_, Option<Error>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<()> {
        self.failure().clone().map_or(Ok(()), Err)
    }

    /// Wakes the threads that wait for a buffer. No thread can miss the signal between its check
    /// and its wait.
    fn tell(&self) {
        drop(self.failure());
        self.changed.notify_all();
    }
}

/// Creates appended files.
pub struct Appender {
    writes: Sender<Write>,
    state: Arc<State>,
}

/// A file that grows at its end.
pub struct AppendedFile {
    file: VolumeFile,
    pool: Pool,
    writes: Sender<Write>,
    state: Arc<State>,
    buf: Option<Buf>,
    filled: usize,
    at_bytes: u64,
    hasher: Option<XxHash3_64>,
}

/// The result of a finished file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Appended {
    /// The length of the file.
    pub len_bytes: u64,
    /// The checksum of the whole file, if it was hashed.
    pub sum: u64,
}

impl Appender {
    /// An empty file, written in buffers of that length.
    ///
    /// # Errors
    /// [`crate::Kind::Memory`] for the buffers.
    pub fn file(
        &self,
        job: &Job,
        file: &VolumeFile,
        buffer_bytes: usize,
        is_hashed: bool,
    ) -> Result<AppendedFile> {
        Ok(AppendedFile {
            file: file.clone(),
            pool: Pool::new(&job.budget, APPENDED, buffer_bytes, BUFFERS)?,
            writes: self.writes.clone(),
            state: Arc::clone(&self.state),
            buf: None,
            filled: 0,
            at_bytes: 0,
            hasher: is_hashed.then(XxHash3_64::new),
        })
    }
}

impl AppendedFile {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The errors of writing these bytes or earlier ones.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.write(bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buf = match self.buf.take() {
                Some(buf) => buf,
                None => self.next_buffer()?,
            };
            let now = rest.len().min(buf.len() - self.filled);
            buf[self.filled..self.filled + now].copy_from_slice(&rest[..now]);
            self.filled += now;
            rest = &rest[now..];
            match self.filled == buf.len() {
                true => self.send(buf)?,
                false => self.buf = Some(buf),
            }
        }
        Ok(())
    }

    /// Writes the rest, padded to whole blocks; the code that publishes the file truncates it to
    /// its length.
    ///
    /// # Errors
    /// The errors of [`AppendedFile::append`].
    pub fn finish(mut self) -> Result<Appended> {
        let len_bytes = self.at_bytes + self.filled as u64;
        if let Some(mut buf) = self.buf.take() {
            let whole = block_ceil(self.filled as u64) as usize;
            buf[self.filled..whole].fill(0);
            let rest = buf.split_to(whole);
            self.send(rest)?;
        }
        let sum = self.hasher.map_or(0, |hasher| hasher.finish());
        Ok(Appended { len_bytes, sum })
    }

    fn send(&mut self, buf: Buf) -> Result<()> {
        let write = Write {
            file: self.file.clone(),
            at_bytes: self.at_bytes,
            buf,
        };
        self.at_bytes += self.filled as u64;
        self.filled = 0;
        if self.writes.send(write).is_err() {
            self.state.check()?;
            return Err(Error::interrupted());
        }
        Ok(())
    }

    fn next_buffer(&mut self) -> Result<Buf> {
        loop {
            let failure = self.state.failure();
            if let Some(error) = &*failure {
                return Err(error.clone());
            }
            if let Some(buf) = self.pool.take() {
                return Ok(buf);
            }
            // A completed write wakes this thread; a check now and then is cheap.
            drop(self.state.changed.wait_timeout(failure, LOOK_EVERY));
        }
    }
}

/// Runs `work`, which appends to files of `volume`, in parallel with the writing thread; everything
/// is on the drives on return.
///
/// # Errors
/// The errors of `work` and of writing.
pub fn write_files<T>(
    job: &Job,
    volume: &Volume,
    work: impl FnOnce(Appender) -> Result<T>,
) -> Result<T> {
    let (send, received) = channel();
    let state = Arc::new(State::default());
    std::thread::scope(|scope| {
        let of_writer = Arc::clone(&state);
        let writer = spawn_scoped(scope, "outcore-append", move || {
            let done = write_all(job, volume, &received, &of_writer);
            if let Err(error) = &done {
                *of_writer.failure() = Some(error.clone());
            }
            drop(received);
            of_writer.tell();
            done
        })?;
        let appender = Appender {
            writes: send,
            state: Arc::clone(&state),
        };
        // All files are dropped in `work`, which ends the writer's wait.
        let made = work(appender);
        let written = match writer.join() {
            Ok(written) => written,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        written.and(made)
    })
}

/// Creates the file at `path` from the bytes that `work` appends.
///
/// # Errors
/// The errors of `work` and of writing.
pub fn append_to<T>(
    job: &Job,
    path: &Path,
    work: impl FnOnce(&mut AppendedFile) -> Result<T>,
) -> Result<T> {
    let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
    let file = volume.open(path, Access::Create)?;
    let (made, done) = write_files(job, &volume, |appender| {
        let mut appended = appender.file(job, &file, BUFFER_BYTES, false)?;
        let made = work(&mut appended)?;
        Ok((made, appended.finish()?))
    })?;
    volume.device().set_len(file.id, done.len_bytes)?;
    volume.close(&file);
    Ok(made)
}

fn write_all(job: &Job, volume: &Volume, received: &Receiver<Write>, state: &State) -> Result<()> {
    let mut transfers = Transfers::<()>::new(volume)?;
    let check = || job.control.check();
    loop {
        let next = match transfers.in_flight() {
            0 => received.recv().ok(),
            _ => match received.try_recv() {
                Ok(write) => Some(write),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => None,
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    transfers.wait()?;
                    state.tell();
                    continue;
                }
            },
        };
        let Some(write) = next else {
            return transfers.finish(check);
        };
        check()?;
        debug_assert_eq!(write.buf.len() % BLOCK_BYTES, 0);
        transfers.write_behind(&write.file, write.at_bytes, write.buf)?;
        state.tell();
    }
}
