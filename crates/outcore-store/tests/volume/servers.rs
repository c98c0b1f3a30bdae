//! Server threads of a volume: the same bytes and faults as without, one queue for all submitters,
//! no unnecessary thread, and no leftovers.
//!
//! Contract: a gate is a hook that holds a transfer until the test opens it. It forces servers and
//! submitters to work at the same time. No test depends on timing.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use outcore_io::drive::Completion;
use outcore_store::striped::{BackPressure, Servers};
use proptest::prelude::*;
use rustix::io::Errno;

use super::devices::HookDevice;
use super::*;

const BLOCK: u64 = 4096;
const MOMENT: Duration = Duration::from_millis(1);

/// Transfers of each drive in flight now, and the most there were.
type Flying = Arc<Mutex<HashMap<PathBuf, (usize, usize)>>>;

/// Servers above `low` requests.
fn served(servers: Servers, low: usize) -> StripeOptions {
    StripeOptions {
        servers,
        volume_pressure: Some(BackPressure { high: 256, low }),
        ..StripeOptions::default()
    }
}

/// Lets no transfer through until it is open, and reports when one has arrived.
#[derive(Default)]
struct Gate {
    /// Whether a transfer has arrived, and whether the gate is open.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.1).unwrap());
    }

    fn wait_for_somebody(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.0).unwrap());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// In-memory drives whose finished transfers pass a gate.
fn gated(gate: &Arc<Gate>) -> HookDevice {
    let gate = Arc::clone(gate);
    HookDevice::new(Arc::new(ram(0)), move |_, _: &mut Completion| gate.pass())
}

fn filled(pool: &Pool, offset_bytes: u64, len_bytes: usize, value: u8) -> VolumeRequest {
    let mut request = request(pool, Op::Write, offset_bytes, len_bytes, u64::from(value));
    request.buf.fill(value);
    request
}

fn transfers(submitters: &[&Submitter]) -> u64 {
    let of = |submitter: &&Submitter| submitter.meters().map(|meter| meter.transfers).sum::<u64>();
    submitters.iter().map(of).sum()
}

#[test]
fn neighbours_of_two_submitters_become_one_transfer_in_a_server() {
    for (servers, wanted) in [(Servers::Always(1), 2), (Servers::Never, 33)] {
        let gate = Arc::new(Gate::default());
        let volume = volume(gated(&gate), &members(1, 1 << 20), served(servers, 0));
        let pool = pool(4096, 64);
        let (mut one, mut other) = (volume.submitter().unwrap(), volume.submitter().unwrap());
        let mut done = Vec::new();
        // Delays the server, so that it finds the lists of both submitters at its next check.
        one.submit(&mut vec![filled(&pool, 200 * BLOCK, 4096, 99)]);
        if servers == Servers::Never {
            gate.open();
        }
        if servers == Servers::Always(1) {
            gate.wait_for_somebody();
        }
        for (submitter, first) in [(&mut one, 0), (&mut other, 1)] {
            let blocks = (first..32).step_by(2);
            let mut batch = blocks
                .map(|block| filled(&pool, block * BLOCK, 4096, block as u8))
                .collect();
            assert_eq!(submitter.submit(&mut batch).refused, 0);
        }
        gate.open();
        one.drain(&mut done).unwrap();
        assert_eq!(done.len(), 17, "a submitter gets its own");
        other.drain(&mut done).unwrap();
        assert_eq!(done.len(), 33);
        assert_eq!(transfers(&[&one, &other]), wanted);
        drop(done);
        for block in 0..32 {
            let read = request(&pool, Op::Read, block * BLOCK, 4096, 0);
            let done = run(&mut other, vec![read]);
            assert!(done[0].buf.iter().all(|byte| *byte == block as u8));
        }
    }
}

#[test]
fn up_to_the_low_mark_no_thread_is_started_and_none_is_woken() {
    let options = StripeOptions {
        servers: Servers::Always(8),
        ..StripeOptions::default()
    };
    // 16 requests per drive.
    let volume = volume(ram(0), &members(2, 4 << 20), options);
    let pool = pool(4096, 64);
    let mut submitter = volume.submitter().unwrap();
    let batch = |len: u64| -> Vec<VolumeRequest> {
        let requests = (0..len).map(|i| request(&pool, Op::Write, 3 * i * BLOCK, 4096, i));
        requests.collect()
    };
    assert_eq!(run(&mut submitter, batch(32)).len(), 32);
    assert_eq!((volume.server_threads(), submitter.handed_over()), (0, 0));
    assert_eq!(run(&mut submitter, batch(33)).len(), 33);
    assert_eq!((volume.server_threads(), submitter.handed_over()), (2, 33));
    for _ in 0..20 {
        assert_eq!(run(&mut submitter, batch(1)).len(), 1);
    }
    assert_eq!(submitter.handed_over(), 33, "depth 1 wakes nobody");
}

