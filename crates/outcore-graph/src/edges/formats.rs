//! Detects the format of a file of edges, and reads its head.
//!
//! Contract: formats are detected by file extension; only the heads of files are read here.
//! Sources: the SNAP collection's edge lists; the GAP Benchmark Suite's `.el`, `.wel`, `.sg` and
//! `.wsg` (Beamer, Asanovic, Patterson, "The GAP Benchmark Suite", 2015, and its `reader.h`);
//! NIST's Matrix Market coordinate format; `packed_edge` of Graph500's
//! `generator/graph_generator.h`.

use std::path::{Path, PathBuf};

use outcore::{Error, Job, Result};

use super::fields::{csv_delimiter, csv_names, line_end};
use super::item::ItemShape;
use super::npz::{self, Matrix};
use super::serial::{self, Serial};
use super::sides::MatrixSides;
use super::syntax::Syntax;
use super::{READ, ReadOptions};
use crate::format::weight::WeightType;

/// The longest head of a text file: comments and sizes.
const HEAD_BYTES: usize = 64 << 10;

/// A format of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeFormat {
    /// Pairs of four-byte ids, each followed by a four-byte float if edges have weights.
    Pairs32,
    /// Pairs of eight-byte ids.
    Pairs64,
    /// Two ids per line, separated by blanks or tabs, and optionally a weight; lines that begin
    /// with `#`, `%` or `//` are comments.
    Text,
    /// Matrix Market: one line per stored entry, with indices from 1.
    MatrixMarket,
    /// CSV columns: source, target, and optionally a weight.
    Csv,
    /// GAP's serialized graph.
    Serial,
    /// GAP's serialized graph with weights.
    WeightedSerial,
    /// Graph500's packed edges of twelve bytes.
    Graph500,
    /// A sparse matrix of SciPy.
    Npz,
    /// An array of NumPy: two ids per row, of the type in its header.
    Array,
}

/// The byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The first bytes of compressed files, and the programs that unpack them.
const PACKED: [(&[u8], &str); 4] = [
    (b"\x1F\x8B", "gzip"),
    (b"\x28\xB5\x2F\xFD", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xFD7zXZ\0", "xz"),
];

const NAMES: [(&str, EdgeFormat); 7] = [
    ("text", EdgeFormat::Text),
    ("mtx", EdgeFormat::MatrixMarket),
    ("csv", EdgeFormat::Csv),
    ("sg", EdgeFormat::Serial),
    ("wsg", EdgeFormat::WeightedSerial),
    ("graph500", EdgeFormat::Graph500),
    ("npz", EdgeFormat::Npz),
];

const ENDS: [(&str, EdgeFormat); 13] = [
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
    ("npy", EdgeFormat::Array),
];

impl EdgeFormat {
    /// Returns the format with this name: `text`, `mtx`, `csv`, `sg`, `wsg`, `graph500` or `npz`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            Error::usage(READ, format!("no format of edges is called `{name}`")).hint(match name {
                "u32" | "u64" => "pairs of numbers have a type, not a format".to_owned(),
                _ => "use text, mtx, csv, sg, wsg, graph500 or npz".to_owned(),
            })
        })
    }

    /// Returns the format for pairs of numbers of this type, `u32` or `u64`.
    ///
    /// # Errors
    /// [`outcore::Kind::Usage`] for any other type.
    pub fn parse_numbers(name: &str) -> Result<Self> {
        match name {
            "u32" => Ok(EdgeFormat::Pairs32),
            "u64" => Ok(EdgeFormat::Pairs64),
            _ => Err(
                Error::usage(READ, format!("edges are not pairs of `{name}`")).hint(
                    match NAMES.iter().any(|(known, _)| *known == name) {
                        true => "this is a format, not a type: types are u32 and u64".to_owned(),
                        false => "use u32 or u64".to_owned(),
                    },
                ),
            ),
        }
    }

    /// Whether it is a binary format.
    pub fn is_binary(self) -> bool {
        !matches!(
            self,
            EdgeFormat::Text | EdgeFormat::MatrixMarket | EdgeFormat::Csv
        )
    }

    /// The shape of an edge in a file, if the file is read as it is.
    pub(super) fn shape(self, options: &ReadOptions) -> Option<ItemShape> {
        let weights = |of: WeightType| {
            let chosen = options.weight_type.unwrap_or(of);
            options.is_weighted.then_some(chosen)
        };
        match self {
            EdgeFormat::Pairs32 => Some(ItemShape::new(false, weights(WeightType::F32))),
            EdgeFormat::Pairs64 => Some(ItemShape::new(true, weights(WeightType::F64))),
            EdgeFormat::Graph500 => Some(ItemShape::packed()),
            _ => None,
        }
    }
}

