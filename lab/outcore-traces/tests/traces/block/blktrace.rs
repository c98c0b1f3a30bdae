//! blktrace from events to requests: byte orders, CPUs, a real kernel's events, damage, and which
//! events count.
//!
//! Contract: the fixture is 40 events of a real kernel; all other events are written here, one by
//! one.

use super::*;

/// One event of blktrace, 48 bytes and a payload.
fn event(is_big: bool, time: u64, sector: u64, len: u32, action: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |le: &[u8]| {
        let bytes: Vec<u8> = if is_big {
            le.iter().rev().copied().collect()
        } else {
            le.to_vec()
        };
        out.extend(bytes);
    };
    put(&0x6561_7407_u32.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&time.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&len.to_le_bytes());
    put(&action.to_le_bytes());
    put(&99_u32.to_le_bytes());
    put(&((8_u32 << 20) | 16).to_le_bytes());
    put(&0_u32.to_le_bytes());
    put(&0_u16.to_le_bytes());
    put(&(payload.len() as u16).to_le_bytes());
    out.extend(payload);
    out
}

const QUEUED_READ: u32 = ((1 << 4 | 1) << 16) | 1;
const QUEUED_WRITE: u32 = ((1 << 8 | 1 << 4 | 1 << 1) << 16) | 1;
const COMPLETED: u32 = ((1 << 8 | 1 << 7 | 1) << 16) | 8;

#[test]
fn the_files_of_all_cpus_are_merged_by_time() {
    for is_big in [false, true] {
        let folder = Folder::new(if is_big { "cpus-big" } else { "cpus-little" });
        let files = [
            ("sdb.blktrace.0", [10_u64, 30, 50].as_slice()),
            ("sdb.blktrace.1", &[20, 40]),
            ("sdb.blktrace.2", &[]),
            ("sdb.blktrace.10", &[5, 60]),
            ("sdc.blktrace.0", &[1]),
        ];
        for (name, times) in files {
            let mut bytes = Vec::new();
            for time in times {
                bytes.extend(event(is_big, *time, *time, 4096, QUEUED_READ, b""));
                bytes.extend(event(is_big, *time + 1, *time, 4096, COMPLETED, b"xyz"));
            }
            fs::write(folder.0.join(name), bytes).unwrap();
        }
        for name in ["sdb.blktrace.0", "sdb.blktrace.10", "sdb.blktrace", "sdb"] {
            let path = folder.0.join(name);
            let mut reader = TraceReader::open(&path, &ReadOptions::default()).unwrap();
            assert_eq!(
                (reader.format(), reader.paths().count()),
                (Format::Blktrace, 3)
            );
            let times: Vec<u64> = read_all(&mut reader)
                .iter()
                .map(|request| request.time_ns)
                .collect();
            assert_eq!(times, [5, 10, 20, 30, 40, 50, 60], "{name}");
            assert_eq!(reader.ignored(), 7);
        }
    }
}

