//! Metadata: the small files that describe the large ones and their owners.
//!
//! Contract: every file of a [`Form`] is JSON of one shape:
//!
//! ```text
//! {
//!   "outcore": KIND, "version": N, "name": NAME, "place": PLACE, "body": { ... },
//!   "checksum": "16 hexadecimal digits"
//! }
//! ```
//!
//! The checksum is XXH3 over the exact bytes before it, and nothing may follow it, so a flipped
//! bit, a truncation and an extra space are all detected. `name` is the file's own name (for
//! example a dataset's). `place` is what the file belongs to (a volume and a drive, a view).
//! [`Form::open`] rejects a file that was copied or renamed to take another's place, and names any
//! unknown kind, version or field. It also rejects files without a checksum, which versions before
//! 2 wrote, and says what to do.
//!
//! The checksum guards against faults, not against malice. The caller writes the file, by renaming
//! a durable file into place ([`crate::drive::PrivateDir::write_file`]).
//!
//! Bounds: only regular files of at most [`Form::len_bytes_max`] bytes are read.

mod directory;
pub mod paths;

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::checksum::bytes_checksum;
use crate::error::{Error, Result};

pub use directory::{is_own_directory, refuse_others, refuse_own_directory};

/// Text between the body and the digits of the checksum.
const BEFORE_SUM: &str = ",\n  \"checksum\": \"";
const AFTER_SUM: &str = "\"\n}\n";
/// End of the text of an envelope without its checksum.
const OPEN_END: &str = "\n}";
const SUM_DIGITS: usize = 16;

/// A kind of metadata file: its name, and what to do about an unusable one.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Name of the kind: "dataset manifest".
    pub kind: &'static str,
    /// The version that is written, and the newest one that is read.
    pub version: u32,
    /// The oldest version that is read.
    pub version_min: u32,
    /// The operation that reads it: "open volume".
    pub operation: &'static str,
    /// Longest file of this kind.
    pub len_bytes_max: u64,
    /// What to do about a damaged file.
    pub remedy: &'static str,
    /// What to do about a file of an earlier version.
    pub upgrade: &'static str,
}

/// The owner of a file.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The file's own name, or that of the thing it describes.
    pub name: &'a str,
    /// The place of the file; `None` if a reader does not know the place in advance and compares it
    /// itself.
    pub place: Option<&'a str>,
}

impl<'a> Owner<'a> {
    /// The owner of a file that is known only by its name.
    pub fn of(name: &'a str) -> Self {
        Owner { name, place: None }
    }
}

/// The contents of a file, and the place that it names.
#[derive(Debug)]
pub struct Opened<B> {
    /// The place for which the file was written.
    pub place: String,
    /// The contents of the file.
    pub body: B,
}

#[derive(Serialize)]
struct Written<'a, B> {
    outcore: &'a str,
    version: u32,
    name: &'a str,
    place: &'a str,
    body: &'a B,
}

/// The fields that all versions have.
#[derive(Deserialize)]
struct Head {
    outcore: Option<String>,
    version: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(rename = "outcore")]
    _kind: String,
    #[serde(rename = "version")]
    _version: u32,
    name: String,
    place: String,
    #[serde(borrow)]
    body: &'a RawValue,
    #[serde(rename = "checksum")]
    _checksum: String,
}

impl Form {
    /// The bytes of a file that belongs to `owner` and contains `body`.
    ///
    /// # Errors
    /// A body that is not JSON, which no caller passes.
    pub fn seal<B: Serialize>(&self, owner: Owner<'_>, body: &B) -> Result<Vec<u8>> {
        let written = Written {
            outcore: self.kind,
            version: self.version,
            name: owner.name,
            place: owner.place.unwrap_or_default(),
            body,
        };
        let failed = |cause: String| Error::usage(format!("write {}", self.kind), cause);
        let mut text =
            serde_json::to_string_pretty(&written).map_err(|error| failed(error.to_string()))?;
        text.truncate(text.len() - OPEN_END.len());
        let checksum = bytes_checksum(text.as_bytes());
        text.push_str(BEFORE_SUM);
        text.push_str(&format!("{checksum:016x}"));
        text.push_str(AFTER_SUM);
        match text.len() as u64 <= self.len_bytes_max {
            true => Ok(text.into_bytes()),
            false => Err(failed(format!(
                "{} bytes exceed the limit of {}",
                text.len(),
                self.len_bytes_max
            ))),
        }
    }

