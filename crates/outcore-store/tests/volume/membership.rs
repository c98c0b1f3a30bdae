//! Drives that join and leave a volume, and datasets that move: contents stay right whatever
//! happens in between, and a command that began before a change publishes nothing.
//!
//! Contract: as in `datasets`. The directory of a new drive appears in the list of drives, as in a
//! drives file, before the drive is part of the volume.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use outcore_io::Kind;
use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::membership::Standing;
use outcore_store::dataset::risk::Hazard;
use outcore_store::dataset::writer::NewDataset;
use outcore_store::dataset::{DatasetVolume, Throttle, Watch, transfer};
use outcore_store::mapping::Redundancy;
use proptest::prelude::*;

use super::datasets::{TestDir, bytes, new};
use super::parity::create;
use super::*;

const ALL: [Redundancy; 3] = [Redundancy::None, Redundancy::Parity, Redundancy::Mirror];

fn open(place: &TestDir) -> DatasetVolume {
    DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap()
}

/// Makes the directory of a drive and adds it.
fn add(place: &TestDir, drive: &str) -> outcore_io::Result<()> {
    fs::create_dir_all(place.path(drive)).unwrap();
    let drives = place.drives();
    let new = drives.iter().find(|known| known.name == drive).unwrap();
    open(place).add(new, Watch::NOBODY)
}

fn remove(
    place: &TestDir,
    drive: &str,
) -> outcore_io::Result<outcore_store::dataset::remove::Removed> {
    open(place).remove_drive(drive, false, &place.budget, Watch::NOBODY)
}

fn rebalance(place: &TestDir) -> u64 {
    let moved = open(place).rebalance(&place.budget, Watch::NOBODY).unwrap();
    moved.datasets
}

fn is_whole(place: &TestDir) {
    let damages = open(place).scrub(&[], &place.budget, Watch::NOBODY);
    assert_eq!(damages.unwrap(), []);
}

/// Bytes of a dataset on each drive.
fn lens(volume: &DatasetVolume, name: &str) -> BTreeMap<String, u64> {
    let shares = volume.manifest(name).unwrap().shares.into_iter();
    shares.map(|share| (share.drive, share.len_bytes)).collect()
}

#[test]
fn a_drive_that_joins_takes_new_datasets_and_a_rebalance_moves_the_old_ones() {
    for redundancy in ALL {
        let place = TestDir::in_memory(3);
        let wanted = bytes(5_000_001, 5);
        let volume = create(&place, 1 << 14, redundancy);
        place.put(&volume, "x", &wanted).unwrap();
        place.put(&volume, "empty", b"").unwrap();
        fs::create_dir(place.path("d3")).unwrap();
        // A drive that is in the list, but not in the volume, is left alone.
        assert_eq!(open(&place).drives().len(), 3);
        place.put(&open(&place), "y", &wanted).unwrap();
        add(&place, "d3").unwrap();
        add(&place, "d3").unwrap();
        let volume = open(&place);
        assert_eq!(volume.drives().len(), 4);
        assert!(place.get(&volume, "x").unwrap() == wanted);
        assert!(place.get_file(&volume, "y", None).unwrap() == wanted);
        is_whole(&place);
        place.put(&volume, "z", &wanted).unwrap();
        assert_eq!(lens(&volume, "x")["d3"], 0);
        assert!(lens(&volume, "z")["d3"] > 0);
        let names = |moves: Vec<outcore_store::dataset::manifest::Manifest>| {
            moves
                .into_iter()
                .map(|moved| moved.name)
                .collect::<Vec<_>>()
        };
        let planned = names(volume.moves().unwrap());
        assert_eq!(planned, ["x", "y"], "{redundancy:?}");
        assert_eq!(rebalance(&place), 2);
        assert_eq!(rebalance(&place), 0);
        let volume = open(&place);
        for name in ["x", "y", "z"] {
            assert!(place.get(&volume, name).unwrap() == wanted, "{name}");
            let lens = lens(&volume, name);
            let all: u64 = lens.values().sum();
            // Weights are 1, 1.5, 2 and 2.5; parity and copies are spread evenly.
            let share = lens["d3"] as f64 / all as f64;
            let error = (share - 2.5 / 7.0).abs();
            let is_exact = redundancy == Redundancy::None;
            assert!(
                error < if is_exact { 0.04 } else { 0.2 },
                "{name}: {lens:?}"
            );
        }
        assert_eq!(place.get(&volume, "empty").unwrap(), b"");
        assert_eq!(volume.orphans().unwrap(), []);
        is_whole(&place);
    }
}

