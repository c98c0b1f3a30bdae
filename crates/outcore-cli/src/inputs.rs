//! What the user named as input, made into files with a header, data and an identity.
//!
//! Contract: [`find`] expands `-`, manifests and plain names into [`Source`]s and refuses what can
//! be no input (directories, block devices). Sources that are no regular file are streams: they are
//! copied to scratch first (see [`crate::spool`]). [`look`] opens each file once and reads its
//! first bytes: a `.npy` header becomes part of the [`Input`]. Nothing else is read here.
//!
//! Standard input that is a regular file is read in place, from where it stands.

use std::fs::{self, File, Metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use outcore::algo::sort::SortInput;
use outcore::data::NpyHeader;
use outcore::data::npy::PREFIX_BYTES;
use outcore::volume::output::{MANIFEST_SUFFIX, Manifest};
use outcore::{Error, Result};

/// The name of standard input and output.
pub(crate) const STDIO: &str = "-";
/// Standard input as a file that can be opened again.
const STDIN_PATH: &str = "/proc/self/fd/0";
/// Version of manifests that this command reads.
const MANIFEST_VERSION: u32 = 1;
const OPEN: &str = "open input";

/// Identity of a file: its file system and its number there.
pub(crate) type FileKey = (u64, u64);

/// The identity of what `facts` describe.
pub(crate) fn key_of(facts: &Metadata) -> FileKey {
    (facts.dev(), facts.ino())
}

/// An input as it was named, before it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// For messages.
    pub(crate) name: String,
    /// Where to open it.
    pub(crate) path: PathBuf,
    /// Its identity, for regular files; streams have none.
    pub(crate) key: Option<FileKey>,
    /// First byte that belongs to the input.
    pub(crate) start_bytes: u64,
    /// The manifest that lists it.
    pub(crate) manifest: Option<PathBuf>,
}

impl Source {
    /// Whether it must be copied to scratch before it can be sorted.
    pub(crate) fn is_stream(&self) -> bool {
        self.key.is_none()
    }

    /// Whether its name says that it is an array of NumPy.
    fn is_named_npy(&self) -> bool {
        self.name.ends_with(".npy")
    }
}

/// A file that can be sorted.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// As it was named.
    pub(crate) source: Source,
    /// Bytes in front of the data.
    pub(crate) header_bytes: u64,
    /// Bytes of data.
    pub(crate) data_bytes: u64,
    /// Its header, if it is an array of NumPy.
    pub(crate) npy: Option<NpyHeader>,
}

impl Input {
    /// As the engine wants it.
    pub(crate) fn to_sort(&self) -> SortInput {
        SortInput {
            path: self.source.path.clone(),
            header_bytes: self.header_bytes,
            // A file of raw records ends where it ends; a header promises so much and no more.
            data_bytes: self.npy.is_some().then_some(self.data_bytes),
        }
    }
}

/// Expands the names of inputs, in order.
///
/// # Errors
/// A missing file, a directory or device, standard input named twice, a broken manifest.
pub(crate) fn find(names: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    if names.iter().filter(|name| is_stdio(name)).count() > 1 {
        return Err(
            Error::usage(OPEN, "standard input (-) is named more than once")
                .hint("it can be read once only"),
        );
    }
    for name in names {
        if is_stdio(name) {
            sources.push(standard_input()?);
        } else if is_manifest(name) {
            sources.extend(shards_of(name)?);
        } else {
            sources.push(named(name, None)?);
        }
    }
    Ok(sources)
}

/// Whether `name` means standard input, or output.
pub(crate) fn is_stdio(name: &Path) -> bool {
    name.as_os_str() == STDIO
}

/// Whether `name` means standard output; its names under /dev would not survive a rename.
pub(crate) fn is_stdout(name: &Path) -> bool {
    let names = [STDIO, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|known| name.as_os_str() == *known)
}

/// Whether `name` is that of a manifest.
pub(crate) fn is_manifest(name: &Path) -> bool {
    name.as_os_str()
        .as_encoded_bytes()
        .ends_with(MANIFEST_SUFFIX.as_bytes())
}

fn named(path: &Path, manifest: Option<&Path>) -> Result<Source> {
    let facts = fs::metadata(path).map_err(|error| cannot_open(path, &error))?;
    let kind = facts.file_type();
    if kind.is_dir() {
        return Err(Error::usage(OPEN, "it is a directory")
            .path(path)
            .hint("name the files in it"));
    }
    if kind.is_block_device() {
        return Err(Error::usage(OPEN, "it is a block device")
            .path(path)
            .hint("copy the part that holds the records into a file"));
    }
    Ok(Source {
        name: path.display().to_string(),
        path: path.to_path_buf(),
        key: kind.is_file().then(|| key_of(&facts)),
        start_bytes: 0,
        manifest: manifest.map(Path::to_path_buf),
    })
}

