//! Copies streams to scratch and decompresses files there, so that they can be sorted: neither has
//! a known size or can be read twice.
//!
//! Contract: a [`Spool`] is a private directory on a scratch drive with one file per stream;
//! dropping it removes them. A [`BlockWriter`] writes the copies. A copy ends with the stream, at
//! the limit on scratch (an error), or within 50 ms of a cancellation, even while the stream is
//! silent. The content of a stream or a compressed file is checked before it is copied
//! ([`crate::content`]).

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::{Error, Result};
use outcore_io::drive::PrivateDir;
use outcore_io::drive::objects::is_object;
use outcore_io::drive::paths;
use outcore_store::dataset::Named;

use crate::blocks::BlockWriter;
use crate::compress::{Compression, Decoder};
use crate::content::{Content, HEAD_BYTES, Recognition};
use crate::inputs::{self, FileKey, Names, ResolvedInput, Source, Streams};
use crate::output::Target;
use crate::records;
use crate::resources::{Resources, default_scratch_dir, free_bytes};
use crate::streams::StreamReader;

/// Name of the phase in progress reports.
pub(crate) const PHASE: &str = "read input";

/// Copies of inputs; removed when dropped.
#[derive(Debug)]
pub struct Spool {
    dir: PrivateDir,
    files: u32,
    /// Bytes in all copies.
    pub bytes: u64,
    /// Bytes written for them, in whole blocks.
    pub written_bytes: u64,
    limit_bytes: u64,
}

/// A spool that is created when the first file needs it.
pub struct LateSpool<'s, M> {
    /// The spool so far; `None` until it is needed.
    pub spool: &'s mut Option<Spool>,
    /// Creates it.
    pub make: M,
}

impl<M: Fn() -> Result<Spool>> LateSpool<'_, M> {
    /// The spool.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn get(&mut self) -> Result<&mut Spool> {
        match &mut self.spool {
            Some(spool) => Ok(spool),
            none => Ok(none.insert((self.make)()?)),
        }
    }
}

impl Spool {
    /// A private directory in `parent`, for at most `limit_bytes` of copies.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn make(job: &Job, parent: &Path, limit_bytes: u64) -> Result<Self> {
        job.device.sweep_private_dirs(parent)?;
        Ok(Spool {
            dir: job.device.make_private_dir(parent)?,
            files: 0,
            bytes: 0,
            written_bytes: 0,
            limit_bytes,
        })
    }

    /// A private directory on the first named drive, or on the default one for an output in
    /// `beside`.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn beside(job: &Job, resources: &Resources, beside: &Path) -> Result<Self> {
        let dir = match resources.specs().first() {
            Some(drive) => drive.dir.clone(),
            None => default_scratch_dir(beside)?,
        };
        Spool::make(job, &dir, resources.scratch_limit_bytes())
    }

    /// Copies a stream of records. With `is_known` the caller knows their type; otherwise the
    /// stream's header must contain it. Returns the copy as a source.
    ///
    /// # Errors
    /// A failed read or an error of the drive; usage for a stream that holds no records;
    /// [`Kind::NoSpace`](outcore::Kind::NoSpace) at the limit.
    pub fn copy_records(&mut self, job: &Job, source: &Source, is_known: bool) -> Result<Source> {
        self.fill(job, source, |writer| {
            let mut stream = StreamReader::open(source, || job.control.check())?;
            let head = read_head(job, &mut stream)?;
            let content = Content::of(&head);
            content.check_records(&source.name, is_known)?;
            if !is_known && content != Content::Array {
                return Err(records::unknown_of_stream(&source.name));
            }
            copy_all(job, &mut Cursor::new(head).chain(stream), writer)
        })
    }

    /// Copies a stream of lines, decompressing it if needed. Returns the copy as a source.
    ///
    /// # Errors
    /// As [`Spool::copy_records`] and [`Spool::unpack`].
    pub fn copy_lines(
        &mut self,
        job: &Job,
        source: &Source,
        recognition: Recognition,
    ) -> Result<Source> {
        self.fill(job, source, |writer| {
            let mut stream = StreamReader::open(source, || job.control.check())?;
            let head = read_head(job, &mut stream)?;
            let content = Content::of(&head);
            recognition.check_lines(&source.name, content, false)?;
            recognition.tell_header(job, &source.name, &head);
            let mut all = Cursor::new(head).chain(stream);
            match recognition.packed(&source.name, content) {
                Some(compression) => unpack(job, source, compression, recognition, all, writer),
                None => copy_all(job, &mut all, writer),
            }
        })
    }

    /// Copies a stream that holds a table, an Arrow stream or text, decompressing it if needed.
    /// Returns the copy as a source.
    ///
    /// # Errors
    /// As [`Spool::copy_lines`]; usage for Parquet, which cannot be read sequentially.
    pub fn copy_table(&mut self, job: &Job, source: &Source) -> Result<Source> {
        self.fill(job, source, |writer| {
            let mut stream = StreamReader::open(source, || job.control.check())?;
            let head = read_head(job, &mut stream)?;
            if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
                return Err(Error::usage("read input", "Parquet cannot be read from a pipe")
                    .hint("name the file, or write an Arrow stream into the pipe, as `outcore convert t.parquet -o - --to arrow` does"));
            }
            let recognition = Recognition::default();
            let packed = recognition.packed(&source.name, Content::of(&head));
            let mut all = Cursor::new(head).chain(stream);
            match packed {
                Some(compression) => unpack(job, source, compression, recognition, all, writer),
                None => copy_all(job, &mut all, writer),
            }
        })
    }

    /// Decompresses a file of lines. Returns the copy as a source.
    ///
    /// # Errors
    /// A truncated or broken stream, with its offset; content that is not lines; an error of the
    /// drive.
    pub fn unpack(
        &mut self,
        job: &Job,
        source: &Source,
        compression: Compression,
        recognition: Recognition,
    ) -> Result<Source> {
        self.fill(job, source, |writer| {
            let packed = source.open()?;
            unpack(job, source, compression, recognition, packed, writer)
        })
    }

    /// Adds a file that `write` fills with the contents of `source`. Returns the file as its
    /// replacement.
    ///
    /// # Errors
    /// An error of `write` or of the drive.
    pub fn fill(
        &mut self,
        job: &Job,
        source: &Source,
        write: impl FnOnce(&mut BlockWriter) -> Result<()>,
    ) -> Result<Source> {
        job.control.begin_phase(PHASE, 0);
        let path = self.dir.path().join(format!("input-{}", self.files));
        self.files += 1;
        let mut writer = BlockWriter::create(job, &path, self.limit_bytes - self.bytes)?;
        let written = write(&mut writer).and_then(|()| writer.finish());
        let written = written.map_err(|error| match error.file_path() {
            Some(_) => error,
            None => error.path(&source.name),
        })?;
        self.bytes += written.len_bytes;
        self.written_bytes += written.moved_bytes;
        let facts = paths::facts(&path)
            .map_err(|error| Error::io("look at scratch", &error).path(&path))?;
        Ok(Source {
            key: Some(FileKey::of(&facts)),
            identity: None,
            path,
            start_bytes: 0,
            sealed: None,
            object: None,
            content: None,
            ..source.clone()
        })
    }
}

