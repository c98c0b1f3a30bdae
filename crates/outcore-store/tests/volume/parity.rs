//! Volumes with parity or a mirror: what one drive has lost is read from the others, and two lost
//! drives are an error that names them.
//!
//! Contract: as in `datasets`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outcore_io::Kind;
use outcore_io::output::Room;
use outcore_store::dataset::damage::Damage;
use outcore_store::dataset::replace::Replacement;
use outcore_store::dataset::transfer;
use outcore_store::dataset::{DatasetVolume, NewVolume, Watch};
use outcore_store::mapping::Redundancy;
use proptest::prelude::*;

use super::datasets::{TestDir, bytes, new};
use super::devices::HookDevice;
use super::in_place;
use super::*;

/// Something that happens to a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// It is not mounted.
    Missing,
    /// Its shares are gone.
    Removed,
    /// All bytes of its shares are zero.
    Zeroed,
    /// Its shares end early.
    Cut,
    /// A bit of each page is flipped.
    Flipped,
}

const LOSSES: [Loss; 5] = [
    Loss::Missing,
    Loss::Removed,
    Loss::Zeroed,
    Loss::Cut,
    Loss::Flipped,
];

pub(super) fn create(place: &TestDir, stripe_bytes: u64, redundancy: Redundancy) -> DatasetVolume {
    let new = NewVolume {
        stripe_bytes,
        redundancy,
        seed: 1,
    };
    DatasetVolume::create_with(Arc::clone(&place.device), place.drives(), new).unwrap()
}

fn open(place: &TestDir) -> DatasetVolume {
    DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap()
}

