//! The shape of JSON values, and the column type that fits all of them.
//!
//! Contract: a [`Shape`] is read from JSON text, and [`Shape::merge`] combines it with others into
//! one that fits all values. Integers and other numbers become numbers. If all texts are dates or
//! times, they become dates or times, as in CSV. Scalars of different kinds become texts. Objects
//! become one object with the fields of all. Fields keep the order of their first occurrence. A
//! value that is an object or a list in one place and something else in another has no common
//! shape. Pure.
//!
//! Complexity: reads each byte once, and compares each new field with all known fields.

use std::fmt;
use std::sync::Arc;

use super::column::{FLOAT_WHOLE_MAX, Kinds, TIMES, kinds_of, type_of};
use arrow_schema::{DataType, Field, Fields};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// See the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Shape {
    /// No value, or null.
    #[default]
    Null,
    Truth,
    /// Integers: whether some are negative, some beyond the exact integers of floats, and some
    /// beyond signed 64 bits.
    Integer {
        is_negative: bool,
        is_no_float: bool,
        is_large: bool,
    },
    Float,
    /// Texts, and the kinds of dates and times that all of them fit.
    Text(Kinds),
    List(Box<Shape>),
    Object(Vec<ShapeField>),
    /// Values without a common shape.
    Mixed,
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShapeField {
    pub(super) name: String,
    pub(super) shape: Shape,
}

impl Shape {
    /// Merges another value.
    pub(super) fn merge(&mut self, other: Shape) {
        *self = match (std::mem::take(self), other) {
            (Shape::Null, one) | (one, Shape::Null) => one,
            (Shape::List(mut one), Shape::List(other)) => {
                one.merge(*other);
                Shape::List(one)
            }
            (Shape::Object(mut one), Shape::Object(other)) => {
                merge_fields(&mut one, other);
                Shape::Object(one)
            }
            (
                Shape::Integer {
                    is_negative,
                    is_no_float,
                    is_large,
                },
                Shape::Integer {
                    is_negative: other_negative,
                    is_no_float: other_no_float,
                    is_large: other_large,
                },
            ) => Shape::Integer {
                is_negative: is_negative || other_negative,
                is_no_float: is_no_float || other_no_float,
                is_large: is_large || other_large,
            },
            (Shape::Text(one), Shape::Text(other)) => Shape::Text(one & other),
            (one, other) if one == other => one,
            (
                Shape::Integer {
                    is_no_float: false, ..
                },
                Shape::Float,
            )
            | (
                Shape::Float,
                Shape::Integer {
                    is_no_float: false, ..
                },
            ) => Shape::Float,
            (one, other) if one.is_scalar() && other.is_scalar() => Shape::Text(0),
            _ => Shape::Mixed,
        };
    }

    fn is_scalar(&self) -> bool {
        !matches!(self, Shape::List(_) | Shape::Object(_) | Shape::Mixed)
    }

    /// Returns the type of such values, or the name of the inner field that has none.
    pub(super) fn data_type(&self) -> Result<DataType, String> {
        Ok(match self {
            Shape::Truth => DataType::Boolean,
            Shape::Integer {
                is_large: false, ..
            } => DataType::Int64,
            Shape::Integer {
                is_negative: false, ..
            } => DataType::UInt64,
            Shape::Float => DataType::Float64,
            Shape::Text(kinds) => type_of(*kinds),
            Shape::Null | Shape::Integer { .. } => DataType::Utf8,
            Shape::List(item) => {
                DataType::List(Arc::new(Field::new_list_field(item.data_type()?, true)))
            }
            Shape::Object(fields) => DataType::Struct(fields_of(fields)?),
            Shape::Mixed => return Err(String::new()),
        })
    }
}

/// Returns the fields of an object as columns, or the name of a field without a type.
pub(super) fn fields_of(fields: &[ShapeField]) -> Result<Fields, String> {
    let fields = fields.iter().map(|ShapeField { name, shape }| {
        let data_type = shape.data_type().map_err(|inner| match inner.is_empty() {
            true => name.clone(),
            false => format!("{name}.{inner}"),
        })?;
        Ok(Field::new(name, data_type, true))
    });
    fields.collect()
}