    /// The contents of the file at `path`, whose bytes are `bytes`, if they were written for
    /// `owner`.
    ///
    /// # Errors
    /// Corrupt: damaged, or written for another owner. Usage: an unknown version.
    pub fn open<B: DeserializeOwned>(
        &self,
        path: &Path,
        owner: Owner<'_>,
        bytes: &[u8],
    ) -> Result<Opened<B>> {
        self.check_sum(bytes).map_err(|error| error.path(path))?;
        let broken = |cause: String| self.damage(cause).path(path);
        let unreadable = |error: serde_json::Error| broken(error.to_string());
        let head: Head = serde_json::from_slice(bytes).map_err(unreadable)?;
        let kind = head.outcore.unwrap_or_default();
        if kind != self.kind {
            return Err(broken(format!(
                "the file describes a {kind}, not a {}",
                self.kind
            )));
        }
        let version = head.version.unwrap_or_default();
        if !(self.version_min..=self.version).contains(&version) {
            let hint = match version > self.version {
                true => "use the version of outcore that wrote it, or a newer one",
                false => self.upgrade,
            };
            return Err(self.unknown_version(version).path(path).hint(hint));
        }
        let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(unreadable)?;
        if envelope.name != owner.name {
            return Err(broken(format!(
                "the file describes `{}`, not `{}`: it was copied or renamed",
                envelope.name, owner.name
            )));
        }
        if owner.place.is_some_and(|place| place != envelope.place) {
            return Err(broken(format!(
                "the file belongs to {}, not to {}: it was copied",
                envelope.place,
                owner.place.unwrap_or_default()
            )));
        }
        let body = serde_json::from_str(envelope.body.get()).map_err(unreadable)?;
        let place = envelope.place;
        Ok(Opened { place, body })
    }

    /// Reads the file at `path`, which belongs to `owner`.
    ///
    /// # Errors
    /// The file cannot be read; the errors of [`Form::open`].
    pub fn read<B: DeserializeOwned>(&self, path: &Path, owner: Owner<'_>) -> Result<Opened<B>> {
        let bytes = read_file(path, self.len_bytes_max)
            .map_err(|error| Error::io(self.operation, &error).path(path))?;
        self.check_len(bytes.len() as u64)
            .map_err(|error| error.path(path))?;
        self.open(path, owner, &bytes)
    }

    /// Fails for more bytes than a file of this kind may have.
    ///
    /// # Errors
    /// Corrupt.
    pub fn check_len(&self, len_bytes: u64) -> Result<()> {
        match len_bytes <= self.len_bytes_max {
            true => Ok(()),
            false => Err(self.damage(format!(
                "a {} has at most {} bytes",
                self.kind, self.len_bytes_max
            ))),
        }
    }

    /// The error for a file that is unusable because of `cause`.
    pub fn damage(&self, cause: impl Into<String>) -> Error {
        Error::corrupt(self.operation, cause).hint(self.remedy)
    }

    fn unknown_version(&self, version: u32) -> Error {
        let read = match self.version_min == self.version {
            true => format!("version {}", self.version),
            false => format!("versions {} to {}", self.version_min, self.version),
        };
        let cause = format!(
            "a {} of version {version}; this outcore reads {read}",
            self.kind
        );
        Error::usage(self.operation, cause)
    }

    /// Fails unless the bytes end with the checksum of the bytes before it.
    fn check_sum(&self, bytes: &[u8]) -> Result<()> {
        let tail_len = BEFORE_SUM.len() + SUM_DIGITS + AFTER_SUM.len();
        let (text, tail) = bytes.split_at(bytes.len().saturating_sub(tail_len));
        let wanted = format!("{BEFORE_SUM}{:016x}{AFTER_SUM}", bytes_checksum(text));
        if tail == wanted.as_bytes() {
            return Ok(());
        }
        // Files of versions without checksums have none of the words with which an envelope begins.
        match serde_json::from_slice::<Head>(bytes) {
            Ok(Head {
                outcore: None,
                version: Some(version),
            }) if version < self.version_min => {
                Err(self.unknown_version(version).hint(self.upgrade))
            }
            _ => Err(self.damage("the file is damaged: it differs from what was written")),
        }
    }
}

