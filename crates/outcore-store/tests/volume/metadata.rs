//! Labels and manifests of a volume: any flipped bit is detected, none is accepted in place of
//! another, and a lost copy is rewritten from the others.
//!
//! Contract: as in `datasets`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use outcore_io::Kind;
use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::damage::Damage;
use outcore_store::dataset::transfer;
use outcore_store::dataset::writer::NewDataset;
use outcore_store::dataset::{DatasetVolume, VolumeDrive, Watch};
use outcore_store::mapping::Redundancy;

use super::datasets::{TestDir, bytes, new};
use super::*;

fn open(place: &TestDir) -> outcore_io::Result<DatasetVolume> {
    DatasetVolume::open(Arc::clone(&place.device), place.drives())
}

fn scrub(place: &TestDir) -> Vec<Damage> {
    let volume = open(place).unwrap();
    volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap()
}

/// Overwrites a sealed file.
pub(super) fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Every single-bit error, and every truncation.
fn damages(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flips = (0..whole.len() * 8).map(|bit| {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    flips.chain((0..whole.len()).map(|len| whole[..len].to_vec()))
}

#[test]
fn any_flipped_bit_or_cut_of_a_label_or_a_manifest_is_found_and_names_the_file() {
    let place = TestDir::in_memory(1);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"one").unwrap();
    let label = place.path("d0/outcore-volume/volume.json");
    let manifest = volume.manifest_path("x", 0);
    for (path, is_label) in [(&label, true), (&manifest, false)] {
        let whole = fs::read(path).unwrap();
        for bytes in damages(&whole) {
            overwrite(path, &bytes);
            let error = match is_label {
                true => open(&place).err().unwrap(),
                false => volume.manifest("x").err().unwrap(),
            };
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert_eq!(error.file_path(), Some(path.as_path()), "{error}");
            assert_eq!(error.drive_name(), Some("d0"), "{error}");
        }
        overwrite(path, &whole);
    }
    assert_eq!(place.get(&open(&place).unwrap(), "x").unwrap(), b"one");
}

#[test]
fn a_copy_that_is_damaged_lost_or_old_hides_nothing_and_is_written_anew_by_a_scrub() {
    let place = TestDir::in_memory(3);
    let volume = place.create(1 << 16);
    place.put(&volume, "other", b"other").unwrap();
    place.put(&volume, "x", b"first").unwrap();
    let path = volume.manifest_path("x", 1);
    let old = fs::read(&path).unwrap();
    let replacing = NewDataset {
        replace: true,
        seed: 8,
        ..new("x")
    };
    transfer::put_stream(&volume, &mut &b"second"[..], &replacing, place.resources()).unwrap();
    let whole = fs::read(&path).unwrap();
    assert_ne!(whole, old);
    let mut flipped = whole.clone();
    flipped[200] ^= 16;
    let other = fs::read(volume.manifest_path("other", 1)).unwrap();
    let elsewhere = fs::read(volume.manifest_path("x", 2)).unwrap();
    for bytes in [Some(flipped), None, Some(old), Some(other), Some(elsewhere)] {
        match &bytes {
            Some(bytes) => overwrite(&path, bytes),
            None => fs::remove_file(&path).unwrap(),
        }
        assert_eq!(place.get(&volume, "x").unwrap(), b"second");
        assert_eq!(volume.names().unwrap(), ["other", "x"]);
        let found = scrub(&place);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, path.display().to_string());
        assert!(found[0].is_repaired && found[0].drive == "d1", "{found:?}");
        assert!(fs::read(&path).unwrap() == whole);
        assert_eq!(scrub(&place), []);
    }
    let label = place.path("d1/outcore-volume/volume.json");
    let whole = fs::read(&label).unwrap();
    for bytes in damages(&whole).step_by(97) {
        overwrite(&label, &bytes);
        let volume = open(&place).unwrap();
        let (_, error) = volume.absent().next().unwrap();
        assert_eq!(error.file_path(), Some(label.as_path()), "{error}");
        // Without it the drive cannot be identified.
        let error = place.put(&volume, "y", b"").unwrap_err();
        assert!(error.to_string().contains("label of drive d1"), "{error}");
        let found = scrub(&place);
        assert!(found.len() == 1 && found[0].is_repaired, "{found:?}");
        assert!(fs::read(&label).unwrap() == whole);
    }
    assert_eq!(scrub(&place), []);
}

