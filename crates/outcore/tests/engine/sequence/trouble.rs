//! Passes that fail, are stopped, or are rejected: with a specific error, and nothing left behind.
//!
//! Contract: the answer is an error that names its cause, or a correct result; never leftovers.

use std::sync::Arc;

use outcore::IoMode;
use outcore::Kind;
use outcore::job::Job;
use outcore::primitives::{Sequence, count, read, tabulate, write};
use outcore::{Input, Output};
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice, RamOptions};

use super::kit::{bytes_of, file, numbers, options, ram_job};

#[test]
fn a_failure_at_any_io_is_named_and_leaves_nothing() {
    for (kind, is_filter) in [("eio", true), ("enospc", true), ("eio", false)] {
        for nth in 1.. {
            let plan: FaultPlan = format!("{kind}@{nth}").parse().unwrap();
            let ram = RamDevice::new(RamOptions::default());
            ram.put("/d0/in", bytes_of(&numbers(100_000, 5)));
            let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            let job = Job::on(options(2, 5000), Arc::clone(&device) as _);
            let input = [Input::raw("/d0/in")];
            let outcome = match is_filter {
                true => write(
                    &job,
                    &read::<u64>(&input).filter(|x| x % 2 == 0),
                    &file("/d0/out"),
                    false,
                ),
                false => write(
                    &job,
                    &read::<u64>(&input).map(|x| !x),
                    &file("/d0/out"),
                    false,
                ),
            };
            if device.operations() < nth {
                assert!(nth > 5, "a job has more operations");
                outcome.unwrap();
                break;
            }
            let Err(error) = outcome else {
                // Room that could not be reserved was not needed in the end.
                assert!(kind == "enospc" && ram.get("/d0/out").is_some());
                continue;
            };
            assert_eq!(error.kind() == Kind::NoSpace, kind == "enospc", "{error}");
            assert!(ram.get("/d0/out").is_none());
            assert_eq!(ram.list().len(), 1, "{:?}", ram.list());
            assert_eq!(job.budget.used_bytes(), 0);
        }
    }
}

#[test]
fn a_function_that_panics_fails_the_job_in_its_own_words() {
    let (device, job) = ram_job(3, 20_000, 1);
    let check = |x: u64| {
        assert!(x != 77_777, "{x} is not a valid reading");
        x
    };
    let numbers = || tabulate(300_000, |i| i);
    let outcomes = [
        write(&job, &numbers().map(check), &file("/d0/out"), false).map(|_| ()),
        write(
            &job,
            &numbers().map(check).filter(|_| true),
            &file("/d0/out"),
            false,
        )
        .map(|_| ()),
        count(&job, &numbers().map(check)).map(|_| ()),
    ];
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert!(
            error.cause().contains("77777 is not a valid reading"),
            "{error}"
        );
        assert!(!error.to_string().contains("report"), "{error}");
        assert_eq!(error.kind(), Kind::Usage);
    }
    assert!(device.list().is_empty());
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_read() {
    let (device, job) = ram_job(2, 20_000, 1);
    device.put("/d0/in", vec![0; 80]);
    device.put("/d0/odd", vec![0; 81]);
    let input = [Input::raw("/d0/in")];
    let unequal = read::<u64>(&input).zip(tabulate(11, |i| i));
    let error = count(&job, &unequal).unwrap_err();
    assert!(error.cause().contains("10 elements"), "{error}");
    let error = count(&job, &read::<u64>(&[Input::raw("/d0/odd")])).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let error = count(&job, &read::<u64>(&[Input::raw("/d0/none")])).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    let (_, tight) = ram_job(64, 500, 1);
    let error = count(&tight, &tabulate(10, |i| i).map(|i| i)).map(|_| ());
    assert!(error.is_ok(), "nothing is read, so nothing is needed");
    tight.device.make_private_dir("/d0".as_ref()).unwrap();
    let error = write(&tight, &tabulate(10, |i| i), &file("/d0/out"), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Memory, "{error}");
    job.control.cancel();
    let error = count(&job, &read::<u64>(&input)).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
}

#[test]
fn shards_of_a_filter_hold_stretches_and_appear_together() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job::new(options(2, 30_000), IoMode::Auto);
    let paths: Vec<_> = (0..3)
        .map(|i| dir.path().join(format!("part-{i}")))
        .collect();
    let output = |replace_of: &str| Output::Shards {
        paths: paths.clone(),
        manifest: dir.path().join(replace_of),
    };
    let odd = tabulate(600_000, |i| i).filter(|x| x % 2 == 1);
    write(&job, &odd, &output("all.outcore.json"), false).unwrap();
    let stretches: Vec<Vec<u8>> = paths.iter().map(|p| std::fs::read(p).unwrap()).collect();
    let expected: Vec<u64> = (0..600_000).filter(|x| x % 2 == 1).collect();
    assert!(stretches.concat() == bytes_of(&expected));
    assert_eq!(stretches[0].len(), stretches[2].len());
    let error = write(&job, &odd, &output("all.outcore.json"), false).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    let all = tabulate(600_000, |i| i);
    write(&job, &all, &output("all.outcore.json"), true).unwrap();
    let stretches: Vec<Vec<u8>> = paths.iter().map(|p| std::fs::read(p).unwrap()).collect();
    assert!(stretches.concat() == bytes_of(&(0..600_000).collect::<Vec<u64>>()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
}
