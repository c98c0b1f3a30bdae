//! An index of sorted files: the first element of each block, so that a key takes one read.
//!
//! Contract: an index has the first elements of the blocks in which [`super::lookup`] reads, in order; what lies in front of
//! the first whole block of a file, and after the last, is read when a lookup begins. The block with the rank of a key
//! is the last one whose first element counts as before the key, and that rank is in it or right after it. So ranks are those of a
//! lookup without an index.
//!
//! An index belongs to its files as they are: their number, lengths and times of change, and the type of their elements. It is
//! refused for others, and so is one whose checksum is wrong. A block that does not begin as the index says is an error, too.
//!
//! Layout: [metadata](outcore_io::metadata) with its checksum, filled up with zeros to [`HEADER_BYTES`]; then the elements. Their own
//! checksum, in the metadata, is the sum of those of all elements, each seeded by its place, so it can be made in any order.
//!
//! Bounds: making it is one read of the files and one write of an element a block. A lookup holds all of the index in memory,
//! reads it once, then each block with a key once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::batch::{Batch, Leaf, Yield, read};
use super::super::gather::{collect, gather, gather_each};
use super::super::producer::{Emit, Maker, Produced, Producer};
use super::super::summary::Summary;
use super::super::write::produce;
use super::{LOOKUP, Sorted, Stretch, Wanted, first_false};
use crate::ends::{Input, MakeHeader, Output};
use crate::job::Job;
use crate::key::RecordFormat;
use outcore_io::checksum::{BlockLocation, block_checksum};
use outcore_io::memory::{BLOCK_BYTES, Reservation};
use outcore_io::metadata::{Form, Owner};
use outcore_io::{Error, Kind, Result};

/// Bytes before the first element of an index.
const HEADER_BYTES: usize = BLOCK_BYTES;
/// Longer elements would make an index that is hardly smaller than its files.
const ELEMENT_BYTES_MAX: usize = BLOCK_BYTES / 4;
const NAME: &str = "lookup index";
const AGAIN: &str = "remove it, and the next lookup makes it again";

const FORM: Form = Form {
    kind: NAME,
    version: 1,
    operation: "open lookup index",
    len_bytes_max: HEADER_BYTES as u64,
    remedy: AGAIN,
    upgrade: AGAIN,
};

/// What an index says of itself.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    elements: String,
    files_count: usize,
    /// Of all files, one after another: where data begins, its length, and when the file was changed.
    files_sum: u64,
    blocks: u64,
    elements_sum: u64,
}

impl Facts {
    fn of(sorted: &Sorted<'_>, format: &RecordFormat, elements_sum: u64) -> Self {
        Facts {
            elements: format!("{format} of {} bytes", format.record_bytes()),
            files_count: sorted.files.len(),
            files_sum: sorted.files_sum(),
            blocks: sorted.whole_blocks().map(|stretch| stretch.blocks()).sum(),
            elements_sum,
        }
    }

    fn header(&self) -> Result<Vec<u8>> {
        let mut header = FORM.seal(Owner::of(NAME), self)?;
        header.resize(HEADER_BYTES, 0);
        Ok(header)
    }
}

/// The checksum of an element at a place of an index.
fn sum_of(place: u64, element: &[u8]) -> u64 {
    let at = BlockLocation {
        drive: 0,
        address_bytes: place,
        run: 0,
    };
    block_checksum(at, element)
}

/// Writes the index of sorted files to `path`.
///
/// # Errors
/// [`Kind::Usage`] for elements so long that an index is of no use, for elements that do not ascend, and for an output that exists,
/// unless `replace`; what reading and writing fail with.
pub fn build_index(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    (path, replace): (&Path, bool),
) -> Result<Summary> {
    let element_bytes = format.record_bytes();
    if element_bytes > ELEMENT_BYTES_MAX {
        let cause = format!(
            "records of {element_bytes} bytes: an index would be hardly smaller than the file"
        );
        return Err(Error::usage(LOOKUP, cause).hint("look up without an index"));
    }
    let (_volume, sorted) = Sorted::open(job, inputs, format, super::Side::Left)?;
    let inputs: Vec<Input> = sorted
        .whole_blocks()
        .map(|stretch| stretch.input.clone())
        .collect();
    let sum = Arc::new(AtomicU64::new(0));
    let facts = |sum: u64| Facts::of(&sorted, format, sum).header();
    // Only the sum is not known yet; a header has the same length for any.
    let blank = facts(0)?;
    let known = Arc::clone(&sum);
    let template = Facts::of(&sorted, format, 0);
    let make: MakeHeader = Arc::new(move |_| {
        let facts = Facts {
            elements_sum: known.load(Relaxed),
            elements: template.elements.clone(),
            ..template
        };
        facts.header().unwrap_or_else(|_| blank.clone())
    });
    let output = Output::File {
        path: path.to_path_buf(),
        header: Some(make),
    };
    check_borders(job, &sorted)?;
    let firsts = Firsts {
        sorted: &sorted,
        inputs,
        borders: Borders::default(),
        block_bytes: sorted.block_elements() as usize * element_bytes,
        element_bytes,
        sum,
    };
    produce(job, &firsts, &output, replace)
}

