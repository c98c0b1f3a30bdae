//! A failure of every single I/O of every consumer.
//!
//! Contract: the answer is a specific error, after which nothing is left behind, or the correct
//! result; in either case the whole budget is free again.

use std::path::PathBuf;
use std::sync::Arc;

use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::key::expr::Schema;
use outcore::primitives::group::{Grouping, group};
use outcore::primitives::{
    BucketFiles, GroupedBy, Inclusion, Sequence, Table, gather, histogram, partition, read, reduce,
    scan, top_k, write,
};
use outcore::{Input, Output};
use outcore::{Kind, Result};
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};

use super::kit::{bytes_of, file, numbers, options};

/// Elements of the input, on two drives.
const COUNT: usize = 40_000;

/// The job on the files; returns elements.
type Work<'a> = &'a dyn Fn(&Job, &[Input]) -> Result<Vec<u64>>;

/// Walks `fault` through `work`, which writes the files in `outputs`.
fn walk(fault: &str, outputs: &[&str], work: Work<'_>) {
    let items = numbers(COUNT, 5);
    let inputs = ["/d0/in", "/d1/in"].map(Input::raw);
    let try_with = |plan: FaultPlan| {
        let ram = RamDevice::new(RamOptions::default());
        ram.put("/d0/in", bytes_of(&items[..COUNT / 3]));
        ram.put("/d1/in", bytes_of(&items[COUNT / 3..]));
        let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
        let job = Job::on(options(2, 5000), Arc::clone(&device) as _);
        let outcome = work(&job, &inputs).map(|found| {
            let files = outputs.iter().map(|path| ram.get(path).unwrap());
            files.chain([bytes_of(&found)]).collect::<Vec<Vec<u8>>>()
        });
        assert_eq!(job.budget.used_bytes(), 0, "{plan:?}");
        (outcome, ram, device.operations())
    };
    let never: FaultPlan = format!("{fault}@{}", u64::MAX).parse().unwrap();
    let (expected, _, operations) = try_with(never);
    let expected = expected.unwrap();
    assert!(operations > 1, "a job has more operations");
    let mut failed = 0;
    for nth in 1..=operations {
        let plan: FaultPlan = format!("{fault}@{nth}").parse().unwrap();
        match try_with(plan) {
            (Ok(found), ..) => assert!(found == expected, "{plan:?}"),
            (Err(error), ram, _) => {
                failed += 1;
                let is_space = fault == "enospc";
                assert_eq!(error.kind() == Kind::NoSpace, is_space, "{error}");
                assert!(!error.operation().is_empty() && !error.cause().is_empty());
                let left: Vec<PathBuf> = ram.list();
                assert_eq!(left.len(), 2, "{plan:?}: {left:?}");
            }
        }
    }
    assert!(failed > 0, "some operation counts");
}

fn one() -> Output {
    file("/d0/out")
}

#[test]
fn a_reduce_fails_by_name() {
    walk("eio", &[], &|job, inputs| {
        reduce(job, &read::<u64>(inputs), 0, u64::wrapping_add).map(|sum| vec![sum])
    });
}

#[test]
fn a_scan_into_one_file_or_several_fails_by_name_and_leaves_nothing() {
    let (kind, all) = (Inclusion::Inclusive, read::<u64>);
    for fault in ["eio", "enospc"] {
        walk(fault, &["/d0/out"], &|job, inputs| {
            let output = one();
            scan(
                job,
                &all(inputs),
                0,
                u64::wrapping_add,
                kind,
                &output,
                false,
            )?;
            Ok(Vec::new())
        });
    }
    let paths = ["/d0/part-0", "/d1/part-1", "/d0/part-2"];
    let in_parts = |job: &Job, inputs: &[Input]| {
        let output = Output::Shards {
            paths: paths.map(PathBuf::from).to_vec(),
            manifest: "/d0/parts.outcore.json".into(),
        };
        scan(
            job,
            &all(inputs),
            0,
            u64::wrapping_add,
            kind,
            &output,
            false,
        )?;
        Ok(Vec::new())
    };
    walk("eio", &paths, &in_parts);
}

#[test]
fn a_partition_fails_by_name_and_leaves_none_of_its_files() {
    let paths = ["/d0/odd", "/d1/even"];
    walk("eio", &paths, &|job, inputs| {
        let files = BucketFiles {
            paths: paths.map(PathBuf::from).to_vec(),
            manifest: Some("/d0/both.outcore.json".into()),
            replace: false,
            header: None,
        };
        partition(job, &read::<u64>(inputs), |x| x % 2 == 1, &files)?;
        Ok(Vec::new())
    });
}

#[test]
fn a_histogram_a_gather_and_the_largest_items_fail_by_name() {
    walk("eio", &[], &|job, inputs| {
        let counts = histogram(job, &read::<u64>(inputs), 4, |x| Some((x % 4) as usize))?;
        Ok(counts.0)
    });
    walk("eio", &[], &|job, inputs| {
        top_k(job, &read::<u64>(inputs), 100, u64::cmp).map(|(best, _)| best)
    });
    let positions: Vec<u64> = (0..100).map(|i| i * 7919 % COUNT as u64).collect();
    walk("eio", &[], &|job, inputs| {
        let (bytes, _) = gather(job, inputs, 8, &positions)?;
        Ok(bytemuck::pod_collect_to_vec(&bytes))
    });
}

#[test]
fn distinct_items_by_hash_and_by_sort_fail_by_name_and_leave_nothing() {
    let u64s = RecordFormat::parse_type("u64").unwrap();
    for (modulus, by) in [(100, GroupedBy::Hash), (u64::MAX, GroupedBy::Sort)] {
        walk("eio", &["/d0/out"], &|job, inputs| {
            let table = Table::read(inputs, &u64s, Schema::of_format(&u64s));
            let table = table.map(&format!("x % {modulus}")).unwrap();
            let output = one();
            let done = group(job, &table, &u64s, Grouping::Counted, &output, false)?;
            assert_eq!(done.by, by);
            Ok(Vec::new())
        });
    }
}

#[test]
fn sequences_side_by_side_fail_by_name_and_leave_nothing() {
    walk("eio", &["/d0/out"], &|job, inputs| {
        let turned: Vec<Input> = inputs.iter().rev().cloned().collect();
        let both = read::<u64>(inputs).zip(read::<u64>(&turned));
        let both = both.map(|(x, y)| x ^ (y >> 1));
        write(job, &both, &one(), false)?;
        Ok(Vec::new())
    });
}
