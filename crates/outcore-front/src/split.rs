//! Splits files into parts of whole lines or records.
//!
//! Contract:
//! - One pass over the input, in pieces, so that a line may be longer than memory.
//! - With a given number of parts, parts of records differ by at most one record. A line belongs to
//!   the part that would contain its first byte if all parts were equally long.
//! - The parts grow in a private directory and appear together at the end, by one commit record:
//!   all of them or none.
//! - Parts of records have the header of a NumPy array if their extension asks for it, each with
//!   its own number of rows. Parts of CSV have its header. Parts of lines are compressed if their
//!   extension asks for it.
//! - Names sort in the order of the parts. A part of an earlier split that could be mistaken for
//!   one of these is rejected.
//! - [`pieces`] makes parts by length, and [`routed`](route) by key or at random.
//! - With a command ([`SplitRequest::filter`]) parts are not files: each goes to the command
//!   ([`filter`]) when it is read, one after the other.
//!
//! Memory: a few blocks of 1 MiB, and the memory of [`pieces`].

mod filter;
mod pieces;
mod routed;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use outcore::job::Job;
use outcore::key::NpyHeader;
use outcore::{Error, Result};
use outcore_io::drive::link::refuse_link;
use outcore_io::drive::objects::is_object;
use outcore_io::drive::paths;
use outcore_io::drive::{PrivateDir, Rename};
use outcore_io::output::{parent_of, publish_together};
use outcore_io::units;
use outcore_store::dataset::Named;

use crate::blocks::BlockWriter;
use crate::compress::{Compression, Encoder};
use crate::inputs::FileKey;
use crate::objects::no_directory;
use crate::output::{Holds, check_dir_of, check_placeholders, pattern};
use crate::text::reader::{Frame, RecordReader};
use filter::Filter;
pub use routed::{LineRoute, route};

/// The placeholder for the number of a part in its name.
pub const PLACEHOLDER: &str = "{part}";
/// Part numbers have at least as many digits as this many parts would need.
const PARTS_MIN: u64 = 100;
/// More parts than this are a mistake. Names of parts for a command have as many digits as this
/// number needs.
const PARTS_MAX: u64 = 100_000;
const SPLIT: &str = "split";
const WRITE: &str = "write part";

/// The rule that ends a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartSize {
    /// A number of parts of about equal length.
    Parts(u64),
    /// After each group of this many records.
    Records(u64),
    /// After this many bytes, at any place.
    Bytes(u64),
    /// After the last record that ends within this many bytes.
    LineBytes(u64),
}

impl PartSize {
    /// Whether the length of the input must be known in advance.
    pub fn needs_length(self) -> bool {
        matches!(self, PartSize::Parts(_))
    }
}

/// Parameters of a split.
#[derive(Debug)]
pub struct SplitRequest<'a> {
    /// Their names, with [`PLACEHOLDER`] for the number.
    pub pattern: &'a Path,
    /// The rule that ends each part.
    pub cut: PartSize,
    /// Whether parts may replace files that are not inputs.
    pub replace: bool,
    /// Files that no part may replace.
    pub inputs: Vec<FileKey>,
    /// The header of parts that are NumPy arrays.
    pub header: Option<NpyHeader>,
    /// The command that receives each part instead of a file.
    pub filter: Option<&'a OsStr>,
}

impl SplitRequest<'_> {
    /// Rejects invalid requests before anything is read.
    ///
    /// # Errors
    /// Usage for names that are all equal or whose extension does not match the contents, and for
    /// no parts or too many.
    pub fn check(&self, holds: Holds) -> Result<()> {
        let refuse = |cause: &str, hint: &str| Err(Error::usage(SPLIT, cause).hint(hint));
        if !has_placeholder(self.pattern) {
            return refuse(
                "the names of the parts would all be the same",
                "put {part} into the name, as in part-{part}.txt",
            );
        }
        check_parts_name(self.pattern)?;
        // If a command gets the parts, their names do not determine the contents.
        if self.filter.is_none() {
            holds.check_name(self.pattern)?;
        }
        match self.cut {
            PartSize::Parts(0)
            | PartSize::Records(0)
            | PartSize::Bytes(0)
            | PartSize::LineBytes(0) => {
                refuse("the number or size of parts is 0", "give at least 1")
            }
            PartSize::Parts(parts) if parts > PARTS_MAX => {
                refuse("too many parts", "give at most 100000")
            }
            _ => Ok(()),
        }
    }
}

