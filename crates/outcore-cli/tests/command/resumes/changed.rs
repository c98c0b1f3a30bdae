//! Changes between a kill and the run that continues: the unfinished output, the spelling of names,
//! or the moment of the kill differs.
//!
//! Contract: a run takes over only bytes that are still as the killed run wrote them. It writes all
//! other bytes again, or begins anew and says so. A place is the same whatever its spelling.

use super::*;

/// The number of a late sync: after it, the output still has no name.
pub(super) fn late_sync(job: &Resumed) -> u64 {
    let is_before = |syncs: u64| {
        let answer = job.run_with(&format!("kill@{syncs}:sync"));
        let is_before = answer.code.is_none() && !job.place.path("out").exists();
        let clean = ["scratch", "clean", ".", "--resumable"];
        job.place.run(&clean).ok();
        std::fs::remove_file(job.place.path("out")).ok();
        is_before
    };
    let (mut before, mut after) = (1, 2);
    while is_before(after) {
        (before, after) = (after, 2 * after);
    }
    while after - before > 1 {
        let middle = before.midpoint(after);
        match is_before(middle) {
            true => before = middle,
            false => after = middle,
        }
    }
    // After seven eighths of these syncs, scratch still exists.
    before - before / 8
}

/// Kills a run after this sync, and leaves the files that the run has kept. The run has recorded a
/// part of its output.
pub(super) fn killed_while_it_writes(job: &Resumed, sync: u64) {
    let answer = job.run_with(&format!("kill@{sync}:sync"));
    assert!(answer.code.is_none(), "{sync}: {}", answer.stderr);
    assert!(job.is_kept() && !job.place.path("out").exists(), "{sync}");
}

/// Changes the unfinished output.
fn change_output(job: &Resumed, change: impl Fn(&mut Vec<u8>)) {
    let path = &files(job, "output-0")[0];
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    // Another file with this name.
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A change of a file's bytes.
type Change = dyn Fn(&mut Vec<u8>);

const CHANGED: &str = "the unfinished output of the killed job was changed";

#[test]
fn an_unfinished_output_that_was_changed_is_written_again() {
    for job in [
        numbers(),
        sort_of(others::lines(150_000, u64::MAX), "-r --threads 1"),
        job_of(
            others::lines(750_000, u64::MAX),
            "shuffle",
            "--memory 18MiB --threads 1",
        ),
        job_of(
            random_u64(900_000, 22),
            "shuffle",
            "--type u64 --memory 6MiB --threads 1",
        ),
    ] {
        let sync = late_sync(&job);
        let changes: [(&str, &Change); 4] = [
            ("cut", &|bytes| bytes.clear()),
            ("zeroed", &|bytes| bytes.fill(0)),
            ("another", &|bytes| *bytes = Numbers(3).bytes(bytes.len())),
            ("flipped", &|bytes| {
                bytes.chunks_mut(4096).for_each(|block| block[7] ^= 1);
            }),
        ];
        for (how, change) in changes {
            killed_while_it_writes(&job, sync);
            change_output(&job, change);
            let answer = job.resume().ok();
            assert!(answer.stderr.contains(CHANGED), "{how} {answer:?}");
            assert!(answer.stderr.contains("continues"), "{how} {answer:?}");
            job.is_whole(how);
        }
        // A copy with the same bytes is as good as the file itself.
        killed_while_it_writes(&job, sync);
        change_output(&job, |_| {});
        let answer = job.resume().ok();
        assert!(!answer.stderr.contains(CHANGED), "{answer:?}");
        job.is_whole("copied");
    }
}

#[test]
fn a_flipped_bit_costs_only_the_part_that_it_is_in() {
    let job = sort_of(
        random_u64(2_000_000, 7),
        "--type u64 --threads 1 --memory 6MiB",
    );
    let sync = late_sync(&job);
    let written = |flips: bool| {
        killed_while_it_writes(&job, sync);
        if flips {
            change_output(&job, |bytes| bytes[5000] ^= 1);
        }
        let words = [&job.command[..], &["--json".to_owned()]].concat();
        let summary = job.place.run(&words).ok().event("summary");
        job.is_whole("flipped");
        summary["written_bytes"].as_u64().unwrap()
    };
    let (least, with_flip) = (written(false), written(true));
    assert!(
        with_flip > least && with_flip < least + 4_000_000,
        "{least} {with_flip}"
    );
}

#[test]
fn a_job_whose_unfinished_output_is_gone_begins_anew_and_says_so() {
    let job = numbers();
    killed_while_it_writes(&job, late_sync(&job));
    std::fs::remove_file(&files(&job, "output-0")[0]).unwrap();
    let answer = job.resume().ok();
    assert!(
        answer.stderr.contains("is gone; it begins anew"),
        "{answer:?}"
    );
    assert!(!answer.stderr.contains("continues"), "{answer:?}");
    job.is_whole("gone");
}

#[test]
fn a_place_is_the_same_whatever_its_spelling() {
    let job = numbers();
    let place = &job.place;
    place.make_dir("drive");
    std::os::unix::fs::symlink("drive", place.path("link")).unwrap();
    std::os::unix::fs::symlink(".", place.path("here")).unwrap();
    let run = |source: &str, drive: &str, fault: Option<&str>| {
        let line = format!(
            "sort {source} -o out --drive {drive} --type u64 --memory 4MiB --threads 1 --resume"
        );
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        if let Some(fault) = fault {
            command.env("OUTCORE_FAULT", fault);
        }
        Answer::of(command.output().unwrap())
    };
    let absolute = place.path("drive");
    for (source, drive) in [
        ("./in", "drive/"),
        ("here/in", "./drive/../drive"),
        ("in", "link"),
        ("drive/../in", absolute.to_str().unwrap()),
    ] {
        let killed = run("in", "drive", Some("kill@350"));
        assert!(killed.code.is_none() && job.is_kept(), "{killed:?}");
        let answer = run(source, drive, None).ok();
        assert!(answer.stderr.contains("continues"), "{drive} {answer:?}");
        assert!(place.read("out") == job.expected, "{drive}");
        job.remove_output();
        assert_eq!(names_in(&absolute), [""; 0], "{drive}");
    }
    // A name in another directory is another output.
    place.make_dir("other");
    run("in", "drive", Some("kill@350"));
    run("in", "other", None).fails(2, &["place for scratch was", "/other now"], "begin anew");
}

#[test]
fn a_run_that_is_killed_at_its_very_end_leaves_nothing_for_long() {
    let job = numbers();
    let place = &job.place;
    place.make_dir("drive");
    let line = "sort in -o out --drive drive --type u64 --memory 4MiB --threads 1 --resume";
    let words: Vec<&str> = line.split(' ').collect();
    let mut refused = 0;
    for nth in 1.. {
        let mut command = place.command(&words);
        command.env("OUTCORE_FAULT", format!("kill@{nth}:control"));
        let killed = Answer::of(command.output().unwrap());
        let was_there = place.path("out").exists();
        let again = place.run(&words);
        match again.code {
            Some(0) => {}
            _ => {
                assert!(was_there, "{nth}");
                refused += 1;
                again.fails(2, &["it exists already"], "--force");
            }
        }
        assert!(place.read("out") == job.expected, "{nth}");
        assert_eq!(place.names(), ["drive", "in", "out"], "{nth}");
        assert_eq!(names_in(&place.path("drive")), [""; 0], "{nth}");
        job.remove_output();
        if killed.code == Some(0) {
            break;
        }
    }
    println!("{refused} runs found a finished output without a journal");
}
