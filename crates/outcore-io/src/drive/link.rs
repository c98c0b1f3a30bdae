//! Which links in the names of outputs are followed.
//!
//! Contract: an output's name may be a link to a file. outcore then writes that file and keeps the
//! link ([`file_behind`]). The rule is that of Linux with `fs.protected_symlinks` set. In a
//! directory that is sticky and writable by all, a link must belong to the user or to the owner of
//! the directory. Owner and target are read from one open link, so outcore follows exactly the link
//! that it checked. A link without a target is an error. The same rule holds for a directory in
//! which a job makes its private directory ([`check_dir`]). The names that outcore makes for the
//! files of a set are never links ([`refuse_link`]).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

use super::places::parent_of;
use crate::error::{Error, Result};

/// Longest chain of links, as in Linux.
const LINKS_MAX: u32 = 40;
const STICKY_FOR_ALL: u32 = 0o1002;

/// Why a link is not followed.
enum Refusal {
    /// Another user may have created the link.
    Planted,
    /// The link has no target.
    Lost,
    System(Errno),
}

/// The file that an output called `name` is, or will be. Errors name `operation` as the operation
/// that failed.
///
/// # Errors
/// [`crate::Kind::Usage`] for a link that must not be followed or has no target; otherwise the
/// system's error.
pub fn file_behind(operation: &str, name: &Path) -> Result<PathBuf> {
    follow(name).map_err(|refusal| {
        let (cause, hint) = match refusal {
            Refusal::System(errno) => {
                return Error::errno(operation, errno.raw_os_error()).path(name);
            }
            Refusal::Lost => (
                "the output is a link to a file that does not exist",
                "remove it, or give another name",
            ),
            Refusal::Planted => (
                "the output is a link of another user in a world-writable directory",
                "give another name, or the name of the file itself",
            ),
        };
        Error::usage(operation, cause).path(name).hint(hint)
    })
}

/// The real path of a file or directory, for any of its spellings; absolute in any case, unless the
/// current directory is unknown. A path that does not exist on this machine keeps its links.
pub fn real_path(path: &Path) -> PathBuf {
    let real = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    real.unwrap_or_else(|_| path.to_path_buf())
}

/// Fails if the directory `dir` is a link that must not be followed. Other faults surface at its
/// next use.
///
/// # Errors
/// [`crate::Kind::Usage`].
pub(super) fn check_dir(operation: &str, dir: &Path) -> Result<()> {
    match follow(dir) {
        Err(Refusal::Planted) => {
            let cause = "the directory is a link of another user in a world-writable directory";
            Err(Error::usage(operation, cause)
                .path(dir)
                .hint("give another name, or the name of the directory itself"))
        }
        _ => Ok(()),
    }
}

fn follow(name: &Path) -> std::result::Result<PathBuf, Refusal> {
    let mut path = name.to_path_buf();
    for followed in 0..=LINKS_MAX {
        match Found::at(&path).map_err(Refusal::System)? {
            Found::Nothing if followed > 0 => return Err(Refusal::Lost),
            Found::Nothing | Found::File => return Ok(path),
            Found::Link { is_safe: false, .. } => return Err(Refusal::Planted),
            Found::Link { target, .. } => path = parent_of(&path).join(target),
        }
    }
    Err(Refusal::System(Errno::LOOP))
}

/// Fails if `path`, the path of a set's file, is a link.
///
/// # Errors
/// [`crate::Kind::Usage`]; otherwise the system's error.
pub fn refuse_link(operation: &str, path: &Path) -> Result<()> {
    match Found::at(path) {
        Ok(Found::Link { .. }) => Err(Error::usage(operation, "a link has the name of a part")
            .path(path)
            .hint("remove it, or give another name")),
        Ok(_) => Ok(()),
        Err(errno) => Err(Error::errno(operation, errno.raw_os_error()).path(path)),
    }
}

/// What exists under a name.
enum Found {
    Nothing,
    /// Anything that is not a link.
    File,
    Link {
        target: PathBuf,
        is_safe: bool,
    },
}

impl Found {
    fn at(path: &Path) -> std::result::Result<Self, Errno> {
        let Some(name) = path.file_name() else {
            return Ok(Found::File);
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let dir = match openat(
            CWD,
            parent_of(path),
            flags | OFlags::DIRECTORY,
            Mode::empty(),
        ) {
            Ok(dir) => dir,
            // The next use of the directory reports the fault.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(Found::Nothing),
            Err(errno) => return Err(errno),
        };
        let link = match openat(&dir, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(link) => link,
            Err(Errno::NOENT | Errno::ACCESS) => return Ok(Found::Nothing),
            Err(errno) => return Err(errno),
        };
        let stat = fstat(&link)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Found::File);
        }
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(Found::Link {
            target: OsStr::from_bytes(target.as_bytes()).into(),
            is_safe: is_safe(&fstat(&dir)?, &stat),
        })
    }
}

/// Whether only the user or the owner of the directory can have made a link there.
fn is_safe(dir: &Stat, link: &Stat) -> bool {
    let own = rustix::process::geteuid().as_raw();
    dir.st_mode & STICKY_FOR_ALL != STICKY_FOR_ALL
        || link.st_uid == own
        || link.st_uid == dir.st_uid
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    const WRITE: &str = "write results";

    #[test]
    fn a_link_leads_to_its_file_and_one_that_leads_nowhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("inside")).unwrap();
        fs::write(path("inside/file"), b"x").unwrap();
        symlink("file", path("inside/first")).unwrap();
        symlink("inside/first", path("second")).unwrap();
        symlink("round", path("round")).unwrap();
        symlink("nowhere", path("lost")).unwrap();
        let behind = |name: &str| file_behind(WRITE, &path(name));
        assert_eq!(behind("second").unwrap(), path("inside/file"));
        assert_eq!(behind("new").unwrap(), path("new"));
        assert_eq!(behind("no/new").unwrap(), path("no/new"));
        let lost = behind("lost").unwrap_err();
        assert!(lost.cause().contains("does not exist"), "{lost}");
        assert_eq!(
            behind("round").unwrap_err().raw_errno(),
            Some(Errno::LOOP.raw_os_error())
        );
        refuse_link(WRITE, &path("inside/file")).unwrap();
        refuse_link(WRITE, &path("new")).unwrap();
        assert!(refuse_link(WRITE, &path("lost")).is_err());
    }

    #[test]
    fn a_link_of_another_user_where_everybody_may_write_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, b"x").unwrap();
        symlink("file", &link).unwrap();
        if lchown(&link, Some(12_345), None).is_err() {
            println!("SKIP: giving files away needs root");
            return;
        }
        for (mode, is_followed) in [(0o1777, false), (0o777, true), (0o1755, true)] {
            fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(file_behind(WRITE, &link).is_ok(), is_followed, "{mode:o}");
        }
        // A link of the directory's owner may lead anywhere.
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        lchown(dir.path(), Some(12_345), None).unwrap();
        assert_eq!(file_behind(WRITE, &link).unwrap(), file);
    }
}
