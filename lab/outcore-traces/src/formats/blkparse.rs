//! The text that blkparse prints of blktrace's events, in its default form; also the form that
//! SimpleSSD's trace replayer reads in its sample configuration.
//!
//! Contract: a line is an event, a message, or a part of the summary at the end. A request is an
//! event of one stage that has a range. The stage is queued (Q). If the head of the file has no
//! queued event, the stage is issued (D), or else completed (C). For SimpleSSD it is always the
//! issued event. Other events are no requests. Device commands have no range and are no requests
//! either.
//!
//! `major,minor cpu sequence seconds.ns pid action RWBS [sector + sectors] [process or error]`
//!
//! Sources: blktrace's `blkparse_fmt.c` (`process_default`, `fill_rwbs`) and `blkparse.1`; the
//! summary from `blkparse.c`; SimpleSSD-Standalone, `config/sample.cfg`, section `trace`.

use crate::formats::{Clock, Parsed, SECTOR_BYTES, request};
use crate::lines::{parse_u32, parse_u64};
use crate::request::Op;
use crate::skips::Reason;
use crate::stages::{Stage, Timing};

/// How blkparse begins a note on a file that it reads.
const INPUT_NOTE: &[u8] = b"Input file ";

/// State that later lines depend on.
#[derive(Debug)]
pub(crate) struct BlkparseState {
    /// The stage whose events count as requests.
    stage: Stage,
    /// The first line of the summary was read.
    is_summary: bool,
}

/// One line: an event of a request, or something else.
struct Event {
    stage: Option<Stage>,
    parsed: Parsed,
}

impl BlkparseState {
    /// A parser that uses the events of `stage` as requests.
    pub(crate) fn new(stage: Stage) -> Self {
        BlkparseState {
            stage,
            is_summary: false,
        }
    }

    /// Uses the events of `stage` as requests.
    pub(crate) fn take(&mut self, stage: Stage) {
        self.stage = stage;
    }

    /// The stage whose events count as requests.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Parses one line; `timing` receives its part of a response time.
    pub(crate) fn parse(&mut self, line: &[u8], clock: Clock, timing: &mut Timing) -> Parsed {
        let event = match event(line, clock) {
            Ok(event) => event,
            Err(Reason::Fields) if line.starts_with(INPUT_NOTE) => return Ok(None),
            Err(Reason::Fields) if self.is_summary || starts_summary(line) => {
                self.is_summary = true;
                return Ok(None);
            }
            Err(reason) => return Err(reason),
        };
        self.is_summary = false;
        let Some(stage) = event.stage else {
            return event.parsed;
        };
        if let Ok(Some(request)) = &event.parsed {
            *timing = Timing::of(stage, request);
        }
        match stage == self.stage {
            true => event.parsed,
            false => Ok(None),
        }
    }
}

/// The stage of the requests of a file that starts with `lines`; `None` if they have no request.
pub(crate) fn stage_of<'a>(lines: impl Iterator<Item = &'a [u8]>, clock: Clock) -> Option<Stage> {
    lines.fold(None, |found, line| {
        let event = event(line, clock).ok();
        let stage = event.filter(|event| matches!(event.parsed, Ok(Some(_))));
        Stage::earlier(found, stage.and_then(|event| event.stage))
    })
}

/// Whether a line is an event or a message.
pub(crate) fn is_event(line: &[u8], clock: Clock) -> bool {
    event(line, clock).is_ok_and(|event| event.parsed.is_ok())
}

/// Parses a line; [`Reason::Fields`] means that it does not begin like an event.
fn event(line: &[u8], clock: Clock) -> Result<Event, Reason> {
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let mut next = || words.next().ok_or(Reason::Fields);
    let device = device_of(next()?)?;
    let numbers = [next()?, next()?];
    let time = next()?;
    let (pid, action) = (next()?, next()?);
    let is_number = |word: &&[u8]| parse_u64(word).is_none();
    if numbers.iter().chain([&pid]).any(is_number) {
        return Err(Reason::Number);
    }
    let time_ns = clock.time_ns(time)?;
    let stage = match action {
        b"Q" => Stage::Queued,
        b"D" => Stage::Issued,
        b"C" => Stage::Completed,
        // Merges, inserts, plugs, requeues, splits, remaps and messages.
        b"M" | b"F" | b"G" | b"S" | b"R" | b"P" | b"U" | b"UT" | b"T" | b"I" | b"B" | b"X"
        | b"A" | b"m" => {
            return Ok(Event {
                stage: None,
                parsed: Ok(None),
            });
        }
        _ => return Err(Reason::Operation),
    };
    let rwbs = words.next().ok_or(Reason::Missing)?;
    let range = [words.next(), words.next(), words.next()];
    Ok(Event {
        stage: Some(stage),
        parsed: request_of(time_ns, device, rwbs, range),
    })
}

