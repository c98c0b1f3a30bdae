//! The block-trace formats: their names, their detection, and the parser for one line.
//!
//! Contract: [`LineParser`] turns a line into a request, into nothing (headers, comments, file
//! opens) or into a [`Reason`]. It never panics, and allocates only for a device name that it sees
//! for the first time (at most [`DEVICES_MAX`]). Detection reads only the first 64 KiB. Each parser
//! documents its format and the published source.

pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod published;
pub(crate) mod records;
mod scsi;
pub(crate) mod tools;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use outcore_io::units::parse_duration;
use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::lines::parse_time;
use crate::request::{Op, Request};
use crate::skips::Reason;
use crate::stages::{Stage, Timing};

/// Maximum number of device or file names kept for one trace.
pub(crate) const DEVICES_MAX: usize = 65_536;

/// Bytes of a sector, the unit of most traces.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Maximum number of lines examined to guess a format.
const DETECT_LINES_MAX: usize = 400;

/// A block-trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Storage Performance Council, as published by UMass. Clock: seconds from the trace's start.
    Spc,
    /// Florida International University. Clock: nanoseconds from an origin of its own.
    Fiu,
    /// Microsoft Research Cambridge. Clock: nanoseconds since 1601-01-01 UTC.
    Msr,
    /// fio's own log, version 2 or 3. Clock: microseconds from the job's start.
    Fio,
    /// Linux blktrace, binary. Clock: nanoseconds from an origin of its own.
    Blktrace,
    /// Alibaba cloud block storage. Clock: microseconds since 1970.
    Alibaba,
    /// Tencent cloud block storage (CBS). Clock: seconds since 1970.
    Tencent,
    /// CloudPhysics vscsi records as CSV. Clock: seconds from an origin of its own.
    Vscsi,
    /// CloudPhysics vscsi records, binary. Clock: microseconds from an origin of its own.
    #[serde(rename = "vscsi-binary")]
    VscsiBinary,
    /// SYSTOR '17, storage of virtual desktops. Clock: seconds since 1970.
    Systor,
    /// blkparse's default text of blktrace's events. Clock: seconds from the trace's start.
    Blkparse,
    /// The lines that SimpleSSD's sample configuration takes from blkparse's text: issued events.
    Simplessd,
    /// MQSim's ASCII trace. Clock: nanoseconds from the trace's start.
    Mqsim,
    /// SSDSim's ASCII trace. Clock: nanoseconds from the trace's start.
    Ssdsim,
    /// DiskSim's ASCII trace. Clock: milliseconds from the trace's start.
    Disksim,
    /// libCacheSim's oracleGeneral. Clock: seconds from an origin of its own.
    #[serde(rename = "oracle-general")]
    OracleGeneral,
    /// outcore's own I/O trace (`docs/formats/io-trace.md`). Clock: nanoseconds from its start.
    Outcore,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 17] = [
        Format::Spc,
        Format::Fiu,
        Format::Msr,
        Format::Fio,
        Format::Blktrace,
        Format::Alibaba,
        Format::Tencent,
        Format::Vscsi,
        Format::VscsiBinary,
        Format::Systor,
        Format::Blkparse,
        Format::Simplessd,
        Format::Mqsim,
        Format::Ssdsim,
        Format::Disksim,
        Format::OracleGeneral,
        Format::Outcore,
    ];

    /// Its name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Spc => "spc",
            Format::Fiu => "fiu",
            Format::Msr => "msr",
            Format::Fio => "fio",
            Format::Blktrace => "blktrace",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Vscsi => "vscsi",
            Format::VscsiBinary => "vscsi-binary",
            Format::Systor => "systor",
            Format::Blkparse => "blkparse",
            Format::Simplessd => "simplessd",
            Format::Mqsim => "mqsim",
            Format::Ssdsim => "ssdsim",
            Format::Disksim => "disksim",
            Format::OracleGeneral => "oracle-general",
            Format::Outcore => "outcore",
        }
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Format::Spc => "SPC (UMass)",
            Format::Fiu => "FIU",
            Format::Msr => "MSR Cambridge",
            Format::Fio => "fio iolog",
            Format::Blktrace => "blktrace",
            Format::Alibaba => "Alibaba block trace",
            Format::Tencent => "Tencent CBS",
            Format::Vscsi => "CloudPhysics vscsi CSV",
            Format::VscsiBinary => "CloudPhysics vscsi, binary",
            Format::Systor => "SYSTOR '17",
            Format::Blkparse => "blkparse text",
            Format::Simplessd => "SimpleSSD's blkparse text",
            Format::Mqsim => "MQSim ASCII",
            Format::Ssdsim => "SSDSim ASCII",
            Format::Disksim => "DiskSim ASCII",
            Format::OracleGeneral => "libCacheSim oracleGeneral",
            Format::Outcore => crate::io_trace::FORMAT_TITLE,
        }
    }

    /// The unit of a file in this format, such as a line.
    pub(crate) const fn part(self) -> &'static str {
        match self {
            Format::Blktrace => "event",
            Format::Outcore | Format::VscsiBinary | Format::OracleGeneral => "record",
            _ => "line",
        }
    }

    /// Whether the format is made of lines.
    const fn is_text(self) -> bool {
        !matches!(
            self,
            Format::Blktrace | Format::Outcore | Format::VscsiBinary | Format::OracleGeneral
        )
    }

    /// Whether the content can identify the format: SSDSim's fields are those of MQSim, and
    /// SimpleSSD reads blkparse's text.
    const fn is_detectable(self) -> bool {
        self.is_text() && !matches!(self, Format::Ssdsim | Format::Simplessd)
    }

    /// How the format counts time. Formats in seconds use decimal fractions; the others define
    /// whole numbers.
    pub(crate) const fn clock(self) -> Clock {
        let (unit_ns, has_decimals) = match self {
            Format::Spc
            | Format::Tencent
            | Format::Vscsi
            | Format::Systor
            | Format::Blkparse
            | Format::Simplessd => (1_000_000_000, true),
            Format::OracleGeneral => (1_000_000_000, false),
            Format::Disksim => (1_000_000, true),
            Format::Fio | Format::Alibaba | Format::VscsiBinary => (1_000, false),
            Format::Msr => (100, false),
            Format::Fiu | Format::Blktrace | Format::Mqsim | Format::Ssdsim | Format::Outcore => {
                (1, false)
            }
        };
        Clock {
            unit_ns,
            has_decimals,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Format::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Error::usage("choose a trace format", format!("unknown format `{text}`"))
                    .hint(format!("known are {}", names_of_all()))
            })
    }
}

