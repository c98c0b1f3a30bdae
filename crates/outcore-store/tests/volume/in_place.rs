//! Datasets as files of a device: reads return what was put, and `get` returns what was written.
//!
//! Contract: ports read and write as the engine does, blocks of 4 KiB at any offset and in any
//! order; the oracle is the array of bytes from which a dataset was made.

use outcore_io::Kind;
use outcore_io::drive::Access;
use outcore_io::drive::testing::FaultDevice;
use outcore_io::output::{Room, ShardPlan, StagedOutput};
use outcore_io::port::{Port, Transfer, Volume, VolumeFile};
use outcore_store::dataset::DatasetVolume;
use outcore_store::dataset::device::DatasetDevice;
use proptest::prelude::*;

use super::datasets::{TestDir, bytes, flip, new};
use super::*;

const BLOCK: usize = 4096;

/// A device with the dataset `name` as a file, and the file.
pub(super) fn mounted(
    place: &TestDir,
    volume: &DatasetVolume,
    name: &str,
) -> outcore_io::Result<(Volume, VolumeFile)> {
    let device = DatasetDevice::new(
        Arc::clone(&place.device),
        volume.clone(),
        place.budget.clone(),
    );
    let path = place.path("as-a-file");
    let device = device.with_input(&path, name);
    let volume = Volume::new(Arc::new(device), &[])?;
    let file = volume.open(&path, Access::Read)?;
    Ok((volume, file))
}

pub(super) fn finish(port: &mut Port) -> Vec<Transfer> {
    let mut done = Vec::new();
    while port.in_flight() > 0 {
        port.poll(true, &mut done).unwrap();
    }
    done
}

/// Writes `data` as the dataset `name`, in blocks in the order of `seed`, except for `hole`, and
/// publishes it.
pub(super) fn write(
    place: &TestDir,
    volume: &DatasetVolume,
    (name, data): (&str, &[u8]),
    seed: u64,
    room: Room,
    hole: Option<usize>,
) -> outcore_io::Result<()> {
    let dir = place.path("staging");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(name);
    let device = DatasetDevice::new(
        Arc::clone(&place.device),
        volume.clone(),
        place.budget.clone(),
    );
    let drives = Volume::new(Arc::new(device.with_output(&path, new(name))), &[])?;
    // An upper bound of the length, if the length is unknown.
    let bound = match room {
        Room::Exactly => data.len(),
        Room::AtMost => data.len() + 300_000,
    };
    let plan = ShardPlan {
        path,
        header: Vec::new(),
        start_bytes: 0,
        len_bytes: bound as u64,
    };
    let output = StagedOutput::stage(&drives, vec![plan], None, false, room)?;
    let file = output.shards()[0].file.clone();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let blocks = 1 + random(seed, at as u64) as usize % 40;
        let end = (at + blocks * BLOCK).min(data.len());
        pieces.push((at, end));
        at = end;
    }
    pieces.sort_by_key(|(at, _)| random(!seed, *at as u64));
    let pool = pool(40 * BLOCK, pieces.len().max(1));
    let mut port = drives.port()?;
    for (number, (at, end)) in pieces.into_iter().enumerate() {
        if hole == Some(number) {
            continue;
        }
        let mut slot = pool.take().unwrap();
        let mut buf = slot.split_to((end - at).next_multiple_of(BLOCK));
        buf.fill(0);
        buf[..end - at].copy_from_slice(&data[at..end]);
        port.submit(&file, Op::Write, at as u64, buf, 0);
    }
    for transfer in finish(&mut port) {
        if let Some(fault) = transfer.fault {
            return Err(drives.explain(&fault));
        }
    }
    output.publish(&drives, data.len() as u64)
}

