//! Faults at every I/O of small jobs: a specific error or a correct result, nothing left behind, no
//! hang.
//!
//! [`Sort::run`] checks the guarantees of every run: unchanged inputs, no output or the old one,
//! nothing else left behind, all memory returned, no hang.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use outcore::Kind;
use outcore::job::Control;
use outcore::key::RecordFormat;
use outcore::sort::SortOptions;
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice};
use outcore_io::drive::{Access, Completion, Device, FileSystem, Op};
use outcore_io::memory::BLOCK_BYTES;

use crate::support::devices::{HookDevice, is_scratch};
use crate::support::patterns::{Payload, Values, fill, random};
use crate::support::runs::{Ran, Sort, Target};
use crate::support::{is_long, oracle};

const ENOSPC: i32 = 28;

/// A job of a few hundred I/Os: numbers, about two levels.
fn small(text: &str, bytes: usize) -> Sort {
    let format = RecordFormat::parse_type(text).unwrap();
    let records = bytes / format.record_bytes();
    let input = fill(&format, Values::Uniform, Payload::Random, 7, records);
    Sort::of(&format, input)
}

/// Small jobs that differ in everything that determines their I/Os.
fn small_jobs() -> Vec<Sort> {
    let mut plain = small("u64", 200_000);
    plain.drives = 2;
    let mut stable = small("100/0:4", 150_000).split_input(3);
    stable.options.stable = true;
    stable.drives = 3;
    stable.header_bytes = 80;
    let mut shards = small("u32be", 150_000);
    shards.target = Target::Shards(3);
    shards.drives = 2;
    shards.threads = 2;
    let mut unique = small("16/0:8:u64", 100_000);
    unique.options.unique = true;
    unique.target = Target::File { header_bytes: 128 };
    let mut pipe = small("f64", 100_000);
    pipe.target = Target::Pipe;
    let mut tiny = small("i64", 50_000);
    tiny.memory_bytes = 16 << 20;
    vec![plain, stable, shards, unique, pipe, tiny]
}

fn expected(sort: &Sort) -> Vec<u8> {
    oracle::sorted(&sort.data(), &sort.format, sort.options)
}

/// Correct output, or a failure for which `is_due` holds; returns the failure.
fn check(ran: &Ran, expected: &[u8], is_due: impl Fn(&outcore::Error) -> bool) -> Option<Kind> {
    match &ran.result {
        Ok(_) => {
            assert!(ran.output.as_deref() == Some(expected), "{}", ran.what);
            None
        }
        Err(error) => {
            assert!(is_due(error), "{error}: {}", ran.what);
            Some(error.kind())
        }
    }
}

/// Runs `sort` with `fault@n:counted` for n = 1, 2, ... until a run has fewer operations; returns
/// the number of runs and of failed ones.
fn at_every(sort: &Sort, fault: &str, counted: &str, check: &dyn Fn(&Ran)) -> (u64, u64) {
    let mut failed = 0;
    for n in 1.. {
        let plan: FaultPlan = format!("{fault}@{n}:{counted}").parse().unwrap();
        let device = sort.make_device();
        let faulty = Arc::new(FaultDevice::new(Arc::new(device.clone()), plan));
        let job = sort.job(Arc::clone(&faulty) as Arc<dyn Device>);
        let mut ran = sort.run(&device, &job);
        ran.what = format!("{fault}@{n}:{counted}: {}", ran.what);
        check(&ran);
        failed += u64::from(ran.result.is_err());
        if faulty.operations() < n {
            return (n, failed);
        }
    }
    unreachable!("some run ends before its fault")
}

#[test]
fn an_io_error_at_any_operation_is_named_or_made_good() {
    for sort in small_jobs() {
        let expected = expected(&sort);
        for counted in ["read", "write", "sync", "control"] {
            let (runs, failed) = at_every(&sort, "eio", counted, &|ran| {
                check(ran, &expected, |error| {
                    let has_place = error.file_path().is_some() && error.offset_bytes().is_some();
                    error.kind() == Kind::Io
                        && error.raw_errno() == Some(5)
                        && (has_place || ["sync", "control"].contains(&counted))
                });
            });
            let is_needed = ["read", "write"].contains(&counted) && sort.target != Target::Pipe;
            assert!(
                failed + 1 == runs || !is_needed,
                "{counted}: {failed} of {runs}"
            );
        }
    }
}

#[test]
fn a_full_drive_at_any_write_is_named_or_another_takes_over() {
    for sort in small_jobs() {
        let expected = expected(&sort);
        for counted in ["write", "control"] {
            at_every(&sort, "enospc", counted, &|ran| {
                check(ran, &expected, |error| {
                    let hits_scratch = error.file_path().is_some_and(is_scratch);
                    let is_named = sort.drives == 1 || counted == "control" || !hits_scratch;
                    error.kind() == Kind::NoSpace && is_named
                });
            });
        }
    }
}

