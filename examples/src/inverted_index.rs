//! An inverted index of a text: for each word, the lines that have it.
//!
//! The postings are pairs of word and line number, sorted by word and then by number, each pair
//! once. One more read puts the postings of a word on one line. Memory is that of the sort.

use std::path::{Path, PathBuf};

use outcore::Input;
use outcore::job::Job;
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore::{Error, Result};
use outcore_front::text::gnu::{GnuOrder, GnuSort, Key};

use crate::{lines, make};

/// Writes to `to` a line for each word of the text `from`, in lower case: the word, and the numbers
/// (from 1) of the lines that contain the word. Returns the number of words.
///
/// # Errors
/// The errors of reading, sorting and writing; `to` does not exist then.
pub fn inverted_index(job: &Job, from: &Path, to: &Path) -> Result<u64> {
    let dir = crate::private_dir(job, to)?;
    let step = |name: &str| -> PathBuf { dir.path().join(name) };

    make(&step("items"), |put| {
        let (mut reader, mut number) = (lines(job, from)?, 0_u64);
        while let Some(line) = reader.next_record()? {
            number += 1;
            for word in line
                .split(|byte| !byte.is_ascii_alphabetic())
                .filter(|w| !w.is_empty())
            {
                put(&word.to_ascii_lowercase())?;
                put(format!(" {number}\n").as_bytes())?;
            }
        }
        Ok(())
    })?;

    let by_word_and_number = GnuOrder::new(&GnuSort {
        keys: vec![Key::parse("1,1")?, Key::parse("2,2n")?],
        unique: true,
        ..GnuSort::default()
    })?;
    let options = LineSortOptions {
        unique: true,
        ..LineSortOptions::default()
    };
    let (pairs, sorted) = ([Input::raw(step("items"))], crate::to_file(&step("sorted")));
    sort_lines(job, &pairs, sorted, &by_word_and_number, options)?;

    let mut words = 0;
    make(&step("output"), |put| {
        let (mut reader, mut last) = (lines(job, &step("sorted"))?, Vec::new());
        while let Some(pair) = reader.next_record()? {
            let (word, number) = pair.split_at(pair.iter().position(|b| *b == b' ').unwrap_or(0));
            if word != last {
                put(if words == 0 { b"" } else { b"\n" })?;
                put(word)?;
                last = word.to_vec();
                words += 1;
            }
            put(number)?;
        }
        put(if words == 0 { b"" } else { b"\n" })
    })?;
    std::fs::rename(step("output"), to).map_err(|e| Error::io("publish", &e).path(to))?;
    Ok(words)
}
