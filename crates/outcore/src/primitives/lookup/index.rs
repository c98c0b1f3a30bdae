//! An index of sorted files: the first element of each block, so that a key takes one read.
//!
//! Contract: an index has the first elements of the blocks in which [`super::lookup`] reads, in
//! order. The parts of a file before its first whole block and after its last one are read when a
//! lookup begins. The rank of a key is in, or right after, the last block whose first element
//! counts as before the key. So ranks are those of a lookup without an index.
//!
//! An index is valid only for its unchanged files: their number, lengths and times of change, and
//! the type of their elements. It is rejected for other files, and also if its checksum is wrong. A
//! block whose first element differs from the index is also an error.
//!
//! Layout: [metadata](outcore_io::metadata) with its checksum, padded with zeros to
//! [`HEADER_BYTES`]; then the elements. The metadata also hold a checksum of the elements: the sum
//! of the elements' checksums, each seeded by its place, so it can be computed in any order.
//!
//! Bounds: building it is one read of the files and one write of an element per block. A lookup
//! reads the index once and keeps what fits in a quarter of the free memory: all of it, or every
//! second, fourth, ... element. With the whole index, the lookup reads each block that contains a
//! key once. With less, it searches the few blocks between two elements as a lookup without an
//! index does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::batch::{Batch, Source, Yield, read};
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
/// An index uses at most the free memory divided by this, and so does the part of it that is being
/// read.
const INDEX_SHARE: u64 = 4;
/// Largest part of an index that is read at once.
const PART_BYTES_MAX: u64 = 64 << 20;
/// With longer elements an index would be hardly smaller than its files.
const ELEMENT_BYTES_MAX: usize = BLOCK_BYTES / 4;
const NAME: &str = "lookup index";
const AGAIN: &str = "remove it, and the next lookup makes it again";

const FORM: Form = Form {
    kind: NAME,
    version: 1,
    version_min: 1,
    operation: "open lookup index",
    len_bytes_max: HEADER_BYTES as u64,
    remedy: AGAIN,
    upgrade: AGAIN,
};

