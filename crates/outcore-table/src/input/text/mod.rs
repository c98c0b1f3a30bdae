//! CSV and JSON lines as tables: infers columns and types, and builds batches from records.
//!
//! Contract: a [`TextFile`] has been scanned once ([`scan`]), so its pieces, each of whole records,
//! and their row counts are known, as for a Parquet file. CSV records are those of
//! [`outcore::read::csv`]; a JSON line holds one object. Types come from [`TextOptions::schema`],
//! or else from a sample of all files ([`column`], [`shape`]); [`TextOptions::notes`] reports the
//! inferred types. A record with a wrong number of fields, a value that does not have its column's
//! type, or a field that no column has is an error. The error names line, column and value, and the
//! flag that helps. Nothing is rounded or left out to make a value fit.
//!
//! CSV: the first record has the names of the columns; without it, the names are 1, 2, and so on.
//! An empty field is null. An empty field in quotes is an empty text, or null if the type has none.
//! JSON: a field that an object lacks is null; numbers and truth values become texts in a column of
//! texts.
//!
//! Bounds: a reader holds the text of a piece and a batch whose rows its memory limits.

mod bad_rows;
mod batches;
mod column;
mod json;
mod scan;
mod shape;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use memchr::memchr_iter;
use outcore::Job;
use outcore_io::units::{self, nearest};
use outcore_io::{Error, Kind, Result};

pub use crate::notation::parse as parse_types;
pub use bad_rows::{OnBadRow, null_texts};
pub(super) use batches::TextReader;
pub(super) use column::{ANY, kinds_of, type_of, values_of};
pub use outcore::read::text_kind::TextKind;

use super::source::{DriveFile, Fetched, Whole};
use crate::notation::notation;
use crate::rows::KeyColumn;
use bad_rows::{Rules, Tally};
use batches::{Piece, Shape as Wanted};
use column::Kinds;
use outcore::read::csv::{fields, value};
use outcore::read::json::strict;
use outcore::read::separator::{Beginning, given_separator_note, likely_separator, separator_note};
use outcore::read::text_kind::usual_separator;
use scan::{Part, Records, Scanned};
use shape::{Shape, fields_of};

/// The operation that errors in the text report.
pub(super) const PARSE: &str = "read text";
/// Approximate memory of a value in addition to its bytes.
const VALUE_BYTES: u64 = 40;
/// Rows of a batch while rows are checked.
const CHECKED_ROWS: usize = 4096;
/// The most characters of a line that a message shows.
const SHOWN_CHARS: usize = 60;
/// Bytes of a file that are sampled for the separator.
const SEPARATOR_SAMPLE_BYTES: u64 = 64 << 10;

/// How text becomes a table.
#[derive(Debug, Clone, Default)]
pub struct TextOptions {
    /// The kind of text; taken from the file names if `None`.
    pub kind: Option<TextKind>,
    /// The separator of CSV fields; found in a sample of the records if `None`.
    pub separator: Option<u8>,
    /// The first record of CSV is a row, not a header.
    pub is_without_header: bool,
    /// Types of columns, by name.
    pub schema: Vec<(String, DataType)>,
    /// Texts of CSV fields that are null, in addition to empty fields.
    pub nulls: Vec<String>,
    /// The treatment of rows that do not fit the columns. All choices except for [`OnBadRow::Fail`]
    /// read the text a second time.
    pub on_bad: OnBadRow,
    /// Columns that the job needs in addition to the selected ones. CSV headers are checked for
    /// them before the text is scanned.
    pub needs: Vec<String>,
    /// Key columns with a given type; the files must have them.
    pub typed_keys: Vec<String>,
    /// The most rows that the job needs, so that the scan can stop early.
    pub rows_max: Option<u64>,
    /// Messages about what was inferred from a sample.
    pub notes: Notes,
    /// Messages about skipped rows and values that became null, one sentence per file.
    pub bad_rows: Notes,
}

impl TextOptions {
    /// Adds the types of a table's columns, except for columns that already have a type and types
    /// that text cannot hold.
    pub(crate) fn with_types(mut self, schema: &Schema) -> Self {
        for field in schema.fields() {
            let is_given = self.schema.iter().any(|(name, _)| name == field.name());
            if !is_given && check_type(field.data_type()).is_ok() {
                let column = (field.name().clone(), field.data_type().clone());
                self.schema.push(column);
            }
        }
        self
    }

