//! The contents of private directories, and their removal by handle, never through a link.
//!
//! Contract: every file that outcore puts into a private directory has a name that [`is_known`]
//! recognises. A sweep does not remove a directory that contains any other name. [`remove`] removes
//! the entry of a name in an open directory: a file, or a directory of ours with its contents,
//! never across a mount or a link.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, RawDir, SeekFrom, Stat, fstat, statat, unlinkat};
use rustix::io::Errno;

use super::super::places::open_dir;
use super::{LOCK, is_private_name};

/// First words of our files' names, which are `WORD` or `WORD-NUMBER`, with or without an
/// extension.
const WORDS: [&str; 27] = [
    "bench", "commit", "copy", "file", "input", "io-trace", "items", "journal", "keep", "log",
    "manifest", "made", "marker", "output", "part", "plain", "probe", "record", "replaced",
    "resume", "scratch", "share", "sorted", "state", "trace", "view", "volume",
];
const ENDINGS: [&str; 4] = ["bin", "json", "npy", "outcore.json"];
/// Prefix of the extension of a run of a view.
const RUN: &str = "run";
/// First words of the names of files that are useless before they have left the directory.
const STAGED: [&str; 13] = [
    "bench", "copy", "input", "items", "journal", "output", "part", "plain", "probe", "scratch",
    "share", "sorted", "state",
];
/// First words of the names of hidden files.
const HIDDEN: [&str; 2] = [".fuse_hidden", ".nfs"];
/// A page of directory entries.
const ENTRIES_BYTES: usize = 4096;
/// Directories of ours that may contain anything, like those whose names are numbers.
const TREES: [&str; 2] = ["tree", "view"];

/// Whether a file or directory of that name may be ours.
pub(super) fn is_known(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let whole = name.strip_suffix(".part").unwrap_or(name);
    let (stem, ending) = whole.split_once('.').unwrap_or((whole, ENDINGS[0]));
    let word = match stem.rsplit_once('-') {
        Some((word, number)) if is_number(number) => word,
        _ => stem,
    };
    let is_ending = ENDINGS.contains(&ending) || ending.starts_with(RUN);
    let is_ours = is_number(name)
        || TREES.contains(&name)
        || is_private_name(name.as_ref())
        || is_hidden(name.as_ref());
    name == LOCK || is_ours || WORDS.contains(&word) && is_ending
}

/// Whether a file of that name was removed while it was open: NFS and FUSE hide such a file under
/// another name until it is closed.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let mut prefixes = HIDDEN.iter();
    let digits = prefixes.find_map(|prefix| bytes.strip_prefix(prefix.as_bytes()));
    digits.is_some_and(|digits| digits.len() >= 8 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// Whether a name in an open directory is a file of a job that has decided nothing yet. Such a file
/// has one of our names and no other link, belongs to this user, and is closed to all others.
pub(super) fn is_staged(dir: impl AsFd, name: &OsStr) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let is_word = name.to_str().is_some_and(|name| {
        let word = name.split(['-', '.']).next().unwrap_or_default();
        name == LOCK || STAGED.contains(&word) && is_known(name.as_ref())
    });
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    is_word
        && found.is_ok_and(|found| {
            let is_closed = found.st_mode & 0o077 == 0;
            is_file(&found) && is_closed && found.st_uid == own && found.st_nlink == 1
        })
}

/// The names in an open directory; needs no further descriptor if none is left.
pub(super) fn names_in(dir: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut add = |name: &[u8]| {
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_os_string());
        }
    };
    match Dir::read_from(&dir) {
        Ok(entries) => {
            for entry in entries {
                add(entry?.file_name().to_bytes());
            }
        }
        Err(Errno::MFILE | Errno::NFILE) => {
            rustix::fs::seek(&dir, SeekFrom::Start(0))?;
            let mut buffer = [MaybeUninit::uninit(); ENTRIES_BYTES];
            let mut entries = RawDir::new(&dir, &mut buffer);
            while let Some(entry) = entries.next() {
                add(entry?.file_name().to_bytes());
            }
        }
        Err(errno) => return Err(errno),
    }
    Ok(names)
}

/// Removes `name` from `dir`, with its contents if it is a directory.
pub(super) fn remove(dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let dir = dir.as_fd();
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !is_dir(&found) {
        return unlinkat(dir, name, AtFlags::empty());
    }
    if found.st_mode & 0o700 != 0o700 {
        // An unpacked directory may deny access to its owner.
        rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?;
    }
    let below = open_dir(dir, Path::new(name), false)?;
    if fstat(&below)?.st_dev != fstat(dir)?.st_dev {
        return Err(Errno::XDEV);
    }
    for name in names_in(&below)? {
        remove(&below, &name)?;
    }
    unlinkat(dir, name, AtFlags::REMOVEDIR)
}

pub(super) fn is_dir(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

pub(super) fn is_file(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ours_are_known_and_others_are_not() {
        for name in [
            "lock",
            "commit",
            "commit.part",
            "scratch-12",
            "output",
            "output-0",
            "part-007",
            "tree",
            "input.bin",
            "sorted.outcore.json",
            "volume.json.part",
            "view.run-0000-00aa11ff",
            "view",
            "3",
            "io-trace",
            "items-4",
            "state-1",
            ".outcore-0123456789ab",
            ".fuse_hidden0000000300000001",
            ".nfs000000000029015c00000001",
        ] {
            assert!(is_known(name.as_ref()), "{name}");
        }
        for name in [
            "",
            "f",
            "work",
            "output.txt",
            "outputs",
            "scratch-a",
            "tree.bin.old",
            "-1",
            ".outcore-results",
            "lock~",
            "thesis.bin",
            ".nfs",
            ".nfs-notes",
            ".fuse_hidden",
        ] {
            assert!(!is_known(name.as_ref()), "{name}");
        }
    }
}
