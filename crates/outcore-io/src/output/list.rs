//! The list of a set of files: the facts about each file, and the check that a file is unchanged.
//!
//! Contract: a [`Manifest`] is [metadata](crate::metadata) with a checksum. It names its files in
//! order, with their lengths. The list of a directory of parts has paths relative to that
//! directory, so that the directory may be moved and copied. It has a checksum of the end of each
//! file, so that a part of another set, or two swapped parts, are detected. Other lists have
//! absolute paths and the time of each file's last change.
//!
//! Bounds: [`TAIL_BYTES`] are read per file.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::bytes_checksum;
use crate::drive::parent_of;
use crate::error::{Error, Result};
use crate::metadata::{Form, Owner};
use crate::units;

/// Suffix of the list of a set of files.
pub const MANIFEST_SUFFIX: &str = ".outcore.json";
/// Length of the end of a file that has a checksum in the list of a directory.
pub(super) const TAIL_BYTES: u64 = 16 << 10;

const FORM: Form = Form {
    kind: "manifest of shards",
    version: 2,
    version_min: 2,
    operation: "read manifest",
    len_bytes_max: 64 << 20,
    remedy: "sort again, or name the shards themselves in order",
    upgrade: "name the shards themselves in order, or sort again",
};

/// The published description of a set of files.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The shards in order.
    pub shards: Vec<ManifestShard>,
}

/// One file of a [`Manifest`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestShard {
    /// The path of the file: absolute, or, in the list of a directory, relative to that directory.
    /// [`Manifest::read`] makes the path absolute.
    #[serde(
        serialize_with = "crate::metadata::paths::write_path",
        deserialize_with = "crate::metadata::paths::read_path"
    )]
    pub path: PathBuf,
    /// Length of the file.
    pub len_bytes: u64,
    /// Time of the last write, in nanoseconds since 1970; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Checksum of the last [`TAIL_BYTES`], in the list of a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_checksum: Option<u64>,
}

impl Manifest {
    /// Reads the manifest at `path`, which must have been written under that name. The paths of its
    /// files become absolute.
    ///
    /// # Errors
    /// Corrupt: damaged, or written under another name. Usage: another version. I/O.
    pub fn read(path: &Path) -> Result<Self> {
        let mut read: Manifest = FORM.read(path, Owner::of(&name_of(path)))?.body;
        for shard in &mut read.shards {
            shard.path = parent_of(path).join(&shard.path);
        }
        Ok(read)
    }

    /// As [`Manifest::read`], with the bytes already read.
    ///
    /// # Errors
    /// Corrupt, usage.
    pub fn open(path: &Path, bytes: &[u8]) -> Result<Self> {
        Ok(FORM.open(path, Owner::of(&name_of(path)), bytes)?.body)
    }

    /// The bytes of the manifest that will be stored at `path`.
    pub(super) fn seal(&self, path: &Path) -> Result<Vec<u8>> {
        FORM.seal(Owner::of(&name_of(path)), self)
    }
}

/// The name that a manifest stores as its own.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether a list uses paths relative to its directory. Such lists have names that begin with `_`,
/// which readers of directories skip.
pub(super) fn is_of_directory(list: &Path) -> bool {
    let name = list.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"_") && name.ends_with(MANIFEST_SUFFIX.as_bytes())
}

/// Start of the part of a file of `len_bytes` that has a checksum in a list.
pub(super) fn tail_start(len_bytes: u64) -> u64 {
    len_bytes.saturating_sub(TAIL_BYTES)
}

impl ManifestShard {
    /// Why the file that now has the shard's name is not the one that was written with the
    /// manifest.
    pub fn check(&self, found: &std::fs::Metadata) -> std::result::Result<(), String> {
        if found.len() != self.len_bytes {
            return Err(format!(
                "the shard has {}, but the manifest says {}",
                units::counted(found.len(), "byte"),
                units::count(self.len_bytes)
            ));
        }
        let now_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        match self.modified_ns {
            Some(then_ns) if i128::from(then_ns) != now_ns => {
                Err("the time of the shard's last write differs from the manifest".to_string())
            }
            _ => Ok(()),
        }
    }

    /// Fails unless the file exists and is the one that was written with the list `list`.
    ///
    /// # Errors
    /// Corrupt: it is missing, or another file. I/O.
    pub(super) fn check_file(&self, list: &Path) -> Result<()> {
        let refused = |cause: &str| {
            let hint = format!(
                "restore the file, write the set again, or remove {} to read whatever is in the directory",
                list.display()
            );
            Err(Error::corrupt("read set of files", cause)
                .path(&self.path)
                .hint(hint))
        };
        let failed =
            |error: std::io::Error| Error::io("read set of files", &error).path(&self.path);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return refused("a file of the set is missing");
            }
            Err(error) => return Err(failed(error)),
        };
        let found = file.metadata().map_err(failed)?;
        if let Err(cause) = self.check(&found) {
            return refused(&cause);
        }
        let Some(checksum) = self.tail_checksum else {
            return Ok(());
        };
        let start_bytes = tail_start(self.len_bytes);
        let mut tail = vec![0; (self.len_bytes - start_bytes) as usize];
        file.read_exact_at(&mut tail, start_bytes).map_err(failed)?;
        match bytes_checksum(&tail) == checksum {
            true => Ok(()),
            false => refused("the file is not the one that was written with the set"),
        }
    }
}
