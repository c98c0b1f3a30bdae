//! The index of a packed directory: the offset of each file in the dataset, and its attributes.
//!
//! Contract: files are stored end to end in the order of the index. The index's first line has the
//! version and the attributes of the directory itself. Then comes one line per file, symbolic link
//! and directory below it; a directory comes before its contents. A line has kind, mode, time of
//! the last change, length, name, and the target of a link. Names are relative, with `/` between
//! parts; no part is `..`. The parent of a name is a directory of the same index and never a link,
//! so unpacking stays inside its directory for any index. Any other index is corrupt.
//!
//! Names and targets are bytes. In the index, and in output for people, a backslash, a control
//! character and a byte that is not UTF-8 are written as `\xHH`, so that every entry is one line of
//! valid text.
//!
//! Bounds: the whole index is in memory, about 50 bytes and a name per entry.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use outcore_io::drive::paths::Metadata;
use outcore_io::error::{Error, Result};

const READ: &str = "read index of a dataset";
const HEADER: &str = "outcore directory 2";

/// Attributes that a file had when it was put, and has again after `get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Its permissions: read, write and execute for owner, group and others. Setuid, setgid and
    /// sticky bits are not kept.
    pub mode: u32,
    /// Time of the last change: whole seconds since 1970.
    pub modified_s: i64,
    /// Nanoseconds of that time.
    pub modified_ns: u32,
}

impl Attributes {
    /// The attributes of a file or directory.
    pub fn of(facts: &Metadata) -> Self {
        Attributes {
            mode: facts.permissions().mode() & 0o777,
            modified_s: facts.mtime(),
            modified_ns: facts.mtime_nsec() as u32,
        }
    }

    /// Time of the last change.
    pub fn modified(&self) -> SystemTime {
        let whole = Duration::from_secs(self.modified_s.unsigned_abs());
        let second = match self.modified_s < 0 {
            true => UNIX_EPOCH.checked_sub(whole),
            false => UNIX_EPOCH.checked_add(whole),
        };
        let rest = Duration::from_nanos(u64::from(self.modified_ns));
        let exact = second.and_then(|second| second.checked_add(rest));
        exact.unwrap_or(UNIX_EPOCH)
    }

    /// Sets these permissions and this time on an open file.
    pub(super) fn restore(&self, file: &File) -> std::io::Result<()> {
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.set_modified(self.modified())
    }
}

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory; its contents follow.
    Directory,
    /// A symbolic link.
    Link {
        /// Its target as stored; it may not exist.
        target: OsString,
    },
}

/// A packed file, directory or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, relative to the directory.
    pub name: OsString,
    /// Its kind.
    pub kind: EntryKind,
    /// Where its data begin in the dataset.
    pub offset_bytes: u64,
    /// Its length; 0 for directories and links.
    pub len_bytes: u64,
    /// Its attributes.
    pub attributes: Attributes,
}

impl Entry {
    /// Its name as text.
    pub fn text(&self) -> String {
        escape(&self.name)
    }
}

/// The contents of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Attributes of the directory itself.
    pub root: Attributes,
    /// Its entries at all levels, in order.
    pub entries: Vec<Entry>,
}

impl Index {
    /// The file called `name`, as [`Entry::text`] writes it or unescaped.
    ///
    /// # Errors
    /// Usage: it does not exist, or it is a directory or a link.
    pub fn find(&self, name: &str) -> Result<&Entry> {
        let cannot = |cause: String, hint: &str| {
            Err(Error::usage("look into dataset", cause).hint(hint.to_string()))
        };
        // The form in a listing comes first: it is unambiguous.
        let shown = self.entries.iter().find(|entry| entry.text() == name);
        let is_named = |entry: &&Entry| entry.name.as_bytes() == name.as_bytes();
        let found = shown.or_else(|| self.entries.iter().find(is_named));
        let Some(entry) = found else {
            let cause = format!("the dataset has no file called {name}");
            return cannot(cause, "`outcore volume ls @NAME` lists what it holds");
        };
        match &entry.kind {
            EntryKind::File => Ok(entry),
            EntryKind::Directory => cannot(
                format!("{name} is a directory"),
                "name one file in it, or get the whole dataset",
            ),
            EntryKind::Link { target } => cannot(
                format!("{name} is a symbolic link to {}", escape(target)),
                "name the file that it leads to, or get the whole dataset",
            ),
        }
    }

