//! Calls of functions and casts, by name.
//!
//! Contract: an unknown name, or a wrong number of arguments, is an error that lists the
//! alternatives.

use outcore_io::{Error, Result, units};

use super::foreign;
use super::functions::{CASTS, Cast, CastType, FUNCTIONS, Function, READ, has_name};
use super::tree::{Binary, Expr};
use crate::key::record::NumberType;

/// Largest number of digits of a decimal.
const DIGITS_MAX: u8 = 38;
/// Largest number of digits that `round` takes, whose power of ten is exact in f64.
const ROUNDED_DIGITS_MAX: u128 = 15;

/// The call of `name` with the arguments `values`.
///
/// # Errors
/// Usage: an unknown function, or wrong arguments.
pub(super) fn call(name: &str, mut values: Vec<Expr>) -> Result<Expr> {
    if let Some(cast) = Cast::named(name) {
        if let CastType::Decimal { .. } = cast.to {
            return decimal(name, cast, values);
        }
        return match (values.pop(), values.len()) {
            (Some(value), 0) => Ok(Expr::Cast(cast, Box::new(value))),
            (None, _) => Err(takes_other(name, "x", 0)),
            (Some(_), more) => Err(takes_other(name, "x", more + 1)),
        };
    }
    let is_named = |known: &&str| known.eq_ignore_ascii_case(name);
    let mut entries = FUNCTIONS.iter();
    let found = entries.find(|entry| entry.names.iter().any(&is_named));
    let entry = found.ok_or_else(|| unknown(name))?;
    if entry.function == Function::Round && values.len() == 2 {
        return rounded(values);
    }
    match entry.takes(values.len()) {
        true => Ok(Expr::Call(entry.function, values)),
        false => Err(takes_other(name, entry.values, values.len())),
    }
}

/// `round(x, digits)`: a whole multiple of a power of ten.
fn rounded(mut values: Vec<Expr>) -> Result<Expr> {
    let digits = match values.pop() {
        Some(Expr::Int(digits)) if digits.unsigned_abs() <= ROUNDED_DIGITS_MAX => digits,
        _ => {
            let cause = format!("`round` takes a number of up to {ROUNDED_DIGITS_MAX} digits");
            return Err(Error::usage(READ, cause).hint("write for example round(x, 2)"));
        }
    };
    let to = CastType::Number(NumberType::F64);
    let is_tried = false;
    let value = values
        .pop()
        .map(|value| Expr::Cast(Cast { to, is_tried }, Box::new(value)));
    let value = value.ok_or_else(|| takes_other("round", "x[, digits]", 0))?;
    let unit = || {
        let zeros = "0".repeat(digits.unsigned_abs() as usize);
        Box::new(Expr::Number(format!("1{zeros}.0")))
    };
    let [first, last] = match digits < 0 {
        true => [Binary::Divide, Binary::Multiply],
        false => [Binary::Multiply, Binary::Divide],
    };
    let scaled = Expr::Binary(first, Box::new(value), unit());
    let whole = Expr::Call(Function::Round, vec![scaled]);
    Ok(Expr::Binary(last, Box::new(whole), unit()))
}

/// `decimal(x[, digits, scale])`.
fn decimal(name: &str, cast: Cast, values: Vec<Expr>) -> Result<Expr> {
    let mut values = values.into_iter();
    let (value, digits, scale) = match (values.next(), values.next(), values.next(), values.next())
    {
        (Some(value), None, None, None) => return Ok(Expr::Cast(cast, Box::new(value))),
        (Some(value), Some(Expr::Int(digits)), Some(Expr::Int(scale)), None) => {
            (value, digits, scale)
        }
        _ => return Err(takes_other(name, "x[, digits, scale]", 0)),
    };
    let within =
        |number: i128, most: u8| u8::try_from(number).ok().filter(|number| *number <= most);
    let digits = within(digits, DIGITS_MAX).filter(|digits| *digits > 0);
    let to = digits.and_then(|digits| {
        let scale = within(scale, digits)?;
        Some(CastType::Decimal { digits, scale })
    });
    let to = to.ok_or_else(|| {
        let cause = format!(
            "a decimal has 1 to {DIGITS_MAX} digits, and not more than that after the point"
        );
        Error::usage(READ, cause).hint(format!("write for example {name}(x, 18, 3)"))
    })?;
    Ok(Expr::Cast(Cast { to, ..cast }, Box::new(value)))
}

fn takes_other(name: &str, values: &str, count: usize) -> Error {
    let named = values.split(',').filter(|part| has_name(part)).count();
    let is_exact = !values.contains(['[', '.']);
    let noun = if named == 1 { "value" } else { "values" };
    let cause = match is_exact {
        true => format!("`{name}` takes {named} {noun}, but {count} are given"),
        false => format!("`{name}` does not take {count} values"),
    };
    Error::usage(READ, cause).hint(format!("write {name}({values})"))
}

fn unknown(name: &str) -> Error {
    let functions: Vec<&str> = FUNCTIONS.iter().map(|entry| entry.names[0]).collect();
    let casts: Vec<&str> = CASTS.iter().map(|(name, _)| *name).collect();
    let error = Error::usage(READ, format!("there is no function `{name}`"));
    if let Some(step) = foreign::function(name) {
        return error.hint(step);
    }
    let all: Vec<&str> = functions.iter().chain(&casts).copied().collect();
    if let Some(near) = units::nearest(name, &all) {
        return error.hint(format!("did you mean `{near}`?"));
    }
    if let Some(step) = foreign::nearly(name) {
        return error.hint(step);
    }
    error.hint("the help of the verb map lists the functions and casts")
}
