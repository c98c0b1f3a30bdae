//! Binary traces of records of one size: CloudPhysics vscsi, versions 1 and 2, and libCacheSim's
//! oracleGeneral.
//!
//! Contract: all numbers are little-endian. Memory: one record. A damaged record is a [`Reason`];
//! since records have one size, reading continues with the next. Detection requires at least two
//! records, and all records of the head must agree with the layout. If the head is damaged, the
//! caller must therefore name the format.
//!
//! Sources: libCacheSim, `traceReader/customizedReader/vscsi.h` (records, version in the high byte
//! of `ver`, microseconds), `oracle/oracleGeneralBin.h` and `traceConvOracleGeneral.cpp` (seconds;
//! the next access counts from 1, and is -1 if there is none).
//!
//! - vscsi 1, 32 bytes: serial u32, bytes u32, segments u32, command u16, version u16, LBN u64,
//!   time u64
//! - vscsi 2, 40 bytes: command u16, version u16, serial u32, bytes u32, segments u32, LBN u64,
//!   time u64, response u64
//! - oracleGeneral, 24 bytes: time u32, object u64, bytes u32, next access i64

use std::collections::HashSet;
use std::io::{self, BufRead};

use crate::formats::{Format, Parsed, SECTOR_BYTES, request, scsi};
use crate::lines::read_up_to;
use crate::request::Op;
use crate::skips::Reason;

/// Bytes of the longest record.
const RECORD_BYTES_MAX: usize = 40;

/// Minimum number of records that identify a layout.
const RECORDS_MIN: usize = 2;

/// Maximum number of vscsi records that are examined for their version.
const VERSIONS_MAX: usize = 64;

/// No trace has this many requests. Text read as such a number would be larger, because text has no
/// zero bytes.
const NEXT_ACCESS_END: i64 = 1 << 48;

/// The layout of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// CloudPhysics vscsi, version 1.
    Vscsi1,
    /// CloudPhysics vscsi, version 2.
    Vscsi2,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
}

fn u16_at(record: &[u8], at: usize) -> u16 {
    let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
    u16::from_le_bytes(bytes.copied().unwrap_or_default())
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
    u64::from_le_bytes(bytes.copied().unwrap_or_default())
}

impl Layout {
    /// Bytes of a record.
    const fn record_bytes(self) -> usize {
        match self {
            Layout::Vscsi1 => 32,
            Layout::Vscsi2 => 40,
            Layout::OracleGeneral => 24,
        }
    }

    /// The layout of a file that is known to have `format`; `None` if its records fit no layout of
    /// the format.
    pub(crate) fn of(format: Format, head: &[u8]) -> Option<Layout> {
        if format == Format::OracleGeneral {
            return Some(Layout::OracleGeneral);
        }
        let counts =
            [Layout::Vscsi1, Layout::Vscsi2].map(|layout| (layout.agreeing(head).0, layout));
        let [one, two] = counts;
        let (count, layout) = if two.0 > one.0 { two } else { one };
        (count > 0).then_some(layout)
    }

    /// Number of vscsi records at the start of `head` that have this version, and number of all
    /// records that were examined.
    fn agreeing(self, head: &[u8]) -> (usize, usize) {
        let records = head.chunks_exact(self.record_bytes()).take(VERSIONS_MAX);
        records.fold((0, 0), |(agreeing, all), record| {
            (agreeing + usize::from(self.is_version_of(record)), all + 1)
        })
    }

    /// Whether a vscsi record has this version and a SCSI command of one byte.
    fn is_version_of(self, record: &[u8]) -> bool {
        let (command_at, version) = match self {
            Layout::Vscsi1 => (12, 1),
            _ => (0, 2),
        };
        u16_at(record, command_at) <= 0xff && u16_at(record, command_at + 2) >> 8 == version
    }

    /// The request of a record; `number` counts records from 1.
    fn parse(self, record: &[u8], number: u64, unit_ns: u64) -> Parsed {
        let time = |time: u64| time.checked_mul(unit_ns).ok_or(Reason::Time);
        let (command_at, bytes_at, lbn_at) = match self {
            Layout::Vscsi1 => (12, 4, 16),
            Layout::Vscsi2 => (0, 8, 16),
            Layout::OracleGeneral => {
                let next = u64_at(record, 16).cast_signed();
                if next != -1 && (next < 0 || next.unsigned_abs() < number) {
                    return Err(Reason::Order);
                }
                let offset_bytes = u64_at(record, 4).checked_mul(SECTOR_BYTES);
                let len_bytes = Some(u64::from(u32_at(record, 12)));
                let time_ns = time(u64::from(u32_at(record, 0)))?;
                return request(time_ns, 0, Op::Read, offset_bytes, len_bytes);
            }
        };
        if !self.is_version_of(record) {
            return Err(Reason::Magic);
        }
        let Some(op) = scsi::op_of(u64::from(u16_at(record, command_at)))? else {
            return Ok(None);
        };
        let time_ns = time(u64_at(record, 24))?;
        if op == Op::Flush {
            return request(time_ns, 0, op, Some(0), Some(0));
        }
        let offset_bytes = u64_at(record, lbn_at).checked_mul(SECTOR_BYTES);
        let len_bytes = Some(u64::from(u32_at(record, bytes_at)));
        request(time_ns, 0, op, offset_bytes, len_bytes)
    }
}