    /// Number of files and links.
    pub(crate) fn count_files(&self) -> u64 {
        let files = self.entries.iter();
        files
            .filter(|entry| entry.kind != EntryKind::Directory)
            .count() as u64
    }

    /// The entries of a listing: files, links, and empty directories.
    pub fn listed(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(number, entry)| {
            let next = self.entries.get(number + 1);
            let holds_next = next.is_some_and(|next| parent_of(&next.name) == Some(&*entry.name));
            (entry.kind != EntryKind::Directory || !holds_next).then_some(entry)
        })
    }

    /// Total bytes of all files.
    pub fn data_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.len_bytes).sum()
    }

    /// Whether users other than the owner could read all entries, as the read bits of group and
    /// others. A dataset has one set of permissions for all files, so it is as restricted as its
    /// most restricted file.
    pub(crate) fn readers(&self) -> u32 {
        let inner = self.entries.iter().map(|entry| match entry.kind {
            EntryKind::File => entry.attributes.mode,
            // Users who may pass through a directory can read its contents.
            EntryKind::Directory => entry.attributes.mode << 2,
            EntryKind::Link { .. } => 0o777,
        });
        inner.fold(self.root.mode << 2, |all, mode| all & mode) & 0o044
    }

    /// The text of the index.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{HEADER} {}\n", attributes_text(&self.root));
        for entry in &self.entries {
            let (kind, target) = match &entry.kind {
                EntryKind::File => ('f', None),
                EntryKind::Directory => ('d', None),
                EntryKind::Link { target } => ('l', Some(target)),
            };
            let (about, len_bytes) = (attributes_text(&entry.attributes), entry.len_bytes);
            // Writing to a string cannot fail.
            let _ = write!(text, "{kind} {about} {len_bytes} {}", entry.text());
            if let Some(target) = target {
                let _ = write!(text, "\t{}", escape(target));
            }
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Parses an index.
    ///
    /// # Errors
    /// Corrupt: it is not an index.
    pub fn decode(index: &[u8]) -> Result<Self> {
        let broken = |line: &str| Error::corrupt(READ, format!("the line {line:?} is invalid"));
        let text =
            std::str::from_utf8(index).map_err(|error| Error::corrupt(READ, error.to_string()))?;
        let mut lines = text.split_terminator('\n');
        let first = lines.next().unwrap_or_default();
        let root = first.strip_prefix(HEADER).and_then(|rest| {
            let mut fields = rest.strip_prefix(' ')?.split(' ');
            let root = attributes_in(&mut fields)?;
            fields.next().is_none().then_some(root)
        });
        let root = root.ok_or_else(|| {
            let cause = format!("the index does not begin with `{HEADER}`: {first:?}");
            Error::corrupt(READ, cause)
                .hint("if another version of outcore wrote it, get it with that version")
        })?;
        let (mut entries, mut offset_bytes) = (Vec::new(), 0u64);
        let (mut names, mut directories) = (HashSet::new(), HashSet::new());
        for line in lines {
            let entry = entry_in(line, offset_bytes).ok_or_else(|| broken(line))?;
            let lies_in = parent_of(&entry.name).map(OsStr::to_os_string);
            let is_placed = lies_in.is_none_or(|parent| directories.contains(&parent));
            if !is_placed || !names.insert(entry.name.clone()) {
                return Err(broken(line));
            }
            if entry.kind == EntryKind::Directory {
                directories.insert(entry.name.clone());
            }
            let end_bytes = offset_bytes.checked_add(entry.len_bytes);
            offset_bytes = end_bytes.ok_or_else(|| broken(line))?;
            entries.push(entry);
        }
        Ok(Index { root, entries })
    }
}

