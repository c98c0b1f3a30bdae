//! Bytes of a raw volume: reads return what was written, in any pattern, over any layout, and on
//! real files.
//!
//! Contract: an array of bytes is the oracle; the numbers of transfers are exact, because merging
//! is deterministic.

use outcore_io::config::IoMode;
use outcore_io::drive::late::Engine;
use outcore_io::drive::os::OsDevice;
use outcore_store::striped::{BackPressure, Servers};
use proptest::prelude::*;

use super::*;

/// Submissions of all drives.
fn transfers(submitter: &Submitter) -> u64 {
    submitter.meters().map(|meter| meter.transfers).sum()
}

#[test]
fn sequential_requests_over_small_stripes_become_transfers_of_the_cap() {
    for (cap_kib, wanted) in [(64, 64), (128, 32), (256, 16), (512, 8)] {
        let options = StripeOptions {
            stripe_bytes: 4096,
            merge_bytes_max: Some(cap_kib << 10),
            ..StripeOptions::default()
        };
        for op in [Op::Write, Op::Read] {
            let volume = volume(ram(0), &members(8, 1 << 20), options.clone());
            let pool = pool(64 << 10, 64);
            let mut submitter = volume.submitter().unwrap();
            let batch = (0..64).map(|i| request(&pool, op, i * (64 << 10), 64 << 10, i));
            let done = run(&mut submitter, batch.collect());
            assert_eq!(done.len(), 64);
            assert!(done.iter().all(|completion| completion.fault.is_none()));
            assert_eq!(transfers(&submitter), wanted, "cap of {cap_kib} KiB");
        }
    }
}

#[test]
fn without_merging_each_stripe_is_a_transfer() {
    let options = StripeOptions {
        stripe_bytes: 4096,
        is_merging: false,
        ..StripeOptions::default()
    };
    let volume = volume(ram(0), &members(8, 1 << 20), options);
    let pool = pool(64 << 10, 64);
    let mut submitter = volume.submitter().unwrap();
    let batch = (0..64).map(|i| request(&pool, Op::Write, i * (64 << 10), 64 << 10, i));
    run(&mut submitter, batch.collect());
    assert_eq!(transfers(&submitter), 1024);
}

#[test]
fn requests_of_several_streams_are_merged_with_each_other() {
    let options = StripeOptions::default();
    let volume = volume(ram(0), &members(1, 1 << 20), options);
    let pool = pool(4096, 32);
    let mut submitter = volume.submitter().unwrap();
    // Two alternating streams, each skipping what the other writes, from back to front.
    let batch = (0..32)
        .rev()
        .map(|i| request(&pool, Op::Write, i * 4096, 4096, i));
    run(&mut submitter, batch.collect());
    assert_eq!(transfers(&submitter), 1);
}

#[test]
fn a_request_outside_the_volume_or_not_aligned_is_refused_alone() {
    let volume = volume(ram(0), &members(2, 1 << 20), StripeOptions::default());
    let pool = pool(8192, 8);
    let mut submitter = volume.submitter().unwrap();
    let batch = vec![
        request(&pool, Op::Write, 0, 8192, 1),
        request(&pool, Op::Write, 2 << 20, 4096, 2),
        request(&pool, Op::Read, (2 << 20) - 4096, 8192, 3),
        request(&pool, Op::Read, 100, 4096, 4),
        request(&pool, Op::Read, u64::MAX - 511, 4096, 5),
        request(&pool, Op::Read, 512, 512, 6),
    ];
    let mut done = run(&mut submitter, batch);
    done.sort_by_key(|completion| completion.token);
    let failed: Vec<bool> = done.iter().map(|c| c.fault.is_some()).collect();
    assert_eq!(failed, [false, true, true, true, true, false]);
    let error = volume.explain(&done[1].fault.unwrap());
    assert!(error.to_string().contains("Invalid argument"), "{error}");
}