/// Lets `loss` happen to a drive, to each of its shares after the fraction `share_from` (0 to 1).
fn lose(place: &TestDir, drive: &str, loss: Loss, share_from: f64) {
    let dir = place.path(drive);
    if loss == Loss::Missing {
        fs::rename(&dir, place.path("away")).unwrap();
        fs::create_dir(&dir).unwrap();
        return;
    }
    for share in fs::read_dir(dir.join("outcore-volume/data")).unwrap() {
        let path = share.unwrap().path();
        let mut whole = fs::read(&path).unwrap();
        let from = (whole.len() as f64 * share_from) as usize;
        match loss {
            Loss::Missing | Loss::Removed => {
                fs::remove_file(&path).unwrap();
                continue;
            }
            Loss::Zeroed => whole[from..].fill(0),
            Loss::Cut => whole.truncate(from),
            Loss::Flipped => whole[from..]
                .iter_mut()
                .step_by(4096)
                .for_each(|byte| *byte ^= 1),
        }
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(&path, whole).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_byte_of_a_lost_drive_is_read_from_the_others(
        len in prop_oneof![Just(0usize), 1usize..5000, Just(1 << 16), 1usize..3 << 20],
        drives in 2usize..6, shift in 12u32..=20, seed: u64, is_mirror: bool,
        lost in 0usize..6, loss in prop::sample::select(&LOSSES[..]), share_from in 0.0f64..1.0,
        from in 0.0f64..1.0,
    ) {
        let redundancy = if is_mirror { Redundancy::Mirror } else { Redundancy::Parity };
        let place = TestDir::in_memory(drives);
        let volume = create(&place, 1 << shift, redundancy);
        let wanted = bytes(len, seed);
        place.put(&volume, "file", &wanted).unwrap();
        transfer::put_stream(&volume, &mut &wanted[..], &new("stream"), place.resources()).unwrap();
        lose(&place, &format!("d{}", lost % drives), loss, share_from);
        let volume = open(&place);
        for name in ["file", "stream"] {
            prop_assert!(place.get(&volume, name).unwrap() == wanted, "{}", name);
            prop_assert!(place.get_file(&volume, name, None).unwrap() == wanted, "{}", name);
            // A range needs only some of the checksums.
            let manifest = volume.manifest(name).unwrap();
            let from = (len as f64 * from) as u64;
            let part_bytes = (len as u64 - from).min(70_000);
            let reader = volume.range_reader(&manifest, from, part_bytes, &place.budget);
            let mut part = Vec::new();
            transfer::get_stream(&mut reader.unwrap(), &mut part, Watch::NOBODY).unwrap();
            prop_assert!(part == wanted[from as usize..][..part_bytes as usize], "{}", name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Written and read as the engine does: in any order, at any block.
    #[test]
    fn files_of_a_device_do_without_a_lost_drive(
        len in prop_oneof![1usize..5000, 1usize..3 << 20],
        drives in 2usize..6, shift in 12u32..=20, seed: u64, is_mirror: bool, is_exact: bool,
        lost in 0usize..6, loss in prop::sample::select(&LOSSES[..]), share_from in 0.0f64..1.0,
    ) {
        let redundancy = if is_mirror { Redundancy::Mirror } else { Redundancy::Parity };
        let place = TestDir::in_memory(drives);
        let volume = create(&place, 1 << shift, redundancy);
        let wanted = bytes(len, seed);
        let room = if is_exact { Room::Exactly } else { Room::AtMost };
        in_place::write(&place, &volume, ("x", &wanted), seed, room, None).unwrap();
        prop_assert!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap().is_empty());
        lose(&place, &format!("d{}", lost % drives), loss, share_from);
        prop_assert!(read_in_place(&place, wanted.len(), seed) == wanted);
    }
}

/// The bytes of the dataset `x`, in reads of a few blocks in the order of `seed`.
fn read_in_place(place: &TestDir, len: usize, seed: u64) -> Vec<u8> {
    let (drives, file) = in_place::mounted(place, &open(place), "x").unwrap();
    let mut pieces: Vec<usize> = (0..len).step_by(5 * 4096).collect();
    pieces.sort_by_key(|at| random(seed, *at as u64));
    let pool = pool(5 * 4096, pieces.len());
    let mut port = drives.port().unwrap();
    for at in &pieces {
        let buf = pool.take().unwrap();
        port.submit(&file, Op::Read, *at as u64, buf, *at as u64);
    }
    let mut found = vec![0; len];
    for transfer in in_place::finish(&mut port) {
        if let Some(fault) = transfer.fault {
            panic!("{}", drives.explain(&fault));
        }
        let at = transfer.token as usize;
        found[at..at + transfer.len_bytes].copy_from_slice(&transfer.buf[..transfer.len_bytes]);
    }
    found
}

/// With fewer buffers than groups that are being written, some parity is computed at the end.
#[test]
fn parity_needs_no_more_memory_than_there_is() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 4 << 20, Redundancy::Parity);
    let wanted = bytes(70 << 20, 5);
    in_place::write(&place, &volume, ("x", &wanted), 6, Room::Exactly, None).unwrap();
    assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
    lose(&place, "d1", Loss::Removed, 0.0);
    assert!(place.get(&open(&place), "x").unwrap() == wanted);
}

/// A place whose device returns writes late, so that they hold their memory.
fn with_late_writes(drives: usize) -> TestDir {
    let mut place = TestDir::in_memory(drives);
    let late = HookDevice::new(Arc::clone(&place.device), |_, _| ()).holding_writes();
    place.device = Arc::new(late);
    place
}

#[test]
fn a_rebuild_waits_for_writes_that_hold_its_memory() {
    let place = with_late_writes(2);
    let volume = create(&place, 1 << 16, Redundancy::Mirror);
    let wanted = bytes(3_000_001, 5);
    place.put(&volume, "x", &wanted).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    lose(&place, "d1", Loss::Missing, 0.0);
    replace(&place, "d1", "new", false).unwrap();
    let volume = DatasetVolume::open(Arc::clone(&place.device), moved(&place, "d1", "new"));
    let volume = volume.unwrap();
    assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
    let id = volume.manifest("x").unwrap().id;
    let old = fs::read(place.path("away/outcore-volume/data").join(&id)).unwrap();
    assert!(fs::read(volume.share_path(&id, 1)).unwrap() == old);
    // A scrub that rebuilds a share also writes the same bytes.
    fs::remove_file(volume.share_path(&id, 1)).unwrap();
    volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    assert!(fs::read(volume.share_path(&id, 1)).unwrap() == old);
}

#[test]
fn a_sealed_dataset_has_all_of_its_parity_however_late_writes_are() {
    let place = with_late_writes(2);
    let volume = create(&place, 4 << 20, Redundancy::Mirror);
    let wanted = bytes(70 << 20, 5);
    in_place::write(&place, &volume, ("x", &wanted), 6, Room::Exactly, None).unwrap();
    assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
}

/// Drives, or a controller, with a single slot, which a read of the caller always holds.
#[test]
fn a_rescue_needs_no_slot_that_its_caller_holds() {
    for controller in [None, Some(("one".to_string(), 1))] {
        let place = TestDir::in_memory(3);
        let mut drives = place.drives();
        for drive in &mut drives {
            drive.tags = if controller.is_some() { 32 } else { 1 };
            drive.controller = controller.clone();
        }
        let volume = create(&place, 1 << 16, Redundancy::Parity);
        let wanted = bytes(20 << 20, 5);
        place.put(&volume, "x", &wanted).unwrap();
        lose(&place, "d1", Loss::Missing, 0.0);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let volume = DatasetVolume::open(Arc::clone(&place.device), drives).unwrap();
            let got = place.get(&volume, "x").unwrap();
            send.send(got).unwrap();
        });
        let got = receive.recv_timeout(std::time::Duration::from_secs(60));
        assert!(got.expect("the read ends") == wanted);
    }
}

