//! Building views: traffic, leftovers, preceding merges, further runs, reopening.
//!
//! Contract: traffic is counted at the drives, memory at the job's budget; contents are compared
//! with the oracle's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use outcore::runs::{BuildOptions, SortedView, build};
use outcore::{Device, Input, Kind, Output};

use crate::support::devices::HookDevice;

use super::kit::{Case, DIR, read_all};

#[test]
fn building_and_reading_once_moves_two_reads_and_one_write() {
    for format in ["u64", "gensort", "4096/0:10"] {
        let case = Case {
            drives: 3,
            threads: 2,
            ..Case::of(format, 40_000_000 / format_bytes(format), 11)
        };
        let ram = case.ram();
        let input = case.input();
        ram.put("/d0/in", input.clone());
        let job = case.job(Arc::new(ram));
        let (view, summary) = case.build(&job).unwrap();
        let before = view.traffic_bytes().0;
        read_all(&view);
        let read = summary.read_bytes + before + view.traffic_bytes().0 - before;
        let data = input.len() as f64;
        assert!(
            read as f64 <= 2.02 * data,
            "{format}: {} N",
            read as f64 / data
        );
        let written = summary.written_bytes as f64 / data;
        assert!(written <= 1.01, "{format}: {written} N");
    }
}

fn format_bytes(format: &str) -> usize {
    Case::of(format, 0, 1).format.record_bytes()
}

/// How long each number of drives was busy, by the virtual clock.
#[derive(Default)]
struct Busy {
    now_ns: u64,
    in_flight: BTreeMap<PathBuf, usize>,
    all_ns: u64,
    drives_ns: u64,
}

impl Busy {
    /// A transfer on a drive begins, or ends, now.
    fn turn(&mut self, now_ns: u64, path: &Path, begins: bool) {
        let passed_ns = now_ns - std::mem::replace(&mut self.now_ns, now_ns);
        let busy = self.in_flight.values().filter(|count| **count > 0).count() as u64;
        self.all_ns += if busy > 0 { passed_ns } else { 0 };
        self.drives_ns += busy * passed_ns;
        let drive = path.iter().take(2).collect();
        let count = self.in_flight.entry(drive).or_default();
        *count = if begins { *count + 1 } else { *count - 1 };
    }

    fn mean(&self) -> f64 {
        self.drives_ns as f64 / self.all_ns as f64
    }
}

#[test]
fn building_keeps_all_drives_busy() {
    for (drives, stable) in [(1, false), (2, false), (4, false), (4, true)] {
        let mut case = Case {
            drives,
            memory_bytes: 12 << 20,
            ..Case::of("u64", 4 << 20, 1)
        };
        case.order.stable = stable;
        let ram = case.ram();
        let input = case.input();
        let each = input.len() / drives;
        let files = input.chunks(each).enumerate().map(|(drive, bytes)| {
            let path = format!("/d{drive}/in");
            ram.put(&path, bytes.to_vec());
            Input::raw(path)
        });
        let files: Vec<Input> = files.collect();
        let busy = Arc::new(Mutex::new(Busy::default()));
        let turn = {
            let (ram, busy) = (ram.clone(), Arc::clone(&busy));
            move |path: &Path, begins| busy.lock().unwrap().turn(ram.now_ns(), path, begins)
        };
        let at_start = turn.clone();
        let device = HookDevice::with_starts(
            Arc::new(ram),
            move |path, _| at_start(path, true),
            move |path, _| turn(path, false),
        );
        let job = case.job(Arc::new(device));
        let options = BuildOptions {
            run_bytes: None,
            ..case.options()
        };
        let (view, summary) = build(&job, &files, Path::new(DIR), &case.format, options).unwrap();
        let mean = busy.lock().unwrap().mean();
        eprintln!("{drives} drives, of which {mean:.2} are busy");
        assert!(
            mean > 0.75 * drives as f64,
            "of {drives} drives {mean:.2} are busy"
        );
        assert!(summary.plan.merges.is_empty());
        assert!(job.budget.peak_bytes() <= case.memory_bytes);
        if stable {
            assert!(read_all(&view) == case.sorted(&input));
        }
    }
}

