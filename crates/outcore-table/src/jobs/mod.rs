//! Jobs on tables: thin drivers that put a table's rows through the engine and back.
//!
//! Contract: each job reads one table ([`TableInput`]), or two of them, and writes another
//! ([`TableOutput`]), which is absent or whole. [`copy`](fn@copy), [`select`](fn@select), [`span`]
//! and [`sample`] go straight from one to the other, and so does a [`join`](fn@join) in any order
//! whose right table fits into memory. The others sort the rows by a key of bytes, and differ in
//! the key and in what they do with rows of equal keys:
//!
//! - [`sort`](fn@sort): the key is the columns of the order; rows of equal keys: by their bytes,
//!   or as they came
//! - [`unique`](fn@unique): the key is the same; rows of equal keys: the first that came
//! - [`dedup`](fn@dedup): the key is the same, and nothing else of the row; rows of equal keys:
//!   one is kept, where it was
//! - [`group_by`]: the key is the columns of the groups; rows of equal keys: put together as
//!   aggregates
//! - [`window`](fn@window): the key is the columns of the groups; rows of equal keys: by the
//!   columns of an order, then as they came; columns are computed of their places
//! - [`join`](fn@join): the key is the columns that two tables have in common; rows of equal keys:
//!   those of one table paired with those of the other
//! - [`comm`](fn@comm): the key is the same, or all columns; rows of equal keys: those of the
//!   right table are counted
//! - [`top`](fn@top): the key is the columns of the order, of rows that may be among the first;
//!   rows of equal keys: as they came
//! - [`partition`](fn@partition): the key is the columns that name directories; rows of equal
//!   keys: as they came, in a file of their own
//! - [`shuffle`](fn@shuffle): the key is a random number of 128 bits, a function of the seed and
//!   the row's place, or its group; rows of equal keys: as they came
//!
//! [`view`](mod@view) leaves rows in sorted runs, which are merged as they are read.
//!
//! [`make`] computes rows from their numbers, and reads nothing.
//!
//! [`merge`](fn@merge) takes tables that are sorted already, and reads them side by side instead.
//! [`count_by`] is a group-by with a sort after it, and [`diff`](fn@diff) two sorts, the results of
//! which are read side by side.
//!
//! Decoding and encoding, the greater part of the work, are done by all threads: pieces of the
//! input side by side, and parts of the output side by side ([`outcore::sort::lines::rows`]).
//!
//! Bounds: a quarter of the memory each for readers and writers, which do not work at the same
//! time, the rest for the sort; where the pieces or columns need more than a quarter, what they
//! need. I/O is one read of the columns, one more of the columns of the key for the sample, the
//! rows to scratch and back as far as they do not fit, and the output.

mod call;
mod copy;
mod count;
mod dedup;
mod diff;
mod group;
mod holding;
mod join;
mod made;
mod merge;
mod part;
mod partition;
mod plain;
mod plain_out;
mod random;
mod room;
mod rows_in;
mod rows_out;
mod select;
mod sort;
mod top;
mod vectors;
mod verify;
pub mod view;
mod window;

use std::path::PathBuf;

use outcore::sort::lines::LineSummary;
use outcore::{Job, Phase};
use outcore_io::{Error, Result, units};

use crate::input::{InputOptions, TableInput};
use crate::output::{OutputOptions, TableOutput};

pub use copy::copy;
pub use count::count_by;
pub use dedup::{
    DedupSummary, Keep, Near, PassageUnit, Shingles, Substring, SubstringSummary, dedup,
    dedup_near, dedup_substring,
};
pub use diff::{DiffSummary, diff};
pub use group::{Aggregate, AggregateKind, Operand, group_by};
pub use holding::RowsWhere;
pub use join::{AsOf, ColumnPair, CommColumn, Join, JoinKind, comm, join};
pub use made::{MakeRows, make};
pub use merge::merge;
pub use part::{halves, sample, sample_rate, sample_with_replacement, span};
pub use partition::partition;
pub use plain::{PlainBatch, PlainColumns, PlainType, PlainValues, TakePlain};
pub use plain_out::{
    ColumnValues, NewTable, TakeColumns, has_columns, is_table_name, write_columns,
    write_columns_beside,
};
pub use random::{shuffle, shuffle_some};
pub use select::{Selection, select};
pub use sort::{TableOrder, sort, top, unique};
pub use vectors::VectorColumn;
pub use verify::{TableCheck, verify};
pub use window::{Window, WindowColumn, WindowFunction, window};

