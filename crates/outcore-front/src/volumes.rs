//! Datasets on volumes: resolves the volume, and runs `put`, `get` and `cp` according to the form
//! of names.
//!
//! Contract: `@name` is a dataset, `@name/inside` a file packed in one, `-` a pipe; all other names
//! are paths. A volume is identified by the drives file that it was made with. The rules of
//! [`outcore_store::dataset`] apply: a dataset is complete or absent, nothing is overwritten
//! without consent, and every checksum block is verified when it is read.

mod members;

use std::fmt;
use std::fs::File;
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
use outcore_io::drive::paths::{self, FileKey, FileType};
use outcore_io::drive::{Device, Op};
use outcore_io::memory::{Budget, Buf};
use outcore_io::units;
use outcore_store::dataset::directory::{self, LeftOut};
use outcore_store::dataset::manifest::{Contents, Manifest};
use outcore_store::dataset::membership::Standing;
use outcore_store::dataset::pack::Index;
use outcore_store::dataset::reader::DatasetReader;
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::writer::NewDataset;
use outcore_store::dataset::{DatasetVolume, Named, drives_of};
use outcore_store::load::{self, VolumeLoad};
use outcore_store::striped::{StripeOptions, StripedVolume};

use crate::streams::{PipeWriter, StreamReader};

pub use members::{add_drive, remove_drive, replace};

/// The environment variable with the path of the volume's drives file, used if no option gives it.
pub const VOLUME_VARIABLE: &str = "OUTCORE_VOLUME";

/// Memory of a transfer: twice the need of its windows.
pub(crate) const MEMORY_BYTES: u64 = 2 * transfer::MEMORY_BYTES_MIN;

/// The budget of a transfer without a setting of its own: buffers, and the checksums of large data.
pub fn budget() -> Budget {
    Budget::new(MEMORY_BYTES + (1 << 30))
}

/// A number that no other run has, used to create identities of volumes and datasets.
pub fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32)
}

/// The volume of a drives file.
///
/// # Errors
/// The file cannot be read; no drive of the volume is present, or one belongs to another volume.
pub fn open(device: &Arc<dyn Device>, drives_file: &Path) -> Result<DatasetVolume> {
    let set = DriveSet::read(drives_file)?;
    DatasetVolume::open(Arc::clone(device), drives_of(&set))
}

/// Notes about missing drives that other drives replace, so that the user does not overlook them.
pub fn degraded_notes(volume: &DatasetVolume) -> Vec<String> {
    if volume.redundancy().is_none() {
        return Vec::new();
    }
    let lost = volume.names_with(Standing::Lost);
    let absent = volume.absent().map(|(drive, _)| {
        let name = &drive.name;
        match lost.contains(name) {
            false => format!(
                "drive {name} is missing: its data are computed from the other drives; rebuild it \
                 with `outcore volume replace`"
            ),
            true => format!(
                "drive {name} is being removed: its data are computed from the other drives until \
                 `outcore volume remove` has ended"
            ),
        }
    });
    absent.collect()
}

/// The result of a put, get or copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Bytes of data.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Entries of a directory that were left out.
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
        let cause = format!(
            "@{}/{inside}: the name of a dataset has no /, and files inside a dataset cannot be changed",
            name.dataset
        );
        return Err(Error::usage("put", cause)
            .hint("write a name without /, or put the whole directory again, with --force"));
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

/// The dataset in `path`, which must name one.
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

/// Whether it is a pipe or a character device, which is read and written sequentially and has no
/// length.
fn is_stream(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_char_device()
}

fn refuse_other(operation: &str, path: &Path) -> Error {
    Error::usage(operation, "only files, directories and pipes can be copied")
        .path(path)
        .hint("copy the part that you want into a file")
}

/// Puts a file, a directory, or the data of a pipe or standard input until its end.
///
/// # Errors
/// The source cannot be read, the name is taken, or there is no room.
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
    let facts = paths::facts(source).map_err(failed)?;
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

/// Puts the data of a stream until its end.
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

/// Fails if a whole packed directory is requested as if it were a file.
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

/// The result of `open` for a dataset, with its manifest. If another job has replaced the dataset
/// after the manifest was read, and removed its old files, the new dataset is used.
///
/// # Errors
/// The dataset does not exist; an error of `open`.
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

