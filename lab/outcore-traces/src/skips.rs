//! Counts lines that could not be read, by reason, and keeps the first places.
//!
//! Contract: published traces contain corrupt lines, so by default a bad line is skipped and
//! counted; it is neither fatal nor silent. `OnError::Fail` turns the first one into an error with
//! file, line, byte offset, reason and the line itself. Memory is bounded: one counter per reason
//! and at most [`PLACES_MAX`] places.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use outcore_io::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum number of places of bad lines that are kept for the report.
pub(crate) const PLACES_MAX: usize = 8;

/// Bytes of a bad line that a report shows.
const EXCERPT_BYTES: usize = 60;

/// What to do with a line that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// Skip it, count it, keep the first places.
    #[default]
    Skip,
    /// Stop with an error.
    Fail,
}

impl std::str::FromStr for OnError {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "skip" => Ok(OnError::Skip),
            "fail" => Ok(OnError::Fail),
            other => Err(
                Error::usage("--on-error", format!("unknown choice `{other}`"))
                    .hint("use `skip` or `fail`"),
            ),
        }
    }
}

/// The reason why a line or record was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Too few or too many fields.
    Fields,
    /// A field that must be a number is not one, or does not fit.
    Number,
    /// The time is not a number, does not fit 64 bits of nanoseconds, or runs backwards in a
    /// record.
    Time,
    /// The time has decimals although the format counts whole units, so the trace uses another
    /// unit. Never skipped.
    Decimals,
    /// The operation is not defined by the format.
    Operation,
    /// Offset and length exceed a 64-bit address space.
    Range,
    /// A line longer than any line of the format.
    LineTooLong,
    /// More device or file names than the reader keeps.
    Devices,
    /// Bytes that are not a record (binary formats).
    Magic,
    /// The file ends inside a record. Never skipped in block traces.
    Truncated,
    /// A required field is missing (JSON).
    Missing,
    /// Lines that belong together are in an impossible order.
    Order,
}

impl Reason {
    const COUNT: usize = 12;
    const ALL: [Reason; Self::COUNT] = [
        Reason::Fields,
        Reason::Number,
        Reason::Time,
        Reason::Decimals,
        Reason::Operation,
        Reason::Range,
        Reason::LineTooLong,
        Reason::Devices,
        Reason::Magic,
        Reason::Truncated,
        Reason::Missing,
        Reason::Order,
    ];

    /// A short description for people.
    pub const fn text(self) -> &'static str {
        match self {
            Reason::Fields => "wrong number of fields",
            Reason::Number => "bad number",
            Reason::Time => "bad time",
            Reason::Decimals => "a time with decimals",
            Reason::Operation => "unknown operation",
            Reason::Range => "range beyond 64 bits",
            Reason::LineTooLong => "line too long",
            Reason::Devices => "too many device names",
            Reason::Magic => "bytes that are not a record",
            Reason::Truncated => "file ends inside a record",
            Reason::Missing => "a needed field is missing",
            Reason::Order => "out of order",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The place of a bad line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedLine {
    /// The file.
    pub path: PathBuf,
    /// Line number from 1; for binary formats, the record's number from 1.
    pub line: u64,
    /// Byte offset of the line's start in the decompressed file.
    pub offset_bytes: u64,
    /// Why it was not read.
    pub reason: Reason,
    /// The line's beginning, with all unprintable bytes escaped.
    pub excerpt: String,
}

impl fmt::Display for SkippedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)?;
        if !self.excerpt.is_empty() {
            write!(f, ": `{}`", self.excerpt)?;
        }
        Ok(())
    }
}

/// How many lines were skipped, the reasons, and the first places.
///
/// As JSON: `{"total": 2, "by_reason": {"number": 2}, "places": [...]}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "SkipsJson", from = "SkipsJson")]
pub struct Skips {
    counts: [u64; Reason::COUNT],
    places: Vec<SkippedLine>,
}

#[derive(Serialize, Deserialize)]
struct SkipsJson {
    total: u64,
    by_reason: BTreeMap<Reason, u64>,
    places: Vec<SkippedLine>,
}

