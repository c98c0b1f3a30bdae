//! Determines where a result goes: one file, a pipe, or one shard per drive with a manifest.
//!
//! Contract: [`choose`] turns the caller's name into a [`Target`]. It rejects:
//! - an input (unless it is to be replaced), an existing file (unless forced), a directory, or a
//!   raw device;
//! - a pipe (if the caller does not write pipes), or a directory that is missing or not writable;
//! - an unknown placeholder, or an extension that does not match the contents ([`Holds`]);
//! - binary records on a terminal.
//!
//! Files are compared by identity, so links are recognised; a link to a file is written through.
//! Nothing is created here.
//!
//! Shards: `{drive}` in the name is replaced by the drive's name. A plain file name is placed in
//! each drive's directory; a path is used as it is. The manifest is next to the first shard, with
//! the pattern's name without `{drive}`: `sorted-{drive}.bin` gives `sorted.bin.outcore.json`.

mod holds;
pub(crate) mod pattern;

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use outcore::job::OutputPlaces;
use outcore::key::NpyHeader;
use outcore::{Error, Kind, Result};
use outcore::{MakeHeader, Output};
use outcore_io::config::DriveSpec;
use outcore_io::drive::Device;
use outcore_io::drive::link::file_behind;
use outcore_io::drive::paths::{self, Metadata};
use outcore_io::output::{MANIFEST_SUFFIX, parent_of, replaced_files};
use outcore_io::units;

use crate::inputs::{FileKey, ResolvedInput, Source, Streams, is_manifest, is_stdout};
use crate::records::Decided;

pub use holds::{Holds, check_is_own};
use pattern::{filled_in, has_placeholder, manifest_name};

const CREATE: &str = "create output";
/// Advice for an output that is an input, if it may be replaced.
const IN_PLACE: &str = "sort it in place with --replace, or give another name";
/// The placeholder for the drive's name in the name of an output.
const PLACEHOLDER: &str = "{drive}";
/// Standard output in messages.
const STDOUT_NAME: &str = "standard output";

/// The place of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file.
    File(PathBuf),
    /// Several files, and the manifest that lists them.
    Shards {
        /// The shards in order.
        paths: Vec<PathBuf>,
        /// The manifest.
        manifest: PathBuf,
    },
    /// Standard output, or the named pipe.
    Pipe(Option<PathBuf>),
}

/// The caller's permission to overwrite files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Consent {
    /// Any existing file.
    pub force: bool,
    /// An input.
    pub replace: bool,
}

/// Fails if binary records would go to a terminal.
///
/// # Errors
/// Usage.
pub fn check_terminal(target: &Target, holds: Holds, consent: Consent) -> Result<()> {
    let is_refused = target.is_standard_output()
        && holds == Holds::Records
        && !consent.force
        && std::io::stdout().is_terminal();
    match is_refused {
        false => Ok(()),
        true => Err(
            Error::usage(CREATE, "binary records are not written to a terminal")
                .hint("write a file with -o, or to a pipe, as in `... | od`"),
        ),
    }
}

/// Fails if the name of an output contains a text in the form of a placeholder that is not in
/// `known`, unless a directory or a file of that name exists.
///
/// # Errors
/// Usage, with the likely placeholder.
pub fn check_placeholders(name: &Path, known: &[&str]) -> Result<()> {
    let text = name.to_string_lossy();
    let parent_bytes = text.rfind('/').map_or(0, |at| at + 1);
    // An existing file or directory is no pattern.
    let mut rest = match (name.exists(), parent_of(name).is_dir()) {
        (true, _) => return Ok(()),
        (false, true) => &text[parent_bytes..],
        (false, false) => &text[..],
    };
    while let Some((_, behind)) = rest.split_once('{') {
        rest = behind;
        let Some((word, _)) = behind.split_once('}') else {
            return Ok(());
        };
        let is_word = word.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        let placeholder = format!("{{{word}}}");
        if !is_word || known.contains(&placeholder.as_str()) {
            continue;
        }
        let hint = match known.first() {
            Some(meant) => format!("did you mean {meant}? or give another name"),
            None => "one file is written: give a name without braces".to_owned(),
        };
        return Err(
            Error::usage(CREATE, format!("{placeholder} is not a placeholder"))
                .path(name)
                .hint(hint),
        );
    }
    Ok(())
}

/// A stream for a result.
pub type Sink = Box<dyn Write + Send>;

impl Target {
    /// Whether standard output carries the result.
    pub(crate) fn is_standard_output(&self) -> bool {
        *self == Target::Pipe(None)
    }

