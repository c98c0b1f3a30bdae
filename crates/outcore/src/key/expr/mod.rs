//! Expressions in the users' notation: `x * 2 + 1`, `price * n > 100 and country in ('de', 'fr')`.
//!
//! Contract: there is one grammar ([`Expr`], [`Named`]) and one list of functions ([`FUNCTIONS`])
//! for records and tables. Two evaluators walk the tree: [`Program`] here, for the numbers of
//! records, and that of `outcore-table`, for columns of Arrow. Both give the same values; a feature
//! that one of them lacks is an error with a hint. `docs/guide/expressions.md` describes the
//! language.
//!
//! A [`Program`] is an expression compiled for a [`Schema`], which defines the meaning of names. A
//! program works on batches of at most [`BATCH_ROWS`] rows, one operation over a whole column at a
//! time. So the compiler can use vector instructions, and the columns stay in the cache (Boncz,
//! Zukowski, Nes, "MonetDB/X100", CIDR 2005).
//!
//! Types of records follow NumPy 2's promotion, and literals take the type of the other operand
//! (NEP 50). Integers wrap around. Casts truncate integers and clamp floats. An integer divided by
//! zero, or raised to a negative power, is an error. This is no error in a row where the result
//! does not matter, such as on the right of `and` and `or`, and in the branches of `where` and
//! `case`. NaN equals itself and is larger than all numbers, as in a sort.
//!
//! Vectors: `x[2]` is an element, and `x` alone is the whole vector. Operators and functions then
//! work element by element, on vectors of one length and single numbers, and return a vector of
//! that length. Only a map can produce a vector ([`Program::compile_elementwise`]); where one
//! number or truth value is expected, a vector is an error.

mod calls;
mod check;
mod choice;
mod column;
mod cursor;
mod divide;
mod foreign;
mod functions;
mod parse;
#[cfg(test)]
mod parse_tests;
mod program;
mod registers;
#[cfg(test)]
mod tests;
mod tree;
mod types;

use std::fmt;
use std::str::FromStr;

use super::npy::NpyHeader;
use super::record::{Endian, KeyKind, Number, NumberType, RecordFormat};
use outcore_io::{Error, Result};

pub use column::{Column, Rows, Space, float_operation, hash_of_bits};
pub use foreign::column as foreign_column;
pub use functions::{CASTS, Cast, CastType, Entry, FUNCTIONS, Function, Group, Place};
pub use program::Program;
pub use tree::{Arm, Between, Binary, Case, Expr, Named, Unary};
pub use types::order_of;

pub(crate) use column::{BATCH_ROWS, with_type};

/// The position of a row in the whole input.
pub(crate) const INDEX: &str = "index";
/// Names of the numbers of zipped inputs.
const INPUT_NAMES: [&str; 8] = ["x", "y", "z", "w", "x4", "x5", "x6", "x7"];

impl FromStr for Expr {
    type Err = Error;

    /// Parses an expression.
    ///
    /// # Errors
    /// [`crate::Kind::Usage`] with the position of the first error.
    fn from_str(text: &str) -> Result<Self> {
        parse::parse(text)
    }
}

/// The note about expressions with a `^` that may be meant as a power, for the user.
pub fn power_note(text: &str) -> Option<&'static str> {
    let is_likely = |expr: &Expr| {
        let mut is_likely = false;
        expr.visit(&mut |part| {
            let power = match part {
                Expr::Binary(Binary::BitXor, _, power) => Some(&**power),
                _ => None,
            };
            is_likely |= matches!(power, Some(Expr::Int(2..=9)));
        });
        is_likely
    };
    let named = Named::parse_all(text).unwrap_or_default();
    let alone = text.parse::<Expr>().ok();
    let mut all = named.iter().map(|named| &named.value).chain(&alone);
    all.any(is_likely)
        .then_some("^ is the exclusive or of bits; x ** 2 is the power")
}

impl Named {
    /// Parses `name = expression` or `expression as name`, or a comma-separated list of them.
    ///
    /// # Errors
    /// The errors of [`Expr::from_str`]; [`crate::Kind::Usage`] for an expression without a name.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        parse::named(text)
    }
}

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// Truth values, one byte each.
    Bool,
    /// Numbers in the byte order of this machine; never 128 bits.
    Number(NumberType),
}

impl ColumnType {
    /// Bytes per value.
    pub const fn bytes(self) -> usize {
        match self {
            ColumnType::Bool => 1,
            ColumnType::Number(number) => number.bytes(),
        }
    }

    /// The number type of a file of such values: truth values are bytes.
    pub const fn number(self) -> NumberType {
        match self {
            ColumnType::Bool => NumberType::U8,
            ColumnType::Number(number) => number,
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColumnType::Bool => "bool",
            ColumnType::Number(number) => number.name(),
        })
    }
}

