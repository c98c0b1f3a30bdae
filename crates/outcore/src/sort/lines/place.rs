//! Selects the lines that a sort keeps, in the order of the input.
//!
//! Contract: [`select_lines`] sorts twice. The first sort puts the position of each line before it
//! ([`super::mark`]), and selects lines as its options say, the first one among equal keys. The
//! second sort orders these by their positions, and removes the positions.
//!
//! Bounds: those of two sorts, one after the other; the selected lines are on scratch a second
//! time, each with its mark.

use super::sort::sort_lines;
use super::{LineSortOptions, LineSummary, Places};
use crate::ends::{Input, Output, add_traffic, make_dir};
use crate::job::Job;
use crate::key::sort_key::{ByteOrder, SortKey};
use outcore_io::Result;

/// Writes the lines that a sort with these options would write, in the order of the input.
///
/// # Errors
/// The errors of [`sort_lines`].
pub fn select_lines(
    job: &Job,
    inputs: &[Input],
    output: Output,
    order: &dyn SortKey,
    options: LineSortOptions,
) -> Result<LineSummary> {
    let dir = make_dir(job, &output)?;
    let path = dir.path().join("items");
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
    let mut drives = first.drives;
    add_traffic(&mut drives, &second.drives);
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
        drives,
        phases,
        plan: first.plan,
        lines_out: second.lines_out,
        sides: second.sides,
        bytes_out: second.bytes_out,
        totals: second.totals,
    })
}
