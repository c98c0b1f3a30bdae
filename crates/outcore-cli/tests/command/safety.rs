//! Files that are not ours, sets that two jobs write, inputs that are partly freed: nothing is lost
//! or mixed silently.
//!
//! Contract: outcore removes only what is certainly ours. A set of shards belongs to one job. If
//! `--delete-input` has freed parts of a file, outcore rejects the file, names it, and keeps the
//! rest of its data. A limit of file sizes is an error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use outcore::IoMode;
use outcore_io::drive::FileSystem;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::private_dir::LOCK_TEXT;

use crate::support::*;

const DRIVES: [&str; 4] = ["--drive", "a", "--drive", "b"];
const SHARDS: [&str; 6] = ["sort", "in", "-o", "s-{drive}.bin", "--type", "u64"];

#[test]
fn a_directory_of_the_users_own_is_never_removed_whatever_it_is_called() {
    let place = TestDir::new();
    place.write("in", &random_u64(1_000, 5));
    // Directories with another name, without our lock, and with our lock and a file that we never
    // make.
    for (name, lock) in [
        (".outcore-results", LOCK_TEXT),
        (".outcore-0123456789ab", ""),
        (".outcore-ab0123456789", LOCK_TEXT),
    ] {
        let dir = place.make_dir(name);
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
        fs::write(dir.join("lock"), lock).unwrap();
        fs::write(dir.join("f"), "work").unwrap();
    }
    place.run(&SMALL_SORT).ok();
    place.run(&["scratch", "clean", "."]).ok();
    assert_eq!(place.names().len(), 5);
    for name in place.names().iter().filter(|name| name.starts_with('.')) {
        assert_eq!(place.read(&format!("{name}/f")), b"work");
    }
    let listed = place.run(&["scratch", "list"]).ok();
    assert_eq!(listed.text().matches("left alone").count(), 2, "{listed:?}");
    assert!(!listed.stderr.contains("no scratch"), "{listed:?}");
}

#[test]
fn scratch_list_names_each_thing_that_it_leaves_alone_and_why() {
    let place = TestDir::new();
    let open = place.make_dir(".outcore-0123456789ab");
    fs::set_permissions(&open, PermissionsExt::from_mode(0o755)).unwrap();
    place.write(".outcore-ab0123456789", b"a file");
    let mut expected = vec!["other users may read or change it", "it is not a directory"];
    let other = place.make_dir(".outcore-abababababab");
    fs::set_permissions(&other, PermissionsExt::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&other, Some(65_534), None).is_ok() {
        expected.push("it belongs to another user");
    }
    let listed = place.run(&["scratch", "list"]).ok();
    for cause in &expected {
        let line = format!("left alone, since {cause}");
        assert_eq!(listed.text().matches(&line).count(), 1, "{listed:?}");
    }
    let cleaned = place.run(&["scratch", "clean"]).ok();
    assert_eq!(cleaned.stderr.matches("left alone").count(), expected.len());
    assert!(open.exists() && other.exists());
}

#[test]
fn an_input_that_a_killed_job_has_freed_parts_of_is_refused_and_the_rest_is_kept() {
    let place = TestDir::new();
    let input = random_u64(2_000_000, 219);
    let sorted = sorted_u64(&input);
    let sort = [&SMALL_SORT[..], &["--delete-input"]].concat();
    let mut seen = [0; 2];
    for (nth, fault) in (1..500)
        .step_by(29)
        .zip(["kill", "eio"].into_iter().cycle())
    {
        let fault = format!("{fault}@{nth}");
        place.write("in", &input);
        let mut command = place.command(&sort);
        let answer = Answer::of(command.env("OUTCORE_FAULT", &fault).output().unwrap());
        if place.path("out").exists() {
            assert!(place.read("out") == sorted, "{fault}");
            fs::remove_file(place.path("out")).unwrap();
            place.run(&["scratch", "clean", "."]).ok();
            continue;
        }
        assert_ne!(answer.code, Some(0), "{fault}");
        let is_whole = place.read("in") == input;
        let is_marked = place.path(".in.outcore-consumed").exists();
        assert!(is_whole || is_marked, "{fault}");
        seen[usize::from(is_marked)] += 1;
        if is_marked {
            let words = ["--delete-input freed parts of the file", "in", ".outcore-"];
            let next = ["restore this file"];
            place.run(&SMALL_SORT).fails(4, &words, next[0]);
            let verify = ["verify", "in", "--type", "u64"];
            place.run(&verify).fails(4, &words, next[0]);
            // No job removes a kept directory, and the list gives the reason.
            place.run(&["scratch", "clean", "."]).ok();
            let listed = place.run(&["scratch", "list", "."]).ok().text();
            assert!(listed.contains("kept for"), "{fault}: {listed}");
            assert!(listed.contains("/in\t"), "{listed}");
            assert!(!place.path("out").exists());
            // The user restores the file and removes the marker.
            place.write("in", &input);
            fs::remove_file(place.path(".in.outcore-consumed")).unwrap();
        }
        place.run(&SMALL_SORT).ok();
        assert!(place.read("out") == sorted, "{fault}");
        fs::remove_file(place.path("out")).unwrap();
        assert_eq!(place.names(), ["in"], "{fault}");
    }
    assert!(seen.iter().all(|&count| count > 2), "{seen:?}");
}