/// How the time field of a trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Nanoseconds per unit.
    pub(crate) unit_ns: u64,
    /// Whether a time may have decimals. If the format allows none, decimals mean that the trace
    /// uses another unit.
    has_decimals: bool,
}

impl Clock {
    /// A clock whose unit the caller knows; decimals are fractions of it.
    pub(crate) fn of_unit(unit_ns: u64) -> Self {
        Clock {
            unit_ns: unit_ns.max(1),
            has_decimals: true,
        }
    }

    /// A time field as nanoseconds.
    #[inline]
    pub(crate) fn time_ns(self, text: &[u8]) -> std::result::Result<u64, Reason> {
        let time_ns = parse_time(text, self.unit_ns).ok_or(Reason::Time)?;
        match self.has_decimals || memchr::memchr(b'.', text).is_none() {
            true => Ok(time_ns),
            false => Err(Reason::Decimals),
        }
    }
}

/// Reads a unit of time: `s`, `ms`, `us`, `ns`, or a multiple of one, such as `100ns`; as
/// nanoseconds.
///
/// # Errors
/// Usage: an unknown unit, or one of less than a nanosecond.
pub fn parse_time_unit(text: &str) -> Result<u64> {
    let wrong = || {
        Error::usage("read time unit", format!("`{text}` is not a unit of time"))
            .hint("write s, ms, us, ns or a multiple of one, such as 100ns")
    };
    let text = text.trim();
    let duration = match text.starts_with(|letter: char| letter.is_ascii_digit()) {
        true => parse_duration(text),
        false => parse_duration(&format!("1{text}")),
    };
    let unit_ns = u64::try_from(duration.map_err(|_| wrong())?.as_nanos()).unwrap_or(0);
    match unit_ns {
        0 => Err(wrong()),
        unit_ns => Ok(unit_ns),
    }
}

