//! Reads Parquet, Arrow IPC files and streams, CSV and JSON lines, one file or many, as one table
//! in pieces.
//!
//! Contract: [`TableInput::open`] takes files and directories, detects formats by content and reads
//! the metadata of all files. The result is one schema and an ordered list of [`Piece`]s, each a
//! row group or a batch. Text has no metadata, so outcore finds columns and rows by a scan;
//! [`InputOptions::text`] must allow text ([`text`]).
//!
//! A piece knows its size on the drive and its memory need, so a job knows whether it fits before
//! it reads data. A [`TableReader`] belongs to one thread. It reserves its memory once, and decodes
//! a piece into record batches of the table's schema. Any number of readers can read the pieces in
//! any order, so row groups are read in parallel.
//!
//! Files of one input have the same columns, in any order; otherwise an error reports file, column
//! and both types. With [`InputOptions::is_union`], a column that a file lacks is null there, and
//! values are converted to a common type. Directories named `key=value` become columns after those
//! of the files ([`hive`]). [`InputOptions::columns`] selects columns, or fields of objects such as
//! `st.a`; only the columns that contain them are read. [`InputOptions::predicates`] skip row
//! groups ([`predicate`]) and whole directories.
//!
//! Unusable input gives a specific error: other formats, encryption, damaged footers and pages,
//! missing names, object-store addresses, a piece that needs more memory than there is. Panics of
//! the libraries count as damage.
//!
//! Bounds: the footers of all files are held in the job's memory, a few hundred bytes per column
//! and row group. A reader holds the fetched bytes of one piece and one batch; the caller owns the
//! batches it has received.
//!
//! N.B. Opening a piece fetches its bytes with many requests in flight; decoding follows. If pieces
//! are short, the bytes of the next pieces are fetched in the same step ([`reader`]). While a
//! reader decodes, its drive is idle, so two or more readers are needed to keep the drive busy.

mod files;
mod headers;
mod hive;
mod ipc;
mod ipc_lens;
mod need;
mod opening;
mod page_sizes;
mod parquet;
mod predicate;
mod reader;
mod repeats;
mod source;
mod span;
mod text;
mod thrift;
mod times;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{FieldRef, Schema, SchemaRef};
use outcore::Job;
use outcore_io::memory::Reservation;
use outcore_io::port::{Volume, VolumeFile};
use outcore_io::{Error, Kind, Result, units};

use self::parquet::ParquetFile;
use crate::common::cast_to;
use crate::fault;
use crate::schema::{FieldPlace, check_names, column_index};
use ipc::IpcFile;
use opening::{full_schema, open_all};
use repeats::Repeats;
use source::{DriveFile, Whole};

pub(crate) use files::check_room_for_set;
pub use files::{
    check_local, check_not_read_again, files_of, is_directory_of_tables, is_several, matching,
};
pub(crate) use hive::MISSING as MISSING_PARTITION;
pub(crate) use need::InputNeed;
pub(crate) use predicate::literal_of;
pub use predicate::{Comparison, Literal, Predicate};
pub(crate) use reader::PieceQueue;
pub use reader::{Batches, TableReader};
pub use span::RowSpan;
pub(crate) use span::common_rows;
use text::TextFile;
pub use text::{Notes, OnBadRow, TextKind, TextOptions, null_texts, parse_types};

/// The cause of the error about a table without files.
pub const NO_FILE: &str = "no file is given";
const READ: &str = "read tables";
const UNITE: &str = "unite tables";
/// The ledger's name for the memory of readers.
const READER: &str = "row groups being read";
/// Approximate memory for an open file, without its schema and its list of pieces.
const FILE_BYTES: u64 = 1 << 10;
/// Up to this size, metadata of files need no reservation.
const FEW_FILES_BYTES: u64 = 1 << 20;
/// The ledger's name for the memory of metadata.
const FILES: &str = "metadata of files";
/// The number of first bytes that identify a format.
const HEAD_BYTES: u64 = 8;

