//! Turns the user's input names into files with a header, data and an identity.
//!
//! Contract: [`find`] expands manifests and plain names into [`Source`]s, and rejects names that
//! cannot be inputs (directories, block devices). Sources that are not regular files are streams. A
//! caller that accepts streams ([`Streams::Taken`]) first copies them to scratch; for it, `-` is
//! standard input. [`look`] opens each file once and reads its first bytes, which determine its
//! content ([`crate::content`]). A file that begins like a `.npy` file is one, and a file with that
//! extension must be one. [`look_at_lines`] does the same for files that must be lines. Nothing
//! else is read here.
//!
//! A regular file on standard input is read in place, from its current position.

mod objects;

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::content::{Content, HEAD_BYTES, Recognition, fitting_types};
use crate::objects::ObjectSource;
use crate::streams::{StreamReader, open_to_read};
use crate::volumes::Sealed;
pub use objects::{object_named, objects_like};
use outcore::Input;
use outcore::key::NpyHeader;
use outcore::{Error, Kind, Result};
use outcore_io::consumed;
use outcore_io::drive::folder;
use outcore_io::drive::objects::{is_object, no_stores};
pub use outcore_io::drive::paths::FileKey;
use outcore_io::drive::paths::{self, FileType, Metadata};
use outcore_io::drive::steady::Identity;
use outcore_io::metadata::refuse_own_directory;
use outcore_io::output::{MANIFEST_SUFFIX, Manifest};
use outcore_store::dataset::Named;

/// The name of standard input and output.
const STDIO: &str = "-";
/// Standard input in messages.
pub const STDIN_NAME: &str = "standard input";
/// The path of standard input as a file that can be opened again.
const STDIN_PATH: &str = "/proc/self/fd/0";
/// Number of bytes that identify the content of a stream, except for tar archives.
const TELLING_BYTES: usize = 64;
const OPEN: &str = "open input";
const CHECK_PATH: &str = "check the path";

/// The identity of a regular file. Files under /proc report a size of zero and are new each time,
/// so they have none.
fn identity_of(facts: &Metadata) -> Option<Identity> {
    (facts.is_file() && facts.len() > 0).then(|| Identity::of(facts))
}

/// Whether the caller accepts inputs that are not files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// `-` is standard input; pipes and character devices are streams.
    Taken,
    /// Only files; `-` is an ordinary file name.
    Refused,
}

/// An input before it is opened.
#[derive(Debug, Clone)]
pub struct Source {
    /// Name in messages.
    pub name: PathBuf,
    /// Path to open.
    pub path: PathBuf,
    /// Its identity, for regular files; streams have none.
    pub key: Option<FileKey>,
    /// The identity and state of the file when it was found; `None` for streams and datasets.
    pub identity: Option<Identity>,
    /// Offset of the first byte that belongs to the input.
    pub start_bytes: u64,
    /// The manifest that lists it.
    pub manifest: Option<PathBuf>,
    /// The dataset, if the input is one; only the device of the job can then open `path`.
    pub sealed: Option<Sealed>,
    /// The object, if the input is one; only a device with stores can then open `path`.
    pub object: Option<ObjectSource>,
    /// Its content, once its first bytes have been examined.
    pub content: Option<Content>,
}

/// Resolves names that are not names of system files.
pub trait Names {
    /// The input of `name`; `None` if it is a file name.
    ///
    /// # Errors
    /// It names a dataset that does not exist or cannot be read.
    fn input(&self, name: &Path) -> Result<Option<Source>>;

    /// The names that match the pattern `name`; `None` if `name` is a file or a single object.
    ///
    /// # Errors
    /// No object has such a name; a store that cannot be listed.
    fn matching(&self, _name: &Path) -> Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }

    /// Receives each input that was found, before it is read.
    fn found(&self, _: &Source) {}
}

/// Treats every name as a file name.
#[derive(Debug, Clone, Copy)]
pub struct FilesOnly;

impl Names for FilesOnly {
    fn input(&self, _: &Path) -> Result<Option<Source>> {
        Ok(None)
    }
}