/// Returns the format of `files`: the requested one, or the format of their extensions.
///
/// # Errors [`outcore::Kind::Usage`] for no files, for unknown extensions, for files of several
/// formats, and for options that do not apply to the format.
pub(super) fn format_of(files: &[PathBuf], options: &ReadOptions) -> Result<EdgeFormat> {
    let Some(first) = files.first() else {
        return Err(Error::usage(READ, "no file of edges is given").hint("name one or more files"));
    };
    let format = match options.format {
        Some(format) => {
            check_numbers(format, files, options)?;
            format
        }
        None => match format_of_names(options, files)? {
            // If a header names columns, tab-separated text is read as CSV.
            EdgeFormat::Text if is_tsv(options.name_of(first)) && names_columns(options) => {
                EdgeFormat::Csv
            }
            format => format,
        },
    };
    check_options(format, first, options)?;
    Ok(format)
}

/// Fails for pairs of numbers in a file whose extension means another format.
fn check_numbers(format: EdgeFormat, files: &[PathBuf], options: &ReadOptions) -> Result<()> {
    let mut names = files.iter().map(|file| options.name_of(file));
    let is_pairs = matches!(format, EdgeFormat::Pairs32 | EdgeFormat::Pairs64);
    // A type from the caller takes precedence over this extension.
    let is_other = |name: &&Path| told_by(name).is_some_and(|told| told != EdgeFormat::Pairs32);
    match names.find(|name| is_pairs && is_other(name)) {
        None => Ok(()),
        Some(name) => Err(Error::usage(
            READ,
            "a type is for binary pairs of numbers, but the file has the ending of another format",
        )
        .path(name)
        .hint("leave the type out: the header of .npy has it, and ids of text need none")),
    }
}

/// Fails for options that do not apply to files of this format.
fn check_options(format: EdgeFormat, first: &Path, options: &ReadOptions) -> Result<()> {
    let wrong = |cause: &str, hint: &str| Err(Error::usage(READ, cause).path(first).hint(hint));
    let is_matrix = matches!(format, EdgeFormat::MatrixMarket | EdgeFormat::Npz);
    if options.is_bipartite && !is_matrix {
        return wrong(
            "--bipartite is for matrices, but this file is not a matrix",
            "leave --bipartite out, or convert a .mtx or .npz file",
        );
    }
    if format == EdgeFormat::Csv {
        return match options.has_no_header && !options.columns.is_empty() {
            true => wrong(
                "--columns gives names, but with --no-header there are none",
                "leave one of the two out",
            ),
            false => Ok(()),
        };
    }
    if options.weight_column.is_some() {
        return wrong(
            "--weights=COLUMN is for CSV, but this file has no named columns",
            "use --weights without a name: the weight follows the two ids",
        );
    }
    if !options.columns.is_empty() {
        return wrong(
            "--columns is for CSV and tables, but this file has no named columns",
            "leave --columns out: source and target are the first two fields; text with a header is read with --from csv",
        );
    }
    if options.has_no_header {
        return wrong(
            "--no-header is for CSV, but this file has no named columns",
            "leave --no-header out",
        );
    }
    Ok(())
}

fn is_tsv(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "tsv")
}

/// Whether the options name columns.
fn names_columns(options: &ReadOptions) -> bool {
    options.weight_column.is_some() || !options.columns.is_empty()
}

/// The format of an extension.
fn told_by(path: &Path) -> Option<EdgeFormat> {
    let end = path.extension().and_then(|end| end.to_str());
    let known = ENDS.iter().find(|(known, _)| Some(*known) == end);
    known.map(|(_, format)| *format)
}

/// The format of the first file's extension; fails if another file's extension differs.
fn format_of_names(options: &ReadOptions, files: &[PathBuf]) -> Result<EdgeFormat> {
    let names: Vec<&Path> = files.iter().map(|file| options.name_of(file)).collect();
    let first = names.first().copied().unwrap_or(Path::new(""));
    let Some(format) = told_by(first) else {
        let end = first.extension().and_then(|end| end.to_str());
        let hint = match end {
            Some("gz" | "zst" | "bz2" | "xz") => {
                "unpack the file first, as in `gzip -dc FILE > edges.txt`"
            }
            _ => {
                "give --type u32 or u64 for pairs of numbers, or --from text, mtx, csv, sg, wsg, graph500 or npz"
            }
        };
        return Err(
            Error::usage(READ, "its name does not identify the format of edges")
                .path(first)
                .hint(hint),
        );
    };
    let other = names
        .iter()
        .find(|name| told_by(name).is_some_and(|other| other != format));
    match other {
        None => Ok(format),
        Some(other) => {
            let cause = format!(
                "its ending belongs to another format than the ending of {}",
                first.display()
            );
            Err(Error::usage(READ, cause).path(other).hint(
                "convert files of one format at a time, or pass one format for all of them with \
                 --from",
            ))
        }
    }
}