/// Which parts of the files are read, and how.
#[derive(Debug, Clone, Default)]
pub struct InputOptions {
    /// Columns, in this order; all if `None`.
    pub columns: Option<Vec<String>>,
    /// Conditions on rows, joined by `and`. Row groups in which no row can meet them are skipped.
    pub predicates: Vec<Predicate>,
    /// Files may lack columns, which are then null.
    pub is_union: bool,
    /// Files that are neither Parquet nor Arrow are text.
    pub text: Option<TextOptions>,
    /// Files that are read from another path: each with its uncompressed copy.
    pub copies: Vec<(PathBuf, PathBuf)>,
}

/// A row group of a Parquet file, a batch of an Arrow file, or about one MiB of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Number of its file.
    pub file: usize,
    /// Number within its file.
    pub part: usize,
    /// Its rows.
    pub rows_count: u64,
    /// Bytes that are read from the drive.
    pub stored_bytes: u64,
    /// The least memory that can read it.
    pub memory_min_bytes: u64,
    /// A bound on the bytes of a row with long values; 0 if values are not long.
    pub long_bytes: u64,
}

enum Format {
    Parquet(ParquetFile),
    Ipc(IpcFile),
    Text(Box<TextFile>),
}

/// A file of the input.
#[derive(Clone)]
struct TableFile {
    path: PathBuf,
    format: Arc<Format>,
    /// For each column of the table: where it comes from.
    origins: Vec<Origin>,
    /// Root columns of the file that are read, ascending.
    read: Vec<usize>,
    hive: Vec<(String, Option<String>)>,
}

/// The origin of one file's values for a table column.
#[derive(Debug, Clone)]
enum Origin {
    /// The column at this place among those that are read.
    Read(usize, FieldPlace),
    /// A directory name.
    Directory(Option<String>),
    /// The file lacks the column.
    Missing,
}

/// The error for files whose metadata need more than half of the memory.
fn too_many_files(count: usize, held_bytes: u64, free_bytes: u64) -> Error {
    let cause = format!(
        "the metadata of {} take {}, more than half of the {} that are free",
        units::counted(count as u64, "file"),
        units::bytes(held_bytes),
        units::bytes(free_bytes)
    );
    // A join reads two inputs at a time, each in half of the memory.
    let enough_bytes = (8 * held_bytes + (64 << 20)).next_multiple_of(64 << 20);
    let enough = units::bytes_exact(enough_bytes);
    Error::new(Kind::Memory, READ, cause).hint(format!(
        "allow --memory {enough} or more, or read fewer files at a time"
    ))
}

/// One table in one or many files. See the module.
pub struct TableInput {
    /// All columns of the files.
    full: SchemaRef,
    schema: SchemaRef,
    files: Vec<TableFile>,
    predicates: Vec<Predicate>,
    pieces: Vec<Piece>,
    volume: Arc<Volume>,
    job: Job,
    /// The reserved memory of the files' metadata.
    held: Vec<Reservation>,
}

impl TableInput {
    /// Opens `paths`, files and directories, and reads their metadata.
    ///
    /// # Errors
    /// Usage: no file, another format, files that differ, a missing column. Corrupt. I/O.
    pub fn open(job: &Job, paths: &[PathBuf], options: &InputOptions) -> Result<Self> {
        let mut input = TableInput::open_free(job, paths, options)?;
        input.hold(job)?;
        Ok(input)
    }

    /// Like [`TableInput::open`], but the caller reserves the memory for the metadata, with
    /// [`TableInput::hold`].
    pub(crate) fn open_free(job: &Job, paths: &[PathBuf], options: &InputOptions) -> Result<Self> {
        let volume = Arc::new(Volume::new(Arc::clone(&job.device), &[])?);
        if let Some(path) = paths.first() {
            job.control.note_input(path);
        }
        headers::check(job, &volume, paths, options)?;
        let files = open_all(job, &volume, paths, options)?;
        let full = full_schema(&files, options.is_union)?;
        for predicate in &options.predicates {
            column_index(&full, &predicate.column, READ)?;
        }
        let mut input = TableInput {
            schema: Arc::clone(&full),
            full,
            files,
            predicates: options.predicates.clone(),
            pieces: Vec::new(),
            volume,
            job: job.clone(),
            held: Vec::new(),
        };
        input.choose(options.columns.as_deref())?;
        Ok(input)
    }

