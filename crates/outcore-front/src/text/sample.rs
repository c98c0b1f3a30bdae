//! Draws a random sample of lines or records, in one pass.
//!
//! Contract: [`choose`] draws a random word for each record and keeps those with the smallest
//! words. Every set of that size is therefore equally likely, and the choice depends only on the
//! seed and the positions. Memory: that of the sample. Source: E. Cohen, "Size-estimation framework
//! with applications to transitive closure and reachability", JCSS 1997 (bottom-k samples).

use std::collections::BinaryHeap;

use outcore::read::sample::random;
use outcore::{Error, Kind, Result};
use outcore_io::units;

use super::reader::RecordReader;

/// Memory for holding a record in addition to its bytes.
const RECORD_OVERHEAD_BYTES: u64 = 64;

/// `count` records of `reader` in order, or all if there are fewer, with at most `limit_bytes` in
/// total. Records outside the sample may have any length.
///
/// # Errors
/// A failed read; [`Kind::Memory`] for a larger sample.
pub fn choose(
    reader: &mut RecordReader<'_>,
    count: u64,
    seed: u64,
    limit_bytes: u64,
) -> Result<Vec<Vec<u8>>> {
    let mut kept = draw(reader, count, seed, limit_bytes)?;
    kept.sort_unstable_by_key(|kept| kept.place);
    Ok(kept.into_iter().map(|kept| kept.record).collect())
}

/// The sample of [`choose`] in a random order; all orders are equally likely.
///
/// # Errors
/// As [`choose`].
pub fn choose_in_random_order(
    reader: &mut RecordReader<'_>,
    count: u64,
    seed: u64,
    limit_bytes: u64,
) -> Result<Vec<Vec<u8>>> {
    let mut kept = draw(reader, count, seed, limit_bytes)?;
    kept.sort_unstable_by_key(|kept| (kept.word, kept.place));
    Ok(kept.into_iter().map(|kept| kept.record).collect())
}

/// A record of a sample.
struct Drawn {
    /// Its random number.
    word: u64,
    /// Its number in the input.
    place: u64,
    record: Vec<u8>,
}

/// As [`choose`], in unspecified order.
fn draw(
    reader: &mut RecordReader<'_>,
    count: u64,
    seed: u64,
    limit_bytes: u64,
) -> Result<Vec<Drawn>> {
    // The largest word is on top, to be removed next.
    let mut kept: BinaryHeap<(u64, u64, Vec<u8>)> = BinaryHeap::new();
    let (mut place, mut held_bytes) = (0, 0);
    // The current record, if it is chosen for the sample.
    let (mut taken, mut is_begun) = (None, false);
    while count > 0
        && let Some(piece) = reader.next_piece()?
    {
        if !is_begun {
            let word = random(seed, place);
            let is_full = kept.len() as u64 == count;
            let enters = !is_full || kept.peek().is_some_and(|(largest, _, _)| word < *largest);
            if enters {
                if is_full && let Some((_, _, out)) = kept.pop() {
                    held_bytes -= out.len() as u64 + RECORD_OVERHEAD_BYTES;
                }
                held_bytes += RECORD_OVERHEAD_BYTES;
                taken = Some((word, place, Vec::new()));
            }
        }
        if let Some((_, _, record)) = &mut taken {
            held_bytes += piece.bytes.len() as u64;
            if held_bytes > limit_bytes {
                let record_bytes = (record.len() + piece.bytes.len()) as u64;
                let is_one = record_bytes + RECORD_OVERHEAD_BYTES > limit_bytes;
                let lens = kept.iter().map(|(_, _, record)| record.len() as u64);
                let longest_bytes = lens.chain([record_bytes]).max().unwrap_or(0);
                let taken = kept.len() as u64 + 1;
                let enough_bytes = enough_bytes(count, taken, held_bytes, longest_bytes);
                return Err(too_large(limit_bytes, is_one, enough_bytes));
            }
            // Doubling the buffer of a long one would take twice the memory.
            record.reserve_exact(piece.bytes.len());
            record.extend_from_slice(piece.bytes);
        }
        is_begun = !piece.is_last;
        if piece.is_last {
            place += 1;
            kept.extend(taken.take());
        }
    }
    let kept = kept.into_iter().map(|(word, place, record)| Drawn {
        word,
        place,
        record,
    });
    Ok(kept.collect())
}

/// Bytes to reserve for a sample of `count` records. The first `taken` records have `held_bytes`
/// together. In a small sample all records may be as long as the longest so far; a large one keeps
/// its mean approximately.
fn enough_bytes(count: u64, taken: u64, held_bytes: u64, longest_bytes: u64) -> u64 {
    const SMALL: u64 = 64;
    let longest_bytes = longest_bytes + RECORD_OVERHEAD_BYTES;
    let mean_bytes = held_bytes / taken.max(1);
    let each_bytes = match count <= SMALL {
        true => longest_bytes,
        false => longest_bytes.min(mean_bytes + mean_bytes / 2),
    };
    count.saturating_mul(each_bytes).min(1 << 60)
}

fn too_large(limit_bytes: u64, is_one: bool, enough_bytes: u64) -> Error {
    let limit = units::bytes_exact(limit_bytes);
    let enough = units::bytes_exact(enough_bytes.max(limit_bytes + 1).next_multiple_of(64 << 20));
    let (cause, hint) = match is_one {
        true => (
            format!("a record of the sample exceeds the memory of {limit}"),
            "raise --memory, or check what ends a record; another --seed may not draw it"
                .to_owned(),
        ),
        false => (
            format!("the sample is larger than the memory of {limit}"),
            format!(
                "allow --memory {enough}, or take fewer; shuffle and head give a sample of any size"
            ),
        ),
    };
    Error::new(Kind::Memory, "sample", cause).hint(hint)
}
