//! Compares two tables.
//!
//! Contract: [`diff`] compares the rows of two tables by key columns, where null equals null. It
//! counts the rows that are only in one table, those that are changed, and those that are equal.
//! Rows that share a key are compared in the order of their bytes, so the order of the inputs does
//! not matter. Two values are equal if they are stored alike. Key values are also equal if a sort
//! treats them as equal: all zeros are one value, and all NaNs are one.
//!
//! If there are outputs, differences are written in the order of the key. Column `diff` is `left`,
//! `right` or `changed`, and `diff_columns` lists the columns that differ. Then follow the key
//! columns, and each other column as `NAME_left` and `NAME_right`. In CSV, lists and objects are
//! written as JSON.
//!
//! Both tables are sorted to private Arrow files, as in any sort, and these are then compared row
//! by row.
//!
//! Bounds: those of a sort, for one table after the other. The rows of both tables are on scratch
//! once. The comparison holds a few batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use outcore::job::OutputPlaces;
use outcore::{Amounts, Forecast, Job, Phase, PhasePlan};
use outcore_io::memory::allow_hint;
use outcore_io::{Error, Kind, Result, threads, units};

use super::journal::scratch_dir;
use super::merge::{Block, Runs};
use super::room::as_key;
use super::rows_out::WriteShape;
use super::sort::{create, open_alone, sort};
use super::{Both, RightTable, TableEnds, TableOrder, TableSummary, open_both};
use crate::fault;
use crate::input::{InputOptions, TableInput};
use crate::output::text::{is_nested, json_texts};
use crate::output::{OutputOptions, SINK_BYTES, Section, TableFormat};
use crate::rows::{KeyColumn, RowCodec};
use crate::schema::{FieldPlace, Widths, agree};

const DIFF: &str = "compare tables";
const COMPARE: &str = "compare";
/// Rows of differences that are built at once.
const ROWS_AT_ONCE: usize = 1024;

/// The numbers of rows that differ and that are equal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiffSummary {
    /// Rows that only the left table has.
    pub left_rows: u64,
    /// Rows that only the right table has.
    pub right_rows: u64,
    /// Rows of both that differ in columns outside the key.
    pub changed_rows: u64,
    /// Rows that are equal in both.
    pub equal_rows: u64,
    /// The I/O of the job.
    pub table: TableSummary,
}

impl DiffSummary {
    /// The number of rows that differ.
    pub fn differences(&self) -> u64 {
        self.left_rows + self.right_rows + self.changed_rows
    }
}