/// The bytes of a regular file; one more than `len_bytes_max` if it is longer.
pub(crate) fn read_file(path: &Path, len_bytes_max: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe of that name would block, or reading it would never end.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(len_bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    const FORM: Form = Form {
        kind: "test note",
        version: 2,
        version_min: 2,
        operation: "read note",
        len_bytes_max: 1000,
        remedy: "write it again",
        upgrade: "write it again",
    };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        text: String,
        number: u64,
    }

    fn owner<'a>(name: &'a str, place: &'a str) -> Owner<'a> {
        Owner {
            name,
            place: Some(place),
        }
    }

    fn sealed() -> Vec<u8> {
        let note = Note {
            text: "\"checksum\": \"{}\n".to_string(),
            number: 7,
        };
        FORM.seal(owner("a", "here"), &note).unwrap()
    }

    fn open(bytes: &[u8], name: &str, place: &str) -> Result<Note> {
        let opened = FORM.open(Path::new("/x/a.json"), owner(name, place), bytes)?;
        assert_eq!(opened.place, "here");
        Ok(opened.body)
    }

    #[test]
    fn a_flipped_bit_a_cut_and_a_byte_too_many_are_all_found_and_name_the_file() {
        let whole = sealed();
        assert_eq!(open(&whole, "a", "here").unwrap().number, 7);
        let mut damaged = Vec::new();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            damaged.push(bytes);
        }
        damaged.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
        damaged.push([&whole[..], b"\n"].concat());
        damaged.push([b" ", &whole[..]].concat());
        for bytes in damaged {
            let error = open(&bytes, "a", "here").unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert_eq!(error.file_path(), Some(Path::new("/x/a.json")), "{error}");
            assert_eq!(error.next_step(), Some("write it again"), "{error}");
        }
    }

    #[test]
    fn what_was_written_for_another_is_refused_by_its_name() {
        let whole = sealed();
        let error = open(&whole, "b", "here").unwrap_err().to_string();
        assert!(error.contains("describes `a`, not `b`"), "{error}");
        let error = open(&whole, "a", "there").unwrap_err().to_string();
        assert!(error.contains("belongs to here, not to there"), "{error}");
    }

    #[test]
    fn kinds_versions_and_fields_that_are_not_known_are_refused_by_name() {
        let say = |form: Form, body: &serde_json::Value| {
            let bytes = form.seal(owner("a", "here"), body).unwrap();
            open(&bytes, "a", "here").unwrap_err()
        };
        let body = serde_json::json!({"text": "", "number": 1});
        let kind = say(
            Form {
                kind: "test map",
                ..FORM
            },
            &body,
        );
        assert!(kind.to_string().contains("a test map, not a test note"));
        let version = say(Form { version: 3, ..FORM }, &body);
        assert_eq!(version.kind(), Kind::Usage);
        assert!(version.to_string().contains("version 3"), "{version}");
        let version = say(Form { version: 1, ..FORM }, &body);
        assert_eq!(version.next_step(), Some("write it again"));
        let field = say(
            FORM,
            &serde_json::json!({"text": "", "number": 1, "colour": 2}),
        );
        assert!(field.to_string().contains("`colour`"), "{field}");
    }

    #[test]
    fn files_from_before_there_were_checksums_are_told_from_damaged_ones() {
        let old = br#"{"version": 1, "text": "", "number": 1}"#;
        let error = open(old, "a", "here").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert_eq!(error.next_step(), Some("write it again"));
        assert_eq!(open(b"{}", "a", "here").unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn neither_a_long_file_nor_a_pipe_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        std::fs::write(&path, vec![b' '; 5000]).unwrap();
        let read = |path: &Path| FORM.read::<Note>(path, owner("a", "here")).unwrap_err();
        let error = read(&path);
        assert!(error.cause().contains("at most 1000 bytes"), "{error}");
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let error = read(&pipe);
        assert!(error.cause().contains("not a regular file"), "{error}");
    }
}