#[test]
fn an_old_output_outlives_every_failure() {
    let mut sort = small("u64", 100_000);
    sort.options.replace = true;
    let expected = expected(&sort);
    let step = if is_long() { 1 } else { 5 };
    for n in (1..).step_by(step) {
        let plan: FaultPlan = format!("eio@{n}").parse().unwrap();
        let device = sort.make_device();
        device.put("/d0/out", b"what was there before".to_vec());
        let faulty = Arc::new(FaultDevice::new(Arc::new(device.clone()), plan));
        let job = sort.job(Arc::clone(&faulty) as Arc<dyn Device>);
        let ran = sort.run(&device, &job);
        check(&ran, &expected, |error| error.kind() == Kind::Io);
        if faulty.operations() < n {
            return;
        }
    }
}

/// Runs `sort` with a hook on its transfers, which also knows the job's control.
fn hooked(
    sort: &Sort,
    hook: impl Fn(&RamDevice, &Control, &Path, &mut Completion) + Send + Sync + 'static,
) -> Ran {
    let device = sort.make_device();
    let control: Arc<OnceLock<Arc<Control>>> = Arc::default();
    let (inner, known) = (device.clone(), Arc::clone(&control));
    let device_with_hook = HookDevice::new(Arc::new(device.clone()), move |path, completion| {
        if let Some(control) = known.get() {
            hook(&inner, control, path, completion);
        }
    });
    let job = sort.job(Arc::new(device_with_hook));
    control.set(Arc::clone(&job.control)).unwrap();
    sort.run(&device, &job)
}

#[test]
fn drives_that_fill_up_leave_their_share_to_the_others() {
    for full in [&["/d1"][..], &["/d0", "/d2"], &["/d0", "/d1", "/d2"]] {
        for after in [0, 3, 20] {
            let mut sort = small("u64", 300_000);
            sort.drives = 4;
            let writes = AtomicU64::new(0);
            let ran = hooked(&sort, move |_, _, path, completion| {
                let is_full = full.iter().any(|drive| path.starts_with(drive));
                if is_full
                    && is_scratch(path)
                    && completion.request.op == Op::Write
                    && writes.fetch_add(1, Ordering::Relaxed) >= after
                {
                    completion.result = Err(ENOSPC);
                }
            });
            let failed = check(&ran, &expected(&sort), |_| false);
            assert_eq!(failed, None);
        }
    }
}

#[test]
fn the_only_drive_full_from_any_write_on_ends_the_job_with_its_name() {
    for text in ["u64", "gensort"] {
        let sort = small(text, 300_000);
        for after in [0, 1, 5, 17, 40, 60, 90, 120] {
            let writes = AtomicU64::new(0);
            let ran = hooked(&sort, move |_, _, path, completion| {
                if is_scratch(path)
                    && completion.request.op == Op::Write
                    && writes.fetch_add(1, Ordering::Relaxed) >= after
                {
                    completion.result = Err(ENOSPC);
                }
            });
            check(&ran, &expected(&sort), |error| {
                error.kind() == Kind::NoSpace && error.to_string().contains("drive0")
            });
        }
    }
}

#[test]
fn too_little_room_is_refused_or_named_at_any_capacity() {
    for text in ["u64", "gensort"] {
        let mut sort = small(text, 300_000);
        let data_bytes = sort.data().len() as u64;
        let mut refused = 0;
        for capacity_bytes in (data_bytes..5 * data_bytes).step_by(16 << 10) {
            sort.capacity_bytes = capacity_bytes;
            let ran = sort.on_ram();
            let failed = check(&ran, &expected(&sort), |error| {
                error.kind() == Kind::NoSpace
            });
            refused += u32::from(failed.is_some());
        }
        assert!(refused > 10, "some capacities are too small");
    }
}

