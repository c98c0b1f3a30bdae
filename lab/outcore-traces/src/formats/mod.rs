//! The block-trace formats: their names, how they are told apart, and one line to one request.
//!
//! Contract: [`LineParser`] turns a line into a request, into nothing (headers, comments, file
//! opens) or into a [`Reason`]; it never panics and allocates only for a device name seen for the
//! first time (at most [`DEVICES_MAX`]). Detection reads the first 64 KiB only. The formats
//! themselves are described at their parsers, with their published source.

pub(crate) mod blktrace;
pub(crate) mod published;
pub(crate) mod tools;

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::request::{Op, Request};
use crate::skips::Reason;

/// Device or file names kept for one trace.
pub(crate) const DEVICES_MAX: usize = 65_536;

/// Bytes of a sector, the unit of most traces.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Lines looked at when a format is guessed.
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
    /// MQSim's ASCII trace. Clock: nanoseconds from the trace's start.
    Mqsim,
    /// outcore's own I/O trace (`docs/formats/io-trace.md`). Clock: nanoseconds from its start.
    Outcore,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 10] = [
        Format::Spc,
        Format::Fiu,
        Format::Msr,
        Format::Fio,
        Format::Blktrace,
        Format::Alibaba,
        Format::Tencent,
        Format::Vscsi,
        Format::Mqsim,
        Format::Outcore,
    ];

    /// The name used on the command line and in JSON.
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
            Format::Mqsim => "mqsim",
            Format::Outcore => "outcore",
        }
    }

    /// The name for people.
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
            Format::Mqsim => "MQSim ASCII",
            Format::Outcore => "outcore I/O trace",
        }
    }

    /// What a file of the format is made of.
    pub(crate) const fn part(self) -> &'static str {
        match self {
            Format::Blktrace => "event",
            Format::Outcore => "record",
            _ => "line",
        }
    }

    /// Whether the format is made of lines.
    const fn is_text(self) -> bool {
        !matches!(self, Format::Blktrace | Format::Outcore)
    }

    /// Nanoseconds of one unit of the format's time field.
    pub(crate) const fn time_unit_ns(self) -> u64 {
        match self {
            Format::Spc | Format::Tencent | Format::Vscsi => 1_000_000_000,
            Format::Fio | Format::Alibaba => 1_000,
            Format::Msr => 100,
            Format::Fiu | Format::Blktrace | Format::Mqsim | Format::Outcore => 1,
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

/// `spc, fiu, ...`
pub(crate) fn names_of_all() -> String {
    Format::ALL.map(Format::name).join(", ")
}

/// What became of one line.
pub(crate) type Parsed = std::result::Result<Option<Request>, Reason>;

/// Device and file names, numbered in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: Vec<String>,
    by_name: HashMap<Box<[u8]>, u32>,
    /// The name asked for last: most lines ask for the same one.
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

/// Parses lines of one text format; keeps what one line says about later ones.
#[derive(Debug)]
pub(crate) struct LineParser {
    format: Format,
    unit_ns: u64,
    fio: tools::FioState,
}

impl LineParser {
    /// A parser for a text `format` whose time field counts units of `unit_ns`.
    pub(crate) fn new(format: Format, unit_ns: u64) -> Self {
        LineParser {
            format,
            unit_ns,
            fio: tools::FioState::default(),
        }
    }

    /// One line; `number` is its place in the file, from 1.
    #[inline]
    pub(crate) fn parse(&mut self, line: &[u8], number: u64, names: &mut Names) -> Parsed {
        let unit_ns = self.unit_ns;
        let parsed = match self.format {
            Format::Spc => published::spc(line, unit_ns),
            Format::Fiu => published::fiu(line, unit_ns),
            Format::Msr => published::msr(line, unit_ns, names),
            Format::Alibaba => published::alibaba(line, unit_ns),
            Format::Tencent => published::tencent(line, unit_ns),
            Format::Vscsi => published::vscsi(line, unit_ns),
            Format::Mqsim => tools::mqsim(line, unit_ns),
            Format::Fio => self.fio.parse(line, unit_ns, names),
            Format::Blktrace | Format::Outcore => Err(Reason::Magic),
        };
        match parsed {
            Err(reason) => Self::not_a_request(line, number, reason),
            parsed => parsed,
        }
    }

    /// Blank lines, comments and a header in the first line are not errors.
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

/// A request, if its range fits the address space.
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

/// Guesses the format from the file's first bytes; `is_whole` says that there are no more.
///
/// Binary formats are known by their magic, fio's by its first line; for the others every parser
/// reads the first lines and the one that understands most wins, if it understands at least a
/// tenth of them.
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
    let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
    if !is_whole && lines.len() > 1 {
        // The last line is probably cut.
        lines.pop();
    }
    lines.truncate(DETECT_LINES_MAX);
    let filled = lines
        .iter()
        .filter(|line| !line.trim_ascii().is_empty())
        .count();
    let candidates = Format::ALL.into_iter().filter(|format| format.is_text());
    let scored = candidates.map(|format| (understood(format, &lines), format));
    // On a tie the earlier format stays: `max_by_key` would take the later one.
    let (score, format) = scored.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (score > 0 && score * 10 >= filled).then_some(format)
}

/// How many of `lines` the parser of `format` reads as requests.
fn understood(format: Format, lines: &[&[u8]]) -> usize {
    let mut parser = LineParser::new(format, format.time_unit_ns());
    let mut names = Names::default();
    let numbered = lines.iter().zip(1_u64..);
    numbered
        .filter(|(line, number)| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            matches!(parser.parse(line, *number, &mut names), Ok(Some(_)))
        })
        .count()
}
