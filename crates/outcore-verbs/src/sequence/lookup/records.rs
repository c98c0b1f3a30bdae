//! Lookups in files of records.
//!
//! Contract: as in [`super`]. If the keys do not fit in memory, they are looked up in groups, and
//! the records that are found are also gathered in groups. The output is then a single file, which
//! appears whole or not at all.
//!
//! Bounds: as [`outcore::primitives::lookup()`] for the keys that are looked up at a time; with
//! `--values` keys that do not fit are looked up twice, because the length of a file must be known
//! before it is written.

use std::cell::Cell;
use std::time::Instant;

use outcore::dataset::{ItemType, Summary as Done};
use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::primitives::gather::InMemory;
use outcore::primitives::sized_files::{SizedFile, SizedFiles};
use outcore::primitives::{Side, lookup_read_bytes};
use outcore::{Error, Forecast, Kind, Output, Result};
use outcore_front::inputs;
use outcore_io::units;

use super::super::input::Prepared;
use super::super::write::{Steps, WriteRequest, plan_picked, write_with};
use super::keys::Keys;
use super::{LOOKUP, LookupArgs, LookupSummary, and_written, side_of, write_found};
use crate::host::Host;
use crate::report::WriteSummary;

const RANK_BYTES: usize = size_of::<u64>();
/// Memory of a key in addition to its bytes: its two ranks, and its place while it is looked up.
const KEY_BYTES: u64 = 32;
/// Memory of a place while its record is gathered.
const PLACE_BYTES: u64 = 256;

/// Looks up keys in files of records.
///
/// # Errors
/// Usage: keys of another type. Errors of reading and writing.
pub(super) fn in_records(host: &dyn Host, args: &LookupArgs) -> Result<LookupSummary> {
    let files = std::slice::from_ref(&args.keys);
    let files = inputs::open_files(files, host.names())?;
    let counts = Cell::new(Counts::default());
    let consume = |prepared: &mut Prepared, output: Output| {
        let format = prepared.table()?.format().clone();
        let keys = Keys::of_records(&args.keys, &files, &format)?;
        let record_bytes = format.record_bytes();
        let data_bytes: u64 = prepared.inputs.iter().map(|input| input.data_bytes).sum();
        counts.set(Counts {
            keys: keys.count,
            records: data_bytes / record_bytes as u64,
        });
        let mut lookup = Search {
            started: Instant::now(),
            job: prepared.job.clone(),
            prepared,
            args,
            keys,
            record_bytes,
        };
        match args.values {
            true => lookup.write_values(&output),
            false => lookup.write_ranks(&output),
        }
    };
    let planned = |prepared: &Prepared| {
        let format = prepared.table()?.format();
        let keys = Keys::of_records(&args.keys, &files, format)?.count;
        plan_picked(prepared, LOOKUP, |data_bytes| {
            let read_bytes = lookup_read_bytes(
                keys,
                data_bytes,
                format.record_bytes(),
                args.index.is_some(),
            );
            let written = match args.values {
                true => Forecast::Unknown,
                false => keys.saturating_mul(RANK_BYTES as u64).into(),
            };
            (read_bytes.into(), written)
        })
    };
    let request = WriteRequest {
        what: LOOKUP,
        files: &args.files,
        steps: Steps::Picked(&planned),
        made: match args.values {
            true => None,
            false => Some(ItemType::from(RecordFormat::parse_type("u64")?)),
        },
    };
    let wrote = write_with(host, &request, consume)?;
    let counts = counts.get();
    Ok(LookupSummary {
        wrote: WriteSummary {
            records_in: Some(counts.records),
            ..wrote
        },
        keys: counts.keys,
    })
}

/// The number of keys, and of the records that are searched.
#[derive(Clone, Copy, Default)]
struct Counts {
    keys: u64,
    records: u64,
}

/// A lookup that runs.
struct Search<'a> {
    started: Instant,
    job: Job,
    prepared: &'a mut Prepared,
    args: &'a LookupArgs,
    keys: Keys<'a>,
    record_bytes: usize,
}

