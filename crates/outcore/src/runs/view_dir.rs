//! The identity of a view's directory.
//!
//! Contract: a [`ViewDir`] describes a directory at the time when a manifest was written into it.
//! [`ViewDir::is`] recognises it under another name: a renamed directory keeps its inode number and
//! its time of birth, while a copy has others. If the file system does not report the time of
//! birth, the name must also be the same. No I/O except for reading the directory's status.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use outcore_io::drive::paths;
use serde::{Deserialize, Serialize};

/// A directory into which a view was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewDir {
    /// The name of the directory, absolute and without links.
    #[serde(
        serialize_with = "outcore_io::metadata::paths::write_path",
        deserialize_with = "outcore_io::metadata::paths::read_path"
    )]
    dir: PathBuf,
    /// 0 if the directory is not one of the system's.
    inode: u64,
    /// The directory's time of birth; 0 if unknown.
    made_ns: u64,
}

impl ViewDir {
    /// The current identity of `dir`.
    pub(super) fn of(dir: &Path) -> Self {
        let absolute = || std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let name = paths::real(dir).unwrap_or_else(|_| absolute());
        let facts = paths::facts(dir).ok();
        let made = facts.as_ref().and_then(|facts| facts.created().ok());
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        ViewDir {
            dir: name,
            inode: facts.map_or(0, |facts| facts.ino()),
            made_ns: made.map_or(0, |made| made.as_nanos() as u64),
        }
    }

    /// The name of the directory at that time.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether `dir` is that directory, renamed or not.
    pub(super) fn is(&self, dir: &Path) -> bool {
        let other = ViewDir::of(dir);
        let is_same = (self.inode, self.made_ns) == (other.inode, other.made_ns);
        is_same && (self.made_ns != 0 || self.dir == other.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_is_known_again_under_another_name_and_a_copy_is_not() {
        let place = tempfile::tempdir().unwrap();
        let (one, other) = (place.path().join("one"), place.path().join("other"));
        fs::create_dir(&one).unwrap();
        let original = ViewDir::of(&one);
        assert!(original.is(&one));
        fs::create_dir(&other).unwrap();
        assert!(!original.is(&other));
        fs::remove_dir(&other).unwrap();
        fs::rename(&one, &other).unwrap();
        assert_eq!(original.is(&other), original.made_ns != 0);
        fs::create_dir(&one).unwrap();
        assert!(!original.is(&one));
        // Drives in memory have only names.
        let named = ViewDir::of(Path::new("/no/such/view"));
        assert!(named.is(Path::new("/no/such/view")) && !named.is(Path::new("/no/such/other")));
    }
}
