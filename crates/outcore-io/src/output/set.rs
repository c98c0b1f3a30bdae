//! A directory with a list: it must hold exactly the files of one set.
//!
//! Contract: a directory of parts, or of folders called `key=value`, has a list [`SET_LIST`], which
//! names its files ([`list`](super::list)). [`FileSet::of`] finds the list of a directory, or, for
//! one of its folders, the list above. [`FileSet::check`] fails if a reader would not see exactly
//! the set. It names the file that is missing, was replaced, or is not in the list. Any other list
//! whose name begins with `_` describes only its own files, not the others in the directory. In an
//! existing directory the list is put in place before its files, so that no reader accepts a set
//! whose publishing was interrupted.
//!
//! Bounds: reads the end of each file.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use super::list::{Manifest, ManifestShard};
use crate::drive::{parent_of, private_dir};
use crate::error::{Error, Kind, Result};
use crate::threads;

/// The name of the list of a directory. Readers of tables skip names that begin with `_`.
pub const SET_LIST: &str = "_parts.outcore.json";
const READ: &str = "read set of files";

/// The set of files in a directory. See the module.
#[derive(Debug)]
pub struct FileSet {
    dir: PathBuf,
    list: PathBuf,
    shards: Vec<ManifestShard>,
}

impl FileSet {
    /// The set of the directory `dir` or, if `dir` is a folder of a set, of the directory above it;
    /// `None` without a list.
    ///
    /// # Errors
    /// The list is damaged or cannot be read.
    pub fn of(dir: &Path) -> Result<Option<FileSet>> {
        if let Some(set) = Self::in_dir(dir)? {
            return Ok(Some(set));
        }
        let Ok(mut above) = dir.canonicalize() else {
            return Ok(None);
        };
        while is_folder(&above) && above.pop() {
            if let Some(set) = Self::in_dir(&above)? {
                return Ok(Some(set));
            }
        }
        Ok(None)
    }

    /// The set whose list is in `dir`.
    ///
    /// # Errors
    /// The errors of [`FileSet::of`].
    pub fn in_dir(dir: &Path) -> Result<Option<FileSet>> {
        let list = dir.join(SET_LIST);
        match list.symlink_metadata() {
            Ok(_) => Self::read(&list).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(READ, &error).path(list)),
        }
    }

    /// The set that the list `list` describes.
    ///
    /// # Errors
    /// The errors of [`FileSet::of`].
    pub fn read(list: &Path) -> Result<FileSet> {
        let manifest = Manifest::read(list).map_err(|error| match error.kind() {
            Kind::Io => error,
            _ => error.hint(
                "write the set again, or remove this list to read whatever is in the directory",
            ),
        })?;
        Ok(FileSet {
            dir: parent_of(list).to_path_buf(),
            list: list.to_path_buf(),
            shards: manifest.shards,
        })
    }

    /// The path of the set's list.
    pub fn list(&self) -> &Path {
        &self.list
    }

    /// The set's files, in order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// The files that have not changed since the set was written.
    pub fn unchanged_files(&self) -> impl Iterator<Item = &Path> {
        let shards = self.shards.iter();
        let unchanged = shards.filter(|shard| shard.check_file(&self.list).is_ok());
        unchanged.map(|shard| shard.path.as_path())
    }

    /// Fails unless `found` are exactly the set's files below the directory `below`. `found` are
    /// all files that a reader takes from that directory and its folders.
    ///
    /// # Errors
    /// Corrupt, with its name: a missing file, a replaced one, or an extra one.
    pub fn check(&self, below: &Path, found: &[PathBuf]) -> Result<()> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let (root, below_real) = (real(&self.dir), real(below));
        let inside = below_real.strip_prefix(&root).unwrap_or(Path::new(""));
        let mut wanted = Vec::new();
        let mut names = HashSet::new();
        for shard in &self.shards {
            let name = shard.path.strip_prefix(&self.dir).unwrap_or(&shard.path);
            if name.starts_with(inside) {
                wanted.push(shard);
                names.insert(name.to_path_buf());
            }
        }
        let checked = threads::each("outcore-set", &wanted, |shard| shard.check_file(&self.list));
        checked.map_err(|error| self.explained(error))?;
        for path in found {
            let name = inside.join(path.strip_prefix(below).unwrap_or(path));
            if !names.contains(&name) {
                return Err(self.foreign(path));
            }
        }
        Ok(())
    }

    /// Fails unless all files of the set exist and are unchanged.
    ///
    /// # Errors
    /// The errors of [`FileSet::check`].
    pub fn check_files(&self) -> Result<()> {
        let shards = &self.shards;
        let checked = threads::each("outcore-set", shards, |shard| shard.check_file(&self.list));
        checked.map_err(|error| self.explained(error))
    }

    /// The error of a set that does not match its list. If the set is merely not in place yet, the
    /// error says what to do.
    fn explained(&self, error: Error) -> Error {
        check_published(&self.dir).err().unwrap_or(error)
    }

    /// Fails unless each of `files`, which the user chose by a pattern in the directory, is an
    /// unchanged file of the set.
    ///
    /// # Errors
    /// The errors of [`FileSet::check`].
    pub fn check_chosen(&self, files: &[PathBuf]) -> Result<()> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let root = real(&self.dir);
        for path in files {
            let is_it = |shard: &&ManifestShard| {
                let name = shard.path.strip_prefix(&self.dir).unwrap_or(&shard.path);
                root.join(name) == real(path)
            };
            match self.shards.iter().find(is_it) {
                Some(shard) => {
                    let checked = shard.check_file(&self.list);
                    checked.map_err(|error| self.explained(error))?;
                }
                None => return Err(self.foreign(path)),
            }
        }
        Ok(())
    }

    fn foreign(&self, path: &Path) -> Error {
        let hint = format!(
            "move it elsewhere, or remove {} to read whatever is in the directory",
            self.list.display()
        );
        Error::corrupt(READ, "the file is not part of the set in its directory")
            .path(path)
            .hint(hint)
    }
}

/// Fails if a job is putting a set of files into the directory `dir`, or ended while it did so.
///
/// # Errors
/// Corrupt: some of its files are not in place.
pub fn check_published(dir: &Path) -> Result<()> {
    let Some(is_running) = private_dir::unpublished_in(dir) else {
        return Ok(());
    };
    let error =
        Error::corrupt(READ, "a set of files in the directory is not published yet").path(dir);
    Err(match is_running {
        true => error.hint("a job is putting its files in place: try again when it has ended"),
        false => error.hint(format!(
            "its job ended before it had published all files: `outcore scratch clean {}` publishes \
             the rest",
            dir.display()
        )),
    })
}

/// Whether a directory is a folder of a set: `key=value`.
pub(super) fn is_folder(dir: &Path) -> bool {
    match dir.components().next_back() {
        Some(Component::Normal(name)) => name.as_encoded_bytes().contains(&b'='),
        _ => false,
    }
}
