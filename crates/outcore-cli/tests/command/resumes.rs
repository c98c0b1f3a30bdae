//! Jobs that are killed, stopped or fail, and are continued with `--resume`: the bytes are those of
//! a run without a fault, and nothing is left.
//!
//! Contract: the process kills itself after the operation with the number in `OUTCORE_FAULT`. Each
//! test raises that number to the end of a small job; `RESUME_KILLS=all` tries each number;
//! otherwise the steps are odd and grow with the number. A fault then also hits an operation of the
//! run that resumes.

mod changed;
mod lines;
mod others;
mod passes;
mod published;
mod redone;
mod tables;
mod views;

use std::cell::OnceCell;
use std::process::Child;

use crate::support::*;

/// A job whose directory is in memory, and the bytes that it must write.
struct Resumed {
    place: TestDir,
    /// The names of the input and the output.
    names: [&'static str; 2],
    input: Vec<u8>,
    expected: Vec<u8>,
    command: Vec<String>,
    /// The approximate number of operations of a run without a fault.
    operations: OnceCell<u64>,
}

/// A sort of these bytes with scratch next to the output.
fn sort_of(input: Vec<u8>, options: &str) -> Resumed {
    job_of(input, "sort", options)
}

/// A job with these bytes and scratch next to the output.
fn job_of(input: Vec<u8>, verb: &str, options: &str) -> Resumed {
    let place = TestDir::in_memory();
    place.write("in", &input);
    let memory = if options.contains("--memory") {
        ""
    } else {
        "--memory 4MiB"
    };
    let command = format!("{verb} in -o out --drive . {memory} --resume {options}");
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let plain: Vec<&String> = command.iter().filter(|word| *word != "--resume").collect();
    place.run(&plain).ok();
    let expected = place.read("out");
    assert!(expected != input);
    std::fs::remove_file(place.path("out")).unwrap();
    Resumed {
        place,
        names: ["in", "out"],
        input,
        expected,
        command,
        operations: OnceCell::new(),
    }
}

fn numbers() -> Resumed {
    sort_of(random_u64(700_000, 5), "--type u64 --threads 1")
}

/// The next number of an operation to try.
fn after(nth: u64) -> u64 {
    match std::env::var("RESUME_KILLS").as_deref() {
        Ok("all") => nth + 1,
        _ => nth + ((nth / 4) | 1),
    }
}

/// A job that is killed and continued.
trait Killed {
    /// The directory of the job.
    fn place(&self) -> &TestDir;

    /// The words of the command.
    fn command(&self) -> &[String];

    /// Checks that the output is right and that nothing else exists; removes the output.
    fn is_whole(&self, when: &str);

    fn run_with(&self, fault: &str) -> Answer {
        let mut command = self.place().command(self.command());
        command.env("OUTCORE_FAULT", fault);
        Answer::of(command.output().unwrap())
    }

    fn resume(&self) -> Answer {
        self.place().run(self.command())
    }

    /// Kills the job at later and later operations, and then the run that continues it. Returns how
    /// many runs continued another.
    fn walk_twice(&self) -> u32 {
        let (mut continued, mut nth) = (0, 1);
        let mut numbers = Numbers(7);
        loop {
            let when = format!("{:?} kill@{nth}", self.command());
            let answer = self.run_with(&format!("kill@{nth}"));
            if answer.code == Some(0) {
                assert!(!answer.stderr.contains("continues"), "{when} {answer:?}");
                self.is_whole(&when);
                println!("{when}: {continued} continued");
                return continued;
            }
            assert!(answer.code.is_none(), "{when} {answer:?}");
            let second = format!("kill@{}", 1 + numbers.next() % (nth + 40));
            let mut answer = self.run_with(&second);
            if answer.code.is_none() {
                continued += u32::from(answer.stderr.contains("continues"));
                answer = self.resume();
            }
            let answer = answer.ok();
            continued += u32::from(answer.stderr.contains("continues"));
            self.is_whole(&format!("{when}, then {second}"));
            nth = after(nth);
        }
    }
}

impl Killed for Resumed {
    fn place(&self) -> &TestDir {
        &self.place
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    #[track_caller]
    fn is_whole(&self, when: &str) {
        let [source, output] = self.names;
        assert_eq!(self.place.names(), self.names, "{when}");
        assert!(self.place.read(output) == self.expected, "{when}: wrong");
        assert!(self.place.read(source) == self.input, "{when}");
        self.remove_output();
    }
}

impl Resumed {
    fn remove_output(&self) {
        std::fs::remove_file(self.place.path(self.names[1])).unwrap();
    }

