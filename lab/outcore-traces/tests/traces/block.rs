//! Block traces from file to requests: every format's fixture, detection, packing, merging,
//! writers.
//!
//! The fixtures were written for these tests; each has valid lines, malformed ones and binary
//! garbage.
mod blkparse;
mod blktrace;
mod known;
mod records;

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use outcore::Kind;
use outcore_traces::write::{FioWriter, MqsimWriter};
use outcore_traces::{
    Format, OnError, Op, ReadOptions, Reason, Request, Summary, TraceReader, detect,
    parse_time_unit,
};
use proptest::prelude::*;

use known::expected;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A test's own folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("outcore-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn request(time_ns: u64, device: u32, op: Op, offset_bytes: u64, len_bytes: u64) -> Request {
    Request {
        time_ns,
        device,
        op,
        offset_bytes,
        len_bytes,
    }
}

fn read_all(reader: &mut TraceReader) -> Vec<Request> {
    reader.by_ref().map(Result::unwrap).collect()
}

#[test]
fn every_fixture_gives_its_requests_and_the_place_of_every_bad_line() {
    for want in expected() {
        for format in [None, Some(want.format)] {
            let options = ReadOptions {
                format,
                ..ReadOptions::default()
            };
            let mut reader = TraceReader::open(fixture(want.file), &options).unwrap();
            assert_eq!(reader.format(), want.format, "{}", want.file);
            assert_eq!(read_all(&mut reader), want.requests, "{}", want.file);
            let places: Vec<(u64, Reason)> = reader
                .skips()
                .places()
                .iter()
                .map(|place| (place.line, place.reason))
                .collect();
            assert_eq!(places, want.bad, "{}", want.file);
            assert_eq!(reader.skips().total(), want.bad.len() as u64);
            assert_eq!(reader.ignored(), want.ignored, "{}", want.file);
            let bytes = fs::read(fixture(want.file)).unwrap();
            assert_eq!(reader.bytes(), bytes.len() as u64);
            // The recorded offset is the start of the line.
            for place in reader.skips().places() {
                let at = usize::try_from(place.offset_bytes).unwrap();
                assert!(at == 0 || bytes[at - 1] == b'\n', "{}: {place}", want.file);
                let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
                assert_eq!(line, place.line);
            }
        }
    }
}

#[test]
fn on_error_fail_names_file_line_place_and_cause() {
    for want in expected() {
        let options = ReadOptions {
            on_error: OnError::Fail,
            ..ReadOptions::default()
        };
        let mut reader = TraceReader::open(fixture(want.file), &options).unwrap();
        let error = reader.find_map(Result::err).unwrap();
        assert!(
            reader.next().is_none(),
            "a reader that failed is at its end"
        );
        let (line, reason) = want.bad[0];
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(
            error.cause().starts_with(&format!("line {line} as ")),
            "{error}"
        );
        assert!(error.cause().contains(reason.text()), "{error}");
        assert_eq!(error.file_path(), Some(fixture(want.file).as_path()));
        assert!(error.offset_bytes().is_some() && error.next_step().is_some());
    }
}

