//! Copies selected rows of a table, with computed columns.
//!
//! Contract: [`select`] copies the rows for which all conditions are true, and adds computed
//! columns. A computed column replaces an input column of the same name; others come last. `a as b`
//! renames a column. Rows keep their order.
//!
//! Conditions see the columns of the input. Computed columns also see earlier computed columns that
//! the input lacks, and `index`, a row's position in the input from 0, if there is no column of
//! that name. These are not read: row groups whose statistics the conditions exclude, directories
//! whose names they exclude, and unused columns.
//!
//! Bounds: those of a copy, and one column of a batch per subexpression.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use outcore::Job;
use outcore_io::{Error, Result};

use super::copy::{Change, WriteBatch, copy_changed, filtered};
use super::{TableEnds, TableSummary};
use crate::expr::{Assignment, Expr};
use crate::fault;
use crate::input::{InputOptions, Piece, Predicate, TableInput};
use crate::schema::{FieldPlace, column_index};

const SELECT: &str = "choose columns";
/// The name of a row's position in expressions.
const INDEX: &str = "index";

/// The conditions and computed columns of a selection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Conditions on rows, joined by `and`.
    pub conditions: Vec<Expr>,
    /// The computed columns.
    pub computed: Vec<Assignment>,
}

impl Selection {
    /// Names of columns that the input must have.
    pub fn names_needed(&self) -> Vec<String> {
        let values = self.computed.iter().map(|made| &made.value);
        let read = self.conditions.iter().chain(values).flat_map(Expr::columns);
        let is_made =
            |name: &str| name == INDEX || self.computed.iter().any(|made| made.name == name);
        read.filter(|name| !is_made(name))
            .map(str::to_owned)
            .collect()
    }
}

/// Copies the selected rows and columns of a table. [`InputOptions::columns`] may include computed
/// columns; computed columns that it does not include come last.
///
/// # Errors
/// As [`copy`](super::copy()) and [`Expr::check`]. On failure, no file remains.
pub fn select(job: &Job, ends: &TableEnds<'_>, selection: &Selection) -> Result<TableSummary> {
    let started = Instant::now();
    let all = InputOptions {
        columns: None,
        ..ends.reads.clone()
    };
    let input = TableInput::open(job, ends.inputs, &all)?;
    let columns = ends.reads.columns.as_deref();
    let plan = Plan::of(input.schema(), columns, selection)?;
    let firsts = first_rows(input.pieces());
    let input = input.restricted(plan.predicates.clone(), &plan.reads)?;
    let change = Selected {
        plan: &plan,
        selection,
        input: &input,
        firsts,
    };
    let to = (ends.outputs, &plan.schema, ends.writes);
    let done = copy_changed(job, &input, to, &change)?.publish()?;
    Ok(TableSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..done
    })
}

/// The position in the input of the first row of each piece.
fn first_rows(pieces: &[Piece]) -> HashMap<(usize, usize), u64> {
    let mut before = 0;
    let mut firsts = HashMap::new();
    for piece in pieces {
        firsts.insert((piece.file, piece.part), before);
        before += piece.rows_count;
    }
    firsts
}

/// The plan: what is read, and how the output is made from it.
struct Plan {
    /// Columns that are read.
    reads: Vec<String>,
    /// Conditions by which row groups are skipped.
    predicates: Vec<Predicate>,
    /// The schema of the output.
    schema: SchemaRef,
    /// The origin of each output column.
    origins: Vec<Origin>,
    /// Whether expressions use the position of a row.
    has_index: bool,
    /// Computed columns that expressions may use.
    visible: Vec<FieldRef>,
}

enum Origin {
    /// A column of the input.
    Read(String),
    /// The computed column with this index.
    Computed(usize),
}

