//! Facts of the system about a path, for callers that decide before a device opens it.
//!
//! Contract: crates above this one use these functions to examine the file at a path, the contents
//! of a directory, and the text files of the system. Nothing is changed and no data of inputs are
//! read. Links are followed, except for [`link_facts`] and [`link_target`]. Datasets, objects and
//! files of devices in memory have no paths of the system: [`FileSystem`](super::FileSystem)
//! answers for them. Bounds: [`read_text`] holds at most 256 MiB.

use std::fs::{self, File, ReadDir};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use std::fs::{FileType, Metadata};

use crate::error::{Error, Result};
use crate::units;

/// The longest text that is read whole: descriptions, settings and small traces.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// Identity of a file of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// The file system that holds the file.
    pub file_system: u64,
    /// The file's number in its file system.
    pub inode: u64,
}

impl FileKey {
    /// The identity of the file that `facts` describe.
    pub fn of(facts: &Metadata) -> Self {
        FileKey {
            file_system: facts.dev(),
            inode: facts.ino(),
        }
    }
}

/// Kind, length, identity and times of the file or directory at this path.
///
/// # Errors
/// Nothing has this path, or it cannot be examined.
pub fn facts(path: impl AsRef<Path>) -> io::Result<Metadata> {
    fs::metadata(path)
}

/// Like [`facts`], for a link itself.
///
/// # Errors
/// As [`facts`].
pub fn link_facts(path: impl AsRef<Path>) -> io::Result<Metadata> {
    fs::symlink_metadata(path)
}

/// The text of a link.
///
/// # Errors
/// It is not a link, or cannot be examined.
pub fn link_target(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    fs::read_link(path)
}

/// The identity of a file; `None` if it cannot be examined.
pub fn key(path: &Path) -> Option<FileKey> {
    facts(path).ok().map(|facts| FileKey::of(&facts))
}

/// The length of a file; 0 if it cannot be examined.
pub fn len_or_zero(path: &Path) -> u64 {
    facts(path).map_or(0, |facts| facts.len())
}

/// The absolute path without links.
///
/// # Errors
/// Nothing has this path, or it cannot be examined.
pub fn real(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The entries of a directory, in any order.
///
/// # Errors
/// The directory cannot be listed.
pub fn entries(dir: impl AsRef<Path>) -> io::Result<ReadDir> {
    fs::read_dir(dir)
}

/// The text of a file of the system below `/proc` or `/sys`; `None` if the file cannot be read.
pub fn system_text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The text of a file that the user names: settings, a description, or a small trace. Errors name
/// `operation` and the file.
///
/// # Errors
/// I/O; usage: more than 256 MiB; corrupt: it is not UTF-8.
pub fn read_text(operation: &str, path: &Path) -> Result<String> {
    let failed = |error: io::Error| Error::io(operation, &error).path(path);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let mut limited = file.take(TEXT_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let most = units::bytes(TEXT_BYTES_MAX);
        let error = Error::usage(operation, format!("the file is longer than {most}"));
        return Err(error.path(path).hint("name the file that describes it"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Error::corrupt(operation, "the file is not text")
            .path(path)
            .offset(error.utf8_error().valid_up_to() as u64)
            .hint("name a file in UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_text_is_read_and_what_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.toml");
        fs::write(&path, "b = 1\n").unwrap();
        assert_eq!(read_text("read settings", &path).unwrap(), "b = 1\n");
        fs::write(&path, b"b = \xff").unwrap();
        let error = read_text("read settings", &path).unwrap_err();
        assert_eq!(
            (error.kind(), error.offset_bytes()),
            (Kind::Corrupt, Some(4))
        );
        let absent = read_text("read settings", &dir.path().join("b")).unwrap_err();
        assert_eq!(absent.kind(), Kind::Io);
        assert_eq!(absent.file_path(), Some(&*dir.path().join("b")));
        // A file of holes: only its length is on the drive.
        let long = File::create(&path).unwrap();
        long.set_len(TEXT_BYTES_MAX + 1).unwrap();
        let error = read_text("read settings", &path).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
    }

    #[test]
    fn two_names_of_a_file_have_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        fs::write(&one, "text").unwrap();
        assert_eq!((key(&other), len_or_zero(&other)), (None, 0));
        std::os::unix::fs::symlink("one", &other).unwrap();
        assert!(key(&one).is_some() && key(&one) == key(&other));
        assert_eq!(len_or_zero(&other), 4);
        assert!(link_facts(&other).unwrap().is_symlink());
        assert_eq!(link_target(&other).unwrap(), Path::new("one"));
    }
}
