//! Expressions over the columns of a table: the evaluator of the engine's grammar
//! ([`outcore::key::expr`]) for columns of Arrow.
//!
//! Contract: [`Expr::parse`] reads a text; [`Expr::check`] says of what type it is for a schema,
//! before any row is read, or what is wrong with it; [`Expr::evaluate`] gives a column for a batch.
//! Work is done by Arrow's own kernels, a column at a time. Names are columns, whatever they are
//! called: a column `x` is `x`; other names are written in backquotes. `st.a` is the field `a` of
//! the objects `st`, or the column of that name if there is one.
//!
//! **Types.** A literal takes the type of what it meets: text becomes a date, a time or bytes
//! beside such a column, and a number with a point a decimal. Integers are computed in 64 bits, and
//! one that does not fit is an error; divided by zero, they are null. Timestamps with a zone are
//! compared, cast and taken apart in UTC. Floats follow IEEE 754, except that NaN equals itself and
//! is larger than all numbers, as in a sort. Whole numbers and floats are compared as the numbers
//! that they are, without rounding. A cast that a value does not fit is an error, and with `try_`
//! null. Truth has three values, as in SQL. An error in a row where the result does not matter is
//! none: on the right of `and` and `or`, and in the branches of `where` and `case`.
//!
//! Bounds: one column per part of the expression, of the batch's length.

mod evaluate;
mod functions;
mod operators;
mod prune;
mod texts;
mod times;
mod value;
mod whole;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use outcore::key::expr as grammar;
use outcore_io::{Error, Result};

use self::evaluate::Scope;
use crate::input::Predicate;
use crate::schema::FieldPlace;

/// What expressions fail with, as an operation.
const COMPUTE: &str = "compute expression";

/// An expression. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr(grammar::Expr);

/// A new column, or another meaning of an old one: `name = expression` or `expression as name`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The column's name.
    pub name: String,
    /// Its values.
    pub value: Expr,
    /// Whether it was written `value as name`, so that a column takes the name.
    pub is_alias: bool,
}

impl Expr {
    /// Reads `text`.
    ///
    /// # Errors
    /// Usage: it names the place.
    pub fn parse(text: &str) -> Result<Self> {
        text.parse().map(Expr)
    }

    /// The columns, and fields of objects, that it reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        self.0.columns()
    }

    /// The column that it is, if it is nothing but a column, or a field of objects.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.0 {
            grammar::Expr::Column(name) => Some(name),
            _ => None,
        }
    }

    /// The type of its values over tables of `schema`.
    ///
    /// # Errors
    /// Usage: a column that is not there, types that do not go together, a text that is not a date.
    pub fn check(&self, schema: &SchemaRef) -> Result<DataType> {
        for name in self.columns() {
            FieldPlace::of(schema, name, COMPUTE)?;
        }
        let none = RecordBatch::new_empty(SchemaRef::clone(schema));
        Ok(self.evaluate(&none)?.data_type().clone())
    }

    /// Its values over `batch`.
    ///
    /// # Errors
    /// As [`Expr::check`]; usage: a number that does not fit its type.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let values = Scope::of(batch).evaluate(&self.0)?;
        values.into_column(batch.num_rows())
    }

    /// The rows for which it is true.
    ///
    /// # Errors
    /// As [`Expr::evaluate`]; usage: its values are not truth values.
    pub fn holds(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let found = Scope::of(batch).evaluate(&self.0)?;
        let found = operators::truth(found)?.into_column(batch.num_rows())?;
        Ok(value::true_rows(arrow_array::cast::AsArray::as_boolean(
            &found,
        )))
    }

    /// What must be true of a row for which the expression is, and can be told by the statistics of
    /// row groups.
    pub(crate) fn predicates(&self, schema: &Schema) -> Vec<Predicate> {
        prune::predicates(&self.0, schema)
    }
}

impl Assignment {
    /// Reads `name = expression` or `expression as name`, or several of them with commas between.
    ///
    /// # Errors
    /// As [`Expr::parse`]; usage: an expression without a name.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let made = grammar::Named::parse_all(text)?.into_iter();
        Ok(made
            .map(|made| Assignment {
                name: made.name,
                value: Expr(made.value),
                is_alias: made.is_alias,
            })
            .collect())
    }
}

/// An expression that means nothing, for this reason.
fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(COMPUTE, cause.into())
}
