//! The target of a measurement: a file of our own in a directory, an existing file, or a block
//! device.
//!
//! Contract:
//! - In a directory, the measurement makes a file inside a private directory. Dropping the
//!   [`Target`] removes both, however the run ends; the next run removes the remains of a killed
//!   run.
//! - An existing file is only read.
//! - A block device is rejected while it is mounted, held or used for swap. It is written only if
//!   its first and last MiB are empty, and never in these, so that no data is lost and the device
//!   may be measured again.
//! - All writes need consent ([`Consent`]).
//!
//! Bounds: a file of our own uses at most a quarter of the free space.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::{Error, Kind, Result};
use outcore_io::config::DriveSet;
use outcore_io::drive::load::FileRange;
use outcore_io::drive::paths;
use outcore_io::drive::{Access, Device, FileFacts, FileId, PrivateDir};
use outcore_io::units;

const OPERATION: &str = "choose what to measure";
/// Bytes at the beginning and at the end of a device that are never written.
const DEVICE_EDGE_BYTES: u64 = 1 << 20;
/// Below this size a measurement is meaningless.
const FILE_BYTES_MIN: u64 = 4 << 20;
/// Signatures that identify the owner of a device: name, place, bytes.
const SIGNATURES: [(&str, usize, &[u8]); 9] = [
    ("an ext file system", 1080, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 65_600, b"_BHRfS_M"),
    ("an encrypted volume (LUKS)", 0, b"LUKS\xba\xbe"),
    ("an LVM volume", 512, b"LABELONE"),
    ("a RAID member (md)", 4096, b"\xfc\x4e\x2b\xa9"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table", 510, b"\x55\xaa"),
];

/// Whether the measurement may write data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Only a file of our own is written, to be read later.
    ReadOnly,
    /// Files of our own and empty devices are overwritten.
    WriteOk,
    /// As `WriteOk`, but the caller opens the targets again through another engine device: a block
    /// device that is open for writing is exclusive.
    WriteElsewhere,
}

/// The kind of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A file of our own.
    Own,
    /// An existing file.
    File,
    /// A block device.
    BlockDevice,
}

/// One measured drive.
pub(crate) struct Target {
    /// Name for people.
    pub(crate) name: String,
    /// The directory, file or device that the user gave.
    pub(crate) named: PathBuf,
    /// The file that is read and written.
    pub(crate) path: PathBuf,
    /// Its kind.
    pub(crate) whose: Whose,
    /// Its length and other facts.
    pub(crate) facts: FileFacts,
    /// Whether it may be written.
    pub(crate) is_writable: bool,
    /// The range that is measured.
    pub(crate) place: FileRange,
    device: Arc<dyn Device>,
    _dir: Option<PrivateDir>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.device.close(self.place.file);
        if self.whose == Whose::Own {
            // On real file systems the private directory would remove the file anyway.
            let _ = self.device.remove(&self.path);
        }
    }
}

/// Opens the drives in `names`: directories, files, block devices, drives files (`.toml`).
///
/// # Errors
/// Usage: no name, a mounted device, a device with data of another program; no space; I/O.
pub(crate) fn open_all(
    device: &Arc<dyn Device>,
    names: &[PathBuf],
    file_bytes: u64,
    consent: Consent,
) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    let mut add = |name: String, path: &Path| -> Result<()> {
        let index = targets.len();
        let target = open(device, path, index, file_bytes, consent);
        let mut target = target.map_err(|error| error.drive(&name))?;
        target.name = name;
        targets.push(target);
        Ok(())
    };
    for name in names {
        let kind = paths::facts(name)
            .map_err(|error| {
                Error::io(OPERATION, &error)
                    .path(name)
                    .hint("name a directory on each drive, or a device")
            })?
            .file_type();
        let is_drives_file = name.extension().is_some_and(|end| end == "toml");
        if kind.is_dir() || is_drives_file {
            for spec in DriveSet::from_arguments(std::slice::from_ref(name))?.drives {
                add(spec.name.clone(), &spec.dir)?;
            }
        } else {
            let last = name.file_name().unwrap_or(name.as_os_str());
            add(last.to_string_lossy().into_owned(), name)?;
        }
    }
    if targets.is_empty() {
        return Err(Error::usage(OPERATION, "nothing was named")
            .hint("name a directory on each drive, or a device"));
    }
    // Targets of the same name would share a line in every table.
    for at in 1..targets.len() {
        if targets[..at]
            .iter()
            .any(|other| other.name == targets[at].name)
        {
            targets[at].name = targets[at].named.display().to_string();
        }
    }
    Ok(targets)
}

