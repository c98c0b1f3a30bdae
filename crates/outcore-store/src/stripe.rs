//! Options for the layout and service of a striped volume, and its open drives.
//!
//! Contract: values only; [`crate::striped`] opens drives, and `serving` serves them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::mapping::Redundancy;
use outcore_io::drive::queue::{Policy, TagPool};
use outcore_io::drive::{FileId, QueueLimits};

/// Placeholder for the file of an absent drive: no device has this many files. Transfers to it fail
/// with `ENODEV`.
pub(crate) const ABSENT: FileId = FileId(u32::MAX);
/// Default stripe.
pub(crate) const STRIPE_BYTES_DEFAULT: u64 = 64 << 10;
/// Slots of a drive that background writes leave to others.
pub(crate) const RESERVED_SLOTS: usize = 4;

/// When threads of the volume serve drives instead of the submitting threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Servers {
    /// Never: each submitter serves its own requests.
    Never,
    /// Above the low mark, while the submitting thread is the bottleneck, cores are idle and
    /// servers help.
    #[default]
    Auto,
    /// Above the low mark, by this many threads, at most one per drive (for tests and
    /// measurements).
    Always(usize),
}

/// When a submitter must wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackPressure {
    /// Number of requests of one drive at which it accepts no more.
    pub high: usize,
    /// Number of requests at which it continues.
    pub low: usize,
}

/// How a volume is laid out and served.
#[derive(Debug, Clone)]
pub struct StripeOptions {
    /// A power of two from 4 KiB to 4 MiB.
    pub stripe_bytes: u64,
    /// The drive of the first stripe, modulo the number of drives.
    pub start_drive: usize,
    /// Whether the layout has room for parity, which the caller writes, at addresses behind all
    /// data.
    pub redundancy: Redundancy,
    /// Longest merged transfer; by default, and at most, the drive's limit.
    pub merge_bytes_max: Option<usize>,
    /// Whether adjacent pieces are merged and runs sorted (off to measure the effect).
    pub is_merging: bool,
    /// Back-pressure per drive.
    pub drive_pressure: BackPressure,
    /// Back-pressure for the volume, in requests of one submitter before splitting; by default 16
    /// and 32 per drive. Up to the low mark a submitter serves its own requests, whatever
    /// [`StripeOptions::servers`] says.
    pub volume_pressure: Option<BackPressure>,
    /// Whether threads of the volume serve above the low mark.
    pub servers: Servers,
}

impl Default for StripeOptions {
    fn default() -> Self {
        StripeOptions {
            stripe_bytes: STRIPE_BYTES_DEFAULT,
            start_drive: 0,
            redundancy: Redundancy::None,
            merge_bytes_max: None,
            is_merging: true,
            drive_pressure: BackPressure { high: 64, low: 32 },
            volume_pressure: None,
            servers: Servers::Auto,
        }
    }
}

/// An open drive of a volume.
#[derive(Debug, Clone)]
pub struct StripedDrive {
    /// The name in messages and reports.
    pub name: String,
    /// Its file or device.
    pub path: PathBuf,
    /// Its open file.
    pub file: FileId,
    /// Bytes that the volume may use.
    pub capacity_bytes: u64,
    /// Share of the stripes.
    pub weight: f64,
    /// Limits of its queue in the kernel.
    pub limits: QueueLimits,
    /// Longest transfer: longer pieces are split, and adjacent pieces are merged up to this length.
    pub transfer_bytes_max: usize,
    /// Its slots.
    pub tags: Arc<TagPool>,
    /// The slots of its controller.
    pub controller_tags: Option<Arc<TagPool>>,
}

impl StripedDrive {
    pub(super) fn policy(&self, is_merging: bool) -> Policy {
        if !is_merging {
            return Policy::AS_IT_COMES;
        }
        Policy {
            merge_bytes_max: self.transfer_bytes_max,
            segments_max: self.limits.segments_max,
            reserved_slots: RESERVED_SLOTS.min(self.tags.limit() / 2),
            sorts: true,
        }
    }
}

/// The same drives with free slots of their own, as many as before; drives of one controller share
/// its slots as before.
pub(crate) fn with_own_slots(drives: &[StripedDrive]) -> Vec<StripedDrive> {
    let anew = |pool: &Arc<TagPool>| Arc::new(TagPool::new(pool.limit()));
    let mut controllers: Vec<(&Arc<TagPool>, Arc<TagPool>)> = Vec::new();
    let mut own = Vec::with_capacity(drives.len());
    for drive in drives {
        let controller_tags = drive.controller_tags.as_ref().map(|shared| {
            let known = controllers.iter().find(|(old, _)| Arc::ptr_eq(old, shared));
            let known = known.map(|(_, pool)| Arc::clone(pool));
            known.unwrap_or_else(|| {
                let pool = anew(shared);
                controllers.push((shared, Arc::clone(&pool)));
                pool
            })
        });
        own.push(StripedDrive {
            tags: anew(&drive.tags),
            controller_tags,
            ..drive.clone()
        });
    }
    own
}
