//! Parts for other machines: routes records and lines to parts by key range or at random.
//!
//! Contract: a route assigns each item to one of a known number of parts and depends only on the
//! item, or only on the seed and the item's position. So every machine makes the same choice.
//! - Splitters are items of the input's kind, in ascending order. An item goes to the part after
//!   the last splitter whose key is not greater. So items with equal keys share a part, and the
//!   parts in order hold the keys in order.
//! - At random, each part is equally likely, and independent of all other items.
//!
//! [`PartTotals`] are independent of the order of items. The totals of all parts add up to those of
//! the whole. The hash is that of [`verify`](crate::verify), so a driver can check that nothing was
//! lost between machines.
//!
//! Source: sample sort (Frazer, McKellar 1970), as in Exoshuffle (Luan et al., SIGCOMM 2023), whose
//! first stage this is.
//!
//! Bounds: O(log parts) comparisons per item. The splitters stay in memory.

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use twox_hash::XxHash3_64;

use super::distribute::{BucketFiles, distribute_seen};
use super::summary::Summary;
use super::table::Table;
use crate::job::Job;
use crate::key::RecordFormat;
pub use crate::key::check::PartTotals;
use crate::key::check::{CheckOptions, Checker};
use crate::key::order::{Order, OrderOptions};
use crate::key::sort_key::{NoKey, SortKey, Tie};
use outcore_io::{Error, Result};

const ROUTE: &str = "route to parts";
/// Records whose words stay in the first-level cache.
const BATCH: usize = 512;
/// Up to this many splitters are compared with all words of a batch; more are searched.
const COMPARED_MAX: usize = 12;

/// One of `parts` parts, at random, for the item at `position` of its input.
pub fn random_part(seed: u64, position: u64, parts: usize) -> usize {
    let drawn = XxHash3_64::oneshot_with_seed(seed, &position.to_le_bytes());
    ((u128::from(drawn) * parts as u128) >> 64) as usize
}

fn unordered(splitter: usize) -> Error {
    let cause = format!("splitter {splitter}, counted from 0, is smaller than the one before it");
    Error::usage(ROUTE, cause).hint("sort the splitters with the options of this job")
}

/// Key ranges of records.
#[derive(Debug)]
pub struct RecordRanges {
    order: Order,
    /// The first word of each splitter's key.
    words: Vec<u64>,
    splitters: Vec<Vec<u8>>,
    /// Whether the first word decides every comparison.
    is_short: bool,
}

impl RecordRanges {
    /// Ranges between `splitters`, whole records in ascending order.
    ///
    /// # Errors
    /// Usage: records without an order; splitters of another length or in another order.
    pub fn new(format: &RecordFormat, splitters: Vec<Vec<u8>>) -> Result<Self> {
        format.check_order()?;
        let options = OrderOptions {
            descending: false,
            tie: Tie::Bytes,
        };
        let order = Order::new(format, options);
        if let Some(other) = splitters
            .iter()
            .find(|splitter| splitter.len() != order.record_bytes())
        {
            let cause = format!(
                "a splitter has {} bytes, but a record {}",
                other.len(),
                order.record_bytes()
            );
            return Err(
                Error::usage(ROUTE, cause).hint("splitters are records of the input's type")
            );
        }
        let mut pairs = (1..).zip(splitters.windows(2));
        if let Some((number, _)) =
            pairs.find(|(_, pair)| order.compare_keys(&pair[0], &pair[1]) == Ordering::Greater)
        {
            return Err(unordered(number));
        }
        let first_word = |splitter: &Vec<u8>| order.word(splitter, 0) & order.key_mask(0);
        Ok(RecordRanges {
            words: splitters.iter().map(first_word).collect(),
            is_short: order.key_words() == 1,
            splitters,
            order,
        })
    }

