//! The ranks of keys in sorted files: `numpy.searchsorted` for many keys and files beyond memory.
//!
//! Contract: the rank of a key is the number of elements that are less than it, or, from the right,
//! that are not greater. Ranks are returned in the order of the keys. Keys have the type of the
//! files' elements and the order of [`crate::key::order`]. For plain floats -0.0 equals 0.0, and
//! all NaNs are equal. Several files are one sequence. If the blocks that are read do not ascend,
//! or files are not in order, that is an error; other blocks are not checked.
//!
//! With an index ([`index`]) of the first element of each block, a key takes one read. Without one,
//! all keys are searched at the same time, in rounds. For each key, a round reads the block in
//! which the key would be if the elements between the known ones were evenly spread (interpolation
//! search: Perl, Itai, Avni, CACM 1978). After some rounds, every other round reads the middle
//! block. The result for a key also narrows the range of adjacent keys. A round reads each block
//! once, in the order of the file, with as many reads in flight as the drives support
//! ([`gather_each`]). It narrows the keys of a block as soon as the block arrives.
//!
//! Bounds: two or three blocks of 4 KiB per key if elements are evenly spread, and at worst twice
//! the logarithm of the number of blocks. A block is twice as long if elements cross block
//! boundaries. Memory: the reads in flight, and about 500 bytes per key that is searched at the
//! same time; these keys use at most half of the memory.

mod index;

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::gather::{gather, gather_each};
use super::summary::Summary;
use crate::ends::{Input, Phases, input_places, open_inputs};
use crate::forecast::{Amounts, Forecast, PhasePlan};
use crate::job::{Job, OutputPlaces};
use crate::key::{Endian, Number, Order, OrderOptions, RecordFormat};
use crate::read::source::InputPart;
use outcore_io::checksum::bytes_checksum;
use outcore_io::drive::Access;
use outcore_io::memory::BLOCK_BYTES;
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result};

use index::Index;
pub use index::build_index;

const LOOKUP: &str = "look up keys";
/// Rounds that only interpolate.
const ROUNDS_INTERPOLATED: u32 = 4;
/// Memory of a key that is being searched.
const KEY_BYTES: u64 = 512;
/// Smallest number of keys that are searched at the same time.
const KEYS_MIN: usize = 64;

/// Whether elements equal to a key count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Elements equal to the key do not count: the rank of the first equal element.
    #[default]
    Left,
    /// Elements equal to the key count: the rank after the last equal element.
    Right,
}

/// The ranks of `keys`, which are stored one after another, in `inputs`, whose elements of `format`
/// ascend.
///
/// # Errors
/// [`Kind::Usage`] for incomplete keys, and for files that turn out not to ascend; [`Kind::Memory`]
/// if not even some keys fit; the errors of reading.
pub fn lookup(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    keys: &[u8],
    side: Side,
) -> Result<(Vec<u64>, Summary)> {
    find_ranks(job, inputs, format, keys, side, None)
}

/// Like [`lookup`], but through the index at `index`, which [`build_index`] made of the same files.
/// Takes one read for each block with a rank, or a few if the index does not fit in a quarter of
/// the memory.
///
/// # Errors
/// The errors of [`lookup`]; [`Kind::Usage`] for an index of other or changed files;
/// [`Kind::Corrupt`] for a damaged one.
pub fn lookup_indexed(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    keys: &[u8],
    side: Side,
    index: &Path,
) -> Result<(Vec<u64>, Summary)> {
    find_ranks(job, inputs, format, keys, side, Some(index))
}

