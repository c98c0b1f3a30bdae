//! Where a result goes: one file, a pipe, or one shard a drive with a manifest.
//!
//! Contract: [`choose`] turns the name that the user gave into a [`Target`] and refuses what must
//! not be written: an input (unless `--replace`), a file that exists (unless `--force`), a
//! directory, a raw device, a name in a directory that is not there. Files are compared by
//! identity, so links fool nobody; a link to a file is written through. Nothing is made here.
//!
//! Shards: `{drive}` in the name stands for the drive's name. A plain file name is placed in each
//! drive's directory, a path is taken as it is. The manifest lies beside the first shard, named
//! like the pattern without `{drive}`: `sorted-{drive}.bin` gives `sorted.bin.outcore.json`.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use outcore::algo::sort::{MakeHeader, SortOutput};
use outcore::config::DriveSpec;
use outcore::data::{NpyHeader, RecordFormat};
use outcore::job::Control;
use outcore::volume::output::MANIFEST_SUFFIX;
use outcore::{Error, Kind, Result, units};

use crate::inputs::{FileKey, Input, Source, is_manifest, is_stdout, key_of};
use crate::means::free_bytes;
use crate::pipe::PipeWriter;

const CREATE: &str = "create output";
/// What stands for the drive's name in an output's name.
const PLACEHOLDER: &str = "{drive}";

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One file.
    File(PathBuf),
    /// Several files and the manifest that lists them.
    Shards {
        /// In order.
        paths: Vec<PathBuf>,
        /// The list of them.
        manifest: PathBuf,
    },
    /// Standard output, or the named pipe.
    Pipe(Option<PathBuf>),
}

/// What may be overwritten.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Consent {
    /// Any file that exists.
    pub(crate) force: bool,
    /// An input.
    pub(crate) replace: bool,
}

impl Target {
    /// Whether standard output carries the result.
    pub(crate) fn is_standard_output(&self) -> bool {
        *self == Target::Pipe(None)
    }

    /// The files that will be written.
    pub(crate) fn files(&self) -> &[PathBuf] {
        match self {
            Target::File(path) => std::slice::from_ref(path),
            Target::Shards { paths, .. } => paths,
            Target::Pipe(_) => &[],
        }
    }

    /// The directory of the first file; the current one for a pipe.
    pub(crate) fn dir(&self) -> PathBuf {
        match self.files().first() {
            Some(path) => parent_of(path).to_path_buf(),
            None => PathBuf::from("."),
        }
    }

    /// For messages and events.
    pub(crate) fn name(&self) -> String {
        match self {
            Target::File(path) => path.display().to_string(),
            Target::Shards { manifest, .. } => manifest.display().to_string(),
            Target::Pipe(Some(path)) => path.display().to_string(),
            Target::Pipe(None) => "standard output".to_string(),
        }
    }

    /// As the engine wants it: by absolute paths, so that it names drives by real directories.
    pub(crate) fn to_sort(
        &self,
        header: Option<NpyHeader>,
        control: &Arc<Control>,
    ) -> Result<SortOutput> {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Ok(match self {
            Target::File(path) => SortOutput::File {
                path: absolute(path),
                header: header
                    .map(|header| -> MakeHeader { Arc::new(move |rows| header.encode(rows)) }),
            },
            Target::Shards { paths, manifest } => SortOutput::Shards {
                paths: paths.iter().map(absolute).collect(),
                manifest: absolute(manifest),
            },
            Target::Pipe(path) => {
                let control = Arc::clone(control);
                let writer = match path {
                    Some(path) => PipeWriter::open(path, control)?,
                    None => PipeWriter::standard_output(control)?,
                };
                SortOutput::Pipe(Mutex::new(Box::new(writer)))
            }
        })
    }
}

/// The directory that holds `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The target that `name` means. Without a name, `--replace` takes the place of the only input.
///
/// # Errors
/// Usage for anything that must not be written; I/O if the directory is not there.
pub(crate) fn choose(
    name: Option<&Path>,
    sources: &[Source],
    drives: &[DriveSpec],
    consent: Consent,
) -> Result<Target> {
    let target = match name {
        Some(name) if is_stdout(name) => Target::Pipe(None),
        Some(name) if has_placeholder(name) => shards(name, drives)?,
        Some(name) => file_or_pipe(name)?,
        None if consent.replace => place_of_input(sources)?,
        None => {
            return Err(Error::usage(CREATE, "no output is named")
                .hint("add -o OUT, -o - for standard output, or --replace to sort in place"));
        }
    };
    check_target(&target, sources, consent)?;
    Ok(target)
}

