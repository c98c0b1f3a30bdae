//! Views as mounted files: the bytes of the sorted file, at any offset, for many readers; `EIO` and
//! a reported fault where a run is damaged; no mount left behind.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outcore::IoMode;
use outcore::job::{Job, JobOptions};
use outcore::key::RecordFormat;
use outcore::runs::{BuildOptions, SortedView, ViewOrder, build};
use outcore::sort::{SortOptions, sort};
use outcore::{Input, Output};
use outcore_mount::{ServeOptions, serve, unavailable};

const FORMAT: &str = "100/0:10";
const RECORDS: usize = 60_000;
/// More than the cached blocks hold.
const MANY_RECORDS: usize = 480_000;
const RUNS: usize = 10;

/// Prints why, if views cannot be mounted.
fn is_skipped() -> bool {
    let why = unavailable().or_else(|| {
        let is_root = rustix::process::geteuid().is_root();
        let helper = Path::new("/usr/bin/fusermount3");
        (!is_root && !helper.exists()).then(|| "no right to mount".to_string())
    });
    if let Some(why) = &why {
        println!("SKIP: {why}");
    }
    why.is_some()
}

fn random(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 29)
}

/// A view of `count` random records in `dir`, and the sorted bytes.
fn make(dir: &Path, count: usize) -> (Arc<SortedView>, Vec<u8>) {
    let mut records: Vec<Vec<u8>> = (0..count as u64)
        .map(|n| {
            let words = (0..13).flat_map(|word| random(n * 13 + word).to_be_bytes());
            words.take(100).collect()
        })
        .collect();
    let input = dir.join("in.bin");
    fs::write(&input, records.concat()).unwrap();
    records.sort();
    let place = dir.join("a view");
    fs::create_dir(&place).unwrap();
    let options = JobOptions {
        memory_bytes: 96 << 20,
        threads: 2,
        ..JobOptions::default()
    };
    let job = Job::new(options, IoMode::Auto);
    let format = RecordFormat::parse_type(FORMAT).unwrap();
    let options = BuildOptions {
        run_bytes: Some((count * 100 / RUNS) as u64),
        ..BuildOptions::default()
    };
    let input = [Input::raw(&input)];
    let (view, summary) = build(&job, &input, &place, &format, options).unwrap();
    assert_eq!(summary.runs as usize, RUNS);
    drop(view);
    let view = SortedView::open(&job, &place).unwrap();
    (Arc::new(view), records.concat())
}

/// Ends the server even if the work panics, so that a test fails rather than waits.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves the view while `work` runs with the file's path; returns the reported faults.
fn with_mount(
    view: &Arc<SortedView>,
    dir: &Path,
    is_direct: bool,
    work: impl FnOnce(&Path),
) -> Vec<String> {
    let mountpoint = dir.join("mounted here");
    fs::create_dir_all(&mountpoint).unwrap();
    let is_over = AtomicBool::new(false);
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let options = ServeOptions {
        file_name: "sorted.bin".to_string(),
        is_direct,
        threads: 2,
        guardian: None,
        tell: Box::new(move |error| telling.lock().unwrap().push(error.to_string())),
    };
    std::thread::scope(|scope| {
        let (ready, is_ready) = channel();
        let (view, is_over, place) = (Arc::clone(view), &is_over, &mountpoint);
        let server = scope.spawn(move || {
            let ready = || ready.send(()).unwrap();
            serve(view, place, options, ready, || {
                is_over.load(Ordering::Relaxed)
            })
        });
        if is_ready.recv_timeout(Duration::from_secs(20)).is_err() {
            panic!("{:?}", server.join());
        }
        let end = End(is_over);
        work(&mountpoint.join("sorted.bin"));
        drop(end);
        server.join().unwrap().unwrap();
    });
    assert_eq!(fs::read_dir(&mountpoint).unwrap().count(), 0, "unmounted");
    let told = told.lock().unwrap();
    told.clone()
}