fn merge_fields(known: &mut Vec<ShapeField>, others: Vec<ShapeField>) {
    for (place, other) in others.into_iter().enumerate() {
        // Objects of one kind mostly have their fields in one order.
        let is_same = |known: &ShapeField| known.name == other.name;
        let found = match known.get(place).is_some_and(is_same) {
            true => Some(place),
            false => known.iter().position(is_same),
        };
        match found {
            Some(found) => known[found].shape.merge(other.shape),
            None => known.push(other),
        }
    }
}

struct Seen;

impl<'de> Visitor<'de> for Seen {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::Truth)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Shape, E> {
        Ok(Shape::Integer {
            is_negative: value < 0,
            is_no_float: value.unsigned_abs() > FLOAT_WHOLE_MAX,
            is_large: false,
        })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
        Ok(Shape::Integer {
            is_negative: false,
            is_no_float: value > FLOAT_WHOLE_MAX,
            is_large: i64::try_from(value).is_err(),
        })
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(Shape::Float)
    }

    fn visit_str<E>(self, text: &str) -> Result<Shape, E> {
        Ok(Shape::Text(kinds_of(text) & TIMES))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut all = Shape::Null;
        while let Some(item) = items.next_element()? {
            all.merge(item);
        }
        Ok(Shape::List(Box::new(all)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Shape, A::Error> {
        let mut fields: Vec<ShapeField> = Vec::new();
        while let Some(name) = entries.next_key::<String>()? {
            if fields.iter().any(|known| known.name == name) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let shape = entries.next_value()?;
            fields.push(ShapeField { name, shape });
        }
        Ok(Shape::Object(fields))
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::notation;

    fn told(lines: &[&str]) -> Result<String, String> {
        let mut all = Shape::Null;
        for line in lines {
            all.merge(serde_json::from_str(line).unwrap());
        }
        all.data_type().map(|data_type| notation(&data_type))
    }

    #[test]
    fn shapes_are_merged_into_what_all_of_them_are() {
        for (lines, wanted) in [
            (
                &[r#"{"b":1,"a":null}"#, r#"{"a":2.5,"c":true,"b":-3}"#][..],
                "struct<b:i64,a:f64,c:bool>",
            ),
            (&["1", "2.5"], "f64"),
            (&["18446744073709551615", "1"], "u64"),
            (&["18446744073709551615", "-1"], "text"),
            (&["18446744073709551615", "0.5"], "text"),
            (&["9007199254740992", "0.5"], "f64"),
            (&["9007199254740993", "0.5"], "text"),
            (&["1", r#""x""#], "text"),
            (&[r#""7""#], "text"),
            (&[r#""2024-01-31""#, "null"], "date"),
            (
                &[r#""2024-01-31""#, r#""2024-01-31T10:00:00""#],
                "timestamp",
            ),
            (&[r#"["2024-01-31T10:00:00Z"]"#], "list<timestamp[us,UTC]>"),
            (&[r#"{"at":"10:00:00"}"#], "struct<at:time>"),
            (&[r#""2024-01-31""#, r#""10:00:00""#], "text"),
            (&[r#""2024-01-31""#, r#""""#], "text"),
            (&[r#""2024-01-31""#, "20240131"], "text"),
            (&["[]", "[1]", "[null,2.5]"], "list<f64>"),
            (
                &[r#"[{"x":1}]"#, r#"[{"y":"z"}]"#],
                "list<struct<x:i64,y:text>>",
            ),
            (&["null"], "text"),
        ] {
            assert_eq!(told(lines).unwrap(), wanted);
        }
        let mixed = told(&[r#"{"a":{"b":1}}"#, r#"{"a":{"b":[1]}}"#]);
        assert_eq!(mixed.unwrap_err(), "a.b");
    }
}