/// The request of an event; `range` has the words after its RWBS field.
fn request_of(time_ns: u64, device: u32, rwbs: &[u8], range: [Option<&[u8]>; 3]) -> Parsed {
    let (is_flush, rest) = match rwbs.strip_prefix(b"F") {
        Some(rest) => (true, rest),
        None => (false, rwbs),
    };
    let [sector, Some(b"+"), sectors] = range else {
        // A flush has no range; nor has a device command, which is no request.
        return match is_flush {
            true => request(time_ns, device, Op::Flush, Some(0), Some(0)),
            false => Ok(None),
        };
    };
    let number = |word: Option<&[u8]>| word.and_then(parse_u64).ok_or(Reason::Number);
    let (sector, sectors) = (number(sector)?, number(sectors)?);
    let op = match rest.first() {
        _ if is_flush && sectors == 0 => {
            return request(time_ns, device, Op::Flush, Some(0), Some(0));
        }
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        Some(b'D') => Op::Trim,
        // No data: N, and the operations on zones.
        Some(b'N' | b'Z') => return Ok(None),
        _ => return Err(Reason::Operation),
    };
    let offset_bytes = sector.checked_mul(SECTOR_BYTES);
    let len_bytes = sectors.checked_mul(SECTOR_BYTES);
    request(time_ns, device, op, offset_bytes, len_bytes)
}

/// `major,minor` as a device number of Linux.
fn device_of(word: &[u8]) -> Result<u32, Reason> {
    let comma = memchr::memchr(b',', word).ok_or(Reason::Fields)?;
    let major = parse_u32(&word[..comma]).ok_or(Reason::Fields)?;
    let minor = parse_u32(&word[comma + 1..]).ok_or(Reason::Fields)?;
    if major >= 1 << 12 || minor >= 1 << 20 {
        return Err(Reason::Number);
    }
    Ok((major << 20) | minor)
}

