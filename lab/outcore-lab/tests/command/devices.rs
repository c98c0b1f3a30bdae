//! Block devices as drives for measurements and replays.
//!
//! Contract: as in [`crate::loops`]. If a device cannot be created, the test says so and passes.

use crate::loops::*;
use crate::support::*;

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
    // A RAID whose members are described at their ends leaves no trace at the beginning.
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