    /// The files that will be written.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            Target::File(path) => std::slice::from_ref(path),
            Target::Shards { paths, .. } => paths,
            Target::Pipe(_) => &[],
        }
    }

    /// The places of its files, for plans.
    pub fn places(&self) -> OutputPlaces {
        match self {
            Target::Pipe(_) => OutputPlaces::Pipe,
            files => OutputPlaces::Files(files.files().to_vec()),
        }
    }

    /// The manifest that will be written.
    pub fn manifest(&self) -> Option<&PathBuf> {
        match self {
            Target::Shards { manifest, .. } => Some(manifest),
            Target::File(_) | Target::Pipe(_) => None,
        }
    }

    /// The directory of the first file; the current one for a pipe.
    pub fn dir(&self) -> PathBuf {
        match self.files().first() {
            Some(path) => parent_of(path).to_path_buf(),
            None => PathBuf::from("."),
        }
    }

    /// The name of the whole result, for messages and events.
    pub fn name(&self) -> &Path {
        match self {
            Target::File(path) | Target::Pipe(Some(path)) => path,
            Target::Shards { manifest, .. } => manifest,
            Target::Pipe(None) => Path::new(STDOUT_NAME),
        }
    }

    /// The output in the engine's form, with absolute paths, so that the engine names drives by
    /// real directories. `open` opens a pipe, either the named one or standard output.
    ///
    /// # Errors
    /// An error of `open`.
    pub fn to_sort(
        &self,
        header: Option<NpyHeader>,
        open: impl FnOnce(Option<&Path>) -> Result<Sink>,
    ) -> Result<Output> {
        Ok(match self {
            Target::File(path) => Output::File {
                path: absolute(path),
                header: header
                    .map(|header| -> MakeHeader { Arc::new(move |rows| header.encode(rows)) }),
            },
            Target::Shards { paths, manifest } => Output::Shards {
                paths: paths.iter().map(|path| absolute(path)).collect(),
                manifest: absolute(manifest),
            },
            Target::Pipe(path) => Output::Pipe(Mutex::new(open(path.as_deref())?)),
        })
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// The target for `name`. Without a name, the result replaces the only input if inputs may be
/// replaced; otherwise it goes to standard output if streams are accepted.
///
/// # Errors
/// Usage for a place that must not be written; I/O if the directory does not exist.
pub fn choose(
    name: Option<&Path>,
    sources: &[Source],
    drives: &[DriveSpec],
    consent: Consent,
    streams: Streams,
    holds: Holds,
) -> Result<Target> {
    let is_pattern = holds != Holds::Bytes;
    // For a caller without streams, the name of standard output is not a file.
    let name = name.filter(|name| streams == Streams::Taken || !is_stdout(name));
    if let Some(name) = name.filter(|_| is_pattern) {
        check_placeholders(name, &[PLACEHOLDER])?;
        refuse_manifest(name)?;
    }
    let target = match name {
        Some(name) if streams == Streams::Taken && is_stdout(name) => Target::Pipe(None),
        Some(name) if is_pattern && has_placeholder(name, PLACEHOLDER) => shards(name, drives)?,
        Some(name) => file_or_pipe(name, streams)?,
        None if consent.replace => place_of_input(sources)?,
        None if streams == Streams::Taken => Target::Pipe(None),
        None => {
            return Err(Error::usage(CREATE, "no output is given")
                .hint("name the output: dst=...; only tables are kept without an output"));
        }
    };
    check(&target, sources, consent, holds)?;
    Ok(target)
}

fn refuse_manifest(name: &Path) -> Result<()> {
    if !is_manifest(name) {
        return Ok(());
    }
    let cause = format!("names that end in {MANIFEST_SUFFIX} are for manifests");
    Err(Error::usage(CREATE, cause)
        .path(name)
        .hint("name the shards instead, as in 'sorted-{drive}.bin'"))
}

/// Whether the name belongs to a pipe or a character device.
pub fn is_stream(name: &Path) -> bool {
    let kind = paths::facts(name).map(|facts| facts.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device())
}

/// A file, or the pipe or character device of that name.
///
/// # Errors
/// Usage for anything else, and for a pipe if `streams` rejects pipes.
pub fn file_or_pipe(name: &Path, streams: Streams) -> Result<Target> {
    if is_stream(name) {
        return match streams {
            Streams::Taken => Ok(Target::Pipe(Some(name.to_path_buf()))),
            Streams::Refused => Err(Error::usage(CREATE, "the output is not a regular file")
                .path(name)
                .hint("write a file; the command writes pipes: outcore sort -o -")),
        };
    }
    file_at(CREATE, name).map(Target::File)
}

/// The regular file that an output called `name` replaces or creates; for a link, the file behind
/// it ([`file_behind`]).
///
/// # Errors
/// Usage, with `operation`, for something that is not a file.
pub(crate) fn file_at(operation: &str, name: &Path) -> Result<PathBuf> {
    let refuse = |cause: &str, hint: &str| {
        let error = Error::usage(operation, cause).path(name);
        Err(error.hint(hint.to_owned()))
    };
    match paths::facts(name) {
        Ok(facts) if facts.is_dir() => refuse("the output is a directory", "name a file in it"),
        Ok(facts) if !facts.is_file() => refuse(
            "the output is not a regular file but a device or socket",
            "write a file, or use `-o -` in a pipe to a program that may write there",
        ),
        _ => file_behind(operation, name),
    }
}

/// The place of the only input: its file, or the shards of its manifest.
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
        .hint("use -o to name the input that the result replaces"));
    }
    match manifest {
        Some(manifest) => Ok(Target::Shards {
            paths: sources.iter().map(|source| source.path.clone()).collect(),
            manifest,
        }),
        None => file_or_pipe(&sources[0].path, Streams::Refused),
    }
}

