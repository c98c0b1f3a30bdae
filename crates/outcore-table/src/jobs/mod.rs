//! Jobs on tables: they convert a table's rows, pass them through the engine, and write the result.
//!
//! Contract: each job reads one or two tables ([`TableInput`]) and writes another
//! ([`TableOutput`]), which is absent or whole. [`copy`](fn@copy), [`select`](fn@select), [`span`]
//! and [`sample`] copy without a sort. So does an unordered [`join`](fn@join) whose right table
//! fits into memory. The others sort rows by a key of bytes. They differ in the key, and in how
//! they treat rows with equal keys:
//!
//! - [`sort`](fn@sort): the key is the columns of the order; rows with equal keys come in the order
//!   of their bytes, or of the input
//! - [`unique`](fn@unique): the same key; the first row of each key is kept
//! - [`dedup`](fn@dedup): the same key, without the rest of the row; one row of each key is kept,
//!   in its place
//! - [`group_by`]: the key is the columns of the groups; rows with equal keys are aggregated
//! - [`window`](fn@window): the key is the columns of the groups; rows of a group are ordered by
//!   further columns, then by the input, and new columns are computed from their places
//! - [`join`](fn@join): the key is the join columns; rows of the two tables with equal keys are
//!   paired
//! - [`comm`](fn@comm): the key is the given columns, or all; the right rows of each key are
//!   counted
//! - [`top`](fn@top): the key is the columns of the order, for rows that may be among the first;
//!   rows with equal keys come in the order of the input
//! - [`partition`](fn@partition): the key is the columns that name directories; rows with equal
//!   keys go to one file, in the order of the input
//! - [`shuffle`](fn@shuffle): the key is a random number of 128 bits, a function of the seed and of
//!   the row's position or group; rows with equal keys come in the order of the input
//!
//! [`view`](mod@view) leaves rows in sorted runs, which are merged as they are read.
//!
//! [`make`] computes rows from their numbers, and has no input.
//!
//! [`merge`](fn@merge) merges tables that are already sorted. [`count_by`] is a group-by followed
//! by a sort. [`diff`](fn@diff) is two sorts, whose results are compared row by row.
//!
//! All threads share decoding and encoding, which are most of the work: pieces of the input are
//! decoded in parallel, and parts of the output are encoded in parallel
//! ([`outcore::sort::lines::rows`]).
//!
//! Bounds: readers have a quarter of the memory, and so have writers, which work later; the sort
//! has the rest. If the pieces or columns need more than a quarter, they get it. I/O is one read of
//! the columns, one of the key columns for the sample, the rows to scratch and back if they do not
//! fit, and the output.

mod call;
mod copy;
mod count;
mod dedup;
mod diff;
mod group;
mod holding;
mod join;
mod journal;
mod made;
mod merge;
mod part;
mod partition;
mod plain;
mod plain_out;
mod random;
mod room;
mod route;
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

use outcore::sort::lines::{LineSummary, RowJournal};
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
pub use route::{RowRoute, route, splitters_count};
pub use select::{Selection, select};
pub use sort::{TableOrder, sort, top, unique};
pub use vectors::VectorColumn;
pub use verify::{TableCheck, verify};
pub use window::{Window, WindowColumn, WindowFunction, window};

/// The inputs and outputs of a job.
#[derive(Debug, Clone, Copy)]
pub struct TableEnds<'a> {
    /// Files and directories that form one table.
    pub inputs: &'a [PathBuf],
    /// Which parts of them are read, and how.
    pub reads: &'a InputOptions,
    /// Output files; several files get equal numbers of rows.
    pub outputs: &'a [PathBuf],
    /// The format and options of the outputs.
    pub writes: &'a OutputOptions,
}

/// The right one of two input tables.
#[derive(Debug, Clone, Copy)]
pub struct RightTable<'a> {
    /// Files and directories that form the table.
    pub inputs: &'a [PathBuf],
    /// Which parts of them are read, and how.
    pub reads: &'a InputOptions,
}

/// Two tables whose columns are compared.
struct Both {
    inputs: [TableInput; 2],
    /// The options for each table.
    reads: [InputOptions; 2],
}

/// Opens the tables of `ends` and `right` with `open`. Text without rows has no types; its columns
/// get the types of the other table.
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

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableSummary {
    /// Rows read.
    pub rows_in: u64,
    /// Rows written.
    pub rows_out: u64,
    /// Length of each output file.
    pub lens_bytes: Vec<u64>,
    /// Wall time.
    pub seconds: f64,
    /// Bytes read from all drives.
    pub read_bytes: u64,
    /// Bytes written to all drives.
    pub written_bytes: u64,
    /// Peak scratch use.
    pub scratch_bytes: u64,
    /// The number of times that the data are read and written.
    pub passes: u32,
    /// The phases in order.
    pub phases: Vec<Phase>,
}

/// Fails if a job that keeps all rows has not written all that it read.
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
    /// Publishes the output of a sort of `input`, if the input has not changed; `sample_bytes` of
    /// it were read before the sort. The job may keep a `journal`.
    fn published(
        job: &Job,
        (input, sample_bytes): (&TableInput, u64),
        output: TableOutput,
        done: LineSummary,
        journal: Option<RowJournal>,
    ) -> Result<Self> {
        input.check_unchanged()?;
        job.control.begin_phase("publish", 0);
        let lens_bytes = output.publish_kept(journal)?;
        let read_bytes = (sample_bytes, input.read_bytes());
        Ok(TableSummary::of_sort(done, read_bytes, lens_bytes))
    }

    /// Combines the engine's summary of a sort with the written bytes, and with the bytes that were
    /// read from the tables: before the sort, for the sample, and in total.
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
