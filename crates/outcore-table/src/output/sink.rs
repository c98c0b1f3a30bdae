//! Writes the bytes of one file, in order, to its drive or to a stream: the destination of the
//! Parquet and Arrow writers.
//!
//! Contract: a [`Sink`] of a file fills buffers and passes them to a thread of its own, which
//! writes them through [`Transfers`], in whole blocks, with many in flight. The thread exists
//! because the libraries need a writer that can move between threads, and a thread's queue cannot.
//! A drive's error is returned by the next write, and by [`Sink::finish`], with drive, file and
//! offset.
//!
//! A sink of a stream writes directly, in large pieces, and waits for the reader. If the sink is
//! abandoned, it ends the stream in a way that readers reject, if the format has such an end.
//!
//! Bounds: [`SINK_BYTES`] for a file, reserved when it is created; [`STREAM_BYTES`] for a stream.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::options::OpenStream;
use outcore_io::memory::{BLOCK_BYTES, Budget, Buf, Pool};
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::threads;
use outcore_io::transfers::Transfers;
use outcore_io::{Error, Kind, Result};
use std::hash::Hasher as _;
use twox_hash::XxHash3_64;

const WRITE: &str = "write table";
/// The length of a request.
const BUFFER_BYTES: usize = 1 << 20;
const BUFFERS_COUNT: usize = 4;
/// How long a thread waits before it checks again what the drive has written.
const WAIT: Duration = Duration::from_micros(200);
/// The memory that a sink reserves.
pub(crate) const SINK_BYTES: u64 = (BUFFER_BYTES * BUFFERS_COUNT) as u64;

/// Bytes that are written to a stream at once.
const STREAM_BYTES: usize = 256 << 10;

/// See the module.
pub(super) enum Sink {
    File(Box<FileSink>),
    Stream(StreamSink),
}

/// The bytes of a file up to a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Front {
    /// The number of these bytes.
    pub(super) len_bytes: u64,
    /// The checksum of these bytes.
    pub(super) checksum: u64,
    /// The bytes after the last whole block.
    pub(super) tail: Vec<u8>,
}

/// Writes the bytes of a file.
pub(super) struct FileSink {
    /// `None` once everything has been passed on.
    to_drive: Option<Sender<Handed>>,
    free: Receiver<Buf>,
    thread: Option<JoinHandle<()>>,
    /// The drive's error.
    failure: Arc<Mutex<Option<Error>>>,
    current: Option<Buf>,
    /// Bytes in the current buffer.
    filled_bytes: usize,
    /// The current buffer's offset in the file.
    at_bytes: u64,
    /// The number of bytes, from the start, that the file already has and that are not written
    /// again.
    passes_bytes: u64,
    /// The checksum of all bytes so far.
    sum: XxHash3_64,
    /// The number of buffers that were passed on, and of those that the drive has written.
    handed_count: AtomicU64,
    landed_count: Arc<AtomicU64>,
}

/// Writes the bytes of a stream.
pub(super) struct StreamSink {
    /// `Some` until the sink is dropped.
    writer: Option<BufWriter<Box<dyn Write + Send>>>,
    name: PathBuf,
    len_bytes: u64,
    /// Length of the header.
    front_bytes: u64,
    /// The bytes that end an abandoned table, so that no reader takes it as complete.
    torn: &'static [u8],
}

/// The incomplete beginning of an Arrow message. Readers accept a stream as complete if it ends
/// between two messages.
pub(super) const TORN_ARROW: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x10, 0x00];

impl Sink {
    /// Creates a sink for `file`, from its beginning.
    ///
    /// # Errors
    /// Memory: no room for the buffers, reserved as `purpose`. I/O: no thread, no queue.
    pub(super) fn to_file(
        budget: &Budget,
        purpose: &str,
        volume: &Arc<Volume>,
        file: &VolumeFile,
    ) -> Result<Self> {
        let sink = FileSink::new(budget, purpose, volume, file)?;
        Ok(Sink::File(Box::new(sink)))
    }

    /// Creates a sink for a file that already has its first bytes. The sink counts these bytes and
    /// does not write them.
    ///
    /// # Errors
    /// As [`Sink::to_file`].
    pub(super) fn behind(
        budget: &Budget,
        purpose: &str,
        volume: &Arc<Volume>,
        file: &VolumeFile,
        front: &Front,
        sum: XxHash3_64,
    ) -> Result<Self> {
        let mut sink = FileSink::new(budget, purpose, volume, file)?;
        sink.passes_bytes = front.len_bytes;
        sink.sum = sum;
        sink.at_bytes = front.len_bytes - front.tail.len() as u64;
        if !front.tail.is_empty() {
            sink.begin(&front.tail)?;
        }
        Ok(Sink::File(Box::new(sink)))
    }

