//! outcore's own I/O trace: the documented bytes, truncation, order, and replay with dependencies.
//!
//! The byte fixture is the example of `docs/formats/io-trace.md`, typed by hand. The replay is
//! compared with simulated threads whose waiting and computing times are known.
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::Path;

use outcore::Kind;
use outcore_traces::io_trace::{
    DriveInfo, Entry, Header, IoOp, Reader, Record, SubmissionOrder, ThreadClock, Writer,
};
use outcore_traces::replay_plan::DependentLoop;
use outcore_traces::{Format, OnError, Op, ReadOptions, Reason, TraceReader};
use proptest::prelude::*;

/// The example of `docs/formats/io-trace.md`, typed by hand.
fn documented_bytes() -> Vec<u8> {
    let json = br#"{"format":"outcore-io-trace","program":"example","drives":[{"name":"d0"}]}"#;
    let mut bytes = b"\x89OCIO\r\n\x1a\x01\x00\x40\x00\x70\x00\x00\x00".to_vec();
    bytes.extend(json);
    bytes.resize(16 + 112 - 1, b' ');
    bytes.push(b'\n');
    let records = "
        00 00 00 00 00 00 00 00  00 20 00 00 00 00 00 00
        e8 03 00 00 00 00 00 00  38 c7 00 00 00 00 00 00
        e8 03 00 00 00 00 00 00  e8 03 00 00 00 00 00 00
        00 00 00 00 00 10 00 00  03 00 00 00 00 00 00 01
        01 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
        2c c9 00 00 00 00 00 00  80 f0 fa 02 00 00 00 00
        f4 01 00 00 00 00 00 00  f4 01 00 00 00 00 00 00
        00 00 00 00 00 02 00 00  04 00 00 00 00 00 00 02
        02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
        80 f0 fa 02 00 00 00 00  00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00
        00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 0f";
    bytes.extend(
        records
            .split_whitespace()
            .map(|hex| u8::from_str_radix(hex, 16).unwrap()),
    );
    bytes
}

fn documented_records() -> [Record; 2] {
    let first = Record {
        thread: 0,
        drive: 0,
        file: 3,
        op: IoOp::Read,
        is_failed: false,
        offset_bytes: 8192,
        len_bytes: 4096,
        submit_ns: 1_000,
        complete_ns: 51_000,
        reaped: 0,
        outstanding: 0,
        think_ns: 1_000,
        busy_ns: 1_000,
    };
    let second = Record {
        file: 4,
        op: IoOp::Write,
        offset_bytes: 0,
        len_bytes: 512,
        submit_ns: 51_500,
        complete_ns: 50_000_000,
        reaped: 1,
        think_ns: 500,
        busy_ns: 500,
        ..first
    };
    [first, second]
}

fn read(bytes: &[u8]) -> outcore::Result<Vec<Entry>> {
    Reader::new(Cursor::new(bytes), "run.trace")?.collect()
}

#[test]
fn the_documented_bytes_are_read_and_written() {
    let bytes = documented_bytes();
    let mut reader = Reader::new(Cursor::new(&bytes), "run.trace").unwrap();
    assert_eq!(reader.header().program, "example");
    assert_eq!(reader.header().drives[0].name, "d0");
    assert!(!reader.is_complete());
    let entries: Vec<Entry> = reader.by_ref().map(Result::unwrap).collect();
    let [first, second] = documented_records();
    let end = Entry::End {
        time_ns: 50_000_000,
        requests: 2,
    };
    assert_eq!(
        entries,
        [Entry::Request(first), Entry::Request(second), end]
    );
    assert_eq!((reader.requests(), reader.end_ns()), (2, Some(50_000_000)));

    let drive = DriveInfo {
        name: "d0".into(),
        ..DriveInfo::default()
    };
    let mut writer = Writer::new(Vec::new(), &Header::new("example", vec![drive])).unwrap();
    writer.request(&first).unwrap();
    writer.request(&second).unwrap();
    assert_eq!(writer.finish(50_000_000).unwrap(), bytes);

    // The documented clock gives the documented dependencies.
    let mut clock = ThreadClock::default();
    let submission = clock.submitted(1_000);
    assert_eq!((submission.think_ns, submission.busy_ns), (1_000, 1_000));
    clock.blocked(1_000, 51_000);
    clock.reaped(51_000);
    let submission = clock.submitted(51_500);
    assert_eq!((submission.reaped, submission.outstanding), (1, 0));
    assert_eq!((submission.think_ns, submission.busy_ns), (500, 500));
}