/// One shard per drive.
fn shards(pattern: &Path, drives: &[DriveSpec]) -> Result<Target> {
    if drives.is_empty() {
        return Err(
            Error::usage(CREATE, "{drive} in the output's name needs drives")
                .path(pattern)
                .hint("name a directory on each drive: --drive DIR --drive DIR"),
        );
    }
    if pattern.as_os_str().as_bytes().ends_with(b".npy") {
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
        let name = PathBuf::from(filled_in(pattern.as_os_str(), PLACEHOLDER, &drive.name));
        let path = if is_plain { drive.dir.join(name) } else { name };
        paths.push(path);
    }
    let manifest = parent_of(&paths[0]).join(manifest_name(pattern, PLACEHOLDER));
    Ok(Target::Shards { paths, manifest })
}

/// Rejects places that must not be written, as [`choose`] does.
///
/// # Errors
/// Usage for an input or an existing file or directory; I/O if the directory does not exist.
pub fn check(target: &Target, sources: &[Source], consent: Consent, holds: Holds) -> Result<()> {
    check_terminal(target, holds, consent)?;
    let is_input = |key: FileKey| sources.iter().any(|source| source.key == Some(key));
    if target.is_standard_output() {
        let facts = paths::facts("/proc/self/fd/1")
            .ok()
            .filter(Metadata::is_file);
        if facts.is_some_and(|facts| facts.len() > 0 && is_input(FileKey::of(&facts))) {
            return Err(overwrites_input(STDOUT_NAME.as_ref()));
        }
    }
    if matches!(target, Target::Pipe(_)) {
        return match consent.replace {
            true => Err(replaces_nothing(target.name())),
            false => Ok(()),
        };
    }
    let mut replaces_input = false;
    let manifest = target.manifest();
    for path in target.files().iter().chain(manifest) {
        let facts = paths::facts(path).ok();
        let is_replaced = facts
            .as_ref()
            .is_some_and(|facts| is_input(FileKey::of(facts)));
        // A result that replaces an input has the input's form.
        if manifest != Some(path) && !(is_replaced && consent.replace) {
            holds.check_name(path)?;
        }
        check_dir_of(CREATE, path)?;
        let Some(facts) = facts else {
            continue;
        };
        if facts.is_dir() {
            return Err(Error::usage(CREATE, "the output is a directory")
                .path(path)
                .hint("give another name"));
        }
        let is_input = is_input(FileKey::of(&facts));
        replaces_input |= is_input;
        if is_input && !consent.replace {
            return Err(overwrites_input(path));
        }
        let is_allowed = consent.force || is_input || manifest == Some(path) && consent.replace;
        if !is_allowed {
            return Err(exists(CREATE, path));
        }
    }
    if consent.replace && !replaces_input {
        return Err(replaces_nothing(target.name()));
    }
    match manifest {
        Some(manifest) => check_replaced(manifest, target.files(), sources),
        None => Ok(()),
    }
}