impl Source {
    /// Whether it must be copied to scratch before it can be sorted.
    pub fn is_stream(&self) -> bool {
        self.key.is_none()
    }

    /// Whether it is a file or a dataset without bytes.
    ///
    /// # Errors
    /// It cannot be examined.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(!self.is_stream() && self.len_bytes()? == 0)
    }

    /// Whether it is on a volume: a dataset, or a file packed in one. In the second case, `path` is
    /// a copy.
    pub fn is_of_volume(&self) -> bool {
        self.sealed.is_some() || Named::is_mark(&self.name) && self.path != self.name
    }

    /// Whether it is a dataset or an object, which are never changed in place.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some() || self.object.is_some()
    }

    /// The file `path`, with the name that the user knows.
    ///
    /// # Errors
    /// It cannot be examined.
    pub(crate) fn of_copy(name: &Path, path: &Path) -> Result<Self> {
        let source = named(path, None, Streams::Refused)?;
        Ok(Source {
            name: name.to_path_buf(),
            ..source
        })
    }

    /// All bytes of the file, even if the input begins later.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&self) -> Result<Box<dyn Read>> {
        if let Some(object) = &self.object {
            return Ok(Box::new(object.open()?));
        }
        match &self.sealed {
            Some(sealed) => Ok(Box::new(sealed.open()?)),
            None => Ok(Box::new(self.open_file(&self.name)?)),
        }
    }

    /// Opens the file if it is still the one that was found; `name` is used in messages.
    fn open_file(&self, name: &Path) -> Result<File> {
        let file = File::open(&self.path).map_err(|error| cannot_open(name, &error))?;
        let facts = file.metadata().map_err(|error| cannot_open(name, &error))?;
        self.check_identity(&facts)?;
        Ok(file)
    }

    fn check_identity(&self, now: &Metadata) -> Result<()> {
        match &self.identity {
            Some(found) => found.check(&Identity::of(now), &self.name),
            None => Ok(()),
        }
    }

    /// The length of the file, including bytes before the input's beginning.
    ///
    /// # Errors
    /// It cannot be examined.
    pub fn len_bytes(&self) -> Result<u64> {
        if let Some(object) = &self.object {
            return Ok(object.len_bytes());
        }
        match &self.sealed {
            Some(sealed) => Ok(sealed.len_bytes()),
            None => match paths::facts(&self.path) {
                Ok(facts) => self.check_identity(&facts).map(|()| facts.len()),
                Err(error) => Err(cannot_open(&self.name, &error)),
            },
        }
    }

    /// Up to `len_bytes` bytes from where the input begins.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn head(&self, len_bytes: usize) -> Result<Vec<u8>> {
        if let Some(object) = &self.object {
            return object.head(len_bytes);
        }
        if let Some(sealed) = &self.sealed {
            return sealed.read(self.start_bytes, len_bytes);
        }
        let file = self.open_file(&self.path)?;
        let failed = |error| Error::io("read input", &error).path(&self.name);
        // A small file needs little memory and one read. Some files under /proc report a size of
        // zero.
        let there_bytes = match file.metadata().map_err(failed)?.len() {
            0 => 4096,
            len => len,
        };
        let mut head =
            vec![0; usize::try_from(there_bytes).map_or(len_bytes, |there| there.min(len_bytes))];
        let got = read_at(&file, &mut head, self.start_bytes).map_err(failed)?;
        head.truncate(got);
        Ok(head)
    }

    /// Whether its extension is that of a NumPy array.
    fn is_named_npy(&self) -> bool {
        let name = self.name.as_os_str().as_encoded_bytes();
        name.ends_with(b".npy")
    }
}

/// A file that can be sorted.
#[derive(Debug, Clone)]
pub struct ResolvedInput {
    /// The source as the user named it.
    pub source: Source,
    /// Bytes before the data.
    pub header_bytes: u64,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Its header, if it is a NumPy array.
    pub npy: Option<NpyHeader>,
    /// Its content, according to its first bytes.
    pub content: Content,
}

