//! What an expression says that the statistics of row groups can answer.
//!
//! Contract: of parts that are joined by `and`, those that compare a column with a literal. What is
//! left out is asked of each row anyway, so only what is certain is said: the literal must be one
//! of the column's own type.

use arrow_schema::Schema;

use super::value::{Value, common_type, in_utc};
use super::{Node, Operator};
use crate::input::{Comparison, Literal, Predicate, literal_of};

/// See the module.
pub(super) fn predicates(node: &Node, schema: &Schema) -> Vec<Predicate> {
    let mut found = Vec::new();
    add(node, schema, &mut found);
    found
}

fn add(node: &Node, schema: &Schema, found: &mut Vec<Predicate>) {
    match node {
        Node::Binary(Operator::And, one, other) => {
            add(one, schema, found);
            add(other, schema, found);
        }
        Node::Binary(operator, one, other) => {
            let compared = match (&**one, &**other) {
                (Node::Column(name), literal) => Some((name, *operator, literal)),
                (literal, Node::Column(name)) => Some((name, turned(*operator), literal)),
                _ => None,
            };
            if let Some((name, operator, literal)) = compared
                && let Some(literal) = literal_for(name, literal, schema)
                && let Some(comparison) = comparison_of(operator, literal)
            {
                found.push(Predicate {
                    column: name.clone(),
                    comparison,
                });
            }
        }
        Node::IsNull(node, is_so) => {
            if let Node::Column(name) = &**node {
                found.push(Predicate {
                    column: name.clone(),
                    comparison: match is_so {
                        true => Comparison::IsNull,
                        false => Comparison::IsNotNull,
                    },
                });
            }
        }
        Node::IsIn(node, values, true) => add_list(node, values, schema, found),
        Node::Call(name, values) => match (name.as_str(), values.as_slice()) {
            ("isin", [node, values @ ..]) => add_list(node, values, schema, found),
            ("is_null", [node]) => add(&Node::IsNull(Box::new(node.clone()), true), schema, found),
            ("is_not_null", [node]) => {
                add(&Node::IsNull(Box::new(node.clone()), false), schema, found);
            }
            _ => {}
        },
        _ => {}
    }
}

/// What is one of several is between the least of them and the largest.
fn add_list(node: &Node, values: &[Node], schema: &Schema, found: &mut Vec<Predicate>) {
    let Node::Column(name) = node else {
        return;
    };
    let literals = values.iter().map(|value| literal_for(name, value, schema));
    let Some(literals) = literals.collect::<Option<Vec<_>>>() else {
        return;
    };
    let (mut least, mut most) = (literals.first(), literals.first());
    for literal in &literals {
        let is_before = |one: Option<&Literal>| one.and_then(|one| literal.order(one));
        match (is_before(least), is_before(most)) {
            (Some(low), Some(high)) => {
                least = if low.is_lt() { Some(literal) } else { least };
                most = if high.is_gt() { Some(literal) } else { most };
            }
            _ => return,
        }
    }
    let ends = [
        least.cloned().map(Comparison::GreaterOrEqual),
        most.cloned().map(Comparison::LessOrEqual),
    ];
    let named = |comparison| Predicate {
        column: name.clone(),
        comparison,
    };
    found.extend(ends.into_iter().flatten().map(named));
}

/// The literal as a value of the column's type.
fn literal_for(name: &str, node: &Node, schema: &Schema) -> Option<Literal> {
    let literal = match node {
        Node::Boolean(value) => Value::boolean(*value),
        Node::Integer(number) => Value::integer(*number).ok()?,
        Node::Number(text) => Value::number(text).ok()?,
        Node::Text(text) => Value::text(text),
        _ => return None,
    };
    let field = schema.field_with_name(name).ok()?;
    if let (Node::Integer(number), true) = (node, field.data_type().is_floating()) {
        // It need not be a float.
        return Some(Literal::Integer(*number));
    }
    let column = arrow_array::new_empty_array(field.data_type());
    let column = in_utc(Value::column(&column).ok()?).ok()?;
    let kind = common_type(&column, &literal)?;
    match kind == *column.data_type() {
        true => literal_of(&literal.cast(&kind).ok()?.array),
        false => None,
    }
}

/// The same with the sides changed.
fn turned(operator: Operator) -> Operator {
    match operator {
        Operator::Less => Operator::Greater,
        Operator::LessEqual => Operator::GreaterEqual,
        Operator::Greater => Operator::Less,
        Operator::GreaterEqual => Operator::LessEqual,
        other => other,
    }
}

fn comparison_of(operator: Operator, literal: Literal) -> Option<Comparison> {
    Some(match operator {
        Operator::Less => Comparison::Less(literal),
        Operator::LessEqual => Comparison::LessOrEqual(literal),
        Operator::Equal => Comparison::Equal(literal),
        Operator::GreaterEqual => Comparison::GreaterOrEqual(literal),
        Operator::Greater => Comparison::Greater(literal),
        _ => return None,
    })
}