fn open(
    device: &Arc<dyn Device>,
    named: &Path,
    drive_index: usize,
    file_bytes: u64,
    consent: Consent,
) -> Result<Target> {
    let kind = paths::facts(named)
        .map_err(|error| Error::io(OPERATION, &error).path(named))?
        .file_type();
    let is_write_ok = consent != Consent::ReadOnly;
    let mut dir = None;
    let (path, whose, access) = if kind.is_dir() {
        device.sweep_private_dirs(named)?;
        let made = device.make_private_dir(named)?;
        let path = made.path().join("bench");
        dir = Some(made);
        (path, Whose::Own, Access::Create)
    } else if kind.is_block_device() {
        refuse_if_in_use(named)?;
        if is_write_ok {
            refuse_if_not_empty(named)?;
        }
        let access = match consent {
            Consent::WriteOk => Access::Update,
            Consent::ReadOnly | Consent::WriteElsewhere => Access::Read,
        };
        (named.to_path_buf(), Whose::BlockDevice, access)
    } else {
        (named.to_path_buf(), Whose::File, Access::Read)
    };
    let file = device.open(&path, access)?;
    let facts = device.facts(file)?;
    let mut target = Target {
        name: String::new(),
        named: named.to_path_buf(),
        path,
        whose,
        facts,
        is_writable: is_write_ok && whose != Whose::File,
        place: FileRange {
            file,
            drive_index,
            start_bytes: 0,
            span_bytes: 0,
        },
        device: Arc::clone(device),
        _dir: dir,
    };
    match whose {
        Whose::Own => target.allocate(file_bytes)?,
        Whose::File => target.place.span_bytes = target.facts.len_bytes,
        Whose::BlockDevice => {
            let len_bytes = block_device_bytes(named).unwrap_or(target.facts.len_bytes);
            target.place.start_bytes = DEVICE_EDGE_BYTES.min(len_bytes);
            let span_bytes = len_bytes.saturating_sub(DEVICE_EDGE_BYTES);
            target.place.span_bytes = match is_write_ok {
                true => span_bytes.saturating_sub(DEVICE_EDGE_BYTES).min(file_bytes),
                false => span_bytes,
            };
        }
    }
    if target.place.span_bytes < FILE_BYTES_MIN {
        let cause = format!(
            "{} bytes are not enough for a measurement",
            target.place.span_bytes
        );
        return Err(Error::usage(OPERATION, cause).path(named));
    }
    Ok(target)
}

impl Target {
    /// Makes room for a file of our own.
    fn allocate(&mut self, file_bytes: u64) -> Result<()> {
        if file_bytes < FILE_BYTES_MIN {
            let asked = units::bytes(file_bytes);
            let cause = format!("a file of {asked} is too small to measure with");
            let least = units::bytes_exact(FILE_BYTES_MIN);
            return Err(Error::usage(OPERATION, cause).hint(format!("use --size {least} or more")));
        }
        let free_bytes = self.device.free_bytes(&self.named)?;
        let len_bytes = file_bytes.min(free_bytes / 4) / FILE_BYTES_MIN * FILE_BYTES_MIN;
        if len_bytes < FILE_BYTES_MIN {
            let free = units::bytes(free_bytes);
            let cause = format!("only {free} are free, which is not enough for a measurement");
            return Err(Error::new(Kind::NoSpace, OPERATION, cause)
                .path(&self.named)
                .hint("free some space there"));
        }
        // Writes inside a file of full length run in parallel; writes at its end are serialised.
        self.device.allocate(self.place.file, len_bytes)?;
        self.place.span_bytes = len_bytes;
        Ok(())
    }

    /// Opens the same file through another engine device, in that device's mode.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn open_with(&self, device: &dyn Device) -> Result<FileId> {
        let access = match self.is_writable {
            true => Access::Update,
            false => Access::Read,
        };
        device.open(&self.path, access)
    }
}

fn block_device_bytes(path: &Path) -> Option<u64> {
    use std::io::{Seek, SeekFrom};
    std::fs::File::open(path)
        .and_then(|mut file| file.seek(SeekFrom::End(0)))
        .ok()
}

/// Fails if the block device or a partition of it is mounted, used for swap, or part of another
/// device.
fn refuse_if_in_use(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let stat = paths::facts(path).map_err(|error| Error::io(OPERATION, &error).path(path))?;
    let number = number_of(stat.rdev());
    let mut numbers = vec![number.clone()];
    let node = PathBuf::from(format!("/sys/dev/block/{number}"));
    let entries = paths::entries(&node).into_iter().flatten().flatten();
    for entry in entries {
        if entry.path().join("partition").exists() {
            let number = paths::system_text(entry.path().join("dev"));
            numbers.push(number.unwrap_or_default().trim().to_owned());
        }
    }
    let refuse = |cause: String| {
        Err(Error::usage(OPERATION, cause)
            .path(path)
            .hint("name a directory on it: a file is made there and removed again"))
    };
    let mounts = paths::system_text("/proc/self/mountinfo").unwrap_or_default();
    if let Some(place) = mounted_at(&mounts, &numbers) {
        return refuse(format!("the device is mounted at {place}"));
    }
    for number in &numbers {
        let holders = PathBuf::from(format!("/sys/dev/block/{number}/holders"));
        let holder = paths::entries(holders)
            .into_iter()
            .flatten()
            .flatten()
            .next();
        if let Some(holder) = holder {
            let name = holder.file_name().to_string_lossy().into_owned();
            return refuse(format!("the device is a part of {name}"));
        }
    }
    let swaps = paths::system_text("/proc/swaps").unwrap_or_default();
    let is_swap = swaps.lines().skip(1).any(|line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        let known = paths::facts(name).map(|stat| number_of(stat.rdev()));
        known.is_ok_and(|known| numbers.contains(&known))
    });
    if is_swap {
        return refuse("the system uses the device for swap".to_owned());
    }
    Ok(())
}

