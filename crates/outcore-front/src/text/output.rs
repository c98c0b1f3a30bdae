//! Outputs of lines that the engine does not write itself: pipes, compressed files, files with a
//! header line.
//!
//! Contract: a [`LineWriter`] writes to standard output, to a named pipe, or to a file that
//! [`LineWriter::finish`] makes appear as a whole. A file is compressed if its extension asks for
//! it, unless its [`Dress`] is plain. The caller opens pipes. [`open`] makes an output for the
//! engine; if it needs a writer, this has a thread of its own, which is at most five pieces of 256
//! KiB behind.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use outcore::job::Job;
use outcore::{Error, Kind, Result};
use outcore::{MakeHeader, Output};
use outcore_io::memory::Ledger;
use outcore_io::threads::spawn;

use crate::blocks::{BlockWriter, StagedFile};
use crate::compress::{Compression, Encoder};
use crate::output::{Sink, Target};

const WRITE: &str = "write output";
/// The longest header that the engine writes with its blocks.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// The form of lines in the output.
#[derive(Debug, Clone, Default)]
pub struct Dress {
    /// Bytes before the lines.
    pub header: Vec<u8>,
    /// Whether the lines end with NULs, to be replaced by newlines.
    pub is_framed: bool,
    /// Whether a file is never compressed, regardless of its extension.
    pub is_plain: bool,
}

impl Dress {
    /// The compression of the file at `path`.
    fn compression(&self, path: &Path) -> Option<Compression> {
        match self.is_plain {
            true => None,
            false => Compression::of(path),
        }
    }
}

/// A pipe that receives the header with the first of its lines, or at its end, so that a job that
/// fails earlier has written nothing.
struct Fronted {
    front: Vec<u8>,
    sink: Sink,
}

impl Fronted {
    fn write_front(&mut self) -> io::Result<()> {
        let front = std::mem::take(&mut self.front);
        match front.is_empty() {
            true => Ok(()),
            false => self.sink.write_all(&front),
        }
    }
}

impl Write for Fronted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_front()?;
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_front()?;
        self.sink.flush()
    }
}

enum Base {
    Pipe(Fronted),
    File(Box<StagedFile>),
}

impl Write for Base {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Base::Pipe(sink) => sink.write(bytes),
            Base::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Base::Pipe(sink) => sink.flush(),
            Base::File(file) => file.flush(),
        }
    }
}

/// Writes a stream of lines to a target.
pub struct LineWriter {
    encoder: Encoder<Base>,
    is_framed: bool,
    /// Bytes before compression.
    written_bytes: u64,
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LineWriter");
        text.field("is_framed", &self.is_framed)
            .finish_non_exhaustive()
    }
}

impl LineWriter {
    /// Starts the output and writes the header. `pipe` opens the named pipe, or standard output.
    ///
    /// # Errors
    /// It cannot be opened or written.
    pub fn open(
        job: &Job,
        target: &Target,
        replace: bool,
        dress: &Dress,
        pipe: impl FnOnce(Option<&Path>) -> Result<Sink>,
    ) -> Result<Self> {
        match target {
            Target::Pipe(path) => Self::to_pipe(pipe(path.as_deref())?, dress),
            Target::File(path) => Self::to_file(job, path, replace, dress, 1),
            Target::Shards { .. } => Err(not_one_file(target)),
        }
    }

    fn to_pipe(sink: Sink, dress: &Dress) -> Result<Self> {
        let front = dress.header.clone();
        let pipe = Base::Pipe(Fronted { front, sink });
        Ok(Self::on(Encoder::Plain(pipe), dress))
    }

    /// Starts one file, which this many threads compress.
    fn to_file(
        job: &Job,
        path: &Path,
        replace: bool,
        dress: &Dress,
        threads: usize,
    ) -> Result<Self> {
        let file = StagedFile::create(job, path, replace)?;
        let base = Base::File(Box::new(file));
        let mut encoder = Encoder::new(dress.compression(path), base, threads)?;
        let written = encoder.write_all(&dress.header);
        written.map_err(|error| Error::io(WRITE, &error))?;
        Ok(Self::on(encoder, dress))
    }

    fn on(encoder: Encoder<Base>, dress: &Dress) -> Self {
        LineWriter {
            encoder,
            is_framed: dress.is_framed,
            written_bytes: dress.header.len() as u64,
        }
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// A failed write.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.written_bytes += bytes.len() as u64;
        let written = self.write_all(bytes);
        written.map_err(|error| self.failure().unwrap_or_else(|| Error::io(WRITE, &error)))
    }

    /// The error of a failed write to the file.
    fn failure(&mut self) -> Option<Error> {
        match self.encoder.get_mut() {
            Base::Pipe(_) => None,
            Base::File(file) => file.failure(),
        }
    }

