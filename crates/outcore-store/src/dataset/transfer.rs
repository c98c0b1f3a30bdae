//! Copies files into datasets and out of them: `put`, `get` and `cp`.
//!
//! Contract: one thread keeps reads of the source and writes of the target in flight at once, each
//! on its own ring. Reads and writes use the same buffers: the bytes of a single file are not
//! copied, and `get` writes a file in the order in which the drives deliver. A target appears
//! complete or not at all, in the volume and outside, with the permissions and the time of its
//! source. Sources are only read. Directories: [`super::directory`].
//!
//! Bounds: two windows of [`super::writer::WINDOW_BYTES`], the index of a packed directory,
//! checksums.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::manifest::{Contents, Manifest};
use super::pack::{Attributes, Index};
use super::reader::DatasetReader;
use super::writer::{CHUNK_BYTES, DatasetWriter, NewDataset, WINDOW_BYTES};
use super::{DatasetVolume, PassResources, Watch};
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::{Access, Device};
use outcore_io::drive::{folder, paths};
use outcore_io::error::{Error, Result};
use outcore_io::memory::{Budget, Buf, block_ceil};
use outcore_io::output::{Room, ShardPlan, StagedOutput, parent_of};
use outcore_io::port::{ScratchDrive, Volume, VolumeFile};
use outcore_io::transfers::Transfers;

/// Reads of a source in flight.
const READS_MAX: usize = 16;
/// Writes of a target in flight: half of the reader's window.
const WRITES_MAX: usize = WINDOW_BYTES / CHUNK_BYTES / 2;

/// Resources that all transfers need.
#[derive(Clone, Copy)]
pub struct TransferResources<'a> {
    /// The files outside of the volume.
    pub device: &'a Arc<dyn Device>,
    /// Memory for buffers and checksums.
    pub budget: &'a Budget,
    /// Observes and stops it.
    pub watch: Watch<'a>,
}

/// Files outside of the volume and one thread's access to them.
pub(super) struct Outside {
    pub(super) volume: Volume,
    /// Read in order.
    pub(super) reads: Transfers<()>,
    drives: usize,
}

impl Outside {
    pub(super) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let volume = Volume::new(Arc::clone(device), &[])?;
        let reads = Transfers::new(&volume)?;
        Ok(Outside {
            volume,
            reads,
            drives: 0,
        })
    }

    /// Opens a file for reading; no read may be in flight.
    pub(super) fn open(&mut self, path: &Path) -> Result<VolumeFile> {
        let file = self.volume.open(path, Access::Read)?;
        if file.drive_index >= self.drives {
            self.drives = self.volume.drives().len();
            self.reads = Transfers::new(&self.volume)?;
        }
        Ok(file)
    }
}

/// Puts one file; sets `new.payload_bytes`.
///
/// # Errors
/// The file cannot be read, or its length changes in the meantime; the errors of the writer.
pub fn put_file(
    volume: &DatasetVolume,
    path: &Path,
    new: &NewDataset,
    resources: TransferResources<'_>,
) -> Result<Manifest> {
    let mut source = Outside::new(resources.device)?;
    let file = source.open(path)?;
    let len_bytes = file.facts.len_bytes;
    let attributes = paths::facts(path).map(|facts| Attributes::of(&facts));
    let attributes = attributes.map_err(|error| Error::io("put", &error).path(path))?;
    let new = NewDataset {
        contents: Contents::File,
        payload_bytes: Some(len_bytes),
        readers: attributes.mode & 0o044,
        attributes: Some(attributes),
        ..new.clone()
    };
    let mut writer = volume.writer(&new, resources.budget)?;
    push_file(&mut source, &file, &mut writer, resources.watch)?;
    writer.seal(0, 1)
}