#[test]
fn a_bit_that_rots_on_scratch_is_found_and_named() {
    for mut sort in small_jobs().into_iter().take(4) {
        sort.target = Target::File { header_bytes: 0 };
        let expected = expected(&sort);
        let mut found = 0;
        let step = if is_long() { 1 } else { 3 };
        for n in (0..).step_by(step) {
            let reads = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&reads);
            let ran = hooked(&sort, move |_, _, path, completion| {
                if is_scratch(path)
                    && completion.request.op == Op::Read
                    && counter.fetch_add(1, Ordering::Relaxed) == n
                {
                    let bits = completion.request.buf.len() as u64 * 8;
                    let bit = (random(n, 9, 0) % bits) as usize;
                    let mut slices = completion.request.buf.slices_mut();
                    slices.next().unwrap()[bit / 8] ^= 1 << (bit % 8);
                }
            });
            let failed = check(&ran, &expected, |error| {
                error.kind() == Kind::Corrupt
                    && error.file_path().is_some_and(is_scratch)
                    && error.offset_bytes().is_some()
                    && error
                        .drive_name()
                        .is_some_and(|name| name.starts_with("drive"))
            });
            found += u64::from(failed.is_some());
            if reads.load(Ordering::Relaxed) <= n {
                // Bits after the payload of a short segment do not matter.
                assert!(2 * found * step as u64 > n, "{found} found, {n} reads");
                break;
            }
        }
    }
}

#[test]
fn scratch_that_was_cut_is_found() {
    let sort = small("u64", 300_000);
    let ran = hooked(&sort, |_, _, path, completion| {
        if is_scratch(path) && completion.request.op == Op::Read {
            completion
                .request
                .buf
                .slices_mut()
                .for_each(|slice| slice.fill(0));
            completion.result = Ok(0);
        }
    });
    assert_eq!(ran.kind(), Some(Kind::Corrupt), "{}", ran.what);
}

#[test]
fn a_job_cancelled_at_any_transfer_stops_and_leaves_nothing() {
    for sort in small_jobs() {
        let expected = expected(&sort);
        let mut interrupted = 0;
        let step = if is_long() { 1 } else { 2 };
        for n in (0..).step_by(step) {
            let seen = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&seen);
            let ran = hooked(&sort, move |_, control, _, _| {
                if counter.fetch_add(1, Ordering::Relaxed) == n {
                    control.cancel();
                }
            });
            let failed = check(&ran, &expected, |error| error.kind() == Kind::Interrupted);
            interrupted += u64::from(failed.is_some());
            if seen.load(Ordering::Relaxed) <= n {
                assert!(interrupted > 0, "{}", ran.what);
                break;
            }
        }
    }
}

#[test]
fn an_input_that_changes_its_length_while_it_is_read_is_named() {
    for (text, inputs) in [("u64", 1), ("100/0:4", 3)] {
        for change in [-3 * BLOCK_BYTES as i64, -8, 8, BLOCK_BYTES as i64] {
            let mut sort = small(text, 300_000).split_input(inputs);
            sort.is_disturbed = true;
            let expected = expected(&sort);
            let victim = sort.input_path(inputs - 1);
            let mut named = 0;
            for n in 0..60 {
                let seen = Arc::new(AtomicU64::new(0));
                let (path, count) = (victim.clone(), Arc::clone(&seen));
                let ran = hooked(&sort, move |device, _, _, _| {
                    if count.fetch_add(1, Ordering::Relaxed) == n {
                        let file = device.open(&path, Access::Update).unwrap();
                        let len_bytes = device.facts(file).unwrap().len_bytes;
                        let changed = len_bytes.saturating_add_signed(change);
                        device.set_len(file, changed).unwrap();
                        device.close(file);
                    }
                });
                let failed = check(&ran, &expected, |error| {
                    error.kind() == Kind::Corrupt && error.file_path() == Some(&victim)
                });
                named += u32::from(failed.is_some());
                // With --replace, no other copy exists of data that were added while leaves were
                // sorted.
                let was_changed = seen.load(Ordering::Relaxed) > n;
                assert_eq!(failed.is_some(), was_changed, "{text} by {change} at {n}");
            }
            assert!(named > 0, "{text} by {change}");
        }
    }
}

#[test]
fn bad_requests_name_cause_place_and_remedy() {
    let sort = small("u64", 1000);
    let device = sort.make_device();
    let job = sort.job(Arc::new(device.clone()));
    let mut odd = sort.clone();
    odd.inputs[0].pop();
    let mut missing = sort.clone();
    missing.inputs.push(Vec::new());
    let mut shards = sort.clone();
    shards.target = Target::Shards(2);
    shards.options = SortOptions {
        unique: true,
        ..SortOptions::default()
    };
    let odd_device = odd.make_device();
    let odd_job = odd.job(Arc::new(odd_device.clone()));
    for (ran, kind, words) in [
        (odd.run(&odd_device, &odd_job), Kind::Usage, "multiple"),
        (shards.run(&device, &job), Kind::Usage, "--unique"),
    ] {
        let error = ran.result.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.next_step().is_some(), "{error}");
    }
    let mut first = sort.run(&device, &job);
    assert!(first.result.is_ok());
    first = sort.run(&device, &job);
    let error = first.result.unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
}
