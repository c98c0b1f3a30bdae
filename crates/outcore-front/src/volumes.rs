//! Datasets on volumes: which volume is meant, and `put`, `get` and `cp` by what their names say.
//!
//! Contract: `@name` is a dataset, `@name/inside` a file packed in one, `-` a pipe, all else a
//! path. A volume is named by the drives file that it was made with. The rules of
//! [`outcore_store::dataset`] hold: whole or not at all, nothing overwritten unasked, every
//! checksum block checked when it is read.

use std::fmt;
use std::fs::{self, File, FileType};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use outcore::{Error, Result};
use outcore_io::checksum::bytes_checksum;
use outcore_io::config::DriveSet;
use outcore_io::consumed;
use outcore_io::drive::{Device, Op};
use outcore_io::memory::{Budget, Buf};
use outcore_io::units;
use outcore_store::dataset::directory::{self, LeftOut};
use outcore_store::dataset::manifest::{Contents, Manifest};
use outcore_store::dataset::pack::Index;
use outcore_store::dataset::reader::DatasetReader;
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::writer::NewDataset;
use outcore_store::dataset::{DatasetVolume, Named, drives_of};
use outcore_store::load::{self, VolumeLoad};
use outcore_store::striped::{StripeOptions, StripedVolume};

use crate::streams::{PipeWriter, StreamReader};

/// Names the drives file of the volume where no option does.
pub const VOLUME_VARIABLE: &str = "OUTCORE_VOLUME";

/// Memory that a transfer takes: what its windows need, twice.
pub(crate) const MEMORY_BYTES: u64 = 2 * transfer::MEMORY_BYTES_MIN;

/// The budget of a transfer that has no setting of its own: buffers, and the checksums of much
/// data.
pub fn budget() -> Budget {
    Budget::new(MEMORY_BYTES + (1 << 30))
}

/// A number that no other run has: identities of volumes and datasets are made of it.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32)
}

/// The volume of a drives file.
///
/// # Errors
/// The file cannot be read; no drive of the volume is there, or one is of another volume.
pub fn open(device: &Arc<dyn Device>, drives_file: &Path) -> Result<DatasetVolume> {
    let set = DriveSet::read(drives_file)?;
    DatasetVolume::open(Arc::clone(device), drives_of(&set))
}

/// What was put, got or copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of data.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// What of a directory was left out.
    pub left_out: LeftOut,
}

impl Moved {
    /// One file.
    fn file(bytes: u64) -> Self {
        Moved {
            bytes,
            files: 1,
            left_out: LeftOut::default(),
        }
    }
}

impl From<&Manifest> for Moved {
    fn from(manifest: &Manifest) -> Self {
        Moved {
            files: manifest.files,
            ..Moved::file(manifest.len_bytes)
        }
    }
}

pub(crate) fn new_dataset(name: &Named, replace: bool) -> Result<NewDataset> {
    if let Some(inside) = &name.inside {
        let cause = format!("@{}/{inside}: a dataset is sealed", name.dataset);
        return Err(Error::usage("put", cause).hint("put the whole directory again, with --force"));
    }
    Ok(NewDataset {
        name: name.dataset.clone(),
        contents: Contents::File,
        files: 1,
        payload_bytes: None,
        replace,
        seed: fresh_seed(),
        readers: 0o044,
        attributes: None,
    })
}

/// The dataset that `path` must name.
///
/// # Errors
/// Usage: it names a file.
pub fn named(path: &Path) -> Result<Named> {
    Named::parse(path)?.ok_or_else(|| {
        Error::usage("name dataset", "the name of a dataset begins with @")
            .path(path)
            .hint("write @NAME for a dataset on the volume")
    })
}