/// Fails for names of parts that are those of datasets, or that contain a placeholder other than
/// [`PLACEHOLDER`].
///
/// # Errors
/// Usage, with a next step.
pub fn check_parts_name(name: &Path) -> Result<()> {
    if Named::is_mark(name) {
        return Err(
            Error::usage("create output", "parts are files, not datasets")
                .path(name)
                .hint("write files, and store each with `outcore volume put`; ./@NAME is a file of that name"),
        );
    }
    if is_object(name) {
        return Err(no_directory(name));
    }
    check_placeholders(name, &[PLACEHOLDER])
}

/// Whether the extension of `pattern` makes parts of lines compressed.
pub fn is_compressed(pattern: &Path) -> bool {
    Compression::of(pattern).is_some()
}

/// Whether [`PLACEHOLDER`] is in `name`.
pub fn has_placeholder(name: &Path) -> bool {
    pattern::has_placeholder(name, PLACEHOLDER)
}

/// The name of a part: `pattern` with `part` in place of each [`PLACEHOLDER`]. Names are bytes and
/// need not be UTF-8.
pub fn name_of_part(pattern: &Path, part: &str) -> PathBuf {
    pattern::filled_in(pattern.as_os_str(), PLACEHOLDER, part).into()
}

/// Splits the input of `reader`, `files` files with `data_bytes` in total, into parts. Returns the
/// number of records and the names of the parts.
///
/// # Errors
/// Those of [`SplitRequest::check`] and of the reader, [`Usage`](outcore::Kind::Usage) for parts
/// that exist, and those of writing. No part then exists, unless the error says that the parts are
/// complete.
pub fn split(
    job: &Job,
    reader: &mut RecordReader<'_>,
    files: usize,
    data_bytes: u64,
    request: SplitRequest<'_>,
) -> Result<(u64, Vec<PathBuf>)> {
    let records = match reader.frame() {
        Frame::Bytes(record_bytes) => Some(data_bytes / record_bytes as u64),
        Frame::Terminator(_) | Frame::Json(_) | Frame::Csv { .. } | Frame::Fastq => None,
    };
    request.check(match (records, request.cut) {
        (_, PartSize::Bytes(_)) => Holds::Bytes,
        (Some(_), _) => Holds::Records,
        (None, _) => Holds::Lines,
    })?;
    let cut = request.cut;
    if records.is_some() && matches!(cut, PartSize::LineBytes(_)) {
        return Err(Error::usage(SPLIT, "fixed-size records have no lines")
            .hint("give the number of records per part"));
    }
    job.control.begin_phase(SPLIT, data_bytes);
    let front = reader.header()?.to_vec();
    let headers_bytes = match reader.frame() {
        Frame::Csv { .. } => (files * front.len()) as u64,
        // The headers of lines were removed before.
        Frame::Bytes(_) | Frame::Terminator(_) | Frame::Json(_) | Frame::Fastq => 0,
    };
    let front_bytes = front.len() as u64;
    if let (PartSize::LineBytes(size_bytes), Frame::Terminator(_)) = (cut, reader.frame())
        && front_bytes >= size_bytes
    {
        let cause = format!("the header alone takes {}", units::bytes_exact(front_bytes));
        return Err(Error::usage(SPLIT, cause).hint("give each part more bytes than that"));
    }
    let mut parts = Parts::new(job, request, front)?;
    let by_length = match cut {
        PartSize::Bytes(bytes) => Some(pieces::by_bytes(reader, bytes, &mut parts)?),
        PartSize::LineBytes(bytes) => Some(pieces::by_line_bytes(
            reader,
            bytes,
            front_bytes,
            &mut parts,
        )?),
        PartSize::Parts(_) | PartSize::Records(_) => None,
    };
    if let Some(count) = by_length {
        return Ok((count, parts.publish()?));
    }
    let mut cutter = Cutter {
        cut,
        data_bytes: data_bytes.saturating_sub(headers_bytes),
        records,
        begun: 0,
    };
    let (mut records, mut at_bytes, mut is_begun) = (0, 0, false);
    let end = reader.frame().end();
    while let Some(piece) = reader.next_piece()? {
        if !is_begun {
            cutter.begin_record(records, at_bytes, &mut parts)?;
        }
        parts.put(piece.bytes)?;
        at_bytes += piece.bytes.len() as u64;
        is_begun = !piece.is_last;
        if piece.is_last {
            parts.put(end.as_slice())?;
            at_bytes += end.as_slice().len() as u64;
            records += 1;
        }
    }
    cutter.end(records, &mut parts)?;
    Ok((records, parts.publish()?))
}

