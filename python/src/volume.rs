//! Volumes: datasets in, out, looked at and checked.
//!
//! Contract: as in [`crate::jobs`]: all of it runs on the job's own thread. Each call opens the
//! volume anew, so a drive that was lost or replaced meanwhile is an error of the call that meets
//! it. Names are without `@`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::Result;
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::volumes::{self, Moved};
use outcore_io::config::DriveSet;
use outcore_io::drive::Device;
use outcore_io::units;
use outcore_store::dataset::manifest::Contents;
use outcore_store::dataset::pack::{Entry, EntryKind};
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::{DatasetVolume, Named, Watch, drives_of};
use pyo3::IntoPyObject;
use pyo3::pybacked::PyBackedBytes;

use crate::run::Run;

/// What was moved.
#[derive(Debug, IntoPyObject)]
pub(crate) struct MovedReply {
    bytes: u64,
    files: u64,
    left_out: u64,
}

impl From<Moved> for MovedReply {
    fn from(moved: Moved) -> Self {
        MovedReply {
            bytes: moved.bytes,
            files: moved.files,
            left_out: moved.left_out.count,
        }
    }
}

/// A dataset, or a file packed in one.
#[derive(Debug, IntoPyObject)]
pub(crate) struct EntryReply {
    name: String,
    bytes: u64,
    files: u64,
    is_directory: bool,
    missing_drives: Vec<String>,
}

/// A drive of a volume.
#[derive(Debug, IntoPyObject)]
pub(crate) struct DriveReply {
    drive: String,
    dir: PathBuf,
    is_present: bool,
    used_bytes: u64,
    free_bytes: u64,
}

/// A checksum block that is not what was written.
#[derive(Debug, IntoPyObject)]
pub(crate) struct DamageReply {
    dataset: String,
    drive: String,
    path: String,
    offset_bytes: u64,
    len_bytes: u64,
    is_repaired: bool,
}