/// A file, or the pipe that has its name.
fn file_or_pipe(name: &Path) -> Result<Target> {
    if is_manifest(name) {
        let cause = format!("names that end in {MANIFEST_SUFFIX} are for manifests");
        return Err(Error::usage(CREATE, cause)
            .path(name)
            .hint("name the shards instead, as in 'sorted-{drive}.bin'"));
    }
    let Ok(facts) = fs::metadata(name) else {
        if fs::symlink_metadata(name).is_ok() {
            return Err(Error::usage(CREATE, "it is a link that leads nowhere")
                .path(name)
                .hint("remove it, or give another name"));
        }
        return Ok(Target::File(name.to_path_buf()));
    };
    let kind = facts.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        return Ok(Target::Pipe(Some(name.to_path_buf())));
    }
    if kind.is_dir() {
        return Err(Error::usage(CREATE, "it is a directory")
            .path(name)
            .hint("name a file in it"));
    }
    if !kind.is_file() {
        return Err(
            Error::usage(CREATE, "it is no regular file but a device or socket")
                .path(name)
                .hint("write a file, or use -o - and a program that may write there"),
        );
    }
    // Written through a link: the file that it leads to is replaced, not the link.
    let path = fs::canonicalize(name).map_err(|error| Error::io(CREATE, &error).path(name))?;
    let is_link = fs::symlink_metadata(name).is_ok_and(|facts| facts.is_symlink());
    Ok(Target::File(if is_link {
        path
    } else {
        name.to_path_buf()
    }))
}

/// The only input's own place: its file, or the shards of its manifest.
fn place_of_input(sources: &[Source]) -> Result<Target> {
    let manifest = sources.first().and_then(|source| source.manifest.clone());
    let is_one = match &manifest {
        Some(_) => sources.iter().all(|source| source.manifest == manifest),
        None => sources.len() == 1,
    };
    if !is_one || sources[0].is_stream() {
        return Err(Error::usage(
            CREATE,
            "--replace without -o needs one input that is a file",
        )
        .hint("say with -o which of the inputs the result replaces"));
    }
    match manifest {
        Some(manifest) => Ok(Target::Shards {
            paths: sources.iter().map(|source| source.path.clone()).collect(),
            manifest,
        }),
        None => file_or_pipe(&sources[0].path),
    }
}

fn has_placeholder(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.contains(PLACEHOLDER))
}

/// One shard a drive.
fn shards(pattern: &Path, drives: &[DriveSpec]) -> Result<Target> {
    let text = pattern.to_string_lossy();
    if drives.is_empty() {
        return Err(
            Error::usage(CREATE, "{drive} in the output's name needs drives")
                .path(pattern)
                .hint("name a directory on each drive: --drive DIR --drive DIR"),
        );
    }
    if text.ends_with(".npy") {
        return Err(Error::usage(CREATE, "shards have no .npy header")
            .path(pattern)
            .hint("name them .bin, or write one .npy file"));
    }
    let mut parts = pattern.components();
    let is_plain = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    let mut paths = Vec::with_capacity(drives.len());
    for drive in drives {
        let name = PathBuf::from(text.replace(PLACEHOLDER, &drive.name));
        let path = if is_plain { drive.dir.join(name) } else { name };
        paths.push(path);
    }
    let manifest = parent_of(&paths[0]).join(manifest_name(pattern));
    Ok(Target::Shards { paths, manifest })
}

/// The pattern's file name without the placeholder and what ties it to the rest.
fn manifest_name(pattern: &Path) -> String {
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let mut name = name.into_owned();
    for tie in ["-", "_", ".", ""] {
        name = name.replace(&format!("{tie}{PLACEHOLDER}"), "");
    }
    let name = name.trim_start_matches(['-', '_', '.']);
    let name = if name.is_empty() { "sorted" } else { name };
    format!("{name}{MANIFEST_SUFFIX}")
}

fn check_target(target: &Target, sources: &[Source], consent: Consent) -> Result<()> {
    let is_input = |key: FileKey| sources.iter().any(|source| source.key == Some(key));
    if target.is_standard_output() {
        let facts = fs::metadata("/proc/self/fd/1")
            .ok()
            .filter(Metadata::is_file);
        if facts.is_some_and(|facts| facts.len() > 0 && is_input(key_of(&facts))) {
            return Err(overwrites_input("standard output".as_ref()));
        }
    }
    if matches!(target, Target::Pipe(_)) {
        return match consent.replace {
            true => Err(replaces_nothing(&target.name())),
            false => Ok(()),
        };
    }
    let mut replaces_input = false;
    let manifest = match target {
        Target::Shards { manifest, .. } => Some(manifest),
        _ => None,
    };
    for path in target.files().iter().chain(manifest) {
        let dir = parent_of(path);
        match fs::metadata(dir) {
            Ok(facts) if facts.is_dir() => check_writable(dir)?,
            Ok(_) => {
                return Err(Error::usage(CREATE, "its directory is a file").path(path));
            }
            Err(error) => {
                return Err(Error::io(CREATE, &error)
                    .path(dir)
                    .hint("make the directory first, or check the path"));
            }
        }
        let Ok(facts) = fs::metadata(path) else {
            continue;
        };
        if facts.is_dir() {
            return Err(Error::usage(CREATE, "it is a directory")
                .path(path)
                .hint("give another name"));
        }
        let is_input = is_input(key_of(&facts));
        replaces_input |= is_input;
        if is_input && !consent.replace {
            return Err(overwrites_input(path));
        }
        let is_allowed = consent.force || is_input || manifest == Some(path) && consent.replace;
        if !is_allowed {
            return Err(Error::usage(CREATE, "it exists already")
                .path(path)
                .hint("allow overwriting with --force"));
        }
    }
    if consent.replace && !replaces_input {
        return Err(replaces_nothing(&target.name()));
    }
    Ok(())
}

