//! The published trace collections in text: SPC (UMass), FIU, MSR Cambridge, Alibaba, Tencent CBS,
//! CloudPhysics vscsi and SYSTOR '17. One function per format turns a line into a request.
//!
//! Contract: a line is a request or a [`Reason`]; nothing is guessed. Sectors are 512 bytes in
//! all of them. Sources: UMass Trace Repository (SPC trace file format, revision 1.0.1), SNIA
//! IOTTA (FIU, MSR Cambridge, Tencent CBS, SYSTOR '17 with its README), alibaba/block-traces, and
//! the CSV form of the CloudPhysics records in libCacheSim.

use crate::formats::{Clock, Names, Parsed, SECTOR_BYTES, request, scsi};
use crate::lines::{parse_hex, parse_u32, parse_u64, split};
use crate::request::Op;
use crate::skips::Reason;
use crate::stages::Timing;

/// SPC: `ASU,LBA,size,R|r|W|w,seconds[,extras...]`; LBA in sectors, size in bytes.
///
/// Spaces may follow the commas. Further fields may follow the time, and their number may vary by
/// line. Equal times and sizes of zero are legal.
#[inline]
pub(crate) fn spc(line: &[u8], clock: Clock) -> Parsed {
    let mut fields = line.splitn(6, |byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut next = || fields.next().ok_or(Reason::Fields);
    let (asu, lba, size, opcode, time) = (next()?, next()?, next()?, next()?, next()?);
    let op = match opcode {
        b"R" | b"r" => Op::Read,
        b"W" | b"w" => Op::Write,
        _ => return Err(Reason::Operation),
    };
    let device = parse_u32(asu).ok_or(Reason::Number)?;
    let lba = parse_u64(lba).ok_or(Reason::Number)?;
    let size = parse_u64(size).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    request(
        time_ns,
        device,
        op,
        lba.checked_mul(SECTOR_BYTES),
        Some(size),
    )
}

/// FIU: `time pid process lba sectors R|W major minor [md5]`, separated by spaces.
///
/// Process names may contain spaces, so the line is parsed from both ends inwards; some sets omit
/// the MD5. The device number is `major << 20 | minor`, as in Linux. Files are not ordered by time.
#[inline]
pub(crate) fn fiu(line: &[u8], clock: Clock) -> Parsed {
    let mut from_left = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let time = from_left.next().ok_or(Reason::Fields)?;
    let pid = from_left.next().ok_or(Reason::Fields)?;
    let mut from_right = line
        .rsplit(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let mut next = || from_right.next().ok_or(Reason::Fields);
    let last = [next()?, next()?, next()?, next()?];
    let direction = |word: &[u8]| match word {
        b"R" | b"r" => Some(Op::Read),
        b"W" | b"w" => Some(Op::Write),
        _ => None,
    };
    // [md5, minor, major, op] or, without the MD5, [minor, major, op, sectors].
    let (op, major, minor, sectors) = match (direction(last[3]), direction(last[2])) {
        (Some(op), _) => (op, last[2], last[1], next()?),
        (None, Some(op)) => (op, last[1], last[0], last[3]),
        (None, None) => return Err(Reason::Operation),
    };
    let lba = next()?;
    // The text between the process number and the LBA is the process name. If it is missing, the
    // fields were counted wrongly.
    let name_start = offset_in(line, pid) + pid.len();
    if line
        .get(name_start..offset_in(line, lba))
        .is_none_or(|name| name.trim_ascii().is_empty())
    {
        return Err(Reason::Fields);
    }
    parse_u64(pid).ok_or(Reason::Number)?;
    let lba = parse_u64(lba).ok_or(Reason::Number)?;
    let sectors = parse_u64(sectors).ok_or(Reason::Number)?;
    let major = parse_u64(major)
        .filter(|n| *n < 1 << 12)
        .ok_or(Reason::Number)?;
    let minor = parse_u64(minor)
        .filter(|n| *n < 1 << 20)
        .ok_or(Reason::Number)?;
    let device = u32::try_from((major << 20) | minor).map_err(|_| Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    let len_bytes = sectors.checked_mul(SECTOR_BYTES);
    request(
        time_ns,
        device,
        op,
        lba.checked_mul(SECTOR_BYTES),
        len_bytes,
    )
}

/// MSR Cambridge: `FILETIME,host,disk,Read|Write,offset,size,response`, offset and size in bytes.
///
/// Times are ticks of 100 ns since 1601; lines are not strictly sorted. The unit of the response is
/// disputed, so the field must be present but is not used.
#[inline]
pub(crate) fn msr(line: &[u8], clock: Clock, names: &mut Names) -> Parsed {
    let (fields, count) = split::<7>(line, b',').ok_or(Reason::Fields)?;
    let [time, host, disk, op, offset, size, _response] = fields;
    if count != 7 {
        return Err(Reason::Fields);
    }
    let op = if op.eq_ignore_ascii_case(b"Read") {
        Op::Read
    } else if op.eq_ignore_ascii_case(b"Write") {
        Op::Write
    } else {
        return Err(Reason::Operation);
    };
    parse_u32(disk).ok_or(Reason::Number)?;
    let offset = parse_u64(offset).ok_or(Reason::Number)?;
    let size = parse_u64(size).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    // Host and disk are adjacent fields; the text of both names the device.
    let (start, end) = (offset_in(line, host), offset_in(line, disk) + disk.len());
    let device = names.number(line.get(start..end).ok_or(Reason::Fields)?)?;
    request(time_ns, device, op, Some(offset), Some(size))
}

/// Alibaba: `device,R|W,offset,length,microseconds`, offset and length in bytes.
#[inline]
pub(crate) fn alibaba(line: &[u8], clock: Clock) -> Parsed {
    let (fields, count) = split::<5>(line, b',').ok_or(Reason::Fields)?;
    let [device, op, offset, len, time] = fields;
    if count != 5 {
        return Err(Reason::Fields);
    }
    let op = match op {
        b"R" | b"r" => Op::Read,
        b"W" | b"w" => Op::Write,
        _ => return Err(Reason::Operation),
    };
    let device = parse_u32(device).ok_or(Reason::Number)?;
    let offset = parse_u64(offset).ok_or(Reason::Number)?;
    let len = parse_u64(len).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    request(time_ns, device, op, Some(offset), Some(len))
}

/// Tencent CBS: `seconds,offset,size,0|1,volume`, offset and size in sectors; 0 reads, 1 writes
/// (the opposite of MQSim).
#[inline]
pub(crate) fn tencent(line: &[u8], clock: Clock) -> Parsed {
    let (fields, count) = split::<5>(line, b',').ok_or(Reason::Fields)?;
    let [time, offset, size, op, volume] = fields;
    if count != 5 {
        return Err(Reason::Fields);
    }
    let op = match op {
        b"0" => Op::Read,
        b"1" => Op::Write,
        _ => return Err(Reason::Operation),
    };
    let device = parse_u32(volume).ok_or(Reason::Number)?;
    let offset = parse_u64(offset).ok_or(Reason::Number)?;
    let size = parse_u64(size).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    let len_bytes = size.checked_mul(SECTOR_BYTES);
    request(
        time_ns,
        device,
        op,
        offset.checked_mul(SECTOR_BYTES),
        len_bytes,
    )
}

/// CloudPhysics vscsi as CSV: `version,time,opcode,size,lbn`. The SCSI opcode is hexadecimal, the
/// size is in bytes, the LBN in sectors. Commands that neither move nor discard data are skipped.
#[inline]
pub(crate) fn vscsi(line: &[u8], clock: Clock) -> Parsed {
    let (fields, count) = split::<5>(line, b',').ok_or(Reason::Fields)?;
    let [version, time, opcode, size, lbn] = fields;
    if count != 5 {
        return Err(Reason::Fields);
    }
    if !matches!(version, b"1" | b"2") {
        return Err(Reason::Number);
    }
    let opcode = parse_hex(opcode).ok_or(Reason::Operation)?;
    let size = parse_u64(size).ok_or(Reason::Number)?;
    let lbn = parse_u64(lbn).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    let op = match scsi::op_of(opcode)? {
        Some(op) => op,
        None => return Ok(None),
    };
    if op == Op::Flush {
        return request(time_ns, 0, op, Some(0), Some(0));
    }
    request(time_ns, 0, op, lbn.checked_mul(SECTOR_BYTES), Some(size))
}

/// SYSTOR '17: `seconds,response,R|W|,LUN,offset,size`, offset and size in bytes. A blank operation
/// means that the answer, and with it the operation, was lost. Such a line is no request.
#[inline]
pub(crate) fn systor(line: &[u8], clock: Clock, timing: &mut Timing) -> Parsed {
    let (fields, count) = split::<6>(line, b',').ok_or(Reason::Fields)?;
    let [time, response, op, lun, offset, size] = fields;
    if count != 6 {
        return Err(Reason::Fields);
    }
    let op = match op {
        b"R" => Some(Op::Read),
        b"W" => Some(Op::Write),
        b"" => None,
        _ => return Err(Reason::Operation),
    };
    let device = parse_u32(lun).ok_or(Reason::Number)?;
    let offset = parse_u64(offset).ok_or(Reason::Number)?;
    let size = parse_u64(size).ok_or(Reason::Number)?;
    let time_ns = clock.time_ns(time)?;
    // The authors mention irregular response times, so a negative one is unknown, not an error.
    if !response.is_empty() && !response.starts_with(b"-") {
        let response_ns = clock.time_ns(response)?;
        *timing = op.map_or(Timing::Unknown, |_| Timing::Took { response_ns });
    }
    match op {
        Some(op) => request(time_ns, device, op, Some(offset), Some(size)),
        None => Ok(None),
    }
}

/// Offset of `part`, a slice of `whole`, within it.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::request::Request;

    fn read(device: u32, time_ns: u64, offset_bytes: u64, len_bytes: u64) -> Parsed {
        Ok(Some(Request {
            time_ns,
            device,
            op: Op::Read,
            offset_bytes,
            len_bytes,
        }))
    }

    fn write(device: u32, time_ns: u64, offset_bytes: u64, len_bytes: u64) -> Parsed {
        Ok(Some(Request {
            time_ns,
            device,
            op: Op::Write,
            offset_bytes,
            len_bytes,
        }))
    }

    #[test]
    fn spc_takes_spaces_extras_small_letters_and_zero_sizes() {
        let parse = |line: &str| spc(line.as_bytes(), Format::Spc.clock());
        assert_eq!(
            parse("3,200,4096,r,0.5"),
            read(3, 500_000_000, 102_400, 4096)
        );
        assert_eq!(
            parse("0, 1, 512, W, 2.000001, x, 7"),
            write(0, 2_000_001_000, 512, 512)
        );
        assert_eq!(parse("0,1,0,R,0"), read(0, 0, 512, 0));
        assert_eq!(parse("0,1,512,R"), Err(Reason::Fields));
        assert_eq!(parse("0,1,512,X,0"), Err(Reason::Operation));
        assert_eq!(parse("0,-1,512,R,0"), Err(Reason::Number));
        assert_eq!(parse("0,1,512,R,noon"), Err(Reason::Time));
        assert_eq!(parse("0,36028797018963968,512,R,0"), Err(Reason::Range));
        assert_eq!(parse("0,36028797018963967,513,R,0"), Err(Reason::Range));
    }

    #[test]
    fn fiu_is_read_from_the_right_because_process_names_hold_spaces() {
        let parse = |line: &str| fiu(line.as_bytes(), Format::Fiu.clock());
        let md5 = "0123456789abcdef0123456789abcdef";
        let device = (8 << 20) | 2;
        let line = format!("77 4892 my  own daemon W 1000 8 W 8 2 {md5}");
        assert_eq!(parse(&line), write(device, 77, 512_000, 4096));
        assert_eq!(
            parse("77 4892 cron 1000 1 R 8 2"),
            read(device, 77, 512_000, 512)
        );
        // With a missing field no process name is left.
        assert_eq!(
            parse(&format!("77 4892 1000 8 W 8 2 {md5}")),
            Err(Reason::Fields)
        );
        assert_eq!(
            parse(&format!("77 4892 cron 1000 8 Q 8 2 {md5}")),
            Err(Reason::Operation)
        );
        assert_eq!(
            parse(&format!("77 x cron 1000 8 W 8 2 {md5}")),
            Err(Reason::Number)
        );
        assert_eq!(parse("77 4892"), Err(Reason::Fields));
        assert_eq!(parse("W W W W W W"), Err(Reason::Fields));
    }

    #[test]
    fn msr_counts_ticks_of_100_ns_and_names_devices_by_host_and_disk() {
        let mut names = Names::default();
        let mut parse = |line: &str| msr(line.as_bytes(), Format::Msr.clock(), &mut names);
        let ticks = 128_166_372_003_061_629_u64;
        let line = format!("{ticks},hm,1,Read,383496192,32768,113736");
        assert_eq!(parse(&line), read(0, ticks * 100, 383_496_192, 32_768));
        let line = format!("{ticks},hm,0,Write,0,512,1");
        assert_eq!(parse(&line), write(1, ticks * 100, 0, 512));
        let line = format!("{ticks},hm,1,read,1,2,1");
        assert_eq!(parse(&line), read(0, ticks * 100, 1, 2));
        assert_eq!(parse("1,hm,1,Erase,0,512,1"), Err(Reason::Operation));
        assert_eq!(parse("1,hm,one,Read,0,512,1"), Err(Reason::Number));
        assert_eq!(parse("1,hm,1,Read,0,512"), Err(Reason::Fields));
        assert_eq!(
            parse("18446744073709551615,hm,1,Read,0,512,1"),
            Err(Reason::Time)
        );
        assert_eq!(names.name(0), Some("hm,1"));
    }

    #[test]
    fn alibaba_counts_bytes_and_microseconds() {
        let parse = |line: &str| alibaba(line.as_bytes(), Format::Alibaba.clock());
        assert_eq!(
            parse("419,W,8792731648,16384,1577808000000044"),
            write(419, 1_577_808_000_000_044_000, 8_792_731_648, 16_384)
        );
        assert_eq!(parse("419,W,1,2,3,4"), Err(Reason::Fields));
        assert_eq!(parse("419,T,1,2,3"), Err(Reason::Operation));
    }

    #[test]
    fn tencent_counts_sectors_and_0_reads() {
        let parse = |line: &str| tencent(line.as_bytes(), Format::Tencent.clock());
        assert_eq!(
            parse("1538323200,8,16,0,1063"),
            read(1063, 1_538_323_200_000_000_000, 4096, 8192)
        );
        assert_eq!(
            parse("1538323200,8,16,1,1063"),
            write(1063, 1_538_323_200_000_000_000, 4096, 8192)
        );
        assert_eq!(parse("1538323200,8,16,2,1063"), Err(Reason::Operation));
    }

    #[test]
    fn vscsi_knows_scsi_commands_and_passes_over_those_without_data() {
        let parse = |line: &str| vscsi(line.as_bytes(), Format::Vscsi.clock());
        assert_eq!(
            parse("1,5,28,512,42932745"),
            read(0, 5_000_000_000, 42_932_745 * 512, 512)
        );
        assert_eq!(parse("1,5,2A,512,1"), write(0, 5_000_000_000, 512, 512));
        assert_eq!(parse("2,5,0x8a,512,1"), write(0, 5_000_000_000, 512, 512));
        assert!(matches!(
            parse("1,5,35,0,0"),
            Ok(Some(Request { op: Op::Flush, .. }))
        ));
        assert!(matches!(
            parse("1,5,42,0,0"),
            Ok(Some(Request { op: Op::Trim, .. }))
        ));
        assert_eq!(parse("1,5,12,36,0"), Ok(None));
        assert_eq!(parse("1,5,128,36,0"), Err(Reason::Operation));
        assert_eq!(parse("9,5,28,36,0"), Err(Reason::Number));
    }

    #[test]
    fn systor_counts_bytes_and_seconds_and_knows_response_times() {
        let parse = |line: &str| {
            let mut timing = Timing::Unknown;
            let parsed = systor(line.as_bytes(), Format::Systor.clock(), &mut timing);
            (parsed, timing)
        };
        let took = |response_ns| Timing::Took { response_ns };
        let time_ns = 1_456_095_145_133_076_000;
        assert_eq!(
            parse("1456095145.133076000,0.000806000,R,0,899056122368,131072"),
            (read(0, time_ns, 899_056_122_368, 131_072), took(806_000))
        );
        assert_eq!(
            parse("1456095145.133076000,,W,6,4096,512"),
            (write(6, time_ns, 4096, 512), Timing::Unknown)
        );
        assert_eq!(
            parse("1456095145.133076000,-0.1,W,6,4096,512"),
            (write(6, time_ns, 4096, 512), Timing::Unknown)
        );
        // The answer was lost.
        assert_eq!(
            parse("1456095145.133076000,0.5,,6,4096,512"),
            (Ok(None), Timing::Unknown)
        );
        for (line, reason) in [
            ("1,0.5,R,0,4096", Reason::Fields),
            ("1,0.5,R,0,4096,512,7", Reason::Fields),
            ("1,0.5,Read,0,4096,512", Reason::Operation),
            ("1,0.5,R,x,4096,512", Reason::Number),
            ("1,0.5,R,0,-1,512", Reason::Number),
            ("1,0.5,R,0,4096,", Reason::Number),
            ("noon,0.5,R,0,4096,512", Reason::Time),
            ("1,soon,R,0,4096,512", Reason::Time),
            ("1,0.5,R,0,18446744073709551615,2", Reason::Range),
        ] {
            assert_eq!(parse(line).0, Err(reason), "{line}");
        }
    }
}