/// Whether a line begins the summary of a CPU or a device, which follows the events.
fn starts_summary(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_heading = line.starts_with(b"CPU") || line.starts_with(b"Total (");
    is_heading && line.ends_with(b"):")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Format;
    use crate::request::Request;

    const SDB: u32 = (8 << 20) | 16;

    fn request(time_ns: u64, op: Op, sector: u64, sectors: u64) -> Request {
        Request {
            time_ns,
            device: SDB,
            op,
            offset_bytes: sector * 512,
            len_bytes: sectors * 512,
        }
    }

    fn parse(state: &mut BlkparseState, line: &str) -> (Parsed, Timing) {
        let mut timing = Timing::Unknown;
        let parsed = state.parse(line.as_bytes(), Format::Blkparse.clock(), &mut timing);
        (parsed, timing)
    }

    #[test]
    fn the_events_of_the_chosen_stage_are_the_requests_and_others_time_them() {
        let lines = [
            "  8,16   1        1     0.000000000   697  Q   R 223490 + 8 [kjournald]",
            "  8,16   1        2     1.000000829   697  D   R 223490 + 8 [kjournald]",
            "  8,16   0       12     2.000500829     0  C   R 223490 + 8 [0]",
        ];
        let at = [0, 1_000_000_829, 2_000_500_829];
        let stages = [Stage::Queued, Stage::Issued, Stage::Completed];
        for (chosen, stage) in stages.into_iter().enumerate() {
            let mut state = BlkparseState::new(stage);
            for (place, line) in lines.iter().enumerate() {
                let request = request(at[place], Op::Read, 223_490, 8);
                let (parsed, timing) = parse(&mut state, line);
                assert_eq!(parsed, Ok((place == chosen).then_some(request)), "{line}");
                assert_eq!(timing, Timing::of(stages[place], &request), "{line}");
            }
        }
        let stage_in = |lines: &[&str]| {
            let lines = lines.iter().map(|line| line.as_bytes());
            stage_of(lines, Format::Blkparse.clock())
        };
        assert_eq!(stage_in(&lines), Some(Stage::Queued));
        assert_eq!(stage_in(&lines[1..]), Some(Stage::Issued));
        assert_eq!(stage_in(&[lines[2], lines[1]]), Some(Stage::Issued));
        assert_eq!(stage_in(&lines[2..]), Some(Stage::Completed));
        assert_eq!(stage_in(&[]), None);
    }

    #[test]
    fn rwbs_names_the_operation_and_elapsed_times_do_not_disturb() {
        for (rest, wanted) in [
            ("RA 8 + 16 [fio]", Some(request(7, Op::Read, 8, 16))),
            (
                "RM 8 + 16 (     310) [fio]",
                Some(request(7, Op::Read, 8, 16)),
            ),
            ("WFS 8 + 1 [jbd2/sda1-8]", Some(request(7, Op::Write, 8, 1))),
            ("FWFS 8 + 1 [a process]", Some(request(7, Op::Write, 8, 1))),
            ("FWS [kworker/0:1H]", Some(request(7, Op::Flush, 0, 0))),
            ("FF 0 + 0 [fio]", Some(request(7, Op::Flush, 0, 0))),
            ("FN 0 [0]", Some(request(7, Op::Flush, 0, 0))),
            ("DS 0 + 2048 [fstrim]", Some(request(7, Op::Trim, 0, 2048))),
            ("N 0 + 8 [fio]", None),
            // A device command, with its bytes.
            ("R 36 (12 00 00 00 24 00) [smartd]", None),
            ("N [0]", None),
        ] {
            let line = format!("8,16 3 11 0.000000007 697 Q {rest}");
            let mut state = BlkparseState::new(Stage::Queued);
            assert_eq!(parse(&mut state, &line).0, Ok(wanted), "{line}");
        }
    }

    #[test]
    fn other_events_messages_and_the_summary_are_no_requests_and_damage_is_named() {
        let mut state = BlkparseState::new(Stage::Queued);
        for line in [
            "  8,16   3        2     0.000001829   697  G   W 223490 + 8 [kjournald]",
            "  8,16   3        3     0.000002197   697  P   N [kjournald]",
            "  8,16   3        6     0.000005000   697  U   N [kjournald] 1",
            "  8,16   3        6     0.000005000   697 UT   N [kjournald] 1",
            "  8,16   3        7     0.000005500   697  A   W 9 + 8 <- (8,17) 1",
            "  8,16   3        8     0.000005500   697  X   W 9 / 8 [fio]",
            "  8,16   3        0     0.000006000     0  m   N cfq697S insert_request",
        ] {
            assert_eq!(
                parse(&mut state, line),
                (Ok(None), Timing::Unknown),
                "{line}"
            );
        }
        for (line, reason) in [
            ("Reads Queued: 8, 620KiB", Reason::Fields),
            ("8 3 2 0.1 697 Q W 1 + 8 [x]", Reason::Fields),
            ("8,16 3 2 0.1 697", Reason::Fields),
            ("8,16 3 2 0.1 697 Q", Reason::Missing),
            ("8,16 3 2 0.1 697 E W 1 + 8 [x]", Reason::Operation),
            ("8,16 3 2 0.1 697 Q XS 1 + 8 [x]", Reason::Operation),
            ("8,16 3 2 now 697 Q W 1 + 8 [x]", Reason::Time),
            ("8,16 cpu 2 0.1 697 Q W 1 + 8 [x]", Reason::Number),
            ("8,16 3 2 0.1 -1 Q W 1 + 8 [x]", Reason::Number),
            ("8,16 3 2 0.1 697 Q W 1 + x [x]", Reason::Number),
            ("4096,16 3 2 0.1 697 Q W 1 + 8 [x]", Reason::Number),
            (
                "8,16 3 2 0.1 697 Q W 36028797018963968 + 8 [x]",
                Reason::Range,
            ),
        ] {
            assert_eq!(parse(&mut state, line).0, Err(reason), "{line}");
        }
        for line in [
            "CPU0 (sda):",
            " Reads Queued:           8,      620KiB  Writes Queued:          37,      689KiB",
            "",
            "Throughput (R/W): 6KiB/s / 7KiB/s",
        ] {
            assert_eq!(parse(&mut state, line).0, Ok(None), "{line}");
        }
        let line = "8,16 3 2 0.000000007 697 Q W 1 + 8 [x]";
        let wanted = request(7, Op::Write, 1, 8);
        assert_eq!(parse(&mut state, line).0, Ok(Some(wanted)));
        // Events follow, so that was not the end.
        let (note, garbage) = ("Input file sda.blktrace.0 added", "Reads Queued: 8");
        assert_eq!(parse(&mut state, note).0, Ok(None));
        assert_eq!(parse(&mut state, garbage).0, Err(Reason::Fields));
    }
}
