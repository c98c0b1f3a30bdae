//! Objects in stores, which callers name like files.
//!
//! Contract: a name such as `s3://bucket/key` is an object ([`is_object`]), unless there is a file
//! of that name. A device that reads objects opens them as files, and returns its [`Stores`] from
//! [`FileSystem::stores`](super::FileSystem::stores). [`Stores`] has the operations that files do
//! not need: lists of the objects that match a pattern, and uploads that are whole or absent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Device;
use crate::error::{Error, Result};

/// The schemes of objects.
pub const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "https", "http"];
const LIST: &str = "list objects";
/// The characters that make the name of an object a pattern.
const PATTERN_LETTERS: [char; 3] = ['*', '?', '['];

/// Whether `path` names an object: its scheme is one of a store, and no file has that name.
pub fn is_object(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|name| name.split_once("://"));
    scheme.is_some_and(|(scheme, _)| SCHEMES.contains(&scheme)) && path.symlink_metadata().is_err()
}

/// Whether `path` is a pattern of names of objects.
pub fn is_object_pattern(path: &Path) -> bool {
    let is_pattern = path
        .to_str()
        .is_some_and(|name| name.contains(PATTERN_LETTERS));
    is_pattern && is_object(path)
}

/// `paths`, where the matching objects replace each pattern of objects.
///
/// # Errors
/// As [`Stores::matching`]; usage if `device` has no stores.
pub fn expanded(device: &dyn Device, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        match is_object_pattern(path) {
            true => {
                let stores = device.stores().ok_or_else(|| no_stores(LIST, path))?;
                all.extend(stores.matching(path)?);
            }
            false => all.push(path.clone()),
        }
    }
    Ok(all)
}

/// The error about an object, for a device without stores.
pub fn no_stores(operation: &str, path: &Path) -> Error {
    Error::usage(operation, "this build of outcore has no object stores")
        .path(path)
        .hint("build outcore with the feature `cloud`, or copy the object to a drive")
}

/// The observer of an upload.
#[derive(Clone, Copy)]
pub struct UploadWatch<'a> {
    /// Fails once the upload must stop.
    pub check: &'a dyn Fn() -> Result<()>,
    /// Receives the bytes of each part that the store has.
    pub advance: &'a dyn Fn(u64),
}

/// An upload that is neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The object that the upload would have made.
    pub object: PathBuf,
    /// The time since the last sign of life of the upload.
    pub age: Duration,
    /// Whether the job of the upload may still run.
    pub is_in_use: bool,
}

/// The stores behind a device. All methods may block.
pub trait Stores: Send + Sync {
    /// The objects whose names match a pattern, sorted by name.
    ///
    /// # Errors
    /// Usage: an invalid pattern, a pattern without a match, a place that cannot be listed. I/O.
    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>>;

    /// Fails unless an object can be made at `object`; with `replace` it may exist already.
    ///
    /// # Errors
    /// Usage: it exists, or its place takes no objects. I/O.
    fn check_new(&self, object: &Path, replace: bool) -> Result<()>;

    /// Uploads the local file `from`. The object `to` appears at the end, as a whole. Memory holds
    /// at most `memory_bytes` of the file. If the upload fails or stops, the store keeps no part of
    /// it.
    ///
    /// # Errors
    /// As [`Stores::check_new`]. Memory: the file is so long that its parts do not fit. I/O.
    fn upload(
        &self,
        from: &Path,
        to: &Path,
        replace: bool,
        memory_bytes: u64,
        watch: UploadWatch<'_>,
    ) -> Result<()>;

    /// The unfinished uploads below `place`.
    ///
    /// # Errors
    /// Usage: the place has no uploads. I/O.
    fn unfinished(&self, place: &Path) -> Result<Vec<Unfinished>>;

    /// Aborts an upload, so that the store frees its parts.
    ///
    /// # Errors
    /// I/O.
    fn abort(&self, upload: &Unfinished) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_of_a_store_makes_a_name_an_object_unless_a_file_has_it() {
        for (name, wanted) in [
            ("s3://b/k", true),
            ("https://h/x.npy", true),
            ("ftp://h/x", false),
            ("s3:/b/k", false),
            ("plain", false),
        ] {
            assert_eq!(is_object(Path::new(name)), wanted, "{name}");
        }
        assert!(is_object_pattern(Path::new("s3://b/*.txt")));
        assert!(!is_object_pattern(Path::new("s3://b/x.txt")));
    }
}
