//! Packs directories into datasets and unpacks them: the files end to end, followed by an index.
//!
//! Contract: `get_dir` recreates what `put_dir` packed: files, symbolic links (as links, never
//! followed) and directories, with any bytes in their names, and with their permissions and times.
//! Hard links become separate files. Sockets, pipes and devices hold no data; they are skipped and
//! counted. A directory appears complete or not at all. All files are written before any link is
//! made, so nothing is ever written through a link.
//!
//! Model: the files and the index form one stream, divided into chunks that are the writer's
//! buffers. [`READERS`] threads fill the chunks in rotation, directly from the files of each chunk.
//! A small file takes one read through the page cache ([`Device::read_head`]), where it often is
//! already; opening it would cost three system calls. A large file is read past the cache, in
//! pieces, like any input.
//!
//! Bounds: the writer's window, a chunk and two blocks per reader, the index.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::fs::{
    AtFlags, Mode, OFlags, Timespec, Timestamps, mkdirat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::manifest::{Contents, Manifest};
use super::pack::{Attributes, Entry, EntryKind, Index};
use super::transfer::{Outside, TransferResources, changed, index_of};
use super::writer::{CHUNK_BYTES, NewDataset};
use super::{DatasetVolume, Watch};
use outcore_io::drive::paths;
use outcore_io::drive::{BLOCK_BYTES, Device};
use outcore_io::error::{Error, Kind, Result};
use outcore_io::memory::{Budget, Buf, Pool};
use outcore_io::output::parent_of;
use outcore_io::port::VolumeFile;
use outcore_io::threads::spawn_scoped;

/// Threads that read the files of a directory.
const READERS: usize = 8;
/// Files up to this length are read through the page cache.
const SMALL_BYTES: u64 = 256 << 10;
/// Read length for a large file: one chunk, at any alignment.
const DIRECT_BYTES: usize = CHUNK_BYTES + 2 * BLOCK_BYTES;

const LIST: &str = "list directory";
const PUT: &str = "put directory";
const UNPACK: &str = "unpack dataset";
/// Name of the directory before it is published.
const TREE: &str = "tree";

/// Files that were skipped because they hold no data: sockets, pipes, devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their number.
    pub count: u64,
    /// The path of the first one.
    pub first: Option<PathBuf>,
}

/// Packs the contents of a directory.
///
/// # Errors
/// A file cannot be read or changes in the meantime; the errors of the writer.
pub fn put_dir(
    volume: &DatasetVolume,
    dir: &Path,
    new: &NewDataset,
    resources: TransferResources<'_>,
) -> Result<(Manifest, LeftOut)> {
    let (index, left_out) = list(dir)?;
    let stream = Stream {
        dir,
        data_bytes: index.data_bytes(),
        tail: index.encode(),
        entries: &index.entries,
    };
    let new = NewDataset {
        contents: Contents::Directory,
        payload_bytes: Some(stream.len_bytes()),
        readers: index.readers(),
        ..new.clone()
    };
    let mut writer = volume.writer(&new, resources.budget)?;
    std::thread::scope(|scope| -> Result<()> {
        let mut readers = Vec::with_capacity(READERS);
        for number in 0..READERS.min(stream.chunks()) {
            let (to_reader, buffers) = channel();
            let (to_writer, filled) = sync_channel(0);
            let (stream, device, budget) = (&stream, resources.device, resources.budget);
            let name = format!("outcore-pack{} of {READERS}", number + 1);
            spawn_scoped(scope, &name, move || {
                let read = fill_chunks(stream, number, device, budget, &buffers, &to_writer);
                if let Err(error) = read {
                    // The receiver is gone only if the job has already failed.
                    let _ = to_writer.send(Err(error));
                }
            })?;
            lend(&to_reader, writer.take_buf()?);
            readers.push((to_reader, filled));
        }
        for chunk in 0..stream.chunks() {
            (resources.watch.check)()?;
            let (to_reader, filled) = &readers[chunk % READERS];
            let buf = filled.recv().map_err(|_| ended())??;
            let len_bytes = stream.chunk_len(chunk);
            writer.push(buf, len_bytes)?;
            (resources.watch.advance)(len_bytes as u64);
            if chunk + READERS < stream.chunks() {
                lend(to_reader, writer.take_buf()?);
            }
        }
        Ok(())
    })?;
    let manifest = writer.seal(stream.tail.len() as u64, index.count_files())?;
    Ok((manifest, left_out))
}

