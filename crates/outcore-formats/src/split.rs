//! Files cut into parts of whole lines or records.
//!
//! Contract: one pass over the input, and for a number of parts no look at bytes but at the borders of
//! parts. The parts grow in a private directory and appear together at the end, by one commit record:
//! all of them or none. What is compressed by name is packed. Memory: a few blocks of 1 MiB.

use std::io::Write;
use std::path::{Path, PathBuf};

use outcore::drive::PrivateDir;
use outcore::job::Job;
use outcore::volume::output::parent_of;
use outcore::{Error, Result};

use crate::blocks::BlockWriter;
use crate::inputs::{FileKey, key_of};
use crate::text::compress::{Compression, Encoder};
use crate::text::reader::{Frame, RecordReader};

/// What stands for the number of a part in its name.
pub const PLACEHOLDER: &str = "{part}";
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
}

impl SplitRequest<'_> {
    /// Refuses what makes no sense, before anything is read.
    ///
    /// # Errors
    /// Usage for names that are all the same, and for no parts or too many.
    pub fn check(&self) -> Result<()> {
        let refuse = |cause: &str, hint: &str| Err(Error::usage(SPLIT, cause).hint(hint));
        if !self.pattern.contains(PLACEHOLDER) {
            return refuse(
                "the names of the parts would all be the same",
                "put {part} into the name, as in part-{part}.txt",
            );
        }
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
    request.check()?;
    let cut = request.cut;
    let mut parts = Parts::new(job, request)?;
    job.control.begin_phase(SPLIT, data_bytes);
    let records = match cut {
        Cut::Parts(count) => by_place(reader, frame, data_bytes, count, &mut parts)?,
        Cut::Records(count) => by_count(reader, frame, count, &mut parts)?,
    };
    Ok((records, parts.publish()?))
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
    parts.begin()?;
    while let Some(record) = reader.next_record()? {
        while part + 1 < count && at_bytes >= border_bytes(part + 1) {
            parts.begin()?;
            part += 1;
        }
        at_bytes += record.len() as u64 + u64::from(matches!(frame, Frame::Terminator(_)));
        parts.put(record, frame)?;
        records += 1;
    }
    for _ in part + 1..count {
        parts.begin()?;
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
            parts.begin()?;
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
    digits: usize,
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
        } = request;
        let parent = parent_of(Path::new(pattern));
        if parent.to_string_lossy().contains(PLACEHOLDER) {
            return Err(Error::usage(SPLIT, "all parts go into one directory")
                .path(parent)
                .hint("put {part} into the last part of the name"));
        }
        job.device.sweep_private_dirs(parent)?;
        let known = match cut {
            Cut::Parts(count) => count,
            Cut::Records(_) => 0,
        };
        let parts = Parts {
            job,
            pattern,
            replace,
            inputs,
            digits: (known.max(100) - 1).to_string().len(),
            dir: job.device.make_private_dir(parent)?,
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
        let number = format!("{part:0width$}", width = self.digits);
        PathBuf::from(self.pattern.replace(PLACEHOLDER, &number))
    }

    /// Ends the part that is being written and begins the next.
    fn begin(&mut self) -> Result<()> {
        self.end()?;
        self.check(self.staged.len())?;
        let path = self.dir.path().join(format!("part-{}", self.staged.len()));
        let writer = BlockWriter::create(self.job, &path, u64::MAX)?;
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
        PrivateDir::commit(&dirs, &renames)?;
        // From here on the parts exist: one that fails does not hold up the others, and whoever
        // sweeps the directory tries again.
        let rename = |(from, to): &(PathBuf, PathBuf)| self.job.device.rename(from, to, true);
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
