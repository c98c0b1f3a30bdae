//! Merges sorted files of lines.
//!
//! Model: a tree of losers ([`crate::sort::loser_tree`]) over offset-value codes of the keys
//! ([`super::offset_value`]).
//!
//! Contract: the output is all lines of the inputs, in order if each input is; among
//! indistinguishable lines, those of an earlier file come first. With `unique` the first line of a
//! key is written. Lines that are out of order are written where they occur. If there are more
//! files than memory has blocks for, they are merged in passes, adjacent ones first.
//!
//! Bounds: two or a few blocks, one line and one key per file of a pass; each pass reads and writes
//! everything once.

use std::cmp::Ordering;

use super::files::{self, FileReader, FileSizes, LineFile};
use super::offset_value::Coding;
use super::sort::check_output;
use super::{LineSortOptions, LineSummary, OnNoKey};
use crate::ends::{
    EDGES, EDGES_BYTES, Input, Output, Phases, add_traffic, merge_to_few, merge_width,
};
use crate::job::Job;
use crate::key::sort_key::{KeyedItem, Rank, SortKey};
use crate::partition::driver::{Ends, Unnamed, Written};
use crate::partition::in_order::InOrder;
use crate::sort::loser_tree::{ENDED, LoserTree, Node};
use outcore_io::drive::Access;
use outcore_io::memory::{BLOCK_BYTES, Ledger, Pool};
use outcore_io::output::Room;
use outcore_io::units;
use outcore_io::{Error, Kind, Result};

/// Shorter blocks are not worth a request.
const BLOCK_BYTES_LEAST: usize = 16 << 10;
const BLOCK_BYTES_MOST: usize = 4 << 20;
/// Blocks that are read ahead over all files, if there are few files and memory has room for blocks
/// of this length.
const AHEAD: usize = 16;
const BLOCK_BYTES_AHEAD: u64 = 256 << 10;
/// Output buffers.
const CHUNKS: usize = 4;
/// Memory reserved for edge blocks and small tables.
const FIXED_BYTES: u64 = 2 << 20;
const OUTPUT: &str = "output chunks";

/// The files, and the keys of the files' current lines.
struct Runs<'a> {
    files: Vec<LineFile<'a>>,
    keys: Vec<Vec<u8>>,
    is_over: Vec<bool>,
    rank: Rank,
    /// The coding, which is not used after a file turns out to be unsorted.
    coding: Coding,
    order: &'a dyn SortKey,
    /// Whether lines are their own keys.
    is_whole: bool,
    options: LineSortOptions,
    lines_in: u64,
    skipped: u64,
}

impl Runs<'_> {
    /// Moves a file to its next line that has a key.
    fn advance(&mut self, reader: &mut FileReader<'_>, index: usize) -> Result<()> {
        loop {
            self.is_over[index] = !reader.advance(&mut self.files, index)?;
            if self.is_over[index] {
                return Ok(());
            }
            self.lines_in += 1;
            if self.is_whole {
                return Ok(());
            }
            match reader.key(&self.files[index], self.order, &mut self.keys[index]) {
                Ok(()) => return Ok(()),
                Err(why) if self.options.on_no_key == OnNoKey::Fail && !why.is_blank() => {
                    return Err(reader.no_key(&self.files[index], &why));
                }
                Err(why) if why.is_blank() => self.lines_in -= 1,
                Err(_) => self.skipped += 1,
            }
        }
    }

    fn line(&self, index: usize) -> KeyedItem<'_> {
        KeyedItem {
            item: self.files[index].line(),
            key: &self.keys[index],
        }
    }

    /// The comparison key of a file's line.
    fn key(&self, index: usize) -> &[u8] {
        match self.is_whole {
            true => self.files[index].line(),
            false => &self.keys[index],
        }
    }

    /// The head of a file in the tree; `base` is the last key that was output, if any. `None` if
    /// the file's key comes before it.
    fn head(&self, index: usize, base: Option<&[u8]>) -> Option<Node<u64>> {
        let run = index as u32;
        match self.is_over[index] {
            true => Some(Node {
                key: u64::MAX,
                run: run | ENDED,
            }),
            false => {
                let key = self.coding.code(self.key(index), base)?;
                Some(Node { key, run })
            }
        }
    }

    /// The heads of all files, as if no key had been output.
    fn heads(&self) -> Vec<Node<u64>> {
        (0..self.files.len())
            .filter_map(|index| self.head(index, None))
            .collect()
    }

    /// Whether the line of `a` comes before that of `b`; ties go to the earlier file.
    fn is_before(&self, a: &mut Node<u64>, b: &mut Node<u64>) -> bool {
        let keys = |a: usize, b: usize| (self.key(a), self.key(b));
        let tie = |a: usize, b: usize| self.rank.by_tie(self.files[a].line(), self.files[b].line());
        self.coding.beats(a, b, keys, tie)
    }
}

