//! The directory of a view, known again.
//!
//! Contract: a [`ViewDir`] is a directory as it was when a manifest was written into it. It is the
//! same one under another name ([`ViewDir::is`]): a directory that is renamed keeps its inode
//! number and the time at which it was made, and a copy has others. Where the file system does not
//! tell when it was made, the name must be the same too. No I/O but a look at the directory.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A directory that a view was written into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewDir {
    /// Its name, absolute and without links.
    #[serde(
        serialize_with = "outcore_io::metadata::paths::write_path",
        deserialize_with = "outcore_io::metadata::paths::read_path"
    )]
    dir: PathBuf,
    /// 0 where the directory is not one of the system's.
    inode: u64,
    /// When it was made; 0 where that is not known.
    made_ns: u64,
}

impl ViewDir {
    /// That of `dir`, as it is now.
    pub(super) fn of(dir: &Path) -> Self {
        let absolute = || std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let name = fs::canonicalize(dir).unwrap_or_else(|_| absolute());
        let facts = fs::metadata(dir).ok();
        let made = facts.as_ref().and_then(|facts| facts.created().ok());
        let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
        ViewDir {
            dir: name,
            inode: facts.map_or(0, |facts| facts.ino()),
            made_ns: made.map_or(0, |made| made.as_nanos() as u64),
        }
    }

    /// What it was called.
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
        // Drives in memory have names alone.
        let named = ViewDir::of(Path::new("/no/such/view"));
        assert!(named.is(Path::new("/no/such/view")) && !named.is(Path::new("/no/such/other")));
    }
}
