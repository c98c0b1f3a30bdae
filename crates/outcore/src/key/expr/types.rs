//! Type rules of operands, and integers before they have a type.
//!
//! Contract: pure. Types follow NumPy's promotion. A literal has no type until it is combined with
//! a column (NEP 50); integers without columns are computed exactly.

use std::cmp::Ordering;

use super::divide::Divisor;
use super::{Binary, COMPILE, ColumnType};
use crate::key::record::NumberType;
use outcore_io::{Error, Result};

/// A value that does not depend on the row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Constant {
    Int(i128),
    Float(f64),
    Bool(bool),
}

/// An operand during compilation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Constant(Constant),
    Column(usize, ColumnType),
}

pub(super) fn wrong(cause: impl Into<String>) -> Error {
    Error::usage(COMPILE, cause).hint("cast it to a type that fits, as in i64(x)")
}

/// Computes integers exactly as long as there are no columns.
pub(super) fn folded(operator: Binary, a: i128, b: i128) -> Option<i128> {
    match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        Binary::ShiftLeft => u32::try_from(b)
            .ok()
            .filter(|b| *b < 100)
            .and_then(|b| a.checked_mul(1 << b)),
        Binary::ShiftRight => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)),
        Binary::FloorDivide => a.checked_div(b).map(|quotient| match floored(a, b) {
            true => quotient - 1,
            false => quotient,
        }),
        Binary::Modulo => a.checked_rem(b).map(|rest| match floored(a, b) {
            true => rest + b,
            false => rest,
        }),
        Binary::BitAnd => Some(a & b),
        Binary::BitOr => Some(a | b),
        Binary::BitXor => Some(a ^ b),
        Binary::Least => Some(a.min(b)),
        Binary::Greatest => Some(a.max(b)),
        _ => None,
    }
}

/// Two literals with a float result, which is untyped like the literals.
pub(super) fn floats(operator: Binary, a: Operand, b: Operand) -> Option<(f64, f64)> {
    use Binary::{Add, Divide, FloorDivide, Greatest, Least, Modulo, Multiply, Power, Subtract};
    let (Operand::Constant(a), Operand::Constant(b)) = (a, b) else {
        return None;
    };
    let float = |constant| match constant {
        Constant::Int(value) => Some(value as f64),
        Constant::Float(value) => Some(value),
        Constant::Bool(_) => None,
    };
    let is_float = |constant| matches!(constant, Constant::Float(_));
    let makes_float = match operator {
        Divide => true,
        Add | Subtract | Multiply | FloorDivide | Modulo | Power | Least | Greatest => {
            is_float(a) || is_float(b)
        }
        _ => false,
    };
    Some((float(a)?, float(b)?)).filter(|_| makes_float)
}

/// The constant by which integers of `kind` are divided, unless it is zero.
pub(super) fn divisor(operator: Binary, kind: NumberType, b: Operand) -> Result<Option<Divisor>> {
    match (operator, b) {
        (Binary::FloorDivide | Binary::Modulo, Operand::Constant(Constant::Int(value)))
            if !kind.is_float() =>
        {
            check_fits(value, ColumnType::Number(kind))?;
            Ok(Divisor::new(value))
        }
        _ => Ok(None),
    }
}

/// Whether the truncated quotient is above the one rounded down.
pub(super) fn floored(a: i128, b: i128) -> bool {
    a % b != 0 && (a < 0) != (b < 0)
}

pub(super) fn check_fits(value: i128, kind: ColumnType) -> Result<()> {
    let number = kind.number();
    let bits = number.bytes() as u32 * 8;
    let (least, greatest) = match number.is_signed_integer() {
        _ if number.is_float() || kind == ColumnType::Bool => (i128::MIN, i128::MAX),
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    };
    // Registers hold 64 bits, whatever the result is used for.
    let is_wide = value < i128::from(i64::MIN) || value > i128::from(u64::MAX);
    if (least..=greatest).contains(&value) && !is_wide {
        return Ok(());
    }
    Err(wrong(format!("{value} is not a {kind}")))
}

/// A comparison with a literal, or its result for all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Beside<T> {
    Literal(Binary, T),
    All(bool),
}

/// `column operator literal` for integers, rewritten with an integer literal.
pub(super) fn beside_wholes(operator: Binary, literal: f64) -> Beside<i128> {
    use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    // 2^127 is the first integer that a signed 128-bit number cannot hold.
    let end = 2_f64.powi(127);
    if literal.is_nan() || literal.abs() >= end {
        let is_above = literal.is_nan() || literal > 0.0;
        return Beside::All(match operator {
            Less | LessEqual => is_above,
            Greater | GreaterEqual => !is_above,
            operator => operator == NotEqual,
        });
    }
    let below = literal.floor() as i128;
    match operator {
        operator if literal.floor() == literal => Beside::Literal(operator, below),
        Less | LessEqual => Beside::Literal(LessEqual, below),
        Greater | GreaterEqual => Beside::Literal(Greater, below),
        operator => Beside::All(operator != Equal),
    }
}

