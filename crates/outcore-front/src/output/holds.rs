//! The contents of a result, and the names that its files may have.
//!
//! Contract: pure. A name whose extension does not match the contents is rejected; for GNU sort a
//! name has no meaning ([`Holds::Bytes`]).

use std::path::Path;

use outcore::{Error, Result};

use super::CREATE;
use crate::compress::Compression;

/// The contents of a result, which decide the names that its files may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Binary records: raw, or a NumPy array.
    Records,
    /// Vectors: of a format of vectors, raw, or a NumPy array.
    Vectors,
    /// Lines of text, possibly compressed.
    Lines,
    /// Lines in the sense of GNU sort, for which the name of a file has no meaning.
    Bytes,
}

/// Extensions of files in formats that are not written here.
const FOREIGN: [&str; 26] = [
    "npz", "parquet", "pq", "arrow", "arrows", "feather", "ipc", "orc", "avro", "h5", "hdf5", "nc",
    "mat", "xlsx", "xls", "zip", "tar", "7z", "lz4", "lz", "lzma", "Z", "sqlite", "duckdb", "pkl",
    "pdf",
];
/// Extensions of files of vectors, with a header or with a length before each vector.
const VECTORS: [&str; 8] = [
    "fvecs", "bvecs", "ivecs", "fbin", "f16bin", "u8bin", "i8bin", "ibin",
];
/// Extensions of text files.
const TEXT: [&str; 6] = ["csv", "tsv", "txt", "json", "jsonl", "ndjson"];

/// Extensions of graphs, indexes and arrays in formats of other programs.
const OF_OTHERS: [&str; 20] = [
    "ann", "csv", "faiss", "fbin", "fvecs", "gexf", "gml", "graphml", "hnsw", "index", "json",
    "jsonl", "mtx", "npy", "npz", "parquet", "pq", "sg", "txt", "wsg",
];

/// Fails if a file in outcore's own format `what` has the extension of another program's format.
/// `name` is an example of a good name.
///
/// # Errors
/// Usage.
pub fn check_is_own(what: &str, name: &str, output: &Path) -> Result<()> {
    let end = output
        .extension()
        .and_then(|end| end.to_str())
        .unwrap_or("");
    if !OF_OTHERS.contains(&end.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let cause = format!("{what} of outcore is not a .{end} file");
    Err(Error::usage(CREATE, cause)
        .path(output)
        .hint(format!("name it for example {name}")))
}

impl Holds {
    /// The required content of a file of this name: vectors, compressed lines, or nothing special.
    pub fn of_name(name: &Path) -> Option<Self> {
        let end = name.extension().and_then(|end| end.to_str())?;
        match Compression::of(name) {
            Some(_) => Some(Holds::Lines),
            None => VECTORS.contains(&end).then_some(Holds::Vectors),
        }
    }

    /// Fails if a file with these contents must not be called `name`.
    ///
    /// # Errors
    /// Usage.
    pub fn check_name(self, name: &Path) -> Result<()> {
        let end = name.extension().and_then(|end| end.to_str()).unwrap_or("");
        let refuse = |cause: String, hint: &str| {
            Err(Error::usage(CREATE, cause)
                .path(name)
                .hint(hint.to_string()))
        };
        let is_foreign = FOREIGN.contains(&end);
        match self {
            Holds::Vectors if is_foreign || TEXT.contains(&end) => refuse(
                format!("vectors cannot be written as .{end}"),
                "end its name in .npy, .fvecs or .fbin, or in .bin for raw numbers",
            ),
            Holds::Records | Holds::Vectors if Compression::of(name).is_some() => refuse(
                format!("{} are not compressed", self.plural()),
                "name it without the ending; only lines are written compressed",
            ),
            Holds::Records if is_foreign || TEXT.contains(&end) => refuse(
                format!("binary records cannot be written as .{end}"),
                "end its name in .npy for an array of NumPy, or in .bin for raw records",
            ),
            Holds::Records if VECTORS.contains(&end) => refuse(
                format!("binary records cannot be written as .{end}"),
                "write .npy, then convert the file with `outcore vector convert`",
            ),
            Holds::Lines if end == "npy" => refuse(
                "lines cannot be a NumPy array".to_string(),
                "give another name, or pass the type of the records with --type",
            ),
            Holds::Lines if is_foreign => refuse(
                format!("lines cannot be written as .{end}"),
                "give another name; .gz, .zst, .bz2 and .xz are written compressed",
            ),
            Holds::Records | Holds::Vectors | Holds::Lines | Holds::Bytes => Ok(()),
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Holds::Records => "records",
            Holds::Vectors => "vectors",
            Holds::Lines | Holds::Bytes => "lines",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_promise_what_files_hold() {
        let check = |holds: Holds, name: &str| holds.check_name(Path::new(name)).is_ok();
        for name in ["x.bin", "x.npy", "x", "x.dat", "a.csv/x"] {
            assert!(check(Holds::Records, name), "{name}");
        }
        for name in [
            "x.parquet",
            "x.npz",
            "x.csv",
            "x.arrow",
            "x.jsonl",
            "x.gz",
            "x.xz",
            "x.fbin",
        ] {
            assert!(!check(Holds::Records, name), "{name}");
        }
        for name in ["x.bin", "x.npy", "x", "x.fbin", "x.ivecs", "x.f32", "x.raw"] {
            assert!(check(Holds::Vectors, name), "{name}");
        }
        for name in ["x.txt", "x.csv", "x.json", "x.npz", "x.h5", "x.gz"] {
            assert!(!check(Holds::Vectors, name), "{name}");
        }
        for name in ["x.csv", "x.jsonl.zst", "x", "x.txt", "x.bz2", "x.log"] {
            assert!(check(Holds::Lines, name), "{name}");
        }
        for name in ["x.npy", "x.npz", "x.parquet", "x.arrow", "x.lz4"] {
            assert!(!check(Holds::Lines, name), "{name}");
            assert!(check(Holds::Bytes, name), "{name}");
        }
    }
}
