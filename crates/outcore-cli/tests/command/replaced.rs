//! Inputs that are replaced while a job reads them.
//!
//! Contract: a test stops a job after its first read, moves a new file over an input, and lets the
//! job go on. It repeats this for each later read. Its result is that of the old file or of the new
//! one, or it fails with the file's name: never a mix of both.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::sequence::bytes;
use crate::support::*;
use crate::volume;

/// The most reads after which a job is stopped; small jobs have fewer.
const STOPS_MAX: u64 = 60;

/// A job and the input that is replaced.
struct Job {
    line: &'static str,
    /// The input; `NAME.old` and `NAME.new` are its two states.
    input: &'static str,
    /// Files or directories of the result.
    outputs: &'static [&'static str],
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn remove(place: &TestDir, name: &str) {
    let path = place.path(name);
    match path.is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => drop(fs::remove_file(path)),
    }
}

fn copy(place: &TestDir, from: &str, to: &str) {
    fs::copy(place.path(from), place.path(to)).unwrap();
}

/// The contents of the outputs, and the printed text.
fn result(place: &TestDir, outputs: &[&str], printed: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![printed.to_vec()];
    for name in outputs {
        let path = place.path(name);
        if !path.is_dir() {
            all.push(fs::read(path).unwrap());
            continue;
        }
        let shown = match path.join("view.json").exists() {
            true => format!("view cat {name}"),
            false => format!("graph export {name} -o shown.npz --force"),
        };
        all.push(place.run(&words(&shown)).ok().stdout);
        all.extend(fs::read(place.path("shown.npz")).ok());
    }
    all
}

/// Waits until a process is stopped; false if it has ended.
fn is_stopped(process: &Child) -> bool {
    let stat = format!("/proc/{}/stat", process.id());
    loop {
        let text = fs::read_to_string(&stat).unwrap_or_default();
        match text
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next())
        {
            Some('T') => return true,
            Some('Z') | None => return false,
            Some(_) => std::thread::yield_now(),
        }
    }
}

/// Runs a command, and calls `change` while the command is stopped after its `nth` read. Returns
/// whether it had that many reads.
fn stopped(place: &TestDir, (line, nth): (&str, u64), change: impl FnOnce()) -> (Answer, bool) {
    let mut command = place.command(&words(line));
    command.env("OUTCORE_FAULT", format!("stop@{nth}:read"));
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = command.spawn().unwrap();
    let is_stopped = is_stopped(&process);
    if is_stopped {
        change();
        kill_process(Pid::from_child(&process), Signal::CONT).unwrap();
    }
    (Answer::of(process.wait_with_output().unwrap()), is_stopped)
}

/// Runs a job many times, stops it after a different read each time, and replaces its input while
/// it is stopped.
fn check(place: &TestDir, job: &Job) {
    let prepare = |end: &str| {
        copy(place, &format!("{}.{end}", job.input), job.input);
        job.outputs.iter().for_each(|name| remove(place, name));
    };
    let [old, new] = ["old", "new"].map(|end| {
        prepare(end);
        let printed = place.run(&words(job.line)).ok().stdout;
        result(place, job.outputs, &printed)
    });
    assert!(old != new, "{}", job.line);
    for nth in 1..=STOPS_MAX {
        prepare("old");
        copy(place, &format!("{}.new", job.input), "moved");
        let (answer, is_stopped) = stopped(place, (job.line, nth), || {
            fs::rename(place.path("moved"), place.path(job.input)).unwrap();
        });
        let what = format!("{} after read {nth}", job.line);
        match answer.code {
            Some(0) => {
                let found = result(place, job.outputs, &answer.stdout);
                assert!(found == old || found == new, "{what} is a mix");
            }
            Some(4) => {
                let told = &answer.stderr;
                let is_told = told.contains("changed") && told.contains(job.input);
                assert!(is_told, "{what}: {told}");
            }
            _ => panic!("{what}: {answer:?}"),
        }
        if !is_stopped {
            assert!(nth > 1, "{what}: nothing was read");
            break;
        }
    }
}

fn walk(jobs: &[Job]) {
    let place = TestDir::in_memory();
    for (end, seed) in [("old", 1), ("new", 2)] {
        let data = sorted_u64(&random_u64(3000, seed));
        place.write(&format!("data.{end}"), &data);
        place.write(&format!("keys.{end}"), &random_u64(500, seed + 10));
        let edges = random_u64(400, seed + 20);
        let ids = edges.as_chunks::<8>().0.iter().map(|id| u64::from(id[0]));
        let ids: Vec<u64> = ids.collect();
        let lines = ids
            .chunks(2)
            .map(|ends| format!("{},{}\n", ends[0], ends[1]));
        let csv = format!("a,b\n{}", lines.collect::<String>());
        place.write(&format!("edges.csv.{end}"), csv.as_bytes());
        place.write(&format!("edges.u64.{end}"), &bytes(ids.clone()));
        let floats = ids.iter().flat_map(|id| (*id as f32).to_le_bytes());
        place.write(&format!("base.f32.{end}"), &floats.collect::<Vec<u8>>());
    }
    place.write("fixed.data", &sorted_u64(&random_u64(3000, 3)));
    place.write("fixed.keys", &random_u64(500, 30));
    jobs.iter().for_each(|job| check(&place, job));
}

