//! `outcore view`: a view gives the bytes that `outcore sort` writes. Mounts end with their server,
//! however it ends.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// A file of random numbers and a view of it, in several runs.
fn build(place: &TestDir, more: &[&str]) -> Vec<u8> {
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
    let place = TestDir::new();
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
    place
        .run(&["view", "materialize", "v", "-o", "-"])
        .fails(2, &["into a file"], "view cat");
    assert!(!place.path("-").exists());
    place.run(&["view", "verify", "v"]).ok();
    let info = place.run(&["view", "info", "v", "--json"]).ok();
    assert_eq!(info.event("summary")["records"], 60_000);
}

#[test]
fn a_build_can_be_read_at_once_and_further_files_be_added() {
    let place = TestDir::new();
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
fn files_that_are_no_records_are_not_added_to_a_view_of_records() {
    let place = TestDir::new();
    place.write("in.bin", &random_u64(100, 3));
    place
        .run(&["view", "build", "in.bin", "-o", "v", "--type", "u64"])
        .ok();
    let whole = place.run(&["view", "cat", "v"]).ok().stdout;
    // All are whole numbers of records of eight bytes.
    place.write("t.parquet", &[&b"PAR1"[..], &[1; 64], b"PAR1"].concat());
    place.write("t.csv", b"a,b\n12,3\n45,678\n");
    place.write("odd.bin", &[7; 12]);
    for (name, words, hint) in [
        (
            "t.parquet",
            ["a Parquet file", "the view has u64"],
            "the view's type",
        ),
        (
            "t.csv",
            ["the file is CSV", "the view has u64"],
            "the view's type",
        ),
        (
            "odd.bin",
            ["12 bytes", "not a multiple"],
            "the view's type, u64",
        ),
    ] {
        let answer = place.run(&["view", "append", "v", name]);
        answer.fails(2, &[&words[..], &[name]].concat(), hint);
        assert_eq!(
            place.run(&["view", "cat", "v"]).ok().stdout,
            whole,
            "{name}"
        );
    }
}

#[test]
fn standard_input_becomes_a_view_and_further_runs_and_is_copied_nowhere_for_good() {
    let place = TestDir::new();
    let (data, more) = (random_u64(20_000, 3), random_u64(3000, 4));
    let words = ["view", "build", "-", "-o", "v", "--memory", "64MiB"];
    place
        .run_with_input(
            &[&words[..], &["--type", "u64", "--dry-run"]].concat(),
            &data,
        )
        .fails(2, &["size of a stream"], "file");
    assert!(place.names().is_empty());
    let words = [&words[..], &["--type", "u64"]].concat();
    place.run_with_input(&words, &data).ok();
    place
        .run_with_input(&["view", "append", "v", "-"], &more)
        .ok();
    let both = sorted_u64(&[data, more].concat());
    assert_eq!(place.run(&["view", "cat", "v"]).ok().stdout, both);
    assert_eq!(place.names(), ["v"]);
}

#[test]
fn what_is_wrong_is_said_and_leaves_nothing() {
    let place = TestDir::new();
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

#[test]
fn a_view_is_made_in_a_directory_of_its_own() {
    let place = TestDir::new();
    place.write("in.bin", &random_u64(100, 3));
    place.write("t.csv", b"a\n2\n1\n");
    place.make_dir("other");
    place.write("other/notes", b"mine");
    let numbers = ["view", "build", "in.bin", "--type", "u64", "-o"];
    let rows = ["view", "build", "t.csv", "--by", "a", "-o"];
    for words in [&numbers, &rows[..]] {
        for more in [&[][..], &["--force"]] {
            let words = [words, &["other"], more].concat();
            let cause = "the directory is not a view: it contains `notes`";
            place.run(&words).fails(2, &[cause], "empty");
        }
        let words = [words, &["-"]].concat();
        let cause = "a view is a directory, and standard output is a stream";
        place.run(&words).fails(2, &[cause], "-o");
    }
    assert_eq!(names_in(&place.path("other")), ["notes"]);
    assert_eq!(place.names(), ["in.bin", "other", "t.csv"]);
}

/// Two files of numbers, two drives, and how a view of them is made and read while it is being
/// killed.
struct Small {
    place: TestDir,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Small {
    fn new() -> Self {
        let place = TestDir::in_memory();
        place.make_dir("a");
        place.make_dir("b");
        let (old, new) = (random_u64(1500, 1), random_u64(1200, 2));
        place.write("old.bin", &old);
        place.write("new.bin", &new);
        Small { place, old, new }
    }

    /// Changes the view; with a fault, if one is given.
    fn change(&self, words: &[&str], fault: &str) -> Answer {
        let resources = ["--memory", "64MiB", "--threads", "1"];
        let drives = ["--drive", "a", "--drive", "b"];
        let words = [&["view"], words, &resources, &drives].concat();
        let mut command = self.place.command(&words);
        if !fault.is_empty() {
            command.env("OUTCORE_FAULT", fault);
        }
        Answer::of(command.output().unwrap())
    }

    fn build(&self, input: &str, fault: &str) -> Answer {
        let words = ["build", input, "-o", "v", "--type", "u64", "--force"];
        self.change(&[&words[..], &["--run-size", "5KB"]].concat(), fault)
    }

    /// The contents of the view; `None` if there is no view.
    fn cat(&self) -> Option<Vec<u8>> {
        let answer = self.place.run(&["view", "cat", "v"]);
        match answer.code {
            Some(0) => Some(answer.stdout),
            _ => {
                answer.fails(3, &["open view"], "view build");
                None
            }
        }
    }

    /// Checks that the directory has this number of runs, the manifest, and nothing else.
    #[track_caller]
    fn has_only_runs(&self, runs: usize) {
        assert_eq!(names_in(&self.place.path("v")), ["view.json"]);
        let on_drives = ["a", "b"].map(|drive| names_in(&self.place.path(drive)));
        assert_eq!(on_drives.concat().len(), runs, "{on_drives:?}");
    }
}

/// Kills a change after each operation that makes, cuts, renames or removes a file; calls `check`
/// after each. Returns how often it was killed.
fn kill_each(change: impl Fn(&str) -> Answer, mut check: impl FnMut()) -> u32 {
    for nth in 1..200 {
        let answer = change(&format!("kill@{nth}:control"));
        check();
        if answer.code == Some(0) {
            return nth - 1;
        }
        assert_eq!(answer.code, None, "{answer:?}");
    }
    panic!("it does not end");
}

#[test]
fn a_view_whose_making_is_killed_is_there_whole_or_not_at_all() {
    let small = Small::new();
    let sorted = sorted_u64(&small.old);
    let mut whole = 0;
    let killed = kill_each(
        |fault| small.build("old.bin", fault),
        || {
            if let Some(bytes) = small.cat() {
                assert!(bytes == sorted);
                whole += 1;
            }
            // Nobody needs to clean up.
            small.build("old.bin", "").ok();
            small.has_only_runs(3);
            std::fs::remove_dir_all(small.place.path("v")).unwrap();
            for drive in ["a", "b"] {
                std::fs::remove_dir_all(small.place.path(drive)).unwrap();
                small.place.make_dir(drive);
            }
        },
    );
    assert!(killed > 10 && whole > 2, "{killed} {whole}");
}

#[test]
fn a_view_whose_replacing_is_killed_is_the_old_one_or_the_new_one_without_debris() {
    let small = Small::new();
    let (old, new) = (sorted_u64(&small.old), sorted_u64(&small.new));
    small.build("old.bin", "").ok();
    let mut replaced = 0;
    let killed = kill_each(
        |fault| small.build("new.bin", fault),
        || {
            let bytes = small.cat().unwrap();
            replaced += u32::from(bytes == new);
            assert!(bytes == new || bytes == old);
            small.build("old.bin", "").ok();
            small.has_only_runs(3);
        },
    );
    assert!(killed > 10 && replaced > 1, "{killed} {replaced}");
}

#[test]
fn further_runs_that_were_added_before_a_kill_are_kept_by_the_next_addition() {
    let small = Small::new();
    let (old, both) = (
        sorted_u64(&small.old),
        sorted_u64(&[&small.old[..], &small.new].concat()),
    );
    small.build("old.bin", "").ok();
    let mut added = 0;
    kill_each(
        |fault| small.change(&["append", "v", "new.bin"], fault),
        || {
            let before = small.cat().unwrap();
            assert!(before == old || before == both);
            small.change(&["append", "v", "old.bin"], "").ok();
            let after = small.cat().unwrap();
            // The next addition may have finished the killed one.
            let is_with_new = after.len() == both.len() + old.len();
            let all = match is_with_new {
                true => [&both[..], &old].concat(),
                false => [&old[..], &old].concat(),
            };
            assert!(after == sorted_u64(&all));
            assert!(is_with_new || before == old);
            added += u32::from(is_with_new);
            small.build("old.bin", "").ok();
            small.has_only_runs(3);
        },
    );
    assert!(added > 1, "{added}");
}

/// Copies a directory as `cp -r` does.
fn copy_dir(place: &TestDir, from: &str, to: &str) {
    place.make_dir(to);
    for name in names_in(&place.path(from)) {
        fs::copy(place.path(from).join(&name), place.path(to).join(&name)).unwrap();
    }
}

#[test]
fn a_copy_of_a_view_is_read_and_never_touches_the_runs_of_the_original() {
    let small = Small::new();
    let (old, new) = (sorted_u64(&small.old), sorted_u64(&small.new));
    let cat = |view: &str| small.place.run(&["view", "cat", view]).ok().stdout;
    small.build("old.bin", "").ok();
    copy_dir(&small.place, "v", "w");
    assert!(cat("w") == old);
    small.change(&["append", "w", "new.bin"], "").fails(
        2,
        &["add to view", "it was copied", "/v"],
        "another directory",
    );
    let build = ["build", "new.bin", "-o", "w", "--type", "u64", "--force"];
    small.change(&build, "").ok();
    assert!(cat("w") == new && cat("v") == old);
    // A second replacement removes only the view's own runs.
    small.change(&build, "").ok();
    assert!(cat("w") == new && cat("v") == old);
    fs::remove_dir_all(small.place.path("w")).unwrap();
    // A renamed original is still the original, and the copy that stays behind is not.
    copy_dir(&small.place, "v", "w");
    fs::rename(small.place.path("v"), small.place.path("x")).unwrap();
    let renamed = small.change(&["append", "x", "new.bin"], "");
    if renamed.code == Some(0) {
        let both = sorted_u64(&[&small.old[..], &small.new].concat());
        assert!(cat("x") == both && cat("w") == old);
    }
    // While the original is away, the owner of the runs is unknown.
    small
        .change(&build, "")
        .fails(2, &["replace view", "it was copied"], "another directory");
    assert!(cat("w") == old);
}

#[test]
fn a_view_and_its_copy_that_both_grow_on_one_drive_keep_their_own_runs() {
    let place = TestDir::new();
    for dir in ["one", "two", "drive"] {
        place.make_dir(dir);
    }
    let (data, more) = (random_u64(3000, 1), random_u64(2000, 2));
    place.write("in.bin", &data);
    place.write("more.bin", &more);
    let resources = ["--memory", "64MiB", "--threads", "1"];
    let build = ["view", "build", "in.bin", "-o", "one/v", "--type", "u64"];
    place.run(&[&build[..], &resources].concat()).ok();
    copy_dir(&place, "one/v", "two/v");
    for view in ["one/v", "two/v", "one/v"] {
        let append = ["view", "append", view, "more.bin", "--drive", "drive"];
        place.run(&[&append[..], &resources].concat()).ok();
    }
    let cat = |view: &str| place.run(&["view", "cat", view]).ok().stdout;
    assert!(cat("one/v") == sorted_u64(&[&data[..], &more, &more].concat()));
    assert!(cat("two/v") == sorted_u64(&[&data[..], &more].concat()));
    let replace = [&build[..], &resources, &["--force"]].concat();
    place.run(&replace).ok();
    assert!(cat("one/v") == sorted_u64(&data));
    assert!(cat("two/v") == sorted_u64(&[&data[..], &more].concat()));
    // The runs of the copy are left.
    let manifest = fs::read_to_string(place.path("two/v/view.json")).unwrap();
    let left = names_in(&place.path("drive"));
    assert!(
        !left.is_empty() && left.iter().all(|name| manifest.contains(name)),
        "{left:?}"
    );
}

/// The server of a mount, once the file is there; nothing where views cannot be mounted.
fn mount(place: &TestDir) -> Option<Child> {
    mount_as(place, "sorted.bin")
}

/// As [`mount`], for a mount whose file has this name.
fn mount_as(place: &TestDir, name: &str) -> Option<Child> {
    let mountpoint = place.path("m");
    // The mount may exist although its server is dead.
    let _ = fs::create_dir(&mountpoint);
    let mut child = place.spawn(&["view", "mount", "v", "m"]);
    let file = mountpoint.join(name);
    let started = Instant::now();
    // The kernel still knows the names of a dead mount; only opening a file asks the server.
    while fs::File::open(&file).is_err() {
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

/// Mounts `v`, and checks the file's name, its bytes from any place, and that the mount ends on
/// request.
pub(crate) fn check_mounted(place: &TestDir, name: &str, sorted: &[u8]) {
    let Some(mut child) = mount_as(place, name) else {
        return;
    };
    let path = place.path("m").join(name);
    assert_eq!(fs::metadata(&path).unwrap().len(), sorted.len() as u64);
    assert!(fs::read(&path).unwrap() == sorted);
    let file = fs::File::open(&path).unwrap();
    for at in (0..sorted.len() - 5000).step_by(77_777).rev() {
        let mut part = vec![0; 5000];
        file.read_exact_at(&mut part, at as u64).unwrap();
        assert!(part == sorted[at..at + 5000], "{at}");
    }
    drop(file);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(0));
    wait_unmounted(&place.path("m"));
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
    let place = TestDir::new();
    let sorted = build(&place, &[]);
    let Some(mut child) = mount(&place) else {
        return;
    };
    assert_eq!(place.read("m/sorted.bin"), sorted);
    place
        .run(&["view", "mount", "v", "m"])
        .fails(2, &["not empty"], "unmount");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(0));
    wait_unmounted(&place.path("m"));

    let mut child = mount(&place).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_unmounted(&place.path("m"));

    // If its guardian is also killed, the next mount removes the dead one.
    let mut child = mount(&place).unwrap();
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let children = |thread: std::io::Result<fs::DirEntry>| {
        fs::read_to_string(thread.unwrap().path().join("children")).unwrap()
    };
    let guardian: String = threads.map(children).collect();
    let guardian: i32 = guardian.trim().parse().unwrap();
    kill_process(Pid::from_raw(guardian).unwrap(), Signal::KILL).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let dead = fs::read_dir(place.path("m")).unwrap_err();
    assert_eq!(
        dead.raw_os_error(),
        Some(rustix::io::Errno::NOTCONN.raw_os_error()),
        "{dead}"
    );
    let mut child = mount(&place).unwrap();
    assert_eq!(place.read("m/sorted.bin"), sorted);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(wait_for(&mut child).code(), Some(0));
    wait_unmounted(&place.path("m"));
}
