//! Volumes with parity or a mirror. If a drive is pulled, zeroed or cut, jobs read and write as
//! before, or say why they cannot. `volume replace` rebuilds the drive, also if the command is
//! killed at any moment and repeated.
//!
//! Contract: as in `volume`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;
use crate::volume::{run, volume_with};

const PARITY: [&str; 4] = ["--stripe", "64KiB", "--parity", "1"];

/// A place with a volume that has the dataset `@x` of the file `in`, and an empty directory `new`.
fn place_with(options: &[&str], numbers: usize) -> TestDir {
    let place = volume_with(TestDir::in_memory(), options);
    place.write("in", &random_u64(numbers, 4));
    run(&place, &["volume", "put", "in", "@x"]).ok();
    place.make_dir("new");
    place
}

/// Takes a drive away.
fn pull(place: &TestDir, drive: &str) {
    fs::rename(place.path(drive), place.path("away")).unwrap();
}

/// Changes all shares of a drive.
fn change_shares(place: &TestDir, drive: &str, change: impl Fn(&mut Vec<u8>)) {
    for share in fs::read_dir(place.path(drive).join("outcore-volume/data")).unwrap() {
        let path = share.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn jobs_read_and_write_datasets_with_parity_as_any_others() {
    for options in [&PARITY[..], &["--stripe", "4KiB", "--mirror"]] {
        let place = place_with(options, 400_000);
        let sorted = sorted_u64(&place.read("in"));
        let sort = |from: &str, to: &str| {
            run(
                &place,
                &["sort", from, "-o", to, "--type", "u64", "--memory", "64MiB"],
            )
        };
        // Threads write the dataset in any order.
        sort("@x", "@sorted").ok();
        run(&place, &["volume", "scrub"]).ok();
        for drive in ["d0", "d1", "d2"] {
            pull(&place, drive);
            let got = run(&place, &["volume", "get", "@sorted", "out", "--force"]).ok();
            assert!(place.read("out") == sorted, "{options:?} {drive}");
            for told in [got, sort("@x", "out2").ok()] {
                let note = format!("note: drive {drive} is missing: its data are computed");
                assert!(told.stderr.contains(&note), "{told:?}");
            }
            assert!(place.read("out2") == sorted, "{options:?} {drive}");
            run(&place, &["verify", "@sorted", "--type", "u64"]).ok();
            fs::remove_file(place.path("out2")).unwrap();
            // Nothing is written on fewer drives.
            sort("@x", "@y").fails(3, &[drive, "missing"], "volume replace");
            fs::rename(place.path("away"), place.path(drive)).unwrap();
        }
    }
}

#[test]
fn a_damaged_drive_is_read_around_and_a_scrub_repairs_it() {
    let place = place_with(&PARITY, 200_000);
    let sorted = sorted_u64(&place.read("in"));
    let flip = |bytes: &mut Vec<u8>| bytes.iter_mut().step_by(70_000).for_each(|byte| *byte ^= 4);
    let zero = |bytes: &mut Vec<u8>| bytes.fill(0);
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 3);
    let changes: [fn(&mut Vec<u8>); 3] = [flip, zero, cut];
    for (number, change) in changes.into_iter().enumerate() {
        for drive in ["d0", "d1", "d2"] {
            change_shares(&place, drive, change);
            let words = ["sort", "@x", "-o", "out", "--type", "u64", "--force"];
            run(&place, &words).ok();
            assert!(place.read("out") == sorted, "{number} {drive}");
            let scrubbed = run(&place, &["volume", "scrub"]);
            assert!(
                scrubbed.text().contains("repaired from other drives"),
                "{scrubbed:?}"
            );
            scrubbed.fails(4, &["damaged"], "all damage was repaired");
            run(&place, &["volume", "scrub"]).ok();
        }
    }
    change_shares(&place, "d0", zero);
    change_shares(&place, "d1", zero);
    for words in [
        &["sort", "@x", "-o", "none", "--type", "u64"][..],
        &["volume", "get", "@x", "none"],
    ] {
        run(&place, words).fails(
            4,
            &["@x", "parity makes up for only one"],
            "put the dataset again",
        );
    }
    assert!(!place.path("none").exists());
}

#[test]
fn a_drive_that_fails_during_a_read_changes_nothing() {
    let place = place_with(&PARITY, 60_000);
    for kind in ["eio", "flip"] {
        for nth in (1..40).step_by(2) {
            let words = [
                "volume",
                "get",
                "@x",
                "out",
                "--force",
                "--volume",
                "drives.toml",
            ];
            let mut command = place.command(&words);
            command.env("OUTCORE_FAULT", format!("{kind}@{nth}:read"));
            Answer::of(command.output().unwrap()).ok();
            assert!(place.read("out") == place.read("in"), "{kind} {nth}");
        }
    }
}

#[test]
fn a_scrub_that_is_killed_harms_nothing() {
    let place = place_with(&PARITY, 60_000);
    let remove = |place: &TestDir| {
        for share in fs::read_dir(place.path("d2/outcore-volume/data")).unwrap() {
            fs::remove_file(share.unwrap().path()).unwrap();
        }
    };
    let mut kills = 0;
    for nth in (1..).step_by(2) {
        match nth % 4 {
            1 => change_shares(&place, "d1", |bytes| bytes.fill(0)),
            _ => remove(&place),
        }
        let mut command = place.command(&["volume", "scrub", "--volume", "drives.toml"]);
        let killed = command
            .env("OUTCORE_FAULT", format!("kill@{nth}"))
            .output()
            .unwrap();
        run(&place, &["volume", "get", "@x", "out", "--force"]).ok();
        assert!(place.read("out") == place.read("in"), "{nth}");
        let code = Answer::of(killed).code;
        if code.is_some() {
            assert_eq!(code, Some(4), "{nth}");
            break;
        }
        kills += 1;
        // A scrub that was killed after its last repair leaves nothing to repair.
        let code = run(&place, &["volume", "scrub"]).code;
        assert!(code == Some(0) || code == Some(4), "{nth}: {code:?}");
        run(&place, &["volume", "scrub"]).ok();
    }
    assert!(kills > 5, "{kills}");
}

#[test]
fn a_drive_that_reads_as_zeros_is_rebuilt_in_its_place() {
    let place = place_with(&PARITY, 60_000);
    for folder in ["", "data", "datasets"] {
        let dir = place.path("d1/outcore-volume").join(folder);
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let zeros = vec![0; fs::metadata(&path).unwrap().len() as usize];
                fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
                fs::write(&path, zeros).unwrap();
            }
        }
    }
    run(&place, &["volume", "get", "@x", "out"]).ok();
    assert!(place.read("out") == place.read("in"));
    run(&place, &["volume", "scrub"]).fails(4, &["label", "d1"], "volume replace");
    let told = run(&place, &["volume", "replace", "d1", "d1"]).ok();
    assert!(told.stderr.contains("outcore-volume.replaced"), "{told:?}");
    run(&place, &["volume", "scrub"]).ok();
    run(&place, &["volume", "put", "in", "@y"]).ok();
}

