//! Parts by the range of a key, or at random: each line goes to the part that a route gives it.
//!
//! Contract: one pass on one thread, with all parts open; lines keep the input order within a part.
//! The totals of the parts do not depend on the order, and add up to those of the input.
//!
//! Memory: half of the job's free memory for the blocks of all parts, at least 128 KiB per part;
//! one line, of at most a quarter of the memory.

use std::path::PathBuf;

use outcore::job::Job;
use outcore::key::sort_key::NoKey;
use outcore::primitives::{LineRanges, PartTotals, random_part};
use outcore::{Error, Kind, Result};
use outcore_io::units;

use super::{PARTS_MAX, PartSize, PartWriter, Parts, SPLIT, SplitRequest};
use crate::output::Holds;
use crate::text::reader::RecordReader;

/// Assigns lines to parts.
pub enum LineRoute<'a> {
    /// By the range of their key.
    Ranges(LineRanges<'a>),
    /// At random, by their position.
    Random {
        /// The seed.
        seed: u64,
        /// Number of parts.
        parts: usize,
    },
}

impl LineRoute<'_> {
    fn parts(&self) -> usize {
        match self {
            LineRoute::Ranges(ranges) => ranges.parts(),
            LineRoute::Random { parts, .. } => *parts,
        }
    }

    /// The part of the line at `position`, counted from 0; `key` is overwritten.
    fn part_of(&self, position: u64, line: &[u8], key: &mut Vec<u8>) -> Result<usize> {
        match self {
            LineRoute::Random { seed, parts } => Ok(random_part(*seed, position, *parts)),
            LineRoute::Ranges(ranges) => ranges.part_of(line, key).map_err(|NoKey(why)| {
                let cause = format!("line {} has no key: {why}", position + 1);
                Error::corrupt(SPLIT, cause).hint("remove the line, or name another key with --by")
            }),
        }
    }
}

/// Writes each line of `reader`, of `data_bytes` in total, to the part that `to` gives it. Returns
/// the totals and the names of the parts. The cut of `request` is ignored.
///
/// # Errors
/// Those of [`split`](super::split()). [`Corrupt`](Kind::Corrupt) for a line without a key.
/// [`Memory`](Kind::Memory) for a line that is longer than a quarter of the memory, or for too many
/// parts.
pub fn route(
    job: &Job,
    reader: &mut RecordReader<'_>,
    data_bytes: u64,
    request: SplitRequest<'_>,
    to: &LineRoute<'_>,
) -> Result<(Vec<PartTotals>, Vec<PathBuf>)> {
    let count = to.parts();
    let request = SplitRequest {
        cut: PartSize::Parts(count as u64),
        ..request
    };
    request.check(Holds::Lines)?;
    debug_assert!(count as u64 <= PARTS_MAX);
    job.control.begin_phase(SPLIT, data_bytes);
    let front = reader.header()?.to_vec();
    let longest_bytes = job.budget.free_bytes() / 4;
    let mut parts = Parts::new(job, request, front)?;
    parts.share_bytes = Some(job.budget.free_bytes() / 2 / count.max(1) as u64);
    let mut writers = Vec::with_capacity(count);
    for _ in 0..count {
        parts.begin(0)?;
        writers.extend(parts.current.take());
    }
    let mut totals = vec![PartTotals::default(); count];
    let end = reader.frame().end();
    let (mut line, mut key, mut position) = (Vec::new(), Vec::new(), 0);
    while let Some(piece) = reader.next_piece()? {
        if (line.len() + piece.bytes.len()) as u64 > longest_bytes {
            return Err(too_long(longest_bytes));
        }
        if !piece.is_last {
            line.extend_from_slice(piece.bytes);
            continue;
        }
        // A line is copied only if it comes in several pieces.
        let whole = match line.is_empty() {
            true => piece.bytes,
            false => {
                line.extend_from_slice(piece.bytes);
                &line[..]
            }
        };
        let part = to.part_of(position, whole, &mut key)?;
        totals[part].add(PartTotals::of_line(whole));
        writers[part].put(whole, parts.pattern)?;
        writers[part].put(end.as_slice(), parts.pattern)?;
        position += 1;
        line.clear();
    }
    finish(&parts, writers)?;
    Ok((totals, parts.publish()?))
}

fn finish(parts: &Parts<'_>, writers: Vec<PartWriter>) -> Result<()> {
    let mut writers = writers.into_iter().enumerate();
    writers.try_for_each(|(part, writer)| parts.finish(part, writer))
}

fn too_long(longest_bytes: u64) -> Error {
    let cause = format!("a line is longer than {}", units::bytes(longest_bytes));
    Error::new(Kind::Memory, SPLIT, cause)
        .hint("a line may take a quarter of the memory: allow more with --memory")
}