#[test]
fn two_lost_drives_are_an_error_that_names_them() {
    for loss in LOSSES {
        let place = TestDir::in_memory(4);
        let volume = create(&place, 1 << 14, Redundancy::Parity);
        let wanted = bytes(1 << 20, 5);
        place.put(&volume, "x", &wanted).unwrap();
        lose(&place, "d1", loss, 0.0);
        assert!(place.get(&open(&place), "x").unwrap() == wanted, "{loss:?}");
        lose(&place, "d3", Loss::Removed, 0.0);
        let error = place.get(&open(&place), "x").unwrap_err();
        assert!([Kind::Io, Kind::Corrupt].contains(&error.kind()), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("d1") || text.contains("d3"),
            "{loss:?}: {text}"
        );
        assert!(
            text.contains("parity makes up for only one"),
            "{loss:?}: {text}"
        );
    }
}

#[test]
fn a_volume_without_redundancy_is_written_as_before() {
    let place = TestDir::in_memory(2);
    let volume = place.create(1 << 16);
    place.put(&volume, "x", b"one").unwrap();
    for name in [
        "d0/outcore-volume/volume.json",
        "d0/outcore-volume/datasets/x.json",
    ] {
        let text = fs::read_to_string(place.path(name)).unwrap();
        assert!(
            text.contains("\"version\": 2") && !text.contains("redundancy"),
            "{text}"
        );
    }
    let place = TestDir::in_memory(2);
    let volume = create(&place, 1 << 16, Redundancy::Parity);
    place.put(&volume, "x", b"one").unwrap();
    for name in [
        "d0/outcore-volume/volume.json",
        "d0/outcore-volume/datasets/x.json",
    ] {
        let text = fs::read_to_string(place.path(name)).unwrap();
        assert!(
            text.contains("\"version\": 3") && text.contains("redundancy"),
            "{text}"
        );
    }
}