    /// Reserves the metadata's memory in the budget of `job`.
    ///
    /// # Errors
    /// Memory: they need more than half of it.
    pub(crate) fn hold(&mut self, job: &Job) -> Result<()> {
        let held_bytes = self.held_bytes();
        let free_bytes = job.budget.free_bytes();
        // The metadata of a few files are part of the fixed memory of every job.
        if held_bytes < FEW_FILES_BYTES {
            return Ok(());
        }
        if held_bytes > free_bytes / 2 {
            return Err(too_many_files(self.files.len(), held_bytes, free_bytes));
        }
        self.held.push(job.budget.reserve(FILES, held_bytes)?);
        Ok(())
    }

    /// Checks that the metadata of tables that are read together leave half of the memory of `job`
    /// free.
    ///
    /// # Errors
    /// Memory, with an amount that is enough.
    pub(crate) fn check_metadata(tables: &[TableInput], job: &Job) -> Result<()> {
        let limit_bytes = job.budget.limit_bytes();
        if job.budget.free_bytes() >= limit_bytes / 2 {
            return Ok(());
        }
        let count = tables.iter().map(|table| table.files.len()).sum();
        let held_bytes = tables.iter().map(TableInput::held_bytes).sum();
        Err(too_many_files(count, held_bytes, limit_bytes))
    }

    /// Selects these columns, in this order, or all.
    fn choose(&mut self, columns: Option<&[String]>) -> Result<()> {
        if let Some(names) = columns {
            let full = &self.full;
            let fields = names.iter().map(|name| {
                let place = FieldPlace::of(full, name, READ)?;
                Ok(place.field(full, name))
            });
            let fields = fields.collect::<Result<Vec<_>>>()?;
            let metadata = full.metadata().clone();
            self.schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        }
        check_names(&self.schema)?;
        for file in &mut self.files {
            file.plan(&self.schema);
        }
        let files = self.files.iter().enumerate();
        let pieces = files.map(|(index, file)| file.pieces(index, &self.full, &self.predicates));
        self.pieces = pieces.collect::<Result<Vec<_>>>()?.concat();
        Ok(())
    }

    /// Returns the same table with these columns, and with the pieces in which `predicates` may be
    /// true.
    ///
    /// # Errors
    /// Usage: a missing column.
    pub(crate) fn restricted(
        mut self,
        predicates: Vec<Predicate>,
        columns: &[String],
    ) -> Result<TableInput> {
        self.predicates.extend(predicates);
        self.choose(Some(columns))?;
        Ok(self)
    }

    /// Returns the same pieces with only these columns; readers use the memory of `job`. The bytes
    /// that they read are added to this table's count.
    ///
    /// # Errors
    /// Usage: a missing column.
    pub(crate) fn narrowed(&self, columns: &[String], job: &Job) -> Result<TableInput> {
        let mut narrow = TableInput {
            full: Arc::clone(&self.full),
            schema: Arc::clone(&self.full),
            files: self.files.clone(),
            predicates: self.predicates.clone(),
            pieces: Vec::new(),
            volume: Arc::clone(&self.volume),
            job: job.clone(),
            held: Vec::new(),
        };
        narrow.choose(Some(columns))?;
        Ok(narrow)
    }

    /// Whether the files have a column, or a field of objects, that is not selected.
    pub(crate) fn leaves_out(&self, name: &str) -> bool {
        let is_in = |schema: &Schema| FieldPlace::of(schema, name, READ).is_ok();
        is_in(&self.full) && !is_in(&self.schema)
    }

