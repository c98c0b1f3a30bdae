//! Datasets: `get` returns what was put, complete or not at all; errors name drive, file and offset
//! of damage.
//!
//! Contract: subdirectories of a temporary directory take the place of drives; faults are injected
//! at each step of a whole `put`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use outcore_io::Kind;
use outcore_io::config::IoMode;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::manifest::{Contents, Manifest};
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::writer::{CHUNK_BYTES, NewDataset, WINDOW_BYTES};
use outcore_store::dataset::{DatasetVolume, FOLDER, VolumeDrive, Watch};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Directories in place of drives, and a place next to them.
pub(super) struct TestDir {
    dir: TempDir,
    pub(super) device: Arc<dyn Device>,
    pub(super) budget: Budget,
}

impl TestDir {
    pub(super) fn new(drives: usize) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), drives)
    }

    /// On a file system in memory, if there is one: for tests of thousands of states.
    pub(super) fn in_memory(drives: usize) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::in_dir(dir.unwrap(), drives)
    }

    fn in_dir(dir: TempDir, drives: usize) -> Self {
        for drive in 0..drives {
            fs::create_dir(dir.path().join(format!("d{drive}"))).unwrap();
        }
        TestDir {
            dir,
            device: Arc::new(OsDevice::new(IoMode::Auto)),
            budget: Budget::new(1 << 30),
        }
    }

    pub(super) fn drives(&self) -> Vec<VolumeDrive> {
        let dirs = fs::read_dir(self.dir.path()).unwrap().flatten();
        let mut names: Vec<String> = dirs
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.starts_with('d'))
            .collect();
        names.sort();
        let drives = names
            .into_iter()
            .enumerate()
            .map(|(index, name)| VolumeDrive {
                dir: self.dir.path().join(&name),
                name,
                weight: 1.0 + index as f64 / 2.0,
                limit_bytes: u64::MAX,
                tags: 32,
                controller: None,
            });
        drives.collect()
    }

    pub(super) fn create(&self, stripe_bytes: u64) -> DatasetVolume {
        DatasetVolume::create(Arc::clone(&self.device), self.drives(), stripe_bytes, 1).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn resources(&self) -> TransferResources<'_> {
        TransferResources {
            device: &self.device,
            budget: &self.budget,
            watch: Watch::NOBODY,
        }
    }

    /// Puts `bytes` as a file.
    pub(super) fn put(
        &self,
        volume: &DatasetVolume,
        name: &str,
        bytes: &[u8],
    ) -> outcore_io::Result<Manifest> {
        let path = self.path("source");
        fs::write(&path, bytes).unwrap();
        transfer::put_file(volume, &path, &new(name), self.resources())
    }

    /// Gets a dataset, or a file packed in it, as a file.
    pub(super) fn get_file(
        &self,
        volume: &DatasetVolume,
        name: &str,
        inside: Option<&str>,
    ) -> outcore_io::Result<Vec<u8>> {
        let manifest = volume.manifest(name)?;
        let source = transfer::open(volume, &manifest, inside, &self.budget)?;
        let out = self.path("out");
        transfer::get_file(source, &out, true, self.resources())?;
        Ok(fs::read(out).unwrap())
    }

    pub(super) fn get(&self, volume: &DatasetVolume, name: &str) -> outcore_io::Result<Vec<u8>> {
        let manifest = volume.manifest(name)?;
        let mut reader = transfer::open(volume, &manifest, None, &self.budget)?.reader;
        let mut bytes = Vec::new();
        transfer::get_stream(&mut reader, &mut bytes, Watch::NOBODY)?;
        Ok(bytes)
    }

    /// All files on the drives except for labels, by their names.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for drive in self.drives() {
            let mut dirs = vec![drive.dir];
            while let Some(dir) = dirs.pop() {
                for entry in fs::read_dir(dir).unwrap().flatten() {
                    match entry.path() {
                        path if path.is_dir() => dirs.push(path),
                        path if path.ends_with("volume.json") => {}
                        path => found.push(path),
                    }
                }
            }
        }
        found
    }
}

pub(super) fn new(name: &str) -> NewDataset {
    NewDataset {
        name: name.to_string(),
        contents: Contents::File,
        files: 1,
        payload_bytes: None,
        replace: false,
        seed: 7,
        readers: 0o044,
        attributes: None,
    }
}