fn ended() -> Error {
    Error::new(Kind::Io, PUT, "a thread that reads files has ended")
}

/// Passes a reader the buffer of its next chunk.
fn lend(to_reader: &Sender<Buf>, buf: Buf) {
    // A reader ends early only with an error, which the next receive returns.
    let _ = to_reader.send(buf);
}

/// The contents of the dataset: files, one after another, and the index.
struct Stream<'a> {
    dir: &'a Path,
    entries: &'a [Entry],
    data_bytes: u64,
    tail: Vec<u8>,
}

impl Stream<'_> {
    fn len_bytes(&self) -> u64 {
        self.data_bytes + self.tail.len() as u64
    }

    fn chunks(&self) -> usize {
        self.len_bytes().div_ceil(CHUNK_BYTES as u64) as usize
    }

    fn chunk_len(&self, chunk: usize) -> usize {
        let left_bytes = self.len_bytes() - chunk as u64 * CHUNK_BYTES as u64;
        left_bytes.min(CHUNK_BYTES as u64) as usize
    }
}

/// Fills chunk `number` and every [`READERS`]th chunk after it, and sends each when it is
/// requested.
fn fill_chunks(
    stream: &Stream<'_>,
    number: usize,
    device: &Arc<dyn Device>,
    budget: &Budget,
    buffers: &Receiver<Buf>,
    to_writer: &SyncSender<Result<Buf>>,
) -> Result<()> {
    let mut reader = FileReader {
        device,
        budget,
        large: None,
    };
    for chunk in (number..stream.chunks()).step_by(READERS) {
        let Ok(mut buf) = buffers.recv() else {
            return Ok(());
        };
        let start_bytes = chunk as u64 * CHUNK_BYTES as u64;
        fill(
            stream,
            start_bytes,
            &mut buf[..stream.chunk_len(chunk)],
            &mut reader,
        )?;
        if to_writer.send(Ok(buf)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Fills `into` with the bytes at `start_bytes` of the stream.
fn fill(
    stream: &Stream<'_>,
    start_bytes: u64,
    into: &mut [u8],
    reader: &mut FileReader<'_>,
) -> Result<()> {
    let end_bytes = start_bytes + into.len() as u64;
    let ends_before = |entry: &Entry| entry.offset_bytes + entry.len_bytes <= start_bytes;
    let first = stream.entries.partition_point(ends_before);
    for (number, entry) in stream.entries.iter().enumerate().skip(first) {
        let from = entry.offset_bytes.max(start_bytes);
        let to = (entry.offset_bytes + entry.len_bytes).min(end_bytes);
        if entry.offset_bytes >= end_bytes {
            break;
        }
        if from < to {
            let place = (from - start_bytes) as usize..(to - start_bytes) as usize;
            let path = stream.dir.join(&entry.name);
            let at_bytes = from - entry.offset_bytes;
            reader.read(number, &path, entry.len_bytes, at_bytes, &mut into[place])?;
        }
    }
    if end_bytes > stream.data_bytes {
        let from = stream.data_bytes.max(start_bytes);
        let tail = (from - stream.data_bytes) as usize..(end_bytes - stream.data_bytes) as usize;
        into[(from - start_bytes) as usize..].copy_from_slice(&stream.tail[tail]);
    }
    Ok(())
}

/// One thread's access to the files.
struct FileReader<'a> {
    device: &'a Arc<dyn Device>,
    budget: &'a Budget,
    large: Option<LargeFiles>,
}

/// Resources for large files, made at the first large file.
struct LargeFiles {
    outside: Outside,
    pool: Pool,
    /// The file read last: the next chunk often belongs to the same one.
    open: Option<(usize, VolumeFile)>,
}

impl FileReader<'_> {
    /// Fills `into` from an offset in the file of an entry.
    fn read(
        &mut self,
        entry: usize,
        path: &Path,
        len_bytes: u64,
        at_bytes: u64,
        into: &mut [u8],
    ) -> Result<()> {
        if len_bytes > SMALL_BYTES {
            return self.read_large(entry, path, at_bytes, into);
        }
        if at_bytes == 0 {
            return match self.device.read_head(path, into)? {
                found if found == into.len() => Ok(()),
                _ => Err(changed(path)),
            };
        }
        // The rest of a small file that begins in the previous chunk; it is read once per chunk.
        let mut whole = vec![0; at_bytes as usize + into.len()];
        match self.device.read_head(path, &mut whole)? {
            found if found == whole.len() => into.copy_from_slice(&whole[at_bytes as usize..]),
            _ => return Err(changed(path)),
        }
        Ok(())
    }

    fn read_large(
        &mut self,
        entry: usize,
        path: &Path,
        at_bytes: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let large = match &mut self.large {
            Some(large) => large,
            none => none.insert(LargeFiles {
                outside: Outside::new(self.device)?,
                pool: Pool::new(self.budget, "files to pack", DIRECT_BYTES, 1)?,
                open: None,
            }),
        };
        let file = match large.open.take() {
            Some((open, file)) if open == entry => file,
            other => {
                if let Some((_, file)) = other {
                    large.outside.volume.close(&file);
                }
                large.outside.open(path)?
            }
        };
        let Some(buf) = large.pool.take() else {
            unreachable!("the one buffer has come back from the read before");
        };
        let start_bytes = at_bytes - at_bytes % BLOCK_BYTES as u64;
        let skipped = (at_bytes - start_bytes) as usize;
        let reads = &mut large.outside.reads;
        reads.read(&file, start_bytes, buf, ());
        large.open = Some((entry, file));
        match reads.next_in_order(|| Ok(()))? {
            Some(read) if read.len_bytes >= skipped + into.len() => {
                into.copy_from_slice(&read.buf[skipped..skipped + into.len()]);
                Ok(())
            }
            _ => Err(changed(path)),
        }
    }
}

/// The contents of `dir`, and the files that were skipped.
fn list(dir: &Path) -> Result<(Index, LeftOut)> {
    let facts = paths::facts(dir).map_err(|error| Error::io(LIST, &error).path(dir))?;
    let mut index = Index {
        root: Attributes::of(&facts),
        entries: Vec::new(),
    };
    let mut left_out = LeftOut::default();
    list_below(dir, Path::new(""), &mut index.entries, &mut left_out)?;
    let mut offset_bytes = 0;
    for entry in &mut index.entries {
        entry.offset_bytes = offset_bytes;
        offset_bytes += entry.len_bytes;
    }
    Ok((index, left_out))
}

fn list_below(
    dir: &Path,
    prefix: &Path,
    entries: &mut Vec<Entry>,
    left_out: &mut LeftOut,
) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |error: io::Error| Error::io(LIST, &error).path(path)
    };
    let mut found = Vec::new();
    for entry in paths::entries(dir).map_err(failed(dir))? {
        let entry = entry.map_err(failed(dir))?;
        let facts = entry.metadata().map_err(failed(&entry.path()))?;
        found.push((entry.file_name(), facts));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, facts) in found {
        let (path, name) = (dir.join(&name), prefix.join(&name));
        let kind = if facts.is_file() {
            EntryKind::File
        } else if facts.is_dir() {
            EntryKind::Directory
        } else if facts.is_symlink() {
            let target = paths::link_target(&path).map_err(failed(&path))?;
            EntryKind::Link {
                target: target.into_os_string(),
            }
        } else {
            left_out.count += 1;
            left_out.first.get_or_insert(path);
            continue;
        };
        let is_dir = kind == EntryKind::Directory;
        entries.push(Entry {
            len_bytes: if kind == EntryKind::File {
                facts.size()
            } else {
                0
            },
            name: name.clone().into_os_string(),
            kind,
            offset_bytes: 0,
            attributes: Attributes::of(&facts),
        });
        if is_dir {
            list_below(&path, &name, entries, left_out)?;
        }
    }
    Ok(())
}

