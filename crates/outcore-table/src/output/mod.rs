//! Writes Parquet, Arrow IPC files and streams, CSV and JSON lines, absent or whole.
//!
//! Contract: a [`TableOutput`] is one file, or several with equal numbers of rows. It is written in
//! *sections*, numbered from 0 in the order of the output. One thread encodes all row groups of a
//! section; encoded groups are appended in the order of the section numbers
//! ([`sequencer`](Sequencer)). A thread whose turn has not come waits when its first row group is
//! full. Threads take the numbers in order and one at a time, so the lowest open section always
//! makes progress.
//!
//! [`TableOutput::publish`] writes the footers, and makes the files appear through the engine's
//! staged output. If the output is dropped before that, no file remains. A [`TableStream`] receives
//! a table while it is made, so it is incomplete if the job fails. An Arrow stream then ends in the
//! middle of a message, because readers accept a stream as complete if it ends between two
//! messages.
//!
//! A row group ends after a number of rows or encoded bytes, at the end of its section, or at the
//! end of its file. Output depends only on the rows, the starts of sections and the options, not on
//! threads or time; the memory of a writer counts as an option.
//!
//! - Parquet files record their sort order, have page indexes and statistics, and keep the schema's
//!   metadata. Dictionary columns are written with dictionaries, and read back as such. Times in
//!   seconds, which Parquet lacks, become milliseconds.
//! - Arrow batches are compressed when their turn has come, so only Parquet is compressed in
//!   parallel. An Arrow file has one dictionary per column, which grows from batch to batch
//!   ([`dictionaries`]).
//! - CSV and JSON lines ([`text`]) are formatted and compressed by the section's thread.
//!
//! Bounds: a section holds one row group ([`OutputOptions::group_bytes_max`], or its part of the
//! memory), and each file being written has [`sink`]'s buffers. All of it is reserved when the
//! output is created. Pages are small enough for the number of columns. Footers are not counted: a
//! few hundred bytes per column and row group.

mod dictionaries;
mod group;
mod kept;
mod options;
mod pages;
mod refused;
mod schema;
mod sink;
mod staging;
pub(crate) mod text;
pub(crate) mod vectors;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::{DictionaryHandling, FileWriter, StreamWriter};
use arrow_schema::SchemaRef;
use outcore::Job;
use outcore::primitives::sized_files::SizedFiles;
use outcore::sort::lines::RowJournal;
use outcore_io::memory::Reservation;
use outcore_io::output::{Shard, StagedOutput, WrittenOutput};
use outcore_io::port::Volume;
use outcore_io::{Error, Kind, Result, units};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::file::writer::SerializedFileWriter;

use crate::fault;
use dictionaries::Dictionaries;
use group::Group;
use kept::{KeptSections, KeptTable};
use pages::Pages;
use refused::{given_up, unwritable, unwritable_arrow};
use schema::{check_known, hydrated, written_schema};
pub(crate) use schema::{in_utc, shown};
pub(crate) use sink::SINK_BYTES;
use sink::{Sink, TORN_ARROW};
pub(crate) use staging::StagedFile;
pub use staging::list_of;
use staging::{file_rows, staged_file};

pub use options::{Codec, FileRows, OutputOptions, TableFormat, TableStream, VectorLayout};

const WRITE: &str = "write table";
/// The ledger's name for row groups that are being encoded.
const GROUPS: &str = "row groups being written";
/// The ledger's name for write buffers.
const BUFFERS: &str = "buffers of written tables";
/// The most rows that are encoded between two checks of the memory.
const STEP_ROWS: usize = 4096;
/// The most memory for text that is being formatted.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// The memory and the threads of an output.
#[derive(Debug, Clone, Copy)]
pub struct WriterShape {
    /// Sections that are open at once.
    pub writers_count: usize,
    /// The memory of all sections and buffers.
    pub memory_bytes: u64,
    /// Rows of the whole output; required for several files.
    pub rows_count: Option<u64>,
}