/// Fails unless each stretch begins with an element that may follow the last one of the stretch before.
fn check_borders(job: &Job, sorted: &Sorted<'_>) -> Result<()> {
    let mut before: Option<Vec<u8>> = None;
    for stretch in sorted.stretches.iter().filter(|stretch| stretch.count > 0) {
        let ends = [0, stretch.count - 1];
        let input = std::slice::from_ref(&stretch.input);
        let (ends, _) = gather(job, input, sorted.element_bytes, &ends)?;
        let (first, last) = ends.split_at(sorted.element_bytes);
        if let Some(before) = before {
            let checked = sorted.check_ascending(&[&before, first].concat());
            checked.map_err(|error| error.path(&stretch.input.path))?;
        }
        before = Some(last.to_vec());
    }
    Ok(())
}

/// Ends of neighbouring parts, of which each waits for the other: by the number of the block behind the border.
#[derive(Default)]
struct Borders(Mutex<BTreeMap<u64, Border>>);

enum Border {
    /// The last element in front of it.
    Front(Vec<u8>),
    /// The first element behind it.
    Behind(Vec<u8>),
}

impl Borders {
    /// One side of a border; both elements once the other side has come.
    fn meet(&self, number: u64, side: Border) -> Option<Vec<u8>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (waiting.remove(&number), side) {
            (Some(Border::Front(last)), Border::Behind(first))
            | (Some(Border::Behind(first)), Border::Front(last)) => Some([last, first].concat()),
            (_, side) => {
                waiting.insert(number, side);
                None
            }
        }
    }
}

/// The first element of each block.
struct Firsts<'s> {
    sorted: &'s Sorted<'s>,
    inputs: Vec<Input>,
    block_bytes: usize,
    element_bytes: usize,
    sum: Arc<AtomicU64>,
    borders: Borders,
}

impl Firsts<'_> {
    fn make(&self, batch: Batch<'_>, out: &mut Emit<'_>) -> Result<Produced> {
        let len_bytes = batch.count * self.element_bytes;
        if !out.reserve(len_bytes)? {
            return Ok(Produced::Overflow);
        }
        let blocks = batch.bytes(0).chunks_exact(self.block_bytes);
        let places = out.free()[..len_bytes].chunks_exact_mut(self.element_bytes);
        if batch.count == 0 {
            return Ok(Produced::All);
        }
        // All blocks of a batch follow one another, and their borders are checked as their insides are.
        self.sorted.check_ascending(batch.bytes(0))?;
        let (first, last) = (
            &batch.bytes(0)[..self.element_bytes],
            &batch.bytes(0)[batch.bytes(0).len() - self.element_bytes..],
        );
        for (number, side) in [
            (batch.first, Border::Behind(first.to_vec())),
            (
                batch.first + batch.count as u64,
                Border::Front(last.to_vec()),
            ),
        ] {
            if let Some(pair) = self.borders.meet(number, side) {
                self.sorted.check_ascending(&pair)?;
            }
        }
        let mut sum = 0_u64;
        for (number, (block, place)) in (batch.first..).zip(blocks.zip(places)) {
            let first = &block[..self.element_bytes];
            place.copy_from_slice(first);
            sum = sum.wrapping_add(sum_of(number, first));
        }
        self.sum.fetch_add(sum, Relaxed);
        out.filled(len_bytes);
        Ok(Produced::All)
    }
}