/// `major:minor` in the system's notation.
pub(super) fn number_of(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

/// The mount point of one of the devices, according to the text of `/proc/self/mountinfo`.
fn mounted_at<'a>(mounts: &'a str, numbers: &[String]) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let number = fields.next()?;
        numbers
            .iter()
            .any(|known| known == number)
            .then(|| fields.nth(1))?
    })
}

/// Fails if the beginning or the end of a device holds any data: some RAIDs and partition tables
/// are described at the end.
fn refuse_if_not_empty(path: &Path) -> Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    std::fs::File::open(path)
        .and_then(|mut file| {
            (&file).take(DEVICE_EDGE_BYTES).read_to_end(&mut head)?;
            let len_bytes = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(len_bytes.saturating_sub(DEVICE_EDGE_BYTES)))?;
            file.read_to_end(&mut tail)
        })
        .map_err(|error| Error::io(OPERATION, &error).path(path))?;
    let at_end = || {
        tail.iter()
            .any(|byte| *byte != 0)
            .then_some("data at its end")
    };
    match owner_of(&head).or_else(at_end) {
        None => Ok(()),
        Some(owner) => Err(
            Error::usage(OPERATION, format!("the device holds {owner}, and writing would destroy it"))
                .path(path)
                .hint("leave out --write-ok to read only; or, if nothing on it is needed, empty it with `blkdiscard -z`"),
        ),
    }
}

/// The likely owner of the beginning of a device; `None` if it is empty.
fn owner_of(head: &[u8]) -> Option<&'static str> {
    let is_there = |(_, at, bytes): &&(&str, usize, &[u8])| {
        head.get(*at..*at + bytes.len())
            .is_some_and(|found| found == *bytes)
    };
    match SIGNATURES.iter().find(is_there) {
        Some((name, _, _)) => Some(name),
        None => head.iter().any(|byte| *byte != 0).then_some("data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outcore::IoMode;
    use outcore_io::drive::os::OsDevice;

    fn device() -> Arc<dyn Device> {
        Arc::new(OsDevice::new(IoMode::Auto))
    }

    #[test]
    fn a_mounted_device_is_found_by_its_number_or_that_of_a_partition() {
        let mounts =
            "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n30 22 0:5 / /dev rw - devtmpfs none rw\n";
        let at = |numbers: &[&str]| {
            let numbers: Vec<String> = numbers.iter().map(|n| (*n).to_owned()).collect();
            mounted_at(mounts, &numbers)
        };
        assert_eq!(at(&["254:0", "254:1"]), Some("/"));
        assert_eq!(at(&["0:5"]), Some("/dev"));
        assert_eq!(at(&["254:0", "25:1"]), None);
    }

    #[test]
    fn an_empty_device_is_nobodys_and_every_other_has_an_owner() {
        let mut head = vec![0_u8; 1 << 20];
        assert_eq!(owner_of(&head), None);
        head[4096 + 77] = 1;
        assert_eq!(owner_of(&head), Some("data"));
        head[1080..1082].copy_from_slice(b"\x53\xef");
        assert_eq!(owner_of(&head), Some("an ext file system"));
        head[..4].copy_from_slice(b"XFSB");
        head[1080] = 0;
        assert_eq!(owner_of(&head), Some("an XFS file system"));
    }

    #[test]
    fn a_file_of_our_own_is_gone_afterwards_and_a_file_of_others_is_only_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("theirs");
        std::fs::write(&file, vec![7_u8; 5 << 20]).unwrap();
        let names = [dir.path().to_path_buf(), file.clone()];
        let targets = open_all(&device(), &names, 8 << 20, Consent::WriteOk).unwrap();
        let what: Vec<_> = targets.iter().map(|t| (t.whose, t.is_writable)).collect();
        assert_eq!(what, [(Whose::Own, true), (Whose::File, false)]);
        assert_eq!(targets[0].place.span_bytes, 8 << 20);
        assert_eq!(targets[1].place.span_bytes, 5 << 20);
        drop(targets);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read(&file).unwrap(), vec![7_u8; 5 << 20]);
    }

    #[test]
    fn nothing_named_missing_or_too_small_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let small = dir.path().join("small");
        std::fs::write(&small, [1]).unwrap();
        for names in [vec![], vec![dir.path().join("none")], vec![small]] {
            let error = open_all(&device(), &names, 8 << 20, Consent::ReadOnly);
            let error = error.err().unwrap();
            assert!(matches!(error.kind(), Kind::Usage | Kind::Io), "{error}");
        }
    }
}