/// Reads a file into the writer's own buffers.
fn push_file(
    source: &mut Outside,
    file: &VolumeFile,
    writer: &mut DatasetWriter,
    watch: Watch<'_>,
) -> Result<()> {
    let len_bytes = file.facts.len_bytes;
    let (mut ask_bytes, mut push_bytes) = (0, 0);
    while push_bytes < len_bytes {
        (watch.check)()?;
        while ask_bytes < len_bytes
            && source.reads.in_flight() < READS_MAX
            && let Some(buf) = writer.pool().take()
        {
            source.reads.read(file, ask_bytes, buf, ());
            ask_bytes += CHUNK_BYTES as u64;
        }
        if source.reads.is_empty() {
            // All buffers are being written.
            writer.wait()?;
            continue;
        }
        source.reads.start()?;
        let mut next = source.reads.next_in_order(watch.check)?;
        while let Some(read) = next {
            let wanted_bytes = (len_bytes - push_bytes).min(CHUNK_BYTES as u64) as usize;
            if read.len_bytes < wanted_bytes {
                return Err(changed(&file.path));
            }
            writer.push(read.buf, wanted_bytes)?;
            push_bytes += wanted_bytes as u64;
            (watch.advance)(wanted_bytes as u64);
            next = source.reads.take_in_order()?;
        }
        writer.start()?;
    }
    Ok(())
}

pub(super) fn changed(path: &Path) -> Error {
    Error::corrupt(
        "put",
        "the file changed while it was read: it became shorter",
    )
    .path(path)
    .hint("put it again when no program writes to it")
}

/// Puts all bytes of `source`.
///
/// # Errors
/// It cannot be read; the errors of the writer.
pub fn put_stream(
    volume: &DatasetVolume,
    source: &mut dyn Read,
    new: &NewDataset,
    resources: TransferResources<'_>,
) -> Result<Manifest> {
    let mut writer = volume.writer(new, resources.budget)?;
    loop {
        (resources.watch.check)()?;
        let mut buf = writer.take_buf()?;
        let len_bytes = read_full(source, &mut buf)
            .map_err(|error| Error::io("read standard input", &error))?;
        if len_bytes > 0 {
            writer.push(buf, len_bytes)?;
            (resources.watch.advance)(len_bytes as u64);
        }
        if len_bytes < CHUNK_BYTES {
            return writer.seal(0, 1);
        }
    }
}

fn read_full(source: &mut dyn Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Fills the writer's buffers from pieces of any length.
struct Packer {
    writer: DatasetWriter,
    buf: Option<Buf>,
    filled: usize,
}

impl Packer {
    fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let mut buf = match self.buf.take() {
                Some(buf) => buf,
                None => self.writer.take_buf()?,
            };
            let now = bytes.len().min(buf.len() - self.filled);
            buf[self.filled..self.filled + now].copy_from_slice(&bytes[..now]);
            self.filled += now;
            bytes = &bytes[now..];
            if self.filled == buf.len() {
                self.writer.push(buf, self.filled)?;
                self.filled = 0;
            } else {
                self.buf = Some(buf);
            }
        }
        Ok(())
    }

    fn finish(mut self, index_bytes: u64, files: u64) -> Result<Manifest> {
        if let Some(buf) = self.buf.take().filter(|_| self.filled > 0) {
            self.writer.push(buf, self.filled)?;
        }
        self.writer.seal(index_bytes, files)
    }
}

/// Copies a dataset inside its volume, or to another.
///
/// # Errors
/// The errors of the reader and of the writer.
pub fn copy(
    from: &DatasetVolume,
    manifest: &Manifest,
    to: &DatasetVolume,
    new: &NewDataset,
    resources: TransferResources<'_>,
) -> Result<Manifest> {
    let payload_bytes = manifest.payload_bytes();
    let new = NewDataset {
        contents: manifest.contents,
        payload_bytes: Some(payload_bytes),
        readers: readers_of(from, manifest),
        attributes: manifest.attributes,
        ..new.clone()
    };
    let reader = from.range_reader(manifest, 0, payload_bytes, resources.budget)?;
    let writer = to.writer(&new, resources.budget)?;
    refill(reader, writer, resources.watch)
}

/// Writes all that a reader returns.
fn refill(mut reader: DatasetReader, writer: DatasetWriter, watch: Watch<'_>) -> Result<Manifest> {
    let mut packer = Packer {
        writer,
        buf: None,
        filled: 0,
    };
    while let Some(part) = reader.next_chunk()? {
        (watch.check)()?;
        packer.add(&part)?;
        watch.pass(part.len() as u64)?;
    }
    packer.finish(reader.manifest().index_bytes, reader.manifest().files)
}

