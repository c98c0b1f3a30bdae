//! What a sample of the input tells: how long lines and keys are, how many differ, and the keys
//! that splitters are chosen from.
//!
//! Contract: the input is cut into equal stretches and each read is a block at a seeded place
//! inside its stretch, of which a few whole lines are taken; lines are met in proportion to their
//! bytes. One that does not end in its block counts with the bytes that are there, which only makes
//! splitters less exact; one without a key is left out. Each stretch gives as many bytes of keys,
//! so that those of an input in order are not taken from its front. Where most blocks hold no line,
//! fewer and longer reads are made instead.
//!
//! Bounds: for each length of reads, 4 KiB and, where that is too short, 32 and 256 KiB: at most
//! [`READS_MAX`] reads, and a sixteenth of the input but for a few; for lengths alone a quarter of
//! the reads and a 512th of the input.

use super::plan::LineSize;
use super::rows::MeanRow;
use super::splitters::Keys;
use crate::job::{Job, JobSize};
use crate::key::sort_key::{SortKey, Tie};
use crate::read::framing::ItemFraming;
use crate::read::sample::{distinct, random};
use crate::read::source::InputPart;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Pool, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};

/// Most reads of a block each, and of more.
const READS_MAX: u64 = 4096;
const LONG_READS_MAX: u64 = 1024;
/// Fewest reads of a block each, and of more.
const READS_MIN: u64 = 16;
const LONG_READS_MIN: u64 = 8;
/// Share of the input that is read at most, but for the fewest reads: for splitters, for lengths
/// alone.
const SPLITTERS_SHARE: u64 = 16;
const LENGTHS_SHARE: u64 = 512;
/// Longest read, and how much longer than the one before.
const READ_BYTES_MAX: usize = 256 << 10;
const READ_GROWTH: usize = 8;
/// Reads in flight.
const WINDOW: usize = 128;
/// Lines taken of a block.
const LINES_A_READ: usize = 32;
/// Most bytes of a key that are kept.
const KEY_BYTES_MAX: usize = 1024;
/// Most bytes of all of them, about.
const SAMPLE_BYTES_MAX: usize = 8 << 20;

/// What a sample has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Splitters, and how many keys differ.
    Splitters,
    /// How long lines and keys are.
    Lengths,
}

impl Wanted {
    /// How many reads of `read_bytes` a sample of this much input takes.
    fn reads(self, total_bytes: u64, read_bytes: usize) -> u64 {
        let (reads_min, reads_max) = match read_bytes > BLOCK_BYTES {
            true => (LONG_READS_MIN, LONG_READS_MAX),
            false => (READS_MIN, READS_MAX),
        };
        let (share, reads_max) = match self {
            Wanted::Splitters => (SPLITTERS_SHARE, reads_max),
            Wanted::Lengths => (LENGTHS_SHARE, reads_max / 4),
        };
        (total_bytes / share / read_bytes as u64)
            .clamp(reads_min, reads_max)
            .min(total_bytes.div_ceil(read_bytes as u64))
    }
}

/// A sample of lines.
#[derive(Debug, Default)]
pub(super) struct LineSample {
    /// Keys, in order once [`LineSample::sort`] has been called.
    pub(super) keys: Keys,
    lines: u64,
    line_bytes: u64,
    key_bytes: u64,
    /// How long lines and keys are, where the caller knows it better.
    mean: Option<MeanRow>,
}

/// How much is taken of one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Bytes of all keys; one key is taken in any case.
    pub(super) bytes_max: usize,
    /// Bytes of a key that are kept.
    pub(super) key_bytes_max: usize,
}

impl Share {
    /// That of each of this many reads.
    pub(super) fn of(reads: usize, key_bytes_max: usize) -> Self {
        Share {
            bytes_max: SAMPLE_BYTES_MAX / reads.max(1),
            key_bytes_max,
        }
    }
}

/// What lines are, for a sample.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) order: &'a dyn SortKey,
    pub(super) framing: ItemFraming,
}

