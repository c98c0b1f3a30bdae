//! What the caller named as input, made into files with a header, data and an identity.
//!
//! Contract: [`find`] expands manifests, refuses what is no regular file, and opens each file once
//! to read its first bytes: what begins like a `.npy` file is one, and what is named like one must
//! be one. Nothing else is read here.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use outcore::algo::sort::SortInput;
use outcore::data::NpyHeader;
use outcore::data::npy::PREFIX_BYTES;
use outcore::volume::output::{MANIFEST_SUFFIX, Manifest};
use outcore::{Error, Result};

/// Version of manifests that are read.
const MANIFEST_VERSION: u32 = 1;
const OPEN: &str = "open input";
const READ_MANIFEST: &str = "read manifest";

/// Identity of a file: its file system and its number there.
pub(crate) type FileKey = (u64, u64);

/// The identity of what `facts` describe.
pub(crate) fn key_of(facts: &Metadata) -> FileKey {
    (facts.dev(), facts.ino())
}

/// A file that can be read.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// As it was named.
    pub(crate) path: PathBuf,
    /// Its identity.
    pub(crate) key: FileKey,
    /// Bytes of data.
    pub(crate) data_bytes: u64,
    /// Its header, if it is an array of NumPy.
    pub(crate) npy: Option<NpyHeader>,
}

impl Input {
    /// As the engine wants it.
    pub(crate) fn to_sort(&self) -> SortInput {
        let header_bytes = self.npy.as_ref().map_or(0, |header| header.header_bytes);
        SortInput {
            path: self.path.clone(),
            header_bytes: header_bytes as u64,
            // A file of raw records ends where it ends; a header promises so much and no more.
            data_bytes: self.npy.is_some().then_some(self.data_bytes),
        }
    }
}

/// Whether `name` is that of a manifest.
pub(crate) fn is_manifest(name: &Path) -> bool {
    let bytes = name.as_os_str().as_encoded_bytes();
    bytes.ends_with(MANIFEST_SUFFIX.as_bytes())
}

/// The files of all names, in order.
///
/// # Errors
/// No name; a file that is missing, unreadable or no regular file; a broken manifest or header; a
/// `.npy` file whose length is not what its header says.
pub(crate) fn find(names: &[PathBuf]) -> Result<Vec<Input>> {
    if names.is_empty() {
        return Err(Error::usage(OPEN, "no input is named").hint("name a file"));
    }
    let mut inputs = Vec::new();
    for name in names {
        if is_manifest(name) {
            for shard in shards_of(name)? {
                inputs.push(look(&shard)?);
            }
        } else {
            inputs.push(look(name)?);
        }
    }
    Ok(inputs)
}

/// The shards that a manifest lists, in its order.
fn shards_of(path: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string(path).map_err(|error| cannot_open(path, &error))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| {
        Error::corrupt(READ_MANIFEST, error.to_string())
            .path(path)
            .hint("sort again, or name the shards themselves in order")
    })?;
    if manifest.version != MANIFEST_VERSION {
        let cause = format!("version {} is unknown", manifest.version);
        return Err(Error::usage(READ_MANIFEST, cause)
            .path(path)
            .hint("use a newer outcore, or name the shards themselves in order"));
    }
    for shard in &manifest.shards {
        let facts = fs::metadata(&shard.path).map_err(|error| {
            cannot_open(&shard.path, &error).hint(format!("{} lists it as a shard", path.display()))
        })?;
        if facts.len() != shard.len_bytes {
            let cause = format!(
                "a shard of {} bytes; {} says {}",
                facts.len(),
                path.display(),
                shard.len_bytes
            );
            return Err(Error::corrupt(READ_MANIFEST, cause)
                .path(&shard.path)
                .hint("it was changed after it was written: sort again, or restore it"));
        }
    }
    Ok(manifest
        .shards
        .into_iter()
        .map(|shard| shard.path)
        .collect())
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "check the permissions",
        _ => "check the path",
    };
    Error::io(OPEN, error).path(path).hint(hint)
}

/// Opens a file and reads its first bytes.
fn look(path: &Path) -> Result<Input> {
    // Before opening: to open a pipe would wait for its writer.
    let facts = fs::metadata(path).map_err(|error| cannot_open(path, &error))?;
    check_kind(path, &facts)?;
    let file = File::open(path).map_err(|error| cannot_open(path, &error))?;
    let read = |error: std::io::Error| Error::io("read input", &error).path(path);
    let file_bytes = file.metadata().map_err(read)?.len();
    let mut prefix = [0; PREFIX_BYTES];
    let got = read_front(&file, &mut prefix).map_err(read)?;
    let prefix = &prefix[..got];
    let is_named_npy = path.extension().is_some_and(|end| end == "npy");
    let npy = match is_named_npy || NpyHeader::is_npy(prefix) {
        true => Some(read_header(&file, prefix, file_bytes).map_err(|error| error.path(path))?),
        false => None,
    };
    let header_bytes = npy.as_ref().map_or(0, |header| header.header_bytes);
    Ok(Input {
        path: path.to_path_buf(),
        key: key_of(&facts),
        data_bytes: file_bytes - header_bytes as u64,
        npy,
    })
}

fn check_kind(path: &Path, facts: &Metadata) -> Result<()> {
    let kind = facts.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let (cause, hint) = if kind.is_dir() {
        ("it is a directory", "name the files in it")
    } else if kind.is_block_device() {
        (
            "it is a block device",
            "copy the part that holds the records into a file",
        )
    } else {
        (
            "it is a stream",
            "name a file, or pipe it into the command: outcore sort -",
        )
    };
    Err(Error::usage(OPEN, cause).path(path).hint(hint))
}

fn read_header(file: &File, prefix: &[u8], file_bytes: u64) -> Result<NpyHeader> {
    let mut bytes = vec![0; NpyHeader::len_bytes(prefix)?];
    let got =
        read_front(file, &mut bytes).map_err(|error| Error::io("read .npy header", &error))?;
    let header = NpyHeader::parse(&bytes[..got])?;
    header.check_file_bytes(file_bytes)?;
    Ok(header)
}

/// Reads as much as there is from the start of the file, up to the length of `bytes`.
fn read_front(file: &File, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