#[test]
fn a_killed_replacement_repeats_only_what_was_not_durable() {
    let place = volume_with(TestDir::in_memory(), &PARITY);
    place.write("in", &random_u64(5 << 20, 4));
    run(&place, &["volume", "put", "in", "@x"]).ok();
    place.make_dir("new");
    let share_bytes = fs::read_dir(place.path("d1/outcore-volume/data")).unwrap();
    let share_bytes: u64 = share_bytes
        .map(|share| share.unwrap().metadata().unwrap().len())
        .sum();
    pull(&place, "d1");
    let words = [
        "volume",
        "replace",
        "d1",
        "new",
        "--volume",
        "drives.toml",
        "--json",
    ];
    let mut command = place.command(&words);
    let killed = command
        .env("OUTCORE_FAULT", "kill@3:sync")
        .output()
        .unwrap();
    assert_eq!(Answer::of(killed).code, None);
    assert!(
        place
            .path("new/outcore-volume.in-progress/progress")
            .exists()
    );
    let told = place.run(&words).ok();
    let rebuilt_bytes = told.event("summary")["rebuilt_bytes"].as_u64().unwrap();
    assert!(
        rebuilt_bytes < share_bytes * 3 / 4,
        "{rebuilt_bytes} of {share_bytes}"
    );
    run(&place, &["volume", "scrub"]).ok();
    run(&place, &["volume", "get", "@x", "out"]).ok();
    assert!(place.read("out") == place.read("in"));
}