pub(super) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    (0..len.div_ceil(8))
        .flat_map(|i| random(seed, i as u64).to_le_bytes())
        .take(len)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_was_put_is_got_as_file_stream_and_copy(
        len in prop_oneof![Just(0usize), 1usize..5000, Just(1 << 16), Just(1 << 20), 1usize..5 << 20],
        drives in 1usize..6, shift in 12u32..=21, seed: u64,
    ) {
        let place = TestDir::new(drives);
        let volume = place.create(1 << shift);
        let wanted = bytes(len, seed);
        place.put(&volume, "file", &wanted).unwrap();
        let put = transfer::put_stream(&volume, &mut &wanted[..], &new("stream"), place.resources());
        prop_assert_eq!(put.unwrap().len_bytes, len as u64);
        // As another process would see it.
        let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
        let manifest = volume.manifest("file").unwrap();
        transfer::copy(&volume, &manifest, &volume, &new("copy"), place.resources()).unwrap();
        for name in ["file", "stream", "copy"] {
            prop_assert!(place.get(&volume, name).unwrap() == wanted, "{}", name);
        }
        prop_assert!(place.get_file(&volume, "file", None).unwrap() == wanted);
        prop_assert!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap().is_empty());
        let names: Vec<String> = volume.list().unwrap().into_iter().map(|m| m.name).collect();
        prop_assert_eq!(names, ["copy", "file", "stream"]);
        for name in ["copy", "file", "stream"] {
            volume.remove(name).unwrap();
        }
        prop_assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_file_of_more_than_a_window_is_got_in_the_order_of_the_drives() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 20);
    let wanted = bytes(WINDOW_BYTES + (9 << 20) + 1234, 3);
    place.put(&volume, "x", &wanted).unwrap();
    let manifest = volume.manifest("x").unwrap();
    let mut reader = transfer::open(&volume, &manifest, None, &place.budget)
        .unwrap()
        .reader;
    let mut places = Vec::new();
    while let Some((at_bytes, part)) = reader.next_arrival().unwrap() {
        let (at, len) = (
            at_bytes as usize,
            part.len().min(wanted.len() - at_bytes as usize),
        );
        assert!(part[..len] == wanted[at..at + len], "from {at} on");
        places.push((at, at + len));
    }
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert_eq!((places[0].0, places[places.len() - 1].1), (0, wanted.len()));
    drop(reader);
    assert!(place.get_file(&volume, "x", None).unwrap() == wanted);
}

/// Flips a bit of a byte of a file.
pub(super) fn flip(path: &Path, at: usize) {
    // Sealed files are read-only for users other than root.
    fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_is_named_by_drive_file_and_offset_and_is_never_handed_out() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 16);
    place.put(&volume, "other", &bytes(1 << 20, 2)).unwrap();
    let manifest = place.put(&volume, "x", &bytes(3 << 20, 1)).unwrap();
    let share = volume.share_path(&manifest.id, 1);
    flip(&share, 3 * 65536 + 77);
    let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(
        (damages[0].dataset.as_str(), damages[0].drive.as_str()),
        ("x", "d1")
    );
    assert_eq!(damages[0].path, share.display().to_string());
    assert_eq!(
        (damages[0].offset_bytes, damages[0].len_bytes),
        (3 * 65536, 65536)
    );
    let error = place.get(&volume, "x").unwrap_err();
    assert_eq!(
        (error.kind(), error.drive_name()),
        (Kind::Corrupt, Some("d1"))
    );
    assert_eq!(error.offset_bytes(), Some(3 * 65536));
    let error = place.get_file(&volume, "x", None).unwrap_err();
    assert_eq!(error.offset_bytes(), Some(3 * 65536));
    assert!(!place.path("out").exists());
    assert!(place.get(&volume, "other").is_ok());
    // In all copies of the manifest as well.
    for index in 0..3 {
        flip(&volume.manifest_path("x", index), 40);
    }
    assert!(volume.manifest("x").is_err());
}

#[test]
fn a_scrub_goes_on_past_what_is_gone_cut_or_cannot_be_read() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 20);
    for name in ["cut", "gone", "manifest", "whole"] {
        place.put(&volume, name, &bytes(9 << 20, 1)).unwrap();
    }
    let share = |name: &str, drive| {
        let manifest = volume.manifest(name).unwrap();
        (
            volume.share_path(&manifest.id, drive),
            manifest.shares[drive].len_bytes,
        )
    };
    let (gone, gone_bytes) = share("gone", 2);
    fs::remove_file(&gone).unwrap();
    let (cut, cut_bytes) = share("cut", 1);
    fs::set_permissions(&cut, PermissionsExt::from_mode(0o644)).unwrap();
    fs::File::options()
        .write(true)
        .open(&cut)
        .unwrap()
        .set_len(5000)
        .unwrap();
    for index in 0..3 {
        flip(&volume.manifest_path("manifest", index), 40);
    }
    let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    let found: Vec<_> = damages
        .iter()
        .map(|d| (d.dataset.as_str(), d.drive.as_str(), d.offset_bytes))
        .collect();
    assert_eq!(
        found,
        [
            ("cut", "d1", 5000),
            ("gone", "d2", 0),
            ("manifest", "d0", 0)
        ]
    );
    assert_eq!(
        (damages[0].len_bytes, damages[1].len_bytes),
        (cut_bytes - 5000, gone_bytes)
    );
    assert_eq!(
        volume.names().unwrap(),
        ["cut", "gone", "manifest", "whole"]
    );
    volume.remove("gone").unwrap();
    // The reads of a scrub: checksums, then data, one transfer per piece of a stripe.
    for nth in 2..6 {
        let plan = format!("eio@{nth}:read").parse().unwrap();
        let faulty: Arc<dyn Device> = Arc::new(FaultDevice::new(Arc::clone(&place.device), plan));
        let opened = DatasetVolume::open(faulty, place.drives()).unwrap();
        let named = ["whole".to_string()];
        let damages = opened.scrub(&named, &place.budget, Watch::NOBODY).unwrap();
        assert!(!damages.is_empty() && damages.iter().all(|d| d.drive == damages[0].drive));
        assert!(
            place.get(&opened, "whole").is_ok(),
            "the fault was the drive's, and once"
        );
    }
}