#[test]
fn what_is_still_in_memory_is_not_read_again() {
    let case = Case {
        keeps_runs: true,
        threads: 2,
        ..Case::of("gensort", 200_000, 8)
    };
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    let job = case.job(Arc::new(ram));
    let (view, summary) = case.build(&job).unwrap();
    assert!(summary.resident_bytes as usize > input.len() / 3);
    let before = view.traffic_bytes().0;
    assert!(read_all(&view) == case.sorted(&input));
    let read = view.traffic_bytes().0 - before;
    let expected = input.len() as u64 - summary.resident_bytes;
    assert!(
        read < expected + expected / 20 + 200_000,
        "{read} of {expected}"
    );
}

#[test]
fn more_runs_than_memory_can_merge_are_merged_beforehand() {
    // 900 runs of records of 40 KB: 64 MiB have no room for two blocks of each.
    for order_is_stable in [false, true] {
        let mut case = Case {
            threads: 2,
            drives: 2,
            values: crate::support::patterns::Values::Few(40),
            payload: crate::support::patterns::Payload::Random,
            ..Case::of("40000/0:4", 900, 900)
        };
        case.order.stable = order_is_stable;
        let ram = case.ram();
        let input = case.input();
        ram.put("/d0/in", input.clone());
        let job = case.job(Arc::new(ram.clone()));
        let (view, summary) = case.build(&job).unwrap();
        assert!(!summary.plan.merges.is_empty());
        assert!(summary.runs < 900, "{}", summary.runs);
        assert!(read_all(&view) == case.sorted(&input));
        view.verify().unwrap();
        let names = ram.list();
        assert_eq!(names.len() as u64, summary.runs + 2, "{names:?}");
        assert!(job.budget.peak_bytes() <= case.memory_bytes);
    }
}

#[test]
fn merges_beforehand_do_with_as_little_memory_as_the_plan() {
    let case = Case {
        memory_bytes: 3 << 20,
        ..Case::of("u64", 2 << 20, 64)
    };
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    let job = case.job(Arc::new(ram));
    let (view, summary) = case.build(&job).unwrap();
    assert!(!summary.plan.merges.is_empty());
    assert!(job.budget.peak_bytes() <= case.memory_bytes);
    assert!(read_all(&view) == case.sorted(&input));
}

#[test]
fn further_runs_are_added_and_open_views_stay_as_they_were() {
    let mut case = Case::of("24/4:4:i32", 5000, 6);
    case.order.stable = true;
    case.values = crate::support::patterns::Values::Few(9);
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    let job = case.job(Arc::new(ram.clone()));
    let (before, _) = case.build(&job).unwrap();
    let more = Case {
        seed: 99,
        ..case.clone()
    }
    .input();
    ram.put("/d0/more", more.clone());
    let (view, summary) = case.append(&job).unwrap();
    assert_eq!(summary.runs, 12);
    let both = [input.clone(), more].concat();
    assert!(read_all(&view) == case.sorted(&both));
    assert!(read_all(&before) == case.sorted(&input));
}

#[test]
fn a_view_that_is_there_is_only_replaced_when_asked_for() {
    let case = Case::of("u32", 1000, 3);
    let ram = case.ram();
    ram.put("/d0/in", case.input());
    let job = case.job(Arc::new(ram.clone()));
    case.build(&job).unwrap();
    let files = ram.list();
    assert_eq!(files.len(), 5, "{files:?}");
    let error = case.build(&job).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(ram.list(), files);
    let other = Case {
        seed: 8,
        ..case.clone()
    };
    ram.put("/d0/in", other.input());
    let options = outcore::runs::BuildOptions {
        replace: true,
        ..other.options()
    };
    let input = [outcore::Input::raw("/d0/in")];
    let (view, _) =
        outcore::runs::build(&job, &input, DIR.as_ref(), &case.format, options).unwrap();
    assert!(read_all(&view) == other.sorted(&other.input()));
    assert_eq!(ram.list().len(), 5, "the old runs are gone");
    drop(view);
    let view = SortedView::open(&job, DIR.as_ref()).unwrap();
    assert_eq!(view.info().runs.len(), 3);
}

/// Accepts a limited number of bytes, and then fails.
struct Taker {
    taken: Vec<u8>,
    enough_bytes: usize,
}