#[test]
fn the_page_shows_the_bytes_that_are_tested() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/io-trace.md");
    let page = fs::read_to_string(page).unwrap();
    let hex: Vec<u8> = page
        .lines()
        .filter_map(|line| line.split("   ").next())
        .filter(|line| line.split_whitespace().count() == 16)
        .filter_map(|line| {
            line.split_whitespace()
                .map(|hex| u8::from_str_radix(hex, 16).ok())
                .collect::<Option<Vec<u8>>>()
        })
        .flatten()
        .collect();
    let bytes = documented_bytes();
    assert_eq!(hex[..16], bytes[..16]);
    assert_eq!(hex[16..], bytes[128..]);
}

#[test]
fn a_cut_file_says_how_many_whole_records_it_has() {
    let bytes = documented_bytes();
    for len in 129..bytes.len() {
        let mut reader = Reader::new(Cursor::new(&bytes[..len]), "run.trace").unwrap();
        let whole = (len - 128) / 64;
        let good = reader
            .by_ref()
            .take(whole)
            .filter(|entry| entry.is_ok())
            .count();
        assert_eq!(good, whole);
        match reader.next() {
            // A cut between records looks like a job that was stopped.
            None => assert!((len - 128).is_multiple_of(64) && !reader.is_complete()),
            Some(Ok(entry)) => panic!("{entry:?}"),
            Some(Err(error)) => {
                assert_eq!(error.kind(), Kind::Corrupt);
                let text = format!("after {whole} whole records");
                assert!(error.cause().contains(&text), "{error}");
                assert_eq!(error.offset_bytes(), Some((128 + whole * 64) as u64));
            }
        }
    }
    for len in 0..128 {
        assert!(
            Reader::new(Cursor::new(&bytes[..len]), "run.trace").is_err(),
            "{len}"
        );
    }
}

#[test]
fn damage_is_named_and_other_versions_are_refused() {
    let good = documented_bytes();
    let damaged = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        read(&bytes).unwrap_err().to_string()
    };
    assert!(damaged(0, 0x88).contains("not an outcore I/O trace"));
    assert!(damaged(8, 2).contains("version 2"));
    assert!(damaged(10, 80).contains("80 bytes"));
    assert!(damaged(15, 0xff).contains("not believable"));
    assert!(damaged(16, b'[').contains("not valid JSON"));
    assert!(damaged(16 + 11, b'X').contains("the header says"));
    // A hole of zeros, an unknown kind, a completion before the submission, a wrong count.
    assert!(damaged(128 + 63, 0).contains("record 1 is damaged: unknown operation"));
    assert!(damaged(128 + 63, 9).contains("unknown operation"));
    assert!(damaged(128 + 24 + 1, 0).contains("record 1 is damaged: bad time"));
    assert!(damaged(256, 3).contains("the end mark counts"));
    let mut longer = good.clone();
    longer.extend(&good[128..192]);
    assert!(
        read(&longer)
            .unwrap_err()
            .to_string()
            .contains("after the end mark")
    );
}