    /// Returns and clears the remarks on how the text was read, if nothing was lost.
    pub fn take_remarks(&self) -> Vec<String> {
        self.notes.take()
    }

    /// Returns and clears all messages for the user.
    pub fn take_notes(&self) -> Vec<String> {
        let mut notes = self.take_remarks();
        notes.extend(self.bad_rows.take());
        notes
    }

    /// Adds columns that the job needs.
    pub fn needing(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.needs.extend(names);
        self
    }

    /// Adds the key columns, with their types if these are given.
    ///
    /// # Errors
    /// Usage: a column that has another type elsewhere.
    pub fn needing_keys(mut self, keys: &[KeyColumn]) -> Result<Self> {
        for KeyColumn {
            name, data_type, ..
        } in keys
        {
            self.needs.push(name.clone());
            let Some(data_type) = data_type else { continue };
            let known = self.schema.iter().find(|(known, _)| known == name);
            match known {
                Some((_, other)) if other != data_type => {
                    let cause = format!(
                        "column `{name}` gets two types, {} and {}",
                        notation(other),
                        notation(data_type)
                    );
                    return Err(
                        Error::usage("choose columns", cause).hint("keep one of the two types")
                    );
                }
                Some(_) => {}
                None => {
                    self.schema.push((name.clone(), data_type.clone()));
                    self.typed_keys.push(name.clone());
                }
            }
        }
        Ok(self)
    }

    /// Whether a file of this name is read as text. An empty file is a table without rows if it
    /// holds JSON lines, which have no header.
    pub(super) fn takes(&self, name: &Path, is_empty: bool) -> bool {
        match self.kind_of(name) {
            Some(TextKind::JsonLines) => true,
            Some(TextKind::Csv) => !is_empty,
            Some(TextKind::Fastq) | None => false,
        }
    }

    /// The kind of text in a file of this name, if the options or the name give it.
    pub(super) fn kind_of(&self, name: &Path) -> Option<TextKind> {
        self.kind.or_else(|| TextKind::of_table_name(name))
    }
}

/// Messages for the user.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: String) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Returns and clears all of them.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A sample of the columns of a file.
enum Sample {
    Csv(Vec<(String, Kinds)>),
    /// The shape of the objects, and the first line that is not an object.
    Json(Shape, Option<String>),
}

/// A text file whose records have been counted.
pub(super) struct TextFile {
    file: DriveFile,
    records: Records,
    parts: Vec<Part>,
    sample: Sample,
    sampled: (u64, u64),
    /// All of its columns, once their types are final.
    schema: SchemaRef,
    /// For each column, whether a sample chose its type.
    is_inferred: Vec<bool>,
    rules: Rules,
}

