//! Edges in arrays of NumPy: one row per edge, with source and target.
//!
//! Contract: [`files`] reads only the headers. The data behind them are pairs of numbers, which are
//! read in place. All files have one type of id, of four or eight bytes in little-endian order.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use outcore::key::NpyArray;
use outcore::{Error, Input, Result};
use outcore_io::units;

use super::item::ItemShape;
use super::{EdgeFiles, READ, ReadOptions};

/// A header must end within this many bytes of a file.
const HEAD_BYTES: usize = 64 << 10;

/// The header of an array of edges.
struct Header {
    input: Input,
    /// NumPy's name of the type of ids.
    descr: String,
}

/// The edges in `files`, which are arrays of two columns.
///
/// # Errors
/// Usage: another shape or type, files of several types, weights. I/O.
pub(super) fn files(files: &[PathBuf], options: &ReadOptions) -> Result<EdgeFiles> {
    if options.is_weighted {
        let name = files.first().map(|file| options.name_of(file));
        let cause = "an array of ids has no weights";
        return Err(Error::usage(READ, cause)
            .path(name.unwrap_or(Path::new("")))
            .hint("write source, target and weight as CSV or Parquet"));
    }
    let headers: Vec<Header> = files
        .iter()
        .map(|file| header_of(file).map_err(|error| error.path(options.name_of(file))))
        .collect::<Result<_>>()?;
    let descr = headers.first().map_or("", |first| first.descr.as_str());
    if let Some(other) = headers.iter().find(|header| header.descr != descr) {
        let cause = format!(
            "its ids are {}, but those of the first file {descr}",
            other.descr
        );
        return Err(Error::usage(READ, cause)
            .path(options.name_of(&other.input.path))
            .hint("write all arrays with one dtype"));
    }
    Ok(EdgeFiles {
        shape: ItemShape::new(descr.ends_with('8'), None),
        is_signed: descr.contains('i'),
        inputs: headers.into_iter().map(|header| header.input).collect(),
        ..EdgeFiles::default()
    })
}

fn header_of(path: &Path) -> Result<Header> {
    let failed = |error| Error::io(READ, &error);
    let file = File::open(path).map_err(failed)?;
    let mut head = vec![0; HEAD_BYTES];
    let mut len = 0;
    loop {
        match file.read_at(&mut head[len..], len as u64).map_err(failed)? {
            0 => break,
            more => len += more,
        }
    }
    let array = NpyArray::parse(&head[..len])?;
    let is_pair = array.row_shape[..] == [2];
    let descr = array.descr.trim_matches(['\'', '"']);
    let is_id = matches!(descr, "<u4" | "<i4" | "<u8" | "<i8");
    if !is_pair || !is_id {
        let shape = array.row_shape.iter().map(|size| format!(", {size}"));
        let shape: String = shape.collect();
        let cause = format!(
            "its header says {descr} of the shape ({}{shape}), which is not edges",
            array.rows
        );
        return Err(Error::usage(READ, cause).hint(
            "save two columns of whole numbers: edges.astype(numpy.uint32), of the shape (n, 2)",
        ));
    }
    let id_bytes = if descr.ends_with('8') { 8 } else { 4 };
    let wanted_bytes = array.rows.saturating_mul(2 * id_bytes) + array.header_bytes as u64;
    let file_bytes = file.metadata().map_err(failed)?.len();
    if file_bytes != wanted_bytes {
        let cause = format!(
            "its header promises {}, which is a file of {wanted_bytes} bytes, but it has {file_bytes}",
            units::counted(array.rows, "edge")
        );
        return Err(Error::corrupt(READ, cause).hint("check whether the file is complete"));
    }
    Ok(Header {
        input: Input {
            path: path.to_path_buf(),
            header_bytes: array.header_bytes as u64,
            data_bytes: None,
        },
        descr: descr.to_owned(),
    })
}