#[test]
fn a_drive_that_is_missing_replaced_or_elsewhere_is_named() {
    let place = TestDir::new(3);
    place.create(1 << 16);
    let device = &place.device;
    let open = |drives: Vec<VolumeDrive>| DatasetVolume::open(Arc::clone(device), drives).err();
    let all = place.drives();
    let error = open(all[..2].to_vec()).unwrap();
    assert!(error.to_string().contains("drive d2 is missing"), "{error}");
    let mut swapped = all.clone();
    swapped.swap(0, 1);
    // The labels record the order.
    let opened = DatasetVolume::open(Arc::clone(device), swapped).unwrap();
    assert_eq!(opened.drives()[0].name, "d0");
    let mut renamed = all.clone();
    renamed[1].name = "e".into();
    assert_eq!(open(renamed).unwrap().drive_name(), Some("e"));
    let folder = all[1].dir.join(FOLDER);
    fs::rename(&folder, place.path("away")).unwrap();
    // A missing drive is reported: see `metadata`.
    assert!(open(all.clone()).is_none());
    let one = vec![all[1].clone()];
    DatasetVolume::create(Arc::clone(device), one, 1 << 16, 99).unwrap();
    let error = open(all.clone()).unwrap();
    assert!(error.to_string().contains("belongs to volume"), "{error}");
    let again = DatasetVolume::create(Arc::clone(device), all, 1 << 16, 3)
        .err()
        .unwrap();
    assert_eq!(again.kind(), Kind::Usage);
}

#[test]
fn whatever_fails_while_putting_a_dataset_is_whole_or_absent_and_nothing_stays() {
    let wanted = bytes(300_000, 5);
    for kind in ["", ":write", ":sync", ":control"] {
        for nth in (1..).step_by(if kind.is_empty() { 3 } else { 1 }) {
            let mut place = TestDir::new(2);
            let volume = place.create(1 << 16);
            place.put(&volume, "before", b"stays").unwrap();
            let before = place.files().len();
            let plan = format!("eio@{nth}{kind}").parse().unwrap();
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&place.device), plan));
            place.device = Arc::clone(&faulty) as Arc<dyn Device>;
            let opened = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            let put = place.put(&opened, "x", &wanted);
            place.device = Arc::new(OsDevice::new(IoMode::Auto));
            let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            volume.sweep().unwrap();
            match (&put, volume.contains("x")) {
                (_, true) => assert!(place.get(&volume, "x").unwrap() == wanted),
                (Ok(_), false) => panic!("eio@{nth}{kind}: put and not there"),
                (Err(_), false) => assert_eq!(place.files().len(), before, "eio@{nth}{kind}"),
            }
            assert_eq!(place.get(&volume, "before").unwrap(), b"stays");
            if faulty.operations() < nth {
                assert!(put.is_ok());
                break;
            }
        }
    }
}

#[test]
fn a_name_is_taken_once_and_replaced_only_when_asked() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"one").unwrap();
    let files = place.files().len();
    assert_eq!(
        place.put(&volume, "x", b"two").unwrap_err().kind(),
        Kind::Usage
    );
    assert_eq!(place.get(&volume, "x").unwrap(), b"one");
    let replacing = NewDataset {
        replace: true,
        seed: 8,
        ..new("x")
    };
    transfer::put_stream(&volume, &mut &b"two"[..], &replacing, place.resources()).unwrap();
    assert_eq!(place.get(&volume, "x").unwrap(), b"two");
    assert_eq!(place.files().len(), files);
    for name in ["", ".x", "a/b", "a b", "..", "ä"] {
        assert_eq!(
            volume.manifest(name).unwrap_err().kind(),
            Kind::Usage,
            "{name}"
        );
    }
    assert_eq!(volume.remove("nothing").unwrap_err().kind(), Kind::Usage);
}