impl TextFile {
    /// Scans `file`, which is reported as `name`.
    ///
    /// # Errors
    /// Usage: its kind is unknown. Corrupt: a record that does not end, invalid values. I/O.
    pub(super) fn open(
        job: &Job,
        file: DriveFile,
        name: &Path,
        options: &TextOptions,
    ) -> Result<Self> {
        let kind = options.kind_of(name).ok_or_else(|| {
            Error::usage(PARSE, "its name does not identify it as CSV or JSON lines")
                .path(name)
                .hint("pass --csv or --jsonl")
        })?;
        let records = match kind {
            TextKind::Csv => Records::Csv {
                separator: separator_of(job, &file, name, options)?,
                has_header: !options.is_without_header,
                end: b'\n',
            },
            TextKind::JsonLines if !options.nulls.is_empty() => {
                let cause = "null texts are for CSV, but this is JSON lines";
                return Err(Error::usage(PARSE, cause)
                    .path(name)
                    .hint("leave --null out: null is null in JSON"));
            }
            TextKind::JsonLines => Records::Lines,
            TextKind::Fastq => {
                return Err(Error::usage(PARSE, "FASTQ is not a table")
                    .path(name)
                    .hint("sort, unique, shuffle, sample, head, tail and split read FASTQ"));
            }
        };
        // If rows may be skipped, the number of rows is known only later.
        let rows_max = match options.on_bad {
            OnBadRow::Fail => options.rows_max.unwrap_or(u64::MAX),
            OnBadRow::Skip | OnBadRow::Null => u64::MAX,
        };
        let rules = Rules {
            nulls: options.nulls.clone(),
            on_bad: options.on_bad,
        };
        let opened = match records {
            Records::Csv { separator, .. } => {
                Self::open_csv(job, &file, records, separator, &rules, rows_max)
            }
            Records::Lines => Self::open_json(job, &file, rows_max),
        };
        let (found, sample) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(located(&file, error).path(name)),
        };
        Ok(TextFile {
            file,
            records: found.records,
            parts: found.parts,
            sample,
            sampled: found.sampled,
            schema: Arc::new(Schema::empty()),
            is_inferred: Vec::new(),
            rules,
        })
    }

    fn open_csv(
        job: &Job,
        file: &DriveFile,
        records: Records,
        separator: u8,
        rules: &Rules,
        rows_max: u64,
    ) -> Result<(Scanned, Sample)> {
        let mut kinds: Vec<Kinds> = Vec::new();
        let mut unquoted = Vec::new();
        let found = scan::scan(job, file, records, rows_max, &mut |record| {
            for (place, field) in fields(without_end(record), separator).enumerate() {
                if kinds.len() <= place {
                    kinds.push(ANY);
                }
                let text = value(field, &mut unquoted).and_then(|text| str::from_utf8(text).ok());
                match text {
                    Some("") => {}
                    Some(text) if rules.is_null(text) => {}
                    Some(text) => kinds[place] &= kinds_of(text),
                    // The reader reports this field with its line.
                    None => kinds[place] = 0,
                }
            }
            Ok(())
        })?;
        let Records::Csv { has_header, .. } = records else {
            return Ok((found, Sample::Csv(Vec::new())));
        };
        let header = without_end(&found.header);
        if found.header.is_empty() {
            return Err(Error::corrupt(PARSE, "the file has no records")
                .hint("write the names of the columns in its first line"));
        }
        let mut names = Vec::new();
        for (place, field) in fields(header, separator).enumerate() {
            let name = value(field, &mut unquoted).map(|name| String::from_utf8(name.to_vec()));
            let name = match (has_header, name) {
                (false, _) => (place + 1).to_string(),
                (true, Some(Ok(name))) => name,
                (true, _) => {
                    let cause = "the header is not UTF-8";
                    return Err(Error::corrupt(PARSE, cause).hint("correct the first line"));
                }
            };
            if names.contains(&name) {
                let cause = format!("two columns are called `{name}`");
                return Err(Error::usage(PARSE, cause).hint("rename one of them first"));
            }
            names.push(name);
        }
        let kinds = kinds.into_iter().chain(std::iter::repeat(ANY));
        let columns = names.into_iter().zip(kinds).collect();
        Ok((found, Sample::Csv(columns)))
    }

    fn open_json(job: &Job, file: &DriveFile, rows_max: u64) -> Result<(Scanned, Sample)> {
        let (mut all, mut other) = (Shape::Object(Vec::new()), None);
        let found = scan::scan(job, file, Records::Lines, rows_max, &mut |record| {
            // The reader reports the fault with its line.
            let shape = serde_json::from_slice(record).or_else(|error| match strict(record) {
                Some(record) => serde_json::from_slice(&record),
                None => Err(error),
            });
            match shape {
                Ok(shape @ Shape::Object(_)) => all.merge(shape),
                _ if other.is_none() => other = Some(shown(record)),
                _ => {}
            }
            Ok(())
        })?;
        Ok((found, Sample::Json(all, other)))
    }

    /// Fails if a sampled line is not a JSON object, unless bad lines are skipped. It is for
    /// callers that read no lines.
    ///
    /// # Errors
    /// Corrupt.
    pub(super) fn check_sampled_rows(&self) -> Result<()> {
        match &self.sample {
            Sample::Json(_, Some(line)) if self.rules.on_bad == OnBadRow::Fail => {
                let cause = format!("the line `{line}` is not one JSON object");
                Err(Error::corrupt(PARSE, cause)
                    .path(self.file.path())
                    .hint("write one object on each line, for example with jq -c"))
            }
            Sample::Json(..) | Sample::Csv(_) => Ok(()),
        }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn file(&self) -> &DriveFile {
        &self.file
    }

    pub(super) fn parts_count(&self) -> usize {
        self.parts.len()
    }

    pub(super) fn rows_count(&self, part: usize) -> u64 {
        self.parts[part].rows_count
    }

    /// Bytes of a piece on the drive.
    pub(super) fn stored_bytes(&self, part: usize) -> u64 {
        self.parts[part].len_bytes
    }

    /// The least memory that a reader of a piece needs: its text, and the values of some rows.
    pub(super) fn memory_min_bytes(&self, part: usize) -> u64 {
        let values_bytes = VALUE_BYTES * self.schema.fields().len() as u64;
        let len_bytes = self.parts[part].len_bytes;
        len_bytes.saturating_mul(4).saturating_add(values_bytes) + (64 << 10)
    }

    /// The range and memory of a piece.
    pub(super) fn whole(&self, part: usize) -> Whole {
        Whole {
            ranges: vec![self.parts[part].range()],
            beside_bytes: self.memory_min_bytes(part) - self.parts[part].len_bytes,
        }
    }

    /// Reads the batches of a fetched piece, with the columns `columns` in the file's order.
    ///
    /// # Errors
    /// Corrupt: CSV that is not UTF-8.
    pub(super) fn read(
        &self,
        part: usize,
        columns: &[usize],
        memory_bytes: u64,
        fetched: &Fetched,
    ) -> Result<TextReader> {
        let part = self.parts[part];
        let bytes = fetched.bytes(&part.range())?;
        // JSON lines are checked one by one when they are parsed. So are the fields of CSV if bad
        // rows are skipped.
        if let Records::Csv { .. } = self.records
            && self.rules.on_bad == OnBadRow::Fail
            && let Err(error) = str::from_utf8(&bytes)
        {
            let at_bytes = part.at_bytes + error.valid_up_to() as u64;
            return Err(self.located(not_utf8(at_bytes)));
        }
        let row_bytes = 2 * part.len_bytes / part.rows_count.max(1)
            + VALUE_BYTES * self.schema.fields().len().max(1) as u64;
        let rows_at_once = (memory_bytes / 4 / row_bytes).clamp(1, super::parquet::BATCH_ROWS);
        self.reader(bytes, part, columns, rows_at_once as usize)
    }

    /// Creates a reader of the batches in these bytes.
    fn reader(
        &self,
        bytes: Bytes,
        part: Part,
        columns: &[usize],
        rows_at_once: usize,
    ) -> Result<TextReader> {
        let piece = Piece {
            bytes,
            from_bytes: part.at_bytes,
            records: self.records,
        };
        let wanted = Wanted {
            full: &self.schema,
            columns,
            is_inferred: &self.is_inferred,
            rules: &self.rules,
        };
        TextReader::new(piece, wanted, rows_at_once)
    }

    /// Counts the rows that remain without bad ones, and reports skipped rows and values that
    /// became null.
    fn check(&mut self, job: &Job) -> Result<Option<String>> {
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let mut tally = Tally::default();
        let mut parts = std::mem::take(&mut self.parts);
        for part in &mut parts {
            job.control.check()?;
            let room_bytes = part.len_bytes.saturating_mul(4);
            let _room = job.budget.reserve("text that is checked", room_bytes)?;
            let mut bytes = Vec::with_capacity(part.len_bytes as usize);
            let go_on = || job.control.check();
            self.file
                .stream(&job.budget, &part.range(), go_on, |piece| {
                    bytes.extend_from_slice(piece);
                    Ok(true)
                })?;
            let mut reader = self.reader(Bytes::from(bytes), *part, &columns, CHECKED_ROWS)?;
            part.rows_count = 0;
            while let Some(batch) = reader.next()? {
                part.rows_count += batch.num_rows() as u64;
            }
            tally.add(reader.into_tally());
        }
        parts.retain(|part| part.rows_count > 0);
        self.parts = parts;
        let Some(first) = tally.first.take() else {
            return Ok(None);
        };
        let first = self.located(first);
        Ok(tally.sentence(first.cause()))
    }

    /// Adds the line to a parse error.
    pub(super) fn located(&self, error: Error) -> Error {
        located(&self.file, error)
    }
}