#[test]
fn status_and_ls_tell_what_is_at_risk() {
    let place = place_with(&PARITY, 50_000);
    let status = || {
        run(&place, &["volume", "status", "--json"])
            .ok()
            .event("summary")
    };
    assert_eq!(status()["redundancy"], "parity");
    assert_eq!(
        (&status()["at_risk"], &status()["unreachable"]),
        (&0.into(), &0.into())
    );
    pull(&place, "d1");
    assert_eq!(
        (&status()["at_risk"], &status()["unreachable"]),
        (&1.into(), &0.into())
    );
    let told = run(&place, &["volume", "status"]).ok();
    assert!(told.stderr.contains("at risk"), "{told:?}");
    let listed = run(&place, &["volume", "ls"]).ok();
    assert!(listed.text().contains("without d1, missing"), "{listed:?}");
    fs::rename(place.path("d2"), place.path("away2")).unwrap();
    assert_eq!(
        (&status()["at_risk"], &status()["unreachable"]),
        (&0.into(), &1.into())
    );
    let got = run(&place, &["volume", "get", "@x", "out"]);
    got.fails(
        3,
        &["d1 and d2 are missing", "parity makes up for only one"],
        "mount",
    );
}

#[test]
fn a_replaced_drive_takes_its_place_in_the_drives_file() {
    for options in [&PARITY[..], &["--mirror"]] {
        let place = place_with(options, 200_000);
        pull(&place, "d1");
        run(&place, &["volume", "put", "in", "@y"]).fails(3, &["d1"], "volume replace");
        let told = run(&place, &["volume", "replace", "d1", "new", "--json"]).ok();
        assert_eq!(told.event("summary")["drive"], "d1");
        let text = String::from_utf8(place.read("drives.toml")).unwrap();
        assert!(text.contains("/new\""), "{text}");
        run(&place, &["volume", "scrub"]).ok();
        run(&place, &["volume", "put", "in", "@y"]).ok();
        for name in ["@x", "@y"] {
            run(&place, &["volume", "get", name, "out", "--force"]).ok();
            assert!(place.read("out") == place.read("in"));
        }
        // A new drive that is mounted in the same place.
        fs::remove_dir_all(place.path("d2")).unwrap();
        place.make_dir("d2");
        run(&place, &["volume", "replace", "d2", "d2"]).ok();
        run(&place, &["volume", "scrub"]).ok();
    }
}

#[test]
fn a_replacement_that_is_killed_anywhere_continues() {
    let place = place_with(&PARITY, 60_000);
    place.write("small", b"small");
    run(&place, &["volume", "put", "small", "@small"]).ok();
    run(&place, &["volume", "put", "in", "@y"]).ok();
    pull(&place, "d1");
    let drives = place.read("drives.toml");
    let is_right = |nth: u64| {
        for (name, file) in [("@x", "in"), ("@y", "in"), ("@small", "small")] {
            run(&place, &["volume", "get", name, "out", "--force"]).ok();
            assert!(place.read("out") == place.read(file), "{nth} {name}");
        }
    };
    let words = ["volume", "replace", "d1", "new", "--volume", "drives.toml"];
    let mut kills = 0;
    for nth in (1..).step_by(3) {
        let mut command = place.command(&words);
        let fault = format!("kill@{nth}");
        let answer = Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap());
        if answer.code == Some(0) {
            break;
        }
        assert_eq!(answer.code, None, "{answer:?}");
        kills += 1;
        is_right(nth);
        let mut is_done = false;
        // Every second run is killed once more, a little later.
        if nth % 2 == 0 {
            let mut command = place.command(&words);
            let again = Answer::of(command.env("OUTCORE_FAULT", "kill@9").output().unwrap());
            is_right(nth);
            is_done = again.code == Some(0);
        }
        // If the second run has finished before its kill, nothing is left to replace.
        if !is_done {
            place.run(&words).ok();
        }
        run(&place, &["volume", "scrub"]).ok();
        is_right(nth);
        assert_eq!(names_in(&place.path("new")), ["outcore-volume"]);
        fs::remove_dir_all(place.path("new")).unwrap();
        place.make_dir("new");
        place.write("drives.toml", &drives);
    }
    assert!(kills > 10, "{kills}");
    run(&place, &["volume", "scrub"]).ok();
}

