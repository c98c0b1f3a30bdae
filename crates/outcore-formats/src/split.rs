//! Files cut into parts of whole lines or records.
//!
//! Contract: one pass over the input. A number of parts of records differ by one record at most; of lines,
//! each lies in the part in which its first byte would, if all parts were equally long. The parts grow in
//! a private directory and appear together at the end, by one commit record: all of them or none. Parts
//! of records have the header of an array of NumPy if they are named so, each with its own number of rows;
//! parts of lines are compressed if they are named so. Names sort as the parts do. Memory: a few blocks of
//! 1 MiB.

use std::io::Write;
use std::path::{Path, PathBuf};

use outcore::data::NpyHeader;
use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::volume::output::parent_of;
use outcore::{Error, Result};

use crate::blocks::BlockWriter;
use crate::inputs::{FileKey, key_of};
use crate::output::{Holds, check_placeholders};
use crate::text::compress::{Compression, Encoder};
use crate::text::reader::{Frame, RecordReader};

/// What stands for the number of a part in its name.
pub const PLACEHOLDER: &str = "{part}";
/// The numbers of so few parts have as many digits as those of more.
const PARTS_MIN: u64 = 100;
/// More parts are a mistake.
const PARTS_MAX: u64 = 100_000;
const SPLIT: &str = "split";
const WRITE: &str = "write part";

/// Where a part ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// There are so many, about equally long.
    Parts(u64),
    /// Behind so many records.
    Records(u64),
}

/// What parts are to be made.
#[derive(Debug)]
pub struct SplitRequest<'a> {
    /// Their names, with [`PLACEHOLDER`] for the number.
    pub pattern: &'a str,
    /// Where one ends.
    pub cut: Cut,
    /// Whether they may take the place of files that are none of the inputs.
    pub replace: bool,
    /// Files that no part may take the place of.
    pub inputs: Vec<FileKey>,
    /// The header of parts that are arrays of NumPy.
    pub header: Option<NpyHeader>,
}

impl SplitRequest<'_> {
    /// Refuses what makes no sense, before anything is read.
    ///
    /// # Errors
    /// Usage for names that are all the same or promise other contents, and for no parts or too many.
    pub fn check(&self, holds: Holds) -> Result<()> {
        let refuse = |cause: &str, hint: &str| Err(Error::usage(SPLIT, cause).hint(hint));
        if !self.pattern.contains(PLACEHOLDER) {
            return refuse(
                "the names of the parts would all be the same",
                "put {part} into the name, as in part-{part}.txt",
            );
        }
        check_placeholders(Path::new(self.pattern), &[PLACEHOLDER])?;
        holds.check_name(Path::new(self.pattern))?;
        match self.cut {
            Cut::Parts(0) | Cut::Records(0) => {
                refuse("there is nothing to split into 0", "give at least 1")
            }
            Cut::Parts(parts) if parts > PARTS_MAX => {
                refuse("that are too many parts", "give at most 100000")
            }
            _ => Ok(()),
        }
    }
}

/// Cuts what `reader` has still to read, `data_bytes` in records of `frame`, into parts; gives the number
/// of records and the names of the parts.
///
/// # Errors
/// Those of [`SplitRequest::check`] and of the reader, [`Usage`](outcore::Kind::Usage) for parts that exist,
/// and those of writing. There are no parts then, unless the error says that they are whole.
pub fn split(
    job: &Job,
    reader: &mut RecordReader<'_>,
    frame: Frame,
    data_bytes: u64,
    request: SplitRequest<'_>,
) -> Result<(u64, Vec<PathBuf>)> {
    let (cut, records) = match frame {
        Frame::Terminator(_) => {
            request.check(Holds::Lines)?;
            (request.cut, None)
        }
        Frame::Bytes(record_bytes) => {
            request.check(Holds::Records)?;
            (request.cut, Some(data_bytes / record_bytes as u64))
        }
    };
    let mut parts = Parts::new(job, request)?;
    job.control.begin_phase(SPLIT, data_bytes);
    let records = match (cut, records) {
        (Cut::Parts(count), None) => by_place(reader, frame, data_bytes, count, &mut parts)?,
        (Cut::Parts(count), Some(records)) => {
            let border =
                |part: u64| (u128::from(records) * u128::from(part) / u128::from(count)) as u64;
            let lens = (0..count).map(|part| border(part + 1) - border(part));
            by_lens(reader, frame, lens, &mut parts)?
        }
        (Cut::Records(len), None) => by_count(reader, frame, len, &mut parts)?,
        (Cut::Records(len), Some(records)) => {
            let lens = (0..records.div_ceil(len)).map(|part| len.min(records - part * len));
            by_lens(reader, frame, lens, &mut parts)?
        }
    };
    Ok((records, parts.publish()?))
}