    /// Appends the part of each record.
    fn parts_of(&self, records: &[u8], into: &mut Vec<u32>) {
        let mask = self.order.key_mask(0);
        let record_bytes = self.order.record_bytes();
        let first = into.len();
        into.resize(first + records.len() / record_bytes, 0);
        let batches = records.chunks(BATCH * record_bytes);
        for (batch, parts) in batches.zip(into[first..].chunks_mut(BATCH)) {
            let mut words = [0; BATCH];
            let words = &mut words[..parts.len()];
            self.order.fill_words(batch, 0, words);
            words.iter_mut().for_each(|word| *word &= mask);
            self.count_below(words, parts);
        }
        if self.is_short {
            return;
        }
        let records = records.chunks_exact(record_bytes);
        for (part, record) in into[first..].iter_mut().zip(records) {
            *part = self.part_of(record, *part as usize) as u32;
        }
    }

    /// Sets each of `parts` to the number of splitters whose first word is at most the word in the
    /// same place.
    fn count_below(&self, words: &[u64], parts: &mut [u32]) {
        if self.words.len() <= COMPARED_MAX {
            // Compares one splitter with many words at a time: the steps are independent and have
            // no branches.
            for splitter in &self.words {
                for (part, word) in parts.iter_mut().zip(words) {
                    *part += u32::from(*splitter <= *word);
                }
            }
            return;
        }
        for (part, word) in parts.iter_mut().zip(words) {
            *part = self.words.partition_point(|splitter| splitter <= word) as u32;
        }
    }

    /// The part of a record; `end` splitters have a first word that is not greater.
    fn part_of(&self, record: &[u8], end: usize) -> usize {
        let word = self.order.word(record, 0) & self.order.key_mask(0);
        let start = self.words.partition_point(|splitter| *splitter < word);
        let is_below =
            |splitter: &Vec<u8>| self.order.compare_keys(splitter, record) != Ordering::Greater;
        start + self.splitters[start..end].partition_point(is_below)
    }
}

/// Assigns records to parts.
#[derive(Debug)]
pub enum RecordRoute {
    /// By the range of their key.
    Ranges(RecordRanges),
    /// At random, by their position.
    Random {
        /// The seed.
        seed: u64,
    },
}

/// Writes each record of `table` to the part that `route` assigns to it. Returns the totals of the
/// parts.
///
/// # Errors
/// The errors of [`distribute`](super::distribute()). Usage: files and ranges differ in number.
pub(crate) fn route_records(
    job: &Job,
    table: &Table,
    route: &RecordRoute,
    files: &BucketFiles,
) -> Result<(Vec<PartTotals>, Summary)> {
    let parts = files.paths.len();
    if let RecordRoute::Ranges(ranges) = route
        && ranges.words.len() + 1 != parts
    {
        let cause = format!("{} splitters for {parts} files", ranges.words.len());
        return Err(Error::usage(ROUTE, cause).hint("give one more file than there are splitters"));
    }
    let options = CheckOptions {
        unordered: true,
        ..CheckOptions::default()
    };
    let item_bytes = table.format().record_bytes();
    let checker = Checker::new(table.format(), options);
    let totals = Mutex::new(vec![PartTotals::default(); parts]);
    let buckets_of = |first: u64, items: &[u8], into: &mut Vec<u32>| {
        match route {
            RecordRoute::Ranges(ranges) => ranges.parts_of(items, into),
            RecordRoute::Random { seed } => {
                let positions = first..first + (items.len() / item_bytes) as u64;
                into.extend(positions.map(|position| random_part(*seed, position, parts) as u32));
            }
        }
        Ok(())
    };
    // The items of a part are together here, and in the cache.
    let see = |part: usize, items: &[u8]| {
        let found = checker.totals_of(items);
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals[part].add(found);
    };
    let (_, done) = distribute_seen(job, table, &buckets_of, &see, files)?;
    let totals = totals.into_inner();
    Ok((totals.unwrap_or_else(PoisonError::into_inner), done))
}

/// Key ranges of lines, or of other items with a [`SortKey`].
pub struct LineRanges<'a> {
    order: &'a dyn SortKey,
    /// The keys of the splitters.
    keys: Vec<Vec<u8>>,
}