/// Puts `x` again over the existing dataset.
fn replace(
    place: &TestDir,
    volume: &DatasetVolume,
    bytes: &[u8],
    seed: u64,
) -> outcore_io::Result<()> {
    let replacing = NewDataset {
        replace: true,
        seed,
        ..new("x")
    };
    transfer::put_stream(volume, &mut &*bytes, &replacing, place.resources()).map(drop)
}

#[test]
fn those_who_replace_one_dataset_at_a_time_leave_the_data_of_one() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"before").unwrap();
    let files = place.files().len();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (place, volume) = (&place, &volume);
            scope.spawn(move || {
                for round in 0..8 {
                    replace(place, volume, b"after", 100 * thread + round).unwrap();
                }
            });
        }
    });
    assert_eq!(place.get(&volume, "x").unwrap(), b"after");
    assert_eq!(place.files().len(), files);
}

#[test]
fn whatever_fails_while_a_dataset_is_replaced_or_removed_its_data_go_with_it() {
    let (old, after) = (bytes(200_000, 5), bytes(300_000, 6));
    for removes in [false, true] {
        for nth in 1.. {
            let mut place = TestDir::new(2);
            let volume = place.create(1 << 16);
            let without = place.files().len();
            place.put(&volume, "x", &old).unwrap();
            let with = place.files().len();
            let plan = format!("eio@{nth}:control").parse().unwrap();
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&place.device), plan));
            place.device = Arc::clone(&faulty) as Arc<dyn Device>;
            let opened = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            let done = match removes {
                true => opened.remove("x").map(drop),
                false => replace(&place, &opened, &after, 9),
            };
            place.device = Arc::new(OsDevice::new(IoMode::Auto));
            let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            volume.sweep().unwrap();
            match volume.contains("x") {
                true => {
                    let found = place.get(&volume, "x").unwrap();
                    assert!(found == old || (!removes && found == after), "{nth}");
                    assert_eq!(place.files().len(), with, "eio@{nth}, removes {removes}");
                }
                false => {
                    assert!(removes, "eio@{nth}: replaced and not there");
                    assert_eq!(place.files().len(), without, "eio@{nth}");
                }
            }
            if faulty.operations() < nth {
                assert!(done.is_ok());
                break;
            }
        }
    }
}

#[test]
fn a_part_of_a_dataset_is_read_with_the_checksums_of_that_part_alone() {
    let place = TestDir::new(2);
    let volume = place.create(4096);
    // 4096 checksum blocks, whose checksums are 32 KiB.
    let data = bytes((16 << 20) - 700, 7);
    place.put(&volume, "x", &data).unwrap();
    let manifest = volume.manifest("x").unwrap();
    let read = |from: usize, len: usize, budget: &Budget| -> outcore_io::Result<Vec<u8>> {
        let mut reader = volume.range_reader(&manifest, from as u64, len as u64, budget)?;
        let mut found = Vec::new();
        transfer::get_stream(&mut reader, &mut found, Watch::NOBODY)?;
        Ok(found)
    };
    let tight = Budget::new(2 * CHUNK_BYTES as u64 + 1024);
    for (from, len) in [
        (0, 1),
        (4095, 2),
        (5 << 20, 300_000),
        (data.len() - 1, 1),
        (7, 0),
    ] {
        assert!(
            read(from, len, &tight).unwrap() == data[from..from + len],
            "{from} {len}"
        );
    }
    assert!(read(0, data.len(), &place.budget).unwrap() == data);
    // The checksum of the checksum block at 12 KiB.
    let (mut at, mut places) = (manifest.sums_at_bytes() as usize + 3 * 8, Vec::new());
    manifest
        .map()
        .unwrap()
        .split(at as u64 / 4096 * 4096, 4096, usize::MAX, |piece| {
            places.push((piece.drive_index, piece.offset_bytes));
        });
    at %= 4096;
    let share = volume.share_path(&manifest.id, places[0].0);
    let mut broken = fs::read(&share).unwrap();
    broken[places[0].1 as usize + at] ^= 1;
    fs::remove_file(&share).unwrap();
    fs::write(&share, broken).unwrap();
    assert!(read(8192, 4096, &tight).unwrap() == data[8192..12_288]);
    assert_eq!(
        read(12_000, 1000, &tight).unwrap_err().kind(),
        Kind::Corrupt
    );
    let whole = read(0, data.len(), &place.budget).unwrap_err();
    assert!(whole.cause().contains("checksums"), "{whole}");
    let found = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    assert!(
        found.len() == 1 && found[0].path == share.display().to_string(),
        "{found:?}"
    );
}