fn attributes_text(about: &Attributes) -> String {
    let Attributes {
        mode,
        modified_s,
        modified_ns,
    } = about;
    format!("{mode:o} {modified_s} {modified_ns}")
}

fn attributes_in<'t>(fields: &mut impl Iterator<Item = &'t str>) -> Option<Attributes> {
    let about = Attributes {
        mode: u32::from_str_radix(fields.next()?, 8).ok()?,
        modified_s: fields.next()?.parse().ok()?,
        modified_ns: fields.next()?.parse().ok()?,
    };
    (about.mode <= 0o777 && about.modified_ns < 1_000_000_000).then_some(about)
}

/// The entry on a line; `None` if the line is not an entry.
fn entry_in(line: &str, offset_bytes: u64) -> Option<Entry> {
    let mut fields = line.splitn(6, ' ');
    let kind = fields.next()?;
    let attributes = attributes_in(&mut fields)?;
    let len_bytes: u64 = fields.next()?.parse().ok()?;
    let name = fields.next()?;
    let (name, target) = match name.split_once('\t') {
        Some((name, target)) => (name, Some(unescape(target)?)),
        None => (name, None),
    };
    let kind = match (kind, target) {
        ("f", None) => EntryKind::File,
        ("d", None) => EntryKind::Directory,
        ("l", Some(target)) if !target.is_empty() => EntryKind::Link { target },
        _ => return None,
    };
    let name = unescape(name).filter(|name| is_inside(name))?;
    (kind == EntryKind::File || len_bytes == 0).then_some(Entry {
        name,
        kind,
        offset_bytes,
        len_bytes,
        attributes,
    })
}

/// Whether a name stays inside the directory that it is unpacked in.
fn is_inside(name: &OsStr) -> bool {
    let mut parts = name.as_bytes().split(|byte| *byte == b'/');
    !name.as_bytes().contains(&0) && parts.all(|part| !matches!(part, b"" | b"." | b".."))
}

/// The parent of a name; `None` for a name in the directory itself.
fn parent_of(name: &OsStr) -> Option<&OsStr> {
    let bytes = name.as_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/')?;
    Some(OsStr::from_bytes(&bytes[..slash]))
}

