//! Binary traces of records: CloudPhysics vscsi and libCacheSim's oracleGeneral, from files to
//! requests; damage, and files that end inside a record.
//!
//! Contract: `small.v1.vscsi` and `small.v2.vscsi` hold the same seven commands, and
//! `small.oracleGeneral` five accesses to three objects, packed from the layouts that libCacheSim
//! documents.

use super::*;

const NAMES: [&str; 4] = [
    "small.v1.vscsi",
    "small.v2.vscsi",
    "small.oracleGeneral",
    "linux-6.18.blktrace",
];

/// Bytes of a record in the first three fixtures.
const RECORD_BYTES: [usize; 3] = [32, 40, 24];

fn open(bytes: &[u8], options: &ReadOptions) -> outcore::Result<TraceReader> {
    TraceReader::from_stream(Cursor::new(bytes.to_vec()), "t", options)
}

fn vscsi_requests() -> Vec<Request> {
    let at = |us: u64| us * 1000;
    vec![
        request(at(5_633_898_368_802), 0, Op::Write, 42_932_745 * 512, 512),
        request(at(5_633_898_967_708), 0, Op::Write, 40_409_911 * 512, 6656),
        request(at(5_633_899_000_000), 0, Op::Read, 8192, 65_536),
        request(at(5_633_899_000_001), 0, Op::Flush, 0, 0),
        request(at(5_633_899_000_001), 0, Op::Write, 4096, 4096),
        request(at(5_633_899_100_000), 0, Op::Trim, 0, 24),
    ]
}

#[test]
fn both_versions_of_binary_vscsi_give_their_requests() {
    for name in &NAMES[..2] {
        for format in [None, Some(Format::VscsiBinary)] {
            let options = ReadOptions {
                format,
                on_error: OnError::Fail,
                ..ReadOptions::default()
            };
            let mut reader = TraceReader::open(fixture(name), &options).unwrap();
            assert_eq!(reader.format(), Format::VscsiBinary);
            assert_eq!(read_all(&mut reader), vscsi_requests(), "{name}");
            // The INQUIRY moves no data.
            assert_eq!((reader.ignored(), reader.note()), (1, None));
            let bytes = fs::metadata(fixture(name)).unwrap().len();
            assert_eq!(reader.bytes(), bytes);
        }
    }
}

#[test]
fn oracle_general_reads_objects_at_their_number_of_sectors_and_says_so() {
    let s = 1_000_000_000;
    let want = [
        request(0, 0, Op::Read, 42_932_745 * 512, 512),
        request(0, 0, Op::Read, 40_409_911 * 512, 6656),
        request(s, 0, Op::Read, 42_932_745 * 512, 512),
        request(5 * s, 0, Op::Read, 8192, 65_536),
        request(7 * s, 0, Op::Read, 42_932_745 * 512, 4096),
    ];
    let options = ReadOptions::default();
    let mut reader = TraceReader::open(fixture(NAMES[2]), &options).unwrap();
    assert_eq!(reader.format(), Format::OracleGeneral);
    assert_eq!(read_all(&mut reader), want);
    assert!(reader.note().unwrap().contains("512 bytes"));
    let options = ReadOptions {
        time_unit_ns: Some(1_000_000),
        ..options
    };
    let mut reader = TraceReader::open(fixture(NAMES[2]), &options).unwrap();
    assert_eq!(read_all(&mut reader)[4].time_ns, 7_000_000);
}

#[test]
fn a_damaged_record_is_skipped_and_counted_or_an_error_with_its_number() {
    let mut bytes = fs::read(fixture(NAMES[0])).unwrap();
    bytes[32 + 15] = 7;
    // The damaged content leaves a doubt about the format, so the caller names it.
    let error = open(&bytes, &ReadOptions::default()).err().unwrap();
    assert!(error.next_step().unwrap().contains("vscsi-binary"));
    let options = ReadOptions {
        format: Some(Format::VscsiBinary),
        ..ReadOptions::default()
    };
    let mut reader = open(&bytes, &options).unwrap();
    let mut want = vscsi_requests();
    want.remove(1);
    assert_eq!(read_all(&mut reader), want);
    let place = &reader.skips().places()[0];
    assert_eq!((place.line, place.offset_bytes), (2, 32));
    assert_eq!(place.reason, Reason::Magic);
    assert!(!place.excerpt.is_empty());
    let strict = ReadOptions {
        on_error: OnError::Fail,
        ..options
    };
    let error = open(&bytes, &strict)
        .unwrap()
        .find_map(Result::err)
        .unwrap();
    assert!(
        error.cause().starts_with("record 2 as CloudPhysics"),
        "{error}"
    );
    // A file of another format is not read as vscsi, whatever format the caller names.
    let error = open(b"0,1,512,R,0\n0,1,512,R,1\n0,1,512,R,2\n", &options).err();
    let error = error.unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.cause().contains("version 1 or 2"), "{error}");
    // An oracleGeneral whose next access is an earlier record.
    let mut bytes = fs::read(fixture(NAMES[2])).unwrap();
    bytes[4 * 24 + 16..].copy_from_slice(&3_i64.to_le_bytes());
    let options = ReadOptions {
        format: Some(Format::OracleGeneral),
        ..ReadOptions::default()
    };
    let mut reader = open(&bytes, &options).unwrap();
    assert_eq!(read_all(&mut reader).len(), 4);
    assert_eq!(reader.skips().count(Reason::Order), 1);
}

#[test]
fn a_binary_file_that_ends_inside_a_record_is_an_error_after_its_whole_records() {
    for (name, record_bytes) in NAMES.into_iter().zip(RECORD_BYTES) {
        let bytes = fs::read(fixture(name)).unwrap();
        let format = TraceReader::open(fixture(name), &ReadOptions::default())
            .unwrap()
            .format();
        for len in record_bytes * 3..bytes.len() {
            for on_error in [OnError::Skip, OnError::Fail] {
                let options = ReadOptions {
                    format: Some(format),
                    on_error,
                    ..ReadOptions::default()
                };
                let reader = open(&bytes[..len], &options).unwrap();
                let results: Vec<_> = reader.collect();
                let whole = len / record_bytes;
                let Some(Err(error)) = results.last() else {
                    assert_eq!(whole * record_bytes, len, "{name}, {len} bytes");
                    continue;
                };
                assert_eq!(error.kind(), Kind::Corrupt);
                let says = format!("after {whole} whole records");
                assert!(error.cause().contains(&says), "{error}");
                assert_eq!(error.offset_bytes(), Some((whole * record_bytes) as u64));
                let step = format!("head -c {}", whole * record_bytes);
                assert!(error.next_step().unwrap().contains(&step), "{error:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn no_nearly_sound_records_make_a_reader_panic(
        file in 0..NAMES.len(), edits in prop::collection::vec((any::<usize>(), any::<u8>()), 0..30),
        cut in any::<usize>(), format in 0..=Format::ALL.len())
    {
        let mut bytes = fs::read(fixture(NAMES[file])).unwrap();
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut % (bytes.len() + 1));
        let _ = detect(&bytes, true);
        let format = Format::ALL.get(format).copied();
        if let Ok(mut reader) = open(&bytes, &ReadOptions { format, ..ReadOptions::default() }) {
            for request in reader.by_ref().flatten() {
                prop_assert!(request.offset_bytes.checked_add(request.len_bytes).is_some());
            }
            let _ = reader.response();
        }
    }
}
