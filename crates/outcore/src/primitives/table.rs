//! Sequences whose types are known only at run time: records in files, refined by expressions.
//!
//! Contract: a [`Table`] is for the shell and Python what a typed [`Sequence`] is for Rust. It is
//! lazy and refined by [`filter`](Table::filter) and [`map`](Table::map), which fuse into one pass.
//! Steps work on batches of about 1,000 rows, column by column ([`crate::key::expr`]), and pass on
//! dense rows. A custom step of the caller ([`BatchStep`]) can be one of them. Results of
//! expressions are big-endian if all numbers that the expressions can name are big-endian.
//! Otherwise they have the byte order of this machine.
//!
//! Bounds: a few columns of a batch per step and thread.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;

pub use super::batch::BatchStep;
use super::batch::{Batch, SOURCES_MAX, Sequence, Source, Yield};
use super::expand::{Numbered, expand};
use super::producer::{Emit, Maker, Produced, Producer};
use crate::ends::Input;
use crate::key::expr::{BATCH_ROWS, Expr, Function, INDEX, Program, Rows, Schema, Space};
use crate::key::record::{Endian, KeyKind, Number, NumberType, RecordFormat};
use outcore_io::{Error, Result};

/// Largest number of steps of a table: each calls the next, on the stack of a thread.
const STEPS_MAX: usize = 1000;

#[derive(Clone)]
enum Step {
    Where(Program),
    Map(Program, Endian),
    Own(Arc<dyn BatchStep>, usize),
    /// The result of each program, one after another.
    Expand(Vec<Program>, Endian),
}

/// Records, lazily refined; see the module.
#[derive(Clone)]
pub struct Table {
    sources: Vec<Source>,
    /// The meaning of names after the steps so far.
    schema: Schema,
    format: RecordFormat,
    steps: Vec<Step>,
    texts: Vec<String>,
    yields: Yield,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.texts.join(" -> "))
    }
}

impl Table {
    /// The records of `inputs`; `schema` names their numbers.
    pub fn read(inputs: &[Input], format: &RecordFormat, schema: Schema) -> Self {
        let align_bytes = match format.scalar() {
            Some(number) => number.bytes(),
            None => 1,
        };
        Table {
            sources: vec![Source {
                inputs: inputs.to_vec(),
                element_bytes: format.record_bytes(),
                align_bytes,
                count: 0,
            }],
            schema,
            format: format.clone(),
            steps: Vec::new(),
            texts: vec![format!("read {format}")],
            yields: Yield::One,
        }
    }