/// Unpacks a directory, which must not exist; returns the number of files and links in it.
///
/// # Errors
/// Usage: `dir` exists, or the dataset is not a directory; the errors of the reader; files cannot
/// be written.
pub fn get_dir(
    volume: &DatasetVolume,
    manifest: &Manifest,
    dir: &Path,
    resources: TransferResources<'_>,
) -> Result<u64> {
    if paths::link_facts(dir).is_ok() {
        return Err(Error::usage(UNPACK, "it exists already")
            .path(dir)
            .hint("name a directory that does not exist yet"));
    }
    let index = index_of(volume, manifest, resources.budget)?;
    let mut reader = volume.reader(manifest, resources.budget)?;
    let parent = parent_of(dir);
    resources.device.sweep_private_dirs(parent)?;
    let staged = resources.device.make_private_dir(parent)?;
    let tree = Tree {
        path: staged.path().join(TREE),
        dir: staged.create_tree(TREE)?.into(),
    };
    let mut rest: Option<Buf> = None;
    let mut next = |watch: Watch<'_>, file: &mut File, path: &Path, len_bytes: u64| {
        let mut left_bytes = len_bytes as usize;
        while left_bytes > 0 {
            let mut part = match rest.take() {
                Some(part) => part,
                None => reader.next_chunk()?.ok_or_else(|| {
                    Error::new(
                        Kind::Corrupt,
                        UNPACK,
                        "the dataset is shorter than its index says",
                    )
                })?,
            };
            let now = part.split_to(left_bytes.min(part.len()));
            file.write_all(&now).map_err(failed(path))?;
            left_bytes -= now.len();
            (watch.advance)(now.len() as u64);
            rest = Some(part).filter(|part| !part.is_empty());
        }
        Ok::<(), Error>(())
    };
    for entry in &index.entries {
        (resources.watch.check)()?;
        match entry.kind {
            EntryKind::Directory => tree.make_dir(&entry.name)?,
            EntryKind::File => {
                let path = tree.path.join(&entry.name);
                let mut file = tree.make_file(&entry.name)?;
                next(resources.watch, &mut file, &path, entry.len_bytes)?;
                let restored = entry.attributes.restore(&file);
                restored.map_err(failed(&path))?;
            }
            EntryKind::Link { .. } => {}
        }
    }
    tree.finish(&index)?;
    let synced = rustix::fs::syncfs(&tree.dir);
    synced.map_err(|errno| failed(&tree.path)(errno.into()))?;
    // A directory that its owner cannot enter could not be renamed, so its own permissions are set
    // last.
    staged.publish_dir(TREE, dir)?;
    index.root.restore(&tree.dir).map_err(failed(dir))?;
    Ok(index.count_files())
}

