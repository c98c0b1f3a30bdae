//! Linux blktrace's binary events.
//!
//! Contract: reads the 48-byte `struct blk_io_trace` of `include/uapi/linux/blktrace_api.h`
//! (version 7), and skips the `pdu_len` bytes that follow it. A request is an event with the action
//! "queued" (Q) that is neither a device command (PC) nor a notice. This covers each request of a
//! file system or an application exactly once, before merging. Such requests have the class FS, but
//! kernels set that bit only when they make a request from the bio. The reader must therefore not
//! require the bit (seen with 6.18).
//!
//! If a trace has no Q (`blktrace -a issue`, or a file of filtered events), a request is an event
//! with the action "issued" (D): each request that went to the drive, after merging, at the time of
//! issue. If it has neither, a request is a completion (C). [`EventReader::look_ahead`] finds the
//! stage before any event is returned; it holds at most [`AHEAD_EVENTS`] events for all files. A
//! later Q is then skipped, so that no request counts twice. Issues and completions give response
//! times, whichever stage counts.
//!
//! The magic gives the byte order. Bytes that are not events are skipped up to the next magic and
//! counted once. Memory: the events read ahead.
//!
//! Layout: magic u32, sequence u32, time u64 (ns), sector u64, bytes u32, action u32, pid u32,
//! device u32, cpu u32, error u16, pdu_len u16.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use crate::formats::{Parsed, SECTOR_BYTES, request};
use crate::lines::fill;
use crate::request::Op;
use crate::skips::Reason;
use crate::stages::{Stage, Timing};

/// Bytes of one event.
pub(crate) const EVENT_BYTES: usize = 48;

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

const ACTION_MASK: u32 = 0xffff;
/// Kernels that add a control group to the event set this bit in the action.
const ACTION_CGROUP: u32 = 1 << 8;
const ACTION_QUEUE: u32 = 1;
const ACTION_ISSUE: u32 = 7;
const ACTION_COMPLETE: u32 = 8;

/// Maximum number of events of all files that are searched for a queued one.
pub(crate) const AHEAD_EVENTS: usize = 16 << 10;

const CLASS_SHIFT: u32 = 16;
const CLASS_READ: u32 = 1;
const CLASS_WRITE: u32 = 1 << 1;
const CLASS_FLUSH: u32 = 1 << 2;
/// Device commands, and blktrace's own notices, whose numbers clash with those of actions.
const CLASS_NO_REQUEST: u32 = 1 << 9 | 1 << 10;
const CLASS_DISCARD: u32 = 1 << 13;

/// Byte order of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Endian::Little => u16::from_le_bytes(bytes),
            Endian::Big => u16::from_be_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The byte order in which `bytes` is the magic of version 7.
    fn of(bytes: [u8; 4]) -> Option<Endian> {
        [Endian::Little, Endian::Big]
            .into_iter()
            .find(|endian| endian.u32(bytes) == MAGIC | VERSION)
    }
}

/// Whether `head` begins like a blktrace file.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.first_chunk()
        .is_some_and(|bytes| Endian::of(*bytes).is_some())
}

/// The version of the file, if `head` begins like a blktrace file of an unsupported version.
pub(crate) fn other_version(head: &[u8]) -> Option<u32> {
    let bytes = *head.first_chunk::<4>()?;
    [Endian::Little, Endian::Big]
        .into_iter()
        .map(|endian| endian.u32(bytes))
        .find(|magic| magic & !0xff == MAGIC && magic & 0xff != VERSION)
        .map(|magic| magic & 0xff)
}

/// An event that was read ahead.
struct Seen {
    stage: Option<Stage>,
    parsed: Parsed,
    event: [u8; EVENT_BYTES],
    number: u64,
    start_bytes: u64,
}

/// An event of the file.
pub(crate) struct Event {
    /// A request, another event, or a damaged one.
    pub(crate) parsed: Parsed,
    /// Its part of a response time.
    pub(crate) timing: Timing,
    /// Its bytes.
    pub(crate) bytes: [u8; EVENT_BYTES],
}

/// Reads events from a stream.
pub(crate) struct EventReader<R> {
    inner: R,
    unit_ns: u64,
    /// The stage whose events count as requests.
    stage: Stage,
    ahead: VecDeque<Seen>,
    /// Number of the event returned last.
    number: u64,
    start_bytes: u64,
    /// Number of events read, and of bytes.
    read_events: u64,
    next_bytes: u64,
    /// Bytes from a magic on that the search for the magic has read. The first `pushback_at` of
    /// them have been used again.
    pushback: Vec<u8>,
    pushback_at: usize,
}