/// 40 events of a kernel (6.18, x86-64), recorded while fio ran on a loop device; fio's own log of
/// the same run has exactly these offsets and lengths.
#[test]
fn events_of_a_real_kernel_are_the_requests_that_fio_issued() {
    let path = fixture("linux-6.18.blktrace");
    let options = ReadOptions {
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::open(path, &options).unwrap();
    let got: Vec<(Op, u64, u64)> = read_all(&mut reader)
        .iter()
        .map(|r| (r.op, r.offset_bytes, r.len_bytes))
        .collect();
    let want = [
        (Op::Read, 12_648_448, 131_072),
        (Op::Read, 155_249_664, 4096),
        (Op::Read, 176_827_904, 4096),
        (Op::Write, 98_568_704, 131_072),
        (Op::Read, 84_286_976, 65_536),
        (Op::Read, 176_187_392, 4096),
        (Op::Write, 79_795_200, 512),
        (Op::Write, 74_138_624, 65_536),
    ];
    assert_eq!(got, want);
    assert_eq!((reader.ignored(), reader.bytes()), (32, 1984));
}

#[test]
fn blktrace_with_garbage_gives_what_is_sound() {
    let mut bytes = event(false, 1, 8, 4096, QUEUED_READ, b"");
    bytes.extend([7; 1000]);
    bytes.extend(event(false, 2, 16, 512, QUEUED_WRITE, b"payload"));
    bytes.extend(&event(false, 3, 16, 512, QUEUED_WRITE, b"")[..20]);
    let mut reader =
        TraceReader::from_stream(Cursor::new(bytes.clone()), "b", &ReadOptions::default()).unwrap();
    let device = (8 << 20) | 16;
    let want = [
        request(1, device, Op::Read, 4096, 4096),
        request(2, device, Op::Write, 8192, 512),
    ];
    let got: Vec<Request> = reader.by_ref().take(2).map(Result::unwrap).collect();
    assert_eq!(got, want);
    let place = &reader.skips().places()[0];
    assert_eq!(
        (place.line, place.offset_bytes, place.reason),
        (2, 48, Reason::Magic)
    );
    // The end is missing, and its length is unknown.
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(
        error.cause().contains("ends inside event 4 of blktrace"),
        "{error}"
    );
    assert_eq!(error.offset_bytes(), Some(48 + 1000 + 55));
    assert_eq!(reader.skips().total(), 1);
    let strict = ReadOptions {
        on_error: OnError::Fail,
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::from_stream(Cursor::new(bytes), "b", &strict).unwrap();
    let error = reader.find_map(Result::err).unwrap();
    assert!(error.cause().starts_with("event 2 as blktrace"), "{error}");
}

const ISSUED_READ: u32 = ((1 << 8 | 1 << 6 | 1) << 16) | 7;

/// The events of the real kernel's fixture whose action `keeps` accepts.
fn events_with(keeps: impl Fn(u32) -> bool) -> Vec<u8> {
    let bytes = fs::read(fixture("linux-6.18.blktrace")).unwrap();
    let (mut rest, mut kept) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let payload = usize::from(u16::from_le_bytes([rest[46], rest[47]]));
        let (event, after) = rest.split_at(48 + payload);
        let action = u32::from_le_bytes([event[28], event[29], event[30], event[31]]);
        if keeps(action & 0xff) {
            kept.extend(event);
        }
        rest = after;
    }
    kept
}

#[test]
fn a_trace_without_queued_events_takes_a_request_when_it_was_issued_and_says_so() {
    let read = |bytes: Vec<u8>| {
        let options = ReadOptions::default();
        let mut reader = TraceReader::from_stream(Cursor::new(bytes), "b", &options).unwrap();
        let summary = Summary::of(&mut reader).unwrap();
        (summary.clone(), summary.to_string())
    };
    let (all, _) = read(events_with(|_| true));
    assert!(all.notes.is_empty());
    let (issued, text) = read(events_with(|action| action == 7 || action == 8));
    // The fixture ends before the last write is issued.
    assert_eq!((issued.reads, issued.writes), (all.reads, all.writes - 1));
    assert_eq!(issued.read_bytes, all.read_bytes);
    assert_eq!(issued.write_bytes, all.write_bytes - 65_536);
    assert!(
        issued.time_min_ns > all.time_min_ns,
        "later than it was asked for"
    );
    assert!(
        text.contains("note") && text.contains("issued to the drive (D)"),
        "{text}"
    );
    // An issued event before the first queued one is not counted again, whatever its CPU.
    let folder = Folder::new("stages");
    for (cpu, stage, times) in [(0, ISSUED_READ, [1_u64, 3]), (1, QUEUED_READ, [2, 4])] {
        let events = times.map(|time| event(false, time, time, 4096, stage, b""));
        fs::write(folder.0.join(format!("x.blktrace.{cpu}")), events.concat()).unwrap();
    }
    let mut reader =
        TraceReader::open(folder.0.join("x.blktrace"), &ReadOptions::default()).unwrap();
    assert_eq!(reader.note(), None);
    let times: Vec<u64> = read_all(&mut reader).iter().map(|r| r.time_ns).collect();
    assert_eq!((times, reader.ignored()), (vec![2, 4], 2));
    fs::remove_file(folder.0.join("x.blktrace.1")).unwrap();
    let mut reader =
        TraceReader::open(folder.0.join("x.blktrace"), &ReadOptions::default()).unwrap();
    assert!(reader.note().is_some());
    assert_eq!(read_all(&mut reader).len(), 2);
}

#[test]
fn a_file_without_one_request_is_an_error_that_says_what_is_missing() {
    let plugs = events_with(|action| action == 9 || action == 10);
    for (name, bytes, says, hint) in [
        ("plugs", &plugs[..], "event", "blktrace -a queue"),
        ("comments", b"# nothing\n# at all\n", "line", "--format"),
    ] {
        let options = ReadOptions {
            format: (name == "comments").then_some(Format::Spc),
            ..ReadOptions::default()
        };
        let stream = Cursor::new(bytes.to_vec());
        let mut reader = TraceReader::from_stream(stream, name, &options).unwrap();
        let error = reader.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        let text = error.to_string();
        assert!(
            text.contains("is a request in the format") && text.contains(says),
            "{text}"
        );
        assert!(error.next_step().unwrap().contains(hint), "{error:?}");
        assert!(reader.next().is_none());
    }
}

const ISSUED_WRITE: u32 = ((1 << 8 | 1 << 6 | 1 << 1) << 16) | 7;
#[test]
fn packed_files_of_cpus_are_merged_and_none_counts_twice() {
    let folder = Folder::new("packed-cpus");
    let of_cpu = |times: [u64; 2]| {
        let events = times.map(|time| event(false, time, time, 4096, QUEUED_READ, b""));
        events.concat()
    };
    let write = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).unwrap();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    write("p.blktrace.0", &of_cpu([1, 4]));
    write("p.blktrace.0.zst", &zstd(&of_cpu([1, 4])));
    write("p.blktrace.1.zst", &zstd(&of_cpu([2, 5])));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&of_cpu([3, 6])).unwrap();
    write("p.blktrace.2.gz", &gzip.finish().unwrap());
    write("p.blktrace.2.txt", b"notes");
    for name in ["p", "p.blktrace", "p.blktrace.0", "p.blktrace.2.gz"] {
        let path = folder.0.join(name);
        let mut reader = TraceReader::open(path, &ReadOptions::default()).unwrap();
        let times: Vec<u64> = read_all(&mut reader).iter().map(|r| r.time_ns).collect();
        assert_eq!(times, [1, 2, 3, 4, 5, 6], "{name}");
    }
}

