//! Tests of shuffles on real files against the permutation by its definition.
//!
//! Contract: the expected bytes come from [`permutation`], which has no buffers, passes or threads.
//! Every case runs with resources that keep the data in memory and with some that do not.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::tree::permutation;
use super::*;
use crate::job::{JobOptions, ScratchDrive};
use crate::read::sample::random;
use outcore_io::config::IoMode;
use outcore_io::drive::Device;
use outcore_io::drive::testing::{FaultDevice, RamDevice, RamOptions};

#[allow(unreachable_pub)]
#[path = "../../tests/support/often.rs"]
mod often;

/// The resources of a run.
#[derive(Debug, Clone, Copy)]
struct Resources {
    memory_bytes: u64,
    threads: usize,
    drives: usize,
}

const PLENTY: Resources = Resources {
    memory_bytes: 256 << 20,
    threads: 2,
    drives: 1,
};

fn job(dir: &Path, resources: Resources) -> Job {
    let drives = (0..resources.drives).map(|drive| {
        let dir = dir.join(format!("drive-{drive}"));
        std::fs::create_dir_all(&dir).unwrap();
        ScratchDrive::new(dir)
    });
    let options = JobOptions {
        memory_bytes: resources.memory_bytes,
        threads: resources.threads,
        drives: drives.collect(),
        ..JobOptions::default()
    };
    Job::new(options, IoMode::Auto)
}

fn write_inputs(dir: &Path, files: &[Vec<u8>]) -> Vec<Input> {
    let write = |(index, bytes): (usize, &Vec<u8>)| {
        let path = dir.join(format!("input-{index}"));
        std::fs::write(&path, bytes).unwrap();
        Input::raw(path)
    };
    files.iter().enumerate().map(write).collect()
}

fn options(unit: Unit, seed: u64) -> ShuffleOptions {
    ShuffleOptions {
        unit,
        seed,
        epoch: 0,
        replace: true,
    }
}

/// The bytes that a shuffle writes, and its summary.
fn shuffled(
    files: &[Vec<u8>],
    options: ShuffleOptions,
    resources: Resources,
) -> (Vec<u8>, ShuffleSummary) {
    let dir = tempfile::tempdir().unwrap();
    let inputs = write_inputs(dir.path(), files);
    let path: PathBuf = dir.path().join("output");
    let output = Output::File {
        path: path.clone(),
        header: None,
    };
    let job = job(dir.path(), resources);
    let summary = shuffle(&job, &inputs, output, options).unwrap();
    assert_eq!(job.budget.used_bytes(), 0);
    (std::fs::read(path).unwrap(), summary)
}

/// The records of an input, with a last line terminated.
fn records_of(files: &[Vec<u8>], unit: Unit) -> Vec<Vec<u8>> {
    match unit {
        Unit::Records { record_bytes } => files
            .iter()
            .flat_map(|file| file.chunks(record_bytes).map(<[u8]>::to_vec))
            .collect(),
        Unit::Lines { terminator, .. } => {
            let lines = files
                .iter()
                .flat_map(|file| file.split_inclusive(move |&b| b == terminator));
            let ended = |line: &[u8]| {
                let mut line = line.to_vec();
                if line.last() != Some(&terminator) {
                    line.push(terminator);
                }
                line
            };
            lines.map(ended).collect()
        }
    }
}

/// The shuffle by its definition.
fn expected(files: &[Vec<u8>], options: ShuffleOptions) -> Vec<u8> {
    let data_bytes: usize = files.iter().map(Vec::len).sum();
    let record_bytes = match options.unit {
        Unit::Records { record_bytes } => record_bytes as u64,
        Unit::Lines { .. } => 1,
    };
    let tree = Tree::new(options.seed, options.epoch, data_bytes as u64, record_bytes);
    let records = records_of(files, options.unit);
    let mut chunk_counts = vec![0; (data_bytes as u64).div_ceil(tree.chunk_bytes).max(1) as usize];
    let mut at = 0;
    for file in files {
        for record in records_of(std::slice::from_ref(file), options.unit) {
            chunk_counts[(at / tree.chunk_bytes) as usize] += 1;
            at += record.len() as u64;
        }
        // A terminator that the file lacks has no position in the input.
        at = at.min(
            files
                .iter()
                .take_while(|f| !std::ptr::eq(*f, file))
                .map(|f| f.len() as u64)
                .sum::<u64>()
                + file.len() as u64,
        );
    }
    let order = permutation(tree, &chunk_counts);
    order
        .into_iter()
        .flat_map(|at| records[at].clone())
        .collect()
}