#[test]
fn a_scrub_repairs_what_one_drive_has_lost_and_says_what() {
    for (loss, redundancy, from) in [
        (Loss::Removed, Redundancy::Parity, 0.0),
        (Loss::Zeroed, Redundancy::Parity, 0.0),
        (Loss::Zeroed, Redundancy::Mirror, 0.3),
        (Loss::Cut, Redundancy::Parity, 0.4),
        (Loss::Flipped, Redundancy::Parity, 0.7),
        (Loss::Flipped, Redundancy::Mirror, 0.0),
    ] {
        for (drive, stripe_bytes) in [("d0", 1 << 14), ("d2", 1 << 18)] {
            let case = format!("{loss:?} {redundancy:?} {drive}");
            let place = TestDir::in_memory(4);
            let volume = create(&place, stripe_bytes, redundancy);
            let wanted = bytes(3_000_000, 5);
            place.put(&volume, "x", &wanted).unwrap();
            place.put(&volume, "empty", b"").unwrap();
            let shares = || {
                let paths =
                    (0..4).map(|index| volume.share_path(&volume.manifest("x").unwrap().id, index));
                paths
                    .map(|path| fs::read(path).unwrap())
                    .collect::<Vec<_>>()
            };
            let before = shares();
            lose(&place, drive, loss, from);
            let volume = open(&place);
            let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
            assert!(!damages.is_empty(), "{case}");
            for damage in &damages {
                assert!(
                    damage.is_repaired && damage.drive == drive,
                    "{case}: {damage:?}"
                );
            }
            // Flips also hit places that nothing uses.
            assert!(loss == Loss::Flipped || shares() == before, "{case}");
            assert!(place.get(&volume, "x").unwrap() == wanted, "{case}");
            let again = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
            assert!(again.is_empty(), "{case}: {again:?}");
            // If the parity is repaired, the loss of any other drive does no harm.
            for other in 0..4 {
                let path = volume.share_path(&volume.manifest("x").unwrap().id, other);
                fs::rename(&path, place.path("kept")).unwrap();
                assert!(place.get(&open(&place), "x").unwrap() == wanted, "{case}");
                fs::rename(place.path("kept"), &path).unwrap();
            }
        }
    }
}

#[test]
fn a_scrub_leaves_what_two_drives_have_lost_and_reports_it() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &bytes(1 << 20, 5)).unwrap();
    lose(&place, "d0", Loss::Flipped, 0.9);
    lose(&place, "d1", Loss::Flipped, 0.9);
    let damages = open(&place)
        .scrub(&[], &place.budget, Watch::NOBODY)
        .unwrap();
    assert!(
        damages.iter().any(|damage| !damage.is_repaired),
        "{damages:?}"
    );
    let again = open(&place)
        .scrub(&[], &place.budget, Watch::NOBODY)
        .unwrap();
    assert!(!again.is_empty() && again.iter().all(|damage| !damage.is_repaired));
}

#[test]
fn a_scrub_lists_shares_that_two_drives_have_lost_and_goes_on() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "a", &bytes(1 << 18, 5)).unwrap();
    for index in [0, 2] {
        let id = volume.manifest("a").unwrap().id;
        fs::remove_file(volume.share_path(&id, index)).unwrap();
    }
    place.put(&volume, "b", &bytes(1 << 18, 6)).unwrap();
    let id = volume.manifest("b").unwrap().id;
    fs::remove_file(volume.share_path(&id, 1)).unwrap();
    let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    let told = damages.iter().map(|damage| {
        let name: &str = &damage.dataset;
        (name, &damage.drive[..], damage.is_repaired)
    });
    let wanted = [("a", "d0", false), ("a", "d2", false), ("b", "d1", true)];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
}

/// The drives of a volume with the directory of one changed.
fn moved(place: &TestDir, drive: &str, dir: &str) -> Vec<outcore_store::dataset::VolumeDrive> {
    let mut drives = place.drives();
    for known in &mut drives {
        if known.name == drive {
            known.dir = place.path(dir);
        }
    }
    drives
}