    /// Passes on whole blocks, and describes the bytes so far; `None` for a stream.
    ///
    /// # Errors
    /// The drive's error.
    pub(super) fn front(&mut self) -> Result<Option<Front>> {
        match self {
            Sink::File(file) => file.front().map(Some),
            Sink::Stream(_) => Ok(None),
        }
    }

    /// Waits until the drive has all that was passed on.
    ///
    /// # Errors
    /// The drive's error.
    pub(super) fn wait(&self, check: impl Fn() -> Result<()>) -> Result<()> {
        match self {
            Sink::File(file) => file.wait(check),
            Sink::Stream(_) => Ok(()),
        }
    }

    /// Creates a sink for a stream, which gets `torn` if the sink is dropped before it is finished.
    pub(super) fn to_stream(stream: OpenStream, torn: &'static [u8]) -> Self {
        Sink::Stream(StreamSink {
            writer: Some(BufWriter::with_capacity(STREAM_BYTES, stream.writer)),
            name: stream.name,
            len_bytes: 0,
            front_bytes: 0,
            torn,
        })
    }

    /// Marks what was written as the header. A stream that is abandoned before any row does not get
    /// it.
    pub(super) fn end_front(&mut self) {
        match self {
            Sink::Stream(stream) => stream.front_bytes = stream.len_bytes,
            // The text after the header is new, so all of it is written.
            Sink::File(file) => file.passes_bytes = 0,
        }
    }