/// Assigns records to parts.
struct Cutter {
    cut: PartSize,
    data_bytes: u64,
    /// Total number of records, if it is known in advance.
    records: Option<u64>,
    /// Number of parts begun.
    begun: u64,
}

impl Cutter {
    /// Total number of parts, if it is known in advance.
    fn parts(&self) -> Option<u64> {
        match (self.cut, self.records) {
            (PartSize::Parts(count), _) => Some(count),
            (PartSize::Records(len), Some(records)) => Some(records.div_ceil(len)),
            _ => None,
        }
    }

    /// The first record of part `part`, or its first byte if the number of records is unknown.
    fn begin_of(&self, part: u64) -> u64 {
        let all = self.records.unwrap_or(self.data_bytes);
        match self.cut {
            PartSize::Parts(count) => {
                (u128::from(all) * u128::from(part) / u128::from(count)) as u64
            }
            PartSize::Records(len) => part.saturating_mul(len).min(all),
            PartSize::Bytes(_) | PartSize::LineBytes(_) => all,
        }
    }

    fn begin(&mut self, parts: &mut Parts<'_>) -> Result<()> {
        let rows = match self.records {
            Some(_) => self.begin_of(self.begun + 1) - self.begin_of(self.begun),
            None => 0,
        };
        self.begun += 1;
        parts.begin(rows)
    }

    /// Begins the parts up to the one of record `number`, which begins at `at_bytes` of the data.
    fn begin_record(&mut self, number: u64, at_bytes: u64, parts: &mut Parts<'_>) -> Result<()> {
        if self.records.is_some_and(|records| number >= records) {
            return Err(changed("longer"));
        }
        let Some(count) = self.parts() else {
            return match self.cut {
                PartSize::Records(len) if number.is_multiple_of(len) => self.begin(parts),
                _ => Ok(()),
            };
        };
        let at = match self.records {
            Some(_) => number,
            None => at_bytes,
        };
        while self.begun < count && at >= self.begin_of(self.begun) {
            self.begin(parts)?;
        }
        Ok(())
    }

    /// Begins the parts that remain empty, after `records` records.
    fn end(&mut self, records: u64, parts: &mut Parts<'_>) -> Result<()> {
        if self.records.is_some_and(|known| records < known) {
            return Err(changed("shorter"));
        }
        while self.parts().is_some_and(|count| self.begun < count) {
            self.begin(parts)?;
        }
        Ok(())
    }
}

fn changed(how: &str) -> Error {
    Error::corrupt(SPLIT, format!("an input became {how}"))
        .hint("do not change inputs while they are read")
}