impl ResolvedInput {
    /// A file that consists only of data.
    fn whole(source: Source, content: Content) -> Result<Self> {
        Ok(ResolvedInput {
            header_bytes: source.start_bytes,
            data_bytes: source.len_bytes()?.saturating_sub(source.start_bytes),
            npy: None,
            content,
            source: Source {
                content: Some(content),
                ..source
            },
        })
    }

    /// The input in the engine's form.
    pub fn to_sort(&self) -> Input {
        Input {
            path: self.source.path.clone(),
            header_bytes: self.header_bytes,
            // Raw records extend to the end of the file; a header gives the number of data bytes.
            data_bytes: self.npy.is_some().then_some(self.data_bytes),
        }
    }
}

/// Expands the names of inputs, in order.
///
/// # Errors
/// No name, a missing file, a directory or device, a stream if none is accepted, standard input
/// named twice, a broken manifest, a file whose parts `--delete-input` has freed.
pub fn find(names: &[PathBuf], streams: Streams, known: &dyn Names) -> Result<Vec<Source>> {
    find_in(names, known, streams, is_manifest)
}

/// As [`find`], but a manifest is an ordinary file, as for GNU sort.
///
/// # Errors
/// As [`find`], except for manifests.
pub fn find_as_named(names: &[PathBuf], known: &dyn Names) -> Result<Vec<Source>> {
    find_in(names, known, Streams::Taken, |_| false)
}

fn find_in(
    names: &[PathBuf],
    known: &dyn Names,
    streams: Streams,
    is_list: impl Fn(&Path) -> bool,
) -> Result<Vec<Source>> {
    if names.is_empty() {
        return Err(Error::usage(OPEN, "no input given").hint("name a file"));
    }
    let is_stdio = |name: &Path| streams == Streams::Taken && is_stdio(name);
    let mut sources = Vec::new();
    if names.iter().filter(|name| is_stdio(name)).count() > 1 {
        return Err(
            Error::usage(OPEN, "standard input (-) is given more than once")
                .hint("give it once: it can be read only once"),
        );
    }
    for name in names {
        if is_stdio(name) {
            sources.push(standard_input()?);
        } else if let Some(names) = known.matching(name)? {
            for object in names {
                sources.extend(known.input(&object)?);
            }
        } else if let Some(source) = known.input(name)? {
            sources.push(source);
        } else if is_list(name) {
            sources.extend(shards_of(name, streams)?);
        } else {
            sources.push(named(name, None, streams)?);
        }
    }
    sources.iter().for_each(|source| known.found(source));
    Ok(sources)
}

/// Rejects streams, for plans that need the length of their inputs.
///
/// # Errors
/// Usage: one of them is a stream.
pub fn refuse_streams<'a>(
    sources: impl IntoIterator<Item = &'a Source>,
    operation: &str,
) -> Result<()> {
    match sources.into_iter().find(|source| source.is_stream()) {
        Some(stream) => Err(Error::usage(operation, "the size of a stream is not known")
            .path(&stream.name)
            .hint("name a file")),
        None => Ok(()),
    }
}

/// All inputs, for callers that accept only files.
///
/// # Errors
/// Those of [`find`] and [`look`].
pub fn open_files(names: &[PathBuf], known: &dyn Names) -> Result<Vec<ResolvedInput>> {
    let sources = find(names, Streams::Refused, known)?;
    sources.into_iter().map(look).collect()
}

/// The error with the name by which the user knows the file.
pub fn explain<'a>(sources: impl IntoIterator<Item = &'a Source>, error: Error) -> Error {
    let about = error.file_path();
    let found = sources
        .into_iter()
        .find(|source| Some(source.path.as_path()) == about);
    match found {
        Some(source) => error.path(&source.name),
        None => error,
    }
}

/// Whether `name` means standard input, or output.
fn is_stdio(name: &Path) -> bool {
    name.as_os_str() == STDIO
}

/// Whether `name` means standard output; its names under /dev would not survive a rename.
pub fn is_stdout(name: &Path) -> bool {
    let names = [STDIO, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|known| name.as_os_str() == *known)
}

