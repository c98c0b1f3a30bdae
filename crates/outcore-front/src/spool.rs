//! Streams copied to scratch and compressed files unpacked to it, so that they can be sorted:
//! neither has a size and a second look.
//!
//! Contract: a [`Spool`] is a private directory on a scratch drive with one file a stream; dropping
//! it removes them. Copies are written by a [`BlockWriter`]. One ends with the stream, at the limit
//! on scratch (an error), or within 50 ms of a cancellation, even while the stream is silent. What
//! a stream holds, or a compressed file, is looked at before it is copied ([`crate::content`]).

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::{Error, Result};
use outcore_io::drive::PrivateDir;
use outcore_store::dataset::Named;

use crate::blocks::BlockWriter;
use crate::compress::{Compression, Decoder};
use crate::content::{Content, HEAD_BYTES, Recognition};
use crate::inputs::{self, Names, ResolvedInput, Source, Streams, key_of};
use crate::output::Target;
use crate::records;
use crate::resources::{Resources, default_scratch_dir, free_bytes};
use crate::streams::StreamReader;

/// The phase's name in progress.
pub(crate) const PHASE: &str = "read input";

/// Copies of inputs; removed when dropped.
#[derive(Debug)]
pub struct Spool {
    dir: PrivateDir,
    files: u32,
    /// Bytes in all copies.
    pub bytes: u64,
    /// Bytes written for them: whole blocks.
    pub written_bytes: u64,
    limit_bytes: u64,
}

/// A spool that is made when the first file goes there.
pub struct LateSpool<'s, M> {
    /// The spool so far; none until it is needed.
    pub spool: &'s mut Option<Spool>,
    /// Makes it.
    pub make: M,
}

impl<M: Fn() -> Result<Spool>> LateSpool<'_, M> {
    /// The spool.
    ///
    /// # Errors
    /// What making it fails with.
    pub(crate) fn get(&mut self) -> Result<&mut Spool> {
        match &mut self.spool {
            Some(spool) => Ok(spool),
            none => Ok(none.insert((self.make)()?)),
        }
    }
}

impl Spool {
    /// A private directory in `parent`; at most `limit_bytes` are copied into it.
    ///
    /// # Errors
    /// What making it fails with.
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

    /// A private directory on the first drive that is named, or on the default one for an output in
    /// `beside`.
    ///
    /// # Errors
    /// What making it fails with.
    pub fn beside(job: &Job, resources: &Resources, beside: &Path) -> Result<Self> {
        let dir = match resources.specs().first() {
            Some(drive) => drive.dir.clone(),
            None => default_scratch_dir(beside)?,
        };
        Spool::make(job, &dir, resources.scratch_limit_bytes())
    }

    /// Copies a stream of records, whose type `is_known` unless its header tells it; gives the copy
    /// as a source.
    ///
    /// # Errors
    /// What reading or the drive fails with; usage for what holds no records;
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

    /// Copies a stream of lines, unpacked where it is compressed; gives the copy as a source.
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
            let mut all = Cursor::new(head).chain(stream);
            match recognition.packed(&source.name, content) {
                Some(compression) => unpack(job, source, (compression, recognition), all, writer),
                None => copy_all(job, &mut all, writer),
            }
        })
    }

    /// Copies a stream that holds a table, an Arrow stream or text, unpacked where it is
    /// compressed; gives the copy as a source.
    ///
    /// # Errors
    /// As [`Spool::copy_lines`]; usage for Parquet, which is not read from its beginning to its
    /// end.
    pub fn copy_table(&mut self, job: &Job, source: &Source) -> Result<Source> {
        self.fill(job, source, |writer| {
            let mut stream = StreamReader::open(source, || job.control.check())?;
            let head = read_head(job, &mut stream)?;
            if head.starts_with(b"PAR1") || head.starts_with(b"PARE") {
                return Err(Error::usage("read input", "Parquet is not read from a pipe")
                    .hint("name the file, or write an Arrow stream into the pipe, as `outcore convert t.parquet -o - --to arrow` does"));
            }
            let recognition = Recognition::default();
            let packed = recognition.packed(&source.name, Content::of(&head));
            let mut all = Cursor::new(head).chain(stream);
            match packed {
                Some(compression) => unpack(job, source, (compression, recognition), all, writer),
                None => copy_all(job, &mut all, writer),
            }
        })
    }

    /// Unpacks a compressed file of lines; gives the copy as a source.
    ///
    /// # Errors
    /// A stream that is torn or broken, with its offset; what is not lines; what the drive fails
    /// with.
    pub fn unpack(
        &mut self,
        job: &Job,
        source: &Source,
        how: (Compression, Recognition),
    ) -> Result<Source> {
        self.fill(job, source, |writer| {
            unpack(job, source, how, source.open()?, writer)
        })
    }

    /// Adds a file that `write` fills with what `source` holds; gives it in its stead.
    ///
    /// # Errors
    /// What `write` or the drive fails with.
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
        let facts = std::fs::metadata(&path)
            .map_err(|error| Error::io("look at scratch", &error).path(&path))?;
        Ok(Source {
            key: Some(key_of(&facts)),
            identity: None,
            path,
            start_bytes: 0,
            sealed: None,
            content: None,
            ..source.clone()
        })
    }
}