/// Fails if an input belongs to an existing set of files that `files` would replace.
///
/// # Errors
/// Usage.
pub fn check_replaced(list: &Path, files: &[PathBuf], sources: &[Source]) -> Result<()> {
    let is_input = |path: &PathBuf| {
        let key = paths::key(path);
        key.is_some() && sources.iter().any(|source| source.key == key)
    };
    match replaced_files(list, files).into_iter().find(is_input) {
        Some(path) => {
            let cause = "replacing the set would also remove this input";
            Err(Error::usage(CREATE, cause)
                .path(path)
                .hint("give the output another name"))
        }
        None => Ok(()),
    }
}

/// As [`check`], for commands that never replace their input and do not suggest it.
///
/// # Errors
/// As [`check`].
pub fn check_new(target: &Target, sources: &[Source], force: bool, holds: Holds) -> Result<()> {
    let replace = false;
    check(target, sources, Consent { force, replace }, holds).map_err(elsewhere)
}

/// As [`choose`], for commands that never replace their input and do not suggest it.
///
/// # Errors
/// As [`choose`].
pub fn choose_new(
    name: Option<&Path>,
    sources: &[Source],
    drives: &[DriveSpec],
    force: bool,
    streams: Streams,
    holds: Holds,
) -> Result<Target> {
    let replace = false;
    let consent = Consent { force, replace };
    choose(name, sources, drives, consent, streams, holds).map_err(elsewhere)
}

/// This error without the advice to replace an input.
fn elsewhere(error: Error) -> Error {
    match error.next_step() {
        Some(IN_PLACE) => error.hint("give the output another name"),
        _ => error,
    }
}

/// An output and where it is made, which differ for a dataset.
#[derive(Debug, Clone, Copy)]
pub struct NamedOutput<'a> {
    /// The name that the user knows.
    pub name: &'a Path,
    /// The path at which the job writes the output.
    pub path: &'a Path,
}

/// Rejects outputs that are also read, or named twice.
///
/// # Errors
/// Usage.
pub fn refuse_inputs(read: &[&Path], written: &[NamedOutput<'_>]) -> Result<()> {
    for (index, NamedOutput { name, path }) in written.iter().enumerate() {
        let found = paths::key(path);
        let is_input =
            |input: &&Path| input == name || found.is_some() && paths::key(input) == found;
        let mut others = written[..index].iter();
        let cause = if read.iter().any(is_input) {
            "it is an input"
        } else if others.any(|other| is_same_place(other.path, path)) {
            "two outputs have this name"
        } else {
            continue;
        };
        let error = Error::usage("create output", cause).path(name);
        return Err(error.hint("name another file"));
    }
    Ok(())
}

/// Whether two names lead to the same place, whether or not it exists.
pub fn is_same_place(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let dir = paths::real(parent_of(path)).ok()?;
        Some(dir.join(path.file_name()?))
    };
    let key = paths::key;
    a == b || place(a).is_some() && place(a) == place(b) || key(a).is_some() && key(a) == key(b)
}

/// Rejects a directory name for a file.
///
/// # Errors
/// Usage, with `operation`, for a name that ends in `/`.
pub fn check_is_file_name(operation: &str, path: &Path) -> Result<()> {
    match path.as_os_str().as_bytes().ends_with(b"/") {
        true => Err(Error::usage(
            operation,
            "a name that ends in / is the name of a directory",
        )
        .path(path)
        .hint("name a file")),
        false => Ok(()),
    }
}

/// Fails if no file can be created next to `path`.
pub(crate) fn check_dir_of(operation: &str, path: &Path) -> Result<()> {
    use rustix::fs::{Access, access};
    check_is_file_name(operation, path)?;
    let dir = parent_of(path);
    match paths::facts(dir) {
        Ok(facts) if facts.is_dir() => {}
        Ok(_) => {
            return Err(Error::usage(operation, "its directory is a file")
                .path(path)
                .hint("give another name"));
        }
        Err(error) => {
            return Err(Error::io(operation, &error)
                .path(dir)
                .hint("make the directory first, or check the path"));
        }
    }
    access(dir, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        Error::errno(operation, errno.raw_os_error())
            .path(dir)
            .hint("check the directory's permissions, or write to another directory")
    })
}

/// The error for a file that must not be overwritten.
pub(crate) fn exists(operation: &str, path: &Path) -> Error {
    Error::usage(operation, "it exists already")
        .path(path)
        .hint("allow overwriting with --force")
}

fn overwrites_input(path: &Path) -> Error {
    Error::usage(CREATE, "the output is one of the inputs")
        .path(path)
        .hint(IN_PLACE)
}

fn replaces_nothing(name: &Path) -> Error {
    Error::usage(
        CREATE,
        "--replace is given, but the output is not one of the inputs",
    )
    .path(name)
    .hint("leave --replace out; --force overwrites other files")
}