fn is_stdio(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Pipes and character devices: what is read and written from end to end and has no length.
fn is_stream(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device()
}

fn refuse_other(operation: &str, path: &Path) -> Error {
    Error::usage(operation, "only files, directories and pipes can be copied")
        .path(path)
        .hint("copy what you want of it into a file")
}

/// Puts a file, a directory, or what a pipe or standard input gives until its end.
///
/// # Errors
/// The source cannot be read, the name is taken, there is no room.
pub fn put(
    volume: &DatasetVolume,
    source: &Path,
    name: &Named,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    if is_stdio(source) {
        let stdin = io::stdin().as_fd().try_clone_to_owned();
        let stdin = stdin.map_err(|error| Error::io("put", &error).path(source))?;
        return put_from(volume, &mut File::from(stdin), name, replace, resources);
    }
    let new = new_dataset(name, replace)?;
    let failed = |error: io::Error| Error::io("put", &error).path(source);
    let facts = fs::metadata(source).map_err(failed)?;
    let kind = facts.file_type();
    if kind.is_file() {
        consumed::check(source, &facts)?;
    }
    let manifest = if kind.is_dir() {
        let (manifest, left_out) = directory::put_dir(volume, source, &new, resources)?;
        return Ok(Moved {
            left_out,
            ..Moved::from(&manifest)
        });
    } else if kind.is_file() {
        transfer::put_file(volume, source, &new, resources)?
    } else if is_stream(kind) {
        let mut stream = StreamReader::at(source, resources.watch.check).map_err(failed)?;
        return put_from(volume, &mut stream, name, replace, resources);
    } else {
        return Err(refuse_other("put", source));
    };
    Ok(Moved::from(&manifest))
}

/// Puts what a stream gives until its end.
///
/// # Errors
/// As [`put`].
pub fn put_from(
    volume: &DatasetVolume,
    source: &mut dyn io::Read,
    name: &Named,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    let new = new_dataset(name, replace)?;
    let manifest = transfer::put_stream(volume, source, &new, resources)?;
    Ok(Moved::from(&manifest))
}

/// Fails where a whole packed directory is asked for as if it were a file.
fn refuse_directory(operation: &str, manifest: &Manifest, name: &Named) -> Result<()> {
    if manifest.contents == Contents::File || name.inside.is_some() {
        return Ok(());
    }
    let (dataset, files) = (&manifest.name, manifest.files);
    let cause = format!(
        "@{dataset} is a directory of {}",
        units::counted(files, "file")
    );
    Err(Error::usage(operation, cause).hint("name a directory to get it, or one file: @NAME/FILE"))
}

/// What `open` makes of a dataset, and the manifest of that. Where another job has put the dataset
/// again after the manifest was read, and removed the files of the old one, it is the new one.
///
/// # Errors
/// There is no such dataset; what `open` fails with.
fn opened<T>(
    volume: &DatasetVolume,
    name: &Named,
    open: impl Fn(&Manifest) -> Result<T>,
) -> Result<(Manifest, T)> {
    let manifest = volume.manifest(&name.dataset)?;
    let error = match open(&manifest) {
        Ok(opened) => return Ok((manifest, opened)),
        Err(error) => error,
    };
    match volume.manifest(&name.dataset) {
        Ok(now) if now.id != manifest.id => {
            let opened = open(&now)?;
            Ok((now, opened))
        }
        _ => Err(error),
    }
}

/// Gets a dataset, or one file of it, into a stream.
///
/// # Errors
/// There is no such dataset, it is a whole directory, damage; the stream's own.
pub fn get_into(
    volume: &DatasetVolume,
    name: &Named,
    target: &mut dyn io::Write,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    let (_, mut source) = opened(volume, name, |manifest| {
        refuse_directory("get", manifest, name)?;
        transfer::open(volume, manifest, name.inside.as_deref(), resources.budget)
    })?;
    transfer::get_stream(&mut source.reader, target, resources.watch)?;
    Ok(Moved::file(source.len_bytes))
}

/// Gets a dataset, or one file of it, as a file, a directory, into a pipe or on standard output.
///
/// # Errors
/// There is no such dataset, damage, a target that exists and is not to be replaced.
pub fn get(
    volume: &DatasetVolume,
    name: &Named,
    target: &Path,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    if is_stdio(target) {
        // Not the library's stream, which takes a closed one for written and loses what it still
        // holds.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let stdout = stdout.map_err(|error| Error::io("get", &error).path(target))?;
        return get_into(volume, name, &mut File::from(stdout), resources);
    }
    let manifest = volume.manifest(&name.dataset)?;
    if manifest.contents == Contents::Directory && name.inside.is_none() {
        let (manifest, files) = opened(volume, name, |manifest| {
            directory::get_dir(volume, manifest, target, resources)
        })?;
        return Ok(Moved {
            files,
            ..Moved::file(manifest.len_bytes)
        });
    }
    let kind = fs::metadata(target).ok().map(|facts| facts.file_type());
    if kind.is_some_and(is_stream) {
        let opened = PipeWriter::open(target, resources.watch.check);
        let mut stream = opened.map_err(|error| Error::io("get", &error).path(target))?;
        return get_into(volume, name, &mut stream, resources);
    }
    if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir()) {
        return Err(refuse_other("get", target));
    }
    if kind.is_some() && !replace {
        return Err(Error::usage("get", "it exists already")
            .path(target)
            .hint("allow overwriting with --force, or name another"));
    }
    let inside = name.inside.as_deref();
    let (_, source) = opened(volume, name, |manifest| {
        transfer::open(volume, manifest, inside, resources.budget)
    })?;
    let bytes = source.len_bytes;
    transfer::get_file(source, target, replace, resources)?;
    Ok(Moved::file(bytes))
}

