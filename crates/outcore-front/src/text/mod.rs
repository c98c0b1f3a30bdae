//! Text: the user's view of lines, and their orders.
//!
//! Contract: turns the user's notation (options of GNU sort, a column of CSV, a field of JSON) into
//! a [`SortKey`](outcore::key::SortKey), the only thing that the engine knows of text.
//! [`outcore::key::encode`] documents the form of keys.
//!
//! | file | does |
//! |---|---|
//! | [`csv`] | columns of CSV |
//! | [`csv_files`] | files of CSV in a form that the engine can sort |
//! | `csv_scan` | one read of a file of CSV |
//! | [`fastq`] | parts of FASTQ |
//! | [`fastq_files`] | files of FASTQ in a form that the engine can sort |
//! | [`gnu`] | `sort(1)` of GNU coreutils, in the C locale |
//! | [`header`] | lines in front of the records of a file |
//! | [`header_files`] | files of lines without these |
//! | [`json`] | fields of JSON |
//! | [`json_files`] | files of JSON lines in a form that the engine can sort |
//! | [`output`] | outputs that the engine does not write itself: compressed files, headers |
//! | [`order`] | an order of lines as text that can be stored in a file |
//! | [`part`] | the part of a line that GNU `uniq` compares |
//! | [`reader`] | lines or records in input order, also of compressed files |
//! | [`sample`] | a random sample of them |
//! | [`take`] | the first or the last of them |
//! | [`view_files`] | files of text in a form that a view can use |

pub mod csv;
pub mod csv_files;
mod csv_scan;
pub mod fastq;
pub mod fastq_files;
pub mod gnu;
pub mod header;
pub mod header_files;
pub mod json;
pub mod json_files;
mod json_layout;
mod json_scan;
pub mod order;
pub mod output;
pub mod part;
pub mod reader;
pub mod sample;
pub mod take;
pub mod view_files;

use outcore::key::sort_key::NoKey;
use outcore::{Error, Result};

/// Appends a key with `append`. If that fails, appends nothing.
pub(crate) fn append_whole(
    key: &mut Vec<u8>,
    append: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), NoKey>,
) -> std::result::Result<(), NoKey> {
    let start = key.len();
    let appended = append(key);
    if appended.is_err() {
        key.truncate(start);
    }
    appended
}

/// The error for a key that repeats a word, or has two words that exclude each other.
pub fn said_twice(key: &str, what: &str) -> Error {
    let cause = format!("the key `{key}` gives {what} twice");
    Error::usage("choose column", cause).hint("leave one of the two out")
}

/// The meaning of the words after colons in a field to sort by: `price:desc:nulls-last`. Tables use
/// the same words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FieldOrder {
    pub(crate) is_descending: Option<bool>,
    pub(crate) is_nulls_first: Option<bool>,
}

impl FieldOrder {
    /// Processes one word after the name in `key`. Returns false for any other word.
    ///
    /// # Errors
    /// Usage: a word of this kind was given before.
    pub(crate) fn take(&mut self, word: &str, key: &str) -> Result<bool> {
        let (said, what, is) = match word {
            "asc" => (&mut self.is_descending, "asc or desc", false),
            "desc" => (&mut self.is_descending, "asc or desc", true),
            "nulls-first" => (&mut self.is_nulls_first, "nulls-first or nulls-last", true),
            "nulls-last" => (&mut self.is_nulls_first, "nulls-first or nulls-last", false),
            _ => return Ok(false),
        };
        match said.replace(is) {
            None => Ok(true),
            Some(_) => Err(said_twice(key, what)),
        }
    }

    /// Appends a byte that places nulls before or after all other values, if that was requested. It
    /// precedes the field's own key. `is_reversed` means that the order as a whole is descending.
    pub(crate) fn append_null(&self, is_null: bool, is_reversed: bool, key: &mut Vec<u8>) {
        if let Some(is_first) = self.is_nulls_first {
            key.push(u8::from((is_null != is_first) != is_reversed));
        }
    }
}
