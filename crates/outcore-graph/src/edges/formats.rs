//! Which format a file of edges has, and what stands before its edges.
//!
//! Contract: formats are told by the ends of names; only the heads of files are read here. Sources: the SNAP
//! collection's edge lists; the GAP Benchmark Suite's `.el`, `.wel`, `.sg` and `.wsg` (Beamer, Asanovic, Patterson,
//! "The GAP Benchmark Suite", 2015, and its `reader.h`); NIST's Matrix Market coordinate format; `packed_edge` of Graph500's
//! `generator/graph_generator.h`.

use std::path::{Path, PathBuf};

use outcore::{Error, Job, Result};

use super::item::ItemShape;
use super::npz::{self, Matrix};
use super::serial::{self, Serial};
use super::text::Syntax;
use super::{READ, ReadOptions};

/// The longest head of a text file: comments and sizes.
const HEAD_BYTES: usize = 64 << 10;

/// A format of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeFormat {
    /// Pairs of ids of four bytes, each pair followed by a float of four bytes if there are weights.
    Pairs32,
    /// Pairs of ids of eight bytes.
    Pairs64,
    /// Two ids a line, apart by blanks or tabs, and maybe a weight; lines of `#` or `%` are comments.
    Text,
    /// Matrix Market: a line a stored entry, counted from 1.
    MatrixMarket,
    /// Columns of CSV: source, target and maybe a weight.
    Csv,
    /// GAP's serialized graph.
    Serial,
    /// The same with weights.
    WeightedSerial,
    /// Graph500's packed edges of twelve bytes.
    Graph500,
    /// A sparse matrix of SciPy.
    Npz,
}

/// What text may begin with that says it is UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What compressed files begin with, and what unpacks them.
const PACKED: [(&[u8], &str); 4] = [
    (b"\x1F\x8B", "gzip"),
    (b"\x28\xB5\x2F\xFD", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xFD7zXZ\0", "xz"),
];

const NAMES: [(&str, EdgeFormat); 9] = [
    ("u32", EdgeFormat::Pairs32),
    ("u64", EdgeFormat::Pairs64),
    ("text", EdgeFormat::Text),
    ("mtx", EdgeFormat::MatrixMarket),
    ("csv", EdgeFormat::Csv),
    ("sg", EdgeFormat::Serial),
    ("wsg", EdgeFormat::WeightedSerial),
    ("graph500", EdgeFormat::Graph500),
    ("npz", EdgeFormat::Npz),
];

const ENDS: [(&str, EdgeFormat); 12] = [
    ("txt", EdgeFormat::Text),
    ("tsv", EdgeFormat::Text),
    ("el", EdgeFormat::Text),
    ("wel", EdgeFormat::Text),
    ("edges", EdgeFormat::Text),
    ("edgelist", EdgeFormat::Text),
    ("mtx", EdgeFormat::MatrixMarket),
    ("csv", EdgeFormat::Csv),
    ("sg", EdgeFormat::Serial),
    ("wsg", EdgeFormat::WeightedSerial),
    ("u32", EdgeFormat::Pairs32),
    ("npz", EdgeFormat::Npz),
];

impl EdgeFormat {
    /// The format of that name: `u32`, `u64`, `text`, `mtx`, `csv`, `sg`, `wsg`,
    /// `graph500` or `npz`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for another.
    pub fn parse(name: &str) -> Result<Self> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            Error::usage(READ, format!("no format of edges is called `{name}`"))
                .hint("use u32, u64, text, mtx, csv, sg, wsg, graph500 or npz")
        })
    }

    /// What a file has of an edge, where it is read as it is.
    pub(super) fn shape(self, is_weighted: bool) -> Option<ItemShape> {
        match self {
            EdgeFormat::Pairs32 => Some(ItemShape::new(false, is_weighted)),
            EdgeFormat::Pairs64 => Some(ItemShape::new(true, is_weighted)),
            EdgeFormat::Graph500 => Some(ItemShape::packed()),
            _ => None,
        }
    }
}

