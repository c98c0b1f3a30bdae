//! Files into datasets and out of them: `put`, `get` and `cp`.
//!
//! Contract: one thread keeps reads of the source and writes of the target in flight at once, on a ring
//! each. What is read into is what is written from: the bytes of a single file are not copied on the
//! way, and a file that is got is written in the order in which the drives deliver. The files of a directory
//! are opened and read by [`PACK_READERS`] threads, in turn, since a small one is little but waiting. A target
//! appears whole or not at all, in the volume and outside. Sources are only read.
//!
//! Bounds: two windows of [`super::writer::WINDOW_BYTES`], the names of a packed directory, checksums.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::manifest::{Contents, Manifest};
use super::pack::{self, Entry};
use super::reader::DatasetReader;
use super::writer::{CHUNK_BYTES, DatasetWriter, NewDataset, WINDOW_BYTES};
use super::{DatasetVolume, Watch};
use crate::drive::{Access, Device, Op};
use crate::error::{Error, Kind, Result};
use crate::memory::{Budget, Buf, block_ceil};
use crate::volume::output::{Output, Room, ShardPlan, parent_of};
use crate::volume::{Port, ScratchDrive, Transfer, Volume, VolumeFile};

/// Reads of a source in flight.
const READS_MAX: usize = 16;
/// Writes of a target in flight: half of the reader's window.
const WRITES_MAX: usize = WINDOW_BYTES / CHUNK_BYTES / 2;

/// Threads that read the files of a directory.
const PACK_READERS: usize = 8;

/// What all transfers need.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// The files outside of the volume.
    pub device: &'a Arc<dyn Device>,
    /// Memory for buffers and checksums.
    pub budget: &'a Budget,
    /// How it is watched and stopped.
    pub watch: Watch<'a>,
}

/// Files outside of the volume and one thread's access to them.
struct Outside {
    volume: Volume,
    port: Port,
    drives: usize,
}

impl Outside {
    fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let volume = Volume::new(Arc::clone(device), &[])?;
        let port = volume.port()?;
        Ok(Outside {
            volume,
            port,
            drives: 0,
        })
    }

    /// Opens a file for reading; nothing may be in flight.
    fn open(&mut self, path: &Path) -> Result<VolumeFile> {
        let file = self.volume.open(path, Access::Read)?;
        if file.drive_index >= self.drives {
            self.drives = self.volume.drives().len();
            self.port = self.volume.port()?;
        }
        Ok(file)
    }
}

/// Puts one file; `new.payload_bytes` is filled in.
///
/// # Errors
/// The file cannot be read, or changes its length meanwhile; those of the writer.
pub fn put_file(
    volume: &DatasetVolume,
    path: &Path,
    new: &NewDataset,
    means: Means<'_>,
) -> Result<Manifest> {
    let mut source = Outside::new(means.device)?;
    let file = source.open(path)?;
    let len_bytes = file.facts.len_bytes;
    let new = NewDataset {
        contents: Contents::File,
        payload_bytes: Some(len_bytes),
        ..new.clone()
    };
    let mut writer = volume.writer(&new, means.budget)?;
    push_file(&mut source, &file, &mut writer, means.watch)?;
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
    let mut arrived: BTreeMap<u64, Transfer> = BTreeMap::new();
    let mut finished = Vec::new();
    while push_bytes < len_bytes {
        (watch.check)()?;
        while ask_bytes < len_bytes
            && source.port.in_flight() < READS_MAX
            && let Some(buf) = writer.pool().take()
        {
            source
                .port
                .submit(file, Op::Read, ask_bytes, buf, ask_bytes);
            ask_bytes += CHUNK_BYTES as u64;
        }
        if source.port.in_flight() == 0 && arrived.is_empty() {
            // All buffers are being written.
            writer.poll(true)?;
            continue;
        }
        source.port.poll(true, &mut finished)?;
        arrived.extend(
            finished
                .drain(..)
                .map(|transfer| (transfer.token, transfer)),
        );
        while let Some(transfer) = arrived.remove(&push_bytes) {
            if let Some(fault) = &transfer.fault {
                return Err(source.volume.explain(fault));
            }
            let wanted_bytes = (len_bytes - push_bytes).min(CHUNK_BYTES as u64) as usize;
            if transfer.len_bytes < wanted_bytes {
                return Err(changed(&file.path));
            }
            writer.push(transfer.buf, wanted_bytes)?;
            push_bytes += wanted_bytes as u64;
            (watch.advance)(wanted_bytes as u64);
        }
        writer.poll(false)?;
    }
    Ok(())
}