/// Parts that have not appeared yet.
struct Parts<'a> {
    job: &'a Job,
    pattern: &'a Path,
    /// Whether parts may replace files that are not inputs.
    replace: bool,
    inputs: Vec<FileKey>,
    header: Option<NpyHeader>,
    /// The beginning of every part of lines.
    front: Vec<u8>,
    /// Minimum number of parts.
    known: u64,
    /// `None` if a command receives the parts.
    dir: Option<PrivateDir>,
    filter: Option<&'a OsStr>,
    current: Option<PartWriter>,
    /// The memory of each part, if all are written at the same time.
    share_bytes: Option<u64>,
    /// Files of the parts begun, or the names that a command received.
    staged: Vec<PathBuf>,
}

/// The receiver of a part.
enum PartWriter {
    File(Box<Encoder<BlockWriter>>),
    Command(Filter),
}

impl PartWriter {
    fn put(&mut self, bytes: &[u8], pattern: &Path) -> Result<()> {
        match self {
            PartWriter::File(writer) => {
                let written = writer.write_all(bytes);
                written.map_err(|error| Error::io(WRITE, &error).path(pattern))
            }
            PartWriter::Command(filter) => filter.put(bytes),
        }
    }
}

impl<'a> Parts<'a> {
    fn new(job: &'a Job, request: SplitRequest<'a>, front: Vec<u8>) -> Result<Self> {
        let SplitRequest {
            pattern,
            cut,
            replace,
            inputs,
            header,
            filter,
        } = request;
        let parent = parent_of(pattern);
        if has_placeholder(parent) {
            return Err(Error::usage(SPLIT, "all parts go into one directory")
                .path(parent)
                .hint("put {part} into the last part of the name"));
        }
        let dir = match filter {
            Some(_) => None,
            None => {
                check_dir_of("create output", pattern)?;
                job.device.sweep_private_dirs(parent)?;
                // Only one job at a time writes parts of these names.
                let set = pattern.file_name().unwrap_or_default();
                Some(job.device.claim_private_dir(parent, set)?)
            }
        };
        let known = match cut {
            PartSize::Parts(count) => count,
            _ => 0,
        };
        let parts = Parts {
            job,
            pattern,
            replace,
            inputs,
            header,
            front,
            known,
            dir,
            filter,
            current: None,
            share_bytes: None,
            staged: Vec::new(),
        };
        // If all names are known in advance, invalid ones are reported before the work.
        (0..known).try_for_each(|part| parts.check(part as usize))?;
        if known > 0 && filter.is_none() {
            let names: Vec<PathBuf> = (0..known).map(|part| parts.name(part as usize)).collect();
            parts.check_others(&names)?;
        }
        Ok(parts)
    }

    /// Fails if another file has the name of a part: a reader of all files of such names would take
    /// it for one.
    fn check_others(&self, names: &[PathBuf]) -> Result<()> {
        let pattern = self.pattern.file_name().unwrap_or_default().as_bytes();
        let placeholder = PLACEHOLDER.as_bytes();
        let mut windows = pattern.windows(placeholder.len());
        let Some(at) = windows.position(|window| window == placeholder) else {
            return Ok(());
        };
        let (before, behind) = (&pattern[..at], &pattern[at + placeholder.len()..]);
        let known: HashSet<&OsStr> = names.iter().filter_map(|name| name.file_name()).collect();
        let is_other = |name: &OsString| {
            let number = name.as_bytes().strip_prefix(before);
            let number = number.and_then(|rest| rest.strip_suffix(behind));
            number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
                && !known.contains(name.as_os_str())
        };
        let parent = parent_of(self.pattern);
        let failed = |error: std::io::Error| Error::io("list directory", &error).path(parent);
        let entries = paths::entries(parent).map_err(failed)?;
        let mut found = entries.flatten().map(|entry| entry.file_name());
        match found.find(is_other) {
            Some(name) => Err(Error::usage(SPLIT, "a part of an earlier split exists")
                .path(self.pattern.with_file_name(name))
                .hint("remove it, or give the parts another name or directory")),
            None => Ok(()),
        }
    }

