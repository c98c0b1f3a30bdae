//! Finds the files of tables: paths, patterns, and the tables in directories.
//!
//! Contract: [`files_of`] keeps the order of the paths. Files of a directory or a pattern are
//! sorted by name, so the rows of a table come in the same order on every machine. A directory with
//! a set list must hold exactly the files of that set, or it is rejected ([`FileSet`]).

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use outcore_io::drive::objects::{SCHEMES, is_object};
use outcore_io::drive::paths;
use outcore_io::metadata::{is_own_directory, refuse_own_directory};
use outcore_io::output::{FileSet, MANIFEST_SUFFIX, SET_LIST, check_published, parent_of};
use outcore_io::{Error, Result};

use super::{READ, TextKind};

/// The extensions of files that are taken from directories.
const ENDINGS: [&str; 7] = ["parquet", "pq", "parq", "arrow", "arrows", "feather", "ipc"];

/// Fails for an address whose scheme no store has, unless there is a file of that name.
///
/// # Errors
/// Usage, reported as `operation`.
pub fn check_local(operation: &'static str, path: &Path) -> Result<()> {
    let name = path.to_str().unwrap_or_default();
    let Some((scheme, rest)) = scheme_of(name) else {
        return Ok(());
    };
    if is_object(path) || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let named = |start: &str| format!("write {start}{}", rest.trim_start_matches('/'));
    let hint = match &*scheme.to_ascii_lowercase() {
        "gcs" => named("gs://"),
        "azure" | "wasb" | "wasbs" | "abfss" => named("az://"),
        "s3n" => named("s3://"),
        "r2" | "minio" | "b2" => format!("{}, and set AWS_ENDPOINT_URL", named("s3://")),
        "file" if rest.starts_with('/') => named("/"),
        "file" => named(""),
        lower if SCHEMES.contains(&lower) => named(&format!("{lower}://")),
        _ => "copy the files to a local drive, or mount the store as a directory".to_owned(),
    };
    let cause = match name.contains("://") {
        true => format!("`{scheme}://` is not the scheme of a store"),
        false => format!("`{scheme}:/` lacks a slash"),
    };
    Err(Error::usage(operation, cause).path(path).hint(hint))
}

/// The scheme of an address, and the rest of it. A store's address may lack the second slash.
fn scheme_of(name: &str) -> Option<(&str, &str)> {
    let is_store = |scheme: &str| SCHEMES.contains(&&*scheme.to_ascii_lowercase());
    let near = name.split_once(":/").filter(|(scheme, _)| is_store(scheme));
    name.split_once("://").or(near)
}

/// Replaces each pattern such as `logs/*/day-?.parquet` with the paths that match it, sorted by
/// name. A path that exists is never a pattern.
///
/// # Errors
/// Usage: an object-store address, an invalid pattern, a pattern without a match. I/O.
pub fn matching(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        match matched(path)? {
            Some(found) => all.extend(found),
            None => all.push(path.clone()),
        }
    }
    Ok(all)
}

/// Returns the pattern if the path is one.
fn pattern_of(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|_| path.symlink_metadata().is_err());
    text.filter(|text| text.contains(['*', '?', '[']))
}

/// Returns the paths that a pattern matches, or `None` for a path that is not a pattern.
fn matched(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    check_local(READ, path)?;
    if is_object(path) {
        // If the address is a pattern, the device lists the matching objects.
        return Ok(None);
    }
    let Some(pattern) = pattern_of(path) else {
        return Ok(None);
    };
    let refused =
        |cause: &str, hint: &str| Err(Error::usage(READ, cause).path(path).hint(hint.to_owned()));
    let Ok(found) = glob::glob(pattern) else {
        let hint = "in a pattern, * matches any characters, ? matches one character, [ab] matches \
                    a or b, and ** matches directories";
        return refused("it is neither a file nor a pattern", hint);
    };
    let failed =
        |error: glob::GlobError| Error::io("list directory", error.error()).path(error.path());
    let found = found.map(|found| found.map_err(failed));
    let found = found.collect::<Result<Vec<_>>>()?;
    match found.is_empty() {
        true => refused("no file matches this pattern", "check the pattern"),
        false => Ok(Some(found)),
    }
}