#[test]
fn a_drive_that_leaves_takes_nothing_with_it() {
    for redundancy in ALL {
        for drive in ["d0", "d1", "d3"] {
            let place = TestDir::in_memory(4);
            let wanted = bytes(3_000_001, 5);
            let volume = create(&place, 1 << 14, redundancy);
            for name in ["x", "y"] {
                place.put(&volume, name, &wanted).unwrap();
            }
            place.put(&volume, "small", b"small").unwrap();
            let removed = remove(&place, drive).unwrap();
            assert_eq!((removed.moved.datasets, removed.left), (3, None));
            assert_eq!(fs::read_dir(place.path(drive)).unwrap().count(), 0);
            let volume = open(&place);
            assert_eq!(volume.drives().len(), 3);
            for name in ["x", "y"] {
                assert!(
                    place.get(&volume, name).unwrap() == wanted,
                    "{drive} {name}"
                );
            }
            is_whole(&place);
            place.put(&volume, "later", &wanted).unwrap();
            // The same directory joins again.
            add(&place, drive).unwrap();
            let volume = open(&place);
            assert_eq!(volume.drives().len(), 4);
            for name in ["x", "later"] {
                assert!(
                    place.get(&volume, name).unwrap() == wanted,
                    "{drive} {name}"
                );
            }
            assert!(rebalance(&place) > 0);
            assert!(place.get(&open(&place), "x").unwrap() == wanted);
            is_whole(&place);
        }
    }
}

#[test]
fn a_missing_drive_leaves_by_what_the_others_have() {
    for redundancy in [Redundancy::Parity, Redundancy::Mirror] {
        for drive in ["d0", "d2"] {
            let place = TestDir::in_memory(4);
            let (wanted, other) = (bytes(1_000_001, 5), bytes(1_000_001, 6));
            let volume = create(&place, 1 << 14, redundancy);
            place.put(&volume, "x", &wanted).unwrap();
            place.put(&volume, "gone", &wanted).unwrap();
            fs::rename(place.path(drive), place.path("pulled")).unwrap();
            fs::create_dir(place.path(drive)).unwrap();
            assert!(place.put(&open(&place), "y", b"y").is_err());
            let stopped = Watch {
                check: &|| Err(outcore_io::Error::interrupted()),
                ..Watch::NOBODY
            };
            let error = open(&place).remove_drive(drive, false, &place.budget, stopped);
            assert_eq!(error.unwrap_err().kind(), Kind::Interrupted);
            // From here on the others can be written.
            let volume = open(&place);
            assert_eq!(volume.names_with(Standing::Lost), [drive]);
            assert_eq!(
                volume.risk_of(&volume.manifest("x").unwrap()).hazard,
                Hazard::Incomplete
            );
            volume.remove("gone").unwrap();
            place.put(&volume, "y", &other).unwrap();
            // Old contents that come back do not count.
            fs::remove_dir(place.path(drive)).unwrap();
            fs::rename(place.path("pulled"), place.path(drive)).unwrap();
            let volume = open(&place);
            assert_eq!(volume.names().unwrap(), ["x", "y"]);
            assert!(place.get(&volume, "x").unwrap() == wanted);
            assert!(place.get(&volume, "y").unwrap() == other);
            assert!(add(&place, drive).is_err());
            let removed = remove(&place, drive).unwrap();
            assert_eq!(removed.moved.datasets, 1);
            let volume = open(&place);
            assert_eq!(
                (volume.drives().len(), volume.names().unwrap().len()),
                (3, 2)
            );
            assert!(place.get(&volume, "x").unwrap() == wanted);
            assert!(place.get(&volume, "y").unwrap() == other);
            is_whole(&place);
            // Its old contents are not taken for a new drive.
            assert!(add(&place, drive).is_err());
            fs::remove_dir_all(place.path(drive).join("outcore-volume")).unwrap();
            add(&place, drive).unwrap();
            rebalance(&place);
            assert!(place.get(&open(&place), "x").unwrap() == wanted);
            is_whole(&place);
        }
    }
}