    /// Fails if a part cannot have its name.
    fn check(&self, part: usize) -> Result<()> {
        let name = self.name(part);
        refuse_link(SPLIT, &name)?;
        let Ok(facts) = paths::facts(&name) else {
            return Ok(());
        };
        let (cause, hint) = if facts.is_dir() {
            ("a directory has the name of a part", "give another name")
        } else if self.inputs.contains(&FileKey::of(&facts)) {
            ("a part is one of the inputs", "give another name")
        } else if !self.replace {
            ("a part exists already", "allow overwriting with --force")
        } else {
            return Ok(());
        };
        Err(Error::usage(SPLIT, cause).path(name).hint(hint))
    }

    fn name(&self, part: usize) -> PathBuf {
        // If parts have a fixed number of lines, their count is known only at the end, and they get
        // their names then.
        let least = match self.filter {
            // A command gets the name of its part before the number of parts is known.
            Some(_) if self.known == 0 => PARTS_MAX,
            _ => PARTS_MIN,
        };
        let parts = self.known.max(self.staged.len() as u64).max(least);
        let digits = (parts - 1).to_string().len();
        let number = format!("{part:0digits$}");
        name_of_part(self.pattern, &number)
    }

    /// Ends the current part and begins the next one. A header contains the number of `rows`.
    fn begin(&mut self, rows: u64) -> Result<()> {
        self.end()?;
        let part = self.staged.len();
        self.check(part)?;
        let (writer, path) = match &self.dir {
            Some(dir) => {
                let path = dir.path().join(format!("part-{part}"));
                let writer = match self.share_bytes {
                    Some(bytes) => BlockWriter::create_one_of(self.job, &path, bytes)?,
                    None => BlockWriter::create(self.job, &path, u64::MAX)?,
                };
                let compression = Compression::of(self.pattern);
                let encoder = Encoder::new(compression, writer, 1)?;
                (PartWriter::File(Box::new(encoder)), path)
            }
            None => {
                let name = self.name(part);
                if part as u64 == PARTS_MAX {
                    return Err(
                        Error::usage(SPLIT, "more than 100000 parts").hint("make the parts larger")
                    );
                }
                let command = self.filter.unwrap_or_default();
                let filter = Filter::start(self.job, command, &name)?;
                (PartWriter::Command(filter), name)
            }
        };
        self.current = Some(writer);
        self.staged.push(path);
        if let Some(header) = &self.header {
            let header = header.encode(rows);
            self.put(&header)?;
        }
        let front = std::mem::take(&mut self.front);
        let written = self.put(&front);
        self.front = front;
        written
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.current {
            Some(writer) => writer.put(bytes, self.pattern),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        match self.current.take() {
            Some(writer) => self.finish(self.staged.len() - 1, writer),
            None => Ok(()),
        }
    }

    /// Ends the part with this number.
    fn finish(&self, part: usize, writer: PartWriter) -> Result<()> {
        let writer = match writer {
            PartWriter::File(writer) => writer,
            PartWriter::Command(filter) => return filter.finish(),
        };
        let part = self.name(part);
        let file = writer
            .finish()
            .map_err(|error| Error::io(WRITE, &error).path(&part))?;
        file.finish_synced()
            .map(|_| ())
            .map_err(|error| error.path(&part))
    }

    /// Moves all parts to their places. Returns their names. A header without rows still gets a
    /// part.
    fn publish(mut self) -> Result<Vec<PathBuf>> {
        if self.staged.is_empty() && !self.front.is_empty() {
            self.begin(0)?;
        }
        self.end()?;
        let Some(dir) = self.dir.take() else {
            return Ok(self.staged);
        };
        (0..self.staged.len()).try_for_each(|part| self.check(part))?;
        let names: Vec<PathBuf> = (0..self.staged.len()).map(|part| self.name(part)).collect();
        self.check_others(&names)?;
        let renames = self.staged.iter().zip(&names);
        let renames: Vec<Rename> = renames
            .map(|(from, to)| Rename {
                from: from.clone(),
                to: to.clone(),
            })
            .collect();
        publish_together(
            self.job.device.as_ref(),
            vec![dir],
            [&renames, &[]],
            self.replace,
        )?;
        Ok(names)
    }
}
