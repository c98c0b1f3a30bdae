//! Where private directories may be, and how much room they take.
//!
//! Contract: only reads. It follows no link, and skips directories that it cannot read.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::is_private_name;

/// Whether a path leads through a private directory.
pub fn is_in_private_dir(path: &Path) -> bool {
    path.iter().any(is_private_name)
}

/// The readable directories in which jobs may have made private directories. These are the
/// directories directly inside `dir`, where graphs and views are made, and folders of partitions
/// below those at any depth. Private directories themselves are left out.
pub fn places_in(dir: &Path) -> Vec<PathBuf> {
    let mut found = dirs_in(dir);
    let mut next = 0;
    while let Some(folder) = found.get(next) {
        let mut below = dirs_in(folder);
        if !is_of_partition(folder) {
            below.retain(|dir| is_of_partition(dir));
        }
        found.extend(below);
        next += 1;
    }
    found
}

/// Whether a directory has the name of a partition, such as `day=7`.
fn is_of_partition(dir: &Path) -> bool {
    let name = dir.file_name();
    name.is_some_and(|name| name.as_encoded_bytes().contains(&b'='))
}

/// The readable directories in `dir`, in order.
fn dirs_in(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let is_dir = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let is_own = |entry: &DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().starts_with(b".outcore-")
    };
    let dirs = entries
        .flatten()
        .filter(|entry| is_dir(entry) && !is_own(entry));
    let readable = dirs
        .map(|entry| entry.path())
        .filter(|path| fs::read_dir(path).is_ok());
    let mut dirs: Vec<PathBuf> = readable.collect();
    dirs.sort();
    dirs
}

/// The bytes that the files in and below a directory occupy; unreadable files count as 0.
pub fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, facts)| match facts.is_dir() {
            true => bytes_in(&path),
            false => facts.blocks() * 512,
        })
        .sum()
}