#[test]
fn a_marker_of_a_file_that_is_gone_does_not_refuse_another() {
    let place = TestDir::new();
    let input = random_u64(2_000_000, 19);
    place.write("in", &input);
    // The number of operations before the first block is freed depends on the threads.
    let killed_at = |nth: u64| {
        let mut command = place.command(&SMALL_SORT);
        command
            .arg("--delete-input")
            .env("OUTCORE_FAULT", format!("kill@{nth}"));
        assert_eq!(Answer::of(command.output().unwrap()).code, None, "{nth}");
        place.path(".in.outcore-consumed").exists()
    };
    assert!((100..).step_by(40).any(killed_at));
    fs::rename(place.path("in"), place.path("old")).unwrap();
    place.write("in", &input);
    place.run(&SMALL_SORT).ok();
    assert!(place.read("out") == sorted_u64(&input));
}

#[test]
fn a_marker_that_is_a_pipe_or_endless_refuses_the_file_and_is_not_waited_for() {
    let place = TestDir::new();
    place.write("in", &random_u64(100, 19));
    let marker = place.path(".in.outcore-consumed");
    let made = Command::new("mkfifo").arg(&marker).status();
    if made.is_ok_and(|status| status.success()) {
        place.run(&SMALL_SORT).fails(3, &["regular file"], "");
        fs::remove_file(&marker).unwrap();
    }
    fs::File::create(&marker).unwrap().set_len(1 << 40).unwrap();
    place
        .run(&SMALL_SORT)
        .fails(4, &["its marker is damaged"], "remove");
    fs::remove_file(&marker).unwrap();
    place.run(&SMALL_SORT).ok();
}

#[test]
fn a_marker_is_found_by_every_name_of_its_file() {
    let place = TestDir::new();
    let inner = TestDir::new();
    inner.write("in", b"b\na\n");
    inner.write(".in.outcore-consumed", b"damaged");
    std::os::unix::fs::symlink(inner.path("in"), place.path("link")).unwrap();
    std::os::unix::fs::symlink(inner.dir(), place.path("dir")).unwrap();
    let whole = inner.path("in");
    for name in ["link", "dir/in", "./dir/./in", whole.to_str().unwrap()] {
        let wanted = ["its marker is damaged"];
        place.run(&["sort", name]).fails(4, &wanted, "remove");
    }
    inner
        .run(&["sort", "in"])
        .fails(4, &["its marker is damaged"], "remove");
}

#[test]
fn what_fits_in_memory_is_not_lost_with_the_job_that_was_to_delete_it() {
    let place = TestDir::new();
    let input = random_u64(100_000, 19);
    let sort = [
        "sort",
        "in",
        "-o",
        "out",
        "--type",
        "u64",
        "--delete-input",
        "--threads",
        "1",
    ];
    for nth in 1..40 {
        place.write("in", &input);
        let mut command = place.command(&sort);
        command.env("OUTCORE_FAULT", format!("kill@{nth}"));
        if Answer::of(command.output().unwrap()).code == Some(0) {
            assert_eq!(place.names(), ["out"]);
            return;
        }
        assert!(place.read("in") == input, "{nth}");
        let _ = fs::remove_file(place.path("out"));
    }
    panic!("it never came to its end");
}

fn two_drives() -> (TestDir, Vec<u8>) {
    let place = TestDir::new();
    let bytes = random_u64(30_000, 41);
    place.write("in", &bytes);
    place.make_dir("a");
    place.make_dir("b");
    (place, bytes)
}

#[test]
fn of_two_jobs_on_one_set_of_shards_the_second_is_refused() {
    let (place, bytes) = two_drives();
    let device = OsDevice::new(IoMode::Auto);
    let force = [&SHARDS[..], &DRIVES, &["--force"]].concat();
    let turned = ["--drive", "b", "--drive", "a", "--force"];
    let turned = [&SHARDS[..], &turned].concat();
    // Another job owns the set on drive `a`. The manifest of the first sort is on `a`, and that of
    // the second sort is on `b`.
    let held = device.claim_private_dir(&place.path("a"), "s.bin.outcore.json".as_ref());
    for sort in [&force, &turned] {
        let words = ["another job is writing this set", "s.bin.outcore.json"];
        place.run(sort).fails(2, &words, "another name");
        assert_eq!(names_in(&place.path("a")).len(), 1);
        assert!(names_in(&place.path("b")).is_empty());
    }
    // Another job may write other sets in the same place. It may also write this set once the first
    // job is gone, however that job ended.
    let other = ["sort", "in", "-o", "t-{drive}.bin", "--type", "u64"];
    place.run(&[&other[..], &DRIVES].concat()).ok();
    held.unwrap().leave();
    place.run(&force).ok();
    let joined = ["a/s-a.bin", "b/s-b.bin"].map(|name| place.read(name));
    assert_eq!(joined.concat(), sorted_u64(&bytes));
    assert_eq!(names_in(&place.path("b")), ["s-b.bin", "t-b.bin"]);
}

