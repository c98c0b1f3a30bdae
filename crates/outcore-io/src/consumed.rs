//! Marks inputs whose blocks are freed during the sort (`--delete-input`), before the first block
//! is freed.
//!
//! Contract: before any block of a file is freed, [`Consumed::begin`] does two things:
//! - It tells the job's private directories to stay as long as the inputs exist
//!   ([`crate::drive::PrivateDir::keep_for`]).
//! - It writes a marker next to the file and syncs it. The marker's name is `.NAME` with
//!   [`MARKER_SUFFIX`]. The marker identifies the file (by inode number, length and time of birth)
//!   and lists the directories that hold the freed parts.
//!
//! [`check`] rejects a file that has a marker; the error names the file and the next step. A marker
//! of another file is ignored; an unreadable marker counts as a marker of this file. outcore never
//! frees blocks of a file with several names (hard links; [`check_links`]).
//!
//! If the job fails or is killed before its output is in place, the marker and the directories
//! stay. The file then has holes, and scratch has the parts that were written. Data that the job
//! held in memory are lost, so outcore cannot restore the file automatically. Once the output is in
//! place, the code that removes the input calls [`unmark`].
//!
//! Files in private directories belong to the job and need no marker.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::drive::private_dir::{self, MarkedFile};
use crate::drive::{Device, PrivateDir};
use crate::error::{Error, Kind, Result};
use crate::metadata::read_file;
use crate::output::parent_of;

/// Suffix of the marker, after the name of the file.
pub(crate) const MARKER_SUFFIX: &str = ".outcore-consumed";
const MARK: &str = "mark input";
const DELETE: &str = "delete input";
const STAGED: &str = "marker";
/// Longest marker; a file with more bytes is damaged.
const MARKER_BYTES_MAX: u64 = 1 << 20;

/// Contents of a marker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    name: Vec<u8>,
    inode: u64,
    len_bytes: u64,
    born_ns: Option<u64>,
    /// Where the freed parts are, for people.
    directories: Vec<String>,
}

impl Marker {
    /// Whether the marker describes this file.
    fn is_of(&self, found: &fs::Metadata) -> bool {
        let is_same_birth = match (self.born_ns, born_ns(found)) {
            (Some(then_ns), Some(now_ns)) => then_ns == now_ns,
            _ => true,
        };
        self.inode == found.ino() && self.len_bytes == found.len() && is_same_birth
    }
}

/// The file's time of birth; needed because inode numbers are reused.
fn born_ns(found: &fs::Metadata) -> Option<u64> {
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(born.as_nanos()).ok()
}

/// The path from the root without links; on a device without directories, the name.
fn real_path(path: &Path) -> PathBuf {
    let real = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    real.unwrap_or_else(|_| path.into())
}

/// Path of the marker of a file, with links in the file's name resolved.
pub fn marker_of(path: &Path) -> PathBuf {
    marker_beside(&real_path(path))
}

/// Like [`marker_of`], for a name that is not a link.
fn marker_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(MARKER_SUFFIX);
    path.with_file_name(name)
}

/// Fails for a file if an earlier job freed parts of it and then failed.
///
/// # Errors
/// [`Kind::Corrupt`], with the places of the remaining parts.
pub fn check(path: &Path, found: &fs::Metadata) -> Result<()> {
    // Resolving a name from the root takes a system call per directory, so only links are resolved.
    let is_link = fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink());
    let place = match is_link {
        true => marker_of(path),
        false => marker_beside(path),
    };
    let bytes = match read_file(&place, MARKER_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("open input", &error).path(place)),
    };
    let place = marker_of(path);
    let marker: Option<Marker> = private_dir::unseal(STAGED, &bytes);
    let rest = match marker {
        Some(marker) if !marker.is_of(found) => return Ok(()),
        Some(marker) => format!(
            "the rest of the data is in {}, unsorted and without the part that was in memory",
            marker.directories.join(", ")
        ),
        None => "its marker is damaged".to_string(),
    };
    let cause = format!(
        "a run with --delete-input freed parts of the file, which now read as zeros, and did not \
         finish; {rest}"
    );
    Err(Error::new(Kind::Corrupt, "open input", cause)
        .path(path)
        .hint(format!(
            "if the output of that run exists, it is complete: remove this file; otherwise restore \
             this file from its source. Then remove {}, and `outcore scratch clean` removes the rest",
            place.display()
        )))
}