/// Returns the files that the paths mean, sorted within each path: files given or matched by a
/// pattern, and the tables in given directories. Text files in directories count if `is_text`. If a
/// path is the list of a set, it means the set's files.
///
/// # Errors
/// As [`matching`]. Usage: a directory without tables. Corrupt: a directory whose files differ from
/// its list.
pub fn files_of(paths: &[PathBuf], is_text: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        match matched(path)? {
            Some(found) => {
                let (dirs, chosen): (Vec<_>, Vec<_>) = found.iter().partition(|path| path.is_dir());
                check_chosen(&chosen)?;
                match dirs.is_empty() {
                    true => files.extend(found),
                    false => {
                        for path in &found {
                            add_files(path, is_text, &mut files)?;
                        }
                    }
                }
            }
            None => add_files(path, is_text, &mut files)?,
        }
    }
    Ok(files)
}

/// Adds the files of a path that is not a pattern.
fn add_files(path: &Path, is_text: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let is_list = path
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(MANIFEST_SUFFIX.as_bytes());
    if is_list && path.is_file() {
        let set = FileSet::read(path)?;
        set.check_files()?;
        files.extend(set.files().map(Path::to_path_buf));
        return Ok(());
    }
    if !path.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    refuse_own_directory(READ, path)?;
    let found = tables_in(path, is_text)?;
    if found.is_empty() {
        check_published(path)?;
        let cause = "there are no tables in this directory";
        let hint = format!("tables are files whose names end in {}", ENDINGS.join(", "));
        return Err(Error::usage(READ, cause).path(path).hint(hint));
    }
    files.extend(found);
    Ok(())
}

/// Returns the tables in a directory and below it, or the files of its set if it has a list.
fn tables_in(dir: &Path, is_text: bool) -> Result<Vec<PathBuf>> {
    let mut inside = Found {
        dirs: vec![dir.to_path_buf()],
        ..Found::default()
    };
    walk(dir, is_text, &mut inside)?;
    let Found { files: found, dirs } = inside;
    if let Some(set) = FileSet::of(dir)? {
        set.check(dir, &found)?;
    }
    for dir in &dirs {
        check_lists(dir)?;
    }
    for inner in &dirs[1..] {
        if let Some(set) = FileSet::in_dir(inner)? {
            let found = found.iter().filter(|path| path.starts_with(inner));
            let found: Vec<PathBuf> = found.cloned().collect();
            set.check(inner, &found)?;
        }
    }
    Ok(found)
}

/// Fails unless the sets that share a directory with other files are complete.
fn check_lists(dir: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("list directory", &error).path(dir);
    for entry in paths::entries(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let bytes = name.as_encoded_bytes();
        let is_list = bytes.starts_with(b"_") && bytes.ends_with(MANIFEST_SUFFIX.as_bytes());
        if is_list && name != SET_LIST {
            FileSet::read(&dir.join(&name))?.check_files()?;
        }
        if bytes.starts_with(b".outcore-") {
            check_published(dir)?;
        }
    }
    Ok(())
}

/// Fails if a pattern matched a file of an incomplete set, or a file that does not belong to the
/// set in its directory.
fn check_chosen(files: &[&PathBuf]) -> Result<()> {
    let mut by_dir: BTreeMap<&Path, Vec<PathBuf>> = BTreeMap::new();
    for &path in files {
        by_dir
            .entry(parent_of(path))
            .or_default()
            .push(path.clone());
    }
    for (dir, files) in by_dir {
        check_published(dir)?;
        if let Some(set) = FileSet::of(dir)? {
            set.check_chosen(&files)?;
        }
    }
    Ok(())
}

