//! Tables in a random order.
//!
//! Contract: a key of 128 random bits for each row, and a sort: so an order is as likely as any
//! other but for equal numbers, of which there are none to be expected below 2^60 rows, and is the
//! same on any machine. Where groups are kept together, the bits are those of the group, and its
//! rows stay in the order of the input.

use outcore::Job;
use outcore::key::sort_key::Tie;
use outcore_io::{Error, Result};

use super::rows_in::RowKeys;
use super::sort::{Rows, codec_of, open};
use super::{TableEnds, TableSummary};
use crate::output::OutputOptions;
use crate::rows::{KeyColumn, RowCodec};

/// Puts the rows of a table in a random order, of which all are about as likely: each row gets a
/// random number of 128 bits, and rows are sorted by these. The order is a pure function of the
/// seed, the epoch and the rows' places in the input.
///
/// With `groups`, rows with equal values in these columns stay together, in the order of the input,
/// and the groups come in a random order, which depends on the seed, the epoch and these values
/// alone.
///
/// # Errors
/// As [`sort`](super::sort()). Usage: a group has an order, which it cannot keep.
pub fn shuffle(
    job: &Job,
    ends: &TableEnds<'_>,
    (seed, epoch): (u64, u64),
    groups: &[KeyColumn],
) -> Result<TableSummary> {
    shuffle_to(job, ends, mixed(seed, epoch), groups, None)
}

/// Writes so many rows of a table, chosen at random, in a random order: the first ones of what
/// [`shuffle`] would write.
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
    shuffle_to(job, ends, mixed(seed, epoch), &[], Some(rows_count))
}

/// Seeds and epochs that are close give orders that have nothing in common.
fn mixed(seed: u64, epoch: u64) -> u64 {
    seed ^ epoch.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn shuffle_to(
    job: &Job,
    ends: &TableEnds<'_>,
    seed: u64,
    groups: &[KeyColumn],
    first: Option<u64>,
) -> Result<TableSummary> {
    if let Some(ordered) = groups
        .iter()
        .find(|column| column.is_descending || column.is_nulls_first)
    {
        let cause = format!(
            "`{}` is given an order, and groups come in a random one",
            ordered.name
        );
        return Err(Error::usage("shuffle", cause)
            .hint("name the columns alone, without :desc or :nulls-first"));
    }
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
    // Groups may bring together what is equal.
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
    rows.run(job, ends.outputs, &writes)
}