/// A table that is being written. See the module.
pub struct TableOutput {
    schema: SchemaRef,
    options: OutputOptions,
    job: Job,
    volume: Arc<Volume>,
    /// Declared before `staged`, so that the writer of a file is dropped before the file.
    sequencer: Sequencer,
    /// Creates the columns of row groups, for all files.
    factory: Option<Arc<ArrowRowGroupWriterFactory>>,
    /// `None` if a stream receives the table.
    staged: Option<StagedOutput>,
    /// The rows at which files end.
    files: FileRows,
    group_bytes: u64,
    /// Memory for the dictionaries of an Arrow file.
    dictionaries_bytes: u64,
    /// How a Parquet row group's memory is divided.
    pages: Pages,
    _reservation: Reservation,
}

/// Controls which section may append next, and to which file.
struct Sequencer {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The section that may append.
    next: u64,
    /// Rows of the finished sections.
    rows: u64,
    /// The whole sections of the file, for a run that continues this one.
    kept: Option<KeptSections>,
    /// Whether a section has failed or was abandoned; all later ones then fail.
    is_failed: bool,
    /// The file that is being written.
    file: Option<OpenFile>,
    /// Lengths of the finished files.
    lens_bytes: Vec<u64>,
}

/// One file, in its format.
struct OpenFile {
    writer: Writer,
    index: usize,
    dictionaries: Dictionaries,
}

enum Writer {
    Parquet(Box<SerializedFileWriter<Sink>>),
    File(Box<FileWriter<Sink>>),
    Stream(Box<StreamWriter<Sink>>),
    Text(Box<Sink>),
}

impl TableOutput {
    /// Stages the files `paths` for batches of `schema`.
    ///
    /// # Errors
    /// Usage: an existing file, an option that does not fit the format, several files for an
    /// unknown number of rows. Memory: less than the columns need. I/O.
    pub fn create(
        job: &Job,
        paths: &[PathBuf],
        schema: &SchemaRef,
        options: &OutputOptions,
        shape: WriterShape,
    ) -> Result<Self> {
        Self::create_in(None, job, paths, schema, options, shape)
    }

    /// Like [`TableOutput::create`], for a single file that may be staged already.
    ///
    /// # Errors
    /// As [`TableOutput::create`].
    pub(crate) fn create_in(
        file: Option<StagedFile>,
        job: &Job,
        paths: &[PathBuf],
        schema: &SchemaRef,
        options: &OutputOptions,
        shape: WriterShape,
    ) -> Result<Self> {
        let options = &options.fitting(schema);
        let files = match &options.files {
            FileRows::Each(rows) if paths.len() > 1 => FileRows::Each(*rows.max(&1)),
            FileRows::Ends(ends) if paths.len() > 1 => FileRows::Ends(ends.clone()),
            _ => FileRows::Each(file_rows(paths, shape.rows_count)?),
        };
        let writers_count = shape.writers_count.max(1) as u64;
        let spare_bytes = shape.memory_bytes.saturating_sub(SINK_BYTES) / writers_count;
        let needed_bytes = options.group_min_bytes(schema).max(1);
        if spare_bytes < needed_bytes {
            let needed = units::bytes(needed_bytes * writers_count + SINK_BYTES);
            let cause = format!(
                "writing {} takes {needed}, but there is only {}",
                units::counted(schema.fields().len() as u64, "column"),
                units::bytes(shape.memory_bytes)
            );
            // An output has at least a quarter of the memory.
            let all_bytes = needed_bytes.saturating_mul(writers_count) + SINK_BYTES;
            let enough_bytes = (4 * all_bytes.min(1 << 60)).next_multiple_of(64 << 20);
            let hint = format!(
                "allow --memory {}, use fewer threads, write fewer columns, or compress with --codec lz4",
                units::bytes_exact(enough_bytes)
            );
            return Err(Error::new(Kind::Memory, WRITE, cause).hint(hint));
        }
        let most_bytes = match options.format.is_text() {
            true => options.group_bytes_max.min(TEXT_BYTES_MAX),
            false => {
                let contexts_bytes = options
                    .pages(schema, options.group_bytes_max)
                    .contexts_bytes;
                options.group_bytes_max + options.dictionaries_bytes(schema) + contexts_bytes
            }
        };
        let group_bytes = most_bytes.clamp(needed_bytes, spare_bytes);
        let group_memory_bytes = match options.format {
            TableFormat::Parquet
            | TableFormat::Csv
            | TableFormat::Tsv
            | TableFormat::JsonLines
            | TableFormat::Lines
            | TableFormat::Vectors => group_bytes * writers_count,
            TableFormat::ArrowFile if dictionaries::are_in(schema) => {
                spare_bytes * writers_count / 2
            }
            TableFormat::ArrowFile | TableFormat::ArrowStream => 0,
        };
        let reservation = job.budget.reserve(GROUPS, group_memory_bytes)?;
        let schema = written_schema(schema, options.format);
        // Invalid options are reported before any file is created.
        options.parquet(&schema, group_bytes)?;
        match options.format {
            TableFormat::Parquet => check_known(&schema)?,
            TableFormat::ArrowFile | TableFormat::ArrowStream => {
                options.ipc()?;
            }
            TableFormat::Csv | TableFormat::Tsv | TableFormat::JsonLines | TableFormat::Lines => {
                text::check(&schema, options.format)?
            }
            TableFormat::Vectors => vectors::check(&schema)?,
        }
        let keeps_sections = file.as_ref().is_some_and(|file| file.keeps_sections);
        let file = staged_file(file, job, paths, options)?;
        let pages = options.pages(&schema, group_bytes);
        let mut output = TableOutput {
            schema,
            options: options.clone(),
            job: job.clone(),
            volume: file.volume,
            staged: file.staged,
            files,
            group_bytes,
            dictionaries_bytes: group_memory_bytes,
            pages,
            sequencer: Sequencer {
                state: Mutex::new(State {
                    next: 0,
                    rows: 0,
                    is_failed: false,
                    file: None,
                    lens_bytes: Vec::new(),
                    kept: None,
                }),
                changed: Condvar::new(),
            },
            factory: None,
            _reservation: reservation,
        };
        let factory = output.begin(file.kept, keeps_sections)?;
        output.factory = factory;
        Ok(output)
    }

