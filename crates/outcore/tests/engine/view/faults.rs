//! Faults in views: a specific error or correct data, never anything else.
//!
//! Contract: bits are flipped anywhere in any run, runs are truncated and removed, and every single
//! operation of building and reading fails once. Errors must name run, drive and offset.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use outcore::runs::SortedView;
use outcore::{Error, Kind};
use outcore_io::drive::testing::{FaultDevice, FaultPlan, RamDevice};

use super::kit::{Case, DIR};
use crate::support::devices::HookDevice;

fn built(case: &Case) -> (RamDevice, Vec<PathBuf>, Vec<u8>) {
    let ram = case.ram();
    let input = case.input();
    ram.put("/d0/in", input.clone());
    let job = case.job(Arc::new(ram.clone()));
    let (view, _) = case.build(&job).unwrap();
    let runs = view.info().runs.into_iter().map(|(path, _, _)| path);
    let runs = runs.collect();
    (ram, runs, case.sorted(&input))
}

/// Opens the view and reads all of it.
fn read(case: &Case, ram: &RamDevice) -> Result<Vec<u8>, Error> {
    let job = case.job(Arc::new(ram.clone()));
    let view = SortedView::open(&job, DIR.as_ref())?;
    let mut reader = view.reader(view.reader_bytes(1))?;
    reader.seek(0..view.len())?;
    let mut all = vec![0; view.len_bytes() as usize];
    reader.read(&mut all)?;
    Ok(all)
}

#[test]
fn a_flipped_bit_anywhere_in_a_run_is_found_and_named() {
    let case = Case {
        drives: 2,
        ..Case::of("gensort", 4000, 5)
    };
    let (ram, runs, sorted) = built(&case);
    for (turn, run) in runs.iter().cycle().take(60).enumerate() {
        let bits = ram.get(run).unwrap().len() as u64 * 8;
        let bit = crate::support::patterns::random(3, 1, turn as u64) % bits;
        ram.flip_bit(run, bit);
        match read(&case, &ram) {
            // Padding between records and index, or after it.
            Ok(all) => assert!(all == sorted, "bit {bit} of {}", run.display()),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Corrupt, "{error}");
                assert_eq!(error.file_path(), Some(run.as_path()), "{error}");
                let offset = error.offset_bytes().unwrap();
                assert!(offset <= bit / 8, "{error}");
                assert!(error.drive_name().is_some() && error.to_string().contains("run "));
            }
        }
        ram.flip_bit(run, bit);
    }
    assert!(read(&case, &ram).unwrap() == sorted);
}

#[test]
fn runs_that_are_gone_or_cut_short_are_named() {
    let case = Case {
        drives: 3,
        ..Case::of("u64", 20_000, 6)
    };
    let (ram, runs, _) = built(&case);
    for run in &runs {
        let bytes = ram.get(run).unwrap();
        ram.put(run, bytes[..bytes.len() - 5000].to_vec());
        let error = read(&case, &ram).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert_eq!(error.file_path(), Some(run.as_path()));
        assert!(error.offset_bytes().is_some());
        ram.put(run, bytes);
    }
    use outcore_io::drive::FileSystem;
    ram.remove(&runs[2]).unwrap();
    let error = read(&case, &ram).unwrap_err();
    assert_eq!(error.kind(), Kind::Io);
    assert_eq!(error.file_path(), Some(runs[2].as_path()));
    assert!(error.to_string().contains("run 2"), "{error}");
}

#[test]
fn a_run_that_is_cut_while_it_is_read_is_named() {
    let case = Case::of("u64", 200_000, 4);
    let (ram, runs, sorted) = built(&case);
    let job = case.job(Arc::new(ram.clone()));
    let view = SortedView::open(&job, DIR.as_ref()).unwrap();
    let mut reader = view.reader(view.reader_bytes(1)).unwrap();
    let mut out = vec![0; 800];
    assert_eq!(reader.read_at(80_000, &mut out).unwrap(), 800);
    assert!(out == sorted[80_000..80_800]);
    use outcore_io::drive::{Access, FileSystem};
    let file = ram.open(&runs[1], Access::Update).unwrap();
    ram.set_len(file, 4096).unwrap();
    let error = reader.read_at(1_500_000, &mut out).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert_eq!(error.file_path(), Some(runs[1].as_path()), "{error}");
    // The next read also fails, and returns no wrong data.
    assert!(reader.read_at(1_500_000, &mut out).is_err());
}