impl<R: BufRead> EventReader<R> {
    pub(crate) fn new(inner: R, unit_ns: u64) -> Self {
        EventReader {
            inner,
            unit_ns,
            stage: Stage::Queued,
            ahead: VecDeque::new(),
            number: 0,
            start_bytes: 0,
            read_events: 0,
            next_bytes: 0,
            pushback: Vec::new(),
            pushback_at: 0,
        }
    }

    /// Number of the last event, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Offset of the last event.
    pub(crate) fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.next_bytes
    }

    /// The earliest stage among the requests of the next events, at most `events_max`; `None` if
    /// they contain none.
    pub(crate) fn look_ahead(&mut self, events_max: usize) -> io::Result<Option<Stage>> {
        let mut found = None;
        while self.ahead.len() < events_max && found != Some(Stage::Queued) {
            let Some(seen) = self.read_event()? else {
                break;
            };
            let stage = seen.stage.filter(|_| matches!(seen.parsed, Ok(Some(_))));
            self.ahead.push_back(seen);
            found = Stage::earlier(found, stage);
        }
        Ok(found)
    }

    /// Uses the events of `stage` as requests.
    pub(crate) fn take(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The stage whose events count as requests.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// The next event; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        let next = match self.ahead.pop_front() {
            Some(seen) => Some(seen),
            None => self.read_event()?,
        };
        let Some(seen) = next else {
            return Ok(None);
        };
        (self.number, self.start_bytes) = (seen.number, seen.start_bytes);
        let timing = match (seen.stage, &seen.parsed) {
            (Some(stage), Ok(Some(request))) => Timing::of(stage, request),
            _ => Timing::Unknown,
        };
        let is_other = seen.stage.is_some_and(|stage| stage != self.stage);
        Ok(Some(Event {
            parsed: if is_other { Ok(None) } else { seen.parsed },
            timing,
            bytes: seen.event,
        }))
    }

    fn read_event(&mut self) -> io::Result<Option<Seen>> {
        let mut seen = Seen {
            stage: None,
            parsed: Err(Reason::Truncated),
            event: [0_u8; EVENT_BYTES],
            number: self.read_events + 1,
            start_bytes: self.next_bytes,
        };
        let got = self.read(&mut seen.event)?;
        if got == 0 {
            return Ok(None);
        }
        self.read_events += 1;
        if got < EVENT_BYTES {
            return Ok(Some(seen));
        }
        let endian = seen.event.first_chunk();
        let Some(endian) = endian.and_then(|bytes| Endian::of(*bytes)) else {
            self.resynchronise(&seen.event)?;
            seen.parsed = Err(Reason::Magic);
            return Ok(Some(seen));
        };
        let payload_bytes = endian.u16([seen.event[46], seen.event[47]]);
        if self.skip(usize::from(payload_bytes))? {
            (seen.stage, seen.parsed) = interpret(&seen.event, endian, self.unit_ns);
        }
        Ok(Some(seen))
    }

    /// After garbage: skips bytes so that the next event starts at a magic or at the end of the
    /// file.
    fn resynchronise(&mut self, garbage: &[u8; EVENT_BYTES]) -> io::Result<()> {
        let mut tail: Vec<u8> = garbage[1..].to_vec();
        tail.extend_from_slice(&self.pushback[self.pushback_at..]);
        self.next_bytes += (self.pushback.len() - self.pushback_at) as u64;
        self.pushback.clear();
        self.pushback_at = 0;
        loop {
            let starts_event = |bytes: &[u8]| {
                bytes
                    .first_chunk()
                    .is_some_and(|bytes| Endian::of(*bytes).is_some())
            };
            if let Some(at) = tail.windows(4).position(starts_event) {
                tail.drain(..at);
                self.next_bytes -= tail.len() as u64;
                self.pushback = tail;
                return Ok(());
            }
            // The last three bytes may be the start of a magic.
            tail.drain(..tail.len().saturating_sub(3));
            let buffer = fill(&mut self.inner)?;
            if buffer.is_empty() {
                return Ok(());
            }
            let len = buffer.len().min(4096);
            tail.extend_from_slice(&buffer[..len]);
            self.inner.consume(len);
            self.next_bytes += len as u64;
        }
    }

    /// Fills `out` as far as the file reaches. Returns the number of bytes.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < out.len() {
            let len = self.with_buffer(|buffer| {
                let len = buffer.len().min(out.len() - got);
                out[got..got + len].copy_from_slice(&buffer[..len]);
                len
            })?;
            if len == 0 {
                break;
            }
            got += len;
        }
        Ok(got)
    }

    /// Skips `count` bytes. Returns whether the file had them.
    fn skip(&mut self, count: usize) -> io::Result<bool> {
        let mut left = count;
        while left > 0 {
            let len = self.with_buffer(|buffer| buffer.len().min(left))?;
            if len == 0 {
                return Ok(false);
            }
            left -= len;
        }
        Ok(true)
    }

    /// Passes the buffered bytes to `take` and consumes as many as it returns.
    fn with_buffer(&mut self, take: impl FnOnce(&[u8]) -> usize) -> io::Result<usize> {
        let len = if self.pushback_at < self.pushback.len() {
            let len = take(&self.pushback[self.pushback_at..]);
            self.pushback_at += len;
            len
        } else {
            let len = take(fill(&mut self.inner)?);
            self.inner.consume(len);
            len
        };
        self.next_bytes += len as u64;
        Ok(len)
    }
}