fn standard_input() -> Result<Source> {
    let stdin = rustix::stdio::stdin();
    let path = Path::new(STDIN_PATH);
    let facts = fs::metadata(path).map_err(|error| {
        Error::io(OPEN, &error)
            .path("standard input")
            .hint("is it closed? name a file instead of -")
    })?;
    if !facts.is_file() {
        return Ok(Source {
            name: "standard input".to_string(),
            path: path.to_path_buf(),
            key: None,
            start_bytes: 0,
            manifest: None,
        });
    }
    let at = rustix::fs::seek(stdin, rustix::fs::SeekFrom::Current(0));
    let start_bytes =
        at.map_err(|errno| Error::errno(OPEN, errno.raw_os_error()).path("standard input"))?;
    // The name it was opened by, where it still leads to the same file: better in messages.
    let by_name = fs::read_link(path)
        .ok()
        .filter(|target| fs::metadata(target).is_ok_and(|there| key_of(&there) == key_of(&facts)));
    Ok(Source {
        name: by_name
            .as_ref()
            .map_or("standard input".to_string(), |name| {
                name.display().to_string()
            }),
        path: by_name.unwrap_or(path.to_path_buf()),
        key: Some(key_of(&facts)),
        start_bytes,
        manifest: None,
    })
}

/// The shards that a manifest lists, in its order.
fn shards_of(path: &Path) -> Result<Vec<Source>> {
    const READ: &str = "read manifest";
    let text = fs::read_to_string(path).map_err(|error| cannot_open(path, &error))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| {
        Error::corrupt(READ, error.to_string())
            .path(path)
            .hint("sort again, or name the shards themselves in order")
    })?;
    if manifest.version != MANIFEST_VERSION {
        let cause = format!("version {} is unknown", manifest.version);
        return Err(Error::usage(READ, cause)
            .path(path)
            .hint("use a newer outcore, or name the shards themselves in order"));
    }
    let mut sources = Vec::with_capacity(manifest.shards.len());
    for shard in &manifest.shards {
        let len_bytes = fs::metadata(&shard.path)
            .map_err(|error| {
                cannot_open(&shard.path, &error)
                    .hint(format!("{} lists it as a shard", path.display()))
            })?
            .len();
        if len_bytes != shard.len_bytes {
            let cause = format!(
                "a shard of {len_bytes} bytes; {} says {}",
                path.display(),
                shard.len_bytes
            );
            return Err(Error::corrupt(READ, cause)
                .path(&shard.path)
                .hint("it was changed after it was written: sort again, or restore it"));
        }
        sources.push(named(&shard.path, Some(path))?);
    }
    Ok(sources)
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "check the permissions",
        _ => "check the path",
    };
    Error::io(OPEN, error).path(path).hint(hint)
}

/// Opens a source and reads its first bytes. What begins like a `.npy` file is one, and what is
/// named like one must be one.
///
/// # Errors
/// A file that cannot be read; a broken header; a file shorter or longer than its header says.
pub(crate) fn look(source: Source) -> Result<Input> {
    let file = File::open(&source.path).map_err(|error| cannot_open(&source.path, &error))?;
    let read = |error: std::io::Error| Error::io("read input", &error).path(&source.name);
    let file_bytes = file.metadata().map_err(read)?.len();
    let behind_bytes = file_bytes.saturating_sub(source.start_bytes);
    let mut prefix = [0; PREFIX_BYTES];
    let got = read_at(&file, &mut prefix, source.start_bytes).map_err(read)?;
    let is_npy = source.is_named_npy() || NpyHeader::is_npy(&prefix[..got]);
    if !is_npy {
        return Ok(Input {
            header_bytes: source.start_bytes,
            data_bytes: behind_bytes,
            npy: None,
            source,
        });
    }
    let header = read_header(&file, &prefix[..got], source.start_bytes)
        .and_then(|header| header.check_file_bytes(behind_bytes).map(|()| header))
        .map_err(|error| error.path(&source.name))?;
    Ok(Input {
        header_bytes: source.start_bytes + header.header_bytes as u64,
        data_bytes: behind_bytes - header.header_bytes as u64,
        npy: Some(header),
        source,
    })
}

fn read_header(file: &File, prefix: &[u8], start_bytes: u64) -> Result<NpyHeader> {
    let mut bytes = vec![0; NpyHeader::len_bytes(prefix)?];
    let got = read_at(file, &mut bytes, start_bytes)
        .map_err(|error| Error::io("read .npy header", &error))?;
    NpyHeader::parse(&bytes[..got])
}

/// Reads as much as there is, up to the length of `bytes`.
fn read_at(file: &File, bytes: &mut [u8], start_bytes: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], start_bytes + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Opens a stream for reading.
pub(crate) fn open_stream(source: &Source) -> Result<OwnedFd> {
    let opened = if source.path == Path::new(STDIN_PATH) {
        std::io::stdin().as_fd().try_clone_to_owned()
    } else {
        File::open(&source.path).map(OwnedFd::from)
    };
    opened.map_err(|error| cannot_open(Path::new(&source.name), &error))
}