#[test]
fn old_contents_under_the_name_of_a_new_drive_are_not_read() {
    let place = TestDir::in_memory(4);
    let (old, newer) = (bytes(300_000, 5), bytes(300_000, 6));
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &old).unwrap();
    fs::rename(place.path("d1"), place.path("pulled")).unwrap();
    fs::create_dir(place.path("d1")).unwrap();
    remove(&place, "d1").unwrap();
    add(&place, "d1").unwrap();
    let volume = open(&place);
    volume.remove("x").unwrap();
    place.put(&volume, "x", &newer).unwrap();
    fs::rename(place.path("d1"), place.path("newer")).unwrap();
    fs::rename(place.path("pulled"), place.path("d1")).unwrap();
    let volume = open(&place);
    assert_eq!(volume.missing().next().unwrap().0.name, "d1");
    assert!(place.get(&volume, "x").unwrap() == newer);
    assert!(place.put(&volume, "y", b"y").is_err());
}

#[test]
fn a_drive_that_datasets_need_stays_unless_they_are_given_up() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::None);
    place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
    assert_eq!(
        volume.risk_of(&volume.manifest("x").unwrap()).hazard,
        Hazard::Single
    );
    fs::rename(place.path("d1"), place.path("pulled")).unwrap();
    let missing = || {
        let mut drives = place.drives();
        let mut gone = drives[0].clone();
        (gone.name, gone.dir) = ("d1".to_string(), place.path("d1"));
        drives.insert(1, gone);
        DatasetVolume::open(Arc::clone(&place.device), drives).unwrap()
    };
    let refused = missing().remove_drive("d1", false, &place.budget, Watch::NOBODY);
    let refused = refused.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("@x cannot be read without drive d1"),
        "{refused}"
    );
    let volume = missing();
    assert_eq!(volume.names_with(Standing::Lost), [""; 0]);
    assert_eq!(
        volume.risk_of(&volume.manifest("x").unwrap()).hazard,
        Hazard::Unreadable
    );
    let removed = volume
        .remove_drive("d1", true, &place.budget, Watch::NOBODY)
        .unwrap();
    let given_up: Vec<&str> = removed
        .damages
        .iter()
        .map(|lost| &lost.dataset[..])
        .collect();
    assert_eq!(given_up, ["x"]);
    let volume = open(&place);
    assert_eq!(volume.names().unwrap(), [""; 0]);
    place.put(&volume, "y", b"y").unwrap();
    is_whole(&place);
}

#[test]
fn drives_do_not_join_or_leave_where_something_would_be_lost_or_mixed() {
    let place = TestDir::in_memory(2);
    let volume = create(&place, 1 << 14, Redundancy::Mirror);
    place.put(&volume, "x", b"x").unwrap();
    let told = |error: outcore_io::Error, wanted: &str| {
        assert!(error.to_string().contains(wanted), "{error}");
    };
    told(remove(&place, "d1").unwrap_err(), "too few drives");
    told(remove(&place, "none").unwrap_err(), "no drive `none`");
    let mut drive = place.drives()[0].clone();
    drive.name = "other".to_string();
    told(
        volume.add(&drive, Watch::NOBODY).unwrap_err(),
        "another drive of the volume",
    );
    fs::create_dir(place.path("d0/sub")).unwrap();
    drive.dir = place.path("d0/sub");
    told(
        volume.add(&drive, Watch::NOBODY).unwrap_err(),
        "inside drive d0",
    );
    drive.dir = place.path("none");
    assert!(volume.add(&drive, Watch::NOBODY).is_err());
    let elsewhere = TestDir::in_memory(2);
    create(&elsewhere, 1 << 14, Redundancy::None);
    drive.dir = elsewhere.path("d0");
    told(
        volume.add(&drive, Watch::NOBODY).unwrap_err(),
        "belongs to a volume, or belonged to one before",
    );
    drive.name = "d1".to_string();
    told(
        volume.add(&drive, Watch::NOBODY).unwrap_err(),
        "a drive of that name",
    );
    fs::remove_dir(place.path("d0/sub")).unwrap();
    is_whole(&place);
}