/// The metadata of an index.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    elements: String,
    files_count: usize,
    /// Checksum over all files, in order: offset and length of the data, and time of change.
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
/// [`Kind::Usage`] for elements so long that an index is useless, for elements that do not ascend,
/// and for an existing output, unless `replace`; the errors of reading and writing.
pub fn build_index(
    job: &Job,
    inputs: &[Input],
    format: &RecordFormat,
    path: &Path,
    replace: bool,
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
    // Only the sum is still unknown; a header has the same length for any sum.
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
    sorted.check_borders()?;
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

/// The ends of adjacent parts, each of which waits for the other, by the number of the block after
/// the border.
#[derive(Default)]
struct Borders(Mutex<BTreeMap<u64, Border>>);

enum Border {
    /// The last element before the border.
    Front(Vec<u8>),
    /// The first element after the border.
    Behind(Vec<u8>),
}

impl Borders {
    /// Adds one side of a border; returns both elements once the other side has arrived.
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
        // The blocks of a batch are consecutive, so this checks their borders and their contents.
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
    fn sources(&self) -> Vec<Source> {
        vec![Source {
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

/// An index in memory, or a part of it.
pub(super) struct Index {
    path: PathBuf,
    /// The first elements of blocks: for each stretch of whole blocks, of every `step`-th one.
    firsts: Vec<u8>,
    step: u64,
    element_bytes: usize,
    /// Blocks that are in no index: the bytes of each stretch that is not whole.
    edges: Vec<Vec<u8>>,
    /// For each stretch, the position of its first element in `firsts`, or of its bytes in `edges`.
    numbers: Vec<u64>,
    pub(super) read_bytes: u64,
    _held: Reservation,
}

impl Index {
    /// The index at `path` of the files of `sorted`.
    ///
    /// # Errors
    /// Usage: it is not an index, belongs to other files, or to an earlier state of these files.
    /// Corrupt: damage. The errors of reading.
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
                .hint("name a file that a lookup has made, or one that does not exist yet")
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
        let kept = |step| {
            let blocks = sorted.whole_blocks().map(|stretch| stretch.blocks());
            blocks.map(|blocks| blocks.div_ceil(step)).sum::<u64>() * element_bytes as u64
        };
        let room_bytes = job.budget.free_bytes() / INDEX_SHARE;
        // Once the step is as long as the longest stretch, a larger step leaves out no further
        // elements: one per stretch remains.
        let mut step = 1;
        while kept(step) > room_bytes && step < facts.blocks {
            step *= 2;
        }
        let held = job.budget.reserve("index", kept(step))?;
        let mut index = Index {
            path: path.to_path_buf(),
            firsts: Vec::with_capacity(kept(step) as usize),
            step,
            element_bytes,
            edges: Vec::new(),
            numbers: Vec::new(),
            read_bytes: HEADER_BYTES as u64 + facts.blocks * element_bytes as u64,
            _held: held,
        };
        let from =
            |at_bytes: u64, len_bytes: u64| region(HEADER_BYTES + at_bytes as usize, len_bytes);
        if index.read_elements(sorted, from)? != facts.elements_sum {
            return Err(FORM
                .damage("its elements are damaged: they differ from what was written")
                .path(path));
        }
        index.read_edges(sorted)?;
        Ok(index)
    }

    /// Reads all elements, in the regions that `from` returns, part by part, and keeps those that
    /// the index holds; returns their sum.
    fn read_elements(
        &mut self,
        sorted: &Sorted<'_>,
        from: impl Fn(u64, u64) -> Input,
    ) -> Result<u64> {
        let element_bytes = self.element_bytes as u64;
        let part_bytes = (sorted.job.budget.free_bytes() / INDEX_SHARE).min(PART_BYTES_MAX);
        let part_elements = (part_bytes / element_bytes).max(1);
        let stretches = sorted.whole_blocks();
        let mut blocks = stretches.flat_map(|stretch| 0..stretch.blocks());
        let elements = (self.read_bytes - HEADER_BYTES as u64) / element_bytes;
        let mut sum = 0_u64;
        for first in (0..elements).step_by(part_elements as usize) {
            let count = part_elements.min(elements - first);
            let region = from(first * element_bytes, count * element_bytes);
            let part = collect(sorted.job, &read::<u8>(&[region]))?;
            let part = part.chunks_exact(self.element_bytes);
            for ((number, element), block) in (first..).zip(part).zip(&mut blocks) {
                sum = sum.wrapping_add(sum_of(number, element));
                if block.is_multiple_of(self.step) {
                    self.firsts.extend_from_slice(element);
                }
            }
        }
        Ok(sum)
    }

    /// Reads the parts of files that are in no whole block.
    fn read_edges(&mut self, sorted: &Sorted<'_>) -> Result<()> {
        let mut kept = 0;
        for stretch in &sorted.stretches {
            if sorted.is_whole(stretch) {
                self.numbers.push(kept);
                kept += self.kept(stretch);
                continue;
            }
            self.numbers.push(self.edges.len() as u64);
            let block_bytes = stretch.block_elements as usize * self.element_bytes;
            let input = std::slice::from_ref(&stretch.input);
            let (bytes, done) = gather(sorted.job, input, block_bytes, &[0])?;
            sorted
                .check_ascending(&bytes)
                .map_err(|error| error.path(&stretch.input.path))?;
            self.read_bytes += done.read_bytes;
            self.edges.push(bytes);
        }
        Ok(())
    }

    /// An element that the index holds.
    fn first(&self, place: u64) -> &[u8] {
        &self.firsts[place as usize * self.element_bytes..][..self.element_bytes]
    }

    /// Number of elements that the index holds of a stretch of whole blocks.
    fn kept(&self, stretch: &Stretch) -> u64 {
        stretch.blocks().div_ceil(self.step)
    }
}

impl Sorted<'_> {
    /// Number of elements per whole block.
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

    /// The last element of the index that counts for a key: its stretch, and its number in the
    /// stretch. `None` if no element counts.
    fn place_of(&self, index: &Index, key: &[u8]) -> Option<(usize, u64)> {
        let first_of = |stretch: usize, number: u64| match self.is_whole(&self.stretches[stretch]) {
            true => index.first(index.numbers[stretch] + number),
            false => &index.edges[index.numbers[stretch] as usize][..self.element_bytes],
        };
        let is_before = |stretch, number| self.is_before(first_of(stretch, number), key);
        let count = self.stretches.len() as u64;
        let stretch = first_false(0..count, |stretch| is_before(stretch as usize, 0));
        let stretch = stretch.checked_sub(1)? as usize;
        let numbers = match self.is_whole(&self.stretches[stretch]) {
            true => 1..index.kept(&self.stretches[stretch]),
            false => 1..1,
        };
        let number = first_false(numbers, |number| is_before(stretch, number)) - 1;
        Some((stretch, number))
    }

    /// Narrows the ranks of a key to the blocks between two elements of an index, or to one rank in
    /// an edge; returns its stretch. `None` if the rank is known without an element.
    fn narrow_by(&self, index: &Index, key: &mut Wanted<'_>) -> Option<(usize, u64)> {
        let Some((stretch, number)) = self.place_of(index, key.key) else {
            key.ranks = 0..0;
            return None;
        };
        let (place, here) = (index.numbers[stretch], &self.stretches[stretch]);
        if !self.is_whole(here) {
            let rank = here.first_rank + self.rank_in(&index.edges[place as usize], key.key);
            key.ranks = rank..rank;
            return None;
        }
        let each = index.step * here.block_elements;
        let from = number * each;
        // The element at `from` counts, and the next one of the index does not.
        key.ranks = here.first_rank + from + 1..here.first_rank + here.count.min(from + each);
        let word = |element: &[u8]| self.order.word(element, 0);
        let next = (number + 1 < index.kept(here)).then(|| word(index.first(place + number + 1)));
        key.words = (Some(word(index.first(place + number))), next);
        Some((stretch, number))
    }

    /// Finds all ranks by one read for each block that contains one; returns the bytes read.
    pub(super) fn find_by(&self, index: &Index, wanted: &mut [Wanted<'_>]) -> Result<u64> {
        self.job.control.check()?;
        // The number of a block, its first rank, and the key for which the block is read.
        let mut asked: Vec<(u64, u64, usize)> = Vec::new();
        for (place, key) in wanted.iter_mut().enumerate() {
            if let Some((stretch, number)) = self.narrow_by(index, key) {
                let here = &self.stretches[stretch];
                let first_rank = here.first_rank + number * here.block_elements;
                asked.push((index.numbers[stretch] + number, first_rank, place));
            }
        }
        if index.step > 1 {
            return self.find(wanted);
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
                let cause = format!(
                    "a block of {} does not begin with the element that the index has for it",
                    path().display()
                );
                return Err(Error::usage(LOOKUP, cause).path(&index.path).hint(AGAIN));
            }
            let from = asked.partition_point(|(asked, ..)| *asked < number);
            let here = asked[from..].iter();
            for &(_, first_rank, place) in here.take_while(|(asked, ..)| *asked == number) {
                ranks.push((place, first_rank + self.rank_in(block, known[place].key)));
            }
            Ok(())
        };
        let (ranks, done) =
            gather_each(self.job, &inputs[..], block_bytes, &blocks, Vec::new, find)?;
        for (place, rank) in ranks.into_iter().flatten() {
            wanted[place].ranks = rank..rank;
        }
        Ok(done.read_bytes)
    }
}