    /// Writes the rest and moves a file to its place. Returns the number of bytes before
    /// compression.
    ///
    /// # Errors
    /// The first failure since the start; a file then does not exist.
    pub fn finish(self) -> Result<u64> {
        let written_bytes = self.written_bytes;
        let base = self
            .encoder
            .finish()
            .map_err(|error| Error::io(WRITE, &error))?;
        match base {
            Base::Pipe(mut pipe) => match pipe.flush() {
                Ok(()) => Ok(written_bytes),
                Err(error) => Err(Error::io(WRITE, &error)),
            },
            Base::File(file) => file.publish().map(|_| written_bytes),
        }
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_framed {
            return self.encoder.write(bytes);
        }
        let mut lines = bytes.to_vec();
        for byte in lines.iter_mut().filter(|byte| **byte == 0) {
            *byte = b'\n';
        }
        self.encoder.write_all(&lines).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}

/// The destination of the writing thread.
enum Destination {
    Pipe(Sink),
    File(PathBuf),
}

/// The error for sorted lines as shards, which would break their single order.
pub fn not_one_file(target: &Target) -> Error {
    Error::usage("create output", "lines go into one file, not into shards")
        .path(target.name())
        .hint("leave {drive} out of the name; scratch is still spread over the drives")
}

/// Bytes per message to the writing thread, and how many messages may wait.
const PIECE_BYTES: usize = 256 << 10;
const PIECES_MAX: usize = 4;
const PIECES: &str = "pieces of the output";
const COMPRESSOR: &str = "compressor";
/// Waiting blocks, the one that is being filled, and the one that is being written.
const PIECES_RESERVED_BYTES: u64 = ((PIECES_MAX + 2) * PIECE_BYTES) as u64;

#[derive(Debug)]
enum Message {
    Bytes(Vec<u8>),
    /// The end of the data.
    End,
}

/// The engine's output when another thread does the writing.
struct Feeder {
    sender: SyncSender<Message>,
    piece: Vec<u8>,
}

impl Feeder {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let sent = self.sender.send(Message::Bytes(piece));
        sent.map_err(|_| io::Error::other("the output could not be written"))
    }
}

impl Write for Feeder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.piece.is_empty() {
            true => Ok(()),
            false => self.send(),
        }
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        // If this fails, the thread's result reports it.
        let _ = self.flush();
    }
}

/// The remaining work after the engine is done.
#[derive(Debug, Default)]
pub struct Pending {
    thread: Option<(SyncSender<Message>, JoinHandle<Result<()>>)>,
}

/// The memory that an output reserves next to the engine's own plan if another thread writes it;
/// `None` if the engine writes it itself.
pub(crate) fn ledger(target: &Target, dress: &Dress, threads: usize) -> Option<Ledger> {
    let pieces = Ledger::new("output").always(PIECES, PIECES_RESERVED_BYTES);
    match target {
        // The engine's files of lines have no header.
        Target::File(path) => {
            let compression = dress.compression(path);
            let is_plain = compression.is_none() && !dress.is_framed && dress.header.is_empty();
            let compressor_bytes =
                compression.map_or(0, |compression| compression.writer_bytes(threads));
            let ledger = BlockWriter::on(pieces).always(COMPRESSOR, compressor_bytes);
            (!is_plain).then_some(ledger)
        }
        Target::Pipe(_) => dress.is_framed.then_some(pieces),
        Target::Shards { .. } => None,
    }
}

/// Number of threads that compress an output next to a job.
fn compressing_threads(job: &Job, target: &Target, dress: &Dress) -> usize {
    let compression = match target {
        Target::File(path) => dress.compression(path),
        Target::Pipe(_) | Target::Shards { .. } => None,
    };
    compression.map_or(1, |compression| {
        compression.writer_threads(job.options.threads, job.budget.free_bytes())
    })
}

/// Reserves the memory of an output in a new job. The caller keeps this job while it plans work
/// that will run next to the output. `None` if the engine itself writes the output.
///
/// # Errors
/// Too little memory is left.
pub fn set_aside(job: &Job, target: &Target, dress: &Dress) -> Result<Option<Job>> {
    ledger(target, dress, compressing_threads(job, target, dress))
        .map(|ledger| job.under(&ledger))
        .transpose()
}

