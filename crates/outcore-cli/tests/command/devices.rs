//! Block devices as drives of a volume: datasets are on the file systems of the devices, and
//! outcore never writes to the devices themselves.
//!
//! Contract: as in [`crate::loops`]. If a device cannot be made, the test says so and passes.

use crate::loops::*;
use crate::support::*;

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
    // If no label is left, the volume cannot be distinguished from one that was never made. The
    // hint covers both cases.
    run(&["volume", "scrub"]).fails(2, &["no volume", "x"], "mounted");
}