/// Fails for a file that has another name (a hard link): the data must stay readable under that
/// name.
///
/// # Errors
/// Usage.
pub fn check_links(path: &Path, found: &fs::Metadata) -> Result<()> {
    match found.nlink() {
        0 | 1 => Ok(()),
        links => {
            let cause = format!(
                "the input has {links} names (hard links); its data would be lost under all of them"
            );
            Err(Error::usage(DELETE, cause)
                .path(path)
                .hint("leave --delete-input out, or remove the other names first"))
        }
    }
}

/// Removes the marker of a file that was removed or replaced.
///
/// # Errors
/// The error of the removal.
pub fn unmark(marker: &Path) -> Result<()> {
    match fs::remove_file(marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove marker", &error).path(marker))
        }
        _ => Ok(()),
    }
}

/// The inputs of a job that frees their blocks.
pub struct Consumed {
    inputs: Vec<PathBuf>,
    begun: Mutex<Vec<PathBuf>>,
}

impl Consumed {
    /// Registers `inputs`; none of their blocks is freed yet.
    pub fn new<'a>(inputs: impl Iterator<Item = &'a Path>) -> Self {
        let is_public = |path: &PathBuf| private_dir::public_parent(path) == parent_of(path);
        let inputs = inputs.map(real_path).filter(is_public);
        Consumed {
            inputs: inputs.collect(),
            begun: Mutex::default(),
        }
    }

    /// The caller calls this before it frees blocks of the file `path`. `dirs` are the private
    /// directories of the job, which may hold the data of all inputs.
    ///
    /// # Errors
    /// The file cannot be marked; the caller must not free any block of it.
    pub fn begin(&self, device: &dyn Device, path: &Path, dirs: &[&PrivateDir]) -> Result<()> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.iter().any(|known| known == path) {
            return Ok(());
        }
        let place = real_path(path);
        if !self.inputs.contains(&place) {
            begun.push(path.into());
            return Ok(());
        }
        let is_first = begun.is_empty();
        let mut marked = Ok(());
        if is_first {
            let files = self.inputs.iter().map(|path| MarkedFile {
                file: path.clone(),
                marker: marker_of(path),
            });
            let files: Vec<MarkedFile> = files.collect();
            marked = dirs.iter().try_for_each(|dir| dir.keep_for(&files));
        }
        marked = marked.and_then(|()| mark(device, &place, dirs));
        if marked.is_ok() {
            begun.push(path.into());
        } else if is_first {
            // No block was freed.
            dirs.iter().for_each(|dir| dir.release());
        }
        marked
    }
}

/// Writes the marker next to a file.
fn mark(device: &dyn Device, path: &Path, dirs: &[&PrivateDir]) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::io(MARK, &error).path(path).hint(
            "--delete-input writes a marker next to each input: leave the option out, or make the \
             directory writable",
        )
    };
    let staging_dir = device.make_private_dir(parent_of(path))?;
    if !staging_dir.is_on_disk() {
        return Ok(());
    }
    let found = fs::metadata(path).map_err(failed)?;
    check_links(path, &found)?;
    let directories = dirs.iter().map(|dir| {
        let path = std::path::absolute(dir.path());
        path.unwrap_or_else(|_| dir.path().into())
            .display()
            .to_string()
    });
    let marker = Marker {
        name: path.as_os_str().as_bytes().to_vec(),
        inode: found.ino(),
        len_bytes: found.len(),
        born_ns: born_ns(&found),
        directories: directories.collect(),
    };
    staging_dir.write_file(STAGED, &private_dir::seal(STAGED, &marker)?)?;
    device.rename(&staging_dir.path().join(STAGED), &marker_of(path), true)
}