/// `column operator literal` for floats, rewritten with a float literal.
pub(super) fn beside_floats(operator: Binary, literal: i128, is_single: bool) -> Beside<f64> {
    use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual};
    let nearest = match is_single {
        true => f64::from(literal as f32),
        false => literal as f64,
    };
    let below = match order_of(literal, nearest) {
        Ordering::Equal => return Beside::Literal(operator, nearest),
        Ordering::Greater => nearest,
        Ordering::Less if is_single => f64::from((nearest as f32).next_down()),
        Ordering::Less => nearest.next_down(),
    };
    match operator {
        Less | LessEqual => Beside::Literal(LessEqual, below),
        Greater | GreaterEqual => Beside::Literal(Greater, below),
        operator => Beside::All(operator != Equal),
    }
}

/// Compares an integer with a float, without rounding; NaN is larger than all numbers.
pub fn order_of(whole: i128, real: f64) -> Ordering {
    // 2^127 is the first integer that a signed 128-bit number cannot hold.
    let end = 2_f64.powi(127);
    if real.is_nan() || real >= end {
        return Ordering::Less;
    }
    if real < -end {
        return Ordering::Greater;
    }
    let below = real.floor();
    let is_between = real > below;
    match whole.cmp(&(below as i128)) {
        Ordering::Equal if is_between => Ordering::Less,
        order => order,
    }
}

/// A 64-bit integer and a float: the operator with the integer first.
pub(super) fn whole_and_real(
    operator: Binary,
    a: Operand,
    b: Operand,
) -> Option<(Operand, Operand, Binary)> {
    let number = |operand| match operand {
        Operand::Column(_, kind) => Some(kind.number()),
        Operand::Constant(_) => None,
    };
    let is_wide = |kind| matches!(kind, NumberType::I64 | NumberType::U64);
    let (one, other) = (number(a)?, number(b)?);
    match (is_wide(one), is_wide(other)) {
        (true, false) if other.is_float() => Some((a, b, operator)),
        (false, true) if one.is_float() => Some((b, a, operator.exchanged())),
        _ => None,
    }
}

/// A `u64` and a signed integer: the operator with the unsigned one first.
pub(super) fn mixed(
    operator: Binary,
    a: Operand,
    b: Operand,
) -> Option<(Operand, Operand, Binary)> {
    let number = |operand| match operand {
        Operand::Column(_, kind) => Some(kind.number()),
        Operand::Constant(_) => None,
    };
    match (number(a)?, number(b)?) {
        (NumberType::U64, other) if other.is_signed_integer() => Some((a, b, operator)),
        (other, NumberType::U64) if other.is_signed_integer() => Some((b, a, operator.exchanged())),
        _ => None,
    }
}

/// The type that both are converted to.
pub(super) fn common(a: Operand, b: Operand) -> NumberType {
    let of_constant = |constant| match constant {
        Constant::Float(_) => NumberType::F64,
        Constant::Int(value) if i64::try_from(value).is_err() => NumberType::U64,
        Constant::Int(_) => NumberType::I64,
        Constant::Bool(_) => NumberType::U8,
    };
    match (a, b) {
        (Operand::Column(_, a), Operand::Column(_, b)) => promoted(a.number(), b.number()),
        (Operand::Constant(a), Operand::Constant(b)) => promoted(of_constant(a), of_constant(b)),
        (Operand::Column(_, kind), Operand::Constant(constant))
        | (Operand::Constant(constant), Operand::Column(_, kind)) => match constant {
            Constant::Float(_) if !kind.number().is_float() => NumberType::F64,
            Constant::Int(_) if kind == ColumnType::Bool => of_constant(constant),
            _ => kind.number(),
        },
    }
}

/// NumPy's promotion of two types.
pub(super) fn promoted(a: NumberType, b: NumberType) -> NumberType {
    use NumberType::{F64, I16, I32, I64, U8, U16, U32};
    if a == b {
        return a;
    }
    let (a, b) = if a.bytes() >= b.bytes() {
        (a, b)
    } else {
        (b, a)
    };
    match (a.is_float(), b.is_float()) {
        (true, true) => F64,
        (true, false) => match b.bytes() {
            1 | 2 => a,
            _ => F64,
        },
        (false, true) => F64,
        (false, false) if a.is_signed_integer() == b.is_signed_integer() => a,
        // A wider signed type holds a narrower unsigned one.
        (false, false) if a.is_signed_integer() && a.bytes() > b.bytes() => a,
        (false, false) => {
            let unsigned = if a.is_signed_integer() { b } else { a };
            match unsigned {
                U8 => I16,
                U16 => I32,
                U32 => I64,
                _ => F64,
            }
        }
    }
}