fn replace(
    place: &TestDir,
    drive: &str,
    dir: &str,
    gives_up: bool,
) -> outcore_io::Result<outcore_store::dataset::replace::Replaced> {
    let wanted = Replacement {
        drive,
        dir: &place.path(dir),
        gives_up,
    };
    open(place).replace(wanted, &place.budget, Watch::NOBODY)
}

#[test]
fn a_drive_is_rebuilt_elsewhere_and_the_volume_can_be_written_again() {
    for (loss, redundancy) in [
        (Some(Loss::Missing), Redundancy::Parity),
        (Some(Loss::Zeroed), Redundancy::Mirror),
        (None, Redundancy::Parity),
    ] {
        for drive in ["d0", "d3"] {
            let place = TestDir::in_memory(4);
            let volume = create(&place, 1 << 14, redundancy);
            let wanted = bytes(3_000_000, 5);
            place.put(&volume, "x", &wanted).unwrap();
            place.put(&volume, "small", b"small").unwrap();
            if let Some(loss) = loss {
                lose(&place, drive, loss, 0.0);
            }
            fs::create_dir(place.path("new")).unwrap();
            let replaced = replace(&place, drive, "new", false).unwrap();
            assert_eq!(replaced.damages, []);
            // The same call again, as after a kill before the drives file is changed.
            if loss == Some(Loss::Missing) {
                let again = replace(&place, drive, "new", false).unwrap();
                assert_eq!(again.rebuilt_bytes, 0);
            }
            let drives = moved(&place, drive, "new");
            let volume = DatasetVolume::open(Arc::clone(&place.device), drives).unwrap();
            volume.check_complete("test").unwrap();
            assert!(place.get(&volume, "x").unwrap() == wanted);
            assert!(
                volume
                    .scrub(&[], &place.budget, Watch::NOBODY)
                    .unwrap()
                    .is_empty()
            );
            place.put(&volume, "later", &wanted).unwrap();
            assert!(place.get(&volume, "later").unwrap() == wanted);
        }
    }
}

#[test]
fn a_replacement_is_refused_where_it_would_lose_or_mix_something() {
    let place = TestDir::in_memory(3);
    let volume = place.create(1 << 14);
    place.put(&volume, "x", &bytes(1 << 18, 5)).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    let refused = |drive: &str, dir: &str, wanted: &str| {
        let error = replace(&place, drive, dir, false).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(wanted), "{text}");
    };
    refused("none", "new", "no drive `none`");
    refused("d1", "d1", "nothing to replace");
    refused("d1", "d2", "another drive of the volume");
    refused("d1", "new", "has no redundancy");
    fs::create_dir(place.path("new/outcore-volume")).unwrap();
    refused("d1", "new", "belongs to a volume already");
    fs::remove_dir(place.path("new/outcore-volume")).unwrap();
    assert!(place.get(&open(&place), "x").is_ok());
    lose(&place, "d1", Loss::Missing, 0.0);
    refused("d2", "new", "drive d1 is missing");
    // With consent the volume can be written again, and each loss is listed by name.
    let replaced = replace(&place, "d1", "d1", true).unwrap();
    assert_eq!(replaced.damages.len(), 1);
    let volume = open(&place);
    let found = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
    assert!(
        found
            .iter()
            .any(|damage| damage.dataset == "x" && !damage.is_repaired)
    );
    volume.remove("x").unwrap();
    place.put(&volume, "x", b"again").unwrap();
    assert_eq!(place.get(&volume, "x").unwrap(), b"again");
}