fn find_ranks(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    keys: &[u8],
    side: Side,
    index: Option<&Path>,
) -> Result<(Vec<u64>, Summary)> {
    let element_bytes = format.record_bytes();
    if !keys.len().is_multiple_of(element_bytes) {
        let cause = format!("{} bytes are not keys of {element_bytes} bytes", keys.len());
        return Err(Error::usage(LOOKUP, cause).hint("give keys of the type of the file"));
    }
    let mut phases = Phases::start();
    let (volume, sorted) = Sorted::open(job, inputs, format, side)?;
    let index = index
        .map(|path| Index::open(&sorted, path, format))
        .transpose()?;
    if index.is_none() && inputs.len() > 1 {
        sorted.check_borders()?;
    }
    let count = keys.len() / element_bytes;
    let held_bytes = (count * (size_of::<u64>() + size_of::<u32>())) as u64 + keys.len() as u64;
    let _held = job.budget.reserve("keys and their ranks", held_bytes)?;
    let key = |place: u32| &keys[place as usize * element_bytes..][..element_bytes];
    let mut places: Vec<u32> = (0..count as u32).collect();
    places.sort_unstable_by(|a, b| sorted.compare(key(*a), key(*b)));
    // Half of the memory is for blocks in flight.
    let at_once = (job.budget.free_bytes() / 2 / KEY_BYTES) as usize;
    if at_once < KEYS_MIN.min(count) {
        let cause = format!("{} bytes are left", job.budget.free_bytes());
        return Err(Error::new(Kind::Memory, LOOKUP, cause).hint("allow more with --memory"));
    }
    let mut ranks = vec![0; count];
    let mut read_bytes = index.as_ref().map_or(0, |index| index.read_bytes);
    for places in places.chunks(at_once.max(1)) {
        // Equal keys are searched once.
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        let mut of = Vec::with_capacity(places.len());
        for &place in places {
            let key = key(place);
            let is_known = wanted
                .last()
                .is_some_and(|last| sorted.compare(last.key, key).is_eq());
            if !is_known {
                wanted.push(Wanted::new(key, sorted.order.word(key, 0), sorted.count));
            }
            of.push(wanted.len() - 1);
        }
        read_bytes += match &index {
            Some(index) => sorted.find_by(index, &mut wanted)?,
            None => sorted.find(&mut wanted)?,
        };
        for (&place, of) in places.iter().zip(of) {
            ranks[place as usize] = wanted[of].ranks.start;
        }
    }
    phases.end("look up", &volume);
    let data_bytes = sorted.count * element_bytes as u64;
    let expected_bytes =
        lookup_read_bytes(count as u64, data_bytes, element_bytes, index.is_some());
    let requests = expected_bytes as f64 / sorted.block_bytes() as f64;
    let amounts = Amounts::of_files(expected_bytes.into(), Forecast::NOTHING, requests);
    let layout = job.layout(&input_places(&sorted.files), &OutputPlaces::Unknown);
    let plan = PhasePlan::new("look up", amounts, &layout);
    let mut summary = Summary::of_pass(&volume, phases, &[plan], sorted.count, count as u64, 0);
    // Each gather counted only its own bytes.
    summary.read_bytes = read_bytes;
    for phase in &mut summary.phases {
        phase.read_bytes = read_bytes;
    }
    Ok((ranks, summary))
}

/// Predicted read bytes of a lookup of `keys` keys in files with `data_bytes` of elements of
/// `element_bytes`. A key takes three blocks, or one block with an index; the sum is at most the
/// bytes of the files.
pub fn lookup_read_bytes(keys: u64, data_bytes: u64, element_bytes: usize, has_index: bool) -> u64 {
    let blocks = if has_index { 1 } else { 3 };
    let block_bytes = BLOCK_BYTES.max(element_bytes) as u64;
    keys.saturating_mul(blocks * block_bytes).min(data_bytes)
}

/// A key, and the range that contains its rank.
#[derive(Clone)]
struct Wanted<'k> {
    key: &'k [u8],
    word: u64,
    /// Both ends are possible ranks.
    ranks: Range<u64>,
    /// The first bytes of the elements before and after these ranks, as far as they are known.
    words: (Option<u64>, Option<u64>),
}

