//! Volumes that lack a drive, a manifest, or the end of a command.
//!
//! Contract: as in `volume`. Whole datasets are read, errors name the others, and nothing stays
//! behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;
use crate::volume::{place, run, volume_in};

#[test]
fn a_missing_drive_is_named_and_hides_only_what_lies_on_it() {
    let place = place();
    place.write("in", &random_u64(50_000, 4));
    run(&place, &["volume", "put", "in", "@large"]).ok();
    let stored_bytes = || {
        let files = fs::read_dir(place.path("d2/outcore-volume/data")).unwrap();
        let sizes = files.map(|file| file.unwrap().metadata().unwrap().len());
        sizes.sum::<u64>()
    };
    // The drive of a small dataset is random, so the test puts small datasets until it has both
    // kinds.
    let mut are_on_d2 = Vec::new();
    while !(are_on_d2.contains(&true) && are_on_d2.contains(&false)) {
        let number = are_on_d2.len();
        let before_bytes = stored_bytes();
        place.write("small", number.to_string().as_bytes());
        run(
            &place,
            &["volume", "put", "small", &format!("@small{number}")],
        )
        .ok();
        are_on_d2.push(stored_bytes() > before_bytes);
    }
    fs::rename(place.path("d2"), place.path("away")).unwrap();
    place.make_dir("d2");
    let listed = run(&place, &["volume", "ls"]).ok();
    assert!(
        listed.stderr.contains("drive d2 is missing") && listed.stderr.contains("mount it"),
        "{listed:?}"
    );
    let text = listed.text();
    assert_eq!(text.lines().count(), 1 + are_on_d2.len(), "{text}");
    let needs = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with(&format!("@{name}\t")));
        line.unwrap().contains("needs d2, missing")
    };
    assert!(needs("large"), "{text}");
    for (number, is_on_d2) in are_on_d2.into_iter().enumerate() {
        let name = format!("small{number}");
        let got = run(&place, &["volume", "get", &format!("@{name}"), "-"]);
        assert_eq!(needs(&name), is_on_d2, "{text}");
        match is_on_d2 {
            true => drop(got.fails(3, &["d2", "missing"], "mount it")),
            false => assert_eq!(got.ok().stdout, number.to_string().as_bytes()),
        }
    }
    let status = run(&place, &["volume", "status"]).ok();
    assert!(status.text().contains("used\tmissing"), "{status:?}");
    for words in [
        &["volume", "get", "@large", "out"][..],
        &["volume", "put", "in", "@new"],
        &["volume", "rm", "@large"],
        &["volume", "scrub"],
        &["sort", "in", "-o", "@new", "--type", "u64"],
        &["sort", "@large", "-o", "out", "--type", "u64"],
    ] {
        let refused = run(&place, words).fails(3, &["d2", "missing"], "mount it");
        let hint = refused
            .stderr
            .lines()
            .find(|line| line.starts_with("hint:"));
        assert!(!hint.unwrap().contains("remove"), "{refused:?}");
    }
    assert!(names_in(&place.path("d2")).is_empty());
    fs::remove_dir(place.path("d2")).unwrap();
    fs::rename(place.path("away"), place.path("d2")).unwrap();
    run(&place, &["volume", "scrub"]).ok();
    run(&place, &["volume", "get", "@large", "out"]).ok();
    assert!(place.read("out") == place.read("in"));
}