/// The ranges of records that are equal to the keys.
struct Found {
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Found {
    fn count(&self) -> u64 {
        let ends = self.from.iter().zip(&self.to);
        ends.map(|(from, to)| to.saturating_sub(*from)).sum()
    }

    /// The ranks of these records, key after key.
    fn ranks(&self) -> impl Iterator<Item = u64> {
        let ends = self.from.iter().zip(&self.to);
        ends.flat_map(|(from, to)| *from..*to)
    }
}

impl Search<'_> {
    /// Keys that are looked up at a time, each with room for a record and [`KEY_BYTES`].
    fn at_once(&self) -> u64 {
        let each_bytes = self.record_bytes as u64 + KEY_BYTES;
        (self.job.budget.free_bytes() / 2 / each_bytes).max(1)
    }

    /// The first key of each part, and the number of keys in a part.
    fn parts(&self) -> (Vec<u64>, u64) {
        let at_once = self.at_once();
        let firsts = (0..self.keys.count.max(1)).step_by(at_once.try_into().unwrap_or(usize::MAX));
        (firsts.collect(), at_once)
    }

    /// The keys of a part: all keys if there is only one part.
    fn read(&self, first: u64, at_once: u64) -> Result<Vec<u8>> {
        match self.keys.count <= at_once {
            true => self.keys.read_all(&self.job),
            false => {
                let count = at_once.min(self.keys.count - first);
                self.keys.read(&self.job, first, count)
            }
        }
    }

    fn search(&mut self, keys: &[u8], side: Side) -> Result<(Vec<u64>, Done)> {
        let index = self.args.index.as_deref();
        self.prepared.execution.search_sorted(keys, side, index)
    }

    fn find(&mut self, first: u64, at_once: u64) -> Result<(Found, Done)> {
        let keys = self.read(first, at_once)?;
        let (from, done) = self.search(&keys, Side::Left)?;
        let (to, more) = self.search(&keys, Side::Right)?;
        Ok((Found { from, to }, done.and(more)))
    }

    fn write_ranks(&mut self, output: &Output) -> Result<Done> {
        let (firsts, at_once) = self.parts();
        let (side, force) = (side_of(self.args), self.args.files.input.force);
        if let [first] = firsts[..] {
            let (ranks, done) = self.search(&self.read(first, at_once)?, side)?;
            let found = InMemory {
                bytes: bytemuck::cast_slice(&ranks),
                item_bytes: RANK_BYTES,
            };
            return write_found(&self.job, &found, output, force, done);
        }
        let mut written = Parts::create(&self.job, output, force, self.keys.count, RANK_BYTES)?;
        let mut all = None;
        for first in firsts {
            let keys = self.read(first, at_once)?;
            let (ranks, done) = self.search(&keys, side)?;
            written.append(bytemuck::cast_slice(&ranks))?;
            written.beside_seconds += done.seconds;
            add(&mut all, done);
        }
        written.publish(all, self.started)
    }

    fn write_values(&mut self, output: &Output) -> Result<Done> {
        let (firsts, at_once) = self.parts();
        let (mut all, mut count, mut last) = (None, 0, None);
        let force = self.args.files.input.force;
        for &first in &firsts {
            let (found, done) = self.find(first, at_once)?;
            add(&mut all, done);
            count += found.count();
            last = Some(found);
        }
        // Ranks that are known for all keys are not looked up again.
        let mut known = last.filter(|_| firsts.len() == 1);
        if let (Some(found), true) = (&known, count <= self.places_at_once()) {
            let places: Vec<u64> = found.ranks().collect();
            let (bytes, gathered) = self.gather(&places)?;
            add(&mut all, gathered);
            let found = InMemory {
                bytes: &bytes,
                item_bytes: self.record_bytes,
            };
            return write_found(&self.job, &found, output, force, all.unwrap_or_default());
        }
        let mut written = Parts::create(&self.job, output, force, count, self.record_bytes)?;
        for first in firsts {
            let found = match known.take() {
                Some(found) => found,
                None => {
                    let (found, done) = self.find(first, at_once)?;
                    written.beside_seconds += done.seconds;
                    add(&mut all, done);
                    found
                }
            };
            let held_bytes = (found.from.len() + found.to.len()) * RANK_BYTES;
            let _held = self.job.budget.reserve("ranks", held_bytes as u64)?;
            let at_once = self.places_at_once().max(1) as usize;
            let mut ranks = found.ranks();
            loop {
                let places: Vec<u64> = ranks.by_ref().take(at_once).collect();
                if places.is_empty() {
                    break;
                }
                let (bytes, gathered) = self.gather(&places)?;
                written.beside_seconds += gathered.seconds;
                add(&mut all, gathered);
                written.append(&bytes)?;
            }
        }
        written.publish(all, self.started)
    }

