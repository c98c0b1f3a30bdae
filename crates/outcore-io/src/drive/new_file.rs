//! Small result files that are complete or absent, and that replace another file only on request.
//!
//! Contract: [`NewFile::at`] fails before the work starts if the file could not be written
//! afterwards: it exists and may not be replaced, or its directory does not exist.
//! [`NewFile::write`] fills a file in a private directory, syncs it and renames it; on any failure
//! the name keeps its old contents. An existing file that is not regular (a pipe, `/dev/stdout`) is
//! written to directly. Meant for files of a few megabytes: no direct I/O, no budget.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::FileSystem;
use super::late::Engine;
use super::link::file_behind;
use super::os::OsDevice;
use super::places::parent_of;
use crate::config::IoMode;
use crate::error::{Error, Result};

const STAGED: &str = "output";

/// A file that will be written once.
#[derive(Debug, Clone)]
pub struct NewFile {
    operation: &'static str,
    path: PathBuf,
    is_replaced: bool,
}

impl NewFile {
    /// The file `path`, which replaces an existing one if `is_replaced`. Errors name `operation` as
    /// the operation that failed.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] if it exists and may not be replaced, is a directory, or has no
    /// directory.
    pub fn at(operation: &'static str, path: &Path, is_replaced: bool) -> Result<Self> {
        let refuse = |cause: &str, hint: &str| {
            Err(Error::usage(operation, cause)
                .path(path)
                .hint(hint.to_owned()))
        };
        let found = fs::metadata(path);
        if !found.as_ref().is_ok_and(is_special) {
            // A link that must not be followed is an error here.
            file_behind(operation, path)?;
        }
        match found {
            Ok(found) if found.is_dir() => {
                return refuse("the output is a directory", "name a file");
            }
            Ok(found) if found.is_file() && !is_replaced => {
                return refuse(
                    "the output exists already",
                    "allow overwriting with --force",
                );
            }
            Ok(_) => {}
            Err(_) if !parent_of(path).is_dir() => {
                return refuse("its directory does not exist", "make it first");
            }
            Err(_) => {}
        }
        Ok(NewFile {
            operation,
            path: path.to_path_buf(),
            is_replaced,
        })
    }

    /// The final path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// The system's error; [`crate::Kind::Usage`] if a file of this name has appeared since.
    pub fn write(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.fill(|mut file| {
            let written = file.write_all(bytes.as_ref());
            written.map_err(|error| Error::io(self.operation, &error).path(&self.path))
        })
    }

    /// Makes the file with the bytes that `fill` writes.
    ///
    /// # Errors
    /// As [`NewFile::write`], and the errors of `fill`.
    pub fn fill(&self, fill: impl FnOnce(&File) -> Result<()>) -> Result<()> {
        let failed = |error: std::io::Error| Error::io(self.operation, &error).path(&self.path);
        let found = fs::metadata(&self.path).ok();
        if found.as_ref().is_some_and(is_special) {
            let file = OpenOptions::new().write(true).open(&self.path);
            return fill(&file.map_err(failed)?);
        }
        let place = file_behind(self.operation, &self.path)?;
        let device = OsDevice::with_engine(IoMode::Buffered, Engine::Psync);
        let parent = parent_of(&place);
        device.sweep_private_dirs(parent)?;
        let private_dir = device
            .make_private_dir(parent)
            .map_err(|error| error.path(&self.path))?;
        let file = private_dir.create_file(STAGED)?;
        fill(&file)?;
        file.sync_all().map_err(failed)?;
        device.rename(&private_dir.path().join(STAGED), &place, self.is_replaced)
    }
}

/// Whether the path is an existing special file, which is written to directly.
fn is_special(found: &fs::Metadata) -> bool {
    !found.is_file() && !found.is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: &str = "write results";

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_what_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        NewFile::at(WRITE, &path, false)
            .unwrap()
            .write("one")
            .unwrap();
        let error = NewFile::at(WRITE, &path, false).unwrap_err().to_string();
        assert!(
            error.contains("a.csv") && error.contains("--force"),
            "{error}"
        );
        let file = NewFile::at(WRITE, &path, true).unwrap();
        let failed = file.fill(|mut out| {
            out.write_all(b"half").unwrap();
            Err(Error::usage(WRITE, "no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        file.write("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(names(dir.path()), ["a.csv"]);
    }

    #[test]
    fn a_file_that_appeared_meanwhile_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let file = NewFile::at(WRITE, &path, false).unwrap();
        fs::write(&path, "another's").unwrap();
        assert!(file.write("mine").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        assert_eq!(names(dir.path()), ["a.csv"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_work() {
        let dir = tempfile::tempdir().unwrap();
        for (path, cause) in [
            (dir.path().to_path_buf(), "the output is a directory"),
            (dir.path().join("no/a.csv"), "its directory does not exist"),
        ] {
            let error = NewFile::at(WRITE, &path, true).unwrap_err();
            assert_eq!(error.cause(), cause);
        }
    }

    #[test]
    fn a_link_stays_and_what_is_no_regular_file_is_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a.csv"), dir.path().join("link"));
        fs::write(&path, "one").unwrap();
        std::os::unix::fs::symlink("a.csv", &link).unwrap();
        assert!(NewFile::at(WRITE, &link, false).is_err());
        NewFile::at(WRITE, &link, true)
            .unwrap()
            .write("two")
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        NewFile::at(WRITE, Path::new("/dev/null"), false)
            .unwrap()
            .write("gone")
            .unwrap();
    }
}
