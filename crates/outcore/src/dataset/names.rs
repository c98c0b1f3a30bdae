//! Names of files: patterns, and arrays of NumPy.
//!
//! Contract: a name that is a file means that file, whatever characters it has. Otherwise `*` and `?` in
//! its last part stand for any characters, for one, and the files come in the order of their names.
//! Nothing is read but the headers of arrays.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::ends::Input;
use crate::key::NpyHeader;
use outcore_io::output::parent_of;
use outcore_io::{Error, Result};

const OPEN: &str = "open input";
/// How many bytes of a file say how long its header is.
const PREFIX_BYTES: u64 = 16;

/// The files of a name.
pub(super) fn paths_of(name: &Path) -> Result<Vec<PathBuf>> {
    let pattern = name.file_name().map(|last| last.as_encoded_bytes());
    let is_pattern = pattern.is_some_and(|last| last.iter().any(|byte| b"*?".contains(byte)));
    let (Some(pattern), true) = (pattern, is_pattern && !name.exists()) else {
        return Ok(vec![name.to_path_buf()]);
    };
    let dir = parent_of(name);
    let failed = |error: std::io::Error| Error::io(OPEN, &error).path(dir);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if matches(pattern, entry.file_name().as_encoded_bytes()) {
            found.push(name.with_file_name(entry.file_name()));
        }
    }
    found.sort();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::usage(OPEN, "no file has such a name")
            .path(name)
            .hint("`*` stands for any characters and `?` for one, in the last part of the name")),
    }
}

/// Whether `name` is one that `pattern` stands for.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| matches(rest, &name[taken..])),
        (Some((b'?', rest)), Some((_, name))) => matches(rest, name),
        (Some((byte, rest)), Some((first, name))) => byte == first && matches(rest, name),
        _ => false,
    }
}

/// Files of elements of `element_bytes`, after their headers where they are arrays.
pub(super) fn inputs_of(paths: &[PathBuf], element_bytes: usize) -> Result<Vec<Input>> {
    paths
        .iter()
        .map(
            |path| match path.extension().is_some_and(|end| end == "npy") {
                true => array(path, element_bytes),
                false => Ok(Input::raw(path)),
            },
        )
        .collect()
}

fn array(path: &Path, element_bytes: usize) -> Result<Input> {
    let failed = |error: std::io::Error| Error::io(OPEN, &error).path(path);
    let mut file = File::open(path).map_err(failed)?;
    let mut header = Vec::new();
    let mut front = file.by_ref().take(PREFIX_BYTES);
    front.read_to_end(&mut header).map_err(failed)?;
    let len_bytes = NpyHeader::len_bytes(&header).map_err(|error| error.path(path))?;
    let mut rest = file.take((len_bytes - header.len()) as u64);
    rest.read_to_end(&mut header).map_err(failed)?;
    let header = NpyHeader::parse(&header).map_err(|error| error.path(path))?;
    let record_bytes = header.format.record_bytes();
    if record_bytes != element_bytes {
        let cause = format!(
            "its rows have {record_bytes} bytes ({}), not {element_bytes}",
            header.format
        );
        return Err(Error::usage(OPEN, cause)
            .path(path)
            .hint("read it as values of that size"));
    }
    Ok(Input {
        path: path.to_path_buf(),
        header_bytes: header.header_bytes as u64,
        data_bytes: Some(header.rows * record_bytes as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_names_that_it_looks_like() {
        let cases = [
            ("keys-*.bin", "keys-0.bin", true),
            ("keys-*.bin", "keys-.bin", true),
            ("keys-*.bin", "keys-0.bin.old", false),
            ("?", "a", true),
            ("?", "", false),
            ("*a*b", "xaybab", true),
            ("*a*b", "xayba", false),
        ];
        for (pattern, name, expected) in cases {
            let found = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(found, expected, "{pattern} {name}");
        }
    }
}
