//! Parses the texts of a column into values.
//!
//! Contract: [`values_of`] returns a builder that parses texts into an array of a type. It rejects
//! a text that is not exactly one value of the type. Nothing is rounded or truncated: no fraction
//! of an integer, no digits of a second beyond the unit, no time of a date, no zone. Only texts
//! keep the blanks around a value. If the caller asks for floats, each is the nearest to its text;
//! if a sample chose them, each has all digits of its text. [`kinds_of`] returns the types that a
//! text may have if the caller gave none. Texts that would not print the same after parsing (`007`,
//! `+49`, integers that no float holds) stay texts.
//!
//! Complexity: reads each byte of the text once.

use std::str::FromStr;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::timezone::Tz;
use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType};
use arrow_cast::parse::{Parser, parse_decimal, string_to_datetime, string_to_time_nanoseconds};
use arrow_schema::{DataType, TimeUnit};
use outcore_io::{Error, Result};

use super::PARSE;
use crate::notation::notation;

/// The most bytes of a value that an error shows.
const SHOWN_BYTES: usize = 40;

/// Builds a column from its values, one after another.
pub(in crate::input) trait Values {
    /// Appends the value of `text`. Returns false for an invalid text, which becomes null.
    fn append(&mut self, text: &str) -> bool;
    /// Appends null.
    fn append_null(&mut self);
    /// Returns the values so far, and starts anew.
    fn finish(&mut self) -> ArrayRef;
}

struct Texts(StringBuilder);