/// The binary format of `head`, if its records leave no doubt.
pub(crate) fn detect(head: &[u8]) -> Option<Format> {
    let is_version = |layout: Layout| {
        let (agreeing, all) = layout.agreeing(head);
        agreeing == all && all >= RECORDS_MIN
    };
    if is_version(Layout::Vscsi1) != is_version(Layout::Vscsi2) {
        return Some(Format::VscsiBinary);
    }
    [0, 1]
        .into_iter()
        .any(|first| is_oracle_general(head, first))
        .then_some(Format::OracleGeneral)
}

/// Whether the records of `head` are those of oracleGeneral, counted from `first`. Times never
/// decrease. The next access of an object is a record with the same object. An object without a
/// next access does not return. At least one record must confirm these rules.
fn is_oracle_general(head: &[u8], first: i64) -> bool {
    let records: Vec<&[u8]> = head
        .chunks_exact(Layout::OracleGeneral.record_bytes())
        .collect();
    let (mut last_time, mut confirmed) = (0, 0);
    let mut ended = HashSet::new();
    for (number, record) in (first..).zip(&records) {
        let (time, object) = (u32_at(record, 0), u64_at(record, 4));
        if time < last_time || ended.contains(&object) {
            return false;
        }
        last_time = time;
        let next = u64_at(record, 16).cast_signed();
        if matches!(next, -1 | i64::MAX) {
            ended.insert(object);
            confirmed += 1;
            continue;
        }
        if next <= number || next >= NEXT_ACCESS_END {
            return false;
        }
        let place = usize::try_from(next - first).ok();
        if let Some(later) = place.and_then(|place| records.get(place)) {
            if u64_at(later, 4) != object {
                return false;
            }
            confirmed += 1;
        }
    }
    records.len() >= RECORDS_MIN && confirmed > 0
}

/// Reads records from a stream.
pub(crate) struct RecordReader<R> {
    inner: R,
    layout: Layout,
    unit_ns: u64,
    record: [u8; RECORD_BYTES_MAX],
    /// Number of the record read last.
    number: u64,
    start_bytes: u64,
    next_bytes: u64,
}

impl<R: BufRead> RecordReader<R> {
    pub(crate) fn new(inner: R, layout: Layout, unit_ns: u64) -> Self {
        RecordReader {
            inner,
            layout,
            unit_ns,
            record: [0; RECORD_BYTES_MAX],
            number: 0,
            start_bytes: 0,
            next_bytes: 0,
        }
    }