    /// Whether a killed run can be continued now.
    fn is_kept(&self) -> bool {
        let listed = self.place.run(&["scratch", "list", "."]).ok().text();
        listed.contains("resumable")
    }

    /// Disturbs the job at later and later operations, and then the run that continues it. Returns
    /// how often something was kept, and the number of operations.
    fn walk(&self, fault: &str) -> (u32, u64) {
        self.walk_by(fault, after)
    }

    /// As `walk`, at only a few operations, unless `RESUME_KILLS` asks for each.
    fn walk_few(&self, fault: &str) -> (u32, u64) {
        self.walk_by(fault, |nth| match after(nth) - nth {
            1 if nth > 8 => nth + 1,
            _ => nth * 7 / 4 + 12,
        })
    }

    fn walk_by(&self, fault: &str, after: impl Fn(u64) -> u64) -> (u32, u64) {
        let (mut kept, mut nth) = (0, 1);
        let mut numbers = Numbers(nth);
        loop {
            let when = format!("{fault}@{nth}");
            let answer = self.run_with(&when);
            if answer.code == Some(0) && !answer.stderr.contains("continues") {
                self.is_whole(&when);
                println!(
                    "{}: {nth} operations, {kept} resumed",
                    self.command.join(" ")
                );
                return (kept, nth);
            }
            assert!(fault != "kill" || answer.code.is_none(), "{answer:?}");
            kept += u32::from(self.is_kept());
            let second = format!("kill@{}", 1 + numbers.next() % (nth + 40));
            let answer = self.run_with(&second);
            assert!(
                [None, Some(0)].contains(&answer.code),
                "{when} {second} {answer:?}"
            );
            if answer.code.is_none() {
                self.resume().ok();
            }
            self.is_whole(&format!("{when}, then {second}"));
            nth = after(nth);
        }
    }
}

#[test]
fn a_sort_of_numbers_that_is_killed_anywhere_resumes_to_the_same_bytes() {
    let (kept, operations) = numbers().walk("kill");
    assert!(kept > 5 && operations > 100, "{kept} {operations}");
}

#[test]
fn a_sort_of_floats_on_two_threads_that_is_killed_resumes_to_the_same_bytes() {
    let mut numbers = Numbers(2);
    let floats = (0..600_000).flat_map(|_| ((numbers.next() % 90_000) as f64).to_le_bytes());
    let job = sort_of(floats.collect(), "--type f64 --descending --threads 2");
    let (kept, _) = job.walk("kill");
    assert!(kept > 5, "{kept}");
}

#[test]
fn a_sort_of_records_that_is_killed_resumes_to_the_same_bytes() {
    let records = Numbers(3).bytes(50_000 * 100);
    let options = "--record 100 --key 10:2 --key 3:4:u32:desc --threads 1";
    let (kept, _) = sort_of(records, options).walk("kill");
    assert!(kept > 5, "{kept}");
}

#[test]
fn a_stable_sort_that_is_killed_resumes_to_the_same_bytes() {
    let mut numbers = Numbers(9);
    // Few keys, so that the order of the input decides.
    let records = (0..90_000).flat_map(|_| {
        let key = (numbers.next() % 500) as u16;
        let rest = numbers.bytes(46);
        key.to_be_bytes().into_iter().chain(rest)
    });
    let records: Vec<u8> = records.collect();
    for threads in [1, 2] {
        let options = format!("--record 48 --key 0:2 --stable --threads {threads}");
        let (kept, _) = sort_of(records.clone(), &options).walk("kill");
        assert!(kept > 5, "{kept}");
    }
}

#[test]
fn frequent_values_and_sorted_inputs_are_resumed() {
    let mut numbers = Numbers(4);
    // Half of all items are equal, and the rest are ascending.
    let items = (0..700_000_u64).flat_map(|place| match numbers.next() % 2 {
        0 => 77_u64.to_le_bytes(),
        _ => place.to_le_bytes(),
    });
    let job = sort_of(items.collect(), "--type u64 --threads 2");
    let (kept, _) = job.walk("kill");
    assert!(kept > 3, "{kept}");
}

#[test]
fn a_sort_that_keeps_one_item_per_key_is_resumed() {
    let mut numbers = Numbers(6);
    let items = (0..700_000).flat_map(|_| (numbers.next() % 400_000).to_le_bytes());
    let job = sort_of(items.collect(), "--type u64 --unique --threads 1");
    let (kept, _) = job.walk("kill");
    assert!(kept > 5, "{kept}");
}

#[test]
fn an_array_with_a_header_is_resumed() {
    let job = numbers();
    let header = "{'descr': '<u8', 'fortran_order': False, 'shape': (700000,), }";
    let header = format!("{header:<117}\n");
    let npy = [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &job.input].concat();
    job.place.write("a.npy", &npy);
    let words = "sort a.npy -o b.npy --drive . --memory 4MiB --threads 1 --resume";
    let words: Vec<&str> = words.split(' ').collect();
    for nth in [250, 300, 350, 400, 450] {
        let mut command = job.place.command(&words);
        command.env("OUTCORE_FAULT", format!("kill@{nth}"));
        let answer = Answer::of(command.output().unwrap());
        if answer.code.is_none() {
            job.place.run(&words).ok();
        }
        let sorted = job.place.read("b.npy");
        assert!(sorted.ends_with(&job.expected), "{nth}");
        std::fs::remove_file(job.place.path("b.npy")).unwrap();
    }
    assert_eq!(job.place.names(), ["a.npy", "in"]);
}

#[test]
fn a_sort_that_fails_keeps_its_checkpoints_and_resumes() {
    let job = numbers();
    for fault in ["eio", "enospc"] {
        let (kept, _) = job.walk(fault);
        assert!(kept > 5, "{fault} {kept}");
    }
}

/// A number of operations that a run reaches. The run has at most a 16th more.
fn operations_of(job: &Resumed) -> u64 {
    let mut nth = 1024_u64;
    while job.run_with(&format!("kill@{nth}")).code.is_none() {
        job.resume().ok();
        job.remove_output();
        nth *= 2;
    }
    job.remove_output();
    let mut beyond = nth;
    nth /= 2;
    while nth + nth / 16 < beyond {
        let middle = nth.midpoint(beyond);
        match job.run_with(&format!("kill@{middle}")).code {
            None => {
                job.resume().ok();
                nth = middle;
            }
            Some(_) => beyond = middle,
        }
        job.remove_output();
    }
    nth
}

/// Kills a run after this part of its operations, and leaves the files that the run has kept.
fn killed_at(job: &Resumed, part: f64) {
    let nth = *job.operations.get_or_init(|| operations_of(job));
    // With several threads, the number of operations varies.
    let mut last = (nth as f64 * part) as u64;
    loop {
        let answer = job.run_with(&format!("kill@{last}"));
        if answer.code.is_none() && job.is_kept() {
            return;
        }
        if answer.code.is_none() {
            job.resume().ok();
        }
        job.remove_output();
        last -= last / 16 + 1;
    }
}

fn killed_late(job: &Resumed) {
    killed_at(job, 0.8);
}

#[test]
fn a_resumed_run_does_not_write_again_what_the_killed_one_wrote() {
    // The data take one distribution.
    let job = sort_of(
        random_u64(2_000_000, 7),
        "--type u64 --threads 1 --memory 8MiB --json",
    );
    let whole = job.resume().ok().event("summary");
    std::fs::remove_file(job.place.path("out")).unwrap();
    let bytes = |summary: &serde_json::Value| {
        let bytes = |name: &str| summary[name].as_u64().unwrap();
        (bytes("read_bytes"), bytes("written_bytes"))
    };
    // The end of the distribution is always a checkpoint.
    killed_at(&job, 0.8);
    let rest = job.resume().ok().event("summary");
    let ((read, written), (read_rest, written_rest)) = (bytes(&whole), bytes(&rest));
    println!("reads {read_rest} of {read}, writes {written_rest} of {written}");
    assert!(written_rest <= written * 2 / 3);
    job.is_whole("late");
}

#[test]
fn another_job_with_the_same_output_is_refused_with_the_difference() {
    let job = numbers();
    killed_late(&job);
    let kept = job.place.names();
    let with = |more: &[&str]| {
        let words = job.command.iter().map(String::as_str);
        let words: Vec<&str> = words.chain(more.iter().copied()).collect();
        job.place.run(&words)
    };
    let answer = with(&["--descending"]);
    assert!(!answer.stderr.contains("continues"), "{answer:?}");
    answer.fails(
        2,
        &["descending order was false, and is true"],
        "begin anew: outcore scratch clean --resumable .",
    );
    let other = "shuffle in -o out --drive . --memory 4MiB --resume --type u64 --threads 1";
    let other: Vec<&str> = other.split(' ').collect();
    job.place.run(&other).fails(
        2,
        &["kind of job was sort of records, and is shuffle now"],
        "begin anew",
    );
    let mut changed = job.input.clone();
    changed[9] ^= 1;
    job.place.write("in", &changed);
    with(&[]).fails(2, &["another one", "/in was written to"], "begin anew");
    job.place.write("in", &job.input[8..]);
    with(&[]).fails(2, &["had 5600000 bytes, and has 5599992 now"], "begin anew");
    assert_eq!(job.place.names(), kept, "nothing is removed");
    // A run without --resume leaves the killed run alone.
    let words: Vec<&String> = job
        .command
        .iter()
        .filter(|word| *word != "--resume")
        .collect();
    let answer = job.place.run(&words).ok();
    assert!(answer.stderr.contains("continue it with: "), "{answer:?}");
    assert!(
        answer
            .stderr
            .contains("sort in -o out --drive . --memory 4MiB --resume")
    );
    assert!(job.is_kept());
    job.place
        .run(&["scratch", "clean", ".", "--resumable"])
        .ok();
    assert_eq!(job.place.names(), ["in", "out"]);
}

#[test]
fn what_can_be_resumed_is_listed_and_kept_for_as_long_as_was_said() {
    let job = numbers();
    killed_late(&job);
    let listed = job.place.run(&["scratch", "list", "."]).ok().text();
    assert!(listed.contains("resumable at "), "{listed}");
    assert!(
        listed.contains("sort in -o out --drive . --memory 4MiB --resume"),
        "{listed}"
    );
    let events = job.place.run(&["scratch", "list", ".", "--json"]).ok();
    let listed = events.events();
    let found = listed
        .iter()
        .find(|event| event["event"] == "scratch")
        .unwrap();
    let percent = found["resume"]["done_percent"].as_u64().unwrap();
    assert!((1..=100).contains(&percent), "{found}");
    assert!(found["resume"]["age_seconds"].is_u64(), "{found}");
    // Cleaning and other jobs leave the killed run alone.
    let cleaned = job.place.run(&["scratch", "clean", "."]).ok();
    assert!(
        cleaned.stderr.contains("--resumable removes it"),
        "{cleaned:?}"
    );
    job.place
        .run(&["sort", "in", "-o", "other", "--type", "u64"])
        .ok();
    std::fs::remove_file(job.place.path("other")).unwrap();
    assert!(job.is_kept());
    job.resume().ok();
    job.is_whole("after the list");
    let mut command = job.place.command(&job.command);
    command
        .env("OUTCORE_FAULT", "kill@300")
        .env("OUTCORE_RESUME_DAYS", "0");
    command.output().unwrap();
    assert!(!job.is_kept());
    job.place.run(&["scratch", "clean", "."]).ok();
    assert_eq!(job.place.names(), ["in"]);
}

/// Waits until a fault has stopped a child.
fn wait_until_stopped(child: &Child) {
    let stat = format!("/proc/{}/stat", child.id());
    wait_until("it stops", || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit_once(')')
            .is_some_and(|(_, rest)| rest.starts_with(" T"))
    });
}

/// Sends a signal to a child.
fn signal(child: &Child, signal: rustix::process::Signal) {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, signal).unwrap();
}

