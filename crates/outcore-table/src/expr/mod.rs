//! Expressions over the columns of a table, as users write them: `price * n > 100 and country in
//! ('de', 'fr')`.
//!
//! Contract: [`Expr::parse`] reads a text; [`Expr::check`] says of what type it is for a schema,
//! before any row is read, or what is wrong with it; [`Expr::evaluate`] gives a column for a batch.
//! Work is done by Arrow's own kernels, a column at a time. Names are columns, whatever they are
//! called: a column `x` is `x`; other names are written in backquotes. `st.a` is the field `a` of
//! the objects `st`, or the column of that name if there is one.
//!
//! | from loose to tight | |
//! |---|---|
//! | `or` `and` `not` | three truth values, as in SQL: `null` is neither true nor false |
//! | `<` `<=` `>` `>=` `==` `!=` `in (...)` `not in (...)` `is null` `is not null` | null compared with anything is null |
//! | `+ -` then `* / // %` then `-x` | Python's meaning: `/` gives floats, `//` rounds down, `%` has the sign of the divisor |
//! | `is_null isin contains starts_with ends_with like ilike lower upper length` | functions |
//! | `year quarter month day weekday hour minute second abs round floor ceil sqrt isnan where coalesce` | |
//! | `i8` to `u64`, `f32`, `f64`, `bool`, `text`, `date`, `timestamp`, and with `try_` in front | casts |
//!
//! **Types.** A literal takes the type of what it meets: text becomes a date, a time or bytes
//! beside such a column, and a number with a point a decimal. Integers are computed in 64 bits, and
//! one that does not fit is an error; divided by zero, they are null. Timestamps with a zone are
//! compared, cast and taken apart in UTC. Floats follow IEEE 754, but that NaN equals itself and is
//! larger than all numbers, as in a sort. Whole numbers and floats are compared as the numbers that
//! they are, without rounding. A cast that a value does not fit is an error, and with `try_` null.
//!
//! Bounds: one column a node of the expression, of the batch's length. An expression has a thousand
//! parts at most.

mod evaluate;
mod functions;
mod operators;
mod parse;
mod prune;
mod value;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use outcore_io::{Error, Result};

use crate::input::Predicate;
use crate::schema::FieldPlace;

/// What expressions fail with, as an operation.
const COMPUTE: &str = "compute expression";

/// An expression. See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr(Node);

/// A new column, or another meaning of an old one: `name = expression`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The column's name.
    pub name: String,
    /// Its values.
    pub value: Expr,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Column(String),
    Null,
    Boolean(bool),
    Integer(i128),
    /// A number with a point, as it was written.
    Number(String),
    Text(String),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// Whether it is null, or is not.
    IsNull(Box<Node>, bool),
    /// Whether it is one of those, or is not.
    IsIn(Box<Node>, Vec<Node>, bool),
    Call(String, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Less,
    LessEqual,
    Equal,
    NotEqual,
    GreaterEqual,
    Greater,
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
}

impl Expr {
    /// Reads `text`.
    ///
    /// # Errors
    /// Usage: it names the place.
    pub fn parse(text: &str) -> Result<Self> {
        parse::expression(text).map(Expr)
    }

    /// The columns, and fields of objects, that it reads, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.add_columns(&mut names);
        names
    }

    /// The column that it is, if it is nothing but a column, or a field of objects.
    pub(crate) fn column(&self) -> Option<&str> {
        match &self.0 {
            Node::Column(name) => Some(name),
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
        evaluate::evaluate(&self.0, batch)?.into_column(batch.num_rows())
    }

    /// The rows for which it is true.
    ///
    /// # Errors
    /// As [`Expr::evaluate`]; usage: its values are not truth values.
    pub fn holds(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let found = evaluate::evaluate(&self.0, batch)?;
        let found = operators::truth(found)?.into_column(batch.num_rows())?;
        let found = arrow_array::cast::AsArray::as_boolean(&found);
        Ok(match found.null_count() {
            0 => found.clone(),
            _ => arrow_select::filter::prep_null_mask_filter(found),
        })
    }

    /// What must be true of a row for which the expression is, and can be told by the statistics of
    /// row groups.
    pub(crate) fn predicates(&self, schema: &Schema) -> Vec<Predicate> {
        prune::predicates(&self.0, schema)
    }
}

impl Assignment {
    /// Reads `name = expression`, or several of them with commas between.
    ///
    /// # Errors
    /// As [`Expr::parse`]; usage: an expression without a name.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let made = parse::assignments(text)?.into_iter();
        Ok(made
            .map(|(name, node)| Assignment {
                name,
                value: Expr(node),
            })
            .collect())
    }
}

impl Node {
    fn add_columns<'n>(&'n self, names: &mut Vec<&'n str>) {
        match self {
            Node::Column(name) => {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            Node::Not(node) | Node::Negative(node) | Node::IsNull(node, _) => {
                node.add_columns(names);
            }
            Node::Binary(_, one, other) => {
                one.add_columns(names);
                other.add_columns(names);
            }
            Node::IsIn(node, values, _) => {
                node.add_columns(names);
                values.iter().for_each(|value| value.add_columns(names));
            }
            Node::Call(_, values) => values.iter().for_each(|value| value.add_columns(names)),
            Node::Null | Node::Boolean(_) | Node::Integer(_) | Node::Number(_) | Node::Text(_) => {}
        }
    }
}

/// An expression that means nothing, for this reason.
fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(COMPUTE, cause.into())
}
