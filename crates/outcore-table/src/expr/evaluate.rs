//! Evaluates an expression over a batch.
//!
//! Contract: as the folder's. The right side of `and` and `or`, and the branches of `where` and
//! `case`, are first evaluated for all rows. If that fails, they are evaluated only for the rows in
//! which their value matters.

use std::sync::Arc;

use arrow_arith::boolean::{and, is_not_null, is_null, not};
use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch, UInt32Array};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use outcore::key::expr::{Between, Binary, Case, Expr, Function, Group, Unary, foreign_column};
use outcore_io::{Error, Result};

use super::functions::{call, chosen};
use super::operators::{
    arithmetic, compared, connected, inverted, is_in, negated, negative, truth,
};
use super::value::{Value, cast_to, element, failed, true_rows};
use super::{COMPUTE, wrong};
use crate::schema::FieldPlace;

/// The rows for which an expression is evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'b> {
    batch: &'b RecordBatch,
    /// Whether parts are evaluated only for the rows in which they matter.
    is_careful: bool,
}

impl<'b> Scope<'b> {
    pub(super) fn of(batch: &'b RecordBatch) -> Self {
        Scope {
            batch,
            is_careful: false,
        }
    }

    /// Evaluates `expr`.
    pub(super) fn evaluate(self, expr: &Expr) -> Result<Value> {
        // A chain of operators is a tree that is deep on the left; a loop walks it so that the
        // stack stays shallow.
        let (mut chain, mut first) = (Vec::new(), expr);
        while let Expr::Binary(operator, one, other) = first {
            chain.push((*operator, &**other));
            first = one;
        }
        let mut value = self.part(first)?;
        for (operator, other) in chain.into_iter().rev() {
            value = self.operated(operator, value, other)?;
        }
        Ok(value)
    }

    fn operated(self, operator: Binary, one: Value, other: &Expr) -> Result<Value> {
        let written = other;
        match operator {
            Binary::And | Binary::Or => {
                let one = truth(one).map_err(|error| joins(operator, error))?;
                let column = one.clone().into_column(self.batch.num_rows())?;
                let decided = column.as_boolean();
                // A null does not decide the result either.
                let is_open: BooleanArray = match operator {
                    Binary::And => decided
                        .iter()
                        .map(|is_so| Some(is_so != Some(false)))
                        .collect(),
                    _ => decided
                        .iter()
                        .map(|is_so| Some(is_so != Some(true)))
                        .collect(),
                };
                let other = truth(self.within(&is_open, other)?);
                let other = other.map_err(|error| one_of(written, joins(operator, error)))?;
                connected(operator, one, other)
            }
            operator if operator.is_comparison() => self.compared(operator, one, other),
            operator => arithmetic(operator, &one, &self.evaluate(other)?),
        }
    }

    fn compared(self, operator: Binary, one: Value, other: &Expr) -> Result<Value> {
        let value = self.evaluate(other);
        let value = value.map_err(|error| not_a_text(other, error))?;
        let made = compared(operator, one, value);
        made.map_err(|error| not_a_date(other, error))
    }

    fn part(self, expr: &Expr) -> Result<Value> {
        match expr {
            Expr::Null => Ok(Value::null()),
            Expr::Bool(value) => Ok(Value::boolean(*value)),
            Expr::Int(number) => Value::integer(*number),
            Expr::Number(text) => Value::number(text),
            Expr::Text(text) => Ok(Value::text(text)),
            Expr::Column(name) => {
                let place = FieldPlace::of(self.batch.schema_ref(), name, COMPUTE)?;
                Value::column(&place.values(self.batch.column(place.root))?)
            }
            Expr::Element(of, place) => element(&self.evaluate(of)?, *place),
            Expr::Unary(Unary::Not, inner) => negated(self.evaluate(inner)?),
            Expr::Unary(Unary::Negate, inner) => negative(&self.evaluate(inner)?),
            Expr::Unary(Unary::Invert, inner) => inverted(self.evaluate(inner)?),
            Expr::Binary(..) => self.evaluate(expr),
            Expr::IsNull(inner, is_so) => {
                let value = self.evaluate(inner)?;
                let made = match is_so {
                    true => is_null(&value.array),
                    false => is_not_null(&value.array),
                };
                let made = made.map_err(|error| failed(&error))?;
                Ok(Value::computed(Arc::new(made), value.is_scalar))
            }
            Expr::In(inner, values, is_so) => {
                let value = self.evaluate(inner)?;
                is_in(&value, self.all(values)?, *is_so)
            }
            Expr::Between(between) => self.between(between),
            Expr::Case(case) => self.case(case),
            Expr::Cast(cast, inner) => cast_to(self.evaluate(inner)?, *cast),
            Expr::Call(Function::Where, values) => self.choice(values),
            Expr::Call(function, values) => {
                let values = self.arguments(*function, values)?;
                call(*function, values, self.batch.num_rows())
            }
        }
    }

    fn all(self, values: &[Expr]) -> Result<Vec<Value>> {
        values.iter().map(|value| self.evaluate(value)).collect()
    }

    /// The arguments of a function. In a function of texts, a column name after the first argument
    /// is often a text without quotes. If there is no such column, the error has that hint.
    fn arguments(self, function: Function, values: &[Expr]) -> Result<Vec<Value>> {
        let is_of_texts = function.entry().group == Group::Texts;
        let evaluated = values.iter().enumerate().map(|(place, value)| {
            let made = self.evaluate(value);
            match place > 0 && is_of_texts {
                true => made.map_err(|error| not_a_text(value, error)),
                false => made,
            }
        });
        evaluated.collect()
    }