/// Fails if a set of the files `paths` cannot have the directory `dir` to itself.
///
/// # Errors
/// Usage: the directory already has a set that must not be replaced, or tables of another origin.
pub(crate) fn check_room_for_set(dir: &Path, paths: &[PathBuf], is_replacing: bool) -> Result<()> {
    const CREATE: &str = "create output";
    if !dir.is_dir() {
        return Ok(());
    }
    let old = FileSet::in_dir(dir)?;
    if let Some(old) = old.as_ref().filter(|_| !is_replacing) {
        return Err(
            Error::usage(CREATE, "a set of files is in the directory already")
                .path(old.list())
                .hint("replace the set with --force, or name another directory"),
        );
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let mut known: HashSet<PathBuf> = paths.iter().map(|path| real(path)).collect();
    known.extend(old.iter().flat_map(|old| old.unchanged_files()).map(real));
    let mut inside = Found::default();
    walk(dir, true, &mut inside)?;
    let found = inside.files;
    match found.iter().find(|path| !known.contains(&real(path))) {
        Some(path) => {
            let cause =
                "the directory of the output has a table that would be read with the output";
            Err(Error::usage(CREATE, cause)
                .path(path)
                .hint("move it elsewhere, or name a directory that does not exist yet"))
        }
        None => Ok(()),
    }
}

/// Fails if the next reader of `inputs` would also read one of `outputs`: a new table in an input
/// directory, or one that an input pattern matches. Outputs that exist already are not checked.
///
/// # Errors
/// Usage.
pub fn check_not_read_again<'a>(
    inputs: impl Iterator<Item = &'a Path>,
    outputs: &[&Path],
) -> Result<()> {
    let inputs: Vec<&Path> = inputs.collect();
    // Outputs that exist already are not new files in the input; callers reject or replace them.
    for output in outputs.iter().filter(|output| !output.exists()) {
        let place = future_place(output);
        let is_read_again = |input: &&&Path| match pattern_of(input) {
            Some(pattern) => {
                let absolute = std::path::absolute(pattern).unwrap_or_else(|_| pattern.into());
                let pattern = absolute
                    .to_str()
                    .and_then(|text| glob::Pattern::new(text).ok());
                let output = std::path::absolute(output).unwrap_or_else(|_| output.to_path_buf());
                pattern.is_some_and(|pattern| pattern.matches_path_with(&output, AS_PATHS))
            }
            None => {
                let dir = input.canonicalize().ok().filter(|dir| dir.is_dir());
                let below = dir.and_then(|dir| place.strip_prefix(dir).ok().map(Path::to_path_buf));
                below.is_some_and(|below| is_taken(&below))
            }
        };
        if let Some(input) = inputs.iter().find(is_read_again) {
            let cause = format!(
                "the next run that reads {} would also read this output",
                input.display()
            );
            return Err(Error::usage("create output", cause).path(*output).hint(
                "write outside the directory that is read, or begin the file's name with _",
            ));
        }
    }
    Ok(())
}

/// In a pattern, `*` and `?` never match a slash.
const AS_PATHS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Returns the canonical path that a file will have, even if the file or its directory does not
/// exist yet.
fn future_place(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let there = absolute.ancestors().find(|above| above.exists());
    let Some(there) = there.and_then(|there| Some((there, there.canonicalize().ok()?))) else {
        return absolute;
    };
    match absolute.strip_prefix(there.0) {
        Ok(below) if !below.as_os_str().is_empty() => there.1.join(below),
        _ => there.1,
    }
}

/// Whether a reader of a directory takes the file at `below`, a path relative to the directory.
fn is_taken(below: &Path) -> bool {
    let is_passed_over = |part: std::path::Component<'_>| {
        let name = part.as_os_str().as_encoded_bytes();
        name.starts_with(b"_") || name.starts_with(b".")
    };
    !below.components().any(is_passed_over) && has_ending(below, true)
}

/// Whether there are tables in the directory `dir` or below it, judged by their names.
pub fn is_directory_of_tables(dir: &Path) -> bool {
    let mut found = Found::default();
    // A directory with an incomplete set also counts as one of tables.
    dir.join(SET_LIST).exists()
        || dir.is_dir() && walk(dir, false, &mut found).is_ok() && !found.files.is_empty()
}

/// Whether `path` can mean several tables: a directory of them, or a pattern.
pub fn is_several(path: &Path) -> bool {
    pattern_of(path).is_some() || is_directory_of_tables(path)
}

/// The contents of a directory.
#[derive(Default)]
struct Found {
    /// The tables, sorted by name.
    files: Vec<PathBuf>,
    /// The directories.
    dirs: Vec<PathBuf>,
}

/// Collects the tables below `dir`, sorted by name, and the directories below it. Names that begin
/// with `_` or `.` belong to other programs and are skipped, except for directories such as
/// `_day=7`, whose column name begins with `_`.
fn walk(dir: &Path, is_text: bool, found: &mut Found) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("list directory", &error).path(dir);
    let entries = paths::entries(dir).map_err(failed)?;
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
        if path.is_dir() {
            // A view or a graph has a JSON description that is not a table.
            if is_own_directory(&path) {
                continue;
            }
            found.dirs.push(path.clone());
            walk(&path, is_text, found)?;
        } else if has_ending(&path, is_text) {
            found.files.push(path);
        }
    }
    Ok(())
}

/// Whether the file's extension is one that is taken from directories.
fn has_ending(path: &Path, is_text: bool) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending))
        || (is_text && TextKind::of_table_name(path).is_some())
}
