//! The functions of texts.
//!
//! Contract: positions count characters, from 1, or from the end if they are negative. Regular
//! expressions have the syntax of the `regex` crate and must be literals; a replacement refers to
//! groups as `\1`. A null argument gives null, except in `concat`.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, LargeStringArray};
use arrow_schema::DataType;
use outcore::key::expr::Function;
use outcore_io::Result;
use outcore_io::units;
use regex::{Regex, RegexBuilder};

use super::value::{Value, cast, is_text, numbers_of};
use super::wrong;
use crate::notation::notation;

/// Applies `function`, one of this file's, to `values`.
pub(super) fn call(function: Function, values: &[Value], rows_count: usize) -> Result<Value> {
    match function {
        Function::Concat => concatenated(values, rows_count),
        Function::RegexpMatches => matched(function, values),
        Function::RegexpReplace | Function::RegexpExtract => by_pattern(function, values),
        Function::Substr => substring(function, values, rows_count),
        Function::SplitPart => part(function, values, rows_count),
        Function::Replace => replaced(function, values, rows_count),
        _ => trimmed(function, values, rows_count),
    }
}

/// Converts the value to a text that the kernels take.
pub(super) fn as_text(function: Function, value: &Value) -> Result<Value> {
    match value.data_type() {
        kind if is_text(kind) || *kind == DataType::Null => value.cast(&DataType::LargeUtf8),
        kind => {
            let (name, found) = (function.name(), notation(kind));
            let entry = function.entry();
            let is_swapped = kind.is_temporal() && entry.values.starts_with("unit");
            Err(
                wrong(format!("`{name}` needs text, found {found}")).hint(match is_swapped {
                    true => format!("the unit comes first, in quotes: {}", entry.form()),
                    false => "convert it with text(...)".to_owned(),
                }),
            )
        }
    }
}

/// Reads an integer argument.
fn as_whole(function: Function, value: &Value) -> Result<Value> {
    match value.data_type() {
        kind if kind.is_integer() || *kind == DataType::Null => value.cast(&DataType::Int64),
        kind => {
            let (name, kind) = (function.name(), notation(kind));
            Err(wrong(format!(
                "`{name}` needs a whole number here, found {kind}"
            )))
        }
    }
}

/// Texts that are read row by row; a scalar is the same in every row.
struct Texts {
    array: LargeStringArray,
    is_scalar: bool,
}

impl Texts {
    fn of(function: Function, value: &Value) -> Result<Self> {
        let text = as_text(function, value)?;
        Ok(Texts {
            array: text.array.as_string::<i64>().clone(),
            is_scalar: text.is_scalar,
        })
    }