/// A name as unambiguous text.
pub fn escape(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter != '\\' && !letter.is_control() {
                text.push(letter);
                continue;
            }
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The name that [`escape`] writes as `text`; `None` if there is no such name.
fn unescape(text: &str) -> Option<OsString> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let digits = escaped.strip_prefix('x')?.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = escaped.get(3..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    let name = OsString::from_vec(bytes);
    // Each name has only one text.
    (escape(&name) == text).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "outcore directory 2 755 0 0\n";

    fn decode_line(line: &[u8]) -> Result<Index> {
        Index::decode(&[HEAD.as_bytes(), line, b"\n"].concat())
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in [
            "../x",
            "/x",
            "a//b",
            "a/./b",
            "a/..",
            "",
            "/",
            "a/",
            "a//",
            "../",
            ".",
            "a\\x00b",
            "a\\x2fb/..",
            "\\x41",
            "a\\",
            "a\\xg0",
        ] {
            let line = format!("f 644 0 0 1 {name}");
            assert!(decode_line(line.as_bytes()).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_index_that_makes_no_sense_is_refused() {
        for lines in [
            "x 644 0 0 1 a",
            "f 644 0 0 x a",
            "f 888 0 0 1 a",
            "f 4755 0 0 1 a",
            "f 644 0 1000000000 1 a",
            "f 644 0 0 1",
            "d 755 0 0 1 a",
            "l 777 0 0 0 a",
            "l 777 0 0 1 a\tb",
            "f 644 0 0 1 a\tb",
            "f 644 0 0 1 a\nf 644 0 0 1 a",
            "f 644 0 0 18446744073709551615 a\nf 644 0 0 1 b",
            "f 644 0 0 1 dir/a",
            "f 644 0 0 1 dir/a\nd 755 0 0 0 dir",
            "",
        ] {
            assert!(decode_line(lines.as_bytes()).is_err(), "{lines:?}");
        }
        assert!(Index::decode(b"").is_err());
        assert!(Index::decode(b"5 644 a\n").is_err(), "the first version's");
        assert!(Index::decode(b"outcore directory 2 755 0 0 0\n").is_err());
    }

    #[test]
    fn nothing_is_unpacked_through_a_link() {
        let through = "l 777 0 0 0 away\t/etc\nf 644 0 0 1 away/passwd";
        assert!(decode_line(through.as_bytes()).is_err());
    }

    #[test]
    fn a_dataset_is_as_closed_as_the_most_closed_thing_in_it() {
        let readers = |lines: &str| decode_line(lines.as_bytes()).unwrap().readers();
        assert_eq!(readers("f 644 0 0 1 a"), 0o044);
        assert_eq!(readers("f 644 0 0 1 a\nf 640 0 0 1 b"), 0o040);
        assert_eq!(readers("f 644 0 0 1 a\nf 600 0 0 1 b"), 0);
        assert_eq!(readers("d 700 0 0 0 d\nf 644 0 0 1 d/a"), 0);
        assert_eq!(readers("l 777 0 0 0 a\tb"), 0o044);
    }

    #[test]
    fn a_listing_has_files_links_and_empty_directories() {
        let lines = "d 755 0 0 0 a\nf 644 0 0 1 a/b\nd 755 0 0 0 a/c\nl 777 0 0 0 d\te";
        let index = decode_line(lines.as_bytes()).unwrap();
        let names: Vec<String> = index.listed().map(Entry::text).collect();
        assert_eq!(names, ["a/b", "a/c", "d"]);
        assert_eq!(index.count_files(), 2);
        assert_eq!(index.find("a/b").unwrap().len_bytes, 1);
        for name in ["a", "d", "x"] {
            assert!(index.find(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_index_is_read_back_whatever_the_names(
            files in proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>().prop_filter("no name", |b| !b"\0/.".contains(b)), 1..9),
                (0u64..1 << 40, 0u32..0o1000, any::<i64>(), 0u32..1_000_000_000, 0..3),
                0..20,
            ),
        ) {
            let (mut entries, mut offset_bytes) = (Vec::new(), 0);
            for (name, (len_bytes, mode, modified_s, modified_ns, kind)) in files {
                let name = OsString::from_vec(name);
                let kind = match kind {
                    0 => EntryKind::File,
                    1 => EntryKind::Directory,
                    _ => EntryKind::Link { target: name.clone() },
                };
                let len_bytes = if kind == EntryKind::File { len_bytes } else { 0 };
                let attributes = Attributes { mode, modified_s, modified_ns };
                entries.push(Entry { name, kind, offset_bytes, len_bytes, attributes });
                offset_bytes += len_bytes;
            }
            let root = Attributes { mode: 0o700, modified_s: -1, modified_ns: 5 };
            let index = Index { root, entries };
            let text = index.encode();
            prop_assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), index.entries.len() + 1);
            prop_assert_eq!(&Index::decode(&text).unwrap(), &index);
            for entry in index.entries.iter().filter(|entry| entry.kind == EntryKind::File) {
                prop_assert_eq!(index.find(&entry.text()).unwrap(), entry);
            }
        }

        #[test]
        fn any_bytes_are_an_index_or_an_error(bytes: Vec<u8>) {
            for text in [bytes.clone(), [HEAD.as_bytes(), &bytes].concat()] {
                if let Ok(index) = Index::decode(&text) {
                    prop_assert!(index.entries.iter().all(|entry| is_inside(&entry.name)));
                }
            }
        }
    }
}