#[test]
fn a_trace_of_our_own_is_a_block_trace_too() {
    let mut bytes = documented_bytes();
    let options = ReadOptions::default();
    let open = |bytes: &[u8], options| {
        TraceReader::from_stream(Cursor::new(bytes.to_vec()), "run.trace", options).unwrap()
    };
    let mut reader = open(&bytes, &options);
    assert_eq!(reader.format(), Format::Outcore);
    let requests: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (requests[0].op, requests[0].device, requests[0].time_ns),
        (Op::Read, 3, 1_000)
    );
    assert_eq!((requests[1].op, requests[1].len_bytes), (Op::Write, 512));
    assert_eq!(reader.ignored(), 1);
    // A sync has no range, even if the record contains one (found by fuzzing).
    let mut sync = bytes.clone();
    sync[128 + 63] = 3;
    let request = open(&sync, &options).next().unwrap().unwrap();
    assert_eq!(
        (request.op, request.offset_bytes, request.len_bytes),
        (Op::Flush, 0, 0)
    );
    // Skipping continues after a damaged record; failing reports it. A missing end is always an
    // error.
    bytes[128 + 63] = 0;
    bytes.truncate(128 + 64 + 64 + 7);
    let mut reader = open(&bytes, &options);
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.cause().contains("after 2 whole records"), "{error}");
    assert_eq!(reader.skips().count(Reason::Operation), 1);
    assert_eq!(reader.skips().total(), 1);
    let strict = ReadOptions {
        on_error: OnError::Fail,
        ..options
    };
    assert!(open(&bytes, &strict).next().unwrap().is_err());
}

/// Requests of threads on drives with given latencies, as the engine would record them.
struct Job {
    entries: Vec<Entry>,
    end_ns: u64,
}

/// How a simulated thread behaves.
#[derive(Debug, Clone, Copy)]
enum Habit {
    /// One request at a time.
    Synchronous,
    /// A batch, then a wait for all of it.
    Batches(u32),
    /// A number of requests in flight; after each completion the thread computes, then submits the
    /// next.
    Window(u32),
}

/// Runs one thread from `start_ns`. Returns its records and its end.
fn run_thread(
    thread: u16,
    habit: Habit,
    steps: &[(u64, u64)],
    clock: &mut ThreadClock,
    start_ns: u64,
) -> (Vec<Record>, u64) {
    let mut now = start_ns;
    let mut in_flight: Vec<u64> = Vec::new();
    let mut records = Vec::new();
    clock.phase(now);
    let take = |now: &mut u64, in_flight: &mut Vec<u64>, clock: &mut ThreadClock| {
        in_flight.sort_unstable();
        let complete_ns = in_flight.remove(0);
        if complete_ns > *now {
            clock.blocked(*now, complete_ns);
            *now = complete_ns;
        }
        clock.reaped(*now);
    };
    let (depth, is_batch) = match habit {
        Habit::Synchronous => (1, true),
        Habit::Batches(depth) => (depth as usize, true),
        Habit::Window(depth) => (depth as usize, false),
    };
    for (think_ns, latency_ns) in steps {
        if in_flight.len() == depth {
            loop {
                take(&mut now, &mut in_flight, clock);
                if in_flight.is_empty() || !is_batch {
                    break;
                }
            }
        }
        now += think_ns;
        let mut record =
            clock
                .submitted(now)
                .record(thread, 0, u32::from(thread), IoOp::Read, now + latency_ns);
        record.len_bytes = 4096;
        records.push(record);
        in_flight.push(now + latency_ns);
    }
    while !in_flight.is_empty() {
        take(&mut now, &mut in_flight, clock);
    }
    (records, now)
}