    /// Opens section `number`, whose first row is `first_row` of the output (needed only for
    /// several files). Each number is taken once, by threads that have one section at a time.
    pub fn section(&self, number: u64, first_row: u64) -> Section<'_> {
        Section {
            output: self,
            number,
            first_row,
            row: first_row,
            group: None,
            text: (Vec::new(), 0),
            is_finished: false,
        }
    }

    /// Opens the section after the finished ones, for an output of one file.
    pub(crate) fn section_behind(&self) -> Section<'_> {
        let number = self.sequencer.lock().next;
        self.section(number, 0)
    }

    /// Rows of the finished sections.
    pub(crate) fn rows_written(&self) -> u64 {
        self.sequencer.lock().rows
    }

    /// Abandons the output: sections that wait for earlier ones fail.
    pub(crate) fn give_up(&self) {
        self.sequencer.lock().is_failed = true;
        self.sequencer.changed.notify_all();
    }

    /// Memory for the rows of a row group that is being encoded.
    pub(crate) fn group_bytes(&self) -> u64 {
        self.group_bytes - self.pages.contexts_bytes
    }

    /// The most rows of a row group.
    pub(crate) fn group_rows_max(&self) -> usize {
        self.options.group_rows_max.max(1)
    }

    /// Writes the footers, and waits until all files are written. No section can be opened after
    /// this.
    ///
    /// # Errors
    /// A section was abandoned. I/O. On failure, no file remains.
    pub(crate) fn end(&self) -> Result<()> {
        let mut state = self.sequencer.lock();
        if state.is_failed {
            return Err(given_up());
        }
        while let Some(file) = state.file.take() {
            let next = file.index + 1;
            let len_bytes = file
                .finish()
                .map_err(|error| self.located(next - 1, error))?;
            state.lens_bytes.push(len_bytes);
            if next < self.files_count() {
                state.file = Some(self.open_file(next, None)?.0);
            }
        }
        Ok(())
    }

    /// Ends the files, makes them appear, and returns their lengths in bytes.
    ///
    /// # Errors
    /// As [`TableOutput::end`].
    pub fn publish(self) -> Result<Vec<u64>> {
        self.end()?;
        let lens_bytes = std::mem::take(&mut self.sequencer.lock().lens_bytes);
        if let Some(staged) = self.staged {
            staged.publish_each(&self.volume, &lens_bytes)?;
        }
        Ok(lens_bytes)
    }

    /// Like [`TableOutput::publish`], for a single file with the journal of its job, if the job
    /// keeps one.
    ///
    /// # Errors
    /// As [`TableOutput::publish`].
    pub(crate) fn publish_kept(self, journal: Option<RowJournal>) -> Result<Vec<u64>> {
        let Some(journal) = journal else {
            return self.publish();
        };
        self.end()?;
        let lens_bytes = std::mem::take(&mut self.sequencer.lock().lens_bytes);
        if let (Some(staged), [len_bytes]) = (self.staged, &lens_bytes[..]) {
            journal.publish(&self.volume, staged, *len_bytes)?;
        }
        Ok(lens_bytes)
    }

    /// The unfinished files; `None` for a stream.
    pub(crate) fn staged(&self) -> Option<&StagedOutput> {
        self.staged.as_ref()
    }

    /// Publishes the table together with files that are already written.
    ///
    /// # Errors
    /// As [`TableOutput::publish`]. Usage: the output is a stream or a set of files.
    pub(crate) fn publish_beside(self, files: SizedFiles) -> Result<Vec<u64>> {
        self.end()?;
        let lens_bytes = std::mem::take(&mut self.sequencer.lock().lens_bytes);
        match self.staged.filter(|staged| !staged.is_set()) {
            Some(staged) => files.publish_with(staged, &lens_bytes)?,
            None => {
                let cause =
                    "only a table that is one file can be published together with other files";
                return Err(Error::usage(WRITE, cause).hint("name one file"));
            }
        }
        Ok(lens_bytes)
    }

    /// Publishes two outputs, which appear together if neither is a set of files.
    ///
    /// # Errors
    /// As [`TableOutput::publish`].
    pub(crate) fn publish_with(self, other: TableOutput) -> Result<(Vec<u64>, Vec<u64>)> {
        self.end()?;
        other.end()?;
        let is_plain = |output: &TableOutput| {
            let staged = output.staged.as_ref();
            staged.is_some_and(|staged| !staged.is_set())
        };
        if !is_plain(&self) || !is_plain(&other) {
            return Ok((self.publish()?, other.publish()?));
        }
        let first_count = self.files_count();
        let mut lens_bytes = TableOutput::publish_all(vec![self, other])?;
        let other_lens_bytes = lens_bytes.split_off(first_count);
        Ok((lens_bytes, other_lens_bytes))
    }

    /// Publishes any number of outputs together; none of them is a set of files. Returns the
    /// lengths of all files.
    ///
    /// # Errors
    /// As [`TableOutput::publish`].
    pub(crate) fn publish_all(outputs: Vec<TableOutput>) -> Result<Vec<u64>> {
        outputs.iter().try_for_each(TableOutput::end)?;
        let (mut written, mut volumes, mut all_bytes) = (Vec::new(), Vec::new(), Vec::new());
        for output in outputs {
            let lens_bytes = std::mem::take(&mut output.sequencer.lock().lens_bytes);
            all_bytes.extend_from_slice(&lens_bytes);
            volumes.push(output.volume);
            written.extend(
                output
                    .staged
                    .map(|output| WrittenOutput { output, lens_bytes }),
            );
        }
        if let Some(volume) = volumes.first() {
            StagedOutput::publish_all(written, volume)?;
        }
        Ok(all_bytes)
    }

    /// The staged files.
    fn shards(&self) -> &[Shard] {
        self.staged.as_ref().map_or(&[], StagedOutput::shards)
    }

    /// The number of files, or 1 for a stream.
    fn files_count(&self) -> usize {
        self.shards().len().max(1)
    }

    fn located(&self, index: usize, error: Error) -> Error {
        match self.shards().get(index) {
            Some(shard) if error.file_path().is_none() => error.path(&shard.plan.path),
            _ => error,
        }
    }

    /// Opens a file after the part that a killed run has written.
    fn open_file(
        &self,
        index: usize,
        kept: Option<&mut KeptTable>,
    ) -> Result<(OpenFile, Option<Arc<ArrowRowGroupWriterFactory>>)> {
        let stream = self.options.stream.as_ref().and_then(TableStream::take);
        let sink = match (stream, self.shards().get(index)) {
            (Some(stream), _) => Sink::to_stream(
                stream,
                match self.options.format {
                    TableFormat::ArrowStream => TORN_ARROW,
                    _ => &[],
                },
            ),
            (None, Some(shard)) => {
                let (budget, file) = (&self.job.budget, &shard.file);
                match kept {
                    None => Sink::to_file(budget, BUFFERS, &self.volume, file)?,
                    Some(kept) => {
                        let sum = std::mem::take(&mut kept.sum);
                        Sink::behind(budget, BUFFERS, &self.volume, file, &kept.front, sum)?
                    }
                }
            }
            (None, None) => return Err(given_up()),
        };
        let (writer, factory) = match self.options.format {
            TableFormat::Parquet => {
                let settings = self.options.parquet(&self.schema, self.group_bytes)?;
                let open = || {
                    let schema = Arc::clone(&self.schema);
                    let writer = ArrowWriter::try_new(sink, schema, Some(settings));
                    let parts = writer.and_then(ArrowWriter::into_serialized_writer);
                    parts.map_err(|error| unwritable(&error))
                };
                let opened = fault::written(WRITE, open);
                let (writer, factory) = opened.map_err(|error| self.located(index, error))?;
                (Writer::Parquet(Box::new(writer)), Some(Arc::new(factory)))
            }
            TableFormat::ArrowFile => {
                let options = self.options.ipc()?;
                let options = options.with_dictionary_handling(DictionaryHandling::Delta);
                let writer = FileWriter::try_new_with_options(sink, &self.schema, options);
                let writer = writer.map_err(|error| unwritable_arrow(&error))?;
                (Writer::File(Box::new(writer)), None)
            }
            TableFormat::ArrowStream => {
                let options = self.options.ipc()?;
                let writer = StreamWriter::try_new_with_options(sink, &self.schema, options);
                let writer = writer.map_err(|error| unwritable_arrow(&error))?;
                (Writer::Stream(Box::new(writer)), None)
            }
            TableFormat::Csv
            | TableFormat::Tsv
            | TableFormat::JsonLines
            | TableFormat::Lines
            | TableFormat::Vectors => {
                let mut sink = Box::new(sink);
                let header = match self.options.format {
                    TableFormat::Vectors => self.options.vectors.front.clone(),
                    format => text::header(&self.schema, format),
                };
                let header = text::packed(header, self.options.codec)?;
                let written = sink.write_all(&header);
                written.map_err(|error| fault::passed_through(WRITE, &error))?;
                sink.end_front();
                (Writer::Text(sink), None)
            }
        };
        let file = OpenFile {
            writer,
            index,
            dictionaries: Dictionaries::default(),
        };
        Ok((file, factory))
    }

    /// The number of the file that holds `row`.
    fn file_of(&self, row: u64) -> usize {
        let last = self.files_count() - 1;
        let file = match &self.files {
            FileRows::Equal => 0,
            FileRows::Each(rows) => usize::try_from(row / rows).unwrap_or(last),
            FileRows::Ends(ends) => ends.partition_point(|end| *end <= row),
        };
        file.min(last)
    }

    /// The row before which a file ends, unless it is the last file.
    fn end_of(&self, file: usize) -> Option<u64> {
        match &self.files {
            _ if file + 1 >= self.files_count() => None,
            FileRows::Equal => None,
            FileRows::Each(rows) => Some((file as u64 + 1) * rows),
            FileRows::Ends(ends) => ends.get(file).copied(),
        }
    }

    /// Waits for the turn of section `number`, and opens the file of its rows.
    fn turn(&self, number: u64, file: usize) -> Result<MutexGuard<'_, State>> {
        let mut state = self.sequencer.lock();
        while state.next != number && !state.is_failed {
            self.job.control.check()?;
            let waited = self
                .sequencer
                .changed
                .wait_timeout(state, outcore_io::port::WAIT_MAX);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_failed {
            return Err(given_up());
        }
        while let Some(open) = state.file.take() {
            if open.index >= file {
                state.file = Some(open);
                break;
            }
            let next = open.index + 1;
            let len_bytes = open
                .finish()
                .map_err(|error| self.located(next - 1, error))?;
            state.lens_bytes.push(len_bytes);
            state.file = Some(self.open_file(next, None)?.0);
        }
        Ok(state)
    }
}

