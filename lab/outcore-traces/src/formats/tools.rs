//! The text traces that tools define for their own use: fio's iolog (versions 2 and 3) and the
//! ASCII traces of the simulators MQSim, SSDSim and DiskSim.
//!
//! Contract: as in `published`. fio's log has state: the version in its first line, and in version
//! 2 a clock that only `wait` lines advance. Sources: fio's HOWTO, section "Trace file format";
//! version 3 counts microseconds (seen with fio 3.33). MQSim's README, "trace-based workloads".
//! SSDSim's `get_requests` in `ssd.c`. DiskSim's manual, version 4.0, "ASCII format" of its input
//! traces, and `disksim_iotrace.c`. Sectors are 512 bytes in all simulators.

use crate::formats::{Clock, Names, Parsed, SECTOR_BYTES, request};
use crate::lines::{parse_hex, parse_u32, parse_u64, words};
use crate::request::Op;
use crate::skips::Reason;

/// State of a fio log that later lines depend on.
#[derive(Debug, Default)]
pub(crate) struct FioState {
    /// The version in the first line. While it is 0 (unknown), the number of words decides.
    version: u8,
    /// Version 2: the sum of all waits so far.
    clock_ns: u64,
}

impl FioState {
    /// Parses one line: `file action [offset length]`, preceded by a time in version 3.
    #[inline]
    pub(crate) fn parse(&mut self, line: &[u8], clock: Clock, names: &mut Names) -> Parsed {
        let (words, count) = words::<5>(line).ok_or(Reason::Fields)?;
        if count == 0 {
            return Ok(None);
        }
        if words[0] == b"fio" && words[1] == b"version" {
            return self.header(words[2]);
        }
        let is_v3 = match self.version {
            0 => count == 3 || count == 5,
            version => version == 3,
        };
        let (time, rest, count) = if is_v3 {
            (Some(words[0]), &words[1..], count.saturating_sub(1))
        } else {
            (None, &words[..], count)
        };
        if count < 2 {
            return Err(Reason::Fields);
        }
        let (file, action) = (rest[0], rest[1]);
        let time_ns = match time {
            Some(time) => clock.time_ns(time)?,
            None => self.clock_ns,
        };
        match action {
            b"add" | b"open" | b"close" if count == 2 => {
                names.number(file)?;
                return Ok(None);
            }
            b"wait" => {
                let wait = rest.get(2).copied().unwrap_or_default();
                let wait_ns = clock.time_ns(wait)?;
                self.clock_ns = self.clock_ns.checked_add(wait_ns).ok_or(Reason::Time)?;
                return Ok(None);
            }
            _ => {}
        }
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" | b"sync_file_range" => {
                return request(time_ns, names.number(file)?, Op::Flush, Some(0), Some(0));
            }
            _ => return Err(Reason::Operation),
        };
        if count != 4 {
            return Err(Reason::Fields);
        }
        let offset = parse_u64(rest[2]).ok_or(Reason::Number)?;
        let len = parse_u64(rest[3]).ok_or(Reason::Number)?;
        request(time_ns, names.number(file)?, op, Some(offset), Some(len))
    }

    fn header(&mut self, version: &[u8]) -> Parsed {
        match parse_u64(version) {
            Some(version @ (2 | 3)) => {
                self.version = version as u8;
                self.clock_ns = 0;
                Ok(None)
            }
            // Version 1 has neither files nor times, so its lines would be misread.
            _ => Err(Reason::Operation),
        }
    }
}

/// MQSim: `time_ns device lsn sectors type`; 1 reads, 0 writes (the opposite of Tencent).
#[inline]
pub(crate) fn mqsim(line: &[u8], clock: Clock) -> Parsed {
    let (fields, count) = words::<5>(line).ok_or(Reason::Fields)?;
    if count != 5 {
        return Err(Reason::Fields);
    }
    simulated(fields, read_or_write(fields[4])?, clock)
}