/// The lines that are being written.
struct Out<'a> {
    stream: InOrder<'a>,
    lines: u64,
    options: LineSortOptions,
}

impl Out<'_> {
    fn line(&mut self, reader: &mut FileReader<'_>, line: &[u8]) -> Result<()> {
        self.lines += 1;
        for bytes in [line, &[self.options.terminator]] {
            self.stream.take(reader.job, &mut reader.transfers, bytes)?;
        }
        Ok(())
    }
}

/// Merges the sorted `inputs` into `output`.
///
/// # Errors
/// The errors of [`super::sort_lines`]; [`Kind::Memory`] if there is too little for two files.
pub fn merge_lines(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    if options.count {
        return Err(Error::usage("merge lines", "a merge does not count")
            .hint("count while sorting, without --merge"));
    }
    check_output(&output, options)?;
    let (width, passes) = merge_width(inputs.len(), files_max(job.budget.free_bytes()));
    if passes <= 1 {
        return merge_at_once(job, inputs, output, order, options);
    }
    let passing = LineSortOptions {
        replace: true,
        ..options
    };
    let few = merge_to_few(job, &output, inputs, width, |files, output| {
        merge_at_once(job, files, output, order, passing)
    })?;
    let last = merge_at_once(job, &few.files, output, order, options)?;
    Ok(with_passes(last, &few.done, passes))
}

/// How often [`merge_lines`] reads and writes `files` files with this much memory.
pub fn merge_passes(memory_bytes: u64, files: usize) -> u32 {
    merge_width(files, files_max(memory_bytes)).1
}

/// The summary of all passes.
fn with_passes(mut last: LineSummary, before: &[LineSummary], passes: u32) -> LineSummary {
    let lines_in = |all: &[LineSummary]| all.iter().map(|done| done.lines_in).sum::<u64>();
    let lines_out: u64 = before.iter().map(|done| done.lines_out).sum();
    // The last pass reads the output of the others, and possibly a file that was not merged before.
    last.lines_in = (lines_in(before) + last.lines_in).saturating_sub(lines_out);
    for done in before {
        last.skipped += done.skipped;
        last.seconds += done.seconds;
        last.read_bytes += done.read_bytes;
        last.written_bytes += done.written_bytes;
        add_traffic(&mut last.drives, &done.drives);
        for (phase, more) in last.phases.iter_mut().zip(&done.phases) {
            phase.seconds += more.seconds;
            phase.read_bytes += more.read_bytes;
            phase.written_bytes += more.written_bytes;
        }
    }
    last.passes = passes;
    last.scratch_bytes = last.scratch_bytes.max(last.bytes_out);
    last
}

/// Like [`merge_lines`], for at most as many files as memory has blocks for.
fn merge_at_once(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    let mut phases = Phases::start();
    let ends = Ends::open(job, inputs, &output, 1, Access::Read)?;
    let (parts, data_bytes) = (&ends.parts, ends.data_bytes);
    let memory_bytes = job.budget.free_bytes();
    let sizes = file_sizes(memory_bytes, parts.len(), order)?;
    let job = &job.under(&ledger(sizes, memory_bytes, parts.len()))?;
    // A file may lack its last terminator.
    let most_bytes = data_bytes + parts.len() as u64;
    let room = match options.unique {
        true => Room::AtMost,
        false => Room::Exactly,
    };
    let staged = ends.stage(options.replace, room, most_bytes)?;
    phases.end("prepare", &ends.volume);
    job.control.begin_phase("merge", data_bytes);
    let mut reader = FileReader::new(job, &ends.volume, sizes, parts.len())?;
    let indexed = parts.iter().enumerate();
    let mut runs = Runs {
        files: indexed
            .map(|(index, part)| LineFile::new(part, index as u64, options))
            .collect(),
        keys: vec![Vec::new(); parts.len()],
        is_over: vec![false; parts.len()],
        rank: Rank::new(order),
        coding: Coding {
            is_descending: order.is_descending(),
            is_kept: true,
        },
        order,
        is_whole: order.is_item(),
        options,
        lines_in: 0,
        skipped: 0,
    };
    let written = ends.write(job, staged.as_ref(), |sink| {
        let chunks = Pool::new(&job.budget, OUTPUT, sizes.chunk_bytes(), CHUNKS)?;
        let mut out = Out {
            stream: InOrder::new(sink, chunks),
            lines: 0,
            options,
        };
        merge(&mut runs, &mut reader, &mut out)?;
        out.stream.flush(&mut reader.transfers)?;
        reader.transfers.finish(|| job.control.check())?;
        Ok(Written {
            items: out.lines,
            bytes: out.stream.written_bytes(),
        })
    })?;
    let (lines_in, skipped) = (runs.lines_in, runs.skipped);
    drop((runs, reader));
    phases.end("merge", &ends.volume);
    let served = ends.close(job, phases, Unnamed::of(staged, written), None, false, &[])?;
    Ok(LineSummary {
        lines_in,
        lines_out: written.items,
        skipped,
        bytes_out: written.bytes,
        seconds: served.seconds,
        read_bytes: served.read_bytes,
        written_bytes: served.written_bytes,
        passes: 1,
        scratch_bytes: served.scratch_bytes,
        drives: served.drives,
        phases: served.phases,
        ..LineSummary::default()
    })
}