impl Sequencer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenFile {
    fn finish(self) -> Result<u64> {
        let sink = match self.writer {
            Writer::Text(sink) => *sink,
            Writer::Parquet(writer) => {
                // Writes the footer.
                writer.into_inner().map_err(|error| unwritable(&error))?
            }
            Writer::File(mut writer) => {
                writer.finish().map_err(|error| unwritable_arrow(&error))?;
                writer
                    .into_inner()
                    .map_err(|error| unwritable_arrow(&error))?
            }
            Writer::Stream(mut writer) => {
                writer.finish().map_err(|error| unwritable_arrow(&error))?;
                writer
                    .into_inner()
                    .map_err(|error| unwritable_arrow(&error))?
            }
        };
        sink.finish()
    }
}

/// A contiguous part of an output, written by one thread. See [`TableOutput`].
pub struct Section<'a> {
    output: &'a TableOutput,
    number: u64,
    /// The section's first row in the output.
    first_row: u64,
    /// Its next row.
    row: u64,
    group: Option<Group>,
    /// Formatted text, and the number of its file.
    text: (Vec<u8>, usize),
    is_finished: bool,
}

impl Section<'_> {
    /// Appends the rows of `batch`.
    ///
    /// # Errors
    /// I/O; another section has failed; interrupted.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let index = self.output.file_of(self.row);
        let written = fault::written(WRITE, || self.write_guarded(batch));
        written.map_err(|error| self.output.located(index, error))
    }

    fn write_guarded(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = hydrated(batch, &self.output.schema, self.output.options.format)?;
        let mut from = 0;
        while from < batch.num_rows() {
            self.output.job.control.check()?;
            let rows_count = self.step(&batch, batch.num_rows() - from);
            let part = batch.slice(from, rows_count);
            match self.output.options.format {
                TableFormat::Parquet => self.encode(&part)?,
                TableFormat::ArrowFile | TableFormat::ArrowStream => self.append_batch(&part)?,
                TableFormat::Csv
                | TableFormat::Tsv
                | TableFormat::JsonLines
                | TableFormat::Lines
                | TableFormat::Vectors => {
                    self.encode_text(&part)?;
                }
            }
            self.row += rows_count as u64;
            from += rows_count;
        }
        Ok(())
    }

    /// The number of rows to write next: at most to the end of the file, and limited by the memory.
    fn step(&self, batch: &RecordBatch, left: usize) -> usize {
        let output = self.output;
        let options = &output.options;
        let mut rows_count = left.min(options.group_rows_max.max(1));
        if let Some(end) = output.end_of(output.file_of(self.row)) {
            let file_left = end - self.row;
            rows_count = rows_count.min(usize::try_from(file_left).unwrap_or(usize::MAX));
        }
        if matches!(
            options.format,
            TableFormat::ArrowFile | TableFormat::ArrowStream
        ) {
            return rows_count.max(1);
        }
        let sizes = batch.columns().iter();
        let sizes =
            sizes.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64);
        let row_bytes = sizes.sum::<u64>() / batch.num_rows().max(1) as u64;
        let by_memory = output.group_bytes() / 8 / row_bytes.max(1);
        rows_count = rows_count
            .min(usize::try_from(by_memory).unwrap_or(usize::MAX))
            .min(STEP_ROWS);
        if let Some(group) = &self.group {
            rows_count = rows_count.min(options.group_rows_max.saturating_sub(group.rows_count));
        }
        rows_count.max(1)
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let output = self.output;
        if batch.num_columns() == 0 {
            return Err(
                Error::usage(WRITE, "a Parquet file needs at least one column")
                    .hint("write .arrow, or choose at least one column"),
            );
        }
        let file = output.file_of(self.row);
        if self.group.as_ref().is_some_and(|group| group.file != file) {
            self.append_group()?;
        }
        let group = match &mut self.group {
            Some(group) => group,
            none => {
                let factory = output.factory.as_ref().ok_or_else(given_up)?;
                let columns = factory.create_column_writers(0);
                let columns = columns.map_err(|error| unwritable(&error))?;
                none.insert(Group::new(columns, output.pages, file))
            }
        };
        group
            .write(output.schema.fields(), batch)
            .map_err(|error| unwritable(&error))?;
        // Open pages are encoded and compressed when the group ends.
        let is_full = group.held_bytes >= output.group_bytes() / 4 * 3
            || group.rows_count >= output.options.group_rows_max
            || group.is_out_of_contexts();
        if is_full { self.append_group() } else { Ok(()) }
    }

    /// Ends the row group, and appends it when the section's turn has come.
    fn append_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        let file = group.file;
        let chunks = group.close().map_err(|error| unwritable(&error))?;
        let mut state = self.output.turn(self.number, file)?;
        let State {
            kept,
            file: open,
            is_failed,
            ..
        } = &mut *state;
        let Some(OpenFile {
            writer: Writer::Parquet(writer),
            ..
        }) = open
        else {
            return Err(given_up());
        };
        let closed = kept.as_ref().map(|_| {
            let closed = chunks.iter().map(|chunk| chunk.close().clone());
            closed.collect()
        });
        let append = || {
            let mut appended = writer.next_row_group()?;
            for chunk in chunks {
                chunk.append_to_row_group(&mut appended)?;
            }
            appended.close()
        };
        let appended = append().map_err(|error| self.output.located(file, unwritable(&error)));
        if let (Some(kept), Some(closed)) = (kept, closed) {
            kept.note_group(closed);
        }
        *is_failed |= appended.is_err();
        appended.map(|_| ())
    }

    fn append_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let file = self.output.file_of(self.row);
        let mut state = self.output.turn(self.number, file)?;
        let written = match &mut state.file {
            Some(OpenFile {
                writer: Writer::File(writer),
                dictionaries,
                ..
            }) => {
                let united = dictionaries.unite(batch, self.output.dictionaries_bytes);
                united.and_then(|batch| {
                    writer
                        .write(&batch)
                        .map_err(|error| unwritable_arrow(&error))
                })
            }
            Some(OpenFile {
                writer: Writer::Stream(writer),
                ..
            }) => writer
                .write(batch)
                .map_err(|error| unwritable_arrow(&error)),
            _ => return Err(given_up()),
        };
        let written = written.map_err(|error| self.output.located(file, error));
        state.is_failed |= written.is_err();
        written
    }

    fn encode_text(&mut self, batch: &RecordBatch) -> Result<()> {
        let output = self.output;
        let file = output.file_of(self.row);
        if self.text.1 != file {
            self.append_text()?;
            self.text.1 = file;
        }
        let encoded = match output.options.format {
            TableFormat::Vectors => {
                let layout = &output.options.vectors;
                vectors::encode(batch, self.row, layout, &mut self.text.0)
            }
            format => text::encode(batch, format, &mut self.text.0),
        };
        encoded.map_err(|error| output.located(file, error))?;
        match self.text.0.len() as u64 >= output.group_bytes() / 4 {
            true => self.append_text(),
            false => Ok(()),
        }
    }

    /// Appends the formatted text when the section's turn has come.
    fn append_text(&mut self) -> Result<()> {
        let (text, file) = std::mem::take(&mut self.text);
        if text.is_empty() {
            return Ok(());
        }
        let packed = text::packed(text, self.output.options.codec)?;
        let mut state = self.output.turn(self.number, file)?;
        let Some(OpenFile {
            writer: Writer::Text(sink),
            ..
        }) = &mut state.file
        else {
            return Err(given_up());
        };
        let written = sink.write_all(&packed).map_err(|error| {
            self.output
                .located(file, fault::passed_through(WRITE, &error))
        });
        state.is_failed |= written.is_err();
        written
    }

    /// Appends the rest, and lets the next section continue.
    ///
    /// # Errors
    /// As [`Section::write`].
    pub fn finish(mut self) -> Result<()> {
        let index = self.output.file_of(self.row);
        let appended = fault::written(WRITE, || {
            self.append_group().and_then(|()| self.append_text())
        });
        appended.map_err(|error| self.output.located(index, error))?;
        let mut state = self.output.turn(self.number, 0)?;
        state.next += 1;
        state.rows += self.row - self.first_row;
        state.note_section()?;
        self.is_finished = true;
        drop(state);
        self.output.sequencer.changed.notify_all();
        Ok(())
    }
}

/// An abandoned section ends the output, because later ones would wait for ever.
impl Drop for Section<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.output.give_up();
        }
    }
}