#[test]
fn a_dataset_whose_putting_replacing_or_removing_is_killed_is_whole_or_absent() {
    let place = volume_in(TestDir::in_memory());
    let [old, new] = [3, 4].map(|seed| random_u64(20_000, seed));
    place.write("old", &old);
    place.write("new", &new);
    let killed = |words: &[&str], fault: &str| {
        let words = [words, &["--volume", "drives.toml"]].concat();
        let mut command = place.command(&words);
        Answer::of(command.env("OUTCORE_FAULT", fault).output().unwrap())
    };
    let mut seen = [0; 3];
    for (words, has_old) in [
        (&["volume", "put", "new", "@x"][..], false),
        (&["volume", "put", "new", "@x", "--force"], true),
        (&["volume", "rm", "@x"], true),
    ] {
        for nth in 1.. {
            if has_old {
                run(&place, &["volume", "put", "old", "@x"]).ok();
            }
            let answer = killed(words, &format!("kill@{nth}:control"));
            let found = run(&place, &["volume", "get", "@x", "-"]);
            let state = match found.code {
                Some(0) if found.stdout == old => 0,
                Some(0) if found.stdout == new => 1,
                _ => {
                    drop(found.fails(2, &["@x not found"], "ls"));
                    2
                }
            };
            assert!(has_old || state != 0);
            assert!(
                words[1] != "put" || !has_old || state != 2,
                "{nth}: replaced and gone"
            );
            seen[state] += 1;
            run(&place, &["volume", "scrub"]).ok();
            if state != 2 {
                run(&place, &["volume", "rm", "@x"]).ok();
            }
            for drive in ["d0", "d1", "d2"] {
                let folder = place.path(drive).join("outcore-volume");
                assert_eq!(names_in(&folder), ["data", "datasets", "volume.json"]);
                assert!(names_in(&folder.join("data")).is_empty(), "{words:?} {nth}");
            }
            if answer.code == Some(0) {
                break;
            }
            assert_eq!(answer.code, None, "{answer:?}");
        }
    }
    assert!(seen.iter().all(|count| *count > 2), "{seen:?}");
}

#[test]
fn a_lost_manifest_is_told_by_status_and_scrub() {
    let place = place();
    place.write("in", &random_u64(50_000, 4));
    run(&place, &["volume", "put", "in", "@x"]).ok();
    let listed = run(&place, &["volume", "status"]).ok();
    assert!(!listed.stderr.contains("no dataset"), "{listed:?}");
    for drive in ["d0", "d1", "d2"] {
        let copy = format!("{drive}/outcore-volume/datasets/x.json");
        fs::remove_file(place.path(&copy)).unwrap();
        if drive == "d0" {
            // A lost copy is written anew.
            run(&place, &["volume", "ls"]).ok();
            run(&place, &["volume", "scrub"]).fails(4, &["one place is damaged"], "repaired");
            run(&place, &["volume", "scrub"]).ok();
            fs::remove_file(place.path(&copy)).unwrap();
        }
    }
    let listed = run(&place, &["volume", "status"]).ok();
    assert!(listed.stderr.contains("belong to no dataset"), "{listed:?}");
    let scrubbed = run(&place, &["volume", "scrub"]);
    assert!(
        scrubbed.text().contains("d1/outcore-volume/data/"),
        "{scrubbed:?}"
    );
    scrubbed.fails(4, &["belong to no dataset"], "--remove-orphans");
    run(&place, &["volume", "scrub", "--remove-orphans"]).ok();
    run(&place, &["volume", "scrub"]).ok();
    assert!(names_in(&place.path("d1/outcore-volume/data")).is_empty());
}

#[test]
fn one_damaged_dataset_hides_no_other() {
    let place = place();
    place.write("in", &random_u64(1000, 5));
    for name in ["@a", "@b", "@c"] {
        run(&place, &["volume", "put", "in", name]).ok();
    }
    for drive in ["d0", "d1", "d2"] {
        let manifest = place.path(&format!("{drive}/outcore-volume/datasets/b.json"));
        fs::set_permissions(&manifest, PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(&manifest, b"{}").unwrap();
    }
    let listed = run(&place, &["volume", "ls"]);
    assert_eq!(listed.code, Some(4));
    assert!(listed.stderr.contains("b.json"), "{listed:?}");
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("@a\t") && text.contains("@c\t"), "{text}");
    let scrubbed = run(&place, &["volume", "scrub"]);
    assert_eq!(scrubbed.code, Some(4));
    let text = String::from_utf8(scrubbed.stdout).unwrap();
    assert!(text.starts_with("@b\tdrive d0\t"), "{text}");
    let status = run(&place, &["volume", "status"]).ok();
    assert!(status.stderr.contains("3 datasets"), "{status:?}");
    assert!(
        status.stderr.contains("1 of them cannot be read"),
        "{status:?}"
    );
    // Nothing identifies the files that belong to it.
    run(&place, &["volume", "scrub", "--remove-orphans"]).fails(2, &["@b"], "outcore volume rm @b");
    let removed = run(&place, &["volume", "rm", "@b"]).ok();
    assert!(removed.stderr.contains("--remove-orphans"), "{removed:?}");
    // The command also works under its old name, which scripts may use.
    run(&place, &["volume", "scrub", "--remove-strays"]).ok();
    run(&place, &["volume", "put", "in", "@b"]).ok();
    run(&place, &["volume", "scrub"]).ok();
}
