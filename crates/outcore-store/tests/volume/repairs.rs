//! Repairs that are interrupted, and repeated damage: labels that are half written, lost labels and
//! folders, and bits that flip while parity is computed.
//!
//! Contract: as in `datasets`.

use std::fs;

use outcore_io::Kind;
use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::replace::{Replaced, Replacement};
use outcore_store::dataset::{DatasetVolume, VolumeDrive, Watch, transfer};
use outcore_store::mapping::Redundancy;

use super::datasets::{TestDir, bytes, new};
use super::devices::HookDevice;
use super::parity::create;
use super::*;

const REDUNDANT: [(Redundancy, usize); 2] = [(Redundancy::Mirror, 2), (Redundancy::Parity, 3)];

fn open(place: &TestDir) -> DatasetVolume {
    open_on(place, place.drives())
}

fn open_on(place: &TestDir, drives: Vec<VolumeDrive>) -> DatasetVolume {
    DatasetVolume::open(Arc::clone(&place.device), drives).unwrap()
}

/// The volume's drives, with the one called `drive` in another directory.
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

/// For each n, until `act` succeeds: calls `act` with a device whose n-th change of a name fails,
/// and then calls `again` with a sound device.
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
        // A scrub that is killed in between leaves the folder unfinished under another name.
        lose();
        let unfinished = place
            .path(drive)
            .join("outcore-volume/datasets.in-progress");
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join("gone.json"), "").unwrap();
        assert!(place.put(&open(&place), "y", b"y").is_err());
        assert_eq!(scrub(&place).unwrap(), 2);
        assert!(!unfinished.exists() && !dir.join("gone.json").exists());
        // While another drive is missing, a scrub cannot restore the folder. The replacement of
        // that drive does.
        lose();
        pull(&place, "d2");
        assert!(scrub(&place).is_err() && !dir.exists());
        replace(&place, "d2", "d2").unwrap();
        assert!(fs::read(dir.join("x.json")).unwrap() == before);
        assert_eq!(scrub(&place).unwrap(), 0);
        assert!(place.get(&open(&place), "x").unwrap() == wanted);
    }
}

#[test]
fn a_lost_label_is_not_restored_beside_a_drive_that_is_older() {
    for is_put_again in [true, false] {
        let place = TestDir::in_memory(2);
        let (old, newer) = (bytes(200_000, 5), bytes(200_000, 6));
        let volume = create(&place, 1 << 14, Redundancy::Mirror);
        place.put(&volume, "x", &old).unwrap();
        pull(&place, "d0");
        fs::create_dir(place.path("e")).unwrap();
        replace(&place, "d0", "e").unwrap();
        let volume = open_on(&place, moved(&place, "d0", "e"));
        volume.remove("x").unwrap();
        if is_put_again {
            place.put(&volume, "x", &newer).unwrap();
        }
        // The old drive is back, and the only label that counts its replacement is lost.
        fs::remove_dir(place.path("d0")).unwrap();
        fs::rename(place.path("away"), place.path("d0")).unwrap();
        let label = place.path("d1/outcore-volume/volume.json");
        let kept = fs::read(&label).unwrap();
        fs::remove_file(&label).unwrap();
        let files = place.files();
        let error = scrub(&place).unwrap_err();
        assert!(error.to_string().contains("its label is lost"), "{error}");
        assert!(!label.exists() && place.files() == files);
        // With the new drive the label is restored.
        let volume = open_on(&place, moved(&place, "d0", "e"));
        let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
        assert_eq!(damages.len(), 1, "{damages:?}");
        assert!(fs::read(&label).unwrap() == kept);
        let volume = open_on(&place, moved(&place, "d0", "e"));
        assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
        match is_put_again {
            true => assert!(place.get(&volume, "x").unwrap() == newer),
            false => assert_eq!(volume.names().unwrap(), [""; 0]),
        }
    }
}

#[test]
fn two_directories_are_never_the_same_drive() {
    let place = TestDir::in_memory(2);
    let (old, newer) = (bytes(200_000, 5), bytes(200_000, 6));
    place
        .put(&create(&place, 1 << 14, Redundancy::Mirror), "x", &old)
        .unwrap();
    fs::create_dir(place.path("e")).unwrap();
    let aside = replace(&place, "d1", "e").unwrap().set_aside.unwrap();
    // The replaced folder is put back, without its label.
    fs::rename(aside, place.path("d1/outcore-volume")).unwrap();
    fs::remove_file(place.path("d1/outcore-volume/volume.json")).unwrap();
    assert_eq!(scrub(&place).unwrap(), 1);
    assert_eq!(scrub(&place).unwrap(), 0);
    let volume = open(&place);
    volume.remove("x").unwrap();
    place.put(&volume, "x", &newer).unwrap();
    // Therefore, the other directory counts as the replaced one.
    let volume = open_on(&place, moved(&place, "d1", "e"));
    let (drive, reason) = volume.absent().next().unwrap();
    assert!(drive.name == "d1" && reason.to_string().contains("was replaced"));
    assert!(place.get(&volume, "x").unwrap() == newer);
    let error = replace(&place, "d1", "e").unwrap_err();
    assert!(
        error.to_string().contains("from before a replacement"),
        "{error}"
    );
}