/// What a job reads, and what it writes.
#[derive(Debug, Clone, Copy)]
pub struct TableEnds<'a> {
    /// Files and directories of one table.
    pub inputs: &'a [PathBuf],
    /// What is read of them.
    pub reads: &'a InputOptions,
    /// Files, several of which get equal numbers of rows.
    pub outputs: &'a [PathBuf],
    /// What they look like.
    pub writes: &'a OutputOptions,
}

/// The right one of two tables.
#[derive(Debug, Clone, Copy)]
pub struct RightTable<'a> {
    /// Its files and directories.
    pub inputs: &'a [PathBuf],
    /// What is read of them.
    pub reads: &'a InputOptions,
}

/// Two tables whose columns are compared.
struct Both {
    inputs: [TableInput; 2],
    /// What is read of them.
    reads: [InputOptions; 2],
}

/// Opens the table of `ends` and `right` with `open`. Text without rows has no types: its columns
/// get those of the other table.
fn open_both(
    ends: &TableEnds<'_>,
    right: RightTable<'_>,
    open: impl Fn(&[PathBuf], &InputOptions) -> Result<TableInput>,
) -> Result<Both> {
    let paths = [ends.inputs, right.inputs];
    let mut reads = [ends.reads.clone(), right.reads.clone()];
    let mut inputs = [open(paths[0], &reads[0])?, open(paths[1], &reads[1])?];
    for side in 0..2 {
        if let Some(typed) = inputs[side].reads_like(&inputs[1 - side], &reads[side]) {
            inputs[side] = open(paths[side], &typed)?;
            reads[side] = typed;
        }
    }
    Ok(Both { inputs, reads })
}

/// What a job did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableSummary {
    /// Rows that were read.
    pub rows_in: u64,
    /// Rows that were written.
    pub rows_out: u64,
    /// Length of each file that was written.
    pub lens_bytes: Vec<u64>,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Most scratch in use at once.
    pub scratch_bytes: u64,
    /// Times that the data were read and written.
    pub passes: u32,
    /// The phases in order.
    pub phases: Vec<Phase>,
}

/// Fails where a job that keeps all rows has not written all that it read.
fn check_rows(rows_in: u64, rows_out: u64) -> Result<()> {
    match rows_in == rows_out {
        true => Ok(()),
        false => {
            let rows = units::counted(rows_in, "row");
            let cause = format!("{rows} were read, and {rows_out} were written");
            Err(Error::corrupt("write table", cause).hint("a bug: please report it"))
        }
    }
}

impl TableSummary {
    /// Publishes the output of a sort of `input`, if that is still what it was; `sample_bytes` of
    /// it were read before.
    fn published(
        job: &Job,
        (input, sample_bytes): (&TableInput, u64),
        output: TableOutput,
        done: LineSummary,
    ) -> Result<Self> {
        input.check_unchanged()?;
        job.control.begin_phase("publish", 0);
        let lens_bytes = output.publish()?;
        let read_bytes = (sample_bytes, input.read_bytes());
        Ok(TableSummary::of_sort(done, read_bytes, lens_bytes))
    }

    /// What the engine says of a sort, beside what was read of the tables before it (for the
    /// sample) and in all, and what was written of them.
    fn of_sort(
        done: LineSummary,
        (sample_bytes, read_bytes): (u64, u64),
        lens_bytes: Vec<u64>,
    ) -> Self {
        let table_bytes = lens_bytes.iter().sum::<u64>();
        let mut phases = done.phases;
        for phase in &mut phases {
            match phase.name {
                "sample" => phase.read_bytes += sample_bytes,
                "distribute" => phase.read_bytes += read_bytes - sample_bytes,
                "sort" => phase.written_bytes += table_bytes,
                _ => {}
            }
        }
        TableSummary {
            rows_in: done.lines_in,
            rows_out: done.lines_out,
            lens_bytes,
            seconds: done.seconds,
            read_bytes: done.read_bytes + read_bytes,
            written_bytes: done.written_bytes + table_bytes,
            scratch_bytes: done.scratch_bytes,
            passes: done.passes,
            phases,
        }
    }
}
