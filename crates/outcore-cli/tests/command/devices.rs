//! Block devices as drives: what is measured or replayed takes them, datasets take their file
//! systems.
//!
//! Contract: devices are loop devices over files of the test's own directory, detached and
//! unmounted when the test ends. Without root, `losetup`, `mkfs.ext4` or `mount` the tests say so
//! and pass.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

const MIB: usize = 1 << 20;
const DEVICE_BYTES: usize = 24 * MIB;

/// Whether a tool of the system did what it was asked; what it printed.
fn system(tool: &str, arguments: &[&str]) -> Result<String, String> {
    match Command::new(tool).args(arguments).output() {
        Ok(done) if done.status.success() => Ok(String::from_utf8(done.stdout).unwrap()),
        Ok(done) => Err(format!("{tool}: {}", String::from_utf8_lossy(&done.stderr))),
        Err(error) => Err(format!("{tool}: {error}")),
    }
}

/// An empty loop device, and where it is mounted.
struct Loop {
    node: String,
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

    fn format(&self) -> Result<(), String> {
        system("mkfs.ext4", &["-q", "-F", &self.node]).map(|_| ())
    }

    fn mount(&mut self, dir: PathBuf) -> Result<(), String> {
        system("mount", &[&self.node, dir.to_str().unwrap()])?;
        self.mounted_at = Some(dir);
        Ok(())
    }

    fn unmount(&mut self) {
        if let Some(dir) = self.mounted_at.take() {
            system("umount", &[dir.to_str().unwrap()]).unwrap();
        }
    }

    /// What is on it, past the cache of the device.
    fn bytes(&self) -> Vec<u8> {
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

/// Two devices, where the system has them.
fn two_devices(place: &TestDir) -> Option<[Loop; 2]> {
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

fn write_drives(place: &TestDir, dirs: [&str; 2]) {
    let text = dirs.map(|dir| format!("[[drive]]\ndir = \"{dir}\"\n"));
    place.write("drives.toml", text.concat().as_bytes());
}

#[test]
fn empty_devices_are_measured_and_replayed_on_as_often_as_one_likes() {
    let place = TestDir::new();
    let Some(devices) = two_devices(&place) else {
        return;
    };
    let [a, b] = devices.each_ref().map(|device| device.node.as_str());
    write_drives(&place, [a, b]);
    let lines: String = (0..500)
        .map(|at| format!("0,{},65536,{},{at}.0\n", at * 128, ["r", "w"][at % 2]))
        .collect();
    place.write("trace", lines.as_bytes());
    let replay = ["replay", "trace", "--on", "drives.toml", "--json"];
    place.run(&replay).fails(2, &["--write-ok"], "");
    assert!(
        devices
            .iter()
            .all(|one| one.bytes().iter().all(|byte| *byte == 0))
    );

    let consenting = [&replay[..], &["--write-ok"]].concat();
    for _ in 0..2 {
        let report = &place.run(&consenting).ok().event("summary")["report"];
        let rows = &report["sections"][0]["tables"][0]["rows"];
        assert_eq!(
            (rows[0][1].as_f64(), rows[1][1].as_f64()),
            (Some(250.0), Some(250.0)),
            "{rows}"
        );
        let load = [
            "bench",
            "io",
            a,
            b,
            "--write-ok",
            "--load",
            "write:1MiB:4",
            "--time",
            "300ms",
        ];
        place.run(&load).ok();
    }
    for device in &devices {
        let bytes = device.bytes();
        assert!(bytes[MIB..DEVICE_BYTES - MIB].iter().any(|byte| *byte != 0));
        assert!(bytes[..MIB].iter().all(|byte| *byte == 0), "its first MiB");
        assert!(
            bytes[DEVICE_BYTES - MIB..].iter().all(|byte| *byte == 0),
            "its last MiB"
        );
    }
}

#[test]
fn a_device_of_somebody_else_is_not_written_to_and_a_mounted_one_not_even_read() {
    let place = TestDir::new();
    let Some([mut device, other]) = two_devices(&place) else {
        return;
    };
    if let Err(why) = device.format() {
        println!("SKIP: no file system can be made: {why}");
        return;
    }
    let before = device.bytes();
    place.write("trace", b"0,8,4096,w,0.0\n");
    let node = device.node.clone();
    let replay = ["replay", "trace", "--on", &node, "--write-ok"];
    place
        .run(&replay)
        .fails(2, &["an ext file system", &node], "blkdiscard");
    let bench = ["bench", "io", &node, "--write-ok", "--time", "300ms"];
    place
        .run(&bench)
        .fails(2, &["an ext file system", &node], "blkdiscard");
    assert!(device.bytes() == before, "it was written to");
    // Of a RAID whose members describe themselves at their ends there is nothing in front.
    let mut image = std::fs::OpenOptions::new()
        .write(true)
        .open(&other.node)
        .unwrap();
    std::io::Seek::seek(&mut image, std::io::SeekFrom::End(-4096)).unwrap();
    std::io::Write::write_all(&mut image, b"member").unwrap();
    drop(image);
    let replay = ["replay", "trace", "--on", &other.node, "--write-ok"];
    place
        .run(&replay)
        .fails(2, &["data at its end"], "blkdiscard");

    if let Err(why) = device.mount(place.make_dir("mount")) {
        println!("SKIP: nothing can be mounted: {why}");
        return;
    }
    let read = ["bench", "io", &node, "--time", "300ms"];
    place
        .run(&read)
        .fails(2, &["mounted at", "mount", &node], "directory");
}

#[test]
fn datasets_lie_on_the_file_systems_of_devices_and_not_on_devices() {
    let place = TestDir::new();
    let Some(mut devices) = two_devices(&place) else {
        return;
    };
    let [a, b] = devices.each_ref().map(|device| device.node.as_str());
    write_drives(&place, [a, b]);
    let create = [
        "volume",
        "create",
        "--volume",
        "drives.toml",
        "--stripe",
        "64KiB",
    ];
    place
        .run(&create)
        .fails(2, &["not a directory", a], "mount point");
    let ls = ["volume", "ls", "--volume", "drives.toml"];
    place
        .run(&ls)
        .fails(2, &["not a directory", a], "mount point");
    for (device, dir) in devices.iter_mut().zip(["x", "y"]) {
        let made = device.format();
        if let Err(why) = made.and_then(|()| device.mount(place.make_dir(dir))) {
            println!("SKIP: no file system can be mounted: {why}");
            return;
        }
    }
    write_drives(&place, ["x", "y"]);
    place.run(&create).ok();
    let run = |words: &[&str]| place.run(&[words, &["--volume", "drives.toml"]].concat());
    let keys = random_u64(200_000, 3);
    place.write("keys", &keys);
    run(&["volume", "put", "keys", "@keys"]).ok();
    run(&[
        "sort", "@keys", "-o", "@sorted", "--type", "u64", "--memory", "64MiB",
    ])
    .ok();
    run(&["volume", "get", "@sorted", "sorted"]).ok();
    assert!(place.read("sorted") == sorted_u64(&keys));
    run(&["volume", "scrub"]).ok();
    for device in &mut devices {
        device.unmount();
    }
    // Where not one label is left, nothing tells it from a volume that was never made: the hint
    // says both.
    run(&["volume", "scrub"]).fails(2, &["no volume", "x"], "mounted");
}