/// SSDSim: MQSim's fields; derived simulators append more, such as a priority.
pub(crate) fn ssdsim(line: &[u8], clock: Clock) -> Parsed {
    let mut next = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let mut fields: [&[u8]; 5] = [&[]; 5];
    for field in &mut fields {
        *field = next.next().ok_or(Reason::Fields)?;
    }
    simulated(fields, read_or_write(fields[4])?, clock)
}

/// DiskSim: MQSim's fields with milliseconds and hexadecimal flags, whose lowest bit is set for a
/// read.
pub(crate) fn disksim(line: &[u8], clock: Clock) -> Parsed {
    let (fields, count) = words::<5>(line).ok_or(Reason::Fields)?;
    if count != 5 {
        return Err(Reason::Fields);
    }
    let flags = parse_hex(fields[4]).filter(|flags| *flags <= u64::from(u32::MAX));
    let op = match flags.ok_or(Reason::Operation)? & 1 {
        1 => Op::Read,
        _ => Op::Write,
    };
    simulated(fields, op, clock)
}

/// Whether the time of a line of such a format has decimals, as DiskSim writes it.
pub(crate) fn has_decimals(line: &[u8]) -> bool {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    words.next().is_some_and(|time| time.contains(&b'.'))
}

fn read_or_write(kind: &[u8]) -> Result<Op, Reason> {
    match kind {
        b"1" => Ok(Op::Read),
        b"0" => Ok(Op::Write),
        _ => Err(Reason::Operation),
    }
}