/// Writes a dataset anew, in the layout that its volume has now, in place of its old files. Its
/// name, contents, permissions and times stay.
///
/// # Errors
/// Another job has replaced or removed it; the errors of the reader and of the writer.
pub(super) fn rewrite(
    volume: &DatasetVolume,
    manifest: &Manifest,
    resources: PassResources<'_>,
) -> Result<Manifest> {
    let PassResources { budget, watch } = resources;
    let payload_bytes = manifest.payload_bytes();
    let new = NewDataset {
        name: manifest.name.clone(),
        contents: manifest.contents,
        files: manifest.files,
        payload_bytes: Some(payload_bytes),
        replace: true,
        readers: readers_of(volume, manifest),
        attributes: manifest.attributes,
        // The new files need other names than the old files.
        seed: bytes_checksum(manifest.id.as_bytes()),
    };
    let reader = volume.range_reader(manifest, 0, payload_bytes, budget)?;
    let mut writer = volume.writer(&new, budget)?;
    writer.replace_only(&manifest.id);
    refill(reader, writer, watch)
}

/// The users other than the owner who may read a dataset: the read bits of group and others of its
/// shares.
fn readers_of(volume: &DatasetVolume, manifest: &Manifest) -> u32 {
    let shares = volume
        .present()
        .map(|index| volume.share_path(&manifest.id, index));
    let mut modes = shares.filter_map(|share| folder::mode(&share));
    modes.next().map_or(0, |mode| mode & 0o044)
}

/// The index of a packed dataset.
///
/// # Errors
/// Usage for a dataset that is not a directory; the errors of the reader.
pub fn index_of(volume: &DatasetVolume, manifest: &Manifest, budget: &Budget) -> Result<Index> {
    if manifest.contents != Contents::Directory {
        let cause = format!("@{} is a file, not a directory", manifest.name);
        return Err(Error::usage("look into dataset", cause));
    }
    let (at, len) = (manifest.len_bytes, manifest.index_bytes);
    let mut reader = volume.range_reader(manifest, at, len, budget)?;
    let mut index = Vec::with_capacity(len as usize);
    while let Some(part) = reader.next_chunk()? {
        index.extend_from_slice(&part);
    }
    Index::decode(&index)
}

/// A readable source: a dataset's data, or one file packed in it.
pub struct Source {
    /// Returns the bytes.
    pub reader: DatasetReader,
    /// Their number.
    pub len_bytes: u64,
    /// Attributes of the original file, if it was one.
    pub attributes: Option<Attributes>,
}

/// Opens a dataset's data, or one file packed in it.
///
/// # Errors
/// There is no such file; the errors of the reader.
pub fn open(
    volume: &DatasetVolume,
    manifest: &Manifest,
    inside: Option<&str>,
    budget: &Budget,
) -> Result<Source> {
    let Some(name) = inside else {
        return Ok(Source {
            reader: volume.reader(manifest, budget)?,
            len_bytes: manifest.len_bytes,
            attributes: manifest.attributes,
        });
    };
    let index = index_of(volume, manifest, budget)?;
    let entry = index.find(name)?;
    Ok(Source {
        reader: volume.range_reader(manifest, entry.offset_bytes, entry.len_bytes, budget)?,
        len_bytes: entry.len_bytes,
        attributes: Some(entry.attributes),
    })
}

/// Writes the bytes of a reader to a stream.
///
/// # Errors
/// The errors of the reader; the stream cannot be written to.
pub fn get_stream(
    reader: &mut DatasetReader,
    target: &mut dyn Write,
    watch: Watch<'_>,
) -> Result<()> {
    let failed = |error: io::Error| Error::io("write output", &error);
    while let Some(part) = reader.next_chunk()? {
        (watch.check)()?;
        target.write_all(&part).map_err(failed)?;
        (watch.advance)(part.len() as u64);
    }
    target.flush().map_err(failed)
}

/// A file outside of the volume that is being written.
struct Outgoing {
    writes: Transfers<()>,
    file: VolumeFile,
}

impl Outgoing {
    /// Writes whole blocks at an offset. It never holds all buffers of a window, so reads continue
    /// in the meantime.
    fn write(&mut self, at_bytes: u64, buf: Buf) -> Result<()> {
        self.writes.write_behind(&self.file, at_bytes, buf)?;
        while self.writes.in_flight() >= WRITES_MAX {
            self.writes.wait()?;
        }
        Ok(())
    }
}

