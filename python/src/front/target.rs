//! Where a result goes: one file, or one shard a drive with a manifest.
//!
//! Contract: [`choose`] turns the name that the caller gave into a [`Target`] and refuses what must
//! not be written: an input (unless it is to be replaced), a file that exists (unless forced), a
//! directory, a device, a pipe, a name in a directory that is not there. Files are compared by
//! identity, so links fool nobody; a link to a file is written through. Nothing is made here.
//!
//! Shards: `{drive}` in the name stands for the drive's name. A plain file name is placed in each
//! drive's directory, a path is taken as it is. The manifest lies beside the first shard, named
//! like the pattern without `{drive}`: `sorted-{drive}.bin` gives `sorted.bin.outcore.json`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use outcore::algo::sort::{MakeHeader, SortOutput};
use outcore::config::DriveSpec;
use outcore::data::NpyHeader;
use outcore::volume::output::{MANIFEST_SUFFIX, parent_of};
use outcore::{Error, Result};

use super::format::Decided;
use super::inputs::{FileKey, Input, is_manifest, key_of};

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
    /// The files that will be written.
    pub(crate) fn files(&self) -> &[PathBuf] {
        match self {
            Target::File(path) => std::slice::from_ref(path),
            Target::Shards { paths, .. } => paths,
        }
    }

    /// The directory of the first file.
    pub(crate) fn dir(&self) -> PathBuf {
        let first = self.files().first();
        first.map_or_else(|| PathBuf::from("."), |path| parent_of(path).to_path_buf())
    }

    /// What names the whole result.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Target::File(path) => path,
            Target::Shards { manifest, .. } => manifest,
        }
    }

    /// As the engine wants it.
    pub(crate) fn to_sort(&self, header: Option<NpyHeader>) -> SortOutput {
        match self {
            Target::File(path) => SortOutput::File {
                path: path.clone(),
                header: header
                    .map(|header| -> MakeHeader { Arc::new(move |rows| header.encode(rows)) }),
            },
            Target::Shards { paths, manifest } => SortOutput::Shards {
                paths: paths.clone(),
                manifest: manifest.clone(),
            },
        }
    }
}

/// The target that `name` means.
///
/// # Errors
/// Usage for anything that must not be written; I/O if the directory is not there.
pub(crate) fn choose(
    name: &Path,
    inputs: &[Input],
    drives: &[DriveSpec],
    consent: Consent,
) -> Result<Target> {
    let has_placeholder = name.to_str().is_some_and(|name| name.contains(PLACEHOLDER));
    let target = match has_placeholder {
        true => shards(name, drives)?,
        false => Target::File(file(name)?),
    };
    check_target(&target, inputs, consent)?;
    Ok(target)
}

/// The file that is written under `name`.
fn file(name: &Path) -> Result<PathBuf> {
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
        return Ok(name.to_path_buf());
    };
    if facts.is_dir() {
        return Err(Error::usage(CREATE, "it is a directory")
            .path(name)
            .hint("name a file in it"));
    }
    if !facts.is_file() {
        return Err(Error::usage(CREATE, "it is no regular file")
            .path(name)
            .hint("write a file; the command writes pipes: outcore sort -o -"));
    }
    let is_link = fs::symlink_metadata(name).is_ok_and(|facts| facts.is_symlink());
    match is_link {
        // Written through a link: the file that it leads to is replaced, not the link.
        true => fs::canonicalize(name).map_err(|error| Error::io(CREATE, &error).path(name)),
        false => Ok(name.to_path_buf()),
    }
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

fn check_target(target: &Target, inputs: &[Input], consent: Consent) -> Result<()> {
    let is_input = |key: FileKey| inputs.iter().any(|input| input.key == key);
    let mut replaces_input = false;
    let manifest = match target {
        Target::Shards { manifest, .. } => Some(manifest),
        Target::File(_) => None,
    };
    for path in target.files().iter().chain(manifest) {
        check_dir_of(path)?;
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
            return Err(Error::usage(CREATE, "the output is one of the inputs")
                .path(path)
                .hint("sort it in place with --replace, or give another name"));
        }
        let is_allowed = consent.force || is_input || manifest == Some(path) && consent.replace;
        if !is_allowed {
            return Err(Error::usage(CREATE, "it exists already")
                .path(path)
                .hint("allow overwriting with --force"));
        }
    }
    if consent.replace && !replaces_input {
        let cause = "--replace, but the output is none of the inputs";
        return Err(Error::usage(CREATE, cause)
            .path(target.name())
            .hint("leave --replace out; --force overwrites other files"));
    }
    Ok(())
}

fn check_dir_of(path: &Path) -> Result<()> {
    let dir = parent_of(path);
    match fs::metadata(dir) {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(Error::usage(CREATE, "its directory is a file").path(path)),
        Err(error) => Err(Error::io(CREATE, &error)
            .path(dir)
            .hint("make the directory first, or check the path")),
    }
}

/// The header for the output: of the input that it replaces or comes from, or made for the format.
///
/// # Errors
/// Usage if NumPy has no such records.
pub(crate) fn header_for(
    target: &Target,
    inputs: &[Input],
    decided: &Decided,
) -> Result<Option<NpyHeader>> {
    let Target::File(path) = target else {
        return Ok(None);
    };
    let key = fs::metadata(path).ok().map(|facts| key_of(&facts));
    let replaces_npy = inputs
        .iter()
        .any(|input| Some(input.key) == key && input.npy.is_some());
    if path.extension().is_none_or(|end| end != "npy") && !replaces_npy {
        return Ok(None);
    }
    match &decided.header {
        Some(header) => Ok(Some(header.clone())),
        None => NpyHeader::of_format(&decided.format, 0)
            .map(Some)
            .map_err(|error| error.path(path)),
    }
}