/// Compares the tables of `ends` and `right` by the given columns, or by all. Writes the
/// differences if there are outputs.
///
/// # Errors
/// As [`sort`]. Usage: tables with different columns.
pub fn diff(
    job: &Job,
    ends: &TableEnds<'_>,
    (right, right_reads): (&[PathBuf], &InputOptions),
    by: &[KeyColumn],
) -> Result<DiffSummary> {
    let started = Instant::now();
    let right = RightTable {
        inputs: right,
        reads: right_reads,
    };
    let open = |paths: &[PathBuf], reads: &InputOptions| open_alone(job, paths, reads);
    let Both { inputs, reads } = open_both(ends, right, open)?;
    let ends = &TableEnds {
        reads: &reads[0],
        ..*ends
    };
    let right_ends = TableEnds {
        inputs: right.inputs,
        reads: &reads[1],
        ..*ends
    };
    let schema = schema_of_both(&inputs, ends, &right_ends)?;
    let mut keys = by.to_vec();
    if keys.is_empty() {
        keys.extend(
            schema
                .fields()
                .iter()
                .map(|field| KeyColumn::new(field.name())),
        );
    }
    let long = Long::of(&inputs, &keys);
    long.check(job, &inputs, &keys, ends.writes)?;
    drop(inputs);
    let drive = job.options.drives.first();
    let parent = drive.map_or_else(|| scratch_dir(ends.outputs), |drive| drive.dir.clone());
    job.device.sweep_private_dirs(&parent)?;
    let dir = job.device.make_private_dir(&parent)?;
    let order = TableOrder {
        keys: keys.clone(),
        ..TableOrder::default()
    };
    let mut done = TableSummary::default();
    let mut paths = Vec::new();
    for (name, side) in [("scratch-0", ends), ("scratch-1", &right_ends)] {
        let path = dir.path().join(name);
        let outputs = [path.clone()];
        let sorted = TableEnds {
            outputs: &outputs,
            writes: &OutputOptions::new(TableFormat::ArrowFile),
            ..*side
        };
        let sorted = sort(job, &sorted, &order)?;
        add(&mut done, &sorted);
        paths.push(path);
    }
    let sides = [side_of(job, &paths[0])?, side_of(job, &paths[1])?];
    // The schema of the sorted file, in which dictionaries are plain values.
    let schema = sides[0].schema();
    let codec = RowCodec::new(schema, &keys)?;
    let shape = Shape::new(schema, &keys, ends.writes.format)?;
    let (began, planned) = (Instant::now(), plan_compare(job, &sides, ends.outputs));
    let compared = compare(job, ends, &sides, (&codec, &keys, &shape), long)?;
    let read_bytes = sides.iter().map(TableInput::read_bytes).sum();
    done.read_bytes += read_bytes;
    done.phases.push(Phase {
        name: planned.name,
        seconds: began.elapsed().as_secs_f64(),
        read_bytes,
        written_bytes: compared.table.written_bytes,
        predicted: Some(planned),
    });
    done.rows_out = compared.differences();
    done.lens_bytes.clone_from(&compared.table.lens_bytes);
    done.written_bytes += compared.table.written_bytes;
    done.seconds = started.elapsed().as_secs_f64();
    Ok(DiffSummary {
        table: done,
        ..compared
    })
}

/// Plans the reads of both sorted tables. The number of differences is not known in advance.
fn plan_compare(job: &Job, sides: &[TableInput; 2], outputs: &[PathBuf]) -> PhasePlan {
    let stored_bytes: u64 = sides.iter().map(TableInput::stored_bytes).sum();
    let pieces_count: usize = sides.iter().map(|side| side.pieces().len()).sum();
    let written = match outputs {
        [] => Forecast::NOTHING,
        _ => Forecast::Unknown,
    };
    let amounts = Amounts::of_files(stored_bytes.into(), written, pieces_count as f64);
    PhasePlan::new(COMPARE, amounts, &job.layout(&[], &OutputPlaces::Unknown))
}

/// The longest row of each table; 0 if no rows are long.
#[derive(Debug, Clone, Copy)]
struct Long {
    row_bytes: u64,
    key_bytes: u64,
    piece_bytes: u64,
}

impl Long {
    fn of(inputs: &[TableInput; 2], keys: &[KeyColumn]) -> Self {
        let names: Vec<String> = keys.iter().map(|key| key.name.clone()).collect();
        let [one, other] = inputs;
        let need = one.need().and(other.need());
        let key_bytes = one.long_bytes_of(&names).max(other.long_bytes_of(&names));
        Long {
            row_bytes: need.long_bytes,
            key_bytes: as_key(key_bytes),
            piece_bytes: need.long_bytes,
        }
    }

    fn is_long(self) -> bool {
        self.row_bytes > 0
    }

    /// The memory of a comparison. For each side: a batch that is read, two blocks of a row with
    /// its key and its bytes, and the last key. In addition: a row of differences that is built and
    /// written.
    fn needed_bytes(self, writes: &OutputOptions) -> u64 {
        let block_bytes = self
            .row_bytes
            .saturating_add(self.key_bytes)
            .saturating_mul(2);
        let side_bytes = self
            .piece_bytes
            .saturating_add(block_bytes.saturating_mul(2))
            .saturating_add(self.key_bytes.saturating_mul(2));
        let both_bytes = self.row_bytes.saturating_mul(2);
        let written_bytes = both_bytes.saturating_mul(2 + writes.encoder_times());
        side_bytes
            .saturating_mul(2)
            .saturating_add(written_bytes)
            .saturating_add(2 * SINK_BYTES + (16 << 20))
    }