    /// Number of the last record, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Offset of the last record.
    pub(crate) fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.next_bytes
    }

    /// The next record as a request; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Parsed>> {
        self.start_bytes = self.next_bytes;
        let record_bytes = self.layout.record_bytes();
        let got = read_up_to(&mut self.inner, &mut self.record[..record_bytes])?;
        if got == 0 {
            return Ok(None);
        }
        self.next_bytes += got as u64;
        self.number += 1;
        if got < record_bytes {
            return Ok(Some(Err(Reason::Truncated)));
        }
        let record = &self.record[..record_bytes];
        Ok(Some(self.layout.parse(record, self.number, self.unit_ns)))
    }

    /// The bytes of the last record.
    pub(crate) fn record(&self) -> &[u8] {
        &self.record[..self.layout.record_bytes()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use std::io::{BufReader, Cursor};

    /// A vscsi record of version 1 or 2.
    fn vscsi(version: u16, command: u16, bytes: u32, lbn: u64, us: u64) -> Vec<u8> {
        let serial = 0x8000_00f4_u32.to_le_bytes();
        let (bytes, segments) = (bytes.to_le_bytes(), 1_u32.to_le_bytes());
        let kind = [command.to_le_bytes(), (version << 8).to_le_bytes()].concat();
        let place = [lbn.to_le_bytes(), us.to_le_bytes()].concat();
        match version {
            1 => [&serial[..], &bytes, &segments, &kind, &place].concat(),
            _ => [&kind[..], &serial, &bytes, &segments, &place, &[9; 8]].concat(),
        }
    }

    fn oracle(time: u32, object: u64, bytes: u32, next: i64) -> Vec<u8> {
        let (time, bytes) = (time.to_le_bytes(), bytes.to_le_bytes());
        [
            &time[..],
            &object.to_le_bytes(),
            &bytes,
            &next.to_le_bytes(),
        ]
        .concat()
    }

    fn request(time_ns: u64, op: Op, offset_bytes: u64, len_bytes: u64) -> Parsed {
        Ok(Some(Request {
            time_ns,
            device: 0,
            op,
            offset_bytes,
            len_bytes,
        }))
    }

    fn all(bytes: &[u8], layout: Layout, unit_ns: u64) -> Vec<Parsed> {
        let read = |buffer_bytes| {
            let inner = BufReader::with_capacity(buffer_bytes, Cursor::new(bytes));
            let mut reader = RecordReader::new(inner, layout, unit_ns);
            let mut out = Vec::new();
            while let Some(parsed) = reader.next().unwrap() {
                out.push(parsed);
                assert_eq!(reader.number(), out.len() as u64);
            }
            assert_eq!(reader.bytes(), bytes.len() as u64);
            out
        };
        let parsed = read(4096);
        assert_eq!(parsed, read(7));
        parsed
    }

    #[test]
    fn both_versions_of_vscsi_have_microseconds_bytes_and_sectors() {
        for (version, layout) in [(1, Layout::Vscsi1), (2, Layout::Vscsi2)] {
            let records = [
                vscsi(version, 0x2a, 6656, 40_409_911, 5_633_898_967_708),
                vscsi(version, 0x28, 512, 1, 7),
                vscsi(version, 0x35, 512, 1, 8),
                vscsi(version, 0x12, 36, 0, 9),
                vscsi(version, 0x42, 24, 3, 10),
            ];
            let bytes = records.concat();
            assert_eq!(detect(&bytes), Some(Format::VscsiBinary));
            assert_eq!(Layout::of(Format::VscsiBinary, &bytes), Some(layout));
            assert_eq!(
                all(&bytes, layout, 1000),
                [
                    request(5_633_898_967_708_000, Op::Write, 40_409_911 * 512, 6656),
                    request(7_000, Op::Read, 512, 512),
                    request(8_000, Op::Flush, 0, 0),
                    Ok(None),
                    request(10_000, Op::Trim, 1536, 24),
                ]
            );
        }
    }

    #[test]
    fn damaged_vscsi_records_are_told_apart_and_the_next_is_read() {
        let sound = vscsi(1, 0x28, 512, 1, 7);
        let mut other = sound.clone();
        other[15] = 3;
        let records = [
            sound.clone(),
            other,
            vscsi(1, 0x28, 512, u64::MAX / 512 + 1, 7),
            vscsi(1, 0x28, 512, 1, u64::MAX / 2),
            sound.clone(),
            sound[..31].to_vec(),
        ];
        assert_eq!(
            all(&records.concat(), Layout::Vscsi1, 1000),
            [
                request(7_000, Op::Read, 512, 512),
                Err(Reason::Magic),
                Err(Reason::Range),
                Err(Reason::Time),
                request(7_000, Op::Read, 512, 512),
                Err(Reason::Truncated),
            ]
        );
        // Damage in the head leaves a doubt; a caller who knows the format reads it.
        assert_eq!(detect(&records.concat()), None);
        let layout = Layout::of(Format::VscsiBinary, &records.concat());
        assert_eq!(layout, Some(Layout::Vscsi1));
        assert_eq!(Layout::of(Format::VscsiBinary, &[7; 4096]), None);
        // One record identifies nothing.
        assert_eq!(detect(&sound), None);
    }

    #[test]
    fn oracle_general_is_recognised_by_the_next_access_of_each_object() {
        for first in [0, 1] {
            let records = [
                oracle(5, 100, 4096, 2 + first),
                oracle(5, 7, 512, -1),
                oracle(6, 100, 4096, 900),
                oracle(9, 8, 1024, i64::MAX),
            ];
            let bytes = records.concat();
            assert_eq!(detect(&bytes), Some(Format::OracleGeneral));
            assert_eq!(
                all(&bytes, Layout::OracleGeneral, 1_000_000_000),
                [
                    request(5_000_000_000, Op::Read, 51_200, 4096),
                    request(5_000_000_000, Op::Read, 3584, 512),
                    request(6_000_000_000, Op::Read, 51_200, 4096),
                    request(9_000_000_000, Op::Read, 4096, 1024),
                ]
            );
        }
        let not = [
            // The next access has another object or is an earlier record, or times run backwards.
            [oracle(5, 100, 4096, 1), oracle(5, 7, 512, -1)],
            [oracle(5, 100, 4096, -1), oracle(5, 7, 512, 1)],
            [oracle(5, 100, 4096, -1), oracle(4, 7, 512, -1)],
            // An object that has ended returns.
            [oracle(5, 100, 4096, -1), oracle(5, 100, 512, -1)],
            // Nothing confirms it.
            [oracle(5, 100, 4096, 77), oracle(5, 7, 512, 78)],
        ];
        for records in not {
            assert_eq!(detect(&records.concat()), None, "{records:?}");
        }
        for bytes in [&[0; 96][..], &[b'1'; 96], &[0xff; 96], &oracle(5, 1, 1, -1)] {
            assert_eq!(detect(bytes), None);
        }
        let damaged = [
            oracle(5, u64::MAX, 1, -1),
            oracle(5, 1, 1, 1),
            oracle(5, 1, 1, -2),
        ];
        assert_eq!(
            all(&damaged.concat(), Layout::OracleGeneral, 1),
            [Err(Reason::Range), Err(Reason::Order), Err(Reason::Order)]
        );
    }
}
