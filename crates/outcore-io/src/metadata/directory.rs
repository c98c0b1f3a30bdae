//! Directories that outcore makes and that are not tables: views, graphs and volumes.
//!
//! Contract: [`KINDS`] lists a file for each kind. A directory is of that kind if it contains the
//! file, and the file begins like the kind's metadata. Reads only that beginning, and the names in
//! the directory.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result};

/// A kind of directory.
struct DirKind {
    /// The file that describes such a directory.
    file: &'static str,
    /// The kind of metadata in that file.
    form: &'static str,
    cause: &'static str,
    hint: &'static str,
}

const KINDS: [DirKind; 3] = [
    DirKind {
        file: "view.json",
        form: "sorted view",
        cause: "the directory is a sorted view",
        hint: "read it with `outcore view cat`, or write it to a file with \
               `outcore view materialize`",
    },
    DirKind {
        file: "graph.json",
        form: "graph",
        cause: "the directory is a graph",
        hint: "describe it with `outcore graph info`, or compute on it with another command of \
               `outcore graph`",
    },
    DirKind {
        file: "volume.json",
        form: "volume label",
        cause: "the directory holds the datasets of a volume",
        hint: "list the volume's datasets with `outcore volume ls`, and read one with `outcore volume get`",
    },
];

fn kind_of(dir: &Path) -> Option<&'static DirKind> {
    KINDS.iter().find(|kind| {
        let path = dir.join(kind.file);
        let begin = format!("{{\n  \"outcore\": \"{}\"", kind.form);
        let mut found = Vec::new();
        let is_file = path.is_file();
        let file = is_file.then(|| File::open(path).ok()).flatten();
        let read = file.map(|file| file.take(begin.len() as u64).read_to_end(&mut found));
        matches!(read, Some(Ok(_))) && found == begin.as_bytes()
    })
}

/// Whether `dir` is a view, a graph or the datasets of a volume.
pub fn is_own_directory(dir: &Path) -> bool {
    kind_of(dir).is_some()
}

/// Fails for a directory that is a view, a graph or the datasets of a volume.
///
/// # Errors
/// Usage, with `operation` as the operation that failed.
pub fn refuse_own_directory(operation: &'static str, dir: &Path) -> Result<()> {
    match kind_of(dir) {
        Some(kind) => Err(Error::usage(operation, kind.cause)
            .path(dir)
            .hint(kind.hint)),
        None => Ok(()),
    }
}

/// Fails if a directory of `kind` (`view`) is to be made in a directory with other files. `is_own`
/// recognizes the names of its own files.
///
/// # Errors
/// Usage, with the first of the other names.
pub fn refuse_others(kind: &str, dir: &Path, is_own: impl Fn(&str) -> bool) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(());
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    match names.find(|name| !is_own(name) && !name.starts_with(".outcore-")) {
        None => Ok(()),
        Some(other) => {
            let cause = format!("the directory is not a {kind}: it contains `{other}`");
            Err(Error::usage(format!("create {kind}"), cause)
                .path(dir)
                .hint("name a directory that is empty or does not exist yet"))
        }
    }
}