    /// If this table is text without rows, read with `reads`, returns options that read it with the
    /// types of `other`; `None` for any other table.
    pub(crate) fn reads_like(&self, other: &Self, reads: &InputOptions) -> Option<InputOptions> {
        let is_untyped = |table: &Self| {
            let mut files = table.files.iter();
            table.rows_count() == 0 && files.all(|file| matches!(*file.format, Format::Text(_)))
        };
        if !is_untyped(self) || is_untyped(other) {
            return None;
        }
        let has = |field: &&FieldRef| {
            self.full.fields().is_empty() || self.full.column_with_name(field.name()).is_some()
        };
        let fields = other.schema.fields().iter().filter(has).cloned();
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let text = reads.text.clone()?.with_types(&schema);
        Some(InputOptions {
            text: Some(text),
            ..reads.clone()
        })
    }

    /// The selected columns, in order, with the metadata of the first file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The names of the files, in order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns the same table with readers that use the memory of `job`. The bytes that they read
    /// are added to this table's count.
    ///
    /// # Errors
    /// None that opening did not report.
    pub(crate) fn under(&self, job: &Job) -> Result<TableInput> {
        self.narrowed(&self.names(), job)
    }

    /// Applies `work` to single rows of `batch`, and returns the first error, with the file and the
    /// row's number in the file, from 0. Returns `error` if no single row fails. The rows of
    /// `batch` begin with row `first` of a piece.
    pub(crate) fn row_at_fault(
        &self,
        piece: Piece,
        first: u64,
        batch: &RecordBatch,
        error: Error,
        work: impl Fn(RecordBatch) -> Result<()>,
    ) -> Error {
        let mut rows = 0..batch.num_rows();
        match rows.find_map(|row| Some((row, work(batch.slice(row, 1)).err()?))) {
            Some((row, error)) => self.at_row(piece, first + row as u64, error),
            None => error.path(&self.files[piece.file].path),
        }
    }

    /// Adds to the error the file of a row of a piece, and the row's number in the file, from 0.
    pub(crate) fn at_row(&self, piece: Piece, place: u64, error: Error) -> Error {
        let file = &self.files[piece.file];
        let count = |part: usize| match &*file.format {
            Format::Parquet(parquet) => u64::try_from(parquet.group(part).num_rows()).unwrap_or(0),
            Format::Ipc(ipc) => ipc.rows_count(part),
            Format::Text(text) => text.rows_count(part),
        };
        let before: u64 = (0..piece.part).map(count).sum();
        let cause = format!("row {}: {}", before + place, error.cause());
        let told = Error::new(error.kind(), error.operation(), cause).path(&file.path);
        match error.next_step() {
            Some(hint) => told.hint(hint),
            None => told,
        }
    }

    /// Columns whose dictionary would take about as much space as their values. This assumes that
    /// rows keep their order or are shuffled. Empty unless all files are Parquet.
    pub(crate) fn hardly_repeating(&self) -> Vec<String> {
        let mut repeats = Repeats::default();
        for file in &self.files {
            match &*file.format {
                Format::Parquet(parquet) => repeats.see(parquet.metadata().metadata()),
                Format::Ipc(_) | Format::Text(_) => return Vec::new(),
            }
        }
        let names = self.schema.fields().iter().map(|field| field.name());
        names.filter(|name| repeats.hardly(name)).cloned().collect()
    }