#[test]
fn a_label_that_is_missing_is_written_anew_where_it_is_certain_whose_drive_it_is() {
    let place = TestDir::in_memory(2);
    let volume = place.create(1 << 16);
    let label = place.path("d1/outcore-volume/volume.json");
    let whole = fs::read(&label).unwrap();
    // For a volume without datasets, and for one with some.
    for is_empty in [true, false] {
        if !is_empty {
            place.put(&volume, "x", b"one").unwrap();
        }
        fs::remove_file(&label).unwrap();
        let opened = open(&place).unwrap();
        let error = place.put(&opened, "y", b"").unwrap_err();
        assert!(error.to_string().contains("scrub"), "{error}");
        let found = scrub(&place);
        assert!(found.len() == 1 && found[0].is_repaired, "{found:?}");
        assert!(fs::read(&label).unwrap() == whole);
        assert_eq!(scrub(&place), []);
    }
    // A drive that was never used, with folders like those of a volume.
    fs::remove_file(&label).unwrap();
    let datasets = place.path("d1/outcore-volume/datasets");
    fs::rename(&datasets, place.path("kept")).unwrap();
    fs::create_dir(&datasets).unwrap();
    let refused = open(&place)
        .unwrap()
        .scrub(&[], &place.budget, Watch::NOBODY);
    assert!(refused.is_err());
    assert!(!label.exists());
    // An empty drive counts as missing.
    fs::rename(place.path("d1/outcore-volume"), place.path("kept-too")).unwrap();
    let refused = open(&place)
        .unwrap()
        .scrub(&[], &place.budget, Watch::NOBODY);
    assert!(refused.unwrap_err().cause().contains("drive d1 is missing"));
}

#[test]
fn no_volume_is_made_over_drives_that_hold_datasets() {
    let place = TestDir::in_memory(2);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"one").unwrap();
    let labels = [0, 1].map(|index| place.path(&format!("d{index}/outcore-volume/volume.json")));
    for label in &labels {
        fs::remove_file(label).unwrap();
    }
    let create = || DatasetVolume::create(Arc::clone(&place.device), place.drives(), 1 << 16, 2);
    let error = create().err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.cause().contains("it holds datasets"), "{error}");
    assert!(labels.iter().all(|label| !label.exists()));
    // The leftovers of a killed `create` do no harm.
    for index in 0..2 {
        for folder in ["data", "datasets"] {
            let folder = place.path(&format!("d{index}/outcore-volume/{folder}"));
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
        }
    }
    create().unwrap();
}

#[test]
fn a_scrub_beside_puts_and_removals_finds_no_damage() {
    for redundancy in [Redundancy::None, Redundancy::Parity] {
        scrub_beside_changes(redundancy);
    }
}

fn scrub_beside_changes(redundancy: Redundancy) {
    let place = TestDir::in_memory(3);
    let volume = super::parity::create(&place, 1 << 16, redundancy);
    place.put(&volume, "x", b"first").unwrap();
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            for seed in 0..150 {
                let replacing = NewDataset {
                    replace: true,
                    seed,
                    ..new("x")
                };
                let data = vec![seed as u8; 100_000];
                transfer::put_stream(&volume, &mut &data[..], &replacing, place.resources())
                    .unwrap();
                if seed % 5 == 0 {
                    volume.remove("x").unwrap();
                }
            }
        });
        while !changing.is_finished() {
            assert_eq!(scrub(&place), []);
            let volume = open(&place).unwrap();
            assert_eq!(volume.orphans().unwrap(), []);
            volume.list().unwrap();
        }
        changing.join().unwrap();
    });
    assert_eq!(scrub(&place), []);
}