/// The head of a file, and the syntax of its edges.
#[derive(Debug)]
pub(crate) struct Header {
    /// Bytes before the first edge.
    pub(super) bytes: u64,
    pub(super) syntax: Syntax,
    pub(super) vertices: Option<u64>,
    /// The number of edges that the head states.
    pub(super) entries: Option<u64>,
    pub(super) is_undirected: bool,
    /// The type of the weights, if there are any.
    pub(super) weights: Option<WeightType>,
    /// Comments before the first edge.
    pub(super) skipped: u64,
    pub(super) serial: Option<Serial>,
    pub(super) matrix: Option<Matrix>,
}

/// The common type of the weights in all files, if there are any.
pub(super) fn weights_of(headers: &[Header]) -> Option<WeightType> {
    let weights = headers.iter().filter_map(|header| header.weights);
    weights.reduce(WeightType::with)
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
        // Text does not define the type of its numbers.
        weights: options
            .is_weighted
            .then(|| options.weight_type.unwrap_or(WeightType::F64)),
        skipped: 0,
        serial: None,
        matrix: None,
    };
    if matches!(format, EdgeFormat::Serial | EdgeFormat::WeightedSerial) {
        let is_stored = format == EdgeFormat::WeightedSerial;
        if options.is_weighted && !is_stored {
            let cause = "weights were requested, but files of this format have none";
            return Err(Error::usage(READ, cause)
                .path(path)
                .hint("convert a .wsg file, or leave --weights out"));
        }
        let serial = serial::open(job, path, is_stored, options.is_weighted)?;
        header.vertices = Some(serial.vertices);
        header.is_undirected = !serial.is_directed;
        header.weights = header
            .weights
            .map(|_| options.weight_type.unwrap_or(WeightType::I64));
        header.serial = Some(serial);
        return Ok(header);
    }
    if format == EdgeFormat::Npz {
        let matrix = npz::open(job, path, options)?;
        header.vertices = Some(matrix.vertices());
        header.weights = options.weight_type.or(matrix.weights());
        header.weights = header.weights.filter(|_| options.is_weighted);
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
    if !format.is_binary() {
        header.syntax.line_end = line_end(text);
    }
    match format {
        EdgeFormat::MatrixMarket => matrix_market(path, text, options, &mut header)?,
        EdgeFormat::Csv => csv(path, text, options, &mut header)?,
        _ => {}
    }
    Ok(header)
}

/// Fails for compressed text.
fn refuse_packed(path: &Path, head: &[u8]) -> Result<()> {
    let packed = PACKED.iter().find(|(begin, _)| head.starts_with(begin));
    match packed {
        None => Ok(()),
        Some((_, program)) => Err(Error::usage(
            READ,
            "it is compressed, but outcore does not decompress this format",
        )
        .path(path)
        .hint(format!("unpack it first: `{program} -dc FILE > edges.txt`"))),
    }
}

fn corrupt(path: &Path, cause: impl Into<String>) -> Error {
    Error::corrupt(READ, cause).path(path)
}

