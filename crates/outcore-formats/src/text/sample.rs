//! A random sample of lines or records, in one pass.
//!
//! Contract: [`choose`] draws a word for each record and keeps those with the smallest, so every set
//! of that size is equally likely and the choice depends on seed and places alone. Memory: that of the
//! sample. Source: E. Cohen, "Size-estimation framework with applications to transitive closure and
//! reachability", JCSS 1997 (bottom-k samples).

use std::collections::BinaryHeap;

use outcore::stream::sample::random;
use outcore::{Error, Kind, Result, units};

use super::reader::RecordReader;

/// What holding a record costs besides its bytes.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// `count` records of `reader`, or all where there are fewer, with their places, in order; those of
/// `limit_bytes` at most together.
///
/// # Errors
/// What reading fails with; [`Kind::Memory`] for a larger sample.
pub fn choose(
    reader: &mut RecordReader<'_>,
    count: u64,
    seed: u64,
    limit_bytes: u64,
) -> Result<Vec<(u64, Vec<u8>)>> {
    // The largest word on top, to be thrown out next.
    let mut kept: BinaryHeap<(u64, u64, Vec<u8>)> = BinaryHeap::new();
    let (mut place, mut held_bytes) = (0, 0);
    while count > 0
        && let Some(record) = reader.next_record()?
    {
        let word = random(seed, place);
        let is_full = kept.len() as u64 == count;
        let enters = !is_full || kept.peek().is_some_and(|(largest, _, _)| word < *largest);
        if enters {
            if is_full && let Some((_, _, out)) = kept.pop() {
                held_bytes -= out.len() as u64 + RECORD_OVERHEAD_BYTES;
            }
            held_bytes += record.len() as u64 + RECORD_OVERHEAD_BYTES;
            if held_bytes > limit_bytes {
                let limit = units::bytes_exact(limit_bytes);
                return Err(Error::new(
                    Kind::Memory,
                    "sample",
                    format!("the sample is larger than {limit}"),
                )
                .hint(
                    "raise --memory, or take fewer; shuffle and head give a sample of any size",
                ));
            }
            kept.push((word, place, record.to_vec()));
        }
        place += 1;
    }
    let mut kept: Vec<(u64, Vec<u8>)> = kept
        .into_iter()
        .map(|(_, place, record)| (place, record))
        .collect();
    kept.sort_unstable_by_key(|(place, _)| *place);
    Ok(kept)
}