    /// Fails if a sampled line of JSON lines is not an object, unless bad lines are skipped. It is
    /// for callers that read no rows.
    ///
    /// # Errors
    /// Corrupt, with the line.
    pub fn check_sampled_rows(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| match &*file.format {
            Format::Text(text) => text.check_sampled_rows(),
            Format::Parquet(_) | Format::Ipc(_) => Ok(()),
        })
    }

    /// The number of rows in all pieces.
    pub fn rows_count(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.rows_count).sum()
    }

    /// The stored bytes of all pieces: what one pass reads.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.stored_bytes).sum()
    }

    /// Bytes that have been read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.volume.traffic_bytes().0
    }

    /// The job whose memory readers take.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Fails if a file has changed since it was opened.
    ///
    /// # Errors
    /// Corrupt: a file has changed. I/O.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let mut files = self.files.iter();
        files.try_for_each(|file| file.drive_file().check_unchanged())
    }

    /// The open files.
    pub(crate) fn open_files(&self) -> Vec<VolumeFile> {
        let files = self.files.iter();
        files.map(|file| file.drive_file().file().clone()).collect()
    }

    /// The least memory that can read all of it.
    pub(crate) fn memory_min_bytes(&self) -> u64 {
        let pieces = self.pieces.iter();
        pieces
            .map(|piece| piece.memory_min_bytes)
            .max()
            .unwrap_or(0)
    }

    /// The memory that its pieces and its rows need.
    pub(crate) fn need(&self) -> InputNeed {
        let long = self.pieces.iter().map(|piece| piece.long_bytes);
        InputNeed {
            piece_bytes: self.memory_min_bytes(),
            long_bytes: long.max().unwrap_or(0),
        }
    }

    /// Returns the same pieces with exact sizes from all pages and buffers. Callers with too little
    /// memory use it to report how much is enough.
    ///
    /// # Errors
    /// I/O, corrupt.
    pub(crate) fn looked_through(&self) -> Result<TableInput> {
        let names = self.names();
        let mut known = self.narrowed(&names, &self.job)?;
        for file in &mut known.files {
            let format = match &*file.format {
                Format::Parquet(parquet) => Format::Parquet(parquet.looked_through()?),
                Format::Ipc(ipc) => Format::Ipc(ipc.looked_through()?),
                Format::Text(_) => continue,
            };
            file.format = Arc::new(format);
        }
        known.choose(Some(&names))?;
        Ok(known)
    }

    /// The selected columns with long values.
    pub(crate) fn long_names(&self) -> Vec<String> {
        let mut names = self.names();
        if self.need().long_bytes == 0 {
            return Vec::new();
        }
        names.retain(|name| self.long_bytes_of(std::slice::from_ref(name)) > 0);
        names
    }

    /// The names of the selected columns.
    fn names(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// A bound on the bytes of these columns in one row, if their values are long; 0 otherwise.
    pub(crate) fn long_bytes_of(&self, columns: &[String]) -> u64 {
        let narrow = self.narrowed(columns, &self.job);
        narrow.map_or(0, |narrow| narrow.need().long_bytes)
    }

    /// Memory for the schemas and lists of pieces of all files.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.files.iter().map(TableFile::held_bytes).sum()
    }

    /// Creates a reader for the calling thread, with `memory_bytes` of the job's budget.
    ///
    /// # Errors
    /// Memory: less is left, or too little for a reader. I/O: the device has no further queue.
    pub fn reader(&self, memory_bytes: u64) -> Result<TableReader<'_>> {
        let needed_bytes = self.memory_min_bytes();
        if needed_bytes > memory_bytes {
            let cause = format!(
                "a row group needs {}, but a reader has only {}",
                units::bytes(needed_bytes),
                units::bytes(memory_bytes)
            );
            let files = self.pieces.iter();
            let file = files
                .max_by_key(|piece| piece.memory_min_bytes)
                .map(|piece| &self.files[piece.file]);
            let error = Error::new(Kind::Memory, READ, cause).hint(self.need().hint());
            return Err(match file {
                Some(file) => error.path(&file.path),
                None => error,
            });
        }
        let reservation = self.job.budget.reserve(READER, memory_bytes)?;
        let transfers = match self.files.first() {
            Some(file) => Some(file.drive_file().queue()?),
            None => None,
        };
        Ok(TableReader::new(self, transfers, reservation))
    }
}