const COMPLETED_WRITE: u32 = ((1 << 8 | 1 << 7 | 1 << 1) << 16) | 8;

#[test]
fn completions_are_the_requests_of_a_trace_that_has_nothing_else_and_it_says_so() {
    let bytes = events_with(|action| action == 8);
    let mut reader =
        TraceReader::from_stream(Cursor::new(bytes), "b", &ReadOptions::default()).unwrap();
    assert!(reader.note().unwrap().contains("completed (C)"));
    let requests = read_all(&mut reader);
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].time_ns, requests[0].offset_bytes),
        (4_199_548_556_556, 24_704 * 512)
    );
    assert_eq!(reader.response(), None);
}

#[test]
fn an_issue_on_one_cpu_and_its_completion_on_another_give_the_response_time() {
    let folder = Folder::new("responses");
    let at = |time, sector, action| event(false, time, sector, 4096, action, b"");
    let files = [
        // Reads of sectors 8 and 16, and a write of sector 8, which is another request.
        [
            at(100, 8, ISSUED_READ),
            at(150, 8, ISSUED_WRITE),
            at(200, 16, ISSUED_READ),
            at(900, 24, COMPLETED),
        ],
        [
            at(50, 8, QUEUED_READ),
            at(500, 16, COMPLETED),
            at(600, 8, COMPLETED),
            at(1150, 8, COMPLETED_WRITE),
        ],
    ];
    for (cpu, events) in files.iter().enumerate() {
        fs::write(folder.0.join(format!("t.blktrace.{cpu}")), events.concat()).unwrap();
    }
    let mut reader = TraceReader::open(folder.0.join("t"), &ReadOptions::default()).unwrap();
    let summary = Summary::of(&mut reader).unwrap();
    assert_eq!((summary.requests, summary.ignored), (1, 7));
    let response = summary.response.unwrap();
    // 300, 500 and 1000 ns; the completion of sector 24 has no issue.
    assert_eq!((response.requests, response.unmatched), (3, 1));
    assert_eq!((response.mean_ns, response.max_ns), (600, 1000));
    // A percentile is at most an eighth above the true one.
    assert!((500..=563).contains(&response.p50_ns), "{response:?}");
}
