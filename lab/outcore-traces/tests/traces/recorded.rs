//! This crate reads what the engine records: a whole sort, on drives in memory and on a real file
//! system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::IoMode;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::record::RecordFormat;
use outcore::sort::{SortOptions, SortSummary, sort};
use outcore::{Input, Output};
use outcore_io::drive::Device;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::recording::{RecordingDevice, TraceAbout, TraceSummary};
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_traces::io_trace::{Entry, IoOp, Reader, Record, SubmissionOrder};
use outcore_traces::replay_plan::DependentLoop;

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("outcore-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn records(count: u64) -> Vec<u8> {
    let scrambled = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    (0..count)
        .flat_map(|number| {
            scrambled(number)
                .wrapping_mul(0xBF58_476D_1CE4_E5B9)
                .to_le_bytes()
        })
        .collect()
}

/// Sorts the files in `drives[0]/in`, through scratch, and records the sort.
fn record_sort(
    device: Arc<dyn Device>,
    drives: &[PathBuf],
    trace: &Path,
    threads: usize,
    seed: u64,
) -> (SortSummary, TraceSummary) {
    let about = TraceAbout {
        program: "test".into(),
        ..TraceAbout::default()
    };
    let device = Arc::new(RecordingDevice::create(device, trace, about, true).unwrap());
    let scratch = drives.iter().map(|dir| ScratchDrive {
        name: dir.display().to_string(),
        dir: dir.clone(),
        weight: 1.0,
        limit_bytes: u64::MAX,
    });
    let options = JobOptions {
        memory_bytes: 12 << 20,
        threads,
        drives: scratch.collect(),
        seed,
        ..JobOptions::default()
    };
    let job = Job::on(options, Arc::clone(&device) as _);
    let output = Output::File {
        path: drives[0].join("out"),
        header: None,
    };
    let format = RecordFormat::parse_type("u64").unwrap();
    let inputs = [Input::raw(drives[0].join("in"))];
    let summary = sort(&job, &inputs, output, &format, SortOptions::default()).unwrap();
    assert!(summary.scratch_bytes > 0, "the data go through scratch");
    (summary, device.finish().unwrap())
}

fn sort_in_memory(trace: &Path, threads: usize, seed: u64) -> (SortSummary, TraceSummary) {
    let ram = RamDevice::new(RamOptions {
        seed,
        ..RamOptions::default()
    });
    ram.put("/d0/in", records(3 << 20));
    let drives = ["/d0", "/d1", "/d2"].map(PathBuf::from);
    let done = record_sort(Arc::new(ram.clone()), &drives, trace, threads, seed);
    let mut expected: Vec<u64> = as_keys(&records(3 << 20));
    expected.sort_unstable();
    assert!(as_keys(&ram.get("/d0/out").unwrap()) == expected);
    done
}

fn as_keys(bytes: &[u8]) -> Vec<u64> {
    let keys = bytes.chunks_exact(8);
    keys.map(|key| u64::from_le_bytes(key.try_into().unwrap()))
        .collect()
}

fn requests(trace: &Path) -> Vec<Record> {
    let reader = Reader::open(trace).unwrap();
    reader.records().map(Result::unwrap).collect()
}

/// Checks that the trace is whole, can be put in order of submission, and adds up to the sort's
/// report.
fn check(trace: &Path, sorted: &SortSummary, recorded: &TraceSummary) {
    let mut reader = Reader::open(trace).unwrap();
    let entries: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert!(reader.is_complete());
    assert_eq!(reader.requests(), recorded.requests);
    let names = reader.header().drives.iter().map(|drive| &drive.name);
    assert!(names.eq(&recorded.drives));
    let all = requests(trace);
    let bytes = |op: IoOp| -> u64 {
        let of_op = all.iter().filter(|record| record.op == op);
        of_op.map(|record| u64::from(record.len_bytes)).sum()
    };
    // The last read of a file may return less than requested.
    assert!(bytes(IoOp::Read) >= sorted.read_bytes);
    assert!(bytes(IoOp::Read) <= sorted.read_bytes + (64 << 10));
    assert_eq!(bytes(IoOp::Write), sorted.written_bytes);
    assert!(all.iter().any(|record| record.op == IoOp::Sync));
    assert!(all.iter().all(|record| !record.is_failed));
    let drives = usize::from(all.iter().map(|record| record.drive).max().unwrap()) + 1;
    assert_eq!(drives, recorded.drives.len());
    let phases = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Phase { .. }));
    assert!(phases.count() >= 2, "sample, distribute and sort are apart");
}