impl<'k> Wanted<'k> {
    fn new(key: &'k [u8], word: u64, count: u64) -> Self {
        Wanted {
            key,
            word,
            ranks: 0..count,
            words: (None, None),
        }
    }

    fn is_found(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The rank to read next.
    fn guess(&self, round: u32) -> u64 {
        let len = self.ranks.end - self.ranks.start;
        let is_halved = round >= ROUNDS_INTERPOLATED && round % 2 == 1;
        let share = match self.words {
            (Some(low), Some(high)) if low < high && !is_halved => {
                let within = self.word.clamp(low, high) - low;
                within as f64 / (high - low) as f64
            }
            _ => 0.5,
        };
        let offset = (share * len as f64) as u64;
        self.ranks.start + offset.min(len - 1)
    }
}

/// Consecutive elements of a file.
struct Stretch {
    first_rank: u64,
    input: Input,
    /// Number of elements that are read at once.
    block_elements: u64,
    /// Number of all elements.
    count: u64,
}

impl Stretch {
    /// Number of reads that cover the stretch.
    fn blocks(&self) -> u64 {
        self.count / self.block_elements
    }
}

/// Applies the bounds of each key's rank to adjacent keys, because ranks ascend as keys do.
fn share_bounds(wanted: &mut [Wanted<'_>]) {
    for place in 1..wanted.len() {
        let (before, rest) = wanted.split_at_mut(place);
        let (low, key) = (&before[place - 1], &mut rest[0]);
        if low.ranks.start > key.ranks.start {
            key.ranks.start = low.ranks.start;
            key.words.0 = if low.is_found() {
                Some(low.word)
            } else {
                low.words.0
            };
        }
    }
    for place in (1..wanted.len()).rev() {
        let (before, rest) = wanted.split_at_mut(place);
        let (key, high) = (&mut before[place - 1], &rest[0]);
        if high.ranks.end < key.ranks.end {
            key.ranks.end = high.ranks.end;
            key.words.1 = if high.is_found() {
                Some(high.word)
            } else {
                high.words.1
            };
        }
    }
}

/// Files that are sorted.
struct Sorted<'j> {
    job: &'j Job,
    /// The type of the elements, if they are floats.
    real: Option<Number>,
    order: Order,
    element_bytes: usize,
    side: Side,
    stretches: Vec<Stretch>,
    count: u64,
    files: Vec<InputPart>,
}

/// The value of a float.
fn real(number: Number, bytes: &[u8]) -> f64 {
    let mut word = [0; size_of::<u64>()];
    let word = &mut word[..bytes.len().min(size_of::<u64>())];
    word.copy_from_slice(bytes);
    if number.endian == Endian::Big {
        word.reverse();
    }
    match *word {
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

/// Divides each file into three stretches: the part before the first whole block, the whole blocks,
/// and the rest.
fn stretches(inputs: &[Input], parts: &[InputPart], element_bytes: usize) -> Vec<Stretch> {
    let element = element_bytes as u64;
    let block = BLOCK_BYTES as u64;
    let mut stretches = Vec::new();
    let mut first_rank = 0;
    for (input, part) in inputs.iter().zip(parts) {
        let all = part.data_len_bytes / element;
        let to_block = (block - part.data_at_bytes % block) % block;
        let is_even = block.is_multiple_of(element) && to_block.is_multiple_of(element);
        let front = if is_even {
            (to_block / element).min(all)
        } else {
            0
        };
        let block_elements = (block / element).max(1);
        let blocks = (all - front) / block_elements;
        let rest = all - front - blocks * block_elements;
        let mut at_bytes = part.data_at_bytes;
        for (elements, block_elements) in [
            (front, front),
            (blocks * block_elements, block_elements),
            (rest, rest),
        ] {
            if elements > 0 {
                stretches.push(Stretch {
                    first_rank,
                    input: Input {
                        path: input.path.clone(),
                        header_bytes: at_bytes,
                        data_bytes: Some(elements * element),
                    },
                    block_elements,
                    count: elements,
                });
            }
            at_bytes += elements * element;
            first_rank += elements;
        }
    }
    stretches
}

impl<'j> Sorted<'j> {
    /// The files at `inputs`.
    fn open(
        job: &'j Job,
        inputs: &[Input],
        format: &RecordFormat,
        side: Side,
    ) -> Result<(Volume, Self)> {
        let element_bytes = format.record_bytes();
        let volume = Volume::new(Arc::clone(&job.device), &[])?;
        let parts = open_inputs(&volume, inputs, element_bytes, Access::Read)?;
        let sorted = Sorted {
            job,
            real: format.scalar().filter(|number| number.kind.is_float()),
            order: Order::new(format, OrderOptions::default()),
            element_bytes,
            side,
            stretches: stretches(inputs, &parts, element_bytes),
            count: parts
                .iter()
                .map(|part| part.data_len_bytes / element_bytes as u64)
                .sum(),
            files: parts,
        };
        Ok((volume, sorted))
    }

    /// A number that differs for files of other lengths, other headers, or other times of change.
    fn files_sum(&self) -> u64 {
        let facts = self.files.iter().flat_map(|part| {
            let modified = part.file.facts.modified_ns as u64;
            [part.data_at_bytes, part.data_len_bytes, modified].map(u64::to_le_bytes)
        });
        bytes_checksum(facts.collect::<Vec<_>>().as_flattened())
    }
}

impl Sorted<'_> {
    /// The order of two elements; floats compare by value.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(number) = self.real else {
            return self.order.compare_keys(a, b);
        };
        let (a, b) = (real(number, a), real(number, b));
        let by_value = a.partial_cmp(&b);
        by_value.unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    /// The longest block.
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES.max(self.element_bytes)
    }