#[test]
fn manifests_that_stand_in_the_place_of_others_give_nobodys_data_and_remove_none() {
    let place = TestDir::in_memory(2);
    let volume = place.create(1 << 16);
    for (name, data) in [("a", b"data of a"), ("b", b"data of b")] {
        place.put(&volume, name, data).unwrap();
    }
    // Swapped on all drives.
    for index in 0..2 {
        let [a, b] = ["a", "b"].map(|name| volume.manifest_path(name, index));
        let (of_a, of_b) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
        overwrite(&a, &of_b);
        overwrite(&b, &of_a);
    }
    for name in ["a", "b"] {
        let error = place.get(&volume, name).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.cause().contains("copied or renamed"), "{error}");
    }
    for index in 0..2 {
        let [a, b] = ["a", "b"].map(|name| volume.manifest_path(name, index));
        let (of_a, of_b) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
        overwrite(&a, &of_b);
        overwrite(&b, &of_a);
        // Copied under another name.
        fs::copy(
            volume.manifest_path("a", index),
            volume.manifest_path("c", index),
        )
        .unwrap();
    }
    assert_eq!(place.get(&volume, "c").unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(volume.remove("c").unwrap(), 0);
    assert_eq!(place.get(&volume, "a").unwrap(), b"data of a");
    assert_eq!(place.get(&volume, "b").unwrap(), b"data of b");
    // Of another volume.
    let theirs = TestDir::in_memory(2);
    let other = theirs.create(1 << 16);
    theirs.put(&other, "d", b"theirs").unwrap();
    assert_eq!(other.id(), volume.id(), "the same seed");
    let drives = theirs.drives();
    for drive in &drives {
        fs::remove_dir_all(drive.dir.join("outcore-volume")).unwrap();
    }
    let other = DatasetVolume::create(Arc::clone(&theirs.device), drives, 1 << 16, 77).unwrap();
    theirs.put(&other, "d", b"theirs").unwrap();
    for index in 0..2 {
        let to = volume.manifest_path("d", index);
        fs::copy(other.manifest_path("d", index), to).unwrap();
    }
    let error = place.get(&volume, "d").unwrap_err();
    assert!(
        error.cause().contains("the file belongs to volume"),
        "{error}"
    );
}

#[test]
fn labels_and_manifests_from_before_there_were_checksums_are_refused_by_their_version() {
    let place = TestDir::in_memory(1);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"one").unwrap();
    let manifest = volume.manifest_path("x", 0);
    overwrite(&manifest, br#"{"version": 1, "name": "x", "id": "00ff"}"#);
    let error = volume.manifest("x").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.cause().contains("of version 1"), "{error}");
    let label = place.path("d0/outcore-volume/volume.json");
    overwrite(&label, br#"{"version": 1, "volume": "00", "drive": "d0"}"#);
    let error = open(&place).err().unwrap();
    assert!(error.cause().contains("of version 1"), "{error}");
    assert!(
        error
            .next_step()
            .is_some_and(|hint| hint.contains("new volume"))
    );
}

/// Removes a drive, leaving nothing, or the empty mount point.
fn take_away(place: &TestDir, drive: &str, leaves_dir: bool) {
    let away = place.path(&format!("away-{drive}"));
    fs::rename(place.path(drive), away).unwrap();
    if leaves_dir {
        fs::create_dir(place.path(drive)).unwrap();
    }
}

/// Brings it back; nothing may have been written in its place.
fn bring_back(place: &TestDir, drive: &str) {
    let _ = fs::remove_dir(place.path(drive));
    fs::rename(place.path(&format!("away-{drive}")), place.path(drive)).unwrap();
}