#[test]
fn lookups_and_clusters_are_of_one_file_or_an_error() {
    walk(&[
        Job {
            line: "lookup data --keys fixed.keys -o ranks --type u64 --threads 1",
            input: "data",
            outputs: &["ranks"],
        },
        Job {
            line: "lookup fixed.data --keys keys -o ranks --type u64 --threads 1",
            input: "keys",
            outputs: &["ranks"],
        },
        Job {
            line: "kmeans base.f32 -k 3 --type f32x4 -o c.npy --labels l.npy --threads 1",
            input: "base.f32",
            outputs: &["c.npy", "l.npy"],
        },
        Job {
            line: "knn base.f32 --self -k 2 --type f32x4 -o n.npy --threads 1",
            input: "base.f32",
            outputs: &["n.npy"],
        },
    ]);
}

#[test]
fn graphs_and_views_are_of_one_file_or_an_error() {
    walk(&[
        Job {
            line: "graph convert edges.csv -o g --threads 1",
            input: "edges.csv",
            outputs: &["g"],
        },
        Job {
            line: "graph convert edges.csv -o g --relabel --threads 1",
            input: "edges.csv",
            outputs: &["g"],
        },
        Job {
            line: "graph convert edges.u64 -o g --type u64 --relabel --threads 1",
            input: "edges.u64",
            outputs: &["g"],
        },
        Job {
            line: "view build data -o v --type u64 --threads 1",
            input: "data",
            outputs: &["v"],
        },
        Job {
            line: "view build edges.csv -o v --csv --by a --threads 1",
            input: "edges.csv",
            outputs: &["v"],
        },
    ]);
}

#[test]
fn what_is_added_to_a_view_is_of_one_file_and_readers_see_one_view() {
    let place = TestDir::in_memory();
    for (end, seed) in [("old", 1), ("new", 2)] {
        place.write(&format!("more.{end}"), &random_u64(3000, seed));
    }
    place.write("first", &random_u64(3000, 3));
    let build = || {
        remove(&place, "v");
        place.run(&words("view build first -o v --type u64")).ok();
    };
    let append = "view append v more --threads 1";
    let cat = || place.run(&words("view cat v")).ok().stdout;
    let [old, new] = ["more.old", "more.new"].map(|more| {
        build();
        copy(&place, more, "more");
        place.run(&words(append)).ok();
        cat()
    });
    let before = sorted_u64(&place.read("first"));
    for nth in 1..=STOPS_MAX {
        build();
        copy(&place, "more.old", "more");
        copy(&place, "more.new", "moved");
        let (answer, is_stopped) = stopped(&place, (append, nth), || {
            fs::rename(place.path("moved"), place.path("more")).unwrap();
        });
        let seen = cat();
        match answer.code {
            Some(0) => assert!(seen == old || seen == new, "read {nth} is a mix"),
            Some(4) => {
                assert!(answer.stderr.contains("changed"), "{answer:?}");
                assert!(seen == before, "read {nth} left something");
            }
            _ => panic!("{answer:?}"),
        }
        if !is_stopped {
            break;
        }
    }
    // A reader of a growing view sees the old runs, or all.
    copy(&place, "more.old", "more");
    for nth in 1..=STOPS_MAX {
        build();
        let (answer, is_stopped) = stopped(&place, ("view cat v --threads 1", nth), || {
            place.run(&words(append)).ok();
        });
        let seen = answer.ok().stdout;
        assert!(seen == before || seen == old, "read {nth} is a mix");
        if !is_stopped {
            break;
        }
    }
}

#[test]
fn a_dataset_that_is_put_again_is_got_as_it_was_or_as_it_is() {
    let place = volume::volume_in(TestDir::in_memory());
    let contents = [1, 2].map(|seed| random_u64(200_000, seed));
    place.write("old", &contents[0]);
    place.write("new", &contents[1]);
    for nth in 1..=STOPS_MAX {
        volume::run(&place, &["volume", "put", "old", "@x", "--force"]).ok();
        remove(&place, "got");
        let get = "volume get @x got --volume drives.toml";
        let (answer, is_stopped) = stopped(&place, (get, nth), || {
            volume::run(&place, &["volume", "put", "new", "@x", "--force"]).ok();
        });
        answer.ok();
        let got = place.read("got");
        assert!(contents.contains(&got), "read {nth} is a mix");
        if !is_stopped {
            break;
        }
    }
}