impl TableFile {
    fn open(
        job: &Job,
        volume: &Arc<Volume>,
        path: PathBuf,
        options: &InputOptions,
    ) -> Result<Self> {
        let copy = options.copies.iter().find(|(name, _)| *name == path);
        let from = copy.map_or(&path, |(_, copy)| copy);
        let format = Self::format_of(job, volume, &path, from, options);
        Ok(TableFile {
            hive: hive::pairs_of(&path),
            format: Arc::new(format.map_err(|error| by_name(error, &path))?),
            path,
            origins: Vec::new(),
            read: Vec::new(),
        })
    }

    /// Reads the metadata of the file `from`, which is reported as `path`.
    fn format_of(
        job: &Job,
        volume: &Arc<Volume>,
        path: &Path,
        from: &Path,
        options: &InputOptions,
    ) -> Result<Format> {
        let file = DriveFile::open(volume, from)?;
        let head = file.read(0, HEAD_BYTES.min(file.len_bytes()))?;
        Ok(match (&head[..], &options.text) {
            (head, _) if head.starts_with(b"PAR1") || head.starts_with(b"PARE") => {
                Format::Parquet(ParquetFile::open(file)?)
            }
            (head, _) if head.starts_with(ipc::MAGIC) => Format::Ipc(IpcFile::open(file, false)?),
            (head, _) if head.starts_with(&ipc::CONTINUATION) => {
                Format::Ipc(IpcFile::open(file, true)?)
            }
            (head, Some(text)) if text.takes(path, head.is_empty()) => {
                Format::Text(Box::new(TextFile::open(job, file, path, text)?))
            }
            (head, _) => return Err(unknown(head, path).path(path)),
        })
    }

    fn schema(&self) -> &SchemaRef {
        match &*self.format {
            Format::Parquet(file) => file.schema(),
            Format::Ipc(file) => file.schema(),
            Format::Text(file) => file.schema(),
        }
    }

    fn drive_file(&self) -> &DriveFile {
        match &*self.format {
            Format::Parquet(file) => file.file(),
            Format::Ipc(file) => file.file(),
            Format::Text(file) => file.file(),
        }
    }

    /// Memory for the schema and the list of pieces.
    fn held_bytes(&self) -> u64 {
        let own_bytes = match &*self.format {
            Format::Parquet(file) => file.held_bytes(),
            Format::Ipc(file) => file.held_bytes(),
            Format::Text(_) => 0,
        };
        FILE_BYTES + 2 * self.path.as_os_str().len() as u64 + own_bytes
    }

    /// The ranges and memory of a piece that is fetched whole, if that fits into `memory_bytes`.
    fn whole(&self, part: usize, memory_bytes: u64) -> Option<Whole> {
        match &*self.format {
            Format::Parquet(file) => file.whole(part, &self.read, memory_bytes),
            Format::Ipc(file) => Some(file.whole(part)),
            Format::Text(file) => Some(file.whole(part)),
        }
    }

    /// Finds the origin of each column of `schema`.
    fn plan(&mut self, schema: &Schema) {
        let own = Arc::clone(self.schema());
        let place = |field: &FieldRef| FieldPlace::of(&own, field.name(), READ).ok();
        let roots = schema.fields().iter().filter_map(place);
        let mut read: Vec<usize> = roots.map(|place| place.root).collect();
        read.sort_unstable();
        read.dedup();
        let origin = |field: &FieldRef| {
            let among = place(field).and_then(|place| {
                let among = read.binary_search(&place.root).ok()?;
                Some((among, place))
            });
            let directory = self.hive.iter().find(|(name, _)| name == field.name());
            match (among, directory) {
                (Some((among, place)), _) => Origin::Read(among, place),
                (None, Some((_, value))) => Origin::Directory(value.clone()),
                (None, None) => Origin::Missing,
            }
        };
        self.origins = schema.fields().iter().map(origin).collect();
        self.read = read;
    }