/// The help of an option that names a format; it lists all of them.
pub const FORMAT_HELP: &str = "Format of a block trace, where its content cannot identify it: \
    spc, fiu, msr, fio, blktrace, alibaba, tencent, vscsi, vscsi-binary, systor, blkparse, \
    simplessd, mqsim, ssdsim, disksim, oracle-general, outcore";

/// `spc, fiu, ...`
pub(crate) fn names_of_all() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// The result of parsing one line.
pub(crate) type Parsed = std::result::Result<Option<Request>, Reason>;

/// Device and file names, numbered in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: Vec<String>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// The name looked up last, because most lines have the same one.
    last: Option<(Vec<u8>, u32)>,
}

impl Names {
    /// The number of `name`.
    pub(crate) fn number(&mut self, name: &[u8]) -> std::result::Result<u32, Reason> {
        if let Some((last, number)) = &self.last
            && *last == name
        {
            return Ok(*number);
        }
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None if self.list.len() >= DEVICES_MAX => return Err(Reason::Devices),
            None => {
                let number = u32::try_from(self.list.len()).map_err(|_| Reason::Devices)?;
                self.list.push(String::from_utf8_lossy(name).into_owned());
                self.by_name.insert(name.into(), number);
                number
            }
        };
        let (last, last_number) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(name);
        *last_number = number;
        Ok(number)
    }

    /// The name of `number`.
    pub(crate) fn name(&self, number: u32) -> Option<&str> {
        self.list
            .get(usize::try_from(number).ok()?)
            .map(String::as_str)
    }
}

/// Parses lines of one text format and keeps the state that later lines need.
#[derive(Debug)]
pub(crate) struct LineParser {
    format: Format,
    clock: Clock,
    fio: tools::FioState,
    blkparse: blkparse::BlkparseState,
    /// The last line's part of a response time.
    timing: Timing,
}

impl LineParser {
    /// A parser for a text `format` with times read by `clock`.
    pub(crate) fn new(format: Format, clock: Clock) -> Self {
        LineParser {
            format,
            clock,
            fio: tools::FioState::default(),
            blkparse: blkparse::BlkparseState::new(match format {
                Format::Simplessd => Stage::Issued,
                _ => Stage::Queued,
            }),
            timing: Timing::Unknown,
        }
    }

    /// The stage whose events count as requests, if the format leaves a choice.
    pub(crate) fn stage(&self) -> Option<Stage> {
        (self.format == Format::Blkparse).then(|| self.blkparse.stage())
    }

    /// Uses the events of `stage` as requests.
    pub(crate) fn take(&mut self, stage: Stage) {
        self.blkparse.take(stage);
    }

    /// The stage of the requests of a file that starts with `head`; `None` if the format leaves no
    /// choice, or `head` has no request.
    pub(crate) fn look_ahead(&self, head: &[u8]) -> Option<Stage> {
        self.stage()?;
        blkparse::stage_of(head.split(|byte| *byte == b'\n'), self.clock)
    }

    /// The last line's part of a response time.
    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// Parses one line; `number` is its place in the file, from 1.
    #[inline]
    pub(crate) fn parse(&mut self, line: &[u8], number: u64, names: &mut Names) -> Parsed {
        let clock = self.clock;
        self.timing = Timing::Unknown;
        let parsed = match self.format {
            Format::Spc => published::spc(line, clock),
            Format::Fiu => published::fiu(line, clock),
            Format::Msr => published::msr(line, clock, names),
            Format::Alibaba => published::alibaba(line, clock),
            Format::Tencent => published::tencent(line, clock),
            Format::Vscsi => published::vscsi(line, clock),
            Format::Systor => published::systor(line, clock, &mut self.timing),
            Format::Blkparse | Format::Simplessd => {
                self.blkparse.parse(line, clock, &mut self.timing)
            }
            Format::Mqsim => tools::mqsim(line, clock),
            Format::Ssdsim => tools::ssdsim(line, clock),
            Format::Disksim => tools::disksim(line, clock),
            Format::Fio => self.fio.parse(line, clock, names),
            Format::Blktrace | Format::Outcore | Format::VscsiBinary | Format::OracleGeneral => {
                Err(Reason::Magic)
            }
        };
        match parsed {
            Err(reason) => Self::not_a_request(line, number, reason),
            parsed => parsed,
        }
    }