/// The header of the output: that of the input that it replaces or comes from, or one made for the
/// format.
///
/// # Errors
/// Usage if NumPy cannot represent such records.
pub fn header_for(
    target: &Target,
    inputs: &[ResolvedInput],
    decided: &Decided,
) -> Result<Option<NpyHeader>> {
    let Target::File(path) = target else {
        return Ok(None);
    };
    let key = paths::key(path);
    let replaces_npy = inputs
        .iter()
        .any(|input| key.is_some() && input.source.key == key && input.npy.is_some());
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

/// A warning if NumPy arrays are read and raw records are written; `header` is that of the output.
pub fn loses_header(
    target: &Target,
    inputs: &[ResolvedInput],
    header: Option<&NpyHeader>,
) -> Option<String> {
    let is_lost = header.is_none() && inputs.iter().any(|input| input.npy.is_some());
    match target {
        Target::File(path) if is_lost => Some(format!(
            "{} gets raw records without a header; for a header, give it a name that ends in .npy",
            path.display()
        )),
        Target::Pipe(None) if is_lost && is_redirected() => Some(
            "standard output gets raw records without a header; `-o NAME.npy` writes a header"
                .to_owned(),
        ),
        Target::File(_) | Target::Shards { .. } | Target::Pipe(_) => None,
    }
}

/// Whether standard output is a file, and not a pipe to a program or a terminal.
pub fn is_redirected() -> bool {
    paths::facts("/proc/self/fd/1").is_ok_and(|facts| facts.is_file())
}

/// Fails if the drives have too little room for `records` records. The generator itself rejects
/// numbers that no drive could hold.
///
/// # Errors
/// As [`check_room`].
pub fn check_room_for(
    device: &dyn Device,
    target: &Target,
    records: u64,
    record_bytes: usize,
) -> Result<()> {
    match records.checked_mul(record_bytes as u64) {
        Some(data_bytes) => check_room(device, target, data_bytes),
        None => Ok(()),
    }
}

/// Fails if the drives of the files have too little room for `data_bytes`, evenly distributed.
///
/// # Errors
/// [`Kind::NoSpace`] with the needed and the available space.
pub fn check_room(device: &dyn Device, target: &Target, data_bytes: u64) -> Result<()> {
    let files = target.files();
    let share_bytes = data_bytes / files.len().max(1) as u64;
    let mut drives: Vec<(u64, &Path, u64)> = Vec::new();
    for file in files {
        let dir = parent_of(file);
        let facts = paths::facts(dir).map_err(|error| Error::io(CREATE, &error).path(dir))?;
        match drives.iter_mut().find(|drive| drive.0 == facts.dev()) {
            Some(drive) => drive.2 += share_bytes,
            None => drives.push((facts.dev(), dir, share_bytes)),
        }
    }
    for (_, dir, needed_bytes) in drives {
        let free_bytes = device.free_bytes(dir)?;
        if free_bytes < needed_bytes {
            let cause = format!(
                "{} are needed, but only {} are free",
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
    use std::fs;

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
            assert_eq!(manifest_name(Path::new(pattern), PLACEHOLDER), name);
        }
    }

    #[test]
    fn what_takes_no_streams_rejects_a_pipe_and_takes_a_dash_for_no_name() {
        let choose = |name: &str, streams| {
            let (name, consent) = (Some(Path::new(name)), Consent::default());
            choose(name, &[], &[], consent, streams, Holds::Lines)
        };
        assert_eq!(choose("-", Streams::Taken).unwrap(), Target::Pipe(None));
        let error = choose("-", Streams::Refused).unwrap_err();
        assert_eq!(error.cause(), "no output is given");
        let null = Target::Pipe(Some(PathBuf::from("/dev/null")));
        assert_eq!(choose("/dev/null", Streams::Taken).unwrap(), null);
        let error = choose("/dev/null", Streams::Refused).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
    }

    #[test]
    fn a_placeholder_that_is_none_is_an_error_unless_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str| check_placeholders(&dir.path().join(name), &[PLACEHOLDER]);
        let error = check("x-{drives}.bin").unwrap_err();
        assert!(error.next_step().unwrap().contains("{drive}"), "{error}");
        assert!(check("x-{drive}.bin").is_ok());
        assert!(check("x-{1,2}.bin").is_ok());
        assert!(check("x-{.bin").is_ok());
        assert!(check("{drive}/{part}").is_err());
        fs::create_dir(dir.path().join("{here}")).unwrap();
        assert!(check("{here}/x").is_ok());
    }
}