/// The names in a directory of the place, in order.
fn names_in(place: &TestDir, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(dir)).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_a_drive_was_before_it_was_replaced_is_never_read() {
    for (redundancy, is_label_lost) in [(Redundancy::Mirror, false), (Redundancy::Parity, true)] {
        let place = TestDir::in_memory(3);
        let volume = create(&place, 1 << 14, redundancy);
        let (old, newer) = (bytes(300_000, 5), bytes(300_000, 6));
        place.put(&volume, "x", &old).unwrap();
        place.put(&volume, "gone", &old).unwrap();
        fs::rename(place.path("d1"), place.path("pulled")).unwrap();
        fs::create_dir(place.path("d1")).unwrap();
        replace(&place, "d1", "d1", false).unwrap();
        let volume = open(&place);
        volume.remove("x").unwrap();
        volume.remove("gone").unwrap();
        // The new dataset has the generation of the old one.
        place.put(&volume, "x", &newer).unwrap();
        // In another directory, the old drive does not count as the result of the replacement.
        let error = replace(&place, "d1", "pulled", false).unwrap_err();
        assert!(
            error.to_string().contains("from before a replacement"),
            "{error}"
        );
        fs::rename(place.path("d1"), place.path("newer")).unwrap();
        fs::rename(place.path("pulled"), place.path("d1")).unwrap();
        if is_label_lost {
            fs::remove_file(place.path("d1/outcore-volume/volume.json")).unwrap();
        }
        let volume = open(&place);
        let (drive, reason) = volume.absent().next().unwrap();
        assert!(drive.name == "d1", "{reason}");
        assert!(
            is_label_lost || reason.to_string().contains("was replaced"),
            "{reason}"
        );
        assert_eq!(volume.names().unwrap(), ["x"]);
        match place.get(&volume, "x") {
            Ok(found) => assert!(!is_label_lost && found == newer),
            // Without its label, the returned drive could also be the newest one.
            Err(error) => {
                assert!(is_label_lost, "{error}");
                let step = error.next_step().unwrap_or_default();
                assert!(step.contains("outcore volume replace"), "{error}");
            }
        }
        assert!(place.put(&volume, "y", b"y").is_err());
        assert!(volume.scrub(&[], &place.budget, Watch::NOBODY).is_err());
        let replaced = replace(&place, "d1", "d1", false).unwrap();
        assert!(replaced.rebuilt_bytes > 0 && replaced.set_aside.is_some());
        let volume = open(&place);
        assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
        assert!(place.get(&volume, "x").unwrap() == newer);
        place.put(&volume, "y", b"y").unwrap();
    }
}

#[test]
fn a_label_of_a_replaced_drive_is_written_anew_while_the_drive_is_current() {
    let place = TestDir::in_memory(3);
    place
        .put(&create(&place, 1 << 14, Redundancy::Parity), "x", b"x")
        .unwrap();
    lose(&place, "d1", Loss::Missing, 0.0);
    replace(&place, "d1", "d1", false).unwrap();
    place.put(&open(&place), "y", b"y").unwrap();
    fs::remove_file(place.path("d1/outcore-volume/volume.json")).unwrap();
    let damages = open(&place).scrub(&[], &place.budget, Watch::NOBODY);
    assert_eq!(damages.unwrap().len(), 1);
    open(&place).check_complete("test").unwrap();
}

#[test]
fn what_began_before_a_drive_was_replaced_does_not_publish() {
    for drive in ["d0", "d2"] {
        let place = TestDir::in_memory(3);
        let volume = create(&place, 1 << 14, Redundancy::Parity);
        place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
        fs::create_dir(place.path("new")).unwrap();
        let mut writer = volume.writer(&new("y"), &place.budget).unwrap();
        let buf = writer.pool().take().unwrap();
        writer.push(buf, 70_000).unwrap();
        replace(&place, drive, "new", false).unwrap();
        let told = |error: outcore_io::Error| {
            assert_eq!(error.drive_name(), Some(drive), "{error}");
            assert!(
                error.to_string().contains("replaced in the meantime"),
                "{error}"
            );
        };
        told(writer.seal(0, 1).unwrap_err());
        told(volume.remove("x").unwrap_err());
        told(place.put(&volume, "z", b"z").unwrap_err());
        assert_eq!(names_in(&place, "new"), ["outcore-volume"]);
        let drives = moved(&place, drive, "new");
        let volume = DatasetVolume::open(Arc::clone(&place.device), drives).unwrap();
        assert_eq!(volume.names().unwrap(), ["x"]);
        assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
        place.put(&volume, "y", b"y").unwrap();
    }
}