/// An output for the engine. The engine writes plain files and pipes itself, which is fastest; all
/// other outputs use a thread with a [`LineWriter`]. `pipe` opens the named pipe, or standard
/// output.
///
/// # Errors
/// It cannot be opened.
pub fn open(
    job: &Job,
    target: &Target,
    replace: bool,
    dress: &Dress,
    pipe: impl FnOnce(Option<&Path>) -> Result<Sink>,
) -> Result<(Output, Pending)> {
    let itself = |output| Ok((output, Pending::default()));
    // The memory of the writing thread is reserved now, before the engine plans with the rest.
    let threads = compressing_threads(job, target, dress);
    let ledger = ledger(target, dress, threads);
    let set_aside = ledger.map(|ledger| job.under(&ledger)).transpose()?;
    let job = match (set_aside, target) {
        (Some(job), _) => job,
        (None, Target::File(path)) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            return itself(Output::File { path, header: None });
        }
        (None, Target::Pipe(path)) => {
            let front = dress.header.clone();
            let sink = pipe(path.as_deref())?;
            return itself(Output::Pipe(Mutex::new(Box::new(Fronted { front, sink }))));
        }
        (None, Target::Shards { .. }) => return Err(not_one_file(target)),
    };
    let (sender, receiver) = sync_channel(PIECES_MAX);
    let place = match target {
        Target::Pipe(path) => Destination::Pipe(pipe(path.as_deref())?),
        Target::File(path) => Destination::File(path.clone()),
        Target::Shards { .. } => return Err(not_one_file(target)),
    };
    let dress = dress.clone();
    let thread = spawn("outcore-write", move || {
        let mut writer = match place {
            Destination::Pipe(sink) => LineWriter::to_pipe(sink, &dress)?,
            Destination::File(path) => LineWriter::to_file(&job, &path, replace, &dress, threads)?,
        };
        // If the channel closes without an end message, the engine has failed, and no output may
        // appear.
        while let Ok(message) = receiver.recv() {
            match message {
                Message::Bytes(bytes) => writer.put(&bytes)?,
                Message::End => return writer.finish().map(|_| ()),
            }
        }
        Ok(())
    })?;
    let feeder = Feeder {
        sender: sender.clone(),
        piece: Vec::with_capacity(PIECE_BYTES),
    };
    let pending = Pending {
        thread: Some((sender, thread)),
    };
    Ok((Output::Pipe(Mutex::new(Box::new(feeder))), pending))
}

/// The option for which the engine writes one plain file itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainFor {
    /// A journal, with which another run continues.
    Resume,
    /// A check of the output, which is read back.
    VerifyOutput,
}

impl PlainFor {
    /// The operation that errors name.
    pub fn operation(self) -> &'static str {
        match self {
            PlainFor::Resume => "resume",
            PlainFor::VerifyOutput => "verify output",
        }
    }

    /// The option as a user types it.
    pub fn option(self) -> &'static str {
        match self {
            PlainFor::Resume => "--resume",
            PlainFor::VerifyOutput => "--verify-output",
        }
    }

    /// The error for an option that the job does not have.
    pub fn refuse(self, cause: &str, hint: &str) -> Error {
        let option = self.option();
        let hint = match hint.is_empty() {
            true => format!("leave {option} out"),
            false => format!("{hint}, or leave {option} out"),
        };
        Error::usage(self.operation(), cause).hint(hint)
    }

    /// The error for an output that is not one file.
    pub fn not_one_file(self) -> Error {
        let cause = match self {
            PlainFor::Resume => "only a job that writes one file can be resumed",
            PlainFor::VerifyOutput => "only an output that is a file can be verified",
        };
        self.refuse(cause, "name a file with -o")
    }
}

/// The engine's output for a plain file, which the engine writes itself, with its header.
///
/// # Errors
/// Usage: a pipe, shards, a compressed file, or lines that are changed while they are written.
pub fn open_file(target: &Target, dress: &Dress, plain_for: PlainFor) -> Result<(Output, Pending)> {
    let Target::File(path) = target else {
        return Err(plain_for.not_one_file());
    };
    let cause = match (dress.compression(path), plain_for) {
        (Some(_), PlainFor::Resume) => "a compressed output cannot be continued",
        (Some(_), PlainFor::VerifyOutput) => "a compressed output cannot be verified",
        _ if dress.is_framed => "records that span lines are copied to scratch",
        _ if dress.header.len() > HEADER_BYTES_MAX => "the header is longer than 1 MiB",
        _ => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let header = dress.header.clone();
            let make = (!header.is_empty()).then(|| -> MakeHeader {
                let header = header.clone();
                Arc::new(move |_| header.clone())
            });
            let output = Output::File { path, header: make };
            return Ok((output, Pending::default()));
        }
    };
    Err(plain_for.refuse(cause, "write a plain file").path(path))
}

impl Pending {
    /// Finishes an output that the engine did not write itself. `done` is the engine's result.
    ///
    /// # Errors
    /// The output could not be written; otherwise the engine's error.
    pub fn finish<T>(self, done: Result<T>) -> Result<T> {
        let Some((sender, thread)) = self.thread else {
            return done;
        };
        if done.is_ok() {
            // If the thread has ended, its result below has the reason.
            let _ = sender.send(Message::End);
        }
        drop(sender);
        match thread.join() {
            Ok(Ok(())) => done,
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::new(Kind::Io, WRITE, "the writing thread panicked")),
        }
    }
}