/// Writes a dataset, or one file of it, into a stream.
///
/// # Errors
/// The dataset does not exist or is a whole directory; damage; an error of the stream.
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

/// Gets a dataset, or one file of it, as a file, as a directory, into a pipe or to standard output.
///
/// # Errors
/// The dataset does not exist; damage; the target exists and may not be replaced.
pub fn get(
    volume: &DatasetVolume,
    name: &Named,
    target: &Path,
    replace: bool,
    resources: TransferResources<'_>,
) -> Result<Moved> {
    if is_stdio(target) {
        // The library's stream is unsuitable: it treats a closed output as written, and loses its
        // buffer.
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
    let kind = paths::facts(target).ok().map(|facts| facts.file_type());
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
            .hint("allow overwriting with --force, or name another path"));
    }
    let inside = name.inside.as_deref();
    let (_, source) = opened(volume, name, |manifest| {
        transfer::open(volume, manifest, inside, resources.budget)
    })?;
    let bytes = source.len_bytes;
    transfer::get_file(source, target, replace, resources)?;
    Ok(Moved::file(bytes))
}

/// A dataset in the form in which a job reads it; it needs no file of the system.
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
    /// The dataset `name`, if it is one file that can be read in place; otherwise it must be
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

    /// The dataset `name` with the directory packed in it, and the places of its files.
    ///
    /// # Errors
    /// No dataset has that name; usage if it is one file; damage.
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

    /// A key that differs from those of all files and other datasets.
    pub fn key(&self) -> FileKey {
        // Larger than any device number of the system.
        let file_system = bytes_checksum(self.volume.id().as_bytes()) | 1 << 63;
        FileKey {
            file_system,
            inode: bytes_checksum(self.manifest.id.as_bytes()),
        }
    }

    /// Up to `len_bytes` bytes that start at `from_bytes`.
    ///
    /// # Errors
    /// A failed read; damage.
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

    /// A reader of the whole dataset, in order.
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

/// Copies between files and datasets in either direction; a copy between two datasets stays inside
/// the volume.
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
        .hint(
            "copy the file out with `outcore volume get`, then store it with `outcore volume put`",
        )),
        (Some(from), Some(to)) => {
            let new = new_dataset(&to, replace)?;
            let (_, made) = opened(volume, &from, |manifest| {
                transfer::copy(volume, manifest, volume, &new, resources)
            })?;
            Ok(Moved::from(&made))
        }
    }
}

/// Bytes that a transfer of `path` will move, as far as known in advance.
pub fn bytes_of(volume: &DatasetVolume, path: &Path) -> u64 {
    match Named::parse(path) {
        Ok(Some(named)) => volume
            .manifest(&named.dataset)
            .map_or(0, |manifest| manifest.len_bytes),
        _ => paths::facts(path)
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

/// Bytes of a dataset, or of a file packed in it, that start at `from_bytes`. Returns fewer than
/// `len_bytes` at its end, and all bytes to the end without a length.
///
/// # Errors
/// The dataset does not exist or is a whole directory; the range begins beyond the end; damage.
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

/// With smaller files a measurement is meaningless.
const BENCH_BYTES_MIN: u64 = 1 << 20;
/// Longest time of one load.
const BENCH_SECONDS_MAX: f64 = 3600.0;

/// One line of [`bench`].
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The load.
    pub workload: &'static str,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Median latency of requests.
    pub p50_us: f64,
    /// 99th percentile of the latency.
    pub p99_us: f64,
}

/// Measures the rates of one thread on the drives of a volume: random and sequential reads and
/// writes, each for `seconds`, on temporary files of `file_bytes` per drive.
///
/// # Errors
/// Usage: zero time, or files too small to measure with. No room; a failed transfer; a stop.
pub fn bench(
    volume: &DatasetVolume,
    seconds: f64,
    file_bytes: u64,
    resources: TransferResources<'_>,
) -> Result<Vec<Measured>> {
    let is_time = seconds > 0.0 && seconds <= BENCH_SECONDS_MAX;
    if !is_time || file_bytes < BENCH_BYTES_MIN {
        let cause = format!("{seconds} seconds on files of {file_bytes} bytes");
        return Err(Error::usage("measure volume", cause).hint(
            "give more than 0 and at most 3600 seconds for each load, and files of at least 1MiB",
        ));
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
    // Reads of blocks that were never written do not measure the drive.
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
