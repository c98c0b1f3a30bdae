//! An index of a file of vectors: one byte per number with a bound on the error, or the rows in
//! lists.
//!
//! Contract: an index without lists has a record ([`record`]) for each row of its base, about a
//! quarter of the size of the row in f32. A search reads the records instead of the rows, rules out
//! rows by the bound, and reads only the remaining rows from the base. So an index changes what is
//! read, and never the result. [`build`] writes it in one read of the base, absent or whole.
//!
//! An index with lists ([`lists`]) has the rows themselves, grouped by their nearest centroid. A
//! search of a few lists may miss neighbours; a search of all lists is exact.
//!
//! An index belongs to one base, and stores its type, length, modification time, and a checksum of
//! rows spread over the file. [`AnyIndex::open`] rejects a base that differs in any of them. Each
//! record has a checksum over its bytes, its position and the base, which is verified at every
//! read.
//!
//! Layout: [metadata](outcore_io::metadata) with its checksum, padded with zeros to
//! [`HEADER_BYTES`]; then the records.

mod build;
pub(crate) mod lists;
pub(crate) mod record;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use outcore::{Error, Job, Result};
use outcore_io::metadata::{Form, Owner};
use outcore_io::units;

use crate::format::known::{BaseFacts, modified_ns};
use crate::format::{Container, Element, VectorFile, start};

pub use build::{Built, build};
pub use lists::{ListOptions, build_lists};

/// Bytes before the first record.
const HEADER_BYTES: usize = 4096;
const NAME: &str = "vector index";
const AGAIN: &str = "make the index again: `outcore vector index`";

const FORM: Form = Form {
    kind: NAME,
    version: 2,
    version_min: 2,
    operation: "open vector index",
    len_bytes_max: HEADER_BYTES as u64,
    remedy: AGAIN,
    upgrade: AGAIN,
};

/// The metadata of an index.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    base: BaseFacts,
    /// `Some` for an index with lists instead of records.
    lists: Option<lists::ListFacts>,
}

/// The error for a base that has changed during the job.
fn changed(base: &Path) -> Error {
    let cause = "the file was changed while it was searched or indexed";
    Error::corrupt("read vectors", cause)
        .path(base)
        .hint("work on a copy that no program changes")
}

/// An index that matches its base.
#[derive(Debug, Clone)]
pub(crate) struct IndexFile {
    facts: BaseFacts,
    base: PathBuf,
    dimension: usize,
    /// The records, as vectors of bytes.
    records: VectorFile,
}

impl IndexFile {
    fn of(path: &Path, base: &VectorFile, facts: BaseFacts) -> Self {
        let records = VectorFile {
            path: path.to_path_buf(),
            container: Container::Raw,
            element: Element::I8,
            dimension: base.dimension + record::TAIL_BYTES,
            rows: base.rows,
            header_bytes: HEADER_BYTES as u64,
            first_row: 0,
        };
        IndexFile {
            facts,
            base: base.path.clone(),
            dimension: base.dimension,
            records,
        }
    }

    /// Opens an index without lists.
    fn checked(path: &Path, base: &VectorFile, facts: BaseFacts, len_bytes: u64) -> Result<Self> {
        let index = Self::of(path, base, facts);
        check_len(path, &index.records, len_bytes)?;
        Ok(index)
    }

    /// Fails if the base has changed since the index was opened.
    pub(crate) fn check_base(&self, job: &Job) -> Result<()> {
        match modified_ns(job, &self.base)? == self.facts.modified_ns {
            true => Ok(()),
            false => Err(changed(&self.base)),
        }
    }

    /// The records, which can be read as vectors.
    pub(crate) fn records(&self) -> &VectorFile {
        &self.records
    }

