//! Datasets with damaged or lost manifests: the datasets can be replaced and removed, and their
//! files are found.
//!
//! Contract: as in `datasets`.

use std::fs;

use outcore_io::Kind;
use outcore_store::dataset::manifest::Manifest;
use outcore_store::dataset::transfer;
use outcore_store::dataset::writer::NewDataset;

use super::datasets::{TestDir, bytes, new};
use super::metadata::overwrite;

#[test]
fn a_dataset_with_a_damaged_manifest_is_replaced_and_leaves_nothing() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    place.put(&volume, "other", b"other").unwrap();
    let manifests = [0, 1].map(|index| volume.manifest_path("x", index));
    // All copies, because one undamaged copy is enough.
    let damage_all = |damage: &dyn Fn(&str) -> String| {
        for path in &manifests {
            overwrite(path, damage(&fs::read_to_string(path).unwrap()).as_bytes());
        }
    };
    let replacing = |seed| NewDataset {
        replace: true,
        seed,
        ..new("x")
    };
    // Another length; truncated after the identity.
    let damages: [fn(&str) -> String; 2] = [
        |text| text.replace("\"len_bytes\": 3", "\"len_bytes\": 4"),
        |text| text[..text.find("contents").unwrap()].to_string(),
    ];
    for (at, damage) in damages.iter().enumerate() {
        place.put(&volume, "x", b"one").unwrap();
        let files = place.files().len();
        damage_all(damage);
        assert_eq!(place.get(&volume, "x").unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(
            place.put(&volume, "x", b"two").unwrap_err().kind(),
            Kind::Usage
        );
        let new = replacing(50 + at as u64);
        transfer::put_stream(&volume, &mut &b"two"[..], &new, place.resources()).unwrap();
        assert_eq!(place.get(&volume, "x").unwrap(), b"two");
        assert_eq!(place.files().len(), files, "{:?}", place.files());
        volume.remove("x").unwrap();
    }
    // Removing it also leaves nothing.
    let files = place.files().len();
    place.put(&volume, "x", b"one").unwrap();
    damage_all(&damages[1]);
    assert!(volume.remove("x").unwrap() > 0);
    assert_eq!(place.files().len(), files, "{:?}", place.files());
    // If the manifest of a replaced dataset claims the files of another dataset, those files stay.
    place.put(&volume, "x", b"one").unwrap();
    let theirs = fs::read_to_string(volume.manifest_path("other", 0)).unwrap();
    damage_all(&|_| theirs.replace("\"len_bytes\": 5", "\"len_bytes\": 6"));
    let new = replacing(60);
    transfer::put_stream(&volume, &mut &b"two"[..], &new, place.resources()).unwrap();
    assert_eq!(place.get(&volume, "other").unwrap(), b"other");
}

#[test]
fn files_that_no_manifest_names_are_found_and_removed_when_they_are_surely_nobodys() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let files = place.files();
    for name in ["kept", "lost", "vague"] {
        place.put(&volume, name, &bytes(200_000, 3)).unwrap();
    }
    assert_eq!(volume.orphans().unwrap(), []);
    let lost = volume.manifest("lost").unwrap();
    let vague = volume.manifest("vague").unwrap();
    let manifests = |name: &str| [0, 1].map(|index| volume.manifest_path(name, index));
    for path in manifests("lost") {
        fs::remove_file(path).unwrap();
    }
    let orphans = volume.orphans().unwrap();
    let paths: Vec<_> = orphans.iter().map(|orphan| orphan.path.clone()).collect();
    let expected = [0, 1].map(|index| volume.share_path(&lost.id, index));
    assert_eq!(paths, expected);
    assert_eq!(orphans[1].drive, volume.drives()[1].name);
    // This manifest does not identify its files, so the orphans could be its files.
    for path in manifests("vague") {
        overwrite(&path, b"garbage");
    }
    let error = volume.remove_orphans().unwrap_err();
    assert!(
        error.to_string().contains("outcore volume rm @vague"),
        "{error}"
    );
    assert!(volume.share_path(&vague.id, 0).exists());
    assert_eq!(volume.remove("vague").unwrap(), 0);
    // A dataset that is being written may be about to get its name.
    let writing = volume
        .device()
        .make_private_dir(&place.path("d1/outcore-volume"))
        .unwrap();
    assert_eq!(volume.remove_orphans().unwrap_err().kind(), Kind::Usage);
    drop(writing);
    let length = |manifest: &Manifest| manifest.shares.iter().map(|s| s.len_bytes).sum::<u64>();
    assert_eq!(
        volume.remove_orphans().unwrap(),
        length(&lost) + length(&vague)
    );
    assert_eq!(volume.orphans().unwrap(), []);
    assert_eq!(place.get(&volume, "kept").unwrap(), bytes(200_000, 3));
    volume.remove("kept").unwrap();
    assert_eq!(place.files(), files);
}