/// A job that has failed drops its ports with reads in flight; another job may need the memory.
#[test]
fn memory_of_reads_that_nobody_waits_for_goes_back() {
    let place = TestDir::new(3);
    let volume = place.create(16 << 10);
    let wanted = bytes(4 << 20, 5);
    place.put(&volume, "x", &wanted).unwrap();
    let (drives, file) = mounted(&place, &volume, "x").unwrap();
    let budget = Budget::new(8 << 20);
    for _ in 0..20 {
        let pool = Pool::new(&budget, "reads", 1 << 20, 4).unwrap();
        let mut port = drives.port().unwrap();
        for part in 0..4 {
            let buf = pool.take().unwrap();
            port.submit(&file, Op::Read, part << 20, buf, part);
        }
        port.poll(false, &mut Vec::new()).unwrap();
        drop(port);
        assert_eq!(pool.free_slots(), 4);
        drop(pool);
        assert_eq!(budget.used_bytes(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn blocks_anywhere_are_read_as_they_were_put(
        len in prop_oneof![0usize..20_000, 1usize..1 << 20],
        drives in 1usize..6, shift in 12u32..=20, seed: u64,
    ) {
        let place = TestDir::new(drives);
        let volume = place.create(1 << shift);
        let wanted = bytes(len, seed);
        place.put(&volume, "x", &wanted).unwrap();
        let (drives, file) = mounted(&place, &volume, "x").unwrap();
        prop_assert_eq!(file.facts.len_bytes, len as u64);
        let pool = pool(70 * BLOCK, 48);
        let mut port = drives.port().unwrap();
        for number in 0..48 {
            // Some begin beyond the end.
            let at = random(seed, number) as usize % (len.div_ceil(BLOCK) + 2) * BLOCK;
            let blocks = 1 + random(seed, !number) as usize % 70;
            let buf = pool.take().unwrap().split_to(blocks * BLOCK);
            port.submit(&file, Op::Read, at as u64, buf, at as u64);
        }
        let done = finish(&mut port);
        prop_assert_eq!(done.len(), 48);
        for transfer in done {
            let at = (transfer.token as usize).min(len);
            let there = &wanted[at..len.min(at + transfer.buf.len())];
            prop_assert!(transfer.fault.is_none());
            prop_assert!(transfer.buf[..transfer.len_bytes] == *there, "from {} on", at);
        }
    }

    #[test]
    fn pieces_written_in_any_order_are_got_as_one(
        len in prop_oneof![0usize..20_000, 1usize..1 << 20],
        drives in 1usize..6, shift in 12u32..=20, is_bound: bool, seed: u64,
    ) {
        let place = TestDir::new(drives);
        let volume = place.create(1 << shift);
        let data = bytes(len, seed);
        let room = if is_bound { Room::AtMost } else { Room::Exactly };
        write(&place, &volume, ("x", &data), seed, room, None).unwrap();
        prop_assert!(place.get(&volume, "x").unwrap() == data);
        volume.remove("x").unwrap();
        prop_assert_eq!(place.files(), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_flipped_bit_fails_the_reads_that_touch_its_checksum_block_and_no_other() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 16);
    let wanted = bytes(3 << 20, 1);
    let manifest = place.put(&volume, "x", &wanted).unwrap();
    flip(&volume.share_path(&manifest.id, 1), 3 * 65536 + 77);
    let (drives, file) = mounted(&place, &volume, "x").unwrap();
    let pool = pool(BLOCK, (3 << 20) / BLOCK);
    let mut port = drives.port().unwrap();
    for at in (0..wanted.len()).step_by(BLOCK) {
        let buf = pool.take().unwrap();
        port.submit(&file, Op::Read, at as u64, buf, at as u64);
    }
    let (failed, good): (Vec<_>, Vec<_>) = finish(&mut port)
        .into_iter()
        .partition(|transfer| transfer.fault.is_some());
    assert_eq!(failed.len(), 65536 / BLOCK, "one checksum block of 64 KiB");
    for transfer in &good {
        let at = transfer.token as usize;
        assert!(transfer.buf[..] == wanted[at..at + BLOCK]);
    }
    for transfer in failed {
        let error = drives.explain(&transfer.fault.unwrap());
        assert_eq!(
            (error.kind(), error.drive_name(), error.offset_bytes()),
            (Kind::Corrupt, Some("d1"), Some(3 * 65536))
        );
        assert_eq!(
            error.file_path(),
            Some(volume.share_path(&manifest.id, 1).as_path())
        );
    }
}

#[test]
fn a_share_that_is_cut_or_gone_is_named_before_anything_is_read() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 16);
    let manifest = place.put(&volume, "x", &bytes(3 << 20, 1)).unwrap();
    let share = volume.share_path(&manifest.id, 2);
    let whole = std::fs::read(&share).unwrap();
    std::fs::remove_file(&share).unwrap();
    std::fs::write(&share, &whole[..whole.len() / 2]).unwrap();
    let error = mounted(&place, &volume, "x").err().unwrap();
    assert_eq!(
        (error.kind(), error.drive_name()),
        (Kind::Corrupt, Some("d2"))
    );
    std::fs::remove_file(&share).unwrap();
    let error = mounted(&place, &volume, "x").err().unwrap();
    assert_eq!((error.kind(), error.drive_name()), (Kind::Io, Some("d2")));
}

#[test]
fn a_dataset_with_a_hole_is_never_sealed() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 14);
    let data = bytes(700_000, 4);
    let written = write(&place, &volume, ("x", &data), 9, Room::Exactly, Some(2));
    assert!(written.unwrap_err().to_string().contains("never written"));
    assert!(!volume.contains("x"));
    assert_eq!(place.files(), Vec::<PathBuf>::new());
}

#[test]
fn a_sealed_dataset_is_not_opened_for_writing() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 14);
    place.put(&volume, "x", b"sealed").unwrap();
    let (drives, _) = mounted(&place, &volume, "x").unwrap();
    let error = drives
        .open(&place.path("as-a-file"), Access::Update)
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
}

#[test]
fn whatever_fails_while_a_dataset_is_written_it_is_whole_or_absent() {
    let data = bytes(300_000, 5);
    for kind in [":write", ":sync", ":control"] {
        for nth in 1.. {
            let mut place = TestDir::new(2);
            place.create(1 << 16);
            let plan = format!("eio@{nth}{kind}").parse().unwrap();
            let faulty = Arc::new(FaultDevice::new(Arc::clone(&place.device), plan));
            let sound =
                std::mem::replace(&mut place.device, Arc::clone(&faulty) as Arc<dyn Device>);
            let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            let written = write(&place, &volume, ("x", &data), nth, Room::Exactly, None);
            let is_over = faulty.operations() < nth;
            drop(volume);
            place.device = sound;
            let volume = DatasetVolume::open(Arc::clone(&place.device), place.drives()).unwrap();
            volume.sweep().unwrap();
            match volume.contains("x") {
                // The sweep repairs a failed rename after the commit.
                true => assert!(place.get(&volume, "x").unwrap() == data, "{kind} {nth}"),
                false => {
                    assert!(written.is_err(), "{kind} {nth}");
                    assert_eq!(place.files(), Vec::<PathBuf>::new(), "{kind} {nth}");
                }
            }
            if is_over {
                assert!(written.is_ok(), "{kind} {nth}");
                break;
            }
        }
    }
}