/// The inputs, with those unpacked that are compressed: to the first drive that is named, or to the
/// default one for an output in `beside`. What was unpacked lives as long as `spool`.
///
/// # Errors
/// As [`Spool::make`] and [`Spool::unpack`].
pub fn unpack_packed(
    job: &Job,
    resources: &Resources,
    beside: &Path,
    (inputs, recognition): (Vec<ResolvedInput>, Recognition),
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
        let source = spool.unpack(job, &input.source, (compression, recognition))?;
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

/// Edges that can be read more than once: streams are copied, and compressed files unpacked, to the
/// first drive that is named or to the default one for an output in `beside`; `are_records` says
/// that streams are no lines. Also what each copy is called where it comes from, without the ending
/// of the compression. Copies live as long as the spool.
///
/// # Errors
/// As [`Spool::make`], [`Spool::unpack`] and [`Spool::copy_lines`].
pub fn edge_files(
    (job, resources): (&Job, &Resources),
    beside: &Path,
    (sources, are_records): (&[Source], bool),
) -> Result<(Vec<Source>, Copies, Option<Spool>)> {
    let (mut found, mut called, mut spool) = (Vec::new(), Copies::new(), None);
    let recognition = Recognition::default();
    for source in sources {
        let packed = match source.is_stream() {
            true => None,
            false => recognition.packed(&source.name, inputs::content_of(source)?),
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
            Some(compression) => spool.unpack(job, source, (compression, recognition))?,
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

/// Files, each with a copy.
pub type Copies = Vec<(PathBuf, PathBuf)>;

/// Those of `files` that are compressed text, by their content or their names, each with its copy,
/// as [`unpack_packed`], and those that are packed in datasets; copies live as long as the spool.
/// `is_text` says which files may be text.
///
/// # Errors
/// As [`Spool::make`] and [`Spool::unpack`].
pub fn unpack_files(
    (job, resources): (&Job, &Resources),
    beside: &Path,
    files: &[PathBuf],
    is_text: impl Fn(&Path) -> bool,
    known: &dyn Names,
) -> Result<(Copies, Option<Spool>)> {
    let (mut copies, mut spool) = (Vec::new(), None);
    let recognition = Recognition::default();
    let is_looked_at = |file: &&PathBuf| Named::is_mark(file) || file.is_file() && is_text(file);
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
            let copy = spool.unpack(job, &source, (compression, recognition))?;
            copies.push((file.clone(), copy.path));
        }
    }
    Ok((copies, spool))
}

/// What tells what a stream holds: its first bytes, or all of it.
fn read_head(job: &Job, stream: &mut StreamReader<'_>) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let read = stream.take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map_err(|error| stopped_or(job, Error::io("read input", &error)))?;
    Ok(head)
}

/// The interruption, where there is one that made a read fail.
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

/// Unpacks to the end.
fn unpack(
    job: &Job,
    source: &Source,
    (compression, recognition): (Compression, Recognition),
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

/// The drive with the most room, or the place for scratch where none is named.
///
/// # Errors
/// A drive whose free space cannot be asked for; no place for scratch.
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