    fn pieces(&self, file: usize, full: &Schema, predicates: &[Predicate]) -> Result<Vec<Piece>> {
        let is_out = |predicate: &Predicate| {
            let directory = self.hive.iter().find(|(name, _)| *name == predicate.column);
            let field = full.field_with_name(&predicate.column).ok();
            match (directory, field) {
                (Some((name, value)), Some(field)) if self.schema().index_of(name).is_err() => {
                    !predicate.comparison.may_hold_of(field, value.as_deref())
                }
                _ => false,
            }
        };
        if predicates.iter().any(is_out) {
            return Ok(Vec::new());
        }
        match &*self.format {
            Format::Parquet(parquet) => {
                let keep = fault::guarded(READ, || {
                    Ok(predicate::row_groups(predicates, parquet.metadata()))
                });
                let keep = keep.map_err(|error| error.path(&self.path))?;
                let kept = keep.iter().enumerate().filter(|(_, keep)| **keep);
                let piece = |part| Piece {
                    file,
                    part,
                    rows_count: u64::try_from(parquet.group(part).num_rows()).unwrap_or(0),
                    stored_bytes: parquet.stored_bytes(part, &self.read),
                    memory_min_bytes: parquet.memory_min_bytes(part, &self.read),
                    long_bytes: parquet.long_bytes(part, &self.read),
                };
                Ok(kept.map(|(part, _)| piece(part)).collect())
            }
            Format::Ipc(ipc) => {
                let piece = |part| Piece {
                    file,
                    part,
                    rows_count: ipc.rows_count(part),
                    stored_bytes: ipc.stored_bytes(part),
                    memory_min_bytes: ipc.memory_min_bytes(part),
                    long_bytes: ipc.long_bytes(&self.read),
                };
                Ok((0..ipc.batches_count()).map(piece).collect())
            }
            Format::Text(text) => {
                let piece = |part| Piece {
                    file,
                    part,
                    rows_count: text.rows_count(part),
                    stored_bytes: text.stored_bytes(part),
                    memory_min_bytes: text.memory_min_bytes(part),
                    long_bytes: need::long_bytes(text.stored_bytes(part), text.rows_count(part)),
                };
                Ok((0..text.parts_count()).map(piece).collect())
            }
        }
    }

    /// Converts a batch of this file to one of the table.
    fn shaped(&self, schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows_count = batch.num_rows();
        let columns = schema.fields().iter().zip(&self.origins);
        let columns = columns.map(|(field, origin)| match origin {
            Origin::Read(among, place) => {
                let values = place.values(batch.column(*among))?;
                cast_to(UNITE, field.name(), &values, field.data_type())
            }
            Origin::Directory(value) => hive::column(field, value.as_deref(), rows_count),
            Origin::Missing => Ok(new_null_array(field.data_type(), rows_count)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows_count));
        let shaped = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
        shaped.map_err(|error| fault::arrow(READ, &error))
    }
}

/// Replaces the path in an error with the name that the user gave, because the file that is read
/// may be a copy.
fn by_name(error: Error, name: &Path) -> Error {
    match error.file_path() {
        Some(_) => error.path(name),
        None => error,
    }
}

fn unknown(head: &[u8], path: &Path) -> Error {
    let is_text = TextKind::of_table_name(path).is_some();
    if head.is_empty() && !is_text {
        let cause = "the file is empty, and so it is neither Parquet nor Arrow";
        return Error::corrupt(READ, cause).hint("write it again, or leave it out");
    }
    if head.is_empty() {
        return Error::corrupt(READ, "the file is empty: it does not name its columns")
            .hint("write a header into its first line, or the whole file again");
    }
    if head.starts_with(b"FEA1") {
        return Error::usage(READ, "Feather V1 is not supported")
            .hint("write it again as Feather V2, which pyarrow does by default");
    }
    Error::usage(
        READ,
        "its first bytes are neither those of Parquet nor of Arrow",
    )
    .hint(
        "name Parquet files, Arrow IPC files or streams, or text that ends in .csv or .jsonl; \
         for standard input, name its format, too",
    )
}