/// The reservations of a merge of `files` files.
fn ledger(sizes: FileSizes, memory_bytes: u64, files: usize) -> Ledger {
    Ledger::new("merge of lines")
        .always("small tables", FIXED_BYTES - EDGES_BYTES)
        .always(EDGES, EDGES_BYTES)
        .always(files::INPUT, sizes.pool_bytes(files))
        .always(OUTPUT, Pool::total_bytes(sizes.chunk_bytes(), CHUNKS))
        // The files' lines and keys may take all of the remaining memory.
        .during("merge", "lines and keys", 0)
        .filled("merge", "lines and keys", memory_bytes)
}

/// The most bytes of lines for which `memory_bytes` has room. Each line may need a key as long as
/// itself.
pub(super) fn lines_bytes_max(memory_bytes: u64, order: &dyn SortKey) -> usize {
    let copies = if order.is_item() { 1 } else { 2 };
    (memory_bytes / copies) as usize
}

/// Number of files for which memory has blocks.
fn files_max(memory_bytes: u64) -> usize {
    let buffers = memory_bytes.saturating_sub(FIXED_BYTES) / 2 / BLOCK_BYTES_LEAST as u64;
    (buffers as usize).saturating_sub(CHUNKS + 1) / 2
}

/// Blocks for `files` files, in half of the memory.
fn file_sizes(memory_bytes: u64, files: usize, order: &dyn SortKey) -> Result<FileSizes> {
    let buffers = |ahead: usize| ((1 + ahead) * files.max(1) + CHUNKS + 1) as u64;
    let each_bytes = |ahead| memory_bytes.saturating_sub(FIXED_BYTES) / 2 / buffers(ahead);
    let fits = |ahead: &usize| each_bytes(*ahead) >= BLOCK_BYTES_AHEAD;
    let ahead = (2..=AHEAD / files.max(1)).rev().find(fits).unwrap_or(1);
    let each_bytes = each_bytes(ahead);
    if each_bytes < BLOCK_BYTES_LEAST as u64 {
        let cause = format!(
            "{} of memory is too little to read {files} files at once",
            units::bytes(memory_bytes)
        );
        let least_bytes = FIXED_BYTES + 2 * buffers(1) * BLOCK_BYTES_LEAST as u64;
        let hint = format!(
            "allow at least --memory {}, or sort the files instead",
            units::bytes_exact(least_bytes.next_multiple_of(1 << 20))
        );
        return Err(Error::new(Kind::Memory, "plan the merge", cause).hint(hint));
    }
    let block_bytes = (each_bytes as usize).min(BLOCK_BYTES_MOST) / BLOCK_BYTES * BLOCK_BYTES;
    let sizes = FileSizes {
        block_bytes,
        ahead,
        lines_bytes_max: 0,
    };
    let chunks_bytes = Pool::total_bytes(sizes.chunk_bytes(), CHUNKS);
    let blocks_bytes = FIXED_BYTES + sizes.pool_bytes(files) + chunks_bytes;
    Ok(FileSizes {
        lines_bytes_max: lines_bytes_max(memory_bytes.saturating_sub(blocks_bytes), order),
        ..sizes
    })
}

fn merge(runs: &mut Runs<'_>, reader: &mut FileReader<'_>, out: &mut Out<'_>) -> Result<()> {
    if runs.files.is_empty() {
        return Ok(());
    }
    for index in 0..runs.files.len() {
        runs.advance(reader, index)?;
    }
    let mut tree = LoserTree::new(&runs.heads(), u64::MAX, |a, b| runs.is_before(a, b));
    let is_unique = out.options.unique;
    // The line written last, and its key.
    let (mut first, mut first_key, mut is_begun) = (Vec::new(), Vec::new(), false);
    while !tree.winner().has_ended() {
        let index = tree.winner().run_index();
        let next = runs.line(index);
        let last = KeyedItem {
            item: &first,
            key: &first_key,
        };
        let is_same = is_unique && is_begun && runs.rank.by_key(last, next) == Ordering::Equal;
        if !is_same {
            reader.take_line(&mut runs.files, index, &mut first);
            std::mem::swap(&mut first_key, &mut runs.keys[index]);
            is_begun = true;
            out.line(reader, &first)?;
        }
        runs.advance(reader, index)?;
        let base = if runs.is_whole { &first } else { &first_key };
        match runs.head(index, Some(base)) {
            Some(head) => tree.replace(head, |a, b| runs.is_before(a, b)),
            None => {
                runs.coding.is_kept = false;
                tree = LoserTree::new(&runs.heads(), u64::MAX, |a, b| runs.is_before(a, b));
            }
        }
    }
    Ok(())
}
