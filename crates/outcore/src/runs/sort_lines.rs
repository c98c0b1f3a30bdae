//! Runs of lines: dividing the input, and sorting the lines of an area.
//!
//! Contract: [`cut_lines`] divides the input between lines, so that each run fits in its area; it
//! reads only the surroundings of the cuts. [`Passes`] returns the lines of an area in order, as
//! references. If all references (and keys, if lines are not their own) fit in the space that was
//! planned from a sample, there is one pass. Otherwise each pass over the area returns the first
//! lines after those of the previous pass. This is selection by repeated partition: when the space
//! is full, the later half of it is discarded. So no input needs more memory than planned.
//!
//! Bounds: the space; for cuts 64 KiB each, more only if lines are longer. A pass returns at least
//! half of what the space holds.

use memchr::{memchr, memrchr};

use super::manifest::read_range;
use super::plan::INPUT_PIECES_MAX;
use super::planned::{FilePart, PlannedRun};
use super::size::key_room_bytes;
use crate::job::Job;
use crate::key::sort_key::NoKey;
use crate::merge::item_rule::ItemRule;
use crate::read::framing::ItemFraming;
use crate::read::source::InputPart;
use crate::sort::lines::{AnyTie, Ref, key_ref, sort_keys, sort_refs, to_line};
use outcore_io::memory::{allow_hint, block_floor};
use outcore_io::port::Volume;
use outcore_io::units;
use outcore_io::{Error, Result};

/// Bytes that are read at once to find the end of a line.
const LOOK_BYTES: u64 = 64 << 10;

/// Lengths of runs and lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSizes {
    pub(super) run_bytes: u64,
    pub(super) line_bytes_max: u64,
}

/// Divides the input into runs of whole lines.
pub(super) fn cut_lines(
    job: &Job,
    volume: &Volume,
    parts: &[InputPart],
    sizes: RunSizes,
    terminator: u8,
) -> Result<Vec<PlannedRun>> {
    let look = Look {
        job,
        volume,
        sizes,
        terminator,
    };
    let mut cuts = Vec::new();
    let mut current = PlannedRun::default();
    for (index, part) in parts.iter().enumerate() {
        let end_bytes = part.data_at_bytes + part.data_len_bytes;
        let mut at_bytes = part.data_at_bytes;
        while at_bytes < end_bytes {
            let room_bytes = sizes.run_bytes - current.units;
            let is_last = end_bytes - at_bytes < room_bytes;
            let to_bytes = match is_last {
                true => end_bytes,
                false => match look.last_end(
                    part,
                    at_bytes,
                    at_bytes + room_bytes,
                    sizes.line_bytes_max,
                )? {
                    Some(to_bytes) => to_bytes,
                    // The next line is longer than the rest of this run.
                    None if current.units > 0 => {
                        cuts.push(std::mem::take(&mut current));
                        continue;
                    }
                    None => look.next_end(part, at_bytes, at_bytes + room_bytes)?,
                },
            };
            let is_unended = to_bytes == end_bytes && !look.ends_line(part, end_bytes)?;
            let len_bytes = to_bytes - at_bytes;
            current.pieces.push(FilePart {
                part: index,
                at_bytes,
                len_bytes,
                is_unended,
            });
            current.units += len_bytes + u64::from(is_unended);
            at_bytes = to_bytes;
            let is_full = current.units >= sizes.run_bytes;
            if !is_last || is_full || current.pieces.len() == INPUT_PIECES_MAX {
                cuts.push(std::mem::take(&mut current));
            }
        }
    }
    if current.units > 0 || cuts.is_empty() {
        cuts.push(current);
    }
    Ok(cuts)
}

/// Finds the ends of lines in files.
struct Look<'a> {
    job: &'a Job,
    volume: &'a Volume,
    sizes: RunSizes,
    terminator: u8,
}