    /// Writes the rest, waits until all is written, and returns the file's length.
    ///
    /// # Errors
    /// Errors of the drive or the stream.
    pub(super) fn finish(self) -> Result<u64> {
        match self {
            Sink::File(file) => file.finish(),
            Sink::Stream(mut stream) => {
                stream.torn = &[];
                stream.front_bytes = 0;
                match stream.writer()?.flush() {
                    Ok(()) => Ok(stream.len_bytes),
                    Err(error) => Err(Error::io(WRITE, &error).path(&stream.name)),
                }
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stream(stream) => {
                let name = stream.name.clone();
                let written = stream.writer().map_err(io::Error::other)?.write(bytes);
                let failed = |error| Error::io(WRITE, &error).path(&name);
                let written = written.map_err(|error| io::Error::other(failed(error)))?;
                stream.len_bytes += written as u64;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StreamSink {
    fn writer(&mut self) -> Result<&mut BufWriter<Box<dyn Write + Send>>> {
        let writer = self.writer.as_mut();
        writer.ok_or_else(|| Error::new(Kind::Io, "write table", "the stream has ended"))
    }
}

impl Drop for StreamSink {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        if self.front_bytes > 0 && self.len_bytes == self.front_bytes {
            // Drops the buffer with the header in it.
            let _ = writer.into_parts();
        } else if !self.torn.is_empty() {
            // The reader may be gone.
            let _ = writer.write_all(self.torn);
            let _ = writer.flush();
        }
    }
}

impl FileSink {
    fn new(
        budget: &Budget,
        purpose: &str,
        volume: &Arc<Volume>,
        file: &VolumeFile,
    ) -> Result<Self> {
        let pool = Pool::new(budget, purpose, BUFFER_BYTES, BUFFERS_COUNT)?;
        let (to_drive, handed) = channel();
        let (give_back, free) = channel();
        while let Some(buf) = pool.take() {
            // The receiver exists as long as the sink.
            let _ = give_back.send(buf);
        }
        let failure = Arc::new(Mutex::new(None));
        let (volume, file, told) = (Arc::clone(volume), file.clone(), Arc::clone(&failure));
        let landed_count = Arc::new(AtomicU64::new(0));
        let landed = Arc::clone(&landed_count);
        let thread = threads::spawn("outcore-table-write", move || {
            let done = |buf: Buf| {
                // This may be a part of a buffer. Dropping it frees the whole buffer, which is then
                // used again.
                drop(buf);
                if let Some(buf) = pool.take() {
                    // The receiver may be gone already.
                    let _ = give_back.send(buf);
                }
                landed.fetch_add(1, Ordering::Release);
            };
            if let Err(error) = write_behind(&volume, &file, &handed, done) {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        })?;
        Ok(FileSink {
            to_drive: Some(to_drive),
            free,
            thread: Some(thread),
            failure,
            current: None,
            filled_bytes: 0,
            at_bytes: 0,
            passes_bytes: 0,
            sum: XxHash3_64::default(),
            handed_count: AtomicU64::new(0),
            landed_count,
        })
    }

    /// Begins a buffer with these bytes.
    fn begin(&mut self, bytes: &[u8]) -> Result<()> {
        let mut buf = self.free.recv().map_err(|_| self.failed())?;
        buf[..bytes.len()].copy_from_slice(bytes);
        self.filled_bytes = bytes.len();
        self.current = Some(buf);
        Ok(())
    }

    /// The drive's error.
    fn failed(&self) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = || Error::new(Kind::Io, WRITE, "the writing thread has ended");
        failure.clone().unwrap_or_else(ended)
    }

    /// As [`Sink::front`].
    fn front(&mut self) -> Result<Front> {
        let whole_bytes = self.filled_bytes - self.filled_bytes % BLOCK_BYTES;
        let mut tail = Vec::new();
        if let Some(mut buf) = self.current.take() {
            tail.extend_from_slice(&buf[whole_bytes..self.filled_bytes]);
            if whole_bytes == 0 {
                self.current = Some(buf);
            } else {
                let blocks = buf.split_to(whole_bytes);
                drop(buf);
                self.hand_over(blocks);
                self.at_bytes += whole_bytes as u64;
                self.begin(&tail)?;
            }
        }
        Ok(Front {
            len_bytes: self.at_bytes + tail.len() as u64,
            checksum: self.sum.finish(),
            tail,
        })
    }

    /// As [`Sink::wait`].
    fn wait(&self, check: impl Fn() -> Result<()>) -> Result<()> {
        while self.landed_count.load(Ordering::Acquire) < self.handed_count.load(Ordering::Relaxed)
        {
            check()?;
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(error) = &*failure {
                return Err(error.clone());
            }
            drop(failure);
            std::thread::sleep(WAIT);
        }
        Ok(())
    }

    /// Writes the rest, waits for the drive, and returns the file's length.
    fn finish(mut self) -> Result<u64> {
        let len_bytes = self.at_bytes + self.filled_bytes as u64;
        if let Some(mut buf) = self.current.take().filter(|_| self.filled_bytes > 0) {
            let whole_bytes = self.filled_bytes.next_multiple_of(BLOCK_BYTES);
            buf[self.filled_bytes..whole_bytes].fill(0);
            let tail = buf.split_to(whole_bytes);
            self.hand_over(tail);
        }
        self.join();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone().map_or(Ok(len_bytes), Err)
    }

    fn hand_over(&self, buf: Buf) {
        self.handed_count.fetch_add(1, Ordering::Relaxed);
        if let Some(to_drive) = &self.to_drive {
            // If the thread does not receive, it has failed and stored its error.
            let _ = to_drive.send(Handed {
                at_bytes: self.at_bytes,
                buf,
            });
        }
    }

    fn join(&mut self) {
        self.to_drive = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let error = Error::new(outcore_io::Kind::Io, "write table", "a thread panicked");
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    fn refused(&self) -> io::Error {
        io::Error::other(self.failed())
    }

    /// As [`Write::write`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.passes_bytes > 0 {
            let passed = (bytes.len() as u64).min(self.passes_bytes);
            self.passes_bytes -= passed;
            return Ok(passed as usize);
        }
        let mut buf = match self.current.take() {
            Some(buf) => buf,
            None => self.free.recv().map_err(|_| self.refused())?,
        };
        let room = &mut buf[self.filled_bytes..];
        let now_bytes = room.len().min(bytes.len());
        room[..now_bytes].copy_from_slice(&bytes[..now_bytes]);
        self.sum.write(&bytes[..now_bytes]);
        self.filled_bytes += now_bytes;
        if self.filled_bytes < buf.len() {
            self.current = Some(buf);
        } else {
            let full_bytes = buf.len() as u64;
            self.hand_over(buf);
            self.at_bytes += full_bytes;
            self.filled_bytes = 0;
        }
        Ok(now_bytes)
    }
}

/// If the output is abandoned, the thread ends before the file is removed.
impl Drop for FileSink {
    fn drop(&mut self) {
        self.join();
    }
}

/// A buffer, and its place in the file.
struct Handed {
    at_bytes: u64,
    buf: Buf,
}

/// Writes buffers until the channel closes.
fn write_behind(
    volume: &Volume,
    file: &VolumeFile,
    handed: &Receiver<Handed>,
    done: impl Fn(Buf),
) -> Result<()> {
    let mut transfers: Transfers<()> = Transfers::new(volume)?;
    let mut is_open = true;
    while is_open || transfers.in_flight() > 0 {
        let next = if transfers.in_flight() == 0 {
            handed.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            handed.try_recv()
        };
        match next {
            Ok(Handed { at_bytes, buf }) => {
                transfers.write(file, at_bytes, buf, ());
                transfers.start()?;
            }
            Err(error) => {
                is_open &= error == TryRecvError::Empty;
                transfers.wait()?;
            }
        }
        while let Some(arrival) = transfers.take()? {
            done(arrival.buf);
        }
    }
    Ok(())
}