/// What one thread reached.
#[derive(Debug, IntoPyObject)]
pub(crate) struct MeasuredReply {
    workload: &'static str,
    bytes_per_s: f64,
    requests_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Runs `work` on the files of the system, or on the volume of `drives_file`.
fn with_resources<T>(
    run: &Run,
    work: impl FnOnce(TransferResources<'_>) -> Result<T>,
) -> Result<T> {
    let request = ResourcesRequest::default();
    let device: Arc<dyn Device> = Resources::load(&request, &run.environment)?.device();
    work(TransferResources {
        device: &device,
        budget: &volumes::budget(),
        watch: Watch {
            check: &|| run.control.check(),
            advance: &|bytes| run.control.advance(bytes),
        },
    })
}

fn with_volume<T>(
    drives_file: &Path,
    run: &Run,
    work: impl FnOnce(&DatasetVolume, TransferResources<'_>) -> Result<T>,
) -> Result<T> {
    with_resources(run, |resources| {
        work(&volumes::open(resources.device, drives_file)?, resources)
    })
}

fn named(name: &str) -> Result<Named> {
    volumes::named(Path::new(&format!("@{name}")))
}

/// Makes an empty volume; its identity.
pub(crate) fn create(drives_file: &Path, stripe: &str, run: &Run) -> Result<String> {
    let stripe_bytes = units::parse_bytes(stripe)?;
    with_resources(run, |resources| {
        let drives = drives_of(&DriveSet::read(drives_file)?);
        let seed = volumes::fresh_seed();
        let device = Arc::clone(resources.device);
        let made = DatasetVolume::create(device, drives, stripe_bytes, seed)?;
        Ok(made.id().to_string())
    })
}

/// What is to be put.
pub(crate) enum Source {
    /// A file or a directory.
    Path(PathBuf),
    /// Bytes in the interpreter's memory, which stay as they are meanwhile.
    Bytes(PyBackedBytes),
}

/// Puts a dataset.
pub(crate) fn put(
    (drives_file, name, replace): (&Path, &str, bool),
    source: &Source,
    run: &Run,
) -> Result<MovedReply> {
    let name = named(name)?;
    let moved = with_volume(drives_file, run, |volume, resources| match source {
        Source::Path(path) => {
            run.control
                .begin_phase("put", volumes::bytes_of(volume, path));
            volumes::put(volume, path, &name, replace, resources)
        }
        Source::Bytes(bytes) => {
            run.control.begin_phase("put", bytes.len() as u64);
            volumes::put_bytes(volume, bytes, &name, replace, resources)
        }
    });
    moved.map(MovedReply::from)
}

/// Gets a dataset as a file or a directory.
pub(crate) fn get(
    (drives_file, name, replace): (&Path, &str, bool),
    target: &Path,
    run: &Run,
) -> Result<MovedReply> {
    let named = named(name)?;
    let moved = with_volume(drives_file, run, |volume, resources| {
        let path = PathBuf::from(format!("@{name}"));
        run.control
            .begin_phase("get", volumes::bytes_of(volume, &path));
        volumes::get(volume, &named, target, replace, resources)
    });
    moved.map(MovedReply::from)
}

/// Bytes of a dataset.
pub(crate) fn read(
    (drives_file, name): (&Path, &str),
    (from_bytes, len_bytes): (u64, Option<u64>),
    run: &Run,
) -> Result<Vec<u8>> {
    let name = named(name)?;
    with_volume(drives_file, run, |volume, resources| {
        volumes::read(volume, &name, from_bytes, len_bytes, resources)
    })
}

/// The datasets, or the files packed in one.
pub(crate) fn list(
    (drives_file, name): (&Path, Option<&str>),
    run: &Run,
) -> Result<Vec<EntryReply>> {
    with_volume(drives_file, run, |volume, resources| {
        let Some(name) = name else {
            let missing_of = |found: &outcore_store::dataset::manifest::Manifest| {
                let missing = volume.absent_of(found).into_iter();
                missing.map(str::to_string).collect()
            };
            let entry = |found: outcore_store::dataset::manifest::Manifest| EntryReply {
                missing_drives: missing_of(&found),
                is_directory: found.contents == Contents::Directory,
                bytes: found.len_bytes,
                files: found.files,
                name: found.name,
            };
            return Ok(volume.list()?.into_iter().map(entry).collect());
        };
        let manifest = volume.manifest(&named(name)?.dataset)?;
        let index = transfer::index_of(volume, &manifest, resources.budget)?;
        let entry = |found: &Entry| EntryReply {
            is_directory: found.kind == EntryKind::Directory,
            missing_drives: Vec::new(),
            bytes: found.len_bytes,
            files: 1,
            name: found.text(),
        };
        Ok(index.listed().map(entry).collect())
    })
}

/// Removes a dataset.
pub(crate) fn remove((drives_file, name): (&Path, &str), run: &Run) -> Result<()> {
    let dataset = named(name)?.dataset;
    with_volume(drives_file, run, |volume, _| {
        volume.remove(&dataset).map(|_| ())
    })
}

/// Room and use of the drives.
pub(crate) fn status(drives_file: &Path, run: &Run) -> Result<Vec<DriveReply>> {
    with_volume(drives_file, run, |volume, _| {
        let drives = volume.status()?.into_iter().map(|drive| DriveReply {
            drive: drive.drive,
            dir: drive.dir,
            is_present: drive.is_present,
            used_bytes: drive.used_bytes,
            free_bytes: drive.free_bytes,
        });
        Ok(drives.collect())
    })
}

/// What is not what was written.
pub(crate) fn scrub(
    (drives_file, names): (&Path, &[String]),
    run: &Run,
) -> Result<Vec<DamageReply>> {
    with_volume(drives_file, run, |volume, resources| {
        let found = volume.scrub(names, resources.budget, resources.watch)?;
        let damages = found.into_iter().map(|damage| DamageReply {
            dataset: damage.dataset,
            drive: damage.drive,
            path: damage.path,
            offset_bytes: damage.offset_bytes,
            len_bytes: damage.len_bytes,
            is_repaired: damage.is_repaired,
        });
        Ok(damages.collect())
    })
}

/// What one thread reaches on the drives.
pub(crate) fn bench(
    drives_file: &Path,
    (seconds, size): (f64, &str),
    run: &Run,
) -> Result<Vec<MeasuredReply>> {
    let file_bytes = units::parse_bytes(size)?;
    with_volume(drives_file, run, |volume, resources| {
        let lines = volumes::bench(volume, seconds, file_bytes, resources)?;
        let replies = lines.into_iter().map(|line| MeasuredReply {
            workload: line.workload,
            bytes_per_s: line.bytes_per_s,
            requests_per_s: line.requests_per_s,
            p50_us: line.p50_us,
            p99_us: line.p99_us,
        });
        Ok(replies.collect())
    })
}