#[test]
fn the_second_of_two_replacements_says_so_and_leaves_nothing() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
    for dir in ["new", "other"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    replace(&place, "d0", "new", false).unwrap();
    let wanted = Replacement {
        drive: "d0",
        dir: &place.path("other"),
        gives_up: false,
    };
    // This `volume` was opened before the replacement.
    let error = volume
        .replace(wanted, &place.budget, Watch::NOBODY)
        .unwrap_err();
    assert!(
        error.to_string().contains("replaced in the meantime"),
        "{error}"
    );
    assert_eq!(names_in(&place, "other"), [""; 0]);
}

#[test]
fn a_replacement_that_could_not_end_is_refused_before_it_begins() {
    let place = TestDir::in_memory(3);
    let volume = create(&place, 1 << 14, Redundancy::Parity);
    place.put(&volume, "x", &bytes(300_000, 5)).unwrap();
    for dir in ["new", "d1/outcore-volume.replaced", "d0/sub"] {
        fs::create_dir(place.path(dir)).unwrap();
    }
    let error = replace(&place, "d1", "new", false).unwrap_err();
    assert!(
        format!("{error:?}").contains("outcore-volume.replaced"),
        "{error:?}"
    );
    assert_eq!(names_in(&place, "new"), [""; 0]);
    let error = replace(&place, "d2", "d0/sub", false).unwrap_err();
    assert!(error.to_string().contains("inside drive d0"), "{error}");
}

#[test]
fn a_drive_that_has_lost_a_folder_is_damaged_and_not_in_the_way() {
    for folder in ["data", "datasets"] {
        for drive in ["d0", "d2"] {
            let place = TestDir::in_memory(3);
            let wanted = bytes(300_000, 5);
            let volume = create(&place, 1 << 14, Redundancy::Parity);
            place.put(&volume, "x", &wanted).unwrap();
            place.put(&volume, "y", &wanted).unwrap();
            let remove = |volume: &DatasetVolume, index: usize| {
                let dir = volume.drives()[index]
                    .dir
                    .join("outcore-volume")
                    .join(folder);
                fs::remove_dir_all(dir).unwrap();
            };
            let index = if drive == "d0" { 0 } else { 2 };
            remove(&volume, index);
            let volume = open(&place);
            assert_eq!(volume.names().unwrap(), ["x", "y"]);
            volume.status().unwrap();
            volume.orphans().unwrap();
            assert!(place.get(&volume, "x").unwrap() == wanted);
            let _ = fs::remove_dir(place.path(drive).join("outcore-volume/datasets"));
            let error = place.put(&volume, "z", b"z").unwrap_err();
            assert!(
                error.to_string().contains("folder of the drive is lost"),
                "{error}"
            );
            let damages = volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap();
            let is_told = |damage: &Damage| damage.is_repaired && damage.drive == drive;
            // The folder, and the share of each dataset in it.
            assert!(
                damages.iter().all(is_told) && damages.len() == 3,
                "{damages:?}"
            );
            assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
            remove(&volume, index);
            fs::create_dir(place.path("new")).unwrap();
            replace(&place, drive, "new", false).unwrap();
            let drives = moved(&place, drive, "new");
            let volume = DatasetVolume::open(Arc::clone(&place.device), drives).unwrap();
            assert_eq!(volume.scrub(&[], &place.budget, Watch::NOBODY).unwrap(), []);
            assert!(place.get(&volume, "y").unwrap() == wanted);
        }
    }
}