/// Whether `name` is the name of a manifest.
pub(crate) fn is_manifest(name: &Path) -> bool {
    name.as_os_str()
        .as_encoded_bytes()
        .ends_with(MANIFEST_SUFFIX.as_bytes())
}

fn named(path: &Path, manifest: Option<&Path>, streams: Streams) -> Result<Source> {
    if is_object(path) {
        return Err(no_stores(OPEN, path));
    }
    let facts = paths::facts(path).map_err(|error| match is_stdio(path) {
        true => refused_stream(path),
        false => cannot_open(path, &error),
    })?;
    let kind = facts.file_type();
    check_kind(path, kind, streams)?;
    if kind.is_file() {
        consumed::check(path, &facts)?;
    }
    Ok(Source {
        name: path.to_path_buf(),
        path: path.to_path_buf(),
        key: kind.is_file().then(|| FileKey::of(&facts)),
        identity: identity_of(&facts),
        start_bytes: 0,
        manifest: manifest.map(Path::to_path_buf),
        sealed: None,
        object: None,
        content: None,
    })
}

fn check_kind(path: &Path, kind: FileType, streams: Streams) -> Result<()> {
    if kind.is_dir() {
        refuse_own_directory(OPEN, path)?;
    }
    let is_empty = |dir: &Path| folder::names(dir).is_ok_and(|names| names.is_empty());
    let (cause, hint) = if kind.is_dir() && is_empty(path) {
        (
            "the directory is empty",
            "name files, or a directory of tables: Parquet, Arrow, CSV or JSON lines",
        )
    } else if kind.is_dir() {
        ("the input is a directory", "name the files in it")
    } else if kind.is_block_device() {
        (
            "the input is a block device",
            "copy the part that holds the records into a file",
        )
    } else if !kind.is_file() && streams == Streams::Refused {
        return Err(refused_stream(path));
    } else {
        return Ok(());
    };
    Err(Error::usage(OPEN, cause).path(path).hint(hint))
}

fn refused_stream(path: &Path) -> Error {
    Error::usage(OPEN, "the input is a stream")
        .path(path)
        .hint("write it to a file, and name the file")
}

fn standard_input() -> Result<Source> {
    let stdin = rustix::stdio::stdin();
    let path = Path::new(STDIN_PATH);
    let facts = paths::facts(path).map_err(|error| {
        Error::io(OPEN, &error)
            .path(STDIN_NAME)
            .hint("standard input may be closed: name a file instead of -")
    })?;
    if !facts.is_file() {
        return Ok(Source {
            name: PathBuf::from(STDIN_NAME),
            path: path.to_path_buf(),
            key: None,
            identity: None,
            start_bytes: 0,
            manifest: None,
            sealed: None,
            object: None,
            content: None,
        });
    }
    let at = rustix::fs::seek(stdin, rustix::fs::SeekFrom::Current(0));
    let start_bytes =
        at.map_err(|errno| Error::errno(OPEN, errno.raw_os_error()).path(STDIN_NAME))?;
    // The name by which standard input was opened is clearer in messages, if it still leads to the
    // same file.
    let by_name = paths::link_target(path).ok().filter(|target| {
        paths::facts(target).is_ok_and(|there| FileKey::of(&there) == FileKey::of(&facts))
    });
    if let Some(name) = &by_name {
        consumed::check(name, &facts)?;
    }
    Ok(Source {
        name: by_name.clone().unwrap_or(PathBuf::from(STDIN_NAME)),
        path: by_name.unwrap_or(path.to_path_buf()),
        key: Some(FileKey::of(&facts)),
        identity: identity_of(&facts),
        start_bytes,
        manifest: None,
        sealed: None,
        object: None,
        content: None,
    })
}

