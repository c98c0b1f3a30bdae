//! Functions on whole files.
//!
//! Contract: results equal those of a loop over the files; errors name the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outcore::Input;
use outcore::job::Job;
use outcore::primitives::map_files;
use outcore::{Error, Kind};
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice};
use proptest::prelude::*;

use super::kit::{numbers, options, ram_job};

/// Files of these lengths, with headers, alternating over `drives` drives.
fn put_files(
    device: &RamDevice,
    lens: &[usize],
    drives: usize,
    header_bytes: usize,
) -> (Vec<Input>, Vec<Vec<u8>>) {
    let data = |(number, len): (usize, &usize)| -> Vec<u8> {
        let bytes = numbers(len / 8 + 1, number as u64);
        bytes
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .take(*len)
            .collect()
    };
    let contents: Vec<Vec<u8>> = lens.iter().enumerate().map(data).collect();
    let input = |(number, bytes): (usize, &Vec<u8>)| {
        let path = format!("/d{}/file-{number}", number % drives);
        device.put(&path, [vec![0xEE; header_bytes], bytes.clone()].concat());
        Input {
            path: path.into(),
            header_bytes: header_bytes as u64,
            data_bytes: None,
        }
    };
    (contents.iter().enumerate().map(input).collect(), contents)
}

fn checksum(bytes: &[u8]) -> (usize, u64) {
    let step = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
    (bytes.len(), bytes.iter().fold(0, step))
}

proptest! {
    #![proptest_config(crate::support::often::tried(24))]

    #[test]
    fn results_are_those_of_a_loop_over_the_files(
        lens in prop::collection::vec(prop_oneof![Just(0usize), 0usize..10_000, Just(4096), Just(500_000)], 0..30),
        drives in 1usize..9, threads in 1usize..5, header in prop_oneof![Just(0usize), 0usize..9000],
        memory_kib in 520u64..4000, seed: u64,
    ) {
        let (device, job) = ram_job(threads, memory_kib, seed);
        let (inputs, contents) = put_files(&device, &lens, drives, header);
        let (found, summary) = map_files(&job, &inputs, |file| {
            assert_eq!(file.path, inputs[file.index].path);
            Ok(checksum(file.bytes))
        }).unwrap();
        let expected: Vec<(usize, u64)> = contents.iter().map(|bytes| checksum(bytes)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(summary.records, lens.len() as u64);
        prop_assert_eq!(job.budget.used_bytes(), 0);
        prop_assert!(job.budget.peak_bytes() <= memory_kib << 10);
    }
}

#[test]
fn large_files_are_read_in_pieces_and_given_whole() {
    let (device, job) = ram_job(2, 40_000, 3);
    let (inputs, contents) = put_files(&device, &[9_000_001, 4 << 20, (4 << 20) + 1, 5], 2, 77);
    let (found, _) = map_files(&job, &inputs, |file| Ok(file.bytes.to_vec())).unwrap();
    assert!(found == contents);
}

#[test]
fn a_function_that_fails_or_panics_does_so_in_its_own_words_with_the_files_name() {
    let (device, job) = ram_job(3, 4000, 1);
    let (inputs, _) = put_files(&device, &[100, 200, 300, 400, 500], 2, 0);
    let refused = map_files(&job, &inputs, |file| match file.bytes.len() {
        300 => Err(Error::corrupt("parse", "no magic number")),
        len => Ok(len),
    });
    let error = refused.unwrap_err();
    assert_eq!(
        (error.kind(), error.cause()),
        (Kind::Corrupt, "no magic number")
    );
    assert_eq!(error.file_path().unwrap(), inputs[2].path);
    let panicked = map_files(&job, &inputs, |file| {
        assert!(file.index != 4, "the fifth file is none of ours");
        Ok(())
    });
    let error = panicked.unwrap_err();
    assert!(
        error.cause().contains("the fifth file is none of ours"),
        "{error}"
    );
    assert_eq!(error.file_path().unwrap(), inputs[4].path);
    assert_eq!(job.budget.used_bytes(), 0);
}

#[test]
fn a_file_beyond_the_memory_is_named_and_a_cancelled_job_stops() {
    let (device, job) = ram_job(2, 1000, 1);
    let (inputs, _) = put_files(&device, &[100, 2_000_000, 300], 1, 0);
    let error = map_files(&job, &inputs, |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory);
    assert_eq!(error.file_path().unwrap(), inputs[1].path);
    let calls = AtomicU64::new(0);
    let stopped = map_files(&job, &inputs[..1], |_| {
        calls.fetch_add(1, Ordering::Relaxed);
        job.control.cancel();
        job.control.check()
    });
    assert_eq!(stopped.unwrap_err().kind(), Kind::Interrupted);
    assert_eq!(calls.into_inner(), 1);
}

#[test]
fn a_failure_at_any_read_is_named_and_nothing_stays_reserved() {
    for nth in 1.. {
        let (ram, _) = ram_job(1, 1000, 1);
        let (inputs, _) = put_files(&ram, &[5_000_000, 10, 0, 70_000], 2, 100);
        let plan: FaultPlan = format!("eio@{nth}:read").parse().unwrap();
        let device = Arc::new(FaultDevice::new(Arc::new(ram), plan));
        let job = Job::on(options(2, 30_000), Arc::clone(&device) as _);
        let outcome = map_files(&job, &inputs, |file| Ok(file.bytes.len()));
        assert_eq!(job.budget.used_bytes(), 0);
        match outcome {
            Ok((lens, _)) => {
                assert_eq!(lens, [5_000_000, 10, 0, 70_000]);
                assert!(nth > 3, "a job has more reads");
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io);
                assert!(error.file_path().is_some(), "{error}");
            }
        }
    }
}