/// The request of an event, if it has one, and its stage.
fn interpret(event: &[u8; EVENT_BYTES], endian: Endian, unit_ns: u64) -> (Option<Stage>, Parsed) {
    let action = endian.u32([event[28], event[29], event[30], event[31]]);
    let stage = match action & ACTION_MASK & !ACTION_CGROUP {
        ACTION_QUEUE => Stage::Queued,
        ACTION_ISSUE => Stage::Issued,
        ACTION_COMPLETE => Stage::Completed,
        _ => return (None, Ok(None)),
    };
    if (action >> CLASS_SHIFT) & CLASS_NO_REQUEST != 0 {
        return (None, Ok(None));
    }
    (Some(stage), request_of(event, endian, unit_ns))
}

/// The request of an event that is known to be a request.
fn request_of(event: &[u8; EVENT_BYTES], endian: Endian, unit_ns: u64) -> Parsed {
    let word = |at: usize| endian.u32([event[at], event[at + 1], event[at + 2], event[at + 3]]);
    let long = |at: usize| {
        let mut bytes = [0_u8; 8];
        bytes.copy_from_slice(&event[at..at + 8]);
        endian.u64(bytes)
    };
    let (time, sector, len_bytes, action, device) =
        (long(8), long(16), word(24), word(28), word(36));
    let class = action >> CLASS_SHIFT;
    let time_ns = time.checked_mul(unit_ns).ok_or(Reason::Time)?;
    let op = if class & CLASS_FLUSH != 0 && len_bytes == 0 {
        return request(time_ns, device, Op::Flush, Some(0), Some(0));
    } else if class & CLASS_DISCARD != 0 {
        Op::Trim
    } else if class & CLASS_WRITE != 0 {
        Op::Write
    } else if class & CLASS_READ != 0 {
        Op::Read
    } else {
        return Err(Reason::Operation);
    };
    let offset_bytes = sector.checked_mul(SECTOR_BYTES);
    request(
        time_ns,
        device,
        op,
        offset_bytes,
        Some(u64::from(len_bytes)),
    )
}

