//! The index of a packed directory: which file lies where in the dataset.
//!
//! Contract: files lie end to end in the order of their names; the index behind them has a line a file:
//! length, mode, name. So does a directory in which there is nothing, whose name ends with `/`. Names are relative, with `/` between parts and none of them `..`, so that
//! unpacking stays inside its directory whatever the index says. An index with anything else in it is
//! corrupt. Bounds: the index is in memory as a whole, its length some 20 bytes and a name a file.

use crate::error::{Error, Result};

const READ: &str = "read index of a dataset";

/// A packed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its relative name.
    pub name: String,
    /// Where it begins in the dataset.
    pub offset_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// Its permissions.
    pub mode: u32,
}

impl Entry {
    /// Whether it is no file but a directory in which there is nothing.
    pub fn is_empty_dir(&self) -> bool {
        self.name.ends_with('/')
    }
}

/// The file that is called `name`.
pub fn find<'e>(entries: &'e [Entry], name: &str) -> Option<&'e Entry> {
    let mut files = entries.iter().filter(|entry| !entry.is_empty_dir());
    files.find(|entry| entry.name == name)
}

/// The number of files.
pub fn count_files(entries: &[Entry]) -> u64 {
    let files = entries.iter().filter(|entry| !entry.is_empty_dir());
    files.count() as u64
}

/// Whether a name stays inside the directory that it is unpacked in.
fn is_inside(name: &str) -> bool {
    let name = name.strip_suffix('/').unwrap_or(name);
    !name.contains(['\0', '\n']) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Refuses a name that the index cannot have.
///
/// # Errors
/// Usage.
pub fn check_name(name: &str) -> Result<()> {
    match is_inside(name) {
        true => Ok(()),
        false => Err(
            Error::usage("pack directory", format!("a file is called {name:?}"))
                .hint("rename it, or put it as a dataset of its own"),
        ),
    }
}

/// The index of `entries`, which lie end to end.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let line = |entry: &Entry| format!("{} {:o} {}\n", entry.len_bytes, entry.mode, entry.name);
    entries.iter().map(line).collect::<String>().into_bytes()
}

/// Reads an index.
///
/// # Errors
/// Corrupt: it is none.
pub fn decode(index: &[u8]) -> Result<Vec<Entry>> {
    let broken = |line: &str| Error::corrupt(READ, format!("the line {line:?}"));
    let text =
        std::str::from_utf8(index).map_err(|error| Error::corrupt(READ, error.to_string()))?;
    let mut offset_bytes = 0u64;
    let mut entries = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ' ');
        let len_bytes: Option<u64> = parts.next().and_then(|part| part.parse().ok());
        let mode = parts
            .next()
            .and_then(|part| u32::from_str_radix(part, 8).ok());
        let name = parts.next().filter(|name| is_inside(name));
        let (Some(len_bytes), Some(mode), Some(name)) = (len_bytes, mode, name) else {
            return Err(broken(line));
        };
        if name.ends_with('/') && len_bytes > 0 {
            return Err(broken(line));
        }
        entries.push(Entry {
            name: name.to_string(),
            offset_bytes,
            len_bytes,
            mode: mode & 0o777,
        });
        offset_bytes = offset_bytes
            .checked_add(len_bytes)
            .ok_or_else(|| broken(line))?;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in [
            "../x", "/x", "a//b", "a/./b", "a/..", "", "a\nb", "/", "a//", "../",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
            assert!(
                decode(format!("1 644 {name}\n").as_bytes()).is_err(),
                "{name:?}"
            );
        }
        assert!(decode(b"x 644 a\n").is_err());
        assert!(decode(b"1 755 a/\n").is_err(), "a directory has no bytes");
        assert!(decode(b"18446744073709551615 644 a\n1 644 b\n").is_err());
    }

    proptest! {
        #[test]
        fn an_index_is_read_back(
            files in proptest::collection::vec(("[a-z ]{1,8}(/[a-z.]{3,5}x){0,2}/?", 0u64..1 << 40, 0u32..0o1000), 0..20),
        ) {
            let mut entries: Vec<Entry> = Vec::new();
            let mut offset_bytes = 0;
            for (name, len_bytes, mode) in files {
                let len_bytes = if name.ends_with('/') { 0 } else { len_bytes };
                entries.push(Entry { name, offset_bytes, len_bytes, mode });
                offset_bytes += len_bytes;
            }
            prop_assert_eq!(decode(&encode(&entries)).unwrap(), entries);
        }

        #[test]
        fn any_bytes_are_an_index_or_an_error(bytes: Vec<u8>) {
            if let Ok(entries) = decode(&bytes) {
                prop_assert!(entries.iter().all(|entry| is_inside(&entry.name)));
            }
        }
    }
}
