//! The values of an expression over a batch.
//!
//! Contract: as the folder's.

use std::sync::Arc;

use arrow_arith::boolean::{is_not_null, is_null, not};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use outcore_io::Result;

use super::functions::call;
use super::operators::{arithmetic, compared, connected, is_in, negative, truth};
use super::value::{Value, failed};
use super::{COMPUTE, Node, Operator};
use crate::schema::FieldPlace;

/// The values of `node` over `batch`.
pub(super) fn evaluate(node: &Node, batch: &RecordBatch) -> Result<Value> {
    let of = |node: &Node| evaluate(node, batch);
    match node {
        Node::Column(name) => {
            let place = FieldPlace::of(batch.schema_ref(), name, COMPUTE)?;
            Value::column(&place.values(batch.column(place.root))?)
        }
        Node::Null => Ok(Value::null()),
        Node::Boolean(value) => Ok(Value::boolean(*value)),
        Node::Integer(number) => Value::integer(*number),
        Node::Number(text) => Value::number(text),
        Node::Text(text) => Ok(Value::text(text)),
        Node::Not(node) => {
            let value = truth(of(node)?)?;
            let made = not(value.array.as_boolean()).map_err(|error| failed(&error))?;
            Ok(Value::computed(Arc::new(made), value.is_scalar))
        }
        Node::Negative(node) => negative(&of(node)?),
        Node::IsNull(node, is_so) => {
            let value = of(node)?;
            let made = match is_so {
                true => is_null(&value.array),
                false => is_not_null(&value.array),
            };
            let made = made.map_err(|error| failed(&error))?;
            Ok(Value::computed(Arc::new(made), value.is_scalar))
        }
        Node::IsIn(node, values, is_so) => {
            let value = of(node)?;
            let values = values.iter().map(of).collect::<Result<Vec<_>>>()?;
            is_in(&value, values, *is_so)
        }
        Node::Binary(operator @ (Operator::And | Operator::Or), one, other) => {
            let (one, other) = (truth(of(one)?)?, truth(of(other)?)?);
            connected(*operator, one, other)
        }
        Node::Binary(operator, one, other) => {
            let (one, other) = (of(one)?, of(other)?);
            match operator {
                Operator::Less
                | Operator::LessEqual
                | Operator::Equal
                | Operator::NotEqual
                | Operator::GreaterEqual
                | Operator::Greater => compared(*operator, one, other),
                _ => arithmetic(*operator, &one, &other),
            }
        }
        Node::Call(name, values) => {
            let values = values.iter().map(of).collect::<Result<Vec<_>>>()?;
            call(name, values, batch.num_rows())
        }
    }
}