#[test]
fn of_two_runs_that_resume_one_job_the_second_is_refused() {
    let job = numbers();
    killed_late(&job);
    let mut command = job.place.command(&job.command);
    command.env("OUTCORE_FAULT", "stop@4");
    let mut first = command.spawn().unwrap();
    wait_until_stopped(&first);
    job.resume().fails(
        2,
        &["another run resumes this job"],
        "wait until it has ended",
    );
    signal(&first, rustix::process::Signal::CONT);
    assert!(wait_for(&mut first).success());
    job.is_whole("resumed twice");
}

#[test]
fn an_interrupted_sort_resumes() {
    let job = numbers();
    let mut command = job.place.command(&job.command);
    command.env("OUTCORE_FAULT", "stop@350");
    let mut child = command.spawn().unwrap();
    wait_until_stopped(&child);
    signal(&child, rustix::process::Signal::INT);
    signal(&child, rustix::process::Signal::CONT);
    assert_eq!(wait_for(&mut child).code(), Some(130));
    assert!(job.is_kept());
    job.resume().ok();
    job.is_whole("interrupted");
}

/// The files of the killed run whose names begin in this way.
fn files(job: &Resumed, beginning: &str) -> Vec<std::path::PathBuf> {
    let dirs = job
        .place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(".outcore-"));
    let found = dirs.flat_map(|dir| {
        let dir = job.place.path(&dir);
        names_in(&dir).into_iter().map(move |name| dir.join(name))
    });
    let is_it = |path: &std::path::PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(beginning)
    };
    found.filter(is_it).collect()
}