#[test]
fn whoever_serves_never_means_no_thread() {
    for servers in [Servers::Never, Servers::Auto] {
        // Without a processor clock it is unknown whether a submitter is the bottleneck.
        let volume = volume(ram(0), &members(2, 4 << 20), served(servers, 0));
        let pool = pool(4096, 128);
        let mut submitter = volume.submitter().unwrap();
        for _ in 0..10 {
            let batch = (0..100).map(|i| request(&pool, Op::Read, i * BLOCK, 4096, i));
            run(&mut submitter, batch.collect());
        }
        assert_eq!((volume.server_threads(), submitter.handed_over()), (0, 0));
    }
}

#[test]
fn writes_over_the_same_bytes_keep_their_order_when_it_changes_who_serves() {
    let volume = volume(ram(0), &members(2, 4 << 20), served(Servers::Always(2), 4));
    let pool = pool(4096, 64);
    let mut submitter = volume.submitter().unwrap();
    let mut done = Vec::new();
    let mut value = 0;
    let mut batch_of = |len: u8| -> Vec<VolumeRequest> {
        value += len;
        (value - len..value)
            .map(|value| filled(&pool, 0, 4096, value + 1))
            .collect()
    };
    for _ in 0..3 {
        // First alone, then by servers, while its own requests are in flight.
        for len in [3, 12] {
            submitter.submit_all(&mut batch_of(len), &mut done).unwrap();
        }
        // Alone again, while servers may still have pieces.
        while submitter.in_flight() > 2 {
            submitter.poll(Some(MOMENT), &mut done).unwrap();
        }
        submitter.submit_all(&mut batch_of(2), &mut done).unwrap();
    }
    submitter.drain(&mut done).unwrap();
    assert_eq!(done.len(), 51);
    let order: Vec<u64> = done.iter().map(|completion| completion.token).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert!(submitter.handed_over() >= 36);
    drop(done);
    let read = run(&mut submitter, vec![request(&pool, Op::Read, 0, 4096, 0)]);
    assert_eq!(read[0].buf[4095], 51);
}

#[test]
fn one_drives_faults_are_those_of_its_requests_when_servers_carry_all() {
    let device = HookDevice::new(Arc::new(ram(0)), |path, completion| {
        let start = completion.request.offset_bytes;
        let end = start + completion.request.buf.len() as u64;
        let is_bad = path.starts_with("/drive1") && start <= 5 * BLOCK && 5 * BLOCK < end;
        if is_bad || path.starts_with("/drive2") {
            completion.result = Err(Errno::IO.raw_os_error());
        }
    });
    let options = StripeOptions {
        stripe_bytes: BLOCK,
        ..served(Servers::Always(2), 0)
    };
    let volume = volume(device, &members(4, 4 << 20), options);
    let pool = pool(4096, 64);
    let mut submitter = volume.submitter().unwrap();
    let batch = (0..64).map(|i| request(&pool, Op::Write, i * BLOCK, 4096, i));
    let done = run(&mut submitter, batch.collect());
    assert_eq!(done.len(), 64);
    for completion in done {
        let is_bad = completion.token % 4 == 2 || completion.token == 4 * 5 + 1;
        assert_eq!(completion.fault.is_some(), is_bad, "{}", completion.token);
        if let Some(fault) = completion.fault {
            assert_eq!(fault.drive_index as u64, completion.token % 4);
        }
    }
}

#[test]
fn a_server_that_dies_fails_polls_and_hangs_nobody() {
    let device = HookDevice::new(Arc::new(ram(0)), |_, completion| {
        assert_eq!(completion.request.op, Op::Read, "a write kills the server");
    });
    let volume = volume(device, &members(2, 4 << 20), served(Servers::Always(2), 0));
    let pool = pool(4096, 64);
    let (mut one, mut other) = (volume.submitter().unwrap(), volume.submitter().unwrap());
    let mut done = Vec::new();
    let mut reads = vec![request(&pool, Op::Read, 0, 4096, 1)];
    other.submit_all(&mut reads, &mut done).unwrap();
    other.drain(&mut done).unwrap();
    one.submit(&mut vec![filled(&pool, 0, 4096, 1)]);
    let error = one.drain(&mut done).unwrap_err();
    assert_eq!(error.kind(), outcore_io::Kind::Io);
    assert!(error.to_string().contains("server thread"), "{error}");
    assert_eq!(done.len(), 1);
}