/// Writes a source to a file, which gets the source's permissions and time.
///
/// # Errors
/// The errors of the reader; the file exists and `replace` is not set; it cannot be written.
pub fn get_file(
    source: Source,
    path: &Path,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<()> {
    let Source {
        mut reader,
        len_bytes,
        attributes,
    } = source;
    let scratch = ScratchDrive::new(parent_of(path));
    let volume = Volume::new(Arc::clone(resources.device), &[scratch])?;
    let plan = ShardPlan {
        path: path.to_path_buf(),
        header: Vec::new(),
        start_bytes: 0,
        len_bytes,
    };
    let output = StagedOutput::stage(&volume, vec![plan], None, replace, Room::Exactly)?;
    let Some(shard) = output.shards().first() else {
        unreachable!("one shard was planned");
    };
    let mut out = Outgoing {
        writes: Transfers::new(&volume)?,
        file: shard.file.clone(),
    };
    if reader.begins_at_checksum_block() {
        write_as_it_comes(&mut reader, len_bytes, &mut out, resources)?;
    } else {
        write_shifted(&mut reader, &mut out, resources)?;
    }
    let written = resources.device.facts(out.file.id)?;
    out.writes.finish(|| Ok(()))?;
    output.publish(&volume, len_bytes)?;
    let Some(attributes) = attributes else {
        return Ok(());
    };
    let restore = || -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Another file, or a link, may have taken the name in the meantime; that one stays as it
        // is.
        let found = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Ok(()),
            opened => File::from(opened?),
        };
        let facts = found.metadata()?;
        match (facts.dev(), facts.ino()) == (written.file_system, written.inode) {
            true => attributes.restore(&found),
            false => Ok(()),
        }
    };
    restore().map_err(|error| Error::io("restore permissions", &error).path(path))
}

/// Writes each chunk as soon as its drive has delivered it, directly from the reader's buffer.
fn write_as_it_comes(
    reader: &mut DatasetReader,
    len_bytes: u64,
    out: &mut Outgoing,
    resources: TransferResources<'_>,
) -> Result<()> {
    while let Some((at_bytes, buf)) = reader.next_arrival()? {
        (resources.watch.check)()?;
        let chunk_bytes = (len_bytes - at_bytes).min(buf.len() as u64);
        out.write(at_bytes, buf)?;
        (resources.watch.advance)(chunk_bytes);
    }
    Ok(())
}

/// The reader's bytes do not begin at a block boundary, so they are shifted into place, in order.
fn write_shifted(
    reader: &mut DatasetReader,
    out: &mut Outgoing,
    resources: TransferResources<'_>,
) -> Result<()> {
    let pool = outcore_io::memory::Pool::new(resources.budget, "output", CHUNK_BYTES, WRITES_MAX)?;
    let mut at_bytes = 0;
    let mut pending: Option<(Buf, usize)> = None;
    while let Some(part) = reader.next_chunk()? {
        (resources.watch.check)()?;
        let mut rest = &part[..];
        while !rest.is_empty() {
            let (mut buf, filled) = match pending.take() {
                Some(pending) => pending,
                None => (out.writes.buffer(&pool, resources.watch.check)?, 0),
            };
            let now = rest.len().min(buf.len() - filled);
            buf[filled..filled + now].copy_from_slice(&rest[..now]);
            rest = &rest[now..];
            if filled + now == buf.len() {
                out.write(at_bytes, buf)?;
                at_bytes += CHUNK_BYTES as u64;
            } else {
                pending = Some((buf, filled + now));
            }
        }
        (resources.watch.advance)(part.len() as u64);
    }
    if let Some((mut buf, filled)) = pending {
        let padded_bytes = block_ceil(filled as u64) as usize;
        buf[filled..padded_bytes].fill(0);
        out.write(at_bytes, buf.split_to(padded_bytes))?;
    }
    Ok(())
}

/// Memory that any of these operations needs: two windows, one for the buffers in between, and two
/// for parity.
pub const MEMORY_BYTES_MIN: u64 = 5 * WINDOW_BYTES as u64;