/// Each replacement moves the drive to another directory, and the old directory stays.
#[test]
fn a_replacement_of_a_present_drive_that_is_killed_anywhere_continues() {
    let place = place_with(&PARITY, 60_000);
    let mut kills = 0;
    for nth in (1..).step_by(3) {
        let dir = format!("new{nth}");
        place.make_dir(&dir);
        let words = ["volume", "replace", "d1", &dir, "--volume", "drives.toml"];
        let mut command = place.command(&words);
        let fault = format!("kill@{nth}");
        let answer = Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap());
        let is_right = || {
            run(&place, &["volume", "get", "@x", "out", "--force"]).ok();
            assert!(place.read("out") == place.read("in"), "{nth}");
        };
        is_right();
        if answer.code == Some(0) {
            break;
        }
        assert_eq!(answer.code, None, "{answer:?}");
        kills += 1;
        place.run(&words).ok();
        is_right();
        run(&place, &["volume", "scrub"]).ok();
        assert_eq!(names_in(&place.path(&dir)), ["outcore-volume"]);
    }
    assert!(kills > 5, "{kills}");
    run(&place, &["volume", "scrub"]).ok();
}

#[test]
fn an_old_drive_that_comes_back_is_told_from_its_replacement() {
    let place = place_with(&PARITY, 60_000);
    pull(&place, "d1");
    place.make_dir("d1");
    run(&place, &["volume", "replace", "d1", "d1"]).ok();
    run(&place, &["volume", "rm", "@x"]).ok();
    run(&place, &["volume", "put", "in", "@y"]).ok();
    fs::rename(place.path("d1"), place.path("newer")).unwrap();
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    let listed = run(&place, &["volume", "ls"]).ok();
    assert!(!listed.text().contains("@x"), "{listed:?}");
    run(&place, &["volume", "get", "@y", "out"]).ok();
    assert!(place.read("out") == place.read("in"));
    let put = run(&place, &["volume", "put", "in", "@z"]);
    put.fails(3, &["d1", "the drive was replaced"], "volume replace");
    run(&place, &["volume", "replace", "d1", "d1"]).ok();
    run(&place, &["volume", "scrub"]).ok();
}

#[test]
fn a_replaced_drive_beside_a_newer_one_without_label_is_not_read() {
    let place = TestDir::in_memory();
    for dir in ["a", "b", "e"] {
        place.make_dir(dir);
    }
    let drives = b"[[drive]]\ndir = \"a\"\n[[drive]]\ndir = \"b\"\n";
    place.write("drives.toml", drives);
    run(
        &place,
        &["volume", "create", "--mirror", "--stripe", "64KiB"],
    )
    .ok();
    place.write("old", b"old");
    place.write("new", b"new");
    run(&place, &["volume", "put", "old", "@x"]).ok();
    run(&place, &["volume", "put", "old", "@gone"]).ok();
    run(&place, &["volume", "put", "old", "@same"]).ok();
    pull(&place, "a");
    run(&place, &["volume", "replace", "a", "e"]).ok();
    run(&place, &["volume", "rm", "@x", "@gone"]).ok();
    run(&place, &["volume", "put", "new", "@x"]).ok();
    fs::rename(place.path("e"), place.path("dead")).unwrap();
    fs::rename(place.path("away"), place.path("a")).unwrap();
    place.write("drives.toml", drives);
    fs::remove_file(place.path("b/outcore-volume/volume.json")).unwrap();
    for name in ["@x", "@gone"] {
        let got = run(&place, &["volume", "get", name, "out"]);
        got.fails(4, &["its label is lost", name, "drive b"], "unmount it");
        let read = run(&place, &["head", name, "-n", "1"]);
        read.fails(4, &["its label is lost", name], "unmount it");
    }
    run(&place, &["volume", "get", "@same", "out"]).ok();
    assert_eq!(place.read("out"), b"old");
    // With the newer drive in place of the older one, every dataset can be read again.
    fs::rename(place.path("a"), place.path("older")).unwrap();
    fs::rename(place.path("dead"), place.path("a")).unwrap();
    run(&place, &["volume", "get", "@x", "out", "--force"]).ok();
    assert_eq!(place.read("out"), b"new");
}