/// The inputs, with compressed ones decompressed to the first named drive, or to the default one
/// for an output in `beside`. The decompressed files exist as long as `spool`.
///
/// # Errors
/// As [`Spool::make`] and [`Spool::unpack`].
pub fn unpack_packed(
    job: &Job,
    resources: &Resources,
    beside: &Path,
    inputs: Vec<ResolvedInput>,
    recognition: Recognition,
    spool: &mut Option<Spool>,
) -> Result<Vec<ResolvedInput>> {
    let unpacked = inputs.into_iter().map(|input| {
        let Some(compression) = recognition.packed(&input.source.name, input.content) else {
            return Ok(input);
        };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::beside(job, resources, beside)?),
        };
        let before_bytes = spool.bytes;
        let source = spool.unpack(job, &input.source, compression, recognition)?;
        Ok(ResolvedInput {
            source,
            header_bytes: 0,
            data_bytes: spool.bytes - before_bytes,
            npy: None,
            content: Content::Plain { has_nuls: false },
        })
    });
    unpacked.collect()
}

/// Edges that can be read more than once. Streams are copied, and compressed files decompressed, to
/// the first named drive or to the default one for an output in `beside`. `are_records` means that
/// streams are not lines. Also returns the original name of each copy, without the extension of the
/// compression. Copies exist as long as the spool.
///
/// # Errors
/// As [`Spool::make`], [`Spool::unpack`] and [`Spool::copy_lines`].
pub fn edge_files(
    job: &Job,
    resources: &Resources,
    beside: &Path,
    sources: &[Source],
    are_records: bool,
) -> Result<(Vec<Source>, Copies, Option<Spool>)> {
    let (mut found, mut called, mut spool) = (Vec::new(), Copies::new(), None);
    let recognition = Recognition::default();
    for source in sources {
        let packed = match source.is_stream() {
            true => None,
            false => {
                let content = inputs::content_of(source)?;
                let packed = recognition.packed(&source.name, content);
                if are_records && packed.is_none() {
                    content.check_records(&source.name, true)?;
                }
                packed
            }
        };
        if packed.is_none() && !source.is_stream() {
            found.push(source.clone());
            continue;
        }
        let spool = match &mut spool {
            Some(spool) => spool,
            none => none.insert(Spool::beside(job, resources, beside)?),
        };
        let copy = match packed {
            Some(compression) => spool.unpack(job, source, compression, recognition)?,
            None if are_records => spool.copy_records(job, source, true)?,
            None => spool.copy_lines(job, source, recognition)?,
        };
        let name = match Compression::of(&source.name) {
            Some(_) => source.name.with_extension(""),
            None => source.name.clone(),
        };
        called.push((copy.path.clone(), name));
        found.push(copy);
    }
    Ok((found, called, spool))
}