impl LineSample {
    /// Takes the lines of `bytes`; `is_begin` if a line begins at the front.
    pub(super) fn take(&mut self, lines: Lines<'_>, bytes: &[u8], is_begin: bool, share: Share) {
        let bytes_max = self.keys.area.len() + share.bytes_max;
        let begin = match is_begin {
            true => Some(0),
            false => lines.framing.next_begin(bytes),
        };
        let mut rest = &bytes[begin.unwrap_or(bytes.len())..];
        self.lines += lines.framing.count(bytes);
        self.line_bytes += bytes.len() as u64;
        for _ in 0..LINES_A_READ {
            if rest.is_empty() || self.keys.area.len() >= bytes_max {
                return;
            }
            let (line, behind) = lines.framing.first(rest);
            let at = self.keys.area.len();
            // Of a line that is its own key no more than is kept is copied.
            let key_of = match lines.order.is_item() {
                true => &line[..line.len().min(share.key_bytes_max)],
                false => line,
            };
            match lines.order.append_key(key_of, &mut self.keys.area) {
                Ok(()) => {
                    self.key_bytes += (self.keys.area.len() - at) as u64;
                    self.keys.area.truncate(at + share.key_bytes_max);
                    self.keys.note(at);
                }
                Err(_) => self.keys.area.truncate(at),
            }
            rest = behind;
        }
    }

    /// The same sample, of rows of this length if that is known.
    pub(super) fn of_length(self, mean: Option<MeanRow>) -> Self {
        LineSample { mean, ..self }
    }

    /// Puts the keys in order.
    pub(super) fn sort(&mut self) {
        self.keys.sort();
    }

    /// About how many different keys there are among `lines`, if all are about as frequent; the
    /// keys are in order.
    fn distinct(&self, lines: f64) -> Option<u64> {
        let taken = self.keys.refs.len() as f64;
        if taken == 0.0 {
            return None;
        }
        let area = &self.keys.area;
        let refs = &self.keys.refs;
        let differ = |pair: &&[super::refs::Ref]| pair[0].bytes(area) != pair[1].bytes(area);
        let seen = 1.0 + refs.windows(2).filter(differ).count() as f64;
        if seen > 0.99 * taken {
            return None;
        }
        Some(distinct(seen, taken, lines).ceil() as u64)
    }

    /// What a plan has to know; the keys are in order.
    pub(super) fn size(
        &self,
        job: &Job,
        lines: Lines<'_>,
        data_bytes: u64,
        is_unique: bool,
        drive_count: usize,
    ) -> LineSize {
        let seen = MeanRow {
            row_bytes: self.line_bytes as f64 / self.lines.max(1) as f64,
            key_bytes: self.key_bytes as f64 / self.keys.refs.len().max(1) as f64,
        };
        let mean = self.mean.unwrap_or(seen);
        let line_bytes = mean.row_bytes;
        let is_whole = lines.order.is_item();
        let key_bytes = match is_whole {
            true => 0.0,
            false => mean.key_bytes.max(1.0),
        };
        LineSize {
            job: JobSize::of(job, data_bytes, drive_count),
            line_bytes: line_bytes.max(1.0),
            key_bytes,
            distinct: match is_unique && is_whole {
                true => self.distinct(data_bytes as f64 / line_bytes.max(1.0)),
                false => None,
            },
            is_ordered: !is_whole && lines.order.tie() == Tie::Position,
            is_unique,
            is_read: true,
            longest: None,
            mark_bytes: 0,
        }
    }
}

/// Where one read goes, and where in it the data lie.
struct SampleRead {
    part: usize,
    read_at_bytes: u64,
    from: usize,
    to: usize,
}

/// Lines from random places of `parts`.
pub(super) fn sample_input(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    lines: Lines<'_>,
    wanted: Wanted,
) -> Result<LineSample> {
    let total_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let mut read_bytes = BLOCK_BYTES;
    loop {
        let reads = wanted.reads(total_bytes, read_bytes);
        let (sample, reads) = sample_by_reads(job, volume, parts, lines, reads, read_bytes)?;
        let longer_bytes = READ_GROWTH * read_bytes;
        if 2 * sample.keys.refs.len() >= reads || longer_bytes > READ_BYTES_MAX {
            return Ok(sample);
        }
        read_bytes = longer_bytes;
    }
}