impl From<Skips> for SkipsJson {
    fn from(skips: Skips) -> Self {
        let (total, by_reason) = (skips.total(), skips.by_reason().collect());
        SkipsJson {
            total,
            by_reason,
            places: skips.places,
        }
    }
}

impl From<SkipsJson> for Skips {
    fn from(json: SkipsJson) -> Self {
        let mut skips = Skips {
            places: json.places,
            ..Skips::default()
        };
        for (reason, count) in json.by_reason {
            skips.counts[reason as usize] = count;
        }
        skips
    }
}

impl Skips {
    /// Lines skipped for any reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Lines skipped for `reason`.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Every reason that occurred, with its count.
    fn by_reason(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL
            .into_iter()
            .map(|reason| (reason, self.count(reason)))
            .filter(|(_, n)| *n > 0)
    }

    /// The first places in order of reading, at most [`PLACES_MAX`].
    pub fn places(&self) -> &[SkippedLine] {
        &self.places
    }

    pub(crate) fn add(&mut self, place: impl FnOnce() -> SkippedLine, reason: Reason) {
        self.counts[reason as usize] += 1;
        if self.places.len() < PLACES_MAX {
            self.places.push(place());
        }
    }
}

impl fmt::Display for Skips {
    /// Without skipped lines, `no line skipped`; otherwise counts by reason and the first places,
    /// one per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        if total == 0 {
            return f.write_str("no line skipped");
        }
        write!(
            f,
            "{total} line{} skipped: ",
            if total == 1 { "" } else { "s" }
        )?;
        for (index, (reason, count)) in self.by_reason().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{count} {reason}")?;
        }
        for place in &self.places {
            write!(f, "\n  {place}")?;
        }
        if total > self.places.len() as u64 {
            write!(f, "\n  and {} more", total - self.places.len() as u64)?;
        }
        Ok(())
    }
}

/// The error for a binary file that ends inside a record: never skipped, because what is missing is
/// unknown. `part` and `format` name a record and the format.
pub(crate) fn cut_short(part: &str, format: &str, number: u64, start_bytes: u64) -> Error {
    let whole = number.saturating_sub(1);
    Error::corrupt(
        "read trace",
        format!("the file ends inside {part} {number} of {format}, after {whole} whole {part}s"),
    )
    .offset(start_bytes)
    .hint(format!(
        "fetch it again, or keep what is whole: its first {start_bytes} bytes, unpacked (`head -c {start_bytes}`)"
    ))
}

/// The start of `line` as printable text.
pub(crate) fn excerpt(line: &[u8]) -> String {
    let cut = &line[..line.len().min(EXCERPT_BYTES)];
    let mut text = cut.escape_ascii().to_string();
    if line.len() > EXCERPT_BYTES {
        text.push_str("...");
    }
    text
}

/// The state of a reader: the policy and the counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) on_error: OnError,
    pub(crate) skips: Skips,
    /// Valid lines that are no requests: headers, comments, file opens.
    pub(crate) ignored: u64,
}

/// How messages name a part of a file, for example "line of MSR Cambridge".
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatPart {
    /// `line`, `record`.
    pub(crate) part: &'static str,
    /// The format's title.
    pub(crate) format: &'static str,
}

impl Tally {
    pub(crate) fn new(on_error: OnError) -> Self {
        Tally {
            on_error,
            ..Tally::default()
        }
    }

    /// Counts a bad line, or turns it into an error. `what` names the part.
    pub(crate) fn bad(
        &mut self,
        reason: Reason,
        path: &Path,
        line: u64,
        offset_bytes: u64,
        bytes: &[u8],
        what: FormatPart,
    ) -> Result<()> {
        match self.on_error {
            OnError::Skip => {
                self.skips.add(
                    || SkippedLine {
                        path: path.to_path_buf(),
                        line,
                        offset_bytes,
                        reason,
                        excerpt: excerpt(bytes),
                    },
                    reason,
                );
                Ok(())
            }
            OnError::Fail => Err(Error::corrupt(
                "read trace",
                format!(
                    "{} {line} as {}: {reason}: `{}`",
                    what.part,
                    what.format,
                    excerpt(bytes)
                ),
            )
            .path(path)
            .offset(offset_bytes)
            .hint("`--on-error skip` counts such lines and continues")),
        }
    }
}
