//! Calls of functions and casts, by name.
//!
//! Contract: an unknown name, or a wrong number of arguments, is an error that lists the
//! alternatives.

use outcore_io::{Error, Result, units};

use super::foreign;
use super::functions::{CASTS, Cast, CastType, FUNCTIONS, READ, has_name};
use super::tree::Expr;

/// Largest number of digits of a decimal.
const DIGITS_MAX: u8 = 38;

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
    match entry.takes(values.len()) {
        true => Ok(Expr::Call(entry.function, values)),
        false => Err(takes_other(name, entry.values, values.len())),
    }
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
    Error::usage(READ, cause).hint(match (name, count) {
        ("round", 2) => "write round(x * 10) / 10 for one digit after the point".to_owned(),
        _ => format!("write {name}({values})"),
    })
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
    error.hint(format!(
        "functions are {}, and casts {}",
        functions.join(", "),
        casts.join(", ")
    ))
}
