//! Options of a written table: format, codec, row groups and metadata.
//!
//! Contract: the defaults are those that other programs use. Only this module converts options to
//! the libraries' settings. The schema's metadata are kept, both in Arrow's schema and as the
//! file's own keys and values.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{DataType, Field, Schema};
use outcore_io::{Error, Result};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::pages::Pages;
use crate::fault;
use crate::notation::notation;
use crate::rows::KeyColumn;
use crate::schema::{FieldPlace, column_index};

const WRITE: &str = "write table";
/// The default limit of rows per row group: 2^20, as in other writers.
const GROUP_ROWS: usize = 1 << 20;
/// The default limit of encoded bytes per row group.
const GROUP_BYTES: u64 = 128 << 20;
/// Memory of a column's dictionary in the library's writer before there is a value.
const DICTIONARY_BYTES: u64 = 80 << 10;
/// Empty dictionaries may take 1/`DICTIONARIES_SHARE` of a row group's memory. With many columns
/// and little memory, a larger share would leave room for hardly any rows in a group.
const DICTIONARIES_SHARE: u64 = 3;

/// The least memory for text before it is appended, in its formatted and its compressed form.
const TEXT_BYTES: u64 = 512 << 10;

/// The compression codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    None,
    /// Snappy; Parquet only.
    Snappy,
    /// LZ4: raw blocks in Parquet, frames in Arrow.
    Lz4,
    /// Zstandard at this level, 1 to 22.
    Zstd(i32),
    /// Gzip at this level, 0 to 9; Parquet only.
    Gzip(u32),
    /// Brotli at this level, 0 to 11; Parquet only.
    Brotli(u32),
}

impl Codec {
    /// The codec of the last extension of a name.
    fn of_name(name: &Path) -> Option<Self> {
        match name.extension()?.to_str()? {
            "gz" => Some(Codec::Gzip(6)),
            "zst" => Some(Codec::Zstd(3)),
            _ => None,
        }
    }

    /// The name that [`Codec::parse`] reads.
    fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd(_) => "zstd",
            Codec::Gzip(_) => "gzip",
            Codec::Brotli(_) => "brotli",
        }
    }

    /// Reads a name and, for some codecs, a level after a colon, as in `zstd:9`.
    ///
    /// # Errors
    /// Usage: an unknown name; a level that is not a number, or for a codec without levels.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let wrong = |cause: String| {
            Err(Error::usage("choose codec", cause)
                .hint("codecs are zstd, snappy, lz4, gzip, brotli and none; zstd:9 has a level"))
        };
        let number = match level.map(str::parse::<u32>).transpose() {
            Ok(number) => number,
            Err(_) => return wrong(format!("the level of `{text}` is not a number")),
        };
        match (name, number) {
            ("zstd", level) => Ok(Codec::Zstd(level.unwrap_or(1) as i32)),
            ("gzip", level) => Ok(Codec::Gzip(level.unwrap_or(6))),
            ("brotli", level) => Ok(Codec::Brotli(level.unwrap_or(1))),
            ("snappy", None) => Ok(Codec::Snappy),
            ("lz4", None) => Ok(Codec::Lz4),
            ("none", None) => Ok(Codec::None),
            ("snappy" | "lz4" | "none", Some(_)) => wrong(format!("{name} has no levels")),
            _ => wrong(format!("there is no codec `{name}`")),
        }
    }
}

/// The format of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// Parquet.
    Parquet,
    /// An Arrow IPC file, which is Feather V2.
    ArrowFile,
    /// An Arrow IPC stream.
    ArrowStream,
    /// CSV records, with a header of column names.
    Csv,
    /// CSV with tabs between fields.
    Tsv,
    /// One JSON object per row.
    JsonLines,
    /// One column of text, one value per line. No extension selects this format.
    Lines,
    /// The numbers of one column of lists of equal length, in their form in memory
    /// ([`VectorLayout`]).
    Vectors,
}

/// The parts of a file of vectors other than the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VectorLayout {
    /// Numbers per row.
    pub dimension: usize,
    /// Bytes before all rows.
    pub front: Vec<u8>,
    /// Bytes before each row.
    pub lead: Vec<u8>,
}

/// The extensions of tables, with their formats.
const ENDINGS: [(&str, TableFormat); 11] = [
    ("parquet", TableFormat::Parquet),
    ("pq", TableFormat::Parquet),
    ("parq", TableFormat::Parquet),
    ("arrow", TableFormat::ArrowFile),
    ("feather", TableFormat::ArrowFile),
    ("ipc", TableFormat::ArrowFile),
    ("arrows", TableFormat::ArrowStream),
    ("csv", TableFormat::Csv),
    ("tsv", TableFormat::Tsv),
    ("jsonl", TableFormat::JsonLines),
    ("ndjson", TableFormat::JsonLines),
];

