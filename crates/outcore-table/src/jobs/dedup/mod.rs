//! Removes duplicate rows, and keeps the order of the input.
//!
//! Contract: of the rows with equal keys, one is kept: the first, the last, or the first in the
//! order of further columns. Kept rows stay in their order. Nulls are equal to each other.
//! [`unique`](super::unique()) gives the same rows in the order of their keys. [`dedup_near`]
//! removes rows whose texts are nearly the same, and [`dedup_substring`] removes repeated passages
//! of texts.
//!
//! There are two passes. The first reads only the key columns, sorts them with the rows' positions,
//! and marks each kept row with a bit ([`by_key`]). For near duplicates it sorts hashes of the
//! texts instead ([`near`]). The second pass copies the kept rows. So only keys go through scratch,
//! and the cost of a duplicate is that of its key.
//!
//! Bounds: one bit of memory per row, and four bytes per row for near duplicates. I/O is one read
//! of the key columns, their sort, and a copy.

mod by_key;
mod components;
mod cuts;
mod marks;
mod minhash;
mod near;
mod passages;
mod substring;

use std::path::PathBuf;
use std::time::Instant;

use arrow_schema::SchemaRef;
use outcore::Job;
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::{Change, copy_changed};
use super::journal::scratch_dir;
use super::sort::open;
use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::OutputOptions;
use crate::rows::KeyColumn;
use marks::{Kept, Marks};

pub use minhash::Shingles;
pub use near::{Near, dedup_near};
pub use passages::PassageUnit;
pub use substring::{Substring, SubstringSummary, dedup_substring};

const DEDUP: &str = "remove duplicates";
/// The ledger's name for the memory of the marks.
const MARKS: &str = "rows that are kept";

/// Which row of each key is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Keep {
    /// The first in the input.
    #[default]
    First,
    /// The last in the input.
    Last,
    /// The first in the order of these columns; among equal ones, the first in the input.
    Best(Vec<KeyColumn>),
}

/// The kept and the removed rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DedupSummary {
    /// The whole job.
    pub table: TableSummary,
    /// The number of removed rows.
    pub removed: u64,
    /// Length of the file with the removed rows, if there is one.
    pub removed_bytes: u64,
}

/// Copies a table and keeps one row per key; `keys` are the key columns, or all columns if it is
/// empty. Removed rows go to the file `removed`, if given.
///
/// # Errors
/// As [`sort`](super::sort()) and [`copy`](super::copy()).
pub fn dedup(
    job: &Job,
    ends: &TableEnds<'_>,
    (keys, keep): (&[KeyColumn], &Keep),
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<DedupSummary> {
    let started = Instant::now();
    let input = open(job, ends)?;
    if input.schema().fields().is_empty() {
        return Err(Error::usage(DEDUP, "the table has no columns")
            .hint("rows without columns have nothing to compare"));
    }
    let marks = Marks::of(input.pieces());
    let _marks = job.budget.reserve(MARKS, marks.memory_bytes())?;
    let keys: Vec<KeyColumn> = match keys.is_empty() {
        true => input
            .schema()
            .fields()
            .iter()
            .map(|field| KeyColumn::new(field.name()))
            .collect(),
        false => keys.to_vec(),
    };
    let order = match keep {
        Keep::Best(columns) => [&keys[..], columns].concat(),
        Keep::First | Keep::Last => keys.clone(),
    };
    let sorted = by_key::mark(
        job,
        &input,
        (&keys, &order),
        keep,
        &marks,
        &scratch_dir(ends.outputs),
    )?;
    let counts = marks.counts();
    let chosen = |is_kept| Kept {
        marks: &marks,
        counts: &counts,
        pieces: input.pieces(),
        is_kept,
    };
    let chosen = Chosen {
        kept: &chosen(true),
        others: &chosen(false),
        others_schema: input.schema(),
    };
    let done = write(job, ends, (&input, sorted), &chosen, removed)?;
    Ok(done.since(started))
}

/// The kept rows, and the others.
struct Chosen<'c> {
    kept: &'c dyn Change,
    others: &'c dyn Change,
    /// The schema of the file for the others.
    others_schema: &'c SchemaRef,
}

/// Copies the chosen rows of an input, after a sort of its keys or hashes.
fn write(
    job: &Job,
    ends: &TableEnds<'_>,
    (input, sorted): (&TableInput, TableSummary),
    chosen: &Chosen<'_>,
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<DedupSummary> {
    let sorted_bytes = input.read_bytes();
    let copy = |to: (&[PathBuf], &SchemaRef, &OutputOptions), rows: &dyn Change| {
        let own = Job {
            budget: Budget::new(job.budget.free_bytes()),
            ..job.clone()
        };
        copy_changed(&own, &input.under(&own)?, to, rows)
    };
    // Both are written before either appears.
    let left_out = match removed {
        None => None,
        Some((path, writes)) => {
            let to = (std::slice::from_ref(path), chosen.others_schema, writes);
            Some(copy(to, chosen.others)?)
        }
    };
    let to = (ends.outputs, input.schema(), ends.writes);
    let kept = copy(to, chosen.kept)?;
    let (kept, left_out) = match left_out {
        Some(left_out) => kept.publish_with(left_out)?,
        None => (kept.publish()?, TableSummary::default()),
    };
    Ok(DedupSummary {
        removed: kept.rows_in - kept.rows_out,
        removed_bytes: left_out.lens_bytes.iter().sum(),
        table: TableSummary {
            // The input counts all bytes that were read from it.
            read_bytes: sorted.read_bytes + kept.read_bytes - sorted_bytes,
            written_bytes: sorted.written_bytes + left_out.written_bytes + kept.written_bytes,
            scratch_bytes: sorted.scratch_bytes,
            passes: sorted.passes + kept.passes,
            phases: [sorted.phases, left_out.phases, kept.phases].concat(),
            ..kept
        },
    })
}

impl DedupSummary {
    fn since(self, started: Instant) -> Self {
        DedupSummary {
            table: TableSummary {
                seconds: started.elapsed().as_secs_f64(),
                ..self.table
            },
            ..self
        }
    }
}
