//! FASTQ: a part of each record as a key.
//!
//! Contract: [`FastqOrder`] orders records by name, sequence and quality as bytes, and by the
//! length of the sequence as a number. Without keys it orders by name. A record without its last
//! line end has a key; any other incomplete record has none.

use outcore::key::column::listed;
use outcore::key::encode::{append_string, complement};
use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::read::fastq::Record;
use outcore::{Error, Result};

use super::{FieldOrder, append_whole};

/// A part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Sequence,
    Quality,
    Length,
}

impl Part {
    fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "name" => Part::Name,
            "sequence" => Part::Sequence,
            "quality" => Part::Quality,
            "length" => Part::Length,
            other => {
                let cause = format!("`{other}` is not a key of FASTQ");
                return Err(Error::usage("read key", cause).hint(
                    "name a part of the record: name, sequence, quality or length, \
                     with :desc for the largest first",
                ));
            }
        })
    }

    /// Appends the key of this part; `None` if the record has none.
    fn append(self, record: Record<'_>, key: &mut Vec<u8>) -> Option<()> {
        match self {
            Part::Name => append_string(record.name()?, key),
            Part::Sequence => append_string(record.sequence()?, key),
            Part::Quality => append_string(record.quality()?, key),
            Part::Length => {
                let letters = record.sequence()?.len() as u64;
                key.extend_from_slice(&letters.to_be_bytes());
            }
        }
        Some(())
    }
}

/// A part to sort by.
#[derive(Debug, Clone, Copy)]
struct Field {
    part: Part,
    /// Whether its direction is opposite to that of the order as a whole.
    is_turned: bool,
}

/// Records in the order of their parts.
#[derive(Debug)]
pub struct FastqOrder {
    fields: Vec<Field>,
    is_descending: bool,
    tie: Tie,
}

impl FastqOrder {
    /// Creates the order by `keys`, lists separated by commas; without any, by name. A key may end
    /// with `:desc` or `:asc`; `reverse` applies to keys without a direction. Ties keep the order
    /// of the input if `is_stable`.
    ///
    /// # Errors
    /// Usage for a part that records do not have.
    pub fn new(keys: &[String], reverse: bool, is_stable: bool) -> Result<Self> {
        let mut fields = Vec::new();
        for text in keys.iter().flat_map(|list| listed(list)) {
            let (mut rest, mut order) = (text, FieldOrder::default());
            while let Some((front, word)) = rest.rsplit_once(':')
                && matches!(word, "asc" | "desc")
                && order.take(word, text)?
            {
                rest = front;
            }
            fields.push(Field {
                part: Part::parse(rest)?,
                is_turned: order.is_descending.unwrap_or(reverse),
            });
        }
        if fields.is_empty() {
            fields.push(Field {
                part: Part::Name,
                is_turned: reverse,
            });
        }
        let is_descending = fields.first().is_some_and(|first| first.is_turned);
        for field in &mut fields {
            field.is_turned = field.is_turned != is_descending;
        }
        Ok(FastqOrder {
            fields,
            is_descending,
            tie: Tie::of(is_stable, reverse),
        })
    }
}

impl SortKey for FastqOrder {
    fn append_key(&self, item: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        append_whole(key, |key| {
            for field in &self.fields {
                let start = key.len();
                let appended = field.part.append(Record(item), key);
                appended.ok_or_else(|| NoKey("it is not a record of FASTQ".to_owned()))?;
                if field.is_turned {
                    complement(&mut key[start..]);
                }
            }
            Ok(())
        })
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{self, Equal, Greater, Less};

    use outcore::key::sort_key::compare_items;

    use super::*;

    const A: &[u8] = b"@r1 x\nACGT\n+\nIIII";
    const B: &[u8] = b"@r2\tx\r\nACG\r\n+\r\nJJJ\r";
    const C: &[u8] = b"@r1\nAC\n+\nII";

    fn compared(by: &[&str], is_stable: bool, a: &[u8], b: &[u8]) -> Ordering {
        let by: Vec<String> = by.iter().map(|key| (*key).to_owned()).collect();
        let order = FastqOrder::new(&by, false, is_stable).unwrap();
        compare_items(&order, a, b).unwrap()
    }

    #[test]
    fn records_are_ordered_by_their_parts() {
        assert_eq!(compared(&[], true, A, B), Less);
        assert_eq!(compared(&[], true, A, C), Equal);
        assert_eq!(compared(&[], false, A, C), Greater);
        assert_eq!(compared(&["sequence"], true, A, B), Greater);
        assert_eq!(compared(&["quality:desc"], true, A, B), Greater);
        assert_eq!(compared(&["length"], true, A, B), Greater);
        assert_eq!(compared(&["length:desc"], true, A, B), Less);
        assert_eq!(compared(&["name,length:desc"], true, A, C), Less);
        assert_eq!(compared(&["name:desc", "length:desc"], true, A, C), Less);
        assert_eq!(compared(&["name:desc,length"], true, A, C), Greater);
    }

    #[test]
    fn what_a_record_does_not_have_is_no_key() {
        for by in ["price", "name:nulls-first", "length:u64", ""] {
            let error = FastqOrder::new(&[by.to_owned()], false, true).unwrap_err();
            assert!(error.next_step().unwrap().contains("sequence"), "{by}");
        }
    }
}
