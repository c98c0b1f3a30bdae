//! Evaluates expressions of the engine's grammar ([`outcore::key::expr`]) over Arrow columns.
//!
//! Contract: [`Expr::parse`] reads a text. [`Expr::check`] returns the type of the expression for a
//! schema, or what is wrong with it, before any row is read. [`Expr::evaluate`] computes a column
//! for a batch. Arrow's kernels do the work, one column at a time.
//!
//! Names are columns: a column `x` is written `x`; names that are not identifiers are written in
//! backquotes. `st.a` is the field `a` of the objects `st`, or the column `st.a` if there is one.
//!
//! **Types.**
//!
//! - A literal takes the type of the other operand. Next to a column of dates, times or bytes, a
//!   text becomes a value of that type. Next to a decimal, a number with a point becomes a decimal.
//! - Integers are computed in 64 bits. Overflow is an error; division by zero gives null.
//! - Timestamps with a zone are compared, cast and split into parts in UTC.
//! - Floats follow IEEE 754, except that NaN equals itself and is larger than all numbers, as in a
//!   sort.
//! - Integers and floats are compared exactly, without rounding.
//! - A cast whose value does not fit is an error; with `try_` it gives null.
//! - Truth has three values, as in SQL.
//! - An error counts only in rows where the result matters. On the right of `and` and `or`, and in
//!   the branches of `where` and `case`, errors of other rows are ignored.
//!
//! Bounds: one column per subexpression, of the batch's length.

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

/// The operation that errors of expressions report.
const COMPUTE: &str = "compute expression";

/// An expression. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr(grammar::Expr);

/// A new column, or new values for an old one: `name = expression` or `expression as name`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The column's name.
    pub name: String,
    /// Its values.
    pub value: Expr,
    /// Whether it was written `value as name`, which can rename a column.
    pub is_alias: bool,
}

impl Expr {
    /// Reads `text`.
    ///
    /// # Errors
    /// Usage: invalid syntax, reported with its place.
    pub fn parse(text: &str) -> Result<Self> {
        text.parse().map(Expr)
    }

    /// Returns the columns and fields of objects that it reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        self.0.columns()
    }

    /// Returns its column if the expression is only a column, or a field of an object.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.0 {
            grammar::Expr::Column(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the type of its values for tables of `schema`.
    ///
    /// # Errors
    /// Usage: a missing column, incompatible types, a text that is not a date.
    pub fn check(&self, schema: &SchemaRef) -> Result<DataType> {
        let none = RecordBatch::new_empty(SchemaRef::clone(schema));
        let made = self.evaluate(&none)?;
        for name in self.columns() {
            FieldPlace::of(schema, name, COMPUTE)?;
        }
        Ok(made.data_type().clone())
    }

    /// Evaluates it over `batch`.
    ///
    /// # Errors
    /// As [`Expr::check`]. Usage: a number that does not fit its type.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let values = Scope::of(batch).evaluate(&self.0)?;
        values.into_column(batch.num_rows())
    }

    /// Returns the rows for which it is true.
    ///
    /// # Errors
    /// As [`Expr::evaluate`]. Usage: values that are not truth values.
    pub fn holds(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let found = Scope::of(batch).evaluate(&self.0)?;
        let found = operators::truth(found)?.into_column(batch.num_rows())?;
        Ok(value::true_rows(arrow_array::cast::AsArray::as_boolean(
            &found,
        )))
    }

    /// Returns conditions that row-group statistics can decide, and that hold in every row for
    /// which the expression is true.
    pub(crate) fn predicates(&self, schema: &Schema) -> Vec<Predicate> {
        prune::predicates(&self.0, schema)
    }
}

impl Assignment {
    /// Reads `name = expression` or `expression as name`, or several of them separated by commas.
    ///
    /// # Errors
    /// As [`Expr::parse`]. Usage: an expression without a name.
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

/// The error for an expression without a meaning, with this reason.
fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(COMPUTE, cause.into())
}
