//! Shuffles tables.
//!
//! Contract: each row gets a key of 128 random bits, and rows are sorted by the keys. So all orders
//! are equally likely unless two keys are equal, which is not to be expected below 2^60 rows. The
//! order is the same on every machine. With groups, all rows of a group get the same bits, and stay
//! in the order of the input.

use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore_io::{Error, Result};

use super::journal;
use super::rows_in::RowKeys;
use super::sort::{Rows, codec_of, open};
use super::{TableEnds, TableSummary};
use crate::output::OutputOptions;
use crate::rows::{KeyColumn, RowCodec};

/// Shuffles the rows of a table: each row gets a random number of 128 bits, and rows are sorted by
/// these. All orders are about equally likely. The order is a pure function of the seed, the epoch
/// and the rows' positions in the input.
///
/// With `groups`, rows with equal values in these columns stay together, in the order of the input.
/// The order of the groups is random and depends only on the seed, the epoch and these values.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: a group column with a direction, which a shuffle cannot keep.
pub fn shuffle(
    job: &Job,
    ends: &TableEnds<'_>,
    (seed, epoch): (u64, u64),
    groups: &[KeyColumn],
) -> Result<TableSummary> {
    shuffle_to(job, ends, seed, epoch, groups, None)
}

/// Writes this many random rows of a table in random order: the first rows that [`shuffle`] would
/// write.
///
/// # Errors
/// As [`shuffle`].
pub fn shuffle_some(
    job: &Job,
    ends: &TableEnds<'_>,
    seed: u64,
    epoch: u64,
    rows_count: u64,
) -> Result<TableSummary> {
    shuffle_to(job, ends, seed, epoch, &[], Some(rows_count))
}

/// Mixes seed and epoch so that similar ones give unrelated orders.
fn mixed(seed: u64, epoch: u64) -> u64 {
    seed ^ epoch.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn shuffle_to(
    job: &Job,
    ends: &TableEnds<'_>,
    seed: u64,
    epoch: u64,
    groups: &[KeyColumn],
    first: Option<u64>,
) -> Result<TableSummary> {
    if let Some(ordered) = groups
        .iter()
        .find(|column| column.is_descending || column.is_nulls_first)
    {
        let cause = format!(
            "`{}` has an order, but groups come in a random order",
            ordered.name
        );
        return Err(Error::usage("shuffle", cause)
            .hint("name only the columns, without :desc or :nulls-first"));
    }
    let names = groups.iter().map(KeyColumn::to_string);
    let options = vec![
        journal::option("seed", seed),
        journal::option("epoch", epoch),
        journal::option("groups", names.collect::<Vec<_>>().join(",")),
    ];
    let journal = match first {
        Some(_) => None,
        None => journal::begin(job, ends, "shuffle of a table", options)?,
    };
    let seed = mixed(seed, epoch);
    let job = &journal::job(job, journal.as_ref());
    let input = open(job, ends)?;
    let codec = RowCodec::new(input.schema(), &[])?;
    let group = match groups {
        [] => None,
        groups => Some(codec_of(&input, groups)?),
    };
    let mut writes = OutputOptions {
        sorted_by: Vec::new(),
        ..ends.writes.clone()
    };
    // Groups may bring equal values together.
    if groups.is_empty() {
        writes.without_dictionary.extend(input.hardly_repeating());
    }
    let rows = Rows {
        input: &input,
        codec: &codec,
        keys: match &group {
            None => RowKeys::Random { seed },
            Some(group) => RowKeys::RandomGroups { seed, group },
        },
        tie: match group.is_some() {
            true => Tie::Position,
            false => Tie::Bytes,
        },
        is_unique: false,
        first,
        columns: None,
    };
    rows.run(job, ends.outputs, &writes, journal)
}