#[test]
fn drives_neither_join_nor_leave_while_a_job_writes() {
    for joins in [true, false] {
        let place = TestDir::in_memory(3);
        let volume = create(&place, 1 << 14, Redundancy::None);
        place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
        let mut writer = volume.writer(&new("y"), &place.budget).unwrap();
        let buf = writer.pool().take().unwrap();
        writer.push(buf, 70_000).unwrap();
        let change = || match joins {
            true => add(&place, "d3"),
            false => remove(&place, "d2").map(drop),
        };
        let error = change().unwrap_err().to_string();
        assert!(error.contains("a job is writing to the volume"), "{error}");
        writer.seal(0, 1).unwrap();
        change().unwrap();
        let volume = open(&place);
        assert_eq!(volume.names().unwrap(), ["x", "y"]);
        assert_eq!(place.get(&volume, "y").unwrap().len(), 70_000);
        is_whole(&place);
    }
}

#[test]
fn what_began_before_drives_joined_or_left_does_not_publish() {
    for joins in [true, false] {
        let place = TestDir::in_memory(3);
        let volume = create(&place, 1 << 14, Redundancy::None);
        place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
        match joins {
            true => add(&place, "d3").unwrap(),
            false => drop(remove(&place, "d2").unwrap()),
        }
        let told = |error: outcore_io::Error| {
            let text = error.to_string();
            let is_told = text.contains("joined or left") || text.contains("d2");
            assert!(is_told, "{error:?}");
        };
        told(volume.remove("x").unwrap_err());
        told(place.put(&volume, "z", b"z").unwrap_err());
        let volume = open(&place);
        assert_eq!(volume.names().unwrap(), ["x"]);
        is_whole(&place);
        place.put(&volume, "y", b"y").unwrap();
    }
}

#[test]
fn what_began_before_a_removal_began_may_publish_and_is_moved() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::None);
    let wanted = bytes(70_000, 5);
    place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
    let mut writer = volume.writer(&new("y"), &place.budget).unwrap();
    let mut buf = writer.pool().take().unwrap();
    buf[..70_000].copy_from_slice(&wanted);
    writer.push(buf, 70_000).unwrap();
    let stopped = Watch {
        check: &|| Err(outcore_io::Error::interrupted()),
        ..Watch::NOBODY
    };
    assert!(
        open(&place)
            .remove_drive("d1", false, &place.budget, stopped)
            .is_err()
    );
    assert_eq!(open(&place).names_with(Standing::Leaving), ["d1"]);
    // New datasets already avoid the drive.
    place.put(&open(&place), "z", &wanted).unwrap();
    assert_eq!(lens(&open(&place), "z")["d1"], 0);
    writer.seal(0, 1).unwrap();
    assert!(lens(&open(&place), "y")["d1"] > 0);
    assert_eq!(remove(&place, "d1").unwrap().moved.datasets, 2);
    for name in ["y", "z"] {
        assert!(place.get(&open(&place), name).unwrap() == wanted);
    }
    is_whole(&place);
}

#[test]
fn a_drive_that_is_leaving_can_stay() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
    let stopped = Watch {
        check: &|| Err(outcore_io::Error::interrupted()),
        ..Watch::NOBODY
    };
    assert!(
        open(&place)
            .remove_drive("d1", false, &place.budget, stopped)
            .is_err()
    );
    add(&place, "d1").unwrap();
    assert_eq!(open(&place).names_with(Standing::Leaving), [""; 0]);
    place.put(&open(&place), "y", &bytes(300_000, 5)).unwrap();
    assert!(lens(&open(&place), "y")["d1"] > 0);
    is_whole(&place);
}

