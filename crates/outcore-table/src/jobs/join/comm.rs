//! Compares two tables as multisets: rows that are in one of them, or in both.
//!
//! Contract: [`comm`] is a join in which each right row is the partner of at most one left row, and
//! nulls are equal. If the right table has n rows of a key, the first n left rows of the key are in
//! both tables; further ones are only in the left table.
//!
//! Bounds: those of a [`join`], which here holds a number per key instead of rows.

use outcore::Job;
use outcore_io::memory::Budget;
use outcore_io::{Error, Result};

use super::{ColumnPair, Join, JoinKind, join};
use crate::input::TableInput;
use crate::jobs::{RightTable, TableEnds, TableSummary, open_both};

const COMPARE: &str = "compare tables";

/// The rows to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommColumn {
    /// Rows that only the left table has.
    Left,
    /// Rows that only the right table has.
    Right,
    /// Rows of both tables, taken from the left one.
    Both,
}

/// Writes one of the three sets of rows, in the order of the columns `by`, or of all columns if
/// `by` is empty.
///
/// # Errors
/// As [`join`]. Usage: tables with different columns, if `by` is empty.
pub fn comm(
    job: &Job,
    ends: &TableEnds<'_>,
    right: RightTable<'_>,
    by: &[String],
    column: CommColumn,
) -> Result<TableSummary> {
    let on = match by {
        [] => all_columns(job, ends, right)?,
        by => by.to_vec(),
    };
    let pairs = on.into_iter().map(|name| ColumnPair {
        left: name.clone(),
        right: name,
    });
    let wanted = Join {
        on: pairs.collect(),
        kind: match column {
            CommColumn::Left | CommColumn::Right => JoinKind::Anti,
            CommColumn::Both => JoinKind::Semi,
        },
        is_of_multisets: true,
        ..Join::default()
    };
    if column == CommColumn::Right {
        let swapped = TableEnds {
            inputs: right.inputs,
            reads: right.reads,
            ..*ends
        };
        return join(job, &swapped, (ends.inputs, ends.reads), &wanted);
    }
    join(job, ends, (right.inputs, right.reads), &wanted)
}

/// The names of all columns, which both tables must have.
fn all_columns(job: &Job, ends: &TableEnds<'_>, right: RightTable<'_>) -> Result<Vec<String>> {
    let reading = Job {
        budget: Budget::new(job.budget.free_bytes() / 2),
        ..job.clone()
    };
    let names = |input: &TableInput| -> Vec<String> {
        let fields = input.schema().fields().iter();
        fields.map(|field| field.name().clone()).collect()
    };
    let both = open_both(ends, right, |paths, reads| {
        TableInput::open(&reading, paths, reads)
    })?;
    let [left, right] = both.inputs.each_ref().map(names);
    let lacks = |one: &[String], other: &[String]| {
        let name = one.iter().find(|name| !other.contains(name));
        name.cloned()
    };
    if left.is_empty() && right.is_empty() {
        return Err(Error::usage(COMPARE, "neither table has a column")
            .hint("give a CSV file without rows a header, or write it as Parquet or Arrow"));
    }
    match lacks(&left, &right).or_else(|| lacks(&right, &left)) {
        None => Ok(left),
        Some(name) => {
            let cause = format!("only one of the tables has a column `{name}`");
            Err(Error::usage(COMPARE, cause).hint(
                "name key columns that both tables have, or read only the columns that both have",
            ))
        }
    }
}
