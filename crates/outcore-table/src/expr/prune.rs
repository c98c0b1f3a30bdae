//! Extracts the conditions of an expression that row-group statistics can decide.
//!
//! Contract: of the parts joined by `and`, it takes those that compare a column with a literal. The
//! expression is evaluated for each row later, so leaving a condition out is always safe. A
//! condition is taken only if the literal has the column's own type.

use arrow_schema::Schema;
use outcore::key::expr::{Binary, Expr, Function};

use super::value::{Value, common_type, in_utc};
use crate::input::{Comparison, Literal, Predicate, literal_of};

/// See the module.
pub(super) fn predicates(node: &Expr, schema: &Schema) -> Vec<Predicate> {
    let mut found = Vec::new();
    add(node, schema, &mut found);
    found
}

fn add(node: &Expr, schema: &Schema, found: &mut Vec<Predicate>) {
    match node {
        Expr::Binary(Binary::And, one, other) => {
            add(one, schema, found);
            add(other, schema, found);
        }
        Expr::Binary(operator, one, other) => {
            add_comparison(one, *operator, other, schema, found);
        }
        Expr::IsNull(node, is_so) => add_null(node, *is_so, found),
        Expr::In(node, values, true) => add_list(node, values, schema, found),
        Expr::Between(between) if between.is_so => {
            let ends = [
                (Binary::GreaterEqual, &between.least),
                (Binary::LessEqual, &between.most),
            ];
            for (operator, literal) in ends {
                add_comparison(&between.value, operator, literal, schema, found);
            }
        }
        Expr::Call(function, values) => match (function, values.as_slice()) {
            (Function::IsIn, [node, values @ ..]) => add_list(node, values, schema, found),
            (Function::IsNull, [node]) => add_null(node, true, found),
            (Function::IsNotNull, [node]) => add_null(node, false, found),
            _ => {}
        },
        _ => {}
    }
}

fn add_comparison(
    one: &Expr,
    operator: Binary,
    other: &Expr,
    schema: &Schema,
    found: &mut Vec<Predicate>,
) {
    let compared = match (one, other) {
        (Expr::Column(name), literal) => Some((name, operator, literal)),
        (literal, Expr::Column(name)) => Some((name, operator.exchanged(), literal)),
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

fn add_null(node: &Expr, is_so: bool, found: &mut Vec<Predicate>) {
    if let Expr::Column(name) = node {
        found.push(Predicate {
            column: name.clone(),
            comparison: match is_so {
                true => Comparison::IsNull,
                false => Comparison::IsNotNull,
            },
        });
    }
}

/// A value of a list is between the least and the largest element of the list.
fn add_list(node: &Expr, values: &[Expr], schema: &Schema, found: &mut Vec<Predicate>) {
    let Expr::Column(name) = node else {
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

/// Converts the literal to a value of the column's type.
fn literal_for(name: &str, node: &Expr, schema: &Schema) -> Option<Literal> {
    let literal = match node {
        Expr::Bool(value) => Value::boolean(*value),
        Expr::Int(number) => Value::integer(*number).ok()?,
        Expr::Number(text) => Value::number(text).ok()?,
        Expr::Text(text) => Value::text(text),
        _ => return None,
    };
    let field = schema.field_with_name(name).ok()?;
    if let (Expr::Int(number), true) = (node, field.data_type().is_floating()) {
        // An integer literal stays exact, because it may have no exact float.
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

fn comparison_of(operator: Binary, literal: Literal) -> Option<Comparison> {
    Some(match operator {
        Binary::Less => Comparison::Less(literal),
        Binary::LessEqual => Comparison::LessOrEqual(literal),
        Binary::Equal => Comparison::Equal(literal),
        Binary::GreaterEqual => Comparison::GreaterOrEqual(literal),
        Binary::Greater => Comparison::Greater(literal),
        _ => return None,
    })
}