/// A dataset, as a job reads it: a value that needs no file of the system.
#[derive(Clone)]
pub struct Sealed {
    volume: DatasetVolume,
    manifest: Arc<Manifest>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.manifest.name)
    }
}

impl Sealed {
    /// The dataset `name`, if it is one file that may be read where it lies; else it must be
    /// copied.
    ///
    /// # Errors
    /// No dataset has that name.
    pub fn of(volume: &DatasetVolume, name: &Named) -> Result<Option<Self>> {
        let manifest = volume.manifest(&name.dataset)?;
        let is_file = name.inside.is_none() && manifest.contents == Contents::File;
        Ok(is_file.then(|| Sealed {
            volume: volume.clone(),
            manifest: Arc::new(manifest),
        }))
    }

    /// The dataset `name` with the directory that is packed in it, and where its files lie.
    ///
    /// # Errors
    /// There is none of that name; usage if it is one file; damage.
    pub fn packed(volume: &DatasetVolume, name: &Named) -> Result<(Self, Index)> {
        let manifest = volume.manifest(&name.dataset)?;
        let index = transfer::index_of(volume, &manifest, &budget())?;
        let sealed = Sealed {
            volume: volume.clone(),
            manifest: Arc::new(manifest),
        };
        Ok((sealed, index))
    }

    /// Its name, without `@`.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.manifest.len_bytes
    }

    /// What tells it from all files and from other datasets.
    pub fn key(&self) -> (u64, u64) {
        // No device number of the system is as large.
        let volume = bytes_checksum(self.volume.id().as_bytes()) | 1 << 63;
        (volume, bytes_checksum(self.manifest.id.as_bytes()))
    }

    /// This many bytes from `from_bytes` on, or as many as there are.
    ///
    /// # Errors
    /// A read that fails; damage.
    pub fn read(&self, from_bytes: u64, len_bytes: usize) -> Result<Vec<u8>> {
        let left_bytes = self.len_bytes().saturating_sub(from_bytes);
        let len_bytes = left_bytes.min(len_bytes as u64);
        let mut bytes = Vec::with_capacity(len_bytes as usize);
        let from_bytes = from_bytes.min(self.len_bytes());
        let mut reader =
            self.volume
                .range_reader(&self.manifest, from_bytes, len_bytes, &budget())?;
        while let Some(part) = reader.next_chunk()? {
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    }

    /// All of it, in order.
    ///
    /// # Errors
    /// As [`Sealed::read`].
    pub fn open(&self) -> Result<SealedReader> {
        Ok(SealedReader {
            reader: self.volume.reader(&self.manifest, &budget())?,
            part: None,
            at: 0,
        })
    }
}