/// The format of `files`: the one that is asked for, or that of their names.
///
/// # Errors
/// [`outcore::Kind::Usage`] for no files, for names that say no format or several, and for options that say nothing of files of
/// that format.
pub(super) fn format_of(files: &[PathBuf], options: &ReadOptions) -> Result<EdgeFormat> {
    let Some(first) = files.first() else {
        return Err(Error::usage(READ, "no file of edges is named").hint("name one or several"));
    };
    let format = match options.format {
        Some(format) => format,
        None => format_of_names(first, files)?,
    };
    let only_csv = |flag: &str, hint: &str| {
        let cause = format!("{flag} is for CSV, and this file has no named columns");
        Err(Error::usage(READ, cause).path(first).hint(hint))
    };
    match format {
        EdgeFormat::Csv => Ok(format),
        _ if options.weight_column.is_some() => only_csv(
            "--weights=COLUMN",
            "use --weights alone: the weight follows the two ids",
        ),
        _ if options.has_no_header => only_csv("--no-header", "leave --no-header out"),
        _ => Ok(format),
    }
}

/// The format that a name tells.
fn told_by(path: &Path) -> Option<EdgeFormat> {
    let end = path.extension().and_then(|end| end.to_str());
    let known = ENDS.iter().find(|(known, _)| Some(*known) == end);
    known.map(|(_, format)| *format)
}

/// The format that the name of the `first` of `files` tells, and no name of the others contradicts.
fn format_of_names(first: &Path, files: &[PathBuf]) -> Result<EdgeFormat> {
    let Some(format) = told_by(first) else {
        let end = first.extension().and_then(|end| end.to_str());
        let hint = match end {
            Some("gz" | "zst" | "bz2" | "xz") => {
                "compressed edges are not unpacked: unpack the file first, as in `gzip -dc FILE > edges.txt`"
            }
            _ => {
                "give --type u32 or u64 for pairs of numbers, or text, mtx, csv, sg, wsg, graph500, npz"
            }
        };
        return Err(
            Error::usage(READ, "its name does not say how it holds edges")
                .path(first)
                .hint(hint),
        );
    };
    let other = files
        .iter()
        .find(|file| told_by(file).is_some_and(|other| other != format));
    match other {
        None => Ok(format),
        Some(other) => {
            let cause = format!(
                "its name tells another format than that of {}",
                first.display()
            );
            Err(Error::usage(READ, cause).path(other).hint(
                "convert files of one format at a time, or say with --type that all are of one",
            ))
        }
    }
}

/// What stands before the edges of a file, and how they are written.
#[derive(Debug)]
pub(crate) struct Header {
    /// Bytes before the first line of edges.
    pub(super) bytes: u64,
    pub(super) syntax: Syntax,
    pub(super) vertices: Option<u64>,
    /// Lines of edges that the head speaks of.
    pub(super) entries: Option<u64>,
    pub(super) is_undirected: bool,
    pub(super) is_weighted: bool,
    pub(super) serial: Option<Serial>,
    pub(super) matrix: Option<Matrix>,
}

/// Reads the head of a file.
pub(super) fn header_of(
    job: &Job,
    path: &Path,
    format: EdgeFormat,
    options: &ReadOptions,
) -> Result<Header> {
    let mut header = Header {
        bytes: 0,
        syntax: Syntax::blanks(options.is_weighted),
        vertices: None,
        entries: None,
        is_undirected: false,
        is_weighted: options.is_weighted,
        serial: None,
        matrix: None,
    };
    if matches!(format, EdgeFormat::Serial | EdgeFormat::WeightedSerial) {
        let is_stored = format == EdgeFormat::WeightedSerial;
        if options.is_weighted && !is_stored {
            let cause = "weights are asked for, and a graph of this kind has none";
            return Err(Error::usage(READ, cause)
                .path(path)
                .hint("convert a .wsg file, or leave --weights out"));
        }
        let serial = serial::open(job, path, (is_stored, options.is_weighted))?;
        header.vertices = Some(serial.vertices);
        header.is_undirected = !serial.is_directed;
        header.serial = Some(serial);
        return Ok(header);
    }
    if format == EdgeFormat::Npz {
        let matrix = npz::open(job, path, options.is_weighted)?;
        header.vertices = Some(matrix.vertices());
        header.matrix = Some(matrix);
        return Ok(header);
    }
    let mut head = vec![0; HEAD_BYTES];
    let found = job.device.read_head(path, &mut head)?;
    head.truncate(found);
    refuse_packed(path, &head)?;
    if head.starts_with(BYTE_ORDER_MARK) {
        header.bytes = BYTE_ORDER_MARK.len() as u64;
    }
    let text = &head[header.bytes as usize..];
    match format {
        EdgeFormat::MatrixMarket => matrix_market(path, text, &mut header)?,
        EdgeFormat::Csv => csv(path, text, options, &mut header)?,
        _ => {}
    }
    Ok(header)
}