#[test]
fn a_drive_that_is_lost_while_reading_is_named_and_read_again_once_it_is_back() {
    let case = Case {
        drives: 3,
        ..Case::of("u64", 300_000, 9)
    };
    let (ram, _, sorted) = built(&case);
    let is_lost = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_lost);
    let device = HookDevice::new(Arc::new(ram), move |path, completion| {
        if path.starts_with("/d2") && switch.load(Ordering::Relaxed) {
            completion.result = Err(Errno::NODEV.raw_os_error());
        }
    });
    let job = case.job(Arc::new(device));
    let view = SortedView::open(&job, DIR.as_ref()).unwrap();
    let mut reader = view.reader(2 << 20).unwrap();
    reader.seek(0..view.len()).unwrap();
    let mut out = vec![0; 80_000];
    let mut done = 0;
    let error = loop {
        match reader.read(&mut out) {
            Ok(0) => panic!("all was read without the drive"),
            Ok(len) => {
                assert!(out[..len] == sorted[done..done + len], "at {done}");
                done += len;
                is_lost.store(true, Ordering::Relaxed);
            }
            Err(error) => break error,
        }
    };
    assert!(done > 0);
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert_eq!(error.drive_name(), Some("/d2"), "{error}");
    assert!(error.to_string().contains("run-0"), "{error}");
    assert!(error.offset_bytes().is_some(), "{error}");
    assert!(reader.seek(0..1000).is_err(), "it is still away");
    is_lost.store(false, Ordering::Relaxed);
    reader.seek(0..10_000).unwrap();
    assert_eq!(reader.read(&mut out).unwrap(), 80_000);
    assert!(out == sorted[..80_000]);
}

#[test]
fn every_fault_while_building_leaves_nothing_or_a_whole_view() {
    let case = Case {
        drives: 2,
        ..Case::of("gensort", 1500, 4)
    };
    for kind in ["eio", "enospc"] {
        for nth in 1.. {
            let ram = case.ram();
            let input = case.input();
            ram.put("/d0/in", input.clone());
            let plan: FaultPlan = match kind {
                "eio" => format!("eio@{nth}").parse().unwrap(),
                _ => format!("enospc@{nth}:write").parse().unwrap(),
            };
            let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            let job = case.job(Arc::clone(&device) as _);
            let outcome = case.build(&job);
            if device.operations() < nth {
                assert!(nth > 4);
                outcome.unwrap();
                assert!(read(&case, &ram).unwrap() == case.sorted(&input));
                break;
            }
            if let Err(error) = outcome {
                assert!(matches!(error.kind(), Kind::Io | Kind::NoSpace), "{error}");
                // Either nothing is there or, once the manifest exists, everything.
                let is_there = ram.get(format!("{DIR}/view.json")).is_some();
                match is_there {
                    false => assert_eq!(ram.list(), [PathBuf::from("/d0/in")], "{kind} {nth}"),
                    true => assert!(read(&case, &ram).unwrap() == case.sorted(&input)),
                }
                assert_eq!(job.budget.used_bytes(), 0);
            }
        }
    }
}

#[test]
fn every_fault_while_reading_is_an_error_or_right_data() {
    let case = Case {
        drives: 2,
        threads: 2,
        ..Case::of("i64", 30_000, 9)
    };
    let (ram, _, sorted) = built(&case);
    for fault in ["eio", "flip"] {
        for nth in 1.. {
            let plan: FaultPlan = format!("{fault}@{nth}:read").parse().unwrap();
            let device = Arc::new(FaultDevice::new(Arc::new(ram.clone()), plan));
            let job = case.job(Arc::clone(&device) as _);
            let outcome = SortedView::open(&job, DIR.as_ref()).and_then(|view| {
                let mut out = Vec::new();
                view.copy_to(0..view.len(), &mut out)?;
                Ok(out)
            });
            match outcome {
                Ok(out) => assert!(out == sorted, "{fault} {nth}"),
                Err(error) => assert!(matches!(error.kind(), Kind::Io | Kind::Corrupt), "{error}"),
            }
            if device.operations() < nth {
                assert!(nth > 10);
                break;
            }
        }
    }
}

#[test]
fn cancelling_ends_a_build_and_leaves_nothing() {
    let case = Case::of("u64", 100_000, 5);
    let ram = case.ram();
    ram.put("/d0/in", case.input());
    let job = case.job(Arc::new(ram.clone()));
    job.control.cancel();
    let error = case.build(&job).err().unwrap();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert_eq!(ram.list(), [PathBuf::from("/d0/in")]);
}
