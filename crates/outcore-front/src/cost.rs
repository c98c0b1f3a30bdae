//! Resources that a run used (processor, memory, traffic), and its share of the drives' bandwidth.
//!
//! Contract: processor time is the user and system time of all threads of the process; memory is
//! the largest resident size so far. Both are read from the kernel on request; nothing is sampled.
//!
//! [`bandwidth_fraction`] is the number of bytes moved divided by the number that the drives could
//! have moved. It is computed as the time of all reads and writes at the measured total bandwidth,
//! divided by the wall time (for equal read and write bandwidth B: bytes / (seconds x B)). Drives
//! of one group share the group's ceiling. The result is `None` unless every drive with traffic has
//! been measured.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use outcore::DriveTraffic;
use outcore_io::config::{DriveSet, DriveSpec, GroupSpec};
use outcore_io::drive::paths;
use rustix::time::{ClockId, clock_gettime};

/// User and system time of this process.
pub fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Bytes that the kernel has read and written for this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTraffic {
    /// Bytes read from drives.
    pub read_bytes: u64,
    /// Bytes written to drives.
    pub written_bytes: u64,
}

impl ProcessTraffic {
    /// The bytes so far; zeros if the kernel does not count them.
    pub fn so_far() -> Self {
        let text = of_kernel("io").unwrap_or_default();
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name))?;
            value.trim().parse().ok()
        };
        ProcessTraffic {
            read_bytes: field("read_bytes:").unwrap_or(0),
            written_bytes: field("write_bytes:").unwrap_or(0),
        }
    }
}

/// The kernel's report about this process in the file `name`.
fn of_kernel(name: &str) -> Option<String> {
    paths::system_text(format!("/proc/self/{name}"))
}

/// Largest resident size of this process so far; `None` if the kernel does not report it.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = of_kernel("status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The share of the bandwidth of the drives in `set` that `traffic` used in `seconds`.
pub fn bandwidth_fraction(traffic: &[DriveTraffic], seconds: f64, set: &DriveSet) -> Option<f64> {
    let used: Vec<&DriveTraffic> = traffic
        .iter()
        .filter(|drive| drive.read_bytes + drive.written_bytes > 0)
        .collect();
    let is_measured = |drive: &&DriveTraffic| {
        spec_of(&drive.name, set)
            .is_some_and(|spec| spec.read_bytes_per_s.is_some() && spec.write_bytes_per_s.is_some())
    };
    if used.is_empty() || !used.iter().all(is_measured) || seconds <= 0.0 {
        return None;
    }
    let read_bytes: u64 = used.iter().map(|drive| drive.read_bytes).sum();
    let written_bytes: u64 = used.iter().map(|drive| drive.written_bytes).sum();
    let read_rate = total_rate(
        set,
        |drive| drive.read_bytes_per_s,
        |group| group.read_bytes_per_s,
    );
    let write_rate = total_rate(
        set,
        |drive| drive.write_bytes_per_s,
        |group| group.write_bytes_per_s,
    );
    Some((read_bytes as f64 / read_rate + written_bytes as f64 / write_rate) / seconds)
}

/// The drive that the engine calls `name`: a name in the set, or a directory on a file system that
/// holds one of the set's directories.
fn spec_of<'a>(name: &str, set: &'a DriveSet) -> Option<&'a DriveSpec> {
    let file_system = |dir: &Path| paths::facts(dir).ok().map(|facts| facts.dev());
    let by_name = set.drives.iter().find(|spec| spec.name == name);
    by_name.or_else(|| {
        let here = file_system(Path::new(name))?;
        set.drives
            .iter()
            .find(|spec| file_system(&spec.dir) == Some(here))
    })
}

/// Sum of the rates of all drives; each group counts at most its ceiling.
fn total_rate(
    set: &DriveSet,
    rate_of: impl Fn(&DriveSpec) -> Option<u64>,
    ceiling_of: impl Fn(&GroupSpec) -> Option<u64>,
) -> f64 {
    let rate = |drive: &DriveSpec| rate_of(drive).unwrap_or(0) as f64;
    let is_grouped = |drive: &DriveSpec| {
        let known = |name: &String| set.groups.iter().any(|group| group.name == *name);
        drive.group.as_ref().is_some_and(known)
    };
    let alone: f64 = set
        .drives
        .iter()
        .filter(|drive| !is_grouped(drive))
        .map(rate)
        .sum();
    let grouped: f64 = set
        .groups
        .iter()
        .map(|group| {
            let members = set
                .drives
                .iter()
                .filter(|drive| drive.group.as_deref() == Some(group.name.as_str()));
            let sum: f64 = members.map(rate).sum();
            match ceiling_of(group) {
                Some(ceiling) => sum.min(ceiling as f64),
                None => sum,
            }
        })
        .sum();
    alone + grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(name: &str, rate: Option<u64>, group: Option<&str>) -> DriveSpec {
        DriveSpec {
            name: name.to_string(),
            read_bytes_per_s: rate,
            write_bytes_per_s: rate,
            group: group.map(str::to_string),
            ..DriveSpec::from_dir("x")
        }
    }

    fn traffic(name: &str, read_bytes: u64, written_bytes: u64) -> DriveTraffic {
        DriveTraffic {
            name: name.to_string(),
            read_bytes,
            written_bytes,
        }
    }

    #[test]
    fn the_fraction_is_bytes_over_time_times_the_sum_of_the_bandwidths() {
        let set = DriveSet {
            drives: vec![drive("a", Some(100), None), drive("b", Some(300), None)],
            groups: Vec::new(),
        };
        let used = [
            traffic("a", 100, 100),
            traffic("b", 300, 300),
            traffic("c", 0, 0),
        ];
        assert_eq!(bandwidth_fraction(&used, 4.0, &set), Some(0.5));
        assert_eq!(
            bandwidth_fraction(&[traffic("c", 1, 0)], 4.0, &set),
            None,
            "not measured"
        );
        assert_eq!(bandwidth_fraction(&[], 4.0, &set), None);
    }

    #[test]
    fn a_group_counts_with_its_ceiling() {
        let set = DriveSet {
            drives: vec![
                drive("a", Some(100), Some("g")),
                drive("b", Some(100), Some("g")),
            ],
            groups: vec![GroupSpec {
                name: "g".to_string(),
                read_bytes_per_s: Some(100),
                write_bytes_per_s: None,
                depth: None,
            }],
        };
        let used = [traffic("a", 100, 0)];
        assert_eq!(bandwidth_fraction(&used, 2.0, &set), Some(0.5));
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        assert!(cpu_seconds() > 0.0);
        assert!(peak_rss_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