fn changed(path: &Path) -> Error {
    Error::corrupt("put file", "it became shorter while it was read")
        .path(path)
        .hint("put it again when nobody writes to it")
}

/// Puts all that `source` gives.
///
/// # Errors
/// It cannot be read; those of the writer.
pub fn put_stream(
    volume: &DatasetVolume,
    source: &mut dyn Read,
    new: &NewDataset,
    means: Means<'_>,
) -> Result<Manifest> {
    let mut writer = volume.writer(new, means.budget)?;
    loop {
        (means.watch.check)()?;
        let mut buf = writer.take_buf()?;
        let len_bytes = read_full(source, &mut buf)
            .map_err(|error| Error::io("read standard input", &error))?;
        if len_bytes > 0 {
            writer.push(buf, len_bytes)?;
            (means.watch.advance)(len_bytes as u64);
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

/// Packs all files below a directory, by name, and directories in which there is nothing; symbolic links and special files are refused.
///
/// # Errors
/// A name that cannot be packed, a file that cannot be read or changes; those of the writer.
pub fn put_dir(
    volume: &DatasetVolume,
    dir: &Path,
    new: &NewDataset,
    means: Means<'_>,
) -> Result<Manifest> {
    let mut entries = Vec::new();
    list_files(dir, "", &mut entries)?;
    let index = pack::encode(&entries);
    let data_bytes: u64 = entries.iter().map(|entry| entry.len_bytes).sum();
    let new = NewDataset {
        contents: Contents::Directory,
        payload_bytes: Some(data_bytes + index.len() as u64),
        ..new.clone()
    };
    let mut packer = Packer {
        writer: volume.writer(&new, means.budget)?,
        buf: None,
        filled: 0,
    };
    std::thread::scope(|scope| -> Result<()> {
        let (device, budget, entries) = (means.device, means.budget, &entries);
        let mut readers = Vec::with_capacity(PACK_READERS);
        for number in 0..PACK_READERS {
            let (to, from) = sync_channel(0);
            readers.push(from);
            scope.spawn(move || {
                if let Err(error) = read_parts((device, budget), dir, entries, number, &to) {
                    // Nobody listens only when the job has failed already.
                    let _ = to.send(Err(error));
                }
            });
        }
        for (number, part) in parts(entries).enumerate() {
            (means.watch.check)()?;
            let received = readers[number % PACK_READERS].recv();
            let ended = || Error::new(Kind::Io, "put directory", "a reader has ended");
            let buf = received.map_err(|_| ended())??;
            packer.add(&buf[..part.len_bytes])?;
            (means.watch.advance)(part.len_bytes as u64);
        }
        Ok(())
    })?;
    packer.add(&index)?;
    packer.finish(index.len() as u64, pack::count_files(&entries))
}

/// What one read of a file to pack gives.
struct Part {
    entry: usize,
    at_bytes: u64,
    len_bytes: usize,
}

/// All reads, in the order in which they are packed.
fn parts(entries: &[Entry]) -> impl Iterator<Item = Part> {
    entries.iter().enumerate().flat_map(|(entry, found)| {
        let begins = (0..found.len_bytes).step_by(CHUNK_BYTES);
        begins.map(move |at_bytes| Part {
            entry,
            at_bytes,
            len_bytes: (found.len_bytes - at_bytes).min(CHUNK_BYTES as u64) as usize,
        })
    })
}

/// Reads every [`PACK_READERS`]th part from `number` on, and hands each over when it is asked for.
fn read_parts(
    (device, budget): (&Arc<dyn Device>, &Budget),
    dir: &Path,
    entries: &[Entry],
    number: usize,
    to: &SyncSender<Result<Buf>>,
) -> Result<()> {
    let pool = crate::memory::Pool::new(budget, "files to pack", CHUNK_BYTES, 2)?;
    let mut source = Outside::new(device)?;
    let mut open: Option<(usize, VolumeFile)> = None;
    let mut finished = Vec::new();
    for part in parts(entries).skip(number).step_by(PACK_READERS) {
        let path = dir.join(&entries[part.entry].name);
        let file = match open.take() {
            Some((entry, file)) if entry == part.entry => file,
            other => {
                if let Some((_, file)) = other {
                    source.volume.close(&file);
                }
                source.open(&path)?
            }
        };
        let Some(buf) = pool.take() else {
            unreachable!("who asks for a part has no other of this reader any more");
        };
        source.port.submit(&file, Op::Read, part.at_bytes, buf, 0);
        open = Some((part.entry, file));
        while source.port.in_flight() > 0 {
            source.port.poll(true, &mut finished)?;
        }
        for transfer in finished.drain(..) {
            if let Some(fault) = &transfer.fault {
                return Err(source.volume.explain(fault));
            }
            if transfer.len_bytes < part.len_bytes {
                return Err(changed(&path));
            }
            if to.send(Ok(transfer.buf)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// All files below `dir`, and directories in which there is nothing, in the order of their names.
fn list_files(dir: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<()> {
    const LIST: &str = "list directory";
    let failed = |error: io::Error| Error::io(LIST, &error).path(dir);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            Error::usage(LIST, "a name is not UTF-8")
                .path(dir.join(name))
                .hint("rename it: names in a dataset are text")
        })?;
        found.push((name, entry.metadata().map_err(failed)?));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, facts) in found {
        let path = dir.join(&name);
        let name = format!("{prefix}{name}");
        pack::check_name(&name).map_err(|error| error.path(&path))?;
        if facts.is_dir() {
            let (inner, before) = (format!("{name}/"), entries.len());
            list_files(&path, &inner, entries)?;
            if entries.len() == before {
                entries.push(Entry {
                    name: inner,
                    offset_bytes: 0,
                    len_bytes: 0,
                    mode: facts.permissions().mode() & 0o777,
                });
            }
        } else if facts.is_file() {
            entries.push(Entry {
                name,
                offset_bytes: 0,
                len_bytes: facts.len(),
                mode: facts.permissions().mode() & 0o777,
            });
        } else {
            let cause = match facts.is_symlink() {
                true => "it is a symbolic link",
                false => "it is neither a file nor a directory",
            };
            return Err(Error::usage(LIST, cause)
                .path(&path)
                .hint("remove it, or put the files that it leads to"));
        }
    }
    Ok(())
}

/// Copies a dataset inside its volume, or to another.
///
/// # Errors
/// Those of the reader and of the writer.
pub fn copy(
    from: &DatasetVolume,
    manifest: &Manifest,
    to: &DatasetVolume,
    new: &NewDataset,
    means: Means<'_>,
) -> Result<Manifest> {
    let payload_bytes = manifest.payload_bytes();
    let new = NewDataset {
        contents: manifest.contents,
        payload_bytes: Some(payload_bytes),
        ..new.clone()
    };
    let mut reader = from.range_reader(manifest, 0, payload_bytes, means.budget)?;
    let mut packer = Packer {
        writer: to.writer(&new, means.budget)?,
        buf: None,
        filled: 0,
    };
    while let Some(part) = reader.next_chunk()? {
        (means.watch.check)()?;
        packer.add(&part)?;
        (means.watch.advance)(part.len() as u64);
    }
    packer.finish(manifest.index_bytes, manifest.files)
}

/// The files packed in a dataset.
///
/// # Errors
/// Usage for a dataset that is no directory; those of the reader.
pub fn index_of(
    volume: &DatasetVolume,
    manifest: &Manifest,
    budget: &Budget,
) -> Result<Vec<Entry>> {
    if manifest.contents != Contents::Directory {
        let cause = format!("@{} is one file and no directory", manifest.name);
        return Err(Error::usage("look into dataset", cause));
    }
    let (at, len) = (manifest.len_bytes, manifest.index_bytes);
    let mut reader = volume.range_reader(manifest, at, len, budget)?;
    let mut index = Vec::with_capacity(len as usize);
    while let Some(part) = reader.next_chunk()? {
        index.extend_from_slice(&part);
    }
    pack::decode(&index)
}

/// A reader of a dataset's data, or of one file packed in it.
///
/// # Errors
/// There is no such file; those of the reader.
pub fn open(
    volume: &DatasetVolume,
    manifest: &Manifest,
    inside: Option<&str>,
    budget: &Budget,
) -> Result<(DatasetReader, u64)> {
    let Some(name) = inside else {
        let reader = volume.reader(manifest, budget)?;
        return Ok((reader, manifest.len_bytes));
    };
    let entries = index_of(volume, manifest, budget)?;
    let entry = pack::find(&entries, name).ok_or_else(|| {
        let cause = format!("there is no {name} in @{}", manifest.name);
        Error::usage("look into dataset", cause).hint("`outcore ls @NAME` lists what is in it")
    })?;
    let reader = volume.range_reader(manifest, entry.offset_bytes, entry.len_bytes, budget)?;
    Ok((reader, entry.len_bytes))
}

/// Writes what a reader gives to a stream.
///
/// # Errors
/// Those of the reader; the stream cannot be written to.
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
struct Outgoing<'a> {
    volume: &'a Volume,
    port: Port,
    file: VolumeFile,
    finished: Vec<Transfer>,
}

impl Outgoing<'_> {
    /// Writes whole blocks to a place. Not all buffers of a window are ever held here, so that reads go
    /// on meanwhile.
    fn write(&mut self, at_bytes: u64, buf: Buf) -> Result<()> {
        self.port.submit(&self.file, Op::Write, at_bytes, buf, 0);
        self.settle(false)?;
        while self.port.in_flight() >= WRITES_MAX {
            self.settle(true)?;
        }
        Ok(())
    }

    fn settle(&mut self, wait: bool) -> Result<()> {
        self.port.poll(wait, &mut self.finished)?;
        let fault = self.finished.drain(..).find_map(|transfer| transfer.fault);
        fault.map_or(Ok(()), |fault| Err(self.volume.explain(&fault)))
    }

    fn finish(mut self) -> Result<()> {
        while self.port.in_flight() > 0 {
            self.settle(true)?;
        }
        Ok(())
    }
}

/// Writes the `len_bytes` that a reader gives to a file.
///
/// # Errors
/// Those of the reader; the file exists and `replace` is not set; it cannot be written.
pub fn get_file(
    reader: &mut DatasetReader,
    len_bytes: u64,
    path: &Path,
    replace: bool,
    means: Means<'_>,
) -> Result<()> {
    let scratch = ScratchDrive::new(parent_of(path));
    let volume = Volume::new(Arc::clone(means.device), &[scratch])?;
    let plan = ShardPlan {
        path: path.to_path_buf(),
        header: Vec::new(),
        start_bytes: 0,
        len_bytes,
    };
    let output = Output::stage(&volume, vec![plan], None, replace, Room::Exactly)?;
    let Some(shard) = output.shards().first() else {
        unreachable!("one shard was planned");
    };
    let mut out = Outgoing {
        volume: &volume,
        port: volume.port()?,
        file: shard.file.clone(),
        finished: Vec::new(),
    };
    if reader.begins_at_granule() {
        write_as_it_comes(reader, len_bytes, &mut out, means)?;
    } else {
        write_shifted(reader, &mut out, means)?;
    }
    out.finish()?;
    output.publish(&volume, len_bytes)
}

/// Each chunk is written where it belongs when its drive has delivered it, out of the reader's buffer.
fn write_as_it_comes(
    reader: &mut DatasetReader,
    len_bytes: u64,
    out: &mut Outgoing<'_>,
    means: Means<'_>,
) -> Result<()> {
    while let Some((at_bytes, buf)) = reader.next_arrival()? {
        (means.watch.check)()?;
        let chunk_bytes = (len_bytes - at_bytes).min(buf.len() as u64);
        out.write(at_bytes, buf)?;
        (means.watch.advance)(chunk_bytes);
    }
    Ok(())
}

/// What a reader gives does not begin where a block does: it is shifted into place, in order.
fn write_shifted(
    reader: &mut DatasetReader,
    out: &mut Outgoing<'_>,
    means: Means<'_>,
) -> Result<()> {
    let pool = crate::memory::Pool::new(means.budget, "output", CHUNK_BYTES, WRITES_MAX)?;
    let mut at_bytes = 0;
    let mut pending: Option<(Buf, usize)> = None;
    while let Some(part) = reader.next_chunk()? {
        (means.watch.check)()?;
        let mut rest = &part[..];
        while !rest.is_empty() {
            let (mut buf, filled) = match pending.take() {
                Some(pending) => pending,
                None => loop {
                    match pool.take() {
                        Some(buf) => break (buf, 0),
                        None => out.settle(true)?,
                    }
                },
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
        (means.watch.advance)(part.len() as u64);
    }
    if let Some((mut buf, filled)) = pending {
        let padded_bytes = block_ceil(filled as u64) as usize;
        buf[filled..padded_bytes].fill(0);
        out.write(at_bytes, buf.split_to(padded_bytes))?;
    }
    Ok(())
}

/// Unpacks a directory; it must not exist.
///
/// # Errors
/// Usage: `dir` exists, the dataset is no directory; those of the reader; files cannot be written.
pub fn get_dir(
    volume: &DatasetVolume,
    manifest: &Manifest,
    dir: &Path,
    means: Means<'_>,
) -> Result<u64> {
    const UNPACK: &str = "unpack dataset";
    if dir.exists() {
        return Err(Error::usage(UNPACK, "it exists already")
            .path(dir)
            .hint("name a directory that does not exist yet"));
    }
    let entries = index_of(volume, manifest, means.budget)?;
    let mut reader = volume.reader(manifest, means.budget)?;
    let parent = parent_of(dir);
    means.device.sweep_private_dirs(parent)?;
    let staged = means.device.make_private_dir(parent)?;
    let tree = staged.path().join("tree");
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error: io::Error| Error::io(UNPACK, &error).path(&path)
    };
    make_dir(&tree).map_err(failed(&tree))?;
    let mut rest: Option<Buf> = None;
    for entry in &entries {
        (means.watch.check)()?;
        let path = tree.join(&entry.name);
        if entry.is_empty_dir() {
            make_dir(&path).map_err(failed(&path))?;
            continue;
        }
        make_dir(parent_of(&path)).map_err(failed(&path))?;
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(entry.mode | 0o200);
        let mut file = options.open(&path).map_err(failed(&path))?;
        let mut left_bytes = entry.len_bytes as usize;
        while left_bytes > 0 {
            let mut part = match rest.take() {
                Some(part) => part,
                None => reader.next_chunk()?.ok_or_else(|| {
                    Error::new(Kind::Corrupt, UNPACK, "it is shorter than its index says")
                })?,
            };
            let now = part.split_to(left_bytes.min(part.len()));
            file.write_all(&now).map_err(failed(&path))?;
            left_bytes -= now.len();
            (means.watch.advance)(now.len() as u64);
            rest = Some(part).filter(|part| !part.is_empty());
        }
    }
    let root = fs::File::open(&tree).map_err(failed(&tree))?;
    rustix::fs::syncfs(&root).map_err(|errno| failed(&tree)(errno.into()))?;
    fs::rename(&tree, dir).map_err(failed(dir))?;
    Ok(pack::count_files(&entries))
}

fn make_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o777).create(path)
}

/// Memory that any of these needs: two windows and what lies between.
pub const MEMORY_BYTES_MIN: u64 = 3 * WINDOW_BYTES as u64;
