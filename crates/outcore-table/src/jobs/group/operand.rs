//! The operand of an aggregate: a column, or an expression over columns.
//!
//! Contract: [`Operand::parse`] takes a text as it is, since the table alone says whether it names
//! a column; [`Operand::source`] settles that. A text that is the name of a column is that column,
//! whatever an expression would make of it. Pure.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, FieldRef, SchemaRef};
use outcore::key::column::{column_name, quoted};
use outcore_io::{Error, Result};

use super::GROUP;
use crate::expr::Expr;
use crate::schema::FieldPlace;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    text: String,
}

/// Where the values of an operand come from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A column of the table, or a field of objects.
    Column(String),
    /// Values that are computed of columns.
    Computed(Expr),
}

impl Operand {
    /// An operand as people write it.
    pub(super) fn parse(text: &str) -> Self {
        Operand {
            text: text.trim().to_owned(),
        }
    }

    /// The name that it is, if it can be nothing but a column.
    pub fn column(&self) -> Option<String> {
        match quoted(&self.text) {
            Some((name, "")) => Some(name),
            _ => {
                let expr = Expr::parse(&self.text).ok()?;
                expr.column().map(str::to_owned)
            }
        }
    }

    /// Its source in a table of `schema`, and the field of its values.
    ///
    /// # Errors
    /// Usage: neither a column nor an expression; an expression that has no type there.
    pub(super) fn source(&self, schema: &SchemaRef) -> Result<(Source, FieldRef)> {
        let whole = column_name(&self.text);
        let is_there = FieldPlace::of(schema, &whole, GROUP).is_ok();
        // A name may be in brackets.
        let column = if is_there { Some(whole) } else { self.column() };
        match column {
            Some(name) => {
                let place = FieldPlace::of(schema, &name, GROUP)?;
                let field = place.field(schema, &name);
                Ok((Source::Column(name), field))
            }
            None => {
                let value = Expr::parse(&self.text)?;
                let data_type = value.check(schema).map_err(|error| self.named(error))?;
                let field = Arc::new(Field::new(&self.text, data_type, true));
                Ok((Source::Computed(value), field))
            }
        }
    }
}

impl Operand {
    /// The same error with the text in front.
    fn named(&self, error: Error) -> Error {
        let cause = format!("`{self}`: {}", error.cause());
        let named = Error::new(error.kind(), GROUP, cause);
        match error.next_step() {
            Some(hint) => named.hint(hint),
            None => named,
        }
    }
}

impl std::fmt::Display for Operand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Source {
    /// The columns that it reads.
    pub(super) fn columns(&self) -> Vec<&str> {
        match self {
            Source::Column(name) => vec![name],
            Source::Computed(value) => value.columns(),
        }
    }

    /// Its values over a batch of the columns that are read.
    ///
    /// # Errors
    /// Usage: a value that does not fit its type.
    pub(super) fn values(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        match self {
            Source::Column(name) => {
                let place = crate::schema::column_index(batch.schema_ref(), name, GROUP)?;
                Ok(Arc::clone(batch.column(place)))
            }
            Source::Computed(value) => value.evaluate(batch),
        }
    }
}