fn not_utf8(at_bytes: u64) -> Error {
    Error::corrupt(PARSE, "a byte that is not UTF-8")
        .offset(at_bytes)
        .hint("convert it first: iconv -t UTF-8 IN > OUT")
}

/// A text file, and the path by which the user knows it.
pub(super) struct NamedText<'a> {
    pub(super) path: &'a Path,
    pub(super) file: &'a mut TextFile,
}

/// If bad rows may be skipped, reads files with known columns, and notes how many rows are bad.
///
/// # Errors
/// I/O; memory.
pub(super) fn check_rows(
    job: &Job,
    files: &mut [NamedText<'_>],
    options: &TextOptions,
) -> Result<()> {
    if options.on_bad == OnBadRow::Fail {
        return Ok(());
    }
    for NamedText { path, file } in files.iter_mut() {
        let name = *path;
        if let Some(sentence) = file.check(job).map_err(|error| error.path(name))? {
            options
                .bad_rows
                .add(format!("{sentence} ({})", name.display()));
        }
    }
    Ok(())
}

/// Determines the columns of all text files together, so that a column has one type in all of them.
///
/// # Errors
/// Usage: a column of the schema that no file has, values without a common type.
pub(super) fn settle(files: &mut [NamedText<'_>], options: &TextOptions) -> Result<()> {
    let mut kinds: Vec<(String, Kinds)> = Vec::new();
    let mut shape = Shape::Object(Vec::new());
    let (mut rows_count, mut places_count, mut is_json) = (0, 0, false);
    for NamedText { file, .. } in files.iter() {
        rows_count += file.sampled.0;
        places_count += file.sampled.1;
        match &file.sample {
            Sample::Csv(columns) => {
                for (name, own) in columns {
                    match kinds.iter_mut().find(|(known, _)| known == name) {
                        Some((_, kinds)) => *kinds &= own,
                        None => kinds.push((name.clone(), *own)),
                    }
                }
            }
            Sample::Json(own, _) => {
                is_json = true;
                shape.merge(own.clone());
            }
        }
    }
    let given = |name: &str| {
        let mut given = options.schema.iter();
        let found = given.find(|(known, _)| known == name);
        found.map(|(_, data_type)| data_type.clone())
    };
    for (name, data_type) in &options.schema {
        check_type(data_type)?;
        let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).collect();
        if !is_json && !names.contains(&name.as_str()) {
            let error = Error::usage("read schema", format!("no file has a column `{name}`"));
            return Err(match nearest(name, &names) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("the columns are {}", names.join(", "))),
            });
        }
    }
    if let (true, Shape::Object(shapes)) = (is_json, &shape) {
        let fields = shapes.iter().map(|field| field.name.as_str());
        let columns = kinds.iter().map(|(name, _)| name.as_str());
        check_keys(&fields.chain(columns).collect::<Vec<_>>(), options)?;
    }
    let json = json_fields(shape, options, &given)?;
    let mut told = 0;
    for NamedText { file, .. } in files.iter_mut() {
        let fields: Vec<Field> = match &file.sample {
            Sample::Json(..) => json.clone(),
            Sample::Csv(columns) => {
                let field = |(name, _): &(String, Kinds)| {
                    let known = kinds.iter().find(|(known, _)| known == name);
                    let told = known.map_or(DataType::Utf8, |(_, kinds)| type_of(*kinds));
                    Field::new(name, given(name).unwrap_or(told), true)
                };
                columns.iter().map(field).collect()
            }
        };
        let is_inferred = |field: &Field| given(field.name()).is_none();
        file.is_inferred = fields.iter().map(is_inferred).collect();
        told = told.max(file.is_inferred.iter().filter(|is| **is).count());
        file.schema = Arc::new(Schema::new(fields));
    }
    if told > 0 && rows_count > 0 {
        let is_amount =
            |(name, kinds): &&(String, Kinds)| column::are_amounts(*kinds) && given(name).is_none();
        if let Some((name, _)) = kinds.iter().find(is_amount) {
            options.notes.add(format!(
                "column `{name}` is text, because it has amounts such as 1,200 or $5; it is ordered \
                 as text, and f64(replace({name}, ',', '')) is a number"
            ));
        }
        options.notes.add(format!(
            "inferred the types of {} from {} at {}; --schema NAME:TYPE,... sets others",
            units::counted(told as u64, "column"),
            units::counted(rows_count, "row"),
            units::counted(places_count, "place"),
        ));
    }
    Ok(())
}

