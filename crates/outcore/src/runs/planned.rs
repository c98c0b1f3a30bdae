//! The input of a view, divided into its future runs.
//!
//! Contract: runs take consecutive records, as many as planned, from parts of input files. Nothing
//! is read here; [`super::sort_lines`] divides lines, because it must find where they end.

use std::collections::BTreeMap;

use super::plan::INPUT_PIECES_MAX;
use crate::read::source::InputPart;

/// A future run: the origin of its records.
#[derive(Debug, Default)]
pub(super) struct PlannedRun {
    /// Records, or bytes of lines.
    pub(super) units: u64,
    pub(super) pieces: Vec<FilePart>,
}

/// A part of an input file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilePart {
    /// Which part of the input.
    pub(super) part: usize,
    /// The offset of the records in the part's file.
    pub(super) at_bytes: u64,
    pub(super) len_bytes: u64,
    /// Whether the last line of the part has no terminator.
    pub(super) is_unended: bool,
}

impl PlannedRun {
    /// The drive from which most of the run is read.
    pub(super) fn drive_index(&self, parts: &[InputPart]) -> usize {
        let first = self.pieces.first();
        first.map_or(0, |piece| parts[piece.part].file.drive_index)
    }
}

/// The approximate order in which threads take the runs: alternately from each drive. Runs that are
/// adjacent in this order are written at the same time, so they belong on different drives.
pub(super) fn by_turns(cuts: &[PlannedRun], parts: &[InputPart]) -> Vec<usize> {
    let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
    let turns = cuts.iter().enumerate().map(|(run, cut)| {
        let drive_index = cut.drive_index(parts);
        let turn = taken.entry(drive_index).or_default();
        *turn += 1;
        (*turn, drive_index, run)
    });
    let mut turns: Vec<_> = turns.collect();
    turns.sort_unstable();
    turns.into_iter().map(|(_, _, run)| run).collect()
}

/// Divides the input into runs of consecutive records.
pub(super) fn cut_runs(
    parts: &[InputPart],
    run_records: u64,
    record_bytes: u64,
) -> Vec<PlannedRun> {
    let mut cuts: Vec<PlannedRun> = Vec::new();
    let mut current = PlannedRun::default();
    for (index, part) in parts.iter().enumerate() {
        let mut at_bytes = 0;
        while at_bytes < part.data_len_bytes {
            let room = (run_records - current.units) * record_bytes;
            let len_bytes = room.min(part.data_len_bytes - at_bytes);
            current.pieces.push(FilePart {
                part: index,
                at_bytes: part.data_at_bytes + at_bytes,
                len_bytes,
                is_unended: false,
            });
            current.units += len_bytes / record_bytes;
            at_bytes += len_bytes;
            if current.units == run_records || current.pieces.len() == INPUT_PIECES_MAX {
                cuts.push(std::mem::take(&mut current));
            }
        }
    }
    if current.units > 0 || cuts.is_empty() {
        cuts.push(current);
    }
    cuts
}