#[test]
fn a_dataset_that_another_job_replaces_is_left_to_that_job() {
    let place = TestDir::in_memory(3);
    let newer = bytes(400_000, 6);
    let volume = create(&place, 1 << 14, Redundancy::None);
    place.put(&volume, "x", &bytes(2_000_000, 5)).unwrap();
    add(&place, "d3").unwrap();
    let volume = open(&place);
    let is_first = std::cell::Cell::new(true);
    let replace = |_| {
        if is_first.replace(false) {
            let new = NewDataset {
                replace: true,
                seed: 77,
                ..new("x")
            };
            transfer::put_stream(&open(&place), &mut &newer[..], &new, place.resources()).unwrap();
        }
    };
    let watch = Watch {
        advance: &replace,
        ..Watch::NOBODY
    };
    assert_eq!(volume.rebalance(&place.budget, watch).unwrap().datasets, 0);
    assert!(place.get(&open(&place), "x").unwrap() == newer);
    is_whole(&place);
}

#[test]
fn a_label_from_before_the_last_change_is_known_and_repaired() {
    let place = TestDir::in_memory(3);
    let wanted = bytes(300_000, 5);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &wanted).unwrap();
    let old = fs::read(place.path("d1/outcore-volume/volume.json")).unwrap();
    add(&place, "d3").unwrap();
    fs::write(place.path("d1/outcore-volume/volume.json"), &old).unwrap();
    let volume = open(&place);
    assert!(volume.drives().len() == 4 && volume.absent().next().is_none());
    assert!(place.get(&volume, "x").unwrap() == wanted);
    let error = place.put(&volume, "y", b"y").unwrap_err();
    assert!(error.to_string().contains("joined or left"), "{error}");
    let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    assert!(damages.len() == 1 && damages[0].is_repaired, "{damages:?}");
    place.put(&open(&place), "y", b"y").unwrap();
    is_whole(&place);
}

#[test]
fn a_fault_at_any_operation_leaves_a_volume_that_can_be_read_and_goes_on() {
    for (redundancy, what) in [
        (Redundancy::None, "add"),
        (Redundancy::Parity, "rebalance"),
        (Redundancy::None, "remove"),
        (Redundancy::Mirror, "remove"),
    ] {
        let mut faults = 0;
        let step = if what == "rebalance" { 9 } else { 4 };
        for nth in (1..).step_by(step) {
            let mut place = TestDir::in_memory(3);
            let is_moved = what == "rebalance";
            let wanted = bytes(if is_moved { 6_000_000 } else { 200_000 }, 5);
            let volume = create(&place, 1 << 14, redundancy);
            for name in ["x", "y"] {
                place.put(&volume, name, &wanted).unwrap();
            }
            if is_moved {
                add(&place, "d3").unwrap();
            }
            let sound = Arc::clone(&place.device);
            let plan = format!("eio@{nth}").parse().unwrap();
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&sound), plan));
            place.device = Arc::clone(&faulty) as Arc<dyn Device>;
            let run = |place: &TestDir| match what {
                "add" => add(place, "d3"),
                "rebalance" => {
                    let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives())?;
                    volume.rebalance(&place.budget, Watch::NOBODY).map(drop)
                }
                _ => {
                    let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives())?;
                    volume
                        .remove_drive("d1", false, &place.budget, Watch::NOBODY)
                        .map(drop)
                }
            };
            let ended = run(&place);
            place.device = sound;
            let volume = open(&place);
            for name in ["x", "y"] {
                assert!(
                    place.get(&volume, name).unwrap() == wanted,
                    "{what} {nth} {name}"
                );
            }
            if faulty.operations() < nth {
                ended.unwrap();
                break;
            }
            faults += 1;
            if ended.is_ok() {
                continue;
            }
            if what != "remove" || open(&place).drives().len() == 3 {
                run(&place).unwrap();
            }
            assert!(
                place.get(&open(&place), "x").unwrap() == wanted,
                "{what} {nth}"
            );
            is_whole(&place);
        }
        assert!(faults > 1, "{what} {redundancy:?}: {faults}");
    }
}

#[test]
fn a_limited_pass_takes_its_time() {
    let place = TestDir::in_memory(2);
    let volume = create(&place, 1 << 14, Redundancy::Mirror);
    place.put(&volume, "x", &bytes(1_000_000, 5)).unwrap();
    let throttle = Throttle::new(4_000_000);
    let watch = Watch {
        throttle: Some(&throttle),
        ..Watch::NOBODY
    };
    let start = std::time::Instant::now();
    volume.scrub(&[], &place.budget, watch).unwrap();
    assert!(start.elapsed().as_millis() >= 250);
}

