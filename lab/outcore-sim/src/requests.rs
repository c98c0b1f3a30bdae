//! Every request of a run as a table: CSV, or Parquet if that is built in.
//!
//! Contract: one row per request in the order of completion, with columns [`COLUMNS`]. Times are in
//! nanoseconds with all three digits of the picoseconds; addresses and lengths are in sectors of
//! 512 bytes. The file is either complete or absent ([`NewFile`]). The extension of the name
//! selects the format. Bounds: a buffer of 64 KiB; for Parquet, a row group of 128 Ki rows.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use outcore_io::drive::NewFile;
use outcore_io::{Error, Result};

use crate::drive::{Done, Op};
use crate::quantities::NS;

#[cfg(feature = "parquet")]
mod columnar;

pub(crate) const OPERATION: &str = "write requests";

/// The columns.
pub(crate) const COLUMNS: [&str; 7] = [
    "flow",
    "op",
    "lba",
    "sectors",
    "arrival_ns",
    "enqueue_ns",
    "complete_ns",
];

/// Name of an operation in a table.
pub(crate) fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Trim => "trim",
    }
}

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Text (CSV).
    Csv,
    /// Columns (Parquet).
    Parquet,
}

impl Table {
    /// The format of a file according to its name, if it can be written.
    ///
    /// # Errors
    /// An extension other than `.csv` and `.parquet`, or Parquet if it is not built in.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|text| text.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Ok(Table::Csv),
            Some("parquet") if cfg!(feature = "parquet") => Ok(Table::Parquet),
            Some("parquet") => Err(Error::usage(
                OPERATION,
                "this program was built without Parquet",
            )
            .path(path)
            .hint("name the file .csv, or build outcore-lab with --features parquet")),
            _ => Err(
                Error::usage(OPERATION, "the name does not give the format of a table")
                    .path(path)
                    .hint("end the name in .csv or .parquet"),
            ),
        }
    }
}

/// Writes the requests of `log` to `file`.
///
/// # Errors
/// As [`Table::of`] and [`NewFile::fill`].
pub(crate) fn write_requests(file: &NewFile, log: &[Done]) -> Result<()> {
    let path = file.path();
    let table = Table::of(path)?;
    let failed = |error: std::io::Error| Error::io(OPERATION, &error).path(path);
    file.fill(|out| match table {
        Table::Csv => csv(BufWriter::with_capacity(64 << 10, out), log).map_err(failed),
        Table::Parquet => parquet(out, log).map_err(|error| error.path(path)),
    })
}

fn csv(mut out: impl Write, log: &[Done]) -> std::io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    let ns = |ps: u64| ps as f64 / NS as f64;
    for done in log {
        writeln!(
            out,
            "{},{},{},{},{:.3},{:.3},{:.3}",
            done.queue,
            op_name(done.op),
            done.lba,
            done.sectors,
            ns(done.arrival),
            ns(done.enqueued),
            ns(done.completed)
        )?;
    }
    out.flush()
}

#[cfg(feature = "parquet")]
fn parquet(file: &File, log: &[Done]) -> Result<()> {
    columnar::write(file, log)
}

#[cfg(not(feature = "parquet"))]
fn parquet(_file: &File, _log: &[Done]) -> Result<()> {
    // `Table::of` has rejected the name.
    Err(Error::usage(
        OPERATION,
        "this program was built without Parquet",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_format_or_the_error_says_what_to_do() {
        assert_eq!(Table::of(Path::new("a/b.CSV")).unwrap(), Table::Csv);
        let error = Table::of(Path::new("b.json")).unwrap_err();
        assert!(
            error.to_string().contains("end the name in .csv"),
            "{error}"
        );
        let parquet = Table::of(Path::new("b.parquet"));
        if cfg!(feature = "parquet") {
            assert_eq!(parquet.unwrap(), Table::Parquet);
        } else {
            let error = parquet.unwrap_err().to_string();
            assert!(error.contains("--features parquet"), "{error}");
        }
    }
}