impl Producer for Firsts<'_> {
    fn leaves(&self) -> Vec<Leaf> {
        vec![Leaf {
            inputs: self.inputs.clone(),
            element_bytes: self.block_bytes,
            align_bytes: 1,
            count: 0,
        }]
    }

    fn yields(&self) -> Yield {
        Yield::One
    }

    fn item_bytes(&self) -> usize {
        self.element_bytes
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        Box::new(|batch, out| self.make(batch, out))
    }

    fn steps(&self) -> String {
        "read -> first of each block".to_string()
    }
}

/// An index in memory.
pub(super) struct Index {
    path: PathBuf,
    firsts: Vec<u8>,
    element_bytes: usize,
    /// Blocks that are in no index: of each stretch that is one, its bytes.
    edges: Vec<Vec<u8>>,
    /// Of each stretch, the number of its first block among all of its kind.
    numbers: Vec<u64>,
    pub(super) read_bytes: u64,
    _held: Reservation,
}

impl Index {
    /// The index at `path` of the files of `sorted`.
    ///
    /// # Errors
    /// Usage: it is not an index, or one of other files, or of these before they changed. Corrupt: damage. Memory: it does not fit.
    /// What reading fails with.
    pub(super) fn open(sorted: &Sorted<'_>, path: &Path, format: &RecordFormat) -> Result<Self> {
        let job = sorted.job;
        let region = |header_bytes: usize, data_bytes: u64| Input {
            path: path.to_path_buf(),
            header_bytes: header_bytes as u64,
            data_bytes: Some(data_bytes),
        };
        let wrong = |cause: &str| Error::usage(FORM.operation, cause).path(path).hint(AGAIN);
        let other = || {
            wrong("it is not an index")
                .hint("name a file that a lookup has made, or one that is not there yet")
        };
        let header = collect(job, &read::<u8>(&[region(0, HEADER_BYTES as u64)]));
        let mut header = header.map_err(|error| match error.kind() {
            Kind::Corrupt => other(),
            _ => error,
        })?;
        let text_bytes = header.iter().rposition(|byte| *byte != 0);
        header.truncate(text_bytes.map_or(0, |last| last + 1));
        if !header.starts_with(b"{") {
            return Err(other());
        }
        let facts: Facts = FORM.open(path, Owner::of(NAME), &header)?.body;
        let wanted = Facts::of(sorted, format, facts.elements_sum);
        if facts.elements != wanted.elements {
            let cause = format!(
                "it is an index of {}, and the files hold {}",
                facts.elements, wanted.elements
            );
            return Err(wrong(&cause));
        }
        if facts != wanted {
            return Err(wrong(
                "it is an index of other files, or they have changed since it was made",
            ));
        }
        let element_bytes = format.record_bytes();
        let firsts_bytes = facts.blocks * element_bytes as u64;
        let held = job.budget.reserve("index", firsts_bytes)?;
        let firsts = collect(job, &read::<u8>(&[region(HEADER_BYTES, firsts_bytes)]))?;
        let sum = (0..)
            .zip(firsts.chunks_exact(element_bytes))
            .fold(0_u64, |sum, (place, element)| {
                sum.wrapping_add(sum_of(place, element))
            });
        if sum != facts.elements_sum {
            return Err(FORM
                .damage("its elements are not what was written")
                .path(path));
        }
        let mut index = Index {
            path: path.to_path_buf(),
            firsts,
            element_bytes,
            edges: Vec::new(),
            numbers: Vec::new(),
            read_bytes: HEADER_BYTES as u64 + firsts_bytes,
            _held: held,
        };
        let mut blocks = 0;
        for stretch in &sorted.stretches {
            match sorted.is_whole(stretch) {
                true => {
                    index.numbers.push(blocks);
                    blocks += stretch.blocks();
                }
                false => {
                    index.numbers.push(index.edges.len() as u64);
                    let block_bytes = stretch.block_elements as usize * element_bytes;
                    let input = std::slice::from_ref(&stretch.input);
                    let (bytes, done) = gather(job, input, block_bytes, &[0])?;
                    sorted
                        .check_ascending(&bytes)
                        .map_err(|error| error.path(&stretch.input.path))?;
                    index.read_bytes += done.read_bytes;
                    index.edges.push(bytes);
                }
            }
        }
        Ok(index)
    }