/// Reads a dataset from its beginning.
pub struct SealedReader {
    reader: DatasetReader,
    part: Option<Buf>,
    at: usize,
}

impl io::Read for SealedReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self
                .part
                .as_deref()
                .map_or(&[][..], |part| &part[self.at..]);
            if !left.is_empty() || bytes.is_empty() {
                let got = left.len().min(bytes.len());
                bytes[..got].copy_from_slice(&left[..got]);
                self.at += got;
                return Ok(got);
            }
            self.at = 0;
            self.part = self.reader.next_chunk().map_err(io::Error::other)?;
            if self.part.is_none() {
                return Ok(0);
            }
        }
    }
}

/// Copies between files and datasets, either way; between two datasets, inside the volume.
///
/// # Errors
/// As [`put`] and [`get`]; usage if neither is a dataset.
pub fn copy(
    volume: &DatasetVolume,
    from: &Path,
    to: &Path,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    match (Named::parse(from)?, Named::parse(to)?) {
        (None, None) => Err(Error::usage("copy", "neither name begins with @")
            .hint("write @NAME for a dataset; cp(1) copies files")),
        (None, Some(to)) => put(volume, from, &to, replace, resources),
        (Some(from), None) => get(volume, &from, to, replace, resources),
        (Some(from), Some(_)) if from.inside.is_some() => Err(Error::usage(
            "copy",
            "a file inside a dataset is not copied into another",
        )
        .hint("get it, and put it")),
        (Some(from), Some(to)) => {
            let new = new_dataset(&to, replace)?;
            let (_, made) = opened(volume, &from, |manifest| {
                transfer::copy(volume, manifest, volume, &new, resources)
            })?;
            Ok(Moved::from(&made))
        }
    }
}

/// Bytes that a transfer of `path` will move, as far as that is known before.
pub fn bytes_of(volume: &DatasetVolume, path: &Path) -> u64 {
    match Named::parse(path) {
        Ok(Some(named)) => volume
            .manifest(&named.dataset)
            .map_or(0, |manifest| manifest.len_bytes),
        _ => std::fs::metadata(path)
            .ok()
            .filter(|facts| facts.is_file())
            .map_or(0, |facts| facts.len()),
    }
}

/// Puts bytes that are in memory.
///
/// # Errors
/// As [`put`].
pub fn put_bytes(
    volume: &DatasetVolume,
    bytes: &[u8],
    name: &Named,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    let mut new = new_dataset(name, replace)?;
    new.payload_bytes = Some(bytes.len() as u64);
    let mut source = bytes;
    let manifest = transfer::put_stream(volume, &mut source, &new, resources)?;
    Ok(Moved::from(&manifest))
}

