//! The form of a column in a row's payload, for every Arrow type.
//!
//! Contract: a [`Node`] is made once from a field, and defines how the field's values are stored
//! ([`Form`]); [`super::write`] and [`super::read`] follow it. It covers all Arrow types.
//! Dictionaries are stored as their values. Types without a form of their own (unions, run ends,
//! list views) are stored in arrow-row's form, or rejected with their name if arrow-row does not
//! support them.

use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, IntervalUnit};
use outcore_io::{Error, Result};

use crate::fault;
use crate::notation::notation;

/// One column, or a column inside one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) data_type: DataType,
    /// Whether the values may be null, so that the payload marks which are.
    pub(super) is_nullable: bool,
    pub(super) form: Form,
}

/// How values that are not null are stored.
#[derive(Debug)]
pub(super) enum Form {
    /// Nothing.
    Null,
    /// One bit each, the first in the lowest bit.
    Bool,
    /// This many bytes each, as in Arrow's buffer.
    Fixed { width_bytes: usize },
    /// A length and the bytes of each.
    Bytes,
    /// The length of each; then the elements of all.
    List { child: Box<Node> },
    /// The elements of all lists, including those of nulls.
    FixedList { child: Box<Node>, count: usize },
    /// The children one after another, including their values under nulls.
    Struct { children: Vec<Node> },
    /// The decoded values.
    Dictionary { values: Box<Node> },
    /// arrow-row's bytes of each, with a length.
    Ordered { converter: RowConverter },
}

impl Node {
    /// The node of `field`, which is the column `column` or a part of it.
    pub(super) fn of(field: &Field, column: &str) -> Result<Node> {
        Ok(Node {
            data_type: field.data_type().clone(),
            is_nullable: field.is_nullable(),
            form: form_of(field.data_type(), column)?,
        })
    }

    /// Whether arrow-row returns the values in the same type; it decodes dictionaries.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.form, Form::Bool | Form::Fixed { .. } | Form::Bytes)
    }

    /// Whether no bits are needed to mark nulls: all values are null, or their bytes show it.
    pub(super) fn is_without_bits(&self) -> bool {
        !self.is_nullable || matches!(self.form, Form::Null | Form::Ordered { .. })
    }
}

fn form_of(data_type: &DataType, column: &str) -> Result<Form> {
    let child = |field: &Field| Node::of(field, column).map(Box::new);
    Ok(match data_type {
        DataType::Null => Form::Null,
        DataType::Boolean => Form::Bool,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Utf8View
        | DataType::BinaryView => Form::Bytes,
        DataType::FixedSizeBinary(width) => Form::Fixed {
            width_bytes: usize::try_from(*width).map_err(|_| unknown(data_type, column))?,
        },
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            Form::List {
                child: child(field)?,
            }
        }
        DataType::FixedSizeList(field, count) => Form::FixedList {
            child: child(field)?,
            count: usize::try_from(*count).map_err(|_| unknown(data_type, column))?,
        },
        DataType::Struct(fields) => Form::Struct {
            children: fields
                .iter()
                .map(|field| Node::of(field, column))
                .collect::<Result<_>>()?,
        },
        DataType::Dictionary(_, values) => Form::Dictionary {
            values: Box::new(Node::of(&Field::new("", (**values).clone(), true), column)?),
        },
        DataType::Interval(IntervalUnit::MonthDayNano) => Form::Fixed { width_bytes: 16 },
        other => match other.primitive_width() {
            Some(width_bytes) => Form::Fixed { width_bytes },
            None => ordered(other, column)?,
        },
    })
}

/// Uses arrow-row, if it supports the type.
fn ordered(data_type: &DataType, column: &str) -> Result<Form> {
    let fields = vec![SortField::new(data_type.clone())];
    if !RowConverter::supports_fields(&fields) {
        return Err(unknown(data_type, column));
    }
    let converter = RowConverter::new(fields)
        .map_err(|error| fault::arrow("carry rows", &error).hint("leave the column out"))?;
    Ok(Form::Ordered { converter })
}

fn unknown(data_type: &DataType, column: &str) -> Error {
    let cause = format!(
        "column `{column}` holds values of type {}, which cannot be moved",
        notation(data_type)
    );
    Error::usage("carry rows", cause).hint("leave the column out, or cast it to another type first")
}