/// Something that a user does, or that happens.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, usize, u64),
    Remove(u8),
    Join(u8),
    Leave(u8),
    Rebalance,
    /// A drive's files are zeroed; a scrub repairs them.
    Zero(u8),
    /// A drive fails for good and is removed.
    Die(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![0usize..20_000, 100_000usize..400_000];
    prop_oneof![
        4 => (0u8..4, len, any::<u64>()).prop_map(|(name, len, seed)| Step::Put(name, len, seed)),
        1 => (0u8..4).prop_map(Step::Remove),
        3 => (0u8..6).prop_map(Step::Join),
        3 => (0u8..6).prop_map(Step::Leave),
        2 => Just(Step::Rebalance),
        1 => (0u8..6).prop_map(Step::Zero),
        1 => (0u8..6).prop_map(Step::Die),
    ]
}

/// Does a step, if it is possible. `wanted` has the contents that the volume must have afterwards.
fn step(place: &TestDir, step: &Step, wanted: &mut BTreeMap<String, Vec<u8>>) {
    let volume = open(place);
    let is_drive = |drive: &str| volume.drives().iter().any(|known| known.name == *drive);
    let drives = volume.drives().len();
    let is_redundant = !volume.redundancy().is_none();
    let can_leave = drives > if is_redundant { 2 } else { 1 };
    match step {
        Step::Put(name, len, seed) => {
            let name = format!("n{name}");
            let data = bytes(*len, *seed);
            let new = NewDataset {
                replace: true,
                seed: *seed,
                ..new(&name)
            };
            transfer::put_stream(&volume, &mut &data[..], &new, place.resources()).unwrap();
            wanted.insert(name, data);
        }
        Step::Remove(name) => {
            let name = format!("n{name}");
            if wanted.remove(&name).is_some() {
                volume.remove(&name).unwrap();
            }
        }
        Step::Join(drive) => add(place, &format!("d{drive}")).unwrap(),
        Step::Leave(drive) | Step::Die(drive) => {
            let name = format!("d{drive}");
            let dies = matches!(step, Step::Die(_));
            if !is_drive(&name) || !can_leave || dies && !is_redundant {
                return;
            }
            if dies {
                fs::remove_dir_all(place.path(&name)).unwrap();
                fs::create_dir(place.path(&name)).unwrap();
            }
            remove(place, &name).unwrap();
        }
        Step::Rebalance => drop(rebalance(place)),
        Step::Zero(drive) => {
            let data = place.path(&format!("d{drive}/outcore-volume/data"));
            if !is_redundant || !data.exists() {
                return;
            }
            for share in fs::read_dir(data).unwrap() {
                let path = share.unwrap().path();
                let zeros = vec![0; fs::metadata(&path).unwrap().len() as usize];
                fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
                fs::write(&path, zeros).unwrap();
            }
            volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn contents_are_right_after_any_history(
        redundancy in prop::sample::select(&ALL[..]), shift in 12u32..=16, drives in 2usize..4,
        steps in prop::collection::vec(any_step(), 1..14),
    ) {
        let place = TestDir::in_memory(drives);
        create(&place, 1 << shift, redundancy);
        let mut wanted = BTreeMap::new();
        for one in &steps {
            step(&place, one, &mut wanted);
            let volume = open(&place);
            let names: Vec<String> = wanted.keys().cloned().collect();
            prop_assert_eq!(volume.names().unwrap(), names);
            for (name, data) in &wanted {
                prop_assert!(&place.get(&volume, name).unwrap() == data, "{:?}: {}", one, name);
            }
        }
        is_whole(&place);
        prop_assert_eq!(open(&place).orphans().unwrap(), []);
        // With redundancy, the contents can be read without any one drive.
        if redundancy != Redundancy::None {
            for drive in open(&place).drives() {
                fs::rename(&drive.dir, place.path("away")).unwrap();
                fs::create_dir(&drive.dir).unwrap();
                for (name, data) in &wanted {
                    prop_assert!(&place.get(&open(&place), name).unwrap() == data);
                }
                fs::remove_dir(&drive.dir).unwrap();
                fs::rename(place.path("away"), &drive.dir).unwrap();
            }
        }
    }
}
