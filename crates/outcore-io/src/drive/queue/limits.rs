//! Limits of a drive's block queue in the kernel: depth and length of a request.
//!
//! Contract: read from `/sys/dev/block/MAJ:MIN/queue` (documented in the kernel's
//! Documentation/ABI/stable/sysfs-block). A drive without such a directory (btrfs, tmpfs, network)
//! gets cautious defaults. With more requests than `nr_requests`, the kernel would park submissions
//! on worker threads. The kernel would also split longer requests, so one slot here would take
//! several of its slots.

use std::fs;
use std::path::Path;

use crate::memory::BLOCK_BYTES;

/// Longest merged transfer.
pub(crate) const MERGE_BYTES_MAX: usize = 512 << 10;
/// Slots of a drive that reports no limit.
pub const TAGS_DEFAULT: usize = 32;
/// Largest number of slots of a drive.
pub(crate) const TAGS_MAX: usize = 128;

/// Limits of one drive's queue in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Requests that the queue holds.
    pub requests_max: usize,
    /// Memory segments per request.
    pub segments_max: usize,
    /// Longest request.
    pub transfer_bytes_max: usize,
    /// The NUMA node of the drive, if it is known.
    pub numa_node: Option<usize>,
}

impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits {
            requests_max: TAGS_MAX,
            segments_max: MERGE_BYTES_MAX / BLOCK_BYTES,
            transfer_bytes_max: MERGE_BYTES_MAX,
            numa_node: None,
        }
    }
}

impl QueueLimits {
    /// Limits of the block device `major:minor`.
    pub(crate) fn of_device(major: u32, minor: u32) -> Self {
        let device = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
        // A partition has no queue of its own.
        let owner = match device.join("queue").is_dir() {
            true => device,
            false => device.join(".."),
        };
        let read = |name: &str| -> Option<usize> {
            let text = fs::read_to_string(owner.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let known = QueueLimits::default();
        let at_least_one = |value: Option<usize>, known| value.filter(|v| *v > 0).unwrap_or(known);
        QueueLimits {
            requests_max: at_least_one(read("queue/nr_requests"), known.requests_max),
            segments_max: at_least_one(read("queue/max_segments"), known.segments_max),
            transfer_bytes_max: at_least_one(
                read("queue/max_sectors_kb").map(|kib| kib << 10),
                known.transfer_bytes_max,
            ),
            numa_node: read("device/numa_node"),
        }
    }

    /// Longest merged transfer that is still one request of the kernel.
    pub fn merge_bytes_max(&self) -> usize {
        let by_segments = self.segments_max.saturating_mul(BLOCK_BYTES);
        by_segments
            .min(self.transfer_bytes_max)
            .clamp(BLOCK_BYTES, MERGE_BYTES_MAX)
    }

    /// Largest useful number of slots.
    pub fn tags_max(&self) -> usize {
        self.requests_max.min(TAGS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_of_a_merge_is_the_smallest_of_the_three() {
        let limits = |segments_max, transfer_bytes_max, requests_max| QueueLimits {
            requests_max,
            segments_max,
            transfer_bytes_max,
            numa_node: None,
        };
        assert_eq!(limits(128, 1 << 20, 256).merge_bytes_max(), 512 << 10);
        assert_eq!(limits(33, 1 << 20, 64).merge_bytes_max(), 33 * 4096);
        assert_eq!(limits(128, 64 << 10, 64).merge_bytes_max(), 64 << 10);
        assert_eq!(limits(128, 64 << 10, 64).tags_max(), 64);
        assert_eq!(limits(128, 64 << 10, 1023).tags_max(), 128);
        assert_eq!(QueueLimits::of_device(0, 12345), QueueLimits::default());
    }
}