    /// Fails before any sort if the memory is too small.
    fn check(
        self,
        job: &Job,
        inputs: &[TableInput; 2],
        keys: &[KeyColumn],
        writes: &OutputOptions,
    ) -> Result<()> {
        let (needed_bytes, free_bytes) = (self.needed_bytes(writes), job.budget.free_bytes());
        if !self.is_long() || needed_bytes <= free_bytes {
            return Ok(());
        }
        let cause = format!(
            "long rows need {} to be compared, but there is only {}",
            units::bytes(needed_bytes),
            units::bytes(free_bytes)
        );
        let known = [inputs[0].looked_through()?, inputs[1].looked_through()?];
        let known = Long::of(&known, keys).needed_bytes(writes);
        let enough_bytes = known.saturating_add(job.budget.used_bytes()).min(1 << 60);
        let allow = allow_hint(enough_bytes.next_multiple_of(16 << 20));
        Err(Error::new(Kind::Memory, DIFF, cause)
            .hint(format!("{allow} or more, or leave long columns out")))
    }
}

/// The common columns of both tables.
fn schema_of_both(
    inputs: &[TableInput; 2],
    left: &TableEnds<'_>,
    right: &TableEnds<'_>,
) -> Result<SchemaRef> {
    let [one, other] = inputs;
    let first = |ends: &TableEnds<'_>| ends.inputs.first().cloned().unwrap_or_default();
    let paths = (first(left), first(right));
    let (one_schema, other_schema) = (one.schema(), other.schema());
    agree(one_schema, &paths.0, other_schema, &paths.1, Widths::Same)?;
    // The right table's columns in the order of the left one's, because rows are compared as bytes.
    let same = one.schema().fields().iter().zip(other.schema().fields());
    if same.clone().all(|(one, other)| one.name() == other.name()) {
        return Ok(SchemaRef::clone(one.schema()));
    }
    let cause = "the tables have the same columns in another order";
    Err(Error::usage(DIFF, cause)
        .path(&paths.1)
        .hint("give the order with --columns"))
}

fn add(sum: &mut TableSummary, done: &TableSummary) {
    sum.rows_in += done.rows_in;
    sum.read_bytes += done.read_bytes;
    sum.written_bytes += done.written_bytes;
    sum.passes += done.passes;
    let kept_bytes = done.lens_bytes.iter().sum::<u64>();
    sum.scratch_bytes = sum.scratch_bytes.max(done.scratch_bytes) + kept_bytes;
    sum.phases.extend_from_slice(&done.phases);
}

fn side_of(job: &Job, path: &Path) -> Result<TableInput> {
    let paths = [path.to_path_buf()];
    let own = Job {
        budget: outcore_io::memory::Budget::new(job.budget.free_bytes() / 4),
        ..job.clone()
    };
    TableInput::open(&own, &paths, &InputOptions::default())
}

/// The columns of the differences.
struct Shape {
    schema: SchemaRef,
    /// The places of the key columns, and of the other columns.
    keys: Vec<FieldPlace>,
    others: Vec<usize>,
    format: TableFormat,
}