impl Look<'_> {
    /// The end of the last line that begins at or after `from` and ends at `to` at the latest, at
    /// most `reach_bytes` before `to`.
    fn last_end(
        &self,
        part: &InputPart,
        from: u64,
        to: u64,
        reach_bytes: u64,
    ) -> Result<Option<u64>> {
        let least = from.max(to.saturating_sub(reach_bytes));
        let mut end = to;
        while end > least {
            let start = block_floor(end.saturating_sub(LOOK_BYTES)).max(block_floor(from));
            let bytes = read_range(self.job, self.volume, &part.file, start, end - start)?;
            let skip = from.saturating_sub(start) as usize;
            if let Some(at) = memrchr(self.terminator, &bytes[skip..]) {
                return Ok(Some(start + (skip + at) as u64 + 1));
            }
            end = start;
        }
        Ok(None)
    }

    /// The end of the line that begins at `from` and extends past `to`.
    fn next_end(&self, part: &InputPart, from: u64, to: u64) -> Result<u64> {
        let end_bytes = part.data_at_bytes + part.data_len_bytes;
        let last = end_bytes.min(from + self.sizes.line_bytes_max);
        let mut start = block_floor(to);
        while start < last {
            let len = (last - start).min(LOOK_BYTES);
            let bytes = read_range(self.job, self.volume, &part.file, start, len)?;
            let skip = to.saturating_sub(start).min(len) as usize;
            if let Some(at) = memchr(self.terminator, &bytes[skip..]) {
                return Ok(start + (skip + at) as u64 + 1);
            }
            start += len;
        }
        match last == end_bytes {
            true => Ok(end_bytes),
            false => {
                let before = self.last_end(part, from, to, u64::MAX)?;
                // After this error, the caller measures the longest line.
                Err(line_too_long(self.sizes.line_bytes_max)
                    .path(&part.file.path)
                    .offset(before.unwrap_or(from)))
            }
        }
    }

    fn ends_line(&self, part: &InputPart, end_bytes: u64) -> Result<bool> {
        let start = block_floor(end_bytes - 1);
        let bytes = read_range(self.job, self.volume, &part.file, start, end_bytes - start)?;
        Ok(bytes.last() == Some(&self.terminator))
    }
}

fn line_too_long(line_bytes_max: u64) -> Error {
    let cause = format!("a line is longer than {}", units::bytes(line_bytes_max));
    Error::new(crate::Kind::Memory, "sort lines", cause).hint("allow more with --memory")
}

/// A memory size with which a run has room for a row of `item_bytes`. The current room is
/// `item_bytes_max`, which grows with the memory. Later rows may be longer.
pub(super) fn allow_for_item(job: &Job, item_bytes: u64, item_bytes_max: u64) -> String {
    let times = 2 * item_bytes.div_ceil(item_bytes_max.max(1));
    let enough_bytes = job.options.memory_bytes.saturating_mul(times).min(1 << 60);
    allow_hint(enough_bytes.next_multiple_of(64 << 20))
}

/// Space for references and keys.
#[derive(Debug, Default)]
pub(super) struct LineSpace {
    refs: Vec<Ref>,
    keys: Vec<u8>,
}

/// How much of the space may be used, and the longest permitted line.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpaceSizes {
    pub(super) lines_max: usize,
    pub(super) key_bytes_max: usize,
    pub(super) line_bytes_max: u64,
}

/// The lines of an area in order.
pub(super) struct Passes<'a> {
    rule: &'a ItemRule,
    area: &'a [u8],
    space: &'a mut LineSpace,
    sizes: SpaceSizes,
    /// The last line returned, if there may be more.
    after: Option<Ref>,
    is_begun: bool,
}

impl<'a> Passes<'a> {
    /// The passes over `area`, in which each line is terminated.
    pub(super) fn new(
        rule: &'a ItemRule,
        area: &'a [u8],
        space: &'a mut LineSpace,
        sizes: SpaceSizes,
    ) -> Self {
        space
            .refs
            .reserve_exact(sizes.lines_max.saturating_sub(space.refs.len()));
        Passes {
            rule,
            area,
            space,
            sizes,
            after: None,
            is_begun: false,
        }
    }

