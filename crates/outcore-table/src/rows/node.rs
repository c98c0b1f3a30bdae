//! The shape of a column in a row's payload: what stands where, for every Arrow type.
//!
//! Contract: a [`Node`] is made once from a field and says how its values are laid down ([`Form`]);
//! [`super::write`] and [`super::read`] follow it. It covers all types of Arrow. Dictionaries are
//! carried as their values. Types that have no layout of their own (unions, run ends, list views)
//! are carried as the bytes that arrow-row makes of them, or refused by name where it makes none.

use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, Field, IntervalUnit};
use outcore_io::{Error, Result};

use crate::fault;

/// One column, or a column inside one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) data_type: DataType,
    /// Whether the values may be null, so that the payload says which are.
    pub(super) is_nullable: bool,
    pub(super) form: Form,
}

/// How the values that are not null are laid down.
#[derive(Debug)]
pub(super) enum Form {
    /// Nothing.
    Null,
    /// A bit each, the first in the lowest.
    Bool,
    /// Of this many bytes each, as in Arrow's buffer.
    Fixed { width_bytes: usize },
    /// A length and the bytes, each.
    Bytes,
    /// A length each; after them the elements of all of them.
    List { child: Box<Node> },
    /// The elements of all, those of nulls included.
    FixedList { child: Box<Node>, count: usize },
    /// The children one after another, what stands under nulls included.
    Struct { children: Vec<Node> },
    /// The values that the keys stand for.
    Dictionary { values: Box<Node> },
    /// The bytes of arrow-row, each with a length.
    Ordered { converter: RowConverter },
}

impl Node {
    /// The node of `field`, which is, or is part of, the column `column`.
    pub(super) fn of(field: &Field, column: &str) -> Result<Node> {
        Ok(Node {
            data_type: field.data_type().clone(),
            is_nullable: field.is_nullable(),
            form: form_of(field.data_type(), column)?,
        })
    }

    /// Whether arrow-row gives the values back as they were: it looks dictionaries up.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.form, Form::Bool | Form::Fixed { .. } | Form::Bytes)
    }

    /// Whether nothing has to say which values are null: all of them, or their bytes do.
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

/// By arrow-row, where it knows the type.
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
    let cause =
        format!("column `{column}` holds values of type {data_type}, which cannot be moved");
    Error::usage("carry rows", cause).hint("leave the column out, or cast it to another type first")
}