impl Shape {
    fn new(schema: &SchemaRef, keys: &[KeyColumn], format: TableFormat) -> Result<Self> {
        let mut named: Vec<(&str, FieldPlace)> = Vec::new();
        for key in keys {
            if named.iter().all(|(name, _)| *name != key.name) {
                named.push((&key.name, FieldPlace::of(schema, &key.name, DIFF)?));
            }
        }
        named.sort_by_key(|(_, place)| place.root);
        let is_key = |column: usize| named.iter().any(|(_, key)| key.column() == Some(column));
        let others = (0..schema.fields().len()).filter(|column| !is_key(*column));
        let others: Vec<usize> = others.collect();
        let nullable = |field: &Field, name: String| match is_text(field.data_type(), format) {
            true => Field::new(name, DataType::Utf8, true),
            false => field.clone().with_name(name).with_nullable(true),
        };
        let mut fields = vec![
            Field::new("diff", DataType::Utf8, false),
            Field::new("diff_columns", DataType::Utf8, true),
        ];
        for (name, place) in &named {
            fields.push(nullable(&place.field(schema, name), (*name).to_owned()));
        }
        for &place in &others {
            let field = schema.field(place);
            fields.push(nullable(field, format!("{}_left", field.name())));
            fields.push(nullable(field, format!("{}_right", field.name())));
        }
        Ok(Shape {
            schema: Arc::new(Schema::new(fields)),
            keys: named.into_iter().map(|(_, place)| place).collect(),
            others,
            format,
        })
    }

    /// Builds a batch of differences.
    fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        let columns = columns.into_iter().zip(self.schema.fields());
        let columns = columns.map(
            |(array, field)| match is_text(array.data_type(), self.format) {
                true => json_texts(field.name(), &array),
                false => Ok(array),
            },
        );
        let columns = columns.collect::<Result<_>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| fault::arrow(DIFF, &error))
    }
}

/// Whether values are written as text because the format has no other form for them.
fn is_text(data_type: &DataType, format: TableFormat) -> bool {
    format.separator().is_some() && is_nested(data_type)
}

fn compare(
    job: &Job,
    ends: &TableEnds<'_>,
    sides: &[TableInput; 2],
    (codec, keys, shape): (&RowCodec, &[KeyColumn], &Shape),
    long: Long,
) -> Result<DiffSummary> {
    let runs = [
        Runs::of(&sides[0], (codec, keys), true)?,
        Runs::of(&sides[1], (codec, keys), true)?,
    ];
    let free_bytes = job.budget.free_bytes();
    let reader_of = |run: usize| match long.is_long() {
        // A check has already ensured room for long rows.
        true => Ok(sides[run].memory_min_bytes().max(free_bytes / 16)),
        false => runs[run].reader_bytes(free_bytes / 4),
    };
    let reader_bytes = [reader_of(0)?, reader_of(1)?];
    let output = match ends.outputs {
        [] => None,
        outputs => {
            let least_bytes = ends.writes.group_min_bytes(&shape.schema) + SINK_BYTES;
            let writes_shape = WriteShape {
                writers_count: 1,
                output_bytes: (free_bytes / 4).max(least_bytes),
                batch_bytes: 0,
                taken_bytes: 0,
                longest_bytes: 0,
            };
            let what = (&shape.schema, ends.writes);
            Some(create(job, outputs, None, what, (writes_shape, None))?)
        }
    };
    let stored_bytes = sides.iter().map(TableInput::stored_bytes).sum();
    job.control.begin_phase(COMPARE, stored_bytes);
    let mut found = std::thread::scope(|scope| {
        let mut heads = Vec::new();
        for (run, reader_bytes) in runs.iter().zip(reader_bytes) {
            let (sender, receiver) = sync_channel(usize::from(!long.is_long()));
            let feed = move || {
                let pieces = run.files().first();
                let fed = pieces.map_or(Ok(()), |pieces| {
                    run.feed(job, pieces, reader_bytes, &sender)
                });
                if let Err(error) = fed {
                    // If nothing receives any more, the receiver has failed with an error of its
                    // own.
                    let _ = sender.send(Err(error));
                }
            };
            threads::spawn_scoped(scope, "outcore-table-diff-read", feed)?;
            heads.push(Head::new(receiver, sides[0].schema()));
        }
        let [left, right] = <[Head; 2]>::try_from(heads)
            .map_err(|_| Error::new(Kind::Io, DIFF, "two tables are compared"))?;
        let section = output.as_ref().map(|output| output.section(0, 0));
        let mut walk = Walk {
            left,
            right,
            shape,
            section,
            rows: Vec::new(),
            rows_at_once: if long.is_long() { 1 } else { ROWS_AT_ONCE },
            found: DiffSummary::default(),
        };
        walk.run(job)?;
        walk.finish()
    })?;
    if let Some(output) = output {
        job.control.begin_phase("publish", 0);
        found.table.lens_bytes = output.publish()?;
        found.table.written_bytes = found.table.lens_bytes.iter().sum();
    }
    Ok(found)
}

