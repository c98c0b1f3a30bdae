//! Inputs whose blocks are given back while they are sorted: marked before the first block goes.
//!
//! Contract: before anything of a file is freed, [`Consumed::begin`] tells the private directories
//! of the job to stay as long as the inputs are there ([`crate::drive::PrivateDir::keep_for`]), and
//! puts a marker beside the file, durably: `.NAME` with [`MARKER_SUFFIX`]. The marker names the
//! file (by inode number, length and time of birth) and the directories that hold what the file
//! does not any more. [`check`] refuses a file that has one, by name and with what to do. A marker
//! that is another file's is ignored, one that cannot be read counts. A file with several names
//! (hard links) is never freed ([`check_links`]).
//!
//! However the job ends before its output is in place, killed or by an error, both stay: the file
//! has holes, and scratch has what was written of the rest. What the job held in memory is lost
//! with it, so nothing can be put together again by itself. Once the output is there, whoever
//! removes the input calls [`unmark`].
//!
//! Files in private directories are the job's own and need no marker.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::drive::{Device, PrivateDir, private_dir};
use crate::error::{Error, Kind, Result};
use crate::metadata::read_file;
use crate::output::parent_of;

/// Behind the name of the file.
pub(crate) const MARKER_SUFFIX: &str = ".outcore-consumed";
const MARK: &str = "mark input";
const DELETE: &str = "delete input";
const STAGED: &str = "marker";
/// No marker is longer: one with more bytes is damaged.
const MARKER_BYTES_MAX: u64 = 1 << 20;

/// What a marker holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    name: Vec<u8>,
    inode: u64,
    len_bytes: u64,
    born_ns: Option<u64>,
    /// Where the rest is, for people.
    directories: Vec<String>,
}

impl Marker {
    /// Whether the marker is that of the file.
    fn is_of(&self, found: &fs::Metadata) -> bool {
        let is_same_birth = match (self.born_ns, born_ns(found)) {
            (Some(then_ns), Some(now_ns)) => then_ns == now_ns,
            _ => true,
        };
        self.inode == found.ino() && self.len_bytes == found.len() && is_same_birth
    }
}

/// When a file was made: inode numbers are used again.
fn born_ns(found: &fs::Metadata) -> Option<u64> {
    let born = found.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(born.as_nanos()).ok()
}

/// From the root, and through no link; on a device without directories, the name.
fn real_path(path: &Path) -> PathBuf {
    let real = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    real.unwrap_or_else(|_| path.into())
}

/// The marker of a file, whatever it is called.
pub fn marker_of(path: &Path) -> PathBuf {
    marker_beside(&real_path(path))
}

/// The same for a name that is no link.
fn marker_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(MARKER_SUFFIX);
    path.with_file_name(name)
}

/// Fails for a file that a job freed parts of before it failed.
///
/// # Errors
/// [`Kind::Corrupt`] with what is left where.
pub fn check(path: &Path, found: &fs::Metadata) -> Result<()> {
    // To follow a name from the root takes a call of the system for each directory: only links have
    // to be followed.
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
            "what was written of the rest is in {}, unsorted and without what was in memory",
            marker.directories.join(", ")
        ),
        None => "its marker is damaged".to_string(),
    };
    let cause = format!(
        "a run with --delete-input freed parts of it, which read as zeros now, and did not come to its \
         end; {rest}"
    );
    Err(Error::new(Kind::Corrupt, "open input", cause)
        .path(path)
        .hint(format!(
            "restore the file from its source (or, if the output of that run is there, it is complete: \
             remove this file), then remove {}; `outcore scratch clean` removes the rest after that",
            place.display()
        )))
}

/// Fails for a file that has another name (a hard link), under which its data are to stay.
///
/// # Errors
/// Usage.
pub fn check_links(path: &Path, found: &fs::Metadata) -> Result<()> {
    match found.nlink() {
        0 | 1 => Ok(()),
        links => {
            let cause = format!(
                "the input has {links} names (hard links), and its data would be lost under all of them"
            );
            Err(Error::usage(DELETE, cause)
                .path(path)
                .hint("leave --delete-input out, or remove the other names first"))
        }
    }
}

/// Removes the marker of a file that is gone, or was replaced.
///
/// # Errors
/// What removing it fails with.
pub fn unmark(marker: &Path) -> Result<()> {
    match fs::remove_file(marker) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove marker", &error).path(marker))
        }
        _ => Ok(()),
    }
}

/// The inputs of a job that gives their blocks back.
pub struct Consumed {
    inputs: Vec<PathBuf>,
    begun: Mutex<Vec<PathBuf>>,
}

impl Consumed {
    /// Nothing is given back yet of any of `inputs`.
    pub fn new<'a>(inputs: impl Iterator<Item = &'a Path>) -> Self {
        let is_public = |path: &PathBuf| private_dir::public_parent(path) == parent_of(path);
        let inputs = inputs.map(real_path).filter(is_public);
        Consumed {
            inputs: inputs.collect(),
            begun: Mutex::default(),
        }
    }

    /// To be called before blocks of the file `path` are freed; `dirs` are those of the job, in
    /// which the data of all inputs may be.
    ///
    /// # Errors
    /// The file cannot be marked: nothing of it may be freed.
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
            let pairs = self
                .inputs
                .iter()
                .map(|path| (path.clone(), marker_of(path)));
            let pairs: Vec<(PathBuf, PathBuf)> = pairs.collect();
            marked = dirs.iter().try_for_each(|dir| dir.keep_for(&pairs));
        }
        marked = marked.and_then(|()| mark(device, &place, dirs));
        if marked.is_ok() {
            begun.push(path.into());
        } else if is_first {
            // Nothing was freed.
            dirs.iter().for_each(|dir| dir.release());
        }
        marked
    }
}

/// Puts the marker beside a file.
fn mark(device: &dyn Device, path: &Path, dirs: &[&PrivateDir]) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::io(MARK, &error).path(path).hint(
            "--delete-input writes a marker beside each input: leave it out, or make that possible",
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