/// So many records a part, as many as there are.
fn by_lens(
    reader: &mut RecordReader<'_>,
    frame: Frame,
    lens: impl Iterator<Item = u64>,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let mut records = 0;
    for len in lens {
        parts.begin(len)?;
        for _ in 0..len {
            let Some(record) = reader.next_record()? else {
                return Err(Error::corrupt(SPLIT, "an input became shorter")
                    .hint("do not change inputs while they are read"));
            };
            parts.put(record, frame)?;
            records += 1;
        }
    }
    match reader.next_record()? {
        None => Ok(records),
        Some(_) => Err(Error::corrupt(SPLIT, "an input became longer")
            .hint("do not change inputs while they are read")),
    }
}

/// A record belongs to the part in which its first byte lies.
fn by_place(
    reader: &mut RecordReader<'_>,
    frame: Frame,
    data_bytes: u64,
    count: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let border_bytes =
        |part: u64| (u128::from(data_bytes) * u128::from(part) / u128::from(count)) as u64;
    let (mut records, mut at_bytes, mut part) = (0, 0, 0);
    parts.begin(0)?;
    while let Some(record) = reader.next_record()? {
        while part + 1 < count && at_bytes >= border_bytes(part + 1) {
            parts.begin(0)?;
            part += 1;
        }
        at_bytes += record.len() as u64 + u64::from(matches!(frame, Frame::Terminator(_)));
        parts.put(record, frame)?;
        records += 1;
    }
    for _ in part + 1..count {
        parts.begin(0)?;
    }
    Ok(records)
}

fn by_count(
    reader: &mut RecordReader<'_>,
    frame: Frame,
    part_records: u64,
    parts: &mut Parts<'_>,
) -> Result<u64> {
    let mut records = 0;
    while let Some(record) = reader.next_record()? {
        if records % part_records == 0 {
            parts.begin(0)?;
        }
        parts.put(record, frame)?;
        records += 1;
    }
    Ok(records)
}

/// Parts that do not yet appear.
struct Parts<'a> {
    job: &'a Job,
    pattern: &'a str,
    /// Whether parts may take the place of files that are none of the inputs.
    replace: bool,
    inputs: Vec<FileKey>,
    header: Option<NpyHeader>,
    /// How many parts there will be at least.
    known: u64,
    dir: PrivateDir,
    current: Option<Encoder<BlockWriter>>,
    staged: Vec<PathBuf>,
}

impl<'a> Parts<'a> {
    fn new(job: &'a Job, request: SplitRequest<'a>) -> Result<Self> {
        let SplitRequest {
            pattern,
            cut,
            replace,
            inputs,
            header,
        } = request;
        let parent = parent_of(Path::new(pattern));
        if parent.to_string_lossy().contains(PLACEHOLDER) {
            return Err(Error::usage(SPLIT, "all parts go into one directory")
                .path(parent)
                .hint("put {part} into the last part of the name"));
        }
        job.device.sweep_private_dirs(parent)?;
        let set = Path::new(pattern).file_name().unwrap_or_default();
        let known = match cut {
            Cut::Parts(count) => count,
            Cut::Records(_) => 0,
        };
        let parts = Parts {
            job,
            pattern,
            replace,
            inputs,
            header,
            known,
            // One job at a time writes parts of these names.
            dir: job.device.claim_private_dir(parent, set)?,
            current: None,
            staged: Vec::new(),
        };
        // Told before the work where all names are known.
        (0..known).try_for_each(|part| parts.check(part as usize))?;
        Ok(parts)
    }

