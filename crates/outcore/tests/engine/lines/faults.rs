//! Faults at every I/O of small sorts of lines.
//!
//! Contract: each fault leads to a specific error or a correct result, and nothing is left behind.

use std::sync::Arc;

use outcore::Kind;
use outcore::key::sort_key::Tie;
use outcore::sort::lines::LineSortOptions;
use outcore_io::drive::Device;
use outcore_io::drive::testing::{FaultDevice, FaultPlan};

use super::jobs::{LineJob, TestOrder};
use super::texts::{Text, text};

/// Small jobs that differ in everything that determines their I/Os.
fn small_jobs() -> Vec<LineJob> {
    let bytes = TestOrder::Bytes { descending: false };
    let mut plain = LineJob::of(bytes, text(Text::Words, 300_000, b'\n', 1));
    plain.drives = 2;
    let mut count = LineJob::of(bytes, text(Text::Heavy, 200_000, b'\n', 2));
    count.options.count = true;
    count.threads = 2;
    let order = TestOrder::Length {
        descending: true,
        tie: Tie::Position,
    };
    let mut stable = LineJob::of(order, text(Text::Long, 200_000, b'\n', 3));
    stable.inputs.push(text(Text::Few, 50_000, b'\n', 4));
    let mut pipe = LineJob::of(bytes, text(Text::Prefix, 200_000, b'\n', 5));
    pipe.to_pipe = true;
    pipe.options = LineSortOptions {
        unique: true,
        ..pipe.options
    };
    vec![plain, count, stable, pipe]
}

#[test]
fn a_fault_at_any_operation_is_named_or_made_good() {
    let kinds = [
        ("eio", "read", Kind::Io),
        ("eio", "write", Kind::Io),
        ("eio", "control", Kind::Io),
        ("eio", "sync", Kind::Io),
        ("enospc", "write", Kind::NoSpace),
        ("flip", "read", Kind::Corrupt),
    ];
    for job in small_jobs() {
        let expected = job.expected();
        for (fault, counted, kind) in kinds {
            let (mut n, mut failed) = (1, 0);
            loop {
                let plan: FaultPlan = format!("{fault}@{n}:{counted}").parse().unwrap();
                let device = job.make_device();
                let faulty = Arc::new(FaultDevice::new(Arc::new(device.clone()), plan));
                let ran = job.run(&device, &job.job(Arc::clone(&faulty) as Arc<dyn Device>));
                match &ran.result {
                    Err(error) => {
                        assert_eq!(
                            error.kind(),
                            kind,
                            "{fault}@{n}:{counted} {error}: {}",
                            ran.what
                        );
                        failed += 1;
                    }
                    // A flipped bit in the input itself cannot be detected.
                    Ok(_) if fault == "flip" => {}
                    Ok(_) => assert!(
                        ran.output == Some(expected.clone()),
                        "{fault}@{n}:{counted}"
                    ),
                }
                if faulty.operations() < n {
                    break;
                }
                n += 1;
            }
            assert!(n > 1 || job.to_pipe, "{fault}:{counted} was tried");
            assert!(failed > 0 || counted == "control" || fault == "enospc" || job.to_pipe);
        }
    }
}