    fn gather(&mut self, places: &[u64]) -> Result<(Vec<u8>, Done)> {
        let gathered = self.prepared.execution.gather(places);
        gathered.map_err(|error| match error.kind() {
            Kind::Memory => error.hint("allow more with --memory"),
            _ => error,
        })
    }

    /// Records that are gathered at a time: each is held twice while it is gathered, with its place
    /// and the reads in flight.
    fn places_at_once(&self) -> u64 {
        self.job.budget.free_bytes() / (3 * self.record_bytes as u64 + PLACE_BYTES)
    }
}

/// A file that is written part by part.
struct Parts {
    together: SizedFiles,
    /// The number of its items, and of its bytes including the header.
    count: u64,
    len_bytes: u64,
    end_bytes: u64,
    /// The time that it waited for writes.
    beside_seconds: f64,
}

impl Parts {
    /// The file of `count` items, to be written to `output`.
    ///
    /// # Errors
    /// Memory: the output is not a regular file. Errors of creating it.
    fn create(
        job: &Job,
        output: &Output,
        force: bool,
        count: u64,
        item_bytes: usize,
    ) -> Result<Self> {
        let Output::File { path, header } = output else {
            let cause = format!(
                "{} of {} each are more than the memory holds",
                units::counted(count, "result"),
                units::bytes(item_bytes as u64)
            );
            return Err(Error::new(Kind::Memory, "plan lookup", cause)
                .hint("allow more with --memory, or write to one regular file"));
        };
        let head = header
            .as_ref()
            .map_or_else(Vec::new, |make_header| make_header(count));
        let len_bytes = head.len() as u64 + count * item_bytes as u64;
        let files = [SizedFile { path, len_bytes }];
        let mut parts = Parts {
            together: SizedFiles::create(job, &files, force)?,
            count,
            len_bytes,
            end_bytes: 0,
            beside_seconds: 0.0,
        };
        parts.append(&head)?;
        Ok(parts)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let at_bytes = self.end_bytes;
        self.end_bytes += bytes.len() as u64;
        if self.end_bytes > self.len_bytes {
            return Err(changed());
        }
        self.together.write(0, at_bytes, bytes)
    }

    /// Publishes the file, and returns all work since `started`.
    ///
    /// # Errors
    /// Corrupt: fewer items were found than before.
    fn publish(self, done: Option<Done>, started: Instant) -> Result<Done> {
        if self.end_bytes < self.len_bytes {
            return Err(changed());
        }
        let mut written = self.together.publish()?;
        written.records = self.count;
        if let Some(phase) = written.phases.first_mut() {
            phase.seconds = (phase.seconds - self.beside_seconds).max(0.0);
        }
        Ok(Done {
            seconds: started.elapsed().as_secs_f64(),
            ..and_written(done.unwrap_or_default(), written)
        })
    }
}

/// The error for keys whose results differ from the first lookup.
fn changed() -> Error {
    let cause =
        "the keys, or the files that they are looked up in, were written to while they were read";
    Error::corrupt("look up keys", cause).hint("look up in copies that no program changes")
}

/// Adds the work of a part to the work so far.
fn add(all: &mut Option<Done>, done: Done) {
    *all = Some(match all.take() {
        Some(before) => before.and(done),
        None => done,
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use outcore::IoMode;
    use outcore::job::JobOptions;

    use super::*;

    #[test]
    fn keys_that_find_more_or_fewer_records_than_before_are_an_error_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let options = JobOptions {
            memory_bytes: 8 << 20,
            ..JobOptions::default()
        };
        let job = Job::new(options, IoMode::Buffered);
        let output = Output::File {
            path: dir.path().join("found"),
            header: None,
        };
        let parts = |bytes: usize| {
            let mut parts = Parts::create(&job, &output, false, 3, 8).unwrap();
            parts.append(&vec![1; bytes]).map(|()| parts)
        };
        let more = parts(25).err().unwrap();
        let fewer = parts(23)
            .unwrap()
            .publish(None, Instant::now())
            .unwrap_err();
        for error in [more, fewer] {
            assert_eq!(error.kind(), Kind::Corrupt);
            assert!(error.cause().contains("written to"), "{error}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        parts(24).unwrap().publish(None, Instant::now()).unwrap();
        assert_eq!(fs::read(dir.path().join("found")).unwrap(), [1; 24]);
    }
}
