//! The words of GNU `sort`: long options, and the values of some of them.
//!
//! Contract: tables and lookups in them, pure. A word may be abbreviated as long as it is
//! unambiguous.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::Arg;
use outcore::{Error, Result};

use super::READ;

/// Long options of GNU `sort`, and their names in the definition.
pub(super) const LONGS: [(&str, &str); 30] = [
    ("batch-size", "batch_count"),
    ("buffer-size", "buffer_bytes"),
    ("check", "check"),
    ("compress-program", "compress_program"),
    ("debug", "debug"),
    ("dictionary-order", "dictionary_order"),
    ("field-separator", "separator"),
    ("files0-from", "files0_from"),
    ("general-numeric-sort", "general_numeric_sort"),
    ("help", "help"),
    ("human-numeric-sort", "human_numeric_sort"),
    ("ignore-case", "ignore_case"),
    ("ignore-leading-blanks", "ignore_leading_blanks"),
    ("ignore-nonprinting", "ignore_nonprinting"),
    ("key", "keys"),
    ("merge", "merge"),
    ("month-sort", "month_sort"),
    ("numeric-sort", "numeric_sort"),
    ("output", "output"),
    ("parallel", "parallel"),
    ("random-sort", "random_sort"),
    ("random-source", "random_source"),
    ("reverse", "descending"),
    ("sort", "word"),
    ("stable", "stable"),
    ("temporary-directory", "temporary_dirs"),
    ("unique", "unique"),
    ("version", VERSION),
    ("version-sort", "version_sort"),
    ("zero-terminated", "zero_terminated"),
];
pub(super) const VERSION: &str = "version";
/// The values of `--sort`, and the equivalent letters.
pub(super) const WORDS: [(&str, &str); 6] = [
    ("general-numeric", "general_numeric_sort"),
    ("human-numeric", "human_numeric_sort"),
    ("month", "month_sort"),
    ("numeric", "numeric_sort"),
    ("random", "random_sort"),
    ("version", "version_sort"),
];
/// The values of `--check`, and the equivalent letters.
pub(super) const CHECKS: [(&str, char); 3] =
    [("quiet", 'C'), ("silent", 'C'), ("diagnose-first", 'c')];
/// Options that may be repeated with the same value, and the error for different values.
pub(super) const EQUAL: [(&str, &str); 4] = [
    ("output", "multiple output files specified"),
    ("separator", "incompatible tabs"),
    ("random_source", "multiple random sources specified"),
    ("compress_program", "multiple compress programs specified"),
];

/// The word that begins with a text.
pub(super) fn one_of<'t, T: PartialEq>(
    words: &'t [(&'static str, T)],
    text: &str,
    option: &str,
) -> Result<&'t (&'static str, T)> {
    if let Some(word) = words.iter().find(|(word, _)| *word == text) {
        return Ok(word);
    }
    let found: Vec<_> = words
        .iter()
        .filter(|(word, _)| word.starts_with(text))
        .collect();
    match found.as_slice() {
        [first, others @ ..] if others.iter().all(|other| other.1 == first.1) => Ok(first),
        found => {
            let what = if found.is_empty() {
                "invalid"
            } else {
                "ambiguous"
            };
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            Err(
                Error::usage(READ, format!("{what} argument '{text}' for '{option}'"))
                    .hint(format!("valid arguments are {}", words.join(", "))),
            )
        }
    }
}

/// outcore merges all files at once, so it only checks the number.
pub(super) fn check_batch_size(text: &str) -> Result<()> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let invalid = || Error::usage(READ, format!("invalid --batch-size argument '{text}'"));
    if !is_number {
        return Err(invalid().hint("give a number of files, 2 or more"));
    }
    match text.parse::<u64>() {
        Ok(0 | 1) => Err(invalid().hint("minimum --batch-size argument is '2'")),
        Ok(_) => Ok(()),
        Err(_) => Err(
            Error::usage(READ, format!("--batch-size argument '{text}' too large"))
                .hint("leave it out: outcore merges all files at once"),
        ),
    }
}

/// An option as the definition spells it, followed by the text `behind`.
pub(super) fn name_of(flag: &Arg, behind: &str) -> OsString {
    match (flag.get_long(), flag.get_short()) {
        (Some(long), _) => format!("--{long}{behind}").into(),
        (None, Some(short)) => format!("-{short}").into(),
        (None, None) => OsString::new(),
    }
}

/// A text and the value after it, as one word.
pub(super) fn joined(front: &str, value: &OsStr) -> OsString {
    joined_to(front.into(), value)
}

/// An option and its value, as one word.
pub(super) fn joined_to(front: OsString, value: &OsStr) -> OsString {
    let mut bytes = front.into_vec();
    bytes.extend_from_slice(value.as_bytes());
    OsString::from_vec(bytes)
}