/// Replays with the recorded service times. Returns the release of each request, and the end.
fn replay(trace: &Path) -> (Vec<(u64, u64)>, u64) {
    let entries = SubmissionOrder::new(Reader::open(trace).unwrap());
    let mut plan = DependentLoop::new(entries);
    let mut in_flight: Vec<(u64, u16)> = Vec::new();
    let mut released = Vec::new();
    loop {
        let due_ns = plan.next_due_ns().unwrap();
        let done = in_flight.iter().copied().min();
        match (due_ns, done) {
            (Some(due_ns), done) if done.is_none_or(|(done_ns, _)| due_ns < done_ns) => {
                while let Some((at_ns, record)) = plan.release(due_ns).unwrap() {
                    released.push((at_ns, record.submit_ns));
                    let service_ns = record.complete_ns - record.submit_ns;
                    in_flight.push((at_ns + service_ns, record.thread));
                }
            }
            (_, Some(first)) => {
                let at = in_flight.iter().position(|entry| *entry == first).unwrap();
                in_flight.swap_remove(at);
                plan.completed(first.1, first.0).unwrap();
            }
            (_, None) => break,
        }
    }
    plan.check_finished().unwrap();
    (released, plan.end_ns())
}

#[test]
fn the_same_seed_gives_the_same_trace_to_the_byte_and_another_seed_another() {
    let folder = Folder::new("record-seed");
    let paths = ["a", "b", "c"].map(|name| folder.0.join(name));
    let (sorted, recorded) = sort_in_memory(&paths[0], 1, 7);
    sort_in_memory(&paths[1], 1, 7);
    sort_in_memory(&paths[2], 1, 8);
    let [first, second, third] = paths.each_ref().map(|path| std::fs::read(path).unwrap());
    assert!(first == second, "two runs with one seed differ");
    assert!(first != third, "two seeds gave one trace");
    check(&paths[0], &sorted, &recorded);
    // On a virtual clock all time is waiting, so a replay reproduces the recorded times exactly.
    let (released, end_ns) = replay(&paths[0]);
    assert_eq!(released.len() as u64, recorded.requests);
    for (at_ns, recorded_ns) in released {
        assert_eq!(at_ns, recorded_ns);
    }
    assert_eq!(Some(end_ns), ended_ns(&paths[0]));
}

fn ended_ns(trace: &Path) -> Option<u64> {
    let mut reader = Reader::open(trace).unwrap();
    for entry in reader.by_ref() {
        entry.unwrap();
    }
    reader.end_ns()
}

#[test]
fn many_threads_on_real_files_make_a_trace_that_is_whole_and_can_be_replayed() {
    let folder = Folder::new("record-threads");
    let drives = [folder.0.join("x")];
    std::fs::create_dir(&drives[0]).unwrap();
    std::fs::write(drives[0].join("in"), records(3 << 20)).unwrap();
    let trace = folder.0.join("trace");
    let device = Arc::new(OsDevice::new(IoMode::Auto));
    let (sorted, recorded) = record_sort(device, &drives, &trace, 3, 1);
    check(&trace, &sorted, &recorded);
    let (released, _) = replay(&trace);
    assert_eq!(released.len() as u64, recorded.requests);
    for (at_ns, recorded_ns) in released {
        assert!(at_ns <= recorded_ns, "a request was released late");
    }
}
