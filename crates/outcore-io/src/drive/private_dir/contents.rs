//! What private directories hold, and how it is removed: by handle, never through a link.
//!
//! Contract: every file that we put into a private directory has a name of a shape that [`is_known`]
//! tells; a directory with any other name in it is not removed by a sweep. [`remove`] removes what a
//! name in an open directory stands for: a file, or a directory of ours with all below it, never across
//! a mount or a link.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat, fstat, statat, unlinkat};
use rustix::io::Errno;

use super::super::places::open_dir;
use super::{LOCK, is_private_name};

/// What the names of our files are made of: `WORD` or `WORD-NUMBER`, with an ending or without.
const WORDS: [&str; 23] = [
    "bench", "commit", "copy", "file", "input", "io-trace", "items", "keep", "log", "manifest",
    "marker", "output", "part", "plain", "probe", "record", "replaced", "scratch", "share",
    "sorted", "trace", "view", "volume",
];
const ENDINGS: [&str; 4] = ["bin", "json", "npy", "outcore.json"];
/// What the ending of a run of a view begins with.
const RUN: &str = "run";
/// Directories of ours, in which anything may lie; so may it in those whose names are numbers.
const TREES: [&str; 2] = ["tree", "view"];

/// Whether a file or directory of that name may be one of ours.
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
    let is_ours = is_number(name) || TREES.contains(&name) || is_private_name(name.as_ref());
    name == LOCK || is_ours || WORDS.contains(&word) && is_ending
}

/// The names in an open directory.
pub(super) fn names_in(dir: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_os_string());
        }
    }
    Ok(names)
}

/// Removes `name` from `dir`, with all below it if it is a directory.
pub(super) fn remove(dir: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let dir = dir.as_fd();
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if !is_dir(&found) {
        return unlinkat(dir, name, AtFlags::empty());
    }
    if found.st_mode & 0o700 != 0o700 {
        // One that was unpacked may not let its owner in.
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
            ".outcore-0123456789ab",
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
        ] {
            assert!(!is_known(name.as_ref()), "{name}");
        }
    }
}
