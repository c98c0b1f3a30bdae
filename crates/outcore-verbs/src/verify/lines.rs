//! `verify` of lines: their order by bytes, their count and a checksum.
//!
//! Contract: as [`super`]. One thread reads the lines in order. The checksum is the sum of the
//! XXH3-64 hashes of all lines without their terminators, as in the totals of `split`.
//!
//! Bounds: one read; two lines in memory, of at most a quarter of the memory each.

use std::cmp::Ordering;
use std::path::PathBuf;

use outcore::job::Job;
use outcore::primitives::PartTotals;
use outcore::{Error, Kind, Result};
use outcore_front::inputs;
use outcore_front::text::reader::{Frame, RecordReader};
use outcore_io::units;

use super::page::{VerifyArgs, VerifyReport};
use crate::host::{Host, Kept, watch};
use crate::option::{DriveArgs, SEED, resources_request};
use crate::report::{Moved, Stopwatch};

/// The findings on the lines of all files.
#[derive(Default)]
struct Found {
    totals: PartTotals,
    unordered: u64,
    first_unordered: Option<u64>,
    duplicates: u64,
    read_bytes: u64,
}

impl Found {
    fn is_ordered(&self) -> bool {
        self.unordered == 0
    }
}

/// Checks lines.
pub(super) fn verify(host: &dyn Host, args: &VerifyArgs) -> Result<VerifyReport> {
    let stopwatch = Stopwatch::start();
    let find = |names: &[PathBuf]| match names.is_empty() {
        true => Ok(Vec::new()),
        false => inputs::find(names, host.streams(), host.names()),
    };
    let (sources, against) = (find(&args.files)?, find(&args.against)?);
    let request = resources_request(&args.resources, &DriveArgs::default(), None, SEED)?;
    let all: Vec<_> = sources.iter().chain(&against).cloned().collect();
    let kept = Kept {
        sources: &all,
        force: args.trace.force,
        ..Kept::default()
    };
    let resources = host.start(host.load(&request)?, args.trace.record_io.path(), kept)?;
    let job = host.adopt(resources.pass_job(Vec::new()));
    let (found, other) = watch(host, &job.control, &super::records::PHASES, || {
        let found = check(&job, args, sources, true)?;
        let other = match against.is_empty() {
            true => None,
            false => Some(check(&job, args, against, false)?),
        };
        Ok((found, other))
    })?;
    let same_records = other.as_ref().map(|other| other.totals == found.totals);
    let read_bytes = found.read_bytes + other.as_ref().map_or(0, |other| other.read_bytes);
    let moved = Moved {
        records: found.totals.items,
        read_bytes,
        passes: 1,
        ..Moved::default()
    };
    let checksum = |found: &Found| format!("{:x}", found.totals.checksum);
    let against_text = other.as_ref().zip(same_records).map(|(other, is_same)| {
        let lines = units::counted(other.totals.items, "line");
        match is_same {
            true => "the other files have the same lines".to_owned(),
            false => format!(
                "the other files have other lines: {lines}, checksum {}",
                checksum(other)
            ),
        }
    });
    Ok(VerifyReport {
        used: stopwatch.stop(moved, &[], &resources, host.end_trace()?),
        phases: Vec::new(),
        ordered: Some(found.is_ordered()),
        unordered: Some(found.unordered),
        first_unordered: found.first_unordered,
        duplicate_keys: Some(found.duplicates),
        checksum: checksum(&found),
        same_records,
        against_records: other.as_ref().map(|other| other.totals.items),
        against_checksum: other.as_ref().map(checksum),
        ok: found.is_ordered() && same_records != Some(false),
        text: text_of(&found),
        against_text,
    })
}

fn check(
    job: &Job,
    args: &VerifyArgs,
    sources: Vec<inputs::Source>,
    is_judged: bool,
) -> Result<Found> {
    let frame = Frame::Terminator(args.lines.terminator());
    let mut reader = RecordReader::new(job, sources, frame, args.lines.recognition(None));
    let longest_bytes = job.budget.free_bytes() / 4;
    let (mut found, mut last, mut line) = (Found::default(), Vec::new(), Vec::new());
    while let Some(piece) = reader.next_piece()? {
        if (line.len() + piece.bytes.len()) as u64 > longest_bytes {
            let cause = format!("a line is longer than {}", units::bytes(longest_bytes));
            return Err(Error::new(Kind::Memory, "verify", cause)
                .hint("a line may take a quarter of the memory: allow more with --memory"));
        }
        line.extend_from_slice(piece.bytes);
        if !piece.is_last {
            continue;
        }
        if is_judged && found.totals.items > 0 {
            judge(args, line.cmp(&last), &mut found);
        }
        found.totals.add(PartTotals::of_line(&line));
        std::mem::swap(&mut line, &mut last);
        line.clear();
    }
    found.read_bytes = reader.read_bytes;
    Ok(found)
}

/// Counts the next line; `order` is the result of comparing this line with the line before it.
fn judge(args: &VerifyArgs, order: Ordering, found: &mut Found) {
    let order = match args.descending {
        true => order.reverse(),
        false => order,
    };
    found.duplicates += u64::from(order.is_eq());
    if order.is_lt() || order.is_eq() && args.unique {
        found.unordered += 1;
        found.first_unordered.get_or_insert(found.totals.items);
    }
}

fn text_of(found: &Found) -> String {
    let lines = units::counted(found.totals.items, "line");
    let order = match found.first_unordered {
        None => format!(
            "{lines} in order, {} equal to the one before",
            units::count(found.duplicates)
        ),
        Some(first) => format!(
            "{lines}, {} out of order; the first is line {}",
            units::count(found.unordered),
            units::count(first + 1)
        ),
    };
    format!(
        "{order}\nchecksum of all lines: {:x}",
        found.totals.checksum
    )
}
