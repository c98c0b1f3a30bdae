//! Checks of a stream of records: order, count, duplicate keys, and a checksum of the multiset.
//!
//! Contract: a [`Checker`] sees consecutive records once, in pieces of any length, with O(1)
//! memory. Checkers of consecutive pieces of a stream merge exactly into the checker of the whole,
//! so threads can share a file. A record is unordered if its key is smaller than the key of the
//! record before it, as in valsort. Options also count ties in the wrong byte order, or equal keys,
//! as unordered. The checksum is the 128-bit sum of a hash of every record, so it does not depend
//! on their order. Two files with the same count and checksum hold the same records, except with a
//! probability of 2^-64. For gensort records the hash is zlib's CRC-32, which gives the checksums
//! of sortbenchmark.org; for all others it is XXH3-64.
//!
//! N.B. the finalizer of splitmix64 is faster on records of 8 bytes. XXH3 still keeps up with the
//! drives. It is one definition for records of every size, and other programs can compute it
//! (docs/decisions/0022).

use std::cmp::Ordering;
use std::fmt::Write;

use twox_hash::XxHash3_64;

use super::order::{Order, OrderOptions};
use super::record::RecordFormat;
use super::sort_key::Tie;
use outcore_io::{Error, Result, units};

/// Records compared at a time: their first words fit in the first-level cache.
const BATCH: usize = 512;

/// Number and checksum of items, independent of their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartTotals {
    /// Number of items.
    pub items: u64,
    /// Sum of the hashes of all items.
    pub checksum: u128,
}

impl PartTotals {
    /// Adds the items of another part, or one item with its hash.
    pub fn add(&mut self, other: PartTotals) {
        self.items += other.items;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    /// The totals of one line without its terminator.
    pub fn of_line(line: &[u8]) -> Self {
        PartTotals {
            items: 1,
            checksum: XxHash3_64::oneshot(line).into(),
        }
    }
}

/// Which records count as unordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// The order is reversed.
    pub descending: bool,
    /// Records with equal keys must also be in byte order, as the sort writes them by default.
    pub ties: bool,
    /// Equal keys are also unordered: for the output of `--unique`.
    pub unique: bool,
    /// Only count and checksum, for unordered data.
    pub unordered: bool,
    /// No checksum.
    pub order_only: bool,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Number of records.
    pub records: u64,
    /// Records that may not follow the record before them.
    pub unordered: u64,
    /// Number of the first unordered record, counted from 0.
    pub first_unordered: Option<u64>,
    /// Records whose key equals the key of the record before.
    pub duplicate_keys: u64,
    /// Sum of the hashes of all records.
    pub checksum: u128,
}

impl CheckReport {
    /// Number and checksum of the records.
    pub(crate) fn totals(&self) -> PartTotals {
        PartTotals {
            items: self.records,
            checksum: self.checksum,
        }
    }

    /// True if no record is unordered.
    pub fn is_ordered(&self) -> bool {
        self.unordered == 0
    }

    /// True if both saw the same records, in any order.
    pub fn has_records_of(&self, other: &CheckReport) -> bool {
        self.records == other.records && self.checksum == other.checksum
    }

    /// The lines that valsort 1.5 prints to stderr.
    pub fn valsort_text(&self) -> String {
        let mut text = String::new();
        if self.records == 0 {
            return "there must be at least one record to be validated\n".to_string();
        }
        if let Some(first) = self.first_unordered {
            line(
                &mut text,
                format_args!("First unordered record is record {first}"),
            );
        }
        line(&mut text, format_args!("Records: {}", self.records));
        line(&mut text, format_args!("Checksum: {:x}", self.checksum));
        if self.is_ordered() {
            line(
                &mut text,
                format_args!("Duplicate keys: {}", self.duplicate_keys),
            );
            line(
                &mut text,
                format_args!("SUCCESS - all records are in order"),
            );
        } else {
            line(
                &mut text,
                format_args!("ERROR - there are {} unordered records", self.unordered),
            );
        }
        text
    }