/// A directory that is being unpacked. All access uses its handle, because a user who can rename in
/// the parent could put another directory in its place.
struct Tree {
    /// For messages.
    path: PathBuf,
    dir: File,
}

impl Tree {
    fn failed(&self, name: &OsStr) -> impl FnOnce(Errno) -> Error + use<> {
        let failed = failed(&self.path.join(name));
        move |errno: Errno| failed(errno.into())
    }

    fn make_dir(&self, name: &OsStr) -> Result<()> {
        mkdirat(&self.dir, name, Mode::RWXU).map_err(self.failed(name))
    }

    fn make_file(&self, name: &OsStr) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR);
        file.map(File::from).map_err(self.failed(name))
    }

    /// Makes the links, once all files are written. Then sets the permissions and times of the
    /// directories, the innermost first. This comes last because creating an entry changes the time
    /// of its directory.
    fn finish(&self, index: &Index) -> Result<()> {
        for entry in &index.entries {
            let EntryKind::Link { target } = &entry.kind else {
                continue;
            };
            symlinkat(target, &self.dir, &entry.name).map_err(self.failed(&entry.name))?;
            let time = Timespec {
                tv_sec: entry.attributes.modified_s,
                tv_nsec: entry.attributes.modified_ns.into(),
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            utimensat(&self.dir, &entry.name, &times, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(self.failed(&entry.name))?;
        }
        for entry in index.entries.iter().rev() {
            if entry.kind == EntryKind::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let dir = openat(&self.dir, &entry.name, flags, Mode::empty());
                let dir = dir.map(File::from).map_err(self.failed(&entry.name))?;
                let restored = entry.attributes.restore(&dir);
                restored.map_err(failed(&self.path.join(&entry.name)))?;
            }
        }
        Ok(())
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_path_buf();
    move |error: io::Error| Error::io(UNPACK, &error).path(path)
}