#[test]
fn with_a_drive_missing_what_does_not_lie_on_it_is_read_and_nothing_is_written() {
    let place = TestDir::in_memory(3);
    let equal = |drive| VolumeDrive {
        weight: 1.0,
        ..drive
    };
    let drives: Vec<VolumeDrive> = place.drives().into_iter().map(equal).collect();
    let open = || DatasetVolume::open(Arc::clone(&place.device), drives.clone());
    // A small dataset and its checksums fit in one stripe.
    let device = Arc::clone(&place.device);
    let volume = DatasetVolume::create(device, drives.clone(), 1 << 17, 1).unwrap();
    let names: Vec<String> = (0..12).map(|number| format!("small{number}")).collect();
    for (seed, name) in names.iter().enumerate() {
        let new = NewDataset {
            seed: seed as u64,
            ..new(name)
        };
        let data = bytes(5000, seed as u64);
        transfer::put_stream(&volume, &mut &data[..], &new, place.resources()).unwrap();
    }
    place.put(&volume, "large", &bytes(1 << 20, 99)).unwrap();
    let files = place.files();
    for (drive, leaves_dir) in [("d0", true), ("d1", false), ("d2", true)] {
        take_away(&place, drive, leaves_dir);
        let volume = open().unwrap();
        assert_eq!(volume.names().unwrap().len(), 13);
        let absent: Vec<&str> = volume
            .absent()
            .map(|(drive, _)| drive.name.as_str())
            .collect();
        assert_eq!(absent, [drive]);
        let status = volume.status().unwrap();
        assert!(
            status
                .iter()
                .all(|found| found.is_present == (found.drive != drive))
        );
        let mut whole = 0;
        for (seed, name) in names.iter().enumerate() {
            let manifest = volume.manifest(name).unwrap();
            match volume.absent_of(&manifest).is_empty() {
                true => {
                    assert!(place.get(&volume, name).unwrap() == bytes(5000, seed as u64));
                    whole += 1;
                }
                false => is_missing(&place.get(&volume, name).unwrap_err(), drive),
            }
        }
        assert!((1..12).contains(&whole), "{whole}");
        is_missing(&place.get(&volume, "large").unwrap_err(), drive);
        // The parts of striped data on other drives can still be read.
        let manifest = volume.manifest("large").unwrap();
        let parts = (0..16).filter(|part| {
            let reader = volume.range_reader(&manifest, part << 16, 1 << 16, &place.budget);
            reader.is_ok_and(|mut reader| {
                let part_bytes = reader.next_chunk().unwrap().unwrap();
                let at = (part << 16) as usize;
                part_bytes[..] == bytes(1 << 20, 99)[at..at + (1 << 16)]
            })
        });
        assert!(parts.count() > 0 || drive == drive_of_sums(&volume));
        is_missing(&place.put(&volume, "new", b"x").unwrap_err(), drive);
        is_missing(&volume.remove("small0").unwrap_err(), drive);
        is_missing(&volume.remove_orphans().unwrap_err(), drive);
        assert_eq!(volume.orphans().unwrap(), []);
        let scrubbed = volume.scrub(&[], &place.budget, Watch::NOBODY);
        is_missing(&scrubbed.unwrap_err(), drive);
        bring_back(&place, drive);
        assert_eq!(place.files().len(), files.len());
        assert!(open().unwrap().absent().next().is_none());
    }
    let volume = open().unwrap();
    assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
    assert_eq!(volume.names().unwrap().len(), 13);
}

/// The drive that stores the checksums of the large dataset.
fn drive_of_sums(volume: &DatasetVolume) -> String {
    let manifest = volume.manifest("large").unwrap();
    let mut found = String::new();
    let map = manifest.map().unwrap();
    map.split(manifest.sums_at_bytes(), 4096, usize::MAX, |piece| {
        found.clone_from(&manifest.shares[piece.drive_index].drive);
    });
    found
}

fn is_missing(error: &outcore_io::Error, drive: &str) {
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert_eq!(error.drive_name(), Some(drive), "{error}");
    assert!(error.next_step().unwrap().contains("mount it"), "{error}");
    assert!(!error.next_step().unwrap().contains("remove"), "{error}");
}

#[test]
fn what_was_cut_off_before_a_drive_went_missing_is_finished_when_it_is_back() {
    let data = bytes(200_000, 5);
    for removes in [false, true] {
        for nth in 1.. {
            let mut place = TestDir::in_memory(2);
            let drives = place.drives();
            let volume = place.create(1 << 16);
            let empty = place.files().len();
            if removes {
                place.put(&volume, "x", &data).unwrap();
            }
            let system = Arc::clone(&place.device);
            let plan = format!("eio@{nth}:control").parse().unwrap();
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&system), plan));
            place.device = Arc::clone(&faulty) as Arc<dyn Device>;
            let opened = DatasetVolume::open(Arc::clone(&place.device), drives.clone()).unwrap();
            let done = match removes {
                true => opened.remove("x").map(drop),
                false => place.put(&opened, "x", &data).map(drop),
            };
            drop(opened);
            place.device = system;
            let open = || DatasetVolume::open(Arc::clone(&place.device), drives.clone()).unwrap();
            for drive in ["d0", "d1"] {
                take_away(&place, drive, true);
                // Whether it is listed or not, every read is correct, and nothing changes.
                let found = place.get(&open(), "x");
                assert!(found.is_err(), "it lies on both");
                bring_back(&place, drive);
            }
            let volume = open();
            match volume.contains("x") {
                true => assert!(place.get(&volume, "x").unwrap() == data, "eio@{nth}"),
                false => assert_eq!(place.files().len(), empty, "eio@{nth}"),
            }
            assert!(
                done.is_err() || volume.contains("x") != removes,
                "eio@{nth}"
            );
            if faulty.operations() < nth {
                break;
            }
        }
    }
}
