//! Files of vectors: detects their format by name and header, and makes headers for new files.
//!
//! - `.npy`: NumPy's header, then rows; f32, f16, f64, i8, u8, i32 (source: numpy/lib/format.py)
//! - `.fvecs` `.bvecs` `.ivecs`: an i32 dimension before each row (source: corpus-texmex.irisa.fr)
//! - `.fbin` `.f16bin` `.u8bin` `.i8bin` `.ibin`: two u32, the numbers of rows and dimensions, then
//!   rows (source: big-ann-benchmarks.com)
//! - others: raw numbers, with a type such as `f32x768` from the caller
//!
//! Contract: [`VectorFile::open`] reads the header and checks it against the length of the file, so
//! nothing is ever allocated for missing rows. All rows of `.fvecs` and similar files have the same
//! dimension; each is checked when it is read. All numbers are little-endian.

mod element;
pub(crate) mod known;
pub(crate) mod start;

use std::path::{Path, PathBuf};

use outcore::key::{NpyArray, NpyHeader};
use outcore::primitives::batch::Source;
use outcore::{Error, Input, Job, Kind, Result};
use outcore_io::units;

pub use element::Element;

/// The most dimensions of a vector.
pub(crate) const DIMENSION_MAX: usize = 1 << 20;
/// Bytes of the header in big-ann's files.
const BIN_HEADER_BYTES: usize = 8;
/// Bytes of the dimension before a row in texmex's files.
const ROW_HEADER_BYTES: usize = 4;
/// Bytes before a row in an index with lists: its number in the base, its list, and a checksum.
pub(crate) const LIST_HEADER_BYTES: usize = 16;
/// Bytes of a file that are read to find its header.
const PREFIX_BYTES: u64 = 64 << 10;

/// The first bytes of an index of [`crate::index`].
const INDEX_HEAD: &[u8] = b"{\n  \"outcore\": \"vector index\"";
/// Fails for tables, and for an index of vectors.
fn refuse_tables(prefix: &[u8]) -> Result<()> {
    if TABLE_MAGICS.iter().any(|magic| prefix.starts_with(magic)) {
        let cause = "it is a table; vectors must be taken from a column";
        return Err(Error::usage("read vectors", cause).hint(TAKE_OUT));
    }
    if prefix.starts_with(INDEX_HEAD) {
        let cause = "it is an index of vectors, not a file of vectors";
        return Err(Error::usage("read vectors", cause)
            .hint("search with it: outcore knn BASE QUERIES --index INDEX"));
    }
    Ok(())
}

/// Fails for text, whose numbers have no type.
fn refuse_text(prefix: &[u8]) -> Result<()> {
    match !prefix.is_empty() && prefix.iter().all(|byte| is_of_text(*byte)) {
        true => {
            let cause = "it is text, not a file of vectors";
            Err(Error::usage("read vectors", cause).hint(TAKE_OUT))
        }
        false => Ok(()),
    }
}

/// How the lists of a table become vectors.
const TAKE_OUT: &str =
    "a column of lists becomes vectors: outcore vector convert TABLE --column NAME -o OUT.npy";

/// Whether text has the byte: no control byte except for those of white space.
fn is_of_text(byte: u8) -> bool {
    byte >= b' ' || byte.is_ascii_whitespace()
}

/// The first bytes of tables: Parquet, Arrow.
const TABLE_MAGICS: [&[u8]; 2] = [b"PAR1", b"ARROW1"];

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// NumPy's.
    Npy,
    /// Texmex's: fvecs, bvecs, ivecs.
    Vecs,
    /// Big-ann's: fbin and similar.
    Bin,
    /// Raw numbers.
    Raw,
    /// Rows of an index, grouped by lists ([`crate::index`]).
    Lists,
}

