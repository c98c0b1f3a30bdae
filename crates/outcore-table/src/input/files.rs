//! The files of tables that paths mean: themselves, or what lies in directories.
//!
//! Contract: [`files_of`] keeps the order of the paths; within a directory, and of what a pattern matches, the order is that of the
//! names, so the rows of a table come in the same order on any machine.

use std::path::{Path, PathBuf};

use outcore_io::{Error, Result};

use super::{READ, TextKind};

/// How names of files end that are looked for in directories.
const ENDINGS: [&str; 7] = ["parquet", "pq", "parq", "arrow", "arrows", "feather", "ipc"];

/// Fails for the address of an object store, unless there is a file of that name.
///
/// # Errors
/// Usage, named as `operation`.
pub fn check_local(operation: &'static str, path: &Path) -> Result<()> {
    let scheme = path.to_str().and_then(|name| name.split_once("://"));
    match scheme {
        Some((scheme, _)) if path.symlink_metadata().is_err() => {
            let cause = format!("`{scheme}://` is not supported yet");
            Err(Error::usage(operation, cause)
                .path(path)
                .hint("copy the files to a local drive, or mount the store as a directory"))
        }
        _ => Ok(()),
    }
}

/// What patterns such as `logs/*/day-?.parquet` match, in the order of names, in their places among the other paths. A path that is
/// there is no pattern.
///
/// # Errors
/// Usage: an address of an object store, a pattern that cannot be or that nothing matches. I/O.
pub fn matching(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        check_local(READ, path)?;
        let text = path.to_str().filter(|_| path.symlink_metadata().is_err());
        let Some(pattern) = text.filter(|text| text.contains(['*', '?', '['])) else {
            all.push(path.clone());
            continue;
        };
        let refused = |cause: &str, hint: &str| {
            Err(Error::usage(READ, cause).path(path).hint(hint.to_owned()))
        };
        let Ok(found) = glob::glob(pattern) else {
            let hint = "in a pattern, * and ? stand for letters, [ab] for one of some, and ** for directories";
            return refused("it is neither a file nor a pattern", hint);
        };
        let before = all.len();
        for found in found {
            let failed = |error: glob::GlobError| {
                Error::io("list directory", error.error()).path(error.path())
            };
            all.push(found.map_err(failed)?);
        }
        if all.len() == before {
            return refused("no file has a name like this", "check the pattern");
        }
    }
    Ok(all)
}

/// The files that are meant: those named, or matched by a pattern, and the tables in directories that are named, sorted; among these
/// are files of text if they may be.
///
/// # Errors
/// As [`matching`]; usage: a directory without tables.
pub fn files_of(paths: &[PathBuf], is_text: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in &matching(paths)? {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        walk(path, is_text, &mut files)?;
        if files.len() == before {
            let cause = "there are no tables in this directory";
            let hint = format!("tables are files whose names end in {}", ENDINGS.join(", "));
            return Err(Error::usage(READ, cause).path(path).hint(hint));
        }
    }
    Ok(files)
}

/// Whether there are tables in the directory `dir` or below it, by their names.
pub fn is_directory_of_tables(dir: &Path) -> bool {
    files_of(&[dir.to_path_buf()], false).is_ok_and(|files| !files.is_empty())
}

/// The tables below `dir`, in order of their names. What begins with `_` or `.` belongs to other
/// programs, but for directories of a column that is called so, `_day=7`.
fn walk(dir: &Path, is_text: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("list directory", &error).path(dir);
    let entries = std::fs::read_dir(dir).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    for path in paths {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with(['_', '.']) && !(name.contains('=') && path.is_dir()) {
            continue;
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            walk(&path, is_text, files)?;
        } else if ending.is_some_and(|ending| ENDINGS.contains(&ending))
            || (is_text && TextKind::of_name(&path).is_some())
        {
            files.push(path);
        }
    }
    Ok(())
}