    /// The next lines; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&[Ref]>> {
        if self.area.is_empty() || (self.is_begun && self.after.is_none()) {
            return Ok(None);
        }
        let is_all = !self.is_begun && self.collect_all()?;
        self.is_begun = true;
        match is_all {
            true => self.sort_all(),
            false => self.collect_next()?,
        }
        Ok(Some(&self.space.refs))
    }

    /// References to all lines; false if there is no space for them.
    fn collect_all(&mut self) -> Result<bool> {
        let LineSpace { refs, keys } = &mut *self.space;
        refs.clear();
        keys.clear();
        for (from, end) in self.rule.framing.spans(self.area) {
            if (end - from) as u64 >= self.sizes.line_bytes_max {
                return Err(line_too_long(self.sizes.line_bytes_max));
            }
            if refs.len() == self.sizes.lines_max
                || !has_key_room(self.rule, keys, end - from, self.sizes)
            {
                return Ok(false);
            }
            refs.push(reference(self.rule, self.area, from, end, keys)?);
        }
        Ok(true)
    }

    fn sort_all(&mut self) {
        let LineSpace { refs, keys } = &mut *self.space;
        match self.rule.is_whole {
            true => sort_refs(self.area, refs, 0, &AnyTie),
            false => sort_keys(&*self.rule.order, self.area, keys, refs, 0),
        }
        if self.rule.is_descending() {
            refs.reverse();
        }
        if !self.rule.is_whole {
            refs.iter_mut().for_each(|key| to_line(keys, key));
        }
    }

    /// Collects the next lines: as many as the space holds, or half of that.
    fn collect_next(&mut self) -> Result<()> {
        let (rule, area) = (self.rule, self.area);
        let LineSpace { refs, keys } = &mut *self.space;
        refs.clear();
        let lines_max = self.sizes.lines_max.max(2);
        let mut until: Option<Ref> = None;
        for (from, end) in rule.framing.spans(area) {
            if (end - from) as u64 >= self.sizes.line_bytes_max {
                return Err(line_too_long(self.sizes.line_bytes_max));
            }
            if self.after.is_none() {
                // A comparison does not report that a line has no key.
                keys.clear();
                reference(rule, area, from, end, keys)?;
            }
            let line = line_ref(from, end);
            let is_behind = |other: &Ref| is_line_before(rule, area, other, &line);
            if !self.after.as_ref().is_none_or(is_behind) || until.as_ref().is_some_and(is_behind) {
                continue;
            }
            if refs.len() == lines_max {
                refs.sort_unstable_by(|a, b| order_lines(rule, area, a, b));
                refs.truncate(lines_max / 2);
                until = refs.last().copied();
                if until
                    .as_ref()
                    .is_some_and(|last| is_line_before(rule, area, last, &line))
                {
                    continue;
                }
            }
            refs.push(line);
        }
        refs.sort_unstable_by(|a, b| order_lines(rule, area, a, b));
        self.after = match until {
            Some(_) => refs.last().copied(),
            None => None,
        };
        Ok(())
    }
}

/// Whether there is room for the key of a line of this length.
fn has_key_room(rule: &ItemRule, keys: &mut Vec<u8>, line_bytes: usize, sizes: SpaceSizes) -> bool {
    if rule.is_whole {
        return true;
    }
    let is_row = rule.framing == ItemFraming::LengthPrefixed;
    let wanted_bytes = key_room_bytes(line_bytes, is_row);
    if keys.capacity() - keys.len() >= wanted_bytes {
        return true;
    }
    let room_bytes = sizes.key_bytes_max.saturating_sub(keys.len());
    match room_bytes >= wanted_bytes {
        true => keys.reserve_exact(room_bytes),
        false => return false,
    }
    true
}

fn reference(
    rule: &ItemRule,
    area: &[u8],
    from: usize,
    end: usize,
    keys: &mut Vec<u8>,
) -> Result<Ref> {
    match rule.is_whole {
        true => Ok(line_ref(from, end)),
        false => {
            let order = &*rule.order;
            let made = key_ref(area, from, end, keys, |line, keys| {
                order.append_key(line, keys)
            });
            made.map_err(|why| no_key(&why, from))
        }
    }
}

/// The error for a line without a key; its offset is the line's offset in the area.
fn no_key(why: &NoKey, from: usize) -> Error {
    Error::corrupt("sort lines", format!("a line has no key: {}", why.0)).offset(from as u64)
}

fn line_ref(from: usize, end: usize) -> Ref {
    Ref {
        word: 0,
        at: from as u32,
        len_bytes: (end - from) as u32,
    }
}

/// The order of two lines of an area, equal ones by their places.
fn order_lines(rule: &ItemRule, area: &[u8], a: &Ref, b: &Ref) -> std::cmp::Ordering {
    rule.compare(a.bytes(area), b.bytes(area))
        .then(a.at.cmp(&b.at))
}

fn is_line_before(rule: &ItemRule, area: &[u8], a: &Ref, b: &Ref) -> bool {
    order_lines(rule, area, a, b).is_lt()
}
