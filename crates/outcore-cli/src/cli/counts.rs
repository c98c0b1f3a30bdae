//! Counts of `head` and `tail` in their old form: `-5` in place of `-n 5`.
//!
//! Contract: [`read`] takes the words of a command line and replaces such a count if it comes first
//! after the name of the command, as GNU does. All other words are unchanged. Pure.

use std::ffi::OsString;

use super::gnu::position_of_command;

/// The words, with a count in the form of the definition.
pub(crate) fn read(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = position_of_command(&words) else {
        return words;
    };
    let takes_count = matches!(words[at].to_str(), Some("head" | "tail"));
    let count = words.get(at + 1).and_then(|word| word.to_str());
    let count = count.and_then(|word| word.strip_prefix('-'));
    let count = count
        .filter(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
    if let (true, Some(count)) = (takes_count, count.map(OsString::from)) {
        words.splice(at + 1..=at + 1, ["-n".into(), count]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_without_n_is_one_right_after_head_and_tail() {
        for (typed, meant) in [
            ("outcore head -5 f", "outcore head -n 5 f"),
            ("outcore -q tail -1", "outcore -q tail -n 1"),
            ("outcore head f -5", "outcore head f -5"),
            ("outcore head -n -5 f", "outcore head -n -5 f"),
            ("outcore sort -5 f", "outcore sort -5 f"),
            ("outcore head -", "outcore head -"),
            ("outcore", "outcore"),
        ] {
            let words = typed.split(' ').map(OsString::from).collect();
            let meant: Vec<OsString> = meant.split(' ').map(OsString::from).collect();
            assert_eq!(read(words), meant, "{typed}");
        }
    }
}
