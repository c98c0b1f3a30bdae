//! Slots, marks and slow drives: which requests wait for which.
//!
//! Contract: times are those of the in-memory drives' virtual clock, so the figures are the same in
//! every run. Source of the marks: Falcon (ATC 2017), section 3.3.

use std::path::Path;
use std::time::Duration;

use outcore_io::config::DriveSet;
use outcore_store::dataset::drives_of;
use outcore_store::striped::BackPressure;

use super::*;

const STRIPE_BYTES: u64 = 64 << 10;

/// Stripes of the volume on one drive.
fn stripes_on(volume: &StripedVolume, drive_index: usize) -> Vec<u64> {
    let mut found = Vec::new();
    let mut stripe = 0;
    volume
        .map()
        .split(0, volume.len_bytes() as usize, usize::MAX, |piece| {
            if piece.drive_index == drive_index {
                found.push(stripe);
            }
            stripe += 1;
        });
    found
}

/// Eight streams of random 4 KiB reads from one thread, each on a drive of its own with `depth` in
/// flight, for `span_ns` of virtual time; returns the requests done per drive.
fn run_streams(volume: &StripedVolume, depth: usize, span_ns: u64) -> (Vec<u64>, Submitter) {
    let drives = volume.drives().len();
    let stripes: Vec<Vec<u64>> = (0..drives).map(|drive| stripes_on(volume, drive)).collect();
    let pool = pool(4096, depth * drives);
    let mut submitter = volume.submitter().unwrap();
    let mut counts = vec![0; drives];
    let mut issued = 0;
    let mut next = |drive: usize| {
        issued += 1;
        let stripe = stripes[drive][(random(3, issued) % stripes[drive].len() as u64) as usize];
        let block = random(4, issued) % (STRIPE_BYTES / 4096);
        request(
            &pool,
            Op::Read,
            stripe * STRIPE_BYTES + block * 4096,
            4096,
            drive as u64,
        )
    };
    let device = Arc::clone(volume.device());
    let end_ns = device.now_ns() + span_ns;
    let mut batch: Vec<VolumeRequest> = Vec::new();
    for _ in 0..depth {
        batch.extend((0..drives).map(&mut next));
    }
    let mut done = Vec::new();
    while device.now_ns() < end_ns {
        submitter.submit(&mut batch);
        submitter
            .poll(Some(Duration::from_millis(1)), &mut done)
            .unwrap();
        for completion in done.drain(..) {
            let drive = completion.token as usize;
            counts[drive] += 1;
            drop(completion);
            batch.push(next(drive));
        }
    }
    (counts, submitter)
}

#[test]
fn a_drive_ten_times_slower_holds_up_none_of_the_others() {
    let span_ns = 200_000_000;
    let run = |slow: bool| {
        let ram = ram(0);
        let volume = volume(ram.clone(), &members(8, 4 << 20), StripeOptions::default());
        if slow {
            ram.slow_down("/drive3", 10);
        }
        let (counts, submitter) = run_streams(&volume, 30, span_ns);
        let stack: Vec<u64> = submitter
            .meters()
            .map(|m| m.stack.percentile_ns(99.0))
            .collect();
        (counts, stack)
    };
    let (even, _) = run(false);
    let (uneven, stack) = run(true);
    println!("requests: {even:?} and {uneven:?}; stack latency, 99 %: {stack:?} ns");
    assert!(uneven[3] * 5 < even[3]);
    for drive in (0..8).filter(|drive| *drive != 3) {
        assert!(
            uneven[drive] as f64 > 0.95 * even[drive] as f64,
            "{even:?} {uneven:?}"
        );
        assert!(stack[drive] < 1_000_000, "{stack:?}");
    }
}

#[test]
fn equal_drives_wait_equally_long() {
    let volume = volume(ram(0), &members(8, 4 << 20), StripeOptions::default());
    let (_, submitter) = run_streams(&volume, 31, 100_000_000);
    let resources: Vec<u64> = submitter
        .meters()
        .map(|meter| meter.stack.mean_ns() + meter.device.mean_ns())
        .collect();
    let (least, most) = (
        resources.iter().min().unwrap(),
        resources.iter().max().unwrap(),
    );
    assert!(*most as f64 <= 1.5 * *least as f64, "{resources:?}");
}

#[test]
fn a_drive_at_its_mark_blocks_its_own_requests_alone_and_goes_on_at_the_low_one() {
    let options = StripeOptions {
        drive_pressure: BackPressure { high: 8, low: 4 },
        ..StripeOptions::default()
    };
    let volume = volume(ram(0), &members(2, 4 << 20), options);
    let pool = pool(4096, 64);
    let mut submitter = volume.submitter().unwrap();
    // Even stripes are on drive 0, odd ones on drive 1.
    let on = |drive: u64, i: u64| (2 * i + drive) * STRIPE_BYTES;
    let mut batch: Vec<_> = (0..12)
        .map(|i| request(&pool, Op::Write, on(0, i), 4096, i))
        .collect();
    batch.push(request(&pool, Op::Write, on(1, 0), 4096, 99));
    let accepted = submitter.submit(&mut batch);
    assert_eq!((accepted.taken, accepted.refused), (9, 4));
    let tokens: Vec<u64> = batch.iter().map(|request| request.token).collect();
    assert_eq!(tokens, [8, 9, 10, 11]);
    assert!(submitter.would_block(0) && !submitter.would_block(1));
    let mut done = Vec::new();
    while submitter.pending(0) > 4 {
        assert!(submitter.would_block(0));
        submitter
            .poll(Some(Duration::from_millis(1)), &mut done)
            .unwrap();
    }
    assert!(!submitter.would_block(0));
    assert_eq!(submitter.submit(&mut batch).refused, 0);
    submitter.drain(&mut done).unwrap();
    assert_eq!(done.len(), 13);
}