#[test]
fn a_damaged_journal_is_resumed_from_before_the_damage_or_begun_anew() {
    let job = numbers();
    let mut numbers = Numbers(8);
    for cut in [true, false, false, false, true, false, false] {
        killed_late(&job);
        let path = &files(&job, "journal")[0];
        let mut bytes = std::fs::read(path).unwrap();
        let at = (numbers.next() % bytes.len() as u64) as usize;
        match cut {
            true => bytes.truncate(at),
            false => bytes[at] ^= 1,
        }
        std::fs::write(path, bytes).unwrap();
        job.resume().ok();
        job.is_whole(&format!("journal damaged at {at}"));
    }
}

#[test]
fn damaged_scratch_of_a_killed_run_is_an_error_that_names_it() {
    let job = numbers();
    killed_late(&job);
    for path in files(&job, "scratch-") {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.chunks_mut(4096).for_each(|block| block[0] ^= 1);
        std::fs::write(&path, bytes).unwrap();
    }
    let clean = "begin anew: outcore scratch clean --resumable .";
    job.resume()
        .fails(4, &["checksum of a block", "scratch-"], clean);
    job.resume()
        .fails(4, &["checksum of a block"], "sort again");
    job.place
        .run(&["scratch", "clean", "--resumable", "."])
        .ok();
    job.resume().ok();
    job.is_whole("given up");
}