#[test]
fn a_submitter_that_is_dropped_leaves_undone_what_has_not_started_and_keeps_no_memory() {
    let members: Vec<Member> = members(1, 4 << 20)
        .into_iter()
        .map(|member| Member {
            tags: Some(1),
            ..member
        })
        .collect();
    let ram = ram(0);
    let volume = volume(ram.clone(), &members, served(Servers::Never, 0));
    let pool = pool(4096, 16);
    let mut submitter = volume.submitter().unwrap();
    let batch = (0..16).map(|i| filled(&pool, 3 * i * BLOCK, 4096, 7));
    assert_eq!(submitter.submit(&mut batch.collect()).taken, 16);
    drop(submitter);
    assert_eq!(pool.free_slots(), 16);
    let bytes = ram.get("/drive0/volume").unwrap();
    let written: Vec<bool> = (0..16).map(|i| bytes[3 * i * 4096] == 7).collect();
    assert_eq!(written.iter().filter(|is_written| **is_written).count(), 1);
}

#[test]
fn servers_give_back_the_memory_of_who_leaves_and_end_with_the_volume() {
    let gate = Arc::new(Gate::default());
    let device: Arc<dyn Device> = Arc::new(gated(&gate));
    let options = served(Servers::Always(3), 0);
    let volume = StripedVolume::create(Arc::clone(&device), &members(3, 4 << 20), options).unwrap();
    let pool = pool(4096, 64);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (volume, pool, gate) = (&volume, &pool, &gate);
            scope.spawn(move || {
                let mut submitter = volume.submitter().unwrap();
                let stripes = (0..32).map(|i| (64 * i + 3 * thread) * BLOCK);
                let batch = stripes.map(|at| filled(pool, at, 4096, 1));
                assert_eq!(submitter.submit(&mut batch.collect()).taken, 32);
                assert_eq!(submitter.in_flight(), 32);
                // Dropped while the gate holds started transfers, or soon after.
                gate.wait_for_somebody();
            });
        }
        gate.wait_for_somebody();
        gate.open();
    });
    assert_eq!((pool.free_slots(), volume.server_threads()), (64, 3));
    drop(volume);
    assert_eq!(Arc::strong_count(&device), 1, "no thread holds it");
}

#[test]
fn no_drive_has_more_in_flight_than_its_slots_whoever_serves() {
    for (tags, group) in [(3, None), (32, Some(5))] {
        let flying = Flying::default();
        let count = |flying: &Flying, group: bool| {
            let flying = Arc::clone(flying);
            move |path: &std::path::Path, change: isize| {
                let name = if group {
                    "all".into()
                } else {
                    path.to_path_buf()
                };
                let mut flying = flying.lock().unwrap();
                let (at_once, most) = flying.entry(name).or_default();
                *at_once = at_once.checked_add_signed(change).unwrap();
                *most = (*most).max(*at_once);
            }
        };
        let (starts, ends) = (
            count(&flying, group.is_some()),
            count(&flying, group.is_some()),
        );
        let device = HookDevice::with_starts(
            Arc::new(ram(0)),
            move |path, _| starts(path, 1),
            move |path, _| ends(path, -1),
        );
        let members: Vec<Member> = members(4, 4 << 20)
            .into_iter()
            .map(|member| Member {
                tags: Some(tags),
                controller: group.map(|tags| ("switch".to_string(), tags)),
                ..member
            })
            .collect();
        let volume = volume(device, &members, served(Servers::Always(2), 8));
        let pool = pool(4096, 256);
        std::thread::scope(|scope| {
            // One of the three submitters never exceeds the low mark.
            for (thread, len) in [(0, 8), (1, 48), (2, 64)] {
                let (volume, pool) = (&volume, &pool);
                scope.spawn(move || {
                    let mut submitter = volume.submitter().unwrap();
                    for round in 0..20 {
                        let batch = (0..len).map(|i| {
                            let block = random(thread, round * len + i) % 4096;
                            request(pool, Op::Write, block * BLOCK, 4096, i)
                        });
                        assert_eq!(run(&mut submitter, batch.collect()).len(), len as usize);
                    }
                    assert_eq!(submitter.handed_over() > 0, thread > 0);
                });
            }
        });
        let limit = group.unwrap_or(tags);
        for (drive, (at_once, most)) in flying.lock().unwrap().iter() {
            assert_eq!(*at_once, 0);
            assert!(*most <= limit, "{most} of {limit} on {}", drive.display());
        }
        assert!(volume.drives().iter().all(|drive| drive.tags.taken() == 0));
    }
}

