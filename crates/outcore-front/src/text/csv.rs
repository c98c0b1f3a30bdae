//! CSV: records that may span lines, and a column of them as a key.
//!
//! Contract: records and fields are those of [`outcore::read::csv`]. [`Columns`] orders records by columns. Records are
//! never changed, only their keys are read without quotes.

use outcore::key::sort_key::{NoKey, SortKey, Tie};
use outcore::read::csv::{fields, value};
use outcore::{Error, Result};

use super::gnu::{Compare, OptionScope, Ordering};

pub(crate) use outcore::read::csv::BYTE_ORDER_MARK;
pub use outcore::read::csv::Framer;

const CHOOSE: &str = "choose column";

/// The columns that a header names; a byte order mark in front belongs to none.
///
/// # Errors
/// Usage for a header with a quote that does not end.
pub fn names(header: &[u8], separator: u8) -> Result<Vec<String>> {
    let header = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let header = header.strip_suffix(b"\n").unwrap_or(header);
    let name = |field: &[u8]| {
        let mut unquoted = Vec::new();
        value(field, &mut unquoted)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .ok_or_else(|| {
                Error::usage("read header", open_quote().0).hint("correct the first line")
            })
    };
    fields(header, separator).map(name).collect()
}

fn open_quote() -> NoKey {
    NoKey("a quote does not end".to_string())
}

/// A column to order by, and how.
#[derive(Debug)]
struct Column {
    index: usize,
    compare: Compare,
}

/// Records in the order of columns; without any, in that of their bytes.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    separator: u8,
    is_descending: bool,
    tie: Tie,
}

/// How columns are chosen.
#[derive(Debug, Clone)]
pub struct ColumnOptions<'a> {
    /// `NAME`, or a number from 1, each with `:OPTS` behind it if it has letters of its own.
    pub by: &'a [String],
    /// The names in the header; none without one.
    pub names: Option<&'a [String]>,
    /// What stands between fields.
    pub separator: u8,
    /// For columns without letters of their own.
    pub global: Ordering,
    /// Ties keep the order of the input.
    pub stable: bool,
    /// For `R`.
    pub seed: u64,
}

impl Columns {
    /// Settles the columns.
    ///
    /// # Errors
    /// Usage for columns that are not there and letters that do not go together.
    pub fn new(options: &ColumnOptions<'_>) -> Result<Self> {
        let mut chosen = Vec::new();
        for by in options.by {
            chosen.push(choose(by, options)?);
        }
        let is_descending = match chosen.first() {
            Some((_, ordering)) => ordering.reverse,
            None => options.global.reverse,
        };
        let count = chosen.len();
        let column = |(at, (index, ordering)): (usize, (usize, Ordering))| {
            let is_turned = ordering.reverse != is_descending;
            let compare = Compare::new(&ordering, is_turned, at + 1 == count, options.seed)?;
            Ok(Column { index, compare })
        };
        let columns: Result<Vec<Column>> = chosen.into_iter().enumerate().map(column).collect();
        Ok(Columns {
            columns: columns?,
            separator: options.separator,
            is_descending,
            tie: match (options.stable, options.global.reverse) {
                (true, _) => Tie::Position,
                (false, false) => Tie::Bytes,
                (false, true) => Tie::BytesDescending,
            },
        })
    }
}

/// The place of a column, from 0, and how it compares.
fn choose(by: &str, options: &ColumnOptions<'_>) -> Result<(usize, Ordering)> {
    let place = |name: &str| {
        let named = options
            .names
            .and_then(|names| names.iter().position(|known| known == name));
        let number = || {
            name.parse::<usize>()
                .ok()
                .and_then(|number| number.checked_sub(1))
        };
        named.or_else(number)
    };
    if let Some(index) = place(by) {
        return Ok((index, options.global));
    }
    if let Some((name, letters)) = by.rsplit_once(':')
        && let Some(index) = place(name)
    {
        let mut ordering = Ordering::default();
        if let Some(wrong) = letters
            .bytes()
            .find(|letter| !ordering.set(*letter, OptionScope::Both))
        {
            let cause = format!(
                "`{}` behind `{name}` is no way to compare",
                char::from(wrong)
            );
            return Err(Error::usage(CHOOSE, cause).hint("letters are those of sort: bdfghiMnrRV"));
        }
        return Ok((index, ordering));
    }
    let hint = match options.names {
        Some(names) if names.iter().all(String::is_empty) => "its header is empty".to_string(),
        Some(names) => format!("the header has {}", names.join(", ")),
        None => "without a header columns have numbers, from 1".to_string(),
    };
    Err(Error::usage(CHOOSE, format!("there is no column `{by}`")).hint(hint))
}

impl SortKey for Columns {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        let start = key.len();
        let appended = self.append_all(line, key);
        if appended.is_err() {
            key.truncate(start);
        }
        appended
    }

    fn is_item(&self) -> bool {
        self.columns.is_empty()
    }

    fn is_descending(&self) -> bool {
        self.is_descending
    }

    fn tie(&self) -> Tie {
        self.tie
    }
}

impl Columns {
    fn append_all(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        if self.columns.is_empty() {
            key.extend_from_slice(line);
        }
        for column in &self.columns {
            let Some(field) = fields(line, self.separator).nth(column.index) else {
                return Err(NoKey(format!("there is no column {}", column.index + 1)));
            };
            let mut unquoted = Vec::new();
            let value = value(field, &mut unquoted).ok_or_else(open_quote)?;
            column.compare.append(value, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        for header in [&b"\xef\xbb\xbfid,name\n"[..], b"\xef\xbb\xbf\"id\",name"] {
            assert_eq!(names(header, b',').unwrap(), ["id", "name"]);
        }
    }

    #[test]
    fn columns_that_are_not_there_are_told_with_those_that_are() {
        let names = names(b"id,\"full name\",price\r\n", b',').unwrap();
        let settle = |by: &str| {
            let by = [by.to_string()];
            let options = ColumnOptions {
                by: &by,
                names: Some(&names),
                separator: b',',
                global: Ordering::default(),
                stable: false,
                seed: 1,
            };
            Columns::new(&options).map(|_| ())
        };
        for by in ["id", "full name", "price:nr", "3", "2:f"] {
            settle(by).unwrap();
        }
        let error = settle("cost").unwrap_err();
        assert!(error.next_step().unwrap().contains("id, full name, price"));
        assert!(settle("price:x").is_err());
    }
}
