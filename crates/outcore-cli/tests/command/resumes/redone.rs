//! The work that a continued run repeats.
//!
//! Contract: if a run is killed after its distribution, the next run does not read the input again,
//! if only few data were still in memory. A bucket that was divided again is not divided a second
//! time. If a drive has no room for copies, that is no error.

use super::changed::{killed_while_it_writes, late_sync};
use super::*;

/// Bytes that the run that continues reads before it sorts its buckets.
fn distributed_again(job: &Resumed) -> u64 {
    let words = [&job.command[..], &["--json".to_owned()]].concat();
    let summary = job.place.run(&words).ok().event("summary");
    let phases = summary["phases"].as_array().unwrap();
    let phase = phases.iter().find(|phase| phase["name"] == "distribute");
    phase.unwrap()["read_bytes"].as_u64().unwrap()
}

#[test]
fn a_run_that_is_killed_after_its_distribution_reads_no_input_again() {
    let lines = || others::lines(900_000, u64::MAX);
    for (verb, input, options) in [
        (
            "sort",
            random_u64(4_000_000, 71),
            "--type u64 --memory 6MiB --threads 1",
        ),
        ("sort", lines(), "--memory 12MiB --threads 1"),
        ("sort", lines(), "-s -k1.2,1.3 --memory 16MiB --threads 2"),
        ("shuffle", lines(), "--memory 20MiB --threads 1"),
    ] {
        let job = job_of(input, verb, options);
        let sync = late_sync(&job);
        for sync in [sync, sync - sync / 8] {
            killed_while_it_writes(&job, sync);
            assert_eq!(distributed_again(&job), 0, "{verb} {options} {sync}");
            job.is_whole(options);
        }
    }
}

#[test]
fn a_bucket_that_was_divided_again_is_not_divided_a_second_time() {
    for (input, options) in [
        (
            others::lines(900_000, u64::MAX),
            "--memory 5MiB --threads 2",
        ),
        (
            random_u64(3_000_000, 72),
            "--type u64 --memory 5MiB --threads 1",
        ),
        (
            Numbers(73).bytes(300_000 * 64),
            "--record 64 --key 3:5 --stable --memory 5MiB --threads 2",
        ),
    ] {
        let job = sort_of(input, options);
        killed_at(&job, 0.3);
        let early = distributed_again(&job);
        job.is_whole(options);
        killed_while_it_writes(&job, late_sync(&job));
        let late = distributed_again(&job);
        job.is_whole(options);
        println!("{options}: {early} bytes after an early kill, {late} after a late one");
        assert!(late * 20 < early, "{options}: {early} {late}");
        let (kept, _) = job.walk_few("kill");
        assert!(kept > 2, "{options}: {kept}");
    }
}

#[test]
fn no_room_for_copies_is_no_error() {
    let job = sort_of(
        random_u64(4_000_000, 74),
        "--type u64 --memory 6MiB --threads 1",
    );
    // The drive of scratch and of the output is full at one write.
    let (mut without_error, mut last_error) = (Vec::new(), 0);
    for nth in (1..6_000).step_by(61) {
        let answer = job.run_with(&format!("enospc@{nth}:write"));
        match answer.code {
            Some(0) => without_error.push(nth),
            _ => {
                last_error = nth;
                job.resume().ok();
            }
        }
        job.is_whole(&format!("enospc@{nth}"));
    }
    println!("{without_error:?} before {last_error}");
    assert!(without_error.iter().any(|nth| *nth < last_error));
}