#[test]
fn pieces_that_become_one_transfer_count_once() {
    let options = StripeOptions {
        stripe_bytes: 4096,
        drive_pressure: BackPressure { high: 8, low: 4 },
        volume_pressure: Some(BackPressure { high: 100, low: 50 }),
        ..StripeOptions::default()
    };
    // Each request touches both drives; 64 of them are one transfer of 512 KiB on each.
    let volume = volume(ram(0), &members(2, 4 << 20), options);
    let pool = pool(16_384, 64);
    let mut submitter = volume.submitter().unwrap();
    let mut batch: Vec<_> = (0..64)
        .map(|i| request(&pool, Op::Read, i * 16_384, 16_384, i))
        .collect();
    assert_eq!(submitter.submit(&mut batch).taken, 64);
    assert_eq!((submitter.pending(0), submitter.pending(1)), (1, 1));
    let mut done = Vec::new();
    submitter.drain(&mut done).unwrap();
    let transfers: u64 = submitter.meters().map(|meter| meter.transfers).sum();
    assert_eq!(transfers, 2);
    assert_eq!((done.len(), submitter.pending(0)), (64, 0));
}

#[test]
fn the_volume_as_a_whole_has_marks_too() {
    let options = StripeOptions {
        volume_pressure: Some(BackPressure { high: 6, low: 2 }),
        ..StripeOptions::default()
    };
    let volume = volume(ram(0), &members(4, 4 << 20), options);
    let pool = pool(4096, 16);
    let mut submitter = volume.submitter().unwrap();
    let mut batch: Vec<_> = (0..10)
        .map(|i| request(&pool, Op::Write, i * STRIPE_BYTES, 4096, i))
        .collect();
    assert_eq!(submitter.submit(&mut batch).taken, 6);
    let mut done = Vec::new();
    while submitter.in_flight() > 2 {
        assert_eq!(submitter.submit(&mut batch).taken, 0);
        submitter
            .poll(Some(Duration::from_millis(1)), &mut done)
            .unwrap();
    }
    assert_eq!(submitter.submit(&mut batch).taken, 4);
    submitter.drain(&mut done).unwrap();
}

#[test]
fn no_drive_has_more_in_flight_than_its_slots_or_those_of_its_controller() {
    for (tags, controller) in [(5, None), (32, Some(9))] {
        let members: Vec<Member> = members(4, 4 << 20)
            .into_iter()
            .map(|member| Member {
                tags: Some(tags),
                controller: controller.map(|tags| ("switch".to_string(), tags)),
                ..member
            })
            .collect();
        let volume = volume(ram(0), &members, StripeOptions::default());
        let (counts, submitter) = run_streams(&volume, 20, 20_000_000);
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        let limit = controller.unwrap_or(tags);
        for meter in submitter.meters() {
            assert!(meter.depth_max <= limit, "{} of {limit}", meter.depth_max);
        }
        // One controller's slots rotate among its drives, so none starves.
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*most as f64 <= 1.5 * *least as f64, "{counts:?}");
        if let Some(controller) = &volume.drives()[0].controller_tags {
            assert!(controller.taken() <= 9);
        }
    }
}

#[test]
fn a_group_of_a_drives_file_with_a_depth_is_a_pool_of_so_many_slots() {
    let text = r#"
        [[drive]]
        dir = "/a"
        group = "switch"
        [[drive]]
        dir = "/b"
        group = "switch"
        [[drive]]
        dir = "/c"
        group = "backplane"
        [[drive]]
        dir = "/d"
        [[group]]
        name = "switch"
        depth = 48
        [[group]]
        name = "backplane"
        read_bandwidth = "12GB/s"
    "#;
    let set = DriveSet::parse(text, Path::new("drives.toml")).unwrap();
    let controllers: Vec<_> = drives_of(&set).into_iter().map(|d| d.controller).collect();
    let switch = Some(("switch".to_string(), 48));
    assert_eq!(controllers, [switch.clone(), switch, None, None]);
}

#[test]
fn two_submitters_share_a_drives_slots_and_both_get_on() {
    let members: Vec<Member> = members(1, 4 << 20)
        .into_iter()
        .map(|member| Member {
            tags: Some(2),
            ..member
        })
        .collect();
    let volume = volume(ram(0), &members, StripeOptions::default());
    let pool = pool(4096, 64);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (volume, pool) = (&volume, &pool);
            scope.spawn(move || {
                let mut submitter = volume.submitter().unwrap();
                for round in 0..20 {
                    let batch = (0..16).map(|i| {
                        let block = random(thread, round * 16 + i) % 1024;
                        request(pool, Op::Write, block * 4096, 4096, i)
                    });
                    assert_eq!(run(&mut submitter, batch.collect()).len(), 16);
                }
            });
        }
    });
    assert_eq!(volume.drives()[0].tags.taken(), 0);
}