/// Fails for a typed key that neither JSON lines nor CSV files have.
fn check_keys(names: &[&str], options: &TextOptions) -> Result<()> {
    let lacks = |name: &&String| !names.contains(&name.as_str());
    match options.typed_keys.iter().find(lacks) {
        None => Ok(()),
        Some(name) => {
            let cause = format!("no line has a field `{name}`");
            let hint = format!("the fields are {}", names.join(", "));
            Err(Error::usage("choose columns", cause).hint(hint))
        }
    }
}

fn json_fields(
    shape: Shape,
    options: &TextOptions,
    given: &dyn Fn(&str) -> Option<DataType>,
) -> Result<Vec<Field>> {
    let Shape::Object(shapes) = shape else {
        return Ok(Vec::new());
    };
    let mut fields = Vec::new();
    for one in &shapes {
        let name = &one.name;
        let told = match given(name) {
            Some(data_type) => data_type,
            None => fields_of(std::slice::from_ref(one))
                .map_err(|name| {
                    let cause = format!("`{name}` is a list or an object in some rows only");
                    Error::usage(PARSE, cause).hint("write this field as one type in all rows")
                })?
                .first()
                .map_or(DataType::Utf8, |field| field.data_type().clone()),
        };
        fields.push(Field::new(name, told, true));
    }
    for (name, data_type) in &options.schema {
        if !shapes.iter().any(|field| field.name == *name) {
            fields.push(Field::new(name, data_type.clone(), true));
        }
    }
    Ok(fields)
}