/// The read position in one of the tables.
struct Head {
    receiver: Receiver<Result<Block>>,
    block: Option<Block>,
    row: usize,
    /// A row of nulls, followed by batches to which rows of differences refer.
    slots: Vec<RecordBatch>,
}

impl Head {
    fn new(receiver: Receiver<Result<Block>>, schema: &SchemaRef) -> Self {
        let nullable = schema.fields().iter();
        let nullable = nullable.map(|field| field.as_ref().clone().with_nullable(true));
        let nullable = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
        Head {
            receiver,
            block: None,
            row: 0,
            slots: vec![nulls_of(&nullable)],
        }
    }

    /// Receives the next batch if there is none; returns whether there is one now.
    fn fill(&mut self) -> Result<bool> {
        if self.block.is_none() {
            let Ok(block) = self.receiver.recv() else {
                return Ok(false);
            };
            let block = block?;
            self.slots.push(block.batch.clone());
            self.block = Some(block);
            self.row = 0;
        }
        Ok(true)
    }

    fn key(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|block| block.key(self.row))
    }

    fn row_bytes(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|block| block.row(self.row))
    }

    fn place(&self) -> (usize, usize) {
        (self.slots.len() - 1, self.row)
    }

    fn step(&mut self) {
        self.row += 1;
        if self
            .block
            .as_ref()
            .is_some_and(|block| self.row == block.len())
        {
            self.block = None;
        }
    }

    /// Drops all batches to which no rows can refer any more.
    fn forget(&mut self) {
        let last = self.block.as_ref().map(|block| block.batch.clone());
        self.slots.truncate(1);
        self.slots.extend(last);
    }
}

fn nulls_of(schema: &SchemaRef) -> RecordBatch {
    let columns = schema.fields().iter();
    let columns = columns.map(|field| new_null_array(field.data_type(), 1));
    RecordBatch::try_new(Arc::clone(schema), columns.collect())
        .unwrap_or_else(|_| RecordBatch::new_empty(Arc::clone(schema)))
}

/// A row of differences: the places of its values on both sides; a missing side refers to the row
/// of nulls.
struct Difference {
    kind: &'static str,
    columns: Option<String>,
    places: [(usize, usize); 2],
}

const NOWHERE: (usize, usize) = (0, 0);

struct Walk<'a> {
    left: Head,
    right: Head,
    shape: &'a Shape,
    section: Option<Section<'a>>,
    rows: Vec<Difference>,
    /// The most differences that are built at once.
    rows_at_once: usize,
    found: DiffSummary,
}

