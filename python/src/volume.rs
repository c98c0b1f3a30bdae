//! Operations on volumes that no verb has, because their data are in memory.
//!
//! Contract: as in [`crate::jobs`]: all of it runs on the job's own thread. Each call opens the
//! volume anew, so a drive that was lost or replaced meanwhile is an error of the next call that
//! uses it. Names are without `@`.

use std::path::Path;
use std::sync::Arc;

use outcore::Result;
use outcore_front::resources::{Resources, ResourcesRequest};
use outcore_front::volumes;
use outcore_io::drive::Device;
use outcore_io::units;
use outcore_store::dataset::transfer::TransferResources;
use outcore_store::dataset::{DatasetVolume, Named, Watch};
use outcore_verbs::report::{Moved, Stopwatch};
use outcore_verbs::volume::TransferSummary;
use pyo3::IntoPyObject;

use crate::run::Run;

/// The rates of one thread.
#[derive(Debug, IntoPyObject)]
pub(crate) struct MeasuredReply {
    workload: &'static str,
    bytes_per_s: f64,
    requests_per_s: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Runs `work` on the volume of `drives_file`.
fn with_volume<T>(
    drives_file: &Path,
    run: &Run,
    work: impl FnOnce(&DatasetVolume, TransferResources<'_>, &Resources) -> Result<T>,
) -> Result<T> {
    let loaded = run.load(&ResourcesRequest::default())?;
    let device: Arc<dyn Device> = loaded.device();
    let resources = TransferResources {
        device: &device,
        budget: &volumes::budget(),
        watch: Watch {
            check: &|| run.control.check(),
            advance: &|bytes| run.control.advance(bytes),
            throttle: None,
        },
    };
    work(&volumes::open(&device, drives_file)?, resources, &loaded)
}

fn named(name: &str) -> Result<Named> {
    volumes::named(Path::new(&format!("@{name}")))
}

/// A new dataset.
pub(crate) struct NewDataset<'a> {
    pub(crate) drives_file: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) replace: bool,
}

/// Puts bytes.
pub(crate) fn write(new: &NewDataset<'_>, bytes: &[u8], run: &Run) -> Result<TransferSummary> {
    let stopwatch = Stopwatch::start();
    let name = named(new.name)?;
    with_volume(new.drives_file, run, |volume, resources, loaded| {
        run.control.begin_phase("copy", bytes.len() as u64);
        let moved = volumes::put_bytes(volume, bytes, &name, new.replace, resources)?;
        let traffic = Moved {
            written_bytes: moved.bytes,
            passes: 1,
            ..Moved::default()
        };
        let used = stopwatch.stop(traffic, &[], loaded, None);
        Ok(TransferSummary::of(&moved, used))
    })
}

/// `len_bytes` of a dataset that start at `from_bytes`, or all bytes to its end.
pub(crate) fn read(
    drives_file: &Path,
    name: &str,
    from_bytes: u64,
    len_bytes: Option<u64>,
    run: &Run,
) -> Result<Vec<u8>> {
    let name = named(name)?;
    with_volume(drives_file, run, |volume, resources, _| {
        volumes::read(volume, &name, from_bytes, len_bytes, resources)
    })
}

/// Measures the rates of one thread on the drives.
pub(crate) fn bench(
    drives_file: &Path,
    seconds: f64,
    size: &str,
    run: &Run,
) -> Result<Vec<MeasuredReply>> {
    let file_bytes = units::parse_bytes(size)?;
    with_volume(drives_file, run, |volume, resources, _| {
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