#[test]
fn jobs_that_race_for_a_set_leave_that_of_one_of_them() {
    let (place, bytes) = two_drives();
    let other = random_u64(30_000, 43);
    place.write("other", &other);
    let wanted = [sorted_u64(&bytes), sorted_u64(&other)];
    for _ in 0..10 {
        let racers = ["in", "other"].map(|input| {
            let mut words = [&SHARDS[..], &DRIVES, &["--force"]].concat();
            words[1] = input;
            place.spawn(&words)
        });
        let answers = racers.map(|racer| Answer::of(racer.wait_with_output().unwrap()));
        let is_done = answers.each_ref().map(|answer| answer.code == Some(0));
        assert!(is_done.contains(&true), "{answers:?}");
        for answer in answers.into_iter().filter(|answer| answer.code != Some(0)) {
            answer.fails(2, &["another job"], "");
        }
        let joined = ["a/s-a.bin", "b/s-b.bin"]
            .map(|name| place.read(name))
            .concat();
        let is_theirs = [0, 1].map(|index| is_done[index] && joined == wanted[index]);
        assert!(is_theirs.contains(&true));
        place
            .run(&["verify", "a/s.bin.outcore.json", "--type", "u64"])
            .ok();
    }
}

#[test]
fn manifests_that_were_changed_or_took_anothers_place_give_nobodys_shards() {
    let (place, _) = two_drives();
    place.run(&[&SHARDS[..], &DRIVES].concat()).ok();
    let mut other = [&SHARDS[..], &DRIVES].concat();
    other[3] = "t-{drive}.bin";
    place.run(&other).ok();
    let (one, other) = ("a/s.bin.outcore.json", "a/t.bin.outcore.json");
    let (own, theirs) = (place.read(one), place.read(other));
    let refused = |words: &[&str]| {
        for command in [&["verify"][..], &["sort", "-o", "out"], &["reduce", "sum"]] {
            let all = [command, &[one, "--type", "u64"]].concat();
            place.run(&all).fails(4, words, "name the shards");
        }
    };
    place.write(one, &theirs);
    refused(&["describes `t.bin.outcore.json`, not `s.bin.outcore.json`"]);
    let text = String::from_utf8(own.clone()).unwrap();
    place.write(one, text.replacen("s-b.bin", "t-b.bin", 1).as_bytes());
    refused(&["differs from what was written", "s.bin.outcore.json"]);
    place.write(one, &own);
    place.run(&["verify", one, "--type", "u64"]).ok();
}

#[test]
fn a_shard_of_another_generation_is_found_and_named() {
    let (place, _) = two_drives();
    place.write("other", &random_u64(30_000, 43));
    place.run(&[&SHARDS[..], &DRIVES].concat()).ok();
    let manifest = "a/s.bin.outcore.json";
    place.run(&["verify", manifest, "--type", "u64"]).ok();
    // A shard of the same length and in order, but of another run.
    let mut again = [&SHARDS[..], &DRIVES].concat();
    (again[1], again[3]) = ("other", "t-{drive}.bin");
    place.run(&again).ok();
    fs::rename(place.path("b/t-b.bin"), place.path("b/s-b.bin")).unwrap();
    let words = ["s-b.bin", "last write differs from the manifest"];
    for command in ["verify", "sort"] {
        let words_of = [command, manifest, "--type", "u64"];
        let output = ["-o", "out"];
        let all = match command {
            "sort" => [&words_of[..], &output].concat(),
            _ => words_of.to_vec(),
        };
        place.run(&all).fails(4, &words, "sort again");
    }
}

#[test]
fn a_limit_of_file_sizes_is_a_named_error_and_leaves_no_scratch() {
    let place = TestDir::new();
    place.write("in", &random_u64(2_000_000, 3));
    let sort = |output, io| {
        let mut words = SMALL_SORT.to_vec();
        words[3] = output;
        words.extend(["--io", io]);
        words
    };
    // The number of pairs is not known before they are on scratch.
    let pairs = "vector pairs in --type u8x64 --max-l2 1e9 -o out --memory 8MiB";
    let pairs: Vec<&str> = pairs.split(' ').collect();
    for words in [
        sort("out", "auto"),
        sort("out", "buffered"),
        sort("-", "auto"),
        pairs,
    ] {
        let mut command = Command::new("sh");
        // The limit counts blocks of 512 bytes, so this is a quarter of a megabyte.
        let limited = "ulimit -f 512; exec \"$@\"";
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_outcore")]);
        command
            .args(&words)
            .current_dir(place.dir())
            .env("OUTCORE_CONFIG", "");
        let answer = Answer::of(command.output().unwrap());
        answer.fails(3, &["File too large"], "ulimit -f");
        assert_eq!(place.names(), ["in"], "{words:?}");
    }
}
