//! The maximum submission rate of threads: a volume over null devices, whose requests complete
//! immediately.
//!
//! Contract: in-process. Every request goes through the volume: it is mapped, queued at its drive,
//! given a slot, and completed at the next poll without moving data. The remaining cost is the
//! processor's time per request, which bounds what one thread can get from any number of drives.
//! Several threads either have one submitter each and share the drives' slots, or one thread passes
//! all requests to server threads of the volume. Source: Falcon (ATC 2017) reports 3.7 GB/s of 4
//! KiB requests on a null block device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outcore::{Error, Result};
use outcore_io::drive::{
    Access, Completion, Device, FileFacts, FileId, FileSystem, PrivateDir, Queue, Request,
};
use outcore_io::units::Unit;
use outcore_store::striped::{BackPressure, Member, Servers, StripeOptions, StripedVolume};

use super::field::Field;
use super::striped::{ReadLoad, open_wide, reads};
use super::sweeps::{SMALL_BYTES, SMALL_DEPTH};
use crate::load::in_threads;
use crate::watch::Watch;
use outcore_report::{Cell, Section, Table};

/// Rate of 4 KiB requests in the paper.
const PAPER_BYTES_PER_S: f64 = 3.7e9;
const OPERATION: &str = "measure the submitter";
/// Bytes of each file; large enough for every request.
const FILE_BYTES: u64 = 1 << 40;

/// Drives that complete immediately and move no data. Each file is a drive of its own.
#[derive(Debug)]
struct NullDevice {
    start: Instant,
    files: Mutex<HashMap<PathBuf, FileId>>,
}

impl Default for NullDevice {
    fn default() -> Self {
        NullDevice {
            start: Instant::now(),
            files: Mutex::default(),
        }
    }
}

impl FileSystem for NullDevice {
    fn open(&self, path: &Path, _access: Access) -> Result<FileId> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let next = FileId(files.len() as u32);
        Ok(*files.entry(path.to_path_buf()).or_insert(next))
    }

    fn close(&self, _file: FileId) {}

    fn facts(&self, file: FileId) -> Result<FileFacts> {
        Ok(FileFacts {
            len_bytes: FILE_BYTES,
            file_system: u64::from(file.0),
            inode: u64::from(file.0),
            modified_ns: 0,
            changed_ns: 0,
            is_direct: true,
            is_in_memory: false,
        })
    }

    fn set_len(&self, _file: FileId, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, _file: FileId, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn punch(&self, _file: FileId, _offset_bytes: u64, _len_bytes: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self, _file: FileId) -> Result<()> {
        Ok(())
    }

    fn rename(&self, _from: &Path, _to: &Path, _replace: bool) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> Result<u64> {
        Ok(FILE_BYTES)
    }

    fn file_system(&self, _dir: &Path) -> Result<u64> {
        Ok(0)
    }

    fn make_private_dir(&self, parent: &Path) -> Result<PrivateDir> {
        Err(Error::usage(OPERATION, "a null device has no directories").path(parent))
    }

    fn reopen_private_dir(&self, _path: &Path) -> Result<Option<PrivateDir>> {
        Ok(None)
    }

    fn sweep_private_dirs(&self, _parent: &Path) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

impl Device for NullDevice {
    fn queue(&self, _depth_max: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(NullQueue(Vec::new())))
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

struct NullQueue(Vec<Completion>);

impl Queue for NullQueue {
    fn submit(&mut self, request: Request) {
        let bytes = request.buf.len();
        self.0.push(Completion {
            request,
            result: Ok(bytes),
        });
    }

    fn complete(&mut self, _wait: Option<Duration>, done: &mut Vec<Completion>) -> Result<()> {
        done.append(&mut self.0);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.0.len()
    }
}

/// Requests per second that `threads` threads, each with a submitter, get through a volume of
/// `drives` null drives. `servers` threads of the volume serve it, if that is not 0.
fn submit_for(
    drives: usize,
    threads: usize,
    servers: usize,
    limit_s: f64,
    watch: Watch<'_>,
) -> Result<f64> {
    let members: Vec<Member> = (0..drives).map(|at| Member::new(at.to_string())).collect();
    let in_flight = drives * SMALL_DEPTH as usize;
    let device: Arc<dyn Device> = Arc::new(NullDevice::default());
    let options = StripeOptions {
        // Half of the requests in flight go in one batch, which is above the low mark.
        volume_pressure: Some(BackPressure {
            high: in_flight + 1,
            low: in_flight / 2,
        }),
        servers: match servers {
            0 => Servers::Never,
            count => Servers::Always(count),
        },
        ..open_wide(in_flight)
    };
    let volume = StripedVolume::open(device, &members, options)?;
    let load = ReadLoad {
        is_random: true,
        block_bytes: SMALL_BYTES,
        in_flight,
        limit_s,
    };
    let seen = in_threads(threads, |_| reads(&volume, load, watch));
    seen.into_iter()
        .try_fold(0.0, |sum, seen| Ok(sum + seen?.requests_per_s()))
}

/// The report's section.
pub(super) fn one_submitter(field: &Field<'_>) -> Result<Section> {
    let mut section = Section::new(
        "null",
        "One submitting thread",
        "4 KiB requests from one thread through the volume to a null device, whose requests complete at \
         once: the maximum rate that the processor allows. Falcon (USENIX ATC 2017) reports 3.7 GB/s on \
         a null block device, kernel included. The rows with servers pass every request to server \
         threads of the volume and so show what that costs. The last row has one submitting thread per \
         processor: it shows what can be gained where a single thread is the bottleneck.",
    );
    let mut table = Table::new(
        "null",
        "Submission overhead (null device)",
        &[
            ("drives", Unit::Count),
            ("threads", Unit::Count),
            ("servers", Unit::Count),
            ("requests", Unit::Iops),
            ("rate of 4 KiB", Unit::BytesPerS),
            ("thread time per request", Unit::Seconds),
            ("relative to Falcon", Unit::Times),
        ],
    );
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let others = (all - 1).clamp(1, 4);
    for (drives, threads, servers) in [(1, 1, 0), (8, 1, 0), (8, 1, others), (8, all, 0)] {
        if !field.step() {
            continue;
        }
        field.watch().say("submission overhead on the null device");
        let limit_s = field.step_s().min(1.0);
        let rate = submit_for(drives, threads, servers, limit_s, field.watch())?;
        table.row([
            Cell::from(drives as f64),
            (threads as f64).into(),
            (servers as f64).into(),
            rate.into(),
            (rate * SMALL_BYTES as f64).into(),
            ((threads + servers) as f64 / rate).into(),
            (rate * SMALL_BYTES as f64 / PAPER_BYTES_PER_S).into(),
        ]);
    }
    section.tables.push(table);
    Ok(section)
}