impl TableFormat {
    /// The format of a file of this name, if its extension has one.
    pub fn of_name(name: &Path) -> Option<Self> {
        let ending = name.extension().and_then(|ending| ending.to_str());
        if matches!(ending, Some("gz" | "zst")) {
            let inner = Self::of_name(Path::new(name.file_stem()?));
            return inner.filter(|format| format.is_text() && Codec::of_name(name).is_some());
        }
        let known = ENDINGS.iter().find(|(known, _)| Some(*known) == ending);
        known.map(|(_, format)| *format)
    }

    /// Whether it is text.
    pub fn is_text(self) -> bool {
        matches!(self, TableFormat::JsonLines | TableFormat::Lines) || self.separator().is_some()
    }

    /// The separator of fields, for text with fields.
    pub fn separator(self) -> Option<u8> {
        match self {
            TableFormat::Csv => Some(b','),
            TableFormat::Tsv => Some(b'\t'),
            _ => None,
        }
    }
}

/// How rows are distributed to several files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FileRows {
    /// About equal numbers.
    #[default]
    Equal,
    /// This many rows per file, except for the last file.
    Each(u64),
    /// The first file ends before the first of these rows, and so on; the last takes the rest.
    Ends(Vec<u64>),
}

/// A stream that receives a table, and its name in errors.
pub(super) struct OpenStream {
    pub(super) writer: Box<dyn Write + Send>,
    pub(super) name: PathBuf,
}

/// A stream that receives a table in place of a file. Clones are the same stream, and only one
/// table can be written to it.
#[derive(Clone)]
pub struct TableStream {
    writer: Arc<Mutex<Option<Box<dyn Write + Send>>>>,
    name: PathBuf,
}

impl TableStream {
    /// Creates a stream that passes the table to `writer`, in order and in large pieces; errors
    /// report it as `name`.
    pub fn new(writer: Box<dyn Write + Send>, name: PathBuf) -> Self {
        TableStream {
            writer: Arc::new(Mutex::new(Some(writer))),
            name,
        }
    }

    /// Takes the stream, which is possible once, and its name in errors.
    pub(super) fn take(&self) -> Option<OpenStream> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.name.clone();
        writer.take().map(|writer| OpenStream { writer, name })
    }
}

impl fmt::Debug for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStream").finish_non_exhaustive()
    }
}

impl PartialEq for TableStream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.writer, &other.writer)
    }
}

/// What is written. See the fields.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputOptions {
    /// The format.
    pub format: TableFormat,
    /// The codec.
    pub codec: Codec,
    /// The most rows of a row group; for Arrow, of a batch.
    pub group_rows_max: usize,
    /// The most encoded bytes of a row group in memory; less if there is less memory.
    pub group_bytes_max: u64,
    /// The order of the rows, which a Parquet file records.
    pub sorted_by: Vec<KeyColumn>,
    /// Columns with a bloom filter, in Parquet.
    pub bloom_filters: Vec<String>,
    /// Whether Parquet columns are dictionary-encoded. A column's dictionary ends when it grows
    /// large. Without memory for the dictionaries of all columns, no column has one.
    pub is_dictionary: bool,
    /// Root columns without a dictionary, in Parquet. Jobs add columns whose values are known to
    /// hardly repeat.
    pub without_dictionary: Vec<String>,
    /// Root columns with long values. In Parquet they have no dictionary and no statistics, because
    /// a writer would hold another copy of the values for each of these.
    pub long_columns: Vec<String>,
    /// Whether rows that CSV cannot hold, with lists or objects, are written as JSON lines instead.
    pub is_any_text: bool,
    /// How rows are distributed to several files.
    pub files: FileRows,
    /// The directory that the files have to themselves; it is created if it is missing, and gets a
    /// list of the files. Without it, the list of several files is next to the first one.
    pub directory: Option<PathBuf>,
    /// Whether existing files are replaced.
    pub is_replacing: bool,
    /// The form of a file of vectors.
    pub vectors: VectorLayout,
    /// The stream that receives the table in place of the one file. The file's directory is then
    /// only used for scratch.
    pub stream: Option<TableStream>,
}

impl OutputOptions {
    /// Sets the codec to the given one, or to the codec of the output's extension.
    ///
    /// # Errors
    /// Usage: text with a `codec` that differs from the codec of the extension.
    pub fn named(mut self, name: &Path, codec: Option<Codec>) -> Result<Self> {
        if !self.format.is_text() {
            self.codec = codec.unwrap_or(self.codec);
            return Ok(self);
        }
        self.codec = match (Codec::of_name(name), codec) {
            (own, None) => own.unwrap_or(Codec::None),
            (Some(Codec::Gzip(_)), Some(codec @ Codec::Gzip(_)))
            | (Some(Codec::Zstd(_)), Some(codec @ Codec::Zstd(_)))
            | (None, Some(codec @ Codec::None)) => codec,
            _ => {
                let cause = "the ending of the name selects the compression of text, but \
                             another codec is given";
                return Err(Error::usage("choose codec", cause)
                    .path(name)
                    .hint("let the name end in .gz or .zst, and leave --codec out"));
            }
        };
        Ok(self)
    }

