//! A join of two tables by their keys, with a sort and a scan.
//!
//! Rows of both sides, marked with their side, are sorted by key, left before right. A scan whose
//! operator keeps the last left row then gives every right row its partner: the operator is
//! associative, so the scan runs over any amount of data. Keys are unique on the left.

use std::path::Path;

use bytemuck::{Pod, Zeroable};
use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::key::RecordFormat;
use outcore::primitives::{Inclusion, Sequence, read, scan, write};
use outcore::sort::{SortOptions, sort};

/// A row of either side, as it goes through the sort and the scan.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Row {
    key: u64,
    /// 0 for the left side, 1 for the right.
    side: u64,
    right: u64,
    /// 1 if this row or an earlier one is of the left side; `left_key` and `left` are of the last
    /// such row.
    has_left: u64,
    left_key: u64,
    left: u64,
}

/// Joins rows (key, value). For each row of `right` whose key is in `left`, `to` gets (key, left
/// value, right value), in the order of the keys. Returns the number of rows.
///
/// # Errors
/// The errors of the passes.
pub fn join(job: &Job, left: &Path, right: &Path, to: &Path) -> Result<u64> {
    let dir = crate::private_dir(job, to)?;
    let step = |name: &str| dir.path().join(name);
    let rows = |path: &Path| read::<[u64; 2]>(&[Input::raw(path)]);

    let lefts = rows(left).map(|[key, value]| Row {
        key,
        has_left: 1,
        left_key: key,
        left: value,
        ..Row::zeroed()
    });
    let rights = rows(right).map(|[key, right]| Row {
        key,
        side: 1,
        right,
        ..Row::zeroed()
    });
    write(job, &lefts, &crate::to_file(&step("input-0")), false)?;
    write(job, &rights, &crate::to_file(&step("input-1")), false)?;
    let both = ["input-0", "input-1"].map(|name| Input::raw(step(name)));
    let format = RecordFormat::parse_record(size_of::<Row>(), &["0:8:u64", "8:8:u64", "16:8:u64"])?;
    let sorted = crate::to_file(&step("sorted"));
    sort(job, &both, sorted, &format, SortOptions::default())?;

    let last_left = |before: Row, row: Row| match row.has_left {
        1 => row,
        _ => Row {
            has_left: before.has_left,
            left_key: before.left_key,
            left: before.left,
            ..row
        },
    };
    let sorted = read::<Row>(&[Input::raw(step("sorted"))]);
    let scanned = crate::to_file(&step("output"));
    let (none, all) = (Row::zeroed(), Inclusion::Inclusive);
    scan(job, &sorted, none, last_left, all, &scanned, false)?;
    let matched = read::<Row>(&[Input::raw(step("output"))])
        .filter(|row| row.side + row.has_left == 2 && row.left_key == row.key)
        .map(|row| [row.key, row.left, row.right]);
    let done = write(job, &matched, &crate::to_file(to), false)?;
    Ok(done.records)
}