/// The extensions of files of vectors, with their container and number type.
const ENDINGS: [(&str, Container, Option<Element>); 9] = [
    ("npy", Container::Npy, None),
    ("fvecs", Container::Vecs, Some(Element::F32)),
    ("bvecs", Container::Vecs, Some(Element::U8)),
    ("ivecs", Container::Vecs, Some(Element::I32)),
    ("fbin", Container::Bin, Some(Element::F32)),
    ("f16bin", Container::Bin, Some(Element::F16)),
    ("u8bin", Container::Bin, Some(Element::U8)),
    ("i8bin", Container::Bin, Some(Element::I8)),
    ("ibin", Container::Bin, Some(Element::I32)),
];

/// Extensions of raw numbers, which name their type.
const RAW_ENDINGS: [&str; 11] = [
    "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64",
];

/// Extensions of other formats, which must not be used for raw numbers.
const FOREIGN_ENDINGS: [&str; 18] = [
    "npz",
    "parquet",
    "pq",
    "arrow",
    "feather",
    "ipc",
    "csv",
    "json",
    "jsonl",
    "h5",
    "hdf5",
    "mat",
    "pt",
    "safetensors",
    "gz",
    "zst",
    "bz2",
    "xz",
];

/// The extension of a name, in lower case.
fn ending_of(path: &Path) -> String {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.unwrap_or_default().to_ascii_lowercase()
}

/// Fails for the name of an index that has the extension of a file of vectors.
///
/// # Errors
/// Usage.
pub(crate) fn refuse_vector_name(path: &Path) -> Result<()> {
    if told_by(path).0 == Container::Raw {
        return Ok(());
    }
    let cause = "this ending is for files of vectors, not for an index";
    Err(Error::usage("create index", cause)
        .path(path)
        .hint("choose another name, such as one that ends in .vindex"))
}

/// The container and the number type of an extension.
fn told_by(path: &Path) -> (Container, Option<Element>) {
    let ending = ending_of(path);
    let known = ENDINGS.iter().find(|(known, ..)| *known == ending);
    known.map_or((Container::Raw, None), |(_, container, element)| {
        (*container, *element)
    })
}

/// A type of vectors: a number type, and a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The number type.
    pub element: Element,
    /// Numbers per vector.
    pub dimension: usize,
}

/// Parses a type such as `f32x768`: number type and dimension.
///
/// # Errors
/// Usage: any other text.
pub fn parse_type(text: &str) -> Result<Layout> {
    let (name, dimension) = text.split_once('x').unwrap_or((text, "1"));
    let element = Element::named(name);
    let dimension = dimension.parse::<usize>().ok();
    let dimension = dimension.filter(|dimension| (1..=DIMENSION_MAX).contains(dimension));
    let layout = element.zip(dimension);
    let layout = layout.map(|(element, dimension)| Layout { element, dimension });
    layout.ok_or_else(|| {
        Error::usage("read type", format!("`{text}` is not a type of vectors")).hint(
            "a kind of number (f32, f16, f64, i8, u8, i32 or i64) and a dimension, as in f32x768",
        )
    })
}

/// A file of vectors, and the contents of its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorFile {
    /// Its path.
    pub path: PathBuf,
    /// Its layout.
    pub container: Container,
    /// Its number type.
    pub element: Element,
    /// Numbers per vector.
    pub dimension: usize,
    /// The number of vectors.
    pub rows: u64,
    /// Bytes before the first row.
    pub header_bytes: u64,
    /// The number of its first row in the whole file, if this is only a part of the file.
    pub first_row: u64,
}

impl VectorFile {
    /// Reads the header of the file or dataset `path`; `type_name`, such as `f32x768`, is required
    /// for raw numbers.
    ///
    /// # Errors Usage: neither name nor content gives a type, or the type differs from `type_name`.
    /// Corrupt: a header that does not match the length of the file. I/O.
    pub fn open(job: &Job, path: &Path, type_name: Option<&str>) -> Result<Self> {
        let given = type_name.map(parse_type).transpose()?;
        let file_bytes = start::facts_of(job, path)?.len_bytes;
        let prefix_bytes = file_bytes.min(PREFIX_BYTES) as usize;
        let prefix = start::bytes_of(job, path, 0, prefix_bytes)?;
        let opened = Self::of_prefix(path, &prefix, file_bytes, given);
        let opened = opened.and_then(|opened| opened.check_type(type_name));
        opened.map_err(|error| match error.file_path() {
            Some(_) => error,
            None => error.path(path),
        })
    }