/// Runs threads with habits over some phases.
fn run(threads: &[(Habit, Vec<(u64, u64)>)], phases: u32) -> Job {
    let mut writer = Writer::new(Vec::new(), &Header::new("test", Vec::new())).unwrap();
    let mut clocks: Vec<ThreadClock> = vec![ThreadClock::default(); threads.len()];
    let mut now = 0;
    for phase in 0..phases {
        if phase > 0 {
            writer.phase(phase, now).unwrap();
        }
        let mut records = Vec::new();
        let mut phase_end = now;
        for (thread, (habit, steps)) in threads.iter().enumerate() {
            let (mut own, end) = run_thread(thread as u16, *habit, steps, &mut clocks[thread], now);
            records.append(&mut own);
            // In the last phase, the thread computes for a little while after its last request.
            if phase + 1 == phases {
                phase_end = phase_end.max(end);
            } else {
                phase_end = phase_end.max(records.iter().map(|r| r.complete_ns).max().unwrap_or(0));
            }
        }
        records.sort_by_key(|record| record.complete_ns);
        for record in &records {
            writer.request(record).unwrap();
        }
        now = phase_end;
    }
    for (thread, clock) in clocks.iter().enumerate() {
        writer.thread_end(thread as u16, clock, now).unwrap();
    }
    let bytes = writer.finish(now).unwrap();
    Job {
        entries: read(&bytes).unwrap(),
        end_ns: now,
    }
}

/// Replays with the recorded latencies. Returns the release of each request.
fn replay(job: &Job) -> BTreeMap<(u16, u64), (u64, Record)> {
    let ordered = SubmissionOrder::new(job.entries.iter().map(|entry| Ok(*entry)));
    let mut plan = DependentLoop::new(ordered);
    let mut in_flight: Vec<(u64, u16)> = Vec::new();
    let mut released = BTreeMap::new();
    loop {
        let due = plan.next_due_ns().unwrap();
        let done = in_flight.iter().copied().min();
        match (due, done) {
            // At equal times completions come first, because a thread reacts to what has arrived.
            (due, Some((time_ns, thread))) if due.is_none_or(|due| time_ns <= due) => {
                in_flight.remove(
                    in_flight
                        .iter()
                        .position(|x| *x == (time_ns, thread))
                        .unwrap(),
                );
                plan.completed(thread, time_ns).unwrap();
            }
            (Some(due), _) => {
                if let Some((time_ns, record)) = plan.release(due).unwrap() {
                    assert_eq!(time_ns, due);
                    in_flight.push((
                        time_ns + record.complete_ns - record.submit_ns,
                        record.thread,
                    ));
                    released.insert((record.thread, record.sequence()), (time_ns, record));
                }
            }
            (None, None) => break,
            (None, Some(_)) => unreachable!("covered by the first arm"),
        }
    }
    plan.check_finished().unwrap();
    assert!(plan.is_finished());
    assert!(plan.end_ns() <= job.end_ns);
    released
}

fn steps(max: usize) -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0_u64..200, 1_u64..1000), 1..max)
}