/// One of several submitters: random reads and writes of its own places, which are interleaved with
/// those of the others. It never waits for requests in flight. The result must equal that of the
/// same requests done one after another.
fn check_stream(volume: &StripedVolume, (stream, streams): (u64, u64), seed: u64) {
    const PLACE: u64 = 8 * BLOCK;
    let pool = pool(PLACE as usize, 320);
    let seed = seed ^ stream;
    let places = volume.len_bytes() / PLACE / streams;
    let mut model: Vec<Vec<u8>> = vec![vec![0; PLACE as usize]; places as usize];
    let mut wanted = HashMap::new();
    let mut submitter = volume.submitter().unwrap();
    let mut done = Vec::new();
    let mut number = 0;
    let check = |done: &mut Vec<VolumeCompletion>, wanted: &mut HashMap<u64, Vec<u8>>| {
        for completion in done.drain(..) {
            assert!(completion.fault.is_none(), "{:?}", completion.fault);
            if let Some(wanted) = wanted.remove(&completion.token) {
                assert!(completion.buf[..] == wanted[..], "{}", completion.token);
            }
        }
    };
    for round in 0..24 {
        let mut batch = Vec::new();
        for _ in 0..random(seed, round) % 40 + 1 {
            number += 1;
            let place = random(seed ^ 1, number) % places;
            let first = random(seed ^ 2, number) % 8;
            let len = random(seed ^ 3, number) % (8 - first) + 1;
            let op = match random(seed ^ 4, number).is_multiple_of(3) {
                true => Op::Read,
                false => Op::Write,
            };
            let at_bytes = (place * streams + stream) * PLACE + first * BLOCK;
            let mut request = request(&pool, op, at_bytes, (len * BLOCK) as usize, number);
            let bytes = &mut model[place as usize];
            let bytes = &mut bytes[(first * BLOCK) as usize..][..(len * BLOCK) as usize];
            match op {
                Op::Read => _ = wanted.insert(number, bytes.to_vec()),
                Op::Write => {
                    request.buf.fill(number as u8);
                    bytes.fill(number as u8);
                }
            }
            batch.push(request);
        }
        submitter.submit_all(&mut batch, &mut done).unwrap();
        if random(seed ^ 5, round).is_multiple_of(4) {
            submitter.drain(&mut done).unwrap();
        }
        submitter.poll(None, &mut done).unwrap();
        check(&mut done, &mut wanted);
    }
    submitter.drain(&mut done).unwrap();
    check(&mut done, &mut wanted);
    assert!(wanted.is_empty());
    for (place, bytes) in model.into_iter().enumerate() {
        let at_bytes = (place as u64 * streams + stream) * PLACE;
        let read = request(&pool, Op::Read, at_bytes, PLACE as usize, 0);
        assert!(run(&mut submitter, vec![read])[0].buf[..] == bytes[..]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any number of submitters, drives, servers and slots, and any low mark: each submitter
    /// sees its requests as if done one after another, although they overlap and the serving side
    /// changes.
    #[test]
    fn several_submitters_read_what_they_wrote_whoever_serves(
        drives in 1usize..6, streams in 1u64..4, threads in 0usize..4, low in 0usize..60,
        shift in 12u32..16, tags in 1usize..20, group in proptest::option::of(1usize..20), seed: u64,
    ) {
        let members: Vec<Member> = members(drives, 1 << 20)
            .into_iter()
            .map(|member| Member {
                tags: Some(tags),
                controller: group.map(|tags| ("switch".to_string(), tags)),
                ..member
            })
            .collect();
        let servers = match threads {
            0 => Servers::Never,
            threads => Servers::Always(threads),
        };
        // Later requests overtake those that a full drive blocks, so no drive is ever full here.
        let options = StripeOptions {
            stripe_bytes: 1 << shift,
            drive_pressure: BackPressure { high: 1 << 20, low: 1 },
            ..served(servers, low)
        };
        let ram = RamDevice::new(RamOptions { seed, ..RamOptions::default() });
        let volume = volume(ram, &members, options);
        std::thread::scope(|scope| {
            for stream in 0..streams {
                let volume = &volume;
                scope.spawn(move || check_stream(volume, (stream, streams), seed));
            }
        });
        prop_assert!(volume.drives().iter().all(|drive| drive.tags.taken() == 0));
    }
}
