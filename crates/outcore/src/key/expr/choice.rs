//! Lists, ranges, cases, calls and casts, compiled for records.
//!
//! Contract: as [`super::program`]. A part whose value matters only under a condition is compiled
//! with a [`Guard`] for it.

use super::ColumnType;
use super::column::Step;
use super::functions::{Cast, CastType, Function, Place, for_tables};
use super::program::Compiler;
use super::registers::Guard;
use super::tree::{Between, Binary, Case, Expr, Unary};
use super::types::{Constant, Operand, common, wrong};
use outcore_io::Result;

impl Compiler<'_> {
    pub(super) fn is_in(&mut self, inner: &Expr, values: &[Expr], is_so: bool) -> Result<Operand> {
        let inner = self.expression(inner)?;
        let mut found = Operand::Constant(Constant::Bool(false));
        for (at, value) in values.iter().enumerate() {
            let value = self.expression(value)?;
            let equal = self.compare(Binary::Equal, inner, value)?;
            found = match at {
                0 => equal,
                _ => self.binary(Binary::Or, found, equal)?,
            };
        }
        match is_so {
            true => Ok(found),
            false => self.unary(Unary::Not, found),
        }
    }

    pub(super) fn between(&mut self, between: &Between) -> Result<Operand> {
        let value = self.expression(&between.value)?;
        let least = self.expression(&between.least)?;
        let most = self.expression(&between.most)?;
        let is_above = self.compare(Binary::GreaterEqual, value, least)?;
        let is_below = self.compare(Binary::LessEqual, value, most)?;
        let is_inside = self.binary(Binary::And, is_above, is_below)?;
        match between.is_so {
            true => Ok(is_inside),
            false => self.unary(Unary::Not, is_inside),
        }
    }

    pub(super) fn case(&mut self, case: &Case) -> Result<Operand> {
        let Some(otherwise) = &case.otherwise else {
            return Err(for_tables("`case` without `else`", "nulls"));
        };
        let of = case.of.as_ref().map(|of| self.expression(of)).transpose()?;
        let outer = self.guards.len();
        let mut arms = Vec::new();
        for arm in &case.arms {
            let condition = self.expression(&arm.condition)?;
            let condition = match of {
                Some(of) => self.compare(Binary::Equal, of, condition)?,
                None => condition,
            };
            let register = self.truth(condition)?;
            let guard = |is_so| Guard { register, is_so };
            let value = self.guarded(guard(true), &arm.value)?;
            arms.push((register, value));
            // The rest matters only if no earlier arm holds.
            self.guards.push(guard(false));
        }
        let mut made = self.expression(otherwise)?;
        self.guards.truncate(outer);
        for (register, value) in arms.into_iter().rev() {
            made = self.choose(register, value, made)?;
        }
        Ok(made)
    }

    pub(super) fn call(&mut self, function: Function, values: &[Expr]) -> Result<Operand> {
        if function.entry().place == Place::Tables {
            return Err(for_tables(
                &format!("`{}`", function.name()),
                function.entry().lacked(),
            ));
        }
        match (function, values) {
            (Function::Min, values) => self.least_of(Binary::Least, values),
            (Function::Max, values) => self.least_of(Binary::Greatest, values),
            (Function::Where, [condition, a, b]) => {
                let register = self.condition(condition)?;
                let guard = |is_so| Guard { register, is_so };
                let a = self.guarded(guard(true), a)?;
                let b = self.guarded(guard(false), b)?;
                self.choose(register, a, b)
            }
            (Function::IsIn, [inner, values @ ..]) => self.is_in(inner, values, true),
            (function, [value]) => {
                let operand = self.expression(value)?;
                self.function(function, operand)
            }
            _ => Err(wrong(format!("`{}` of other values", function.name()))),
        }
    }

    fn least_of(&mut self, operator: Binary, values: &[Expr]) -> Result<Operand> {
        let mut made: Option<Operand> = None;
        for value in values {
            let value = self.expression(value)?;
            made = Some(match made {
                None => value,
                Some(made) => self.binary(operator, made, value)?,
            });
        }
        made.ok_or_else(|| wrong("the minimum of no values"))
    }

    pub(super) fn cast_named(&mut self, cast: Cast, value: &Expr) -> Result<Operand> {
        let into = match cast.to {
            _ if cast.is_tried => return Err(for_tables(&format!("`{}`", cast.name()), "nulls")),
            CastType::Bool => ColumnType::Bool,
            CastType::Number(kind) => ColumnType::Number(kind),
            CastType::Text => return Err(for_tables("`text`", "texts")),
            CastType::Decimal { .. } => return Err(for_tables("`decimal`", "decimals")),
            _ => return Err(for_tables(&format!("`{}`", cast.name()), "dates and times")),
        };
        let operand = self.expression(value)?;
        let settled = self.settle(operand)?;
        let column = Operand::Column(settled.0, settled.1);
        let register = self.as_kind(column, into)?;
        Ok(Operand::Column(register, into))
    }

    /// `a` if the truth value in a register holds, otherwise `b`.
    fn choose(&mut self, condition: usize, a: Operand, b: Operand) -> Result<Operand> {
        let kind = ColumnType::Number(common(a, b));
        let a = self.as_kind(a, kind)?;
        let b = self.as_kind(b, kind)?;
        let to = self.program.register()?;
        self.program.steps.push(Step::Choose {
            to,
            bytes: kind.bytes(),
            condition,
            a,
            b,
        });
        Ok(Operand::Column(to, kind))
    }
}