#[test]
fn a_replacement_in_its_own_directory_may_be_repeated_when_it_is_done() {
    let place = place_with(&PARITY, 60_000);
    let replace = ["volume", "replace", "d1", "d1"];
    run(&place, &replace).fails(2, &["there is nothing to replace"], "volume scrub");
    pull(&place, "d1");
    let mut kills_at_end = 0;
    for nth in 1.. {
        place.make_dir("d1");
        let words = [&replace[..], &["--volume", "drives.toml"]].concat();
        let mut command = place.command(&words);
        let fault = format!("kill@{nth}:control");
        let killed = Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap());
        let again = run(&place, &replace).ok();
        let is_done = again.stderr.contains("nothing was left to do");
        kills_at_end += u32::from(is_done && killed.code.is_none());
        run(&place, &["volume", "scrub"]).ok();
        run(&place, &["volume", "get", "@x", "out", "--force"]).ok();
        assert!(place.read("out") == place.read("in"), "{nth}");
        if killed.code == Some(0) {
            assert!(is_done, "{again:?}");
            break;
        }
        fs::remove_dir_all(place.path("d1")).unwrap();
    }
    println!("{kills_at_end} kills left nothing to do");
}

#[test]
fn a_rate_of_zero_is_rejected_before_anything_moves() {
    let place = place_with(&PARITY, 60_000);
    place.make_dir("d3");
    for words in [
        &["volume", "rebalance", "--limit", "0"][..],
        &["volume", "remove", "d1", "--limit", "0B/s"],
        &["volume", "scrub", "--limit", "0"],
        &["volume", "replace", "d1", "new", "--limit", "0MB/s"],
    ] {
        run(&place, words).fails(2, &["a rate of 0 moves nothing"], "2GB/s");
    }
}

#[test]
fn commands_work_while_a_drive_has_lost_a_folder() {
    for folder in ["data", "datasets"] {
        for drive in ["d0", "d1"] {
            let place = place_with(&PARITY, 60_000);
            fs::remove_dir_all(place.path(drive).join("outcore-volume").join(folder)).unwrap();
            run(&place, &["volume", "ls"]).ok();
            let status = run(&place, &["volume", "status"]).ok();
            let told = format!("drive {drive} is damaged: it has lost");
            assert!(status.stderr.contains(&told), "{status:?}");
            run(&place, &["volume", "get", "@x", "out"]).ok();
            let put = run(&place, &["volume", "put", "in", "@y"]);
            put.fails(4, &[drive, "folder of the drive is lost"], "volume scrub");
            let scrubbed = run(&place, &["volume", "scrub"]);
            assert!(scrubbed.text().contains(drive), "{scrubbed:?}");
            scrubbed.fails(4, &["damaged"], "all damage was repaired");
            run(&place, &["volume", "scrub"]).ok();
            run(&place, &["volume", "put", "in", "@y"]).ok();
        }
    }
}

#[test]
fn a_write_with_parity_that_fails_or_is_killed_leaves_a_whole_dataset_or_none() {
    let place = volume_with(TestDir::in_memory(), &PARITY);
    let input = random_u64(30_000, 4);
    place.write("in", &input);
    let sorted = sorted_u64(&input);
    for (fault, step) in [("eio", 2), ("kill", 3)] {
        let mut faults = 0;
        for nth in (1..).step_by(step) {
            let words = ["sort", "in", "-o", "@s", "--type", "u64", "--threads", "1"];
            let words = [&words[..], &["--volume", "drives.toml"]].concat();
            let mut command = place.command(&words);
            let fault = format!("{fault}@{nth}");
            let answer = Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap());
            let got = run(&place, &["volume", "get", "@s", "out", "--force"]);
            if got.code == Some(0) {
                assert!(place.read("out") == sorted, "{nth}");
                run(&place, &["volume", "scrub"]).ok();
                run(&place, &["volume", "rm", "@s"]).ok();
            }
            run(&place, &["volume", "scrub"]).ok();
            if answer.code == Some(0) {
                break;
            }
            faults += 1;
        }
        assert!(faults > 5, "{fault}: {faults}");
    }
}
