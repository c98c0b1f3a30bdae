//! The physical drive below a file system, for plans.
//!
//! Contract: [`physical_drive`] gives two file systems the same number if the kernel reports that
//! they are on one drive. Such file systems are partitions of a disk, and volumes of the device
//! mapper on one device. The numbers come from `/sys/dev/block`. A file system without a block
//! device of its own (btrfs, tmpfs, network) keeps its own number. A loop device counts as a drive
//! of its own, whichever drive holds its file.

use std::fs;
use std::path::{Path, PathBuf};

/// Largest number of devices on top of each other.
const DEPTH_MAX: usize = 8;

/// The directory to which the links of `path` lead, or the directory of the file to which they
/// lead; `None` if the path does not exist.
pub fn real_dir(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    match real.is_dir() {
        true => Some(real),
        false => real.parent().map(Path::to_path_buf),
    }
}

/// The number of the physical drive that holds the file system with this device number.
pub fn physical_drive(file_system: u64) -> u64 {
    drive_in(Path::new("/sys/dev/block"), file_system)
}

/// Like [`physical_drive`], but in another directory of devices.
fn drive_in(devices: &Path, file_system: u64) -> u64 {
    let (major, minor) = (
        rustix::fs::major(file_system),
        rustix::fs::minor(file_system),
    );
    let Ok(mut device) = fs::canonicalize(devices.join(format!("{major}:{minor}"))) else {
        return file_system;
    };
    for _ in 0..DEPTH_MAX {
        match below(&device) {
            Some(lower) => device = lower,
            None => break,
        }
    }
    number_of(&device).unwrap_or(file_system)
}

/// The device that holds a partition, or the only device of a mapped one.
fn below(device: &Path) -> Option<PathBuf> {
    if device.join("partition").exists() {
        return device.parent().map(Path::to_path_buf);
    }
    let mut slaves = fs::read_dir(device.join("slaves")).ok()?;
    let only = slaves.next()?.ok()?;
    match slaves.next() {
        None => fs::canonicalize(only.path()).ok(),
        Some(_) => None,
    }
}

/// The number in the file `dev` of a device.
fn number_of(device: &Path) -> Option<u64> {
    let text = fs::read_to_string(device.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(rustix::fs::makedev(
        major.parse().ok()?,
        minor.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn partitions_and_mapped_volumes_are_on_the_drive_below_them() {
        let home = tempfile::tempdir().unwrap();
        let all = home.path();
        let device = |name: &str, number: &str| {
            let dir = all.join("devices").join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
            symlink(&dir, all.join(number)).unwrap();
            dir
        };
        let disk = device("sda", "8:0");
        for (name, number) in [("sda/sda1", "8:1"), ("sda/sda2", "8:2")] {
            fs::write(device(name, number).join("partition"), "1").unwrap();
        }
        let mapped = device("dm-0", "253:0");
        fs::create_dir(mapped.join("slaves")).unwrap();
        symlink(disk.join("sda1"), mapped.join("slaves/sda1")).unwrap();
        let two = device("dm-1", "253:1");
        fs::create_dir(two.join("slaves")).unwrap();
        symlink(disk.join("sda1"), two.join("slaves/sda1")).unwrap();
        symlink(&mapped, two.join("slaves/dm-0")).unwrap();
        let number = |major, minor| rustix::fs::makedev(major, minor);
        for (of, drive) in [
            (number(8, 1), number(8, 0)),
            (number(8, 2), number(8, 0)),
            (number(8, 0), number(8, 0)),
            (number(253, 0), number(8, 0)),
            (number(253, 1), number(253, 1)),
            (number(7, 3), number(7, 3)),
        ] {
            assert_eq!(drive_in(all, of), drive);
        }
    }
}