/// Fails for types that cannot be parsed from text.
fn check_type(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::List(item) => check_type(item.data_type()),
        DataType::Struct(fields) => {
            let mut fields = fields.iter();
            fields.try_for_each(|field| check_type(field.data_type()))
        }
        plain => column::values_of(plain).map(|_| ()),
    }
}

/// Adds to a parse error the line that contains its offset.
fn located(file: &DriveFile, error: Error) -> Error {
    let (PARSE, Kind::Corrupt, Some(at_bytes)) =
        (error.operation(), error.kind(), error.offset_bytes())
    else {
        return error;
    };
    let (mut newlines, mut returns) = (0, 0);
    let room = outcore_io::memory::Budget::new(8 << 20);
    let counted = file.stream(
        &room,
        &(0..at_bytes),
        || Ok(()),
        |bytes| {
            newlines += memchr_iter(b'\n', bytes).count();
            returns += memchr_iter(b'\r', bytes).count();
            Ok(true)
        },
    );
    if counted.is_err() {
        return error;
    }
    // The lines end with CR alone.
    let lines_before = if newlines == 0 { returns } else { newlines };
    let cause = format!(
        "line {}: {}",
        units::count(lines_before as u64 + 1),
        error.cause()
    );
    let told = Error::corrupt("parse text", cause).offset(at_bytes);
    match error.next_step() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

/// Returns the separator: the given one, or the one found in a sample of the records.
fn separator_of(job: &Job, file: &DriveFile, name: &Path, options: &TextOptions) -> Result<u8> {
    let head_bytes = file.len_bytes().min(SEPARATOR_SAMPLE_BYTES);
    let head = file.read(0, head_bytes).map_err(|error| error.path(name))?;
    let is_all = head_bytes == file.len_bytes();
    if let Some(given) = options.separator {
        let sample = Beginning {
            head: &head,
            is_all,
        };
        let note = given_separator_note(name, given, &sample);
        note.into_iter().for_each(|note| job.control.note(note));
        return Ok(given);
    }
    let usual = usual_separator(name);
    let found = likely_separator(&head, usual, is_all);
    if found != usual {
        job.control.note(separator_note(name, found));
    }
    Ok(found)
}

/// Shortens a record for a message.
fn shown(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(without_end(record));
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

/// Removes the line end of a record.
fn without_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}
