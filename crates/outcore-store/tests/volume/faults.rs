//! Faults of one drive: reported by name, and the volume's other requests are unharmed.
//!
//! Contract: a device that fails on command is between volume and memory; the result of each
//! request is compared with the faulty range.

use std::path::Path;

use outcore_io::drive::Completion;
use rustix::io::Errno;

use super::devices::HookDevice;
use super::*;

const STRIPE_BYTES: u64 = 64 << 10;

/// Whether a transfer touches the block that begins at `at`.
fn touches(completion: &Completion, at: u64) -> bool {
    let start = completion.request.offset_bytes;
    let end = start + completion.request.buf.len() as u64;
    start < at + 4096 && at < end
}

#[test]
fn a_bad_block_under_a_merged_transfer_fails_the_request_that_wants_it_and_no_other() {
    for op in [Op::Read, Op::Write] {
        let device = HookDevice::new(Arc::new(ram(0)), move |_, completion| {
            if completion.request.op == op && touches(completion, 5 * 4096) {
                completion.result = Err(Errno::IO.raw_os_error());
            }
        });
        let volume = volume(device, &members(1, 4 << 20), StripeOptions::default());
        let pool = pool(4096, 64);
        let mut submitter = volume.submitter().unwrap();
        let batch = (0..16).map(|i| request(&pool, op, i * 4096, 4096, i));
        let done = run(&mut submitter, batch.collect());
        assert_eq!(done.len(), 16);
        for completion in &done {
            assert_eq!(completion.fault.is_some(), completion.token == 5);
        }
        let fault = done.iter().find_map(|completion| completion.fault).unwrap();
        let error = volume.explain(&fault);
        assert_eq!(error.kind(), outcore_io::Kind::Io);
        assert_eq!(error.drive_name(), Some("/drive0"));
        assert_eq!(error.file_path(), Some(Path::new("/drive0/volume")));
        assert_eq!(error.offset_bytes(), Some(5 * 4096));
        // One transfer of sixteen merged requests, then each request alone.
        assert_eq!(
            submitter.meters().map(|meter| meter.transfers).sum::<u64>(),
            17
        );
    }
}

#[test]
fn a_lost_drive_fails_what_lies_on_it_and_the_rest_goes_on() {
    let device = HookDevice::new(Arc::new(ram(0)), |path, completion| {
        if path.starts_with("/drive2") {
            completion.result = Err(Errno::NODEV.raw_os_error());
        }
    });
    let volume = volume(device, &members(4, 4 << 20), StripeOptions::default());
    let pool = pool(4096, 64);
    let mut submitter = volume.submitter().unwrap();
    let batch = (0..64).map(|i| request(&pool, Op::Write, i * STRIPE_BYTES, 4096, i));
    let done = run(&mut submitter, batch.collect());
    assert_eq!(done.len(), 64);
    for completion in done {
        assert_eq!(completion.fault.is_some(), completion.token % 4 == 2);
        if let Some(fault) = completion.fault {
            assert_eq!(volume.explain(&fault).drive_name(), Some("/drive2"));
        }
    }
}

#[test]
fn a_full_drive_and_one_that_was_cut_are_told_from_a_broken_one() {
    for (op, kind) in [
        (Op::Write, outcore_io::Kind::NoSpace),
        (Op::Read, outcore_io::Kind::Io),
    ] {
        let device = HookDevice::new(Arc::new(ram(0)), move |path, completion| {
            if path.starts_with("/drive1") && completion.request.op == op {
                // It stops short, as at the end of a medium.
                completion.result = Ok(0);
            }
        });
        let volume = volume(device, &members(2, 4 << 20), StripeOptions::default());
        let pool = pool(4096, 64);
        let mut submitter = volume.submitter().unwrap();
        let batch = (0..8).map(|i| request(&pool, op, i * STRIPE_BYTES, 4096, i));
        for completion in run(&mut submitter, batch.collect()) {
            let error = completion.fault.map(|fault| volume.explain(&fault));
            let wanted = (completion.token % 2 == 1).then_some(kind);
            assert_eq!(error.map(|error| error.kind()), wanted);
        }
    }
}

#[test]
fn a_file_that_was_cut_behind_the_volumes_back_is_refused() {
    let device: Arc<dyn Device> = Arc::new(ram(0));
    let members = members(2, 1 << 20);
    let options = StripeOptions::default();
    drop(StripedVolume::create(Arc::clone(&device), &members, options.clone()).unwrap());
    drop(StripedVolume::open(Arc::clone(&device), &members, options.clone()).unwrap());
    let file = device
        .open(&members[1].path, outcore_io::drive::Access::Update)
        .unwrap();
    device.set_len(file, 4096).unwrap();
    let error = StripedVolume::open(device, &members, options)
        .err()
        .unwrap();
    assert_eq!(error.kind(), outcore_io::Kind::Corrupt);
    assert_eq!(error.drive_name(), Some("/drive1"));
}