#[test]
fn real_files_hold_what_was_written_through_rings_and_threads() {
    let marks = BackPressure { high: 64, low: 0 };
    for engine in [Engine::Uring, Engine::Psync] {
        for (io, servers) in [
            (IoMode::Auto, Servers::Never),
            (IoMode::Auto, Servers::Always(2)),
            (IoMode::Buffered, Servers::Never),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let members: Vec<Member> = (0..3)
                .map(|drive| Member {
                    capacity_bytes: Some(1 << 20),
                    ..Member::new(dir.path().join(format!("drive{drive}")))
                })
                .collect();
            let options = StripeOptions {
                stripe_bytes: 4096,
                volume_pressure: Some(marks),
                servers,
                ..StripeOptions::default()
            };
            let device = OsDevice::with_engine(io, engine);
            check_pattern(&volume(device, &members, options), 40, 7);
        }
    }
}

/// Writes and reads random ranges in batches and compares with an array of bytes. Ranges of a batch
/// may overlap; the later write wins.
fn check_pattern(volume: &StripedVolume, batches: u64, seed: u64) {
    const LEN_BYTES_MAX: usize = 96 << 10;
    // Two kinds of memory, known to the ring in advance or not; merged transfers mix both.
    let pools = [pool(LEN_BYTES_MAX, 16), pool(LEN_BYTES_MAX, 16)];
    let mut oracle = vec![0u8; volume.len_bytes() as usize];
    let mut submitter = volume.submitter().unwrap();
    submitter.keep(&pools[0]);
    let blocks = volume.len_bytes() / 4096;
    let range = |number: u64| {
        let at = random(seed, number) % blocks;
        let len = random(seed ^ 1, number) % (LEN_BYTES_MAX as u64 / 4096);
        let len = (len + 1).min(blocks - at);
        ((at * 4096) as usize, (len * 4096) as usize)
    };
    for batch in 0..batches {
        let op = if random(seed ^ 2, batch).is_multiple_of(3) {
            Op::Read
        } else {
            Op::Write
        };
        let mut requests = Vec::new();
        for slot in 0..16 {
            let number = batch * 16 + slot;
            let (at, len) = range(number);
            let pool = &pools[(random(seed ^ 4, number) % 2) as usize];
            let mut request = request(pool, op, at as u64, len, number);
            if random(seed ^ 3, number).is_multiple_of(4) {
                request.class = Class::Background;
            }
            if op == Op::Write {
                for (index, byte) in request.buf.iter_mut().enumerate() {
                    *byte = (number as usize + index / 512) as u8;
                }
                oracle[at..at + len].copy_from_slice(&request.buf);
            }
            requests.push(request);
        }
        for completion in run(&mut submitter, requests) {
            assert!(completion.fault.is_none(), "{:?}", completion.fault);
            let (at, len) = range(completion.token);
            assert_eq!(
                (completion.offset_bytes as usize, completion.buf.len()),
                (at, len)
            );
            if op == Op::Read {
                assert!(
                    completion.buf[..] == oracle[at..at + len],
                    "at {at}, seed {seed}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any number of drives of any size and weight, with transfers cut short anywhere.
    #[test]
    fn what_was_written_last_is_read(
        capacities in proptest::collection::vec((4u64..200, 0.2f64..4.0), 1..12),
        shift in 12u32..17, start_drive: usize, seed: u64, tags in 1usize..40, cap in 12u32..20,
    ) {
        let members: Vec<Member> = members(capacities.len(), 0)
            .into_iter()
            .zip(&capacities)
            .map(|(member, (blocks, weight))| Member {
                capacity_bytes: Some(blocks * 4096),
                weight: *weight,
                tags: Some(tags),
                ..member
            })
            .collect();
        let options = StripeOptions {
            stripe_bytes: 1 << shift,
            start_drive,
            merge_bytes_max: Some(1 << cap),
            ..StripeOptions::default()
        };
        let device = Arc::new(RamDevice::new(RamOptions { seed, ..RamOptions::default() }));
        let made = StripedVolume::create(device, &members, options);
        prop_assume!(made.is_ok());
        check_pattern(&made.unwrap(), 12, seed);
    }
}
