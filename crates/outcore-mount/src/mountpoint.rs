//! Mountpoints: removing the mount of a killed server, unmounting, guarding.
//!
//! Contract: touches only mounts of outcore. [`unmount`] and [`guard`] look in `/proc/self/mounts`
//! for the source name, which contains process and view. [`prepare`] removes a mount only if its
//! server is gone (`ENOTCONN`). A process without the right to unmount leaves it to `fusermount3`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outcore::{Error, Result};
use outcore_io::drive::paths;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Prefix of the source name of every mount of outcore.
const SOURCE: &str = "outcore-view";
/// How far the kernel reads ahead of a sequential reader.
const READ_AHEAD_KIB: &str = "1024";

/// The source name of a mount of this process.
pub(crate) fn source_name(view: &Path) -> String {
    let name = view.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let name: String = name.chars().filter(is_plain).collect();
    format!("{SOURCE}-{}-{name}", std::process::id())
}

/// The mountpoint as an absolute path: an empty directory, without a mount whose server is gone.
pub(crate) fn prepare(mountpoint: &Path) -> Result<PathBuf> {
    const OPERATION: &str = "use mountpoint";
    let absolute = std::path::absolute(mountpoint).unwrap_or_else(|_| mountpoint.into());
    let mut facts = paths::facts(&absolute);
    let is_dead =
        |error: &std::io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    // The kernel keeps returning cached attributes, but opening asks the server.
    let refused = paths::entries(&absolute).err();
    if facts.as_ref().is_err_and(is_dead) || refused.as_ref().is_some_and(is_dead) {
        detach(&absolute)?;
        facts = paths::facts(&absolute);
    }
    match facts {
        Ok(facts) if facts.is_dir() => {
            let named = |error: std::io::Error| Error::io(OPERATION, &error).path(mountpoint);
            match paths::entries(&absolute).map_err(named)?.next() {
                None => paths::real(&absolute).map_err(named),
                // The mount would hide its contents, which may be another view.
                Some(_) => Err(Error::usage(OPERATION, "it is not empty")
                    .path(mountpoint)
                    .hint("name an empty directory, or unmount what is there")),
            }
        }
        Ok(_) => Err(
            Error::usage(OPERATION, "the mount point is not a directory")
                .path(mountpoint)
                .hint("name an empty directory"),
        ),
        Err(error) => Err(Error::io(OPERATION, &error)
            .path(mountpoint)
            .hint("make the directory first")),
    }
}

/// Unmounts: new accesses fail at once, and the mount ends when the last file is closed.
pub(crate) fn unmount(mountpoint: &Path, source: &str) -> Result<()> {
    match is_mounted(mountpoint, source) {
        true => detach(mountpoint),
        false => Ok(()),
    }
}

/// Body of a guardian process: waits until its standard input ends, which happens when the server
/// ends, even if it is killed. Then unmounts if the mount is still there.
///
/// # Errors
/// The error of unmounting.
pub fn guard(mountpoint: &Path, source: &str) -> Result<()> {
    let mut ended = Vec::new();
    // An error also means the end.
    let _ = std::io::stdin().read_to_end(&mut ended);
    unmount(mountpoint, source)
}

/// Lets the kernel read further ahead, if it permits the setting.
pub(crate) fn read_ahead(mountpoint: &Path) {
    if let Ok(facts) = rustix::fs::stat(mountpoint) {
        let (major, minor) = (
            rustix::fs::major(facts.st_dev),
            rustix::fs::minor(facts.st_dev),
        );
        let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        // Without it reads are only slower.
        let _ = std::fs::write(path, READ_AHEAD_KIB);
    }
}

fn is_mounted(mountpoint: &Path, source: &str) -> bool {
    let mounts = paths::system_text("/proc/self/mounts").unwrap_or_default();
    let wanted = escaped(mountpoint);
    mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.next() == Some(source) && fields.next() == Some(wanted.as_str())
    })
}

/// A path as the kernel writes it in `/proc/self/mounts`.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for c in path.to_string_lossy().chars() {
        match c {
            ' ' | '\t' | '\n' | '\\' => text.push_str(&format!("\\{:03o}", c as u32)),
            c => text.push(c),
        }
    }
    text
}

fn detach(mountpoint: &Path) -> Result<()> {
    match rustix::mount::unmount(mountpoint, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => {
            let asked = Command::new("fusermount3")
                .args(["-u", "-z", "--"])
                .arg(mountpoint)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            match asked {
                Ok(status) if status.success() => Ok(()),
                _ => Err(Error::errno("unmount", errno.raw_os_error())
                    .path(mountpoint)
                    .hint("unmount it yourself: umount -l, or fusermount3 -u -z")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mounts_tell_process_and_view_and_paths_are_written_as_the_kernel_does() {
        let name = source_name(Path::new("/a/my view,2"));
        assert!(
            name.starts_with("outcore-view-") && name.ends_with("-myview2"),
            "{name}"
        );
        assert_eq!(escaped(Path::new("/a b\\c")), "/a\\040b\\134c");
        assert!(!is_mounted(Path::new("/"), &name));
    }
}