#[test]
fn the_mounted_file_is_the_sorted_file_for_many_readers_at_once() {
    if is_skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (view, sorted) = make(dir.path(), RECORDS);
    for is_direct in [false, true] {
        let told = with_mount(&view, dir.path(), is_direct, |path| {
            assert_eq!(fs::metadata(path).unwrap().len(), sorted.len() as u64);
            assert!(fs::write(path, b"x").is_err(), "read only");
            std::thread::scope(|scope| {
                for reader in 0..64u64 {
                    let sorted = &sorted;
                    scope.spawn(move || {
                        let file = File::open(path).unwrap();
                        for turn in 0..20 {
                            let at = random(reader * 100 + turn) % sorted.len() as u64;
                            let len = (random(at) % 40_000) as usize;
                            let mut bytes = vec![0; len];
                            let end = (at as usize + len).min(sorted.len());
                            let got = file.read_at(&mut bytes, at).unwrap();
                            assert!(got > 0 || len == 0);
                            assert!(bytes[..got] == sorted[at as usize..at as usize + got]);
                            assert!(at as usize + got <= end);
                        }
                    });
                }
            });
            assert!(fs::read(path).unwrap() == sorted);
        });
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn whatever_is_mounted_is_what_sort_writes() {
    if is_skipped() {
        return;
    }
    for (turn, format) in [
        "u64",
        "i16be",
        "f32",
        "u128",
        "f32x3",
        "7/2:3,0:1",
        "100/0:10",
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let format = RecordFormat::parse_type(format).unwrap();
        let (seed, count) = (1000 * turn as u64, 20_000);
        let bytes = count * format.record_bytes();
        // Few different bytes produce many equal keys.
        let few = if turn % 2 == 0 { 0xFF } else { 1 };
        let input: Vec<u8> = (0..bytes as u64)
            .map(|at| random(seed + at) as u8 & few)
            .collect();
        fs::write(dir.path().join("in"), input).unwrap();
        let input = [Input::raw(dir.path().join("in"))];
        let job = Job::new(
            JobOptions {
                memory_bytes: (64 + 40 * turn as u64) << 20,
                threads: 1 + turn % 3,
                ..JobOptions::default()
            },
            IoMode::Auto,
        );
        let sorting = SortOptions {
            descending: turn % 3 == 1,
            stable: turn % 4 == 2,
            ..SortOptions::default()
        };
        let path = dir.path().join("sorted");
        let output = Output::File {
            path: path.clone(),
            header: None,
        };
        sort(&job, &input, output, &format, sorting).unwrap();
        let sorted = fs::read(path).unwrap();
        let home = dir.path().join("view");
        fs::create_dir(&home).unwrap();
        let runs = 1 + random(seed) % 60;
        let options = BuildOptions {
            order: ViewOrder {
                descending: sorting.descending,
                stable: sorting.stable,
            },
            run_bytes: Some((bytes as u64).div_ceil(runs)),
            ..BuildOptions::default()
        };
        drop(build(&job, &input, &home, &format, options).unwrap());
        let view = Arc::new(SortedView::open(&job, &home).unwrap());
        let told = with_mount(&view, dir.path(), turn % 2 == 1, |path| {
            assert!(fs::read(path).unwrap() == sorted, "{format} in {runs} runs");
            let file = File::open(path).unwrap();
            for read in 0..50 {
                let at = random(seed + read) as usize % sorted.len();
                let mut part = vec![0; (random(seed + at as u64) % 9000) as usize];
                let got = file.read_at(&mut part, at as u64).unwrap();
                assert!(part[..got] == sorted[at..at + got], "{format} at {at}");
            }
        });
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn a_flipped_bit_is_eio_for_who_reads_it_and_names_run_and_offset() {
    if is_skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (view, sorted) = make(dir.path(), RECORDS);
    let run = view.info().runs[3].0.clone();
    let file = File::options().read(true).write(true).open(&run).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, 300_000).unwrap();
    file.write_at(&[byte[0] ^ 4], 300_000).unwrap();
    drop(file);
    let told = with_mount(&view, dir.path(), true, |path| {
        let file = File::open(path).unwrap();
        let mut right = 0;
        for at in (0..sorted.len()).step_by(64 << 10) {
            let mut bytes = vec![0; (64 << 10).min(sorted.len() - at)];
            match file.read_exact_at(&mut bytes, at as u64) {
                Ok(()) => {
                    assert!(bytes == sorted[at..at + bytes.len()], "wrong data at {at}");
                    right += 1;
                }
                Err(error) => assert_eq!(error.raw_os_error(), Some(5), "{error}"),
            }
        }
        assert!(right > 5, "{right}");
    });
    let named = |text: &String| {
        text.contains("run 3") && text.contains(&*run.to_string_lossy()) && text.contains("at byte")
    };
    assert!(!told.is_empty() && told.iter().all(named), "{told:?}");
}

#[test]
fn a_run_that_is_cut_while_mounted_is_eio_and_named_and_one_that_is_removed_is_still_read() {
    if is_skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (view, sorted) = make(dir.path(), RECORDS);
    let runs = view.info().runs;
    let (cut, removed) = (runs[4].0.clone(), runs[5].0.clone());
    fs::remove_file(&removed).unwrap();
    let told = with_mount(&view, dir.path(), true, |path| {
        assert!(
            fs::read(path).unwrap() == sorted,
            "who has a run open reads it"
        );
    });
    assert!(told.is_empty(), "{told:?}");
    let told = with_mount(&view, dir.path(), true, |path| {
        let file = File::options().write(true).open(&cut).unwrap();
        file.set_len(4096).unwrap();
        let error = fs::read(path).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
    });
    let named = |text: &String| text.contains("run 4") && text.contains("at byte");
    assert!(!told.is_empty() && told.iter().all(named), "{told:?}");
}

#[test]
fn a_file_larger_than_the_blocks_that_are_kept_is_read_from_any_place() {
    if is_skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (view, sorted) = make(dir.path(), MANY_RECORDS);
    let told = with_mount(&view, dir.path(), true, |path| {
        std::thread::scope(|scope| {
            for reader in 0..4 {
                let sorted = &sorted;
                scope.spawn(move || {
                    let file = File::open(path).unwrap();
                    let mut bytes = vec![0; 300_000];
                    for turn in 0..30 {
                        let at = random(reader * 100 + turn) as usize % (sorted.len() - 300_000);
                        file.read_exact_at(&mut bytes, at as u64).unwrap();
                        assert!(bytes == sorted[at..at + bytes.len()], "at {at}");
                    }
                });
            }
        });
        assert!(fs::read(path).unwrap() == sorted);
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn an_open_file_does_not_hold_up_the_end() {
    if is_skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (view, _) = make(dir.path(), RECORDS);
    let mut kept = None;
    with_mount(&view, dir.path(), false, |path| {
        kept = Some(File::open(path).unwrap());
    });
    drop(kept);
}
