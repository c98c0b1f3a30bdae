//! Lines that a sort keeps, in the order of the input.
//!
//! Contract: [`select_lines`] sorts twice. The first sort puts the place of each line in front of
//! it, and keeps lines as its options say, of equal keys the first; the second orders those by their
//! places, which it takes away. The place is a mark of digits, none of which ends a line.
//!
//! Bounds: those of two sorts, one after the other; the lines that are kept are once more on
//! scratch, each with its mark.

use super::sort::sort_lines;
use super::{LineSortOptions, LineSummary, Places};
use crate::ends::{Input, Output, make_dir};
use crate::job::Job;
use crate::key::sort_key::{ByteOrder, SortKey};
use crate::read::source::InputPart;
use outcore_io::Result;

/// Digits of a place, six bits each.
pub(super) const MARK_BYTES: usize = 11;
const DIGIT_BITS: u32 = 6;
/// The smallest of the digits, which are neighbours; neither newline nor NUL is among them.
const ZERO: u8 = b'0';

/// Writes the lines that a sort with these options would write, in the order of the input.
///
/// # Errors
/// As [`sort_lines`].
pub fn select_lines(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    let dir = make_dir(job, &output)?;
    let path = dir.path().join("kept");
    let kept = Output::File {
        path: path.clone(),
        header: None,
    };
    let first = LineSortOptions {
        places: Places::Added,
        replace: true,
        ..options
    };
    let first = sort_lines(job, inputs, kept, order, first)?;
    let second = LineSortOptions {
        terminator: options.terminator,
        places: Places::Removed,
        replace: options.replace,
        ..LineSortOptions::default()
    };
    let second = sort_lines(job, &[Input::raw(path)], output, &ByteOrder, second)?;
    let mut phases = first.phases;
    phases.extend(second.phases);
    Ok(LineSummary {
        lines_in: first.lines_in,
        skipped: first.skipped,
        seconds: first.seconds + second.seconds,
        read_bytes: first.read_bytes + second.read_bytes,
        written_bytes: first.written_bytes + second.written_bytes,
        passes: first.passes + second.passes,
        scratch_bytes: first
            .scratch_bytes
            .max(second.scratch_bytes + first.bytes_out),
        drives: with_drives(first.drives, second.drives),
        phases,
        plan: first.plan,
        ..second
    })
}

/// What each drive served in both sorts.
fn with_drives(
    mut one: Vec<(String, u64, u64)>,
    other: Vec<(String, u64, u64)>,
) -> Vec<(String, u64, u64)> {
    for (name, read_bytes, written_bytes) in other {
        match one.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, read, written)) => {
                *read += read_bytes;
                *written += written_bytes;
            }
            None => one.push((name, read_bytes, written_bytes)),
        }
    }
    one
}

/// Appends the mark of a place.
pub(super) fn append_mark(place: u64, line: &mut Vec<u8>) {
    let digits = (0..MARK_BYTES as u32).rev();
    line.extend(digits.map(|digit| {
        let bits = place.checked_shr(DIGIT_BITS * digit).unwrap_or(0);
        ZERO + (bits as u8 & ((1 << DIGIT_BITS) - 1))
    }));
}

/// Where a marked line is: its part, and the byte of the part's data.
pub(super) fn place_of(line: &[u8], parts: &[InputPart]) -> Option<(usize, u64)> {
    let mark = line.get(..MARK_BYTES)?.iter();
    let place = mark.fold(0_u64, |place, digit| {
        place << DIGIT_BITS | u64::from(digit.wrapping_sub(ZERO))
    });
    let after = parts.partition_point(|part| part.first_position <= place);
    let index = (0..after)
        .rev()
        .find(|&index| parts[index].data_len_bytes > 0)?;
    Some((index, place - parts[index].first_position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_the_order_of_places_and_end_no_line() {
        let places = [0, 1, 63, 64, 4095, 1 << 40, u64::MAX];
        let marks = places.map(|place| {
            let mut mark = Vec::new();
            append_mark(place, &mut mark);
            mark
        });
        assert!(marks.is_sorted() && marks.iter().all(|mark| mark.len() == MARK_BYTES));
        assert!(
            marks
                .iter()
                .flatten()
                .all(|byte| (b'0'..b'p').contains(byte))
        );
    }
}