    /// The first element of a block of whole blocks.
    fn first(&self, number: u64) -> &[u8] {
        &self.firsts[number as usize * self.element_bytes..][..self.element_bytes]
    }
}

impl Sorted<'_> {
    /// Elements of a whole block.
    fn block_elements(&self) -> u64 {
        (BLOCK_BYTES / self.element_bytes).max(1) as u64
    }

    /// Whether a stretch consists of whole blocks.
    fn is_whole(&self, stretch: &Stretch) -> bool {
        stretch.block_elements == self.block_elements()
    }

    fn whole_blocks(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches
            .iter()
            .filter(|stretch| self.is_whole(stretch))
    }

    /// The block with the rank of a key: the stretch, and the number of the block in it. None where nothing counts.
    fn block_of(&self, index: &Index, key: &[u8]) -> Option<(usize, u64)> {
        let first_of = |stretch: usize, block: u64| match self.is_whole(&self.stretches[stretch]) {
            true => index.first(index.numbers[stretch] + block),
            false => &index.edges[index.numbers[stretch] as usize][..self.element_bytes],
        };
        let is_before = |stretch, block| self.is_before(first_of(stretch, block), key);
        let count = self.stretches.len() as u64;
        let stretch = first_false(0..count, |stretch| is_before(stretch as usize, 0));
        let stretch = stretch.checked_sub(1)? as usize;
        let blocks = 1..self.stretches[stretch].blocks();
        let block = first_false(blocks, |block| is_before(stretch, block)) - 1;
        Some((stretch, block))
    }

    /// Finds all ranks by a read for each block that has one; the bytes that were read.
    pub(super) fn find_by(&self, index: &Index, wanted: &mut [Wanted<'_>]) -> Result<u64> {
        self.job.control.check()?;
        // The number of a block, its first rank, and which key it is for.
        let mut asked: Vec<(u64, u64, usize)> = Vec::new();
        for (place, key) in wanted.iter_mut().enumerate() {
            let Some((stretch, block)) = self.block_of(index, key.key) else {
                key.ranks = 0..0;
                continue;
            };
            let (number, stretch) = (index.numbers[stretch], &self.stretches[stretch]);
            let first_rank = stretch.first_rank + block * stretch.block_elements;
            match self.is_whole(stretch) {
                true => asked.push((number + block, first_rank, place)),
                false => {
                    let rank = first_rank + self.rank_in(&index.edges[number as usize], key.key);
                    key.ranks = rank..rank;
                }
            }
        }
        let mut blocks: Vec<u64> = asked.iter().map(|(number, ..)| *number).collect();
        blocks.dedup();
        if blocks.is_empty() {
            return Ok(0);
        }
        let inputs: Vec<Input> = self
            .whole_blocks()
            .map(|stretch| stretch.input.clone())
            .collect();
        let block_bytes = self.block_elements() as usize * self.element_bytes;
        let known: &[Wanted<'_>] = wanted;
        let find = |ranks: &mut Vec<(usize, u64)>, place: usize, block: &[u8]| {
            let number = blocks[place];
            let path = || {
                let whole = index.numbers.iter().zip(&self.stretches);
                let whole = whole.filter(|(_, stretch)| self.is_whole(stretch));
                let last = whole.take_while(|(first, _)| **first <= number).last();
                last.map(|(_, stretch)| stretch.input.path.clone())
                    .unwrap_or_default()
            };
            self.check_ascending(block)
                .map_err(|error| error.path(path()))?;
            let first = &block[..self.element_bytes];
            if self.compare(first, index.first(number)).is_ne() {
                let cause = format!("a block of {} does not begin as it says", path().display());
                return Err(Error::usage(LOOKUP, cause).path(&index.path).hint(AGAIN));
            }
            let from = asked.partition_point(|(asked, ..)| *asked < number);
            let here = asked[from..].iter();
            for &(_, first_rank, place) in here.take_while(|(asked, ..)| *asked == number) {
                ranks.push((place, first_rank + self.rank_in(block, known[place].key)));
            }
            Ok(())
        };
        let from = (&inputs[..], block_bytes);
        let (ranks, done) = gather_each(self.job, from, &blocks, Vec::new, find)?;
        for (place, rank) in ranks.into_iter().flatten() {
            wanted[place].ranks = rank..rank;
        }
        Ok(done.read_bytes)
    }
}
