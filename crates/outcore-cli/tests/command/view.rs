//! `outcore view`: what is read through a view is what `outcore sort` writes; mounts go with their
//! server, however that ends.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// A file of random numbers and a view of it, in several runs.
fn build(place: &Place, more: &[&str]) -> Vec<u8> {
    let data = random_u64(60_000, 7);
    place.write("in.bin", &data);
    let arguments = ["view", "build", "in.bin", "-o", "v", "--type", "u64"];
    let sizes = ["--memory", "64MiB", "--run-size", "50KB"];
    let arguments: Vec<&str> = [&arguments[..], &sizes, more].concat();
    place.run(&arguments).ok();
    sorted_by(&data, 8, |r| u64::from_le_bytes(r.try_into().unwrap()))
}

#[test]
fn cat_range_keys_and_materialize_give_what_sort_writes() {
    let place = Place::new();
    let sorted = build(&place, &[]);
    assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, sorted);
    let range = place
        .run(&["view", "cat", "v", "--range", "1000..1500"])
        .ok();
    assert_eq!(range.stdout, sorted[8000..12_000]);
    let tail = place.run(&["view", "cat", "v", "--range", "-3.."]).ok();
    assert_eq!(tail.stdout, sorted[sorted.len() - 24..]);
    let key = |at: usize| u64::from_le_bytes(sorted[8 * at..8 * at + 8].try_into().unwrap());
    let (from, to) = (key(70).to_string(), key(90).to_string());
    let keys = ["view", "cat", "v", "--from-key", &from, "--to-key", &to];
    assert_eq!(place.run(&keys).ok().stdout, sorted[560..720]);
    place
        .run(&["view", "materialize", "v", "-o", "out.bin"])
        .ok();
    assert_eq!(place.read("out.bin"), sorted);
    place
        .run(&["view", "materialize", "v", "-o", "out.bin"])
        .fails(2, &["exists"], "--force");
    place.run(&["view", "verify", "v"]).ok();
    let info = place.run(&["view", "info", "v", "--json"]).ok();
    assert_eq!(info.event("summary")["records"], 60_000);
}

#[test]
fn a_build_can_be_read_at_once_and_further_files_be_added() {
    let place = Place::new();
    let data = random_u64(20_000, 3);
    place.write("in.bin", &data);
    let built = place.run(&[
        "view",
        "build",
        "in.bin",
        "-o",
        "v",
        "--type",
        "i64",
        "--descending",
        "--cat",
        "--memory",
        "64MiB",
        "--explain",
    ]);
    let number = |r: &[u8]| std::cmp::Reverse(i64::from_le_bytes(r.try_into().unwrap()));
    assert!(built.stderr.contains("plan:"), "{built:?}");
    assert_eq!(built.ok().stdout, sorted_by(&data, 8, number));
    let more = random_u64(3000, 4);
    place.write("more.bin", &more);
    place.run(&["view", "append", "v", "more.bin"]).ok();
    let both = sorted_by(&[data, more].concat(), 8, number);
    assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, both);
    let dict = "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }";
    let header = format!("{dict:<117}\n");
    let header = [&b"\x93NUMPY\x01\x00"[..], &[118, 0], header.as_bytes()].concat();
    place.write("f8.npy", &[header, vec![0; 8]].concat());
    place.run(&["view", "append", "v", "f8.npy"]).fails(
        2,
        &["f64", "i64", "f8.npy"],
        "another view",
    );
    assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, both);
}

#[test]
fn what_is_wrong_is_said_and_leaves_nothing() {
    let place = Place::new();
    place.write("in.bin", &random_u64(100, 3));
    place
        .run(&["view", "cat", "none"])
        .fails(3, &["open view", "none/view.json"], "view build");
    place
        .run(&["view", "build", "in.bin", "-o", "v"])
        .fails(2, &["in.bin"], "--type");
    place
        .command(&["view", "build", "in.bin", "-o", "v", "--type", "u64"])
        .env("OUTCORE_FAULT", "eio@1:write")
        .output()
        .map(Answer::of)
        .unwrap()
        .fails(3, &["write"], "");
    assert_eq!(place.names(), ["in.bin"]);
    build(&place, &[]);
    let first = names_in(&place.path("v"))
        .into_iter()
        .find(|name| name.starts_with("run-0003"));
    let run = place.path("v").join(first.unwrap());
    fs::remove_file(&run).unwrap();
    place
        .run(&["view", "cat", "v"])
        .fails(3, &["run 3", "run-0003"], "build");
}

/// The server of a mount, once the file is there; nothing where views cannot be mounted.
fn mount(place: &Place) -> Option<Child> {
    let mountpoint = place.make_dir("m");
    let mut child = place.spawn(&["view", "mount", "v", "m"]);
    let file = mountpoint.join("sorted.bin");
    let started = Instant::now();
    while !file.exists() {
        if let Some(status) = child.try_wait().unwrap() {
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(text.contains("mount"), "{status}: {text}");
            println!("SKIP: {}", text.lines().next().unwrap_or_default());
            return None;
        }
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(child)
}

/// Waits until nothing is mounted there.
fn wait_unmounted(mountpoint: &Path) {
    let started = Instant::now();
    let is_free = || fs::read_dir(mountpoint).is_ok_and(|mut entries| entries.next().is_none());
    while !is_free() {
        assert!(started.elapsed() < Duration::from_secs(30), "stuck mount");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_mount_goes_with_its_server_however_that_ends() {
    let place = Place::new();
    let sorted = build(&place, &[]);
    let Some(mut child) = mount(&place) else {
        return;
    };
    assert_eq!(place.read("m/sorted.bin"), sorted);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(0));
    wait_unmounted(&place.path("m"));

    let mut child = mount(&place).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_unmounted(&place.path("m"));
}