    /// The exit code of valsort: 0 if there are records and all are in order, otherwise 1.
    pub fn valsort_exit_code(&self) -> u8 {
        u8::from(self.records == 0 || !self.is_ordered())
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    writeln!(text, "{arguments}").unwrap_or_default();
}

/// Checks consecutive records; see the file's contract.
#[derive(Debug, Clone)]
pub struct Checker {
    order: Order,
    options: CheckOptions,
    is_gensort: bool,
    /// Whether some comparisons need more than one word.
    is_deep: bool,
    report: CheckReport,
    first: Vec<u8>,
    last: Vec<u8>,
    /// The beginning of a record whose end has not arrived yet.
    partial: Vec<u8>,
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new(format: &RecordFormat, options: CheckOptions) -> Self {
        let order_options = OrderOptions {
            descending: options.descending,
            tie: Tie::Bytes,
        };
        let order = Order::new(format, order_options);
        let is_deep = order.key_words() > 1 || options.ties && !order.covers_record();
        Checker {
            order,
            options,
            is_gensort: format.is_gensort(),
            is_deep,
            report: CheckReport::default(),
            first: Vec::new(),
            last: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Number and checksum of whole records.
    pub(crate) fn totals_of(&self, records: &[u8]) -> PartTotals {
        PartTotals {
            items: (records.len() / self.order.record_bytes()) as u64,
            checksum: self.checksum_of(records),
        }
    }

    /// Its options.
    pub(crate) fn options(&self) -> CheckOptions {
        self.options
    }

    /// The result so far.
    pub fn report(&self) -> CheckReport {
        self.report
    }

    /// Checks the next bytes; records may be split anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let record_bytes = self.order.record_bytes();
        if !self.partial.is_empty() {
            let missing_bytes = (record_bytes - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..missing_bytes]);
            bytes = &bytes[missing_bytes..];
            if self.partial.len() < record_bytes {
                return;
            }
            let record = std::mem::take(&mut self.partial);
            self.push_records(&record);
        }
        let whole_bytes = bytes.len() - bytes.len() % record_bytes;
        self.push_records(&bytes[..whole_bytes]);
        self.partial.extend_from_slice(&bytes[whole_bytes..]);
    }

    /// Takes the next whole records, whose keys are known to be in order: only the first is
    /// compared with the record before it. For checks of the order alone.
    pub(crate) fn push_ordered(&mut self, records: &[u8]) {
        let record_bytes = self.order.record_bytes();
        let Some(last_at) = records.len().checked_sub(record_bytes) else {
            return;
        };
        self.push_records(&records[..record_bytes]);
        self.report.records += (last_at / record_bytes) as u64;
        self.last.clear();
        self.last.extend_from_slice(&records[last_at..]);
    }

    /// The report for a stream that has ended.
    ///
    /// Errors (corrupt): the stream ended inside a record.
    pub fn finish(self) -> Result<CheckReport> {
        if self.partial.is_empty() {
            return Ok(self.report);
        }
        let cause = format!(
            "the data ends inside a record: {} of {} after {}",
            self.partial.len(),
            units::counted(self.order.record_bytes() as u64, "byte"),
            units::counted(self.report.records, "record")
        );
        Err(Error::corrupt("check records", cause)
            .hint("check the type, or whether the file is complete"))
    }

    /// Adds the report of `next`, a checker with the same format and options. It saw the records
    /// that directly follow those of this one. Panics if this one stopped inside a record.
    pub fn merge(&mut self, next: &Checker) {
        assert!(self.partial.is_empty(), "pieces end with a record");
        assert_eq!(self.options, next.options, "checkers of one stream");
        if next.report.records > 0 {
            if self.report.records == 0 {
                self.first.clone_from(&next.first);
            } else if !self.options.unordered {
                self.judge(self.relation(&self.last, &next.first), self.report.records);
            }
            self.last.clone_from(&next.last);
        }
        let (here, there) = (&mut self.report, &next.report);
        let first_there = there.first_unordered.map(|first| here.records + first);
        here.first_unordered = here.first_unordered.or(first_there);
        here.unordered += there.unordered;
        here.duplicate_keys += there.duplicate_keys;
        here.checksum = here.checksum.wrapping_add(there.checksum);
        here.records += there.records;
        self.partial.clone_from(&next.partial);
    }

