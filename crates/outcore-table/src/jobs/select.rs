//! Some rows of a table, with other columns.
//!
//! Contract: [`select`] copies the rows for which all conditions are true, with columns that are
//! computed of the input's: one of a name that there is takes its place, others come last.
//! Conditions and computed columns see the columns of the input alone. Row groups that the
//! conditions rule out by their statistics, and directories by their names, are not read, nor are
//! columns that nobody asks for. Rows keep their order.
//!
//! Bounds: those of a copy, and a column of a batch for each part of an expression.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use outcore::Job;
use outcore_io::{Error, Result};

use super::copy::{Change, WriteBatch, copy_changed, filtered};
use super::{TableEnds, TableSummary};
use crate::expr::{Assignment, Expr};
use crate::fault;
use crate::input::{InputOptions, Predicate, TableInput};
use crate::schema::{FieldPlace, column_index};

const SELECT: &str = "choose columns";

/// What is taken of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// All of them are true of the rows that are taken.
    pub conditions: Vec<Expr>,
    /// Columns that are computed.
    pub computed: Vec<Assignment>,
}

/// Copies what `selection` takes of a table. [`InputOptions::columns`] may name computed columns,
/// too; those that it does not name come last.
///
/// # Errors
/// As [`copy`](super::copy()) and [`Expr::check`]. Nothing is left then.
pub fn select(job: &Job, ends: &TableEnds<'_>, selection: &Selection) -> Result<TableSummary> {
    let started = Instant::now();
    let all = InputOptions {
        columns: None,
        ..ends.reads.clone()
    };
    let input = TableInput::open(job, ends.inputs, &all)?;
    let columns = ends.reads.columns.as_deref();
    let plan = Plan::of(input.schema(), columns, selection)?;
    let input = input.restricted(plan.predicates.clone(), &plan.reads)?;
    let change = Selected {
        plan: &plan,
        selection,
        input: &input,
    };
    let to = (ends.outputs, &plan.schema, ends.writes);
    let done = copy_changed(job, &input, to, &change)?.publish()?;
    Ok(TableSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..done
    })
}

/// What is read, and what becomes of it.
struct Plan {
    /// Columns that are read.
    reads: Vec<String>,
    /// What row groups may be left out by.
    predicates: Vec<Predicate>,
    /// Of what is written.
    schema: SchemaRef,
    /// For each column that is written: where it comes from.
    origins: Vec<Origin>,
}

enum Origin {
    /// A column of the input.
    Read(String),
    /// The computed column at this place.
    Computed(usize),
}

impl Plan {
    fn of(input: &SchemaRef, columns: Option<&[String]>, selection: &Selection) -> Result<Self> {
        let mut fields: Vec<(FieldRef, Origin)> = input
            .fields()
            .iter()
            .map(|field| (Arc::clone(field), Origin::Read(field.name().clone())))
            .collect();
        let mut predicates = Vec::new();
        for condition in &selection.conditions {
            let kind = condition.check(input)?;
            condition.holds(&RecordBatch::new_empty(SchemaRef::clone(input)))?;
            debug_assert!(!kind.is_nested());
            predicates.extend(condition.predicates(input));
        }
        for (place, made) in selection.computed.iter().enumerate() {
            let mut before = selection.computed[..place].iter();
            if before.any(|before| before.name == made.name) {
                let cause = format!("column `{}` is computed twice", made.name);
                return Err(Error::usage(SELECT, cause).hint("give each of them a name of its own"));
            }
            let data_type = made.value.check(input)?;
            let made = match made.value.column() {
                // A column by another name, with all that it says of its values.
                Some(column) => {
                    let field = FieldPlace::of(input, column, SELECT)?.field(input, column);
                    let field = Field::clone(&field).with_name(&made.name);
                    (Arc::new(field), Origin::Read(column.to_owned()))
                }
                None => {
                    let field = Field::new(&made.name, data_type, true);
                    (Arc::new(field), Origin::Computed(place))
                }
            };
            match fields
                .iter_mut()
                .find(|(known, _)| known.name() == made.0.name())
            {
                Some(known) => *known = made,
                None => fields.push(made),
            }
        }
        let (fields, origins): (Vec<FieldRef>, Vec<Origin>) = fields.into_iter().unzip();
        let whole = Schema::new_with_metadata(fields, input.metadata().clone());
        let names: Vec<String> = match columns {
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
        };
        let chosen = names.iter().map(|name| chosen(&whole, &origins, name));
        let chosen = chosen.collect::<Result<Vec<_>>>()?;
        let (fields, origins): (Vec<FieldRef>, Vec<Origin>) = chosen.into_iter().unzip();
        let schema = Schema::new_with_metadata(fields, input.metadata().clone());
        let schema = Arc::new(schema);
        crate::schema::check_names(&schema)?;
        let mut reads: Vec<String> = Vec::new();
        let mut read = |name: &str| {
            if !reads.iter().any(|known| known == name) {
                reads.push(name.to_owned());
            }
        };
        for origin in &origins {
            match origin {
                Origin::Read(name) => read(name),
                Origin::Computed(place) => {
                    let value = &selection.computed[*place].value;
                    value.columns().into_iter().for_each(&mut read);
                }
            }
        }
        for condition in &selection.conditions {
            condition.columns().into_iter().for_each(&mut read);
        }
        Ok(Plan {
            reads,
            predicates,
            schema,
            origins,
        })
    }
}

/// The column `name` of what is read and computed, or a field of objects that are read.
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
            let cause = format!("`{name}` is in a column that is computed");
            return Err(Error::usage(SELECT, cause).hint("give the column a name of its own"));
        }
    })
}

struct Selected<'s> {
    plan: &'s Plan,
    selection: &'s Selection,
    input: &'s TableInput,
}

impl Selected<'_> {
    /// The rows of `batch` for which all conditions are true, with the columns that are written.
    fn rows(&self, mut batch: RecordBatch) -> Result<RecordBatch> {
        for condition in &self.selection.conditions {
            batch = filtered(&batch, &condition.holds(&batch)?)?;
        }
        let columns = self.plan.origins.iter().map(|origin| match origin {
            Origin::Read(name) => {
                let place = column_index(batch.schema_ref(), name, SELECT)?;
                Ok(Arc::clone(batch.column(place)))
            }
            Origin::Computed(place) => self.selection.computed[*place].value.evaluate(&batch),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options)
            .map_err(|error| fault::arrow(SELECT, &error))
    }
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
        let made = self.rows(batch.clone()).map_err(|error| {
            let place = (self.input.pieces()[piece], first);
            let rows = |row| self.rows(row).map(drop);
            self.input.row_at_fault(place, (&batch, error), rows)
        })?;
        write(&made)
    }
}