    /// The numbers 0 to `count - 1`, of type `u64`, as `x`.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn count_up(count: u64) -> Result<Self> {
        let schema = Schema {
            record_bytes: vec![0],
            fields: Vec::new(),
            has_index: true,
        };
        let table = Table {
            sources: vec![Source::generated(count)],
            schema,
            format: RecordFormat::numbers(Number::new(NumberType::U64, Endian::NATIVE), 1)?,
            steps: Vec::new(),
            texts: vec![format!("count to {count}")],
            yields: Yield::One,
        };
        table.map("index")
    }

    /// Combines several unrefined tables by position. Plain numbers are `x`, `y`, `z`, `w`; fields
    /// of records are `x.key0`, `y.key0`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for refined tables, or too many.
    pub fn zip(tables: &[Table]) -> Result<Self> {
        if let [only] = tables {
            return Ok(only.clone());
        }
        if tables.iter().any(|table| !table.steps.is_empty()) || tables.len() > SOURCES_MAX {
            let cause = format!("at most {SOURCES_MAX} files can be zipped, before any step");
            return Err(Error::usage("zip", cause).hint("zip first, then map"));
        }
        let schemas: Vec<Schema> = tables.iter().map(|table| table.schema.clone()).collect();
        let mut offset_bytes = 0;
        let mut keys = Vec::new();
        for table in tables {
            for key in table.format.keys() {
                let mut key = *key;
                key.offset_bytes += offset_bytes;
                keys.push(key);
            }
            offset_bytes += table.format.record_bytes();
        }
        let numbers: Vec<Option<Number>> = tables.iter().map(|t| t.format.scalar()).collect();
        let format = match numbers[..] {
            [Some(first), ..] if numbers.iter().all(|number| *number == Some(first)) => {
                RecordFormat::numbers(first, numbers.len())?
            }
            _ => RecordFormat::new(offset_bytes, keys)?,
        };
        let texts = tables.iter().flat_map(|table| table.texts.clone());
        let texts: Vec<String> = texts.collect();
        Ok(Table {
            sources: tables
                .iter()
                .flat_map(|table| table.sources.clone())
                .collect(),
            schema: Schema::zip(&schemas),
            format,
            steps: Vec::new(),
            texts: vec![format!("zip({})", texts.join(", "))],
            yields: Yield::One,
        })
    }

    /// The type of the table's items.
    pub fn format(&self) -> &RecordFormat {
        &self.format
    }

    /// The meaning of names in the next expression.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Keeps only the records for which `condition` is true, in order.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for an invalid expression.
    pub fn filter(&self, condition: &str) -> Result<Self> {
        let expr: Expr = condition.parse()?;
        let program = Program::compile_condition(&expr, &self.schema)?;
        let mut table = self.then(Step::Where(program), format!("where {condition}"))?;
        table.yields = table.yields.max(Yield::AtMostOne);
        // The remaining records have new positions.
        table.schema.has_index = false;
        Ok(table)
    }

    /// Replaces each record with the value of `expression`, which later steps call `x`. The value
    /// is a number, or, for a vector, a vector of the same length, computed element by element.
    ///
    /// # Errors
    /// The errors of [`Table::filter`].
    pub fn map(&self, expression: &str) -> Result<Self> {
        self.mapped(&expression.parse()?, expression, self.endian())
    }

    /// The position of each record for which `condition` is true, and `u64::MAX` for the others.
    ///
    /// # Errors
    /// The errors of [`Table::filter`].
    pub(super) fn positions_where(&self, condition: &str) -> Result<Self> {
        let holds: Expr = condition.parse()?;
        Program::compile_condition(&holds, &self.schema)?;
        let none = Expr::Int(u64::MAX.into());
        let values = vec![holds, Expr::Column(INDEX.to_owned()), none];
        let position = Expr::Call(Function::Where, values);
        self.mapped(&position, condition, self.endian())
    }

    fn mapped(&self, expr: &Expr, text: &str, endian: Endian) -> Result<Self> {
        let program = Program::compile_elementwise(expr, &self.schema)?;
        let (number, width) = (program.kind().number(), program.width());
        let number = Number::new(number, endian);
        let step = Step::Map(program, number.endian);
        let mut table = self.then(step, format!("map {text}"))?;
        table.become_numbers(number, width)?;
        Ok(table)
    }

    /// The byte order of the results of expressions.
    fn endian(&self) -> Endian {
        let numbers = self.schema.fields.iter().filter_map(|field| field.number);
        let mut ordered = numbers.filter(|number| number.bytes() > 1).peekable();
        let is_big = ordered.peek().is_some() && ordered.all(|number| number.endian == Endian::Big);
        if is_big { Endian::Big } else { Endian::NATIVE }
    }

    /// The results of all `expressions` for each record, one after another: numbers of one type,
    /// called `x` from here on.
    ///
    /// # Errors
    /// The errors of [`Table::filter`]; [`crate::Kind::Usage`] for types that differ, and for no
    /// expression.
    pub fn flat_map(&self, expressions: &[String]) -> Result<Self> {
        let compile = |text: &String| Program::compile(&text.parse()?, &self.schema);
        let programs: Result<Vec<Program>> = expressions.iter().map(compile).collect();
        let programs = programs?;
        let kinds: Vec<NumberType> = programs.iter().map(|p| p.kind().number()).collect();
        let Some((first, rest)) = kinds.split_first() else {
            return Err(Error::usage("flat_map", "no expression is given")
                .hint("give one or more, separated by commas"));
        };
        if let Some(other) = rest.iter().find(|other| *other != first) {
            let [first, other] = [first, other].map(|kind| Number::new(*kind, Endian::Little));
            let cause = format!("the expressions have different types, {first} and {other}");
            return Err(
                Error::usage("flat_map", cause).hint("cast them to one type, for example u64(x)")
            );
        }
        let text = format!("flat_map {}", expressions.join(", "));
        let number = Number::new(*first, self.endian());
        let mut table = self.then(Step::Expand(programs, number.endian), text)?;
        table.yields = Yield::Any;
        table.schema.has_index = false;
        table.become_numbers(number, 1)?;
        Ok(table)
    }

    /// Each record preceded by its position, from 0, as records of `format` with the names of
    /// `schema`.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] if records were filtered before, because positions are then unknown.
    pub fn enumerate(&self, format: &RecordFormat, schema: Schema) -> Result<Self> {
        if !self.schema.has_index {
            let cause = "an earlier step left out records, so positions are not known";
            return Err(Error::usage("enumerate", cause)
                .hint("write the remaining records, and number these"));
        }
        let step = Numbered {
            item_bytes: self.format.record_bytes(),
        };
        let mut table = self.own(Arc::new(step), format, schema, Yield::One)?;
        if let Some(text) = table.texts.last_mut() {
            *text = "enumerate".to_string();
        }
        Ok(table)
    }

    /// Applies `step` to whole batches: it returns items of `format`, as many as `yields` states.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for too many steps.
    pub fn own(
        &self,
        step: Arc<dyn BatchStep>,
        format: &RecordFormat,
        schema: Schema,
        yields: Yield,
    ) -> Result<Self> {
        let step = Step::Own(step, format.record_bytes());
        let mut table = self.then(step, "function".to_string())?;
        let has_index = self.schema.has_index && yields == Yield::One;
        table.format = format.clone();
        table.schema = Schema {
            has_index,
            ..schema
        };
        table.yields = table.yields.max(yields);
        Ok(table)
    }

    /// This table with a further step.
    fn then(&self, step: Step, text: String) -> Result<Self> {
        if self.steps.len() == STEPS_MAX {
            let cause = format!("more than {STEPS_MAX} steps in one pass");
            return Err(Error::usage("take steps", cause)
                .hint("write the result of some steps to a file, and go on from that file"));
        }
        let mut table = self.clone();
        table.steps.push(step);
        table.texts.push(text);
        Ok(table)
    }

    fn become_numbers(&mut self, number: Number, width: usize) -> Result<()> {
        let has_index = self.schema.has_index;
        self.format = RecordFormat::numbers(number, width)?;
        self.schema = Schema {
            has_index,
            ..Schema::of_format(&self.format)
        };
        Ok(())
    }

    /// This table with numbers in the byte order of this machine as items, and their type.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for records that are not single numbers.
    pub fn numbers(&self) -> Result<(Self, NumberType)> {
        let (table, number) = self.plain_numbers()?;
        if number == Number::new(number.kind, Endian::NATIVE) {
            return Ok((table, number.kind));
        }
        Ok((table.loaded(Endian::NATIVE)?, number.kind))
    }

    /// The numbers as stored in a register, in this byte order.
    fn loaded(&self, endian: Endian) -> Result<Self> {
        // A structured array may use any name for it.
        let name = self.schema.fields.first().map_or("x", |field| &field.name);
        self.mapped(&Expr::Column(name.to_string()), name, endian)
    }

    /// This table with computable numbers as items, in their original byte order.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] for records that are not single numbers.
    pub(crate) fn plain_numbers(&self) -> Result<(Self, Number)> {
        if let [key] = self.format.keys()
            && let KeyKind::Numbers(number) = key.kind
            && [number.bytes(), self.format.record_bytes()] == [key.len_bytes; 2]
        {
            return Ok(match number.kind {
                // Half-precision numbers are computed in single precision.
                NumberType::F16 => {
                    let single = Number::new(NumberType::F32, number.endian);
                    (self.loaded(number.endian)?, single)
                }
                NumberType::U128 => (self.loaded(Endian::NATIVE)?, number),
                _ => (self.clone(), number),
            });
        }
        let first = match self.schema.fields.first() {
            Some(field) if field.count > 1 && field.number.is_some() => {
                format!("{}[0]", field.name)
            }
            Some(field) => field.name.clone(),
            None => "x".to_string(),
        };
        let cause = format!("records of {} are not plain numbers", self.format);
        let hint = format!(
            "choose one number of each record, for example {first}, with --map or in the expression"
        );
        Err(Error::usage("choose numbers", cause).hint(hint))
    }

    /// Runs all steps over a batch and calls `sink` with the resulting rows.
    pub(crate) fn run(
        &self,
        space: &mut TableSpace,
        batch: Batch<'_>,
        sink: &mut dyn FnMut(&Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut from = 0;
        // The caller's own code is expensive to call and does not profit from the cache.
        let rows_max = match self.steps.first() {
            Some(Step::Own(..)) => batch.count,
            _ => BATCH_ROWS,
        };
        while from < batch.count {
            let count = rows_max.min(batch.count - from);
            let part = batch.part(from, count);
            let mut inputs: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
            for (source, input) in inputs.iter_mut().enumerate().take(self.sources.len()) {
                *input = part.bytes(source);
            }
            let rows = Rows {
                first: part.first,
                count,
                inputs: &inputs[..self.sources.len()],
            };
            run_steps(&self.steps, &mut space.steps, &rows, sink)?;
            from += count;
        }
        Ok(())
    }

    pub(crate) fn make_space(&self) -> TableSpace {
        let steps = self.steps.iter().map(|step| match step {
            Step::Where(program) | Step::Map(program, _) => StepSpace {
                program: Some(program.space()),
                more: Vec::new(),
                kept: vec![Vec::new(); self.sources.len()],
            },
            Step::Expand(programs, _) => StepSpace {
                program: None,
                more: programs.iter().map(Program::space).collect(),
                kept: vec![Vec::new(); 2],
            },
            Step::Own(..) => StepSpace {
                program: None,
                more: Vec::new(),
                kept: vec![Vec::new()],
            },
        });
        TableSpace {
            steps: steps.collect(),
        }
    }

    pub(crate) fn space_estimate_bytes(&self) -> usize {
        let record_bytes: usize = self.sources.iter().map(|source| source.element_bytes).sum();
        let mut item_bytes = record_bytes;
        let step = |step: &Step| match step {
            Step::Where(program) => program.space_bytes() + BATCH_ROWS * item_bytes.max(8),
            Step::Map(program, endian) => {
                item_bytes = program.kind().bytes() * program.width();
                let turned_bytes = match endian == &Endian::NATIVE {
                    true => 0,
                    false => program.rows_max() * item_bytes,
                };
                program.space_bytes() + turned_bytes
            }
            Step::Expand(programs, _) => {
                item_bytes = programs.first().map_or(8, |program| program.kind().bytes());
                let spaces: usize = programs.iter().map(Program::space_bytes).sum();
                spaces + BATCH_ROWS * item_bytes
            }
            Step::Own(_, made_bytes) => {
                let taken_bytes = std::mem::replace(&mut item_bytes, *made_bytes);
                BATCH_ROWS * (made_bytes + taken_bytes)
            }
        };
        self.steps.iter().map(step).sum()
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }
}

