//! The result of a job, read while it is produced, without a file in between.
//!
//! Contract: [`stream`] runs a job that writes to a pipe on a thread of its own. It passes the
//! bytes to the caller, in order, on the caller's thread. If the caller fails, the job is stopped
//! and the caller's error is returned.
//!
//! Bounds: at most [`CHUNKS`] chunks of [`CHUNK_BYTES`] wait.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

use crate::ends::Output;
use crate::job::Job;
use outcore_io::Result;
use outcore_io::threads::spawn_scoped;

/// Bytes that are passed on at once, and how many such chunks may wait.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS: usize = 3;

/// Sends the written bytes; fails once the receiver is gone.
struct ToReader(SyncSender<Vec<u8>>);

impl Write for ToReader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.send(taken.to_vec()).map_err(gone)?;
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `work`, which writes to the output that it receives, and passes the bytes to `read`.
///
/// # Errors
/// The errors of `read` and `work`; [`crate::Kind::Memory`]: the chunks do not fit.
pub fn stream<T: Send>(
    job: &Job,
    work: impl FnOnce(Output) -> Result<T> + Send,
    mut read: impl FnMut(&[u8]) -> Result<()>,
) -> Result<T> {
    let bytes = ((CHUNKS + 2) * CHUNK_BYTES) as u64;
    let _chunks = job.budget.reserve("chunks for the reader", bytes)?;
    let (send, received) = sync_channel(CHUNKS);
    let output = Output::Pipe(Mutex::new(Box::new(ToReader(send))));
    std::thread::scope(|scope| {
        let thread = spawn_scoped(scope, "outcore", move || work(output))?;
        let taken = received.iter().try_for_each(|bytes| read(&bytes));
        // The job's next write finds no receiver, so the job ends.
        drop(received);
        let done = match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        taken.and(done)
    })
}
