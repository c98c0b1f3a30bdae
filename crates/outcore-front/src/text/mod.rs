//! Text: what a line is to its user, and how it is ordered.
//!
//! Contract: from what users write (options of GNU sort, a column of CSV, a field of JSON) to a
//! [`SortKey`](outcore::key::SortKey), the one thing that the engine knows of text. What
//! keys are made of stands in [`outcore::key::encode`].
//!
//! | file | does |
//! |---|---|
//! | [`csv`] | columns of CSV |
//! | [`csv_files`] | files of CSV as the engine can take them |
//! | `csv_scan` | one read of a file of CSV |
//! | [`fastq`] | parts of FASTQ |
//! | [`fastq_files`] | files of FASTQ as the engine can take them |
//! | [`gnu`] | `sort(1)` of GNU coreutils, in the C locale |
//! | [`header`] | lines in front of the records of a file |
//! | [`header_files`] | files of lines without these |
//! | [`json`] | fields of JSON |
//! | [`json_files`] | files of JSON lines as the engine can take them |
//! | [`output`] | lines into what the engine does not write itself: compressed files, headers |
//! | [`order`] | an order of lines as text, for a file to hold |
//! | [`part`] | the part of a line that GNU `uniq` compares |
//! | [`reader`] | lines or records as they come, compressed ones too |
//! | [`sample`] | some of them at random |
//! | [`take`] | the first or the last of them |
//! | [`view_files`] | files of text as a view can take them |

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

/// Appends a key with `append`; where that fails, nothing.
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

/// The error for a key in which one of two words stands twice, or both.
pub fn said_twice(key: &str, what: &str) -> Error {
    let cause = format!("the key `{key}` says {what} twice");
    Error::usage("choose column", cause).hint("leave one of the two out")
}

/// What words after colons say about a field to sort by: `price:desc:nulls-last`. Tables take the
/// same words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FieldOrder {
    pub(crate) is_descending: Option<bool>,
    pub(crate) is_nulls_first: Option<bool>,
}

impl FieldOrder {
    /// Takes up one word behind the name in `key`; false for any other.
    ///
    /// # Errors
    /// Usage: the same was said before.
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

    /// Appends what puts nulls before or after all other values, where that was asked for: one byte
    /// in front of the field's own key. `is_reversed` says whether the order as a whole is
    /// descending.
    pub(crate) fn append_null(&self, is_null: bool, is_reversed: bool, key: &mut Vec<u8>) {
        if let Some(is_first) = self.is_nulls_first {
            key.push(u8::from((is_null != is_first) != is_reversed));
        }
    }
}
