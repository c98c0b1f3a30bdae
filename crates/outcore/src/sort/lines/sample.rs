//! The information in a sample of the input: lengths of lines and keys, the number of distinct
//! ones, and the keys from which splitters are selected.
//!
//! Contract: the input is divided into equal stretches. Each read is a block at a seeded place
//! inside its stretch, of which a few whole lines are taken, so lines are sampled in proportion to
//! their bytes. A line that does not end in its block counts with the available bytes, which only
//! makes splitters less exact; a line without a key is skipped. Each stretch contributes equally
//! many bytes of keys, so that the keys of a sorted input do not all come from its start. If fewer
//! than half as many lines as reads are found, fewer and longer reads are made instead.
//!
//! Bounds: reads of 4 KiB and, if those are too short, of 32 and 256 KiB. For each length there are
//! at most [`READS_MAX`] reads and about a sixteenth of the input; for lengths alone, a quarter of
//! the reads and a 512th of the input.

use super::plan::LineSize;
use super::rows::MeanRow;
use super::splitters::Keys;
use crate::job::{Job, JobSize, Layout};
use crate::key::sort_key::{SortKey, Tie};
use crate::read::framing::ItemFraming;
use crate::read::sample::{distinct, random};
use crate::read::source::InputPart;
use outcore_io::Result;
use outcore_io::memory::{BLOCK_BYTES, Pool, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};

/// Largest number of reads of one block, and of longer reads.
const READS_MAX: u64 = 4096;
const LONG_READS_MAX: u64 = 1024;
/// Smallest number of reads of one block, and of longer reads.
const READS_MIN: u64 = 16;
const LONG_READS_MIN: u64 = 8;
/// Largest share of the input that is read, except for the minimum number of reads: for splitters,
/// and for lengths alone.
const SPLITTERS_SHARE: u64 = 16;
const LENGTHS_SHARE: u64 = 512;
/// Longest read, and the growth factor of the length.
const READ_BYTES_MAX: usize = 256 << 10;
const READ_GROWTH: usize = 8;
/// Reads in flight.
const WINDOW: usize = 128;
/// Lines taken per block.
const LINES_A_READ: usize = 32;
/// Largest number of bytes kept per key.
const KEY_BYTES_MAX: usize = 1024;
/// Approximate limit on all key bytes.
const SAMPLE_BYTES_MAX: usize = 8 << 20;

/// The purpose of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Splitters, and the number of distinct keys.
    Splitters,
    /// Lengths of lines and keys.
    Lengths,
}

impl Wanted {
    /// The number of reads of `read_bytes` in a sample of this much input.
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
    /// Lengths of lines and keys, if the caller knows them better.
    mean: Option<MeanRow>,
}

/// How much is taken from one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// Bytes of all keys; at least one key is taken.
    pub(super) bytes_max: usize,
    /// Bytes kept per key.
    pub(super) key_bytes_max: usize,
}

impl Share {
    /// The share of each of this many reads.
    pub(super) fn of(reads: usize, key_bytes_max: usize) -> Self {
        Share {
            bytes_max: SAMPLE_BYTES_MAX / reads.max(1),
            key_bytes_max,
        }
    }
}

/// The lines' properties, for a sample.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) order: &'a dyn SortKey,
    pub(super) framing: ItemFraming,
}

impl LineSample {
    /// Takes the lines of `bytes`; `is_begin` if a line begins at the start.
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
            // For a line that is its own key, only the kept bytes are copied.
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

    /// The same sample, for rows of this length if it is known.
    pub(super) fn of_length(self, mean: Option<MeanRow>) -> Self {
        LineSample { mean, ..self }
    }

    /// Sorts the keys.
    pub(super) fn sort(&mut self) {
        self.keys.sort();
    }

    /// Estimated number of distinct keys among `lines`, if all are about equally frequent; the keys
    /// must be sorted.
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

    /// The parameters of a plan; the keys must be sorted.
    pub(super) fn size(
        &self,
        job: &Job,
        lines: Lines<'_>,
        data_bytes: u64,
        is_unique: bool,
        layout: Layout,
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
            job: JobSize::of(job, data_bytes, layout),
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
            sampled_bytes: 0,
        }
    }
}

/// The target of one read, and the range of the data in it.
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

/// Like `sample_input`, with a number of reads of one length; returns that number.
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
    // Processed in order of request, so that the same seed gives the same sample.
    let take = |read: Arrival<&SampleRead>| {
        let place = read.what;
        // The later read of the blocks detects and reports a file that became shorter.
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

/// A read of this length, from the block that contains byte `at` of all data.
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