    /// Fails if a part cannot have its name.
    fn check(&self, part: usize) -> Result<()> {
        let name = self.name(part);
        let Ok(facts) = std::fs::metadata(&name) else {
            return Ok(());
        };
        let (cause, hint) = if facts.is_dir() {
            ("it is a directory", "give another name")
        } else if self.inputs.contains(&key_of(&facts)) {
            ("a part is one of the inputs", "give another name")
        } else if !self.replace {
            ("a part exists already", "allow overwriting with --force")
        } else {
            return Ok(());
        };
        Err(Error::usage(SPLIT, cause).path(name).hint(hint))
    }

    fn name(&self, part: usize) -> PathBuf {
        // Of so many lines each, the number of parts is known at the end, when they get their names.
        let parts = self.known.max(self.staged.len() as u64).max(PARTS_MIN);
        let digits = (parts - 1).to_string().len();
        let number = format!("{part:0digits$}");
        PathBuf::from(self.pattern.replace(PLACEHOLDER, &number))
    }

    /// Ends the part that is being written and begins the next, with a header that tells of `rows` records
    /// where it has one.
    fn begin(&mut self, rows: u64) -> Result<()> {
        self.end()?;
        self.check(self.staged.len())?;
        let path = self.dir.path().join(format!("part-{}", self.staged.len()));
        let mut writer = BlockWriter::create(self.job, &path, u64::MAX)?;
        if let Some(header) = &self.header {
            writer.put(&header.encode(rows))?;
        }
        let compression = Compression::of(Path::new(self.pattern));
        self.current = Some(Encoder::new(compression, writer)?);
        self.staged.push(path);
        Ok(())
    }

    fn put(&mut self, record: &[u8], frame: Frame) -> Result<()> {
        let Some(writer) = &mut self.current else {
            return Ok(());
        };
        let written = writer.write_all(record).and_then(|()| match frame {
            Frame::Terminator(terminator) => writer.write_all(&[terminator]),
            Frame::Bytes(_) => Ok(()),
        });
        written.map_err(|error| Error::io(WRITE, &error).path(self.pattern))
    }

    fn end(&mut self) -> Result<()> {
        let Some(writer) = self.current.take() else {
            return Ok(());
        };
        let part = self.name(self.staged.len() - 1);
        let file = writer
            .finish()
            .map_err(|error| Error::io(WRITE, &error).path(&part))?;
        file.finish_synced()
            .map(|_| ())
            .map_err(|error| error.path(&part))
    }

    /// Puts all parts in their places; gives their names.
    fn publish(mut self) -> Result<Vec<PathBuf>> {
        self.end()?;
        (0..self.staged.len()).try_for_each(|part| self.check(part))?;
        let names: Vec<PathBuf> = (0..self.staged.len()).map(|part| self.name(part)).collect();
        let renames: Vec<(PathBuf, PathBuf)> =
            self.staged.iter().cloned().zip(names.clone()).collect();
        let dirs = [self.dir];
        PrivateDir::commit(&dirs, &renames, self.replace)?;
        // From here on the parts exist: one that fails does not hold up the others, and whoever
        // sweeps the directory tries again.
        let rename =
            |(from, to): &(PathBuf, PathBuf)| self.job.device.rename(from, to, self.replace);
        let failures: Vec<Error> = renames
            .iter()
            .filter_map(|pair| rename(pair).err())
            .collect();
        match failures.into_iter().next() {
            None => Ok(names),
            Some(error) => {
                dirs.into_iter().for_each(PrivateDir::leave);
                Err(error.hint(
                    "the parts are whole: a run of outcore with outputs in the same directory puts \
                     the rest in place",
                ))
            }
        }
    }
}