    fn get(&self, row: usize) -> Option<&str> {
        let row = if self.is_scalar { 0 } else { row };
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// The number of rows to compute: one if all arguments are scalars.
fn rows_of(values: &[Value], rows_count: usize) -> (usize, bool) {
    match values.iter().all(|value| value.is_scalar) {
        true => (1, true),
        false => (rows_count, false),
    }
}

/// Builds texts of the same type as `like`.
fn made<'t>(
    texts: impl Iterator<Item = Option<Cow<'t, str>>>,
    like: &Value,
    is_scalar: bool,
) -> Result<Value> {
    let made: LargeStringArray = texts.collect();
    let made: ArrayRef = Arc::new(made);
    let kind = match like.data_type() {
        kind if is_text(kind) => kind,
        _ => &DataType::Utf8,
    };
    Ok(Value::computed(cast(&made, kind)?, is_scalar))
}

/// `substr(s, first[, count])`.
fn substring(function: Function, values: &[Value], rows_count: usize) -> Result<Value> {
    let text = Texts::of(function, &values[0])?;
    let first = numbers_of::<Int64Type>(&as_whole(function, &values[1])?);
    let count = values
        .get(2)
        .map(|count| as_whole(function, count))
        .transpose()?;
    let count = count.as_ref().map(numbers_of::<Int64Type>);
    let (rows, is_scalar) = rows_of(values, rows_count);
    let texts = (0..rows).map(|row| {
        let (text, first) = (text.get(row)?, first(row)?);
        let count = match &count {
            Some(count) => Some(count(row)?),
            None => None,
        };
        Some(Cow::Borrowed(slice(text, first, count)))
    });
    made(texts, &values[0], is_scalar)
}

/// Returns the `count` characters that start at `first`, or those before `first` if `count` is
/// negative.
fn slice(text: &str, first: i64, count: Option<i64>) -> &str {
    let chars = text.chars().count() as i64;
    let from = match first {
        ..0 => chars.saturating_add(first),
        first => first - 1,
    };
    let (from, to) = match count {
        None => (from, chars),
        Some(count @ ..0) => (from.saturating_add(count), from),
        Some(count) => (from, from.saturating_add(count)),
    };
    let byte = |place: i64| {
        let place = usize::try_from(place).unwrap_or(0);
        text.char_indices()
            .nth(place)
            .map_or(text.len(), |(at, _)| at)
    };
    match from.max(0) < to {
        true => &text[byte(from)..byte(to)],
        false => "",
    }
}

/// `trim(s[, characters])`, and its one-sided forms.
fn trimmed(function: Function, values: &[Value], rows_count: usize) -> Result<Value> {
    let text = Texts::of(function, &values[0])?;
    let letters = values
        .get(1)
        .map(|letters| Texts::of(function, letters))
        .transpose()?;
    let (rows, is_scalar) = rows_of(values, rows_count);
    let texts = (0..rows).map(|row| {
        let text = text.get(row)?;
        let letters = match &letters {
            Some(letters) => Some(letters.get(row)?),
            None => None,
        };
        let is_cut = |letter: char| match letters {
            Some(letters) => letters.contains(letter),
            None => letter.is_whitespace(),
        };
        Some(Cow::Borrowed(match function {
            Function::Ltrim => text.trim_start_matches(is_cut),
            Function::Rtrim => text.trim_end_matches(is_cut),
            _ => text.trim_matches(is_cut),
        }))
    });
    made(texts, &values[0], is_scalar)
}

/// `replace(s, from, to)`; an empty `from` changes nothing.
fn replaced(function: Function, values: &[Value], rows_count: usize) -> Result<Value> {
    let texts: Vec<Texts> = values
        .iter()
        .map(|value| Texts::of(function, value))
        .collect::<Result<_>>()?;
    let (rows, is_scalar) = rows_of(values, rows_count);
    let rows = (0..rows).map(|row| {
        let (text, from, to) = (texts[0].get(row)?, texts[1].get(row)?, texts[2].get(row)?);
        Some(match from.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(text.replace(from, to)),
        })
    });
    made(rows, &values[0], is_scalar)
}

/// `split_part(s, separator, number)`; empty where there is no such part.
fn part(function: Function, values: &[Value], rows_count: usize) -> Result<Value> {
    let text = Texts::of(function, &values[0])?;
    let separator = Texts::of(function, &values[1])?;
    let number = numbers_of::<Int64Type>(&as_whole(function, &values[2])?);
    let (rows, is_scalar) = rows_of(values, rows_count);
    let texts = (0..rows).map(|row| {
        let (text, separator, number) = (text.get(row)?, separator.get(row)?, number(row)?);
        Some(Cow::Borrowed(nth_part(text, separator, number)))
    });
    made(texts, &values[0], is_scalar)
}

fn nth_part<'t>(text: &'t str, separator: &str, number: i64) -> &'t str {
    if separator.is_empty() {
        return if number.abs() == 1 { text } else { "" };
    }
    let place = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    let part = match number {
        0 => None,
        1.. => text.split(separator).nth(place - 1),
        _ => text.rsplit(separator).nth(place - 1),
    };
    part.unwrap_or("")
}

/// `concat(a, ...)`: skips nulls, and converts other types to text.
fn concatenated(values: &[Value], rows_count: usize) -> Result<Value> {
    let texts: Vec<Texts> = values
        .iter()
        .map(|value| Texts::of(Function::Concat, &value.cast(&DataType::LargeUtf8)?))
        .collect::<Result<_>>()?;
    let (rows, is_scalar) = rows_of(values, rows_count);
    let rows = (0..rows).map(|row| {
        let parts = texts.iter().filter_map(|text| text.get(row));
        Some(Cow::Owned(parts.collect::<String>()))
    });
    made(rows, &values[0], is_scalar)
}

/// The pattern at `place`, with the options that follow it.
struct Pattern {
    regex: Regex,
    is_global: bool,
}