impl std::io::Write for Taker {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.taken.len() >= self.enough_bytes {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.taken.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn several_threads_merge_short_records_into_one_pipe_in_order_until_nobody_reads() {
    let case = Case {
        threads: 2,
        drives: 2,
        memory_bytes: 128 << 20,
        ..Case::of("u64", 4_300_000, 4)
    };
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    let job = case.job(Arc::new(ram.clone()));
    let (view, _) = case.build(&job).unwrap();
    // The oracle would be slow for this many records.
    let keys = input
        .chunks_exact(8)
        .map(|key| u64::from_le_bytes(key.try_into().unwrap()));
    let mut keys: Vec<u64> = keys.collect();
    keys.sort_unstable();
    let sorted: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
    let copy = |from: u64, enough_bytes: usize| {
        let mut taker = Taker {
            taken: Vec::new(),
            enough_bytes,
        };
        let outcome = view.copy_to(from..view.len(), &mut taker);
        (outcome, taker.taken)
    };
    let before = view.traffic_bytes().0;
    let (outcome, taken) = copy(0, usize::MAX);
    outcome.unwrap();
    assert!(taken == sorted);
    // One 16 KiB block of each run is read twice at the border between the threads' parts.
    let read = view.traffic_bytes().0 - before;
    let once = input.len() as u64;
    let twice = once + 3 * (16 << 10)..once + once / 50;
    assert!(twice.contains(&read), "{read} of {once}");
    let (outcome, taken) = copy(12_345, usize::MAX);
    outcome.unwrap();
    assert!(taken == sorted[8 * 12_345..]);
    let (outcome, taken) = copy(0, 9 << 20);
    assert_eq!(outcome.unwrap_err().kind(), Kind::Io);
    assert!(taken == sorted[..taken.len()]);
    ram.flip_bit(&view.info().runs[1].0, 8 * 6_000_000);
    let (outcome, taken) = copy(0, usize::MAX);
    assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt);
    assert!(taken == sorted[..taken.len()]);
    assert!(job.budget.peak_bytes() <= case.memory_bytes);
}

#[test]
fn a_seek_reads_about_one_block_of_each_run() {
    let case = Case::of("u64", 1 << 19, 16);
    let ram = case.ram();
    ram.put("/d0/in", case.input());
    let job = case.job(Arc::new(ram));
    let (view, _) = case.build(&job).unwrap();
    let mut reader = view.reader(view.reader_bytes(1)).unwrap();
    let before = reader.blocks_read();
    let seeks = 100;
    for seek in 0..seeks {
        let rank = crate::support::patterns::random(1, 1, seek) % view.len();
        reader.seek(rank..rank + 1).unwrap();
        reader.read(&mut [0; 8]).unwrap();
    }
    let blocks = (reader.blocks_read() - before) as f64 / (seeks * 16) as f64;
    assert!(blocks <= 2.0, "{blocks} blocks a run");
}

#[test]
fn pieces_of_many_runs_fit_the_cache_where_there_is_more_memory() {
    let case = Case {
        memory_bytes: 512 << 20,
        ..Case::of("u64", 60_000, 128)
    };
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    case.build(&case.job(Arc::new(ram.clone()))).unwrap();
    let job = case.job(Arc::new(ram));
    let view = SortedView::open(&job, DIR.as_ref()).unwrap();
    assert!(read_all(&view) == case.sorted(&input));
    let peak_bytes = job.budget.peak_bytes();
    assert!(peak_bytes < 80 << 20, "{peak_bytes}");
}

#[test]
fn more_threads_need_no_more_memory_to_write_a_view_out() {
    let case = Case::of("u64", 60_000, 60);
    let ram = case.ram();
    let input = case.input();
    let sorted = case.sorted(&input);
    ram.put("/d0/in", input);
    case.build(&case.job(Arc::new(ram.clone()))).unwrap();
    let mut written = [0, 0];
    for memory_mib in 5..16 {
        let write = |threads| {
            let case = Case {
                threads,
                memory_bytes: memory_mib << 20,
                ..case.clone()
            };
            let view = SortedView::open(&case.job(Arc::new(ram.clone())), DIR.as_ref())?;
            let output = Output::File {
                path: "/d0/out".into(),
                header: None,
            };
            view.write_to(0..view.len(), &output, true)
        };
        for (count, threads) in written.iter_mut().zip([1, 4]) {
            if write(threads).is_ok() {
                *count += 1;
                assert!(ram.get("/d0/out").unwrap() == sorted);
            }
        }
    }
    assert!(written[0] > 0 && written[0] == written[1], "{written:?}");
}