    /// Narrows ranks until all are found; returns the bytes read.
    fn find<'k>(&self, wanted: &mut [Wanted<'k>]) -> Result<u64> {
        let mut read_bytes = 0;
        let mut round = 0;
        loop {
            self.job.control.check()?;
            // For each stretch: which keys read which of its blocks, both ascending.
            let mut asked: Vec<Vec<(u64, usize)>> = vec![Vec::new(); self.stretches.len()];
            for (place, key) in wanted.iter().enumerate().filter(|(_, key)| !key.is_found()) {
                let rank = key.guess(round);
                let stretch = self
                    .stretches
                    .partition_point(|stretch| stretch.first_rank <= rank)
                    .saturating_sub(1);
                let within = rank - self.stretches[stretch].first_rank;
                let block = within / self.stretches[stretch].block_elements;
                asked[stretch].push((block, place));
            }
            if asked.iter().all(Vec::is_empty) {
                return Ok(read_bytes);
            }
            for (stretch, mut asked) in self.stretches.iter().zip(asked) {
                asked.sort_unstable();
                let mut blocks: Vec<u64> = asked.iter().map(|(block, _)| *block).collect();
                blocks.dedup();
                if blocks.is_empty() {
                    continue;
                }
                let block_bytes = stretch.block_elements as usize * self.element_bytes;
                let input = std::slice::from_ref(&stretch.input);
                let known: &[Wanted<'k>] = wanted;
                // A thread narrows the keys of a block as soon as the block has arrived.
                let narrow =
                    |narrowed: &mut Vec<(usize, Wanted<'k>)>, place: usize, block: &[u8]| {
                        let number = blocks[place];
                        let first_rank = stretch.first_rank + number * stretch.block_elements;
                        let from = asked.partition_point(|(block, _)| *block < number);
                        let here = asked[from..].iter();
                        for &(_, key) in here.take_while(|(block, _)| *block == number) {
                            narrowed.push((key, self.narrow(&known[key], first_rank, block)?));
                        }
                        self.check_ascending(block)
                    };
                let narrow = |narrowed: &mut Vec<_>, place: usize, block: &[u8]| {
                    let done = narrow(narrowed, place, block);
                    done.map_err(|error| error.path(&stretch.input.path))
                };
                let (narrowed, done) =
                    gather_each(self.job, input, block_bytes, &blocks, Vec::new, narrow)?;
                read_bytes += done.read_bytes;
                for (place, key) in narrowed.into_iter().flatten() {
                    wanted[place] = key;
                }
            }
            share_bounds(wanted);
            round += 1;
        }
    }

    /// Whether an element counts for the rank of a key.
    fn is_before(&self, element: &[u8], key: &[u8]) -> bool {
        match self.compare(element, key) {
            Ordering::Less => true,
            Ordering::Equal => self.side == Side::Right,
            Ordering::Greater => false,
        }
    }

    /// How many elements of a block count for the rank of a key.
    fn rank_in(&self, block: &[u8], key: &[u8]) -> u64 {
        let count = block.len() / self.element_bytes;
        let element = |at: usize| &block[at * self.element_bytes..][..self.element_bytes];
        first_false(0..count as u64, |at| {
            self.is_before(element(at as usize), key)
        })
    }

    /// A key, narrowed by a block whose first element has the given rank.
    fn narrow<'k>(&self, wanted: &Wanted<'k>, first_rank: u64, block: &[u8]) -> Result<Wanted<'k>> {
        let mut wanted = wanted.clone();
        let count = block.len() / self.element_bytes;
        let element = |at: usize| &block[at * self.element_bytes..][..self.element_bytes];
        let low = self.rank_in(block, wanted.key) as usize;
        let rank = first_rank + low as u64;
        if low == 0 {
            wanted.words.1 = Some(self.order.word(element(0), 0));
            wanted.ranks.end = wanted.ranks.end.min(rank);
        } else if low == count {
            wanted.words.0 = Some(self.order.word(element(count - 1), 0));
            wanted.ranks.start = wanted.ranks.start.max(rank);
        } else {
            if rank < wanted.ranks.start || rank > wanted.ranks.end {
                return Err(not_ascending());
            }
            wanted.ranks = rank..rank;
        }
        match wanted.ranks.start > wanted.ranks.end {
            true => Err(not_ascending()),
            false => Ok(wanted),
        }
    }

    /// Fails unless the first element of each stretch may follow the last one of the previous
    /// stretch.
    fn check_borders(&self) -> Result<()> {
        let ends = |stretch: &Stretch| {
            let last = stretch.first_rank + stretch.count - 1;
            [stretch.first_rank, last]
        };
        let inputs: Vec<Input> = self.stretches.iter().map(|s| s.input.clone()).collect();
        let ranks: Vec<u64> = self.stretches.iter().flat_map(ends).collect();
        let (ends, _) = gather(self.job, &inputs, self.element_bytes, &ranks)?;
        // The last element of each stretch and the first one of the next.
        let borders = ends.get(self.element_bytes..).unwrap_or_default();
        let borders = borders.chunks_exact(2 * self.element_bytes);
        for (border, behind) in borders.zip(self.stretches.iter().skip(1)) {
            let checked = self.check_ascending(border);
            checked.map_err(|error| error.path(&behind.input.path))?;
        }
        Ok(())
    }

    fn check_ascending(&self, block: &[u8]) -> Result<()> {
        let elements = block.chunks_exact(self.element_bytes);
        match elements.is_sorted_by(|a, b| self.compare(a, b).is_le()) {
            true => Ok(()),
            false => Err(not_ascending()),
        }
    }
}

/// The first number of `range` for which `is_true` is false, or the end of the range. `is_true` is
/// true for all numbers before that one and false for all numbers after it.
fn first_false(range: Range<u64>, is_true: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_true(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

fn not_ascending() -> Error {
    Error::usage(LOOKUP, "the elements are not in ascending order")
        .hint("sort the file first, or check its --type")
}