    /// Accepts blank lines, comments and a header in the first line.
    #[cold]
    fn not_a_request(line: &[u8], number: u64, reason: Reason) -> Parsed {
        let text = line.trim_ascii();
        let is_header = number == 1
            && text.first().is_some_and(u8::is_ascii_alphabetic)
            && text
                .iter()
                .all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        if text.is_empty() || text[0] == b'#' || is_header {
            Ok(None)
        } else {
            Err(reason)
        }
    }
}

/// A request, if its range fits into the address space.
#[inline]
pub(crate) fn request(
    time_ns: u64,
    device: u32,
    op: Op,
    offset_bytes: Option<u64>,
    len_bytes: Option<u64>,
) -> Parsed {
    let (Some(offset_bytes), Some(len_bytes)) = (offset_bytes, len_bytes) else {
        return Err(Reason::Range);
    };
    if offset_bytes.checked_add(len_bytes).is_none() {
        return Err(Reason::Range);
    }
    Ok(Some(Request {
        time_ns,
        device,
        op,
        offset_bytes,
        len_bytes,
    }))
}

/// Guesses the format from the file's first bytes; `is_whole` means that the file has no more.
///
/// Binary formats are recognised by their magic, or by the agreement of all their records. fio's
/// log is recognised by its first line. For the others, every parser reads the first lines. The
/// parser that accepts most lines wins, if it accepts at least a tenth of them. MQSim's and
/// DiskSim's lines differ in the decimals of DiskSim's times. SSDSim's lines count as MQSim's, and
/// SimpleSSD's lines count as blkparse's.
pub fn detect(head: &[u8], is_whole: bool) -> Option<Format> {
    if head.starts_with(&crate::io_trace::MAGIC) {
        return Some(Format::Outcore);
    }
    if blktrace::looks_like(head) {
        return Some(Format::Blktrace);
    }
    if head.starts_with(b"fio version") {
        return Some(Format::Fio);
    }
    if let Some(format) = records::detect(head) {
        return Some(format);
    }
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    if !is_whole && lines.len() > 1 {
        // The last line is probably incomplete.
        lines.pop();
    }
    lines.truncate(DETECT_LINES_MAX);
    let filled = lines
        .iter()
        .filter(|line| !line.trim_ascii().is_empty())
        .count();
    let candidates = Format::ALL
        .into_iter()
        .filter(|format| format.is_detectable());
    let scored = candidates.map(|format| (understood(format, &lines), format));
    // On a tie the earlier format wins; `max_by_key` would choose the later one.
    let (score, format) = scored.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (score > 0 && score * 10 >= filled).then_some(format)
}

/// Number of `lines` that the parser of `format` reads as requests, or as events of any stage.
fn understood(format: Format, lines: &[&[u8]]) -> usize {
    let clock = match format {
        Format::Mqsim => format.clock(),
        // Accepts decimals in other formats. The reader rejects them later, because it knows
        // whether the caller gave the unit.
        _ => Clock::of_unit(format.clock().unit_ns),
    };
    let mut parser = LineParser::new(format, clock);
    let mut names = Names::default();
    let numbered = lines.iter().zip(1_u64..);
    numbered
        .filter(|(line, number)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match format {
                Format::Blkparse => blkparse::is_event(line, clock),
                Format::Disksim if !tools::has_decimals(line) => false,
                _ => matches!(parser.parse(line, *number, &mut names), Ok(Some(_))),
            }
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_one_name_everywhere() {
        assert!(FORMAT_HELP.ends_with(&format!(": {}", names_of_all())));
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().ok(), Some(format));
            let json = serde_json::to_string(&format).unwrap();
            assert_eq!(json, format!("\"{}\"", format.name()));
        }
    }
}