/// Bytes that look random, the same for a seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    (0..len.div_ceil(8) as u64)
        .flat_map(|index| random(seed, index).to_le_bytes())
        .take(len)
        .collect()
}

/// Lines of all lengths up to `longest`, about `len` bytes in all.
fn text(seed: u64, len: usize, longest: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 64);
    let mut number = 0;
    while text.len() < len {
        let line = format!("{number}:");
        text.extend_from_slice(line.as_bytes());
        let more = random(seed, number) % longest;
        text.extend((0..more).map(|at| b'a' + ((number + at) % 26) as u8));
        text.push(b'\n');
        number += 1;
    }
    text
}

const LINES: Unit = Unit::Lines {
    terminator: b'\n',
    drops_blanks: false,
};

#[test]
fn the_output_is_the_permutation_of_the_definition_whatever_the_means() {
    let cases = [
        (Unit::Records { record_bytes: 8 }, vec![noise(1, 5 << 19)]),
        (
            Unit::Records { record_bytes: 100 },
            vec![noise(2, 100 * 30_011), noise(3, 100 * 150_000)],
        ),
        (
            Unit::Records {
                record_bytes: 70_000,
            },
            vec![noise(4, 70_000 * 300)],
        ),
        (
            LINES,
            vec![text(5, 11 << 20, 90), Vec::new(), text(6, 3 << 20, 90)],
        ),
    ];
    let resources = [
        PLENTY,
        Resources {
            memory_bytes: 40 << 20,
            threads: 1,
            drives: 3,
        },
        Resources {
            memory_bytes: 24 << 20,
            threads: 1,
            drives: 1,
        },
        Resources {
            memory_bytes: 64 << 20,
            threads: 3,
            drives: 2,
        },
    ];
    for (unit, files) in cases {
        let options = options(unit, 42);
        let expected = expected(&files, options);
        let mut was_away = false;
        for resources in resources {
            let (got, summary) = shuffled(&files, options, resources);
            assert!(got == expected, "{unit:?} {resources:?}\n{}", summary.plan);
            was_away |= summary.plan.distributions > 0;
            let moved = summary.plan.predicted_read_bytes as f64;
            assert!(
                (summary.read_bytes as f64) < 1.2 * moved + 4e6,
                "{}",
                summary.plan
            );
        }
        let total: usize = files.iter().map(Vec::len).sum();
        assert!(
            was_away || total < 20 << 20,
            "{unit:?} was always in memory"
        );
    }
}

#[test]
fn a_bucket_too_large_for_an_area_is_drawn_again() {
    let files = [noise(7, 100 * 400_000)];
    let options = options(Unit::Records { record_bytes: 100 }, 1);
    let plan_with = |memory_bytes| {
        plan_shuffle(ShuffleSize {
            job: JobSize {
                data_bytes: files[0].len() as u64,
                held_bytes: 0,
                memory_bytes,
                threads: 1,
                drive_count: 2,
                layout: crate::job::Layout::even(crate::job::DriveRates::ASSUMED, 2).into(),
                costs: crate::job::ComputeCosts::ASSUMED,
            },
            record_bytes: Some(100),
            longest_bytes: None,
        })
    };
    let is_twice = |memory_bytes: &u64| plan_with(*memory_bytes).is_ok_and(|p| p.distributions > 1);
    let mut sizes = (40..160).map(|step| step << 16);
    let resources = Resources {
        memory_bytes: sizes.find(is_twice).expect("some memory is that small"),
        threads: 1,
        drives: 2,
    };
    let (got, summary) = shuffled(&files, options, resources);
    assert!(summary.plan.distributions > 1, "{}", summary.plan);
    assert!(got == expected(&files, options));
}