    /// Like [`VectorFile::open`], but `type_name` applies only if neither name nor content gives a
    /// type.
    ///
    /// # Errors
    /// As [`VectorFile::open`].
    pub fn open_typed(job: &Job, path: &Path, type_name: Option<&str>) -> Result<Self> {
        match Self::open(job, path, None) {
            Err(error) if type_name.is_some() && error.kind() == Kind::Usage => {
                Self::open(job, path, type_name)
            }
            opened => opened,
        }
    }

    /// Fails unless its vectors have this type, if one is given.
    ///
    /// # Errors
    /// Usage.
    pub fn check_type(self, type_name: Option<&str>) -> Result<Self> {
        let given = type_name.map(parse_type).transpose()?;
        match given
            .filter(|given| (given.element, given.dimension) != (self.element, self.dimension))
        {
            None => Ok(self),
            Some(Layout {
                element: kind,
                dimension: wanted,
            }) => {
                let (kind, found) = (kind.name(), self.type_name());
                let cause = format!("its vectors are {found}, not {kind}x{wanted}");
                Err(Error::usage("read vectors", cause)
                    .path(&self.path)
                    .hint("leave the type out; the name of an output selects the output's type"))
            }
        }
    }

    fn of_prefix(
        path: &Path,
        prefix: &[u8],
        file_bytes: u64,
        given: Option<Layout>,
    ) -> Result<Self> {
        let (mut container, mut element) = told_by(path);
        if container == Container::Raw && NpyHeader::is_npy(prefix) {
            container = Container::Npy;
        }
        let word = |at: usize| {
            let bytes = prefix.get(at..at + 4)?;
            Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let short = || {
            corrupt(format!(
                "it ends after {}, inside its header",
                units::counted(file_bytes, "byte")
            ))
        };
        let (header_bytes, dimension, rows) = match container {
            Container::Npy => {
                let header = read_npy(prefix)?;
                element = Some(header.element);
                (header.bytes, header.columns, Some(header.rows))
            }
            Container::Vecs if file_bytes == 0 => return Err(empty()),
            Container::Vecs => (0, u64::from(word(0).ok_or_else(short)?), None),
            Container::Bin => {
                let (rows, dimension) = word(0).zip(word(4)).ok_or_else(short)?;
                let header_bytes = BIN_HEADER_BYTES as u64;
                (header_bytes, dimension.into(), Some(u64::from(rows)))
            }
            Container::Raw | Container::Lists => {
                refuse_tables(prefix)?;
                let Some(Layout {
                    element: kind,
                    dimension,
                }) = given
                else {
                    refuse_text(prefix)?;
                    let cause = "its name and content do not identify the type of its vectors";
                    return Err(Error::usage("read vectors", cause)
                        .hint("pass it with --type, for example --type f32x768"));
                };
                element = Some(kind);
                (0, dimension as u64, None)
            }
        };
        let Some(element) = element else {
            return Err(Error::usage(
                "read vectors",
                "its number type is not supported",
            ));
        };
        if dimension == 0 || dimension > DIMENSION_MAX as u64 {
            let cause = format!(
                "its header has the dimension {dimension}; 1 to {DIMENSION_MAX} are possible"
            );
            return Err(corrupt(cause));
        }
        let dimension = dimension as usize;
        let mut opened = VectorFile {
            path: path.to_path_buf(),
            container,
            element,
            dimension,
            rows: 0,
            header_bytes,
            first_row: 0,
        };
        let row_bytes = opened.row_bytes() as u64;
        let data_bytes = file_bytes.saturating_sub(header_bytes);
        opened.rows = match rows {
            Some(rows) => {
                if rows.checked_mul(row_bytes) != Some(data_bytes) {
                    return Err(corrupt(format!(
                        "its header promises {} of {}, but the file has {}",
                        units::counted(rows, "vector"),
                        units::counted(row_bytes, "byte"),
                        units::counted(data_bytes, "byte"),
                    )));
                }
                rows
            }
            None if data_bytes % row_bytes != 0 => {
                return Err(corrupt(format!(
                    "its length, {}, is not a multiple of the {row_bytes} bytes of a vector",
                    units::counted(data_bytes, "byte")
                )));
            }
            None => data_bytes / row_bytes,
        };
        match opened.rows {
            0 => Err(empty()),
            _ => Ok(opened),
        }
    }

    /// Returns the part with `rows` of its rows, from row `from`.
    ///
    /// # Panics
    /// If it has fewer rows.
    #[must_use]
    pub(crate) fn part(&self, from: u64, rows: u64) -> Self {
        assert!(from + rows <= self.rows);
        VectorFile {
            rows,
            header_bytes: self.header_bytes + from * self.row_bytes() as u64,
            first_row: self.first_row + from,
            ..self.clone()
        }
    }

    /// Bytes from one row to the next.
    pub fn row_bytes(&self) -> usize {
        self.lead_bytes() + self.dimension * self.element.bytes()
    }

    /// Bytes of all rows.
    pub fn data_bytes(&self) -> u64 {
        self.rows * self.row_bytes() as u64
    }

    /// Bytes before the numbers of each row.
    pub(crate) fn lead_bytes(&self) -> usize {
        match self.container {
            Container::Vecs => ROW_HEADER_BYTES,
            Container::Lists => LIST_HEADER_BYTES,
            Container::Npy | Container::Bin | Container::Raw => 0,
        }
    }

    /// The type of its vectors, such as `f32x768`.
    pub fn type_name(&self) -> String {
        format!("{}x{}", self.element.name(), self.dimension)
    }

    /// Returns the bytes of a row's numbers.
    ///
    /// # Errors
    /// Corrupt: the row has another dimension than the first.
    pub(crate) fn numbers<'r>(&self, row: u64, bytes: &'r [u8]) -> Result<&'r [u8]> {
        let (lead, numbers) = bytes.split_at(self.lead_bytes());
        if let [a, b, c, d] = *lead {
            let said = u32::from_le_bytes([a, b, c, d]);
            if u64::from(said) != self.dimension as u64 {
                let dimension = self.dimension;
                let cause = format!("row {row} has dimension {said}, but row 0 has {dimension}");
                return Err(corrupt(cause).path(&self.path));
            }
        }
        Ok(numbers)
    }

    /// Describes the file at `path` for this many rows, in the format of its extension, or raw
    /// numbers for other extensions.
    ///
    /// # Errors
    /// Usage: the extension has another number type, or the format cannot hold this many rows.
    pub(crate) fn to_write(
        path: &Path,
        element: Element,
        dimension: usize,
        rows: u64,
    ) -> Result<Self> {
        let (container, told) = told_by(path);
        let ending = ending_of(path);
        if FOREIGN_ENDINGS.contains(&&*ending) {
            let cause = format!("outcore does not write files that end in .{ending}");
            return Err(Error::usage("create output", cause)
                .path(path)
                .hint("choose .npy, or a name without a known ending for raw numbers"));
        }
        let is_raw = RAW_ENDINGS.contains(&&*ending);
        // Ids are not negative, so they may be called `u64`.
        let is_id = ending == "u64" && element == Element::I64;
        let told = told.map(Element::name);
        let told = told.or(Some(&*ending).filter(|_| is_raw && !is_id));
        let kind = element.name();
        if let Some(told) = told.filter(|told| *told != kind) {
            let cause = format!("this ending is for {told}, but the vectors are {kind}");
            return Err(Error::usage("create output", cause)
                .path(path)
                .hint("choose a name that fits, such as one that ends in .npy"));
        }
        if container == Container::Bin && rows > u64::from(u32::MAX) {
            let cause = format!("its format counts rows in 32 bits, but there are {rows}");
            return Err(Error::usage("create output", cause)
                .path(path)
                .hint("write .npy"));
        }
        let mut file = VectorFile {
            path: path.to_path_buf(),
            container,
            element,
            dimension,
            rows,
            header_bytes: 0,
            first_row: 0,
        };
        file.header_bytes = file.header().len() as u64;
        Ok(file)
    }

    /// Returns the bytes before all rows, and those before each row, of the file at `path` for this
    /// many rows.
    ///
    /// # Errors
    /// As [`crate::convert::convert`].
    pub fn fronts(
        path: &Path,
        element: Element,
        dimension: usize,
        rows: u64,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let file = Self::to_write(path, element, dimension, rows)?;
        Ok((file.header(), file.lead()))
    }

    /// The number type of an extension, if vectors can have this type.
    pub(crate) fn element_of_name(path: &Path) -> Option<Element> {
        let raw = || Element::named(&ending_of(path));
        told_by(path).1.or_else(raw)
    }

    /// The bytes before its first row.
    pub(crate) fn header(&self) -> Vec<u8> {
        match self.container {
            Container::Npy => npy_header(self.element, self.rows, Some(self.dimension)),
            Container::Bin => [self.rows as u32, self.dimension as u32]
                .map(u32::to_le_bytes)
                .concat(),
            Container::Vecs | Container::Raw | Container::Lists => Vec::new(),
        }
    }

    /// The header of a one-dimensional array.
    pub(crate) fn flat_header(&self) -> Vec<u8> {
        npy_header(self.element, self.rows * self.dimension as u64, None)
    }

    /// The bytes before the numbers of each row.
    pub(crate) fn lead(&self) -> Vec<u8> {
        let lead = (self.dimension as u32).to_le_bytes();
        lead[..self.lead_bytes()].to_vec()
    }
}