impl Plan {
    fn of(input: &SchemaRef, columns: Option<&[String]>, selection: &Selection) -> Result<Self> {
        let is_column = input.index_of(INDEX).is_ok();
        let values = selection.computed.iter().map(|made| &made.value);
        let mut read = selection.conditions.iter().chain(values);
        let has_index = !is_column && read.any(|expr| expr.columns().contains(&INDEX));
        let index = has_index.then(|| Arc::new(Field::new(INDEX, DataType::UInt64, false)));
        let scope = extended(input, index.as_slice());
        let mut predicates = Vec::new();
        for condition in &selection.conditions {
            let kind = condition.check(&scope)?;
            condition.holds(&RecordBatch::new_empty(SchemaRef::clone(&scope)))?;
            debug_assert!(!kind.is_nested());
            predicates.extend(condition.predicates(input));
        }
        let (columns_made, visible) = computed_columns(input, &scope, selection)?;
        let (fields, origins): (Vec<FieldRef>, Vec<Origin>) = columns_made
            .into_iter()
            .map(|made| (made.field, made.origin))
            .unzip();
        let whole = Schema::new_with_metadata(fields, input.metadata().clone());
        let names = names_written(&whole, columns, selection);
        let chosen = names.iter().map(|name| chosen(&whole, &origins, name));
        let chosen = chosen.collect::<Result<Vec<_>>>()?;
        let (fields, origins): (Vec<FieldRef>, Vec<Origin>) = chosen.into_iter().unzip();
        let schema = Schema::new_with_metadata(fields, input.metadata().clone());
        let schema = Arc::new(schema);
        crate::schema::check_names(&schema)?;
        Ok(Plan {
            reads: names_read(input, &origins, selection)?,
            predicates,
            schema,
            origins,
            has_index,
            visible,
        })
    }
}

/// A column while the plan is made.
struct Column {
    field: FieldRef,
    origin: Origin,
}

