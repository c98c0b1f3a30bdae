//! Samples: elements from random places of the input, one from each equal stretch.
//!
//! Contract: the input is divided into as many stretches as there are reads. Each read starts at a
//! seeded place inside its stretch, so that sorted, periodic and random inputs all give splitters
//! that divide evenly. Reads go through one port, with many in flight over all drives. Bounds:
//! `reads * read_bytes` of I/O; a few hundred buffers of memory in addition to the sample itself.

use super::source::InputPart;
use outcore_io::Result;
use outcore_io::drive::BLOCK_BYTES;
use outcore_io::memory::{Budget, Pool, block_ceil, block_floor};
use outcore_io::port::{Port, Volume};
use outcore_io::transfers::{Arrival, ReadRange, Transfers};

/// The name under which buffers are reserved.
pub(crate) const SAMPLE: &str = "sample";
/// Reads in flight while sampling.
const WINDOW: usize = 128;

/// splitmix64 of `seed` and `index`: determines the place inside a stretch.
pub fn random(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Whether item `index` belongs to a share `rate` of all; each item is drawn independently.
pub fn is_drawn(seed: u64, index: u64, rate: f64) -> bool {
    const ALL: f64 = 18_446_744_073_709_551_616.0;
    rate >= 1.0 || (random(seed, index) as f64) < rate * ALL
}

/// `count` numbers below `all`, in order. Each is drawn from all numbers below `all`, so a number
/// may occur several times.
pub fn draw_places(all: u64, count: u64, seed: u64) -> Vec<u64> {
    let draw = |index| ((u128::from(random(seed, index)) * u128::from(all)) >> 64) as u64;
    let mut places: Vec<u64> = (0..count).map(draw).collect();
    places.sort_unstable();
    places
}

/// Estimates the number of different items among `total`, if all are about equally frequent and
/// `seen` of `taken` were different. Solves `seen = all (1 - exp(-taken / all))`.
pub fn distinct(seen: f64, taken: f64, total: f64) -> f64 {
    let (mut low, mut high) = (seen, total.max(seen));
    for _ in 0..60 {
        let all = (low + high) / 2.0;
        match all * -(-taken / all).exp_m1() < seen {
            true => low = all,
            false => high = all,
        }
    }
    high
}

/// The target of one read of a sample.
struct SampleRead {
    part: usize,
    at_bytes: u64,
    len_bytes: u64,
}

/// Elements from `reads` random places of `parts`, about `read_bytes` at each, one after another.
pub fn sample(
    volume: &Volume,
    budget: &Budget,
    parts: &[InputPart],
    element_bytes: usize,
    reads: usize,
    read_bytes: usize,
    seed: u64,
) -> Result<Vec<u8>> {
    let element = element_bytes as u64;
    let total: u64 = parts.iter().map(|part| part.data_len_bytes / element).sum();
    let per_read = (read_bytes as u64 / element).max(1);
    let mut places = Vec::with_capacity(reads);
    for index in 0..reads as u64 {
        let from = (u128::from(total) * u128::from(index) / reads as u128) as u64;
        let to = (u128::from(total) * u128::from(index + 1) / reads as u128) as u64;
        if from == to {
            continue;
        }
        let stretch = (to - from).saturating_sub(per_read).max(1);
        places.extend(sample_read(
            parts,
            element,
            from + random(seed, index) % stretch,
            per_read,
        ));
    }
    let slot_bytes = block_ceil(per_read * element) as usize + 2 * BLOCK_BYTES;
    let affordable = (budget.left_bytes(SAMPLE) / slot_bytes as u64).max(1) as usize;
    let slots = WINDOW.min(affordable).min(places.len().max(1));
    let pool = Pool::new(budget, SAMPLE, slot_bytes, slots)?;
    let mut places = places.into_iter();
    let next = |_: &Port| {
        places.next().map(|place| {
            let from = block_floor(place.at_bytes);
            ReadRange {
                file: &parts[place.part].file,
                at_bytes: from,
                len_bytes: (block_ceil(place.at_bytes + place.len_bytes) - from) as usize,
                what: place,
            }
        })
    };
    let mut gathered = Vec::new();
    let take = |read: Arrival<SampleRead>| {
        let skip = (read.what.at_bytes - block_floor(read.what.at_bytes)) as usize;
        // The later read of the blocks detects and reports a file that became shorter.
        let end = (skip + read.what.len_bytes as usize).min(read.len_bytes);
        let whole = end.saturating_sub(skip) / element_bytes * element_bytes;
        gathered.extend_from_slice(&read.buf[skip..skip + whole]);
        Ok(())
    };
    Transfers::new(volume)?.read_each(&pool, || Ok(()), next, take)?;
    Ok(gathered)
}

fn sample_read(
    parts: &[InputPart],
    element: u64,
    position: u64,
    per_read: u64,
) -> Option<SampleRead> {
    let after = parts.partition_point(|part| part.first_position <= position);
    let index = (0..after).rev().find(|&i| parts[i].data_len_bytes > 0)?;
    let part = &parts[index];
    let offset = (position - part.first_position) * element;
    let len_bytes = (per_read * element).min(part.data_len_bytes.checked_sub(offset)?);
    (len_bytes > 0).then_some(SampleRead {
        part: index,
        at_bytes: part.data_at_bytes + offset,
        len_bytes,
    })
}