impl Walk<'_> {
    fn run(&mut self, job: &Job) -> Result<()> {
        use std::cmp::Ordering;
        let mut seen = 0u64;
        loop {
            let (is_left, is_right) = (self.left.fill()?, self.right.fill()?);
            let order = match (is_left, is_right) {
                (false, false) => return Ok(()),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (true, true) => self.left.key().cmp(&self.right.key()),
            };
            match order {
                Ordering::Less => {
                    self.found.left_rows += 1;
                    self.note("left", None, [self.left.place(), NOWHERE]);
                    self.left.step();
                }
                Ordering::Greater => {
                    self.found.right_rows += 1;
                    self.note("right", None, [NOWHERE, self.right.place()]);
                    self.right.step();
                }
                Ordering::Equal => {
                    self.pair();
                    self.left.step();
                    self.right.step();
                }
            }
            seen += 1;
            if seen.is_multiple_of(4096) {
                job.control.check()?;
            }
            let slots = self.left.slots.len() + self.right.slots.len();
            if self.rows.len() >= self.rows_at_once || slots > self.rows_at_once.min(4) + 4 {
                self.put()?;
            }
        }
    }

    /// Compares two rows with the same key.
    fn pair(&mut self) {
        if self.left.row_bytes() == self.right.row_bytes() {
            self.found.equal_rows += 1;
            return;
        }
        let places = [self.left.place(), self.right.place()];
        let value = |head: &Head, column: usize, (slot, row): (usize, usize)| {
            head.slots[slot].column(column).slice(row, 1).to_data()
        };
        let differs = |&&column: &&usize| {
            value(&self.left, column, places[0]) != value(&self.right, column, places[1])
        };
        let schema = self.left.slots[0].schema();
        let others = self.shape.others.iter().filter(differs);
        let names: Vec<&str> = others
            .map(|&column| schema.field(column).name().as_str())
            .collect();
        match names.is_empty() {
            // The bytes differ only in key values that a sort takes as equal, or in dictionary keys
            // for equal values.
            true => self.found.equal_rows += 1,
            false => {
                self.found.changed_rows += 1;
                let names = names.join(",");
                self.note("changed", Some(names), places);
            }
        }
    }

    fn note(&mut self, kind: &'static str, columns: Option<String>, places: [(usize, usize); 2]) {
        if self.section.is_some() {
            self.rows.push(Difference {
                kind,
                columns,
                places,
            });
        }
    }

    /// Writes the collected differences.
    fn put(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        if let Some(section) = self.section.as_mut().filter(|_| !rows.is_empty()) {
            let kinds: StringArray = rows.iter().map(|row| Some(row.kind)).collect();
            let names: StringArray = rows.iter().map(|row| row.columns.as_deref()).collect();
            let mut columns: Vec<ArrayRef> = vec![Arc::new(kinds), Arc::new(names)];
            for place in &self.shape.keys {
                columns.push(self.left.or(&self.right, place, &rows)?);
            }
            for &place in &self.shape.others {
                for (side, head) in [&self.left, &self.right].into_iter().enumerate() {
                    let places = rows.iter().map(|row| row.places[side]);
                    let slots = head.slots.iter().map(|batch| batch.column(place).as_ref());
                    let arrays: Vec<&dyn Array> = slots.collect();
                    columns.push(taken(&arrays, &places.collect::<Vec<_>>())?);
                }
            }
            section.write(&self.shape.batch(columns)?)?;
        }
        self.left.forget();
        self.right.forget();
        Ok(())
    }

    fn finish(mut self) -> Result<DiffSummary> {
        self.put()?;
        if let Some(section) = self.section.take() {
            section.finish()?;
        }
        Ok(self.found)
    }
}

impl Head {
    /// Key values of this side, or of the other one for rows that this side lacks.
    fn or(&self, other: &Head, key: &FieldPlace, rows: &[Difference]) -> Result<ArrayRef> {
        let behind = self.slots.len();
        let slots = self.slots.iter().chain(&other.slots);
        let arrays = slots.map(|batch| key.values(batch.column(key.root)));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let arrays: Vec<&dyn Array> = arrays.iter().map(ArrayRef::as_ref).collect();
        let places = rows.iter().map(|row| match row.places {
            [NOWHERE, (slot, row)] => (behind + slot, row),
            [place, _] => place,
        });
        taken(&arrays, &places.collect::<Vec<_>>())
    }
}

fn taken(arrays: &[&dyn Array], places: &[(usize, usize)]) -> Result<ArrayRef> {
    interleave(arrays, places).map_err(|error| fault::arrow(DIFF, &error))
}