impl Pattern {
    fn of(function: Function, values: &[Value], options: Option<usize>) -> Result<Self> {
        let name = function.name();
        let literal = |value: &Value, what: &str| {
            let text = Texts::of(function, value)?;
            let is_fixed = value.is_scalar && text.array.is_valid(0);
            is_fixed
                .then(|| text.array.value(0).to_owned())
                .ok_or_else(|| {
                    wrong(format!(
                        "the {what} of `{name}` must be the same for all rows"
                    ))
                    .hint(format!("write it in quotes, as in {name}(s, '[0-9]+')"))
                })
        };
        let pattern = literal(&values[1], "pattern")?;
        let options = options.and_then(|place| values.get(place));
        let options = options
            .map(|options| literal(options, "options"))
            .transpose()?;
        let options = options.unwrap_or_default();
        if let Some(other) = options.chars().find(|option| !"gicsm".contains(*option)) {
            let cause = format!("`{name}` has no option `{other}`");
            return Err(wrong(cause).hint(
                "options are g (all matches), i (ignore case), s (. also matches a line end) and m \
                 (^ and $ match at each line)",
            ));
        }
        let regex = RegexBuilder::new(&pattern)
            .case_insensitive(options.contains('i'))
            .dot_matches_new_line(options.contains('s'))
            .multi_line(options.contains('m'))
            .build();
        let regex = regex.map_err(|error| {
            let text = error.to_string();
            let cause = text
                .lines()
                .last()
                .unwrap_or("")
                .trim_start_matches("error: ")
                .to_owned();
            wrong(format!("`{pattern}` is not a regular expression: {cause}"))
                .hint("a backslash makes the next character literal, as in '\\.'")
        })?;
        Ok(Pattern {
            regex,
            is_global: options.contains('g'),
        })
    }
}

/// `regexp_matches(s, pattern[, options])`.
fn matched(function: Function, values: &[Value]) -> Result<Value> {
    let pattern = Pattern::of(function, values, Some(2))?;
    let text = as_text(function, &values[0])?;
    let texts = text.array.as_string::<i64>().iter();
    let made: BooleanArray = texts
        .map(|text| Some(pattern.regex.is_match(text?)))
        .collect();
    Ok(Value::computed(Arc::new(made), text.is_scalar))
}

/// `regexp_replace(s, pattern, to[, options])` and `regexp_extract(s, pattern[, group])`.
fn by_pattern(function: Function, values: &[Value]) -> Result<Value> {
    let options = (function == Function::RegexpReplace).then_some(3);
    let pattern = Pattern::of(function, values, options)?;
    let text = as_text(function, &values[0])?;
    let texts = text.array.as_string::<i64>().iter();
    if function == Function::RegexpReplace {
        let to = as_text(function, &values[2])?;
        let to = to.array.as_string::<i64>();
        if !values[2].is_scalar || to.is_null(0) {
            let cause = "the replacement must be the same for all rows";
            return Err(wrong(cause).hint("write it in quotes; \\1 is the first group"));
        }
        let to = template(to.value(0));
        let limit = usize::from(!pattern.is_global);
        let texts = texts.map(|text| Some(pattern.regex.replacen(text?, limit, to.as_str())));
        return made(texts, &values[0], text.is_scalar);
    }
    let group = match values.get(2) {
        Some(group) => numbers_of::<Int64Type>(&as_whole(function, group)?)(0),
        None => Some(0),
    };
    let group = group.and_then(|group| usize::try_from(group).ok());
    let group = group
        .filter(|group| *group < pattern.regex.captures_len())
        .ok_or_else(|| {
            let groups = pattern.regex.captures_len() - 1;
            wrong(format!(
                "the pattern has only {}",
                units::counted(groups as u64, "group")
            ))
            .hint("groups are in parentheses and counted from 1; 0 is the whole match")
        })?;
    let texts = texts.map(|text| {
        let found = pattern
            .regex
            .captures(text?)
            .and_then(|found| found.get(group));
        Some(Cow::Borrowed(found.map_or("", |found| found.as_str())))
    });
    made(texts, &values[0], text.is_scalar)
}

/// Converts `\1` to the crate's syntax for groups, and escapes every `$`.
fn template(text: &str) -> String {
    let mut made = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '$' => made.push_str("$$"),
            '\\' => match letters.next() {
                Some(digit) if digit.is_ascii_digit() => {
                    made.push_str("${");
                    made.push(digit);
                    made.push('}');
                }
                Some(other) => made.push(other),
                None => made.push('\\'),
            },
            letter => made.push(letter),
        }
    }
    made
}