/// The shards that a manifest lists, in its order.
fn shards_of(path: &Path, streams: Streams) -> Result<Vec<Source>> {
    let manifest = Manifest::read(path).map_err(|error| match error.kind() {
        Kind::Io => error.hint("check the path"),
        _ => error,
    })?;
    let mut sources = Vec::with_capacity(manifest.shards.len());
    for shard in &manifest.shards {
        let found = paths::facts(&shard.path).map_err(|error| {
            cannot_open(&shard.path, &error).hint(format!("{} lists it as a shard", path.display()))
        })?;
        shard.check(&found).map_err(|cause| {
            let hint = format!(
                "the shard was changed or replaced after {} was written: sort again, restore it, or name \
                 the shards themselves in order",
                path.display()
            );
            Error::corrupt("read manifest", cause)
                .path(&shard.path)
                .hint(hint)
        })?;
        sources.push(named(&shard.path, Some(path), streams)?);
    }
    Ok(sources)
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Error {
    let name = path.as_os_str().as_encoded_bytes();
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "check the permissions",
        std::io::ErrorKind::NotFound if name.starts_with(b"~") => {
            "the shell expands ~ only at the start of a word without quotes; write the whole path"
        }
        std::io::ErrorKind::NotFound if name.starts_with(b"$") => {
            "the shell expands variables only outside single quotes; write the whole path"
        }
        std::io::ErrorKind::NotFound if memchr::memchr3(b'*', b'?', b'[', name).is_some() => {
            "no file matches this pattern, or quotes kept the shell from expanding it"
        }
        std::io::ErrorKind::NotFound if are_listed(path) => "separate files by blanks",
        _ => CHECK_PATH,
    };
    Error::io(OPEN, error).path(path).hint(hint)
}

/// Whether the path is a list of several paths, with commas between them.
fn are_listed(path: &Path) -> bool {
    let parts = path
        .to_str()
        .map(|text| text.split(',').collect::<Vec<_>>());
    parts.is_some_and(|parts| {
        parts.len() > 1
            && parts
                .iter()
                .all(|part| paths::facts(Path::new(part)).is_ok())
    })
}

/// Opens a source and reads its first bytes. A file that begins like a `.npy` file is one, and a
/// file with that extension must be one.
///
/// # Errors
/// A file that cannot be read; a broken header; a file whose length differs from its header.
pub fn look(source: Source) -> Result<ResolvedInput> {
    let (input, head) = look_at_bytes(source)?;
    let is_npy = input.content == Content::Array || input.source.is_named_npy();
    if !is_npy {
        return Ok(input);
    }
    let (source, behind_bytes) = (input.source, input.data_bytes);
    let header = read_header(&source, &head)
        .and_then(|header| header.check_file_bytes(behind_bytes).map(|()| header))
        .map_err(|error| error.path(&source.name))?;
    Ok(ResolvedInput {
        header_bytes: source.start_bytes + header.header_bytes as u64,
        data_bytes: behind_bytes - header.header_bytes as u64,
        npy: Some(header),
        content: Content::Array,
        source,
    })
}

/// Opens a source that must hold lines and reads its first bytes; all of the file is data.
///
/// # Errors
/// A file that cannot be read, or that `recognition` does not accept as lines.
pub fn look_at_lines(source: Source, recognition: Recognition) -> Result<ResolvedInput> {
    let input = match source.content {
        Some(content) => ResolvedInput::whole(source, content)?,
        None => look_at_bytes(source)?.0,
    };
    let name = &input.source.name;
    let checked = recognition.check_lines(name, input.content, true);
    let fitting = fitting_types(input.data_bytes);
    match checked {
        Err(error) if input.content.is_plain() && !fitting.is_empty() => Err(error.hint(format!(
            "pass the type of its records: its size would suit --type {}; or pass --lines to treat \
             its bytes as lines",
            fitting.join(", ")
        ))),
        checked => checked.map(|()| input),
    }
}

/// Bytes of text in files.
///
/// # Errors
/// A missing file.
pub fn bytes_of(files: &[Source]) -> Result<u64> {
    let bytes = |file: &Source| Ok(file.len_bytes()?.saturating_sub(file.start_bytes));
    files.iter().map(bytes).sum()
}