#[test]
fn a_summary_counts_what_was_read_and_what_was_not() {
    let mut reader = TraceReader::open(fixture("small.spc"), &ReadOptions::default()).unwrap();
    let summary = Summary::of(&mut reader).unwrap();
    assert_eq!((summary.requests, summary.reads, summary.writes), (6, 3, 3));
    assert_eq!(
        (summary.size_min_bytes, summary.size_max_bytes),
        (3072, 16_715_776)
    );
    assert_eq!(
        (summary.devices, summary.empty, summary.skipped.total()),
        (2, 1, 6)
    );
    assert_eq!(
        summary.table2_row("x"),
        "| x | 50.00 | 3KB - 16324KB | 0.02 |"
    );
    let text = summary.to_string();
    assert!(
        text.contains("6 lines skipped: 2 wrong number of fields, 1 bad number"),
        "{text}"
    );
    assert!(
        text.contains("small.spc:7: unknown operation: `2,12,512,X,0.1`"),
        "{text}"
    );
    let json = serde_json::to_string(&summary).unwrap();
    assert!(
        json.contains(r#""by_reason":{"fields":2,"number":1"#),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
}

#[test]
fn packed_traces_are_read_like_plain_ones() {
    let folder = Folder::new("packed");
    let plain = fs::read(fixture("v3.iolog")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&plain).unwrap();
    let packed = [
        ("t.gz", gzip.finish().unwrap()),
        ("t.zst", zstd::encode_all(&plain[..], 1).unwrap()),
        // The content decides, not the name.
        ("plain.gz", plain),
    ];
    let options = ReadOptions::default();
    let want = read_all(&mut TraceReader::open(fixture("v3.iolog"), &options).unwrap());
    for (name, bytes) in packed {
        let path = folder.0.join(name);
        fs::write(&path, bytes).unwrap();
        let mut reader = TraceReader::open(&path, &options).unwrap();
        assert_eq!(read_all(&mut reader), want, "{name}");
        assert_eq!(reader.device_name(1), Some("/data/b"));
    }
}

#[test]
fn an_unknown_missing_or_empty_file_is_an_error_with_a_next_step() {
    let folder = Folder::new("unknown");
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let open = |path: &Path, options: &ReadOptions| TraceReader::open(path, options).err();
    let options = ReadOptions::default();
    let error = open(&write("text", b"hello world\nhow are you\n"), &options).unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.cause().contains("hello world"), "{error}");
    assert!(
        error.next_step().unwrap().contains("spc, fiu, msr"),
        "{error}"
    );
    assert!(
        open(&write("empty", b""), &options)
            .unwrap()
            .cause()
            .contains("empty")
    );
    assert_eq!(
        open(&folder.0.join("none"), &options).unwrap().kind(),
        Kind::Io
    );
    assert_eq!(open(&folder.0, &options).unwrap().kind(), Kind::Usage);
    let newer = write("newer", &(0x6561_7408_u32).to_le_bytes().repeat(12));
    assert!(
        open(&newer, &options)
            .unwrap()
            .cause()
            .contains("version 8")
    );
    // With a wrong `--format` no line can be read. At the end this is an error that shows the first
    // bad line.
    let wrong = ReadOptions {
        format: Some(Format::Msr),
        ..options
    };
    let mut reader = TraceReader::open(fixture("small.mqsim"), &wrong).unwrap();
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.cause().contains("none of 7 lines"), "{error}");
    assert!(error.next_step().unwrap().contains("0 0 10 8 1"), "{error}");
}

#[test]
fn another_time_unit_may_be_given() {
    let options = ReadOptions {
        time_unit_ns: Some(1_000_000),
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::open(fixture("v3.iolog"), &options).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().time_ns, 10_000_000);
}

/// Two requests in DiskSim's format: milliseconds with decimals, otherwise MQSim's fields.
const DISKSIM: &str = "0.000000 0 303567 7 0\n26.214 1 55590 6 1\n";

#[test]
fn decimals_where_a_format_counts_whole_units_are_rejected_with_the_option_that_helps() {
    let alike = [
        ("mqsim", "0 0 8 8 1\n5 0 8 8 1\n7.5 0 8 8 1\n"),
        ("fiu", "1.5 4892 cron 1000 8 W 8 2\n"),
        ("msr", "1.5,hm,1,Read,383496192,32768,113736\n"),
        ("alibaba", "419,W,8792731648,16384,44.5\n"),
        ("fio", "fio version 3 iolog\n1.5 f add\n1.5 f read 0 512\n"),
    ];
    for (name, text) in alike {
        for format in [None, Some(name.parse().unwrap())] {
            let options = ReadOptions {
                format,
                ..ReadOptions::default()
            };
            let mut reader = TraceReader::from_stream(Cursor::new(text), "t", &options).unwrap();
            assert_eq!(reader.format().name(), name);
            let error = reader.find_map(Result::err).unwrap();
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.cause().contains("decimals"), "{error}");
            let hint = error.next_step().unwrap();
            assert!(hint.contains("--time-unit") && hint.contains("disksim"));
            // A caller who gives the unit, even the format's own, may have decimals.
            let options = ReadOptions {
                time_unit_ns: Some(1_000_000),
                ..options
            };
            let reader = TraceReader::from_stream(Cursor::new(text), "t", &options).unwrap();
            assert!(reader.map(Result::unwrap).count() > 0, "{name}");
        }
    }
}

