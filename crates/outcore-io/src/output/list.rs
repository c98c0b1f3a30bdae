//! The list of a set of files: what it says of each, and whether a file is still that one.
//!
//! Contract: a [`Manifest`] is [metadata](crate::metadata) with a checksum. It names its files in
//! order, with their lengths. The list of a directory of parts names them from its own directory,
//! so that the directory may be moved and copied, and has a checksum over the end of each file: a
//! part of another set and two parts that have changed places are found. Other lists name files
//! from the root, and have the time of each one's last change.
//!
//! Bounds: [`TAIL_BYTES`] are read of a file.

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
/// How much of the end of a file has a checksum in the list of a directory.
pub(super) const TAIL_BYTES: u64 = 16 << 10;

const FORM: Form = Form {
    kind: "manifest of shards",
    version: 2,
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
    /// Where it is: from the root, or, in the list of a directory, from that directory.
    /// [`Manifest::read`] joins the two.
    #[serde(
        serialize_with = "crate::metadata::paths::write_path",
        deserialize_with = "crate::metadata::paths::read_path"
    )]
    pub path: PathBuf,
    /// Length of the file.
    pub len_bytes: u64,
    /// When it was last written to, in nanoseconds since 1970; nothing where that was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Checksum over the last [`TAIL_BYTES`], in the list of a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_checksum: Option<u64>,
}

impl Manifest {
    /// Reads the manifest at `path`, which was written there under that name. Its files have whole
    /// paths then.
    ///
    /// # Errors
    /// Corrupt: not what was written, or written under another name. Usage: another version. I/O.
    pub fn read(path: &Path) -> Result<Self> {
        let mut read: Manifest = FORM.read(path, Owner::of(&name_of(path)))?.body;
        for shard in &mut read.shards {
            shard.path = parent_of(path).join(&shard.path);
        }
        Ok(read)
    }

    /// As [`Manifest::read`], of bytes that were read there.
    ///
    /// # Errors
    /// Corrupt, usage.
    pub fn open(path: &Path, bytes: &[u8]) -> Result<Self> {
        Ok(FORM.open(path, Owner::of(&name_of(path)), bytes)?.body)
    }

    /// The bytes of the manifest that will be `path`.
    pub(super) fn seal(&self, path: &Path) -> Result<Vec<u8>> {
        FORM.seal(Owner::of(&name_of(path)), self)
    }
}

/// What a manifest says that it is called.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether a list names its files from its own directory: those whose names begin with `_`, which
/// readers of directories pass over.
pub(super) fn is_of_directory(list: &Path) -> bool {
    let name = list.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"_") && name.ends_with(MANIFEST_SUFFIX.as_bytes())
}

/// Where the part of a file of `len_bytes` begins that has a checksum in a list.
pub(super) fn tail_start(len_bytes: u64) -> u64 {
    len_bytes.saturating_sub(TAIL_BYTES)
}

impl ManifestShard {
    /// Why the file that has the shard's name now is not the one that was written with the
    /// manifest.
    pub fn check(&self, found: &std::fs::Metadata) -> std::result::Result<(), String> {
        if found.len() != self.len_bytes {
            return Err(format!(
                "a shard of {} where the manifest says {}",
                units::counted(found.len(), "byte"),
                units::count(self.len_bytes)
            ));
        }
        let now_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        match self.modified_ns {
            Some(then_ns) if i128::from(then_ns) != now_ns => {
                Err("the shard was written at another time than the manifest says".to_string())
            }
            _ => Ok(()),
        }
    }

    /// Fails unless the file is there and is the one that was written with the list `list`.
    ///
    /// # Errors
    /// Corrupt: it is missing, or another one. I/O.
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