    /// The defaults: Parquet with Zstandard at level 1, Arrow with LZ4, text without compression.
    pub fn new(format: TableFormat) -> Self {
        OutputOptions {
            format,
            codec: match format {
                TableFormat::Parquet => Codec::Zstd(1),
                TableFormat::ArrowFile | TableFormat::ArrowStream => Codec::Lz4,
                TableFormat::Csv
                | TableFormat::Tsv
                | TableFormat::JsonLines
                | TableFormat::Lines
                | TableFormat::Vectors => Codec::None,
            },
            group_rows_max: GROUP_ROWS,
            group_bytes_max: GROUP_BYTES,
            sorted_by: Vec::new(),
            bloom_filters: Vec::new(),
            is_dictionary: true,
            without_dictionary: Vec::new(),
            long_columns: Vec::new(),
            is_any_text: false,
            files: FileRows::Equal,
            directory: None,
            is_replacing: false,
            vectors: VectorLayout::default(),
            stream: None,
        }
    }

    /// Returns the options for a format that has the columns of `schema`.
    pub(crate) fn fitting(&self, schema: &Schema) -> Self {
        let mut options = self.clone();
        if self.is_any_text && self.format == TableFormat::Csv {
            options.format = TableFormat::printed(schema);
        }
        options
    }

    /// Adds columns with long values.
    pub(crate) fn with_long(&self, names: Vec<String>) -> Self {
        let mut options = self.clone();
        options.long_columns.extend(names);
        options
    }

    /// How many copies of a long value are briefly in memory while it is written, in addition to
    /// its array and its row group or text.
    pub(crate) fn encoder_times(&self) -> u64 {
        match self.format {
            // Encoded, in a page, and compressed.
            TableFormat::Parquet => 3,
            // In the body of the message, and compressed.
            TableFormat::ArrowFile | TableFormat::ArrowStream => 2,
            // Quoted, and compressed.
            TableFormat::Csv | TableFormat::Tsv | TableFormat::JsonLines | TableFormat::Lines => 3,
            TableFormat::Vectors => 1,
        }
    }

    /// The level of Zstandard in Parquet, which has one context per column.
    fn zstd_level(&self) -> Option<i32> {
        match (self.format, self.codec) {
            (TableFormat::Parquet, Codec::Zstd(level)) => Some(level),
            _ => None,
        }
    }

    /// Divides a row group of `group_bytes` into pages and contexts.
    pub(super) fn pages(&self, schema: &Schema, group_bytes: u64) -> Pages {
        Pages::of(self.zstd_level(), leaves_count(schema), group_bytes)
    }