/// The request of `time device lsn sectors kind`.
#[inline]
fn simulated(fields: [&[u8]; 5], op: Op, clock: Clock) -> Parsed {
    let [time, device, lsn, sectors, _] = fields;
    let device = parse_u32(device).ok_or(Reason::Number)?;
    let lsn = parse_u64(lsn).ok_or(Reason::Number)?;
    let sectors = parse_u64(sectors).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    let len_bytes = sectors.checked_mul(SECTOR_BYTES);
    request(
        time_ns,
        device,
        op,
        lsn.checked_mul(SECTOR_BYTES),
        len_bytes,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::request::Request;

    fn all(text: &str) -> (Vec<Request>, Vec<Reason>, Names) {
        let (mut state, mut names) = (FioState::default(), Names::default());
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match state.parse(line.as_bytes(), Format::Fio.clock(), &mut names) {
                Ok(request) => good.extend(request),
                Err(reason) => bad.push(reason),
            }
        }
        (good, bad, names)
    }

    #[test]
    fn fio_version_3_has_microseconds_in_front() {
        let (good, bad, names) = all("fio version 3 iolog\n10 /dev/a add\n11 /dev/b add\n\
            20 /dev/b write 4096 512\n21 /dev/a trim 0 2147483648\n22 /dev/a sync 0 0\n\
            23 /dev/b datasync\n24 /dev/a close\n25 /dev/a jump 1 2\n26 /dev/a read 1\n/dev/a read 1 2\n");
        let request = |time_us: u64, device, op, offset_bytes, len_bytes| Request {
            time_ns: time_us * 1000,
            device,
            op,
            offset_bytes,
            len_bytes,
        };
        assert_eq!(
            good,
            [
                request(20, 1, Op::Write, 4096, 512),
                request(21, 0, Op::Trim, 0, 1 << 31),
                request(22, 0, Op::Flush, 0, 0),
                request(23, 1, Op::Flush, 0, 0),
            ]
        );
        assert_eq!(bad, [Reason::Operation, Reason::Fields, Reason::Time]);
        assert_eq!(
            (names.name(0), names.name(1)),
            (Some("/dev/a"), Some("/dev/b"))
        );
    }

    #[test]
    fn fio_version_2_moves_its_clock_by_wait_lines() {
        let (good, bad, _) = all(
            "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 150 0\n\
            f write 4096 4096\nf wait 50\nf read 8192 4096\nf wait x\nf close\n",
        );
        let times: Vec<u64> = good.iter().map(|request| request.time_ns).collect();
        assert_eq!(times, [0, 150_000, 200_000]);
        assert_eq!(bad, [Reason::Time]);
    }

    #[test]
    fn a_fio_log_without_its_first_line_or_of_another_version_is_told_apart() {
        let (good, _, _) = all("5 f write 0 512\n");
        assert_eq!(good[0].time_ns, 5_000);
        let (good, _, _) = all("f write 0 512\n");
        assert_eq!(good[0].time_ns, 0);
        let (_, bad, _) = all("fio version 9 iolog\n");
        assert_eq!(bad, [Reason::Operation]);
    }

    #[test]
    fn mqsim_counts_sectors_and_1_reads() {
        let parse = |line: &str| mqsim(line.as_bytes(), Format::Mqsim.clock());
        let request = |op| {
            Ok(Some(Request {
                time_ns: 9,
                device: 2,
                op,
                offset_bytes: 5120,
                len_bytes: 4096,
            }))
        };
        assert_eq!(parse("9 2 10 8 1"), request(Op::Read));
        assert_eq!(parse("9\t2  10 8 0 "), request(Op::Write));
        assert_eq!(parse("9 2 10 8 2"), Err(Reason::Operation));
        assert_eq!(parse("9 2 10 8"), Err(Reason::Fields));
        assert_eq!(parse("9 2 36028797018963968 8 1"), Err(Reason::Range));
    }

    #[test]
    fn ssdsim_has_the_fields_of_mqsim_and_may_have_more() {
        let parse = |line: &str| ssdsim(line.as_bytes(), Format::Ssdsim.clock());
        let request = |op| {
            Ok(Some(Request {
                time_ns: 9,
                device: 2,
                op,
                offset_bytes: 5120,
                len_bytes: 4096,
            }))
        };
        assert_eq!(parse("9 2 10 8 1"), request(Op::Read));
        assert_eq!(parse("9 2 10 8 0 1 0.5"), request(Op::Write));
        assert_eq!(parse("9 2 10 8"), Err(Reason::Fields));
        assert_eq!(parse("9 2 10 8 R"), Err(Reason::Operation));
        assert_eq!(parse("9 2 10 -8 1"), Err(Reason::Number));
        assert_eq!(parse("9.5 2 10 8 1"), Err(Reason::Decimals));
        assert_eq!(parse("-9 2 10 8 1"), Err(Reason::Time));
    }

    #[test]
    fn disksim_counts_milliseconds_and_the_lowest_flag_reads() {
        let parse = |line: &str| disksim(line.as_bytes(), Format::Disksim.clock());
        let request = |op| {
            Ok(Some(Request {
                time_ns: 26_214_500,
                device: 30,
                op,
                offset_bytes: 602_470 * 512,
                len_bytes: 2560,
            }))
        };
        assert_eq!(parse("26.214500 30 602470 5 1"), request(Op::Read));
        assert_eq!(parse("26.2145 30 602470 5 0"), request(Op::Write));
        // Flags are hexadecimal: time-critical and asynchronous requests have more bits.
        assert_eq!(parse("26.2145 30 602470 5 1b"), request(Op::Read));
        assert_eq!(parse("26.2145 30 602470 5 0x10"), request(Op::Write));
        assert_eq!(parse("26.2145 30 602470 5 R"), Err(Reason::Operation));
        assert_eq!(
            parse("26.2145 30 602470 5 100000000"),
            Err(Reason::Operation)
        );
        assert_eq!(parse("26.2145 30 602470 5"), Err(Reason::Fields));
        assert_eq!(parse("26.2145 30 602470 5 1 7"), Err(Reason::Fields));
        assert_eq!(parse("26.2145 x 602470 5 1"), Err(Reason::Number));
        assert_eq!(parse("2e1 30 602470 5 1"), Err(Reason::Time));
        assert!(has_decimals(b"  1.5 0 0 1 1") && !has_decimals(b"15 0 0.5 1 1"));
    }
}