/// Files and their copies.
pub type Copies = Vec<(PathBuf, PathBuf)>;

/// The files among `files` that are compressed text, by their content or their names, each with its
/// copy, as in [`unpack_packed`]; also those that are packed in datasets. Copies exist as long as
/// the spool. `is_text` selects the files that may be text.
///
/// # Errors
/// As [`Spool::make`] and [`Spool::unpack`].
pub fn unpack_files(
    job: &Job,
    resources: &Resources,
    beside: &Path,
    files: &[PathBuf],
    is_text: impl Fn(&Path) -> bool,
    known: &dyn Names,
) -> Result<(Copies, Option<Spool>)> {
    let (mut copies, mut spool) = (Vec::new(), None);
    let recognition = Recognition::default();
    let is_no_file = |file: &PathBuf| Named::is_mark(file) || is_object(file);
    let is_looked_at = |file: &&PathBuf| is_no_file(file) || file.is_file() && is_text(file);
    for file in files.iter().filter(is_looked_at) {
        for source in inputs::find(std::slice::from_ref(file), Streams::Refused, known)? {
            let packed = match is_text(file) {
                true => recognition.packed(&source.name, inputs::content_of(&source)?),
                false => None,
            };
            let Some(compression) = packed else {
                if source.is_of_volume() && source.sealed.is_none() {
                    copies.push((file.clone(), source.path));
                }
                continue;
            };
            let spool = match &mut spool {
                Some(spool) => spool,
                none => none.insert(Spool::beside(job, resources, beside)?),
            };
            let copy = spool.unpack(job, &source, compression, recognition)?;
            copies.push((file.clone(), copy.path));
        }
    }
    Ok((copies, spool))
}

/// The bytes that identify a stream's content: its first bytes, or all of it.
fn read_head(job: &Job, stream: &mut StreamReader<'_>) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = stream.take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| stopped_or(job, Error::io("read input", &error)))?;
    Ok(head)
}

/// The interruption, if one made a read fail; otherwise the error.
fn stopped_or(job: &Job, error: Error) -> Error {
    job.control.check().err().unwrap_or(error)
}

/// Copies a stream to its end.
fn copy_all(job: &Job, stream: &mut impl Read, writer: &mut BlockWriter) -> Result<()> {
    loop {
        job.control.check()?;
        let read = stream.read(writer.room()?);
        match read.map_err(|error| stopped_or(job, Error::io("read input", &error)))? {
            0 => return Ok(()),
            got => writer.advance(got)?,
        }
    }
}

/// Decompresses to the end.
fn unpack(
    job: &Job,
    source: &Source,
    compression: Compression,
    recognition: Recognition,
    packed: impl Read,
    writer: &mut BlockWriter,
) -> Result<()> {
    let memory_bytes = job.options.memory_bytes;
    let mut decoder = Decoder::new(compression, packed, memory_bytes)?;
    let mut is_first = true;
    loop {
        let room = writer.room()?;
        let mut got_bytes = 0;
        while got_bytes < room.len() {
            let more = decoder.read(&mut room[got_bytes..]);
            match more.map_err(|error| stopped_or(job, error))? {
                0 => break,
                more => got_bytes += more,
            }
        }
        if std::mem::take(&mut is_first) {
            let head = &room[..got_bytes.min(HEAD_BYTES)];
            recognition.check_unpacked(&source.name, head, !source.is_stream())?;
        }
        if got_bytes == 0 {
            return Ok(());
        }
        writer.check()?;
        writer.advance(got_bytes)?;
    }
}

/// The drive with the most room, or the default place for scratch if none is given.
///
/// # Errors
/// The free space of a drive cannot be determined; there is no place for scratch.
pub fn dir_for(resources: &Resources, target: &Target) -> Result<PathBuf> {
    let mut roomiest: Option<(u64, &Path)> = None;
    for drive in resources.specs() {
        let free_bytes = free_bytes(&drive.dir)?;
        if roomiest.is_none_or(|(most_bytes, _)| free_bytes > most_bytes) {
            roomiest = Some((free_bytes, &drive.dir));
        }
    }
    match roomiest {
        Some((_, dir)) => Ok(dir.to_path_buf()),
        None => default_scratch_dir(&target.dir()),
    }
}
