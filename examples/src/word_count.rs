//! Counts the words of a text: the "hello world" of map and reduce.
//!
//! `tr A-Z a-z | tr -c a-z '\n' | sort | uniq -c`, as two steps. The first is a map from text to
//! one word per line, in one pass over the bytes. The second is a sort of lines that counts equal
//! lines. It counts distinct words in a table as long as they fit in memory, and sorts further ones
//! on scratch.

use std::path::Path;

use outcore::Input;
use outcore::Result;
use outcore::job::Job;
use outcore::key::sort_key::{NoKey, SortKey};
use outcore::primitives::{Sequence, read, write};
use outcore::sort::lines::{LineSortOptions, OnNoKey, sort_lines};

/// Words in the order of their bytes; an empty line is none.
struct Words;

impl SortKey for Words {
    fn append_key(&self, line: &[u8], key: &mut Vec<u8>) -> std::result::Result<(), NoKey> {
        key.extend_from_slice(line);
        match line.is_empty() {
            false => Ok(()),
            true => Err(NoKey("it has no word".to_string())),
        }
    }
}

/// Writes to `to` each word of the text `from`, in lower case, after its count, as `uniq -c` does.
/// Returns the number of distinct words.
///
/// # Errors
/// The errors of the passes.
pub fn word_count(job: &Job, from: &Path, to: &Path) -> Result<u64> {
    let dir = crate::private_dir(job, to)?;
    let words = dir.path().join("items");
    let letters = read::<u8>(&[Input::raw(from)]).map(|byte| match byte {
        b'a'..=b'z' => byte,
        b'A'..=b'Z' => byte.to_ascii_lowercase(),
        _ => b'\n',
    });
    write(job, &letters, &crate::to_file(&words), false)?;
    let options = LineSortOptions {
        count: true,
        on_no_key: OnNoKey::Skip,
        ..LineSortOptions::default()
    };
    let words = [Input::raw(words)];
    let found = sort_lines(job, &words, crate::to_file(to), &Words, options)?;
    Ok(found.lines_out)
}
