//! What is interrupted or damaged twice: labels that are half written, lost labels and folders, and
//! bits that flip while parity is computed.
//!
//! Contract: as in `datasets`.

use std::fs;

use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::replace::{Replaced, Replacement};
use outcore_store::dataset::{DatasetVolume, VolumeDrive, Watch};
use outcore_store::mapping::Redundancy;

use super::datasets::{TestDir, bytes};
use super::parity::create;
use super::*;

const REDUNDANT: [(Redundancy, usize); 2] = [(Redundancy::Mirror, 2), (Redundancy::Parity, 3)];

fn open(place: &TestDir) -> DatasetVolume {
    open_on(place, place.drives())
}

fn open_on(place: &TestDir, drives: Vec<VolumeDrive>) -> DatasetVolume {
    DatasetVolume::open(Arc::clone(&place.device), drives).unwrap()
}

/// The drives with that of one name in another directory.
fn moved(place: &TestDir, drive: &str, dir: &str) -> Vec<VolumeDrive> {
    let mut drives = place.drives();
    for known in drives.iter_mut().filter(|known| known.name == drive) {
        known.dir = place.path(dir);
    }
    drives
}

fn replace(place: &TestDir, drive: &str, dir: &str) -> outcore_io::Result<Replaced> {
    let wanted = Replacement {
        drive,
        dir: &place.path(dir),
        gives_up: false,
    };
    open(place).replace(wanted, &place.budget, Watch::NOBODY)
}

fn scrub(place: &TestDir) -> outcore_io::Result<usize> {
    let damages = open(place).scrub(&[], &place.budget, Watch::NOBODY)?;
    assert!(damages.iter().all(|damage| damage.is_repaired));
    Ok(damages.len())
}

/// Takes a drive away and leaves its mount point.
fn pull(place: &TestDir, drive: &str) {
    fs::rename(place.path(drive), place.path("away")).unwrap();
    fs::create_dir(place.path(drive)).unwrap();
}

/// Calls `act` with a device of which the n-th change of a name fails, and then `again` without, for
/// each n until `act` succeeds.
fn with_each_fault(
    make: impl Fn() -> TestDir,
    act: impl Fn(&TestDir) -> bool,
    again: impl Fn(&TestDir, &str),
) {
    let mut faults = 0;
    for nth in 1.. {
        let mut place = make();
        let system = Arc::clone(&place.device);
        let plan = format!("eio@{nth}:control").parse().unwrap();
        place.device = Arc::new(FaultDevice::new(Arc::clone(&system), plan));
        let is_done = act(&place);
        place.device = system;
        if is_done {
            break;
        }
        faults += 1;
        again(&place, &format!("eio@{nth}"));
    }
    assert!(faults > 3, "{faults}");
}

#[test]
fn a_replacement_that_fails_while_it_is_counted_goes_on() {
    for (redundancy, drives) in REDUNDANT {
        let wanted = bytes(300_000, 5);
        let make = || {
            let place = TestDir::in_memory(drives);
            let volume = create(&place, 1 << 14, redundancy);
            place.put(&volume, "x", &wanted).unwrap();
            pull(&place, "d1");
            fs::create_dir(place.path("new")).unwrap();
            place
        };
        let act = |place: &TestDir| replace(place, "d1", "new").is_ok();
        with_each_fault(make, act, |place, case| {
            let share = place.path("new/outcore-volume.in-progress/data");
            let is_rebuilt = fs::read_dir(share).is_ok_and(|mut found| found.next().is_some());
            let replaced = replace(place, "d1", "new").unwrap();
            assert!(!is_rebuilt || replaced.rebuilt_bytes == 0, "{case}");
            let volume = open_on(place, moved(place, "d1", "new"));
            volume.check_complete("test").unwrap();
            assert!(place.get(&volume, "x").unwrap() == wanted, "{case}");
        });
    }
}

#[test]
fn a_removal_of_a_missing_drive_that_fails_anywhere_goes_on_at_once() {
    let wanted = bytes(300_000, 5);
    let make = || {
        let place = TestDir::in_memory(4);
        let volume = create(&place, 1 << 14, Redundancy::Parity);
        place.put(&volume, "x", &wanted).unwrap();
        pull(&place, "d1");
        place
    };
    let remove = |place: &TestDir| {
        let volume = open(place);
        if volume.drives().iter().any(|drive| drive.name == "d1") {
            volume.remove_drive("d1", false, &place.budget, Watch::NOBODY)?;
        }
        Ok::<(), outcore_io::Error>(())
    };
    let act = |place: &TestDir| remove(place).is_ok();
    with_each_fault(make, act, |place, case| {
        remove(place).unwrap_or_else(|error| panic!("{case}: {error}"));
        let volume = open(place);
        assert_eq!(volume.drives().len(), 3, "{case}");
        assert!(place.get(&volume, "x").unwrap() == wanted, "{case}");
    });
}

#[test]
fn a_lost_folder_of_manifests_is_only_made_again_with_what_was_in_it() {
    for drive in ["d0", "d1"] {
        let place = TestDir::in_memory(3);
        let wanted = bytes(300_000, 5);
        let volume = create(&place, 1 << 14, Redundancy::Parity);
        place.put(&volume, "x", &wanted).unwrap();
        let dir = place.path(drive).join("outcore-volume/datasets");
        let before = fs::read(dir.join("x.json")).unwrap();
        let lose = || fs::remove_dir_all(&dir).unwrap();
        lose();
        let volume = open(&place);
        volume.status().unwrap();
        assert_eq!(volume.orphans().unwrap(), []);
        let damaged: Vec<_> = volume.damaged_drives().collect();
        assert!(damaged.len() == 1 && damaged[0].0.name == drive && damaged[0].1 == dir);
        let told = |error: outcore_io::Error| {
            assert!(error.to_string().contains("folder of the drive is lost"));
            assert_eq!(error.drive_name(), Some(drive));
        };
        told(place.put(&volume, "y", b"y").unwrap_err());
        told(volume.remove("x").unwrap_err());
        told(volume.remove_orphans().unwrap_err());
        told(volume.rebalance(&place.budget, Watch::NOBODY).unwrap_err());
        assert!(!dir.exists(), "{drive}");
        assert_eq!(scrub(&place).unwrap(), 2);
        assert!(fs::read(dir.join("x.json")).unwrap() == before);
        assert_eq!(scrub(&place).unwrap(), 0);
        // A scrub that was killed in between leaves it unfinished under another name.
        lose();
        let unfinished = place
            .path(drive)
            .join("outcore-volume/datasets.in-progress");
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join("gone.json"), "").unwrap();
        assert!(place.put(&open(&place), "y", b"y").is_err());
        assert_eq!(scrub(&place).unwrap(), 2);
        assert!(!unfinished.exists() && !dir.join("gone.json").exists());
        // While another drive is missing, a scrub cannot: the replacement of that one does.
        lose();
        pull(&place, "d2");
        assert!(scrub(&place).is_err() && !dir.exists());
        replace(&place, "d2", "d2").unwrap();
        assert!(fs::read(dir.join("x.json")).unwrap() == before);
        assert_eq!(scrub(&place).unwrap(), 0);
        assert!(place.get(&open(&place), "x").unwrap() == wanted);
    }
}