impl Values for Texts {
    fn append(&mut self, text: &str) -> bool {
        self.0.append_value(text);
        true
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

struct Truths(BooleanBuilder);

/// Removes the blanks around a value; only texts keep them.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

fn truth_of(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

impl Values for Truths {
    fn append(&mut self, text: &str) -> bool {
        let truth = truth_of(trimmed(text));
        self.0.append_option(truth);
        truth.is_some()
    }

    fn append_null(&mut self) {
        self.0.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// Fixed-width values that `read` parses.
struct Numbers<T: ArrowPrimitiveType, R> {
    builder: PrimitiveBuilder<T>,
    read: R,
}

impl<T: ArrowPrimitiveType, R: Fn(&str) -> Option<T::Native>> Values for Numbers<T, R> {
    fn append(&mut self, text: &str) -> bool {
        let value = (self.read)(trimmed(text));
        self.builder.append_option(value);
        value.is_some()
    }

    fn append_null(&mut self) {
        self.builder.append_null();
    }

    fn finish(&mut self) -> ArrayRef {
        Arc::new(self.builder.finish())
    }
}

fn numbers<T: ArrowPrimitiveType>(
    data_type: &DataType,
    read: impl Fn(&str) -> Option<T::Native> + 'static,
) -> Box<dyn Values> {
    let builder = PrimitiveBuilder::<T>::new().with_data_type(data_type.clone());
    Box::new(Numbers { builder, read })
}

/// Returns a builder of values of `data_type`.
///
/// # Errors
/// Usage: a type that cannot be parsed from text.
pub(in crate::input) fn values_of(data_type: &DataType) -> Result<Box<dyn Values>> {
    fn whole<T: ArrowPrimitiveType + Parser>(data_type: &DataType) -> Box<dyn Values> {
        numbers::<T>(data_type, T::parse)
    }
    Ok(match data_type {
        DataType::Utf8 => Box::new(Texts(StringBuilder::new())),
        DataType::Boolean => Box::new(Truths(BooleanBuilder::new())),
        DataType::Int8 => whole::<Int8Type>(data_type),
        DataType::Int16 => whole::<Int16Type>(data_type),
        DataType::Int32 => whole::<Int32Type>(data_type),
        DataType::Int64 => whole::<Int64Type>(data_type),
        DataType::UInt8 => whole::<UInt8Type>(data_type),
        DataType::UInt16 => whole::<UInt16Type>(data_type),
        DataType::UInt32 => whole::<UInt32Type>(data_type),
        DataType::UInt64 => whole::<UInt64Type>(data_type),
        DataType::Float32 => numbers::<Float32Type>(data_type, |text| {
            let value = Float32Type::parse(text)?;
            let is_kept = value.is_finite() && is_whole_kept(text, value.into(), f32::DIGITS);
            (is_kept || !is_number(text)).then_some(value)
        }),
        DataType::Float64 => numbers::<Float64Type>(data_type, float_of),
        DataType::Date32 => numbers::<Date32Type>(data_type, date_of),
        DataType::Time64(TimeUnit::Microsecond) => {
            numbers::<Time64MicrosecondType>(data_type, time_of)
        }
        DataType::Timestamp(unit, zone) => {
            let (unit, zones) = (*unit, Zones::of(zone.as_deref()));
            let read = move |text: &str| instant_of(text, unit, &zones);
            match unit {
                TimeUnit::Second => numbers::<TimestampSecondType>(data_type, read),
                TimeUnit::Millisecond => numbers::<TimestampMillisecondType>(data_type, read),
                TimeUnit::Microsecond => numbers::<TimestampMicrosecondType>(data_type, read),
                TimeUnit::Nanosecond => numbers::<TimestampNanosecondType>(data_type, read),
            }
        }
        DataType::Decimal128(digits, scale) => {
            let (digits, scale) = (*digits, *scale);
            numbers::<Decimal128Type>(data_type, move |text| decimal_of(text, digits, scale))
        }
        other => {
            let cause = format!("values of type {} are not read from text", notation(other));
            return Err(Error::usage("read schema", cause)
                .hint("choose another type, and cast it with `outcore map`"));
        }
    })
}

/// Returns a builder for a `data_type` that a sample chose: a float must have all digits of its
/// text.
///
/// # Errors
/// As [`values_of`].
pub(super) fn inferred_values_of(data_type: &DataType) -> Result<Box<dyn Values>> {
    match data_type {
        DataType::Float64 => Ok(numbers::<Float64Type>(data_type, exact_float_of)),
        other => values_of(other),
    }
}

/// Whether the text of a float is written in digits.
fn is_number(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn float_of(text: &str) -> Option<f64> {
    let value = Float64Type::parse(text)?;
    let is_kept = value.is_finite() && is_whole_kept(text, value, f64::DIGITS);
    (is_kept || !is_number(text)).then_some(value)
}

/// Parses a float that has all digits of the text; NaN and infinity have none.
fn exact_float_of(text: &str) -> Option<f64> {
    let value = float_of(text)?;
    (!is_number(text) || has_all_digits(text, value)).then_some(value)
}

/// Whether the float, printed with as many digits as the text has, shows the same digits.
fn has_all_digits(text: &str, value: f64) -> bool {
    let significand = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = significand.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    // Trailing zeros do not count, whether after the point or in place of an exponent.
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return value == 0.0;
    }
    if digits.len() <= f64::DIGITS as usize && value.abs() >= f64::MIN_POSITIVE {
        return true;
    }
    let shown = format!("{:.*e}", digits.len() - 1, value.abs());
    let shown = shown.split('e').next().unwrap_or_default();
    shown
        .bytes()
        .filter(|byte| *byte != b'.')
        .eq(digits.bytes())
}

/// Whether the float prints as the integer in the text. A text with a point or an exponent passes.
/// So does an integer of at most `digits_held` digits, all of which the float type holds.
fn is_whole_kept(text: &str, value: f64, digits_held: u32) -> bool {
    if text.len() <= digits_held as usize {
        return true;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let digits = digits.trim_start_matches('0');
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    !is_whole || digits.len() <= digits_held as usize || format!("{:.0}", value.abs()) == digits
}

fn date_of(text: &str) -> Option<i32> {
    let is_date = text.len() <= 10 || text.starts_with(['+', '-']);
    is_date.then(|| Date32Type::parse(text)).flatten()
}

const NANOSECONDS_A_DAY: i64 = 86_400_000_000_000;

/// Parses microseconds since midnight.
fn time_of(text: &str) -> Option<i64> {
    let nanoseconds = string_to_time_nanoseconds(text).ok()?;
    // The library ignores digits after the ninth.
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let is_of_day = nanoseconds < NANOSECONDS_A_DAY;
    (is_of_day && nanoseconds % 1000 == 0 && digits <= 9).then_some(nanoseconds / 1000)
}

fn decimal_of(text: &str, digits: u8, scale: i8) -> Option<i128> {
    if let Some((_, fraction)) = text.split_once('.')
        && fraction.trim_end_matches('0').len() > usize::try_from(scale).unwrap_or(0)
    {
        return None;
    }
    let is_plain = !text.contains(['e', 'E']) && is_number(text);
    let value = is_plain.then(|| parse_decimal::<Decimal128Type>(text, digits, scale));
    value?.ok()
}

/// The zones of a column of times.
struct Zones {
    utc: Option<Tz>,
    /// Whether the column has a zone. A value without a zone of its own then has the column's zone.
    is_zoned: bool,
    /// The column's zone, if it is known.
    own: Option<Tz>,
}

impl Zones {
    fn of(zone: Option<&str>) -> Self {
        let utc = Tz::from_str("+00:00").ok();
        Zones {
            utc,
            is_zoned: zone.is_some(),
            own: match zone {
                Some("UTC") => utc,
                Some(zone) => Tz::from_str(zone).ok(),
                None => None,
            },
        }
    }
}

/// Whether the text of a time has a zone.
fn has_zone(text: &str) -> bool {
    let behind = text.as_bytes().get(10..).unwrap_or_default();
    behind
        .iter()
        .any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'))
}

fn instant_of(text: &str, unit: TimeUnit, zones: &Zones) -> Option<i64> {
    let zone = match (zones.is_zoned, has_zone(text)) {
        (false, true) => None,
        (true, false) => zones.own,
        (false, false) | (true, true) => zones.utc,
    };
    let time = string_to_datetime(&zone?, text).ok()?;
    let (seconds, nanoseconds) = (time.timestamp(), time.timestamp_subsec_nanos());
    // The library ignores digits after the ninth.
    let fraction = text.rsplit_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let (per_second, nanoseconds_of_unit) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    if digits > 9 || nanoseconds % nanoseconds_of_unit != 0 {
        return None;
    }
    let whole = seconds.checked_mul(per_second)?;
    whole.checked_add(i64::from(nanoseconds / nanoseconds_of_unit))
}

/// Possible types of a text, as bits.
pub(in crate::input) type Kinds = u16;
const TRUTH: Kinds = 1;
const INTEGER: Kinds = 2;
const FLOAT: Kinds = 4;
const DATE: Kinds = 8;
const MICROSECONDS: Kinds = 16;
const NANOSECONDS: Kinds = 32;
const ZONED: Kinds = 64;
const TIME: Kinds = 128;
const UNSIGNED: Kinds = 256;
/// A number that may have a currency, a percent sign, or marks between thousands. A column of them
/// is text, because no type has these.
const AMOUNT: Kinds = 512;
/// Kinds of dates and times, which JSON also writes as texts.
pub(super) const TIMES: Kinds = DATE | MICROSECONDS | NANOSECONDS | ZONED | TIME;
/// Before any text has been seen.
pub(in crate::input) const ANY: Kinds = Kinds::MAX;
/// A float holds every integer up to this one exactly.
pub(super) const FLOAT_WHOLE_MAX: u64 = 1 << 53;

/// Returns the types that the text may have.
pub(in crate::input) fn kinds_of(text: &str) -> Kinds {
    let text = trimmed(text);
    if truth_of(text).is_some() {
        return TRUTH;
    }
    let first = text.as_bytes().first().copied().unwrap_or(b' ');
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_padded =
        |digits: &str| matches!(digits.as_bytes(), [b'0', next, ..] if next.is_ascii_digit());
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) && !unsigned.is_empty() {
        if is_padded(unsigned) || text == "-0" {
            return 0;
        }
        let unsigned = match text.parse::<u64>() {
            Ok(_) => UNSIGNED,
            Err(_) => 0,
        };
        return match text.parse::<i64>() {
            Ok(value) if value.unsigned_abs() <= FLOAT_WHOLE_MAX => {
                unsigned | INTEGER | FLOAT | AMOUNT
            }
            Ok(_) => unsigned | INTEGER | AMOUNT,
            Err(_) => unsigned | AMOUNT,
        };
    }
    if matches!(text, "NaN" | "inf" | "-inf") {
        return FLOAT;
    }
    if matches!(first, b'-' | b'.' | b'0'..=b'9')
        && !is_padded(unsigned)
        && exact_float_of(text).is_some()
    {
        return FLOAT | AMOUNT;
    }
    if is_amount(text) {
        return AMOUNT;
    }
    if let [_, _, b':', _, _, b':', _, _, rest @ ..] = text.as_bytes() {
        let is_plain = matches!(rest, [] | [b'.', .., b'0'..=b'9']);
        return if is_plain && time_of(text).is_some() {
            TIME
        } else {
            0
        };
    }
    if !first.is_ascii_digit() || text.as_bytes().get(4) != Some(&b'-') || text.len() < 10 {
        return 0;
    }
    if text.len() == 10 {
        return match date_of(text) {
            Some(_) => DATE | MICROSECONDS | NANOSECONDS,
            None => 0,
        };
    }
    if has_zone(text) {
        let instant = instant_of(text, TimeUnit::Microsecond, &Zones::of(Some("UTC")));
        return instant.map_or(0, |_| ZONED);
    }
    let zones = Zones::of(None);
    let is_of = |unit| instant_of(text, unit, &zones).is_some();
    let mut kinds = 0;
    if is_of(TimeUnit::Microsecond) {
        kinds |= MICROSECONDS;
    }
    if is_of(TimeUnit::Nanosecond) {
        kinds |= NANOSECONDS;
    }
    kinds
}

/// Whether the text is a number, perhaps with a currency, a sign, or marks between thousands.
fn is_amount(text: &str) -> bool {
    let number = text.trim_matches(|beside| "$€£¥₹%+- ".contains(beside));
    let is_mark = |mark: char| matches!(mark, '.' | ',' | '\'' | '_' | ' ' | '\u{a0}' | '\u{202f}');
    let groups: Vec<&str> = number.split(is_mark).collect();
    let are_digits =
        |group: &&str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let [_, between @ .., last] = groups.as_slice() else {
        return groups.iter().all(are_digits);
    };
    let before_last = &number[..number.len() - last.len()];
    groups.iter().all(are_digits)
        && between.iter().all(|group| group.len() == 3)
        && (last.len() == 3 || before_last.ends_with(['.', ',']))
}

/// Whether a column of these texts is text because no number has currencies or marks.
pub(super) fn are_amounts(kinds: Kinds) -> bool {
    kinds != ANY && kinds & AMOUNT != 0 && type_of(kinds) == DataType::Utf8
}

/// Returns the type of a column whose texts all may have `kinds`.
pub(in crate::input) fn type_of(kinds: Kinds) -> DataType {
    if kinds == ANY {
        return DataType::Utf8;
    }
    let types = [
        (TRUTH, DataType::Boolean),
        (INTEGER, DataType::Int64),
        (UNSIGNED, DataType::UInt64),
        (FLOAT, DataType::Float64),
        (DATE, DataType::Date32),
        (
            MICROSECONDS,
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ),
        (NANOSECONDS, DataType::Timestamp(TimeUnit::Nanosecond, None)),
        (
            ZONED,
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ),
        (TIME, DataType::Time64(TimeUnit::Microsecond)),
    ];
    let found = types.into_iter().find(|(kind, _)| kinds & kind != 0);
    found.map_or(DataType::Utf8, |(_, data_type)| data_type)
}

/// Returns the type that the user may have meant for `text` instead of `data_type`.
pub(super) fn wider(text: &str, data_type: &DataType) -> DataType {
    match (type_of(kinds_of(text)), data_type) {
        (found @ DataType::Float64, kind) if kind.is_integer() => found,
        (found @ DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Date32) => found,
        (found @ DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Timestamp(_, None)) => {
            found
        }
        _ => DataType::Utf8,
    }
}

/// A value that does not have its column's type.
pub(super) struct Misfit {
    pub(super) column: String,
    pub(super) text: String,
    pub(super) data_type: DataType,
}

impl Misfit {
    /// The error for the user, without its place in the file.
    pub(super) fn error(&self) -> Error {
        let kind = notation(&self.data_type);
        let mut end = self.text.len().min(SHOWN_BYTES);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let more = if end < self.text.len() { "..." } else { "" };
        let cause = format!(
            "column `{}` is {kind}, and `{}{more}` is not",
            self.column,
            self.text[..end].escape_debug(),
        );
        let root = self.column.split('.').next().unwrap_or_default();
        if self.data_type == DataType::Float64 && float_of(trimmed(&self.text)).is_some() {
            return Error::corrupt(PARSE, cause).hint(format!(
                "f64 cannot hold all digits of the value: read the column as text, decimal(P,S) or the \
                 nearest f64 with --schema '{root}:f64'"
            ));
        }
        let hint = match root == self.column {
            true => {
                let wider = notation(&wider(&self.text, &self.data_type));
                format!(
                    "correct the value, or read the column as {wider} with --schema '{root}:{wider}'"
                )
            }
            false => format!("correct the value, or give the type of `{root}` with --schema"),
        };
        Error::corrupt(PARSE, cause).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_off_to_make_a_value_fit() {
        let taken = |data_type: DataType, text: &str| values_of(&data_type).unwrap().append(text);
        let stamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Arc::from));
        for (data_type, good, bad) in [
            (DataType::Int64, "-12", "1.0"),
            (DataType::Int8, "127", "128"),
            (DataType::UInt64, "18446744073709551615", "-1"),
            (DataType::Float64, "1e300", "1e400"),
            (
                DataType::Float64,
                "18446744073709551616",
                "9007199254740993",
            ),
            (DataType::Float32, "-16777216", "16777217"),
            (DataType::Float32, "inf", "1e39"),
            (DataType::Boolean, "true", "yes"),
            (DataType::Date32, "2024-02-29", "2024-02-29T10:00:00"),
            (
                stamp(TimeUnit::Second, None),
                "2024-02-29 10:00:00",
                "2024-02-29 10:00:00.5",
            ),
            (
                stamp(TimeUnit::Nanosecond, None),
                "2024-02-29T10:00:00.123456789",
                "2024-02-29T10:00:00.1234567891",
            ),
            (
                stamp(TimeUnit::Second, None),
                "2024-02-29",
                "2024-02-29T10:00:00Z",
            ),
            (
                stamp(TimeUnit::Second, Some("UTC")),
                "2024-02-29T10:00:00+02:00",
                "x",
            ),
            (DataType::Decimal128(5, 2), "123.450", "123.456"),
            (DataType::Decimal128(5, 2), "-0.5", "1234.5"),
        ] {
            assert!(taken(data_type.clone(), good), "{good} is {data_type}");
            assert!(!taken(data_type.clone(), bad), "{bad} is not {data_type}");
        }
    }

    #[test]
    fn types_are_told_by_texts_that_come_back_as_they_were() {
        let told = |texts: &[&str]| {
            let kinds = texts.iter().fold(ANY, |kinds, text| kinds & kinds_of(text));
            crate::notation::notation(&type_of(kinds))
        };
        for (texts, wanted) in [
            (&["1", "-2"][..], "i64"),
            (&["1", "2.5", "1e3", "NaN"], "f64"),
            (&["007"], "text"),
            (&["+49"], "text"),
            (&["1", "18446744073709551615"], "u64"),
            (&["-1", "18446744073709551615"], "text"),
            (&["0.5", "18446744073709551615"], "text"),
            (&["18446744073709551616"], "text"),
            (&["1", "9007199254740993 "], "i64"),
            (&["1", "\t9007199254740993"], "i64"),
            (&["1.5 ", " -2"], "f64"),
            (&["true ", "false"], "bool"),
            (&["1", "  "], "text"),
            (&["9007199254740993.0"], "text"),
            (&["9007199254740993e0"], "text"),
            (&["9.007199254740993e15"], "text"),
            (&["9007199254740992.0", "9.007199254740992e15"], "f64"),
            (&["0.1234567890123456789"], "text"),
            (&["0.30000000000000004", "1e-320"], "f64"),
            (&["1.000000000000000055511151231257827e-01"], "f64"),
            (&["1e-400"], "text"),
            (&["1e400"], "text"),
            (&["9007199254740993", "0.5"], "text"),
            (&["true", "False"], "bool"),
            (&["true", "1"], "text"),
            (&["2024-01-31"], "date"),
            (&["2024-01-31", "2024-01-31T10:00:00"], "timestamp"),
            (&["2024-01-31 10:00:00.123456789"], "timestamp[ns]"),
            (
                &["2024-01-31T10:00:00Z", "2024-01-31T10:00:00.5+02:00"],
                "timestamp[us,UTC]",
            ),
            (&["2024-01-31T10:00:00Z", "2024-01-31T10:00:00"], "text"),
            (&["2024-02-31"], "text"),
            (&["00:00:00", "23:59:59.000001"], "time"),
            (&["10:00:00", "24:00:01"], "text"),
            (&["23:59:60"], "text"),
            (&["10:00:00", "10:00:00.123456789"], "text"),
            (&["10:00:00 PM"], "text"),
            (&["10:00:00", "2024-01-31"], "text"),
            (&["20240131"], "i64"),
            (&[], "text"),
            (&["", "1"], "text"),
        ] {
            assert_eq!(told(texts), wanted, "{texts:?}");
        }
    }
}