#[test]
fn long_lines_short_lines_and_a_last_one_without_end_all_come_out() {
    let mut file = text(8, 2 << 20, 40);
    file.extend(vec![b'x'; 400_000]);
    file.push(b'\n');
    file.extend(vec![b'\n'; 200_000]);
    file.extend(vec![b'y'; 300_000]);
    let files = [file];
    let options = options(LINES, 3);
    for memory_bytes in [32 << 20, 128 << 20] {
        let resources = Resources {
            memory_bytes,
            ..PLENTY
        };
        let (got, summary) = shuffled(&files, options, resources);
        assert!(got == expected(&files, options), "{}", summary.plan);
    }
}

#[test]
fn a_line_too_long_for_the_memory_is_an_error_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = write_inputs(dir.path(), &[vec![b'x'; 64 << 20]]);
    let path = dir.path().join("output");
    let resources = Resources {
        memory_bytes: 32 << 20,
        ..PLENTY
    };
    let output = Output::File {
        path: path.clone(),
        header: None,
    };
    let job = job(dir.path(), resources);
    let error = shuffle(&job, &inputs, output, options(LINES, 1)).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Memory, "{error}");
    assert!(!path.exists());
    let mut left = std::fs::read_dir(dir.path().join("drive-0")).unwrap();
    assert!(left.next().is_none());
}

#[test]
fn a_pipe_gets_what_a_file_gets() {
    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let files = [text(9, 3 << 20, 60)];
    let (expected, _) = shuffled(&files, options(LINES, 5), PLENTY);
    let dir = tempfile::tempdir().unwrap();
    let inputs = write_inputs(dir.path(), &files);
    let got = Shared::default();
    let output = Output::Pipe(Mutex::new(Box::new(got.clone())));
    let job = job(dir.path(), PLENTY);
    shuffle(&job, &inputs, output, options(LINES, 5)).unwrap();
    assert!(*got.0.lock().unwrap() == expected);
}

#[test]
fn what_is_read_in_the_order_of_a_shuffle_is_what_it_writes() {
    let files = [noise(10, 24 * 40_001), Vec::new(), noise(11, 24 * 90_000)];
    let by_record = options(Unit::Records { record_bytes: 24 }, 6);
    let written = expected(&files, by_record);
    let dir = tempfile::tempdir().unwrap();
    let inputs = write_inputs(dir.path(), &files);
    let job = job(dir.path(), PLENTY);
    let order = Shuffled::open(&job, &inputs, 24, 6, 0).unwrap();
    assert_eq!(order.len(), 130_001);
    for (from, count) in [
        (0, 130_001),
        (0, 1),
        (130_000, 1),
        (77, 5000),
        (60_000, 40_000),
        (9, 0),
    ] {
        let mut out = vec![0; count * 24];
        order.read(from, &mut out).unwrap();
        assert!(
            out == written[from as usize * 24..][..count * 24],
            "{count} from {from}"
        );
    }
    let error = order.read(130_000, &mut [0; 48]).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Usage);
    let other = Shuffled::open(&job, &inputs, 24, 6, 1).unwrap();
    let mut out = vec![0; 24 * 1000];
    other.read(0, &mut out).unwrap();
    assert!(out[..] != written[..out.len()]);
    drop((order, other));
    assert_eq!(job.budget.used_bytes(), 0);
}

/// A shuffle on three drives in memory that goes through scratch, with a fault; returns its result,
/// and the device.
fn shuffle_with_fault(
    input: &[u8],
    unit: Unit,
    fault: &str,
) -> (Result<ShuffleSummary>, RamDevice, u64) {
    let device = RamDevice::new(RamOptions {
        seed: 4,
        capacity_bytes: 1 << 30,
        short_one_in: 7,
    });
    device.put("/d0/in", input.to_vec());
    let faulty = FaultDevice::new(Arc::new(device.clone()), fault.parse().unwrap());
    let faulty = Arc::new(faulty);
    let drives = (0..3).map(|drive| ScratchDrive::new(format!("/d{drive}")));
    let options_of_job = JobOptions {
        memory_bytes: 20 << 20,
        threads: 1,
        drives: drives.collect(),
        ..JobOptions::default()
    };
    let job = Job::on(options_of_job, Arc::clone(&faulty) as Arc<dyn Device>);
    let output = Output::File {
        path: "/d1/out".into(),
        header: None,
    };
    let inputs = [Input::raw("/d0/in")];
    let result = shuffle(&job, &inputs, output, options(unit, 2));
    assert_eq!(job.budget.used_bytes(), 0);
    (result, device, faulty.operations())
}

