//! Loop devices for tests.
//!
//! Contract: devices are over files of the test's own directory, detached and unmounted when the
//! test ends. Without root, `losetup`, `mkfs.ext4` or `mount` the tests say so and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const DEVICE_BYTES: usize = 24 * MIB;

/// Runs a tool of the system; returns its output, or why it failed.
fn system(tool: &str, arguments: &[&str]) -> Result<String, String> {
    match Command::new(tool).args(arguments).output() {
        Ok(done) if done.status.success() => Ok(String::from_utf8(done.stdout).unwrap()),
        Ok(done) => Err(format!("{tool}: {}", String::from_utf8_lossy(&done.stderr))),
        Err(error) => Err(format!("{tool}: {error}")),
    }
}

/// An empty loop device, and where it is mounted.
pub(crate) struct Loop {
    pub(crate) node: String,
    image: PathBuf,
    mounted_at: Option<PathBuf>,
}

impl Loop {
    fn over(image: &Path) -> Result<Self, String> {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(DEVICE_BYTES as u64).unwrap();
        let node = system("losetup", &["--find", "--show", image.to_str().unwrap()])?;
        Ok(Loop {
            node: node.trim().to_string(),
            image: image.to_path_buf(),
            mounted_at: None,
        })
    }

    pub(crate) fn format(&self) -> Result<(), String> {
        system("mkfs.ext4", &["-q", "-F", &self.node]).map(|_| ())
    }

    pub(crate) fn mount(&mut self, dir: PathBuf) -> Result<(), String> {
        system("mount", &[&self.node, dir.to_str().unwrap()])?;
        self.mounted_at = Some(dir);
        Ok(())
    }

    pub(crate) fn unmount(&mut self) {
        if let Some(dir) = self.mounted_at.take() {
            system("umount", &[dir.to_str().unwrap()]).unwrap();
        }
    }

    /// The contents of the device, read past its cache.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        system("blockdev", &["--flushbufs", &self.node]).unwrap();
        std::fs::read(&self.image).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.unmount();
        let detached = system("losetup", &["--detach", &self.node]);
        assert!(detached.is_ok() || std::thread::panicking(), "{detached:?}");
    }
}

/// Two devices, if the system has them.
pub(crate) fn two_devices(place: &TestDir) -> Option<[Loop; 2]> {
    let pair = Loop::over(&place.path("a.img"))
        .and_then(|first| Ok([first, Loop::over(&place.path("b.img"))?]));
    match pair {
        Ok(pair) => Some(pair),
        Err(why) => {
            println!("SKIP: no loop devices: {why}");
            None
        }
    }
}

pub(crate) fn write_drives(place: &TestDir, dirs: [&str; 2]) {
    let text = dirs.map(|dir| format!("[[drive]]\ndir = \"{dir}\"\n"));
    place.write("drives.toml", text.concat().as_bytes());
}