/// NumPy's header for an array of one or two dimensions.
fn npy_header(element: Element, rows: u64, columns: Option<usize>) -> Vec<u8> {
    let shape = match columns {
        Some(columns) => format!("({rows}, {columns})"),
        None => format!("({rows},)"),
    };
    let descr = element.descr();
    let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    let whole_bytes = (10 + text.len() + 1).next_multiple_of(64);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(((whole_bytes - 10) as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.resize(whole_bytes - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// NumPy's header of an array of vectors.
struct Npy {
    element: Element,
    bytes: u64,
    rows: u64,
    columns: u64,
}

/// Parses the header of a `.npy` file.
fn read_npy(prefix: &[u8]) -> Result<Npy> {
    let array = NpyArray::parse(prefix)?;
    let element = Element::of_descr(&array.descr).ok_or_else(|| {
        let cause = format!("vectors of {} are not supported", array.descr);
        let hint = match array.descr.contains('>') {
            true => "save it in little-endian order: in NumPy, x.astype(x.dtype.newbyteorder('<'))",
            false => "save it with a dtype of float32, float16, float64, int8, uint8 or bool",
        };
        Error::usage("read vectors", cause).hint(hint)
    })?;
    let columns = match array.row_shape[..] {
        [] => 1,
        [columns] => columns,
        _ => {
            let cause = format!("the array has {} dimensions", array.row_shape.len() + 1);
            return Err(Error::usage("read vectors", cause)
                .hint("reshape it to two dimensions: a row is a vector"));
        }
    };
    Ok(Npy {
        element,
        bytes: array.header_bytes as u64,
        rows: array.rows,
        columns,
    })
}

/// The rows of a file as an input of the engine.
pub(crate) fn input_of(file: &VectorFile) -> Input {
    Input {
        path: file.path.clone(),
        header_bytes: file.header_bytes,
        data_bytes: Some(file.data_bytes()),
    }
}

/// The rows of a file as the source of a pass.
pub(crate) fn source_of(file: &VectorFile) -> Source {
    Source {
        inputs: vec![input_of(file)],
        element_bytes: file.row_bytes(),
        align_bytes: 1,
        count: 0,
    }
}

fn corrupt(cause: impl Into<String>) -> Error {
    Error::corrupt("read vectors", cause)
        .hint("check whether the file is complete, and whether its ending matches its format")
}

fn empty() -> Error {
    Error::usage("read vectors", "it has no vectors").hint("name a file with at least one vector")
}