#[test]
fn a_fault_at_any_io_is_an_error_with_its_place_or_made_good_and_leaves_nothing() {
    let cases = [
        (Unit::Records { record_bytes: 1000 }, noise(1, 26_000_000)),
        (LINES, text(2, 26_000_000, 2000)),
    ];
    for (unit, input) in cases {
        let expected = expected(std::slice::from_ref(&input), options(unit, 2));
        for (fault, kind, step) in [
            ("eio", crate::Kind::Io, 90),
            ("enospc", crate::Kind::NoSpace, 90),
            ("flip", crate::Kind::Corrupt, 140),
        ] {
            let counted = if fault == "flip" { ":read" } else { "" };
            let mut failed = 0;
            for nth in (1..).step_by(step) {
                let spec = format!("{fault}@{nth}{counted}");
                let (result, device, operations) = shuffle_with_fault(&input, unit, &spec);
                let list = device.list();
                match result {
                    Ok(summary) => {
                        assert!(summary.plan.distributions > 0, "{}", summary.plan);
                        // A flipped bit in the input cannot be detected.
                        let got = device.get("/d1/out").unwrap();
                        assert!(fault == "flip" || got == expected, "{spec}");
                        assert_eq!(list.len(), 2, "{spec}: {list:?}");
                    }
                    Err(error) => {
                        failed += 1;
                        assert_eq!(error.kind(), kind, "{spec}: {error}");
                        assert_eq!(list.len(), 1, "{spec}: {list:?}");
                    }
                }
                assert!(device.get("/d0/in").unwrap() == input, "{spec}");
                if operations < nth {
                    break;
                }
            }
            assert!(failed > 0 || fault == "enospc", "{fault} never failed");
        }
    }
}

#[test]
fn cancelling_ends_a_shuffle_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = write_inputs(dir.path(), &[noise(3, 8 << 20)]);
    let job = job(dir.path(), PLENTY);
    job.control.cancel();
    let output = Output::File {
        path: dir.path().join("output"),
        header: None,
    };
    let by_record = options(Unit::Records { record_bytes: 8 }, 1);
    let error = shuffle(&job, &inputs, output, by_record).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Interrupted);
    assert!(!dir.path().join("output").exists());
}

proptest! {
    #![proptest_config(often::tried(40))]

    #[test]
    fn small_inputs_are_permuted_by_the_definition(
        counts in prop::collection::vec(0usize..60, 1..4),
        record_bytes in 1usize..50,
        seed in any::<u64>(),
        epoch in 0u64..3,
        is_ended in any::<bool>(),
        threads in 1usize..4,
    ) {
        let resources = Resources { memory_bytes: 64 << 20, threads, drives: 1 };
        let files: Vec<Vec<u8>> = counts
            .iter()
            .enumerate()
            .map(|(index, count)| noise(index as u64, count * record_bytes))
            .collect();
        let by_record = ShuffleOptions { epoch, ..options(Unit::Records { record_bytes }, seed) };
        let written = expected(&files, by_record);
        prop_assert_eq!(&shuffled(&files, by_record, resources).0, &written);
        let dir = tempfile::tempdir().unwrap();
        let (inputs, job) = (write_inputs(dir.path(), &files), job(dir.path(), resources));
        let order = Shuffled::open(&job, &inputs, record_bytes, seed, epoch).unwrap();
        let mut read = vec![0; written.len()];
        for (number, record) in read.chunks_mut(record_bytes * 7).enumerate() {
            order.read(number as u64 * 7, record).unwrap();
        }
        prop_assert_eq!(&read, &written);
        let texts: Vec<Vec<u8>> = counts
            .iter()
            .map(|count| {
                let mut text = text(seed, count * 10, 20);
                if !is_ended {
                    text.pop();
                }
                text
            })
            .collect();
        let by_line = ShuffleOptions { epoch, ..options(LINES, seed) };
        prop_assert_eq!(shuffled(&texts, by_line, resources).0, expected(&texts, by_line));
    }
}