/// Fails if nothing can be made in `dir`.
fn check_writable(dir: &Path) -> Result<()> {
    use rustix::fs::{Access, access};
    access(dir, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        Error::errno(CREATE, errno.raw_os_error())
            .path(dir)
            .hint("check the directory's permissions, or write to another one")
    })
}

fn overwrites_input(path: &Path) -> Error {
    Error::usage(CREATE, "the output is one of the inputs")
        .path(path)
        .hint("sort it in place with --replace, or give another name")
}

fn replaces_nothing(name: &str) -> Error {
    Error::usage(CREATE, "--replace, but the output is none of the inputs")
        .path(name)
        .hint("leave --replace out; --force overwrites other files")
}

/// The header for the output: of the input that it replaces or comes from, or made for the format.
///
/// # Errors
/// Usage if NumPy has no such records.
pub(crate) fn header_for(
    target: &Target,
    inputs: &[Input],
    format: &RecordFormat,
) -> Result<Option<NpyHeader>> {
    let Target::File(path) = target else {
        return Ok(None);
    };
    let key = fs::metadata(path).ok().map(|facts| key_of(&facts));
    let mut headers = inputs
        .iter()
        .filter_map(|input| Some((input.source.key, input.npy.as_ref()?)));
    let replaced = headers
        .clone()
        .find(|(input, _)| key.is_some() && *input == key);
    let is_npy = path.extension().is_some_and(|end| end == "npy") || replaced.is_some();
    if !is_npy {
        return Ok(None);
    }
    match headers.next() {
        Some((_, header)) => Ok(Some(header.clone())),
        None => NpyHeader::of_format(format, 0)
            .map(Some)
            .map_err(|error| error.path(path)),
    }
}

/// Fails if the drives of the files have too little room for `data_bytes`, spread evenly.
///
/// # Errors
/// [`Kind::NoSpace`] with what is needed and what is there.
pub(crate) fn check_room(target: &Target, data_bytes: u64) -> Result<()> {
    let files = target.files();
    let share_bytes = data_bytes / files.len().max(1) as u64;
    let mut drives: Vec<(u64, &Path, u64)> = Vec::new();
    for file in files {
        let dir = parent_of(file);
        let facts = fs::metadata(dir).map_err(|error| Error::io(CREATE, &error).path(dir))?;
        match drives.iter_mut().find(|drive| drive.0 == facts.dev()) {
            Some(drive) => drive.2 += share_bytes,
            None => drives.push((facts.dev(), dir, share_bytes)),
        }
    }
    for (_, dir, needed_bytes) in drives {
        let free_bytes = free_bytes(dir)?;
        if free_bytes < needed_bytes {
            let cause = format!(
                "{} are needed and {} are free",
                units::bytes(needed_bytes),
                units::bytes(free_bytes)
            );
            return Err(Error::new(Kind::NoSpace, CREATE, cause)
                .path(dir)
                .hint("free some space there, or write to another drive"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives() -> Vec<DriveSpec> {
        vec![DriveSpec::from_dir("/mnt/a"), DriveSpec::from_dir("/mnt/b")]
    }

    #[test]
    fn a_plain_pattern_lies_on_each_drive_and_a_path_is_taken_as_it_is() {
        let shards_of = |pattern: &str| match shards(Path::new(pattern), &drives()).unwrap() {
            Target::Shards { paths, manifest } => (paths, manifest),
            other => panic!("{other:?}"),
        };
        let (paths, manifest) = shards_of("sorted-{drive}.bin");
        let wanted = ["/mnt/a/sorted-a.bin", "/mnt/b/sorted-b.bin"].map(PathBuf::from);
        assert_eq!(paths, wanted);
        assert_eq!(manifest, Path::new("/mnt/a/sorted.bin.outcore.json"));
        let (paths, manifest) = shards_of("/mnt/{drive}/x.bin");
        assert_eq!(paths, ["/mnt/a/x.bin", "/mnt/b/x.bin"].map(PathBuf::from));
        assert_eq!(manifest, Path::new("/mnt/a/x.bin.outcore.json"));
    }

    #[test]
    fn a_manifest_has_a_name_whatever_the_pattern() {
        for (pattern, name) in [
            ("{drive}", "sorted.outcore.json"),
            ("{drive}.bin", "bin.outcore.json"),
            ("a_{drive}", "a.outcore.json"),
            ("{drive}-a.bin", "a.bin.outcore.json"),
        ] {
            assert_eq!(manifest_name(Path::new(pattern)), name);
        }
    }
}