/// The same by a number of reads of one length; returns how many there were.
fn sample_by_reads(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    lines: Lines<'_>,
    reads: u64,
    read_bytes: usize,
) -> Result<(LineSample, usize)> {
    let total_bytes: u64 = parts.iter().map(|part| part.data_len_bytes).sum();
    let mut places = Vec::with_capacity(reads as usize);
    for index in 0..reads {
        let border =
            |index: u64| (u128::from(total_bytes) * u128::from(index) / u128::from(reads)) as u64;
        let (from, to) = (border(index), border(index + 1));
        if from < to {
            let at = from + random(job.options.seed, index) % (to - from);
            places.extend(sample_read(parts, at, read_bytes as u64));
        }
    }
    let mut sampled = LineSample::default();
    let share = Share::of(places.len(), KEY_BYTES_MAX);
    let window = (job.budget.free_bytes() / 8 / read_bytes as u64).max(1) as usize;
    let slots = WINDOW.min(window).min(places.len()).max(1);
    let pool = Pool::new(&job.budget, "sample", read_bytes, slots)?;
    let mut left = places.iter();
    let next = |_: &Port| {
        left.next().map(|place| ReadRange {
            file: &parts[place.part].file,
            at_bytes: place.read_at_bytes,
            len_bytes: pool.slot_bytes(),
            what: place,
        })
    };
    // Looked at in the order of the questions, so that the same seed gives the same.
    let take = |read: Arrival<&SampleRead>| {
        let place = read.what;
        // A file that became shorter is found, and named, when its blocks are read.
        if read.len_bytes >= place.to {
            let data_at_bytes = parts[place.part].data_at_bytes;
            let is_begin = place.read_at_bytes + place.from as u64 == data_at_bytes;
            sampled.take(lines, &read.buf[place.from..place.to], is_begin, share);
        }
        Ok(())
    };
    let check = || job.control.check();
    Transfers::new(volume)?.read_in_order(&pool, check, next, take)?;
    Ok((sampled, places.len()))
}

/// A read of this length, from the block that holds byte `at` of all data.
fn sample_read(parts: &[InputPart], at: u64, read_bytes: u64) -> Option<SampleRead> {
    let after = parts.partition_point(|part| part.first_position <= at);
    let index = (0..after).rev().find(|&i| parts[i].data_len_bytes > 0)?;
    let part = &parts[index];
    let file_at = part.data_at_bytes + (at - part.first_position);
    let read_at_bytes = block_floor(file_at);
    let from = part.data_at_bytes.max(read_at_bytes) - read_at_bytes;
    let end = (part.data_at_bytes + part.data_len_bytes).min(read_at_bytes + read_bytes);
    Some(SampleRead {
        part: index,
        read_at_bytes,
        from: from as usize,
        to: (end - read_at_bytes) as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::sort_key::ByteOrder;

    #[test]
    fn every_read_gives_keys_however_long_lines_are() {
        let lines = Lines {
            order: &ByteOrder,
            framing: ItemFraming::Terminated(b'\n'),
        };
        let mut sample = LineSample::default();
        let share = Share::of(READS_MAX as usize, KEY_BYTES_MAX);
        for read in 0..READS_MAX {
            let line = format!("{read:>0127}\n");
            sample.take(lines, line.repeat(32).as_bytes(), true, share);
        }
        sample.sort();
        let refs = sample.keys.refs.iter();
        let mut reads: Vec<&[u8]> = refs.map(|key| key.bytes(&sample.keys.area)).collect();
        reads.dedup();
        assert_eq!(reads.len() as u64, READS_MAX);
        assert!(sample.keys.area.len() <= SAMPLE_BYTES_MAX + (READS_MAX as usize) * 127);
    }
}