/// Appends columns to the schema of `input`.
fn extended(input: &SchemaRef, more: &[FieldRef]) -> SchemaRef {
    let fields = input.fields().iter().chain(more).cloned();
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns all columns of the input with the computed ones, and the computed ones that later
/// expressions may use.
fn computed_columns(
    input: &SchemaRef,
    scope: &SchemaRef,
    selection: &Selection,
) -> Result<(Vec<Column>, Vec<FieldRef>)> {
    let fields = input.fields().iter();
    let mut columns: Vec<Column> = fields
        .map(|field| Column {
            field: Arc::clone(field),
            origin: Origin::Read(field.name().clone()),
        })
        .collect();
    let (mut scope, mut visible) = (Arc::clone(scope), Vec::new());
    for (place, made) in selection.computed.iter().enumerate() {
        let mut before = selection.computed[..place].iter();
        if before.any(|before| before.name == made.name) {
            let cause = format!("column `{}` is computed twice", made.name);
            return Err(Error::usage(SELECT, cause).hint("give each of them a name of its own"));
        }
        let data_type = made.value.check(&scope)?;
        let of_input = made.value.column().filter(|name| is_in(input, name));
        let column = match of_input {
            // A renamed column keeps all its metadata.
            Some(column) => {
                let field = FieldPlace::of(input, column, SELECT)?.field(input, column);
                Column {
                    field: Arc::new(Field::clone(&field).with_name(&made.name)),
                    origin: Origin::Read(column.to_owned()),
                }
            }
            None => Column {
                field: Arc::new(Field::new(&made.name, data_type.clone(), true)),
                origin: Origin::Computed(place),
            },
        };
        if !is_in(input, &made.name) {
            visible.push(Arc::new(Field::new(&made.name, data_type.clone(), true)));
            scope = extended(&scope, &visible[visible.len() - 1..]);
        }
        let at = |name: &str| columns.iter().position(|known| known.field.name() == name);
        let renamed = of_input.filter(|_| made.is_alias).and_then(at);
        match (at(&made.name), renamed) {
            (Some(known), Some(renamed)) if known != renamed => {
                columns[renamed] = column;
                columns.remove(known);
            }
            (Some(known), _) | (None, Some(known)) => columns[known] = column,
            (None, None) => columns.push(column),
        }
    }
    let read = selection
        .computed
        .iter()
        .flat_map(|made| made.value.columns());
    let read: Vec<&str> = read.collect();
    visible.retain(|made| {
        read.iter()
            .any(|name| name.starts_with(made.name().as_str()))
    });
    Ok((columns, visible))
}

/// Whether a column, or a field of objects, has this name.
fn is_in(schema: &Schema, name: &str) -> bool {
    FieldPlace::of(schema, name, SELECT).is_ok()
}

/// The names of the output columns, in their order.
fn names_written(whole: &Schema, columns: Option<&[String]>, selection: &Selection) -> Vec<String> {
    match columns {
        None => whole
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect(),
        Some(names) => {
            let is_left = |made: &&Assignment| !names.contains(&made.name);
            let computed = selection.computed.iter().filter(is_left);
            let computed = computed.map(|made| &made.name);
            names.iter().chain(computed).cloned().collect()
        }
    }
}

/// The columns of the input that are needed, each once.
fn names_read(input: &Schema, origins: &[Origin], selection: &Selection) -> Result<Vec<String>> {
    let copied = origins.iter().filter_map(|origin| match origin {
        Origin::Read(name) => Some(name.as_str()),
        Origin::Computed(_) => None,
    });
    let values = selection.computed.iter().map(|made| &made.value);
    let read = values.chain(&selection.conditions).flat_map(Expr::columns);
    let mut names: Vec<String> = Vec::new();
    for name in copied.chain(read) {
        if is_in(input, name) && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Returns the column `name` among the input and computed columns, or a field of input objects.
fn chosen(whole: &Schema, origins: &[Origin], name: &String) -> Result<(FieldRef, Origin)> {
    let place = FieldPlace::of(whole, name, SELECT)?;
    let field = place.field(whole, name);
    let is_whole = whole.field(place.root).name() == name;
    Ok(match &origins[place.root] {
        Origin::Read(read) => {
            let inside = name.strip_prefix(whole.field(place.root).name().as_str());
            (
                field,
                Origin::Read(format!("{read}{}", inside.unwrap_or_default())),
            )
        }
        Origin::Computed(computed) if is_whole => (field, Origin::Computed(*computed)),
        Origin::Computed(_) => {
            let cause = format!("`{name}` is a field of a column that is computed");
            return Err(Error::usage(SELECT, cause).hint("give the column a name of its own"));
        }
    })
}

struct Selected<'s> {
    plan: &'s Plan,
    selection: &'s Selection,
    input: &'s TableInput,
    /// Position of the first row of each piece, by file and part.
    firsts: HashMap<(usize, usize), u64>,
}

impl Selected<'_> {
    /// Returns the rows of `batch` for which all conditions are true, with the output columns.
    fn rows(&self, batch: RecordBatch, first: u64) -> Result<RecordBatch> {
        let mut batch = match self.plan.has_index {
            true => {
                let rows = first..first + batch.num_rows() as u64;
                let index: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows));
                with_column(&batch, Field::new(INDEX, DataType::UInt64, false), index)?
            }
            false => batch,
        };
        for condition in &self.selection.conditions {
            batch = filtered(&batch, &condition.holds(&batch)?)?;
        }
        let mut made = vec![None; self.selection.computed.len()];
        let mut wide = batch.clone();
        for (place, computed) in self.selection.computed.iter().enumerate() {
            let mut visible = self.plan.visible.iter();
            let visible = visible.find(|field| *field.name() == computed.name);
            let is_written =
                |origin: &Origin| matches!(origin, Origin::Computed(at) if *at == place);
            if visible.is_none() && !self.plan.origins.iter().any(is_written) {
                continue;
            }
            let column = computed.value.evaluate(&wide)?;
            if let Some(field) = visible {
                wide = with_column(&wide, Field::clone(field), Arc::clone(&column))?;
            }
            made[place] = Some(column);
        }
        let columns = self.plan.origins.iter().map(|origin| match origin {
            Origin::Read(name) => {
                let place = column_index(batch.schema_ref(), name, SELECT)?;
                Ok(Arc::clone(batch.column(place)))
            }
            Origin::Computed(place) => {
                let column = made[*place].clone();
                column.ok_or_else(|| Error::usage(SELECT, "a column was not computed"))
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options)
            .map_err(|error| fault::arrow(SELECT, &error))
    }
}

/// Appends a column to `batch`.
fn with_column(batch: &RecordBatch, field: Field, column: ArrayRef) -> Result<RecordBatch> {
    let schema = extended(&batch.schema(), &[Arc::new(field)]);
    let columns = batch.columns().iter().cloned().chain([column]).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| fault::arrow(SELECT, &error))
}

impl Change for Selected<'_> {
    fn keeps(&self, column: &str) -> bool {
        let place = self.plan.schema.index_of(column);
        place.is_ok_and(
            |place| matches!(&self.plan.origins[place], Origin::Read(read) if read == column),
        )
    }

    fn count(&self, piece: usize) -> Option<u64> {
        let is_every = self.selection.conditions.is_empty();
        let piece = self.input.pieces().get(piece).filter(|_| is_every);
        piece.map(|piece| piece.rows_count)
    }

    fn apply(
        &self,
        piece: usize,
        first: u64,
        batch: RecordBatch,
        write: &mut WriteBatch<'_>,
    ) -> Result<()> {
        let place = self.input.pieces()[piece];
        let before = self
            .firsts
            .get(&(place.file, place.part))
            .copied()
            .unwrap_or(0);
        let made = self.rows(batch.clone(), before + first).map_err(|error| {
            let rows = |row| self.rows(row, before + first).map(drop);
            self.input.row_at_fault(place, first, &batch, error, rows)
        })?;
        write(&made)
    }
}