/// The content of a file.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn content_of(source: &Source) -> Result<Content> {
    Ok(Content::of(&source.head(HEAD_BYTES)?))
}

/// A file that consists only of data, with its content and its first bytes.
fn look_at_bytes(source: Source) -> Result<(ResolvedInput, Vec<u8>)> {
    let head = source.head(HEAD_BYTES)?;
    let input = ResolvedInput::whole(source, Content::of(&head))?;
    Ok((input, head))
}

fn read_header(source: &Source, prefix: &[u8]) -> Result<NpyHeader> {
    NpyHeader::parse(&source.head(NpyHeader::len_bytes(prefix)?)?)
}

/// Reads up to the length of `bytes`.
fn read_at(file: &File, bytes: &mut [u8], start_bytes: u64) -> std::io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], start_bytes + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Opens a stream for reading, whether or not it has a writer.
///
/// # Errors
/// The stream cannot be opened.
pub fn open_stream(source: &Source) -> Result<OwnedFd> {
    let opened = match source.path == Path::new(STDIN_PATH) {
        true => std::io::stdin().as_fd().try_clone_to_owned(),
        false => open_to_read(&source.path),
    };
    opened.map_err(|error| cannot_open(&source.name, &error))
}

impl<'a> StreamReader<'a> {
    /// Opens a source that is a stream.
    ///
    /// # Errors
    /// As [`open_stream`].
    pub(crate) fn open(source: &Source, check: impl Fn() -> Result<()> + 'a) -> Result<Self> {
        Ok(StreamReader::of(open_stream(source)?, check))
    }

    /// Reads the bytes that identify the stream's content, and no more than arrive with them,
    /// because a producer may be slow.
    ///
    /// # Errors
    /// A failed read; a stop.
    pub(crate) fn head(&mut self, source: &Source) -> Result<Vec<u8>> {
        let mut head = vec![0; HEAD_BYTES];
        let mut got = 0;
        loop {
            let more = self.read(&mut head[got..]);
            let failed = |error| Error::io("read input", &error).path(&source.name);
            let more = more.map_err(|error| self.check().err().unwrap_or(failed(error)))?;
            got += more;
            let is_line = head[..got].contains(&b'\n') && Content::of(&head[..got]).is_plain();
            if more == 0 || got >= TELLING_BYTES || is_line {
                head.truncate(got);
                return Ok(head);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_dash_is_refused_by_those_who_take_no_streams() {
        let error = open_files(&[PathBuf::from(STDIO)], &FilesOnly).unwrap_err();
        assert_eq!(error.file_path(), Some(Path::new(STDIO)));
        assert_eq!(error.cause(), "the input is a stream");
        let error = find(&[PathBuf::from("/dev/null")], Streams::Refused, &FilesOnly).unwrap_err();
        assert_eq!(error.cause(), "the input is a stream");
        let sources = find(&[PathBuf::from("/dev/null")], Streams::Taken, &FilesOnly).unwrap();
        assert!(sources[0].is_stream());
        assert!(find(&[], Streams::Taken, &FilesOnly).is_err());
    }

    #[test]
    fn what_begins_like_npy_is_one_and_what_is_named_so_must_be_one() {
        let dir = tempfile::tempdir().unwrap();
        let raw = dir.path().join("raw.npy");
        fs::write(&raw, [0; 64]).unwrap();
        assert!(open_files(std::slice::from_ref(&raw), &FilesOnly).is_err());
        let format = outcore::key::RecordFormat::parse_type("u64").unwrap();
        let mut bytes = NpyHeader::of_format(&format, 2).unwrap().encode(2);
        let header_bytes = bytes.len() as u64;
        bytes.extend([7; 16]);
        let hidden = dir.path().join("hidden.bin");
        fs::write(&hidden, &bytes).unwrap();
        let input = open_files(&[hidden], &FilesOnly).unwrap().remove(0);
        assert_eq!((input.header_bytes, input.data_bytes), (header_bytes, 16));
        assert_eq!(input.npy.unwrap().format, format);
    }
}