/// Bytes of a dataset, or of a file packed in it, from `from_bytes` on; fewer than `len_bytes` at
/// its end, all to the end without a length.
///
/// # Errors
/// There is no such dataset; it is a whole directory; it begins beyond the end; damage.
pub fn read(
    volume: &DatasetVolume,
    name: &Named,
    from_bytes: u64,
    len_bytes: Option<u64>,
    resources: TransferResources<'_>,
) -> Result<Vec<u8>> {
    let manifest = volume.manifest(&name.dataset)?;
    refuse_directory("read dataset", &manifest, name)?;
    let (start_bytes, whole_bytes) = match &name.inside {
        None => (0, manifest.len_bytes),
        Some(inside) => {
            let index = transfer::index_of(volume, &manifest, resources.budget)?;
            let found = index.find(inside)?;
            (found.offset_bytes, found.len_bytes)
        }
    };
    let left_bytes = whole_bytes.checked_sub(from_bytes).ok_or_else(|| {
        Error::usage(
            "read dataset",
            format!(
                "the dataset has only {}",
                units::counted(whole_bytes, "byte")
            ),
        )
        .hint("begin before its end")
    })?;
    let len_bytes = len_bytes.unwrap_or(left_bytes).min(left_bytes);
    let mut bytes = Vec::with_capacity(len_bytes as usize);
    let from_bytes = start_bytes + from_bytes;
    let mut reader = volume.range_reader(&manifest, from_bytes, len_bytes, resources.budget)?;
    transfer::get_stream(&mut reader, &mut bytes, resources.watch)?;
    Ok(bytes)
}

/// With less than this a measurement says nothing.
const BENCH_BYTES_MIN: u64 = 1 << 20;
/// Of one load.
const BENCH_SECONDS_MAX: f64 = 3600.0;

/// One line of [`bench`].
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was done.
    pub workload: &'static str,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// Half of the requests took no longer.
    pub p50_us: f64,
    /// Ninety-nine in a hundred took no longer.
    pub p99_us: f64,
}

/// What one thread reaches on the drives of a volume: random and sequential, reads and writes, each
/// for `seconds`, on temporary files of `file_bytes` a drive.
///
/// # Errors
/// Usage: no time, or files too small to measure with. No room; a transfer that fails; a stop.
pub fn bench(
    volume: &DatasetVolume,
    seconds: f64,
    file_bytes: u64,
    resources: TransferResources<'_>,
) -> Result<Vec<Measured>> {
    let is_time = seconds > 0.0 && seconds <= BENCH_SECONDS_MAX;
    if !is_time || file_bytes < BENCH_BYTES_MIN {
        let cause = format!("{seconds} seconds on files of {file_bytes} bytes");
        return Err(Error::usage("measure volume", cause)
            .hint("take from a moment to an hour for each load, and files of at least 1MiB"));
    }
    volume.check_complete("measure volume")?;
    let dirs: Vec<_> = volume
        .drives()
        .iter()
        .map(|drive| drive.dir.clone())
        .collect();
    let options = StripeOptions::default();
    let device = Arc::clone(resources.device);
    let striped = StripedVolume::temporary(device, &dirs, file_bytes, options)?;
    let whole = VolumeLoad {
        op: Op::Write,
        block_bytes: 1 << 20,
        depth: 64,
        is_random: false,
        limit_ns: u64::MAX,
        limit_bytes: striped.len_bytes(),
        seed: 1,
    };
    // Blocks that were never written say nothing of a drive.
    load::run(&striped, &whole, resources.watch.check)?;
    let measure = |(workload, op, is_random, block_bytes): (_, Op, bool, usize)| -> Result<_> {
        let wanted = VolumeLoad {
            op,
            is_random,
            block_bytes,
            depth: 32 * dirs.len(),
            limit_ns: (seconds * 1e9) as u64,
            limit_bytes: u64::MAX,
            ..whole
        };
        let moved = load::run(&striped, &wanted, resources.watch.check)?;
        (resources.watch.advance)(moved.bytes);
        Ok(Measured {
            workload,
            bytes_per_s: moved.bytes_per_s(),
            requests_per_s: moved.requests_per_s(),
            p50_us: moved.latency.percentile_ns(50.0) as f64 / 1e3,
            p99_us: moved.latency.percentile_ns(99.0) as f64 / 1e3,
        })
    };
    let workloads = [
        ("random read 4KiB", Op::Read, true, 4096),
        ("random write 4KiB", Op::Write, true, 4096),
        ("sequential read 64KiB", Op::Read, false, 64 << 10),
        ("sequential write 64KiB", Op::Write, false, 64 << 10),
    ];
    workloads.into_iter().map(measure).collect()
}