#[test]
fn disksim_is_told_from_mqsim_by_its_decimals_and_both_take_a_unit() {
    let read = |text: &'static str, format: Option<Format>, time_unit_ns| {
        let options = ReadOptions {
            format,
            time_unit_ns,
            ..ReadOptions::default()
        };
        let mut reader = TraceReader::from_stream(Cursor::new(text), "t", &options).unwrap();
        let times: Vec<u64> = read_all(&mut reader)
            .iter()
            .map(|one| one.time_ns)
            .collect();
        (reader.format(), times)
    };
    let whole = "0 0 303567 7 0\n26214 1 55590 6 1\n";
    let (disksim, ssdsim) = (Some(Format::Disksim), Some(Format::Ssdsim));
    assert_eq!(
        read(DISKSIM, None, None),
        (Format::Disksim, vec![0, 26_214_000])
    );
    assert_eq!(
        read(DISKSIM, None, Some(1_000_000_000)).1,
        [0, 26_214_000_000]
    );
    assert_eq!(
        read(DISKSIM, Some(Format::Mqsim), Some(1_000_000)).1,
        [0, 26_214_000]
    );
    // Without decimals, the lines are also MQSim's, which has precedence.
    assert_eq!(read(whole, None, None), (Format::Mqsim, vec![0, 26_214]));
    assert_eq!(read(whole, disksim, None).1, [0, 26_214_000_000]);
    assert_eq!(read(whole, disksim, Some(1_000)).1, [0, 26_214_000]);
    assert_eq!(read(whole, ssdsim, None), (Format::Ssdsim, vec![0, 26_214]));
    assert_eq!(read(whole, ssdsim, Some(100)).1, [0, 2_621_400]);
}

#[test]
fn ssdsim_with_further_columns_is_read_by_its_name_only() {
    let path = fixture("small.ssdsim");
    let error = TraceReader::open(&path, &ReadOptions::default()).err();
    let error = error.unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.next_step().unwrap().contains("ssdsim"), "{error:?}");
    let options = ReadOptions {
        format: Some(Format::Ssdsim),
        ..ReadOptions::default()
    };
    let mut reader = TraceReader::open(&path, &options).unwrap();
    let want = [
        request(0, 0, Op::Read, 5120, 4096),
        request(100, 0, Op::Write, 9216, 4096),
        request(100, 1, Op::Read, 512, 512),
    ];
    assert_eq!(read_all(&mut reader), want);
    let places = reader.skips().places().iter();
    let bad: Vec<_> = places.map(|place| (place.line, place.reason)).collect();
    assert_eq!(bad, [(4, Reason::Operation), (5, Reason::Fields)]);
}

#[test]
fn a_time_unit_is_a_unit_or_a_multiple_of_one() {
    for (text, unit_ns) in [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
        ("100ns", 100),
    ] {
        assert_eq!(parse_time_unit(text).unwrap(), unit_ns);
    }
    for text in ["", "m", "0.1ns", "-1ms", "10"] {
        let error = parse_time_unit(text).unwrap_err();
        assert!(error.next_step().unwrap().contains("100ns"), "{text}");
    }
}

#[test]
fn very_long_lines_are_skipped_in_constant_memory() {
    let mut text = b"0,1,512,R,0\n".to_vec();
    text.extend(std::iter::repeat_n(b'7', 5 << 20));
    text.extend(b"\n0,2,512,R,1\n");
    let mut reader =
        TraceReader::from_stream(Cursor::new(text), "long", &ReadOptions::default()).unwrap();
    assert_eq!(read_all(&mut reader).len(), 2);
    assert_eq!(reader.skips().count(Reason::LineTooLong), 1);
}

#[test]
fn parts_of_different_formats_are_refused() {
    let parts = [fixture("small.spc"), fixture("small.mqsim")];
    let error = TraceReader::open_many(&parts, &ReadOptions::default())
        .err()
        .unwrap();
    assert!(error.cause().contains("different formats"), "{error}");
    let same = [fixture("small.spc"), fixture("small.spc")];
    let mut reader = TraceReader::open_many(&same, &ReadOptions::default()).unwrap();
    let times: Vec<u64> = read_all(&mut reader)
        .iter()
        .map(|request| request.time_ns)
        .collect();
    assert_eq!(times.len(), 12);
    assert!(times.is_sorted());
}

fn write_fio(requests: &[Request]) -> Vec<u8> {
    let mut writer = FioWriter::new(Vec::new(), |device| format!("/dev/disk {device}")).unwrap();
    for request in requests {
        writer.request(request).unwrap();
    }
    writer.finish().unwrap()
}

fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Trim, Op::Flush]);
    let one = (any::<u64>(), 0_u32..5, op, any::<u64>(), any::<u64>()).prop_map(
        |(time_ns, device, op, offset, len)| match op {
            Op::Flush => request(time_ns, device, op, 0, 0),
            _ => request(time_ns, device, op, offset, len.min(u64::MAX - offset)),
        },
    );
    prop::collection::vec(one, 1..30)
}

