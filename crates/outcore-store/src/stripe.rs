//! How a striped volume is laid out and served, and its drives once they are open.
//!
//! Contract: values only; [`crate::striped`] opens drives, and `serving` serves them.

use std::path::PathBuf;
use std::sync::Arc;

use outcore_io::drive::queue::{Policy, TagPool};
use outcore_io::drive::{FileId, QueueLimits};

/// Stripes where nobody says otherwise.
pub(crate) const STRIPE_BYTES_DEFAULT: u64 = 64 << 10;
/// Slots of a drive that background writes leave to others.
pub(crate) const RESERVED_SLOTS: usize = 4;

/// When drives are served by threads of the volume rather than by those that submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Servers {
    /// Never: each submitter serves what it submits.
    Never,
    /// Above the low mark, while the submitting thread is the bound, cores idle and it brings
    /// something.
    #[default]
    Auto,
    /// Above the low mark, by this many threads, at most one per drive (for tests and
    /// measurements).
    Always(usize),
}

/// When a submitter is told to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackPressure {
    /// Requests of one drive at which it takes no more.
    pub high: usize,
    /// Requests at which it goes on.
    pub low: usize,
}

/// How a volume is laid out and served.
#[derive(Debug, Clone)]
pub struct StripeOptions {
    /// A power of two from 4 KiB to 4 MiB.
    pub stripe_bytes: u64,
    /// The drive that holds the first stripe, modulo their number.
    pub start_drive: usize,
    /// Longest merged transfer; what the drive takes, if not given or more.
    pub merge_bytes_max: Option<usize>,
    /// Whether neighbours are merged and runs sorted at all (to measure what it brings).
    pub is_merging: bool,
    /// For each drive.
    pub drive_pressure: BackPressure,
    /// For the volume, in requests of one submitter before splitting; 16 and 32 a drive if not
    /// given. Up to the low mark a submitter serves by itself, whatever [`StripeOptions::servers`]
    /// says.
    pub volume_pressure: Option<BackPressure>,
    /// Whether threads of the volume serve above the low mark.
    pub servers: Servers,
}

impl Default for StripeOptions {
    fn default() -> Self {
        StripeOptions {
            stripe_bytes: STRIPE_BYTES_DEFAULT,
            start_drive: 0,
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
    /// For messages and reports.
    pub name: String,
    /// Its file or device.
    pub path: PathBuf,
    /// The same, open.
    pub file: FileId,
    /// Bytes that the volume may use.
    pub capacity_bytes: u64,
    /// Share of the stripes.
    pub weight: f64,
    /// What its queue in the kernel takes.
    pub limits: QueueLimits,
    /// Longest transfer: longer pieces are cut, neighbours are merged up to it.
    pub transfer_bytes_max: usize,
    /// Its slots.
    pub tags: Arc<TagPool>,
    /// Those of its controller.
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
