//! The operand of an aggregate: a column, or an expression over columns.
//!
//! Contract: [`Operand::parse`] keeps the text, because only the table shows whether it is the name
//! of a column; [`Operand::source`] decides that. A text that is the name of a column always means
//! that column, even if it is also an expression. Pure.

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

/// The source of an operand's values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A column of the table, or a field of objects.
    Column(String),
    /// Values computed from columns.
    Computed(Expr),
}

impl Operand {
    /// Reads an operand.
    pub(super) fn parse(text: &str) -> Self {
        Operand {
            text: text.trim().to_owned(),
        }
    }

    /// Returns the column's name, if the text can only be a column.
    pub fn column(&self) -> Option<String> {
        match quoted(&self.text) {
            Some((name, "")) => Some(name),
            _ => {
                let expr = Expr::parse(&self.text).ok()?;
                expr.column().map(str::to_owned)
            }
        }
    }

    /// Returns its source in a table of `schema`, and the field of its values.
    ///
    /// # Errors
    /// Usage: neither a column nor an expression; an expression without a type there.
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
    /// Prefixes the error with the operand's text.
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
    /// Returns the columns that it reads.
    pub(super) fn columns(&self) -> Vec<&str> {
        match self {
            Source::Column(name) => vec![name],
            Source::Computed(value) => value.columns(),
        }
    }

    /// Computes its values over a batch of the columns that are read.
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