    fn push_records(&mut self, records: &[u8]) {
        let record_bytes = self.order.record_bytes();
        let Some(start) = records.len().checked_sub(record_bytes) else {
            return;
        };
        for batch in records.chunks(BATCH * record_bytes) {
            if !self.options.order_only {
                let sum = self.checksum_of(batch);
                self.report.checksum = self.report.checksum.wrapping_add(sum);
            }
            if !self.options.unordered {
                self.check_order(batch);
            }
            if self.report.records == 0 {
                self.first.extend_from_slice(&batch[..record_bytes]);
            }
            self.report.records += (batch.len() / record_bytes) as u64;
            self.last.clear();
            self.last
                .extend_from_slice(&batch[batch.len() - record_bytes..]);
        }
        debug_assert_eq!(self.last, records[start..]);
    }

    /// The sum of the hashes of whole records.
    fn checksum_of(&self, records: &[u8]) -> u128 {
        let record_bytes = self.order.record_bytes();
        match record_bytes {
            // A length known to the compiler keeps the hash of small records inline.
            4 => sum_hashes(records.as_chunks::<4>().0),
            8 => sum_hashes(records.as_chunks::<8>().0),
            16 => sum_hashes(records.as_chunks::<16>().0),
            _ if self.is_gensort => records
                .chunks_exact(record_bytes)
                .map(|record| u128::from(crc32fast::hash(record)))
                .sum(),
            _ => records
                .chunks_exact(record_bytes)
                .map(|record| u128::from(XxHash3_64::oneshot(record)))
                .sum(),
        }
    }

    /// Compares the first words of adjacent records without branches; checks a pair again only if
    /// these words are not enough.
    fn check_order(&mut self, records: &[u8]) {
        let record_bytes = self.order.record_bytes();
        let count = records.len() / record_bytes;
        let mask = self.order.key_mask(0);
        let mut words = [0; BATCH + 1];
        // The very first record is compared with itself; its result is corrected below.
        let has_before = self.report.records > 0;
        let before = if has_before {
            self.last.as_slice()
        } else {
            &records[..record_bytes]
        };
        words[0] = self.order.word(before, 0) & mask;
        self.order.each_word(records, 0, |index, word| {
            if let Some(slot) = words.get_mut(index + 1) {
                *slot = word & mask;
            }
        });
        let words = &words[..=count];
        let (mut smaller, mut equal) = (0_u64, 0_u64);
        for (before, after) in words.iter().zip(&words[1..]) {
            smaller += u64::from(after < before);
            equal += u64::from(after == before);
        }
        equal -= u64::from(!has_before);
        let is_settled = equal == 0 || !self.is_deep && !self.options.unique;
        let is_first_known = smaller == 0 || self.report.first_unordered.is_some();
        if is_settled && is_first_known {
            self.report.unordered += smaller;
            self.report.duplicate_keys += equal;
            return;
        }
        for index in usize::from(!has_before)..count {
            let ordering = words[index].cmp(&words[index + 1]);
            let relation = if ordering.is_eq() && self.is_deep {
                let start = index * record_bytes;
                let after = &records[start..start + record_bytes];
                let before = match index {
                    0 => self.last.as_slice(),
                    _ => &records[start - record_bytes..start],
                };
                self.relation(before, after)
            } else {
                Relation {
                    keys: ordering,
                    ties: Ordering::Equal,
                }
            };
            self.judge(relation, self.report.records + index as u64);
        }
    }

    fn relation(&self, before: &[u8], after: &[u8]) -> Relation {
        let keys = self.order.compare_keys(before, after);
        let must_compare = self.options.ties && keys.is_eq();
        let ties = if must_compare {
            self.order.compare(before, after)
        } else {
            Ordering::Equal
        };
        Relation { keys, ties }
    }