#[test]
fn labels_that_disagree_are_told_and_repaired() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", b"x").unwrap();
    let label = place.path("d0/outcore-volume/volume.json");
    let old = fs::read(&label).unwrap();
    pull(&place, "d1");
    replace(&place, "d1", "d1").unwrap();
    fs::write(&label, old).unwrap();
    let error = place.put(&open(&place), "y", b"y").unwrap_err();
    assert!(
        error.to_string().contains("from before drive d1"),
        "{error}"
    );
    assert_eq!(error.drive_name(), Some("d0"));
    assert_eq!(scrub(&place).unwrap(), 1);
    assert_eq!(scrub(&place).unwrap(), 0);
    place.put(&open(&place), "y", b"y").unwrap();
}

/// Parity of a group that is not complete is computed from what is read back.
#[test]
fn a_bit_that_flips_while_parity_is_computed_is_noticed() {
    let wanted = bytes(1_000_001, 5);
    let put = |place: &TestDir| {
        let volume = create(place, 1 << 16, Redundancy::Parity);
        transfer::put_stream(&volume, &mut &wanted[..], &new("x"), place.resources())
    };
    let mut flips = 0;
    for nth in 1.. {
        let mut place = TestDir::in_memory(3);
        let system = Arc::clone(&place.device);
        let plan = format!("flip@{nth}:read").parse().unwrap();
        let faulty = Arc::new(FaultDevice::new(Arc::clone(&system), plan));
        place.device = Arc::clone(&faulty) as Arc<dyn Device>;
        put(&place).unwrap();
        place.device = system;
        // It compares the parity with the data.
        assert_eq!(scrub(&place).unwrap(), 0, "flip@{nth}");
        if faulty.operations() < nth {
            break;
        }
        flips += 1;
    }
    assert!(flips > 0);
    // A drive that returns wrong bytes each time.
    let mut place = TestDir::in_memory(3);
    let wrong = HookDevice::new(Arc::clone(&place.device), |_, completion| {
        if completion.request.op == Op::Read {
            completion.request.buf.copy_in(0, b"other bytes");
        }
    });
    place.device = Arc::new(wrong);
    let error = put(&place).unwrap_err();
    assert!(
        error.to_string().contains("other bytes than were written"),
        "{error}"
    );
    assert!(
        error
            .drive_name()
            .is_some_and(|drive| drive.starts_with('d'))
    );
    assert_eq!(open(&place).names().unwrap(), [""; 0]);
}

#[test]
fn a_share_that_goes_while_it_is_opened_is_computed_from_the_others() {
    let place = TestDir::in_memory(3);
    let wanted = bytes(200_000, 5);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &wanted).unwrap();
    let share = volume.share_path(&volume.manifest("x").unwrap().id, 1);
    let away = place.path("share");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                fs::rename(&share, &away).unwrap();
                fs::rename(&away, &share).unwrap();
            }
        });
        let got: Vec<_> = (0..2000).map(|_| place.get(&volume, "x")).collect();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(got.into_iter().all(|got| got.unwrap() == wanted));
    });
}

#[test]
fn a_replacement_goes_on_if_a_dataset_is_removed_meanwhile() {
    let mut place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    for name in ["a", "b"] {
        place.put(&volume, name, &bytes(200_000, 5)).unwrap();
    }
    fs::create_dir(place.path("new")).unwrap();
    let once = std::sync::Once::new();
    let hook = HookDevice::new(Arc::clone(&place.device), move |path, _| {
        if path.ends_with("outcore-volume.in-progress/part") {
            once.call_once(|| assert!(volume.remove("b").unwrap() > 0));
        }
    });
    place.device = Arc::new(hook);
    replace(&place, "d1", "new").unwrap();
    let volume = open_on(&place, moved(&place, "d1", "new"));
    assert_eq!(volume.names().unwrap(), ["a"]);
    assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
}

#[test]
fn a_full_drive_is_named_before_another_one_is_rebuilt() {
    let mut place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &bytes(200_000, 5)).unwrap();
    pull(&place, "d1");
    fs::create_dir(place.path("new")).unwrap();
    let system = Arc::clone(&place.device);
    let plan = "enospc@1:control".parse().unwrap();
    place.device = Arc::new(FaultDevice::new(Arc::clone(&system), plan));
    let error = replace(&place, "d1", "new").unwrap_err();
    assert_eq!(
        (error.kind(), error.drive_name()),
        (Kind::NoSpace, Some("d0"))
    );
    let rebuilt = place.path("new/outcore-volume.in-progress/data");
    assert_eq!(fs::read_dir(rebuilt).unwrap().count(), 0);
    place.device = system;
    replace(&place, "d1", "new").unwrap();
}