/// Fails for text that is compressed.
fn refuse_packed(path: &Path, head: &[u8]) -> Result<()> {
    let packed = PACKED.iter().find(|(begin, _)| head.starts_with(begin));
    match packed {
        None => Ok(()),
        Some((_, program)) => Err(Error::usage(
            READ,
            "it is compressed, and edges are not unpacked",
        )
        .path(path)
        .hint(format!("unpack it first: `{program} -dc FILE > edges.txt`"))),
    }
}

fn corrupt(path: &Path, cause: impl Into<String>) -> Error {
    Error::corrupt(READ, cause).path(path)
}

/// The banner, comments and the line of sizes.
fn matrix_market(path: &Path, head: &[u8], header: &mut Header) -> Result<()> {
    let mut at = header.bytes as usize;
    let mut is_symmetric = None;
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if is_symmetric.is_none() {
            let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
            let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
            let ["%%matrixmarket", "matrix", "coordinate", field, symmetry] = lower[..] else {
                let cause = "its first line is not `%%MatrixMarket matrix coordinate ...`";
                return Err(corrupt(path, cause).hint("only sparse matrices have edges"));
            };
            if symmetry == "skew-symmetric" && header.is_weighted {
                let cause = "it is skew-symmetric: the weights of an edge differ by direction";
                return Err(Error::usage(READ, cause)
                    .path(path)
                    .hint("write both directions out, or leave --weights out"));
            }
            if header.is_weighted && matches!(field, "pattern" | "complex") {
                let cause = format!("its entries are `{field}`, which have no real weight");
                return Err(Error::usage(READ, cause)
                    .path(path)
                    .hint("leave --weights out"));
            }
            is_symmetric = Some(symmetry != "general");
            continue;
        }
        if line.starts_with(b"%") || words.is_empty() {
            continue;
        }
        let sizes: std::result::Result<Vec<u64>, _> =
            words.iter().map(|word| word.parse()).collect();
        let Ok([rows, columns, entries]) = sizes.as_deref() else {
            return Err(corrupt(
                path,
                "the line of sizes is not `rows columns entries`",
            ));
        };
        let vertices = *rows.max(columns);
        header.bytes = at as u64;
        header.vertices = Some(vertices);
        header.entries = Some(*entries);
        header.is_undirected = is_symmetric == Some(true);
        header.syntax = Syntax::blanks(header.is_weighted).counted_from_one(vertices);
        return Ok(());
    }
    Err(corrupt(
        path,
        "there is no line of sizes in its first 64 KiB",
    ))
}

/// The names of the columns, if the first line has no numbers.
fn csv(path: &Path, head: &[u8], options: &ReadOptions, header: &mut Header) -> Result<()> {
    let first = head.split_inclusive(|byte| *byte == b'\n').next();
    let first = first.unwrap_or_default();
    let text = String::from_utf8_lossy(first);
    let delimiter = match (text.contains(','), text.contains(';')) {
        (false, true) => b';',
        _ => b',',
    };
    let names: Vec<&str> = text.trim().split(char::from(delimiter)).collect();
    let is_number = |name: &&str| name.trim().parse::<f64>().is_ok();
    let has_names =
        !options.has_no_header && !names.iter().take(2).all(is_number) && !first.is_empty();
    if has_names {
        header.bytes += first.len() as u64;
    }
    let weight = match (&options.weight_column, options.is_weighted) {
        (Some(wanted), _) => {
            let unquoted = |name: &&str| name.trim().trim_matches('"') == wanted;
            let found = names.iter().position(unquoted);
            let found = found.filter(|_| has_names);
            Some(found.ok_or_else(|| {
                Error::usage(READ, format!("no column is called `{wanted}`"))
                    .path(path)
                    .hint(format!("the first line is `{}`", text.trim()))
            })?)
        }
        (None, true) => Some(2),
        (None, false) => None,
    };
    header.syntax = Syntax::delimited(delimiter, weight);
    Ok(())
}