/// A number, or an array of them, in the records of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaField {
    /// The name of the field in expressions.
    pub name: String,
    /// The input to which the field belongs.
    pub input: usize,
    /// The offset of the field in the record.
    pub offset_bytes: usize,
    /// The type of the field; `None` for bytes, which expressions cannot use.
    pub number: Option<Number>,
    /// Number of elements.
    pub count: usize,
}

/// The meaning of names: the numbers in the records of one input, or of several zipped ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// Bytes of a record of each input.
    pub record_bytes: Vec<usize>,
    /// All fields.
    pub fields: Vec<SchemaField>,
    /// Whether `index` is known.
    pub has_index: bool,
}

impl Schema {
    /// The fields of records: `x` for a number or a vector (`x[0]`), `key0`, `key1`, ... for the
    /// keys of other records.
    pub fn of_format(format: &RecordFormat) -> Self {
        let keys = format.keys();
        let is_whole = |len_bytes| len_bytes == format.record_bytes();
        let field = |(index, key): (usize, &super::KeyField)| {
            let number = match key.kind {
                KeyKind::Numbers(number) => Some(number),
                KeyKind::Bytes => None,
            };
            let name = match keys {
                [only] if is_whole(only.len_bytes) => INPUT_NAMES[0].to_string(),
                _ => format!("key{index}"),
            };
            SchemaField {
                name,
                input: 0,
                offset_bytes: key.offset_bytes,
                number,
                count: key.len_bytes / number.map_or(key.len_bytes, Number::bytes).max(1),
            }
        };
        Schema {
            record_bytes: vec![format.record_bytes()],
            fields: keys.iter().enumerate().map(field).collect(),
            has_index: true,
        }
    }

    /// The fields of a structured array of NumPy by their own names, others as
    /// [`Schema::of_format`].
    pub fn of_npy(header: &NpyHeader, format: &RecordFormat) -> Self {
        let mut schema = Schema::of_format(format);
        if header.fields.is_empty() {
            return schema;
        }
        let field = |field: &super::NpyField| {
            let number = match field.kind {
                Some(KeyKind::Numbers(number)) => Some(number),
                _ => None,
            };
            SchemaField {
                name: field.name.clone(),
                input: 0,
                offset_bytes: field.offset_bytes,
                number,
                count: field.len_bytes / number.map_or(field.len_bytes, Number::bytes).max(1),
            }
        };
        schema.fields = header.fields.iter().map(field).collect();
        schema
    }

    /// Plain numbers called `x`.
    pub fn of_number(number: NumberType) -> Self {
        Schema::of_columns(&[(INPUT_NAMES[0], number)])
    }

    /// Plain numbers, one input each.
    pub fn of_columns(columns: &[(&str, NumberType)]) -> Self {
        let field = |(input, (name, kind)): (usize, &(&str, NumberType))| SchemaField {
            name: (*name).to_string(),
            input,
            offset_bytes: 0,
            number: Some(Number::new(*kind, Endian::NATIVE)),
            count: 1,
        };
        Schema {
            record_bytes: columns.iter().map(|(_, kind)| kind.bytes()).collect(),
            fields: columns.iter().enumerate().map(field).collect(),
            has_index: true,
        }
    }

    /// Combines several schemas. Plain numbers are called `x`, `y`, `z`, `w`; for fields of
    /// records, that name and a point come before the field's name.
    pub fn zip(schemas: &[Schema]) -> Self {
        let mut all = Schema {
            has_index: true,
            ..Schema::default()
        };
        if let [only] = schemas {
            return only.clone();
        }
        for (schema, name) in schemas.iter().zip(INPUT_NAMES) {
            let first = all.record_bytes.len();
            all.record_bytes.extend(&schema.record_bytes);
            for field in &schema.fields {
                all.fields.push(SchemaField {
                    name: match field.name == INPUT_NAMES[0] {
                        true => name.to_string(),
                        false => format!("{name}.{}", field.name),
                    },
                    input: first + field.input,
                    ..field.clone()
                });
            }
        }
        all
    }

    /// The field `name` and the type of its numbers.
    fn find(&self, name: &str) -> Result<(&SchemaField, Number)> {
        let Some(field) = self.fields.iter().find(|field| field.name == name) else {
            let mut names: Vec<&str> = self.fields.iter().map(|f| f.name.as_str()).collect();
            names.extend(self.has_index.then_some(INDEX));
            let known = || format!("known here: {}", names.join(", "));
            let hint = foreign::column(name, &names).unwrap_or_else(known);
            return Err(Error::usage(COMPILE, format!("`{name}` is unknown")).hint(hint));
        };
        let Some(number) = field.number else {
            return Err(
                Error::usage(COMPILE, format!("`{name}` is bytes, no number"))
                    .hint("give numbers a type with --key OFFSET:LEN:TYPE"),
            );
        };
        Ok((field, number))
    }
}

const COMPILE: &str = "read expression";