proptest! {
    #[test]
    fn what_is_written_as_a_fio_log_is_read_back(requests in any_requests()) {
        let text = write_fio(&requests);
        let options = ReadOptions { on_error: OnError::Fail, ..ReadOptions::default() };
        let mut reader = TraceReader::from_stream(Cursor::new(text), "w", &options).unwrap();
        let got: Vec<Request> = reader.by_ref().map(Result::unwrap).collect();
        prop_assert_eq!(got.len(), requests.len());
        for (got, want) in got.iter().zip(&requests) {
            // Whole microseconds; devices are numbered by appearance, and their names identify
            // them.
            let name = format!("/dev/disk_{}", want.device);
            prop_assert_eq!(reader.device_name(got.device), Some(&*name));
            let want = Request { time_ns: want.time_ns / 1000 * 1000, device: got.device, ..*want };
            prop_assert_eq!(*got, want);
        }
    }

    #[test]
    fn what_is_written_for_mqsim_is_read_back_in_whole_sectors(requests in any_requests()) {
        let mut writer = MqsimWriter::new(Vec::new());
        for request in &requests {
            writer.request(request).unwrap();
        }
        let kept: Vec<&Request> =
            requests.iter().filter(|r| r.op.moves_data() && r.len_bytes > 0).collect();
        prop_assert_eq!(writer.dropped() as usize, requests.len() - kept.len());
        let text = writer.finish().unwrap();
        prop_assume!(!text.is_empty());
        let options = ReadOptions { format: Some(Format::Mqsim), ..ReadOptions::default() };
        let mut reader = TraceReader::from_stream(Cursor::new(text), "w", &options).unwrap();
        // The last sector of the 64-bit space leaves no room for widening, so such lines are
        // rejected.
        let fits = |r: &Request| r.end_bytes().checked_next_multiple_of(512).is_some();
        let want: Vec<&Request> = kept.into_iter().filter(|r| fits(r)).collect();
        let got: Vec<Request> = reader.by_ref().filter_map(Result::ok).collect();
        prop_assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            prop_assert_eq!((got.time_ns, got.device, got.op), (want.time_ns, want.device, want.op));
            prop_assert_eq!(got.offset_bytes, want.offset_bytes / 512 * 512);
            prop_assert_eq!(got.end_bytes(), want.end_bytes().next_multiple_of(512));
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..2000), format in 0..=Format::ALL.len())
    {
        let format = Format::ALL.get(format).copied();
        let _ = detect(&bytes, true);
        let options = ReadOptions { format, ..ReadOptions::default() };
        if let Ok(reader) = TraceReader::from_stream(Cursor::new(bytes), "x", &options) {
            for request in reader.flatten() {
                prop_assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
            }
        }
    }

    #[test]
    fn no_nearly_sound_text_makes_a_reader_panic(
        file in 0..expected().len(), edits in prop::collection::vec((any::<usize>(), any::<u8>()), 0..30),
        cut in any::<usize>(), format in 0..=Format::ALL.len())
    {
        let mut bytes = fs::read(fixture(expected()[file].file)).unwrap();
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut % (bytes.len() + 1));
        let options =
            ReadOptions { format: Format::ALL.get(format).copied(), ..ReadOptions::default() };
        if let Ok(reader) = TraceReader::from_stream(Cursor::new(bytes), "x", &options) {
            for request in reader.flatten() {
                prop_assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
            }
        }
    }

    #[test]
    fn merged_parts_are_ordered_by_time_if_each_part_is(
        parts in prop::collection::vec(prop::collection::vec(0_u64..1000, 1..20), 1..6))
    {
        let folder = Folder::new("parts");
        let mut all = Vec::new();
        let mut paths = Vec::new();
        for (index, mut times) in parts.into_iter().enumerate() {
            times.sort_unstable();
            let text: String = times.iter().map(|time| format!("{time} 0 8 8 1\n")).collect();
            let path = folder.0.join(format!("part{index}"));
            fs::write(&path, text).unwrap();
            paths.push(path);
            all.extend(times);
        }
        all.sort_unstable();
        let reader = TraceReader::open_many(&paths, &ReadOptions::default()).unwrap();
        let got: Vec<u64> = reader.map(|request| request.unwrap().time_ns).collect();
        prop_assert_eq!(got, all);
    }
}
