//! Counts how often values occur.
//!
//! Contract: [`count_by`] is [`group_by`] with the one aggregate `count`, in the order of the
//! columns. With order by count, the most frequent value comes first, and equal counts are in the
//! order of the columns. For that, the groups are written to a private Arrow file and sorted.
//!
//! Bounds: those of [`group_by`], then those of [`sort`]; the groups are written to scratch once.

use std::time::Instant;

use outcore::Job;
use outcore_io::Result;

use super::group::{Aggregate, group_by};
use super::journal::scratch_dir;
use super::sort::sort;
use super::{TableEnds, TableOrder, TableSummary};
use crate::input::InputOptions;
use crate::output::{OutputOptions, TableFormat};
use crate::rows::KeyColumn;

/// The column of the counts.
const COUNT: &str = "count";

/// Counts the rows of each value of `columns`.
///
/// # Errors
/// As [`group_by`] and [`sort`].
pub fn count_by(
    job: &Job,
    ends: &TableEnds<'_>,
    columns: &[KeyColumn],
    is_by_count: bool,
) -> Result<TableSummary> {
    let counts = [Aggregate::count()];
    if !is_by_count {
        return group_by(job, ends, columns, &counts);
    }
    let started = Instant::now();
    let drive = job.options.drives.first();
    let parent = drive.map_or_else(|| scratch_dir(ends.outputs), |drive| drive.dir.clone());
    job.device.sweep_private_dirs(&parent)?;
    let dir = job.device.make_private_dir(&parent)?;
    let groups = [dir.path().join("scratch-0")];
    let counted = TableEnds {
        outputs: &groups,
        writes: &OutputOptions::new(TableFormat::ArrowFile),
        ..*ends
    };
    let counted = group_by(job, &counted, columns, &counts)?;
    let mut keys = vec![KeyColumn::new(COUNT).descending()];
    keys.extend_from_slice(columns);
    let order = TableOrder {
        keys,
        ..TableOrder::default()
    };
    let sorted = TableEnds {
        inputs: &groups,
        reads: &InputOptions::default(),
        ..*ends
    };
    let done = sort(job, &sorted, &order)?;
    let groups_bytes = counted.lens_bytes.iter().sum::<u64>();
    Ok(TableSummary {
        rows_in: counted.rows_in,
        seconds: started.elapsed().as_secs_f64(),
        read_bytes: counted.read_bytes + done.read_bytes,
        written_bytes: counted.written_bytes + done.written_bytes,
        scratch_bytes: counted.scratch_bytes.max(done.scratch_bytes + groups_bytes),
        passes: counted.passes + done.passes,
        phases: [counted.phases, done.phases.clone()].concat(),
        ..done
    })
}