    /// Returns the Parquet library's settings, for groups of at most `group_bytes` in memory.
    pub(super) fn parquet(&self, schema: &Schema, group_bytes: u64) -> Result<WriterProperties> {
        let pages = self.pages(schema, group_bytes);
        let page_bytes = usize::try_from(pages.page_bytes).unwrap_or(usize::MAX);
        let has_room = self.dictionaries_bytes(schema) <= group_bytes / DICTIONARIES_SHARE;
        let mut metadata: Vec<KeyValue> = schema
            .metadata()
            .iter()
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
            .collect();
        // The order of a map differs between runs; the output must not.
        metadata.sort_by(|one, other| one.key.cmp(&other.key));
        let mut builder = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(concat!("outcore ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.parquet_codec()?)
            .set_dictionary_enabled(self.is_dictionary && has_room)
            .set_dictionary_page_size_limit(page_bytes)
            .set_data_page_size_limit(page_bytes)
            .set_key_value_metadata((!metadata.is_empty()).then_some(metadata))
            .set_sorting_columns(self.sorting_columns(schema)?);
        if pages.are_whole {
            builder = builder.set_data_page_row_count_limit(usize::MAX);
        }
        for name in &self.without_dictionary {
            let column = ColumnPath::new(vec![name.clone()]);
            builder = builder.set_column_dictionary_enabled(column, false);
        }
        for column in self.long_leaves(schema)? {
            builder = builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_statistics_enabled(column, EnabledStatistics::None);
        }
        for name in &self.bloom_filters {
            let index = column_index(schema, name, WRITE)?;
            let field = schema.field(index);
            if leaves_of(field) != 1 || field.data_type().is_nested() {
                let cause = format!(
                    "column `{name}` is {}, and has no bloom filter",
                    notation(field.data_type())
                );
                return Err(Error::usage(WRITE, cause).hint("name columns of plain values"));
            }
            builder =
                builder.set_column_bloom_filter_enabled(ColumnPath::new(vec![name.clone()]), true);
        }
        Ok(builder.build())
    }

    /// The Parquet columns with long values.
    fn long_leaves(&self, schema: &Schema) -> Result<Vec<ColumnPath>> {
        if self.long_columns.is_empty() {
            return Ok(Vec::new());
        }
        let converted = ArrowSchemaConverter::new().convert(schema);
        let converted = converted.map_err(|error| fault::parquet(WRITE, &error))?;
        let is_long = |path: &&ColumnPath| {
            let root = path.parts().first();
            root.is_some_and(|root| self.long_columns.contains(root))
        };
        let paths = converted.columns().iter().map(|column| column.path());
        Ok(paths.filter(is_long).cloned().collect())
    }

    /// Memory of the dictionaries in an open row group before there is a row.
    pub(super) fn dictionaries_bytes(&self, schema: &Schema) -> u64 {
        match self.format == TableFormat::Parquet && self.is_dictionary {
            true => DICTIONARY_BYTES * leaves_count(schema),
            false => 0,
        }
    }

    /// The least memory of an open row group.
    pub(crate) fn group_min_bytes(&self, schema: &Schema) -> u64 {
        match self.format {
            TableFormat::Parquet => Pages::group_min_bytes(self.zstd_level(), leaves_count(schema)),
            TableFormat::ArrowFile | TableFormat::ArrowStream => 0,
            TableFormat::Csv
            | TableFormat::Tsv
            | TableFormat::JsonLines
            | TableFormat::Lines
            | TableFormat::Vectors => TEXT_BYTES,
        }
    }

    /// Returns the Arrow library's settings.
    pub(super) fn ipc(&self) -> Result<IpcWriteOptions> {
        let compression = match self.codec {
            Codec::None => None,
            Codec::Lz4 => Some(CompressionType::LZ4_FRAME),
            Codec::Zstd(_) => Some(CompressionType::ZSTD),
            other => {
                let cause = format!("Arrow files do not have the codec {}", other.name());
                return Err(Error::usage(WRITE, cause).hint("use lz4, zstd or none"));
            }
        };
        let told = |error| Error::usage(WRITE, fault::arrow(WRITE, &error).cause().to_owned());
        let options = IpcWriteOptions::default()
            .try_with_compression(compression)
            .map_err(told)?;
        match self.codec {
            Codec::Zstd(level) => options
                .try_with_compression_level(Some(level))
                .map_err(told),
            _ => Ok(options),
        }
    }

    fn parquet_codec(&self) -> Result<Compression> {
        let told = |error: parquet::errors::ParquetError| {
            Error::usage(WRITE, error.to_string()).hint("choose another level")
        };
        Ok(match self.codec {
            Codec::None => Compression::UNCOMPRESSED,
            Codec::Snappy => Compression::SNAPPY,
            Codec::Lz4 => Compression::LZ4_RAW,
            Codec::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level).map_err(told)?),
            Codec::Gzip(level) => Compression::GZIP(GzipLevel::try_new(level).map_err(told)?),
            Codec::Brotli(level) => Compression::BROTLI(BrotliLevel::try_new(level).map_err(told)?),
        })
    }

    /// The leading columns of the order, as long as they are plain. Parquet cannot name nested
    /// columns, fields of objects, or the columns after these.
    fn sorting_columns(&self, schema: &Schema) -> Result<Option<Vec<SortingColumn>>> {
        let mut columns = Vec::new();
        for key in &self.sorted_by {
            let place = FieldPlace::of(schema, &key.name, WRITE)?.column();
            let is_plain = |index: &usize| !schema.field(*index).data_type().is_nested();
            let Some(index) = place.filter(is_plain) else {
                break;
            };
            let before = schema.fields().iter().take(index);
            let leaf = before.map(|field| leaves_of(field)).sum::<usize>();
            let Ok(column_idx) = i32::try_from(leaf) else {
                break;
            };
            columns.push(SortingColumn {
                column_idx,
                descending: key.is_descending,
                nulls_first: key.is_nulls_first,
            });
        }
        Ok((!columns.is_empty()).then_some(columns))
    }
}

/// The number of Parquet columns of a table.
fn leaves_count(schema: &Schema) -> u64 {
    let leaves = schema.fields().iter().map(|field| leaves_of(field));
    leaves.sum::<usize>() as u64
}

/// The number of Parquet columns of a field.
fn leaves_of(field: &Field) -> usize {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().map(|field| leaves_of(field)).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => leaves_of(field),
        _ => 1,
    }
}
