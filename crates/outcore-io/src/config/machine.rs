//! The resources that this machine, or the surrounding container, lets a job use by default.
//!
//! Contract: reads a few small files under `/proc` and `/sys/fs/cgroup`. A file that cannot be read
//! is skipped; it is never an error. Memory is the smallest of three kinds of limits: the kernel's
//! available memory, the rest of this process's address space, and the limits of its control groups
//! (version 1 or 2) up to the root. Threads follow affinity masks and processor quotas.

use std::fs;
use std::path::Path;

/// Smallest default memory: with less, the engine works poorly.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;

/// Values for settings that have no source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Memory a job may use: half of the memory that is free for this process.
    pub memory_bytes: u64,
    /// Compute threads.
    pub threads: usize,
}

impl Defaults {
    /// The defaults of this machine.
    pub fn of_machine() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        Defaults {
            memory_bytes: default_memory_bytes(Path::new("/")),
            threads,
        }
    }
}

/// The memory that is free for this process, if the system reports it.
pub fn free_memory_bytes() -> Option<u64> {
    ours_bytes(Path::new("/"))
}

fn ours_bytes(root: &Path) -> Option<u64> {
    let limits = [
        available_bytes(root),
        address_bytes(root),
        cgroup_limit_bytes(root),
    ];
    limits.into_iter().flatten().min()
}

/// Half of the memory that this process may use, in whole MiB; `root` replaces `/` in tests.
fn default_memory_bytes(root: &Path) -> u64 {
    let ours_bytes = ours_bytes(root).unwrap_or(2 * MEMORY_BYTES_LEAST);
    let half_bytes = (ours_bytes / 2) >> 20 << 20;
    half_bytes.max(MEMORY_BYTES_LEAST)
}

/// `MemAvailable` of `/proc/meminfo`.
fn available_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The unused part of this process's address space (`ulimit -v`); `None` without a limit.
fn address_bytes(root: &Path) -> Option<u64> {
    let limits = fs::read_to_string(root.join("proc/self/limits")).ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    let limit_bytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = fs::read_to_string(root.join("proc/self/status")).ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmSize:"))?;
    let used_kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(limit_bytes.saturating_sub(used_kib << 10))
}

/// The smallest memory limit of the control groups that this process is in.
fn cgroup_limit_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = root.join("sys/fs/cgroup");
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            if controllers.is_empty() {
                return least_limit(&mounts, path, "memory.max");
            }
            let is_memory = controllers.split(',').any(|name| name == "memory");
            let limit = || least_limit(&mounts.join("memory"), path, "memory.limit_in_bytes");
            is_memory.then(limit).flatten()
        })
        .min()
}

/// The smallest limit in `file` from the group at `path` up to the mount. In a container, the path
/// may be one of the host that does not exist in the container. The mount itself is then the group.
fn least_limit(mount: &Path, path: &str, file: &str) -> Option<u64> {
    let group = mount.join(path.trim_start_matches('/'));
    group
        .ancestors()
        .take_while(|dir| dir.starts_with(mount))
        .filter_map(|dir| fs::read_to_string(dir.join(file)).ok())
        .filter_map(|text| text.trim().parse::<u64>().ok())
        // Version 1 says "no limit" with a number near 2^63, version 2 with the word "max".
        .filter(|limit_bytes| *limit_bytes < 1 << 60)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn this_machine_has_defaults() {
        let defaults = Defaults::of_machine();
        assert!(defaults.threads >= 1);
        assert!(defaults.memory_bytes >= MEMORY_BYTES_LEAST);
    }

    #[test]
    fn a_limit_of_the_address_space_counts_as_memory() {
        let root = tempfile::tempdir().unwrap();
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
             Max address space         4294967296           unlimited            bytes     \n";
        put(root.path(), "proc/meminfo", "MemAvailable:    9000000 kB\n");
        put(root.path(), "proc/self/limits", limits);
        put(
            root.path(),
            "proc/self/status",
            "Name:\tx\nVmSize:\t 1048576 kB\n",
        );
        assert_eq!(ours_bytes(root.path()), Some(3 << 30));
        let unlimited = limits.replace("4294967296", "unlimited");
        put(root.path(), "proc/self/limits", &unlimited);
        assert_eq!(ours_bytes(root.path()), Some(9_000_000 << 10));
    }

    #[test]
    fn memory_is_half_of_what_is_available() {
        let root = tempfile::tempdir().unwrap();
        put(
            root.path(),
            "proc/meminfo",
            "MemTotal: 9000000 kB\nMemAvailable:    4194304 kB\n",
        );
        assert_eq!(default_memory_bytes(root.path()), 2 << 30);
    }

    #[test]
    fn a_container_limit_of_either_version_counts_and_the_parents_limits_too() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/meminfo", "MemAvailable: 67108864 kB\n");
        put(root.path(), "proc/self/cgroup", "0::/a/b\n");
        put(root.path(), "sys/fs/cgroup/a/b/memory.max", "max\n");
        put(root.path(), "sys/fs/cgroup/a/memory.max", "1073741824\n");
        assert_eq!(default_memory_bytes(root.path()), 512 << 20);

        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/meminfo", "MemAvailable: 67108864 kB\n");
        put(
            root.path(),
            "proc/self/cgroup",
            "9:cpu:/x\n5:memory,hugetlb:/docker/77\n",
        );
        put(
            root.path(),
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "536870912\n",
        );
        assert_eq!(default_memory_bytes(root.path()), 256 << 20);
        put(
            root.path(),
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(default_memory_bytes(root.path()), 32 << 30);
    }

    #[test]
    fn a_machine_without_proc_still_gets_a_working_default() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(default_memory_bytes(root.path()), MEMORY_BYTES_LEAST);
    }
}
