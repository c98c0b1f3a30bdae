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
//! and a duplicate costs only as much as its key.
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

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use arrow_schema::SchemaRef;
use outcore::Job;
use outcore::sort::lines::RowJournal;
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::copy::{Change, Copied, CopyTo, copy_to};
use super::journal::{self, scratch_dir};
use super::sort::open;
use super::{TableEnds, TableSummary};
use crate::input::TableInput;
use crate::output::{OutputOptions, StagedFile};
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

impl Keep {
    /// The choice in words.
    fn said(&self) -> String {
        match self {
            Keep::First => "first".to_owned(),
            Keep::Last => "last".to_owned(),
            Keep::Best(columns) => {
                let columns = columns.iter().map(KeyColumn::to_string);
                columns.collect::<Vec<_>>().join(",")
            }
        }
    }
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
    refuse_removed(job, removed.is_some())?;
    let by = keys.iter().map(KeyColumn::to_string).collect::<Vec<_>>();
    let options = vec![
        journal::option("key", by.join(",")),
        journal::option("choice of the kept row", keep.said()),
    ];
    let mut journal = journal::begin(job, ends, "deduplication of a table", options)?;
    let job = &journal::job(job, journal.as_ref());
    let input = open(job, ends)?;
    if input.schema().fields().is_empty() {
        return Err(Error::usage(DEDUP, "the table has no columns")
            .hint("rows without columns have nothing to compare"));
    }
    let staged = match journal::claim(job, [&input], ends.outputs, ends.writes, journal.as_mut())? {
        ControlFlow::Break(table) => {
            return Ok(DedupSummary::finished(table));
        }
        ControlFlow::Continue(staged) => staged,
    };
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
    // The copy has the same memory, even if a killed run had done a part of the sort.
    let copying = Job {
        budget: Budget::new(job.budget.free_bytes()),
        ..job.clone()
    };
    let kept = by_key::Keeping {
        scratch_dir: &scratch_dir(ends.outputs),
        staged: staged.as_ref().map(StagedFile::staged),
        journal: journal.as_mut(),
    };
    let sorted = by_key::mark(job, &input, (&keys, &order), keep, &marks, kept)?;
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
    let whole = Sorted {
        input: &input,
        sorted,
    };
    let done = match removed {
        None => write_kept(&copying, ends, whole, &chosen, staged, journal)?,
        Some(_) => write(job, ends, whole, &chosen, removed)?,
    };
    Ok(done.since(started))
}

/// Fails for a job with a journal and a file of removed rows.
fn refuse_removed(job: &Job, writes_removed: bool) -> Result<()> {
    if writes_removed && job.options.resume.is_some() {
        let cause = "only a job that writes one file can be resumed";
        return Err(Error::usage("resume", cause).hint("leave the file of removed rows out"));
    }
    Ok(())
}

/// The kept rows, and the others.
struct Chosen<'c> {
    kept: &'c dyn Change,
    others: &'c dyn Change,
    /// The schema of the file with the other rows.
    others_schema: &'c SchemaRef,
}

/// An input, after a sort of its keys or hashes.
struct Sorted<'a> {
    input: &'a TableInput,
    sorted: TableSummary,
}

/// Copies the chosen rows of an input, after a sort of its keys or hashes.
fn write(
    job: &Job,
    ends: &TableEnds<'_>,
    Sorted { input, sorted }: Sorted<'_>,
    chosen: &Chosen<'_>,
    removed: Option<(&PathBuf, &OutputOptions)>,
) -> Result<DedupSummary> {
    let Some((path, writes)) = removed else {
        return write_kept(job, ends, Sorted { input, sorted }, chosen, None, None);
    };
    let sorted_bytes = input.read_bytes();
    // Both are written before either appears.
    let to = CopyTo {
        outputs: std::slice::from_ref(path),
        schema: chosen.others_schema,
        writes,
        staged: None,
    };
    let left_out = copy(job, input, to, chosen.others)?;
    let to = CopyTo {
        outputs: ends.outputs,
        schema: input.schema(),
        writes: ends.writes,
        staged: None,
    };
    let kept = copy(job, input, to, chosen.kept)?;
    let (kept, left_out) = kept.publish_with(left_out)?;
    Ok(DedupSummary::of(sorted, kept, left_out, sorted_bytes))
}

/// Copies only the kept rows. The output may be staged already, and the job may keep a journal.
fn write_kept(
    job: &Job,
    ends: &TableEnds<'_>,
    Sorted { input, sorted }: Sorted<'_>,
    chosen: &Chosen<'_>,
    staged: Option<StagedFile>,
    journal: Option<RowJournal>,
) -> Result<DedupSummary> {
    let sorted_bytes = input.read_bytes();
    let to = CopyTo {
        outputs: ends.outputs,
        schema: input.schema(),
        writes: ends.writes,
        staged,
    };
    let kept = copy(job, input, to, chosen.kept)?;
    let kept = kept.publish_kept(journal)?;
    let none = TableSummary::default();
    Ok(DedupSummary::of(sorted, kept, none, sorted_bytes))
}

/// Copies rows of `input` with all of the job's free memory.
fn copy(job: &Job, input: &TableInput, to: CopyTo<'_>, rows: &dyn Change) -> Result<Copied> {
    let own = Job {
        budget: Budget::new(job.budget.free_bytes()),
        ..job.clone()
    };
    copy_to(&own, &input.under(&own)?, to, rows)
}

impl DedupSummary {
    /// The report of a job whose killed run had already put its output in place.
    fn finished(table: TableSummary) -> Self {
        DedupSummary {
            removed: table.rows_in - table.rows_out,
            removed_bytes: 0,
            table,
        }
    }

    /// The report of a job that `sorted` and copied. `sorted_bytes` of the input were read before
    /// the copy.
    fn of(
        sorted: TableSummary,
        kept: TableSummary,
        left_out: TableSummary,
        sorted_bytes: u64,
    ) -> Self {
        DedupSummary {
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
        }
    }

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