/// Space of one thread.
pub(crate) struct TableSpace {
    steps: Vec<StepSpace>,
}

struct StepSpace {
    program: Option<Space>,
    /// Spaces of further programs.
    more: Vec<Space>,
    /// Rows that a filter keeps, per input.
    kept: Vec<Vec<u8>>,
}

fn run_steps(
    steps: &[Step],
    spaces: &mut [StepSpace],
    rows: &Rows<'_>,
    sink: &mut dyn FnMut(&Rows<'_>) -> Result<()>,
) -> Result<()> {
    if rows.count == 0 {
        return Ok(());
    }
    let (Some((step, later)), Some((space, spaces))) =
        (steps.split_first(), spaces.split_first_mut())
    else {
        return sink(rows);
    };
    match (step, &mut space.program) {
        (Step::Map(program, endian), Some(registers)) => {
            let turned = &mut space.kept[0];
            let mut from = 0;
            while from < rows.count {
                let count = program.rows_max().min(rows.count - from);
                let mut inputs: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
                for (part, input) in inputs.iter_mut().zip(rows.inputs) {
                    let record_bytes = input.len() / rows.count;
                    *part = &input[from * record_bytes..(from + count) * record_bytes];
                }
                let part = Rows {
                    first: rows.first + from as u64,
                    count,
                    inputs: &inputs[..rows.inputs.len()],
                };
                let column = program.run(registers, &part)?;
                let number = Number::new(program.kind().number(), *endian);
                let bytes = in_order(number, column.bytes, turned);
                let mapped = Rows {
                    inputs: &[bytes],
                    ..part
                };
                run_steps(later, spaces, &mapped, sink)?;
                from += count;
            }
            Ok(())
        }
        (Step::Where(program), Some(registers)) => {
            let mask = program.run(registers, rows)?.bytes;
            let mut count = 0;
            for (kept, input) in space.kept.iter_mut().zip(rows.inputs) {
                count = keep(mask, input, kept);
            }
            let mut inputs: [&[u8]; SOURCES_MAX] = [&[]; SOURCES_MAX];
            for (input, kept) in inputs.iter_mut().zip(&space.kept) {
                *input = kept;
            }
            let kept = Rows {
                first: rows.first,
                count,
                inputs: &inputs[..rows.inputs.len()],
            };
            run_steps(later, spaces, &kept, sink)
        }
        (Step::Expand(programs, endian), _) => {
            let [made, turned, ..] = &mut space.kept[..] else {
                return Ok(());
            };
            let spaces_of = &mut space.more;
            let kind = programs.first().map(|program| program.kind().number());
            expand(programs, spaces_of, made, rows, &mut |rows| {
                let (Some(kind), [made]) = (kind, rows.inputs) else {
                    return run_steps(later, spaces, rows, sink);
                };
                let bytes = in_order(Number::new(kind, *endian), made, turned);
                let rows = Rows {
                    inputs: &[bytes],
                    ..*rows
                };
                run_steps(later, spaces, &rows, sink)
            })
        }
        (Step::Own(own, item_bytes), _) => {
            let joined = match rows.inputs {
                [only] => only,
                inputs => {
                    space.kept[0].clear();
                    interleave(inputs, rows.count, &mut space.kept[0]);
                    &space.kept[0][..]
                }
            };
            let made = own.run(rows.first, joined)?;
            let items = made.len() / item_bytes;
            let rows_max = match later.first() {
                Some(Step::Own(..)) => items.max(1),
                _ => BATCH_ROWS,
            };
            for (number, part) in made.chunks(rows_max * item_bytes).enumerate() {
                let rows = Rows {
                    first: rows.first + (number * rows_max) as u64,
                    count: rows_max.min(items - number * rows_max),
                    inputs: &[part],
                };
                run_steps(later, spaces, &rows, sink)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Native numbers in the byte order of `number`; `turned` holds them if they had to be swapped.
fn in_order<'b>(number: Number, native: &'b [u8], turned: &'b mut Vec<u8>) -> &'b [u8] {
    if number == Number::new(number.kind, Endian::NATIVE) {
        return native;
    }
    turned.clear();
    turned.extend_from_slice(native);
    let numbers = turned.chunks_exact_mut(number.bytes());
    numbers.for_each(<[u8]>::reverse);
    turned
}

/// Copies the records whose mask is 1 to `kept`; returns their number.
fn keep(mask: &[u8], input: &[u8], kept: &mut Vec<u8>) -> usize {
    let record_bytes = input.len() / mask.len().max(1);
    kept.resize(input.len(), 0);
    let count = match record_bytes {
        1 => keep_sized::<1>(mask, input, kept),
        2 => keep_sized::<2>(mask, input, kept),
        4 => keep_sized::<4>(mask, input, kept),
        8 => keep_sized::<8>(mask, input, kept),
        0 => mask.iter().map(|kept| usize::from(*kept)).sum(),
        _ => {
            let mut count = 0;
            for (record, is_kept) in input.chunks_exact(record_bytes).zip(mask) {
                if *is_kept != 0 {
                    let at = count * record_bytes;
                    kept[at..at + record_bytes].copy_from_slice(record);
                    count += 1;
                }
            }
            count
        }
    };
    kept.truncate(count * record_bytes);
    count
}

/// Branch-free: each record is written, and the next one overwrites it unless it is kept.
fn keep_sized<const N: usize>(mask: &[u8], input: &[u8], kept: &mut [u8]) -> usize {
    let (input, kept) = (input.as_chunks::<N>().0, kept.as_chunks_mut::<N>().0);
    let mut count = 0;
    for (record, is_kept) in input.iter().zip(mask) {
        kept[count] = *record;
        count += usize::from(*is_kept & 1);
    }
    count
}

/// Combines the records of several inputs by position.
fn interleave(inputs: &[&[u8]], count: usize, into: &mut Vec<u8>) {
    for row in 0..count {
        for input in inputs {
            let record_bytes = input.len() / count;
            into.extend_from_slice(&input[row * record_bytes..(row + 1) * record_bytes]);
        }
    }
}

impl Table {
    fn make(
        &self,
        space: &mut (TableSpace, Vec<u8>),
        batch: Batch<'_>,
        out: &mut Emit<'_>,
    ) -> Result<Produced> {
        let (space, joined) = space;
        let mut produced = Produced::All;
        let item_bytes = self.item_bytes();
        self.run(space, batch, &mut |rows| {
            if produced == Produced::Overflow {
                return Ok(());
            }
            let bytes = match rows.inputs {
                [only] => only,
                inputs => {
                    joined.clear();
                    interleave(inputs, rows.count, joined);
                    &joined[..]
                }
            };
            // A function may make more from a batch than an area holds.
            let mut left = &bytes[..rows.count * item_bytes];
            while !left.is_empty() {
                if !out.reserve(left.len())? && !out.reserve(item_bytes)? {
                    produced = Produced::Overflow;
                    return Ok(());
                }
                let room = out.free().len() / item_bytes * item_bytes;
                let (front, behind) = left.split_at(room.min(left.len()));
                out.free()[..front.len()].copy_from_slice(front);
                out.filled(front.len());
                left = behind;
            }
            Ok(())
        })?;
        Ok(produced)
    }
}

impl Producer for Table {
    fn sources(&self) -> Vec<Source> {
        self.sources.clone()
    }

    fn yields(&self) -> Yield {
        self.yields
    }

    fn item_bytes(&self) -> usize {
        self.format.record_bytes()
    }

    fn align_bytes(&self) -> usize {
        1
    }

    fn maker(&self) -> Maker<'_> {
        let mut space = (self.make_space(), Vec::new());
        Box::new(move |batch, out| self.make(&mut space, batch, out))
    }

    fn space_bytes(&self) -> usize {
        self.space_estimate_bytes()
    }

    fn steps(&self) -> String {
        self.texts.join(" -> ")
    }
}

/// The numbers of a table as a typed sequence, for typed consumers.
pub struct Numbers<T> {
    table: Table,
    spaces: Mutex<Vec<TableSpace>>,
    item: PhantomData<fn() -> T>,
}

impl<T: Pod + Send> Numbers<T> {
    /// The items of `table`, which are numbers of type `T` ([`Table::numbers`]).
    pub fn of(table: &Table) -> Self {
        assert_eq!(
            table.item_bytes(),
            size_of::<T>(),
            "the items are numbers of that type"
        );
        Numbers {
            table: table.clone(),
            spaces: Mutex::default(),
            item: PhantomData,
        }
    }

    fn spaces(&self) -> std::sync::MutexGuard<'_, Vec<TableSpace>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Pod + Send> Sequence for Numbers<T> {
    type Item = T;
    /// Unfiltered tables use the same code as filtered ones.
    const YIELD: Yield = Yield::AtMostOne;

    fn sources(&self, into: &mut Vec<Source>) {
        into.extend_from_slice(&self.table.sources);
    }

    fn source_count(&self) -> usize {
        self.table.sources.len()
    }

    fn iter<'b>(&'b self, batch: Batch<'b>) -> impl Iterator<Item = T> {
        let taken = self.spaces().pop();
        let mut space = taken.unwrap_or_else(|| self.table.make_space());
        let mut items: Vec<T> = Vec::with_capacity(batch.count);
        let outcome = self.table.run(&mut space, batch, &mut |rows| {
            items.extend_from_slice(bytemuck::cast_slice(
                &rows.inputs[0][..rows.count * size_of::<T>()],
            ));
            Ok(())
        });
        if let Err(error) = outcome {
            // An iterator cannot return an error, so the error is passed as a panic, like those of
            // the caller's code.
            let error: Box<dyn Any + Send> = Box::new(error);
            std::panic::resume_unwind(error);
        }
        self.spaces().push(space);
        items.into_iter()
    }
}