#[test]
fn a_killed_run_whose_scratch_is_gone_begins_anew() {
    let job = numbers();
    let drive = job.place.make_dir("drive");
    let words = "sort in -o out --drive drive --memory 4MiB --type u64 --threads 1 --resume";
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = job.place.command(&words);
    command.env("OUTCORE_FAULT", "kill@350");
    assert!(!command.status().unwrap().success());
    assert!(job.is_kept());
    std::fs::remove_dir_all(&drive).unwrap();
    std::fs::create_dir(&drive).unwrap();
    let answer = job.place.run(&words).ok();
    assert!(answer.stderr.contains("it begins anew"), "{answer:?}");
    assert!(job.place.read("out") == job.expected);
    assert_eq!(job.place.names(), ["drive", "in", "out"]);
}

#[test]
fn other_memory_and_threads_change_nothing_unless_the_memory_is_too_little() {
    let job = numbers();
    let with = |memory: &str, threads: &str, fault: &str| {
        let words = "sort in -o out --drive . --type u64 --resume --memory";
        let words = words.split(' ').chain([memory, "--threads", threads]);
        let mut command = job.place.command(&words.collect::<Vec<_>>());
        command.env("OUTCORE_FAULT", fault);
        Answer::of(command.output().unwrap())
    };
    with("6MiB", "2", "kill@200");
    assert!(job.is_kept());
    let refused = with("4MiB", "1", "kill@9999");
    refused.fails(6, &["the plan of the killed job needs"], "--memory 6MiB");
    with("64MiB", "4", "kill@9999").ok();
    job.is_whole("more memory");
}

#[test]
fn what_cannot_be_resumed_rejects_the_option() {
    let job = numbers();
    let run = |line: &str| job.place.run(&line.split(' ').collect::<Vec<_>>());
    run("sort in --type u64 --resume -o -").fails(2, &["one file"], "");
    run("sort in --type u64 -o o --resume --delete-input").fails(2, &["--delete-input"], "");
    run("sort - --type u64 -o o --resume").fails(2, &["a stream"], "");
    run("reverse in --type u64 -o o --resume").fails(2, &["--resume"], "");
    assert_eq!(job.place.names(), ["in"]);
}