proptest! {
    #[test]
    fn threads_that_wait_for_what_they_take_are_replayed_exactly(
        threads in prop::collection::vec(
            (prop_oneof![Just(Habit::Synchronous), (1_u32..9).prop_map(Habit::Batches)], steps(30)),
            1..5),
        phases in 1_u32..4)
    {
        let job = run(&threads, phases);
        let released = replay(&job);
        let requests: usize = threads.iter().map(|(_, steps)| steps.len()).sum();
        prop_assert_eq!(released.len(), requests * phases as usize);
        for (time_ns, record) in released.values() {
            prop_assert_eq!(*time_ns, record.submit_ns);
        }
    }

    #[test]
    fn no_request_is_replayed_later_than_recorded_on_the_recorded_drives(
        threads in prop::collection::vec(
            ((1_u32..9).prop_map(Habit::Window), steps(40)), 1..5),
        phases in 1_u32..3)
    {
        let job = run(&threads, phases);
        for (time_ns, record) in replay(&job).values() {
            prop_assert!(*time_ns <= record.submit_ns, "{} {:?}", time_ns, record);
        }
    }

    #[test]
    fn the_order_of_submission_is_restored_whatever_the_order_of_completion(
        threads in prop::collection::vec(((1_u32..9).prop_map(Habit::Window), steps(40)), 1..5))
    {
        let job = run(&threads, 2);
        let mut next: BTreeMap<u16, u64> = BTreeMap::new();
        let ordered = SubmissionOrder::new(job.entries.iter().map(|entry| Ok(*entry)));
        let mut count = 0;
        for entry in ordered {
            count += 1;
            if let Entry::Request(record) = entry.unwrap() {
                let next = next.entry(record.thread).or_default();
                prop_assert_eq!(record.sequence(), *next);
                *next += 1;
            }
        }
        prop_assert_eq!(count, job.entries.len());
        // A missing record is noticed at the next mark.
        let mut holed = job.entries.clone();
        let at = holed.iter().position(|e| matches!(e, Entry::Request(r) if r.sequence() == 0));
        holed.remove(at.unwrap());
        let is_alone = threads.iter().all(|(_, steps)| steps.len() == 1);
        let ordered = SubmissionOrder::new(holed.iter().map(|entry| Ok(*entry)));
        prop_assert!(is_alone || ordered.into_iter().any(|entry| entry.is_err()));
    }

    #[test]
    fn any_entry_survives_the_file(
        longs in any::<[u64; 6]>(), words in any::<[u32; 3]>(), thread in any::<u16>(),
        drive in any::<u8>(), op in 0_u8..4, is_failed in any::<bool>())
    {
        let op = [IoOp::Read, IoOp::Write, IoOp::Sync, IoOp::Trim][usize::from(op)];
        let record = Record {
            thread, drive, file: words[2], op, is_failed,
            offset_bytes: longs[1].min(u64::MAX - u64::from(words[1])), len_bytes: words[1],
            submit_ns: longs[2].min(longs[3]), complete_ns: longs[3],
            reaped: longs[0].min(u64::MAX - u64::from(words[0])), outstanding: words[0],
            think_ns: longs[4], busy_ns: longs[5],
        };
        let mut writer = Writer::new(Vec::new(), &Header::new("t", Vec::new())).unwrap();
        writer.request(&record).unwrap();
        writer.phase(words[0], longs[0]).unwrap();
        let bytes = writer.finish(longs[5]).unwrap();
        prop_assert_eq!(bytes.len() % 64, 0);
        let want = [
            Entry::Request(record),
            Entry::Phase { phase: words[0], time_ns: longs[0], requests: 1 },
            Entry::End { time_ns: longs[5], requests: 1 },
        ];
        prop_assert_eq!(read(&bytes).unwrap(), want);
    }

    #[test]
    fn no_bytes_make_the_reader_or_the_replay_panic(
        records in prop::collection::vec((any::<[u64; 8]>(), 0_u8..16), 0..40),
        small in any::<bool>(), tail in prop::collection::vec(any::<u8>(), 0..100))
    {
        let mut bytes = Writer::new(Vec::new(), &Header::new("t", Vec::new())).unwrap()
            .finish(0).unwrap();
        bytes.truncate(bytes.len() - 64);
        for (longs, op) in records {
            for mut long in longs {
                if small {
                    long %= 4;
                }
                bytes.extend(long.to_le_bytes());
            }
            let last = bytes.len() - 1;
            bytes[last] = op;
        }
        bytes.extend(tail);
        let reader = Reader::new(Cursor::new(&bytes), "x").unwrap();
        let mut plan = DependentLoop::new(SubmissionOrder::new(reader));
        let mut in_flight = Vec::new();
        for _ in 0..200 {
            let Ok(due) = plan.next_due_ns() else { break };
            if let Some(due) = due {
                let Ok(released) = plan.release(due) else { break };
                in_flight.extend(released.map(|(_, record)| record.thread));
            } else if let Some(thread) = in_flight.pop() {
                plan.completed(thread, 7).unwrap();
            } else {
                break;
            }
        }
        let _ = plan.check_finished();
    }
}