    fn between(self, between: &Between) -> Result<Value> {
        let value = self.evaluate(&between.value)?;
        let is_above = self.compared(Binary::GreaterEqual, value.clone(), &between.least)?;
        let is_below = self.compared(Binary::LessEqual, value, &between.most)?;
        let is_inside = connected(Binary::And, is_above, is_below)?;
        match between.is_so {
            true => Ok(is_inside),
            false => negated(is_inside),
        }
    }

    /// `where(condition, a, b)`.
    fn choice(self, values: &[Expr]) -> Result<Value> {
        let [condition, one, other] = values else {
            return Err(wrong("`where` takes 3 values"));
        };
        let holds = self.holds(condition)?;
        let one = self.within(&holds, one)?;
        let other = self.within(&opposite(&holds)?, other)?;
        chosen(&holds, one, other)
    }

    fn case(self, case: &Case) -> Result<Value> {
        let of = case.of.as_ref().map(|of| self.evaluate(of)).transpose()?;
        let mut open = BooleanArray::from(vec![true; self.batch.num_rows()]);
        let mut arms = Vec::new();
        for arm in &case.arms {
            let condition = self.within(&open, &arm.condition)?;
            let condition = match &of {
                Some(of) => compared(Binary::Equal, of.clone(), condition)?,
                None => condition,
            };
            let holds = both(&self.truths(condition)?, &open)?;
            let value = self.within(&holds, &arm.value)?;
            open = both(&open, &opposite(&holds)?)?;
            arms.push((holds, value));
        }
        let mut made = match &case.otherwise {
            Some(otherwise) => self.within(&open, otherwise)?,
            None => Value::null(),
        };
        for (holds, value) in arms.into_iter().rev() {
            made = chosen(&holds, value, made)?;
        }
        Ok(made)
    }

    /// Returns the rows in which a condition is true.
    fn holds(self, condition: &Expr) -> Result<BooleanArray> {
        let found = self.evaluate(condition)?;
        self.truths(found)
    }

    fn truths(self, value: Value) -> Result<BooleanArray> {
        let column = truth(value)?.into_column(self.batch.num_rows())?;
        Ok(true_rows(column.as_boolean()))
    }

    /// Evaluates `expr`, whose values matter only in the rows `wanted`.
    fn within(self, wanted: &BooleanArray, expr: &Expr) -> Result<Value> {
        if !self.is_careful {
            match self.evaluate(expr) {
                Err(_) if wanted.false_count() > 0 => {}
                done => return done,
            }
        }
        let batch = filter_record_batch(self.batch, wanted).map_err(|error| failed(&error))?;
        let scope = Scope {
            batch: &batch,
            is_careful: true,
        };
        let value = scope.evaluate(expr)?;
        if value.is_scalar {
            return Ok(value);
        }
        let mut next = 0;
        let places = wanted.values().iter().map(|is_wanted| {
            let place = is_wanted.then_some(next);
            next += u32::from(is_wanted);
            place
        });
        let places: UInt32Array = places.collect();
        let made = take(&value.array, &places, None).map_err(|error| failed(&error))?;
        Ok(Value::computed(made, false))
    }
}

fn both(one: &BooleanArray, other: &BooleanArray) -> Result<BooleanArray> {
    and(one, other).map_err(|error| failed(&error))
}

fn opposite(of: &BooleanArray) -> Result<BooleanArray> {
    not(of).map_err(|error| failed(&error))
}

/// The error of an `or` with a text as operand. In SQL, `||` joins texts.
fn joins(operator: Binary, error: Error) -> Error {
    let is_text = error.cause().ends_with("found text");
    match operator == Binary::Or && is_text {
        true => error.hint("|| is a logical or; `a + b` or concat(a, b) joins texts"),
        false => error,
    }
}

/// The error of `a = 'x' or 'y'`.
fn one_of(other: &Expr, error: Error) -> Error {
    match other {
        Expr::Text(_) => error.hint("name in ('a', 'b') compares with several values"),
        _ => error,
    }
}

/// The error of a comparison whose right side is a word that does not name a column.
fn not_a_text(other: &Expr, error: Error) -> Error {
    let Expr::Column(name) = other else {
        return error;
    };
    if foreign_column::<&str>(name, &[]).is_some() {
        return error;
    }
    let step = format!("a text is written in quotes: '{name}'");
    match error.cause() == format!("there is no column `{name}`") {
        true => {
            let known = error.next_step().map(|known| format!("{known}; "));
            error.hint(format!("{}{step}", known.unwrap_or_default()))
        }
        false => error,
    }
}

/// The error of a comparison whose right side, such as `2024-01-31`, is a date without quotes.
fn not_a_date(other: &Expr, error: Error) -> Error {
    let Some([year, month, day]) = subtraction(other) else {
        return error;
    };
    let date = format!("{year}-{month:02}-{day:02}");
    let cause = format!(
        "`{date}` is a subtraction here, which gives {}",
        year - month - day
    );
    wrong(cause).hint(format!("put dates in quotes: '{date}'"))
}

/// The year, the month and the day of a date that was read as a subtraction.
fn subtraction(expr: &Expr) -> Option<[i128; 3]> {
    let Expr::Binary(Binary::Subtract, front, day) = expr else {
        return None;
    };
    let Expr::Binary(Binary::Subtract, year, month) = &**front else {
        return None;
    };
    match (&**year, &**month, &**day) {
        (&Expr::Int(year @ 1000..=9999), &Expr::Int(month @ 1..=12), &Expr::Int(day @ 1..=31)) => {
            Some([year, month, day])
        }
        _ => None,
    }
}
