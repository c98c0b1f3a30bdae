//! Jobs that are killed after they have put their output in place, and jobs that are not the same.
//!
//! Contract: a killed run counts as done only for the same job, and only while its output is the
//! file that it wrote. Every other job begins anew by the usual rules, or outcore rejects it,
//! names what is different, and removes nothing.

use super::*;

const DONE: &str = "nothing is left to do";

/// The command with more words.
fn with(job: &Resumed, more: &[&str]) -> Answer {
    let words = job.command.iter().map(String::as_str);
    let words: Vec<&str> = words.chain(more.iter().copied()).collect();
    job.place.run(&words)
}

/// Removes what a killed run has left, and gives the input and the output their first contents.
fn reset(job: &Resumed) {
    let clean = ["scratch", "clean", ".", "--resumable"];
    job.place.run(&clean).ok();
    job.place.write("in", &job.input);
    std::fs::remove_file(job.place.path("out")).ok();
}

/// Whether the output, or the input that it replaces, has its final contents.
fn is_published(job: &Resumed) -> bool {
    let out = job.place.path("out");
    out.exists() || job.place.read("in") != job.input
}

/// The number of the operation on names and lengths that gives the output its name. The job is
/// killed after it, so that its journal is left. Other operations depend on the time.
fn published(job: &Resumed) -> u64 {
    for nth in 1..200 {
        reset(job);
        let answer = job.run_with(&format!("kill@{nth}:control"));
        assert!(answer.code.is_none(), "{nth}: {answer:?}");
        if is_published(job) {
            assert!(job.is_kept());
            return nth;
        }
    }
    panic!("no kill leaves an output and a journal");
}

#[test]
fn a_job_is_done_only_if_it_is_the_same_and_its_output_is_in_place() {
    let job = numbers();
    let sorted = |options: &[&str]| {
        let words = ["sort", "in", "-o", "plain", "--force", "--memory", "8MiB"];
        let words: Vec<&str> = words.iter().chain(options).copied().collect();
        job.place.run(&words).ok();
        let sorted = job.place.read("plain");
        std::fs::remove_file(job.place.path("plain")).unwrap();
        sorted
    };
    published(&job);
    let done = with(&job, &[]).ok();
    assert!(done.stderr.contains(DONE), "{done:?}");
    job.is_whole("done");

    // The job has another order, another type, another length of the input, or another file at that
    // name.
    published(&job);
    with(&job, &["--descending"]).fails(2, &["it exists already"], "--force");
    let answer = with(&job, &["--descending", "--force"]).ok();
    assert!(!answer.stderr.contains(DONE), "{answer:?}");
    assert!(job.place.read("out") == sorted(&["--type", "u64", "--descending"]));
    assert_eq!(job.place.names(), ["in", "out"]);

    published(&job);
    let longer = [&job.input[..], &[0; 8]].concat();
    job.place.write("in", &longer);
    with(&job, &[]).fails(2, &["it exists already"], "--force");
    let answer = with(&job, &["--force"]).ok();
    assert!(!answer.stderr.contains(DONE), "{answer:?}");
    assert!(job.place.read("out") == sorted(&["--type", "u64"]));

    published(&job);
    let place = job.place.make_dir("place");
    with(&job, &["--drive", place.to_str().unwrap()]).fails(2, &["it exists already"], "--force");
    std::fs::remove_dir(place).unwrap();
    // A copy has the same bytes, and is another file.
    let out = job.place.path("out");
    std::fs::copy(&out, job.place.path("copy")).unwrap();
    std::fs::rename(job.place.path("copy"), &out).unwrap();
    with(&job, &[]).fails(2, &["it exists already"], "--force");
    let answer = with(&job, &["--force"]).ok();
    assert!(!answer.stderr.contains(DONE), "{answer:?}");
    job.is_whole("a copy");

    // The output was moved away.
    published(&job);
    std::fs::rename(&out, job.place.path("moved")).unwrap();
    let answer = with(&job, &[]).ok();
    assert!(!answer.stderr.contains(DONE), "{answer:?}");
    std::fs::remove_file(job.place.path("moved")).unwrap();
    job.is_whole("moved away");
}

/// Kills a job at an operation on names and lengths, and then runs it again. Does this for each
/// such operation, from shortly before the output is in place to the end of the job.
fn walk_the_end(job: &Resumed) {
    let (mut done, mut nth) = (0, published(job).saturating_sub(4));
    loop {
        reset(job);
        let answer = job.run_with(&format!("kill@{nth}:control"));
        if answer.code.is_some() {
            break;
        }
        let was_published = is_published(job);
        let again = job.resume().ok();
        assert_eq!(
            again.stderr.contains(DONE),
            was_published,
            "{nth} {again:?}"
        );
        is_right_and_alone(job, &format!("{nth}"));
        done += u32::from(was_published);
        nth += 1;
    }
    assert!(done > 0);
}

#[track_caller]
fn is_right_and_alone(job: &Resumed, when: &str) {
    let name = if job.place.path("out").exists() {
        "out"
    } else {
        "in"
    };
    assert!(job.place.read(name) == job.expected, "{when}: wrong");
    let names = job.place.names();
    assert!(
        !names.iter().any(|name| name.starts_with('.')),
        "{when}: {names:?}"
    );
}