/// Reads the banner, comments and the line of sizes.
fn matrix_market(
    path: &Path,
    head: &[u8],
    options: &ReadOptions,
    header: &mut Header,
) -> Result<()> {
    let mut at = header.bytes as usize;
    let mut is_symmetric = None;
    let line_end = header.syntax.line_end;
    for line in head.split_inclusive(|byte| *byte == line_end) {
        at += line.len();
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if is_symmetric.is_none() {
            let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
            let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
            let [
                "%%matrixmarket" | "%matrixmarket",
                "matrix",
                "coordinate",
                field,
                symmetry,
            ] = lower[..]
            else {
                let cause = "its first line is not `%%MatrixMarket matrix coordinate ...`";
                return Err(corrupt(path, cause).hint("only sparse matrices have edges"));
            };
            if symmetry == "skew-symmetric" && header.weights.is_some() {
                let cause = "it is skew-symmetric: the weights of an edge differ by direction";
                return Err(Error::usage(READ, cause)
                    .path(path)
                    .hint("write both directions to the file, or leave --weights out"));
            }
            if field == "integer" && options.weight_type.is_none() {
                header.weights = header.weights.map(|_| WeightType::I64);
            }
            if header.weights.is_some() && matches!(field, "pattern" | "complex") {
                let cause = format!("its entries are `{field}`, which have no real weight");
                return Err(Error::usage(READ, cause)
                    .path(path)
                    .hint("leave --weights out"));
            }
            is_symmetric = Some(symmetry != "general");
            if options.is_bipartite && is_symmetric == Some(true) {
                let cause = format!(
                    "it is {symmetry}: of the entries (i, j) and (j, i), it stores only one"
                );
                return Err(Error::usage(READ, cause)
                    .path(path)
                    .hint("write it as a general matrix, or leave --bipartite out"));
            }
            continue;
        }
        if line.starts_with(b"%") || words.is_empty() {
            header.skipped += u64::from(!words.is_empty());
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
        let sides = MatrixSides::new(path, *rows, *columns, options.is_bipartite)?;
        header.bytes = at as u64;
        header.vertices = Some(sides.vertices);
        header.entries = Some(*entries);
        header.is_undirected = is_symmetric == Some(true);
        header.syntax = Syntax {
            target_from: sides.target_from,
            line_end,
            ..Syntax::blanks(header.weights.is_some()).counted_from_one(*rows, *columns)
        };
        return Ok(());
    }
    Err(corrupt(
        path,
        "there is no line of sizes in its first 64 KiB",
    ))
}

/// Reads the lines before the first edge of CSV: comments, empty lines, and the header, which is
/// the first line unless it begins with two numbers.
fn csv(path: &Path, head: &[u8], options: &ReadOptions, header: &mut Header) -> Result<()> {
    let mut first: &[u8] = &[];
    let mut delimiter = b',';
    let line_end = header.syntax.line_end;
    for line in head.split_inclusive(|byte| *byte == line_end) {
        let text = line.trim_ascii();
        delimiter = csv_delimiter(text);
        // A comment that could be a header is the header.
        let is_skipped = text.is_empty() || text.starts_with(b"#") && !text.contains(&delimiter);
        if !is_skipped {
            first = line;
            break;
        }
        header.bytes += line.len() as u64;
        header.skipped += u64::from(!text.is_empty());
    }
    // Blanks at the ends of a line may be separators.
    let line = first.strip_suffix(&[line_end]).unwrap_or(first);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let names = csv_names(line, delimiter).map_err(|fault| {
        let cause = format!("the first line does not name the columns: {}", fault.0);
        corrupt(path, cause).hint("correct the line, or name another format with --type")
    })?;
    let is_number = |name: &String| name.parse::<f64>().is_ok();
    let has_names = !first.is_empty()
        && !options.has_no_header
        && (!names.iter().take(2).all(is_number) || names_columns(options));
    if has_names {
        header.bytes += first.len() as u64;
    }
    let columns = CsvColumns {
        path,
        names: if has_names { &names } else { &[] },
        line: String::from_utf8_lossy(line),
    };
    let [source, target] = columns.ends(&options.columns)?;
    let weight = match (&options.weight_column, options.is_weighted) {
        (Some(wanted), _) => Some(columns.find(wanted)?),
        (None, true) => Some(columns.third([source, target])?),
        (None, false) => None,
    };
    header.syntax = Syntax {
        source,
        target,
        line_end,
        ..Syntax::delimited(delimiter, weight)
    };
    Ok(())
}

/// The column names of CSV, if it has any.
struct CsvColumns<'c> {
    path: &'c Path,
    names: &'c [String],
    line: std::borrow::Cow<'c, str>,
}

impl CsvColumns<'_> {
    fn wrong(&self, cause: String) -> Error {
        Error::usage(READ, cause)
            .path(self.path)
            .hint(format!("the first line is `{}`", self.line.trim()))
    }

    /// Returns the index of the column with this name.
    fn find(&self, wanted: &str) -> Result<usize> {
        let mut places = (0..self.names.len()).filter(|place| self.names[*place] == wanted);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            (None, _) => Err(self.wrong(format!("no column is called `{wanted}`"))),
            _ => Err(self.wrong(format!("several columns are called `{wanted}`"))),
        }
    }

    /// Returns the indexes of source and target: the requested columns, or the first two.
    fn ends(&self, wanted: &[String]) -> Result<[usize; 2]> {
        match wanted {
            [] if self.names.iter().any(String::is_empty) => {
                let cause = "a column has no name, like the index that pandas writes";
                Err(Error::usage(READ, cause)
                    .path(self.path)
                    .hint("name the columns of source and target with --columns SOURCE,TARGET"))
            }
            [] => Ok([0, 1]),
            [source, target] => Ok([self.find(source)?, self.find(target)?]),
            _ => {
                let cause = format!(
                    "edges need two columns, but {} given",
                    match wanted.len() {
                        1 => "one is".to_string(),
                        count => format!("{count} are"),
                    }
                );
                Err(Error::usage(READ, cause)
                    .path(self.path)
                    .hint("name two with --columns SOURCE,TARGET"))
            }
        }
    }

    /// Returns the index of unnamed weights: the third column, if the ends are the first two.
    fn third(&self, ends: [usize; 2]) -> Result<usize> {
        match ends {
            [0, 1] => Ok(2),
            _ => Err(self.wrong("the column of weights has no name".to_owned())),
        }
    }
}