/// One event's bytes, for tests.
#[cfg(test)]
pub(crate) fn event_bytes(
    is_big: bool,
    (time, sector, len, action, device): (u64, u64, u32, u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |le: &[u8]| {
        let mut bytes = le.to_vec();
        if is_big {
            bytes.reverse();
        }
        out.extend_from_slice(&bytes);
    };
    put(&(MAGIC | VERSION).to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&time.to_le_bytes());
    put(&sector.to_le_bytes());
    put(&len.to_le_bytes());
    put(&action.to_le_bytes());
    put(&4711_u32.to_le_bytes());
    put(&device.to_le_bytes());
    put(&0_u32.to_le_bytes());
    put(&0_u16.to_le_bytes());
    put(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use std::io::{BufReader, Cursor};

    const CLASS_FS: u32 = 1 << 8;
    const Q_READ: u32 = ((CLASS_FS | CLASS_READ | 1 << 4) << CLASS_SHIFT) | ACTION_QUEUE;
    /// In the form of current kernels: without the bit of its class.
    const Q_WRITE: u32 = ((CLASS_WRITE | 1 << 4) << CLASS_SHIFT) | ACTION_QUEUE;

    fn all(bytes: &[u8], buffer: usize) -> (Vec<Request>, Vec<(u64, u64, Reason)>, u64) {
        let mut reader = EventReader::new(BufReader::with_capacity(buffer, Cursor::new(bytes)), 1);
        let (mut good, mut bad, mut other) = (Vec::new(), Vec::new(), 0);
        while let Some(event) = reader.next().unwrap() {
            match event.parsed {
                Ok(Some(request)) => good.push(request),
                Ok(None) => other += 1,
                Err(reason) => bad.push((reader.number(), reader.start_bytes(), reason)),
            }
        }
        assert_eq!(reader.bytes(), bytes.len() as u64);
        (good, bad, other)
    }

    #[test]
    fn only_queued_requests_of_file_systems_count_in_either_byte_order() {
        for is_big in [false, true] {
            let mut bytes = Vec::new();
            let complete = ((CLASS_FS | CLASS_READ | 1 << 7) << CLASS_SHIFT) | 8;
            let scsi = ((1 << 9 | CLASS_READ) << CLASS_SHIFT) | ACTION_QUEUE;
            let notify = (1 << 10 << CLASS_SHIFT) | 1;
            let flush = ((CLASS_FS | CLASS_FLUSH | CLASS_WRITE) << CLASS_SHIFT) | ACTION_QUEUE;
            let discard = ((CLASS_FS | CLASS_DISCARD | CLASS_WRITE) << CLASS_SHIFT) | ACTION_QUEUE;
            for (event, payload) in [
                ((5, 8, 4096, Q_READ, 7), &b""[..]),
                ((6, 8, 4096, complete, 7), b""),
                ((6, 8, 96, scsi, 7), b"0123456789"),
                ((6, 0, 0, notify, 0), b"fio"),
                ((7, 16, 512, Q_WRITE | ACTION_CGROUP, 7), b"cgroup-id"),
                ((8, 0, 0, flush, 7), b""),
                ((9, 2, 1024, discard, 7), b""),
            ] {
                bytes.extend(event_bytes(is_big, event, payload));
            }
            for buffer in [1, 7, 48, 4096] {
                let (good, bad, other) = all(&bytes, buffer);
                let request = |time_ns, op, offset_bytes, len_bytes| Request {
                    time_ns,
                    device: 7,
                    op,
                    offset_bytes,
                    len_bytes,
                };
                assert_eq!(
                    good,
                    [
                        request(5, Op::Read, 4096, 4096),
                        request(7, Op::Write, 8192, 512),
                        request(8, Op::Flush, 0, 0),
                        request(9, Op::Trim, 1024, 1024),
                    ]
                );
                assert!(bad.is_empty());
                assert_eq!(other, 3);
            }
        }
    }

    #[test]
    fn garbage_is_read_over_to_the_next_event_and_counted_once() {
        let event = event_bytes(false, (5, 8, 4096, Q_READ, 7), b"abc");
        for len in [1_usize, 3, 47, 48, 49, 95, 96, 97, 5000] {
            let mut bytes = event.clone();
            bytes.extend(std::iter::repeat_n(0xee, len));
            bytes.extend(&event);
            bytes.extend(&event);
            for buffer in [1, 13, 4096] {
                let (good, bad, _) = all(&bytes, buffer);
                assert_eq!(good.len(), 3, "{len} bytes of garbage");
                assert_eq!(bad, [(2, event.len() as u64, Reason::Magic)]);
            }
        }
    }

    #[test]
    fn a_cut_file_gives_its_whole_events_and_says_that_it_is_cut() {
        let event = event_bytes(true, (5, 8, 4096, Q_READ, 7), b"abc");
        let whole = [event.clone(), event.clone()].concat();
        for len in event.len() + 1..whole.len() {
            let (good, bad, _) = all(&whole[..len], 64);
            assert_eq!(good.len(), 1);
            assert_eq!(bad, [(2, event.len() as u64, Reason::Truncated)]);
        }
    }

    #[test]
    fn other_versions_are_recognised() {
        assert_eq!(other_version(&(MAGIC | 8).to_le_bytes()), Some(8));
        assert_eq!(other_version(&(MAGIC | 6).to_be_bytes()), Some(6));
        assert_eq!(other_version(&(MAGIC | 7).to_be_bytes()), None);
        assert_eq!(other_version(b"0,1,512,R,0"), None);
    }
}