    /// Decodes the records in `bytes`, the first of which belongs to row `first`. Returns their
    /// facts, and the f32 values of their codes, vector after vector.
    ///
    /// # Errors
    /// Corrupt: a damaged record.
    pub(crate) fn decode(
        &self,
        first: u64,
        bytes: &[u8],
        numbers: &mut [f32],
        facts: &mut [record::Facts],
    ) -> Result<()> {
        let record_bytes = self.records.row_bytes();
        let records = || (first..).zip(bytes.chunks_exact(record_bytes));
        let broken =
            records().find(|(row, bytes)| !record::is_intact(bytes, self.facts.fingerprint, *row));
        if let Some((row, _)) = broken {
            return Err(FORM
                .damage(format!(
                    "the record of row {row} is damaged: it differs from what was written"
                ))
                .path(&self.records.path));
        }
        crate::product::vectorized(|| {
            let places = numbers
                .chunks_exact_mut(self.dimension)
                .zip(facts.iter_mut());
            for ((_, bytes), (numbers, facts)) in records().zip(places) {
                *facts = record::decode(bytes, numbers);
            }
        });
        Ok(())
    }
}

/// An open index of either kind.
#[derive(Debug)]
pub(crate) enum AnyIndex {
    /// Records, which do not change results.
    Records(IndexFile),
    /// Lists, of which a search reads a part.
    Lists(lists::ListFile),
}

impl AnyIndex {
    /// Opens the index of `base` at `path`.
    ///
    /// # Errors
    /// Usage: the base is not the indexed one, or has changed; an unknown version. Corrupt: damage.
    /// Errors of reading.
    pub(crate) fn open(job: &Job, path: &Path, base: &VectorFile) -> Result<Self> {
        let len_bytes = start::facts_of(job, path)?.len_bytes;
        let header_bytes = len_bytes.min(HEADER_BYTES as u64) as usize;
        let mut header = start::bytes_of(job, path, 0, header_bytes)?;
        let text_bytes = header.iter().rposition(|byte| *byte != 0);
        header.truncate(text_bytes.map_or(0, |last| last + 1));
        if !header.starts_with(b"{") {
            let cause = "it is not an index of vectors";
            return Err(Error::usage(FORM.operation, cause)
                .path(path)
                .hint("name a file that `outcore vector index` has made"));
        }
        let noted: Noted = FORM.open(path, Owner::of(NAME), &header)?.body;
        let found = BaseFacts::of(job, base)?;
        if let Some(cause) = difference(&noted.base, &found) {
            return Err(Error::usage(FORM.operation, cause).path(path).hint(
                "name the base that was indexed, or make the index again: `outcore vector index`",
            ));
        }
        Ok(match noted.lists {
            None => AnyIndex::Records(IndexFile::checked(path, base, found, len_bytes)?),
            Some(lists) => {
                let opened = lists::ListFile::open(job, path, len_bytes, base, found, lists)?;
                AnyIndex::Lists(opened)
            }
        })
    }
}

/// Fails unless the file at `path` ends with the last row.
fn check_len(path: &Path, rows: &VectorFile, len_bytes: u64) -> Result<()> {
    let wanted_bytes = rows.header_bytes + rows.data_bytes();
    match len_bytes == wanted_bytes {
        true => Ok(()),
        false => Err(FORM
            .damage(format!(
                "it has {}, not {}",
                units::counted(len_bytes, "byte"),
                units::count(wanted_bytes)
            ))
            .path(path)),
    }
}

/// Describes how a base differs from the indexed one.
fn difference(noted: &BaseFacts, found: &BaseFacts) -> Option<String> {
    if (noted.rows, &noted.vectors) != (found.rows, &found.vectors) {
        return Some(format!(
            "it is an index of {} of {}, but the base has {} of {}",
            units::counted(noted.rows, "vector"),
            noted.vectors,
            units::counted(found.rows, "vector"),
            found.vectors,
        ));
    }
    if noted.modified_ns == found.modified_ns && noted == found {
        return None;
    }
    let cause = match noted.fingerprint == found.fingerprint {
        true => {
            "the base's modification time differs from that in the index, so the base may have \
             changed"
        }
        false => "the base has changed since it was indexed, or it is another file",
    };
    Some(cause.to_string())
}