    /// Counts record number `record`, which has this relation to the previous one.
    fn judge(&mut self, relation: Relation, record: u64) {
        let is_duplicate = relation.keys.is_eq();
        self.report.duplicate_keys += u64::from(is_duplicate);
        let is_unordered =
            relation.keys.is_gt() || is_duplicate && (relation.ties.is_gt() || self.options.unique);
        if is_unordered {
            self.report.unordered += 1;
            self.report.first_unordered.get_or_insert(record);
        }
    }
}

/// The order of a record and its successor.
#[derive(Debug, Clone, Copy)]
struct Relation {
    keys: Ordering,
    /// The order of the bytes, if ties count and the keys are equal.
    ties: Ordering,
}

#[inline(always)]
fn sum_hashes<const N: usize>(records: &[[u8; N]]) -> u128 {
    records
        .iter()
        .map(|record| u128::from(XxHash3_64::oneshot(record)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::any_format;
    use super::*;
    use proptest::prelude::*;

    fn check(format: &RecordFormat, options: CheckOptions, bytes: &[u8]) -> CheckReport {
        let mut checker = Checker::new(format, options);
        checker.push(bytes);
        checker.finish().unwrap()
    }

    #[test]
    fn equal_keys_are_unordered_where_keys_must_be_unique_and_ties_where_bytes_count() {
        let format = RecordFormat::parse_type("2/0:1").unwrap();
        let records = [1, 5, 1, 3, 2, 0];
        let report = |ties, unique| {
            let options = CheckOptions {
                ties,
                unique,
                ..Default::default()
            };
            let report = check(&format, options, &records);
            (
                report.unordered,
                report.first_unordered,
                report.duplicate_keys,
            )
        };
        assert_eq!(report(false, false), (0, None, 1));
        assert_eq!(report(true, false), (1, Some(1), 1));
        assert_eq!(report(false, true), (1, Some(1), 1));
        assert_eq!(report(true, true), (1, Some(1), 1));
    }

    #[test]
    fn data_that_ends_inside_a_record_is_corrupt() {
        let mut checker = Checker::new(&RecordFormat::gensort(), CheckOptions::default());
        checker.push(&[0; 250]);
        let error = checker.finish().unwrap_err();
        assert_eq!(error.kind(), outcore_io::Kind::Corrupt);
        assert!(
            error
                .to_string()
                .contains("50 of 100 bytes after 2 records"),
            "{error}"
        );
    }

    #[test]
    fn the_checksum_is_the_sum_of_the_records_xxh3() {
        let format = RecordFormat::parse_type("bytes3").unwrap();
        let report = check(&format, CheckOptions::default(), b"abcabc");
        assert_eq!(report.checksum, 2 * 0x78AF_5F94_892F_3950);
    }

    /// The report by its definition, one comparison at a time.
    fn naive(format: &RecordFormat, options: CheckOptions, bytes: &[u8]) -> CheckReport {
        let order_options = OrderOptions {
            descending: options.descending,
            tie: Tie::Bytes,
        };
        let order = Order::new(format, order_options);
        let records: Vec<&[u8]> = bytes.chunks(format.record_bytes()).collect();
        let mut report = CheckReport {
            records: records.len() as u64,
            ..Default::default()
        };
        for record in &records {
            report.checksum += match format.is_gensort() {
                true => u128::from(crc32fast::hash(record)),
                false => u128::from(XxHash3_64::oneshot(record)),
            };
        }
        for (index, pair) in records
            .windows(2)
            .enumerate()
            .filter(|_| !options.unordered)
        {
            let keys = order.compare_keys(pair[0], pair[1]);
            report.duplicate_keys += u64::from(keys.is_eq());
            let is_tied = keys.is_eq() && options.ties && order.compare(pair[0], pair[1]).is_gt();
            if keys.is_gt() || is_tied || keys.is_eq() && options.unique {
                report.unordered += 1;
                report.first_unordered.get_or_insert(index as u64 + 1);
            }
        }
        report
    }

    fn any_options() -> impl Strategy<Value = CheckOptions> {
        (any::<(bool, bool, bool)>(), 0..8).prop_map(|((descending, ties, unique), rare)| {
            CheckOptions {
                descending,
                ties,
                unique,
                unordered: rare == 0,
                order_only: false,
            }
        })
    }

    /// Records of `kinds` kinds; records of one kind are equal, except that a few differ in their
    /// last byte.
    fn few_kinds(record_bytes: usize, count: usize, seed: u64, kinds: u64) -> Vec<u8> {
        let hash = |number: u64| XxHash3_64::oneshot_with_seed(seed, &number.to_le_bytes());
        let mut bytes = Vec::with_capacity(count * record_bytes);
        for record in 0..count as u64 {
            let kind = hash(record) % kinds;
            bytes.extend((0..record_bytes as u64).map(|byte| hash(kind << 32 | byte) as u8));
            if let (true, Some(last)) = (hash(record) >> 61 == 0, bytes.last_mut()) {
                *last = record as u8;
            }
        }
        bytes
    }

    /// Records that are sorted, or nearly so, or not at all.
    fn any_stream() -> impl Strategy<Value = (RecordFormat, CheckOptions, Vec<u8>)> {
        let format = prop_oneof![any_format(), Just(RecordFormat::gensort())];
        (
            format,
            any_options(),
            any::<u64>(),
            0usize..1500,
            0..4,
            1u64..60,
        )
            .prop_map(|(format, options, seed, count, disorder, kinds)| {
                let record_bytes = format.record_bytes();
                let bytes = few_kinds(record_bytes, count, seed, kinds);
                let order_options = OrderOptions {
                    descending: options.descending,
                    tie: Tie::Bytes,
                };
                let order = Order::new(&format, order_options);
                let mut records: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
                match disorder {
                    0 => {}
                    1 => records.sort_by(|a, b| order.compare_keys(a, b)),
                    _ => records.sort_by(|a, b| order.compare(a, b)),
                }
                if disorder == 2 && count > 1 {
                    records.swap(seed as usize % count, (seed >> 32) as usize % count);
                }
                let bytes = records.concat();
                (format, options, bytes)
            })
    }

    proptest! {
        #[test]
        fn a_stream_in_any_pieces_gets_the_naive_report(
            (format, options, bytes) in any_stream(), cuts in proptest::collection::vec(any::<usize>(), 0..6),
        ) {
            let wanted = naive(&format, options, &bytes);
            prop_assert_eq!(check(&format, options, &bytes), wanted);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            ends.sort_unstable();
            ends.push(bytes.len());
            let mut checker = Checker::new(&format, options);
            let mut start = 0;
            for end in ends {
                checker.push(&bytes[start..end]);
                start = end;
            }
            prop_assert_eq!(checker.finish().unwrap(), wanted);
        }

        #[test]
        fn merged_checkers_report_what_one_would(
            (format, options, bytes) in any_stream(), cuts in proptest::collection::vec(any::<usize>(), 0..6),
        ) {
            let record_bytes = format.record_bytes();
            let count = bytes.len() / record_bytes;
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (count + 1)).collect();
            ends.sort_unstable();
            ends.push(count);
            let mut merged = Checker::new(&format, options);
            let mut start = 0;
            for end in ends {
                let mut checker = Checker::new(&format, options);
                checker.push(&bytes[start * record_bytes..end * record_bytes]);
                merged.merge(&checker);
                start = end;
            }
            prop_assert_eq!(merged.report(), naive(&format, options, &bytes));
            prop_assert_eq!(merged.first.as_slice(), bytes.chunks(record_bytes).next().unwrap_or_default());
            prop_assert_eq!(merged.last.as_slice(), bytes.chunks(record_bytes).last().unwrap_or_default());
        }
    }
}