impl<'a> LineRanges<'a> {
    /// Ranges between `splitters`, lines in ascending order.
    ///
    /// # Errors
    /// Usage: a splitter without a key, or splitters in another order.
    pub fn new(order: &'a dyn SortKey, splitters: &[Vec<u8>]) -> Result<Self> {
        let mut keys = Vec::with_capacity(splitters.len());
        for splitter in splitters {
            let mut key = Vec::new();
            order.append_key(splitter, &mut key).map_err(|NoKey(why)| {
                Error::usage(ROUTE, format!("a splitter has no key: {why}"))
                    .hint("splitters are lines of the input")
            })?;
            keys.push(key);
        }
        let ranges = LineRanges { order, keys };
        let mut pairs = (1..).zip(ranges.keys.windows(2));
        match pairs.find(|(_, pair)| !ranges.is_in_order(&pair[0], &pair[1])) {
            Some((number, _)) => Err(unordered(number)),
            None => Ok(ranges),
        }
    }

    fn is_in_order(&self, before: &[u8], after: &[u8]) -> bool {
        match self.order.is_descending() {
            true => before >= after,
            false => before <= after,
        }
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        self.keys.len() + 1
    }

    /// The part of a line; `key` is overwritten.
    ///
    /// # Errors
    /// The line has no key.
    pub fn part_of(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<usize, NoKey> {
        key.clear();
        let key: &[u8] = match self.order.is_item() {
            true => line,
            false => {
                self.order.append_key(line, key)?;
                key
            }
        };
        let is_below = |splitter: &Vec<u8>| self.is_in_order(splitter, key);
        Ok(self.keys.partition_point(is_below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::sort_key::ByteOrder;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_follows_the_last_splitter_that_is_not_greater(
            mut splitters in proptest::collection::vec(0u64..50, 0..60), value in 0u64..50,
            is_big_endian: bool,
        ) {
            splitters.sort_unstable();
            let (name, bytes): (_, fn(u64) -> Vec<u8>) = match is_big_endian {
                true => ("u64be", |value| value.to_be_bytes().to_vec()),
                false => ("u64", |value| value.to_le_bytes().to_vec()),
            };
            let format = RecordFormat::parse_type(name).unwrap();
            let records = splitters.iter().map(|value| bytes(*value)).collect();
            let ranges = RecordRanges::new(&format, records).unwrap();
            let wanted = splitters.iter().filter(|splitter| **splitter <= value).count();
            let mut parts = Vec::new();
            ranges.parts_of(&bytes(value), &mut parts);
            prop_assert_eq!(parts, [wanted as u32]);
        }

        #[test]
        fn long_keys_compare_as_a_whole(
            mut splitters in proptest::collection::vec(
                proptest::collection::vec(0u8..3, 20), 0..40),
            record in proptest::collection::vec(0u8..3, 20),
        ) {
            splitters.sort_unstable();
            let format = RecordFormat::parse_type("bytes20").unwrap();
            let wanted = splitters.iter().filter(|splitter| **splitter <= record).count();
            let ranges = RecordRanges::new(&format, splitters.clone()).unwrap();
            let mut parts = Vec::new();
            ranges.parts_of(&[&record[..], &record[..]].concat(), &mut parts);
            prop_assert_eq!(parts, [wanted as u32; 2]);
            let lines = LineRanges::new(&ByteOrder, &splitters).unwrap();
            prop_assert_eq!(lines.part_of(&record, &mut Vec::new()).unwrap(), wanted);
        }
    }

    #[test]
    fn random_parts_are_about_equally_likely() {
        let mut counts = [0_u32; 7];
        (0..70_000).for_each(|position| counts[random_part(3, position, 7)] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)));
        assert_ne!(
            (0..64).map(|at| random_part(1, at, 2)).collect::<Vec<_>>(),
            (0..64).map(|at| random_part(2, at, 2)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn splitters_out_of_order_are_rejected() {
        let format = RecordFormat::parse_type("u8").unwrap();
        let error = RecordRanges::new(&format, vec![vec![3], vec![2]]).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Usage);
        let lines = [b"b".to_vec(), b"a".to_vec()];
        assert!(LineRanges::new(&ByteOrder, &lines).is_err());
    }
}