#[test]
fn the_journal_stays_until_scratch_is_gone() {
    use rustix::fs::inotify;
    let job = numbers();
    let nth = published(&job);
    reset(&job);
    let mut command = job.place.command(&job.command);
    command.env("OUTCORE_FAULT", format!("stop@{nth}:control"));
    let mut child = command.spawn().unwrap();
    wait_until_stopped(&child);
    let journal = files(&job, "journal")[0].parent().unwrap().to_path_buf();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    inotify::add_watch(&watch, job.place.path("."), inotify::WatchFlags::DELETE).unwrap();
    signal(&child, rustix::process::Signal::CONT);
    assert!(wait_for(&mut child).success());
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 4096];
    let mut events = inotify::Reader::new(&watch, &mut buffer);
    let mut removed = Vec::new();
    while let Ok(event) = events.next() {
        let name = event.file_name().unwrap().to_string_lossy().into_owned();
        removed.push(name);
    }
    assert_eq!(removed.len(), 2, "{removed:?}");
    assert_eq!(removed[1], journal.file_name().unwrap().to_string_lossy());
    job.is_whole("after the end");

    // Lost scratch changes nothing.
    published(&job);
    let scratch = files(&job, "scratch-")[0].parent().unwrap().to_path_buf();
    std::fs::remove_dir_all(scratch).unwrap();
    let answer = job.resume().ok();
    assert!(answer.stderr.contains(DONE), "{answer:?}");
    job.is_whole("without scratch");
}

#[test]
fn a_kill_after_the_output_is_in_place_is_recognised_until_the_end() {
    walk_the_end(&numbers());
    let lines = others::lines(160_000, 60_000);
    walk_the_end(&job_of(lines, "unique", "--threads 1"));
}

#[test]
fn a_job_in_place_is_not_done_twice() {
    let options = "--type u64 --memory 6MiB --threads 1";
    let mut shuffle = job_of(random_u64(900_000, 22), "shuffle", options);
    let words =
        "shuffle in -o in --replace --drive . --resume --type u64 --memory 6MiB --threads 1";
    shuffle.command = words.split(' ').map(str::to_owned).collect();
    walk_the_end(&shuffle);
    // A job with more data than the killed run had is another job.
    published(&shuffle);
    let longer = [&shuffle.expected[..], &[1; 8]].concat();
    shuffle.place.write("in", &longer);
    let answer = shuffle.resume().ok();
    assert!(!answer.stderr.contains(DONE), "{answer:?}");
    assert!(shuffle.place.read("in") != longer);
}

#[test]
fn other_drives_for_scratch_are_refused_and_nothing_is_removed() {
    let job = numbers();
    for name in ["one", "two", "three"] {
        job.place.make_dir(name);
    }
    let run = |drives: &[&str], fault: &str| {
        let words = "sort in -o out --memory 4MiB --type u64 --threads 1 --resume".split(' ');
        let drives = drives.iter().flat_map(|drive| ["--drive", drive]);
        let words: Vec<&str> = words.chain(drives).collect();
        let mut command = job.place.command(&words);
        command.env("OUTCORE_FAULT", fault);
        Answer::of(command.output().unwrap())
    };
    let kept = || ["one", "two"].map(|name| names_in(&job.place.path(name)).len());
    assert!(run(&["one", "two"], "kill@350").code.is_none());
    assert_eq!(kept(), [1, 1]);
    for drives in [
        &["two", "one"][..],
        &["one", "three"],
        &["one"],
        &["one", "two", "three"],
    ] {
        let refused = run(drives, "kill@9999");
        assert!(!refused.stderr.contains("continues: "), "{refused:?}");
        refused.fails(
            2,
            &["another one: its place for scratch was ", "/one, "],
            "begin anew: outcore scratch clean --resumable ",
        );
        assert_eq!(kept(), [1, 1], "{drives:?}");
    }
    let answer = run(&["one", "two"], "kill@9999").ok();
    assert!(answer.stderr.contains("continues"), "{answer:?}");
    assert!(job.place.read("out") == job.expected);
    assert_eq!(kept(), [0, 0]);
}

#[test]
fn only_errors_that_may_pass_say_that_resuming_helps() {
    let job = numbers();
    killed_late(&job);
    let refused = with(&job, &["--descending"]);
    assert!(!refused.stderr.contains("is kept"), "{refused:?}");
    refused.fails(2, &["another one"], "outcore scratch clean --resumable");
    let failed = job.run_with("eio@20");
    assert!(
        failed
            .stderr
            .contains("the same command with --resume continues"),
        "{failed:?}"
    );
}

#[test]
fn a_log_of_scratch_that_is_gone_or_cut_lets_the_job_begin_anew() {
    let job = numbers();
    for is_cut in [false, true] {
        killed_late(&job);
        let log = &files(&job, "scratch-")[0];
        match is_cut {
            false => std::fs::remove_file(log).unwrap(),
            true => std::fs::write(log, b"").unwrap(),
        }
        // Another job is still rejected, and removes nothing.
        with(&job, &["--descending"]).fails(2, &["descending order"], "begin anew");
        assert!(job.is_kept());
        let answer = job.resume().ok();
        assert!(answer.stderr.contains("it begins anew"), "{answer:?}");
        job.is_whole("without a log");
    }
}

#[test]
fn cleaning_counts_what_can_be_resumed() {
    let job = numbers();
    for options in [&["--json"][..], &[]] {
        killed_late(&job);
        let kept = job
            .place
            .names()
            .iter()
            .filter(|name| name.starts_with('.'))
            .count();
        assert_eq!(kept, 2);
        let words = ["scratch", "clean", ".", "--resumable"];
        let words: Vec<&str> = words.iter().chain(options).copied().collect();
        let cleaned = job.place.run(&words).ok();
        match options {
            [] => assert!(cleaned.stderr.contains("removed 2 scratch"), "{cleaned:?}"),
            _ => {
                assert_eq!(cleaned.event("summary")["directories"], 2);
                let events = cleaned.events();
                let removed = events.iter().filter(|event| event["event"] == "removed");
                assert_eq!(removed.count(), 2);
            }
        }
        assert_eq!(job.place.names(), ["in"]);
    }
}
